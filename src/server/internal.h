/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server's own: what its files ask of each other.
 *
 *   http.c, http_reply.c, listen.c, slow.c  the seam over libmicrohttpd
 *   route.c, cond.c                 what a request asks for; which part of it (pure functions)
 *   request.c                       one request from its headers to its reply
 *   forward.c                       what other servers are told of it, and whether they are asked at all
 *   wait.c                          requests that are suspended: who wakes them, until when, who has hung up
 *   artifact.c, artifact_step.c     one artifact on its way: single flight, decoded by workers in steps
 *   cache.c                         hot artifacts on disk
 *   ready.c                         a content that can be sent at once
 *   hot.c                           those of them that were asked for lately, by URL
 *   reply.c                         headers and statuses
 *   metadata.c, metadata_relay.c, status.c, failures.c, page.c   the other routes
 *   push.c, push_*.c, push.h, token.c          what changes the store, and who may
 *   post.c, post.h                  bodies that are taken whole, for those below
 *   symbolize.c, symbolize_*.c, symbolize.h   addresses to frames
 *   profiles.c, profiles_*.c, profiles.h   profiles in, and what they come to out
 *   json.c                          what those of them that answer JSON share
 *   metrics.c, access.c, limit.c    counters, access log, rate limit
 *   server.c                        puts them together
 *
 * Threads. HTTP threads run request.c, never decode and open no file. Workers run artifact_step.c and the
 * jobs (metadata, metrics, status). Order of locks: an artifact's, then wait.c's, then those inside base and
 * libmicrohttpd.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "base/waker.h"
#include "http/access.h"
#include "http/cond.h"
#include "http/http.h"
#include "http/limit.h"
#include "server/route.h"
#include "server/server.h"

#define SERVER_SMALL   KIB(64)  /* a content up to here is kept and sent from memory */
#define SERVER_PIECE   KIB(256) /* decoded at a time */
#define SERVER_RETRY_S "5"      /* Retry-After */

struct artifact;
struct ask;
struct cache;
struct hot;
struct post;
struct api;
struct ready;
struct request;

enum request_type { /* the first ones are enum resolve_kind */
		    TYPE_METADATA = RESOLVE_N_KINDS,
		    TYPE_METRICS,
		    TYPE_HEALTH,
		    TYPE_STATUS,
		    TYPE_PAGE,
		    TYPE_PUSH,
		    TYPE_SYMBOLIZE,
		    TYPE_INGEST, /* profiles in */
		    TYPE_VIEW,   /* and out */
		    TYPE_OTHER,
		    N_TYPES,
};

/* ---- wait.c ---- */

struct wait_list {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct request *first;
	unsigned n, n_jobs, n_artifacts;
	bool stopping; /* nobody is suspended any more */
	/* */
	pthread_t thread;
	bool running;
};
void wait_init(struct wait_list *w);
int wait_start(struct wait_list *w, struct err *err);
/* Wake all that is suspended, for good. Then wait until the jobs are done; the thread ends. */
void wait_stop(struct wait_list *w);
void wait_done(struct wait_list *w);
/*
 * Suspend, until wait_wake(). Called on the request's HTTP thread, under the lock of what it waits for.
 * false: the server stops, nothing was done.
 */
bool wait_suspend(struct request *req);
/* Resume if it is suspended. Under the lock of what it waits for, so that it cannot go away meanwhile. */
void wait_wake(struct request *req);
/* A job: suspended, and nobody but wait_job_done() resumes it. */
bool wait_job(struct request *req);
void wait_job_done(struct request *req); /* @req may be gone when this returns */
unsigned wait_count(struct wait_list *w);
void wait_artifact_count(struct wait_list *w, int n);
void wait_artifacts_gone(struct wait_list *w);

/* ---- request.c ---- */

enum request_fate { FATE_NONE, FATE_EXPIRED, FATE_GONE, FATE_STOPPED };

/* One request that could not be answered at once. Belongs to its HTTP thread; a job's worker has it while it
 * runs. */
struct request {
	struct server *s;
	enum request_type type;
	struct http_conn *conn;
	const char *method, *url; /* good as long as the request */
	bool head;
	struct arena arena;
	struct route route;
	int64_t started_ns;
	/* under wait.c's lock */
	bool suspended, listed;
	enum request_fate fate;
	int64_t deadline_ms; /* INT64_MAX: none */
	struct request *wait_prev, *wait_next;
	/* of an artifact; the list under the artifact's lock */
	struct artifact *artifact;
	struct request *asker_prev, *asker_next;
	uint64_t body_off;  /* where its body begins in the artifact */
	unsigned n_flights; /* it was in */
	bool streaming;     /* the reply is on its way, out of the artifact; under its lock */
	uint64_t wait_at;   /* the byte that it waits for then; under its lock */
	/* of a job: filled by it */
	void (*job)(struct request *req);
	bool *goes_on;    /* set by the job: it is not over when it returns; whoever ends it calls
			     wait_job_done() */
	int64_t sleep_ms; /* of a job that returns without a reply: it runs again so much later */
	struct http_reply *reply;
	struct post *post;         /* NULL: its body is not taken by post.c. In the arena */
	struct ask *ask;           /* NULL: it asks for no frames. In the arena */
	struct api *api;           /* NULL: it is not about profiles. In the arena */
	struct push_request *push; /* NULL: it changes nothing. In the arena */
	/* what was replied, for the log */
	unsigned status;
	uint64_t bytes;
	const char *result;
};

/* One for push.c. */
struct request *request_new_push(struct server *s, const struct http_request *hr);
/* One whose body is taken by post.c. */
struct request *request_new_post(struct server *s, const struct http_request *hr, const struct route *route,
				 enum request_type type);
/* Suspend it, and have a worker run its job; on its HTTP thread. false: the server stops, nothing was done.
 */
bool request_run(struct request *req, void (*job)(struct request *req));
bool request_begin(void *arg, const struct http_request *hr, void **ctx);
size_t request_body(void *arg, const struct http_request *hr, void *ctx, struct bytes piece);

/* ---- forward.c ---- */

/* What this request tells other servers, into req->route.resolve; strings in its arena. */
void forward_set(struct request *req);
#define FORWARD_ID_SIZE 32
/* A name for this process that is in no other's Via. */
void forward_make_id(char out[FORWARD_ID_SIZE]);

enum http_result request_handle(void *arg, const struct http_request *hr, void **ctx);
void request_done(void *arg, struct http_conn *c, void *ctx, bool complete);

/* ---- artifact.c: joining, following ---- */

enum artifact_state {
	ARTIFACT_RESOLVING, /* not known yet */
	ARTIFACT_KNOWN,     /* `content` is set; nothing decoded, as nobody has asked for the body yet */
	ARTIFACT_FLOWING,   /* being decoded */
	ARTIFACT_WHOLE,     /* `ready` is set, or all bytes are in the spool */
	ARTIFACT_FAILED,    /* `outcome` says how */
};

enum artifact_spool {
	SPOOL_NONE, /* none was chosen: only headers were asked for */
	SPOOL_FILE, /* in the cache directory: any number of followers from any place */
	SPOOL_RING, /* in memory: one follower; any number while all of it fits */
};

struct artifact {
	struct server *s;
	struct bytes key;            /* owned */
	struct resolve_request what; /* its arg in the arena */
	bool solo;                   /* for one asker, never in the table */
	atomic_uint refs;
	pthread_mutex_t lock;
	/* under the lock */
	enum artifact_state state;
	bool landed;        /* not in the table any more */
	bool queued, again; /* a step is queued or runs; and was asked for once more meanwhile */
	bool given_up;      /* its last asker has left it: who comes now starts anew */
	bool body_wanted;   /* somebody wants more than headers */
	struct request *askers;
	unsigned n_askers;
	uint64_t have;         /* bytes [from, have) were made */
	uint64_t start;        /* ring: bytes before this are gone */
	bool stalled;          /* ring: full; a reader kicks */
	struct request *owner; /* ring that does not hold all: its follower */
	uint64_t from, to;     /* what is to be made; fixed from FLOWING on */
	/* set by the worker before the state says so, then fixed */
	struct content content;
	uint64_t epoch;
	bool sequential_only;
	struct ready *ready;
	enum artifact_spool spool;
	int spool_fd;
	uint8_t *ring;
	size_t ring_size;
	int outcome; /* RESOLVE_MISSING, RESOLVE_BUSY, or -1 and `err` */
	struct err err;
	struct str why;     /* in the arena */
	const char *result; /* for the metrics, of what was found; set before that is published */
	/* the worker's */
	struct arena arena;
	struct source *source;
	int (*arrived)(struct source *s, uint64_t off, void (*wake)(void *arg), void *arg, uint64_t *ret_have,
		       struct err *err); /* resolve_answer's */
	uint64_t read_pos, tag;
	uint8_t *piece;
	struct cache_spool *file;
	bool follows;        /* the spool is filled by the source itself */
	struct waker *waker; /* of who makes it wait; waker.h's own */
};

/*
 * Join the flight of what @req asks for, or start it; @solo: one of its own. true: @req was suspended. false:
 * artifact_peek() has something to say already, or the server stops.
 */
bool artifact_ask(struct request *req, bool solo);
void artifact_leave(struct request *req); /* takes a request without artifact */

enum artifact_attached { ATTACHED, ATTACH_ANEW, ATTACH_SOLO };
/* Follow the bytes [off, off + size) from now on. ATTACH_ANEW, ATTACH_SOLO: not this one; leave, and ask
 * again (solo). */
enum artifact_attached artifact_attach(struct request *req, uint64_t off, uint64_t size);
/* For http_reply_stream(); @arg is the request. */
ssize_t artifact_read(void *arg, uint64_t pos, char *buf, size_t max);

/* ---- artifact.c, for artifact_step.c ---- */

void artifact_kick(struct artifact *a);     /* under its lock: have a step run */
void artifact_wake_all(struct artifact *a); /* under its lock */
void artifact_land(struct artifact *a);     /* not under its lock */
void artifact_unref(struct artifact *a);
void artifact_step(void *arg);
void artifact_waker_drop(struct artifact *a);

/* ---- ready.c ---- */

/* A content that is at hand whole: in memory or in a file. Shared, never changed. */
struct ready {
	atomic_uint refs;
	struct content content;
	const uint8_t *mem; /* lives as long as `whole` */
	int fd;             /* else */
	uint64_t fd_off;
	struct stat plain; /* a plain file that may change under us: st_nlink != 0, and what it was */
	bool cached;       /* from the disk cache */
	enum request_type type;
	const char *result;
	struct http_reply *whole, *unmodified;
};
/* Both take what they are given: @content's strings, @mem (from malloc), @fd. */
struct ready *ready_of_mem(struct server *s, struct content *content, void *mem);
struct ready *ready_of_fd(struct server *s, struct content *content, int fd, uint64_t off,
			  const struct stat *plain);
struct ready *ready_ref(struct ready *r);
void ready_unref(void *r);
bool ready_still_good(const struct ready *r); /* a plain file is the one that it was */
void content_done(struct content *c);

/* ---- hot.c ---- */

struct hot *hot_new(void);
void hot_free(struct hot *h);
/* NULL: none, or it was found under another epoch, or long ago. The caller's to unref. */
struct ready *hot_get(struct hot *h, struct str url, uint64_t epoch);
void hot_put(struct hot *h, struct str url, struct ready *r, uint64_t epoch);

/* ---- cache.c ---- */

struct cache_spool; /* a file on its way into the cache */
enum { CACHE_MISSING = 1, CACHE_NO_ROOM = 2 };

/* ERR_LIMIT when another process uses @dir. */
int cache_open(const char *dir, uint64_t max_bytes, struct cache **ret, struct err *err);
void cache_close(struct cache *c); /* what was kept is on disk when this returns; takes NULL */
/* The whole of what is named, exactly @size bytes. CACHE_MISSING. The descriptor is the caller's. */
int cache_find(struct cache *c, const struct resolve_request *what, uint64_t tag, uint64_t size, int *ret_fd);
/* Room for @size bytes. CACHE_NO_ROOM: too large a part of the budget, or the disk is full. */
int cache_begin(struct cache *c, uint64_t size, struct cache_spool **ret, int *ret_fd, struct err *err);
/* It is whole: from now on cache_find() finds it. Takes @sp. */
void cache_keep(struct cache *c, struct cache_spool *sp, const struct resolve_request *what, uint64_t tag);
void cache_drop(struct cache *c, struct cache_spool *sp); /* takes it; NULL too */
struct cache_stats {
	uint64_t bytes, max_bytes, n_files, n_hits, n_misses, n_evicted;
};
void cache_stats(struct cache *c, struct cache_stats *ret);

/* ---- reply.c ---- */

void reply_content_headers(struct server *s, struct http_reply *r, const struct content *c);
/* The reply for a content at hand, judged by the request's conditions; also sends it. Sets *ret_status and
 * *ret_bytes. */
enum http_result reply_ready(struct server *s, struct http_conn *conn, bool head, struct ready *r,
			     unsigned *ret_status, uint64_t *ret_bytes);
struct conditions reply_conditions(struct http_conn *conn, bool head);
/* 304, 406, 416. NULL: the verdict is for a body. */
struct http_reply *reply_of_verdict(struct server *s, const struct verdict *v, const struct content *c);
void reply_range_headers(struct http_reply *r, const struct verdict *v, const struct content *c);
/* One line of text; @text ends in a newline. 503 and 429 get a Retry-After. */
struct http_reply *reply_text(struct server *s, unsigned status, struct str text);
/* Takes the buffer's content. */
struct http_reply *reply_body(struct server *s, struct buf *body, const char *type, bool no_store);
/* For texts that must not tell where files lie: absolute paths in it become base names. */
struct str reply_hide_paths(struct arena *a, struct str text);
unsigned reply_status_of(const struct err *err);

/* ---- the other routes: jobs, on a worker ---- */

void metadata_job(struct request *req);
void metrics_job(struct request *req);
void status_job(struct request *req);
void failures_job(struct request *req);

/* A reply that is the same for all, with what the log and the metrics say of it. */
struct made {
	unsigned status;
	size_t size; /* of its body */
	struct http_reply *reply;
};

/* ---- page.c ---- */

struct page;
int page_new(struct server *s, struct page **ret, struct err *err);
void page_free(struct page *p);
/* NULL: no such file. */
const struct made *page_find(struct page *p, struct str file);

/* ---- metrics.c ---- */

void metrics_begin(enum request_type type);
void metrics_end(enum request_type type, unsigned status, const char *result, uint64_t bytes, int64_t ns);
void metrics_refused(const char *reason);
void metrics_decoded(uint64_t bytes, bool failed);
/* How clients' requests ended, for the page: all but those for health, metrics and the page itself. */
enum metrics_outcome {
	OUTCOME_SERVED,
	OUTCOME_UNCHANGED,  /* 304 */
	OUTCOME_MISSING,    /* 404 */
	OUTCOME_REFUSED,    /* what was asked for is wrong */
	OUTCOME_BUSY,       /* a limit, or it took too long: ask again */
	OUTCOME_FAILED,     /* our fault, or the disk's */
	OUTCOME_BROKEN_OFF, /* the client hung up before there was an answer */
	N_OUTCOMES,
};
extern const char *const metrics_outcome_names[N_OUTCOMES];
struct metrics_outcomes {
	uint64_t n[N_OUTCOMES], bytes;
};
void metrics_outcomes(struct metrics_outcomes *ret);
int metrics_start(struct server *s);
void metrics_stop(struct server *s);

/* ---- server.c ---- */

struct server {
	struct server_options opts; /* strings are in the arena */
	struct arena arena;
	struct resolver *resolver;
	char id[FORWARD_ID_SIZE]; /* in the Via of what we ask of others */
	struct http *http;
	struct pool *workers;
	struct pool *writers; /* of what is pushed; NULL: nothing is taken */
	struct flight_table *flights;
	struct wait_list wait;
	struct hot *hot;
	struct cache *cache;       /* NULL: none */
	struct limit *limit;       /* NULL: none */
	struct access_log *access; /* NULL: none */
	struct page *page;
	struct push *push;  /* NULL: there is no store */
	atomic_uint n_open; /* struct requests */
	int64_t started_mono_ms;
	atomic_size_t ring_bytes; /* held by rings */
	atomic_size_t ask_bytes;  /* of bodies that ask for frames */
	atomic_size_t api_bytes;  /* of bodies with profiles */
	atomic_size_t take_bytes; /* of profiles that wait for the store */
	atomic_bool is_ready;     /* /readyz; the wait thread asks the scan */
	pthread_mutex_t index_lock;
	struct index *index; /* under index_lock; for status.c; NULL: not opened yet */
	struct {
		pthread_mutex_t lock;
		/* under the lock */
		struct index_stats stats;
		bool known;
		int64_t at_ms, took_ms;
	} counted; /* by status.c */
	struct {
		struct made unknown, ok, not_up, busy, too_many, method, options;
	} made;
};
