/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deep passes: which package is next, and who waits for it.
 *
 * The index is the queue: what is due stands there (index_due), so nothing is lost at a crash. What runs, and
 * what requests wait for, stands here. A package that somebody waits for goes first. A waiter is woken once:
 * when what it waits for has gone by in the running pass, or when the pass is through and its result
 * committed, either way.
 */
#include <stdlib.h>
#include <unistd.h>
#include "base/condition.h"
#include "scan/internal.h"

#define LARGE_PACKAGE MIB(64) /* from here on: one at a time, with all CPUs */
#define IDLE_LOOK_MS  5000    /* how often failed packages are looked up for their next try */
#define DUE_AT_ONCE   64u
#define DUE_AT_MOST   4096u
/* After a result that the index did not take (a full disk), before the next begins. */
#define NOT_STORED_MS 60000

struct waiter {
	struct build_id id;
	uint32_t flags; /* ELF_IS_*: any of these */
	void (*wake)(void *arg);
	void *arg;
	bool passed; /* it has gone by */
	struct waiter *next;
};

struct job {
	int64_t file;
	struct job *next;
	struct waiter *waiters;
	unsigned n_wants; /* ever */
	bool running;     /* a thread has it, or its result is on the way into the index */
	bool began;       /* there was something to do */
	bool large;
	uint64_t size, done;    /* compressed bytes */
	struct buf map, points; /* the latest snapshot; empty: none */
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
	struct job *list; /* running, or wanted */
	unsigned n_waiters, n_choosing;
	bool maybe_due; /* index_due() may have something that was not there the last time */
	bool due;       /* and it is likely to: since it was told so, no look has found nothing to begin */
	bool stopping, large_running;
	int64_t not_before_ms; /* monotonic: nothing but what is wanted begins before */
	uint64_t bytes_done, n_done;
	int64_t ended_ms; /* the last job, monotonic */
};

/* One job's thread, as the tap sees it. */
struct running {
	struct jobs *jobs;
	struct job *job;
};

struct jobs *jobs_new(struct scan *s)
{
	struct jobs *j = NEW(struct jobs);

	j->scan = s;
	pthread_mutex_init(&j->lock, NULL);
	condition_init(&j->kick);
	return j;
}

static struct job *job_find(struct jobs *j, int64_t file)
{
	for (struct job *job = j->list; job; job = job->next)
		if (job->file == file)
			return job;
	return NULL;
}

/* Under the lock: something has changed in the index. */
static void may_be_due(struct jobs *j)
{
	j->maybe_due = j->n_started > 0;
	j->due = j->maybe_due && !j->scan->opts.header_only;
	pthread_cond_broadcast(&j->kick);
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
	if (job->large)
		j->large_running = false;
	w = job->waiters;
	for (struct waiter *i = w; i; i = i->next)
		j->n_waiters--;
	if (job->began) {
		j->bytes_done += job->size;
		j->n_done++;
		j->ended_ms = clock_mono_ms();
	}
	/* What had to wait for this one (large, or wanted once more) may go now. */
	may_be_due(j);
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

static bool is_it(const struct elf_facts *what, const struct build_id *id, uint32_t flags)
{
	return what->flags & flags && build_id_eq(&what->build_id, id);
}

static bool tap_seen(void *arg, const struct elf_facts *what)
{
	struct running *r = arg;
	bool any = false;

	pthread_mutex_lock(&r->jobs->lock);
	for (struct waiter *w = r->job->waiters; w; w = w->next) {
		if (is_it(what, &w->id, w->flags)) {
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
		/* The index took nothing: it is still due. To run at it again at once would be a loop that
		 * decodes the same package for as long as the disk is full. */
		pthread_mutex_lock(&r->jobs->lock);
		r->jobs->not_before_ms = clock_mono_ms() + NOT_STORED_MS;
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

/* Is there something to do for this row? A wish may come for one that another pass has just ended. */
static bool is_due(const struct index_file *f)
{
	if (f->kind != INDEX_PACKAGE || f->state == INDEX_SCANNED)
		return false;
	return f->state != INDEX_FAILED || (f->next_try_s > 0 && f->next_try_s <= clock_wall_s());
}

/*
 * Make @job this thread's, and read its row: behind the marking, so that what an earlier pass has stored is
 * seen and nothing is decoded twice. NULL: there is nothing to do; it is ended, whoever waits asks the index
 * again. Called and returns under the lock, which it lets go.
 */
static struct job *claim(struct jobs *j, struct index *ix, struct job *job, struct arena *a,
			 struct index_file *ret)
{
	struct err err = { 0 };
	int r;

	job->running = true;
	pthread_mutex_unlock(&j->lock);
	r = index_file_by_id(ix, job->file, a, ret, &err);
	pthread_mutex_lock(&j->lock);
	if (r == 0 && is_due(ret)) {
		job->began = true;
		job->size = ret->size;
		if (ret->size >= LARGE_PACKAGE && !j->large_running)
			job->large = j->large_running = true;
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

static struct job *first_wanted(struct jobs *j)
{
	for (struct job *job = j->list; job; job = job->next)
		if (!job->running)
			return job;
	return NULL;
}

/* Of what the index says is due, the first that may begin now, added to the list; NULL: none. Lock as above.
 */
static struct job *first_due(struct jobs *j, struct index *ix, struct arena *a)
{
	for (size_t max = DUE_AT_ONCE;; max *= 8) {
		struct index_file *due;
		struct err err = { 0 };
		size_t n = 0;
		int r;

		pthread_mutex_unlock(&j->lock);
		r = index_due(ix, clock_wall_s(), max, a, &due, &n, &err);
		if (r < 0)
			log_error("scan", "what is due: %s", err.text);
		pthread_mutex_lock(&j->lock);
		if (r < 0 || j->stopping)
			return NULL;
		for (size_t i = 0; i < n; i++) {
			bool large = due[i].size >= LARGE_PACKAGE;
			struct job *job;

			if (job_find(j, due[i].id) || (large && j->large_running))
				continue;
			job = job_add(j, due[i].id);
			if (large)
				job->large = j->large_running = true;
			return job;
		}
		/* All of these run, or are large while another large one does: there may be others behind. */
		if (n < max || max >= DUE_AT_MOST)
			return NULL;
	}
}

/*
 * The next job, marked as running, with its row: first what somebody waits for, then what the index says is
 * due. NULL: nothing now. Called and returns under the lock, which it lets go while it asks the index.
 */
static struct job *choose(struct jobs *j, struct index *ix, struct arena *a, struct index_file *ret)
{
	struct job *job = first_wanted(j);

	if (job)
		return claim(j, ix, job, a, ret);
	if (!j->maybe_due)
		return NULL;
	j->maybe_due = false;
	if (j->scan->opts.header_only || clock_mono_ms() < j->not_before_ms) {
		j->due = false;
		return NULL;
	}
	job = first_due(j, ix, a);
	if (!job) {
		/* Unless it was told anew while the lock was let go, also if that is looked at by another. */
		j->due = j->due && (j->maybe_due || j->n_choosing > 1);
		return NULL;
	}
	/* There may be more: for the threads that found `maybe_due` false meanwhile and went to sleep, too.
	 */
	j->maybe_due = true;
	pthread_cond_broadcast(&j->kick);
	return claim(j, ix, job, a, ret);
}

static void *job_main(void *arg)
{
	struct job_thread *self = arg;
	struct jobs *j = self->jobs;
	struct arena a;

	pthread_setname_np(pthread_self(), "scan-deep");
	/* Of this thread, and of the helpers that it starts. */
	nice(POOL_NICE);
	arena_init(&a);
	pthread_mutex_lock(&j->lock);
	while (!j->stopping) {
		struct index_file f;
		struct job *job;

		arena_reset(&a);
		j->n_choosing++;
		job = choose(j, self->index, &a, &f);
		j->n_choosing--;
		if (job) {
			pthread_mutex_unlock(&j->lock);
			stats_busy(SCAN_ROLE_SCAN, true);
			run(j, job, &f);
			stats_busy(SCAN_ROLE_SCAN, false);
			pthread_mutex_lock(&j->lock);
			continue;
		}
		/* choose() lets the lock go: whoever came meanwhile has kicked nobody awake. */
		if (j->stopping || j->maybe_due || first_wanted(j))
			continue;
		/* A failed one's time may have come; asking is cheap. */
		if (!condition_wait(&j->kick, &j->lock, IDLE_LOOK_MS))
			j->maybe_due = true;
	}
	pthread_mutex_unlock(&j->lock);
	arena_done(&a);
	return NULL;
}

/* ---- for the others ---- */

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
	return j->n_started ? 0 : err_set(err, ERR_LIMIT, "no thread for deep passes");
}

void jobs_kick(struct jobs *j)
{
	pthread_mutex_lock(&j->lock);
	may_be_due(j);
	pthread_mutex_unlock(&j->lock);
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
	for (struct job *job = j->list; job && !unfinished; job = job->next)
		unfinished = job->running;
	pthread_mutex_unlock(&j->lock);
	return unfinished;
}

int jobs_want(struct jobs *j, int64_t file, const struct build_id *id, uint32_t flags,
	      void (*wake)(void *arg), void *arg, struct err *err)
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
	w->flags = flags;
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

int jobs_partial(struct jobs *j, int64_t file, const struct build_id *id, uint32_t flags,
		 struct pkg_map **ret_map, uint32_t *ret_number, struct buf *ret_points, struct err *err)
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
		if (!map->entries[i].is_elf || !is_it(&map->entries[i].elf, id, flags))
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
	p->worked_mono_ms = MAX(p->worked_mono_ms, j->ended_ms);
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
		pthread_join(j->threads[i].id, NULL);
}

void jobs_free(struct jobs *j)
{
	if (!j)
		return;
	/* Wanted, but never begun. */
	while (j->list)
		job_remove(j, j->list);
	for (unsigned i = 0; i < j->n_threads; i++)
		index_close(j->threads[i].index);
	pthread_mutex_destroy(&j->lock);
	pthread_cond_destroy(&j->kick);
	free(j->threads);
	free(j);
}
