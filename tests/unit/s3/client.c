/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: signed, sent again, hedged; and the errors in their answers.
 */
#include "served.h"

#include <time.h>

static void signs_and_escapes_a_request(void **state)
{
	struct fault_http *h = fault_http_new(&served_whole, 1);
	struct s3 *s = served_client(h);
	struct source *src;
	struct err err = { 0 };
	const char *head;

	assert_done(s3_open(s, "s3://b/a key+%.deb", NULL, &src, NULL, &err));
	assert_int_equal(src->size, SERVED_SIZE);
	served_check(src, 1000, 10);
	head = fault_http_head(h, 0);
	assert_non_null(strstr(head, "HEAD /b/a%20key%2B%25.deb HTTP/1.1"));
	head = fault_http_head(h, 1);
	assert_non_null(strstr(head, "Range: bytes=1000-"));
	assert_non_null(strstr(head, "Authorization: AWS4-HMAC-SHA256 Credential=AKTEST/"));
	assert_null(strstr(head, "hush"));
	assert_null(strstr(head, "If-"));
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

static void slow_down_is_tried_again(void **state)
{
	static const char slow[] =
		"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>";
	const struct fault_rule rules[] = {
		{ .status = 503, .times = 1, .body = { (const uint8_t *)slow, sizeof(slow) - 1 } },
		{ .status = 500, .times = 1 },
		{ .fault = FAULT_HANG_UP, .times = 1 },
		served_whole,
	};
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_client(h);
	struct source *src = served_open(s);

	served_check(src, 0, 1000);
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

static void a_removal_is_done_only_without_an_error_in_its_answer(void **state)
{
	static const char busy[] = "<?xml version='1.0'?><Error><Code>InternalError</Code></Error>";
	static const char denied[] = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
	static const char page[] = "<html>a proxy</html>";
	const struct fault_rule rules[] = {
		{ .path = "/b/busy", .times = 1, .body = { (const uint8_t *)busy, sizeof(busy) - 1 } },
		{ .path = "/b/busy", .status = 204 },
		{ .path = "/b/denied", .body = { (const uint8_t *)denied, sizeof(denied) - 1 } },
		{ .path = "/b/page", .times = 1, .body = { (const uint8_t *)page, sizeof(page) - 1 } },
		{ .path = "/b/page" },
	};
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_client(h);
	struct s3_info info;
	struct err err = { 0 };

	assert_done(s3_delete(s, (struct s3_name){ STR("b"), STR("busy") }, &err));
	assert_int_equal(fault_http_requests(h, "/b/busy"), 2);
	assert_int_equal(s3_delete(s, (struct s3_name){ STR("b"), STR("denied") }, &err), -1);
	assert_non_null(strstr(err.text, "AccessDenied"));
	assert_done(s3_delete(s, (struct s3_name){ STR("b"), STR("page") }, &err));
	assert_int_equal(fault_http_requests(h, "/b/page"), 2);
	assert_int_equal(
		s3_put(s, (struct s3_name){ STR("b"), STR("denied") }, bytes_of("x", 1), &info, &err), -1);
	s3_free(s);
	fault_http_free(h);
}

static int head_it(struct s3 *s, struct err *err)
{
	struct s3_info info;

	return s3_head(s, (struct s3_name){ STR("b"), STR("k") }, &info, err);
}

static int get_it(struct s3 *s, struct err *err)
{
	AUTO(buf_done) struct buf got = { 0 };

	return s3_get(s, (struct s3_name){ STR("b"), STR("k") }, 10, &got, NULL, err);
}

static int delete_it(struct s3 *s, struct err *err)
{
	return s3_delete(s, (struct s3_name){ STR("b"), STR("k") }, err);
}

static void only_s3s_own_404_is_a_missing_object(void **state)
{
	static const struct {
		const char *body, *text;
	} cases[] = {
		{ "<?xml version='1.0'?><Error><Code>NoSuchKey</Code><Message>None.</Message></Error>",
		  NULL },
		{ "<Error><Code>NoSuchBucket</Code></Error>", "s3://b/k: there is no such bucket" },
		{ "<Error><Code>NoSuchAccessPoint</Code></Error>", "status 404 NoSuchAccessPoint" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct fault_rule rule = { .status = 404,
						 .no_range = true,
						 .body = bytes_of(cases[i].body, strlen(cases[i].body)) };
		struct fault_http *h = fault_http_new(&rule, 1);
		struct s3 *s = served_client(h);
		struct err err = { 0 };

		if (cases[i].text) {
			assert_fails(head_it(s, &err), ERR_IO, cases[i].text);
			assert_fails(get_it(s, &err), ERR_IO, cases[i].text);
			assert_fails(delete_it(s, &err), ERR_IO, cases[i].text);
		} else {
			assert_int_equal(head_it(s, &err), S3_MISSING);
			assert_int_equal(get_it(s, &err), S3_MISSING);
			assert_done(delete_it(s, &err));
		}
		s3_free(s);
		fault_http_free(h);
	}
}

/* As of an ingress whose server starts, and of a wrong endpoint. The first is the answer to HEAD. */
static void a_proxys_page_of_404_may_pass_and_is_no_missing_object(void **state)
{
	static const char page[] = "<html>no backend</html>",
			  none[] = "<Error><Code>NoSuchKey</Code></Error>";
	const struct fault_rule rules[] = {
		{ .status = 404,
		  .body = { (const uint8_t *)page, sizeof(page) - 1 },
		  .times = 2,
		  .no_range = true },
		{ .path = "/b/k", .headers = SERVED_ETAG, .body = { served, SERVED_SIZE } },
		{ .status = 404, .body = { (const uint8_t *)none, sizeof(none) - 1 }, .no_range = true },
		{ .status = 404, .body = { (const uint8_t *)page, sizeof(page) - 1 }, .no_range = true },
		{ .status = 404 },
	};
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_client(h);
	struct err err = { 0 };
	struct s3_info info;

	assert_done(s3_head(s, (struct s3_name){ STR("b"), STR("k") }, &info, &err));
	assert_int_equal(info.size, SERVED_SIZE);
	assert_string_equal(info.etag, "abc");
	assert_non_null(strstr(fault_http_head(h, 2), "range: bytes=0-0\r\n"));
	assert_int_equal(s3_head(s, (struct s3_name){ STR("b"), STR("other") }, &info, &err), S3_MISSING);
	fault_http_rules(h, rules + 3, 1);
	assert_fails(head_it(s, &err), ERR_IO, "another server, or a proxy");
	fault_http_rules(h, rules + 4, 1);
	assert_fails(get_it(s, &err), ERR_IO, "another server, or a proxy");
	s3_free(s);
	fault_http_free(h);
}

/* The line of this name in the metrics of this process; 0: none yet. */
static double metric_line(const char *name)
{
	AUTO(buf_done) struct buf b = { 0 };
	const char *at;

	metrics_write(&b);
	at = strstr(buf_cstr(&b), name);
	return at ? strtod(at + strlen(name), NULL) : 0;
}

/* Its HEAD and the request for the reason are one request, whose time is that of both. */
static void the_time_of_a_missing_object_is_observed_once(void **state)
{
	static const char none[] = "<Error><Code>NoSuchKey</Code></Error>";
	const struct fault_rule rules[] = {
		{ .status = 404, .times = 1, .delay_ms = 150, .no_range = true },
		{ .status = 404, .body = { (const uint8_t *)none, sizeof(none) - 1 }, .no_range = true },
	};
	const char *count = "lode_s3_request_seconds_count{what=\"head\"}",
		   *sum = "lode_s3_request_seconds_sum{what=\"head\"}";
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_client(h);
	double n = metric_line(count), took_s = metric_line(sum);
	struct err err = { 0 };

	assert_int_equal(head_it(s, &err), S3_MISSING);
	assert_true(metric_line(count) == n + 1);
	assert_true(metric_line(sum) >= took_s + 0.15);
	s3_free(s);
	fault_http_free(h);
}

/* The 404 to HEAD, which has no reason, is no answer of the bucket yet. */
static void what_is_missing_counts_once_and_what_fails_goes_on_failing(void **state)
{
	static const char none[] = "<Error><Code>NoSuchKey</Code></Error>",
			  other[] = "<Error><Code>NoSuchBucket</Code></Error>";
	const struct fault_rule rules[] = {
		{ .status = 404, .body = { (const uint8_t *)other, sizeof(other) - 1 }, .no_range = true },
		{ .status = 404, .body = { (const uint8_t *)none, sizeof(none) - 1 }, .no_range = true },
	};
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_client(h);
	struct err err = { 0 };

	assert_fails(head_it(s, &err), ERR_IO, "no such bucket");
	assert_true(s->failing);
	s->failing_s = 1; /* since long ago */
	assert_fails(head_it(s, &err), ERR_IO, "no such bucket");
	assert_true(s->failing);
	assert_int_equal(s->failing_s, 1);
	assert_int_equal(s->n_missing, 0);
	assert_int_equal(s->n_failed, 2);
	fault_http_rules(h, rules + 1, 1);
	assert_int_equal(head_it(s, &err), S3_MISSING);
	assert_false(s->failing);
	assert_int_equal(s->n_missing, 1);
	s3_free(s);
	fault_http_free(h);
}

static void an_error_may_be_longer_than_the_object(void **state)
{
	static const char busy[] = "<Error><Code>SlowDown</Code><Message>Too many.</Message></Error>";
	static const char none[] = "<Error><Code>NoSuchKey</Code><Message>None.</Message></Error>";
	const struct fault_rule rules[] = {
		{ .status = 503, .body = { (const uint8_t *)busy, sizeof(busy) - 1 }, .times = 1 },
		{ .body = { served, 10 }, .times = 2 },
		{ .status = 404, .body = { (const uint8_t *)none, sizeof(none) - 1 } },
	};
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_client(h);
	const struct s3_name name = { STR("b"), STR("k") };
	AUTO(buf_done) struct buf got = { 0 };
	struct err err = { 0 };

	assert_done(s3_get(s, name, 10, &got, NULL, &err));
	assert_int_equal(got.size, 10);
	assert_fails(s3_get(s, name, 9, &got, NULL, &err), ERR_LIMIT, "longer than 9 bytes");
	assert_int_equal(got.size, 10);
	assert_int_equal(s3_get(s, name, 10, &got, NULL, &err), S3_MISSING);
	s3_free(s);
	fault_http_free(h);
}

/* Tests that count requests have such clients. */
static void a_client_without_hedges_waits(void **state)
{
	const struct fault_rule slow = { .headers = SERVED_ETAG,
					 .body = { served, SERVED_SIZE },
					 .delay_ms = 500 };
	struct fault_http *h = fault_http_new(&slow, 1);
	struct s3 *s = served_client(h);
	struct source *src = served_open(s);

	served_check(src, 0, 1000);
	assert_int_equal(fault_http_requests(h, NULL), 1);
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

static void a_slow_answer_is_hedged(void **state)
{
	const struct fault_rule rules[] = {
		{ .headers = SERVED_ETAG,
		  .body = { served, SERVED_SIZE },
		  .times = 1,
		  .fault = FAULT_SILENT },
		served_whole,
	};
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_hedging_client(h);
	struct source *src = served_open(s);
	int64_t from_ms = clock_mono_ms();

	served_check(src, 0, 1000);
	/* Long before the silence is a failure. */
	assert_true(clock_mono_ms() - from_ms < 3500);
	assert_int_equal(fault_http_requests(h, NULL), 2);
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

/* A hedge that is refused costs nothing: the slow request may have the bytes, else another hedge has. */
static void a_refused_hedge_ends_no_other_request(void **state)
{
	const struct fault_rule slow[] = {
		{ .headers = SERVED_ETAG, .body = { served, SERVED_SIZE }, .times = 1, .delay_ms = 1500 },
		{ .status = 503, .headers = "Retry-After: 60\r\n" },
	};
	const struct fault_rule silent[] = { { .fault = FAULT_SILENT, .times = 1 },
					     { .status = 503, .times = 1 },
					     served_whole };
	const struct fault_rule refused[] = { { .status = 503, .times = 1, .delay_ms = 1000 },
					      { .status = 500, .times = 1 },
					      served_whole };
	const struct {
		const struct fault_rule *rules;
		unsigned n, n_requests;
	} cases[] = { { slow, 2, 2 }, { silent, 3, 3 }, { refused, 3, 3 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fault_http *h = fault_http_new(cases[i].rules, cases[i].n);
		struct s3 *s = served_hedging_client(h);
		struct source *src = served_open(s);
		int64_t from_ms = clock_mono_ms();

		served_check(src, 0, 1000);
		assert_true(clock_mono_ms() - from_ms < 3500);
		assert_int_equal(fault_http_requests(h, NULL), cases[i].n_requests);
		source_close(src);
		s3_free(s);
		fault_http_free(h);
	}
}

static void an_unreachable_server_fails_at_once_the_next_time(void **state)
{
	struct fault_dead dead;
	struct s3_options o = { .deadline_ms = 3000 };
	struct err err = { 0 };
	char url[64];
	struct s3 *s;
	int64_t from_ms;

	fault_dead_refuses(&dead, url);
	o.endpoint = url;
	assert_done(s3_new(&o, &s, &err));
	assert_fails(served_read(s, &err), ERR_IO, "s3://b/a key.deb");
	from_ms = clock_mono_ms();
	assert_fails(served_read(s, &err), ERR_IO, "s3://b/a key.deb");
	assert_true(clock_mono_ms() - from_ms < 2000);
	s3_free(s);
	fault_dead_done(&dead);
}

static void a_wrong_clock_is_corrected(void **state)
{
	static const char skewed[] = "<Error><Code>RequestTimeTooSkewed</Code><Message>x</Message></Error>";
	const struct fault_rule rules[] = {
		{ .status = 403,
		  .times = 1,
		  .headers = "Date: Sat, 24 May 2031 00:00:00 GMT\r\n",
		  .body = { (const uint8_t *)skewed, sizeof(skewed) - 1 } },
		served_whole,
	};
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_client(h);
	struct source *src = served_open(s);

	served_check(src, 0, 10);
	assert_non_null(strstr(fault_http_head(h, 1), "x-amz-date: 20310524T0000"));
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

/* ---- the time of the server ---- */

#define NOW  INT64_C(1767225600)
#define HOUR INT64_C(3600)
#define YEAR (365 * 24 * HOUR)

static const char too_skewed[] = "<Error><Code>RequestTimeTooSkewed</Code></Error>";

struct dated_server {
	struct fault_http *h;
	struct s3 *s;
	char headers[2][64];
};

static void dated_server_start(struct dated_server *d)
{
	d->h = fault_http_new(&served_whole, 1);
	d->s = served_client(d->h);
}

static void dated_server_end(struct dated_server *d)
{
	s3_free(d->s);
	fault_http_free(d->h);
	clock_test_thaw();
}

static const char *date_header(int64_t date_s, char out[64])
{
	time_t t = (time_t)date_s;
	struct tm tm;

	strftime(out, 64, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", gmtime_r(&t, &tm));
	return out;
}

/* The time after an answer with this Date; @refused_s: and a refusal with that one before; 0: none. */
static int64_t time_after(struct dated_server *d, int64_t date_s, int64_t refused_s)
{
	const struct fault_rule rules[] = {
		{ .status = 403,
		  .times = 1,
		  .headers = date_header(refused_s, d->headers[0]),
		  .body = { (const uint8_t *)too_skewed, sizeof(too_skewed) - 1 } },
		{ .headers = date_header(date_s, d->headers[1]), .body = { served, 10 } },
	};
	struct err err = { 0 };

	fault_http_rules(d->h, rules + !refused_s, ARRAY_SIZE(rules) - !refused_s);
	assert_done(get_it(d->s, &err));
	return s3_time_s(d->s);
}

static void the_clock_of_this_machine_does_not_move_the_servers_time(void **state)
{
	struct dated_server d;

	clock_test_freeze(NOW + YEAR);
	dated_server_start(&d);
	assert_int_equal(s3_time_s(d.s), 0);
	assert_int_equal(time_after(&d, NOW, 0), NOW);
	clock_test_advance(120000);
	assert_int_equal(s3_time_s(d.s), NOW + 120);
	/* Several servers, and answers in another order than they were sent in. */
	assert_int_equal(time_after(&d, NOW + 118, 0), NOW + 118);
	assert_int_equal(time_after(&d, NOW + 121, 0), NOW + 121);
	clock_test_freeze(NOW + 3 * YEAR);
	assert_true(s3_time_s(d.s) >= NOW + 121 && s3_time_s(d.s) < NOW + 1000);
	clock_test_freeze(NOW - YEAR);
	assert_true(s3_time_s(d.s) >= NOW + 121 && s3_time_s(d.s) < NOW + 1000);
	dated_server_end(&d);
}

static void count_lines_without_date(void *arg, enum log_level level, const char *area, const char *text)
{
	*(unsigned *)arg += strstr(text, "sends no Date") != NULL;
}

/* By such a server nothing is ever old, which an administrator would not guess. */
static void a_server_without_date_is_told_of_once(void **state)
{
	const struct fault_rule without = { .body = { served, 10 } };
	struct dated_server d;
	unsigned n_lines = 0;
	struct err err = { 0 };

	dated_server_start(&d);
	log_set_level(LOG_WARN);
	log_set_sink(count_lines_without_date, &n_lines);
	fault_http_rules(d.h, &without, 1);
	for (int i = 0; i < 3; i++)
		assert_done(get_it(d.s, &err));
	assert_int_equal(s3_time_s(d.s), 0);
	assert_int_equal(n_lines, 1);
	dated_server_end(&d);
	n_lines = 0;
	clock_test_freeze(NOW);
	dated_server_start(&d);
	assert_int_equal(time_after(&d, NOW, 0), NOW);
	fault_http_rules(d.h, &without, 1);
	assert_done(get_it(d.s, &err));
	assert_int_equal(n_lines, 0);
	log_set_sink(NULL, NULL);
	log_set_level(LOG_ERROR);
	dated_server_end(&d);
}

static void one_date_that_is_a_year_ahead_is_not_believed(void **state)
{
	struct dated_server d;
	int64_t at = NOW;

	clock_test_freeze(at);
	dated_server_start(&d);
	/* The first answer; and a day without another one confirms nothing. */
	assert_int_equal(time_after(&d, at + YEAR, 0), at);
	clock_test_advance(25 * HOUR * 1000);
	at += 25 * HOUR;
	assert_int_equal(s3_time_s(d.s), at);
	assert_int_equal(time_after(&d, at, 0), at);
	assert_int_equal(time_after(&d, at + YEAR, 0), at);
	assert_int_equal(time_after(&d, at, 0), at);
	/* A refusal: requests are signed by its time, and it counts for nothing else. */
	assert_int_equal(time_after(&d, at, at + YEAR), at);
	assert_int_equal(time_to_sign_s(d.s), at + YEAR);
	assert_int_equal(time_after(&d, at - YEAR, 0), at - YEAR);
	assert_int_equal(time_after(&d, at, 0), at);
	dated_server_end(&d);
}

static void a_server_that_stays_ahead_is_believed_after_a_day(void **state)
{
	struct dated_server d;

	clock_test_freeze(NOW);
	dated_server_start(&d);
	for (int64_t i = 0; i < 24; i++) {
		assert_int_equal(time_after(&d, NOW + YEAR + i * HOUR, 0), NOW + i * HOUR);
		clock_test_advance(HOUR * 1000);
	}
	assert_int_equal(time_after(&d, NOW + YEAR + 24 * HOUR, 0), NOW + YEAR + 24 * HOUR);
	dated_server_end(&d);
}

/* As one that has no battery for its clock, until it has asked for the time. */
static void a_machine_that_is_set_right_believes_the_server_at_once(void **state)
{
	struct dated_server d;

	clock_test_freeze(NOW - YEAR);
	dated_server_start(&d);
	assert_int_equal(time_after(&d, NOW, 0), NOW - YEAR);
	assert_int_equal(time_after(&d, NOW, 0), NOW - YEAR);
	clock_test_freeze(NOW + 1);
	assert_int_equal(time_after(&d, NOW, 0), NOW);
	/* From now on they may agree because they are one clock. */
	clock_test_freeze(NOW + YEAR);
	assert_int_equal(time_after(&d, NOW + YEAR, 0), NOW);
	clock_test_freeze(NOW - YEAR);
	assert_int_equal(time_after(&d, NOW + YEAR, 0), NOW);
	clock_test_freeze(NOW + YEAR);
	assert_int_equal(time_after(&d, NOW + YEAR, 0), NOW);
	dated_server_end(&d);
}

static void *get_many(void *arg)
{
	struct dated_server *d = arg;
	struct err err = { 0 };

	for (unsigned i = 0; i < 20; i++)
		if (get_it(d->s, &err) < 0)
			return d;
	return NULL;
}

static void many_threads_note_dates_and_look_at_the_time(void **state)
{
	struct dated_server d;
	struct fault_rule rules[] = { { .times = 9, .body = { served, 10 } }, { .body = { served, 10 } } };
	pthread_t threads[4];
	int64_t at = 0;
	void *failed;

	clock_test_freeze(NOW);
	dated_server_start(&d);
	rules[0].headers = date_header(NOW + 1, d.headers[0]);
	rules[1].headers = date_header(NOW, d.headers[1]);
	fault_http_rules(d.h, rules, ARRAY_SIZE(rules));
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, get_many, &d), 0);
	for (int64_t end_ns = clock_cpu_ns() + INT64_C(10000000000); !at && clock_cpu_ns() < end_ns;)
		at = s3_time_s(d.s);
	assert_in_range(at, NOW, NOW + 1);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	assert_int_equal(s3_time_s(d.s), NOW);
	dated_server_end(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signs_and_escapes_a_request),
		cmocka_unit_test(slow_down_is_tried_again),
		cmocka_unit_test(a_removal_is_done_only_without_an_error_in_its_answer),
		cmocka_unit_test(only_s3s_own_404_is_a_missing_object),
		cmocka_unit_test(a_proxys_page_of_404_may_pass_and_is_no_missing_object),
		cmocka_unit_test(the_time_of_a_missing_object_is_observed_once),
		cmocka_unit_test(what_is_missing_counts_once_and_what_fails_goes_on_failing),
		cmocka_unit_test(an_error_may_be_longer_than_the_object),
		cmocka_unit_test(a_client_without_hedges_waits),
		cmocka_unit_test(a_slow_answer_is_hedged),
		cmocka_unit_test(a_refused_hedge_ends_no_other_request),
		cmocka_unit_test(an_unreachable_server_fails_at_once_the_next_time),
		cmocka_unit_test(a_wrong_clock_is_corrected),
		cmocka_unit_test(the_clock_of_this_machine_does_not_move_the_servers_time),
		cmocka_unit_test(a_server_without_date_is_told_of_once),
		cmocka_unit_test(one_date_that_is_a_year_ahead_is_not_believed),
		cmocka_unit_test(a_server_that_stays_ahead_is_believed_after_a_day),
		cmocka_unit_test(a_machine_that_is_set_right_believes_the_server_at_once),
		cmocka_unit_test(many_threads_note_dates_and_look_at_the_time),
	};

	return cmocka_run_group_tests(tests, served_set_up, NULL);
}
