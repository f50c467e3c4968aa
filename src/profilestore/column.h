/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A column: an array that only grows, written by one thread, and read by many without a lock.
 *
 * Entries are in chunks, each twice as large as the one before, that never move. The count is published after
 * the entry: a reader that has seen a count, or a number in an entry that was there, may read all entries
 * below it. Memory of the last chunk that has not been written to is only address space.
 */
#pragma once

#include <stdatomic.h>
#include "base/base.h"

#define COLUMN_FIRST_BITS  10
#define COLUMN_CHUNKS      21
#define COLUMN_MAX_ENTRIES ((1u << 31) - (1u << COLUMN_FIRST_BITS))

struct column {
	_Atomic uint32_t n;
	uint32_t entry_size;
	char *chunks[COLUMN_CHUNKS]; /* written before n is */
};

void column_done(struct column *c);
/*
 * Room for the entry number c->n, zeroed, to be filled before column_publish(). NULL: no memory, or too many.
 */
void *column_next(struct column *c);

/* Make @c @n entries long; the new ones are zeroed, and take memory only when written. false: as column_next(). */
bool column_skip(struct column *c, uint32_t n);

static inline uint32_t column_n(const struct column *c)
{
	return atomic_load_explicit(&c->n, memory_order_acquire);
}

/* The entry at column_next() is complete. Returns its number. */
static inline uint32_t column_publish(struct column *c)
{
	uint32_t i = atomic_load_explicit(&c->n, memory_order_relaxed);

	atomic_store_explicit(&c->n, i + 1, memory_order_release);
	return i;
}

static inline void *column_at(const struct column *c, uint32_t i)
{
	uint32_t k = i + (1u << COLUMN_FIRST_BITS);
	unsigned bit = 31 - (unsigned)__builtin_clz(k);

	return c->chunks[bit - COLUMN_FIRST_BITS] + (size_t)(k - (1u << bit)) * c->entry_size;
}
