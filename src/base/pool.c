/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of worker threads. Each class has a list for each client; the lists of a class take turns.
 * pool_cpus.c finds the number of CPUs.
 *
 * The time that a class has had is counted in nanoseconds divided by its share. When work is taken, the class is
 * charged with the time that its work usually takes, and with the difference when the work has ended: so that two
 * workers that look at the same moment do not both take the class with the least time.
 */
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/condition.h"
#include "base/mem.h"

#define N_PLAIN_CLASSES  (POOL_URGENT + 1)
#define THREAD_NAME_SIZE 16 /* the kernel's, with NUL */
#define SPARE_IDLE_MS    2000
#define SHORT_WAIT_MS    20
#define USUAL_PART       8 /* the usual time of a class is a moving average over about so many works */

struct slot_list {
	struct pool_slot *head, **tail;
};

struct class_queue {
	struct slot_list clients[POOL_CLIENTS];
	uint64_t waiting; /* bit i: clients[i] has work */
	uint64_t full;    /* bit i: as much work of clients[i] runs as may */
	unsigned n_running_of[POOL_CLIENTS];
	unsigned next_client; /* whose turn it is */
	unsigned n_queued, n_running, share;
	uint64_t used_ns;  /* the time it has had, divided by its share */
	uint64_t usual_ns; /* that a work of it takes */
};

/* A worker that has nothing to do, on its stack. */
struct idle_worker {
	pthread_cond_t wake; /* it was taken off the list */
	bool listed;
	struct idle_worker *next;
};

struct pool {
	pthread_mutex_t lock;
	/* under the lock */
	/*
	 * The worker that was idle for the shortest time is first: its caches are warm. A condition that all
	 * share would wake the one that was idle for longest.
	 */
	struct idle_worker *idle;
	struct class_queue classes[POOL_MAX_CLASSES];
	size_t n_queued, n_busy;
	unsigned n_shared_busy; /* workers beyond the first of each class */
	uint64_t used_ns;       /* of the class that was served last: a class that was idle starts there */
	bool closed;
	/* fixed */
	struct pool_options opts;
	bool fair;
	unsigned n_threads;
	char name[THREAD_NAME_SIZE];
	/* under the lock */
	bool reniced;
	int nice;        /* of pool_renice() */
	unsigned n_tids; /* of those that have started, without spares */
	pid_t *tids;
	/* of waiting work */
	unsigned n_waiting, max_waiting;
	unsigned n_waiting_of[POOL_CLIENTS];
	unsigned n_alive; /* threads that have not ended */
	struct spare_worker *spares;
	/* fixed */
	pthread_t threads[];
};

/* A thread in the place of one that waits. */
struct spare_worker {
	struct pool *p;
	/* under the lock */
	enum { SPARE_NONE, SPARE_RUNS, SPARE_ENDED } state;
	pid_t tid;
	pthread_t thread;
};

/* What a worker runs. */
struct taken_work {
	struct pool_slot slot;
	struct class_queue *of;
	unsigned client;
	uint64_t charged_ns;
	int64_t started_ns; /* later by the time that it has waited */
	int64_t waits_ns;   /* since when it waits */
};

/* The work of this thread, for pool_wait_begin(). */
static _Thread_local struct {
	struct pool *p; /* NULL: no worker, or no pool that permits waiting */
	struct taken_work *work;
	unsigned depth;
} here;

/* ---- under the lock ---- */

/* May a worker take work of @c now? */
static bool class_may_run(const struct pool *p, const struct class_queue *c)
{
	if (!(c->waiting & ~c->full))
		return false;
	return !p->fair || !c->n_running || p->n_shared_busy < p->opts.n_threads;
}

static struct class_queue *class_choose(struct pool *p)
{
	struct class_queue *found = NULL;

	for (unsigned i = 0; i < p->opts.n_classes; i++) {
		struct class_queue *c = &p->classes[i];

		if (!class_may_run(p, c))
			continue;
		/* Of a plain pool: the last class is the most urgent. */
		if (!found || !p->fair || c->used_ns < found->used_ns)
			found = c;
	}
	return found;
}

/* The client whose turn it is. */
static unsigned client_choose(struct class_queue *c)
{
	uint64_t may = c->waiting & ~c->full;
	unsigned turn = c->next_client % POOL_CLIENTS;
	uint64_t from_turn = may & ~(uint64_t)0 << turn;
	unsigned i = (unsigned)__builtin_ctzll(from_turn ? from_turn : may);

	c->next_client = i + 1;
	return i;
}

static void count_running(struct pool *p, struct class_queue *c, unsigned client, int n)
{
	unsigned most = p->opts.max_per_client;

	p->n_busy += (size_t)n;
	if (n < 0 ? c->n_running > 1 : c->n_running > 0)
		p->n_shared_busy += (unsigned)n;
	c->n_running += (unsigned)n;
	c->n_running_of[client] += (unsigned)n;
	if (most && c->n_running_of[client] >= most)
		c->full |= (uint64_t)1 << client;
	else
		c->full &= ~((uint64_t)1 << client);
}

/* Move the work whose turn it is to @ret. false: there is none. */
static bool work_take(struct pool *p, struct taken_work *ret)
{
	struct class_queue *c = class_choose(p);
	struct slot_list *list;
	struct pool_slot *slot;
	unsigned client;

	if (!c)
		return false;
	client = client_choose(c);
	list = &c->clients[client];
	slot = list->head;
	list->head = slot->next;
	if (!slot->next) {
		list->tail = &list->head;
		c->waiting &= ~((uint64_t)1 << client);
	}
	slot->queued = false;
	c->n_queued--;
	p->n_queued--;
	p->used_ns = MAX(p->used_ns, c->used_ns);
	*ret = (struct taken_work){ *slot, c, client, c->usual_ns, p->fair ? clock_mono_ns() : 0 };
	c->used_ns += ret->charged_ns / c->share;
	count_running(p, c, client, 1);
	if (slot->on_heap)
		free(slot);
	return true;
}

static void work_end(struct pool *p, const struct taken_work *w)
{
	struct class_queue *c = w->of;
	int64_t ns = p->fair ? clock_mono_ns() - w->started_ns : 0;
	uint64_t took_ns = (uint64_t)MAX(ns, INT64_C(0));

	count_running(p, c, w->client, -1);
	c->used_ns += took_ns / c->share - w->charged_ns / c->share;
	c->usual_ns += (took_ns / USUAL_PART) - c->usual_ns / USUAL_PART;
}

/* ---- workers ---- */

/* Under the lock: wake a worker, if one is idle. false: none is. */
static bool idle_wake(struct pool *p)
{
	struct idle_worker *w = p->idle;

	if (!w)
		return false;
	p->idle = w->next;
	w->listed = false;
	pthread_cond_signal(&w->wake);
	return true;
}

static void idle_wake_all(struct pool *p)
{
	while (idle_wake(p))
		continue;
}

/* Under the lock: more threads are there than may work, since some that waited work again. */
static bool worker_is_spare(const struct pool *p)
{
	return p->n_alive - p->n_waiting > p->n_threads;
}

/*
 * Under the lock: wait until another thread calls idle_wake() for this worker. false: it is a spare one that was idle for
 * so long that it shall end.
 */
static bool idle_wait(struct pool *p, struct idle_worker *self, bool spare)
{
	const struct timespec until = condition_deadline(SPARE_IDLE_MS);

	self->listed = true;
	self->next = p->idle;
	p->idle = self;
	while (self->listed) {
		if (!spare) {
			pthread_cond_wait(&self->wake, &p->lock);
		} else if (pthread_cond_timedwait(&self->wake, &p->lock, &until) == ETIMEDOUT &&
			   self->listed) {
			struct idle_worker **at = &p->idle;

			while (*at != self)
				at = &(*at)->next;
			*at = self->next;
			self->listed = false;
			return !worker_is_spare(p);
		}
	}
	return true;
}

/* Under the lock, which is released while work runs. */
static void worker_loop(struct pool *p, bool spare)
{
	struct idle_worker self;
	struct taken_work work;

	condition_init(&self.wake);
	for (;;) {
		if (!work_take(p, &work)) {
			if ((p->closed && !p->n_queued) || !idle_wait(p, &self, spare))
				break;
			continue;
		}
		/* The pool may have got its spares after this thread began. */
		here.p = p->max_waiting ? p : NULL;
		here.work = &work;
		pthread_mutex_unlock(&p->lock);
		work.slot.fn(work.slot.arg);
		pthread_mutex_lock(&p->lock);
		work_end(p, &work);
	}
	here.p = NULL;
	/* Another worker may wait for the last work of a client or a class. */
	if (p->closed)
		idle_wake_all(p);
	p->n_alive--;
	pthread_cond_destroy(&self.wake);
}

static void worker_nice(const struct pool *p)
{
	/* On Linux, of this thread alone. */
	if (nice(p->opts.nice) == -1) {
		/* A failure costs no more than the priority. */
	}
	if (p->reniced)
		thread_set_nice(p->nice);
}

static void *worker_run(void *arg)
{
	struct pool *p = arg;

	pthread_mutex_lock(&p->lock);
	p->tids[p->n_tids++] = gettid();
	worker_nice(p);
	worker_loop(p, false);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void *spare_run(void *arg)
{
	struct spare_worker *s = arg;
	struct pool *p = s->p;

	pthread_mutex_lock(&p->lock);
	s->tid = gettid();
	worker_nice(p);
	worker_loop(p, true);
	s->tid = 0;
	s->state = SPARE_ENDED;
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Signals are for the main thread, so workers start with all of them blocked. */
static bool worker_thread_start(const struct pool *p, pthread_t *ret, void *(*fn)(void *arg), void *arg,
				unsigned number)
{
	char name[THREAD_NAME_SIZE];
	sigset_t all, before;
	bool started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(ret, NULL, fn, arg) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!started)
		return false;
	snprintf(name, sizeof(name), "%.12s-%u", p->name, number % 100);
	pthread_setname_np(*ret, name);
	return true;
}

/* Returns how many threads were started. They wait for the lock, which the caller has. */
static unsigned start_threads(struct pool *p, unsigned n)
{
	unsigned i = 0;

	while (i < n && worker_thread_start(p, &p->threads[i], worker_run, p, i))
		i++;
	return i;
}

/* ---- work that waits ---- */

/* Under the lock: so many workers as the pool has must not wait. */
static void spare_start(struct pool *p)
{
	struct spare_worker *s = NULL;

	if (p->closed || p->n_alive - p->n_waiting >= p->n_threads)
		return;
	for (unsigned i = 0; i < p->max_waiting && !s; i++)
		if (p->spares[i].state != SPARE_RUNS)
			s = &p->spares[i];
	if (!s)
		return;
	if (s->state == SPARE_ENDED)
		pthread_join(s->thread, NULL);
	s->p = p;
	s->state = worker_thread_start(p, &s->thread, spare_run, s, (unsigned)(s - p->spares) + p->n_threads)
			   ? SPARE_RUNS
			   : SPARE_NONE;
	p->n_alive += s->state == SPARE_RUNS;
}

static void spare_join(struct pool *p, struct spare_worker *s)
{
	bool started;

	pthread_mutex_lock(&p->lock);
	started = s->state != SPARE_NONE;
	pthread_mutex_unlock(&p->lock);
	if (started)
		pthread_join(s->thread, NULL);
}

void pool_permit_waiting(struct pool *p, unsigned n)
{
	pthread_mutex_lock(&p->lock);
	assert(!p->max_waiting);
	p->spares = mem_zalloc(n * sizeof(*p->spares));
	p->max_waiting = n;
	pthread_mutex_unlock(&p->lock);
}

bool pool_may_wait(void)
{
	struct pool *p = here.p;
	bool may;

	if (!p)
		return true;
	pthread_mutex_lock(&p->lock);
	may = p->n_waiting < p->max_waiting &&
	      (!p->fair || p->n_waiting_of[here.work->client] < p->max_waiting - p->n_waiting);
	pthread_mutex_unlock(&p->lock);
	return may;
}

void pool_wait_begin(void)
{
	struct pool *p = here.p;
	struct taken_work *w = here.work;

	if (!p || here.depth++)
		return;
	pthread_mutex_lock(&p->lock);
	w->waits_ns = 0;
	if (p->n_waiting < p->max_waiting) {
		w->waits_ns = clock_mono_ns();
		p->n_waiting++;
		p->n_waiting_of[w->client]++;
		count_running(p, w->of, w->client, -1);
		spare_start(p);
		if (class_choose(p))
			idle_wake(p);
	}
	pthread_mutex_unlock(&p->lock);
}

void pool_wait_end(void)
{
	struct pool *p = here.p;
	struct taken_work *w = here.work;

	if (!p || --here.depth || !w->waits_ns)
		return;
	pthread_mutex_lock(&p->lock);
	p->n_waiting--;
	p->n_waiting_of[w->client]--;
	count_running(p, w->of, w->client, 1);
	w->started_ns += clock_mono_ns() - w->waits_ns;
	pthread_mutex_unlock(&p->lock);
}

void pool_condition_wait(pthread_cond_t *c, pthread_mutex_t *lock)
{
	const struct timespec until = condition_deadline(SHORT_WAIT_MS);

	if (pthread_cond_clockwait(c, lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
		return;
	pool_wait_begin();
	pthread_cond_wait(c, lock);
	pool_wait_end();
}

size_t pool_waiting(struct pool *p)
{
	size_t n;

	pthread_mutex_lock(&p->lock);
	n = p->n_waiting;
	pthread_mutex_unlock(&p->lock);
	return n;
}

static struct pool *pool_make(const struct pool_options *o, bool fair)
{
	unsigned n = o->n_threads + (fair ? o->n_classes : 0);
	struct pool *p = mem_zalloc(sizeof(*p) + n * sizeof(p->threads[0]));

	assert(o->n_threads > 0 && o->n_classes > 0 && o->n_classes <= POOL_MAX_CLASSES);
	pthread_mutex_init(&p->lock, NULL);
	p->opts = *o;
	p->opts.shares = NULL;
	p->fair = fair;
	for (unsigned i = 0; i < o->n_classes; i++) {
		struct class_queue *c = &p->classes[i];

		c->share = o->shares ? o->shares[i] : 1;
		for (unsigned k = 0; k < POOL_CLIENTS; k++)
			c->clients[k].tail = &c->clients[k].head;
	}
	p->tids = NEW_N(pid_t, n);
	snprintf(p->name, sizeof(p->name), "%.12s", o->name);
	/* Fewer threads than asked for still do all the work; without any it would wait for ever. */
	pthread_mutex_lock(&p->lock);
	p->n_threads = p->n_alive = start_threads(p, n);
	pthread_mutex_unlock(&p->lock);
	if (!p->n_threads) {
		fprintf(stderr, "lode: no thread could be started for %s\n", o->name);
		abort();
	}
	return p;
}

struct pool *pool_new(const char *name, unsigned n_threads, size_t max_queued)
{
	const struct pool_options o = { .name = name,
					.n_threads = n_threads,
					.max_queued = max_queued,
					.nice = POOL_NICE,
					.n_classes = N_PLAIN_CLASSES };

	return pool_make(&o, false);
}

struct pool *pool_new_helpers(const char *name, unsigned n_threads, size_t max_queued)
{
	const struct pool_options o = {
		.name = name, .n_threads = n_threads, .max_queued = max_queued, .n_classes = N_PLAIN_CLASSES
	};

	return pool_make(&o, false);
}

bool thread_set_nice(int nice)
{
	/* On Linux, of this thread alone. */
	return setpriority(PRIO_PROCESS, 0, nice) == 0;
}

void pool_renice(struct pool *p, int nice)
{
	pthread_mutex_lock(&p->lock);
	p->reniced = true;
	p->nice = nice;
	for (unsigned i = 0; i < p->n_tids; i++)
		if (setpriority(PRIO_PROCESS, (id_t)p->tids[i], nice) < 0)
			break;
	for (unsigned i = 0; i < p->max_waiting; i++)
		if (p->spares[i].tid)
			setpriority(PRIO_PROCESS, (id_t)p->spares[i].tid, nice);
	pthread_mutex_unlock(&p->lock);
}

struct pool *pool_new_fair(const struct pool_options *o)
{
	return pool_make(o, true);
}

/* Under the lock. */
static void slot_put(struct pool *p, unsigned cls, struct pool_slot *slot, void (*fn)(void *arg), void *arg)
{
	struct class_queue *c = &p->classes[cls];
	unsigned client = slot->client % POOL_CLIENTS;
	struct slot_list *list = &c->clients[client];

	assert(cls < p->opts.n_classes);
	/* The time while it had no work is not made up for. */
	if (!c->n_queued && !c->n_running)
		c->used_ns = MAX(c->used_ns, p->used_ns);
	*slot = (struct pool_slot){
		.fn = fn, .arg = arg, .client = slot->client, .queued = true, .on_heap = slot->on_heap
	};
	*list->tail = slot;
	list->tail = &slot->next;
	c->waiting |= (uint64_t)1 << client;
	c->n_queued++;
	p->n_queued++;
	/* Else the worker that ends something takes it. */
	if (class_may_run(p, c))
		idle_wake(p);
}

void pool_queue(struct pool *p, unsigned cls, struct pool_slot *slot, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&p->lock);
	assert(!p->closed && !slot->queued);
	slot_put(p, cls, slot, fn, arg);
	pthread_mutex_unlock(&p->lock);
}

int pool_submit(struct pool *p, unsigned cls, void (*fn)(void *arg), void *arg)
{
	struct pool_slot *slot = NEW(struct pool_slot);
	int r;

	slot->on_heap = true;
	pthread_mutex_lock(&p->lock);
	r = p->closed ? POOL_CLOSED : p->n_queued >= p->opts.max_queued ? POOL_FULL : 0;
	if (r == 0)
		slot_put(p, cls, slot, fn, arg);
	pthread_mutex_unlock(&p->lock);
	if (r)
		free(slot);
	return r;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->closed = true;
	idle_wake_all(p);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->n_threads; i++)
		pthread_join(p->threads[i], NULL);
	/* Once it is closed, none is started. */
	for (unsigned i = 0; i < p->max_waiting; i++)
		spare_join(p, &p->spares[i]);
	free(p->spares);
	assert(!p->n_queued && !p->n_busy);
	pthread_mutex_destroy(&p->lock);
	free(p->tids);
	free(p);
}

size_t pool_queued(struct pool *p)
{
	size_t n;

	pthread_mutex_lock(&p->lock);
	n = p->n_queued;
	pthread_mutex_unlock(&p->lock);
	return n;
}

size_t pool_busy(struct pool *p)
{
	size_t n;

	pthread_mutex_lock(&p->lock);
	n = p->n_busy;
	pthread_mutex_unlock(&p->lock);
	return n;
}

unsigned pool_threads(struct pool *p)
{
	return p->n_threads;
}
