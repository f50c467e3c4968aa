/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents that were asked for lately, by URL as it was sent: for a hit, HTTP threads neither parse nor
 * resolve. In shards, so that they do not wait for one lock.
 *
 * An entry is valid only in the epoch of the resolver in which it was found. A plain file is valid for a
 * moment only, since no one reports its changes.
 */
#include "server/artifact/artifact.h"

#include <stdlib.h>
#include <sys/stat.h>

#define SHARDS       16u
#define SHARD_WEIGHT MIB(4)
#define FD_WEIGHT    KIB(256) /* so that at most 16 descriptors per shard are open */
#define PLAIN_MS     2000
#define MAX_URL      1024u

struct hot {
	struct lru *shards[SHARDS];
};

struct hot_entry {
	struct ready *ready;
	uint64_t epoch;
	int64_t until_ms; /* 0: no end */
};

static void hot_entry_free(void *p)
{
	struct hot_entry *e = p;

	ready_unref(e->ready);
	free(e);
}

struct hot *hot_new(void)
{
	struct hot *h = NEW(struct hot);

	for (unsigned i = 0; i < SHARDS; i++)
		h->shards[i] = lru_new(SHARD_WEIGHT, hot_entry_free);
	return h;
}

void hot_free(struct hot *h)
{
	if (!h)
		return;
	for (unsigned i = 0; i < SHARDS; i++)
		lru_free(h->shards[i]);
	free(h);
}

static struct lru *shard_of(struct hot *h, struct str url)
{
	return h->shards[hash64(url.p, url.size, 0) % SHARDS];
}

struct ready *hot_get(struct hot *h, struct str url, uint64_t epoch)
{
	struct lru *shard = shard_of(h, url);
	struct bytes key = bytes_of(url.p, url.size);
	struct lru_ref *ref = lru_get(shard, key);
	struct ready *r = NULL;
	struct hot_entry *e;
	bool stale;

	if (!ref)
		return NULL;
	e = lru_value(ref);
	stale = e->epoch != epoch || (e->until_ms && clock_mono_ms() >= e->until_ms) ||
		!ready_still_good(e->ready);
	if (!stale)
		r = ready_ref(e->ready);
	lru_unref(shard, ref);
	if (stale)
		lru_del(shard, key);
	return r;
}

void hot_put(struct hot *h, struct str url, struct ready *r, uint64_t epoch)
{
	struct lru *shard = shard_of(h, url);
	struct bytes key = bytes_of(url.p, url.size);
	struct hot_entry *e;

	if (url.size > MAX_URL)
		return;
	e = NEW(struct hot_entry);
	e->ready = ready_ref(r);
	e->epoch = epoch;
	if (r->plain.st_nlink)
		e->until_ms = clock_mono_ms() + PLAIN_MS;
	lru_del(shard, key);
	lru_unref(shard,
		  lru_put(shard, key, e, (r->mem ? (size_t)r->content.size : FD_WEIGHT) + KIB(2) + url.size));
}

static bool hot_is_idle(void *arg, void *value)
{
	const uint64_t *epoch = arg;
	const struct hot_entry *e = value;
	struct stat now;

	if (e->ready->fd < 0)
		return false;
	return e->epoch != *epoch || (e->until_ms && clock_mono_ms() >= e->until_ms) ||
	       (fstat(e->ready->fd, &now) == 0 && !now.st_nlink);
}

void hot_tidy(struct hot *h, uint64_t epoch)
{
	for (unsigned i = 0; i < SHARDS; i++)
		lru_sweep(h->shards[i], hot_is_idle, &epoch);
}
