/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base: the module that all others use. One include for most of it; each part's header is its manual.
 *
 * err.h     errors
 * mem.h     allocation that cannot fail, guards, overflow checks
 * room.h    free disk space that a service leaves alone
 * vec.h     growing arrays
 * view.h    str and bytes: views that own nothing
 * arena.h   memory of one piece of work, dropped whole
 * buf.h     a growing byte buffer, also for text
 * cursor.h  bounded reading of untrusted bytes
 * map.h     hash map from byte keys to pointers
 * lru.h     a bounded cache that evicts the least recently used entry
 * hash.h    64-bit content hash, hexadecimal, build IDs
 * queue.h   bounded queue between threads
 * pool.h    a fixed set of worker threads
 * flight.h  single flight: one thread does the work, the others wait for its result
 * clock.h   monotonic and wall time, replaceable in tests
 * deadline.h deadlines and cancellation that inner loops check
 * log.h     the log, one line an event
 * metrics.h counters, gauges and histograms for /metrics
 * file.h    descriptors and files: guards, complete reads, durable writes
 * search.h  binary search
 * pattern.h regular expressions from untrusted users
 *
 * Fewer files need these, and include them by name:
 *
 * age_clock.h  the time by which the age of stored data is counted
 * condition.h  waiting on a condition for a limited time
 * embedded.h   files that are part of the program
 * file_cache.h files in a folder, within a budget
 * hash_index.h hash tables of indices
 * json.h       writing JSON
 * lazy.h       libraries that are loaded when they are first needed
 * leb.h        LEB128, inline
 * proc_status.h facts of a process
 * sort.h       radix sort
 * task.h       work on one object in steps on a pool
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/cursor.h"
#include "base/deadline.h"
#include "base/err.h"
#include "base/file.h"
#include "base/flight.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/lru.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/pattern.h"
#include "base/pool.h"
#include "base/queue.h"
#include "base/room.h"
#include "base/search.h"
#include "base/vec.h"
#include "base/view.h"
