/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf: DWARF 2 to 5, 32 and 64 bit, both byte orders, every byte untrusted.
 *
 * Two readers: dwarf_sources_*() for the source files that a debug file names, and below it `struct dwarf`
 * for its code: functions, calls inlined into them, lines.
 *
 * The names of sources are read from the line tables' file lists and, for DWARF before 5 or where the table
 * has no directory of its own, the unit's DW_AT_comp_dir and DW_AT_name. A name is made absolute by its
 * directory and that by comp_dir, and canonical by path_canonical(); a name that stays relative is kept as it
 * is; "<built-in>" and the like are dropped. Names in a supplementary (dwz) file's strings
 * (DW_FORM_GNU_strp_alt, DW_FORM_strp_sup, DW_FORM_line_strp) need that file.
 */
#pragma once

#include "elf/elf.h"

/*
 * Decompressed, of a section that is held in memory; more is ERR_LIMIT. Units and line tables are read one by one:
 * each has this limit, but not their sections, unless they are compressed and there is no room for a copy on disk.
 */
#define DWARF_MAX_SECTION MIB(2048)
#define DWARF_MAX_FILES   (8u << 20) /* names of one debug file */
#define DWARF_MAX_NAME    KIB(64)    /* one name, joined */

struct dwarf_sources_note {
	uint32_t n_units_skipped; /* damaged or of an unknown version */
	bool alt_missing;         /* some names are in a supplementary file that was not given */
	char reason[160];         /* why the first one was skipped; empty: none was */
};

/*
 * Call @fn with every source name of @img, canonical, once each; @alt is the supplementary file or NULL. A
 * non-zero return of @fn ends the walk and is returned. A damaged unit is skipped and noted; the rest is still
 * read. Time and memory are linear in the sections' sizes.
 */
typedef int dwarf_source_fn(void *arg, struct str name);
int dwarf_sources_each(const struct elf_image *img, const struct elf_image *alt, dwarf_source_fn *fn,
		       void *arg, struct dwarf_sources_note *ret_note, struct err *err);

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
#define DWARF_MAX_DEPTH 4096u       /* of nested DIEs */
#define DWARF_MAX_HOPS  16u         /* abstract origins and specifications in a chain */
#define DWARF_MAX_NODES (16u << 20) /* calls inlined into one function */

/*
 * The DWARF of one file. Small sections are held in memory; .debug_info and .debug_line are read unit by unit
 * unless they are relocated. It does not change while it is open. Readers of several threads may share it if
 * dwarf_threads() returns true.
 */
struct dwarf;

enum { DWARF_NO_CODE = 2 };
/*
 * @img and @alt (the supplementary file, or NULL) are borrowed until close, and so is @temp_dir: large
 * compressed sections are decompressed there into files without names, or into memory if it is NULL or has no
 * room. DWARF_NO_CODE: there is neither .debug_info nor .debug_line. A section that cannot be read counts as
 * absent, and so does a supplementary file: dwarf_damage(). If neither .debug_info nor .debug_line can be read, that
 * is an error. Damage within units is reported by the reader.
 *
 * In a relocatable file every section starts at address 0. Its code sections are laid out one after the other,
 * in their order and aligned; dwarf_code() returns their addresses.
 */
int dwarf_open(const struct elf_image *img, const struct elf_image *alt, const char *temp_dir,
	       struct dwarf **ret, struct err *err);
#define DWARF_MAX_DAMAGE 12u
/* The errors of sections, and of the supplementary file, that could not be read. */
size_t dwarf_damage(const struct dwarf *d, const struct err **ret);
void dwarf_close(struct dwarf *d); /* takes NULL */
void dwarf_closep(struct dwarf **d);
/* Close all sections but those with strings, which names point into. The units' offsets and errors stay
 * available. There must be no reader any more. */
void dwarf_close_code(struct dwarf *d);                  /* takes NULL */
struct budget_hold *dwarf_memory(const struct dwarf *d); /* of its image: readers use it, too */
bool dwarf_threads(const struct dwarf *d);               /* readers of several threads may be used at once */

/*
 * Split DWARF: a skeleton unit has lines and addresses, and the name of a .dwo file that has its functions.
 * They are searched in sections called .dwo of the same file (of clang's -gsplit-dwarf=single, or of a .dwp that was
 * merged into a debug file), then in the .dwp and .dwo files that the caller finds.
 */
struct dwarf_split {
	const struct elf_image *dwp; /* a .dwp, which has many of them, or NULL */
	/*
	 * Open the file @name, absolute or relative to @comp_dir, which may be empty. The reader checks that
	 * it has the unit @id. Several threads may call this at once. DWARF_NO_SPLIT: there is no such file.
	 * NULL: there are no files but the .dwp.
	 */
	int (*open)(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
		    struct err *err);
	void *arg;
};
enum { DWARF_NO_SPLIT = 1 };
/* Call this before there are readers; @split and its image are borrowed until close. On an error, which is the
 * .dwp's, the .dwp is ignored. */
int dwarf_open_split(struct dwarf *d, const struct dwarf_split *split, struct err *err);

/*
 * The address of a section of code, or of a part of an executable segment whose sections were removed (index 0).
 * Code at other addresses is dead: a linker has dropped it and left its description.
 */
struct dwarf_section_place {
	uint32_t index; /* in the image */
	uint64_t base, size;
};
/*
 * The size of the only place of a file that has neither sections of code nor executable segments: its code may
 * be anywhere but at the lowest and the highest addresses.
 */
#define DWARF_CODE_ANYWHERE (UINT64_MAX - KIB(8))
/* Sorted by base. */
size_t dwarf_code(const struct elf_image *img, struct arena *a, const struct dwarf_section_place **ret);
/*
 * The base of each section of the relocatable file @img, by section index; the caller frees it. Sections
 * without code, and all sections of a file that is not relocatable, have base 0.
 *
 * @list must be dwarf_code(img)'s own: its indices mean nothing in another file. An index that @img does not
 * have (index 0, of a part of a segment) is skipped.
 */
uint64_t *dwarf_code_bases(const struct elf_image *img, const struct dwarf_section_place *list, size_t n);
/* The section that has @addr; NULL: none. */
const struct dwarf_section_place *dwarf_place_at(const struct dwarf_section_place *list, size_t n,
						 uint64_t addr);

/* The units of .debug_info in their order, and their sizes, so that the work can be divided. */
size_t dwarf_n_units(const struct dwarf *d);
uint64_t dwarf_unit_off(const struct dwarf *d, size_t unit);
uint64_t dwarf_unit_size(const struct dwarf *d, size_t unit);
/* Why the unit headers could not be read to the end; ERR_NONE: they could. */
const struct err *dwarf_units_err(const struct dwarf *d);
/* The size of the sections that units refer to, which may be read again for each unit. */
uint64_t dwarf_shared_size(const struct dwarf *d);

/*
 * The units that have code at one of @addrs (sorted) according to .debug_aranges, on the heap, sorted. A hint:
 * other units may have code there, and these may have none.
 */
int dwarf_units_of(const struct dwarf *d, const uint64_t *addrs, size_t n, size_t **ret, size_t *ret_n,
		   struct err *err);

struct dwarf_reader;
struct dwarf_reader *dwarf_reader_new(const struct dwarf *d); /* @d is borrowed */
void dwarf_reader_free(struct dwarf_reader *r);               /* takes NULL */
/* Take the buffer of the unit's bytes, emptied, to use it for something else. There is no unit at hand then. */
struct buf dwarf_reader_take_room(struct dwarf_reader *r);
/*
 * Set how many bytes may be read from now on, besides those of the units, before a unit fails with ERR_LIMIT.
 * Tables, lists and names can be referred to from many places, so without this a small file could cost any
 * time.
 */
void dwarf_reader_budget(struct dwarf_reader *r, uint64_t bytes);
/* Read rows with their discriminators, which takes a little longer. Call it before the first unit. */
void dwarf_reader_discriminators(struct dwarf_reader *r);

enum { DWARF_NO_UNIT = 3 }; /* type units and the like: no code in it */
/*
 * Go to a unit: read its header, its root, its line table. ERR_INVALID, ERR_LIMIT: damage; the next unit may
 * be good. Damage of the line table alone is reported by dwarf_reader_lines_err(); the rows before it are
 * there.
 */
int dwarf_reader_unit(struct dwarf_reader *r, size_t unit, struct err *err);
const struct err *dwarf_reader_lines_err(const struct dwarf_reader *r);
/* No DIE that a function of the unit at hand refers to is at this offset or past it. */
uint64_t dwarf_reader_dies_end(const struct dwarf_reader *r);
/* Why the split unit of a skeleton unit could not be read. ERR_NONE: it is at hand, or there is none. */
const struct err *dwarf_reader_split_err(const struct dwarf_reader *r);
uint64_t dwarf_reader_split_size(const struct dwarf_reader *r); /* bytes of the split unit at hand; 0: none */

/*
 * Descriptions of the unit at hand that are left out though those after them are read: attributes in forms that
 * their kind cannot have, addresses and lists that the sections lack, parts of the line table. They are complete
 * after the walk and after the last name. The line table's are those of the first of the units that share it.
 */
struct dwarf_losses {
	uint64_t n;
	struct err first;
};
const struct dwarf_losses *dwarf_reader_losses(const struct dwarf_reader *r);

/* One row of the line table, in force from its address to that of the next row. */
struct dwarf_row {
	uint32_t off;  /* from the sequence's base */
	uint32_t line; /* 0: the code belongs to no line */
	uint32_t file; /* of the unit's table */
	uint16_t column;
	uint16_t end; /* 1: the address after the last instruction */
};
/* Rows of rising addresses; the last one has `end`. */
struct dwarf_sequence {
	uint64_t base, end;
	size_t row, n_rows;
	size_t outer; /* + 1: the nearest one before it that ends later; 0: none */
};
/* The sequences of live code, sorted by base. They have the last one of several rows at one address, and no row
 * that repeats the one before. */
struct dwarf_lines {
	const struct dwarf_row *rows;
	const uint32_t *discriminators; /* of each row; NULL: dwarf_reader_discriminators() was not called */
	const struct dwarf_sequence *sequences;
	size_t n_sequences;
	uint64_t table; /* the offset of the table: the same for units that share one */
	bool shared;    /* the unit before had the same one */
	bool columns;   /* some row may have one, or a discriminator if these are read */
};
const struct dwarf_lines *dwarf_reader_lines(const struct dwarf_reader *r);

/* A file of the unit's table. Its path is comp_dir, dir and name joined; any but name may be empty. The views
 * are valid until close (`stable`) or until the next unit. False: there is no such file. */
struct dwarf_file_name {
	struct str comp_dir, dir, name;
	bool stable;
};
bool dwarf_reader_file(struct dwarf_reader *r, uint64_t file, struct dwarf_file_name *ret);

/* A function that has code, or a call inlined into one. */
struct dwarf_node {
	uint64_t die; /* for dwarf_reader_name() */
	bool in_alt;  /* likewise */
	bool has_call_file;
	uint32_t parent; /* an index of the array; the function itself is 0 and its own parent */
	uint32_t call_file, call_line, call_column; /* 0: not said; call_file of DWARF 5 counts from 0 */
	uint32_t call_discriminator;
};
/* Addresses [lo, hi) of a node, live and not empty. */
struct dwarf_span {
	uint64_t lo, hi;
	uint32_t node;
};
/*
 * In the order of the DIEs: a node comes after its parent, spans are in the order of their nodes. Where spans
 * overlap, the code is the later node's. Spans of calls may extend past those of the function, which may have none.
 */
struct dwarf_function {
	const struct dwarf_node *nodes;
	const struct dwarf_span *spans;
	size_t n_nodes, n_spans;
};
/*
 * Call @fn with every function of the unit that has live code, itself or in its calls, after its last DIE. A non-zero
 * return of @fn ends the walk and is returned. Damage is reported after all functions before it.
 */
int dwarf_reader_walk(struct dwarf_reader *r,
		      int (*fn)(void *arg, const struct dwarf_function *f, struct err *err), void *arg,
		      struct err *err);

/*
 * The names of a function: DW_AT_linkage_name, and DW_AT_name, which is qualified by the scopes of its
 * declaration ("ns::type::f") if there is no linkage name to give them. Empty: not in the DWARF. `decl_file` is
 * of the line table of the unit at hand, 0 if it is of another table.
 */
struct dwarf_name {
	struct str name, linkage;
	bool name_stable, linkage_stable; /* the view is valid until close; else until the next call */
	uint32_t decl_file;               /* + 1: DWARF 5 has a file 0; 0: none */
	uint32_t decl_line;
	uint64_t language; /* of the unit that it is declared in */
	bool alt_missing;  /* the name is in the supplementary file, which was not given */
};
int dwarf_reader_name(struct dwarf_reader *r, uint64_t die, bool in_alt, struct dwarf_name *ret,
		      struct err *err);

/*
 * A key that identifies a name without reading its strings: two DIEs of one file that have the same key (with
 * the file of the declaration in place of its number) have the same name. False: this name needs
 * dwarf_reader_name().
 */
#define DWARF_NAME_NONE UINT32_MAX
struct dwarf_name_key {
	uint32_t name, linkage;        /* in .debug_str */
	uint32_t decl_file, decl_line; /* as of struct dwarf_name */
};
bool dwarf_reader_name_key(struct dwarf_reader *r, uint64_t die, bool in_alt, struct dwarf_name_key *ret);
/* Prefetch a DIE of the unit at hand. */
void dwarf_reader_name_prefetch(const struct dwarf_reader *r, uint64_t die);
/* The name of such a key. DWARF_NAME_LONG: use dwarf_reader_name(). ERR_LIMIT: see dwarf_reader_budget(). */
enum { DWARF_NAME_LONG = 1 };
int dwarf_reader_name_of_key(struct dwarf_reader *r, const struct dwarf_name_key *key, struct dwarf_name *ret,
			     struct err *err);

/* The same for files: offsets of strings, the sections that they are in, and whether dir stands for comp_dir. */
struct dwarf_file_key {
	uint32_t name, dir, comp_dir;
	uint32_t sections;
};
bool dwarf_reader_file_key(struct dwarf_reader *r, uint64_t file, struct dwarf_file_key *ret);
