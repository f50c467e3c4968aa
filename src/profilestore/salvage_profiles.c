/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying the profiles of a damaged database into a new one, when the store is opened (salvage_copy.c) and while it is in
 * use (remake.c).
 *
 * They are copied in the order of their ids, each compared with its own digest. Profiles that the tree of the table does
 * not lead to are taken from the leaves of the file: the index of profiles tells which of these rows are still in use.
 * Rows that the index has and the copy has not are lost at the end.
 */
#include "profilestore/salvage_internal.h"

#include <stdlib.h>
#include "base/leb.h"
#include "base/vec.h"

#define PAGES_STEP 256u /* between two looks at the clock */
#define ROWS_STEP  16u  /* likewise */
/* A damaged index may lead to the same entries again and again; each takes at least so many bytes of the file. */
#define INDEX_ENTRY_LEAST 4u

/* Profiles of the index that were not copied yet. Id 0 - series: the index of that series could not be read. */
static const char missing_table_sql[] =
	"CREATE TABLE missing (id INTEGER PRIMARY KEY, series INTEGER NOT NULL, "
	"time_ms INTEGER NOT NULL) STRICT";

static const char profiles_sql[] =
	"SELECT id, series, time_ms, duration_ms, period, digest, data FROM profile WHERE id >= ? ORDER BY "
	"id";

struct salvage_profile {
	int64_t id, series, time_ms, duration_ms, period, digest;
	struct bytes data;
};

static bool step_is_over(const struct salvage *x)
{
	return x->until_ms && clock_mono_ms() >= x->until_ms;
}

/* ---- one profile ---- */

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

static bool digest_is_right(const struct salvage_profile *p)
{
	return p->id > 0 && p->series > 0 && p->series <= UINT32_MAX && p->time_ms >= 0 &&
	       (uint64_t)p->digest ==
		       samples_digest((uint32_t)p->series, p->time_ms, p->duration_ms, p->data);
}

/* 1: the copy has it; 0: it is damaged. */
static int put_profile(struct salvage *x, const struct salvage_profile *p, struct err *err)
{
	struct profile_sums sums;
	struct db_stmt *in;

	if (!digest_is_right(p) || !add_up_samples(x, p->data, &sums) ||
	    (x->n_known_stacks && sums.last_stack >= x->n_known_stacks)) {
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
	return db_step(in, err) < 0 ? -1 : 1;
}

/* ---- by the tree of the table ---- */

static int copy_row(struct salvage *x, struct db_stmt *st, struct err *err)
{
	const struct salvage_profile p = { db_i64(st, 0), db_i64(st, 1), db_i64(st, 2),  db_i64(st, 3),
					   db_i64(st, 4), db_i64(st, 5), db_bytes(st, 6) };

	if (put_profile(x, &p, err) < 0)
		return -1;
	x->next_id = p.id + 1;
	return x->next_id % ROWS_STEP == 0 && step_is_over(x)
		       ? err_set(err, ERR_CANCELLED, "the step is over")
		       : 0;
}

/* 1: there may be more. */
static int copy_rows(struct salvage *x, struct err *err)
{
	struct err why = { 0 };
	int r = x->no_schema ? 0 : salvage_rows_from(x, profiles_sql, x->next_id, copy_row, &why);

	if (r < 0 && why.kind == ERR_CANCELLED)
		return 1;
	if (r < 0 && err)
		*err = why;
	return r;
}

/* ---- rows that only the index has ---- */

static int note_missing(struct salvage *x, int64_t id, int64_t series, int64_t time_ms, struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(x->to,
		       "INSERT INTO missing SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM profile WHERE "
		       "id = ?1) AND NOT EXISTS (SELECT 1 FROM missing WHERE id = ?1)",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, series);
	db_bind_i64(st, 3, time_ms);
	return db_step(st, err);
}

/* The entries of one series; the error of a damaged index is in @why, any other one in @err, too. */
static int read_entries(struct salvage *x, uint32_t series, struct err *why, struct err *err)
{
	static const char sql[] = "SELECT id, time_ms FROM profile INDEXED BY profile_at WHERE series = ?";
	struct db_stmt *st;
	int r;

	if (db_prepare(x->from, sql, &st, why) < 0)
		return -1;
	db_bind_i64(st, 1, series);
	while ((r = db_step(st, why)) == DB_ROW) {
		int64_t id = db_i64(st, 0);

		if (x->file_size && ++x->n_entries > x->file_size / INDEX_ENTRY_LEAST)
			r = err_set(why, ERR_DAMAGED,
				    "the index has more entries than the file has room for");
		else if (id > 0 && id < x->next_id)
			r = note_missing(x, id, series, db_i64(st, 1), err);
		if (r < 0)
			break;
	}
	db_reset(st);
	return r;
}

/* The profiles of a series, as the index has them. */
static int read_index_of(struct salvage *x, uint32_t series, struct err *err)
{
	struct err why = { 0 }, local = { 0 };
	int r = x->no_schema ? -1 : read_entries(x, series, &why, &local);

	if (r < 0 && (local.kind != ERR_NONE || why.kind == ERR_IO)) {
		if (err)
			*err = local.kind != ERR_NONE ? local : why;
		return -1;
	}
	if (r >= 0)
		return 0;
	x->damaged = true;
	x->index_damaged = true;
	return note_missing(x, -(int64_t)series, series, 0, err);
}

/* 1: there is more. */
static int read_index(struct salvage *x, struct err *err)
{
	const struct salvage_known *k = x->known;
	uint32_t series, next = x->next_series;

	for (; (series = k->next_series(k->arg, &next)) != 0; x->next_series = next)
		if (step_is_over(x))
			return 1;
		else if (read_index_of(x, series, err) < 0)
			return -1;
	return 0;
}

/* ---- from the leaves of the file ---- */

/* false: the row is not one of a profile. */
static bool raw_profile(const struct db_raw_row *row, struct salvage_profile *ret)
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

bool salvage_is_profile(const struct db_raw_row *row)
{
	struct salvage_profile p;

	return raw_profile(row, &p) && digest_is_right(&p);
}

/* A row that looks like a profile: it is copied if the index has it, but not the tree. */
static int take_raw_row(void *arg, const struct db_raw_row *row, struct err *err)
{
	struct salvage *x = arg;
	struct salvage_profile p;
	struct db_stmt *st;
	int r;

	if (!raw_profile(row, &p) || p.id >= x->next_id)
		return 0;
	if (db_prepare(x->to,
		       "SELECT 1 FROM missing WHERE (id = ?1 AND series = ?2 AND time_ms = ?3) OR id = -?2",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, p.id);
	db_bind_i64(st, 2, p.series);
	db_bind_i64(st, 3, p.time_ms);
	r = db_step(st, err);
	db_reset(st);
	if (r != DB_ROW || !x->known->may_be_stored(x->known->arg, (uint32_t)p.series, p.time_ms))
		return r < 0 ? -1 : 0;
	r = put_profile(x, &p, err);
	/* A damaged one stays missing. */
	return r == 1 ? db_exec_i64(x->to, "DELETE FROM missing WHERE id = ?", p.id, err) : r;
}

static int read_pages(struct salvage *x, struct err *err)
{
	for (; x->next_page <= x->pages.n; x->next_page++) {
		if (x->next_page % PAGES_STEP == 0 && step_is_over(x)) {
			x->next_page++;
			return 1;
		}
		if (db_raw_rows(x->from, &x->pages, x->next_page, take_raw_row, x, err) < 0)
			return -1;
	}
	return 0;
}

/* The pages of the file, also if its header is damaged. */
static void find_pages(struct salvage *x)
{
	db_pages_known(x->pages_db ? x->pages_db : x->from, &x->pages);
	x->next_page = 2;
}

/* ---- all of them ---- */

int salvage_profiles_begin(struct salvage *x, struct err *err)
{
	x->phase = SALVAGE_ROWS;
	x->next_id = 1;
	return db_exec(x->to, missing_table_sql, err);
}

int salvage_profiles_step(struct salvage *x, int64_t until_ms, struct err *err)
{
	int r = 0;

	x->until_ms = until_ms;
	if (x->phase == SALVAGE_ROWS) {
		r = copy_rows(x, err);
		if (r != 0)
			return r;
		x->phase = x->damaged ? SALVAGE_INDEX : SALVAGE_LAST;
		/* The tree did not lead to those that are missing until here, also at its end. */
		if (x->damaged)
			x->next_id = x->known->next_id(x->known->arg);
	}
	if (x->phase == SALVAGE_INDEX) {
		r = read_index(x, err);
		if (r != 0)
			return r;
		find_pages(x);
		x->phase = SALVAGE_PAGES;
	}
	if (x->phase == SALVAGE_PAGES) {
		r = read_pages(x, err);
		if (r != 0)
			return r;
		x->phase = SALVAGE_LAST;
	}
	return 0;
}

/* A row may have been moved to a page that was read before; or damage was met only now. */
static int find_late(struct salvage *x, struct err *err)
{
	int64_t n = 0;

	if (!x->damaged)
		return 0;
	if (!x->pages.n) {
		x->next_id = x->known->next_id(x->known->arg);
		if (read_index(x, err) < 0)
			return -1;
	}
	if (db_get_i64(x->to, "SELECT count(*) FROM missing", &n, err) < 0)
		return -1;
	if (n)
		find_pages(x);
	return n ? read_pages(x, err) : 0;
}

/*
 * Profiles that neither the copy nor the index has: their number is known, but not which they are. A part of the index may be
 * damaged, or older than the rest.
 */
static int list_lost(struct salvage *x, uint64_t n_before, struct salvage_lost *ret, struct err *err)
{
	int64_t n = 0;
	struct db_stmt *st;
	int r;

	if (db_get_i64(x->to, "SELECT count(*) FROM profile", &n, err) < 0 ||
	    db_prepare(x->to, "SELECT series, time_ms FROM missing WHERE id > 0", &st, err) < 0)
		return -1;
	while ((r = db_step(st, err)) == DB_ROW)
		VEC_PUSH(ret->v, ret->n, ret->room) = (struct lost_profile){ (uint32_t)db_i64(st, 0),
									     db_i64(st, 1) };
	while ((uint64_t)n + ret->n < n_before)
		VEC_PUSH(ret->v, ret->n, ret->room) = (struct lost_profile){ 0, INT64_MIN };
	return r;
}

int salvage_profiles_end(struct salvage *x, uint64_t n_before, struct salvage_lost *ret, struct err *err)
{
	*ret = (struct salvage_lost){ 0 };
	x->until_ms = 0;
	if (copy_rows(x, err) < 0 || find_late(x, err) < 0 || list_lost(x, n_before, ret, err) < 0)
		return -1;
	return db_exec(x->to, "DROP TABLE missing", err);
}
