/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both decoders of zlib's format return the same for good and for damaged content, cut into random chunks,
 * and touch no byte outside of the chunks: these end where mapped memory ends.
 */
#include "test.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include "elf/inflate.h"

#define CONTENT_MAX KIB(300)
#define CHUNK_MAX   KIB(64)
#define FAST        CONTENT_MAX /* from this size on ISA-L is used, if it is installed */
#define SLOW        1000

static uint64_t rnd(void)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* The end of CHUNK_MAX bytes of which neither the byte before nor the byte after may be touched. */
static uint8_t *fenced(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, CHUNK_MAX + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p, page, PROT_NONE), 0);
	assert_int_equal(mprotect(p + page + CHUNK_MAX, page, PROT_NONE), 0);
	return p + page + CHUNK_MAX;
}

static size_t random_size(size_t max)
{
	return 1 + rnd() % (rnd() % 4 ? max : 9);
}

/* Decode @b into @out in chunks of random sizes; false: damaged, or its end is missing. */
static bool decode_all(struct bytes b, uint64_t content, uint8_t *in_end, uint8_t *out_end, struct buf *out)
{
	struct inflate *z;
	struct err err = { 0 };
	struct inflate_call c = { 0 };
	bool ok = true;
	unsigned idle = 0;

	out->size = 0;
	assert_done(inflate_open(content, &z, &err));
	while (ok && !c.ended) {
		size_t n = MIN(random_size(CHUNK_MAX), b.size), room = random_size(CHUNK_MAX);

		memcpy(in_end - n, b.p, n);
		c = (struct inflate_call){ .in = bytes_of(in_end - n, n),
					   .out = out_end - room,
					   .room = room };
		ok = inflate_step(z, &c, &err) == 0;
		if (!ok)
			break;
		assert_true(c.taken <= n && c.got <= room);
		buf_add(out, out_end - room, c.got);
		b = bytes_of(b.p + c.taken, b.size - c.taken);
		idle = c.taken || c.got ? 0 : idle + 1;
		ok = idle < 10;
	}
	inflate_close(z);
	return ok;
}

static void fill(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t back = random_size(KIB(40)), size = MIN(random_size(300), n - i);

		if (back <= i && rnd() % 4)
			for (size_t end = i + size; i < end; i++)
				p[i] = p[i - back];
		else
			for (size_t end = i + MIN(size, (size_t)20); i < end; i++)
				p[i] = (uint8_t)(rnd() % (rnd() % 2 ? 256 : 8));
	}
}

static void damage(uint8_t *p, size_t *n)
{
	for (unsigned i = rnd() % 4; i; i--)
		p[rnd() % MIN(*n, rnd() % 2 ? *n : (size_t)300)] ^= (uint8_t)(1u << rnd() % 8);
	if (rnd() % 6 == 0)
		*n = 1 + rnd() % *n;
}

static void both_decoders_return_the_same(void **state)
{
	uint8_t *in_end = fenced(), *out_end = fenced();
	AUTO(mem_freep)
	uint8_t *content = mem_alloc(CONTENT_MAX), *packed = mem_alloc(2 * CONTENT_MAX),
		*damaged = mem_alloc(2 * CONTENT_MAX);
	AUTO(buf_done) struct buf a = { 0 }, b = { 0 };
	unsigned n_good = 0, n_bad = 0;

	for (unsigned i = 0; i < 40; i++) {
		size_t size = random_size(CONTENT_MAX);
		uLongf n_packed = 2 * CONTENT_MAX;

		fill(content, size);
		assert_int_equal(compress2(packed, &n_packed, content, size, (int)(rnd() % 10)), Z_OK);
		for (unsigned k = 0; k < 20; k++) {
			size_t n = n_packed;
			bool good;

			memcpy(damaged, packed, n);
			if (k)
				damage(damaged, &n);
			good = decode_all(bytes_of(damaged, n), FAST, in_end, out_end, &a);
			assert_int_equal(good, decode_all(bytes_of(damaged, n), SLOW, in_end, out_end, &b));
			assert_true(!good || bytes_eq(buf_bytes(&a), buf_bytes(&b)));
			assert_true(k || bytes_eq(buf_bytes(&a), bytes_of(content, size)));
			*(good ? &n_good : &n_bad) += 1;
		}
	}
	assert_true(n_good > 100 && n_bad > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_decoders_return_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
