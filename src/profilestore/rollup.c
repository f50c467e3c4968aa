/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rollups: of each series one row for each past five minutes, hour, six hours and day. Shorter ones are made
 * first, and the longer ones from them.
 *
 * The grooming thread makes the sum from a snapshot of the database; the writer accepts it only if the number
 * of profiles has not changed: one that came late has invalidated the sum.
 */
#include "profilestore/internal.h"

#define GRACE_MS  30000 /* after the end of the time: profiles are sent after they end */
#define STEP_ROWS 64    /* of one step */
#define LEAST     2     /* profiles that are worth a rollup */

struct rollup {
	struct job job;
	struct series *x;
	int level;
	int64_t start_ms;
	uint64_t n_profiles;
	int64_t total, duration_ms, period, first_ms;
	uint64_t n_samples;
	struct buf data;
};

static int count_rollup(struct db *db, uint32_t series, int64_t from_ms, int64_t to_ms, uint64_t *ret,
			struct err *err)
{
	struct db_stmt *st;
	int64_t n = 0;

	if (db_prepare(db, "SELECT count(*) FROM profile WHERE series = ? AND time_ms >= ? AND time_ms < ?",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, series);
	db_bind_i64(st, 2, from_ms);
	db_bind_i64(st, 3, to_ms);
	if (db_step_i64(st, &n, err) < 0)
		return -1;
	*ret = (uint64_t)n;
	return 0;
}

static int insert_rollup(struct profilestore *s, const struct rollup *u, struct err *err)
{
	struct bytes data = buf_bytes(&u->data);
	struct db_stmt *st;

	if (db_prepare(s->db,
		       "INSERT INTO rollup (series, level, start_ms, n_profiles, total, n_samples, "
		       "duration_ms, period, "
		       "first_ms, digest, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, u->x->id);
	db_bind_i64(st, 2, u->level);
	db_bind_i64(st, 3, u->start_ms);
	db_bind_i64(st, 4, (int64_t)u->n_profiles);
	db_bind_i64(st, 5, u->total);
	db_bind_i64(st, 6, (int64_t)u->n_samples);
	db_bind_i64(st, 7, u->duration_ms);
	db_bind_i64(st, 8, u->period);
	db_bind_i64(st, 9, u->first_ms);
	db_bind_i64(st, 10, (int64_t)samples_digest(u->x->id, u->start_ms, u->duration_ms, data));
	db_bind_bytes(st, 11, data);
	return db_step(st, err);
}

static int rollup_apply(struct profilestore *s, struct job *j, struct err *err)
{
	struct rollup *u = CONTAINER_OF(j, struct rollup, job);
	int64_t end = u->start_ms + rollup_ms[u->level];
	uint64_t n = 0;

	if (count_rollup(s->db, u->x->id, u->start_ms, end, &n, err) < 0)
		return -1;
	if (n != u->n_profiles)
		return 0;
	if (insert_rollup(s, u, err) < 0)
		return -1;
	if (atomic_load(&u->x->rolled_ms) < end)
		atomic_store(&u->x->rolled_ms, end);
	return 0;
}

/* ---- missing rollups ---- */

static const char missing_sql[] = "SELECT time_ms / ?1, count(*) FROM profile WHERE series = ?2 AND "
				  "time_ms >= ?3 AND time_ms < ?4 "
				  "GROUP BY 1 HAVING count(*) >= ?5 AND NOT EXISTS (SELECT 1 FROM "
				  "rollup WHERE series = ?2 AND level = "
				  "?6 AND "
				  "start_ms = time_ms / ?1 * ?1) ORDER BY 1 LIMIT ?7";

/* The rollups of one level in [from, to). */
struct rollup_range {
	struct series *x;
	int level;
	int64_t from_ms, to_ms;
};

/* The starts of rollups that are due and missing, as many as there is room for. */
static int missing_rollups(struct db *db, const struct rollup_range *g, int64_t ret[STEP_ROWS], size_t *ret_n,
			   struct err *err)
{
	int64_t size = rollup_ms[g->level];
	struct db_stmt *st;
	size_t n = 0;
	int r;

	if (db_prepare(db, missing_sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, size);
	db_bind_i64(st, 2, g->x->id);
	db_bind_i64(st, 3, g->from_ms - g->from_ms % size);
	db_bind_i64(st, 4, g->to_ms - g->to_ms % size);
	db_bind_i64(st, 5, LEAST);
	db_bind_i64(st, 6, g->level);
	db_bind_i64(st, 7, STEP_ROWS);
	while ((r = db_step(st, err)) == DB_ROW)
		ret[n++] = db_i64(st, 0) * size;
	*ret_n = n;
	return r;
}

/* The sum of one rollup of @g's level; the snapshot ends before the rollup is written. */
static int read_rollup(struct profilestore *s, const struct rollup_range *g, int64_t start_ms,
		       struct sums *sums, struct err *err)
{
	struct series_read q = { .db = reader_take(s, err),
				 .x = g->x,
				 .from_ms = start_ms,
				 .to_ms = start_ms + rollup_ms[g->level],
				 .below = (unsigned)g->level,
				 .s = s };
	int r;

	sums_clear(sums);
	r = q.db ? series_sums(&q, sums, err) : -1;
	reader_give(s, q.db);
	return r;
}

static int make_rollup(struct profilestore *s, const struct rollup_range *g, int64_t start_ms,
		       struct sums *sums, struct err *err)
{
	struct rollup u = {
		.job = { .apply = rollup_apply }, .x = g->x, .level = g->level, .start_ms = start_ms
	};
	int r;

	if (read_rollup(s, g, start_ms, sums, err) < 0)
		return -1;
	u.n_profiles = sums->n_profiles;
	u.n_samples = sums->n_samples;
	u.total = sums->total;
	u.duration_ms = sums->duration_ms;
	u.period = sums->period;
	u.first_ms = sums->first_ms;
	sums_write(sums, &u.data);
	r = profilestore_writer_run(s, &u.job, err);
	buf_done(&u.data);
	return r;
}

static int make_level(struct profilestore *s, const struct rollup_range *g, struct sums *sums, bool *ret_more,
		      struct err *err)
{
	struct db *db = reader_take(s, err);
	int64_t starts[STEP_ROWS];
	size_t n = 0;
	int r = db ? missing_rollups(db, g, starts, &n, err) : -1;

	reader_give(s, db);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = make_rollup(s, g, starts[i], sums, err);
	*ret_more = n == STEP_ROWS;
	return r;
}

int rollup_groom(struct profilestore *s, struct series *x, struct sums *sums, bool *ret_more, struct err *err)
{
	int64_t from = atomic_load(&x->groom_ms), first = atomic_load(&x->first_ms),
		to = MIN(s->now_ms() - GRACE_MS, INT64_MAX / 2);

	*ret_more = false;
	from = MAX(from, first);
	if (first > atomic_load(&x->last_ms) || from > to - to % rollup_ms[0])
		return 0;
	/* A profile that comes from here on moves it back, if its time is before. */
	atomic_store(&x->groom_ms, to - to % rollup_ms[0]);
	for (int level = 0; level < ROLLUP_LEVELS && !*ret_more; level++)
		if (make_level(s, &(struct rollup_range){ x, level, from, to }, sums, ret_more, err) < 0) {
			series_groom_from(x, from);
			return -1;
		}
	if (*ret_more)
		series_groom_from(x, from);
	return 0;
}
