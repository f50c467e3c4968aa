/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resume points of zstd: a point at every possible boundary, over frames of all kinds, and each span decoded
 * from its point alone. History bytes that a point leaves out are filled with bytes that would show in the
 * result.
 *
 * With a number as argument the test runs that many times more.
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
	size_t chunk; /* bytes read at once; 0: as lent */
};

/* Decode one span from its point: false if the bytes are wrong. */
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

	if (span->sums.size != (n + CODEC_CHUNK - 1) / CODEC_CHUNK * 4)
		return false;
	for (size_t i = 0; i * CODEC_CHUNK < n; i++)
		if (!codec_sums_match(span->sums, i, want + span->out + i * CODEC_CHUNK,
				      MIN(CODEC_CHUNK, n - i * CODEC_CHUNK)))
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

	assert_done(codec_zstd.scan_open(raw, range_of(0, raw->size), &opts, &s, &err));
	return s;
}

/* Read all of the scan, compared with @plain. */
static void scan_read(struct codec_scan *s, struct bytes plain, size_t chunk)
{
	struct err err = { 0 };
	uint64_t at = 0;
	struct bytes b;

	for (;;) {
		assert_done(stream_next(&s->stream, chunk ? chunk : SIZE_MAX, &b, &err));
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
	struct codec_spans spans = { 0 };
	struct err err = { 0 };
	int r;

	arena_init(&arena);
	scan_read(s, plain, g->chunk);
	r = codec_zstd.scan_spans(s, &arena, &spans, &err);
	if (plain.size) {
		if (r)
			fail_msg("no points: %d %s %s", r, spans.why ? spans.why : "", err.text);
		assert_int_equal(spans.v[spans.n - 1].out_end, plain.size);
		check_spans(raw, spans.v, spans.n, plain, &g->span, counts);
	}
	codec_zstd.scan_close(s);
	source_close(raw);
}

/* Frames made by libzstd with random parameters. */
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
				   .chunk = zstd_gen_one_in(&r, 4) ? 1 + zstd_gen_below(&r, 5000) : 0,
				   .span.fill = FILL };

		encoded(&r, KIB(400), &packed, &plain);
		check(buf_bytes(&packed), buf_bytes(&plain), &g, &counts);
	}
	print_message("# %zu spans, %zu of them resumed, %zu wrong\n", counts.spans, counts.resumed,
		      counts.wrong);
	assert_int_equal(counts.wrong, 0);
	assert_true(counts.resumed > 1000);
}

/* ---- which boundaries have no point ---- */

/* For one boundary: the use of the current tables by the block after it. */
struct seen {
	uint64_t in;
	bool rle;   /* one of them is RLE */
	bool empty; /* the block before it, or this one, decodes to nothing: no span can start or end here */
	struct zstd_entropy entropy;
};

static bool live(const struct seen *b, const struct seen *end, struct bytes packed)
{
	const struct zstd_entropy *e = &b->entropy;

	for (; b < end; b++) {
		struct zstd_block_header h = zstd_block_header(packed.p + b->in);
		struct zstd_entropy scratch = b->entropy;
		struct zstd_block block;

		if (h.type != ZSTD_BLOCK_COMPRESSED)
			continue;
		assert_null(zstd_block_parse(bytes_of(packed.p + b->in + 3, h.content), &scratch, &block));
		if (!block.n_seq)
			continue;
		for (unsigned id = 0; id < ZSTD_N_TABLES; id++)
			if (e->table[id].kind == ZSTD_TABLE_RLE && block.mode[id] == ZSTD_MODE_REPEAT)
				return true;
		return false;
	}
	return false;
}

static bool decodes_to_nothing(struct bytes packed, uint64_t in)
{
	struct zstd_block_header h = zstd_block_header(packed.p + in);

	return h.type != ZSTD_BLOCK_COMPRESSED && h.size == 0;
}

/* All boundaries within the one frame @packed: a live one has no point, and others have one unless an RLE
 * table is in effect. */
static void check_boundaries(struct bytes packed, const struct codec_span *spans, size_t n, size_t counts[3])
{
	struct zstd_entropy e = { 0 };
	struct seen *seen = NEW_N(struct seen, 100);
	struct zstd_frame f;
	struct err err = { 0 };
	size_t n_seen = 0, span = 0;
	uint64_t at;
	bool last;

	assert_done(zstd_frame_parse(packed, 0, &f, &err));
	at = f.header_size;
	zstd_entropy_init(&e);
	do {
		struct zstd_block_header h = zstd_block_header(packed.p + at);
		struct zstd_block block;
		struct seen *b = &seen[n_seen++];

		*b = (struct seen){ .in = at, .empty = decodes_to_nothing(packed, at), .entropy = e };
		if (n_seen > 1)
			b->empty |= decodes_to_nothing(packed, b[-1].in);
		for (unsigned id = 0; id < ZSTD_N_TABLES; id++)
			b->rle |= e.table[id].kind == ZSTD_TABLE_RLE;
		if (h.type == ZSTD_BLOCK_COMPRESSED)
			assert_null(zstd_block_parse(bytes_of(packed.p + at + 3, h.content), &e, &block));
		at += 3 + h.content;
		last = h.last;
	} while (!last);
	/* The first is the frame's start. */
	for (size_t i = 1; i < n_seen; i++) {
		bool is_live = live(&seen[i], seen + n_seen, packed), has;

		while (span < n && spans[span].in < seen[i].in)
			span++;
		has = span < n && spans[span].in == seen[i].in;
		assert_true(!has || !is_live);
		assert_true(has || seen[i].rle || seen[i].empty);
		counts[has ? 0 : is_live ? 1 : 2]++;
	}
	free(seen);
}

static void only_live_rle_has_no_point(void **state)
{
	struct zstd_gen_rng r = { 4 };
	size_t counts[3] = { 0 };

	for (unsigned i = 0; i < 100 * factor; i++) {
		AUTO(buf_done) struct buf packed = { 0 };
		AUTO(buf_done) struct buf plain = { 0 };
		AUTO(arena_done) struct arena arena;
		struct source *raw;
		struct codec_scan *s;
		struct codec_spans spans = { 0 };
		struct err err = { 0 };

		arena_init(&arena);
		zstd_gen_exotic(&r, &packed, &plain);
		if (!plain.size)
			continue;
		raw = source_of_mem(buf_bytes(&packed), "test");
		s = scan_open(raw, 1, 0);
		scan_read(s, buf_bytes(&plain), 0);
		assert_done(codec_zstd.scan_spans(s, &arena, &spans, &err));
		check_boundaries(buf_bytes(&packed), spans.v, spans.n, counts);
		codec_zstd.scan_close(s);
		source_close(raw);
	}
	print_message("# boundaries: %zu with a point, %zu live, %zu others\n", counts[0], counts[1],
		      counts[2]);
	assert_true(counts[0] > counts[2] * 4);
	assert_true(counts[1] > 50);
}

static void points_everywhere_exotic(void **state)
{
	AUTO(buf_done) struct buf packed = { 0 };
	AUTO(buf_done) struct buf plain = { 0 };
	struct zstd_gen_rng r = { 2 };
	struct counts counts = { 0 };

	for (unsigned i = 0; i < 150 * factor; i++) {
		struct given g = { .spacing = zstd_gen_one_in(&r, 3) ? 1 + zstd_gen_below(&r, 5000) : 1,
				   .threads = zstd_gen_one_in(&r, 10),
				   .span.fill = FILL };

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

/* Repcodes that only a distant block determines: blocks that name all their offsets by repcodes. */
static void repcodes_from_far_back(void **state)
{
	AUTO(buf_done) struct buf packed = { 0 };
	AUTO(buf_done) struct buf plain = { 0 };
	struct zstd_gen_params p = { .level = 5, .window_log = 17, .chunk = 3000, .flush_one_in = 1 };
	struct given g = { .spacing = KIB(700), .span.fill = FILL };
	struct counts counts = { 0 };
	struct zstd_gen_rng r = { 3 };

	/* The same noise repeatedly, with a few bytes changed: always the same offset. */
	test_fill(buf_reserve(&plain, MIB(3)), KIB(100), 1);
	for (size_t i = KIB(100); i < MIB(3); i++)
		plain.p[i] = (uint8_t)(plain.p[i - KIB(100)] + zstd_gen_one_in(&r, 500));
	plain.size = MIB(3);
	zstd_gen_encode(&p, buf_bytes(&plain), &packed);
	for (g.threads = 0; g.threads < 2; g.threads++)
		check(buf_bytes(&packed), buf_bytes(&plain), &g, &counts);
	assert_int_equal(counts.wrong, 0);
	assert_int_equal(counts.resumed, 2 * 4);
}

/* If history alone were enough, the test of the rest would prove nothing. */
static void history_alone_is_not_enough(void **state)
{
	AUTO(buf_done) struct buf packed = { 0 };
	AUTO(buf_done) struct buf plain = { 0 };
	struct zstd_gen_rng r = { 13 };
	struct counts counts = { 0 };

	for (unsigned i = 0; i < 12; i++) {
		struct zstd_gen_params p = { .level = i % 2 ? 3 : 15, .target_block = 2000 };
		struct given g = { .spacing = KIB(32), .span = { .fill = FILL, .only_history = true } };

		packed.size = plain.size = 0;
		zstd_gen_text(&r, KIB(700), &plain);
		zstd_gen_encode(&p, buf_bytes(&plain), &packed);
		check(buf_bytes(&packed), buf_bytes(&plain), &g, &counts);
	}
	print_message("# %zu of %zu spans wrong, as they should\n", counts.wrong, counts.resumed);
	assert_true(counts.wrong * 10 > counts.resumed * 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points_everywhere_encoded),   cmocka_unit_test(points_everywhere_exotic),
		cmocka_unit_test(only_live_rle_has_no_point),  cmocka_unit_test(repcodes_from_far_back),
		cmocka_unit_test(history_alone_is_not_enough),
	};

	if (argc > 1)
		factor = (unsigned)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
