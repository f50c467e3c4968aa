/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <lzma.h>
#include "codec/internal.h"

static const struct codec_scan_options defaults;

static void blocks_of_all_kinds(void **state)
{
	for (int kind = 0; kind < CONTENT_N; kind++) {
		AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
		unsigned n;

		content_add(&plain, (enum content)kind, 2400001, 1);
		packed_xz(&packed, buf_bytes(&plain), (unsigned)kind, KIB(1100), LZMA_CHECK_CRC64);
		n = check_all_ways(CODEC_XZ, buf_bytes(&packed), buf_bytes(&plain), &defaults);
		assert_int_equal(n, 3);
	}
}

static void small_blocks_are_joined(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	unsigned n;

	content_add(&plain, CONTENT_MIXED, 3500000, 2);
	packed_xz(&packed, buf_bytes(&plain), 1, 30000, LZMA_CHECK_CRC32);
	n = check_all_ways(CODEC_XZ, buf_bytes(&packed), buf_bytes(&plain), &defaults);
	assert_int_equal(n, 4);
}

static void streams_with_padding_are_one_content(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	static const int checks[] = { LZMA_CHECK_NONE, LZMA_CHECK_CRC32, LZMA_CHECK_CRC64,
				      LZMA_CHECK_SHA256 };

	for (size_t i = 0; i < 12; i++) {
		size_t at = plain.size;

		content_add(&plain, (enum content)(i % CONTENT_N), i == 5 ? 0 : 200000, i);
		packed_xz(&packed, bytes_from(&plain, at), 0, i % 2 ? 150000 : 0, checks[i % 4]);
		for (size_t pad = 0; pad < i % 3 * 4; pad++)
			buf_add_char(&packed, 0);
	}
	check_all_ways(CODEC_XZ, buf_bytes(&packed), buf_bytes(&plain), &defaults);
}

/* The points of a scan. Returns the number of spans. */
static unsigned scan_points(struct bytes packed, struct buf *ret)
{
	AUTO(source_closep) struct source *raw = source_of_mem(packed, "xz");
	struct codec_points_info info;
	struct err err = { 0 };
	struct codec_scan *s;
	const char *why;
	struct bytes b;
	bool complete;

	assert_done(codec_scan_open(CODEC_XZ, raw, range_of(0, raw->size), NULL, &s, &err));
	do
		assert_done(stream_next(codec_scan_stream(s), SIZE_MAX, &b, &err));
	while (b.size);
	assert_done(codec_scan_points(s, ret, &complete, &why, &err));
	codec_scan_close(s);
	assert_done(codec_points_info(buf_bytes(ret), &info, &err));
	return info.n_spans;
}

/* liblzma joins the indexes of streams in quadratic time. */
static void the_index_of_too_many_streams_is_not_read(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 }, empty = { 0 }, points = { 0 };

	/* Two spans, if it were. */
	content_add(&plain, CONTENT_MIXED, 2200000, 8);
	packed_xz(&packed, buf_bytes(&plain), 0, KIB(1100), LZMA_CHECK_CRC64);
	packed_xz(&empty, (struct bytes){ 0 }, 0, 0, LZMA_CHECK_CRC64);
	for (unsigned i = 0; i < 16000; i++)
		buf_add_str(&packed, buf_str(&empty));
	assert_int_equal(scan_points(buf_bytes(&packed), &points), 1);
}

static void blocks_that_cannot_be_joined_give_few_spans(void **state)
{
	AUTO(buf_done) struct buf pair = { 0 }, packed = { 0 }, points = { 0 };

	/* Each of another check than the one before, so each would be a span. */
	packed_xz(&pair, bytes_of("x", 1), 0, 0, LZMA_CHECK_CRC32);
	packed_xz(&pair, bytes_of("y", 1), 0, 0, LZMA_CHECK_CRC64);
	for (unsigned i = 0; i < 2500; i++)
		buf_add_str(&packed, buf_str(&pair));
	assert_int_equal(scan_points(buf_bytes(&packed), &points), 1);
}

/* Points with @n spans of a byte, as versions without a limit wrote them. */
static int check_spans(enum codec_kind kind, size_t n, bool complete, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct codec_points p = { .kind = kind,
				  .complete = complete,
				  .decoded_size = n,
				  .n_spans = n,
				  .spans = NEW_N(struct codec_span, n) };

	for (size_t i = 0; i < n; i++)
		p.spans[i] = (struct codec_span){ .in = i * 100,
						  .in_end = i * 100 + 60,
						  .out = i,
						  .out_end = i + 1,
						  .payload = bytes_of("\1", 1) };
	codec_points_write(&p, &b);
	codec_points_done(&p);
	return codec_points_check(buf_bytes(&b), err);
}

static void points_of_a_version_without_a_limit_are_made_again(void **state)
{
	struct err err = { 0 };

	assert_done(check_spans(CODEC_XZ, CODEC_XZ_SPANS_SPARE, true, &err));
	assert_fails(check_spans(CODEC_XZ, CODEC_XZ_SPANS_SPARE + 1, true, &err), ERR_INVALID,
		     "of an older version: 4097 spans");
	/* The other spans may be large. */
	assert_done(check_spans(CODEC_XZ, CODEC_XZ_SPANS_SPARE + 1, false, &err));
	/* Their scans have limits of their own. */
	assert_done(check_spans(CODEC_GZIP, CODEC_XZ_SPANS_SPARE + 1, true, &err));
}

static void one_block_and_no_block(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 }, empty = { 0 };
	unsigned n;

	content_add(&plain, CONTENT_TEXT, 700000, 3);
	packed_xz(&packed, buf_bytes(&plain), 6, 0, LZMA_CHECK_CRC64);
	n = check_all_ways(CODEC_XZ, buf_bytes(&packed), buf_bytes(&plain), &defaults);
	assert_int_equal(n, 1);
	packed_xz(&empty, (struct bytes){ 0 }, 6, 0, LZMA_CHECK_CRC64);
	n = check_all_ways(CODEC_XZ, buf_bytes(&empty), (struct bytes){ 0 }, &defaults);
	assert_int_equal(n, 0);
}

static void damage_is_reported(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	struct err err = { 0 };
	struct buf out = { 0 };

	content_add(&plain, CONTENT_MIXED, 1500000, 4);
	packed_xz(&packed, buf_bytes(&plain), 1, KIB(600), LZMA_CHECK_CRC64);
	check_truncated(CODEC_XZ, buf_bytes(&packed), buf_bytes(&plain), 60);
	check_flipped(CODEC_XZ, buf_bytes(&packed), buf_bytes(&plain), &defaults, 40);
	check_faults(CODEC_XZ, buf_bytes(&packed), buf_bytes(&plain), &defaults);

	buf_add_str(&packed, STR("\0\0\0\0rubbish after the end!"));
	assert_fails(codec_decode_all(CODEC_XZ, buf_bytes(&packed), MIB(10), &out, &err), ERR_INVALID,
		     "no header where one should be");
}

static void a_cut_file_is_read_up_to_its_end(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	AUTO(source_closep) struct source *raw = NULL;
	struct codec_scan *s;
	struct err err = { 0 };
	struct bytes b;
	uint64_t n = 0;
	int r;

	content_add(&plain, CONTENT_MIXED, 5000000, 4);
	packed_xz(&packed, buf_bytes(&plain), 1, MIB(1), LZMA_CHECK_CRC64);
	packed.size = packed.size / 2;
	raw = source_of_mem(buf_bytes(&packed), "half");
	assert_done(codec_scan_open(CODEC_XZ, raw, range_of(0, raw->size), NULL, &s, &err));
	while ((r = stream_next(codec_scan_stream(s), SIZE_MAX, &b, &err)) == 0) {
		assert_memory_equal(b.p, plain.p + n, b.size);
		n += b.size;
	}
	assert_true(r < 0 && n > plain.size / 3);
	assert_int_equal(err.kind, ERR_INVALID);
	codec_scan_close(s);
}

/* They are verified by their sums: to compute the check after a block, too, would be in vain. */
static void blocks_with_sums_are_read_without_their_check(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 }, points = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	struct codec_source_options o = { 0 };
	struct err err = { 0 };
	struct source *raw;
	struct codec_scan *s;
	const char *why;
	struct bytes b;
	bool complete;
	uint8_t last;

	content_add(&plain, CONTENT_TEXT, 300000, 9);
	packed_xz(&packed, buf_bytes(&plain), 0, 0, LZMA_CHECK_SHA256);
	raw = source_of_mem(buf_bytes(&packed), "xz");
	assert_done(codec_scan_open(CODEC_XZ, raw, range_of(0, raw->size), NULL, &s, &err));
	do
		assert_done(stream_next(codec_scan_stream(s), SIZE_MAX, &b, &err));
	while (b.size);
	assert_done(codec_scan_points(s, &points, &complete, &why, &err));
	codec_scan_close(s);
	source_close(raw);
	/* The last byte of the check is before the index, of 12 or 16 bytes, and the footer. */
	packed.p[packed.size - 2 * LZMA_STREAM_HEADER_SIZE - 4 - 1] ^= 1;
	o.size = plain.size;
	o.points = buf_bytes(&points);
	assert_done(codec_source_open(CODEC_XZ, source_of_mem(buf_bytes(&packed), "xz"), &o, &src, &err));
	assert_done(source_read_full(src, plain.size - 1, &last, 1, SOURCE_RANDOM, &err));
	assert_int_equal(last, plain.p[plain.size - 1]);
}

static void an_absurd_dictionary_is_a_limit(void **state)
{
	AUTO(buf_done) struct buf packed = { 0 };
	struct buf out = { 0 };
	struct err err = { 0 };

	packed_lzma(&packed, bytes_of("hello", 5), 0);
	packed.p[4] = 0x80; /* 2 GiB of dictionary */
	assert_fails(codec_decode_all(CODEC_LZMA, buf_bytes(&packed), 100, &out, &err), ERR_LIMIT,
		     "dictionary");
}

static void lzma_alone_reads_from_the_start(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	struct buf out = { 0 };
	struct err err = { 0 };
	unsigned n;

	content_add(&plain, CONTENT_MIXED, 600000, 5);
	packed_lzma(&packed, buf_bytes(&plain), 1);
	assert_int_equal(codec_detect(bytes_of(packed.p, 16)), CODEC_LZMA);
	n = check_all_ways(CODEC_LZMA, buf_bytes(&packed), buf_bytes(&plain), &defaults);
	assert_int_equal(n, 1);
	check_truncated(CODEC_LZMA, buf_bytes(&packed), buf_bytes(&plain), 60);
	check_faults(CODEC_LZMA, buf_bytes(&packed), buf_bytes(&plain), &defaults);
	buf_add_char(&packed, 0);
	assert_done(codec_decode_all(CODEC_LZMA, buf_bytes(&packed), MIB(10), &out, &err));
	buf_add_char(&packed, 'x');
	assert_fails(codec_decode_all(CODEC_LZMA, buf_bytes(&packed), MIB(10), &out, &err), ERR_INVALID,
		     "unknown bytes after the end");
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_all_kinds),
		cmocka_unit_test(small_blocks_are_joined),
		cmocka_unit_test(streams_with_padding_are_one_content),
		cmocka_unit_test(the_index_of_too_many_streams_is_not_read),
		cmocka_unit_test(blocks_that_cannot_be_joined_give_few_spans),
		cmocka_unit_test(points_of_a_version_without_a_limit_are_made_again),
		cmocka_unit_test(one_block_and_no_block),
		cmocka_unit_test(damage_is_reported),
		cmocka_unit_test(a_cut_file_is_read_up_to_its_end),
		cmocka_unit_test(blocks_with_sums_are_read_without_their_check),
		cmocka_unit_test(an_absurd_dictionary_is_a_limit),
		cmocka_unit_test(lzma_alone_reads_from_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
