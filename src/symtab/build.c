/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build a file's table, step by step: symbols, units to code ranges, the visible ranges of both, blocks, head.
 */
#include "symtab/build.h"

#include <stdlib.h>
#include "symtab/go.h"

#define ROOM_KEPT MIB(4) /* of the buffer of a unit's bytes */

static int table_finish(struct build *b, struct buf *out, struct symtab_stats *stats, struct err *err)
{
	AUTO(buf_done) struct buf head = { 0 };
	struct buf *all = &b->block_bytes;
	uint8_t *p;

	for (unsigned k = 0; k < b->n_batches; k++)
		b->flags |= b->batches[k]->flags;
	b->flags |= b->symbols.flags;
	if (b->dwarf)
		b->flags |= (dwarf_n_units(b->dwarf) ? SYMTAB_HAS_DWARF : 0) | SYMTAB_HAS_LINES;
	if (!b->o->no_columns)
		b->flags |= SYMTAB_HAS_COLUMNS | (b->o->discriminators ? SYMTAB_HAS_DISCRIMINATORS : 0);
	if (b->img->h.type == 1)
		b->flags |= SYMTAB_RELOCATABLE;
	if (b->o->alt)
		b->flags |= SYMTAB_ALT_APPLIED;
	if (build_head(b, &head, &stats->n_skipped, err) < 0)
		return -1;
	if (budget_hold_add(&b->memory, head.size, err) < 0)
		return -1;
	p = buf_try_reserve(all, head.size + TABLE_PAD);
	budget_hold_sub(&b->memory, head.size);
	if (!p)
		return err_set(err, ERR_LIMIT, "no memory for a table of %zu bytes", all->size);
	memset(p + head.size, 0, TABLE_PAD);
	/* Move them in place: a copy would touch as many pages again. */
	memmove(all->p + head.size, all->p, all->size);
	memcpy(all->p, head.p, head.size);
	all->size += head.size + TABLE_PAD;
	/* The caller may keep it for long, and it started in the buffer of a unit. */
	if (all->room / 2 > all->size) {
		all->p = mem_realloc(all->p, all->size, 1);
		all->room = all->size;
	}
	buf_done(out);
	*out = *all;
	*all = (struct buf){ 0 };
	return 0;
}

static void stats_count(const struct build *b, struct symtab_stats *s)
{
	const struct block_index *index;

	s->n_units = b->dwarf ? dwarf_n_units(b->dwarf) : 0;
	for (unsigned k = 0; k < b->n_batches; k++) {
		s->n_functions += b->batches[k]->n_functions;
		s->n_inlined += b->batches[k]->n_inlined;
		s->n_rows += b->batches[k]->n_rows;
	}
	s->n_symbols = b->symbols.n;
	s->n_ranges = b->n_ranges;
	s->hidden = b->hidden;
	s->n_blocks = block_writer_index(b->blocks, &index);
}

static void build_done(struct build *b)
{
	block_writer_free(b->blocks);
	buf_done(&b->block_bytes);
	units_free(b);
	free(b->chunks);
	free(b->candidates);
	free(b->spans);
	free(b->symbol_spans);
	symbols_done(&b->symbols);
	dwarf_close(b->dwarf);
	arena_done(&b->arena);
	budget_hold_done(&b->memory);
}

/* The addresses of DWARF's functions. */
static size_t dwarf_spans(const struct build *b, struct span **ret)
{
	AUTO(mem_freep) struct span *list = NULL;
	size_t n = 0, room = 0;

	for (unsigned k = 0; k < b->n_batches; k++)
		for (size_t i = 0; i < b->batches[k]->n_ranges; i++) {
			const struct code_range *p = &b->batches[k]->ranges[i];

			if (p->origin != SYMTAB_DWARF || p->of_calls)
				continue;
			VEC_PUSH(list, n, room) = (struct span){ .start = p->start,
								 .end = p->start + p->size };
		}
	return overlaps_resolve(list, n, ret);
}

static int build_read_go(struct build *b, struct err *err)
{
	const struct elf_image *img = b->o->program && go_in_program(b->img) ? b->o->program : b->img;
	struct go_scope scope = { .code = b->code, .n_code = b->n_code };
	AUTO(mem_freep) struct span *dwarf = NULL;

	scope.n_dwarf = dwarf_spans(b, &dwarf);
	scope.dwarf = dwarf;
	if (go_read(b->batches[0], img, &scope, &b->go_err) == 0)
		return 0;
	err_in(&b->go_err, "Go's table");
	if (err_is_input(&b->go_err))
		return 0;
	*err = b->go_err;
	return -1;
}

/* The table may take as much memory for a split file as for any other file. */
static void allow_split_file(struct budget_hold *memory, uint64_t size)
{
	uint64_t most = elf_held_max(UINT64_MAX), more = elf_held_max(size) - elf_held_max(0),
		 max = atomic_load(&memory->max);

	while (max < most && !atomic_compare_exchange_weak(&memory->max, &max, MIN(max + more, most)))
		;
}

static int open_split_file(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
			   struct err *err)
{
	struct build *b = arg;
	const struct dwarf_split *given = b->o->split;
	int r = given->open(given->arg, comp_dir, name, id, ret, err);

	if (r == 0)
		allow_split_file(&b->memory, (*ret)->size);
	return r;
}

/* A damaged .dwp counts as none. */
static int split_open(struct build *b, struct err *err)
{
	if (!b->dwarf || !b->o->split)
		return 0;
	b->split = *b->o->split;
	if (b->split.open) {
		b->split.open = open_split_file;
		b->split.arg = b;
	}
	if (dwarf_open_split(b->dwarf, &b->split, &b->split_err) == 0)
		return 0;
	err_in(&b->split_err, ".dwp");
	if (err_is_input(&b->split_err))
		return 0;
	*err = b->split_err;
	return -1;
}

/* Nothing was found: return the first damage, which may be the reason, else SYMTAB_NOTHING. */
static int nothing_end(const struct build *b, struct err *err)
{
	const struct err *whys[] = { &b->dwarf_err, &b->go_err,
				     b->symbols.n_damage ? &b->symbols.damage[0] : &b->dwarf_err };

	for (size_t i = 0; i < ARRAY_SIZE(whys); i++)
		if (whys[i]->kind) {
			*err = *whys[i];
			return -1;
		}
	return SYMTAB_NOTHING;
}

static int table_build(struct build *b, struct buf *out, struct symtab_stats *stats, struct err *err)
{
	int r = dwarf_open(b->img, b->o->alt, b->o->temp_dir, &b->dwarf, &b->dwarf_err);

	/* Symbols may be whole where the DWARF is not. */
	if (r < 0 && !err_is_input(&b->dwarf_err)) {
		*err = b->dwarf_err;
		return -1;
	}
	if (r >= 0)
		b->dwarf_err = (struct err){ 0 };
	if (split_open(b, err) < 0)
		return -1;
	b->n_code = dwarf_code(b->img, &b->arena, &b->code);
	b->symbols.memory = &b->memory;
	if (symbols_read(&b->symbols, b->img, b->o->program, b->code, b->n_code, err) < 0)
		return -1;
	r = units_read_only(b, err);
	if (r > 0) {
		symbols_resolve(b);
		r = units_read(b, err);
		if (r == 0) {
			r = build_read_go(b, err);
			units_collect(b);
		}
	}
	/* Also what Go's table was too large for: memory that is used up is no damage. */
	if (r < 0 || build_account(b, err) < 0)
		return -1;
	/* From here on other data takes as much memory: blocks start in the buffer of the units' bytes. */
	for (unsigned k = 0; k < b->n_batches; k++)
		batch_end(b->batches[k], &b->block_bytes);
	if (b->block_bytes.room > ROOM_KEPT)
		buf_done(&b->block_bytes);
	dwarf_close_code(b->dwarf);
	if (err_if_cancelled(b->o->cancel, err) < 0)
		return -1;
	if (!b->dwarf && !b->symbols.n && !b->n_ranges)
		return nothing_end(b, err);
	if (budget_hold_check(&b->memory, err) < 0 || build_account_overlaps(b, b->symbols.n, err) < 0)
		return -1;
	if (build_candidates(b, err) < 0 || visible_write(b, err) < 0 || table_finish(b, out, stats, err) < 0)
		return -1;
	stats_count(b, stats);
	return 0;
}

int symtab_build(const struct elf_image *img, const struct symtab_options *o, struct buf *out,
		 struct symtab_stats *ret_stats, struct err *err)
{
	const struct elf_image *const images[] = { img, o->program, o->alt, o->split ? o->split->dwp : NULL };
	struct build b = { .img = img, .o = o };
	uint64_t max = 0;
	int r;

	*ret_stats = (struct symtab_stats){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(images); i++)
		if (images[i]) {
			elf_hold_in(images[i], o->memory, o->disk);
			max += elf_held_max(images[i]->src->size);
		}
	budget_hold_init(&b.memory, NULL, BUDGET_TABLE);
	b.memory.outer = o->memory;
	b.memory.max = max;
	r = table_build(&b, out, ret_stats, err);
	build_done(&b);
	for (size_t i = 0; i < ARRAY_SIZE(images); i++)
		if (images[i])
			elf_hold_in(images[i], NULL, NULL);
	return r;
}
