/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source files: from packages by their path, from disk only when the debug information names them.
 */
#include "fixture.h"

#include <sys/stat.h>

/* One line table of DWARF 4 with one unit, which names @names (absolute, or relative to @comp_dir). */
static void add_line_table(struct elf_writer *w, const char *comp_dir, const char *const *names)
{
	static const uint8_t lengths[12] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1 };
	struct buf line = { 0 }, info = { 0 }, abbrev = { 0 };

	buf_add(&line, "\0\0\0\0\4\0\0\0\0\0\1\1\1\373\16\15", 16);
	buf_add(&line, lengths, sizeof(lengths));
	buf_add_char(&line, 0); /* no include directories */
	for (; *names; names++) {
		buf_add(&line, *names, strlen(*names) + 1);
		buf_add(&line, "\0\0\0", 3);
	}
	buf_add_char(&line, 0);
	line.p[0] = (uint8_t)(line.size - 4);
	line.p[1] = (uint8_t)((line.size - 4) >> 8);
	line.p[6] = (uint8_t)(line.size - 10);
	line.p[7] = (uint8_t)((line.size - 10) >> 8);

	/* DW_TAG_compile_unit without children: DW_AT_stmt_list sec_offset, DW_AT_comp_dir string */
	buf_add(&abbrev, "\1\x11\0\x10\x17\x1b\x08\0\0\0", 10);
	buf_add(&info, "\0\0\0\0\4\0\0\0\0\0\10\1\0\0\0\0", 16);
	buf_add(&info, comp_dir, strlen(comp_dir) + 1);
	info.p[0] = (uint8_t)(info.size - 4);
	elf_writer_section(w, ".debug_info", SHT_PROGBITS, 0, buf_bytes(&info));
	elf_writer_section(w, ".debug_abbrev", SHT_PROGBITS, 0, buf_bytes(&abbrev));
	elf_writer_section(w, ".debug_line", SHT_PROGBITS, 0, buf_bytes(&line));
	buf_done(&line);
	buf_done(&info);
	buf_done(&abbrev);
}

static struct bytes debug_file(struct fixture *h, uint32_t n, const char *comp_dir, const char *const *names,
			       uint32_t alt)
{
	struct build_id id = fixture_id(n), alt_id = fixture_id(alt);
	struct elf_writer w = { 0 };
	struct buf out = { 0 };
	struct bytes ret;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w, build_id_bytes(&id));
	elf_writer_nobits(&w, ".text", SHF_ALLOC | SHF_EXECINSTR, 100);
	add_line_table(&w, comp_dir, names);
	if (alt)
		elf_writer_alt_link(&w, "/usr/lib/debug/.dwz/x", build_id_bytes(&alt_id));
	elf_writer_finish(&w, &out);
	elf_writer_done(&w);
	ret = arena_bytes(&h->a, buf_bytes(&out));
	buf_done(&out);
	return ret;
}

static const char *write_source(struct fixture *h, const char *name, const char *text)
{
	const char *path = fixture_path(h, name);

	test_file_write(path, text, strlen(text));
	return path;
}

static void from_disk_only_what_the_debug_file_names(void **state)
{
	struct fixture *h = *state;
	const char *named = write_source(h, "named.c", "int main;"),
		   *other = write_source(h, "other.c", "secret");
	const char *names[] = { named, fixture_path(h, "gone-named.c"), h->dir, NULL };

	fixture_plain(h, "x.debug", 1, debug_file(h, 1, "/", names, 0), CODEC_NONE);
	fixture_expect(h, RESOLVE_SOURCE, 1, named, bytes_of("int main;", 9));
	assert_str(h->got.file, named);
	assert_true(h->got.plain);
	/* The form that clients and proxies use. */
	fixture_expect(h, RESOLVE_SOURCE, 1, named + 1, bytes_of("int main;", 9));
	fixture_expect(h, RESOLVE_SOURCE, 1, arena_printf(&h->a, "/%s", named), bytes_of("int main;", 9));
	fixture_expect(h, RESOLVE_SOURCE, 1, arena_printf(&h->a, "%s/a/.././named.c", h->dir),
		       bytes_of("int main;", 9));

	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, other), RESOLVE_MISSING);
	assert_true(fixture_said(h, "but not this one"));
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, "/etc/passwd"), RESOLVE_MISSING);
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, fixture_path(h, "gone-named.c")), RESOLVE_MISSING);
	assert_true(fixture_said(h, "gone-named.c: does not exist"));
	/* Named, but a directory. */
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, h->dir), RESOLVE_MISSING);
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 2, named), RESOLVE_MISSING);
	assert_true(fixture_said(h, "no file or package here has build ID"));
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, ""), RESOLVE_MISSING);
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, "/"), RESOLVE_MISSING);
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, "///"), RESOLVE_MISSING);
	assert_true(fixture_said(h, "not a path"));
}

static bool exclude_private(const struct scan *s, const char *path)
{
	return strstr(path, "/private/") != NULL;
}

static void a_debug_file_names_nothing_outside_of_the_folders_that_are_served(void **state)
{
	struct fixture *h = *state;
	char outside[TEST_PATH_SIZE];
	const char *secret, *direct = fixture_path(h, "direct.c"), *through = fixture_path(h, "up/secret"),
			    *good = write_source(h, "good.c", "int x;"),
			    *to_good = fixture_path(h, "to-good.c"), *excluded;
	struct err err = { 0 };

	test_dir_make(outside);
	secret = arena_printf(&h->a, "%s/secret", outside);
	test_file_write(secret, "secret", 6);
	assert_int_equal(symlink(secret, direct), 0);
	assert_int_equal(symlink(outside, fixture_path(h, "up")), 0);
	assert_int_equal(symlink("good.c", to_good), 0);
	assert_done(dir_make(fixture_path(h, "private"), 0755, &err));
	excluded = write_source(h, "private/x.c", "private");
	{
		const char *names[] = { secret,   direct,        through,     to_good,
					excluded, "/etc/passwd", "/dev/zero", "/proc/self/environ",
					NULL };

		fixture_plain(h, "x.debug", 1, debug_file(h, 1, "/", names, 0), CODEC_NONE);
		for (size_t i = 0; names[i]; i++)
			if (names[i] != to_good && names[i] != excluded) {
				assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, names[i]),
						 RESOLVE_MISSING);
				assert_true(
					fixture_said(h, "is not below a folder whose sources are served"));
			}
	}
	assert_non_null(good);
	fixture_expect(h, RESOLVE_SOURCE, 1, to_good, bytes_of("int x;", 6));
	fixture_expect(h, RESOLVE_SOURCE, 1, excluded, bytes_of("private", 7));
	fixture_inside(h)->scan = (struct scan *)h; /* only passed on */
	fixture_inside(h)->excludes = exclude_private;
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, excluded), RESOLVE_MISSING);
	assert_true(fixture_said(h, "is excluded"));
	fixture_expect(h, RESOLVE_SOURCE, 1, to_good, bytes_of("int x;", 6));
	fixture_inside(h)->scan = NULL;
	test_dir_remove(outside);
}

static void a_pipe_is_not_waited_for(void **state)
{
	struct fixture *h = *state;
	const char *path = fixture_path(h, "pipe-named.c");
	const char *names[] = { path, NULL };

	assert_int_equal(mkfifo(path, 0644), 0);
	fixture_plain(h, "x.debug", 1, debug_file(h, 1, "/", names, 0), CODEC_NONE);
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, path), RESOLVE_MISSING);
}

static void names_are_relative_to_where_it_was_compiled(void **state)
{
	struct fixture *h = *state;
	const char *path = write_source(h, "named.c", "x"), *names[] = { "./named.c", NULL };

	fixture_plain(h, "x.debug", 1, debug_file(h, 1, h->dir, names, 0), CODEC_NONE);
	fixture_expect(h, RESOLVE_SOURCE, 1, path, bytes_of("x", 1));
}

static void without_debug_information_nothing_on_disk_is_served(void **state)
{
	struct fixture *h = *state;
	const char *path = write_source(h, "named.c", "x");

	fixture_plain(h, "x", 1, fixture_program(h, 1, 100), CODEC_NONE);
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, path), RESOLVE_MISSING);
	assert_true(fixture_said(h, "has that build ID, but not as debuginfo"));
	/* Unless the option allows it. */
	fixture_inside(h)->source_any = true;
	fixture_expect(h, RESOLVE_SOURCE, 1, path, bytes_of("x", 1));
}

static void a_changed_source_has_another_tag(void **state)
{
	struct fixture *h = *state;
	const char *path = write_source(h, "named.c", "one"), *names[] = { path, NULL };
	uint64_t tag;

	fixture_plain(h, "x.debug", 1, debug_file(h, 1, "/", names, 0), CODEC_NONE);
	fixture_expect(h, RESOLVE_SOURCE, 1, path, bytes_of("one", 3));
	tag = h->got.tag;
	fixture_expect(h, RESOLVE_SOURCE, 1, path, bytes_of("one", 3));
	assert_true(h->got.tag == tag);
	write_source(h, "named.c", "three");
	fixture_expect(h, RESOLVE_SOURCE, 1, path, bytes_of("three", 5));
	assert_true(h->got.tag != tag);
}

static void from_a_package_by_its_path(void **state)
{
	struct fixture *h = *state;
	static const char *const none[] = { NULL };
	struct pw_file debug = { .path = "./usr/lib/debug/x", .content = debug_file(h, 1, "/", none, 0) };
	struct pw_file sources[] = {
		{ .path = "./usr/src/debug/x-1.0/a.c", .content = bytes_of("int a;", 6), .mtime = 99 },
		{ .path = "./usr/src/debug/x-1.0/link.c", .mode = S_IFLNK | 0777, .link = "a.c" },
		{ .path = "./usr/src/debug/x-1.0/dir", .mode = S_IFDIR | 0755 },
		{ .path = "./b.c", .content = bytes_of("top", 3) },
	};

	fixture_package(h, "x-dbgsym.deb", 1000, fixture_deb(h, CODEC_XZ, &debug, 1));
	fixture_package(h, "x-src.deb", 1000, fixture_deb(h, CODEC_ZSTD, sources, 4));
	fixture_expect(h, RESOLVE_SOURCE, 1, "/usr/src/debug/x-1.0/a.c", bytes_of("int a;", 6));
	assert_str(h->got.file, "/usr/src/debug/x-1.0/a.c");
	assert_str(h->got.archive, fixture_path(h, "x-src.deb"));
	assert_int_equal(h->got.mtime, 99);
	fixture_expect(h, RESOLVE_SOURCE, 1, "usr/src/debug/x-1.0/a.c", bytes_of("int a;", 6));
	fixture_expect(h, RESOLVE_SOURCE, 1, "//usr/src/debug/./x-1.0/../x-1.0/a.c", bytes_of("int a;", 6));
	fixture_expect(h, RESOLVE_SOURCE, 1, "/usr/src/debug/x-1.0/link.c", bytes_of("int a;", 6));
	fixture_expect(h, RESOLVE_SOURCE, 1, "./b.c", bytes_of("top", 3));
	fixture_expect(h, RESOLVE_SOURCE, 1, "/../b.c", bytes_of("top", 3));
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, "/usr/src/debug/x-1.0/dir"), RESOLVE_MISSING);
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, "/usr/src/debug/x-1.0/none.c"), RESOLVE_MISSING);
	assert_true(fixture_said(h, "packages: 1 of 1"));
	/* Only for a build ID that is here. */
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 2, "/usr/src/debug/x-1.0/a.c"), RESOLVE_MISSING);
}

static void the_nearest_package_then_the_newest(void **state)
{
	struct fixture *h = *state;
	static const char *const none[] = { NULL };
	struct pw_file debug = { .path = "./usr/lib/debug/x", .content = debug_file(h, 1, "/", none, 0) };
	struct pw_file source = { .path = "./usr/src/a.c" };
	static const struct {
		const char *name;
		int64_t mtime;
		const char *text;
	} packages[] = {
		{ "libx-src_1.deb", 5, "near" },
		{ "other_new.deb", 9, "far, new" },
		{ "other_old.deb", 8, "far, old" },
	};

	fixture_package(h, "libx-dbg_1.deb", 1, fixture_deb(h, CODEC_NONE, &debug, 1));
	for (size_t i = 0; i < ARRAY_SIZE(packages); i++) {
		source.content = bytes_of(packages[i].text, strlen(packages[i].text));
		fixture_package(h, packages[i].name, packages[i].mtime,
				fixture_deb(h, CODEC_NONE, &source, 1));
	}
	fixture_expect(h, RESOLVE_SOURCE, 1, "/usr/src/a.c", bytes_of("near", 4));
	unlink(fixture_path(h, "libx-src_1.deb"));
	fixture_expect(h, RESOLVE_SOURCE, 1, "/usr/src/a.c", bytes_of("far, new", 8));
	unlink(fixture_path(h, "other_new.deb"));
	fixture_expect(h, RESOLVE_SOURCE, 1, "/usr/src/a.c", bytes_of("far, old", 8));
	assert_true(fixture_said(h, "libx-src_1.deb: does not exist any more"));
}

static void disk_first_where_the_debug_file_is_on_disk(void **state)
{
	struct fixture *h = *state;
	const char *path = write_source(h, "named.c", "disk"), *names[] = { path, NULL };
	struct pw_file source = { .path = arena_printf(&h->a, ".%s", path),
				  .content = bytes_of("package", 7) };
	struct pw_file debug = { .path = "./usr/lib/debug/y", .content = debug_file(h, 2, "/", names, 0) };

	fixture_plain(h, "x.debug", 1, debug_file(h, 1, "/", names, 0), CODEC_NONE);
	fixture_package(h, "y-dbg.deb", 1, fixture_deb(h, CODEC_NONE, &debug, 1));
	fixture_package(h, "src.deb", 1, fixture_deb(h, CODEC_NONE, &source, 1));
	fixture_expect(h, RESOLVE_SOURCE, 1, path, bytes_of("disk", 4));
	fixture_expect(h, RESOLVE_SOURCE, 2, path, bytes_of("package", 7));
	unlink(path);
	fixture_expect(h, RESOLVE_SOURCE, 1, path, bytes_of("package", 7));
	write_source(h, "named.c", "disk");
	unlink(fixture_path(h, "src.deb"));
	fixture_expect(h, RESOLVE_SOURCE, 1, path, bytes_of("disk", 4));
}

static void a_supplementary_file_is_looked_for_when_it_turns_up(void **state)
{
	struct fixture *h = *state;
	const char *path = write_source(h, "named.c", "x"), *other = write_source(h, "other.c", "y");
	const char *names[] = { path, NULL }, *none[] = { NULL };

	clock_test_freeze(1000);
	fixture_plain(h, "x.debug", 1, debug_file(h, 1, "/", names, 9), CODEC_NONE);
	fixture_expect(h, RESOLVE_SOURCE, 1, path, bytes_of("x", 1));
	assert_true(fixture_said(h, "its supplementary file is missing: source names"));
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, other), RESOLVE_MISSING);
	assert_true(fixture_said(h, "(its supplementary file is missing)"));
	fixture_plain(h, "x.dwz", 1, debug_file(h, 9, "/", none, 0), CODEC_NONE);
	clock_test_advance(10000);
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 1, other), RESOLVE_MISSING);
	for (struct resolve_step *s = h->why.first; s; s = s->next)
		assert_null(strstr(arena_strdup(&h->a, s->text), "supplementary"));
	fixture_expect(h, RESOLVE_SOURCE, 1, path, bytes_of("x", 1));
	clock_test_thaw();
}

/* Anyone may write any name into the debug files of a package: that gives access to no file of this
 * machine. */
static void a_debug_file_in_a_package_names_nothing_on_disk(void **state)
{
	struct fixture *h = *state;
	const char *path = write_source(h, "secret.c", "x"), *names[] = { path, NULL }, *none[] = { NULL };
	struct pw_file debug = { .path = "./usr/lib/debug/y", .content = debug_file(h, 2, "/", names, 0) };
	struct pw_file dwz = { .path = "./usr/lib/debug/.dwz/y", .content = debug_file(h, 9, "/", names, 0) };

	fixture_package(h, "y-dbg.deb", 1, fixture_deb(h, CODEC_NONE, &debug, 1));
	fixture_package(h, "y-dwz.deb", 1, fixture_deb(h, CODEC_NONE, &dwz, 1));
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 2, path), RESOLVE_MISSING);
	/* Nor does it for a debug file on disk that has the same build ID, or needs it. */
	fixture_plain(h, "y.debug", 1, debug_file(h, 2, "/", none, 9), CODEC_NONE);
	assert_int_equal(fixture_ask(h, RESOLVE_SOURCE, 2, path), RESOLVE_MISSING);
	fixture_inside(h)->source_any = true;
	fixture_expect(h, RESOLVE_SOURCE, 2, path, bytes_of("x", 1));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		T(from_disk_only_what_the_debug_file_names),
		T(a_debug_file_names_nothing_outside_of_the_folders_that_are_served),
		T(a_pipe_is_not_waited_for),
		T(names_are_relative_to_where_it_was_compiled),
		T(without_debug_information_nothing_on_disk_is_served),
		T(a_changed_source_has_another_tag),
		T(from_a_package_by_its_path),
		T(the_nearest_package_then_the_newest),
		T(disk_first_where_the_debug_file_is_on_disk),
		T(a_supplementary_file_is_looked_for_when_it_turns_up),
		T(a_debug_file_in_a_package_names_nothing_on_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
