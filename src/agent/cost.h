/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a piece of work of this thread to others: its time without that in which it was ready to run and other
 * threads had the processor. Time in which it is blocked, as by a process that holds the lock of its mappings, counts:
 * meanwhile nothing else is done.
 */
#pragma once

#include "base/base.h"

/* Two calls of one thread: the difference is the cost of the work between them. Rising; without /proc it is the time. */
int64_t cost_ns(void);
/*
 * A share of the time for work of one kind: saved up while little of it is done, spent while much is. Zeroed it has the most
 * that can be saved.
 */
struct cost_share {
	int64_t credit_ns; /* the cost of work is subtracted */
	int64_t credit_ms; /* monotonic: as of then; 0: not used so far */
};
/* The nanoseconds that are saved now, of one @part of the time, at most @most_ns. Negative: more were spent. */
int64_t cost_share_saved(struct cost_share *s, int64_t part, int64_t most_ns);
/* cost_ns() of the text of /proc/thread-self/schedstat, at @now_ns. */
int64_t cost_of_text(struct str text, int64_t now_ns);
