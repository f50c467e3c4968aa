/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deep passes as jobs: which package is next, and which requests wait for it.
 *
 *   sought.c    the requests that wait for a file in any package
 *   job_list.c  the jobs that run or are requested, and their waiters
 *   job_pass.c  one job: the deep pass, its progress, its result
 *   job.c       choosing the next job; the threads
 *
 * The index is the queue: index_due() lists the packages that are due, so nothing is lost at a crash. The
 * list here has only the jobs that run and those that a request waits for, which go first. A waiter is woken
 * once: when the file that it waits for has gone by in the running pass, or when the result of the pass is
 * committed.
 */
#pragma once

#include "scan/internal.h"

struct scan_waiter {
	struct build_id id;
	uint32_t flags; /* ELF_IS_*: any of these */
	void (*wake)(void *arg);
	void *arg;
	bool passed; /* the file has gone by */
	/* of a request that seeks: */
	int64_t until_ms;
	int64_t passed_in;         /* the package; 0: none */
	int64_t likely;            /* the package that is read for it first; 0: any */
	bool (*wanted)(void *arg); /* NULL: always */
	struct scan_waiter *next;
};

struct scan_job {
	int64_t file;
	struct scan_job *next;
	struct scan_waiter *waiters;
	unsigned n_wants;         /* number of waiters there ever were */
	bool running;             /* a thread has it, or its result is on the way into the index */
	bool began;               /* the package was due */
	bool large;               /* it has helper threads */
	bool large_asked;         /* ... since a request waits for it */
	uint64_t size, done;      /* compressed bytes */
	char name[SCAN_NAME_MAX]; /* of the package's file, once it runs */
	struct buf map, points;   /* the latest snapshot; empty: none */
	struct build_id *seen;    /* build IDs that requests sought and that have gone by */
	size_t n_seen, room_seen;
};

struct job_thread {
	struct jobs *jobs;
	struct index *index; /* its own connection */
	pthread_t id;
};

struct jobs {
	struct scan *scan;
	pthread_mutex_t lock;
	pthread_cond_t kick;
	struct job_thread *threads;
	unsigned n_threads, n_started; /* threads with a connection; those that run */

	/* under lock */
	struct scan_job *list; /* running or requested */
	unsigned n_waiters, n_choosing;
	struct scan_waiter *sought;
	unsigned n_sought;
	unsigned n_seeks; /* number of requests that ever sought */
	bool maybe_due;   /* index_due() may list a package that it did not list before */
	bool due;         /* it probably does: no thread has found nothing to begin since the last change */
	bool stopping, large_running, large_asked; /* the second beside the first, for a request */
	int64_t not_before_ms;                     /* monotonic: before, only requested jobs begin */
	uint64_t bytes_done, n_done;
	int64_t ended_ms; /* of the last job, monotonic */
};

/* Under the lock. */
struct scan_job *job_find(struct jobs *j, int64_t file);
struct scan_job *job_add(struct jobs *j, int64_t file);
void jobs_changed(struct jobs *j); /* the index has changed: packages may be due */
/* Without the lock: end @job, which it takes, and wake its waiters. */
void job_remove(struct jobs *j, struct scan_job *job);

/* Under the lock. The file @facts has gone by in @job: true if a request seeks it. */
bool sought_seen(struct jobs *j, struct scan_job *job, const struct elf_facts *facts);
/* Under the lock. The requests whose file has gone by in @job, unlinked, before @list. */
struct scan_waiter *sought_take_passed(struct jobs *j, const struct scan_job *job, struct scan_waiter *list);

/*
 * Do @job, whose row is @f. The result goes to the writer, which ends the job after the commit. @nice: of the service; this
 * thread's is POOL_NICE more.
 */
void job_run(struct jobs *j, struct scan_job *job, const struct index_file *f, int nice);
/* Does this file have the build ID, and one of the flags? */
bool job_is_wanted(const struct elf_facts *facts, const struct build_id *id, uint32_t flags);
/* Wake the waiters of @w, and free them. Without the lock: a waiter may call the scan at once. */
void job_wake_all(struct scan_waiter *w);
