/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An address to its frames.
 *
 * The block is found in the head's index, the piece in the block's, then the piece's rows are gone through up
 * to the one that the address lies in. Where we are is kept: the next address in the same row has the same
 * answer, and one further on goes on from there.
 */
#include "symtab/internal.h"

#include <stdlib.h>

#define ENTRIES_MAX  (DWARF_MAX_NODES + 1)
#define STRINGS_KEPT 64u
#define STRINGS_MAX  MIB(32) /* of what was read of them */

/*
 * An entry as it is read. Of most pieces few entries are asked for, so what hangs on the function (where it
 * is declared) is looked up for those alone: lines are counted from that of the declaration, which for
 * another file of a call is the call's.
 */
struct place {
	uint32_t parent, function;     /* function: in the block's functions */
	uint32_t file;                 /* unless it is that of the declaration */
	uint32_t line, last;           /* of its first row, and of the one that was read last */
	uint32_t call_file, call_line; /* call_line: counted from the parent's declaration */
	uint16_t call_column, column;
	uint8_t head;
};

struct symtab_finder {
	struct symtab *t;
	struct buf room;
	size_t block; /* SIZE_MAX: none */
	struct block b;
	/* Strings of the blocks asked last, and those of the block at hand. */
	struct strings_of {
		size_t block; /* + 1; 0: none */
		struct block_strings s;
	} kept[STRINGS_KEPT];
	struct block_strings *strings;
	/* The piece at hand. */
	uint32_t piece; /* UINT32_MAX: none */
	uint64_t start, end, skip;
	uint64_t tail; /* bytes behind end that have the last row, and no function */
	uint8_t flags;
	uint32_t name, linkage, decl_file, decl_line;
	struct place *places;
	uint32_t n_places, room_places;
	uint32_t *last_call;
	bool fresh; /* no row has been read: each place's `last` is its `line` */
	const uint8_t *rows, *rows_end, *next_op;
	/* The row that `frames` tell of, [lo, hi) from the piece's rows' begin, and what follows it. */
	struct row_state st; /* of the row that follows */
	uint32_t row_lo, row_hi;
	struct row_place at; /* its line is counted as the entry's lines are */
	bool have_frames;
	struct symtab_frame *frames;
	size_t n_frames, room_frames;
};

struct symtab_finder *symtab_finder_new(struct symtab *t)
{
	struct symtab_finder *f = NEW(struct symtab_finder);

	f->t = t;
	f->block = SIZE_MAX;
	f->piece = UINT32_MAX;
	return f;
}

void symtab_finder_free(struct symtab_finder *f)
{
	if (!f)
		return;
	buf_done(&f->room);
	for (size_t i = 0; i < STRINGS_KEPT; i++)
		block_strings_done(&f->kept[i].s);
	free(f->places);
	free(f->last_call);
	free(f->frames);
	free(f);
}

static int damaged(const struct symtab_finder *f, struct err *err)
{
	return err_set(err, ERR_INVALID, "block %zu: piece %u is damaged", f->block, f->piece);
}

/* ---- the block's tables ---- */

static struct str string_at(struct symtab_finder *f, uint32_t number)
{
	return block_string(f->strings, &f->b, number);
}

static void file_at(struct symtab_finder *f, uint32_t file, struct str *ret_dir, struct str *ret_name)
{
	const uint8_t *p;

	*ret_dir = *ret_name = (struct str){ 0 };
	if (!file || file > f->b.n_files)
		return;
	p = f->b.bytes.p + f->b.files + (size_t)(file - 1) * 8;
	*ret_dir = string_at(f, get32(p));
	*ret_name = string_at(f, get32(p + 4));
}

struct function {
	uint32_t name, linkage, file, line;
	uint32_t usual_line; /* where calls of it usually begin, from its line */
	uint16_t usual_column;
};

static struct function function_at(const struct symtab_finder *f, uint32_t off)
{
	const uint8_t *p = f->b.bytes.p + f->b.functions + off, *end = f->b.bytes.p + f->b.files;
	struct function ret = { 0 };
	uint64_t name;

	if (off >= f->b.files - f->b.functions)
		return ret;
	name = leb_u(&p, end);
	ret.name = (uint32_t)(name >> 1);
	if (name & 1)
		ret.linkage = (uint32_t)leb_u(&p, end);
	ret.file = (uint32_t)leb_u(&p, end);
	ret.line = (uint32_t)leb_u(&p, end);
	ret.usual_line = (uint32_t)unzigzag(leb_u(&p, end));
	if (f->t->info.flags & SYMTAB_HAS_COLUMNS)
		ret.usual_column = (uint16_t)leb_u(&p, end);
	return ret;
}

/* ---- a piece ---- */

/* Where the function of a place is declared. */
static uint32_t call_of(const struct symtab_finder *f, uint32_t place)
{
	return f->places[place].head & ENTRY_OTHER_FILE ? f->places[place].parent : place;
}

static struct function function_of(const struct symtab_finder *f, uint32_t call)
{
	if (call)
		return function_at(f, f->places[call].function);
	return (struct function){
		.name = f->name, .linkage = f->linkage, .file = f->decl_file, .line = f->decl_line
	};
}

/* The file of a place's rows. */
static uint32_t file_of(const struct symtab_finder *f, uint32_t place)
{
	const struct place *p = &f->places[place];

	return p->head & ENTRY_DECL_FILE && !(p->head & ENTRY_OTHER_FILE) ? function_of(f, place).file
									  : p->file;
}

static inline const uint8_t *begin_read(const uint8_t *p, const uint8_t *end, struct place *at, bool columns)
{
	if (!(at->head & ENTRY_DECL_FILE))
		at->file = (uint32_t)leb_u(&p, end);
	at->line = at->last = (uint32_t)unzigzag(leb_u(&p, end));
	if (columns)
		at->column = (uint16_t)leb_u(&p, end);
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

static int places_read(struct symtab_finder *f, const uint8_t *p, const uint8_t *end, struct err *err)
{
	uint64_t n = leb_u(&p, end) + 1, size;
	bool columns = f->t->info.flags & SYMTAB_HAS_COLUMNS;
	uint32_t before = 0, *last_call;
	struct place *list;

	/* Each entry takes two bytes at least. */
	if (p > end || n > ENTRIES_MAX || n - 1 > (uint64_t)(end - p) / 2 + 1)
		return damaged(f, err);
	if (n > f->room_places) {
		f->room_places = (uint32_t)n * 2;
		f->places = mem_realloc(f->places, f->room_places, sizeof(*f->places));
		f->last_call = mem_realloc(f->last_call, f->room_places, sizeof(*f->last_call));
	}
	list = f->places;
	last_call = f->last_call;
	f->n_places = (uint32_t)n;
	list[0] = (struct place){ .head = *p++ & (uint8_t)~ENTRY_OTHER_FILE };
	p = begin_read(p, end, &list[0], columns);
	last_call[0] = list[0].line;
	for (uint32_t k = 1; k < n; k++) {
		struct place *at = &list[k];

		if (p >= end)
			return damaged(f, err);
		*at = (struct place){ .head = *p++ };
		if (parent_read(&p, end, at->head, k, before, &at->parent) < 0)
			return damaged(f, err);
		/* It is another file of a call, not of another file of one. */
		if (at->head & ENTRY_OTHER_FILE) {
			at->parent = call_of(f, at->parent);
			at->file = (uint32_t)leb_u(&p, end);
			at->line = at->last = last_call[at->parent] + (uint32_t)unzigzag(leb_u(&p, end));
			if (columns)
				at->column = (uint16_t)leb_u(&p, end);
			continue;
		}
		at->parent = call_of(f, at->parent);
		at->function = (uint32_t)leb_u(&p, end);
		if (at->head & ENTRY_CALL_FILE)
			at->call_file = (uint32_t)leb_u(&p, end);
		at->call_line = last_call[at->parent] + (uint32_t)unzigzag(leb_u(&p, end));
		if (at->head & ENTRY_CALL_COLUMN)
			at->call_column = (uint16_t)leb_u(&p, end);
		if (at->head & ENTRY_USUAL) {
			struct function fn = function_at(f, at->function);

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
		return damaged(f, err);
	f->rows = p;
	f->rows_end = p + size;
	f->fresh = true;
	return 0;
}

static int piece_read(struct symtab_finder *f, uint32_t piece, struct err *err)
{
	const uint8_t *row = f->b.bytes.p + BLOCK_HEAD + (size_t)piece * 8, *p,
		      *end = f->b.bytes.p + f->b.functions;
	uint32_t off = get32(row + 4);
	uint64_t all;

	f->piece = piece;
	f->have_frames = false;
	if (off >= f->b.functions - f->b.records) {
		damaged(f, err);
		goto fail;
	}
	p = f->b.bytes.p + f->b.records + off;
	f->start = f->b.first + get32(row);
	f->end = f->start + leb_u(&p, end);
	f->flags = *p++;
	f->skip = f->flags & PIECE_SKIP ? leb_u(&p, end) : 0;
	f->tail = f->flags & PIECE_TAIL ? leb_u(&p, end) : 0;
	f->name = (uint32_t)leb_u(&p, end);
	f->linkage = f->flags & PIECE_LINKAGE ? (uint32_t)leb_u(&p, end) : 0;
	f->decl_file = f->decl_line = 0;
	if (f->flags & PIECE_DECL) {
		f->decl_file = (uint32_t)leb_u(&p, end);
		f->decl_line = (uint32_t)leb_u(&p, end);
	}
	if (p > end || f->end <= f->start || f->skip > f->start || add_overflows(f->end, f->tail, &all)) {
		damaged(f, err);
		goto fail;
	}
	f->n_places = 0;
	f->rows = f->rows_end = NULL;
	if (f->flags & PIECE_ROWS && places_read(f, p, end, err) < 0)
		goto fail;
	f->next_op = NULL;
	return 0;
fail:
	f->piece = UINT32_MAX;
	return -1;
}

/* ---- rows ---- */

/* How far on the next row begins, and its op. */
static const uint8_t *step_read(const uint8_t *p, const uint8_t *end, uint8_t *ret_op, uint32_t *ret_step)
{
	uint8_t op = *p++;
	uint32_t far = 0;

	if (op >= ROW_FAR) {
		if (op == ROW_STEP)
			*ret_step = (uint32_t)leb_u(&p, end);
		else
			far = (op - ROW_FAR + 1u) * ROW_STEPS;
		*ret_op = p < end ? *p : 0;
		if (op != ROW_STEP)
			*ret_step = *ret_op % ROW_STEPS + 1 + far;
		return *ret_op < ROW_FAR ? p + 1 : end + 1;
	}
	*ret_op = op;
	*ret_step = op % ROW_STEPS + 1;
	return p;
}

/*
 * Read ops up to the row that @off lies in, and the one behind it: it tells where that row ends. No op: it
 * ends at the end of all.
 */
static int rows_run(struct symtab_finder *f, uint32_t off, struct err *err)
{
	const uint8_t *p = f->next_op, *end = f->rows_end;
	bool columns = f->t->info.flags & SYMTAB_HAS_COLUMNS;
	struct place *places = f->places;
	struct row_state st = f->st;

	f->fresh = false;
	while (off >= f->row_hi) {
		struct row_place to = st.at;
		unsigned k = ROW_PLACES;
		int64_t line_step = 0;
		uint32_t step;
		uint8_t op;

		f->row_lo = f->row_hi;
		f->at = st.at;
		if (p >= end) {
			f->row_hi = UINT32_MAX;
			break;
		}
		p = step_read(p, end, &op, &step);
		op /= ROW_STEPS;
		if (op == ROW_NEW) {
			while (st.n_new < f->n_places && places[st.n_new].head & ENTRY_PASSIVE)
				st.n_new++;
			to.entry = st.n_new++;
		} else if (op < ROW_NEAR) {
			k = op - ROW_BACK;
			to = st.back[k];
		} else {
			if (op == ROW_PARENT)
				to.entry = places[call_of(f, st.at.entry)].parent;
			else if (op == ROW_BEFORE)
				to.entry = st.before;
			else if (op == ROW_ENTRY)
				to.entry = (uint32_t)leb_u(&p, end);
			line_step = op < ROW_LINE ? op - ROW_NEAR + ROW_NEAR_FIRST : unzigzag(leb_u(&p, end));
			if (columns)
				to.column = (uint16_t)leb_u(&p, end);
		}
		if (p > end || to.entry >= f->n_places || step > UINT32_MAX - 1 - st.addr)
			return damaged(f, err);
		if (op == ROW_NEW) {
			to.line = places[to.entry].line;
			to.column = places[to.entry].column;
		} else if (op >= ROW_NEAR) {
			to.line = places[to.entry].last + (uint32_t)line_step;
		}
		places[to.entry].last = to.line;
		row_state_go(&st, to, k);
		st.addr += step;
		f->row_hi = st.addr;
	}
	f->st = st;
	f->next_op = p;
	return 0;
}

static void rows_start(struct symtab_finder *f)
{
	/* Reading changes what the entries' lines are. */
	for (uint32_t i = 0; !f->fresh && i < f->n_places; i++)
		f->places[i].last = f->places[i].line;
	/* The first row begins at 0: it is as if one before it had ended there. */
	f->st = (struct row_state){ .n_new = 1,
				    .at = { .line = f->places[0].line, .column = f->places[0].column } };
	f->row_hi = 0;
	f->next_op = f->rows;
}

/* Go to the row that @off lies in. */
static int rows_seek(struct symtab_finder *f, uint32_t off, struct err *err)
{
	if (f->next_op && off >= f->row_lo && off < f->row_hi)
		return 0;
	f->have_frames = false;
	if (!f->next_op || off < f->row_lo)
		rows_start(f);
	return rows_run(f, off, err);
}

/* ---- frames ---- */

static struct symtab_frame *frame_add(struct symtab_finder *f, const struct function *fn, uint32_t file,
				      uint32_t line, uint32_t column)
{
	struct symtab_frame *frame;

	GROW(f->frames, f->n_frames, f->room_frames);
	frame = &f->frames[f->n_frames++];
	*frame = (struct symtab_frame){
		.name = string_at(f, fn->name),
		.linkage = fn->linkage ? string_at(f, fn->linkage) : (struct str){ 0 },
		.line = line,
		.column = column,
		.start_line = fn->line,
		.origin = f->flags & PIECE_ORIGIN,
	};
	file_at(f, file, &frame->dir, &frame->file);
	if (fn->file == file) {
		frame->start_file_dir = frame->dir;
		frame->start_file = frame->file;
	} else {
		file_at(f, fn->file, &frame->start_file_dir, &frame->start_file);
	}
	return frame;
}

static void frames_make(struct symtab_finder *f)
{
	uint32_t file = 0, line = 0, column = 0, at = 0;
	struct function fn;

	f->have_frames = true;
	f->n_frames = 0;
	if (f->n_places) {
		at = call_of(f, f->at.entry);
		file = file_of(f, f->at.entry);
		fn = function_of(f, at);
		line = fn.line + f->at.line;
		column = f->at.column;
		/* Parents stand before their children: this ends. */
		while (at && f->n_frames < SYMTAB_MAX_FRAMES) {
			const struct place *p = &f->places[at];

			frame_add(f, &fn, file, line, column)->inlined = true;
			file = p->head & ENTRY_CALL_FILE ? p->call_file : file_of(f, p->parent);
			fn = function_of(f, p->parent);
			line = fn.line + p->call_line;
			column = p->call_column;
			at = p->parent;
		}
	}
	fn = function_of(f, 0);
	frame_add(f, &fn, file, line, column);
}

/* ---- where it is ---- */

/* The last piece of the block that begins at or before @addr; it is where a search of rising addresses goes
 * on. */
static uint32_t piece_at(const struct symtab_finder *f, uint64_t addr)
{
	const uint8_t *pieces = f->b.bytes.p + BLOCK_HEAD;
	uint32_t lo = 0, hi = f->b.n_pieces;

	if (addr - f->b.first > UINT32_MAX)
		return hi - 1;
	addr -= f->b.first;
	if (f->piece != UINT32_MAX && get32(pieces + (size_t)f->piece * 8) <= addr) {
		/* Here, or one of the next. */
		lo = f->piece;
		for (unsigned step = 0; step < 4 && lo + 1 < hi; step++, lo++)
			if (get32(pieces + (size_t)(lo + 1) * 8) > addr)
				return lo;
	}
	lo = (uint32_t)SEARCH(lo, hi, i, get32(pieces + i * 8) <= addr);
	return lo ? lo - 1 : 0;
}

/* Who asks here and there comes back to the same blocks again and again. */
static void strings_go(struct symtab_finder *f, size_t block)
{
	struct strings_of *kept = &f->kept[block % STRINGS_KEPT];
	size_t bytes = 0;

	f->strings = &kept->s;
	if (kept->block == block + 1)
		return;
	for (size_t i = 0; i < STRINGS_KEPT; i++)
		bytes += f->kept[i].s.arena.size;
	for (size_t i = 0; i < STRINGS_KEPT && bytes > STRINGS_MAX; i++) {
		block_strings_done(&f->kept[i].s);
		f->kept[i].block = 0;
	}
	block_strings_start(&kept->s, &f->b);
	kept->block = block + 1;
}

static int go_to_block(struct symtab_finder *f, size_t block, struct err *err)
{
	if (block == f->block)
		return 0;
	f->block = SIZE_MAX;
	f->piece = UINT32_MAX;
	if (symtab_block(f->t, block, &f->room, &f->b, err) < 0)
		return -1;
	f->block = block;
	strings_go(f, block);
	return 0;
}

/* Behind the function: the line goes on, the function does not. */
static int answer_tail(struct symtab_finder *f, struct symtab_frames *ret, struct err *err)
{
	static const struct function nobody;
	uint64_t last = f->end - 1 - (f->start - f->skip);

	if (!f->n_places || last >= UINT32_MAX)
		return damaged(f, err);
	if (rows_seek(f, (uint32_t)last, err) < 0) {
		f->next_op = NULL;
		return -1;
	}
	f->have_frames = false;
	f->n_frames = 0;
	frame_add(f, &nobody, file_of(f, f->at.entry),
		  function_of(f, call_of(f, f->at.entry)).line + f->at.line, f->at.column)
		->origin = SYMTAB_LINES;
	ret->list = f->frames;
	ret->n = f->n_frames;
	ret->lo = ret->start = f->end;
	ret->hi = ret->end = f->end + f->tail;
	return 0;
}

static int answer(struct symtab_finder *f, uint64_t addr, struct symtab_frames *ret, struct err *err)
{
	uint64_t base = f->start - f->skip;

	if (addr >= f->end)
		return answer_tail(f, ret, err);
	ret->lo = f->start;
	ret->hi = f->end;
	if (f->n_places) {
		if (addr - base >= UINT32_MAX)
			return damaged(f, err);
		if (rows_seek(f, (uint32_t)(addr - base), err) < 0) {
			f->next_op = NULL;
			return -1;
		}
		ret->lo = MAX(ret->lo, base + f->row_lo);
		if (f->row_hi != UINT32_MAX)
			ret->hi = MIN(ret->hi, base + f->row_hi);
	}
	if (!f->have_frames)
		frames_make(f);
	ret->list = f->frames;
	ret->n = f->n_frames;
	ret->start = f->start;
	ret->end = f->end;
	return 0;
}

static int find(struct symtab_finder *f, uint64_t addr, bool or_next, struct symtab_frames *ret,
		struct err *err)
{
	size_t block;
	uint32_t piece;

	if (f->piece != UINT32_MAX && addr >= f->start && addr < f->end + f->tail)
		return answer(f, addr, ret, err);
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
		if (go_to_block(f, block, err) < 0)
			return -1;
		piece = addr < f->b.first ? 0 : piece_at(f, addr);
		if (piece != f->piece && piece_read(f, piece, err) < 0)
			return -1;
		if (addr >= f->start && addr < f->end + f->tail)
			return answer(f, addr, ret, err);
		if (!or_next)
			return SYMTAB_NONE;
		if (addr < f->start)
			return answer(f, f->start, ret, err);
		if (piece + 1 < f->b.n_pieces) {
			if (piece_read(f, piece + 1, err) < 0)
				return -1;
			return answer(f, f->start, ret, err);
		}
		if (++block >= f->t->n_blocks)
			return SYMTAB_NONE;
	}
}

int symtab_find(struct symtab_finder *f, uint64_t addr, struct symtab_frames *ret, struct err *err)
{
	return find(f, addr, false, ret, err);
}

int symtab_next(struct symtab_finder *f, uint64_t addr, struct symtab_frames *ret, struct err *err)
{
	return find(f, addr, true, ret, err);
}
