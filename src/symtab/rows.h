/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a code range's rows, for find.c, which reads the code range. The byte code is in internal.h.
 */
#pragma once

#include "symtab/internal.h"

/*
 * An entry as it is read. Of most code ranges few entries are asked for, so what hangs on the function (where it
 * is declared) is looked up for those alone: lines are counted from that of the declaration, which for
 * another file of a call is the call's.
 */
struct read_entry {
	uint32_t parent, function;     /* function: in the block's functions */
	uint32_t file;                 /* unless it is that of the declaration */
	uint32_t line, last;           /* of its first row, and of the one that was read last */
	uint32_t call_file, call_line; /* call_line: counted from the parent's declaration */
	uint64_t call_column, column;  /* column_with() */
	uint8_t head;
};

/* The call that a place belongs to: it stands in another file of it, or is it. */
static inline uint32_t entry_call(const struct read_entry *entries, uint32_t entry)
{
	return entries[entry].head & ENTRY_OTHER_FILE ? entries[entry].parent : entry;
}

struct row_reader {
	/* The code range's; whoever changes them sets next_op to NULL. */
	struct read_entry *entries; /* with rows there is one at least */
	uint32_t n_entries;
	const uint8_t *ops, *end;
	bool columns;
	bool fresh; /* no row has been read: each place's `last` is its `line` */
	/* Where it is: in the row [lo, hi), from the rows' begin. hi is UINT32_MAX: to the end of all. */
	const uint8_t *next_op; /* NULL: nowhere */
	uint32_t lo, hi;
	struct row_place at; /* its line is counted as the entry's lines are */
	struct row_state st; /* of the row that follows */
};

/* Go to the row that @off lies in. ROWS_MOVED: it is another one than before. -1: the rows are damaged. */
enum { ROWS_MOVED = 1 };
int rows_go(struct row_reader *r, uint32_t off);
static inline int rows_seek(struct row_reader *r, uint32_t off)
{
	return r->next_op && off >= r->lo && off < r->hi ? 0 : rows_go(r, off);
}
