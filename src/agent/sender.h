/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending profiles to a server, by a thread of its own over one connection. While the server cannot be reached, profiles go to
 * the spool, and are sent when it is back, with their times. The server is lode (pprof to POST /profiles), or any receiver of
 * OTLP over HTTP.
 */
#pragma once

#include "agent/sender_otlp.h"
#include "agent/spool.h"
#include "net/net.h"
#include "profile/profile.h"

#define SENDER_QUEUE 32u /* profiles that wait in memory: those of the shortest windows during two requests */
#define SENDER_QUEUE_MEMORY \
	MIB(96)                /* of all of them: two of the largest, of some 42 MiB; MemoryMax= is 256M */
#define SENDER_FIRST_MS 1000   /* the pause after the first failure, then twice as long, ... */
#define SENDER_LAST_MS  300000 /* ... up to here */

struct sender_options {
	const char *url;   /* of the server, without a slash at the end */
	const char *token; /* NULL: none */
	const char *query; /* labels of all profiles, escaped: "node=a&region=b"; not with @otlp */
	bool otlp;
	/* With @otlp: attributes of all resources, borrowed, and how requests are packed. */
	const struct otlp_label *resource;
	size_t n_resource;
	enum otlp_packing packing;
	struct spool *spool; /* taken, also by a failure; NULL: profiles that cannot be sent are dropped */
	/* In the sender's thread: a build ID whose debug information the server wants. */
	void (*wanted)(void *arg, const struct build_id *id);
	void *arg;
	unsigned first_ms; /* for tests; 0: SENDER_FIRST_MS */
};

struct sender;
int sender_new(const struct sender_options *o, struct sender **ret, struct err *err);
/* Send what waits, for at most @grace_ms; the rest goes to the spool. Takes NULL. */
void sender_free(struct sender *s, int64_t grace_ms);
/* Send the profile, which is taken. It waits in memory while the sender is busy, and is dropped if too many wait. */
void sender_put(struct sender *s, struct profile *p);

struct sender_stats {
	uint64_t n_sent, n_late, n_refused, n_dropped,
		n_failures; /* profiles; n_late: out of the spool; failures: requests */
	uint64_t bytes_sent, n_samples;
	int64_t last_sent_ms; /* wall time; 0: never */
	int64_t next_try_ms;  /* wall time, of a pause; 0: none */
	char error[200];      /* of the last failure; "": the last request was good */
	struct spool_stats spool;
};
void sender_stats(struct sender *s, struct sender_stats *ret);

/*
 * A refusal that somebody can mend while the agent runs: a token, a proxy's password, a URL, a server's name. The body of
 * the request is good.
 */
bool agent_is_mendable(unsigned status);
/* The headers of a request to a server: authorization, type. *ret_auth is on the heap. Returns their number. */
size_t agent_headers(const char *token, const char *type, char **ret_auth, const char *out[2]);
/*
 * The pause after @n failures in a row, with jitter. A server's wish, @retry_after_s (negative: none), counts up to the longest
 * pause of our own.
 */
int64_t agent_pause_ms(unsigned n, unsigned first_ms, int64_t retry_after_s);
