/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame instructions (DWARF 5, section 6.4.2; x86-64 psABI, section 3.7), for the CFA, rbp and the return address
 * alone: the other registers that functions save are not needed to find callers.
 *
 * Expressions are recognised by their form, not computed: a register and an offset, its word in memory and an offset, and
 * the one that linkers write for lazy linkage tables.
 */
#include "unwind/internal.h"

#define REMEMBERED 32u /* states that may be remembered at a time */

enum {
	OP_NOP = 0x00,
	OP_SET_LOC,
	OP_ADVANCE_1,
	OP_ADVANCE_2,
	OP_ADVANCE_4,
	OP_OFFSET_EXTENDED,
	OP_RESTORE_EXTENDED,
	OP_UNDEFINED,
	OP_SAME_VALUE,
	OP_REGISTER,
	OP_REMEMBER,
	OP_RESTORE_STATE,
	OP_DEF_CFA,
	OP_DEF_CFA_REGISTER,
	OP_DEF_CFA_OFFSET,
	OP_DEF_CFA_EXPRESSION,
	OP_EXPRESSION,
	OP_OFFSET_EXTENDED_SF,
	OP_DEF_CFA_SF,
	OP_DEF_CFA_OFFSET_SF,
	OP_VAL_OFFSET,
	OP_VAL_OFFSET_SF,
	OP_VAL_EXPRESSION,
	OP_ADVANCE_8 = 0x1d,
	OP_GNU_ARGS_SIZE = 0x2e,
	OP_GNU_NEGATIVE_OFFSET = 0x2f,
};
enum { EXPR_DEREF = 0x06, EXPR_CONST1U = 0x08, EXPR_CONST1S, EXPR_CONST2U, EXPR_CONST2S };
enum {
	EXPR_CONSTS = 0x11,
	EXPR_MINUS = 0x1c,
	EXPR_PLUS = 0x22,
	EXPR_PLUS_UCONST,
	EXPR_LIT0 = 0x30,
	EXPR_BREG0 = 0x70
};

/* ---- expressions ---- */

/* Two signed parts of struct unwind_rule's `off`. false: they do not fit. */
static bool pair_offsets(int64_t low, int64_t high, int64_t *ret)
{
	if (low != (int16_t)low || high != (int8_t)high)
		return false;
	*ret = high * 65536 + (uint16_t)low;
	return true;
}

/* The number that is added to the word in memory. false: another operation. */
static bool added_offset(struct cursor *e, int64_t *ret)
{
	uint64_t op = cursor_u8(e);

	if (op == EXPR_PLUS_UCONST) {
		*ret = (int64_t)cursor_uleb(e);
		return cursor_ok(e);
	}
	if (op >= EXPR_LIT0 && op < EXPR_LIT0 + 32)
		*ret = (int64_t)(op - EXPR_LIT0);
	else if (op == EXPR_CONST1U || op == EXPR_CONST1S)
		*ret = op == EXPR_CONST1U ? (int64_t)cursor_u8(e) : (int8_t)cursor_u8(e);
	else if (op == EXPR_CONST2U || op == EXPR_CONST2S)
		*ret = op == EXPR_CONST2U ? (int64_t)cursor_u16(e) : (int16_t)cursor_u16(e);
	else if (op == EXPR_CONSTS)
		*ret = cursor_sleb(e);
	else
		return false;
	op = cursor_u8(e);
	if (op == EXPR_MINUS)
		*ret = (int64_t) - (uint64_t)*ret;
	return cursor_ok(e) && (op == EXPR_MINUS || op == EXPR_PLUS);
}

/*
 * The entry of a linkage table pushes its number in the middle of its 16 bytes: rsp + 8 + ((rip & 15) >= n) * 8.
 */
static bool is_linkage_entry(struct cursor e, int64_t *ret)
{
	static const uint8_t form[] = { 0x77, 8, 0x80, 0, 0x3f, 0x1a, EXPR_LIT0, 0x2a, 0x33, 0x24, 0x22 };

	if (cursor_left(&e) != sizeof(form))
		return false;
	for (size_t i = 0; i < sizeof(form); i++)
		if (form[i] != (i == 6 ? e.p[i] & 0xf0 : e.p[i]))
			return false;
	*ret = e.p[6] & 15;
	return true;
}

static void cfa_of_expression(struct cfi_state *s, struct cursor e)
{
	int64_t n, m = 0;
	uint64_t op;

	s->cfa = UNWIND_CFA_BAD;
	if (is_linkage_entry(e, &n)) {
		s->cfa = UNWIND_CFA_PLT;
		s->expression = n;
		return;
	}
	op = cursor_u8(&e);
	if (op < EXPR_BREG0 || op >= EXPR_BREG0 + 16)
		return;
	n = cursor_sleb(&e);
	if (!cursor_ok(&e))
		return;
	s->cfa_reg = (uint8_t)(op - EXPR_BREG0);
	if (e.p == e.end) {
		s->cfa = UNWIND_CFA_REG;
		s->cfa_off = n;
		return;
	}
	if (cursor_u8(&e) != EXPR_DEREF || (e.p < e.end && !added_offset(&e, &m)) || e.p < e.end)
		return;
	if (pair_offsets(n, m, &s->expression))
		s->cfa = UNWIND_CFA_DEREF;
}

static void register_of_expression(struct cfi_state *s, uint64_t reg, struct cursor e)
{
	if (reg == CFI_RA)
		s->ra = CFI_RA_UNKNOWN;
	if (reg == CFI_RSP)
		s->own_rsp = true;
	if (reg == CFI_RBX)
		s->rbx = UNWIND_RBX_LOST;
	if (reg != CFI_RBP)
		return;
	s->rbp = UNWIND_RBP_LOST;
	if (cursor_u8(&e) != EXPR_BREG0 + CFI_RBP)
		return;
	s->rbp_off = cursor_sleb(&e);
	if (cursor_ok(&e) && e.p == e.end)
		s->rbp = UNWIND_RBP_RBP;
}

/* ---- states ---- */

static void set_saved(struct cfi_state *s, uint64_t reg, int64_t off)
{
	if (reg == CFI_RBP) {
		s->rbp = UNWIND_RBP_CFA;
		s->rbp_off = off;
	} else if (reg == CFI_RA) {
		s->ra = off == -8 ? UNWIND_RA_CFA : UNWIND_RA_AT;
		s->ra_off = off;
	} else if (reg == CFI_RBX) {
		s->rbx = off < 0 && !(off & 7) && off > -8 * (int64_t)UNWIND_RBX_LOST ? (uint8_t)(off / -8)
										      : UNWIND_RBX_LOST;
	} else if (reg == CFI_RSP) {
		s->own_rsp = true;
	}
}

static void set_initial(struct cfi_state *s, uint64_t reg, const struct cfi_state *initial)
{
	if (reg == CFI_RBP) {
		s->rbp = initial->rbp;
		s->rbp_off = initial->rbp_off;
	} else if (reg == CFI_RA) {
		s->ra = initial->ra;
		s->ra_off = initial->ra_off;
	} else if (reg == CFI_RBX) {
		s->rbx = initial->rbx;
	} else if (reg == CFI_RSP) {
		s->own_rsp = initial->own_rsp;
	}
}

static void set_lost(struct cfi_state *s, uint64_t reg, bool undefined)
{
	if (reg == CFI_RBP)
		s->rbp = UNWIND_RBP_LOST;
	else if (reg == CFI_RA)
		s->ra = undefined ? UNWIND_RA_END : CFI_RA_UNKNOWN;
	else if (reg == CFI_RBX)
		s->rbx = UNWIND_RBX_LOST;
	else if (reg == CFI_RSP)
		s->own_rsp = true;
}

static void set_register(struct cfi_state *s, uint64_t reg, uint64_t from)
{
	if (reg == CFI_RA && from < 16) {
		s->ra = UNWIND_RA_REG;
		s->ra_off = (int64_t)from;
		return;
	}
	set_lost(s, reg, false);
}

static void set_cfa(struct cfi_state *s, uint64_t reg, int64_t off)
{
	s->cfa = reg < 16 ? UNWIND_CFA_REG : UNWIND_CFA_BAD;
	s->cfa_reg = (uint8_t)(reg & 15);
	s->cfa_off = off;
}

static uint64_t rule_of_state(const struct cfi_state *s, bool signal)
{
	int64_t value = s->cfa == UNWIND_CFA_REG ? s->cfa_off : s->expression;
	int32_t off = (int32_t)((uint32_t)value << 8) >> 8; /* 24 bits */
	struct unwind_rule r = { .cfa = s->cfa };
	unsigned rbp = s->rbp, ra = s->ra;

	/* The kernel's frame: rsp is the last but one of the registers that it saved. */
	if (signal && s->cfa == UNWIND_CFA_DEREF && s->cfa_reg == CFI_RSP && off >= UNWIND_GREG_SP * 8 &&
	    off <= INT16_MAX) {
		r.cfa = UNWIND_CFA_SIGNAL;
		r.off = (uint32_t)off - UNWIND_GREG_SP * 8;
		return pack_key(r);
	}
	if (s->cfa == UNWIND_CFA_REG || s->cfa == UNWIND_CFA_DEREF)
		r.cfa |= (uint8_t)(s->cfa_reg << 4);
	if (rbp == UNWIND_RBP_CFA || rbp == UNWIND_RBP_RBP) {
		if (s->rbp_off == (int16_t)s->rbp_off)
			r.aux = (int16_t)s->rbp_off;
		else
			rbp = UNWIND_RBP_LOST;
	}
	/* A rule has one such number. */
	if (ra == UNWIND_RA_REG || ra == UNWIND_RA_AT) {
		if (rbp == UNWIND_RBP_CFA || rbp == UNWIND_RBP_RBP || s->ra_off != (int16_t)s->ra_off)
			ra = CFI_RA_UNKNOWN;
		else
			r.aux = (int16_t)s->ra_off;
	}
	if (s->cfa == UNWIND_CFA_BAD || s->own_rsp || ra == CFI_RA_UNKNOWN || value != off)
		return pack_key((struct unwind_rule){ .cfa = UNWIND_CFA_BAD });
	r.off = ((uint32_t)off & 0xffffff) | (uint32_t)s->rbx << 24;
	r.save = (uint8_t)(rbp | ra << 2 | (signal ? UNWIND_INTERRUPT : 0));
	return pack_key(r);
}

/* ---- running ---- */

struct runner {
	struct cursor b;
	const struct cfi_cie *cie;
	struct cfi_state s;
	struct cfi_state remembered[REMEMBERED];
	unsigned n_remembered;
};

static bool run_expression(struct runner *r, unsigned op, uint64_t reg)
{
	struct cursor *b = &r->b, e;
	uint64_t n = cursor_uleb(b);

	if (!cursor_ok(b) || n > cursor_left(b))
		return false;
	e = cursor_of(bytes_of(b->p, n));
	b->p += n;
	if (op == OP_DEF_CFA_EXPRESSION)
		cfa_of_expression(&r->s, e);
	else if (op == OP_EXPRESSION)
		register_of_expression(&r->s, reg, e);
	else
		set_lost(&r->s, reg, false);
	return true;
}

/* "Its value is CFA + @off". */
static void set_value(struct cfi_state *s, uint64_t reg, int64_t off)
{
	/* For rsp and 0 that holds anyway. */
	if (reg == CFI_RSP && !off)
		s->own_rsp = false;
	else
		set_lost(s, reg, false);
}

/* Operations that change the state, other than the three of one byte. false: an unknown one. */
static bool run_state_op(struct runner *r, unsigned op)
{
	struct cursor *b = &r->b;
	const struct cfi_cie *cie = r->cie;
	uint64_t reg = 0;

	/* All of them but these start with a register. */
	if (op != OP_DEF_CFA_OFFSET && op != OP_DEF_CFA_OFFSET_SF && op != OP_DEF_CFA_EXPRESSION &&
	    op != OP_GNU_ARGS_SIZE && op != OP_REMEMBER && op != OP_RESTORE_STATE && op != OP_NOP)
		reg = cursor_uleb(b);
	switch (op) {
	case OP_NOP:
		return true;
	case OP_GNU_ARGS_SIZE:
		cursor_uleb(b);
		return true;
	case OP_OFFSET_EXTENDED:
		set_saved(&r->s, reg, (int64_t)(cursor_uleb(b) * (uint64_t)cie->data_align));
		return true;
	case OP_OFFSET_EXTENDED_SF:
		set_saved(&r->s, reg, (int64_t)((uint64_t)cursor_sleb(b) * (uint64_t)cie->data_align));
		return true;
	case OP_GNU_NEGATIVE_OFFSET:
		set_saved(&r->s, reg, (int64_t) - (cursor_uleb(b) * (uint64_t)cie->data_align));
		return true;
	case OP_RESTORE_EXTENDED:
		set_initial(&r->s, reg, &cie->initial);
		return true;
	case OP_UNDEFINED:
		set_lost(&r->s, reg, true);
		return true;
	case OP_SAME_VALUE:
		if (reg == CFI_RBP)
			r->s.rbp = UNWIND_RBP_SAME;
		else if (reg == CFI_RBX)
			r->s.rbx = 0;
		else
			set_lost(&r->s, reg, false);
		return true;
	case OP_REGISTER:
		set_register(&r->s, reg, cursor_uleb(b));
		return true;
	case OP_REMEMBER:
		if (r->n_remembered == REMEMBERED)
			return false;
		r->remembered[r->n_remembered++] = r->s;
		return true;
	case OP_RESTORE_STATE:
		if (!r->n_remembered)
			return false;
		r->s = r->remembered[--r->n_remembered];
		return true;
	case OP_DEF_CFA:
		set_cfa(&r->s, reg, (int64_t)cursor_uleb(b));
		return true;
	case OP_DEF_CFA_SF:
		set_cfa(&r->s, reg, (int64_t)((uint64_t)cursor_sleb(b) * (uint64_t)cie->data_align));
		return true;
	case OP_DEF_CFA_REGISTER:
		set_cfa(&r->s, reg, r->s.cfa_off);
		return true;
	case OP_DEF_CFA_OFFSET:
		r->s.cfa_off = (int64_t)cursor_uleb(b);
		return true;
	case OP_DEF_CFA_OFFSET_SF:
		r->s.cfa_off = (int64_t)((uint64_t)cursor_sleb(b) * (uint64_t)cie->data_align);
		return true;
	case OP_VAL_OFFSET:
		set_value(&r->s, reg, (int64_t)cursor_uleb(b));
		return true;
	case OP_VAL_OFFSET_SF:
		set_value(&r->s, reg, cursor_sleb(b));
		return true;
	case OP_DEF_CFA_EXPRESSION:
	case OP_EXPRESSION:
	case OP_VAL_EXPRESSION:
		return run_expression(r, op, reg);
	default:
		return false;
	}
}

/* How far an operation moves, in units of code_align. false: it is none that moves. */
static bool run_advance(struct runner *r, unsigned op, uint64_t *ret)
{
	if (op >> 6 == 1)
		*ret = op & 63;
	else if (op >= OP_ADVANCE_1 && op <= OP_ADVANCE_4)
		*ret = cursor_uint(&r->b, 1u << (op - OP_ADVANCE_1));
	else if (op == OP_ADVANCE_8)
		*ret = cursor_u64(&r->b);
	else
		return false;
	return true;
}

static bool run_op(struct runner *r, unsigned op)
{
	if (op >> 6 == 2)
		set_saved(&r->s, op & 63, (int64_t)(cursor_uleb(&r->b) * (uint64_t)r->cie->data_align));
	else if (op >> 6 == 3)
		set_initial(&r->s, op & 63, &r->cie->initial);
	else if (!run_state_op(r, op))
		return false;
	return cursor_ok(&r->b);
}

bool cfi_run_initial(const uint8_t *p, const uint8_t *end, struct cfi_cie *cie)
{
	struct runner r = { .b = cursor_of(bytes_of(p, (size_t)(end - p))),
			    .cie = cie,
			    .s = { .cfa = UNWIND_CFA_BAD, .ra = CFI_RA_UNKNOWN } };
	uint64_t moved;

	while (r.b.p < r.b.end) {
		unsigned op = *r.b.p++;

		if (run_advance(&r, op, &moved) || !run_op(&r, op))
			return false;
	}
	cie->initial = r.s;
	return true;
}

bool cfi_run(const struct cfi_program *program, struct pack *pack)
{
	const struct cfi_cie *cie = program->cie;
	struct runner r;
	uint64_t addr = program->start, moved;

	r.b = cursor_of(bytes_of(program->p, (size_t)(program->end - program->p)));
	r.cie = cie;
	r.s = cie->initial;
	r.n_remembered = 0;
	while (r.b.p < r.b.end) {
		unsigned op = *r.b.p++;

		/* Nine of ten operations are these: a move by a few bytes, a push or a pop, a saved register. */
		if (op >> 6 == 1) {
			moved = op & 63;
		} else if (op == OP_DEF_CFA_OFFSET && r.b.p < r.b.end && *r.b.p < 0x80) {
			r.s.cfa_off = *r.b.p++;
			continue;
		} else if (op >> 6 == 2 && (op & 63) != CFI_RBP && (op & 63) != CFI_RBX &&
			   (op & 63) != CFI_RSP && (op & 63) != CFI_RA) {
			cursor_uleb(&r.b);
			continue;
		} else if (!run_advance(&r, op, &moved)) {
			if (run_op(&r, op))
				continue;
			pack_add(pack, addr, pack_key((struct unwind_rule){ .cfa = UNWIND_CFA_BAD }));
			return false;
		}
		if (!moved)
			continue;
		pack_add(pack, addr, rule_of_state(&r.s, cie->signal));
		if (!cursor_ok(&r.b) || mul_overflows(moved, cie->code_align, &moved) ||
		    moved >= program->limit - addr)
			return cursor_ok(&r.b);
		addr += moved;
	}
	pack_add(pack, addr, rule_of_state(&r.s, cie->signal));
	return true;
}
