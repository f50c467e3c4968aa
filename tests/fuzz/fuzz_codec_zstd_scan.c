/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes through the scan of zstd, with points wherever possible. A source with its points must return the
 * scan's bytes or an error, even if the marker and libzstd disagree on the frames.
 *
 * The first four bytes choose the spacing, the size of reads, and when the points are requested.
 */
#include "fuzz.h"

#include "codec/codec.h"

#define DECODED_MAX MIB(1)
#define PARAMS      4

/* The bytes that the scan decodes, up to a failure or the limit; the points at @ask, if it gets there, else
 * at the end. */
static void scan(struct source *raw, const uint8_t *param, struct buf *plain, struct buf *points)
{
	struct codec_scan_options opts = { .spacing = 1 + param[0] * 16u,
					   .min_size = 1,
					   .budget_percent = 1u << 30 };
	size_t chunk = param[1] ? param[1] * 64u : KIB(128), ask = param[2] | (size_t)param[3] << 8;
	struct codec_scan *s;
	struct err err = { 0 };
	bool complete, asked = false;
	const char *why;
	struct bytes b;

	if (codec_scan_open(CODEC_ZSTD, raw, range_of(0, raw->size), &opts, &s, &err) < 0)
		return;
	while (stream_next(codec_scan_stream(s), chunk, &b, &err) == 0 && b.size &&
	       plain->size < DECODED_MAX) {
		FUZZ_CHECK(b.size <= chunk);
		buf_add(plain, b.p, b.size);
		if (plain->size % 7 == 0)
			codec_scan_landmark(s, plain->size + plain->size % 5000);
		if (plain->size > ask && !asked) {
			asked = true;
			if (param[3] & 0x80)
				FUZZ_CHECK(codec_scan_points(s, points, &complete, &why, &err) >= 0);
		}
	}
	FUZZ_CHECK(err.kind == ERR_NONE || err.text[0]);
	if (!points->size)
		FUZZ_CHECK(codec_scan_points(s, points, &complete, &why, &err) >= 0);
	codec_scan_close(s);
}

static void reads(struct bytes packed, struct bytes plain, struct bytes points)
{
	static uint8_t buf[KIB(16)];
	struct codec_points_info info;
	struct codec_source_options opts = { .points = points };
	struct source *s;
	struct err err = { 0 };

	FUZZ_CHECK(codec_points_info(points, &info, &err) == 0);
	FUZZ_CHECK(info.n_spans > 0);
	opts.size = info.decoded_size;
	FUZZ_CHECK(codec_source_open(CODEC_ZSTD, source_of_mem(packed, "packed"), &opts, &s, &err) == 0);
	/* Backwards, so that each span is started at its point. */
	for (uint64_t at = MIN(info.decoded_size, plain.size); at > 0;) {
		uint64_t n = MIN(at, sizeof(buf));
		size_t got;

		at -= n;
		if (source_read(s, at, buf, n, SOURCE_RANDOM, &got, &err) < 0) {
			FUZZ_CHECK(err.kind == ERR_CHANGED || err.kind == ERR_LIMIT);
			continue;
		}
		FUZZ_CHECK(got > 0 && got <= n);
		FUZZ_CHECK(!memcmp(buf, plain.p + at, got));
	}
	source_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf plain = { 0 };
	AUTO(buf_done) struct buf points = { 0 };
	struct bytes packed;
	struct source *raw;

	if (size < PARAMS)
		return 0;
	packed = bytes_of(data + PARAMS, size - PARAMS);
	raw = source_of_mem(packed, "packed");
	scan(raw, data, &plain, &points);
	source_close(raw);
	if (points.size)
		reads(packed, buf_bytes(&plain), buf_bytes(&points));
	return 0;
}
