/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's strings, written and read.
 */
#include "test.h"

#include <stdlib.h>
#include "symtab/internal.h"

static struct block block_of(const struct buf *b, size_t n)
{
	return (struct block){ .bytes = bytes_of(b->p, b->size), .n_strings = (uint32_t)n };
}

static void check(const struct str *list, size_t n)
{
	AUTO(buf_done) struct buf out = { 0 };
	AUTO(block_strings_done) struct block_strings s = { 0 };
	struct block b;

	block_strings_write(&out, list, n);
	b = block_of(&out, n);
	block_strings_start(&s, &b);
	/* The last first: groups are read in any order. */
	for (size_t i = n; i-- > 0;)
		assert_true(str_eq(block_string(&s, &b, (uint32_t)i + 1), list[i]));
	assert_int_equal(block_string(&s, &b, 0).size, 0);
	assert_int_equal(block_string(&s, &b, (uint32_t)n + 1).size, 0);
}

static void what_is_written_is_read(void **state)
{
	char room[100][16];
	struct str list[100];

	for (size_t i = 0; i < 100; i++) {
		snprintf(room[i], sizeof(room[i]), "name_%04zu", i / 3 * 7 + i);
		list[i] = str_of(room[i]);
	}
	check(list, 0);
	check(list, 1);
	check(list, 16);
	check(list, 17);
	check(list, 100);
}

static void long_ones_that_share_more_than_a_byte_can_tell(void **state)
{
	AUTO(mem_freep) char *a = mem_alloc(2000), *b = mem_alloc(2000);
	struct str list[3];

	memset(a, 'x', 2000);
	memset(b, 'x', 2000);
	b[1999] = 'y';
	list[0] = (struct str){ a, 1000 };
	list[1] = (struct str){ a, 2000 };
	list[2] = (struct str){ b, 2000 };
	check(list, 3);
}

/* Each byte made another one, and each cut: what is read lies in what is there, or is empty. */
static void damaged_ones_are_empty_or_short(void **state)
{
	static const struct str list[] = { { "abc", 3 }, { "abcdef", 6 }, { "abd", 3 }, { "b", 1 } };
	AUTO(buf_done) struct buf out = { 0 };

	block_strings_write(&out, list, ARRAY_SIZE(list));
	for (size_t at = 0; at < out.size; at++)
		for (unsigned v = 0; v < 256; v += 5) {
			AUTO(buf_done) struct buf bad = { 0 };
			AUTO(block_strings_done) struct block_strings s = { 0 };
			struct block b;

			buf_add(&bad, out.p, out.size);
			bad.p[at] = (uint8_t)v;
			memset(buf_reserve(&bad, TABLE_PAD), 0, TABLE_PAD);
			b = block_of(&bad, ARRAY_SIZE(list));
			block_strings_start(&s, &b);
			for (uint32_t i = 1; i <= ARRAY_SIZE(list); i++)
				assert_true(block_string(&s, &b, i).size <= bad.size * ARRAY_SIZE(list));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(long_ones_that_share_more_than_a_byte_can_tell),
		cmocka_unit_test(damaged_ones_are_empty_or_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
