/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open hash table of the numbers of entries that lie elsewhere: whoever looks for one compares it there.
 * The owner sees to room, and so to what it may take of memory:
 *
 *	if (numbers_is_full(t) && !grow(...))
 *		return FAILED;
 *	if (NUMBERS_FIND(t, hash, at, i, entry_eq(&entries[i], e)))
 *		return i;
 *	entries[n] = *e;
 *	numbers_put(t, at, n);
 *	return n++;
 *
 * To grow is numbers_start(), and numbers_add() of all that were in the slots before.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Zeroed is empty. */
struct numbers {
	uint32_t *slots;  /* number + 1; 0: free. Heap, the owner's to free */
	uint32_t n, mask; /* mask 0: no slots yet */
};

static inline uint64_t numbers_room(const struct numbers *t)
{
	return t->mask ? (uint64_t)t->mask + 1 : 0;
}

/* There is no room for one more: a third stays free. */
static inline bool numbers_is_full(const struct numbers *t)
{
	return ((uint64_t)t->n + 1) * 3 > numbers_room(t) * 2;
}

/* Make it an empty one of @room slots, a power of two; those that it had are not freed. false: no memory, and
 * nothing has changed. */
static inline bool numbers_start(struct numbers *t, uint64_t room)
{
	uint32_t *slots = calloc(room, sizeof(*slots));

	if (!slots)
		return false;
	*t = (struct numbers){ .slots = slots, .mask = (uint32_t)(room - 1) };
	return true;
}

/* @at is what NUMBERS_FIND() said. */
static inline void numbers_put(struct numbers *t, uint32_t at, uint32_t i)
{
	t->slots[at] = i + 1;
	t->n++;
}

/* One that is not in it, where there is room. */
static inline void numbers_add(struct numbers *t, uint64_t hash, uint32_t i)
{
	uint32_t at = (uint32_t)hash & t->mask;

	while (t->slots[at])
		at = (at + 1) & t->mask;
	numbers_put(t, at, i);
}

/* Whether there is a number @i for which @equal holds; else @at is the free slot for it. Both are variables,
 * uint32_t; there are slots. */
#define NUMBERS_FIND(t, hash, at, i, equal)                                                          \
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

/* A fast mix of two numbers, for hashes. */
static inline uint64_t numbers_mix(uint64_t a, uint64_t b)
{
	__uint128_t m = (__uint128_t)(a ^ 0x9e3779b97f4a7c15) * (b ^ 0xe7037ed1a0b428db);

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}
