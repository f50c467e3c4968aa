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

	/* A separator at the end leaves an empty last field, which is there. */
	s = STR("a,");
	str_cut(&s, ',');
	assert_non_null(s.p);
	assert_int_equal(s.size, 0);
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
		cmocka_unit_test(cut_takes_field_by_field),
		cmocka_unit_test(numbers),
		cmocka_unit_test(views_of_nothing_are_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
