/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Range lists: .debug_ranges (DWARF 3 and 4, section 2.17.3 there) and .debug_rnglists (DWARF 5,
 * section 2.17.3).
 *
 * Only the parts in a section of code are used. That removes the ranges that linkers leave of code that they
 * dropped (addresses of 0, 1, -1, -2, with or without an offset), and ranges that cover everything.
 */
#include "dwarf/code.h"

int dwarf_reader_spend(struct dwarf_reader *r, uint64_t n, struct err *err)
{
	if (n > r->budget) {
		r->budget = 0;
		return err_set(err, ERR_LIMIT, "refers to more bytes than a file of this size may");
	}
	r->budget -= n;
	return budget_hold_check(r->memory, err);
}

void dwarf_reader_span(struct dwarf_reader *r, uint64_t lo, uint64_t hi, uint32_t node)
{
	if (hi <= lo)
		return;
	if (!r->code || lo - r->code->base >= r->code->size)
		r->code = dwarf_place_at(r->d->code, r->d->n_code, lo);
	if (!r->code)
		return;
	hi = MIN(hi, r->code->base + r->code->size) - r->d->moved;
	lo -= r->d->moved;
	/* Adjacent ranges of a list become one. */
	if (r->n_spans && r->spans[r->n_spans - 1].node == node && r->spans[r->n_spans - 1].hi == lo) {
		r->spans[r->n_spans - 1].hi = hi;
		return;
	}
	READER_GROW(r, r->spans, r->n_spans, r->room_spans);
	r->spans[r->n_spans++] = (struct dwarf_span){ lo, hi, node };
}

/*
 * Whether offsets from @base are of code that a linker dropped: it writes -1 or -2 for its address, in .debug_ranges,
 * where -1 has a meaning, 1. Offsets from these could be addresses of other code.
 */
static bool base_is_dead(const struct dwarf_reader *r, uint64_t base)
{
	unsigned bits = r->cu.format.addr_size * 8;
	uint64_t max = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;

	return base >= max - 1 || (base == 1 && r->cu.format.version < 5 && !dwarf_code_end(r->d, 1));
}

static int ranges_v4(struct dwarf_reader *r, uint64_t off, uint32_t node, struct err *err)
{
	const struct dwarf_data *s = &r->d->ranges;
	unsigned size = r->cu.format.addr_size;
	uint64_t max = size == 8 ? UINT64_MAX : ((uint64_t)1 << size * 8) - 1, base = r->cu.low_pc, start;
	bool dead = base_is_dead(r, base);

	/* The base applies to the split unit's lists; the skeleton's own have absolute offsets. */
	if (add_overflows(off, r->cu.skeleton ? r->cu.ranges_base : 0, &off) || off > s->size)
		return err_set(err, ERR_INVALID, ".debug_ranges has no list at %llu",
			       (unsigned long long)off);
	for (start = off; s->size - off >= 2 * size; off += 2 * size) {
		uint64_t lo = dwarf_get(s->p + off, size, r->d->big);
		uint64_t hi = dwarf_get(s->p + off + size, size, r->d->big);

		if (!lo && !hi)
			break;
		if (lo == max) {
			base = hi;
			dead = base_is_dead(r, base);
		} else if (!dead) {
			dwarf_reader_span(r, (base + lo) & max, (base + hi) & max, node);
		}
		if (off - start > r->budget)
			break;
	}
	if (dwarf_reader_spend(r, off - start + 2 * size, err) < 0)
		return -1;
	return s->size - off >= 2 * size
		       ? 0
		       : err_set(err, ERR_INVALID, ".debug_ranges ends within the list at %llu",
				 (unsigned long long)start);
}

enum {
	RLE_END,
	RLE_BASE_ADDRESSX,
	RLE_STARTX_ENDX,
	RLE_STARTX_LENGTH,
	RLE_OFFSET_PAIR,
	RLE_BASE_ADDRESS,
	RLE_START_END,
	RLE_START_LENGTH,
};

/* An address of a list by its index. If there is none, *lacks is set, and @err the first time. */
static bool rnglist_address(struct dwarf_reader *r, uint64_t index, uint64_t *ret, bool *lacks,
			    struct err *err)
{
	if (dwarf_cu_address(&r->cu, index, ret))
		return true;
	if (!*lacks)
		(void)err_set(err, ERR_INVALID, ".debug_addr has no entry %llu", (unsigned long long)index);
	*lacks = true;
	return false;
}

/* Read the list at @start. *ret_end is the end of its bytes that were read, also on an error. The ranges whose
 * addresses are in no section are left out, which is an error, too, after the rest. */
static int rnglist_read(struct dwarf_reader *r, const uint8_t *start, uint32_t node, const uint8_t **ret_end,
			struct err *err)
{
	const struct dwarf_data *s = &r->cu.file->rnglists;
	const uint8_t *p = start, *end = s->p + s->size;
	unsigned size = r->cu.format.addr_size;
	uint64_t base = r->cu.low_pc;
	bool big = r->d->big, lacks = false, based = !base_is_dead(r, base), live;

	while (p < end && (size_t)(p - start) <= r->budget) {
		uint8_t kind = *p++;
		uint64_t lo = 0, hi = 0, x;

		*ret_end = p;
		live = true;
		switch (kind) {
		case RLE_END:
			return lacks ? -1 : 0;
		case RLE_BASE_ADDRESSX:
			x = leb_u(&p, end);
			based = rnglist_address(r, x, &base, &lacks, err) && !base_is_dead(r, base);
			continue;
		case RLE_STARTX_ENDX:
			x = leb_u(&p, end);
			live = rnglist_address(r, x, &lo, &lacks, err);
			x = leb_u(&p, end);
			live = rnglist_address(r, x, &hi, &lacks, err) && live;
			break;
		case RLE_STARTX_LENGTH:
			x = leb_u(&p, end);
			live = rnglist_address(r, x, &lo, &lacks, err);
			hi = lo + leb_u(&p, end);
			break;
		case RLE_OFFSET_PAIR:
			live = based;
			lo = base + leb_u(&p, end);
			hi = base + leb_u(&p, end);
			break;
		case RLE_BASE_ADDRESS:
		case RLE_START_END:
		case RLE_START_LENGTH:
			if ((size_t)(end - p) < size)
				goto cut;
			lo = dwarf_get(p, size, big);
			p += size;
			if (kind == RLE_BASE_ADDRESS) {
				base = lo;
				based = !base_is_dead(r, base);
				continue;
			}
			if (kind == RLE_START_LENGTH) {
				hi = lo + leb_u(&p, end);
				break;
			}
			if ((size_t)(end - p) < size)
				goto cut;
			hi = dwarf_get(p, size, big);
			p += size;
			break;
		default:
			return err_set(err, ERR_INVALID, ".debug_rnglists: unknown entry %u at %zu", kind,
				       (size_t)(p - 1 - s->p));
		}
		if (p > end)
			goto cut;
		if (live)
			dwarf_reader_span(r, lo, hi, node);
	}
	*ret_end = MIN(p, end);
	if (p < end)
		return 0; /* the budget is used up, which the caller finds */
cut:
	return err_set(err, ERR_INVALID, ".debug_rnglists ends within the list at %llu",
		       (unsigned long long)(start - s->p));
}

static int rnglist_at(struct dwarf_reader *r, uint64_t off, uint32_t node, struct err *err)
{
	const struct dwarf_data *s = &r->cu.file->rnglists;
	const uint8_t *end;
	int rc;

	if (off >= s->size)
		return err_set(err, ERR_INVALID, ".debug_rnglists has no list at %llu",
			       (unsigned long long)off);
	end = s->p + off;
	rc = rnglist_read(r, s->p + off, node, &end, err);
	return dwarf_reader_spend(r, (uint64_t)(end - (s->p + off)), err) < 0 ? -1 : rc;
}

int dwarf_reader_ranges(struct dwarf_reader *r, uint64_t v, bool is_index, uint32_t node, struct err *err)
{
	const struct dwarf_data *s = &r->cu.file->rnglists;
	unsigned size = r->cu.format.offset_size;
	uint64_t off;

	if (r->cu.format.version < 5)
		return ranges_v4(r, v, node, err);
	if (!is_index)
		return add_overflows(v, r->cu.part.rnglists, &off)
			       ? err_set(err, ERR_INVALID, ".debug_rnglists has no list %llu",
					 (unsigned long long)v)
			       : rnglist_at(r, off, node, err);
	if (mul_overflows(v, size, &off) || add_overflows(off, r->cu.rnglists_base, &off) || off >= s->size ||
	    s->size - off < size)
		return err_set(err, ERR_INVALID, ".debug_rnglists has no list %llu", (unsigned long long)v);
	if (add_overflows(dwarf_get(s->p + off, size, r->d->big), r->cu.rnglists_base, &off))
		return err_set(err, ERR_INVALID, ".debug_rnglists has no list %llu", (unsigned long long)v);
	return rnglist_at(r, off, node, err);
}
