/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded queue of pointers: a ring under one mutex, with one condition for room and one for items.
 */
#include "base/queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/condition.h"
#include "base/mem.h"

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t has_item, has_room;
	/* all under the lock */
	void **ring;
	size_t max, head, n;
	bool closed;
};

struct queue *queue_new(size_t max)
{
	struct queue *q = NEW(struct queue);

	assert(max > 0);
	q->ring = NEW_N(void *, max);
	q->max = max;
	pthread_mutex_init(&q->lock, NULL);
	condition_init(&q->has_item);
	condition_init(&q->has_room);
	return q;
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	pthread_cond_destroy(&q->has_room);
	pthread_cond_destroy(&q->has_item);
	pthread_mutex_destroy(&q->lock);
	free(q->ring);
	free(q);
}

/* Under the lock, with room. */
static void queue_put(struct queue *q, void *item)
{
	q->ring[(q->head + q->n) % q->max] = item;
	q->n++;
	pthread_cond_signal(&q->has_item);
}

/* Under the lock, with an item. */
static void *queue_take(struct queue *q)
{
	void *item = q->ring[q->head];

	q->head = (q->head + 1) % q->max;
	q->n--;
	pthread_cond_signal(&q->has_room);
	return item;
}

int queue_push(struct queue *q, void *item)
{
	int r = 0;

	pthread_mutex_lock(&q->lock);
	while (!q->closed && q->n == q->max)
		pthread_cond_wait(&q->has_room, &q->lock);
	if (q->closed)
		r = QUEUE_CLOSED;
	else
		queue_put(q, item);
	pthread_mutex_unlock(&q->lock);
	return r;
}

int queue_try_push(struct queue *q, void *item)
{
	int r = 0;

	pthread_mutex_lock(&q->lock);
	if (q->closed)
		r = QUEUE_CLOSED;
	else if (q->n == q->max)
		r = QUEUE_FULL;
	else
		queue_put(q, item);
	pthread_mutex_unlock(&q->lock);
	return r;
}

int queue_pop(struct queue *q, int64_t timeout_ms, void **ret)
{
	struct timespec deadline = condition_deadline(timeout_ms);
	int r = 0, waited = 0;

	pthread_mutex_lock(&q->lock);
	while (!q->n && !q->closed && waited != ETIMEDOUT) {
		if (timeout_ms < 0)
			pthread_cond_wait(&q->has_item, &q->lock);
		else
			waited = pthread_cond_timedwait(&q->has_item, &q->lock, &deadline);
	}
	if (q->n)
		*ret = queue_take(q);
	else
		r = q->closed ? QUEUE_CLOSED : QUEUE_TIMEOUT;
	pthread_mutex_unlock(&q->lock);
	return r;
}

int queue_try_pop(struct queue *q, void **ret)
{
	int r = 0;

	pthread_mutex_lock(&q->lock);
	if (q->n)
		*ret = queue_take(q);
	else
		r = q->closed ? QUEUE_CLOSED : QUEUE_EMPTY;
	pthread_mutex_unlock(&q->lock);
	return r;
}

void queue_close(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	pthread_cond_broadcast(&q->has_item);
	pthread_cond_broadcast(&q->has_room);
	pthread_mutex_unlock(&q->lock);
}

size_t queue_size(struct queue *q)
{
	size_t n;

	pthread_mutex_lock(&q->lock);
	n = q->n;
	pthread_mutex_unlock(&q->lock);
	return n;
}
