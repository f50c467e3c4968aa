/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attribute values (section 7.5.6) in DIEs and, from DWARF 5 on, in the entries of line tables.
 */
#include "base/leb.h"
#include "dwarf/internal.h"

uint64_t dwarf_uleb(struct cursor *c)
{
	const uint8_t *p = c->p;
	uint64_t v = cursor_left(c) ? leb_u(&p, c->end) : 0;

	return cursor_take(c, (uint64_t)MAX(p - c->p, 1)) ? v : 0;
}

int64_t dwarf_sleb(struct cursor *c)
{
	const uint8_t *p = c->p;
	int64_t v = leb_s(&p, c->end);

	return cursor_take(c, (uint64_t)(p - c->p)) ? v : 0;
}

static struct dwarf_value value_number(uint64_t v)
{
	return (struct dwarf_value){ .class = DWARF_NUMBER, .number = v };
}

static struct dwarf_value value_reference(enum dwarf_class class, uint64_t v)
{
	return (struct dwarf_value){ .class = class, .number = v };
}

static struct dwarf_value value_block(struct bytes b)
{
	return (struct dwarf_value){ .class = DWARF_BLOCK, .bytes = b };
}

bool dwarf_form_read(struct cursor *c, uint64_t form, int64_t implicit, const struct dwarf_format *f,
		     struct dwarf_value *ret)
{
	struct str s;
	uint64_t n;

	if (form == FORM_INDIRECT) {
		form = dwarf_uleb(c);
		/* An implicit constant would have to be in the abbreviation, and indirection does not nest. */
		if (form == FORM_INDIRECT || form == FORM_IMPLICIT_CONST)
			return false;
	}
	switch (form) {
	case FORM_DATA1:
	case FORM_FLAG:
	case FORM_REF1:
	case FORM_ADDRX1:
		*ret = value_number(cursor_u8(c));
		return true;
	case FORM_DATA2:
	case FORM_REF2:
	case FORM_ADDRX2:
		*ret = value_number(cursor_u16(c));
		return true;
	case FORM_ADDRX3:
		*ret = value_number(cursor_u24(c));
		return true;
	case FORM_DATA4:
	case FORM_REF4:
	case FORM_REF_SUP4:
	case FORM_ADDRX4:
		*ret = value_number(cursor_u32(c));
		return true;
	case FORM_DATA8:
	case FORM_REF8:
	case FORM_REF_SIG8:
	case FORM_REF_SUP8:
		*ret = value_number(cursor_u64(c));
		return true;
	case FORM_SDATA:
		*ret = value_number((uint64_t)dwarf_sleb(c));
		return true;
	case FORM_UDATA:
	case FORM_REF_UDATA:
	case FORM_ADDRX:
	case FORM_LOCLISTX:
	case FORM_RNGLISTX:
	case FORM_GNU_ADDR_INDEX:
		*ret = value_number(dwarf_uleb(c));
		return true;
	case FORM_LLVM_ADDRX_OFFSET:
		n = dwarf_uleb(c);
		*ret = value_number(dwarf_addrx_offset(n, cursor_u32(c)));
		return true;
	case FORM_ADDR:
		*ret = value_number(cursor_uint(c, f->addr_size));
		return true;
	case FORM_REF_ADDR:
		*ret = value_number(cursor_uint(c, f->version <= 2 ? f->addr_size : f->offset_size));
		return true;
	case FORM_SEC_OFFSET:
	case FORM_GNU_REF_ALT:
		*ret = value_number(cursor_uint(c, f->offset_size));
		return true;
	case FORM_FLAG_PRESENT:
		*ret = value_number(1);
		return true;
	case FORM_IMPLICIT_CONST:
		*ret = value_number((uint64_t)implicit);
		return true;
	case FORM_BLOCK1:
		*ret = value_block(cursor_bytes(c, cursor_u8(c)));
		return true;
	case FORM_BLOCK2:
		*ret = value_block(cursor_bytes(c, cursor_u16(c)));
		return true;
	case FORM_BLOCK4:
		*ret = value_block(cursor_bytes(c, cursor_u32(c)));
		return true;
	case FORM_BLOCK:
	case FORM_EXPRLOC:
		*ret = value_block(cursor_bytes(c, dwarf_uleb(c)));
		return true;
	case FORM_DATA16:
		*ret = value_block(cursor_bytes(c, 16));
		return true;
	case FORM_STRING:
		s = cursor_cstr(c);
		*ret = (struct dwarf_value){ .class = DWARF_STRING,
					     .bytes = { (const uint8_t *)s.p, s.size } };
		return true;
	case FORM_STRP:
		*ret = value_reference(DWARF_STRP, cursor_uint(c, f->offset_size));
		return true;
	case FORM_LINE_STRP:
		*ret = value_reference(DWARF_LINE_STRP, cursor_uint(c, f->offset_size));
		return true;
	case FORM_STRP_SUP:
	case FORM_GNU_STRP_ALT:
		*ret = value_reference(DWARF_SUP_STRP, cursor_uint(c, f->offset_size));
		return true;
	case FORM_STRX:
	case FORM_GNU_STR_INDEX:
		*ret = value_reference(DWARF_STRX, dwarf_uleb(c));
		return true;
	case FORM_STRX1:
		*ret = value_reference(DWARF_STRX, cursor_u8(c));
		return true;
	case FORM_STRX2:
		*ret = value_reference(DWARF_STRX, cursor_u16(c));
		return true;
	case FORM_STRX3:
		*ret = value_reference(DWARF_STRX, cursor_u24(c));
		return true;
	case FORM_STRX4:
		*ret = value_reference(DWARF_STRX, cursor_u32(c));
		return true;
	default:
		return false;
	}
}

bool dwarf_length_read(struct cursor *c, uint64_t *ret_length, uint8_t *ret_offset_size)
{
	uint64_t length = cursor_u32(c);
	uint8_t offset_size = 4;

	if (length == 0xffffffff) {
		length = cursor_u64(c);
		offset_size = 8;
	} else if (length >= 0xfffffff0) {
		return false;
	}
	*ret_length = length;
	*ret_offset_size = offset_size;
	return cursor_ok(c);
}
