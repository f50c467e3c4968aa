/* SPDX-License-Identifier: Apache-2.0 */
/* Names that come later: waits, wakes, better tables. */
#include "base/budget.h"
#include "naming_fixture.h"

static void the_next_try_comes_later_and_later(void **state)
{
	assert_int_equal(naming_wait_ms(FRAME_UNKNOWN, false, 1, 10000), 10000);
	assert_int_equal(naming_wait_ms(FRAME_UNKNOWN, false, 2, 10000), 20000);
	assert_int_equal(naming_wait_ms(FRAME_TIMED_OUT, false, 5, 10000), 160000);
	assert_int_equal(naming_wait_ms(FRAME_UNKNOWN, false, 30, 10000), 3600 * 1000);
	assert_int_equal(naming_wait_ms(FRAME_UPSTREAM_404, false, 1, 10000), 600 * 1000);
	assert_int_equal(naming_wait_ms(FRAME_UPSTREAM_404, false, UINT32_MAX, 10000), 24 * 3600 * 1000);
	assert_int_equal(naming_wait_ms(FRAME_FOUND, true, 1, 10000), 600 * 1000);
}

static void an_unknown_binary_is_tried_again_when_it_is_due(void **state)
{
	int64_t now_s = clock_wall_s();
	struct profilestore_binary b;
	struct naming_fixture t;

	clock_test_freeze(now_s);
	naming_fixture_open(&t, false);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_UNKNOWN, 1);
	b = naming_fixture_binary(&t, "/bin/p1");
	assert_int_equal(b.next_try_ms, clock_wall_ms() + 10000);
	assert_int_equal(b.last_try_ms, clock_wall_ms());
	/* Another profile of the binary comes in: no reason to ask every server again. */
	naming_fixture_add_one(&t, 1, 0x1001);
	assert_int_equal(naming_fixture_binary(&t, "/bin/p1").n_tries, 1);
	clock_test_advance(10000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_UNKNOWN, 2);
	assert_int_equal(naming_fixture_binary(&t, "/bin/p1").next_try_ms, clock_wall_ms() + 20000);
	/* Without a wake, but the file is there then. */
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	clock_test_advance(20000);
	naming_fixture_expect(&t, 1, 0x1000, "f /src/a.c:10");
	naming_fixture_expect(&t, 1, 0x1001, "f /src/a.c:10");
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_FOUND, 0);
	naming_fixture_close(&t);
	clock_test_thaw();
}

static bool is_due_at(struct naming_fixture *t, int64_t now_ms)
{
	struct profilestore_binaries *list;
	struct err err = { 0 };
	int64_t next_ms;
	bool due;

	assert_done(profilestore_wanted(t->store, now_ms, 10, true, &list, &next_ms, &err));
	due = list->n == 1 && list->v[0].try_is_due;
	free(list);
	return due;
}

/* The clock was wrong at first, and is set back by days while the service runs. */
static void a_clock_that_is_set_back_delays_no_try(void **state)
{
	const int64_t back_ms = INT64_C(48) * 3600 * 1000;
	struct naming_fixture t;
	int64_t now_ms;
	uint32_t id;

	clock_test_freeze(clock_wall_s());
	naming_fixture_open(&t, false);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_UNKNOWN, 1);
	naming_fixture_stop(&t);
	now_ms = clock_wall_ms();
	assert_false(is_due_at(&t, now_ms));
	assert_true(is_due_at(&t, now_ms + 10000));
	/* It is set right by some seconds now and then. */
	assert_false(is_due_at(&t, now_ms - 5000));
	assert_true(is_due_at(&t, now_ms - back_ms));
	/* Nor does a try that new addresses bring forward wait for the one before. */
	id = naming_fixture_binary(&t, "/bin/p1").id;
	assert_int_equal(profilestore_looked(t.store, id, 0, true), now_ms);
	clock_test_advance(-back_ms);
	assert_int_equal(profilestore_looked(t.store, id, 0, true), now_ms - back_ms + 10000);
	naming_fixture_close(&t);
	clock_test_thaw();
}

/* The wake comes when the scan has found it. */
static void a_scan_is_not_waited_for(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	resolve_mem_set_unfinished(t.tables.r, true);
	t.opts.interval_ms = 3600 * 1000;
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_UNKNOWN, 1);
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	naming_fixture_wake(&t, 1, false);
	naming_fixture_expect(&t, 1, 0x1000, "f /src/a.c:10");
	naming_fixture_close(&t);
}

static void a_wake_is_for_its_own_build_id(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	t.opts.interval_ms = 3600 * 1000;
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_add_one(&t, 2, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_UNKNOWN, 1);
	naming_fixture_expect_state(&t, "/bin/p2", NAMING_WANTED, FRAME_UNKNOWN, 1);
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	tables_fixture_put_debug_named(&t.tables, 2, "g");
	naming_fixture_wake(&t, 1, false);
	naming_fixture_expect(&t, 1, 0x1000, "f /src/a.c:10");
	assert_int_equal(naming_fixture_binary(&t, "/bin/p2").n_tries, 1);
	assert_string_equal(naming_fixture_name(&t, "/bin/p2", 0x1000), "");
	naming_fixture_close(&t);
}

static void a_new_process_tries_at_once_what_had_failed(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	t.opts.interval_ms = 3600 * 1000;
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_UNKNOWN, 1);
	naming_fixture_again(&t);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_UNKNOWN, 2);
	naming_fixture_close(&t);
}

static void a_better_file_names_again(void **state)
{
	uint64_t addrs[] = { 0x1000, 0x1010 };
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	tables_fixture_put_program(&t.tables, 1, true);
	naming_fixture_start(&t);
	naming_fixture_add(&t, 1, addrs, 2);
	naming_fixture_expect(&t, 1, 0x1010, "s1");
	/* It has names, and would have better ones with a debug file: the table is requested now and then. */
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_FOUND, 1);
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	naming_fixture_wake(&t, 1, false);
	naming_fixture_expect(&t, 1, 0x1010, "f /src/a.c:11");
	naming_fixture_expect(&t, 1, 0x1000, "f /src/a.c:10");
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_FOUND, 0);
	naming_fixture_expect_stats(&t, 4, 0);
	assert_int_equal(naming_fixture_binary(&t, "/bin/p1").n_named, 2);
	/* The same file once more: nothing is looked up. */
	naming_fixture_wake(&t, 1, true);
	naming_fixture_add_one(&t, 1, 0x1020);
	naming_fixture_expect(&t, 1, 0x1020, "f /src/a.c:12");
	naming_fixture_expect_stats(&t, 5, 0);
	/* Another file with the same build ID. */
	tables_fixture_put_debug_named(&t.tables, 1, "g");
	naming_fixture_wake(&t, 1, true);
	naming_fixture_expect(&t, 1, 0x1000, "g /src/a.c:10");
	naming_fixture_again(&t);
	assert_string_equal(naming_fixture_name(&t, "/bin/p1", 0x1020), "g /src/a.c:12");
	naming_fixture_close(&t);
}

static void a_supplementary_file_wakes_the_binaries_that_lack_it(void **state)
{
	struct buf file = { 0 };
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	t.opts.interval_ms = 3600 * 1000;
	naming_fixture_put_program(&t, 1, "/bin/p1");
	tables_fixture_debug_with_alt(1, 2, &file);
	tables_fixture_put(&t.tables, RESOLVE_DEBUGINFO, 1, &file);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_ALT_MISSING, 1);
	tables_fixture_alt(2, &file);
	tables_fixture_put(&t.tables, RESOLVE_DEBUGINFO, 2, &file);
	naming_fixture_wake(&t, 2, false);
	naming_fixture_expect(&t, 1, 0x1000, "shared /src/a.c:10");
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_FOUND, 0);
	naming_fixture_close(&t);
}

static void names_stay_where_a_better_file_has_none(void **state)
{
	struct buf file = { 0 };
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	tables_fixture_put_program(&t.tables, 1, true);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect(&t, 1, 0x1000, "s1");
	/* A table of other code: there is nothing at that address. */
	{
		static const char *const files[] = { "far.c", NULL };
		struct build_id id = tables_fixture_id(1);
		struct code_writer w;
		uint64_t lines;

		code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
		elf_writer_build_id(&w.elf, build_id_bytes(&id));
		lines = code_lines_begin(&w, files);
		code_address(&w, 0x1800);
		code_row(&w, 0x1800, 1, 10);
		code_sequence_end(&w, 0x1810);
		code_lines_end(&w);
		code_unit_c(&w, lines);
		code_die(&w, T_SUBPROGRAM, false, A_NAME, F_STRING, (uint64_t)(uintptr_t) "far", A_LOW,
			 F_ADDR, (uint64_t)0x1800, A_HIGH, F_DATA4, (uint64_t)0x10, 0u);
		code_up(&w);
		code_unit_end(&w);
		/* So that the program's symbols are not read. */
		code_symbol(&w, "far", STT_FUNC, STB_GLOBAL, 0x1800, 0x10);
		code_writer_finish(&w, &file);
		code_writer_done(&w);
	}
	tables_fixture_put(&t.tables, RESOLVE_DEBUGINFO, 1, &file);
	naming_fixture_wake(&t, 1, true);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_OUTSIDE, 0);
	assert_string_equal(naming_fixture_name(&t, "/bin/p1", 0x1000), "s1");
	assert_int_equal(naming_fixture_binary(&t, "/bin/p1").n_named, 1);
	naming_fixture_close(&t);
}

static void a_wake_during_an_attempt_is_not_lost(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct naming_stats stats;
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	t.opts.interval_ms = 3600 * 1000;
	resolve_mem_put_waiting(t.tables.r, RESOLVE_DEBUGINFO, &id, STR(""));
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	do
		naming_stats(t.naming, &stats);
	while (!stats.n_running);
	/* The attempt that waits ends in a failure; the wake came before. */
	naming_fixture_wake(&t, 1, false);
	resolve_mem_fail(t.tables.r, RESOLVE_DEBUGINFO, &id, STR(""),
			 &(struct err){ .kind = ERR_UPSTREAM, .text = "503" });
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	naming_fixture_wake(&t, 1, false);
	naming_fixture_expect(&t, 1, 0x1000, "f /src/a.c:10");
	naming_fixture_close(&t);
}

static void a_try_that_waits_does_not_keep_others_waiting(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	resolve_mem_put_waiting(t.tables.r, RESOLVE_DEBUGINFO, &id, STR(""));
	tables_fixture_put_debug_named(&t.tables, 2, "g");
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_add_one(&t, 2, 0x1000);
	naming_fixture_expect(&t, 2, 0x1000, "g /src/a.c:10");
	assert_string_equal(naming_fixture_name(&t, "/bin/p1", 0x1000), "");
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	naming_fixture_expect(&t, 1, 0x1000, "f /src/a.c:10");
	naming_fixture_close(&t);
}

/* It waits in the tables: no failure, so the next try is soon, and those after it are not later and later. */
static void a_table_that_is_not_ready_is_no_failed_try(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct profilestore_binary b;
	struct naming_fixture t;

	naming_fixture_open(&t, false);
	resolve_mem_put_waiting(t.tables.r, RESOLVE_DEBUGINFO, &id, STR(""));
	t.opts.wait_ms = 1;
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	do {
		usleep(1000);
		b = naming_fixture_binary(&t, "/bin/p1");
	} while (!b.last_try_ms);
	assert_int_equal(b.state, NAMING_WANTED);
	assert_int_equal(b.reason, FRAME_PENDING);
	assert_int_equal(b.n_tries, 0);
	assert_in_range(b.next_try_ms - b.last_try_ms, 0, 5000);
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	naming_fixture_wake(&t, 1, false);
	naming_fixture_expect(&t, 1, 0x1000, "f /src/a.c:10");
	naming_fixture_close(&t);
}

/* A budget, and the part of it that others use. */
struct used_memory {
	struct budget *budget;
	struct budget_hold others;
};

static void open_with_memory(struct naming_fixture *t, struct used_memory *m)
{
	clock_test_freeze(clock_wall_s());
	naming_fixture_open(t, false);
	m->budget = budget_new_undivided(MIB(64));
	t->tables.opts.memory = m->budget;
	tables_fixture_reopen(&t->tables);
	budget_hold_init(&m->others, m->budget, BUDGET_TABLE);
}

static void use_memory_but(struct used_memory *m, uint64_t left)
{
	struct err err = { 0 };

	assert_done(budget_hold_add(&m->others, MIB(64) - left, &err));
}

static void close_with_memory(struct naming_fixture *t, struct used_memory *m)
{
	naming_fixture_stop(t);
	budget_hold_done(&m->others);
	tables_free(t->tables.s);
	budget_free(m->budget);
	t->tables.opts.memory = NULL;
	t->tables.s = tables_new(&t->tables.opts);
	naming_fixture_close(t);
	clock_test_thaw();
}

/* Waits until a try has been refused at the time that it is now, and the next one is due in @wait_ms. */
static void expect_refused(struct naming_fixture *t, uint32_t n_tries, int64_t wait_ms)
{
	struct profilestore_binary b = naming_fixture_binary(t, "/bin/p1");

	for (unsigned i = 0; b.reason != FRAME_BUSY || b.last_try_ms != clock_wall_ms() || b.look_is_due;
	     i++) {
		if (i > 30000)
			fail_msg("%s, state %d, %lld ms ago", frame_reason_name(b.reason), b.state,
				 (long long)(clock_wall_ms() - b.last_try_ms));
		usleep(1000);
		b = naming_fixture_binary(t, "/bin/p1");
	}
	assert_int_equal(b.state, NAMING_WANTED);
	assert_int_equal(b.next_try_ms, clock_wall_ms() + wait_ms);
	assert_int_equal(b.n_tries, n_tries);
}

/* The memory that an address needs may never be there, so the question is not repeated each second for ever. */
static void an_address_that_is_refused_is_asked_for_later_and_later(void **state)
{
	struct naming_fixture t;
	struct used_memory m;

	open_with_memory(&t, &m);
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_FOUND, 0);
	use_memory_but(&m, 0);
	naming_fixture_add_one(&t, 1, 0x1010);
	for (int64_t wait_ms = FRAME_RETRY_MS;; wait_ms *= 2) {
		expect_refused(&t, 1, MIN(wait_ms, NAMING_LAST_MS));
		if (wait_ms > NAMING_LAST_MS)
			break;
		naming_fixture_advance(&t, wait_ms);
	}
	assert_string_equal(naming_fixture_name(&t, "/bin/p1", 0x1010), "");
	budget_hold_done(&m.others);
	naming_fixture_advance(&t, NAMING_LAST_MS);
	naming_fixture_expect(&t, 1, 0x1010, "f /src/a.c:11");
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_FOUND, 0);
	close_with_memory(&t, &m);
}

/* As with many attempts at once, whose outcomes are written together. */
static void a_refusal_that_is_written_late_waits_longer_each_time(void **state)
{
	struct naming_fixture t;
	struct used_memory m;

	open_with_memory(&t, &m);
	tables_fixture_put_debug_named(&t.tables, 1, "f");
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_DONE, FRAME_FOUND, 0);
	use_memory_but(&m, 0);
	naming_fixture_add_one(&t, 1, 0x1010);
	expect_refused(&t, 1, FRAME_RETRY_MS);
	naming_fixture_write_later(1200);
	for (int64_t wait_ms = FRAME_RETRY_MS; wait_ms <= 16 * FRAME_RETRY_MS; wait_ms *= 2) {
		naming_fixture_advance(&t, wait_ms);
		for (unsigned i = 0; naming_fixture_binary(&t, "/bin/p1").next_try_ms <= clock_wall_ms();
		     i++) {
			assert_true(i < 30000);
			usleep(1000);
		}
		assert_int_equal(naming_fixture_binary(&t, "/bin/p1").next_try_ms,
				 clock_wall_ms() + 2 * wait_ms);
	}
	close_with_memory(&t, &m);
}

/* Memory is mostly back in a second, however often the binary has failed before its file came. */
static void a_refusal_after_many_failures_waits_for_a_second(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct profilestore_binary b;
	struct naming_fixture t;
	struct used_memory m;

	open_with_memory(&t, &m);
	naming_fixture_start(&t);
	naming_fixture_add_one(&t, 1, 0x1000);
	for (uint32_t n = 1; n < 8; n++) {
		naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_UNKNOWN, n);
		naming_fixture_advance(&t, NAMING_LAST_MS);
	}
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_UNKNOWN, 8);
	tables_fixture_put_program(&t.tables, 1, true);
	tables_renew(t.tables.s, &id, false, NULL, NULL);
	naming_fixture_request_layout(&t, 1);
	use_memory_but(&m, 0);
	clock_test_advance(1);
	naming_fixture_wake(&t, 1, false);
	expect_refused(&t, 8, FRAME_RETRY_MS);
	naming_fixture_advance(&t, FRAME_RETRY_MS);
	expect_refused(&t, 8, 2 * FRAME_RETRY_MS);
	budget_hold_done(&m.others);
	naming_fixture_advance(&t, 2 * FRAME_RETRY_MS);
	naming_fixture_expect(&t, 1, 0x1000, "s1");
	/* It has symbols only: the wait for a debug file is as if memory had always been there. */
	naming_fixture_expect_state(&t, "/bin/p1", NAMING_WANTED, FRAME_FOUND, 9);
	b = naming_fixture_binary(&t, "/bin/p1");
	assert_int_equal(b.next_try_ms, clock_wall_ms() + naming_wait_ms(FRAME_FOUND, true, 9, 10000));
	close_with_memory(&t, &m);
}

/* One of many addresses needs more memory than there is: the others are named at once, in however many batches. */
static void refused_addresses_do_not_keep_the_others_waiting(void **state)
{
	const size_t n_addrs = 3 * NAMING_BATCH + 300;
	AUTO(mem_freep) uint64_t *addrs = NEW_N(uint64_t, n_addrs);
	struct naming_fixture t;
	struct used_memory m;

	open_with_memory(&t, &m);
	naming_fixture_put_calls(&t, 1, 1, 80, 60000);
	naming_fixture_request_layout(&t, 1);
	use_memory_but(&m, MIB(2));
	naming_fixture_start(&t);
	/* The last one is the first to be looked up. */
	for (size_t i = 0; i < n_addrs; i++)
		addrs[i] = 0x1000 + n_addrs - 1 - i;
	naming_fixture_add(&t, 1, addrs, n_addrs);
	expect_refused(&t, 1, FRAME_RETRY_MS);
	naming_fixture_expect_stats(&t, 0, n_addrs - 1);
	budget_hold_done(&m.others);
	naming_fixture_advance(&t, FRAME_RETRY_MS);
	naming_fixture_expect_stats(&t, 1, n_addrs - 1);
	close_with_memory(&t, &m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_try_comes_later_and_later),
		cmocka_unit_test(an_unknown_binary_is_tried_again_when_it_is_due),
		cmocka_unit_test(a_clock_that_is_set_back_delays_no_try),
		cmocka_unit_test(a_scan_is_not_waited_for),
		cmocka_unit_test(a_wake_is_for_its_own_build_id),
		cmocka_unit_test(a_new_process_tries_at_once_what_had_failed),
		cmocka_unit_test(a_better_file_names_again),
		cmocka_unit_test(a_supplementary_file_wakes_the_binaries_that_lack_it),
		cmocka_unit_test(names_stay_where_a_better_file_has_none),
		cmocka_unit_test(a_wake_during_an_attempt_is_not_lost),
		cmocka_unit_test(a_try_that_waits_does_not_keep_others_waiting),
		cmocka_unit_test(a_table_that_is_not_ready_is_no_failed_try),
		cmocka_unit_test(an_address_that_is_refused_is_asked_for_later_and_later),
		cmocka_unit_test(a_refusal_that_is_written_late_waits_longer_each_time),
		cmocka_unit_test(a_refusal_after_many_failures_waits_for_a_second),
		cmocka_unit_test(refused_addresses_do_not_keep_the_others_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
