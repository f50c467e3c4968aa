/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the records of a bucket: a listing names the versions, and threads of the scan read them, many at a time, since each
 * read is a request that takes its time at a distance. The calling thread lists, and reports the records in their order: a ring
 * of slots is between them.
 */
#include "store/bucket.h"

#include <stdlib.h>
#include "base/condition.h"

#define READS_MAX 64u

enum slot_state { SLOT_EMPTY, SLOT_QUEUED, SLOT_READ };

struct scan_slot {
	char *name, *object;
	struct blob_stamp stamp;
	enum blob_place place;
	enum slot_state state; /* under the lock */
	/* of the thread that reads, until the state is SLOT_READ */
	int outcome;
	struct buf content;
	struct err why;
};

struct scan {
	struct blob_bucket *s;
	size_t max;
	blob_scan_fn *fn;
	void *arg;
	struct scan_slot ring[READS_MAX];
	unsigned n_reads;
	unsigned oldest, n; /* of the calling thread: slots in use */
	pthread_mutex_t lock;
	pthread_cond_t queued, read;
	pthread_t threads[READS_MAX];
	unsigned n_threads;
	/* under the lock */
	unsigned next, n_queued; /* the slot that is read next */
	bool ended;
};

/* A version that was replaced since it was listed: the present one then. */
static void slot_read(struct scan *c, struct scan_slot *l)
{
	struct bucket *b = c->s->bucket;

	l->content.size = 0;
	l->why = (struct err){ 0 };
	l->outcome = b->ops->get(b, l->object, c->max, &l->content, &l->why);
	if (l->outcome == 0 && l->content.size != l->stamp.size)
		l->outcome = bucket_lies(&l->why, l->object, l->content.size, l->stamp.size);
	else if (l->outcome == BUCKET_MISSING)
		l->outcome = l->place == BLOB_PRESENT ? bucket_record_get(c->s, l->name, c->max, &l->content,
									  &l->stamp, &l->why)
						      : BLOB_MISSING;
}

static void *scan_main(void *arg)
{
	struct scan *c = arg;

	pthread_mutex_lock(&c->lock);
	while (!c->ended) {
		struct scan_slot *l = &c->ring[c->next];

		if (!c->n_queued) {
			pthread_cond_wait(&c->queued, &c->lock);
			continue;
		}
		c->next = (c->next + 1) % c->n_reads;
		c->n_queued--;
		pthread_mutex_unlock(&c->lock);
		slot_read(c, l);
		pthread_mutex_lock(&c->lock);
		l->state = SLOT_READ;
		pthread_cond_signal(&c->read);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* A short listing needs few threads. Without any, the calling thread reads. */
static void slot_queue(struct scan *c, struct scan_slot *l)
{
	if (c->n_reads > 1 && c->n_threads < c->n_reads && c->n_threads <= c->n &&
	    pthread_create(&c->threads[c->n_threads], NULL, scan_main, c) == 0)
		c->n_threads++;
	if (!c->n_threads) {
		slot_read(c, l);
		l->state = SLOT_READ;
		return;
	}
	pthread_mutex_lock(&c->lock);
	l->state = SLOT_QUEUED;
	c->n_queued++;
	pthread_cond_signal(&c->queued);
	pthread_mutex_unlock(&c->lock);
}

/* Wait for the oldest slot, report it, and empty it. */
static int slot_report(struct scan *c, struct err *err)
{
	struct scan_slot *l = &c->ring[c->oldest];
	struct version_name v;
	size_t blob;
	int r;

	pthread_mutex_lock(&c->lock);
	while (l->state != SLOT_READ)
		pthread_cond_wait(&c->read, &c->lock);
	pthread_mutex_unlock(&c->lock);
	(void)version_name_read(l->object, &v, &blob);
	r = c->fn(c->arg,
		  &(struct blob_scanned){ l->name, l->stamp, l->place, l->outcome, buf_bytes(&l->content),
					  &l->why, v.content[0] ? v.content : NULL },
		  err);
	mem_freep(&l->name);
	mem_freep(&l->object);
	l->state = SLOT_EMPTY;
	c->oldest = (c->oldest + 1) % c->n_reads;
	c->n--;
	return r;
}

static int version_queue(void *arg, const struct bucket_version *v, struct err *err)
{
	struct scan *c = arg;
	struct scan_slot *l;
	int r = c->n == c->n_reads ? slot_report(c, err) : 0;

	if (r)
		return r;
	l = &c->ring[(c->oldest + c->n) % c->n_reads];
	l->name = mem_strdup(v->name);
	l->object = mem_strdup(v->object);
	l->stamp = v->stamp;
	l->place = v->place;
	slot_queue(c, l);
	c->n++;
	return 0;
}

/* Reads that were begun end; those that were not are dropped. */
static void scan_end(struct scan *c)
{
	pthread_mutex_lock(&c->lock);
	c->ended = true;
	pthread_cond_broadcast(&c->queued);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->n_threads; i++)
		pthread_join(c->threads[i], NULL);
	for (unsigned i = 0; i < c->n_reads; i++) {
		free(c->ring[i].name);
		free(c->ring[i].object);
		buf_done(&c->ring[i].content);
	}
	pthread_cond_destroy(&c->queued);
	pthread_cond_destroy(&c->read);
	pthread_mutex_destroy(&c->lock);
}

int bucket_record_scan(struct blob_bucket *s, const char *prefix, const char *after, size_t max,
		       blob_scan_fn *fn, void *arg, struct err *err)
{
	struct scan *c = NEW(struct scan);
	int r;

	c->s = s;
	c->max = max;
	c->fn = fn;
	c->arg = arg;
	c->n_reads = MIN(MAX(s->bucket->n_reads, 1u), READS_MAX);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->queued, NULL);
	pthread_cond_init(&c->read, NULL);
	r = bucket_version_list(s, prefix, after, version_queue, c, err);
	while (r == 0 && c->n)
		r = slot_report(c, err);
	scan_end(c);
	free(c);
	return r;
}
