/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of a pool that waits for another machine, and the spare threads in its place.
 */
#include "base/pool_internal.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/condition.h"
#include "base/mem.h"

#define SHORT_WAIT_MS 20

_Thread_local struct pool_here pool_here;

static void *spare_run(void *arg)
{
	struct spare_worker *s = arg;
	struct pool *p = s->p;

	pthread_mutex_lock(&p->lock);
	s->tid = gettid();
	pool_worker_nice(p);
	pool_worker_loop(p, true);
	s->tid = 0;
	s->state = SPARE_ENDED;
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

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
	s->state = pool_thread_start(p, &s->thread, spare_run, s, (unsigned)(s - p->spares) + p->n_threads)
			   ? SPARE_RUNS
			   : SPARE_NONE;
	p->n_alive += s->state == SPARE_RUNS;
}

void pool_spare_join(struct pool *p, struct spare_worker *s)
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
	p->own_waits = p->fair ? n / 4 / POOL_CLIENTS : 0;
	pthread_mutex_unlock(&p->lock);
}

/* Of the waits that are no client's own, a client has as many as it leaves to others. */
static bool client_may_wait(const struct pool *p, unsigned client)
{
	unsigned n = p->n_waiting_of[client], shared = p->max_waiting - p->own_waits * POOL_CLIENTS;

	return n < p->own_waits ||
	       (p->n_shared_waiting < shared && n - p->own_waits < shared - p->n_shared_waiting);
}

bool pool_may_wait(void)
{
	struct pool *p = pool_here.p;
	bool may;

	if (!p)
		return true;
	pthread_mutex_lock(&p->lock);
	may = p->n_waiting < p->max_waiting && (!p->fair || client_may_wait(p, pool_here.work->client));
	pthread_mutex_unlock(&p->lock);
	return may;
}

void pool_wait_begin(void)
{
	struct pool *p = pool_here.p;
	struct taken_work *w = pool_here.work;

	if (!p || pool_here.depth++)
		return;
	pthread_mutex_lock(&p->lock);
	w->waits_ns = 0;
	if (p->n_waiting < p->max_waiting) {
		w->waits_ns = clock_mono_ns();
		p->n_waiting++;
		p->n_shared_waiting += p->n_waiting_of[w->client]++ >= p->own_waits;
		pool_count_running(p, w->of, w->client, -1);
		spare_start(p);
		if (pool_class_choose(p))
			pool_idle_wake(p);
	}
	pthread_mutex_unlock(&p->lock);
}

void pool_wait_end(void)
{
	struct pool *p = pool_here.p;
	struct taken_work *w = pool_here.work;

	if (!p || --pool_here.depth || !w->waits_ns)
		return;
	pthread_mutex_lock(&p->lock);
	p->n_waiting--;
	p->n_shared_waiting -= --p->n_waiting_of[w->client] >= p->own_waits;
	pool_count_running(p, w->of, w->client, 1);
	w->started_ns += clock_mono_ns() - w->waits_ns;
	pthread_mutex_unlock(&p->lock);
}

/*
 * After a short wait that was in vain the lock was free for a moment: what the caller waits for may have happened then, and
 * will not be signalled again. So the caller looks, and the wait that it begins next on this condition is the long one.
 */
void pool_condition_wait(pthread_cond_t *c, pthread_mutex_t *lock)
{
	static _Thread_local const pthread_cond_t *waited;
	const struct timespec until = condition_deadline(SHORT_WAIT_MS);

	if (waited != c) {
		if (pthread_cond_clockwait(c, lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT)
			waited = c;
		return;
	}
	waited = NULL;
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
