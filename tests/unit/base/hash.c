/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash64() is part of the on-disk formats: the vectors here never change. The other tests check quality:
 * every bit of the input moves half of the bits of the value, and likely inputs do not collide.
 */
#include "test.h"

#define ROUNDS 300

static void values_never_change(void **state)
{
	static const struct {
		size_t size;
		uint64_t seed, hash;
	} vectors[] = {
		{ 0, 0, 0xdbc8a42404b4145d },    { 0, 0x0123456789abcdef, 0xa08a7f12dd5a9b3f },
		{ 1, 0, 0x419673ed933d6db9 },    { 3, 0, 0x76bf9edf40f35f1b },
		{ 2, 0, 0x6698ff6d541b3774 },    { 4, 0, 0x19020937add2c553 },
		{ 5, 0, 0xc3b3abf4c0bf9317 },    { 6, 0, 0x16e19ac1974930a0 },
		{ 13, 0, 0x967fb67a0651a736 },   { 30, 0, 0x5bd42f6e27eb6622 },
		{ 7, 0, 0x7dd833611e778011 },    { 7, 0x0123456789abcdef, 0x2e5f24d80d5f0da7 },
		{ 8, 0, 0xe9cf300e94bfd648 },    { 9, 0, 0xa6ae71e14d553042 },
		{ 15, 0, 0x81cd7a096f2808c5 },   { 15, 0x0123456789abcdef, 0x42e04fce812919ab },
		{ 16, 0, 0xb616da3751470e51 },   { 20, 0, 0xa8acfcfd9b45c515 },
		{ 31, 0, 0x198994bf664117ac },   { 31, 0x0123456789abcdef, 0xafe10d8dec4d4329 },
		{ 32, 0, 0xa15d960633936a2e },   { 33, 0, 0x8056fd9d42a044ae },
		{ 40, 0, 0x14b88d9e4d93ad60 },   { 40, 0x0123456789abcdef, 0xb73d605ac11c3552 },
		{ 63, 0, 0xdb6c8c1e491e2e67 },   { 64, 0, 0x8d52d42c31d8f1e5 },
		{ 65, 0, 0xd3bffce0aff91736 },   { 65, 0x0123456789abcdef, 0xeeabec0cb0b6e7c8 },
		{ 100, 0, 0x685809fc29226e55 },  { 255, 0, 0xec1961e138aadedb },
		{ 256, 0, 0x123aa146abc74452 },  { 256, 0x0123456789abcdef, 0x59f218bc1dbbf892 },
		{ 1000, 0, 0x9b6cfb32c2308249 }, { 1024, 0, 0xd97e5a0a4db7ccd8 },
	};
	uint8_t b[1024];

	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(i * 7 + (i >> 8));
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		uint64_t h = hash64(b, vectors[i].size, vectors[i].seed);

		if (h != vectors[i].hash)
			fail_msg("size %zu seed %llx: %016llx", vectors[i].size,
				 (unsigned long long)vectors[i].seed, (unsigned long long)h);
	}
}

static void pieces_give_the_value_of_the_whole(void **state)
{
	uint8_t b[300];

	test_fill(b, sizeof(b), 1);
	for (size_t size = 0; size <= sizeof(b); size++) {
		for (uint64_t seed = 0; seed < 3; seed++) {
			uint64_t want = hash64(b, size, seed);

			for (size_t piece = 1; piece<80; piece += piece> 34 ? 13 : 1) {
				struct hash64_state s;

				hash64_init(&s, seed);
				for (size_t at = 0; at < size; at += piece)
					hash64_feed(&s, b + at, MIN(piece, size - at));
				hash64_feed(&s, NULL, 0);
				assert_true(hash64_end(&s) == want);
				assert_true(hash64_end(&s) == want); /* ending it changes nothing */
			}
		}
	}
}

static void place_in_memory_does_not_matter(void **state)
{
	uint8_t b[200], moved[220];

	test_fill(b, sizeof(b), 1);
	for (size_t off = 0; off < 16; off++) {
		memcpy(moved + off, b, sizeof(b));
		assert_true(hash64(moved + off, sizeof(b), 9) == hash64(b, sizeof(b), 9));
	}
}

/* Each input bit must flip each output bit in half of the cases; here within six sigma. */
static void every_bit_moves_half_of_the_bits(void **state)
{
	static const size_t sizes[] = { 1, 4, 8, 12, 20, 31, 32, 33, 63, 64, 100 };
	double slack = 6 * 0.5 / __builtin_sqrt(ROUNDS * 8);

	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		size_t size = sizes[k];

		/* By input byte, so that a few hundred rounds are enough. */
		for (size_t at = 0; at < size; at++) {
			unsigned flips[64] = { 0 };

			for (unsigned round = 0; round < ROUNDS; round++) {
				uint8_t b[128];
				uint64_t h;

				test_fill(b, size, round);
				h = hash64(b, size, 0);
				for (unsigned bit = 0; bit < 8; bit++) {
					uint64_t diff;

					b[at] ^= (uint8_t)(1 << bit);
					diff = h ^ hash64(b, size, 0);
					b[at] ^= (uint8_t)(1 << bit);
					for (unsigned i = 0; i < 64; i++)
						flips[i] += diff >> i & 1;
				}
			}
			/* One byte has 256 values only: the rounds are not independent there. */
			for (unsigned i = 0; i < 64; i++) {
				double p = (double)flips[i] / (ROUNDS * 8), s = size == 1 ? 0.2 : slack;

				if (p < 0.5 - s || p > 0.5 + s)
					fail_msg("size %zu byte %zu output bit %u: %.3f", size, at, i, p);
			}
		}
	}
}

static void the_seed_moves_half_of_the_bits(void **state)
{
	unsigned total = 0;

	for (unsigned bit = 0; bit < 64; bit++)
		for (uint64_t size = 0; size < 64; size++) {
			uint8_t b[64];

			test_fill(b, sizeof(b), size);
			total += (unsigned)__builtin_popcountll(hash64(b, size, 0) ^
								hash64(b, size, 1ull << bit));
		}
	assert_in_range(total, 64 * 64 * 31, 64 * 64 * 33);
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* n values of 64 bits must all differ; of their 32-bit halves about n^2/2^33 pairs are equal. */
static void assert_spread(uint64_t *h, size_t n)
{
	double expected = (double)n * (double)n / 8589934592.0;
	size_t same = 0;

	qsort(h, n, sizeof(*h), cmp_u64);
	for (size_t i = 1; i < n; i++)
		assert_true(h[i] != h[i - 1]);
	for (unsigned half = 0; half < 64; half += 32) {
		uint64_t *part = mem_realloc(NULL, n, sizeof(*part));

		for (size_t i = 0; i < n; i++)
			part[i] = h[i] >> half & UINT32_MAX;
		qsort(part, n, sizeof(*part), cmp_u64);
		same = 0;
		for (size_t i = 1; i < n; i++)
			same += part[i] == part[i - 1];
		free(part);
		if ((double)same > expected * 1.5 + 10)
			fail_msg("%zu collisions in 32 bits, expected %.1f", same, expected);
	}
}

static void likely_inputs_do_not_collide(void **state)
{
	const size_t n = 200000;
	uint64_t *h = mem_realloc(NULL, n, sizeof(*h));

	/* Counters of several widths. */
	for (size_t size = 4; size <= 40; size += 12) {
		for (size_t i = 0; i < n; i++) {
			uint8_t b[40] = { 0 };

			memcpy(b + (size - 4) / 2, &i, 4);
			h[i] = hash64(b, size, 0);
		}
		assert_spread(h, n);
	}
	/* Paths with numbers in them. */
	for (size_t i = 0; i < n; i++) {
		char s[80];
		int size = snprintf(s, sizeof(s), "/usr/lib/debug/.build-id/%02zx/%06zx.debug", i & 255,
				    i >> 8);

		h[i] = hash64(s, (size_t)size, 0);
	}
	assert_spread(h, n);
	/* Runs of one byte, of every length: only the length tells them apart. */
	for (size_t byte = 0; byte < 2; byte++) {
		uint8_t *b = mem_alloc(10000);

		memset(b, byte ? 0xff : 0, 10000);
		for (size_t i = 0; i < 10000; i++)
			h[i] = hash64(b, i, 0);
		assert_spread(h, 10000);
		free(b);
	}
	free(h);
}

/* All inputs of 96 bytes with at most two bits set: differences that lanes could cancel. */
static void sparse_inputs_do_not_collide(void **state)
{
	const size_t bits = 96 * 8;
	uint64_t *h = mem_realloc(NULL, bits * bits / 2 + bits, sizeof(*h));
	size_t n = 0;

	for (size_t i = 0; i < bits; i++)
		for (size_t k = i; k < bits; k++) {
			uint8_t b[96] = { 0 };

			b[i / 8] |= (uint8_t)(1 << i % 8);
			b[k / 8] |= (uint8_t)(1 << k % 8);
			h[n++] = hash64(b, sizeof(b), 0);
		}
	assert_spread(h, n);
	free(h);
}

/* Wrong bytes of one word are put right from the hash alone, and others are left as they are. */
static void wrong_bytes_are_corrected(void **state)
{
	static const size_t sizes[] = { 32, 40, 56, 64, 504, 4088, 8184, HASH64_CORRECT_MAX };
	static uint8_t right[HASH64_CORRECT_MAX], p[HASH64_CORRECT_MAX];

	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		size_t size = sizes[k];
		uint64_t hash;

		test_fill(right, size, (uint32_t)k);
		hash = hash64(right, size, k);
		for (size_t at = k % 7; at<size; at += size> 4088 ? 997 : 3) {
			memcpy(p, right, size);
			p[at] ^= (uint8_t)(1 + at % 255);
			if (at % 2)
				p[at / 8 * 8 + (at + 3) % 8] ^= 0x40;
			assert_true(hash64_correct(p, size, k, hash, 2));
			assert_memory_equal(p, right, size);
		}
		memcpy(p, right, size);
		assert_false(hash64_correct(p, size, k, hash + 1, 2));
		p[1] ^= 1;
		p[size - 2] ^= 1;
		assert_false(hash64_correct(p, size, k, hash, 2));
		p[1] ^= 1;
		p[size - 2] ^= 1;
		assert_memory_equal(p, right, size);
		assert_false(hash64_correct(p, 31, k, hash, 2));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_bytes_are_corrected),
		cmocka_unit_test(values_never_change),
		cmocka_unit_test(pieces_give_the_value_of_the_whole),
		cmocka_unit_test(place_in_memory_does_not_matter),
		cmocka_unit_test(every_bit_moves_half_of_the_bits),
		cmocka_unit_test(the_seed_moves_half_of_the_bits),
		cmocka_unit_test(likely_inputs_do_not_collide),
		cmocka_unit_test(sparse_inputs_do_not_collide),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
