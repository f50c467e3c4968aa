/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention: profiles that are too old are deleted, and the oldest while there are too many bytes; by whole
 * hours, and a bounded number of rows in a step, so that writers do not wait long. While the clock is doubted
 * (clock.c), nothing is too old.
 */
#include "profilestore/internal.h"

#include <inttypes.h>
#include <time.h>

#define HOUR_MS     3600000
#define DAY_MS      (24 * HOUR_MS)
#define STEP_ROWS   2000
#define STEP_SERIES 512u

/* Rows from @from_ms to before @before_ms, with numbers up to @to_id. */
struct expiry_rows {
	int64_t from_ms, before_ms, to_id;
};

/* The rows of some series that are to go, at most STEP_ROWS. */
struct expiry {
	struct job job;
	struct expiry_rows rows;
	struct series *v[STEP_SERIES];
	/* of the rows that remain; INT64_MAX, INT64_MIN: none */
	int64_t first_ms[STEP_SERIES], last_ms[STEP_SERIES];
	size_t n_series, n_done;
	uint64_t n_samples;
	struct expired gone;
};

/* The deletions in one series. */
struct series_expiry {
	const struct series *x;
	struct expiry_rows rows;
	int64_t limit;
	uint64_t n_samples;
	struct expired gone;
	int64_t first_ms, last_ms;
};

static void expiry_bind(struct db_stmt *st, const struct series_expiry *e)
{
	db_bind_i64(st, 1, e->x->id);
	db_bind_i64(st, 2, e->rows.from_ms);
	db_bind_i64(st, 3, e->rows.before_ms);
	db_bind_i64(st, 4, e->rows.to_id);
	db_bind_i64(st, 5, e->limit);
}

static int count_gone(struct profilestore *s, struct series_expiry *e, struct err *err)
{
	struct db_stmt *st;
	int r;

	if (db_prepare(s->db,
		       "SELECT count(*), sum(n_samples), sum(size), min(time_ms), max(time_ms), max(id) FROM "
		       "(SELECT n_samples, length(data) AS size, time_ms, id FROM profile WHERE series = ? "
		       "AND time_ms >= ? AND time_ms < ? AND id <= ? ORDER BY time_ms LIMIT ?)",
		       &st, err) < 0)
		return -1;
	expiry_bind(st, e);
	r = db_step(st, err);
	if (r == DB_ROW) {
		e->gone.n = (uint64_t)db_i64(st, 0);
		e->n_samples = (uint64_t)db_i64(st, 1);
		e->gone.bytes = (uint64_t)db_i64(st, 2);
		e->gone.first_ms = db_i64(st, 3);
		e->gone.last_ms = db_i64(st, 4);
		e->gone.last_id = db_i64(st, 5);
	}
	db_reset(st);
	return r < 0 ? -1 : 0;
}

static int run_deletion(struct profilestore *s, const char *sql, const struct series_expiry *e,
			struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(s->db, sql, &st, err) < 0)
		return -1;
	expiry_bind(st, e);
	return db_step(st, err);
}

/* Rollups of deleted profiles are deleted first: also those that reach beyond the end. */
static const char drop_rollups_sql[] =
	"DELETE FROM rollup WHERE series = ?1 AND level IN (0, 1, 2, 3) AND start_ms > ?2 - 86400000 AND "
	"start_ms < ?3 AND ?4 AND ?5";
static const char drop_profiles_sql[] = "DELETE FROM profile WHERE id IN (SELECT id FROM profile WHERE "
					"series = ? AND time_ms >= ? AND time_ms < ? AND id <= ? ORDER BY "
					"time_ms LIMIT ?)";

static int find_time(struct profilestore *s, const char *sql, const struct series *x, int64_t *ret,
		     struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(s->db, sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, x->id);
	return db_step_i64(st, ret, err) < 0 ? -1 : 0;
}

static int find_remaining(struct profilestore *s, struct series_expiry *e, struct err *err)
{
	e->first_ms = INT64_MAX;
	e->last_ms = INT64_MIN;
	if (find_time(s, "SELECT time_ms FROM profile WHERE series = ? ORDER BY time_ms LIMIT 1", e->x,
		      &e->first_ms, err) < 0)
		return -1;
	return find_time(s, "SELECT time_ms FROM profile WHERE series = ? ORDER BY time_ms DESC LIMIT 1",
			 e->x, &e->last_ms, err);
}

static int delete_of_series(struct profilestore *s, struct series_expiry *e, struct err *err)
{
	if (count_gone(s, e, err) < 0 || run_deletion(s, drop_rollups_sql, e, err) < 0)
		return -1;
	return run_deletion(s, drop_profiles_sql, e, err) < 0 || find_remaining(s, e, err) < 0 ? -1 : 0;
}

/* ---- the log ---- */

static void expired_add(struct expired *sum, const struct expired *gone)
{
	if (!gone->n)
		return;
	sum->first_ms = sum->n ? MIN(sum->first_ms, gone->first_ms) : gone->first_ms;
	sum->last_ms = sum->n ? MAX(sum->last_ms, gone->last_ms) : gone->last_ms;
	sum->n += gone->n;
	sum->bytes += gone->bytes;
	sum->last_id = MAX(sum->last_id, gone->last_id);
}

static const char *expired_time(int64_t ms, char text[32])
{
	time_t t = (time_t)(ms / 1000);
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
		text[0] = '\0';
	return text;
}

/* Log the deletions, once there is no more to delete. */
static void expired_tell(struct profilestore *s)
{
	struct expired *x = &s->expired;
	char first[32], last[32];

	if (!x->n)
		return;
	store_notice(s, LOG_INFO, "deleted %" PRIu64 " profiles from %s to %s, %" PRIu64 " bytes: %s", x->n,
		     expired_time(x->first_ms, first), expired_time(x->last_ms, last), x->bytes,
		     x->for_room ? "the oldest, to make room" : "they were too old");
	*x = (struct expired){ .last_id = x->last_id };
}

/* ---- steps ---- */

static int delete_apply(struct profilestore *s, struct job *j, struct err *err)
{
	struct expiry *e = CONTAINER_OF(j, struct expiry, job);

	for (; e->n_done < e->n_series && e->gone.n < STEP_ROWS; e->n_done++) {
		struct series_expiry one = { .x = e->v[e->n_done],
					     .rows = e->rows,
					     .limit = STEP_ROWS - (int64_t)e->gone.n };

		if (delete_of_series(s, &one, err) < 0)
			return -1;
		expired_add(&e->gone, &one.gone);
		e->n_samples += one.n_samples;
		e->first_ms[e->n_done] = one.first_ms;
		e->last_ms[e->n_done] = one.last_ms;
	}
	if (db_exec(s->db, "PRAGMA incremental_vacuum(256)", err) < 0)
		return -1;
	atomic_fetch_sub(&s->n_profiles, MIN(e->gone.n, atomic_load(&s->n_profiles)));
	atomic_fetch_sub(&s->n_samples, MIN(e->n_samples, atomic_load(&s->n_samples)));
	return 0;
}

/* Not before the commit: if that fails the profiles are still there, and must be within the bounds of their series. */
static void delete_done(struct profilestore *s, struct job *j, const struct err *err)
{
	struct expiry *e = CONTAINER_OF(j, struct expiry, job);

	(void)s;
	for (size_t i = 0; !err && i < e->n_done; i++) {
		atomic_store(&e->v[i]->first_ms, e->first_ms[i]);
		atomic_store(&e->v[i]->last_ms, e->last_ms[i]);
	}
}

static int expire_rows(struct profilestore *s, const struct expiry_rows *rows, uint64_t *ret_n,
		       struct err *err)
{
	/* Alone: a profile that came in the same transaction would be outside of the bounds. */
	struct expiry e = { .job = { .apply = delete_apply, .done = delete_done, .alone = true },
			    .rows = *rows };
	uint32_t n = column_n(&s->series);

	*ret_n = 0;
	for (uint32_t i = 0; i < n && e.n_series < STEP_SERIES; i++) {
		struct series *x = series_at(&s->series, i);

		if (x && atomic_load(&x->first_ms) < rows->before_ms &&
		    atomic_load(&x->last_ms) >= rows->from_ms)
			e.v[e.n_series++] = x;
	}
	if (!e.n_series)
		return 0;
	if (profilestore_writer_run(s, &e.job, err) < 0)
		return -1;
	atomic_fetch_add(&s->n_expired, e.gone.n);
	atomic_fetch_add(&s->n_samples_expired, e.n_samples);
	expired_add(&s->expired, &e.gone);
	*ret_n = e.gone.n;
	/* Rollups that reach beyond the deleted profiles are made again from the rest. */
	for (size_t i = 0; i < e.n_done; i++)
		series_groom_from(e.v[i], rows->from_ms > 0 ? rows->from_ms - DAY_MS : rows->before_ms);
	return 0;
}

int expire_before(struct profilestore *s, int64_t before_ms, bool for_room, uint64_t *ret_n, struct err *err)
{
	s->expired.for_room |= for_room;
	return expire_rows(s, &(struct expiry_rows){ INT64_MIN / 2, before_ms, INT64_MAX }, ret_n, err);
}

int expire_oldest(struct profilestore *s, const struct series_span *span, int64_t keep_ms, uint64_t *ret_n,
		  struct err *err)
{
	int64_t first = span->first_ms;

	return expire_before(s, MIN(first - first % HOUR_MS + HOUR_MS, keep_ms), true, ret_n, err);
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

	if (r == 0 && (db_get_i64(db, "PRAGMA page_count", &pages, err) < 0 ||
		       db_get_i64(db, "PRAGMA freelist_count", &free, err) < 0 ||
		       db_get_i64(db, "PRAGMA page_size", &size, err) < 0 ||
		       db_get_i64(db, "SELECT sum(length(data)) FROM segment", &metadata, err) < 0))
		r = -1;
	reader_give(s, db);
	*ret = (uint64_t)MAX((pages - free) * size - metadata, INT64_C(0));
	return r;
}

static int retain_step(struct profilestore *s, const struct age_time *t, const struct series_span *span,
		       bool *ret_more, struct err *err)
{
	int64_t first = span->first_ms, keep_ms = t->now_ms - s->max_age_ms, last_ms;
	uint64_t size, n;

	*ret_more = false;
	if (first == INT64_MAX) {
		/* The profiles that filled the store have become too old. */
		atomic_store(&s->room.over_size, false);
		return 0;
	}
	keep_ms -= keep_ms % HOUR_MS;
	if (s->max_age_ms && !t->doubted && first < keep_ms) {
		*ret_more = true;
		return expire_before(s, keep_ms, false, &n, err);
	}
	if (!s->max_size)
		return 0;
	if (used_size(s, &size, err) < 0)
		return -1;
	last_ms = room_keep_ms(t->now_ms);
	atomic_store(&s->room.over_size, size > s->max_size && first >= last_ms);
	if (size <= s->max_size || first >= last_ms)
		return 0;
	*ret_more = true;
	return expire_oldest(s, span, last_ms, &n, err);
}

/*
 * Profiles from the future, which came when a clock was wrong, would stay for ever. They are deleted together
 * with those that came at the same time.
 */
static int expire_future(struct profilestore *s, int64_t now_ms, const struct series_span *span,
			 bool *ret_more, struct err *err)
{
	int64_t future_ms = now_ms + 2 * PROFILESTORE_MAX_AHEAD_MS;
	uint64_t n = 0;
	int r;

	if (!s->expired.last_id || span->last_ms < future_ms)
		return 0;
	r = expire_rows(s, &(struct expiry_rows){ future_ms, INT64_MAX, s->expired.last_id }, &n, err);
	*ret_more = n > 0;
	return r;
}

int retain_groom(struct profilestore *s, bool *ret_more, struct err *err)
{
	const struct age_time t = store_time(s);
	const struct series_span span = series_span(s);

	if (retain_step(s, &t, &span, ret_more, err) < 0)
		return -1;
	if (!*ret_more && !t.doubted && expire_future(s, t.now_ms, &span, ret_more, err) < 0)
		return -1;
	/* Room is made in many steps: one line tells of all of them. */
	if (!*ret_more && !atomic_load(&s->room.wanted))
		expired_tell(s);
	return 0;
}
