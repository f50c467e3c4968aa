/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable writes: a crash at any instant leaves the old content or the new one, never a part of it.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/mem.h"

#define NAME_TRIES 8

/* Guard of a temporary file: remove it unless the path was taken. */
static void temp_remove(char **path)
{
	int err_no = errno;

	if (*path)
		unlink(*path);
	free(*path);
	*path = NULL;
	errno = err_no;
}

static int temp_create(const char *dir, mode_t mode, char **ret_path, int *ret_fd, struct err *err)
{
	for (unsigned i = 0;; i++) {
		AUTO(mem_freep) char *path = NULL;
		uint64_t id;
		int fd;

		/* Randomness only avoids collisions: O_EXCL keeps two writers apart. */
		if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != sizeof(id))
			id = (uint64_t)clock_mono_ns() ^ (uint64_t)getpid() << 40;
		path = mem_printf("%s/" FILE_TEMP_PREFIX "%016llx", dir, (unsigned long long)id);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
		if (fd >= 0) {
			*ret_path = TAKE(path);
			*ret_fd = fd;
			return 0;
		}
		if (errno != EEXIST || i == NAME_TRIES)
			return err_os(err, errno, "%s: create", path);
	}
}

int file_temp_open(const char *path, mode_t mode, struct file_temp *ret, struct err *err)
{
	AUTO(mem_freep) char *dir = file_dir(path);
	AUTO(file_temp_done) struct file_temp t = FILE_TEMP_NONE;
	struct stat st;

	/* root could replace a device by a file. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s: not a regular file", path);
	/* Private until it is complete: the mode comes with the content. */
	if (temp_create(dir, 0600, &t.temp, &t.fd, err) < 0)
		return -1;
	if (fchmod(t.fd, mode & 07777) < 0)
		return err_os(err, errno, "%s: set permissions", t.temp);
	t.path = mem_strdup(path);
	*ret = t;
	t = (struct file_temp)FILE_TEMP_NONE;
	return 0;
}

int file_own_as_folder(int fd, const char *path, struct err *err)
{
	AUTO(mem_freep) char *dir = file_dir(path);
	struct stat st;

	if (geteuid() != 0)
		return 0;
	if (stat(dir, &st) < 0)
		return err_os(err, errno, "%s", dir);
	return fchown(fd, st.st_uid, st.st_gid) < 0
		       ? err_os(err, errno, "%s: give it to the owner of its folder", path)
		       : 0;
}

int file_temp_commit(struct file_temp *t, struct err *err)
{
	if (fsync(t->fd) < 0)
		return err_os(err, errno, "%s: sync", t->path);
	if (rename(t->temp, t->path) < 0)
		return err_os(err, errno, "%s: rename", t->path);
	mem_freep(&t->temp);
	return dir_sync_of(t->path, err);
}

void file_temp_done(struct file_temp *t)
{
	temp_remove(&t->temp);
	mem_freep(&t->path);
	fd_close(&t->fd);
}

int file_write_durable(const char *path, const void *p, size_t n, mode_t mode, struct err *err)
{
	AUTO(mem_freep) char *dir = file_dir(path);
	AUTO(temp_remove) char *temp = NULL;
	AUTO(fd_close) int fd = -1;

	if (temp_create(dir, mode, &temp, &fd, err) < 0)
		return -1;
	if (fd_write(fd, p, n, err) < 0)
		return err_in(err, "%s", path);
	if (fsync(fd) < 0)
		return err_os(err, errno, "%s: sync", path);
	if (rename(temp, path) < 0)
		return err_os(err, errno, "%s: rename", path);
	mem_freep(&temp);
	return dir_sync(dir, err);
}

int file_write_named(const char *path, const void *p, size_t n, mode_t mode, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	struct stat st;

	if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
		return file_write_durable(path, p, n, mode, err);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_os(err, errno, "%s", path);
	return fd_write(fd, p, n, err) < 0 ? err_in(err, "%s", path) : 0;
}

int file_unnamed(const char *dir, int *ret_fd, struct err *err)
{
	AUTO(temp_remove) char *path = NULL;
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	/* Some file systems have no unnamed files. */
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
		return temp_create(dir, 0600, &path, ret_fd, err);
	if (fd < 0)
		return err_os(err, errno, "%s", dir);
	*ret_fd = fd;
	return 0;
}
