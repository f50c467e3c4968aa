/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks, and how a test moves them.
 */
#include "test.h"

#include "base/age_clock.h"

static void time_goes_on(void **state)
{
	int64_t a = clock_mono_ns(), wall = clock_wall_s();

	assert_true(clock_mono_ns() >= a);
	assert_true(wall > 1700000000);
	assert_true(clock_wall_ms() / 1000 >= wall);
	assert_true(clock_cpu_ns() > 0);
}

static void a_test_moves_the_clock(void **state)
{
	int64_t mono;

	clock_test_freeze(1000);
	mono = clock_mono_ms();
	assert_int_equal(clock_wall_s(), 1000);
	assert_int_equal(clock_wall_ms(), 1000000);
	clock_test_advance(1500);
	assert_int_equal(clock_wall_ms(), 1001500);
	assert_int_equal(clock_wall_s(), 1001);
	assert_int_equal(clock_mono_ms(), mono + 1500);
	clock_test_thaw();
	assert_true(clock_wall_s() > 1700000000);
}

static void a_pause_doubles_up_to_the_last(void **state)
{
	assert_int_equal(clock_backoff(500, 0, 15000), 500);
	assert_int_equal(clock_backoff(500, 1, 15000), 1000);
	assert_int_equal(clock_backoff(500, 4, 15000), 8000);
	assert_int_equal(clock_backoff(500, 5, 15000), 15000);
	assert_int_equal(clock_backoff(500, UINT32_MAX, INT64_C(1) << 61), INT64_C(1) << 61);
	assert_int_equal(clock_backoff(0, UINT32_MAX, 15000), 0);
	assert_int_equal(clock_backoff(500, 0, 100), 100);
}

/* ---- the clock of ages ---- */

#define HOUR INT64_C(3600000)
#define DAY  (24 * HOUR)

/* @wall_ms and @mono_ms: how far the two clocks go on until the next reading. */
static struct age_time read_after(struct age_clock *c, int64_t *wall, int64_t *mono, int64_t wall_ms,
				  int64_t mono_ms)
{
	return age_clock_read(c, *wall += wall_ms, *mono += mono_ms);
}

static void a_jump_of_the_wall_clock_is_doubted(void **state)
{
	int64_t wall = 1000 * DAY, mono = 0;
	struct age_clock c;
	struct age_time t;

	age_clock_open(&c, wall, mono, wall, 0);
	t = read_after(&c, &wall, &mono, HOUR, HOUR);
	assert_false(t.doubted || t.changed);
	assert_int_equal(t.now_ms, 1000 * DAY + HOUR);
	assert_int_equal(t.least_ms, t.now_ms);
	/* Ahead for a moment: the time goes on as before. */
	t = read_after(&c, &wall, &mono, 365 * DAY, 5000);
	assert_true(t.doubted && t.changed);
	assert_int_equal(t.now_ms, 1000 * DAY + HOUR + 5000);
	assert_int_equal(t.least_ms, t.now_ms);
	assert_int_equal(t.apart_ms, 365 * DAY - 5000);
	assert_int_equal(t.confirm_ms, DAY);
	t = read_after(&c, &wall, &mono, 10000 - 365 * DAY, 5000);
	assert_false(t.doubted);
	assert_int_equal(t.now_ms, wall);
	/* Behind: by the wall clock less is too old. */
	t = read_after(&c, &wall, &mono, -16 * HOUR, 0);
	assert_true(t.doubted && t.least_ms == wall && t.now_ms == wall + 16 * HOUR);
	assert_int_equal(t.confirm_ms, 2 * HOUR);
	t = read_after(&c, &wall, &mono, 2 * HOUR - 1, 2 * HOUR - 1);
	assert_true(t.doubted && !t.changed && t.confirm_ms == 1);
	t = read_after(&c, &wall, &mono, 1, 1);
	assert_true(!t.doubted && t.changed && t.now_ms == wall && t.least_ms == wall);
	age_clock_close(&c);
}

static void the_time_of_ages_goes_on_from_one_that_was_reached(void **state)
{
	int64_t wall = 1000 * DAY, mono = 0;
	struct age_clock c;
	struct age_time t;

	/* Nothing was reached: the wall clock is believed. */
	age_clock_open(&c, wall, mono, INT64_MIN, 0);
	t = read_after(&c, &wall, &mono, 1, 1);
	assert_true(!t.doubted && t.now_ms == wall);
	age_clock_close(&c);
	/* An hour is the least, and what an earlier process saw counts. */
	age_clock_open(&c, wall, mono, wall - HOUR, HOUR / 2);
	t = read_after(&c, &wall, &mono, HOUR / 4, HOUR / 4);
	assert_true(t.doubted && t.now_ms == wall - HOUR && t.least_ms == t.now_ms);
	assert_true(t.confirm_ms == HOUR / 4 && t.steady_ms == 3 * HOUR / 4);
	t = read_after(&c, &wall, &mono, HOUR / 4, HOUR / 4);
	assert_true(!t.doubted && t.now_ms == wall);
	age_clock_close(&c);
}

/* Between two readings both clocks go on; that is no sign of a clock that goes on steadily. */
static void the_earlier_time_without_a_reading_confirms_nothing(void **state)
{
	int64_t wall = 1000 * DAY, mono = 0;
	struct age_clock c;

	age_clock_open(&c, wall, mono, INT64_MIN, 0);
	assert_int_equal(age_clock_least_ms(&c, 5000), wall + 5000);
	assert_int_equal(age_clock_least_ms(&c, -1), wall);
	read_after(&c, &wall, &mono, 365 * DAY, 0);
	assert_int_equal(age_clock_least_ms(&c, 2 * DAY), 1002 * DAY);
	assert_true(read_after(&c, &wall, &mono, HOUR, HOUR).doubted);
	read_after(&c, &wall, &mono, -400 * DAY, 0);
	assert_int_equal(age_clock_least_ms(&c, mono + 1), wall + 1);
	age_clock_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_goes_on),
		cmocka_unit_test(a_test_moves_the_clock),
		cmocka_unit_test(a_pause_doubles_up_to_the_last),
		cmocka_unit_test(a_jump_of_the_wall_clock_is_doubted),
		cmocka_unit_test(the_time_of_ages_goes_on_from_one_that_was_reached),
		cmocka_unit_test(the_earlier_time_without_a_reading_confirms_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
