/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash tables of numbers.
 */
#include "test.h"

#include "base/numbers.h"

#define N 5000u

struct list {
	struct numbers by_value;
	uint64_t values[N];
	uint32_t n;
};

/* Few of them: many meet in one slot. */
static uint64_t hash_of(uint64_t value)
{
	return numbers_mix(value, 7) % 512;
}

static void make_room(struct list *l)
{
	struct numbers old = l->by_value;

	if (!numbers_is_full(&old))
		return;
	assert_true(numbers_start(&l->by_value, old.mask ? numbers_room(&old) * 2 : 4));
	for (uint64_t k = 0; k < numbers_room(&old); k++)
		if (old.slots[k])
			numbers_add(&l->by_value, hash_of(l->values[old.slots[k] - 1]), old.slots[k] - 1);
	assert_int_equal(l->by_value.n, old.n);
	free(old.slots);
}

static uint32_t number_of(struct list *l, uint64_t value)
{
	uint32_t at, i;

	make_room(l);
	if (NUMBERS_FIND(&l->by_value, hash_of(value), at, i, l->values[i] == value))
		return i;
	l->values[l->n] = value;
	numbers_put(&l->by_value, at, l->n);
	return l->n++;
}

static void each_value_has_one_number(void **state)
{
	struct list *l = NEW(struct list);

	for (unsigned round = 0; round < 2; round++)
		for (uint32_t i = 0; i < N; i++)
			assert_int_equal(number_of(l, i * 3), i);
	assert_int_equal(l->n, N);
	assert_int_equal(l->by_value.n, N);
	assert_true(numbers_room(&l->by_value) > N);
	free(l->by_value.slots);
	free(l);
}

static void what_is_empty_is_full(void **state)
{
	const struct numbers t = { 0 };

	assert_int_equal(numbers_room(&t), 0);
	assert_true(numbers_is_full(&t));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_value_has_one_number),
		cmocka_unit_test(what_is_empty_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
