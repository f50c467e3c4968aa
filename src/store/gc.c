/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage: contents that no record names, because their record was replaced or removed, or its writer died
 * before writing one; and earlier versions of pushed objects that are older than STORE_PAST_S.
 */
#include "store/internal.h"

static int gc_contents(struct store *st, struct refs *c, store_progress_fn *progress, void *arg,
		       struct store_gc_result *ret, struct err *err)
{
	uint64_t done = 0;
	bool settled = false;

	for (size_t i = 0; i < c->n_contents; i++) {
		const struct refs_content *content = &c->contents[i];
		int r;

		if (progress && progress(arg, i, c->n_contents, done, c->bytes) != 0)
			return err_set(err, ERR_CANCELLED, "stopped");
		done += content->stored_size;
		if (!content->there || content->n_records)
			continue;
		/* A record seen here may not be on disk yet, and one on disk may name this content. */
		if (!settled && st->blobs->ops->settle_all(st->blobs, err) < 0)
			return -1;
		settled = true;
		r = refs_remove(st, c, content, err);
		if (r < 0)
			return -1;
		if (r == 0) {
			ret->n_contents++;
			ret->bytes += content->stored_size;
		}
		ret->n_young += r == BLOB_YOUNGER;
	}
	return 0;
}

/* The contents become garbage now or with the next collection. */
static int gc_past(struct store *st, struct refs *c, struct err *err)
{
	int64_t before = clock_wall_s() - STORE_PAST_S;

	for (size_t i = 0; i < c->n_records; i++) {
		const struct refs_record *record = &c->records[i];

		if (!record->past || record->replaced > before)
			continue;
		if (st->blobs->ops->remove(st->blobs, record->name, INT64_MAX, err) < 0)
			return -1;
		c->contents[record->content].n_records--;
	}
	return 0;
}

int store_gc(struct store *st, store_progress_fn *progress, void *arg, struct store_gc_result *ret,
	     struct err *err)
{
	struct store_gc_result result = { 0 };
	struct refs c;
	int r;

	/* First, so that the reference count sees the rest. */
	if (st->blobs->ops->sweep(st->blobs, &result.n_temporary, err) < 0)
		return err_in(err, "store");
	if (refs_count(st, &c, NULL, NULL, err) < 0)
		return -1;
	r = gc_past(st, &c, err);
	if (r == 0)
		r = gc_contents(st, &c, progress, arg, &result, err);
	refs_done(&c);
	if (r < 0)
		return err_in(err, "store");
	*ret = result;
	return 0;
}
