/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of worker threads with a bounded queue of tasks in two classes: urgent tasks are taken before
 * the others.
 *
 * A task runs to its end on one thread and must not wait for another task of the same pool, unless it is sure
 * that that one is already running.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pool;

enum pool_class { POOL_URGENT, POOL_NORMAL };
enum { POOL_FULL = 1, POOL_CLOSED = 2 };

/* Its threads are there for long work: so much nicer than the thread that made them (nice(2)). */
#define POOL_NICE 5

/* @name: of the threads, as ps and gdb show them (at most 12 characters). */
struct pool *pool_new(const char *name, unsigned n_threads, size_t max_queued);
/* Runs fn(arg) on a worker. 0, POOL_FULL (nothing was queued: answer "busy") or POOL_CLOSED. */
int pool_submit(struct pool *p, enum pool_class cls, void (*fn)(void *arg), void *arg);
/* Take no more, run what is queued, end the threads, free. */
void pool_free(struct pool *p);
size_t pool_queued(struct pool *p);
size_t pool_busy(struct pool *p);
unsigned pool_threads(struct pool *p);
/* The CPUs this process may use (affinity and cgroup quota), at least 1. */
unsigned pool_cpus(void);
