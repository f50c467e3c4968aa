/* SPDX-License-Identifier: Apache-2.0 */
/* The seekable format: written, read at any offset, and damaged. */
#include "test.h"

#include "codec/codec.h"

static int to_buf(void *arg, struct bytes b, struct err *err)
{
	buf_add(arg, b.p, b.size);
	return 0;
}

static int to_nowhere(void *arg, struct bytes b, struct err *err)
{
	return err_set(err, ERR_IO, "full");
}

static void pack(const uint8_t *p, size_t n, size_t chunk, struct buf *ret)
{
	struct codec_frames *f = codec_frames_new(1, to_buf, ret);
	struct err err = { 0 };

	for (size_t off = 0; off < n; off += chunk)
		assert_done(codec_frames_write(f, bytes_of(p + off, MIN(chunk, n - off)), &err));
	assert_done(codec_frames_end(f, &err));
	codec_frames_free(f);
}

static uint8_t *make(size_t n)
{
	uint8_t *p = mem_alloc(n + 1);

	test_fill(p, n, 3);
	for (size_t i = 0; i < n; i++)
		p[i] = "abcdefgh"[p[i] & 7];
	return p;
}

static void written_frames_are_read_at_any_offset(void **state)
{
	static const size_t sizes[] = { 0,
					1,
					CODEC_FRAME_SIZE - 1,
					CODEC_FRAME_SIZE,
					CODEC_FRAME_SIZE + 1,
					5 * CODEC_FRAME_SIZE,
					7 * CODEC_FRAME_SIZE + 99 };
	static const size_t chunks[] = { 4096, 100003, CODEC_FRAME_SIZE, 3000000 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes) * ARRAY_SIZE(chunks); i++) {
		size_t n = sizes[i / ARRAY_SIZE(chunks)];
		AUTO(mem_freep) uint8_t *p = make(n), *got = mem_alloc(n + 1);
		AUTO(buf_done) struct buf packed = { 0 }, straight = { 0 };
		AUTO(source_closep) struct source *s = NULL;
		struct err err = { 0 };

		pack(p, n, chunks[i % ARRAY_SIZE(chunks)], &packed);
		assert_done(codec_decode_all(CODEC_ZSTD, buf_bytes(&packed), n + 1, &straight, &err));
		assert_int_equal(straight.size, n);
		assert_true(n == 0 || memcmp(straight.p, p, n) == 0);
		assert_done(codec_frames_open(source_of_mem(buf_bytes(&packed), "x"), &s, &err));
		assert_int_equal(s->size, n);
		assert_done(source_read_full(s, 0, got, n, SOURCE_SEQUENTIAL, &err));
		assert_true(n == 0 || memcmp(got, p, n) == 0);
		for (uint64_t k = 0, at = 12345; n > 100 && k < 30; k++, at = at * 1103515245 + 12345) {
			uint64_t off = at % (n - 100);

			assert_done(source_read_full(s, off, got, 100, SOURCE_RANDOM, &err));
			assert_memory_equal(got, p + off, 100);
		}
	}
}

static void damage_is_noticed_at_every_offset(void **state)
{
	const size_t n = 2 * CODEC_FRAME_SIZE + 5;
	AUTO(mem_freep) uint8_t *p = make(n), *got = mem_alloc(n);
	AUTO(buf_done) struct buf packed = { 0 };
	struct err err = { 0 };

	pack(p, n, n, &packed);
	for (size_t i = 0; i < packed.size; i += i + 500 < packed.size && i > 500 ? 997 : 1) {
		struct source *s = NULL;

		packed.p[i] ^= 0x10;
		if (codec_frames_open(source_of_mem(buf_bytes(&packed), "x"), &s, &err) == 0) {
			/* A flipped bit of a frame header may be another encoding of the same header. */
			if (s->size == n && source_read_full(s, 0, got, n, SOURCE_SEQUENTIAL, &err) == 0)
				assert_memory_equal(got, p, n);
			source_close(s);
		}
		packed.p[i] ^= 0x10;
	}
	for (size_t cut = 0; cut < 300; cut++) {
		struct source *s = NULL;

		assert_true(codec_frames_open(source_of_mem(bytes_of(packed.p, packed.size - 1 - cut), "x"),
					      &s, &err) < 0);
	}
}

static void a_full_disk_ends_writing(void **state)
{
	AUTO(mem_freep) uint8_t *p = make(2 * CODEC_FRAME_SIZE);
	struct codec_frames *f = codec_frames_new(1, to_nowhere, NULL);
	struct err err = { 0 };

	assert_done(codec_frames_write(f, bytes_of(p, 100), &err));
	assert_fails(codec_frames_write(f, bytes_of(p, 2 * CODEC_FRAME_SIZE), &err), ERR_IO, "full");
	codec_frames_free(f);
}

static void writing_resumes_after_the_last_whole_frame(void **state)
{
	const size_t n = 3 * CODEC_FRAME_SIZE + 777;
	AUTO(mem_freep) uint8_t *p = make(n), *got = mem_alloc(n);
	AUTO(buf_done) struct buf whole = { 0 };
	struct err err = { 0 };
	size_t ends[4] = { 0 }, n_ends = 0;

	pack(p, n, n, &whole);
	for (size_t i = 0; i <= 12; i++) {
		const size_t cut = MIN(i * whole.size / 12, whole.size - 1);
		AUTO(buf_done) struct buf b = { 0 }, seen = { 0 };
		AUTO(source_closep)
		struct source *s = NULL, *raw = source_of_mem(bytes_of(whole.p, cut), "x");
		struct codec_frames *f = codec_frames_new(1, to_buf, &b);
		uint64_t good = 1;

		assert_done(codec_frames_resume(f, raw, to_buf, &seen, &good, &err));
		assert_true(good <= cut && seen.size % CODEC_FRAME_SIZE == 0 && seen.size < n);
		assert_true(seen.size == 0 || memcmp(seen.p, p, seen.size) == 0);
		if (n_ends < 4 && (!n_ends || good != ends[n_ends - 1]))
			ends[n_ends++] = good;
		buf_add(&b, whole.p, good);
		assert_done(codec_frames_write(f, bytes_of(p + seen.size, n - seen.size), &err));
		assert_done(codec_frames_end(f, &err));
		codec_frames_free(f);
		assert_int_equal(b.size, whole.size);
		assert_memory_equal(b.p, whole.p, b.size);
	}
	assert_int_equal(n_ends, 4);
}

static void writing_resumes_before_a_damaged_frame(void **state)
{
	const size_t n = 3 * CODEC_FRAME_SIZE;
	AUTO(mem_freep) uint8_t *p = make(n);
	AUTO(buf_done) struct buf whole = { 0 };
	struct err err = { 0 };

	pack(p, n, n, &whole);
	for (size_t i = 0; i < whole.size; i += 19997) {
		AUTO(buf_done) struct buf seen = { 0 };
		AUTO(source_closep) struct source *raw = source_of_mem(buf_bytes(&whole), "x");
		struct codec_frames *f = codec_frames_new(1, to_nowhere, NULL);
		uint64_t good = 0;

		whole.p[i] ^= 0x40;
		assert_done(codec_frames_resume(f, raw, to_buf, &seen, &good, &err));
		assert_true(good <= whole.size && seen.size <= n);
		assert_true(seen.size == 0 || memcmp(seen.p, p, seen.size) == 0);
		codec_frames_free(f);
		whole.p[i] ^= 0x40;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_frames_are_read_at_any_offset),
		cmocka_unit_test(damage_is_noticed_at_every_offset),
		cmocka_unit_test(a_full_disk_ends_writing),
		cmocka_unit_test(writing_resumes_after_the_last_whole_frame),
		cmocka_unit_test(writing_resumes_before_a_damaged_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
