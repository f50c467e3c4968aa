/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention: profiles that are too old are deleted, and the oldest while there are too many bytes; by whole
 * hours, and a bounded number of rows in a step, so that writers do not wait long.
 */
#include "profilestore/internal.h"

#define HOUR_MS     3600000
#define STEP_ROWS   2000
#define STEP_SERIES 512u

/* The rows of some series that are older than @before_ms, at most STEP_ROWS. */
struct expiry {
	struct job job;
	int64_t before_ms;
	struct series *v[STEP_SERIES];
	int64_t first_ms[STEP_SERIES]; /* of the oldest row that remains; INT64_MAX: none */
	size_t n_series, n_done;
	uint64_t n, n_samples;
};

/* What is deleted of one series. */
struct series_expiry {
	const struct series *x;
	int64_t before_ms, limit;
	uint64_t n, n_samples;
	int64_t first_ms;
};

static int count_gone(struct profilestore *s, struct series_expiry *e, struct err *err)
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
	db_bind_i64(st, 3, e->limit);
	r = db_step(st, err);
	if (r == DB_ROW) {
		e->n = (uint64_t)db_i64(st, 0);
		e->n_samples = (uint64_t)db_i64(st, 1);
	}
	db_reset(st);
	return r < 0 ? -1 : 0;
}

static int run_deletion(struct profilestore *s, const char *sql, const struct series_expiry *e, int64_t limit,
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

static int find_first(struct profilestore *s, struct series_expiry *e, struct err *err)
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

static int delete_of_series(struct profilestore *s, struct series_expiry *e, struct err *err)
{
	if (count_gone(s, e, err) < 0 || run_deletion(s, drop_rollups_sql, e, 0, err) < 0)
		return -1;
	return run_deletion(s, drop_profiles_sql, e, e->limit, err) < 0 || find_first(s, e, err) < 0 ? -1 : 0;
}

static int delete_apply(struct profilestore *s, struct job *j, struct err *err)
{
	struct expiry *e = CONTAINER_OF(j, struct expiry, job);

	for (; e->n_done < e->n_series && e->n < STEP_ROWS; e->n_done++) {
		struct series_expiry one = { .x = e->v[e->n_done],
					     .before_ms = e->before_ms,
					     .limit = STEP_ROWS - (int64_t)e->n };

		if (delete_of_series(s, &one, err) < 0)
			return -1;
		e->n += one.n;
		e->n_samples += one.n_samples;
		e->first_ms[e->n_done] = one.first_ms;
	}
	if (db_exec(s->db, "PRAGMA incremental_vacuum(256)", err) < 0)
		return -1;
	atomic_fetch_sub(&s->n_profiles, MIN(e->n, atomic_load(&s->n_profiles)));
	atomic_fetch_sub(&s->n_samples, MIN(e->n_samples, atomic_load(&s->n_samples)));
	for (size_t i = 0; i < e->n_done; i++) {
		atomic_store(&e->v[i]->first_ms, e->first_ms[i]);
		if (e->first_ms[i] == INT64_MAX)
			atomic_store(&e->v[i]->last_ms, INT64_MIN);
	}
	return 0;
}

int expire_before(struct profilestore *s, int64_t before_ms, uint64_t *ret_n, struct err *err)
{
	struct expiry e = { .job = { .apply = delete_apply }, .before_ms = before_ms };
	uint32_t n = column_n(&s->series);

	*ret_n = 0;
	for (uint32_t i = 0; i < n && e.n_series < STEP_SERIES; i++) {
		struct series *x = series_at(&s->series, i);

		if (x && atomic_load(&x->first_ms) < before_ms)
			e.v[e.n_series++] = x;
	}
	if (!e.n_series)
		return 0;
	if (profilestore_writer_run(s, &e.job, err) < 0)
		return -1;
	atomic_fetch_add(&s->n_expired, e.n);
	*ret_n = e.n;
	/* Rollups that reach beyond the deleted profiles are made again from the rest. */
	for (size_t i = 0; i < e.n_done; i++)
		series_groom_from(e.v[i], before_ms);
	return 0;
}

int64_t oldest_row_ms(const struct profilestore *s)
{
	int64_t oldest = INT64_MAX;
	uint32_t n = column_n(&s->series);

	for (uint32_t i = 0; i < n; i++) {
		const struct series *x = series_at(&s->series, i);

		if (x)
			oldest = MIN(oldest, atomic_load(&x->first_ms));
	}
	return oldest;
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
	int64_t first = oldest_row_ms(s), keep_ms = s->now_ms() - s->max_age_ms;
	uint64_t size, n;

	*ret_more = false;
	if (first == INT64_MAX)
		return 0;
	keep_ms -= keep_ms % HOUR_MS;
	if (s->max_age_ms && first < keep_ms) {
		*ret_more = true;
		return expire_before(s, keep_ms, &n, err);
	}
	if (!s->max_size)
		return 0;
	if (used_size(s, &size, err) < 0)
		return -1;
	if (size <= s->max_size)
		return 0;
	*ret_more = true;
	return expire_before(s, first - first % HOUR_MS + HOUR_MS, &n, err);
}
