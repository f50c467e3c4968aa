/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 (RFC 9113), over libnghttp2, which has no I/O of its own. Only these files see that library.
 *
 *   h2.c          threads with epoll loops: sockets, TLS, time
 *   h2_conn.c     a connection: from bytes to streams, and back to bytes; its limits
 *   h2_stream.c   a stream, which is a struct http_conn: its head, its course, its time
 *   h2_body.c     the body of its request
 *   h2_reply.c    its reply
 *   h2_tls.c      TLS by libssl, with ALPN
 *
 * A connection and its streams belong to one thread. Other threads call http_resume(), which queues a stream for its
 * thread, and http_gone().
 *
 * A stream that is reset, or whose connection ends, while it is suspended stays until it is resumed. Its connection and
 * descriptor stay as long, so that its peer is known and the descriptor is not reused.
 */
#pragma once

#include <pthread.h>
#include "http/conn.h"
#include "http/h2_lazy.h"
#include "http/slow.h"

/* Limits of a connection; docs/security.md has them. */
#define H2_STREAMS      100u /* at once, with those that were reset and whose work has not ended */
#define H2_FEW_STREAMS  8u   /* when half of all streams that the server takes are in use */
#define H2_FREE_STREAMS 256u /* of the server, whose memory needs no grant */
#define H2_STREAM_COST \
	KIB(8) /* bytes that the others hold, without headers, query and bytes granted elsewhere */
#define H2_HEADERS       KIB(16) /* of one request, decoded; more is 431 */
#define H2_HEADERS_CUT   KIB(64) /* a request with more ends the connection */
#define H2_CONTINUATIONS 16u     /* frames of one header block after the first */
#define H2_WRONG_BODY    "GET and HEAD take no body"
#define H2_STREAM_WINDOW MIB(1)
#define H2_WINDOW        MIB(4) /* of all streams of a connection */
#define H2_DROPPED \
	MIB(1) /* of a refused body, before the reply; that of a client of gRPC is not waited for */
#define H2_STARVED_MS 1000    /* for output to a client while there is no memory for it */
#define H2_OUT        KIB(32) /* made at once; more when the socket has taken it */
/*
 * Frames that a client can send without an end, and that give the server work, cost credit. Requests that are answered,
 * bytes of bodies and time give it back.
 */
#define H2_CREDIT     4000
#define H2_CREDIT_S   500 /* a second */
#define H2_CREDIT_ASK 16  /* for a request that was answered */
#define H2_COST_RESET 10
#define H2_COST_SLOW  4 /* PING, SETTINGS and others that are answered */

struct h2;
struct h2_conn;
struct h2_thread;
struct h2_tls;

struct h2_stream {
	struct http_conn conn; /* first */
	struct h2_conn *c;
	struct h2_stream *prev, *next;  /* of its connection */
	struct h2_stream *next_resumed; /* under the thread's lock */
	int32_t id;
	void *ctx; /* the receiver's */
	/* The head. Texts are in `text`, "name NUL value NUL" for each header; pseudo headers too. */
	struct buf text;
	size_t headers_size;
	size_t granted; /* of its cost, by the memory budget */
	struct http_request req;
	char *path;  /* without the query */
	bool headed; /* all headers are in, and the receiver has seen them */
	/* The body. */
	bool body_ended;     /* all of it has arrived */
	struct buf held;     /* bytes of it that the receiver has not taken */
	size_t held_at;      /* of them, those that it has taken since */
	size_t held_granted; /* by the memory budget */
	uint64_t n_body;     /* bytes that have arrived */
	/* The reply. */
	bool asked; /* the receiver's request() was called */
	struct http_reply *reply;
	unsigned status;
	uint64_t pos;  /* in its body */
	bool deferred; /* its body waits for http_resume() */
	bool sent;     /* all of it was given to the session */
	/* Its end. */
	bool suspended;         /* the thread's */
	bool closed;            /* the session knows it no more */
	atomic_bool gone, shut; /* shut: http_shut() was called */
	/* Counters for slow clients, as slow.c has them for a connection. */
	int64_t spare_ms, seen_ms, body_ms;
	uint64_t seen_bytes;
};

struct h2_conn {
	struct h2_thread *thread;
	struct h2_conn *prev, *next;
	int fd; /* -1: none, in tests */
	struct sockaddr_storage addr;
	struct slow_conn slow;
	void *tls; /* NULL: none */
	nghttp2_session *session;
	struct h2_stream *first;
	unsigned n_streams; /* those in the list */
	unsigned n_continuations;
	int64_t credit, credit_ms;
	int64_t idle_ms; /* when its last stream ended */
	bool trimmed;    /* h2_conn_sweep() has given memory back since then */
	void *frames;    /* the session's buffer of a frame, by mmap() */
	size_t frames_size;
	struct buf out; /* bytes that the socket did not take */
	size_t out_at;
	size_t out_granted; /* by the memory budget, of `out` and `frames` */
	int64_t starved_ms; /* since then `out` waits without being granted; 0: it does not */
	bool wants_out;     /* epoll reports when it takes more */
	bool unsent;        /* counted in n_unsent */
	bool leaving;       /* GOAWAY was sent: it ends with its streams */
	bool failed;        /* it ends now */
	bool dead;          /* has ended, but for suspended streams */
	bool touched;       /* it is in the thread\'s list */
	struct h2_conn *next_touched;
};

struct h2_thread {
	struct h2 *h2;
	pthread_t thread;
	bool running;
	int epoll, event;
	struct h2_conn *first;   /* all, with those that have ended */
	struct h2_conn *touched; /* those to be looked at in this turn */
	int64_t swept_ms;
	char date[32]; /* the header's value */
	int64_t date_s;
	atomic_bool shuts; /* a stream has `shut` */
	/* */
	pthread_mutex_t lock;
	struct h2_stream *resumed; /* under the lock */
};

struct h2 {
	struct http_shared *shared;
	struct h2_thread *threads;
	unsigned n_threads;
	int *sockets; /* that it listens at */
	size_t n_sockets;
	struct h2_tls *tls; /* NULL: none */
	atomic_bool stopping;
	atomic_uint n_streams; /* of all connections */
	atomic_bool crowded;   /* there were many since memory was last returned to the kernel */
};

/* ---- h2.c ---- */

int h2_load(struct err *err);
void h2_wake(struct h2_thread *t);

/* ---- h2_conn.c ---- */

/* Of a connected socket, or of none (-1). Takes @fd. */
struct h2_conn *h2_conn_new(struct h2_thread *t, int fd, const struct sockaddr *addr);
/* Bytes from the client. false: the connection ends, after what h2_conn_make() still makes. */
bool h2_conn_feed(struct h2_conn *c, struct bytes in);
/* The client broke the rules: the connection ends when a GOAWAY with this code is out. */
void h2_conn_fail(struct h2_conn *c, uint32_t code);
/* Append up to about @max bytes for the client to c->out. */
void h2_conn_make(struct h2_conn *c, size_t max);
/*
 * c->out waits for the client: have it granted. Without memory for it, it may wait for H2_STARVED_MS, in which a client that
 * reads takes it. false: that time is over, and the connection ends.
 */
bool h2_conn_keep(struct h2_conn *c);
/* All of c->out was sent: give its memory back. */
void h2_conn_drop_out(struct h2_conn *c);
/* Neither side has anything to say any more. */
bool h2_conn_is_over(const struct h2_conn *c);
/* It has something to send, or has ended: its thread looks at it in this turn. */
void h2_conn_touch(struct h2_conn *c);
/* Take no more requests; the streams there are go on. */
void h2_conn_leave(struct h2_conn *c);
/* End it: all streams end, but those that are suspended. c->dead. */
void h2_conn_kill(struct h2_conn *c);
void h2_conn_free(struct h2_conn *c); /* without streams */
/* Time has passed: slow clients, an idle connection. */
void h2_conn_sweep(struct h2_conn *c, int64_t now_ms);
/* Frames and bytes against floods. false: there is no credit left, and the connection ends. */
bool h2_conn_spend(struct h2_conn *c, int64_t cost);
void h2_conn_earn(struct h2_conn *c, int64_t credit);

/* ---- h2_stream.c ---- */

/* NULL: there are too many; *ret_code says so to the client. */
struct h2_stream *h2_stream_new(struct h2_conn *c, int32_t id, uint32_t *ret_code);
/* 0, or the result of nghttp2's callback. */
int h2_stream_header(struct h2_stream *s, struct str name, struct str value);
/* All headers are in. */
void h2_stream_begin(struct h2_stream *s, bool ended);
/* As far as it goes without more from the client: its body to the receiver, the request, the reply. */
void h2_stream_drive(struct h2_stream *s);
/* It was resumed: go on. It may be gone when this returns. */
void h2_stream_resumed(struct h2_stream *s);
/* The session knows it no more. It may be gone when this returns. */
void h2_stream_closed(struct h2_stream *s, bool complete);
void h2_stream_reset(struct h2_stream *s, uint32_t code);
void h2_stream_sweep(struct h2_stream *s, int64_t now_ms);
/* All streams that other threads have resumed, or shut. */
void h2_thread_resume(struct h2_thread *t);

/* Its reply has begun, and its body goes on to the receiver. */
static inline bool h2_goes_both_ways(const struct h2_stream *s)
{
	return s->conn.both_ways && s->reply && !s->conn.drop.on;
}

static inline const struct http_receiver *h2_receiver(const struct h2_stream *s)
{
	return &s->c->thread->h2->shared->opts.receiver;
}

/* ---- h2_body.c ---- */

void h2_stream_body(struct h2_stream *s, struct bytes chunk);
void h2_stream_body_end(struct h2_stream *s);
/* Give the receiver the held bytes of the body. false: it has not taken all, and is suspended. */
bool h2_body_feed(struct h2_stream *s);
/* From now on it is read and ignored. @size: as announced; 0: not known. */
void h2_body_drop(struct h2_stream *s, uint64_t size);
/* The connection takes no more requests: a stream that goes both ways ends with the messages that it has. */
void h2_stream_leave(struct h2_stream *s);
/* The reply need not wait for the rest of it. */
bool h2_body_may_end(struct h2_stream *s);

/* ---- h2_reply.c ---- */

enum http_result h2_reply_send(struct http_conn *conn, unsigned status, struct http_reply *reply);

/* ---- h2_tls.c ---- */

int h2_tls_new(const struct http_shared *shared, struct h2_tls **ret, struct err *err);
void h2_tls_free(struct h2_tls *t);            /* takes NULL */
void *h2_tls_accept(struct h2_tls *t, int fd); /* NULL: no memory */
bool h2_tls_is_ready(void *tls);               /* the handshake is over */
void h2_tls_close(void *tls);                  /* takes NULL */
/* As read() and write(): -1 with EAGAIN. A handshake that failed, or another protocol than h2, is an error. */
ssize_t h2_tls_read(void *tls, void *buf, size_t size);
ssize_t h2_tls_write(void *tls, const void *buf, size_t size);
