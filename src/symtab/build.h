/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a table.
 *
 *   intern      strings, files, functions: each once
 *   batch       units to code ranges: contiguous code of one function, with its inlined calls and rows
 *   names       ids of a unit's files and functions
 *   code        the code of a function and of the calls inlined into it
 *   range       one code range and its rows
 *   go          Go's own table to code ranges; see go.h
 *   symbols     ELF symbols
 *   dynamic     those of a file without sections
 *   plt         names of linkage table entries
 *   candidates  the code ranges and symbols that claim addresses
 *   overlaps    the visible one of those that overlap
 *   block       visible ranges to blocks
 *   strings     a block's strings (it reads them too)
 *   head        the table's head
 *   units       all units, by several threads
 *   hidden      the account of code whose description is not visible
 *   visible     the visible ranges to blocks, with the names that symbols give them
 *   account     the memory of all this
 *   build       all of it in its order
 */
#pragma once

#include "symtab/format.h"
#include "symtab/intern.h"

#include <stdatomic.h>

/* ---- code ranges ---- */

/* The entry that rows refer to: an inlined call (or the function itself) in its first file, or the same call
 * in another file. */
struct range_entry {
	uint32_t parent;   /* an entry of the code range; with `other_file` the entry of the first file */
	uint32_t function; /* of a call; 0 for the first entry and with `other_file` */
	uint32_t file, line;
	uint32_t call_file, call_line;
	uint16_t call_column, column;
	uint8_t other_file;
	uint8_t passive; /* it was needed as a parent before it had rows; PASSIVE_USED: it has rows by now */
};

enum { PASSIVE_USED = 2 };

/* The discriminators that belong to an entry's columns. Few tables have them. */
struct range_entry_more {
	uint32_t discriminator, call_discriminator;
};

/* Functions start at multiples of 16, so padding is less than that. */
#define PADDING_END 16u

struct code_range {
	uint64_t start;
	uint32_t size;
	uint32_t tail;     /* bytes after it that its last row still covers: padding, code of no function */
	uint32_t function; /* 0: not known */
	uint32_t batch;
	uint32_t first_entry, n_entries;
	uint64_t rows_off;
	uint32_t rows_size;
	uint32_t unit;
	uint8_t origin;
	bool part;        /* it continues the function of the code range before */
	bool columns;     /* its rows may have columns */
	bool from_symbol; /* it is the tail of another one: visible only from the first symbol in it on */
	bool has_lines;   /* the function's own, or those of calls */
	bool has_calls;
	bool of_calls; /* only calls of the function have this code: visible where no function has it */
};

struct skipped {
	size_t unit;
	char *reason;
};

/* The output of one thread for its units. */
struct batch {
	const struct dwarf *dwarf;
	struct dwarf_reader *reader;
	struct intern in;
	/* Ids + 1 from earlier units: functions and files by the numbers that identify them in the DWARF. */
	struct quad_map known, known_files;
	struct code_range *ranges;
	struct range_entry *entries;
	struct range_entry_more *more; /* one for each entry; NULL: without discriminators */
	struct buf rows;
	size_t n_ranges, room_ranges, n_entries, room_entries, room_more;
	struct skipped *skipped;
	size_t n_skipped, room_skipped;
	uint64_t n_more; /* parts of these that are skipped, too, without reasons of their own */
	uint32_t flags;
	uint64_t n_functions, n_inlined, n_rows;
	uint64_t row_budget;             /* steps over rows that are still allowed */
	const struct span *symbol_spans; /* struct build's; NULL: not known */
	size_t n_symbol_spans;
	bool columns, discriminators;
	const atomic_bool *cancel; /* NULL: it cannot be cancelled */
	struct budget_hold *memory;
	uint64_t held; /* of it, besides the arena of `in` */
	uint32_t index;
	struct unit_work *work;
};

struct batch *batch_new(const struct dwarf *d, uint32_t index, const struct symtab_options *o,
			struct budget_hold *memory);
/* Charge the memory of its lists; budget_hold_check() fails if it is too much. */
void batch_account(struct batch *b);
void batch_free(struct batch *b);
/* There are no more units: free all that only their reading needs. The buffer of the units' bytes goes to
 * @room if that is not NULL and has none. */
void batch_end(struct batch *b, struct buf *room);
/* Read the units [first, end). Damage is listed; -1 is a failure of the system. */
int batch_run(struct batch *b, size_t first, size_t end, struct err *err);
void batch_skip(struct batch *b, size_t unit, const struct err *why);

/* ---- symbols ---- */

struct symbol {
	uint64_t start, end; /* end == start: its size is not known */
	struct str name;
	uint8_t origin;
	uint8_t rank; /* among symbols at one address, the lowest is the best */
};
#define SYMBOLS_MAX_DAMAGE 4u
struct symbols {
	struct symbol *list; /* sorted by start, then the best first */
	size_t n, room;
	struct arena arena;
	uint32_t flags;
	struct budget_hold *memory;
	uint64_t held;                         /* of it, besides the arena */
	struct err damage[SYMBOLS_MAX_DAMAGE]; /* of the first tables that could not be read */
	size_t n_damage;
};
/* Room for one more symbol. */
int symbols_grow(struct symbols *s, struct err *err);
/*
 * Read the symbols of code in .symtab, .gnu_debugdata and .dynsym of @img, and those that only @program (NULL: none) has:
 * see struct symtab_options. A damaged one does not prevent the use of the others: see s->damage. s->memory is set, the
 * rest 0.
 */
int symbols_read(struct symbols *s, const struct elf_image *img, const struct elf_image *program,
		 const struct dwarf_section_place *code, size_t n_code, struct err *err);
void symbols_done(struct symbols *s);
/* The dynamic symbols of a file without sections, and their names, in @a. 1: there are none. */
int dynamic_symbols(const struct elf_image *img, struct arena *a, struct bytes *ret_symbols,
		    struct bytes *ret_names, struct err *err);
/* Add the names of procedure linkage table entries. */
int plt_read(struct symbols *s, const struct elf_image *img, struct err *err);

/* ---- overlaps ---- */

struct span {
	uint64_t start, end;
	/*
	 * The lowest rank is visible; of equal ranks the span that starts last; of these the one that lacks least, then
	 * that of the lowest `what`.
	 */
	uint16_t rank, lacks;
	uint32_t what; /* the caller's number */
};
/* The visible parts of @in, in *ret (heap), disjoint and sorted. @in is sorted in place. */
size_t overlaps_resolve(struct span *in, size_t n, struct span **ret);

/* ---- Go ---- */

/* The code that go_read() reads: the file's code, but for functions that start in
 * one of DWARF's (sorted, disjoint). */
struct go_scope {
	const struct dwarf_section_place *code;
	size_t n_code;
	const struct span *dwarf;
	size_t n_dwarf;
};
/*
 * Add the code ranges of Go's table to @b, if the file has one. ERR_INVALID, ERR_LIMIT: damage; the code ranges
 * before it were added.
 */
int go_read(struct batch *b, const struct elf_image *img, const struct go_scope *scope, struct err *err);

/* ---- blocks ---- */

struct block_writer;
/* A part of a code range, or a symbol, as an address shows it. */
struct visible_range {
	uint64_t start, end;
	const struct code_range *range; /* NULL: a symbol alone */
	const struct range_entry *entries;
	const struct range_entry_more *more; /* one for each entry, or NULL */
	const uint8_t *rows;
	uint64_t tail;          /* bytes after `end` that have the last row and no function */
	uint64_t before, after; /* bytes of the function in the parts before it and after it */
	uint32_t name, linkage; /* strings; 0: the function's */
	uint8_t origin;
};
/* Blocks are appended to @out. */
struct block_writer *block_writer_new(struct intern *in, struct buf *out, bool columns);
int block_writer_add(struct block_writer *w, const struct visible_range *p, struct err *err);
int block_writer_finish(struct block_writer *w, struct err *err); /* writes the last block */
uint64_t block_writer_room(const struct block_writer *w);         /* bytes of its lists and buffers */
size_t block_writer_index(const struct block_writer *w, const struct block_index **ret);
void block_writer_free(struct block_writer *w);

/* The buffers that writing strings needs, kept from block to block. */
struct string_writer {
	struct buf text, groups;
	void *lz4; /* its stream */
};
void string_writer_done(struct string_writer *w); /* accepts a zeroed one */
/* Append @n strings, sorted by their bytes, as blocks store them. */
void block_strings_write(struct string_writer *w, struct buf *out, const struct str *list, size_t n);

/* ---- the table being built ---- */

#define THREADS_MAX 64u

struct unit_chunk {
	size_t first, end;
};

/* The answer that a span stands for: a code range (of a function in parts the first one), a symbol, lines that
 * a symbol names, or a code range's tail. */
struct candidate {
	uint32_t range, symbol; /* + 1; 0: none */
	uint32_t n_parts;       /* of the function, from that code range on; 1: it has no other */
	bool tail;
};

/* Their ranks in `spans`, the best first. */
enum { RANK_DWARF, RANK_GO, RANK_CALLS, RANK_LINES, RANK_SYMBOL, RANK_TAIL };

struct build {
	const struct elf_image *img;
	const struct symtab_options *o;
	struct dwarf *dwarf;
	struct arena arena;
	const struct dwarf_section_place *code;
	size_t n_code;
	struct unit_chunk *chunks;
	size_t n_chunks, room_chunks;
	_Atomic size_t next_chunk;
	struct batch *batches[THREADS_MAX];
	unsigned n_batches;
	const struct code_range **ranges; /* of all batches, in the order of the units */
	size_t n_ranges;
	struct symbols symbols;
	size_t symbol_near; /* in symbols.list, where the last look-up of a function's name ended */
	struct span *symbol_spans;
	size_t n_symbol_spans;
	struct candidate *candidates;
	size_t n_candidates, room_candidates;
	size_t n_checked; /* candidates when their memory was last charged */
	struct span *spans;
	size_t n_spans, room_spans;
	struct err dwarf_err, go_err, split_err; /* dwarf_err: why there is no `dwarf` */
	uint32_t flags;
	struct dwarf_split split; /* o->split's files, whose sizes are counted */
	/* All memory but that of the images' own sections. */
	struct budget_hold memory;
	uint64_t held; /* of it, of the lists here and the blocks */
	bool some; /* not all units were read, and only code of functions is asked for: symbols alone are left out */
	struct symtab_hidden hidden;
	struct err rowless_err; /* the first part that is written without its rows, and how many */
	uint64_t n_rowless;
	struct block_writer *blocks;
	struct buf block_bytes;
};

/* Charge the lists of the build and the blocks. */
int build_account(struct build *b, struct err *err);
/* Whether the memory for resolving overlaps of @n spans is granted: sorted keys, a heap, the result. */
int build_account_overlaps(struct build *b, uint64_t n, struct err *err);
/*
 * Read the units that .debug_aranges names for the addresses in `only`, and collect their code ranges. 1: that was
 * not enough, and nothing is kept.
 */
int units_read_only(struct build *b, struct err *err);
/* Read all units. The ids of all batches are those of the first one then. */
int units_read(struct build *b, struct err *err);
/* List the code ranges of all batches as `ranges`, in the order of the units. */
void units_collect(struct build *b);
void units_free(struct build *b); /* the batches and `ranges` */
/*
 * Find which symbol holds at which address: b->symbol_spans. A symbol without a size extends to the next symbol of its
 * section, below those that have a size; one of .dynsym, where it is only an address, does not.
 */
void symbols_resolve(struct build *b);
/* List all code ranges and symbols as `spans` and `candidates`; they may overlap. */
int build_candidates(struct build *b, struct err *err);
/*
 * Count the functions and lines among the candidates that the @n visible ranges hide: b->hidden. b->spans is still there,
 * in any order.
 */
void hidden_count(struct build *b, const struct span *visible, size_t n);
/* Write what is visible of the candidates as blocks. */
int visible_write(struct build *b, struct err *err);
/*
 * Write the table's head (docs/formats/symtab.md) when all blocks are written. *ret_skipped is the number of
 * units and sections left out.
 */
int build_head(struct build *b, struct buf *out, uint64_t *ret_skipped, struct err *err);
