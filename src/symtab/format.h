/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a table, shared by the files that write it (build.h) and those that read it (read.h).
 * docs/formats/symtab.md describes them.
 */
#pragma once

#include "base/leb.h"
#include "symtab/symtab.h"

#define HEAD_MAGIC   "LODE\x01SYM"
#define HEAD_SIZE    192u /* the fixed part */
#define INDEX_SIZE   32u  /* one block's row */
#define BLOCK_HEAD   24u
#define BLOCK_TARGET KIB(192)
#define TABLE_PAD \
	32u /* zeros after the last block: a read of a number never has to check for the end first */

/* A row of the index. */
struct block_index {
	uint64_t first, last; /* addresses: the start of the first code range, the end of the last */
	uint64_t off;
	uint32_t size, check;
};

/* Flags of a code range's record. */
enum {
	RANGE_ORIGIN = 7,
	RANGE_PART = 7, /* in place of the origin: DWARF, and the function has other parts */
	RANGE_ROWS = 1 << 3,
	RANGE_SKIP = 1 << 4, /* the rows start before the code range */
	RANGE_LINKAGE = 1 << 5,
	RANGE_DECL = 1 << 6,
	RANGE_TAIL = 1 << 7,
};

/* Flags of an entry. */
enum {
	ENTRY_OTHER_FILE = 1 << 0,
	ENTRY_PASSIVE = 1 << 1,
	ENTRY_DECL_FILE = 1 << 2, /* its file is that of the declaration; unused with ENTRY_OTHER_FILE */
	ENTRY_CALL_FILE = 1 << 3, /* explicit; otherwise the parent's file */
	ENTRY_PARENT = 3 << 4,
	ENTRY_PARENT_LAST = 0 << 4,  /* the entry before */
	ENTRY_PARENT_SAME = 1 << 4,  /* the parent of the call before */
	ENTRY_PARENT_FIRST = 2 << 4, /* the function */
	ENTRY_PARENT_OTHER = 3 << 4,
	ENTRY_CALL_COLUMN = 1 << 6,
	ENTRY_COLUMNS = 1 << 6, /* of entry 0: rows and first rows have columns */
	ENTRY_USUAL = 1 << 7,   /* starts where calls of its function usually do */
};

/*
 * A column and its discriminator as one number, as they are written: the lower 16 bits are the column, the 32
 * above them the discriminator, which is 0 in tables without.
 */
static inline uint64_t column_with(uint16_t column, uint32_t discriminator)
{
	return column | (uint64_t)discriminator << 16;
}

/* ---- strings ---- */

#define STRINGS_GROUP 16u  /* strings that are read together */
#define STRINGS_PACK  128u /* strings that are compressed together: several groups */

/* ---- rows ---- */

/* The byte code of rows: the low 4 bits of an op + 1 are the step to the next row, the high bits its place. */
enum {
	ROW_STEPS = 16,
	/* The high bits. */
	ROW_NEW = 0,  /* the next new entry */
	ROW_BACK = 1, /* up to 4: an earlier place, the latest first */
	ROW_NEAR = 5, /* up to 11: the same entry, its line -1 to +5 */
	ROW_NEAR_FIRST = -1,
	ROW_LINE = 12,   /* the same entry */
	ROW_PARENT = 13, /* the call that contains the entry's call */
	ROW_BEFORE = 14, /* the entry before this one */
	ROW_ENTRY = 15,  /* any entry; steps up to 12 */
	/* Prefixes of an op: they add to its step, or replace it. */
	ROW_FAR = 252, /* 16, 32, 48 more */
	ROW_STEP = 255,
	ROW_PLACES = ROW_NEAR - ROW_BACK,
};

struct row_place {
	union {
		struct {
			uint32_t entry, line;
		};
		uint64_t both;
	};
	uint64_t column; /* column_with() */
};

/* The state of the machine that writes or reads rows. */
struct row_state {
	uint32_t addr;
	uint32_t before; /* the entry in force before that of `at` */
	uint32_t n_new;  /* entries that have been in force, or were skipped as passive */
	struct row_place at;
	struct row_place back[ROW_PLACES]; /* the places before `at`, the latest first, each once */
};

static inline bool row_place_is(const struct row_place *a, const struct row_place *b)
{
	return a->both == b->both && a->column == b->column;
}

/* The index of @to among the earlier places; ROW_PLACES: none of them. */
static inline unsigned row_state_find(const struct row_state *st, const struct row_place *to)
{
	unsigned k = 0;

	while (k < ROW_PLACES && !row_place_is(&st->back[k], to))
		k++;
	return k;
}

/* Go to @to; @k is what row_state_find() returned for it. */
static inline void row_state_go(struct row_state *st, struct row_place to, unsigned k)
{
	if (to.entry != st->at.entry)
		st->before = st->at.entry;
	else if (row_place_is(&to, &st->at))
		return;
	/* Move the places before @k one on. Unrolled: a loop would take as long as the rest together. */
	_Static_assert(ROW_PLACES == 4, "as many as are moved here");
	switch (k) {
	default:
		st->back[3] = st->back[2];
		__attribute__((fallthrough));
	case 2:
		st->back[2] = st->back[1];
		__attribute__((fallthrough));
	case 1:
		st->back[1] = st->back[0];
		__attribute__((fallthrough));
	case 0:
		break;
	}
	st->back[0] = st->at;
	st->at = to;
}

static inline uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return le32toh(v);
}
static inline uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return le64toh(v);
}
