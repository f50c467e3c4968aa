/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bzip2: the search for blocks in any bytes, and spans with any payload. Input: a byte with the payload's
 * size (0: scan), the payload, the bytes. Each span of a scan must decode to the bytes that the scan
 * returned.
 */
#include "fuzz.h"

#include "codec/bzip2.h"

#define OUT_MAX MIB(1)

static void try_span(struct source *raw, struct bytes payload)
{
	struct codec_span span = {
		.in_end = raw->size, .out = 1, .out_end = 1 + OUT_MAX, .payload = payload
	};
	struct span_decoder *d;
	struct err err = { 0 };
	size_t total = 0;

	if (codec_bzip2.span_open(raw, &span, &d, &err) < 0)
		return;
	while (total < OUT_MAX) {
		uint8_t out[20000];
		size_t want = MIN(sizeof(out), OUT_MAX - total), got = 0;

		if (d->ops->span_read(d, total % 2 ? NULL : out, want, &got, &err) < 0)
			break;
		FUZZ_CHECK(got > 0 && got <= want);
		total += got;
	}
	d->ops->span_close(d);
}

/* The points so far must be right even if the scan ended in an error after them. */
static void check_points(struct source *raw, struct codec_scan *s, struct bytes plain)
{
	AUTO(buf_done) struct buf points = { 0 };
	struct codec_source_options o = { .size = plain.size };
	struct codec_points_info info;
	struct source *part, *src;
	struct err err = { 0 };
	uint8_t out[100];
	bool complete;
	const char *why;

	if (codec_scan_points(s, &points, &complete, &why, &err) != 0)
		return;
	o.points = buf_bytes(&points);
	FUZZ_CHECK(codec_points_info(o.points, &info, &err) == 0 && info.decoded_size >= plain.size);
	FUZZ_CHECK(source_open_part(raw, false, range_of(0, raw->size), NULL, &part, &err) == 0);
	FUZZ_CHECK(codec_source_open(CODEC_BZIP2, part, &o, &src, &err) == 0);
	for (unsigned i = 0; i < 5; i++) {
		uint64_t off = plain.size - 1 - plain.size * i / 5;
		size_t got;

		FUZZ_CHECK(source_read(src, off, out, sizeof(out), SOURCE_RANDOM, &got, &err) == 0);
		FUZZ_CHECK(memcmp(out, plain.p + off, got) == 0);
	}
	source_close(src);
}

static void try_scan(struct source *raw)
{
	static const struct codec_scan_options opts = { .spacing = 1, .min_size = 1 };
	AUTO(buf_done) struct buf plain = { 0 };
	struct codec_scan *s;
	struct err err = { 0 };

	FUZZ_CHECK(codec_scan_open(CODEC_BZIP2, raw, range_of(0, raw->size), &opts, &s, &err) == 0);
	while (plain.size < OUT_MAX) {
		struct bytes b;

		if (stream_next(codec_scan_stream(s), SIZE_MAX, &b, &err) < 0 || !b.size)
			break;
		buf_add(&plain, b.p, b.size);
	}
	if (plain.size)
		check_points(raw, s, buf_bytes(&plain));
	codec_scan_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source *raw;
	size_t n;

	if (!size)
		return 0;
	n = MIN((size_t)data[0], size - 1);
	raw = source_of_mem(bytes_of(data + 1 + n, size - 1 - n), "fuzz");
	if (n)
		try_span(raw, bytes_of(data + 1, n));
	else
		try_scan(raw);
	source_close(raw);
	return 0;
}
