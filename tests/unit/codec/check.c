/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that apply to each codec and each content.
 */
#include "check.h"

/* cmocka's own function compares byte by byte, which takes longer than the decoding. */
#define assert_same(a, b, n)                                \
	({                                                  \
		if (memcmp((a), (b), (n)) != 0)             \
			assert_memory_equal((a), (b), (n)); \
	})

static uint64_t rnd(uint64_t *state)
{
	return *state = hash64(state, sizeof(*state), 3);
}

static struct stream *stream_of(struct bytes b)
{
	return stream_of_source(source_of_mem(b, "packed"), true, 0, b.size);
}

/*
 * Reads and views of random sizes. 0 at the end, and then the content was @plain; or the error. The bytes
 * before an error must be right too, unless @late: the checks of most formats are stored after the bytes that
 * they cover.
 */
static int drain(struct stream *s, struct bytes plain, bool late, uint64_t seed, struct err *err)
{
	static uint8_t out[300000];
	struct hash64_state h;
	size_t at = 0;

	hash64_init(&h, 0);
	for (;;) {
		size_t n = 1 + rnd(&seed) % (seed & 8 ? sizeof(out) : 3000), got;
		struct bytes b = { out, 0 };

		if (seed & 16 ? stream_next(s, n, &b, err) < 0 : stream_read(s, out, n, &b.size, err) < 0)
			return -1;
		got = b.size;
		assert_true(got <= n && (late || got <= plain.size - at));
		if (!got)
			break;
		if (!late)
			assert_same(b.p, plain.p + at, got);
		hash64_feed(&h, b.p, got);
		at += got;
		assert_int_equal(s->off, at);
	}
	assert_int_equal(at, plain.size);
	assert_int_equal(hash64_end(&h), hash64(plain.p, plain.size, 0));
	return 0;
}

void check_scan(enum codec_kind kind, struct bytes packed, struct bytes plain,
		const struct codec_scan_options *opts, struct buf *ret_points)
{
	struct source *raw = source_of_mem(packed, "packed");
	struct codec_scan *s;
	struct err err = { 0 };
	bool complete;
	const char *why;
	int r;

	assert_done(codec_scan_open(kind, raw, range_of(0, packed.size), opts, &s, &err));
	assert_done(drain(codec_scan_stream(s), plain, false, 5, &err));
	assert_int_equal(codec_scan_checked(s), plain.size);
	r = codec_scan_points(s, ret_points, &complete, &why, &err);
	assert_true(complete);
	assert_int_equal(r, plain.size ? 0 : CODEC_NO_POINTS);
	codec_scan_close(s);
	source_close(raw);
}

void check_reads(struct source *s, struct bytes plain, unsigned n_reads, uint64_t seed)
{
	static uint8_t out[400000];
	struct err err = { 0 };
	uint64_t state = seed;

	assert_int_equal(s->size, plain.size);
	for (unsigned i = 0; i < n_reads && plain.size; i++) {
		uint64_t off = rnd(&state) % plain.size;
		unsigned n_in_row = rnd(&state) % 8 ? 1 : 1 + rnd(&state) % 40;

		for (; n_in_row && off < plain.size; n_in_row--) {
			size_t n = 1 + rnd(&state) % (rnd(&state) % 4 ? 500 : sizeof(out)), got;
			enum source_hint hint = n_in_row > 1 || rnd(&state) % 4 == 0 ? SOURCE_SEQUENTIAL
										     : SOURCE_RANDOM;

			assert_done(source_read(s, off, out, n, hint, &got, &err));
			assert_int_equal(got, MIN(n, plain.size - off));
			assert_same(out, plain.p + off, got);
			off += got;
		}
	}
}

static void check_whole(struct source *s, struct bytes plain)
{
	uint8_t *all = mem_alloc(plain.size);
	struct err err = { 0 };

	for (size_t at = 0, got; at < plain.size; at += got)
		assert_done(source_read(s, at, all + at, MIN(plain.size - at, 70000), SOURCE_SEQUENTIAL, &got,
					&err));
	if (plain.size)
		assert_same(all, plain.p, plain.size);
	free(all);
}

struct source *open_packed(enum codec_kind kind, struct bytes packed, struct bytes plain,
			   const struct codec_source_options *opts)
{
	struct codec_source_options o = *opts;
	struct err err = { 0 };
	struct source *s;

	o.size = plain.size;
	assert_done(codec_source_open(kind, source_of_mem(packed, "packed"), &o, &s, &err));
	return s;
}

void check_source(enum codec_kind kind, struct bytes packed, struct bytes plain,
		  const struct codec_source_options *opts, unsigned n_reads)
{
	struct source *s = open_packed(kind, packed, plain, opts);

	check_reads(s, plain, n_reads, 1);
	check_whole(s, plain);
	check_reads(s, plain, n_reads / 4, 2);
	source_close(s);
}

/* Stop half-way: the points so far must serve the delivered bytes. */
static void check_partial(enum codec_kind kind, struct bytes packed, struct bytes plain,
			  const struct codec_scan_options *opts, uint64_t seed)
{
	struct source *raw = source_of_mem(packed, "packed");
	AUTO(buf_done) struct buf points = { 0 };
	struct codec_scan *s;
	struct err err = { 0 };
	size_t stop = plain.size ? rnd(&seed) % plain.size : 0;
	bool complete = false;
	const char *why;

	assert_done(codec_scan_open(kind, raw, range_of(0, packed.size), opts, &s, &err));
	while (codec_scan_stream(s)->off < stop) {
		struct bytes b;

		assert_done(stream_next(codec_scan_stream(s), 1 + rnd(&seed) % 200000, &b, &err));
		assert_true(b.size > 0);
		if (rnd(&seed) % 8 == 0) {
			points.size = 0;
			assert_done(codec_scan_points(s, &points, &complete, &why, &err));
			assert_false(complete);
		}
		if (rnd(&seed) % 8 == 0)
			codec_scan_landmark(s, codec_scan_stream(s)->off - rnd(&seed) % b.size);
	}
	stop = codec_scan_stream(s)->off;
	points.size = 0;
	if (codec_scan_points(s, &points, &complete, &why, &err) == 0) {
		struct codec_source_options o = { .points = buf_bytes(&points) };
		struct codec_points_info info;

		assert_done(codec_points_info(buf_bytes(&points), &info, &err));
		assert_true(info.decoded_size >= stop);
		check_source(kind, packed, bytes_of(plain.p, stop), &o, 8);
	} else {
		assert_int_equal(stop, 0);
	}
	codec_scan_close(s);
	source_close(raw);
}

unsigned check_all_ways(enum codec_kind kind, struct bytes packed, struct bytes plain,
			const struct codec_scan_options *opts)
{
	AUTO(buf_done) struct buf points = { 0 }, points2 = { 0 }, all = { 0 };
	struct codec_cache *cache = codec_cache_new(MIB(8)), *small = codec_cache_new(KIB(300));
	struct pool *pool = pool_new("test", 2, 3);
	struct codec_scan_options threaded = *opts;
	struct codec_points_info info = { 0 };
	struct err err = { 0 };
	struct stream *s;

	assert_done(codec_stream_open(kind, stream_of(packed), &s, &err));
	assert_done(drain(s, plain, false, 9, &err));
	stream_close(s);
	assert_done(codec_decode_all(kind, packed, plain.size, &all, &err));
	assert_int_equal(all.size, plain.size);
	if (plain.size) {
		assert_same(all.p, plain.p, plain.size);
		assert_fails(codec_decode_all(kind, packed, plain.size - 1, &all, &err), ERR_LIMIT,
			     "more than");
	}

	check_scan(kind, packed, plain, opts, &points);
	threaded.threads = 2;
	check_scan(kind, packed, plain, &threaded, &points2);
	assert_true(bytes_eq(buf_bytes(&points), buf_bytes(&points2)));
	for (uint64_t i = 0; i < 3; i++)
		check_partial(kind, packed, plain, i & 1 ? opts : &threaded, i);

	for (unsigned i = 0; i < 8 && plain.size; i++) {
		struct codec_source_options o = {
			.points = i % 4 ? buf_bytes(&points) : (struct bytes){ 0 },
			.cache = i % 3 == 1   ? cache
				 : i % 3 == 2 ? small
					      : NULL,
			.cache_id = i % 4 ? 1 : 2,
			.helpers = i & 2 ? pool : NULL,
			.max_ahead = 1 + i % 3,
		};

		check_source(kind, packed, plain, &o, !(i % 4) ? 3 : i % 3 == 1 ? 200 : 12);
	}
	if (plain.size)
		assert_done(codec_points_info(buf_bytes(&points), &info, &err));
	assert_int_equal(info.decoded_size, plain.size);
	pool_free(pool);
	codec_cache_free(cache);
	codec_cache_free(small);
	return info.n_spans;
}

static int try_stream(enum codec_kind kind, struct bytes packed, struct bytes plain, bool late)
{
	struct err err = { 0 };
	struct stream *s;
	int r = codec_stream_open(kind, stream_of(packed), &s, &err);

	if (r < 0)
		return -1;
	r = drain(s, plain, late, 1, &err);
	stream_close(s);
	return r;
}

void check_truncated(enum codec_kind kind, struct bytes packed, struct bytes plain, unsigned n)
{
	uint64_t seed = 11;

	for (unsigned i = 0; i < n; i++) {
		/* All of the first and last bytes, and some in between. */
		size_t cut = i < n / 3       ? i
			     : i < n / 3 * 2 ? packed.size - 1 - (i - n / 3)
					     : rnd(&seed) % packed.size;
		struct bytes part = bytes_of(packed.p, MIN(cut, packed.size - 1));
		struct source *raw = source_of_mem(part, "cut");
		struct codec_scan_options o = { .threads = i % 3 };
		struct codec_scan *scan;
		struct err err = { 0 };

		assert_true(try_stream(kind, part, plain, false) < 0);
		if (codec_scan_open(kind, raw, range_of(0, part.size), &o, &scan, &err) == 0) {
			AUTO(buf_done) struct buf points = { 0 };
			bool complete = false;
			const char *why;

			assert_true(drain(codec_scan_stream(scan), plain, false, i, &err) < 0);
			assert_true(err.kind == ERR_INVALID);
			(void)codec_scan_points(scan, &points, &complete, &why, &err);
			assert_false(complete);
			codec_scan_close(scan);
		}
		source_close(raw);
	}
}

void check_flipped(enum codec_kind kind, struct bytes packed, struct bytes plain,
		   const struct codec_scan_options *opts, unsigned n)
{
	AUTO(buf_done) struct buf points = { 0 };
	uint8_t *copy = mem_alloc(packed.size), *out = mem_alloc(plain.size);
	uint64_t seed = 23;

	memcpy(copy, packed.p, packed.size);
	check_scan(kind, packed, plain, opts, &points);
	for (unsigned i = 0; i < n; i++) {
		size_t at = rnd(&seed) % packed.size;
		uint8_t mask = (uint8_t)(1 << rnd(&seed) % 8);
		struct codec_source_options o = { .points = buf_bytes(&points), .size = plain.size };
		struct err err = { 0 };
		struct source *s;

		copy[at] ^= mask;
		(void)try_stream(kind, bytes_of(copy, packed.size), plain, true);
		assert_done(codec_source_open(kind, source_of_mem(bytes_of(copy, packed.size), "x"), &o, &s,
					      &err));
		for (unsigned k = 0; k < 4; k++) {
			uint64_t off = rnd(&seed) % plain.size;
			size_t got;

			if (source_read(s, off, out, 100000, SOURCE_RANDOM, &got, &err) == 0)
				assert_same(out, plain.p + off, got);
			else
				assert_true(err.kind == ERR_CHANGED || err.kind == ERR_LIMIT);
		}
		source_close(s);
		copy[at] ^= mask;
	}
	free(copy);
	free(out);
}

void check_flipped_whole(enum codec_kind kind, struct bytes packed, struct bytes plain, unsigned n)
{
	uint8_t *copy = mem_alloc(packed.size), *out = mem_alloc(plain.size);
	uint64_t seed = 29;

	memcpy(copy, packed.p, packed.size);
	for (unsigned i = 0; i < n; i++) {
		size_t at = rnd(&seed) % packed.size;
		uint8_t mask = (uint8_t)(1 << rnd(&seed) % 8);
		struct codec_source_options o = { .size = plain.size };
		struct err err = { 0 };
		struct source *s;

		copy[at] ^= mask;
		assert_done(codec_source_open(kind, source_of_mem(bytes_of(copy, packed.size), "x"), &o, &s,
					      &err));
		if (source_read_full(s, 0, out, plain.size, SOURCE_SEQUENTIAL, &err) == 0)
			assert_same(out, plain.p, plain.size);
		else
			assert_true(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
		source_close(s);
		copy[at] ^= mask;
	}
	free(copy);
	free(out);
}

void check_faults(enum codec_kind kind, struct bytes packed, struct bytes plain,
		  const struct codec_scan_options *opts)
{
	AUTO(buf_done) struct buf points = { 0 };
	uint8_t *out = mem_alloc(plain.size);
	struct codec_cache *cache = codec_cache_new(MIB(2));
	struct err err = { 0 };

	check_scan(kind, packed, plain, opts, &points);
	for (unsigned at = 0, through = 0; !through; at++) {
		struct source *raw = fault_source_new(source_of_mem(packed, "packed"), true);
		struct codec_scan *s = NULL;
		int r;

		fault_fail_at(raw, at);
		r = codec_scan_open(kind, raw, range_of(0, packed.size), opts, &s, &err);
		if (r == 0)
			r = drain(codec_scan_stream(s), plain, false, at, &err);
		codec_scan_close(s);
		through = fault_reads(raw) <= at;
		if (!through)
			assert_true(r < 0 && err.kind == ERR_IO);
		else
			assert_done(r);
		source_close(raw);
	}
	for (unsigned at = 0, through = 0; !through; at++) {
		struct source *raw = fault_source_new(source_of_mem(packed, "packed"), true), *s;
		struct codec_source_options o = { .points = buf_bytes(&points),
						  .size = plain.size,
						  .cache = at % 2 ? cache : NULL,
						  .cache_id = at };
		size_t from = plain.size / 3, n = plain.size / 3;
		int r;

		fault_fail_at(raw, at);
		assert_done(codec_source_open(kind, raw, &o, &s, &err));
		r = source_read_full(s, from, out, n, at % 3 ? SOURCE_RANDOM : SOURCE_SEQUENTIAL, &err);
		through = fault_reads(raw) <= at;
		if (!through) {
			assert_true(r < 0 && err.kind == ERR_IO);
			/* The next attempt succeeds. */
			r = source_read_full(s, from, out, n, SOURCE_RANDOM, &err);
		}
		assert_done(r);
		assert_same(out, plain.p + from, n);
		source_close(s);
	}
	codec_cache_free(cache);
	free(out);
}
