/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block index of an xz file, true or false: the spans follow each other, and they decode to the bytes of
 * the stream.
 */
#include "fuzz.h"

#include "codec/xz.h"

#define OUT_MAX MIB(1)

static void check_spans(const struct codec_spans *spans, uint64_t size)
{
	for (size_t i = 0; i < spans->n; i++) {
		const struct codec_span *s = &spans->v[i];

		FUZZ_CHECK(s->in < s->in_end && s->in_end <= size);
		FUZZ_CHECK(s->out < s->out_end);
		FUZZ_CHECK(s->out == (i ? s[-1].out_end : 0));
		FUZZ_CHECK(!i || s->in >= s[-1].in_end);
		FUZZ_CHECK(s->payload.size == 1);
	}
}

/* The first bytes, decoded both ways. */
static void compare(struct source *raw, struct codec_scan *scan)
{
	struct stream *plain;
	struct err err = { 0 }, scan_err = { 0 };

	FUZZ_CHECK(codec_stream_open(CODEC_XZ, stream_of_source(raw, false, 0, raw->size), &plain, &err) ==
		   0);
	while (plain->off < OUT_MAX) {
		uint8_t a[4000], b[4000];
		size_t n_a, n_b;

		if (stream_read(plain, a, sizeof(a), &n_a, &err) < 0)
			break;
		/* The scan may report an error later, at its block's end, but never ends short or returns
		 * other bytes. */
		if (!n_a)
			FUZZ_CHECK(stream_read(codec_scan_stream(scan), b, 1, &n_b, &scan_err) == 0 &&
				   n_b == 0);
		if (!n_a || stream_read_full(codec_scan_stream(scan), b, n_a, &scan_err) < 0)
			break;
		FUZZ_CHECK(memcmp(a, b, n_a) == 0);
	}
	stream_close(plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(source_closep) struct source *raw = source_of_mem(bytes_of(data, size), "fuzz");
	struct codec_spans spans = { 0 };
	struct codec_scan *scan;
	struct err err = { 0 };

	if (xz_index_read(raw, range_of(0, size), &spans, &err) != 0)
		return 0;
	check_spans(&spans, size);
	free(spans.v);
	FUZZ_CHECK(codec_scan_open(CODEC_XZ, raw, range_of(0, size), NULL, &scan, &err) == 0);
	compare(raw, scan);
	codec_scan_close(scan);
	return 0;
}
