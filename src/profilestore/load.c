/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the store back into memory: the metadata store, series, counters. Profiles stay on disk. */
#include "profilestore/internal.h"

#include <errno.h>

static int load_counters(struct profilestore *s, struct err *err)
{
	struct db_stmt *st;
	int r;

	if (db_prepare(s->db,
		       "SELECT next_profile, n_profiles, n_samples, generation FROM counter WHERE id = 1",
		       &st, err) < 0)
		return -1;
	r = db_step(st, err);
	if (r < 0)
		return -1;
	if (r != DB_ROW)
		return err_set(err, ERR_DAMAGED, "the row of counter is missing");
	s->next_id = db_i64(st, 0);
	atomic_store(&s->n_profiles, (uint64_t)db_i64(st, 1));
	atomic_store(&s->n_samples, (uint64_t)db_i64(st, 2));
	s->meta->generation = (uint32_t)db_i64(st, 3);
	db_reset(st);
	return 0;
}

/*
 * The times of all series, in the order of their numbers: their first and last profiles, and the ends of their last
 * rollups. The rows of an index are in that order, too. A series of few rows is read row by row, which takes a tenth
 * of a look-up in an index; one of many by two look-ups.
 */
static const char passed_times_sql[] =
	"SELECT series, min(time_ms), max(time_ms) FROM profile INDEXED BY profile_at GROUP BY series";
static const char sought_times_sql[] =
	"SELECT id, (SELECT min(time_ms) FROM profile WHERE series = s.id), "
	"(SELECT max(time_ms) FROM profile WHERE series = s.id) FROM series AS s ORDER BY id";
static const char passed_rollups_sql[] =
	"SELECT series, max(CASE level WHEN 0 THEN start_ms + ?1 WHEN 1 THEN start_ms + ?2 WHEN 2 THEN "
	"start_ms + ?3 "
	"ELSE start_ms + ?4 END) FROM rollup INDEXED BY rollup_at GROUP BY series";
static const char sought_rollups_sql[] =
	"SELECT id, (SELECT max(start_ms) + ?1 FROM rollup WHERE series = s.id AND level = 0), "
	"(SELECT max(start_ms) + ?2 FROM rollup WHERE series = s.id AND level = 1), "
	"(SELECT max(start_ms) + ?3 FROM rollup WHERE series = s.id AND level = 2), "
	"(SELECT max(start_ms) + ?4 FROM rollup WHERE series = s.id AND level = 3) FROM series AS s ORDER BY "
	"id";

#define ROWS_OF_PASS 20 /* of one series, on average: with more, look-ups are faster */

static int take_times(struct series *x, struct db_stmt *st, struct err *err)
{
	int64_t first = db_is_null(st, 1) ? INT64_MAX : db_i64(st, 1),
		last = db_is_null(st, 2) ? INT64_MIN : db_i64(st, 2);

	if (first < 0 || last > INT64_MAX / 2)
		return err_set(err, ERR_DAMAGED, "times of series %u are damaged", x->id);
	atomic_store(&x->first_ms, first);
	atomic_store(&x->last_ms, last);
	return 0;
}

static int take_rolled(struct series *x, struct db_stmt *st, struct err *err)
{
	int64_t rolled = INT64_MIN;

	(void)err;
	for (int col = 1; col <= ROLLUP_LEVELS; col++)
		if (!db_is_null(st, col))
			rolled = MAX(rolled, db_i64(st, col));
	atomic_store(&x->rolled_ms, rolled);
	return 0;
}

/* Call @take for each row of @sql that is of a series; both are sorted by its number. */
static int each_times(struct profilestore *s, const char *sql, bool rollups,
		      int (*take)(struct series *x, struct db_stmt *st, struct err *err), struct err *err)
{
	uint32_t i = 0, n = column_n(&s->series);
	struct db_stmt *st;
	int r;

	if (db_prepare(s->db, sql, &st, err) < 0)
		return -1;
	for (int level = 0; rollups && level < ROLLUP_LEVELS; level++)
		db_bind_i64(st, level + 1, rollup_ms[level]);
	while ((r = db_step(st, err)) == DB_ROW) {
		int64_t id = db_i64(st, 0);

		while (i < n && series_at(&s->series, i)->id < id)
			i++;
		if (i < n && series_at(&s->series, i)->id == id &&
		    take(series_at(&s->series, i), st, err) < 0) {
			db_reset(st);
			return -1;
		}
	}
	return r;
}

static int load_times(struct profilestore *s, struct err *err)
{
	uint64_t few = (uint64_t)column_n(&s->series) * ROWS_OF_PASS;
	int64_t n_rollups = 0;

	if (db_get_i64(s->db, "SELECT max(id) FROM rollup", &n_rollups, err) < 0 ||
	    each_times(s, atomic_load(&s->n_profiles) <= few ? passed_times_sql : sought_times_sql, false,
		       take_times, err) < 0)
		return -1;
	return each_times(s, (uint64_t)n_rollups <= few ? passed_rollups_sql : sought_rollups_sql, true,
			  take_rolled, err);
}

static int load_series(struct profilestore *s, struct err *err)
{
	struct db_stmt *st;
	int r;

	if (db_prepare(s->db, "SELECT id, key, sender FROM series ORDER BY id", &st, err) < 0)
		return -1;
	while ((r = db_step(st, err)) == DB_ROW) {
		struct bytes key = db_bytes(st, 1);
		struct series *x;
		int64_t id = db_i64(st, 0);

		if (id < s->next_series || id >= UINT32_MAX || map_get(&s->series_by_key, key))
			return err_set(err, ERR_DAMAGED, "series %lld is damaged", (long long)id);
		x = series_of_key(key, (uint32_t)id, err);
		if (!x)
			return -1;
		x->sender = sender_of(s, db_str(st, 2));
		if (!series_put(s, x)) {
			series_free(x);
			return err_os(err, ENOMEM, "the series");
		}
		x->saved = true;
		s->next_series = (uint32_t)id + 1;
	}
	return r < 0 ? -1 : load_times(s, err);
}

/*
 * A series without profiles is forgotten: its labels may never come again. If no profile is left at all, the
 * metadata store is cleared too, since no number refers to it any more.
 */
static int forget_loaded(struct profilestore *s, struct err *err)
{
	return db_exec(s->db,
		       "BEGIN IMMEDIATE;"
		       "DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM profile WHERE profile.series = "
		       "series.id);"
		       "DELETE FROM segment WHERE NOT EXISTS (SELECT 1 FROM profile);"
		       "DELETE FROM naming WHERE NOT EXISTS (SELECT 1 FROM profile);"
		       "COMMIT",
		       err);
}

int profilestore_load(struct profilestore *s, struct err *err)
{
	uint64_t limit = s->meta->max_memory;

	/* Metadata that was within the limit when it was written is read, whatever the limit is now. */
	s->meta->max_memory = UINT64_MAX;
	if (forget_loaded(s, err) < 0 || load_counters(s, err) < 0 || segments_load(s, s->db, err) < 0 ||
	    senders_load(s, err) < 0 || load_series(s, err) < 0)
		return -1;
	s->meta->max_memory = limit;
	return 0;
}
