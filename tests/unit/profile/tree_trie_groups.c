/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees whose outermost frames are the values of a label, of stacks that are kept elsewhere: one value after the other,
 * compared with those that have a node for each stack.
 */
#include "test.h"

#include "tree_text.h"

/* 0, or TREE_NEEDS_NODES. Without a base, @x has none. */
static int tree_of_values(const struct sides *x, const struct profile_view *view, uint32_t table_max,
			  struct profile_tree **ret)
{
	AUTO(mem_freep) uint32_t *groups = NEW_N(uint32_t, x->p->label_sets.n);
	uint32_t n = number_values(x->p, groups);
	struct profile_trie_groups *g = NULL;
	/* They can be read until the end. */
	const struct lent stacks = { .p = x->p };
	struct err err = { 0 };
	int r;

	r = profile_trie_groups_new(view, NULL, &g, &err);
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		struct lent l[2] = { { 0 } };
		struct profile_trie in;

		if (x->base ? lend_value_of_sides(l, x, groups, i, &in)
			    : lend_value(&l[0], x->p, groups, i, &in)) {
			in.table_max = table_max;
			in.arg = &stacks;
			r = profile_trie_groups_add(g, x->p, &in, &err);
		}
		lent_done(&l[0]);
		lent_done(&l[1]);
	}
	if (r == 0)
		r = profile_trie_groups_end(g, ret, &err);
	profile_trie_groups_free(g);
	assert_true(r >= 0);
	return r;
}

static void compare_values(const struct sides *x, const struct profile_view *view, uint32_t table_max)
{
	AUTO(profile_tree_freep)
	struct profile_tree *expected = x->base ? whole_tree_of_sides(x, view) : whole_tree(x->p, view);
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	uint64_t n = profile_tree_n_left_out(expected);

	assert_int_equal(tree_of_values(x, view, table_max, &t), 0);
	dump_tree(expected, true, &want);
	dump_tree(t, true, &got);
	assert_string_equal(buf_cstr(&got), buf_cstr(&want));
	assert_int_equal(profile_tree_compares(t), x->base != NULL);
	if (table_max || view->invert)
		assert_in_range(profile_tree_n_left_out(t), n - n / 50 - MIN(n, 9u), n + n / 50 + 9);
	else
		assert_int_equal(profile_tree_n_left_out(t), n);
}

static void values_of_a_label_have_equal_trees(void **state)
{
	static const struct profile_view grouped[] = {
		{ .label = "key 0" },
		{ .label = "key 0", .no_inlines = true },
		{ .label = "key 0", .by = PROFILE_BY_FILE },
		{ .label = "key 0", .by = PROFILE_BY_ADDRESS },
		{ .label = "key 0", .focus = "function [12]" },
		{ .label = "key 0", .focus = "value 1" },
		{ .label = "key 0", .focus = "value 1|function 3", .ignore = "value 2|function 12" },
		{ .label = "key 0", .hide = "function [1-3]" },
		{ .label = "key 0", .show = "function [1-3]|value|no label|^-?[0-9]" },
		{ .label = "key 0", .hide = "^value [01]$" },
		{ .label = "key 0", .show = "function [1-5]" },
		{ .label = "key 0", .hide = "value|function [1-3]|no label", .focus = "value 1|function 4" },
		{ .label = "key 0", .hide = "value", .focus = "function 1", .ignore = "value 2|function 12" },
		{ .label = "key 0", .by = PROFILE_BY_FILE, .hide = "value [12]|[0-9] " },
	};
	uint64_t seed = 7;

	for (unsigned i = 0; i < 1500; i++) {
		const struct profile_maker m = { i,
						 i % 5,
						 1 + (unsigned)(profile_maker_next(&seed) %
								(i % 50 ? 90 : 900)),
						 1 + (unsigned)(profile_maker_next(&seed) % 30),
						 1 + (unsigned)(profile_maker_next(&seed) % 12),
						 false };
		struct sides x = { 0 };
		struct profile_view v = grouped[profile_maker_next(&seed) % ARRAY_SIZE(grouped)];

		v.invert = i % 2;
		v.max_nodes = profile_maker_next(&seed) % 4 ? 1 + (uint32_t)(profile_maker_next(&seed) % 90)
							    : 0;
		v.min_share = profile_maker_next(&seed) % 3 && v.max_nodes ? 0 : 0.01;
		assert_true(profile_tree_takes_trie(&v, false));
		if (i % 3)
			x.p = counts_make(&m);
		else
			x = sides_make(&m, (double)(profile_maker_next(&seed) % 3));
		compare_values(&x, &v, profile_maker_next(&seed) % 8 ? 0 : 20);
		sides_done(&x);
	}
}

/* A value that reads like no value shares its nodes. */
static void a_value_like_no_value_needs_all_nodes(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	const struct profile_view view = { .label = "key 0", .max_nodes = 9 };
	struct profile_label l = { 0 };
	struct profile_tree *t = NULL;
	uint32_t stack;

	profile_add_type(p, STR("cpu"), STR("count"));
	stack = profile_add_stack(p, 0, named_location(p, 1));
	l.key = profile_add_string(p, STR("key 0"));
	l.str = profile_add_string(p, STR("(no label)"));
	profile_add_sample(p, stack, 0, (int64_t[]){ 7 });
	profile_add_sample(p, stack, profile_add_labels(p, &l, 1), (int64_t[]){ 5 });
	assert_int_equal(tree_of_values(&(struct sides){ .p = p }, &view, 0, &t), TREE_NEEDS_NODES);
}

/* A function has the name of a value, and nothing else; the other values are hidden, so it is directly below the root. */
static void a_function_with_the_name_of_a_value(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	const struct profile_view view = { .label = "key 0", .hide = "no label", .max_nodes = 90 };
	struct profile_label l = { 0 };

	profile_add_type(p, STR("cpu"), STR("count"));
	l.key = profile_add_string(p, STR("key 0"));
	l.str = profile_add_string(p, STR("f1"));
	for (unsigned i = 1; i < 4; i++) {
		uint32_t stack = profile_add_stack(p, 0, named_location(p, i));

		profile_add_sample(p, stack, 0, (int64_t[]){ 7 });
		profile_add_sample(p, stack, profile_add_labels(p, &l, 1), (int64_t[]){ 5 });
	}
	compare_values(&(struct sides){ .p = p }, &view, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_a_label_have_equal_trees),
		cmocka_unit_test(a_value_like_no_value_needs_all_nodes),
		cmocka_unit_test(a_function_with_the_name_of_a_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
