/* SPDX-License-Identifier: Apache-2.0 */
/* A fetch whose bytes are kept and compared: what the tests of fetches share. */
#pragma once

#include "fault_http.h"
#include "net/net.h"

struct sink {
	struct buf got;
	struct bytes want;       /* what verify expects; empty: anything */
	bool no_again;           /* begin refuses the second time */
	bool html_is_fine;       /* no check */
	unsigned pause_every;    /* writes; 0: never */
	uint64_t fail_at;        /* the sink fails there; 0: never */
	uint64_t cancel_at;      /* cancels itself */
	struct net_fetch *fetch; /* held */
	unsigned n_begun, n_writes, n_done, n_paused;
	bool pausing;
	int outcome;
	struct err err;
};

/* The artifact of most tests: begins as ELF, 300 000 bytes. */
struct bytes sink_artifact(void);
/* What `net` is made with for tests: short breakers. */
struct net *sink_net(void);
/* Fetch "buildid/ab/debuginfo" from these servers; runs the loop until it is done. Times of the patience are
 * set if 0. */
void sink_fetch(struct net *n, struct sink *s, const struct net_patience *p, const char *const *urls,
		size_t n_urls);
/* The two halves. */
void sink_start(struct net *n, struct sink *s, const struct net_patience *p, const char *const *urls,
		size_t n_urls);
void sink_wait(struct net *n, struct sink *s);
/* As this one says, but for the sink. */
void sink_custom(struct net *n, struct sink *s, const struct net_request *like);
void sink_done(struct sink *s);
/* What was said of the server of this URL; "" nothing. */
const char *sink_said(const struct sink *s, const char *url);
/* All went well and the bytes are those of the artifact. */
#define sink_assert_got(s)                                                       \
	({                                                                       \
		if ((s)->outcome)                                                \
			fail_msg("outcome %d: %s", (s)->outcome, (s)->err.text); \
		assert_true(bytes_eq(buf_bytes(&(s)->got), sink_artifact()));    \
	})
