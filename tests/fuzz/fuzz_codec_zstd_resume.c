/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input makes the choices of the generator of valid frames. For all of its frames: libzstd must accept
 * them, points at every boundary must be found, and each span must decode to its bytes with poison in the
 * history that its point left out.
 */
#include "fuzz.h"

#include "codec/zstd.h"
#include "zstd_gen.h"

#define TAPE_MAX 4000

static void check_span(struct source *raw, const struct codec_span *span, const uint8_t *want)
{
	static uint8_t buf[KIB(128)];
	struct span_decoder *d;
	struct err err = { 0 };

	FUZZ_CHECK(zstd_span_open_with(raw, span, &(struct zstd_span_options){ .fill = 0xee }, &d, &err) ==
		   0);
	for (uint64_t at = span->out; at < span->out_end;) {
		size_t got;

		FUZZ_CHECK(zstd_span_read(d, buf, MIN(sizeof(buf), span->out_end - at), &got, &err) == 0);
		FUZZ_CHECK(got && !memcmp(buf, want + at, got));
		at += got;
	}
	zstd_span_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct codec_scan_options opts = { .spacing = 1, .min_size = 1, .budget_percent = 1u << 30 };
	struct zstd_gen_rng r = { .state = 1, .tape = { data, MIN(size, TAPE_MAX) } };
	AUTO(buf_done) struct buf packed = { 0 };
	AUTO(buf_done) struct buf plain = { 0 };
	AUTO(arena_done) struct arena a;
	struct codec_spans spans = { 0 };
	struct codec_scan *s;
	struct source *raw;
	struct err err = { 0 };
	struct bytes b;
	uint64_t at = 0;

	arena_init(&a);
	zstd_gen_exotic(&r, &packed, &plain);
	raw = source_of_mem(buf_bytes(&packed), "packed");
	FUZZ_CHECK(codec_zstd.scan_open(raw, range_of(0, packed.size), &opts, &s, &err) == 0);
	for (; stream_next(&s->stream, SIZE_MAX, &b, &err) == 0 && b.size; at += b.size)
		FUZZ_CHECK(b.size <= plain.size - at && !memcmp(b.p, plain.p + at, b.size));
	FUZZ_CHECK(at == plain.size && s->ended);
	if (plain.size) {
		FUZZ_CHECK(codec_zstd.scan_spans(s, &a, &spans, &err) == 0);
		FUZZ_CHECK(spans.v[0].out == 0 && spans.v[spans.n - 1].out_end == plain.size);
		for (size_t i = 0; i < spans.n; i++)
			check_span(raw, &spans.v[i], plain.p);
	}
	codec_zstd.scan_close(s);
	source_close(raw);
	return 0;
}
