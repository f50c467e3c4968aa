/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of worker threads with a queue of two classes: urgent work is taken before the rest.
 *
 * Work runs to its end on one thread. It must not wait for other work of the same pool, unless that is
 * certain to be running already.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pool;

enum pool_class { POOL_URGENT, POOL_NORMAL };
enum { POOL_FULL = 1, POOL_CLOSED = 2 };

/* A pool's threads are for long work: so much nicer than the thread that made them (nice(2)). */
#define POOL_NICE 5

/* A place in a pool's queue, as a part of the object that the work is for. Zeroed at first. */
struct pool_slot {
	struct pool_slot *next;
	void (*fn)(void *arg);
	void *arg;
	bool queued, on_heap;
};

/* @name: of the threads, as ps and gdb show them (at most 12 characters). */
struct pool *pool_new(const char *name, unsigned n_threads, size_t max_queued);
/*
 * Run fn(arg) on a worker. This cannot fail: the queue is as long as there are objects with a slot. The pool
 * must not be closed, and @slot not be in its queue; it is free again when fn begins, which may end the
 * object.
 */
void pool_queue(struct pool *p, enum pool_class cls, struct pool_slot *slot, void (*fn)(void *arg),
		void *arg);
/* The same where there is no slot, for work that may be refused. 0, POOL_FULL (@max_queued are in the queue:
 * nothing was added) or POOL_CLOSED. */
int pool_submit(struct pool *p, enum pool_class cls, void (*fn)(void *arg), void *arg);
/* Close it to new work, run what is queued, end the threads, free. */
void pool_free(struct pool *p);
size_t pool_queued(struct pool *p);
size_t pool_busy(struct pool *p);
unsigned pool_threads(struct pool *p);
/* The CPUs this process may use (affinity and cgroup quota), at least 1. */
unsigned pool_cpus(void);
