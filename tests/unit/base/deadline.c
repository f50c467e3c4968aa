/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines: how often the clock is read, and what the message says.
 */
#include <errno.h>
#include "base/deadline.h"
#include "test.h"

static int frozen(void **state)
{
	clock_test_freeze(1000);
	return 0;
}

static int thawed(void **state)
{
	clock_test_thaw();
	return 0;
}

/* How many checks of @steps pass before one says that the work is over; at most @most. */
static unsigned checks_passed(struct deadline *d, uint32_t steps, unsigned most)
{
	unsigned n = 0;

	while (n < most && !deadline_over(d, steps))
		n++;
	return n;
}

static void work_without_deadline_is_never_over(void **state)
{
	assert_int_equal(checks_passed(NULL, 1000000, 1000), 1000);
}

static void passed_deadline_is_seen_within_the_counted_steps(void **state)
{
	struct deadline d = deadline_in(100, "the query", NULL);

	assert_int_equal(checks_passed(&d, 1, 100000), 100000);
	clock_test_advance(100);
	assert_true(checks_passed(&d, 1, 100000) < DEADLINE_STEPS);
	/* From then on at each check. */
	assert_true(deadline_over(&d, 1));
	assert_true(deadline_over(&d, 0));
}

static void expensive_steps_are_seen_at_once(void **state)
{
	struct deadline d = deadline_in(100, "the query", NULL);

	clock_test_advance(100);
	assert_int_equal(checks_passed(&d, UINT32_MAX, 10), 0);
	d = deadline_in(100, "the query", NULL);
	clock_test_advance(100);
	/* The sum of steps does not wrap around. */
	assert_int_equal(checks_passed(&d, DEADLINE_STEPS - 1, 1), 1);
	assert_int_equal(checks_passed(&d, UINT32_MAX, 10), 0);
}

static void message_says_what_took_too_long_and_the_remedy(void **state)
{
	struct deadline d = deadline_in(2500, "the query", "ask for a shorter time range");
	struct err err = { 0 };

	assert_int_equal(deadline_check(&d, DEADLINE_STEPS, &err), 0);
	clock_test_advance(2500);
	assert_int_equal(deadline_check(&d, DEADLINE_STEPS, &err), -1);
	assert_int_equal(err.kind, ERR_CANCELLED);
	assert_int_equal(err.os, ETIME);
	assert_string_equal(err.text, "the query took longer than 2500 ms: ask for a shorter time range");
}

static bool is_true(void *arg)
{
	++*(unsigned *)arg;
	return *(unsigned *)arg > 1;
}

static void client_is_asked_for_at_intervals(void **state)
{
	unsigned n_asked = 0;
	struct deadline d = { .what = "the query", .cancelled = is_true, .arg = &n_asked };
	struct err err = { 0 };

	assert_int_equal(checks_passed(&d, DEADLINE_STEPS, 1000), 1000);
	assert_int_equal(n_asked, 1);
	clock_test_advance(DEADLINE_POLL_MS);
	assert_int_equal(deadline_check(&d, DEADLINE_STEPS, &err), -1);
	assert_int_equal(n_asked, 2);
	assert_int_equal(err.os, ECANCELED);
	assert_string_equal(err.text, "the query was cancelled: nobody waits for it any more");
}

static void count_call(void *arg)
{
	++*(unsigned *)arg;
}

static void thread_may_give_way_at_each_look(void **state)
{
	unsigned n = 0;
	struct deadline d = { .give_way = count_call, .arg = &n };

	checks_passed(&d, 1, 10 * DEADLINE_STEPS);
	assert_int_equal(n, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(work_without_deadline_is_never_over, frozen, thawed),
		cmocka_unit_test_setup_teardown(passed_deadline_is_seen_within_the_counted_steps, frozen,
						thawed),
		cmocka_unit_test_setup_teardown(expensive_steps_are_seen_at_once, frozen, thawed),
		cmocka_unit_test_setup_teardown(message_says_what_took_too_long_and_the_remedy, frozen,
						thawed),
		cmocka_unit_test_setup_teardown(client_is_asked_for_at_intervals, frozen, thawed),
		cmocka_unit_test_setup_teardown(thread_may_give_way_at_each_look, frozen, thawed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
