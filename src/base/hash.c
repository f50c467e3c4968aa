/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash64(): a fast content hash whose values are part of file formats.
 *
 * Stripes of 32 bytes go into four independent lanes. Each step of a lane (add a product, rotate, multiply)
 * is invertible, so a single changed word always changes its lane. The lanes are then folded into one
 * another. The rest of the input follows by words, the last one padded with zeros (the length is hashed too,
 * which tells padding from zeros in the input), and a final mix spreads every bit over all 64.
 *
 * Everything here is part of the on-disk formats. tests/unit/base/hash.c has vectors: they must never change.
 */
#include "base/hash.h"

#include <endian.h>
#include "base/mem.h"

#define STRIPE sizeof(((struct hash64_state *)0)->tail)

/* Primes: the next ones after the fractions of the square roots of 2, 3, 5, 7 and 11 in 64 bits. */
#define P1 0xea09e667f3bcc941u
#define P2 0xbb67ae8584caa753u
#define P3 0xbc6ef372fe94f867u
#define P4 0xa54ff53a5f1d3753u
#define P5 0xd10e527fade682efu

static inline uint64_t rotl(uint64_t v, unsigned n)
{
	return v << n | v >> (64 - n);
}

static inline uint64_t word_load(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return le64toh(v);
}

static inline uint64_t lane_add(uint64_t acc, uint64_t word)
{
	return rotl(acc + word * P2, 29) * P1;
}

static void lanes_init(uint64_t acc[4], uint64_t seed)
{
	acc[0] = seed + P3;
	acc[1] = rotl(seed, 16) ^ P4;
	acc[2] = seed * P5 + P1;
	acc[3] = P2 - seed;
}

/* Feed all whole stripes of @size bytes; returns the first byte after them. */
static const uint8_t *lanes_feed(uint64_t acc[4], const uint8_t *p, size_t size)
{
	uint64_t a = acc[0], b = acc[1], c = acc[2], d = acc[3];

	for (; size >= STRIPE; size -= STRIPE, p += STRIPE) {
		a = lane_add(a, word_load(p));
		b = lane_add(b, word_load(p + 8));
		c = lane_add(c, word_load(p + 16));
		d = lane_add(d, word_load(p + 24));
	}
	acc[0] = a;
	acc[1] = b;
	acc[2] = c;
	acc[3] = d;
	return p;
}

static inline uint64_t hash_add_word(uint64_t h, uint64_t v)
{
	h ^= rotl(v * P2, 31) * P3;
	return rotl(h, 27) * P1 + P4;
}

static inline uint32_t half_load(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return le32toh(v);
}

/* The @n bytes at @p, from 1 to 7, as a word padded with zeros: by two reads that may overlap. */
static inline uint64_t last_load(const uint8_t *p, size_t n)
{
	if (n >= 4)
		return half_load(p) | (uint64_t)half_load(p + n - 4) << (n - 4) * 8;
	return p[0] | (uint64_t)p[n / 2] << n / 2 * 8 | (uint64_t)p[n - 1] << (n - 1) * 8;
}

/* @h: the seed and the lanes; @p: the @n < STRIPE bytes after the last whole stripe. */
static inline uint64_t hash_rest(uint64_t h, uint64_t total, const uint8_t *p, size_t n)
{
	h = hash_add_word(h, total);
	for (; n >= 8; n -= 8, p += 8)
		h = hash_add_word(h, word_load(p));
	if (n)
		h = hash_add_word(h, last_load(p, n));
	h ^= h >> 32;
	h *= P2;
	h ^= h >> 29;
	h *= P5;
	return h ^ h >> 32;
}

static uint64_t lanes_fold(const uint64_t acc[4], uint64_t seed)
{
	uint64_t h = seed + P5;

	for (unsigned i = 0; i < 4; i++)
		h = hash_add_word(h, acc[i]);
	return h;
}

static uint64_t hash_stripes(const void *p, size_t size, uint64_t seed)
{
	uint64_t acc[4];
	const uint8_t *rest;

	lanes_init(acc, seed);
	rest = lanes_feed(acc, p, size);
	return hash_rest(lanes_fold(acc, seed), size, rest, size % STRIPE);
}

/* Most inputs are short, and have no stripe. */
uint64_t hash64(const void *p, size_t size, uint64_t seed)
{
	return size < STRIPE ? hash_rest(seed + P5, size, p, size) : hash_stripes(p, size, seed);
}

void hash64_init(struct hash64_state *s, uint64_t seed)
{
	*s = (struct hash64_state){ .seed = seed };
	lanes_init(s->acc, seed);
}

void hash64_feed(struct hash64_state *s, const void *p, size_t size)
{
	const uint8_t *at = p;

	s->total += size;
	if (s->n_tail) {
		size_t n = MIN(size, STRIPE - s->n_tail);

		if (n)
			memcpy(s->tail + s->n_tail, at, n);
		s->n_tail += (unsigned)n;
		if (s->n_tail < STRIPE)
			return;
		lanes_feed(s->acc, s->tail, STRIPE);
		s->n_tail = 0;
		at += n;
		size -= n;
	}
	if (size >= STRIPE)
		at = lanes_feed(s->acc, at, size);
	s->n_tail = (unsigned)(size % STRIPE);
	if (s->n_tail)
		memcpy(s->tail, at, s->n_tail);
}

uint64_t hash64_end(const struct hash64_state *s)
{
	uint64_t h = s->total < STRIPE ? s->seed + P5 : lanes_fold(s->acc, s->seed);

	return hash_rest(h, s->total, s->tail, s->n_tail);
}

/* ---- correcting ---- */

static inline uint64_t rotr(uint64_t v, unsigned n)
{
	return v >> n | v << (64 - n);
}

/* Of an odd number, modulo 2^64. */
static uint64_t inverse_of(uint64_t odd)
{
	uint64_t x = odd;

	/* Right in 3 bits, then in twice as many with each step. */
	for (int i = 0; i < 5; i++)
		x *= 2 - odd * x;
	return x;
}

/* The @v with which hash_add_word(@before, v) is @after; and the other way round. */
static uint64_t solve_word(uint64_t before, uint64_t after)
{
	uint64_t t = rotr((after - P4) * inverse_of(P1), 27) ^ before;

	return rotr(t * inverse_of(P3), 31) * inverse_of(P2);
}

static uint64_t undo_word(uint64_t after, uint64_t v)
{
	return rotr((after - P4) * inverse_of(P1), 27) ^ rotl(v * P2, 31) * P3;
}

static uint64_t undo_end(uint64_t h)
{
	h ^= h >> 32;
	h *= inverse_of(P5);
	h ^= h >> 29 ^ h >> 58;
	h *= inverse_of(P2);
	return h ^ h >> 32;
}

/* Put @word at @p, if that changes at most @max_bytes. */
static bool take_word(uint8_t *p, uint64_t word, unsigned max_bytes)
{
	uint64_t diff = word ^ word_load(p);
	unsigned n = 0;

	for (unsigned i = 0; i < 8; i++)
		n += (diff >> 8 * i & 0xff) != 0;
	if (!n || n > max_bytes)
		return false;
	word = htole64(word);
	memcpy(p, &word, sizeof(word));
	return true;
}

/* A word of one lane, which begins with @acc and should end with @end. @p: its first word. */
static bool correct_lane(uint8_t *p, size_t n_words, uint64_t acc, uint64_t end, unsigned max_bytes)
{
	uint64_t before[HASH64_CORRECT_MAX / STRIPE];
	uint64_t by_p1 = inverse_of(P1), by_p2 = inverse_of(P2);

	for (size_t k = 0; k < n_words; k++) {
		before[k] = acc;
		acc = lane_add(acc, word_load(p + k * STRIPE));
	}
	for (size_t k = n_words; k-- > 0;) {
		uint64_t t = rotr(end * by_p1, 29);

		if (take_word(p + k * STRIPE, (t - before[k]) * by_p2, max_bytes))
			return true;
		end = t - word_load(p + k * STRIPE) * P2;
	}
	return false;
}

bool hash64_correct(uint8_t *p, size_t size, uint64_t seed, uint64_t hash, unsigned max_bytes)
{
	enum { LANES = 4, AFTER = LANES + 1, MOST = AFTER + 3 };
	size_t n_stripes = size / STRIPE, n = AFTER + size % STRIPE / 8;
	uint64_t acc[LANES], begin[LANES], word[MOST], before[MOST], h = seed + P5, end = undo_end(hash);
	uint8_t *rest;

	if (size % 8 || size < STRIPE || size > HASH64_CORRECT_MAX)
		return false;
	lanes_init(begin, seed);
	memcpy(acc, begin, sizeof(acc));
	rest = p + (lanes_feed(acc, p, size) - p);
	memcpy(word, acc, sizeof(acc));
	word[LANES] = size;
	for (size_t i = AFTER; i < n; i++)
		word[i] = word_load(rest + 8 * (i - AFTER));
	for (size_t i = 0; i < n; i++) {
		before[i] = h;
		h = hash_add_word(h, word[i]);
	}
	/* From the end: the word at each place with which the rest gives @hash. */
	for (size_t i = n; i-- > 0;) {
		uint64_t want = solve_word(before[i], end);

		if (i >= AFTER && take_word(rest + 8 * (i - AFTER), want, max_bytes))
			return true;
		if (i < LANES && correct_lane(p + 8 * i, n_stripes, begin[i], want, max_bytes))
			return true;
		end = undo_word(end, word[i]);
	}
	return false;
}
