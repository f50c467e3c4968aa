/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http: the transports (this header), and the life of a request (request.h). It names no resource.
 *
 * A transport is the seam over a library: mhd*.c have HTTP/1.1 over libmicrohttpd, and only they see that library. A
 * few HTTP threads each run an event loop over their connections. They call the receiver once the headers of a request
 * are in. The receiver sends a reply, or suspends the request, and another thread resumes it when there is something
 * to send.
 *
 * Each transport calls the same struct http_receiver, in the same order: begin(), body(), request(), done(), all for
 * one request on one thread at a time. It has a struct http_conn for each request at once, and a table of functions for
 * it (conn.h). Replies may be sent by any transport. Route table, handlers and request.c have no other way to a
 * connection.
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include "base/base.h"

struct budget;
struct http; /* listening sockets and HTTP threads */
/*
 * The connection of one request at a time. It belongs to its HTTP thread; while it is suspended, http_resume() and
 * http_gone() are for others.
 */
struct http_conn;
struct http_reply; /* reference-counted; may be sent many times, also at once */

enum http_result {
	HTTP_SENT,      /* http_send() was called */
	HTTP_SUSPENDED, /* http_suspend() was called */
	HTTP_CUT,       /* close the connection without a reply */
};

struct http_request {
	struct http_conn *conn;
	const char *method;
	const char *url; /* the path as it was sent, still escaped, without the query */
};

struct http_receiver {
	void *arg;
	/*
	 * On an HTTP thread; called again after each http_resume() until a reply was sent. *@ctx is this
	 * request's own pointer, NULL at first.
	 */
	enum http_result (*request)(void *arg, const struct http_request *req, void **ctx);
	/*
	 * The headers of a request with another method than GET and HEAD are in. true: body() is called for each
	 * chunk of the body, then request(). false: request() is called at once and must send; the body is not
	 * read.
	 */
	bool (*begin)(void *arg, const struct http_request *req, void **ctx);
	/*
	 * The next chunk of the body; returns the number of bytes taken. Less than all: it has suspended the
	 * request, and gets the others after http_resume().
	 */
	size_t (*body)(void *arg, const struct http_request *req, void *ctx, struct bytes chunk);
	/*
	 * While a body arrives: the reply does not depend on the rest of it. body() is not called any more; a transport
	 * that can send the reply before it has read the body calls request() then.
	 */
	bool (*settled)(void *arg, void *ctx);
	/*
	 * On an HTTP thread: a request whose ctx is not NULL has ended. @complete: the whole reply was sent.
	 */
	void (*done)(void *arg, struct http_conn *c, void *ctx, bool complete);
};

struct http_options {
	const struct str *listen;
	size_t n_listen;
	const struct str *listen_grpc; /* HTTP/2 is spoken there, and nothing else */
	size_t n_listen_grpc;
	/* Borrowed; of HTTP/2's streams, bodies sent ahead, and replies not read; NULL: no limit. */
	struct budget *memory;
	unsigned threads;
	unsigned max_connections;
	/* Of one address of another machine, of one loopback address; 0: no limit. */
	unsigned max_connections_per_ip, max_connections_local;
	unsigned idle_timeout_s;
	uint64_t min_rate;              /* bytes a second of a body or a reply; 0: any */
	int64_t body_deadline_ms;       /* of a body, beside a second for each 16 KiB of it; 0: none */
	const char *tls_cert, *tls_key; /* PEM files; NULL: plain HTTP */
	struct http_receiver receiver;
};

/* Load libmicrohttpd: before any other function here, those of replies too. May be called again. */
int http_load(struct err *err);
/*
 * Requests come before it returns, so *ret is set before the first one, also if it fails then: it is to be stopped in the same
 * way, with its requests.
 */
int http_start(const struct http_options *opts, struct http **ret, struct err *err);
/* "http://127.0.0.1:8002", "unix:/path"; NULL-terminated. */
const char *const *http_urls(const struct http *h);
const char *const *http_grpc_urls(const struct http *h); /* likewise, for listen_grpc */
unsigned http_connections(struct http *h);
/*
 * Connections of HTTP/2 with bytes that their clients have not acknowledged, as of their last event or half a second ago. A
 * request has ended for its receiver when the last bytes of its reply are in such a connection's own buffer, or the kernel's.
 */
unsigned http_unsent(struct http *h);
void http_quiesce(struct http *h); /* close new connections at once; open ones go on */
/* Close all connections. No request may be suspended. Takes NULL. */
void http_stop(struct http *h);

/* ---- a connection ---- */

/* Facts about the head of a request. Texts are valid until the request ends. */
struct http_head {
	/*
	 * NULL; or why the request is malformed, or could be read in another way by a proxy: the text of a 400. It is
	 * answered at once, and its connection is closed. No other fact is known then.
	 */
	const char *wrong;
	const char *host;                       /* NULL: none, which HTTP/1.0 allows */
	const char *authorization;              /* NULL: none; as the next two */
	const char *user_agent, *forwarded_for; /* the first one of each */
	bool browser;                           /* it has a header that only browsers send */
	bool forwarded;                         /* it has a header of a proxy, which passed it on */
	bool old;                               /* HTTP/1.0 */
	bool two;                               /* HTTP/2 */
	bool get;                               /* GET or HEAD */
	bool conditional; /* it may have conditions, a range or X-headers: else none of these */
	bool has_length;  /* it announces a body's size */
};
const struct http_head *http_head(struct http_conn *c);
/* NULL: the request has no such header. Valid until the request ends. */
const char *http_header(struct http_conn *c, const char *name);
/* A parameter of the query, still escaped but for '+'; "" when it has no '='. NULL: none. */
const char *http_arg(struct http_conn *c, const char *name);
/* Each value that the query has under this name, escaped likewise. */
void http_args(struct http_conn *c, const char *name, void (*fn)(void *arg, const char *value), void *arg);
/* All parameters of the query, in its order. */
void http_all_args(struct http_conn *c, void (*fn)(void *arg, const char *name, const char *value),
		   void *arg);
const struct sockaddr *http_peer(struct http_conn *c);
/* The other end belongs to root or to the user who runs this process, as peer.h defines it. */
bool http_peer_trusted(struct http_conn *c);
/*
 * From the receiver or a stream's read: stop until http_resume(), which any thread may call from now on, once.
 */
void http_suspend(struct http_conn *c);
void http_resume(struct http_conn *c);
/*
 * From the receiver's begin(): bytes of the body and of the reply go both ways at the same time. request() is called next,
 * and sends a streamed reply, whose read() may return 0 without http_suspend(). body() is called as bytes come, takes all
 * of them, and is called without any at the end of the body; after each call read() is called again. false: HTTP/1.1 has
 * no such thing; the whole body comes first, and then request(), as always.
 */
bool http_both_ways(struct http_conn *c);
/*
 * The request is one of many streams of HTTP/2, which cost a client next to nothing: memory that its reply holds is granted
 * by the budget, however little it is.
 */
bool http_is_crowded(struct http_conn *c);
/* From any thread, before the request ends: close the connection, as if the client had hung up. */
void http_shut(struct http_conn *c);
/* The client has hung up. For suspended connections, at which libmicrohttpd itself does not look. */
bool http_gone(struct http_conn *c);
/* The caller keeps its reference to @reply. */
enum http_result http_send(struct http_conn *c, unsigned status, struct http_reply *reply);

/* ---- replies ---- */

enum { HTTP_STREAM_CUT = -1, HTTP_STREAM_END = -2 };
#define HTTP_SIZE_UNKNOWN UINT64_MAX

/* @p must stay until free_fn(arg) is called, after the last send of it has ended; free_fn may be NULL. */
struct http_reply *http_reply_mem(const void *p, size_t size, void (*free_fn)(void *arg), void *arg);
struct http_reply *http_reply_copy(const void *p, size_t size);
/* Only for requests with HEAD: it has a size, and no body. */
struct http_reply *http_reply_bare(uint64_t size);
/* Takes @fd. */
struct http_reply *http_reply_fd(int fd, uint64_t off, uint64_t size);
/*
 * To be sent once. @read writes up to @max bytes of the body, from @pos on, into @buf and returns their number; 0
 * after it has suspended the request; HTTP_STREAM_CUT closes the connection, so that the client sees that bytes
 * are missing. With a @size of HTTP_SIZE_UNKNOWN it ends by HTTP_STREAM_END, and is sent in chunks; to a client of
 * HTTP/1.0, to the end of the connection.
 */
struct http_reply *http_reply_stream(uint64_t size,
				     ssize_t (*read)(void *arg, uint64_t pos, char *buf, size_t max),
				     void *arg);
/* Control characters in @value become '?'. */
void http_reply_header(struct http_reply *r, const char *name, const char *value);
/* After the body, where the transport has trailers: HTTP/2 alone. @name in lower case. */
void http_reply_trailer(struct http_reply *r, const char *name, const char *value);
/* It is sent with this status, whatever http_send() gets: gRPC has its own in a trailer. */
void http_reply_status(struct http_reply *r, unsigned status);
void http_reply_unref(struct http_reply *r); /* takes NULL */
