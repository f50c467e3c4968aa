/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two sides of a comparison: both ranges are read, and their stacks lent together, with a value of each side; or each
 * becomes a profile if they are few.
 */
#include "profilestore/merge.h"

#include <stdlib.h>

/* One side of a comparison. */
struct merged_side {
	struct store_merge m;
	struct sums sums;
	int64_t total; /* of all values of the label */
};
struct merged_sides {
	struct merged_side v[2];
	struct reader *rd;
	bool decided, lends;
};

/* Stacks may have been added while they were read: both have places for those of both. */
static int grow_smaller_side(struct merged_side *v, struct err *err)
{
	uint32_t a = v[0].sums.n, b = v[1].sums.n;

	return a == b ? 0 : a < b ? sums_grow(&v[0].sums, b, err) : sums_grow(&v[1].sums, a, err);
}

static int mark_sides(struct merged_sides *x, struct err *err)
{
	struct merged_side *v = x->v;

	/* Values that are copied have most callers in common. */
	for (unsigned i = 0; i < 2; i++) {
		store_merge_mark(&v[i].m, &v[i].sums, x->lends || !x->decided);
		if (v[i].m.refusal.kind)
			return store_merge_refused(&v[i].m, err);
	}
	return grow_smaller_side(v, err);
}

static uint64_t n_seen_in_both(const struct merged_side *v)
{
	uint64_t n = 0;

	for (size_t w = 0; w <= MIN(v[0].sums.n, v[1].sums.n) / 64; w++)
		n += (unsigned)__builtin_popcountll(v[0].sums.seen[w] | v[1].sums.seen[w]);
	return n;
}

/* By the stacks of both sides, which are marked. */
static void decide_by_sides(struct merged_sides *x)
{
	x->decided = true;
	x->lends = n_seen_in_both(x->v) >= x->v[0].m.shape.lend_from;
	for (unsigned i = 0; i < 2; i++)
		x->v[i].total = x->v[i].sums.total;
}

/* ---- parts ---- */

static int lend_sides(struct merged_sides *x, const struct series *of, struct err *err)
{
	struct merged_side *v = x->v;

	sums_each_word(&v[1].sums, w)
	{
		v[0].sums.seen[w] |= v[1].sums.seen[w];
		v[0].sums.words[w / 64] |= UINT64_C(1) << w % 64;
	}
	for (unsigned i = 0; i < 2; i++)
		store_merge_count(&v[i].m, &v[i].sums);
	if (!v[0].m.first)
		store_merge_type(&v[0].m, of);
	v[0].m.totals[0] = v[0].total;
	v[0].m.totals[1] = v[1].total;
	if (store_merge_lend(&v[0].m, of, &v[0].sums, &v[1].sums, err) < 0)
		return -1;
	sums_clear(&v[1].sums);
	return 0;
}

static int copy_sides(struct merged_sides *x, const struct series *of, struct err *err)
{
	for (unsigned i = 0; i < 2; i++)
		if (store_merge_copy(&x->v[i].m, of, &x->v[i].sums, err) < 0)
			return i ? err_in(err, "'base'") : -1;
	return 0;
}

static int merged_part_of_both(void *arg, const struct series *of, struct sums *sums, struct err *err)
{
	struct merged_sides *x = arg;

	/* An answer may take seconds to make; copies of one value of many take less than a snapshot. */
	if (x->lends || !x->v[0].m.shape.label.size)
		reader_rest(x->rd);
	if (mark_sides(x, err) < 0)
		return -1;
	if (!x->decided)
		decide_by_sides(x);
	return (x->lends ? lend_sides : copy_sides)(x, of, err);
}

/* ---- both ---- */

/* pprof has the difference of both sides in one sample type. */
static int same_types_of_sides(const struct series *a, const struct series *b, struct err *err)
{
	static const int texts[] = { SERIES_TYPE, SERIES_UNIT, SERIES_PERIOD_TYPE, SERIES_PERIOD_UNIT };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (!str_eq(a->texts[texts[i]], b->texts[texts[i]]))
			return err_set(err, ERR_INVALID,
				       "'base': " STR_FMT " cannot be taken away from " STR_FMT,
				       STR_ARG(b->type), STR_ARG(a->type));
	return 0;
}

static int begin_both(void *arg, const struct series *const first[2], struct err *err)
{
	struct merged_sides *x = arg;

	for (unsigned i = 0; i < 2; i++)
		if (first[i] && !x->v[i].m.first)
			store_merge_type(&x->v[i].m, first[i]);
	if (!first[0] || !first[1])
		return 0;
	if (x->v[0].m.shape.locations)
		return same_types_of_sides(first[0], first[1], err);
	if (str_eq(first[0]->texts[SERIES_UNIT], first[1]->texts[SERIES_UNIT]))
		return 0;
	return err_set(err, ERR_INVALID, "'base': has the unit " STR_FMT ", other profiles " STR_FMT,
		       STR_ARG(first[1]->texts[SERIES_UNIT]), STR_ARG(first[0]->texts[SERIES_UNIT]));
}

/* With a label it is decided before the first value: both ranges are read once more. */
static int decide_before_values(struct merged_sides *x, const struct profilestore_range *const ranges[2],
				struct sums *const sums[2], struct err *err)
{
	const struct range_options all = { 0 };

	if (!x->v[0].m.shape.label.size)
		return 0;
	if (range_sums_both(x->rd, ranges, &all, sums, err) < 0 || mark_sides(x, err) < 0)
		return -1;
	decide_by_sides(x);
	for (unsigned i = 0; i < 2; i++)
		sums_clear(sums[i]);
	return 0;
}

static int merge_side_by_side(struct merged_sides *x, const struct profilestore_range *r, struct err *err)
{
	struct store_merge *m = &x->v[0].m;
	const struct profilestore_range *const ranges[2] = { r, m->shape.base };
	struct sums *const sums[2] = { &x->v[0].sums, &x->v[1].sums };
	const struct range_options o = {
		.begin = begin_both, .part = merged_part_of_both, .label = m->shape.label, .arg = x
	};

	if (m->shape.begin)
		m->shape.begin(m->shape.arg);
	for (unsigned i = 0; i < 2; i++)
		if (sums_init(sums[i], x->rd->meta, m->hold, err) < 0)
			return -1;
	if (decide_before_values(x, ranges, sums, err) < 0)
		return -1;
	return range_sums_both(x->rd, ranges, &o, sums, err);
}

int store_merge_both(struct reader *rd, const struct profilestore_range *r,
		     const struct profilestore_shape *shape, const struct profile_limits *limits,
		     struct profilestore_merged *ret, struct err *err)
{
	AUTO(mem_freep) struct merged_sides *x = mem_zalloc(sizeof(*x));
	int res;

	x->rd = rd;
	for (unsigned i = 0; i < 2; i++)
		store_merge_init(&x->v[i].m, rd, shape, limits, r->deadline);
	res = merge_side_by_side(x, r, err);
	if (res == 0 && shape->end)
		res = shape->end(shape->arg, err);
	for (unsigned i = 0; i < 2; i++) {
		sums_done(&x->v[i].sums);
		store_merge_header(&x->v[i].m);
	}
	if (res == 0 && shape->locations)
		res = store_merge_lend_locations(&x->v[0].m, err);
	for (unsigned i = 0; i < 2; i++)
		store_merge_end(&x->v[i].m, res, damage_lost_in(rd->s, i ? shape->base : r), &ret[i]);
	return res;
}
