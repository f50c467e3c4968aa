/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading Go's table; also for other modules, which need no batch for it.
 *
 *   go         functions, files and lines
 *   go_find    where the table and the code are
 *   go_memory  bytes of the program as its loader makes them
 *   go_inline  the trees of inlined calls
 */
#pragma once

#include "base/sort.h"
#include "dwarf/dwarf.h"

struct batch;
struct go_scope;

enum go_layout { GO_2, GO_16, GO_18, GO_20 };

/* A range of the program that the file has bytes for: a section or, in a file without sections, a segment. */
struct go_part {
	struct str name; /* empty: a segment */
	const struct elf_section *section;
	uint64_t addr, size, off;
	bool writable, code;
};

struct go {
	const struct elf_image *img;
	struct budget_hold *memory;
	struct arena *kept; /* where the table stays if it is not in memory */
	/* How many steps of programs may be read still: functions may share programs. */
	uint64_t *budget;
	struct batch *b; /* of go.c alone */
	struct bytes table;
	uint64_t addr; /* where the table is in memory */
	bool big;
	enum go_layout layout;
	unsigned ptr, quantum;
	uint64_t n_funcs, text;
	bool text_told; /* `text` is certain, not the address of a section that starts with it in most files */
	const struct go_scope *scope;
	/* Where the table's parts start. */
	uint64_t names, units, files, programs, funcs;
	/* Trees of calls: the address of the first (0: not known), and the part of the program of the one read
	 * last. */
	uint64_t trees;
	struct go_part data_part;
	struct bytes data;
	struct arena arena;
	/* Words that the loader sets, sorted by address (`key`; the value is `at`). */
	struct sort_key *relocs;
	size_t n_relocs;
	uint64_t held; /* of `memory`, by `relocs` */
	struct dwarf_node *nodes;
	size_t room_nodes;
	uint64_t n_lost; /* functions whose calls were not found */
};

/* Free what was read; the struct is the caller's. */
void go_done(struct go *g);
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
/* Of go.c: the batch's id of file @file of the unit whose files start at @unit. */
uint32_t go_file(const struct go *g, uint32_t unit, int32_t file);

/* A function's description. */
struct go_func {
	uint64_t size;
	uint32_t file_steps, line_steps, call_steps, unit;
	uint64_t tree;  /* the address of its tree; 0: it has none */
	bool has_lines; /* the calls of the tree have caller, file and line themselves */
};

/* ---- the program's memory ---- */

/* Read the relocations that the loader applies to a position-independent program. */
int go_relocs_read(struct go *g, struct err *err);
/* Part @i of the program, counted from 0; false: there are no more. A part without bytes has size 0. */
bool go_part_at(const struct go *g, uint32_t i, struct go_part *ret);
/* The bytes of a part, relocated, in @a, at most GO_DATA_MAX. 1: the file does not have them. */
int go_part_read(const struct go *g, const struct go_part *p, struct arena *a, struct bytes *ret,
		 struct err *err);

/* ---- the table ---- */

#define GO_DATA_MAX  MIB(1024) /* of one part of the program */
#define GO_FUNCS_MAX (16u << 20)

enum { GO_NONE = 1 };
/* Find the table: a section or, in a file without sections, the bytes that start like one. GO_NONE. */
int go_table_find(struct go *g, struct err *err);
/* Whether the file is a debug file without DWARF of Go, and only its program has the bytes of Go's table. */
bool go_in_program(const struct elf_image *img);
/* Read the table's header. ERR_INVALID: there is none, or it is damaged. */
int go_head_read(struct go *g, struct err *err);
/* The address of function @i, and the offset of its description. The row after the last function has the
 * address of the end. */
uint64_t go_func_at(const struct go *g, uint64_t i, uint64_t *ret_off);
/* Find the start of the code, which addresses of functions count from since Go 1.18, and that of the trees.
 * ERR_INVALID: the file does not say where the code is. */
int go_places_find(struct go *g, struct err *err);
/* Set f->tree and the like from the part after the fixed part of a function's description; @programs is where
 * it starts in the table. */
int go_tree_of(struct go *g, uint64_t programs, uint32_t n_programs, uint8_t n_data, struct go_func *f,
	       struct err *err);
/*
 * The calls inlined into a function, in g->nodes: node 0 is the function, node i + 1 is Go's call @i, and `die`
 * is the id of the called function. A tree that is not found, or impossible, counts as none, and in g->n_lost.
 */
int go_tree_read(struct go *g, const struct go_func *f, size_t *ret_n, struct err *err);
