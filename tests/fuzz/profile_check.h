/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds of every reader of a profile's text: it fails by a reason, or there is a profile, of which every format of output can be made.
 */
#pragma once

#include "fuzz.h"
#include "profile/input.h"
#include "profile/output.h"

static inline int check_profile_reader(const uint8_t *data, size_t size,
				       int (*read)(struct str text, const struct profile_limits *limits,
						   struct profile **ret, struct err *err))
{
	static const struct profile_limits limits = { .max_size = 1 << 20, .max_memory = 64 << 20 };
	struct profile_tree *t = NULL;
	struct profile *p = NULL;
	struct buf b = { 0 };
	struct err err = { 0 };

	if (read((struct str){ (const char *)data, size }, &limits, &p, &err) < 0) {
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
		return 0;
	}
	FUZZ_CHECK(p->n_samples && p->types.n);
	if (profile_tree_new(&(struct profile_view){ 0 }, &limits, &t, &err) == 0 &&
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
	profile_free(p);
	return 0;
}
