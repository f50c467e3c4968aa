/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Radix sort, and sorting of short arrays.
 */
#include "test.h"

#include <stdlib.h>
#include "base/sort.h"

static uint64_t mix(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state ^ *state >> 29;
}

static void check(size_t n, uint64_t mask, uint64_t add)
{
	struct sort_key *list = mem_realloc(NULL, n + 1, sizeof(*list));
	uint64_t state = n, sum = 0, again = 0;

	for (size_t i = 0; i < n; i++) {
		list[i] = (struct sort_key){ (mix(&state) & mask) + add, i };
		sum += list[i].key;
	}
	sort_keys(list, n);
	for (size_t i = 0; i < n; i++) {
		again += list[i].key;
		if (i)
			assert_true(list[i - 1].key < list[i].key ||
				    (list[i - 1].key == list[i].key && list[i - 1].at < list[i].at));
	}
	assert_true(sum == again);
	free(list);
}

static void keys_rise_and_equal_ones_stay_in_order(void **state)
{
	static const uint64_t masks[] = { 0, 1, 0xff, 0xf0f0, 0xffffff, UINT64_MAX, 0xff00000000000000 };
	static const size_t counts[] = { 0, 1, 2, 32, 33, 256, 257, 1000, 4096, 4097, 70000 };

	for (size_t m = 0; m < ARRAY_SIZE(masks); m++)
		for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
			check(counts[i], masks[m], 0xffffffff80000000);
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void few_and_many_are_sorted(void **state)
{
	static const size_t counts[] = { 0, 1, 2, 3, SORT_FEW, SORT_FEW + 1, 1000 };
	uint32_t list[1000];
	uint64_t random = 1;

	for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
		size_t n = counts[k];
		uint64_t sum = 0;

		for (size_t i = 0; i < n; i++)
			sum += list[i] = (uint32_t)(mix(&random) % 100);
		SORT(list, n, by_number);
		for (size_t i = 0; i < n; i++) {
			assert_true(!i || list[i - 1] <= list[i]);
			sum -= list[i];
		}
		assert_true(sum == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_rise_and_equal_ones_stay_in_order),
		cmocka_unit_test(few_and_many_are_sorted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
