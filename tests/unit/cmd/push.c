/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode push: the walk over folders, and the members of a tar of sources and split files.
 */
#include <dirent.h>
#include <fcntl.h>
#include "test.h"

#include <elf.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/condition.h"
#include "cmd/push/push.h"
#include "elf_writer.h"

static void write_split_file(const char *path)
{
	static const uint8_t info[16];
	AUTO(buf_done) struct buf b = { 0 };
	struct elf_writer w;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	elf_writer_section(&w, ".debug_info.dwo", SHT_PROGBITS, 0, bytes_of(info, sizeof(info)));
	elf_writer_finish(&w, &b);
	elf_writer_done(&w);
	test_file_write(path, b.p, b.size);
}

/* The number of members of the tar. */
static size_t tar_members(struct push_members *m)
{
	AUTO(fd_close) int fd = -1;
	struct err err = { 0 };
	uint64_t size;
	size_t n;

	assert_done(push_tar(m, &fd, &size, &n, &err));
	push_members_done(m);
	return n;
}

/* A file that is removed after lstat() has seen it, and a folder before it is opened. */
static const char *file_to_remove, *folder_to_remove;

int lstat(const char *path, struct stat *ret)
{
	int r = fstatat(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);

	if (file_to_remove && strcmp(path, file_to_remove) == 0)
		unlink(path);
	return r;
}

DIR *opendir(const char *path)
{
	int fd;

	if (folder_to_remove && strcmp(path, folder_to_remove) == 0)
		rmdir(path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? NULL : fdopendir(fd);
}

/* The number of errors that are reported for the folder. */
static unsigned errors_of(const char *dir)
{
	struct str item = str_of(dir);
	const struct setting_list paths = { .items = &item, .n = 1 };
	struct push p = { .paths = &paths };

	p.last = &p.first;
	pthread_mutex_init(&p.lock, NULL);
	condition_init(&p.changed);
	push_find(&p);
	pthread_cond_destroy(&p.changed);
	pthread_mutex_destroy(&p.lock);
	assert_true(p.walked);
	return p.n_errors;
}

static void files_and_folders_that_were_removed_since_are_no_errors(void **state)
{
	char dir[TEST_PATH_SIZE], file[TEST_PATH_SIZE + 16], folder[TEST_PATH_SIZE + 16];

	test_dir_make(dir);
	snprintf(file, sizeof(file), "%s/x.o", dir);
	snprintf(folder, sizeof(folder), "%s/conftest", dir);
	test_file_write(file, "x", 1);
	assert_int_equal(mkdir(folder, 0700), 0);
	file_to_remove = file;
	folder_to_remove = folder;
	assert_int_equal(errors_of(dir), 0);
	assert_int_equal(access(file, F_OK), -1);
	assert_int_equal(access(folder, F_OK), -1);
	file_to_remove = NULL;
	/* The one that the user gave. */
	folder_to_remove = dir;
	assert_int_equal(errors_of(dir), 1);
	folder_to_remove = NULL;
}

/* As when someone puts a link to it into the folder that is pushed, after the split file was found there. */
static void a_file_that_is_no_split_file_any_more_is_left_out(void **state)
{
	char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE + 16], secret[TEST_PATH_SIZE + 16];
	struct push_members m;

	test_dir_make(dir);
	snprintf(path, sizeof(path), "%s/x.dwo", dir);
	snprintf(secret, sizeof(secret), "%s/secret", dir);
	test_file_write(secret, "secret", 6);
	write_split_file(path);
	push_members_init(&m);
	push_split_add(&m, STR("/src/x.dwo"), str_of(path));
	assert_int_equal(tar_members(&m), 1);

	push_members_init(&m);
	push_split_add(&m, STR("/src/x.dwo"), str_of(path));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(secret, path), 0);
	assert_int_equal(tar_members(&m), 0);

	/* A source file may be any text. */
	push_members_init(&m);
	push_source_add(&m, STR("/src/x.c"), str_of(secret), 100);
	assert_int_equal(tar_members(&m), 1);
	test_dir_remove(dir);
}

/* The program's own limit of descriptors is reached at each of the places. */
static void a_split_file_that_cannot_be_read_is_a_failure(void **state)
{
	char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE + 16];
	unsigned n_failed = 0;
	struct rlimit usual;
	int next;

	test_dir_make(dir);
	snprintf(path, sizeof(path), "%s/x.dwo", dir);
	write_split_file(path);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
	next = dup(STDIN_FILENO);
	assert_true(next > 0);
	close(next);
	for (int more = 0;; more++) {
		AUTO(fd_close) int fd = -1;
		struct push_members m;
		struct err err = { 0 };
		uint64_t size;
		size_t n = 0;
		int r;

		push_members_init(&m);
		push_split_add(&m, STR("/src/x.dwo"), str_of(path));
		assert_int_equal(
			setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)(next + more), usual.rlim_max }),
			0);
		r = push_tar(&m, &fd, &size, &n, &err);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
		push_members_done(&m);
		if (r == 0) {
			assert_int_equal(n, 1);
			break;
		}
		n_failed++;
	}
	/* The tar itself, and the split file. */
	assert_true(n_failed >= 2);
	test_dir_remove(dir);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_and_folders_that_were_removed_since_are_no_errors),
		cmocka_unit_test(a_file_that_is_no_split_file_any_more_is_left_out),
		cmocka_unit_test(a_split_file_that_cannot_be_read_is_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
