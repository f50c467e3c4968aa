/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of endpoints. One is known by the URL of its target, its labels, and its profile: when a file changes, those
 * that are in it as before keep their place in time, their base and their figures, also if other settings of theirs have
 * changed.
 */
#include "server/scrape/internal.h"

#include <stdlib.h>
#include "base/vec.h"

const char *const scrape_results[SCRAPE_N_RESULTS] = {
	[SCRAPE_NONE] = "none",           [SCRAPE_STORED] = "stored",
	[SCRAPE_BASE] = "base",           [SCRAPE_UNREACHABLE] = "unreachable",
	[SCRAPE_TIMEOUT] = "timeout",     [SCRAPE_STATUS] = "status",
	[SCRAPE_TOO_LARGE] = "too_large", [SCRAPE_INVALID] = "invalid",
	[SCRAPE_SECRET] = "secret",       [SCRAPE_BUSY] = "busy",
	[SCRAPE_CANCELLED] = "cancelled",
};

void endpoint_unref(struct endpoint *e)
{
	if (--e->refs)
		return;
	scrape_list_unref(e->list);
	profile_counters_free(e->base);
	free(e);
}

/* Lengths are in it, so that no two have the same. */
static void key_part(struct buf *out, struct str s)
{
	buf_printf(out, "%zu:", s.size);
	buf_add_str(out, s);
}

static void endpoint_key(const struct scrape_target *t, const struct scrape_profile *p, struct buf *out)
{
	out->size = 0;
	key_part(out, str_of(t->base));
	key_part(out, str_of(p->name));
	key_part(out, str_of(p->path));
	for (size_t i = 0; i < t->n_labels; i++) {
		key_part(out, t->labels[i].name);
		key_part(out, t->labels[i].value);
	}
}

struct replacement {
	struct endpoints old;
	struct endpoints *now;
	const struct endpoints_events *events;
	struct buf key;
};

static struct endpoint *endpoint_kept(struct replacement *r)
{
	struct endpoint *e = map_del(&r->old.by_key, buf_bytes(&r->key));

	if (e)
		return e;
	e = NEW(struct endpoint);
	e->refs = 1;
	e->hash = hash64(r->key.p, r->key.size, 0);
	return e;
}

static bool endpoint_put(struct replacement *r, struct scrape_list *l, const struct scrape_target *t,
			 const struct scrape_profile *p)
{
	struct endpoints *now = r->now;
	struct endpoint *e;
	bool is_new;

	endpoint_key(t, p, &r->key);
	if (map_get(&now->by_key, buf_bytes(&r->key))) {
		now->n_twice++;
		return false;
	}
	if (now->n == SCRAPE_MAX_ENDPOINTS) {
		now->n_over++;
		return false;
	}
	e = endpoint_kept(r);
	is_new = !e->list;
	/* Counts of another interval or place within it. */
	is_new |= e->list && e->target->group->interval_ms != t->group->interval_ms;
	scrape_list_unref(e->list);
	e->list = scrape_list_ref(l);
	e->target = t;
	e->profile = p;
	map_put(&now->by_key, buf_bytes(&r->key), e);
	VEC_PUSH(now->v, now->n, now->room) = e;
	if (is_new)
		r->events->first(r->events->arg, e);
	return true;
}

void endpoints_replace(struct endpoints *e, struct scrape_list *const *lists, size_t n_lists,
		       const struct endpoints_events *events)
{
	struct replacement r = { .old = *e, .now = e, .events = events };
	struct bytes key;
	void *left;

	*e = (struct endpoints){ 0 };
	for (size_t i = 0; i < n_lists; i++) {
		for (size_t k = 0; lists[i] && k < lists[i]->n; k++) {
			const struct scrape_target *t = &lists[i]->targets[k];
			bool any = false;

			for (size_t j = 0; j < t->group->n_profiles; j++)
				any |= endpoint_put(&r, lists[i], t, &t->group->profiles[j]);
			e->n_targets += any;
		}
	}
	map_each (&r.old.by_key, it, &key, &left) {
		struct endpoint *gone = left;

		gone->gone = true;
		events->gone(events->arg, gone);
		endpoint_unref(gone);
	}
	map_done(&r.old.by_key);
	free(r.old.v);
	buf_done(&r.key);
}

void endpoints_done(struct endpoints *e)
{
	for (size_t i = 0; i < e->n; i++)
		endpoint_unref(e->v[i]);
	map_done(&e->by_key);
	free(e->v);
	*e = (struct endpoints){ 0 };
}
