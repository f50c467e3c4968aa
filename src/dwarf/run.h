/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run the programs of abbreviations (program.c) over the attributes of a DIE.
 *
 * Every read may go up to DWARF_PAD bytes past the end. Whether it did is checked only after each attribute of
 * variable size, and at the end of the DIE.
 */
#pragma once

#include "dwarf/code.h"

struct dwarf_values {
	uint64_t v[DWARF_N_SLOTS];
	uint8_t is[DWARF_N_SLOTS];
	unsigned has; /* a bit for each slot; DWARF_HAS_LOST */
};
#define DWARF_HAS_LOST (1u << 31) /* an indirect form is one that its slot cannot have */

/* The bytes of the unit. */
struct dwarf_text {
	const uint8_t *start, *end;
	bool big;
	const struct dwarf_format *format;
};

/* Skip a block of @n bytes. */
static inline const uint8_t *dwarf_run_pass(const struct dwarf_text *t, const uint8_t *p, uint64_t n)
{
	return p <= t->end && n <= (uint64_t)(t->end - p) ? p + n : t->end + 1;
}

/* DWARF_READ_BLOCK: the number of a block of @n bytes at *p, which is skipped. */
static inline uint64_t dwarf_value_block(const struct dwarf_text *t, const uint8_t **p, uint64_t n)
{
	uint64_t off = (uint64_t)(*p - t->start);

	*p = dwarf_run_pass(t, *p, n);
	return n <= UINT16_MAX ? off << 16 | n : UINT64_MAX;
}

static inline uint64_t dwarf_value_read(const struct dwarf_text *t, const uint8_t **p, uint8_t read,
					const uint8_t **program)
{
	uint64_t v;

	switch (read) {
	case DWARF_READ_ADDRX_OFFSET:
		v = leb_u(p, t->end);
		*p += 4;
		return dwarf_addrx_offset(v, (uint32_t)dwarf_get(*p - 4, 4, t->big));
	case DWARF_READ_BLOCK:
		v = leb_u(p, t->end);
		return dwarf_value_block(t, p, v);
	case DWARF_READ_BLOCK1:
		v = *(*p)++;
		return dwarf_value_block(t, p, v);
	case DWARF_READ_FLAG:
		return 1;
	case DWARF_READ_ULEB:
		return leb_u(p, t->end);
	case DWARF_READ_SLEB:
		return (uint64_t)leb_s(p, t->end);
	case DWARF_READ_IMPLICIT:
		memcpy(&v, *program, 8);
		*program += 8;
		return le64toh(v);
	}
	v = dwarf_get(*p, read, t->big);
	*p += read;
	return v;
}

static inline void dwarf_value_set(struct dwarf_values *vs, uint8_t slot, uint64_t v, uint8_t is)
{
	vs->v[slot] = v;
	vs->is[slot] = is;
	vs->has |= 1u << slot;
}

/* The same for a value whose slot and meaning are next in the program; the bit of its slot is returned. */
static inline unsigned dwarf_value_keep(struct dwarf_values *vs, const uint8_t **program, uint64_t v)
{
	uint8_t slot = (*program)[0];

	vs->v[slot] = v;
	vs->is[slot] = (*program)[1];
	*program += 2;
	return 1u << slot;
}

/* DW_FORM_indirect: the form is before the value. False: an unknown form. */
static inline bool dwarf_run_indirect(const struct dwarf_text *t, const uint8_t **pp, uint8_t slot,
				      struct dwarf_values *vs)
{
	uint64_t form = leb_u(pp, t->end), v;
	uint8_t read, is;

	if (form == FORM_INDIRECT || form == FORM_IMPLICIT_CONST)
		return false;
	if (slot != DWARF_NO_SLOT && dwarf_slot_plan(slot, form, t->format, &read, &is)) {
		v = dwarf_value_read(t, pp, read, NULL);
		dwarf_value_set(vs, slot, v, is);
		return true;
	}
	if (slot != DWARF_NO_SLOT && slot != DWARF_SLOT_SIBLING)
		vs->has |= DWARF_HAS_LOST;
	if (*pp <= t->end) {
		struct cursor c = cursor_at(bytes_of(*pp, (size_t)(t->end - *pp)), t->big, 0);
		struct dwarf_value ignored;

		if (!dwarf_form_read(&c, form, 0, t->format, &ignored))
			return false;
		*pp = cursor_ok(&c) ? c.p : t->end + 1;
	}
	return true;
}

/*
 * Run a program over a DIE's attributes. Returns the address after them: end + 1 if they extend past the end;
 * NULL: an unknown form.
 */
static inline const uint8_t *dwarf_run(const struct dwarf_text *t, const uint8_t *p, const uint8_t *program,
				       struct dwarf_values *vs)
{
	const uint8_t *nul, *at;
	uint64_t n;
	uint8_t op, slot, read;
	unsigned has = vs->has; /* in a register */

	for (;;) {
		op = *program++;
		if (op >= DWARF_OP_SKIP) {
			p += op - DWARF_OP_SKIP;
			if (p > t->end)
				return t->end + 1;
			continue;
		}
		switch (op) {
		case DWARF_OP_END:
			vs->has = has;
			return p;
		case DWARF_OP_ULEB:
			leb_u(&p, t->end);
			break;
		case DWARF_OP_STRING:
			nul = memchr(p, 0, (size_t)(t->end - p));
			p = nul ? nul + 1 : t->end + 1;
			break;
		case DWARF_OP_BLOCK1:
			n = *p++;
			p = dwarf_run_pass(t, p, n);
			break;
		case DWARF_OP_BLOCK2:
			n = dwarf_get(p, 2, t->big);
			p = dwarf_run_pass(t, p + 2, n);
			break;
		case DWARF_OP_BLOCK4:
			n = dwarf_get(p, 4, t->big);
			p = dwarf_run_pass(t, p + 4, n);
			break;
		case DWARF_OP_BLOCK:
			n = leb_u(&p, t->end);
			p = dwarf_run_pass(t, p, n);
			break;
		case DWARF_OP_UNKNOWN:
			return NULL;
		case DWARF_OP_INDIRECT:
			slot = *program++;
			vs->has = has;
			if (!dwarf_run_indirect(t, &p, slot, vs))
				return NULL;
			has = vs->has;
			break;
		case DWARF_OP_VALUE1:
			has |= dwarf_value_keep(vs, &program, *p++);
			break;
		case DWARF_OP_VALUE2:
			has |= dwarf_value_keep(vs, &program, dwarf_get(p, 2, t->big));
			p += 2;
			break;
		case DWARF_OP_VALUE4:
			has |= dwarf_value_keep(vs, &program, dwarf_get(p, 4, t->big));
			p += 4;
			break;
		case DWARF_OP_VALUE8:
			has |= dwarf_value_keep(vs, &program, dwarf_get(p, 8, t->big));
			p += 8;
			break;
		case DWARF_OP_VALUE_ULEB:
			has |= dwarf_value_keep(vs, &program, leb_u(&p, t->end));
			break;
		default: /* DWARF_OP_VALUE */
			read = *program++;
			at = program;
			program += 2;
			has |= dwarf_value_keep(vs, &at, dwarf_value_read(t, &p, read, &program));
			break;
		}
		if (p > t->end)
			return t->end + 1;
	}
}
