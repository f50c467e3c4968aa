/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention: profiles that are too old are deleted, and the oldest while there are too many bytes; by whole
 * hours, and a bounded number of rows in a step, so that writers do not wait long.
 */
#include "profilestore/internal.h"

#define HOUR_MS   3600000
#define STEP_ROWS 2000

struct expiry {
	struct job job;
	struct series *x;
	int64_t before_ms;
	uint64_t n;
	int64_t first_ms; /* of the oldest row that remains; INT64_MAX: none */
};

static int count_gone(struct profilestore *s, const struct expiry *e, uint64_t *ret_n, uint64_t *ret_samples,
		      struct err *err)
{
	struct db_stmt *st;
	int r;

	if (db_prepare(s->db,
		       "SELECT count(*), sum(n_samples) FROM (SELECT n_samples FROM profile WHERE series = ? "
		       "AND time_ms < ? "
		       "ORDER BY time_ms LIMIT ?)",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, e->x->id);
	db_bind_i64(st, 2, e->before_ms);
	db_bind_i64(st, 3, STEP_ROWS);
	r = db_step(st, err);
	if (r == DB_ROW) {
		*ret_n = (uint64_t)db_i64(st, 0);
		*ret_samples = (uint64_t)db_i64(st, 1);
	}
	db_reset(st);
	return r < 0 ? -1 : 0;
}

static int run_deletion(struct profilestore *s, const char *sql, const struct expiry *e, int64_t limit,
			struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(s->db, sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, e->x->id);
	db_bind_i64(st, 2, e->before_ms);
	if (limit)
		db_bind_i64(st, 3, limit);
	return db_step(st, err);
}

/* Rollups of deleted profiles are deleted first: also those that reach beyond the end. */
static const char drop_rollups_sql[] =
	"DELETE FROM rollup WHERE series = ?1 AND level IN (0, 1, 2, 3) AND start_ms < ?2";
static const char drop_profiles_sql[] = "DELETE FROM profile WHERE id IN (SELECT id FROM profile WHERE "
					"series = ? AND time_ms < ? ORDER BY time_ms LIMIT ?)";

static int find_first(struct profilestore *s, struct expiry *e, struct err *err)
{
	struct db_stmt *st;
	int r;

	e->first_ms = INT64_MAX;
	if (db_prepare(s->db, "SELECT time_ms FROM profile WHERE series = ? ORDER BY time_ms LIMIT 1", &st,
		       err) < 0)
		return -1;
	db_bind_i64(st, 1, e->x->id);
	r = db_step(st, err);
	if (r == DB_ROW)
		e->first_ms = db_i64(st, 0);
	db_reset(st);
	return r < 0 ? -1 : 0;
}

static int delete_apply(struct profilestore *s, struct job *j, struct err *err)
{
	struct expiry *e = CONTAINER_OF(j, struct expiry, job);
	uint64_t n_samples = 0;

	if (count_gone(s, e, &e->n, &n_samples, err) < 0)
		return -1;
	if (run_deletion(s, drop_rollups_sql, e, 0, err) < 0 ||
	    run_deletion(s, drop_profiles_sql, e, STEP_ROWS, err) < 0 || find_first(s, e, err) < 0 ||
	    db_exec(s->db, "PRAGMA incremental_vacuum(256)", err) < 0)
		return -1;
	atomic_fetch_sub(&s->n_profiles, MIN(e->n, atomic_load(&s->n_profiles)));
	atomic_fetch_sub(&s->n_samples, MIN(n_samples, atomic_load(&s->n_samples)));
	atomic_store(&e->x->first_ms, e->first_ms);
	if (e->first_ms == INT64_MAX)
		atomic_store(&e->x->last_ms, INT64_MIN);
	return 0;
}

static int expire_old(struct profilestore *s, struct series *x, int64_t before_ms, struct err *err)
{
	struct expiry e = { .job = { .apply = delete_apply }, .x = x, .before_ms = before_ms };

	if (profilestore_writer_run(s, &e.job, err) < 0)
		return -1;
	atomic_fetch_add(&s->n_expired, e.n);
	/* Rollups that reach beyond the deleted profiles are made again from the rest. */
	series_groom_from(x, before_ms);
	return 0;
}

/* The series with the oldest row. */
static struct series *oldest_rows(struct profilestore *s)
{
	struct series *found = NULL;
	uint32_t n = column_n(&s->series);

	for (uint32_t i = 0; i < n; i++) {
		struct series *x = *(struct series **)column_at(&s->series, i);

		if (!found || atomic_load(&x->first_ms) < atomic_load(&found->first_ms))
			found = x;
	}
	return found;
}

static int read_setting(struct db *db, const char *sql, int64_t *ret, struct err *err)
{
	struct db_stmt *st;
	int r;

	if (db_prepare(db, sql, &st, err) < 0)
		return -1;
	r = db_step(st, err);
	if (r == DB_ROW)
		*ret = db_i64(st, 0);
	db_reset(st);
	return r < 0 ? -1 : 0;
}

/*
 * Pages in use, except for the metadata store, which does not shrink when profiles are deleted. Free pages
 * are reused, and given back bit by bit.
 */
static int used_size(struct profilestore *s, uint64_t *ret, struct err *err)
{
	struct db *db = reader_take(s, err);
	int64_t pages = 0, free = 0, size = 0, metadata = 0;
	int r = db ? 0 : -1;

	if (r == 0 && (read_setting(db, "PRAGMA page_count", &pages, err) < 0 ||
		       read_setting(db, "PRAGMA freelist_count", &free, err) < 0 ||
		       read_setting(db, "PRAGMA page_size", &size, err) < 0 ||
		       read_setting(db, "SELECT sum(length(data)) FROM segment", &metadata, err) < 0))
		r = -1;
	reader_give(s, db);
	*ret = (uint64_t)MAX((pages - free) * size - metadata, INT64_C(0));
	return r;
}

int retain_groom(struct profilestore *s, bool *ret_more, struct err *err)
{
	struct series *x = oldest_rows(s);
	int64_t first = x ? atomic_load(&x->first_ms) : INT64_MAX, keep_ms = s->now_ms() - s->max_age_ms;
	uint64_t size;

	*ret_more = false;
	if (first == INT64_MAX)
		return 0;
	keep_ms -= keep_ms % HOUR_MS;
	if (s->max_age_ms && first < keep_ms) {
		*ret_more = true;
		return expire_old(s, x, keep_ms, err);
	}
	if (!s->max_size)
		return 0;
	if (used_size(s, &size, err) < 0)
		return -1;
	if (size <= s->max_size)
		return 0;
	*ret_more = true;
	return expire_old(s, x, first - first % HOUR_MS + HOUR_MS, err);
}
