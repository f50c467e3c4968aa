/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mending one damaged page, or row, in one transaction of the writer's thread.
 *
 * Pages are not compared with their digests meanwhile: a page with one wrong byte still has many rows. A profile is
 * sound if its own digest is right, its sums are those of its samples, and the index has it. Sound rows of the page are
 * deleted and inserted again, which writes the page, and with it its digest.
 */
#include "profilestore/damage.h"
#include "profilestore/internal.h"
#include "profilestore/names_internal.h"
#include "profilestore/sweep.h"

#include <stdlib.h>
#include "base/leb.h"
#include "base/vec.h"

/* An index of a larger database is not built anew while the store is in use: intake would wait for seconds. */
#define INDEX_MAX    MIB(512)
#define METADATA_MAX MIB(128) /* the same for the metadata store */

/* The columns of a table, for a row that is written again. */
#define PROFILE_COLUMNS_SQL "series, time_ms, duration_ms, total, n_samples, period, digest, data"
enum { COL_SERIES, COL_TIME, COL_DURATION, COL_TOTAL, COL_N_SAMPLES, COL_PERIOD, COL_DIGEST, COL_DATA };

#define PROFILE_INDEX_SQL "REINDEX profile_at"
#define ROLLUP_INDEX_SQL  "REINDEX rollup_at"

struct mend {
	struct profilestore *s;
	struct mended *ret;
	size_t room;
	bool reindex; /* the index does not have a row as the table has it */
};

/* ---- profiles ---- */

static bool samples_are_sound(struct db_stmt *st)
{
	struct bytes data = db_bytes(st, COL_DATA);
	struct cursor c = cursor_of(data);
	uint64_t n = cursor_uleb(&c), unit = cursor_uleb(&c);
	int64_t series = db_i64(st, COL_SERIES), total = 0;

	if (series <= 0 || series > UINT32_MAX ||
	    (uint64_t)db_i64(st, COL_DIGEST) !=
		    samples_digest((uint32_t)series, db_i64(st, COL_TIME), db_i64(st, COL_DURATION), data))
		return false;
	for (uint64_t i = 0; i < n && cursor_ok(&c); i++) {
		(void)cursor_uleb(&c);
		total = add_saturating(total, (int64_t)((uint64_t)unzigzag(cursor_uleb(&c)) * unit));
	}
	return cursor_ok(&c) && total == db_i64(st, COL_TOTAL) && n == (uint64_t)db_i64(st, COL_N_SAMPLES);
}

/* 1: the index of profiles has this row. */
static int is_in_index(struct profilestore *s, int64_t id, const struct lost_profile *x, int64_t total,
		       struct err *err)
{
	struct db_stmt *st;
	int64_t one;

	if (db_prepare(s->db,
		       "SELECT 1 FROM profile INDEXED BY profile_at WHERE series = ? AND time_ms = ? AND "
		       "total = ? AND "
		       "id = ?",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, x->series);
	db_bind_i64(st, 2, x->time_ms);
	db_bind_i64(st, 3, total);
	db_bind_i64(st, 4, id);
	return db_step_i64(st, &one, err);
}

/* The series and time that the index has for a row. */
static int find_in_index(struct profilestore *s, int64_t id, struct lost_profile *ret, struct err *err)
{
	struct db_stmt *st;
	int r;

	*ret = (struct lost_profile){ 0, INT64_MIN };
	if (db_prepare(s->db, "SELECT series, time_ms FROM profile INDEXED BY profile_at WHERE id = ?", &st,
		       err) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	r = db_step(st, err);
	if (r == DB_ROW)
		*ret = (struct lost_profile){ (uint32_t)db_i64(st, 0), db_i64(st, 1) };
	db_reset(st);
	return r < 0 ? -1 : 0;
}

static int delete_profile(struct profilestore *s, int64_t id, struct err *err)
{
	return db_exec_i64(s->db, "DELETE FROM profile WHERE id = ?", id, err);
}

/* 1: it is there and sound; 0: there is no such row, or it is in @ret->lost now. */
static int judge_profile(struct mend *m, int64_t id, struct err *err)
{
	struct lost_profile x = { 0 };
	struct db_stmt *st;
	bool sound, indexed;
	int64_t total;
	int r;

	if (db_prepare(m->s->db, "SELECT " PROFILE_COLUMNS_SQL " FROM profile WHERE id = ?", &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	r = db_step(st, err);
	if (r != DB_ROW)
		return r;
	sound = samples_are_sound(st);
	x = (struct lost_profile){ (uint32_t)db_i64(st, COL_SERIES), db_i64(st, COL_TIME) };
	total = db_i64(st, COL_TOTAL);
	db_reset(st);
	r = is_in_index(m->s, id, &x, total, err);
	if (r < 0)
		return -1;
	indexed = r == DB_ROW;
	if (sound && indexed)
		return 1;
	if (!indexed) {
		m->reindex = true;
		if (find_in_index(m->s, id, &x, err) < 0)
			return -1;
	}
	VEC_PUSH(m->ret->lost, m->ret->n_lost, m->room) = x;
	return 0;
}

/* Delete a sound profile and insert it again: its pages are written. */
static int write_profile_again(struct profilestore *s, int64_t id, struct err *err)
{
	if (db_exec(s->db,
		    "CREATE TEMP TABLE IF NOT EXISTS again AS SELECT * FROM profile WHERE 0; DELETE FROM "
		    "again",
		    err) < 0 ||
	    db_exec_i64(s->db, "INSERT INTO temp.again SELECT * FROM profile WHERE id = ?", id, err) < 0 ||
	    delete_profile(s, id, err) < 0)
		return -1;
	return db_exec(s->db, "INSERT INTO profile SELECT * FROM temp.again", err);
}

/* Without the profile its rollups are made again, so that all answers agree. */
static int drop_its_rollups(struct profilestore *s, const struct lost_profile *x, struct err *err)
{
	for (int level = 0; level < ROLLUP_LEVELS; level++) {
		struct db_stmt *st;

		if (db_prepare(s->db, "DELETE FROM rollup WHERE series = ? AND level = ? AND start_ms = ?",
			       &st, err) < 0)
			return -1;
		db_bind_i64(st, 1, x->series);
		db_bind_i64(st, 2, level);
		db_bind_i64(st, 3, x->time_ms - x->time_ms % rollup_ms[level]);
		if (db_step(st, err) < 0)
			return -1;
	}
	return 0;
}

/* @sql makes an index anew. */
static int make_index(const struct mend *m, const char *sql, struct err *err)
{
	if (db_files_size(m->s->path) > INDEX_MAX)
		return err_set(err, ERR_DAMAGED, "the index of a database of more than %llu MiB",
			       (unsigned long long)(INDEX_MAX >> 20));
	return db_exec(m->s->db, sql, err);
}

static int mend_profiles(struct mend *m, const int64_t *ids, size_t n, struct err *err)
{
	AUTO(mem_freep) bool *sound = NEW_N(bool, n + 1);
	struct profilestore *s = m->s;

	m->ret->what = "profiles";
	for (size_t i = 0; i < n; i++) {
		int r = judge_profile(m, ids[i], err);

		if (r < 0)
			return -1;
		sound[i] = r == 1;
	}
	if (m->reindex && make_index(m, PROFILE_INDEX_SQL, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if ((sound[i] ? write_profile_again(s, ids[i], err) : delete_profile(s, ids[i], err)) < 0)
			return -1;
	for (size_t i = 0; i < m->ret->n_lost; i++)
		if (m->ret->lost[i].series && drop_its_rollups(s, &m->ret->lost[i], err) < 0)
			return -1;
	return 0;
}

/* ---- rollups: grooming makes them again ---- */

/* 1: the index has all of them as the table has them. */
static int rollups_are_in_index(struct profilestore *s, const int64_t *ids, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct db_stmt *st;
		int64_t there = 1;

		if (db_prepare(s->db,
			       "SELECT EXISTS (SELECT 1 FROM rollup AS x INDEXED BY rollup_at WHERE x.series "
			       "= y.series AND "
			       "x.level = y.level AND x.start_ms = y.start_ms AND x.n_profiles = "
			       "y.n_profiles AND x.total = "
			       "y.total AND x.id = y.id) FROM rollup AS y WHERE y.id = ?",
			       &st, err) < 0)
			return -1;
		db_bind_i64(st, 1, ids[i]);
		if (db_step_i64(st, &there, err) < 0)
			return -1;
		if (!there)
			return 0;
	}
	return 1;
}

static int mend_rollups(struct mend *m, const int64_t *ids, size_t n, struct err *err)
{
	int there = rollups_are_in_index(m->s, ids, n, err);

	m->ret->what = "rollups";
	if (there < 0 || (!there && make_index(m, ROLLUP_INDEX_SQL, err) < 0))
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct db_stmt *st;
		struct series *x;
		int r;

		if (db_prepare(m->s->db, "SELECT series, start_ms FROM rollup WHERE id = ?", &st, err) < 0)
			return -1;
		db_bind_i64(st, 1, ids[i]);
		r = db_step(st, err);
		if (r < 0)
			return -1;
		x = r == DB_ROW ? series_of_id(m->s, (uint32_t)db_i64(st, 0)) : NULL;
		if (x)
			series_groom_from(x, db_i64(st, 1));
		m->ret->n_rollups += r == DB_ROW;
		db_reset(st);
		if (db_exec_i64(m->s->db, "DELETE FROM rollup WHERE id = ?", ids[i], err) < 0)
			return -1;
	}
	return 0;
}

/* ---- tables whose content is in memory ---- */

static int write_all_series(struct mend *m, struct err *err)
{
	struct profilestore *s = m->s;

	m->ret->what = "series";
	if (db_exec(s->db, "DELETE FROM series", err) < 0)
		return -1;
	for (uint32_t i = 0, n = column_n(&s->series); i < n; i++) {
		const struct series *x = series_at(&s->series, i);

		if (x && x->saved && series_insert(s, x, err) < 0)
			return -1;
	}
	return 0;
}

static int write_counter(struct mend *m, struct err *err)
{
	struct profilestore *s = m->s;

	m->ret->what = "totals";
	if (db_exec(s->db, "DELETE FROM counter", err) < 0)
		return -1;
	/* The totals follow at the end of mend_within(). */
	return db_exec_i64(s->db,
			   "INSERT INTO counter (id, next_profile, n_profiles, n_samples, generation) VALUES "
			   "(1, 1, 0, 0, ?)",
			   s->meta->generation, err);
}

static int write_all_senders(struct mend *m, struct err *err)
{
	m->ret->what = "senders";
	senders_unsave(m->s);
	return db_exec(m->s->db, "DELETE FROM sender", err) < 0 ? -1 : senders_write(m->s, err);
}

/* Rows of this generation alone: a sweep may be writing others. */
static int write_all_segments(struct mend *m, const struct db_page_use *use, struct err *err)
{
	struct profilestore *s = m->s;
	const struct generation_keys keys = generation_keys(s->meta->generation, SEGMENT_KEY_BITS);

	m->ret->what = "names and stacks";
	for (size_t i = 0; i < use->n_rows; i++)
		if (use->rows[i] < keys.from || use->rows[i] >= keys.to)
			return err_set(err, ERR_DAMAGED, "a sweep uses the page");
	if (atomic_load(&s->meta->memory) > METADATA_MAX)
		return err_set(err, ERR_DAMAGED, "more than %llu MiB of metadata",
			       (unsigned long long)(METADATA_MAX >> 20));
	return segments_rewrite(s, err);
}

/* Naming tries again. */
static int forget_naming(struct mend *m, const struct db_page_use *use, struct err *err)
{
	m->ret->what = "states of naming";
	for (size_t i = 0; i < use->n_rows; i++)
		if (db_exec_i64(m->s->db, "DELETE FROM naming WHERE binary = ?", use->rows[i], err) < 0)
			return -1;
	return 0;
}

/* ---- all of them ---- */

int mend_write_tables(struct profilestore *s, struct err *err)
{
	struct mended ret = { 0 };
	struct mend m = { .s = s, .ret = &ret };

	return write_all_series(&m, err) < 0 || write_counter(&m, err) < 0 ||
			       write_all_senders(&m, err) < 0 || segments_rewrite(s, err) < 0 ||
			       names_write_all(s, s->meta, NULL, err) < 0
		       ? -1
		       : totals_write(s, err);
}

/* ---- one of them ---- */

static int mend_use(struct mend *m, const struct db_page_use *use, struct err *err)
{
	struct str table = str_of(use->table);
	bool index = use->kind == DB_PAGE_INDEX;

	if (use->kind == DB_PAGE_FREE)
		return 0;
	if (use->kind == DB_PAGE_OTHER)
		return err_set(err, ERR_DAMAGED, "it holds other pages together");
	if (str_eq(table, STR("series")))
		return write_all_series(m, err);
	if (str_eq(table, STR("counter")))
		return write_counter(m, err);
	if (str_eq(table, STR("sender")))
		return write_all_senders(m, err);
	if (str_eq(table, STR("segment")))
		return write_all_segments(m, use, err);
	if (str_eq(table, STR("naming")))
		return forget_naming(m, use, err);
	if (index && (str_eq(table, STR("profile")) || str_eq(table, STR("rollup")))) {
		bool profiles = str_eq(table, STR("profile"));

		m->ret->what = profiles ? "the index of profiles" : "the index of rollups";
		return make_index(m, profiles ? PROFILE_INDEX_SQL : ROLLUP_INDEX_SQL, err);
	}
	if (str_eq(table, STR("profile")))
		return mend_profiles(m, use->rows, use->n_rows, err);
	if (str_eq(table, STR("rollup")))
		return mend_rollups(m, use->rows, use->n_rows, err);
	return err_set(err, ERR_DAMAGED, "it is of a table that is not known");
}

/* Run @fn in a transaction that reads damaged pages, too. */
static int mend_within(struct profilestore *s, struct mend *m,
		       int (*fn)(struct mend *m, const struct db_page_use *use, struct err *err),
		       const struct db_page_use *use, struct err *err)
{
	uint64_t n_lost;
	int r;

	if (db_begin(s->db, err) < 0)
		return -1;
	db_set_unchecked(s->db, true);
	r = fn(m, use, err);
	n_lost = MIN(m->ret->n_lost, atomic_load(&s->n_profiles));
	atomic_fetch_sub(&s->n_profiles, n_lost);
	if (r == 0)
		r = totals_write(s, err);
	db_set_unchecked(s->db, false);
	if (r == 0)
		r = db_commit(s->db, err);
	else
		db_rollback(s->db);
	if (r < 0)
		atomic_fetch_add(&s->n_profiles, n_lost);
	/* Pages that were read unchecked are not kept. */
	(void)db_exec(s->db, "PRAGMA shrink_memory", NULL);
	return r;
}

int mend_page(struct profilestore *s, uint64_t page, struct mended *ret, struct err *err)
{
	AUTO(mem_freep) struct db_page_use *use = NEW(struct db_page_use);
	struct mend m = { .s = s, .ret = ret };
	int r;

	*ret = (struct mended){ 0 };
	if (db_page_use(s->db, page, use, err) < 0)
		return -1;
	r = db_exec(s->db, "PRAGMA secure_delete = ON", err);
	if (r == 0)
		r = mend_within(s, &m, mend_use, use, err);
	if (r == 0)
		for (size_t i = 0; i < ret->n_lost; i++) {
			struct series *x = series_of_id(s, ret->lost[i].series);

			if (x)
				series_groom_from(x, ret->lost[i].time_ms - rollup_ms[ROLLUP_LEVELS - 1]);
		}
	return r;
}

static int mend_one_row(struct mend *m, const struct db_page_use *use, struct err *err)
{
	return str_eq(str_of(use->table), STR("rollup")) ? mend_rollups(m, use->rows, 1, err)
							 : mend_profiles(m, use->rows, 1, err);
}

int mend_row(struct profilestore *s, bool rollup, int64_t id, struct mended *ret, struct err *err)
{
	AUTO(mem_freep) struct db_page_use *use = NEW(struct db_page_use);
	struct mend m = { .s = s, .ret = ret };

	*ret = (struct mended){ 0 };
	strcpy(use->table, rollup ? "rollup" : "profile");
	use->rows[0] = id;
	use->n_rows = 1;
	return mend_within(s, &m, mend_one_row, use, err);
}
