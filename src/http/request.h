/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a request, the same for all resources.
 *
 *   request.c    from its headers to its reply, in these steps: match the row, rate limit, token, size of the
 *                body, body, run, reply, access log and metrics
 *   route.c      the row of a method and a target
 *   access.c, counters.c, host.c, limit.c, peer.c, token.c, authorize.c    single steps of it
 *   body.c       bodies that are collected in memory
 *   wait.c       suspended requests: deadlines, clients that hang up
 *   reply.c      replies and refusals; connect.c: the codes of Connect; grpc.c: the form of gRPC
 *   service.c    the state that all requests of a server share
 *   http.h       the transports: connections, suspension, replies. transport.c starts them, conn.c has what is common
 *   mhd*.c       HTTP/1.1. Only these see libmicrohttpd
 *
 * Resources are above this module: they are the rows of a table (route.h), and have no name here.
 * Order of locks: a resource's, then wait.c's, then those inside base and libmicrohttpd.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "base/budget.h"
#include "base/pool.h"
#include "http/connect.h"
#include "http/grpc.h"
#include "http/http.h"
#include "http/route.h"

#define HTTP_RETRY_AFTER_S "5"
#define HTTP_TYPES_MAX     24u
#define HTTP_LOCAL_NAME    "loopback" /* instead of a token's name: a client that needs none */

struct access_log;
struct counters;
struct hosts;
struct limit;
struct server; /* the resources': this module only passes it on */
struct tokens;

/* ---- the service: the state that all requests of a server share ---- */

/* A reply that is the same for all requests. */
struct http_canned {
	unsigned status;
	size_t size; /* of its body */
	struct http_reply *reply;
};

/* A reply that one request at a time sends: at the end of that request @end takes it. NULL: none. */
struct http_lent {
	struct http_reply *reply;
	/* @whole: all of it was sent, so it can be sent again. */
	void (*end)(void *arg, struct http_reply *reply, bool whole);
	void *arg;
};

/* How a request that needs no struct request was answered. */
struct http_sent {
	unsigned type, status;
	uint64_t bytes;
	const char *result;
	bool streams; /* the reply takes a while: it is logged when it is out */
	enum http_result outcome;
	struct http_lent lent; /* only if it streams */
};

struct http_service_options {
	struct server *server;           /* borrowed; for the callbacks */
	const struct http_route *routes; /* ends with a row without a pattern */
	const char *prefix;              /* of rows with HTTP_PREFIXED; NULL: none */
	const char *const *types;        /* names of rows' types in the metrics; NULL after the last */
	unsigned other_type;             /* of requests without a row */
	uint64_t internal_types;         /* bit i: type i is left out of http_outcomes() */
	const char *const *results;      /* names of results in the metrics; "error" is the last, then NULL */
	struct budget *memory; /* borrowed: of bodies and replies; NULL: no limit but those of the rows */
	/*
	 * Borrowed. Workers: a fair pool of HTTP_WORKER_CLASSES. Queries: for HTTP_CLASS_LONG_QUERY; writers: for
	 * rows of HTTP_ON_WRITER; both else NULL.
	 */
	struct pool *workers, *queries, *writers;
	/*
	 * Answer a GET or HEAD at once if its URL, as it was sent, is known to have an answer in memory. It is
	 * called before the target is decoded, after rate limit and token. false: nothing was sent.
	 */
	bool (*hot)(struct server *s, const struct http_request *hr, bool head, struct http_sent *ret);
	/* Called at intervals on the thread of wait.c. true: call it again soon. */
	bool (*tick)(struct server *s);
	/*
	 * A request of a method with a body has ended, on its HTTP thread; its headers are still there. NULL: nobody wants
	 * to know.
	 */
	void (*ended)(struct server *s, const struct request *req, unsigned status);
	unsigned rate_per_ip; /* requests per second; 0: no limit */
	/*
	 * Requests of one class that are suspended. Over it 503 for a client that has its equal part of them; a
	 * client with less is still taken.
	 */
	unsigned max_queued;
	int64_t request_deadline_ms; /* of a suspended request */
	const char *tokens_path;     /* NULL: there are no tokens */
	/* As given to http_start(); and further URLs of the service, such as a proxy's: names that Host may have. */
	const struct str *listen, *public_urls;
	size_t n_listen, n_public_urls;
	bool require_read_token, cors, access_log;
	/* The access log shows nothing of a path after it. NULL: no path has a secret. */
	const char *secret_below;
	/* Names of the headers that pages of other sites may send, and of those that they may read. */
	const char *cors_headers, *cors_expose;
};

/* Clients are told apart by this many values; those that are equal count as one. */
#define HTTP_CLIENTS 1024u

/* Suspended requests of one class. */
struct wait_class {
	unsigned n, n_clients;
	unsigned n_of[HTTP_CLIENTS]; /* of each client */
};

struct wait_list {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct request *first;
	unsigned n, n_working;
	struct wait_class classes[HTTP_N_CLASSES]; /* of both */
	bool stopping;                             /* no request may be suspended any more */
	/* */
	pthread_t thread;
	bool running;
};

struct http_service {
	struct http_service_options opts;
	struct http_routes routes; /* opts.routes */
	struct wait_list wait;
	struct limit *limit;       /* NULL: none */
	struct access_log *access; /* NULL: none */
	struct tokens *tokens;
	struct hosts *hosts;
	struct counters *counters;
	uint64_t seed;      /* of the clients' numbers, so that no client can choose its own */
	atomic_uint n_open; /* struct requests */
	atomic_size_t body_bytes[HTTP_BODY_SLOTS];
	struct http_canned busy, too_many;
};

/* http_load() comes first: replies are made here. */
int http_service_new(const struct http_service_options *opts, struct http_service **ret, struct err *err);
void http_service_free(struct http_service *sv); /* after http_stop(); takes NULL */
/* For http_start(). */
struct http_receiver http_service_receiver(struct http_service *sv);

/* ---- a request ---- */

/* Why a suspended request was resumed, unless by wait_wake(). */
enum request_fate { FATE_NONE, FATE_EXPIRED, FATE_GONE, FATE_STOPPED };

/* Belongs to its HTTP thread; while a worker has it, to that one. */
struct request {
	struct http_service *service;
	struct server *s;
	struct http_conn *conn;
	const struct http_route *route; /* NULL: it is refused */
	unsigned type;
	enum http_class cls;
	uint32_t client;          /* equal for requests with the same token, or from the same address */
	const char *method, *url; /* as sent; valid until the request ends */
	bool head;
	int64_t started_ns;
	struct arena arena;
	struct str path, parts[HTTP_PARTS_MAX]; /* as in http_match; in the arena */
	char token[TOKEN_MAX_NAME]; /* whose token it has; HTTP_LOCAL_NAME; empty: none was needed */
	struct buf body;            /* collected by body.c */
	void *own;                  /* the handler's; zero at begin() */

	/* under wait.c's lock */
	bool suspended, listed;
	enum request_fate fate;
	int64_t deadline_ms; /* INT64_MAX: none */
	struct request *wait_prev, *wait_next;

	/* The reply; and what of it is logged. */
	struct http_reply *reply;
	struct http_lent lent;
	unsigned status;
	uint64_t bytes;
	const char *result;
	const char *refusal; /* the text of a refusal, in the arena; NULL: none */
	int64_t sleep_ms;    /* with HTTP_SLEEPS */

	/* request.c's and body.c's */
	struct pool_slot slot;
	enum http_next (*step)(struct request *req);
	enum http_next next;
	bool started;          /* run() was called */
	unsigned body_refused; /* the status: the body is dropped */
	size_t body_counted;   /* bytes of it in service->body_bytes */
	size_t body_granted;   /* of the memory budget */
	size_t reply_granted;  /* likewise, for the reply */
	bool body_no_memory;   /* it was refused by the budget */
};

/* ---- request.c ---- */

/*
 * For a request that waits (HTTP_WAITS on a worker): have @step run on a thread of its row's pool, from any
 * thread, once. It returns what run() may return. The request may be gone when this returns.
 */
void request_continue(struct request *req, enum http_next (*step)(struct request *req));
/* On its HTTP thread: send @reply, which stays the caller's. */
enum http_next request_send(struct request *req, unsigned status, struct http_reply *reply, uint64_t bytes,
			    const char *result);

/* ---- wait.c ---- */

/* Start the thread that checks suspended requests, and calls tick(). */
int wait_start(struct http_service *sv, struct err *err);
/* Resume all requests, for good. Then wait until workers are done with theirs; the thread ends. */
void wait_stop(struct http_service *sv);
void wait_init(struct wait_list *w);
void wait_done(struct wait_list *w);
/*
 * Suspend, until wait_wake(), the deadline, or the client hangs up. Called on the request's HTTP thread,
 * with the lock of the object it waits for. false: the server stops, nothing was done.
 */
bool wait_suspend(struct request *req);
/*
 * Resume it if it is suspended. Called with the lock of the object it waits for, so that it cannot end
 * meanwhile.
 */
void wait_wake(struct request *req);
/* End the wait of @req at @at_ms at the latest. Any thread; the request must not end meanwhile. */
void wait_no_longer(struct request *req, int64_t at_ms);
/* Suspend for a worker: only wait_end_work() resumes it. false: the server stops, nothing was done. */
bool wait_begin_work(struct request *req);
void wait_end_work(struct request *req); /* @req may be gone when this returns */
unsigned wait_count(struct http_service *sv);
/* Must one more request of @client be refused? */
bool wait_is_full(struct http_service *sv, enum http_class cls, uint32_t client);
/*
 * A deadline for the work of @req: request_deadline_ms from now; cancelled when the client has hung
 * up, or the server stops. For use between wait_begin_work() and wait_end_work().
 */
struct deadline request_deadline(struct request *req, const char *what, const char *remedy);

/* ---- body.c ---- */

/* The Content-Type of the request is @type, in any case and with any parameters. */
bool http_has_type(struct http_conn *conn, const char *type);
/* Refuses by the headers: sizes. */
void body_begin(struct request *req);
size_t body_add(struct request *req, struct bytes chunk);
/* The whole body is in: refuses one that was too long. */
void body_end(struct request *req);
/* The body has been read: free its memory, which counts no more. */
void body_drop(struct request *req);

/* ---- authorize.c ---- */

/*
 * 0 and the name of its token, as Bearer or as the password of Basic (the user is ignored), or the status and the text
 * of the refusal. Without any tokens, only root and the
 * user who runs the service may do more than read, on this machine and not through a proxy: HTTP_LOCAL_NAME.
 */
unsigned http_authorize(struct http_service *sv, struct http_conn *conn, enum token_scope scope,
			char name[TOKEN_MAX_NAME], const char **ret_text);
/* The client is on this machine, and says of no proxy. This gives no rights. */
bool http_is_loopback(struct http_conn *conn);
/*
 * It has Basic authentication. A browser that knows the password adds it to requests of any page, so it does not show
 * that the page has the token.
 */
bool http_is_basic(struct http_conn *conn);
/* A browser sends it for a page of another site. */
bool http_is_other_site(struct http_conn *conn);

/* ---- reply.c ---- */

/* Headers that all replies have. */
void reply_common_headers(const struct http_service *sv, struct http_reply *r);
/* One line of text; @text ends in a newline. */
struct http_reply *reply_text(const struct http_service *sv, unsigned status, struct str text);
struct http_canned reply_canned(const struct http_service *sv, unsigned status, const char *text);
/* Takes the buffer's content. */
struct http_reply *reply_body(const struct http_service *sv, struct buf *body, const char *type,
			      bool no_store);
/* A refusal in the form of the request, if that is of gRPC, else of @route (NULL: text). *ret_size: of the body. */
struct refusal {
	struct http_conn *conn;
	const struct http_route *route;
	unsigned status;
	unsigned allow;   /* the methods of the path, of a 405; that one has a text of its own */
	const char *text; /* without a newline */
};
struct http_reply *reply_refusal(const struct http_service *sv, const struct refusal *refusal,
				 size_t *ret_size);
/* Of OPTIONS. */
struct http_reply *reply_options(const struct http_service *sv, unsigned allow);

/* Make the reply: a refusal in the form of the request's row. @text without a newline. */
void request_refuse(struct request *req, unsigned status, const char *text);
/*
 * The same with a code of Connect that the status does not imply (connect.h): an unknown call is a 404 that is no
 * CONNECT_NOT_FOUND. For rows with HTTP_CONNECT.
 */
void request_refuse_connect(struct request *req, unsigned status, enum connect_code code, const char *text);
/* Make the reply: one line of text. @text without a newline. */
void request_reply_text(struct request *req, unsigned status, const char *text);
/*
 * Make the reply; takes the buffer's content, whose memory is granted by the budget until the reply is out, but
 * for a small one. false: it was not granted, and the reply is a refusal.
 */
bool request_reply_body(struct request *req, unsigned status, struct buf *body, const char *type,
			bool no_store);
/* The same with a part of a file; takes @fd. */
void request_reply_fd(struct request *req, unsigned status, int fd, uint64_t off, uint64_t size,
		      const char *type);
/*
 * A parameter of the query, decoded, in the request's arena; empty when it is not there. -1: the request was
 * refused.
 */
int request_arg(struct request *req, const char *name, struct str *ret);

/* ---- counters.c ---- */

struct counters *counters_new(const char *const *types, const char *const *results);
void counters_free(struct counters *c); /* takes NULL */
void counters_begin(struct counters *c, unsigned type);
void counters_end(struct counters *c, const struct http_sent *sent, int64_t ns);
void counters_refused(const char *limit); /* a request met this limit */
/* Requests of @type that are open. */
int64_t counters_open(const struct counters *c, unsigned type);
/* http_requests_total and the like, as Prometheus reads them. */
void counters_write(const struct counters *c, struct buf *out);

/* How clients' requests ended. */
enum http_outcome {
	OUTCOME_SERVED,
	OUTCOME_UNCHANGED,  /* 304 */
	OUTCOME_MISSING,    /* 404 */
	OUTCOME_REFUSED,    /* the request is wrong */
	OUTCOME_BUSY,       /* a limit, or it took too long: ask again */
	OUTCOME_FAILED,     /* our fault, or the disk's */
	OUTCOME_BROKEN_OFF, /* the client hung up before there was an answer */
	N_OUTCOMES,
};
extern const char *const http_outcome_names[N_OUTCOMES];
struct http_outcomes {
	uint64_t n[N_OUTCOMES], bytes;
};
void http_outcomes(const struct http_service *sv, struct http_outcomes *ret);
