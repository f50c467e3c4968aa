/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resume points of zstd: a point wherever one can be, over frames of all sorts, and each span decoded from
 * its point alone. What a point leaves out of the history is filled with bytes that would show.
 *
 * With a number as argument the test does so many times more.
 */
#include "test.h"

#include "codec/zstd.h"
#include "zstd_gen.h"

#define FILL 0xee

static unsigned factor = 1;

struct counts {
	size_t spans, resumed, wrong;
};

struct given {
	uint64_t spacing;
	unsigned threads;
	struct zstd_span_options span;
	size_t piece; /* what is read at once; 0: as it comes */
};

/* One span from its point: false if it is not what it should be. */
static bool span_is(struct source *raw, const struct codec_span *span, const struct zstd_span_options *opts,
		    const uint8_t *want)
{
	static uint8_t buf[KIB(256)];
	struct span_decoder *d;
	struct err err = { 0 };
	uint64_t at = span->out;
	bool same = true;

	if (zstd_span_open_with(raw, span, opts, &d, &err) < 0)
		return false;
	while (same && at < span->out_end) {
		size_t got;

		same = zstd_span_read(d, buf, MIN(sizeof(buf), span->out_end - at), &got, &err) == 0 && got &&
		       got <= span->out_end - at && !memcmp(buf, want + at, got);
		at += got;
	}
	zstd_span_close(d);
	return same;
}

static bool sums_are(const struct codec_span *span, const uint8_t *want)
{
	size_t n = span->out_end - span->out;

	if (span->sums.size != (n + CODEC_PIECE - 1) / CODEC_PIECE * 4)
		return false;
	for (size_t i = 0; i * CODEC_PIECE < n; i++)
		if (!codec_sums_match(span->sums, i, want + span->out + i * CODEC_PIECE,
				      MIN(CODEC_PIECE, n - i * CODEC_PIECE)))
			return false;
	return true;
}

static struct codec_scan *scan_open(struct source *raw, uint64_t spacing, unsigned threads)
{
	struct codec_scan_options opts = {
		.spacing = spacing, .min_size = 1, .budget_percent = 1u << 30, .threads = threads
	};
	struct codec_scan *s;
	struct err err = { 0 };

	assert_done(codec_zstd.scan_open(raw, 0, raw->size, &opts, &s, &err));
	return s;
}

/* All of it, compared with @plain. */
static void scan_read(struct codec_scan *s, struct bytes plain, size_t piece)
{
	struct err err = { 0 };
	uint64_t at = 0;
	struct bytes b;

	for (;;) {
		assert_done(stream_next(&s->stream, piece ? piece : SIZE_MAX, &b, &err));
		if (!b.size)
			break;
		assert_true(b.size <= plain.size - at);
		assert_memory_equal(b.p, plain.p + at, b.size);
		at += b.size;
	}
	assert_int_equal(at, plain.size);
	assert_true(s->ended);
	assert_int_equal(s->out, plain.size);
}

static void check_spans(struct source *raw, const struct codec_span *spans, size_t n, struct bytes plain,
			const struct zstd_span_options *opts, struct counts *counts)
{
	assert_int_equal(spans[0].out, 0);
	for (size_t i = 0; i < n; i++) {
		if (i + 1 < n) {
			assert_int_equal(spans[i].out_end, spans[i + 1].out);
			assert_int_equal(spans[i].in_end, spans[i + 1].in);
		}
		assert_true(spans[i].in < spans[i].in_end && spans[i].out < spans[i].out_end);
		assert_true(sums_are(&spans[i], plain.p));
		counts->spans++;
		counts->resumed += spans[i].payload.size > 0;
		if (!span_is(raw, &spans[i], opts, plain.p))
			counts->wrong++;
	}
}

static void check(struct bytes packed, struct bytes plain, const struct given *g, struct counts *counts)
{
	struct source *raw = source_of_mem(packed, "test");
	struct codec_scan *s = scan_open(raw, g->spacing, g->threads);
	AUTO(arena_done) struct arena arena;
	struct codec_span *spans;
	struct err err = { 0 };
	const char *why = NULL;
	size_t n;
	int r;

	arena_init(&arena);
	scan_read(s, plain, g->piece);
	r = codec_zstd.scan_spans(s, &arena, &spans, &n, &why, &err);
	if (plain.size) {
		if (r)
			fail_msg("no points: %d %s %s", r, why ? why : "", err.text);
		assert_int_equal(spans[n - 1].out_end, plain.size);
		check_spans(raw, spans, n, plain, &g->span, counts);
	}
	codec_zstd.scan_close(s);
	source_close(raw);
}

/* Frames by libzstd with any parameters. */
static void encoded(struct zstd_gen_rng *r, size_t max, struct buf *packed, struct buf *plain)
{
	unsigned n = zstd_gen_one_in(r, 3) ? 1 + zstd_gen_below(r, 6) : 1;

	packed->size = plain->size = 0;
	for (unsigned i = 0; i < n; i++) {
		struct zstd_gen_params p = zstd_gen_params(r);
		size_t start = plain->size;

		if (zstd_gen_one_in(r, 6))
			zstd_gen_skippable(r, packed);
		zstd_gen_text(r, zstd_gen_below(r, (uint32_t)max / n) + (zstd_gen_one_in(r, 9) ? 0 : 1),
			      plain);
		zstd_gen_encode(&p, bytes_of(plain->p + start, plain->size - start), packed);
	}
	if (zstd_gen_one_in(r, 9))
		for (unsigned i = zstd_gen_below(r, 70); i > 0; i--)
			buf_add_char(packed, 0);
}

static void points_everywhere_encoded(void **state)
{
	AUTO(buf_done) struct buf packed = { 0 };
	AUTO(buf_done) struct buf plain = { 0 };
	struct zstd_gen_rng r = { 1 };
	struct counts counts = { 0 };

	for (unsigned i = 0; i < 60 * factor; i++) {
		struct given g = { .spacing = zstd_gen_one_in(&r, 2) ? 1 : KIB(1) << zstd_gen_below(&r, 7),
				   .threads = zstd_gen_below(&r, 2),
				   .piece = zstd_gen_one_in(&r, 4) ? 1 + zstd_gen_below(&r, 5000) : 0,
				   .span.fill = FILL };

		encoded(&r, KIB(400), &packed, &plain);
		check(buf_bytes(&packed), buf_bytes(&plain), &g, &counts);
	}
	print_message("# %zu spans, %zu of them resumed, %zu wrong\n", counts.spans, counts.resumed,
		      counts.wrong);
	assert_int_equal(counts.wrong, 0);
	assert_true(counts.resumed > 1000);
}

static void points_everywhere_exotic(void **state)
{
	AUTO(buf_done) struct buf packed = { 0 };
	AUTO(buf_done) struct buf plain = { 0 };
	struct zstd_gen_rng r = { 2 };
	struct counts counts = { 0 };

	for (unsigned i = 0; i < 150 * factor; i++) {
		struct given g = { .spacing = 1, .span.fill = FILL };

		packed.size = plain.size = 0;
		for (unsigned k = 1 + zstd_gen_below(&r, 3); k > 0; k--)
			zstd_gen_exotic(&r, &packed, &plain);
		check(buf_bytes(&packed), buf_bytes(&plain), &g, &counts);
	}
	print_message("# %zu spans, %zu of them resumed, %zu wrong\n", counts.spans, counts.resumed,
		      counts.wrong);
	assert_int_equal(counts.wrong, 0);
	assert_true(counts.resumed > 500);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points_everywhere_encoded),
		cmocka_unit_test(points_everywhere_exotic),
	};

	if (argc > 1)
		factor = (unsigned)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
