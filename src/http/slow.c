/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread checks all connections at intervals. It only shuts a slow socket down; the owner then sees the
 * end of the connection and closes it.
 */
#include "http/slow.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "base/condition.h"

#define LOOKS     8    /* checks within max_ms */
#define LOOK_MIN  50   /* ms */
#define LOOK_MAX  5000 /* ms */
#define ANSWERING INT64_MAX
#define FED_MS    500 /* without a chunk of the body, until the peer is checked */

struct slow_conn {
	int fd;
	_Atomic int64_t since_ms; /* start of the time that counts; or ANSWERING */
	_Atomic int64_t fed_ms;   /* time of the last chunk of its body; 0: no body */
	struct slow_conn *prev, *next;
};

struct slow {
	int64_t max_ms;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t stop;
	/* under the lock */
	struct slow_conn *first;
	bool stopping;
	/* */
	atomic_bool feeding; /* a body came lately: check more often */
};

static bool has_hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Under the lock. true: it receives a body. */
static bool look_at_body(struct slow_conn *c, int64_t now_ms)
{
	int64_t fed_ms = atomic_load_explicit(&c->fed_ms, memory_order_relaxed);

	if (!fed_ms)
		return false;
	if (now_ms - fed_ms >= FED_MS && has_hung_up(c->fd) &&
	    atomic_compare_exchange_strong(&c->fed_ms, &fed_ms, 0))
		shutdown(c->fd, SHUT_RDWR);
	return true;
}

/* Under the lock, so that no descriptor is closed and reused meanwhile. */
static void slow_check(struct slow *s)
{
	int64_t now_ms = clock_mono_ms(), before_ms = now_ms - s->max_ms;
	bool feeding = false;

	for (struct slow_conn *c = s->first; c; c = c->next) {
		int64_t since_ms = atomic_load_explicit(&c->since_ms, memory_order_relaxed);

		feeding |= look_at_body(c, now_ms);
		if (since_ms == ANSWERING || since_ms > before_ms)
			continue;
		/* Once. If a whole request has just arrived, the end of its answer starts the time anew. */
		if (atomic_compare_exchange_strong(&c->since_ms, &since_ms, ANSWERING))
			shutdown(c->fd, SHUT_RDWR);
	}
	atomic_store(&s->feeding, feeding);
}

static void *slow_run(void *arg)
{
	struct slow *s = arg;
	int64_t look_ms = MIN(MAX(s->max_ms / LOOKS, LOOK_MIN), LOOK_MAX);

	pthread_setname_np(pthread_self(), "lode-slow");
	pthread_mutex_lock(&s->lock);
	while (!s->stopping) {
		int64_t wait_ms = atomic_load(&s->feeding) ? MIN(look_ms, FED_MS) : look_ms;

		condition_wait(&s->stop, &s->lock, wait_ms);
		slow_check(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int slow_new(int64_t max_ms, struct slow **ret, struct err *err)
{
	struct slow *s = NEW(struct slow);
	int r;

	s->max_ms = max_ms;
	pthread_mutex_init(&s->lock, NULL);
	condition_init(&s->stop);
	r = pthread_create(&s->thread, NULL, slow_run, s);
	if (r) {
		free(s);
		return err_os(err, r, "no thread for slow connections");
	}
	*ret = s;
	return 0;
}

void slow_free(struct slow *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	pthread_cond_signal(&s->stop);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->stop);
	free(s);
}

struct slow_conn *slow_add(struct slow *s, int fd)
{
	struct slow_conn *c = NEW(struct slow_conn);

	c->fd = fd;
	slow_answered(c);
	pthread_mutex_lock(&s->lock);
	c->next = s->first;
	if (c->next)
		c->next->prev = c;
	s->first = c;
	pthread_mutex_unlock(&s->lock);
	return c;
}

void slow_del(struct slow *s, struct slow_conn *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&s->lock);
	*(c->prev ? &c->prev->next : &s->first) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	pthread_mutex_unlock(&s->lock);
	free(c);
}

void slow_fed(struct slow *s, struct slow_conn *c)
{
	atomic_store_explicit(&c->fed_ms, clock_mono_ms(), memory_order_relaxed);
	if (atomic_load_explicit(&s->feeding, memory_order_relaxed))
		return;
	pthread_mutex_lock(&s->lock);
	atomic_store(&s->feeding, true);
	pthread_cond_signal(&s->stop);
	pthread_mutex_unlock(&s->lock);
}

void slow_asked(struct slow_conn *c)
{
	atomic_store_explicit(&c->fed_ms, 0, memory_order_relaxed);
	atomic_store_explicit(&c->since_ms, ANSWERING, memory_order_relaxed);
}

void slow_answered(struct slow_conn *c)
{
	atomic_store_explicit(&c->since_ms, clock_mono_ms(), memory_order_relaxed);
}
