/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "profile_maker.h"

static struct profile *make(uint64_t seed)
{
	const struct profile_maker m = { seed, 1, 60 + (unsigned)seed * 10, 90, 12, false };

	return profile_make(&m);
}

static struct profile *merge(const struct profile *const *list, size_t n)
{
	struct profile *to = profile_new(NULL);
	struct err err = { 0 };

	for (size_t i = 0; i < n; i++)
		assert_done(profile_merge(to, list[i], 1, &err));
	assert_done(profile_merge_end(to, &err));
	return to;
}

static void assert_alike(const struct profile *p, const struct profile *q)
{
	AUTO(buf_done) struct buf a = { 0 };
	AUTO(buf_done) struct buf b = { 0 };

	profile_canonical(p, &a);
	profile_canonical(q, &b);
	assert_string_equal(buf_cstr(&a), buf_cstr(&b));
}

static void order_does_not_matter(void **state)
{
	for (uint64_t seed = 0; seed < 12; seed++) {
		AUTO(profile_freep) struct profile *a = make(seed);
		AUTO(profile_freep) struct profile *b = make(seed * 3 + 1);
		AUTO(profile_freep) struct profile *c = make(seed * 5 + 2);
		AUTO(profile_freep) struct profile *ab = merge((const struct profile *[]){ a, b }, 2);
		AUTO(profile_freep) struct profile *ba = merge((const struct profile *[]){ b, a }, 2);
		AUTO(profile_freep) struct profile *bc = merge((const struct profile *[]){ b, c }, 2);
		AUTO(profile_freep) struct profile *ab_c = merge((const struct profile *[]){ ab, c }, 2);
		AUTO(profile_freep) struct profile *a_bc = merge((const struct profile *[]){ a, bc }, 2);
		AUTO(profile_freep) struct profile *cba = merge((const struct profile *[]){ c, b, a }, 3);

		assert_alike(ab, ba);
		assert_alike(ab_c, a_bc);
		assert_alike(ab_c, cba);
		assert_int_equal(profile_total(ab, 1), profile_total(a, 1) + profile_total(b, 1));
	}
}

static void a_single_profile_stays_the_same(void **state)
{
	AUTO(profile_freep) struct profile *a = make(3);
	AUTO(profile_freep) struct profile *one = merge((const struct profile *[]){ a }, 1);
	AUTO(profile_freep) struct profile *two = merge((const struct profile *[]){ one }, 1);

	assert_alike(one, two);
	assert_int_equal(profile_total(one, 0), profile_total(a, 0));
}

static void the_same_part_of_a_file_is_one_mapping(void **state)
{
	AUTO(profile_freep) struct profile *a = make(1);
	AUTO(profile_freep) struct profile *b = make(2);
	AUTO(profile_freep) struct profile *ab = merge((const struct profile *[]){ a, b }, 2);

	assert_int_not_equal(a->mappings.p[0].start, b->mappings.p[0].start);
	assert_int_equal(ab->mappings.n, 4);
}

/* One sample of an address in a mapping of two pages. */
static struct profile *of_mapping(const char *file, const char *build_id, uint64_t start, uint64_t offset)
{
	struct profile *p = profile_new(NULL);
	struct profile_mapping m = { .start = start,
				     .limit = start + 0x2000,
				     .offset = offset,
				     .file = profile_add_string(p, str_of(file)) };
	struct profile_location l = { .addr = start + 0x123 };
	const int64_t one = 1;

	profile_add_type(p, STR("samples"), STR("count"));
	if (*build_id)
		m.build_id = profile_add_string(p, str_of(build_id));
	l.mapping = profile_add_mapping(p, &m);
	profile_add_sample(p, profile_add_stack(p, 0, profile_add_location(p, &l, NULL, 0)), 0, &one);
	return p;
}

static void only_the_same_part_of_the_same_file_is_one_mapping(void **state)
{
	static const struct {
		const char *id, *other_file, *other_id;
		uint64_t other_offset;
		uint32_t n; /* mappings, and samples */
	} cases[] = {
		{ "", "/a", "", 0x1000, 1 },     { "", "/b", "", 0x1000, 2 },
		{ "", "/a", "", 0x3000, 2 },     { "", "/a", "ab", 0x1000, 2 },
		{ "ab", "/a", "ab", 0x1000, 1 }, { "ab", "/b", "ab", 0x1000, 1 },
		{ "ab", "/a", "ab", 0x3000, 2 }, { "ab", "/a", "cd", 0x1000, 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(profile_freep) struct profile *a = of_mapping("/a", cases[i].id, 0x400000, 0x1000);
		AUTO(profile_freep)
		struct profile *b = of_mapping(cases[i].other_file, cases[i].other_id, 0x700000,
					       cases[i].other_offset);
		AUTO(profile_freep) struct profile *ab = merge((const struct profile *[]){ a, b }, 2);

		assert_int_equal(ab->mappings.n, cases[i].n);
		assert_int_equal(ab->n_samples, cases[i].n);
		assert_int_equal(profile_total(ab, 0), 2);
	}
}

static void a_profile_minus_itself_is_empty(void **state)
{
	for (int normalise = 0; normalise < 2; normalise++) {
		AUTO(profile_freep) struct profile *a = make(5);
		AUTO(profile_freep) struct profile *d = NULL;
		struct err err = { 0 };

		assert_done(profile_diff(a, a, normalise, &d, &err));
		assert_int_equal(d->n_samples, 0);
		assert_int_equal(d->locations.n, 0);
		assert_int_equal(d->types.n, 2);
	}
}

static void a_normalised_base_has_the_same_sums(void **state)
{
	AUTO(profile_freep) struct profile *a = make(5);
	AUTO(profile_freep) struct profile *twice = merge((const struct profile *[]){ a, a }, 2);
	AUTO(profile_freep) struct profile *d = NULL;
	struct err err = { 0 };

	assert_done(profile_diff(a, twice, true, &d, &err));
	assert_int_equal(d->n_samples, 0);
	profile_freep(&d);
	d = NULL;
	assert_done(profile_diff(twice, a, false, &d, &err));
	assert_int_equal(profile_total(d, 0), profile_total(a, 0));
}

static void other_types_are_not_merged(void **state)
{
	AUTO(profile_freep) struct profile *a = make(5);
	AUTO(profile_freep) struct profile *b = profile_new(NULL);
	AUTO(profile_freep) struct profile *c = profile_new(NULL);
	struct err err = { 0 };

	profile_add_type(b, STR("samples"), STR("count"));
	assert_fails(profile_merge(b, a, 1, &err), ERR_INVALID, "one has 1 sample types, the other 2");
	profile_add_type(c, STR("samples"), STR("count"));
	profile_add_type(c, STR("alloc"), STR("bytes"));
	assert_fails(profile_merge(c, a, 1, &err), ERR_INVALID, "alloc/bytes and cpu/nanoseconds");
}

static void the_head_is_of_both(void **state)
{
	for (int order = 0; order < 2; order++) {
		AUTO(profile_freep) struct profile *a = of_mapping("/a", "", 0x400000, 0);
		AUTO(profile_freep) struct profile *b = of_mapping("/a", "", 0x400000, 0);
		AUTO(profile_freep) struct profile *ab = NULL;
		struct err err = { 0 };

		a->time_ns = 2000;
		b->time_ns = 3000;
		a->duration_ns = b->duration_ns = 5;
		ab = merge(order ? (const struct profile *[]){ b, a } : (const struct profile *[]){ a, b },
			   2);
		assert_int_equal(ab->time_ns, 2000);
		assert_int_equal(ab->duration_ns, 10);
		b->period_type.type = profile_add_string(b, STR("alloc"));
		assert_fails(profile_merge(ab, b, 1, &err), ERR_INVALID, "the periods' types");
	}
}

/* Labels that are the same in another order are one set, also if one name has several numbers or units. */
static void sets_of_labels_have_no_order(void **state)
{
	struct profile *list[2];
	AUTO(profile_freep) struct profile *ab = NULL;

	for (int i = 0; i < 2; i++) {
		struct profile *p = list[i] = of_mapping("/a", "", 0x400000, 0);
		uint32_t key = profile_add_string(p, STR("size")),
			 bytes = profile_add_string(p, STR("bytes")), ms = profile_add_string(p, STR("ms"));
		const struct profile_label v[] = { { .key = key, .num = 5, .unit = bytes },
						   { .key = key, .num = 7, .unit = bytes },
						   { .key = key, .num = 7, .unit = ms },
						   { .key = key, .num = 7, .unit = bytes },
						   { .key = key, .num = 5, .unit = bytes } };
		const int64_t one = 1;

		profile_add_sample(p, p->sample_stack[0], profile_add_labels(p, v + 2 * i, 3), &one);
	}
	ab = merge((const struct profile *const *)list, 2);
	assert_int_equal(ab->n_samples, 2);
	assert_int_equal(profile_total(ab, 0), 4);
	profile_free(list[0]);
	profile_free(list[1]);
}

static void the_limit_of_memory_is_an_error(void **state)
{
	const struct profile_limits little = { .max_memory = 20000 };
	AUTO(profile_freep) struct profile *a = make(30);
	AUTO(profile_freep) struct profile *to = profile_new(&little);
	struct err err = { 0 };

	assert_fails(profile_merge(to, a, 1, &err), ERR_LIMIT, "memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_does_not_matter),
		cmocka_unit_test(a_single_profile_stays_the_same),
		cmocka_unit_test(the_same_part_of_a_file_is_one_mapping),
		cmocka_unit_test(only_the_same_part_of_the_same_file_is_one_mapping),
		cmocka_unit_test(a_profile_minus_itself_is_empty),
		cmocka_unit_test(a_normalised_base_has_the_same_sums),
		cmocka_unit_test(other_types_are_not_merged),
		cmocka_unit_test(the_head_is_of_both),
		cmocka_unit_test(sets_of_labels_have_no_order),
		cmocka_unit_test(the_limit_of_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
