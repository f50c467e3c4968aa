/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of CPUs that the process may use, from made-up cgroups.
 */
#include "test.h"

#include <sched.h>
#include "base/internal.h"

static char dir[TEST_PATH_SIZE];

static int setup(void **state)
{
	test_dir_make(dir);
	return 0;
}

static int teardown(void **state)
{
	test_dir_remove(dir);
	return 0;
}

static void set_quota(const char *group, const char *text)
{
	AUTO(mem_freep) char *d = mem_printf("%s%s", dir, group);
	AUTO(mem_freep) char *path = mem_printf("%s/cpu.max", d);
	struct err err = { 0 };

	assert_done(dir_make(d, 0700, &err));
	test_file_write(path, text, strlen(text));
}

static void the_smallest_quota_on_the_way_up_counts(void **state)
{
	struct str in = STR("5:cpu:/other\n0::/a/b/c\n");

	assert_int_equal(pool_cpus_in_cgroup(8, in, dir), 8); /* no files at all */
	set_quota("/a/b/c", "max 100000\n");
	assert_int_equal(pool_cpus_in_cgroup(8, in, dir), 8);
	set_quota("/a", "350000 100000\n");
	assert_int_equal(pool_cpus_in_cgroup(8, in, dir), 4); /* rounded up */
	set_quota("/a/b", "200000 100000\n");
	assert_int_equal(pool_cpus_in_cgroup(8, in, dir), 2);
	set_quota("/a/b/c", "50000 100000\n");
	assert_int_equal(pool_cpus_in_cgroup(8, in, dir), 1);
	set_quota("/a/b/c", "9900000 100000\n");
	assert_int_equal(pool_cpus_in_cgroup(8, in, dir), 2);
	set_quota("", "100000 100000\n");
	assert_int_equal(pool_cpus_in_cgroup(8, in, dir), 1);
	assert_int_equal(pool_cpus_in_cgroup(8, STR("0::/\n"), dir), 1);
}

static void an_invalid_quota_is_no_limit(void **state)
{
	static const char *const quotas[] = { "",       "\n",  "max",       "0 0",
					      "100000", "x y", "-1 100000", "100000 0\n" };

	for (size_t i = 0; i < ARRAY_SIZE(quotas); i++) {
		set_quota("/a", quotas[i]);
		assert_int_equal(pool_cpus_in_cgroup(3, STR("0::/a\n"), dir), 3);
	}
	assert_int_equal(pool_cpus_in_cgroup(3, STR(""), dir), 3);
	assert_int_equal(pool_cpus_in_cgroup(3, STR("0::\n1:x:/\nnonsense"), dir), 3);
	set_quota("/a", "0 100000\n");
	assert_int_equal(pool_cpus_in_cgroup(3, STR("0::/a\n"), dir), 1);
}

static void affinity_counts(void **state)
{
	cpu_set_t all, one;
	unsigned n = pool_cpus();

	assert_in_range(n, 1, 65536);
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(pool_cpus(), 1);
	sched_setaffinity(0, sizeof(all), &all);
	assert_int_equal(pool_cpus(), n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_smallest_quota_on_the_way_up_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(an_invalid_quota_is_no_limit, setup, teardown),
		cmocka_unit_test(affinity_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
