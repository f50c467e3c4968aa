/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of senders that do not know our rules: mended or dropped, and counted. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_names_and_values_are_made_to_fit),
		cmocka_unit_test(two_labels_never_become_one),
		cmocka_unit_test(long_ones_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
