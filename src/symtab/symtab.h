/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtab: lode's symbol table. A debug file is converted once into a table that is mapped, or read by ranges,
 * and searched without being parsed: address to function, inlined calls, file and line.
 * docs/formats/symtab.md describes the bytes.
 *
 * A table is made of the best that a file has for each address: DWARF's functions with what was inlined into
 * them, lines of code that has no function in DWARF, symbols. Each frame says which. The same file gives the
 * same bytes, with any number of threads.
 */
#pragma once

#include "dwarf/dwarf.h"

#define SYMTAB_VERSION     3
#define SYMTAB_MAX_HEAD    MIB(64)
#define SYMTAB_MAX_BLOCK   MIB(256)
#define SYMTAB_MAX_SYMBOLS (32u << 20)
#define SYMTAB_MAX_FRAMES  4096u /* of one address */

/* Where a frame's function is known from, the best first. */
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
	SYMTAB_RELOCATABLE = 1 << 4,   /* addresses are those of struct symtab_section */
	SYMTAB_ALT_APPLIED = 1 << 5,   /* with a supplementary file */
	SYMTAB_ALT_MISSING = 1 << 6,   /* some names are in a supplementary file that was not given: another
					  table would be better */
	SYMTAB_SPLIT_MISSING = 1 << 7, /* some functions are in .dwo files that were not given: the list says
					  in which */
	SYMTAB_PARTIAL = 1 << 8,       /* something was damaged, see the list */
	SYMTAB_HAS_GO = 1 << 9,
	SYMTAB_HAS_DISCRIMINATORS = 1 << 10,
};

/* ---- making one ---- */

struct symtab_options {
	const struct elf_image *alt;     /* supplementary file, or NULL */
	const struct dwarf_split *split; /* who finds split (.dwo, .dwp) files; NULL: nobody */
	const char *temp_dir;            /* as of dwarf_open() */
	unsigned n_threads;              /* 0: 1 */
	bool no_columns;
	bool discriminators; /* these too, which takes longer and makes it larger; not without columns */
	uint64_t chunk_size; /* for tests: of .debug_info, what one thread takes at once; 0: the usual */
	/*
	 * Not NULL: only these addresses (sorted) will be asked for. Where .debug_aranges leads to functions
	 * for all of them the other units are not read, which takes a small part of the time.
	 */
	const uint64_t *only;
	size_t n_only;
	/* NULL, or: looked at every few milliseconds; once it is set there is ERR_CANCELLED. */
	const atomic_bool *cancel;
};

struct symtab_stats {
	uint64_t n_units, n_functions, n_inlined, n_rows, n_symbols, n_ranges, n_blocks, n_skipped;
};

enum { SYMTAB_NOTHING = 1 };
/*
 * The table of a file, into @out. SYMTAB_NOTHING: it has neither DWARF nor symbols of code. What is damaged
 * is left out and listed in the table; the rest is used.
 */
int symtab_build(const struct elf_image *img, const struct symtab_options *o, struct buf *out,
		 struct symtab_stats *ret_stats, struct err *err);

/* ---- using one ---- */

struct symtab;

/*
 * Over a source: one read gets the head, one more each block that is asked for. A table of another version,
 * or whose head is damaged, is ERR_INVALID. Blocks are checked when they are first used.
 */
int symtab_open(struct source *src, bool takes, struct symtab **ret, struct err *err);
/* Over bytes in memory or mapped: borrowed until close. */
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
	uint64_t size, n_blocks;
	uint64_t hash; /* of all of it: the same in tables of the same content, and hardly ever in others */
	uint64_t n_skipped;
	const struct str *skipped; /* the first of them, n_reasons */
	size_t n_reasons;
	const struct symtab_section *sections; /* of a relocatable file */
	size_t n_sections;
	struct str producer;
};
const struct symtab_info *symtab_info(const struct symtab *t);

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

/* The frames of an address, the innermost first. */
struct symtab_frames {
	const struct symtab_frame *list;
	size_t n;
	uint64_t lo, hi;     /* all of [lo, hi) has this answer */
	uint64_t start, end; /* of the contiguous code range of function that it is in */
};

/* One who asks, of one thread. Fastest when addresses rise. */
struct symtab_finder;
struct symtab_finder *symtab_finder_new(struct symtab *t);
void symtab_finder_free(struct symtab_finder *f); /* takes NULL */
enum { SYMTAB_NONE = 1 };
/* 0 or SYMTAB_NONE: no code that the table knows. Views are good until the next call. ERR_INVALID: a damaged
 * block. */
int symtab_find(struct symtab_finder *f, uint64_t addr, struct symtab_frames *ret, struct err *err);
/* The answer for @addr or, where there is none, for the next address that has one. SYMTAB_NONE: there is none
 * behind. */
int symtab_next(struct symtab_finder *f, uint64_t addr, struct symtab_frames *ret, struct err *err);

/*
 * The same as numbers, for who asks for many addresses and looks each function and file up once. A number is
 * of one table; a function has one where it is called and one for each code range of its own code, of which a
 * large one has several; and both it and a file have others in other blocks. 0: not known.
 */
struct symtab_number {
	uint64_t function, file;
	uint32_t line, column, discriminator;
	bool inlined;
	uint8_t origin;
};
struct symtab_numbers {
	const struct symtab_number *list;
	size_t n;
	uint64_t lo, hi, start, end; /* as of struct symtab_frames */
};
int symtab_find_numbers(struct symtab_finder *f, uint64_t addr, struct symtab_numbers *ret, struct err *err);
/* The frame that a number stands for; views as of symtab_find(). ERR_INVALID also for what is none. */
int symtab_frame_of(struct symtab_finder *f, const struct symtab_number *number, struct symtab_frame *ret,
		    struct err *err);

/* dir/file of a frame, appended. */
void symtab_path(struct str dir, struct str file, struct buf *out);

/* ---- names ---- */

#define SYMTAB_MAX_DEMANGLED KIB(64) /* a longer name stays as it is */
enum symtab_demangling {
	SYMTAB_MANGLED,
	SYMTAB_SIMPLE, /* without parameters */
	SYMTAB_FULL,
};
/* A linkage name of C++, Rust or D as it is in the source, appended; another one as it is. */
void symtab_demangle(struct str name, enum symtab_demangling how, struct buf *out);

/* ---- checking one ---- */

struct symtab_check {
	uint64_t n_rows, n_equal, n_shadowed,
		n_different; /* shadowed: of functions that lie over one another */
};
/*
 * Walk the DWARF again, in another way than the one that the table was made in, and ask the table for every
 * row and every begin of an inlined call. fn is told of each difference.
 */
int symtab_verify(struct symtab *t, const struct elf_image *img, const struct symtab_options *o,
		  void (*fn)(void *arg, uint64_t addr, const char *text), void *arg, struct symtab_check *ret,
		  struct err *err);
