/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executables, debug files and sections: which candidate is taken, and what is said of the others.
 */
#include "house.h"

#include <pthread.h>

static void a_file_on_disk(void **state)
{
	struct house *h = *state;
	struct bytes program = house_program(h, 1, 10000), debug = house_debug(h, 1, 20000);
	int fd;
	uint64_t off;

	house_plain(h, "ls", 1000, program, CODEC_NONE);
	house_plain(h, "ls.debug", 1000, debug, CODEC_NONE);
	house_expect(h, RESOLVE_EXECUTABLE, 1, "", program);
	house_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_str(h->got.file, house_path(h, "ls.debug"));
	assert_int_equal(h->got.archive.size, 0);
	assert_int_equal(h->got.mtime, 1000);
	assert_true(h->got.plain && !h->got.sequential_only);
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 1, ""), 0);
	assert_true(source_raw_fd(h->got.source, &fd, &off));
	source_close(h->got.source);
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 2, ""), RESOLVE_MISSING);
	assert_true(house_said(h, "no file or package here has build ID"));
}

static void what_is_there_as_something_else_is_told(void **state)
{
	struct house *h = *state;

	house_plain(h, "ls", 1000, house_program(h, 1, 100), CODEC_NONE);
	assert_int_equal(house_ask(h, RESOLVE_DEBUGINFO, 1, ""), RESOLVE_MISSING);
	assert_true(house_said(h, "has it, but not as debuginfo"));
}

static void a_compressed_file_is_opened(void **state)
{
	struct house *h = *state;
	static const enum codec_kind kinds[] = { CODEC_GZIP, CODEC_XZ, CODEC_ZSTD };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct bytes module;
		struct buf out = { 0 };

		elf_writer_program(&out, ET_REL, house_hex(10 + (uint32_t)i), 30000);
		module = arena_bytes(&h->a, buf_bytes(&out));
		buf_done(&out);
		house_plain(h, arena_printf(&h->a, "m%zu.ko.z", i), 1000, module, kinds[i]);
		house_expect(h, RESOLVE_EXECUTABLE, 10 + (uint32_t)i, "", module);
		assert_false(h->got.plain);
	}
}

static void a_member_of_a_package(void **state)
{
	struct house *h = *state;
	static const enum codec_kind kinds[] = { CODEC_NONE, CODEC_GZIP, CODEC_XZ, CODEC_ZSTD, CODEC_BZIP2 };

	for (uint32_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct bytes program = house_program(h, 20 + i, 100000),
			     debug = house_debug(h, 20 + i, 300000);
		struct pw_file files[] = {
			{ .path = "./usr/share/doc/x/copyright", .content = bytes_of("free", 4) },
			{ .path = "./usr/bin/x", .content = program, .mtime = 77 },
			{ .path = "./usr/lib/debug/x.debug", .content = debug, .mtime = 78 },
		};
		char *name = arena_printf(&h->a, "x_%u.deb", i);
		uint64_t tag;

		house_package(h, name, 1000, house_deb(h, kinds[i], files, 3));
		house_expect(h, RESOLVE_DEBUGINFO, 20 + i, "", debug);
		assert_str(h->got.file, "/usr/lib/debug/x.debug");
		assert_str(h->got.archive, house_path(h, name));
		assert_int_equal(h->got.mtime, 78);
		assert_int_equal(h->got.plain, kinds[i] == CODEC_NONE);
		tag = h->got.tag;
		house_expect(h, RESOLVE_EXECUTABLE, 20 + i, "", program);
		assert_true(h->got.tag != tag);
		house_expect(h, RESOLVE_DEBUGINFO, 20 + i, "", debug);
		assert_true(h->got.tag == tag);
	}
}

static void a_compressed_module_in_a_package(void **state)
{
	struct house *h = *state;
	struct buf out = { 0 }, packed = { 0 };
	struct pw_file file = { .path = "./lib/modules/m.ko.xz" };

	elf_writer_program(&out, ET_REL, house_hex(1), 50000);
	pw_compress(&packed, CODEC_XZ, 0, buf_bytes(&out));
	file.content = buf_bytes(&packed);
	house_package(h, "k.deb", 1000, house_deb(h, CODEC_ZSTD, &file, 1));
	house_expect(h, RESOLVE_EXECUTABLE, 1, "", buf_bytes(&out));
	buf_done(&out);
	buf_done(&packed);
}

static void the_newest_that_can_be_read_wins(void **state)
{
	struct house *h = *state;
	struct bytes small = house_program(h, 1, 100), large = house_program(h, 1, 5000);

	house_plain(h, "old", 1000, small, CODEC_NONE);
	house_plain(h, "new", 2000, large, CODEC_NONE);
	house_expect(h, RESOLVE_EXECUTABLE, 1, "", large);
	assert_int_equal(unlink(house_path(h, "new")), 0);
	house_expect(h, RESOLVE_EXECUTABLE, 1, "", small);
	assert_true(house_said(h, "new: is gone"));
	assert_int_equal(unlink(house_path(h, "old")), 0);
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
}

static void a_changed_file_is_looked_at_again(void **state)
{
	struct house *h = *state;
	struct bytes first = house_program(h, 1, 100), same_id = house_program(h, 1, 5000),
		     other = house_program(h, 2, 100);
	uint64_t tag;

	house_plain(h, "x", 1000, first, CODEC_NONE);
	house_expect(h, RESOLVE_EXECUTABLE, 1, "", first);
	tag = h->got.tag;
	/* Other bytes, the same build ID: still what was asked for, but another content. */
	test_file_write(house_path(h, "x"), same_id.p, same_id.size);
	house_expect(h, RESOLVE_EXECUTABLE, 1, "", same_id);
	assert_true(h->got.tag != tag);
	test_file_write(house_path(h, "x"), other.p, other.size);
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
	assert_true(house_said(h, "has changed since it was scanned: has another build ID"));
	test_file_write(house_path(h, "x"), "no ELF", 6);
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
}

static void a_changed_package_is_not_read(void **state)
{
	struct house *h = *state;
	struct bytes program = house_program(h, 1, 1000), other = house_program(h, 2, 1000);
	struct pw_file file = { .path = "./usr/bin/x", .content = program };
	struct bytes deb = house_deb(h, CODEC_NONE, &file, 1), changed;

	house_package(h, "x.deb", 1000, deb);
	house_expect(h, RESOLVE_EXECUTABLE, 1, "", program);
	/* Copied: other time and inode, the same bytes. */
	assert_int_equal(unlink(house_path(h, "x.deb")), 0);
	test_file_write(house_path(h, "x.deb"), deb.p, deb.size);
	house_expect(h, RESOLVE_EXECUTABLE, 1, "", program);
	file.content = other;
	changed = house_deb(h, CODEC_NONE, &file, 1);
	assert_int_equal(changed.size, deb.size);
	test_file_write(house_path(h, "x.deb"), changed.p, changed.size);
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
	assert_true(house_said(h, "is not the package that was scanned any more"));
	test_file_write(house_path(h, "x.deb"), deb.p, deb.size - 1);
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
	assert_int_equal(unlink(house_path(h, "x.deb")), 0);
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
	assert_true(house_said(h, "x.deb: is gone"));
}

/* The map leads to bytes that are no such file: they are not handed out. */
static void what_speaks_against_the_index_is_not_served(void **state)
{
	struct house *h = *state;
	struct pw_file files[] = {
		{ .path = "./usr/bin/x", .content = house_program(h, 1, 1000) },
		{ .path = "./usr/bin/y", .content = house_program(h, 2, 1000) },
		{ .path = "./usr/bin/z", .content = bytes_of("text", 4) },
	};
	struct index_artifact lies[] = { { house_id(3), ELF_IS_EXECUTABLE, 0 },
					 { house_id(4), ELF_IS_EXECUTABLE, 2 },
					 { house_id(5), ELF_IS_EXECUTABLE, 99 } };
	struct buf map = { 0 }, points = { 0 };
	struct index_artifact *list;
	uint64_t *dirs;
	size_t n, n_dirs;
	struct err err = { 0 };
	int64_t id = house_header(h, "x.deb", 1, house_deb(h, CODEC_NONE, files, 3), NULL, 0);

	house_map(h, "x.deb", &map, &points, &list, &n, &dirs, &n_dirs);
	/* Numbers of members count folders, too. */
	lies[0].member = list[0].member;
	lies[1].member = list[1].member + 1;
	assert_done(index_set_map(h->ix, id, buf_bytes(&map), 0, lies, 3, dirs, n_dirs, &err));
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 3, ""), RESOLVE_MISSING);
	assert_true(house_said(h, "its build ID is"));
	assert_int_equal(house_ask(h, RESOLVE_SECTION, 3, ".text"), RESOLVE_MISSING);
	assert_true(house_said(h, "its build ID is"));
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 4, ""), RESOLVE_MISSING);
	assert_true(house_said(h, "no ELF file"));
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 5, ""), RESOLVE_MISSING);
	assert_true(house_said(h, "has no member 99"));
	buf_done(&map);
	buf_done(&points);
}

static void what_is_here_but_broken_is_an_error_not_a_miss(void **state)
{
	struct house *h = *state;
	struct pw_file file = { .path = "./usr/bin/x", .content = house_program(h, 1, 1000) };
	struct err why = { .kind = ERR_INVALID, .text = "data.tar ends early" }, err = { 0 };
	uint32_t one = 1;
	int64_t id = house_header(h, "x.deb", 1000, house_deb(h, CODEC_NONE, &file, 1), &one, 1);

	assert_done(index_fail(h->ix, id, &why, 0, &err));
	assert_true(house_ask(h, RESOLVE_DEBUGINFO, 1, "") < 0);
	assert_int_equal(h->err.kind, ERR_INVALID);
	assert_non_null(strstr(h->err.text, "x.deb: could not be scanned: data.tar ends early"));
	/* Another that has it makes up for it. */
	house_plain(h, "x", 1, house_program(h, 1, 1000), CODEC_NONE);
	house_expect(h, RESOLVE_EXECUTABLE, 1, "", house_program(h, 1, 1000));
	assert_true(house_said(h, "could not be scanned"));
}

static void lost_resume_points_cost_time_only(void **state)
{
	struct house *h = *state;
	struct bytes program = house_program(h, 1, 300000);
	struct pw_file file = { .path = "./usr/bin/x", .content = program };
	int64_t id = house_package(h, "x.deb", 1000, house_deb(h, CODEC_GZIP, &file, 1));
	struct index_file f;
	struct buf path = { 0 };
	struct err err = { 0 };

	assert_done(index_file_by_id(h->ix, id, &h->a, &f, &err));
	scan_points_path(house_path(h, "points"), &f, &path);
	if (f.points_size) {
		unlink(buf_cstr(&path));
		house_expect(h, RESOLVE_EXECUTABLE, 1, "", program);
		assert_true(house_said(h, "resume points are missing"));
		assert_true(h->got.sequential_only);
	}
	buf_done(&path);
}

/* ---- sections ---- */

static struct bytes section_of(struct house *h, struct bytes elf, const char *name)
{
	struct source *src = source_of_mem(elf, "elf");
	struct elf_image *img;
	struct err err = { 0 };
	uint64_t off, size;

	assert_done(elf_open(src, &img, &err));
	assert_done(elf_section_range(img, elf_section_find(img, name), &off, &size, &err));
	elf_close(img);
	source_close(src);
	return bytes_of(elf.p + off, (size_t)size);
}

static void a_section_comes_from_the_debug_file_then_from_the_program(void **state)
{
	struct house *h = *state;
	struct bytes program = house_program(h, 1, 100000), debug = house_debug(h, 1, 200000);
	struct pw_file files[] = { { .path = "./usr/bin/x", .content = program },
				   { .path = "./usr/lib/debug/x", .content = debug } };

	house_package(h, "x.deb", 1000, house_deb(h, CODEC_ZSTD, files, 2));
	house_plain(h, "y", 10, house_program(h, 2, 5000), CODEC_NONE);
	house_expect(h, RESOLVE_SECTION, 1, ".debug_info", section_of(h, debug, ".debug_info"));
	assert_str(h->got.file, "/usr/lib/debug/x");
	/* It has no bytes in the debug file. */
	house_expect(h, RESOLVE_SECTION, 1, ".text", section_of(h, program, ".text"));
	assert_str(h->got.file, "/usr/bin/x");
	assert_int_equal(house_ask(h, RESOLVE_SECTION, 1, ".nothing"), RESOLVE_MISSING);
	assert_true(house_said(h, "has no such section"));
	assert_int_equal(house_ask(h, RESOLVE_SECTION, 1, ""), RESOLVE_MISSING);
	house_expect(h, RESOLVE_SECTION, 2, ".text", section_of(h, house_program(h, 2, 5000), ".text"));
	assert_true(h->got.plain);
	assert_int_equal(house_ask(h, RESOLVE_SECTION, 9, ".text"), RESOLVE_MISSING);
}

/* Of a large member it is known where its sections lie: not even its head is decoded. */
static void a_section_of_a_large_member_costs_only_itself(void **state)
{
	struct house *h = *state;
	struct bytes before = house_debug(h, 2, 190000), debug = house_debug(h, 1, 4000000);
	struct pw_file files[] = { { .path = "./usr/lib/debug/a", .content = before },
				   { .path = "./usr/lib/debug/x", .content = debug } };
	static const struct metric_family decoded = { .name = "lode_codec_decoded_bytes_total",
						      .type = METRIC_COUNTER,
						      .labels = "codec" };
	struct metric *m = metric_get(&decoded, "zstd");
	int64_t from;

	house_package(h, "x.deb", 1000, house_deb(h, CODEC_ZSTD, files, 2));
	from = metric_value(m);
	house_expect(h, RESOLVE_SECTION, 1, ".debug_line", section_of(h, debug, ".debug_line"));
	/* A third of the file, and to the next point or piece. */
	assert_in_range(metric_value(m) - from, debug.size / 3, debug.size / 2);
	assert_int_equal(house_ask(h, RESOLVE_SECTION, 1, ".nothing"), RESOLVE_MISSING);
	assert_true(house_said(h, "has no such section"));
	assert_int_equal(house_ask(h, RESOLVE_SECTION, 1, ".text"), RESOLVE_MISSING);
	assert_true(house_said(h, "has no bytes in the file"));
}

static void a_compressed_section_comes_as_it_lies(void **state)
{
	struct house *h = *state;
	struct elf_writer w = { 0 };
	struct buf out = { 0 };
	struct build_id id = house_id(1);
	uint8_t data[5000] = { 1, 2, 3 };

	elf_writer_init(&w, ELF_WRITER_S390X, ET_REL);
	elf_writer_build_id(&w, build_id_bytes(&id));
	elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, bytes_of(data, 100));
	elf_writer_compressed(&w, ".debug_line", ELFCOMPRESS_ZLIB, bytes_of(data, sizeof(data)));
	elf_writer_finish(&w, &out);
	house_plain(h, "m.ko", 1, buf_bytes(&out), CODEC_NONE);
	house_expect(h, RESOLVE_SECTION, 1, ".debug_line", section_of(h, buf_bytes(&out), ".debug_line"));
	assert_true(h->got.source == NULL);
	elf_writer_done(&w);
	buf_done(&out);
}

/* ---- packages that were not looked into ---- */

static struct {
	struct house *h;
	int n_wants, n_partials, fail_partials; /* how many partials say "not yet" first */
	void (*wake)(void *arg);
	void *arg;
	bool busy, wake_at_once, has_partial, scan_ends;
	const char *name;
	int64_t file;
} fake;

static int fake_want(struct scan *s, int64_t file, const struct build_id *id, uint32_t flags,
		     void (*wake)(void *arg), void *arg, struct err *err)
{
	fake.n_wants++;
	if (fake.busy)
		return SCAN_BUSY;
	fake.wake = wake;
	fake.arg = arg;
	if (fake.scan_ends)
		house_set_map(fake.h, file, fake.name);
	if (fake.wake_at_once)
		wake(arg);
	return 0;
}

static int fake_partial(struct scan *s, int64_t file, const struct build_id *id, uint32_t flags,
			struct pkg_map **ret_map, uint32_t *ret_number, struct buf *ret_points,
			struct err *err)
{
	struct buf map = { 0 };
	struct index_artifact *list;
	uint64_t *dirs;
	size_t n, n_dirs;
	int r = SCAN_NOT_YET;

	fake.n_partials++;
	if (!fake.has_partial || fake.fail_partials-- > 0)
		return r;
	house_map(fake.h, fake.name, &map, ret_points, &list, &n, &dirs, &n_dirs);
	for (size_t i = 0; i < n && r == SCAN_NOT_YET; i++)
		if (build_id_eq(&list[i].build_id, id) && list[i].flags & flags) {
			*ret_number = list[i].member;
			r = pkg_map_decode(buf_bytes(&map), ret_map, err);
		}
	buf_done(&map);
	return r;
}

static struct bytes header_only(struct house *h, uint32_t id)
{
	struct bytes debug = house_debug(h, id, 30000);
	struct pw_file file = { .path = "./usr/lib/debug/x", .content = debug };

	memset(&fake, 0, sizeof(fake));
	fake.h = h;
	fake.name = "h.deb";
	fake.file = house_header(h, "h.deb", 1000, house_deb(h, CODEC_GZIP, &file, 1), &id, 1);
	house_inside(h)->scan = (struct scan *)&fake;
	house_inside(h)->want = fake_want;
	house_inside(h)->partial = fake_partial;
	return debug;
}

static void without_a_scan_it_is_missing(void **state)
{
	struct house *h = *state;

	header_only(h, 1);
	house_inside(h)->scan = NULL;
	assert_int_equal(house_ask(h, RESOLVE_DEBUGINFO, 1, ""), RESOLVE_MISSING);
	assert_true(house_said(h, "h.deb: only its header was read so far"));
}

static void it_is_waited_for_and_found_then(void **state)
{
	struct house *h = *state;
	struct bytes debug = header_only(h, 1);

	assert_int_equal(house_ask(h, RESOLVE_DEBUGINFO, 1, ""), RESOLVE_WAIT);
	assert_int_equal(h->n_woken, 0);
	house_set_map(h, fake.file, "h.deb");
	fake.wake(fake.arg);
	assert_int_equal(h->n_woken, 1);
	house_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_int_equal(fake.n_wants, 1);
	house_expect(h, RESOLVE_SECTION, 1, ".debug_info", section_of(h, debug, ".debug_info"));
}

static void too_many_that_wait(void **state)
{
	struct house *h = *state;

	header_only(h, 1);
	fake.busy = true;
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_BUSY);
	assert_int_equal(h->n_woken, 0);
}

static void it_is_served_while_it_streams_by(void **state)
{
	struct house *h = *state;
	struct bytes debug = header_only(h, 1);

	fake.has_partial = true;
	house_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_int_equal(fake.n_wants, 0);
	house_expect(h, RESOLVE_SECTION, 1, ".debug_info", section_of(h, debug, ".debug_info"));
}

/* A program that has gone by is no answer for its debug file, nor the other way round. */
static void the_other_kind_is_no_answer(void **state)
{
	struct house *h = *state;
	struct bytes debug = header_only(h, 1), program = house_program(h, 1, 20000);
	const struct pw_file both[] = { { .path = "./usr/bin/x", .content = program },
					{ .path = "./usr/lib/debug/x", .content = debug } };

	fake.has_partial = true;
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_WAIT);
	assert_int_equal(fake.n_wants, 1);
	house_set_map(h, fake.file, "h.deb");
	fake.wake(fake.arg);
	assert_int_equal(house_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);

	fake.file = house_header(h, "b.deb", 1000, house_deb(h, CODEC_GZIP, both, 2), &(uint32_t){ 1 }, 1);
	fake.name = "b.deb";
	test_file_write(house_path(h, "h.deb"), "", 0);
	house_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	house_expect(h, RESOLVE_EXECUTABLE, 1, "", program);
	house_expect(h, RESOLVE_SECTION, 1, ".debug_info", section_of(h, debug, ".debug_info"));
}

/* What comes between the look and the wish is not lost, and a wish that was not needed wakes nobody. */
static void what_passes_by_meanwhile_is_seen(void **state)
{
	struct house *h = *state;
	struct bytes debug = header_only(h, 1);

	fake.has_partial = true;
	fake.fail_partials = 1;
	house_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_int_equal(fake.n_wants, 1);
	fake.wake(fake.arg);
	assert_int_equal(h->n_woken, 0);
}

static void a_pass_that_ends_meanwhile_is_seen(void **state)
{
	struct house *h = *state;
	struct bytes debug = header_only(h, 1);

	fake.scan_ends = true;
	house_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_int_equal(fake.n_wants, 1);
	fake.wake(fake.arg);
	assert_int_equal(h->n_woken, 0);
}

/* Woken before resolve() returns: then it says WAIT, whatever it found behind that. */
static void a_wake_that_came_early_counts(void **state)
{
	struct house *h = *state;

	header_only(h, 1);
	fake.wake_at_once = true;
	assert_int_equal(house_ask(h, RESOLVE_DEBUGINFO, 1, ""), RESOLVE_WAIT);
	assert_int_equal(h->n_woken, 1);
	fake.scan_ends = true;
	assert_int_equal(house_ask(h, RESOLVE_DEBUGINFO, 1, ""), RESOLVE_WAIT);
	assert_int_equal(h->n_woken, 2);
	assert_int_equal(house_ask(h, RESOLVE_DEBUGINFO, 1, ""), 0);
	source_close(h->got.source);
}

static void what_is_known_already_does_not_wait(void **state)
{
	struct house *h = *state;
	struct bytes debug = house_debug(h, 1, 100);

	header_only(h, 1);
	house_plain(h, "old.debug", 1, debug, CODEC_NONE);
	house_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_int_equal(fake.n_wants, 0);
	/* But a section that it lacks may be in the other. */
	assert_int_equal(house_ask(h, RESOLVE_SECTION, 1, ".debug_other"), RESOLVE_WAIT);
	fake.wake(fake.arg);
}

/* ---- */

static void what_is_nowhere_is_unknown(void **state)
{
	struct house *h = *state;
	struct resolve_request req = { RESOLVE_EXECUTABLE, house_id(1), { 0 } };
	uint64_t epoch = resolve_epoch(h->r);
	struct err err = { 0 };
	int64_t id;

	assert_true(resolve_unknown(h->r, &req));
	id = house_plain(h, "x", 1, house_program(h, 1, 100), CODEC_NONE);
	assert_false(resolve_unknown(h->r, &req));
	req.kind = RESOLVE_SECTION;
	assert_false(resolve_unknown(h->r, &req));
	assert_done(index_del(h->ix, id, &err));
	assert_true(resolve_unknown(h->r, &req));
	assert_true(resolve_epoch(h->r) > epoch);
}

/* The filter denies nothing that was committed, however its making and the commits fall together. */
static void what_was_committed_is_never_unknown(void **state)
{
	struct house *h = *state;
	struct resolve_request req = { .kind = RESOLVE_EXECUTABLE };
	unsigned n_denied = 0;
	struct err err = { 0 };

	for (uint32_t i = 1; i < 300; i++) {
		struct index_artifact art = { house_id(i), ELF_IS_EXECUTABLE, INDEX_NO_MEMBER };
		struct index_file f = { .kind = INDEX_PLAIN, .state = INDEX_SCANNED };

		f.path = str_of(arena_printf(&h->a, "/x/%u", i));
		req.id = house_id(i);
		assert_true(resolve_unknown(h->r, &req));
		assert_done(index_begin(h->ix, &err));
		assert_done(index_put(h->ix, &f, &err));
		assert_done(index_add_artifacts(h->ix, f.id, &art, 1, &err));
		if (i % 3 == 0)
			assert_done(id_filter_refresh(house_inside(h)->ids, &err));
		assert_done(index_commit(h->ix, &err));
		assert_false(resolve_unknown(h->r, &req));
		if (i % 2)
			assert_done(id_filter_refresh(house_inside(h)->ids, &err));
		assert_false(resolve_unknown(h->r, &req));
	}
	assert_done(id_filter_refresh(house_inside(h)->ids, &err));
	for (uint32_t i = 1; i < 600; i++) {
		struct build_id id = house_id(i);

		assert_false(i < 300 && id_filter_lacks(house_inside(h)->ids, &id));
		n_denied += id_filter_lacks(house_inside(h)->ids, &id);
	}
	assert_true(n_denied > 250);
	assert_done(index_tidy(h->ix, true, &err));
	req.id = house_id(7);
	assert_false(resolve_unknown(h->r, &req));
}

static void another_process_commits_are_noticed(void **state)
{
	struct house *h = *state;
	uint64_t epoch;
	struct index *other;
	struct index_file f = { .path = STR("/new"), .kind = INDEX_PLAIN, .state = INDEX_SCANNED };
	struct err err = { 0 };

	clock_test_freeze(1000);
	house_inside(h)->next_look_ms = 0;
	resolve_epoch(h->r);
	clock_test_advance(2000);
	epoch = resolve_epoch(h->r);
	assert_true(epoch == resolve_epoch(h->r));
	/* It removes nothing, so that the epoch of this process is as it was. */
	assert_done(index_open(house_path(h, "index.db"), &(struct index_options){ 0 }, &other, &err));
	assert_done(index_put(other, &f, &err));
	index_close(other);
	clock_test_advance(2000);
	assert_true(resolve_epoch(h->r) > epoch);
	clock_test_thaw();
}

struct crowd {
	struct house *h;
	struct build_id id;
	_Atomic int n_wrong;
};

static void nobody(void *arg)
{
}

static void *asker(void *arg)
{
	struct crowd *c = arg;

	for (int i = 0; i < 60; i++) {
		struct resolve_request req = { i % 2 ? RESOLVE_DEBUGINFO : RESOLVE_SECTION, c->id,
					       STR(".debug_info") };
		struct resolve_answer got;
		struct resolve_why why;
		struct arena a;
		struct err err = { 0 };
		uint8_t buf[100];

		arena_init(&a);
		resolve_why_init(&why, &a);
		if (resolve_unknown(c->h->r, &req) ||
		    resolve(c->h->r, &req, (struct resolve_wake){ nobody, NULL }, &got, &why, &err) != 0) {
			if (!c->n_wrong++)
				fprintf(stderr, "# %s\n", err.text);
		} else {
			if (source_read_full(got.source, got.source->size - 100, buf, 100, SOURCE_RANDOM,
					     &err) < 0)
				c->n_wrong++;
			source_close(got.source);
		}
		arena_done(&a);
	}
	return NULL;
}

static void many_threads_ask_at_once(void **state)
{
	struct house *h = *state;
	struct crowd c = { .h = h, .id = house_id(7) };
	struct bytes debug = house_debug(h, 7, 300000);
	struct pw_file file = { .path = "./x", .content = debug };
	pthread_t t[6];

	house_package(h, "x.deb", 1000, house_deb(h, CODEC_ZSTD, &file, 1));
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, asker, &c), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	assert_int_equal(c.n_wrong, 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, house_set_up, house_tear_down)
	const struct CMUnitTest tests[] = {
		T(a_file_on_disk),
		T(what_is_there_as_something_else_is_told),
		T(a_compressed_file_is_opened),
		T(a_member_of_a_package),
		T(a_compressed_module_in_a_package),
		T(the_newest_that_can_be_read_wins),
		T(a_changed_file_is_looked_at_again),
		T(a_changed_package_is_not_read),
		T(what_speaks_against_the_index_is_not_served),
		T(what_is_here_but_broken_is_an_error_not_a_miss),
		T(lost_resume_points_cost_time_only),
		T(a_section_comes_from_the_debug_file_then_from_the_program),
		T(a_section_of_a_large_member_costs_only_itself),
		T(a_compressed_section_comes_as_it_lies),
		T(without_a_scan_it_is_missing),
		T(it_is_waited_for_and_found_then),
		T(too_many_that_wait),
		T(it_is_served_while_it_streams_by),
		T(the_other_kind_is_no_answer),
		T(what_passes_by_meanwhile_is_seen),
		T(a_pass_that_ends_meanwhile_is_seen),
		T(a_wake_that_came_early_counts),
		T(what_is_known_already_does_not_wait),
		T(what_is_nowhere_is_unknown),
		T(what_was_committed_is_never_unknown),
		T(another_process_commits_are_noticed),
		T(many_threads_ask_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
