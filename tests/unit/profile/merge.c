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
		cmocka_unit_test(a_profile_minus_itself_is_empty),
		cmocka_unit_test(a_normalised_base_has_the_same_sums),
		cmocka_unit_test(other_types_are_not_merged),
		cmocka_unit_test(the_limit_of_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
