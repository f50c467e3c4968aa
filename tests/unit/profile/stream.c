/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of stacks that are kept elsewhere: added up, they are those of the tree. */
#include "test.h"

#include "base/budget.h"
#include "base/spool.h"
#include "lent.h"
#include "profile/output.h"

static int write_to_text(void *arg, struct bytes b, struct err *err)
{
	buf_add(arg, b.p, b.size);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* The path of a line; *ret are its values, of the base first. */
static struct str path_of(struct str line, bool compares, int64_t ret[2])
{
	size_t n = line.size;

	ret[0] = 0;
	for (int i = 1; i >= !compares; i--) {
		while (n && line.p[n - 1] != ' ')
			n--;
		assert_true(n != 0);
		ret[i] = strtoll(line.p + n, NULL, 10);
		n--;
	}
	return (struct str){ line.p, n };
}

/* Each path once, with its sums, in order. */
static void add_up_lines(struct buf *text, bool compares)
{
	struct str rest, *lines = calloc(text->size + 1, sizeof(*lines));
	struct buf out = { 0 };
	size_t n = 0;

	/* Values of the last line are read up to here. */
	buf_cstr(text);
	rest = buf_str(text);
	while (rest.size)
		lines[n++] = str_cut(&rest, '\n');
	qsort(lines, n, sizeof(*lines), by_text);
	for (size_t i = 0; i < n;) {
		int64_t sum[2] = { 0 }, value[2];
		struct str path = path_of(lines[i], compares, value);

		while (i < n && str_eq(path_of(lines[i], compares, value), path)) {
			sum[0] += value[0];
			sum[1] += value[1];
			i++;
		}
		buf_printf(&out, STR_FMT " %lld %lld\n", STR_ARG(path), (long long)sum[0], (long long)sum[1]);
	}
	free(lines);
	buf_done(text);
	*text = out;
}

/* @base: the other side of a comparison; NULL: there is none. */
static void tree_lines(const struct profile *p, const struct profile *base, double scale,
		       const struct profile_view *view, struct buf *out)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct err err = { 0 };

	assert_done(profile_tree_new(view, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	if (base)
		assert_done(profile_tree_add(t, base, 0, 1, scale, &err));
	assert_done(profile_tree_end(t, &err));
	profile_write_folded(t, &(struct profile_output){ 0 }, out);
}

static struct profile_stream *stream_to(enum profile_stream_format format, const struct profile_view *view,
					struct spool *aside, struct buf *out)
{
	const struct profile_stream_options o = {
		.format = format, .view = *view, .to = { write_to_text, out }, .aside = aside
	};
	struct profile_stream *s = NULL;
	struct err err = { 0 };

	assert_done(profile_stream_new(&o, &s, &err));
	return s;
}

/* All stacks of both sides, or with a label those of each value. */
static void add_lent_sides(struct profile_stream *s, const struct sides *x, const char *label)
{
	AUTO(mem_freep) uint32_t *groups = NEW_N(uint32_t, x->p->label_sets.n);
	uint32_t n = label ? number_values(x->p, groups) : 1;
	struct err err = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		struct lent l[2];
		struct profile_trie in;
		bool any = true;

		if (label) {
			any = lend_value_of_sides(l, x, groups, i, &in);
		} else {
			in = lend(&l[0], x->p);
			in.base = lend(&l[1], x->base).values;
			in.scale = x->scale;
		}
		if (any)
			assert_done(profile_stream_add(s, x->p, &in, &err));
		lent_done(&l[0]);
		lent_done(&l[1]);
	}
	assert_done(profile_stream_end(s, &err));
	profile_stream_free(s);
}

/* All stacks, or with a label those of each value. */
static void add_lent(struct profile_stream *s, const struct profile *p, const char *label)
{
	AUTO(mem_freep) uint32_t *groups = NEW_N(uint32_t, p->label_sets.n);
	uint32_t n = label ? number_values(p, groups) : 1;
	struct err err = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		struct lent l;
		struct profile_trie in;
		bool any = true;

		if (label)
			any = lend_value(&l, p, groups, i, &in);
		else
			in = lend(&l, p);
		if (any)
			assert_done(profile_stream_add(s, p, &in, &err));
		lent_done(&l);
	}
	assert_done(profile_stream_end(s, &err));
	profile_stream_free(s);
}

static void compare_texts(struct buf *got, struct buf *want, bool compares)
{
	add_up_lines(want, compares);
	add_up_lines(got, compares);
	assert_string_equal(buf_cstr(got), buf_cstr(want));
}

static void assert_lines_equal(const struct profile *p, const struct profile_view *view)
{
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };

	tree_lines(p, NULL, 1, view, &want);
	add_lent(stream_to(PROFILE_STREAM_FOLDED, view, NULL, &got), p, view->label);
	compare_texts(&got, &want, false);
}

/* ---- speedscope's file as folded stacks ---- */

static struct str after(struct str text, const char *key)
{
	const char *at = memmem(text.p, text.size, key, strlen(key));

	assert_non_null(at);
	at += strlen(key);
	return (struct str){ at, text.size - (size_t)(at - text.p) };
}

static size_t frame_names(struct str text, struct str *ret)
{
	struct str rest = after(text, "\"frames\":[");
	size_t n = 0;

	while (rest.size > 2 && rest.p[0] != ']') {
		struct str row = after(rest, "{\"name\":\"");

		ret[n++] = str_cut(&row, '"');
		str_cut(&row, '}');
		rest = row;
	}
	return n;
}

static void fold_scope(const struct buf *json, struct buf *out)
{
	struct str text = buf_str(json), rows = after(text, "\"samples\":["),
		   weights = after(text, "\"weights\":["), *names = calloc(json->size + 1, sizeof(*names));
	size_t n = frame_names(text, names);
	char *end;

	while (rows.p[0] == '[') {
		bool any = false;

		rows = (struct str){ rows.p + 1, rows.size - 1 };
		while (rows.p[0] != ']') {
			size_t i = strtoul(rows.p, &end, 10);

			assert_true(i < n);
			buf_printf(out, "%s" STR_FMT, any ? ";" : "", STR_ARG(names[i]));
			any = true;
			end += *end == ',';
			rows = (struct str){ end, rows.size - (size_t)(end - rows.p) };
		}
		rows = (struct str){ rows.p + 1, rows.size - 1 };
		if (rows.p[0] == ',')
			rows = (struct str){ rows.p + 2, rows.size - 2 };
		buf_printf(out, "%s %lld\n", any ? "" : "[no stack]", strtoll(weights.p, &end, 10));
		weights.p = end + (*end == ',');
	}
	free(names);
}

/* The same stacks as in the file of a tree, and the same end. */
static void assert_scopes_equal(const struct profile *p, const struct profile_view *view)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf tree = { 0 };
	AUTO(buf_done) struct buf stream = { 0 };
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	struct spool aside = { 0 };
	struct err err = { 0 };

	assert_done(profile_tree_new(view, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_done(profile_tree_end(t, &err));
	profile_write_speedscope(t, &(struct profile_output){ 0 }, &tree);
	add_lent(stream_to(PROFILE_STREAM_SPEEDSCOPE, view, &aside, &stream), p, view->label);
	spool_done(&aside);
	buf_cstr(&tree);
	buf_cstr(&stream);
	assert_int_equal(strtoll(after(buf_str(&tree), "\"endValue\":").p, NULL, 10),
			 strtoll(after(buf_str(&stream), "\"endValue\":").p, NULL, 10));
	fold_scope(&tree, &want);
	fold_scope(&stream, &got);
	compare_texts(&got, &want, false);
}

static const struct profile_view views[] = {
	{ .by = PROFILE_BY_FUNCTION },
	{ .by = PROFILE_BY_FUNCTION, .no_inlines = true },
	{ .by = PROFILE_BY_FILE },
	{ .by = PROFILE_BY_BINARY, .invert = true },
	{ .by = PROFILE_BY_LINE },
	{ .by = PROFILE_BY_ADDRESS, .invert = true },
	{ .by = PROFILE_BY_FUNCTION, .focus = "1" },
	{ .by = PROFILE_BY_FUNCTION, .ignore = "2", .hide = "1", .invert = true },
	{ .by = PROFILE_BY_FILE, .show = "[13]" },
	{ .by = PROFILE_BY_FUNCTION, .focus = "3", .ignore = "1", .show = "[0-4]" },
	{ .label = "key 0" },
	{ .label = "key 0", .invert = true },
	{ .label = "key 0", .by = PROFILE_BY_BINARY, .invert = true },
	{ .label = "key 0", .hide = "value 1|function 2" },
	{ .label = "key 0", .by = PROFILE_BY_FILE, .focus = "value 1|file.c 3" },
	{ .label = "key 0", .ignore = "value 2|function 12", .show = "function [1-3]|value" },
};

static void lines_add_up_to_those_of_the_tree(void **state)
{
	uint64_t seed = 7;

	for (unsigned i = 0; i < 1000; i++) {
		const struct profile_maker m = profile_maker_of(i, &seed, 60);
		AUTO(profile_freep) struct profile *p = counts_make(&m);

		assert_lines_equal(p, &views[i % ARRAY_SIZE(views)]);
		assert_scopes_equal(p, &views[i % ARRAY_SIZE(views)]);
	}
}

/* Whole numbers as the scale: nothing is rounded. */
static void lines_of_comparisons_add_up_to_those_of_the_tree(void **state)
{
	uint64_t seed = 8;

	for (unsigned i = 0; i < 500; i++) {
		const struct profile_maker m = profile_maker_of(i, &seed, 60);
		AUTO(buf_done) struct buf want = { 0 };
		AUTO(buf_done) struct buf got = { 0 };
		const struct profile_view *view = &views[i % ARRAY_SIZE(views)];
		struct sides x = sides_make(&m, (double)(i % 3));

		tree_lines(x.p, x.base, x.scale, view, &want);
		add_lent_sides(stream_to(PROFILE_STREAM_FOLDED, view, NULL, &got), &x, view->label);
		compare_texts(&got, &want, true);
		sides_done(&x);
	}
}

/* Values of 1 times 0.3 would all be 0. */
static void scaled_lines_have_the_right_sum(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	AUTO(buf_done) struct buf got = { 0 };
	struct profile_stream *s = stream_to(PROFILE_STREAM_FOLDED, &views[0], NULL, &got);
	struct err err = { 0 };
	struct profile_trie in;
	struct lent l;
	int64_t value[2], sum = 0;
	struct str rest;

	profile_add_type(p, STR("cpu"), STR("count"));
	for (uint64_t i = 0; i < 1000; i++) {
		const struct profile_location location = { .mapping = PROFILE_NONE, .addr = i + 1 };

		profile_add_sample(p, profile_add_stack(p, 0, profile_add_location(p, &location, NULL, 0)), 0,
				   (int64_t[]){ 1 });
	}
	in = lend(&l, p);
	in.base = in.values;
	in.scale = 0.3;
	assert_done(profile_stream_add(s, p, &in, &err));
	assert_done(profile_stream_end(s, &err));
	profile_stream_free(s);
	lent_done(&l);
	for (rest = buf_str(&got); rest.size;) {
		path_of(str_cut(&rest, '\n'), true, value);
		assert_in_range(value[0], 0, 1);
		sum += value[0];
	}
	assert_int_equal(sum, 300);
}

/* A sample without a stack, and values that are negative or 0. */
static void lines_of_unusual_samples(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	AUTO(buf_done) struct buf got = { 0 };

	profile_add_type(p, STR("cpu"), STR("count"));
	for (int64_t i = -1; i < 2; i++) {
		const struct profile_location location = { .mapping = PROFILE_NONE,
							   .addr = (uint64_t)(i + 2) };

		profile_add_sample(p, profile_add_stack(p, 0, profile_add_location(p, &location, NULL, 0)), 0,
				   (int64_t[]){ i });
	}
	profile_add_sample(p, 0, 0, (int64_t[]){ 1000 });
	add_lent(stream_to(PROFILE_STREAM_FOLDED, &views[0], NULL, &got), p, NULL);
	assert_string_equal(buf_cstr(&got), "[no stack] 1000\n0x1 -1\n0x3 1\n");
}

/* A value of a label may have few of many stacks. */
static void words_without_stacks_are_not_read(void **state)
{
	const struct profile_maker m = { 3, 3, 5000, 300, 12, false };
	AUTO(profile_freep) struct profile *p = counts_make(&m);
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	struct profile_stream *s = stream_to(PROFILE_STREAM_FOLDED, &views[0], NULL, &got);
	struct profile_trie in;
	struct err err = { 0 };
	struct lent l;

	p->n_samples = 20;
	in = lend(&l, p);
	lend_few(&l, &in);
	tree_lines(p, NULL, 1, &views[0], &want);
	assert_done(profile_stream_add(s, p, &in, &err));
	assert_done(profile_stream_end(s, &err));
	profile_stream_free(s);
	lent_done(&l);
	compare_texts(&got, &want, false);
}

static int refuse_text(void *arg, struct bytes b, struct err *err)
{
	return err_set(err, ERR_IO, "the disk is full");
}

/* A new stream of @o over all stacks of @p fails. */
static void stream_fails(const struct profile_stream_options *o, const struct profile *p, enum err_kind kind)
{
	struct profile_stream *s = NULL;
	struct err err = { 0 };
	struct lent l;
	struct profile_trie in = lend(&l, p);

	assert_done(profile_stream_new(o, &s, &err));
	assert_true(profile_stream_add(s, p, &in, &err) < 0 || profile_stream_end(s, &err) < 0);
	assert_int_equal(err.kind, kind);
	profile_stream_free(s);
	lent_done(&l);
}

static void errors_end_it(void **state)
{
	const struct profile_maker m = { 3, 3, 20000, 3000, 12, false };
	AUTO(profile_freep) struct profile *p = counts_make(&m);
	AUTO(buf_done) struct buf got = { 0 };
	struct deadline d = deadline_in(-1, "the query", "ask for less");

	for (int i = 0; i < 2; i++) {
		struct spool aside = { 0 };
		struct profile_stream_options o = { .format = (enum profile_stream_format)i,
						    .to = { refuse_text, NULL },
						    .aside = &aside };

		stream_fails(&o, p, ERR_IO);
		o.to = (struct profile_writer){ write_to_text, &got };
		o.limits.deadline = &d;
		stream_fails(&o, p, ERR_CANCELLED);
		spool_done(&aside);
	}
}

static void memory_of_names_is_granted_or_refused(void **state)
{
	const struct profile_maker m = { 3, 3, 20000, 3000, 12, false };
	AUTO(profile_freep) struct profile *p = counts_make(&m);
	struct budget *b = budget_new_undivided(KIB(16));
	AUTO(buf_done) struct buf got = { 0 };
	struct budget_hold hold = { 0 };
	struct budget_stats stats;

	budget_hold_init(&hold, b, BUDGET_QUERY);
	stream_fails(
		&(struct profile_stream_options){ .limits.memory = &hold, .to = { write_to_text, &got } }, p,
		ERR_LIMIT);
	budget_hold_done(&hold);
	budget_stats(b, &stats);
	assert_int_equal(stats.classes[BUDGET_QUERY].used, 0);
	budget_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_add_up_to_those_of_the_tree),
		cmocka_unit_test(lines_of_comparisons_add_up_to_those_of_the_tree),
		cmocka_unit_test(scaled_lines_have_the_right_sum),
		cmocka_unit_test(lines_of_unusual_samples),
		cmocka_unit_test(words_without_stacks_are_not_read),
		cmocka_unit_test(errors_end_it),
		cmocka_unit_test(memory_of_names_is_granted_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
