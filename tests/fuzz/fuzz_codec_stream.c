/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as each kind of compressed content; the first byte selects it. A scan must decode the same bytes
 * as a stream, and a source with the points of that scan must return the same bytes at any offset.
 */
#include "fuzz.h"

#include "codec/codec.h"

/* Enough for several chunks and spans; larger contents are cut here. */
#define OUT_MAX MIB(1)

/* Up to OUT_MAX bytes, alternately read and lent. 0 at the end, 1 when there is more, -1 on an error. */
static int drain(struct stream *s, struct buf *out)
{
	struct err err = { 0 };

	for (unsigned i = 0; out->size < OUT_MAX; i++) {
		size_t n = 1 + i * 7919 % 100000, got;
		struct bytes b;

		if (i & 1) {
			if (stream_next(s, n, &b, &err) < 0)
				return -1;
			buf_add(out, b.p, b.size);
			got = b.size;
		} else {
			if (stream_read(s, buf_reserve(out, n), n, &got, &err) < 0)
				return -1;
			out->size += got;
		}
		FUZZ_CHECK(got <= n);
		if (!got)
			return 0;
	}
	return 1;
}

static void check_source(enum codec_kind kind, struct bytes packed, struct bytes plain, struct bytes points)
{
	struct codec_source_options o = { .size = plain.size, .points = points };
	struct err err = { 0 };
	struct source *s;
	uint8_t out[1000];

	FUZZ_CHECK(codec_source_open(kind, source_of_mem(packed, "fuzz"), &o, &s, &err) == 0);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t off = plain.size - 1 - plain.size * i / 8;
		size_t got;

		FUZZ_CHECK(source_read(s, off, out, sizeof(out), i & 1 ? SOURCE_SEQUENTIAL : SOURCE_RANDOM,
				       &got, &err) == 0);
		FUZZ_CHECK(got == MIN(sizeof(out), plain.size - off));
		FUZZ_CHECK(memcmp(out, plain.p + off, got) == 0);
	}
	source_close(s);
}

static void check_scan(enum codec_kind kind, struct bytes packed, int want, struct bytes plain)
{
	static const struct codec_scan_options opts = { .spacing = 1, .min_size = 1 };
	AUTO(source_closep) struct source *raw = source_of_mem(packed, "fuzz");
	AUTO(buf_done) struct buf out = { 0 }, points = { 0 };
	struct codec_scan *s;
	struct err err = { 0 };
	bool complete = false;
	const char *why;
	int r;

	if (codec_scan_open(kind, raw, range_of(0, packed.size), &opts, &s, &err) < 0) {
		FUZZ_CHECK(want < 0);
		return;
	}
	r = drain(codec_scan_stream(s), &out);
	FUZZ_CHECK(want < 0 || r == want);
	if (want == 0) {
		FUZZ_CHECK(bytes_eq(buf_bytes(&out), plain));
		r = codec_scan_points(s, &points, &complete, &why, &err);
		FUZZ_CHECK(r >= 0 && complete);
		if (r == 0)
			check_source(kind, packed, plain, buf_bytes(&points));
	}
	codec_scan_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct bytes packed;
	enum codec_kind kind;
	struct stream *s;
	struct err err = { 0 };
	int r = -1;

	if (!size)
		return 0;
	kind = (enum codec_kind)(1 + data[0] % (CODEC_N_KINDS - 1));
	packed = bytes_of(data + 1, size - 1);
	(void)codec_detect(packed);
	if (codec_stream_open(kind, stream_of_source(source_of_mem(packed, "fuzz"), true, 0, packed.size), &s,
			      &err) == 0) {
		r = drain(s, &out);
		stream_close(s);
	}
	check_scan(kind, packed, r, buf_bytes(&out));
	return 0;
}
