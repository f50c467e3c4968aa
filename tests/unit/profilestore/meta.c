/* SPDX-License-Identifier: Apache-2.0 */
/* The packed tables in memory: every value comes back, also those that do not fit into the small form. */
#include "profilestore/meta_internal.h"

#include "test.h"

static void tables_begin(struct meta *m)
{
	meta_init(m, UINT64_MAX);
}

static void lines_with_numbers_of_any_size(void **state)
{
	static const int32_t numbers[] = { 0,       1,        2047,      2048,      1048575,
					   1048576, 70000000, INT32_MAX, INT32_MIN, -1 };
	struct meta m;
	uint32_t i = 0;

	tables_begin(&m);
	for (size_t a = 0; a < ARRAY_SIZE(numbers); a++)
		for (size_t b = 0; b < ARRAY_SIZE(numbers); b++) {
			struct meta_line l = { (uint32_t)(a * 100 + b), numbers[a], numbers[b] };

			assert_int_equal(meta_lines(&m, &l, 1), a * ARRAY_SIZE(numbers) + b);
		}
	for (size_t a = 0; a < ARRAY_SIZE(numbers); a++)
		for (size_t b = 0; b < ARRAY_SIZE(numbers); b++) {
			struct meta_line l = meta_line_at(&m, i++);

			assert_int_equal(l.function, a * 100 + b);
			assert_int_equal(l.line, numbers[a]);
			assert_int_equal(l.column, numbers[b]);
		}
	meta_done(&m);
}

static struct meta_location bare_location(uint64_t addr)
{
	return (struct meta_location){ .addr = addr, .flags = LOCATION_BARE };
}

static void a_location_keeps_the_lines_that_it_came_with(void **state)
{
	const struct meta_line lines[2] = { { 0, 7, 1 }, { 0, 8, 0 } };
	struct meta_location bare = bare_location(0x1000), named = { .addr = 0x2000, .n_lines = 2 }, got;
	struct meta m;
	uint32_t i, k;

	tables_begin(&m);
	bare.n_lines = 1;
	meta_lines(&m, lines, 2);
	i = meta_location(&m, &bare, lines + 1);
	k = meta_location(&m, &named, lines);
	assert_int_equal(meta_location(&m, &bare, lines + 1), i);
	assert_int_equal(meta_location(&m, &named, lines), k);
	meta_set_names(&m, i, 77, 0x5000);
	got = meta_location_at(&m, i);
	assert_int_equal(got.n_lines, 1);
	assert_int_equal(got.flags, LOCATION_BARE);
	assert_int_equal(meta_line_at(&m, got.first_line).line, 8);
	got = meta_location_at(&m, k);
	assert_int_equal(meta_line_at(&m, got.first_line).line, 7);
	assert_int_equal(meta_line_at(&m, got.first_line + 1).line, 8);
	meta_done(&m);
}

static void names_and_addresses_in_the_elf_file_are_replaced(void **state)
{
	struct meta_location l = bare_location(UINT64_MAX - 5), named = { .addr = 5 };
	struct meta m;
	uint32_t i;

	tables_begin(&m);
	i = meta_location(&m, &l, NULL);
	assert_int_equal(meta_names_at(&m, i), 0);
	assert_int_equal(meta_elf_addr(&m, i), 0);
	meta_set_names(&m, i, UINT64_MAX, 0x1234);
	assert_true(meta_names_at(&m, i) == UINT64_MAX);
	assert_int_equal(meta_elf_addr(&m, i), 0x1234);
	meta_set_names(&m, i, 3, l.addr);
	assert_int_equal(meta_names_at(&m, i), 3);
	assert_true(meta_elf_addr(&m, i) == l.addr);
	meta_set_names(&m, i, 3, 0);
	assert_int_equal(meta_elf_addr(&m, i), 0);
	assert_int_equal(meta_location_at(&m, i).flags, LOCATION_BARE);
	/* A damaged row may name any location. */
	i = meta_location(&m, &named, NULL);
	meta_set_names(&m, i, 3, 0x1234);
	assert_int_equal(meta_names_at(&m, i), 0);
	meta_done(&m);
}

static void too_many_ways_of_placing_segments(void **state)
{
	struct meta m;

	tables_begin(&m);
	for (uint32_t k = 0; k < LOCATION_MAX_SHIFT + 100; k++) {
		struct meta_location l = bare_location(0x1000 + k);
		uint32_t i = meta_location(&m, &l, NULL);

		meta_set_names(&m, i, 9, 0x100000 + 3ull * k);
		assert_int_equal(meta_names_at(&m, i), 9);
		assert_int_equal(meta_elf_addr(&m, i), k < LOCATION_MAX_SHIFT ? 0x100000 + 3ull * k : 0);
	}
	meta_done(&m);
}

static uint64_t hash_of_number(const struct meta *m, uint32_t i)
{
	return hash_mix(i, m->seed);
}

/* As if a few numbers of a large table were in it. */
static void slots_become_wide_when_a_number_needs_it(void **state)
{
	enum { N = 3000 };
	const uint32_t last = SLOTS_NARROW_END + 5;
	struct column large = { .entry_size = 1 };
	const struct interned x = { &large, hash_of_number };
	struct slots t = { 0 };
	uint32_t at, i, room;
	uint64_t narrow;
	struct meta m;

	tables_begin(&m);
	assert_true(column_skip(&large, last + 1));
	narrow = atomic_load(&m.memory);
	assert_true(slots_is_full(&t, 0));
	for (uint32_t k = 0; k < N; k++) {
		uint32_t number = SLOTS_NARROW_END - 1 - k * 5000;

		assert_true(intern_room(&m, &t, number, x));
		assert_false(SLOTS_FIND(&t, hash_of_number(&m, number), at, i, i == number));
		slots_put(&t, at, number);
	}
	narrow = atomic_load(&m.memory) - narrow;
	room = (uint32_t)slots_room(&t);
	assert_int_equal(narrow, room * SLOTS_NARROW);
	assert_true(slots_is_full(&t, SLOTS_NARROW_END));
	assert_true(intern_room(&m, &t, last, x));
	assert_int_equal(slots_room(&t), room);
	assert_false(slots_is_full(&t, UINT32_MAX - 1));
	assert_false(SLOTS_FIND(&t, hash_of_number(&m, last), at, i, i == last));
	slots_put(&t, at, last);
	assert_true(SLOTS_FIND(&t, hash_of_number(&m, last), at, i, i == last));
	for (uint32_t k = 0; k < N; k++) {
		uint32_t number = SLOTS_NARROW_END - 1 - k * 5000;

		assert_true(SLOTS_FIND(&t, hash_of_number(&m, number), at, i, i == number));
	}
	assert_int_equal(t.n, N + 1);
	free(t.v);
	column_done(&large);
	meta_done(&m);
}

/* By the store's own count. 100 000 are near the middle of what a hash table holds between two doublings. */
static void a_named_location_takes_40_bytes_and_a_stack_15(void **state)
{
	enum { N = 100000, STACKS = 5 };
	uint32_t callers[STACKS];
	struct meta m;
	uint64_t size;

	tables_begin(&m);
	for (uint32_t k = 0; k < N; k++) {
		struct meta_location l = bare_location(0x400000 + k * UINT64_C(16));
		const struct meta_names names = { .first_line = k, .n_lines = 1, .generation = 1 };

		assert_int_equal(meta_location(&m, &l, NULL), k);
		meta_set_names(&m, k, meta_names_word(names), l.addr + 0x1000);
	}
	size = atomic_load(&m.memory);
	assert_true(size <= UINT64_C(40) * N);
	for (uint32_t j = 0; j < STACKS; j++)
		callers[j] = meta_stack(&m, 0, j);
	for (uint32_t k = 0; k < N; k++)
		for (uint32_t j = 0; j < STACKS; j++) {
			uint32_t stack = meta_stack(&m, callers[j], k);

			assert_int_not_equal(stack, META_FAILED);
			if (k % 64 == 0)
				callers[j] = stack;
		}
	assert_true(column_n(&m.stacks) > N * (STACKS - 1));
	assert_true(atomic_load(&m.memory) - size <= UINT64_C(15) * column_n(&m.stacks));
	meta_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_with_numbers_of_any_size),
		cmocka_unit_test(a_location_keeps_the_lines_that_it_came_with),
		cmocka_unit_test(names_and_addresses_in_the_elf_file_are_replaced),
		cmocka_unit_test(too_many_ways_of_placing_segments),
		cmocka_unit_test(slots_become_wide_when_a_number_needs_it),
		cmocka_unit_test(a_named_location_takes_40_bytes_and_a_stack_15),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
