/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Artifacts: debug files, programs, source files, sections.
 *
 *   get.c          GET of one
 *   layout.c       the paths of symbol servers of other kinds
 *   artifact.c     joining, following and leaving its flight
 *   step.c         what workers do for it: resolve and decode, in steps
 *   unread.c       waiting for files that are not read yet
 *   patience.c     redirects to the same path, so that a client waits longer
 *   cache.c        hot artifacts on disk
 *   cache_name.c   the names of their files, with digests
 *   cache_verify.c the check of these files by `lode store verify`
 *   ready.c        a content that can be sent at once
 *   hot.c          those of them that were asked for lately, by URL
 *   reply.c        their headers and statuses
 *   forward.c      the headers that other servers are sent, and whether they are asked at all
 *   metadata.c, metadata_relay.c   GET /metadata, here and at other servers
 *
 * HTTP threads never decode and open no file. Order of locks: an artifact's, then wait.c's.
 */
#pragma once

#include <sys/stat.h>
#include "base/task.h"
#include "http/cond.h"
#include "http/request.h"
#include "resolve/resolve.h"
#include "server/internal.h"

#define ARTIFACT_SMALL KIB(64)  /* a content up to here is kept and sent from memory */
#define ARTIFACT_CHUNK KIB(256) /* decoded at a time */

struct artifact;
struct ready;

/* ---- handlers ---- */

extern const struct http_handler artifact_get;   /* the row's `kind`: enum resolve_kind */
extern const struct http_handler artifact_other; /* other paths below /buildid/: refused, with the reason */
extern const struct http_handler metadata_get;

/*
 * The artifact that a path names; @parts of its row's pattern. 0; or 400, with the text of the refusal. Views into
 * @parts.
 */
unsigned artifact_of_path(const struct http_route *route, const struct str *parts,
			  struct resolve_request *ret, const char **ret_text);
/* The `arg` of a row whose path is that of a symbol server of another kind. */
extern const enum net_layout artifact_ssqp, artifact_tree, artifact_unified;
/* As artifact_of_path(), for these rows. */
unsigned artifact_of_layout(const struct http_route *route, const struct str *parts,
			    struct resolve_request *ret, const char **ret_text);
/* For http_service_options. */
bool artifact_hot(struct server *s, const struct http_request *hr, bool head, struct http_sent *ret);

/* ---- artifact.c: joining, following ---- */

enum artifact_state {
	ARTIFACT_RESOLVING, /* not known yet */
	ARTIFACT_KNOWN,     /* `content` is set; nothing is decoded, as no request for the body came yet */
	ARTIFACT_FLOWING,   /* being decoded */
	ARTIFACT_WHOLE,     /* `ready` is set, or all bytes are in the buffer */
	ARTIFACT_FAILED,    /* `outcome` says how */
};

enum artifact_buffer {
	BUFFER_NONE, /* none was chosen: only headers were asked for */
	BUFFER_FILE, /* in the cache directory: any number of requests read from any place */
	BUFFER_RING, /* in memory: one request reads; any number while all of it fits */
};

/* A request for an artifact: its own part, in its arena. */
struct artifact_waiter {
	struct request *req;
	struct resolve_request what;
	struct artifact *artifact;           /* NULL: none */
	struct artifact_waiter *prev, *next; /* of the artifact; under its lock */
	uint64_t body_off;                   /* its body begins there in the artifact */
	unsigned n_flights;                  /* it was in */
	bool redirected;   /* its client is sent to the same path again when it has waited */
	bool asks_again;   /* its client is told to ask again when it has waited */
	int64_t waited_ms; /* in earlier requests */
	bool streaming;    /* the reply streams out of the artifact; under its lock */
	uint64_t wait_at;  /* the byte that it waits for then; under its lock */
};

struct artifact {
	struct server *s;
	struct bytes key;            /* owned */
	struct resolve_request what; /* its arg in the arena */
	bool solo;                   /* for one request, never in the table */
	atomic_uint refs;
	struct task task; /* its steps; kicked under the lock or not */
	pthread_mutex_t lock;
	/* under the lock */
	enum artifact_state state;
	bool landed;      /* not in the table any more */
	bool given_up;    /* its last request has left it: the next one starts anew */
	bool body_wanted; /* a request wants more than headers */
	bool awaits;      /* it waits for files that are not read yet */
	struct artifact_waiter *waiters;
	unsigned n_waiters;
	uint64_t have;                  /* bytes [from, have) are in the buffer */
	uint64_t start;                 /* ring: bytes before this are gone */
	bool stalled;                   /* ring: full; a read kicks */
	struct artifact_waiter *reader; /* of a ring that does not hold all */
	uint64_t from, to;              /* bytes to be decoded; fixed from FLOWING on */
	/* set by the worker before the state says so, then fixed */
	struct content content;
	uint64_t epoch;
	bool sequential_only;
	struct ready *ready;
	enum artifact_buffer buffer;
	int buffer_fd;
	uint8_t *ring;
	size_t ring_size;
	int outcome; /* RESOLVE_MISSING, RESOLVE_BUSY, or -1 and `err` */
	bool unread; /* RESOLVE_MISSING; but it may be in files that are not read yet */
	struct err err;
	struct str why;     /* in the arena */
	const char *result; /* for the metrics, of a success; set before that is published */
	/* the worker's */
	unsigned n_awaits; /* how often it has waited for files that are not read yet */
	struct arena arena;
	struct source *source;
	int (*arrived)(struct source *s, uint64_t off, void (*wake)(void *arg), void *arg, uint64_t *ret_have,
		       struct err *err); /* resolve_answer's */
	uint64_t read_pos, tag;          /* tag: of the bytes, for the cache */
	uint8_t *chunk;
	struct cache_file *file;
	bool follows; /* the source itself fills the buffer */
	/* under server.unread.lock */
	bool counted, displaced; /* it is in the list; it has lost its place there to another client */
	struct artifact *unread_newer, *unread_older;
	/* under server.kept.lock */
	bool kept;
	int64_t kept_until_ms;
	struct artifact *next_kept;
	struct artifact *next_over; /* of the thread that ticks */
};

/*
 * Join the flight of @w->what, or start it; @solo: one of its own. true: the request was suspended. false: the
 * artifact's state says something already, or the server stops.
 */
bool artifact_ask(struct artifact_waiter *w, bool solo);
void artifact_leave(struct artifact_waiter *w); /* takes one without artifact */
void artifacts_wait_gone(struct server *s);     /* until there are none */

enum artifact_attached { ATTACHED, ATTACH_ANEW, ATTACH_SOLO };
/*
 * Follow the bytes [off, off + size) from now on. ATTACH_ANEW, ATTACH_SOLO: not this one; leave, and ask
 * again (solo).
 */
enum artifact_attached artifact_attach(struct artifact_waiter *w, uint64_t off, uint64_t size);
/* For http_reply_stream(); @arg is the waiter. */
ssize_t artifact_read(void *arg, uint64_t pos, char *buf, size_t max);

/* ---- for step.c ---- */

void artifact_wake_all(struct artifact *a); /* under its lock */
void artifact_land(struct artifact *a);     /* not under its lock: requests from now on start anew */
void artifact_ref(void *a);
void artifact_unref(void *a);
enum task_result artifact_step(void *arg);

/* ---- unread.c ---- */

/*
 * A miss cannot be told, since a folder or bucket below the roots cannot be listed: a->err says why. Waiting would not help.
 */
bool unread_unlisted(struct artifact *a);
/*
 * After RESOLVE_MISSING, and @unfinished before resolve(): wait for files that are not read yet. RESOLVE_WAIT: @wake will
 * be called. RESOLVE_MISSING: nothing unread can have it: resolve once more. RESOLVE_BUSY: @a->unread was set.
 */
int unread_await(struct artifact *a, struct resolve_wake wake);
void unread_done(struct artifact *a); /* it waits no longer */
/* Once: its wait is over, since another client waits in its place. */
bool unread_displaced(struct artifact *a);
/* The reply to a request for a build ID that may be in files that are not read yet. */
void unread_refuse(struct request *req, const char *text);

/* ---- patience.c ---- */

void patience_begin(struct artifact_waiter *w);
/* Its artifact waits for files that are not read yet: @w waits no longer than it may. */
void patience_join(struct artifact_waiter *w);
/*
 * Make the redirect to the same path, or the request to ask again, when @w has waited without an answer, for unread files
 * (@awaits) or others; its artifact goes on waiting. false: its client understands neither, or has waited for long enough.
 */
bool patience_again(struct artifact_waiter *w, bool awaits);
/* The artifact is not given up when its last request leaves it, until @until_ms. */
void patience_keep(struct artifact *a, int64_t until_ms);
bool patience_keeps(struct artifact *a);
/* Let go of those whose time is over at @now_ms; true: there are others. */
bool patience_tick(struct server *s, int64_t now_ms);

/* ---- ready.c ---- */

#define READY_SPARES 2u

/* A content that is at hand whole: in memory or in a file. Shared, never changed. */
struct ready {
	atomic_uint refs;
	struct content content;
	const uint8_t *mem; /* lives as long as `whole` */
	int fd;             /* else */
	uint64_t fd_off;
	struct stat
		plain; /* of a plain file, which may change under us: its state then; st_nlink 0: not plain */
	bool cached;   /* from the disk cache */
	unsigned type;
	const char *result;
	struct http_reply *whole; /* of one in memory; NULL: each request has a reply of its own */
	struct http_reply *bare;  /* of one in a file: for HEAD */
	/* Replies of its own that were sent whole, for the next requests. */
	_Atomic(struct http_reply *) spare[READY_SPARES];
	struct http_reply *unmodified;
};
/* Both take the strings of @content, @mem (from malloc), @fd. */
struct ready *ready_of_mem(struct server *s, struct content *content, void *mem);
struct ready *ready_of_fd(struct server *s, struct content *content, int fd, uint64_t off,
			  const struct stat *plain);
struct ready *ready_ref(struct ready *r);
void ready_unref(void *r);
/*
 * All of a file, for one request at a time, which ends with ready_give_back(): http_lent's end, with a reference to the
 * ready as @arg. NULL: no descriptor is left.
 */
struct http_reply *ready_lend(const struct server *s, struct ready *r);
void ready_give_back(void *arg, struct http_reply *reply, bool whole);
/* A reply of its own with the bytes [off, off + size) of the content. NULL: no descriptor is left. */
struct http_reply *ready_part(const struct server *s, struct ready *r, uint64_t off, uint64_t size);
bool ready_still_good(const struct ready *r); /* a plain file is the one that it was */
void content_done(struct content *c);

/* ---- hot.c ---- */

struct hot *hot_new(void);
void hot_free(struct hot *h);
/* NULL: none, or it was found under another epoch, or long ago. The caller's to unref. */
struct ready *hot_get(struct hot *h, struct str url, uint64_t epoch);
/* Now and then: drop descriptors of files that were removed, whose space is free only then, or that are not used any
 * more. */
void hot_tidy(struct hot *h, uint64_t epoch);
void hot_put(struct hot *h, struct str url, struct ready *r, uint64_t epoch);

/* ---- cache.c ---- */

struct cache_file; /* on its way into the cache */
enum { CACHE_MISSING = 1, CACHE_NO_ROOM = 2 };

/* ERR_LIMIT when another process uses @dir. */
int cache_open(const char *dir, uint64_t max_bytes, struct room *room, struct cache **ret, struct err *err);
void cache_close(struct cache *c); /* kept files are on disk when this returns; takes NULL */
/* The whole of the artifact, exactly @size bytes. CACHE_MISSING. The descriptor is the caller's. */
int cache_find(struct cache *c, const struct resolve_request *what, uint64_t tag, uint64_t size, int *ret_fd);
/* Room for @size bytes. CACHE_NO_ROOM: too large a part of the budget, or the disk is full. */
int cache_begin(struct cache *c, uint64_t size, struct cache_file **ret, int *ret_fd, struct err *err);
/* It is whole: from now on cache_find() finds it. Takes @f. */
void cache_keep(struct cache *c, struct cache_file *f, const struct resolve_request *what, uint64_t tag);
void cache_drop(struct cache *c, struct cache_file *f); /* takes it; NULL too */
struct cache_stats {
	uint64_t bytes, max_bytes, n_files, n_hits, n_misses, n_evicted;
};
void cache_stats(struct cache *c, struct cache_stats *ret);

/* ---- reply.c ---- */

void reply_content_headers(const struct server *s, struct http_reply *r, const struct content *c);
/*
 * Send a content at hand, judged by the request's conditions. Sets status, bytes and outcome of @sent. 503: no
 * descriptor is left.
 */
void reply_ready(struct server *s, struct http_conn *conn, bool head, struct ready *r,
		 struct http_sent *sent);
struct conditions reply_conditions(struct http_conn *conn, bool head);
/* 304, 406, 416. NULL: the verdict is for a body. */
struct http_reply *reply_of_verdict(const struct server *s, const struct verdict *v, const struct content *c);
void reply_range_headers(struct http_reply *r, const struct verdict *v, const struct content *c);
unsigned reply_status_of(const struct err *err);

/* ---- forward.c ---- */

/* The headers that other servers are sent for @req, into @what; strings in the request's arena. */
void forward_set(struct request *req, struct resolve_request *what);
/* A name for this process that is in no other's Via. */
void forward_make_id(char out[FORWARD_ID_SIZE]);
