/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other servers, and their failures.
 */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include "elf_writer.h"
#include "fault_http.h"
#include "resolve/resolve.h"

#define ID         "00112233445566778899aabbccddeeff00112233"
#define OTHER      "ff112233445566778899aabbccddeeff00112233"
#define DEADLINE_S 60
#define LONG_MS    60000

/* Of the fixtures that are made from now on. */
static unsigned max_misses;

struct fixture {
	char dir[TEST_PATH_SIZE];
	struct fault_http *a, *b;
	struct store *store;
	struct net *net;
	struct resolver *upstream, *chain;
};

static struct fixture fixture_of(struct fault_rule a, struct fault_rule b, const struct net_patience *p)
{
	struct fixture h = { .a = fault_http_new(&a, 1), .b = fault_http_new(&b, 1) };
	const char *urls[] = { fault_http_url(h.a), fault_http_url(h.b) };
	struct resolve_upstream_options opts = {
		.urls = urls, .n_urls = 2, .error_ms = LONG_MS, .max_misses = max_misses
	};
	struct resolver *links[2];
	struct err err = { 0 };

	test_dir_make(h.dir);
	h.store = store_open_memory(&(struct store_options){ 0 });
	assert_done(net_new(NULL, &h.net, &err));
	assert_done(net_start_thread(h.net, &err));
	links[0] = resolve_store_new(h.store);
	opts.net = h.net;
	opts.store = h.store;
	opts.spool_dir = h.dir;
	opts.before = links[0];
	if (p)
		opts.patience = *p;
	if (!opts.patience.hedge_ms)
		opts.patience.hedge_ms = LONG_MS;
	assert_done(resolve_upstream_open(&opts, &links[1], &err));
	h.upstream = links[1];
	h.chain = resolve_chain_new(links, 2);
	return h;
}

static void fixture_done(struct fixture *h)
{
	net_free(h->net);
	resolve_close(h->chain);
	store_close(h->store);
	fault_http_free(h->a);
	fault_http_free(h->b);
	test_dir_remove(h->dir);
}

/* ---- requests, as from a worker ---- */

struct bell {
	pthread_mutex_t lock;
	pthread_cond_t rung;
	unsigned n;
};
#define BELL                                                           \
	{                                                              \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 \
	}

static void ring(void *arg)
{
	struct bell *b = arg;

	pthread_mutex_lock(&b->lock);
	b->n++;
	pthread_cond_signal(&b->rung);
	pthread_mutex_unlock(&b->lock);
}

static void hear(struct bell *b)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += DEADLINE_S;
	pthread_mutex_lock(&b->lock);
	while (!b->n)
		if (pthread_cond_timedwait(&b->rung, &b->lock, &until) == ETIMEDOUT)
			fail_msg("the waiter is not woken");
	b->n = 0;
	pthread_mutex_unlock(&b->lock);
}

struct got {
	int r;
	struct resolve_answer answer;
	struct buf bytes;
	struct arena a;
	struct resolve_why why;
	struct err err;
};

static struct resolve_request request(enum resolve_kind kind, const char *id, const char *arg)
{
	struct resolve_request req = { .kind = kind, .arg = str_of(arg) };

	assert_true(build_id_parse(&req.id, str_of(id)));
	return req;
}

static void ask(struct fixture *h, const struct resolve_request *req, struct got *g)
{
	struct bell b = BELL;

	*g = (struct got){ 0 };
	arena_init(&g->a);
	do {
		resolve_why_init(&g->why, &g->a);
		g->r = resolve(h->chain, req, (struct resolve_wake){ ring, &b }, &g->answer, &g->why,
			       &g->err);
		if (g->r == RESOLVE_WAIT)
			hear(&b);
	} while (g->r == RESOLVE_WAIT);
}

/* Up to @max bytes. */
static int read_on(struct got *g, uint64_t max)
{
	struct source *s = g->answer.source;
	struct bell b = BELL;

	while (g->bytes.size < MIN(s->size, max)) {
		uint64_t have = s->size;
		size_t got;
		int r = 0;

		if (g->answer.arrived)
			r = g->answer.arrived(s, g->bytes.size, ring, &b, &have, &g->err);
		if (r == RESOLVE_WAIT) {
			hear(&b);
			continue;
		}
		if (r < 0)
			return r;
		assert_true(have > g->bytes.size);
		buf_reserve(&g->bytes, 65536);
		if (source_read(s, g->bytes.size, g->bytes.p + g->bytes.size,
				(size_t)MIN(have - g->bytes.size, UINT64_C(65536)), SOURCE_SEQUENTIAL, &got,
				&g->err) < 0)
			return -1;
		g->bytes.size += got;
	}
	return 0;
}

static void got_done(struct got *g)
{
	source_close(g->answer.source);
	buf_done(&g->bytes);
	arena_done(&g->a);
}

/* It is found, with exactly these bytes. */
static void ask_for(struct fixture *h, const struct resolve_request *req, struct bytes want,
		    enum resolve_origin origin)
{
	struct got g;

	ask(h, req, &g);
	if (g.r)
		fail_msg("%d: %s", g.r, g.err.text);
	/* A request that is woken when the file is complete may find it in the store already. */
	if (origin != RESOLVE_UPSTREAM || g.answer.origin != RESOLVE_STORED)
		assert_int_equal(g.answer.origin, origin);
	assert_int_equal(g.answer.source->size, want.size);
	if (read_on(&g, UINT64_MAX) < 0)
		fail_msg("%s", g.err.text);
	assert_true(bytes_eq(buf_bytes(&g.bytes), want));
	got_done(&g);
}

static void wait_stored(struct fixture *h, uint64_t n)
{
	struct resolve_upstream_stats st;
	int64_t end_ms = clock_mono_ms() + DEADLINE_S * 1000;

	do {
		resolve_upstream_stats(h->upstream, &st);
		if (clock_mono_ms() > end_ms)
			fail_msg("only %u are stored", (unsigned)st.n_stored);
		usleep(1000);
	} while (st.n_stored < n);
}

static const char *why_text(struct got *g, const char *place)
{
	for (struct resolve_step *s = g->why.first; s; s = s->next)
		if (str_eq(s->place, str_of(place)))
			return arena_strdup(&g->a, s->text);
	return "";
}

static struct fault_rule has(const struct buf *file)
{
	return (struct fault_rule){ .path = "/buildid/" ID "/debuginfo", .body = buf_bytes(file) };
}

/* ---- ---- */

static const struct fault_rule no = { .status = 404 };
static struct buf program, longer, other, module, other_module;

static int make(void **state)
{
	elf_writer_program(&program, ET_DYN, ID, 400000);
	elf_writer_program(&longer, ET_DYN, ID, 500000);
	elf_writer_program(&other, ET_DYN, OTHER, 400000);
	elf_writer_program(&module, ET_REL, ID, 400000);
	elf_writer_program(&other_module, ET_REL, OTHER, 400000);
	return 0;
}

static int unmake(void **state)
{
	buf_done(&program);
	buf_done(&longer);
	buf_done(&other);
	buf_done(&module);
	buf_done(&other_module);
	return 0;
}

static void a_file_of_another_server_is_found_and_stored(void **state)
{
	struct resolve_request req = request(RESOLVE_DEBUGINFO, ID, "");
	struct fault_rule rule = has(&program);
	struct fixture h;
	struct got first, g;

	rule.headers = "X-DEBUGINFOD-FILE: a.debug\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
	h = fixture_of(no, rule, NULL);
	ask(&h, &req, &first);
	assert_int_equal(first.r, 0);
	assert_int_equal(read_on(&first, UINT64_MAX), 0);
	assert_true(bytes_eq(buf_bytes(&first.bytes), buf_bytes(&program)));
	assert_str(first.answer.file, "a.debug");
	assert_int_equal(first.answer.mtime, 784111777);
	wait_stored(&h, 1);
	fault_http_rules(h.b, &no, 1);
	ask_for(&h, &req, buf_bytes(&program), RESOLVE_STORED);
	ask(&h, &req, &g);
	assert_int_equal(g.r, 0);
	assert_true(g.answer.tag == first.answer.tag);
	assert_str(g.answer.file, "a.debug");
	got_done(&g);
	got_done(&first);
	assert_int_equal(fault_http_requests(h.a, NULL), 1);
	assert_int_equal(fault_http_requests(h.b, NULL), 1);
	fixture_done(&h);
}

static void bytes_go_out_while_they_come_and_another_server_goes_on(void **state)
{
	struct resolve_request req = request(RESOLVE_DEBUGINFO, ID, "");
	const struct net_patience patience = { .stall_ms = 50 };
	struct fault_rule stalls = has(&program), silent = { .fault = FAULT_SILENT };
	struct fixture h;
	struct got g;

	stalls.fault = FAULT_STALL;
	stalls.at = 200000;
	h = fixture_of(stalls, silent, &patience);
	ask(&h, &req, &g);
	assert_int_equal(g.r, 0);
	/* The first server has sent this much, and sends no more. */
	assert_int_equal(read_on(&g, 200000), 0);
	net_free(h.net);
	h.net = NULL;
	assert_true(read_on(&g, UINT64_MAX) < 0);
	got_done(&g);
	fixture_done(&h);

	h = fixture_of(stalls, has(&program), &patience);
	ask_for(&h, &req, buf_bytes(&program), RESOLVE_UPSTREAM);
	assert_int_equal(fault_http_requests(h.b, NULL), 1);
	fixture_done(&h);
}

/* Bytes were given out when the second server is asked, and its file is another one. */
static void a_server_that_went_on_continues_after_another_file_was_refused(void **state)
{
	struct resolve_request req = request(RESOLVE_DEBUGINFO, ID, "");
	/* Shorter than the time between two bytes of the first server. */
	const struct net_patience patience = { .stall_ms = 5 };
	struct fault_rule slow = has(&program), next = has(&longer);
	struct fixture h;

	slow.fault = FAULT_DRIP;
	slow.at = program.size - 50;
	next.no_range = true;
	h = fixture_of(slow, next, &patience);
	ask_for(&h, &req, buf_bytes(&program), RESOLVE_UPSTREAM);
	assert_true(fault_http_requests(h.b, NULL) > 0);
	fixture_done(&h);
}

static void a_file_of_another_build_id_is_not_believed(void **state)
{
	const struct buf *wrong[] = { &other, &other_module };
	const struct buf *right[] = { &program, &module };
	struct resolve_request req = request(RESOLVE_DEBUGINFO, ID, "");

	for (unsigned i = 0; i < 2; i++) {
		struct fixture h = fixture_of(has(wrong[i]), has(right[i]), NULL);
		struct got g;

		ask_for(&h, &req, buf_bytes(right[i]), RESOLVE_UPSTREAM);
		fixture_done(&h);
		h = fixture_of(has(wrong[i]), no, NULL);
		for (unsigned again = 0; again < 2; again++) {
			ask(&h, &req, &g);
			assert_true(g.r < 0);
			assert_int_equal(g.err.kind, ERR_UPSTREAM);
			assert_non_null(strstr(g.err.text, "another build ID: " OTHER));
			got_done(&g);
		}
		/* It lies; asking again at once would not help. */
		assert_int_equal(fault_http_requests(h.a, NULL), 1);
		fixture_done(&h);
	}
}

static void pages_and_cut_files_are_not_believed(void **state)
{
	static const char page[] = "<html>Log in, please</html>";
	const struct fault_rule bad[] = {
		{ .body = bytes_of(page, sizeof(page) - 1),
		  .headers = "Content-Type: text/html; charset=utf-8\r\n" },
		{ .body = bytes_of(page, sizeof(page) - 1) },
		/* of the announced size: its section table is missing */
		{ .body = bytes_of(program.p, 100000) },
		{ .body = bytes_of("", 0) },
		{ .status = 503 },
	};
	const struct net_patience once = { .retries = UINT32_MAX };
	struct resolve_request req = request(RESOLVE_EXECUTABLE, ID, "");

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct fixture h = fixture_of(bad[i], no, &once);
		struct got g;

		ask(&h, &req, &g);
		if (g.r >= 0) {
			/* Its first bytes were right, so they may have been given out; but it is not
			 * complete. */
			assert_int_equal(i, 2);
			assert_true(read_on(&g, UINT64_MAX) < 0);
		}
		got_done(&g);
		fixture_done(&h);
	}
}

static void a_miss_of_all_is_remembered_with_its_reasons(void **state)
{
	struct resolve_request req = request(RESOLVE_SECTION, ID, ".debug_line");
	struct fixture h = fixture_of(no, (struct fault_rule){ .status = 410 }, NULL);

	for (unsigned i = 0; i < 3; i++) {
		struct got g;

		ask(&h, &req, &g);
		assert_int_equal(g.r, RESOLVE_MISSING);
		assert_string_equal(why_text(&g, fault_http_url(h.a)), "404");
		assert_string_equal(why_text(&g, fault_http_url(h.b)), "410");
		got_done(&g);
	}
	assert_int_equal(fault_http_requests(h.a, "/buildid/" ID "/section/.debug_line"), 1);
	fixture_done(&h);
}

/* A miss is remembered for ten minutes, a failure for error_ms; then the servers may have it, or answer again. */
static void what_was_asked_in_vain_is_asked_again_later(void **state)
{
	const struct {
		struct fault_rule rule;
		int outcome;
		int64_t ms;
	} cases[] = { { no, RESOLVE_MISSING, 600000 }, { { .status = 500 }, -1, LONG_MS } };
	const struct net_patience once = { .retries = UINT32_MAX };
	struct resolve_request req = request(RESOLVE_SECTION, ID, ".debug_line");

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture h = fixture_of(cases[i].rule, no, &once);

		clock_test_freeze(1000);
		for (unsigned n = 1; n <= 3; n++) {
			/* The second answer is from the miss cache. */
			for (unsigned again = 0; again < 2; again++) {
				struct got g;

				ask(&h, &req, &g);
				assert_int_equal(g.r, cases[i].outcome);
				got_done(&g);
				assert_int_equal(
					fault_http_requests(h.b, "/buildid/" ID "/section/.debug_line"), n);
				clock_test_advance(cases[i].ms / 2);
			}
		}
		clock_test_thaw();
		fixture_done(&h);
	}
}

static void the_reason_for_a_miss_or_a_failure_is_a_value(void **state)
{
	static const char text[] = "plain text";
	const struct fault_rule text_file = { .body = bytes_of(text, sizeof(text) - 1) };
	const struct fault_rule bad = { .status = 500 }, silent = { .fault = FAULT_SILENT };
	const struct net_patience once = { .retries = UINT32_MAX, .silent_ms = 200 };
	const struct {
		const struct fault_rule *first;
		int outcome;
		enum resolve_reason reason;
	} cases[] = {
		{ &no, RESOLVE_MISSING, RESOLVE_UPSTREAM_404 },
		{ &(struct fault_rule){ .status = 410 }, RESOLVE_MISSING, RESOLVE_UPSTREAM_404 },
		{ &bad, -1, RESOLVE_UPSTREAM_FAILED },
		{ &silent, -1, RESOLVE_UPSTREAM_TIMED_OUT },
		{ &text_file, -1, RESOLVE_UPSTREAM_NOT_ELF },
		{ &(struct fault_rule){ .body = buf_bytes(&other) }, -1, RESOLVE_UPSTREAM_UNUSABLE },
	};
	struct resolve_request req = request(RESOLVE_DEBUGINFO, ID, "");

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture h = fixture_of(*cases[i].first, no, &once);

		/* The second answer is from the miss cache. */
		for (unsigned again = 0; again < 2; again++) {
			struct got g;

			ask(&h, &req, &g);
			assert_int_equal(g.r, cases[i].outcome);
			assert_int_equal(g.why.reason, cases[i].reason);
			if (g.r < 0)
				assert_int_equal(resolve_reason_of(&g.err), cases[i].reason);
			got_done(&g);
		}
		fixture_done(&h);
	}
}

static void a_file_found_damaged_late_has_its_reason_as_a_value(void **state)
{
	/* Its section table is missing; its first bytes have been given out: the last 50 take a second. */
	const struct fault_rule cut = { .body = bytes_of(program.p, 100000),
					.fault = FAULT_DRIP,
					.at = 99950 };
	struct resolve_request req = request(RESOLVE_DEBUGINFO, ID, "");
	struct fixture h = fixture_of(cut, no, NULL);
	struct got g;

	ask(&h, &req, &g);
	assert_int_equal(g.r, 0);
	assert_true(read_on(&g, UINT64_MAX) < 0);
	assert_int_equal(resolve_reason_of(&g.err), RESOLVE_UPSTREAM_UNUSABLE);
	got_done(&g);
	fixture_done(&h);
}

static void paths_are_escaped_on_the_way(void **state)
{
	struct resolve_request req = request(RESOLVE_SOURCE, ID, "/usr/src/a b/c+d.c");
	const struct fault_rule rule = { .path = "/buildid/" ID "/source/usr/src/a%20b/c%2Bd.c ",
					 .body = bytes_of("int x;", 6) };
	struct fixture h = fixture_of(rule, no, NULL);

	ask_for(&h, &req, bytes_of("int x;", 6), RESOLVE_UPSTREAM);
	wait_stored(&h, 1);
	ask_for(&h, &req, bytes_of("int x;", 6), RESOLVE_STORED);
	fixture_done(&h);
}

static void sections_of_a_file_that_is_here_are_not_asked_for(void **state)
{
	struct resolve_request file = request(RESOLVE_DEBUGINFO, ID, ""),
			       section = request(RESOLVE_SECTION, ID, ".nope");
	struct fixture h = fixture_of(has(&program), no, NULL);
	struct got g;

	ask_for(&h, &file, buf_bytes(&program), RESOLVE_UPSTREAM);
	wait_stored(&h, 1);
	ask(&h, &section, &g);
	assert_int_equal(g.r, RESOLVE_MISSING);
	got_done(&g);
	assert_int_equal(fault_http_requests(h.a, NULL), 1);
	fixture_done(&h);
}

static void a_request_with_not_further_asks_no_server(void **state)
{
	struct resolve_request req = request(RESOLVE_DEBUGINFO, ID, "");
	struct fixture h = fixture_of(has(&program), no, NULL);
	struct got g;

	req.not_further = "it came from here";
	ask(&h, &req, &g);
	assert_int_equal(g.r, RESOLVE_MISSING);
	assert_string_equal(why_text(&g, "other servers"), "it came from here");
	assert_int_equal(g.why.reason, RESOLVE_NOT_HERE);
	got_done(&g);
	assert_int_equal(fault_http_requests(h.a, NULL), 0);
	fixture_done(&h);
}

static void headers_are_passed_on(void **state)
{
	struct resolve_request req = request(RESOLVE_DEBUGINFO, ID, "");
	struct fixture h = fixture_of(has(&program), no, NULL);

	req.forwarded_for = STR("10.1.1.1, 10.2.2.2");
	req.via = STR("1.1 lode-7");
	req.user_agent = STR("gdb/13");
	ask_for(&h, &req, buf_bytes(&program), RESOLVE_UPSTREAM);
	assert_non_null(strstr(fault_http_head(h.a, 0), "X-Forwarded-For: 10.1.1.1, 10.2.2.2\r\n"));
	assert_non_null(strstr(fault_http_head(h.a, 0), "Via: 1.1 lode-7\r\n"));
	assert_non_null(strstr(fault_http_head(h.a, 0), "User-Agent: gdb/13\r\n"));
	fixture_done(&h);
}

static int ask_made_up(struct fixture *h, uint32_t client, unsigned n, struct got *g)
{
	struct resolve_request req = request(RESOLVE_DEBUGINFO, ID, "");

	req.client = client;
	for (unsigned i = 0; i < 4; i++)
		req.id.b[i] = (uint8_t)(n >> 8 * i);
	req.id.b[4] = (uint8_t)client;
	ask(h, &req, g);
	return g->r;
}

/* How many of @n made-up build IDs are asked for. */
static unsigned flood(struct fixture *h, uint32_t client, unsigned first, unsigned n)
{
	unsigned before = fault_http_requests(h->a, NULL), n_refused = 0;

	for (unsigned i = 0; i < n; i++) {
		struct got g;

		if (ask_made_up(h, client, first + i, &g) < 0) {
			assert_int_equal(g.err.kind, ERR_UPSTREAM);
			assert_int_equal(g.err.os, EBUSY);
			assert_non_null(strstr(g.err.text, "--upstream-misses"));
			n_refused++;
		} else {
			assert_int_equal(g.r, RESOLVE_MISSING);
		}
		got_done(&g);
	}
	assert_int_equal(fault_http_requests(h->a, NULL) - before, n - n_refused);
	return n - n_refused;
}

static void made_up_build_ids_use_up_a_budget(void **state)
{
	struct resolve_upstream_stats st;
	struct fixture h;
	struct got g;

	max_misses = 20;
	clock_test_freeze(1000);
	h = fixture_of(has(&program), no, NULL);
	/* The files that are there cost nothing. */
	fault_http_rules(h.a, &no, 1);
	assert_int_equal(flood(&h, 7, 0, 100), 20);
	/* One client's flood is not another's, nor that of the symbol tables, of which naming has its own share. */
	assert_int_equal(flood(&h, 8, 0, 10), 10);
	assert_int_equal(flood(&h, RESOLVE_FOR_ADDRESSES, 0, 100), 4);
	assert_int_equal(flood(&h, RESOLVE_FOR_NAMING, 0, 100), 4);
	/* Those that were asked for are answered from the cache, and a refusal is not kept. */
	assert_int_equal(ask_made_up(&h, 7, 0, &g), RESOLVE_MISSING);
	got_done(&g);
	clock_test_advance(30000);
	assert_int_equal(flood(&h, 7, 20, 100), 10);
	/* All together get what four get. */
	clock_test_advance(60000);
	assert_int_equal(flood(&h, 11, 0, 100) + flood(&h, 12, 0, 100) + flood(&h, 13, 0, 100) +
				 flood(&h, 14, 0, 100) + flood(&h, 15, 0, 100),
			 80);
	resolve_upstream_stats(h.upstream, &st);
	assert_int_equal(st.n_over, 80 + 96 + 96 + 90 + 420);
	/* Clients that use up the common budget leave symbol tables theirs. */
	assert_int_equal(flood(&h, RESOLVE_FOR_NAMING, 100, 100), 4);
	assert_int_equal(flood(&h, RESOLVE_FOR_ADDRESSES, 100, 100), 4);
	assert_false(resolve_upstream_question(h.upstream, 16));
	clock_test_advance(60000);
	assert_true(resolve_upstream_question(h.upstream, 16));
	clock_test_thaw();
	fixture_done(&h);
	max_misses = 0;
}

static void clients_of_one_place_do_not_share_a_budget(void **state)
{
	struct fixture h;

	max_misses = 5;
	clock_test_freeze(1000);
	h = fixture_of(no, no, NULL);
	assert_int_equal(flood(&h, 7, 0, 20), 5);
	assert_int_equal(flood(&h, 7 + 4096, 1000, 20), 5);
	clock_test_thaw();
	fixture_done(&h);
	max_misses = 0;
}

static void files_that_exist_cost_nothing(void **state)
{
	static const struct fault_rule there = { .path = "/", .status = 200 };
	struct fault_rule rule = there;
	struct fixture h;
	struct got g;

	rule.body = bytes_of("int x;", 6);
	max_misses = 2;
	clock_test_freeze(1000);
	h = fixture_of(rule, no, NULL);
	for (unsigned i = 0; i < 20; i++) {
		char path[32];
		struct resolve_request req;

		snprintf(path, sizeof(path), "/src/%u.c", i);
		req = request(RESOLVE_SOURCE, ID, path);
		req.client = 5;
		ask(&h, &req, &g);
		assert_int_equal(g.r, 0);
		assert_int_equal(read_on(&g, UINT64_MAX), 0);
		got_done(&g);
	}
	clock_test_thaw();
	fixture_done(&h);
	max_misses = 0;
}

struct asker {
	pthread_t thread;
	struct fixture *h;
	bool right;
};

static void *one_asker(void *arg)
{
	struct asker *k = arg;
	struct resolve_request req = { .kind = RESOLVE_DEBUGINFO };
	struct got g;

	build_id_parse(&req.id, STR(ID));
	ask(k->h, &req, &g);
	k->right = g.r == 0 && read_on(&g, UINT64_MAX) == 0 &&
		   bytes_eq(buf_bytes(&g.bytes), buf_bytes(&program));
	got_done(&g);
	return NULL;
}

static void many_requests_for_one_file_share_one_fetch(void **state)
{
	struct fault_rule slow = has(&program);
	struct asker askers[16];
	struct fixture h;

	slow.delay_ms = 100;
	h = fixture_of(slow, no, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(askers); i++) {
		askers[i] = (struct asker){ .h = &h };
		assert_int_equal(pthread_create(&askers[i].thread, NULL, one_asker, &askers[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(askers); i++) {
		pthread_join(askers[i].thread, NULL);
		assert_true(askers[i].right);
	}
	assert_int_equal(fault_http_requests(h.a, NULL), 1);
	fixture_done(&h);
}

static void a_fetch_without_followers_is_cancelled(void **state)
{
	static struct buf large;
	struct resolve_request req = request(RESOLVE_DEBUGINFO, ID, "");
	struct resolve_upstream_stats st = { 0 };
	struct fault_rule stalls;
	struct fixture h;
	struct got g;
	struct fault_rule whole;

	elf_writer_program(&large, ET_DYN, ID, 40 << 20);
	whole = stalls = has(&large);
	stalls.fault = FAULT_STALL;
	stalls.at = 200000;
	h = fixture_of(stalls, no, NULL);
	ask(&h, &req, &g);
	assert_int_equal(g.r, 0);
	assert_int_equal(read_on(&g, 100000), 0);
	fault_http_rules(h.a, &whole, 1);
	got_done(&g);
	/* A new request gets it from the beginning. */
	ask_for(&h, &req, buf_bytes(&large), RESOLVE_UPSTREAM);
	resolve_upstream_stats(h.upstream, &st);
	assert_int_equal(st.n_asked, 2);
	fixture_done(&h);
	buf_done(&large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_another_server_is_found_and_stored),
		cmocka_unit_test(bytes_go_out_while_they_come_and_another_server_goes_on),
		cmocka_unit_test(a_server_that_went_on_continues_after_another_file_was_refused),
		cmocka_unit_test(a_file_of_another_build_id_is_not_believed),
		cmocka_unit_test(pages_and_cut_files_are_not_believed),
		cmocka_unit_test(a_miss_of_all_is_remembered_with_its_reasons),
		cmocka_unit_test(what_was_asked_in_vain_is_asked_again_later),
		cmocka_unit_test(the_reason_for_a_miss_or_a_failure_is_a_value),
		cmocka_unit_test(a_file_found_damaged_late_has_its_reason_as_a_value),
		cmocka_unit_test(paths_are_escaped_on_the_way),
		cmocka_unit_test(sections_of_a_file_that_is_here_are_not_asked_for),
		cmocka_unit_test(a_request_with_not_further_asks_no_server),
		cmocka_unit_test(made_up_build_ids_use_up_a_budget),
		cmocka_unit_test(clients_of_one_place_do_not_share_a_budget),
		cmocka_unit_test(files_that_exist_cost_nothing),
		cmocka_unit_test(headers_are_passed_on),
		cmocka_unit_test(many_requests_for_one_file_share_one_fetch),
		cmocka_unit_test(a_fetch_without_followers_is_cancelled),
	};

	return cmocka_run_group_tests_name("resolve-upstream", tests, make, unmake);
}
