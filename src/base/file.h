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

enum { FILE_MISSING = 1, FILE_OUTSIDE = 2 };

/* Opens with O_RDONLY|O_CLOEXEC|O_NONBLOCK (FIFOs), and accepts only a regular file. 0, FILE_MISSING (ENOENT,
 * ENOTDIR) or an error. */
int file_open(const char *path, int *ret_fd, struct stat *ret_st, struct err *err);
/*
 * As file_open(), for a path from others: its symbolic links and ".." are resolved, and the file that they lead to
 * must be below one of the folders @roots, or be one of @roots itself; else FILE_OUTSIDE. The file that is
 * opened is the one that was checked, even if the path changes meanwhile. A special file is not opened.
 */
int file_open_below(const char *path, const char *const *roots, size_t n_roots, int *ret_fd,
		    struct stat *ret_st, struct err *err);
/* Bytes of an open file, which is borrowed. */
struct file_range {
	int fd;
	uint64_t off, size;
};
/* When the bytes last changed, in ns since 1970. */
int64_t file_mtime_ns(const struct stat *st);
/* These read or write until @n bytes or, reading, the end of the file: short reads and EINTR are handled. */
int fd_pread(int fd, void *buf, size_t n, uint64_t off, size_t *ret_got, struct err *err);
int fd_write(int fd, const void *buf, size_t n, struct err *err);
int fd_pwrite(int fd, const void *buf, size_t n, uint64_t off, struct err *err);
/* The whole file, at most @max bytes (more: ERR_LIMIT). FILE_MISSING as above. */
int file_read(const char *path, size_t max, struct buf *ret, struct err *err);
/*
 * Replace @path durably: write a temporary file in the same folder, sync it, rename it, sync the folder.
 * @mode is subject to the umask, as in open(2). A process that is killed leaves a file whose name begins with
 * FILE_TEMP_PREFIX: the owner of the folder removes these when it starts.
 */
#define FILE_TEMP_PREFIX ".lode-tmp-"
int file_write_durable(const char *path, const void *p, size_t n, mode_t mode, struct err *err);
/* Write a file that a user named: a device or a pipe is written to, a regular file is replaced. */
int file_write_named(const char *path, const void *p, size_t n, mode_t mode, struct err *err);
/*
 * The same in pieces: file_temp_open() creates the temporary file with exactly @mode; file_temp_commit()
 * syncs, renames, syncs the folder. A file that is not committed is removed. ERR_INVALID: @path exists and is
 * not a regular file.
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
/*
 * What root makes in another user's folder, as in that of a service with a user of its own, gets the owner of the folder: else
 * that user could not read it. Others cannot give files away: for them nothing is done. @path: of the file.
 */
int file_own_as_folder(int fd, const char *path, struct err *err);
const char *file_temp_dir(void); /* $TMPDIR, or /var/tmp: for large files */
/* A file in @dir without a name, which ends with its descriptor; for reading and writing. */
int file_unnamed(const char *dir, int *ret_fd, struct err *err);
/* The real path of an open file, in @ret, of PATH_MAX bytes. false: it cannot be had. */
bool fd_path(int fd, char *ret);
int dir_make(const char *path, mode_t mode,
	     struct err *err);    /* durably, with its parents; an existing folder is fine */
char *file_dir(const char *path); /* its folder; heap */
int dir_sync(const char *path, struct err *err);
int dir_sync_of(const char *path, struct err *err); /* the folder of this file */

/* A file mapped read-only. Only for our own files: if others truncate it, a read raises SIGBUS. */
struct mapping {
	struct bytes bytes;
};
int mapping_open(const char *path, struct mapping *ret, struct err *err); /* FILE_MISSING as above */
void mapping_done(struct mapping *m);
