/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks: steps that are queued at most once, and wakers.
 *
 * The state is one atomic variable, so that a kick takes no lock but the pool's.
 */
#include "base/task.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/mem.h"

enum state { IDLE, QUEUED, RUNNING, KICKED /* and running */ };

/* Referenced by the task and by the thread that will fire it. */
struct task_waker {
	pthread_mutex_t lock; /* held while the task is kicked; only the pool's lock is taken under it */
	struct task *task;    /* under the lock; NULL: fired, returned or dropped */
	atomic_uint n_refs;
};

static void task_run(void *arg)
{
	struct task *t = arg;
	void (*unref)(void *) = t->unref;
	unsigned running = RUNNING;
	void *obj = t->arg;

	atomic_exchange(&t->state, RUNNING);
	if (t->step(obj) == TASK_GONE)
		return;
	if (atomic_compare_exchange_strong(&t->state, &running, IDLE)) {
		/* Without a reference the object may end from here on. */
		if (unref)
			unref(obj);
		return;
	}
	atomic_store(&t->state, QUEUED);
	pool_queue(t->pool, t->cls, &t->slot, task_run, t);
}

void task_kick(struct task *t)
{
	static const unsigned after[] = {
		[IDLE] = QUEUED, [QUEUED] = QUEUED, [RUNNING] = KICKED, [KICKED] = KICKED
	};
	unsigned before = atomic_load(&t->state);

	/* The variable is written even if the state stays: so the next step sees all that was written before
	 * the kick. */
	while (!atomic_compare_exchange_weak(&t->state, &before, after[before]))
		;
	if (before != IDLE)
		return;
	if (t->ref)
		t->ref(t->arg);
	pool_queue(t->pool, t->cls, &t->slot, task_run, t);
}

void task_done(struct task *t)
{
	unsigned state = atomic_load(&t->state);

	assert(state != QUEUED);
	task_waker_drop(t);
}

/* ---- wakers ---- */

static void waker_unref(struct task_waker *w)
{
	if (atomic_fetch_sub(&w->n_refs, 1) != 1)
		return;
	pthread_mutex_destroy(&w->lock);
	free(w);
}

struct task_waker *task_waker_new(struct task *t)
{
	struct task_waker *w = NEW(struct task_waker);

	assert(!task_waits(t));
	pthread_mutex_init(&w->lock, NULL);
	w->task = t;
	atomic_init(&w->n_refs, 2);
	if (t->ref)
		t->ref(t->arg);
	t->waker = w;
	return w;
}

void task_waker_fire(void *arg)
{
	struct task_waker *w = arg;
	void (*unref)(void *) = NULL;
	void *obj = NULL;
	struct task *t;

	pthread_mutex_lock(&w->lock);
	t = TAKE(w->task);
	if (t) {
		unref = t->unref;
		obj = t->arg;
		task_kick(t);
	}
	pthread_mutex_unlock(&w->lock);
	if (unref)
		unref(obj);
	waker_unref(w);
}

bool task_waker_wanted(void *arg)
{
	struct task_waker *w = arg;
	bool wanted;

	pthread_mutex_lock(&w->lock);
	wanted = w->task != NULL;
	pthread_mutex_unlock(&w->lock);
	return wanted;
}

void task_waker_drop(struct task *t)
{
	struct task_waker *w = TAKE(t->waker);
	bool waited;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	waited = TAKE(w->task) != NULL;
	pthread_mutex_unlock(&w->lock);
	waker_unref(w);
	if (waited && t->unref)
		t->unref(t->arg);
}

void task_waker_return(struct task *t, struct task_waker *w)
{
	assert(t->waker == w);
	task_waker_drop(t);
	waker_unref(w);
}

bool task_waits(struct task *t)
{
	bool waits;

	if (!t->waker)
		return false;
	pthread_mutex_lock(&t->waker->lock);
	waits = t->waker->task != NULL;
	pthread_mutex_unlock(&t->waker->lock);
	/* A fired waker is of no more use. */
	if (!waits)
		waker_unref(TAKE(t->waker));
	return waits;
}
