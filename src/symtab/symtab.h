/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtab: lode's symbol table. A debug file is converted once into a table that is mapped, or read by ranges,
 * and searched without being parsed: address to function, inlined calls, file and line.
 * docs/formats/symtab.md describes the bytes.
 *
 * For each address a table has the best description in the file: a function of DWARF with its inlined calls,
 * lines of code without a function in DWARF, or a symbol. Each frame names its origin. The same file gives the
 * same bytes, with any number of threads.
 */
#pragma once

#include "dwarf/dwarf.h"

#define SYMTAB_VERSION 3
/*
 * Goes up when tables of the same format become better: when calls, lines or names are read that were lost before. Tables
 * of an earlier maker are read, and caches build them again. 0: made before there was this number.
 */
#define SYMTAB_MAKER       9
#define SYMTAB_MAX_HEAD    MIB(64)
#define SYMTAB_MAX_BLOCK   MIB(256)
#define SYMTAB_MAX_SYMBOLS (32u << 20)
#define SYMTAB_MAX_FRAMES  4096u /* of one address */

/* The origin of a frame's function, the best first. */
enum symtab_origin {
	SYMTAB_DWARF,
	SYMTAB_GO,        /* Go's own table */
	SYMTAB_LINES,     /* a line table; the name, if any, is a symbol's */
	SYMTAB_SYMBOL,    /* .symtab */
	SYMTAB_MINIDEBUG, /* .gnu_debugdata */
	SYMTAB_DYNAMIC,   /* .dynsym */
	SYMTAB_PLT,
};
const char *symtab_origin_name(enum symtab_origin o);

enum symtab_flags {
	SYMTAB_HAS_DWARF = 1 << 0,
	SYMTAB_HAS_LINES = 1 << 1,
	SYMTAB_HAS_SYMBOLS = 1 << 2,
	SYMTAB_HAS_COLUMNS = 1 << 3,
	SYMTAB_RELOCATABLE = 1 << 4, /* addresses are those of struct symtab_section */
	SYMTAB_ALT_APPLIED = 1 << 5, /* with a supplementary file */
	/* Some names are in a supplementary file that was not given: a table built with it would be better. */
	SYMTAB_ALT_MISSING = 1 << 6,
	/* Some functions are in .dwo files that were not given; the list of skipped parts names them. */
	SYMTAB_SPLIT_MISSING = 1 << 7,
	SYMTAB_PARTIAL = 1 << 8, /* parts were damaged, see the list of skipped parts */
	SYMTAB_HAS_GO = 1 << 9,
	SYMTAB_HAS_DISCRIMINATORS = 1 << 10,
};

/* The name of a flag for programs ("dwarf", "alt-missing", "partial"); NULL: there is no such flag. */
const char *symtab_flag_name(uint32_t flag);

/* ---- building a table ---- */

struct symtab_options {
	/*
	 * NULL, or the program whose debug file is converted, with the same addresses: its linkage table is read, the
	 * function descriptors of 64-bit PowerPC's first ABI (data, whose bytes a debug file lacks), and its symbols, too,
	 * where the debug file has no symbol table (after `eu-strip -g -f`), and Go's table where it has no DWARF of Go.
	 */
	const struct elf_image *program;
	const struct elf_image *alt;     /* supplementary file, or NULL */
	const struct dwarf_split *split; /* finds split (.dwo, .dwp) files; NULL: there are none */
	const char *temp_dir;            /* see dwarf_open() */
	unsigned n_threads;              /* 0: 1 */
	bool no_columns;
	bool discriminators; /* include them: slower, and a larger table; ignored with no_columns */
	uint64_t chunk_size; /* for tests: bytes of .debug_info that a thread takes at once; 0: the default */
	/*
	 * Not NULL: only these addresses (sorted) will be asked for. If .debug_aranges leads to functions for
	 * all of them, the other units are not read, which takes a fraction of the time.
	 */
	const uint64_t *only;
	size_t n_only;
	/* NULL, or checked every few milliseconds: once it is set, the build fails with ERR_CANCELLED. */
	const atomic_bool *cancel;
	/*
	 * Not NULL: all memory and all temporary copies are granted by these, too. In any case they are limited by
	 * the sizes of the files (elf_held_max()).
	 */
	struct budget_hold *memory, *disk;
};

/*
 * Code that several functions have: aliases, identical code that a linker folded. The table has one of them for each
 * address (docs/formats/symtab.md, Overlaps). These count the others: contiguous ranges of functions of which some code
 * is visible as another function's, the bytes of that code, and bytes of lines without a function that a function hides.
 */
struct symtab_hidden {
	uint64_t n_ranges, size, lines_size;
};

/* Whether the debug file @img lacks names that options.program adds: of its symbol table, descriptors, or Go's table. */
bool symtab_needs_program(const struct elf_image *img);

struct symtab_stats {
	uint64_t n_units, n_functions, n_inlined, n_rows, n_symbols, n_ranges, n_blocks, n_skipped;
	struct symtab_hidden hidden;
};

enum { SYMTAB_NOTHING = 1 };
/*
 * Build the table of a file into @out. SYMTAB_NOTHING: the file has neither DWARF nor symbols of code. Damaged
 * parts are left out and listed in the table; the rest is used. ERR_INVALID: all of it is damaged. ERR_LIMIT: the file
 * needs more memory than it may have; ERR_BUSY: the memory is used up by others now.
 */
int symtab_build(const struct elf_image *img, const struct symtab_options *o, struct buf *out,
		 struct symtab_stats *ret_stats, struct err *err);

/* ---- using a table ---- */

struct symtab;

/*
 * Open a table over bytes in memory or mapped, which are borrowed until close. ERR_INVALID: a table of another
 * version, or a damaged head. Blocks are checked when they are first used.
 */
int symtab_open_mem(struct bytes b, struct symtab **ret, struct err *err);
void symtab_close(struct symtab *t); /* takes NULL */
void symtab_closep(struct symtab **t);

bool symtab_is_table(struct bytes head); /* by its first 8 bytes */

struct symtab_section {
	struct str name;
	uint32_t index;
	uint64_t base, size;
};
struct symtab_info {
	uint32_t flags;
	struct build_id build_id; /* size 0: the file had none */
	uint16_t machine;
	uint32_t maker; /* SYMTAB_MAKER of the program that made it */
	uint64_t size, n_blocks;
	uint64_t hash; /* of the whole table: tables of different content hardly ever share one */
	uint64_t n_skipped;
	const struct str *skipped; /* reasons of the first n_reasons of them */
	size_t n_reasons;
	struct symtab_hidden hidden;           /* 0 in tables of makers before 3 */
	const struct symtab_section *sections; /* of a relocatable file */
	size_t n_sections;
	struct str producer;
};
const struct symtab_info *symtab_info(const struct symtab *t);
/* Of a relocatable file: the first section of that name; that with this index in the file. NULL: none. */
const struct symtab_section *symtab_section(const struct symtab *t, struct str name);
const struct symtab_section *symtab_section_of_index(const struct symtab *t, uint32_t index);

struct symtab_frame {
	struct str name;    /* as in the source, empty: not known. Qualified where there is no linkage name */
	struct str linkage; /* as the linker sees it; empty: the same as name, or not known */
	struct str dir, file;   /* empty: not known. The path is dir, '/', file unless dir is empty */
	uint32_t line, column;  /* 0: not known */
	uint32_t discriminator; /* which of the blocks of the line; 0: the first, or not known */
	struct str start_file_dir, start_file; /* where the function is declared */
	uint32_t start_line;
	bool inlined;   /* into the frame that follows */
	uint8_t origin; /* enum symtab_origin */
};

/* The frames of an address, the innermost first. All of [lo, hi) has these frames. */
struct symtab_frames {
	const struct symtab_frame *list;
	size_t n;
	uint64_t lo, hi;
	uint64_t start, end; /* the contiguous code of the function around the address */
};

/* A position in a table, used by one thread. Fastest when addresses rise. */
struct symtab_finder;
struct symtab_finder *symtab_finder_new(struct symtab *t);
void symtab_finder_free(struct symtab_finder *f); /* takes NULL */
/*
 * Before the first address: all that @f reads is granted by @hold, which must outlive it. A look-up that is refused
 * fails with ERR_BUSY or ERR_LIMIT; another finder may have room for the same address, since it has read no other block.
 */
void symtab_finder_set_memory(struct symtab_finder *f, struct budget_hold *hold);
enum { SYMTAB_NONE = 1 };
/* SYMTAB_NONE: the table has no code at @addr. Views are valid until the next call. ERR_INVALID: a damaged
 * block. ERR_BUSY, ERR_LIMIT: see symtab_finder_set_memory(). */
int symtab_find(struct symtab_finder *f, uint64_t addr, struct symtab_frames *ret, struct err *err);
/* The frames of @addr or, if it has none, of the next address that has. SYMTAB_NONE: no address from @addr on
 * has any. */
int symtab_next(struct symtab_finder *f, uint64_t addr, struct symtab_frames *ret, struct err *err);

/* Append dir/file of a frame. */
void symtab_path(struct str dir, struct str file, struct buf *out);

/* ---- names ---- */

#define SYMTAB_MAX_DEMANGLED KIB(64) /* a longer name stays as it is */
enum symtab_demangling {
	SYMTAB_MANGLED,
	SYMTAB_SIMPLE, /* without parameters */
	SYMTAB_FULL,
};
/* Append a linkage name of C++, Rust or D as it is in the source, any other name unchanged. */
void symtab_demangle(struct str name, enum symtab_demangling how, struct buf *out);

/* ---- checking a table ---- */

struct symtab_check {
	/* Called with each difference; NULL: not called. */
	void (*fn)(void *arg, uint64_t addr, const char *text);
	void *arg;
	/* Results. Shadowed: the address is of several overlapping functions, and the table has another one. */
	uint64_t n_rows, n_equal, n_shadowed, n_different;
};
/*
 * Walk the DWARF again, with other code than the builder's, and ask the table for every row and every start of
 * an inlined call. ERR_INVALID: the DWARF as a whole cannot be read, so that nothing is compared.
 */
int symtab_verify(struct symtab *t, const struct elf_image *img, const struct symtab_options *o,
		  struct symtab_check *check, struct err *err);
