/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of a range as one profile: as merged in memory, with less detail, within the memory that is granted.
 */
#include "stored.h"

#include "base/budget.h"
#include "profile/filter.h"
#include "profile/output.h"

#define N 6

/* The merge of all, by the module profile. */
static char *merged_text(struct profile *const *list, size_t n, uint32_t type)
{
	AUTO(profile_freep) struct profile *to = profile_new(NULL);
	struct err err = { 0 };

	for (size_t i = 0; i < n; i++)
		assert_done(profile_merge(to, list[i], 1, &err));
	assert_done(profile_merge_end(to, &err));
	return stored_text(to, type);
}

static void assert_text(const struct profile *p, const char *want)
{
	AUTO(mem_freep) char *text = stored_text(p, 0);

	assert_string_equal(text, want);
}

static void added_profiles_merge_as_in_memory(void **state)
{
	for (int turn = 0; turn < 3; turn++) {
		struct stored t = { 0 };
		struct profile *list[N];
		AUTO(mem_freep) char *cpu = NULL;
		AUTO(mem_freep) char *samples = NULL;
		struct profilestore_merged m;

		stored_open(&t);
		for (size_t i = 0; i < N; i++)
			list[i] = stored_profile(i, NOW_MS - (int64_t)(i + 1) * MINUTE);
		for (size_t i = 0; i < N; i++)
			stored_add(&t, list[(turn == 1 ? N - 1 - i : i * 5 % N + (turn == 2)) % N], "web");
		samples = merged_text(list, N, 0);
		cpu = merged_text(list, N, 1);

		m = stored_merge(&t, CPU, 0, NOW_MS);
		assert_text(m.profile, cpu);
		assert_str(profile_str(m.profile, m.profile->types.p[0].type), "cpu");
		assert_int_equal(m.profile->time_ns, list[N - 1]->time_ns);
		profile_free(m.profile);

		stored_groom(&t);
		m = stored_merge(&t, "profile:samples:count:cpu:nanoseconds:delta", 0, NOW_MS);
		assert_text(m.profile, samples);
		profile_free(m.profile);

		stored_again(&t);
		m = stored_merge(&t, CPU "{service='web'}", 0, NOW_MS);
		assert_text(m.profile, cpu);
		profile_free(m.profile);
		m = stored_merge(&t, CPU "{service='other'}", 0, NOW_MS);
		assert_int_equal(m.profile->n_samples, 0);
		profile_free(m.profile);
		for (size_t i = 0; i < N; i++)
			profile_free(list[i]);
		stored_done(&t);
	}
}

static struct profile *merge_with(struct stored *t, enum profilestore_detail detail, const char *label,
				  const struct profile_limits *limits, struct err *err)
{
	struct profilestore_range r = stored_range(CPU, 0, NOW_MS);
	const struct profilestore_shape shape = { str_of(label), detail };
	struct profilestore_merged m = { 0 };

	if (profilestore_merge(t->s, &r, &shape, limits, &m, err) < 0)
		m.profile = NULL;
	stored_range_done(&r);
	return m.profile;
}

static char *folded_tree(const struct profile *p, const struct profile_view *view)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct buf b = { 0 };
	struct err err = { 0 };

	assert_done(profile_tree_new(view, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_done(profile_tree_end(t, &err));
	profile_write_folded(t, &(struct profile_output){ 0 }, &b);
	return (char *)(uintptr_t)buf_cstr(&b);
}

static void trees_of_less_detail_are_the_same(void **state)
{
	static const struct {
		enum profilestore_detail detail;
		struct profile_view view;
	} views[] = {
		{ PROFILESTORE_FUNCTIONS, { 0 } },
		{ PROFILESTORE_FUNCTIONS, { .invert = true, .label = "service" } },
		{ PROFILESTORE_FUNCTIONS, { .by = PROFILE_BY_FILE, .label = "service", .focus = "1" } },
		{ PROFILESTORE_FUNCTIONS, { .by = PROFILE_BY_BINARY } },
		{ PROFILESTORE_LINES, { .by = PROFILE_BY_LINE, .label = "service" } },
		{ PROFILESTORE_LINES, { .no_inlines = true, .label = "key_0" } },
	};
	struct stored t = { 0 };
	struct err err = { 0 };

	stored_two_services(&t, N);
	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		const char *label = views[i].view.label ? views[i].view.label : "";
		AUTO(profile_freep)
		struct profile *all = merge_with(&t, PROFILESTORE_ADDRESSES, label, NULL, &err);
		AUTO(profile_freep)
		struct profile *few = merge_with(&t, views[i].detail, label, NULL, &err);
		AUTO(mem_freep) char *want = folded_tree(all, &views[i].view);
		AUTO(mem_freep) char *got = folded_tree(few, &views[i].view);

		assert_string_equal(got, want);
		assert_int_equal(profile_total(all, 0), profile_total(few, 0));
		assert_true(few->locations.n + (views[i].detail == PROFILESTORE_FUNCTIONS) <=
			    all->locations.n);
		assert_true(few->n_samples <= all->n_samples);
	}
	stored_done(&t);
}

/* sort and main of /usr/bin/sort, 1 and 2; a function without an address, 4; an address without a function, 8. */
static struct profile *places(void)
{
	struct profile *p = profile_new(NULL);
	static const char *const names[] = { "sort", "main", "jitted" };
	struct profile_mapping m = { .limit = 0x100000, .file = profile_add_string(p, STR("/usr/bin/sort")) };

	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	p->period_type = p->types.p[0];
	p->time_ns = (NOW_MS - MINUTE) * 1000000;
	p->duration_ns = INT64_C(1000000000);
	for (unsigned i = 0; i < 4; i++) {
		const struct profile_location l = { .mapping = profile_add_mapping(p, &m),
						    .addr = i == 2 ? 0 : 0x1000 + i };
		struct profile_line line = { .line = 10 + i };
		const int64_t value = 1 << i;

		if (i < 3)
			line.function = profile_add_function(
				p,
				&(struct profile_function){ .name = profile_add_string(p, str_of(names[i])),
							    .file = profile_add_string(p, STR("s.c")) });
		profile_add_sample(p, profile_add_stack(p, 0, profile_add_location(p, &l, &line, i < 3)), 0,
				   &value);
	}
	return p;
}

/* With the detail that a view and its pattern need, as the server asks for it. */
static int64_t total_of_view(struct stored *t, const struct profile_view *view)
{
	unsigned needs = profile_filter_needs(view->focus);
	enum profilestore_detail detail = PROFILESTORE_FUNCTIONS;
	AUTO(profile_freep) struct profile *p = NULL;
	AUTO(profile_tree_freep) struct profile_tree *tree = NULL;
	struct profile_node root;
	struct err err = { 0 };

	if (view->by == PROFILE_BY_LINE || needs & PROFILE_FILTERS_LINES)
		detail = PROFILESTORE_LINES;
	if (view->by == PROFILE_BY_ADDRESS || needs & PROFILE_FILTERS_ADDRESSES)
		detail = PROFILESTORE_ADDRESSES;
	p = merge_with(t, detail, "", NULL, &err);
	assert_non_null(p);
	assert_done(profile_tree_new(view, NULL, &tree, &err));
	assert_done(profile_tree_add(tree, p, 0, 0, 1, &err));
	assert_done(profile_tree_end(tree, &err));
	profile_tree_node(tree, 0, &root);
	return root.total[0];
}

static void patterns_select_the_same_whatever_detail_is_left(void **state)
{
	static const struct {
		const char *pattern;
		int64_t total;
	} cases[] = {
		/* By address, a function without an address is shown as "sort". */
		{ "^sort$", 1 + 4 },       { "sort", 15 },
		{ "^main$", 2 },           { "^main s\\.c:11$", 2 },
		{ "^main s.c:1.$", 2 },    { "^jitted s\\.c:12$", 4 },
		{ "^sort\\+0x1000$", 1 },  { "^sort.0x100.$", 1 + 2 + 8 },
		{ "^sort\\+0x1003$", 8 },  { "0x1", 8 },
		{ "^/usr/bin/sort$", 15 }, { "^s\\.c$", 7 },
		{ "^main s\\.c:0$", 0 },   { "^unknown$", 0 },
		{ "^unknown binary$", 0 },
	};
	AUTO(profile_freep) struct profile *p = places();
	struct stored t = { 0 };

	stored_open(&t);
	stored_add(&t, p, "web");
	for (enum profile_group by = PROFILE_BY_FUNCTION; by <= PROFILE_BY_ADDRESS; by++)
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
			assert_int_equal(
				total_of_view(&t,
					      &(struct profile_view){ .by = by, .focus = cases[i].pattern }),
				cases[i].total);
	stored_done(&t);
}

/* A merge is refused at any size of the budget that is too small, and returns what it got. */
static void memory_of_a_merge_is_granted(void **state)
{
	struct stored t = { 0 };
	bool done = false;
	unsigned n_refused = 0;

	stored_two_services(&t, N);
	for (uint64_t max = KIB(16); !done; max += KIB(96)) {
		struct budget_hold h;
		const struct profile_limits limits = { .memory = &h };
		struct err err = { 0 };
		struct profile *p;

		budget_hold_init(&h, NULL, BUDGET_QUERY);
		h.max = max;
		p = merge_with(&t, PROFILESTORE_FUNCTIONS, "service", &limits, &err);
		done = p != NULL;
		n_refused += !done;
		if (!done)
			assert_int_equal(err.kind, ERR_LIMIT);
		profile_free(p);
		assert_int_equal(h.used, 0);
		budget_hold_done(&h);
		assert_true(max < MIB(64));
	}
	assert_true(n_refused > 3);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(added_profiles_merge_as_in_memory),
		cmocka_unit_test(trees_of_less_detail_are_the_same),
		cmocka_unit_test(patterns_select_the_same_whatever_detail_is_left),
		cmocka_unit_test(memory_of_a_merge_is_granted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
