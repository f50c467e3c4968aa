/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders, files and bytes for tests.
 */
#include "test.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define MEMORY_DIR  "/dev/shm"
#define MEMORY_ROOM MIB(512)

void test_dirs_in_memory(void)
{
	struct statvfs v;

	if (!getenv("TMPDIR") && statvfs(MEMORY_DIR, &v) == 0 && v.f_bavail * v.f_frsize >= MEMORY_ROOM &&
	    access(MEMORY_DIR, W_OK) == 0)
		setenv("TMPDIR", MEMORY_DIR, 1);
}

char *test_dir_make(char *path)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(path, TEST_PATH_SIZE, "%s/lode-test-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(path));
	return path;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void test_dir_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void test_file_write(const char *path, const void *p, size_t n)
{
	struct err err = { 0 };
	AUTO(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_done(fd_write(fd, p, n, &err));
}

void test_fill(void *p, size_t n, uint64_t seed)
{
	uint8_t *out = p;

	for (size_t i = 0; i < n; i += 8) {
		uint64_t at = i, v = hash64(&at, sizeof(at), seed);

		memcpy(out + i, &v, MIN(n - i, sizeof(v)));
	}
}
