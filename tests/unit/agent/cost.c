/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of work is without the time in which others had the processor.
 */
#include "test.h"

#include <pthread.h>
#include <sched.h>

#include "agent/cost.h"

static void waiting_for_a_processor_is_no_cost(void **state)
{
	assert_int_equal(cost_of_text(STR("500 300 7\n"), 1000), 700);
	assert_int_equal(cost_of_text(STR("500 900 8\n"), 2000), 1100);
	/* Where the kernel does not count it, the time is the cost. */
	assert_int_equal(cost_of_text(STR(""), 1000), 1000);
	assert_int_equal(cost_of_text(STR("500"), 1000), 1000);
	assert_int_equal(cost_of_text(STR("x y z"), 1000), 1000);
}

static volatile bool over;

static void *take_processor(void *ignored)
{
	while (!over)
		;
	return NULL;
}

/* Two threads on one processor: each works for half of the time. */
static void work_costs_less_than_its_time_beside_others(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct err ignored = { 0 };
	cpu_set_t old, one;
	pthread_t thread;
	int64_t time_ns, work_ns;

	if (file_read("/proc/thread-self/schedstat", 128, &text, &ignored) != 0)
		skip();
	assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(pthread_create(&thread, NULL, take_processor, NULL), 0);
	time_ns = clock_mono_ns();
	work_ns = cost_ns();
	while (clock_mono_ns() - time_ns < 200000000)
		;
	work_ns = cost_ns() - work_ns;
	time_ns = clock_mono_ns() - time_ns;
	over = true;
	pthread_join(thread, NULL);
	sched_setaffinity(0, sizeof(old), &old);
	assert_true(work_ns > 0);
	assert_true(work_ns < time_ns * 9 / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_for_a_processor_is_no_cost),
		cmocka_unit_test(work_costs_less_than_its_time_beside_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
