/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of worker threads. Each class has a list for each client; the lists of a class take turns.
 * pool_internal.h lists the files of a pool; pool_cpus.c finds the number of CPUs.
 *
 * The time that a class has had is counted in nanoseconds divided by its share. When work is taken, the class is
 * charged with the time that its work usually takes, and with the difference when the work has ended: so that two
 * workers that look at the same moment do not both take the class with the least time.
 */
#include "base/pool_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/mem.h"

#define N_PLAIN_CLASSES (POOL_URGENT + 1)
#define USUAL_PART      8 /* the usual time of a class is a moving average over about so many works */

/* ---- under the lock ---- */

/* May a worker take work of @c now? */
static bool class_may_run(const struct pool *p, const struct class_queue *c)
{
	if (!(c->waiting & ~c->full))
		return false;
	return !p->fair || !c->n_running || p->n_shared_busy < p->opts.n_threads;
}

struct class_queue *pool_class_choose(struct pool *p)
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

void pool_count_running(struct pool *p, struct class_queue *c, unsigned client, int n)
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

bool pool_work_take(struct pool *p, struct taken_work *ret)
{
	struct class_queue *c = pool_class_choose(p);
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
	pool_count_running(p, c, client, 1);
	if (slot->on_heap)
		free(slot);
	return true;
}

void pool_work_end(struct pool *p, const struct taken_work *w)
{
	struct class_queue *c = w->of;
	int64_t ns = p->fair ? clock_mono_ns() - w->started_ns : 0;
	uint64_t took_ns = (uint64_t)MAX(ns, INT64_C(0));

	pool_count_running(p, c, w->client, -1);
	c->used_ns += took_ns / c->share - w->charged_ns / c->share;
	c->usual_ns += (took_ns / USUAL_PART) - c->usual_ns / USUAL_PART;
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
	p->n_threads = p->n_alive = pool_threads_start(p, n);
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
		pool_idle_wake(p);
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
	pool_idle_wake_all(p);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->n_threads; i++)
		pthread_join(p->threads[i], NULL);
	/* Once it is closed, none is started. */
	for (unsigned i = 0; i < p->max_waiting; i++)
		pool_spare_join(p, &p->spares[i]);
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
