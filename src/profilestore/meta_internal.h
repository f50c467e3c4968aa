/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by meta.c and meta_location.c. */
#pragma once

#include "profilestore/meta.h"

static inline bool meta_take_memory(struct meta *m, uint64_t size)
{
	if (atomic_load_explicit(&m->memory, memory_order_relaxed) + size >
	    (m->ceiling ? m->ceiling : m->max_memory))
		return false;
	atomic_fetch_add_explicit(&m->memory, size, memory_order_relaxed);
	return true;
}

struct interned {
	const struct column *c;
	uint64_t (*hash_of)(const struct meta *m, uint32_t i);
};
/* Room in @h for the number @i of an entry. false: no memory. */
bool intern_grow(struct meta *m, struct slots *h, uint32_t i, struct interned x);
static inline bool intern_room(struct meta *m, struct slots *h, uint32_t i, struct interned x)
{
	return !slots_is_full(h, i) || intern_grow(m, h, i, x);
}

/* Room in @h for the next entry of @c. */
static inline bool intern_reserve(struct meta *m, struct slots *h, const struct column *c,
				  uint64_t (*hash_of)(const struct meta *m, uint32_t i))
{
	return intern_room(m, h, column_n(c), (struct interned){ c, hash_of });
}

/* Publish the new entry of @c to readers, and add it to the hash table. */
static inline uint32_t intern_put(struct slots *h, uint32_t at, struct column *c)
{
	uint32_t i = column_publish(c);

	slots_put(h, at, i);
	return i;
}

static inline void *column_push(struct meta *m, struct column *c)
{
	return meta_take_memory(m, c->entry_size) ? column_next(c) : NULL;
}

/* The slot may belong to another entry: then the prefetch was of no use. */
#define FETCH(h, column, hashes, n)                                                               \
	({                                                                                        \
		for (size_t k_ = 0; (h)->mask && k_ < (n); k_++)                                  \
			__builtin_prefetch(slots_place((h), (uint32_t)(hashes)[k_] & (h)->mask)); \
		for (size_t k_ = 0; (h)->mask && k_ < (n); k_++) {                                \
			uint32_t i_ = slots_at((h), (uint32_t)(hashes)[k_] & (h)->mask);          \
			if (i_)                                                                   \
				__builtin_prefetch(column_at((column), i_ - 1));                  \
		}                                                                                 \
	})
