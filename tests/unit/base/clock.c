/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks, and how a test moves them.
 */
#include "test.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_goes_on),
		cmocka_unit_test(a_test_moves_the_clock),
		cmocka_unit_test(a_pause_doubles_up_to_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
