/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of stacks that are kept elsewhere, compared with those that have a node for each stack: the nodes in their order,
 * their values and frames, and the rows of frames by value.
 */
#include "test.h"

#include "base/budget.h"
#include "profile/output.h"
#include "tree_text.h"

static void dump_answer(const struct profile_tree *t, bool top, bool sorted, struct buf *out)
{
	if (top)
		dump_top(t, out);
	else
		dump_tree(t, sorted, out);
}

/* @table_max: as in struct profile_trie. */
static void compare_lines(const struct profile *p, const struct profile_view *view, bool top,
			  uint32_t table_max, bool sorted)
{
	struct profile_tree *expected = whole_tree(p, view), *t = NULL;
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	struct lent l;
	struct profile_trie in = lend(&l, p);
	struct err err = { 0 };
	uint64_t n;

	in.table_max = table_max;
	in.top = top;
	assert_true(profile_tree_takes_trie(view, top));
	assert_done(profile_tree_of_trie(view, NULL, p, &in, &t, &err));
	lent_done(&l);
	dump_answer(expected, top, sorted, &want);
	dump_answer(t, top, sorted, &got);
	buf_add_char(&want, '\0');
	buf_add_char(&got, '\0');
	assert_string_equal((const char *)got.p, (const char *)want.p);
	n = profile_tree_n_left_out(expected);
	if (!top && (table_max || view->invert))
		assert_in_range(profile_tree_n_left_out(t), n - n / 100 - MIN(n, 2u), n + n / 100 + 2);
	else if (!top)
		assert_int_equal(profile_tree_n_left_out(t), n);
	profile_tree_free(expected);
	profile_tree_free(t);
}

static void compare(const struct profile *p, const struct profile_view *view, bool top, uint32_t table_max)
{
	/* Inverted nodes have other numbers, which decide the order of equal ones. */
	compare_lines(p, view, top, table_max, view->invert);
}

static void dump_rows(const struct profile_tree *t, struct profile_top *rows, uint32_t n, struct buf *out)
{
	struct dump d = { .t = t, .text = *out };

	for (uint32_t i = 0; i < n; i++) {
		buf_printf(&d.text, "%lld %lld ", (long long)rows[i].cum[0], (long long)rows[i].cum[1]);
		dump_frame(&d, rows[i].frame);
		buf_add_char(&d.text, '\n');
	}
	buf_add_str(&d.text, STR("--\n"));
	*out = d.text;
	free(rows);
}

/* The row of @name, its callers and its callees. */
static void dump_calls(const struct profile_tree *t, struct str name, struct str binary, struct buf *out)
{
	uint32_t n, n_calls;
	struct profile_top *rows = profile_tree_top(t, true, &n), *calls;
	const struct profile_top *at = profile_tree_find(t, rows, n, name, binary, STR(""));

	if (at) {
		struct profile_top *one = NEW(struct profile_top);

		*one = *at;
		dump_rows(t, one, 1, out);
		calls = profile_tree_callers(t, at->frame, &n_calls);
		dump_rows(t, calls, n_calls, out);
		calls = profile_tree_callees(t, at->frame, &n_calls);
		dump_rows(t, calls, n_calls, out);
	}
	free(rows);
}

static void compare_calls_of(const struct profile *p, const struct profile_view *view,
			     const struct profile_tree *expected, const struct profile_frame *f, bool binary)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	struct lent l;
	struct profile_trie in = lend(&l, p);
	struct err err = { 0 };

	in.top = true;
	in.function = f->name;
	in.binary = binary ? f->binary : STR("");
	assert_done(profile_tree_of_trie(view, NULL, p, &in, &t, &err));
	lent_done(&l);
	dump_calls(expected, in.function, in.binary, &want);
	dump_calls(t, in.function, in.binary, &got);
	assert_true(want.size != 0);
	assert_string_equal(buf_cstr(&got), buf_cstr(&want));
}

/* Of @n_most functions, and of one that is not there. */
static void compare_calls(const struct profile *p, const struct profile_view *view, uint32_t n_most)
{
	AUTO(profile_tree_freep) struct profile_tree *expected = whole_tree(p, view);
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct profile_frame f;
	struct err err = { 0 };
	struct lent l;
	struct profile_trie in;
	uint32_t n;
	struct profile_top *rows = profile_tree_top(expected, true, &n);

	for (uint32_t i = 0; i < n && i < n_most; i++) {
		profile_tree_frame(expected, rows[(uint64_t)i * n / MIN(n, n_most)].frame, &f);
		compare_calls_of(p, view, expected, &f, i % 2);
	}
	free(rows);
	in = lend(&l, p);
	in.top = true;
	in.function = STR("nowhere");
	assert_done(profile_tree_of_trie(view, NULL, p, &in, &t, &err));
	lent_done(&l);
	rows = profile_tree_top(t, true, &n);
	assert_null(profile_tree_find(t, rows, n, in.function, STR(""), STR("")));
	free(rows);
}

static const struct profile_view views[] = {
	{ .by = PROFILE_BY_FUNCTION },
	{ .by = PROFILE_BY_FUNCTION, .no_inlines = true },
	{ .by = PROFILE_BY_FILE },
	{ .by = PROFILE_BY_BINARY },
	{ .by = PROFILE_BY_LINE },
	{ .by = PROFILE_BY_ADDRESS },
	{ .by = PROFILE_BY_FUNCTION, .focus = "1" },
	{ .by = PROFILE_BY_FUNCTION, .ignore = "2", .hide = "1" },
	{ .by = PROFILE_BY_FILE, .show = "[13]" },
	{ .by = PROFILE_BY_FUNCTION, .focus = "3", .ignore = "1", .show = "[0-4]" },
	{ .by = PROFILE_BY_FUNCTION, .invert = true },
	{ .by = PROFILE_BY_BINARY, .invert = true, .ignore = "7" },
	{ .by = PROFILE_BY_LINE, .invert = true, .focus = "3", .hide = "2" },
};

static void compare_views(const struct profile *p)
{
	static const uint32_t max_nodes[] = { 1, 60, 1000000 }, tables[] = { 0, 50 };
	static const double shares[] = { 1e-9, 0.02 };

	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		struct profile_view v = views[i];

		compare(p, &v, true, 0);
		compare_calls(p, &v, 4);
		for (size_t k = 0; k < ARRAY_SIZE(max_nodes) * ARRAY_SIZE(tables); k++) {
			v.max_nodes = max_nodes[k / ARRAY_SIZE(tables)];
			compare(p, &v, false, tables[k % ARRAY_SIZE(tables)]);
		}
		for (size_t k = 0; k < ARRAY_SIZE(shares) * ARRAY_SIZE(tables); k++) {
			v.max_nodes = k % 2 ? 100 : 0;
			v.min_share = shares[k / ARRAY_SIZE(tables)];
			compare(p, &v, false, tables[k % ARRAY_SIZE(tables)]);
		}
	}
}

static void trees_equal_those_with_all_nodes(void **state)
{
	for (uint64_t seed = 1; seed < 4; seed++) {
		const struct profile_maker m = { seed,
						 seed % 2,
						 40 * (unsigned)seed * (unsigned)seed,
						 90,
						 4 + 3 * (unsigned)seed,
						 seed % 4 == 3 };
		AUTO(profile_freep) struct profile *p = counts_make(&m);

		compare_views(p);
	}
}

/* Every kind of answer, of thousands of profiles, from both. */
static void random_profiles_have_equal_answers(void **state)
{
	uint64_t seed = 9;

	for (unsigned i = 0; i < 2000; i++) {
		const struct profile_maker m = profile_maker_of(i, &seed, 40);
		AUTO(profile_freep) struct profile *p = counts_make(&m);
		struct profile_view v = views[profile_maker_next(&seed) % ARRAY_SIZE(views)];

		v.invert = profile_maker_next(&seed) % 2;
		compare(p, &v, true, 0);
		compare_calls(p, &v, 1);
		v.max_nodes = 1 + (uint32_t)(profile_maker_next(&seed) % 60);
		v.min_share = profile_maker_next(&seed) % 3 ? 0 : 0.04;
		compare_lines(p, &v, false, profile_maker_next(&seed) % 16 ? 0 : 10, true);
	}
}

/* @in has all but the values. */
static struct profile_tree *lent_tree_of_sides(const struct sides *x, const struct profile_view *view,
					       struct profile_trie in)
{
	struct profile_trie with = in;
	struct profile_tree *t = NULL;
	struct lent l, other;
	struct err err = { 0 };

	in = lend(&l, x->p);
	in.base = lend(&other, x->base).values;
	in.scale = x->scale;
	in.table_max = with.table_max;
	in.top = with.top;
	in.function = with.function;
	assert_done(profile_tree_of_trie(view, NULL, x->p, &in, &t, &err));
	lent_done(&l);
	lent_done(&other);
	assert_true(profile_tree_compares(t));
	return t;
}

static void compare_sides(const struct sides *x, const struct profile_view *view, uint32_t table_max)
{
	AUTO(profile_tree_freep) struct profile_tree *expected = whole_tree_of_sides(x, view);
	AUTO(profile_tree_freep)
	struct profile_tree *t = lent_tree_of_sides(x, view, (struct profile_trie){ .table_max = table_max });
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	uint64_t n = profile_tree_n_left_out(expected);

	dump_tree(expected, true, &want);
	dump_tree(t, true, &got);
	assert_string_equal(buf_cstr(&got), buf_cstr(&want));
	assert_in_range(profile_tree_n_left_out(t), n - n / 100 - MIN(n, 2u), n + n / 100 + 2);
}

/* All rows of both sides, and the callers and callees of one. */
static void compare_rows_of_sides(const struct sides *x, struct profile_view view, unsigned which)
{
	AUTO(profile_tree_freep) struct profile_tree *expected = NULL;
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	struct profile_frame f = { 0 };
	struct profile_top *rows;
	uint32_t n;

	view.max_nodes = 0;
	view.min_share = 0;
	expected = whole_tree_of_sides(x, &view);
	rows = profile_tree_top(expected, true, &n);
	if (n)
		profile_tree_frame(expected, rows[which % n].frame, &f);
	free(rows);
	t = lent_tree_of_sides(x, &view, (struct profile_trie){ .top = true, .function = f.name });
	dump_top(expected, &want);
	dump_top(t, &got);
	if (f.name.size) {
		dump_calls(expected, f.name, STR(""), &want);
		dump_calls(t, f.name, STR(""), &got);
	}
	assert_string_equal(buf_cstr(&got), buf_cstr(&want));
}

static void comparisons_have_equal_trees(void **state)
{
	uint64_t seed = 4;

	for (unsigned i = 0; i < 600; i++) {
		const struct profile_maker m = profile_maker_of(i, &seed, 60);
		struct profile_view v = views[profile_maker_next(&seed) % ARRAY_SIZE(views)];
		struct sides x;

		v.invert = i % 3 == 0;
		v.max_nodes = 1 + (uint32_t)(profile_maker_next(&seed) % 60);
		v.min_share = profile_maker_next(&seed) % 3 ? 0 : 0.04;
		x = sides_make(&m, (double)(profile_maker_next(&seed) % 3));
		compare_sides(&x, &v, profile_maker_next(&seed) % 4 ? 0 : 10);
		compare_rows_of_sides(&x, v, i);
		sides_done(&x);
	}
}

/* How many nodes were left out is an estimate in some trees. */
static void cut_left_out(struct buf *out)
{
	static const char field[] = "\"left_out\":";
	char *at = strstr((char *)(uintptr_t)buf_cstr(out), field), *end = at ? at + sizeof(field) - 1 : NULL;

	if (!at)
		return;
	end += strspn(end, "0123456789");
	out->size = (size_t)(at - (char *)out->p) + strlen(end);
	memmove(at, end, strlen(end) + 1);
}

/* Trees without the nodes that are not drawn. An image leaves out those that are small on the first side. */
static void comparisons_have_equal_drawings(void **state)
{
	uint64_t seed = 5;

	for (unsigned i = 0; i < 400; i++) {
		const struct profile_maker m = profile_maker_of(i, &seed, 60);
		const struct profile_output o = { .min_share = 0.01 * (double)(1 + i % 8) };
		struct sides x = sides_make(&m, (double)(i % 4));
		struct profile_view v = { .by = i % 3 ? PROFILE_BY_FUNCTION : PROFILE_BY_FILE };
		AUTO(profile_tree_freep) struct profile_tree *all = NULL;

		/* Nothing on the first side: nothing is drawn of the other one, too. */
		for (uint32_t k = 0; i % 20 == 0 && k < x.p->n_samples * x.p->types.n; k++)
			x.p->values[k] = 0;
		all = whole_tree_of_sides(&x, &v);
		v.min_share = o.min_share;
		for (v.first_side = false;; v.first_side = true) {
			AUTO(profile_tree_freep)
			struct profile_tree *t = lent_tree_of_sides(
				&x, &v, (struct profile_trie){ .table_max = i % 2 ? 10 : 0 });
			AUTO(profile_tree_freep) struct profile_tree *whole = whole_tree_of_sides(&x, &v);
			AUTO(buf_done) struct buf want = { 0 };
			AUTO(buf_done) struct buf got = { 0 };
			AUTO(buf_done) struct buf also = { 0 };

			(v.first_side ? profile_write_svg : profile_write_html)(all, &o, &want);
			(v.first_side ? profile_write_svg : profile_write_html)(t, &o, &got);
			(v.first_side ? profile_write_svg : profile_write_html)(whole, &o, &also);
			cut_left_out(&want);
			cut_left_out(&got);
			cut_left_out(&also);
			assert_string_equal(buf_cstr(&got), buf_cstr(&want));
			assert_string_equal(buf_cstr(&also), buf_cstr(&want));
			assert_int_equal(profile_tree_n(t), profile_tree_n(whole));
			if (v.first_side)
				break;
		}
		sides_done(&x);
	}
}

/*
 * Two deep stacks whose callees take turns: callers of each are far from it, so what is known of them is computed again.
 */
static void deep_stacks_take_turns(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	uint32_t ends[2] = { 0 };

	profile_add_type(p, STR("cpu"), STR("count"));
	for (unsigned i = 0; i < 400; i++)
		for (unsigned k = 0; k < 2; k++)
			ends[k] = profile_add_stack(p, ends[k], named_location(p, k + 2 * (i % 50)));
	for (unsigned i = 0; i < 3000; i++) {
		uint32_t s = profile_add_stack(p, ends[i % 2], named_location(p, 1000 + i));

		profile_add_sample(p, s, 0, (int64_t[]){ 1 + i % 7 });
	}
	compare(p, &(struct profile_view){ .max_nodes = 900 }, false, 0);
	compare(p, &(struct profile_view){ .max_nodes = 900 }, false, 50);
	compare(p, &(struct profile_view){ .max_nodes = 900, .invert = true }, false, 0);
	compare(p, &(struct profile_view){ 0 }, true, 0);
}

/* So many stacks that what is known of some is replaced: their callers are computed again. */
static void many_stacks_replace_each_other(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	uint64_t seed = 5;

	profile_add_type(p, STR("cpu"), STR("count"));
	for (unsigned i = 0; i < 100000; i++) {
		uint32_t callers = (uint32_t)(profile_maker_next(&seed) % p->stacks.n);
		uint32_t s = profile_add_stack(p, callers,
					       named_location(p, profile_maker_next(&seed) % 300));

		profile_add_sample(p, s, 0, (int64_t[]){ 1 });
	}
	compare(p, &(struct profile_view){ .max_nodes = 2000 }, false, 0);
	compare(p, &(struct profile_view){ .max_nodes = 2000 }, false, 5000);
	compare(p, &(struct profile_view){ .max_nodes = 2000, .invert = true }, false, 0);
	compare(p, &(struct profile_view){ .min_share = 1e-3, .invert = true }, false, 0);
	compare(p, &(struct profile_view){ 0 }, true, 0);
}

/* As many nodes of one size as there are: no bound makes them fewer than the table has room for. */
static void equal_nodes_are_counted_in_parts(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);

	profile_add_type(p, STR("cpu"), STR("count"));
	for (unsigned i = 0; i < 5000; i++)
		profile_add_sample(p, profile_add_stack(p, 0, named_location(p, i)), 0, (int64_t[]){ 10 });
	compare(p, &(struct profile_view){ .max_nodes = 100 }, false, 60);
	compare(p, &(struct profile_view){ .max_nodes = 100, .invert = true }, false, 0);
	compare(p, &(struct profile_view){ .max_nodes = 5000 }, false, 60);
	compare(p, &(struct profile_view){ .max_nodes = 6000 }, false, 60);
}

static void values_that_need_all_nodes(void **state)
{
	static const int64_t values[][2] = { { INT64_MAX / 2 + 1, INT64_MAX / 2 + 1 },
					     { -1, 5 },
					     { INT64_MIN, 0 } };
	const struct profile_view view = { .max_nodes = 10 };

	for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
		AUTO(profile_freep) struct profile *p = profile_new(NULL);
		struct profile_tree *t = NULL;
		struct err err = { 0 };
		struct lent l;
		struct profile_trie in;

		profile_add_type(p, STR("cpu"), STR("count"));
		for (unsigned i = 0; i < 2; i++)
			profile_add_sample(p, profile_add_stack(p, 0, named_location(p, i)), 0,
					   &values[k][i]);
		in = lend(&l, p);
		assert_int_equal(profile_tree_of_trie(&view, NULL, p, &in, &t, &err), TREE_NEEDS_NODES);
		assert_null(t);
		lent_done(&l);
	}
}

/* More functions are inlined at one place than an inverted tree can count. */
static void a_place_of_too_many_functions(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	struct profile_line lines[300] = { 0 };
	struct profile_tree *t = NULL;
	struct err err = { 0 };
	struct lent l;
	struct profile_trie in;
	uint32_t location;

	profile_add_type(p, STR("cpu"), STR("count"));
	for (unsigned i = 0; i < ARRAY_SIZE(lines); i++) {
		location = named_location(p, i);
		lines[i] = p->lines.p[p->locations.p[location].first_line];
	}
	location = profile_add_location(p, &(struct profile_location){ .mapping = PROFILE_NONE, .addr = 1 },
					lines, ARRAY_SIZE(lines));
	profile_add_sample(p, profile_add_stack(p, 0, location), 0, (int64_t[]){ 7 });
	in = lend(&l, p);
	assert_int_equal(profile_tree_of_trie(&(struct profile_view){ .max_nodes = 9, .invert = true }, NULL,
					      p, &in, &t, &err),
			 TREE_NEEDS_NODES);
	assert_null(t);
	assert_int_equal(in.values[1], 7);
	lent_done(&l);
	compare(p, &(struct profile_view){ .max_nodes = 400 }, false, 0);
}

static void some_views_need_all_nodes(void **state)
{
	const struct profile_view view = { .max_nodes = 10 };

	assert_false(profile_tree_takes_trie(&(struct profile_view){ 0 }, false));
	assert_false(profile_tree_takes_trie(&view, true));
	assert_false(profile_tree_takes_trie(&(struct profile_view){ .label = "pod" }, true));
}

static void memory_is_enough_in_the_end(const struct profile *p, const struct profile_view *view)
{
	bool done = false;

	for (uint64_t size = KIB(16); !done; size *= 2) {
		struct budget *b = budget_new_undivided(size);
		struct budget_hold hold = { 0 };
		const struct profile_limits limits = { .memory = &hold };
		struct profile_tree *t = NULL;
		struct budget_stats stats;
		struct err err = { 0 };
		struct lent l;
		struct profile_trie in = lend(&l, p);

		in.table_max = 500;
		budget_hold_init(&hold, b, BUDGET_QUERY);
		done = profile_tree_of_trie(view, &limits, p, &in, &t, &err) == 0;
		if (!done)
			assert_int_equal(err.kind, ERR_LIMIT);
		assert_true(done || size < MIB(64));
		profile_tree_free(t);
		budget_hold_done(&hold);
		budget_stats(b, &stats);
		assert_int_equal(stats.classes[BUDGET_QUERY].used, 0);
		budget_free(b);
		lent_done(&l);
	}
}

static void memory_is_granted_or_refused(void **state)
{
	const struct profile_maker m = { 3, 3, 20000, 3000, 12, false };
	AUTO(profile_freep) struct profile *p = counts_make(&m);

	for (int invert = 0; invert < 2; invert++)
		memory_is_enough_in_the_end(p, &(struct profile_view){ .max_nodes = 1000, .invert = invert });
}

static void a_deadline_ends_it(void **state)
{
	const struct profile_maker m = { 3, 3, 20000, 3000, 12, false };
	AUTO(profile_freep) struct profile *p = counts_make(&m);

	for (int i = 0; i < 3; i++) {
		bool top = i == 1;
		struct deadline d = deadline_in(-1, "the query", "ask for less");
		const struct profile_limits limits = { .deadline = &d };
		struct profile_tree *t = NULL;
		struct err err = { 0 };
		struct lent l;
		struct profile_trie in = lend(&l, p);

		in.top = top;
		assert_int_equal(profile_tree_of_trie(
					 &(struct profile_view){ .max_nodes = top ? 0 : 9, .invert = i == 2 },
					 &limits, p, &in, &t, &err),
				 -1);
		assert_int_equal(err.kind, ERR_CANCELLED);
		lent_done(&l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees_equal_those_with_all_nodes),
		cmocka_unit_test(random_profiles_have_equal_answers),
		cmocka_unit_test(comparisons_have_equal_trees),
		cmocka_unit_test(comparisons_have_equal_drawings),
		cmocka_unit_test(deep_stacks_take_turns),
		cmocka_unit_test(many_stacks_replace_each_other),
		cmocka_unit_test(equal_nodes_are_counted_in_parts),
		cmocka_unit_test(values_that_need_all_nodes),
		cmocka_unit_test(a_place_of_too_many_functions),
		cmocka_unit_test(some_views_need_all_nodes),
		cmocka_unit_test(memory_is_granted_or_refused),
		cmocka_unit_test(a_deadline_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
