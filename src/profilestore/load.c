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

/* The first column of the first row, if there is one. */
static int read_number_setting(struct db *db, const char *sql, int64_t series, int64_t level, int64_t *ret,
			       struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(db, sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, series);
	if (level >= 0)
		db_bind_i64(st, 2, level);
	return db_step_i64(st, ret, err);
}

/*
 * The times of a series' first and last profiles and rollups: two look-ups in an index, however many there
 * are.
 */
static int load_times(struct profilestore *s, struct series *x, struct err *err)
{
	int64_t first = INT64_MAX, last = INT64_MIN, rolled = INT64_MIN;

	if (read_number_setting(s->db,
				"SELECT time_ms FROM profile WHERE series = ? ORDER BY time_ms LIMIT 1",
				x->id, -1, &first, err) < 0 ||
	    read_number_setting(s->db,
				"SELECT time_ms FROM profile WHERE series = ? ORDER BY time_ms DESC LIMIT 1",
				x->id, -1, &last, err) < 0)
		return -1;
	for (int level = 0; level < ROLLUP_LEVELS; level++) {
		int64_t start = INT64_MIN;
		int r = read_number_setting(
			s->db,
			"SELECT start_ms FROM rollup WHERE series = ? AND level = ? ORDER BY start_ms "
			"DESC LIMIT 1",
			x->id, level, &start, err);

		if (r < 0)
			return -1;
		if (r == DB_ROW)
			rolled = MAX(rolled, start + rollup_ms[level]);
	}
	if (first < 0 || last > INT64_MAX / 2)
		return err_set(err, ERR_DAMAGED, "times of series %u are damaged", x->id);
	atomic_store(&x->first_ms, first);
	atomic_store(&x->last_ms, last);
	atomic_store(&x->rolled_ms, rolled);
	return 0;
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
		x->sender = sender_of(s,
				      (struct str){ (const char *)db_bytes(st, 2).p, db_bytes(st, 2).size });
		if (!series_put(s, x)) {
			series_free(x);
			return err_os(err, ENOMEM, "the series");
		}
		x->saved = true;
		s->next_series = (uint32_t)id + 1;
	}
	for (uint32_t i = 0; r == 0 && i < column_n(&s->series); i++)
		r = load_times(s, series_at(&s->series, i), err);
	return r;
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
