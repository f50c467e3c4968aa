/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker pool. Questions are answered in the order of addresses, which is several times faster than in
 * the order of asking, and written in the order of asking.
 *
 * In the first pass a worker takes one range of addresses after the other, so that neighbours share their
 * look-ups. In the second, each worker takes the next 256 questions, joins their texts, and writes them when
 * it is their turn. No worker's result depends on another's, and an error counts at its turn: so the output,
 * also up to an error, is the same for any number of workers.
 */
#include "cmd/symbolize/answer_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 16u
#define PER_THREAD  2048u  /* addresses, at least: starting a thread costs as much as some hundred answers */
#define RANGES      8u     /* a worker, so that all workers end at about the same time */
#define AHEAD       8u     /* answers prefetched: they are scattered in memory */
#define TOGETHER    256u   /* answers joined at once */
#define OUT_SIZE    MIB(1) /* of joined answers, which are then written before all are joined */
#define TEXTS_MAX   MIB(512)

struct answer_worker {
	struct answer_pool *pool;
	struct answerer answerer;
	struct buf out; /* to be written */
	pthread_t thread;
	bool started;
};

struct answer_pool {
	struct answer_source from;
	size_t texts_max;
	unsigned n_threads; /* the most to use; 0: not known yet */
	struct answer_worker *workers[THREADS_MAX];
	unsigned n_workers;
	struct answer_sums sums;
	/* The questions that are answered now. */
	struct question *questions;
	size_t n;
	const struct sort_key *order;
	size_t range;      /* questions that a worker takes at once */
	size_t texts_each; /* bytes of one worker's texts */
	atomic_size_t next_answered;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	/* under the lock */
	size_t next;                        /* the first question that no worker has taken for writing */
	size_t turn;                        /* the first question that is not written */
	const struct answer_worker *failed; /* NULL: none. At its turn, so there is no error before it */
};

struct answer_pool *answer_pool_new(const struct answer_source *from)
{
	struct answer_pool *p = NEW(struct answer_pool);

	p->from = *from;
	p->texts_max = TEXTS_MAX;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->turned, NULL);
	return p;
}

void answer_pool_limit(struct answer_pool *p, size_t max)
{
	p->texts_max = max;
}

void answer_pool_free(struct answer_pool *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < p->n_workers; i++) {
		answerer_done(&p->workers[i]->answerer);
		buf_done(&p->workers[i]->out);
		free(p->workers[i]);
	}
	pthread_cond_destroy(&p->turned);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

struct answer_sums answer_pool_sums(const struct answer_pool *p)
{
	return p->sums;
}

static struct answer_worker *answer_worker_new(struct answer_pool *p)
{
	struct answer_worker *w = NEW(struct answer_worker);

	w->pool = p;
	answerer_init(&w->answerer, &p->from, p->n_workers == 0);
	return w;
}

/* The number of workers for @n questions; makes those that are missing. */
static unsigned workers_for(struct answer_pool *p, size_t n)
{
	unsigned wanted = p->from.by ? 1 : (unsigned)MIN(n / PER_THREAD, (size_t)THREADS_MAX);

	/* Counting the CPUs reads files: not for a few questions. */
	if (wanted > 1 && !p->n_threads)
		p->n_threads = p->from.s->symbols.threads ? p->from.s->symbols.threads : pool_cpus();
	wanted = MAX(MIN(wanted, p->n_threads), 1u);
	for (; p->n_workers < wanted; p->n_workers++)
		p->workers[p->n_workers] = answer_worker_new(p);
	return wanted;
}

/* Run work() in @n_workers threads side by side. */
static void workers_run(struct answer_pool *p, unsigned n_workers, void *(*work)(void *worker))
{
	for (unsigned i = 1; i < n_workers; i++) {
		struct answer_worker *w = p->workers[i];

		w->started = pthread_create(&w->thread, NULL, work, w) == 0;
	}
	work(p->workers[0]);
	for (unsigned i = 1; i < n_workers; i++) {
		struct answer_worker *w = p->workers[i];

		if (w->started)
			pthread_join(w->thread, NULL);
		else
			work(w);
	}
}

/* ---- first pass: answering ---- */

static void *worker_answer(void *arg)
{
	struct answer_worker *w = arg;
	struct answer_pool *p = w->pool;
	size_t i;

	while ((i = atomic_fetch_add(&p->next_answered, p->range)) < p->n)
		answerer_range(&w->answerer, p->questions, p->order + i, MIN(p->range, p->n - i),
			       p->texts_each);
	return NULL;
}

static void pool_answer(struct answer_pool *p, unsigned n_workers)
{
	AUTO(mem_freep) struct sort_key *order = NEW_N(struct sort_key, p->n);

	for (size_t i = 0; i < p->n; i++)
		order[i] = (struct sort_key){ p->questions[i].addr, i };
	sort_keys(order, p->n);
	p->order = order;
	p->range = n_workers > 1 ? p->n / (n_workers * RANGES) : p->n;
	p->texts_each = p->texts_max / n_workers;
	p->next_answered = 0;
	for (unsigned i = 0; i < n_workers; i++)
		symbolize_writer_forget(&p->workers[i]->answerer.writer, NAMES_MAX / n_workers);
	workers_run(p, n_workers, worker_answer);
	for (unsigned i = 0; i < n_workers; i++)
		p->sums.text_size += p->workers[i]->answerer.writer.texts.size;
}

/* ---- second pass: writing in order ---- */

static void prefetch_answers(const struct question *questions, size_t i, size_t n)
{
	const struct frame_text *f = questions[MIN(i + AHEAD, n - 1)].answer.frames;

	__builtin_prefetch(questions[MIN(i + 2 * AHEAD, n - 1)].answer.frames);
	if (f) {
		__builtin_prefetch(f->name.p);
		__builtin_prefetch(f->place + 64);
	}
}

/*
 * Write the joined texts of the questions from @from on at their turn. -1: that failed, or an earlier write.
 *
 * The wait ends: the worker whose turn it is waits for no other, and signals when it is done or has failed.
 */
static int write_at_turn(struct answer_worker *w, size_t from)
{
	struct answer_pool *p = w->pool;
	bool failed;
	int r = -1;

	pthread_mutex_lock(&p->lock);
	while (p->turn != from && !p->failed)
		pthread_cond_wait(&p->turned, &p->lock);
	failed = p->failed;
	pthread_mutex_unlock(&p->lock);
	if (!failed)
		r = fd_write(STDOUT_FILENO, w->out.p, w->out.size, &w->answerer.err);
	w->out.size = 0;
	return r;
}

static int join_and_write(struct answer_worker *w, size_t from, size_t to)
{
	const struct answer_pool *p = w->pool;
	const struct symbolize_style *style = p->from.style;
	bool list = style->list && p->from.s->paths.n;

	for (size_t i = from; i < to; i++) {
		struct question *q = &p->questions[i];

		prefetch_answers(p->questions, i, to);
		if (answerer_late(&w->answerer, q) < 0) {
			/* Write the answers before it. If that fails, too, its error is the first one. */
			(void)write_at_turn(w, from);
			return -1;
		}
		if (w->out.size >= OUT_SIZE && write_at_turn(w, from) < 0)
			return -1;
		if (list)
			buf_add_char(&w->out, p->sums.n + i ? ',' : '[');
		answer_text_add(p->from.s, style, &q->answer, &w->out);
		w->out.size -= list; /* without its newline */
	}
	return write_at_turn(w, from);
}

static void *worker_write(void *arg)
{
	struct answer_worker *w = arg;
	struct answer_pool *p = w->pool;

	pthread_mutex_lock(&p->lock);
	while (p->next < p->n && !p->failed) {
		size_t from = p->next, to = MIN(from + TOGETHER, p->n);
		int r;

		p->next = to;
		pthread_mutex_unlock(&p->lock);
		r = join_and_write(w, from, to);
		pthread_mutex_lock(&p->lock);
		if (r == 0)
			p->turn = to;
		else if (!p->failed)
			p->failed = w;
		pthread_cond_broadcast(&p->turned);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static int pool_write(struct answer_pool *p, unsigned n_workers, struct err *err)
{
	p->next = p->turn = 0;
	p->failed = NULL;
	workers_run(p, n_workers, worker_write);
	p->sums.n += p->n;
	if (p->failed) {
		*err = p->failed->answerer.err;
		return -1;
	}
	for (unsigned i = 0; i < n_workers; i++) {
		p->sums.n_missing += p->workers[i]->answerer.n_missing;
		p->workers[i]->answerer.n_missing = 0;
	}
	return 0;
}

int answer_pool_write(struct answer_pool *p, struct question *questions, size_t n, struct err *err)
{
	unsigned n_workers = workers_for(p, n);

	p->questions = questions;
	p->n = n;
	pool_answer(p, n_workers);
	return pool_write(p, n_workers, err);
}
