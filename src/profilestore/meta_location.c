/* SPDX-License-Identifier: Apache-2.0 */
/* Interning of locations and their lines, in packed form, and the names that locations get later. */
#include "profilestore/meta_internal.h"

#include <stdlib.h>

/* ---- lines ---- */

static bool pack_line(struct meta *m, const struct meta_line *l, struct packed_line *ret)
{
	bool is_long = (uint32_t)l->line >= LINE_IS_LONG >> LINE_COLUMN_BITS ||
		       (uint32_t)l->column >= 1u << LINE_COLUMN_BITS;
	struct long_line *numbers;

	*ret = (struct packed_line){ l->function,
				     (uint32_t)l->line << LINE_COLUMN_BITS | (uint32_t)l->column };
	if (!is_long)
		return true;
	numbers = column_push(m, &m->long_lines);
	if (!numbers)
		return false;
	*numbers = (struct long_line){ l->line, l->column };
	ret->numbers = LINE_IS_LONG | column_publish(&m->long_lines);
	return true;
}

uint32_t meta_lines(struct meta *m, const struct meta_line *lines, size_t n)
{
	uint32_t first = column_n(&m->lines);

	for (size_t i = 0; i < n; i++) {
		struct packed_line *new = column_push(m, &m->lines);

		if (!new || !pack_line(m, &lines[i], new))
			return META_FAILED;
		column_publish(&m->lines);
	}
	return first;
}

/* ---- locations ---- */

/*
 * A location is identified by its binary, its address and the lines that it came with; not by the part of the
 * binary, since two mappings of different sizes may hold the same code.
 */
static uint64_t hash_begin(const struct meta *m, const struct meta_location *l)
{
	const struct meta_part *p = meta_part_at(m, l->part);

	return hash_mix(hash_mix(l->addr, m->seed) ^ (uint64_t)p->binary << 8 ^ p->kind,
			(uint64_t)l->n_lines << 1 | (l->flags & LOCATION_FOLDED));
}

static uint64_t hash_line(uint64_t h, const struct meta_line *l)
{
	return hash_mix(h ^ l->function, (uint64_t)(uint32_t)l->line << 32 | (uint32_t)l->column);
}

/* The given lines; if none are given they are in the table already. */
static struct meta_line line_of(const struct meta *m, const struct meta_location *l,
				const struct meta_line *lines, uint32_t k)
{
	return lines ? lines[k] : meta_line_at(m, l->first_line + k);
}

uint64_t meta_hash_location(const struct meta *m, const struct meta_location *l,
			    const struct meta_line *lines)
{
	uint64_t h = hash_begin(m, l);

	for (uint32_t k = 0; k < l->n_lines; k++) {
		struct meta_line line = line_of(m, l, lines, k);

		h = hash_line(h, &line);
	}
	return h;
}

static uint64_t hash_of_location_at(const struct meta *m, uint32_t i)
{
	const struct meta_location l = meta_location_at(m, i);

	return meta_hash_location(m, &l, NULL);
}

static bool meta_location_eq(const struct meta *m, uint32_t i, const struct meta_location *l,
			     const struct meta_line *lines)
{
	const struct packed_location *p = packed_location_at(m, i);
	const struct meta_part *a, *b;
	struct meta_location o;

	if (p->addr != l->addr || p->n_lines != l->n_lines)
		return false;
	o = meta_location_at(m, i);
	if ((o.flags ^ l->flags) & LOCATION_FOLDED)
		return false;
	a = meta_part_at(m, o.part);
	b = meta_part_at(m, l->part);
	if (a->binary != b->binary || a->kind != b->kind)
		return false;
	for (uint32_t k = 0; k < l->n_lines; k++) {
		struct meta_line x = meta_line_at(m, o.first_line + k), y = line_of(m, l, lines, k);

		if (x.function != y.function || x.line != y.line || x.column != y.column)
			return false;
	}
	return true;
}

/* The words of a location with LOCATION_BARE: the number of the first. */
static uint32_t location_words(struct meta *m, uint16_t n_lines, uint32_t first_line)
{
	const uint64_t words[] = { 0, first_line };
	uint32_t at = column_n(&m->words);

	for (size_t k = 0; k < (n_lines ? 2 : 1); k++) {
		_Atomic uint64_t *new = column_push(m, &m->words);

		if (!new)
			return META_FAILED;
		atomic_store_explicit(new, words[k], memory_order_relaxed);
		column_publish(&m->words);
	}
	return at;
}

uint32_t meta_location(struct meta *m, const struct meta_location *l, const struct meta_line *lines)
{
	struct slots *h = &m->by_location;
	uint64_t hash = meta_hash_location(m, l, lines);
	struct packed_location *new;
	struct meta_binary *b;
	uint32_t slot, i, at;

	if (!intern_reserve(m, h, &m->locations, hash_of_location_at))
		return META_FAILED;
	if (SLOTS_FIND(h, hash, slot, i, meta_location_eq(m, i, l, lines)))
		return i;
	at = lines ? meta_lines(m, lines, l->n_lines) : l->first_line;
	if (at != META_FAILED && l->flags & LOCATION_BARE)
		at = location_words(m, l->n_lines, at);
	new = at == META_FAILED ? NULL : column_push(m, &m->locations);
	if (!new)
		return META_FAILED;
	b = meta_binary_at(m, meta_binary_of(m, l));
	new->addr = l->addr;
	new->part = l->part;
	new->at = at;
	new->next = atomic_load_explicit(&b->last_location, memory_order_relaxed);
	new->n_lines = l->n_lines;
	atomic_store_explicit(&new->marks, l->flags & LOCATION_FLAGS, memory_order_relaxed);
	i = intern_put(h, slot, &m->locations);
	atomic_store_explicit(&b->last_location, i + 1, memory_order_release);
	atomic_fetch_add_explicit(&b->n_locations, 1, memory_order_relaxed);
	if (l->flags & LOCATION_BARE)
		atomic_fetch_add_explicit(&b->n_bare, 1, memory_order_relaxed);
	return i;
}

uint32_t meta_location_again(struct meta *m, uint32_t i)
{
	void *new = column_push(m, &m->locations);

	if (!new)
		return META_FAILED;
	memcpy(new, packed_location_at(m, i), m->locations.entry_size);
	return column_publish(&m->locations);
}

/* ---- names ---- */

static uint64_t hash_of_shift(const struct meta *m, uint64_t shift)
{
	return hash_mix(shift, m->seed);
}

static uint64_t shift_at(const struct meta *m, uint32_t i)
{
	return *(const uint64_t *)column_at(&m->shifts, i);
}

static uint64_t hash_of_shift_at(const struct meta *m, uint32_t i)
{
	return hash_of_shift(m, shift_at(m, i));
}

/* The number of a shift; 0: there are too many different ones, or no memory. */
static uint32_t meta_shift(struct meta *m, uint64_t shift)
{
	struct slots *h = &m->by_shift;
	uint32_t at, i;
	uint64_t *new;

	if (!intern_reserve(m, h, &m->shifts, hash_of_shift_at))
		return 0;
	if (SLOTS_FIND(h, hash_of_shift(m, shift), at, i, shift_at(m, i) == shift))
		return i;
	new = column_n(&m->shifts) <= LOCATION_MAX_SHIFT ? column_push(m, &m->shifts) : NULL;
	if (!new)
		return 0;
	*new = shift;
	return intern_put(h, at, &m->shifts);
}

void meta_set_names(struct meta *m, uint32_t i, uint64_t word, uint64_t elf_addr)
{
	struct packed_location *l = packed_location_at(m, i);
	uint16_t flags = location_marks(l) & LOCATION_FLAGS;
	uint32_t shift;

	if (!(flags & LOCATION_BARE))
		return;
	shift = elf_addr ? meta_shift(m, elf_addr - l->addr) : 0;
	atomic_store_explicit(&l->marks, (uint16_t)(flags | shift << LOCATION_SHIFT_BIT),
			      memory_order_relaxed);
	atomic_store_explicit(location_word_at(m, l->at), word, memory_order_release);
}

/* ---- asking for memory ---- */

void meta_fetch_locations(const struct meta *m, const uint64_t *hashes, size_t n)
{
	const struct slots *h = &m->by_location;

	FETCH(h, &m->locations, hashes, n);
	for (size_t k = 0; h->mask && k < n; k++) {
		uint32_t i = slots_at(h, (uint32_t)hashes[k] & h->mask);
		const struct packed_location *l = i ? packed_location_at(m, i - 1) : NULL;

		if (l && l->n_lines && !(location_marks(l) & LOCATION_BARE))
			__builtin_prefetch(column_at(&m->lines, l->at));
	}
}
