/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visible ranges to blocks: which code ranges and symbols are visible, the names that symbols give their parts, the
 * pieces that are written.
 */
#include "symtab/build.h"

#include <stdlib.h>

#define ALIASES_MAX 64u
/* Bytes of rows that may be repeated for parts of a function that have symbols of their own. */
#define PIECES_COST    KIB(64)
#define ACCOUNT_RANGES 64u /* the memory of so many may go uncounted */
#define SYMBOL_STEPS   8u

/* ---- names ---- */

/* The first symbol at or after @addr. Code is written in the order of addresses, so it is mostly near the one before. */
static size_t symbol_first(struct build *b, uint64_t addr)
{
	const struct symbol *list = b->symbols.list;
	size_t i = b->symbol_near, n = b->symbols.n;

	if (i && list[i - 1].start >= addr)
		i = SEARCH(0, i, k, list[k].start < addr);
	for (unsigned steps = 0; i < n && list[i].start < addr; i++)
		if (++steps > SYMBOL_STEPS) {
			i = SEARCH(i, n, k, list[k].start < addr);
			break;
		}
	b->symbol_near = i;
	return i;
}

/* The relation of a symbol's name to that of a function of DWARF. */
enum relation { RELATION_OTHER, RELATION_SAME, RELATION_CLONE };

static enum relation symbol_relation(struct str name, struct str base)
{
	if (str_eq(name, base))
		return RELATION_SAME;
	return base.size && str_starts(name, base) && name.p[base.size] == '.' ? RELATION_CLONE
									       : RELATION_OTHER;
}

/*
 * The linker's name of a function's code at @at if DWARF has another, and in *ret_to the end of the code, at most
 * @end, that has this name. 0: DWARF's name holds. Compilers and linkers put parts of a function elsewhere, or next
 * to one another, with symbols of their own: f.cold, f.isra.0, f.__part.1, f.cold.0. A symbol holds up to its end.
 * A symbol of any other name (an alias, identical code) counts only where the code starts, and if DWARF has no
 * linkage name.
 */
static uint32_t linkage_at(struct build *b, const struct code_range *p, uint64_t at, uint64_t end,
			   uint64_t *ret_to)
{
	struct intern *in = &b->batches[0]->in;
	const struct function_id *f = &in->functions[p->function];
	struct str base = in->strings[f->linkage ? f->linkage : f->name];
	const struct symbol *list = b->symbols.list, *found = NULL;
	enum relation relation = RELATION_OTHER;
	size_t next = symbol_first(b, at + 1);

	*ret_to = end;
	for (size_t i = next; i < b->symbols.n && list[i].start < end; i++)
		if (symbol_relation(list[i].name, base) != RELATION_OTHER) {
			*ret_to = list[i].start;
			break;
		}
	for (size_t i = next; i && next - i < ALIASES_MAX; i--) {
		const struct symbol *s = &list[i - 1];
		enum relation one = symbol_relation(s->name, base);

		if (found && s->start != found->start)
			break;
		if (one == RELATION_OTHER || (s->end > s->start && s->end <= at) || relation == RELATION_SAME)
			continue;
		/* An empty part has a symbol at the start of the next one: the one with a size has the code. */
		if (found && one == relation && s->end == s->start && found->end > at)
			continue;
		found = s;
		relation = one;
	}
	if (!found && at == p->start && !f->linkage) {
		size_t i = symbol_first(b, at);

		found = i < next ? &list[i] : NULL;
	}
	if (found && found->end > found->start)
		*ret_to = MIN(*ret_to, found->end);
	if (*ret_to <= at)
		*ret_to = end;
	return found && relation != RELATION_SAME ? intern_str(in, found->name, true) : 0;
}

/* ---- pieces ---- */

/*
 * A part that is visible in several places has its rows in each of them. Ordinary files have few of these; a
 * crafted file of one megabyte could become a table of a hundred. So the bytes of such copies are limited.
 */
struct repeat_budget {
	uint32_t last_range;
	uint64_t bytes, limit;
};

static uint64_t repeat_limit(const struct build *b)
{
	uint64_t limit = MIB(4);

	for (unsigned k = 0; k < b->n_batches; k++)
		limit += b->batches[k]->rows.size + (uint64_t)b->batches[k]->n_entries * 8;
	return limit;
}

/* Visible code of a function or of lines: the number of its first part, how many parts it has, its bounds. */
struct visible_function {
	size_t first, n_parts;
	uint64_t start, end, tail;
	struct repeat_budget *repeats;
};

static void rows_lose(struct build *b, uint64_t at)
{
	if (!b->n_rowless++)
		(void)err_set(&b->rowless_err, ERR_LIMIT,
			      "code at 0x%llx: no lines: they are repeated for more parts than a file of "
			      "this size may have",
			      (unsigned long long)at);
}

/* Write the piece of @f from v->start to v->end, part by part. */
static int blocks_write_piece(struct build *b, const struct visible_function *f, struct visible_range *v,
			      struct err *err)
{
	uint64_t start = v->start, end = v->end;
	size_t i = SEARCH(f->first, f->first + f->n_parts, k, b->ranges[k]->start <= start) - 1;

	for (; i < f->first + f->n_parts && b->ranges[i]->start < end; i++) {
		const struct code_range *p = b->ranges[i];
		const struct batch *batch = b->batches[p->batch];

		v->range = p;
		v->start = MAX(start, p->start);
		v->end = MIN(end, p->start + p->size);
		v->before = v->start - f->start;
		v->after = f->end - v->end;
		v->tail = v->after ? 0 : f->tail;
		v->entries = batch->entries + p->first_entry;
		v->more = batch->more ? batch->more + p->first_entry : NULL;
		v->rows = batch->rows.p ? batch->rows.p + p->rows_off : (const uint8_t *)"";
		if (v->start != p->start || i == f->repeats->last_range) {
			f->repeats->bytes += p->rows_size + (uint64_t)p->n_entries * 8;
			if (f->repeats->bytes > f->repeats->limit) {
				rows_lose(b, v->start);
				v->rows = NULL;
			}
		}
		f->repeats->last_range = (uint32_t)i;
		if (err_if_cancelled(b->o->cancel, err) < 0 || block_writer_add(b->blocks, v, err) < 0 ||
		    (i % ACCOUNT_RANGES == 0 && build_account(b, err) < 0))
			return -1;
	}
	return 0;
}

/* Whether the rows of @f may be repeated for its pieces, which have several names. The second one starts at @at. */
static bool pieces_fit(struct build *b, const struct visible_function *f, uint64_t at)
{
	const struct code_range *p = b->ranges[f->first];
	uint64_t cost = 0, to;
	size_t n = 1;

	for (size_t i = f->first; i < f->first + f->n_parts; i++)
		cost = MAX(cost, b->ranges[i]->rows_size + (uint64_t)b->ranges[i]->n_entries * 8);
	for (; at < f->end; at = to, n++) {
		linkage_at(b, p, at, f->end, &to);
		if (n * cost > PIECES_COST || f->repeats->bytes + n * cost > f->repeats->limit / 2)
			return false;
	}
	return true;
}

static int blocks_write_function(struct build *b, const struct visible_function *f, struct visible_range *v,
				 struct err *err)
{
	const struct code_range *p = b->ranges[f->first];
	uint64_t at = f->start, to = f->end;

	if (p->origin == SYMTAB_DWARF && !v->name)
		v->linkage = linkage_at(b, p, at, f->end, &to);
	/* If the rows may not be repeated, DWARF's name holds for all of the code. */
	if (to < f->end && !pieces_fit(b, f, to)) {
		v->linkage = 0;
		to = f->end;
	}
	for (;;) {
		v->start = at;
		v->end = to;
		if (blocks_write_piece(b, f, v, err) < 0)
			return -1;
		if (to == f->end)
			return 0;
		at = to;
		v->linkage = linkage_at(b, p, at, f->end, &to);
	}
}

int visible_write(struct build *b, struct err *err)
{
	struct intern *in = &b->batches[0]->in;
	AUTO(mem_freep) struct span *visible = NULL;
	struct repeat_budget repeats = { .last_range = UINT32_MAX, .limit = repeat_limit(b) };
	size_t n;

	if (build_account_overlaps(b, b->n_spans, err) < 0)
		return -1;
	n = overlaps_resolve(b->spans, b->n_spans, &visible);
	hidden_count(b, visible, n);
	/* The memory of `visible` takes the place of `spans`, in the account too. */
	mem_freep(&b->spans);
	mem_freep(&b->symbol_spans);
	b->n_symbol_spans = 0;
	b->room_spans = n;
	b->blocks = block_writer_new(in, &b->block_bytes, !b->o->no_columns);
	for (size_t i = 0; i < n; i++) {
		const struct candidate *c = &b->candidates[visible[i].what];
		const struct symbol *sym = c->symbol ? &b->symbols.list[c->symbol - 1] : NULL;
		struct visible_range out = { .start = visible[i].start, .end = visible[i].end };
		int r;

		/* A tail is written with the code range that it follows, below. Cut off from that, it is dropped. */
		if (c->tail)
			continue;
		if (err_if_cancelled(b->o->cancel, err) < 0 ||
		    (i % ACCOUNT_RANGES == 0 && build_account(b, err) < 0))
			return -1;
		if (sym)
			out.name = intern_str(in, sym->name, true);
		if (c->range) {
			struct visible_function f = { c->range - 1, c->n_parts, out.start,
						      out.end,      0,          &repeats };
			const struct code_range *last = b->ranges[f.first + f.n_parts - 1];

			out.origin = b->ranges[f.first]->origin;
			if (i + 1 < n && b->candidates[visible[i + 1].what].tail &&
			    b->candidates[visible[i + 1].what].range == c->range &&
			    visible[i + 1].start == out.end && out.end == last->start + last->size)
				f.tail = visible[i + 1].end - visible[i + 1].start;
			r = blocks_write_function(b, &f, &out, err);
		} else {
			out.origin = sym->origin;
			r = block_writer_add(b->blocks, &out, err);
		}
		if (r < 0)
			return -1;
	}
	return block_writer_finish(b->blocks, err);
}
