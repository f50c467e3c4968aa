/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visible ranges to blocks. A block has all that its answers need, names too, so that one read of it is
 * enough.
 *
 * The ranges of a block are visited twice: to collect and number the strings, files and functions that they
 * need, and to be written.
 */
#include "symtab/build.h"

#include <stdlib.h>
#include "base/sort.h"

/* The index of an id in a list of the block at hand. */
struct block_local {
	uint32_t stamp, at;
};
struct block_locals {
	struct block_local *list;
	size_t room;
	uint32_t *ids; /* of the block */
	uint32_t n;
	size_t room_ids;
};

/* A called function: the offset of its record, and where calls of it usually start. */
struct called_function {
	uint32_t off;
	int64_t line;    /* from that of the declaration */
	uint64_t column; /* column_with() */
	bool usual;
};

#define SHARE_ALL   256u
#define SHARE_LEAST ((size_t)SHARE_ALL / 16) /* the next block may have strings of another kind */

struct block_writer {
	struct intern *in;
	struct buf *out;
	bool columns;
	uint32_t stamp;
	struct block_locals strings_at, files_at, functions_at;
	/* The block at hand. */
	uint64_t first, last;
	struct visible_range *list;
	size_t n_ranges, room_ranges, weight;
	size_t n_bytes; /* of its strings */
	size_t share; /* the part of them, of SHARE_ALL, that was left after compression in the block before */
	uint32_t *numbers; /* of strings, by their places in strings_at */
	struct called_function *called;
	size_t room_numbers, room_called;
	struct str *strings;
	size_t room_strings;
	struct buf ranges, records, functions;
	struct string_writer string_writer;
	uint32_t *last_call; /* for each entry: the line of the last call in it */
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
	w->stamp = 1;
	w->share = SHARE_ALL / 2;
	return w;
}

static void locals_done(struct block_locals *l)
{
	free(l->list);
	free(l->ids);
}

void block_writer_free(struct block_writer *w)
{
	if (!w)
		return;
	locals_done(&w->strings_at);
	locals_done(&w->files_at);
	locals_done(&w->functions_at);
	buf_done(&w->ranges);
	buf_done(&w->records);
	buf_done(&w->functions);
	string_writer_done(&w->string_writer);
	free(w->list);
	free(w->numbers);
	free(w->called);
	free(w->strings);
	free(w->last_call);
	free(w->index);
	free(w);
}

uint64_t block_writer_room(const struct block_writer *w)
{
	uint64_t n = w->room_ranges * sizeof(*w->list) + w->room_numbers * sizeof(*w->numbers) +
		     w->room_called * sizeof(*w->called) + w->room_strings * sizeof(*w->strings);

	n += (w->strings_at.room + w->files_at.room + w->functions_at.room) * sizeof(struct block_local);
	n += w->ranges.room + w->records.room + w->functions.room;
	n += w->string_writer.text.room + w->string_writer.groups.room;
	return n + w->room_last_call * sizeof(*w->last_call) + w->room_blocks * sizeof(*w->index);
}

size_t block_writer_index(const struct block_writer *w, const struct block_index **ret)
{
	*ret = w->index;
	return w->n_blocks;
}

/* ---- the ids of a block ---- */

/* True: the id is new in this block. *ret: its index. */
static bool local_add(struct block_writer *w, struct block_locals *l, uint32_t id, uint32_t *ret)
{
	struct block_local *at;

	if (id >= l->room) {
		size_t n = l->room;

		VEC_RESERVE(l->list, n, l->room, (size_t)id + 1 - n);
		memset(l->list + n, 0, (l->room - n) * sizeof(*l->list));
	}
	at = &l->list[id];
	*ret = at->at;
	if (at->stamp == w->stamp)
		return false;
	at->stamp = w->stamp;
	VEC_GROW(l->ids, l->n, l->room_ids);
	l->ids[l->n] = id;
	*ret = at->at = l->n++;
	return true;
}

static void block_add_string(struct block_writer *w, uint32_t id)
{
	uint32_t at;

	if (id && local_add(w, &w->strings_at, id, &at)) {
		size_t size = w->in->strings[id].size;

		w->n_bytes += size;
		w->weight += size * w->share / SHARE_ALL;
	}
}

static void block_add_file(struct block_writer *w, uint32_t id)
{
	uint32_t at;

	if (!id || !local_add(w, &w->files_at, id, &at))
		return;
	block_add_string(w, w->in->files[id].dir);
	block_add_string(w, w->in->files[id].name);
	w->weight += 8;
}

/* Entry @k's column, as it is written. */
static uint64_t entry_column(const struct visible_range *p, uint32_t k)
{
	return column_with(p->entries[k].column, p->more ? p->more[k].discriminator : 0);
}

static uint64_t entry_call_column(const struct visible_range *p, uint32_t k)
{
	return column_with(p->entries[k].call_column, p->more ? p->more[k].call_discriminator : 0);
}

static bool call_is_usual(const struct visible_range *p, uint32_t k, const struct function_id *f,
			  const struct called_function *c)
{
	const struct range_entry *e = &p->entries[k];

	return e->file == f->file && (int64_t)e->line - f->line == c->line && entry_column(p, k) == c->column;
}

/* Add the function that entry @k calls. */
static void block_add_function(struct block_writer *w, const struct visible_range *p, uint32_t k)
{
	const struct range_entry *e = &p->entries[k];
	const struct function_id *f = &w->in->functions[e->function];
	uint32_t at;

	if (!e->function)
		return;
	if (local_add(w, &w->functions_at, e->function, &at)) {
		block_add_string(w, f->name);
		block_add_string(w, f->linkage);
		block_add_file(w, f->file);
		VEC_GROW(w->called, at, w->room_called);
		w->called[at] = (struct called_function){ 0 };
		w->weight += 8;
	}
	if (!w->called[at].usual && e->passive != 1 && e->file == f->file)
		w->called[at] = (struct called_function){ .line = (int64_t)e->line - f->line,
							  .column = entry_column(p, k),
							  .usual = true };
}

static struct function_id range_function_id(const struct block_writer *w, const struct visible_range *p)
{
	struct function_id f = { 0 };

	if (p->range)
		f = w->in->functions[p->range->function];
	if (p->name)
		f.name = p->name;
	if (p->linkage)
		f.linkage = p->linkage;
	return f;
}

static void block_add_range(struct block_writer *w, const struct visible_range *p)
{
	struct function_id f = range_function_id(w, p);

	block_add_string(w, f.name);
	block_add_string(w, f.linkage);
	block_add_file(w, f.file);
	w->weight += 16;
	for (uint32_t i = 0; p->rows && i < p->range->n_entries; i++) {
		const struct range_entry *e = &p->entries[i];

		block_add_file(w, e->file);
		block_add_file(w, e->call_file);
		block_add_function(w, p, i);
		w->weight += 5;
	}
	w->weight += p->rows ? p->range->rows_size : 0;
}

static uint32_t local_index(const struct block_locals *l, uint32_t id)
{
	return l->list[id].at;
}

static uint32_t local_string(const struct block_writer *w, uint32_t id)
{
	return id ? w->numbers[local_index(&w->strings_at, id)] : 0;
}

static uint32_t local_file(const struct block_writer *w, uint32_t id)
{
	return id ? local_index(&w->files_at, id) + 1 : 0;
}

/* ---- strings ---- */

struct numbered_text {
	struct str s;
	uint32_t at;
};

static int text_by_bytes(const void *a, const void *b)
{
	const struct numbered_text *x = a, *y = b;

	return str_cmp(x->s, y->s);
}

/* The first bytes as a number that sorts like them. */
static uint64_t string_prefix(struct str s)
{
	uint64_t v = 0;

	if (s.size)
		memcpy(&v, s.p, MIN(s.size, sizeof(v)));
	return be64toh(v);
}

/* Sort the block's strings, and number them in that order. */
static void strings_number(struct block_writer *w)
{
	size_t n = w->strings_at.n, first = 0;
	AUTO(mem_freep) struct sort_key *keys = NEW_N(struct sort_key, n + 1);
	AUTO(mem_freep) struct numbered_text *texts = NEW_N(struct numbered_text, n + 1);

	VEC_RESERVE(w->strings, 0, w->room_strings, n);
	VEC_RESERVE(w->numbers, 0, w->room_numbers, n);
	for (size_t i = 0; i < n; i++)
		keys[i] = (struct sort_key){ string_prefix(w->in->strings[w->strings_at.ids[i]]), i };
	sort_keys(keys, n);
	for (size_t i = 0; i < n; i++) {
		texts[i] = (struct numbered_text){ w->in->strings[w->strings_at.ids[keys[i].at]],
						   (uint32_t)keys[i].at };
		if (i + 1 < n && keys[i + 1].key == keys[i].key)
			continue;
		SORT(texts + first, i + 1 - first, text_by_bytes);
		first = i + 1;
	}
	for (size_t i = 0; i < n; i++) {
		w->strings[i] = texts[i].s;
		w->numbers[texts[i].at] = (uint32_t)i + 1;
	}
}

/* ---- records ---- */

static void buf_add_zigzag(struct buf *b, int64_t v)
{
	buf_add_uleb(b, zigzag(v));
}

/* How the parent of entry @k is written. @parent_before: the parent of the call before, 0: none. */
static uint8_t parent_code(uint32_t k, uint32_t parent, uint32_t parent_before)
{
	if (parent == k - 1)
		return ENTRY_PARENT_LAST;
	if (parent == parent_before)
		return ENTRY_PARENT_SAME;
	return parent ? ENTRY_PARENT_OTHER : ENTRY_PARENT_FIRST;
}

/* Write the file, line and column of an entry's first row. */
static void write_begin(struct block_writer *w, const struct visible_range *p, uint32_t k, uint8_t head,
			int64_t line_base)
{
	const struct range_entry *e = &p->entries[k];

	if (head & ENTRY_USUAL)
		return;
	if (!(head & ENTRY_DECL_FILE))
		buf_add_uleb(&w->records, local_file(w, e->file));
	buf_add_zigzag(&w->records, e->passive == 1 ? 0 : (int64_t)e->line - line_base);
	if (p->range->columns)
		buf_add_uleb(&w->records, entry_column(p, k));
}

static void write_entries(struct block_writer *w, const struct visible_range *p, const struct function_id *f)
{
	static const struct called_function unknown;
	struct buf *b = &w->records;
	const struct range_entry *list = p->entries;
	uint32_t n = p->range->n_entries, parent_before = 0;
	uint8_t head;

	VEC_RESERVE(w->last_call, 0, w->room_last_call, n);
	buf_add_uleb(b, n - 1);
	head = list[0].passive ? ENTRY_PASSIVE : 0;
	if (list[0].file == f->file || list[0].passive == 1)
		head |= ENTRY_DECL_FILE;
	if (p->range->columns)
		head |= ENTRY_COLUMNS;
	buf_add_char(b, (char)head);
	write_begin(w, p, 0, head, f->line);
	w->last_call[0] = list[0].passive == 1 ? f->line : list[0].line;
	for (uint32_t k = 1; k < n; k++) {
		const struct range_entry *e = &list[k], *parent = &list[e->parent];
		const struct function_id *callee = &w->in->functions[e->function];
		const struct called_function *called = &unknown;
		/* A parent without rows of its own has the file of its declaration. */
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
			buf_add_zigzag(b, (int64_t)e->line - (int64_t)w->last_call[e->parent]);
			if (p->range->columns)
				buf_add_uleb(b, entry_column(p, k));
			w->last_call[k] = e->line;
			continue;
		}
		if (e->passive)
			head |= ENTRY_PASSIVE;
		if (e->file == callee->file || e->passive == 1)
			head |= ENTRY_DECL_FILE;
		if (e->call_file && e->call_file != parent_file)
			head |= ENTRY_CALL_FILE;
		if (entry_call_column(p, k))
			head |= ENTRY_CALL_COLUMN;
		if (e->function)
			called = &w->called[local_index(&w->functions_at, e->function)];
		/* An entry without rows starts anywhere. */
		if (e->passive == 1 || call_is_usual(p, k, callee, called))
			head |= ENTRY_USUAL;
		buf_add_char(b, (char)head);
		if ((head & ENTRY_PARENT) == ENTRY_PARENT_OTHER)
			buf_add_uleb(b, k - e->parent);
		buf_add_uleb(b, called->off);
		if (head & ENTRY_CALL_FILE)
			buf_add_uleb(b, local_file(w, e->call_file));
		buf_add_zigzag(b, (int64_t)e->call_line - (int64_t)w->last_call[e->parent]);
		if (head & ENTRY_CALL_COLUMN)
			buf_add_uleb(b, entry_call_column(p, k));
		write_begin(w, p, k, head, callee->line);
		w->last_call[e->parent] = e->call_line;
		w->last_call[k] = head & ENTRY_USUAL ? (uint32_t)(callee->line + called->line) : e->line;
		parent_before = e->parent;
	}
	buf_add_uleb(b, p->range->rows_size);
	buf_add(b, p->rows, p->range->rows_size);
}

static void block_write_range(struct block_writer *w, const struct visible_range *p)
{
	struct function_id f = range_function_id(w, p);
	bool part = p->before || p->after;
	uint8_t flags = part ? RANGE_PART : p->origin;
	struct buf *b = &w->records;

	buf_add_u32(&w->ranges, (uint32_t)(p->start - w->first));
	buf_add_u32(&w->ranges, (uint32_t)b->size);
	buf_add_uleb(b, p->end - p->start);
	if (p->rows)
		flags |= RANGE_ROWS;
	if (p->rows && p->start > p->range->start)
		flags |= RANGE_SKIP;
	if (p->rows && p->tail)
		flags |= RANGE_TAIL;
	if (f.linkage)
		flags |= RANGE_LINKAGE;
	if (f.file || f.line)
		flags |= RANGE_DECL;
	buf_add_char(b, (char)flags);
	if (part) {
		buf_add_uleb(b, p->before);
		buf_add_uleb(b, p->after);
	}
	if (flags & RANGE_SKIP)
		buf_add_uleb(b, p->start - p->range->start);
	if (flags & RANGE_TAIL)
		buf_add_uleb(b, p->tail);
	buf_add_uleb(b, local_string(w, f.name));
	if (flags & RANGE_LINKAGE)
		buf_add_uleb(b, local_string(w, f.linkage));
	if (flags & RANGE_DECL) {
		buf_add_uleb(b, local_file(w, f.file));
		buf_add_uleb(b, f.line);
	}
	if (p->rows)
		write_entries(w, p, &f);
}

static void block_write_functions(struct block_writer *w)
{
	struct buf *b = &w->functions;

	/* Offset 0: the unknown function. */
	for (int i = 0; i < 4 + w->columns; i++)
		buf_add_char(b, 0);
	for (uint32_t i = 0; i < w->functions_at.n; i++) {
		const struct function_id *f = &w->in->functions[w->functions_at.ids[i]];
		struct called_function *c = &w->called[i];

		c->off = (uint32_t)b->size;
		buf_add_uleb(b, (uint64_t)local_string(w, f->name) << 1 | (f->linkage != 0));
		if (f->linkage)
			buf_add_uleb(b, local_string(w, f->linkage));
		buf_add_uleb(b, local_file(w, f->file));
		buf_add_uleb(b, f->line);
		buf_add_zigzag(b, c->line);
		if (w->columns)
			buf_add_uleb(b, c->column);
	}
}

/* ---- blocks ---- */

static int block_too_large(struct err *err)
{
	return err_set(err, ERR_LIMIT, "a function's table is over the %zu bytes allowed",
		       (size_t)SYMTAB_MAX_BLOCK / 2);
}

int block_writer_finish(struct block_writer *w, struct err *err)
{
	struct block_index at = { .first = w->first, .last = w->last, .off = w->out->size };
	struct buf *out = w->out;
	uint64_t off = BLOCK_HEAD;
	size_t packed;

	if (!w->n_ranges)
		return 0;
	w->ranges.size = w->records.size = w->functions.size = 0;
	strings_number(w);
	block_write_functions(w);
	for (size_t i = 0; i < w->n_ranges; i++) {
		block_write_range(w, &w->list[i]);
		if (w->records.size > SYMTAB_MAX_BLOCK / 2)
			return block_too_large(err);
	}
	buf_add_u32(out, (uint32_t)w->n_ranges);
	off += w->ranges.size;
	buf_add_u32(out, (uint32_t)off);
	off += w->records.size;
	buf_add_u32(out, (uint32_t)off);
	off += w->functions.size;
	buf_add_u32(out, (uint32_t)off);
	off += (uint64_t)w->files_at.n * 8;
	buf_add_u32(out, (uint32_t)off);
	buf_add_u32(out, w->strings_at.n);
	buf_add(out, w->ranges.p, w->ranges.size);
	buf_add(out, w->records.p, w->records.size);
	buf_add(out, w->functions.p, w->functions.size);
	for (uint32_t i = 0; i < w->files_at.n; i++) {
		const struct file_id *f = &w->in->files[w->files_at.ids[i]];

		buf_add_u32(out, local_string(w, f->dir));
		buf_add_u32(out, local_string(w, f->name));
	}
	packed = out->size;
	block_strings_write(&w->string_writer, out, w->strings, w->strings_at.n);
	packed = out->size - packed;
	if (w->n_bytes)
		w->share = MAX(MIN(packed * SHARE_ALL / w->n_bytes, (size_t)SHARE_ALL), SHARE_LEAST);
	if (out->size - at.off > SYMTAB_MAX_BLOCK)
		return block_too_large(err);
	at.size = (uint32_t)(out->size - at.off);
	at.check = (uint32_t)hash64(out->p + at.off, at.size, 0);
	VEC_PUSH(w->index, w->n_blocks, w->room_blocks) = at;
	w->n_ranges = w->weight = w->n_bytes = 0;
	w->strings_at.n = w->files_at.n = w->functions_at.n = 0;
	w->stamp++;
	return 0;
}

int block_writer_add(struct block_writer *w, const struct visible_range *p, struct err *err)
{
	if (w->n_ranges && (p->end - w->first > UINT32_MAX || w->weight > BLOCK_TARGET) &&
	    block_writer_finish(w, err) < 0)
		return -1;
	if (!w->n_ranges)
		w->first = p->start;
	block_add_range(w, p);
	VEC_PUSH(w->list, w->n_ranges, w->room_ranges) = *p;
	w->last = p->end + (p->rows ? p->tail : 0);
	return 0;
}
