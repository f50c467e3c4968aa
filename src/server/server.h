/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server: HTTP over a resolver: the debuginfod protocol, symbolizing, profiles, metrics, health, the page
 * (docs/protocol.md). http has the part that all requests share.
 *
 * HTTP threads parse, look up cached contents, and send. A request that needs work is suspended; workers
 * resolve and decode; the reply streams their output with its final Content-Length. No code here parses a
 * package.
 */
#pragma once

#include "base/budget.h"
#include <limits.h>
#include "naming/naming.h"
#include "profilestore/profilestore.h"
#include "tables/tables.h"

struct server;
struct incoming;

/* Clients that may upload to the bucket themselves. */
enum { DIRECT_FOR_PUSH = 1 << 0, DIRECT_FOR_PARCA = 1 << 1 };

#define CONNECTIONS_USUAL UINT_MAX

struct server_options {
	struct resolver *resolver; /* borrowed */
	struct budget *memory;     /* borrowed; for requests; NULL: no limit */
	struct store *store;       /* borrowed; takes pushes; NULL: there is none */
	struct tables
		*tables; /* borrowed; server_stop() stops it first; NULL: addresses are not symbolized */
	struct profilestore *profiles; /* borrowed; NULL: profiles are neither taken nor shown */
	const char *profiles_why; /* borrowed; not NULL: there should be a store, but it cannot be opened */
	/* borrowed; is notified when a binary is to be named again; NULL: none */
	struct naming *naming;
	const struct str *scrape_files; /* files of targets whose profiles are pulled (docs/scrape.md) */
	size_t n_scrape_files;
	const char *tokens_path;        /* the file of tokens (http/token.h); NULL: none */
	unsigned max_uploads_per_token; /* at once; 0: as many as there may be */
	uint64_t max_push;              /* bytes of one object; 0: 16 GiB */
	bool require_read_token;        /* all paths but /healthz and /readyz need a token */
	struct scan *scan;      /* borrowed; for the page, /readyz and the metrics; NULL: always ready */
	const char *index_path; /* for /api/status and /api/failures; NULL: none */
	struct incoming
		*incoming;     /* borrowed: of the store, for uploads to its bucket; NULL: there are none */
	unsigned incoming_for; /* whose: of DIRECT_FOR_... */
	const struct str *listen; /* "ADDR:PORT", "[::1]:8002", ":8002" (all), "localhost:8002" (both
				     families); port 0: any free */
	size_t n_listen;
	const struct str *listen_grpc; /* likewise, for HTTP/2 alone */
	size_t n_listen_grpc;
	/* Further URLs that it is reached at; a browser is refused under any other name. */
	const struct str *public_urls;
	size_t n_public_urls;
	unsigned http_threads;    /* 0: as many as CPUs */
	unsigned workers;         /* 0: as many as CPUs, at least 2 */
	const char *cache_dir;    /* folder of hot artifacts; NULL: none */
	struct room *room;        /* borrowed: the disk space that cache and replies may use; NULL: all */
	const char *temp_dir;     /* folder for files without a name, of large replies; NULL: /var/tmp */
	uint64_t cache_max_bytes; /* 0: a quarter of the free space, at most 10 GiB */
	unsigned max_connections; /* 0: from RLIMIT_NOFILE */
	/* Of one address; 0: no limit. CONNECTIONS_USUAL: 256, and no limit for loopback addresses. */
	unsigned max_connections_per_ip;
	uint64_t min_rate;        /* bytes a second that bodies and replies have to average; 0: any */
	int64_t body_deadline_ms; /* of a body, beside a second for each 16 KiB of it; 0: none */
	unsigned idle_timeout_s;  /* 0: 60 */
	unsigned max_queued;      /* suspended requests; more are refused with 503. 0: 1024 */
	unsigned
		rate_per_ip; /* requests per second and address, with bursts of ten times that; 0: no limit */
	int64_t request_deadline_ms; /* the longest wait for a deep pass; 0: 120 000 */
	/* The longest wait of a build ID that is not known while files are not read yet; 0: none */
	int64_t unread_wait_s;
	/* elfutils' client is redirected to the same path after each such time that it waits; 0: never */
	int64_t redirect_ms;
	unsigned max_unread;     /* such build IDs that wait at once; 0: 256 */
	int64_t metadata_max_ms; /* 0: 5 000 */
	bool hide_archive;       /* --archive-path=hide: base name only in X-DEBUGINFOD-ARCHIVE */
	bool cors;
	bool access_log;
	const char *tls_cert, *tls_key;        /* PEM files; NULL: plain HTTP */
	const char *home_redirect, *home_html; /* --home-redirect URL, --home-html FILE */
	const char *web_dir;                   /* folder of the files of the page; NULL: the built-in files */
	unsigned
		forwarded_ttl_limit; /* a request with so many hops in X-Forwarded-For is not sent to other servers */
	struct resolver *upstream; /* borrowed; from resolve_upstream_open(), for its figures; NULL: none */
	struct net *
		net; /* borrowed; the client for other servers, for metadata and figures; NULL: none are asked */
	const char *const *upstreams; /* their URLs, in order; borrowed */
	size_t n_upstreams;
	/* They get neither addresses nor names of clients: "unknown" stands for each hop in X-Forwarded-For. */
	bool hide_clients;
};

/*
 * Compare the files of the cache folder with their digests; a server may use the folder meanwhile. A missing folder
 * has none.
 */
struct cache_verify_options {
	bool remove;                                                    /* the damaged ones */
	void (*bad)(void *arg, struct str file, const struct err *why); /* for each of them */
	void *arg;
};
struct cache_verify_result {
	uint64_t n_files, n_bad, n_removed;
};
int server_cache_verify(const char *dir, const struct cache_verify_options *o,
			struct cache_verify_result *ret, struct err *err);

int server_start(const struct server_options *opts, struct server **ret, struct err *err);
/* The URLs of its sockets, "http://127.0.0.1:8002", NULL-terminated; valid as long as the server. */
const char *const *server_urls(const struct server *s);
const char *const *server_grpc_urls(const struct server *s); /* likewise, for HTTP/2 */
/* Close new connections, let open replies end for up to @grace_ms, then cut them. Takes NULL. */
void server_stop(struct server *s, int64_t grace_ms);
