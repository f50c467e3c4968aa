/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server on the loopback that misbehaves as configured. For each request the rules are tried in
 * order: the first one of that path which is not used up answers. No rule: 404. It keeps connections alive,
 * and counts.
 */
#pragma once

#include "base/base.h"

enum fault {
	FAULT_NONE,
	FAULT_STALL,     /* `at` bytes of the body, then nothing more until the client closes */
	FAULT_PAUSE,     /* `at` bytes of the body, the rest `pause_ms` later */
	FAULT_CUT,       /* `at` bytes of the body, then the connection is closed */
	FAULT_RESET,     /* the same with a reset */
	FAULT_DRIP,      /* `at` bytes at once, then one every 20 ms */
	FAULT_ENDLESS,   /* the body over and over, chunked */
	FAULT_SILENT,    /* nothing, until the client closes */
	FAULT_DRIP_HEAD, /* endless headers, a byte every 20 ms */
	FAULT_LONG_HEAD, /* endless headers, as fast as possible */
	FAULT_HANG_UP,   /* closed without a reply */
	FAULT_NOT_HTTP,  /* a reply that is not HTTP */
};

struct fault_rule {
	const char *path; /* prefix of the request's path; NULL: any */
	unsigned times;   /* number of replies, then later rules apply; 0: unlimited */
	enum fault fault;
	uint64_t at;
	unsigned status;     /* 0: 200, or 206 for a Range */
	const char *headers; /* further ones, "Name: value\r\n" each */
	struct bytes body;   /* must live as long as the server */
	bool no_range;       /* Range is ignored */
	bool chunked;        /* no Content-Length */
	uint64_t length;     /* stated instead of the true length; 0: the true one */
	unsigned delay_ms;   /* before the head */
	unsigned pause_ms;
};

struct fault_http;
struct fault_http *fault_http_new(const struct fault_rule *rules, size_t n_rules); /* copied */
void fault_http_free(struct fault_http *s);                                        /* takes NULL */
const char *fault_http_url(const struct fault_http *s);               /* "http://127.0.0.1:PORT" */
unsigned fault_http_requests(struct fault_http *s, const char *path); /* requests whose path has this
								         prefix; NULL: all */
unsigned fault_http_connections(struct fault_http *s);                /* ever accepted */
unsigned fault_http_open(struct fault_http *s);                       /* that are open now */
/* The head of the @i-th request as received, "" if there was none yet. Valid until the server is freed. */
const char *fault_http_head(struct fault_http *s, unsigned i);
/* Replace the rules. */
void fault_http_rules(struct fault_http *s, const struct fault_rule *rules, size_t n_rules);

/* Not a server: the URL of a machine that drops all packets, and of one without a listener. @url has room for
 * 64. */
struct fault_dead {
	int fd, fill[8];
};
void fault_dead_drops(struct fault_dead *d, char *url);
void fault_dead_refuses(struct fault_dead *d, char *url);
void fault_dead_done(struct fault_dead *d);
