/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hexadecimal and build IDs.
 */
#include "test.h"

static void there_and_back(void **state)
{
	uint8_t b[4];
	char text[9];
	size_t n;

	assert_string_equal(hex_encode(bytes_of("\x00\x7f\x80\xff", 4), text), "007f80ff");
	assert_true(hex_decode(STR("007f80ff"), false, b, 4, &n));
	assert_int_equal(n, 4);
	assert_memory_equal(b, "\x00\x7f\x80\xff", 4);
	assert_string_equal(hex_encode((struct bytes){ 0 }, text), "");
	assert_true(hex_decode(STR(""), false, b, 4, &n));
	assert_int_equal(n, 0);
}

static void invalid_hex_is_refused(void **state)
{
	uint8_t b[4];
	size_t n = 77;

	assert_false(hex_decode(STR("abc"), false, b, 4, &n));
	assert_false(hex_decode(STR("0g"), false, b, 4, &n));
	assert_false(hex_decode(STR("AB"), false, b, 4, &n));
	assert_false(hex_decode(STR("0x"), true, b, 4, &n));
	assert_false(hex_decode(STR("0011223344"), true, b, 4, &n));
	assert_false(hex_decode(STR("a "), true, b, 4, &n));
	assert_int_equal(n, 77);
	assert_true(hex_decode(STR("aB"), true, b, 4, &n));
	assert_int_equal(b[0], 0xab);
}

static void build_ids(void **state)
{
	struct build_id a = { 0 }, b = { 0 };
	char hex[BUILD_ID_HEX_SIZE], longest[2 * BUILD_ID_MAX + 3];

	assert_true(build_id_parse(&a, STR("00aaff")));
	assert_int_equal(a.size, 3);
	assert_string_equal(build_id_hex(&a, hex), "00aaff");
	assert_true(build_id_set(&b, bytes_of("\x00\xaa\xff", 3)));
	assert_true(build_id_eq(&a, &b));
	assert_true(build_id_parse(&b, STR("00aa")));
	assert_false(build_id_eq(&a, &b));

	assert_false(build_id_parse(&a, STR("")));
	assert_false(build_id_parse(&a, STR("0")));
	assert_false(build_id_parse(&a, STR("0A")));
	assert_false(build_id_set(&a, (struct bytes){ 0 }));
	memset(longest, 'f', sizeof(longest));
	assert_true(build_id_parse(&a, (struct str){ longest, 2 * BUILD_ID_MAX }));
	assert_int_equal(strlen(build_id_hex(&a, hex)), 2 * BUILD_ID_MAX);
	assert_false(build_id_parse(&b, (struct str){ longest, 2 * BUILD_ID_MAX + 2 }));
	assert_false(build_id_set(&b, bytes_of(longest, BUILD_ID_MAX + 1)));
	assert_string_equal(build_id_hex(&b, hex), "00aa"); /* a refused text changes nothing */
}

static void a_shorter_id_leaves_nothing_of_the_longer(void **state)
{
	struct build_id a = { 0 }, b = { 0 };

	build_id_parse(&a, STR("00112233445566778899"));
	build_id_parse(&a, STR("0a"));
	build_id_parse(&b, STR("0a"));
	assert_memory_equal(&a, &b, sizeof(a));
}

static void digits(void **state)
{
	static const char lower[] = "0123456789abcdef", upper[] = "ABCDEF";

	for (int i = 0; i < 16; i++)
		assert_int_equal(hex_digit(lower[i], i % 2), i);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(hex_digit(upper[i], true), 10 + i);
		assert_int_equal(hex_digit(upper[i], false), -1);
	}
	for (const char *no = "/:@G`g \x10\xff"; *no; no++)
		assert_int_equal(hex_digit(*no, true), -1);
}

static void escapes(void **state)
{
	static const char *const broken[] = { "%", "a%", "%2", "%2g", "%g2", "%%20" };
	char out[16];
	size_t n = 99;

	assert_true(hex_unescape(STR("a%2fb%00%25"), false, out, &n));
	assert_int_equal(n, 5);
	assert_memory_equal(out, "a/b\0%", 5);
	assert_true(hex_unescape(STR("%2F"), true, out, &n));
	assert_int_equal(n, 1);
	assert_int_equal(out[0], '/');
	assert_true(hex_unescape(STR(""), true, out, &n));
	assert_int_equal(n, 0);
	n = 99;
	assert_false(hex_unescape(STR("%2F"), false, out, &n));
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++)
		assert_false(hex_unescape(str_of(broken[i]), true, out, &n));
	assert_int_equal(n, 99);
}

static void texts_of_digits(void **state)
{
	assert_true(hex_is_lower(STR("0123456789abcdef")));
	assert_true(hex_is_lower(STR("")));
	assert_false(hex_is_lower(STR("0A")));
	assert_false(hex_is_lower(STR("0g")));
	assert_false(hex_is_lower(((struct str){ "0\0", 2 })));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(digits),
		cmocka_unit_test(texts_of_digits),
		cmocka_unit_test(invalid_hex_is_refused),
		cmocka_unit_test(escapes),
		cmocka_unit_test(build_ids),
		cmocka_unit_test(a_shorter_id_leaves_nothing_of_the_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
