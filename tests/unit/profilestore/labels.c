/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of senders that do not know our rules: mended or dropped, and counted. */
#include <stdio.h>
#include <sys/resource.h>
#include "stored.h"

static struct profilestore_receipt add_mended(struct stored *t, const struct profilestore_label *l, size_t n)
{
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS);

	return stored_upload(
		t, &(struct profilestore_upload){ .p = p, .labels = l, .n_labels = n, .mends_labels = true });
}

/* "name=value" of each label, by name, of the first profile. */
static char *stored_labels(struct stored *t)
{
	struct profilestore_range r = stored_range(CPU, 0, NOW_MS + 1);
	struct profilestore_entries *e;
	struct buf b = { 0 };
	struct err err = { 0 };

	assert_done(profilestore_profiles(t->s, &r, 1, &e, &err));
	assert_int_equal(e->n, 1);
	for (size_t i = 0; i < e->v[0].n_labels; i++)
		if (!str_starts(e->v[0].labels[i].name, STR("key_"))) /* of samples */
			buf_printf(&b, STR_FMT "=" STR_FMT ";", STR_ARG(e->v[0].labels[i].name),
				   STR_ARG(e->v[0].labels[i].value));
	free(e);
	stored_range_done(&r);
	return (char *)buf_cstr(&b);
}

static void check_mended(const struct profilestore_label *l, size_t n, const char *want, uint32_t n_mended,
			 uint32_t n_dropped)
{
	struct stored t = { 0 };
	struct profilestore_receipt r;
	struct profilestore_stats st;
	AUTO(mem_freep) char *got = NULL;

	stored_open(&t);
	r = add_mended(&t, l, n);
	got = stored_labels(&t);
	assert_string_equal(got, want);
	assert_int_equal(r.n_mended, n_mended);
	assert_int_equal(r.n_dropped, n_dropped);
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_labels_mended, n_mended);
	assert_int_equal(st.n_labels_dropped, n_dropped);
	/* The same again is a duplicate, and counts no more. */
	r = add_mended(&t, l, n);
	assert_true(r.duplicate);
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_labels_mended, n_mended);
	stored_done(&t);
}

#define CHECK(want, n_mended, n_dropped, ...)                              \
	do {                                                               \
		const struct profilestore_label l[] = { __VA_ARGS__ };     \
		check_mended(l, ARRAY_SIZE(l), want, n_mended, n_dropped); \
	} while (0)

static void bad_names_and_values_are_made_to_fit(void **state)
{
	CHECK("_.hidden=d;_9=c;a=1;with_space=b;", 3, 0, { STR("a"), STR("1") },
	      { STR("with space"), STR("b") }, { STR("9"), STR("c") }, { STR(".hidden"), STR("d") });
	CHECK("a=x?y;b=??z;", 2, 0, { STR("a"), STR("x\ny") }, { STR("b"), STR("\xff\xfez") });
	CHECK("_____=x;", 1, 0, { STR("\xe6\x97\xa5\xc3\xa4"), STR("x") });
	CHECK("", 0, 1, { STR(""), STR("x") }, { STR("a b"), STR("") });
}

static void two_labels_never_become_one(void **state)
{
	CHECK("a_b=1;a_b_=2;a_b__=3;", 2, 0, { STR("a-b"), STR("3") }, { STR("a b"), STR("2") },
	      { STR("a_b"), STR("1") });
	/* In any order. */
	CHECK("a_b=1;a_b_=2;a_b__=3;", 2, 0, { STR("a_b"), STR("1") }, { STR("a b"), STR("2") },
	      { STR("a-b"), STR("3") });
	CHECK("a=1;", 0, 2, { STR("a"), STR("1") }, { STR("a"), STR("2") }, { STR("a"), STR("1") });
	/* The name of the type is not to be had by mending. */
	CHECK("__name___=x;", 1, 0, { STR("__name "), STR("") }, { STR("__name_-"), STR("x") });
}

static void long_ones_are_cut(void **state)
{
	char name[PROFILESTORE_MAX_LABEL_NAME + 10], value[PROFILESTORE_MAX_LABEL_VALUE + 10];
	const struct profilestore_label l[] = { { { name, sizeof(name) }, STR("x") },
						{ { name, sizeof(name) - 1 }, STR("y") },
						{ STR("v"), { value, sizeof(value) } } };
	struct stored t = { 0 };
	struct profilestore_receipt r;

	memset(name, 'n', sizeof(name));
	memset(value, 'v', sizeof(value));
	stored_open(&t);
	r = add_mended(&t, l, ARRAY_SIZE(l));
	assert_int_equal(r.n_mended + r.n_dropped, 3);
	stored_done(&t);
}

/* ---- those of samples ---- */

#define LONG_LABELS 48u

static int64_t peak_kib(void)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
	return u.ru_maxrss;
}

/*
 * @n_sets sets of labels, each of which has the same long texts, and a label of its own: a number, or else a text. None
 * has a value, so no series begins.
 */
static struct profile *profile_of_sets(uint32_t n_sets, uint32_t n_long, bool numeric)
{
	struct profile *p = profile_new(NULL);
	char value[PROFILESTORE_MAX_LABEL_VALUE], text[16];
	struct profile_label l[LONG_LABELS + 1] = { 0 };
	uint32_t stack;

	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	stack = profile_add_stack(
		p, 0,
		profile_add_location(p, &(struct profile_location){ .addr = 1, .mapping = PROFILE_NONE },
				     NULL, 0));
	for (uint32_t i = 0; i < n_long; i++) {
		memset(value, 'a' + (char)(i % 26), sizeof(value));
		snprintf(text, sizeof(text), "long_%u", i);
		l[i].key = profile_add_string(p, str_of(text));
		l[i].str = profile_add_string(p, (struct str){ value, sizeof(value) });
	}
	l[n_long].key = profile_add_string(p, STR("own"));
	for (uint32_t i = 0; i < n_sets; i++) {
		snprintf(text, sizeof(text), "%u", i);
		l[n_long].num = numeric ? i : 0;
		l[n_long].str = numeric ? 0 : profile_add_string(p, str_of(text));
		profile_append_sample(p, stack, profile_add_labels(p, l, n_long + 1), &(int64_t){ 0 });
	}
	assert_int_equal(profile_build_end(p, NULL), 0);
	return p;
}

/* Few strings may be labels of many samples: a copy for each would be some hundred MiB. */
static void texts_of_samples_are_copied_once(void **state)
{
	AUTO(profile_freep) struct profile *numbers = profile_of_sets(60000, 1, true);
	AUTO(profile_freep)
	struct profile *texts = profile_of_sets(PROFILESTORE_MAX_LABEL_SETS, LONG_LABELS, false);
	struct stored t = { 0 };
	int64_t before_kib;

	stored_open(&t);
	before_kib = peak_kib();
	assert_int_equal(stored_add(&t, numbers, "web").n_profiles, 0);
	assert_in_range(peak_kib() - before_kib, 0, 64 * 1024);
	before_kib = peak_kib();
	assert_int_equal(stored_add(&t, texts, "web").n_profiles, 0);
	assert_in_range(peak_kib() - before_kib, 0, 64 * 1024);
	stored_done(&t);
}

/* Keys and values that differ in what labels may not have. */
static void sets_that_fit_to_one_are_one_series(void **state)
{
	static const char *const labels[][2] = {
		{ "a b", "x\n" }, { "a-b", "x\n" }, { "a b", "x\t" }, { "a b", "y" }
	};
	AUTO(profile_freep) struct profile *p = profile_of_sets(0, 0, true);
	struct profilestore_receipt r;
	struct stored t = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		const struct profile_label l = { .key = profile_add_string(p, str_of(labels[i][0])),
						 .str = profile_add_string(p, str_of(labels[i][1])) };

		profile_append_sample(p, 1, profile_add_labels(p, &l, 1), &(int64_t){ 1 });
	}
	assert_int_equal(profile_build_end(p, NULL), 0);
	stored_open(&t);
	r = stored_add(&t, p, "web");
	assert_int_equal(r.n_profiles, 2);
	assert_int_equal(r.n_samples, 2);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_names_and_values_are_made_to_fit),
		cmocka_unit_test(two_labels_never_become_one),
		cmocka_unit_test(long_ones_are_cut),
		cmocka_unit_test(texts_of_samples_are_copied_once),
		cmocka_unit_test(sets_that_fit_to_one_are_one_series),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
