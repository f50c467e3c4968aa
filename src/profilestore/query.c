/* SPDX-License-Identifier: Apache-2.0 */
/* Series over time, and lists of profiles. */
#include "base/vec.h"
#include "profilestore/internal.h"

#include <stdlib.h>

#define POINTS_USUAL 200
#define MAX_POINTS   11000u          /* of one series */
#define STEP_MOST    (INT64_MAX / 4) /* ms: longer than any range, and sums with times do not overflow */

/* ---- rows ---- */

struct chosen_row {
	struct profilestore_entry e;
	const struct series *x;
};
struct latest {
	struct chosen_row *v;
	size_t n, room;
};

static const char one_sql[] =
	"SELECT id, time_ms, duration_ms, total, n_samples, series FROM profile WHERE id = ?";

static int take_rows(struct latest *l, struct db_stmt *st, const struct series *x, struct err *err)
{
	int r;

	while ((r = db_step(st, err)) == DB_ROW) {
		VEC_PUSH(l->v, l->n, l->room) = (struct chosen_row){ { .id = db_i64(st, 0),
								       .time_ms = db_i64(st, 1),
								       .duration_ms = db_i64(st, 2),
								       .total = db_i64(st, 3),
								       .n_samples = (uint64_t)db_i64(st, 4) },
								     x ? x : NULL };
	}
	return r;
}

static int take_series(struct reader *rd, int64_t id, struct latest *l, struct err *err)
{
	const struct series *x;
	struct db_stmt *st;

	if (series_of_profile(rd, id, &x, err) < 0)
		return -1;
	if (!x)
		return 0;
	if (db_prepare(rd->db, one_sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	return take_rows(l, st, x, err);
}

/* ---- series over time ---- */

/* Round steps; the longer ones are multiples of rollups. */
static const int64_t steps_ms[] = { 1000,     2000,     5000,     10000,    15000,     30000,    60000,
				    120000,   300000,   600000,   1200000,  1800000,   3600000,  7200000,
				    10800000, 21600000, 43200000, 86400000, 172800000, 604800000 };

/* Clip the range to the times that the series have. */
static void clip_range(const struct profilestore_range *r, struct series *const *list, size_t n,
		       int64_t *from_ms, int64_t *to_ms)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (size_t i = 0; i < n; i++) {
		first = MIN(first, atomic_load(&list[i]->first_ms));
		last = MAX(last, atomic_load(&list[i]->last_ms));
	}
	*from_ms = first > last ? MAX(r->from_ms, (int64_t)0) : MAX(r->from_ms, first);
	*to_ms = first > last ? *from_ms : MAX(MIN(r->to_ms, last + 1), *from_ms);
}

static int64_t usual_step(int64_t length_ms)
{
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(steps_ms) && length_ms / steps_ms[i] > POINTS_USUAL)
		i++;
	return length_ms / steps_ms[i] > (int64_t)MAX_POINTS ? length_ms / POINTS_USUAL : steps_ms[i];
}

struct value_group {
	struct profilestore_label *labels;
	size_t n_labels;
	int64_t total;
	uint64_t n_profiles;
	int64_t *points;
	uint32_t *counts;
};

struct groups {
	struct arena arena;
	struct map by_key;
	struct value_group **v;
	size_t n, room, n_points;
	bool derived; /* as in profilestore_range */
	struct buf key;
};

static bool labels_have(const struct profilestore_label *v, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(v[i].name, name))
			return true;
	return false;
}

/* Texts are copied by group_list(), while the series are held. */
static void labels_by(struct groups *gs, const struct series *x, const struct profilestore_series_options *o,
		      struct value_group *g)
{
	struct arena *a = &gs->arena;

	if (o->one)
		return;
	if (!o->n_by) {
		g->labels = ARENA_NEW_N(a, struct profilestore_label, SERIES_MAX_LABELS);
		g->n_labels = series_labels(x, gs->derived, g->labels);
		return;
	}
	g->labels = ARENA_NEW_N(a, struct profilestore_label, o->n_by);
	for (size_t i = 0; i < o->n_by; i++) {
		struct str v = series_value(x, gs->derived, o->by[i]);

		if (v.size && !labels_have(g->labels, g->n_labels, o->by[i]))
			g->labels[g->n_labels++] = (struct profilestore_label){ o->by[i], v };
	}
}

static struct value_group *group_of_series(struct groups *gs, const struct series *x,
					   const struct profilestore_series_options *o)
{
	static const struct str no_texts[SERIES_N_TEXTS];
	struct value_group g = { 0 }, *at;

	labels_by(gs, x, o, &g);
	series_key(&gs->key, no_texts, false, g.labels, g.n_labels);
	at = map_get(&gs->by_key, bytes_of(gs->key.p, gs->key.size));
	if (at)
		return at;
	at = ARENA_NEW(&gs->arena, struct value_group);
	*at = g;
	VEC_PUSH(gs->v, gs->n, gs->room) = at;
	map_put(&gs->by_key, bytes_of(gs->key.p, gs->key.size), at);
	return at;
}

static int by_total(const void *a, const void *b)
{
	const struct value_group *x = *(struct value_group *const *)a, *y = *(struct value_group *const *)b;

	return x->total != y->total ? (x->total > y->total ? -1 : 1) : x->n_profiles < y->n_profiles ? 1 : -1;
}

static size_t labels_size(const struct profilestore_label *v, size_t n)
{
	size_t size = 0;

	for (size_t i = 0; i < n; i++)
		size += v[i].name.size + v[i].value.size;
	return size;
}

static struct str add_key_text(char **p, struct str s)
{
	struct str ret = { *p, s.size };

	if (s.size)
		memcpy(*p, s.p, s.size);
	*p += s.size;
	return ret;
}

/* Copy labels and their texts to the next free places. Returns the first copy. */
static struct profilestore_label *copy_labels(const struct profilestore_label *v, size_t n,
					      struct profilestore_label **labels, char **text)
{
	struct profilestore_label *first = *labels;

	for (size_t i = 0; i < n; i++)
		*(*labels)++ = (struct profilestore_label){ add_key_text(text, v[i].name),
							    add_key_text(text, v[i].value) };
	return first;
}

/* In one piece: series, points, labels, texts. @first: a series of the type of all; NULL: there is none. */
static int group_list(const struct groups *gs, size_t n, const struct series *first,
		      struct profilestore_series_list **ret, struct err *err)
{
	const struct str type = first ? first->texts[SERIES_TYPE] : STR(""),
			 unit = first ? first->texts[SERIES_UNIT] : STR("");
	size_t n_labels = 0, size = sizeof(struct profilestore_series_list) + type.size + unit.size;
	struct profilestore_series_list *l;
	struct profilestore_label *labels;
	int64_t *points;
	uint32_t *counts;
	char *text;

	for (size_t i = 0; i < n; i++) {
		n_labels += gs->v[i]->n_labels;
		size += sizeof(*l->v) + gs->n_points * (sizeof(int64_t) + sizeof(uint32_t)) +
			labels_size(gs->v[i]->labels, gs->v[i]->n_labels);
	}
	size += n_labels * sizeof(*labels);
	if (budget_hold_add(gs->arena.hold, size, err) < 0)
		return err_in(err, "the points of %zu series", n);
	l = mem_zalloc(size);
	l->v = (struct profilestore_series *)(l + 1);
	points = (int64_t *)(l->v + n);
	labels = (struct profilestore_label *)(points + n * gs->n_points);
	counts = (uint32_t *)(labels + n_labels);
	text = (char *)(counts + n * gs->n_points);
	for (size_t i = 0; i < n; i++) {
		const struct value_group *g = gs->v[i];

		l->v[i] = (struct profilestore_series){ copy_labels(g->labels, g->n_labels, &labels, &text),
							g->n_labels,
							g->total,
							g->n_profiles,
							points,
							counts };
		if (gs->n_points) {
			memcpy(points, g->points, gs->n_points * sizeof(*points));
			memcpy(counts, g->counts, gs->n_points * sizeof(*counts));
		}
		points += gs->n_points;
		counts += gs->n_points;
	}
	l->type = add_key_text(&text, type);
	l->unit = add_key_text(&text, unit);
	l->n = n;
	l->n_left_out = gs->n - n;
	for (size_t i = 0; i < gs->n; i++)
		l->total = add_saturating(l->total, gs->v[i]->total);
	*ret = l;
	return 0;
}

static int group_points(struct groups *gs, struct value_group *g, struct err *err)
{
	size_t size = gs->n_points * (sizeof(*g->points) + sizeof(*g->counts));

	g->points = arena_try_err(&gs->arena, size, err);
	if (!g->points)
		return err_in(err, "the points of %zu series", gs->n);
	memset(g->points, 0, size);
	g->counts = (uint32_t *)(g->points + gs->n_points);
	return 0;
}

struct added_series {
	struct series_points p; /* first */
	struct groups *gs;
	const struct series *x;
	const struct profilestore_series_options *o;
	struct value_group *g; /* NULL: the series has no profile in the range */
};

static int begin_points(struct series_points *p, struct err *err)
{
	struct added_series *a = (struct added_series *)p;

	a->g = group_of_series(a->gs, a->x, a->o);
	if (!a->g->points && group_points(a->gs, a->g, err) < 0)
		return -1;
	p->points = a->g->points;
	p->counts = a->g->counts;
	return 0;
}

/* A series has no profile in a range between two of its profiles: then it makes no group. */
static int add_series(struct groups *gs, const struct series_read *q,
		      const struct profilestore_series_options *o, const struct series_points *scale,
		      struct err *err)
{
	struct added_series a = { .p = *scale, .gs = gs, .x = q->x, .o = o };

	a.p.begin = begin_points;
	if (series_add_points(q, &a.p, err) < 0)
		return -1;
	if (!a.g)
		return 0;
	a.g->total = add_saturating(a.g->total, a.p.total);
	a.g->n_profiles += a.p.n_profiles;
	return 0;
}

/* The one profile of a range is at one point. */
static int add_one_profile(struct groups *gs, const struct chosen_row *one,
			   const struct profilestore_series_options *o, const struct series_points *scale,
			   struct err *err)
{
	struct value_group *g = group_of_series(gs, one->x, o);
	int64_t k = (one->e.time_ms - scale->from_ms) / scale->step_ms;

	if (group_points(gs, g, err) < 0)
		return -1;
	g->points[k] = g->total = one->e.total;
	g->counts[k] = 1;
	g->n_profiles = 1;
	return 0;
}

struct summed_series {
	struct series **list; /* heap */
	size_t n;
	struct latest one; /* the row of the one profile of a range */
	int64_t from_ms, to_ms;
};

static void summed_series_done(struct summed_series *x)
{
	free(x->list);
	free(x->one.v);
}

static int choose_series(struct reader *rd, const struct profilestore_range *r, struct summed_series *ret,
			 struct err *err)
{
	if (!r->profile_id) {
		if (series_list(rd->s, r, &ret->list, &ret->n, err) < 0)
			return -1;
		clip_range(r, ret->list, ret->n, &ret->from_ms, &ret->to_ms);
		return 0;
	}
	if (take_series(rd, r->profile_id, &ret->one, err) < 0)
		return -1;
	if (!ret->one.n)
		return 0;
	ret->from_ms = ret->one.v[0].e.time_ms;
	ret->to_ms = ret->from_ms + 1;
	return 0;
}

static int sum_over_time(struct reader *rd, const struct profilestore_range *r,
			 const struct profilestore_series_options *o, struct profilestore_series_list **ret,
			 struct err *err)
{
	struct groups gs = { .derived = r->derived };
	struct series_points scale = { 0 };
	AUTO(summed_series_done) struct summed_series x = { 0 };
	const struct series *first;
	int res = 0;

	if (choose_series(rd, r, &x, err) < 0)
		return -1;
	first = x.n ? x.list[0] : x.one.n ? x.one.v[0].x : NULL;
	scale.step_ms = o->step_ms > 0 ? MIN(o->step_ms, STEP_MOST) : usual_step(x.to_ms - x.from_ms);
	scale.from_ms = x.from_ms -
			(x.from_ms - o->origin_ms % scale.step_ms + scale.step_ms) % scale.step_ms;
	gs.n_points = (size_t)((x.to_ms - scale.from_ms + scale.step_ms - 1) / scale.step_ms);
	scale.n = gs.n_points;
	if (gs.n_points > MAX_POINTS)
		return err_set(err, ERR_LIMIT,
			       "%zu points, the limit is %u: use a longer step or a shorter range",
			       gs.n_points, MAX_POINTS);
	arena_init(&gs.arena);
	gs.arena.hold = o->memory;
	for (size_t i = 0; res == 0 && gs.n_points && i < x.n; i++)
		res = add_series(&gs,
				 &(struct series_read){ rd, rd->db, x.list[i], x.from_ms, x.to_ms,
							ROLLUP_LEVELS, r->deadline },
				 o, &scale, err);
	if (x.one.n)
		res = add_one_profile(&gs, &x.one.v[0], o, &scale, err);
	if (res == 0) {
		if (gs.n)
			qsort(gs.v, gs.n, sizeof(struct value_group *), by_total);
		res = group_list(&gs, MIN(gs.n, (size_t)o->limit), first, ret, err);
	}
	if (res == 0) {
		(*ret)->from_ms = scale.from_ms;
		(*ret)->step_ms = scale.step_ms;
		(*ret)->n_points = gs.n_points;
		(*ret)->n_damaged = damage_lost_in(rd->s, r);
	}
	free(gs.v);
	map_done(&gs.by_key);
	buf_done(&gs.key);
	arena_done(&gs.arena);
	return res;
}

int profilestore_series(struct profilestore *s, const struct profilestore_range *r,
			const struct profilestore_series_options *o, struct profilestore_series_list **ret,
			struct err *err)
{
	struct reader rd;
	int res;

	do {
		res = reader_begin(s, &rd, err);
		if (res == 0)
			res = sum_over_time(&rd, r, o, ret, err);
	} while (reader_again(s, &rd, res, err));
	return res;
}

/* ---- one by one ---- */

static const char latest_sql[] =
	"SELECT id, time_ms, duration_ms, total, n_samples, series FROM profile "
	"WHERE series = ? AND time_ms >= ? AND time_ms < ? ORDER BY time_ms DESC, id DESC LIMIT ?";
static int later_first(const void *a, const void *b)
{
	const struct profilestore_entry *x = &((const struct chosen_row *)a)->e,
					*y = &((const struct chosen_row *)b)->e;

	return x->time_ms != y->time_ms ? (x->time_ms > y->time_ms ? -1 : 1) : x->id > y->id ? -1 : 1;
}

static void keep_series(struct latest *l, size_t n)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), later_first);
	l->n = MIN(l->n, n);
}

static int take_latest_series(struct reader *rd, const struct profilestore_range *r, size_t limit,
			      struct latest *l, struct err *err)
{
	const struct series *x;
	uint32_t it = 0;

	while ((x = series_next(rd->s, r, &it))) {
		struct db_stmt *st;

		/* Profiles later than all of this series fill the list already. */
		if (l->n == limit && l->v[limit - 1].e.time_ms > atomic_load(&x->last_ms))
			continue;
		if (reader_renew(rd, err) < 0 || db_prepare(rd->db, latest_sql, &st, err) < 0)
			return -1;
		db_bind_i64(st, 1, x->id);
		db_bind_i64(st, 2, r->from_ms);
		db_bind_i64(st, 3, r->to_ms);
		db_bind_i64(st, 4, (int64_t)limit);
		if (take_rows(l, st, x, err) < 0 || deadline_check(r->deadline, DEADLINE_STEPS / 16, err) < 0)
			return -1;
		keep_series(l, limit);
	}
	return deadline_check(r->deadline, 0, err);
}

/*
 * In one piece: the series may be deleted. The labels of a series are copied once, however many of its profiles there are:
 * they may be much longer than a profile's row.
 */
static struct profilestore_entries *chosen_series(const struct latest *l)
{
	struct profilestore_entries *e;
	struct profilestore_label *labels;
	struct map copies = { 0 }; /* of each series: its labels; itself until they are copied */
	size_t n_labels = 0, size = 0;
	char *text;

	for (size_t i = 0; i < l->n; i++) {
		const struct series *x = l->v[i].x;

		if (map_put(&copies, bytes_of(&x, sizeof(x)), (void *)x))
			continue;
		n_labels += x->n_labels;
		size += labels_size(x->labels, x->n_labels);
	}
	e = mem_zalloc(sizeof(*e) + l->n * sizeof(*e->v) + n_labels * sizeof(*labels) + size);
	e->v = (struct profilestore_entry *)(e + 1);
	e->n = l->n;
	labels = (struct profilestore_label *)(e->v + e->n);
	text = (char *)(labels + n_labels);
	for (size_t i = 0; i < l->n; i++) {
		const struct series *x = l->v[i].x;
		struct profilestore_label *copy = map_get(&copies, bytes_of(&x, sizeof(x)));

		if ((void *)copy == (void *)x) {
			copy = copy_labels(x->labels, x->n_labels, &labels, &text);
			map_put(&copies, bytes_of(&x, sizeof(x)), copy);
		}
		e->v[i] = l->v[i].e;
		e->v[i].labels = copy;
		e->v[i].n_labels = x->n_labels;
	}
	map_done(&copies);
	return e;
}

static int list_profiles(struct reader *rd, const struct profilestore_range *r, uint32_t limit,
			 struct profilestore_entries **ret, struct err *err)
{
	struct latest l = { 0 };
	int res;

	if (!limit)
		res = 0;
	else if (r->profile_id)
		res = take_series(rd, r->profile_id, &l, err);
	else
		res = take_latest_series(rd, r, limit, &l, err);
	if (res == 0)
		(*ret = chosen_series(&l))->n_damaged = damage_lost_in(rd->s, r);
	free(l.v);
	return res;
}

int profilestore_profiles(struct profilestore *s, const struct profilestore_range *r, uint32_t limit,
			  struct profilestore_entries **ret, struct err *err)
{
	struct reader rd;
	int res;

	do {
		res = reader_begin(s, &rd, err);
		if (res == 0)
			res = list_profiles(&rd, r, limit, ret, err);
	} while (reader_again(s, &rd, res, err));
	return res;
}
