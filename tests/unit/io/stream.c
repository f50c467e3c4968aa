/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: read, lent or skipped, each byte is delivered once and in order.
 */
#include "fault_source.h"
#include "test.h"

static uint8_t data[1000000];

static int setup(void **state)
{
	test_fill(data, sizeof(data), 2);
	return 0;
}

/* A stream with only the read op, which returns at most 1000 bytes at once. */
struct plain {
	struct stream base;
	size_t at, size;
	size_t fail_at;
};

static int plain_read(struct stream *base, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct plain *s = CONTAINER_OF(base, struct plain, base);

	if (s->at >= s->fail_at)
		return err_set(err, ERR_IO, "injected");
	n = MIN(MIN(n, 1000), s->size - s->at);
	memcpy(buf, data + s->at, n);
	s->at += n;
	*ret_got = n;
	return 0;
}

static void plain_close(struct stream *base)
{
	free(CONTAINER_OF(base, struct plain, base));
}

static struct stream *plain_new(size_t size, size_t fail_at)
{
	static const struct stream_ops ops = { .read = plain_read, .close = plain_close };
	struct plain *s = NEW(struct plain);

	s->base.ops = &ops;
	s->size = size;
	s->fail_at = fail_at;
	return &s->base;
}

static struct stream *over_memory(uint64_t off, uint64_t size)
{
	return stream_of_source(source_of_mem(bytes_of(data, sizeof(data)), "m"), true, off, size);
}

static struct stream *over_reads(uint64_t off, uint64_t size)
{
	return stream_of_source(fault_source_new(source_of_mem(bytes_of(data, sizeof(data)), "m"), true),
				true, off, size);
}

/* Reads, views and skips at random, compared with the expected bytes. Takes the stream. */
static void check_stream(struct stream *s, const uint8_t *want, size_t size, uint64_t seed)
{
	static uint8_t out[400000];
	struct err err = { 0 };
	size_t at = 0;

	for (uint64_t i = 0; at < size; i++) {
		uint64_t rnd = hash64(&i, 8, seed);
		size_t n = 1 + (rnd >> 8) % (rnd & 0x80 ? sizeof(out) : 2000), got = 0;
		struct bytes b;

		switch (rnd & 3) {
		case 0:
			assert_done(stream_read(s, out, n, &got, &err));
			assert_memory_equal(out, want + at, got);
			break;
		case 1:
			assert_done(stream_next(s, n, &b, &err));
			got = b.size;
			assert_memory_equal(b.p, want + at, got);
			break;
		case 2:
			got = MIN(n, size - at);
			assert_done(stream_skip(s, got, &err));
			break;
		case 3:
			got = MIN(n, size - at);
			assert_done(stream_read_full(s, out, got, &err));
			assert_memory_equal(out, want + at, got);
			break;
		}
		assert_in_range(got, 1, MIN(n, size - at));
		at += got;
		assert_int_equal(s->off, at);
	}
	for (int i = 0; i < 2; i++) {
		struct bytes b;
		size_t got;

		assert_done(stream_read(s, out, 10, &got, &err));
		assert_int_equal(got, 0);
		assert_done(stream_next(s, 10, &b, &err));
		assert_int_equal(b.size, 0);
		assert_done(stream_skip(s, 0, &err));
		assert_fails(stream_skip(s, 1, &err), ERR_INVALID, "wanted 1 bytes more");
		assert_fails(stream_read_full(s, out, 7, &err), ERR_INVALID, "wanted 7 bytes more");
	}
	assert_int_equal(s->off, size);
	stream_close(s);
}

static void all_kinds_give_the_same_bytes(void **state)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		check_stream(plain_new(sizeof(data), SIZE_MAX), data, sizeof(data), seed);
		check_stream(over_memory(0, sizeof(data)), data, sizeof(data), seed);
		check_stream(over_memory(1000, 500000), data + 1000, 500000, seed);
		check_stream(over_reads(0, sizeof(data)), data, sizeof(data), seed);
		check_stream(over_reads(77, 600001), data + 77, 600001, seed);
	}
	check_stream(plain_new(0, SIZE_MAX), data, 0, 0);
	check_stream(over_memory(5, 0), data, 0, 0);
	check_stream(over_reads(sizeof(data), 0), data, 0, 0);
	stream_close(NULL);
}

static void memory_is_lent_not_copied(void **state)
{
	AUTO(stream_closep) struct stream *s = over_memory(10, 1000);
	struct err err = { 0 };
	struct bytes b;

	assert_done(stream_next(s, SIZE_MAX, &b, &err));
	assert_ptr_equal(b.p, data + 10);
	assert_int_equal(b.size, 1000);
}

static void a_source_is_read_in_large_chunks_in_order(void **state)
{
	struct source *src = fault_source_new(source_of_mem(bytes_of(data, sizeof(data)), "m"), true);
	AUTO(stream_closep) struct stream *s = stream_of_source(src, true, 0, sizeof(data));
	struct err err = { 0 };
	uint8_t b[10];

	for (size_t i = 0; i < sizeof(data); i += 10)
		assert_done(stream_read_full(s, b, 10, &err));
	assert_true(fault_reads(src) < 20);
	assert_int_equal(fault_sequential(src), fault_reads(src));
	assert_int_equal(fault_bytes(src), sizeof(data));
}

static void skipping_reads_nothing(void **state)
{
	struct source *src = fault_source_new(source_of_mem(bytes_of(data, sizeof(data)), "m"), true);
	AUTO(stream_closep) struct stream *s = stream_of_source(src, true, 0, sizeof(data));
	struct err err = { 0 };
	uint8_t b[10];

	assert_done(stream_skip(s, 900000, &err));
	assert_int_equal(fault_bytes(src), 0);
	assert_done(stream_read_full(s, b, 10, &err));
	assert_memory_equal(b, data + 900000, 10);
	assert_done(stream_skip(s, 99990, &err));
	assert_int_equal(fault_bytes(src), 100000);
}

static void a_source_that_ends_before_the_range_is_damaged(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		AUTO(stream_closep)
		struct stream *s = kind ? over_reads(sizeof(data) - 10, 100)
					: over_memory(sizeof(data) - 10, 100);
		struct err err = { 0 };
		uint8_t b[20];
		size_t got;

		assert_done(stream_read(s, b, 20, &got, &err));
		assert_int_equal(got, 10);
		assert_fails(stream_read(s, b, 20, &got, &err), ERR_INVALID, "wanted 90 bytes more");
		assert_fails(stream_skip(s, 90, &err), ERR_INVALID, "wanted 90 bytes more");
	}
	{
		AUTO(stream_closep) struct stream *s = over_memory(sizeof(data) + 10, UINT64_MAX);
		struct err err = { 0 };
		struct bytes b;

		assert_fails(stream_next(s, 20, &b, &err), ERR_INVALID, "bytes more");
	}
}

static void failures_are_returned(void **state)
{
	struct source *src = fault_source_new(source_of_mem(bytes_of(data, sizeof(data)), "m"), true);
	AUTO(stream_closep) struct stream *s = stream_of_source(src, true, 0, sizeof(data));
	AUTO(stream_closep) struct stream *p = plain_new(sizeof(data), 5000);
	struct err err = { 0 };
	static uint8_t out[sizeof(data)];
	struct bytes b;
	size_t got;

	fault_fail_at(src, 0);
	assert_fails(stream_read(s, out, 10, &got, &err), ERR_IO, "injected");
	fault_fail_at(src, 0);
	assert_fails(stream_next(s, 10, &b, &err), ERR_IO, "injected");
	fault_fail_at(src, 0);
	assert_fails(stream_read_full(s, out, sizeof(out), &err), ERR_IO, "injected");
	assert_int_equal(s->off, 0);
	/* The failed calls have consumed nothing. */
	assert_done(stream_read_full(s, out, sizeof(out), &err));
	assert_memory_equal(out, data, sizeof(out));

	assert_fails(stream_skip(p, 10000, &err), ERR_IO, "injected");
	assert_fails(stream_next(p, 10, &b, &err), ERR_IO, "injected");
}

struct sum {
	size_t at, stop_at;
};

static int compare_chunk(void *arg, struct bytes chunk, struct err *err)
{
	struct sum *sum = arg;

	assert_memory_equal(chunk.p, data + sum->at, chunk.size);
	sum->at += chunk.size;
	return sum->at >= sum->stop_at ? 42 : 0;
}

static void stream_each_passes_every_chunk(void **state)
{
	AUTO(stream_closep) struct stream *a = plain_new(sizeof(data), SIZE_MAX);
	AUTO(stream_closep) struct stream *b = over_memory(0, sizeof(data));
	AUTO(stream_closep) struct stream *c = over_reads(0, sizeof(data));
	AUTO(stream_closep) struct stream *d = plain_new(sizeof(data), 5000);
	struct stream *all[] = { a, b, c };
	struct err err = { 0 };
	struct sum sum;

	for (size_t i = 0; i < 3; i++) {
		sum = (struct sum){ .stop_at = SIZE_MAX };
		assert_done(stream_each(all[i], compare_chunk, &sum, &err));
		assert_int_equal(sum.at, sizeof(data));
	}
	sum = (struct sum){ .stop_at = SIZE_MAX };
	assert_fails(stream_each(d, compare_chunk, &sum, &err), ERR_IO, "injected");
	stream_closep(&d);
	d = plain_new(sizeof(data), SIZE_MAX);
	sum = (struct sum){ .stop_at = 2500 };
	assert_int_equal(stream_each(d, compare_chunk, &sum, &err), 42);
	assert_int_equal(sum.at, 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds_give_the_same_bytes),
		cmocka_unit_test(memory_is_lent_not_copied),
		cmocka_unit_test(a_source_is_read_in_large_chunks_in_order),
		cmocka_unit_test(skipping_reads_nothing),
		cmocka_unit_test(a_source_that_ends_before_the_range_is_damaged),
		cmocka_unit_test(failures_are_returned),
		cmocka_unit_test(stream_each_passes_every_chunk),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
