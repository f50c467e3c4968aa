/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: the tables and layouts of some build IDs for one caller, and the wait for them.
 */
#include <stdlib.h>
#include "tables/internal.h"

#define MAX_IDS (1u << 20)

/* ---- waiting in the caller's thread ---- */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool open; /* under the lock */
};

static void gate_open(void *arg)
{
	struct gate *g = arg;

	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_signal(&g->opened);
	pthread_mutex_unlock(&g->lock);
}

static void gate_wait(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	while (!g->open)
		pthread_cond_wait(&g->opened, &g->lock);
	pthread_mutex_unlock(&g->lock);
	pthread_mutex_destroy(&g->lock);
	pthread_cond_destroy(&g->opened);
}

/* ---- beginning ---- */

/* Take the entries that are in the LRU. true: none is missing. */
static bool request_take_known(struct tables_request *req, bool fresh)
{
	for (size_t i = 0; i < req->n * req->per_id; i++) {
		struct entry_key key = request_key(req, i);
		struct waiter *w = &req->waiters[i];
		bool refresh = false;

		w->request = req;
		if (!key.id.size)
			continue;
		w->entry = cache_peek(req->tables, &key, &refresh);
		if ((refresh && fresh) || (w->entry && w->entry->searching && req->unscanned)) {
			entry_unref(TAKE(w->entry));
		} else if (refresh) {
			pthread_mutex_lock(&req->tables->lock);
			build_await(req->tables, &key, NULL);
			pthread_mutex_unlock(&req->tables->lock);
		}
		req->n_missing += !w->entry;
	}
	return !req->n_missing;
}

/* As request_take_known(), and from the store. */
static void request_take_at_hand(struct tables_request *req)
{
	req->none_because = FRAME_PENDING;
	for (size_t i = 0; i < req->n * req->per_id; i++) {
		struct entry_key key = request_key(req, i);

		req->waiters[i].request = req;
		if (key.id.size)
			req->waiters[i].entry = build_take_at_hand(req->tables, &key);
	}
}

static void request_wait(struct tables_request *req)
{
	struct tables *t = req->tables;
	bool waits = clock_mono_ms() < req->deadline_ms && !t->stopping;

	req->none_because = FRAME_PENDING;
	/* Without waiting tables are built all the same: the next request finds them. */
	builds_ask(req, waits);
	if (!waits)
		req->n_missing = 0;
	if (req->n_missing)
		request_list(req);
}

static struct tables_request *request_alloc(struct tables *t, const struct build_id *ids, size_t n,
					    unsigned flags)
{
	struct tables_request *req = NEW(struct tables_request);

	req->tables = t;
	req->n = n;
	req->per_id = flags & TABLES_LAYOUTS ? 2 : 1;
	req->unscanned = flags & TABLES_UNSCANNED;
	req->early = flags & TABLES_EARLY;
	req->waiters = NEW_N(struct waiter, n * req->per_id + 1);
	memset(req->waiters, 0, (n * req->per_id + 1) * sizeof(*req->waiters));
	req->ids = NEW_N(struct build_id, n + 1);
	/* A table is kept under the file's build ID, whichever of its identities is asked for. */
	for (size_t i = 0; i < n; i++)
		if (!resolve_alias(t->opts.resolver, &ids[i], &req->ids[i]))
			req->ids[i] = ids[i];
	return req;
}

int tables_request_new(struct tables *t, const struct build_id *ids, size_t n, unsigned flags,
		       struct tables_wait wait, struct tables_request **ret)
{
	struct tables_request *req = request_alloc(t, ids, MIN(n, (size_t)MAX_IDS), flags);
	struct gate gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
	bool waits;

	req->ready = wait.ready ? wait.ready : gate_open;
	req->arg = wait.ready ? wait.arg : &gate;
	req->deadline_ms = wait.deadline_mono_ms;
	*ret = req;
	if (flags & TABLES_AT_HAND) {
		request_take_at_hand(req);
		return 0;
	}
	if (request_take_known(req, (flags & TABLES_FRESH) != 0))
		return 0;
	pthread_mutex_lock(&t->lock);
	request_wait(req);
	waits = req->listed;
	pthread_mutex_unlock(&t->lock);
	/* From here on it may be ready, and freed. */
	if (!waits)
		return 0;
	if (wait.ready)
		return TABLES_WAITS;
	gate_wait(&gate);
	return 0;
}

void tables_request_free(struct tables_request *req)
{
	if (!req)
		return;
	request_drop_finder(req);
	for (size_t i = 0; i < req->n * req->per_id; i++)
		entry_unref(req->waiters[i].entry);
	free(req->waiters);
	free(req->ids);
	free(req);
}

void tables_request_module(const struct tables_request *req, size_t i, struct tables_module *ret)
{
	const struct tables_entry *e = req->waiters[i].entry, *l = request_layout(req, i);

	*ret = (struct tables_module){ .why = "", .origin = "", .missing = "" };
	if (!req->ids[i].size) {
		ret->reason = FRAME_NO_BUILD_ID;
	} else if (!e) {
		ret->reason = req->none_because;
	} else {
		ret->reason = e->reason;
		ret->why = e->why;
		ret->origin = e->origin;
		ret->missing = e->missing;
		ret->lacking = e->lacking;
		ret->incomplete = e->incomplete;
		ret->due = entry_is_expired(e);
		ret->info = e->table ? symtab_info(e->table) : NULL;
		if (ret->info && !(ret->info->flags & (SYMTAB_HAS_DWARF | SYMTAB_HAS_GO)))
			ret->no_debug = (enum frame_reason)atomic_load(&e->no_debug);
	}
	if (l) {
		ret->layout = l->layout;
		ret->layout_known = true;
		ret->layout_due = entry_is_expired(l);
	}
}
