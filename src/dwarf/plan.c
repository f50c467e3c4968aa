/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the values of attributes are read, and their meaning: by form, and for the attributes that the walk needs.
 */
#include "dwarf/code.h"

bool dwarf_form_plan(uint64_t form, const struct dwarf_format *f, uint8_t *ret_read, uint8_t *ret_is)
{
	*ret_is = DWARF_IS_NUMBER;
	switch (form) {
	case FORM_DATA1:
	case FORM_FLAG:
		*ret_read = 1;
		return true;
	case FORM_DATA2:
		*ret_read = 2;
		return true;
	case FORM_DATA4:
		*ret_read = 4;
		return true;
	case FORM_DATA8:
		*ret_read = 8;
		return true;
	case FORM_UDATA:
		*ret_read = DWARF_READ_ULEB;
		return true;
	case FORM_SDATA:
		*ret_read = DWARF_READ_SLEB;
		return true;
	case FORM_FLAG_PRESENT:
		*ret_read = DWARF_READ_FLAG;
		return true;
	case FORM_IMPLICIT_CONST:
		*ret_read = DWARF_READ_IMPLICIT;
		return true;
	case FORM_SEC_OFFSET:
		*ret_read = f->offset_size;
		return true;
	case FORM_RNGLISTX:
		*ret_read = DWARF_READ_ULEB;
		*ret_is = DWARF_IS_LIST_INDEX;
		return true;
	case FORM_ADDR:
		*ret_read = f->addr_size;
		*ret_is = DWARF_IS_ADDRESS;
		return true;
	case FORM_ADDRX:
	case FORM_GNU_ADDR_INDEX:
		*ret_read = DWARF_READ_ULEB;
		*ret_is = DWARF_IS_ADDRESS_INDEX;
		return true;
	case FORM_ADDRX1:
	case FORM_ADDRX2:
	case FORM_ADDRX3:
	case FORM_ADDRX4:
		*ret_read = (uint8_t)(form - FORM_ADDRX1 + 1);
		*ret_is = DWARF_IS_ADDRESS_INDEX;
		return true;
	case FORM_REF1:
		*ret_read = 1;
		*ret_is = DWARF_IS_UNIT_REF;
		return true;
	case FORM_REF2:
		*ret_read = 2;
		*ret_is = DWARF_IS_UNIT_REF;
		return true;
	case FORM_REF4:
		*ret_read = 4;
		*ret_is = DWARF_IS_UNIT_REF;
		return true;
	case FORM_REF8:
		*ret_read = 8;
		*ret_is = DWARF_IS_UNIT_REF;
		return true;
	case FORM_REF_UDATA:
		*ret_read = DWARF_READ_ULEB;
		*ret_is = DWARF_IS_UNIT_REF;
		return true;
	case FORM_REF_ADDR:
		*ret_read = f->version <= 2 ? f->addr_size : f->offset_size;
		*ret_is = DWARF_IS_REF;
		return true;
	case FORM_GNU_REF_ALT:
		*ret_read = f->offset_size;
		*ret_is = DWARF_IS_ALT_REF;
		return true;
	case FORM_REF_SUP4:
		*ret_read = 4;
		*ret_is = DWARF_IS_ALT_REF;
		return true;
	case FORM_REF_SUP8:
		*ret_read = 8;
		*ret_is = DWARF_IS_ALT_REF;
		return true;
	case FORM_REF_SIG8:
		*ret_read = 8;
		*ret_is = DWARF_IS_OTHER_REF;
		return true;
	}
	return false;
}

uint8_t dwarf_code_slot(uint64_t attr, uint8_t kind)
{
	if (kind == DWARF_KIND_OTHER)
		return DWARF_NO_SLOT;
	if (attr == DW_AT_sibling)
		return kind == DWARF_KIND_INLINED ? DWARF_NO_SLOT : DWARF_SLOT_SIBLING;
	if (kind != DWARF_KIND_FUNCTION && kind != DWARF_KIND_INLINED)
		return DWARF_NO_SLOT;
	switch (attr) {
	case DW_AT_low_pc:
		return DWARF_SLOT_LOW;
	case DW_AT_high_pc:
		return DWARF_SLOT_HIGH;
	case DW_AT_ranges:
		return DWARF_SLOT_RANGES;
	case DW_AT_abstract_origin:
		return DWARF_SLOT_ORIGIN;
	case DW_AT_call_file:
		return DWARF_SLOT_CALL_FILE;
	case DW_AT_call_line:
		return DWARF_SLOT_CALL_LINE;
	case DW_AT_call_column:
		return DWARF_SLOT_CALL_COLUMN;
	case DW_AT_GNU_discriminator:
		return DWARF_SLOT_CALL_DISCRIMINATOR;
	}
	return DWARF_NO_SLOT;
}

/* The forms of addresses that are not numbers. False: another form. */
static bool address_plan(uint64_t form, uint8_t *ret_read, uint8_t *ret_is)
{
	*ret_is = DWARF_IS_EXPRESSION;
	switch (form) {
	case FORM_LLVM_ADDRX_OFFSET:
		*ret_read = DWARF_READ_ADDRX_OFFSET;
		*ret_is = DWARF_IS_ADDRESS_OFFSET;
		return true;
	case FORM_EXPRLOC:
	case FORM_BLOCK:
		*ret_read = DWARF_READ_BLOCK;
		return true;
	case FORM_BLOCK1:
		*ret_read = DWARF_READ_BLOCK1;
		return true;
	}
	return false;
}

bool dwarf_slot_plan(uint8_t slot, uint64_t form, const struct dwarf_format *f, uint8_t *ret_read,
		     uint8_t *ret_is)
{
	bool is_address = slot == DWARF_SLOT_LOW || slot == DWARF_SLOT_HIGH;

	if (is_address && address_plan(form, ret_read, ret_is))
		return true;
	if (!dwarf_form_plan(form, f, ret_read, ret_is))
		return false;
	switch (*ret_is) {
	case DWARF_IS_NUMBER:
		return slot != DWARF_SLOT_SIBLING && slot != DWARF_SLOT_ORIGIN;
	case DWARF_IS_ADDRESS:
	case DWARF_IS_ADDRESS_INDEX:
		return is_address;
	case DWARF_IS_UNIT_REF:
	case DWARF_IS_REF:
	case DWARF_IS_ALT_REF:
		return slot == DWARF_SLOT_SIBLING || slot == DWARF_SLOT_ORIGIN;
	case DWARF_IS_LIST_INDEX:
		return slot == DWARF_SLOT_RANGES;
	}
	return false;
}
