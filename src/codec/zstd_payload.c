/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of a point: libzstd's state at a boundary, as a dictionary that any libzstd can load.
 *
 * A formatted dictionary (RFC 8878, 5) has exactly the state that blocks hand on: a Huffman tree, three FSE
 * tables, three repcodes, and history. Only those bytes of the history that the span refers to are kept.
 * docs/formats/resume-points.md has the layout.
 *
 * A dictionary must have a tree and tables, even where none are in effect yet or where they will not be used:
 * dummies take their place.
 */
#include "codec/zstd.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <zstd.h>

#define FORMAT     1
#define PACK_LEVEL 3
#define DICT_MAGIC 0xec30a437u
#define DICT_ID \
	0x6c6f6465u   /* any value that is not reserved; it is in no frame, so libzstd compares
				   it with nothing */
#define DICT_PREFIX 8 /* magic and id */
#define REPS_SIZE   12

/* The largest referenced data, runs and bytes together: more is not worth its space. */
#define PACKED_MAX MIB(64)
/* Buffers up to this size are reused for the next point. */
#define KEEP_MAX MIB(4)
/* A window, and one byte more than the largest repcode: at a frame's start repcodes may exceed the window. */
#define HISTORY_MAX (CODEC_MAX_WINDOW + 16)
#define HEAD_MAX    (ZSTD_TREE_DESC_MAX + 3 * ZSTD_TABLE_DESC_MAX)

/* One symbol of one bit, and another that follows from it. */
static const uint8_t dummy_tree[] = { 0x80, 0x10 };

struct zstd_payload_maker {
	ZSTD_CCtx *zstd;
	struct buf packed;
};

struct zstd_payload_maker *zstd_payload_maker_new(void)
{
	return NEW(struct zstd_payload_maker);
}

void zstd_payload_maker_free(struct zstd_payload_maker *m)
{
	if (!m)
		return;
	ZSTD_freeCCtx(m->zstd);
	buf_done(&m->packed);
	free(m);
}

/* ---- making ---- */

/* The first bit from @at on that is set (or, with @flip all ones, clear); @end if there is none before
 * @end. */
static uint64_t next_bit(const uint64_t *bits, uint64_t at, uint64_t end, uint64_t flip)
{
	uint64_t word, i = at >> 6;

	if (at >= end)
		return end;
	word = (bits[i] ^ flip) & ~0ull << (at & 63);
	while (!word) {
		if (++i > (end - 1) >> 6)
			return end;
		word = bits[i] ^ flip;
	}
	at = i * 64 + (unsigned)__builtin_ctzll(word);
	return MIN(at, end);
}

static uint64_t count_bits(const uint64_t *bits, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < (n + 63) / 64; i++)
		sum += (unsigned)__builtin_popcountll(bits[i]);
	return sum;
}

/* Append @n bytes from @at on of the history's last @hist. */
static void add_history(struct buf *b, const struct zstd_history *h, uint64_t hist, uint64_t at, uint64_t n)
{
	uint64_t pos = h->part[0].size + h->part[1].size - hist + at;

	if (pos < h->part[0].size) {
		uint64_t first = MIN(n, h->part[0].size - pos);

		buf_add(b, h->part[0].p + pos, first);
		pos += first;
		n -= first;
	}
	if (n)
		buf_add(b, h->part[1].p + (pos - h->part[0].size), n);
}

/* Tables in the order of a dictionary, which is not that of a block. */
static void payload_add_head(const struct zstd_entropy *e, const struct zstd_rep *rep, struct buf *ret)
{
	static const enum zstd_table_id order[] = { ZSTD_OF, ZSTD_ML, ZSTD_LL };

	if (e->tree_size)
		buf_add(ret, e->tree, e->tree_size);
	else
		buf_add(ret, dummy_tree, sizeof(dummy_tree));
	for (unsigned i = 0; i < ARRAY_SIZE(order); i++) {
		const struct zstd_table *t = &e->table[order[i]];
		struct bytes desc = zstd_predefined(order[i]);

		if (t->kind == ZSTD_TABLE_FSE)
			desc = bytes_of(t->desc, t->size);
		buf_add(ret, desc.p, desc.size);
	}
	for (unsigned i = 0; i < 3; i++)
		buf_add_u32(ret, rep->r[i]);
}

int zstd_payload_make(struct zstd_payload_maker *m, const struct zstd_point_state *p, struct buf *ret,
		      struct err *err)
{
	AUTO(buf_done) struct buf head = { 0 };
	const struct zstd_marks *marks = p->marks;
	const struct zstd_rep *rep = p->rep;
	uint64_t hist = marks->hist, first = next_bit(marks->bits, 0, hist, 0), at, size, n_runs = 0;
	uint32_t rep_max = MAX(rep->r[0], MAX(rep->r[1], rep->r[2]));
	size_t bound, got;

	assert(zstd_rep_known(rep));
	if (count_bits(marks->bits, hist) > PACKED_MAX / 2)
		return err_set(err, ERR_LIMIT, "zstd: a point refers to too many bytes");
	/* A loader demands that repcodes are within the history; some versions: strictly within. */
	size = MAX(hist - first, (uint64_t)rep_max + 1);

	m->packed.size = 0;
	at = hist - MIN(size, hist);
	/* If the history is shorter than the repcodes demand, the first gap covers the missing bytes too. */
	for (uint64_t run = first, gap = size - (hist - at); run < hist; n_runs++) {
		uint64_t end = next_bit(marks->bits, run, hist, ~0ull);

		buf_add_uleb(&m->packed, run - at + gap);
		buf_add_uleb(&m->packed, end - run);
		gap = 0;
		at = end;
		run = next_bit(marks->bits, end, hist, 0);
	}
	if (m->packed.size > PACKED_MAX / 2)
		return err_set(err, ERR_LIMIT, "zstd: a point refers to too many places");
	for (uint64_t run = first; run < hist;) {
		uint64_t end = next_bit(marks->bits, run, hist, ~0ull);

		add_history(&m->packed, &p->history, hist, run, end - run);
		run = next_bit(marks->bits, end, hist, 0);
	}

	payload_add_head(p->entropy, rep, &head);
	buf_add_char(ret, FORMAT);
	buf_add_char(ret, (char)zstd_window_byte(p->window));
	buf_add_uleb(ret, head.size);
	buf_add(ret, head.p, head.size);
	buf_add_uleb(ret, size);
	buf_add_uleb(ret, n_runs);
	buf_add_uleb(ret, m->packed.size);
	if (!m->packed.size)
		return 0;
	if (!m->zstd)
		m->zstd = ZSTD_createCCtx();
	if (!m->zstd)
		return err_set(err, ERR_LIMIT, "zstd: no memory for a compressor");
	bound = ZSTD_compressBound(m->packed.size);
	got = ZSTD_compressCCtx(m->zstd, buf_reserve(ret, bound), bound, m->packed.p, m->packed.size,
				PACK_LEVEL);
	if (ZSTD_isError(got))
		return err_set(err, ERR_LIMIT, "zstd: packing a point: %s", ZSTD_getErrorName(got));
	ret->size += got;
	if (m->packed.room > KEEP_MAX)
		buf_done(&m->packed);
	return 0;
}

/* ---- opening ---- */

static int payload_err(struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID, "zstd: resume point: %s", what);
}

/* @packed: runs, then their bytes. Copy them to their places in the @size bytes at @history. */
static int runs_unpack(struct bytes packed, uint64_t n_runs, uint8_t *history, uint64_t size,
		       size_t *ret_touched, struct err *err)
{
	struct cursor c = cursor_of(packed), runs = c;
	uint64_t at = 0;

	for (uint64_t i = 0; i < n_runs && cursor_ok(&c); i++) {
		cursor_uleb(&c);
		cursor_uleb(&c);
	}
	for (uint64_t i = 0; i < n_runs && cursor_ok(&c); i++) {
		uint64_t gap = cursor_uleb(&runs), n = cursor_uleb(&runs);
		struct bytes b = cursor_bytes(&c, n);

		if (!cursor_ok(&c) || gap > size - at || n > size - at - gap)
			return payload_err(err, "a run is outside of the history");
		memcpy(history + at + gap, b.p, b.size);
		at += gap + n;
		*ret_touched += gap >= KIB(4) ? KIB(4) : gap + n;
	}
	if (!cursor_ok(&c) || cursor_left(&c))
		return payload_err(err, "its runs and bytes do not agree");
	return 0;
}

static int unpack_frame(struct bytes frame, uint64_t packed_size, uint64_t n_runs, struct zstd_payload *p,
			size_t head_size, struct err *err)
{
	AUTO(mem_freep) uint8_t *packed = NULL;
	size_t got;

	if (!packed_size)
		return frame.size || n_runs ? payload_err(err, "more bytes than its header says") : 0;
	packed = mem_try(packed_size);
	if (!packed)
		return err_set(err, ERR_LIMIT, "zstd: no memory for a resume point of %llu bytes",
			       (unsigned long long)packed_size);
	got = ZSTD_decompress(packed, packed_size, frame.p, frame.size);
	if (ZSTD_isError(got) || got != packed_size)
		return payload_err(err, "its bytes do not decode");
	return runs_unpack(bytes_of(packed, packed_size), n_runs, p->dict + head_size, p->history,
			   &p->touched, err);
}

int zstd_payload_open(struct bytes payload, uint8_t fill, struct zstd_payload *ret, struct err *err)
{
	AUTO(zstd_payload_done) struct zstd_payload p = { 0 };
	struct cursor c = cursor_of(payload);
	uint8_t format = cursor_u8(&c), window = cursor_u8(&c);
	uint64_t head_size = cursor_uleb(&c);
	struct bytes head = cursor_bytes(&c, head_size);
	uint64_t history = cursor_uleb(&c), n_runs = cursor_uleb(&c), packed_size = cursor_uleb(&c);
	uint32_t le[2] = { htole32(DICT_MAGIC), htole32(DICT_ID) };

	if (!cursor_ok(&c))
		return payload_err(err, "it ends early");
	if (format != FORMAT)
		return payload_err(err, "its format is unknown");
	p.window = zstd_window_size(window);
	if (head.size > HEAD_MAX + REPS_SIZE || history > HISTORY_MAX || p.window > CODEC_MAX_WINDOW ||
	    packed_size > PACKED_MAX)
		return err_set(err, ERR_LIMIT, "zstd: resume point: a history of %llu bytes, %llu packed",
			       (unsigned long long)history, (unsigned long long)packed_size);
	p.history = history;
	p.dict_size = DICT_PREFIX + head.size + history;
	p.dict = zstd_map(p.dict_size);
	if (!p.dict)
		return err_set(err, ERR_LIMIT, "zstd: no memory for a resume point of %zu bytes",
			       p.dict_size);
	memcpy(p.dict, le, DICT_PREFIX);
	memcpy(p.dict + DICT_PREFIX, head.p, head.size);
	if (fill)
		memset(p.dict + DICT_PREFIX + head.size, fill, history);
	p.touched = KIB(4);
	if (unpack_frame(cursor_bytes(&c, cursor_left(&c)), packed_size, n_runs, &p, DICT_PREFIX + head.size,
			 err) < 0)
		return -1;
	*ret = p;
	p = (struct zstd_payload){ 0 };
	return 0;
}

void zstd_payload_done(struct zstd_payload *p)
{
	zstd_unmap(p->dict, p->dict_size);
	p->dict = NULL;
}
