/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies, over those of libmicrohttpd.
 */
#include "http/conn.h"

#include <stdlib.h>
#include "http/mhd_lazy.h"

/* The buffer that a stream reads into; each reply that streams has one. */
#define STREAM_BLOCK KIB(64)

/* libmicrohttpd returns NULL for wrong arguments, or without memory. */
static struct http_reply *reply_new(enum http_reply_kind kind, uint64_t size, struct MHD_Response *mhd)
{
	struct http_reply *r = NEW(struct http_reply);

	if (!mhd)
		abort();
	atomic_init(&r->n_refs, 1);
	r->kind = kind;
	r->size = size;
	r->mhd = mhd;
	return r;
}

static void free_nothing(void *arg)
{
}

struct http_reply *http_reply_mem(const void *p, size_t size, void (*free_fn)(void *arg), void *arg)
{
	struct http_reply *r = reply_new(REPLY_MEM, size,
					 MHD_create_response_from_buffer_with_free_callback_cls(
						 size, (void *)p, free_fn ? free_fn : free_nothing, arg));

	r->p = p;
	return r;
}

struct http_reply *http_reply_copy(const void *p, size_t size)
{
	uint8_t *copy = mem_alloc(size + 1);

	if (size)
		memcpy(copy, p, size);
	return http_reply_mem(copy, size, free, copy);
}

struct http_reply *http_reply_fd(int fd, uint64_t off, uint64_t size)
{
	struct http_reply *r = reply_new(REPLY_FD, size,
					 MHD_create_response_from_fd_at_offset64(size, fd, off));

	r->fd = fd;
	r->off = off;
	return r;
}

static ssize_t stream_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct http_reply *r = arg;
	ssize_t n = r->read(r->arg, pos, buf, max);

	if (n == HTTP_STREAM_END)
		return MHD_CONTENT_READER_END_OF_STREAM;
	return n == HTTP_STREAM_CUT ? MHD_CONTENT_READER_END_WITH_ERROR : n;
}

/* libmicrohttpd may read from a stream after our last reference to it is gone: its response frees it. */
static void free_streamed(void *arg)
{
	struct http_reply *r = arg;

	buf_done(&r->headers);
	buf_done(&r->trailers);
	free(r);
}

struct http_reply *http_reply_stream(uint64_t size,
				     ssize_t (*read)(void *arg, uint64_t pos, char *buf, size_t max),
				     void *arg)
{
	struct http_reply *r = NEW(struct http_reply);

	atomic_init(&r->n_refs, 1);
	r->kind = REPLY_STREAM;
	r->size = size;
	r->read = read;
	r->arg = arg;
	return r;
}

/* Each pair of a list of "name NUL value NUL". */
static void each_pair(const struct buf *list, void (*fn)(void *arg, const char *name, const char *value),
		      void *arg)
{
	size_t at = 0;

	while (at < list->size) {
		const char *name = (const char *)list->p + at, *value = name + strlen(name) + 1;

		fn(arg, name, value);
		at = (size_t)(value + strlen(value) + 1 - (const char *)list->p);
	}
}

static void put_pair(struct buf *list, const char *name, const char *value)
{
	buf_add(list, name, strlen(name) + 1);
	buf_add(list, value, strlen(value) + 1);
}

static void add_to_response(void *arg, const char *name, const char *value)
{
	MHD_add_response_header(arg, name, value);
}

struct MHD_Response *http_reply_response(struct http_reply *r)
{
	size_t block = (size_t)MAX(MIN(r->size, (uint64_t)STREAM_BLOCK), UINT64_C(1));

	if (r->mhd)
		return r->mhd;
	r->mhd = MHD_create_response_from_callback(r->size == HTTP_SIZE_UNKNOWN ? MHD_SIZE_UNKNOWN : r->size,
						   block, stream_read, r, free_streamed);
	if (!r->mhd)
		abort();
	each_pair(&r->headers, add_to_response, r->mhd);
	return r->mhd;
}

static ssize_t read_nothing(void *arg, uint64_t pos, char *buf, size_t max)
{
	return HTTP_STREAM_CUT;
}

struct http_reply *http_reply_bare(uint64_t size)
{
	struct http_reply *r = http_reply_stream(size, read_nothing, NULL);

	r->mhd = MHD_create_response_from_callback(size, 1, stream_read, r, free_streamed);
	if (!r->mhd)
		abort();
	return r;
}

static char *clean_value(const char *value)
{
	char *clean = mem_strdup(value);

	for (char *p = clean; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return clean;
}

void http_reply_header(struct http_reply *r, const char *name, const char *value)
{
	AUTO(mem_freep) char *clean = clean_value(value);

	/* libmicrohttpd refuses an empty value. */
	if (!*clean)
		return;
	if (r->mhd)
		MHD_add_response_header(r->mhd, name, clean);
	else
		put_pair(&r->headers, name, clean);
}

void http_reply_trailer(struct http_reply *r, const char *name, const char *value)
{
	AUTO(mem_freep) char *clean = clean_value(value);

	put_pair(&r->trailers, name, clean);
}

void http_reply_status(struct http_reply *r, unsigned status)
{
	r->status = status;
}

struct header_walk {
	void (*fn)(void *arg, const char *name, const char *value);
	void *arg;
};

static enum MHD_Result mhd_walk_header(void *arg, enum MHD_ValueKind kind, const char *name,
				       const char *value)
{
	struct header_walk *w = arg;

	w->fn(w->arg, name, value);
	return MHD_YES;
}

void http_reply_headers(const struct http_reply *r,
			void (*fn)(void *arg, const char *name, const char *value), void *arg)
{
	struct header_walk w = { fn, arg };

	if (r->mhd)
		MHD_get_response_headers(r->mhd, mhd_walk_header, &w);
	else
		each_pair(&r->headers, fn, arg);
}

struct http_reply *http_reply_ref(struct http_reply *r)
{
	atomic_fetch_add_explicit(&r->n_refs, 1, memory_order_relaxed);
	return r;
}

void http_reply_unref(struct http_reply *r)
{
	struct MHD_Response *mhd;

	if (!r || atomic_fetch_sub(&r->n_refs, 1) != 1)
		return;
	mhd = r->mhd;
	if (r->kind != REPLY_STREAM || !mhd)
		free_streamed(r);
	/* Frees a stream, as soon as libmicrohttpd needs it no more. */
	if (mhd)
		MHD_destroy_response(mhd);
}
