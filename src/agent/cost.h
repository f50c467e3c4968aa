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
/* The same of the text of /proc/thread-self/schedstat, at @now_ns. */
int64_t cost_of_text(struct str text, int64_t now_ns);
