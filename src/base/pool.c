/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of worker threads. Each class has its own list; a worker looks into the urgent one first.
 * pool_cpus.c finds the number of CPUs.
 */
#include "base/pool.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/mem.h"

#define N_CLASSES        (POOL_NORMAL + 1)
#define THREAD_NAME_SIZE 16 /* the kernel's, with NUL */

struct slot_list {
	struct pool_slot *head, **tail;
};

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t wake; /* work was queued, or the pool closes */
	/* under the lock */
	struct slot_list queue[N_CLASSES];
	size_t n_queued, n_busy;
	bool closed;
	/* fixed */
	size_t max_queued;
	unsigned n_threads;
	char name[THREAD_NAME_SIZE];
	pthread_t threads[];
};

/* Under the lock; NULL when there is none. */
static struct pool_slot *slot_take(struct pool *p)
{
	for (unsigned i = 0; i < N_CLASSES; i++) {
		struct pool_slot *slot = p->queue[i].head;

		if (!slot)
			continue;
		p->queue[i].head = slot->next;
		if (!slot->next)
			p->queue[i].tail = &p->queue[i].head;
		slot->queued = false;
		p->n_queued--;
		return slot;
	}
	return NULL;
}

static void *worker_run(void *arg)
{
	struct pool *p = arg;

	/* On Linux, of this thread alone. A thread that has an answer ready must not wait for these. */
	nice(POOL_NICE);
	pthread_mutex_lock(&p->lock);
	for (;;) {
		struct pool_slot *slot = slot_take(p), work;

		if (!slot && p->closed)
			break;
		if (!slot) {
			pthread_cond_wait(&p->wake, &p->lock);
			continue;
		}
		work = *slot;
		p->n_busy++;
		pthread_mutex_unlock(&p->lock);
		if (work.on_heap)
			free(slot);
		work.fn(work.arg);
		pthread_mutex_lock(&p->lock);
		p->n_busy--;
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Signals are for the main thread, so workers start with all of them blocked. Returns how many threads were
 * started. */
static unsigned start_threads(struct pool *p, unsigned n)
{
	sigset_t all, before;
	unsigned i;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (i = 0; i < n; i++) {
		char name[THREAD_NAME_SIZE];

		if (pthread_create(&p->threads[i], NULL, worker_run, p) != 0)
			break;
		snprintf(name, sizeof(name), "%.12s-%u", p->name, i % 100);
		pthread_setname_np(p->threads[i], name);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return i;
}

struct pool *pool_new(const char *name, unsigned n_threads, size_t max_queued)
{
	struct pool *p = mem_zalloc(sizeof(*p) + n_threads * sizeof(p->threads[0]));

	assert(n_threads > 0);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	for (unsigned i = 0; i < N_CLASSES; i++)
		p->queue[i].tail = &p->queue[i].head;
	p->max_queued = max_queued;
	snprintf(p->name, sizeof(p->name), "%.12s", name);
	/* Fewer threads than asked for still do all the work; without any it would wait for ever. */
	p->n_threads = start_threads(p, n_threads);
	if (!p->n_threads) {
		fprintf(stderr, "lode: no thread could be started for %s\n", name);
		abort();
	}
	return p;
}

/* Under the lock. */
static void slot_put(struct pool *p, enum pool_class cls, struct pool_slot *slot, void (*fn)(void *arg),
		     void *arg)
{
	*slot = (struct pool_slot){ .fn = fn, .arg = arg, .queued = true, .on_heap = slot->on_heap };
	*p->queue[cls].tail = slot;
	p->queue[cls].tail = &slot->next;
	p->n_queued++;
	pthread_cond_signal(&p->wake);
}

void pool_queue(struct pool *p, enum pool_class cls, struct pool_slot *slot, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&p->lock);
	assert(!p->closed && !slot->queued);
	slot_put(p, cls, slot, fn, arg);
	pthread_mutex_unlock(&p->lock);
}

int pool_submit(struct pool *p, enum pool_class cls, void (*fn)(void *arg), void *arg)
{
	struct pool_slot *slot = NEW(struct pool_slot);
	int r;

	slot->on_heap = true;
	pthread_mutex_lock(&p->lock);
	r = p->closed ? POOL_CLOSED : p->n_queued >= p->max_queued ? POOL_FULL : 0;
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
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->n_threads; i++)
		pthread_join(p->threads[i], NULL);
	assert(!p->n_queued && !p->n_busy);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
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
