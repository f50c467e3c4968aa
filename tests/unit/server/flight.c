/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Artifacts on their way: shared, streamed, slow, broken, waited for, given up.
 */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include "script.h"

#define BIG MIB(2)

enum {
	GATED,
	FAILS,
	SHORT,
	WAITS,
	BUSY,
	HUGE_ONE,
	SEQUENTIAL,
	SMALL,
	SMALL_FAILS,
	PLAIN,
	PLAIN_BIG,
	BAD,
	TINY_GATED,
	N_SCRIPTS
};
static struct script_artifact scripts[N_SCRIPTS] = {
	[GATED] = { "a0", .size = BIG, .seed = 1, .gate_at = KIB(900) },
	[FAILS] = { "a1", .size = BIG, .seed = 2, .gate_at = KIB(900), .fail_at = MIB(1) },
	[SHORT] = { "a2", .size = BIG, .seed = 3, .gate_at = KIB(900), .short_at = MIB(1) },
	[WAITS] = { "a3", .size = BIG, .seed = 4, .n_waits = 1 },
	[BUSY] = { "a4", .busy = true },
	[HUGE_ONE] = { "a5", .size = MIB(20), .seed = 5 },
	[SEQUENTIAL] = { "a6", .size = MIB(20), .seed = 6, .sequential_only = true },
	[SMALL] = { "a7", .size = 1000, .seed = 7 },
	[SMALL_FAILS] = { "a8", .size = 1000, .seed = 8, .fail_at = 500 },
	[PLAIN] = { "a9", .seed = 9 },
	[PLAIN_BIG] = { "aa", .seed = 10 },
	[BAD] = { "ab", .error = ERR_CHANGED, .error_text = "x.deb: changed while it was read" },
	[TINY_GATED] = { "ac", .size = 1000, .seed = 11, .gate_at = 1 },
};

static struct fixture f;
static struct resolver *script;
static char plain_path[TEST_PATH_SIZE + 16], plain_big_path[TEST_PATH_SIZE + 16];

static int setup_with(void (*change)(struct server_options *o))
{
	fixture_init(&f);
	snprintf(plain_path, sizeof(plain_path), "%s/plain", f.dir);
	snprintf(plain_big_path, sizeof(plain_big_path), "%s/plain_big", f.dir);
	scripts[PLAIN].plain = plain_path;
	scripts[PLAIN_BIG].plain = plain_big_path;
	script = script_new(scripts, N_SCRIPTS);
	f.opts.resolver = script;
	f.opts.cache_max_bytes = MIB(32); /* half of it is the most for one */
	if (change)
		change(&f.opts);
	fixture_start(&f);
	return 0;
}

static int setup(void **state)
{
	return setup_with(NULL);
}

static int teardown(void **state)
{
	script_open_gate(script);
	fixture_stop(&f);
	assert_int_equal(script_n_open(script), 0);
	resolve_close(script);
	fixture_done(&f);
	return 0;
}

static void no_cache(struct server_options *o)
{
	o->cache_dir = NULL;
}

static int setup_no_cache(void **state)
{
	return setup_with(no_cache);
}

static const char *path_of(unsigned which)
{
	static char path[64];

	snprintf(path, sizeof(path), "/buildid/%s/debuginfo", scripts[which].hex);
	return path;
}

static void check_bytes(const struct http_answer *a, unsigned which, uint64_t off)
{
	if (!script_same(&scripts[which], off, a->body.p, a->body.size))
		fail_msg("wrong bytes among %zu at %llu", a->body.size, (unsigned long long)off);
}

static void check_whole(struct http_client *c, unsigned which)
{
	struct http_answer a = http_client_answer(c, false);

	assert_int_equal(a.status, 200);
	assert_int_equal(a.length, scripts[which].size);
	assert_true(a.whole);
	check_bytes(&a, which, 0);
	http_answer_done(&a);
}

static void check_fetched(unsigned which)
{
	struct http_client c;

	http_client_open(&c, f.url);
	http_client_ask(&c, "GET", path_of(which), NULL);
	check_whole(&c, which);
	http_client_close(&c);
}

/* Until @ok(), or half a minute: a loaded machine is slow. */
static void wait_until(bool (*ok)(void))
{
	for (int i = 0; i < 3000 && !ok(); i++)
		usleep(10000);
	assert_true(ok());
}

static bool nothing_open(void)
{
	return script_n_open(script) == 0;
}

/* Until a metric of the server says at least so much. */
static void wait_for_metric(const char *name, int least)
{
	AUTO(mem_freep) char *line = mem_printf("\n%s ", name);
	int now = -1;

	for (int i = 0; i < 3000; i++) {
		struct http_answer a = http_fetch(f.url, "GET", "/metrics", NULL);
		const char *at = strstr(buf_cstr(&a.body), line);

		now = at ? atoi(at + strlen(line)) : -1;
		http_answer_done(&a);
		if (now >= least)
			return;
		usleep(10000);
	}
	fail_msg("%s stays at %d", name, now);
}

/* ---- sharing ---- */

static void the_same_asked_for_at_once_is_decoded_once(void **state)
{
	struct http_client c[64];

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_open(&c[i], f.url);
		http_client_ask(&c[i], "GET", path_of(GATED), NULL);
		if (i == 0)
			script_wait_at_gate(script, 1);
	}
	script_open_gate(script);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		check_whole(&c[i], GATED);
		http_client_close(&c[i]);
	}
	assert_int_equal(script_bytes_read(script), BIG);
	/* And not again, as it lies in the cache now. */
	check_fetched(GATED);
	assert_int_equal(script_bytes_read(script), BIG);
}

static void the_same_small_one_is_decoded_once(void **state)
{
	struct http_client c[16];

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_open(&c[i], f.url);
		http_client_ask(&c[i], "GET", path_of(TINY_GATED), NULL);
	}
	script_wait_at_gate(script, 1);
	/* Who asks for the metrics waits too. */
	wait_for_metric("lode_http_waiting", ARRAY_SIZE(c) + 1);
	script_open_gate(script);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		check_whole(&c[i], TINY_GATED);
		http_client_close(&c[i]);
	}
	assert_int_equal(script_bytes_read(script), 1000);
}

static void bytes_go_out_while_it_is_decoded(void **state)
{
	struct http_answer a = { 0 };
	struct http_client c, late;

	http_client_open(&c, f.url);
	http_client_ask(&c, "GET", path_of(GATED), NULL);
	assert_true(http_client_head(&c, &a));
	assert_int_equal(a.length, BIG);
	/* A piece that stands at the gate is not there yet. */
	assert_true(http_client_body(&c, &a, KIB(700)));
	assert_int_equal(a.body.size, KIB(700));
	/* Who comes later begins at the beginning. */
	http_client_open(&late, f.url);
	http_client_ask(&late, "GET", path_of(GATED), NULL);
	script_open_gate(script);
	assert_true(http_client_body(&c, &a, SIZE_MAX));
	assert_true(a.whole);
	check_bytes(&a, GATED, 0);
	check_whole(&late, GATED);
	assert_int_equal(script_bytes_read(script), BIG);
	http_answer_done(&a);
	http_client_close(&c);
	http_client_close(&late);
}

static void it_survives_a_restart(void **state)
{
	uint64_t before;

	check_fetched(SMALL);
	script_open_gate(script);
	check_fetched(GATED);
	before = script_bytes_read(script);
	fixture_stop(&f);
	fixture_start(&f);
	check_fetched(SMALL);
	check_fetched(GATED);
	assert_int_equal(script_bytes_read(script), before);
}

static void what_changed_is_not_served_from_the_cache(void **state)
{
	unsigned before;

	check_fetched(SMALL);
	before = script_n_resolved(script);
	check_fetched(SMALL);
	assert_int_equal(script_n_resolved(script), before);
	wait_for_metric("lode_cache_files", 1);
	script_bump_epoch(script);
	check_fetched(SMALL);
	assert_int_equal(script_n_resolved(script), before + 1);
	/* The same content still: it is not decoded again. */
	assert_int_equal(script_bytes_read(script), 1000);
}

/* ---- slow clients ---- */

static void a_slow_reader_holds_up_nobody(void **state)
{
	struct http_client slow[4];
	struct http_answer a[4];

	memset(a, 0, sizeof(a));
	/* More of them than there are workers, each of what takes a ring. */
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		http_client_open(&slow[i], f.url);
		http_client_ask(&slow[i], "GET", path_of(HUGE_ONE), NULL);
		assert_true(http_client_head(&slow[i], &a[i]));
		assert_true(http_client_body(&slow[i], &a[i], 1000));
	}
	check_fetched(SMALL);
	check_fetched(HUGE_ONE);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		assert_true(http_client_body(&slow[i], &a[i], MIB(3)));
		check_bytes(&a[i], HUGE_ONE, 0);
	}
	assert_true(http_client_body(&slow[0], &a[0], SIZE_MAX));
	assert_true(a[0].whole);
	check_bytes(&a[0], HUGE_ONE, 0);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		http_answer_done(&a[i]);
		http_client_close(&slow[i]);
	}
}

static void health_is_told_while_all_workers_are_busy(void **state)
{
	struct http_client c[2];
	int64_t before_ns;

	http_client_open(&c[0], f.url);
	http_client_ask(&c[0], "GET", path_of(GATED), NULL);
	http_client_open(&c[1], f.url);
	http_client_ask(&c[1], "GET", path_of(TINY_GATED), NULL);
	script_wait_at_gate(script, 2);
	before_ns = clock_mono_ns();
	for (int i = 0; i < 10; i++)
		assert_status(&f, "/healthz", 200);
	assert_true(clock_mono_ns() - before_ns < 2000000000);
	script_open_gate(script);
	check_whole(&c[0], GATED);
	check_whole(&c[1], TINY_GATED);
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
	a = http_fetch(f.url, "GET", path_of(which), header);
	assert_int_equal(a.status, 206);
	assert_int_equal(a.length, size);
	assert_true(a.whole);
	check_bytes(&a, which, off);
	http_answer_done(&a);
}

static void a_part_costs_only_itself(void **state)
{
	check_part(HUGE_ONE, MIB(12), 1000);
	assert_int_equal(script_bytes_read(script), 1000);
	check_part(HUGE_ONE, MIB(12), MIB(5));
	assert_int_equal(script_bytes_read(script), 1000 + MIB(5));
	check_part(HUGE_ONE, MIB(20) - 1, 1);
}

static void a_part_of_what_has_no_random_access_is_right_too(void **state)
{
	check_part(SEQUENTIAL, MIB(8) + 5, 1000);
	assert_int_equal(script_bytes_read(script), MIB(8) + 5 + 1000);
}

static void the_whole_asked_for_as_a_part_is_shared_and_kept(void **state)
{
	struct http_answer a;

	script_open_gate(script);
	for (int i = 0; i < 2; i++) {
		a = http_fetch(f.url, "GET", path_of(GATED), "Range: bytes=0-\r\n");
		assert_int_equal(a.status, 206);
		assert_true(a.whole);
		check_bytes(&a, GATED, 0);
		http_answer_done(&a);
	}
	assert_int_equal(script_bytes_read(script), BIG);
}

/* ---- what fails ---- */

/* The gate holds the failure back until the reply has begun: else it may come in time to be an honest 500. */
static void check_cut(unsigned which)
{
	struct http_answer a = { 0 };
	struct http_client c;

	script_close_gate(script);
	http_client_open(&c, f.url);
	http_client_ask(&c, "GET", path_of(which), NULL);
	assert_true(http_client_head(&c, &a));
	assert_int_equal(a.status, 200);
	assert_int_equal(a.length, BIG);
	script_open_gate(script);
	assert_false(http_client_body(&c, &a, SIZE_MAX));
	assert_false(a.whole);
	assert_true(a.body.size <= MIB(1));
	check_bytes(&a, which, 0);
	http_answer_done(&a);
	http_client_close(&c);
}

static void what_fails_in_the_middle_is_cut(void **state)
{
	/* Twice: the first is not kept. */
	check_cut(FAILS);
	check_cut(FAILS);
	check_cut(SHORT);
	check_cut(SHORT);
	wait_until(nothing_open);
}

static void what_fails_before_its_first_byte_is_an_error(void **state)
{
	struct http_answer a = http_fetch(f.url, "GET", path_of(SMALL_FAILS), NULL);

	assert_int_equal(a.status, 500);
	assert_non_null(strstr(buf_cstr(&a.body), "read error at 500"));
	http_answer_done(&a);
	a = http_fetch(f.url, "GET", path_of(BAD), NULL);
	assert_int_equal(a.status, 503);
	assert_non_null(strstr(buf_cstr(&a.body), "changed while it was read"));
	http_answer_done(&a);
}

static void a_miss_says_why_in_one_line(void **state)
{
	struct http_answer a = http_fetch(f.url, "GET", "/buildid/ff/debuginfo", NULL);

	assert_int_equal(a.status, 404);
	assert_string_equal(buf_cstr(&a.body),
			    "not found: package /srv/pool/secret/a.deb: no such member?nor?any other\n");
	http_answer_done(&a);
}

/* ---- headers only ---- */

static void head_and_too_large_decode_nothing(void **state)
{
	struct http_answer a = http_fetch(f.url, "HEAD", path_of(GATED), NULL);

	assert_int_equal(a.status, 200);
	assert_int_equal(a.length, BIG);
	http_answer_done(&a);
	a = http_fetch(f.url, "GET", path_of(GATED), "X-DEBUGINFOD-MAXSIZE: 1000\r\n");
	assert_int_equal(a.status, 406);
	assert_header(&a, "X-DEBUGINFOD-SIZE", "2097152");
	http_answer_done(&a);
	a = http_fetch(f.url, "GET", path_of(GATED), "If-None-Match: *\r\n");
	assert_int_equal(a.status, 304);
	http_answer_done(&a);
	assert_int_equal(script_bytes_read(script), 0);
	wait_until(nothing_open);
}

static void heads_and_gets_at_once_all_get_theirs(void **state)
{
	struct http_client c[32];

	script_open_gate(script);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
			http_client_open(&c[i], f.url);
			http_client_ask(&c[i], i % 2 ? "GET" : "HEAD", path_of(GATED),
					i % 8 == 3 ? "Range: bytes=100-\r\n" : NULL);
		}
		for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
			struct http_answer a = http_client_answer(&c[i], i % 2 == 0);

			assert_int_equal(a.status, i % 8 == 3 ? 206 : 200);
			if (i % 2) {
				assert_true(a.whole);
				check_bytes(&a, GATED, i % 8 == 3 ? 100 : 0);
			}
			http_answer_done(&a);
			http_client_close(&c[i]);
		}
		script_bump_epoch(script);
	}
}

/* ---- waiting ---- */

static void what_must_be_looked_into_first_is_waited_for(void **state)
{
	struct http_client c[3];

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_open(&c[i], f.url);
		http_client_ask(&c[i], "GET", path_of(WAITS), NULL);
	}
	script_wait_waiting(script, 1);
	assert_int_equal(script_wake(script), 1);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		check_whole(&c[i], WAITS);
		http_client_close(&c[i]);
	}
}

static void short_deadline(struct server_options *o)
{
	o->request_deadline_ms = 200;
}

static int setup_deadline(void **state)
{
	return setup_with(short_deadline);
}

static void nobody_waits_for_ever(void **state)
{
	struct http_answer a = http_fetch(f.url, "GET", path_of(WAITS), NULL);

	assert_int_equal(a.status, 503);
	assert_header(&a, "Retry-After", "5");
	assert_non_null(strstr(buf_cstr(&a.body), "takes longer"));
	http_answer_done(&a);
	/* The late wake finds nobody, and the next one who asks gets it. */
	assert_int_equal(script_wake(script), 1);
	check_fetched(WAITS);
}

static void a_wake_may_come_after_the_server_is_gone(void **state)
{
	struct http_client c;

	http_client_open(&c, f.url);
	http_client_ask(&c, "GET", path_of(WAITS), NULL);
	script_wait_waiting(script, 1);
	fixture_stop(&f);
	assert_int_equal(script_wake(script), 1);
	http_client_close(&c);
}

static void too_many_waiting_are_refused(void **state)
{
	struct http_answer a = http_fetch(f.url, "GET", path_of(BUSY), NULL);

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
	return setup_with(small_queue);
}

static void a_full_queue_refuses(void **state)
{
	struct http_client c;
	struct http_answer a;

	http_client_open(&c, f.url);
	http_client_ask(&c, "GET", path_of(WAITS), NULL);
	script_wait_waiting(script, 1);
	a = http_fetch(f.url, "GET", path_of(SMALL), NULL);
	assert_int_equal(a.status, 503);
	http_answer_done(&a);
	assert_status(&f, "/healthz", 200);
	script_wake(script);
	check_whole(&c, WAITS);
	http_client_close(&c);
	check_fetched(SMALL);
}

/* ---- giving up ---- */

/* Whether a flight whose only asker hangs up @after_ms before its decoding goes on is given up. */
static bool given_up(unsigned after_ms)
{
	uint64_t before = script_bytes_read(script);
	struct http_answer a = { 0 };
	struct http_client c;

	script_close_gate(script);
	http_client_open(&c, f.url);
	http_client_ask(&c, "GET", path_of(GATED), NULL);
	assert_true(http_client_head(&c, &a));
	script_wait_at_gate(script, 1);
	http_client_close(&c);
	http_answer_done(&a);
	usleep(after_ms *
	       1000); /* it is noticed while the request is suspended; nothing shows it from outside */
	script_open_gate(script);
	wait_until(nothing_open);
	return script_bytes_read(script) - before < BIG;
}

static void what_nobody_wants_any_more_is_given_up(void **state)
{
	/* However slow the machine is. Without a cache: what was read whole would be there the next time. */
	assert_true(given_up(300) || given_up(3000) || given_up(10000));
	check_fetched(GATED);
}

static bool resolved_twice(void)
{
	return script_n_resolved(script) >= 2;
}

static void who_hangs_up_while_waiting_is_forgotten(void **state)
{
	struct http_client c;

	http_client_open(&c, f.url);
	http_client_ask(&c, "GET", path_of(WAITS), NULL);
	script_wait_waiting(script, 1);
	http_client_close(&c);
	usleep(300000);
	script_wake(script);
	/* A new flight, not the one of him who left. */
	check_fetched(WAITS);
	wait_until(resolved_twice);
}

static void stop_ends_what_waits_and_what_streams(void **state)
{
	struct http_client waiting, streaming;
	struct http_answer a = { 0 };

	http_client_open(&waiting, f.url);
	http_client_ask(&waiting, "GET", path_of(WAITS), NULL);
	script_wait_waiting(script, 1);
	http_client_open(&streaming, f.url);
	http_client_ask(&streaming, "GET", path_of(HUGE_ONE), NULL);
	assert_true(http_client_head(&streaming, &a));
	server_stop(f.server, 50);
	f.server = NULL;
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
	server_stop(f.server, 10000);
	return NULL;
}

static void stop_lets_replies_end(void **state)
{
	struct http_answer a = { 0 };
	struct http_client c;
	pthread_t t;

	http_client_open(&c, f.url);
	http_client_ask(&c, "GET", path_of(GATED), NULL);
	assert_true(http_client_head(&c, &a));
	script_wait_at_gate(script, 1);
	pthread_create(&t, NULL, stop_with_grace, NULL);
	script_open_gate(script);
	assert_true(http_client_body(&c, &a, SIZE_MAX));
	assert_true(a.whole);
	pthread_join(t, NULL);
	f.server = NULL;
	check_bytes(&a, GATED, 0);
	http_answer_done(&a);
	http_client_close(&c);
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
	struct http_answer a = http_fetch(f.url, "GET", path_of(which), NULL);

	test_fill(p, size, seed);
	assert_int_equal(a.status, 200);
	assert_body(&a, bytes_of(p, size));
	assert_header(&a, "X-DEBUGINFOD-FILE", path_basename(str_of(path)).p);
	assert_header(&a, "X-DEBUGINFOD-ARCHIVE", NULL);
	http_answer_done(&a);
}

static void plain_files_go_out_as_they_are(void **state)
{
	write_plain(plain_path, 1000, 1);
	write_plain(plain_big_path, MIB(3), 2);
	for (int i = 0; i < 3; i++) {
		check_plain(plain_path, PLAIN, 1000, 1);
		check_plain(plain_big_path, PLAIN_BIG, MIB(3), 2);
	}
}

static void a_plain_file_that_was_replaced_is_looked_at_again(void **state)
{
	write_plain(plain_big_path, MIB(1), 1);
	check_plain(plain_big_path, PLAIN_BIG, MIB(1), 1);
	write_plain(plain_big_path, MIB(2), 2);
	check_plain(plain_big_path, PLAIN_BIG, MIB(2), 2);
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

		http_client_open(&c, f.url);
		snprintf(path, sizeof(path), "/buildid/%s/debuginfo", scripts[w].hex);
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

	write_plain(plain_big_path, MIB(1), 1);
	script_open_gate(script);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		numbers[i] = i;
		pthread_create(&t[i], NULL, hammer, &numbers[i]);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	check_fetched(HUGE_ONE);
	wait_until(nothing_open);
}

#define T(test, with) cmocka_unit_test_setup_teardown(test, with, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_same_asked_for_at_once_is_decoded_once, setup),
		T(the_same_small_one_is_decoded_once, setup),
		T(bytes_go_out_while_it_is_decoded, setup),
		T(it_survives_a_restart, setup),
		T(what_changed_is_not_served_from_the_cache, setup),
		T(a_slow_reader_holds_up_nobody, setup),
		T(a_slow_reader_holds_up_nobody, setup_no_cache),
		T(health_is_told_while_all_workers_are_busy, setup),
		T(a_part_costs_only_itself, setup),
		T(a_part_of_what_has_no_random_access_is_right_too, setup),
		T(the_whole_asked_for_as_a_part_is_shared_and_kept, setup),
		T(what_fails_in_the_middle_is_cut, setup),
		T(what_fails_in_the_middle_is_cut, setup_no_cache),
		T(what_fails_before_its_first_byte_is_an_error, setup),
		T(a_miss_says_why_in_one_line, setup),
		T(head_and_too_large_decode_nothing, setup),
		T(head_and_too_large_decode_nothing, setup_no_cache),
		T(heads_and_gets_at_once_all_get_theirs, setup),
		T(heads_and_gets_at_once_all_get_theirs, setup_no_cache),
		T(what_must_be_looked_into_first_is_waited_for, setup),
		T(what_must_be_looked_into_first_is_waited_for, setup_no_cache),
		T(nobody_waits_for_ever, setup_deadline),
		T(a_wake_may_come_after_the_server_is_gone, setup),
		T(too_many_waiting_are_refused, setup),
		T(a_full_queue_refuses, setup_queue),
		T(what_nobody_wants_any_more_is_given_up, setup_no_cache),
		T(who_hangs_up_while_waiting_is_forgotten, setup),
		T(stop_ends_what_waits_and_what_streams, setup),
		T(stop_lets_replies_end, setup),
		T(plain_files_go_out_as_they_are, setup),
		T(a_plain_file_that_was_replaced_is_looked_at_again, setup),
		T(clients_come_and_go, setup),
		T(clients_come_and_go, setup_no_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
