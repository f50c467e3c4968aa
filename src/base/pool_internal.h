/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the pool:
 *
 *   pool.c         queues, and whose turn it is
 *   pool_worker.c  threads: idle, at work, started; their priority
 *   pool_wait.c    work that waits for another machine, and the threads in its place
 */
#pragma once

#include <pthread.h>
#include <sys/types.h>
#include "base/pool.h"

#define THREAD_NAME_SIZE 16 /* the kernel's, with NUL */

struct slot_list {
	struct pool_slot *head, **tail;
};

struct class_queue {
	struct slot_list clients[POOL_CLIENTS];
	uint64_t waiting; /* bit i: clients[i] has work */
	uint64_t full;    /* bit i: as much work of clients[i] runs as may */
	unsigned n_running_of[POOL_CLIENTS];
	unsigned next_client; /* whose turn it is */
	unsigned n_queued, n_running, share;
	uint64_t used_ns;  /* the time it has had, divided by its share */
	uint64_t usual_ns; /* that a work of it takes */
};

/* A worker that has nothing to do, on its stack. */
struct idle_worker {
	pthread_cond_t wake; /* it was taken off the list */
	bool listed;
	struct idle_worker *next;
};

struct pool {
	pthread_mutex_t lock;
	/* under the lock */
	/*
	 * The worker that was idle for the shortest time is first: its caches are warm. A condition that all
	 * share would wake the one that was idle for longest.
	 */
	struct idle_worker *idle;
	struct class_queue classes[POOL_MAX_CLASSES];
	size_t n_queued, n_busy;
	unsigned n_shared_busy; /* workers beyond the first of each class */
	uint64_t used_ns;       /* of the class that was served last: a class that was idle starts there */
	bool closed;
	/* fixed */
	struct pool_options opts;
	bool fair;
	unsigned n_threads;
	char name[THREAD_NAME_SIZE];
	/* under the lock */
	bool reniced;
	int nice;        /* of pool_renice() */
	unsigned n_tids; /* of those that have started, without spares */
	pid_t *tids;
	/* of waiting work */
	unsigned n_waiting, max_waiting;
	unsigned own_waits;        /* that each client of a fair pool has, whatever others do */
	unsigned n_shared_waiting; /* beyond these */
	unsigned n_waiting_of[POOL_CLIENTS];
	unsigned n_alive; /* threads that have not ended */
	struct spare_worker *spares;
	/* fixed */
	pthread_t threads[];
};

/* A thread in the place of one that waits. */
struct spare_worker {
	struct pool *p;
	/* under the lock */
	enum { SPARE_NONE, SPARE_RUNS, SPARE_ENDED } state;
	pid_t tid;
	pthread_t thread;
};

/* The thread function of a worker. */
struct taken_work {
	struct pool_slot slot;
	struct class_queue *of;
	unsigned client;
	uint64_t charged_ns;
	int64_t started_ns; /* later by the time that it has waited */
	int64_t waits_ns;   /* since when it waits */
};

/* The work of this thread, for pool_wait_begin(). */
struct pool_here {
	struct pool *p; /* NULL: no worker, or no pool that permits waiting */
	struct taken_work *work;
	unsigned depth;
};
extern _Thread_local struct pool_here pool_here;

/* All but pool_spare_join() are called under the lock. */

/* ---- pool.c ---- */

/* The class of which a worker takes work next. NULL: there is none. */
struct class_queue *pool_class_choose(struct pool *p);
/* One more work of @client runs (@n 1), or one less (-1). */
void pool_count_running(struct pool *p, struct class_queue *c, unsigned client, int n);
/* Move the work whose turn it is to @ret. false: there is none. */
bool pool_work_take(struct pool *p, struct taken_work *ret);
void pool_work_end(struct pool *p, const struct taken_work *w);

/* ---- pool_worker.c ---- */

/* Wake a worker, if one is idle. false: none is. */
bool pool_idle_wake(struct pool *p);
void pool_idle_wake_all(struct pool *p);
/* Take and run work until the pool is closed, or a spare thread is not needed. The lock is released while work runs. */
void pool_worker_loop(struct pool *p, bool spare);
void pool_worker_nice(const struct pool *p); /* of the calling thread */
bool pool_thread_start(const struct pool *p, pthread_t *ret, void *(*fn)(void *arg), void *arg,
		       unsigned number);
/* Returns how many threads were started. They wait for the lock. */
unsigned pool_threads_start(struct pool *p, unsigned n);

/* ---- pool_wait.c ---- */

void pool_spare_join(struct pool *p, struct spare_worker *s);
