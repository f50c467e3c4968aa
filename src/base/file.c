/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors and files: safe opening, complete reads and writes, folders, mappings. Durable writes are in
 * file_write.c.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/mem.h"

void fd_close(int *fd)
{
	int err_no = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = err_no;
}

int file_open(const char *path, int *ret_fd, struct stat *ret_st, struct err *err)
{
	/* O_NONBLOCK: open() would wait for ever for a FIFO without a writer. It has no effect on a regular
	 * file. */
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return FILE_MISSING;
	if (fd < 0 && errno == ENXIO) /* a socket, or a device that does not exist */
		return err_set(err, ERR_INVALID, "%s: not a regular file", path);
	if (fd < 0)
		return err_os(err, errno, "%s: open", path);
	if (fstat(fd, &st) < 0)
		return err_os(err, errno, "%s: stat", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s: not a regular file", path);
	*ret_fd = TAKE_FD(fd);
	*ret_st = st;
	return 0;
}

bool fd_path(int fd, char *ret)
{
	char link[40];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret, PATH_MAX - 1);
	if (n >= 0)
		ret[n] = '\0';
	return n >= 0;
}

static bool is_below(const char *path, const char *root)
{
	AUTO(mem_freep) char *real = realpath(root, NULL);
	size_t n = real ? strlen(real) : 0;

	/* The root folder's path ends in a slash, that of others does not. */
	if (n && real[n - 1] == '/')
		n--;
	return real && strncmp(path, real, n) == 0 && (path[n] == '/' || !path[n]);
}

int file_open_below(const char *path, const char *const *roots, size_t n_roots, int *ret_fd,
		    struct stat *ret_st, struct err *err)
{
	/* With O_PATH nothing is read and no device notices, and the descriptor is the file itself: later
	 * changes of the path do not matter. */
	AUTO(fd_close) int at = open(path, O_PATH | O_CLOEXEC), fd = -1;
	char real[PATH_MAX];
	bool below = false;
	struct stat st;

	if (at < 0 && (errno == ENOENT || errno == ENOTDIR))
		return FILE_MISSING;
	if (at < 0 || fstat(at, &st) < 0)
		return err_os(err, errno, "%s: open", path);
	if (!fd_path(at, real))
		return err_os(err, errno, "%s: its real path in /proc", path);
	for (size_t i = 0; i < n_roots && !below; i++)
		below = is_below(real, roots[i]);
	if (!below)
		return FILE_OUTSIDE;
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s: not a regular file", path);
	snprintf(real, sizeof(real), "/proc/self/fd/%d", at);
	fd = open(real, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_os(err, errno, "%s: open", path);
	*ret_fd = TAKE_FD(fd);
	*ret_st = st;
	return 0;
}

int64_t file_mtime_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

int fd_pread(int fd, void *buf, size_t n, uint64_t off, size_t *ret_got, struct err *err)
{
	size_t got = 0;

	if (off > INT64_MAX - MIN(n, (size_t)INT64_MAX))
		return err_os(err, EOVERFLOW, "read at %llu", (unsigned long long)off);
	while (got < n) {
		ssize_t r = pread(fd, (char *)buf + got, n - got, (off_t)(off + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_os(err, errno, "read at %llu", (unsigned long long)(off + got));
		if (r == 0)
			break;
		got += (size_t)r;
	}
	*ret_got = got;
	return 0;
}

int fd_write(int fd, const void *buf, size_t n, struct err *err)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = write(fd, (const char *)buf + done, n - done);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_os(err, errno, "write");
		done += (size_t)r;
	}
	return 0;
}

int fd_pwrite(int fd, const void *buf, size_t n, uint64_t off, struct err *err)
{
	size_t done = 0;

	if (off > INT64_MAX - MIN(n, (size_t)INT64_MAX))
		return err_os(err, EOVERFLOW, "write at %llu", (unsigned long long)off);
	while (done < n) {
		ssize_t r = pwrite(fd, (const char *)buf + done, n - done, (off_t)(off + done));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_os(err, errno, "write at %llu", (unsigned long long)(off + done));
		done += (size_t)r;
	}
	return 0;
}

int file_read(const char *path, size_t max, struct buf *ret, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(fd_close) int fd = -1;
	struct stat st;
	int r;

	r = file_open(path, &fd, &st, err);
	if (r)
		return r;
	if ((uint64_t)st.st_size > max)
		return err_set(err, ERR_LIMIT, "%s: longer than %zu bytes", path, max);
	/*
	 * The size from stat() is only a first guess: files in /proc and /sys report 0, others grow. The
	 * buffer always has one byte more than is expected or allowed, so that a short read shows the end.
	 */
	for (size_t room = (size_t)st.st_size + 1;; room = MIN(room, max - b.size + 1)) {
		uint8_t *p = buf_try_reserve(&b, room);
		size_t got;

		if (!p)
			return err_os(err, ENOMEM, "%s", path);
		if (fd_pread(fd, p, room, b.size, &got, err) < 0)
			return err_in(err, "%s", path);
		b.size += got;
		if (b.size > max)
			return err_set(err, ERR_LIMIT, "%s: longer than %zu bytes", path, max);
		if (got < room)
			break;
		room = MAX(room, KIB(4));
	}
	buf_done(ret);
	*ret = b;
	b = (struct buf){ 0 };
	return 0;
}

const char *file_temp_dir(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/var/tmp";
}

/*
 * mkdir(), and sync the folder above, so that a synced file in the new folder is not lost with it. A folder above
 * that this user may not open belongs to another one, who has to sync it. Negative with errno.
 */
static int folder_make(const char *path, mode_t mode)
{
	struct err why = { 0 };

	if (mkdir(path, mode) < 0)
		return -1;
	if (dir_sync_of(path, &why) == 0 || (why.os != EIO && why.os != ENOSPC && why.os != EDQUOT))
		return 0;
	rmdir(path);
	errno = why.os;
	return -1;
}

int dir_make(const char *path, mode_t mode, struct err *err)
{
	AUTO(mem_freep) char *part = mem_strdup(path);
	struct stat st;
	int why;

	/* Create each parent in turn: the path is cut at every slash that ends a name. */
	for (char *p = part; *p; p++) {
		if (*p != '/' || p == part || p[-1] == '/')
			continue;
		*p = '\0';
		/* For an existing folder on a read-only or foreign file system, mkdir() may fail with another
		 * errno than EEXIST. */
		if (folder_make(part, mode) < 0 && errno != EEXIST) {
			why = errno;
			if (stat(part, &st) < 0)
				return err_os(err, why, "%s: mkdir", part);
		}
		*p = '/';
	}
	if (folder_make(path, mode) == 0)
		return 0;
	why = errno;
	if (stat(path, &st) < 0)
		return err_os(err, why, "%s: mkdir", path);
	return S_ISDIR(st.st_mode) ? 0 : err_os(err, ENOTDIR, "%s", path);
}

char *file_dir(const char *path)
{
	struct str d = path_dirname(str_of(path));

	return d.size ? mem_strndup(d.p, d.size) : mem_strdup(".");
}

int dir_sync(const char *path, struct err *err)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_os(err, errno, "%s: open", path);
	if (fsync(fd) < 0)
		return err_os(err, errno, "%s: sync", path);
	return 0;
}

int dir_sync_of(const char *path, struct err *err)
{
	AUTO(mem_freep) char *dir = file_dir(path);

	return dir_sync(dir, err);
}

int mapping_open(const char *path, struct mapping *ret, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	struct stat st;
	void *p;
	int r;

	r = file_open(path, &fd, &st, err);
	if (r)
		return r;
	if (st.st_size == 0) { /* mmap() refuses it */
		*ret = (struct mapping){ 0 };
		return 0;
	}
	if ((uint64_t)st.st_size > SIZE_MAX)
		return err_set(err, ERR_LIMIT, "%s: too large to map", path);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_os(err, errno, "%s: map", path);
	ret->bytes = bytes_of(p, (size_t)st.st_size);
	return 0;
}

void mapping_done(struct mapping *m)
{
	if (m->bytes.size)
		munmap((void *)m->bytes.p, m->bytes.size);
	*m = (struct mapping){ 0 };
}
