/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What batch.c and code range.c share: the unit at hand.
 */
#pragma once

#include "base/sort.h"
#include "symtab/internal.h"

/* What a node has become in the code range that is being made. */
struct node_state {
	uint32_t stamp; /* of the code range; of another one: not yet part of this one */
	uint32_t entry;
};

/* Of an entry, while its code range is made. */
struct entry_state {
	uint32_t next; /* the same call in another file, 0: none */
	uint32_t last; /* the line of its last row */
};

/* A call that has begun. */
struct open_call {
	uint64_t hi;
	uint32_t node;
};

struct name_ref {
	uint64_t die;
	bool in_alt;
	uint32_t function;
};

struct unit_work {
	size_t unit;
	uint32_t *file_ids; /* of the unit's files: 0 not looked up, UINT32_MAX none */
	size_t n_file_ids, room_file_ids;
	struct id_map refs; /* DIE to name_ref + 1: they are as many */
	struct name_ref *names;
	size_t n_names, room_names;
	size_t first_range, first_entry;
	struct node_state *nodes;
	size_t room_nodes;
	uint32_t stamp;
	struct entry_state *entries; /* of the code range */
	size_t room_entries;
	struct dwarf_span *own; /* the function's own spans */
	size_t room_own;
	struct sort_key *keys; /* of calls' spans, or of the unit's code ranges */
	size_t room_keys;
	struct open_call *open;
	size_t n_open, room_open;
	struct buf path;
};

uint32_t batch_file_new(struct batch *b, uint32_t file); /* of batch_file() */
/* The batch's id of a file of the unit's table, 0: none. */
static inline uint32_t batch_file(struct batch *b, uint32_t file)
{
	const struct unit_work *w = b->work;
	uint32_t id = file < w->n_file_ids ? w->file_ids[file] : 0;

	if (!id)
		return batch_file_new(b, file);
	return id == UINT32_MAX ? 0 : id;
}
/* What stands for the function of a DIE until names are looked up; 0: none. */
uint32_t batch_name(struct batch *b, uint64_t die, bool in_alt);

/* Make code ranges of a function's code. ERR_LIMIT: of more rows than may be. */
int function_make(struct batch *b, const struct dwarf_function *f, struct err *err);
/* One code range, [lo, hi). @f NULL: lines of no function. */
int range_make(struct batch *b, const struct dwarf_function *f, uint64_t lo, uint64_t hi, struct err *err);
/* The first begin of a row at or behind @addr, UINT64_MAX: none. *ret_in_row: a row that began earlier goes
 * up to there. */
uint64_t lines_begin(struct batch *b, uint64_t addr, bool *ret_in_row);

/* A code range being made: begin, rows of rising addresses, end. */
struct sweep {
	struct batch *b;
	const struct dwarf_function *f; /* NULL: lines of no function */
	size_t range;
	struct row_writer rows;
	/* The last row that was written. */
	uint32_t node, file, line;
	uint64_t column; /* column_with() */
	bool any;
	size_t rows_full, entries_full; /* the batch's, when the code range is to be cut */
	bool ids; /* nodes have the batch's ids: `die` is a function's, call_file a file's */
};
/* Room for the calls of a function, before range_begin(). */
void range_nodes(struct batch *b, size_t n);
/* @columns: its rows have some. */
void range_begin(struct sweep *s, uint64_t lo, uint64_t hi, uint8_t origin, bool columns);
/* From @addr (of the code range) on, the row is this. @file is the batch's id, @column is column_with(). */
void range_row(struct sweep *s, uint32_t addr, uint32_t node, uint32_t file, uint32_t line, uint64_t column);
void range_end(struct sweep *s);
