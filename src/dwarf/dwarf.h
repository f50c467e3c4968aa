/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf: DWARF 2 to 5, 32 and 64 bit, both byte orders, every byte untrusted.
 *
 * Two readers: dwarf_sources_*() for the source files that a debug file names, and below it `struct dwarf`
 * for its code: functions, calls inlined into them, lines.
 *
 * The names of sources are read from the line tables' file lists (DWARF 2 to 5, 32 and 64 bit, both byte
 * orders) and, for DWARF before 5 or where the table has no directory of its own, the unit's DW_AT_comp_dir
 * and DW_AT_name. A name is made absolute by its directory and that by comp_dir, and canonical by
 * path_canonical(); a name that stays relative is kept as it is; "<built-in>" and the like are dropped. Names
 * in a supplementary (dwz) file's strings (DW_FORM_GNU_strp_alt, DW_FORM_strp_sup, DW_FORM_line_strp) need
 * that file.
 */
#pragma once

#include "elf/elf.h"

#define DWARF_MAX_SECTION MIB(2048)  /* decompressed, of one section; more is ERR_LIMIT */
#define DWARF_MAX_FILES   (8u << 20) /* names of one debug file */
#define DWARF_MAX_NAME    KIB(64)    /* one name, joined */

struct dwarf_sources_note {
	uint32_t n_units_skipped; /* damaged or of an unknown version */
	bool alt_missing;         /* some names are in a supplementary file that was not given */
	char reason[160];         /* of the first that was skipped; empty: none */
};

/*
 * Every source name of @img, once each, canonical; @alt is the supplementary file or NULL. fn's non-zero
 * return ends it and is returned. A damaged unit is skipped and noted; the rest is still read. Time and
 * memory are linear in the sections' sizes.
 */
int dwarf_sources_each(const struct elf_image *img, const struct elf_image *alt,
		       int (*fn)(void *arg, struct str name), void *arg, struct dwarf_sources_note *ret_note,
		       struct err *err);

/* The same as a set that answers "does this debug file name this path?" in constant time; built once, then
 * read by many threads. */
struct dwarf_sources;
int dwarf_sources_build(const struct elf_image *img, const struct elf_image *alt, struct dwarf_sources **ret,
			struct err *err);
bool dwarf_sources_has(const struct dwarf_sources *s, struct str canonical);
size_t dwarf_sources_n(const struct dwarf_sources *s);
size_t dwarf_sources_weight(const struct dwarf_sources *s); /* bytes of memory */
const struct dwarf_sources_note *dwarf_sources_note(const struct dwarf_sources *s);
void dwarf_sources_free(struct dwarf_sources *s);

/* ---- code: functions, calls inlined into them, lines ---- */

#define DWARF_MAX_UNITS (8u << 20)
#define DWARF_MAX_DEPTH 4096u       /* of DIEs within one another */
#define DWARF_MAX_HOPS  16u         /* abstract origins and specifications, one after the other */
#define DWARF_MAX_NODES (16u << 20) /* calls inlined into one function */

/*
 * The DWARF of one file. Small sections are held in memory; .debug_info and .debug_line are read unit by unit
 * where they are not relocated. When it is open it does not change: many readers, one a
 * thread, may use it if `threads` says so.
 */
struct dwarf;

enum { DWARF_NO_CODE = 2 };
/*
 * @img and @alt (the supplementary file, or NULL) are borrowed until close, and so is @temp_dir: where large
 * compressed sections are unpacked into files without names; NULL, or there is no room: into memory.
 * DWARF_NO_CODE: there is neither .debug_info nor .debug_line. A section that cannot be read is an error;
 * damage within units is told by the reader.
 *
 * In a relocatable file every section begins at address 0. Its code sections are laid out one after the
 * other, in their order and aligned; dwarf_code() tells where.
 */
int dwarf_open(const struct elf_image *img, const struct elf_image *alt, const char *temp_dir,
	       struct dwarf **ret, struct err *err);
void dwarf_close(struct dwarf *d); /* takes NULL */
void dwarf_closep(struct dwarf **d);
/* There are no readers any more and will be none: of the sections only those with strings are kept, which
 * names point into, and what is told of the units. */
void dwarf_close_code(struct dwarf *d);    /* takes NULL */
bool dwarf_threads(const struct dwarf *d); /* readers of several threads may be used at once */

/*
 * Split DWARF: a skeleton unit has lines and addresses, and the name of a .dwo file that has its functions.
 * Where these files are is known to the caller alone.
 */
struct dwarf_split {
	const struct elf_image *dwp; /* a .dwp, which has many of them, or NULL */
	/*
	 * Open the file that is called @name, absolute or from @comp_dir, which may be empty. It is looked at
	 * whether it is the right one (@id). Several threads may call this at once. DWARF_NO_SPLIT: there is
	 * none. NULL: there are none but those in the .dwp.
	 */
	int (*open)(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
		    struct err *err);
	void *arg;
};
enum { DWARF_NO_SPLIT = 1 };
/* To be called before there are readers; @split and its image are borrowed until close. An error is the
 * .dwp's: then it is as if there were none. */
int dwarf_open_split(struct dwarf *d, const struct dwarf_split *split, struct err *err);

/* Where a section of code lies. Code elsewhere is dead: a linker has thrown it away and left its description.
 */
struct dwarf_section_place {
	uint32_t index; /* in the image */
	uint64_t base, size;
};
/* Sorted by base. */
size_t dwarf_code(const struct elf_image *img, struct arena *a, const struct dwarf_section_place **ret);
/*
 * The base of each section of the relocatable file @img, by section index; the caller frees it. Sections
 * without code, and all sections of a file that is not relocatable, have base 0.
 *
 * @list must be dwarf_code(img)'s own: its indices mean nothing in another file. An index that @img does not
 * have (a range of a segment has index 0, also where there are no sections) is skipped.
 */
uint64_t *dwarf_code_bases(const struct elf_image *img, const struct dwarf_section_place *list, size_t n);
/* The one of them that has @addr; NULL: none. */
const struct dwarf_section_place *dwarf_place_at(const struct dwarf_section_place *list, size_t n,
						 uint64_t addr);

/* The units of .debug_info in their order; each has its bytes, so that work can be cut in parts. */
size_t dwarf_n_units(const struct dwarf *d);
uint64_t dwarf_unit_off(const struct dwarf *d, size_t unit);
uint64_t dwarf_unit_size(const struct dwarf *d, size_t unit);
/* Where the unit headers themselves became unreadable; ERR_NONE: nowhere. */
const struct err *dwarf_units_err(const struct dwarf *d);
/* The bytes of all that units refer to and that may be read again for each of them. */
uint64_t dwarf_shared_size(const struct dwarf *d);

/*
 * Units that .debug_aranges says have code at one of @addrs (sorted), on the heap, sorted. A hint: there may
 * be more of them, and these may have none.
 */
int dwarf_units_of(const struct dwarf *d, const uint64_t *addrs, size_t n, size_t **ret, size_t *ret_n,
		   struct err *err);

struct dwarf_reader;
struct dwarf_reader *dwarf_reader_new(const struct dwarf *d); /* @d is borrowed */
void dwarf_reader_free(struct dwarf_reader *r);               /* takes NULL */
/* What units were read into, empty, for the caller to fill: there is no unit at hand any more. */
struct buf dwarf_reader_take_room(struct dwarf_reader *r);
/*
 * How many bytes may be read from now on, beside those of the units, before a unit is given up with
 * ERR_LIMIT: tables, lists and names can be referred to from many places, so that a small file could cost any
 * time.
 */
void dwarf_reader_budget(struct dwarf_reader *r, uint64_t bytes);
/* Rows are wanted with their discriminators, which takes a little longer. Before the first unit. */
void dwarf_reader_discriminators(struct dwarf_reader *r);

enum { DWARF_NO_UNIT = 3 }; /* type units and the like: no code in it */
/*
 * Go to a unit: its header, its root, its line table. ERR_INVALID, ERR_LIMIT: damage; the next unit may be
 * good. That the line table alone is damaged is told by dwarf_reader_lines_err(); the rows before the damage
 * are there.
 */
int dwarf_reader_unit(struct dwarf_reader *r, size_t unit, struct err *err);
const struct err *dwarf_reader_lines_err(const struct dwarf_reader *r);
/* Of a skeleton unit: why what is in its .dwo file is not to be had. ERR_NONE: it is at hand, or there is
 * none. */
const struct err *dwarf_reader_split_err(const struct dwarf_reader *r);
uint64_t dwarf_reader_split_size(const struct dwarf_reader *r); /* bytes of the split unit at hand; 0: none */

/* One row of the line table, in force from its address to that of the next row. */
struct dwarf_row {
	uint32_t off;  /* from the sequence's base */
	uint32_t line; /* 0: the code belongs to no line */
	uint32_t file; /* of the unit's table */
	uint16_t column;
	uint16_t end; /* 1: behind the last instruction */
};
/* Rows of rising addresses, the last one being `end`. */
struct dwarf_sequence {
	uint64_t base, end;
	size_t row, n_rows;
};
/* Those of live code, sorted by base; of rows at one address the last, and none that repeats the one before
 * it. */
struct dwarf_lines {
	const struct dwarf_row *rows;
	const uint32_t *discriminators; /* of each row; NULL: they are not wanted */
	const struct dwarf_sequence *sequences;
	size_t n_sequences;
	uint64_t table; /* the offset of the table: the same for units that share one */
	bool shared;    /* the unit before had the same one */
	bool columns;   /* some row may have one, or a discriminator that is wanted */
};
const struct dwarf_lines *dwarf_reader_lines(const struct dwarf_reader *r);

/* A file of the unit's table. @comp_dir, @dir and @name are what a path is joined of, any but name may be
 * empty. Views good until close
 * (`stable`) or until the next unit. False: no such file. */
struct dwarf_file_name {
	struct str comp_dir, dir, name;
	bool stable;
};
bool dwarf_reader_file(struct dwarf_reader *r, uint64_t file, struct dwarf_file_name *ret);

/* A function that has code, or a call inlined into one. */
struct dwarf_node {
	uint64_t die; /* that dwarf_reader_name() takes */
	bool in_alt;  /* ... with this */
	bool has_call_file;
	uint32_t parent; /* of the array; the function itself is 0 and its own parent */
	uint32_t call_file, call_line, call_column; /* 0: not said; call_file of DWARF 5 counts from 0 */
	uint32_t call_discriminator;
};
/* Addresses [lo, hi) of a node, live and not empty. */
struct dwarf_span {
	uint64_t lo, hi;
	uint32_t node;
};
/* In the order of the DIEs: a node stands behind its parent, spans are in the order of their nodes. Where
 * they overlap, the one of the later node tells what the code is. */
struct dwarf_function {
	const struct dwarf_node *nodes;
	const struct dwarf_span *spans;
	size_t n_nodes, n_spans;
};
/*
 * Every function of the unit that has live code, when its last DIE is read. fn's non-zero return ends it and
 * is returned. Damage is told after all functions before it.
 */
int dwarf_reader_walk(struct dwarf_reader *r,
		      int (*fn)(void *arg, const struct dwarf_function *f, struct err *err), void *arg,
		      struct err *err);

/*
 * What a function is called: DW_AT_linkage_name, and DW_AT_name, which has the names of what it is declared
 * in before it ("ns::type::f") where there is no linkage name to tell them. Empty: not said. `decl_file` is
 * of the line table of the unit at hand, 0 where it is of another's.
 */
struct dwarf_name {
	struct str name, linkage;
	bool name_stable, linkage_stable; /* the view is good until close; else until the next call */
	uint32_t decl_file, decl_line;
	uint64_t language; /* of the unit that it is declared in */
	bool alt_missing;  /* it is told in the supplementary file, which was not given */
};
int dwarf_reader_name(struct dwarf_reader *r, uint64_t die, bool in_alt, struct dwarf_name *ret,
		      struct err *err);

/*
 * The same told apart without the strings themselves: two DIEs of one file that have the same key (with the
 * file of the declaration in the place of its number) have the same name. False: this one is not that simple.
 */
#define DWARF_NAME_NONE UINT32_MAX
struct dwarf_name_key {
	uint32_t name, linkage; /* in .debug_str */
	uint32_t decl_file, decl_line;
};
bool dwarf_reader_name_key(struct dwarf_reader *r, uint64_t die, bool in_alt, struct dwarf_name_key *ret);
/* The DIE of the unit at hand will be asked for. */
void dwarf_reader_name_prefetch(const struct dwarf_reader *r, uint64_t die);
/* The name that such a key means. DWARF_NAME_LONG: that is for dwarf_reader_name() to find. ERR_LIMIT: see
 * dwarf_reader_budget(). */
enum { DWARF_NAME_LONG = 1 };
int dwarf_reader_name_of_key(struct dwarf_reader *r, const struct dwarf_name_key *key, struct dwarf_name *ret,
			     struct err *err);

/* Likewise of files: offsets of strings, and the sections that they are in. */
struct dwarf_file_key {
	uint32_t name, dir, comp_dir;
	uint32_t sections;
};
bool dwarf_reader_file_key(struct dwarf_reader *r, uint64_t file, struct dwarf_file_key *ret);
