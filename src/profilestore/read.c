/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a range. Each reader has a database connection of its own, and so a snapshot that no writer
 * disturbs or waits for.
 *
 * Of each series the largest rollups within the range are taken, then smaller ones for the parts that remain
 * before, after and between them, and single profiles for the rest. A missing rollup is not an error: it has
 * not been made yet.
 */
#include "base/vec.h"
#include "profilestore/internal.h"

#include <pthread.h>
#include <stdlib.h>

#define STEPS_OF_ROW 256u /* a step of SQLite */
#define LONGEST_MS   rollup_ms[ROLLUP_LEVELS - 1]

/* ---- connections ---- */

struct db *reader_take(struct profilestore *s, struct err *err)
{
	struct db *db = NULL;

	wal_enter(s);
	pthread_mutex_lock(&s->readers_lock);
	if (s->n_readers)
		db = s->readers[--s->n_readers];
	pthread_mutex_unlock(&s->readers_lock);
	if (!db && store_connect(s, &(struct db_options){ .read_only = true }, &db, err) < 0) {
		/* To open it, its first page is read. */
		if (err && err->kind == ERR_DAMAGED)
			damage_note_page(s, 1);
		wal_leave(s);
		return NULL;
	}
	/* All reads until reader_give() see the same snapshot. */
	if (db_exec(db, "BEGIN", err) < 0) {
		store_disconnect(s, db);
		wal_leave(s);
		return NULL;
	}
	return db;
}

void reader_give(struct profilestore *s, struct db *db)
{
	if (!db)
		return;
	damage_note_page_of(s, db);
	db_set_deadline(db, 0);
	db_rollback(db);
	pthread_mutex_lock(&s->readers_lock);
	if (s->n_readers < ARRAY_SIZE(s->readers) && !store_is_replaced(s, db)) {
		s->readers[s->n_readers++] = db;
		db = NULL;
	}
	pthread_mutex_unlock(&s->readers_lock);
	/* Before this, no file takes the place of the one that an idle connection has. */
	wal_leave(s);
	store_disconnect(s, db);
}

/* ---- pieces ---- */

/* A walk over the rows of a range; a rollup has level >= 0. */
struct visit {
	const struct series_read *q;
	bool data; /* read the samples too, not only the columns in the index */
	/* Of a rollup: whether it can be used as a whole. NULL: always. */
	bool (*fits)(struct visit *v, int64_t start_ms, int64_t size_ms);
	int (*row)(struct visit *v, struct db_stmt *st, int64_t time_ms, int level, struct err *err);
	void *arg;
};

static const char profiles_sql[] =
	"SELECT time_ms, total, duration_ms, period, n_samples, digest, series, data, id FROM profile "
	"WHERE series = ? AND time_ms >= ? AND time_ms < ?";
static const char profile_totals_sql[] =
	"SELECT time_ms, total FROM profile WHERE series = ? AND time_ms >= ? AND time_ms < ?";
static const char rollups_sql[] =
	"SELECT start_ms, total, duration_ms, period, n_samples, digest, series, data, id, n_profiles, "
	"first_ms "
	"FROM rollup "
	"WHERE series = ? AND level = ? AND start_ms >= ? AND start_ms < ? ORDER BY start_ms";
static const char rollup_totals_sql[] =
	"SELECT start_ms, total, n_profiles FROM rollup "
	"WHERE series = ? AND level = ? AND start_ms >= ? AND start_ms < ? ORDER BY start_ms";
static const char any_sql[] =
	"SELECT 1 FROM profile WHERE series = ? AND time_ms >= ? AND time_ms < ? LIMIT 1";
enum {
	COL_TIME,
	COL_TOTAL,
	COL_DURATION,
	COL_PERIOD,
	COL_N_SAMPLES,
	COL_DIGEST,
	COL_SERIES,
	COL_DATA,
	COL_ID,
	COL_N,
	COL_FIRST
};
enum { COL_TOTALS_N = 2 };

/* After a row. */
static int deadline_passed(const struct visit *v, struct db_stmt *st, struct err *err)
{
	size_t size = v->data ? db_bytes(st, COL_DATA).size : 0;

	return deadline_check(v->q->deadline, STEPS_OF_ROW + (uint32_t)MIN(size, (size_t)DEADLINE_STEPS),
			      err);
}

static int visit_profiles(struct visit *v, int64_t from_ms, int64_t to_ms, struct err *err)
{
	struct db_stmt *st;
	int r;

	if (from_ms >= to_ms)
		return 0;
	if (db_prepare(v->q->db, v->data ? profiles_sql : profile_totals_sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, v->q->x->id);
	db_bind_i64(st, 2, from_ms);
	db_bind_i64(st, 3, to_ms);
	while ((r = db_step(st, err)) == DB_ROW) {
		r = v->row(v, st, db_i64(st, COL_TIME), -1, err);
		if (r < 0)
			break;
		r = deadline_passed(v, st, err);
		if (r < 0)
			break;
	}
	db_reset(st);
	return r;
}

static int any_rows(const struct visit *v, int64_t from_ms, int64_t to_ms, struct err *err)
{
	struct db_stmt *st;
	int r;

	if (from_ms >= to_ms)
		return 0;
	if (db_prepare(v->q->db, any_sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, v->q->x->id);
	db_bind_i64(st, 2, from_ms);
	db_bind_i64(st, 3, to_ms);
	r = db_step(st, err);
	db_reset(st);
	return r;
}

/* 1: the rollup is taken. If it reaches beyond the range there are no profiles there. */
static int group_takes(struct visit *v, int64_t start_ms, int64_t size_ms, struct err *err)
{
	int64_t end_ms = start_ms + size_ms;
	int r;

	if (v->fits && !v->fits(v, start_ms, size_ms))
		return 0;
	r = any_rows(v, start_ms, MIN(v->q->from_ms, end_ms), err);
	if (r == 0)
		r = any_rows(v, MAX(v->q->to_ms, start_ms), end_ms, err);
	return r < 0 ? -1 : r == 0;
}

/* The time between two rollups of a level is read from the level below: a list of such gaps. */
struct gap {
	int64_t from_ms, to_ms;
};
struct gaps {
	struct gap *v;
	size_t n, room;
};

static void add_gap(struct gaps *g, int64_t from_ms, int64_t to_ms)
{
	if (from_ms >= to_ms)
		return;
	VEC_PUSH(g->v, g->n, g->room) = (struct gap){ from_ms, to_ms };
}

static int visit_level(struct visit *v, int level, struct gap in, struct gaps *out, struct err *err)
{
	int64_t size = rollup_ms[level], first = in.from_ms, end;
	struct db_stmt *st;
	int r;

	/* Only rollups that are in the gap as a whole. */
	if (first % size)
		first += size - first % size;
	end = in.to_ms - in.to_ms % size;
	if (first >= end) {
		add_gap(out, in.from_ms, in.to_ms);
		return 0;
	}
	if (db_prepare(v->q->db, v->data ? rollups_sql : rollup_totals_sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, v->q->x->id);
	db_bind_i64(st, 2, level);
	db_bind_i64(st, 3, first);
	db_bind_i64(st, 4, end);
	while ((r = db_step(st, err)) == DB_ROW) {
		int64_t start = db_i64(st, COL_TIME);

		if (start < in.from_ms)
			continue;
		r = group_takes(v, start, size, err);
		if (r < 0)
			break;
		if (!r)
			continue;
		r = v->row(v, st, start, level, err);
		if (r < 0)
			break;
		add_gap(out, in.from_ms, start);
		in.from_ms = start + size;
		r = deadline_passed(v, st, err);
		if (r < 0)
			break;
	}
	db_reset(st);
	add_gap(out, in.from_ms, in.to_ms);
	return r;
}

static int visit_range(struct visit *v, struct err *err)
{
	struct gaps in = { 0 }, out = { 0 };
	int64_t from_ms = v->q->from_ms, to_ms = v->q->to_ms;
	int r = 0;

	/*
	 * There are no profiles before or after these, so the range may be widened to whole rollups. But they
	 * are newer than the snapshot: rows of the snapshot outside of the range are skipped, and so are
	 * rollups that contain them.
	 */
	int64_t first = atomic_load(&v->q->x->first_ms), last = atomic_load(&v->q->x->last_ms);

	if (first > last)
		return 0;
	if (from_ms <= first)
		from_ms = first - first % LONGEST_MS;
	if (to_ms > last)
		to_ms = last - last % LONGEST_MS + LONGEST_MS;
	add_gap(&in, from_ms, to_ms);
	for (int level = (int)v->q->below - 1; r == 0 && level >= 0; level--) {
		struct gaps swap = in;

		out.n = 0;
		for (size_t i = 0; r == 0 && i < in.n; i++)
			r = reader_renew(v->q->rd, err) < 0 ? -1 : visit_level(v, level, in.v[i], &out, err);
		in = out;
		out = swap;
	}
	for (size_t i = 0; r == 0 && i < in.n; i++)
		r = reader_renew(v->q->rd, err) < 0 ? -1
						    : visit_profiles(v, MAX(in.v[i].from_ms, v->q->from_ms),
								     MIN(in.v[i].to_ms, v->q->to_ms), err);
	free(in.v);
	free(out.v);
	return r;
}

/* ---- sums ---- */

static int row_is_damaged(struct profilestore *s, struct db_stmt *st, bool rollup, struct err *err)
{
	(rollup ? damage_note_rollup : damage_note_profile)(s, db_i64(st, COL_ID));
	return err_set(err, ERR_DAMAGED, "samples are damaged");
}

static int query_add_row(struct profilestore *s, struct sums *sums, struct db_stmt *st, bool rollup,
			 struct err *err)
{
	struct bytes data = db_bytes(st, COL_DATA);
	int64_t time_ms = db_i64(st, COL_TIME), duration_ms = db_i64(st, COL_DURATION);

	if ((uint64_t)db_i64(st, COL_DIGEST) !=
	    samples_digest((uint32_t)db_i64(st, COL_SERIES), time_ms, duration_ms, data))
		return row_is_damaged(s, st, rollup, err);
	if (sums_add(sums, data, err) < 0)
		return -1;
	sums->total = add_saturating(sums->total, db_i64(st, COL_TOTAL));
	sums->duration_ms = add_saturating(sums->duration_ms, duration_ms);
	sums->period = MAX(sums->period, db_i64(st, COL_PERIOD));
	sums->n_samples += (uint64_t)db_i64(st, COL_N_SAMPLES);
	sums->n_profiles += rollup ? (uint64_t)db_i64(st, COL_N) : 1;
	sums->first_ms = MIN(sums->first_ms, rollup ? db_i64(st, COL_FIRST) : time_ms);
	return 0;
}

static int sum_row(struct visit *v, struct db_stmt *st, int64_t time_ms, int level, struct err *err)
{
	if (query_add_row(v->q->s, v->arg, st, level >= 0, err) < 0)
		return err_in(err, "%s of series %u at %lld", level < 0 ? "profile" : "rollup", v->q->x->id,
			      (long long)time_ms);
	return 0;
}

int series_sums(const struct series_read *q, struct sums *sums, struct err *err)
{
	struct visit v = { .q = q, .data = true, .row = sum_row, .arg = sums };

	return visit_range(&v, err);
}

static const char profile_sql[] = "SELECT time_ms, total, duration_ms, period, n_samples, digest, series, "
				  "data, id FROM profile WHERE id = ?";

static int read_one_profile(struct reader *rd, int64_t id, struct sums *sums, uint32_t *ret_series,
			    struct err *err)
{
	struct db_stmt *st;
	int r;

	/* There is no snapshot after the part before. */
	if (reader_renew(rd, err) < 0 || db_prepare(rd->db, profile_sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	r = db_step(st, err);
	if (r == DB_ROW) {
		*ret_series = (uint32_t)db_i64(st, COL_SERIES);
		r = query_add_row(rd->s, sums, st, false, err);
		if (r < 0)
			r = err_in(err, "profile %lld", (long long)id);
	}
	db_reset(st);
	return r;
}

static int by_stack_value(const void *a, const void *b, void *arg)
{
	const struct str *label = arg;

	return str_cmp(series_label(*(struct series *const *)a, *label),
		       series_label(*(struct series *const *)b, *label));
}

static int sum_one_series(struct reader *rd, const struct profilestore_range *r, const struct series *x,
			  struct sums *sums, struct err *err)
{
	struct series_read q = { .rd = rd,
				 .x = x,
				 .from_ms = r->from_ms,
				 .to_ms = r->to_ms,
				 .below = ROLLUP_LEVELS,
				 .deadline = r->deadline,
				 .s = rd->s };

	if (reader_renew(rd, err) < 0)
		return -1;
	q.db = rd->db;
	return series_sums(&q, sums, err);
}

static int sum_series(struct reader *rd, const struct profilestore_range *r, const struct range_options *o,
		      struct series **list, size_t n, struct sums *sums, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (sum_one_series(rd, r, list[i], sums, err) < 0)
			return -1;
		if (!o->part || (i + 1 < n && by_stack_value(&list[i], &list[i + 1], (void *)&o->label) == 0))
			continue;
		if (o->part(o->arg, list[i], sums, err) < 0)
			return -1;
	}
	return 0;
}

int range_sums(struct reader *rd, const struct profilestore_range *r, const struct range_options *o,
	       struct sums *sums, struct err *err)
{
	struct profilestore *s = rd->s;
	AUTO(mem_freep) struct series **list = NULL;
	struct series *x;
	uint32_t id = 0;
	size_t n;
	int res;

	if (r->profile_id) {
		res = read_one_profile(rd, r->profile_id, sums, &id, err);
		x = id ? series_of_id(s, id) : NULL;
		if (res == 0 && x && o->part)
			res = o->part(o->arg, x, sums, err);
	} else {
		res = series_list(s, r, &list, &n, err);
		if (res == 0 && o->label.size && n)
			qsort_r(list, n, sizeof(struct series *), by_stack_value, (void *)&o->label);
		if (res == 0)
			res = sum_series(rd, r, o, list, n, sums, err);
	}
	return res;
}

/* ---- two ranges ---- */

/* The series of one range, in the order of their values. */
struct range_side {
	const struct profilestore_range *r;
	struct sums *sums;
	struct series **list;
	size_t n, at;
};

/* A profile's series is known when the profile has been read; it is read again in its turn. */
static int list_series_of_profile(struct range_side *side, struct reader *rd, struct err *err)
{
	struct series *x;
	uint32_t id = 0;

	if (read_one_profile(rd, side->r->profile_id, side->sums, &id, err) < 0)
		return -1;
	sums_clear(side->sums);
	x = id ? series_of_id(rd->s, id) : NULL;
	side->list = NEW_N(struct series *, 1);
	side->list[0] = x;
	side->n = x != NULL;
	return 0;
}

static int range_side_init(struct range_side *side, struct reader *rd, const struct str *label,
			   struct err *err)
{
	if (side->r->profile_id)
		return list_series_of_profile(side, rd, err);
	if (series_list(rd->s, side->r, &side->list, &side->n, err) < 0)
		return -1;
	if (label->size && side->n)
		qsort_r(side->list, side->n, sizeof(struct series *), by_stack_value, (void *)label);
	return 0;
}

/* Add up the series that have the value of @x. */
static int sum_value(struct range_side *side, struct reader *rd, const struct series *x,
		     const struct str *label, struct err *err)
{
	uint32_t id;
	int r = 0;

	for (; r == 0 && side->at < side->n && by_stack_value(&x, &side->list[side->at], (void *)label) == 0;
	     side->at++)
		r = side->r->profile_id ? read_one_profile(rd, side->r->profile_id, side->sums, &id, err)
					: sum_one_series(rd, side->r, side->list[side->at], side->sums, err);
	return r;
}

/* One of the series with the next value. NULL: there is none. */
static const struct series *next_value(const struct range_side *sides, const struct str *label)
{
	const struct series *x[2];

	for (unsigned i = 0; i < 2; i++)
		x[i] = sides[i].at < sides[i].n ? sides[i].list[sides[i].at] : NULL;
	if (!x[0] || !x[1])
		return x[0] ? x[0] : x[1];
	return by_stack_value(&x[1], &x[0], (void *)label) < 0 ? x[1] : x[0];
}

static int sum_both(struct range_side *sides, struct reader *rd, const struct range_options *o,
		    struct err *err)
{
	const struct series *first[2] = { NULL }, *x;

	for (unsigned i = 0; i < 2; i++) {
		if (range_side_init(&sides[i], rd, &o->label, err) < 0)
			return i ? err_in(err, "'base'") : -1;
		if (sides[i].n)
			first[i] = sides[i].list[0];
	}
	if (o->begin && o->begin(o->arg, first, err) < 0)
		return -1;
	while ((x = next_value(sides, &o->label))) {
		for (unsigned i = 0; i < 2; i++)
			if (sum_value(&sides[i], rd, x, &o->label, err) < 0)
				return i ? err_in(err, "'base'") : -1;
		if (o->part && o->part(o->arg, x, sides[0].sums, err) < 0)
			return -1;
	}
	return 0;
}

int range_sums_both(struct reader *rd, const struct profilestore_range *const ranges[2],
		    const struct range_options *o, struct sums *const sums[2], struct err *err)
{
	struct range_side sides[2] = { { ranges[0], sums[0] }, { ranges[1], sums[1] } };
	int r = sum_both(sides, rd, o, err);

	for (unsigned i = 0; i < 2; i++)
		free(sides[i].list);
	return r;
}

/* ---- points ---- */

/* All of it is in one point. */
static bool in_one_point(struct visit *v, int64_t start_ms, int64_t size_ms)
{
	const struct series_points *p = v->arg;
	int64_t point = (start_ms - p->from_ms) / p->step_ms;

	return start_ms >= p->from_ms && (uint64_t)point < p->n &&
	       point == (start_ms + size_ms - 1 - p->from_ms) / p->step_ms;
}

static int point_row(struct visit *v, struct db_stmt *st, int64_t time_ms, int level, struct err *err)
{
	struct series_points *p = v->arg;
	size_t i = (size_t)((time_ms - p->from_ms) / p->step_ms);
	uint64_t n = level < 0 ? 1 : (uint64_t)db_i64(st, COL_TOTALS_N);
	int64_t total = db_i64(st, COL_TOTAL);

	/* The profiles of a rollup may have been deleted before it was made. */
	if (!n)
		return 0;
	if (!p->points && p->begin(p, err) < 0)
		return -1;
	p->points[i] = add_saturating(p->points[i], total);
	p->counts[i] = (uint32_t)MIN(p->counts[i] + n, (uint64_t)UINT32_MAX);
	p->total = add_saturating(p->total, total);
	p->n_profiles += n;
	return 0;
}

int series_add_points(const struct series_read *q, struct series_points *p, struct err *err)
{
	struct visit v = { .q = q, .fits = in_one_point, .row = point_row, .arg = p };

	return visit_range(&v, err);
}
