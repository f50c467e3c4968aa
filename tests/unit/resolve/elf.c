/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executables, debug files and sections: which candidate is accepted, and the steps for the others.
 */
#include "fixture.h"

#include <pthread.h>

static void a_file_on_disk(void **state)
{
	struct fixture *h = *state;
	struct bytes program = fixture_program(h, 1, 10000), debug = fixture_debug(h, 1, 20000);
	int fd;
	uint64_t off;

	fixture_plain(h, "ls", 1000, program, CODEC_NONE);
	fixture_plain(h, "ls.debug", 1000, debug, CODEC_NONE);
	fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", program);
	fixture_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_str(h->got.file, fixture_path(h, "ls.debug"));
	assert_int_equal(h->got.archive.size, 0);
	assert_int_equal(h->got.mtime, 1000);
	assert_true(h->got.plain && !h->got.sequential_only);
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 1, ""), 0);
	assert_true(source_raw_fd(h->got.source, &fd, &off));
	source_close(h->got.source);
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 2, ""), RESOLVE_MISSING);
	assert_true(fixture_said(h, "no file or package here has build ID"));
}

static void a_file_of_another_kind_is_a_step(void **state)
{
	struct fixture *h = *state;

	fixture_plain(h, "ls", 1000, fixture_program(h, 1, 100), CODEC_NONE);
	assert_int_equal(fixture_ask(h, RESOLVE_DEBUGINFO, 1, ""), RESOLVE_MISSING);
	assert_true(fixture_said(h, "has that build ID, but not as debuginfo"));
}

static void a_compressed_file_is_opened(void **state)
{
	struct fixture *h = *state;
	static const enum codec_kind kinds[] = { CODEC_GZIP, CODEC_XZ, CODEC_ZSTD };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct bytes module;
		struct buf out = { 0 };

		elf_writer_program(&out, ET_REL, fixture_hex(10 + (uint32_t)i), 30000);
		module = arena_bytes(&h->a, buf_bytes(&out));
		buf_done(&out);
		fixture_plain(h, arena_printf(&h->a, "m%zu.ko.z", i), 1000, module, kinds[i]);
		fixture_expect(h, RESOLVE_EXECUTABLE, 10 + (uint32_t)i, "", module);
		assert_false(h->got.plain);
	}
}

static void a_member_of_a_package(void **state)
{
	struct fixture *h = *state;
	static const enum codec_kind kinds[] = { CODEC_NONE, CODEC_GZIP, CODEC_XZ, CODEC_ZSTD, CODEC_BZIP2 };

	for (uint32_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct bytes program = fixture_program(h, 20 + i, 100000),
			     debug = fixture_debug(h, 20 + i, 300000);
		struct pw_file files[] = {
			{ .path = "./usr/share/doc/x/copyright", .content = bytes_of("free", 4) },
			{ .path = "./usr/bin/x", .content = program, .mtime = 77 },
			{ .path = "./usr/lib/debug/x.debug", .content = debug, .mtime = 78 },
		};
		char *name = arena_printf(&h->a, "x_%u.deb", i);
		uint64_t tag;

		fixture_package(h, name, 1000, fixture_deb(h, kinds[i], files, 3));
		fixture_expect(h, RESOLVE_DEBUGINFO, 20 + i, "", debug);
		assert_str(h->got.file, "/usr/lib/debug/x.debug");
		assert_str(h->got.archive, fixture_path(h, name));
		assert_int_equal(h->got.mtime, 78);
		assert_int_equal(h->got.plain, kinds[i] == CODEC_NONE);
		tag = h->got.tag;
		fixture_expect(h, RESOLVE_EXECUTABLE, 20 + i, "", program);
		assert_true(h->got.tag != tag);
		fixture_expect(h, RESOLVE_DEBUGINFO, 20 + i, "", debug);
		assert_true(h->got.tag == tag);
	}
}

static void a_compressed_module_in_a_package(void **state)
{
	struct fixture *h = *state;
	struct buf out = { 0 }, packed = { 0 };
	struct pw_file file = { .path = "./lib/modules/m.ko.xz" };

	elf_writer_program(&out, ET_REL, fixture_hex(1), 50000);
	pw_compress(&packed, CODEC_XZ, 0, buf_bytes(&out));
	file.content = buf_bytes(&packed);
	fixture_package(h, "k.deb", 1000, fixture_deb(h, CODEC_ZSTD, &file, 1));
	fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", buf_bytes(&out));
	buf_done(&out);
	buf_done(&packed);
}

static void the_newest_that_can_be_read_wins(void **state)
{
	struct fixture *h = *state;
	struct bytes small = fixture_program(h, 1, 100), large = fixture_program(h, 1, 5000);

	fixture_plain(h, "old", 1000, small, CODEC_NONE);
	fixture_plain(h, "new", 2000, large, CODEC_NONE);
	fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", large);
	assert_int_equal(unlink(fixture_path(h, "new")), 0);
	fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", small);
	assert_true(fixture_said(h, "new: does not exist any more"));
	assert_int_equal(unlink(fixture_path(h, "old")), 0);
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
}

static void a_changed_file_is_looked_at_again(void **state)
{
	struct fixture *h = *state;
	struct bytes first = fixture_program(h, 1, 100), same_id = fixture_program(h, 1, 5000),
		     other = fixture_program(h, 2, 100);
	uint64_t tag;

	fixture_plain(h, "x", 1000, first, CODEC_NONE);
	fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", first);
	tag = h->got.tag;
	/* Other bytes, the same build ID: still the requested file, but another content. */
	test_file_write(fixture_path(h, "x"), same_id.p, same_id.size);
	fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", same_id);
	assert_true(h->got.tag != tag);
	test_file_write(fixture_path(h, "x"), other.p, other.size);
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
	assert_true(fixture_said(h, "has changed since it was scanned: has another build ID"));
	test_file_write(fixture_path(h, "x"), "no ELF", 6);
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
}

static void a_changed_package_is_not_read(void **state)
{
	struct fixture *h = *state;
	struct bytes program = fixture_program(h, 1, 1000), other = fixture_program(h, 2, 1000);
	struct pw_file file = { .path = "./usr/bin/x", .content = program };
	struct bytes deb = fixture_deb(h, CODEC_NONE, &file, 1), changed;

	fixture_package(h, "x.deb", 1000, deb);
	fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", program);
	/* Copied: other time and inode, the same bytes. */
	assert_int_equal(unlink(fixture_path(h, "x.deb")), 0);
	test_file_write(fixture_path(h, "x.deb"), deb.p, deb.size);
	fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", program);
	file.content = other;
	changed = fixture_deb(h, CODEC_NONE, &file, 1);
	assert_int_equal(changed.size, deb.size);
	test_file_write(fixture_path(h, "x.deb"), changed.p, changed.size);
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
	assert_true(fixture_said(h, "was replaced since it was scanned"));
	test_file_write(fixture_path(h, "x.deb"), deb.p, deb.size - 1);
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
	assert_int_equal(unlink(fixture_path(h, "x.deb")), 0);
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);
	assert_true(fixture_said(h, "x.deb: does not exist any more"));
}

/* The map leads to bytes that are not such a file: they are not given out. */
static void a_file_that_contradicts_the_index_is_not_served(void **state)
{
	struct fixture *h = *state;
	struct pw_file files[] = {
		{ .path = "./usr/bin/x", .content = fixture_program(h, 1, 1000) },
		{ .path = "./usr/bin/y", .content = fixture_program(h, 2, 1000) },
		{ .path = "./usr/bin/z", .content = bytes_of("text", 4) },
	};
	struct index_artifact lies[] = { { fixture_id(3), ELF_IS_EXECUTABLE, 0 },
					 { fixture_id(4), ELF_IS_EXECUTABLE, 2 },
					 { fixture_id(5), ELF_IS_EXECUTABLE, 99 } };
	struct buf map = { 0 }, points = { 0 };
	struct index_artifact *list;
	uint64_t *dirs;
	size_t n, n_dirs;
	struct err err = { 0 };
	int64_t id = fixture_header(h, "x.deb", 1, fixture_deb(h, CODEC_NONE, files, 3), NULL, 0);

	fixture_map(h, "x.deb", &map, &points, &list, &n, &dirs, &n_dirs);
	/* Numbers of members include directories. */
	lies[0].member = list[0].member;
	lies[1].member = list[1].member + 1;
	assert_done(index_set_map(
		h->ix, id, &(struct index_content){ buf_bytes(&map), 0, lies, 3, dirs, n_dirs }, &err));
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 3, ""), RESOLVE_MISSING);
	assert_true(fixture_said(h, "its build ID is"));
	assert_int_equal(fixture_ask(h, RESOLVE_SECTION, 3, ".text"), RESOLVE_MISSING);
	assert_true(fixture_said(h, "its build ID is"));
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 4, ""), RESOLVE_MISSING);
	assert_true(fixture_said(h, "not an ELF file"));
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 5, ""), RESOLVE_MISSING);
	assert_true(fixture_said(h, "has no member 99"));
	buf_done(&map);
	buf_done(&points);
}

static void a_damaged_file_is_an_error_and_not_a_miss(void **state)
{
	struct fixture *h = *state;
	struct pw_file file = { .path = "./usr/bin/x", .content = fixture_program(h, 1, 1000) };
	struct err why = { .kind = ERR_INVALID, .text = "data.tar ends early" }, err = { 0 };
	uint32_t one = 1;
	int64_t id = fixture_header(h, "x.deb", 1000, fixture_deb(h, CODEC_NONE, &file, 1), &one, 1);

	assert_done(index_fail(h->ix, id, &why, 0, &err));
	assert_true(fixture_ask(h, RESOLVE_DEBUGINFO, 1, "") < 0);
	assert_int_equal(h->err.kind, ERR_INVALID);
	assert_non_null(strstr(h->err.text, "x.deb: could not be scanned: data.tar ends early"));
	/* Another file of the build ID is the answer instead. */
	fixture_plain(h, "x", 1, fixture_program(h, 1, 1000), CODEC_NONE);
	fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", fixture_program(h, 1, 1000));
	assert_true(fixture_said(h, "could not be scanned"));
}

static void lost_resume_points_cost_time_only(void **state)
{
	struct fixture *h = *state;
	struct bytes program = fixture_program(h, 1, 300000);
	struct pw_file file = { .path = "./usr/bin/x", .content = program };
	int64_t id = fixture_package(h, "x.deb", 1000, fixture_deb(h, CODEC_GZIP, &file, 1));
	struct index_file f;
	struct buf path = { 0 };
	struct err err = { 0 };

	assert_done(index_file_by_id(h->ix, id, &h->a, &f, &err));
	scan_points_path(fixture_path(h, "points"), &f, &path);
	if (f.points_size) {
		unlink(buf_cstr(&path));
		fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", program);
		assert_true(fixture_said(h, "resume points are missing"));
		assert_true(h->got.sequential_only);
	}
	buf_done(&path);
}

/* ---- sections ---- */

static void a_section_comes_from_the_debug_file_then_from_the_program(void **state)
{
	struct fixture *h = *state;
	struct bytes program = fixture_program(h, 1, 100000), debug = fixture_debug(h, 1, 200000);
	struct pw_file files[] = { { .path = "./usr/bin/x", .content = program },
				   { .path = "./usr/lib/debug/x", .content = debug } };

	fixture_package(h, "x.deb", 1000, fixture_deb(h, CODEC_ZSTD, files, 2));
	fixture_plain(h, "y", 10, fixture_program(h, 2, 5000), CODEC_NONE);
	fixture_expect(h, RESOLVE_SECTION, 1, ".debug_info", fixture_section(debug, ".debug_info"));
	assert_str(h->got.file, "/usr/lib/debug/x");
	/* It has no bytes in the debug file. */
	fixture_expect(h, RESOLVE_SECTION, 1, ".text", fixture_section(program, ".text"));
	assert_str(h->got.file, "/usr/bin/x");
	assert_int_equal(fixture_ask(h, RESOLVE_SECTION, 1, ".nothing"), RESOLVE_MISSING);
	assert_true(fixture_said(h, "has no such section"));
	assert_int_equal(fixture_ask(h, RESOLVE_SECTION, 1, ""), RESOLVE_MISSING);
	fixture_expect(h, RESOLVE_SECTION, 2, ".text", fixture_section(fixture_program(h, 2, 5000), ".text"));
	assert_true(h->got.plain);
	assert_int_equal(fixture_ask(h, RESOLVE_SECTION, 9, ".text"), RESOLVE_MISSING);
}

/* The map of a large member has the places of its sections: not even its head is decoded. */
static void a_section_of_a_large_member_costs_only_itself(void **state)
{
	struct fixture *h = *state;
	struct bytes before = fixture_debug(h, 2, 190000), debug = fixture_debug(h, 1, 4000000);
	struct pw_file files[] = { { .path = "./usr/lib/debug/a", .content = before },
				   { .path = "./usr/lib/debug/x", .content = debug } };
	static const struct metric_family decoded = { .name = "lode_codec_decoded_bytes_total",
						      .type = METRIC_COUNTER,
						      .labels = "codec" };
	struct metric *m = metric_get(&decoded, "zstd");
	int64_t from;

	fixture_package(h, "x.deb", 1000, fixture_deb(h, CODEC_ZSTD, files, 2));
	from = metric_value(m);
	fixture_expect(h, RESOLVE_SECTION, 1, ".debug_line", fixture_section(debug, ".debug_line"));
	/* A third of the file, and up to the next point or chunk. */
	assert_in_range(metric_value(m) - from, debug.size / 3, debug.size / 2);
	assert_int_equal(fixture_ask(h, RESOLVE_SECTION, 1, ".nothing"), RESOLVE_MISSING);
	assert_true(fixture_said(h, "has no such section"));
	assert_int_equal(fixture_ask(h, RESOLVE_SECTION, 1, ".text"), RESOLVE_MISSING);
	assert_true(fixture_said(h, "has no bytes in the file"));
}

static void a_compressed_section_comes_as_it_lies(void **state)
{
	struct fixture *h = *state;
	struct elf_writer w = { 0 };
	struct buf out = { 0 };
	struct build_id id = fixture_id(1);
	uint8_t data[5000] = { 1, 2, 3 };

	elf_writer_init(&w, ELF_WRITER_S390X, ET_REL);
	elf_writer_build_id(&w, build_id_bytes(&id));
	elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, bytes_of(data, 100));
	elf_writer_compressed(&w, ".debug_line", ELFCOMPRESS_ZLIB, bytes_of(data, sizeof(data)));
	elf_writer_finish(&w, &out);
	fixture_plain(h, "m.ko", 1, buf_bytes(&out), CODEC_NONE);
	fixture_expect(h, RESOLVE_SECTION, 1, ".debug_line", fixture_section(buf_bytes(&out), ".debug_line"));
	assert_true(h->got.source == NULL);
	elf_writer_done(&w);
	buf_done(&out);
}

/* ---- build IDs that are unknown ---- */

static void an_absent_build_id_is_unknown(void **state)
{
	struct fixture *h = *state;
	struct resolve_request req = { RESOLVE_EXECUTABLE, fixture_id(1), { 0 } };
	uint64_t epoch = resolve_epoch(h->r);
	struct err err = { 0 };
	int64_t id;

	assert_true(resolve_unknown(h->r, &req));
	id = fixture_plain(h, "x", 1, fixture_program(h, 1, 100), CODEC_NONE);
	assert_false(resolve_unknown(h->r, &req));
	req.kind = RESOLVE_SECTION;
	assert_false(resolve_unknown(h->r, &req));
	assert_done(index_del(h->ix, id, &err));
	assert_true(resolve_unknown(h->r, &req));
	assert_true(resolve_epoch(h->r) > epoch);
}

/* The filter denies nothing that was committed, however its building and the commits interleave. */
static void a_committed_build_id_is_never_unknown(void **state)
{
	struct fixture *h = *state;
	struct resolve_request req = { .kind = RESOLVE_EXECUTABLE };
	unsigned n_denied = 0;
	struct err err = { 0 };

	for (uint32_t i = 1; i < 300; i++) {
		struct index_artifact art = { fixture_id(i), ELF_IS_EXECUTABLE, INDEX_NO_MEMBER };
		struct index_file f = { .kind = INDEX_PLAIN, .state = INDEX_SCANNED };

		f.path = str_of(arena_printf(&h->a, "/x/%u", i));
		req.id = fixture_id(i);
		assert_true(resolve_unknown(h->r, &req));
		assert_done(index_begin(h->ix, &err));
		assert_done(index_put(h->ix, &f, &err));
		assert_done(index_add_artifacts(h->ix, f.id, &art, 1, &err));
		if (i % 3 == 0)
			assert_done(id_filter_refresh(fixture_inside(h)->ids, &err));
		assert_done(index_commit(h->ix, &err));
		assert_false(resolve_unknown(h->r, &req));
		if (i % 2)
			assert_done(id_filter_refresh(fixture_inside(h)->ids, &err));
		assert_false(resolve_unknown(h->r, &req));
	}
	assert_done(id_filter_refresh(fixture_inside(h)->ids, &err));
	for (uint32_t i = 1; i < 600; i++) {
		struct build_id id = fixture_id(i);

		assert_false(i < 300 && id_filter_lacks(fixture_inside(h)->ids, &id));
		n_denied += id_filter_lacks(fixture_inside(h)->ids, &id);
	}
	assert_true(n_denied > 250);
	assert_done(index_tidy(h->ix, true, &err));
	req.id = fixture_id(7);
	assert_false(resolve_unknown(h->r, &req));
}

static void another_process_commits_are_noticed(void **state)
{
	struct fixture *h = *state;
	uint64_t epoch;
	struct index *other;
	struct index_file f = { .path = STR("/new"), .kind = INDEX_PLAIN, .state = INDEX_SCANNED };
	struct err err = { 0 };

	clock_test_freeze(1000);
	fixture_inside(h)->next_check_ms = 0;
	resolve_epoch(h->r);
	clock_test_advance(2000);
	epoch = resolve_epoch(h->r);
	assert_true(epoch == resolve_epoch(h->r));
	/* It removes nothing, so the epoch of this process stays the same. */
	assert_done(index_open(fixture_path(h, "index.db"), &(struct index_options){ 0 }, &other, &err));
	assert_done(index_put(other, &f, &err));
	index_close(other);
	clock_test_advance(2000);
	assert_true(resolve_epoch(h->r) > epoch);
	clock_test_thaw();
}

struct crowd {
	struct fixture *h;
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
	struct fixture *h = *state;
	struct crowd c = { .h = h, .id = fixture_id(7) };
	struct bytes debug = fixture_debug(h, 7, 300000);
	struct pw_file file = { .path = "./x", .content = debug };
	pthread_t t[6];

	fixture_package(h, "x.deb", 1000, fixture_deb(h, CODEC_ZSTD, &file, 1));
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, asker, &c), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	assert_int_equal(c.n_wrong, 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		T(a_file_on_disk),
		T(a_file_of_another_kind_is_a_step),
		T(a_compressed_file_is_opened),
		T(a_member_of_a_package),
		T(a_compressed_module_in_a_package),
		T(the_newest_that_can_be_read_wins),
		T(a_changed_file_is_looked_at_again),
		T(a_changed_package_is_not_read),
		T(a_file_that_contradicts_the_index_is_not_served),
		T(a_damaged_file_is_an_error_and_not_a_miss),
		T(lost_resume_points_cost_time_only),
		T(a_section_comes_from_the_debug_file_then_from_the_program),
		T(a_section_of_a_large_member_costs_only_itself),
		T(a_compressed_section_comes_as_it_lies),
		T(an_absent_build_id_is_unknown),
		T(a_committed_build_id_is_never_unknown),
		T(another_process_commits_are_noticed),
		T(many_threads_ask_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
