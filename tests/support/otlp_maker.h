/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes OTLP requests as OpenTelemetry's eBPF profiler writes them: strings and attributes by number, a count of
 * timestamps instead of values, resources of one process each.
 */
#pragma once

#include "base/base.h"
#include "wire/proto.h"

/* Fields of the request that the maker leaves to the test. */
struct otlp_request_parts {
	struct str build_id; /* of the mapping; empty: none */
	uint64_t stack;      /* number of the first sample's stack; 1 is the one that exists */
	bool old;            /* its profiles are of a revision before 1.9 */
	bool no_dictionary;
	bool with_values; /* instead of timestamps: 5 and 7 */
	/* The resource has no service.name; it has process.executable.name unless this is empty. */
	bool no_service;
	struct str program;
};

/*
 * One resource (service.name "web", process.pid 42), one profile of samples/count every 20 ms at @time_ns: a sample of
 * the stack leaf 0x1234 of /bin/x, inline_ in outer of x.c:7 and :9, with two timestamps and the thread "worker".
 */
void otlp_make(const struct otlp_request_parts *parts, uint64_t time_ns, struct buf *out);
