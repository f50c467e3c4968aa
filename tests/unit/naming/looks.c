/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New addresses of a binary that was tried before: the table at hand is applied to them at once, in every
 * state of the binary; only the search for a better table waits for the next try.
 */
#include "naming_fixture.h"

/* Waits until @n locations are pending, and @n_waiting wait for a later try. */
static void expect_pending(struct naming_fixture *t, uint64_t n, uint64_t n_waiting)
{
	for (unsigned i = 0;; i++) {
		struct profilestore_merged m = naming_fixture_merge(t);
		uint64_t pending = m.n_pending, waiting = m.n_waiting;

		profile_free(m.profile);
		if (pending == n && waiting == n_waiting)
			return;
		if (i > 30000)
			fail_msg("%llu are pending, %llu wait", (unsigned long long)pending,
				 (unsigned long long)waiting);
		usleep(1000);
	}
}

/* A binary with symbols only, tried once, at a time that stands still. */
static void open_tried(struct naming_fixture *t, bool table_store)
{
	clock_test_freeze(clock_wall_s());
	naming_fixture_open(t, table_store);
	tables_fixture_put_program(&t->tables, 1, true);
	naming_fixture_start(t);
	naming_fixture_add_one(t, 1, 0x1000);
	naming_fixture_expect(t, 1, 0x1000, "s1");
	naming_fixture_expect_state(t, "/bin/p1", NAMING_WANTED, FRAME_FOUND, 1);
}

static void close_tried(struct naming_fixture *t)
{
	naming_fixture_close(t);
	clock_test_thaw();
}

static void new_addresses_of_a_binary_with_symbols_only(void **state)
{
	struct profilestore_binary before, after;
	struct naming_fixture t;

	open_tried(&t, true);
	before = naming_fixture_binary(&t, "/bin/p1");
	assert_int_equal(before.next_try_ms, clock_wall_ms() + 600 * 1000);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, "s1");
	expect_pending(&t, 0, 0);
	/* That was no try: the next one is as far away as before. */
	after = naming_fixture_binary(&t, "/bin/p1");
	assert_int_equal(after.state, NAMING_WANTED);
	assert_int_equal(after.n_tries, 1);
	assert_int_equal(after.next_try_ms, before.next_try_ms);
	assert_int_equal(after.n_wanted, 0);
	/* An address without a symbol was looked up as well. */
	naming_fixture_add_one(&t, 1, 0x1200);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_NO_DEBUG_INFO, 1);
	expect_pending(&t, 0, 0);
	naming_fixture_expect_stats(&t, 2, 1);
	close_tried(&t);
}

static void many_profiles_in_quick_succession(void **state)
{
	struct naming_fixture t;

	open_tried(&t, true);
	for (uint32_t i = 1; i < 200; i++)
		naming_fixture_add_one(&t, 1, 0x1000 + i);
	expect_pending(&t, 0, 0);
	for (uint32_t i = 1; i < 200; i += 33)
		assert_string_equal(naming_fixture_name(&t, "/bin/p1", 0x1000 + i), "s1");
	naming_fixture_expect_stats(&t, 200, 0);
	assert_int_equal(naming_fixture_binary(&t, "/bin/p1").n_tries, 1);
	close_tried(&t);
}

static void more_new_addresses_than_a_batch(void **state)
{
	const size_t n_addrs = 3 * NAMING_BATCH + 300;
	struct naming_fixture t;

	open_tried(&t, true);
	tables_fixture_put_debug(&t.tables, 2);
	naming_fixture_add_range(&t, 1, 0x1001, n_addrs);
	/* Meanwhile another binary gets its turn. */
	naming_fixture_add_one(&t, 2, 0x1000);
	naming_fixture_expect(&t, 2, 0x1000, "f2 /src/a.c:10");
	expect_pending(&t, 0, 0);
	naming_fixture_expect_stats(&t, 0x100 + 1, n_addrs - 0xff);
	close_tried(&t);
}

static void new_addresses_without_the_supplementary_file(void **state)
{
	struct buf file = { 0 };
	struct naming_fixture t;

	clock_test_freeze(clock_wall_s());
	naming_fixture_open(&t, true);
	tables_fixture_debug_with_alt(1, 9, &file);
	tables_fixture_put(&t.tables, RESOLVE_DEBUGINFO, 1, &file);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect(&t, 1, 0x1000, " /src/a.c:10");
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_ALT_MISSING, 1);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, " /src/a.c:11");
	expect_pending(&t, 0, 0);
	assert_int_equal(naming_fixture_binary(&t, "/bin/p1").n_tries, 1);
	close_tried(&t);
}

static void new_addresses_of_a_binary_with_debug_information(void **state)
{
	struct naming_stats stats;
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	tables_fixture_put_debug(&t.tables, 1);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_FOUND, 0);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, "f1 /src/a.c:11");
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_FOUND, 0);
	naming_stats(t.naming, &stats);
	assert_int_equal(stats.n_tries, 1);
	naming_fixture_close(&t);
}

static void new_addresses_of_an_unknown_binary_wait(void **state)
{
	struct naming_stats stats;
	struct naming_fixture t;

	clock_test_freeze(clock_wall_s());
	naming_fixture_open(&t, true);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_UNKNOWN, 1);
	naming_fixture_add_one(&t, 1, 0x1010);
	expect_pending(&t, 0, 2);
	naming_stats(t.naming, &stats);
	assert_int_equal(stats.n_tries, 1);
	/* A request of someone else has made a table meanwhile, and there was no wake. */
	tables_fixture_put_program(&t.tables, 1, true);
	naming_fixture_advance(&t, 20 * 1000);
	assert_string_equal(tables_fixture_ask(&t.tables, 1, 0x1000), "s1");
	naming_fixture_add_one(&t, 1, 0x1020);
	naming_fixture_expect(&t, 1, 0x1020, "s1");
	naming_fixture_expect(&t, 1, 0x1000, "s1");
	naming_fixture_expect(&t, 1, 0x1010, "s1");
	expect_pending(&t, 0, 0);
	close_tried(&t);
}

static void new_addresses_of_a_file_that_cannot_be_read_wait(void **state)
{
	struct buf file = { 0 };
	struct naming_stats stats;
	struct naming_fixture t;

	clock_test_freeze(clock_wall_s());
	naming_fixture_open(&t, true);
	buf_add_str(&file, STR("no ELF file at all"));
	tables_fixture_put(&t.tables, RESOLVE_DEBUGINFO, 1, &file);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_NOT_ELF, 1);
	naming_fixture_add_one(&t, 1, 0x1010);
	expect_pending(&t, 0, 2);
	naming_stats(t.naming, &stats);
	assert_int_equal(stats.n_tries, 1);
	close_tried(&t);
}

static void new_addresses_of_generated_code_are_not_pending(void **state)
{
	struct naming_stats stats;
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	naming_fixture_start(&t);
	naming_fixture_add_file(&t, "//anon", "", 0x1000);
	naming_fixture_expect_state(&t, "//anon", NAMING_NEVER, FRAME_NO_BUILD_ID, 0);
	naming_fixture_add_file(&t, "//anon", "", 0x1010);
	expect_pending(&t, 0, 0);
	naming_stats(t.naming, &stats);
	assert_int_equal(stats.n_tries, 1);
	naming_fixture_close(&t);
}

static void new_addresses_of_a_binary_found_by_its_path(void **state)
{
	struct naming_fixture t;

	clock_test_freeze(clock_wall_s());
	naming_fixture_open(&t, true);
	naming_fixture_put_program(&t, 1, "/bin/p0");
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 0, 0x1000);
	naming_fixture_expect(&t, 0, 0x1000, "s1");
	naming_fixture_expect_state(&t, "/bin/p0", NAMING_WANTED, FRAME_FOUND, 1);
	naming_fixture_add_one(&t, 0, 0x1010);
	naming_fixture_expect(&t, 0, 0x1010, "s1");
	expect_pending(&t, 0, 0);
	assert_int_equal(naming_fixture_binary(&t, "/bin/p0").n_tries, 1);
	/* It is another file after all: there is no code. */
	naming_fixture_add_one(&t, 0, 0x9000);
	naming_fixture_expect_state(&t, "/bin/p0", NAMING_NEVER, FRAME_NO_BUILD_ID, 0);
	assert_string_equal(naming_fixture_name(&t, "/bin/p0", 0x1010), "s1");
	close_tried(&t);
}

/* Tables do not stay in memory. */
static void open_forgetful(struct naming_fixture *t, bool table_store)
{
	clock_test_freeze(clock_wall_s());
	naming_fixture_open(t, table_store);
	t->tables.opts.tables_size = 1;
	tables_fixture_reopen(&t->tables);
	tables_fixture_put_program(&t->tables, 1, true);
	naming_fixture_start(t);
	naming_fixture_add_one(t, 1, 0x1000);
	naming_fixture_expect_state(t, "/bin/p1", NAMING_WANTED, FRAME_FOUND, 1);
}

static void a_table_that_left_memory_is_taken_from_the_store(void **state)
{
	struct tables_stats stats;
	struct naming_fixture t;

	open_forgetful(&t, true);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, "s1");
	assert_int_equal(naming_fixture_binary(&t, "/bin/p1").n_tries, 1);
	tables_stats(t.tables.s, &stats);
	assert_int_equal(stats.n_made, 1);
	close_tried(&t);
}

static void a_table_that_is_gone_is_built_again(void **state)
{
	struct tables_stats stats;
	struct naming_fixture t;

	open_forgetful(&t, false);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, "s1");
	expect_pending(&t, 0, 0);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_FOUND, 2);
	tables_stats(t.tables.s, &stats);
	assert_int_equal(stats.n_made, 2);
	/* But not with every profile: that would ask everywhere for something better each time. */
	naming_fixture_add_one(&t, 1, 0x1020);
	naming_fixture_advance(&t, 9 * 1000);
	assert_int_equal(naming_fixture_binary(&t, "/bin/p1").n_tries, 2);
	naming_fixture_advance(&t, 2 * 1000);
	naming_fixture_expect(&t, 1, 0x1020, "s1");
	close_tried(&t);
}

/* As after an update of the program, or after the store has evicted the table. */
static void a_table_of_an_older_format_is_replaced(void **state)
{
	struct naming_fixture t;
	uint32_t binary;

	open_tried(&t, true);
	binary = naming_fixture_binary(&t, "/bin/p1").id;
	assert_int_equal(profilestore_named_by(t.store, binary, STR("1.0123456789abcdef.2")), 1);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, "s1");
	expect_pending(&t, 0, 0);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_FOUND, 2);
	close_tried(&t);
}

/* The program headers are not in the store. */
static void tables_of_another_process_do(void **state)
{
	struct naming_fixture t;

	open_tried(&t, true);
	naming_fixture_stop(&t);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, "s1");
	expect_pending(&t, 0, 0);
	close_tried(&t);
}

static void new_addresses_after_a_restart(void **state)
{
	struct naming_fixture t;

	open_tried(&t, true);
	naming_fixture_again(&t);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, "s1");
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_FOUND, 2);
	naming_fixture_add_one(&t, 1, 0x1020);
	naming_fixture_expect(&t, 1, 0x1020, "s1");
	expect_pending(&t, 0, 0);
	naming_fixture_again(&t);
	assert_string_equal(naming_fixture_name(&t, "/bin/p1", 0x1020), "s1");
	close_tried(&t);
}

static void new_addresses_while_a_try_waits_for_another_server(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct naming_stats stats;
	struct naming_fixture t;

	open_tried(&t, true);
	resolve_mem_put_waiting(t.tables.r, RESOLVE_DEBUGINFO, &id, STR(""));
	naming_fixture_advance(&t, 600 * 1000);
	do
		naming_stats(t.naming, &stats);
	while (!stats.n_running);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, "s1");
	expect_pending(&t, 0, 0);
	naming_stats(t.naming, &stats);
	assert_int_equal(stats.n_running, 1);
	/* The better file comes: it names all, and the table that was at hand names nothing any more. */
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	naming_fixture_expect(&t, 1, 0x1010, "f /src/a.c:11");
	naming_fixture_expect(&t, 1, 0x1000, "f /src/a.c:10");
	naming_fixture_add_one(&t, 1, 0x1020);
	naming_fixture_expect(&t, 1, 0x1020, "f /src/a.c:12");
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_FOUND, 0);
	close_tried(&t);
}

/* The first profile of a binary whose table a request of someone else has made. */
static void a_binary_never_tried_is_named_by_the_table_at_hand(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct naming_fixture t;

	clock_test_freeze(clock_wall_s());
	naming_fixture_open(&t, true);
	tables_fixture_put_program(&t.tables, 1, true);
	tables_fixture_expect(&t.tables, 1, 0x1000, "s1");
	naming_fixture_request_layout(&t, 1);
	resolve_mem_put_waiting(t.tables.r, RESOLVE_DEBUGINFO, &id, STR(""));
	naming_fixture_advance(&t, 60 * 1000);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect(&t, 1, 0x1000, "s1");
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	naming_fixture_expect(&t, 1, 0x1000, "f /src/a.c:10");
	close_tried(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_addresses_of_a_binary_with_symbols_only),
		cmocka_unit_test(many_profiles_in_quick_succession),
		cmocka_unit_test(more_new_addresses_than_a_batch),
		cmocka_unit_test(new_addresses_without_the_supplementary_file),
		cmocka_unit_test(new_addresses_of_a_binary_with_debug_information),
		cmocka_unit_test(new_addresses_of_an_unknown_binary_wait),
		cmocka_unit_test(new_addresses_of_a_file_that_cannot_be_read_wait),
		cmocka_unit_test(new_addresses_of_generated_code_are_not_pending),
		cmocka_unit_test(new_addresses_of_a_binary_found_by_its_path),
		cmocka_unit_test(a_table_that_left_memory_is_taken_from_the_store),
		cmocka_unit_test(a_table_that_is_gone_is_built_again),
		cmocka_unit_test(a_table_of_an_older_format_is_replaced),
		cmocka_unit_test(tables_of_another_process_do),
		cmocka_unit_test(new_addresses_after_a_restart),
		cmocka_unit_test(new_addresses_while_a_try_waits_for_another_server),
		cmocka_unit_test(a_binary_never_tried_is_named_by_the_table_at_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
