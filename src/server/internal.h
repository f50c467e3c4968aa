/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server's own: what its folders share.
 *
 *   routes.c      the table of routes
 *   server.c      beginning and end
 *   text.c        texts that several resources have
 *   json.c        reading JSON
 *   connect.c     calls of protobuf services that are not here
 *   artifact/     debug files, programs, sources, sections; metadata
 *   push/         PUT, DELETE, want lists: changes of the store
 *   symbolize/    addresses to frames
 *   intake/       profiles that clients send
 *   scrape/       profiles that are pulled from programs
 *   profiles/     stores profiles, and has views of them
 *   querier/      the same views for clients of Pyroscope, over rpc/
 *   rpc/          calls of protobuf services, over Connect
 *   status/       metrics, health, the figures of the page, the page itself
 *
 * The life of a request is http's (http/request.h): a folder here has handlers, which rows of the table name.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "http/request.h"
#include "server/server.h"

#define FORWARD_ID_SIZE 32
#define UNREAD_CLIENTS  256u

struct cache;
struct hot;
struct page;
struct push;
struct scrape;
struct senders;

/* Types of requests in the metrics. */
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

/* Slots of bodies that are in memory. */
enum { BODY_SYMBOLIZE, BODY_PROFILES, BODY_WANT, BODY_QUERY };

/* ---- routes.c ---- */

extern const struct http_route server_routes[];
/* Clients of Pyroscope may have it in their URL, before the path of a row with HTTP_PREFIXED. */
#define SERVER_PREFIX "/pyroscope"
#define SERVER_UPLOAD "/upload/" /* the secret of a pass follows */
extern const char *const server_types[N_TYPES + 1];
extern const char *const server_results[];

/* ---- text.c ---- */

const char *server_bad_build_id(struct str id);
/* For texts that must not say where files are: absolute paths in it become base names. Ends in a NUL. */
/* A build ID of a path or query: in lower-case hexadecimal, or Go's as text, whose slashes may be escaped. */
bool server_build_id(struct build_id *id, struct str text);
struct str server_hide_paths(struct arena *a, struct str text);

/* ---- connect.c ---- */

/* Calls of protobuf services that no other row has: 404, unimplemented. */
extern const struct http_handler connect_other;

/* ---- advice.c ---- */

struct server_case {
	enum frame_reason reason;
	struct str file;    /* the path of the file, as a profile has it; empty: not known */
	struct str package; /* the package with the file itself, a .deb or .rpm; empty: not known */
	struct str missing; /* the file with the names that are missing; empty: not known */
};
/* The package of an origin, without its folder; empty: it is a file on disk. */
struct str server_origin_package(struct str origin);
/* Append what to do about it: see frame_advice(). */
void server_advice(const struct server *s, const struct server_case *c, struct buf *out);

/* ---- server.c ---- */

struct server {
	struct server_options opts; /* strings are in the arena */
	struct arena arena;
	struct resolver *resolver;
	char id[FORWARD_ID_SIZE]; /* in the Via of requests to other servers */
	struct http *http;
	struct http_service *http_service;
	struct pool *workers, *queries;
	struct pool *writers; /* they may wait for the disk */
	struct flight_table *flights;
	struct {
		pthread_mutex_t lock;
		pthread_cond_t gone;
		/* under the lock */
		unsigned n; /* artifacts in memory */
	} artifacts;
	struct {
		pthread_mutex_t lock;
		/* under the lock; artifacts that wait for files that are not read yet */
		struct artifact *newest;
		unsigned n, n_of[UNREAD_CLIENTS]; /* of all, of each client */
	} unread;
	struct {
		pthread_mutex_t lock;
		/* under the lock */
		struct artifact *first; /* that wait, although the last request has left them */
	} kept;
	struct hot *hot;
	int64_t tidied_ms;   /* of the thread that ticks */
	struct cache *cache; /* NULL: none */
	struct page *page;
	struct push *push; /* NULL: there is no store */
	struct senders *senders;
	struct scrape *scrape; /* NULL: nothing is pulled */
	int64_t started_mono_ms;
	atomic_size_t ring_bytes; /* held by rings */
	atomic_bool is_ready;     /* /readyz; the wait thread asks the scan */
	pthread_mutex_t index_lock;
	struct index *index; /* under index_lock; for status.c; NULL: not opened yet */
	struct {
		pthread_mutex_t lock;
		/* under the lock */
		struct index_stats stats;
		bool known;
		int64_t at_ms, took_ms;
	} counted;                                                                  /* by status.c */
	struct http_canned unknown, ok, ok_damaged, ok_unread, ok_unlisted, not_up; /* replies */
};
