/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sound rows of a damaged database, in a new one. The damaged one is read without the digests of pages, since a
 * page with one wrong byte still has many rows; each row that is taken has a digest of its own, except for series.
 * Totals are computed anew. Grooming makes rollups again, and locations without names are named again.
 */
#include "profilestore/salvage_internal.h"

#include "base/leb.h"

struct profile_sums {
	uint64_t n, last_stack;
	int64_t total;
};

/* Add up a row of samples; false: it is damaged. */
static bool add_up_samples(struct salvage *x, struct bytes data, struct profile_sums *ret)
{
	struct cursor c = cursor_of(data);
	uint64_t n = cursor_uleb(&c), unit = cursor_uleb(&c), stack = 0;

	*ret = (struct profile_sums){ .n = n };
	for (uint64_t i = 0; i < n && cursor_ok(&c); i++) {
		stack += cursor_uleb(&c);
		salvage_need_stack(x, stack);
		ret->total = add_saturating(ret->total,
					    (int64_t)((uint64_t)unzigzag(cursor_uleb(&c)) * unit));
	}
	ret->last_stack = stack;
	return cursor_ok(&c) && !cursor_left(&c) && stack < SALVAGE_MAX_ENTRIES;
}

int salvage_put_profile(struct salvage *x, const struct salvage_profile *p, struct err *err)
{
	struct profile_sums sums;
	struct db_stmt *in;

	if (p->series <= 0 || p->series > UINT32_MAX || p->time_ms < 0 ||
	    (uint64_t)p->digest != samples_digest((uint32_t)p->series, p->time_ms, p->duration_ms, p->data) ||
	    !add_up_samples(x, p->data, &sums)) {
		x->n_lost++;
		x->damaged = true;
		return 0;
	}
	salvage_need_stacks_to(x, sums.last_stack);
	if (db_prepare(x->to, "INSERT OR IGNORE INTO profile VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", &in, err) <
	    0)
		return -1;
	db_bind_i64(in, 1, p->id);
	db_bind_i64(in, 2, p->series);
	db_bind_i64(in, 3, p->time_ms);
	db_bind_i64(in, 4, p->duration_ms);
	db_bind_i64(in, 5, sums.total);
	db_bind_i64(in, 6, (int64_t)sums.n);
	db_bind_i64(in, 7, p->period);
	db_bind_i64(in, 8, p->digest);
	db_bind_bytes(in, 9, p->data);
	x->last_id = MAX(x->last_id, p->id);
	return db_step(in, err);
}

int salvage_copy_profile(struct salvage *x, struct db_stmt *st, struct err *err)
{
	const struct salvage_profile p = { db_i64(st, 0), db_i64(st, 1), db_i64(st, 2),  db_i64(st, 3),
					   db_i64(st, 4), db_i64(st, 5), db_bytes(st, 6) };

	return salvage_put_profile(x, &p, err);
}

bool salvage_raw_profile(const struct db_raw_row *row, struct salvage_profile *ret)
{
	/* As in the schema; the first column is the number of the row. */
	enum { SERIES = 1, TIME, DURATION, TOTAL, N_SAMPLES, PERIOD, DIGEST, DATA, N };

	if (row->n != N || row->id <= 0 || row->v[DATA].kind != DB_RAW_BYTES)
		return false;
	for (int i = SERIES; i < DATA; i++)
		if (row->v[i].kind != DB_RAW_INTEGER)
			return false;
	*ret = (struct salvage_profile){ row->id,          row->v[SERIES].i,
					 row->v[TIME].i,   row->v[DURATION].i,
					 row->v[PERIOD].i, row->v[DIGEST].i,
					 row->v[DATA].b };
	return true;
}

static int copy_series(struct salvage *x, struct db_stmt *st, struct err *err)
{
	int64_t id = db_i64(st, 0);
	struct bytes key = db_bytes(st, 1);
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

/* ---- all of it ---- */

static int end_copy(struct salvage *x, struct err *err)
{
	int64_t n_without = 0, n = 0, before = 0;

	/* For numbers of profiles, that of a profile that is lost is not used again. */
	(void)db_get_i64(x->from, "SELECT next_profile FROM counter WHERE id = 1", &before, NULL);
	if (db_get_i64(x->to, "SELECT count(*) FROM profile WHERE series NOT IN (SELECT id FROM series)",
		       &n_without, err) < 0 ||
	    db_exec(x->to,
		    "DELETE FROM profile WHERE series NOT IN (SELECT id FROM series);"
		    "UPDATE counter SET n_profiles = (SELECT count(*) FROM profile),"
		    " n_samples = (SELECT ifnull(sum(n_samples), 0) FROM profile),"
		    " next_profile = 1 + (SELECT ifnull(max(id), 0) FROM profile)",
		    err) < 0 ||
	    db_get_i64(x->to, "SELECT n_profiles FROM counter", &n, err) < 0)
		return -1;
	x->n_lost += (uint64_t)n_without;
	x->n_profiles = (uint64_t)n;
	if (before > x->last_id && before < x->last_id + (1 << 30)) {
		/* Numbers were given in order: those that are missing at the end are lost. */
		x->n_lost += (uint64_t)(before - x->last_id - 1);
		return db_exec_i64(x->to, "UPDATE counter SET next_profile = ?", before, err);
	}
	return 0;
}

static void find_generation(struct salvage *x)
{
	if (db_get_i64(x->from, "SELECT generation FROM counter WHERE id = 1", &x->generation, NULL) == 0 &&
	    x->generation >= 0)
		return;
	/* The row is lost: the latest that has any rows. */
	(void)db_get_i64(x->from, "SELECT max(id) FROM segment", &x->generation, NULL);
	x->generation >>= SEGMENT_KEY_BITS;
}

int salvage_copy(struct salvage *x, struct err *err)
{
	if (db_begin(x->to, err) < 0)
		return -1;
	if (x->from)
		find_generation(x);
	if (x->from && (salvage_each_row(x, SALVAGE_PROFILES_SQL, salvage_copy_profile, err) < 0 ||
			salvage_each_row(x, "SELECT id, key FROM series WHERE id >= ? ORDER BY id",
					 copy_series, err) < 0 ||
			salvage_copy_segments(x, err) < 0 || end_copy(x, err) < 0)) {
		db_rollback(x->to);
		return -1;
	}
	return db_commit(x->to, err);
}
