/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's side of a fetch: start, progress, cancel, from any thread. fetch.c runs it.
 */
#include "net/internal.h"

#include <assert.h>
#include <stdlib.h>

#define HEDGE_MS    400
#define STALL_MS    1500
#define CONNECT_MS  1500
#define SILENT_MS   90000
#define BUSY_MS     3000
#define RETRIES     2
#define UNREAD_MS   750000
#define MAX_HEADERS 48u

static unsigned value_or_usual(unsigned value, unsigned otherwise)
{
	return value ? value : otherwise;
}

static void set_patience(struct net_fetch *f, const struct net_patience *p)
{
	f->patience = (struct net_patience){
		.hedge_ms = value_or_usual(p->hedge_ms, HEDGE_MS),
		.stall_ms = value_or_usual(p->stall_ms, STALL_MS),
		.connect_ms = value_or_usual(p->connect_ms, CONNECT_MS),
		.silent_ms = value_or_usual(p->silent_ms, SILENT_MS),
		.busy_ms = value_or_usual(p->busy_ms, BUSY_MS),
		.connect_retries = p->connect_retries,
		.retries = p->retries == UINT32_MAX ? 0 : value_or_usual(p->retries, RETRIES),
		.unread_ms = p->unread_ms == UINT32_MAX ? 0 : value_or_usual(p->unread_ms, UNREAD_MS),
	};
	f->started_ms = clock_mono_ms();
	f->deadline_ms = p->deadline_ms ? f->started_ms + p->deadline_ms : 0;
}

static void copy_headers(struct net_fetch *f, const struct net_request *req)
{
	assert(req->n_headers <= MAX_HEADERS);
	f->headers = ARENA_NEW_N(&f->arena, const char *, req->n_headers + 1);
	for (size_t i = 0; i < req->n_headers; i++)
		f->headers[f->n_headers++] = arena_strdup(&f->arena, str_of(req->headers[i]));
	if (req->max_size)
		f->headers[f->n_headers++] = arena_printf(&f->arena, "X-DEBUGINFOD-MAXSIZE: %llu",
							  (unsigned long long)req->max_size);
}

/* A server of another kind that cannot have the file is not asked. */
static void candidate_place(struct net_fetch *f, struct candidate *c, const struct net_file *file)
{
	AUTO(buf_done) struct buf path = { 0 };

	c->layout = net_url_layout(breaker_url(c->server), &c->plain);
	if (c->layout == NET_DEBUGINFOD) {
		c->path = f->path;
		return;
	}
	c->unasked = file ? net_layout_path(c->layout, c->plain, file, &path) : NET_OTHER_KIND;
	if (c->unasked == NET_ASKED)
		c->path = arena_str(&f->arena, buf_str(&path)).p;
}

void net_fetch_start(struct net *n, const struct net_request *req, struct net_fetch **ret)
{
	struct net_fetch *f = NEW(struct net_fetch);

	assert(req->sink.done && req->path[0] != '/');
	f->net = n;
	atomic_init(&f->refs, ret ? 2u : 1u);
	arena_init(&f->arena);
	f->sink = req->sink;
	f->path = arena_strdup(&f->arena, str_of(req->path));
	f->max_size = req->max_size ? req->max_size : NET_SANE_SIZE;
	f->max_unknown = req->max_unknown ? req->max_unknown : NET_SANE_UNKNOWN;
	f->compressed = req->compressed;
	copy_headers(f, req);
	set_patience(f, &req->patience);
	f->n_candidates = MIN(req->n_urls, (size_t)NET_SERVERS_MAX);
	f->candidates = ARENA_NEW_N(&f->arena, struct candidate, f->n_candidates + 1);
	for (size_t i = 0; i < f->n_candidates; i++) {
		f->candidates[i].server = breaker_server(&n->breakers, req->urls[i]);
		candidate_place(f, &f->candidates[i], req->file);
	}
	notes_init(&f->notes, f->n_candidates + 1);
	if (ret)
		*ret = f;
	pthread_mutex_lock(&n->lock);
	*n->new_fetches_end = f;
	n->new_fetches_end = &f->next;
	pthread_mutex_unlock(&n->lock);
	wire_wake(n->wire);
}

void net_fetch_cancel(struct net_fetch *f)
{
	atomic_store(&f->cancel, true);
	if (!atomic_load(&f->ended))
		wire_wake(f->net->wire);
}

struct net_fetch *net_fetch_ref(struct net_fetch *f)
{
	atomic_fetch_add(&f->refs, 1);
	return f;
}

void net_fetch_unref(struct net_fetch *f)
{
	if (!f || atomic_fetch_sub(&f->refs, 1) != 1)
		return;
	notes_done(&f->notes);
	arena_done(&f->arena);
	free(f);
}

void net_fetch_progress(struct net_fetch *f, struct net_progress *ret)
{
	*ret = (struct net_progress){
		.have = atomic_load(&f->shown_have),
		.size_known = atomic_load(&f->shown_size_known),
		.size = atomic_load(&f->shown_size),
		.server = atomic_load(&f->shown_server),
		.reading = atomic_load(&f->shown_reading),
		.done = atomic_load(&f->ended),
	};
}

size_t net_fetch_notes(struct net_fetch *f, const struct net_note **ret)
{
	*ret = f->notes.items;
	return f->notes.n;
}

const struct net_reply *net_fetch_reply(struct net_fetch *f)
{
	return f->has_reply ? &f->reply : NULL;
}
