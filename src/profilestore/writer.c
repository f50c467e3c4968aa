/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer: the one thread that changes the store. It takes all waiting jobs, applies them in one
 * transaction, commits, which syncs, and then completes each: one sync for all jobs that came during the last
 * one.
 */
#include "base/condition.h"
#include "profilestore/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define HOLD_MS     20000 /* a job that has met a limit, at most */
#define HELD_MS     50    /* between two looks at jobs that are held */
#define GATE_MS     2     /* between two looks at a gate that is shut (wal.c) */
#define MEND_TRIES  8u    /* damaged pages that a transaction may meet */
#define MAX_WAITING 256u  /* jobs; a thread that brings more waits */

struct store_writer {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more, room;
	struct job *first, **last; /* under the lock, as all below */
	unsigned n;
	_Atomic bool stop;
	/* of the writer's thread: jobs that wait for room, the oldest first */
	struct job *held, **last_held;
};

int totals_write(struct profilestore *s, struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(s->db,
		       "UPDATE counter SET next_profile = ?, n_profiles = ?, n_samples = ? WHERE id = 1", &st,
		       err) < 0)
		return -1;
	db_bind_i64(st, 1, s->next_id);
	db_bind_i64(st, 2, (int64_t)atomic_load(&s->n_profiles));
	db_bind_i64(st, 3, (int64_t)atomic_load(&s->n_samples));
	return db_step(st, err);
}

static int apply_all(struct profilestore *s, struct job *jobs, bool *ret_any, struct err *err)
{
	bool any = false, more;

	*ret_any = true;
	for (struct job *j = jobs; j; j = j->next) {
		int r = j->apply(s, j, &j->err);

		if (r < 0) {
			*err = j->err;
			return -1;
		}
		j->refused = r == JOB_REFUSED;
		any |= !j->refused;
	}
	*ret_any = any;
	if (!any)
		return 0;
	return series_write(s, err) < 0 || senders_write(s, err) < 0 ||
			       segments_write(s->db, s->meta, &s->segments, UINT64_MAX, &more, err) < 0 ||
			       totals_write(s, err) < 0
		       ? -1
		       : 0;
}

/* Keep a job that has met a limit until room was made. */
static bool hold_job(struct profilestore *s, struct job *j)
{
	struct store_writer *w = s->writer;
	int64_t now = clock_mono_ms();

	if (!j->may_wait || j->err.kind != ERR_LIMIT || w->stop || !room_wait(s))
		return false;
	if (!j->held_until_ms)
		j->held_until_ms = now + HOLD_MS;
	if (now >= j->held_until_ms)
		return false;
	j->next = NULL;
	*w->last_held = j;
	w->last_held = &j->next;
	return true;
}

/* Under the lock: held jobs are applied again if that may have another result now. */
static void resume_held(struct profilestore *s, struct store_writer *w)
{
	if (!w->held ||
	    (atomic_load(&s->room.wanted) && !w->stop && clock_mono_ms() < w->held->held_until_ms))
		return;
	*w->last_held = w->first;
	if (!w->first)
		w->last = w->last_held;
	w->first = w->held;
	for (struct job **at = &w->held; at != w->last_held; at = &(*at)->next)
		w->n++;
	w->held = NULL;
	w->last_held = &w->held;
}

/* Entries in memory of a transaction that failed stay there, and are written with the next one. */
static int run_transaction(struct profilestore *s, struct job *jobs, struct err *err)
{
	uint64_t n_profiles = atomic_load(&s->n_profiles), n_samples = atomic_load(&s->n_samples);
	int64_t next_id = s->next_id;
	int r = db_begin(s->db, err);
	bool any = true;

	if (r == 0) {
		r = apply_all(s, jobs, &any, err);
		/* For a reader whose snapshot has this transaction: see reader_begin(). */
		atomic_fetch_add_explicit(&s->n_published, 1, memory_order_release);
		if (r == 0)
			r = db_commit(s->db, err);
		else
			db_rollback(s->db);
	}
	/* Entries that came with refused jobs alone are written with the next transaction. */
	segments_commit(s->meta, &s->segments, r == 0 && any);
	series_commit(s, r == 0 && any);
	if (r < 0) {
		atomic_store(&s->n_profiles, n_profiles);
		atomic_store(&s->n_samples, n_samples);
		s->next_id = next_id;
	} else {
		names_committed(s);
	}
	return r;
}

/* Damage that a transaction has met. true: it may be run again. */
static bool writer_mends(struct profilestore *s, const struct job *jobs, const struct err *err)
{
	uint64_t n_mended = damage_n_mended(s);

	damage_note_page_of(s, s->db);
	damage_note_error(s, n_mended, err);
	if (!damage_mend_here(s, n_mended))
		return false;
	for (const struct job *j = jobs; j; j = j->next)
		if (!j->again)
			return false;
	return true;
}

static void writer_run(struct profilestore *s, struct job *jobs)
{
	struct err err = { 0 };
	int r = jobs->outside ? jobs->apply(s, jobs, &err) : run_transaction(s, jobs, &err);

	for (unsigned i = 0;
	     i < MEND_TRIES && r < 0 && err.kind == ERR_DAMAGED && writer_mends(s, jobs, &err); i++)
		r = run_transaction(s, jobs, &err);
	/*
	 * Each by itself: the rows that one series needs may be damaged, and those of others sound. A job that cannot be
	 * applied again fails, and takes no other with it.
	 */
	if (r < 0 && err.kind == ERR_DAMAGED && jobs->next) {
		while (jobs) {
			struct job *j = jobs;

			jobs = j->next;
			j->next = NULL;
			if (j->again)
				writer_run(s, j);
			else
				j->done(s, j, &err);
		}
		return;
	}
	while (jobs) {
		struct job *j = jobs;

		jobs = j->next;
		if (r == 0 && j->refused && hold_job(s, j))
			continue;
		j->done(s, j, r < 0 ? &err : j->refused ? &j->err : NULL);
	}
}

/* Under the lock: the jobs of the next transaction. */
static struct job *take_jobs(struct store_writer *w)
{
	struct job *jobs = w->first, **at = &w->first;

	do {
		at = &(*at)->next;
		w->n--;
	} while (*at && !jobs->alone && !(*at)->alone);
	w->first = *at;
	*at = NULL;
	if (!w->first)
		w->last = &w->first;
	return jobs;
}

/* Under the lock. Readers that wait at the gate do not wait for the next job. */
static void wait_for_jobs(struct profilestore *s, struct store_writer *w)
{
	bool shut;

	pthread_mutex_unlock(&w->lock);
	shut = wal_bound(s, false);
	pthread_mutex_lock(&w->lock);
	resume_held(s, w);
	if (w->first || w->stop)
		return;
	if (shut || w->held)
		condition_wait(&w->more, &w->lock, shut ? GATE_MS : HELD_MS);
	else
		pthread_cond_wait(&w->more, &w->lock);
}

static void *writer_work(void *arg)
{
	struct profilestore *s = arg;
	struct store_writer *w = s->writer;

	pthread_setname_np(pthread_self(), "lode-profiles");
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct job *jobs;

		while (!w->first && !w->stop)
			wait_for_jobs(s, w);
		/* At the end those that are held are refused: their callers wait for a result. */
		resume_held(s, w);
		if (!w->first)
			break;
		jobs = take_jobs(w);
		pthread_cond_broadcast(&w->room);
		pthread_mutex_unlock(&w->lock);
		writer_run(s, jobs);
		wal_bound(s, false);
		pthread_mutex_lock(&w->lock);
		resume_held(s, w);
	}
	pthread_mutex_unlock(&w->lock);
	wal_bound(s, true);
	return NULL;
}

int profilestore_writer_start(struct profilestore *s, struct err *err)
{
	struct store_writer *w = NEW(struct store_writer);
	int code;

	w->last = &w->first;
	w->last_held = &w->held;
	pthread_mutex_init(&w->lock, NULL);
	condition_init(&w->more);
	pthread_cond_init(&w->room, NULL);
	s->writer = w;
	code = pthread_create(&w->thread, NULL, writer_work, s);
	if (!code)
		return 0;
	s->writer = NULL;
	free(w);
	return err_os(err, code, "cannot start the thread that writes profiles");
}

void profilestore_writer_stop(struct profilestore *s)
{
	struct store_writer *w = s->writer;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->more);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->room);
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
	free(w);
	s->writer = NULL;
}

void profilestore_writer_submit(struct profilestore *s, struct job *j)
{
	struct store_writer *w = s->writer;

	j->next = NULL;
	pthread_mutex_lock(&w->lock);
	while (w->n >= MAX_WAITING)
		pthread_cond_wait(&w->room, &w->lock);
	*w->last = j;
	w->last = &j->next;
	w->n++;
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
}

/* ---- waiting for one ---- */

struct sync_wait {
	struct job job;
	struct job *inner;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool over;
	int r;
	struct err *err;
};

static int apply_inner(struct profilestore *s, struct job *j, struct err *err)
{
	struct sync_wait *w = CONTAINER_OF(j, struct sync_wait, job);

	return w->inner->apply(s, w->inner, err);
}

static void done_inner(struct profilestore *s, struct job *j, const struct err *err)
{
	struct sync_wait *w = CONTAINER_OF(j, struct sync_wait, job);

	if (w->inner->done)
		w->inner->done(s, w->inner, err);
	pthread_mutex_lock(&w->lock);
	w->r = err ? -1 : 0;
	if (err && w->err)
		*w->err = *err;
	w->over = true;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

int profilestore_writer_run(struct profilestore *s, struct job *j, struct err *err)
{
	struct sync_wait w = { .job = { .apply = apply_inner, .done = done_inner }, .inner = j, .err = err };

	w.job.alone = j->alone;
	w.job.outside = j->outside;
	w.job.again = j->again;
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.cond, NULL);
	profilestore_writer_submit(s, &w.job);
	pthread_mutex_lock(&w.lock);
	while (!w.over)
		pthread_cond_wait(&w.cond, &w.lock);
	pthread_mutex_unlock(&w.lock);
	pthread_cond_destroy(&w.cond);
	pthread_mutex_destroy(&w.lock);
	return w.r;
}
