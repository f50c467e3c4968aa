/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arenas: allocations do not overlap, and are dropped together.
 */
#include "test.h"

static void pieces_are_aligned_and_apart(void **state)
{
	AUTO(arena_done) struct arena a = { 0 };
	uint8_t *p[2000];

	for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
		p[i] = arena_alloc(&a, i);
		assert_int_equal((uintptr_t)p[i] % 16, 0);
		memset(p[i], (int)i, i);
	}
	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		for (size_t k = 0; k < i; k++)
			assert_int_equal(p[i][k], (uint8_t)i);
	assert_int_equal(a.size, 2000 * 1999 / 2);
}

static void empty_pieces_are_distinct(void **state)
{
	AUTO(arena_done) struct arena a = { 0 };
	void *p = arena_alloc(&a, 0), *q = arena_alloc(&a, 0);

	assert_non_null(p);
	assert_ptr_not_equal(p, q);
}

static void a_large_piece_does_not_end_the_chunk(void **state)
{
	AUTO(arena_done) struct arena a = { 0 };
	char *small = arena_alloc(&a, 16), *large = arena_zalloc(&a, MIB(8)), *next = arena_alloc(&a, 16);

	assert_int_equal(large[MIB(8) - 1], 0);
	assert_true(next > small && next - small <= 64);
}

static void reset_drops_all_and_keeps_room(void **state)
{
	AUTO(arena_done) struct arena a;
	void *p;

	arena_init(&a);
	arena_reset(&a); /* of an empty arena */
	p = arena_alloc(&a, 100);
	arena_alloc(&a, MIB(3));
	arena_reset(&a);
	assert_int_equal(a.size, 0);
	assert_ptr_equal(arena_alloc(&a, 100), p);
	for (int i = 0; i < 10000; i++) {
		arena_zalloc(&a, 1000);
		if (i % 100 == 0)
			arena_reset(&a);
	}
}

static void copies(void **state)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct bytes b = arena_bytes(&a, bytes_of("\0\1\2", 3));
	int *n = ARENA_NEW_N(&a, int, 100);

	assert_string_equal(arena_strdup(&a, STR("hello")), "hello");
	assert_string_equal(arena_strdup(&a, (struct str){ 0 }), "");
	assert_memory_equal(b.p, "\0\1\2", 3);
	assert_string_equal(arena_printf(&a, "%s-%d", "n", 5), "n-5");
	assert_int_equal(strlen(arena_printf(&a, "%0*d", 5000, 5)), 5000);
	for (int i = 0; i < 100; i++)
		assert_int_equal(n[i], 0);
}

static void a_failed_allocation_is_reported(void **state)
{
	AUTO(arena_done) struct arena a = { 0 };
	volatile size_t huge = SIZE_MAX;

	assert_null(arena_try(&a, huge));
	assert_null(arena_try(&a, huge - 100));
	assert_null(arena_try(&a, huge / 4));
	arena_alloc(&a, 1);
	assert_null(arena_try(&a, huge / 4));
	assert_int_equal(a.size, 1);
}

static void a_chunk_of_one_large_piece_is_not_kept(void **state)
{
	AUTO(arena_done) struct arena a = { 0 };

	arena_alloc(&a, MIB(8));
	arena_reset(&a);
	assert_null(a.head);
	assert_non_null(arena_alloc(&a, 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_aligned_and_apart),
		cmocka_unit_test(empty_pieces_are_distinct),
		cmocka_unit_test(a_large_piece_does_not_end_the_chunk),
		cmocka_unit_test(reset_drops_all_and_keeps_room),
		cmocka_unit_test(copies),
		cmocka_unit_test(a_failed_allocation_is_reported),
		cmocka_unit_test(a_chunk_of_one_large_piece_is_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
