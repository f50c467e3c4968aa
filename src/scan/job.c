/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deep passes: which package is next, and who waits for it.
 *
 * The index is the queue: what is due stands there (index_due), so nothing is lost at a crash. What runs, and
 * what requests wait for, stands here. A package that somebody waits for goes first. A waiter is woken once:
 * when its build ID has gone by in the running pass, or when the pass is through and its result committed,
 * either way.
 */
#include <errno.h>
#include <stdlib.h>
#include "scan/internal.h"

#define LARGE_PACKAGE MIB(64) /* from here on: one at a time, with all CPUs */
#define IDLE_LOOK_MS  5000    /* how often failed packages are looked up for their next try */
#define DUE_AT_ONCE   64u

struct waiter {
	struct build_id id;
	void (*wake)(void *arg);
	void *arg;
	bool passed; /* its build ID has gone by */
	struct waiter *next;
};

struct job {
	int64_t file;
	struct job *next;
	struct waiter *waiters;
	unsigned n_wants; /* ever */
	bool running, large;
	uint64_t size, done;    /* compressed bytes */
	struct buf map, points; /* the latest snapshot; empty: none */
};

struct jobs {
	struct scan *scan;
	pthread_mutex_t lock;
	pthread_cond_t kick;
	pthread_t *threads;
	unsigned n_threads, n_started;

	/* under lock */
	struct job *list; /* running, or wanted */
	unsigned n_waiters, n_running;
	bool maybe_due, stopping, large_running;
	uint64_t bytes_done, n_done;
};

/* One job's thread, as the tap sees it. */
struct running {
	struct jobs *jobs;
	struct job *job;
};

struct jobs *jobs_new(struct scan *s)
{
	struct jobs *j = NEW(struct jobs);
	pthread_condattr_t attr;

	j->scan = s;
	pthread_mutex_init(&j->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&j->kick, &attr);
	pthread_condattr_destroy(&attr);
	j->maybe_due = true;
	return j;
}

static struct job *job_find(struct jobs *j, int64_t file)
{
	for (struct job *job = j->list; job; job = job->next)
		if (job->file == file)
			return job;
	return NULL;
}

static struct job *job_add(struct jobs *j, int64_t file)
{
	struct job *job = NEW(struct job);

	job->file = file;
	job->next = j->list;
	j->list = job;
	return job;
}

/* Call back without the lock: a waiter may come right back in. Takes the list. */
static void wake_all(struct waiter *w)
{
	while (w) {
		struct waiter *next = w->next;

		w->wake(w->arg);
		free(w);
		w = next;
	}
}

static void job_remove(struct jobs *j, struct job *job)
{
	struct job **at = &j->list;
	struct waiter *w;

	pthread_mutex_lock(&j->lock);
	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	if (job->running)
		j->n_running--;
	if (job->large)
		j->large_running = false;
	w = job->waiters;
	for (struct waiter *i = w; i; i = i->next)
		j->n_waiters--;
	j->bytes_done += job->size;
	j->n_done++;
	pthread_cond_broadcast(&j->kick);
	pthread_mutex_unlock(&j->lock);
	wake_all(w);
	buf_done(&job->map);
	buf_done(&job->points);
	free(job);
}

/* ---- the tap ---- */

static int tap_progress(void *arg, uint64_t done)
{
	struct running *r = arg;

	__atomic_store_n(&r->job->done, done, __ATOMIC_RELAXED);
	return atomic_load_explicit(&r->jobs->scan->stopping, memory_order_relaxed);
}

static unsigned tap_wanted(void *arg)
{
	struct running *r = arg;

	return __atomic_load_n(&r->job->n_wants, __ATOMIC_RELAXED);
}

static bool tap_seen(void *arg, const struct build_id *id)
{
	struct running *r = arg;
	bool any = false;

	pthread_mutex_lock(&r->jobs->lock);
	for (struct waiter *w = r->job->waiters; w; w = w->next) {
		if (build_id_eq(&w->id, id)) {
			w->passed = true;
			any = true;
		}
	}
	pthread_mutex_unlock(&r->jobs->lock);
	return any;
}

static void tap_partial(void *arg, struct buf *map, struct buf *points)
{
	struct running *r = arg;
	struct waiter **at, *passed = NULL;

	pthread_mutex_lock(&r->jobs->lock);
	buf_done(&r->job->map);
	buf_done(&r->job->points);
	r->job->map = *map;
	r->job->points = *points;
	memset(map, 0, sizeof(*map));
	memset(points, 0, sizeof(*points));
	for (at = &r->job->waiters; *at;) {
		struct waiter *w = *at;

		if (w->passed) {
			*at = w->next;
			w->next = passed;
			passed = w;
			r->jobs->n_waiters--;
		} else {
			at = &w->next;
		}
	}
	pthread_mutex_unlock(&r->jobs->lock);
	wake_all(passed);
}

/* ---- one job ---- */

static void stored(void *arg, bool ok)
{
	struct running *r = arg;

	if (!ok) {
		/* The index took nothing: it is still due. Do not run at it again at once. */
		pthread_mutex_lock(&r->jobs->lock);
		r->jobs->maybe_due = false;
		pthread_mutex_unlock(&r->jobs->lock);
	}
	job_remove(r->jobs, r->job);
	free(r);
}

static int run_pass(struct running *r, const struct index_file *f, struct deep_result *ret, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	AUTO(source_closep) struct source *src = NULL;
	AUTO(mem_freep) char *path = mem_strndup(f->path.p, f->path.size);
	struct stat st, now;
	int status;
	struct deep_tap tap = { r, tap_progress, tap_wanted, tap_seen, tap_partial };

	status = file_open(path, &fd, &st, err);
	if (status == FILE_MISSING)
		return err_set(err, ERR_CHANGED, "it is gone");
	if (status < 0)
		return -1;
	src = source_of_fd(TAKE_FD(fd), (uint64_t)st.st_size, st.st_mtim.tv_sec, path);
	if (deep_pass(src, &st, path_basename(f->path), r->job->large ? pool_cpus() : 0, &tap, ret, err) < 0)
		return -1;
	if (stat(path, &now) != 0 || now.st_size != st.st_size || now.st_mtim.tv_sec != st.st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != st.st_mtim.tv_nsec || now.st_ino != st.st_ino) {
		deep_result_done(ret);
		return err_set(err, ERR_CHANGED, "it changed while it was read");
	}
	return 0;
}

static void copy_file(struct change *c, const struct index_file *f)
{
	c->file = *f;
	c->file.path = arena_str(&c->arena, f->path);
	c->file.reason = arena_str(&c->arena, f->reason);
}

/* Run @job to its end; its result goes to the writer, which ends the job after the commit. */
static void run(struct jobs *j, struct job *job, const struct index_file *f)
{
	struct running *r = NEW(struct running);
	struct deep_result *deep = NEW(struct deep_result);
	struct change *c;
	struct err err = { 0 };
	int64_t from_ms = clock_mono_ms();
	int status;

	r->jobs = j;
	r->job = job;
	status = run_pass(r, f, deep, &err);
	if (status < 0 && err.kind == ERR_CANCELLED) {
		free(deep);
		job_remove(j, job);
		free(r);
		return;
	}
	if (status < 0) {
		free(deep);
		log_warn("scan", STR_FMT ": %s", STR_ARG(f->path), err.text);
		scan_count_failed(j->scan);
		c = change_new(CHANGE_FAIL);
		c->why = err;
		c->next_try_s = retry_at(clock_wall_s(), f->tries);
	} else {
		log_info("scan", STR_FMT ": %zu build IDs, %zu KiB map, %zu KiB resume points, %.1f s",
			 STR_ARG(f->path), deep->n_artifacts, deep->map.size >> 10, deep->points.size >> 10,
			 (double)(clock_mono_ms() - from_ms) / 1000.0);
		c = change_new(CHANGE_MAP);
		c->deep = deep;
	}
	copy_file(c, f);
	c->done = stored;
	c->arg = r;
	writer_push(j->scan->writer, c);
}

/* ---- choosing ---- */

/*
 * The next job, marked as running, with its row: first what somebody waits for, then what the index says is
 * due. NULL: nothing now. Called and returns under the lock, which it lets go while it asks the index.
 */
static struct job *choose(struct jobs *j, struct index *ix, struct arena *a, struct index_file *ret)
{
	struct index_file *due;
	struct err err = { 0 };
	size_t n = 0;
	int r;

	for (struct job *job = j->list; job; job = job->next) {
		if (job->running)
			continue;
		job->running = true;
		j->n_running++;
		pthread_mutex_unlock(&j->lock);
		r = index_file_by_id(ix, job->file, a, ret, &err);
		pthread_mutex_lock(&j->lock);
		if (r == 0) {
			job->size = ret->size;
			return job;
		}
		/* It is gone: whoever waits asks the index again and finds nothing. */
		pthread_mutex_unlock(&j->lock);
		job_remove(j, job);
		pthread_mutex_lock(&j->lock);
		return NULL;
	}
	if (j->scan->opts.header_only)
		j->maybe_due = false;
	if (!j->maybe_due)
		return NULL;
	j->maybe_due = false;
	pthread_mutex_unlock(&j->lock);
	r = index_due(ix, clock_wall_s(), DUE_AT_ONCE, a, &due, &n, &err);
	pthread_mutex_lock(&j->lock);
	if (r < 0) {
		log_error("scan", "what is due: %s", err.text);
		return NULL;
	}
	if (n == DUE_AT_ONCE)
		j->maybe_due = true;
	for (size_t i = 0; i < n; i++) {
		bool large = due[i].size >= LARGE_PACKAGE;
		struct job *job;

		if (job_find(j, due[i].id) || (large && j->large_running))
			continue;
		j->maybe_due = true;
		job = job_add(j, due[i].id);
		job->running = true;
		job->large = large;
		job->size = due[i].size;
		j->n_running++;
		if (large)
			j->large_running = true;
		*ret = due[i];
		return job;
	}
	return NULL;
}

static void wait_ms(struct jobs *j, int64_t ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += ms / 1000;
	ts.tv_nsec += (ms % 1000) * 1000000;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_sec++;
		ts.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(&j->kick, &j->lock, &ts);
}

static void *job_main(void *arg)
{
	struct jobs *j = arg;
	struct index_options opts = { .read_only = true };
	struct index *ix = NULL;
	struct arena a;
	struct err err = { 0 };

	pthread_setname_np(pthread_self(), "scan-deep");
	arena_init(&a);
	if (index_open(j->scan->opts.index_path, &opts, &ix, &err) < 0) {
		log_error("scan", "deep passes cannot read the index: %s", err.text);
		return NULL;
	}
	pthread_mutex_lock(&j->lock);
	while (!j->stopping) {
		struct index_file f;
		struct job *job;

		arena_reset(&a);
		job = choose(j, ix, &a, &f);
		if (job) {
			pthread_mutex_unlock(&j->lock);
			stats_busy(SCAN_ROLE_SCAN, true);
			run(j, job, &f);
			stats_busy(SCAN_ROLE_SCAN, false);
			pthread_mutex_lock(&j->lock);
			continue;
		}
		if (j->stopping)
			break;
		wait_ms(j, IDLE_LOOK_MS);
		/* A failed one's time may have come; asking is cheap. */
		j->maybe_due = true;
	}
	pthread_mutex_unlock(&j->lock);
	index_close(ix);
	arena_done(&a);
	return NULL;
}

/* ---- for the others ---- */

void jobs_start(struct jobs *j, unsigned n_threads)
{
	j->threads = NEW_N(pthread_t, n_threads);
	j->n_threads = n_threads;
	for (; j->n_started < n_threads; j->n_started++)
		if (pthread_create(&j->threads[j->n_started], NULL, job_main, j) != 0)
			break;
}

void jobs_kick(struct jobs *j)
{
	pthread_mutex_lock(&j->lock);
	j->maybe_due = true;
	pthread_cond_broadcast(&j->kick);
	pthread_mutex_unlock(&j->lock);
}

bool jobs_idle(struct jobs *j)
{
	bool idle;

	pthread_mutex_lock(&j->lock);
	idle = !j->list && !j->maybe_due;
	pthread_mutex_unlock(&j->lock);
	return idle;
}

int jobs_want(struct jobs *j, int64_t file, const struct build_id *id, void (*wake)(void *arg), void *arg,
	      struct err *err)
{
	struct waiter *w;
	struct job *job;

	pthread_mutex_lock(&j->lock);
	if (j->stopping || j->n_waiters >= SCAN_MAX_WAITERS || !j->n_started) {
		pthread_mutex_unlock(&j->lock);
		return SCAN_BUSY;
	}
	job = job_find(j, file);
	if (!job)
		job = job_add(j, file);
	w = NEW(struct waiter);
	w->id = *id;
	w->wake = wake;
	w->arg = arg;
	w->next = job->waiters;
	job->waiters = w;
	j->n_waiters++;
	__atomic_add_fetch(&job->n_wants, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&j->kick);
	pthread_mutex_unlock(&j->lock);
	return 0;
}

int jobs_partial(struct jobs *j, int64_t file, const struct build_id *id, struct pkg_map **ret_map,
		 uint32_t *ret_number, struct buf *ret_points, struct err *err)
{
	AUTO(buf_done) struct buf blob = { 0 };
	AUTO(buf_done) struct buf points = { 0 };
	struct pkg_map *map = NULL;
	struct job *job;

	pthread_mutex_lock(&j->lock);
	job = job_find(j, file);
	if (job && job->map.size) {
		buf_add(&blob, job->map.p, job->map.size);
		buf_add(&points, job->points.p, job->points.size);
	}
	pthread_mutex_unlock(&j->lock);
	if (!blob.size)
		return SCAN_NOT_YET;
	if (pkg_map_decode(buf_bytes(&blob), &map, err) < 0)
		return -1;
	for (uint32_t i = 0; i < map->n_entries; i++) {
		if (!map->entries[i].is_elf || !build_id_eq(&map->entries[i].elf.build_id, id))
			continue;
		*ret_map = map;
		*ret_number = map->entries[i].number;
		*ret_points = points;
		memset(&points, 0, sizeof(points));
		return 0;
	}
	pkg_map_free(map);
	return SCAN_NOT_YET;
}

size_t jobs_pending(struct jobs *j)
{
	size_t n;

	pthread_mutex_lock(&j->lock);
	n = j->maybe_due;
	for (struct job *job = j->list; job; job = job->next)
		n++;
	pthread_mutex_unlock(&j->lock);
	return n;
}

void jobs_progress(struct jobs *j, struct scan_progress *p)
{
	pthread_mutex_lock(&j->lock);
	p->bytes_done = j->bytes_done;
	p->n_packages_deep = j->n_done;
	for (struct job *job = j->list; job; job = job->next)
		if (job->running)
			p->bytes_done += MIN(job->size, __atomic_load_n(&job->done, __ATOMIC_RELAXED));
	pthread_mutex_unlock(&j->lock);
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
		pthread_join(j->threads[i], NULL);
}

void jobs_free(struct jobs *j)
{
	if (!j)
		return;
	/* Wanted, but never begun. */
	while (j->list)
		job_remove(j, j->list);
	pthread_mutex_destroy(&j->lock);
	pthread_cond_destroy(&j->kick);
	free(j->threads);
	free(j);
}
