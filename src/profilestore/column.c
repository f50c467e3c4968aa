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

void *column_next(struct column *c)
{
	uint32_t i = atomic_load_explicit(&c->n, memory_order_relaxed);
	uint32_t k = i + (1u << COLUMN_FIRST_BITS);
	unsigned bit = 31 - (unsigned)__builtin_clz(k);
	char **chunk = &c->chunks[bit - COLUMN_FIRST_BITS];

	if (i >= COLUMN_MAX_ENTRIES)
		return NULL;
	/*
	 * Fresh memory of this size comes zeroed from the system, which provides pages only as they are
	 * written.
	 */
	if (!*chunk)
		*chunk = calloc((size_t)1 << bit, c->entry_size);
	return *chunk ? column_at(c, i) : NULL;
}
