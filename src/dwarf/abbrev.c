/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Abbreviations (section 7.5.3) of the units' roots.
 *
 * GCC gives each unit a table of its own that starts with its root's; clang, LTO and dwz share one table among
 * many units. So the abbreviation found last is kept. A search reads its table from the start; the bytes read
 * in all are limited, since thousands of units could each search for a code at the end of the same large table.
 */
#include "dwarf/internal.h"

#define ATTRS_MAX 1024 /* of one DIE */

/* How many times the section's size may be read. */
#define BUDGET_FACTOR 16

int dwarf_abbrevs_open(struct dwarf_abbrevs *a, const struct elf_image *img, struct err *err)
{
	*a = (struct dwarf_abbrevs){ 0 };
	if (dwarf_section_open(&a->section, img, ".debug_abbrev", err) < 0)
		return -1;
	a->budget = a->section.size * BUDGET_FACTOR + MIB(1);
	return 0;
}

void dwarf_abbrevs_close(struct dwarf_abbrevs *a)
{
	dwarf_section_close(&a->section);
	buf_done(&a->attrs);
}

enum found { FOUND, MISSING, CUT };

/* Search the bytes read of a table; CUT: the table continues after them. */
static enum found abbrev_search(struct dwarf_abbrevs *a, struct cursor *c, uint64_t want)
{
	for (;;) {
		uint64_t code = dwarf_uleb(c);
		size_t n = 0;

		if (!cursor_ok(c))
			return CUT;
		if (!code)
			return MISSING;
		dwarf_uleb(c); /* tag */
		cursor_u8(c);  /* has children */
		a->attrs.size = 0;
		for (;;) {
			struct dwarf_abbrev_attr attr = { .name = dwarf_uleb(c), .form = 0 };

			attr.form = dwarf_uleb(c);
			if (attr.form == 0x21) /* DW_FORM_implicit_const */
				attr.implicit = dwarf_sleb(c);
			if (!cursor_ok(c))
				return CUT;
			if (!attr.name && !attr.form)
				break;
			if (code != want)
				continue;
			if (++n > ATTRS_MAX)
				return MISSING;
			buf_add(&a->attrs, &attr, sizeof(attr));
		}
		if (code == want) {
			a->n_attrs = n;
			return FOUND;
		}
	}
}

int dwarf_abbrevs_find(struct dwarf_abbrevs *a, uint64_t table_off, uint64_t code, struct err *err)
{
	size_t n = KIB(1);

	if (a->valid && a->table_off == table_off && a->code == code)
		return 0;
	a->valid = false;
	for (;;) {
		struct bytes b;
		struct cursor c;
		enum found f;

		if (dwarf_section_at(&a->section, table_off, n, &b, err) < 0)
			return -1;
		if (b.size > a->budget)
			return err_set(err, ERR_INVALID, "abbreviation tables are searched too often");
		c = cursor_at(b, a->section.img->h.big, table_off);
		f = abbrev_search(a, &c, code);
		a->budget -= f == CUT ? b.size : (uint64_t)(c.p - c.start);
		if (f == FOUND)
			break;
		if (f == MISSING || b.size < n)
			return err_set(err, ERR_INVALID, "no abbreviation %llu in the table at %llu",
				       (unsigned long long)code, (unsigned long long)table_off);
		n *= 8;
	}
	a->table_off = table_off;
	a->code = code;
	a->valid = true;
	return 0;
}
