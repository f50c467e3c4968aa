/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sound rows of a damaged database, in a new one, when the store is opened. The damaged one is read without the
 * digests of pages, since a page with one wrong byte still has many rows; each row that is taken has a digest of its own.
 * Series have none, so they are read with the digests of pages: a wrong label would be a wrong answer. Tables that only
 * tell where rows are, or how many, are read so, too. Totals are computed anew. Grooming makes rollups again, and locations
 * without names are named again.
 */
#include "profilestore/salvage_internal.h"

#include <stdlib.h>
#include "base/vec.h"

#define PROFILE_LEAST 16u       /* bytes of the file that a profile takes */
#define LOST_NUMBERS  (1 << 30) /* of profiles, at most */

static int put_series(struct salvage *x, int64_t id, struct bytes key, struct err *err)
{
	struct db_stmt *in;
	struct series *s;

	if (id <= 0 || id >= UINT32_MAX)
		return 0;
	s = series_of_key(key, (uint32_t)id, NULL);
	if (!s)
		return 0;
	series_free(s);
	if (db_prepare(x->to,
		       "INSERT INTO series (id, key) SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM series "
		       "WHERE id = "
		       "?1 OR "
		       "key = ?2)",
		       &in, err) < 0)
		return -1;
	db_bind_i64(in, 1, id);
	db_bind_bytes(in, 2, key);
	return db_step(in, err);
}

static int copy_series(struct salvage *x, struct db_stmt *st, struct err *err)
{
	return put_series(x, db_i64(st, 0), db_bytes(st, 1), err);
}

static int take_raw_series(void *arg, const struct db_raw_row *row, struct err *err)
{
	return salvage_is_series(row) ? put_series(arg, row->id, row->v[1].b, err) : 0;
}

/*
 * By the tree of the table; if that is damaged, also from the sound leaves of the file. Hazard: the number of a series that was
 * removed may have been used again, and the old row may still be in a page that is free. It is taken for the label if the page
 * that tells of that is damaged, too.
 */
static int copy_all_series(struct salvage *x, struct err *err)
{
	struct db_pages pages;
	int r;

	db_set_unchecked(x->from, false);
	r = salvage_each_row(x, "SELECT id, key FROM series WHERE id >= ? ORDER BY id", copy_series, err);
	db_set_unchecked(x->from, true);
	if (r < 0 || !x->damaged)
		return r;
	/* The index is read by series: it does not tell which profiles of lost ones are missing. */
	x->index_damaged = true;
	db_pages_known(x->from, &pages);
	for (uint64_t page = 2; r == 0 && page <= pages.n; page++)
		r = db_raw_rows(x->from, &pages, page, take_raw_series, x, err);
	return r;
}

/* ---- what the file tells of itself ---- */

struct file_known {
	struct salvage *x;
	int64_t next_id;   /* -1: not known */
	int64_t oldest_ms; /* of the profiles that are known; -1: not known yet */
};

/* Pages that differ from their digests are not believed. -1: not known. */
static int64_t read_counter(struct salvage *x, const char *sql)
{
	int64_t n;

	db_set_unchecked(x->from, false);
	if (db_get_i64(x->from, sql, &n, NULL) < 0 || n < 0)
		n = -1;
	db_set_unchecked(x->from, true);
	return n;
}

static int64_t file_next_id(void *arg)
{
	const struct file_known *k = arg;

	return k->next_id > 0 ? MAX(k->next_id, k->x->next_id) : INT64_MAX;
}

/* Those that were copied: profiles of other ones are of no use. */
static uint32_t file_next_series(void *arg, uint32_t *it)
{
	const struct file_known *k = arg;
	struct db_stmt *st;
	int64_t id = 0;

	if (db_prepare(k->x->to, "SELECT id FROM series WHERE id > ? ORDER BY id LIMIT 1", &st, NULL) < 0)
		return 0;
	db_bind_i64(st, 1, *it);
	if (db_step_i64(st, &id, NULL) != DB_ROW)
		return 0;
	*it = (uint32_t)id;
	return *it;
}

/* Profiles are deleted by age: one that is older than all that are known was deleted. */
static bool file_may_store(void *arg, uint32_t series, int64_t time_ms)
{
	struct file_known *k = arg;

	(void)series;
	if (k->oldest_ms < 0 &&
	    db_get_i64(k->x->to,
		       "SELECT ifnull(min(time_ms), 0) FROM (SELECT time_ms FROM profile UNION ALL SELECT "
		       "time_ms FROM missing WHERE id > 0)",
		       &k->oldest_ms, NULL) < 0)
		return false;
	return time_ms >= k->oldest_ms;
}

/* ---- all of it ---- */

static int copy_profiles(struct salvage *x, int64_t next_id, uint64_t n_before, struct salvage_result *ret,
			 struct err *err)
{
	struct file_known k = { x, next_id, -1 };
	const struct salvage_known known = { file_next_id, file_next_series, file_may_store, &k };
	struct salvage_lost lost = { 0 };
	int r;

	x->known = &known;
	/* A page that differs from its digest may have lost rows without a trace. */
	x->damaged = true;
	r = salvage_profiles_step(x, 0, err);
	if (r == 0)
		r = salvage_profiles_end(x, n_before, &lost, err);
	/* Neither the index nor the counter tells how many: one for all of them. */
	if (r == 0 && x->lost_more)
		VEC_PUSH(lost.v, lost.n, lost.room) = (struct lost_profile){ 0, INT64_MIN };
	ret->lost = lost.v;
	ret->n_lost = ret->n_listed = lost.n;
	return r;
}

static int end_copy(struct salvage *x, int64_t next_id, struct salvage_result *ret, struct err *err)
{
	int64_t n_without = 0, n = 0, next = 0;

	if (db_get_i64(x->to, "SELECT count(*) FROM profile WHERE series NOT IN (SELECT id FROM series)",
		       &n_without, err) < 0 ||
	    db_exec(x->to,
		    "DELETE FROM profile WHERE series NOT IN (SELECT id FROM series);"
		    "UPDATE counter SET n_profiles = (SELECT count(*) FROM profile),"
		    " n_samples = (SELECT ifnull(sum(n_samples), 0) FROM profile),"
		    " next_profile = 1 + (SELECT ifnull(max(id), 0) FROM profile)",
		    err) < 0 ||
	    db_get_i64(x->to, "SELECT n_profiles FROM counter", &n, err) < 0 ||
	    db_get_i64(x->to, "SELECT next_profile FROM counter", &next, err) < 0)
		return -1;
	ret->n_lost += (uint64_t)n_without;
	ret->n_profiles = (uint64_t)n;
	ret->n_filled = x->n_filled;
	/* The number of a profile that is lost is not used again. */
	return next_id > next && next_id - next < LOST_NUMBERS
		       ? db_exec_i64(x->to, "UPDATE counter SET next_profile = ?", next_id, err)
		       : 0;
}

static void find_generation(struct salvage *x)
{
	x->generation = read_counter(x, "SELECT generation FROM counter WHERE id = 1");
	if (x->generation >= 0)
		return;
	/* The row is lost: the latest that has any rows. */
	(void)db_get_i64(x->from, "SELECT max(id) FROM segment", &x->generation, NULL);
	x->generation >>= SEGMENT_KEY_BITS;
}

static int copy_file(struct salvage *x, struct salvage_result *ret, struct err *err)
{
	int64_t next_id = read_counter(x, "SELECT next_profile FROM counter WHERE id = 1"),
		n_before = read_counter(x, "SELECT n_profiles FROM counter WHERE id = 1");

	find_generation(x);
	if (copy_all_series(x, err) < 0)
		return -1;
	x->lost_more |= n_before < 0 && x->index_damaged;
	n_before = MAX(MIN(n_before, (int64_t)(x->file_size / PROFILE_LEAST)), INT64_C(0));
	if (copy_profiles(x, next_id, (uint64_t)n_before, ret, err) < 0 || salvage_copy_segments(x, err) < 0)
		return -1;
	return end_copy(x, next_id, ret, err);
}

int salvage_copy(struct salvage *x, struct salvage_result *ret, struct err *err)
{
	*ret = (struct salvage_result){ 0 };
	if (db_begin(x->to, err) < 0)
		return -1;
	if (salvage_profiles_begin(x, err) < 0 || copy_file(x, ret, err) < 0) {
		db_rollback(x->to);
		return -1;
	}
	return db_commit(x->to, err);
}
