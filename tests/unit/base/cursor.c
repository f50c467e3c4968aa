/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cursor on good, short and hostile bytes.
 */
#include "test.h"

#define CURSOR(literal) cursor_of(bytes_of("" literal "", sizeof(literal) - 1))

static void numbers_in_both_orders(void **state)
{
	static const char b[] = "\1\2\3\4\5\6\7\x88\x99";
	struct cursor c = cursor_at(bytes_of(b, 9), false, 0);

	assert_int_equal(cursor_u8(&c), 1);
	assert_int_equal(cursor_u24(&c), 0x040302);
	assert_int_equal(cursor_u32(&c), 0x88070605);
	c = cursor_at(bytes_of(b, 9), true, 0);
	assert_int_equal(cursor_u16(&c), 0x0102);
	assert_int_equal(cursor_u24(&c), 0x030405);
	assert_int_equal(cursor_u32(&c), 0x06078899);
	c = cursor_at(bytes_of(b, 9), true, 0);
	assert_true(cursor_u64(&c) == 0x0102030405060788);
	c = cursor_at(bytes_of(b, 9), false, 0);
	assert_true(cursor_u64(&c) == 0x8807060504030201);
}

static void any_size_of_number(void **state)
{
	static const unsigned sizes[] = { 1, 2, 3, 4, 8 };
	static const uint64_t values[] = { 0x01, 0x0201, 0x030201, 0x04030201, 0x0807060504030201 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct cursor c = CURSOR("\1\2\3\4\5\6\7\10");

		assert_true(cursor_uint(&c, sizes[i]) == values[i]);
		assert_int_equal(cursor_off(&c), sizes[i]);
	}
	for (unsigned size = 0; size < 20; size++) {
		struct cursor c = CURSOR("\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7");
		bool good = size == 1 || size == 2 || size == 3 || size == 4 || size == 8;

		cursor_uint(&c, size);
		assert_int_equal(cursor_ok(&c), good);
	}
}

static void a_short_read_gives_zero_and_fails_for_good(void **state)
{
	struct cursor c = CURSOR("\1\2\3");
	struct err err = { 0 };

	c.base_off = 1000;
	assert_int_equal(cursor_u16(&c), 0x0201);
	assert_int_equal(cursor_u16(&c), 0);
	assert_false(cursor_ok(&c));
	assert_int_equal(cursor_left(&c), 0);
	assert_int_equal(cursor_u8(&c), 0);
	assert_int_equal(cursor_bytes(&c, 0).size, 0);
	assert_false(cursor_seek(&c, 0));
	assert_int_equal(cursor_u8(&c), 0);
	assert_int_equal(cursor_err(&c, "header", &err), -1);
	assert_string_equal(err.text, "header ends early at offset 1003");
	assert_int_equal(err.kind, ERR_INVALID);
}

static void uleb(void **state)
{
	static const struct {
		const char *p;
		size_t size;
		uint64_t v;
		bool ok;
	} cases[] = {
		{ "\0", 1, 0, true },
		{ "\x7f", 1, 127, true },
		{ "\xe5\x8e\x26", 3, 624485, true },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, UINT64_MAX, true },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03", 10, 0, false },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, 0, false },
		{ "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, 0, false },
		{ "\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 13, 1, true }, /* padded */
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x80\x80\x00", 13, UINT64_MAX, true },
		{ "\x80", 1, 0, false },
		{ "", 0, 0, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cursor c = cursor_of(bytes_of(cases[i].p, cases[i].size));

		assert_true(cursor_uleb(&c) == cases[i].v);
		assert_int_equal(cursor_ok(&c), cases[i].ok);
		assert_int_equal(cursor_left(&c), 0);
	}
}

static void sleb(void **state)
{
	static const struct {
		const char *p;
		size_t size;
		int64_t v;
		bool ok;
	} cases[] = {
		{ "\0", 1, 0, true },
		{ "\x3f", 1, 63, true },
		{ "\x40", 1, -64, true },
		{ "\x7f", 1, -1, true },
		{ "\xff\x00", 2, 127, true },
		{ "\x80\x7f", 2, -128, true },
		{ "\xc0\xbb\x78", 3, -123456, true },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", 10, INT64_MAX, true },
		{ "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 10, INT64_MIN, true },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, -1, true },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 12, -1, true }, /* padded */
		{ "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 12, -2, true },
		{ "\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12, 1, true },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, 0, false },
		{ "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x40", 10, 0, false },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", 11, 0, false },
		{ "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 11, 0, false },
		{ "\xff", 1, 0, false },
		{ "", 0, 0, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cursor c = cursor_of(bytes_of(cases[i].p, cases[i].size));

		assert_true(cursor_sleb(&c) == cases[i].v);
		assert_int_equal(cursor_ok(&c), cases[i].ok);
		assert_int_equal(cursor_left(&c), 0);
	}
}

static void sleb_of_every_width(void **state)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		for (int turn = 0; turn < 2; turn++) {
			int64_t v = (int64_t)((turn ? ~(uint64_t)0 : 1) << bit), rest = v;
			AUTO(buf_done) struct buf b = { 0 };
			struct cursor c;

			for (;;) {
				uint8_t byte = rest & 0x7f;

				rest >>= 7;
				if ((rest == 0 && !(byte & 0x40)) || (rest == -1 && (byte & 0x40))) {
					buf_add_char(&b, (char)byte);
					break;
				}
				buf_add_char(&b, (char)(byte | 0x80));
			}
			c = cursor_of(buf_bytes(&b));
			assert_true(cursor_sleb(&c) == v);
			assert_true(cursor_ok(&c));
		}
	}
}

static void strings_end_in_nul(void **state)
{
	struct cursor c = CURSOR("ab\0\0cd");

	assert_str(cursor_cstr(&c), "ab");
	assert_str(cursor_cstr(&c), "");
	assert_int_equal(cursor_cstr(&c).size, 0);
	assert_false(cursor_ok(&c));
	c = (struct cursor){ 0 };
	assert_int_equal(cursor_cstr(&c).size, 0);
	assert_false(cursor_ok(&c));
}

static void parts_know_their_offset(void **state)
{
	struct cursor c = cursor_at(bytes_of("0123456789", 10), true, 100), sub;

	cursor_skip(&c, 2);
	sub = cursor_sub(&c, 5);
	assert_int_equal(cursor_off(&sub), 102);
	assert_int_equal(cursor_off(&c), 107);
	assert_int_equal(cursor_u16(&sub), 0x3233);
	assert_true(cursor_seek(&sub, 5));
	assert_int_equal(cursor_off(&sub), 107);
	assert_false(cursor_seek(&sub, 6));

	sub = cursor_sub(&c, 4);
	assert_false(cursor_ok(&c));
	assert_false(cursor_ok(&sub));
	assert_int_equal(cursor_left(&sub), 0);
	assert_int_equal(cursor_off(&sub), 110);
}

static void huge_lengths_do_not_wrap(void **state)
{
	struct cursor c = CURSOR("abc");

	cursor_u8(&c);
	assert_int_equal(cursor_bytes(&c, UINT64_MAX).size, 0);
	assert_false(cursor_ok(&c));
	c = CURSOR("abc");
	cursor_u8(&c);
	cursor_skip(&c, UINT64_MAX - 1);
	assert_false(cursor_ok(&c));
	c = CURSOR("abc");
	assert_false(cursor_seek(&c, UINT64_MAX));
	assert_false(cursor_ok(&c));
}

static void align_stays_at_the_end(void **state)
{
	struct cursor c = CURSOR("0123456");

	cursor_align(&c, 4);
	assert_int_equal(cursor_off(&c), 0);
	cursor_u8(&c);
	cursor_align(&c, 4);
	assert_int_equal(cursor_off(&c), 4);
	cursor_u8(&c);
	cursor_align(&c, 8);
	assert_int_equal(cursor_off(&c), 7);
	assert_true(cursor_ok(&c));
	cursor_align(&c, 0);
	cursor_align(&c, 1);
	assert_true(cursor_ok(&c));
}

static void an_empty_view_is_read_like_any_other(void **state)
{
	struct cursor c = cursor_of((struct bytes){ 0 });

	assert_int_equal(cursor_bytes(&c, 0).size, 0);
	assert_true(cursor_seek(&c, 0));
	cursor_align(&c, 8);
	assert_true(cursor_ok(&c));
	assert_int_equal(cursor_u64(&c), 0);
	assert_false(cursor_ok(&c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_in_both_orders),
		cmocka_unit_test(any_size_of_number),
		cmocka_unit_test(a_short_read_gives_zero_and_fails_for_good),
		cmocka_unit_test(uleb),
		cmocka_unit_test(sleb),
		cmocka_unit_test(sleb_of_every_width),
		cmocka_unit_test(strings_end_in_nul),
		cmocka_unit_test(parts_know_their_offset),
		cmocka_unit_test(huge_lengths_do_not_wrap),
		cmocka_unit_test(align_stays_at_the_end),
		cmocka_unit_test(an_empty_view_is_read_like_any_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
