/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a .dwp (section 7.3.5.3; version 2 is GNU's, before DWARF 5): the part of each section that a
 * split unit has, by its id. It is a hash table of ids, and a table with a row for each unit and a column for
 * each section.
 */
#include "dwarf/code.h"

#include <stdlib.h>

#define COLUMNS_MAX 64u

enum { SECT_INFO = 1, SECT_ABBREV = 3, SECT_STR_OFFSETS = 6, SECT_RNGLISTS = 8 };

static uint32_t index_u32(const struct dwarf_index *x, const uint8_t *p, uint64_t i)
{
	return (uint32_t)dwarf_get(p + i * 4, 4, x->big);
}

static int index_head_read(struct dwarf_index *x, struct err *err)
{
	struct cursor c = dwarf_data_cursor(&x->data, x->big, 0);
	/* Version 5 is a number of two bytes, followed by two of padding. */
	uint32_t word = cursor_u32(&c), version = x->big && word >> 16 ? word >> 16 : word;
	const uint8_t *columns;
	uint64_t cells;

	x->n_columns = cursor_u32(&c);
	x->n_rows = cursor_u32(&c);
	x->n_slots = cursor_u32(&c);
	if (!cursor_ok(&c))
		return cursor_err(&c, "header", err);
	if (version != 2 && version != 5)
		return err_set(err, ERR_INVALID, "unknown version %u", version);
	if (x->n_columns > COLUMNS_MAX || x->n_slots & (x->n_slots - 1))
		return err_set(err, ERR_INVALID, "cannot have %u columns and %u slots", x->n_columns,
			       x->n_slots);
	cells = (uint64_t)x->n_rows * x->n_columns;
	x->ids = cursor_bytes(&c, (uint64_t)x->n_slots * 8).p;
	x->rows = cursor_bytes(&c, (uint64_t)x->n_slots * 4).p;
	columns = cursor_bytes(&c, (uint64_t)x->n_columns * 4).p;
	x->offsets = cursor_bytes(&c, cells * 4).p;
	x->sizes = cursor_bytes(&c, cells * 4).p;
	if (!cursor_ok(&c))
		return cursor_err(&c, "table", err);
	for (uint32_t i = 0; i < x->n_columns; i++) {
		uint32_t what = index_u32(x, columns, i);

		if (what == SECT_INFO)
			x->info = i + 1;
		else if (what == SECT_ABBREV)
			x->abbrev = i + 1;
		else if (what == SECT_STR_OFFSETS)
			x->str_offsets = i + 1;
		else if (what == SECT_RNGLISTS && version == 5)
			x->rnglists = i + 1;
	}
	return x->info ? 0 : err_set(err, ERR_INVALID, "has no column of .debug_info");
}

static uint64_t index_cell(const struct dwarf_index *x, const uint8_t *table, uint32_t row, uint32_t column)
{
	return column ? index_u32(x, table, (uint64_t)row * x->n_columns + column - 1) : 0;
}

static uint64_t index_info(const struct dwarf_index *x, uint32_t row)
{
	return x->infos ? x->infos[row] : index_cell(x, x->offsets, row, x->info);
}

static void index_part(const struct dwarf_index *x, uint32_t row, struct dwarf_part *ret)
{
	uint64_t info = index_info(x, row);

	*ret = (struct dwarf_part){ .info = info,
				    .info_end = info + index_cell(x, x->sizes, row, x->info),
				    .abbrev = index_cell(x, x->offsets, row, x->abbrev),
				    .str_offsets = index_cell(x, x->offsets, row, x->str_offsets),
				    .rnglists = index_cell(x, x->offsets, row, x->rnglists) };
}

static int index_place_by_off(const void *a, const void *b)
{
	const struct dwarf_index_place *x = a, *y = b;

	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* ---- packages of more than 4 GiB ---- */

/*
 * An index has 32 bits for an offset. If .debug_info.dwo is larger, llvm-dwp writes the lower 32 bits, when it is
 * told to go on (--continue-on-cu-index-overflow). So a row's unit is the one that starts at such an offset and
 * has the row's size. Two units rarely agree in both; then their ids decide.
 */
#define INDEX_WRAP ((uint64_t)1 << 32)

/* Whether units fill [off, off + size). */
static bool units_fill(const struct dwarf *d, uint64_t off, uint64_t size)
{
	size_t first = dwarf_unit_at(d, off), last = size ? dwarf_unit_at(d, off + size - 1) : SIZE_MAX;

	return first != SIZE_MAX && last != SIZE_MAX && d->units[first].off == off &&
	       d->units[last].end == off + size;
}

/*
 * Whether the unit at @off has the id. Before DWARF 5 it is an attribute of the root, whose abbreviation the row at hand
 * may not give: then the 8 bytes are searched in the root's first ones.
 */
static bool unit_has_id(const struct dwarf *d, uint64_t off, struct buf *room, uint64_t id)
{
	struct dwarf_cu cu = { .file = d, .off = off };
	struct err ignored = { 0 };
	uint8_t bytes[8];
	const uint8_t *p;
	size_t size = (size_t)MIN(d->info.size - off, (uint64_t)64);

	if (dwarf_data_chunk(&d->info, off, size, room, &p, &ignored) < 0 ||
	    dwarf_cu_header(&cu, p, size, &ignored) < 0)
		return false;
	if (cu.format.version >= 5)
		return cu.type == DW_UT_split_compile && cu.dwo_id == id;
	for (unsigned i = 0; i < 8; i++)
		bytes[d->big ? 7 - i : i] = (uint8_t)(id >> 8 * i);
	return memmem(p, size, bytes, sizeof(bytes));
}

/* The offset of a row's unit; UINT64_MAX: there is none of that size. */
static uint64_t index_row_find(const struct dwarf_index *x, const struct dwarf *d, uint32_t row, uint64_t id,
			       struct buf *room)
{
	uint64_t off = index_cell(x, x->offsets, row, x->info), size = index_cell(x, x->sizes, row, x->info);
	uint64_t found = UINT64_MAX;

	for (; off < d->info.size; off += INDEX_WRAP) {
		if (!units_fill(d, off, size))
			continue;
		if (found == UINT64_MAX)
			found = off;
		else if (unit_has_id(d, off, room, id))
			return off;
	}
	return found;
}

static void index_unwrap(struct dwarf_index *x, const struct dwarf *d)
{
	AUTO(mem_freep) uint64_t *ids = NEW_N(uint64_t, (size_t)x->n_rows + 1);
	AUTO(mem_freep) uint64_t *infos = NEW_N(uint64_t, (size_t)x->n_rows + 1);
	AUTO(buf_done) struct buf room = { 0 };

	for (uint32_t i = 0; i < x->n_slots; i++) {
		uint32_t row = index_u32(x, x->rows, i);

		if (row && row <= x->n_rows)
			ids[row - 1] = dwarf_get(x->ids + (uint64_t)i * 8, 8, x->big);
	}
	for (uint32_t i = 0; i < x->n_rows; i++)
		infos[i] = index_row_find(x, d, i, ids[i], &room);
	x->infos = TAKE(infos);
}

int dwarf_index_open(struct dwarf_index *x, const struct dwarf *d, struct err *err)
{
	*x = (struct dwarf_index){ .big = d->big };
	if (dwarf_data_open(&x->data, d, ".debug_cu_index", DWARF_WHOLE, err) < 0)
		return -1;
	if (!x->data.size)
		return 0;
	if (index_head_read(x, err) < 0) {
		x->n_slots = 0;
		return err_in(err, ".debug_cu_index");
	}
	if (d->info.size > INDEX_WRAP)
		index_unwrap(x, d);
	x->places = NEW_N(struct dwarf_index_place, (size_t)x->n_rows + 1);
	for (uint32_t i = 0; i < x->n_rows; i++) {
		uint64_t off = index_info(x, i), end;

		if (!add_overflows(off, index_cell(x, x->sizes, i, x->info), &end))
			x->places[x->n_places++] = (struct dwarf_index_place){ off, end, i };
	}
	if (x->n_places)
		qsort(x->places, x->n_places, sizeof(*x->places), index_place_by_off);
	return 0;
}

void dwarf_index_close(struct dwarf_index *x)
{
	dwarf_data_close(&x->data);
	free(x->places);
	free(x->infos);
	*x = (struct dwarf_index){ 0 };
}

bool dwarf_index_find(const struct dwarf_index *x, uint64_t id, struct dwarf_part *ret, uint32_t *ret_steps)
{
	uint32_t mask = x->n_slots - 1, at = (uint32_t)id & mask, by = ((uint32_t)(id >> 32) & mask) | 1;

	for (*ret_steps = 0; *ret_steps < x->n_slots; at = (at + by) & mask) {
		uint32_t row = index_u32(x, x->rows, at);

		++*ret_steps;
		if (!row)
			return false;
		if (row <= x->n_rows && dwarf_get(x->ids + (uint64_t)at * 8, 8, x->big) == id) {
			index_part(x, row - 1, ret);
			return true;
		}
	}
	return false;
}

bool dwarf_index_at(const struct dwarf_index *x, uint64_t off, struct dwarf_part *ret)
{
	size_t lo = SEARCH(0, x->n_places, i, x->places[i].off <= off);
	if (!lo || off >= x->places[lo - 1].end)
		return false;
	index_part(x, x->places[lo - 1].row, ret);
	return true;
}
