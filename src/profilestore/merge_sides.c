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
	const struct series *x; /* one of the series; NULL: there is none */
};

static int note_side(void *arg, const struct series *x, struct sums *sums, struct err *err)
{
	struct merged_side *side = arg;

	side->x = x;
	store_merge_type(&side->m, x);
	return 0;
}

static int sum_side(struct merged_side *side, struct reader *rd, const struct profilestore_range *r,
		    struct err *err)
{
	const struct range_options o = { .part = note_side, .arg = side };

	if (sums_init(&side->sums, rd->meta, side->m.hold, err) < 0 ||
	    range_sums(rd, r, &o, &side->sums, err) < 0)
		return -1;
	store_merge_mark(&side->m, &side->sums, true);
	return side->m.refusal.kind ? store_merge_refused(&side->m, err) : 0;
}

static uint64_t n_seen_in_both(const struct merged_side *a, const struct merged_side *b)
{
	uint64_t n = 0;

	for (size_t w = 0; w <= MIN(a->sums.n, b->sums.n) / 64; w++)
		n += (unsigned)__builtin_popcountll(a->sums.seen[w] | b->sums.seen[w]);
	return n;
}

/* Stacks may have been added while they were read: both have places for those of both. */
static int grow_smaller_side(struct merged_side *sides, struct err *err)
{
	uint32_t a = sides[0].sums.n, b = sides[1].sums.n;

	return a == b ? 0 : a < b ? sums_grow(&sides[0].sums, b, err) : sums_grow(&sides[1].sums, a, err);
}

static int same_unit_of_sides(const struct merged_side *sides, struct err *err)
{
	const struct series *a = sides[0].x, *b = sides[1].x;

	if (!a || !b || str_eq(a->texts[SERIES_UNIT], b->texts[SERIES_UNIT]))
		return 0;
	return err_set(err, ERR_INVALID, "'base': has the unit " STR_FMT ", other profiles " STR_FMT,
		       STR_ARG(b->texts[SERIES_UNIT]), STR_ARG(a->texts[SERIES_UNIT]));
}

static int lend_sides(struct merged_side *sides, struct err *err)
{
	struct store_merge *m = &sides[0].m;

	if (same_unit_of_sides(sides, err) < 0)
		return -1;
	if (!m->first && sides[1].x)
		store_merge_type(m, sides[1].x);
	sums_each_word(&sides[1].sums, w)
	{
		sides[0].sums.seen[w] |= sides[1].sums.seen[w];
		sides[0].sums.words[w / 64] |= UINT64_C(1) << w % 64;
	}
	for (unsigned i = 0; i < 2; i++)
		store_merge_count(&sides[i].m, &sides[i].sums);
	return store_merge_lend(m, NULL, &sides[0].sums, &sides[1].sums, err);
}

static int merge_side_by_side(struct merged_side *sides, struct reader *rd,
			      const struct profilestore_range *r, struct err *err)
{
	const struct profilestore_shape *shape = &sides[0].m.shape;

	if (shape->begin)
		shape->begin(shape->arg);
	if (sum_side(&sides[0], rd, r, err) < 0)
		return -1;
	if (sum_side(&sides[1], rd, shape->base, err) < 0)
		return err_in(err, "'base'");
	if (grow_smaller_side(sides, err) < 0)
		return -1;
	reader_rest(rd);
	if (n_seen_in_both(&sides[0], &sides[1]) >= shape->lend_from)
		return lend_sides(sides, err);
	for (unsigned i = 0; i < 2; i++)
		if (sides[i].x && store_merge_copy(&sides[i].m, sides[i].x, &sides[i].sums, err) < 0)
			return i ? err_in(err, "'base'") : -1;
	return 0;
}

int store_merge_both(struct reader *rd, const struct profilestore_range *r,
		     const struct profilestore_shape *shape, const struct profile_limits *limits,
		     struct profilestore_merged *ret, struct err *err)
{
	AUTO(mem_freep) struct merged_side *sides = mem_zalloc(2 * sizeof(*sides));
	int res;

	for (unsigned i = 0; i < 2; i++)
		store_merge_init(&sides[i].m, rd, shape, limits, r->deadline);
	res = merge_side_by_side(sides, rd, r, err);
	for (unsigned i = 0; i < 2; i++) {
		sums_done(&sides[i].sums);
		store_merge_header(&sides[i].m);
		store_merge_end(&sides[i].m, res, damage_lost_in(rd->s, i ? shape->base : r), &ret[i]);
	}
	return res;
}
