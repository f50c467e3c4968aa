/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An address to its frames.
 *
 * The head's index has the block, the block's index the code range, and the code range's rows are read up to
 * the row of the address. The finder keeps its position: the next address in the same row has the same answer,
 * and a higher one continues from there.
 */
#include "symtab/rows.h"

#include <stdlib.h>

#define ENTRIES_MAX (DWARF_MAX_NODES + 1)

struct symtab_finder {
	struct symtab *t;
	size_t block; /* SIZE_MAX: none */
	struct block b;
	struct strings_kept kept;
	struct block_strings *strings; /* the block's */
	struct budget_hold *memory;    /* NULL: no limit */
	struct err refused;            /* memory of names; kind ERR_NONE: none was */
	uint64_t held;                 /* of `memory`, by `last_call` and the entries */
	/* The code range at hand. */
	uint32_t range; /* UINT32_MAX: none */
	uint64_t start, end, skip;
	uint64_t tail;          /* bytes after `end` that have the last row, and no function */
	uint64_t before, after; /* bytes of the function in other parts */
	uint8_t flags, origin;
	uint32_t name, linkage, decl_file, decl_line;
	uint32_t room_entries, room_last_call;
	uint32_t *last_call; /* for each entry: the line of the last call in it */
	struct row_reader rows;
	bool have_frames; /* `frames` are those of the row that the reader is at */
	struct symtab_frame *frames;
	size_t n_frames, room_frames;
};

struct symtab_finder *symtab_finder_new(struct symtab *t)
{
	struct symtab_finder *f = NEW(struct symtab_finder);

	f->t = t;
	f->block = SIZE_MAX;
	f->range = UINT32_MAX;
	return f;
}

void symtab_finder_free(struct symtab_finder *f)
{
	if (!f)
		return;
	strings_kept_done(&f->kept);
	budget_hold_track(f->memory, &f->held, 0);
	free(f->rows.entries);
	free(f->last_call);
	free(f->frames);
	free(f);
}

void symtab_finder_set_memory(struct symtab_finder *f, struct budget_hold *hold)
{
	f->memory = hold;
	for (size_t i = 0; i < STRINGS_KEPT; i++) {
		f->kept.list[i].s.arena.hold = hold;
		f->kept.list[i].s.refused = &f->refused;
	}
}

/* The names of the last frames were not read. */
static int finder_refused(struct symtab_finder *f, struct err *err)
{
	*err = f->refused;
	f->refused = (struct err){ 0 };
	f->have_frames = false;
	return -1;
}

static int range_damaged(const struct symtab_finder *f, struct err *err)
{
	return err_set(err, ERR_INVALID, "block %zu: code range %u is damaged", f->block, f->range);
}

/* ---- the block's tables ---- */

static struct str finder_string(struct symtab_finder *f, uint32_t number)
{
	return block_string(f->strings, &f->b, number);
}

static void block_file(struct symtab_finder *f, uint32_t file, struct str *ret_dir, struct str *ret_name)
{
	const uint8_t *p;

	*ret_dir = *ret_name = (struct str){ 0 };
	if (!file || file > f->b.n_files)
		return;
	p = f->b.bytes.p + f->b.files + (size_t)(file - 1) * 8;
	*ret_dir = finder_string(f, get32(p));
	*ret_name = finder_string(f, get32(p + 4));
}

struct block_function {
	uint32_t name, linkage, file, line;
	uint32_t usual_line; /* where calls of it usually start, from its line */
	uint64_t usual_column;
};

static struct block_function block_function(const struct symtab_finder *f, uint32_t off)
{
	struct block_function ret = { 0 };
	const uint8_t *p, *end;
	uint64_t name;

	/* Also in a block without functions. */
	if (off >= f->b.files - f->b.functions)
		return ret;
	p = f->b.bytes.p + f->b.functions + off;
	end = f->b.bytes.p + f->b.files;
	name = leb_u(&p, end);
	ret.name = (uint32_t)(name >> 1);
	if (name & 1)
		ret.linkage = (uint32_t)leb_u(&p, end);
	ret.file = (uint32_t)leb_u(&p, end);
	ret.line = (uint32_t)leb_u(&p, end);
	ret.usual_line = (uint32_t)unzigzag(leb_u(&p, end));
	if (f->t->info.flags & SYMTAB_HAS_COLUMNS)
		ret.usual_column = leb_u(&p, end);
	return ret;
}

/* ---- a code range ---- */

static struct block_function entry_function(const struct symtab_finder *f, uint32_t call)
{
	if (call)
		return block_function(f, f->rows.entries[call].function);
	return (struct block_function){
		.name = f->name, .linkage = f->linkage, .file = f->decl_file, .line = f->decl_line
	};
}

/* The file of an entry's rows. */
static uint32_t entry_file(const struct symtab_finder *f, uint32_t entry)
{
	const struct read_entry *p = &f->rows.entries[entry];

	return p->head & ENTRY_DECL_FILE && !(p->head & ENTRY_OTHER_FILE) ? entry_function(f, entry).file
									  : p->file;
}

static inline const uint8_t *begin_read(const uint8_t *p, const uint8_t *end, struct read_entry *at,
					bool columns)
{
	if (!(at->head & ENTRY_DECL_FILE))
		at->file = (uint32_t)leb_u(&p, end);
	at->line = at->last = (uint32_t)unzigzag(leb_u(&p, end));
	if (columns)
		at->column = leb_u(&p, end);
	return p;
}

static int parent_read(const uint8_t **p, const uint8_t *end, uint8_t head, uint32_t k, uint32_t before,
		       uint32_t *ret)
{
	uint64_t back;

	switch (head & ENTRY_PARENT) {
	case ENTRY_PARENT_LAST:
		*ret = k - 1;
		return 0;
	case ENTRY_PARENT_SAME:
		*ret = before;
		return 0;
	case ENTRY_PARENT_FIRST:
		*ret = 0;
		return 0;
	}
	back = leb_u(p, end);
	*ret = (uint32_t)(k - back);
	return back && back <= k ? 0 : -1;
}

/* Make room for @n entries. */
static int entries_room(struct symtab_finder *f, size_t n, struct err *err)
{
	uint64_t need = n * (sizeof(*f->rows.entries) + sizeof(*f->last_call));

	/* It is allocated all at once, so it is granted before. */
	if (need > f->held && budget_hold_add(f->memory, need - f->held, err) < 0)
		return -1;
	f->held = MAX(f->held, need);
	VEC_RESERVE(f->rows.entries, 0, f->room_entries, n);
	VEC_RESERVE(f->last_call, 0, f->room_last_call, n);
	budget_hold_track(f->memory, &f->held,
			  f->room_entries * sizeof(*f->rows.entries) +
				  f->room_last_call * sizeof(*f->last_call));
	return 0;
}

static int entries_read(struct symtab_finder *f, const uint8_t *p, const uint8_t *end, struct err *err)
{
	uint64_t n = leb_u(&p, end) + 1, size;
	uint32_t before = 0, *last_call;
	struct read_entry *list;
	bool columns;

	/* Each entry takes two bytes at least. */
	if (p > end || n > ENTRIES_MAX || n - 1 > (uint64_t)(end - p) / 2 + 1)
		return range_damaged(f, err);
	if (entries_room(f, (size_t)n, err) < 0)
		return -1;
	list = f->rows.entries;
	last_call = f->last_call;
	f->rows.n_entries = (uint32_t)n;
	columns = *p & ENTRY_COLUMNS;
	list[0] = (struct read_entry){ .head = *p++ & (uint8_t)~ENTRY_OTHER_FILE };
	p = begin_read(p, end, &list[0], columns);
	last_call[0] = list[0].line;
	for (uint32_t k = 1; k < n; k++) {
		struct read_entry *at = &list[k];

		if (p >= end)
			return range_damaged(f, err);
		*at = (struct read_entry){ .head = *p++ };
		if (parent_read(&p, end, at->head, k, before, &at->parent) < 0)
			return range_damaged(f, err);
		/* It is another file of a call, so its parent must be a call, too. */
		if (at->head & ENTRY_OTHER_FILE) {
			at->parent = entry_call(f->rows.entries, at->parent);
			at->file = (uint32_t)leb_u(&p, end);
			at->line = at->last = last_call[at->parent] + (uint32_t)unzigzag(leb_u(&p, end));
			if (columns)
				at->column = leb_u(&p, end);
			continue;
		}
		at->parent = entry_call(f->rows.entries, at->parent);
		at->function = (uint32_t)leb_u(&p, end);
		if (at->head & ENTRY_CALL_FILE)
			at->call_file = (uint32_t)leb_u(&p, end);
		at->call_line = last_call[at->parent] + (uint32_t)unzigzag(leb_u(&p, end));
		if (at->head & ENTRY_CALL_COLUMN)
			at->call_column = leb_u(&p, end);
		if (at->head & ENTRY_USUAL) {
			struct block_function fn = block_function(f, at->function);

			at->head |= ENTRY_DECL_FILE;
			at->line = at->last = fn.usual_line;
			at->column = fn.usual_column;
		} else {
			p = begin_read(p, end, at, columns);
		}
		last_call[at->parent] = at->call_line;
		last_call[k] = at->line;
		before = at->parent;
	}
	size = leb_u(&p, end);
	if (p > end || size > (uint64_t)(end - p))
		return range_damaged(f, err);
	f->rows.ops = p;
	f->rows.end = p + size;
	f->rows.columns = columns;
	f->rows.fresh = true;
	return 0;
}

static int range_read(struct symtab_finder *f, uint32_t range, struct err *err)
{
	const uint8_t *row = f->b.bytes.p + BLOCK_HEAD + (size_t)range * 8, *p,
		      *end = f->b.bytes.p + f->b.functions;
	uint32_t off = get32(row + 4);
	uint64_t all;

	f->range = range;
	f->have_frames = false;
	if (off >= f->b.functions - f->b.records) {
		range_damaged(f, err);
		goto fail;
	}
	p = f->b.bytes.p + f->b.records + off;
	f->start = f->b.first + get32(row);
	f->end = f->start + leb_u(&p, end);
	f->flags = *p++;
	f->origin = f->flags & RANGE_ORIGIN;
	f->before = f->after = 0;
	if (f->origin == RANGE_PART) {
		f->origin = SYMTAB_DWARF;
		f->before = leb_u(&p, end);
		f->after = leb_u(&p, end);
	}
	f->skip = f->flags & RANGE_SKIP ? leb_u(&p, end) : 0;
	f->tail = f->flags & RANGE_TAIL ? leb_u(&p, end) : 0;
	f->name = (uint32_t)leb_u(&p, end);
	f->linkage = f->flags & RANGE_LINKAGE ? (uint32_t)leb_u(&p, end) : 0;
	f->decl_file = f->decl_line = 0;
	if (f->flags & RANGE_DECL) {
		f->decl_file = (uint32_t)leb_u(&p, end);
		f->decl_line = (uint32_t)leb_u(&p, end);
	}
	if (p > end || f->end <= f->start || f->skip > f->start || f->before > f->start ||
	    add_overflows(f->end, f->tail, &all) || add_overflows(f->end, f->after, &all)) {
		range_damaged(f, err);
		goto fail;
	}
	f->rows.n_entries = 0;
	f->rows.ops = f->rows.end = NULL;
	if (f->flags & RANGE_ROWS && entries_read(f, p, end, err) < 0)
		goto fail;
	f->rows.next_op = NULL;
	return 0;
fail:
	f->range = UINT32_MAX;
	return -1;
}

/* Go to the row of @off. */
static int finder_seek(struct symtab_finder *f, uint32_t off, struct err *err)
{
	int r = rows_seek(&f->rows, off);

	if (r)
		f->have_frames = false;
	return r < 0 ? range_damaged(f, err) : 0;
}

/* ---- frames ---- */

/* The rest of a frame, besides its function. */
struct frame_position {
	uint32_t file, line;
	uint64_t column; /* column_with() */
	bool inlined;
	uint8_t origin;
};

static void frame_add(struct symtab_finder *f, const struct block_function *fn,
		      const struct frame_position *at)
{
	struct symtab_frame *frame = &VEC_PUSH(f->frames, f->n_frames, f->room_frames);

	*frame = (struct symtab_frame){
		.name = finder_string(f, fn->name),
		.linkage = fn->linkage ? finder_string(f, fn->linkage) : (struct str){ 0 },
		.line = at->line,
		.column = (uint16_t)at->column,
		.discriminator = (uint32_t)(at->column >> 16),
		.start_line = fn->line,
		.inlined = at->inlined,
		.origin = at->origin,
	};
	block_file(f, at->file, &frame->dir, &frame->file);
	if (fn->file == at->file) {
		frame->start_file_dir = frame->dir;
		frame->start_file = frame->file;
	} else {
		block_file(f, fn->file, &frame->start_file_dir, &frame->start_file);
	}
}

static void frames_make(struct symtab_finder *f)
{
	struct frame_position place = { .origin = f->origin };
	struct block_function fn;
	uint32_t at = 0;

	f->have_frames = true;
	f->n_frames = 0;
	if (f->rows.n_entries) {
		at = entry_call(f->rows.entries, f->rows.at.entry);
		fn = entry_function(f, at);
		place.file = entry_file(f, f->rows.at.entry);
		place.line = fn.line + f->rows.at.line;
		place.column = f->rows.at.column;
		place.inlined = true;
		/* Parents come before their children, so this ends. */
		while (at && f->n_frames < SYMTAB_MAX_FRAMES) {
			const struct read_entry *p = &f->rows.entries[at];

			frame_add(f, &fn, &place);
			place.file = p->head & ENTRY_CALL_FILE ? p->call_file : entry_file(f, p->parent);
			fn = entry_function(f, p->parent);
			place.line = fn.line + p->call_line;
			place.column = p->call_column;
			at = p->parent;
		}
		place.inlined = false;
	}
	fn = entry_function(f, 0);
	frame_add(f, &fn, &place);
}

/* ---- the position ---- */

/* The last code range of the block that starts at or before @addr. Rising addresses are found without a
 * search. */
static uint32_t block_range_at(const struct symtab_finder *f, uint64_t addr)
{
	const uint8_t *ranges = f->b.bytes.p + BLOCK_HEAD;
	uint32_t lo = 0, hi = f->b.n_ranges;

	if (addr - f->b.first > UINT32_MAX)
		return hi - 1;
	addr -= f->b.first;
	if (f->range != UINT32_MAX && get32(ranges + (size_t)f->range * 8) <= addr) {
		/* The current one, or one of the next. */
		lo = f->range;
		for (unsigned step = 0; step < 4 && lo + 1 < hi; step++, lo++)
			if (get32(ranges + (size_t)(lo + 1) * 8) > addr)
				return lo;
	}
	lo = (uint32_t)SEARCH(lo, hi, i, get32(ranges + i * 8) <= addr);
	return lo ? lo - 1 : 0;
}

static int finder_go_block(struct symtab_finder *f, size_t block, struct err *err)
{
	if (block == f->block)
		return 0;
	f->block = SIZE_MAX;
	f->range = UINT32_MAX;
	if (symtab_block(f->t, block, &f->b, err) < 0)
		return -1;
	f->strings = strings_kept_of(&f->kept, block, &f->b);
	if (budget_hold_check(f->memory, err) < 0)
		return -1;
	f->block = block;
	return 0;
}

/* An address after the function: the line still holds, the function does not. */
static int answer_tail(struct symtab_finder *f, struct symtab_frames *ret, struct err *err)
{
	static const struct block_function none;
	uint64_t last = f->end - 1 - (f->start - f->skip);
	uint32_t call;

	if (!f->rows.n_entries || last >= UINT32_MAX)
		return range_damaged(f, err);
	if (finder_seek(f, (uint32_t)last, err) < 0)
		return -1;
	f->have_frames = false;
	f->n_frames = 0;
	call = entry_call(f->rows.entries, f->rows.at.entry);
	frame_add(f, &none,
		  &(struct frame_position){ .file = entry_file(f, f->rows.at.entry),
					    .line = entry_function(f, call).line + f->rows.at.line,
					    .column = f->rows.at.column,
					    .origin = SYMTAB_LINES });
	if (f->refused.kind)
		return finder_refused(f, err);
	ret->list = f->frames;
	ret->n = f->n_frames;
	ret->lo = ret->start = f->end;
	ret->hi = ret->end = f->end + f->tail;
	return 0;
}

static int finder_answer(struct symtab_finder *f, uint64_t addr, struct symtab_frames *ret, struct err *err)
{
	uint64_t base = f->start - f->skip;

	if (addr >= f->end)
		return answer_tail(f, ret, err);
	ret->lo = f->start;
	ret->hi = f->end;
	if (f->rows.n_entries) {
		if (addr - base >= UINT32_MAX)
			return range_damaged(f, err);
		if (finder_seek(f, (uint32_t)(addr - base), err) < 0)
			return -1;
		ret->lo = MAX(ret->lo, base + f->rows.lo);
		if (f->rows.hi != UINT32_MAX)
			ret->hi = MIN(ret->hi, base + f->rows.hi);
	}
	if (!f->have_frames)
		frames_make(f);
	if (f->refused.kind)
		return finder_refused(f, err);
	ret->list = f->frames;
	ret->n = f->n_frames;
	ret->start = f->start - f->before;
	ret->end = f->end + f->after;
	return 0;
}

static int finder_find(struct symtab_finder *f, uint64_t addr, bool or_next, struct symtab_frames *ret,
		       struct err *err)
{
	size_t block;
	uint32_t range;

	if (f->range != UINT32_MAX && addr >= f->start && addr < f->end + f->tail)
		return finder_answer(f, addr, ret, err);
	if (f->block != SIZE_MAX && addr >= f->b.first && addr < f->b.last)
		block = f->block;
	else
		block = symtab_block_at(f->t, addr);
	if (block == SIZE_MAX) {
		if (!or_next || !f->t->n_blocks)
			return SYMTAB_NONE;
		block = 0;
	}
	for (;;) {
		if (finder_go_block(f, block, err) < 0)
			return -1;
		range = addr < f->b.first ? 0 : block_range_at(f, addr);
		if (range != f->range && range_read(f, range, err) < 0)
			return -1;
		if (addr >= f->start && addr < f->end + f->tail)
			return finder_answer(f, addr, ret, err);
		if (!or_next)
			return SYMTAB_NONE;
		if (addr < f->start)
			return finder_answer(f, f->start, ret, err);
		if (range + 1 < f->b.n_ranges) {
			if (range_read(f, range + 1, err) < 0)
				return -1;
			return finder_answer(f, f->start, ret, err);
		}
		if (++block >= f->t->n_blocks)
			return SYMTAB_NONE;
	}
}

int symtab_find(struct symtab_finder *f, uint64_t addr, struct symtab_frames *ret, struct err *err)
{
	return finder_find(f, addr, false, ret, err);
}

int symtab_next(struct symtab_finder *f, uint64_t addr, struct symtab_frames *ret, struct err *err)
{
	return finder_find(f, addr, true, ret, err);
}
