/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making room: objects are evicted by the cost of getting them again, and among those of equal cost by their
 * last use.
 *
 * First go contents that no record names, then earlier versions of pushed objects, then objects that were made or
 * fetched, and only then those that were pushed. Before these go contents that are kept since nobody knows which ones damaged
 * records need: most of them are garbage. Objects used or written after the walk that found them are left alone, so
 * that a content is never removed while a record for it is being written (put.c).
 */
#include "store/internal.h"

#include <stdlib.h>

static int record_by_worth(const void *a, const void *b)
{
	const struct refs_record *x = a, *y = b;
	bool px = x->origin == STORE_PUSHED, py = y->origin == STORE_PUSHED;

	if (x->past != y->past)
		return x->past ? -1 : 1;
	if (px != py)
		return px ? 1 : -1;
	return x->stamp.time_ns < y->stamp.time_ns ? -1 : x->stamp.time_ns > y->stamp.time_ns;
}

/* What goes next: contents without a record, and their bytes. */
struct evict_batch {
	uint32_t *v;
	size_t n, room;
	uint64_t bytes;
};

static void batch_done(struct evict_batch *b)
{
	free(b->v);
}

static void batch_add(struct evict_batch *b, const struct refs *c, size_t content)
{
	VEC_PUSH(b->v, b->n, b->room) = (uint32_t)content;
	b->bytes += c->contents[content].stored_size;
}

/* With the batch gone, is there still more than @target? */
static bool batch_is_short(const struct evict_batch *b, const struct refs *c, uint64_t target)
{
	return c->bytes - MIN(c->bytes, b->bytes) + c->staged > target;
}

static int batch_collect(struct store *st, struct refs *c, struct evict_batch *b,
			 struct store_evict_result *result, struct err *err)
{
	struct refs_removed removed = { 0 };
	int r = refs_collect(st, c, b->v, b->n, &removed, err);

	result->bytes += removed.bytes;
	b->n = 0;
	b->bytes = 0;
	return r;
}

/* 0: the record is removed. BLOB_CHANGED: it was used or replaced meanwhile. */
static int evict_record(struct store *st, const struct refs_record *record, struct err *err)
{
	int r = st->blobs->ops->remove(st->blobs, record->name, &record->stamp, err);

	if (r < 0 || r == BLOB_CHANGED)
		return r;
	atomic_fetch_add(&st->generation, 1);
	object_list_del(st->objects, record->name);
	return 0;
}

/*
 * Records @from to @to, the least worthy first, until their contents free enough. Those that a batch could not remove are made
 * up for.
 */
static int evict_records(struct store *st, struct refs *c, size_t from, size_t to, uint64_t target,
			 struct evict_batch *batch, struct store_evict_result *result, struct err *err)
{
	for (size_t i = from; i < to; i++) {
		const struct refs_record *record = &c->records[i];
		struct refs_content *content = &c->contents[record->content];
		int r;

		if (!batch_is_short(batch, c, target) && batch_collect(st, c, batch, result, err) < 0)
			return -1;
		if (!batch_is_short(batch, c, target))
			return 0;
		/* Its content could not be removed either. */
		if (record->stamp.time_ns > c->from_ns - st->settle_ns)
			continue;
		r = evict_record(st, record, err);
		if (r < 0)
			return -1;
		if (r)
			continue;
		result->n_objects++;
		if (--content->n_records == 0 && content->there && !content->bad_names)
			batch_add(batch, c, record->content);
	}
	return batch_collect(st, c, batch, result, err);
}

/* Contents that no record names: garbage, or with @kept those that are kept for damaged records that do not name them. */
static int evict_unnamed(struct store *st, struct refs *c, bool kept, uint64_t target,
			 struct evict_batch *batch, struct store_evict_result *result, struct err *err)
{
	uint64_t before = result->bytes;
	int r;

	for (size_t i = 0; i < c->n_contents && batch_is_short(batch, c, target); i++)
		if (kept ? refs_is_kept(c, i) && !c->contents[i].bad_names : refs_is_garbage(c, i))
			batch_add(batch, c, i);
	r = batch_collect(st, c, batch, result, err);
	if (kept && result->bytes > before)
		log_warn("store",
			 "the quota is used up: removed %llu bytes of contents that were kept for damaged "
			 "records",
			 (unsigned long long)(result->bytes - before));
	return r;
}

/*
 * Damaged records of earlier versions: these go before all objects, and nobody can restore them. Then their contents go.
 */
static int evict_bad_past(struct store *st, struct refs *c, uint64_t target, struct evict_batch *batch,
			  struct store_evict_result *result, struct err *err)
{
	struct blobs *b = st->blobs;
	int64_t replaced_s;
	size_t n = 0;

	for (size_t i = 0; i < c->n_bad && batch_is_short(batch, c, target); i++) {
		struct refs_bad *bad = &c->bad[i];
		int r;

		if (!refs_bad_is_past(bad, &replaced_s))
			continue;
		r = b->ops->remove(b, bad->name, &bad->stamp, err);
		if (r < 0)
			return -1;
		if (r == BLOB_CHANGED)
			continue;
		refs_forget_bad(c, bad);
		result->n_objects += r == 0;
		n++;
	}
	return n ? evict_unnamed(st, c, false, target, batch, result, err) : 0;
}

/* After sorting: the records before those of pushed objects. */
static size_t evict_cheap(const struct refs *c)
{
	size_t n = 0;

	while (n < c->n_records && (c->records[n].past || c->records[n].origin != STORE_PUSHED))
		n++;
	return n;
}

static int evict_down(struct store *st, struct refs *c, uint64_t target, struct store_evict_result *result,
		      struct err *err)
{
	AUTO(batch_done) struct evict_batch batch = { 0 };
	struct blobs *b = st->blobs;
	size_t n_cheap;

	if (!batch_is_short(&batch, c, target))
		return 0;
	/* A record seen by the walk may not be on disk yet, and one on disk may name a content that goes. */
	if (b->ops->settle_all(b, err) < 0)
		return -1;
	if (evict_unnamed(st, c, false, target, &batch, result, err) < 0 ||
	    evict_bad_past(st, c, target, &batch, result, err) < 0)
		return -1;
	if (c->n_records)
		qsort(c->records, c->n_records, sizeof(*c->records), record_by_worth);
	n_cheap = evict_cheap(c);
	if (evict_records(st, c, 0, n_cheap, target, &batch, result, err) < 0)
		return -1;
	if (st->opts.keep_pushed || !batch_is_short(&batch, c, target))
		return 0;
	if (evict_unnamed(st, c, true, target, &batch, result, err) < 0)
		return -1;
	return evict_records(st, c, n_cheap, c->n_records, target, &batch, result, err);
}

int store_evict(struct store *st, uint64_t target, struct store_evict_result *ret, struct err *err)
{
	struct store_evict_result result = { 0 };
	struct refs c;
	int r;

	if (refs_count(st, &c, NULL, NULL, err) < 0)
		return -1;
	r = evict_down(st, &c, target, &result, err);
	refs_done(&c);
	if (r < 0)
		return err_in(err, "store");
	*ret = result;
	return 0;
}

static bool quota_fits(struct store *st, uint64_t more)
{
	uint64_t used;

	return store_usage(st, &used) && used <= st->opts.quota && more <= st->opts.quota - used;
}

bool store_is_crowded(struct store *st)
{
	return st->opts.quota && !quota_fits(st, st->opts.quota / 16);
}

bool store_has_room(struct store *st, uint64_t more)
{
	return !st->opts.quota || (more <= st->opts.quota && quota_fits(st, more + st->opts.quota / 16));
}

int store_make_room(struct store *st, uint64_t more, struct err *err)
{
	struct store_evict_result result;
	uint64_t quota = st->opts.quota;
	int r = 0;

	if (!quota)
		return 0;
	if (more > quota)
		return STORE_FULL;
	if (!quota_fits(st, more)) {
		pthread_mutex_lock(&st->room);
		/* A sixteenth more than needed, so that a walk over everything serves more than one
		 * request. */
		if (!quota_fits(st, more))
			r = store_evict(st, MIN(quota - more, quota - quota / 16), &result, err);
		pthread_mutex_unlock(&st->room);
		if (r == 0 && !quota_fits(st, more))
			r = STORE_FULL;
	}
	if (st->maintain && store_is_crowded(st))
		store_wake(st, false);
	return r;
}
