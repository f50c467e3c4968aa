/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of worker threads with a queue for each class of work.
 *
 * Work runs to its end on one thread. It must not wait for other work of the same pool, unless that is
 * certain to be running already. For waits for another machine see pool_wait_begin().
 *
 * In a plain pool (pool_new()) urgent work is taken before the rest. In a fair one (pool_new_fair()) each class
 * has a worker of its own, and @n_threads more are shared: so a class never waits for the work of other classes.
 * A shared worker takes work of the class that has had the least time on workers for its share. Within a class,
 * clients take turns, however much work each has queued.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool;

/* Of a plain pool; the classes of a fair one are its owner's, from 0. */
enum pool_class { POOL_NORMAL, POOL_URGENT };
enum { POOL_FULL = 1, POOL_CLOSED = 2 };

#define POOL_MAX_CLASSES 8u
/* Clients are told apart by this many values (struct pool_slot.client modulo it): those that are equal take
 * their turns as one. */
#define POOL_CLIENTS 64u

/* A pool's threads are for long work: so much nicer than the thread that made them (nice(2)). */
#define POOL_NICE 5

/* A place in a pool's queue, as a part of the object that the work is for. Zeroed at first. */
struct pool_slot {
	struct pool_slot *next;
	void (*fn)(void *arg);
	void *arg;
	/* The owner's to set before the slot is queued: whose work it is. Kept. */
	uint32_t client;
	bool queued, on_heap;
};

/* @name: of the threads, as ps and gdb show them (at most 12 characters). */
struct pool *pool_new(const char *name, unsigned n_threads, size_t max_queued);
/* The same for helpers of the calling thread: they are as nice as it is, and no nicer. */
struct pool *pool_new_helpers(const char *name, unsigned n_threads, size_t max_queued);
/*
 * Give its threads this nice value (setpriority(2)). A lower one than they have needs a privilege, or RLIMIT_NICE; without
 * it they keep theirs.
 */
void pool_renice(struct pool *p, int nice);
/* The same for the calling thread; false: not permitted. */
bool thread_set_nice(int nice);

struct pool_options {
	const char *name;   /* as above */
	unsigned n_threads; /* that the classes share; one more for each class is added */
	size_t max_queued;  /* for pool_submit() */
	int nice;           /* of the threads, beyond that of the thread that makes them */
	unsigned n_classes; /* at most POOL_MAX_CLASSES */
	/* Of each class, more than 0: of two classes that always have work, the one with twice the share gets
	 * twice the time on shared workers. NULL: all have the same. */
	const unsigned *shares;
	/* So many workers at most do work of one client at once, for each class. 0: no limit. */
	unsigned max_per_client;
};
struct pool *pool_new_fair(const struct pool_options *o);
/*
 * Run fn(arg) on a worker. This cannot fail: the queue is as long as there are objects with a slot. The pool
 * must not be closed, and @slot not be in its queue; it is free again when fn begins, which may end the
 * object.
 */
void pool_queue(struct pool *p, unsigned cls, struct pool_slot *slot, void (*fn)(void *arg), void *arg);
/* The same where there is no slot, for work that may be refused. 0, POOL_FULL (@max_queued are in the queue:
 * nothing was added) or POOL_CLOSED. */
int pool_submit(struct pool *p, unsigned cls, void (*fn)(void *arg), void *arg);
/*
 * Work that waits for another machine occupies no worker: between pool_wait_begin() and pool_wait_end(), which may be nested,
 * it does not count as running for its class or client, and a spare thread works in its place. After the wait it goes on at
 * once, beside that thread, which ends when it is idle. @n works may wait so at once; more than these keep their worker, so
 * work that can be refused asks pool_may_wait() first: each client of a fair pool has
 * @n / 4 / POOL_CLIENTS waits of its own, and of the others it may have as many as are free then, half of them if it is alone.
 * pool_permit_waiting() is called once, before the first work.
 * The functions without a pool are for the thread that calls them; they do nothing outside a pool that permits waiting.
 */
void pool_permit_waiting(struct pool *p, unsigned n);
bool pool_may_wait(void);
void pool_wait_begin(void);
void pool_wait_end(void);
size_t pool_waiting(struct pool *p);
/*
 * As pthread_cond_wait(), for work of another thread: a wait that is not short counts as one for another machine. It returns at
 * times without a signal, as that does: called in a loop.
 */
void pool_condition_wait(pthread_cond_t *c, pthread_mutex_t *lock);
/* Close it to new work, run the queued tasks, end the threads, free. */
void pool_free(struct pool *p);
size_t pool_queued(struct pool *p);
size_t pool_busy(struct pool *p);
unsigned pool_threads(struct pool *p);
/* The CPUs this process may use (affinity and cgroup quota), at least 1. */
unsigned pool_cpus(void);
