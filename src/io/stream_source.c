/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream over a source. Small reads are served from a buffer that large reads fill; large reads bypass it;
 * bytes in memory are lent without a copy. Skipping moves the position and reads nothing.
 */
#include "io/io.h"

#include <stdlib.h>

#define CHUNK_SIZE KIB(128)

struct source_stream {
	struct stream base;
	struct source *src;
	bool owns;        /* src */
	uint64_t at;      /* in src: the next byte to read; the buffer holds bytes before it */
	uint64_t end;     /* in src: where the range ends */
	uint8_t *chunk;   /* CHUNK_SIZE bytes; NULL until needed */
	size_t pos, have; /* the unread part of the chunk: [pos, have) */
};

/* The bytes that can be read from `at` on: the source may end before the range does. */
static uint64_t source_stream_left(const struct source_stream *s)
{
	uint64_t end = MIN(s->end, s->src->size);

	return s->at < end ? end - s->at : 0;
}

/* The next up to @n bytes of the source, at least one before the end. */
static int source_stream_fetch(struct source_stream *s, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	size_t want = (size_t)MIN((uint64_t)n, source_stream_left(s));

	if (!want && s->at < s->end)
		return err_set(err, ERR_INVALID, "ends at %llu, wanted %llu bytes more",
			       (unsigned long long)s->src->size, (unsigned long long)(s->end - s->at));
	if (source_read_full(s->src, s->at, buf, want, SOURCE_SEQUENTIAL, err) < 0)
		return -1;
	s->at += want;
	*ret_got = want;
	return 0;
}

static int source_stream_fill(struct source_stream *s, struct err *err)
{
	if (s->pos < s->have)
		return 0;
	if (!s->chunk)
		s->chunk = mem_alloc(CHUNK_SIZE);
	s->pos = s->have = 0;
	return source_stream_fetch(s, s->chunk, CHUNK_SIZE, &s->have, err);
}

static int source_stream_read(struct stream *base, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct source_stream *s = CONTAINER_OF(base, struct source_stream, base);

	if (s->pos == s->have && n >= CHUNK_SIZE)
		return source_stream_fetch(s, buf, n, ret_got, err);
	if (source_stream_fill(s, err) < 0)
		return -1;
	n = MIN(n, s->have - s->pos);
	memcpy(buf, s->chunk + s->pos, n);
	s->pos += n;
	*ret_got = n;
	return 0;
}

static int source_stream_next(struct stream *base, size_t max, struct bytes *ret, struct err *err)
{
	struct source_stream *s = CONTAINER_OF(base, struct source_stream, base);
	const uint8_t *mem = source_raw_mem(s->src);
	size_t n;

	if (mem && s->pos == s->have && source_stream_left(s)) {
		n = (size_t)MIN((uint64_t)max, source_stream_left(s));
		*ret = bytes_of(mem + s->at, n);
		s->at += n;
		return 0;
	}
	if (source_stream_fill(s, err) < 0)
		return -1;
	n = MIN(max, s->have - s->pos);
	*ret = bytes_of(s->chunk + s->pos, n);
	s->pos += n;
	return 0;
}

static int source_stream_skip(struct stream *base, uint64_t n, uint64_t *ret_got, struct err *err)
{
	struct source_stream *s = CONTAINER_OF(base, struct source_stream, base);
	uint64_t held = s->have - s->pos;
	uint64_t got = MIN(n, held + source_stream_left(s));

	if (got <= held) {
		s->pos += (size_t)got;
	} else {
		s->at += got - held;
		s->pos = s->have = 0;
	}
	*ret_got = got;
	return 0;
}

static void source_stream_close(struct stream *base)
{
	struct source_stream *s = CONTAINER_OF(base, struct source_stream, base);

	if (s->owns)
		source_close(s->src);
	free(s->chunk);
	free(s);
}

static const struct stream_ops source_stream_ops = {
	.read = source_stream_read,
	.next = source_stream_next,
	.skip = source_stream_skip,
	.close = source_stream_close,
};

struct stream *stream_of_source(struct source *src, bool takes, uint64_t off, uint64_t size)
{
	struct source_stream *s = NEW(struct source_stream);

	s->base.ops = &source_stream_ops;
	s->src = src;
	s->owns = takes;
	s->at = off;
	/* A range past the end of the source is not refused here: the read that reaches the end fails. */
	s->end = size > UINT64_MAX - off ? UINT64_MAX : off + size;
	return &s->base;
}
