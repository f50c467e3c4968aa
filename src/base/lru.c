/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded cache that evicts the least recently used entry: a hash map and a list in the order of use, under
 * one mutex. The cache has a reference of its own to each entry in the map.
 */
#include "base/lru.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include "base/map.h"
#include "base/mem.h"

struct lru_ref {
	/* fixed */
	void *value;
	size_t weight;
	struct bytes key; /* owned */
	/* under the lock */
	struct lru_ref *newer, *older; /* while kept */
	struct lru_ref *next_dead;
	size_t n_refs;
	bool kept;
};

struct lru {
	pthread_mutex_t lock;
	/* under the lock */
	struct map map;
	struct lru_ref *newest, *oldest;
	size_t weight;
	size_t n_entries; /* kept or referenced */
	/* fixed */
	size_t max_weight;
	void (*free_value)(void *value);
};

struct lru *lru_new(size_t max_weight, void (*free_value)(void *value))
{
	struct lru *l = NEW(struct lru);

	pthread_mutex_init(&l->lock, NULL);
	l->max_weight = max_weight;
	l->free_value = free_value;
	return l;
}

static void lru_list_add(struct lru *l, struct lru_ref *h)
{
	h->newer = NULL;
	h->older = l->newest;
	*(l->newest ? &l->newest->newer : &l->oldest) = h;
	l->newest = h;
}

static void lru_list_del(struct lru *l, struct lru_ref *h)
{
	*(h->newer ? &h->newer->older : &l->newest) = h->older;
	*(h->older ? &h->older->newer : &l->oldest) = h->newer;
}

/* Under the lock: give back one reference. Without references @h goes to *dead, to be freed after
 * unlocking. */
static void ref_put(struct lru *l, struct lru_ref *h, struct lru_ref **dead)
{
	if (--h->n_refs)
		return;
	l->n_entries--;
	h->next_dead = *dead;
	*dead = h;
}

/* Under the lock. */
static void lru_evict(struct lru *l, struct lru_ref *h, struct lru_ref **dead)
{
	map_del(&l->map, h->key);
	lru_list_del(l, h);
	l->weight -= h->weight;
	h->kept = false;
	ref_put(l, h, dead);
}

static void free_dead(struct lru *l, struct lru_ref *dead)
{
	while (dead) {
		struct lru_ref *next = dead->next_dead;

		if (l->free_value)
			l->free_value(dead->value);
		free((void *)dead->key.p);
		free(dead);
		dead = next;
	}
}

void lru_free(struct lru *l)
{
	struct lru_ref *dead = NULL;

	if (!l)
		return;
	while (l->oldest)
		lru_evict(l, l->oldest, &dead);
	free_dead(l, dead);
	assert(!l->n_entries);
	map_done(&l->map);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* Under the lock: a reference to the entry of @key, which becomes the newest, or NULL. */
static struct lru_ref *lru_find(struct lru *l, struct bytes key)
{
	struct lru_ref *h = map_get(&l->map, key);

	if (!h)
		return NULL;
	lru_list_del(l, h);
	lru_list_add(l, h);
	h->n_refs++;
	return h;
}

struct lru_ref *lru_get(struct lru *l, struct bytes key)
{
	struct lru_ref *h;

	pthread_mutex_lock(&l->lock);
	h = lru_find(l, key);
	pthread_mutex_unlock(&l->lock);
	return h;
}

static struct lru_ref *hold_new(struct bytes key, void *value, size_t weight)
{
	struct lru_ref *h = NEW(struct lru_ref);
	uint8_t *copy = mem_alloc(key.size);

	if (key.size)
		memcpy(copy, key.p, key.size);
	h->key = bytes_of(copy, key.size);
	h->value = value;
	h->weight = weight;
	return h;
}

struct lru_ref *lru_put(struct lru *l, struct bytes key, void *value, size_t weight)
{
	struct lru_ref *h = hold_new(key, value, weight), *dead = NULL, *first;

	pthread_mutex_lock(&l->lock);
	h->n_refs = 1;
	l->n_entries++;
	first = lru_find(l, key);
	if (first) {
		ref_put(l, h, &dead);
		h = first;
	} else if (weight <= l->max_weight) {
		while (l->weight > l->max_weight - weight)
			lru_evict(l, l->oldest, &dead);
		h->kept = true;
		h->n_refs++;
		l->weight += weight;
		map_put(&l->map, h->key, h);
		lru_list_add(l, h);
	}
	pthread_mutex_unlock(&l->lock);
	free_dead(l, dead);
	return h;
}

size_t lru_max_weight(const struct lru *l)
{
	return l->max_weight;
}

void *lru_value(struct lru_ref *h)
{
	return h->value;
}

void lru_unref(struct lru *l, struct lru_ref *h)
{
	struct lru_ref *dead = NULL;

	if (!h)
		return;
	pthread_mutex_lock(&l->lock);
	ref_put(l, h, &dead);
	pthread_mutex_unlock(&l->lock);
	free_dead(l, dead);
}

void lru_del(struct lru *l, struct bytes key)
{
	struct lru_ref *h, *dead = NULL;

	pthread_mutex_lock(&l->lock);
	h = map_get(&l->map, key);
	if (h)
		lru_evict(l, h, &dead);
	pthread_mutex_unlock(&l->lock);
	free_dead(l, dead);
}

void lru_sweep(struct lru *l, bool (*drop)(void *arg, void *value), void *arg)
{
	struct lru_ref *dead = NULL;

	pthread_mutex_lock(&l->lock);
	for (struct lru_ref *h = l->newest, *older; h; h = older) {
		older = h->older;
		if (drop(arg, h->value))
			lru_evict(l, h, &dead);
	}
	pthread_mutex_unlock(&l->lock);
	free_dead(l, dead);
}

size_t lru_weight(struct lru *l)
{
	size_t weight;

	pthread_mutex_lock(&l->lock);
	weight = l->weight;
	pthread_mutex_unlock(&l->lock);
	return weight;
}
