/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a code range's rows, for find.c, which reads the rest of the code range. format.h has the byte code.
 */
#pragma once

#include "symtab/read.h"

/*
 * An entry as it is read. Its lines count from the line of the function's declaration (with another file of a
 * call, the call's function). Few entries are asked for, and only those look their function up.
 */
struct read_entry {
	uint32_t parent, function;     /* function: in the block's functions */
	uint32_t file;                 /* unless it is that of the declaration */
	uint32_t line, last;           /* of its first row, and of the row read last */
	uint32_t call_file, call_line; /* call_line: counted from the line of the parent's declaration */
	uint64_t call_column, column;  /* column_with() */
	uint8_t head;
};

/* The call of an entry: its parent if it is another file of a call, otherwise itself. */
static inline uint32_t entry_call(const struct read_entry *entries, uint32_t entry)
{
	return entries[entry].head & ENTRY_OTHER_FILE ? entries[entry].parent : entry;
}

struct row_reader {
	/* Of the code range. To change them, set next_op to NULL. */
	struct read_entry *entries; /* with rows there is one at least */
	uint32_t n_entries;
	const uint8_t *ops, *end;
	bool columns;
	bool fresh; /* no row has been read: each entry's `last` is its `line` */
	/* The position: in the row [lo, hi), counted from the start of the rows. hi UINT32_MAX: up to the end. */
	const uint8_t *next_op; /* NULL: no position */
	uint32_t lo, hi;
	struct row_place at; /* its line counts as the entry's lines do */
	struct row_state st; /* of the next row */
};

/* Go to the row of @off. ROWS_MOVED: it is another row than before. -1: the rows are damaged. */
enum { ROWS_MOVED = 1 };
int rows_go(struct row_reader *r, uint32_t off);
static inline int rows_seek(struct row_reader *r, uint32_t off)
{
	return r->next_op && off >= r->lo && off < r->hi ? 0 : rows_go(r, off);
}
