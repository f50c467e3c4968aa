/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file being made, its table, and what the table says.
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
	const struct dwarf_split *split; /* before answers_open() */
	bool discriminators;             /* likewise: wanted */
	const char *temp_dir;            /* likewise: with three threads */
};

void answers_init(struct answers *a, enum elf_writer_target target, uint16_t type);
void answers_done(struct answers *a);
/* Finish the file, make the table with one thread and with three (they must be the same), hold it against
 * DWARF, open it. */
void answers_open(struct answers *a);
/* "f at /src/a.c:3 (discriminator 2) in g at /src/a.c:9", "-" for none. */
const char *answer(struct answers *a, uint64_t addr);
void assert_answer(struct answers *a, uint64_t addr, const char *want);

/* A unit of one function f, [0x1000, 0x1100), with lines: 0x1000 line 10, 0x1010 line 11. */
void add_plain(struct answers *a);
/* Lines of files a.c and b.h: [0x1000, 0x1100) line 10 and so on, one line each 16 bytes. */
uint64_t add_lines(struct answers *a);
