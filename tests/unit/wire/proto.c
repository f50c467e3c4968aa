/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"
#include "base/base.h"
#include "wire/proto.h"

static void what_is_written_is_read(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(buf_done) struct buf m = { 0 };
	struct proto_field f;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(what_is_no_message_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
