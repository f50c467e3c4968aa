/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of numbers that finds its next member in a few steps: the free numbers of a table. A bit for each number,
 * and above it levels with a bit for each word that is not 0.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define HOLES_NONE   UINT32_MAX
#define HOLES_LEVELS 4

/* Zeroed is empty. */
struct holes {
	uint64_t *bits[HOLES_LEVELS];
	uint32_t room;      /* numbers that there is room for */
	_Atomic uint32_t n; /* members; any thread may read it */
};
void holes_done(struct holes *h);
bool holes_add(struct holes *h, uint32_t i); /* false: no memory */
void holes_del(struct holes *h, uint32_t i); /* @i is a member */
uint32_t holes_next(const struct holes *h,
		    uint32_t from); /* the first member that is not below; or HOLES_NONE */

static inline bool holes_has(const struct holes *h, uint32_t i)
{
	return i < h->room && h->bits[0][i / 64] >> i % 64 & 1;
}
