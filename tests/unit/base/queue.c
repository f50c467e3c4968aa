/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounded queue, alone and among threads.
 */
#include "test.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static void first_in_first_out_up_to_its_bound(void **state)
{
	struct queue *q = queue_new(3);
	int items[4];
	void *item = NULL;

	assert_int_equal(queue_try_pop(q, &item), QUEUE_EMPTY);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 3; i++)
			assert_int_equal(i % 2 ? queue_push(q, &items[i]) : queue_try_push(q, &items[i]), 0);
		assert_int_equal(queue_try_push(q, &items[3]), QUEUE_FULL);
		assert_int_equal(queue_size(q), 3);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(queue_pop(q, i ? 0 : -1, &item), 0);
			assert_ptr_equal(item, &items[i]);
		}
		assert_int_equal(queue_try_pop(q, &item), 0);
		assert_ptr_equal(item, &items[2]);
	}
	queue_free(q);
	queue_free(NULL);
}

static void a_wait_times_out(void **state)
{
	struct queue *q = queue_new(1);
	int64_t start = clock_mono_ms();
	void *item;

	assert_int_equal(queue_pop(q, 0, &item), QUEUE_TIMEOUT);
	assert_int_equal(queue_pop(q, 20, &item), QUEUE_TIMEOUT);
	assert_true(clock_mono_ms() - start >= 20);
	queue_free(q);
}

static void items_of_a_closed_queue_can_be_popped(void **state)
{
	struct queue *q = queue_new(2);
	int x;
	void *item;

	queue_push(q, &x);
	queue_close(q);
	assert_int_equal(queue_push(q, &x), QUEUE_CLOSED);
	assert_int_equal(queue_try_push(q, &x), QUEUE_CLOSED);
	assert_int_equal(queue_pop(q, -1, &item), 0);
	assert_int_equal(queue_pop(q, -1, &item), QUEUE_CLOSED);
	assert_int_equal(queue_pop(q, INT64_MAX, &item), QUEUE_CLOSED);
	assert_int_equal(queue_try_pop(q, &item), QUEUE_CLOSED);
	queue_free(q);
}

struct shared {
	struct queue *q;
	_Atomic uint64_t sum;
	atomic_int n, ended;
};

static void *consume(void *arg)
{
	struct shared *s = arg;
	void *item;

	while (queue_pop(s->q, -1, &item) == 0) {
		atomic_fetch_add(&s->sum, (uint64_t)(uintptr_t)item);
		atomic_fetch_add(&s->n, 1);
	}
	atomic_fetch_add(&s->ended, 1);
	return NULL;
}

static void *produce(void *arg)
{
	struct shared *s = arg;

	for (uintptr_t i = 1; i <= 5000; i++)
		assert(queue_push(s->q, (void *)i) == 0);
	return NULL;
}

static void everything_arrives_once_among_many_threads(void **state)
{
	struct shared s = { .q = queue_new(4) };
	pthread_t in[3], out[3];

	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_create(&out[i], NULL, consume, &s), 0);
		assert_int_equal(pthread_create(&in[i], NULL, produce, &s), 0);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(in[i], NULL);
	queue_close(s.q);
	for (int i = 0; i < 3; i++)
		pthread_join(out[i], NULL);
	assert_int_equal(s.n, 15000);
	assert_true(s.sum == 3ull * 5000 * 5001 / 2);
	assert_int_equal(s.ended, 3);
	queue_free(s.q);
}

static void *push_two(void *arg)
{
	struct shared *s = arg;

	queue_push(s->q, s);
	atomic_store(&s->n, queue_push(s->q, s)); /* full: waits until it is closed */
	return NULL;
}

static void closing_wakes_a_waiting_push(void **state)
{
	struct shared s = { .q = queue_new(1), .n = -1 };
	pthread_t t;
	void *item;

	assert_int_equal(pthread_create(&t, NULL, push_two, &s), 0);
	while (queue_size(s.q) == 0)
		sched_yield();
	queue_close(s.q);
	pthread_join(t, NULL);
	assert_int_equal(s.n, QUEUE_CLOSED);
	assert_int_equal(queue_pop(s.q, 0, &item), 0);
	queue_free(s.q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_in_first_out_up_to_its_bound),
		cmocka_unit_test(a_wait_times_out),
		cmocka_unit_test(items_of_a_closed_queue_can_be_popped),
		cmocka_unit_test(everything_arrives_once_among_many_threads),
		cmocka_unit_test(closing_wakes_a_waiting_push),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
