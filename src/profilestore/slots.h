/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of numbers of entries, as base/hash_index.h, in slots of 3 bytes: the tables of a large store are mostly
 * slots. A table in which a number does not fit gets slots of 4 bytes.
 *
 *	if (slots_is_full(t, number))
 *		slots_start() another one, and slots_add() all numbers of the old one;
 *	if (SLOTS_FIND(t, hash_of(e), at, i, entry_eq(i, e)))
 *		return i;
 *	slots_put(t, at, number);
 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash_index.h"

#define SLOTS_NARROW     3u
#define SLOTS_WIDE       4u
#define SLOTS_NARROW_END ((1u << 24) - 1) /* numbers below it fit into a narrow slot */

/* Zeroed is empty. */
struct slots {
	uint8_t *v;       /* number + 1, little endian; 0: free. Heap, the owner's to free */
	uint32_t n, mask; /* mask 0: no slots yet */
	uint32_t size;    /* of a slot; 0: no slots yet */
};

static inline uint64_t slots_room(const struct slots *t)
{
	return t->mask ? (uint64_t)t->mask + 1 : 0;
}

/* A slot is read as 4 bytes. */
static inline uint64_t slots_bytes(uint64_t room, uint32_t size)
{
	return room * size + SLOTS_WIDE;
}

/* A third stays free. */
static inline bool slots_is_crowded(const struct slots *t)
{
	return ((uint64_t)t->n + 1) * 3 > slots_room(t) * 2;
}

/* There is no room for the number @i. */
static inline bool slots_is_full(const struct slots *t, uint32_t i)
{
	return slots_is_crowded(t) || (t->size != SLOTS_WIDE && i >= SLOTS_NARROW_END);
}

static inline const uint8_t *slots_place(const struct slots *t, uint32_t at)
{
	return t->v + (size_t)at * t->size;
}

/* The number in a slot, + 1. */
static inline uint32_t slots_at(const struct slots *t, uint32_t at)
{
	uint32_t v;

	memcpy(&v, slots_place(t, at), sizeof(v));
	v = le32toh(v);
	return t->size == SLOTS_NARROW ? v & 0xffffff : v;
}

/* Add the number @i at @at, the free slot that SLOTS_FIND() set. */
static inline void slots_put(struct slots *t, uint32_t at, uint32_t i)
{
	uint32_t v = htole32(i + 1);

	if (t->size == SLOTS_NARROW)
		memcpy(t->v + (size_t)at * SLOTS_NARROW, &v, SLOTS_NARROW);
	else
		memcpy(t->v + (size_t)at * SLOTS_WIDE, &v, SLOTS_WIDE);
	t->n++;
}

/*
 * Make @t empty, with @room slots, a power of two. Its old slots are not freed. false: no memory, and nothing has
 * changed.
 */
static inline bool slots_start(struct slots *t, uint64_t room, bool wide)
{
	uint32_t size = wide ? SLOTS_WIDE : SLOTS_NARROW;
	uint8_t *v = calloc(1, slots_bytes(room, size));

	if (!v)
		return false;
	*t = (struct slots){ .v = v, .mask = (uint32_t)(room - 1), .size = size };
	return true;
}

/* Add @i, which is not in the table, where there is room. */
static inline void slots_add(struct slots *t, uint64_t hash, uint32_t i)
{
	uint32_t at = (uint32_t)hash & t->mask;

	while (slots_at(t, at))
		at = (at + 1) & t->mask;
	slots_put(t, at, i);
}

/* true: @i is a number in the table for which @equal holds. false: @at is the free slot for it. @at and @i are
 * variables, uint32_t; @t has slots. */
#define SLOTS_FIND(t, hash, at, i, equal)                                             \
	({                                                                            \
		bool find_found_ = false;                                             \
		for (at = (uint32_t)(hash) & (t)->mask; (i = slots_at((t), at)) != 0; \
		     at = (at + 1) & (t)->mask) {                                     \
			i--;                                                          \
			if (equal) {                                                  \
				find_found_ = true;                                   \
				break;                                                \
			}                                                             \
		}                                                                     \
		find_found_;                                                          \
	})
