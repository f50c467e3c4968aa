/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files below another root: openat2(), and the walk that stands in for it, have the same results.
 */
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/root.h"

static int openat2_fails_with; /* 0: it is that of the kernel */

/* The test's own function is that of root.c, too. */
long syscall(long number, ...)
{
	static long (*real)(long number, ...);
	long a[6]; /* the most that a system call has */
	va_list ap;

	va_start(ap, number);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_openat2 && openat2_fails_with) {
		errno = openat2_fails_with;
		return -1;
	}
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

struct tree {
	char folder[64];
	int root;
};

static void make_file(const struct tree *t, const char *path)
{
	int fd = openat(t->root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

/* root/ is the root; beside it is a file to which nothing may lead. */
static int tree_setup(void **state)
{
	struct tree *t = NEW(struct tree);
	char path[100];
	int outer;

	snprintf(t->folder, sizeof(t->folder), "/tmp/lode-root-XXXXXX");
	assert_non_null(mkdtemp(t->folder));
	outer = open(t->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(outer, "root", 0700), 0);
	snprintf(path, sizeof(path), "%s/root", t->folder);
	t->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(outer >= 0 && t->root >= 0);
	close(openat(outer, "secret", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	close(outer);
	mkdirat(t->root, "usr", 0700);
	mkdirat(t->root, "usr/lib", 0700);
	make_file(t, "usr/lib/libx.so.1.0");
	make_file(t, "secret");
	symlinkat("libx.so.1.0", t->root, "usr/lib/libx.so.1");
	symlinkat("/usr/lib", t->root, "lib");
	symlinkat("../../../../../secret", t->root, "usr/lib/up");
	symlinkat("/../../secret", t->root, "above");
	symlinkat("loop", t->root, "loop");
	symlinkat("nowhere", t->root, "dangling");
	symlinkat("lib/", t->root, "folder");
	symlinkat("secret/", t->root, "no-folder");
	mkfifoat(t->root, "fifo", 0600);
	*state = t;
	return 0;
}

static int tree_teardown(void **state)
{
	struct tree *t = *state;
	char command[120];

	openat2_fails_with = 0;
	close(t->root);
	snprintf(command, sizeof(command), "rm -rf %s", t->folder);
	assert_int_equal(system(command), 0);
	free(t);
	return 0;
}

/* The inode, or the negative error. */
static long result_of(int fd)
{
	struct stat st;
	long r = -errno;

	if (fd < 0)
		return r;
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return (long)st.st_ino;
}

static const char *const paths[] = {
	"secret",
	"/secret",
	"../secret",
	"/../../secret",
	"usr/../secret",
	"usr/lib/libx.so.1",
	"lib/libx.so.1",
	"/lib/libx.so.1",
	"lib/../secret",
	"lib/../../usr/./lib//libx.so.1.0",
	"usr/lib/up",
	"above",
	"loop",
	"loop/x",
	"dangling",
	"folder",
	"folder/libx.so.1",
	"no-folder",
	"secret/",
	"secret/x",
	"lib/",
	"lib",
	"usr/lib/libx.so.1/",
	"",
	"/",
	".",
	"..",
	"missing/x",
};

static void the_walk_has_the_results_of_openat2(void **state)
{
	static const int flags[] = { O_RDONLY, O_PATH, O_PATH | O_NOFOLLOW, O_RDONLY | O_NOFOLLOW,
				     O_RDONLY | O_DIRECTORY };
	const struct tree *t = *state;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		for (size_t k = 0; k < ARRAY_SIZE(flags); k++) {
			struct open_how how = { .flags = (unsigned)flags[k] | O_CLOEXEC,
						.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
			long want, got;
			int fd;

			/* Of a path with "..", while any process renames something anywhere. */
			do
				fd = (int)syscall(SYS_openat2, t->root, paths[i], &how, sizeof(how));
			while (fd < 0 && errno == EAGAIN);
			if (fd < 0 && (errno == ENOSYS || errno == EPERM))
				skip();
			want = result_of(fd);
			got = result_of(root_open_walking(t->root, paths[i], flags[k]));
			if (want != got)
				print_error("%s, flags %#x\n", paths[i], (unsigned)flags[k]);
			assert_int_equal(want, got);
			assert_int_equal(want, result_of(root_open(t->root, paths[i], flags[k])));
		}
}

/* It is missing, or refused, or other processes rename files. */
static void a_file_opens_without_openat2(void **state)
{
	static const int numbers[] = { ENOSYS, EPERM, EAGAIN };
	const struct tree *t = *state;
	struct stat st;

	assert_int_equal(fstatat(t->root, "secret", &st, 0), 0);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		openat2_fails_with = numbers[i];
		assert_int_equal(result_of(root_open(t->root, "usr/../secret", O_RDONLY)), st.st_ino);
		assert_int_equal(result_of(root_open(t->root, "usr/lib/up", O_PATH)), st.st_ino);
	}
	/* Another failure is one. */
	openat2_fails_with = EACCES;
	assert_int_equal(result_of(root_open(t->root, "secret", O_RDONLY)), -EACCES);
}

static void no_path_leads_out_of_the_root(void **state)
{
	static const char *const ways[] = { "../secret", "usr/lib/up", "above", "lib/../../../secret" };
	const struct tree *t = *state;
	struct stat own;

	assert_int_equal(fstatat(t->root, "secret", &own, 0), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		assert_int_equal(result_of(root_open_walking(t->root, ways[i], O_RDONLY)), (long)own.st_ino);
}

static void rights_are_those_of_the_user(void **state)
{
	const struct tree *t = *state;
	const uid_t other = geteuid() + 1;

	fchmodat(t->root, "secret", 0644, 0);
	assert_int_equal(result_of(root_open_of_user(t->root, "secret", other)),
			 -EACCES); /* the root is 0700 */
	assert_true(result_of(root_open_of_user(t->root, "secret", geteuid())) > 0);
	fchmodat(t->root, ".", 0755, 0);
	assert_true(result_of(root_open_of_user(t->root, "secret", other)) > 0);
	fchmodat(t->root, "secret", 0640, 0);
	assert_int_equal(result_of(root_open_of_user(t->root, "secret", other)), -EACCES);
	assert_int_equal(result_of(root_open_of_user(t->root, "lib/libx.so.1", other)), -EACCES);
}

static void a_file_that_is_not_regular_is_not_opened(void **state)
{
	const struct tree *t = *state;
	int at = root_open(t->root, "fifo", O_PATH);

	assert_true(at >= 0);
	close(at);
	assert_int_equal(result_of(root_open(t->root, "fifo", O_RDONLY)), -ENXIO);
}

static void depth_and_names_have_limits(void **state)
{
	const struct tree *t = *state;
	char deep[1024] = "", name[NAME_MAX + 2];

	for (unsigned i = 0; i < 120; i++) {
		strcat(deep, "d/");
		mkdirat(t->root, deep, 0700);
	}
	assert_int_equal(result_of(root_open_walking(t->root, deep, O_PATH)), -ENAMETOOLONG);
	deep[2 * 90] = '\0';
	assert_true(result_of(root_open_walking(t->root, deep, O_PATH)) > 0);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(result_of(root_open_walking(t->root, name, O_RDONLY)), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_walk_has_the_results_of_openat2, tree_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(a_file_opens_without_openat2, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(no_path_leads_out_of_the_root, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(rights_are_those_of_the_user, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(a_file_that_is_not_regular_is_not_opened, tree_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(depth_and_names_have_limits, tree_setup, tree_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
