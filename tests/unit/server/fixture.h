/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server for tests: on a free port of the loopback, over a resolver in memory, with a cache in its own
 * folder.
 */
#pragma once

#include "test.h"

#include "http_client.h"
#include "resolve_mem.h"
#include "server/server.h"

struct server_fixture {
	struct resolver *mem;
	struct server_options opts; /* may be changed before fixture_start() */
	struct server *server;
	const char *url;
	char dir[TEST_PATH_SIZE], cache_dir[TEST_PATH_SIZE + 8];
};

void fixture_init(struct server_fixture *f);
void fixture_start(struct server_fixture *f);
void fixture_stop(struct server_fixture *f);
void fixture_done(struct server_fixture *f);

struct build_id test_id(const char *hex);
/*
 * Add random-looking contents of @size bytes under @kind and @hex. Returns them for comparison with a
 * reply.
 */
struct bytes fixture_put(struct server_fixture *f, enum resolve_kind kind, const char *hex, const char *arg,
			 size_t size, const char *file, const char *archive);
/* The reply to GET @path has @status. */
#define assert_status(f, path, want)                                                      \
	({                                                                                \
		struct http_answer assert_a_ = http_fetch((f)->url, "GET", (path), NULL); \
		int assert_s_ = assert_a_.status;                                         \
		http_answer_done(&assert_a_);                                             \
		if (assert_s_ != (want))                                                  \
			fail_msg("GET %s: %d, not %d", (path), assert_s_, (want));        \
	})
void assert_body(const struct http_answer *a, struct bytes want);
void assert_header(const struct http_answer *a, const char *name, const char *want);
/*
 * Wait until the metric @name, with its labels, is in this range: a request is counted after its reply was
 * sent, so a client that has the reply may ask too early.
 */
void fixture_wait_for_metric(const struct server_fixture *f, const char *name, int least, int most);
