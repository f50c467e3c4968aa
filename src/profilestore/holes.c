/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of free numbers. */
#include "profilestore/holes.h"

#include <stdlib.h>
#include "base/base.h"

#define ROOM_MIN 65536u

static size_t holes_words(uint32_t room, unsigned level)
{
	return ((size_t)room >> 6 * (level + 1)) + 1;
}

void holes_done(struct holes *h)
{
	for (unsigned l = 0; l < HOLES_LEVELS; l++)
		free(h->bits[l]);
	*h = (struct holes){ 0 };
}

static bool grow_holes(struct holes *h, uint32_t room)
{
	for (unsigned l = 0; l < HOLES_LEVELS; l++) {
		size_t was = h->room ? holes_words(h->room, l) : 0, n = holes_words(room, l);
		uint64_t *bits = realloc(h->bits[l], n * sizeof(*bits));

		if (!bits)
			return false;
		memset(bits + was, 0, (n - was) * sizeof(*bits));
		h->bits[l] = bits;
	}
	h->room = room;
	return true;
}

bool holes_add(struct holes *h, uint32_t i)
{
	uint32_t room = MAX(h->room, ROOM_MIN);

	while (room <= i)
		room = room > UINT32_MAX / 2 ? UINT32_MAX : room * 2;
	if (room > h->room && !grow_holes(h, room))
		return false;
	h->n += !holes_has(h, i);
	for (unsigned l = 0; l < HOLES_LEVELS; l++, i /= 64)
		h->bits[l][i / 64] |= UINT64_C(1) << i % 64;
	return true;
}

void holes_del(struct holes *h, uint32_t i)
{
	h->n--;
	for (unsigned l = 0; l < HOLES_LEVELS; l++, i /= 64) {
		h->bits[l][i / 64] &= ~(UINT64_C(1) << i % 64);
		if (h->bits[l][i / 64])
			return;
	}
}

/* The first bit of @level at @i or after it. */
static uint64_t next_in_level(const struct holes *h, unsigned level, uint64_t i, size_t words)
{
	for (size_t w = i / 64; w < words; w++, i = (uint64_t)w * 64) {
		uint64_t bits = h->bits[level][w] >> i % 64 << i % 64;

		if (bits)
			return (uint64_t)w * 64 + (unsigned)__builtin_ctzll(bits);
	}
	return HOLES_NONE;
}

uint32_t holes_next(const struct holes *h, uint32_t from)
{
	uint64_t i = from;

	if (from >= h->room)
		return HOLES_NONE;
	for (unsigned l = 0; l < HOLES_LEVELS; l++) {
		bool top = l + 1 == HOLES_LEVELS;
		size_t words = holes_words(h->room, l);
		uint64_t at = next_in_level(h, l, i, top ? words : MIN(words, (size_t)(i / 64 + 1)));

		if (at == HOLES_NONE) {
			i = i / 64 + 1;
			if (i / 64 >= holes_words(h->room, MIN(l + 1, HOLES_LEVELS - 1u)))
				return HOLES_NONE;
			continue;
		}
		while (l--)
			at = at * 64 + (unsigned)__builtin_ctzll(h->bits[l][at]);
		return (uint32_t)at;
	}
	return HOLES_NONE;
}
