/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Valid frames (RFC 8878) that no encoder makes. All choices are random: for each block its kind, for each
 * table its mode, then sequences that the tables can express, executed at once to get the decoded bytes;
 * finally the bits are written.
 *
 * The decoding tables are those of the code under test: libzstd decides whether the frames are right.
 */
#include "zstd_gen.h"

#include <assert.h>
#include <stdlib.h>
#include "codec/zstd.h"

#define BLOCKS_MAX  24
#define SEQ_MAX     40000
#define HUF_SYMBOLS 128
#define HUF_BITS    11

struct bits {
	struct buf out;
	uint64_t v;
	unsigned n;
};

static void put(struct bits *b, uint64_t v, unsigned n)
{
	b->v |= v << b->n;
	b->n += n;
	while (b->n >= 8) {
		buf_add_char(&b->out, (char)b->v);
		b->v >>= 8;
		b->n -= 8;
	}
}

/* Streams that are read backwards end with a 1 bit. */
static void put_end(struct bits *b)
{
	put(b, 1, 1);
	if (b->n)
		put(b, 0, 8 - b->n);
}

struct huffman {
	bool is;
	unsigned n_symbols, max_bits;
	uint8_t symbols[HUF_SYMBOLS]; /* those in use */
	uint8_t weight[HUF_SYMBOLS + 1];
	uint8_t n_bits[HUF_SYMBOLS];
	uint16_t code[HUF_SYMBOLS];
	struct buf desc;
};

struct seq {
	uint32_t state[ZSTD_N_TABLES];
	struct zstd_state s[ZSTD_N_TABLES]; /* of any state of the symbol */
	uint32_t extra[ZSTD_N_TABLES];
};

struct frame {
	struct zstd_gen_rng *r;
	struct buf *out, *plain;
	size_t start; /* of the frame's content in plain */
	uint64_t window, block_max;
	struct huffman tree;
	uint32_t serial;
	struct zstd_table table[ZSTD_N_TABLES];
	struct zstd_states states[ZSTD_N_TABLES];
	uint32_t rep[3];
	struct seq *seq; /* SEQ_MAX */
};

/* ---- literals ---- */

/* A full tree: leaves are split until there are enough. */
static void make_tree(struct frame *f)
{
	struct huffman *t = &f->tree;
	uint8_t bits[HUF_SYMBOLS] = { 1, 1 };
	unsigned n = 2, want = 2 + zstd_gen_below(f->r, zstd_gen_one_in(f->r, 3) ? 100 : 12), code = 0,
		 last = 0;

	for (unsigned tries = 0; n < want && tries < 1000; tries++) {
		unsigned i = zstd_gen_below(f->r, n);

		if (bits[i] == HUF_BITS)
			continue;
		bits[n++] = ++bits[i];
	}
	buf_done(&t->desc);
	*t = (struct huffman){ .is = true };
	for (unsigned i = 0; i < n; i++)
		t->max_bits = MAX(t->max_bits, bits[i]);
	for (unsigned i = 0; i < n; i++) {
		unsigned symbol;

		do
			symbol = zstd_gen_below(f->r, HUF_SYMBOLS);
		while (t->weight[symbol]);
		t->weight[symbol] = (uint8_t)(t->max_bits + 1 - bits[i]);
		t->n_bits[symbol] = bits[i];
		t->symbols[t->n_symbols++] = (uint8_t)symbol;
		last = MAX(last, symbol);
	}
	for (unsigned w = 1; w <= t->max_bits; w++, code >>= 1)
		for (unsigned s = 0; s < HUF_SYMBOLS; s++)
			if (t->weight[s] == w)
				t->code[s] = (uint16_t)code++;
	/* The last weight follows from the others. */
	buf_add_char(&t->desc, (char)(127 + last));
	for (unsigned s = 0; s < last; s += 2)
		buf_add_char(&t->desc, (char)(t->weight[s] << 4 | (s + 1 < last ? t->weight[s + 1] : 0)));
}

static void huf_stream(const struct huffman *t, struct bytes lits, struct buf *ret)
{
	struct bits b = { 0 };

	for (size_t i = lits.size; i > 0; i--)
		put(&b, t->code[lits.p[i - 1]], t->n_bits[lits.p[i - 1]]);
	put_end(&b);
	buf_add(ret, b.out.p, b.out.size);
	buf_done(&b.out);
}

/* The literals section with a tree, or false when that is longer than without. */
static bool huf_literals(const struct huffman *t, bool with_tree, bool four, struct bytes lits,
			 struct buf *ret)
{
	AUTO(buf_done) struct buf body = { 0 };
	uint64_t header;
	unsigned format, width;

	if (with_tree)
		buf_add(&body, t->desc.p, t->desc.size);
	if (four) {
		size_t part = (lits.size + 3) / 4, jump = body.size;

		buf_add(&body, "\0\0\0\0\0", 6);
		for (unsigned i = 0; i < 4; i++) {
			size_t from = i * part, before = body.size, n;

			huf_stream(t, bytes_of(lits.p + from, MIN(part, lits.size - from)), &body);
			n = body.size - before;
			if (i < 3) {
				body.p[jump + 2 * i] = (uint8_t)n;
				body.p[jump + 2 * i + 1] = (uint8_t)(n >> 8);
			}
		}
	} else {
		huf_stream(t, lits, &body);
	}
	if (body.size >= lits.size)
		return false;
	format = !four ? 0 : lits.size < 1024 ? 1 : lits.size < 16384 ? 2 : 3;
	width = format < 2 ? 10 : format == 2 ? 14 : 18;
	header = (with_tree ? 2u : 3u) | format << 2 | (uint64_t)lits.size << 4 |
		 (uint64_t)body.size << (4 + width);
	for (unsigned i = 0; i < (4 + 2 * width + 7) / 8; i++)
		buf_add_char(ret, (char)(header >> 8 * i));
	buf_add(ret, body.p, body.size);
	return true;
}

static void plain_literals(struct zstd_gen_rng *r, bool rle, struct bytes lits, struct buf *ret)
{
	uint32_t n = (uint32_t)lits.size, type = rle;

	if (n < 32 && !zstd_gen_one_in(r, 4)) {
		buf_add_char(ret, (char)(type | n << 3));
	} else if (n < 4096 && !zstd_gen_one_in(r, 4)) {
		buf_add_u16(ret, (uint16_t)(type | 1 << 2 | n << 4));
	} else {
		buf_add_u16(ret, (uint16_t)(type | 3 << 2 | n << 4));
		buf_add_char(ret, (char)(n >> 12));
	}
	buf_add(ret, lits.p, rle ? 1 : n);
}

enum literals { RAW, RLE, COMPRESSED, TREELESS };

static uint8_t draw_literal(struct frame *f, enum literals kind, uint8_t rle)
{
	if (kind == RAW)
		return (uint8_t)zstd_gen_below(f->r, 256);
	return kind == RLE ? rle : f->tree.symbols[zstd_gen_below(f->r, f->tree.n_symbols)];
}

/* ---- tables ---- */

/* The inverse of 4.1.1. */
static void put_counts(const struct zstd_counts *c, struct zstd_table *t)
{
	struct bits b = { 0 };
	uint32_t left = (1u << c->log) + 1, threshold = 1u << c->log, width = c->log + 1;

	put(&b, c->log - 5, 4);
	for (unsigned s = 0; left > 1;) {
		int count = c->count[s++];
		uint32_t v = (uint32_t)(count + 1), spare = 2 * threshold - 1 - left;

		left -= count < 0 ? 1 : (uint32_t)count;
		if (v >= threshold)
			v += spare;
		put(&b, v, v < spare ? width - 1 : width);
		while (left > 1 && left < threshold) {
			threshold >>= 1;
			width--;
		}
		if (count == 0) {
			unsigned zeros = 0;

			while (c->count[s + zeros] == 0)
				zeros++;
			s += zeros;
			for (; zeros >= 3; zeros -= 3)
				put(&b, 3, 2);
			put(&b, zeros, 2);
		}
	}
	if (b.n)
		put(&b, 0, 8 - b.n);
	assert(b.out.size <= ZSTD_TABLE_DESC_MAX);
	memcpy(t->desc, b.out.p, b.out.size);
	t->size = (uint8_t)b.out.size;
	buf_done(&b.out);
}

static void make_fse(struct frame *f, enum zstd_table_id id, struct zstd_table *t)
{
	static const unsigned log_max[] = { 9, 8, 9 }, symbols[] = { 14, 16, 40 };
	struct zstd_counts c = { .log = 5 + zstd_gen_below(f->r, log_max[id] - 4) };
	unsigned n = 2 + zstd_gen_below(f->r, 8), left = 1u << c.log, last = 0;

	/* Some symbols with few states each; the largest symbol takes the rest, so that only zeros may follow
	 * it. */
	for (unsigned i = 0; i < n; i++) {
		unsigned s = zstd_gen_below(f->r, symbols[id] - 1),
			 give = 1 + zstd_gen_below(f->r, MAX(left / 4, 1));

		if (c.count[s] || left <= give)
			continue;
		c.count[s] = give == 1 && zstd_gen_one_in(f->r, 2) ? -1 : (int16_t)give;
		left -= give;
		last = MAX(last, s);
	}
	c.n_symbols = last + 2;
	c.count[last + 1] = (int16_t)left;
	t->kind = ZSTD_TABLE_FSE;
	put_counts(&c, t);
}

static enum zstd_mode make_table(struct frame *f, enum zstd_table_id id)
{
	static const uint8_t rle_symbols[] = { 12, 6, 30 };
	struct zstd_table *t = &f->table[id];
	enum zstd_mode mode = zstd_gen_below(f->r, 4);
	const char *doubt;

	if (mode == ZSTD_MODE_REPEAT && t->kind == ZSTD_TABLE_NONE)
		mode = ZSTD_MODE_PREDEFINED;
	if (mode == ZSTD_MODE_PREDEFINED)
		t->kind = ZSTD_TABLE_PREDEFINED;
	if (mode == ZSTD_MODE_RLE) {
		t->kind = ZSTD_TABLE_RLE;
		t->desc[0] = (uint8_t)zstd_gen_below(f->r, rle_symbols[id]);
		t->size = 1;
	}
	if (mode == ZSTD_MODE_FSE)
		make_fse(f, id, t);
	if (mode != ZSTD_MODE_REPEAT)
		t->serial = ++f->serial;
	doubt = zstd_states_build(&f->states[id], id, t);
	assert(!doubt);
	(void)doubt;
	return mode;
}

/* ---- sequences ---- */

static void draw_state(struct frame *f, struct seq *q, enum zstd_table_id id, uint32_t extra_max)
{
	const struct zstd_states *t = &f->states[id];

	q->s[id] = t->s[zstd_gen_below(f->r, 1u << t->log)];
	q->extra[id] = zstd_gen_below(f->r, MIN(extra_max, 1u << q->s[id].extra));
}

/* The offset that @q expresses, if it is at most @limit; else 0. Sets the repcodes. */
static uint32_t take_offset(uint32_t rep[3], const struct seq *q, bool no_literals, uint64_t limit)
{
	uint32_t v = q->s[ZSTD_OF].base + q->extra[ZSTD_OF], of, n;

	if (v > 3) {
		of = v - 3;
		n = 3;
	} else {
		n = v - 1 + no_literals;
		of = n == 3 ? rep[0] - 1 : rep[n];
	}
	if (!of || of > limit)
		return 0;
	if (n >= 2)
		rep[2] = rep[1];
	if (n >= 1)
		rep[1] = rep[0];
	rep[0] = of;
	return of;
}

/* One more sequence, executed; false if it does not fit. */
static bool draw_seq(struct frame *f, struct seq *q, enum literals kind, uint8_t rle, size_t room,
		     struct buf *lits)
{
	uint32_t rep[3] = { f->rep[0], f->rep[1], f->rep[2] }, of, ll, ml;
	uint64_t limit;

	draw_state(f, q, ZSTD_LL, 64);
	draw_state(f, q, ZSTD_ML, 64);
	draw_state(f, q, ZSTD_OF, UINT32_MAX);
	ll = q->s[ZSTD_LL].base + q->extra[ZSTD_LL];
	ml = q->s[ZSTD_ML].base + q->extra[ZSTD_ML];
	if (ll + ml > room)
		return false;
	limit = MIN(f->window, f->plain->size - f->start + ll);
	of = take_offset(rep, q, ll == 0, limit);
	if (!of)
		return false;
	memcpy(f->rep, rep, sizeof(rep));
	for (uint32_t i = 0; i < ll; i++) {
		uint8_t c = draw_literal(f, kind, rle);

		buf_add_char(lits, (char)c);
		buf_add_char(f->plain, (char)c);
	}
	for (uint32_t i = 0; i < ml; i++)
		buf_add_char(f->plain, (char)f->plain->p[f->plain->size - of]);
	return true;
}

/* The state from which @q's symbol leads to @next; for the last sequence, any. */
static uint32_t find_state(const struct zstd_states *t, const struct zstd_state *q, const uint32_t *next)
{
	for (uint32_t i = 0; i < 1u << t->log; i++) {
		const struct zstd_state *s = &t->s[i];

		if (s->base == q->base && s->extra == q->extra &&
		    (!next || (*next >= s->next && *next - s->next < 1u << s->bits)))
			return i;
	}
	abort();
}

/* Backwards: what is read first is written last. */
static void put_sequences(struct frame *f, size_t n, struct buf *ret)
{
	struct bits b = { 0 };

	for (size_t i = n; i > 0; i--) {
		struct seq *q = &f->seq[i - 1];
		static const enum zstd_table_id update[] = { ZSTD_OF, ZSTD_ML, ZSTD_LL };

		for (unsigned k = 0; k < ZSTD_N_TABLES; k++) {
			enum zstd_table_id id = update[k];
			const uint32_t *next = i == n ? NULL : &q[1].state[id];

			q->state[id] = find_state(&f->states[id], &q->s[id], next);
			q->s[id] = f->states[id].s[q->state[id]];
			if (next)
				put(&b, *next - q->s[id].next, q->s[id].bits);
		}
		put(&b, q->extra[ZSTD_LL], q->s[ZSTD_LL].extra);
		put(&b, q->extra[ZSTD_ML], q->s[ZSTD_ML].extra);
		put(&b, q->extra[ZSTD_OF], q->s[ZSTD_OF].extra);
	}
	put(&b, f->seq[0].state[ZSTD_ML], f->states[ZSTD_ML].log);
	put(&b, f->seq[0].state[ZSTD_OF], f->states[ZSTD_OF].log);
	put(&b, f->seq[0].state[ZSTD_LL], f->states[ZSTD_LL].log);
	put_end(&b);
	buf_add(ret, b.out.p, b.out.size);
	buf_done(&b.out);
}

static void put_n_seq(struct frame *f, uint32_t n, struct buf *ret)
{
	if (n >= 0x7f00) {
		buf_add_char(ret, (char)255);
		buf_add_u16(ret, (uint16_t)(n - 0x7f00));
	} else if (n >= 128 || (n && zstd_gen_one_in(f->r, 5))) {
		buf_add_char(ret, (char)(128 + (n >> 8)));
		buf_add_char(ret, (char)n);
	} else {
		buf_add_char(ret, (char)n);
	}
}

/* ---- blocks ---- */

static void put_block_header(struct frame *f, bool last, enum zstd_block_type type, size_t size)
{
	uint32_t v = (uint32_t)last | (uint32_t)type << 1 | (uint32_t)size << 3;

	buf_add_u16(f->out, (uint16_t)v);
	buf_add_char(f->out, (char)(v >> 16));
}

static void raw_block(struct frame *f, bool last, struct bytes b)
{
	put_block_header(f, last, ZSTD_BLOCK_RAW, b.size);
	buf_add(f->out, b.p, b.size);
}

/* How many sequences to try. */
static uint32_t draw_n_seq(struct frame *f)
{
	if (zstd_gen_one_in(f->r, 5))
		return 0;
	if (zstd_gen_one_in(f->r, 60))
		return SEQ_MAX;
	return 1 + zstd_gen_below(f->r, zstd_gen_one_in(f->r, 6) ? 400 : 40);
}

static void compressed_block(struct frame *f, bool last)
{
	AUTO(buf_done) struct buf lits = { 0 };
	AUTO(buf_done) struct buf body = { 0 };
	enum literals kind = zstd_gen_below(f->r, 4);
	uint8_t rle = (uint8_t)zstd_gen_below(f->r, 256), modes = 0;
	size_t start = f->plain->size, n = 0, tail, seq_at;
	uint32_t want = draw_n_seq(f), rep[3] = { f->rep[0], f->rep[1], f->rep[2] };
	struct zstd_table table[ZSTD_N_TABLES];
	bool fits = true;

	memcpy(table, f->table, sizeof(table));
	if (kind == TREELESS && !f->tree.is)
		kind = COMPRESSED;
	if (kind == COMPRESSED)
		make_tree(f);
	if (want)
		for (unsigned id = 0; id < ZSTD_N_TABLES; id++)
			modes |= (uint8_t)(make_table(f, id) << (6 - 2 * id));
	for (unsigned tries = 0; n < want && tries < 2 * SEQ_MAX; tries++) {
		size_t room = f->block_max - (f->plain->size - start);

		if (draw_seq(f, &f->seq[n], kind, rle, room, &lits))
			n++;
		else if (tries > 40 + 2 * n)
			break;
	}
	tail = zstd_gen_below(f->r, zstd_gen_one_in(f->r, 4) ? 3000 : 60);
	tail = MIN(tail, f->block_max - (f->plain->size - start));
	for (size_t i = 0; i < tail; i++) {
		uint8_t c = draw_literal(f, kind, rle);

		buf_add_char(&lits, (char)c);
		buf_add_char(f->plain, (char)c);
	}
	if (kind >= COMPRESSED) {
		bool four = lits.size > 900 || (lits.size > 64 && zstd_gen_one_in(f->r, 2));

		fits = huf_literals(&f->tree, kind == COMPRESSED, four, buf_bytes(&lits), &body);
		/* The tree is then in no block, and no block may use it. */
		if (!fits && kind == COMPRESSED)
			f->tree.is = false;
		/* A tree that was in effect before would still be, but it is overwritten here. */
	} else {
		plain_literals(f->r, kind == RLE && lits.size, buf_bytes(&lits), &body);
	}
	put_n_seq(f, (uint32_t)n, &body);
	if (n) {
		buf_add_char(&body, (char)modes);
		for (unsigned id = 0; id < ZSTD_N_TABLES; id++) {
			enum zstd_mode mode = modes >> (6 - 2 * id) & 3;

			if (mode == ZSTD_MODE_RLE || mode == ZSTD_MODE_FSE)
				buf_add(&body, f->table[id].desc, f->table[id].size);
		}
		seq_at = body.size;
		put_sequences(f, n, &body);
		assert(body.size > seq_at);
	} else if (want) {
		/* No sequence was possible: the tables were not sent. */
		memcpy(f->table, table, sizeof(table));
	}
	if (fits && f->plain->size > start && body.size > 2 && body.size < f->block_max) {
		put_block_header(f, last, ZSTD_BLOCK_COMPRESSED, body.size);
		buf_add(f->out, body.p, body.size);
		return;
	}
	/* If the block cannot be expressed so, store the same bytes raw. */
	memcpy(f->table, table, sizeof(table));
	memcpy(f->rep, rep, sizeof(rep));
	if (kind == COMPRESSED)
		f->tree.is = false;
	raw_block(f, last, bytes_of(f->plain->p + start, f->plain->size - start));
}

static void block(struct frame *f, bool last)
{
	size_t n = zstd_gen_below(f->r, 2000), start = f->plain->size;

	n = MIN(n, f->block_max);
	if (zstd_gen_one_in(f->r, 10)) {
		n = zstd_gen_one_in(f->r, 3) ? 0 : n;
		for (size_t i = 0; i < n; i++)
			buf_add_char(f->plain, (char)zstd_gen_below(f->r, 256));
		raw_block(f, last, bytes_of(f->plain->p + start, n));
	} else if (zstd_gen_one_in(f->r, 12)) {
		uint8_t c = (uint8_t)zstd_gen_below(f->r, 256);

		n = MAX(n, 1);
		memset(buf_reserve(f->plain, n), c, n);
		f->plain->size += n;
		put_block_header(f, last, ZSTD_BLOCK_RLE, n);
		buf_add_char(f->out, (char)c);
	} else {
		compressed_block(f, last);
	}
}

void zstd_gen_exotic(struct zstd_gen_rng *r, struct buf *ret, struct buf *ret_plain)
{
	struct frame *f = NEW(struct frame);
	unsigned n = 1 + zstd_gen_below(r, BLOCKS_MAX);
	uint8_t window = (uint8_t)zstd_gen_below(r, 70);

	buf_reserve(ret_plain, 1); /* so that it has an address, even if it stays empty */
	f->r = r;
	f->out = ret;
	f->plain = ret_plain;
	f->start = ret_plain->size;
	f->seq = NEW_N(struct seq, SEQ_MAX);
	f->window = zstd_window_size(window);
	f->block_max = MIN(f->window, ZSTD_BLOCK_MAX);
	f->rep[0] = 1;
	f->rep[1] = 4;
	f->rep[2] = 8;
	buf_add_u32(ret, 0xfd2fb528u);
	buf_add_char(ret, 0);
	buf_add_char(ret, (char)window);
	for (unsigned i = 0; i < n; i++)
		block(f, i + 1 == n);
	buf_done(&f->tree.desc);
	free(f->seq);
	free(f);
}
