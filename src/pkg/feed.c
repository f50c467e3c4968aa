/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A feed: the chunks that a stream lends, looked at as headers and content. Content is never copied; a header
 * is only where it lies across two chunks.
 */
#include "pkg/internal.h"

/* What is asked for at once; a stream that decodes into its own buffer lends what it has. */
#define CHUNK_MAX MIB(1)
#define SIP_SIZE  KIB(4)

void feed_init(struct feed *f, struct stream *s)
{
	*f = (struct feed){ .s = s };
}

void feed_done(struct feed *f)
{
	mem_freep(&f->sip);
}

void feed_sip(struct feed *f)
{
	if (!f->sip)
		f->sip = mem_alloc(SIP_SIZE);
}

static int fill(struct feed *f, struct err *err)
{
	if (f->limit && f->off > f->limit)
		return err_set(err, ERR_LIMIT, "over %llu bytes", (unsigned long long)f->limit);
	f->left = (struct bytes){ 0 };
	if (f->sip) {
		if (stream_read(f->s, f->sip, SIP_SIZE, &f->left.size, err) < 0)
			return -1;
		f->left.p = f->sip;
	} else if (stream_next(f->s, CHUNK_MAX, &f->left, err) < 0) {
		f->left = (struct bytes){ 0 };
		return -1;
	}
	return f->left.size ? 0 : FEED_END;
}

static void used(struct feed *f, size_t n)
{
	f->left.p += n;
	f->left.size -= n;
	f->off += n;
	if (!f->left.size) {
		f->left = f->lent;
		f->lent = (struct bytes){ 0 };
	}
}

static int ends_early(const struct feed *f, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s ends early, at %llu", what, (unsigned long long)f->off);
}

static int read_some(struct feed *f, uint8_t *buf, size_t n, size_t *ret_got, struct err *err)
{
	size_t got = 0;
	int r;

	while (got < n) {
		if (!f->left.size) {
			r = fill(f, err);
			if (r < 0)
				return r;
			if (r == FEED_END)
				break;
		}
		size_t chunk = MIN(n - got, f->left.size);

		memcpy(buf + got, f->left.p, chunk);
		used(f, chunk);
		got += chunk;
	}
	*ret_got = got;
	return 0;
}

int feed_block(struct feed *f, size_t n, const char *what, const uint8_t **ret, struct err *err)
{
	size_t got;
	int r;

	if (!f->left.size) {
		r = fill(f, err);
		if (r != 0)
			return r;
	}
	if (f->left.size >= n) {
		*ret = f->left.p;
		used(f, n);
		return 0;
	}
	if (read_some(f, f->block, n, &got, err) < 0)
		return -1;
	if (got < n)
		return ends_early(f, what, err);
	*ret = f->block;
	return 0;
}

int feed_peek(struct feed *f, size_t n, struct bytes *ret, struct err *err)
{
	size_t got;

	if (!f->left.size && fill(f, err) < 0)
		return -1;
	if (f->left.size < n) {
		uint64_t off = f->off;

		if (read_some(f, f->block, n, &got, err) < 0)
			return -1;
		memcpy(f->peeked, f->block, got);
		f->lent = f->left;
		f->left = bytes_of(f->peeked, got);
		f->off = off;
	}
	*ret = bytes_of(f->left.p, MIN(n, f->left.size));
	return 0;
}

int feed_read(struct feed *f, void *buf, size_t n, const char *what, struct err *err)
{
	size_t got;

	if (read_some(f, buf, n, &got, err) < 0)
		return -1;
	return got < n ? ends_early(f, what, err) : 0;
}

int feed_chunk(struct feed *f, uint64_t max, struct bytes *ret, struct err *err)
{
	if (!f->left.size) {
		int r = fill(f, err);

		if (r < 0)
			return r;
	}
	*ret = bytes_of(f->left.p, (size_t)MIN(max, (uint64_t)f->left.size));
	used(f, ret->size);
	return 0;
}

int feed_skip(struct feed *f, uint64_t n, const char *what, struct err *err)
{
	uint64_t end;

	while (n && f->left.size) {
		size_t here = (size_t)MIN(n, (uint64_t)f->left.size);

		used(f, here);
		n -= here;
	}
	if (n == 0)
		return 0;
	if (add_overflows(f->off, n, &end) || (f->limit && end > f->limit))
		return err_set(err, ERR_LIMIT, "%s of %llu bytes is too long", what, (unsigned long long)n);
	if (stream_skip(f->s, n, err) < 0)
		return err_in(err, "%s", what);
	f->off = end;
	return 0;
}

int feed_drain(struct feed *f, struct err *err)
{
	int r = 0;

	while (r == 0) {
		while (f->left.size)
			used(f, f->left.size);
		r = fill(f, err);
	}
	return r < 0 ? r : 0;
}
