/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds for every reader of profiles: it fails with a reason, or its profile can be written and read again, is
 * empty after subtracting itself, and can be written in every output format.
 */
#pragma once

#include <math.h>
#include "fuzz.h"
#include "profile/input.h"
#include "profile/output.h"
#include "profile/prune.h"
#include "profile_same.h"

static const struct profile_limits check_limits = { .max_size = 1 << 20, .max_memory = 64 << 20 };

/* Sums of such a profile may stop at the largest or the smallest number: the order of additions matters. */
static inline bool check_is_saturated(const struct profile *p)
{
	for (uint32_t t = 0; t < p->types.n; t++) {
		double sum = 0;

		for (uint32_t i = 0; i < p->n_samples; i++)
			sum += fabs((double)profile_value(p, i, t));
		if (sum >= (double)INT64_MAX)
			return true;
	}
	return false;
}

static inline void check_written(const struct profile *p)
{
	struct profile *q = NULL;
	struct buf b = { 0 };
	struct err err = { 0 };
	char what[PROFILE_WHAT_SIZE];

	FUZZ_CHECK(profile_write_pprof(p, false, &b, &err) == 0);
	FUZZ_CHECK(profile_read_pprof(buf_bytes(&b), NULL, &q, &err) == 0);
	FUZZ_CHECK(profile_same(p, q, what));
	profile_free(q);
	q = NULL;
	FUZZ_CHECK(profile_diff(p, p, false, &q, &err) == 0);
	FUZZ_CHECK(q->n_samples == 0 || check_is_saturated(p));
	profile_free(q);
	buf_done(&b);
}

static inline void check_outputs(const struct profile *p)
{
	struct profile_tree *t = NULL;
	struct buf b = { 0 };
	struct err err = { 0 };

	if (profile_tree_new(&(struct profile_view){ 0 }, &check_limits, &t, &err) == 0 &&
	    profile_tree_add(t, p, 0, 0, 1, &err) == 0 && profile_tree_end(t, &err) == 0) {
		const struct profile_output o = { 0 };

		profile_write_folded(t, &o, &b);
		profile_write_speedscope(t, &o, &b);
		profile_write_top(t, &o, &b);
		profile_write_svg(t, &o, &b);
		profile_write_html(t, &o, &b);
	}
	buf_done(&b);
	profile_tree_free(t);
}

/* No value is lost when frames are removed. */
static inline void check_pruned(struct profile *p)
{
	int64_t before = profile_total(p, 0);
	struct err err = { 0 };

	if (profile_prune(p, &err) < 0)
		FUZZ_CHECK(err.kind == ERR_LIMIT);
	else
		FUZZ_CHECK(profile_total(p, 0) == before);
}

/* Nothing rises between a profile and itself. Afterwards its counters are 0. */
static inline void check_counters(struct profile *p)
{
	struct profile_counters *first = NULL, *second = NULL;
	struct profile *q = NULL;
	struct buf b = { 0 };
	struct err err = { 0 };
	bool negative = false, saturated = check_is_saturated(p);

	for (size_t i = 0; i < (size_t)p->n_samples * p->types.n; i++)
		negative |= p->values[i] < 0;
	FUZZ_CHECK(profile_write_pprof(p, false, &b, &err) == 0);
	FUZZ_CHECK(profile_read_pprof(buf_bytes(&b), NULL, &q, &err) == 0);
	FUZZ_CHECK(profile_counters_rise(p, NULL, NULL, &first, &err) == PROFILE_NO_BASE);
	if (negative)
		FUZZ_CHECK(profile_counters_rise(q, first, NULL, &second, &err) >= 0);
	else
		FUZZ_CHECK(profile_counters_rise(q, first, NULL, &second, &err) == 0);
	for (uint32_t t = 0; !negative && !saturated && t < p->types.n; t++)
		FUZZ_CHECK(profile_total(p, t) == profile_total(q, t));
	profile_counters_free(first);
	profile_counters_free(second);
	profile_free(q);
	buf_done(&b);
}

/* Takes @p, which is one if @done is 0. */
static inline int check_profile(int done, struct profile *p, const struct err *err)
{
	if (done < 0) {
		FUZZ_CHECK(err->kind == ERR_INVALID || err->kind == ERR_LIMIT);
		return 0;
	}
	FUZZ_CHECK(p->n_samples && p->types.n);
	check_written(p);
	check_outputs(p);
	check_pruned(p);
	check_written(p);
	check_counters(p);
	profile_free(p);
	return 0;
}

static inline int check_profile_text(const uint8_t *data, size_t size,
				     int (*read)(struct str text, const struct profile_limits *limits,
						 struct profile **ret, struct err *err))
{
	struct profile *p = NULL;
	struct err err = { 0 };
	int done = read((struct str){ (const char *)data, size }, &check_limits, &p, &err);

	return check_profile(done, p, &err);
}
