/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up a request in the cache folder: a file, a negative entry, or nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "client/internal.h"

#define HEADERS_MAX KIB(64)

void hit_done(struct cache_hit *h)
{
	fd_close(&h->fd);
	free(h->path);
	free(h->headers);
	*h = (struct cache_hit){ .fd = -1 };
}

void lookup_touch(int fd)
{
	struct timespec t[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } };
	int keep = errno;

	/* Best effort: in a shared folder the file may be another user's. */
	(void)!futimens(fd, t);
	errno = keep;
}

/* The headers saved beside the file, up to their NUL. */
static char *hit_read_headers(const struct folder *f, const struct cache_entry *e)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s/hdr-%s", f->path, e->id, e->names[0]);
	AUTO(buf_done) struct buf b = { 0 };

	if (file_read(path, HEADERS_MAX, &b, NULL) != 0 || b.size == 0)
		return NULL;
	return mem_strdup(buf_cstr(&b));
}

static bool absent_is_fresh(const struct folder *f, const struct stat *st)
{
	return folder_time_is_fresh(st->st_mtime, folder_control(f, CONTROL_MISS, USUAL_MISS_S, NULL));
}

static enum lookup lookup_name(const struct folder *f, const struct cache_entry *e, size_t i,
			       struct cache_hit *ret)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s/%s", f->path, e->id, e->names[i]);
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0) {
		/* Entries of old clients had mode 0: no client can use them. */
		if (errno == EACCES && lstat(path, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_mode & 0777) &&
		    st.st_uid == geteuid())
			unlink(path);
		return LOOKUP_MISS;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return LOOKUP_MISS;
	if (st.st_size == 0) {
		if (absent_is_fresh(f, &st))
			return LOOKUP_ABSENT;
		/* If another client has put a file there since, it is fetched again: no harm. */
		if (!f->read_only)
			unlink(path);
		return LOOKUP_MISS;
	}
	/* Updating it at every hit would cost more than the rest of the hit. Cleaning allows for this. */
	if (clock_wall_s() - st.st_atime >= YOUNG_S || clock_wall_s() < st.st_atime)
		lookup_touch(fd);
	*ret = (struct cache_hit){ TAKE_FD(fd), TAKE(path), (uint64_t)st.st_size, hit_read_headers(f, e) };
	return LOOKUP_HIT;
}

enum lookup lookup(const struct folder *f, const struct cache_entry *e, struct cache_hit *ret)
{
	enum lookup best = LOOKUP_MISS;

	for (size_t i = 0; f->path && i < ENTRY_NAMES && e->names[i]; i++) {
		enum lookup l = lookup_name(f, e, i, ret);

		if (l == LOOKUP_HIT)
			return l;
		if (l == LOOKUP_ABSENT)
			best = l;
	}
	return best;
}

void lookup_note_absent(const struct folder *f, const struct cache_entry *e)
{
	AUTO(mem_freep) char *dir = NULL;

	if (!f->path || f->read_only)
		return;
	dir = mem_printf("%s/%s", f->path, e->id);
	(void)!mkdir(dir, 0700);
	for (size_t i = 0; i < ENTRY_NAMES && e->names[i]; i++) {
		AUTO(mem_freep) char *path = mem_printf("%s/%s", dir, e->names[i]);
		AUTO(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

		(void)fd;
	}
}
