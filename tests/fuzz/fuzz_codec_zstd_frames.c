/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arbitrary files in zstd's seekable format: the table's frame is corrected, so that the reader parses its
 * entries. Reads return bytes or errors.
 */
#include "fuzz.h"

#include "codec/codec.h"

#define FOOTER  9
#define N_READS 6

static void put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

/* A footer, and the header before its table. */
static void mend(uint8_t *p, size_t size)
{
	uint32_t n = p[size - FOOTER] | (uint32_t)p[size - FOOTER + 1] << 8;
	size_t table = (size_t)n * (p[size - 5] & 0x80 ? 12 : 8) + FOOTER;

	p[size - FOOTER + 2] = p[size - FOOTER + 3] = 0;
	put32(p + size - 4, 0x8f92eab1);
	if (table + 8 > size)
		return;
	put32(p + size - table - 8, 0x184d2a5e);
	put32(p + size - table - 4, (uint32_t)table);
}

static int add_size(void *arg, struct bytes b, struct err *err)
{
	*(uint64_t *)arg += b.size;
	return 0;
}

/* The file of a writer that was killed, or of a disk that lost power. */
static void resume(const uint8_t *data, size_t size)
{
	AUTO(source_closep) struct source *raw = source_of_mem(bytes_of(data, size), "fuzz");
	uint64_t seen = 0, written = 0, good = 0;
	struct codec_frames *f = codec_frames_new(1, add_size, &written);
	struct err err = { 0 };

	if (codec_frames_resume(f, raw, add_size, &seen, &good, &err) == 0)
		FUZZ_CHECK(good <= size && seen % CODEC_FRAME_SIZE == 0 && !seen == !good);
	else
		FUZZ_CHECK(err.kind && err.text[0]);
	FUZZ_CHECK(written == 0);
	codec_frames_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(mem_freep) uint8_t *p = NULL;
	struct source *s = NULL;
	struct err err = { 0 };

	if (size < FOOTER)
		return 0;
	resume(data, size);
	p = mem_alloc(size);
	memcpy(p, data, size);
	mend(p, size);
	if (codec_frames_open(source_of_mem(bytes_of(p, size), "fuzz"), &s, &err) < 0) {
		FUZZ_CHECK(err.kind && err.text[0]);
		return 0;
	}
	for (unsigned i = 0; i < N_READS; i++) {
		uint8_t out[5000];
		size_t got;

		if (source_read(s, s->size / N_READS * i, out, sizeof(out),
				i % 2 ? SOURCE_RANDOM : SOURCE_SEQUENTIAL, &got, &err) < 0)
			FUZZ_CHECK(err.kind && err.text[0]);
	}
	source_close(s);
	return 0;
}
