/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table, or a layout, of the files that are here, made while a build waits for other servers: these may not answer for a
 * minute, and the files here name its addresses meanwhile.
 *
 * A *local build* goes through the same stages as the build that it is for, the whole one, but finds files here only. It is
 * not in the map of builds. Its entry goes into the LRU, expired and lacking, while the whole build runs; the entry of
 * that takes its place. A build that has a table to be replaced needs none.
 */
#include "tables/internal.h"

static void expect_none(struct build *b)
{
	b->tables->n_expecting -= b->local_at_ms != 0;
	b->local_at_ms = 0;
}

void local_expect(struct build *b)
{
	struct tables *t = b->tables;

	if (b->is_local || b->had_local || b->local_at_ms || b->parked || t->closing ||
	    (b->old && entry_is_usable(b->old)))
		return;
	b->local_at_ms = clock_mono_ms() + t->opts.local_ms;
	t->n_expecting++;
	pthread_cond_broadcast(&t->changed);
}

void local_forget(struct build *b)
{
	expect_none(b);
	b->had_local = false;
	if (b->local)
		b->local->whole = NULL;
	b->local = NULL;
}

static void local_start(struct build *b)
{
	struct build *l = build_start(b->tables, &b->key, NULL, NULL);

	l->is_local = true;
	l->whole = b;
	l->was_replaced = b->was_replaced;
	atomic_store(&l->task.cls, atomic_load(&b->task.cls));
	l->task.slot.client = b->task.slot.client;
	b->local = l;
	b->had_local = true;
	task_kick(&l->task);
}

void local_start_due(struct tables *t, int64_t now_ms, int64_t *next_ms)
{
	if (!t->n_expecting)
		return;
	/* A local build goes to the front of the list. */
	for (struct build *b = t->first_build; b; b = b->next) {
		if (!b->local_at_ms)
			continue;
		if (now_ms < b->local_at_ms) {
			*next_ms = MIN(*next_ms, b->local_at_ms);
			continue;
		}
		expect_none(b);
		if (!t->closing)
			local_start(b);
	}
}

bool local_is_wanted(const struct build *b)
{
	return b->whole && b->whole->news != NEWS_REPLACED;
}

void local_end(struct build *b, struct tables_entry *e)
{
	struct tables *t = b->tables;
	struct tables_request *ready = NULL;
	struct build *whole;
	bool wanted;

	pthread_mutex_lock(&t->lock);
	wanted = local_is_wanted(b);
	whole = TAKE(b->whole);
	if (whole) {
		whole->local = NULL;
		/* Under the lock: the entry of the whole build, which is better, comes after it. */
		if (wanted && entry_is_usable(e) && !t->closing) {
			e->lacking = true;
			entry_expire_in(e, 0);
			cache_put(t, e);
			ready = build_complete(whole, e, WAITERS_EARLY);
		}
	}
	pthread_mutex_unlock(&t->lock);
	requests_ready(ready);
	entry_unref(e);
}
