/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces made into blocks. A block has all that its answers need, names too, so that one read of it is
 * enough.
 */
#include "symtab/internal.h"

#include <stdlib.h>

/* Where something lies in the block at hand. */
struct local {
	uint32_t stamp, at;
};
struct locals {
	struct local *list;
	size_t room;
};

struct block_writer {
	struct intern *in;
	struct buf *out;
	bool columns;
	uint32_t stamp;
	struct locals strings_at, files_at, functions_at;
	/* The block at hand. */
	uint64_t first, last;
	uint32_t n_pieces, n_files;
	struct buf pieces, records, functions, files, strings;
	uint32_t *last_call; /* of entries: the line of the last call in them */
	size_t room_last_call;
	struct block_index *index;
	size_t n_blocks, room_blocks;
};

struct block_writer *block_writer_new(struct intern *in, struct buf *out, bool columns)
{
	struct block_writer *w = NEW(struct block_writer);

	w->in = in;
	w->out = out;
	w->columns = columns;
	return w;
}

void block_writer_free(struct block_writer *w)
{
	if (!w)
		return;
	free(w->strings_at.list);
	free(w->files_at.list);
	free(w->functions_at.list);
	buf_done(&w->pieces);
	buf_done(&w->records);
	buf_done(&w->functions);
	buf_done(&w->files);
	buf_done(&w->strings);
	free(w->last_call);
	free(w->index);
	free(w);
}

size_t block_writer_index(const struct block_writer *w, const struct block_index **ret)
{
	*ret = w->index;
	return w->n_blocks;
}

/* The slot of an id; true: it has a place in this block already. */
static bool local_at(struct block_writer *w, struct locals *l, uint32_t id, struct local **ret)
{
	if (id >= l->room) {
		size_t room = MAX((size_t)id + 1, l->room * 2);

		l->list = mem_realloc(l->list, room, sizeof(*l->list));
		memset(l->list + l->room, 0, (room - l->room) * sizeof(*l->list));
		l->room = room;
	}
	*ret = &l->list[id];
	if ((*ret)->stamp == w->stamp)
		return true;
	(*ret)->stamp = w->stamp;
	return false;
}

static uint32_t local_string(struct block_writer *w, uint32_t id)
{
	struct local *l;

	if (!id)
		return 0;
	if (!local_at(w, &w->strings_at, id, &l)) {
		l->at = (uint32_t)w->strings.size;
		buf_add_uleb(&w->strings, w->in->strings[id].size);
		buf_add_str(&w->strings, w->in->strings[id]);
	}
	return l->at;
}

static uint32_t local_file(struct block_writer *w, uint32_t id)
{
	const struct file_id *f = &w->in->files[id];
	struct local *l;

	if (!id)
		return 0;
	if (!local_at(w, &w->files_at, id, &l)) {
		l->at = ++w->n_files;
		buf_add_u32(&w->files, local_string(w, f->dir));
		buf_add_u32(&w->files, local_string(w, f->name));
	}
	return l->at;
}

static uint32_t local_function(struct block_writer *w, uint32_t id)
{
	const struct function_id *f = &w->in->functions[id];
	struct local *l;

	if (!id)
		return 0;
	if (!local_at(w, &w->functions_at, id, &l)) {
		uint32_t name = local_string(w, f->name), linkage = local_string(w, f->linkage),
			 file = local_file(w, f->file);

		l->at = (uint32_t)w->functions.size;
		buf_add_uleb(&w->functions, name);
		buf_add_uleb(&w->functions, linkage);
		buf_add_uleb(&w->functions, file);
		buf_add_uleb(&w->functions, f->line);
	}
	return l->at;
}

static void block_start(struct block_writer *w, uint64_t first)
{
	w->stamp++;
	w->first = w->last = first;
	w->n_pieces = w->n_files = 0;
	w->pieces.size = w->records.size = w->files.size = w->strings.size = w->functions.size = 0;
	buf_add_char(&w->strings, 0);
	for (int i = 0; i < 4; i++)
		buf_add_char(&w->functions, 0);
}

static void block_end(struct block_writer *w)
{
	struct block_index at = { .first = w->first, .last = w->last, .off = w->out->size };
	uint32_t off = BLOCK_HEAD;

	if (!w->n_pieces)
		return;
	buf_add_u32(w->out, w->n_pieces);
	off += (uint32_t)w->pieces.size;
	buf_add_u32(w->out, off);
	off += (uint32_t)w->records.size;
	buf_add_u32(w->out, off);
	off += (uint32_t)w->functions.size;
	buf_add_u32(w->out, off);
	off += (uint32_t)w->files.size;
	buf_add_u32(w->out, off);
	buf_add(w->out, w->pieces.p, w->pieces.size);
	buf_add(w->out, w->records.p, w->records.size);
	buf_add(w->out, w->functions.p, w->functions.size);
	buf_add(w->out, w->files.p, w->files.size);
	buf_add(w->out, w->strings.p, w->strings.size);
	at.size = (uint32_t)(w->out->size - at.off);
	at.check = (uint32_t)hash64(w->out->p + at.off, at.size, 0);
	GROW(w->index, w->n_blocks, w->room_blocks);
	w->index[w->n_blocks++] = at;
	w->n_pieces = 0;
}

static void add_signed(struct buf *b, int64_t v)
{
	buf_add_uleb(b, zigzag(v));
}

/* How the parent of entry @k is told. @call: the entry of the call before, 0: none. */
static uint8_t parent_code(uint32_t k, uint32_t parent, uint32_t parent_before)
{
	if (parent == k - 1)
		return ENTRY_PARENT_LAST;
	if (parent == parent_before)
		return ENTRY_PARENT_SAME;
	return parent ? ENTRY_PARENT_OTHER : ENTRY_PARENT_FIRST;
}

/* File, line and column that an entry's rows begin with. */
static void add_begin(struct block_writer *w, const struct entry *e, uint8_t head, int64_t line_base)
{
	if (!(head & ENTRY_DECL_FILE))
		buf_add_uleb(&w->records, local_file(w, e->file));
	add_signed(&w->records, e->passive == 1 ? 0 : (int64_t)e->line - line_base);
	if (w->columns)
		buf_add_uleb(&w->records, e->column);
}

static void add_entries(struct block_writer *w, const struct seen_piece *p, const struct function_id *f)
{
	struct buf *b = &w->records;
	const struct entry *list = p->entries;
	uint32_t n = p->piece->n_entries, parent_before = 0;
	uint8_t head;

	if (n > w->room_last_call) {
		w->room_last_call = n * 2;
		w->last_call = mem_realloc(w->last_call, w->room_last_call, sizeof(*w->last_call));
	}
	buf_add_uleb(b, n - 1);
	head = list[0].passive ? ENTRY_PASSIVE : 0;
	if (list[0].file == f->file || list[0].passive == 1)
		head |= ENTRY_DECL_FILE;
	buf_add_char(b, (char)head);
	add_begin(w, &list[0], head, f->line);
	w->last_call[0] = list[0].passive == 1 ? f->line : list[0].line;
	for (uint32_t k = 1; k < n; k++) {
		const struct entry *e = &list[k], *parent = &list[e->parent];
		const struct function_id *callee = &w->in->functions[e->function];
		/* A parent that has no rows itself has the file of its declaration. */
		uint32_t parent_file = parent->passive == 1
					       ? w->in->functions[e->parent ? parent->function : 0].file
					       : parent->file;

		if (parent->passive == 1 && !e->parent)
			parent_file = f->file;
		head = parent_code(k, e->parent, parent_before);
		if (e->other_file) {
			buf_add_char(b, (char)(head | ENTRY_OTHER_FILE));
			if ((head & ENTRY_PARENT) == ENTRY_PARENT_OTHER)
				buf_add_uleb(b, k - e->parent);
			buf_add_uleb(b, local_file(w, e->file));
			add_signed(b, (int64_t)e->line - (int64_t)w->last_call[e->parent]);
			if (w->columns)
				buf_add_uleb(b, e->column);
			w->last_call[k] = e->line;
			continue;
		}
		if (e->passive)
			head |= ENTRY_PASSIVE;
		if (e->file == callee->file || e->passive == 1)
			head |= ENTRY_DECL_FILE;
		if (e->call_file && e->call_file != parent_file)
			head |= ENTRY_CALL_FILE;
		if (e->call_column)
			head |= ENTRY_CALL_COLUMN;
		buf_add_char(b, (char)head);
		if ((head & ENTRY_PARENT) == ENTRY_PARENT_OTHER)
			buf_add_uleb(b, k - e->parent);
		buf_add_uleb(b, local_function(w, e->function));
		if (head & ENTRY_CALL_FILE)
			buf_add_uleb(b, local_file(w, e->call_file));
		add_signed(b, (int64_t)e->call_line - (int64_t)w->last_call[e->parent]);
		if (head & ENTRY_CALL_COLUMN)
			buf_add_uleb(b, e->call_column);
		add_begin(w, e, head, callee->line);
		w->last_call[e->parent] = e->call_line;
		w->last_call[k] = e->passive == 1 ? callee->line : e->line;
		parent_before = e->parent;
	}
	buf_add_uleb(b, p->piece->rows_size);
	buf_add(b, p->rows, p->piece->rows_size);
}

int block_writer_add(struct block_writer *w, const struct seen_piece *p, struct err *err)
{
	struct function_id f = { 0 };
	uint8_t flags = p->origin;
	struct buf *b = &w->records;

	if (w->n_pieces &&
	    (p->end - w->first > UINT32_MAX ||
	     w->pieces.size + w->records.size + w->functions.size + w->files.size + w->strings.size >
		     BLOCK_TARGET))
		block_end(w);
	if (!w->n_pieces)
		block_start(w, p->start);
	if (p->piece)
		f = w->in->functions[p->piece->function];
	if (p->name)
		f.name = p->name;
	if (p->linkage)
		f.linkage = p->linkage;
	buf_add_u32(&w->pieces, (uint32_t)(p->start - w->first));
	buf_add_u32(&w->pieces, (uint32_t)b->size);
	buf_add_uleb(b, p->end - p->start);
	if (p->rows)
		flags |= PIECE_ROWS;
	if (p->rows && p->start > p->piece->start)
		flags |= PIECE_SKIP;
	if (p->rows && p->tail)
		flags |= PIECE_TAIL;
	if (f.linkage)
		flags |= PIECE_LINKAGE;
	if (f.file || f.line)
		flags |= PIECE_DECL;
	buf_add_char(b, (char)flags);
	if (flags & PIECE_SKIP)
		buf_add_uleb(b, p->start - p->piece->start);
	if (flags & PIECE_TAIL)
		buf_add_uleb(b, p->tail);
	buf_add_uleb(b, local_string(w, f.name));
	if (flags & PIECE_LINKAGE)
		buf_add_uleb(b, local_string(w, f.linkage));
	if (flags & PIECE_DECL) {
		buf_add_uleb(b, local_file(w, f.file));
		buf_add_uleb(b, f.line);
	}
	if (p->rows)
		add_entries(w, p, &f);
	w->n_pieces++;
	w->last = p->end + (flags & PIECE_TAIL ? p->tail : 0);
	if (b->size > SYMTAB_MAX_BLOCK / 2 || w->strings.size > SYMTAB_MAX_BLOCK / 4)
		return err_set(err, ERR_LIMIT, "a function's table is over the %zu bytes allowed",
			       (size_t)SYMTAB_MAX_BLOCK / 2);
	return 0;
}

void block_writer_finish(struct block_writer *w)
{
	block_end(w);
}
