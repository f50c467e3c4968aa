/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server: HTTP over a resolver: the debuginfod protocol, metrics, health, the page (docs/protocol.md).
 *
 * HTTP threads parse, look up what is cached, and send. A request that needs work is suspended; workers
 * resolve and decode; the reply streams what they produce with its final Content-Length. Nothing here knows
 * what a package is.
 */
#pragma once

#include "naming/naming.h"
#include "profilestore/profilestore.h"
#include "tables/tables.h"

struct server;

struct server_options {
	struct resolver *resolver;     /* borrowed */
	struct store *store;           /* borrowed: takes pushes; NULL: none */
	struct tables *tables;         /* borrowed: for addresses; NULL: they are not translated. Is told to
					  stop first */
	struct profilestore *profiles; /* borrowed; NULL: no profiles are taken or shown */
	/* borrowed: who names their addresses, to be told to try again; NULL: nobody */
	struct naming *naming;
	const char *tokens_path;  /* who may push (token.h); NULL: none */
	uint64_t max_push;        /* bytes of one object; 0: 16 GiB */
	bool require_read_token;  /* all but /healthz and /readyz needs a token */
	struct scan *scan;        /* borrowed, for the page, /readyz and the metrics; NULL: always ready */
	const char *index_path;   /* for the page's figures; NULL: none */
	const struct str *listen; /* "ADDR:PORT", "[::1]:8002", ":8002" (all), "localhost:8002" (both
				     families); port 0: any free */
	size_t n_listen;
	unsigned http_threads;           /* 0: as many as CPUs */
	unsigned workers;                /* 0: as many as CPUs, at least 2 */
	const char *cache_dir;           /* hot artifacts, raw; NULL: none */
	uint64_t cache_max_bytes;        /* 0: a quarter of the free space, at most 10 GiB */
	unsigned max_connections;        /* 0: from RLIMIT_NOFILE */
	unsigned max_connections_per_ip; /* 0: no limit */
	unsigned idle_timeout_s;         /* 0: 60 */
	unsigned max_queued;             /* requests that wait for a worker; over it 503. 0: 1024 */
	unsigned rate_per_ip; /* requests a second and address, with bursts of ten times that; 0: no limit */
	int64_t request_deadline_ms; /* the wait for a deep pass; 0: 120 000 */
	int64_t metadata_max_ms;     /* 0: 5 000 */
	bool hide_archive;           /* --archive-path=hide: base name only in X-DEBUGINFOD-ARCHIVE */
	bool cors;
	bool access_log;
	const char *tls_cert, *tls_key;        /* PEM files; NULL: plain HTTP */
	const char *home_redirect, *home_html; /* --home-redirect URL, --home-html FILE */
	const char *web_dir;                   /* the page's files; NULL: the ones built in */
	unsigned forwarded_ttl_limit; /* X-Forwarded-For hops; from there on no other server is asked */
	struct resolver *upstream;    /* borrowed: resolve_upstream_open()'s, for the figures; NULL: none */
	struct net *net; /* borrowed: what the resolver asks other servers by, for metadata and figures; NULL:
			    none are asked */
	const char *const *upstreams; /* their URLs, in order; borrowed */
	size_t n_upstreams;
};

int server_start(const struct server_options *opts, struct server **ret, struct err *err);
/* The addresses it listens on, "http://127.0.0.1:8002", NULL-terminated; live as long as the server. */
const char *const *server_urls(const struct server *s);
/* Let nobody new in, let running replies end for up to @grace_ms, then cut. Takes NULL. */
void server_stop(struct server *s, int64_t grace_ms);
