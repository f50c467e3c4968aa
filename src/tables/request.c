/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds: what one who asks has of tables and layouts, and the wait for them.
 */
#include <stdlib.h>
#include "tables/internal.h"

#define MAX_IDS (1u << 20)

/* Under the lock. */
void request_unlist(struct tables_request *h)
{
	struct tables *s = h->s;

	if (!h->listed)
		return;
	for (size_t i = 0; i < h->n * h->per_id; i++) {
		struct waiter *w = &h->waiters[i];

		if (!w->build)
			continue;
		*(w->prev ? &w->prev->next : &w->build->waiters) = w->next;
		if (w->next)
			w->next->prev = w->prev;
		w->build = NULL;
	}
	*(h->prev ? &h->prev->next : &s->waiting) = h->next;
	if (h->next)
		h->next->prev = h->prev;
	h->listed = false;
}

static void request_list(struct tables_request *h)
{
	struct tables *s = h->s;

	h->prev = NULL;
	h->next = s->waiting;
	if (s->waiting)
		s->waiting->prev = h;
	s->waiting = h;
	h->listed = true;
	pthread_cond_broadcast(&s->changed);
}

/* ---- for those who wait in their own thread ---- */

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

/* What is known already. true: nothing is to be waited for. */
static bool look(struct tables_request *h, bool fresh)
{
	for (size_t i = 0; i < h->n * h->per_id; i++) {
		struct entry_key key = { .kind = i < h->n ? ENTRY_TABLE : ENTRY_LAYOUT,
					 .id = h->ids[i % h->n] };
		struct waiter *w = &h->waiters[i];
		bool refresh = false;

		w->request = h;
		if (!key.id.size)
			continue;
		w->entry = tables_peek(h->s, &key, &refresh);
		if ((refresh && fresh) || (w->entry && w->entry->searching && h->unscanned)) {
			entry_unref(TAKE(w->entry));
		} else if (refresh) {
			pthread_mutex_lock(&h->s->lock);
			tables_await(h->s, &key, NULL);
			pthread_mutex_unlock(&h->s->lock);
		}
		h->n_missing += !w->entry;
	}
	return !h->n_missing;
}

static void start_waiting(struct tables_request *h)
{
	struct tables *s = h->s;
	bool waits = clock_mono_ms() < h->deadline_ms && !s->stopping;

	h->none_because = FRAME_PENDING;
	for (size_t i = 0; i < h->n * h->per_id; i++) {
		struct entry_key key = { .kind = i < h->n ? ENTRY_TABLE : ENTRY_LAYOUT,
					 .id = h->ids[i % h->n] };

		if (h->waiters[i].entry || !key.id.size)
			continue;
		/* Who does not wait has it made all the same: the next one finds it. */
		switch (tables_await(s, &key, waits ? &h->waiters[i] : NULL)) {
		case FRAME_BUSY:
			h->none_because = FRAME_BUSY;
			h->n_missing--;
			break;
		case FRAME_FOUND:
			h->n_missing--;
			break;
		default:
			break;
		}
	}
	if (!waits)
		h->n_missing = 0;
	if (h->n_missing)
		request_list(h);
}

int tables_request_new(struct tables *s, const struct build_id *ids, size_t n, unsigned flags,
		       int64_t deadline_mono_ms, void (*ready)(void *arg), void *arg,
		       struct tables_request **ret)
{
	struct tables_request *h = NEW(struct tables_request);
	struct gate gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
	bool waits;

	n = MIN(n, (size_t)MAX_IDS);
	h->s = s;
	h->n = n;
	h->per_id = flags & TABLES_LAYOUTS ? 2 : 1;
	h->unscanned = flags & TABLES_UNSCANNED;
	h->waiters = NEW_N(struct waiter, n * h->per_id + 1);
	memset(h->waiters, 0, (n * h->per_id + 1) * sizeof(*h->waiters));
	h->ids = NEW_N(struct build_id, n + 1);
	if (n)
		memcpy(h->ids, ids, n * sizeof(*ids));
	h->finders = NEW_N(struct symtab_finder *, n + 1);
	memset(h->finders, 0, (n + 1) * sizeof(*h->finders));
	h->ready = ready ? ready : gate_open;
	h->arg = ready ? arg : &gate;
	h->deadline_ms = deadline_mono_ms;
	*ret = h;
	if (look(h, (flags & TABLES_FRESH) != 0))
		return 0;
	pthread_mutex_lock(&s->lock);
	start_waiting(h);
	waits = h->listed;
	pthread_mutex_unlock(&s->lock);
	/* From here on it may be ready, and gone. */
	if (!waits)
		return 0;
	if (ready)
		return TABLES_WAITS;
	gate_wait(&gate);
	return 0;
}

void tables_request_free(struct tables_request *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n; i++)
		symtab_finder_free(h->finders[i]);
	for (size_t i = 0; i < h->n * h->per_id; i++)
		entry_unref(h->waiters[i].entry);
	free(h->finders);
	free(h->waiters);
	free(h->ids);
	free(h);
}

void tables_request_module(const struct tables_request *h, size_t i, struct tables_module *ret)
{
	const struct entry *e = h->waiters[i].entry, *l = h->per_id > 1 ? h->waiters[h->n + i].entry : NULL;

	*ret = (struct tables_module){ .why = "", .origin = "" };
	if (!h->ids[i].size) {
		ret->reason = FRAME_NO_BUILD_ID;
	} else if (!e) {
		ret->reason = h->none_because;
	} else {
		ret->reason = e->reason;
		ret->why = e->why;
		ret->origin = e->origin;
		ret->lacking = e->lacking;
		ret->due = clock_mono_ms() >= atomic_load(&e->good_until_ms);
		ret->info = e->table ? symtab_info(e->table) : NULL;
	}
	if (l)
		ret->layout = l->layout;
}
