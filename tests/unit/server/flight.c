/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Artifacts that are being decoded: shared, streamed, to slow clients, in ranges.
 */
#include "scripted.h"

#include <pthread.h>

/* ---- sharing ---- */

static void concurrent_requests_decode_an_artifact_once(void **state)
{
	struct http_client c[64];

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_open(&c[i], scripted.url);
		http_client_ask(&c[i], "GET", scripted_path(GATED), NULL);
		if (i == 0)
			script_wait_at_gate(scripted_script, 1);
	}
	script_open_gate(scripted_script);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		scripted_check_whole(&c[i], GATED);
		http_client_close(&c[i]);
	}
	assert_int_equal(script_bytes_read(scripted_script), BIG);
	/* Not decoded again: it is in the cache now. */
	scripted_check_fetched(GATED);
	assert_int_equal(script_bytes_read(scripted_script), BIG);
}

static void concurrent_requests_decode_a_small_artifact_once(void **state)
{
	struct http_client c[16];

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_open(&c[i], scripted.url);
		http_client_ask(&c[i], "GET", scripted_path(TINY_GATED), NULL);
	}
	script_wait_at_gate(scripted_script, 1);
	/* The request for the metrics waits too. */
	fixture_wait_for_metric(&scripted, "lode_http_waiting", ARRAY_SIZE(c) + 1, INT_MAX);
	script_open_gate(scripted_script);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		scripted_check_whole(&c[i], TINY_GATED);
		http_client_close(&c[i]);
	}
	assert_int_equal(script_bytes_read(scripted_script), 1000);
}

static void bytes_are_sent_during_decoding(void **state)
{
	struct http_answer a = { 0 };
	struct http_client c, late;

	http_client_open(&c, scripted.url);
	http_client_ask(&c, "GET", scripted_path(GATED), NULL);
	assert_true(http_client_head(&c, &a));
	assert_int_equal(a.length, BIG);
	/* A chunk whose read waits at the gate has not arrived. */
	assert_true(http_client_body(&c, &a, KIB(700)));
	assert_int_equal(a.body.size, KIB(700));
	/* A later client starts at the beginning. */
	http_client_open(&late, scripted.url);
	http_client_ask(&late, "GET", scripted_path(GATED), NULL);
	script_open_gate(scripted_script);
	assert_true(http_client_body(&c, &a, SIZE_MAX));
	assert_true(a.whole);
	scripted_check_bytes(&a, GATED, 0);
	scripted_check_whole(&late, GATED);
	assert_int_equal(script_bytes_read(scripted_script), BIG);
	http_answer_done(&a);
	http_client_close(&c);
	http_client_close(&late);
}

static void the_cache_survives_a_restart(void **state)
{
	uint64_t before;

	scripted_check_fetched(SMALL);
	script_open_gate(scripted_script);
	scripted_check_fetched(GATED);
	before = script_bytes_read(scripted_script);
	fixture_stop(&scripted);
	fixture_start(&scripted);
	scripted_check_fetched(SMALL);
	scripted_check_fetched(GATED);
	assert_int_equal(script_bytes_read(scripted_script), before);
}

static void a_changed_file_is_not_served_from_the_cache(void **state)
{
	unsigned before;

	scripted_check_fetched(SMALL);
	before = script_n_resolved(scripted_script);
	scripted_check_fetched(SMALL);
	assert_int_equal(script_n_resolved(scripted_script), before);
	fixture_wait_for_metric(&scripted, "lode_cache_files", 1, INT_MAX);
	script_bump_epoch(scripted_script);
	scripted_check_fetched(SMALL);
	assert_int_equal(script_n_resolved(scripted_script), before + 1);
	/* The content has not changed: it is not decoded again. */
	assert_int_equal(script_bytes_read(scripted_script), 1000);
}

/* ---- slow clients ---- */

static void a_slow_client_delays_no_other_request(void **state)
{
	struct http_client slow[4];
	struct http_answer a[4];

	memset(a, 0, sizeof(a));
	/* More slow clients than workers, each of an artifact that needs a ring. */
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		http_client_open(&slow[i], scripted.url);
		http_client_ask(&slow[i], "GET", scripted_path(HUGE_ONE), NULL);
		assert_true(http_client_head(&slow[i], &a[i]));
		assert_true(http_client_body(&slow[i], &a[i], 1000));
	}
	scripted_check_fetched(SMALL);
	scripted_check_fetched(HUGE_ONE);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		assert_true(http_client_body(&slow[i], &a[i], MIB(3)));
		scripted_check_bytes(&a[i], HUGE_ONE, 0);
	}
	assert_true(http_client_body(&slow[0], &a[0], SIZE_MAX));
	assert_true(a[0].whole);
	scripted_check_bytes(&a[0], HUGE_ONE, 0);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		http_answer_done(&a[i]);
		http_client_close(&slow[i]);
	}
}

static void health_is_answered_while_all_workers_are_busy(void **state)
{
	struct http_client c[2];

	http_client_open(&c[0], scripted.url);
	http_client_ask(&c[0], "GET", scripted_path(GATED), NULL);
	http_client_open(&c[1], scripted.url);
	http_client_ask(&c[1], "GET", scripted_path(TINY_GATED), NULL);
	script_wait_at_gate(scripted_script, 2);
	/* If a slow client used a worker, there would be no answer. */
	for (int i = 0; i < 10; i++)
		assert_status(&scripted, "/healthz", 200);
	script_open_gate(scripted_script);
	scripted_check_whole(&c[0], GATED);
	scripted_check_whole(&c[1], TINY_GATED);
	http_client_close(&c[0]);
	http_client_close(&c[1]);
}

/* ---- parts ---- */

static void check_part(unsigned which, uint64_t off, uint64_t size)
{
	struct http_answer a;
	char header[80];

	snprintf(header, sizeof(header), "Range: bytes=%llu-%llu\r\n", (unsigned long long)off,
		 (unsigned long long)(off + size - 1));
	a = http_fetch(scripted.url, "GET", scripted_path(which), header);
	assert_int_equal(a.status, 206);
	assert_int_equal(a.length, size);
	assert_true(a.whole);
	scripted_check_bytes(&a, which, off);
	http_answer_done(&a);
}

static void a_range_decodes_only_itself(void **state)
{
	check_part(HUGE_ONE, MIB(12), 1000);
	assert_int_equal(script_bytes_read(scripted_script), 1000);
	check_part(HUGE_ONE, MIB(12), MIB(5));
	assert_int_equal(script_bytes_read(scripted_script), 1000 + MIB(5));
	check_part(HUGE_ONE, MIB(20) - 1, 1);
}

static void a_range_without_random_access_is_correct(void **state)
{
	check_part(SEQUENTIAL, MIB(8) + 5, 1000);
	assert_int_equal(script_bytes_read(scripted_script), MIB(8) + 5 + 1000);
}

static void a_range_of_the_whole_is_shared_and_cached(void **state)
{
	struct http_answer a;

	script_open_gate(scripted_script);
	for (int i = 0; i < 2; i++) {
		a = http_fetch(scripted.url, "GET", scripted_path(GATED), "Range: bytes=0-\r\n");
		assert_int_equal(a.status, 206);
		assert_true(a.whole);
		scripted_check_bytes(&a, GATED, 0);
		http_answer_done(&a);
	}
	assert_int_equal(script_bytes_read(scripted_script), BIG);
}

/* ---- headers only ---- */

static void head_and_too_large_decode_nothing(void **state)
{
	struct http_answer a = http_fetch(scripted.url, "HEAD", scripted_path(GATED), NULL);

	assert_int_equal(a.status, 200);
	assert_int_equal(a.length, BIG);
	http_answer_done(&a);
	a = http_fetch(scripted.url, "GET", scripted_path(GATED), "X-DEBUGINFOD-MAXSIZE: 1000\r\n");
	assert_int_equal(a.status, 406);
	assert_header(&a, "X-DEBUGINFOD-SIZE", "2097152");
	http_answer_done(&a);
	a = http_fetch(scripted.url, "GET", scripted_path(GATED), "If-None-Match: *\r\n");
	assert_int_equal(a.status, 304);
	http_answer_done(&a);
	assert_int_equal(script_bytes_read(scripted_script), 0);
	scripted_wait_until(scripted_nothing_open);
}

static void concurrent_head_and_get_requests_are_all_answered(void **state)
{
	struct http_client c[32];

	script_open_gate(scripted_script);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
			http_client_open(&c[i], scripted.url);
			http_client_ask(&c[i], i % 2 ? "GET" : "HEAD", scripted_path(GATED),
					i % 8 == 3 ? "Range: bytes=100-\r\n" : NULL);
		}
		for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
			struct http_answer a = http_client_answer(&c[i], i % 2 == 0);

			assert_int_equal(a.status, i % 8 == 3 ? 206 : 200);
			if (i % 2) {
				assert_true(a.whole);
				scripted_check_bytes(&a, GATED, i % 8 == 3 ? 100 : 0);
			}
			http_answer_done(&a);
			http_client_close(&c[i]);
		}
		script_bump_epoch(scripted_script);
	}
}

/* ---- plain files ---- */

static void write_plain(const char *path, size_t size, uint8_t seed)
{
	AUTO(mem_freep) uint8_t *p = mem_alloc(size);

	test_fill(p, size, seed);
	test_file_write(path, p, size);
}

static void check_plain(const char *path, unsigned which, size_t size, uint8_t seed)
{
	AUTO(mem_freep) uint8_t *p = mem_alloc(size);
	struct http_answer a = http_fetch(scripted.url, "GET", scripted_path(which), NULL);

	test_fill(p, size, seed);
	assert_int_equal(a.status, 200);
	assert_body(&a, bytes_of(p, size));
	assert_header(&a, "X-DEBUGINFOD-FILE", path_basename(str_of(path)).p);
	assert_header(&a, "X-DEBUGINFOD-ARCHIVE", NULL);
	http_answer_done(&a);
}

static void plain_files_are_sent_as_they_are(void **state)
{
	write_plain(scripted_plain, 1000, 1);
	write_plain(scripted_plain_big, MIB(3), 2);
	for (int i = 0; i < 3; i++) {
		check_plain(scripted_plain, PLAIN, 1000, 1);
		check_plain(scripted_plain_big, PLAIN_BIG, MIB(3), 2);
	}
}

static void a_replaced_plain_file_is_opened_again(void **state)
{
	write_plain(scripted_plain_big, MIB(1), 1);
	check_plain(scripted_plain_big, PLAIN_BIG, MIB(1), 1);
	write_plain(scripted_plain_big, MIB(2), 2);
	check_plain(scripted_plain_big, PLAIN_BIG, MIB(2), 2);
}

/* ---- many at once ---- */

static void *hammer(void *arg)
{
	unsigned n = *(unsigned *)arg;

	for (unsigned i = 0; i < 24; i++) {
		static const unsigned which[] = { SMALL, HUGE_ONE, GATED, FAILS, SMALL, PLAIN_BIG };
		unsigned w = which[(i + n) % ARRAY_SIZE(which)];
		struct http_answer a = { 0 };
		struct http_client c;
		char path[64];

		http_client_open(&c, scripted.url);
		snprintf(path, sizeof(path), "/buildid/%s/debuginfo", scripted_scripts[w].hex);
		http_client_ask(&c, (i + n) % 7 == 0 ? "HEAD" : "GET", path,
				(i + n) % 5 == 0 ? "Range: bytes=5-70000\r\n" : NULL);
		/* Some hang up at once, some in the middle. */
		if ((i + n) % 4 != 0 && http_client_head(&c, &a) && (i + n) % 7 != 0)
			http_client_body(&c, &a, (i + n) % 3 ? SIZE_MAX : 50000);
		http_answer_done(&a);
		http_client_close(&c);
	}
	return NULL;
}

static void the_server_survives_clients_that_hang_up(void **state)
{
	pthread_t t[6];
	unsigned numbers[6];

	write_plain(scripted_plain_big, MIB(1), 1);
	script_open_gate(scripted_script);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		numbers[i] = i;
		pthread_create(&t[i], NULL, hammer, &numbers[i]);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	scripted_check_fetched(HUGE_ONE);
	scripted_wait_until(scripted_nothing_open);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scripted_test(concurrent_requests_decode_an_artifact_once, scripted_setup),
		scripted_test(concurrent_requests_decode_a_small_artifact_once, scripted_setup),
		scripted_test(bytes_are_sent_during_decoding, scripted_setup),
		scripted_test(the_cache_survives_a_restart, scripted_setup),
		scripted_test(a_changed_file_is_not_served_from_the_cache, scripted_setup),
		scripted_test(a_slow_client_delays_no_other_request, scripted_setup),
		scripted_test(a_slow_client_delays_no_other_request, scripted_setup_no_cache),
		scripted_test(health_is_answered_while_all_workers_are_busy, scripted_setup),
		scripted_test(a_range_decodes_only_itself, scripted_setup),
		scripted_test(a_range_without_random_access_is_correct, scripted_setup),
		scripted_test(a_range_of_the_whole_is_shared_and_cached, scripted_setup),
		scripted_test(head_and_too_large_decode_nothing, scripted_setup),
		scripted_test(head_and_too_large_decode_nothing, scripted_setup_no_cache),
		scripted_test(concurrent_head_and_get_requests_are_all_answered, scripted_setup),
		scripted_test(concurrent_head_and_get_requests_are_all_answered, scripted_setup_no_cache),
		scripted_test(plain_files_are_sent_as_they_are, scripted_setup),
		scripted_test(a_replaced_plain_file_is_opened_again, scripted_setup),
		scripted_test(the_server_survives_clients_that_hang_up, scripted_setup),
		scripted_test(the_server_survives_clients_that_hang_up, scripted_setup_no_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
