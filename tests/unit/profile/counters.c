/* SPDX-License-Identifier: Apache-2.0 */
/* What counters rose by between two profiles of one process. */
#include "test.h"

#include "profile/profile.h"
#include "profile_maker.h"

/* A stack of three functions, or of one. */
static uint32_t add_stack(struct profile *p, const char *names, uint64_t base)
{
	const struct profile_mapping m = { base,
					   base + 0x10000,
					   0,
					   profile_add_string(p, STR("/bin/x")),
					   profile_add_string(p, STR("abcd")),
					   0 };
	uint32_t mapping = profile_add_mapping(p, &m), stack = 0;

	for (; *names; names++) {
		const struct profile_function f = { .name = profile_add_string(p, (struct str){ names, 1 }) };
		const struct profile_line line = { profile_add_function(p, &f), 7, 0 };
		const struct profile_location l = { .addr = base + (uint8_t)*names, .mapping = mapping };

		stack = profile_add_stack(p, stack, profile_add_location(p, &l, &line, 1));
	}
	return stack;
}

struct sample {
	const char *stack;
	int64_t alloc, inuse;
	int64_t size; /* a label, as Go has it */
};

/* @reversed: with other numbers of all entries. */
static struct profile *heap(const struct sample *v, size_t n, uint64_t base, bool reversed)
{
	struct profile *p = profile_new(NULL);
	struct err err = { 0 };

	profile_add_type(p, STR("alloc_space"), STR("bytes"));
	profile_add_type(p, STR("inuse_space"), STR("bytes"));
	for (size_t i = 0; i < n; i++) {
		const struct sample *s = &v[reversed ? n - 1 - i : i];
		const struct profile_label l = { profile_add_string(p, STR("bytes")), 0, 0, s->size };

		profile_append_sample(p, add_stack(p, s->stack, base), profile_add_labels(p, &l, 1),
				      (const int64_t[]){ s->alloc, s->inuse });
	}
	assert_done(profile_build_end(p, &err));
	return p;
}

#define HEAP(...)                                    \
	heap((const struct sample[]){ __VA_ARGS__ }, \
	     sizeof((struct sample[]){ __VA_ARGS__ }) / sizeof(struct sample), 0x1000, false)

static int rise(struct profile *p, struct profile_counters **base)
{
	struct profile_counters *next = NULL;
	struct err err = { 0 };
	int r = profile_counters_rise(p, *base, NULL, &next, &err);

	assert_true(r >= 0);
	profile_counters_free(*base);
	*base = next;
	return r;
}

static void the_first_profile_is_the_base(void **state)
{
	AUTO(profile_freep) struct profile *p = HEAP({ "ab", 100, 7, 8 }, { "ac", 50, 3, 8 });
	struct profile_counters *base = NULL;

	assert_int_equal(rise(p, &base), PROFILE_NO_BASE);
	assert_int_equal(profile_total(p, 0), 0);
	assert_int_equal(profile_total(p, 1), 10);
	profile_counters_free(base);
}

static void counters_are_what_was_added(void **state)
{
	const struct sample later[] = { { "ab", 130, 1, 8 }, { "ac", 50, 2, 8 }, { "ad", 5, 5, 8 } };
	AUTO(profile_freep) struct profile *p = HEAP({ "ab", 100, 7, 8 }, { "ac", 50, 3, 8 });
	/* In another order, mapped elsewhere. */
	AUTO(profile_freep) struct profile *q = heap(later, ARRAY_SIZE(later), 0x700000, true);
	struct profile_counters *base = NULL;

	rise(p, &base);
	assert_int_equal(rise(q, &base), 0);
	assert_int_equal(profile_total(q, 0), 35);
	assert_int_equal(profile_total(q, 1), 8);
	assert_int_equal(profile_value(q, 1, 0), 0);
	profile_counters_free(base);
}

/* One stack with two sizes are two samples. */
static void labels_tell_samples_apart(void **state)
{
	AUTO(profile_freep) struct profile *p = HEAP({ "ab", 100, 7, 8 }, { "ab", 50, 3, 16 });
	AUTO(profile_freep) struct profile *q = HEAP({ "ab", 60, 3, 16 }, { "ab", 101, 7, 8 });
	struct profile_counters *base = NULL;

	rise(p, &base);
	assert_int_equal(rise(q, &base), 0);
	assert_int_equal(profile_value(q, 0, 0), 10);
	assert_int_equal(profile_value(q, 1, 0), 1);
	profile_counters_free(base);
}

static void samples_of_one_stack_share_its_earlier_value(void **state)
{
	AUTO(profile_freep) struct profile *p = HEAP({ "ab", 60, 1, 8 }, { "ab", 40, 1, 8 });
	AUTO(profile_freep) struct profile *q = HEAP({ "ab", 30, 1, 8 }, { "ab", 80, 1, 8 });
	struct profile_counters *base = NULL;

	rise(p, &base);
	assert_int_equal(rise(q, &base), 0);
	assert_int_equal(profile_total(q, 0), 10);
	profile_counters_free(base);
}

static void a_counter_that_sinks_begins_anew(void **state)
{
	AUTO(profile_freep) struct profile *p = HEAP({ "ab", 100, 7, 8 }, { "ac", 50, 3, 8 });
	AUTO(profile_freep) struct profile *q = HEAP({ "ab", 900, 4, 8 }, { "ac", 20, 5, 8 });
	AUTO(profile_freep) struct profile *r = HEAP({ "ab", 910, 4, 8 }, { "ac", 20, 5, 8 });
	struct profile_counters *base = NULL;

	rise(p, &base);
	assert_int_equal(rise(q, &base), PROFILE_NO_BASE);
	assert_int_equal(profile_total(q, 0), 0);
	assert_int_equal(profile_total(q, 1), 9);
	assert_int_equal(rise(r, &base), 0);
	assert_int_equal(profile_total(r, 0), 10);
	profile_counters_free(base);
}

static void a_stack_that_is_gone_begins_anew(void **state)
{
	AUTO(profile_freep) struct profile *p = HEAP({ "ab", 100, 7, 8 }, { "ac", 1, 3, 8 });
	AUTO(profile_freep) struct profile *q = HEAP({ "ab", 900, 4, 8 });
	struct profile_counters *base = NULL;

	rise(p, &base);
	assert_int_equal(rise(q, &base), PROFILE_NO_BASE);
	profile_counters_free(base);
}

/* Senders scale sampled counts: a value may come out lower by its rounding. */
static void rounding_is_no_restart_and_never_negative(void **state)
{
	AUTO(profile_freep) struct profile *p = HEAP({ "ab", 100000, 7, 8 }, { "ac", INT64_MAX, 1, 8 });
	AUTO(profile_freep) struct profile *q = HEAP({ "ab", 99999, 7, 8 }, { "ac", INT64_MAX, 1, 8 });
	struct profile_counters *base = NULL;

	rise(p, &base);
	assert_int_equal(rise(q, &base), 0);
	assert_int_equal(profile_value(q, 0, 0), 0);
	assert_int_equal(profile_value(q, 1, 0), 0);
	profile_counters_free(base);
}

static void other_types_begin_anew(void **state)
{
	AUTO(profile_freep) struct profile *p = HEAP({ "ab", 100, 7, 8 });
	AUTO(profile_freep) struct profile *q = profile_new(NULL);
	struct profile_counters *base = NULL;

	profile_add_type(q, STR("contentions"), STR("count"));
	profile_append_sample(q, add_stack(q, "ab", 0), 0, (const int64_t[]){ 500 });
	rise(p, &base);
	assert_int_equal(rise(q, &base), PROFILE_NO_BASE);
	profile_counters_free(base);
}

static void negative_values_do_no_harm(void **state)
{
	AUTO(profile_freep) struct profile *p = HEAP({ "ab", INT64_MIN, INT64_MIN, 8 }, { "ac", -1, 3, 8 });
	AUTO(profile_freep) struct profile *q = HEAP({ "ab", INT64_MAX, 4, 8 }, { "ac", INT64_MIN, 5, 8 });
	struct profile_counters *base = NULL;

	rise(p, &base);
	assert_int_equal(rise(q, &base), 0);
	assert_int_equal(profile_value(q, 0, 0), INT64_MAX);
	profile_counters_free(base);
}

static void an_empty_profile_is_a_base(void **state)
{
	AUTO(profile_freep) struct profile *p = heap(NULL, 0, 0, false);
	AUTO(profile_freep) struct profile *q = HEAP({ "ab", 100, 7, 8 });
	struct profile_counters *base = NULL;

	assert_int_equal(rise(p, &base), PROFILE_NO_BASE);
	assert_int_equal(rise(q, &base), 0);
	assert_int_equal(profile_total(q, 0), 100);
	profile_counters_free(base);
}

static void the_base_is_granted_and_returned(void **state)
{
	AUTO(profile_freep) struct profile *p = HEAP({ "ab", 100, 7, 8 });
	struct profile_counters *base = NULL;
	struct budget_hold hold;
	struct err err = { 0 };

	budget_hold_init(&hold, NULL, BUDGET_PROFILE);
	assert_int_equal(profile_counters_rise(p, NULL, &hold, &base, &err), PROFILE_NO_BASE);
	assert_true(hold.used > 0);
	profile_counters_free(base);
	assert_int_equal(hold.used, 0);
	hold.max = 16;
	assert_int_equal(profile_counters_rise(p, NULL, &hold, &base, &err), -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	budget_hold_done(&hold);
}

/* The oracle: the same as profile_diff() where all rise. */
static void random_profiles_agree_with_the_difference(void **state)
{
	for (uint64_t seed = 0; seed < 10; seed++) {
		const struct profile_maker m = { seed, 1, 80, 60, 9, seed % 2 };
		AUTO(profile_freep) struct profile *p = profile_make(&m);
		AUTO(profile_freep)
		struct profile *more = profile_make(
			&(struct profile_maker){ seed + 100, 1, 30, 60, 9, seed % 2 });
		AUTO(profile_freep) struct profile *sum = profile_new(NULL);
		struct profile_counters *base = NULL;
		struct err err = { 0 };

		/* Each maker has its own addresses; those of the same file become the same. */
		assert_done(profile_merge(sum, p, 1, &err));
		assert_done(profile_merge(sum, more, 1, &err));
		assert_done(profile_merge_end(sum, &err));
		if (rise(p, &base) == PROFILE_NO_BASE && rise(sum, &base) == 0)
			/* Values of the first type may be negative. */
			assert_int_equal(profile_total(sum, 1), profile_total(more, 1));
		profile_counters_free(base);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_profile_is_the_base),
		cmocka_unit_test(counters_are_what_was_added),
		cmocka_unit_test(labels_tell_samples_apart),
		cmocka_unit_test(samples_of_one_stack_share_its_earlier_value),
		cmocka_unit_test(a_counter_that_sinks_begins_anew),
		cmocka_unit_test(a_stack_that_is_gone_begins_anew),
		cmocka_unit_test(rounding_is_no_restart_and_never_negative),
		cmocka_unit_test(other_types_begin_anew),
		cmocka_unit_test(negative_values_do_no_harm),
		cmocka_unit_test(an_empty_profile_is_a_base),
		cmocka_unit_test(the_base_is_granted_and_returned),
		cmocka_unit_test(random_profiles_agree_with_the_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
