/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding span after span, in order, with helpers.
 *
 * One lock guards the window of jobs; the thread that works on a job marks it busy and then owns it. A task
 * in the pool means "ahead_help this reader once": it chooses a span only when it runs. If the reader has been
 * closed by then, the task notices it and ends; it keeps nothing alive but the struct that says so.
 */
#include "codec/ahead.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct ahead_job {
	struct codec_run run; /* the busy thread's; else under the lock */
	/* under the lock */
	bool busy;
	bool done; /* decoded to its end, or failed */
	bool failed;
	struct codec_chunk *head, **tail; /* decoded, not yet delivered */
	struct err err;                   /* why it failed */
};

struct ahead {
	struct ahead_options opts; /* constant, but for `until`, which is under the lock */
	pthread_mutex_t lock;
	pthread_cond_t progress; /* a helper has decoded a chunk or has ended */
	/* under the lock */
	struct ahead_job *jobs; /* a ring: span i is jobs[i % n_jobs] */
	size_t n_jobs, front;   /* the window is [front, front + n_jobs), cut by n_spans */
	struct codec_chunk *spare;
	size_t n_chunks;  /* that wait in jobs */
	unsigned n_tasks; /* in the pool, queued or running */
	unsigned n_running;
	unsigned n_refs; /* held by the reader and the tasks */
	bool closed;
	/* the reader's own */
	uint64_t at;
};

/* ---- runs ---- */

void codec_run_end(struct codec_run *r)
{
	if (r->d)
		r->d->ops->span_close(r->d);
	r->d = NULL;
}

int codec_run_chunk(struct codec_run *r, const struct codec_ops *ops, struct source *raw,
		    struct codec_chunk *p, struct err *err)
{
	const struct codec_span *s = r->span;
	size_t size = (size_t)MIN(CODEC_CHUNK, s->out_end - r->at), done = 0;

	if (!r->d) {
		assert(r->at == s->out);
		source_expect(raw, range_of(s->in, s->in_end - s->in));
		if (codec_span_start(ops, raw, s, &r->d, err) < 0)
			return -1;
	}
	while (done < size) {
		size_t got = 0;

		if (r->d->ops->span_read(r->d, p->data + done, size - done, &got, err) < 0)
			return -1;
		assert(got > 0 && got <= size - done);
		done += got;
	}
	if (!codec_sums_match(s->sums, (size_t)((r->at - s->out) / CODEC_CHUNK), p->data, size))
		return err_set(err, ERR_INVALID, "%zu bytes decoded at %llu differ from those of the scan",
			       size, (unsigned long long)r->at);
	p->next = NULL;
	p->off = r->at;
	p->size = size;
	r->at += size;
	return 0;
}

/* ---- jobs ---- */

static struct ahead_job *job_of(struct ahead *a, size_t span)
{
	return &a->jobs[span % a->n_jobs];
}

static void job_init(struct ahead *a, size_t span)
{
	struct ahead_job *j = job_of(a, span);

	*j = (struct ahead_job){ .tail = &j->head };
	if (span >= a->opts.n_spans)
		return;
	j->run.span = &a->opts.spans[span];
	j->run.at = j->run.span->out;
}

/* Under the lock: @j has something to decode ahead, and no thread is busy with it. */
static bool job_is_idle(const struct ahead *a, const struct ahead_job *j)
{
	return !j->busy && !j->done && j->run.at < a->opts.until;
}

/* Under the lock: the first span after the front that is free to work on, or NULL. */
static struct ahead_job *job_next_idle(struct ahead *a)
{
	size_t end = MIN(a->front + a->n_jobs, a->opts.n_spans);

	for (size_t i = a->front + 1; i < end && a->opts.spans[i].out < a->opts.until; i++) {
		struct ahead_job *j = job_of(a, i);

		if (job_is_idle(a, j))
			return j;
	}
	return NULL;
}

/* Under the lock, which is released meanwhile: decode one more chunk of @j. */
static void job_step(struct ahead *a, struct ahead_job *j)
{
	struct codec_chunk *p = a->spare;
	struct err err = { 0 };
	int r;

	assert(!j->busy && !j->done);
	j->busy = true;
	if (p)
		a->spare = p->next;
	pthread_mutex_unlock(&a->lock);
	if (!p)
		p = mem_alloc(sizeof(*p));
	r = codec_run_chunk(&j->run, a->opts.ops, a->opts.raw, p, &err);
	if (r < 0 || j->run.at == j->run.span->out_end)
		codec_run_end(&j->run);
	pthread_mutex_lock(&a->lock);
	j->busy = false;
	j->done = !j->run.d;
	if (r == 0) {
		*j->tail = p;
		j->tail = &p->next;
		a->n_chunks++;
	} else {
		j->failed = true;
		j->err = err;
		p->next = a->spare;
		a->spare = p;
	}
}

static void ahead_unref_unlock(struct ahead *a)
{
	bool last = --a->n_refs == 0;

	pthread_mutex_unlock(&a->lock);
	if (!last)
		return;
	pthread_cond_destroy(&a->progress);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static bool may_hold_more(const struct ahead *a)
{
	return a->n_chunks < a->opts.max_chunks;
}

/* A helper's task: decode one span, or as much of it as there is room for. */
static void ahead_help(void *arg)
{
	struct ahead *a = arg;
	struct ahead_job *j;

	pthread_mutex_lock(&a->lock);
	j = a->closed ? NULL : job_next_idle(a);
	if (j) {
		a->n_running++;
		do {
			job_step(a, j);
			pthread_cond_signal(&a->progress);
		} while (job_is_idle(a, j) && !a->closed && may_hold_more(a));
		a->n_running--;
		pthread_cond_signal(&a->progress);
	}
	a->n_tasks--;
	ahead_unref_unlock(a);
}

/* Under the lock: submit a task for each span that waits to be decoded. */
static void ahead_offer(struct ahead *a)
{
	size_t end = MIN(a->front + a->n_jobs, a->opts.n_spans);
	unsigned n_idle = 0;

	/* After the window was full, wait until a good part of it is free: a task per chunk would be
	 * wasteful. */
	if (!a->opts.pool || a->n_chunks > a->opts.max_chunks - a->opts.max_chunks / 4)
		return;
	for (size_t i = a->front + 1; i < end && a->opts.spans[i].out < a->opts.until; i++)
		n_idle += job_is_idle(a, job_of(a, i));
	while (a->n_tasks - a->n_running < n_idle && a->n_tasks < a->opts.max_ahead) {
		/* A full pool is no failure: the reader continues alone. */
		if (pool_submit(a->opts.pool, POOL_NORMAL, ahead_help, a) != 0)
			return;
		a->n_tasks++;
		a->n_refs++;
	}
}

/* ---- the reader ---- */

struct ahead *ahead_new(const struct ahead_options *opts, struct codec_run *start)
{
	struct ahead *a = NEW(struct ahead);

	a->opts = *opts;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->progress, NULL);
	a->n_jobs = 1 + (opts->pool ? opts->max_ahead : 0);
	a->jobs = NEW_N(struct ahead_job, a->n_jobs);
	a->front = (size_t)(start->span - opts->spans);
	a->n_refs = 1;
	a->at = start->at;
	for (size_t i = 0; i < a->n_jobs; i++)
		job_init(a, a->front + i);
	job_of(a, a->front)->run = *start;
	start->d = NULL;
	return a;
}

uint64_t ahead_at(const struct ahead *a)
{
	return a->at;
}

void ahead_until(struct ahead *a, uint64_t until)
{
	pthread_mutex_lock(&a->lock);
	a->opts.until = until;
	pthread_mutex_unlock(&a->lock);
}

/* Under the lock: the front has no chunk ready. Do work that helps to get the next one. */
static void ahead_advance(struct ahead *a, struct ahead_job *front)
{
	struct ahead_job *later;

	if (!front->busy) {
		job_step(a, front);
		return;
	}
	later = may_hold_more(a) ? job_next_idle(a) : NULL;
	if (later)
		job_step(a, later);
	else
		pool_condition_wait(&a->progress, &a->lock);
}

int ahead_next(struct ahead *a, struct codec_chunk **ret, struct err *err)
{
	int r = 0;

	*ret = NULL;
	pthread_mutex_lock(&a->lock);
	while (a->front < a->opts.n_spans) {
		struct ahead_job *front = job_of(a, a->front);

		ahead_offer(a);
		if (front->head) {
			*ret = front->head;
			front->head = (*ret)->next;
			if (!front->head)
				front->tail = &front->head;
			a->n_chunks--;
			a->at += (*ret)->size;
			break;
		}
		if (front->failed) {
			if (err)
				*err = front->err;
			r = -1;
			break;
		}
		if (!front->done) {
			ahead_advance(a, front);
			continue;
		}
		job_init(a, a->front + a->n_jobs);
		a->front++;
	}
	pthread_mutex_unlock(&a->lock);
	return r;
}

void ahead_recycle(struct ahead *a, struct codec_chunk *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&a->lock);
	p->next = a->spare;
	a->spare = p;
	pthread_mutex_unlock(&a->lock);
}

static void chunks_free(struct codec_chunk *p)
{
	while (p) {
		struct codec_chunk *next = p->next;

		free(p);
		p = next;
	}
}

void ahead_close(struct ahead *a, struct codec_run *ret_run)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->closed = true;
	while (a->n_running)
		pool_condition_wait(&a->progress, &a->lock);
	if (ret_run) {
		*ret_run = (struct codec_run){ 0 };
		if (a->front < a->opts.n_spans) {
			*ret_run = job_of(a, a->front)->run;
			job_of(a, a->front)->run.d = NULL;
		}
	}
	for (size_t i = 0; i < a->n_jobs; i++) {
		codec_run_end(&a->jobs[i].run);
		chunks_free(a->jobs[i].head);
	}
	chunks_free(a->spare);
	free(a->jobs);
	a->jobs = NULL;
	ahead_unref_unlock(a);
}
