/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands that turn addresses into frames share: a file's table, and how answers are written.
 */
#pragma once

#include "cmd/internal.h"
#include "local/local.h"
#include "symtab/symtab.h"

#define SYMBOLS_ONLY_MAX 64u

/* The table of a file: one that was made before, or made now of what is found for it. */
struct symbols_file {
	struct symtab *table;
	struct symtab_finder *finder;
	struct mapping mapping;
	struct buf made;
	/* What it was made of. */
	struct source *src;
	struct elf_image *img, *debug, *alt, *dwp;
	struct local_found found, found_alt;
	const char *path; /* borrowed */
	struct source *dwp_src;
	struct dwarf_split split;
	/* All that will be asked for, if that is known and little. */
	uint64_t only[SYMBOLS_ONLY_MAX];
	size_t n_only;
};
void symbols_file_done(struct symbols_file *f); /* zeroed is empty */

/*
 * The debug file that belongs to @path (itself, or by gdb's rules) in f->debug, and its supplementary file in
 * f->alt if it has one and it is found.
 */
int symbols_find(struct symbols_file *f, const struct settings *s, const char *path, struct err *err);
/* Note what the command line asks for: of a file without a table only the units of these addresses are read.
 */
void symbols_only(struct symbols_file *f, const struct settings *s);
/* The table of @path, which is a table or an ELF file. */
int symbols_open(struct symbols_file *f, const struct settings *s, const char *path, struct err *err);

/* "4010", "0x4010"; of relocatable files also ".text+0x10" and "(.text)+0x10". All hexadecimal. */
bool symbols_address(const struct symbols_file *f, const char *section, struct str text, uint64_t *ret);

struct symbols_style {
	const char *name;
	/* Append the answer for @addr; @frames NULL: none. @text: as it was asked for. */
	void (*write)(const struct settings *s, struct str module, uint64_t addr,
		      const struct symtab_frames *frames, struct buf *out);
	bool list; /* addresses of the command line are elements of a list */
	bool echo; /* what is no address is repeated; else it counts as address 0 */
};
const struct symbols_style *symbols_style_find(struct str name); /* NULL: none */

/* Answer what the command line or standard input asks. Returns the exit status. */
int symbols_answer(struct settings *s, const char *path, const struct symbols_style *style);
