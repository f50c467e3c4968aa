/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes items from the decoding thread to the marker: inline, or to a thread in batches, since a wake-up for
 * each block would cost as much as marking it.
 *
 * The rings bound how far the marker can lag: a writer that would overwrite bytes that the marker still
 * needs, waits.
 */
#include "codec/zstd.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define BATCH_ITEMS   64
#define BATCH_OUT     KIB(512)
#define QUEUE_BATCHES 256

/* No thread for a smaller content: starting one costs more. */
#define THREAD_FROM MIB(4)

struct batch {
	size_t n;
	uint64_t n_out;
	struct zstd_item item[BATCH_ITEMS];
};

struct zstd_lane {
	struct zstd_marker *marker; /* the thread's, while n_done < n_pushed */
	bool want_thread;
	bool has_thread;
	pthread_t thread;
	struct queue *queue;
	struct batch *batch; /* being filled */
	uint64_t n_pushed;
	uint64_t needs_in, needs_out; /* as last seen */

	pthread_mutex_t lock;
	pthread_cond_t moved;
	uint64_t n_done;                            /* lock; the pushing side waits for a change */
	uint64_t thread_needs_in, thread_needs_out; /* lock */
	bool waiting;                               /* lock */
	pid_t tid;                                  /* lock; 0: the thread has not begun */
	bool reniced;                               /* lock; to this nice value: */
	int nice;
};

struct zstd_lane *zstd_lane_new(const struct codec_scan_options *opts, uint64_t in_size)
{
	struct zstd_lane *l = NEW(struct zstd_lane);

	l->marker = zstd_marker_new(opts, in_size);
	l->want_thread = opts->threads > 0;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->moved, NULL);
	return l;
}

/* Under the lock. */
static void lane_set_nice(struct zstd_lane *l)
{
	if (l->tid && l->reniced && setpriority(PRIO_PROCESS, (id_t)l->tid, l->nice) < 0) {
		/* Without the privilege it goes on as it is. */
	}
}

void zstd_lane_renice(struct zstd_lane *l, int nice)
{
	pthread_mutex_lock(&l->lock);
	l->reniced = true;
	l->nice = nice;
	lane_set_nice(l);
	pthread_mutex_unlock(&l->lock);
}

static void *lane_thread(void *arg)
{
	struct zstd_lane *l = arg;
	void *item;

	pthread_setname_np(pthread_self(), "zstd-scan");
	pthread_mutex_lock(&l->lock);
	l->tid = gettid();
	lane_set_nice(l);
	pthread_mutex_unlock(&l->lock);
	while (queue_pop(l->queue, -1, &item) == 0) {
		struct batch *b = item;
		uint64_t in, out;

		for (size_t i = 0; i < b->n; i++)
			zstd_marker_feed(l->marker, &b->item[i]);
		free(b);
		zstd_marker_needs(l->marker, &in, &out);

		pthread_mutex_lock(&l->lock);
		l->n_done++;
		l->thread_needs_in = in;
		l->thread_needs_out = out;
		if (l->waiting)
			pthread_cond_signal(&l->moved);
		pthread_mutex_unlock(&l->lock);
	}
	return NULL;
}

/* Start the thread once it is worthwhile; without a thread the marker runs inline. */
static void start_thread(struct zstd_lane *l)
{
	l->want_thread = false;
	l->queue = queue_new(QUEUE_BATCHES);
	if (pthread_create(&l->thread, NULL, lane_thread, l) == 0) {
		l->has_thread = true;
		return;
	}
	queue_free(l->queue);
	l->queue = NULL;
}

static void lane_push(struct zstd_lane *l)
{
	if (!l->batch)
		return;
	queue_push(l->queue, TAKE(l->batch));
	l->n_pushed++;
}

void zstd_lane_feed(struct zstd_lane *l, const struct zstd_item *it)
{
	if (l->want_thread && it->out >= THREAD_FROM)
		start_thread(l);
	if (!l->has_thread) {
		zstd_marker_feed(l->marker, it);
		zstd_marker_needs(l->marker, &l->needs_in, &l->needs_out);
		return;
	}
	if (!l->batch) {
		l->batch = mem_alloc(sizeof(*l->batch));
		l->batch->n = 0;
		l->batch->n_out = 0;
	}
	l->batch->item[l->batch->n++] = *it;
	l->batch->n_out += it->n_out;
	if (l->batch->n == BATCH_ITEMS || l->batch->n_out >= BATCH_OUT)
		lane_push(l);
}

/* Wait until the marker needs nothing before these positions, or has done all. */
static void lane_wait(struct zstd_lane *l, uint64_t in_pos, uint64_t out)
{
	if (!l->has_thread)
		return;
	lane_push(l);
	pthread_mutex_lock(&l->lock);
	l->waiting = true;
	while (l->n_done < l->n_pushed && (l->thread_needs_in < in_pos || l->thread_needs_out < out))
		pthread_cond_wait(&l->moved, &l->lock);
	l->waiting = false;
	l->needs_in = l->thread_needs_in;
	l->needs_out = l->thread_needs_out;
	pthread_mutex_unlock(&l->lock);
}

void zstd_lane_wait_in(struct zstd_lane *l, uint64_t in_pos)
{
	if (l->needs_in < in_pos)
		lane_wait(l, in_pos, 0);
	assert(l->needs_in >= in_pos); /* the ring is large enough for the marker's needs */
}

void zstd_lane_wait_out(struct zstd_lane *l, uint64_t out)
{
	if (l->needs_out < out)
		lane_wait(l, 0, out);
	assert(l->needs_out >= out);
}

struct zstd_marker *zstd_lane_settle(struct zstd_lane *l)
{
	lane_wait(l, UINT64_MAX, UINT64_MAX);
	return l->marker;
}

void zstd_lane_free(struct zstd_lane *l)
{
	if (!l)
		return;
	if (l->has_thread) {
		queue_close(l->queue);
		pthread_join(l->thread, NULL);
		queue_free(l->queue);
	}
	free(l->batch);
	zstd_marker_free(l->marker);
	pthread_cond_destroy(&l->moved);
	pthread_mutex_destroy(&l->lock);
	free(l);
}
