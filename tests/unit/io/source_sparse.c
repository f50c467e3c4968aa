/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sparse source: ranges that were added, in any order, are present; all other bytes are a miss.
 */
#include "test.h"

#include "io/io.h"

#define SIZE 1000

static uint8_t data[SIZE];

static int setup(void **state)
{
	test_fill(data, sizeof(data), 6);
	return 0;
}

static void add(struct source *s, uint64_t off, size_t n)
{
	source_sparse_add(s, off, data + off, n);
}

static void assert_has(struct source *s, uint64_t off, size_t n)
{
	uint8_t out[SIZE];
	struct err err = { 0 };

	assert_done(source_read_full(s, off, out, n, SOURCE_RANDOM, &err));
	assert_memory_equal(out, data + off, n);
}

static void assert_lacks(struct source *s, uint64_t off, size_t n)
{
	uint8_t out[SIZE];
	struct err err = { 0 };
	uint64_t missed_off, missed_n;

	assert_fails(source_read_full(s, off, out, n, SOURCE_RANDOM, &err), ERR_LIMIT, "were not kept");
	assert_true(source_sparse_missed(s, &missed_off, &missed_n));
	assert_int_equal(missed_off, off);
	assert_int_equal(missed_n, n);
}

static void only_added_ranges_can_be_read(void **state)
{
	AUTO(source_closep) struct source *s = source_sparse_new(SIZE, "sparse");
	uint64_t off, n;

	assert_false(source_sparse_missed(s, &off, &n));
	assert_lacks(s, 0, 1);
	assert_lacks(s, 0, SIZE);
	add(s, 100, 50);
	add(s, 300, 50);
	add(s, 200, 50);
	add(s, 500, 0);
	assert_int_equal(source_sparse_held(s), 150);
	assert_has(s, 100, 50);
	assert_has(s, 249, 1);
	assert_has(s, 310, 10);
	assert_lacks(s, 99, 2);
	assert_lacks(s, 149, 2);
	assert_lacks(s, 150, 50);
	assert_lacks(s, 120, 100);
	assert_lacks(s, 350, 1);
	assert_lacks(s, 999, 1);
	assert_has(s, 120, 5); /* a hit does not change the last miss */
	assert_true(source_sparse_missed(s, &off, &n));
	assert_int_equal(off, 999);
}

static void touching_ranges_are_joined(void **state)
{
	AUTO(source_closep) struct source *s = source_sparse_new(SIZE, "sparse");

	add(s, 100, 50);
	add(s, 200, 50);
	add(s, 150, 50);
	assert_has(s, 100, 150);
	add(s, 90, 10);
	assert_has(s, 90, 160);
	assert_int_equal(source_sparse_held(s), 160);
	add(s, 0, SIZE);
	assert_has(s, 0, SIZE);
	assert_int_equal(source_sparse_held(s), SIZE);
}

static void reads_at_the_end_are_short(void **state)
{
	AUTO(source_closep) struct source *s = source_sparse_new(SIZE, "sparse");
	struct err err = { 0 };
	uint8_t out[20];
	size_t got;

	add(s, SIZE - 10, 10);
	assert_done(source_read(s, SIZE - 10, out, 20, SOURCE_RANDOM, &got, &err));
	assert_int_equal(got, 10);
	assert_fails(source_read_full(s, SIZE - 10, out, 20, SOURCE_RANDOM, &err), ERR_INVALID,
		     "ends at 1000");
	assert_done(source_read(s, SIZE, out, 20, SOURCE_RANDOM, &got, &err));
	assert_int_equal(got, 0);
}

static void any_order_and_overlap(void **state)
{
	for (uint64_t seed = 0; seed < 200; seed++) {
		AUTO(source_closep) struct source *s = source_sparse_new(SIZE, "sparse");
		bool there[SIZE] = { 0 };

		for (uint64_t i = 0; i < 40; i++) {
			uint64_t rnd = hash64(&i, 8, seed), off = rnd % SIZE;
			size_t n = (rnd >> 32) % (seed % 2 ? 100 : 8), held = 0;

			n = MIN(n, SIZE - off);
			add(s, off, n);
			memset(there + off, true, n);
			for (size_t k = 0; k < SIZE; k++)
				held += there[k];
			assert_int_equal(source_sparse_held(s), held);

			off = (rnd >> 16) % SIZE;
			n = 1 + (rnd >> 48) % 50;
			n = MIN(n, SIZE - off);
			held = 0;
			for (size_t k = 0; k < n; k++)
				held += there[off + k];
			if (held == n)
				assert_has(s, off, n);
			else
				assert_lacks(s, off, n);
		}
	}
}

static void later_bytes_overwrite_earlier_ones(void **state)
{
	AUTO(source_closep) struct source *s = source_sparse_new(10, "sparse");
	struct err err = { 0 };
	char out[10];

	source_sparse_add(s, 0, "aaaa", 4);
	source_sparse_add(s, 6, "bbbb", 4);
	source_sparse_add(s, 2, "cccccc", 6);
	assert_done(source_read_full(s, 0, out, 10, SOURCE_RANDOM, &err));
	assert_memory_equal(out, "aaccccccbb", 10);
	source_sparse_add(s, 1, "d", 1);
	assert_done(source_read_full(s, 0, out, 10, SOURCE_RANDOM, &err));
	assert_memory_equal(out, "adccccccbb", 10);
	assert_int_equal(source_sparse_held(s), 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_added_ranges_can_be_read),
		cmocka_unit_test(touching_ranges_are_joined),
		cmocka_unit_test(reads_at_the_end_are_short),
		cmocka_unit_test(any_order_and_overlap),
		cmocka_unit_test(later_bytes_overwrite_earlier_ones),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
