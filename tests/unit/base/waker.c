/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wakers: they fire once, also if their object has ended.
 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include "base/waker.h"

#define ROUNDS 2000

static void count(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static void a_fired_waker_is_gone(void **state)
{
	struct waker *at = NULL, *w;
	atomic_uint n = 0;

	assert_false(waker_waits(&at));
	w = waker_new(&at, count, &n);
	assert_true(waker_waits(&at));
	assert_int_equal(n, 0);
	waker_fire(w);
	assert_int_equal(n, 1);
	assert_false(waker_waits(&at));
	assert_false(waker_drop(&at));
}

static void a_dropped_waker_does_nothing(void **state)
{
	struct waker *at = NULL, *w, *next;
	atomic_uint n = 0;

	w = waker_new(&at, count, &n);
	assert_true(waker_drop(&at));
	assert_false(waker_waits(&at));
	/* Nor does the old waker fire the new one. */
	next = waker_new(&at, count, &n);
	waker_fire(w);
	assert_int_equal(n, 0);
	assert_true(waker_waits(&at));
	waker_fire(next);
	assert_int_equal(n, 1);
}

static void a_returned_waker_is_freed(void **state)
{
	struct waker *at = NULL;
	atomic_uint n = 0;

	waker_free(&at, waker_new(&at, count, &n));
	assert_false(waker_waits(&at));
	assert_int_equal(n, 0);
}

static void *fire(void *arg)
{
	waker_fire(arg);
	return NULL;
}

/* The object may be freed as soon as its waker is dropped. */
static void fired_and_dropped_at_once(void **state)
{
	unsigned n_dropped = 0, n_fired = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct {
			struct waker *at;
			atomic_uint n;
		} *x = mem_zalloc(sizeof(*x));
		pthread_t t;
		bool dropped;

		assert_int_equal(pthread_create(&t, NULL, fire, waker_new(&x->at, count, &x->n)), 0);
		dropped = waker_drop(&x->at);
		assert_int_equal(x->n, !dropped);
		n_dropped += dropped;
		n_fired += x->n;
		free(x);
		pthread_join(t, NULL);
	}
	assert_int_equal(n_dropped + n_fired, ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fired_waker_is_gone),
		cmocka_unit_test(a_dropped_waker_does_nothing),
		cmocka_unit_test(a_returned_waker_is_freed),
		cmocka_unit_test(fired_and_dropped_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
