/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "http/cond.h"

static const struct content content = { .size = 1000,
					.mtime = 1700000000,
					.etag = "\"0123456789abcdef\"",
					.modified = "Tue, 14 Nov 2023 22:13:20 GMT" };

static void assert_decision(struct conditions c, unsigned status, uint64_t off, uint64_t size)
{
	struct verdict v = cond_judge(&c, &content);

	if (v.status != status || v.off != off || v.size != size)
		fail_msg("%s %s: %u %llu+%llu, not %u %llu+%llu", c.range ? c.range : "-",
			 c.if_range ? c.if_range : "-", v.status, (unsigned long long)v.off,
			 (unsigned long long)v.size, status, (unsigned long long)off,
			 (unsigned long long)size);
}

static void dates_are_written_and_read(void **state)
{
	static const int64_t times[] = { 0, 1, 951782400, 1700000000, 4102444799 };
	char text[HTTP_DATE_SIZE];
	int64_t back;

	assert_string_equal(http_date(1700000000, text), content.modified);
	assert_string_equal(http_date(0, text), "Thu, 01 Jan 1970 00:00:00 GMT");
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		assert_true(http_date_parse(str_of(http_date(times[i], text)), &back));
		assert_int_equal(back, times[i]);
	}
	assert_string_equal(http_date(INT64_MAX, text), "");
	assert_false(http_date_parse(STR(""), &back));
	assert_false(http_date_parse(STR("Tue, 14 Nov 2023 22:13:20 CET"), &back));
	assert_false(http_date_parse(STR("Tue, 14 Foo 2023 22:13:20 GMT"), &back));
	assert_false(http_date_parse(STR("Tue, 1x Nov 2023 22:13:20 GMT"), &back));
	assert_false(http_date_parse(STR("Fri, 30 Feb 2024 22:13:20 GMT"), &back));
	assert_false(http_date_parse(STR("Tue, 00 Nov 2023 22:13:20 GMT"), &back));
	assert_false(http_date_parse(STR("Tue, 14 Nov 2023 24:13:20 GMT"), &back));
	assert_false(http_date_parse(STR("Tue, 14 Nov 2023 22:61:20 GMT"), &back));
	assert_false(http_date_parse(STR("Tuesday, 14-Nov-23 22:13:20 GMT"), &back));
}

static void one_range_is_a_partial_reply(void **state)
{
	static const struct {
		const char *range;
		unsigned status;
		uint64_t off, size;
	} cases[] = {
		{ "bytes=0-0", 206, 0, 1 },
		{ "bytes=0-499", 206, 0, 500 },
		{ "bytes=500-", 206, 500, 500 },
		{ "bytes=999-", 206, 999, 1 },
		{ "bytes=999-999", 206, 999, 1 },
		{ "bytes=999-1000", 206, 999, 1 },
		{ "bytes=10-5000", 206, 10, 990 },
		{ "bytes=0-18446744073709551615", 206, 0, 1000 },
		{ "bytes=-1", 206, 999, 1 },
		{ "bytes=-1000", 206, 0, 1000 },
		{ "bytes=-5000", 206, 0, 1000 },
		{ " bytes= 5 - 6 ", 206, 5, 2 },
		{ "bytes=1000-", 416, 0, 0 },
		{ "bytes=5000-6000", 416, 0, 0 },
		{ "bytes=-0", 416, 0, 0 },
		/* Malformed: as if there was none. */
		{ "bytes=", 200, 0, 1000 },
		{ "bytes=-", 200, 0, 1000 },
		{ "bytes=5-4", 200, 0, 1000 },
		{ "bytes=a-b", 200, 0, 1000 },
		{ "bytes=0x1-2", 200, 0, 1000 },
		{ "bytes=1", 200, 0, 1000 },
		{ "bytes=0-1,5-6", 200, 0, 1000 },
		{ "bytes=0-99999999999999999999", 200, 0, 1000 },
		{ "items=0-1", 200, 0, 1000 },
		{ "", 200, 0, 1000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_decision((struct conditions){ .range = cases[i].range }, cases[i].status, cases[i].off,
				cases[i].size);
	assert_decision((struct conditions){ .range = "bytes=0-0", .head = true }, 200, 0, 1000);
}

static void an_empty_content_has_no_part(void **state)
{
	struct content empty = content;
	struct conditions c = { .range = "bytes=0-" };

	empty.size = 0;
	assert_int_equal(cond_judge(&c, &empty).status, 416);
	c.range = "bytes=-5";
	assert_int_equal(cond_judge(&c, &empty).status, 416);
	c.range = NULL;
	assert_int_equal(cond_judge(&c, &empty).status, 200);
}

static void if_range_needs_the_same_content(void **state)
{
	assert_decision((struct conditions){ .range = "bytes=0-0", .if_range = "\"0123456789abcdef\"" }, 206,
			0, 1);
	assert_decision(
		(struct conditions){ .range = "bytes=0-0", .if_range = "Tue, 14 Nov 2023 22:13:20 GMT" }, 206,
		0, 1);
	assert_decision((struct conditions){ .range = "bytes=0-0", .if_range = "\"other\"" }, 200, 0, 1000);
	assert_decision((struct conditions){ .range = "bytes=0-0", .if_range = "W/\"0123456789abcdef\"" },
			200, 0, 1000);
	assert_decision(
		(struct conditions){ .range = "bytes=0-0", .if_range = "Tue, 14 Nov 2023 22:13:21 GMT" }, 200,
		0, 1000);
	assert_decision((struct conditions){ .range = "bytes=0-0", .if_range = "" }, 200, 0, 1000);
}

static void a_known_content_is_304(void **state)
{
	assert_decision((struct conditions){ .if_none_match = "\"0123456789abcdef\"" }, 304, 0, 0);
	assert_decision((struct conditions){ .if_none_match = "\"x\", W/\"0123456789abcdef\"" }, 304, 0, 0);
	assert_decision((struct conditions){ .if_none_match = "*" }, 304, 0, 0);
	assert_decision((struct conditions){ .if_none_match = "\"x\"" }, 200, 0, 1000);
	assert_decision((struct conditions){ .if_none_match = "" }, 200, 0, 1000);
	assert_decision((struct conditions){ .if_modified_since = "Tue, 14 Nov 2023 22:13:20 GMT" }, 304, 0,
			0);
	assert_decision((struct conditions){ .if_modified_since = "Tue, 14 Nov 2023 22:13:19 GMT" }, 200, 0,
			1000);
	assert_decision((struct conditions){ .if_modified_since = "yesterday" }, 200, 0, 1000);
	/* The tag is more exact, so the date is ignored. */
	assert_decision((struct conditions){ .if_none_match = "\"x\"",
					     .if_modified_since = "Tue, 14 Nov 2023 22:13:20 GMT" },
			200, 0, 1000);
	assert_decision((struct conditions){ .if_none_match = "*", .range = "bytes=0-0" }, 304, 0, 0);
}

static void a_client_may_limit_the_size(void **state)
{
	assert_decision((struct conditions){ .max_size = "999" }, 406, 0, 0);
	assert_decision((struct conditions){ .max_size = "1000" }, 200, 0, 1000);
	assert_decision((struct conditions){ .max_size = "0" }, 200, 0, 1000);
	assert_decision((struct conditions){ .max_size = "lots" }, 200, 0, 1000);
	assert_decision((struct conditions){ .max_size = "1", .if_none_match = "*" }, 406, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dates_are_written_and_read),
		cmocka_unit_test(one_range_is_a_partial_reply),
		cmocka_unit_test(an_empty_content_has_no_part),
		cmocka_unit_test(if_range_needs_the_same_content),
		cmocka_unit_test(a_known_content_is_304),
		cmocka_unit_test(a_client_may_limit_the_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
