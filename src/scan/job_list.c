/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs that run or are requested, and their waiters.
 */
#include "scan/job.h"

#include <stdlib.h>
#include "base/condition.h"

struct jobs *jobs_new(struct scan *s)
{
	struct jobs *j = NEW(struct jobs);

	j->scan = s;
	pthread_mutex_init(&j->lock, NULL);
	condition_init(&j->kick);
	return j;
}

void jobs_free(struct jobs *j)
{
	if (!j)
		return;
	jobs_all_read(j);
	/* Jobs that were requested and never begun. */
	while (j->list)
		job_remove(j, j->list);
	for (unsigned i = 0; i < j->n_threads; i++)
		index_close(j->threads[i].index);
	pthread_mutex_destroy(&j->lock);
	pthread_cond_destroy(&j->kick);
	free(j->threads);
	free(j);
}

struct scan_job *job_find(struct jobs *j, int64_t file)
{
	for (struct scan_job *job = j->list; job; job = job->next)
		if (job->file == file)
			return job;
	return NULL;
}

struct scan_job *job_add(struct jobs *j, int64_t file)
{
	struct scan_job *job = NEW(struct scan_job);

	job->file = file;
	job->next = j->list;
	j->list = job;
	return job;
}

void jobs_changed(struct jobs *j)
{
	j->maybe_due = j->n_started > 0;
	j->due = j->maybe_due && !j->scan->opts.header_only;
	pthread_cond_broadcast(&j->kick);
}

bool job_is_wanted(const struct elf_facts *facts, const struct build_id *id, uint32_t flags)
{
	return facts->flags & flags && build_id_eq(&facts->build_id, id);
}

void job_wake_all(struct scan_waiter *w)
{
	while (w) {
		struct scan_waiter *next = w->next;

		w->wake(w->arg);
		free(w);
		w = next;
	}
}

void job_remove(struct jobs *j, struct scan_job *job)
{
	struct scan_job **at = &j->list;
	struct scan_waiter *waiters;

	pthread_mutex_lock(&j->lock);
	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	if (job->large_asked)
		j->large_asked = false;
	else if (job->large)
		j->large_running = false;
	waiters = job->waiters;
	for (struct scan_waiter *w = waiters; w; w = w->next)
		j->n_waiters--;
	waiters = sought_take_passed(j, job, waiters);
	if (job->began) {
		j->bytes_done += job->size;
		j->n_done++;
		j->ended_ms = clock_mono_ms();
	}
	/* A job that had to wait for this one (both are large, or of one package) may begin now. */
	jobs_changed(j);
	pthread_mutex_unlock(&j->lock);
	job_wake_all(waiters);
	buf_done(&job->map);
	buf_done(&job->points);
	free(job->seen);
	free(job);
}

void jobs_kick(struct jobs *j)
{
	pthread_mutex_lock(&j->lock);
	jobs_changed(j);
	pthread_mutex_unlock(&j->lock);
}

/* ---- requests ---- */

int jobs_want(struct jobs *j, const struct scan_wanted *what, void (*wake)(void *arg), void *arg)
{
	struct scan_waiter *w;
	struct scan_job *job;

	pthread_mutex_lock(&j->lock);
	if (j->stopping || j->n_waiters >= SCAN_MAX_WAITERS || !j->n_started) {
		pthread_mutex_unlock(&j->lock);
		return SCAN_BUSY;
	}
	job = job_find(j, what->file);
	if (!job)
		job = job_add(j, what->file);
	w = NEW(struct scan_waiter);
	*w = (struct scan_waiter){
		.id = *what->id, .flags = what->flags, .wake = wake, .arg = arg, .next = job->waiters
	};
	job->waiters = w;
	j->n_waiters++;
	__atomic_add_fetch(&job->n_wants, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&j->kick);
	pthread_mutex_unlock(&j->lock);
	return 0;
}

/* Under the lock. The job that has gone by a file with this build ID that a request seeks. */
static struct scan_job *job_with_sought(struct jobs *j, const struct build_id *id)
{
	for (struct scan_job *job = j->list; job; job = job->next)
		for (size_t i = 0; i < job->n_seen; i++)
			if (build_id_eq(&job->seen[i], id))
				return job;
	return NULL;
}

int jobs_partial(struct jobs *j, const struct scan_wanted *what, struct scan_partial *ret, struct err *err)
{
	AUTO(buf_done) struct buf blob = { 0 };
	AUTO(buf_done) struct buf points = { 0 };
	struct pkg_map *map = NULL;
	struct scan_job *job;
	int64_t file = 0;

	pthread_mutex_lock(&j->lock);
	job = what->file ? job_find(j, what->file) : job_with_sought(j, what->id);
	if (job && job->map.size) {
		file = job->file;
		buf_add(&blob, job->map.p, job->map.size);
		buf_add(&points, job->points.p, job->points.size);
	}
	pthread_mutex_unlock(&j->lock);
	if (!blob.size)
		return SCAN_NOT_YET;
	if (pkg_map_decode(buf_bytes(&blob), &map, err) < 0)
		return -1;
	for (uint32_t i = 0; i < map->n_entries; i++) {
		const struct pkg_entry *e = &map->entries[i];

		if (!e->is_elf || !job_is_wanted(&e->elf, what->id, what->flags))
			continue;
		*ret = (struct scan_partial){
			.file = file, .map = map, .number = e->number, .points = points
		};
		points = (struct buf){ 0 };
		return 0;
	}
	pkg_map_free(map);
	return SCAN_NOT_YET;
}

/* ---- progress ---- */

/* Under the lock. */
static bool job_is_for(const struct jobs *j, const struct scan_job *job, const struct build_id *id)
{
	for (const struct scan_waiter *w = job->waiters; w; w = w->next)
		if (build_id_eq(&w->id, id))
			return true;
	for (const struct scan_waiter *w = j->sought; w; w = w->next)
		if (w->likely == job->file && build_id_eq(&w->id, id))
			return true;
	return false;
}

bool jobs_reading(struct jobs *j, const struct build_id *id, struct scan_reading *ret)
{
	const struct scan_job *best = NULL;
	bool best_is_for = false;

	pthread_mutex_lock(&j->lock);
	for (const struct scan_job *job = j->list; job; job = job->next) {
		bool is_for;

		if (!job->running || !job->name[0])
			continue;
		is_for = job_is_for(j, job, id);
		if (best && (is_for != best_is_for ? best_is_for : job->size <= best->size))
			continue;
		best = job;
		best_is_for = is_for;
	}
	if (best) {
		*ret = (struct scan_reading){ .size = best->size };
		ret->done = MIN(best->size, __atomic_load_n(&best->done, __ATOMIC_RELAXED));
		memcpy(ret->name, best->name, sizeof(ret->name));
	}
	pthread_mutex_unlock(&j->lock);
	return best;
}

bool jobs_idle(struct jobs *j)
{
	bool idle;

	pthread_mutex_lock(&j->lock);
	idle = !j->list && !j->maybe_due && !j->n_choosing;
	pthread_mutex_unlock(&j->lock);
	return idle;
}

bool jobs_unfinished(struct jobs *j)
{
	bool unfinished;

	pthread_mutex_lock(&j->lock);
	unfinished = j->due;
	for (struct scan_job *job = j->list; job && !unfinished; job = job->next)
		unfinished = job->running;
	pthread_mutex_unlock(&j->lock);
	return unfinished;
}

size_t jobs_pending(struct jobs *j)
{
	size_t n;

	pthread_mutex_lock(&j->lock);
	n = j->maybe_due;
	for (struct scan_job *job = j->list; job; job = job->next)
		n++;
	pthread_mutex_unlock(&j->lock);
	return n;
}

void jobs_progress(struct jobs *j, struct scan_progress *p)
{
	pthread_mutex_lock(&j->lock);
	p->bytes_done = j->bytes_done;
	p->n_packages_deep = j->n_done;
	p->worked_mono_ms = MAX(p->worked_mono_ms, j->ended_ms);
	for (struct scan_job *job = j->list; job; job = job->next)
		if (job->running)
			p->bytes_done += MIN(job->size, __atomic_load_n(&job->done, __ATOMIC_RELAXED));
	pthread_mutex_unlock(&j->lock);
}
