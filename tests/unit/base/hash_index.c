/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash tables of indices.
 */
#include "test.h"

#include "base/hash_index.h"

#define N 5000u

struct list {
	struct hash_index by_value;
	uint64_t values[N];
	uint32_t n;
};

/* 512 different ones: many elements meet in one slot. */
static uint64_t hash_of(uint64_t value)
{
	return hash_mix(value, 7) % 512;
}

static void reserve(struct list *l)
{
	uint32_t before = l->by_value.n;

	if (!hash_index_is_full(&l->by_value))
		return;
	assert_true(HASH_INDEX_GROW(&l->by_value, before ? hash_index_room(&l->by_value) * 2 : 4, i,
				    hash_of(l->values[i])));
	assert_int_equal(l->by_value.n, before);
}

static uint32_t index_of(struct list *l, uint64_t value)
{
	uint32_t at, i;

	reserve(l);
	if (HASH_INDEX_FIND(&l->by_value, hash_of(value), at, i, l->values[i] == value))
		return i;
	l->values[l->n] = value;
	hash_index_put(&l->by_value, at, l->n);
	return l->n++;
}

static void each_value_has_one_index(void **state)
{
	struct list *l = NEW(struct list);

	for (unsigned round = 0; round < 2; round++)
		for (uint32_t i = 0; i < N; i++)
			assert_int_equal(index_of(l, i * 3), i);
	assert_int_equal(l->n, N);
	assert_int_equal(l->by_value.n, N);
	assert_true(hash_index_room(&l->by_value) > N);
	free(l->by_value.slots);
	free(l);
}

static void an_empty_table_is_full(void **state)
{
	const struct hash_index t = { 0 };

	assert_int_equal(hash_index_room(&t), 0);
	assert_true(hash_index_is_full(&t));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_value_has_one_index),
		cmocka_unit_test(an_empty_table_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
