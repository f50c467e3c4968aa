/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of indices: it finds an element of an array that the owner has, which compares the elements.
 * Open addressing, linear probing. The owner decides about room, and so about memory:
 *
 *	if (hash_index_is_full(t) && !HASH_INDEX_GROW(t, room, i, hash_of(&list[i])))
 *		return FAILED;
 *	if (HASH_INDEX_FIND(t, hash_of(e), at, i, entry_eq(&list[i], e)))
 *		return i;
 *	list[n] = *e;
 *	hash_index_put(t, at, n);
 *	return n++;
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Zeroed is empty. */
struct hash_index {
	uint32_t *slots;  /* index + 1; 0: free. Heap, the owner's to free */
	uint32_t n, mask; /* mask 0: no slots yet */
};

static inline uint64_t hash_index_room(const struct hash_index *t)
{
	return t->mask ? (uint64_t)t->mask + 1 : 0;
}

/* There is no room for one more: a third stays free. */
static inline bool hash_index_is_full(const struct hash_index *t)
{
	return ((uint64_t)t->n + 1) * 3 > hash_index_room(t) * 2;
}

/* Make @t empty, with @room slots, a power of two. Its old slots are not freed. false: no memory, and nothing
 * has changed. */
static inline bool hash_index_start(struct hash_index *t, uint64_t room)
{
	uint32_t *slots = calloc(room, sizeof(*slots));

	if (!slots)
		return false;
	*t = (struct hash_index){ .slots = slots, .mask = (uint32_t)(room - 1) };
	return true;
}

/* Add @i at @at, the free slot that HASH_INDEX_FIND() set. */
static inline void hash_index_put(struct hash_index *t, uint32_t at, uint32_t i)
{
	t->slots[at] = i + 1;
	t->n++;
}

/* Add @i, which is not in the table, where there is room. */
static inline void hash_index_add(struct hash_index *t, uint64_t hash, uint32_t i)
{
	uint32_t at = (uint32_t)hash & t->mask;

	while (t->slots[at])
		at = (at + 1) & t->mask;
	hash_index_put(t, at, i);
}

/* Give @t @room slots, a power of two that leaves a third free. @hash is an expression of the index @i.
 * false: no memory, and nothing has changed. */
#define HASH_INDEX_GROW(t, room, i, hash)                                              \
	({                                                                             \
		struct hash_index *grow_t_ = (t);                                      \
		const struct hash_index grow_old_ = *grow_t_;                          \
		const uint64_t grow_n_ = hash_index_room(&grow_old_);                  \
		bool grow_done_ = hash_index_start(grow_t_, (room));                   \
		for (uint64_t grow_k_ = 0; grow_done_ && grow_k_ < grow_n_; grow_k_++) \
			if (grow_old_.slots[grow_k_]) {                                \
				uint32_t i = grow_old_.slots[grow_k_] - 1;             \
				hash_index_add(grow_t_, (hash), i);                    \
			}                                                              \
		if (grow_done_)                                                        \
			free(grow_old_.slots);                                         \
		grow_done_;                                                            \
	})

/* true: @i is an index in the table for which @equal holds. false: @at is the free slot for it. @at and @i
 * are variables, uint32_t; @t has slots. */
#define HASH_INDEX_FIND(t, hash, at, i, equal)                                                       \
	({                                                                                           \
		bool find_found_ = false;                                                            \
		for (at = (uint32_t)(hash) & (t)->mask; (t)->slots[at]; at = (at + 1) & (t)->mask) { \
			i = (t)->slots[at] - 1;                                                      \
			if (equal) {                                                                 \
				find_found_ = true;                                                  \
				break;                                                               \
			}                                                                            \
		}                                                                                    \
		find_found_;                                                                         \
	})

/* A fast hash of two numbers. */
static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
	__uint128_t m = (__uint128_t)(a ^ 0x9e3779b97f4a7c15) * (b ^ 0xe7037ed1a0b428db);

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}
