/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed content for tests.
 */
#include "packed.h"

#include <bzlib.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#define CHECK(cond)                                                                       \
	do {                                                                              \
		if (!(cond)) {                                                            \
			fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #cond); \
			abort();                                                          \
		}                                                                         \
	} while (0)

/* ---- content ---- */

static uint64_t next_random(uint64_t *state)
{
	return *state = hash64(state, sizeof(*state), 7);
}

static void add_text(struct buf *b, size_t end, uint64_t *state)
{
	static const char *const words[] = {
		"struct ", "return ", "static ", "const ", "buffer",    "_size",  "->next",
		" = ",     ";\n\t",   "if (",    ") {\n",  "uint64_t ", "offset", "/* for the message */",
		"index",   "0x7f",    "err",     "&& "
	};

	while (b->size < end) {
		uint64_t r = next_random(state);

		for (int i = 0; i < 8; i++, r >>= 8)
			buf_add_str(b, str_of(words[(r & 0xff) % ARRAY_SIZE(words)]));
		if (r % 16 == 0)
			buf_printf(b, "%llx", (unsigned long long)next_random(state));
	}
	b->size = end;
}

static void add_random(struct buf *b, size_t end, uint64_t *state)
{
	while (b->size < end) {
		uint64_t r = next_random(state);

		buf_add(b, &r, MIN(sizeof(r), end - b->size));
	}
}

static void add_zeros(struct buf *b, size_t end)
{
	size_t n = end - b->size;

	memset(buf_reserve(b, n), 0, n);
	b->size = end;
}

static void add_copy(struct buf *b, size_t start, size_t end, uint64_t *state)
{
	while (b->size < end) {
		size_t from = start + next_random(state) % (b->size - start + 1);
		size_t n = MIN(MIN(next_random(state) % 5000, b->size - from), end - b->size);
		uint8_t *p = buf_reserve(b, n + 1);

		memcpy(p, b->p + from, n);
		p[n] = (uint8_t)from;
		b->size += MIN(n + 1, end - b->size);
	}
}

void content_add(struct buf *b, enum content kind, size_t n, uint64_t seed)
{
	uint64_t state = seed;
	size_t start = b->size, end = start + n;

	while (b->size < end) {
		size_t part = kind == CONTENT_MIXED ? MIN(end, b->size + 1 + next_random(&state) % 60000)
						    : end;

		switch (kind == CONTENT_MIXED ? (int)(next_random(&state) % 5) : (int)kind) {
		case CONTENT_TEXT:
			add_text(b, part, &state);
			break;
		case CONTENT_RANDOM:
			add_random(b, part, &state);
			break;
		case CONTENT_ZEROS:
			add_zeros(b, part);
			break;
		default:
			add_copy(b, start, part, &state);
			break;
		}
	}
}

/* ---- packing ---- */

void packed_gzip(struct buf *out, struct bytes in, int level, size_t flush_every)
{
	z_stream z = { 0 };
	size_t done = 0;
	int r;

	CHECK(deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	do {
		size_t part = flush_every ? MIN(flush_every, in.size - done) : in.size - done;
		bool last = done + part == in.size;

		z.next_in = (Bytef *)(done ? in.p + done : in.p);
		z.avail_in = (uInt)part;
		done += part;
		do {
			z.next_out = buf_reserve(out, KIB(64));
			z.avail_out = KIB(64);
			r = deflate(&z, last ? Z_FINISH : Z_BLOCK);
			CHECK(r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR);
			out->size += KIB(64) - z.avail_out;
		} while (last ? r != Z_STREAM_END : !z.avail_out);
	} while (done < in.size);
	deflateEnd(&z);
}

static void run_lzma(lzma_stream *lz, struct buf *out, struct bytes in)
{
	lzma_ret r;

	lz->next_in = in.p;
	lz->avail_in = in.size;
	do {
		lz->next_out = buf_reserve(out, KIB(64));
		lz->avail_out = KIB(64);
		r = lzma_code(lz, LZMA_FINISH);
		CHECK(r == LZMA_OK || r == LZMA_STREAM_END);
		out->size += KIB(64) - lz->avail_out;
	} while (r != LZMA_STREAM_END);
	lzma_end(lz);
}

void packed_xz(struct buf *out, struct bytes in, unsigned preset, uint64_t block_size, int check)
{
	lzma_stream lz = LZMA_STREAM_INIT;
	lzma_mt mt = { .threads = 1, .block_size = block_size, .preset = preset, .check = (lzma_check)check };

	if (block_size)
		CHECK(lzma_stream_encoder_mt(&lz, &mt) == LZMA_OK);
	else
		CHECK(lzma_easy_encoder(&lz, preset, (lzma_check)check) == LZMA_OK);
	run_lzma(&lz, out, in);
}

void packed_lzma(struct buf *out, struct bytes in, unsigned preset)
{
	lzma_stream lz = LZMA_STREAM_INIT;
	lzma_options_lzma opts;

	CHECK(!lzma_lzma_preset(&opts, preset));
	CHECK(lzma_alone_encoder(&lz, &opts) == LZMA_OK);
	run_lzma(&lz, out, in);
}

void packed_bzip2(struct buf *out, struct bytes in, int level)
{
	unsigned room = (unsigned)(in.size + in.size / 50 + 1000);
	uint8_t *p = buf_reserve(out, room);
	char none[1];

	CHECK(BZ2_bzBuffToBuffCompress((char *)p, &room, in.size ? (char *)in.p : none, (unsigned)in.size,
				       level, 0, 0) == BZ_OK);
	out->size += room;
}

/* ---- a bzip2 writer that chooses the coded bits ---- */

struct bits {
	struct buf *out;
	uint32_t acc;
	unsigned n;
};

static void put_bits(struct bits *b, uint64_t v, unsigned n)
{
	while (n--) {
		b->acc = b->acc << 1 | (v >> n & 1);
		if (++b->n == 8) {
			buf_add_char(b->out, (char)b->acc);
			b->n = 0;
		}
	}
}

/*
 * Fourteen bytes are in use, which makes sixteen symbols, all coded with four bits: nibble 15 is the block's
 * end, and any other nibble may stand anywhere. So every number without nibble 15 can be written as it is.
 */
static void put_block(struct bits *b, uint32_t crc, uint64_t seed)
{
	static const uint64_t magics[] = { 0x314159265359, 0x177245385090 };
	enum { N = 3000 };

	put_bits(b, magics[0], 48);
	put_bits(b, crc, 32);
	put_bits(b, 0, 1);                /* not randomised */
	put_bits(b, 1, 24);               /* start of the sorted rotations; libbz2 accepts any */
	put_bits(b, 1 << (15 - 6), 16);   /* bytes 0x60 to 0x6f: */
	put_bits(b, 0x7ffe, 16);          /* 'a' to 'n' */
	put_bits(b, 2, 3);                /* tables */
	put_bits(b, N * 13 / 50 + 2, 15); /* selectors, each for 50 symbols */
	for (int i = 0; i < N * 13 / 50 + 2; i++)
		put_bits(b, 0, 1);
	for (int table = 0; table < 2; table++) {
		put_bits(b, 4, 5);
		for (int symbol = 0; symbol < 16; symbol++)
			put_bits(b, 0, 1);
	}
	for (unsigned i = 0; i < N; i++) {
		uint64_t r = next_random(&seed), v = magics[r & 1];
		unsigned before = r >> 8 & 3, nibbles = 13;

		/* At each of the four bits within a nibble, with harmless data around it. */
		v = v << (4 - before) | (UINT64_C(2) << 48 << (4 - before));
		v &= (UINT64_C(1) << 52) - 1;
		for (unsigned k = nibbles; k-- > 0;) {
			unsigned nibble = v >> (4 * k) & 15;

			put_bits(b, nibble == 15 ? 14 : nibble, 4);
		}
	}
	put_bits(b, 15, 4);
}

static uint32_t bzip2_crc(struct bytes b)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < b.size; i++) {
		crc ^= (uint32_t)b.p[i] << 24;
		for (int k = 0; k < 8; k++)
			crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7 : 0);
	}
	return ~crc;
}

/* The decoded bytes of a block, whatever its CRC. */
static void block_content(uint64_t seed, struct buf *plain)
{
	AUTO(buf_done) struct buf packed = { 0 };
	struct bits b = { .out = &packed };
	bz_stream bz = { 0 };
	int r;

	buf_add_str(&packed, STR("BZh9"));
	put_block(&b, 0, seed);
	put_bits(&b, 0, 64);
	CHECK(BZ2_bzDecompressInit(&bz, 0, 0) == BZ_OK);
	bz.next_in = (char *)packed.p;
	bz.avail_in = (unsigned)packed.size;
	do {
		bz.next_out = (char *)buf_reserve(plain, KIB(64));
		bz.avail_out = KIB(64);
		r = BZ2_bzDecompress(&bz);
		plain->size += KIB(64) - bz.avail_out;
	} while (r == BZ_OK);
	CHECK(r == BZ_DATA_ERROR);
	BZ2_bzDecompressEnd(&bz);
}

void packed_bzip2_magics(struct buf *out, struct buf *plain, unsigned n_blocks, uint64_t seed)
{
	struct bits b = { .out = out };
	uint32_t combined = 0;

	buf_add_str(out, STR("BZh9"));
	for (unsigned i = 0; i < n_blocks; i++) {
		size_t at = plain->size;
		uint32_t crc;

		block_content(seed + i, plain);
		crc = bzip2_crc(bytes_of(plain->p + at, plain->size - at));
		combined = (combined << 1 | combined >> 31) ^ crc;
		put_block(&b, crc, seed + i);
	}
	put_bits(&b, 0x177245385090, 48);
	put_bits(&b, combined, 32);
	while (b.n)
		put_bits(&b, 0, 1);
}
