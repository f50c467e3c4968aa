/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arbitrary resume points with a right checksum. Input: two bytes of size, that many bytes of compressed
 * content, and the points. Reads through them return bytes or errors.
 */
#include "fuzz.h"

#include "codec/codec.h"

#define HEADER_SIZE 48
#define N_READS     6
#define SPAN_MAX    MIB(4)

static uint32_t get32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

/* Correct size and checksum. */
static void mend(uint8_t *p, size_t size)
{
	uint64_t end = HEADER_SIZE + (uint64_t)get32(p + 12) + (uint64_t)get32(p + 24) * 4;
	struct hash64_state h;

	put64(p + 32, size);
	if (end > size)
		return;
	hash64_init(&h, 0);
	hash64_feed(&h, p, 40);
	hash64_feed(&h, p + HEADER_SIZE, (size_t)end - HEADER_SIZE);
	put64(p + 40, hash64_end(&h));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(mem_freep) uint8_t *points = NULL;
	struct codec_points_info info;
	struct codec_source_options o = { 0 };
	struct bytes packed;
	struct source *s;
	struct err err = { 0 };
	size_t n_packed;

	if (size < 2)
		return 0;
	n_packed = MIN((size_t)(data[0] | data[1] << 8), size - 2);
	packed = bytes_of(data + 2, n_packed);
	o.points = bytes_of(data + 2 + n_packed, size - 2 - n_packed);
	(void)codec_points_info(o.points, &info, &err);
	if (o.points.size < HEADER_SIZE)
		return 0;
	points = mem_alloc(o.points.size);
	memcpy(points, o.points.p, o.points.size);
	mend(points, o.points.size);
	o.points.p = points;
	if (codec_points_info(o.points, &info, &err) < 0)
		return 0;
	FUZZ_CHECK(info.n_spans > 0 && info.max_span <= info.decoded_size && info.size == o.points.size);
	/* The time that a decompression bomb takes is not tested here. */
	if (info.max_span > SPAN_MAX)
		return 0;
	o.size = info.decoded_size;
	if (codec_source_open(info.kind, source_of_mem(packed, "fuzz"), &o, &s, &err) < 0)
		return 0;
	for (unsigned i = 0; i < N_READS; i++) {
		uint8_t out[5000];
		size_t got;

		if (source_read(s, info.decoded_size / N_READS * i, out, sizeof(out), SOURCE_RANDOM, &got,
				&err) < 0)
			FUZZ_CHECK(err.kind && err.text[0]);
	}
	source_close(s);
	return 0;
}
