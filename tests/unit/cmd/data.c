/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data directory: its lock, where another process removes it.
 */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "test.h"
#include "cmd/service/service.h"

static char dir[TEST_PATH_SIZE], data[TEST_PATH_SIZE + 16], lock[TEST_PATH_SIZE + 32];
static unsigned n_locks, n_removed;
static bool is_removed_before_lock;

/* The process that had the lock until now has removed the directory when it ended. */
int flock(int fd, int operation)
{
	n_locks++;
	if (is_removed_before_lock && n_locks == 1)
		data_remove(data);
	return (int)syscall(SYS_flock, fd, operation);
}

int remove(const char *path)
{
	n_removed++;
	if (lock[0])
		assert_int_equal(access(lock, F_OK), 0);
	return unlinkat(AT_FDCWD, path, 0) == 0 ? 0 : unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

static int make_places(void **state)
{
	test_dir_make(dir);
	snprintf(data, sizeof(data), "%s/data", dir);
	snprintf(lock, sizeof(lock), "%s/lock", data);
	n_locks = n_removed = 0;
	is_removed_before_lock = false;
	return 0;
}

static int remove_places(void **state)
{
	lock[0] = '\0';
	test_dir_remove(dir);
	return 0;
}

static void the_lock_is_removed_last(void **state)
{
	static const char *const names[] = { "a", "b/lock", "k", "m/c/d", "z" };
	struct err err;

	assert_done(data_lock(data, "-d", &err));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO(mem_freep) char *path = mem_printf("%s/%s", data, names[i]);
		AUTO(mem_freep) char *parent = mem_strndup(path, (size_t)(strrchr(path, '/') - path));

		assert_done(dir_make(parent, 0700, &err));
		test_file_write(path, "x", 1);
	}
	data_remove(data);
	assert_int_equal(n_removed, 8);
	assert_int_equal(access(data, F_OK), -1);
}

static void a_lock_whose_file_is_gone_is_none(void **state)
{
	char text[32];
	struct err err;
	int fd;

	is_removed_before_lock = true;
	assert_done(data_lock(data, "-d", &err));
	assert_int_equal(n_locks, 2);
	fd = open(lock, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text)) > 0);
	/* Another process sees it. */
	assert_int_equal(syscall(SYS_flock, fd, LOCK_EX | LOCK_NB), -1);
	close(fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_lock_is_removed_last, make_places, remove_places),
		cmocka_unit_test_setup_teardown(a_lock_whose_file_is_gone_is_none, make_places,
						remove_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
