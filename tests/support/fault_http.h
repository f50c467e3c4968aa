/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server on the loopback that misbehaves as told. Rules are looked through in order for each request:
 * the first one of that path which is not used up answers. No rule: 404. It keeps connections, and keeps
 * count.
 */
#pragma once

#include "base/base.h"

enum fault {
	FAULT_NONE,
	FAULT_STALL,     /* `at` bytes of the body, then nothing more until the client hangs up */
	FAULT_CUT,       /* `at` bytes of the body, then the connection is closed */
	FAULT_RESET,     /* the same with a reset */
	FAULT_DRIP,      /* `at` bytes at once, then one every 20 ms */
	FAULT_ENDLESS,   /* the body over and over, chunked */
	FAULT_SILENT,    /* nothing at all, until the client hangs up */
	FAULT_DRIP_HEAD, /* endless headers, a byte every 20 ms */
	FAULT_LONG_HEAD, /* endless headers, as fast as they go */
	FAULT_HANG_UP,   /* closed without a word */
	FAULT_NOT_HTTP,  /* an answer that is no HTTP */
};

struct fault_rule {
	const char *path; /* the request's must begin so; NULL: any */
	unsigned times;   /* it answers so often, then rules behind it do; 0: always */
	enum fault fault;
	uint64_t at;
	unsigned status;     /* 0: 200, or 206 for a Range */
	const char *headers; /* further ones, "Name: value\r\n" each */
	struct bytes body;   /* must live as long as the server */
	bool no_range;       /* Range is ignored */
	bool chunked;        /* no Content-Length */
	uint64_t length;     /* announce this instead of the true length; 0: the true one */
	unsigned delay_ms;   /* before the head */
};

struct fault_http;
struct fault_http *fault_http_new(const struct fault_rule *rules, size_t n_rules); /* copied */
void fault_http_free(struct fault_http *s);                                        /* takes NULL */
const char *fault_http_url(const struct fault_http *s);               /* "http://127.0.0.1:PORT" */
unsigned fault_http_requests(struct fault_http *s, const char *path); /* whose path begins so; NULL: all */
unsigned fault_http_connections(struct fault_http *s);                /* that were ever made */
unsigned fault_http_open(struct fault_http *s);                       /* that are open now */
/* The head of the @i-th request as it came, "" if there was none yet. Good until the server is freed. */
const char *fault_http_head(struct fault_http *s, unsigned i);
/* Go over to other rules. */
void fault_http_rules(struct fault_http *s, const struct fault_rule *rules, size_t n_rules);

/* Not a server: what a machine looks like that drops all packets, and one where nothing listens. @url has
 * room for 64. */
struct fault_dead {
	int fd, fill[8];
};
void fault_dead_drops(struct fault_dead *d, char *url);
void fault_dead_refuses(struct fault_dead *d, char *url);
void fault_dead_done(struct fault_dead *d);
