/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See pack.h; docs/formats/unwind.md has the layout.
 *
 * Pages of the index may stand in any place that is a multiple of 512 bytes: after the rules in the first chunk, after
 * the last rows, and in chunks of their own.
 */
#include "unwind/pack.h"

#include <stdlib.h>

#define PAGE_SLOTS  256u   /* slots of the pages of a block: 512 bytes */
#define BLOCK_SLOTS 60000u /* a page after these of a block has no rows: numbers of slots are 16 bits */
#define ROW_SLOTS   (UNWIND_CHUNK_SLOTS - 1)

static uint64_t bad_rule(void)
{
	return pack_key((struct unwind_rule){ .cfa = UNWIND_CFA_BAD });
}

static struct unwind_rule rule_of_key(uint64_t key)
{
	struct unwind_rule r;

	memcpy(&r, &key, sizeof(r));
	return r;
}

void pack_init(struct pack *p, struct buf *out)
{
	*p = (struct pack){ .out = out };
	p->room_numbers = 1024;
	p->numbers = mem_zalloc(p->room_numbers * sizeof(*p->numbers));
	/* Rule 0 is that of addresses without a rule. */
	VEC_PUSH(p->rules, p->n_rules, p->room_rules) = 0;
	memset(buf_reserve(out, UNWIND_CHUNK_SIZE), 0, UNWIND_CHUNK_SIZE);
	out->size += UNWIND_CHUNK_SIZE;
}

void pack_done(struct pack *p)
{
	free(p->blocks);
	free(p->pages);
	free(p->rules);
	free(p->numbers);
}

/* ---- rules ---- */

static uint64_t rule_hash(uint64_t rule)
{
	return (rule * 0x9e3779b97f4a7c15u) >> 32;
}

static void grow_numbers(struct pack *p)
{
	free(p->numbers);
	p->room_numbers *= 2;
	p->numbers = mem_zalloc(p->room_numbers * sizeof(*p->numbers));
	for (size_t k = 1; k < p->n_rules; k++) {
		size_t i = rule_hash(p->rules[k]) & (p->room_numbers - 1);

		while (p->numbers[i])
			i = (i + 1) & (p->room_numbers - 1);
		p->numbers[i] = (uint16_t)(k + 1);
	}
}

static uint16_t find_rule_number(struct pack *p, uint64_t rule)
{
	size_t i;

	if (!rule)
		return 0;
	/* The last number is kept for the rule that stands for those over the limit. */
	for (;;) {
		for (i = rule_hash(rule) & (p->room_numbers - 1); p->numbers[i];
		     i = (i + 1) & (p->room_numbers - 1))
			if (p->rules[p->numbers[i] - 1] == rule)
				return (uint16_t)(p->numbers[i] - 1);
		if (p->n_rules < UNWIND_MAX_RULES - 1 || rule == bad_rule())
			break;
		rule = bad_rule();
	}
	VEC_PUSH(p->rules, p->n_rules, p->room_rules) = rule;
	p->numbers[i] = (uint16_t)p->n_rules;
	if (p->n_rules * 2 > p->room_numbers)
		grow_numbers(p);
	return (uint16_t)(p->n_rules - 1);
}

static uint16_t rule_number(struct pack *p, uint64_t rule)
{
	size_t i = rule_hash(rule) & (PACK_NUMBERS - 1);

	if (p->recent[i].rule != rule || !rule) {
		p->recent[i].number = find_rule_number(p, rule);
		p->recent[i].rule = rule;
	}
	return p->recent[i].number;
}

/* ---- rows ---- */

static unsigned row_slots(uint16_t rule)
{
	return rule < UNWIND_ESCAPE ? 1 : 3;
}

static uint16_t slot_of(unsigned low, unsigned rule)
{
	return UNWIND_LE16((uint16_t)(rule << 8 | low));
}

static uint16_t *put_row(uint16_t *to, uint8_t low, uint16_t rule)
{
	if (rule < UNWIND_ESCAPE) {
		*to++ = slot_of(low, rule);
		return to;
	}
	*to++ = slot_of(low, UNWIND_ESCAPE);
	*to++ = slot_of(low, rule / UNWIND_ESCAPE);
	*to++ = slot_of(low, rule % UNWIND_ESCAPE);
	return to;
}

/* The number of the next free slot, counted from the start of the table. */
static uint32_t next_slot(const struct pack *p)
{
	return (uint32_t)(p->out->size / 2) - UNWIND_CHUNK_SLOTS + p->used;
}

static uint16_t *slots_of_chunk(const struct pack *p, size_t chunk)
{
	return (uint16_t *)(void *)(p->out->p + chunk * UNWIND_CHUNK_SIZE);
}

static uint16_t *last_slots(const struct pack *p)
{
	return slots_of_chunk(p, p->out->size / UNWIND_CHUNK_SIZE - 1);
}

static void close_chunk(struct pack *p)
{
	last_slots(p)[ROW_SLOTS] = UNWIND_LE16((uint16_t)p->used);
}

static void add_chunk(struct pack *p)
{
	memset(buf_reserve(p->out, UNWIND_CHUNK_SIZE), 0, UNWIND_CHUNK_SIZE);
	p->out->size += UNWIND_CHUNK_SIZE;
}

/* A new chunk starts with the rule that holds there. */
static void start_chunk(struct pack *p)
{
	uint16_t *slots;

	if (p->out->size > UNWIND_CHUNK_SIZE)
		close_chunk(p);
	add_chunk(p);
	slots = last_slots(p);
	p->used = (uint32_t)(put_row(slots, 0, p->carry) - slots);
}

/* Entries of pages without rows, up to @to. */
static void fill_entries(struct pack *p, const struct unwind_block *b, uint32_t to)
{
	uint16_t *pages = p->pages + (size_t)(b->pages - 1) * PAGE_SLOTS;

	while (p->next_entry < to)
		pages[p->next_entry++] = b->n;
}

/* A block of which all rows are there. */
static void end_block(struct pack *p)
{
	if (p->n_blocks && p->blocks[p->n_blocks - 1].pages)
		fill_entries(p, &p->blocks[p->n_blocks - 1], PAGE_SLOTS);
	p->next_entry = 0;
}

/* Make blocks up to @block, without rows. */
static void reach_block(struct pack *p, uint64_t block)
{
	if (p->n_blocks > block)
		return;
	end_block(p);
	while (p->n_blocks <= block)
		VEC_PUSH(p->blocks, p->n_blocks,
			 p->room_blocks) = (struct unwind_block){ .rows = next_slot(p) };
}

static void flush_page(struct pack *p)
{
	struct unwind_block *b;
	uint64_t block = p->page >> 8;
	unsigned n_slots = 0;
	uint16_t *to, *pages, start;
	uint16_t last;

	if (p->n_page_rows == 0)
		return;
	last = p->rows[p->n_page_rows - 1].rule;
	reach_block(p, block);
	b = &p->blocks[block];
	if (next_slot(p) - b->rows > BLOCK_SLOTS) {
		/* Only damaged files have that many rows. */
		p->n_lost += p->n_page_rows;
		p->rows[0] = (struct pack_row){ 0, find_rule_number(p, bad_rule()) };
		p->n_page_rows = 1;
		last = p->rows[0].rule;
	}
	for (unsigned i = 0; i < p->n_page_rows; i++)
		n_slots += row_slots(p->rows[i].rule);
	if (!b->pages) {
		VEC_RESERVE(p->pages, p->n_pages, p->room_pages, PAGE_SLOTS);
		p->n_pages += PAGE_SLOTS;
		b->pages = (uint16_t)(p->n_pages / PAGE_SLOTS); /* for now its number and 1 */
	}
	pages = p->pages + (size_t)(b->pages - 1) * PAGE_SLOTS;
	if (p->used + n_slots > ROW_SLOTS)
		start_chunk(p);
	start = (uint16_t)(next_slot(p) - b->rows);
	to = last_slots(p) + p->used;
	for (unsigned i = 0; i < p->n_page_rows; i++)
		to = put_row(to, p->rows[i].low, p->rows[i].rule);
	p->used += n_slots;
	fill_entries(p, b, p->page & 255);
	pages[p->page & 255] = start;
	b->n = (uint16_t)(start + n_slots);
	p->next_entry = (p->page & 255) + 1;
	p->carry = last;
	p->n_page_rows = 0;
}

void pack_flush_row(struct pack *p)
{
	uint64_t page;
	uint16_t rule;

	p->pending = false;
	if (p->rule == p->last_rule)
		return;
	if (!p->begun) {
		p->begun = true;
		p->base = p->addr >> UNWIND_BLOCK_SHIFT << UNWIND_BLOCK_SHIFT;
		start_chunk(p);
	}
	page = (p->addr - p->base) >> UNWIND_PAGE_SHIFT;
	if (page != p->page)
		flush_page(p);
	p->page = page;
	p->last_rule = p->rule;
	rule = rule_number(p, p->rule);
	p->rows[p->n_page_rows++] = (struct pack_row){ (uint8_t)(p->addr & 255), rule };
	p->n_rows++;
	p->n_escapes += rule >= UNWIND_ESCAPE;
	p->n_bad += rule_of_key(p->rules[rule]).cfa == UNWIND_CFA_BAD;
}

/* ---- the rest of the table ---- */

/*
 * Free bytes, to place rules, blocks and pages in: after the rules in chunk 0, then after the last rows, then new chunks.
 */
struct free_room {
	size_t at, end; /* in bytes */
};

static bool take_room(struct free_room *r, size_t size, size_t align, size_t *ret)
{
	size_t at = (r->at + align - 1) / align * align;

	if (at > r->end || size > r->end - at)
		return false;
	*ret = at;
	r->at = at + size;
	return true;
}

static size_t append_room(struct pack *p, struct free_room *last, size_t size, size_t align)
{
	size_t at;

	while (!take_room(last, size, align, &at)) {
		if (last->end != p->out->size)
			*last = (struct free_room){ p->out->size, p->out->size };
		add_chunk(p);
		last->end = p->out->size;
	}
	return at;
}

/* Place @size bytes of @what: in one of the first two rooms, or in new chunks. Returns the place. */
static size_t place_part(struct pack *p, struct free_room rooms[3], const void *what, size_t size,
			 size_t align)
{
	size_t at;

	if (!take_room(&rooms[0], size, align, &at) && !take_room(&rooms[1], size, align, &at))
		at = append_room(p, &rooms[2], size, align);
	if (size)
		memcpy(p->out->p + at, what, size);
	return at;
}

/* Move the rows from the second chunk into the first. It has room for them: at most 511 bytes are lost between its parts. */
static void join_chunks(struct pack *p, struct free_room *first)
{
	size_t size = p->used * sizeof(uint16_t), at;
	uint32_t delta;

	if (!take_room(first, size, sizeof(uint16_t), &at))
		return;
	delta = UNWIND_CHUNK_SLOTS - (uint32_t)(at / 2);
	memcpy(p->out->p + at, p->out->p + UNWIND_CHUNK_SIZE, size);
	slots_of_chunk(p, 0)[ROW_SLOTS] = UNWIND_LE16((uint16_t)(at / 2 + p->used));
	for (size_t i = 0; i < p->n_blocks; i++)
		p->blocks[i].rows -= delta;
	p->out->size = UNWIND_CHUNK_SIZE;
}

void pack_end(struct pack *p, uint64_t end, struct unwind_head *h)
{
	struct free_room rooms[3];
	size_t n_first, at, n_tables;
	bool joined;

	if (p->pending)
		pack_flush_row(p);
	flush_page(p);
	h->base = UNWIND_LE64(p->base);
	h->span = UNWIND_LE64(end - p->base);
	/* Each address below the end has a block. */
	reach_block(p, (end - 1 - p->base) >> UNWIND_BLOCK_SHIFT);
	end_block(p);
	close_chunk(p);
	for (size_t i = 0; i < p->n_rules; i++) {
		struct unwind_rule r = rule_of_key(p->rules[i]);

		r.aux = (int16_t)UNWIND_LE16(r.aux);
		r.off = UNWIND_LE32(r.off);
		p->rules[i] = pack_key(r);
	}
	n_first = MIN(p->n_rules, (size_t)UNWIND_FIRST_RULES);
	memcpy(p->out->p + (size_t)UNWIND_RULES * 8, p->rules, n_first * 8);
	/* The last slot of chunk 0 and of the last rows is a count. */
	rooms[0] = (struct free_room){ (UNWIND_RULES + n_first) * 8, UNWIND_CHUNK_SIZE - 2 };
	rooms[1] = (struct free_room){ p->out->size - UNWIND_CHUNK_SIZE + p->used * 2, p->out->size - 2 };
	rooms[2] = (struct free_room){ p->out->size, p->out->size };
	n_tables = p->n_pages / PAGE_SLOTS;
	joined = n_tables * 512 + p->n_blocks * 8 + p->used * 2 + 512 <= rooms[0].end - rooms[0].at &&
		 p->out->size == 2 * UNWIND_CHUNK_SIZE;
	if (joined)
		rooms[1].end = rooms[1].at;

	at = place_part(p, rooms, p->rules + n_first, (p->n_rules - n_first) * 8, 8);
	h->more_rules = UNWIND_LE32((uint32_t)(at / 8));
	/* The places of blocks are needed before their content is known. */
	at = place_part(p, rooms, p->blocks, p->n_blocks * sizeof(*p->blocks), 8);
	h->blocks = UNWIND_LE32((uint32_t)(at / 8));
	for (size_t i = 0; i < p->n_blocks; i++) {
		struct unwind_block *b = &p->blocks[i];
		uint16_t *pages;

		if (!b->pages)
			continue;
		pages = p->pages + (size_t)(b->pages - 1) * PAGE_SLOTS;
		for (unsigned k = 0; k < PAGE_SLOTS; k++)
			pages[k] = UNWIND_LE16(pages[k]);
		b->pages = (uint16_t)(place_part(p, rooms, pages, 512, 512) / 512);
	}
	if (joined)
		join_chunks(p, &rooms[0]);
	for (size_t i = 0; i < p->n_blocks; i++)
		p->blocks[i] = (struct unwind_block){ UNWIND_LE32(p->blocks[i].rows),
						      UNWIND_LE16(p->blocks[i].pages),
						      UNWIND_LE16(p->blocks[i].n) };
	memcpy(p->out->p + at, p->blocks, p->n_blocks * sizeof(*p->blocks));

	h->n_chunks = UNWIND_LE32((uint32_t)(p->out->size / UNWIND_CHUNK_SIZE));
	h->n_rules = UNWIND_LE32((uint32_t)p->n_rules);
	h->n_blocks = UNWIND_LE32((uint32_t)p->n_blocks);
	h->n_rows = UNWIND_LE32((uint32_t)p->n_rows);
	h->hash = 0;
	memcpy(p->out->p, h, sizeof(*h));
	h->hash = UNWIND_LE64(hash64(p->out->p, p->out->size, 0));
	memcpy(p->out->p, h, sizeof(*h));
}
