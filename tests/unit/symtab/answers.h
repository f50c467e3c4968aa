/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file being written, its table, and the answers of the table.
 */
#pragma once

#include "code_writer.h"
#include "symtab/symtab.h"

#define S(text) ((uint64_t)(uintptr_t)(text))
#define U(n)    ((uint64_t)(n))

struct answers {
	struct code_writer w;
	struct buf file, table;
	struct source *src;
	struct elf_image *img;
	struct symtab *t;
	struct symtab_finder *f;
	struct symtab_stats stats;
	struct buf text;
	/* To be set before answers_open(). */
	const struct dwarf_split *split;
	const struct elf_image *program; /* of which the file is the debug file, or NULL */
	bool discriminators;
	bool lossy;           /* rows are left out, so the table differs from the DWARF */
	const char *temp_dir; /* used by the build with three threads */
};

void answers_init(struct answers *a, enum elf_writer_target target, uint16_t type);
void answers_done(struct answers *a);
/* Finish the file, build the table with one thread and with three (which must give the same bytes), compare it
 * with the DWARF, open it. */
void answers_open(struct answers *a);
/* The frames of an address: "f at /src/a.c:3 (discriminator 2) in g at /src/a.c:9", "-" for none. */
const char *answer(struct answers *a, uint64_t addr);
void assert_answer(struct answers *a, uint64_t addr, const char *want);
/* The counts of hidden ranges, their bytes, and hidden bytes of lines. */
void assert_hidden(struct answers *a, uint64_t n_ranges, uint64_t size, uint64_t lines_size);

/* ---- DIEs ---- */

/* A function [lo, lo + size) without children. All these return the DIE's offset, for references. */
uint64_t add_function(struct answers *a, const char *name, uint64_t lo, uint64_t size);
/* A function whose children follow; code_up() ends it. */
uint64_t begin_function(struct answers *a, const char *name, uint64_t lo, uint64_t size);
/* A function that only exists inlined: the origin of calls. */
uint64_t add_abstract(struct answers *a, const char *name);
/* A call inlined at [lo, lo + size), without children or with children that follow. */
uint64_t add_inlined(struct answers *a, uint64_t origin, uint64_t lo, uint64_t size);
uint64_t begin_inlined(struct answers *a, uint64_t origin, uint64_t lo, uint64_t size);
/* A unit of C with the line table at @lines and one function. */
void add_unit(struct answers *a, uint64_t lines, const char *name, uint64_t lo, uint64_t size);

/* A line table with files a.c and b.h: from 0x1000 on, a line for each 16 bytes, up to 0x1100; the first is line
 * 10. Returns its offset. */
uint64_t add_lines(struct answers *a);
/* A unit of one function f, [0x1000, 0x1100), declared in line 9, with these lines. */
void add_plain(struct answers *a);
