/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compressed block (RFC 8878, 3.1.1.3) up to the bitstream of its sequences: the tree and the tables that
 * it brings, keeps or repeats. The literals are skipped.
 */
#include "codec/zstd.h"

/* The first serials are those of the predefined tables, which are the same in all frames. */
#define SERIAL_PREDEFINED(id) ((uint32_t)(id) + 1)
#define SERIAL_FIRST          ZSTD_N_TABLES

enum literals_type { LITERALS_RAW, LITERALS_RLE, LITERALS_COMPRESSED, LITERALS_TREELESS };

/* The first byte of a tree's description determines its length (4.2.1.1). */
#define TREE_DIRECT 128

void zstd_entropy_init(struct zstd_entropy *e)
{
	uint32_t last = MAX(e->last_serial, (uint32_t)SERIAL_FIRST);

	memset(e, 0, sizeof(*e));
	e->last_serial = last;
}

static const char *take_tree(struct cursor in, struct zstd_entropy *e)
{
	const uint8_t *start = in.p;
	uint8_t head = cursor_u8(&in);
	size_t size = head < TREE_DIRECT ? head : (head - TREE_DIRECT + 2u) / 2;

	cursor_skip(&in, size);
	if (!cursor_ok(&in))
		return "a Huffman tree ends early";
	e->tree_size = (uint8_t)(1 + size);
	memcpy(e->tree, start, e->tree_size);
	return NULL;
}

/* 3.1.1.3.1 */
static const char *parse_literals(struct cursor *c, struct zstd_entropy *e, uint32_t *ret_size)
{
	static const uint8_t header_sizes[2][4] = { { 1, 2, 1, 3 }, { 3, 3, 4, 5 } };
	enum literals_type type;
	unsigned format, header_size;
	uint64_t header, size, content;
	struct cursor in;

	if (!cursor_left(c))
		return "a block ends before its literals";
	type = *c->p & 3;
	format = *c->p >> 2 & 3;
	header_size = header_sizes[type >= LITERALS_COMPRESSED][format];
	header = 0;
	for (unsigned i = 0; i < header_size; i++)
		header |= (uint64_t)cursor_u8(c) << 8 * i;
	if (type < LITERALS_COMPRESSED) {
		size = format & 1 ? header >> 4 : header >> 3;
		content = type == LITERALS_RLE ? 1 : size;
	} else {
		unsigned bits = format < 2 ? 10 : format == 2 ? 14 : 18;

		size = header >> 4 & ((1u << bits) - 1);
		content = header >> (4 + bits);
	}
	in = cursor_sub(c, content);
	if (!cursor_ok(c) || size > ZSTD_BLOCK_MAX)
		return "the literals of a block end early";
	*ret_size = (uint32_t)size;
	return type == LITERALS_COMPRESSED ? take_tree(in, e) : NULL;
}

static const char *parse_table(struct cursor *c, enum zstd_table_id id, enum zstd_mode mode,
			       struct zstd_entropy *e)
{
	struct zstd_table *t = &e->table[id];
	struct zstd_counts counts;
	const char *doubt;
	size_t size;

	switch (mode) {
	case ZSTD_MODE_REPEAT:
		return t->kind == ZSTD_TABLE_NONE ? "a block repeats an FSE table, and there is none" : NULL;
	case ZSTD_MODE_PREDEFINED:
		t->kind = ZSTD_TABLE_PREDEFINED;
		t->serial = SERIAL_PREDEFINED(id);
		return NULL;
	case ZSTD_MODE_RLE:
		t->kind = ZSTD_TABLE_RLE;
		size = 1;
		break;
	case ZSTD_MODE_FSE:
		t->kind = ZSTD_TABLE_FSE;
		doubt = zstd_counts_read(id, bytes_of(c->p, cursor_left(c)), &counts, &size);
		if (doubt)
			return doubt;
		break;
	}
	if (cursor_left(c) < size)
		return "the tables of a block end early";
	memcpy(t->desc, c->p, size);
	t->size = (uint8_t)size;
	t->serial = ++e->last_serial;
	cursor_skip(c, size);
	/* After four thousand million tables a serial could have two meanings. */
	return e->last_serial == UINT32_MAX ? "too many tables" : NULL;
}

/* 3.1.1.3.2.1: the number of sequences in one to three bytes. */
static uint32_t parse_n_seq(struct cursor *c)
{
	uint32_t first = cursor_u8(c);

	if (first < 128)
		return first;
	if (first < 255)
		return (first - 128) << 8 | cursor_u8(c);
	return cursor_u16(c) + 0x7f00u;
}

const char *zstd_block_parse(struct bytes content, struct zstd_entropy *e, struct zstd_block *ret)
{
	struct cursor c = cursor_of(content);
	struct zstd_block b = { 0 };
	const char *doubt = parse_literals(&c, e, &b.lit_size);
	uint8_t modes;

	if (doubt)
		return doubt;
	b.n_seq = parse_n_seq(&c);
	if (!cursor_ok(&c))
		return "a block ends before its sequences";
	if (!b.n_seq) {
		*ret = b;
		return cursor_left(&c) ? "bytes follow a block without sequences" : NULL;
	}
	modes = cursor_u8(&c);
	if (!cursor_ok(&c) || modes & 3)
		return "the modes of the sequences are not understood";
	for (unsigned id = 0; id < ZSTD_N_TABLES; id++) {
		b.mode[id] = modes >> (6 - 2 * id) & 3;
		doubt = parse_table(&c, id, b.mode[id], e);
		if (doubt)
			return doubt;
	}
	b.bits = cursor_bytes(&c, cursor_left(&c));
	*ret = b;
	return NULL;
}
