/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packed table, written in one pass: rows come in the order of their addresses and go to their place at once, so that
 * only the index is kept beside the table, half a byte for each row.
 */
#pragma once

#include "base/base.h"
#include "unwind/step.h"

#define PACK_PAGE_ROWS 256u
#define PACK_NUMBERS   (1u << 11) /* of the cache of rule numbers */

struct pack {
	struct buf *out; /* chunk 0 for the head, then the chunks of rows */
	uint64_t base;   /* of block 0; valid if `begun` */
	bool begun;
	/* The newest row, which the next one at the same address replaces. */
	uint64_t addr;
	uint64_t rule;
	bool pending;
	uint64_t last_rule; /* of the row before that: an equal one is no row */

	/* The page that is being filled: its rows as low byte and rule number. */
	uint64_t page; /* its number, counted from base */
	struct pack_row {
		uint8_t low;
		uint16_t rule;
	} rows[PACK_PAGE_ROWS];
	unsigned n_page_rows;
	uint16_t carry; /* the number of the rule at the start of the page */

	uint32_t used;       /* slots of the last chunk */
	uint32_t next_entry; /* of the last block's pages: those before it are set */
	struct unwind_block *blocks;
	size_t n_blocks, room_blocks;
	uint16_t *pages; /* 256 of each block with rows, relative to its first slot */
	size_t n_pages, room_pages;
	uint64_t *rules;
	size_t n_rules, room_rules;
	uint16_t *numbers; /* hash table of rules; 0: free, else the number and 1 */
	size_t room_numbers;
	struct {
		uint64_t rule;
		uint16_t number;
	} recent[PACK_NUMBERS];
	uint64_t n_rows, n_escapes, n_bad, n_lost;
};

static inline uint64_t pack_key(struct unwind_rule r)
{
	uint64_t key;

	memcpy(&key, &r, sizeof(key));
	return key;
}

void pack_init(struct pack *p, struct buf *out);
void pack_done(struct pack *p);

void pack_flush_row(struct pack *p); /* of pack_add() */
/*
 * From @addr on, @rule (of pack_key()) holds. Addresses do not fall, and are less than UNWIND_MAX_SPAN apart. The last row
 * at an address counts; a row with the rule that holds anyway is none.
 */
static inline void pack_add(struct pack *p, uint64_t addr, uint64_t rule)
{
	if (p->pending && addr != p->addr)
		pack_flush_row(p);
	p->addr = addr;
	p->rule = rule;
	p->pending = true;
}
static inline bool pack_has_rows(const struct pack *p)
{
	return p->begun || (p->pending && p->rule != p->last_rule);
}
/* Write the head, the rules and the index. No row has a rule from @end on. @h has all but their places. */
void pack_end(struct pack *p, uint64_t end, struct unwind_head *h);
