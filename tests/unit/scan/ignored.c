/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file without anything to index is remembered as long as it does not change.
 */
#include "test.h"

#include "scan/internal.h"

static struct stat stat_of(unsigned i)
{
	return (struct stat){ .st_size = (off_t)(i % 7), .st_ino = i, .st_mtim = { 1000, 5 }, .st_dev = 3 };
}

static void a_changed_file_is_not_ignored(void **state)
{
	struct ignored_files *n = ignored_new();
	struct stat st = stat_of(1), other;

	assert_false(ignored_has(n, "/a", &st));
	ignored_add(n, "/a", &st);
	ignored_add(n, "/a", &st);
	assert_true(ignored_has(n, "/a", &st));
	assert_false(ignored_has(n, "/b", &st));
	assert_false(ignored_has(n, "/a/", &st));
	other = st;
	other.st_size++;
	assert_false(ignored_has(n, "/a", &other));
	other = st;
	other.st_mtim.tv_nsec++;
	assert_false(ignored_has(n, "/a", &other));
	other = st;
	other.st_ino++;
	assert_false(ignored_has(n, "/a", &other));
	other = st;
	other.st_dev++;
	assert_false(ignored_has(n, "/a", &other));
	ignored_free(n);
	ignored_free(NULL);
}

static void many_are_kept(void **state)
{
	struct ignored_files *n = ignored_new();
	char path[32];

	for (unsigned i = 0; i < 100000; i++) {
		struct stat st = stat_of(i);

		snprintf(path, sizeof(path), "/d/%u", i);
		ignored_add(n, path, &st);
	}
	for (unsigned i = 0; i < 200000; i++) {
		struct stat st = stat_of(i);

		snprintf(path, sizeof(path), "/d/%u", i);
		assert_int_equal(ignored_has(n, path, &st), i < 100000);
	}
	ignored_free(n);
}

static void *adds(void *arg)
{
	struct ignored_files *n = arg;
	struct stat st = stat_of(0);
	char path[32];

	for (unsigned i = 0; i < 5000; i++) {
		snprintf(path, sizeof(path), "/t/%u", i);
		ignored_add(n, path, &st);
		assert_true(ignored_has(n, path, &st));
	}
	return NULL;
}

static void many_threads_may_add(void **state)
{
	struct ignored_files *n = ignored_new();
	pthread_t threads[4];

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, adds, n), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	ignored_free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_changed_file_is_not_ignored),
		cmocka_unit_test(many_are_kept),
		cmocka_unit_test(many_threads_may_add),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
