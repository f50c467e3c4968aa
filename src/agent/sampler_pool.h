/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of elements in segments of memory: those that the BPF program reads (tables, mappings).
 *
 * A map of maps is not changed for each file and process: every change waits for a grace period of RCU, 12 ms here, so
 * that a start with 200 files would take seconds. A segment holds many small ranges; a large one has its own. A returned
 * range rests before it is used again, since a walk on another processor may still read it.
 */
#pragma once

#include "base/base.h"

struct sampler_range {
	uint32_t segment, first, n; /* n 0: none */
};

struct pool_run {
	uint32_t first, n;
	int64_t since_ns; /* free since */
};
struct pool_segment {
	uint8_t *memory; /* NULL: the number is not in use */
	uint32_t n;      /* elements */
	uint32_t n_taken;
	struct pool_run *runs; /* free ones, sorted, not adjacent */
	size_t n_runs, room_runs;
};

struct sampler_pool {
	size_t element; /* bytes */
	uint32_t
		normal; /* elements of a shared segment; a range of more than a quarter of them has its own */
	uint32_t n_max; /* segments */
	size_t bytes_max; /* of all segments; 0: no limit */
	/* Make segment @segment of @n elements, zeroed. Undone by drop(). */
	int (*make)(void *arg, uint32_t segment, uint32_t n, void **ret_memory, struct err *err);
	void (*drop)(void *arg, uint32_t segment, void *memory, uint32_t n);
	void *arg;
	struct pool_segment *segments;
	size_t n_segments, room_segments;
	size_t reserved; /* bytes of all segments */
};

#define SAMPLER_POOL_REST_NS (100 * INT64_C(1000000))

/* Take @n > 0 elements. *ret_memory is where they are. ERR_LIMIT: @n_max or @bytes_max. */
int sampler_pool_take(struct sampler_pool *p, uint32_t n, struct sampler_range *ret, void **ret_memory,
		      struct err *err);
void sampler_pool_give(struct sampler_pool *p,
		       struct sampler_range *range); /* sets n to 0; takes an empty one */
void sampler_pool_tidy(
	struct sampler_pool *p); /* return the memory of segments that have been empty for a while */
void sampler_pool_done(struct sampler_pool *p);
