/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit headers (section 7.5.1), their root DIEs, and single DIEs.
 *
 * The bases that index forms need (DW_AT_addr_base and so on) are attributes of the root, too, and may come
 * after the attributes that need them. So values are kept as written until all of the root is read.
 */
#include "dwarf/code.h"

int dwarf_cu_header(struct dwarf_cu *cu, const uint8_t *p, size_t size, struct err *err)
{
	struct cursor c = cursor_at(bytes_of(p, size), cu->file->big, cu->off);
	uint64_t length;

	if (!dwarf_length_read(&c, &length, &cu->format.offset_size))
		return err_set(err, ERR_INVALID, "damaged unit header");
	cu->format.version = cursor_u16(&c);
	if (cursor_ok(&c) && (cu->format.version < 2 || cu->format.version > 5))
		return err_set(err, ERR_INVALID, "unit of unknown version %u", cu->format.version);
	cu->type = 0;
	cu->dwo_id = 0;
	cu->part = (struct dwarf_part){ 0 };
	if (cu->format.version >= 5) {
		cu->type = cursor_u8(&c);
		cu->format.addr_size = cursor_u8(&c);
		cu->abbrev_off = cursor_uint(&c, cu->format.offset_size);
		if (cu->type == DW_UT_skeleton || cu->type == DW_UT_split_compile)
			cu->dwo_id = cursor_u64(&c);
		if (cu->type == DW_UT_type || cu->type == DW_UT_split_type) {
			cursor_u64(&c);
			cursor_uint(&c, cu->format.offset_size);
		}
	} else {
		cu->abbrev_off = cursor_uint(&c, cu->format.offset_size);
		cu->format.addr_size = cursor_u8(&c);
	}
	if (!cursor_ok(&c))
		return cursor_err(&c, "unit header", err);
	if (cu->format.addr_size != 2 && cu->format.addr_size != 4 && cu->format.addr_size != 8)
		return err_set(err, ERR_INVALID, "unit with addresses of %u bytes", cu->format.addr_size);
	if (cu->file->index.n_slots && dwarf_index_at(&cu->file->index, cu->off, &cu->part) &&
	    add_overflows(cu->abbrev_off, cu->part.abbrev, &cu->abbrev_off))
		return err_set(err, ERR_INVALID, "abbreviations at an offset past any section");
	/* The header of any other type has fields that are not known. */
	if (cu->type > DW_UT_split_type)
		return err_set(err, ERR_INVALID, "unit of unknown type %u", cu->type);
	cu->die = cursor_off(&c);
	return 0;
}

int dwarf_die_each(struct dwarf_reader *r, const struct dwarf_die *die, dwarf_attr_fn *fn, void *arg,
		   const struct dwarf_decl **ret, struct err *err)
{
	struct cursor c = cursor_at(bytes_of(die->p, die->size), die->cu->file->big, 0);
	const struct dwarf_data *abbrev = &die->cu->file->abbrev;
	const uint8_t *spec, *end = abbrev->p + abbrev->size;
	const struct dwarf_table *t = die->table;
	uint64_t code = dwarf_uleb(&c);
	const struct dwarf_decl *decl;

	decl = code ? dwarf_table_find(t, code) : NULL;
	*ret = decl;
	if (!cursor_ok(&c))
		return cursor_err(&c, "DIE", err);
	if (!decl)
		return err_set(err, ERR_INVALID, "no abbreviation %llu in the table at %llu",
			       (unsigned long long)code, (unsigned long long)t->off);
	/* Any number of DIEs may have the same long abbreviation. */
	if (dwarf_reader_spend(r, decl->size, err) < 0)
		return -1;
	spec = abbrev->p + t->off + decl->spec;
	for (;;) {
		struct dwarf_attr a = { .name = leb_u(&spec, end), .form = 0 };
		int64_t implicit = 0;

		a.form = leb_u(&spec, end);
		if (a.form == FORM_IMPLICIT_CONST)
			implicit = leb_s(&spec, end);
		if ((!a.name && !a.form) || spec > end)
			return 0;
		if (a.form == FORM_INDIRECT) {
			a.form = dwarf_uleb(&c);
			if (a.form == FORM_INDIRECT || a.form == FORM_IMPLICIT_CONST)
				return err_set(err, ERR_INVALID, "form %llu must not be indirect",
					       (unsigned long long)a.form);
		}
		if (!dwarf_form_read(&c, a.form, implicit, &die->cu->format, &a.value))
			return err_set(err, ERR_INVALID, "unknown form %llu", (unsigned long long)a.form);
		if (!cursor_ok(&c))
			return cursor_err(&c, "DIE", err);
		fn(arg, &a);
	}
}

struct root_attrs {
	struct dwarf_cu *cu;
	struct dwarf_attr low_pc;
};

static void root_attr(void *arg, const struct dwarf_attr *a)
{
	struct root_attrs *r = arg;
	struct dwarf_cu *cu = r->cu;
	uint64_t v = a->value.class == DWARF_NUMBER ? a->value.number : 0;

	switch (a->name) {
	case DW_AT_low_pc:
		r->low_pc = *a;
		cu->has_addresses = true;
		break;
	case DW_AT_ranges:
		cu->has_addresses = true;
		break;
	case DW_AT_stmt_list:
		cu->stmt_list = v;
		cu->has_lines = a->value.class == DWARF_NUMBER;
		break;
	case DW_AT_language:
		cu->language = v;
		break;
	case DW_AT_comp_dir:
		cu->comp_dir = a->value;
		break;
	case DW_AT_name:
		cu->name = a->value;
		break;
	case DW_AT_dwo_name:
	case DW_AT_GNU_dwo_name:
		cu->dwo_name = a->value;
		break;
	case DW_AT_GNU_dwo_id:
		cu->dwo_id = v;
		break;
	case DW_AT_str_offsets_base:
		if (!cu->file->split)
			cu->str_offsets_base = v;
		break;
	case DW_AT_addr_base:
	case DW_AT_GNU_addr_base:
		cu->addr_base = v;
		cu->has_addresses = true;
		break;
	case DW_AT_rnglists_base:
		if (!cu->file->split)
			cu->rnglists_base = v;
		break;
	case DW_AT_GNU_ranges_base:
		cu->ranges_base = v;
		break;
	}
}

/* The bases that apply if the root has none (section 7.3.5). A split unit's lists and strings are in its own
 * file. */
static void bases_default(struct dwarf_cu *cu)
{
	uint64_t header = cu->format.offset_size == 8 ? 16 : 8;

	cu->addr_base = cu->format.version >= 5 ? header : 0;
	cu->ranges_base = 0;
	cu->str_offsets_base = cu->part.str_offsets + dwarf_str_offsets_base(&cu->format);
	cu->rnglists_base = cu->format.version >= 5 ? cu->part.rnglists + header + 4 : 0;
}

/* C and assembler have no scopes in names. */
static bool language_is_c(uint64_t lang)
{
	return lang == 0x01 || lang == 0x02 || lang == 0x0c || lang == 0x1d || lang == 0x2c || lang == 0x8001;
}

int dwarf_cu_root(struct dwarf_reader *r, struct dwarf_cu *cu, struct dwarf_table *t, const uint8_t *p,
		  size_t size, struct err *err)
{
	struct root_attrs root = { .cu = cu };
	struct dwarf_die die = { cu, t, p, size };
	const struct dwarf_decl *decl;
	uint8_t read, is;

	cu->tag = 0;
	cu->low_pc = cu->stmt_list = cu->language = 0;
	bases_default(cu);
	cu->has_lines = cu->has_addresses = false;
	cu->comp_dir = cu->name = cu->dwo_name = (struct dwarf_value){ 0 };
	if (dwarf_die_each(r, &die, root_attr, &root, &decl, err) < 0)
		return err_in(err, "root");
	cu->tag = decl->tag;
	cu->is_c = language_is_c(cu->language);
	if (cu->skeleton) {
		cu->addr_base = cu->skeleton->addr_base;
		cu->ranges_base = cu->skeleton->ranges_base;
		cu->low_pc = cu->skeleton->low_pc;
	} else if (root.low_pc.value.class == DWARF_BLOCK) {
		if (!dwarf_cu_expression(cu, root.low_pc.value.bytes, &cu->low_pc))
			cu->low_pc = 0;
	} else if (root.low_pc.name &&
		   dwarf_slot_plan(DWARF_SLOT_LOW, root.low_pc.form, &cu->format, &read, &is)) {
		if (!dwarf_cu_address_of(cu, root.low_pc.value.number, is, NULL, &cu->low_pc))
			cu->low_pc = 0;
	}
	return 0;
}

bool dwarf_cu_address(const struct dwarf_cu *cu, uint64_t index, uint64_t *ret)
{
	const struct dwarf_data *s = cu->skeleton ? &cu->skeleton->file->addr : &cu->file->addr;
	uint64_t off;

	if (mul_overflows(index, cu->format.addr_size, &off) || add_overflows(off, cu->addr_base, &off) ||
	    off >= s->size || s->size - off < cu->format.addr_size)
		return false;
	*ret = dwarf_get(s->p + off, cu->format.addr_size, cu->file->big);
	return true;
}

bool dwarf_cu_string_off(const struct dwarf_cu *cu, uint64_t index, uint64_t *ret)
{
	const struct dwarf_data *s = &cu->file->str_offsets;
	uint64_t off;

	if (mul_overflows(index, cu->format.offset_size, &off) ||
	    add_overflows(off, cu->str_offsets_base, &off) || off >= s->size ||
	    s->size - off < cu->format.offset_size)
		return false;
	*ret = dwarf_get(s->p + off, cu->format.offset_size, cu->file->big);
	return true;
}

bool dwarf_cu_string(const struct dwarf_cu *cu, const struct dwarf_value *v, struct str *ret,
		     bool *ret_stable, bool *ret_alt_missing)
{
	const struct dwarf *d = cu->file;
	uint64_t off;

	*ret_stable = !d->passes;
	switch (v->class) {
	case DWARF_STRING:
		if (v->bytes.size >= DWARF_MAX_NAME)
			return false;
		*ret_stable = false;
		*ret = (struct str){ (const char *)v->bytes.p, v->bytes.size };
		return true;
	case DWARF_STRP:
		return dwarf_data_str(&d->str, v->number, ret);
	case DWARF_LINE_STRP:
		return dwarf_data_str(&d->line_str, v->number, ret);
	case DWARF_SUP_STRP:
		if (!d->alt)
			*ret_alt_missing = true;
		return d->alt && dwarf_data_str(&d->alt->str, v->number, ret);
	case DWARF_STRX:
		return dwarf_cu_string_off(cu, v->number, &off) && dwarf_data_str(&d->str, off, ret);
	case DWARF_NONE:
	case DWARF_NUMBER:
	case DWARF_BLOCK:
		break;
	}
	return false;
}
