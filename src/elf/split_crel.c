/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relocations in CREL, the compact form that LLVM writes with --crel: a stream of entries, in which only changed fields
 * are stored, as LEB128. The head has the number of entries * 8, a bit for addends, and two bits of the shift of all
 * offsets. An entry begins with flags of its changed fields and the low bits of the step of its offset; the changes of
 * symbol, kind and addend follow.
 *
 * Stripping changes the symbols' numbers and nothing else, so all other bytes of an entry are copied. Symbols keep their
 * order: a step between two of them never becomes longer, and never becomes 0.
 */
#include "elf/split_strip.h"

#define CREL_ADDENDS 4u
#define CREL_SYMBOL  1u /* flags of an entry */
#define CREL_TYPE    2u
#define CREL_ADDEND  4u

struct crel_reader {
	struct elf_strip *t;
	struct cursor c;
	struct buf *out; /* the renumbered entries; NULL: the symbols are marked as used */
	uint32_t symbol, new_symbol;
	unsigned n_flags;
};

static void crel_put_sleb(struct buf *b, int64_t v)
{
	for (;;) {
		uint8_t low = v & 0x7f;
		bool last = (v < 0 ? (v >> 6) == -1 : (v >> 6) == 0);

		buf_add_char(b, (char)(last ? low : low | 0x80));
		if (last)
			return;
		v >>= 7;
	}
}

/* Copy the bytes that were read since @from. */
static void crel_copy(struct crel_reader *r, const uint8_t *from)
{
	if (r->out)
		buf_add(r->out, from, (size_t)(r->c.p - from));
}

static int crel_entry(struct crel_reader *r, struct err *err)
{
	const uint8_t *start = r->c.p;
	uint8_t first = cursor_u8(&r->c);
	uint32_t symbol;

	if (first & 0x80)
		(void)cursor_uleb(&r->c);
	crel_copy(r, start);
	if (first & CREL_SYMBOL) {
		r->symbol += (uint32_t)cursor_sleb(&r->c);
		if (!cursor_ok(&r->c) || r->symbol >= r->t->n_symbols)
			return cursor_ok(&r->c)
				       ? err_set(err, ERR_INVALID, "a relocation by symbol %u of %zu",
						 r->symbol, r->t->n_symbols)
				       : cursor_err(&r->c, "CREL", err);
		symbol = r->t->new_symbol[r->symbol];
		if (!r->out)
			r->t->symbol_used[r->symbol] = true;
		else if (r->symbol && !symbol)
			return err_set(err, ERR_CHANGED, "the file changed while it was split");
		else
			crel_put_sleb(r->out, (int64_t)symbol - (int64_t)r->new_symbol);
		r->new_symbol = symbol;
	}
	start = r->c.p;
	if (first & CREL_TYPE)
		(void)cursor_sleb(&r->c);
	if (r->n_flags == 3 && first & CREL_ADDEND)
		(void)cursor_sleb(&r->c);
	if (!cursor_ok(&r->c))
		return cursor_err(&r->c, "CREL", err);
	crel_copy(r, start);
	return 0;
}

/* Into @out, if it is not NULL; else mark the symbols that are used. */
static int crel_read(struct elf_strip *t, const struct elf_section *s, struct buf *out, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct crel_reader r = { .t = t, .out = out };
	struct bytes all = { 0 };
	uint64_t head;
	int read = elf_section_read(t->img, s, ELF_SPLIT_MAX_TABLE, &a, &all, err);

	if (read) /* an empty one stays empty */
		return read < 0 ? -1 : 0;
	r.c = cursor_at(all, t->img->h.big, 0);
	head = cursor_uleb(&r.c);
	r.n_flags = head & CREL_ADDENDS ? 3 : 2;
	if (!cursor_ok(&r.c))
		return cursor_err(&r.c, "CREL", err);
	crel_copy(&r, all.p);
	/* Each entry takes a byte at least, so a count that lies ends here. */
	for (uint64_t n = head / 8; n; n--)
		if (crel_entry(&r, err) < 0)
			return -1;
	return 0;
}

int elf_strip_crel_used(struct elf_strip *t, const struct elf_section *s, struct err *err)
{
	return crel_read(t, s, NULL, err);
}

int elf_strip_add_crel(struct elf_strip *t, struct elf_out *o, const struct elf_section *s, struct err *err)
{
	AUTO(buf_done) struct buf out = { 0 };

	if (crel_read(t, s, &out, err) < 0)
		return -1;
	return elf_out_add(o, out.p, out.size, err);
}
