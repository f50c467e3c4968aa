/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part common to all streams: counting, lending, skipping, closing.
 */
#include "io/io.h"

#include <assert.h>
#include <stdlib.h>

#define LENT_SIZE KIB(64)

int stream_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	size_t got = 0;

	assert(n > 0);
	if (s->ops->read(s, buf, n, &got, err) < 0)
		return -1;
	assert(got <= n);
	s->off += got;
	*ret_got = got;
	return 0;
}

int stream_next(struct stream *s, size_t max, struct bytes *ret, struct err *err)
{
	struct bytes b = { 0 };

	assert(max > 0);
	if (s->ops->next) {
		if (s->ops->next(s, max, &b, err) < 0)
			return -1;
		assert(b.size <= max);
		s->off += b.size;
		*ret = b;
		return 0;
	}
	if (!s->lent)
		s->lent = mem_alloc(LENT_SIZE);
	b.p = s->lent;
	if (stream_read(s, s->lent, MIN(max, LENT_SIZE), &b.size, err) < 0)
		return -1;
	*ret = b;
	return 0;
}

int stream_read_full(struct stream *s, void *buf, size_t n, struct err *err)
{
	size_t done = 0;

	while (done < n) {
		size_t got;

		if (stream_read(s, (char *)buf + done, n - done, &got, err) < 0)
			return -1;
		if (!got)
			return err_set(err, ERR_INVALID, "ends at %llu, wanted %zu bytes more",
				       (unsigned long long)s->off, n - done);
		done += got;
	}
	return 0;
}

/* Skip up to @n bytes; *ret_got 0 is the end. */
static int skip_some(struct stream *s, uint64_t n, uint64_t *ret_got, struct err *err)
{
	struct bytes b;

	if (s->ops->skip) {
		uint64_t got = 0;

		if (s->ops->skip(s, n, &got, err) < 0)
			return -1;
		assert(got <= n);
		s->off += got;
		*ret_got = got;
		return 0;
	}
	if (stream_next(s, (size_t)MIN(n, (uint64_t)SIZE_MAX), &b, err) < 0)
		return -1;
	*ret_got = b.size;
	return 0;
}

int stream_skip(struct stream *s, uint64_t n, struct err *err)
{
	while (n) {
		uint64_t got;

		if (skip_some(s, n, &got, err) < 0)
			return -1;
		if (!got)
			return err_set(err, ERR_INVALID, "ends at %llu, wanted %llu bytes more",
				       (unsigned long long)s->off, (unsigned long long)n);
		n -= got;
	}
	return 0;
}

void stream_close(struct stream *s)
{
	if (!s)
		return;
	free(s->lent);
	s->ops->close(s);
}

void stream_closep(struct stream **s)
{
	stream_close(*s);
	*s = NULL;
}

int stream_each(struct stream *s, int (*fn)(void *arg, struct bytes chunk, struct err *err), void *arg,
		struct err *err)
{
	for (;;) {
		struct bytes b;
		int r;

		if (stream_next(s, SIZE_MAX, &b, err) < 0)
			return -1;
		if (!b.size)
			return 0;
		r = fn(arg, b, err);
		if (r)
			return r;
	}
}
