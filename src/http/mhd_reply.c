/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies, over those of libmicrohttpd.
 */
#include "http/http.h"

#include <stdlib.h>
#include "http/mhd_lazy.h"

/* The buffer that a stream reads into; each reply that streams has one. */
#define STREAM_BLOCK KIB(64)

struct stream_reply {
	ssize_t (*read)(void *arg, uint64_t pos, char *buf, size_t max);
	void *arg;
};

/* libmicrohttpd returns NULL for wrong arguments, or without memory. */
static struct http_reply *reply_checked(struct MHD_Response *r)
{
	if (!r)
		abort();
	return (struct http_reply *)r;
}

static void free_nothing(void *arg)
{
}

struct http_reply *http_reply_mem(const void *p, size_t size, void (*free_fn)(void *arg), void *arg)
{
	return reply_checked(MHD_create_response_from_buffer_with_free_callback_cls(
		size, (void *)p, free_fn ? free_fn : free_nothing, arg));
}

struct http_reply *http_reply_copy(const void *p, size_t size)
{
	return reply_checked(MHD_create_response_from_buffer(size, (void *)p, MHD_RESPMEM_MUST_COPY));
}

struct http_reply *http_reply_fd(int fd, uint64_t off, uint64_t size)
{
	return reply_checked(MHD_create_response_from_fd_at_offset64(size, fd, off));
}

static ssize_t stream_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct stream_reply *s = arg;
	ssize_t n = s->read(s->arg, pos, buf, max);

	if (n == HTTP_STREAM_END)
		return MHD_CONTENT_READER_END_OF_STREAM;
	return n == HTTP_STREAM_CUT ? MHD_CONTENT_READER_END_WITH_ERROR : n;
}

struct http_reply *http_reply_stream(uint64_t size,
				     ssize_t (*read)(void *arg, uint64_t pos, char *buf, size_t max),
				     void *arg)
{
	struct stream_reply *s = NEW(struct stream_reply);
	size_t block = (size_t)MIN(size, (uint64_t)STREAM_BLOCK);

	s->read = read;
	s->arg = arg;
	return reply_checked(
		MHD_create_response_from_callback(size == HTTP_SIZE_UNKNOWN ? MHD_SIZE_UNKNOWN : size,
						  block ? block : 1, stream_read, s, free));
}

void http_reply_header(struct http_reply *r, const char *name, const char *value)
{
	AUTO(mem_freep) char *clean = mem_strdup(value);

	for (char *p = clean; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	/* libmicrohttpd refuses an empty value. */
	if (*clean)
		MHD_add_response_header((struct MHD_Response *)r, name, clean);
}

void http_reply_unref(struct http_reply *r)
{
	MHD_destroy_response((struct MHD_Response *)r);
}
