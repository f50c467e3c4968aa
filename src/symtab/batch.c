/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units to code ranges: contiguous code of one function, with the calls inlined into it and its rows, all in
 * ids of the batch. Code that only a line table describes becomes code ranges without a function.
 */
#include "symtab/batch.h"

#include <stdlib.h>

#define SKIPPED_MAX 1000u
/* Bytes of the shortest code that only a symbol names: thunks of C++ have two instructions. */
#define THUNK_MIN 4u

struct batch *batch_new(const struct dwarf *d, uint32_t index, const struct symtab_options *o,
			struct budget_hold *memory)
{
	struct batch *b = NEW(struct batch);

	b->dwarf = d;
	b->index = index;
	b->columns = !o->no_columns;
	b->discriminators = b->columns && o->discriminators;
	b->cancel = o->cancel;
	intern_init(&b->in);
	b->memory = b->in.arena.hold = memory;
	b->known.seed = b->known_files.seed = b->in.seed;
	b->work = NEW(struct unit_work);
	b->work->refs.seed = b->in.seed | 1;
	b->reader = d ? dwarf_reader_new(d) : NULL;
	if (b->reader && b->discriminators)
		dwarf_reader_discriminators(b->reader);
	return b;
}

void batch_account(struct batch *b)
{
	const struct intern *in = &b->in;
	const struct unit_work *w = b->work;
	uint64_t n = b->rows.room + b->room_ranges * sizeof(*b->ranges) +
		     b->room_entries * sizeof(*b->entries) + b->room_more * sizeof(*b->more);

	n += in->room_strings * sizeof(*in->strings) + in->room_files * sizeof(*in->files) +
	     in->room_functions * sizeof(*in->functions);
	n += (in->string_slots.n_slots + in->function_slots.n_slots) * sizeof(struct id_slot);
	n += (in->by_files.n_slots + b->known.n_slots + b->known_files.n_slots) * sizeof(struct quad_slot);
	if (w)
		n += w->room_files * sizeof(*w->files) + w->refs.n_slots * sizeof(*w->refs.slots) +
		     w->far_refs.n_slots * sizeof(*w->far_refs.slots) + w->room_names * sizeof(*w->names) +
		     w->room_nodes * sizeof(*w->nodes) + w->room_entries * sizeof(*w->entries) +
		     w->room_code * sizeof(*w->code) + w->room_keys * sizeof(*w->keys) +
		     w->room_open * sizeof(*w->open) + w->path.room;
	budget_hold_track(b->memory, &b->held, n);
}

void batch_end(struct batch *b, struct buf *room)
{
	struct unit_work *w = b->work;

	b->work = NULL;
	if (b->reader && room && !room->p)
		*room = dwarf_reader_take_room(b->reader);
	dwarf_reader_free(TAKE(b->reader));
	quad_map_done(&b->known);
	quad_map_done(&b->known_files);
	if (!w)
		return;
	free(w->files);
	id_map_done(&w->refs);
	quad_map_done(&w->far_refs);
	free(w->names);
	free(w->nodes);
	free(w->entries);
	free(w->code);
	free(w->keys);
	free(w->open);
	buf_done(&w->path);
	free(w);
	batch_account(b);
}

void batch_free(struct batch *b)
{
	if (!b)
		return;
	batch_end(b, NULL);
	budget_hold_track(b->memory, &b->held, 0);
	intern_done(&b->in);
	free(b->ranges);
	free(b->entries);
	free(b->more);
	buf_done(&b->rows);
	for (size_t i = 0; i < b->n_skipped && i < SKIPPED_MAX; i++)
		free(b->skipped[i].reason);
	free(b->skipped);
	free(b);
}

void batch_skip(struct batch *b, size_t unit, const struct err *why)
{
	b->flags |= SYMTAB_PARTIAL;
	if (b->n_skipped >= SKIPPED_MAX) {
		b->n_skipped++;
		return;
	}
	VEC_PUSH(b->skipped, b->n_skipped, b->room_skipped) = (struct skipped){
		unit, mem_printf(".debug_info: unit at %llu: %s",
				 (unsigned long long)dwarf_unit_off(b->dwarf, unit), why->text)
	};
}

/* List the descriptions of the unit that were left out: the first one with its reason, and how many more. */
static void unit_losses(struct batch *b, size_t unit)
{
	const struct dwarf_losses *l = dwarf_reader_losses(b->reader);
	struct err why;

	if (!l->n)
		return;
	if (l->n > 1)
		(void)err_set(&why, ERR_INVALID, "%s; %llu more in this unit", l->first.text,
			      (unsigned long long)(l->n - 1));
	batch_skip(b, unit, l->n > 1 ? &why : &l->first);
	b->n_more += l->n - 1;
}

int batch_damage(struct batch *b, const struct err *why, struct err *err)
{
	if (!err_is_input(why)) {
		*err = *why;
		return -1;
	}
	batch_skip(b, b->work->unit, why);
	return 0;
}

/* ---- units ---- */

/* Sort the code ranges of the unit's functions by their start, into w->keys: as numbers from the unit's first
 * on. Returns how many. */
static size_t ranges_taken(struct batch *b)
{
	struct unit_work *w = b->work;
	size_t n = 0;

	for (size_t i = w->first_range; i < b->n_ranges; i++)
		VEC_PUSH(w->keys, n, w->room_keys) = (struct sort_key){ b->ranges[i].start,
									i - w->first_range };
	sort_keys(w->keys, n);
	return n;
}

/* The code of the line table that no function covers, in rising order. */
struct line_gaps {
	struct batch *b;
	size_t n, next;          /* of w->keys: how many, and the first that may end after the address */
	struct code_range *last; /* the function's code range that ends at the address; NULL: none */
	bool after_calls;        /* calls outside of their function end at the address */
};

/* Whether a symbol begins to hold in [@at, @to). Also if it is not known. */
static bool may_have_symbol(const struct batch *b, uint64_t at, uint64_t to)
{
	size_t lo = SEARCH(0, b->n_symbol_spans, i, b->symbol_spans[i].start < at);

	return !b->symbol_spans || (lo < b->n_symbol_spans && b->symbol_spans[lo].start < to);
}

static int gap_make(struct line_gaps *g, uint64_t at, uint64_t to, struct err *err)
{
	struct code_range *last = g->last;
	struct batch *b = g->b;
	bool in_row;
	uint64_t start = MIN(to, lines_begin(b, at, &in_row));

	/* The rest of the row is code of the part of the function that these calls are in. */
	if (g->after_calls && in_row)
		start = at;
	g->after_calls = false;
	g->last = NULL; /* lines_make() may move the list */
	/* A function's last row covers the padding after it, which is no code of its own. */
	if (in_row && last && last->start + last->size == at) {
		last->tail = (uint32_t)MIN(start - at, (uint64_t)UINT32_MAX);
		/*
		 * It may also cover code that has a symbol and no function: thunks of C++ have the line of their target. They
		 * may be shorter than padding, and end where padding would. Without a symbol nothing is shown of it.
		 */
		if (start - at >= THUNK_MIN && may_have_symbol(b, at, start)) {
			size_t first = b->n_ranges;

			if (lines_make(b, at, start, err) < 0)
				return -1;
			for (size_t i = first; i < b->n_ranges; i++)
				b->ranges[i].from_symbol = true;
		}
	}
	return start < to ? lines_make(b, start, to, err) : 0;
}

static int gaps_make(struct line_gaps *g, uint64_t at, uint64_t end, struct err *err)
{
	const struct unit_work *w = g->b->work;

	while (at < end) {
		uint64_t to = end, own_start = UINT64_MAX, own_end = 0;

		for (; g->next < g->n; g->next++) {
			const struct sort_key *own = &w->keys[g->next];

			own_start = own->key;
			own_end = own_start + g->b->ranges[w->first_range + own->at].size;
			if (own_end > at)
				break;
		}
		if (g->next < g->n && own_start <= at) {
			g->last = &g->b->ranges[w->first_range + w->keys[g->next].at];
			g->after_calls = g->last->of_calls;
			if (g->after_calls)
				g->last = NULL;
			at = own_end;
			continue;
		}
		if (g->next < g->n)
			to = MIN(to, own_start);
		if (gap_make(g, at, to, err) < 0)
			return -1;
		at = to;
	}
	return 0;
}

/* Make code ranges of the lines that no function covers. */
static int unit_gaps(struct batch *b, struct err *err)
{
	const struct dwarf_lines *l = dwarf_reader_lines(b->reader);
	struct line_gaps g = { .b = b };
	uint64_t done = 0;

	if (l->shared)
		return 0;
	g.n = ranges_taken(b);
	for (size_t k = 0; k < l->n_sequences; k++) {
		if (gaps_make(&g, MAX(l->sequences[k].base, done), l->sequences[k].end, err) < 0)
			return -1;
		done = MAX(done, l->sequences[k].end);
	}
	return 0;
}

static int unit_function(void *arg, const struct dwarf_function *f, struct err *err)
{
	struct batch *b = arg;

	if (err_if_cancelled(b->cancel, err) < 0)
		return -1;
	if (++b->n_functions % ACCOUNT_FUNCTIONS == 0)
		batch_account(b);
	return function_make(b, f, err);
}

static int unit_run(struct batch *b, size_t unit, struct err *err)
{
	struct unit_work *w = b->work;
	struct err why = { 0 };
	int r = dwarf_reader_unit(b->reader, unit, &why);

	if (r > 0)
		return 0;
	w->unit = unit;
	w->first_range = b->n_ranges;
	w->first_entry = b->n_entries;
	names_begin(b);
	if (r == 0) {
		if (dwarf_reader_split_err(b->reader)->kind) {
			b->flags |= SYMTAB_SPLIT_MISSING;
			batch_skip(b, unit, dwarf_reader_split_err(b->reader));
		}
		b->row_budget += dwarf_reader_split_size(b->reader) * 16;
		if (dwarf_reader_lines_err(b->reader)->kind)
			batch_skip(b, unit, dwarf_reader_lines_err(b->reader));
		/* The functions before the damage are good. */
		if (dwarf_reader_walk(b->reader, unit_function, b, &why) < 0 &&
		    batch_damage(b, &why, err) < 0)
			return -1;
		why = (struct err){ 0 };
		r = unit_gaps(b, &why);
	}
	if (r < 0 && batch_damage(b, &why, err) < 0)
		return -1;
	if (names_look_up(b, err) < 0)
		return -1;
	unit_losses(b, unit);
	return 0;
}

int batch_run(struct batch *b, size_t first, size_t end, struct err *err)
{
	uint64_t bytes = 0, shared = dwarf_shared_size(b->dwarf);

	for (size_t i = first; i < end; i++)
		bytes += dwarf_unit_size(b->dwarf, i);
	/* Ordinary files need a small fraction of this. */
	dwarf_reader_budget(b->reader, bytes * 16 + shared * 4 + MIB(16));
	b->row_budget = bytes * 16 + shared * 4 + MIB(16);
	for (size_t i = first; i < end; i++) {
		if (err_if_cancelled(b->cancel, err) < 0 || unit_run(b, i, err) < 0)
			return -1;
		batch_account(b);
		/* Memory that is used up is no damage of a unit. */
		if (budget_hold_check(b->memory, err) < 0 ||
		    budget_hold_check(dwarf_memory(b->dwarf), err) < 0)
			return -1;
	}
	return 0;
}
