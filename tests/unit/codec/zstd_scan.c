/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public behaviour of the zstd scan: refused input and the messages, where points are, and frames that
 * libzstd decodes but the marker does not understand.
 */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "check.h"

#include <zstd.h>
#include "codec/zstd.h"
#include "zstd_gen.h"

/* Points so close together that small contents have many. */
static const struct codec_scan_options dense = { .spacing = KIB(64),
						 .min_size = 1,
						 .budget_percent = 1u << 30 };

static void encode(struct buf *packed, struct bytes plain, int level, int window_log, size_t chunk)
{
	struct zstd_gen_params p = { .level = level,
				     .window_log = window_log,
				     .chunk = chunk,
				     .flush_one_in = chunk ? 1 : 0,
				     .checksum = true };

	zstd_gen_encode(&p, plain, packed);
}

static void every_way_to_read(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	struct zstd_gen_rng r = { 5 };

	for (int i = 0; i < 3; i++) {
		size_t at = plain.size;

		if (i == 1)
			zstd_gen_skippable(&r, &packed);
		zstd_gen_text(&r, 500000, &plain);
		encode(&packed, bytes_from(&plain, at), i ? 1 : 12, i ? 15 : 0, i == 2 ? 3000 : 0);
	}
	buf_add(&packed, "\0\0\0\0\0", 5);
	assert_true(check_all_ways(CODEC_ZSTD, buf_bytes(&packed), buf_bytes(&plain), &dense) > 10);
	check_truncated(CODEC_ZSTD, bytes_of(packed.p, packed.size - 5), buf_bytes(&plain), 30);
	check_flipped(CODEC_ZSTD, buf_bytes(&packed), buf_bytes(&plain), &dense, 40);
}

static void reads_that_fail(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	struct zstd_gen_rng r = { 6 };

	zstd_gen_text(&r, 700000, &plain);
	encode(&packed, buf_bytes(&plain), 3, 16, 0);
	check_faults(CODEC_ZSTD, buf_bytes(&packed), buf_bytes(&plain), &dense);
}

/* ---- refused input ---- */

static int scan_all(struct bytes packed, struct err *err)
{
	struct source *raw = source_of_mem(packed, "packed");
	struct codec_scan *s;
	struct bytes b;
	int r = codec_scan_open(CODEC_ZSTD, raw, range_of(0, packed.size), &dense, &s, err);

	if (r == 0) {
		do
			r = stream_next(codec_scan_stream(s), SIZE_MAX, &b, err);
		while (r == 0 && b.size);
		codec_scan_close(s);
	}
	source_close(raw);
	return r;
}

static int stream_all(struct bytes packed, struct err *err)
{
	struct stream *s;
	struct bytes b;
	int r = codec_stream_open(
		CODEC_ZSTD, stream_of_source(source_of_mem(packed, "packed"), true, 0, packed.size), &s, err);

	if (r == 0) {
		do
			r = stream_next(s, SIZE_MAX, &b, err);
		while (r == 0 && b.size);
		stream_close(s);
	}
	return r;
}

static void truncation_says_where(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	struct zstd_gen_rng r = { 7 };
	struct err err = { 0 };

	zstd_gen_text(&r, 20000, &plain);
	encode(&packed, buf_bytes(&plain), 3, 10, 700);
	assert_done(scan_all(buf_bytes(&packed), &err));
	assert_done(stream_all(buf_bytes(&packed), &err));
	for (size_t n = 0; n < packed.size; n++) {
		AUTO(mem_freep) char *where = mem_printf("offset %zu", n);

		assert_fails(scan_all(bytes_of(packed.p, n), &err), ERR_INVALID, n >= 4 ? where : "no frame");
		assert_fails(stream_all(bytes_of(packed.p, n), &err), ERR_INVALID, "");
	}
}

static void other_bytes_are_refused(void **state)
{
	static const uint8_t dict_id[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x58, 77, 1, 0, 0 };
	static const uint8_t huge[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 1, 0, 0 };
	static const uint8_t reserved_bit[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x08, 0x58, 1, 0, 0 };
	static const uint8_t reserved_block[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 7, 0, 0 };
	static const uint8_t large_block[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 1, 0x00, 0x20 };
	static const uint8_t skippable[] = { 0x50, 0x2a, 0x4d, 0x18, 5, 0, 0, 0, 1, 2, 3, 4 };
	AUTO(buf_done) struct buf packed = { 0 };
	struct err err = { 0 };
	struct bytes b;

	assert_fails(scan_all(bytes_of(dict_id, sizeof(dict_id)), &err), ERR_INVALID,
		     "needs the dictionary 77");
	assert_fails(stream_all(bytes_of(dict_id, sizeof(dict_id)), &err), ERR_INVALID, "ictionary");
	assert_fails(scan_all(bytes_of(huge, sizeof(huge)), &err), ERR_LIMIT, "window");
	assert_fails(stream_all(bytes_of(huge, sizeof(huge)), &err), ERR_LIMIT, "");
	assert_fails(scan_all(bytes_of(reserved_bit, sizeof(reserved_bit)), &err), ERR_INVALID,
		     "reserved bit");
	assert_fails(scan_all(bytes_of(reserved_block, sizeof(reserved_block)), &err), ERR_INVALID,
		     "offset 6");
	assert_fails(scan_all(bytes_of(large_block, sizeof(large_block)), &err), ERR_INVALID, "offset 6");
	assert_fails(scan_all(bytes_of(skippable, sizeof(skippable)), &err), ERR_INVALID, "skippable");
	assert_fails(scan_all((struct bytes){ 0 }, &err), ERR_INVALID, "no frame");
	assert_fails(scan_all(bytes_of("\0\0\0\0\0", 5), &err), ERR_INVALID, "no frame");

	encode(&packed, bytes_of("hello", 5), 3, 0, 0);
	buf_add(&packed, "\0\0\0", 3);
	assert_done(scan_all(buf_bytes(&packed), &err));
	assert_done(stream_all(buf_bytes(&packed), &err));
	buf_add(&packed, "x", 1);
	b = buf_bytes(&packed);
	assert_fails(scan_all(b, &err), ERR_INVALID, "no frame starts at compressed offset");
	assert_fails(stream_all(b, &err), ERR_INVALID, "");
}

static void flipped_bits_never_crash(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	struct zstd_gen_rng r = { 8 };
	struct err err = { 0 };

	zstd_gen_text(&r, 30000, &plain);
	encode(&packed, buf_bytes(&plain), 5, 12, 2000);
	for (size_t i = 0; i < packed.size; i++) {
		packed.p[i] ^= 1 << i % 8;
		scan_all(buf_bytes(&packed), &err);
		packed.p[i] ^= 1 << i % 8;
	}
	assert_done(scan_all(buf_bytes(&packed), &err));
}

/* ---- where points are ---- */

static struct codec_spans spans_of(struct codec_scan *s, struct arena *a)
{
	struct codec_spans ret = { 0 };
	struct err err = { 0 };

	assert_done(codec_zstd.scan_spans(s, a, &ret, &err));
	return ret;
}

static void small_frames_share_a_span(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	AUTO(arena_done) struct arena a;
	struct source *raw;
	struct codec_scan *s;
	struct codec_spans spans;
	struct zstd_gen_rng r = { 9 };
	struct err err = { 0 };
	struct bytes b;

	arena_init(&a);
	for (unsigned i = 0; i < 200; i++) {
		size_t at = plain.size;

		zstd_gen_text(&r, 5000, &plain);
		encode(&packed, bytes_of(plain.p + at, 5000), 1, 0, 0);
	}
	/* Like the end of the seekable format: a table in a skippable frame. */
	zstd_gen_skippable(&r, &packed);
	assert_true(check_all_ways(CODEC_ZSTD, buf_bytes(&packed), buf_bytes(&plain), &dense) <= 16);

	raw = source_of_mem(buf_bytes(&packed), "packed");
	assert_done(codec_scan_open(CODEC_ZSTD, raw, range_of(0, packed.size), &dense, &s, &err));
	do
		assert_done(stream_next(codec_scan_stream(s), SIZE_MAX, &b, &err));
	while (b.size);
	spans = spans_of(s, &a);
	for (size_t i = 0; i < spans.n; i++) {
		assert_int_equal(spans.v[i].payload.size, 0);
		assert_int_equal(spans.v[i].out % 5000, 0);
		assert_true(i + 1 == spans.n || spans.v[i].out_end - spans.v[i].out >= dense.spacing);
	}
	codec_scan_close(s);
	source_close(raw);
}

/* More than the ring of compressed bytes has, before, between and after frames: in small skippable frames, or zeros. */
static void much_between_frames(void **state)
{
	static const uint8_t skippable[] = { 0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4 };
	struct zstd_gen_rng r = { 10 };

	for (unsigned threads = 0; threads < 2; threads++) {
		struct codec_scan_options opts = dense;
		AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };

		opts.threads = threads;
		for (unsigned i = 0; i < 2; i++) {
			size_t at = plain.size, to = packed.size + MIB(6);

			while (packed.size < to)
				buf_add(&packed, skippable, sizeof(skippable));
			zstd_gen_text(&r, 300000, &plain);
			encode(&packed, bytes_from(&plain, at), 1, 15, 0);
		}
		memset(buf_reserve(&packed, MIB(6)), 0, MIB(6));
		packed.size += MIB(6);
		assert_true(check_all_ways(CODEC_ZSTD, buf_bytes(&packed), buf_bytes(&plain), &opts) > 1);
	}
}

/* Frames that share a span, and the checksum of the last one at every place in the buffer of a source without points. */
static void zeros_between_frames(void **state)
{
	struct zstd_gen_rng r = { 12 };
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	static const struct codec_scan_options defaults;

	for (unsigned i = 0; i < 4; i++) {
		size_t at = plain.size, n = i == 2 ? KIB(200) : i;

		zstd_gen_text(&r, 100000, &plain);
		encode(&packed, bytes_from(&plain, at), 1, 15, 0);
		memset(buf_reserve(&packed, n), 0, n);
		packed.size += n;
	}
	assert_int_equal(check_all_ways(CODEC_ZSTD, buf_bytes(&packed), buf_bytes(&plain), &defaults), 1);
}

static void the_last_checksum_is_verified_without_points(void **state)
{
	uint8_t *random = mem_alloc(KIB(64)), *got = mem_alloc(KIB(64));
	unsigned n_split = 0;

	test_fill(random, KIB(64), 11);
	for (size_t n = KIB(64) - 24; n <= KIB(64); n++) {
		AUTO(buf_done) struct buf packed = { 0 };
		struct codec_source_options o = { .size = n };
		struct err err = { 0 };
		struct source *s;

		encode(&packed, bytes_of(random, n), 1, 0, 0);
		/* The checksum begins in one buffer of 64 KiB and ends in the next one. */
		n_split += packed.size > KIB(64) && packed.size < KIB(64) + 4;
		packed.p[KIB(32)] ^= 4;
		assert_done(
			codec_source_open(CODEC_ZSTD, source_of_mem(buf_bytes(&packed), "x"), &o, &s, &err));
		assert_fails(source_read_full(s, 0, got, n, SOURCE_SEQUENTIAL, &err), ERR_INVALID,
			     "checksum");
		source_close(s);
	}
	assert_int_equal(n_split, 3);
	free(random);
	free(got);
}

/* Incompressible, so that points cost next to nothing; blocks of 4096 bytes. */
static void noise(struct buf *plain, struct buf *packed, size_t n)
{
	test_fill(buf_reserve(plain, n), n, 10);
	plain->size += n;
	encode(packed, buf_bytes(plain), 1, 14, 4096);
}

static void landmarks_get_points(void **state)
{
	static const uint64_t marks[] = { 300000, 700001, 1111111, 1200000 };
	struct codec_scan_options opts = { .spacing = MIB(1), .min_size = 1 };
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };

	noise(&plain, &packed, 3000000);
	for (unsigned threads = 0; threads < 2; threads++) {
		struct source *raw = source_of_mem(buf_bytes(&packed), "packed");
		AUTO(arena_done) struct arena a;
		struct codec_scan *s;
		struct codec_spans spans;
		struct err err = { 0 };
		struct bytes b;
		unsigned next = 0;
		size_t at = 0;

		arena_init(&a);
		opts.threads = threads;
		assert_done(codec_scan_open(CODEC_ZSTD, raw, range_of(0, packed.size), &opts, &s, &err));
		do {
			assert_done(stream_next(codec_scan_stream(s), 1000, &b, &err));
			at += b.size;
			/* Report it when it is in the last chunk, or, for the third, well ahead of it. */
			while (next < ARRAY_SIZE(marks) && at > marks[next] - (next == 2 ? 50000 : 0))
				codec_scan_landmark(s, marks[next++]);
		} while (b.size);
		spans = spans_of(s, &a);
		/* 300000 at 299008, then 700001 and 1111111; 1200000 is too near to that; then two by the
		 * spacing. */
		assert_int_equal(spans.n, 5);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(spans.v[i + 1].out, marks[i] / 4096 * 4096);
		assert_true(spans.v[4].out - spans.v[3].out >= MIB(1) &&
			    spans.v[4].out - spans.v[3].out < MIB(1) + 4096);
		codec_scan_close(s);
		source_close(raw);
	}
}

/* The nice value of the thread of this process with this name; INT_MIN: there is none. */
static int nice_of_thread(const char *name)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *e;
	int found = INT_MIN;

	assert_non_null(tasks);
	while (found == INT_MIN && (e = readdir(tasks))) {
		char path[320], comm[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "r");
		if (f && fgets(comm, sizeof(comm), f) && strncmp(comm, name, strlen(name)) == 0)
			found = getpriority(PRIO_PROCESS, (id_t)atoi(e->d_name));
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return found;
}

static void the_helper_gets_the_nice_value_of_the_pass(void **state)
{
	struct codec_scan_options opts = { .spacing = MIB(1), .min_size = 1, .threads = 1 };
	const int mine = getpriority(PRIO_PROCESS, 0);
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };

	if (mine > 17)
		return;
	noise(&plain, &packed, 9000000);
	/* Before the helper begins, and after. */
	for (int late = 0; late < 2; late++) {
		struct source *raw = source_of_mem(buf_bytes(&packed), "packed");
		struct codec_scan *s;
		struct err err = { 0 };
		struct bytes b;
		int got = INT_MIN;

		assert_done(codec_scan_open(CODEC_ZSTD, raw, range_of(0, packed.size), &opts, &s, &err));
		if (!late)
			codec_scan_renice(s, mine + 2);
		do
			assert_done(stream_next(codec_scan_stream(s), 65536, &b, &err));
		while (b.size);
		if (late)
			codec_scan_renice(s, mine + 2);
		for (unsigned i = 0; i < 5000 && got != mine + 2; i++) {
			got = nice_of_thread("zstd-scan");
			usleep(1000);
		}
		assert_int_equal(got, mine + 2);
		codec_scan_close(s);
		source_close(raw);
	}
}

static void small_contents_have_no_points(void **state)
{
	struct codec_scan_options opts = { .spacing = KIB(64), .min_size = KIB(700) };
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 }, points = { 0 };
	struct codec_points_info info;
	struct err err = { 0 };

	noise(&plain, &packed, 600000);
	check_scan(CODEC_ZSTD, buf_bytes(&packed), buf_bytes(&plain), &opts, &points);
	assert_done(codec_points_info(buf_bytes(&points), &info, &err));
	assert_int_equal(info.n_spans, 1);
	points.size = 0;
	opts.min_size = KIB(400);
	check_scan(CODEC_ZSTD, buf_bytes(&packed), buf_bytes(&plain), &opts, &points);
	assert_done(codec_points_info(buf_bytes(&points), &info, &err));
	assert_true(info.n_spans >= 9);
}

static void points_keep_to_their_budget(void **state)
{
	struct codec_scan_options opts = { .spacing = KIB(16), .min_size = 1, .budget_percent = 5 };
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 }, points = { 0 };
	struct zstd_gen_rng r = { 11 };
	struct codec_points_info info;
	struct err err = { 0 };

	zstd_gen_text(&r, 6000000, &plain);
	encode(&packed, buf_bytes(&plain), 3, 18, 0);
	check_scan(CODEC_ZSTD, buf_bytes(&packed), buf_bytes(&plain), &opts, &points);
	assert_done(codec_points_info(buf_bytes(&points), &info, &err));
	assert_true(info.n_spans > 3);
	assert_true(points.size < packed.size * 6 / 100);
}

/* ---- doubts ---- */

/*
 * A frame of 1500 bytes of noise and the first 600 of them again, in blocks of 700. With @small the frame
 * header is changed afterwards, to a window of 1024 bytes: libzstd accepts the offset of 1500, since its
 * buffer has the bytes; the marker does not.
 */
static void doubtful_frame(struct buf *packed, struct buf *plain, bool small, uint64_t seed)
{
	size_t at = plain->size, packed_at = packed->size;

	test_fill(buf_reserve(plain, 2100), 1500, seed);
	memcpy(plain->p + at + 1500, plain->p + at, 600);
	plain->size += 2100;
	encode(packed, bytes_of(plain->p + at, 2100), 9, 14, 700);
	if (small)
		packed->p[packed_at + 5] = 0;
}

static void doubts_cost_points_only(void **state)
{
	struct codec_scan_options opts = { .spacing = 1100, .min_size = 1, .budget_percent = 1u << 30 };
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };

	for (unsigned i = 0; i < 30; i++)
		doubtful_frame(&packed, &plain, i % 3 == 1, i);
	/* Each frame has a point at its start; those without doubts one at 1400 too. */
	assert_int_equal(check_all_ways(CODEC_ZSTD, buf_bytes(&packed), buf_bytes(&plain), &opts), 30 + 20);
}

static void a_doubt_after_close_points_costs_only_the_open_one(void **state)
{
	struct codec_scan_options opts = { .spacing = 600, .min_size = 1, .budget_percent = 1u << 30 };
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	struct source *raw;
	struct codec_scan *s;
	struct err err = { 0 };
	bool complete;
	const char *why = NULL;
	struct bytes b;

	doubtful_frame(&packed, &plain, true, 1);
	raw = source_of_mem(buf_bytes(&packed), "packed");
	assert_done(codec_scan_open(CODEC_ZSTD, raw, range_of(0, packed.size), &opts, &s, &err));
	do
		assert_done(stream_next(codec_scan_stream(s), SIZE_MAX, &b, &err));
	while (b.size);
	assert_int_equal(codec_scan_points(s, &plain, &complete, &why, &err), CODEC_NO_POINTS);
	assert_string_equal(why, "an offset reaches beyond the window");
	codec_scan_close(s);
	source_close(raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_way_to_read),
		cmocka_unit_test(reads_that_fail),
		cmocka_unit_test(truncation_says_where),
		cmocka_unit_test(other_bytes_are_refused),
		cmocka_unit_test(flipped_bits_never_crash),
		cmocka_unit_test(small_frames_share_a_span),
		cmocka_unit_test(much_between_frames),
		cmocka_unit_test(zeros_between_frames),
		cmocka_unit_test(the_last_checksum_is_verified_without_points),
		cmocka_unit_test(landmarks_get_points),
		cmocka_unit_test(the_helper_gets_the_nice_value_of_the_pass),
		cmocka_unit_test(small_contents_have_no_points),
		cmocka_unit_test(points_keep_to_their_budget),
		cmocka_unit_test(doubts_cost_points_only),
		cmocka_unit_test(a_doubt_after_close_points_costs_only_the_open_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
