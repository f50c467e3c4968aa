/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that a merge lends to the builder of a tree instead of copying them: of one range, and of the two sides of a
 * comparison.
 */
#include <stdlib.h>
#include "stored.h"

#include "base/budget.h"
#include "profile/output.h"

#define N 6

struct lent {
	unsigned n_calls;
	struct profile_tree *tree;
	struct profile_view view;
	struct profile_trie_groups *groups; /* with a label */
	int64_t totals[2];
};

static int take_lent(void *arg, const struct profilestore_merged *m, struct profile_trie *in, struct err *err)
{
	struct lent *x = arg;

	x->n_calls++;
	assert_int_equal(m->profile->n_samples, 0);
	assert_true(in->base || (m->n_profiles > 0 && m->n_samples > 0));
	x->totals[0] = in->total;
	x->totals[1] = in->base_total;
	x->view.max_nodes = 50;
	if (!x->view.label)
		return profile_tree_of_trie(&x->view, NULL, m->profile, in, &x->tree, err);
	if (!x->groups && profile_trie_groups_new(&x->view, NULL, &x->groups, err) < 0)
		return -1;
	return profile_trie_groups_add(x->groups, m->profile, in, err);
}

static int end_lent(void *arg, struct err *err)
{
	struct lent *x = arg;

	return x->groups ? profile_trie_groups_end(x->groups, &x->tree, err) : 0;
}

static char *text_of_tree(const struct profile_tree *t)
{
	AUTO(buf_done) struct buf text = { 0 };

	profile_write_folded(t, &(struct profile_output){ 0 }, &text);
	buf_printf(&text, "left out: %llu", (unsigned long long)profile_tree_n_left_out(t));
	return mem_printf(STR_FMT, STR_ARG(buf_str(&text)));
}

/* The tree of the store's own stacks is that of the merged profile. */
static void stacks_are_lent(void **state)
{
	struct stored t = { 0 };
	struct profilestore_range r;
	struct err err = { 0 };

	stored_open(&t);
	for (unsigned i = 0; i < N; i++) {
		AUTO(profile_freep) struct profile *p = stored_profile(i, NOW_MS - (i + 1) * MINUTE);

		for (uint32_t k = 0; k < p->n_samples * p->types.n; k++)
			p->values[k] = p->values[k] < 0 ? -p->values[k] : p->values[k];
		stored_add(&t, p, "web");
	}
	r = stored_range(CPU, 0, INT64_MAX);
	for (int detail = PROFILESTORE_ADDRESSES; detail <= PROFILESTORE_FUNCTIONS; detail++) {
		struct lent x = { 0 };
		struct profilestore_shape shape = { .detail = (enum profilestore_detail)detail };
		struct profilestore_merged whole, m;
		struct profile_tree *tree = NULL;
		AUTO(mem_freep) char *want = NULL;
		AUTO(mem_freep) char *got = NULL;

		assert_done(profilestore_merge(t.s, &r, &shape, NULL, &whole, &err));
		shape.stacks = take_lent;
		shape.arg = &x;
		shape.lend_from = 1u << 30;
		assert_done(profilestore_merge(t.s, &r, &shape, NULL, &m, &err));
		assert_int_equal(x.n_calls, 0);
		assert_int_equal(m.profile->n_samples, whole.profile->n_samples);
		profile_free(m.profile);
		shape.lend_from = 10;
		assert_done(profilestore_merge(t.s, &r, &shape, NULL, &m, &err));
		assert_int_equal(x.n_calls, 1);
		assert_true(m.n_profiles == whole.n_profiles && m.n_pending == whole.n_pending);
		assert_done(profile_tree_new(&(struct profile_view){ .max_nodes = 50 }, NULL, &tree, &err));
		assert_done(profile_tree_add(tree, whole.profile, 0, 0, 1, &err));
		assert_done(profile_tree_end(tree, &err));
		want = text_of_tree(tree);
		got = text_of_tree(x.tree);
		assert_string_equal(got, want);
		profile_tree_free(tree);
		profile_tree_free(x.tree);
		profile_free(whole.profile);
		profile_free(m.profile);
	}
	stored_range_done(&r);
	stored_done(&t);
}

/* ---- two sides ---- */

static void tree_of_sides(const struct profilestore_merged *a, const struct profilestore_merged *b,
			  const char *label, struct profile_tree **ret)
{
	struct err err = { 0 };

	assert_done(
		profile_tree_new(&(struct profile_view){ .max_nodes = 50, .label = label }, NULL, ret, &err));
	assert_done(profile_tree_add(*ret, a->profile, 0, 0, 1, &err));
	assert_done(profile_tree_add(*ret, b->profile, 0, 1, 1, &err));
	assert_done(profile_tree_end(*ret, &err));
}

/* Both sides at once are as each by itself: copied, and lent; by @n values of @label, unless it is NULL. */
static void compare_ranges(const struct stored *t, const struct profilestore_range *r,
			   const struct profilestore_range *base, const char *label, unsigned n)
{
	struct profilestore_shape shape = { .detail = PROFILESTORE_FUNCTIONS,
					    .label = str_of(label ? label : "") };
	struct profilestore_merged one[2], both[2];
	struct profile_tree *tree = NULL;
	AUTO(mem_freep) char *want = NULL;
	AUTO(mem_freep) char *got = NULL;
	struct err err = { 0 };
	struct lent x = { .view.label = label };

	assert_done(profilestore_merge(t->s, r, &shape, NULL, &one[0], &err));
	assert_done(profilestore_merge(t->s, base, &shape, NULL, &one[1], &err));
	shape.stacks = take_lent;
	shape.end = end_lent;
	shape.arg = &x;
	shape.base = base;
	for (int lends = 0; lends < 2; lends++) {
		shape.lend_from = lends ? 1 : 1u << 30;
		assert_done(profilestore_merge(t->s, r, &shape, NULL, both, &err));
		assert_int_equal(x.n_calls, lends ? n : 0);
		for (unsigned i = 0; i < 2; i++) {
			if (lends && one[i].profile->types.n)
				assert_int_equal(x.totals[i], profile_total(one[i].profile, 0));
			assert_int_equal(both[i].n_profiles, one[i].n_profiles);
			assert_int_equal(both[i].n_samples, one[i].n_samples);
			assert_int_equal(both[i].profile->n_samples, lends ? 0 : one[i].profile->n_samples);
			if (!lends && one[i].profile->types.n)
				assert_int_equal(profile_total(both[i].profile, 0),
						 profile_total(one[i].profile, 0));
			profile_free(both[i].profile);
		}
	}
	profile_trie_groups_free(x.groups);
	tree_of_sides(&one[0], &one[1], label, &tree);
	want = text_of_tree(tree);
	got = text_of_tree(x.tree);
	assert_string_equal(got, want);
	for (unsigned i = 0; i < 2; i++)
		profile_free(one[i].profile);
	profile_tree_free(tree);
	profile_tree_free(x.tree);
}

static void compare_both_sides(const struct stored *t, const char *selector, const char *base_selector,
			       const char *label, unsigned n)
{
	struct profilestore_range r = stored_range(selector, 0, INT64_MAX),
				  base = stored_range(base_selector, 0, INT64_MAX);

	compare_ranges(t, &r, &base, label, n);
	stored_range_done(&r);
	stored_range_done(&base);
}

static int64_t latest_profile_of(const struct stored *t, const char *selector)
{
	struct profilestore_range r = stored_range(selector, 0, INT64_MAX);
	struct profilestore_entries *e;
	struct err err = { 0 };
	int64_t id;

	assert_done(profilestore_profiles(t->s, &r, 1, &e, &err));
	assert_int_equal(e->n, 1);
	id = e->v[0].id;
	free(e);
	stored_range_done(&r);
	return id;
}

/* The stacks of another value are lent first, and no snapshot is held for that: the profile is read from a new one. */
static void compare_with_one_of_the_last_value(const struct stored *t)
{
	struct profilestore_range all = stored_range(CPU, 0, INT64_MAX);
	const struct profilestore_range one = { .profile_id = latest_profile_of(t, CPU "{service='web'}") };

	compare_ranges(t, &one, &all, "service", 2);
	compare_ranges(t, &all, &one, "service", 2);
	stored_range_done(&all);
}

/* One profile by its number: each that was sent has two, of which the second one has CPU time. */
static void compare_with_one(const struct stored *t)
{
	struct profilestore_range all = stored_range(CPU, 0, INT64_MAX);
	const struct profilestore_range one = { .profile_id = 2 }, other = { .profile_id = 6 },
					nothing = { .profile_id = 1 << 30 };

	compare_ranges(t, &one, &other, NULL, 1);
	compare_ranges(t, &other, &all, "service", 2);
	compare_ranges(t, &all, &one, "service", 2);
	compare_ranges(t, &one, &nothing, "service", 1);
	stored_range_done(&all);
}

/* Profiles of "db" are before and after the range: none of its stacks are lent, and it is no frame, as if they were copied. */
static void compare_between_profiles_of_a_value(const struct stored *t)
{
	struct profilestore_range r = stored_range(CPU, NOW_MS - 4 * MINUTE + 1, NOW_MS - MINUTE);

	compare_ranges(t, &r, &r, "service", 1);
	stored_range_done(&r);
}

static void fill_sides(struct stored *t)
{
	stored_open(t);
	for (unsigned i = 0; i < N; i++) {
		AUTO(profile_freep) struct profile *p = stored_profile(i, NOW_MS - (i + 1) * MINUTE);

		for (uint32_t k = 0; k < p->n_samples * p->types.n; k++)
			p->values[k] = p->values[k] < 0 ? -p->values[k] : p->values[k];
		stored_add(t, p, i % 3 ? "web" : "db");
	}
}

static void both_sides_are_lent(void **state)
{
	struct stored t = { 0 };

	fill_sides(&t);
	compare_both_sides(&t, CPU "{service='web'}", CPU "{service='db'}", NULL, 1);
	compare_both_sides(&t, CPU, CPU "{service='db'}", NULL, 1);
	compare_both_sides(&t, CPU, CPU "{service='other'}", NULL, 1);
	compare_both_sides(&t, CPU "{service='other'}", CPU "{service='db'}", NULL, 1);
	compare_both_sides(&t, CPU "{service='web'}", CPU "{service='db'}", "service", 2);
	compare_both_sides(&t, CPU, CPU "{service='db'}", "service", 2);
	compare_both_sides(&t, CPU "{service='db'}", CPU, "service", 2);
	compare_both_sides(&t, CPU, CPU "{service='web'}", "nothing", 1);
	compare_with_one(&t);
	compare_with_one_of_the_last_value(&t);
	compare_between_profiles_of_a_value(&t);
	stored_done(&t);
}

static void memory_of_both_sides_is_granted(void **state)
{
	struct stored t = { 0 };
	struct profilestore_range r = stored_range(CPU, 0, INT64_MAX);
	bool done = false;

	fill_sides(&t);
	for (uint64_t max = KIB(16); !done; max += KIB(96)) {
		struct budget_hold h;
		const struct profile_limits limits = { .memory = &h };
		struct lent x = { 0 };
		struct profilestore_shape shape = { .stacks = take_lent, .arg = &x, .base = &r };
		struct profilestore_merged both[2];
		struct err err = { 0 };

		budget_hold_init(&h, NULL, BUDGET_QUERY);
		h.max = max;
		done = profilestore_merge(t.s, &r, &shape, &limits, both, &err) == 0;
		if (!done)
			assert_int_equal(err.kind, ERR_LIMIT);
		for (unsigned i = 0; done && i < 2; i++)
			profile_free(both[i].profile);
		profile_tree_free(x.tree);
		assert_int_equal(h.used, 0);
		budget_hold_done(&h);
		assert_true(max < MIB(64));
	}
	stored_range_done(&r);
	stored_done(&t);
}

static void sides_have_one_unit(void **state)
{
	struct stored t = { 0 };
	struct profilestore_range r = stored_range(CPU, 0, INT64_MAX),
				  base = stored_range("profile:samples:count:cpu:nanoseconds:delta", 0,
						      INT64_MAX);
	struct lent x = { 0 };
	const struct profilestore_shape shape = { .stacks = take_lent, .arg = &x, .base = &base };
	struct profilestore_merged both[2];
	struct err err = { 0 };

	fill_sides(&t);
	assert_fails(profilestore_merge(t.s, &r, &shape, NULL, both, &err), ERR_INVALID,
		     "'base': has the unit count, other profiles nanoseconds");
	assert_int_equal(x.n_calls, 0);
	stored_range_done(&r);
	stored_range_done(&base);
	stored_done(&t);
}

static int refuse_stacks(void *arg, const struct profilestore_merged *m, struct profile_trie *in,
			 struct err *err)
{
	return err_set(err, ERR_IO, "no room");
}

static void a_failure_of_the_borrower_ends_the_merge(void **state)
{
	struct stored t = { 0 };
	struct profilestore_range r = stored_range(CPU, 0, NOW_MS);
	const struct profilestore_shape shape = { .stacks = refuse_stacks };
	struct profilestore_merged m = { 0 };
	struct err err = { 0 };

	stored_two_services(&t, N);
	assert_fails(profilestore_merge(t.s, &r, &shape, NULL, &m, &err), ERR_IO, "no room");
	stored_range_done(&r);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_are_lent),
		cmocka_unit_test(both_sides_are_lent),
		cmocka_unit_test(memory_of_both_sides_is_granted),
		cmocka_unit_test(sides_have_one_unit),
		cmocka_unit_test(a_failure_of_the_borrower_ends_the_merge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
