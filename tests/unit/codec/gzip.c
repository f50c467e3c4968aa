/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

static const struct codec_scan_options fine = { .spacing = KIB(100), .min_size = 1 };
static const struct codec_scan_options defaults;

static void every_level_and_content(void **state)
{
	static const int levels[] = { 1, 9, 6, 0, 3 };

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		for (int kind = 0; kind < CONTENT_N; kind++) {
			AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
			unsigned n;

			content_add(&plain, (enum content)kind, 900001, i);
			packed_gzip(&packed, buf_bytes(&plain), levels[i], 0);
			n = check_all_ways(CODEC_GZIP, buf_bytes(&packed), buf_bytes(&plain), &fine);
			/* Zeros make only a few deflate blocks. */
			assert_true(n >= (kind == CONTENT_ZEROS ? 1 : 2));
		}
	}
}

static void blocks_at_every_bit(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	static const struct codec_scan_options finest = { .spacing = 1, .min_size = 1 };
	unsigned n;

	content_add(&plain, CONTENT_MIXED, 600000, 8);
	packed_gzip(&packed, buf_bytes(&plain), 6, 3001);
	n = check_all_ways(CODEC_GZIP, buf_bytes(&packed), buf_bytes(&plain), &finest);
	assert_true(n > 80);
}

static void members_and_padding_are_one_content(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };

	for (size_t i = 0; i < 40; i++) {
		size_t at = plain.size;

		content_add(&plain, (enum content)(i % CONTENT_N), i % 7 * 9000, i);
		packed_gzip(&packed, bytes_from(&plain, at), (int)(i % 10), i % 3 * 1000);
		for (size_t pad = 0; pad < i % 5; pad++)
			buf_add_char(&packed, 0);
	}
	check_all_ways(CODEC_GZIP, buf_bytes(&packed), buf_bytes(&plain), &fine);
	check_truncated(CODEC_GZIP, bytes_of(packed.p, packed.size - 4), buf_bytes(&plain), 0);
}

/* The points of a long file are at members' starts, if the members are small. */
static void small_members_need_no_windows(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 }, points = { 0 };
	struct codec_points_info info;
	struct err err = { 0 };

	for (size_t i = 0; i < 100; i++) {
		size_t at = plain.size;

		content_add(&plain, CONTENT_RANDOM, 20000, i);
		packed_gzip(&packed, bytes_from(&plain, at), 1, 0);
	}
	check_scan(CODEC_GZIP, buf_bytes(&packed), buf_bytes(&plain), &fine, &points);
	assert_done(codec_points_info(buf_bytes(&points), &info, &err));
	assert_in_range(info.n_spans, 15, 20);
	assert_true(info.size < 1000);
}

static void small_contents_have_only_sums(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 }, empty = { 0 };
	unsigned n;

	content_add(&plain, CONTENT_MIXED, 400000, 3);
	packed_gzip(&packed, buf_bytes(&plain), 6, 0);
	n = check_all_ways(CODEC_GZIP, buf_bytes(&packed), buf_bytes(&plain), &defaults);
	assert_int_equal(n, 1);
	packed_gzip(&empty, (struct bytes){ 0 }, 6, 0);
	n = check_all_ways(CODEC_GZIP, buf_bytes(&empty), (struct bytes){ 0 }, &defaults);
	assert_int_equal(n, 0);
}

static void a_landmark_gets_a_point_nearby(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 }, points = { 0 };
	AUTO(source_closep) struct source *raw = NULL;
	static const struct codec_scan_options o = { .spacing = MIB(2), .min_size = 1 };
	const uint64_t landmark = 1100000;
	struct codec_points_info info;
	struct codec_scan *s;
	struct err err = { 0 };
	bool complete;
	const char *why;

	content_add(&plain, CONTENT_RANDOM, 1800000, 3);
	packed_gzip(&packed, buf_bytes(&plain), 6, 0);
	raw = source_of_mem(buf_bytes(&packed), "packed");
	assert_done(codec_scan_open(CODEC_GZIP, raw, range_of(0, raw->size), &o, &s, &err));
	while (codec_scan_stream(s)->off < plain.size) {
		uint64_t before = codec_scan_stream(s)->off;
		struct bytes b;

		assert_done(stream_next(codec_scan_stream(s), 50000, &b, &err));
		if (before <= landmark && before + b.size > landmark)
			codec_scan_landmark(s, landmark);
	}
	assert_done(codec_scan_points(s, &points, &complete, &why, &err));
	codec_scan_close(s);
	assert_done(codec_points_info(buf_bytes(&points), &info, &err));
	assert_int_equal(info.n_spans, 2);
	/* The first span ends at the landmark or not far before it. */
	assert_in_range(info.max_span, landmark - KIB(128), landmark);
	check_source(CODEC_GZIP, buf_bytes(&packed), buf_bytes(&plain),
		     &(struct codec_source_options){ .points = buf_bytes(&points) }, 50);
}

static void damage_is_reported(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	struct err err = { 0 };
	struct buf out = { 0 };

	content_add(&plain, CONTENT_MIXED, 700000, 4);
	packed_gzip(&packed, buf_bytes(&plain), 6, 0);
	check_truncated(CODEC_GZIP, buf_bytes(&packed), buf_bytes(&plain), 90);
	check_flipped(CODEC_GZIP, buf_bytes(&packed), buf_bytes(&plain), &fine, 150);
	check_flipped_whole(CODEC_GZIP, buf_bytes(&packed), buf_bytes(&plain), 60);
	check_faults(CODEC_GZIP, buf_bytes(&packed), buf_bytes(&plain), &fine);

	packed.p[packed.size - 8] ^= 1;
	assert_fails(codec_decode_all(CODEC_GZIP, buf_bytes(&packed), MIB(10), &out, &err), ERR_INVALID,
		     "incorrect data check");
	packed.p[packed.size - 8] ^= 1;
	buf_add_str(&packed, STR("\0\0\0\0rubbish"));
	assert_fails(codec_decode_all(CODEC_GZIP, buf_bytes(&packed), MIB(10), &out, &err), ERR_INVALID,
		     "incorrect header check");
}

static int take_chunk(void *arg, struct bytes b, struct err *err)
{
	(void)err;
	buf_add(arg, b.p, b.size);
	return 0;
}

static int refuse_chunk(void *arg, struct bytes b, struct err *err)
{
	(void)arg;
	(void)b;
	return err_set(err, ERR_IO, "the disk is gone");
}

/* In pieces of every size, the empty one too. */
static void bytes_are_compressed_as_they_come(void **state)
{
	static const size_t sizes[] = { 0, 1, 7, KIB(64) - 1, KIB(64), MIB(1) + 3, MIB(3) };
	AUTO(buf_done) struct buf plain = { 0 };
	uint64_t seed = 3;

	for (size_t i = 0; i < MIB(1); i++) {
		seed = seed * 6364136223846793005 + 1;
		buf_add_u64(&plain, i % 3 ? seed >> 32 : i);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		AUTO(buf_done) struct buf packed = { 0 };
		AUTO(buf_done) struct buf got = { 0 };
		struct err err = { 0 };
		struct codec_gzip *g = codec_gzip_new(6, take_chunk, &packed, &err);
		size_t at = 0, step = sizes[i], end = step < 100 ? KIB(1) * step : plain.size;

		assert_non_null(g);
		for (; at < end; at += step)
			assert_done(codec_gzip_write(g, bytes_of(plain.p + at, MIN(step, end - at)), &err));
		assert_done(codec_gzip_end(g, &err));
		codec_gzip_free(g);
		assert_done(codec_decode_all(CODEC_GZIP, buf_bytes(&packed), MIB(16), &got, &err));
		assert_int_equal(got.size, end);
		assert_true(end == 0 || memcmp(got.p, plain.p, end) == 0);
	}
}

static void an_error_of_the_receiver_ends_the_compression(void **state)
{
	struct err err = { 0 };
	struct codec_gzip *g = codec_gzip_new(6, refuse_chunk, NULL, &err);

	assert_done(codec_gzip_write(g, bytes_of("x", 1), &err));
	assert_fails(codec_gzip_end(g, &err), ERR_IO, "the disk is gone");
	codec_gzip_free(g);
	codec_gzip_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_compressed_as_they_come),
		cmocka_unit_test(an_error_of_the_receiver_ends_the_compression),
		cmocka_unit_test(every_level_and_content),
		cmocka_unit_test(blocks_at_every_bit),
		cmocka_unit_test(members_and_padding_are_one_content),
		cmocka_unit_test(small_members_need_no_windows),
		cmocka_unit_test(small_contents_have_only_sums),
		cmocka_unit_test(a_landmark_gets_a_point_nearby),
		cmocka_unit_test(damage_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
