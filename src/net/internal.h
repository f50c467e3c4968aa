/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net: the interface between its files.
 *
 *   layout.c    where a file is, by the kind of the server (pure functions)
 *   urls.c      lists of servers as users write them
 *   head.c      the head of a reply, line by line (pure functions)
 *   wire.c      the seam over libcurl: transfers, and the loop that runs them
 *   wire_file.c the same for file://
 *   redirect.c  which redirects are followed, which paths are requested
 *   breaker.c   the state of each server
 *   breaker_text.c  that state as text, passed from one process to the next
 *   fetch.c     one artifact from several servers: which server is asked when, and how the fetch ends
 *   fetch_handle.c  the caller's side of a fetch: start, progress, cancel
 *   attempt.c   one server asked for the artifact: checks its reply, hands on its bytes
 *   note.c      the result of each server, for people
 *   call.c      one plain request
 *   net.c       the loop, and its inbox for other threads
 *
 * All state belongs to the loop's thread, except breaker.c's table and the fields marked otherwise. libcurl
 * must not be called from its own callbacks, so these only change state; the next fetch_turn() acts on it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "net/net.h"

#define NET_MAX_REDIRECTS  6
#define NET_MAX_REPLY_HEAD KIB(64) /* all headers of all redirects together */
#define NET_MAX_KEPT_HEAD  KIB(16) /* of them, the X-DEBUGINFOD-* lines that are kept */
#define NET_SANE_SIZE      ((uint64_t)64 << 30)
#define NET_SANE_UNKNOWN   ((uint64_t)1 << 30)

/* ---- urls.c ---- */

#define NET_SOCKET_MAX 107u /* bytes of a Unix socket's path */

/*
 * A server on a Unix socket has the URL http+unix://PATH, with the socket's path escaped where others have the host.
 * false: @url is no such URL. *ret_rest: the path of the URL.
 */
bool net_socket_of(struct str url, char ret[NET_SOCKET_MAX + 1], struct str *ret_rest);

/* ---- head.c ---- */

/* The head of a reply. Zeroed: empty; each number is from the last line of its name. */
struct head {
	bool keep_all; /* keep all lines in `lines`, not only X-DEBUGINFOD-* */
	size_t n_read;
	unsigned status;
	bool has_length, has_total, has_range, has_file_size, encoded;
	bool unread;           /* X-LODE-UNREAD: the server may have it, in files that it has not read yet */
	bool waits;            /* ... and goes on waiting for it: ask again at once */
	bool unreadable;       /* X-LODE-UNREADABLE: the disk failed at this file; the server is well */
	uint64_t length;       /* Content-Length */
	uint64_t from, total;  /* Content-Range; the total may be unknown */
	uint64_t file_size;    /* X-DEBUGINFOD-SIZE, if has_file_size */
	int64_t mtime;         /* Last-Modified; 0: none */
	int64_t retry_after_s; /* -1: none */
	struct buf type, etag, lines;
	struct buf reading; /* X-LODE-READING: the package that it waits for; printable ASCII */
};
void head_init(struct head *h);
void head_done(struct head *h);
/* Read one line, with its line end. A status line begins a new head: after redirects only the last head
 * counts. */
int head_line(struct head *h, struct str line, int64_t now_wall_s, struct err *err);

/* ---- redirect.c ---- */

bool address_is_private(const char *text); /* also true for a text that is no address */
struct origin {
	const char *scheme, *host; /* of a URL, as libcurl understands it */
	unsigned port;
};
/* NULL: it is followed; else to where it leads that is not allowed, for a message. Static. */
const char *redirect_fault(enum net_redirects allowed, const struct origin *from, const struct origin *to);

/* ---- wire.c ---- */

/* Why a transfer failed. */
enum fault_kind {
	FAULT_KIND_NONE,
	FAULT_KIND_CONNECT, /* name, connection or TLS: the server cannot be reached */
	FAULT_KIND_TIMEOUT, /* connected, but silent */
	FAULT_KIND_BROKEN,  /* the connection broke off */
	FAULT_KIND_LIE,     /* the reply is wrong */
	FAULT_KIND_STATUS,  /* an HTTP status other than 200 and 206 */
	FAULT_KIND_LIMIT,   /* larger than the limit */
};
struct fault {
	enum fault_kind kind;
	int os;
	char text[256];
};
void fault_set(struct fault *f, enum fault_kind kind, int os, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

struct wire;
struct xfer;

enum { XFER_TAKEN = 0, XFER_PAUSE = 1, XFER_ABORT = -1 };

/* Events of a transfer, for its owner. They must not call functions of the wire. */
struct xfer_events {
	void (*connected)(void *arg);
	/* Bytes of the body; the status is final. XFER_PAUSE: none were taken, and none follow: the owner will
	 * drop the transfer. */
	int (*data)(void *arg, struct bytes piece);
	/* Fill @buf with the next bytes of the body to send. Returns how many, or -1. */
	ssize_t (*upload)(void *arg, void *buf, size_t n);
};
struct xfer_request {
	const char *url, *method; /* NULL: GET */
	bool any_host;            /* redirects to other hosts are followed whatever the options say */
	size_t base_size; /* of file://: the first bytes of @url are those of the folder that it must be in */
	const char *const *headers;
	size_t n_headers;
	bool compressed, has_upload, keep_all;
	size_t read_size;           /* of the buffer for its body, held while it runs; 0: READ_SIZE */
	bool direct;                /* without a proxy */
	bool stays;                 /* redirects are not followed */
	const struct net_tls *tls;  /* borrowed until the transfer is dropped; NULL: the usual */
	uint64_t upload_size, from; /* from > 0: Range */
	unsigned connect_ms;
	const struct xfer_events *events;
	void *arg;
};

int wire_new(const struct net_options *opts, struct wire **ret, struct err *err);
void wire_free(struct wire *w); /* after all transfers are dropped; takes NULL */
/* Do the work that is due; if there is none, wait for an event for at most @timeout_ms. */
void wire_turn(struct wire *w, int64_t timeout_ms);
void wire_wake(struct wire *w); /* any thread */

int xfer_start(struct wire *w, const struct xfer_request *req, struct xfer **ret, struct fault *fault);
void xfer_drop(struct xfer *x); /* at any time except from an event; takes NULL */
/* true: it has ended, and *ret is the result; FAULT_KIND_NONE: success. */
bool xfer_ended(struct xfer *x, struct fault *ret);
const struct head *xfer_head(const struct xfer *x);
/* When the last byte of any kind came; at first, when the transfer began. */
int64_t xfer_heard_ms(const struct xfer *x);
uint64_t xfer_wire_bytes(struct xfer *x); /* of the body, before decompression */
const char *xfer_url(struct xfer *x);     /* after redirects; valid until xfer_drop() */

/* ---- wire_file.c ---- */

struct file_xfer;
struct file_xfer *file_xfer_new(const struct xfer_request *req, struct head *h, struct fault *fault);
void file_xfer_free(struct file_xfer *f); /* takes NULL */
/* Read some bytes. true: call again at once. */
bool file_xfer_turn(struct file_xfer *f);
bool file_xfer_ended(struct file_xfer *f, struct fault *ret);
uint64_t file_xfer_bytes(struct file_xfer *f);

/* ---- breaker.c ---- */

struct server; /* one row of the table; lives as long as the net */
struct breakers {
	pthread_mutex_t lock;
	/* under the lock */
	struct map by_url;
	struct server **all; /* in the order in which they came */
	size_t n, room;
	/* fixed */
	unsigned first_ms, max_ms;
	atomic_uint_least64_t epoch;
};
void breakers_init(struct breakers *b, unsigned first_ms, unsigned max_ms);
void breakers_done(struct breakers *b);
struct server *breaker_server(struct breakers *b, const char *url);

enum breaker_state {
	BREAKER_CLOSED,
	BREAKER_SLOW,   /* ask the others first */
	BREAKER_TRYING, /* one request probes the server: wait for its result */
	BREAKER_OPEN,   /* do not ask it */
};
/* @ret_again_s and @message (200 bytes) may be NULL. */
enum breaker_state breaker_check(struct breakers *b, struct server *s, int64_t *ret_again_s, char *message);
/* Count a request that is about to be sent; breaker_give() must be called at its end. false: @max_active are
 * running already. */
bool breaker_take(struct breakers *b, struct server *s, unsigned max_active);
void breaker_give(struct breakers *b, struct server *s);
bool breaker_is_full(struct breakers *b, struct server *s, unsigned max_active);
/* The same for a request that waits for files that the server has not read yet: it takes no turn from others. */
bool breaker_take_waiting(struct breakers *b, struct server *s);
void breaker_give_waiting(struct breakers *b, struct server *s);
enum breaker_event {
	BREAKER_ANSWERED, /* any HTTP reply */
	BREAKER_FAILED,   /* not reachable, or silent for too long */
	BREAKER_REFUSED,  /* connection refused */
	BREAKER_OUTRUN,   /* connected, but another server answered sooner */
	BREAKER_UNHEARD,  /* not even connected when another server answered */
	BREAKER_DROPPED,  /* no information: we broke off */
};
void breaker_report(struct breakers *b, struct server *s, enum breaker_event event, const char *message);
/* It must not be asked for so many seconds. */
void breaker_busy(struct breakers *b, struct server *s, int64_t seconds, const char *message);
enum breaker_count { COUNT_FOUND, COUNT_MISSING, COUNT_FAILED };
void breaker_count(struct breakers *b, struct server *s, enum breaker_count what, uint64_t bytes);
const char *breaker_url(const struct server *s);

struct breaker_memory {                     /* the part that is kept from process to process */
	int64_t open_until_s, slow_until_s; /* wall time; 0: not */
	unsigned n_failures;
	char message[200];
};
/* under the lock; false: nothing to keep */
bool breaker_memory(struct server *s, struct breaker_memory *ret);
void breaker_remember(struct breakers *b, const char *url, const struct breaker_memory *m);
#define BREAKER_MAX_S 3600 /* a state loaded from another process's text lasts at most this long */

/* ---- note.c ---- */

struct notes {
	struct arena arena;
	struct net_note *items; /* at most one for each server */
	size_t n;
};
void notes_init(struct notes *n, size_t max);
void notes_done(struct notes *n);
/* Add a copy of @note, in place of an earlier one on the same server. */
void note_add(struct notes *n, const struct net_note *note);

/* ---- fetch.c, attempt.c ---- */

struct attempt;

/* One server of the list, as a candidate of this fetch. */
struct candidate {
	struct server *server;
	enum net_layout layout;
	const char *plain;        /* the URL of the server, without the prefix of its kind */
	const char *path;         /* of the file below it, in the fetch's arena; NULL: it cannot have it, */
	enum net_unasked unasked; /* for this reason */
	struct attempt *attempt;  /* the attempt that is running; NULL: none */
	unsigned n_tries;
	int64_t not_before_ms;
	bool over; /* it is not asked again */
	bool missing, too_large, failed;
	bool unread;      /* it has not read all of its files yet */
	bool waiting;     /* the attempt is one of breaker_take_waiting() */
	unsigned n_asked; /* in all; n_tries starts anew after progress */
	bool heard;       /* the breaker was told that the attempt was answered */
	/* waiting since then for the result of another request's probe; 0: not waiting */
	int64_t waits_since_ms;
	bool from_start; /* its bytes differ from those written: do not use Range */
	char etag[128];  /* of its reply, if strong */
};

enum { FETCH_TAIL = 4096 }; /* of the bytes written, to compare with those of another server */

struct net_fetch {
	struct net *net;
	atomic_uint refs;
	atomic_bool cancel, ended; /* any thread */
	_Atomic uint64_t shown_have, shown_size;
	_Atomic bool shown_size_known;
	_Atomic(const char *) shown_server, shown_reading;
	struct net_fetch *next;
	/* fixed */
	struct arena arena;
	struct net_sink sink;
	struct net_patience patience;
	const char *path;
	const char **headers;
	size_t n_headers;
	uint64_t max_size, max_unknown;
	bool compressed;
	int64_t started_ms, deadline_ms;
	/* the loop's */
	struct candidate *candidates;
	size_t n_candidates;
	struct notes notes;
	struct attempt *winner; /* NULL: none yet, or it was dropped */
	int64_t last_start_ms;
	bool begun, size_known;
	unsigned version; /* of the bytes written: another one when they are wrong, or a server begins anew */
	uint64_t size, have;
	struct hash64_state hash; /* of the bytes in [0, have) */
	uint8_t tail[FETCH_TAIL]; /* the last bytes written, byte n at position n % FETCH_TAIL */
	struct net_reply reply;
	bool has_reply;
	uint64_t window_have; /* f->have at the start of the window */
	int64_t window_ms;
	bool weak; /* it got less than WINDOW_MIN in the last window */
	bool sink_failed;
	struct err sink_err;
	struct fault last_fault; /* the last failure of any server */
	bool waits;              /* for files that a server has not read yet: counted in net.n_waiting */
	int64_t unread_since_ms; /* the first request that a server answered so; 0: none */
};

/* Do the work that is due, and lower *next_ms. false: the fetch has ended, and done was called. */
bool fetch_turn(struct net_fetch *f, int64_t now_ms, int64_t *next_ms);
void fetch_begin(struct net_fetch *f, int64_t now_ms);
void fetch_abort(struct net_fetch *f); /* the net is being freed */

/* Hand bytes of the winner to the sink. XFER_TAKEN, or XFER_ABORT (sink_failed is set). */
int fetch_write(struct net_fetch *f, struct bytes piece);
/* 0: the sink begins (again); NET_REFUSED; NET_NO_ROOM and @err; negative: it failed (sink_failed is set). */
int fetch_begin_body(struct net_fetch *f, const struct net_reply *reply, struct err *err);

struct attempt *attempt_start(struct net_fetch *f, struct candidate *c, int64_t now_ms, struct fault *fault);
void attempt_drop(struct attempt *a); /* takes NULL */
/* After wire_turn(). true: it has ended, and *ret is the result; FAULT_KIND_NONE: all bytes are written. */
bool attempt_turn(struct attempt *a, int64_t now_ms, int64_t *next_ms, struct fault *ret);
bool attempt_connected(const struct attempt *a);
bool attempt_answered(const struct attempt *a); /* the head was received */
int64_t attempt_heard_ms(const struct attempt *a);
int64_t attempt_started_ms(const struct attempt *a);
const struct head *attempt_head(const struct attempt *a);
bool attempt_lost(const struct attempt *a);       /* another was first: it is paused, to be dropped */
bool attempt_differs(const struct attempt *a);    /* its bytes differ from those written */
uint64_t attempt_pos(const struct attempt *a);    /* its position in the artifact */
uint64_t attempt_gained(const struct attempt *a); /* that it has added to the file, if it is the winner */
uint64_t attempt_bytes(const struct attempt *a);  /* received by this attempt */

/* ---- unread.c ---- */

/*
 * The server of @c answered @h: it has not read all of its files yet. true: it is asked again. The request that was answered
 * began at @started_ms.
 */
bool unread_again(struct net_fetch *f, struct candidate *c, const struct head *h, int64_t started_ms,
		  int64_t now_ms);
/* How long the next request of @f may wait at the server. */
int64_t unread_turn_ms(const struct net_fetch *f, int64_t now_ms);
void unread_over(struct net_fetch *f); /* a body has begun, or the fetch ends */

/* ---- call.c ---- */

bool call_turn(struct net_call *c, int64_t now_ms, int64_t *next_ms);
void call_begin(struct net_call *c);
void call_abort(struct net_call *c);
struct net_call *call_next(struct net_call *c);
void call_set_next(struct net_call *c, struct net_call *next);

/* ---- net.c ---- */

struct net {
	struct net_options opts;
	struct wire *wire;
	struct breakers breakers;
	pthread_t thread;
	bool has_thread;
	atomic_bool stop;
	pthread_mutex_t lock;
	/* under the lock */
	struct net_fetch *new_fetches, **new_fetches_end; /* referenced */
	struct net_call *new_calls, **new_calls_end;
	/* the loop's */
	struct net_fetch *queued, **queued_end, *running;
	struct net_call *calls;
	unsigned n_running,
		n_waiting; /* fetches; of them those that wait for files that a server has not read yet */
};
