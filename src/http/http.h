/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam over libmicrohttpd: only http.c and http_reply.c know it.
 *
 * A few HTTP threads each run an event loop over their connections. They call the handler once the headers of
 * a request are in. The handler sends a reply, or suspends the request and has it resumed by another thread
 * when there is something to say.
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include "base/base.h"

struct http;      /* listening sockets and HTTP threads */
struct http_conn; /* one connection; of its own HTTP thread, but for http_resume() and http_gone() while it is
		     suspended */
struct http_reply; /* may be sent many times, also at once; counted */

enum http_result {
	HTTP_SENT,      /* http_send() was called */
	HTTP_SUSPENDED, /* http_suspend() was called */
	HTTP_CUT,       /* close the connection without a reply */
};

struct http_request {
	struct http_conn *conn;
	const char *method;
	const char *url; /* path as it came, still escaped, without the query */
};

struct http_receiver {
	void *arg;
	/*
	 * On an HTTP thread; called again after each http_resume() that comes before a reply was sent. *@ctx
	 * is this request's own, NULL at first.
	 */
	enum http_result (*request)(void *arg, const struct http_request *req, void **ctx);
	/*
	 * Of a request with another method than GET and HEAD, as soon as its headers are in. true: its body
	 * is wanted, piece by piece; request() is called behind it. false: request() is called at once, and
	 * must send; the body is not read.
	 */
	bool (*begin)(void *arg, const struct http_request *req, void **ctx);
	/*
	 * The next piece of it; returns how many bytes were taken. Less than all: it has suspended the
	 * request, and gets the rest behind http_resume().
	 */
	size_t (*body)(void *arg, const struct http_request *req, void *ctx, struct bytes piece);
	/* On an HTTP thread: it is over for a request whose ctx is not NULL. @complete: the whole reply went
	 * out. */
	void (*done)(void *arg, struct http_conn *c, void *ctx, bool complete);
};

struct http_options {
	const struct str *listen;
	size_t n_listen;
	unsigned threads;
	unsigned max_connections, max_connections_per_ip; /* per ip 0: no limit */
	unsigned idle_timeout_s;
	const char *tls_cert, *tls_key; /* PEM files; NULL: plain */
	struct http_receiver receiver;
};

/* Have libmicrohttpd: before anything else of this, replies too. Again is nothing. */
int http_load(struct err *err);
int http_start(const struct http_options *opts, struct http **ret, struct err *err);
const char *const *http_urls(const struct http *h); /* NULL-terminated */
unsigned http_connections(struct http *h);
void http_quiesce(struct http *h); /* new connections are closed at once; open ones go on */
/* Close all connections. No request may be suspended. Takes NULL. */
void http_stop(struct http *h);

/* ---- a connection ---- */

/* NULL: the request has none. Good until the request is over. */
const char *http_header(struct http_conn *c, const char *name);
/* Of the query, still escaped but for '+'; "" when it has no '='. */
const char *http_arg(struct http_conn *c, const char *name);
/* Each value that the query has under this name, escaped likewise. */
void http_args(struct http_conn *c, const char *name, void (*fn)(void *arg, const char *value), void *arg);
/* All that the query has, in its order. */
void http_all_args(struct http_conn *c, void (*fn)(void *arg, const char *name, const char *value),
		   void *arg);
const struct sockaddr *http_peer(struct http_conn *c);
/* From the handler or a stream's read: hold it until http_resume(), which may be called from now on, by any
 * thread, once. */
void http_suspend(struct http_conn *c);
void http_resume(struct http_conn *c);
/* The other side has hung up. For suspended ones, of which libmicrohttpd itself notices nothing. */
bool http_gone(struct http_conn *c);
/* The caller's hold on @reply stays his. */
enum http_result http_send(struct http_conn *c, unsigned status, struct http_reply *reply);

/* ---- replies ---- */

enum { HTTP_STREAM_CUT = -1 };

/* @p must stay until free_fn(arg) is called, when nobody sends it any more; free_fn may be NULL. */
struct http_reply *http_reply_mem(const void *p, size_t size, void (*free_fn)(void *arg), void *arg);
struct http_reply *http_reply_copy(const void *p, size_t size);
/* Takes @fd. */
struct http_reply *http_reply_fd(int fd, uint64_t off, uint64_t size);
/*
 * To be sent once. @read puts up to @max bytes at @pos of the reply into @buf and says how many; 0 after it
 * has suspended the request; HTTP_STREAM_CUT closes the connection, so that the client sees that bytes are
 * missing.
 */
struct http_reply *http_reply_stream(uint64_t size,
				     ssize_t (*read)(void *arg, uint64_t pos, char *buf, size_t max),
				     void *arg);
/* Control characters in @value become '?'. */
void http_reply_header(struct http_reply *r, const char *name, const char *value);
void http_reply_unref(struct http_reply *r); /* takes NULL */
