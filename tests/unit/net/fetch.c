/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One artifact from several servers: in which order they are asked, and how one ends. Waits that must not be needed are
 * set to a minute, so that a test that runs into one fails by its time limit and not by a measured time.
 */
#include "test.h"
#include "sink.h"

#include <errno.h>

#define LONG_MS 60000
#define TEXT(s) bytes_of((s), sizeof(s) - 1)

static void the_first_server_is_enough(void **state)
{
	struct pair p = pair_of(sink_good(), sink_good());
	const struct net_patience patience = { .hedge_ms = LONG_MS };
	struct sink s = { 0 };
	struct net_progress progress;

	sink_fetch(p.n, &s, &patience, p.urls, 2);
	sink_assert_got(&s);
	assert_int_equal(s.n_begun, 1);
	assert_int_equal(fault_http_requests(p.b, NULL), 0);
	assert_string_equal(sink_said(&s, p.urls[0]), "used");
	assert_string_equal(sink_said(&s, p.urls[1]), "");
	net_fetch_progress(s.fetch, &progress);
	assert_true(progress.done && progress.size_known);
	assert_int_equal(progress.have, sink_artifact().size);
	assert_int_equal(progress.size, sink_artifact().size);
	assert_string_equal(progress.server, p.urls[0]);
	assert_non_null(strstr(fault_http_head(p.a, 0), "GET /buildid/ab/debuginfo HTTP/1.1\r\n"));
	assert_non_null(strstr(fault_http_head(p.a, 0), "User-Agent: lode/"));
	pair_done(&p, &s);
}

static void the_next_is_asked_at_once_when_one_has_it_not_or_fails(void **state)
{
	const struct fault_rule bad[] = {
		{ .status = 404 },
		{ .status = 410 },
		{ .status = 400 },
		{ .status = 501 },
		{ .status = 503, .headers = "Retry-After: 100\r\n" },
		{ .status = 429, .headers = "Retry-After: Fri, 01 Jan 2100 00:00:00 GMT\r\n" },
		{ .status = 304 },
		{ .status = 302 },
		{ .fault = FAULT_NOT_HTTP },
		{ .fault = FAULT_LONG_HEAD },
		{ .body = TEXT("<html><h1>Log in</h1></html>"), .headers = "Content-Type: text/html\r\n" },
		{ .body = TEXT("short") },
		{ .body = TEXT("") },
		{ .body = sink_artifact(), .headers = "Content-Encoding: gzip\r\n" },
		{ .body = sink_artifact(),
		  .status = 206,
		  .headers = "Content-Range: bytes 5-299999/300000\r\n",
		  .no_range = true },
		{ .status = 302, .headers = "Location: /again\r\n" },
		{ .status = 302, .headers = "Location: file:///etc/passwd\r\n" },
		{ .status = 302, .headers = "Location: ftp://127.0.0.1/\r\n" },
		{ .fault = FAULT_ENDLESS, .body = TEXT("no ELF, but much of it. ") },
	};
	const struct net_patience patience = { .hedge_ms = LONG_MS };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct pair p = pair_of(bad[i], sink_good());
		struct sink s = { 0 };

		sink_fetch(p.n, &s, &patience, p.urls, 2);
		sink_assert_got(&s);
		if (s.n_begun != 1)
			fail_msg("row %zu: begun %u times", i, s.n_begun);
		if (!*sink_said(&s, p.urls[0]))
			fail_msg("row %zu: nothing is said of the first", i);
		print_message("# %zu: %s\n", i, sink_said(&s, p.urls[0]));
		pair_done(&p, &s);
	}
}

static void the_next_is_started_beside_one_that_does_not_answer(void **state)
{
	const struct fault_rule bad[] = { { .fault = FAULT_SILENT }, { .fault = FAULT_DRIP_HEAD } };
	const struct net_patience patience = { .hedge_ms = 50 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct pair p = pair_of(bad[i], sink_good());
		struct sink s = { 0 };

		sink_fetch(p.n, &s, &patience, p.urls, 2);
		sink_assert_got(&s);
		assert_non_null(strstr(sink_said(&s, p.urls[0]), "no answer"));
		pair_done(&p, &s);
	}
}

static void one_that_refuses_at_once_does_not_end_the_one_beside_it(void **state)
{
	const struct net_patience patience = { .hedge_ms = 50 };
	struct fault_rule slow = sink_good();
	struct sink s = { 0 };
	struct pair p;

	slow.delay_ms = 500;
	p = pair_of(slow, (struct fault_rule){ .status = 503, .headers = "Retry-After: 60\r\n" });
	sink_fetch(p.n, &s, &patience, p.urls, 2);
	sink_assert_got(&s);
	assert_string_equal(sink_said(&s, p.urls[0]), "used");
	assert_int_equal(fault_http_requests(p.a, NULL), 1);
	pair_done(&p, &s);
}

static void the_next_is_asked_when_the_first_has_no_turn_left(void **state)
{
	const struct net_options opts = { .max_per_server = 1 };
	const struct net_patience patience = { .hedge_ms = 50, .silent_ms = 2 * LONG_MS };
	struct pair p = pair_of((struct fault_rule){ .fault = FAULT_SILENT }, sink_good());
	struct sink waits = { 0 }, s = { 0 };
	struct err err = { 0 };

	net_free(p.n);
	assert_done(net_new(&opts, &p.n, &err));
	sink_start(p.n, &waits, &patience, p.urls, 1);
	while (!fault_http_requests(p.a, NULL))
		net_run(p.n, 1);
	sink_fetch(p.n, &s, &patience, p.urls, 2);
	sink_assert_got(&s);
	assert_int_equal(fault_http_requests(p.a, NULL), 1);
	net_fetch_cancel(waits.fetch);
	sink_wait(p.n, &waits);
	sink_done(&waits);
	pair_done(&p, &s);
}

static void only_404_and_410_are_misses(void **state)
{
	static const struct {
		unsigned a, b;
		int outcome;
	} rows[] = {
		{ 404, 404, NET_MISSING }, { 410, 404, NET_MISSING },
		{ 404, 500, -1 },          { 503, 404, -1 },
		{ 404, 403, -1 },          { 429, 404, -1 },
		{ 404, 400, -1 },          { 406, 404, NET_TOO_LARGE },
		{ 501, 404, -1 },
	};
	const struct net_patience patience = { .retries = UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct pair p = pair_of((struct fault_rule){ .status = rows[i].a },
					(struct fault_rule){ .status = rows[i].b });
		struct sink s = { 0 };

		sink_fetch(p.n, &s, &patience, p.urls, 2);
		if (rows[i].outcome > 0 ? s.outcome != rows[i].outcome : s.outcome >= 0)
			fail_msg("%u and %u: %d", rows[i].a, rows[i].b, s.outcome);
		if (s.outcome < 0)
			assert_int_equal(s.err.kind, ERR_UPSTREAM);
		pair_done(&p, &s);
	}
}

static void a_sink_that_fails_ends_it(void **state)
{
	struct pair p = pair_of(sink_good(), sink_good());
	struct sink s = { .fail_at = 100000 };

	sink_fetch(p.n, &s, NULL, p.urls, 2);
	assert_true(s.outcome < 0);
	assert_int_equal(s.err.kind, ERR_IO);
	assert_string_equal(s.err.text, "disk full");
	pair_done(&p, &s);
}

static void cancelling_and_deadlines_end_it_wherever_it_is(void **state)
{
	struct fault_rule rules[3] = { { .fault = FAULT_SILENT }, sink_good(), sink_good() };
	const struct net_patience soon = { .deadline_ms = 50 };

	rules[1].fault = FAULT_STALL;
	rules[1].at = 5000;
	rules[2].fault = FAULT_DRIP;
	rules[2].at = 5000;
	for (unsigned i = 0; i < 6; i++) {
		struct pair p = pair_of(rules[i / 2], rules[i / 2]);
		struct sink s = { 0 };

		if (i % 2) {
			sink_fetch(p.n, &s, &soon, p.urls, 2);
			assert_int_equal(s.err.os, ETIME);
		} else {
			sink_start(p.n, &s, NULL, p.urls, 2);
			net_run(p.n, 20);
			net_fetch_cancel(s.fetch);
			sink_wait(p.n, &s);
			assert_int_equal(s.err.os, ECANCELED);
		}
		assert_true(s.outcome < 0);
		assert_int_equal(s.err.kind, ERR_CANCELLED);
		pair_done(&p, &s);
	}
}

static void many_share_few_connections(void **state)
{
	struct fault_rule rule = sink_good();
	struct fault_http *h = fault_http_new(&rule, 1);
	const char *url = fault_http_url(h);
	struct net *n = sink_net();
	static struct sink s[100];

	for (size_t i = 0; i < ARRAY_SIZE(s); i++)
		sink_start(n, &s[i], NULL, &url, 1);
	for (size_t i = 0; i < ARRAY_SIZE(s); i++)
		sink_wait(n, &s[i]);
	for (size_t i = 0; i < ARRAY_SIZE(s); i++) {
		sink_assert_got(&s[i]);
		sink_done(&s[i]);
	}
	assert_true(fault_http_connections(h) <= 16);
	net_free(n);
	fault_http_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_server_is_enough),
		cmocka_unit_test(the_next_is_asked_at_once_when_one_has_it_not_or_fails),
		cmocka_unit_test(the_next_is_started_beside_one_that_does_not_answer),
		cmocka_unit_test(one_that_refuses_at_once_does_not_end_the_one_beside_it),
		cmocka_unit_test(the_next_is_asked_when_the_first_has_no_turn_left),
		cmocka_unit_test(only_404_and_410_are_misses),
		cmocka_unit_test(a_sink_that_fails_ends_it),
		cmocka_unit_test(cancelling_and_deadlines_end_it_wherever_it_is),
		cmocka_unit_test(many_share_few_connections),
	};

	return cmocka_run_group_tests_name("net-fetch", tests, NULL, NULL);
}
