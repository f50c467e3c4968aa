/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for build IDs that are in no index row yet, but may be in anything that is not read. Unlike the waiters of a
 * job they belong to no package: each deep pass compares its files with them.
 */
#include "scan/job.h"

#include <stdlib.h>

#define EXTRA_JOBS 16u /* jobs that wait for a thread because a request seeks something in them */

/* Under the lock: unlink the requests for which @wanted holds, before @list. */
static struct scan_waiter *sought_take(struct jobs *j,
				       bool (*wanted)(const void *arg, const struct scan_waiter *w),
				       const void *arg, struct scan_waiter *list)
{
	struct scan_waiter **at = &j->sought;

	while (*at) {
		struct scan_waiter *w = *at;

		if (!wanted(arg, w)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = list;
		list = w;
		j->n_sought--;
	}
	return list;
}

static bool sought_has_passed(const void *arg, const struct scan_waiter *w)
{
	return w->passed_in == ((const struct scan_job *)arg)->file;
}

static bool sought_has_id(const void *arg, const struct scan_waiter *w)
{
	return build_id_eq(&w->id, arg);
}

static bool sought_is_late(const void *arg, const struct scan_waiter *w)
{
	return w->until_ms <= *(const int64_t *)arg;
}

static bool sought_is_any(const void *arg, const struct scan_waiter *w)
{
	return true;
}

static bool sought_is_unwanted(const void *arg, const struct scan_waiter *w)
{
	return w->wanted && !w->wanted(w->arg);
}

bool sought_seen(struct jobs *j, struct scan_job *job, const struct elf_facts *facts)
{
	bool any = false;

	for (struct scan_waiter *w = j->sought; w; w = w->next) {
		/* The files of a pass are compared again for each new request: each request is noted once. */
		if (w->passed_in || !job_is_wanted(facts, &w->id, w->flags))
			continue;
		w->passed_in = job->file;
		any = true;
	}
	if (any)
		VEC_PUSH(job->seen, job->n_seen, job->room_seen) = facts->build_id;
	return any;
}

struct scan_waiter *sought_take_passed(struct jobs *j, const struct scan_job *job, struct scan_waiter *list)
{
	return sought_take(j, sought_has_passed, job, list);
}

void jobs_found(struct jobs *j, const struct build_id *id)
{
	struct scan_waiter *woken;

	/* A request that is listed at this moment looks into the index once more afterwards. */
	if (!__atomic_load_n(&j->n_sought, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&j->lock);
	woken = sought_take(j, sought_has_id, id, NULL);
	pthread_mutex_unlock(&j->lock);
	job_wake_all(woken);
}

void jobs_all_read(struct jobs *j)
{
	struct scan_waiter *woken;

	pthread_mutex_lock(&j->lock);
	woken = sought_take(j, sought_is_any, NULL, NULL);
	pthread_mutex_unlock(&j->lock);
	job_wake_all(woken);
}

/* Under the lock. Let the deep pass of this package begin before others. */
static void sought_begin(struct jobs *j, int64_t file)
{
	unsigned n = 0;

	for (struct scan_job *job = j->list; job; job = job->next)
		n += !job->running;
	if (n < EXTRA_JOBS && !job_find(j, file))
		job_add(j, file);
}

int jobs_seek(struct jobs *j, const struct scan_sought *what, void (*wake)(void *arg), void *arg)
{
	int64_t now_ms = clock_mono_ms();
	struct scan_waiter *w, *late;
	bool busy;

	pthread_mutex_lock(&j->lock);
	late = sought_take(j, sought_is_late, &now_ms, NULL);
	if (j->n_sought >= what->max)
		late = sought_take(j, sought_is_unwanted, NULL, late);
	busy = j->stopping || !j->n_started || j->n_sought >= what->max;
	if (!busy) {
		w = NEW(struct scan_waiter);
		*w = (struct scan_waiter){ .id = *what->id,
					   .flags = what->flags,
					   .wake = wake,
					   .arg = arg,
					   .until_ms = what->until_ms,
					   .likely = what->likely,
					   .wanted = what->wanted,
					   .next = j->sought };
		j->sought = w;
		j->n_sought++;
		__atomic_add_fetch(&j->n_seeks, 1, __ATOMIC_RELAXED);
		if (what->likely)
			sought_begin(j, what->likely);
		pthread_cond_broadcast(&j->kick);
	}
	pthread_mutex_unlock(&j->lock);
	job_wake_all(late);
	return busy ? SCAN_BUSY : 0;
}
