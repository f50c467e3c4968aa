/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of worker threads. Each class has its own list; a worker looks into the urgent one first. How
 * many CPUs there are for it is found out in pool_cpus.c.
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

struct task {
	struct task *next;
	void (*fn)(void *arg);
	void *arg;
};

struct task_list {
	struct task *head, **tail;
};

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t wake; /* there is a task, or the pool closes */
	/* under the lock */
	struct task_list tasks[N_CLASSES];
	size_t n_queued, n_busy;
	bool closed;
	/* fixed */
	size_t max_queued;
	unsigned n_threads;
	char name[THREAD_NAME_SIZE];
	pthread_t threads[];
};

/* Under the lock; NULL when there is none. */
static struct task *task_take(struct pool *p)
{
	for (unsigned i = 0; i < N_CLASSES; i++) {
		struct task *t = p->tasks[i].head;

		if (!t)
			continue;
		p->tasks[i].head = t->next;
		if (!t->next)
			p->tasks[i].tail = &p->tasks[i].head;
		p->n_queued--;
		return t;
	}
	return NULL;
}

static void *worker(void *arg)
{
	struct pool *p = arg;

	/* Of this thread alone, on Linux. Who has an answer ready must not wait for those who make one. */
	nice(POOL_NICE);
	pthread_mutex_lock(&p->lock);
	for (;;) {
		struct task *t = task_take(p);

		if (!t && p->closed)
			break;
		if (!t) {
			pthread_cond_wait(&p->wake, &p->lock);
			continue;
		}
		p->n_busy++;
		pthread_mutex_unlock(&p->lock);
		t->fn(t->arg);
		free(t);
		pthread_mutex_lock(&p->lock);
		p->n_busy--;
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Signals are for the main thread, so workers start with all of them blocked. Returns how many threads there
 * are now. */
static unsigned start_threads(struct pool *p, unsigned n)
{
	sigset_t all, before;
	unsigned i;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (i = 0; i < n; i++) {
		char name[THREAD_NAME_SIZE];

		if (pthread_create(&p->threads[i], NULL, worker, p) != 0)
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

	assert(n_threads > 0 && max_queued > 0);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	for (unsigned i = 0; i < N_CLASSES; i++)
		p->tasks[i].tail = &p->tasks[i].head;
	p->max_queued = max_queued;
	snprintf(p->name, sizeof(p->name), "%.12s", name);
	/* With fewer threads than wanted all still gets done; with none nothing would, and nobody would be
	 * told. */
	p->n_threads = start_threads(p, n_threads);
	if (!p->n_threads) {
		fprintf(stderr, "lode: no thread could be started for %s\n", name);
		abort();
	}
	return p;
}

int pool_submit(struct pool *p, enum pool_class cls, void (*fn)(void *arg), void *arg)
{
	struct task *t = NEW(struct task);
	int r = 0;

	t->fn = fn;
	t->arg = arg;
	pthread_mutex_lock(&p->lock);
	if (p->closed) {
		r = POOL_CLOSED;
	} else if (p->n_queued == p->max_queued) {
		r = POOL_FULL;
	} else {
		*p->tasks[cls].tail = t;
		p->tasks[cls].tail = &t->next;
		p->n_queued++;
		pthread_cond_signal(&p->wake);
	}
	pthread_mutex_unlock(&p->lock);
	if (r)
		free(t);
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
