/* SPDX-License-Identifier: Apache-2.0 */
/* A profile compared with folded stacks, for the tests of readers. */
#pragma once

#include "profile/output.h"
#include "profile/profile.h"
#include "profile/tree.h"
#include "test.h"

/* The samples of this type, as a tree without filters. */
static inline void assert_folded(const struct profile *p, uint32_t type, const char *want)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };

	assert_done(profile_tree_new(&(struct profile_view){ 0 }, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, type, 0, 1, &err));
	assert_done(profile_tree_end(t, &err));
	profile_write_folded(t, &(struct profile_output){ 0 }, &b);
	assert_string_equal(buf_cstr(&b), want);
}

static inline void assert_folded_type(const struct profile *p, const char *type, const char *want)
{
	assert_folded(p, profile_type_find(p, str_of(type)), want);
}
