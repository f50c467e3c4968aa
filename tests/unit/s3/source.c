/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object as a source: its ranges, its versions, and answers that are not of it.
 */
#include "served.h"

static void a_range_is_fetched_once(void **state)
{
	struct fault_http *h = fault_http_new(&served_whole, 1);
	struct s3 *s = served_client(h);
	struct source *a = served_open(s), *b = served_open(s);

	source_expect(a, range_of(1000, 300000));
	served_check(a, 1000, 1000);
	served_check(a, 100000, 100000);
	served_check(b, 200000, 101000);
	assert_int_equal(fault_http_requests(h, NULL), 1);
	/* What is missing is fetched, up to what is there. */
	served_check(b, 0, 5000);
	assert_int_equal(fault_http_requests(h, NULL), 2);
	assert_non_null(strstr(fault_http_head(h, 1), "Range: bytes=0-999\r\n"));
	served_check(b, 0, SERVED_SIZE);
	source_close(a);
	source_close(b);
	s3_free(s);
	fault_http_free(h);
}

static void a_walk_backwards_takes_few_requests(void **state)
{
	struct fault_http *h = fault_http_new(&served_whole, 1);
	struct s3 *s = served_client(h);
	struct source *src = served_open(s);

	for (uint64_t off = SERVED_SIZE - 4000; off >= 4000; off -= 4000)
		served_check(src, off, 2000);
	assert_true(fault_http_requests(h, NULL) <= 10);
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

static void a_body_that_breaks_off_is_continued(void **state)
{
	const struct fault_rule rules[] = {
		{ .headers = SERVED_ETAG,
		  .body = { served, SERVED_SIZE },
		  .times = 1,
		  .fault = FAULT_CUT,
		  .at = 50000 },
		{ .headers = SERVED_ETAG,
		  .body = { served, SERVED_SIZE },
		  .times = 1,
		  .fault = FAULT_RESET,
		  .at = 20000 },
		served_whole,
	};
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_client(h);
	struct source *src = served_open(s);

	source_expect(src, range_of(0, 400000));
	served_check(src, 0, 400000);
	assert_true(fault_http_requests(h, NULL) >= 3);
	assert_non_null(strstr(fault_http_head(h, 1), "Range: bytes=50000-399999\r\n"));
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

/* Two reads with two answers. -1: the second one fails, -2: the first one. */
static int read_twice(const struct s3_info *listed, const char *first, const char *second)
{
	const struct fault_rule rules[] = {
		{ .headers = first, .body = { served, SERVED_SIZE }, .times = 1 },
		{ .headers = second, .body = { served, SERVED_SIZE } },
	};
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_client(h);
	struct stat st;
	struct source *src;
	struct err err = { 0 };
	uint8_t c;
	int r = 0;

	s3_stat(listed, &st);
	assert_done(s3_open(s, "s3://b/k", &st, &src, NULL, &err));
	if (source_read_full(src, 0, &c, 1, SOURCE_RANDOM, &err) < 0)
		r = -2;
	else if (source_read_full(src, SERVED_SIZE - 1, &c, 1, SOURCE_RANDOM, &err) < 0)
		r = -1;
	if (r)
		assert_int_equal(err.kind, ERR_CHANGED);
	source_close(src);
	s3_free(s);
	fault_http_free(h);
	return r;
}

static void a_version_is_known_by_etag_else_by_time(void **state)
{
#define AT_10 "Last-Modified: Sat, 23 Nov 2024 10:00:00 GMT\r\n"
#define AT_11 "Last-Modified: Sat, 23 Nov 2024 11:00:00 GMT\r\n"
	const struct {
		const char *listed, *first, *second;
		int result;
	} cases[] = {
		{ "abc", SERVED_ETAG, SERVED_ETAG, 0 },
		{ "abc", SERVED_ETAG, "ETag: \"other\"\r\n" AT_10, -1 },
		/* The answers alone have one. */
		{ "", SERVED_ETAG, SERVED_ETAG, 0 },
		{ "", SERVED_ETAG, "ETag: \"other\"\r\n" AT_10, -1 },
		{ "", "ETag: \"abc\"\r\n" AT_11, SERVED_ETAG, -2 },
		/* The listing alone. */
		{ "abc", AT_10, AT_10, 0 },
		{ "abc", AT_11, AT_10, -2 },
		{ "abc", "", "", -2 },
		/* None has. */
		{ "", AT_10, AT_10, 0 },
		{ "", AT_10, AT_11, -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct s3_info listed = { .size = SERVED_SIZE, .mtime = 1732356000 };

		strcpy(listed.etag, cases[i].listed);
		if (read_twice(&listed, cases[i].first, cases[i].second) != cases[i].result)
			fail_msg("case %zu", i);
	}
}

static void objects_of_two_times_are_two_files(void **state)
{
	struct s3_info a = { .size = SERVED_SIZE, .mtime = 1732356000 }, b = a;
	struct stat x, y;

	s3_stat(&a, &x);
	b.mtime++;
	s3_stat(&b, &y);
	assert_true(x.st_ino && y.st_ino && x.st_ino != y.st_ino);
	/* With an ETag the time does not count: copies of a bucket have others. */
	strcpy(a.etag, "e");
	strcpy(b.etag, "e");
	s3_stat(&a, &x);
	s3_stat(&b, &y);
	assert_int_equal(x.st_ino, y.st_ino);
}

static void wrong_answers_are_errors(void **state)
{
	static const char denied[] =
		"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
	static const char none[] = "<Error><Code>NoSuchKey</Code></Error>";
	const struct {
		struct fault_rule rule;
		enum err_kind kind;
		const char *text;
	} cases[] = {
		{ { .headers = "ETag: \"other\"\r\n", .body = { served, SERVED_SIZE } },
		  ERR_CHANGED,
		  "replaced" },
		{ { .headers = SERVED_ETAG, .body = { served, SERVED_SIZE - 1 } }, ERR_CHANGED, "replaced" },
		{ { .headers = SERVED_ETAG, .body = { served, SERVED_SIZE }, .no_range = true },
		  ERR_INVALID,
		  "ignores Range" },
		{ { .headers = SERVED_ETAG,
		    .body = { served, SERVED_SIZE },
		    .status = 206,
		    .no_range = true },
		  ERR_INVALID,
		  "does not say which bytes" },
		{ { .headers = SERVED_ETAG "Content-Range: bytes 5-699999/700000\r\n",
		    .body = { served, SERVED_SIZE },
		    .status = 206,
		    .no_range = true },
		  ERR_INVALID,
		  "begins at byte 5" },
		{ { .status = 404, .body = { (const uint8_t *)none, sizeof(none) - 1 } },
		  ERR_CHANGED,
		  "not in the bucket any more" },
		{ { .status = 416 }, ERR_CHANGED, "shorter" },
		{ { .status = 403, .body = { (const uint8_t *)denied, sizeof(denied) - 1 } },
		  ERR_IO,
		  "access denied" },
		{ { .status = 301, .headers = "Location: http://elsewhere.example/b/k\r\n" },
		  ERR_IO,
		  "status 301" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fault_http *h = fault_http_new(&cases[i].rule, 1);
		struct s3 *s = served_client(h);
		struct err err = { 0 };

		assert_fails(served_read(s, &err), cases[i].kind, cases[i].text);
		assert_non_null(strstr(err.text, "s3://b/a key.deb"));
		assert_null(strstr(err.text, "hush"));
		s3_free(s);
		fault_http_free(h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_range_is_fetched_once),
		cmocka_unit_test(a_walk_backwards_takes_few_requests),
		cmocka_unit_test(a_body_that_breaks_off_is_continued),
		cmocka_unit_test(a_version_is_known_by_etag_else_by_time),
		cmocka_unit_test(objects_of_two_times_are_two_files),
		cmocka_unit_test(wrong_answers_are_errors),
	};

	return cmocka_run_group_tests(tests, served_set_up, NULL);
}
