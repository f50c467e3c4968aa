/* SPDX-License-Identifier: Apache-2.0 */
/* Binaries without a build ID, or with one that no file can be found by. */
#include "naming_fixture.h"

static void a_mapping_without_a_file_is_never_named(void **state)
{
	static const char *const files[] = { "[anon]",           "//anon", "/memfd:jit (deleted)",
					     "/tmp/perf-17.map", "[heap]", "[kernel.kallsyms]" };
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	naming_fixture_start(&t);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		naming_fixture_add_file(&t, files[i], "", 0x1000);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		naming_fixture_expect_state(&t, files[i], NAMING_NEVER, FRAME_NO_BUILD_ID, 0);
	naming_fixture_close(&t);
}

static void a_strange_build_id_leads_nowhere(void **state)
{
	struct profilestore_binary b;
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	naming_fixture_start(&t);
	naming_fixture_add_file(&t, "/bin/go", "Xyz_/abc-123/q", 0x1000);
	naming_fixture_expect_state(&t, "/bin/go", NAMING_NEVER, FRAME_NO_BUILD_ID, 0);
	b = naming_fixture_binary(&t, "/bin/go");
	assert_str(b.why, "its build ID has a form that no file can be found by");
	naming_fixture_close(&t);
}

static void the_only_file_of_its_path_is_taken(void **state)
{
	struct build_id none = { 0 };
	struct profilestore_binary b;
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 0, 0x1010);
	naming_fixture_expect_state(&t, "/bin/p0", NAMING_NEVER, FRAME_NO_BUILD_ID, 0);
	b = naming_fixture_binary(&t, "/bin/p0");
	assert_non_null(strstr(b.why.p, "no file of that path"));
	/* It turns up. */
	naming_fixture_put_program(&t, 1, "/bin/p0");
	naming_wake(t.naming, &none, STR("/bin/p0"), false);
	naming_fixture_expect(&t, 0, 0x1010, "s1");
	assert_non_null(strstr(naming_fixture_binary(&t, "/bin/p0").why.p, "the only file of that path"));
	naming_fixture_close(&t);
}

/* Files that are found before naming starts wake nothing. */
static void a_file_that_turned_up_while_the_service_was_stopped_is_taken(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 0, 0x1010);
	naming_fixture_expect_state(&t, "/bin/p0", NAMING_NEVER, FRAME_NO_BUILD_ID, 0);
	naming_fixture_put_program(&t, 1, "/bin/p0");
	naming_fixture_again(&t);
	naming_fixture_expect(&t, 0, 0x1010, "s1");
	naming_fixture_close(&t);
}

/* A store that is listed after the start wakes nothing for what it has. */
static void a_file_that_is_not_known_yet_is_looked_for_again(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	resolve_mem_set_unfinished(t.tables.r, true);
	t.opts.interval_ms = 500;
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 0, 0x1010);
	naming_fixture_expect_state(&t, "/bin/p0", NAMING_WANTED, FRAME_NO_BUILD_ID, 1);
	assert_non_null(strstr(naming_fixture_binary(&t, "/bin/p0").why.p, "known here yet"));
	naming_fixture_put_program(&t, 1, "/bin/p0");
	resolve_mem_set_unfinished(t.tables.r, false);
	naming_fixture_expect(&t, 0, 0x1010, "s1");
	naming_fixture_close(&t);
}

/* The first of several that is found, while packages or the store are still being read. */
static void the_first_of_several_is_not_taken_for_the_only_one(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	resolve_mem_set_unfinished(t.tables.r, true);
	naming_fixture_put_program(&t, 1, "/bin/p0");
	t.opts.interval_ms = 5000;
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 0, 0x1010);
	naming_fixture_expect_state(&t, "/bin/p0", NAMING_WANTED, FRAME_NO_BUILD_ID, 1);
	assert_string_equal(naming_fixture_name(&t, "/bin/p0", 0x1010), "");
	naming_fixture_put_program(&t, 2, "/bin/p0");
	resolve_mem_set_unfinished(t.tables.r, false);
	naming_fixture_expect_state(&t, "/bin/p0", NAMING_NEVER, FRAME_NO_BUILD_ID, 0);
	assert_non_null(strstr(naming_fixture_binary(&t, "/bin/p0").why.p, "several files"));
	naming_fixture_close(&t);
}

/* New packages come all the time. */
static void a_file_that_was_taken_stays_while_others_are_unread(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	naming_fixture_put_program(&t, 1, "/bin/p0");
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 0, 0x1010);
	naming_fixture_expect(&t, 0, 0x1010, "s1");
	resolve_mem_set_unfinished(t.tables.r, true);
	naming_fixture_add_one(&t, 0, 0x1020);
	naming_fixture_expect(&t, 0, 0x1020, "s1");
	naming_fixture_close(&t);
}

static void of_several_none_is_taken(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	naming_fixture_put_program(&t, 1, "/bin/p0");
	naming_fixture_put_program(&t, 2, "/bin/p0");
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 0, 0x1010);
	naming_fixture_expect_state(&t, "/bin/p0", NAMING_NEVER, FRAME_NO_BUILD_ID, 0);
	assert_non_null(strstr(naming_fixture_binary(&t, "/bin/p0").why.p, "several files"));
	naming_fixture_close(&t);
}

static void a_file_without_code_there_is_another(void **state)
{
	uint64_t addrs[] = { 0x1010, 0x99000 };
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	naming_fixture_put_program(&t, 1, "/bin/p0");
	naming_fixture_start(&t);
	naming_fixture_add(&t, 0, addrs, 2);
	naming_fixture_expect_state(&t, "/bin/p0", NAMING_NEVER, FRAME_NO_BUILD_ID, 0);
	assert_non_null(strstr(naming_fixture_binary(&t, "/bin/p0").why.p, "is another"));
	assert_string_equal(naming_fixture_name(&t, "/bin/p0", 0x1010), "");
	naming_fixture_close(&t);
}

#define KERNEL     UINT64_C(0xffffffff81000000)
#define KERNEL_RAN UINT64_C(0xffffffff9a000000) /* where its start was loaded */

static void a_kernel_is_named_by_its_build_id_wherever_it_ran(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct elf_writer_segment *load;
	struct buf file = { 0 };
	char hex[BUILD_ID_HEX_SIZE];
	struct code_writer w;
	struct naming_fixture t;

	code_writer_init(&w, ELF_WRITER_X86_64, ET_EXEC);
	w.text = KERNEL;
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_symbol(&w, "do_nothing", STT_FUNC, STB_GLOBAL, KERNEL + 0x100, 0x100);
	load = elf_writer_segment_at(&w.elf, elf_writer_segment(&w.elf, PT_LOAD, PF_R | PF_X, 0));
	load->off = 0x1000;
	load->vaddr = KERNEL;
	load->filesz = load->memsz = 0x1000;
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	naming_fixture_open(&t, false);
	tables_fixture_put(&t.tables, RESOLVE_DEBUGINFO, 1, &file);
	naming_fixture_start(&t);
	naming_fixture_add_at(&t, "[kernel.kallsyms]_text", build_id_hex(&id, hex), KERNEL_RAN,
			      KERNEL_RAN + 0x110);
	naming_fixture_expect_stats(&t, 1, 0);
	assert_string_equal(naming_fixture_name(&t, "[kernel.kallsyms]", KERNEL + 0x110), "do_nothing");
	naming_fixture_close(&t);
}

/* Looking up a path takes as long as it may, and is not complete then. */
static int slow_metadata(struct resolver *r, const struct index_metadata_query *q,
			 struct index_metadata_page *ret, struct err *err)
{
	clock_test_advance(2000);
	buf_add_char(&ret->next, '1');
	return 0;
}

static void close_nothing(struct resolver *r)
{
}

/*
 * Binaries without a build ID were added to @t, which is open. One with a build ID gets its name after the first of them: after
 * one look and one try.
 */
static void expect_name_beside_paths(struct naming_fixture *t)
{
	static const struct resolver_ops ops = { .metadata = slow_metadata, .close = close_nothing };
	static struct resolver slow = { &ops };
	struct err err = { 0 };
	int64_t from_ms;

	tables_fixture_put_debug(&t->tables, 1);
	naming_fixture_add_one(t, 1, 0x1000);
	from_ms = clock_mono_ms();
	t->naming = naming_new(
		&(struct naming_options){ .store = t->store, .tables = t->tables.s, .resolver = &slow });
	assert_done(naming_start(t->naming, &err));
	naming_fixture_expect(t, 1, 0x1000, "f1 /src/a.c:10");
	assert_in_range(clock_mono_ms() - from_ms, 2000, 4000);
}

static void many_paths_do_not_keep_build_ids_waiting(void **state)
{
	struct naming_fixture t;

	clock_test_freeze(clock_wall_s());
	naming_fixture_open(&t, false);
	naming_fixture_add_files(&t, "/usr/bin/x", 100, 0x1000);
	expect_name_beside_paths(&t);
	/* The others have their turn. */
	for (unsigned i = 0; i < 20; i++) {
		char file[32];

		snprintf(file, sizeof(file), "/usr/bin/x%u", i);
		while (!naming_fixture_binary(&t, file).last_try_ms) {
			naming_fixture_advance(&t, 1000);
			usleep(1000);
		}
	}
	naming_fixture_close(&t);
	clock_test_thaw();
}

/* More than a round has. */
static void very_many_paths_do_not_keep_build_ids_out_of_a_round(void **state)
{
	struct naming_fixture t;

	clock_test_freeze(clock_wall_s());
	naming_fixture_open(&t, false);
	naming_fixture_add_files(&t, "/usr/bin/x", 5000, 0x1000);
	expect_name_beside_paths(&t);
	naming_fixture_close(&t);
	clock_test_thaw();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mapping_without_a_file_is_never_named),
		cmocka_unit_test(a_strange_build_id_leads_nowhere),
		cmocka_unit_test(the_only_file_of_its_path_is_taken),
		cmocka_unit_test(a_file_that_turned_up_while_the_service_was_stopped_is_taken),
		cmocka_unit_test(a_file_that_is_not_known_yet_is_looked_for_again),
		cmocka_unit_test(the_first_of_several_is_not_taken_for_the_only_one),
		cmocka_unit_test(a_file_that_was_taken_stays_while_others_are_unread),
		cmocka_unit_test(of_several_none_is_taken),
		cmocka_unit_test(a_file_without_code_there_is_another),
		cmocka_unit_test(a_kernel_is_named_by_its_build_id_wherever_it_ran),
		cmocka_unit_test(many_paths_do_not_keep_build_ids_waiting),
		cmocka_unit_test(very_many_paths_do_not_keep_build_ids_out_of_a_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
