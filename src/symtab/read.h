/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a table.
 *
 *   open     the head, and blocks
 *   strings  a block's strings (it writes them too)
 *   find     an address to its frames; rows.h: the rows of a code range
 *   verify   the table against DWARF
 */
#pragma once

#include "base/map.h"
#include "symtab/format.h"

struct symtab {
	struct bytes bytes; /* all of it, borrowed */
	struct arena arena;
	struct symtab_info info;
	struct map by_name, by_index; /* struct symtab_section of info.sections */
	const uint8_t *index;         /* n_blocks rows */
	size_t n_blocks;
	_Atomic uint8_t *checked; /* for each block: its checksum was compared */
};

struct block {
	struct bytes bytes; /* TABLE_PAD more readable bytes follow */
	uint64_t first, last;
	uint32_t n_ranges, records, functions, files, strings;
	uint32_t n_files, n_strings;
};
/* The last block that starts at or before @addr; SIZE_MAX: none. */
size_t symtab_block_at(const struct symtab *t, uint64_t addr);
int symtab_block(struct symtab *t, size_t i, struct block *ret, struct err *err);

/* ---- a block's strings ---- */

/* Those read so far. */
struct string_pack {
	struct bytes text; /* decompressed, or a view of the block; p NULL: not read yet */
	struct str *groups[STRINGS_PACK / STRINGS_GROUP]; /* NULL: not read yet */
};
struct block_strings {
	struct arena arena;
	struct err *refused;        /* why memory was not granted; NULL: it cannot be refused */
	struct string_pack **packs; /* in the arena; NULL: not read yet */
	size_t room;
};
void block_strings_start(struct block_strings *s, const struct block *b);
void block_strings_done(struct block_strings *s); /* accepts a zeroed one */
/* A group of strings; one that is damaged, or refused, is empty. */
const struct str *block_strings_read(struct block_strings *s, const struct block *b, size_t group);
/* Whether @size bytes may hold @n strings. */
bool block_strings_fit(uint64_t n, uint64_t size);

/* Valid until the next start. Empty: there is no such string. */
static inline struct str block_string(struct block_strings *s, const struct block *b, uint32_t number)
{
	const struct str *group = NULL;
	const struct string_pack *pack;
	size_t i = (size_t)number - 1;

	if (!number || number > b->n_strings)
		return (struct str){ 0 };
	pack = s->packs[i / STRINGS_PACK];
	if (pack)
		group = pack->groups[i % STRINGS_PACK / STRINGS_GROUP];
	if (!group)
		group = block_strings_read(s, b, i / STRINGS_GROUP);
	return group[i % STRINGS_GROUP];
}

/* A cache of the strings of recent blocks: scattered addresses come back to the same blocks again and again. */
#define STRINGS_KEPT 128u
struct strings_kept {
	struct strings_of {
		size_t block; /* + 1; 0: none */
		struct block_strings s;
	} list[STRINGS_KEPT];
};
/* The strings of block number @block, which is @b. Those of other blocks may be freed. */
struct block_strings *strings_kept_of(struct strings_kept *k, size_t block, const struct block *b);
void strings_kept_done(struct strings_kept *k);
