/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part common to all sources: bounds, whole reads, closing. The implementations are in source_*.c.
 */
#include "io/io.h"

#include <assert.h>
#include <stdlib.h>

void source_init(struct source *s, const struct source_ops *ops, uint64_t size, int64_t mtime,
		 const char *name)
{
	*s = (struct source){
		.ops = ops, .size = size, .mtime = mtime, .name = mem_strdup(name ? name : "?")
	};
}

void source_fini(struct source *s)
{
	mem_freep(&s->name);
}

int source_read(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint, size_t *ret_got,
		struct err *err)
{
	size_t want = off < s->size ? (size_t)MIN((uint64_t)n, s->size - off) : 0;
	size_t done = 0;

	while (done < want) {
		size_t got = 0;

		if (s->ops->read(s, off + done, (char *)buf + done, want - done, hint, &got, err) < 0)
			return -1;
		assert(got <= want - done);
		if (!got)
			return err_set(err, ERR_INTERNAL, "read at %llu gave nothing",
				       (unsigned long long)(off + done));
		done += got;
	}
	*ret_got = done;
	return 0;
}

int source_read_full(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint,
		     struct err *err)
{
	size_t got;

	if (off > s->size || n > s->size - off)
		return err_set(err, ERR_INVALID, "ends at %llu, wanted %zu bytes at %llu",
			       (unsigned long long)s->size, n, (unsigned long long)off);
	return source_read(s, off, buf, n, hint, &got, err);
}

int source_read_arena(struct source *s, struct byte_range range, size_t max, struct arena *a,
		      struct bytes *ret, struct err *err)
{
	unsigned long long off = range.off, size = range.size;
	uint8_t *p;

	/* The end is checked before the limit: for a damaged size "ends at" is the better message. */
	if (off > s->size || size > s->size - off)
		return err_set(err, ERR_INVALID, "ends at %llu, wanted %llu bytes at %llu",
			       (unsigned long long)s->size, size, off);
	if (size > max)
		return err_set(err, ERR_LIMIT, "%llu bytes at %llu are more than the %zu allowed", size, off,
			       max);
	p = arena_try_err(a, (size_t)size, err);
	if (!p)
		return -1;
	if (source_read_full(s, off, p, (size_t)size, SOURCE_RANDOM, err) < 0)
		return -1;
	*ret = bytes_of(p, (size_t)size);
	return 0;
}

bool source_raw_fd(struct source *s, int *ret_fd, uint64_t *ret_off)
{
	return s->ops->raw_fd && s->ops->raw_fd(s, ret_fd, ret_off);
}

const uint8_t *source_raw_mem(struct source *s)
{
	return s->ops->raw_mem ? s->ops->raw_mem(s) : NULL;
}

void source_expect(struct source *s, struct byte_range range)
{
	if (!s->ops->expect || range.off >= s->size || !range.size)
		return;
	range.size = MIN(range.size, s->size - range.off);
	s->ops->expect(s, range);
}

void source_distrust(struct source *s)
{
	if (s->ops->distrust)
		s->ops->distrust(s);
}

void source_pass(struct source *s)
{
	if (s->ops->pass)
		s->ops->pass(s);
}

void source_close(struct source *s)
{
	if (s)
		s->ops->close(s);
}

void source_closep(struct source **s)
{
	source_close(*s);
	*s = NULL;
}
