/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that are busy, dead, or out of room: who is asked again, and when. Waits that must not be needed are set to a
 * minute, so that a test that runs into one fails by its time limit and not by a measured time.
 */
#include "test.h"
#include "sink.h"

#include <errno.h>

#define LONG_MS 60000

static void one_that_is_busy_is_asked_again(void **state)
{
	const struct fault_rule rules[] = {
		{ .status = 503, .times = 1 },
		{ .status = 429, .times = 1, .headers = "Retry-After: 1\r\n" },
		{ .body = sink_artifact() },
	};
	struct fault_http *h = fault_http_new(rules, 3);
	const char *url = fault_http_url(h);
	struct net *n = sink_net();
	struct sink s = { 0 };

	sink_fetch(n, &s, NULL, &url, 1);
	sink_assert_got(&s);
	sink_done(&s);
	net_free(n);
	fault_http_free(h);
}

static void one_that_is_busy_for_long_is_passed_over_by_the_next(void **state)
{
	struct fault_rule bad = { .status = 429, .headers = "Retry-After: 77\r\n" };
	struct fault_http *h = fault_http_new(&bad, 1);
	const char *url = fault_http_url(h);
	struct net *n = sink_net();
	struct sink s = { 0 };
	const struct net_note *notes;

	sink_fetch(n, &s, NULL, &url, 1);
	assert_true(s.outcome < 0);
	assert_non_null(strstr(sink_said(&s, url), "429; will be asked again in 7"));
	sink_done(&s);
	sink_fetch(n, &s, NULL, &url, 1);
	assert_true(s.outcome < 0);
	assert_int_equal(net_fetch_notes(s.fetch, &notes), 1);
	assert_true(notes[0].passed_over && notes[0].again_s > 0);
	assert_int_equal(fault_http_requests(h, NULL), 1);
	sink_done(&s);
	net_free(n);
	fault_http_free(h);
}

static void a_file_that_a_disk_fails_for_leaves_the_server_in_use(void **state)
{
	struct fault_rule bad = { .status = 503, .headers = "Retry-After: 77\r\nX-LODE-UNREADABLE: 1\r\n" };
	struct fault_http *h = fault_http_new(&bad, 1);
	const char *url = fault_http_url(h);
	struct net *n = sink_net();
	const struct net_note *notes;

	for (unsigned i = 1; i <= 2; i++) {
		struct sink s = { 0 };

		sink_fetch(n, &s, NULL, &url, 1);
		assert_true(s.outcome < 0);
		assert_int_equal(net_fetch_notes(s.fetch, &notes), 1);
		assert_false(notes[0].passed_over);
		assert_int_equal(fault_http_requests(h, NULL), i);
		sink_done(&s);
	}
	net_free(n);
	fault_http_free(h);
}

static void a_server_that_reads_its_packages_is_asked_again_beside_others(void **state)
{
	struct fault_rule rules[3] = {
		{ .times = 1,
		  .status = 503,
		  .headers = "Retry-After: 5\r\nX-LODE-UNREAD: waiting\r\nX-LODE-READING: a.deb (41 %)\r\n" },
		{ .times = 1,
		  .status = 503,
		  .headers = "X-LODE-UNREAD: waiting\r\nX-LODE-READING: a\033b\r\n" },
		sink_good(),
	};
	struct fault_rule none = { .status = 404 };
	struct fault_http *h = fault_http_new(rules, 3), *other = fault_http_new(&none, 1);
	const char *urls[2] = { fault_http_url(h), fault_http_url(other) };
	const struct net_patience patience = { .silent_ms = 60000 };
	struct net *n = sink_net();
	struct sink s = { 0 };
	bool shown = false, cleaned = false;

	sink_start(n, &s, &patience, urls, 2);
	while (!s.n_done) {
		struct net_progress p;

		net_run(n, 10);
		net_fetch_progress(s.fetch, &p);
		shown |= p.reading && strcmp(p.reading, "a.deb (41 %)") == 0;
		cleaned |= p.reading && strcmp(p.reading, "a?b") == 0;
	}
	assert_int_equal(s.outcome, 0);
	assert_true(shown && cleaned);
	assert_int_equal(fault_http_requests(h, NULL), 3);
	assert_int_equal(fault_http_requests(other, NULL), 1);
	assert_non_null(strstr(fault_http_head(h, 0), "X-LODE-WAIT: 1000; waited=0"));
	assert_non_null(strstr(fault_http_head(h, 1), "X-LODE-WAIT: 10000; waited="));
	sink_done(&s);
	net_free(n);
	fault_http_free(h);
	fault_http_free(other);
}

static void a_server_that_goes_on_reading_is_not_asked_for_ever(void **state)
{
	static const struct {
		unsigned unread_ms, n_asked;
	} cases[] = { { UINT32_MAX, 1 }, { 1, 1 }, { 500, 2 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fault_rule rule = { .status = 404,
					   .headers = "X-LODE-UNREAD: waiting\r\n",
					   .delay_ms = 2 };
		struct fault_http *h = fault_http_new(&rule, 1);
		const struct net_patience patience = { .unread_ms = cases[i].unread_ms };
		const char *url = fault_http_url(h);
		struct net *n = sink_net();
		struct sink s = { 0 };

		sink_fetch(n, &s, &patience, &url, 1);
		assert_true(s.outcome < 0);
		assert_int_equal(s.err.os, EAGAIN);
		assert_int_equal(fault_http_requests(h, NULL), cases[i].n_asked);
		sink_done(&s);
		net_free(n);
		fault_http_free(h);
	}
}

static void a_dead_server_costs_once(void **state)
{
	for (unsigned drops = 0; drops < 2; drops++) {
		struct fault_rule rule = sink_good();
		struct fault_http *h = fault_http_new(&rule, 1);
		struct fault_dead d;
		char dead[64];
		const char *urls[2] = { dead, fault_http_url(h) };
		struct net *n = sink_net(), *other = sink_net();
		const struct net_patience patience = { .hedge_ms = drops ? 50 : LONG_MS,
						       .connect_ms = drops ? LONG_MS : 0 };
		const struct net_patience no_hedge = { .hedge_ms = LONG_MS, .connect_ms = LONG_MS };
		AUTO(buf_done) struct buf memory = { 0 };
		struct sink s = { 0 };
		uint64_t epoch = net_breakers_epoch(n);

		if (drops)
			fault_dead_drops(&d, dead);
		else
			fault_dead_refuses(&d, dead);
		sink_fetch(n, &s, &patience, urls, 2);
		sink_assert_got(&s);
		assert_non_null(strstr(sink_said(&s, dead), "no connection"));
		sink_done(&s);
		assert_true(net_breakers_epoch(n) != epoch);
		/* This would wait a minute. */
		sink_fetch(n, &s, &no_hedge, urls, 2);
		sink_assert_got(&s);
		sink_done(&s);
		/* Also in the next process. */
		net_breakers_save(n, &memory);
		net_breakers_load(other, buf_str(&memory));
		sink_fetch(other, &s, &no_hedge, urls, 2);
		sink_assert_got(&s);
		sink_done(&s);
		net_free(n);
		net_free(other);
		fault_dead_done(&d);
		fault_http_free(h);
	}
}

static void nothing_but_a_dead_server_is_an_error_with_its_errno(void **state)
{
	const struct net_patience patience = { .connect_ms = 100 };
	struct fault_dead refuses, drops;
	char urls[2][64];
	struct net *n = sink_net();
	struct sink s = { 0 };
	const char *url = urls[0];

	fault_dead_refuses(&refuses, urls[0]);
	fault_dead_drops(&drops, urls[1]);
	sink_fetch(n, &s, &patience, &url, 1);
	assert_true(s.outcome < 0);
	assert_int_equal(s.err.os, ECONNREFUSED);
	sink_done(&s);
	url = urls[1];
	sink_fetch(n, &s, &patience, &url, 1);
	assert_true(s.outcome < 0);
	assert_int_equal(s.err.os, ETIME);
	assert_int_equal(s.err.kind, ERR_UPSTREAM);
	sink_done(&s);
	sink_fetch(n, &s, NULL, NULL, 0);
	assert_true(s.outcome < 0);
	sink_done(&s);
	net_free(n);
	fault_dead_done(&refuses);
	fault_dead_done(&drops);
}

static void a_file_without_room_is_requested_from_the_next_server(void **state)
{
	struct pair p = pair_of(sink_good(), sink_good());
	struct sink s = { .no_room = true };

	sink_fetch(p.n, &s, NULL, p.urls, 2);
	sink_assert_got(&s);
	sink_done(&s);
	s.no_room = true;
	sink_fetch(p.n, &s, NULL, p.urls, 1);
	assert_int_equal(s.err.kind, ERR_UPSTREAM);
	assert_int_equal(s.err.os, ENOSPC);
	pair_done(&p, &s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_busy_is_asked_again),
		cmocka_unit_test(one_that_is_busy_for_long_is_passed_over_by_the_next),
		cmocka_unit_test(a_file_that_a_disk_fails_for_leaves_the_server_in_use),
		cmocka_unit_test(a_server_that_reads_its_packages_is_asked_again_beside_others),
		cmocka_unit_test(a_server_that_goes_on_reading_is_not_asked_for_ever),
		cmocka_unit_test(a_dead_server_costs_once),
		cmocka_unit_test(nothing_but_a_dead_server_is_an_error_with_its_errno),
		cmocka_unit_test(a_file_without_room_is_requested_from_the_next_server),
	};

	return cmocka_run_group_tests_name("net-fetch_busy", tests, NULL, NULL);
}
