/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files that read code.
 *
 *   data     sections in memory, or read in chunks; the addresses of code
 *   plan     how values are read, by form and attribute
 *   program  abbreviations compiled to byte programs; run.h runs them
 *   aranges  units by address, a hint
 *   open     a file's sections and units
 *   index    the index of a .dwp
 *   split    the split units of skeleton units
 *   root     unit headers and root DIEs; single DIEs
 *   address  addresses in any form
 *   losses   the account of descriptions that cannot be read
 *   walk     all DIEs of a unit
 *   ranges   range lists
 *   rows     line programs
 *   files    the files that a line table lists
 *   name     names of functions
 *   name_key keys of names by offsets of strings, which are enough for most
 */
#pragma once

#include "base/leb.h"
#include "base/search.h"
#include "dwarf/internal.h"

/* Readable bytes after every section and chunk: a read of a number never has to check for the end first. */
#define DWARF_PAD 32

struct dwarf_data {
	const struct elf_image *img;
	const struct elf_section *sec; /* NULL: there is none; then size is 0 */
	uint64_t size;
	const uint8_t *p; /* all of it, followed by DWARF_PAD bytes; NULL: read in chunks */
	uint8_t *heap;
	/* Chunks are read from @off on of a source: the image's, or our temporary copy, decompressed. */
	struct source *src, *copy;
	uint64_t off;
	int fd; /* the source's bytes are in this file, at fd_off; -1: read through the source */
	uint64_t fd_off;
	const uint8_t *mem; /* ... or in memory here; NULL: not */
	bool damaged;       /* the file has it, and it cannot be read; size is 0 */
	bool names_code;    /* a relocation has the address of a section of code, other than 0 */
	struct err unknown; /* relocations that were left out; ERR_NONE: there are none */
};

enum dwarf_data_way { DWARF_WHOLE, DWARF_CHUNKS };
int dwarf_data_open(struct dwarf_data *s, const struct dwarf *d, const char *name, enum dwarf_data_way way,
		    struct err *err);
void dwarf_data_close(struct dwarf_data *s);
/* Read [off, off + n), which must be within the section. The result is in memory or in @room, and is followed by
 * DWARF_PAD bytes. */
int dwarf_data_chunk(const struct dwarf_data *s, uint64_t off, size_t n, struct buf *room,
		     const uint8_t **ret, struct err *err);
bool dwarf_data_threads(const struct dwarf_data *s); /* several threads may read chunks at once */
/* The string at @off of a whole section; false: none, or one without an end. */
bool dwarf_data_str(const struct dwarf_data *s, uint64_t off, struct str *ret);

static inline struct cursor dwarf_data_cursor(const struct dwarf_data *s, bool big, uint64_t off)
{
	struct cursor c = cursor_at(bytes_of(s->p, s->size), big, 0);

	cursor_seek(&c, off);
	return c;
}

/* ---- the index of a .dwp ---- */

/* Where a unit's parts of the sections start: all 0 except in a .dwp. */
struct dwarf_part {
	uint64_t info, info_end, abbrev, str_offsets, rnglists;
};

struct dwarf_index_place {
	uint64_t off, end; /* in .debug_info.dwo */
	uint32_t row;
};
struct dwarf_index {
	struct dwarf_data data;
	bool big;
	uint32_t n_columns, n_rows, n_slots; /* n_slots is a power of 2; 0: there is no index */
	const uint8_t *ids, *rows, *offsets, *sizes;
	uint32_t info, abbrev, str_offsets, rnglists; /* columns + 1; 0: none */
	/* Offsets in .debug_info.dwo by row, if they have more bits than the index; else NULL. */
	uint64_t *infos;
	struct dwarf_index_place *places; /* sorted by off */
	size_t n_places;
};
int dwarf_index_open(struct dwarf_index *x, const struct dwarf *d, struct err *err);
void dwarf_index_close(struct dwarf_index *x);
/* False: no such unit. *ret_steps: the number of slots read. */
bool dwarf_index_find(const struct dwarf_index *x, uint64_t id, struct dwarf_part *ret, uint32_t *ret_steps);
/* The part that the unit at @off belongs to. */
bool dwarf_index_at(const struct dwarf_index *x, uint64_t off, struct dwarf_part *ret);

/* ---- the file ---- */

struct dwarf_cu_place {
	uint64_t off, end;
};

struct dwarf {
	const struct elf_image *img;
	struct dwarf *alt; /* of the supplementary file */
	/* Split DWARF: with `split` this is a .dwo or .dwp, whose sections are named .debug_info.dwo and so
	 * on. The file with the skeletons has the .dwp, and the finder of .dwo files. */
	bool split, passes; /* passes: it may be closed while its strings are still in use */
	struct dwarf_index index;
	struct dwarf *dwp;
	struct dwarf *own; /* the sections called .dwo of the file itself */
	struct err own_err;
	const struct dwarf_split *finder;
	const char *temp_dir; /* NULL: decompress into memory */
	bool big;
	uint8_t addr_size;
	struct dwarf_data info, abbrev, str, line_str, str_offsets, line, ranges, rnglists, addr;
	struct dwarf_cu_place *units;
	size_t n_units, room_units;
	uint64_t units_held; /* of the image's memory */
	struct err units_err;
	struct err damage[DWARF_MAX_DAMAGE];
	size_t n_damage;
	struct arena arena;
	/* In a relocatable file all addresses here are higher by @moved (open.c). Results have the file's own. */
	const struct dwarf_section_place *code;
	size_t n_code;
	uint64_t moved;
};

/* ERR_LIMIT: @size is more than DWARF_MAX_SECTION. A unit is held in memory whole. */
int dwarf_unit_fits(uint64_t size, struct err *err);

/* A .dwo or .dwp. */
int dwarf_open_one_split(const struct elf_image *img, const char *temp_dir, struct dwarf **ret,
			 struct err *err);

/* The unit of the byte at @off; SIZE_MAX: none. */
size_t dwarf_unit_at(const struct dwarf *d, uint64_t off);

/* The end of the code section of @addr; 0: it is in none. */
uint64_t dwarf_code_end(const struct dwarf *d, uint64_t addr);

/* ---- abbreviations ---- */

/* Kinds of DIEs, for the walk. */
enum dwarf_kind {
	DWARF_KIND_OTHER,
	DWARF_KIND_FUNCTION,
	DWARF_KIND_INLINED,
	DWARF_KIND_SCOPE, /* namespaces, and types that functions are declared in */
	DWARF_KIND_TYPE,  /* types, call sites: no code within */
};

/* Instructions of a program, one for the next attribute each. Those from DWARF_OP_SKIP on skip op -
 * DWARF_OP_SKIP bytes. */
enum dwarf_op {
	DWARF_OP_END,
	DWARF_OP_ULEB,
	DWARF_OP_STRING,
	DWARF_OP_BLOCK1,
	DWARF_OP_BLOCK2,
	DWARF_OP_BLOCK4,
	DWARF_OP_BLOCK,
	DWARF_OP_INDIRECT,
	DWARF_OP_VALUE, /* followed by DWARF_READ_*, slot, DWARF_IS_* */
	/* The most frequent ones of these, followed by slot, DWARF_IS_*. */
	DWARF_OP_VALUE1,
	DWARF_OP_VALUE2,
	DWARF_OP_VALUE4,
	DWARF_OP_VALUE8,
	DWARF_OP_VALUE_ULEB,
	DWARF_OP_UNKNOWN, /* a form of unknown size: the unit cannot be read further */
	DWARF_OP_SKIP,
};
/* How a value is read; numbers up to 8 are so many bytes. */
enum {
	DWARF_READ_FLAG = 0,
	DWARF_READ_ULEB = 9,
	DWARF_READ_SLEB,
	DWARF_READ_IMPLICIT, /* 8 bytes in the program */
	DWARF_READ_ADDRX_OFFSET,
	/* A block; the number is its offset in the unit << 16 | its size, or UINT64_MAX if it is larger. */
	DWARF_READ_BLOCK,
	DWARF_READ_BLOCK1,
};
/* The meaning of the number. */
enum {
	DWARF_IS_NUMBER,
	DWARF_IS_ADDRESS,
	DWARF_IS_ADDRESS_INDEX,
	DWARF_IS_UNIT_REF,
	DWARF_IS_REF,
	DWARF_IS_ALT_REF,
	DWARF_IS_OTHER_REF, /* by signature */
	DWARF_IS_LIST_INDEX,
	DWARF_IS_ADDRESS_OFFSET, /* dwarf_addrx_offset() */
	DWARF_IS_EXPRESSION,     /* that computes an address */
	DWARF_IS_STRING_INDEX,   /* only in programs that read names */
};
enum {
	DWARF_SLOT_SIBLING,
	DWARF_SLOT_LOW,
	DWARF_SLOT_HIGH,
	DWARF_SLOT_RANGES,
	DWARF_SLOT_ORIGIN,
	DWARF_SLOT_CALL_FILE,
	DWARF_SLOT_CALL_LINE,
	DWARF_SLOT_CALL_COLUMN,
	DWARF_SLOT_CALL_DISCRIMINATOR,
	DWARF_N_SLOTS,
	/* The slots of programs that read names. */
	DWARF_SLOT_NAME = 0,
	DWARF_SLOT_LINKAGE,
	DWARF_SLOT_DECL_FILE,
	DWARF_SLOT_DECL_LINE,
	DWARF_SLOT_NAME_ORIGIN,
	DWARF_SLOT_SPECIFICATION,
	DWARF_NO_SLOT = 255,
};

enum dwarf_leaf { DWARF_LEAF_NOT, DWARF_LEAF_PLAIN /* nothing */, DWARF_LEAF_ULEB, DWARF_LEAF_BLOCK };

struct dwarf_decl {
	uint64_t code;
	uint32_t program; /* in the table's programs */
	uint32_t spec;    /* in .debug_abbrev, from the table's start: where the attributes are listed */
	uint32_t size;    /* bytes of that list */
	uint32_t names;   /* + 1: the program that reads names; 0: not compiled yet; UINT32_MAX: impossible */
	uint16_t tag;
	bool children;
	bool lost; /* an attribute that the walk needs has a form that it cannot read */
	uint8_t kind;
	/* The program only skips so many bytes; 0: it does more, or nothing. */
	uint8_t passes;
	/* + 1: the offset of a DW_AT_sibling of 4 bytes, in DIEs that the walk may skip with all their
	 * children: types, and in C scopes and functions without code; 0: the program has to find it. */
	uint8_t jump;
	/* A DIE without children that the walk skips: `before` bytes, a value of this kind, `after` bytes. */
	uint8_t leaf; /* enum dwarf_leaf */
	uint8_t before, after;
	/* It has DW_AT_inline, or it is a function with DW_AT_abstract_origin, as GCC's LTO writes: without code of its
	 * own it may contain functions that have some. */
	bool abstract;
};

struct dwarf_table {
	const struct dwarf *file;
	uint64_t off;
	struct dwarf_format format;
	struct dwarf_decl *decls; /* decls[i] has code i + 1 if `dense`, else sorted by code */
	size_t n_decls, room_decls;
	bool dense;
	struct buf programs;
	uint64_t used; /* the clock at its last use; 0: empty. The oldest is replaced */
};

/* How the forms with small numbers are skipped in units of one format. */
#define DWARF_FORMS     0x40
#define DWARF_NOT_SIZED 255u
struct dwarf_skips {
	struct dwarf_format format; /* version 0: not computed yet */
	uint8_t size[DWARF_FORMS];  /* DWARF_NOT_SIZED: by an op, or the form needs more */
	uint8_t op[DWARF_FORMS];    /* DWARF_OP_END: none */
};

#define DWARF_N_TABLES 16
struct dwarf_tables {
	struct dwarf_table tables[DWARF_N_TABLES];
	struct dwarf_skips skips;
	uint64_t clock;
};

/* Attributes and tags that are read. */
enum {
	DW_TAG_class = 0x02,
	DW_TAG_enumeration = 0x04,
	DW_TAG_compile_unit = 0x11,
	DW_TAG_structure = 0x13,
	DW_TAG_union = 0x17,
	DW_TAG_inlined = 0x1d,
	DW_TAG_module = 0x1e,
	DW_TAG_subprogram = 0x2e,
	DW_TAG_interface = 0x38,
	DW_TAG_namespace = 0x39,
	DW_TAG_call_site = 0x48,
	DW_TAG_GNU_call_site = 0x4109,
};
enum {
	DW_AT_sibling = 0x01,
	DW_AT_name = 0x03,
	DW_AT_stmt_list = 0x10,
	DW_AT_low_pc = 0x11,
	DW_AT_high_pc = 0x12,
	DW_AT_language = 0x13,
	DW_AT_comp_dir = 0x1b,
	DW_AT_inline = 0x20,
	DW_AT_abstract_origin = 0x31,
	DW_AT_decl_file = 0x3a,
	DW_AT_decl_line = 0x3b,
	DW_AT_specification = 0x47,
	DW_AT_ranges = 0x55,
	DW_AT_call_column = 0x57,
	DW_AT_call_file = 0x58,
	DW_AT_call_line = 0x59,
	DW_AT_linkage_name = 0x6e,
	DW_AT_str_offsets_base = 0x72,
	DW_AT_addr_base = 0x73,
	DW_AT_rnglists_base = 0x74,
	DW_AT_dwo_name = 0x76,
	DW_AT_MIPS_linkage_name = 0x2007,
	DW_AT_GNU_dwo_name = 0x2130,
	DW_AT_GNU_dwo_id = 0x2131,
	DW_AT_GNU_ranges_base = 0x2132,
	DW_AT_GNU_addr_base = 0x2133,
	DW_AT_GNU_discriminator = 0x2136,
};
enum { DW_UT_type = 2, DW_UT_skeleton = 4, DW_UT_split_compile = 5, DW_UT_split_type = 6 };

static inline const struct dwarf_decl *dwarf_table_find(const struct dwarf_table *t, uint64_t code)
{
	size_t at;

	if (t->dense)
		return code - 1 < t->n_decls ? &t->decls[code - 1] : NULL;
	at = SEARCH(0, t->n_decls, i, t->decls[i].code < code);
	return at < t->n_decls && t->decls[at].code == code ? &t->decls[at] : NULL;
}

/* How a value of @form is read (DWARF_READ_*), and its meaning (DWARF_IS_*); false: the form is not a number. */
bool dwarf_form_plan(uint64_t form, const struct dwarf_format *f, uint8_t *ret_read, uint8_t *ret_is);
/* The walk's slot of an attribute of a DIE of that kind; DWARF_NO_SLOT: the walk does not need it. */
uint8_t dwarf_code_slot(uint64_t attr, uint8_t kind);
/* dwarf_form_plan() for a slot of the walk. False: the slot cannot have that form. */
bool dwarf_slot_plan(uint8_t slot, uint64_t form, const struct dwarf_format *f, uint8_t *ret_read,
		     uint8_t *ret_is);

/* ---- units ---- */

struct dwarf_cu {
	const struct dwarf *file;
	size_t index;
	uint64_t off, end, die; /* die: the root's offset */
	struct dwarf_format format;
	uint8_t type;
	uint64_t abbrev_off, dwo_id;
	struct dwarf_part part;
	const struct dwarf_cu *skeleton; /* of a split unit: the unit that has its addresses */
	/* Of the root. */
	uint16_t tag;
	uint64_t low_pc, addr_base, str_offsets_base, rnglists_base, ranges_base, stmt_list, language;
	bool has_lines, has_addresses, is_c; /* has_addresses: of code, or a base of indexed ones */
	struct dwarf_value comp_dir, name, dwo_name;
};

struct dwarf_scope {
	uint64_t off, end; /* of the DIE and its children */
	uint32_t parent;   /* UINT32_MAX: none */
};

/* The effect of each special opcode of a line table. */
struct dwarf_specials {
	uint8_t line_range, opcode_base; /* 0: not computed yet */
	int8_t line_base;
	uint8_t min_length;
	uint8_t ops[256]; /* operation advance */
	struct dwarf_special {
		uint16_t addr; /* the same in bytes, with one operation per instruction */
		int16_t line;  /* line advance */
	} steps[256];
};

struct dwarf_reader {
	const struct dwarf *d;
	uint64_t budget;
	struct dwarf_tables tables;
	/* The unit at hand. */
	struct dwarf_cu cu;
	struct dwarf_table *table;
	const uint8_t *p; /* its bytes, from cu.off */
	struct buf room;
	/* Split DWARF: the unit with lines and addresses, which is `cu` itself or `skeleton`, and the .dwo at
	 * hand. */
	const struct dwarf_cu *lines_cu;
	struct dwarf_cu skeleton;
	struct dwarf_dwo *dwo;
	struct err split_err;
	struct dwarf_losses losses;
	/* Its lines. */
	struct dwarf_lines lines;
	struct err lines_err, table_err;
	struct dwarf_losses table_losses;
	size_t at_hand;        /* the unit + 1; 0: none yet */
	bool before_has_lines; /* the line table of the unit before this one */
	uint64_t before_stmt_list;
	const struct dwarf *lines_file;
	struct buf line_room;
	struct dwarf_line_header line_header;
	struct dwarf_specials specials;
	struct arena line_arena;
	uint32_t *file_offs; /* of each file's entry, in the header */
	size_t n_files, room_files;
	struct cursor files;
	const uint8_t *lines_end;
	struct dwarf_row *rows;
	size_t n_rows, room_rows;
	bool with_discriminators;
	uint32_t *discriminators; /* of each row, with with_discriminators */
	size_t room_discriminators;
	struct dwarf_sequence *sequences;
	size_t n_sequences, room_sequences;
	/* Of the walk. */
	struct dwarf_node *nodes;
	size_t n_nodes, room_nodes;
	struct dwarf_span *spans;
	size_t n_spans, room_spans;
	const struct dwarf_section_place *code; /* of the last span: most spans are in the same section */
	struct dwarf_scope *scopes;
	size_t n_scopes, room_scopes;
	struct dwarf_frame *stack;
	size_t depth, room_stack;
	struct budget_hold *memory; /* of the file's image */
	uint64_t held;              /* that the lists and buffers here have of it */
	/* The last unit outside of the unit at hand from which a DIE was read. */
	struct dwarf_cu other;
	struct buf other_room;
	struct arena names;
};

/* Take @n bytes of the budget. ERR_LIMIT: it is used up. */
int dwarf_reader_spend(struct dwarf_reader *r, uint64_t n, struct err *err);
/* Charge the memory of the reader's lists and buffers; dwarf_reader_spend() fails if it is too much. */
void dwarf_reader_account(struct dwarf_reader *r);
/* VEC_GROW() of a list of the reader. */
#define READER_GROW(r, list, n, room)            \
	do {                                     \
		if ((n) >= (room)) {             \
			VEC_GROW(list, n, room); \
			dwarf_reader_account(r); \
		}                                \
	} while (0)

/* Go from the skeleton at hand to its split unit. If that cannot be read, r->split_err says why. */
int dwarf_reader_split(struct dwarf_reader *r, struct err *err);
size_t dwarf_reader_split_room(const struct dwarf_reader *r); /* bytes of its buffer */
void dwarf_reader_split_start(struct dwarf_reader *r); /* a new budget: count all files and units again */
void dwarf_reader_split_done(struct dwarf_reader *r);

/* The compiled table of @cu; valid until DWARF_N_TABLES others were asked for. */
int dwarf_reader_table(struct dwarf_reader *r, const struct dwarf_cu *cu, struct dwarf_table **ret,
		       struct err *err);
/* The program that reads a function's name, valid until the next one is compiled; NULL: no program can. */
const uint8_t *dwarf_table_names(struct dwarf_table *t, const struct dwarf_decl *decl);
void dwarf_tables_free(struct dwarf_tables *t);
void dwarf_tables_forget(struct dwarf_tables *t, const struct dwarf *file); /* because it is being closed */

/* Read the header and the root of a unit. @p is its bytes from cu->off on, or from the root on. The caller
 * sets cu->file, cu->off and cu->skeleton before. */
int dwarf_cu_header(struct dwarf_cu *cu, const uint8_t *p, size_t size, struct err *err);
int dwarf_cu_root(struct dwarf_reader *r, struct dwarf_cu *cu, struct dwarf_table *t, const uint8_t *p,
		  size_t size, struct err *err);

/* A DIE: its unit, the unit's table, and the bytes from its start on. */
struct dwarf_die {
	const struct dwarf_cu *cu;
	const struct dwarf_table *table;
	const uint8_t *p;
	size_t size;
};
struct dwarf_attr {
	uint64_t name, form;
	struct dwarf_value value;
};
typedef void dwarf_attr_fn(void *arg, const struct dwarf_attr *a);
/* Call @fn with each attribute of a DIE. *ret is its abbreviation, which is read again, so its size is spent. */
int dwarf_die_each(struct dwarf_reader *r, const struct dwarf_die *die, dwarf_attr_fn *fn, void *arg,
		   const struct dwarf_decl **ret, struct err *err);

/* The offset in .debug_str that .debug_str_offsets[index] has; false: none. */
bool dwarf_cu_string_off(const struct dwarf_cu *cu, uint64_t index, uint64_t *ret);
/* The string of a string form. False: none, or in the supplementary file that was not given
 * (*ret_alt_missing). */
bool dwarf_cu_string(const struct dwarf_cu *cu, const struct dwarf_value *v, struct str *ret,
		     bool *ret_stable, bool *ret_alt_missing);
/* .debug_addr[index]; false: none. */
bool dwarf_cu_address(const struct dwarf_cu *cu, uint64_t index, uint64_t *ret);
/* dwarf_cu_address_of() for values that are not addresses themselves. */
bool dwarf_cu_address_far(const struct dwarf_cu *cu, uint64_t v, uint8_t is, const uint8_t *unit,
			  uint64_t *ret);
/* The address that a value @v of meaning @is (DWARF_IS_*) stands for; @unit: the unit's bytes. False: none. */
static inline bool dwarf_cu_address_of(const struct dwarf_cu *cu, uint64_t v, uint8_t is, const uint8_t *unit,
				       uint64_t *ret)
{
	if (is > DWARF_IS_ADDRESS)
		return dwarf_cu_address_far(cu, v, is, unit, ret);
	*ret = v;
	return true;
}
/* The address that the expression @e computes. False: none, or an operation that addresses do not need. */
bool dwarf_cu_expression(const struct dwarf_cu *cu, struct bytes e, uint64_t *ret);

/* ---- losses ---- */

/* Count a description of the unit at hand that is left out. The text is kept of the first one. */
void dwarf_reader_lose(struct dwarf_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Count the DIE at @die, whose abbreviation @decl has an attribute in a form that its slot cannot have. */
void dwarf_reader_lose_forms(struct dwarf_reader *r, uint64_t die, const struct dwarf_decl *decl);
/* Set the error of a DIE that has a form of unknown size. Returns -1. */
int dwarf_unknown_form(struct dwarf_reader *r, const struct dwarf_decl *decl, struct err *err);

/* ---- ranges, lines ---- */

/* Add the live part of [lo, hi) to the spans. */
void dwarf_reader_span(struct dwarf_reader *r, uint64_t lo, uint64_t hi, uint32_t node);
int dwarf_reader_ranges(struct dwarf_reader *r, uint64_t v, bool is_index, uint32_t node, struct err *err);
int dwarf_reader_read_lines(struct dwarf_reader *r, struct err *err);
/* Note the offset of each file's entry in the line table at hand, for dwarf_reader_file(). */
int dwarf_reader_index_files(struct dwarf_reader *r, struct err *err);

static inline uint64_t dwarf_get(const uint8_t *p, unsigned size, bool big)
{
	uint64_t v = 0;

	switch (size) {
	case 1:
		return *p;
	case 2: {
		uint16_t x;
		memcpy(&x, p, 2);
		return big ? be16toh(x) : le16toh(x);
	}
	case 4: {
		uint32_t x;
		memcpy(&x, p, 4);
		return big ? be32toh(x) : le32toh(x);
	}
	case 8:
		memcpy(&v, p, 8);
		return big ? be64toh(v) : le64toh(v);
	case 3:
		return big ? (uint64_t)p[0] << 16 | (uint64_t)p[1] << 8 | p[2]
			   : (uint64_t)p[2] << 16 | (uint64_t)p[1] << 8 | p[0];
	}
	return 0;
}
