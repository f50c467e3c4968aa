/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .debug_aranges (section 6.1.2): which units have code at some addresses, without reading the units.
 *
 * It is a hint: compilers leave units out of it, or leave out the section. The caller must check whether the
 * units have the addresses.
 */
#include "dwarf/code.h"

#include <stdlib.h>

struct aranges_query {
	const struct dwarf *d;
	const uint64_t *addrs; /* sorted */
	size_t n;
	size_t *units;
	size_t n_units, room;
};

static bool aranges_is_wanted(const struct aranges_query *w, uint64_t lo, uint64_t size)
{
	size_t a = SEARCH(0, w->n, i, w->addrs[i] < lo);
	return a < w->n && w->addrs[a] - lo < size;
}

/* Read one unit's ranges; the cursor ends after them. */
static bool aranges_set_read(struct aranges_query *w, struct cursor *all)
{
	uint64_t length, info, from = cursor_off(all);
	uint8_t offset_size, addr_size, segment_size;
	struct cursor c;
	bool found = false;
	unsigned pair;
	size_t unit;

	if (!dwarf_length_read(all, &length, &offset_size))
		return false;
	c = cursor_sub(all, length);
	cursor_u16(&c);
	info = cursor_uint(&c, offset_size);
	addr_size = cursor_u8(&c);
	segment_size = cursor_u8(&c);
	if (!cursor_ok(&c) || segment_size || (addr_size != 4 && addr_size != 8))
		return cursor_ok(all);
	/* Pairs are aligned to their own size, counted from the set's start. */
	pair = 2 * addr_size;
	cursor_skip(&c, (pair - (cursor_off(&c) - from) % pair) % pair);
	while (!found && cursor_left(&c) >= pair) {
		uint64_t lo = cursor_uint(&c, addr_size), size = cursor_uint(&c, addr_size);

		found = size && aranges_is_wanted(w, lo - w->d->moved, size);
	}
	unit = found ? dwarf_unit_at(w->d, info) : SIZE_MAX;
	if (unit != SIZE_MAX) {
		VEC_PUSH(w->units, w->n_units, w->room) = unit;
	}
	return cursor_ok(all);
}

static int unit_by_number(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return x < y ? -1 : x > y;
}

int dwarf_units_of(const struct dwarf *d, const uint64_t *addrs, size_t n, size_t **ret, size_t *ret_n,
		   struct err *err)
{
	struct aranges_query w = { .d = d, .addrs = addrs, .n = n };
	struct dwarf_data aranges;
	struct cursor c;
	size_t kept = 0;

	if (dwarf_data_open(&aranges, d, ".debug_aranges", DWARF_WHOLE, err) < 0) {
		dwarf_data_close(&aranges);
		return -1;
	}
	if (aranges.size)
		c = dwarf_data_cursor(&aranges, d->big, 0);
	while (aranges.size && cursor_left(&c) && aranges_set_read(&w, &c))
		;
	dwarf_data_close(&aranges);
	if (w.n_units)
		qsort(w.units, w.n_units, sizeof(*w.units), unit_by_number);
	for (size_t i = 0; i < w.n_units; i++)
		if (!kept || w.units[i] != w.units[kept - 1])
			w.units[kept++] = w.units[i];
	*ret = w.units;
	*ret_n = kept;
	return 0;
}
