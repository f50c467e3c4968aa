/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache: which entries are evicted, kept by references, and freed when.
 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int n_live;

struct value {
	int n;
};

static struct value *value_new(int n)
{
	struct value *v = NEW(struct value);

	v->n = n;
	atomic_fetch_add(&n_live, 1);
	return v;
}

static void value_free(void *p)
{
	atomic_fetch_sub(&n_live, 1);
	free(p);
}

static struct bytes key_of(const int *n)
{
	return bytes_of(n, sizeof(*n));
}

/* Put a value and give its reference back. */
static void put(struct lru *l, int n, size_t weight)
{
	lru_unref(l, lru_put(l, key_of(&n), value_new(n), weight));
}

static bool has(struct lru *l, int n)
{
	struct lru_ref *h = lru_get(l, key_of(&n));
	bool there = h != NULL;

	if (h)
		assert_int_equal(((struct value *)lru_value(h))->n, n);
	lru_unref(l, h);
	return there;
}

static void the_least_recently_used_entry_is_evicted(void **state)
{
	struct lru *l = lru_new(30, value_free);

	for (int i = 0; i < 3; i++)
		put(l, i, 10);
	assert_int_equal(lru_weight(l), 30);
	assert_true(has(l, 0)); /* now 1 is the oldest */
	put(l, 3, 5);
	assert_false(has(l, 1));
	assert_int_equal(lru_weight(l), 25);
	assert_int_equal(n_live, 3);
	put(l, 4, 30);
	assert_false(has(l, 0));
	assert_false(has(l, 2));
	assert_false(has(l, 3));
	assert_true(has(l, 4));
	assert_int_equal(n_live, 1);
	lru_free(l);
	assert_int_equal(n_live, 0);
	lru_free(NULL);
}

static void references_keep_an_evicted_value(void **state)
{
	struct lru *l = lru_new(10, value_free);
	int one = 1, two = 2;
	struct lru_ref *a = lru_put(l, key_of(&one), value_new(1), 10), *b = lru_get(l, key_of(&one));

	assert_ptr_equal(lru_value(a), lru_value(b));
	put(l, 2, 10);
	assert_false(has(l, 1));
	assert_int_equal(n_live, 2);
	lru_unref(l, a);
	assert_int_equal(((struct value *)lru_value(b))->n, 1);
	lru_unref(l, b);
	assert_int_equal(n_live, 1);

	a = lru_get(l, key_of(&two));
	lru_del(l, key_of(&two));
	lru_del(l, key_of(&two));
	assert_int_equal(lru_weight(l), 0);
	assert_int_equal(n_live, 1);
	lru_unref(l, a);
	assert_int_equal(n_live, 0);
	lru_unref(l, NULL);
	lru_free(l);
}

static void the_first_under_a_key_stays(void **state)
{
	struct lru *l = lru_new(10, value_free);
	int key = 1;
	struct value *first = value_new(1);
	struct lru_ref *a = lru_put(l, key_of(&key), first, 1),
		       *b = lru_put(l, key_of(&key), value_new(1), 7);

	assert_ptr_equal(lru_value(b), first);
	assert_int_equal(n_live, 1);
	assert_int_equal(lru_weight(l), 1);
	lru_unref(l, a);
	lru_unref(l, b);
	lru_free(l);
	assert_int_equal(n_live, 0);
}

static void a_value_that_is_too_heavy_is_not_kept(void **state)
{
	struct lru *l = lru_new(10, value_free);
	int key = 5;
	struct lru_ref *h;

	put(l, 1, 10);
	h = lru_put(l, key_of(&key), value_new(5), 11);
	assert_int_equal(((struct value *)lru_value(h))->n, 5);
	assert_false(has(l, 5));
	assert_true(has(l, 1)); /* nothing was evicted for it */
	lru_unref(l, h);
	assert_int_equal(n_live, 1);
	h = lru_put(l, key_of(&key), value_new(5), SIZE_MAX);
	lru_unref(l, h);
	lru_free(l);
	assert_int_equal(n_live, 0);
}

static struct lru *outer;

static void value_free_and_ask(void *p)
{
	/* Outside of the lock: calling the cache does not deadlock. */
	assert_true(lru_weight(outer) <= 10);
	value_free(p);
}

static void the_free_callback_may_use_the_cache(void **state)
{
	outer = lru_new(10, value_free_and_ask);
	for (int i = 0; i < 10; i++)
		put(outer, i, 4);
	for (int i = 0; i < 10; i++)
		lru_del(outer, key_of(&i));
	lru_free(outer);
	assert_int_equal(n_live, 0);
}

static void *use(void *arg)
{
	struct lru *l = arg;

	for (uint64_t i = 0; i < 3000; i++) {
		int key = (int)(hash64(&i, 8, (uint64_t)(uintptr_t)&l) % 40);
		struct lru_ref *h = lru_get(l, key_of(&key));

		if (!h)
			h = lru_put(l, key_of(&key), value_new(key), (size_t)key % 7);
		if (((struct value *)lru_value(h))->n != key)
			abort();
		if (i % 50 == 0)
			lru_del(l, key_of(&key));
		lru_unref(l, h);
	}
	return NULL;
}

static void many_threads(void **state)
{
	struct lru *l = lru_new(50, value_free);
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, use, l), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_true(lru_weight(l) <= 50);
	lru_free(l);
	assert_int_equal(n_live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_least_recently_used_entry_is_evicted),
		cmocka_unit_test(references_keep_an_evicted_value),
		cmocka_unit_test(the_first_under_a_key_stays),
		cmocka_unit_test(a_value_that_is_too_heavy_is_not_kept),
		cmocka_unit_test(the_free_callback_may_use_the_cache),
		cmocka_unit_test(many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
