/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strings of string forms: .debug_str, .debug_line_str, .debug_str_offsets, and the supplementary file's
 * .debug_str.
 */
#include "dwarf/internal.h"

int dwarf_strings_open(struct dwarf_strings *s, const struct elf_image *img, const struct elf_image *alt,
		       struct err *err)
{
	*s = (struct dwarf_strings){ .has_sup = alt };
	if (dwarf_section_open(&s->str, img, ".debug_str", err) < 0 ||
	    dwarf_section_open(&s->line_str, img, ".debug_line_str", err) < 0 ||
	    dwarf_section_open(&s->str_offsets, img, ".debug_str_offsets", err) < 0)
		return -1;
	if (alt && dwarf_section_open(&s->sup_str, alt, ".debug_str", err) < 0)
		return err_in(err, "supplementary file");
	return 0;
}

void dwarf_strings_close(struct dwarf_strings *s)
{
	dwarf_section_close(&s->str);
	dwarf_section_close(&s->line_str);
	dwarf_section_close(&s->str_offsets);
	dwarf_section_close(&s->sup_str);
}

uint64_t dwarf_str_offsets_base(const struct dwarf_format *f)
{
	if (f->version < 5)
		return 0; /* GNU's split DWARF 4 has no header there */
	return f->offset_size == 8 ? 16 : 8;
}

/* .debug_str_offsets[index], for a unit whose part starts at @base. */
static int string_offset(struct dwarf_strings *s, uint64_t base, uint64_t index, uint8_t offset_size,
			 uint64_t *ret, struct err *err)
{
	uint64_t off;
	struct bytes b;
	struct cursor c;

	if (mul_overflows(index, offset_size, &off) || add_overflows(off, base, &off))
		off = UINT64_MAX;
	if (dwarf_section_at(&s->str_offsets, off, offset_size, &b, err) < 0)
		return -1;
	c = cursor_at(b, s->str_offsets.img->h.big, 0);
	*ret = cursor_uint(&c, offset_size);
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID, ".debug_str_offsets has no entry %llu",
			       (unsigned long long)index);
	return 0;
}

int dwarf_string(struct dwarf_strings *s, const struct dwarf_value *v, const struct dwarf_format *f,
		 uint64_t str_offsets_base, struct str *ret, struct err *err)
{
	uint64_t off;

	switch (v->class) {
	case DWARF_NONE:
		*ret = (struct str){ 0 };
		return 0;
	case DWARF_STRING:
		if (v->bytes.size >= DWARF_MAX_NAME)
			return err_set(err, ERR_INVALID, "string of %zu bytes is longer than allowed",
				       v->bytes.size);
		*ret = (struct str){ (const char *)v->bytes.p, v->bytes.size };
		return 0;
	case DWARF_STRP:
		return dwarf_section_str(&s->str, v->number, ret, err) < 0 ? err_in(err, ".debug_str") : 0;
	case DWARF_LINE_STRP:
		return dwarf_section_str(&s->line_str, v->number, ret, err) < 0
			       ? err_in(err, ".debug_line_str")
			       : 0;
	case DWARF_STRX:
		if (string_offset(s, str_offsets_base, v->number, f->offset_size, &off, err) < 0)
			return -1;
		return dwarf_section_str(&s->str, off, ret, err) < 0 ? err_in(err, ".debug_str") : 0;
	case DWARF_SUP_STRP:
		if (!s->has_sup) {
			s->sup_missing = true;
			return DWARF_NO_STRING;
		}
		return dwarf_section_str(&s->sup_str, v->number, ret, err) < 0
			       ? err_in(err, ".debug_str of the supplementary file")
			       : 0;
	case DWARF_NUMBER:
	case DWARF_BLOCK:
		break;
	}
	return err_set(err, ERR_INVALID, "the form of a name is not a string");
}
