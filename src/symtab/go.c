/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's own table of functions, files and lines (.gopclntab), which stays when a program is stripped.
 *
 * Four layouts, by the magic: Go 1.2, 1.16, 1.18, 1.20. A function has two programs, for its files and for its
 * lines: each step changes a value and says for how many instructions it holds. go_inline.c reads the inlined
 * calls.
 */
#include "symtab/go.h"

#include <stdlib.h>
#include "symtab/batch.h"

#define NAME_MAX_GO KIB(64)

struct cursor go_at(const struct go *g, uint64_t off)
{
	struct cursor c = cursor_at(g->table, g->big, 0);

	cursor_seek(&c, off);
	return c;
}

struct str go_string(const struct go *g, uint64_t off)
{
	struct cursor c = go_at(g, off);
	struct str s;

	if (cursor_left(&c) > NAME_MAX_GO)
		c.end = c.p + NAME_MAX_GO;
	s = cursor_cstr(&c);
	return cursor_ok(&c) ? s : (struct str){ 0 };
}

uint64_t go_func_at(const struct go *g, uint64_t i, uint64_t *ret_off)
{
	unsigned size = g->layout >= GO_18 ? 4 : g->ptr;
	struct cursor c = go_at(g, g->funcs + i * 2 * size);
	uint64_t pc = cursor_uint(&c, size);

	*ret_off = (g->layout == GO_2 ? 0 : g->funcs) + cursor_uint(&c, size);
	return g->layout >= GO_18 ? g->text + pc : pc;
}

static uint64_t go_varint(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b = cursor_u8(c);

		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			break;
	}
	return v;
}

static void steps_next(struct go_steps *s, unsigned quantum)
{
	uint64_t v = go_varint(&s->c);

	/* 0 ends the program, but the first value may be 0. */
	if ((!v && s->until) || !cursor_ok(&s->c)) {
		s->over = true;
		s->until = UINT64_MAX;
		return;
	}
	/* The Go runtime's own number has 32 bits and wraps around. */
	s->value = (int32_t)((uint32_t)s->value + (uint32_t)unzigzag(v));
	s->until += go_varint(&s->c) * quantum;
}

int go_seek(struct go *g, struct go_steps *s, uint64_t pc, struct err *err)
{
	for (; s->until <= pc; steps_next(s, g->quantum)) {
		if (!*g->budget) {
			s->until = UINT64_MAX;
			return err_set(err, ERR_LIMIT,
				       ".gopclntab: more lines than a table of this size may have");
		}
		(*g->budget)--;
	}
	return 0;
}

struct go_steps go_steps_at(const struct go *g, uint32_t off)
{
	struct go_steps s = { .c = go_at(g, g->programs + off), .value = -1 };

	s.over = !off;
	s.until = off ? 0 : UINT64_MAX;
	if (off)
		steps_next(&s, g->quantum);
	return s;
}

uint32_t go_file(const struct go *g, uint32_t unit, int32_t file)
{
	struct str path;
	struct cursor c;
	uint64_t off;

	if (file < 0)
		return 0;
	c = go_at(g, g->layout == GO_2 ? g->files + 4 * (uint64_t)file
				       : g->units + 4 * ((uint64_t)unit + (uint64_t)file));
	off = cursor_u32(&c);
	if (!cursor_ok(&c) || off == UINT32_MAX)
		return 0;
	path = go_string(g, g->layout == GO_2 ? off : g->files + off);
	if (!path.size)
		return 0;
	return intern_file(&g->b->in, intern_str(&g->b->in, path_dirname(path), true),
			   intern_str(&g->b->in, path_basename(path), true));
}

static int func_rows(struct go *g, struct sweep *s, const struct go_func *f, struct err *err)
{
	struct go_steps files = go_steps_at(g, f->file_steps), lines = go_steps_at(g, f->line_steps),
			calls = go_steps_at(g, s->f->n_nodes > 1 ? f->call_steps : 0);
	uint64_t pc = 0, to;
	int32_t last = -2;
	uint32_t file = 0, node;

	for (; pc < f->size; pc = to) {
		if (go_seek(g, &files, pc, err) < 0 || go_seek(g, &lines, pc, err) < 0 ||
		    go_seek(g, &calls, pc, err) < 0)
			return -1;
		if (!files.over && files.value != last) {
			last = files.value;
			file = go_file(g, f->unit, last);
		}
		node = !calls.over && calls.value >= 0 && (uint32_t)calls.value < s->f->n_nodes - 1
			       ? (uint32_t)calls.value + 1
			       : 0;
		range_row(s, (uint32_t)pc, node, files.over ? 0 : file,
			  lines.over || lines.value < 0 ? 0 : (uint32_t)lines.value, 0);
		to = MIN(MIN(f->size, calls.until), MIN(files.until, lines.until));
	}
	return 0;
}

/* The number of data of a function: the last byte of a word whose first is its kind. Before Go 1.12 the whole
 * word. */
static uint8_t func_data_read(const struct go *g, struct cursor *c)
{
	uint8_t first = cursor_u8(c), last;

	cursor_skip(c, 2);
	last = cursor_u8(c);
	return g->layout == GO_2 && !g->big && !last ? first : last;
}

/*
 * Whether DWARF has the function. The table says that a function extends to the next one; DWARF says where
 * the padding starts, and has all that the table has.
 */
static bool func_in_dwarf(const struct go *g, uint64_t pc)
{
	const struct span *dwarf = g->scope->dwarf;
	size_t lo = SEARCH(0, g->scope->n_dwarf, i, dwarf[i].start <= pc);

	return lo && pc < dwarf[lo - 1].end;
}

static int func_read(struct go *g, uint64_t i, struct err *err)
{
	uint64_t off, next, pc = go_func_at(g, i, &off), end = go_func_at(g, i + 1, &next);
	struct function_id id = { 0 };
	struct dwarf_function calls = { 0 };
	struct sweep s = { .b = g->b, .f = &calls, .ids = true };
	struct go_func f = { 0 };
	uint32_t name, n_programs;
	uint8_t n_data;
	struct cursor c = go_at(g, off);
	const struct dwarf_section_place *place = dwarf_place_at(g->scope->code, g->scope->n_code, pc);
	struct str text;
	int r;

	if (end <= pc || func_in_dwarf(g, pc))
		return 0;
	/* All functions of the table are live. A stripped file may have no section of code left. */
	end = pc +
	      MIN(end - pc, MIN(place ? place->base + place->size - pc : UINT64_MAX, (uint64_t)UINT32_MAX));
	f.size = end - pc;
	cursor_skip(&c, g->layout >= GO_18 ? 4 : g->ptr);
	name = cursor_u32(&c);
	cursor_skip(&c, 12); /* arguments, deferreturn, stack */
	f.file_steps = cursor_u32(&c);
	f.line_steps = cursor_u32(&c);
	n_programs = cursor_u32(&c);
	if (g->layout >= GO_16)
		f.unit = cursor_u32(&c);
	if (g->layout >= GO_20)
		id.line = cursor_u32(&c);
	if (!cursor_ok(&c))
		return 0;
	n_data = func_data_read(g, &c);
	if (cursor_ok(&c) && go_tree_of(g, cursor_off(&c), n_programs, n_data, &f, err) < 0)
		return -1;
	text = go_string(g, g->names + name);
	*g->budget -= MIN(*g->budget, (uint64_t)text.size);
	id.name = intern_str(&g->b->in, text, true);
	if (go_tree_read(g, &f, &calls.n_nodes, err) < 0)
		return -1;
	calls.nodes = g->nodes;
	range_nodes(g->b, calls.n_nodes);
	range_begin(&s, pc, end, SYMTAB_GO, false);
	r = func_rows(g, &s, &f, err);
	range_end(&s);
	id.file = g->b->entries[g->b->ranges[s.range].first_entry].file;
	g->b->ranges[s.range].function = intern_function(&g->b->in, &id);
	g->b->n_functions++;
	g->b->n_inlined += calls.n_nodes - 1;
	return r;
}

void go_done(struct go *g)
{
	arena_done(&g->arena);
	free(g->nodes);
	free(g->relocs);
	budget_hold_track(g->memory, &g->held, 0);
}

int go_read(struct batch *b, const struct elf_image *img, const struct go_scope *scope, struct err *err)
{
	AUTO(go_done)
	struct go g = { .b = b,
			.img = img,
			.memory = b->memory,
			.kept = &b->in.arena,
			.budget = &b->row_budget,
			.big = img->h.big,
			.scope = scope,
			.arena.hold = b->memory };
	int r = go_table_find(&g, err);

	if (r)
		return r < 0 ? -1 : 0;
	if (go_head_read(&g, err) < 0 || go_places_find(&g, err) < 0)
		return -1;
	b->flags |= SYMTAB_HAS_GO | SYMTAB_HAS_LINES;
	b->row_budget = g.table.size * 16 + MIB(1);
	b->work->unit = UINT32_MAX;
	for (uint64_t i = 0; i < g.n_funcs; i++) {
		if (func_read(&g, i, err) < 0)
			return -1;
		if (i % ACCOUNT_FUNCTIONS == 0)
			batch_account(b);
		if (budget_hold_check(b->memory, err) < 0)
			return -1;
	}
	if (g.n_lost)
		return err_set(err, ERR_INVALID, "the calls inlined into %llu functions are not found",
			       (unsigned long long)g.n_lost);
	return 0;
}
