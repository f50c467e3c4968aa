/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units (section 7.5.1): only the header and the root DIE of each are read, for the directory of the
 * compilation, which line tables before DWARF 5 do not have.
 */
#include "dwarf/code.h"

#include <stdlib.h>

#define ROOT_SIZE     512    /* bytes of a unit that are read at first */
#define ROOT_SIZE_MAX MIB(1) /* a larger root DIE counts as damage */
#define UNITS_MAX     (8u << 20)

struct units_reader {
	struct dwarf_section info;
	struct dwarf_abbrevs abbrevs;
	struct dwarf_strings *strings; /* borrowed */
	struct dwarf_units *units;     /* being filled */
};

struct unit_header {
	struct dwarf_format format;
	uint8_t type; /* DW_UT_*; 0 before DWARF 5 */
	uint64_t abbrev_off;
};

struct unit_root {
	struct dwarf_value stmt_list, comp_dir, name, str_offsets_base;
};

static int unit_header_read(struct cursor *c, uint8_t offset_size, struct unit_header *ret, struct err *err)
{
	struct unit_header h = { .format.offset_size = offset_size };

	h.format.version = cursor_u16(c);
	if (cursor_ok(c) && (h.format.version < 2 || h.format.version > 5))
		return err_set(err, ERR_INVALID, "unit of unknown version %u", h.format.version);
	if (h.format.version >= 5) {
		h.type = cursor_u8(c);
		h.format.addr_size = cursor_u8(c);
		h.abbrev_off = cursor_uint(c, offset_size);
		if (h.type == DW_UT_skeleton || h.type == DW_UT_split_compile)
			cursor_u64(c); /* dwo_id */
	} else {
		h.abbrev_off = cursor_uint(c, offset_size);
		h.format.addr_size = cursor_u8(c);
	}
	if (!cursor_ok(c))
		return cursor_err(c, "unit header", err);
	*ret = h;
	return 0;
}

static int unit_root_read(struct units_reader *r, struct cursor *c, const struct unit_header *h,
			  struct unit_root *ret, struct err *err)
{
	const struct dwarf_abbrev_attr *attrs;
	uint64_t code = dwarf_uleb(c);
	struct unit_root root = { 0 };

	if (!cursor_ok(c))
		return cursor_err(c, "unit", err);
	if (code && dwarf_abbrevs_find(&r->abbrevs, h->abbrev_off, code, err) < 0)
		return -1;
	attrs = (const struct dwarf_abbrev_attr *)(const void *)r->abbrevs.attrs.p;
	for (size_t i = 0; code && i < r->abbrevs.n_attrs; i++) {
		struct dwarf_value v;

		if (!dwarf_form_read(c, attrs[i].form, attrs[i].implicit, &h->format, &v))
			return err_set(err, ERR_INVALID, "unknown form %llu",
				       (unsigned long long)attrs[i].form);
		if (!cursor_ok(c))
			return cursor_err(c, "root DIE", err);
		if (attrs[i].name == DW_AT_stmt_list)
			root.stmt_list = v;
		else if (attrs[i].name == DW_AT_comp_dir)
			root.comp_dir = v;
		else if (attrs[i].name == DW_AT_name)
			root.name = v;
		else if (attrs[i].name == DW_AT_str_offsets_base)
			root.str_offsets_base = v;
	}
	*ret = root;
	return 0;
}

/* Copy the string of @v; empty if it cannot be read. */
static int unit_string_copy(struct units_reader *r, const struct unit_header *h, const struct unit_root *root,
			    const struct dwarf_value *v, struct str *ret, struct err *err)
{
	const struct dwarf_units *u = r->units;
	uint64_t base = root->str_offsets_base.class == DWARF_NUMBER ? root->str_offsets_base.number
								     : dwarf_str_offsets_base(&h->format);
	struct str s, last = u->n ? u->list[u->n - 1].comp_dir : (struct str){ 0 };
	int rc = dwarf_string(r->strings, v, &h->format, base, &s, err);

	if (rc < 0)
		return -1;
	/* Adjacent units mostly have the same directory, which is stored once. */
	if (rc || !s.size)
		*ret = (struct str){ 0 };
	else
		*ret = str_eq(s, last) ? last : arena_str(&r->units->arena, s);
	return 0;
}

static int unit_add(struct units_reader *r, const struct unit_header *h, const struct unit_root *root,
		    struct err *err)
{
	struct dwarf_units *u = r->units;
	struct dwarf_unit unit = { .stmt_list = root->stmt_list.number };

	if (unit_string_copy(r, h, root, &root->comp_dir, &unit.comp_dir, err) < 0 ||
	    unit_string_copy(r, h, root, &root->name, &unit.name, err) < 0)
		return -1;
	VEC_PUSH(u->list, u->n, u->room) = unit;
	/* Any number of units may have the same long name, of which each has a copy. */
	budget_hold_track(u->arena.hold, &u->held, u->room * sizeof(*u->list));
	return budget_hold_check(u->arena.hold, err);
}

/* Read the unit in [off, end), whose header starts at @off. */
static int unit_read(struct units_reader *r, uint64_t off, uint64_t end, uint8_t offset_size, struct err *err)
{
	size_t size = (size_t)MIN(end - off, (uint64_t)ROOT_SIZE);
	struct unit_header h;
	struct unit_root root;

	for (;;) {
		struct bytes b;
		struct cursor c;

		if (dwarf_section_next(&r->info, off, size, &b, err) < 0)
			return -1;
		c = cursor_at(b, r->info.img->h.big, off);
		if (unit_header_read(&c, offset_size, &h, err) < 0)
			return -1;
		if (h.type == DW_UT_type || h.type == DW_UT_split_type)
			return 0;
		if (unit_root_read(r, &c, &h, &root, err) == 0)
			break;
		if (cursor_ok(&c) || size == end - off || size >= ROOT_SIZE_MAX)
			return -1;
		size = (size_t)MIN(end - off, (uint64_t)size * 16);
	}
	/* The values are views of the bytes read: copy the strings before the next read. */
	return root.stmt_list.class == DWARF_NUMBER ? unit_add(r, &h, &root, err) : 0;
}

static int unit_by_stmt_list(const void *a, const void *b)
{
	const struct dwarf_unit *x = a, *y = b;

	return x->stmt_list < y->stmt_list ? -1 : x->stmt_list > y->stmt_list;
}

/* Read the unit at @off. *ret_next is where the next one starts: the section's end if that is not known. */
static int unit_step(struct units_reader *r, uint64_t off, uint64_t *ret_next, struct err *err)
{
	uint8_t offset_size;
	uint64_t length, start;
	struct bytes b;
	struct cursor c;

	*ret_next = r->info.size;
	if (dwarf_section_next(&r->info, off, 12, &b, err) < 0)
		return -1;
	c = cursor_at(b, r->info.img->h.big, off);
	if (!dwarf_length_read(&c, &length, &offset_size) || length > r->info.size - cursor_off(&c))
		return err_set(err, ERR_INVALID, "ends past the section");
	start = cursor_off(&c);
	*ret_next = start + length;
	return length ? unit_read(r, start, start + length, offset_size, err) : 0;
}

static int units_read_all(struct units_reader *r, struct dwarf_sources_note *note, struct err *err)
{
	uint64_t next;

	for (uint64_t off = 0; off < r->info.size; off = next) {
		struct err why = { 0 };

		if (unit_step(r, off, &next, &why) < 0) {
			err_in(&why, ".debug_info: unit at %llu", (unsigned long long)off);
			if (dwarf_note_damage(note, &why, err) < 0)
				return -1;
		}
		if (r->units->n > UNITS_MAX)
			return err_set(err, ERR_LIMIT, ".debug_info: more than the %u units allowed",
				       UNITS_MAX);
	}
	return 0;
}

int dwarf_units_read(struct dwarf_units *u, const struct elf_image *img, struct dwarf_strings *strings,
		     struct dwarf_sources_note *note, struct err *err)
{
	struct units_reader r = { .strings = strings, .units = u };
	int rc;

	*u = (struct dwarf_units){ .arena.hold = img->memory };
	rc = dwarf_section_open(&r.info, img, ".debug_info", err);
	if (rc == 0)
		rc = dwarf_abbrevs_open(&r.abbrevs, img, err);
	if (rc == 0)
		rc = units_read_all(&r, note, err);
	if (u->n)
		qsort(u->list, u->n, sizeof(*u->list), unit_by_stmt_list);
	dwarf_section_close(&r.info);
	dwarf_abbrevs_close(&r.abbrevs);
	return rc;
}

void dwarf_units_free(struct dwarf_units *u)
{
	budget_hold_track(u->arena.hold, &u->held, 0);
	free(u->list);
	arena_done(&u->arena);
	*u = (struct dwarf_units){ 0 };
}

size_t dwarf_units_find(const struct dwarf_units *u, uint64_t stmt_list)
{
	return SEARCH(0, u->n, i, u->list[i].stmt_list < stmt_list);
}
