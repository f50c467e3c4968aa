/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of text.
 */
#include "test.h"

static void starts_and_ends(void **state)
{
	assert_true(str_starts(STR("libx.so.1"), STR("lib")));
	assert_true(str_starts(STR("lib"), STR("")));
	assert_false(str_starts(STR("li"), STR("lib")));
	assert_true(str_ends(STR("a.ko.xz"), STR(".xz")));
	assert_true(str_ends((struct str){ 0 }, (struct str){ 0 }));
	assert_false(str_ends(STR("z"), STR(".xz")));
}

static void order_is_by_bytes_then_by_length(void **state)
{
	assert_true(str_cmp(STR("a"), STR("b")) < 0);
	assert_true(str_cmp(STR("ab"), STR("a")) > 0);
	assert_true(str_cmp(STR("\xff"), STR("a")) > 0);
	assert_true(str_cmp(STR("a\0b"), STR("a\0c")) < 0);
	assert_int_equal(str_cmp(STR("x"), STR("x")), 0);
	assert_int_equal(str_cmp((struct str){ 0 }, STR("")), 0);
}

static void trim(void **state)
{
	assert_str(str_trim(STR(" \t x y\r\n")), "x y");
	assert_str(str_trim(STR(" \n")), "");
	assert_str(str_trim((struct str){ 0 }), "");
}

static void words_are_cut_off(void **state)
{
	struct str s = STR("  a bc  ");

	assert_str(str_word(&s), "a");
	assert_str(str_word(&s), "bc");
	assert_str(str_word(&s), "");
	assert_str(str_word(&s), "");
}

static void cut_takes_field_by_field(void **state)
{
	struct str s = STR("a,,b");

	assert_str(str_cut(&s, ','), "a");
	assert_str(str_cut(&s, ','), "");
	assert_non_null(s.p);
	assert_str(str_cut(&s, ','), "b");
	assert_null(s.p);
	assert_int_equal(s.size, 0);
	assert_str(str_cut(&s, ','), "");

	/* A separator at the end leaves an empty last field. */
	s = STR("a,");
	str_cut(&s, ',');
	assert_non_null(s.p);
	assert_int_equal(s.size, 0);
}

/* A copy of exact size: a read past its end would be reported by the sanitizer. */
static size_t utf8_of(const char *text, size_t size, uint32_t *ret)
{
	AUTO(mem_freep) char *copy = mem_alloc(size);

	memcpy(copy, text, size);
	return str_utf8((struct str){ copy, size }, ret);
}

static void utf8_of_each_length(void **state)
{
	static const struct {
		const char *text;
		size_t size;
		uint32_t c;
	} good[] = {
		{ "\0", 1, 0 },
		{ "\x7f", 1, 0x7f },
		{ "\xc2\x80", 2, 0x80 },
		{ "\xdf\xbf", 2, 0x7ff },
		{ "\xe0\xa0\x80", 3, 0x800 },
		{ "\xed\x9f\xbf", 3, 0xd7ff },
		{ "\xee\x80\x80", 3, 0xe000 },
		{ "\xef\xbf\xbf", 3, 0xffff },
		{ "\xf0\x90\x80\x80", 4, 0x10000 },
		{ "\xf4\x8f\xbf\xbf", 4, 0x10ffff },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		uint32_t c = 1;

		assert_int_equal(utf8_of(good[i].text, good[i].size, &c), good[i].size);
		assert_int_equal(c, good[i].c);
		assert_int_equal(utf8_of(good[i].text, good[i].size, NULL), good[i].size);
		/* Cut after each of its bytes. */
		for (size_t n = 1; n < good[i].size; n++)
			assert_int_equal(utf8_of(good[i].text, n, &c), 0);
		assert_int_equal(c, good[i].c);
	}
	/* Bytes after the character do not matter. */
	assert_int_equal(str_utf8(STR("\xc3\xa9\xff"), NULL), 2);
	assert_int_equal(str_utf8(STR("a\xff"), NULL), 1);
}

static void invalid_utf8(void **state)
{
	static const char *const bad[] = {
		"\x80",
		"\xbf",
		"\xc2\x41",
		"\xe1\x80\x41",
		"\xf1\x80\x80\x41",
		"\xf1\x80\xc0\x80",
		"\xe1\xff\x80",
		"\xc0\x80",
		"\xc1\xbf",
		"\xe0\x80\x80",
		"\xe0\x9f\xbf",
		"\xf0\x80\x80\x80",
		"\xf0\x8f\xbf\xbf",
		"\xed\xa0\x80",
		"\xed\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xf7\xbf\xbf\xbf",
		"\xf8\x88\x80\x80",
		"\xfc\x80\x80\x80",
		"\xfe\x80\x80\x80",
		"\xff\xbf\xbf\xbf",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint32_t c = 1;

		assert_int_equal(utf8_of(bad[i], strlen(bad[i]), &c), 0);
		assert_int_equal(c, 1);
	}
}

static void numbers(void **state)
{
	uint64_t v = 1;

	assert_true(str_to_u64(STR("0"), &v) && v == 0);
	assert_true(str_to_u64(STR("18446744073709551615"), &v) && v == UINT64_MAX);
	assert_true(str_to_u64(STR("000000000000000000000000000000007"), &v) && v == 7);
	assert_false(str_to_u64(STR("18446744073709551616"), &v));
	assert_false(str_to_u64(STR("184467440737095516150"), &v));
	assert_false(str_to_u64(STR(""), &v));
	assert_false(str_to_u64(STR("-1"), &v));
	assert_false(str_to_u64(STR("+1"), &v));
	assert_false(str_to_u64(STR(" 1"), &v));
	assert_false(str_to_u64(STR("1x"), &v));
	assert_int_equal(v, 7);
}

static void views_of_nothing_are_equal(void **state)
{
	assert_true(str_eq(str_of(NULL), STR("")));
	assert_true(bytes_eq((struct bytes){ 0 }, bytes_of("", 0)));
	assert_false(bytes_eq(bytes_of("a", 1), bytes_of("b", 1)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_and_ends),
		cmocka_unit_test(order_is_by_bytes_then_by_length),
		cmocka_unit_test(trim),
		cmocka_unit_test(words_are_cut_off),
		cmocka_unit_test(cut_takes_field_by_field),
		cmocka_unit_test(utf8_of_each_length),
		cmocka_unit_test(invalid_utf8),
		cmocka_unit_test(numbers),
		cmocka_unit_test(views_of_nothing_are_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
