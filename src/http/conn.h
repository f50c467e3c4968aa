/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What connections and replies of both transports have in common, for their files: mhd*.c and h2*.c.
 *
 * A request's connection is HTTP/1.1's connection or HTTP/2's stream. Each begins with a struct http_conn, and so with
 * the functions of its transport. Head, query and trust are the same for both, and are read here without a call.
 */
#pragma once

#include <stdatomic.h>
#include "http/http.h"

struct budget;
struct listen_socket;
struct MHD_Response;
struct slow;

/* ---- connections ---- */

struct http_transport {
	/* NULL: no such header. */
	const char *(*header)(struct http_conn *c, const char *name);
	const struct sockaddr *(*peer)(struct http_conn *c);
	int (*socket)(struct http_conn *c);
	/* As http_suspend() and the like. */
	void (*suspend)(struct http_conn *c);
	void (*resume)(struct http_conn *c);
	void (*shut)(struct http_conn *c);
	bool (*gone)(struct http_conn *c);
	enum http_result (*send)(struct http_conn *c, unsigned status, struct http_reply *reply);
};

/*
 * A query. A list with a pointer for each argument could take ten times the memory of the text, which one client can have
 * for each of many requests.
 */
struct http_query {
	struct buf text;  /* as it was sent; empty once it was cut */
	struct buf pairs; /* of its arguments: name NUL value NUL */
};

/*
 * A body that is read and ignored: its request is refused, or its receiver said so in the midst of it. Both transports
 * count here, so that a client that goes on sending meets a limit in either.
 */
struct http_drop {
	bool on;
	uint64_t n, max; /* bytes; the request ends when @n exceeds @max */
};

/* The bytes that a transport reads of a body that is refused in the midst of it and has no announced size. */
#define HTTP_DROP_UNKNOWN MIB(64)

struct http_conn {
	const struct http_transport *transport;
	struct http_head head;
	struct http_drop drop;
	bool trust_known, trusted; /* of its other end, which stays the same */
	bool both_ways;            /* http_both_ways() was called, of a request of HTTP/2 */
	bool crowded;              /* http_is_crowded() */
	struct http_query query;
};

/* Bytes of the body are ignored from now on. */
static inline void http_drop_begin(struct http_drop *d, uint64_t max)
{
	*d = (struct http_drop){ true, 0, max };
}

/* @n bytes were ignored. false: that is more than the limit. */
static inline bool http_drop_add(struct http_drop *d, size_t n)
{
	d->n += n;
	return d->n <= d->max;
}

/* Forget the query; keep its memory if that is small, for the next request. */
void http_query_drop(struct http_query *q);
void http_query_done(struct http_query *q);

/* ---- heads ---- */

/* Signs of a browser or a proxy: note that of this header in @head. */
void http_head_add(struct http_head *head, struct str name, const char *value);

/* ---- replies ---- */

enum http_reply_kind { REPLY_MEM, REPLY_FD, REPLY_STREAM };

/*
 * libmicrohttpd's response owns the body, and has the headers; it is destroyed with the last reference. That of a stream is
 * made when HTTP/1.1 sends it, since it has a buffer that HTTP/2 does not need; until then its headers are here.
 */
struct http_reply {
	atomic_uint n_refs;
	enum http_reply_kind kind;
	unsigned status;          /* that it is sent with; 0: as http_send() says */
	struct MHD_Response *mhd; /* NULL: of a stream, not made yet */
	struct buf headers;       /* of a stream: name NUL value NUL */
	uint64_t size;            /* of the body; HTTP_SIZE_UNKNOWN */
	const uint8_t *p;
	int fd;
	uint64_t off;
	ssize_t (*read)(void *arg, uint64_t pos, char *buf, size_t max);
	void *arg;
	struct buf trailers; /* name NUL value NUL, in lower case */
};

struct http_reply *http_reply_ref(struct http_reply *r);
/* For libmicrohttpd: makes the response of a stream. */
struct MHD_Response *http_reply_response(struct http_reply *r);
/* Each header of @r. */
void http_reply_headers(const struct http_reply *r,
			void (*fn)(void *arg, const char *name, const char *value), void *arg);

/* ---- the transports ---- */

/* What all listening sockets share. */
struct http_shared {
	struct http_options opts; /* but for its lists of addresses */
	struct slow *slow;
	atomic_uint n_connections;
	atomic_uint n_unsent; /* those of HTTP/2 with bytes that are not acknowledged */
	atomic_bool quiet;    /* new connections are closed */
	struct buf cert, key;
};

/* HTTP/1.1 on one listening socket, which it takes. */
struct mhd;
int mhd_start(struct http_shared *shared, const struct listen_socket *ls, struct mhd **ret, struct err *err);
void mhd_stop(struct mhd *m); /* takes NULL */

/* HTTP/2 on all of these listening sockets, which it takes. */
struct h2;
int h2_start(struct http_shared *shared, const int *sockets, size_t n, struct h2 **ret, struct err *err);
void h2_quiesce(struct h2 *h2); /* after shared->quiet was set; takes NULL */
void h2_stop(struct h2 *h2);    /* takes NULL */
