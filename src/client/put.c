/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a file into the cache folder: written beside its final name, renamed when it is complete. Other
 * processes, and later ones after a crash, find the complete file or none. It is not synced: after a power
 * cut an emptied file looks like a negative entry that is too old to be used.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "client/internal.h"

#define COPY_PIECE MIB(1)
#define ROOM_LEFT  MIB(16) /* left free for others */

static int folder_has_room(const char *path, uint64_t expected, struct err *err)
{
	struct statvfs st;
	uint64_t free_bytes;

	if (!expected || statvfs(path, &st) < 0 || mul_overflows(st.f_bavail, st.f_frsize, &free_bytes) ||
	    expected + ROOM_LEFT <= free_bytes)
		return 0;
	err_os(err, ENOSPC, "%s: %llu MB are needed, %llu MB are free", path,
	       (unsigned long long)expected / 1000000, (unsigned long long)free_bytes / 1000000);
	return -1;
}

static int put_temp_in(struct put *p, const struct folder *f, const char *dir_name, const char *name,
		       uint64_t expected, struct err *err)
{
	AUTO(mem_freep) char *dir = mem_printf("%s/%s", f->path, dir_name);
	AUTO(mem_freep) char *temp = NULL;
	int fd = -1;

	if (folder_has_room(f->path, expected, err) < 0)
		return -1;

	/* Twice: another process may remove the empty folder before the file is created in it. */
	for (int i = 0; i < 2 && fd < 0; i++) {
		mem_freep(&temp);
		temp = mem_printf("%s/%s.XXXXXX", dir, name);
		(void)!mkdir(dir, 0700);
		fd = mkostemp(temp, O_CLOEXEC);
	}
	if (fd < 0)
		return err_os(err, errno, "%s", dir);
	free(p->dir);
	free(p->temp);
	p->dir = TAKE(dir);
	p->temp = TAKE(temp);
	p->fd = fd;
	return 0;
}

/* The folder has no room, or may not be written to: another folder may do. */
static bool another_may_do(int os)
{
	return os == ENOSPC || os == EDQUOT || os == EROFS || os == EACCES || os == EPERM || os == EFBIG ||
	       os == ENOTDIR || os == ENOENT || os == EMLINK;
}

static int put_spare_in(struct put *p, const char *dir_name, const char *name, uint64_t expected,
			const struct err *first, struct err *err)
{
	struct folder *spare = p->spare;
	struct err why = { 0 };

	p->spare = NULL;
	if (!spare || (!spare->path && !folder_open_spare(spare, true)) ||
	    put_temp_in(p, spare, dir_name, name, expected, &why) < 0) {
		/* A lack of room may be that of a claimed size: the caller can try a smaller file. */
		*err = why.os == ENOSPC ? why : *first;
		return -1;
	}
	p->moved = true;
	return 0;
}

int put_begin(struct put *p, struct put_folders to, const char *dir_name, const char *name, uint64_t expected,
	      struct err *err)
{
	const struct folder *f = to.folder;
	struct err first = { 0 };

	*p = (struct put){ .spare = to.spare, .fd = -1 };
	if (f->read_only)
		return put_spare_in(p, dir_name, name, expected, &f->read_only_why, err);
	if (put_temp_in(p, f, dir_name, name, expected, &first) == 0)
		return 0;
	if (another_may_do(first.os))
		return put_spare_in(p, dir_name, name, expected, &first, err);
	*err = first;
	return -1;
}

static int put_copy(int from, int to, uint64_t size, struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(COPY_PIECE);
	uint64_t at = 0;
	size_t got;

	for (; at < size; at += got) {
		if (fd_pread(from, piece, MIN(COPY_PIECE, size - at), at, &got, err) < 0)
			return -1;
		if (got == 0) /* a hole was at its end */
			break;
		if (fd_pwrite(to, piece, got, at, err) < 0)
			return -1;
	}
	return 0;
}

/* The folder is full: copy the bytes written so far to the spare one. */
static int put_move(struct put *p, const struct err *first, struct err *err)
{
	AUTO(fd_close) int from = TAKE_FD(p->fd);
	AUTO(mem_freep) char *dir = mem_strdup(p->dir), *temp = mem_strdup(p->temp), *name = NULL;
	struct str dir_name = path_basename(str_of(dir)), temp_name = path_basename(str_of(temp));
	AUTO(mem_freep) char *dir_text = mem_strndup(dir_name.p, dir_name.size);
	int r;

	name = mem_strndup(temp_name.p, temp_name.size - strlen(".XXXXXX"));
	r = put_spare_in(p, dir_text, name, 0, first, err);
	if (r == 0)
		r = put_copy(from, p->fd, p->size, err);
	unlink(temp);
	rmdir(dir);
	return r;
}

int put_write(struct put *p, const void *data, size_t n, uint64_t off, struct err *err)
{
	struct err first = { 0 };

	if (fd_pwrite(p->fd, data, n, off, &first) < 0) {
		if (!another_may_do(first.os) || !p->spare) {
			*err = first;
			return err_in(err, "%s", p->temp);
		}
		if (put_move(p, &first, err) < 0 || fd_pwrite(p->fd, data, n, off, err) < 0)
			return -1;
	}
	p->size = MAX(p->size, off + n);
	return 0;
}

int put_restart(struct put *p, struct err *err)
{
	if (ftruncate(p->fd, 0) < 0)
		return err_os(err, errno, "%s", p->temp);
	p->size = 0;
	return 0;
}

static void save_headers(const struct put *p, const struct cache_entry *e, const char *headers)
{
	AUTO(mem_freep) char *path = mem_printf("%s/hdr-%s", p->dir, e->names[0]);
	AUTO(mem_freep) char *temp = mem_printf("%s.XXXXXX", path);
	AUTO(fd_close) int fd = mkostemp(temp, O_CLOEXEC);

	if (fd < 0)
		return;
	/* With its NUL, as other clients read it. */
	if (fd_write(fd, headers, strlen(headers) + 1, NULL) < 0 || rename(temp, path) < 0)
		unlink(temp);
}

/* elfutils before 0.192 looks for another name. A link costs nothing; without it that client fetches the
 * file. */
static void link_old(const struct put *p, const char *path, const char *name)
{
	AUTO(mem_freep) char *old = mem_printf("%s/%s", p->dir, name);
	struct stat st;

	if (link(path, old) == 0 || errno != EEXIST || stat(old, &st) < 0 || st.st_size > 0)
		return;
	unlink(old); /* it was a negative entry */
	(void)!link(path, old);
}

static int put_rename(struct put *p, const char *path, struct err *err)
{
	if (lseek(p->fd, 0, SEEK_SET) < 0)
		return err_os(err, errno, "%s", p->temp);
	/* Read-only, against changes by mistake. Best effort. */
	(void)!fchmod(p->fd, 0400);
	if (rename(p->temp, path) < 0)
		return err_os(err, errno, "%s: rename", path);
	mem_freep(&p->temp);
	return 0;
}

int put_commit(struct put *p, const struct cache_entry *e, int64_t mtime, const char *headers,
	       char **ret_path, struct err *err)
{
	struct timespec t[2] = { { .tv_nsec = UTIME_NOW },
				 { .tv_sec = mtime, .tv_nsec = mtime ? 0 : UTIME_NOW } };
	AUTO(mem_freep) char *path = mem_printf("%s/%s", p->dir, e->names[0]);

	(void)!futimens(p->fd, t);
	if (put_rename(p, path, err) < 0)
		return -1;
	if (e->names[1])
		link_old(p, path, e->names[1]);
	if (headers && *headers)
		save_headers(p, e, headers);
	*ret_path = TAKE(path);
	return 0;
}

int put_commit_plain(struct put *p, const char *name, char **ret_path, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", p->dir, name);

	if (put_rename(p, path, err) < 0)
		return -1;
	*ret_path = TAKE(path);
	return 0;
}

void put_done(struct put *p)
{
	fd_close(&p->fd);
	if (p->temp) {
		unlink(p->temp);
		rmdir(p->dir); /* if it is empty */
	}
	free(p->temp);
	free(p->dir);
	*p = (struct put){ .fd = -1 };
}
