/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many questions at once. They are answered in the order of addresses, which is several times faster, and
 * told in the order of asking.
 *
 * A thread takes one range of addresses after the other, so that what these have in common is looked for
 * once. Put together are the answers by whoever is free, some hundred at once, and written when it is their
 * turn. No thread's work depends on another one's, and an error counts when it is its turn: so the text, also
 * up to an error, is the same for any number of them.
 */
#include "cmd/symbolize/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/sort.h"

#define THREADS_MAX 16u
#define PER_THREAD  2048u  /* addresses, at least: a thread takes as long to be made as some hundred */
#define RANGES      8u     /* a thread, so that all end at about the same time, whatever else goes on */
#define AHEAD       8u     /* answers lie anywhere in memory: those that come next are fetched meanwhile */
#define TOGETHER    256u   /* answers, put together at once */
#define OUT_SIZE    MIB(1) /* of them; then they are written before all are there */
#define HELD_MAX    MIB(512)

struct worker {
	struct crew *crew;
	struct symbolize_writer writer, late; /* late: of one answer after the other */
	struct symtab_finder *finder;         /* NULL: there is no file */
	bool owns_finder;
	uint64_t n_missing;
	struct buf out; /* to be written */
	pthread_t thread;
	bool started;
	struct err err;
};

struct crew {
	const struct settings *s;
	const struct symbolize_style *style;
	const struct lookup_file *file;
	const struct finding *by;
	struct str module;
	bool alike; /* addresses of one row have one text */
	size_t held_max;
	unsigned n_threads; /* that there may be; 0: not known yet */
	struct worker *workers[THREADS_MAX];
	unsigned n_workers;
	struct crew_sums sums;
	/* What is answered now. */
	struct question *questions;
	size_t n;
	const struct sort_key *order;
	size_t range;     /* so many at once */
	size_t held_each; /* of texts by one thread */
	atomic_size_t next_answered;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	size_t next, turn; /* under lock: the first that nobody puts together; that is not written */
	const struct worker *failed; /* under lock, NULL: none. At its turn, so there is no error before it */
};

struct crew *crew_new(const struct settings *s, const struct symbolize_style *style,
		      const struct lookup_file *file, const struct finding *by, struct str module)
{
	struct crew *c = NEW(struct crew);

	c->s = s;
	c->style = style;
	c->file = file;
	c->by = by;
	c->module = module;
	c->held_max = HELD_MAX;
	/* Modules may change from one address to the next. */
	c->alike = !by && !style->addressed && !s->symbols.addresses;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->turned, NULL);
	return c;
}

void crew_hold(struct crew *c, size_t max)
{
	c->held_max = max;
}

static struct worker *worker_new(struct crew *c, bool first)
{
	struct worker *w = NEW(struct worker);

	w->crew = c;
	symbolize_writer_init(&w->writer, c->s, c->style);
	symbolize_writer_init(&w->late, c->s, c->style);
	w->writer.module = w->late.module = c->module;
	w->owns_finder = !first;
	w->finder = first ? c->file->finder : symtab_finder_new(c->file->table);
	return w;
}

void crew_free(struct crew *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < c->n_workers; i++) {
		struct worker *w = c->workers[i];

		if (w->owns_finder)
			symtab_finder_free(w->finder);
		symbolize_writer_done(&w->writer);
		symbolize_writer_done(&w->late);
		buf_done(&w->out);
		free(w);
	}
	pthread_cond_destroy(&c->turned);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

struct crew_sums crew_sums(const struct crew *c)
{
	return c->sums;
}

/* How many threads for so many questions; there are as many workers then. */
static unsigned workers_for(struct crew *c, size_t n)
{
	unsigned wanted = c->by ? 1 : (unsigned)MIN(n / PER_THREAD, (size_t)THREADS_MAX);

	/* To find out how many CPUs there are, files are read. */
	if (wanted > 1 && !c->n_threads)
		c->n_threads = c->s->symbols.threads ? c->s->symbols.threads : pool_cpus();
	wanted = MAX(MIN(wanted, c->n_threads), 1u);
	for (; c->n_workers < wanted; c->n_workers++)
		c->workers[c->n_workers] = worker_new(c, c->n_workers == 0);
	return wanted;
}

/* work() of so many, side by side. */
static void run(struct crew *c, unsigned n_workers, void *(*work)(void *worker))
{
	for (unsigned i = 1; i < n_workers; i++) {
		struct worker *w = c->workers[i];

		w->started = pthread_create(&w->thread, NULL, work, w) == 0;
	}
	work(c->workers[0]);
	for (unsigned i = 1; i < n_workers; i++) {
		struct worker *w = c->workers[i];

		if (w->started)
			pthread_join(w->thread, NULL);
		else
			work(w);
	}
}

/* ---- answered ---- */

/* Of the addresses [lo, hi). */
struct last_answer {
	uint64_t lo, hi;
	struct answer_text answer;
};

/* It is answered when it is told: enough is held, or there was an error. */
static const struct frame_text not_yet;

static int answer_one(struct worker *w, struct symbolize_writer *writer, struct question *q,
		      struct last_answer *last)
{
	const struct crew *c = w->crew;
	struct symtab_frames frames;
	struct symtab_frame folded;
	int r;

	if (q->answer.head.p) {
		q->answer = symbolize_writer_echo(writer, q->answer.head);
		w->n_missing++;
		return 0;
	}
	if (c->by)
		r = c->by->find(c->by->arg, q->addr, &writer->module, &frames) ? 0 : SYMTAB_NONE;
	else
		r = lookup_frames_by(c->file, w->finder, q->addr, &frames, &w->err);
	if (r < 0)
		return -1;
	if (r == 0 && !c->by && c->s->symbols.no_inlines)
		symbolize_fold(&frames, &folded);
	w->n_missing += r == SYMTAB_NONE;
	q->answer = symbolize_writer_make(writer, q->addr, r == 0 ? &frames : NULL);
	if (r == 0 && c->alike)
		*last = (struct last_answer){ frames.lo, frames.hi, q->answer };
	return 0;
}

/* What fails is asked again when it is told, as is what comes behind it here: the error counts only then. */
static void answer_range(struct worker *w, const struct sort_key *order, size_t n)
{
	struct question *questions = w->crew->questions;
	struct last_answer last = { 0 };
	bool late = false;

	for (size_t i = 0; i < n; i++) {
		struct question *q = &questions[order[i].at];

		__builtin_prefetch(&questions[order[MIN(i + AHEAD, n - 1)].at]);
		if (!q->answer.head.p && q->addr >= last.lo && q->addr < last.hi) {
			q->answer = last.answer;
			continue;
		}
		late = late || symbolize_writer_size(&w->writer) > w->crew->held_each ||
		       answer_one(w, &w->writer, q, &last) < 0;
		if (late)
			q->answer.frames = &not_yet;
	}
}

static void *answer_some(void *arg)
{
	struct worker *w = arg;
	struct crew *c = w->crew;
	size_t i;

	while ((i = atomic_fetch_add(&c->next_answered, c->range)) < c->n)
		answer_range(w, c->order + i, MIN(c->range, c->n - i));
	return NULL;
}

static void answer_all(struct crew *c, unsigned n_workers)
{
	AUTO(mem_freep) struct sort_key *order = NEW_N(struct sort_key, c->n);

	for (size_t i = 0; i < c->n; i++)
		order[i] = (struct sort_key){ c->questions[i].addr, i };
	sort_keys(order, c->n);
	c->order = order;
	c->range = n_workers > 1 ? c->n / (n_workers * RANGES) : c->n;
	c->held_each = c->held_max / n_workers;
	c->next_answered = 0;
	for (unsigned i = 0; i < n_workers; i++)
		symbolize_writer_forget(&c->workers[i]->writer, NAMES_MAX / n_workers);
	run(c, n_workers, answer_some);
	for (unsigned i = 0; i < n_workers; i++)
		c->sums.held += c->workers[i]->writer.texts.size;
}

/* ---- told ---- */

static void fetch_soon(const struct question *questions, size_t i, size_t n)
{
	const struct frame_text *f = questions[MIN(i + AHEAD, n - 1)].answer.frames;

	__builtin_prefetch(questions[MIN(i + 2 * AHEAD, n - 1)].answer.frames);
	if (f) {
		__builtin_prefetch(f->name.p);
		__builtin_prefetch(f->place + 64);
	}
}

/*
 * Write what is put together, which is of the questions from @from on, when it is their turn. -1: that
 * failed, or something before it.
 *
 * Waiting ends: whoever has the turn waits for no other thread, and says when it is through or has failed.
 */
static int write_out(struct worker *w, size_t from)
{
	struct crew *c = w->crew;
	bool failed;
	int r = -1;

	pthread_mutex_lock(&c->lock);
	while (c->turn != from && !c->failed)
		pthread_cond_wait(&c->turned, &c->lock);
	failed = c->failed;
	pthread_mutex_unlock(&c->lock);
	if (!failed)
		r = fd_write(STDOUT_FILENO, w->out.p, w->out.size, &w->err);
	w->out.size = 0;
	return r;
}

static int answer_late(struct worker *w, struct question *q)
{
	struct last_answer ignored;

	symbolize_writer_forget(&w->late, NAMES_MAX / THREADS_MAX);
	q->answer.frames = NULL;
	return answer_one(w, &w->late, q, &ignored);
}

static int put_together(struct worker *w, size_t from, size_t to)
{
	const struct crew *c = w->crew;
	bool list = c->style->list && c->s->paths.n;

	for (size_t i = from; i < to; i++) {
		struct question *q = &c->questions[i];

		fetch_soon(c->questions, i, to);
		if (q->answer.frames == &not_yet && answer_late(w, q) < 0) {
			/* What is before it; if that fails too, it is the error to be told. */
			(void)write_out(w, from);
			return -1;
		}
		if (w->out.size >= OUT_SIZE && write_out(w, from) < 0)
			return -1;
		if (list)
			buf_add_char(&w->out, c->sums.n + i ? ',' : '[');
		answer_text_add(c->s, c->style, &q->answer, &w->out);
		w->out.size -= list; /* without its newline */
	}
	return write_out(w, from);
}

static void *tell(void *arg)
{
	struct worker *w = arg;
	struct crew *c = w->crew;

	pthread_mutex_lock(&c->lock);
	while (c->next < c->n && !c->failed) {
		size_t from = c->next, to = MIN(from + TOGETHER, c->n);
		int r;

		c->next = to;
		pthread_mutex_unlock(&c->lock);
		r = put_together(w, from, to);
		pthread_mutex_lock(&c->lock);
		if (r == 0)
			c->turn = to;
		else if (!c->failed)
			c->failed = w;
		pthread_cond_broadcast(&c->turned);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int tell_all(struct crew *c, unsigned n_workers, struct err *err)
{
	c->next = c->turn = 0;
	c->failed = NULL;
	run(c, n_workers, tell);
	c->sums.n += c->n;
	if (c->failed) {
		*err = c->failed->err;
		return -1;
	}
	for (unsigned i = 0; i < n_workers; i++) {
		c->sums.n_missing += c->workers[i]->n_missing;
		c->workers[i]->n_missing = 0;
	}
	return 0;
}

int crew_answer(struct crew *c, struct question *questions, size_t n, struct err *err)
{
	unsigned n_workers = workers_for(c, n);

	c->questions = questions;
	c->n = n;
	answer_all(c, n_workers);
	return tell_all(c, n_workers, err);
}
