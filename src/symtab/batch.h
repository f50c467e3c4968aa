/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unit at hand, shared by the files that make code ranges: batch.c, names.c, range.c, go.c.
 */
#pragma once

#include "base/sort.h"
#include "symtab/build.h"

/* The entry of a node in the code range at hand. */
struct node_state {
	uint32_t stamp; /* the code range's; any other: the node has no entry yet */
	uint32_t entry;
};

/* An entry, while its code range is made. */
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

/* A file by its number in the unit's table. */
struct unit_file {
	uint32_t stamp; /* the unit's; any other: it has not been looked up */
	uint32_t id;    /* 0: there is no such file */
};

struct unit_work {
	size_t unit;
	struct unit_file
		*files; /* numbers may be large, and units small: so it is not cleared for each unit */
	size_t n_files, room_files;
	uint32_t file_stamp;
	/* DIE to the number in `names` + 1; as many as there are names. One of the two is used for a unit. */
	struct id_map refs;
	struct quad_map far_refs;
	bool is_far; /* offsets of DIEs have more than 31 bits */
	struct name_ref *names;
	size_t n_names, room_names;
	size_t first_range, first_entry;
	struct node_state *nodes;
	size_t room_nodes;
	uint32_t stamp;
	struct entry_state *entries; /* of the code range */
	size_t room_entries;
	struct function_code *code; /* of the function at hand */
	size_t room_code;
	struct sort_key *keys; /* of the spans of calls, or of the unit's code ranges */
	size_t room_keys;
	struct open_call *open;
	size_t n_open, room_open;
	struct buf path;
};

/* Addresses of a function, or of calls outside of its own addresses. */
struct function_code {
	uint64_t lo, hi;
	bool of_calls;
};

#define ACCOUNT_FUNCTIONS 64 /* the memory of so many small ones, or code ranges of one, may go uncounted */

/* List damage; -1: @why is another failure, now in *err. */
int batch_damage(struct batch *b, const struct err *why, struct err *err);

/* ---- names ---- */

/* Start a unit, which the reader is at. */
void names_begin(struct batch *b);
uint32_t batch_file_new(struct batch *b, uint32_t file); /* for batch_file() */
/* The batch's id of a file of the unit's line table, 0: none. */
static inline uint32_t batch_file(struct batch *b, uint32_t file)
{
	const struct unit_work *w = b->work;

	if (file >= w->n_files || w->files[file].stamp != w->file_stamp)
		return batch_file_new(b, file);
	return w->files[file].id;
}
/* The number that stands for the function of a DIE until names_look_up(); 0: none. */
uint32_t batch_name(struct batch *b, uint64_t die, bool in_alt);
/* Replace these numbers in the unit's code ranges and entries by the ids of functions. */
int names_look_up(struct batch *b, struct err *err);

/* ---- code ranges ---- */

/* The spans of a function's calls by their starts, and the first that has not begun. */
struct function_calls {
	const struct dwarf_span *spans;
	const struct sort_key *keys; /* in `spans`; those of one start are in the order of their nodes */
	size_t n, next;
};
/* In w->keys, so until its next use. */
struct function_calls function_calls(struct unit_work *w, const struct dwarf_function *f);
/* Write the code of @f to w->code, sorted by start, and return how many there are. Its own may overlap. */
size_t function_code(struct unit_work *w, const struct dwarf_function *f, const struct function_calls *calls);

/* Make the code ranges of a function. ERR_LIMIT: it has more rows than are allowed. */
int function_make(struct batch *b, const struct dwarf_function *f, struct err *err);
/* Make one code range [lo, hi) of lines without a function. */
int lines_make(struct batch *b, uint64_t lo, uint64_t hi, struct err *err);
/* Where the first row at or after @addr starts, UINT64_MAX: none. *ret_in_row: an earlier row, which has a line, covers
 * the addresses up to there. */
uint64_t lines_begin(struct batch *b, uint64_t addr, bool *ret_in_row);

/* A code range being made: range_begin(), rows of rising addresses, range_end(). */
struct sweep {
	struct batch *b;
	const struct dwarf_function *f; /* NULL: lines of no function */
	size_t range;
	struct row_writer {
		struct row_state st;
		struct buf *out;
		bool columns;
	} rows;
	/* The last row written. */
	uint32_t node, file, line;
	uint64_t column; /* column_with() */
	bool any;
	size_t rows_full, entries_full; /* sizes of the batch at which the code range is cut */
	bool ids; /* nodes have the batch's ids: `die` is a function's, call_file a file's */
};
/* Room for the @n nodes of a function, before range_begin(). */
void range_nodes(struct batch *b, size_t n);
/* @columns: its rows have columns. */
void range_begin(struct sweep *s, uint64_t lo, uint64_t hi, uint8_t origin, bool columns);

/* The row from @addr on, counted from the start of the code range. @file is the batch's id, @column is
 * column_with(). */
void range_row(struct sweep *s, uint32_t addr, uint32_t node, uint32_t file, uint32_t line, uint64_t column);
void range_end(struct sweep *s);
