/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One artifact from several servers, some of which misbehave. Waits that must not be needed are set to a
 * minute, so that a test that runs into one fails by its time limit and not by a measured time.
 */
#include "test.h"
#include "sink.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define LONG_MS 60000
#define TEXT(s) bytes_of((s), sizeof(s) - 1)

static struct fault_rule good(void)
{
	return (struct fault_rule){ .body = sink_artifact() };
}

struct pair {
	struct net *n;
	struct fault_http *a, *b;
	const char *urls[2];
};

static struct pair pair_of(struct fault_rule a, struct fault_rule b)
{
	struct pair p = { sink_net(), fault_http_new(&a, 1), fault_http_new(&b, 1), { 0 } };

	p.urls[0] = fault_http_url(p.a);
	p.urls[1] = fault_http_url(p.b);
	return p;
}

static void pair_done(struct pair *p, struct sink *s)
{
	sink_done(s);
	net_free(p->n);
	fault_http_free(p->a);
	fault_http_free(p->b);
}

static void the_first_server_is_enough(void **state)
{
	struct pair p = pair_of(good(), good());
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
		struct pair p = pair_of(bad[i], good());
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
		struct pair p = pair_of(bad[i], good());
		struct sink s = { 0 };

		sink_fetch(p.n, &s, &patience, p.urls, 2);
		sink_assert_got(&s);
		assert_non_null(strstr(sink_said(&s, p.urls[0]), "no answer"));
		pair_done(&p, &s);
	}
}

static void the_next_is_asked_when_the_first_has_no_turn_left(void **state)
{
	const struct net_options opts = { .max_per_server = 1 };
	const struct net_patience patience = { .hedge_ms = 50, .silent_ms = 2 * LONG_MS };
	struct pair p = pair_of((struct fault_rule){ .fault = FAULT_SILENT }, good());
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

static void a_winner_that_breaks_off_is_replaced_at_any_byte(void **state)
{
	static const uint64_t cuts[] = { 1, 3, 4, 4095, 4096, 4097, 16384, 65536, 70000, 299999 };
	const struct net_patience patience = { .hedge_ms = LONG_MS };

	for (unsigned how = 0; how < 8; how++)
		for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
			struct fault_rule bad = good(), next = good();
			struct pair p;
			struct sink s = { .no_again = true };

			bad.fault = how & 1 ? FAULT_RESET : FAULT_CUT;
			bad.at = cuts[i];
			bad.no_range = true;
			next.no_range = how & 2;
			next.chunked = how & 4;
			p = pair_of(bad, next);
			sink_fetch(p.n, &s, &patience, p.urls, 2);
			sink_assert_got(&s);
			assert_int_equal(s.n_begun, 1);
			pair_done(&p, &s);
		}
}

static void a_winner_that_stalls_is_replaced_and_goes_on_by_range(void **state)
{
	const struct net_patience patience = { .hedge_ms = LONG_MS, .stall_ms = 50 };
	struct fault_rule bad = good();
	struct pair p;
	struct sink s = { .no_again = true };

	bad.fault = FAULT_STALL;
	bad.at = 100000;
	p = pair_of(bad, good());
	sink_fetch(p.n, &s, &patience, p.urls, 2);
	sink_assert_got(&s);
	assert_non_null(strstr(fault_http_head(p.b, 0), "Range: bytes="));
	assert_non_null(strstr(sink_said(&s, p.urls[0]), "stalled"));
	assert_string_equal(sink_said(&s, p.urls[1]), "used");
	pair_done(&p, &s);
}

/* The last bytes of the first server's file are wrong, which shows while the second one compares and continues. */
static void nobody_continues_after_bytes_that_are_wrong(void **state)
{
	const struct net_patience patience = { .hedge_ms = LONG_MS, .stall_ms = 50 };
	AUTO(buf_done) struct buf damaged = { 0 };
	struct fault_rule bad = { .fault = FAULT_PAUSE, .at = sink_artifact().size - 20, .pause_ms = 300 };
	struct fault_rule next[2] = { good(), good() };
	struct sink s = { .want = sink_artifact() };
	struct pair p;

	buf_add(&damaged, sink_artifact().p, sink_artifact().size);
	damaged.p[damaged.size - 1] ^= 1;
	bad.body = buf_bytes(&damaged);
	next[0].fault = FAULT_DRIP;
	next[0].at = 10;
	next[0].times = 1;
	p = pair_of(bad, good());
	fault_http_rules(p.b, next, 2);
	sink_fetch(p.n, &s, &patience, p.urls, 2);
	sink_assert_got(&s);
	assert_int_equal(fault_http_requests(p.b, NULL), 2);
	assert_string_equal(sink_said(&s, p.urls[0]), "it is another file");
	assert_string_equal(sink_said(&s, p.urls[1]), "used");
	pair_done(&p, &s);
}

/*
 * The first server is slow, and its file turns out to be wrong. The second one, asked for the rest of it, answers when the
 * third one has begun anew and is slow too.
 */
static void nobody_continues_after_a_file_that_was_begun_anew(void **state)
{
	const struct net_patience patience = { .hedge_ms = 12000, .stall_ms = 1000 };
	AUTO(buf_done) struct buf damaged = { 0 };
	struct fault_rule rules[3] = { good(), good(), good() };
	struct fault_rule late[2] = { good(), { .fault = FAULT_SILENT } };
	struct fault_http *servers[3];
	struct net *n = sink_net();
	struct sink s = { .want = sink_artifact() };
	const char *urls[3];

	buf_add(&damaged, sink_artifact().p, sink_artifact().size);
	damaged.p[damaged.size - 1] ^= 1;
	rules[0].fault = rules[2].fault = FAULT_PAUSE;
	rules[0].body = buf_bytes(&damaged);
	rules[0].at = damaged.size - 20;
	rules[0].pause_ms = 500;
	late[0].delay_ms = 1500;
	late[0].times = 1;
	rules[2].at = 50000;
	rules[2].pause_ms = 2500;
	for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
		servers[i] = fault_http_new(&rules[i], 1);
		urls[i] = fault_http_url(servers[i]);
	}
	fault_http_rules(servers[1], late, 2);
	clock_test_freeze(1700000000);
	sink_start(n, &s, &patience, urls, 3);
	while (s.got.size < damaged.size - 20)
		net_run(n, 1);
	/* A window with many bytes, then one without. */
	for (int i = 0; i < 2; i++) {
		clock_test_advance(10000);
		net_run(n, 1);
	}
	while (!fault_http_requests(servers[1], NULL))
		net_run(n, 1);
	while (!*sink_said(&s, urls[0]))
		net_run(n, 1);
	clock_test_advance(3000);
	sink_wait(n, &s);
	clock_test_thaw();
	sink_assert_got(&s);
	assert_int_equal(s.n_begun, 2);
	assert_string_equal(sink_said(&s, urls[2]), "used");
	sink_done(&s);
	net_free(n);
	for (size_t i = 0; i < ARRAY_SIZE(servers); i++)
		fault_http_free(servers[i]);
}

/* Both replies are in the sockets when the loop looks again: the second loses, and the first breaks off. */
static void a_loser_goes_on_when_the_winner_fails_in_the_same_turn(void **state)
{
	const struct net_patience patience = {
		.hedge_ms = 1, .stall_ms = LONG_MS, .silent_ms = LONG_MS, .retries = UINT_MAX
	};
	struct fault_rule bad = good(), next = good();
	struct pair p;
	struct sink s = { .no_again = true };

	bad.fault = FAULT_CUT;
	bad.at = 100;
	bad.delay_ms = next.delay_ms = 20;
	p = pair_of(bad, next);
	sink_start(p.n, &s, &patience, p.urls, 2);
	while (!fault_http_requests(p.a, NULL) || !fault_http_requests(p.b, NULL))
		net_run(p.n, 1);
	usleep(150000);
	sink_wait(p.n, &s);
	sink_assert_got(&s);
	assert_string_equal(sink_said(&s, p.urls[1]), "used");
	pair_done(&p, &s);
}

static void a_lone_server_that_breaks_off_is_asked_to_go_on(void **state)
{
	struct fault_rule rules[3] = { good(), good(), good() };
	const char *url;
	struct fault_http *h;
	struct net *n = sink_net();
	struct sink s = { .no_again = true };

	rules[0].headers = rules[1].headers = rules[2].headers = "ETag: \"one\"\r\n";
	rules[0].fault = rules[1].fault = FAULT_CUT;
	rules[0].times = rules[1].times = 1;
	rules[0].at = 90000;
	rules[1].at = 60000;
	h = fault_http_new(rules, 3);
	url = fault_http_url(h);
	sink_fetch(n, &s, NULL, &url, 1);
	sink_assert_got(&s);
	assert_int_equal(fault_http_requests(h, NULL), 3);
	assert_non_null(strstr(fault_http_head(h, 1), "If-Range: \"one\"\r\n"));
	sink_done(&s);
	net_free(n);
	fault_http_free(h);
}

static void another_file_of_the_same_build_id_is_not_mixed_in(void **state)
{
	static uint8_t other[300000];
	const struct net_patience patience = { .hedge_ms = LONG_MS };

	for (unsigned how = 0; how < 8; how++) {
		struct fault_rule bad = good(), next = good();
		struct pair p;
		struct sink s = { .no_again = how & 4 };
		struct bytes want = bytes_of(other, how & 2 ? sizeof(other) : sizeof(other) - 10);

		memcpy(other, sink_artifact().p, sizeof(other));
		other[150000 - 3] ^= 1;
		bad.fault = FAULT_CUT;
		bad.at = 150000;
		next.body = want;
		next.no_range = how & 1;
		p = pair_of(bad, next);
		bad.fault = FAULT_HANG_UP;
		sink_start(p.n, &s, &patience, p.urls, 2);
		while (!s.got.size)
			net_run(p.n, 1000);
		fault_http_rules(p.a, &bad, 1);
		sink_wait(p.n, &s);
		if (s.no_again) {
			assert_true(s.outcome < 0);
			assert_int_equal(s.err.kind, ERR_UPSTREAM);
		} else {
			assert_int_equal(s.outcome, 0);
			assert_true(bytes_eq(buf_bytes(&s.got), want));
		}
		pair_done(&p, &s);
	}
}

static void a_file_that_fails_verify_is_fetched_from_another_server(void **state)
{
	static uint8_t other[300000];
	struct fault_rule bad = good();
	const struct net_patience patience = { .hedge_ms = LONG_MS };
	struct pair p;
	struct sink s = { .want = sink_artifact() };

	memcpy(other, sink_artifact().p, sizeof(other));
	other[299999] ^= 1;
	bad.body = bytes_of(other, sizeof(other));
	p = pair_of(bad, good());
	sink_fetch(p.n, &s, &patience, p.urls, 2);
	sink_assert_got(&s);
	assert_int_equal(s.n_begun, 2);
	assert_string_equal(sink_said(&s, p.urls[0]), "it is another file");
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
		good(),
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
		struct fault_rule rule = good();
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

static void bodies_that_lie_about_their_size_are_not_believed(void **state)
{
	struct fault_rule rules[4] = { good(), good(), good(), good() };
	const struct net_patience patience = { .retries = UINT32_MAX, .silent_ms = 300 };

	rules[0].length = sink_artifact().size + 5; /* then it is silent */
	rules[1].chunked = true;
	rules[1].headers = "X-DEBUGINFOD-SIZE: 299999\r\n";
	rules[2].chunked = true;
	rules[2].headers = "X-DEBUGINFOD-SIZE: 300001\r\n";
	rules[3].chunked = true;
	rules[3].fault = FAULT_CUT;
	rules[3].at = 299999;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct fault_http *h = fault_http_new(&rules[i], 1);
		const char *url = fault_http_url(h);
		struct net *n = sink_net();
		struct sink s = { 0 };

		sink_fetch(n, &s, &patience, &url, 1);
		if (s.outcome >= 0)
			fail_msg("row %zu is believed", i);
		assert_int_equal(s.err.kind, ERR_UPSTREAM);
		sink_done(&s);
		net_free(n);
		fault_http_free(h);
	}
}

static void a_sink_that_fails_ends_it(void **state)
{
	struct pair p = pair_of(good(), good());
	struct sink s = { .fail_at = 100000 };

	sink_fetch(p.n, &s, NULL, p.urls, 2);
	assert_true(s.outcome < 0);
	assert_int_equal(s.err.kind, ERR_IO);
	assert_string_equal(s.err.text, "disk full");
	pair_done(&p, &s);
}

static void cancelling_and_deadlines_end_it_wherever_it_is(void **state)
{
	struct fault_rule rules[3] = { { .fault = FAULT_SILENT }, good(), good() };
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

static void headers_go_out_and_come_in(void **state)
{
	const struct fault_rule rule = {
		.body = sink_artifact(),
		.headers = "x-debuginfod-file: /usr/lib/a\r\nX-DEBUGINFOD-ARCHIVE:  b.deb \r\n"
			   "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Other: c\r\n"
	};
	struct fault_http *h = fault_http_new(&rule, 1);
	const char *url = fault_http_url(h),
		   *headers[] = { "X-Forwarded-For: 10.0.0.1", "User-Agent: test/1" };
	struct net *n = sink_net();
	struct sink s = { 0 };
	struct net_request req = { .urls = &url,
				   .n_urls = 1,
				   .path = "p/q",
				   .headers = headers,
				   .n_headers = 2,
				   .max_size = 400000 };
	const struct net_reply *reply;

	sink_start(n, &s, NULL, &url, 1); /* for its functions */
	sink_wait(n, &s);
	reply = net_fetch_reply(s.fetch);
	assert_str(reply->headers, "x-debuginfod-file: /usr/lib/a\nX-DEBUGINFOD-ARCHIVE: b.deb\n");
	assert_int_equal(reply->mtime, 784111777);
	assert_int_equal(reply->size, 300000);
	sink_done(&s);
	sink_custom(n, &s, &req);
	assert_int_equal(s.outcome, 0);
	assert_non_null(strstr(fault_http_head(h, 1), "GET /p/q "));
	assert_non_null(strstr(fault_http_head(h, 1), "X-Forwarded-For: 10.0.0.1\r\n"));
	assert_non_null(strstr(fault_http_head(h, 1), "User-Agent: test/1\r\n"));
	assert_non_null(strstr(fault_http_head(h, 1), "X-DEBUGINFOD-MAXSIZE: 400000\r\n"));
	sink_done(&s);
	net_free(n);
	fault_http_free(h);
}

static void bytes_above_the_limit_are_refused(void **state)
{
	struct fault_rule rules[2] = { good(), good() };

	rules[1].fault = FAULT_ENDLESS;
	for (size_t i = 0; i < 2; i++) {
		struct fault_http *h = fault_http_new(&rules[i], 1);
		const char *url = fault_http_url(h);
		struct net *n = sink_net();
		struct net_request req = {
			.urls = &url, .n_urls = 1, .path = "x", .max_size = i ? 1000000 : 299999
		};
		struct sink s = { 0 };

		sink_custom(n, &s, &req);
		/* After a fetch has begun and failed, "too large" is not the outcome. */
		assert_int_equal(s.outcome, i ? -1 : NET_TOO_LARGE);
		assert_true(s.got.size <= req.max_size);
		sink_done(&s);
		net_free(n);
		fault_http_free(h);
	}
}

/* @n times @in; 0: a bomb, 100 MB of zeros after an ELF magic. */
static void gzip(struct bytes in, unsigned n, struct buf *out)
{
	static uint8_t zeros[65536];
	unsigned rounds = n ? n : 1600;
	z_stream z = { 0 };

	memcpy(zeros,
	       "\x7f"
	       "ELF",
	       4);
	deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY);
	for (unsigned i = 0; i < rounds; i++) {
		z.next_in = n ? (uint8_t *)in.p : zeros;
		z.avail_in = n ? (unsigned)in.size : sizeof(zeros);
		do {
			z.next_out = buf_reserve(out, 65536);
			z.avail_out = 65536;
			deflate(&z, i + 1 == rounds ? Z_FINISH : Z_NO_FLUSH);
			out->size += 65536 - z.avail_out;
		} while (!z.avail_out);
		memset(zeros, 0, 4);
	}
	deflateEnd(&z);
}

static void compressed_transfers_are_unpacked_and_bombs_are_not(void **state)
{
	AUTO(buf_done) struct buf packed = { 0 }, boom = { 0 };
	struct fault_rule rules[2];

	gzip(sink_artifact(), 1, &packed);
	gzip(sink_artifact(), 0, &boom);
	rules[0] = (struct fault_rule){
		.body = buf_bytes(&packed),
		.headers = "Content-Encoding: gzip\r\nX-DEBUGINFOD-SIZE: 300000\r\n"
	};
	rules[1] = (struct fault_rule){ .body = buf_bytes(&boom), .headers = "Content-Encoding: gzip\r\n" };
	for (size_t i = 0; i < 2; i++) {
		struct fault_http *h = fault_http_new(&rules[i], 1);
		const char *url = fault_http_url(h);
		struct net *n = sink_net();
		struct net_request req = { .urls = &url, .n_urls = 1, .path = "x", .compressed = true };
		struct sink s = { 0 };

		sink_custom(n, &s, &req);
		if (!i)
			sink_assert_got(&s);
		else
			assert_true(s.outcome < 0 && strstr(s.err.text, "hundred times"));
		sink_done(&s);
		net_free(n);
		fault_http_free(h);
	}
}

static void a_tree_of_files_is_a_server_too(void **state)
{
	char dir[TEST_PATH_SIZE];
	AUTO(mem_freep) char *path = NULL, *url = NULL, *folder = NULL;
	const char *urls[2];
	struct fault_rule bad = good();
	struct fault_http *h;
	struct net *n = sink_net();
	struct sink s = { 0 };
	struct err err = { 0 };

	test_dir_make(dir);
	folder = mem_printf("%s/a b/buildid/ab", dir);
	path = mem_printf("%s/debuginfo", folder);
	url = mem_printf("file://%s/a%%20b", dir);
	urls[0] = url;
	/* A folder that is not mounted has no misses. */
	sink_fetch(n, &s, NULL, urls, 1);
	assert_true(s.outcome < 0);
	assert_non_null(strstr(sink_said(&s, url), "its folder is not there"));
	sink_done(&s);
	assert_done(dir_make(folder, 0755, &err));
	sink_fetch(n, &s, NULL, urls, 1);
	assert_int_equal(s.outcome, NET_MISSING);
	sink_done(&s);
	test_file_write(path, sink_artifact().p, sink_artifact().size);
	sink_fetch(n, &s, NULL, urls, 1);
	sink_assert_got(&s);
	sink_done(&s);
	/* It continues where another server broke off. */
	bad.fault = FAULT_CUT;
	bad.at = 123456;
	h = fault_http_new(&bad, 1);
	urls[0] = fault_http_url(h);
	urls[1] = url;
	s.no_again = true;
	sink_fetch(n, &s, NULL, urls, 2);
	sink_assert_got(&s);
	sink_done(&s);
	net_free(n);
	fault_http_free(h);
	test_dir_remove(dir);
}

static void a_file_without_room_is_requested_from_the_next_server(void **state)
{
	struct fault_rule rules[] = { good(), good() };
	struct fault_http *a = fault_http_new(&rules[0], 1), *b = fault_http_new(&rules[1], 1);
	const char *urls[] = { fault_http_url(a), fault_http_url(b) };
	struct net *n = sink_net();
	struct sink s = { .no_room = true };

	sink_fetch(n, &s, NULL, urls, 2);
	sink_assert_got(&s);
	sink_done(&s);
	s.no_room = true;
	sink_fetch(n, &s, NULL, urls, 1);
	assert_int_equal(s.err.kind, ERR_UPSTREAM);
	assert_int_equal(s.err.os, ENOSPC);
	sink_done(&s);
	net_free(n);
	fault_http_free(a);
	fault_http_free(b);
}

/* Fetch @path of the tree below @dir/tree. */
static int fetch_in_tree(struct net *n, const char *dir, const char *path)
{
	AUTO(mem_freep) char *url = mem_printf("file://%s/tree", dir);
	const char *urls[] = { url };
	const struct net_request req = { .urls = urls, .n_urls = 1, .path = path };
	struct sink s = { .html_is_fine = true };
	int r;

	sink_custom(n, &s, &req);
	r = s.outcome;
	sink_done(&s);
	return r;
}

static void a_folder_has_only_the_files_in_it(void **state)
{
	static const char *const outside[] = { "../secret",     "b/../../secret",
					       "%2e%2e/secret", "b%2f..%2f..%2fsecret",
					       "b%2Fin",        "b/in%00" };
	char dir[TEST_PATH_SIZE], path[2 * TEST_PATH_SIZE], to[2 * TEST_PATH_SIZE];
	struct net *n = sink_net();
	struct err err = { 0 };

	test_dir_make(dir);
	snprintf(path, sizeof(path), "%s/tree/b", dir);
	assert_done(dir_make(path, 0755, &err));
	snprintf(path, sizeof(path), "%s/tree/b/in", dir);
	test_file_write(path, "in", 2);
	snprintf(to, sizeof(to), "%s/secret", dir);
	test_file_write(to, "secret", 6);
	snprintf(path, sizeof(path), "%s/tree/b/link", dir);
	assert_int_equal(symlink(to, path), 0);
	snprintf(path, sizeof(path), "%s/tree/up", dir);
	assert_int_equal(symlink("..", path), 0);
	snprintf(path, sizeof(path), "%s/tree/good", dir);
	assert_int_equal(symlink("b/in", path), 0);
	snprintf(path, sizeof(path), "%s/tree/fifo", dir);
	assert_int_equal(mkfifo(path, 0644), 0);

	assert_int_equal(fetch_in_tree(n, dir, "b/in"), 0);
	assert_int_equal(fetch_in_tree(n, dir, "good"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(outside); i++)
		if (fetch_in_tree(n, dir, outside[i]) >= 0)
			fail_msg("%s is read or looked for", outside[i]);
	assert_int_equal(fetch_in_tree(n, dir, "b/link"), NET_MISSING);
	assert_int_equal(fetch_in_tree(n, dir, "up/secret"), NET_MISSING);
	assert_int_equal(fetch_in_tree(n, dir, "up/tree/b/in"), 0);
	assert_int_equal(fetch_in_tree(n, dir, "fifo"), NET_MISSING);
	assert_int_equal(fetch_in_tree(n, dir, "b"), NET_MISSING);
	net_free(n);
	test_dir_remove(dir);
}

static void a_path_that_leads_out_is_not_requested(void **state)
{
	static const char *const paths[] = { "buildid/ab/source/../../../admin",
					     "buildid/ab/section/..%2f..%2fadmin",
					     "buildid/ab/source/%252e%252e/x" };
	struct fault_rule rule = good();
	struct fault_http *h = fault_http_new(&rule, 1);
	const char *url = fault_http_url(h);
	struct net *n = sink_net();

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const struct net_request req = { .urls = &url, .n_urls = 1, .path = paths[i] };
		struct sink s = { 0 };

		sink_custom(n, &s, &req);
		assert_true(s.outcome < 0);
		assert_non_null(strstr(sink_said(&s, url), "leads out of the server's folder"));
		sink_done(&s);
	}
	assert_int_equal(fault_http_requests(h, NULL), 0);
	net_free(n);
	fault_http_free(h);
}

static void redirects_to_others_are_followed_if_allowed(void **state)
{
	struct fault_rule rule = good();
	struct fault_http *b = fault_http_new(&rule, 1), *a;
	AUTO(mem_freep) char *to = mem_printf("Location: %s/elsewhere\r\n", fault_http_url(b));
	const struct fault_rule away[] = {
		{ .path = "/buildid/ab/debuginfo", .status = 302, .headers = to },
		{ .path = "/buildid/ab/here", .status = 307, .headers = "location: /there\r\n" },
		{ .path = "/there", .body = sink_artifact() }
	};
	const char *url;

	a = fault_http_new(away, ARRAY_SIZE(away));
	url = fault_http_url(a);
	for (enum net_redirects r = NET_REDIRECT_SAME_HOST; r <= NET_REDIRECT_ANY_HOST; r++) {
		const struct net_options o = { .redirects = r };
		struct net_request req = { .urls = &url, .n_urls = 1, .path = "buildid/ab/debuginfo" };
		struct sink s = { 0 };
		struct err err = { 0 };
		struct net *n;

		assert_done(net_new(&o, &n, &err));
		sink_custom(n, &s, &req);
		assert_int_equal(fault_http_requests(b, NULL), r == NET_REDIRECT_ANY_HOST);
		if (r == NET_REDIRECT_ANY_HOST) {
			sink_assert_got(&s);
		} else {
			assert_true(s.outcome < 0);
			assert_non_null(
				strstr(sink_said(&s, url), "it redirects to another port: name that one"));
		}
		sink_done(&s);
		req.path = "buildid/ab/here";
		sink_custom(n, &s, &req);
		sink_assert_got(&s);
		sink_done(&s);
		net_free(n);
	}
	fault_http_free(a);
	fault_http_free(b);
}

static void many_share_few_connections(void **state)
{
	struct fault_rule rule = good();
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
		cmocka_unit_test(a_file_without_room_is_requested_from_the_next_server),
		cmocka_unit_test(a_folder_has_only_the_files_in_it),
		cmocka_unit_test(a_path_that_leads_out_is_not_requested),
		cmocka_unit_test(redirects_to_others_are_followed_if_allowed),
		cmocka_unit_test(the_next_is_asked_at_once_when_one_has_it_not_or_fails),
		cmocka_unit_test(the_next_is_started_beside_one_that_does_not_answer),
		cmocka_unit_test(the_next_is_asked_when_the_first_has_no_turn_left),
		cmocka_unit_test(a_winner_that_breaks_off_is_replaced_at_any_byte),
		cmocka_unit_test(a_winner_that_stalls_is_replaced_and_goes_on_by_range),
		cmocka_unit_test(nobody_continues_after_bytes_that_are_wrong),
		cmocka_unit_test(nobody_continues_after_a_file_that_was_begun_anew),
		cmocka_unit_test(a_loser_goes_on_when_the_winner_fails_in_the_same_turn),
		cmocka_unit_test(a_lone_server_that_breaks_off_is_asked_to_go_on),
		cmocka_unit_test(another_file_of_the_same_build_id_is_not_mixed_in),
		cmocka_unit_test(a_file_that_fails_verify_is_fetched_from_another_server),
		cmocka_unit_test(only_404_and_410_are_misses),
		cmocka_unit_test(one_that_is_busy_is_asked_again),
		cmocka_unit_test(one_that_is_busy_for_long_is_passed_over_by_the_next),
		cmocka_unit_test(a_file_that_a_disk_fails_for_leaves_the_server_in_use),
		cmocka_unit_test(a_server_that_reads_its_packages_is_asked_again_beside_others),
		cmocka_unit_test(a_server_that_goes_on_reading_is_not_asked_for_ever),
		cmocka_unit_test(a_dead_server_costs_once),
		cmocka_unit_test(nothing_but_a_dead_server_is_an_error_with_its_errno),
		cmocka_unit_test(bodies_that_lie_about_their_size_are_not_believed),
		cmocka_unit_test(bytes_above_the_limit_are_refused),
		cmocka_unit_test(compressed_transfers_are_unpacked_and_bombs_are_not),
		cmocka_unit_test(a_sink_that_fails_ends_it),
		cmocka_unit_test(cancelling_and_deadlines_end_it_wherever_it_is),
		cmocka_unit_test(headers_go_out_and_come_in),
		cmocka_unit_test(a_tree_of_files_is_a_server_too),
		cmocka_unit_test(many_share_few_connections),
	};

	return cmocka_run_group_tests_name("net-fetch", tests, NULL, NULL);
}
