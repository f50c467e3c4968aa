/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting on a condition for a limited time.
 */
#include "test.h"

#include "base/clock.h"
#include "base/condition.h"

#define FOR_EVER_MS INT64_MAX

struct box {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool set, stop; /* under the lock */
};

static void box_init(struct box *b)
{
	*b = (struct box){ 0 };
	pthread_mutex_init(&b->lock, NULL);
	condition_init(&b->changed);
}

static void box_done(struct box *b)
{
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
}

static void *set(void *arg)
{
	struct box *b = arg;

	pthread_mutex_lock(&b->lock);
	b->set = true;
	pthread_cond_signal(&b->changed);
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

static void *stop(void *arg)
{
	struct box *b = arg;

	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_cond_signal(&b->changed);
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

static void a_wait_without_a_signal_times_out(void **state)
{
	static const int64_t times_ms[] = { -1, 0, 1, 20, 1001 };
	struct box b;

	box_init(&b);
	for (size_t i = 0; i < ARRAY_SIZE(times_ms); i++) {
		int64_t from_ms = clock_mono_ms();

		pthread_mutex_lock(&b.lock);
		while (condition_wait(&b.changed, &b.lock, times_ms[i]))
			from_ms = clock_mono_ms(); /* a spurious wake-up */
		pthread_mutex_unlock(&b.lock);
		assert_true(clock_mono_ms() - from_ms >= times_ms[i]);
		assert_false(condition_pause(&b.changed, &b.lock, &b.stop, MIN(times_ms[i], (int64_t)20)));
	}
	box_done(&b);
}

static void a_signal_ends_the_wait(void **state)
{
	pthread_t thread;
	struct box b;

	box_init(&b);
	pthread_mutex_lock(&b.lock);
	assert_int_equal(pthread_create(&thread, NULL, set, &b), 0);
	while (!b.set)
		assert_true(condition_wait(&b.changed, &b.lock, FOR_EVER_MS));
	pthread_mutex_unlock(&b.lock);
	pthread_join(thread, NULL);

	assert_int_equal(pthread_create(&thread, NULL, stop, &b), 0);
	assert_true(condition_pause(&b.changed, &b.lock, &b.stop, FOR_EVER_MS));
	pthread_join(thread, NULL);
	assert_true(condition_pause(&b.changed, &b.lock, &b.stop, FOR_EVER_MS));
	box_done(&b);
}

static void a_deadline_is_a_time_of_the_monotonic_clock(void **state)
{
	struct timespec now = condition_deadline(0), later = condition_deadline(1999);

	assert_in_range(now.tv_nsec, 0, 999999999);
	assert_in_range(later.tv_nsec, 0, 999999999);
	assert_true((later.tv_sec - now.tv_sec) * 1000 + (later.tv_nsec - now.tv_nsec) / 1000000 >= 1999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_without_a_signal_times_out),
		cmocka_unit_test(a_signal_ends_the_wait),
		cmocka_unit_test(a_deadline_is_a_time_of_the_monotonic_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
