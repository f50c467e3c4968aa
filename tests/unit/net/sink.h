/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fetch whose bytes are kept and compared, shared by the tests of fetches.
 */
#pragma once

#include "fault_http.h"
#include "net/net.h"

struct sink {
	struct buf got;
	struct bytes want;       /* the bytes that verify accepts; empty: any */
	bool no_again;           /* begin refuses the second call */
	bool no_room;            /* begin has no room at the next call */
	bool html_is_fine;       /* no check */
	uint64_t fail_at;        /* the sink fails at this size; 0: never */
	uint64_t cancel_at;      /* cancels itself at this size */
	struct net_fetch *fetch; /* referenced */
	unsigned n_begun, n_done;
	int outcome;
	struct err err;
};

/* The artifact of most tests: an ELF magic, 300 000 bytes. */
struct bytes sink_artifact(void);
/* A server that has it. */
struct fault_rule sink_good(void);
/* Options of `net` for tests: short breakers. */
struct net *sink_net(void);

/* Two servers with such rules. */
struct pair {
	struct net *n;
	struct fault_http *a, *b;
	const char *urls[2];
};
struct pair pair_of(struct fault_rule a, struct fault_rule b);
void pair_done(struct pair *p, struct sink *s);

/* Fetch "buildid/ab/debuginfo" from these servers; runs the loop until it is done. Times of the patience that
 * are 0 are set. */
void sink_fetch(struct net *n, struct sink *s, const struct net_patience *p, const char *const *urls,
		size_t n_urls);
/* The two halves. */
void sink_start(struct net *n, struct sink *s, const struct net_patience *p, const char *const *urls,
		size_t n_urls);
void sink_wait(struct net *n, struct sink *s);
/* With these options, but for the sink. */
void sink_custom(struct net *n, struct sink *s, const struct net_request *like);
void sink_done(struct sink *s);
/* The note on the server of this URL; "": none. */
const char *sink_said(const struct sink *s, const char *url);
/* The outcome is 0 and the bytes are those of the artifact. */
#define sink_assert_got(s)                                                       \
	({                                                                       \
		if ((s)->outcome)                                                \
			fail_msg("outcome %d: %s", (s)->outcome, (s)->err.text); \
		assert_true(bytes_eq(buf_bytes(&(s)->got), sink_artifact()));    \
	})
