/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing buffer.
 */
#include "test.h"

static void grows_as_it_is_filled(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };

	for (unsigned i = 0; i < 100000; i++)
		buf_add_char(&b, (char)i);
	assert_int_equal(b.size, 100000);
	for (unsigned i = 0; i < 100000; i++)
		assert_int_equal(b.p[i], (uint8_t)i);
	buf_add(&b, NULL, 0);
	buf_add_str(&b, STR("end"));
	assert_true(str_ends(buf_str(&b), STR("end")));
	buf_done(&b);
	assert_null(b.p);
	assert_int_equal(buf_bytes(&b).size, 0);
}

static void text(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	char want[1201];

	assert_string_equal(buf_cstr(&b), "");
	buf_printf(&b, "%d+", 1);
	buf_printf(&b, "%01200d", 0);
	assert_int_equal(b.size, 1202);
	memset(want, '0', 1200);
	want[1200] = '\0';
	assert_string_equal(buf_cstr(&b) + 2, want);
	assert_int_equal(b.size, 1202);
}

static void numbers_read_back(void **state)
{
	static const uint64_t values[] = { 0, 1, 127, 128, 16383, 16384, 1ull << 62, 1ull << 63, UINT64_MAX };
	AUTO(buf_done) struct buf b = { 0 };
	struct cursor c;

	buf_add_u16(&b, 0x1234);
	buf_add_u32(&b, 0x12345678);
	buf_add_u64(&b, 0x123456789abcdef0);
	assert_memory_equal(b.p, "\x34\x12\x78\x56\x34\x12\xf0\xde\xbc\x9a\x78\x56\x34\x12", 14);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		buf_add_uleb(&b, values[i]);
	c = cursor_of(buf_bytes(&b));
	assert_int_equal(cursor_u16(&c), 0x1234);
	assert_int_equal(cursor_u32(&c), 0x12345678);
	assert_true(cursor_u64(&c) == 0x123456789abcdef0);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		assert_true(cursor_uleb(&c) == values[i]);
	assert_true(cursor_ok(&c));
	assert_int_equal(cursor_left(&c), 0);
}

static void a_failed_reserve_changes_nothing(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	volatile size_t huge = SIZE_MAX; /* volatile: the compiler warns of constant sizes */

	assert_non_null(buf_reserve(&b, 0));
	assert_null(buf_try_reserve(&b, huge));
	buf_add_str(&b, STR("x"));
	assert_null(buf_try_reserve(&b, huge));
	assert_null(buf_try_reserve(&b, huge / 4));
	assert_str(buf_str(&b), "x");
	assert_non_null(buf_try_reserve(&b, 1000));
	assert_true(b.room >= 1001);
}

static void metered_memory_is_counted_and_a_cut_is_not_forgotten(void **state)
{
	struct buf b = { 0 };
	struct budget *budget = budget_new(BUDGET_TOTAL_LEAST);
	struct budget_hold h;
	struct err err = { 0 };
	size_t n = 0;

	budget_hold_init(&h, budget, BUDGET_QUERY);
	buf_add_str(&b, STR("x"));
	buf_meter(&b, &h);
	assert_int_equal(atomic_load(&h.used), b.room);
	while (!buf_is_over(&b) && n++ < 1000)
		buf_add(&b, memset(buf_reserve(&b, MIB(1)), 0, MIB(1)), MIB(1));
	assert_true(n > 1 && n < 65);
	assert_int_equal(buf_check(&b, &err), -1);
	assert_int_equal(atomic_load(&h.used), b.room);
	/* Memory is free again, but the content was cut. */
	b.size = 0;
	budget_hold_sub(&h, b.room);
	assert_int_equal(budget_hold_check(&h, &err), 0);
	err.kind = ERR_NONE;
	assert_int_equal(buf_check(&b, &err), -1);
	assert_true(err.kind == ERR_BUSY || err.kind == ERR_LIMIT);
	budget_hold_charge(&h, b.room);
	buf_done(&b);
	assert_int_equal(atomic_load(&h.used), 0);
	assert_int_equal(buf_check(&b, &err), 0);
	budget_hold_done(&h);
	budget_free(budget);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_as_it_is_filled),
		cmocka_unit_test(text),
		cmocka_unit_test(numbers_read_back),
		cmocka_unit_test(a_failed_reserve_changes_nothing),
		cmocka_unit_test(metered_memory_is_counted_and_a_cut_is_not_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
