/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's functions, by the stack sizes in Go's own table ("pcsp"), which stays when a program is stripped.
 *
 * A function with a stack frame keeps the caller's rbp next to the return address. A function that loads another stack
 * pointer runs on two stacks; rbp is still that of the goroutine, so the walk goes on there by frame pointer.
 */
#include "unwind/internal.h"

#include <stdlib.h>
#include "symtab/go.h"

#define BUDGET_FACTOR 16u /* steps for each byte of the table */

/* Flags of a function, since Go 1.17. */
enum { GO_TOP_FRAME = 1 << 0, GO_SP_WRITE = 1 << 1 };

struct go_rows {
	struct go g;
	struct arena kept;
	uint64_t budget;
	uint64_t at; /* the function that was found last */
	struct code_range range;
};

static void put_rule(struct build *b, uint64_t addr, struct unwind_rule r)
{
	pack_add(&b->pack, addr, pack_key(r));
}

int go_rows_new(struct build *b, struct go_rows **ret, struct err *err)
{
	struct go_rows *o = NEW(struct go_rows);
	int r;

	*ret = NULL;
	o->kept.hold = o->g.arena.hold = b->o->memory;
	o->g.img = b->img;
	o->g.memory = b->o->memory;
	o->g.kept = &o->kept;
	o->g.budget = &o->budget;
	o->budget = UINT64_MAX;
	r = go_table_find(&o->g, err);
	if (r == 0)
		r = go_head_read(&o->g, err);
	if (r == 0)
		r = go_places_find(&o->g, err);
	if (r) {
		go_rows_free(o);
		if (r < 0 && err_is_input(err))
			b->stats.n_skipped++;
		return r < 0 && !err_is_input(err) ? -1 : 0;
	}
	o->budget = o->g.table.size * BUDGET_FACTOR + MIB(1);
	*ret = o;
	return 0;
}

void go_rows_free(struct go_rows *g)
{
	if (!g)
		return;
	go_done(&g->g);
	arena_done(&g->kept);
	free(g);
}

bool go_rows_next(struct go_rows *o, uint64_t from, uint64_t to, struct code_range *ret)
{
	uint64_t off, n = o->g.n_funcs;
	uint64_t i = SEARCH(0, n, k, go_func_at(&o->g, k, &off) < from);

	for (; i < n; i++) {
		uint64_t start = go_func_at(&o->g, i, &off), end = go_func_at(&o->g, i + 1, &off);

		if (start < from || start >= to)
			return false;
		/* The table is sorted unless it is damaged. */
		if (end <= start)
			continue;
		o->at = i;
		*ret = o->range = (struct code_range){ start, end };
		return true;
	}
	return false;
}

static struct str function_name(const struct go *g, uint64_t i)
{
	struct cursor c;
	uint64_t off;

	go_func_at(g, i, &off);
	c = go_at(g, off);
	cursor_skip(&c, g->layout >= GO_18 ? 4 : g->ptr);
	return go_string(g, g->names + cursor_u32(&c));
}

/* The function to which signal handlers return: a return address is looked up one byte before. */
static bool is_restorer(const struct go *g, uint64_t i)
{
	struct str name;

	if (i >= g->n_funcs)
		return false;
	name = function_name(g, i);
	return str_eq(name, STR("runtime.sigreturn__sigaction")) || str_eq(name, STR("runtime.sigreturn"));
}

/* The outermost function of a stack. Go says so of its signal handlers, too, whose callers were interrupted. */
static bool is_outermost(const struct go *g, uint64_t i, uint8_t flags)
{
	return flags & GO_TOP_FRAME && !str_starts(function_name(g, i), STR("runtime.sigtramp")) &&
	       !str_starts(function_name(g, i), STR("runtime.cgoSigtramp"));
}

/* The offset of the stack sizes, and the flags. false: the function is damaged. */
static bool read_function(const struct go *g, uint64_t i, uint32_t *ret_sizes, uint8_t *ret_flags)
{
	struct cursor c;
	uint64_t off;

	go_func_at(g, i, &off);
	c = go_at(g, off);
	/* Entry, name, arguments, deferreturn; stack sizes; files, lines, number of data; unit, line; id, flags. */
	cursor_skip(&c, (g->layout >= GO_18 ? 4 : g->ptr) + 12);
	*ret_sizes = cursor_u32(&c);
	cursor_skip(&c, 12 + (g->layout >= GO_16 ? 4 : 0) + (g->layout >= GO_20 ? 4 : 0) + 1);
	*ret_flags = g->layout >= GO_16 ? cursor_u8(&c) : 0;
	return cursor_ok(&c);
}

int go_rows_add(struct go_rows *o, struct build *b, uint64_t limit, struct err *err)
{
	const struct unwind_rule signal = { .cfa = UNWIND_CFA_SIGNAL, .off = 40 };
	uint64_t start = o->range.start, addr = start;
	struct go_steps s;
	uint32_t sizes;
	uint8_t flags;
	bool top;

	b->flags |= UNWIND_FROM_GO;
	b->stats.n_functions++;
	if (is_restorer(&o->g, o->at)) {
		put_rule(b, start, signal);
		return 0;
	}
	if (!read_function(&o->g, o->at, &sizes, &flags)) {
		b->stats.n_skipped++;
		return 0;
	}
	top = is_outermost(&o->g, o->at, flags);
	if (flags & GO_SP_WRITE && !(flags & GO_TOP_FRAME)) {
		put_rule(b, start, (struct unwind_rule){ .cfa = UNWIND_CFA_CHAIN });
		addr = limit;
	}
	s = go_steps_at(&o->g, sizes);
	while (addr < limit) {
		struct unwind_rule r = { .cfa = UNWIND_CFA_REG | UNWIND_RSP << 4 };

		if (go_seek(&o->g, &s, addr - start, err) < 0) {
			if (!err_is_input(err))
				return -1;
			b->stats.n_skipped++;
			break;
		}
		if (s.over || s.value < 0 || s.value >= 1 << 23) {
			r.cfa = UNWIND_CFA_CHAIN;
		} else {
			r.off = (uint32_t)s.value + 8;
			r.save = (uint8_t)(s.value >= 8 ? UNWIND_RBP_CFA : UNWIND_RBP_SAME);
			r.aux = s.value >= 8 ? -16 : 0;
			if (top)
				r.save |= UNWIND_RA_END << 2;
		}
		put_rule(b, addr, r);
		if (s.over || s.until >= limit - start)
			break;
		addr = start + s.until;
	}
	/* The byte before that function is the call's. */
	if (is_restorer(&o->g, o->at + 1) && limit == o->range.end)
		put_rule(b, limit - 1, signal);
	return 0;
}
