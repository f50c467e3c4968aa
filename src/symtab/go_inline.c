/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that Go's compiler inlined. A third program of each function says which call an instruction
 * belongs to. Calls are described in an array, which is a tree: each call names an instruction of the function
 * that belongs to the caller and has the line of the call. From Go 1.18 on, the place of a function's array
 * counts from the start of all arrays (go_find.c).
 *
 * Layouts: Go 1.9 (calls of 16 bytes, which have caller, file and line themselves), 1.12 (of 20 bytes, by
 * address), 1.18 (counted from the start of all) and 1.20 (of 16 bytes). Before Go 1.9 there was no such array.
 *
 * A wrong start of the arrays shows in the calls' names: each must be the start of one in the table.
 */
#include "symtab/go.h"

#include <stdlib.h>
#include "symtab/batch.h"

#define CALL_COST 16u        /* a call's part of the row budget, besides its name */
#define CALLS_MAX (1u << 16) /* of one function */

/* PCDATA_InlTreeIndex and FUNCDATA_InlTree, among a function's programs and data. */
struct tree_places {
	uint8_t program, data;
};
static const struct tree_places places_since_16 = { 2, 3 };
static const struct tree_places places_before_16[] = { { 1, 2 }, { 2, 4 } }; /* the second from Go 1.14 on */

static int calls_over_budget(struct err *err)
{
	return err_set(err, ERR_LIMIT, ".gopclntab: more inlined calls than a table of this size may have");
}

/* The bytes from @addr to the end of the part of the program; empty: there are none. */
static int memory_at(struct go *g, uint64_t addr, struct bytes *ret, struct err *err)
{
	struct go_part part = g->data_part;
	int r;

	*ret = (struct bytes){ 0 };
	if (addr - g->addr < g->table.size) {
		*ret = bytes_of(g->table.p + (addr - g->addr), g->table.size - (addr - g->addr));
		return 0;
	}
	if (addr - part.addr >= g->data.size) {
		for (uint32_t i = 0;; i++) {
			if (!go_part_at(g, i, &part))
				return 0;
			if (addr - part.addr < part.size)
				break;
		}
		/* All trees are in one part. A file that makes us change between two pays for it. */
		if (g->data.size)
			*g->budget -= MIN(*g->budget, part.size);
		if (!*g->budget)
			return calls_over_budget(err);
		arena_reset(&g->arena);
		g->data = (struct bytes){ 0 };
		r = go_part_read(g, &part, &g->arena, &g->data, err);
		if (r)
			return r < 0 ? -1 : 0;
		g->data_part = part;
		if (addr - part.addr >= g->data.size)
			return 0;
	}
	*ret = bytes_of(g->data.p + (addr - part.addr), g->data.size - (addr - part.addr));
	return 0;
}

/* The address of the tree by the numbers in @at; 0: it has none. @programs: the offset of the function's
 * programs. */
static uint64_t tree_at(const struct go *g, uint64_t programs, uint32_t n_programs, uint8_t n_data,
			struct tree_places at, uint32_t *ret_steps)
{
	uint64_t off = programs + 4 * (uint64_t)n_programs, tree;
	unsigned size = g->layout >= GO_18 ? 4 : g->ptr;
	struct cursor c = go_at(g, programs + 4 * (uint64_t)at.program);

	if (n_programs <= at.program || n_data <= at.data)
		return 0;
	*ret_steps = cursor_u32(&c);
	off = (off + size - 1) & ~(uint64_t)(size - 1);
	cursor_seek(&c, off + (uint64_t)size * at.data);
	tree = cursor_uint(&c, size);
	if (!cursor_ok(&c))
		return 0;
	if (g->layout < GO_18)
		return tree;
	return tree != UINT32_MAX && g->trees ? g->trees + tree : 0;
}

/*
 * Go 1.9 to 1.15 have the same magic, and nothing says which numbers apply. But the first call of a tree is
 * made by the function itself, so its caller is -1: a word up to Go 1.11, half of one from 1.12 on, with the
 * callee's kind in the other half. No other data at that place starts like this.
 */
static int tree_before_16(struct go *g, uint64_t programs, uint32_t n_programs, uint8_t n_data,
			  struct go_func *f, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(places_before_16); i++) {
		uint32_t steps = 0;
		uint64_t tree = tree_at(g, programs, n_programs, n_data, places_before_16[i], &steps);
		struct bytes b;
		struct cursor c;
		uint16_t caller, rest;

		if (!tree || !steps)
			continue;
		if (memory_at(g, tree, &b, err) < 0)
			return -1;
		c = cursor_at(b, g->big, 0);
		caller = cursor_u16(&c);
		rest = cursor_u16(&c);
		if (!cursor_ok(&c) || caller != UINT16_MAX)
			continue;
		f->tree = tree;
		f->call_steps = steps;
		f->has_lines = rest == UINT16_MAX;
		break;
	}
	return 0;
}

int go_tree_of(struct go *g, uint64_t programs, uint32_t n_programs, uint8_t n_data, struct go_func *f,
	       struct err *err)
{
	f->call_steps = 0;
	f->tree = 0;
	f->has_lines = false;
	if (g->layout == GO_2)
		return tree_before_16(g, programs, n_programs, n_data, f, err);
	f->tree = tree_at(g, programs, n_programs, n_data, places_since_16, &f->call_steps);
	return 0;
}

/* The number of calls that the program of the function's calls names. */
static int calls_count(struct go *g, const struct go_func *f, int32_t *ret, struct err *err)
{
	struct go_steps s = go_steps_at(g, f->call_steps);
	int32_t max = -1;

	for (uint64_t pc = 0; pc < f->size && !s.over; pc = s.until) {
		if (go_seek(g, &s, pc, err) < 0)
			return -1;
		if (!s.over)
			max = MAX(max, s.value);
	}
	*ret = MIN(max, (int32_t)CALLS_MAX - 1) + 1;
	return 0;
}

struct inlined_call {
	uint32_t node;
	int32_t at; /* the instruction that has the call's line */
};

static int call_by_place(const void *a, const void *b)
{
	const struct inlined_call *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* Set the callers and lines of the calls, by the instructions that they name. */
static int callers_read(struct go *g, const struct go_func *f, struct inlined_call *calls, size_t n,
			struct err *err)
{
	struct go_steps files = go_steps_at(g, f->file_steps), lines = go_steps_at(g, f->line_steps),
			tree = go_steps_at(g, f->call_steps);

	qsort(calls, n, sizeof(*calls), call_by_place);
	for (size_t i = 0; i < n; i++) {
		struct dwarf_node *node = &g->nodes[calls[i].node];
		uint64_t pc = (uint64_t)calls[i].at;

		if (calls[i].at < 0 || pc >= f->size)
			continue;
		if (go_seek(g, &files, pc, err) < 0 || go_seek(g, &lines, pc, err) < 0 ||
		    go_seek(g, &tree, pc, err) < 0)
			return -1;
		node->call_file = files.over ? 0 : go_file(g, f->unit, files.value);
		node->call_line = lines.over || lines.value < 0 ? 0 : (uint32_t)lines.value;
		/* Callers come before their callees. */
		if (!tree.over && tree.value >= 0 && (uint32_t)tree.value + 1 < calls[i].node)
			node->parent = (uint32_t)tree.value + 1;
	}
	return 0;
}

/* Read caller, file and line of call @i, in a layout where it has them itself. */
static void call_read(struct go *g, struct cursor *c, uint32_t i, struct dwarf_node *node)
{
	int32_t caller = (int32_t)cursor_u32(c), file = (int32_t)cursor_u32(c);

	node->call_file = go_file(g, 0, file);
	node->call_line = cursor_u32(c);
	/* Callers come before their callees. */
	if (caller >= 0 && (uint32_t)caller < i)
		node->parent = (uint32_t)caller + 1;
}

/* Whether a name of the table starts at @off. */
static bool name_starts(const struct go *g, uint32_t off)
{
	struct cursor c;

	if (!off)
		return true;
	c = go_at(g, g->names + off - 1);
	return cursor_u8(&c) == 0 && cursor_ok(&c);
}

/* Whether the calls may be those of @f. */
static bool tree_is_sound(const struct go *g, const struct go_func *f, struct bytes b, size_t n,
			  unsigned size)
{
	for (size_t i = 0; i < n; i++) {
		struct cursor c = cursor_at(bytes_of(b.p + i * size, size), g->big, 0);

		cursor_skip(&c, f->has_lines || size == 20 ? 12 : 4);
		if (!name_starts(g, cursor_u32(&c)))
			return false;
	}
	return true;
}

int go_tree_read(struct go *g, const struct go_func *f, size_t *ret_n, struct err *err)
{
	unsigned size = g->layout >= GO_20 || f->has_lines ? 16 : 20;
	AUTO(mem_freep) struct inlined_call *calls = NULL;
	struct bytes b = { 0 };
	int32_t n = 0;

	*ret_n = 1;
	VEC_RESERVE(g->nodes, 0, g->room_nodes, 1);
	g->nodes[0] = (struct dwarf_node){ 0 };
	if (!f->call_steps)
		return 0;
	if (calls_count(g, f, &n, err) < 0 || (f->tree && memory_at(g, f->tree, &b, err) < 0))
		return -1;
	if (n <= 0)
		return 0;
	if ((uint64_t)n * size > b.size || !tree_is_sound(g, f, b, (size_t)n, size)) {
		g->n_lost++;
		return 0;
	}
	VEC_RESERVE(g->nodes, 1, g->room_nodes, n);
	calls = NEW_N(struct inlined_call, (size_t)n);
	for (int32_t i = 0; i < n; i++) {
		struct cursor c = cursor_at(bytes_of(b.p + (size_t)i * size, size), g->big, 0);
		struct dwarf_node *node = &g->nodes[i + 1];
		struct function_id id = { 0 };
		struct str name;

		*node = (struct dwarf_node){ .has_call_file = true };
		if (f->has_lines)
			call_read(g, &c, (uint32_t)i, node);
		else
			cursor_skip(&c, size == 16 ? 4 : 12);
		name = go_string(g, g->names + cursor_u32(&c));
		*g->budget -= MIN(*g->budget, (uint64_t)name.size + CALL_COST);
		if (!*g->budget)
			return calls_over_budget(err);
		if (!f->has_lines)
			calls[i] = (struct inlined_call){ (uint32_t)i + 1, (int32_t)cursor_u32(&c) };
		if (g->layout >= GO_20)
			id.line = cursor_u32(&c);
		id.name = intern_str(&g->b->in, name, true);
		node->die = intern_function(&g->b->in, &id);
	}
	*ret_n = (size_t)n + 1;
	return f->has_lines ? 0 : callers_read(g, f, calls, (size_t)n, err);
}
