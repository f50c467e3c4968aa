/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash map from byte keys to pointers: open addressing with linear probing in a table of a power of two, at
 * most three quarters used. Short keys (build IDs, digests, numbers) are stored in the slot itself.
 */
#include "base/map.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

#define SLOTS_MIN  16
#define KEY_INLINE 24

enum slot_state { SLOT_EMPTY, SLOT_LIVE, SLOT_GONE };

struct map_slot {
	uint64_t hash;
	void *value;
	size_t key_size;
	union {
		uint8_t in[KEY_INLINE];
		uint8_t *p;
	} key;
	enum slot_state state;
};

/* 0 until the first use. If two threads set it at once, both use the first value. */
static _Atomic uint64_t map_seed;

static uint64_t seed_get(void)
{
	uint64_t seed = atomic_load_explicit(&map_seed, memory_order_relaxed), none = 0;

	if (seed)
		return seed;
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uint64_t)clock_mono_ns() * 0x9b05688c2b3e6c87 ^ (uint64_t)getpid();
	seed |= 1;
	if (!atomic_compare_exchange_strong(&map_seed, &none, seed))
		seed = none;
	return seed;
}

static struct bytes slot_key(const struct map_slot *s)
{
	return (struct bytes){ s->key_size > KEY_INLINE ? s->key.p : s->key.in, s->key_size };
}

static void slot_key_free(struct map_slot *s)
{
	if (s->key_size > KEY_INLINE)
		free(s->key.p);
}

static struct map_slot *map_find(const struct map *m, struct bytes key, uint64_t hash)
{
	size_t mask = m->n_slots - 1;

	if (!m->n_slots)
		return NULL;
	for (size_t i = hash & mask;; i = (i + 1) & mask) {
		struct map_slot *s = &m->slots[i];

		if (s->state == SLOT_EMPTY)
			return NULL;
		if (s->state == SLOT_LIVE && s->hash == hash && bytes_eq(slot_key(s), key))
			return s;
	}
}

/* The first slot in the probe sequence of @hash without a live key. There is one: the table is never full. */
static struct map_slot *map_place(struct map *m, uint64_t hash)
{
	size_t mask = m->n_slots - 1;
	size_t i = hash & mask;

	while (m->slots[i].state == SLOT_LIVE)
		i = (i + 1) & mask;
	return &m->slots[i];
}

/* Slots of deleted keys are dropped too, so that a map with much turnover keeps its size. */
static void map_rehash(struct map *m)
{
	struct map old = *m;

	m->n_slots = SLOTS_MIN;
	while (m->n_slots / 2 < m->n + 1)
		m->n_slots *= 2;
	m->slots = mem_realloc(NULL, m->n_slots, sizeof(*m->slots));
	for (size_t i = 0; i < m->n_slots; i++)
		m->slots[i].state = SLOT_EMPTY;
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.slots[i].state == SLOT_LIVE)
			*map_place(m, old.slots[i].hash) = old.slots[i];
	m->n_used = m->n;
	free(old.slots);
}

void map_done(struct map *m)
{
	for (size_t i = 0; i < m->n_slots; i++)
		if (m->slots[i].state == SLOT_LIVE)
			slot_key_free(&m->slots[i]);
	free(m->slots);
	*m = (struct map){ 0 };
}

void *map_get(const struct map *m, struct bytes key)
{
	struct map_slot *s;

	if (!m->n)
		return NULL;
	s = map_find(m, key, hash64(key.p, key.size, seed_get()));
	return s ? s->value : NULL;
}

void *map_put(struct map *m, struct bytes key, void *value)
{
	uint64_t hash = hash64(key.p, key.size, seed_get());
	struct map_slot *s = map_find(m, key, hash);
	uint8_t *copy;

	if (s) {
		void *old = s->value;

		s->value = value;
		return old;
	}
	if (m->n_used + 1 > m->n_slots / 4 * 3)
		map_rehash(m);
	s = map_place(m, hash);
	m->n_used += s->state == SLOT_EMPTY;
	m->n++;
	s->state = SLOT_LIVE;
	s->hash = hash;
	s->value = value;
	s->key_size = key.size;
	copy = s->key.in;
	if (key.size > KEY_INLINE)
		copy = s->key.p = mem_alloc(key.size);
	if (key.size)
		memcpy(copy, key.p, key.size);
	return NULL;
}

void *map_del(struct map *m, struct bytes key)
{
	struct map_slot *s;

	if (!m->n)
		return NULL;
	s = map_find(m, key, hash64(key.p, key.size, seed_get()));
	if (!s)
		return NULL;
	slot_key_free(s);
	s->state = SLOT_GONE;
	m->n--;
	return s->value;
}

bool map_next(const struct map *m, size_t *it, struct bytes *ret_key, void **ret_value)
{
	for (; *it < m->n_slots; ++*it) {
		const struct map_slot *s = &m->slots[*it];

		if (s->state != SLOT_LIVE)
			continue;
		*ret_key = slot_key(s);
		*ret_value = s->value;
		++*it;
		return true;
	}
	return false;
}
