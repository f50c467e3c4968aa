/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded map that forgets what was not used for longest: a hash map and a list in the order of use, under
 * one mutex. An entry counts its holders; the cache itself is one of them as long as the entry is in the map.
 */
#include "base/lru.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include "base/map.h"
#include "base/mem.h"

struct lru_hold {
	/* fixed */
	void *value;
	size_t weight;
	struct bytes key; /* owned */
	/* under the lock */
	struct lru_hold *newer, *older; /* while kept */
	struct lru_hold *next_dead;
	size_t n_holds;
	bool kept;
};

struct lru {
	pthread_mutex_t lock;
	/* under the lock */
	struct map map;
	struct lru_hold *newest, *oldest;
	size_t weight;
	size_t n_entries; /* kept or held */
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

static void list_add(struct lru *l, struct lru_hold *h)
{
	h->newer = NULL;
	h->older = l->newest;
	*(l->newest ? &l->newest->newer : &l->oldest) = h;
	l->newest = h;
}

static void list_del(struct lru *l, struct lru_hold *h)
{
	*(h->newer ? &h->newer->older : &l->newest) = h->older;
	*(h->older ? &h->older->newer : &l->oldest) = h->newer;
}

/* Under the lock: one hold less. Who has none left goes to *dead, to be freed when the lock is given back. */
static void hold_put(struct lru *l, struct lru_hold *h, struct lru_hold **dead)
{
	if (--h->n_holds)
		return;
	l->n_entries--;
	h->next_dead = *dead;
	*dead = h;
}

/* Under the lock. */
static void forget(struct lru *l, struct lru_hold *h, struct lru_hold **dead)
{
	map_del(&l->map, h->key);
	list_del(l, h);
	l->weight -= h->weight;
	h->kept = false;
	hold_put(l, h, dead);
}

static void free_dead(struct lru *l, struct lru_hold *dead)
{
	while (dead) {
		struct lru_hold *next = dead->next_dead;

		if (l->free_value)
			l->free_value(dead->value);
		free((void *)dead->key.p);
		free(dead);
		dead = next;
	}
}

void lru_free(struct lru *l)
{
	struct lru_hold *dead = NULL;

	if (!l)
		return;
	while (l->oldest)
		forget(l, l->oldest, &dead);
	free_dead(l, dead);
	assert(!l->n_entries);
	map_done(&l->map);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* Under the lock: what is under @key, held and now the newest, or NULL. */
static struct lru_hold *find(struct lru *l, struct bytes key)
{
	struct lru_hold *h = map_get(&l->map, key);

	if (!h)
		return NULL;
	list_del(l, h);
	list_add(l, h);
	h->n_holds++;
	return h;
}

struct lru_hold *lru_get(struct lru *l, struct bytes key)
{
	struct lru_hold *h;

	pthread_mutex_lock(&l->lock);
	h = find(l, key);
	pthread_mutex_unlock(&l->lock);
	return h;
}

static struct lru_hold *hold_new(struct bytes key, void *value, size_t weight)
{
	struct lru_hold *h = NEW(struct lru_hold);
	uint8_t *copy = mem_alloc(key.size);

	if (key.size)
		memcpy(copy, key.p, key.size);
	h->key = bytes_of(copy, key.size);
	h->value = value;
	h->weight = weight;
	return h;
}

struct lru_hold *lru_put(struct lru *l, struct bytes key, void *value, size_t weight)
{
	struct lru_hold *h = hold_new(key, value, weight), *dead = NULL, *first;

	pthread_mutex_lock(&l->lock);
	h->n_holds = 1;
	l->n_entries++;
	first = find(l, key);
	if (first) {
		hold_put(l, h, &dead);
		h = first;
	} else if (weight <= l->max_weight) {
		while (l->weight > l->max_weight - weight)
			forget(l, l->oldest, &dead);
		h->kept = true;
		h->n_holds++;
		l->weight += weight;
		map_put(&l->map, h->key, h);
		list_add(l, h);
	}
	pthread_mutex_unlock(&l->lock);
	free_dead(l, dead);
	return h;
}

void *lru_value(struct lru_hold *h)
{
	return h->value;
}

void lru_drop(struct lru *l, struct lru_hold *h)
{
	struct lru_hold *dead = NULL;

	if (!h)
		return;
	pthread_mutex_lock(&l->lock);
	hold_put(l, h, &dead);
	pthread_mutex_unlock(&l->lock);
	free_dead(l, dead);
}

void lru_del(struct lru *l, struct bytes key)
{
	struct lru_hold *h, *dead = NULL;

	pthread_mutex_lock(&l->lock);
	h = map_get(&l->map, key);
	if (h)
		forget(l, h, &dead);
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
