/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoded chunks and parked decoders, each kind with its own share of the cache's bytes. Chunks are shared,
 * in an LRU map. A decoder has one user: the user takes it out of the cache and puts it back afterwards.
 */
#include "codec/cache.h"

#include <pthread.h>
#include <stdlib.h>

/* The share of parked decoders. A chunk serves readers of exactly its offset, a decoder all readers after its
 * position. */
#define PARKED_PART(max) ((max) / 4)
/* A limit because the list is searched linearly. */
#define PARKED_MAX 256

struct parked {
	struct parked *newer, *older;
	uint64_t id;
	struct codec_run run;  /* its span pointer is invalid */
	uint64_t out, out_end; /* of its span */
	size_t weight;
};

struct codec_cache {
	struct lru *chunks;
	size_t max_parked; /* bytes */
	pthread_mutex_t lock;
	/* under the lock */
	struct parked *newest, *oldest;
	size_t weight;
	unsigned n_parked;
};

struct codec_cache *codec_cache_new(size_t max_bytes)
{
	struct codec_cache *c = NEW(struct codec_cache);

	c->max_parked = PARKED_PART(max_bytes);
	c->chunks = lru_new(max_bytes - c->max_parked, free);
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

/* ---- chunks ---- */

struct chunk_key {
	uint64_t id, off, size;
};

struct lru_ref *codec_cache_get(struct codec_cache *c, uint64_t id, uint64_t off, size_t size)
{
	struct chunk_key key = { id, off, size };

	return lru_get(c->chunks, bytes_of(&key, sizeof(key)));
}

struct lru_ref *codec_cache_put(struct codec_cache *c, uint64_t id, struct codec_chunk *p)
{
	struct chunk_key key = { id, p->off, p->size };

	return lru_put(c->chunks, bytes_of(&key, sizeof(key)), p, sizeof(*p));
}

const struct codec_chunk *codec_cache_chunk(struct lru_ref *ref)
{
	return lru_value(ref);
}

void codec_cache_drop(struct codec_cache *c, struct lru_ref *ref)
{
	lru_unref(c->chunks, ref);
}

/* ---- decoders ---- */

/* Under the lock. */
static void parked_unlink(struct codec_cache *c, struct parked *p)
{
	*(p->newer ? &p->newer->older : &c->newest) = p->older;
	*(p->older ? &p->older->newer : &c->oldest) = p->newer;
	c->weight -= p->weight;
	c->n_parked--;
}

static void parked_free(struct parked *list)
{
	while (list) {
		struct parked *next = list->older;

		codec_run_end(&list->run);
		free(list);
		list = next;
	}
}

/* Under the lock: unlink the oldest decoders until @need bytes more fit; returned as a list. */
static struct parked *parked_evict(struct codec_cache *c, size_t need)
{
	struct parked *out = NULL;

	while (c->oldest && (c->weight > c->max_parked - need || c->n_parked >= PARKED_MAX)) {
		struct parked *p = c->oldest;

		parked_unlink(c, p);
		p->older = out;
		out = p;
	}
	return out;
}

void codec_cache_park(struct codec_cache *c, uint64_t id, struct codec_run *r)
{
	struct parked *p, *out;
	size_t weight = r->d->weight + sizeof(*p);

	if (weight > c->max_parked) {
		codec_run_end(r);
		return;
	}
	p = NEW(struct parked);
	p->id = id;
	p->run = *r;
	p->run.d->raw = NULL;
	p->out = r->span->out;
	p->out_end = r->span->out_end;
	p->weight = weight;
	r->d = NULL;
	pthread_mutex_lock(&c->lock);
	out = parked_evict(c, weight);
	p->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = p;
	c->newest = p;
	c->weight += weight;
	c->n_parked++;
	pthread_mutex_unlock(&c->lock);
	parked_free(out);
}

bool codec_cache_unpark(struct codec_cache *c, uint64_t id, const struct codec_span *span, uint64_t beyond,
			uint64_t at, struct codec_run *ret)
{
	struct parked *best = NULL;

	pthread_mutex_lock(&c->lock);
	for (struct parked *p = c->newest; p; p = p->older)
		if (p->id == id && p->out == span->out && p->out_end == span->out_end && p->run.at <= at &&
		    p->run.at > beyond && (!best || p->run.at > best->run.at))
			best = p;
	if (best)
		parked_unlink(c, best);
	pthread_mutex_unlock(&c->lock);
	if (!best)
		return false;
	*ret = best->run;
	ret->span = span;
	free(best);
	return true;
}

void codec_cache_free(struct codec_cache *c)
{
	if (!c)
		return;
	parked_free(c->newest);
	lru_free(c->chunks);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
