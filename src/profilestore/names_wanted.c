/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wanted locations of a binary: those that were not looked up in the table that it is named by now.
 *
 * Every table that a binary was ever named by has a *generation*; a location keeps the generation of its last
 * look-up. Where the two differ the location is wanted.
 */
#include "profilestore/names_internal.h"

#include <stdlib.h>
#include "base/vec.h"

struct meta_names location_names(const struct meta *m, uint32_t location)
{
	return meta_names_of(meta_names_at(m, location));
}

bool location_is_wanted(const struct meta *m, const struct named_binary *t, uint32_t location)
{
	return location_names(m, location).generation !=
	       atomic_load_explicit(&t->generation, memory_order_relaxed);
}

void wanted_shorten(struct profilestore *s, struct named_binary *t)
{
	size_t to = 0;

	while (t->wanted.first < t->wanted.n &&
	       !location_is_wanted(s->meta, t, t->wanted.list[t->wanted.first]))
		t->wanted.first++;
	if (t->wanted.first < t->wanted.n / 2 && t->wanted.first < t->wanted.n)
		return;
	for (size_t i = t->wanted.first; i < t->wanted.n; i++)
		t->wanted.list[to++] = t->wanted.list[i];
	t->wanted.n = to;
	t->wanted.first = 0;
	if (!to) {
		free(TAKE(t->wanted.list));
		t->wanted.room = 0;
	}
}

static uint32_t last_location(const struct profilestore *s, uint32_t binary)
{
	return atomic_load_explicit(&meta_binary_at(s->meta, binary)->last_location, memory_order_acquire);
}

void wanted_add_new(struct profilestore *s, struct named_binary *t)
{
	uint32_t last = last_location(s, t->binary);

	for (uint32_t i = last; i && i != t->wanted.seen;) {
		const struct packed_location *l = packed_location_at(s->meta, i - 1);

		if (location_marks(l) & LOCATION_BARE) {
			t->n_bare_named += l->n_lines || location_names(s->meta, i - 1).n_lines;
			if (location_is_wanted(s->meta, t, i - 1))
				VEC_PUSH(t->wanted.list, t->wanted.n, t->wanted.room) = i - 1;
		}
		i = l->next;
	}
	t->wanted.seen = last;
}

void wanted_add_all(struct profilestore *s, struct named_binary *t)
{
	t->wanted.n = t->wanted.first = 0;
	t->n_bare_named = 0;
	t->wanted.seen = 0;
	wanted_add_new(s, t);
}

uint32_t wanted_count(const struct named_binary *t)
{
	return (uint32_t)(t->wanted.n - t->wanted.first);
}
