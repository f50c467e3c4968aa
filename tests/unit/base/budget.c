/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory budget: shares of classes, holds, and waiting holds that do not block each other.
 */
#include "test.h"

#include <pthread.h>
#include "base/budget.h"
#include "base/internal.h"

#define TOTAL MIB(100) /* per cent are MiB */

static uint64_t used(struct budget *b, enum budget_class cls)
{
	struct budget_stats st;

	budget_stats(b, &st);
	return st.classes[cls].used;
}

static void a_class_is_refused_above_its_maximum_share(void **state)
{
	struct budget *b = budget_new(TOTAL);
	struct budget_stats st;
	struct err err;

	assert_true(budget_try(b, BUDGET_TABLE, MIB(40)));
	assert_true(budget_try(b, BUDGET_TABLE, MIB(15)));
	assert_false(budget_try(b, BUDGET_TABLE, MIB(6)));
	assert_int_equal(used(b, BUDGET_TABLE), MIB(55));
	budget_return(b, BUDGET_TABLE, MIB(40));
	assert_true(budget_try(b, BUDGET_TABLE, MIB(6)));
	budget_return(b, BUDGET_TABLE, MIB(21));
	budget_stats(b, &st);
	assert_int_equal(st.total, TOTAL);
	assert_int_equal(st.classes[BUDGET_TABLE].used, 0);
	assert_int_equal(st.classes[BUDGET_TABLE].peak, MIB(55));
	assert_int_equal(st.classes[BUDGET_TABLE].n_refused, 1);
	assert_string_equal(st.classes[BUDGET_TABLE].name, "table");
	assert_fails(budget_refusal(b, BUDGET_TABLE, MIB(10), &err), ERR_BUSY, "--memory");
	assert_fails(budget_refusal(b, BUDGET_TABLE, MIB(70), &err), ERR_LIMIT,
		     "70 MiB of memory are needed, and 60");
	budget_free(b);
}

static void full_classes_leave_the_others_their_guaranteed_shares(void **state)
{
	struct budget *b = budget_new(TOTAL);
	enum budget_class greedy[] = { BUDGET_TABLE, BUDGET_QUERY, BUDGET_REPLY };
	uint64_t taken[ARRAY_SIZE(greedy)] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(greedy); i++)
		while (budget_try(b, greedy[i], MIB(1)))
			taken[i] += MIB(1);
	assert_true(budget_try(b, BUDGET_BODY, MIB(8)));
	assert_true(budget_try(b, BUDGET_PROFILE, MIB(8)));
	for (size_t i = 0; i < ARRAY_SIZE(greedy); i++)
		budget_return(b, greedy[i], taken[i]);
	budget_return(b, BUDGET_BODY, MIB(8));
	/* All common memory is free again. */
	assert_true(budget_try(b, BUDGET_TABLE, MIB(57)));
	budget_return(b, BUDGET_TABLE, MIB(57));
	budget_return(b, BUDGET_PROFILE, MIB(8));
	budget_free(b);
}

static void without_a_budget_all_is_granted(void **state)
{
	struct budget_hold h;
	struct budget_stats st;
	struct err err = { 0 };

	assert_true(budget_try(NULL, BUDGET_BODY, UINT64_MAX));
	budget_return(NULL, BUDGET_BODY, UINT64_MAX);
	budget_hold_init(&h, NULL, BUDGET_TABLE);
	assert_done(budget_hold_add(&h, MIB(1000000), &err));
	budget_hold_sub(&h, MIB(1000000));
	h.max = MIB(10);
	assert_done(budget_hold_add(&h, MIB(10), &err));
	assert_fails(budget_hold_add(&h, 1, &err), ERR_LIMIT, "more memory than the 10 MiB");
	budget_hold_done(&h);
	assert_done(budget_hold_add(NULL, MIB(1000000), &err));
	budget_hold_charge(NULL, 1);
	assert_done(budget_hold_check(NULL, &err));
	budget_stats(NULL, &st);
	assert_int_equal(st.total, 0);
}

static void a_hold_is_granted_in_steps(void **state)
{
	struct budget *b = budget_new(TOTAL);
	struct budget_hold h;
	struct err err = { 0 };

	budget_hold_init(&h, b, BUDGET_QUERY);
	assert_done(budget_hold_add(&h, 1, &err));
	assert_int_equal(used(b, BUDGET_QUERY), BUDGET_STEP);
	for (unsigned i = 0; i < 1000; i++)
		assert_done(budget_hold_add(&h, 1000, &err));
	assert_int_equal(used(b, BUDGET_QUERY), BUDGET_STEP);
	assert_done(budget_hold_add(&h, MIB(10), &err));
	assert_int_equal(used(b, BUDGET_QUERY), MIB(11));
	budget_hold_sub(&h, MIB(10));
	assert_true(used(b, BUDGET_QUERY) <= MIB(2));
	/* What does not fit is not counted. */
	assert_fails(budget_hold_add(&h, MIB(60), &err), ERR_LIMIT, "--memory");
	assert_true(budget_try(b, BUDGET_QUERY, MIB(40)));
	assert_fails(budget_hold_add(&h, MIB(20), &err), ERR_BUSY, "--memory");
	assert_done(budget_hold_add(&h, MIB(2), &err));
	budget_return(b, BUDGET_QUERY, MIB(40));
	budget_hold_done(&h);
	assert_int_equal(used(b, BUDGET_QUERY), 0);
	budget_free(b);
}

static void memory_that_is_counted_afterwards_fails_the_next_check(void **state)
{
	struct budget *b = budget_new(TOTAL);
	struct budget_hold h;
	struct err err = { 0 };

	budget_hold_init(&h, b, BUDGET_FILE);
	budget_hold_charge(&h, MIB(20));
	assert_done(budget_hold_check(&h, &err));
	budget_hold_charge(&h, MIB(20));
	assert_fails(budget_hold_check(&h, &err), ERR_LIMIT, "--memory");
	budget_hold_sub(&h, MIB(20));
	assert_done(budget_hold_check(&h, &err));
	h.max = MIB(21);
	budget_hold_charge(&h, MIB(2));
	assert_fails(budget_hold_check(&h, &err), ERR_LIMIT, "more memory than the 21 MiB");
	budget_hold_done(&h);
	assert_int_equal(used(b, BUDGET_FILE), 0);
	budget_free(b);
}

static void an_inner_hold_has_a_limit_of_its_own(void **state)
{
	struct budget *b = budget_new(TOTAL);
	struct budget_hold outer, inner;
	struct err err = { 0 };

	budget_hold_init(&outer, b, BUDGET_FILE);
	budget_hold_init(&inner, NULL, BUDGET_FILE);
	inner.outer = &outer;
	inner.max = MIB(30);
	assert_done(budget_hold_add(&inner, MIB(10), &err));
	assert_int_equal(used(b, BUDGET_FILE), MIB(10));
	assert_fails(budget_hold_add(&inner, MIB(21), &err), ERR_LIMIT, "the 30 MiB");
	assert_fails(budget_hold_add(&inner, MIB(20), &err), ERR_LIMIT, "--memory");
	assert_int_equal(atomic_load(&inner.used), MIB(10));
	assert_int_equal(atomic_load(&outer.used), MIB(10));
	budget_hold_charge(&inner, MIB(16));
	assert_fails(budget_hold_check(&inner, &err), ERR_LIMIT, "--memory");
	budget_hold_sub(&inner, MIB(16));
	assert_done(budget_hold_check(&inner, &err));
	budget_hold_done(&inner);
	assert_int_equal(atomic_load(&outer.used), 0);
	budget_hold_done(&outer);
	budget_free(b);
}

static void a_reserve_is_used_up_first(void **state)
{
	struct budget *b = budget_new(TOTAL);
	struct budget_hold h, other;
	struct err err = { 0 };
	uint64_t last = 0;

	budget_hold_init(&h, b, BUDGET_TABLE);
	budget_hold_init(&other, b, BUDGET_TABLE);
	assert_true(budget_hold_reserve(&h, MIB(50)));
	assert_false(budget_hold_reserve(&other, MIB(20)));
	assert_done(budget_hold_add(&h, MIB(40), &err));
	budget_hold_sub(&h, MIB(30));
	assert_int_equal(used(b, BUDGET_TABLE), MIB(50));
	budget_hold_track(&h, &last, MIB(30));
	budget_hold_track(&h, &last, MIB(20));
	assert_int_equal(atomic_load(&h.used), MIB(30));
	budget_hold_done(&h);
	assert_true(budget_hold_reserve(&other, MIB(20)));
	budget_hold_done(&other);
	assert_int_equal(used(b, BUDGET_TABLE), 0);
	budget_free(b);
}

/* ---- waiting ---- */

struct waiter_thread {
	struct budget_hold hold;
	uint64_t first, second;
	pthread_barrier_t *barrier;
	pthread_t thread;
	int r;
	struct err err;
};

/* Work that takes some memory, and needs more of it when the others have theirs. */
static void *work(void *arg)
{
	struct waiter_thread *w = arg;

	w->r = budget_hold_add(&w->hold, w->first, &w->err);
	pthread_barrier_wait(w->barrier);
	if (w->r == 0)
		w->r = budget_hold_add(&w->hold, w->second, &w->err);
	budget_hold_done(&w->hold);
	return NULL;
}

static void holds_that_wait_for_each_other_do_not_all_fail(void **state)
{
	const int64_t from_ms = clock_mono_ms();
	struct budget *b = budget_new(TOTAL);
	struct waiter_thread w[4];
	struct budget_hold refused;
	pthread_barrier_t barrier;
	unsigned done = 0;

	/* Work that has not begun, and has nothing to return, is not waited for. */
	budget_hold_init(&refused, b, BUDGET_TABLE);
	refused.wait_ms = 60000;
	assert_false(budget_hold_reserve(&refused, TOTAL));
	pthread_barrier_init(&barrier, NULL, ARRAY_SIZE(w));
	for (size_t i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = (struct waiter_thread){ .first = MIB(12), .second = MIB(30), .barrier = &barrier };
		budget_hold_init(&w[i].hold, b, BUDGET_TABLE);
		w[i].hold.wait_ms = 60000;
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(w); i++) {
		pthread_join(w[i].thread, NULL);
		done += w[i].r == 0;
		if (w[i].r < 0)
			assert_int_equal(w[i].err.kind, ERR_BUSY);
	}
	/* 48 of 60 MiB are held: some have to return theirs. */
	assert_true(done >= 2);
	assert_true(clock_mono_ms() < from_ms + 60000);
	assert_int_equal(used(b, BUDGET_TABLE), 0);
	pthread_barrier_destroy(&barrier);
	budget_free(b);
}

static void *return_soon(void *arg)
{
	budget_return(arg, BUDGET_TABLE, MIB(50));
	return NULL;
}

static void a_wait_ends_when_memory_is_returned_or_time_is_over(void **state)
{
	struct budget *b = budget_new(TOTAL);
	atomic_bool cancel = true;
	struct budget_hold h;
	struct err err = { 0 };
	pthread_t thread;

	assert_true(budget_try(b, BUDGET_TABLE, MIB(50)));
	budget_hold_init(&h, b, BUDGET_TABLE);
	h.wait_ms = 1;
	assert_fails(budget_hold_add(&h, MIB(20), &err), ERR_BUSY, "--memory");
	h.wait_ms = 60000;
	h.cancel = &cancel;
	assert_fails(budget_hold_add(&h, MIB(20), &err), ERR_CANCELLED, "cancelled");
	assert_false(budget_try(b, BUDGET_TABLE, MIB(20)));
	h.cancel = NULL;
	pthread_create(&thread, NULL, return_soon, b);
	assert_done(budget_hold_add(&h, MIB(20), &err));
	pthread_join(thread, NULL);
	assert_true(budget_try(b, BUDGET_TABLE, MIB(20)));
	budget_return(b, BUDGET_TABLE, MIB(20));
	budget_hold_done(&h);
	assert_int_equal(used(b, BUDGET_TABLE), 0);
	budget_free(b);
}

/* A build that is refused its memory begins again later, with another hold in the same place. */
static void a_refused_reserve_begins_anew(void **state)
{
	struct budget *b = budget_new(TOTAL);
	struct budget_hold first, again;
	struct err err = { 0 };

	budget_hold_init(&first, b, BUDGET_TABLE);
	budget_hold_init(&again, b, BUDGET_TABLE);
	first.wait_ms = again.wait_ms = 60000;
	assert_true(budget_hold_reserve(&first, MIB(50)));
	for (int i = 0; i < 2; i++) {
		assert_false(budget_hold_reserve(&again, MIB(20)));
		assert_false(again.listed);
		budget_hold_init(&again, b, BUDGET_TABLE);
		again.wait_ms = 60000;
	}
	budget_hold_done(&first);
	assert_true(budget_hold_reserve(&again, MIB(20)));
	/* One that has a grant stays among those that are waited for. */
	assert_false(budget_hold_reserve(&again, TOTAL));
	assert_true(again.listed && !again.prev && !again.next);
	assert_done(budget_hold_add(&again, MIB(30), &err));
	budget_hold_done(&again);
	assert_int_equal(used(b, BUDGET_TABLE), 0);
	budget_free(b);
}

/* ---- the usual size ---- */

static char dir[TEST_PATH_SIZE];

static void set_limit(const char *group, const char *file, const char *text)
{
	AUTO(mem_freep) char *d = mem_printf("%s%s", dir, group);
	AUTO(mem_freep) char *path = mem_printf("%s/%s", d, file);
	struct err err = { 0 };

	assert_done(dir_make(d, 0700, &err));
	test_file_write(path, text, strlen(text));
}

static void the_smallest_limit_of_the_cgroups_counts(void **state)
{
	struct str in = STR("0::/a/b\n");

	test_dir_make(dir);
	assert_int_equal(budget_memory_in_cgroup(1000, in, dir), 1000);
	set_limit("/a/b", "memory.max", "max\n");
	assert_int_equal(budget_memory_in_cgroup(1000, in, dir), 1000);
	set_limit("/a", "memory.max", "800\n");
	assert_int_equal(budget_memory_in_cgroup(1000, in, dir), 800);
	set_limit("/a/b", "memory.high", "700\n");
	assert_int_equal(budget_memory_in_cgroup(1000, in, dir), 700);
	assert_int_equal(budget_memory_in_cgroup(1000, STR("1:name=systemd:/x\n"), dir), 1000);
	assert_true(budget_usual() >= BUDGET_TOTAL_LEAST);
	test_dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_class_is_refused_above_its_maximum_share),
		cmocka_unit_test(full_classes_leave_the_others_their_guaranteed_shares),
		cmocka_unit_test(without_a_budget_all_is_granted),
		cmocka_unit_test(a_hold_is_granted_in_steps),
		cmocka_unit_test(memory_that_is_counted_afterwards_fails_the_next_check),
		cmocka_unit_test(an_inner_hold_has_a_limit_of_its_own),
		cmocka_unit_test(a_reserve_is_used_up_first),
		cmocka_unit_test(holds_that_wait_for_each_other_do_not_all_fail),
		cmocka_unit_test(a_refused_reserve_begins_anew),
		cmocka_unit_test(a_wait_ends_when_memory_is_returned_or_time_is_over),
		cmocka_unit_test(the_smallest_limit_of_the_cgroups_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
