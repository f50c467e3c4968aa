/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses in every form that compilers write them: as they are, by an index in .debug_addr, by an index and an
 * offset (clang's DW_FORM_LLVM_addrx_offset), by an expression that computes the same.
 */
#include "dwarf/code.h"

#define STACK_MAX 8u  /* values of an expression */
#define OPS_MAX   64u /* operations of one; compilers write 3 */

enum {
	DW_OP_addr = 0x03,
	DW_OP_const1u = 0x08,
	DW_OP_const1s,
	DW_OP_const2u,
	DW_OP_const2s,
	DW_OP_const4u,
	DW_OP_const4s,
	DW_OP_const8u,
	DW_OP_const8s,
	DW_OP_constu,
	DW_OP_consts,
	DW_OP_minus = 0x1c,
	DW_OP_plus = 0x22,
	DW_OP_plus_uconst,
	DW_OP_lit0 = 0x30,
	DW_OP_lit31 = 0x4f,
	DW_OP_addrx = 0xa1,
	DW_OP_constx,
	DW_OP_GNU_addr_index = 0xfb,
	DW_OP_GNU_const_index,
};

/* Read the operand of an operation that pushes a value. False: another operation. */
static bool operand_read(const struct dwarf_cu *cu, struct cursor *c, uint8_t op, uint64_t *ret)
{
	switch (op) {
	case DW_OP_addr:
		*ret = cursor_uint(c, cu->format.addr_size);
		return true;
	case DW_OP_addrx:
	case DW_OP_constx:
	case DW_OP_GNU_addr_index:
	case DW_OP_GNU_const_index:
		return dwarf_cu_address(cu, cursor_uleb(c), ret);
	case DW_OP_const1u:
		*ret = cursor_u8(c);
		return true;
	case DW_OP_const1s:
		*ret = (uint64_t)(int8_t)cursor_u8(c);
		return true;
	case DW_OP_const2u:
		*ret = cursor_u16(c);
		return true;
	case DW_OP_const2s:
		*ret = (uint64_t)(int16_t)cursor_u16(c);
		return true;
	case DW_OP_const4u:
		*ret = cursor_u32(c);
		return true;
	case DW_OP_const4s:
		*ret = (uint64_t)(int32_t)cursor_u32(c);
		return true;
	case DW_OP_const8u:
	case DW_OP_const8s:
		*ret = cursor_u64(c);
		return true;
	case DW_OP_constu:
		*ret = cursor_uleb(c);
		return true;
	case DW_OP_consts:
		*ret = (uint64_t)cursor_sleb(c);
		return true;
	}
	if (op < DW_OP_lit0 || op > DW_OP_lit31)
		return false;
	*ret = op - DW_OP_lit0;
	return true;
}

bool dwarf_cu_expression(const struct dwarf_cu *cu, struct bytes e, uint64_t *ret)
{
	struct cursor c = cursor_at(e, cu->file->big, 0);
	uint64_t stack[STACK_MAX], v;
	size_t n = 0;

	for (unsigned ops = 0; cursor_left(&c); ops++) {
		uint8_t op = cursor_u8(&c);

		if (ops == OPS_MAX)
			return false;
		if ((op == DW_OP_plus || op == DW_OP_minus) && n >= 2) {
			n--;
			stack[n - 1] += op == DW_OP_plus ? stack[n] : -stack[n];
		} else if (op == DW_OP_plus_uconst && n) {
			stack[n - 1] += cursor_uleb(&c);
		} else if (n < STACK_MAX && operand_read(cu, &c, op, &v)) {
			stack[n++] = v;
		} else {
			return false;
		}
	}
	if (!cursor_ok(&c) || !n)
		return false;
	*ret = cu->format.addr_size < 8 ? stack[n - 1] & (((uint64_t)1 << cu->format.addr_size * 8) - 1)
					: stack[n - 1];
	return true;
}

bool dwarf_cu_address_far(const struct dwarf_cu *cu, uint64_t v, uint8_t is, const uint8_t *unit,
			  uint64_t *ret)
{
	switch (is) {
	case DWARF_IS_ADDRESS_INDEX:
		return dwarf_cu_address(cu, v, ret);
	case DWARF_IS_ADDRESS_OFFSET:
		if (!dwarf_cu_address(cu, v >> 32, ret))
			return false;
		*ret += (uint32_t)v;
		return true;
	case DWARF_IS_EXPRESSION:
		return v != UINT64_MAX &&
		       dwarf_cu_expression(cu, bytes_of(unit + (v >> 16), v & 0xffff), ret);
	}
	*ret = v;
	return true;
}
