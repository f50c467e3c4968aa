/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of /proc/PID/maps as the kernel writes them, and as a process may make them.
 */
#include "test.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "agent/files.h"
#include "agent/maps.h"

static void a_line_has_its_fields(void **state)
{
	struct maps_line l;

	assert_true(maps_line_parse(
		STR("7f5c6a228000-7f5c6a3bd000 r-xp 00028000 fe:01 1835    /usr/lib/libc.so.6"), &l));
	assert_int_equal(l.start, 0x7f5c6a228000);
	assert_int_equal(l.limit, 0x7f5c6a3bd000);
	assert_int_equal(l.offset, 0x28000);
	assert_int_equal(l.major, 0xfe);
	assert_int_equal(l.minor, 1);
	assert_int_equal(l.inode, 1835);
	assert_true(l.exec && !l.deleted);
	assert_str(l.path, "/usr/lib/libc.so.6");
	assert_true(maps_line_parse(STR("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]"),
				    &l));
	assert_str(l.path, "[vsyscall]");
	assert_true(maps_line_parse(STR("1000-2000 rw-p 00000000 00:00 0 "), &l));
	assert_true(!l.exec && !l.path.size);
}

static void a_deleted_file_is_marked_and_names_keep_their_blanks(void **state)
{
	AUTO(buf_done) struct buf path = { 0 };
	struct maps_line l;

	assert_true(maps_line_parse(STR("1000-2000 r-xp 0 08:02 7 /tmp/a b (deleted) (deleted)"), &l));
	assert_true(l.deleted);
	assert_str(l.path, "/tmp/a b (deleted)");
	/* Without a file there is none to be deleted. */
	assert_true(maps_line_parse(STR("1000-2000 r-xp 0 00:00 0 //anon (deleted)"), &l));
	assert_false(l.deleted);
	maps_path(STR("/tmp/a\\012b\\01"), &path);
	assert_str(buf_str(&path), "/tmp/a\nb\\01");
}

static void other_lines_are_none(void **state)
{
	static const char *const lines[] = {
		"",
		"-",
		"1000",
		"1000-2000",
		"1000-2000 r-xp",
		"2000-1000 r-xp 0 08:02 7 /a",
		"1000-1000 r-xp 0 08:02 7 /a",
		"g000-2000 r-xp 0 08:02 7 /a",
		"1000-2000 rx 0 08:02 7 /a",
		"11111111111111111-22222222222222222 r-xp 0 08:02 7 /a",
		"1000-2000 r-xp 0 08:02 x /a",
		"1000-2000 r-xp 0 08 7 /a",
	};
	struct maps_line l;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_false(maps_line_parse(str_of(lines[i]), &l));
}

struct seen_maps {
	size_t n;
	uint64_t last;
};

static int count_map(void *arg, const struct maps_line *l)
{
	struct seen_maps *s = arg;

	assert_true(l->start >= s->last);
	s->last = l->limit;
	s->n++;
	return 0;
}

/* The mappings change between two reads of the kernel's text, so that a later line may go back. */
static void overlapping_mappings_are_left_out(void **state)
{
	static const char text[] = "1000-3000 r-xp 0 08:02 7 /a\n"
				   "2000-4000 r-xp 0 08:02 8 /b\n"
				   "4000-5000 rw-p 0 08:02 8 /b\n"
				   "5000-6000 r-xp 0 08:02 9 /c";
	struct seen_maps s = { 0 };
	struct maps_reader r = { .fn = count_map, .arg = &s };
	size_t used;

	assert_int_equal(maps_feed(&r, str_of(text), false, &used), 0);
	assert_int_equal(s.n, 1);
	assert_true(used < sizeof(text) - 1);
	assert_int_equal(maps_feed(&r, (struct str){ text + used, sizeof(text) - 1 - used }, true, &used), 0);
	assert_int_equal(s.n, 2);
}

static void a_hundred_thousand_mappings_are_read(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	AUTO(fd_close) int fd = memfd_create("maps", MFD_CLOEXEC);
	struct seen_maps s = { 0 };
	struct err err = { 0 };

	for (uint64_t i = 0; i < 100000; i++)
		buf_printf(&text, "%llx-%llx %s 00000000 08:02 %llu /tmp/%llu\n",
			   (unsigned long long)(i * 2 + 1) << 12, (unsigned long long)(i * 2 + 2) << 12,
			   i % 2 ? "r-xp" : "rw-p", (unsigned long long)i, (unsigned long long)i);
	assert_done(fd_write(fd, text.p, text.size, &err));
	assert_done(maps_read(fd, count_map, &s, &err));
	assert_int_equal(s.n, 50000);
}

/* Before, the first 65 536 were kept, and a compiler's code left no room for the libraries, which come last. */
static void libraries_have_room_after_code_without_files(void **state)
{
	size_t n = 0;

	for (unsigned i = 0; i < 200000; i++)
		n += maps_have_room(n, n, false);
	assert_true(n > 100000);
	for (unsigned i = 0; i < 1000; i++) {
		assert_true(maps_have_room(n, n, true));
		n++;
	}
	/* Many processes with such code leave room for the libraries of others. */
	assert_false(maps_have_room(0, MAPS_MAX_ALL / 2, false));
	assert_true(maps_have_room(0, MAPS_MAX_ALL / 2, true));
	assert_false(maps_have_room(0, MAPS_MAX_ALL, true));
}

/* Before, eight processes of a stranger could have all of the table. */
static void a_process_has_some_mappings_of_its_own_when_others_have_all(void **state)
{
	size_t n = 0, n_all = 0;

	for (unsigned i = 0; i < 16; i++) {
		n = 0;
		while (maps_have_room(n, n_all, true)) {
			n++;
			n_all++;
		}
	}
	/* The last of them has its own, and there is room for those of thousands of other processes. */
	assert_int_equal(n, MAPS_OWN);
	assert_true(n_all < MAPS_SHARED + 16 * MAPS_OWN);
	assert_false(maps_have_room(0, n_all, false));
}

static void a_line_without_end_does_not_stop_the_reading(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	AUTO(fd_close) int fd = memfd_create("maps", MFD_CLOEXEC);
	struct seen_maps s = { 0 };
	struct err err = { 0 };

	for (size_t i = 0; i < KIB(200); i++)
		buf_add_char(&text, 'x');
	buf_add_str(&text, STR("\n1000-2000 r-xp 0 08:02 7 /a\n"));
	assert_done(fd_write(fd, text.p, text.size, &err));
	assert_done(maps_read(fd, count_map, &s, &err));
	assert_int_equal(s.n, 1);
}

static void our_own_maps_can_be_read(void **state)
{
	AUTO(fd_close) int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct seen_maps s = { 0 };
	struct err err = { 0 };

	assert_done(maps_read(fd, count_map, &s, &err));
	assert_true(s.n > 1);
}

/* As ld makes them with --section-start: the second segment is in the page of the file in which the first one ends. */
static void segments_that_share_a_page_are_told_apart(void **state)
{
	const struct mapped_file f = { .segments = { { 0x400000, 0, 0x6bc }, { 0x600900, 0x900, 0x1800 } },
				       .n_segments = 2 };
	const uint64_t moved = 0x7f0000000000;
	uint64_t bias;

	assert_true(mapped_file_bias(&f, 0x400000, 0, 0, &bias));
	assert_int_equal(bias, 0);
	assert_true(mapped_file_bias(&f, 0x600000, 0, 0, &bias));
	assert_int_equal(bias, 0);
	assert_true(mapped_file_bias(&f, moved + 0x400000, 0, 0, &bias));
	assert_int_equal(bias, moved);
	assert_true(mapped_file_bias(&f, moved + 0x600000, 0, moved, &bias));
	assert_int_equal(bias, moved);
	/* The rest of a mapping of which a part was made writable. */
	assert_true(mapped_file_bias(&f, moved + 0x601000, 0x1000, 0, &bias));
	assert_int_equal(bias, moved);
	assert_false(mapped_file_bias(&f, moved, 0x3000, moved, &bias));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_that_share_a_page_are_told_apart),
		cmocka_unit_test(a_line_has_its_fields),
		cmocka_unit_test(a_deleted_file_is_marked_and_names_keep_their_blanks),
		cmocka_unit_test(other_lines_are_none),
		cmocka_unit_test(overlapping_mappings_are_left_out),
		cmocka_unit_test(a_hundred_thousand_mappings_are_read),
		cmocka_unit_test(libraries_have_room_after_code_without_files),
		cmocka_unit_test(a_process_has_some_mappings_of_its_own_when_others_have_all),
		cmocka_unit_test(a_line_without_end_does_not_stop_the_reading),
		cmocka_unit_test(our_own_maps_can_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
