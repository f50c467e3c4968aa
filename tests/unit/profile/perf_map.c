/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map of code that a process made: of this process, in /tmp, as it grows, is replaced, or is hostile.
 */
#include "test.h"

#include <fcntl.h>

#include "profile/perf_map.h"

static const struct perf_map_limits wide = { UINT64_MAX, UINT64_MAX, SIZE_MAX };

struct map_fixture {
	struct perf_map m;
	char path[64], pid[16];
};

static int map_setup(void **state)
{
	struct map_fixture *f = NEW(struct map_fixture);

	snprintf(f->path, sizeof(f->path), "/tmp/perf-%d.map", getpid());
	snprintf(f->pid, sizeof(f->pid), "%d", getpid());
	unlink(f->path);
	*state = f;
	return 0;
}

static int map_teardown(void **state)
{
	struct map_fixture *f = *state;

	unlink(f->path);
	perf_map_done(&f->m);
	free(f);
	return 0;
}

static void append_text(const struct map_fixture *f, const char *text)
{
	FILE *out = fopen(f->path, "a");

	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static const char *made_name(const struct map_fixture *f, uint64_t addr)
{
	static char text[64];
	const struct perf_map_entry *e = perf_map_at(&f->m, addr);

	snprintf(text, sizeof(text), STR_FMT, STR_ARG(e ? perf_map_name(&f->m, e) : STR("-")));
	return text;
}

static void a_growing_file_is_read_where_it_was_left(void **state)
{
	struct map_fixture *f = *state;
	struct err err;

	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 1);
	append_text(f, "1000 10 one\n2000 10 tw");
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 0);
	assert_string_equal(made_name(f, 0x1005), "one");
	assert_string_equal(made_name(f, 0x2005), "-");
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 1);
	/* Later code at the same address hides the earlier one. */
	append_text(f, "o\n1008 10 again\x1b[2J\n");
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 0);
	assert_string_equal(made_name(f, 0x2005), "two");
	assert_string_equal(made_name(f, 0x1001), "one");
	assert_string_equal(made_name(f, 0x1009), "again?[2J");
	assert_int_equal(f->m.n, 3);
}

/* A runtime frees code, and puts a larger function in its place: the old lines stay in the file. */
static void a_function_over_many_old_ones_has_its_name(void **state)
{
	struct map_fixture *f = *state;
	AUTO(buf_done) struct buf b = { 0 };
	struct err err;

	for (unsigned i = 0; i < 1000; i++)
		buf_printf(&b, "%x 10 old\n", 0x10000 + 0x10 * i);
	buf_printf(&b, "10000 8000 new\n14000 10 newest\n");
	append_text(f, buf_cstr(&b));
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 0);
	assert_string_equal(made_name(f, 0x10000), "new");
	assert_string_equal(made_name(f, 0x12345), "new");
	assert_string_equal(made_name(f, 0x1400f), "newest");
	assert_string_equal(made_name(f, 0x17fff), "new");
	assert_string_equal(made_name(f, 0x18000), "-");
}

static void a_replaced_file_is_read_anew(void **state)
{
	struct map_fixture *f = *state;
	struct err err;

	append_text(f, "1000 10 old\n2000 10 old2\n");
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 0);
	assert_int_equal(truncate(f->path, 0), 0);
	append_text(f, "3000 10 new\n");
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 0);
	assert_string_equal(made_name(f, 0x1000), "-");
	assert_string_equal(made_name(f, 0x3000), "new");
}

/* jcmd Compiler.perfmap writes the whole map into the same file, with further functions in the middle. */
static void a_file_that_is_written_again_and_longer_is_read_anew(void **state)
{
	struct map_fixture *f = *state;
	struct err err;

	append_text(f, "1000 10 first\n3000 10 third\n");
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 0);
	assert_int_equal(truncate(f->path, 0), 0);
	append_text(f, "1000 10 first\n2000 10 second\n3000 10 third\n");
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 0);
	assert_string_equal(made_name(f, 0x2000), "second");
	assert_string_equal(made_name(f, 0x3000), "third");
	assert_int_equal(f->m.n, 3);
	/* The same size: another function is at the address of the second one. */
	assert_int_equal(truncate(f->path, 0), 0);
	append_text(f, "1000 10 first\n2000 10 newest\n3000 10 third\n");
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 0);
	assert_string_equal(made_name(f, 0x2000), "newest");
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 1);
}

static void limits_cut_and_a_huge_file_costs_nothing(void **state)
{
	const struct perf_map_limits few = { KIB(256), UINT64_MAX, SIZE_MAX };
	struct map_fixture *f = *state;
	struct err err;

	append_text(f, "1000 10 one\n");
	/* 1 GiB of nothing: a sparse file, one line without an end. */
	assert_int_equal(truncate(f->path, 1 << 30), 0);
	assert_true(perf_map_update(&f->m, f->pid, &few, &err) >= 0);
	assert_true(f->m.cut);
	assert_true(f->m.off <= KIB(256) + KIB(64));
	assert_string_equal(made_name(f, 0x1000), "one");
	assert_fails(perf_map_read(&f->m, f->pid, &err), ERR_LIMIT, "bytes allowed");
}

static void a_link_is_not_followed(void **state)
{
	struct map_fixture *f = *state;
	struct err err;

	assert_int_equal(symlink("/proc/self/maps", f->path), 0);
	assert_int_equal(perf_map_update(&f->m, f->pid, &wide, &err), 1);
	unlink(f->path);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	assert_fails(perf_map_update(&f->m, f->pid, &wide, &err), ERR_INVALID, "regular");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_growing_file_is_read_where_it_was_left, map_setup,
						map_teardown),
		cmocka_unit_test_setup_teardown(a_function_over_many_old_ones_has_its_name, map_setup,
						map_teardown),
		cmocka_unit_test_setup_teardown(a_replaced_file_is_read_anew, map_setup, map_teardown),
		cmocka_unit_test_setup_teardown(a_file_that_is_written_again_and_longer_is_read_anew,
						map_setup, map_teardown),
		cmocka_unit_test_setup_teardown(limits_cut_and_a_huge_file_costs_nothing, map_setup,
						map_teardown),
		cmocka_unit_test_setup_teardown(a_link_is_not_followed, map_setup, map_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
