/* SPDX-License-Identifier: Apache-2.0 */
#include "servers.h"

#include <errno.h>
#include <pthread.h>

#define DEADLINE_S 60

struct buf program, longer, module, other, other_module;
const struct fault_rule rule_none = { .status = 404 };

int servers_make_files(void **state)
{
	elf_writer_program(&program, ET_DYN, ID, 400000);
	elf_writer_program(&longer, ET_DYN, ID, 500000);
	elf_writer_program(&other, ET_DYN, OTHER, 400000);
	elf_writer_program(&module, ET_REL, ID, 400000);
	elf_writer_program(&other_module, ET_REL, OTHER, 400000);
	return 0;
}

int servers_free_files(void **state)
{
	buf_done(&program);
	buf_done(&longer);
	buf_done(&other);
	buf_done(&module);
	buf_done(&other_module);
	return 0;
}

struct fault_rule rule_of(const struct buf *file)
{
	return (struct fault_rule){ .path = "/buildid/" ID "/debuginfo", .body = buf_bytes(file) };
}

static struct servers servers_make(struct fault_rule a, struct fault_rule b, const struct net_patience *p,
				   unsigned max_misses)
{
	struct servers h = { .a = fault_http_new(&a, 1), .b = fault_http_new(&b, 1) };
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

struct servers servers_of(struct fault_rule a, struct fault_rule b, const struct net_patience *p)
{
	return servers_make(a, b, p, 0);
}

struct servers servers_of_budget(struct fault_rule a, struct fault_rule b, unsigned max_misses)
{
	return servers_make(a, b, NULL, max_misses);
}

void servers_done(struct servers *h)
{
	net_free(h->net);
	resolve_close(h->chain);
	store_close(h->store);
	fault_http_free(h->a);
	fault_http_free(h->b);
	test_dir_remove(h->dir);
}

void servers_wait_stored(struct servers *h, uint64_t n)
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

struct resolve_request request_of(enum resolve_kind kind, const char *id, const char *arg)
{
	struct resolve_request req = { .kind = kind, .arg = str_of(arg) };

	assert_true(build_id_parse(&req.id, str_of(id)));
	return req;
}

void servers_ask(struct servers *h, const struct resolve_request *req, struct got *g)
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

int got_read(struct got *g, uint64_t max)
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

const char *got_why(struct got *g, const char *place)
{
	for (struct resolve_step *s = g->why.first; s; s = s->next)
		if (str_eq(s->place, str_of(place)))
			return arena_strdup(&g->a, s->text);
	return "";
}

void got_done(struct got *g)
{
	source_close(g->answer.source);
	buf_done(&g->bytes);
	arena_done(&g->a);
}

void servers_expect(struct servers *h, const struct resolve_request *req, struct bytes want,
		    enum resolve_origin origin)
{
	struct got g;

	servers_ask(h, req, &g);
	if (g.r)
		fail_msg("%d: %s", g.r, g.err.text);
	/* A request that is woken when the file is complete may find it in the store already. */
	if (origin != RESOLVE_UPSTREAM || g.answer.origin != RESOLVE_STORED)
		assert_int_equal(g.answer.origin, origin);
	assert_int_equal(g.answer.source->size, want.size);
	if (got_read(&g, UINT64_MAX) < 0)
		fail_msg("%s", g.err.text);
	assert_true(bytes_eq(buf_bytes(&g.bytes), want));
	got_done(&g);
}
