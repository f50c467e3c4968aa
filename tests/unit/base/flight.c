/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single flight, alone and among threads.
 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

/* What callers of flight_join() share: a reference count and a result to wait for. */
struct work {
	atomic_int refs;
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	int result; /* under the lock; 0: not yet */
};

static atomic_int n_made, n_freed;

static void *work_make(void *arg)
{
	struct work *w = NEW(struct work);

	assert_non_null(arg);
	w->refs = 1;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->done_cond, NULL);
	atomic_fetch_add(&n_made, 1);
	return w;
}

static void work_take(void *obj)
{
	atomic_fetch_add(&((struct work *)obj)->refs, 1);
}

static void work_drop(struct work *w)
{
	if (atomic_fetch_sub(&w->refs, 1) != 1)
		return;
	pthread_cond_destroy(&w->done_cond);
	pthread_mutex_destroy(&w->lock);
	free(w);
	atomic_fetch_add(&n_freed, 1);
}

static void the_first_leads_until_it_lands(void **state)
{
	struct flight_table *t = flight_new();
	struct bytes key = bytes_of("key", 3), other = bytes_of("other", 5);
	bool leader;
	struct work *a, *b, *c, *d;

	a = flight_join(t, key, work_make, t, work_take, &leader);
	assert_true(leader);
	b = flight_join(t, key, work_make, t, work_take, &leader);
	assert_false(leader);
	assert_ptr_equal(a, b);
	assert_int_equal(a->refs, 2);
	c = flight_join(t, other, work_make, t, work_take, &leader);
	assert_true(leader);
	assert_ptr_not_equal(a, c);

	flight_land(t, key);
	d = flight_join(t, key, work_make, t, work_take, &leader);
	assert_true(leader);
	assert_ptr_not_equal(a, d);
	flight_land(t, key);
	flight_land(t, other);
	work_drop(a);
	work_drop(b);
	work_drop(c);
	work_drop(d);
	flight_free(t);
	flight_free(NULL);
}

struct caller {
	struct flight_table *table;
	atomic_int *n_led;
	unsigned wrong;
};

static void *call(void *arg)
{
	struct caller *me = arg;

	for (int i = 0; i < 500; i++) {
		int key = i % 3;
		bool leader;
		struct work *w = flight_join(me->table, bytes_of(&key, sizeof(key)), work_make, me, work_take,
					     &leader);

		pthread_mutex_lock(&w->lock);
		if (leader) {
			w->result = 100 + key;
			atomic_fetch_add(me->n_led, 1);
			pthread_cond_broadcast(&w->done_cond);
		}
		while (!w->result)
			pthread_cond_wait(&w->done_cond, &w->lock);
		me->wrong += w->result != 100 + key;
		pthread_mutex_unlock(&w->lock);
		if (leader)
			flight_land(me->table, bytes_of(&key, sizeof(key)));
		work_drop(w);
	}
	return NULL;
}

static void many_threads_share_one_flight(void **state)
{
	struct flight_table *t = flight_new();
	struct caller callers[6];
	atomic_int n_led = 0;
	pthread_t threads[6];

	n_made = n_freed = 0;
	for (int i = 0; i < 6; i++) {
		callers[i] = (struct caller){ .table = t, .n_led = &n_led };
		assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
	}
	for (int i = 0; i < 6; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(callers[i].wrong, 0);
	}
	assert_int_equal(n_made, n_led);
	assert_int_equal(n_freed, n_led);
	flight_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_leads_until_it_lands),
		cmocka_unit_test(many_threads_share_one_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
