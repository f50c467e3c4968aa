/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Artifacts on their way: shared, streamed, to slow clients, in parts.
 */
#include "stage.h"

#include <pthread.h>

/* ---- sharing ---- */

static void the_same_asked_for_at_once_is_decoded_once(void **state)
{
	struct http_client c[64];

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_open(&c[i], stage.url);
		http_client_ask(&c[i], "GET", stage_path(GATED), NULL);
		if (i == 0)
			script_wait_at_gate(stage_script, 1);
	}
	script_open_gate(stage_script);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		stage_check_whole(&c[i], GATED);
		http_client_close(&c[i]);
	}
	assert_int_equal(script_bytes_read(stage_script), BIG);
	/* And not again, as it lies in the cache now. */
	stage_check_fetched(GATED);
	assert_int_equal(script_bytes_read(stage_script), BIG);
}

static void the_same_small_one_is_decoded_once(void **state)
{
	struct http_client c[16];

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_open(&c[i], stage.url);
		http_client_ask(&c[i], "GET", stage_path(TINY_GATED), NULL);
	}
	script_wait_at_gate(stage_script, 1);
	/* Who asks for the metrics waits too. */
	stage_wait_for_metric("lode_http_waiting", ARRAY_SIZE(c) + 1, INT_MAX);
	script_open_gate(stage_script);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		stage_check_whole(&c[i], TINY_GATED);
		http_client_close(&c[i]);
	}
	assert_int_equal(script_bytes_read(stage_script), 1000);
}

static void bytes_go_out_while_it_is_decoded(void **state)
{
	struct http_answer a = { 0 };
	struct http_client c, late;

	http_client_open(&c, stage.url);
	http_client_ask(&c, "GET", stage_path(GATED), NULL);
	assert_true(http_client_head(&c, &a));
	assert_int_equal(a.length, BIG);
	/* A piece that stands at the gate is not there yet. */
	assert_true(http_client_body(&c, &a, KIB(700)));
	assert_int_equal(a.body.size, KIB(700));
	/* Who comes later begins at the beginning. */
	http_client_open(&late, stage.url);
	http_client_ask(&late, "GET", stage_path(GATED), NULL);
	script_open_gate(stage_script);
	assert_true(http_client_body(&c, &a, SIZE_MAX));
	assert_true(a.whole);
	stage_check_bytes(&a, GATED, 0);
	stage_check_whole(&late, GATED);
	assert_int_equal(script_bytes_read(stage_script), BIG);
	http_answer_done(&a);
	http_client_close(&c);
	http_client_close(&late);
}

static void it_survives_a_restart(void **state)
{
	uint64_t before;

	stage_check_fetched(SMALL);
	script_open_gate(stage_script);
	stage_check_fetched(GATED);
	before = script_bytes_read(stage_script);
	fixture_stop(&stage);
	fixture_start(&stage);
	stage_check_fetched(SMALL);
	stage_check_fetched(GATED);
	assert_int_equal(script_bytes_read(stage_script), before);
}

static void what_changed_is_not_served_from_the_cache(void **state)
{
	unsigned before;

	stage_check_fetched(SMALL);
	before = script_n_resolved(stage_script);
	stage_check_fetched(SMALL);
	assert_int_equal(script_n_resolved(stage_script), before);
	stage_wait_for_metric("lode_cache_files", 1, INT_MAX);
	script_bump_epoch(stage_script);
	stage_check_fetched(SMALL);
	assert_int_equal(script_n_resolved(stage_script), before + 1);
	/* The same content still: it is not decoded again. */
	assert_int_equal(script_bytes_read(stage_script), 1000);
}

/* ---- slow clients ---- */

static void a_slow_reader_holds_up_nobody(void **state)
{
	struct http_client slow[4];
	struct http_answer a[4];

	memset(a, 0, sizeof(a));
	/* More of them than there are workers, each of what takes a ring. */
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		http_client_open(&slow[i], stage.url);
		http_client_ask(&slow[i], "GET", stage_path(HUGE_ONE), NULL);
		assert_true(http_client_head(&slow[i], &a[i]));
		assert_true(http_client_body(&slow[i], &a[i], 1000));
	}
	stage_check_fetched(SMALL);
	stage_check_fetched(HUGE_ONE);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		assert_true(http_client_body(&slow[i], &a[i], MIB(3)));
		stage_check_bytes(&a[i], HUGE_ONE, 0);
	}
	assert_true(http_client_body(&slow[0], &a[0], SIZE_MAX));
	assert_true(a[0].whole);
	stage_check_bytes(&a[0], HUGE_ONE, 0);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		http_answer_done(&a[i]);
		http_client_close(&slow[i]);
	}
}

static void health_is_told_while_all_workers_are_busy(void **state)
{
	struct http_client c[2];

	http_client_open(&c[0], stage.url);
	http_client_ask(&c[0], "GET", stage_path(GATED), NULL);
	http_client_open(&c[1], stage.url);
	http_client_ask(&c[1], "GET", stage_path(TINY_GATED), NULL);
	script_wait_at_gate(stage_script, 2);
	/* If it needed one there would be no answer. */
	for (int i = 0; i < 10; i++)
		assert_status(&stage, "/healthz", 200);
	script_open_gate(stage_script);
	stage_check_whole(&c[0], GATED);
	stage_check_whole(&c[1], TINY_GATED);
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
	a = http_fetch(stage.url, "GET", stage_path(which), header);
	assert_int_equal(a.status, 206);
	assert_int_equal(a.length, size);
	assert_true(a.whole);
	stage_check_bytes(&a, which, off);
	http_answer_done(&a);
}

static void a_part_costs_only_itself(void **state)
{
	check_part(HUGE_ONE, MIB(12), 1000);
	assert_int_equal(script_bytes_read(stage_script), 1000);
	check_part(HUGE_ONE, MIB(12), MIB(5));
	assert_int_equal(script_bytes_read(stage_script), 1000 + MIB(5));
	check_part(HUGE_ONE, MIB(20) - 1, 1);
}

static void a_part_of_what_has_no_random_access_is_right_too(void **state)
{
	check_part(SEQUENTIAL, MIB(8) + 5, 1000);
	assert_int_equal(script_bytes_read(stage_script), MIB(8) + 5 + 1000);
}

static void the_whole_asked_for_as_a_part_is_shared_and_kept(void **state)
{
	struct http_answer a;

	script_open_gate(stage_script);
	for (int i = 0; i < 2; i++) {
		a = http_fetch(stage.url, "GET", stage_path(GATED), "Range: bytes=0-\r\n");
		assert_int_equal(a.status, 206);
		assert_true(a.whole);
		stage_check_bytes(&a, GATED, 0);
		http_answer_done(&a);
	}
	assert_int_equal(script_bytes_read(stage_script), BIG);
}

/* ---- headers only ---- */

static void head_and_too_large_decode_nothing(void **state)
{
	struct http_answer a = http_fetch(stage.url, "HEAD", stage_path(GATED), NULL);

	assert_int_equal(a.status, 200);
	assert_int_equal(a.length, BIG);
	http_answer_done(&a);
	a = http_fetch(stage.url, "GET", stage_path(GATED), "X-DEBUGINFOD-MAXSIZE: 1000\r\n");
	assert_int_equal(a.status, 406);
	assert_header(&a, "X-DEBUGINFOD-SIZE", "2097152");
	http_answer_done(&a);
	a = http_fetch(stage.url, "GET", stage_path(GATED), "If-None-Match: *\r\n");
	assert_int_equal(a.status, 304);
	http_answer_done(&a);
	assert_int_equal(script_bytes_read(stage_script), 0);
	stage_wait_until(stage_nothing_open);
}

static void heads_and_gets_at_once_all_get_theirs(void **state)
{
	struct http_client c[32];

	script_open_gate(stage_script);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
			http_client_open(&c[i], stage.url);
			http_client_ask(&c[i], i % 2 ? "GET" : "HEAD", stage_path(GATED),
					i % 8 == 3 ? "Range: bytes=100-\r\n" : NULL);
		}
		for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
			struct http_answer a = http_client_answer(&c[i], i % 2 == 0);

			assert_int_equal(a.status, i % 8 == 3 ? 206 : 200);
			if (i % 2) {
				assert_true(a.whole);
				stage_check_bytes(&a, GATED, i % 8 == 3 ? 100 : 0);
			}
			http_answer_done(&a);
			http_client_close(&c[i]);
		}
		script_bump_epoch(stage_script);
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
	struct http_answer a = http_fetch(stage.url, "GET", stage_path(which), NULL);

	test_fill(p, size, seed);
	assert_int_equal(a.status, 200);
	assert_body(&a, bytes_of(p, size));
	assert_header(&a, "X-DEBUGINFOD-FILE", path_basename(str_of(path)).p);
	assert_header(&a, "X-DEBUGINFOD-ARCHIVE", NULL);
	http_answer_done(&a);
}

static void plain_files_go_out_as_they_are(void **state)
{
	write_plain(stage_plain, 1000, 1);
	write_plain(stage_plain_big, MIB(3), 2);
	for (int i = 0; i < 3; i++) {
		check_plain(stage_plain, PLAIN, 1000, 1);
		check_plain(stage_plain_big, PLAIN_BIG, MIB(3), 2);
	}
}

static void a_plain_file_that_was_replaced_is_looked_at_again(void **state)
{
	write_plain(stage_plain_big, MIB(1), 1);
	check_plain(stage_plain_big, PLAIN_BIG, MIB(1), 1);
	write_plain(stage_plain_big, MIB(2), 2);
	check_plain(stage_plain_big, PLAIN_BIG, MIB(2), 2);
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

		http_client_open(&c, stage.url);
		snprintf(path, sizeof(path), "/buildid/%s/debuginfo", stage_scripts[w].hex);
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

static void clients_come_and_go(void **state)
{
	pthread_t t[6];
	unsigned numbers[6];

	write_plain(stage_plain_big, MIB(1), 1);
	script_open_gate(stage_script);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		numbers[i] = i;
		pthread_create(&t[i], NULL, hammer, &numbers[i]);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	stage_check_fetched(HUGE_ONE);
	stage_wait_until(stage_nothing_open);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		stage_test(the_same_asked_for_at_once_is_decoded_once, stage_setup),
		stage_test(the_same_small_one_is_decoded_once, stage_setup),
		stage_test(bytes_go_out_while_it_is_decoded, stage_setup),
		stage_test(it_survives_a_restart, stage_setup),
		stage_test(what_changed_is_not_served_from_the_cache, stage_setup),
		stage_test(a_slow_reader_holds_up_nobody, stage_setup),
		stage_test(a_slow_reader_holds_up_nobody, stage_setup_no_cache),
		stage_test(health_is_told_while_all_workers_are_busy, stage_setup),
		stage_test(a_part_costs_only_itself, stage_setup),
		stage_test(a_part_of_what_has_no_random_access_is_right_too, stage_setup),
		stage_test(the_whole_asked_for_as_a_part_is_shared_and_kept, stage_setup),
		stage_test(head_and_too_large_decode_nothing, stage_setup),
		stage_test(head_and_too_large_decode_nothing, stage_setup_no_cache),
		stage_test(heads_and_gets_at_once_all_get_theirs, stage_setup),
		stage_test(heads_and_gets_at_once_all_get_theirs, stage_setup_no_cache),
		stage_test(plain_files_go_out_as_they_are, stage_setup),
		stage_test(a_plain_file_that_was_replaced_is_looked_at_again, stage_setup),
		stage_test(clients_come_and_go, stage_setup),
		stage_test(clients_come_and_go, stage_setup_no_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
