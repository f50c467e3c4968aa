/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that break off or stall, and others that continue their bytes, if they are the same. Waits that must not be
 * needed are set to a minute, so that a test that runs into one fails by its time limit and not by a measured time.
 */
#include "test.h"
#include "sink.h"

#include <limits.h>

#define LONG_MS 60000

static void a_winner_that_breaks_off_is_replaced_at_any_byte(void **state)
{
	static const uint64_t cuts[] = { 1, 3, 4, 4095, 4096, 4097, 16384, 65536, 70000, 299999 };
	const struct net_patience patience = { .hedge_ms = LONG_MS };

	for (unsigned how = 0; how < 8; how++)
		for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
			struct fault_rule bad = sink_good(), next = sink_good();
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
	struct fault_rule bad = sink_good();
	struct pair p;
	struct sink s = { .no_again = true };

	bad.fault = FAULT_STALL;
	bad.at = 100000;
	p = pair_of(bad, sink_good());
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
	struct fault_rule next[2] = { sink_good(), sink_good() };
	struct sink s = { .want = sink_artifact() };
	struct pair p;

	buf_add(&damaged, sink_artifact().p, sink_artifact().size);
	damaged.p[damaged.size - 1] ^= 1;
	bad.body = buf_bytes(&damaged);
	next[0].fault = FAULT_DRIP;
	next[0].at = 10;
	next[0].times = 1;
	p = pair_of(bad, sink_good());
	fault_http_rules(p.b, next, 2);
	sink_fetch(p.n, &s, &patience, p.urls, 2);
	sink_assert_got(&s);
	assert_int_equal(fault_http_requests(p.b, NULL), 2);
	assert_string_equal(sink_said(&s, p.urls[0]), "it is another file");
	assert_string_equal(sink_said(&s, p.urls[1]), "used");
	pair_done(&p, &s);
}

/* The second server's file ends before the bytes that the first one has sent: it is requested as a whole. */
static void a_shorter_file_is_fetched_from_its_start(void **state)
{
	const struct net_patience patience = { .hedge_ms = LONG_MS };
	struct fault_rule bad = sink_good(), next[2] = { { .status = 416, .times = 1 }, sink_good() };
	struct sink s = { 0 };
	struct pair p;

	bad.fault = FAULT_CUT;
	bad.at = 200000;
	bad.no_range = true;
	next[1].body.size = 150000;
	s.want = next[1].body;
	p = pair_of(bad, sink_good());
	fault_http_rules(p.b, next, 2);
	sink_fetch(p.n, &s, &patience, p.urls, 2);
	assert_int_equal(s.outcome, 0);
	assert_true(bytes_eq(buf_bytes(&s.got), s.want));
	assert_int_equal(s.n_begun, 2);
	assert_int_equal(fault_http_requests(p.b, NULL), 2);
	pair_done(&p, &s);
}

/* The second server sends no size, and its body ends before the size that the first one announced. */
static void a_file_ends_at_the_size_that_was_announced(void **state)
{
	const struct net_patience patience = { .hedge_ms = LONG_MS };

	for (unsigned longer = 0; longer < 2; longer++) {
		struct fault_rule bad = sink_good(), next = sink_good();
		struct sink s = { .no_again = true };
		AUTO(buf_done) struct buf body = { 0 };
		struct pair p;

		buf_add(&body, sink_artifact().p, sink_artifact().size);
		buf_add_str(&body, STR("more"));
		bad.fault = FAULT_CUT;
		bad.at = 200000;
		bad.no_range = next.no_range = next.chunked = true;
		next.body = (struct bytes){ body.p, longer ? body.size : 250000 };
		p = pair_of(bad, next);
		sink_fetch(p.n, &s, &patience, p.urls, 2);
		assert_true(s.outcome < 0);
		assert_int_equal(s.err.kind, ERR_UPSTREAM);
		assert_string_equal(sink_said(&s, p.urls[1]),
				    longer ? "its file is not the one being fetched"
					   : "it broke off after 250000 of 300000 bytes");
		pair_done(&p, &s);
	}
}

/* It sends more than a server has to send to be asked again for any number of times, but adds nothing. */
static void a_server_that_ends_early_each_time_is_not_asked_for_ever(void **state)
{
	const struct net_patience patience = { .hedge_ms = LONG_MS };
	AUTO(mem_freep) uint8_t *bytes = mem_alloc(MIB(2));
	struct fault_rule bad = sink_good(), next = sink_good();
	struct sink s = { .no_again = true };
	struct pair p;

	test_fill(bytes, MIB(2), 11);
	memcpy(bytes, "\177ELF", 4);
	bad.body = bytes_of(bytes, MIB(2));
	bad.fault = FAULT_CUT;
	bad.at = MIB(1) + 200000;
	bad.no_range = next.no_range = next.chunked = true;
	next.body = bytes_of(bytes, MIB(1) + 500000);
	p = pair_of(bad, next);
	sink_fetch(p.n, &s, &patience, p.urls, 2);
	assert_true(s.outcome < 0);
	assert_int_equal(s.err.kind, ERR_UPSTREAM);
	assert_in_range(fault_http_requests(p.b, NULL), 2, 10);
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
	struct fault_rule rules[3] = { sink_good(), sink_good(), sink_good() };
	struct fault_rule late[2] = { sink_good(), { .fault = FAULT_SILENT } };
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
	struct fault_rule bad = sink_good(), next = sink_good();
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
	struct fault_rule rules[3] = { sink_good(), sink_good(), sink_good() };
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
		struct fault_rule bad = sink_good(), next = sink_good();
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
	struct fault_rule bad = sink_good();
	const struct net_patience patience = { .hedge_ms = LONG_MS };
	struct pair p;
	struct sink s = { .want = sink_artifact() };

	memcpy(other, sink_artifact().p, sizeof(other));
	other[299999] ^= 1;
	bad.body = bytes_of(other, sizeof(other));
	p = pair_of(bad, sink_good());
	sink_fetch(p.n, &s, &patience, p.urls, 2);
	sink_assert_got(&s);
	assert_int_equal(s.n_begun, 2);
	assert_string_equal(sink_said(&s, p.urls[0]), "it is another file");
	pair_done(&p, &s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_winner_that_breaks_off_is_replaced_at_any_byte),
		cmocka_unit_test(a_winner_that_stalls_is_replaced_and_goes_on_by_range),
		cmocka_unit_test(nobody_continues_after_bytes_that_are_wrong),
		cmocka_unit_test(a_shorter_file_is_fetched_from_its_start),
		cmocka_unit_test(a_file_ends_at_the_size_that_was_announced),
		cmocka_unit_test(a_server_that_ends_early_each_time_is_not_asked_for_ever),
		cmocka_unit_test(nobody_continues_after_a_file_that_was_begun_anew),
		cmocka_unit_test(a_loser_goes_on_when_the_winner_fails_in_the_same_turn),
		cmocka_unit_test(a_lone_server_that_breaks_off_is_asked_to_go_on),
		cmocka_unit_test(another_file_of_the_same_build_id_is_not_mixed_in),
		cmocka_unit_test(a_file_that_fails_verify_is_fetched_from_another_server),
	};

	return cmocka_run_group_tests_name("net-fetch_continue", tests, NULL, NULL);
}
