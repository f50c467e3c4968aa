/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing the next deep pass, and the threads that do them.
 */
#include "scan/job.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/condition.h"

#define LARGE_PACKAGE \
	MIB(64)           /* from this size on: one at a time, with all CPUs; and one more for a request */
#define IDLE_LOOK_MS 5000 /* interval at which failed packages are checked for their next try */
#define DUE_AT_ONCE  64u
#define DUE_AT_MOST  4096u

/* ---- choosing ---- */

/* Is there a deep pass to do for this row? A request may come for a package that another pass has just
 * finished. */
static bool package_is_due(const struct index_file *f)
{
	if (f->kind != INDEX_PACKAGE || f->state == INDEX_SCANNED)
		return false;
	return f->state != INDEX_FAILED || index_is_retried(f, clock_wall_s());
}

/* For people, and for a header of HTTP: one line of ASCII. */
static void job_set_name(struct scan_job *job, struct str name)
{
	size_t n = MIN(name.size, sizeof(job->name) - 1);

	for (size_t i = 0; i < n; i++)
		job->name[i] = name.p[i] >= ' ' && name.p[i] < 0x7f ? name.p[i] : '?';
	job->name[n] = '\0';
}

/*
 * Give @job to this thread, and read its row. The row is read after the job is marked as running, so that the
 * result of an earlier pass is seen and nothing is decoded twice. NULL: there is nothing to do; the job is
 * ended, and its waiters ask the index again. Called and returns under the lock, which it releases meanwhile.
 */
static struct scan_job *job_claim(struct jobs *j, struct index *ix, struct scan_job *job, struct arena *a,
				  struct index_file *ret)
{
	struct err err = { 0 };
	int r;

	job->running = true;
	pthread_mutex_unlock(&j->lock);
	r = index_file_by_id(ix, job->file, a, ret, &err);
	pthread_mutex_lock(&j->lock);
	if (r == 0 && package_is_due(ret)) {
		job->began = true;
		job->size = ret->size;
		job_set_name(job, path_basename(ret->path));
		/* It does not wait for the large one that runs, and gets helper threads, too. */
		if (ret->size >= LARGE_PACKAGE && !job->large && !j->large_asked)
			job->large = job->large_asked = j->large_asked = true;
		return job;
	}
	if (r < 0)
		j->not_before_ms = clock_mono_ms() + IDLE_LOOK_MS;
	pthread_mutex_unlock(&j->lock);
	if (r < 0)
		log_error("scan", "file %lld: %s", (long long)job->file, err.text);
	job_remove(j, job);
	pthread_mutex_lock(&j->lock);
	return NULL;
}

static struct scan_job *job_first_wanted(struct jobs *j)
{
	for (struct scan_job *job = j->list; job; job = job->next)
		if (!job->running)
			return job;
	return NULL;
}

/* Add a job for the first package that is due in the index and may begin now; NULL: none. The lock as
 * above. */
static struct scan_job *job_first_due(struct jobs *j, struct index *ix, struct arena *a)
{
	for (size_t max = DUE_AT_ONCE;; max *= 8) {
		struct index_file *due;
		struct err err = { 0 };
		size_t n = 0;
		int r;

		pthread_mutex_unlock(&j->lock);
		r = index_due(ix, clock_wall_s(), max, a, &due, &n, &err);
		if (r < 0)
			log_error("scan", "packages that are due: %s", err.text);
		pthread_mutex_lock(&j->lock);
		if (r < 0)
			j->not_before_ms = MAX(j->not_before_ms, clock_mono_ms() + IDLE_LOOK_MS);
		if (r < 0 || j->stopping)
			return NULL;
		for (size_t i = 0; i < n; i++) {
			bool large = due[i].size >= LARGE_PACKAGE;
			struct scan_job *job;

			if (job_find(j, due[i].id) || (large && (j->large_running || j->large_asked)))
				continue;
			job = job_add(j, due[i].id);
			if (large)
				job->large = j->large_running = true;
			return job;
		}
		/* All of these run already, or are large while another large one runs: the index may list
		 * others after them. */
		if (n < max || max >= DUE_AT_MOST)
			return NULL;
	}
}

/*
 * The next job, marked as running, with its row: first the requested ones, then those due in the index. NULL:
 * none now. Called and returns under the lock, which it releases while it reads the index.
 */
static struct scan_job *job_choose(struct jobs *j, struct index *ix, struct arena *a, struct index_file *ret)
{
	struct scan_job *job = job_first_wanted(j);

	if (job)
		return job_claim(j, ix, job, a, ret);
	if (!j->maybe_due)
		return NULL;
	j->maybe_due = false;
	if (j->scan->opts.header_only) {
		j->due = false;
		return NULL;
	}
	/* Packages that wait for their time are not read yet: @due stays. */
	if (clock_mono_ms() < j->not_before_ms)
		return NULL;
	job = job_first_due(j, ix, a);
	if (!job) {
		/* Unless jobs_changed() was called while the lock was released, even if another thread
		 * handles that. */
		j->due = j->due && (j->maybe_due || j->n_choosing > 1 || clock_mono_ms() < j->not_before_ms);
		return NULL;
	}
	/* More packages may be due: wake the threads that found `maybe_due` false meanwhile and went to
	 * sleep. */
	j->maybe_due = true;
	pthread_cond_broadcast(&j->kick);
	return job_claim(j, ix, job, a, ret);
}

static void *job_main(void *arg)
{
	struct job_thread *self = arg;
	struct jobs *j = self->jobs;
	struct arena a;
	int usual = getpriority(PRIO_PROCESS, 0);

	pthread_setname_np(pthread_self(), "scan-deep");
	/* Of this thread, and of the helpers that it starts. */
	if (nice(POOL_NICE) == -1) {
		/* A failure costs no more than the priority. */
	}
	arena_init(&a);
	pthread_mutex_lock(&j->lock);
	while (!j->stopping) {
		struct index_file f;
		struct scan_job *job;

		arena_reset(&a);
		j->n_choosing++;
		job = job_choose(j, self->index, &a, &f);
		j->n_choosing--;
		if (job) {
			pthread_mutex_unlock(&j->lock);
			stats_busy(SCAN_ROLE_SCAN, true);
			job_run(j, job, &f, usual);
			stats_busy(SCAN_ROLE_SCAN, false);
			pthread_mutex_lock(&j->lock);
			continue;
		}
		/* job_choose() releases the lock: a change meanwhile woke no thread. */
		if (j->stopping || j->maybe_due || job_first_wanted(j))
			continue;
		if (!j->due) {
			pthread_mutex_unlock(&j->lock);
			scan_check_read(j->scan);
			pthread_mutex_lock(&j->lock);
			if (j->stopping || j->maybe_due || job_first_wanted(j))
				continue;
		}
		/* The time of a failed package may have come; the check is cheap. */
		if (!condition_wait(&j->kick, &j->lock, IDLE_LOOK_MS))
			j->maybe_due = true;
	}
	pthread_mutex_unlock(&j->lock);
	arena_done(&a);
	return NULL;
}

/* ---- beginning and ending ---- */

int jobs_start(struct jobs *j, unsigned n_threads, struct err *err)
{
	struct index_options opts = { .read_only = true };

	j->threads = NEW_N(struct job_thread, n_threads);
	for (; j->n_threads < n_threads; j->n_threads++) {
		struct job_thread *t = &j->threads[j->n_threads];

		t->jobs = j;
		if (index_open(j->scan->opts.index_path, &opts, &t->index, err) < 0)
			return err_in(err, "deep passes");
	}
	pthread_mutex_lock(&j->lock);
	j->maybe_due = true;
	j->due = !j->scan->opts.header_only;
	while (j->n_started < n_threads &&
	       pthread_create(&j->threads[j->n_started].id, NULL, job_main, &j->threads[j->n_started]) == 0)
		j->n_started++;
	pthread_mutex_unlock(&j->lock);
	return j->n_started ? 0 : err_set(err, ERR_LIMIT, "cannot start a thread for deep passes");
}

void jobs_stop(struct jobs *j)
{
	if (!j)
		return;
	pthread_mutex_lock(&j->lock);
	j->stopping = true;
	pthread_cond_broadcast(&j->kick);
	pthread_mutex_unlock(&j->lock);
	for (unsigned i = 0; i < j->n_started; i++)
		pthread_join(j->threads[i].id, NULL);
}
