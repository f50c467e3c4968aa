/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream over a coder: it reads compressed bytes, passes them to the coder, and continues with the next
 * member. Zeros between and after members are allowed, for all codecs.
 */
#include "codec/internal.h"

#include <stdlib.h>

/* Bytes that next() decodes at once: enough to make the cost of the calls negligible, few enough to stay in
 * the L2 cache. */
#define LEND_SIZE CODEC_CHUNK

struct filter_stream {
	struct stream base;
	struct stream *raw;  /* owned */
	struct coder *coder; /* owned */
	struct bytes in;     /* fetched, not yet decoded; lent by raw */
	bool in_ended;       /* raw has no more */
	bool between;        /* a member has ended and no other has started */
	bool ended;
	uint8_t *lend;    /* LEND_SIZE; NULL until needed */
	size_t pos, have; /* the undelivered part: [pos, have) */
};

static uint64_t filter_at(const struct filter_stream *f)
{
	return f->raw->off - f->in.size;
}

static int filter_fetch(struct filter_stream *f, struct err *err)
{
	if (f->in.size || f->in_ended)
		return 0;
	if (stream_next(f->raw, SIZE_MAX, &f->in, err) < 0)
		return -1;
	f->in_ended = !f->in.size;
	return 0;
}

/* After a member: skip zeros up to the next one, or to the end. */
static int filter_between(struct filter_stream *f, struct err *err)
{
	while (f->in.size && !*f->in.p) {
		f->in.p++;
		f->in.size--;
	}
	if (!f->in.size) {
		f->ended = f->in_ended;
		return 0;
	}
	if (!f->coder->ops->restart)
		return err_set(err, ERR_INVALID, "unknown bytes after the end, at %llu",
			       (unsigned long long)filter_at(f));
	f->between = false;
	return f->coder->ops->restart(f->coder, err);
}

/* At least one byte into @out, unless it is the end. */
static int filter_decode(struct filter_stream *f, uint8_t *out, size_t room, size_t *ret_got, struct err *err)
{
	size_t got = 0;

	while (!got && !f->ended) {
		size_t before;
		int r;

		if (filter_fetch(f, err) < 0)
			return -1;
		if (f->between) {
			if (filter_between(f, err) < 0)
				return -1;
			continue;
		}
		before = f->in.size;
		r = f->coder->ops->step(f->coder, &f->in, out, room, &got, err);
		if (r < 0)
			return err_in(err, "near byte %llu", (unsigned long long)filter_at(f));
		f->between = r == CODER_END;
		if (r || got || f->in.size < before)
			continue;
		if (!f->in_ended)
			return err_set(err, ERR_INTERNAL, "decoder is stuck at %llu",
				       (unsigned long long)filter_at(f));
		return err_set(err, ERR_INVALID, "ends early, after %llu bytes",
			       (unsigned long long)f->raw->off);
	}
	*ret_got = got;
	return 0;
}

static int filter_read(struct stream *base, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct filter_stream *f = CONTAINER_OF(base, struct filter_stream, base);

	if (f->pos == f->have)
		return filter_decode(f, buf, n, ret_got, err);
	n = MIN(n, f->have - f->pos);
	memcpy(buf, f->lend + f->pos, n);
	f->pos += n;
	*ret_got = n;
	return 0;
}

static int filter_next(struct stream *base, size_t max, struct bytes *ret, struct err *err)
{
	struct filter_stream *f = CONTAINER_OF(base, struct filter_stream, base);
	size_t n;

	if (f->pos == f->have) {
		if (!f->lend)
			f->lend = mem_alloc(LEND_SIZE);
		f->pos = f->have = 0;
		if (filter_decode(f, f->lend, LEND_SIZE, &f->have, err) < 0)
			return -1;
	}
	n = MIN(max, f->have - f->pos);
	*ret = bytes_of(f->lend + f->pos, n);
	f->pos += n;
	return 0;
}

static void filter_close(struct stream *base)
{
	struct filter_stream *f = CONTAINER_OF(base, struct filter_stream, base);

	stream_close(f->raw);
	f->coder->ops->close(f->coder);
	free(f->lend);
	free(f);
}

static const struct stream_ops filter_ops = {
	.read = filter_read,
	.next = filter_next,
	.close = filter_close,
};

struct stream *filter_new(struct stream *raw, struct coder *c)
{
	struct filter_stream *f = NEW(struct filter_stream);

	f->base.ops = &filter_ops;
	f->raw = raw;
	f->coder = c;
	return &f->base;
}
