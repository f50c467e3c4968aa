/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that make a table share: the table at hand.
 */
#pragma once

#include "symtab/internal.h"

#include <stdatomic.h>

#define THREADS_MAX 64u

struct unit_chunk {
	size_t first, end;
};

/* What a span shows: a code range (of a function in parts the first one), a symbol, lines that a symbol names, or
 * a code range's tail. */
struct candidate {
	uint32_t range, symbol; /* + 1; 0: none */
	uint32_t n_parts;       /* of that code range on; 1: it is all */
	bool tail;
};

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
	struct span *symbol_spans;
	size_t n_symbol_spans;
	struct candidate *candidates;
	size_t n_candidates, room_candidates;
	struct span *spans;
	size_t n_spans, room_spans;
	struct err symbols_err, go_err, split_err;
	uint32_t flags;
	bool some; /* not all units were read, and symbols alone are of no interest */
	struct block_writer *blocks;
	struct buf block_bytes;
};

/* What is seen of code ranges and symbols, of those that lie over one another too, into `spans` and `shown`. */
void build_candidates(struct build *b);
/*
 * The table's head (docs/formats/symtab.md), when all blocks are written; *ret_skipped: reasons that it tells
 * of units left out.
 */
int build_head(struct build *b, struct buf *out, uint64_t *ret_skipped, struct err *err);
