/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that other servers answered in vain: cached for ten minutes where all of them report 404 or 410,
 * for seconds where they failed.
 */
#include "resolve/internal.h"

#include <stdlib.h>

#define MAX_WEIGHT MIB(16)

static void miss_free(void *value)
{
	struct miss *r = value;

	arena_done(&r->arena);
	free(r);
}

struct lru *miss_cache_new(void)
{
	return lru_new(MAX_WEIGHT, miss_free);
}

struct lru_ref *miss_cache_get(struct lru *l, struct bytes key)
{
	struct lru_ref *h = lru_get(l, key);
	const struct miss *r = h ? lru_value(h) : NULL;

	if (!r || clock_mono_ms() < r->until_ms)
		return h;
	lru_unref(l, h);
	lru_del(l, key);
	return NULL;
}

void miss_cache_put(struct lru *l, struct bytes key, int64_t until_ms, int outcome, const struct err *err,
		    struct net_fetch *f)
{
	struct miss *r = NEW(struct miss);
	const struct net_note *notes;
	size_t n = net_fetch_notes(f, &notes);

	arena_init(&r->arena);
	r->until_ms = until_ms;
	r->missing = outcome == NET_MISSING;
	if (outcome < 0)
		r->err = *err;
	else if (outcome == NET_TOO_LARGE)
		err_set(&r->err, ERR_LIMIT, "other servers have it, but it is larger than the limit");
	r->steps = ARENA_NEW_N(&r->arena, struct miss_step, n + 1);
	for (size_t i = 0; i < n; i++) {
		r->steps[i].server = arena_str(&r->arena, str_of(notes[i].server));
		r->steps[i].message = arena_str(&r->arena, str_of(notes[i].message));
	}
	r->n_steps = n;
	/* lru_put() would keep an older entry of this key. */
	lru_del(l, key);
	lru_unref(l, lru_put(l, key, r, sizeof(*r) + r->arena.size + key.size + 256));
}
