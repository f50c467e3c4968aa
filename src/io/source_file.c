/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source over a descriptor, read by pread(). The file is not mapped: if another process truncated it,
 * access would raise SIGBUS.
 */
#include "io/io.h"

#include <fcntl.h>
#include <stdlib.h>

struct file_source {
	struct source base;
	int fd;
	bool advised; /* POSIX_FADV_SEQUENTIAL was given */
};

static int file_source_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
			    size_t *ret_got, struct err *err)
{
	struct file_source *s = CONTAINER_OF(base, struct file_source, base);
	size_t got;

	if (hint == SOURCE_SEQUENTIAL && !s->advised) {
		posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
		s->advised = true;
	}
	if (fd_pread(s->fd, buf, n, off, &got, err) < 0)
		return -1;
	if (got < n)
		return err_set(err, ERR_CHANGED, "shrank while it was read: ends at %llu, was %llu bytes",
			       (unsigned long long)(off + got), (unsigned long long)base->size);
	*ret_got = got;
	return 0;
}

static void file_source_close(struct source *base)
{
	struct file_source *s = CONTAINER_OF(base, struct file_source, base);

	fd_close(&s->fd);
	source_fini(base);
	free(s);
}

static bool file_source_raw_fd(struct source *base, int *ret_fd, uint64_t *ret_off)
{
	struct file_source *s = CONTAINER_OF(base, struct file_source, base);

	*ret_fd = s->fd;
	*ret_off = 0;
	return true;
}

static const struct source_ops file_source_ops = {
	.read = file_source_read,
	.close = file_source_close,
	.raw_fd = file_source_raw_fd,
};

struct source *source_of_fd(int fd, uint64_t size, int64_t mtime, const char *name)
{
	struct file_source *s = NEW(struct file_source);

	source_init(&s->base, &file_source_ops, size, mtime, name);
	s->fd = fd;
	return &s->base;
}

int source_open_file(const char *path, struct source **ret, struct err *err)
{
	struct stat st;
	int fd, r;

	r = file_open(path, &fd, &st, err);
	if (r)
		return r;
	*ret = source_of_fd(fd, (uint64_t)st.st_size, st.st_mtime, path);
	return 0;
}
