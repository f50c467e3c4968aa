/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Artifacts that do not arrive: failures, waits, requests that are given up.
 */
#include "scripted.h"

#include <pthread.h>

/* ---- failures ---- */

/* The gate delays the failure until the reply has started; otherwise it could still be a 500. */
static void check_cut(unsigned which)
{
	struct http_answer a = { 0 };
	struct http_client c;

	script_close_gate(scripted_script);
	http_client_open(&c, scripted.url);
	http_client_ask(&c, "GET", scripted_path(which), NULL);
	assert_true(http_client_head(&c, &a));
	assert_int_equal(a.status, 200);
	assert_int_equal(a.length, BIG);
	script_open_gate(scripted_script);
	assert_false(http_client_body(&c, &a, SIZE_MAX));
	assert_false(a.whole);
	assert_true(a.body.size <= MIB(1));
	scripted_check_bytes(&a, which, 0);
	http_answer_done(&a);
	http_client_close(&c);
}

static void a_failure_in_the_middle_cuts_the_reply(void **state)
{
	/* Twice: a failure is not cached. */
	check_cut(FAILS);
	check_cut(FAILS);
	check_cut(SHORT);
	check_cut(SHORT);
	scripted_wait_until(scripted_nothing_open);
}

static void a_failure_before_the_first_byte_is_an_error(void **state)
{
	struct http_answer a = http_fetch(scripted.url, "GET", scripted_path(SMALL_FAILS), NULL);

	assert_int_equal(a.status, 503);
	assert_non_null(strstr(buf_cstr(&a.body), "read error at 500"));
	http_answer_done(&a);
	a = http_fetch(scripted.url, "GET", scripted_path(BAD), NULL);
	assert_int_equal(a.status, 503);
	assert_non_null(strstr(buf_cstr(&a.body), "changed while it was read"));
	http_answer_done(&a);
}

static void a_miss_says_why_in_one_line(void **state)
{
	struct http_answer a = http_fetch(scripted.url, "GET", "/buildid/ff/debuginfo", NULL);

	assert_int_equal(a.status, 404);
	assert_string_equal(buf_cstr(&a.body),
			    "not found: package /srv/pool/secret/a.deb: no such member?nor?any other\n");
	http_answer_done(&a);
}

/* ---- waiting ---- */

static void a_request_waits_for_a_deep_pass(void **state)
{
	struct http_client c[3];

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_open(&c[i], scripted.url);
		http_client_ask(&c[i], "GET", scripted_path(WAITS), NULL);
	}
	script_wait_waiting(scripted_script, 1);
	assert_int_equal(script_wake(scripted_script), 1);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		scripted_check_whole(&c[i], WAITS);
		http_client_close(&c[i]);
	}
}

static void short_deadline(struct server_options *o)
{
	o->request_deadline_ms = 200;
}

static int setup_deadline(void **state)
{
	return scripted_setup_with(short_deadline);
}

static void a_wait_ends_at_the_deadline(void **state)
{
	struct http_answer a = http_fetch(scripted.url, "GET", scripted_path(WAITS), NULL);

	assert_int_equal(a.status, 503);
	assert_header(&a, "Retry-After", "5");
	assert_non_null(strstr(buf_cstr(&a.body), "still being read"));
	http_answer_done(&a);
	/* The late wake has no request to resume, and the next request gets the artifact. */
	assert_int_equal(script_wake(scripted_script), 1);
	scripted_check_fetched(WAITS);
}

#define ELFUTILS "User-Agent: elfutils/0.188\r\n"

static void short_patience(struct server_options *o)
{
	o->redirect_ms = 100;
}

static int setup_patience(void **state)
{
	return scripted_setup_with(short_patience);
}

static struct http_answer ask_again(const char *path, const char *location)
{
	char again[256];

	snprintf(again, sizeof(again), "%s%s", path, location);
	return http_fetch(scripted.url, "GET", again, ELFUTILS);
}

static void a_client_of_elfutils_is_sent_to_the_same_path_until_the_file_is_there(void **state)
{
	char path[128], location[64];
	struct http_answer a;
	struct http_client c;

	snprintf(path, sizeof(path), "%s", scripted_path(WAITS));
	a = http_fetch(scripted.url, "GET", path, ELFUTILS);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t waited;

		assert_int_equal(a.status, 307);
		assert_header(&a, "Cache-Control", "no-store");
		snprintf(location, sizeof(location), "%s", http_answer_header(&a, "Location"));
		assert_true(str_starts(str_of(location), STR("?waited_ms=")));
		assert_true(str_to_u64(str_of(location + strlen("?waited_ms=")), &waited));
		assert_in_range(waited, 100 * (i + 1), 60000);
		http_answer_done(&a);
		a = ask_again(path, location);
	}
	http_answer_done(&a);
	/* All the while one request waits: that of the artifact, which was not given up between two requests. */
	script_wait_waiting(scripted_script, 1);
	http_client_open(&c, scripted.url);
	http_client_ask(&c, "GET", path, NULL);
	assert_int_equal(script_wake(scripted_script), 1);
	scripted_check_whole(&c, WAITS);
	http_client_close(&c);
	scripted_check_fetched(WAITS);
}

static void a_client_that_has_waited_long_enough_is_not_sent_again(void **state)
{
	struct http_answer a = ask_again(scripted_path(WAITS), "?waited_ms=-1");

	assert_int_equal(a.status, 307);
	http_answer_done(&a);
	a = ask_again(scripted_path(WAITS), "?waited_ms=99999999");
	assert_int_equal(a.status, 503);
	http_answer_done(&a);
	script_wake(scripted_script);
}

static void our_client_is_told_to_ask_again_until_the_file_is_there(void **state)
{
	struct http_client c;

	for (unsigned i = 0; i < 3; i++) {
		struct http_answer a = http_fetch(scripted.url, "GET", scripted_path(WAITS),
						  "X-LODE-WAIT: 100; waited=300\r\n");

		assert_int_equal(a.status, 503);
		assert_header(&a, "X-LODE-UNREAD", "waiting");
		assert_header(&a, "X-LODE-READING", "slow.deb (41 %)");
		assert_header(&a, "Cache-Control", "no-store");
		http_answer_done(&a);
	}
	/* All the while one request waits: that of the artifact, which was not given up between two requests. */
	script_wait_waiting(scripted_script, 1);
	http_client_open(&c, scripted.url);
	http_client_ask(&c, "GET", scripted_path(WAITS), "X-LODE-WAIT: 60000\r\n");
	assert_int_equal(script_wake(scripted_script), 1);
	scripted_check_whole(&c, WAITS);
	http_client_close(&c);
}

static void our_client_that_has_waited_long_enough_is_told_so(void **state)
{
	struct http_answer a = http_fetch(scripted.url, "GET", scripted_path(WAITS),
					  "X-LODE-WAIT: 0; waited=99999999\r\n");

	assert_int_equal(a.status, 503);
	assert_null(http_answer_header(&a, "X-LODE-UNREAD"));
	http_answer_done(&a);
	script_wake(scripted_script);
}

static void nonsense_is_no_time_to_wait(void **state)
{
	struct http_answer a = http_fetch(scripted.url, "GET", scripted_path(WAITS),
					  "X-LODE-WAIT: -5; waited=x\r\n");

	assert_int_equal(a.status, 503);
	assert_header(&a, "X-LODE-UNREAD", "waiting");
	http_answer_done(&a);
	script_wake(scripted_script);
}

static void an_artifact_whose_client_is_not_back_is_given_up(void **state)
{
	struct http_answer a = http_fetch(scripted.url, "GET", scripted_path(WAITS), ELFUTILS);

	assert_int_equal(a.status, 307);
	http_answer_done(&a);
	/* Nobody waits; the server stops without the wake. */
	fixture_stop(&scripted);
	assert_int_equal(script_wake(scripted_script), 1);
}

static void a_wake_may_come_after_the_server_is_gone(void **state)
{
	struct http_client c;

	http_client_open(&c, scripted.url);
	http_client_ask(&c, "GET", scripted_path(WAITS), NULL);
	script_wait_waiting(scripted_script, 1);
	fixture_stop(&scripted);
	assert_int_equal(script_wake(scripted_script), 1);
	http_client_close(&c);
}

static void too_many_waiting_are_refused(void **state)
{
	struct http_answer a = http_fetch(scripted.url, "GET", scripted_path(BUSY), NULL);

	assert_int_equal(a.status, 503);
	assert_header(&a, "Retry-After", "5");
	http_answer_done(&a);
}

static void small_queue(struct server_options *o)
{
	o->max_queued = 1;
}

static int setup_queue(void **state)
{
	return scripted_setup_with(small_queue);
}

static void a_full_queue_refuses(void **state)
{
	struct http_client c;
	struct http_answer a;

	http_client_open(&c, scripted.url);
	http_client_ask(&c, "GET", scripted_path(WAITS), NULL);
	script_wait_waiting(scripted_script, 1);
	a = http_fetch(scripted.url, "GET", scripted_path(SMALL), NULL);
	assert_int_equal(a.status, 503);
	http_answer_done(&a);
	assert_status(&scripted, "/healthz", 200);
	/* Requests of other classes are answered meanwhile. */
	assert_status(&scripted, "/api/status", 200);
	assert_status(&scripted, "/metadata?key=glob&value=/none", 200);
	script_wake(scripted_script);
	scripted_check_whole(&c, WAITS);
	http_client_close(&c);
	scripted_check_fetched(SMALL);
}

/* ---- giving up ---- */

/* Is a flight given up if its only client hangs up @after_ms before decoding continues? */
static bool given_up(unsigned after_ms)
{
	uint64_t before = script_bytes_read(scripted_script);
	struct http_answer a = { 0 };
	struct http_client c;

	script_close_gate(scripted_script);
	http_client_open(&c, scripted.url);
	http_client_ask(&c, "GET", scripted_path(GATED), NULL);
	assert_true(http_client_head(&c, &a));
	script_wait_at_gate(scripted_script, 1);
	http_client_close(&c);
	http_answer_done(&a);
	/* The server notices it while the request is suspended; there is no outside sign of that. */
	usleep(after_ms * 1000);
	script_open_gate(scripted_script);
	scripted_wait_until(scripted_nothing_open);
	return script_bytes_read(scripted_script) - before < BIG;
}

static void an_artifact_without_requests_is_given_up(void **state)
{
	/* Longer on a slow machine. Without a cache: a decoded artifact would be in it the next time. */
	assert_true(given_up(300) || given_up(3000) || given_up(10000));
	scripted_check_fetched(GATED);
}

static void a_client_that_hangs_up_while_waiting_is_dropped(void **state)
{
	struct http_client c;

	http_client_open(&c, scripted.url);
	http_client_ask(&c, "GET", scripted_path(WAITS), NULL);
	script_wait_waiting(scripted_script, 1);
	/* The request, and the one for the metrics. */
	fixture_wait_for_metric(&scripted, "lode_http_waiting", 2, INT_MAX);
	http_client_close(&c);
	fixture_wait_for_metric(&scripted, "lode_http_waiting", 0, 1);
	script_wake(scripted_script);
	/* A new flight, not the one that was left. */
	scripted_check_fetched(WAITS);
	assert_int_equal(script_n_resolved(scripted_script), 2);
}

static void stop_ends_waiting_and_streaming_requests(void **state)
{
	struct http_client waiting, streaming;
	struct http_answer a = { 0 };

	http_client_open(&waiting, scripted.url);
	http_client_ask(&waiting, "GET", scripted_path(WAITS), NULL);
	script_wait_waiting(scripted_script, 1);
	http_client_open(&streaming, scripted.url);
	http_client_ask(&streaming, "GET", scripted_path(HUGE_ONE), NULL);
	assert_true(http_client_head(&streaming, &a));
	server_stop(scripted.server, 50);
	scripted.server = NULL;
	assert_false(http_client_body(&streaming, &a, SIZE_MAX));
	http_answer_done(&a);
	a = http_client_answer(&waiting, false);
	assert_true(a.status == 503 || a.status == 0);
	http_answer_done(&a);
	http_client_close(&waiting);
	http_client_close(&streaming);
}

static void *stop_with_grace(void *arg)
{
	server_stop(scripted.server, 10000);
	return NULL;
}

static void stop_lets_replies_end(void **state)
{
	struct http_answer a = { 0 };
	struct http_client c;
	pthread_t t;

	http_client_open(&c, scripted.url);
	http_client_ask(&c, "GET", scripted_path(GATED), NULL);
	assert_true(http_client_head(&c, &a));
	script_wait_at_gate(scripted_script, 1);
	pthread_create(&t, NULL, stop_with_grace, NULL);
	script_open_gate(scripted_script);
	assert_true(http_client_body(&c, &a, SIZE_MAX));
	assert_true(a.whole);
	pthread_join(t, NULL);
	scripted.server = NULL;
	scripted_check_bytes(&a, GATED, 0);
	http_answer_done(&a);
	http_client_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scripted_test(a_failure_in_the_middle_cuts_the_reply, scripted_setup),
		scripted_test(a_failure_in_the_middle_cuts_the_reply, scripted_setup_no_cache),
		scripted_test(a_failure_before_the_first_byte_is_an_error, scripted_setup),
		scripted_test(a_miss_says_why_in_one_line, scripted_setup),
		scripted_test(a_request_waits_for_a_deep_pass, scripted_setup),
		scripted_test(a_request_waits_for_a_deep_pass, scripted_setup_no_cache),
		scripted_test(a_wait_ends_at_the_deadline, setup_deadline),
		scripted_test(a_client_of_elfutils_is_sent_to_the_same_path_until_the_file_is_there,
			      setup_patience),
		scripted_test(a_client_that_has_waited_long_enough_is_not_sent_again, setup_patience),
		scripted_test(our_client_is_told_to_ask_again_until_the_file_is_there, scripted_setup),
		scripted_test(our_client_that_has_waited_long_enough_is_told_so, scripted_setup),
		scripted_test(nonsense_is_no_time_to_wait, scripted_setup),
		scripted_test(an_artifact_whose_client_is_not_back_is_given_up, setup_patience),
		scripted_test(a_wake_may_come_after_the_server_is_gone, scripted_setup),
		scripted_test(too_many_waiting_are_refused, scripted_setup),
		scripted_test(a_full_queue_refuses, setup_queue),
		scripted_test(an_artifact_without_requests_is_given_up, scripted_setup_no_cache),
		scripted_test(a_client_that_hangs_up_while_waiting_is_dropped, scripted_setup),
		scripted_test(stop_ends_waiting_and_streaming_requests, scripted_setup),
		scripted_test(stop_lets_replies_end, scripted_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
