/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FSE tables of sequences (RFC 8878, 4.1): their descriptions and decoding tables, with the meaning of each
 * symbol (3.1.1.3.2.1.1) folded in.
 */
#include "codec/zstd.h"

static const struct {
	unsigned log_max, n_symbols;
} traits[ZSTD_N_TABLES] = {
	[ZSTD_LL] = { 9, 36 },
	[ZSTD_OF] = { 8, 32 },
	[ZSTD_ML] = { 9, 53 },
};

/* The predefined distributions, as descriptions that a block could carry; the test has them as numbers. */
static const uint8_t predefined_ll[] = { 0x51, 0x10, 0x63, 0x8c, 0x31, 0xc6, 0x18, 0x63, 0x0c, 0x21,
					 0xc4, 0x18, 0x63, 0x66, 0x66, 0x86, 0x46, 0x92, 0x04, 0x00 };
static const uint8_t predefined_of[] = { 0x20, 0x84, 0x10, 0x42, 0x66, 0x46, 0x44,
					 0x44, 0x44, 0x44, 0x24, 0x49, 0x02, 0x00 };
static const uint8_t predefined_ml[] = { 0x21, 0x14, 0xc4, 0x18, 0x63, 0x8c, 0x21, 0x84, 0x10, 0x42,
					 0x08, 0x21, 0x84, 0x10, 0x42, 0x08, 0x21, 0x44, 0x44, 0x44,
					 0x44, 0x44, 0x44, 0x44, 0x44, 0x24, 0x09, 0x00, 0x00 };

struct code {
	uint32_t base;
	uint8_t extra;
};

static const struct code ll_codes[] = {
	{ 0, 0 },     { 1, 0 },     { 2, 0 },     { 3, 0 },      { 4, 0 },      { 5, 0 },
	{ 6, 0 },     { 7, 0 },     { 8, 0 },     { 9, 0 },      { 10, 0 },     { 11, 0 },
	{ 12, 0 },    { 13, 0 },    { 14, 0 },    { 15, 0 },     { 16, 1 },     { 18, 1 },
	{ 20, 1 },    { 22, 1 },    { 24, 2 },    { 28, 2 },     { 32, 3 },     { 40, 3 },
	{ 48, 4 },    { 64, 6 },    { 128, 7 },   { 256, 8 },    { 512, 9 },    { 1024, 10 },
	{ 2048, 11 }, { 4096, 12 }, { 8192, 13 }, { 16384, 14 }, { 32768, 15 }, { 65536, 16 },
};

/* Codes 0 to 31 are the lengths 3 to 34. */
#define ML_PLAIN 32
static const struct code ml_codes[] = {
	{ 35, 1 },    { 37, 1 },    { 39, 1 },    { 41, 1 },    { 43, 2 },     { 47, 2 },     { 51, 3 },
	{ 59, 3 },    { 67, 4 },    { 83, 4 },    { 99, 5 },    { 131, 7 },    { 259, 8 },    { 515, 9 },
	{ 1027, 10 }, { 2051, 11 }, { 4099, 12 }, { 8195, 13 }, { 16387, 14 }, { 32771, 15 }, { 65539, 16 },
};

static struct code symbol_code(enum zstd_table_id id, unsigned symbol)
{
	if (id == ZSTD_LL)
		return ll_codes[symbol];
	if (id == ZSTD_OF)
		return (struct code){ 1u << symbol, (uint8_t)symbol };
	if (symbol < ML_PLAIN)
		return (struct code){ symbol + 3, 0 };
	return ml_codes[symbol - ML_PLAIN];
}

/* Bits from the low end of each byte; bits past the end are zero, and `pos` shows it. */
struct bits {
	struct bytes in;
	size_t pos;
};

static uint32_t bits_peek(const struct bits *b, unsigned n)
{
	size_t byte = b->pos / 8;
	uint32_t v = 0;

	for (unsigned i = 0; i < 4 && byte + i < b->in.size; i++)
		v |= (uint32_t)b->in.p[byte + i] << 8 * i;
	return v >> b->pos % 8 & ((1u << n) - 1);
}

static uint32_t bits_take(struct bits *b, unsigned n)
{
	uint32_t v = bits_peek(b, n);

	b->pos += n;
	return v;
}

const char *zstd_counts_read(enum zstd_table_id table, struct bytes in, struct zstd_counts *ret,
			     size_t *ret_size)
{
	struct bits b = { in, 0 };
	unsigned log = bits_take(&b, 4) + 5, n = 0, width = log + 1;
	uint32_t left = (1u << log) + 1, threshold = 1u << log; /* left: one more than there is to give */

	if (log > traits[table].log_max)
		return "an FSE table is larger than its kind may be";
	while (left > 1) {
		uint32_t spare = 2 * threshold - 1 - left; /* values that need one bit less */
		uint32_t v = bits_peek(&b, width);
		int count;

		if ((v & (threshold - 1)) < spare) {
			v &= threshold - 1;
			b.pos += width - 1;
		} else {
			if (v >= threshold)
				v -= spare;
			b.pos += width;
		}
		if (n == traits[table].n_symbols || b.pos > in.size * 8)
			return "an FSE table has more symbols than its kind may have, or ends early";
		count = (int)v - 1;
		ret->count[n++] = (int16_t)count;
		left -= count < 0 ? 1 : (uint32_t)count;
		while (left > 1 && left < threshold) {
			threshold >>= 1;
			width--;
		}
		if (count == 0) {
			uint32_t zeros;

			do {
				zeros = bits_take(&b, 2);
				if (zeros > traits[table].n_symbols - n)
					return "an FSE table has more symbols than its kind may have";
				for (uint32_t i = 0; i < zeros; i++)
					ret->count[n++] = 0;
			} while (zeros == 3);
		}
	}
	*ret_size = (b.pos + 7) / 8;
	if (*ret_size > in.size || *ret_size > ZSTD_TABLE_DESC_MAX)
		return "an FSE table ends early";
	ret->log = log;
	ret->n_symbols = n;
	return NULL;
}

struct bytes zstd_predefined(enum zstd_table_id table)
{
	if (table == ZSTD_LL)
		return bytes_of(predefined_ll, sizeof(predefined_ll));
	if (table == ZSTD_OF)
		return bytes_of(predefined_of, sizeof(predefined_of));
	return bytes_of(predefined_ml, sizeof(predefined_ml));
}

static unsigned highest_bit(uint32_t v)
{
	return 31 - (unsigned)__builtin_clz(v);
}

/* Assign a symbol to each state (4.1.1): the rare ones from the end, the others spread over the rest. */
static const char *spread_symbols(const struct zstd_counts *c, uint8_t symbol_of[ZSTD_STATES_MAX])
{
	uint32_t size = 1u << c->log, high = size, pos = 0;
	uint32_t step = (size >> 1) + (size >> 3) + 3;

	for (unsigned s = 0; s < c->n_symbols; s++)
		if (c->count[s] < 0)
			symbol_of[--high] = (uint8_t)s;
	for (unsigned s = 0; s < c->n_symbols; s++)
		for (int i = 0; i < c->count[s]; i++) {
			symbol_of[pos] = (uint8_t)s;
			do
				pos = (pos + step) & (size - 1);
			while (pos >= high);
		}
	return pos ? "the counts of an FSE table do not add up" : NULL;
}

const char *zstd_states_build(struct zstd_states *states, enum zstd_table_id id,
			      const struct zstd_table *table)
{
	uint8_t symbol_of[ZSTD_STATES_MAX];
	uint32_t next[ZSTD_SYMBOLS_MAX];
	struct zstd_counts c;
	const char *doubt;
	size_t size;

	if (table->kind == ZSTD_TABLE_NONE)
		return "a block repeats an FSE table, and there is none";
	if (states->serial == table->serial)
		return NULL;
	states->serial = 0;
	if (table->kind == ZSTD_TABLE_RLE) {
		struct code code;

		if (table->desc[0] >= traits[id].n_symbols)
			return "a symbol is out of range";
		code = symbol_code(id, table->desc[0]);
		states->log = 0;
		states->s[0] = (struct zstd_state){ .extra = code.extra, .base = code.base };
		states->serial = table->serial;
		return NULL;
	}
	doubt = zstd_counts_read(
		id, table->kind == ZSTD_TABLE_FSE ? bytes_of(table->desc, table->size) : zstd_predefined(id),
		&c, &size);
	if (!doubt)
		doubt = spread_symbols(&c, symbol_of);
	if (doubt)
		return doubt;
	for (unsigned s = 0; s < c.n_symbols; s++)
		next[s] = c.count[s] < 0 ? 1 : (uint32_t)c.count[s];
	for (uint32_t i = 0; i < 1u << c.log; i++) {
		unsigned symbol = symbol_of[i];
		struct code code = symbol_code(id, symbol);
		uint32_t n = next[symbol]++;
		unsigned bits = c.log - highest_bit(n);

		states->s[i] = (struct zstd_state){ .next = (uint16_t)((n << bits) - (1u << c.log)),
						    .bits = (uint8_t)bits,
						    .extra = code.extra,
						    .base = code.base };
	}
	states->log = c.log;
	states->serial = table->serial;
	return NULL;
}
