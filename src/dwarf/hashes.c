/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of 64-bit hashes: an open-addressing table whose slots are the hashes themselves. base's hash_index
 * does not fit: its slots are indices of elements in another array.
 */
#include "dwarf/internal.h"

#include <stdlib.h>

static void hashes_grow(struct dwarf_hashes *h)
{
	struct dwarf_hashes bigger = { .n_slots = h->n_slots ? h->n_slots * 2 : 64 };

	bigger.slots = mem_zalloc(bigger.n_slots * sizeof(*bigger.slots));
	for (size_t i = 0; i < h->n_slots; i++)
		if (h->slots[i])
			dwarf_hashes_add(&bigger, h->slots[i]);
	free(h->slots);
	*h = bigger;
}

bool dwarf_hashes_add(struct dwarf_hashes *h, uint64_t hash)
{
	size_t i;

	hash += !hash; /* 0 is a free slot */
	if (h->n * 3 >= h->n_slots * 2)
		hashes_grow(h);
	for (i = hash & (h->n_slots - 1); h->slots[i]; i = (i + 1) & (h->n_slots - 1))
		if (h->slots[i] == hash)
			return false;
	h->slots[i] = hash;
	h->n++;
	return true;
}

void dwarf_hashes_clear(struct dwarf_hashes *h)
{
	if (h->n)
		memset(h->slots, 0, h->n_slots * sizeof(*h->slots));
	h->n = 0;
}

void dwarf_hashes_done(struct dwarf_hashes *h)
{
	free(h->slots);
	*h = (struct dwarf_hashes){ 0 };
}
