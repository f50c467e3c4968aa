/* SPDX-License-Identifier: Apache-2.0 */
/* Columns: allocating chunks. */
#include "profilestore/column.h"

#include <stdlib.h>

void column_done(struct column *c)
{
	for (size_t i = 0; i < COLUMN_CHUNKS; i++)
		free(c->chunks[i]);
	memset(c->chunks, 0, sizeof(c->chunks));
	atomic_store(&c->n, 0);
}

/* Memory for the entry @i, which is at most the last one + 1. */
static bool column_room(struct column *c, uint32_t i)
{
	uint32_t k = i + (1u << COLUMN_FIRST_BITS);
	unsigned bit = 31 - (unsigned)__builtin_clz(k);
	char **chunk = &c->chunks[bit - COLUMN_FIRST_BITS];

	if (i >= COLUMN_MAX_ENTRIES)
		return false;
	/*
	 * Fresh memory of this size comes zeroed from the system, which provides pages only as they are
	 * written.
	 */
	if (!*chunk)
		*chunk = calloc((size_t)1 << bit, c->entry_size);
	return *chunk != NULL;
}

void *column_next(struct column *c)
{
	uint32_t i = atomic_load_explicit(&c->n, memory_order_relaxed);

	return column_room(c, i) ? column_at(c, i) : NULL;
}

bool column_skip(struct column *c, uint32_t n)
{
	uint32_t i = atomic_load_explicit(&c->n, memory_order_relaxed);

	while (i < n) {
		uint64_t k = (uint64_t)i + (1u << COLUMN_FIRST_BITS);

		if (!column_room(c, i))
			return false;
		/* The first entry of the next chunk. */
		i = (uint32_t)((2ull << (63 - (unsigned)__builtin_clzll(k))) - (1u << COLUMN_FIRST_BITS));
	}
	if (atomic_load_explicit(&c->n, memory_order_relaxed) < n)
		atomic_store_explicit(&c->n, n, memory_order_release);
	return true;
}
