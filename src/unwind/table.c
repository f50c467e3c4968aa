/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in memory: their check, their rows in order, and rules as text. */
#include "base/base.h"
#include "unwind/unwind.h"

static bool table_is_sound(const struct unwind_head *h)
{
	uint64_t span = UNWIND_LE64(h->span),
		 n_units = (uint64_t)UNWIND_LE32(h->n_chunks) * (UNWIND_CHUNK_SIZE / 8);
	uint64_t n_blocks = UNWIND_LE32(h->n_blocks), n_rules = UNWIND_LE32(h->n_rules);

	return span && span <= UNWIND_MAX_SPAN && !(UNWIND_LE64(h->base) & 0xffff) &&
	       h->id_size <= UNWIND_ID_MAX && n_rules && n_rules <= UNWIND_MAX_RULES &&
	       (span - 1) >> UNWIND_BLOCK_SHIFT == n_blocks - 1 &&
	       UNWIND_LE32(h->blocks) + n_blocks <= n_units &&
	       (n_rules <= UNWIND_FIRST_RULES ||
		UNWIND_LE32(h->more_rules) + n_rules - UNWIND_FIRST_RULES <= n_units);
}

int unwind_table_open(struct bytes b, struct unwind_table *ret, struct err *err)
{
	struct unwind_head h;
	struct hash64_state s;

	if (b.size < UNWIND_CHUNK_SIZE)
		return UNWIND_NOT_TABLE;
	memcpy(&h, b.p, sizeof(h));
	if (memcmp(h.magic, UNWIND_MAGIC, 4) != 0 || h.version != UNWIND_VERSION)
		return UNWIND_NOT_TABLE;
	if ((uint64_t)UNWIND_LE32(h.n_chunks) * UNWIND_CHUNK_SIZE != b.size)
		return err_set(err, ERR_INVALID, "unwind table: %zu bytes, but its head says %u chunks of %u",
			       b.size, UNWIND_LE32(h.n_chunks), UNWIND_CHUNK_SIZE);
	if (!table_is_sound(&h))
		return err_set(err, ERR_INVALID, "unwind table: its head contradicts itself");
	hash64_init(&s, 0);
	h.hash = 0;
	hash64_feed(&s, &h, sizeof(h));
	hash64_feed(&s, b.p + sizeof(h), b.size - sizeof(h));
	memcpy(&h, b.p, sizeof(h));
	if (hash64_end(&s) != UNWIND_LE64(h.hash))
		return err_set(err, ERR_INVALID, "unwind table: wrong checksum");
	*ret = (struct unwind_table){ (const union unwind_chunk *)(const void *)b.p,
				      UNWIND_LE32(h.n_chunks) };
	return 0;
}

/* ---- rows in order ---- */

void unwind_rows_start(struct unwind_rows *it, const struct unwind_table *t)
{
	*it = (struct unwind_rows){ .table = *t };
}

/* The block of page @page; false: it has no rows. */
static bool page_block(const struct unwind_table *t, uint64_t page, struct unwind_block *ret)
{
	const struct unwind_head *h = &t->chunks[0].head;
	uint32_t unit = UNWIND_LE32(h->blocks) + (uint32_t)(page >> 8);
	const union unwind_chunk *c = UNWIND_CHUNK(t, unit >> 9);

	if (!c)
		return false;
	*ret = c->block[unit & 511];
	return ret->pages && UNWIND_LE16(ret->pages) >> 3 < t->n_chunks;
}

/* The slots of page @page in block @b, [*ret_from, *ret_to) of chunk *ret; false: it has none. */
static bool page_rows(const struct unwind_table *t, struct unwind_block b, uint64_t page,
		      const union unwind_chunk **ret, uint32_t *ret_from, uint32_t *ret_to)
{
	const union unwind_chunk *c = UNWIND_CHUNK(t, UNWIND_LE16(b.pages) >> 3);
	uint32_t unit = (uint32_t)(UNWIND_LE16(b.pages) & 7) << 8 | (page & 255);
	uint32_t from = UNWIND_LE16(c->slot[unit]), to, end;

	to = (page & 255) == 255 ? UNWIND_LE16(b.n) : UNWIND_LE16(c->slot[(unit + 1) & 2047]);
	c = UNWIND_CHUNK(t, (UNWIND_LE32(b.rows) + from) >> 11);
	if (from >= to || !c)
		return false;
	end = UNWIND_LE16(c->slot[UNWIND_CHUNK_SLOTS - 1]);
	*ret_from = (UNWIND_LE32(b.rows) + from) & (UNWIND_CHUNK_SLOTS - 1);
	*ret_to = MIN(*ret_from + (to - from), MIN(end, UNWIND_CHUNK_SLOTS - 1));
	*ret = c;
	return *ret_from < *ret_to;
}

bool unwind_rows_next(struct unwind_rows *it)
{
	const struct unwind_head *h = &it->table.chunks[0].head;
	uint64_t span = MIN(UNWIND_LE64(h->span), (uint64_t)UNWIND_MAX_SPAN);

	for (; it->page << UNWIND_PAGE_SHIFT < span; it->page++, it->n_passed = 0) {
		const union unwind_chunk *c;
		struct unwind_block b;
		uint32_t from, to;
		unsigned low;

		if (!page_block(&it->table, it->page, &b)) {
			it->page |= 255; /* the last page of the block */
			continue;
		}
		if (!page_rows(&it->table, b, it->page, &c, &from, &to))
			continue;
		from += it->n_passed;
		if (from >= to)
			continue;
		it->n_passed += UNWIND_LE16(c->slot[from]) >> 8 == UNWIND_ESCAPE ? 3 : 1;
		low = UNWIND_LE16(c->slot[from]) & 255;
		it->addr = UNWIND_LE64(h->base) + (it->page << UNWIND_PAGE_SHIFT) + low;
		return unwind_find(&it->table, it->addr, &it->rule) == 0;
	}
	return false;
}

/* ---- text ---- */

static const char *register_name(unsigned n)
{
	static const char *const names[16] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
					       "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15" };

	return names[n & 15];
}

void unwind_rule_print(const struct unwind_rule *r, struct buf *out)
{
	const char *reg = register_name(r->cfa >> 4);

	switch (r->cfa & 15) {
	case UNWIND_CFA_NONE:
		buf_add_str(out, STR("none"));
		return;
	case UNWIND_CFA_CHAIN:
		buf_add_str(out, STR("by frame pointer"));
		return;
	case UNWIND_CFA_BAD:
		buf_add_str(out, STR("unsupported"));
		return;
	case UNWIND_CFA_SIGNAL:
		buf_printf(out, "signal frame, registers at rsp%+d", unwind_rule_off(r));
		return;
	case UNWIND_CFA_REG:
		buf_printf(out, "cfa=%s%+d", reg, unwind_rule_off(r));
		break;
	case UNWIND_CFA_DEREF:
		buf_printf(out, "cfa=*(%s%+d)%+d", reg, (int16_t)r->off, (int8_t)(r->off >> 16));
		break;
	case UNWIND_CFA_PLT:
		buf_printf(out, "cfa=rsp+8, rsp+16 from byte %u of 16", r->off & 15);
		break;
	case UNWIND_CFA_CLONE:
		buf_add_str(out, STR("cfa=rsp+8, none in a new thread"));
		break;
	default:
		buf_add_str(out, STR("unknown"));
		return;
	}
	switch (r->save & 3) {
	case UNWIND_RBP_SAME:
		break;
	case UNWIND_RBP_CFA:
		buf_printf(out, " rbp=cfa%+d", r->aux);
		break;
	case UNWIND_RBP_RBP:
		buf_printf(out, " rbp=*(rbp%+d)", r->aux);
		break;
	default:
		buf_add_str(out, STR(" rbp lost"));
	}
	if (unwind_rule_rbx(r) == UNWIND_RBX_LOST)
		buf_add_str(out, STR(" rbx lost"));
	else if (unwind_rule_rbx(r))
		buf_printf(out, " rbx=cfa-%u", 8 * unwind_rule_rbx(r));
	switch (r->save >> 2 & 3) {
	case UNWIND_RA_CFA:
		buf_add_str(out, STR(" ra=cfa-8"));
		break;
	case UNWIND_RA_END:
		buf_add_str(out, STR(" outermost"));
		break;
	case UNWIND_RA_REG:
		buf_printf(out, " ra=%s", register_name((unsigned)r->aux));
		break;
	default:
		buf_printf(out, " ra=cfa%+d", r->aux);
	}
	if (r->save & UNWIND_INTERRUPT)
		buf_add_str(out, STR(" interrupted caller"));
}
