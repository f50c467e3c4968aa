/* SPDX-License-Identifier: Apache-2.0 */
/* The labels and types that clients of Pyroscope expect, over series that were stored without them. */
#include "stored.h"

#include <stdlib.h>

static void add_typed(struct stored *t, const char *name, const char *type, const char *unit,
		      const struct profilestore_label *more, size_t n_more)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	struct profilestore_label labels[8];
	struct profilestore_receipt receipt;
	const int64_t value = 7;
	struct err err = { 0 };
	size_t n = 0;

	profile_add_type(p, str_of(type), str_of(unit));
	p->period_type.type = profile_add_string(p, STR("cpu"));
	p->period_type.unit = profile_add_string(p, STR("nanoseconds"));
	p->time_ns = (NOW_MS - MINUTE) * 1000000;
	p->duration_ns = 1000000000;
	profile_add_sample(p, 0, 0, &value);
	assert_done(profile_build_end(p, &err));
	if (name)
		labels[n++] = (struct profilestore_label){ STR("__name__"), str_of(name) };
	for (size_t i = 0; i < n_more; i++)
		labels[n++] = more[i];
	assert_done(profilestore_add_wait(t->s, p, labels, n, &receipt, &err));
	assert_int_equal(receipt.n_profiles, 1);
}

static struct profilestore_range derived_range(const char *selector)
{
	struct profilestore_range r = stored_range(selector, 0, INT64_MAX);

	r.derived = true;
	return r;
}

static void is_list(struct profilestore_list *l, const char *want)
{
	AUTO(buf_done) struct buf b = { 0 };

	for (size_t i = 0; i < l->n; i++)
		buf_printf(&b, "%s" STR_FMT, i ? " " : "", STR_ARG(l->v[i]));
	assert_string_equal(buf_cstr(&b), want);
	free(l);
}

static void is_types(struct stored *t, const char *selector, const char *want)
{
	struct profilestore_range r = derived_range(selector);
	struct profilestore_list *l;
	struct err err = { 0 };

	assert_done(profilestore_types(t->s, &r, &l, &err));
	is_list(l, want);
	stored_range_done(&r);
}

static void is_values(struct stored *t, const char *name, const char *want)
{
	struct profilestore_range r = derived_range("{}");
	struct profilestore_list *l;
	struct err err = { 0 };

	assert_done(profilestore_label_values(t->s, &r, str_of(name), &l, &err));
	is_list(l, want);
	stored_range_done(&r);
}

static void types_have_five_parts_and_names_of_pyroscope(void **state)
{
	const struct profilestore_label web = { STR("service"), STR("web") };
	struct stored t = { 0 };

	stored_open(&t);
	add_typed(&t, NULL, "cpu", "nanoseconds", &web, 1);
	add_typed(&t, "process_cpu", "cpu", "nanoseconds", &web, 1);
	add_typed(&t, NULL, "alloc_space", "bytes", &web, 1);
	add_typed(&t, NULL, "cycles", "count", &web, 1);
	add_typed(&t, "parca_agent", "samples", "count", &web, 1);
	is_types(&t, "{}",
		 "memory:alloc_space:bytes:cpu:nanoseconds parca_agent:samples:count:cpu:nanoseconds "
		 "process_cpu:cpu:nanoseconds:cpu:nanoseconds process_cpu:cycles:count:cpu:nanoseconds");
	is_types(&t, "{__name__=\"memory\"}", "memory:alloc_space:bytes:cpu:nanoseconds");
	is_types(&t, "{__type__=~\"cpu|samples\",__name__!~\"p.*t\"}",
		 "process_cpu:cpu:nanoseconds:cpu:nanoseconds");
	is_values(&t, "__name__", "memory parca_agent process_cpu");
	is_values(&t, "__unit__", "bytes count nanoseconds");
	stored_done(&t);
}

/* A database from before has "profile:...:delta", a new one "process_cpu:...": they are one type, and are added up. */
static void stored_types_with_one_id_are_added_up(void **state)
{
	const struct profilestore_label web = { STR("service"), STR("web") };
	struct profilestore_series_list *l;
	struct profilestore_merged m;
	struct profilestore_range r;
	struct err err = { 0 };
	struct stored t = { 0 };

	stored_open(&t);
	add_typed(&t, NULL, "cpu", "nanoseconds", &web, 1);
	add_typed(&t, "process_cpu", "cpu", "nanoseconds", &web, 1);
	add_typed(&t, NULL, "samples", "count", &web, 1);
	r = derived_range("{__profile_type__=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\"}");
	assert_done(profilestore_merge(t.s, &r, NULL, NULL, &m, &err));
	assert_int_equal(m.n_profiles, 2);
	assert_int_equal(profile_total(m.profile, 0), 14);
	profile_free(m.profile);
	assert_done(profilestore_series(
		t.s, &r,
		&(struct profilestore_series_options){
			.step_ms = HOUR, .origin_ms = NOW_MS - HOUR, .one = true, .limit = 1 },
		&l, &err));
	assert_int_equal(l->n, 1);
	assert_int_equal(l->n_points, 1);
	assert_int_equal(l->from_ms, NOW_MS - HOUR);
	assert_int_equal(l->v[0].points[0], 14);
	assert_int_equal(l->v[0].counts[0], 2);
	free(l);
	/* Only a range that asks for them has these labels. */
	r.derived = false;
	assert_done(profilestore_merge(t.s, &r, NULL, NULL, &m, &err));
	assert_int_equal(m.n_profiles, 0);
	profile_free(m.profile);
	stored_range_done(&r);
	stored_done(&t);
}

static void each_series_has_a_service_name(void **state)
{
	const struct profilestore_label service = { STR("service"), STR("web") },
					name[] = { { STR("service"), STR("x") },
						   { STR("service_name"), STR("db") } },
					job = { STR("job"), STR("batch") };
	struct profilestore_range r;
	struct profilestore_list *l;
	struct err err = { 0 };
	struct stored t = { 0 };

	stored_open(&t);
	add_typed(&t, NULL, "cpu", "nanoseconds", &service, 1);
	add_typed(&t, NULL, "cpu", "nanoseconds", name, 2);
	add_typed(&t, NULL, "cpu", "nanoseconds", &job, 1);
	is_values(&t, "service_name", "db unknown_service web");
	is_values(&t, "service", "web x");
	r = derived_range("{service_name=\"unknown_service\"}");
	assert_done(profilestore_label_names(t.s, &r, &l, &err));
	is_list(l, "__name__ __period_type__ __period_unit__ __profile_type__ __type__ __unit__ job "
		   "service_name");
	stored_range_done(&r);
	stored_done(&t);
}

static void label_sets_are_those_of_the_names(void **state)
{
	static const struct str by[] = { STR("host"), STR("service_name") };
	const struct profilestore_label a[] = { { STR("service"), STR("web") }, { STR("host"), STR("a1") } },
					b[] = { { STR("service"), STR("web") },
						{ STR("host"), STR("a1") },
						{ STR("pod"), STR("7") } },
					c = { STR("service"), STR("db") };
	struct profilestore_label_sets *l;
	struct profilestore_range r;
	struct err err = { 0 };
	struct stored t = { 0 };

	stored_open(&t);
	add_typed(&t, NULL, "cpu", "nanoseconds", a, 2);
	add_typed(&t, NULL, "cpu", "nanoseconds", b, 3);
	add_typed(&t, NULL, "samples", "count", &c, 1);
	r = derived_range("{}");
	assert_done(profilestore_label_sets(t.s, &r, by, 2, 10, &l, &err));
	assert_int_equal(l->n, 2);
	assert_int_equal(l->v[0].n, 2);
	assert_true(str_eq(l->v[0].labels[0].value, STR("a1")) &&
		    str_eq(l->v[0].labels[1].value, STR("web")));
	assert_int_equal(l->v[1].n, 1);
	assert_true(str_eq(l->v[1].labels[0].name, STR("service_name")));
	free(l);
	assert_done(profilestore_label_sets(t.s, &r, by, 1, 10, &l, &err));
	assert_int_equal(l->n, 1);
	free(l);
	assert_fails(profilestore_label_sets(t.s, &r, NULL, 0, 2, &l, &err), ERR_LIMIT, "more than 2 sets");
	stored_range_done(&r);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_have_five_parts_and_names_of_pyroscope),
		cmocka_unit_test(stored_types_with_one_id_are_added_up),
		cmocka_unit_test(each_series_has_a_service_name),
		cmocka_unit_test(label_sets_are_those_of_the_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
