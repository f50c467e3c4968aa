/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of dwarf; code.h has more for those that read code.
 *
 *   section  the bytes of a debug section, read in order or at random; relocated if the file is relocatable
 *   reloc    relocations of debug sections; reloc_kinds: their kinds
 *   form     attribute values
 *   strings  the strings that string forms refer to
 *   abbrev   the abbreviation of a unit's root
 *   unit     unit headers, and the attributes of each unit's root that its line table needs
 *   line     headers of line tables
 *   sources  names of source files; sources_set: as a set
 *   hashes   a set of hashes
 *
 * Numbers of sections, tables and figures are those of the DWARF 5 standard unless another is named.
 */
#pragma once

#include "dwarf/dwarf.h"

/* ---- sections ---- */

struct dwarf_section {
	const struct elf_image *img;
	const struct elf_section *sec; /* NULL: there is none; then size is 0 */
	uint64_t size;                 /* decompressed */
	bool whole;                    /* all of it is in `held` */
	struct bytes held;             /* bytes in memory, the first of which is at held_off */
	uint64_t held_off;
	struct buf room; /* the memory of `held`, unless it is in `arena` */
	struct arena arena;
	struct stream *stream; /* for dwarf_section_next(); its position is after `held` */
};

/* The section @name (".debug_line") and its decompressed size; NULL and 0: there is none. */
int dwarf_section_find(const struct elf_image *img, const char *name, const struct elf_section **ret,
		       uint64_t *ret_size, struct err *err);
bool dwarf_is_compressed(const struct elf_section *sec);
bool dwarf_is_relocated(const struct elf_image *img, const struct elf_section *sec);

/* The number of sections after @info, of the same name, that have units that are no type units. */
uint32_t dwarf_info_more(const struct elf_image *img, const struct elf_section *info);
/* ERR_LIMIT: more than DWARF_MAX_SECTION. */
int dwarf_section_fits(const struct elf_section *sec, uint64_t size, struct err *err);

/*
 * @name is ".debug_line" and the like. A missing section is an empty one. ERR_LIMIT, also of the calls below: it
 * has to be held in memory, and is larger than DWARF_MAX_SECTION. Damage of compressed data is ERR_INVALID of the call
 * that reads it.
 */
int dwarf_section_open(struct dwarf_section *s, const struct elf_image *img, const char *name,
		       struct err *err);
void dwarf_section_close(struct dwarf_section *s); /* takes the zeroed */

/*
 * Read [off, off + n), cut at the section's end; valid until the next call on this section. next() is for
 * reading in order: @off never decreases, and no more than the result is held of a compressed section. at()
 * reads at random. Use one of the two on a section.
 */
int dwarf_section_next(struct dwarf_section *s, uint64_t off, size_t n, struct bytes *ret, struct err *err);
int dwarf_section_at(struct dwarf_section *s, uint64_t off, size_t n, struct bytes *ret, struct err *err);
/* The string at @off, likewise. ERR_INVALID: it has no end within DWARF_MAX_NAME. */
int dwarf_section_str(struct dwarf_section *s, uint64_t off, struct str *ret, struct err *err);

struct dwarf_code_list {
	const struct dwarf_section_place *list;
	size_t n;
};
/* The content @p of a section of a relocatable file. */
struct dwarf_relocated {
	const struct elf_section *sec;
	const struct dwarf_code_list *code; /* the addresses of code sections; NULL: all 0, as in the file */
	uint8_t *p;
	size_t size;
	/* Why entries were left out; ERR_NONE: none were. */
	struct err unknown;
	bool names_code; /* an entry added the address of a section of code, other than 0 */
};
/* Apply the relocations of a section. Entries of unknown kinds are left out: what->unknown. */
int dwarf_relocate(const struct elf_image *img, struct dwarf_relocated *what, struct err *err);
bool dwarf_is_reloc_section(const struct elf_section *sec);

/* reloc_kinds.c: the effect of an entry on a word. */
enum dwarf_reloc_op {
	DWARF_RELOC_NONE,
	DWARF_RELOC_SET,
	DWARF_RELOC_ADD, /* to the word that is there */
	DWARF_RELOC_SUB,
	DWARF_RELOC_SET_LEB, /* a LEB128 of any size */
	DWARF_RELOC_ADD_LEB,
	DWARF_RELOC_SUB_LEB,
};
struct dwarf_reloc_kind {
	uint16_t machine;
	uint32_t type;
	uint8_t size;
	uint8_t op; /* enum dwarf_reloc_op */
};
const struct dwarf_reloc_kind *dwarf_reloc_kind_find(uint16_t machine, uint32_t type); /* NULL: not known */
bool dwarf_reloc_machine_known(uint16_t machine);

/* ---- forms ---- */

/* DW_FORM_*. */
enum dwarf_form {
	FORM_ADDR = 0x01,
	FORM_BLOCK2 = 0x03,
	FORM_BLOCK4,
	FORM_DATA2,
	FORM_DATA4,
	FORM_DATA8,
	FORM_STRING,
	FORM_BLOCK,
	FORM_BLOCK1,
	FORM_DATA1,
	FORM_FLAG,
	FORM_SDATA,
	FORM_STRP,
	FORM_UDATA,
	FORM_REF_ADDR,
	FORM_REF1,
	FORM_REF2,
	FORM_REF4,
	FORM_REF8,
	FORM_REF_UDATA,
	FORM_INDIRECT,
	FORM_SEC_OFFSET,
	FORM_EXPRLOC,
	FORM_FLAG_PRESENT,
	FORM_STRX,
	FORM_ADDRX,
	FORM_REF_SUP4,
	FORM_STRP_SUP,
	FORM_DATA16,
	FORM_LINE_STRP,
	FORM_REF_SIG8,
	FORM_IMPLICIT_CONST,
	FORM_LOCLISTX,
	FORM_RNGLISTX,
	FORM_REF_SUP8,
	FORM_STRX1,
	FORM_STRX2,
	FORM_STRX3,
	FORM_STRX4,
	FORM_ADDRX1,
	FORM_ADDRX2,
	FORM_ADDRX3,
	FORM_ADDRX4,
	FORM_GNU_ADDR_INDEX = 0x1f01,
	FORM_GNU_STR_INDEX,
	FORM_GNU_REF_ALT = 0x1f20,
	FORM_GNU_STRP_ALT,
	FORM_LLVM_ADDRX_OFFSET = 0x2001,
};

/* The unit's numbers that the size of some forms depends on. */
struct dwarf_format {
	uint16_t version;
	uint8_t addr_size;   /* 0: not known, as in line tables before DWARF 5 */
	uint8_t offset_size; /* 4 or 8 */
};

enum dwarf_class {
	DWARF_NONE,   /* no such attribute */
	DWARF_NUMBER, /* constants, offsets, references, addresses */
	DWARF_BLOCK,
	DWARF_STRING, /* here, in `bytes` */
	DWARF_STRP,   /* number is an offset in .debug_str */
	DWARF_LINE_STRP,
	DWARF_SUP_STRP, /* in the supplementary file's .debug_str */
	DWARF_STRX,     /* an index in .debug_str_offsets */
};

struct dwarf_value {
	enum dwarf_class class;
	uint64_t number;
	struct bytes bytes;
};

/*
 * Numbers of 64 bits, in as many bytes as they take; bits over them are dropped, as by leb_u(), which reads most DIEs: it must
 * not depend on the reader whether a unit is damaged.
 */
uint64_t dwarf_uleb(struct cursor *c);
int64_t dwarf_sleb(struct cursor *c);

/*
 * Read a value. False: the form is unknown, so nothing after it can be read. The caller checks whether the
 * cursor has failed. @implicit is the constant in the abbreviation (DW_FORM_implicit_const).
 */
bool dwarf_form_read(struct cursor *c, uint64_t form, int64_t implicit, const struct dwarf_format *format,
		     struct dwarf_value *ret);

/*
 * The number that stands for a value of DW_FORM_LLVM_addrx_offset: the index in the upper half. An index that
 * does not fit is the largest one, which no section has.
 */
static inline uint64_t dwarf_addrx_offset(uint64_t index, uint32_t offset)
{
	return MIN(index, (uint64_t)UINT32_MAX) << 32 | offset;
}

/* unit_length and the format that it implies (section 7.4): false when it is one of the reserved ones, or
 * cut. */
bool dwarf_length_read(struct cursor *c, uint64_t *ret_length, uint8_t *ret_offset_size);

/* ---- strings ---- */

struct dwarf_strings {
	struct dwarf_section str, line_str, str_offsets;
	struct dwarf_section sup_str;
	bool has_sup;
	bool sup_missing; /* a string of the supplementary file was asked for, and there is none */
};

int dwarf_strings_open(struct dwarf_strings *s, const struct elf_image *img, const struct elf_image *alt,
		       struct err *err);
void dwarf_strings_close(struct dwarf_strings *s);

/* Where a unit's part of .debug_str_offsets starts if the unit does not say it: after the header. */
uint64_t dwarf_str_offsets_base(const struct dwarf_format *format);

/*
 * The string of @v, empty for DWARF_NONE; valid until the next call. DWARF_NO_STRING: it is in the
 * supplementary file, which was not given.
 */
enum { DWARF_NO_STRING = 1 };
int dwarf_string(struct dwarf_strings *s, const struct dwarf_value *v, const struct dwarf_format *format,
		 uint64_t str_offsets_base, struct str *ret, struct err *err);

/* ---- units ---- */

/* The attributes and forms of one DIE. */
struct dwarf_abbrev_attr {
	uint64_t name, form;
	int64_t implicit;
};
struct dwarf_abbrevs {
	struct dwarf_section section;
	uint64_t budget; /* bytes that may still be read */
	/* The abbreviation found last. */
	uint64_t table_off, code;
	struct buf attrs; /* of struct dwarf_abbrev_attr */
	size_t n_attrs;
	bool valid;
};

int dwarf_abbrevs_open(struct dwarf_abbrevs *a, const struct elf_image *img, struct err *err);
void dwarf_abbrevs_close(struct dwarf_abbrevs *a);
/* The abbreviation @code of the table at @table_off, in a->attrs. ERR_INVALID: there is none. */
int dwarf_abbrevs_find(struct dwarf_abbrevs *a, uint64_t table_off, uint64_t code, struct err *err);

/* The attributes of a unit's root that its line table needs. */
struct dwarf_unit {
	uint64_t stmt_list;
	struct str comp_dir, name;
};
struct dwarf_units {
	struct dwarf_unit *list; /* sorted by stmt_list; strings in the arena */
	size_t n, room;
	struct arena arena;
	uint64_t held; /* of the image's memory, by `list` */
};

/*
 * Read those of every unit of .debug_info that has a line table. Damaged units are noted in @note and skipped.
 * Strings that cannot be read are empty.
 */
int dwarf_units_read(struct dwarf_units *u, const struct elf_image *img, struct dwarf_strings *strings,
		     struct dwarf_sources_note *note, struct err *err);
void dwarf_units_free(struct dwarf_units *u);
/* The index of the first unit with @stmt_list or a later one; n: none. */
size_t dwarf_units_find(const struct dwarf_units *u, uint64_t stmt_list);

/* ---- line tables ---- */

struct dwarf_line_file {
	struct dwarf_value name;
	uint64_t dir;
};

struct dwarf_entry_format {
	uint64_t content, form;
};

/* Names are views of the header. */
struct dwarf_line_header {
	struct dwarf_format format;
	struct dwarf_value *dirs; /* before DWARF 5, [0] is the unit's comp_dir: DWARF_NONE */
	size_t n_dirs;
	/* Of the program. */
	uint8_t min_length, max_ops, line_range, opcode_base;
	int8_t line_base;
	const uint8_t *opcode_lengths; /* opcode_base - 1 of them */
	uint64_t program_off;          /* the end of the header, in the section */
	/* For dwarf_line_file_next(). */
	struct cursor files;
	uint64_t n_files_left; /* DWARF 5 */
	struct dwarf_entry_format file_formats[255];
	size_t n_file_formats;
};

/*
 * The place of a table: where its header starts, after unit_length, and where the next table starts. Both are
 * the same for an empty table (padding). ERR_INVALID: unit_length is damaged.
 */
struct dwarf_line_place {
	uint64_t header_off, end;
	uint8_t offset_size;
};
int dwarf_line_place(struct dwarf_section *line, uint64_t off, struct dwarf_line_place *ret, struct err *err);
/* The header of the table there, its directories in @a. Its views are valid until the next call on @line. */
int dwarf_line_header(struct dwarf_section *line, const struct dwarf_line_place *place, struct arena *a,
		      struct dwarf_line_header *ret, struct err *err);
/* The same for bytes in memory: those of a table from header_off to its end. */
int dwarf_line_header_of(struct bytes table, const struct dwarf_line_place *place, bool big, struct arena *a,
			 struct dwarf_line_header *ret, struct err *err);
/* The next file. DWARF_LINE_END: that was the last. */
enum { DWARF_LINE_END = 1 };
int dwarf_line_file_next(struct dwarf_line_header *h, struct dwarf_line_file *ret, struct err *err);
/* How files of a table are skipped without being read: so many bytes, an unsigned LEB128, so many bytes. */
struct dwarf_line_skip {
	unsigned before, after;
	bool has_number;
};
/* False: their forms are others than those that compilers write, or they end with an empty name. */
bool dwarf_line_skip_plan(const struct dwarf_line_header *h, struct dwarf_line_skip *ret);
/* Read the file at the cursor @files instead of the header's own. */
int dwarf_line_file_read(const struct dwarf_line_header *h, struct cursor *files, struct dwarf_line_file *ret,
			 struct err *err);

/*
 * Note damage in one unit or table: it is counted, and the first reason kept. -1: @why is not damage of the
 * input (ERR_INVALID) but another failure, now in *err.
 */
int dwarf_note_damage(struct dwarf_sources_note *note, const struct err *why, struct err *err);

/* ---- hashes ---- */

/* A set of 64-bit hashes. Zeroed is empty. */
struct dwarf_hashes {
	uint64_t *slots; /* 0: free */
	size_t n, n_slots;
};
bool dwarf_hashes_add(struct dwarf_hashes *h, uint64_t hash); /* false: it was there */
void dwarf_hashes_clear(struct dwarf_hashes *h);
void dwarf_hashes_done(struct dwarf_hashes *h);

/* A random seed for hashes, which the author of a crafted input cannot know. */
uint64_t dwarf_secret(void);
