/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes: the rows of a table, and the one that a method and a target belong to. Pure functions, safe on any
 * bytes; nothing is allocated.
 */
#pragma once

#include "base/base.h"
#include "http/token.h"

#define HTTP_TARGET_MAX 8192u /* bytes of a target's path, escaped; more is 414 */
#define HTTP_PARTS_MAX  3u    /* {…} in a pattern */

struct http_canned;
struct http_match;
struct request;
struct server;

/* Methods, as bits of `struct http_match.allow`. */
enum http_method {
	HTTP_GET = 1 << 0, /* and HEAD */
	HTTP_POST = 1 << 1,
	HTTP_PUT = 1 << 2,
	HTTP_DELETE = 1 << 3,
};

/* The threads that a handler's run() is called on. */
enum http_pool {
	HTTP_ON_THREAD, /* the HTTP thread: run() must not block */
	HTTP_ON_WORKER, /* a worker, by the row's class */
	HTTP_ON_WRITER, /* a thread that may wait for the disk */
};

/*
 * Classes of work. A request never waits for a worker because of requests of other classes, nor is it refused
 * because too many of other classes wait. Those from HTTP_CLASS_LONG_QUERY on have pools of their own.
 */
enum http_class {
	HTTP_CLASS_STATUS, /* metrics, status, pages */
	HTTP_CLASS_METADATA,
	HTTP_CLASS_ARTIFACT,
	HTTP_CLASS_SYMBOLIZE,
	HTTP_CLASS_INTAKE, /* received profiles */
	HTTP_CLASS_QUERY,  /* short queries of profiles: lists */
	HTTP_CLASS_LONG_QUERY,
	HTTP_CLASS_PUSH,
	HTTP_N_CLASSES
};
#define HTTP_WORKER_CLASSES HTTP_CLASS_LONG_QUERY /* the classes of the workers' pool */

/* What run() returns. */
enum http_next {
	HTTP_REPLY, /* req->reply is made: send it */
	/*
	 * The request stays suspended. On an HTTP thread: by wait_suspend() or wait_begin_work(); run() is called
	 * again after it is resumed. On others: another thread calls request_continue() or wait_end_work(), so
	 * the request may be gone already.
	 */
	HTTP_WAITS,
	HTTP_SLEEPS, /* not on an HTTP thread: call run() again after req->sleep_ms */
	HTTP_ENDED,  /* on an HTTP thread only: request_send() was called */
	HTTP_CLOSES, /* on an HTTP thread only: close the connection without a reply */
};

/*
 * A resource's functions for its requests. A function that is not needed is NULL. All but run() are called
 * on an HTTP thread and must not block.
 */
struct http_handler {
	/* false: answer as if the table had no such row. */
	bool (*exists)(const struct server *s);
	/* GET: a reply that is made already, or NULL. No struct request exists yet. */
	const struct http_canned *(*canned)(struct server *s, const struct http_match *m);
	/* The request is allowed and its headers are in. May refuse it: request_refuse(). */
	void (*begin)(struct request *req);
	/*
	 * The next chunk of the body. Returns the number of bytes taken. Less than all: it has suspended the
	 * request, and gets the others after that is resumed. NULL: the row's `body` says how the body is
	 * collected; without that one it is read and dropped. With both, it is called first, and passes the
	 * bytes to be collected on to body_add(). After http_both_ways() in begin(), it is called while the reply is
	 * sent, and without bytes at the end of the body.
	 */
	size_t (*body)(struct request *req, struct bytes chunk);
	/* The whole body is in. */
	enum http_next (*run)(struct request *req);
	/* The reply is out, or the connection is closed. */
	void (*done)(struct request *req);
};

/* How a body is collected in memory. */
struct http_body {
	unsigned slot;        /* of the sum; below HTTP_BODY_SLOTS */
	size_t max;           /* bytes of one body */
	size_t max_together;  /* of all bodies of this slot that are in memory */
	const char *too_long; /* text of the 413 */
	bool needs_length;    /* 411 without a Content-Length */
};
#define HTTP_BODY_SLOTS 4u

enum {
	HTTP_JSON = 1 << 0,          /* refusals are {"error": ...}, not text */
	HTTP_LOOSE_SLASHES = 1 << 1, /* several slashes count as one, a last one as none */
	HTTP_FIRST_IS_TWO = 1 << 2,  /* the first {…} of the pattern has two characters */
	/*
	 * Clients speak Connect (connect.h): refusals are {"code": ..., "message": ...}. A request of gRPC over HTTP/1.1
	 * is refused before the handler's begin().
	 */
	HTTP_CONNECT = 1 << 3,
	HTTP_PREFIXED = 1 << 5, /* the path may have the table's prefix before it; with HTTP_CONNECT too */
	HTTP_FIRST_IS_SERVICE =
		1 << 4, /* the first {…} is the name of a protobuf service: "push.v1.PusherService" */
	/* Clients speak OTLP: refusals are a google.rpc.Status in protobuf, or in JSON where the request is. */
	HTTP_RPC_STATUS = 1 << 6,
	/* The first {…} is a build ID. Go's as text has slashes, and then is several segments. */
	HTTP_FIRST_IS_BUILD_ID = 1 << 7,
	HTTP_ANY_CASE = 1 << 8, /* the fixed parts of segments are compared without case */
};

struct http_route {
	/* 0: a row for all other paths of this form, with any method. Its begin() refuses them. It comes last. */
	unsigned method;
	/*
	 * "/a/{b}/c": {b} is one segment, which is not empty; of "x-{b}.y" the part between. "/a/{b...}": all that
	 * follows, with its slash.
	 */
	const char *pattern;
	enum token_scope scope; /* 0: everyone. TOKEN_READ: everyone, unless reading needs a token */
	enum http_pool pool;
	unsigned type;                /* in the metrics: index into the names of the types */
	unsigned flags;               /* HTTP_JSON... */
	const struct http_body *body; /* NULL: none is collected */
	const struct http_handler *handler;
	enum http_class cls;
	unsigned kind;   /* the handler's own */
	const void *arg; /* the handler's own */
};

struct http_match {
	/* The row. With a status that is not 0: the first row that has the path, or NULL. */
	const struct http_route *route;
	unsigned status;                  /* 0; 400, 404, 405, 414 */
	unsigned allow;                   /* methods of this path: HTTP_GET... */
	struct str path;                  /* decoded, with a NUL after it */
	struct str parts[HTTP_PARTS_MAX]; /* of each {…} of the pattern */
};

#define HTTP_ROUTES_MAX 128u

/* A table of rows, and which of them can have a path, by the first character of its first segment. */
struct http_routes {
	const struct http_route *rows;
	uint64_t all[HTTP_ROUTES_MAX / 64]; /* bit i: row i */
	uint64_t by_first[128][HTTP_ROUTES_MAX / 64];
	uint64_t prefixed[HTTP_ROUTES_MAX / 64]; /* rows whose path may have the prefix */
	struct str prefix;                       /* "/pyroscope"; empty: none */
};

/*
 * @rows ends with a row without a pattern, and stays; it has at most HTTP_ROUTES_MAX rows. @prefix stays, too; NULL: rows
 * with HTTP_PREFIXED have one path only.
 */
void http_routes_init(struct http_routes *t, const struct http_route *rows, const char *prefix);
/*
 * Decode @target and find its row in @table. Views in @ret point into @room, which has HTTP_TARGET_MAX + 1 bytes. A
 * scheme and an authority before the path are skipped.
 * @s: for exists(); NULL: all rows are there.
 */
void http_match(const struct http_routes *table, const struct server *s, const char *method,
		struct str target, char *room, struct http_match *ret);
/* "GET, HEAD, PUT"; with @options, OPTIONS too. */
void http_methods_print(unsigned methods, bool options, struct buf *out);

/*
 * Decode %XX in @s into @out, which has room for s.size bytes; no NUL is added. false: a broken escape, or a
 * NUL byte.
 */
bool http_unescape(struct str s, char *out, size_t *ret_size);
