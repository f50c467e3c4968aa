/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of the chunks by which decoded content is verified: the low 32 bits of hash64() with seed 0. They
 * are computed while a package is scanned; every later read verifies by them that its bytes have not changed.
 */
#include "codec/internal.h"

#include <endian.h>

#define SUM_SIZE 4

static void sums_add(struct codec_sums *s, uint64_t hash)
{
	uint32_t le = htole32((uint32_t)hash);

	buf_add(&s->done, &le, SUM_SIZE);
	s->fill = 0;
}

void codec_sums_feed(struct codec_sums *s, const void *p, size_t n)
{
	const uint8_t *at = p;

	while (n) {
		size_t part = MIN(n, CODEC_CHUNK - s->fill);

		if (part == CODEC_CHUNK) {
			sums_add(s, hash64(at, part, 0));
		} else {
			if (!s->fill)
				hash64_init(&s->state, 0);
			hash64_feed(&s->state, at, part);
			s->fill += part;
			if (s->fill == CODEC_CHUNK)
				sums_add(s, hash64_end(&s->state));
		}
		at += part;
		n -= part;
	}
}

void codec_sums_cut(struct codec_sums *s)
{
	if (s->fill)
		sums_add(s, hash64_end(&s->state));
}

size_t codec_sums_mark(const struct codec_sums *s)
{
	return s->done.size;
}

struct bytes codec_sums_between(struct codec_sums *s, size_t mark, size_t end)
{
	return bytes_of(s->done.p + mark, end - mark);
}

struct bytes codec_sums_since(struct codec_sums *s, size_t mark)
{
	size_t size = s->done.size - mark;

	/* The sum of the unfinished chunk is written after the others for this call; the next sum overwrites
	 * it. */
	if (s->fill) {
		uint32_t le = htole32((uint32_t)hash64_end(&s->state));

		memcpy(buf_reserve(&s->done, SUM_SIZE), &le, SUM_SIZE);
		size += SUM_SIZE;
	}
	return bytes_of(s->done.p + mark, size);
}

void codec_sums_done(struct codec_sums *s)
{
	buf_done(&s->done);
}

bool codec_sums_match(struct bytes sums, size_t chunk, const void *p, size_t n)
{
	uint32_t le;

	if (!sums.size)
		return true;
	if (chunk >= sums.size / SUM_SIZE)
		return false;
	memcpy(&le, sums.p + chunk * SUM_SIZE, SUM_SIZE);
	return le32toh(le) == (uint32_t)hash64(p, n, 0);
}
