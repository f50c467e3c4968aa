/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's codes and timeouts.
 */
#include "test.h"

#include "http/grpc.h"

static void timeouts_have_digits_and_a_unit(void **state)
{
	static const struct {
		const char *text;
		int64_t ms; /* -1: malformed */
	} cases[] = {
		{ "5S", 5000 },    { "100m", 100 },
		{ "1H", 3600000 }, { "2M", 120000 },
		{ "1500u", 2 },    { "1n", 1 },
		{ "0S", 0 },       { "99999999H", INT64_C(359999996400000) },
		{ "", -1 },        { "S", -1 },
		{ "5", -1 },       { "-5S", -1 },
		{ "5s", -1 },      { "123456789S", -1 },
		{ "5 S", -1 },     { "1.5S", -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t ms = -1;

		assert_int_equal(grpc_timeout_parse(str_of(cases[i].text), &ms), cases[i].ms >= 0);
		assert_int_equal(ms, cases[i].ms);
	}
}

/* The numbers of google.rpc.Code. */
static void statuses_imply_codes_of_grpc(void **state)
{
	static const struct {
		unsigned status, code;
	} cases[] = {
		{ 400, 3 },  { 401, 16 }, { 403, 7 },  { 404, 5 }, { 405, 12 }, { 409, 6 },
		{ 412, 9 },  { 413, 8 },  { 415, 3 },  { 422, 3 }, { 429, 8 },  { 499, 1 },
		{ 500, 13 }, { 501, 12 }, { 503, 14 }, { 504, 4 }, { 507, 14 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(grpc_code_of(cases[i].status), cases[i].code);
}

static void a_prefix_is_a_flag_and_a_length(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };

	grpc_put_prefix(GRPC_COMPRESSED, 0x01020304, &b);
	assert_int_equal(b.size, GRPC_PREFIX_SIZE);
	assert_memory_equal(b.p, "\x01\x01\x02\x03\x04", 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timeouts_have_digits_and_a_unit),
		cmocka_unit_test(statuses_imply_codes_of_grpc),
		cmocka_unit_test(a_prefix_is_a_flag_and_a_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
