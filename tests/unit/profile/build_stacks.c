/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/budget.h"

#include "profile/internal.h"

static void each_stack_is_stored_once_whatever_its_callers_have(void **state)
{
	/* Lists of callees, and those that are too long for one. */
	static const uint32_t widths[] = { 1, 2, 8, 9, 10, 1000 };
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	struct err err;

	for (size_t w = 0; w < ARRAY_SIZE(widths); w++) {
		uint32_t callers = profile_add_stack(p, 0, 5000 + (uint32_t)w), n = p->stacks.n;

		for (int round = 0; round < 2; round++)
			for (uint32_t i = 0; i < widths[w]; i++)
				assert_int_equal(profile_add_stack(p, callers, i), n + i);
		assert_int_equal(p->stacks.n, n + widths[w]);
		assert_true(profile_has_stack(p, callers, widths[w] - 1));
		assert_false(profile_has_stack(p, callers, widths[w]));
		/* The same locations with other callers are other stacks. */
		assert_false(profile_has_stack(p, n, 0));
	}
	assert_done(profile_build_end(p, &err));
}

static void a_whole_stack_is_added_from_its_leaf(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	uint32_t root = profile_add_stack(p, 0, 7), middle = profile_add_stack(p, root, 8),
		 leaf = profile_add_stack(p, middle, 9);

	assert_int_equal(profile_add_stacks(p, 0, (const uint32_t[]){ 9, 8, 7 }, 3), leaf);
	assert_int_equal(profile_add_stacks(p, root, (const uint32_t[]){ 9, 8 }, 2), leaf);
	assert_int_equal(profile_add_stacks(p, root, NULL, 0), root);
	leaf = profile_add_stacks(p, 0, (const uint32_t[]){ 1, 8, 7 }, 3);
	assert_int_equal(leaf, p->stacks.n - 1);
	assert_int_equal(p->stacks.p[leaf].parent, middle);
}

static void stacks_that_were_appended_are_found(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	uint32_t many[20];

	for (uint32_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = profile_append_stack(p, 0, i);
	for (uint32_t i = 0; i < ARRAY_SIZE(many); i++)
		assert_int_equal(profile_add_stack(p, 0, i), many[i]);
	/* Also between searches, and after some were cut off. */
	assert_int_equal(profile_append_stack(p, many[3], 77), 21);
	assert_int_equal(profile_add_stack(p, many[3], 77), 21);
	p->stacks.n = 11;
	assert_int_equal(profile_add_stack(p, 0, 9), many[9]);
	assert_int_equal(profile_add_stack(p, 0, 15), 11);
}

static void locations_that_were_appended_are_found(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	struct profile_location l = { .addr = 16, .mapping = PROFILE_NONE };
	struct profile_line line = { .line = 3 };

	assert_int_equal(profile_add_location(p, &l, NULL, 0), 0);
	l.addr = 32;
	assert_int_equal(profile_append_location(p, &l, &line, 1), 1);
	assert_int_equal(profile_append_location(p, &l, &line, 1), 2); /* not searched for */
	l.addr = 16;
	assert_int_equal(profile_add_location(p, &l, NULL, 0), 0);
	l.addr = 32;
	assert_true(profile_add_location(p, &l, &line, 1) != 0);
	assert_int_equal(p->locations.n, 3);
}

static void the_limit_of_memory_holds_for_stacks(void **state)
{
	struct profile_limits limits = { .max_memory = 4000 };
	AUTO(profile_freep) struct profile *p = profile_new(&limits);
	uint32_t stack = 0;
	struct err err;

	for (uint32_t i = 0; i < 1000; i++)
		stack = profile_add_stack(p, stack, i);
	assert_int_equal(stack, 0);
	assert_true(p->memory <= limits.max_memory);
	assert_fails(profile_build_end(p, &err), ERR_LIMIT, "memory");
	profile_index_drop(p);
	assert_int_equal(p->memory, p->stacks.room * sizeof(*p->stacks.p) - sizeof(*p->stacks.p));
}

/* Once doubling is refused, tables grow by less, and not by one entry, with a refusal and a reallocation for each. */
static void a_budget_that_ends_refuses_seldom(void **state)
{
	struct budget *b = budget_new_undivided(MIB(3));
	struct budget_hold hold = { 0 };
	struct profile_limits limits = { .memory = &hold };
	struct budget_stats stats;
	struct profile *p;
	uint32_t n = 0;

	budget_hold_init(&hold, b, BUDGET_PROFILE);
	p = profile_new(&limits);
	while (p->stacks.n != n) {
		n = p->stacks.n;
		(void)profile_append_stack(p, 0, 1);
	}
	budget_stats(b, &stats);
	/* 2 MiB are more than the last doubling; all but the last entries fit. */
	assert_true((uint64_t)n * sizeof(*p->stacks.p) > MIB(2));
	assert_true(stats.classes[BUDGET_PROFILE].n_refused > 0);
	assert_true(stats.classes[BUDGET_PROFILE].n_refused < 1000);
	profile_free(p);
	budget_hold_done(&hold);
	budget_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_stack_is_stored_once_whatever_its_callers_have),
		cmocka_unit_test(a_whole_stack_is_added_from_its_leaf),
		cmocka_unit_test(stacks_that_were_appended_are_found),
		cmocka_unit_test(locations_that_were_appended_are_found),
		cmocka_unit_test(the_limit_of_memory_holds_for_stacks),
		cmocka_unit_test(a_budget_that_ends_refuses_seldom),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
