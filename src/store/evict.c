/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making room: objects go by the cost of having them again, and among those of equal cost by when they were
 * used last.
 *
 * First goes what no record names, then what was made or fetched, only then what was pushed. What was used,
 * or written, after the walk that found it is left alone: so a content never goes from under a record that
 * somebody is about to write (put.c).
 */
#include "store/internal.h"

#include <stdlib.h>

static int by_worth(const void *a, const void *b)
{
	const struct refs_record *x = a, *y = b;
	bool px = x->origin == STORE_PUSHED, py = y->origin == STORE_PUSHED;

	if (px != py)
		return px ? 1 : -1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static int drop_content(struct store *st, struct refs *c, struct refs_content *content,
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

static bool is_over(const struct refs *c, uint64_t target)
{
	return c->bytes + c->staged > target;
}

static int evict(struct store *st, struct refs *c, uint64_t target, struct store_evict_result *result,
		 struct err *err)
{
	struct blobs *b = st->blobs;
	int r;

	for (size_t i = 0; i < c->n_contents && is_over(c, target); i++)
		if (c->contents[i].there && !c->contents[i].n_records &&
		    drop_content(st, c, &c->contents[i], result, err) < 0)
			return -1;
	if (c->n_records)
		qsort(c->records, c->n_records, sizeof(*c->records), by_worth);
	for (size_t i = 0; i < c->n_records && is_over(c, target); i++) {
		const struct refs_record *record = &c->records[i];
		struct refs_content *content = &c->contents[record->content];

		if (st->opts.keep_pushed && record->origin == STORE_PUSHED)
			break;
		/* Its content could not go either. */
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
		    drop_content(st, c, content, result, err) < 0)
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
	r = evict(st, &c, target, &result, err);
	refs_done(&c);
	if (r < 0)
		return err_in(err, "store");
	*ret = result;
	return 0;
}

static bool fits(struct store *st, uint64_t more)
{
	uint64_t used;

	return store_usage(st, &used) && used <= st->opts.quota && more <= st->opts.quota - used;
}

bool store_is_crowded(struct store *st)
{
	return st->opts.quota && !fits(st, st->opts.quota / 16);
}

bool store_has_room(struct store *st, uint64_t more)
{
	return !st->opts.quota || (more <= st->opts.quota && fits(st, more + st->opts.quota / 16));
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
	if (!fits(st, more)) {
		pthread_mutex_lock(&st->room);
		/* A sixteenth more than needed: a walk over everything should be of use for more than one. */
		if (!fits(st, more))
			r = store_evict(st, MIN(quota - more, quota - quota / 16), &result, err);
		pthread_mutex_unlock(&st->room);
		if (r == 0 && !fits(st, more))
			r = STORE_FULL;
	}
	if (st->maintain && store_is_crowded(st))
		store_wake(st, false);
	return r;
}
