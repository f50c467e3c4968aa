/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that come in get their names, and keep them. */
#include "naming_fixture.h"
#include "profilestore/internal.h"

static void addresses_get_their_names(void **state)
{
	struct profilestore_binary b;
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	tables_fixture_put_debug(&t.tables, 1);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, "f1 /src/a.c:11");
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_FOUND, 0);
	b = naming_fixture_binary(&t, "/bin/p1");
	assert_int_equal(b.n_locations, 1);
	assert_int_equal(b.n_named, 1);
	assert_int_equal(b.n_wanted, 0);
	assert_str(b.origin, "/file");
	naming_fixture_close(&t);
}

static void an_address_outside_of_functions_has_that_reason(void **state)
{
	uint64_t addrs[] = { 0x1000, 0x5000 };
	struct profilestore_binary b;
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	tables_fixture_put_debug(&t.tables, 1);
	naming_fixture_start(&t);
	naming_fixture_add(&t, 1, addrs, 2);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_OUTSIDE, 0);
	b = naming_fixture_binary(&t, "/bin/p1");
	assert_int_equal(b.n_named, 1);
	naming_fixture_expect_stats(&t, 1, 1);
	/* Another profile of the binary does not undo that. */
	naming_fixture_add_one(&t, 1, 0x1020);
	naming_fixture_expect(&t, 1, 0x1020, "f1 /src/a.c:12");
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_OUTSIDE, 0);
	naming_fixture_close(&t);
}

static void only_new_locations_are_looked_up(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	tables_fixture_put_debug(&t.tables, 1);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect(&t, 1, 0x1000, "f1 /src/a.c:10");
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_add_one(&t, 1, 0x1030);
	naming_fixture_expect(&t, 1, 0x1030, "f1 /src/a.c:13");
	naming_fixture_expect_stats(&t, 2, 0);
	naming_fixture_again(&t);
	naming_fixture_add_one(&t, 1, 0x1040);
	naming_fixture_expect(&t, 1, 0x1040, "f1 /src/a.c:14");
	naming_fixture_expect(&t, 1, 0x1000, "f1 /src/a.c:10");
	naming_fixture_expect_stats(&t, 1, 0);
	naming_fixture_close(&t);
}

static void the_work_of_a_killed_process_is_continued(void **state)
{
	const size_t n_addrs = 200;
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	tables_fixture_put_debug(&t.tables, 1);
	tables_fixture_put_debug(&t.tables, 2);
	naming_fixture_add_range(&t, 1, 0x1000, n_addrs);
	naming_fixture_add_range(&t, 2, 0x1000, n_addrs);
	/* Half of its locations had names when it was stopped. */
	naming_fixture_start(&t);
	naming_fixture_expect(&t, 1, 0x10c7, "f1 /src/a.c:22");
	naming_fixture_again(&t);
	naming_fixture_expect(&t, 2, 0x10c7, "f2 /src/a.c:22");
	for (size_t i = 0; i < n_addrs; i += 17) {
		char want[32];

		snprintf(want, sizeof(want), "f1 /src/a.c:%d", (int)(10 + i / 16));
		naming_fixture_expect(&t, 1, 0x1000 + i, want);
	}
	naming_fixture_again(&t);
	naming_fixture_expect_stats(&t, 0, 0);
	naming_fixture_close(&t);
}

static void a_table_from_the_store_does(void **state)
{
	struct tables_stats stats;
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	tables_fixture_put_debug(&t.tables, 1);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect(&t, 1, 0x1000, "f1 /src/a.c:10");
	naming_fixture_again(&t);
	naming_fixture_add_one(&t, 1, 0x1001);
	naming_fixture_expect(&t, 1, 0x1001, "f1 /src/a.c:10");
	tables_stats(t.tables.s, &stats);
	assert_int_equal(stats.n_made, 0);
	naming_fixture_close(&t);
}

static void more_than_a_batch_is_named(void **state)
{
	const size_t n_addrs = NAMING_BATCH + 300;
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	tables_fixture_put_debug(&t.tables, 1);
	naming_fixture_start(&t);
	/* Most of them are in no function: they are looked up as well. */
	naming_fixture_add_range(&t, 1, 0x1000, n_addrs);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_OUTSIDE, 0);
	naming_fixture_expect_stats(&t, 0x100, n_addrs - 0x100);
	assert_int_equal(naming_fixture_binary(&t, "/bin/p1").n_wanted, 0);
	naming_fixture_close(&t);
}

/* 256 addresses of 16 lines. */
static void neighbours_share_their_lines(void **state)
{
	const size_t n_addrs = 0x100;
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	tables_fixture_put_debug(&t.tables, 1);
	naming_fixture_start(&t);
	naming_fixture_add_range(&t, 1, 0x1000, n_addrs);
	naming_fixture_expect_stats(&t, n_addrs, 0);
	assert_int_equal(column_n(&t.store->meta->lines), 16);
	naming_fixture_again(&t);
	naming_fixture_expect(&t, 1, 0x1000, "f1 /src/a.c:10");
	naming_fixture_expect(&t, 1, 0x10ff, "f1 /src/a.c:25");
	naming_fixture_close(&t);
}

static void many_binaries_are_asked_for_a_few_at_once(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	t.opts.max_tries = 2;
	for (uint32_t n = 1; n <= 20; n++) {
		tables_fixture_put_debug(&t.tables, n);
		naming_fixture_add_one(&t, n, 0x1000);
	}
	naming_fixture_start(&t);
	for (uint32_t n = 1; n <= 20; n++) {
		char want[32];

		snprintf(want, sizeof(want), "f%u /src/a.c:10", n);
		naming_fixture_expect(&t, n, 0x1000, want);
	}
	naming_fixture_close(&t);
}

static void texts_are_freed_once_all_have_their_names(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	tables_fixture_put_debug(&t.tables, 1);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1010);
	naming_fixture_expect(&t, 1, 0x1010, "f1 /src/a.c:11");
	naming_stop(t.naming);
	assert_int_equal(profile_frame_texts_size(t.naming->batch.frames), 0);
	naming_fixture_close(&t);
}

/* The memory of a batch is bounded, however many calls there are at one address. */
static void many_calls_at_each_address_are_written_in_parts(void **state)
{
	const size_t n_addrs = 4000, depth = 1000,
		     n_bytes = n_addrs * depth * sizeof(struct profilestore_name_line);
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	naming_fixture_put_calls(&t, 1, 0x1000, depth, 8);
	naming_fixture_start(&t);
	naming_fixture_add_range(&t, 1, 0x1000, n_addrs);
	naming_fixture_expect_stats(&t, n_addrs, 0);
	assert_true(profilestore_n_namings(t.store) >= n_bytes / NAMING_TEXTS);
	naming_fixture_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_get_their_names),
		cmocka_unit_test(an_address_outside_of_functions_has_that_reason),
		cmocka_unit_test(only_new_locations_are_looked_up),
		cmocka_unit_test(the_work_of_a_killed_process_is_continued),
		cmocka_unit_test(a_table_from_the_store_does),
		cmocka_unit_test(more_than_a_batch_is_named),
		cmocka_unit_test(texts_are_freed_once_all_have_their_names),
		cmocka_unit_test(neighbours_share_their_lines),
		cmocka_unit_test(many_binaries_are_asked_for_a_few_at_once),
		cmocka_unit_test(many_calls_at_each_address_are_written_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
