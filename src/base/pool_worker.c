/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a pool.
 */
#include "base/pool_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/condition.h"

#define SPARE_IDLE_MS 2000

/* ---- idle ---- */

bool pool_idle_wake(struct pool *p)
{
	struct idle_worker *w = p->idle;

	if (!w)
		return false;
	p->idle = w->next;
	w->listed = false;
	pthread_cond_signal(&w->wake);
	return true;
}

void pool_idle_wake_all(struct pool *p)
{
	while (pool_idle_wake(p))
		continue;
}

/* Under the lock: more threads are there than may work, since some that waited work again. */
static bool worker_is_spare(const struct pool *p)
{
	return p->n_alive - p->n_waiting > p->n_threads;
}

/*
 * Under the lock: wait until another thread calls pool_idle_wake() for this worker. false: it is a spare one that was idle for
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

void pool_worker_loop(struct pool *p, bool spare)
{
	struct idle_worker self;
	struct taken_work work;

	condition_init(&self.wake);
	for (;;) {
		if (!pool_work_take(p, &work)) {
			if ((p->closed && !p->n_queued) || !idle_wait(p, &self, spare))
				break;
			continue;
		}
		/* The pool may have got its spares after this thread began. */
		pool_here.p = p->max_waiting ? p : NULL;
		pool_here.work = &work;
		pthread_mutex_unlock(&p->lock);
		work.slot.fn(work.slot.arg);
		pthread_mutex_lock(&p->lock);
		pool_work_end(p, &work);
	}
	pool_here.p = NULL;
	/* Another worker may wait for the last work of a client or a class. */
	if (p->closed)
		pool_idle_wake_all(p);
	p->n_alive--;
	pthread_cond_destroy(&self.wake);
}

void pool_worker_nice(const struct pool *p)
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
	pool_worker_nice(p);
	pool_worker_loop(p, false);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Signals are for the main thread, so workers start with all of them blocked. */
bool pool_thread_start(const struct pool *p, pthread_t *ret, void *(*fn)(void *arg), void *arg,
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

unsigned pool_threads_start(struct pool *p, unsigned n)
{
	unsigned i = 0;

	while (i < n && pool_thread_start(p, &p->threads[i], worker_run, p, i))
		i++;
	return i;
}

/* ---- priority ---- */

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
