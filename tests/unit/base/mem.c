/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation, guards, overflow checks.
 */
#include "test.h"

#include <sys/wait.h>

static void nothing_is_a_place_too(void **state)
{
	AUTO(mem_freep) void *a = mem_alloc(0);
	AUTO(mem_freep) void *b = mem_zalloc(0);
	AUTO(mem_freep) void *c = mem_realloc(NULL, 0, 8);
	AUTO(mem_freep) void *d = mem_try(0);

	assert_non_null(a);
	assert_non_null(b);
	assert_non_null(c);
	assert_non_null(d);
}

static void new_is_zeroed(void **state)
{
	struct {
		char c[100];
		void *p;
	} *x = mem_zalloc(sizeof(*x));

	for (size_t i = 0; i < sizeof(x->c); i++)
		assert_int_equal(x->c[i], 0);
	assert_null(x->p);
	free(x);
}

static void take_hands_on_and_leaves_null(void **state)
{
	AUTO(mem_freep) char *s = mem_strndup("hello", 3);
	AUTO(mem_freep) char *t = TAKE(s);

	assert_null(s);
	assert_string_equal(t, "hel");
}

static void printf_allocates_what_it_needs(void **state)
{
	AUTO(mem_freep) char *s = mem_printf("%0300d", 7);

	assert_int_equal(strlen(s), 300);
}

static void overflow_is_detected(void **state)
{
	uint64_t v = 5;

	assert_true(add_overflows(UINT64_MAX, 1, &v));
	assert_int_equal(v, 5);
	assert_true(mul_overflows(UINT64_MAX / 2, 3, &v));
	assert_int_equal(v, 5);
	assert_false(add_overflows(UINT64_MAX - 1, 1, &v));
	assert_true(v == UINT64_MAX);
	assert_false(mul_overflows(UINT64_MAX / 3, 3, &v));
	assert_true(v == UINT64_MAX);
}

/* mem_try()'s caller handles NULL. The other functions end the process, so a child calls them. */
static void an_overflowing_size_ends_the_process(void **state)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		close(2);
		free(mem_realloc(NULL, SIZE_MAX / 2, 4));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

static void min_and_max(void **state)
{
	int i = 3, n = MIN(i++, 10);

	assert_int_equal(n, 3);
	assert_int_equal(i, 4);
	assert_int_equal(MAX(2, 9), 9);
	assert_int_equal(KIB(2), 2048);
	assert_int_equal(MIB(1), 1048576);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_a_place_too),
		cmocka_unit_test(new_is_zeroed),
		cmocka_unit_test(take_hands_on_and_leaves_null),
		cmocka_unit_test(printf_allocates_what_it_needs),
		cmocka_unit_test(overflow_is_detected),
		cmocka_unit_test(an_overflowing_size_ends_the_process),
		cmocka_unit_test(min_and_max),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
