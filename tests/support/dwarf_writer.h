/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes debug sections for tests: line tables of DWARF 2 to 5 and the units that they belong to, in both byte
 * orders, with 32 and 64-bit offsets, strings in any form, and relocations where the file is relocatable.
 *
 *	struct dwarf_writer d;
 *	dwarf_writer_init(&d, &elf);
 *	off = dwarf_writer_table(&d, &(struct dwarf_writer_table){ .version = 5, .dirs = ..., .files = ... });
 *	dwarf_writer_unit(&d, &(struct dwarf_writer_unit){ .version = 5, .comp_dir = "/src", .name = "a.c",
 *.stmt_list = off }); dwarf_writer_finish(&d); // adds the sections to the elf_writer
 */
#pragma once

#include "elf_writer.h"

/* The form of a string. */
enum dwarf_writer_form {
	DWARF_WRITER_STRING, /* in place */
	DWARF_WRITER_STRP,
	DWARF_WRITER_LINE_STRP,
	DWARF_WRITER_STRX,
	DWARF_WRITER_STRX1,
	DWARF_WRITER_STRX2,
	DWARF_WRITER_STRX3,
	DWARF_WRITER_STRX4,
	DWARF_WRITER_STRP_SUP,     /* the string's offset in `sup_str` */
	DWARF_WRITER_GNU_STRP_ALT, /* the same */
};

struct dwarf_writer_file {
	const char *name;
	uint64_t dir;
};

struct dwarf_writer_table {
	unsigned version;
	bool dwarf64;
	enum dwarf_writer_form form;           /* version 5; else in place */
	const char *const *dirs;               /* up to NULL; version 5: [0] is comp_dir */
	const struct dwarf_writer_file *files; /* up to a NULL name */
	bool rich;        /* version 5: with time, size, MD5 and a vendor-specific entry kind, each in another
		      form */
	unsigned program; /* bytes of line program after the header */
};

struct dwarf_writer_unit {
	unsigned version;
	bool dwarf64;
	enum dwarf_writer_form form;
	unsigned type;               /* DW_UT_*; 0: compile */
	const char *comp_dir, *name; /* NULL: no such attribute */
	uint64_t stmt_list;          /* UINT64_MAX: no such attribute */
	bool base_last;              /* DW_AT_str_offsets_base after the attributes that need it */
	unsigned n_abbrevs_before;   /* in its table, before its own */
	unsigned padding;            /* bytes of a block attribute before the others */
	unsigned children;           /* bytes of DIEs after the root, which readers ignore */
};

struct dwarf_writer_reloc {
	unsigned section; /* enum in dwarf_writer.c */
	uint64_t off;
	unsigned size, target;
	uint64_t addend;
};

struct dwarf_writer {
	struct elf_writer *elf; /* borrowed */
	struct buf line, info, abbrev, str, line_str, str_offsets, sup_str;
	bool relocate;         /* offsets are written as relocations; set when the file is ET_REL */
	uint64_t symbol_value; /* of the section symbols; the addends compensate for it */
	uint32_t compress;     /* ELFCOMPRESS_*: all sections; UINT32_MAX: as .zdebug_* */
	bool dwo;              /* sections are called .dwo */
	struct dwarf_writer_reloc *relocs;
	size_t n_relocs, room_relocs;
};

void dwarf_writer_init(struct dwarf_writer *d, struct elf_writer *elf);
void dwarf_writer_done(struct dwarf_writer *d);
/* Return the offset in the section. */
uint64_t dwarf_writer_table(struct dwarf_writer *d, const struct dwarf_writer_table *t);
uint64_t dwarf_writer_unit(struct dwarf_writer *d, const struct dwarf_writer_unit *u);
void dwarf_writer_finish(struct dwarf_writer *d);
