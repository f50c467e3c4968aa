/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that read Go's table share.
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
	const struct span *dwarf; /* where DWARF has functions: they are not read here */
	size_t n_dwarf;
	/* Where in the table things begin. */
	uint64_t names, units, files, programs, funcs;
	/* Trees of calls: where they begin (0: not known), and the section that the last one was in. */
	uint64_t trees;
	const struct elf_section *data_section;
	struct bytes data;
	struct arena arena;
	struct dwarf_node *nodes;
	size_t room_nodes;
};

/* The table's bytes from @off, none where it does not reach. */
struct cursor go_at(const struct go *g, uint64_t off);
struct str go_string(const struct go *g, uint64_t off);

/* A program being read: its value holds up to `until`, from the function's begin. */
struct go_steps {
	struct cursor c;
	int32_t value;
	uint64_t until;
	bool over;
};
struct go_steps go_steps_at(const struct go *g, uint32_t off);
/* Programs may be shared, but not so that they cost more than a table of this size may. */
int go_seek(struct go *g, struct go_steps *s, uint64_t pc, struct err *err);
/* File @file of the unit whose files begin at @unit: the batch's id. */
uint32_t go_file(const struct go *g, uint32_t unit, int32_t file);

/* One function, of what describes it. */
struct go_func {
	uint64_t size;
	uint32_t file_steps, line_steps, call_steps, unit;
	uint64_t tree;  /* where its tree is in memory; 0: it has none */
	bool has_lines; /* calls of the tree have caller, file and line themselves */
};

/* Find where the trees are. */
int go_trees_find(struct go *g, struct err *err);
/* What is behind the fixed part of a function's description: @programs is where that ends, in the table. */
int go_tree_of(struct go *g, uint64_t programs, uint32_t n_programs, uint8_t n_data, struct go_func *f,
	       struct err *err);
/*
 * The calls inlined into a function: g->nodes, in which the function itself is 0, and call @i of Go's is i
 * + 1. `die` is the id of what is called. A tree that cannot be right is none.
 */
int go_tree_read(struct go *g, const struct go_func *f, size_t *ret_n, struct err *err);
