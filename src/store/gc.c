/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage: contents that no record names, because their record was replaced or removed, or its writer died
 * before writing one; earlier versions of pushed objects that are older than STORE_PAST_S; interrupted uploads that are older
 * than STORE_PARTIAL_S; and versions of records that writers in a bucket have left.
 */
#include "store/internal.h"

#include <string.h>

#define BATCH 500u /* contents collected at once: at a distance they share a listing of the records */

static int gc_contents(struct store *st, struct refs *c, store_progress_fn *progress, void *arg,
		       struct refs_removed *ret, struct err *err)
{
	uint64_t done = 0, all = c->bytes;
	bool settled = false;
	uint32_t batch[BATCH];
	size_t n = 0;

	for (size_t i = 0; i < c->n_contents; i++) {
		const struct refs_content *content = &c->contents[i];
		if (progress && progress(arg, i, c->n_contents, done, all) != 0)
			return err_set(err, ERR_CANCELLED, "stopped");
		done += content->stored_size;
		if (refs_is_garbage(c, i))
			batch[n++] = (uint32_t)i;
		if (!n || (n < BATCH && i + 1 < c->n_contents))
			continue;
		/* A record seen here may not be on disk yet, and one on disk may name this content. */
		if (!settled && st->blobs->ops->settle_all(st->blobs, err) < 0)
			return -1;
		settled = true;
		if (refs_collect(st, c, batch, n, ret, err) < 0)
			return -1;
		n = 0;
	}
	return 0;
}

/*
 * The time by which ages are counted here. A wall clock that is a year ahead when the service starts would make all earlier
 * versions and interrupted uploads too old: the time goes on from refs.reached_s. The maintenance thread, or the command that
 * collects, is the only one that uses the clock. It is read once a day, so a doubt may last longer than elsewhere.
 */
static int64_t gc_now_s(struct store *st, const struct refs *c)
{
	int64_t wall_ms = clock_wall_ms(), mono_ms = clock_mono_ms();

	if (!st->has_clock)
		age_clock_open(&st->clock, wall_ms, mono_ms, c->reached_s ? c->reached_s * 1000 : INT64_MIN,
			       0);
	st->has_clock = true;
	return age_clock_read(&st->clock, wall_ms, mono_ms).least_ms / 1000;
}

/* Names of interrupted uploads, each with a line feed. */
struct old_partials {
	int64_t before_s;
	struct buf names;
};

static int old_partials_add(void *arg, const struct store_partial *p)
{
	struct old_partials *old = arg;

	if (p->saved <= old->before_s)
		buf_printf(&old->names, STR_FMT "\n", STR_ARG(p->name));
	return 0;
}

static int gc_partials(struct store *st, int64_t now_s, uint64_t *ret_n, struct err *err)
{
	struct old_partials old = { .before_s = now_s - STORE_PARTIAL_S };
	int r = store_partials(st, old_partials_add, &old, err);
	struct str rest = buf_str(&old.names);

	while (r == 0 && rest.size)
		*ret_n += store_forget_partial(st, str_cut(&rest, '\n'));
	buf_done(&old.names);
	return r;
}

/* The time in a record that is damaged is not known, but its name has it. */
static int gc_bad_past(struct store *st, struct refs *c, int64_t before_s, uint64_t *ret_n, struct err *err)
{
	for (size_t i = 0; i < c->n_bad; i++) {
		struct refs_bad *bad = &c->bad[i];
		int64_t replaced_s;
		int r;

		if (!refs_bad_is_past(bad, &replaced_s) || replaced_s > before_s)
			continue;
		r = st->blobs->ops->remove(st->blobs, bad->name, &bad->stamp, err);
		if (r < 0)
			return -1;
		if (r == BLOB_CHANGED)
			continue;
		refs_forget_bad(c, bad);
		*ret_n += r == 0;
	}
	return 0;
}

/* The contents become garbage now or with the next collection. */
static int gc_past(struct store *st, struct refs *c, int64_t now_s, uint64_t *ret_n, struct err *err)
{
	for (size_t i = 0; i < c->n_records; i++) {
		const struct refs_record *record = &c->records[i];

		if (!record->past || record->place != BLOB_PRESENT || record->replaced > now_s - STORE_PAST_S)
			continue;
		if (st->blobs->ops->remove(st->blobs, record->name, NULL, err) < 0)
			return -1;
		c->contents[record->content].n_records--;
		(*ret_n)++;
	}
	return gc_bad_past(st, c, now_s - STORE_PAST_S, ret_n, err);
}

/* Versions beside the present one, of writers that were killed or gave up. Of each name the present one comes first. */
static int gc_beside(struct store *st, struct refs *c, struct err *err)
{
	const struct refs_record *present = NULL;

	/* A rival that is damaged stays: it may be acknowledged. */
	for (size_t i = 0; i < c->n_bad; i++) {
		struct refs_bad *bad = &c->bad[i];
		int r;

		if (bad->place != BLOB_REPLACED)
			continue;
		r = st->blobs->ops->remove_beside(st->blobs, bad->name, &bad->stamp, err);
		if (r < 0)
			return -1;
		if (r != BLOB_CHANGED)
			refs_forget_bad(c, bad);
	}
	for (size_t i = 0; i < c->n_records; i++) {
		struct refs_record *record = &c->records[i];
		bool is_new;
		int r = 0;

		if (record->place == BLOB_PRESENT)
			present = record;
		if (record->place != BLOB_REPLACED && record->place != BLOB_RIVAL)
			continue;
		/* The present one is damaged: this one may be all that is left. */
		if (!present || strcmp(present->name, record->name) != 0)
			continue;
		is_new = record->place == BLOB_RIVAL && !record->past && present->content != record->content;
		if (is_new)
			r = past_add_rival(st, record, err);
		if (r == 0)
			r = st->blobs->ops->remove_beside(st->blobs, record->name, &record->stamp, err);
		if (r < 0)
			return -1;
		/* An earlier version keeps the content. */
		if (r == 0 && !is_new)
			c->contents[record->content].n_records--;
	}
	return 0;
}

/* ---- damaged records ---- */

#define GC_BAD_EVERY_MS (INT64_C(24) * 3600 * 1000) /* at most so often the same line */

/*
 * Which one to name: the first that a push ends, then the first of an earlier version; those of a newer lode come and go while
 * that runs, and would hide the others.
 */
static unsigned bad_rank(const struct refs_bad *bad)
{
	return bad->is_newer ? 2 : str_starts(str_of(bad->name), STORE_PAST) ? 1 : 0;
}

/* NULL: none is left. */
static const struct refs_bad *bad_to_name(const struct refs *c, size_t *ret_n)
{
	const struct refs_bad *ret = NULL;

	*ret_n = 0;
	for (size_t i = 0; i < c->n_bad; i++) {
		if (c->bad[i].is_gone)
			continue;
		++*ret_n;
		if (!ret || bad_rank(&c->bad[i]) < bad_rank(ret))
			ret = &c->bad[i];
	}
	return ret;
}

static void bad_line(const struct refs *c, const struct refs_bad *first, size_t n, struct buf *ret)
{
	uint64_t n_kept = 0, bytes = 0;

	for (size_t i = 0; i < c->n_contents; i++) {
		if (!refs_is_kept(c, i))
			continue;
		n_kept++;
		bytes += c->contents[i].stored_size;
	}
	buf_printf(ret, "%s", first->why);
	if (n > 1)
		buf_printf(ret, ", and %zu more records are damaged", n - 1);
	if (n_kept)
		buf_printf(ret, "; %llu unreferenced contents (%llu bytes) are kept meanwhile",
			   (unsigned long long)n_kept, (unsigned long long)bytes);
	buf_printf(ret, "; %s%s",
		   str_starts(str_of(first->name), STORE_PAST) ? "" : "push the file again, or ",
		   first->is_newer ? "use the newer lode that has written the record"
				   : "remove the record with lode store verify --remove");
}

/*
 * What is kept for them. A service collects every few seconds at times, and the bytes change with each removal, so the same
 * record is named once a day.
 */
static void gc_note_bad(struct store *st, const struct refs *c)
{
	AUTO(buf_done) struct buf line = { 0 };
	int64_t now_ms = clock_mono_ms();
	const struct refs_bad *first;
	uint64_t hash;
	size_t n;

	first = bad_to_name(c, &n);
	if (!first)
		return;
	hash = hash64(first->why, strlen(first->why), 0);
	if (hash == st->bad_said && now_ms - st->bad_said_ms < GC_BAD_EVERY_MS)
		return;
	st->bad_said = hash;
	st->bad_said_ms = now_ms;
	bad_line(c, first, n, &line);
	log_warn("store", "%s", buf_cstr(&line));
}

int store_gc(struct store *st, store_progress_fn *progress, void *arg, struct store_gc_result *ret,
	     struct err *err)
{
	struct store_gc_result result = { 0 };
	struct refs_removed removed = { 0 };
	struct refs c;
	int64_t now_s;
	int r;

	/* First, so that the reference count sees the rest. */
	if (st->blobs->ops->sweep(st->blobs, &result.n_temporary, err) < 0)
		return err_in(err, "store");
	if (refs_count(st, &c, NULL, NULL, err) < 0)
		return -1;
	now_s = gc_now_s(st, &c);
	r = gc_partials(st, now_s, &result.n_temporary, err);
	if (r == 0)
		r = gc_past(st, &c, now_s, &result.n_past, err);
	if (r == 0)
		r = gc_beside(st, &c, err);
	if (r == 0)
		r = gc_contents(st, &c, progress, arg, &removed, err);
	if (r == 0)
		gc_note_bad(st, &c);
	refs_done(&c);
	if (r < 0)
		return err_in(err, "store");
	result.n_contents = removed.n;
	result.bytes = removed.bytes;
	result.n_young = removed.n_young;
	*ret = result;
	return 0;
}
