/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build a file's table, step by step: units to code ranges, symbols, the visible ranges of both, blocks, head.
 *
 * Each thread takes chunks of units and has its own ids. Ids are not stored in the table, and overlapping code
 * ranges are ordered by their units, so the table does not depend on which thread read which unit.
 */
#include "symtab/build.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/sort.h"

/* Bytes of .debug_info. Each chunk has its own budget, so this must not depend on the number of threads. */
#define CHUNK_SIZE  MIB(8)
#define ALIASES_MAX 64u
/* Bytes of rows that may be repeated for parts of a function that have symbols of their own. */
#define PIECES_COST    KIB(64)
#define ACCOUNT_RANGES 64u /* the memory of so many may go uncounted */
#define SYMBOL_STEPS   8u
#define ROOM_KEPT      MIB(4) /* of the buffer of a unit's bytes */

/* ---- memory ---- */

/* Charge the lists of the build and the blocks. */
static int build_account(struct build *b, struct err *err)
{
	uint64_t n = b->n_ranges * sizeof(*b->ranges) + b->room_candidates * sizeof(*b->candidates) +
		     b->room_spans * sizeof(*b->spans) + b->n_symbol_spans * sizeof(*b->symbol_spans) +
		     b->room_chunks * sizeof(*b->chunks) + b->block_bytes.room;

	if (b->blocks)
		n += block_writer_room(b->blocks);
	budget_hold_track(&b->memory, &b->held, n);
	return budget_hold_check(&b->memory, err);
}

/* Whether the memory for resolving overlaps of @n spans is granted: sorted keys, a heap, the result. */
static int overlaps_account(struct build *b, uint64_t n, struct err *err)
{
	n *= sizeof(struct sort_key) + sizeof(struct span *) + 2 * sizeof(struct span);
	if (budget_hold_add(&b->memory, n, err) < 0)
		return -1;
	budget_hold_sub(&b->memory, n);
	return 0;
}

/* ---- units ---- */

static void chunk_add(struct build *b, size_t first, size_t end)
{
	VEC_PUSH(b->chunks, b->n_chunks, b->room_chunks) = (struct unit_chunk){ first, end };
}

static void chunks_cut(struct build *b)
{
	uint64_t bytes = 0, size = b->o->chunk_size ? b->o->chunk_size : CHUNK_SIZE;
	size_t first = 0, n = dwarf_n_units(b->dwarf);

	for (size_t i = 0; i < n; i++) {
		bytes += dwarf_unit_size(b->dwarf, i);
		if (bytes < size && i + 1 < n)
			continue;
		chunk_add(b, first, i + 1);
		first = i + 1;
		bytes = 0;
	}
}

struct unit_worker {
	struct build *b;
	struct batch *batch;
	pthread_t thread;
	bool started;
	int r;
	struct err err;
};

static void *batch_work(void *arg)
{
	struct unit_worker *w = arg;
	size_t i;

	while (w->r == 0 && (i = atomic_fetch_add(&w->b->next_chunk, 1)) < w->b->n_chunks)
		w->r = batch_run(w->batch, w->b->chunks[i].first, w->b->chunks[i].end, &w->err);
	return NULL;
}

static int units_run(struct build *b, struct err *err)
{
	AUTO(mem_freep) struct unit_worker *workers = NULL;
	unsigned n = MIN(MAX(b->o->n_threads, 1u), THREADS_MAX);
	int r = 0;

	if (!b->dwarf || !dwarf_threads(b->dwarf))
		n = 1;
	n = (unsigned)MAX(MIN((size_t)n, b->n_chunks), (size_t)1);
	b->n_batches = n;
	workers = mem_zalloc(n * sizeof(*workers));
	for (unsigned i = 0; i < n; i++) {
		b->batches[i] = batch_new(b->dwarf, i, b->o, &b->memory);
		workers[i].b = b;
		workers[i].batch = b->batches[i];
	}
	for (unsigned i = 1; i < n; i++)
		workers[i].started = pthread_create(&workers[i].thread, NULL, batch_work, &workers[i]) == 0;
	batch_work(&workers[0]);
	for (unsigned i = 0; i < n; i++) {
		if (workers[i].started)
			pthread_join(workers[i].thread, NULL);
		if (workers[i].r < 0 && r == 0) {
			*err = workers[i].err;
			r = -1;
		}
	}
	return r;
}

/* Replace the ids of all batches by those of the first one. */
static void ids_join(struct build *b)
{
	struct intern *in = &b->batches[0]->in;

	for (unsigned k = 1; k < b->n_batches; k++) {
		struct batch *one = b->batches[k];
		AUTO(mem_freep) uint32_t *strings = NEW_N(uint32_t, one->in.n_strings);
		AUTO(mem_freep) uint32_t *files = NEW_N(uint32_t, one->in.n_files);
		AUTO(mem_freep) uint32_t *functions = NEW_N(uint32_t, one->in.n_functions);

		for (size_t i = 0; i < one->in.n_strings; i++)
			strings[i] = intern_str(in, one->in.strings[i], true);
		for (size_t i = 0; i < one->in.n_files; i++)
			files[i] = i ? intern_file(in, strings[one->in.files[i].dir],
						   strings[one->in.files[i].name])
				     : 0;
		for (size_t i = 0; i < one->in.n_functions; i++) {
			struct function_id f = one->in.functions[i];

			f.name = strings[f.name];
			f.linkage = strings[f.linkage];
			f.file = files[f.file];
			functions[i] = intern_function(in, &f);
		}
		for (size_t i = 0; i < one->n_ranges; i++)
			one->ranges[i].function = functions[one->ranges[i].function];
		for (size_t i = 0; i < one->n_entries; i++) {
			struct range_entry *e = &one->entries[i];

			e->function = functions[e->function];
			e->file = files[e->file];
			e->call_file = files[e->call_file];
		}
	}
}

static int range_by_unit(const void *a, const void *b)
{
	const struct code_range *x = *(const struct code_range *const *)a,
				*y = *(const struct code_range *const *)b;

	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	/* Of one unit, so both are in one batch's array. */
	return x < y ? -1 : x > y;
}

static void ranges_collect(struct build *b)
{
	size_t n = 0;

	for (unsigned k = 0; k < b->n_batches; k++)
		b->n_ranges += b->batches[k]->n_ranges;
	b->ranges = NEW_N(const struct code_range *, b->n_ranges + 1);
	for (unsigned k = 0; k < b->n_batches; k++)
		for (size_t i = 0; i < b->batches[k]->n_ranges; i++)
			b->ranges[n++] = &b->batches[k]->ranges[i];
	if (b->n_batches > 1)
		qsort(b->ranges, n, sizeof(*b->ranges), range_by_unit);
}

/* ---- blocks ---- */

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
		if (one != RELATION_OTHER && (s->end == s->start || s->end > at) &&
		    relation != RELATION_SAME) {
			found = s;
			relation = one;
		}
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
			if (f->repeats->bytes > f->repeats->limit)
				v->rows = NULL;
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

static int blocks_write(struct build *b, struct err *err)
{
	struct intern *in = &b->batches[0]->in;
	AUTO(mem_freep) struct span *visible = NULL;
	struct repeat_budget repeats = { .last_range = UINT32_MAX, .limit = repeat_limit(b) };
	size_t n;

	if (overlaps_account(b, b->n_spans, err) < 0)
		return -1;
	n = overlaps_resolve(b->spans, b->n_spans, &visible);
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

/* ---- all of it ---- */

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
	s->n_blocks = block_writer_index(b->blocks, &index);
}

static int range_by_start(const void *a, const void *b)
{
	const struct code_range *x = *(const struct code_range *const *)a,
				*y = *(const struct code_range *const *)b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Whether every address asked for is in a function's code range. */
static bool only_found(const struct build *b)
{
	AUTO(mem_freep) const struct code_range **list = NEW_N(const struct code_range *, b->n_ranges + 1);
	size_t n = 0, i = 0, k = 0;

	for (; i < b->n_ranges; i++)
		if (b->ranges[i]->origin == SYMTAB_DWARF && !b->ranges[i]->of_calls)
			list[n++] = b->ranges[i];
	if (n)
		qsort(list, n, sizeof(*list), range_by_start);
	for (i = 0; i < b->o->n_only; i++) {
		/* After the padding there may be code that only a symbol names. */
		while (k < n &&
		       list[k]->start + list[k]->size + MIN(list[k]->tail, PADDING_END - 1) <= b->o->only[i])
			k++;
		if (k == n || list[k]->start > b->o->only[i])
			return false;
	}
	return true;
}

static void batches_free(struct build *b)
{
	for (unsigned k = 0; k < b->n_batches; k++)
		batch_free(b->batches[k]);
	free(b->ranges);
	b->ranges = NULL;
	b->n_batches = 0;
	b->n_ranges = b->n_chunks = 0;
	atomic_store(&b->next_chunk, 0);
}

static void build_done(struct build *b)
{
	block_writer_free(b->blocks);
	buf_done(&b->block_bytes);
	batches_free(b);
	free(b->chunks);
	free(b->candidates);
	free(b->spans);
	free(b->symbol_spans);
	symbols_done(&b->symbols);
	dwarf_close(b->dwarf);
	arena_done(&b->arena);
	budget_hold_done(&b->memory);
}

/* Read the units that .debug_aranges names. 1: that was not enough, and nothing is kept. */
static int units_run_only(struct build *b, struct err *err)
{
	AUTO(mem_freep) size_t *units = NULL;
	struct err ignored = { 0 };
	size_t n = 0;

	if (!b->o->only || !b->dwarf || b->img->h.type == 1 ||
	    dwarf_units_of(b->dwarf, b->o->only, b->o->n_only, &units, &n, &ignored) < 0 || !n)
		return 1;
	for (size_t i = 0; i < n; i++)
		chunk_add(b, units[i], units[i] + 1);
	if (units_run(b, err) < 0)
		return -1;
	ids_join(b);
	ranges_collect(b);
	b->some = only_found(b);
	if (b->some)
		return 0;
	batches_free(b);
	return 1;
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
	struct go_scope scope = { .code = b->code, .n_code = b->n_code };
	AUTO(mem_freep) struct span *dwarf = NULL;

	scope.n_dwarf = dwarf_spans(b, &dwarf);
	scope.dwarf = dwarf;
	if (go_read(b->batches[0], b->img, &scope, &b->go_err) == 0)
		return 0;
	err_in(&b->go_err, "Go's table");
	if (err_is_input(&b->go_err))
		return 0;
	*err = b->go_err;
	return -1;
}

/* A damaged .dwp counts as none. */
static int split_open(struct build *b, struct err *err)
{
	if (!b->dwarf || !b->o->split || dwarf_open_split(b->dwarf, b->o->split, &b->split_err) == 0)
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
	r = units_run_only(b, err);
	if (r > 0) {
		if (b->dwarf)
			chunks_cut(b);
		r = units_run(b, err);
		if (r == 0) {
			ids_join(b);
			r = build_read_go(b, err);
			ranges_collect(b);
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
	if (err_if_cancelled(b->o->cancel, err) < 0 ||
	    symbols_read(&b->symbols, b->img, b->code, b->n_code, err) < 0)
		return -1;
	if (!b->dwarf && !b->symbols.n && !b->n_ranges)
		return nothing_end(b, err);
	if (budget_hold_check(&b->memory, err) < 0 || overlaps_account(b, b->symbols.n, err) < 0)
		return -1;
	build_candidates(b);
	if (build_account(b, err) < 0 || blocks_write(b, err) < 0 || table_finish(b, out, stats, err) < 0)
		return -1;
	stats_count(b, stats);
	return 0;
}

int symtab_build(const struct elf_image *img, const struct symtab_options *o, struct buf *out,
		 struct symtab_stats *ret_stats, struct err *err)
{
	const struct elf_image *const images[] = { img, o->alt, o->split ? o->split->dwp : NULL };
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
	/* The sizes of .dwo files are not known yet. */
	b.memory.max = o->split && o->split->open ? elf_held_max(UINT64_MAX) : max;
	r = table_build(&b, out, ret_stats, err);
	build_done(&b);
	for (size_t i = 0; i < ARRAY_SIZE(images); i++)
		if (images[i])
			elf_hold_in(images[i], NULL, NULL);
	return r;
}
