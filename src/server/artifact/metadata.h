/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One GET /metadata, and its relay to other servers.
 */
#pragma once

#include "base/json.h"
#include "server/artifact/artifact.h"

struct metadata_relay;

/* In the request's arena. */
struct metadata {
	struct request *req;
	struct str key, value, cursor;
	uint64_t limit;
	struct buf out;            /* the reply: an object with "results", which is open until the end */
	struct budget_hold memory; /* of `out`, and of the answers of other servers */
	uint64_t out_held;
	struct err no_memory; /* it was not granted */
	struct json_writer json;
	size_t n_results;
	bool complete; /* so far */
	struct resolve_request forward;
	struct metadata_relay *relay; /* NULL: none */
};

/* The memory of m->out is granted; else m->no_memory says why not. */
bool metadata_out_granted(struct metadata *m);
/*
 * Ask the other servers for the same, if there are any. HTTP_REPLY: none is to be asked. HTTP_WAITS: @over will be
 * called on a worker with their results added; @m may be gone already.
 */
enum http_next metadata_relay_start(struct metadata *m, size_t max_results,
				    enum http_next (*over)(struct metadata *m));
void metadata_relay_free(struct metadata_relay *r); /* takes NULL */
