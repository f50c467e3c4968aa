/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffered reader of headers and content over the chunks that a stream lends. Content is never copied; a
 * header is copied only if it crosses two chunks.
 */
#include "pkg/internal.h"

/* Limit of one request; a stream that decodes into its own buffer lends the bytes in that buffer. */
#define CHUNK_MAX  MIB(1)
#define SMALL_SIZE KIB(4)

void buffered_init(struct buffered_reader *f, struct stream *s)
{
	*f = (struct buffered_reader){ .s = s };
}

void buffered_done(struct buffered_reader *f)
{
	mem_freep(&f->small);
}

void buffered_small_steps(struct buffered_reader *f)
{
	if (!f->small)
		f->small = mem_alloc(SMALL_SIZE);
}

static int buffered_fill(struct buffered_reader *f, struct err *err)
{
	if (f->limit && f->off > f->limit)
		return err_set(err, ERR_LIMIT, "over %llu bytes", (unsigned long long)f->limit);
	f->left = (struct bytes){ 0 };
	if (f->small) {
		if (stream_read(f->s, f->small, SMALL_SIZE, &f->left.size, err) < 0)
			return -1;
		f->left.p = f->small;
	} else if (stream_next(f->s, CHUNK_MAX, &f->left, err) < 0) {
		f->left = (struct bytes){ 0 };
		return -1;
	}
	return f->left.size ? 0 : BUFFERED_END;
}

static void buffered_consume(struct buffered_reader *f, size_t n)
{
	f->left.p += n;
	f->left.size -= n;
	f->off += n;
	if (!f->left.size) {
		f->left = f->lent;
		f->lent = (struct bytes){ 0 };
	}
}

static int buffered_ends_early(const struct buffered_reader *f, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s ends early, at %llu", what, (unsigned long long)f->off);
}

static int buffered_copy(struct buffered_reader *f, uint8_t *buf, size_t n, size_t *ret_got, struct err *err)
{
	size_t got = 0;
	int r;

	while (got < n) {
		if (!f->left.size) {
			r = buffered_fill(f, err);
			if (r < 0)
				return r;
			if (r == BUFFERED_END)
				break;
		}
		size_t chunk = MIN(n - got, f->left.size);

		memcpy(buf + got, f->left.p, chunk);
		buffered_consume(f, chunk);
		got += chunk;
	}
	*ret_got = got;
	return 0;
}

int buffered_block(struct buffered_reader *f, size_t n, const char *what, const uint8_t **ret,
		   struct err *err)
{
	size_t got;
	int r;

	if (!f->left.size) {
		r = buffered_fill(f, err);
		if (r != 0)
			return r;
	}
	if (f->left.size >= n) {
		*ret = f->left.p;
		buffered_consume(f, n);
		return 0;
	}
	if (buffered_copy(f, f->block, n, &got, err) < 0)
		return -1;
	if (got < n)
		return buffered_ends_early(f, what, err);
	*ret = f->block;
	return 0;
}

int buffered_peek(struct buffered_reader *f, size_t n, struct bytes *ret, struct err *err)
{
	size_t got;

	if (!f->left.size && buffered_fill(f, err) < 0)
		return -1;
	if (f->left.size < n) {
		uint64_t off = f->off;

		if (buffered_copy(f, f->block, n, &got, err) < 0)
			return -1;
		memcpy(f->peeked, f->block, got);
		f->lent = f->left;
		f->left = bytes_of(f->peeked, got);
		f->off = off;
	}
	*ret = bytes_of(f->left.p, MIN(n, f->left.size));
	return 0;
}

int buffered_read(struct buffered_reader *f, void *buf, size_t n, const char *what, struct err *err)
{
	size_t got;

	if (buffered_copy(f, buf, n, &got, err) < 0)
		return -1;
	return got < n ? buffered_ends_early(f, what, err) : 0;
}

int buffered_chunk(struct buffered_reader *f, uint64_t max, struct bytes *ret, struct err *err)
{
	if (!f->left.size) {
		int r = buffered_fill(f, err);

		if (r < 0)
			return r;
	}
	*ret = bytes_of(f->left.p, (size_t)MIN(max, (uint64_t)f->left.size));
	buffered_consume(f, ret->size);
	return 0;
}

int buffered_skip(struct buffered_reader *f, uint64_t n, const char *what, struct err *err)
{
	uint64_t end;

	while (n && f->left.size) {
		size_t here = (size_t)MIN(n, (uint64_t)f->left.size);

		buffered_consume(f, here);
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

int buffered_drain(struct buffered_reader *f, struct err *err)
{
	int r = 0;

	while (r == 0) {
		while (f->left.size)
			buffered_consume(f, f->left.size);
		r = buffered_fill(f, err);
	}
	return r < 0 ? r : 0;
}
