/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes files with DWARF of code for tests: units with any DIEs, line programs, ranges, symbols.
 *
 *	struct code_writer w;
 *	code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN); // code at 0x1000, 0x1000 bytes
 *	lines = code_lines_begin(&w, "a.c", "b.h", NULL);
 *	code_row(&w, 0x1000, 1, 10); code_lines_end(&w, 0x1010);
 *	code_unit(&w, lines, ...);
 *	code_die(&w, DW_TAG_subprogram, true, DW_AT_name, F_STRING, "f", ..., 0);
 *	code_up(&w);
 *	code_unit_end(&w);
 *	code_writer_finish(&w, &out);
 *
 * A DIE's attributes are triples of name, form and value (a string for F_STRING, F_STRP, F_STRX and
 * F_GNU_STR_INDEX; a struct bytes * for F_EXPRLOC; index << 32 | offset for F_LLVM_ADDRX_OFFSET), up to a 0. Each DIE has
 * an abbreviation of its own. What it returns is its offset in
 *.debug_info.
 */
#pragma once

#include "elf_writer.h"

enum {
	T_COMPILE = 0x11,
	T_SUBPROGRAM = 0x2e,
	T_INLINED = 0x1d,
	T_BLOCK = 0x0b,
	T_NAMESPACE = 0x39,
	T_STRUCT = 0x13,
	T_CLASS = 0x02,
	T_CALL_SITE = 0x48,
	T_PARTIAL = 0x3c,
	T_SKELETON = 0x4a,
};
enum {
	A_SIBLING = 0x01,
	A_NAME = 0x03,
	A_STMT_LIST = 0x10,
	A_LOW = 0x11,
	A_HIGH = 0x12,
	A_LANGUAGE = 0x13,
	A_COMP_DIR = 0x1b,
	A_INLINE = 0x20,
	A_ORIGIN = 0x31,
	A_DECL_FILE = 0x3a,
	A_DECL_LINE = 0x3b,
	A_SPECIFICATION = 0x47,
	A_ENTRY = 0x52,
	A_RANGES = 0x55,
	A_CALL_COLUMN = 0x57,
	A_CALL_FILE = 0x58,
	A_CALL_LINE = 0x59,
	A_LINKAGE = 0x6e,
	A_ADDR_BASE = 0x73,
	A_RNGLISTS_BASE = 0x74,
	A_DWO_NAME = 0x76,
	A_MIPS_LINKAGE = 0x2007,
	A_GNU_DWO_NAME = 0x2130,
	A_GNU_DWO_ID,
	A_GNU_RANGES_BASE,
	A_GNU_ADDR_BASE,
	A_GNU_DISCRIMINATOR = 0x2136,
};
enum {
	F_ADDR = 0x01,
	F_DATA2 = 0x05,
	F_DATA4 = 0x06,
	F_DATA8 = 0x07,
	F_STRING = 0x08,
	F_BLOCK1 = 0x0a,
	F_DATA1 = 0x0b,
	F_SDATA = 0x0d,
	F_STRP = 0x0e,
	F_UDATA = 0x0f,
	F_REF_ADDR = 0x10,
	F_REF4 = 0x13,
	F_INDIRECT = 0x16,
	F_SEC_OFFSET = 0x17,
	F_EXPRLOC = 0x18,
	F_STRX = 0x1a,
	F_ADDRX = 0x1b,
	F_IMPLICIT = 0x21,
	F_RNGLISTX = 0x23,
	F_GNU_ADDR_INDEX = 0x1f01,
	F_GNU_STR_INDEX,
	F_GNU_REF_ALT = 0x1f20,
	F_LLVM_ADDRX_OFFSET = 0x2001,
};

struct code_writer {
	struct elf_writer elf;
	struct buf info, abbrev, line, str, str_offsets, ranges, rnglists, addr, symbols, names;
	unsigned version;
	bool dwarf64;
	uint64_t n_abbrevs, abbrev_step; /* codes increase by this; 1 */
	size_t unit, unit_start, table, table_start;
	uint64_t addr_now;
	int64_t line_now;
	uint32_t file_now;
	const char *comp_dir; /* of units of C, and directory 0 of DWARF 5's line tables; "/src" */
	unsigned min_length;
	/* Of DWARF 5's unit headers: DW_UT_*, 0 is compile; the id of skeleton and split units. */
	unsigned unit_type;
	uint64_t dwo_id;
	unsigned opcode_base, max_ops; /* of line tables; 13, 1 */
	uint32_t compress;             /* compression of debug sections: ELFCOMPRESS_*; UINT32_MAX: as
				          .zdebug_*; 0: none */
	uint32_t section_type;         /* of debug sections; SHT_PROGBITS */
	bool dynamic;                  /* symbols are those of .dynsym */
	bool dwo;                      /* sections are called .dwo, and there is no code */
	bool no_terminator;            /* abbreviation tables have no end mark */
	uint64_t text, text_size;      /* 0x1000, 0x1000; may be set before finish */
};

void code_writer_init(struct code_writer *w, enum elf_writer_target target, uint16_t type);
void code_writer_done(struct code_writer *w);

/* A line table of these files (up to NULL) of w->version; its offset. DWARF 5: file 0 is the first. */
uint64_t code_lines_begin(struct code_writer *w, const char *const *files);
void code_address(struct code_writer *w, uint64_t addr); /* DW_LNE_set_address */
void code_row(struct code_writer *w, uint64_t addr, uint32_t file, uint32_t line);
void code_discriminator(struct code_writer *w, uint32_t discriminator); /* of the next row */
void code_sequence_end(struct code_writer *w, uint64_t addr);
void code_lines_end(struct code_writer *w);

uint64_t code_unit_begin(struct code_writer *w);
uint64_t code_die(struct code_writer *w, unsigned tag, int children, ...);
void code_up(struct code_writer *w); /* the end of a DIE's children */
void code_unit_end(struct code_writer *w);

/* DW_TAG_compile_unit with name a.c, folder /src, C11, lines. */
uint64_t code_unit_c(struct code_writer *w, uint64_t lines);

void code_symbol(struct code_writer *w, const char *name, unsigned type, unsigned binding, uint64_t value,
		 uint64_t size);
void code_writer_finish(struct code_writer *w, struct buf *out);

/* A .dwp of split units, each from its own writer, with dwo_id set. @version of the index: 2 or 5. */
void code_writer_dwp(struct code_writer *const *units, size_t n, unsigned version, struct buf *out);
