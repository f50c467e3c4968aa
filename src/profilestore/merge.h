/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that merge a range: merge.c, and merge_sides.c for the two sides of a comparison. */
#pragma once

#include "profilestore/internal.h"

/* Numbers of one table's entries in the new profile, + 1. */
struct new_numbers {
	uint32_t *v;
	uint32_t n;
};

struct store_merge {
	struct reader *rd;
	const struct meta *meta;
	struct profile *p;
	struct profilestore_shape shape;
	struct new_numbers stacks, locations, functions, strings;
	struct profile_line *lines;
	uint32_t room_lines;
	/*
	 * Different locations have become one: stacks may, too, and are searched for. Until then they are appended.
	 */
	bool shared;
	bool lends;        /* with a label: the stacks of all its values are lent */
	int64_t totals[2]; /* of a comparison, with all values of the label */
	struct {
		uint32_t *v;
		uint32_t room;
	} samples;                 /* of each new stack: its last sample + 1. Only if `shared` */
	struct deadline *deadline; /* NULL: none */
	struct budget_hold *hold;  /* NULL: none; `held` of it are of these arrays */
	uint64_t held;
	struct err refusal; /* there is no memory */
	uint32_t none;      /* written to when there is none */

	const struct series *first; /* NULL: none so far */
	uint64_t n_profiles, n_samples, n_pending, n_waiting;
	int64_t duration_ms, period, first_ms;
	/* Locations that stay in the store: with a number, and without one yet; the next place to look for one. */
	uint32_t n_lent, n_marked, next_lent;
};

/* ---- merge.c ---- */

void store_merge_init(struct store_merge *m, struct reader *rd, const struct profilestore_shape *shape,
		      const struct profile_limits *limits, struct deadline *deadline);
/* The result. @res negative: there is none, and the profile is freed; returns @res then. */
int store_merge_end(struct store_merge *m, int res, uint64_t n_damaged, struct profilestore_merged *ret);
int store_merge_refused(const struct store_merge *m, struct err *err);
/*
 * Callers come before callees, so one pass down marks the stacks that are needed. @all: also those that an earlier part
 * has copied, with their callers.
 */
void store_merge_mark(struct store_merge *m, struct sums *sums, bool all);
void store_merge_type(struct store_merge *m, const struct series *x); /* of the profile: that of @x */
void store_merge_count(struct store_merge *m, const struct sums *sums);
void store_merge_header(struct store_merge *m);
/* Copy the stacks and the samples of a part, whose stacks are marked; the sums are cleared. */
int store_merge_copy(struct store_merge *m, const struct series *x, struct sums *sums, struct err *err);
/*
 * Lend the stacks of a part, which are marked; the sums are cleared. @x: a series of the part, for its label; NULL: no label.
 * @base: the sums of the other side, whose stacks are seen in @sums, too; NULL: there is none.
 */
int store_merge_lend(struct store_merge *m, const struct series *x, struct sums *sums, struct sums *base,
		     struct err *err);

/* The end of a merge whose locations stay in the store. */
int store_merge_lend_locations(struct store_merge *m, struct err *err);

/* ---- merge_sides.c ---- */

/* As profilestore_merge() with shape->base. */
int store_merge_both(struct reader *rd, const struct profilestore_range *r,
		     const struct profilestore_shape *shape, const struct profile_limits *limits,
		     struct profilestore_merged *ret, struct err *err);
