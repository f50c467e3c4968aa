/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two other servers, and a chain of resolvers: a store in memory, then these servers.
 */
#pragma once

#include "test.h"

#include "elf_writer.h"
#include "fault_http.h"
#include "resolve/resolve.h"

#define ID      "00112233445566778899aabbccddeeff00112233"
#define OTHER   "ff112233445566778899aabbccddeeff00112233"
#define LONG_MS 60000

struct servers {
	char dir[TEST_PATH_SIZE];
	struct fault_http *a, *b;
	struct store *store;
	struct net *net;
	struct resolver *upstream, *chain;
};

/* Files of 400 000 bytes, @longer of 500 000. The build ID of the first three is ID. */
extern struct buf program, longer, module, other, other_module;

/* For cmocka: make these files, and free them. */
int servers_make_files(void **state);
int servers_free_files(void **state);

/* The rule of a server that has @file as the debug file of ID, and of one that has none. */
struct fault_rule rule_of(const struct buf *file);
extern const struct fault_rule rule_none;

/* Servers with such rules. @p may be NULL; a hedge_ms of 0 is a minute, so none is needed. */
struct servers servers_of(struct fault_rule a, struct fault_rule b, const struct net_patience *p);
/* The same, with `max_misses` of struct resolve_upstream_options. */
struct servers servers_of_budget(struct fault_rule a, struct fault_rule b, unsigned max_misses);
void servers_done(struct servers *h);
/* Return when so many files are in the store; the test fails after a minute. */
void servers_wait_stored(struct servers *h, uint64_t n);

/* ---- requests, as from a worker ---- */

struct got {
	int r;
	struct resolve_answer answer;
	struct buf bytes;
	struct arena a;
	struct resolve_why why;
	struct err err;
};

struct resolve_request request_of(enum resolve_kind kind, const char *id, const char *arg);
/* Call resolve() until it need not wait; got_done() frees @g. */
void servers_ask(struct servers *h, const struct resolve_request *req, struct got *g);
/* The file is found, with exactly these bytes. */
void servers_expect(struct servers *h, const struct resolve_request *req, struct bytes want,
		    enum resolve_origin origin);
/* Read up to @max bytes of the answer as they arrive. Negative: it broke off. */
int got_read(struct got *g, uint64_t max);
/* The reason at @place, "" for none; it lives as long as @g. */
const char *got_why(struct got *g, const char *place);
void got_done(struct got *g);
