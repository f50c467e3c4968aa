/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One job: the deep pass over its package, the waiters that are woken meanwhile, and the result.
 */
#include "scan/job.h"

#include <stdlib.h>
#include "s3/s3.h"

/* How long no job begins by itself after the index could not store a result (a full disk). */
#define NOT_STORED_MS 60000

struct job_pass {
	struct jobs *jobs;
	struct scan_job *job;
	int nice; /* of the service */
};

/* ---- callbacks of the deep pass ---- */

static int tap_progress(void *arg, uint64_t done)
{
	struct job_pass *r = arg;

	__atomic_store_n(&r->job->done, done, __ATOMIC_RELAXED);
	return atomic_load_explicit(&r->jobs->scan->stopping, memory_order_relaxed);
}

static unsigned tap_wanted(void *arg)
{
	struct job_pass *r = arg;

	return __atomic_load_n(&r->job->n_wants, __ATOMIC_RELAXED) +
	       __atomic_load_n(&r->jobs->n_seeks, __ATOMIC_RELAXED);
}

/* Under the lock. A request waits for a file in it, or in any package, and no likelier one is being read. */
static bool job_is_urgent(struct jobs *j, const struct scan_job *job)
{
	if (job->waiters)
		return true;
	for (const struct scan_waiter *w = j->sought; w; w = w->next) {
		const struct scan_job *likely = w->likely ? job_find(j, w->likely) : NULL;

		if (!likely || !likely->running || likely == job)
			return true;
	}
	return false;
}

static bool tap_is_urgent(void *arg)
{
	struct job_pass *r = arg;
	bool urgent;

	pthread_mutex_lock(&r->jobs->lock);
	urgent = job_is_urgent(r->jobs, r->job);
	pthread_mutex_unlock(&r->jobs->lock);
	return urgent;
}

static bool tap_seen(void *arg, const struct elf_facts *what)
{
	struct job_pass *r = arg;
	bool any = false;

	pthread_mutex_lock(&r->jobs->lock);
	for (struct scan_waiter *w = r->job->waiters; w; w = w->next) {
		if (job_is_wanted(what, &w->id, w->flags)) {
			w->passed = true;
			any = true;
		}
	}
	any |= sought_seen(r->jobs, r->job, what);
	pthread_mutex_unlock(&r->jobs->lock);
	return any;
}

static void tap_partial(void *arg, struct buf *map, struct buf *points)
{
	struct job_pass *r = arg;
	struct scan_waiter **at, *passed = NULL;

	pthread_mutex_lock(&r->jobs->lock);
	buf_done(&r->job->map);
	buf_done(&r->job->points);
	r->job->map = *map;
	r->job->points = *points;
	memset(map, 0, sizeof(*map));
	memset(points, 0, sizeof(*points));
	for (at = &r->job->waiters; *at;) {
		struct scan_waiter *w = *at;

		if (w->passed) {
			*at = w->next;
			w->next = passed;
			passed = w;
			r->jobs->n_waiters--;
		} else {
			at = &w->next;
		}
	}
	passed = sought_take_passed(r->jobs, r->job, passed);
	pthread_mutex_unlock(&r->jobs->lock);
	job_wake_all(passed);
}

/* ---- the pass and its result ---- */

static void job_stored(void *arg, bool ok)
{
	struct job_pass *r = arg;

	if (!ok) {
		/* The package is still due. Beginning again at once would decode it in a loop for as long as
		 * the disk is full. */
		pthread_mutex_lock(&r->jobs->lock);
		r->jobs->not_before_ms = clock_mono_ms() + NOT_STORED_MS;
		pthread_mutex_unlock(&r->jobs->lock);
	}
	job_remove(r->jobs, r->job);
	free(r);
}

static int pass_open(const char *path, const struct index_file *f, struct source **ret, struct stat *ret_st,
		     struct err *err)
{
	AUTO(fd_close) int fd = -1;
	struct s3 *s3;
	int status;

	if (s3_is_url(f->path)) {
		index_file_stat(f, ret_st);
		if (s3_shared(&s3, err) < 0 || s3_open(s3, path, ret_st, ret, NULL, err) < 0)
			return -1;
		source_pass(*ret);
		return 0;
	}
	status = file_open(path, &fd, ret_st, err);
	if (status == FILE_MISSING)
		return err_set(err, ERR_CHANGED, "the file has vanished");
	if (status == 0)
		*ret = source_of_fd(TAKE_FD(fd), (uint64_t)ret_st->st_size, ret_st->st_mtim.tv_sec, path);
	return status;
}

static int pass_run(struct job_pass *r, const struct index_file *f, struct deep_result *ret, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(mem_freep) char *path = mem_strndup(f->path.p, f->path.size);
	struct stat st, now;
	struct deep_input in;
	struct deep_tap tap = { r, tap_progress, tap_wanted, tap_seen, tap_partial, tap_is_urgent };

	if (pass_open(path, f, &src, &st, err) < 0)
		return -1;
	in = (struct deep_input){
		src,    &st, path_basename(f->path), r->job->large ? pool_cpus() : 0, r->nice + POOL_NICE,
		r->nice
	};
	if (deep_pass(&in, &tap, ret, err) < 0)
		return -1;
	/* Of an object each answer was compared. */
	if (s3_is_url(f->path))
		return 0;
	if (stat(path, &now) != 0 || now.st_size != st.st_size || now.st_mtim.tv_sec != st.st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != st.st_mtim.tv_nsec || now.st_ino != st.st_ino) {
		deep_result_done(ret);
		return err_set(err, ERR_CHANGED, "the file changed while it was read");
	}
	return 0;
}

void job_run(struct jobs *j, struct scan_job *job, const struct index_file *f, int nice)
{
	struct job_pass *r = NEW(struct job_pass);
	struct deep_result *deep = NEW(struct deep_result);
	struct change *c;
	struct err err = { 0 };
	int64_t from_ms = clock_mono_ms();
	int status;

	r->jobs = j;
	r->job = job;
	r->nice = nice;
	status = pass_run(r, f, deep, &err);
	if (status < 0 && err.kind == ERR_CANCELLED) {
		free(deep);
		job_remove(j, job);
		free(r);
		return;
	}
	if (status < 0) {
		free(deep);
		scan_failed(j->scan, f->path, &err);
		c = change_new(CHANGE_FAIL);
		c->why = err;
		c->next_try_s = retry_at(clock_wall_s(), f->tries);
	} else {
		log_info("scan", STR_FMT ": %zu build IDs, %zu KiB map, %zu KiB resume points, %.1f s",
			 STR_ARG(f->path), deep->n_artifacts, deep->map.size >> 10, deep->points.size >> 10,
			 (double)(clock_mono_ms() - from_ms) / 1000.0);
		if (deep->n_left_out)
			log_warn("scan",
				 STR_FMT ": %zu members, which cost too much to read again, have no build ID",
				 STR_ARG(f->path), deep->n_left_out);
		c = change_new(CHANGE_MAP);
		c->deep = deep;
	}
	change_set_file(c, f);
	c->done = job_stored;
	c->arg = r;
	writer_push(j->scan->writer, c);
}
