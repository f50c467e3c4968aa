/* SPDX-License-Identifier: Apache-2.0 */
#include "stored.h"

#include "base/budget.h"
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

/* ---- less detail ---- */

static void two_services(struct stored *t)
{
	stored_open(t);
	for (uint64_t i = 0; i < N; i++) {
		struct profile *p = stored_profile(i, NOW_MS - (int64_t)(i + 1) * MINUTE);

		stored_add(t, p, i % 2 ? "web" : "shop");
		profile_free(p);
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

	two_services(&t);
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

/* A merge is refused at any size of the budget that is too small, and returns what it got. */
static void memory_of_a_merge_is_granted(void **state)
{
	struct stored t = { 0 };
	bool done = false;
	unsigned n_refused = 0;

	two_services(&t);
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

/* ---- stacks that stay in the store ---- */

struct written {
	struct buf out;
	struct profile_pprof *w;
	unsigned n_begun, n_parts;
};

static int write_out(void *arg, struct bytes b, struct err *err)
{
	struct written *x = arg;

	(void)err;
	buf_add(&x->out, b.p, b.size);
	return 0;
}

static void written_begin(void *arg)
{
	struct written *x = arg;
	const struct profile_writer to = { write_out, x };
	struct err err = { 0 };

	x->n_begun++;
	x->out.size = 0;
	profile_pprof_free(x->w);
	assert_done(profile_pprof_new(&to, x->n_begun % 2, NULL, &x->w, &err));
}

static int written_stacks(void *arg, const struct profilestore_merged *m, struct profile_trie *in,
			  struct err *err)
{
	struct written *x = arg;

	x->n_parts++;
	return profile_pprof_add_trie(x->w, m->profile, in, err);
}

static int written_locations(void *arg, const struct profilestore_merged *m,
			     const struct profile_lent_locations *l, struct err *err)
{
	struct written *x = arg;

	return profile_pprof_end(x->w, m->profile, l, err);
}

/* As text, with equal entries as one. */
static char *pprof_text(const struct profile *p)
{
	AUTO(profile_freep) struct profile *to = profile_new(NULL);
	struct buf b = { 0 };
	struct err err = { 0 };

	assert_done(profile_merge(to, p, 1, &err));
	assert_done(profile_merge_end(to, &err));
	profile_canonical(to, &b);
	return (char *)(uintptr_t)buf_cstr(&b);
}

static unsigned compare_pprof(struct stored *t, const char *selector, const char *label, int64_t from_ms)
{
	struct profilestore_range r = stored_range(selector, from_ms, NOW_MS);
	const struct profilestore_shape copied = { .label = str_of(label) };
	struct written x = { 0 };
	const struct profilestore_shape lent = { .label = str_of(label),
						 .stacks = written_stacks,
						 .locations = written_locations,
						 .begin = written_begin,
						 .arg = &x,
						 .lend_from = UINT32_MAX };
	struct profilestore_merged want = { 0 }, got = { 0 };
	AUTO(profile_freep) struct profile *read = NULL;
	AUTO(mem_freep) char *want_text = NULL;
	AUTO(mem_freep) char *got_text = NULL;
	struct err err = { 0 };

	assert_done(profilestore_merge(t->s, &r, &copied, NULL, &want, &err));
	assert_done(profilestore_merge(t->s, &r, &lent, NULL, &got, &err));
	assert_int_equal(got.profile->n_samples, 0);
	assert_int_equal(got.profile->stacks.n, 1);
	assert_int_equal(got.n_samples, want.n_samples);
	assert_int_equal(got.n_pending, want.n_pending);
	assert_int_equal(got.n_waiting, want.n_waiting);
	assert_done(profile_read_pprof(buf_bytes(&x.out), NULL, &read, &err));
	want_text = pprof_text(want.profile);
	got_text = pprof_text(read);
	assert_string_equal(got_text, want_text);
	profile_free(want.profile);
	profile_free(got.profile);
	profile_pprof_free(x.w);
	buf_done(&x.out);
	stored_range_done(&r);
	return x.n_parts;
}

/* The difference of both sides. */
static void compare_pprof_of_sides(struct stored *t, const char *selector, const char *base_selector,
				   const char *label)
{
	struct profilestore_range r = stored_range(selector, 0, NOW_MS),
				  base = stored_range(base_selector, 0, NOW_MS);
	const struct profilestore_shape copied = { .label = str_of(label) };
	struct written x = { 0 };
	const struct profilestore_shape lent = { .label = str_of(label),
						 .stacks = written_stacks,
						 .locations = written_locations,
						 .begin = written_begin,
						 .base = &base,
						 .arg = &x };
	struct profilestore_merged one[2] = { { 0 } }, both[2] = { { 0 } };
	AUTO(profile_freep) struct profile *read = NULL;
	AUTO(profile_freep) struct profile *want = NULL;
	AUTO(mem_freep) char *want_text = NULL;
	AUTO(mem_freep) char *got_text = NULL;
	struct err err = { 0 };

	assert_done(profilestore_merge(t->s, &r, &copied, NULL, &one[0], &err));
	assert_done(profilestore_merge(t->s, &base, &copied, NULL, &one[1], &err));
	assert_done(profilestore_merge(t->s, &r, &lent, NULL, both, &err));
	assert_done(profile_read_pprof(buf_bytes(&x.out), NULL, &read, &err));
	assert_done(profile_diff(one[0].profile, one[1].profile, false, &want, &err));
	want_text = pprof_text(want);
	got_text = pprof_text(read);
	assert_string_equal(got_text, want_text);
	for (unsigned i = 0; i < 2; i++) {
		profile_free(one[i].profile);
		profile_free(both[i].profile);
	}
	profile_pprof_free(x.w);
	buf_done(&x.out);
	stored_range_done(&r);
	stored_range_done(&base);
}

static void pprof_of_lent_stacks_is_that_of_copies(void **state)
{
	for (uint64_t turn = 0; turn < 8; turn++) {
		struct stored t = { 0 };

		stored_open(&t);
		for (uint64_t i = 0; i < 2 + turn; i++) {
			struct profile *p = stored_profile(i + 10 * turn, NOW_MS - (int64_t)(i + 1) * MINUTE);
			static const char *const services[] = { "web", "shop", "mail" };

			stored_add(&t, p, services[i % 3]);
			profile_free(p);
		}
		if (turn % 2)
			stored_groom(&t);
		assert_int_equal(compare_pprof(&t, CPU, "", 0), 1);
		assert_true(compare_pprof(&t, CPU, "service", 0) > 1);
		compare_pprof(&t, CPU "{service='web'}", "key_0", 0);
		compare_pprof(&t, CPU, "", NOW_MS - 2 * MINUTE);
		compare_pprof_of_sides(&t, CPU, CPU "{service='web'}", "");
		compare_pprof_of_sides(&t, CPU "{service='shop'}", CPU "{service='web'}", "");
		compare_pprof_of_sides(&t, CPU, CPU "{service='web'}", "service");
		compare_pprof_of_sides(&t, CPU "{service='web'}", CPU, "service");
		/* Nothing at all: still a file. */
		assert_int_equal(compare_pprof(&t, CPU "{service='other'}", "", 0), 0);
		stored_done(&t);
	}
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

	two_services(&t);
	assert_fails(profilestore_merge(t.s, &r, &shape, NULL, &m, &err), ERR_IO, "no room");
	stored_range_done(&r);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pprof_of_lent_stacks_is_that_of_copies),
		cmocka_unit_test(a_failure_of_the_borrower_ends_the_merge),
		cmocka_unit_test(added_profiles_merge_as_in_memory),
		cmocka_unit_test(trees_of_less_detail_are_the_same),
		cmocka_unit_test(memory_of_a_merge_is_granted),
		cmocka_unit_test(stacks_are_lent),
		cmocka_unit_test(both_sides_are_lent),
		cmocka_unit_test(memory_of_both_sides_is_granted),
		cmocka_unit_test(sides_have_one_unit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
