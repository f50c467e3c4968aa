/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata store in memory: what stacks refer to, each thing once.
 *
 * All tables are columns: the writer's thread appends to them, all threads read. Entries do not change,
 * except for the names of a location, which are replaced in one step.
 */
#pragma once

#include "profile/profile.h"
#include "profilestore/column.h"
#include "frame/frame.h"
#include "profilestore/holes.h"
#include "profilestore/slots.h"

#define META_FAILED UINT32_MAX /* no number: the limit of memory was reached */

/* Number 0 is the empty one. */
struct meta_function {
	uint32_t name, system_name, file;
	int32_t start_line; /* 0: not known, or too large */
};

struct meta_line {
	uint32_t function;
	int32_t line, column;
};

/*
 * A mapping of a profile: known by its build ID, without one by its file. Number 0 is for locations without a
 * mapping; so is number 0 of the parts.
 */
struct meta_binary {
	/* strings; the first name that it was seen with; the build ID in lower case */
	uint32_t file, build_id;
	_Atomic uint32_t last_location; /* + 1; the others follow by `next` */
	_Atomic uint32_t n_locations;
	_Atomic uint32_t n_bare; /* of them: those with LOCATION_BARE */
	_Atomic uint32_t state;  /* used by names.c: number + 1 of its struct named_binary, or 0 */
};

/* What an address of a location counts from. */
enum meta_kind {
	META_OFFSET,  /* bytes of the file */
	META_VADDR,   /* as in the ELF file */
	META_TEXT,    /* a kernel's, relative to _text */
	META_STEXT,   /* relative to _stext */
	META_SECTION, /* a kernel module's, relative to the start of its code */
	META_RUNTIME, /* as it was in the process: its file is not known */
	META_N_KINDS
};

/* A part of a binary as it was mapped. Parts that differ only in size are one. */
struct meta_part {
	uint32_t binary;
	uint8_t kind;
	uint64_t offset, size; /* of the mapping in the file */
};

enum {
	LOCATION_FOLDED = 1 << 0,
	/* it came without lines, or with function names only: it may get better ones */
	LOCATION_BARE = 1 << 1,
};
/* As it came in: struct packed_location has it, and the names that it got later. */
struct meta_location {
	uint64_t addr;
	uint32_t part;
	uint32_t first_line; /* the lines it came with, innermost first */
	uint16_t n_lines;
	uint16_t flags;
};

/* The result of looking a location up, in one word. */
struct meta_names {
	uint32_t first_line;
	uint16_t n_lines; /* 0: none */
	uint8_t reason;   /* enum frame_reason */
	/* of the table of its binary that it was looked up in (names_internal.h); never 0 */
	uint8_t generation;
};
static inline uint64_t meta_names_word(struct meta_names n)
{
	return (uint64_t)n.first_line << 32 | (uint64_t)n.n_lines << 16 | (uint64_t)n.reason << 8 |
	       n.generation;
}
static inline struct meta_names meta_names_of(uint64_t w)
{
	return (struct meta_names){ (uint32_t)(w >> 32), (uint16_t)(w >> 16), (uint8_t)(w >> 8), (uint8_t)w };
}

/* Of a line or column: 0 is not known, or too large. */
static inline int32_t meta_line_number(int64_t v)
{
	return v == (int32_t)v ? (int32_t)v : 0;
}

/* In memory: 24 bytes for a location whose names came with it, 32 for another one. */
struct packed_location {
	uint64_t addr;
	uint32_t part;
	uint32_t at;      /* its first line; with LOCATION_BARE: its first word */
	uint32_t next;    /* the location before it in the same binary, + 1 */
	uint16_t n_lines; /* of those it came with */
	/* its flags, and from LOCATION_SHIFT_BIT on the number of its shift (meta_elf_addr()) */
	_Atomic uint16_t marks;
};
#define LOCATION_FLAGS     3u
#define LOCATION_SHIFT_BIT 2
#define LOCATION_MAX_SHIFT (UINT16_MAX >> LOCATION_SHIFT_BIT)

/* In memory: 8 bytes. */
struct packed_line {
	uint32_t function;
	uint32_t
		numbers; /* line << LINE_COLUMN_BITS | column; or LINE_IS_LONG | its number in the table of long ones */
};
#define LINE_COLUMN_BITS 11
#define LINE_IS_LONG     (1u << 31)

struct long_line {
	int32_t line, column;
};

struct meta_stack {
	uint32_t parent, location; /* 0 is the empty one; a caller has a smaller number than its callees */
};

struct meta_string_chunk;

struct meta {
	struct column strings;    /* struct str; number 0 is the empty one */
	struct column functions;  /* struct meta_function */
	struct column lines;      /* struct packed_line */
	struct column long_lines; /* struct long_line: those with numbers too large for it */
	struct column binaries;   /* struct meta_binary */
	struct column parts;      /* struct meta_part */
	struct column locations;  /* struct packed_location */
	/*
	 * For each location with LOCATION_BARE: struct meta_names as an atomic word, 0: not looked up; and if it came
	 * with lines, the first of them.
	 */
	struct column words;
	struct column
		shifts; /* uint64_t: the number to add to an address for the one in the ELF file; number 0 is none */
	struct column stacks;    /* struct meta_stack */
	_Atomic uint64_t memory; /* bytes of all tables */
	_Atomic uint64_t lacked; /* by the last hash table that could not grow, below max_memory; 0: none */
	/* How often the tables were replaced by a sweep: numbers in the database are of one generation. */
	uint32_t generation;
	uint64_t max_memory;

	/* of the writer's thread */
	uint64_t ceiling; /* a lower limit of memory for a while; 0: max_memory */
	uint64_t seed;
	struct slots by_string, by_function, by_binary, by_part, by_location, by_stack, by_shift;
	struct meta_string_chunk *chunk;
	char *text, *text_end;
	/*
	 * Free numbers of stacks: a sweep leaves the others as they are, since profiles on disk refer to them.
	 * `reused` are those that were free, and have been taken since the last transaction.
	 */
	struct holes holes;
	struct {
		uint32_t *v;
		size_t n, room;
	} reused;
};

void meta_init(struct meta *m, uint64_t max_memory);
void meta_done(struct meta *m);

/* Each finds the equal entry, or appends it: its number, or META_FAILED. */
uint32_t meta_string(struct meta *m, struct str s);
uint32_t meta_function(struct meta *m, const struct meta_function *f);
uint32_t meta_binary(struct meta *m, struct str file, struct str build_id);
uint32_t meta_part(struct meta *m, const struct meta_part *p);
/* @lines NULL: they are at l->first_line already. */
uint32_t meta_location(struct meta *m, const struct meta_location *l, const struct meta_line *lines);
uint32_t meta_stack(struct meta *m, uint32_t parent, uint32_t location);
/* Append an entry that is equal to @i, which stays the one that is found: its number, or META_FAILED. */
uint32_t meta_binary_again(struct meta *m, uint32_t i);
uint32_t meta_location_again(struct meta *m, uint32_t i);
/*
 * The stack gets the number @i, which is free, or not there yet: then the numbers below it that are not there yet
 * become free. false: it is not free, there is an equal stack, or no memory.
 */
bool meta_stack_put(struct meta *m, uint32_t i, uint32_t parent, uint32_t location);
/* The next @n numbers are free. */
bool meta_stacks_skip(struct meta *m, uint32_t n);
/*
 * The names that the location @i got after it came in: readers see all of @word, or none of it. @elf_addr 0: not known.
 * Only for locations with LOCATION_BARE, others are passed over.
 */
void meta_set_names(struct meta *m, uint32_t i, uint64_t word, uint64_t elf_addr);
/* Append @n lines, without a search; the number of the first. */
uint32_t meta_lines(struct meta *m, const struct meta_line *lines, size_t n);

/*
 * For looking up many: hash a few dozen, prefetch the memory of all of them, then look up each. A prefetch
 * that is of no use costs nothing.
 */
uint64_t meta_hash_string(const struct meta *m, struct str s);
uint64_t meta_hash_function(const struct meta *m, const struct meta_function *f);
uint64_t meta_hash_location(const struct meta *m, const struct meta_location *l,
			    const struct meta_line *lines);
uint64_t meta_hash_stack(const struct meta *m, uint32_t parent, uint32_t location);
void meta_fetch_strings(const struct meta *m, const uint64_t *hashes, size_t n);
void meta_fetch_functions(const struct meta *m, const uint64_t *hashes, size_t n);
void meta_fetch_locations(const struct meta *m, const uint64_t *hashes, size_t n);
void meta_fetch_stacks(const struct meta *m, const uint64_t *hashes, size_t n);

int meta_err_limit(const struct meta *m, struct err *err);

static inline struct str meta_str(const struct meta *m, uint32_t i)
{
	return *(const struct str *)column_at(&m->strings, i);
}
static inline const struct meta_function *meta_function_at(const struct meta *m, uint32_t i)
{
	return column_at(&m->functions, i);
}
static inline struct meta_line meta_line_at(const struct meta *m, uint32_t i)
{
	const struct packed_line *l = column_at(&m->lines, i);
	const struct long_line *numbers;

	if (!(l->numbers & LINE_IS_LONG))
		return (struct meta_line){ l->function, (int32_t)(l->numbers >> LINE_COLUMN_BITS),
					   (int32_t)(l->numbers & ((1u << LINE_COLUMN_BITS) - 1)) };
	numbers = column_at(&m->long_lines, l->numbers & ~LINE_IS_LONG);
	return (struct meta_line){ l->function, numbers->line, numbers->column };
}
static inline struct meta_binary *meta_binary_at(const struct meta *m, uint32_t i)
{
	return column_at(&m->binaries, i);
}
static inline const struct meta_part *meta_part_at(const struct meta *m, uint32_t i)
{
	return column_at(&m->parts, i);
}
static inline struct packed_location *packed_location_at(const struct meta *m, uint32_t i)
{
	return column_at(&m->locations, i);
}
static inline uint16_t location_marks(const struct packed_location *l)
{
	return atomic_load_explicit(&l->marks, memory_order_relaxed);
}
static inline _Atomic uint64_t *location_word_at(const struct meta *m, uint32_t word)
{
	return column_at(&m->words, word);
}
static inline struct meta_location meta_location_at(const struct meta *m, uint32_t i)
{
	const struct packed_location *l = packed_location_at(m, i);
	struct meta_location ret = { l->addr, l->part, l->at, l->n_lines,
				     location_marks(l) & LOCATION_FLAGS };

	if (ret.flags & LOCATION_BARE)
		ret.first_line = l->n_lines ? (uint32_t)*location_word_at(m, l->at + 1) : 0;
	return ret;
}
/* Its struct meta_names; 0: not looked up. */
static inline uint64_t meta_names_at(const struct meta *m, uint32_t i)
{
	const struct packed_location *l = packed_location_at(m, i);

	return location_marks(l) & LOCATION_BARE
		       ? atomic_load_explicit(location_word_at(m, l->at), memory_order_acquire)
		       : 0;
}
/*
 * The address in the ELF file that came with its names; 0: not known. Few differences between such addresses and
 * those that come in exist in a store: one for each way in which a binary's segments are placed.
 */
static inline uint64_t meta_elf_addr(const struct meta *m, uint32_t i)
{
	const struct packed_location *l = packed_location_at(m, i);
	uint32_t shift = location_marks(l) >> LOCATION_SHIFT_BIT;

	return shift ? l->addr + *(const uint64_t *)column_at(&m->shifts, shift) : 0;
}
static inline const struct meta_stack *meta_stack_at(const struct meta *m, uint32_t i)
{
	return column_at(&m->stacks, i);
}
static inline uint32_t meta_binary_of(const struct meta *m, const struct meta_location *l)
{
	return meta_part_at(m, l->part)->binary;
}
