/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"
#include "base/base.h"
#include "base/mem.h"

#include <stdlib.h>
#include "wire/proto.h"

static void what_is_written_is_read(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(buf_done) struct buf m = { 0 };
	struct proto_field f = { 0 };
	struct cursor c;

	proto_put_number(&b, 1, 300);
	proto_put_number(&b, 2, 0); /* left out */
	proto_put_double(&b, 3, -1.5);
	proto_put_str(&b, 4, STR(""));
	proto_put_bytes(&b, 4, "", 0);
	proto_put_str(&m, 1, STR("name"));
	proto_put_message(&b, 536870911, &m);
	assert_int_equal(m.size, 0);

	c = cursor_of(buf_bytes(&b));
	assert_true(proto_next(&c, &f));
	assert_int_equal(f.number, 1);
	assert_int_equal(f.wire, PROTO_VARINT);
	assert_int_equal(f.v, 300);
	assert_true(proto_next(&c, &f));
	assert_int_equal(f.number, 3);
	assert_true(proto_double(&f) == -1.5);
	assert_true(proto_next(&c, &f));
	assert_int_equal(f.number, 4);
	assert_int_equal(proto_text(&f).size, 0);
	assert_true(proto_next(&c, &f));
	assert_int_equal(f.number, 536870911);
	m.size = 0;
	c = cursor_of(f.b);
	assert_true(proto_next(&c, &f));
	assert_true(str_eq(proto_text(&f), STR("name")));
	assert_false(proto_next(&c, &f));
	assert_true(cursor_ok(&c));
}

static void what_is_no_message_fails(void **state)
{
	static const struct {
		const char *why, *bytes;
		size_t size;
	} bad[] = {
		{ "field 0", "\x00\x01", 2 },
		{ "a length past the end", "\x0a\x05hi", 4 },
		{ "a length of 2^64 - 1", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 },
		{ "a group", "\x0b\x0c", 2 },
		{ "a key without an end", "\x80", 1 },
		{ "half a double", "\x09\x00\x00", 3 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct cursor c = cursor_of((struct bytes){ (const uint8_t *)bad[i].bytes, bad[i].size });
		struct proto_field f;

		if (proto_next(&c, &f) || cursor_ok(&c))
			fail_msg("%s was read", bad[i].why);
	}
}

/* As @f was made, wherever the message is cut off after it or goes on. */
static void read_one(const struct buf *b, size_t at, size_t end, uint64_t v)
{
	/* Allocated, so that a sanitizer sees a read past its ends. */
	uint8_t *exact = mem_alloc(end - at);
	struct cursor c = cursor_of(bytes_of(memcpy(exact, b->p + at, end - at), end - at));
	struct proto_field f;

	assert_true(proto_next(&c, &f));
	assert_int_equal(f.wire, PROTO_VARINT);
	assert_true(f.v == v);
	c = cursor_of(bytes_of(exact + 1, end - at - 1));
	assert_true(proto_varint(&c) == v && cursor_ok(&c));
	free(exact);
}

static void numbers_of_all_lengths_are_read(void **state)
{
	for (unsigned bits = 0; bits <= 64; bits++)
		for (unsigned before = 0; before < 10; before++)
			for (unsigned after = 0; after < 10; after++) {
				uint64_t v = bits ? UINT64_MAX >> (64 - bits) : 1;
				AUTO(buf_done) struct buf b = { 0 };
				struct proto_field f;
				struct cursor c;
				size_t at, end;

				for (unsigned i = 0; i < before; i++)
					proto_put_number(&b, 1, 1);
				at = b.size;
				proto_put_number(&b, 2, v);
				end = b.size;
				for (unsigned i = 0; i < after; i++)
					proto_put_number(&b, 3, 0x7f);
				read_one(&b, at, end, v);
				read_one(&b, at, b.size, v);
				c = cursor_of(buf_bytes(&b));
				for (unsigned i = 0; i < before + 1 + after; i++) {
					assert_true(proto_next(&c, &f));
					assert_int_equal(f.number, i < before ? 1 : i == before ? 2 : 3);
					assert_true(f.v == (i < before ? 1 : i == before ? v : 0x7f));
				}
				assert_false(proto_next(&c, &f));
				assert_true(cursor_ok(&c));
				/* Without its last byte it is none. */
				if (end - at > 2) {
					c = cursor_of(bytes_of(b.p + at, end - at - 1));
					assert_false(proto_next(&c, &f));
					assert_false(cursor_ok(&c));
					/* And nothing is read after that. */
					assert_false(proto_next(&c, &f));
				}
			}
}

static void numbers_may_be_padded(void **state)
{
	static const uint8_t padded[] = { 0x08, 0x81, 0x80, 0x80, 0x80, 0x80,
					  0x80, 0x80, 0x80, 0x00, 0x10, 0x01 };
	struct cursor c = cursor_of(bytes_of(padded, sizeof(padded)));
	struct proto_field f;

	assert_true(proto_next(&c, &f) && f.v == 1);
	assert_true(proto_next(&c, &f) && f.number == 2);
	c = cursor_of(bytes_of("\x88\x00\x05\x08\x85\x00", 6)); /* the key, and a number near the end */
	assert_true(proto_next(&c, &f) && f.number == 1 && f.v == 5);
	assert_true(proto_next(&c, &f) && f.number == 1 && f.v == 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(what_is_no_message_fails),
		cmocka_unit_test(numbers_of_all_lengths_are_read),
		cmocka_unit_test(numbers_may_be_padded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
