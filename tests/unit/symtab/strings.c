/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing and reading a block's strings.
 */
#include "test.h"

#include <stdlib.h>
#include "symtab/build.h"
#include "symtab/read.h"

static struct block block_of(const struct buf *b, size_t n)
{
	return (struct block){ .bytes = bytes_of(b->p, b->size), .n_strings = (uint32_t)n };
}

static void check(const struct str *list, size_t n)
{
	AUTO(string_writer_done) struct string_writer w = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	AUTO(block_strings_done) struct block_strings s = { 0 };
	struct block b;

	block_strings_write(&w, &out, list, n);
	b = block_of(&out, n);
	block_strings_start(&s, &b);
	/* The last first: groups are read in any order. */
	for (size_t i = n; i-- > 0;)
		assert_true(str_eq(block_string(&s, &b, (uint32_t)i + 1), list[i]));
	assert_int_equal(block_string(&s, &b, 0).size, 0);
	assert_int_equal(block_string(&s, &b, (uint32_t)n + 1).size, 0);
}

static void strings_that_are_written_are_read_back(void **state)
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

static void long_strings_share_at_most_255_bytes(void **state)
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

/* Names of a program, in several packs: they are stored in less than their own size. */
static void similar_strings_are_compressed(void **state)
{
	enum { N = 5 * STRINGS_PACK + 3 };
	AUTO(arena_done) struct arena room = { 0 };
	AUTO(string_writer_done) struct string_writer w = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	struct str list[N];
	size_t bytes = 0;

	for (unsigned i = 0; i < N; i++) {
		list[i] = str_of(arena_printf(&room, "_ZN%04u10quite_long9namespaceIN10quite_longEE%uv", i,
					      i * 7919 % 1000));
		bytes += list[i].size;
	}
	for (size_t n = STRINGS_PACK - 1; n <= STRINGS_PACK + STRINGS_GROUP + 1; n++)
		check(list, n);
	check(list, N);
	block_strings_write(&w, &out, list, N);
	assert_true(out.size < bytes / 4);
}

/* Bytes that LZ4 cannot compress, and a name that is too long to be compressed. */
static void incompressible_strings_are_stored_as_they_are(void **state)
{
	AUTO(arena_done) struct arena room = { 0 };
	AUTO(mem_freep) char *longest = mem_alloc(MIB(2));
	struct str list[40];
	uint64_t x = 1;

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		uint8_t *p = arena_alloc(&room, 33);

		p[0] = (uint8_t)i;
		for (size_t k = 1; k < 33; k++)
			p[k] = (uint8_t)((x = x * 6364136223846793005 + 1442695040888963407) >> 56);
		list[i] = (struct str){ (const char *)p, 33 };
	}
	check(list, ARRAY_SIZE(list));
	memset(longest, 0xff, MIB(2));
	list[39] = (struct str){ longest, MIB(2) };
	check(list, ARRAY_SIZE(list));
}

/* Read all strings; each is no longer than the bytes there can expand to. */
static void read_damaged(const struct buf *bad, uint32_t n)
{
	AUTO(block_strings_done) struct block_strings s = { 0 };
	struct block b = block_of(bad, n);

	block_strings_start(&s, &b);
	for (uint32_t i = 1; i <= n; i++) {
		struct str one = block_string(&s, &b, i);

		assert_true(one.size <= bad->size * 255 + 255 * n);
		/* A sanitizer notices a read out of bounds. */
		assert_true(hash64(one.p, one.size, 0) | 1);
	}
}

static void damage(const struct str *list, uint32_t n, unsigned step)
{
	AUTO(string_writer_done) struct string_writer w = { 0 };
	AUTO(buf_done) struct buf out = { 0 };

	block_strings_write(&w, &out, list, n);
	for (size_t at = 0; at < out.size; at++)
		for (unsigned v = 0; v < 256; v += step) {
			AUTO(buf_done) struct buf bad = { 0 };

			buf_add(&bad, out.p, out.size);
			bad.p[at] = (uint8_t)v;
			memset(buf_reserve(&bad, TABLE_PAD), 0, TABLE_PAD);
			read_damaged(&bad, n);
		}
	for (size_t size = 8; size < out.size; size++) {
		AUTO(buf_done) struct buf bad = { 0 };

		buf_add(&bad, out.p, size);
		memset(buf_reserve(&bad, TABLE_PAD), 0, TABLE_PAD);
		read_damaged(&bad, n);
	}
}

/* Change each byte, and cut at each: the strings read are within the bytes, or empty. */
static void damaged_strings_are_empty_or_short(void **state)
{
	static const struct str list[] = { { "abc", 3 }, { "abcdef", 6 }, { "abd", 3 }, { "b", 1 } };
	AUTO(arena_done) struct arena room = { 0 };
	struct str many[2 * STRINGS_PACK];

	damage(list, ARRAY_SIZE(list), 5);
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = str_of(arena_printf(&room, "_ZN5right%03u4here", i));
	damage(many, ARRAY_SIZE(many), 51);
}

/* A pack whose size is much larger than LZ4 can expand its bytes to. */
static void a_pack_with_a_wrong_size_is_empty(void **state)
{
	AUTO(block_strings_done) struct block_strings s = { 0 };
	AUTO(buf_done) struct buf bad = { 0 };
	struct block b;

	buf_add_u32(&bad, 4);
	buf_add_uleb(&bad, MIB(1));
	buf_add(&bad,
		"\x1f"
		"a\x01\x00\xff\xff\x00",
		7);
	memset(buf_reserve(&bad, TABLE_PAD), 0, TABLE_PAD);
	b = block_of(&bad, 1);
	block_strings_start(&s, &b);
	assert_int_equal(block_string(&s, &b, 1).size, 0);
	assert_true(s.arena.size < KIB(64));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_that_are_written_are_read_back),
		cmocka_unit_test(long_strings_share_at_most_255_bytes),
		cmocka_unit_test(similar_strings_are_compressed),
		cmocka_unit_test(incompressible_strings_are_stored_as_they_are),
		cmocka_unit_test(a_pack_with_a_wrong_size_is_empty),
		cmocka_unit_test(damaged_strings_are_empty_or_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
