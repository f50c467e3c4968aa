/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors and files.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/err.h"

void fd_close(int *fd); /* AUTO(fd_close) int fd = -1; keeps errno */
#define TAKE_FD(fd)                  \
	({                           \
		int take_fd_ = (fd); \
		(fd) = -1;           \
		take_fd_;            \
	})

enum { FILE_MISSING = 1 };

/* O_RDONLY|O_CLOEXEC|O_NONBLOCK against FIFOs, then only a regular file is taken. 0, FILE_MISSING (ENOENT,
 * ENOTDIR) or an error. */
int file_open(const char *path, int *ret_fd, struct stat *ret_st, struct err *err);
/* Reads until @n bytes or the end; short reads and EINTR are seen to. */
int fd_pread(int fd, void *buf, size_t n, uint64_t off, size_t *ret_got, struct err *err);
int fd_write(int fd, const void *buf, size_t n, struct err *err);
int fd_pwrite(int fd, const void *buf, size_t n, uint64_t off, struct err *err);
/* The whole file, at most @max bytes (more: ERR_LIMIT). FILE_MISSING as above. */
int file_read(const char *path, size_t max, struct buf *ret, struct err *err);
/*
 * Written aside in the same folder, synced, renamed, folder synced: after 0 the new content is there, and
 * durable. @mode is that of open(2), so the umask takes from it. A process that is killed leaves a file of a
 * name that begins with FILE_TEMP_PREFIX behind: the owner of the folder removes these when it starts.
 */
#define FILE_TEMP_PREFIX ".lode-tmp-"
int file_write_durable(const char *path, const void *p, size_t n, mode_t mode, struct err *err);
/* What a user named: a device or a pipe is written to; only a file is put in the place of another. */
int file_write_named(const char *path, const void *p, size_t n, mode_t mode, struct err *err);
/*
 * The same for what is written piece by piece: file_temp_open() makes the file aside, with exactly this mode;
 * file_temp_commit() syncs, renames, syncs the folder. One that is not committed is removed. ERR_INVALID: at
 * @path is something else than a file.
 */
struct file_temp {
	int fd; /* for reading and writing */
	char *temp, *path;
};
int file_temp_open(const char *path, mode_t mode, struct file_temp *ret, struct err *err);
int file_temp_commit(struct file_temp *t, struct err *err);
void file_temp_done(struct file_temp *t); /* AUTO(file_temp_done) struct file_temp t = FILE_TEMP_NONE; */
#define FILE_TEMP_NONE   \
	{                \
		.fd = -1 \
	}
const char *file_temp_dir(void); /* $TMPDIR, or /var/tmp: for what may be large */
/* A file in @dir that has no name and goes with its descriptor; for reading and writing. */
int file_unnamed(const char *dir, int *ret_fd, struct err *err);
int dir_make(const char *path, mode_t mode, struct err *err); /* with its parents; an existing one is fine */
int dir_sync(const char *path, struct err *err);

/* A file mapped read-only. Not for files that others may truncate (SIGBUS): only for our own. */
struct mapping {
	struct bytes bytes;
};
int mapping_open(const char *path, struct mapping *ret, struct err *err); /* FILE_MISSING as above */
void mapping_done(struct mapping *m);
