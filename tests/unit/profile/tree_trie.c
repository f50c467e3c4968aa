/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of stacks that are kept elsewhere, compared with those that have a node for each stack: the nodes in their order,
 * their values and frames, and the rows of frames by value; all of one value of a label after the other, too.
 */
#include "test.h"

#include "base/budget.h"
#include "lent.h"
#include "profile/output.h"

/* ---- trees as text ---- */

struct dump {
	const struct profile_tree *t;
	bool sorted;
	struct buf text;
};

static int by_line(const void *a, const void *b)
{
	return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static void sort_lines(struct buf *text)
{
	struct str rest = buf_str(text), *lines = calloc(text->size + 1, sizeof(*lines));
	struct buf out = { 0 };
	size_t n = 0;

	while (rest.size)
		lines[n++] = str_cut(&rest, '\n');
	qsort(lines, n, sizeof(*lines), by_line);
	for (size_t i = 0; i < n; i++)
		buf_printf(&out, STR_FMT "\n", STR_ARG(lines[i]));
	free(lines);
	buf_done(text);
	*text = out;
}

static void dump_frame(struct dump *d, uint32_t frame)
{
	struct profile_frame f;

	profile_tree_frame(d->t, frame, &f);
	buf_printf(&d->text, STR_FMT "|" STR_FMT "|" STR_FMT "|" STR_FMT "|%lld|%llx", STR_ARG(f.name),
		   STR_ARG(f.file), STR_ARG(f.binary), STR_ARG(f.build_id), (long long)f.line,
		   (unsigned long long)f.address);
}

static int dump_node(void *arg, uint32_t node, unsigned depth)
{
	struct dump *d = arg;
	struct profile_node n;

	profile_tree_node(d->t, node, &n);
	buf_printf(&d->text, "%u %lld %lld %lld %lld %d ", depth, (long long)n.self[0], (long long)n.total[0],
		   (long long)n.self[1], (long long)n.total[1], n.inlined);
	if (node)
		dump_frame(d, n.frame);
	/* Of nodes that look the same, it depends on their order which comes first: then the lines are sorted. */
	for (uint32_t up = n.parent; d->sorted && node && up; up = n.parent) {
		profile_tree_node(d->t, up, &n);
		buf_add_str(&d->text, STR(" < "));
		dump_frame(d, n.frame);
	}
	buf_add_char(&d->text, '\n');
	return 0;
}

static void dump_tree(const struct profile_tree *t, bool sorted, struct buf *out)
{
	struct dump d = { .t = t, .sorted = sorted };
	const struct profile_walk w = { dump_node, NULL, &d };

	buf_printf(&d.text, STR_FMT " " STR_FMT " %u frames\n", STR_ARG(profile_tree_type(t)),
		   STR_ARG(profile_tree_unit(t)), profile_tree_n_frames(t));
	profile_tree_walk(t, &w);
	if (sorted)
		sort_lines(&d.text);
	*out = d.text;
}

static void dump_top(const struct profile_tree *t, struct buf *out)
{
	struct dump d = { .t = t };

	for (int by_cum = 0; by_cum < 2; by_cum++) {
		uint32_t n;
		struct profile_top *rows = profile_tree_top(t, by_cum, &n);

		for (uint32_t i = 0; i < n; i++) {
			for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
				buf_printf(&d.text, "%lld %lld ", (long long)rows[i].flat[c],
					   (long long)rows[i].cum[c]);
			dump_frame(&d, rows[i].frame);
			buf_add_char(&d.text, '\n');
		}
		free(rows);
	}
	*out = d.text;
}

static struct profile_tree *whole_tree(const struct profile *p, const struct profile_view *view)
{
	struct profile_tree *t = NULL;
	struct err err = { 0 };

	assert_done(profile_tree_new(view, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_done(profile_tree_end(t, &err));
	return t;
}

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
	const struct profile_top *at = profile_tree_find(t, rows, n, name, binary);

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
	assert_null(profile_tree_find(t, rows, n, in.function, STR("")));
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
		const struct profile_maker m = { i,
						 i % 5,
						 1 + (unsigned)(profile_maker_next(&seed) % 40),
						 1 + (unsigned)(profile_maker_next(&seed) % 30),
						 1 + (unsigned)(profile_maker_next(&seed) % 12),
						 i % 11 == 0 };
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

static struct profile_tree *whole_tree_of_sides(const struct sides *x, const struct profile_view *view)
{
	struct profile_tree *t = NULL;
	struct err err = { 0 };

	assert_done(profile_tree_new(view, NULL, &t, &err));
	assert_done(profile_tree_add(t, x->p, 0, 0, 1, &err));
	assert_done(profile_tree_add(t, x->base, 0, 1, x->scale, &err));
	assert_done(profile_tree_end(t, &err));
	return t;
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
		const struct profile_maker m = { i,
						 i % 5,
						 1 + (unsigned)(profile_maker_next(&seed) % 60),
						 1 + (unsigned)(profile_maker_next(&seed) % 30),
						 1 + (unsigned)(profile_maker_next(&seed) % 12),
						 i % 11 == 0 };
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

/* Trees without the nodes that are not drawn. An image leaves out those that are small on the first side. */
static void comparisons_have_equal_drawings(void **state)
{
	uint64_t seed = 5;

	for (unsigned i = 0; i < 400; i++) {
		const struct profile_maker m = { i,
						 i % 5,
						 1 + (unsigned)(profile_maker_next(&seed) % 60),
						 1 + (unsigned)(profile_maker_next(&seed) % 30),
						 1 + (unsigned)(profile_maker_next(&seed) % 12),
						 i % 11 == 0 };
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
			assert_string_equal(buf_cstr(&got), buf_cstr(&want));
			assert_string_equal(buf_cstr(&also), buf_cstr(&want));
			assert_int_equal(profile_tree_n(t), profile_tree_n(whole));
			if (v.first_side)
				break;
		}
		sides_done(&x);
	}
}

static uint32_t named_location(struct profile *p, uint64_t number)
{
	struct profile_function f = { 0 };
	struct profile_line line = { 0 };
	char name[32];

	snprintf(name, sizeof(name), "f%llu", (unsigned long long)number);
	f.name = profile_add_string(p, str_of(name));
	line.function = profile_add_function(p, &f);
	return profile_add_location(
		p, &(struct profile_location){ .mapping = PROFILE_NONE, .addr = number + 1 }, &line, 1);
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

/* ---- the values of a label ---- */

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
		cmocka_unit_test(values_of_a_label_have_equal_trees),
		cmocka_unit_test(a_value_like_no_value_needs_all_nodes),
		cmocka_unit_test(a_function_with_the_name_of_a_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
