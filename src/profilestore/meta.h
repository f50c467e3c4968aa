/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata store in memory: what stacks are made of, each thing once.
 *
 * All tables are columns: the writer's thread adds to them, everybody reads. Nothing in them changes, but for
 * the names of a location, which are replaced in one step.
 */
#pragma once

#include "base/hash_index.h"
#include "profile/profile.h"
#include "profilestore/column.h"
#include "frame/frame.h"

#define META_FAILED UINT32_MAX /* no number: the limit of memory was met */

/* Number 0 is the empty one. */
struct meta_function {
	uint32_t name, system_name, file;
	int32_t start_line; /* 0: not known, or more than fits */
};

struct meta_line {
	uint32_t function;
	int32_t line, column;
};

/*
 * What a mapping of a profile was: known by its build ID, without one by its file. Number 0 is for what is
 * in none; so is number 0 of the parts.
 */
struct meta_binary {
	uint32_t file, build_id;        /* strings; the first name that it was seen by; lower case */
	_Atomic uint32_t last_location; /* + 1; the others follow by `next` */
	_Atomic uint32_t n_locations;
	_Atomic uint32_t n_bare; /* of them: with LOCATION_BARE */
	_Atomic uint32_t state;  /* names.c's own: number + 1 of what it knows, or 0 */
};

/* What a number in `addr` of a location counts from. */
enum meta_kind {
	META_OFFSET,  /* bytes of the file */
	META_VADDR,   /* as in the ELF file */
	META_TEXT,    /* a kernel: from _text on */
	META_STEXT,   /* from _stext on */
	META_SECTION, /* a kernel's module: from where its code begins */
	META_RUNTIME, /* as it was in the process: no file is known for it */
	META_N_KINDS
};

/* A part of a binary as it was mapped. What differs only in size is one. */
struct meta_part {
	uint32_t binary;
	uint8_t kind;
	uint64_t offset, size; /* of the mapping in the file */
};

enum {
	LOCATION_FOLDED = 1 << 0,
	LOCATION_BARE = 1 << 1, /* it came without lines, or with names alone: it may get better ones */
};
struct meta_location {
	uint64_t addr;
	uint32_t part;
	uint32_t first_line; /* the lines it came with, innermost first */
	uint16_t n_lines;
	uint16_t flags;
	uint32_t next;             /* the one before it in the same binary, + 1 */
	_Atomic uint64_t names;    /* see struct meta_names; 0: was not looked up */
	_Atomic uint64_t elf_addr; /* 0: not known */
};

/* What came of looking a location up, in one word. */
struct meta_names {
	uint32_t first_line;
	uint16_t n_lines; /* 0: none */
	uint8_t reason;   /* enum frame_reason */
	uint8_t table;    /* names.c's own: which of its binary's tables it was looked up in, never 0 */
};
static inline uint64_t meta_names_word(struct meta_names n)
{
	return (uint64_t)n.first_line << 32 | (uint64_t)n.n_lines << 16 | (uint64_t)n.reason << 8 | n.table;
}
static inline struct meta_names meta_names_of(uint64_t w)
{
	return (struct meta_names){ (uint32_t)(w >> 32), (uint16_t)(w >> 16), (uint8_t)(w >> 8), (uint8_t)w };
}

/* Of a line, a column: 0 is what is not known, or more than fits. */
static inline int32_t meta_line_number(int64_t v)
{
	return v == (int32_t)v ? (int32_t)v : 0;
}

struct meta_stack {
	uint32_t parent, location; /* 0 is the empty one; a caller has a smaller number than its callees */
};

struct meta_string_chunk;

struct meta {
	struct column strings;   /* struct str; number 0 is the empty one */
	struct column functions; /* struct meta_function */
	struct column lines;     /* struct meta_line */
	struct column binaries;  /* struct meta_binary */
	struct column parts;     /* struct meta_part */
	struct column locations; /* struct meta_location */
	struct column stacks;    /* struct meta_stack */
	_Atomic uint64_t memory; /* bytes of all this */
	uint64_t max_memory;

	/* the writer's */
	uint64_t seed;
	struct hash_index by_string, by_function, by_binary, by_part, by_location, by_stack;
	struct meta_string_chunk *chunk;
	char *text, *text_end;
};

void meta_init(struct meta *m, uint64_t max_memory);
void meta_done(struct meta *m);

/* Each finds what is equal, or adds it: its number, or META_FAILED. */
uint32_t meta_string(struct meta *m, struct str s);
uint32_t meta_function(struct meta *m, const struct meta_function *f);
uint32_t meta_binary(struct meta *m, struct str file, struct str build_id);
uint32_t meta_part(struct meta *m, const struct meta_part *p);
/* @lines NULL: they are at l->first_line already. */
uint32_t meta_location(struct meta *m, const struct meta_location *l, const struct meta_line *lines);
uint32_t meta_stack(struct meta *m, uint32_t parent, uint32_t location);
/* @n lines, whether there are such or not; the number of the first. */
uint32_t meta_lines(struct meta *m, const struct meta_line *lines, size_t n);

/*
 * Whoever looks for many asks for the memory of some at once, and then looks for each: hashes, of tens of
 * them, and a fetch that costs nothing where it is of no use.
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
static inline const struct meta_line *meta_line_at(const struct meta *m, uint32_t i)
{
	return column_at(&m->lines, i);
}
static inline struct meta_binary *meta_binary_at(const struct meta *m, uint32_t i)
{
	return column_at(&m->binaries, i);
}
static inline const struct meta_part *meta_part_at(const struct meta *m, uint32_t i)
{
	return column_at(&m->parts, i);
}
static inline struct meta_location *meta_location_at(const struct meta *m, uint32_t i)
{
	return column_at(&m->locations, i);
}
static inline const struct meta_stack *meta_stack_at(const struct meta *m, uint32_t i)
{
	return column_at(&m->stacks, i);
}
static inline uint32_t meta_binary_of(const struct meta *m, const struct meta_location *l)
{
	return meta_part_at(m, l->part)->binary;
}
