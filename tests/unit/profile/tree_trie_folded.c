/* SPDX-License-Identifier: Apache-2.0 */
/* Folded stacks of stacks that are kept elsewhere: added up, they are the lines of the tree. */
#include "test.h"

#include "base/budget.h"
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

/* The path of a line; *ret is its value. */
static struct str path_of(struct str line, int64_t *ret)
{
	size_t n = line.size;

	while (n && line.p[n - 1] != ' ')
		n--;
	assert_true(n != 0);
	*ret = strtoll(line.p + n, NULL, 10);
	return (struct str){ line.p, n - 1 };
}

/* Each path once, with its sum, in order. */
static void add_up_lines(struct buf *text)
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
		int64_t sum = 0, value;
		struct str path = path_of(lines[i], &value);

		while (i < n && str_eq(path_of(lines[i], &value), path)) {
			sum += value;
			i++;
		}
		buf_printf(&out, STR_FMT " %lld\n", STR_ARG(path), (long long)sum);
	}
	free(lines);
	buf_done(text);
	*text = out;
}

static void tree_lines(const struct profile *p, const struct profile_view *view, struct buf *out)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct err err = { 0 };

	assert_done(profile_tree_new(view, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_done(profile_tree_end(t, &err));
	profile_write_folded(t, &(struct profile_output){ 0 }, out);
}

static void assert_lines_equal(const struct profile *p, const struct profile_view *view)
{
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	const struct profile_writer to = { write_to_text, &got };
	struct err err = { 0 };
	struct lent l;
	struct profile_trie in = lend(&l, p);

	tree_lines(p, view, &want);
	assert_done(profile_write_folded_trie(view, NULL, p, &in, &to, &err));
	lent_done(&l);
	add_up_lines(&want);
	add_up_lines(&got);
	assert_string_equal(buf_cstr(&got), buf_cstr(&want));
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
};

static void lines_add_up_to_those_of_the_tree(void **state)
{
	uint64_t seed = 7;

	for (unsigned i = 0; i < 1000; i++) {
		const struct profile_maker m = { i,
						 i % 5,
						 1 + (unsigned)(profile_maker_next(&seed) % 60),
						 1 + (unsigned)(profile_maker_next(&seed) % 30),
						 1 + (unsigned)(profile_maker_next(&seed) % 12),
						 i % 11 == 0 };
		AUTO(profile_freep) struct profile *p = counts_make(&m);

		assert_lines_equal(p, &views[i % ARRAY_SIZE(views)]);
	}
}

/* A sample without a stack, and values that are negative or 0. */
static void lines_of_unusual_samples(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	AUTO(buf_done) struct buf got = { 0 };
	const struct profile_writer to = { write_to_text, &got };
	struct err err = { 0 };
	struct profile_trie in;
	struct lent l;

	profile_add_type(p, STR("cpu"), STR("count"));
	for (int64_t i = -1; i < 2; i++) {
		const struct profile_location location = { .mapping = PROFILE_NONE,
							   .addr = (uint64_t)(i + 2) };

		profile_add_sample(p, profile_add_stack(p, 0, profile_add_location(p, &location, NULL, 0)), 0,
				   (int64_t[]){ i });
	}
	profile_add_sample(p, 0, 0, (int64_t[]){ 1000 });
	in = lend(&l, p);
	assert_done(profile_write_folded_trie(&views[0], NULL, p, &in, &to, &err));
	lent_done(&l);
	assert_string_equal(buf_cstr(&got), "[no stack] 1000\n0x1 -1\n0x3 1\n");
}

/* A value of a label may have few of many stacks. */
static void words_without_stacks_are_not_read(void **state)
{
	const struct profile_maker m = { 3, 3, 5000, 300, 12, false };
	AUTO(profile_freep) struct profile *p = counts_make(&m);
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	const struct profile_writer to = { write_to_text, &got };
	struct profile_trie in;
	struct err err = { 0 };
	struct lent l;

	p->n_samples = 20;
	in = lend(&l, p);
	lend_few(&l, &in);
	tree_lines(p, &views[0], &want);
	assert_done(profile_write_folded_trie(&views[0], NULL, p, &in, &to, &err));
	lent_done(&l);
	add_up_lines(&want);
	add_up_lines(&got);
	assert_string_equal(buf_cstr(&got), buf_cstr(&want));
}

static int refuse_text(void *arg, struct bytes b, struct err *err)
{
	return err_set(err, ERR_IO, "the disk is full");
}

static void errors_end_it(void **state)
{
	const struct profile_maker m = { 3, 3, 20000, 3000, 12, false };
	AUTO(profile_freep) struct profile *p = counts_make(&m);
	AUTO(buf_done) struct buf got = { 0 };
	struct deadline d = deadline_in(-1, "the query", "ask for less");
	const struct profile_limits late = { .deadline = &d };
	struct err err = { 0 };
	struct lent l;
	struct profile_trie in = lend(&l, p);

	assert_int_equal(profile_write_folded_trie(&views[0], NULL, p, &in,
						   &(struct profile_writer){ refuse_text, NULL }, &err),
			 -1);
	assert_int_equal(err.kind, ERR_IO);
	assert_int_equal(profile_write_folded_trie(&views[0], &late, p, &in,
						   &(struct profile_writer){ write_to_text, &got }, &err),
			 -1);
	assert_int_equal(err.kind, ERR_CANCELLED);
	lent_done(&l);
}

static void memory_of_names_is_granted_or_refused(void **state)
{
	const struct profile_maker m = { 3, 3, 20000, 3000, 12, false };
	AUTO(profile_freep) struct profile *p = counts_make(&m);
	struct budget *b = budget_new_undivided(KIB(16));
	AUTO(buf_done) struct buf got = { 0 };
	struct budget_hold hold = { 0 };
	const struct profile_limits limits = { .memory = &hold };
	struct budget_stats stats;
	struct err err = { 0 };
	struct lent l;
	struct profile_trie in = lend(&l, p);

	budget_hold_init(&hold, b, BUDGET_QUERY);
	assert_int_equal(profile_write_folded_trie(&views[0], &limits, p, &in,
						   &(struct profile_writer){ write_to_text, &got }, &err),
			 -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	budget_hold_done(&hold);
	budget_stats(b, &stats);
	assert_int_equal(stats.classes[BUDGET_QUERY].used, 0);
	budget_free(b);
	lent_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_add_up_to_those_of_the_tree),
		cmocka_unit_test(lines_of_unusual_samples),
		cmocka_unit_test(words_without_stacks_are_not_read),
		cmocka_unit_test(errors_end_it),
		cmocka_unit_test(memory_of_names_is_granted_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
