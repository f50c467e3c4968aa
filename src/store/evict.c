/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making room: objects are evicted by the cost of getting them again, and among those of equal cost by their
 * last use.
 *
 * First go contents that no record names, then earlier versions of pushed objects, then objects that were made or
 * fetched, and only then those that were pushed. Objects used or written after the walk that found them are left alone, so that a content is
 * never removed while a record for it is being written (put.c).
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
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static int evict_content(struct store *st, struct refs *c, struct refs_content *content,
			 struct store_evict_result *result, struct err *err)
{
	int r = refs_remove(st, c, content, err);

	if (r != 0)
		return r < 0 ? -1 : 0;
	content->there = false;
	c->bytes -= content->stored_size;
	result->bytes += content->stored_size;
	return 0;
}

static bool refs_exceed(const struct refs *c, uint64_t target)
{
	return c->bytes + c->staged > target;
}

static int evict_down(struct store *st, struct refs *c, uint64_t target, struct store_evict_result *result,
		      struct err *err)
{
	struct blobs *b = st->blobs;
	int r;

	/* A record seen by the walk may not be on disk yet, and one on disk may name a content that goes. */
	if (refs_exceed(c, target) && b->ops->settle_all(b, err) < 0)
		return -1;
	for (size_t i = 0; i < c->n_contents && refs_exceed(c, target); i++)
		if (c->contents[i].there && !c->contents[i].n_records &&
		    evict_content(st, c, &c->contents[i], result, err) < 0)
			return -1;
	if (c->n_records)
		qsort(c->records, c->n_records, sizeof(*c->records), record_by_worth);
	for (size_t i = 0; i < c->n_records && refs_exceed(c, target); i++) {
		const struct refs_record *record = &c->records[i];
		struct refs_content *content = &c->contents[record->content];

		if (st->opts.keep_pushed && record->origin == STORE_PUSHED && !record->past)
			break;
		/* Its content could not be removed either. */
		if (record->time_ns > c->from_ns - st->settle_ns)
			continue;
		r = b->ops->remove(b, record->name, record->time_ns, err);
		if (r < 0)
			return -1;
		if (r == BLOB_YOUNGER)
			continue;
		atomic_fetch_add(&st->generation, 1);
		object_list_del(st->objects, record->name);
		result->n_objects++;
		if (--content->n_records == 0 && content->there &&
		    evict_content(st, c, content, result, err) < 0)
			return -1;
	}
	return 0;
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
