/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading Go's table.
 *
 *   go         functions, files and lines
 *   go_inline  the trees of inlined calls
 */
#pragma once

#include "symtab/batch.h"

enum go_layout { GO_2, GO_16, GO_18, GO_20 };

struct go {
	struct batch *b;
	const struct elf_image *img;
	struct bytes table;
	uint64_t addr; /* where the table is in memory */
	bool big;
	enum go_layout layout;
	unsigned ptr, quantum;
	uint64_t n_funcs, text;
	const struct go_scope *scope;
	/* Where the table's parts start. */
	uint64_t names, units, files, programs, funcs;
	/* Trees of calls: the address of the first (0: not known), and the section of the one read last. */
	uint64_t trees;
	const struct elf_section *data_section;
	struct bytes data;
	struct arena arena;
	struct dwarf_node *nodes;
	size_t room_nodes;
};

/* The table's bytes from @off on; none if it is past the end. */
struct cursor go_at(const struct go *g, uint64_t off);
struct str go_string(const struct go *g, uint64_t off);

/* A program being read: its value holds up to `until`, counted from the function's start. */
struct go_steps {
	struct cursor c;
	int32_t value;
	uint64_t until;
	bool over;
};
struct go_steps go_steps_at(const struct go *g, uint32_t off);
/* ERR_LIMIT: functions share programs so often that they cost more than a table of this size may. */
int go_seek(struct go *g, struct go_steps *s, uint64_t pc, struct err *err);
/* The batch's id of file @file of the unit whose files start at @unit. */
uint32_t go_file(const struct go *g, uint32_t unit, int32_t file);

/* A function's description. */
struct go_func {
	uint64_t size;
	uint32_t file_steps, line_steps, call_steps, unit;
	uint64_t tree;  /* the address of its tree; 0: it has none */
	bool has_lines; /* the calls of the tree have caller, file and line themselves */
};

/* Find the address of the trees. */
int go_trees_find(struct go *g, struct err *err);
/* Set f->tree and the like from the part after the fixed part of a function's description; @programs is where
 * it starts in the table. */
int go_tree_of(struct go *g, uint64_t programs, uint32_t n_programs, uint8_t n_data, struct go_func *f,
	       struct err *err);
/*
 * The calls inlined into a function, in g->nodes: node 0 is the function, node i + 1 is Go's call @i, and `die`
 * is the id of the called function. A tree that is impossible counts as none.
 */
int go_tree_read(struct go *g, const struct go_func *f, size_t *ret_n, struct err *err);
