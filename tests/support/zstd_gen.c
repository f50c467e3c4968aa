/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames by libzstd, see zstd_gen.h.
 */
#include "zstd_gen.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

uint32_t zstd_gen_below(struct zstd_gen_rng *r, uint32_t n)
{
	if (r->tape.size >= 2) {
		uint32_t v = r->tape.p[0] | (uint32_t)r->tape.p[1] << 8;

		r->tape = bytes_of(r->tape.p + 2, r->tape.size - 2);
		return (uint32_t)((uint64_t)v * n >> 16);
	}
	r->state = r->state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((r->state >> 33) * n >> 31);
}

bool zstd_gen_one_in(struct zstd_gen_rng *r, uint32_t n)
{
	return zstd_gen_below(r, n) == 0;
}

void zstd_gen_text(struct zstd_gen_rng *r, size_t n, struct buf *ret)
{
	size_t start = ret->size, end = start + n;

	while (ret->size < end) {
		size_t len = 1 + zstd_gen_below(r, 1u << (2 + zstd_gen_below(r, 10))),
		       done = ret->size - start;
		uint8_t *p = buf_reserve(ret, len);

		unsigned what = zstd_gen_below(r, 8);
		/* Distances of all orders of magnitude; a copy may overlap its source. */
		size_t far = MIN(done, (size_t)1 << zstd_gen_below(r, 25));

		if (what >= 3 && far) {
			size_t dist = 1 + zstd_gen_below(r, (uint32_t)far);

			for (size_t i = 0; i < len; i++)
				p[i] = *(p + i - dist);
		} else if (what == 1) {
			memset(p, (int)zstd_gen_below(r, 256), len);
		} else {
			for (size_t i = 0; i < len; i++)
				p[i] = (uint8_t)(what == 2 ? (uint8_t) "etaoin shrdlu"[zstd_gen_below(r, 13)]
							   : zstd_gen_below(r, 256));
		}
		ret->size += len;
	}
	ret->size = end;
}

struct zstd_gen_params zstd_gen_params(struct zstd_gen_rng *r)
{
	struct zstd_gen_params p = {
		.level = (int)zstd_gen_below(r, 28) - 5,
		.checksum = zstd_gen_one_in(r, 2),
		.pledged = zstd_gen_one_in(r, 3),
		.long_distance = zstd_gen_one_in(r, 6),
		.literals = zstd_gen_one_in(r, 3) ? 1 + (int)zstd_gen_below(r, 2) : 0,
	};

	if (!zstd_gen_one_in(r, 4))
		p.window_log = 10 + (int)zstd_gen_below(r, 15);
	if (zstd_gen_one_in(r, 3))
		p.target_block = 64 << zstd_gen_below(r, 11);
	if (zstd_gen_one_in(r, 8))
		p.workers = 1 + (int)zstd_gen_below(r, 2);
	if (!zstd_gen_one_in(r, 3)) {
		p.chunk = (size_t)16 << zstd_gen_below(r, 14);
		p.flush_one_in = zstd_gen_one_in(r, 2) ? 0 : 1 + zstd_gen_below(r, 40);
	}
	return p;
}

static void set(ZSTD_CCtx *c, ZSTD_cParameter param, int value)
{
	size_t e = ZSTD_CCtx_setParameter(c, param, value);

	/* A library without threads rejects workers. */
	assert(!ZSTD_isError(e) || param == ZSTD_c_nbWorkers);
	(void)e;
}

void zstd_gen_encode(const struct zstd_gen_params *p, struct bytes plain, struct buf *ret)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	struct zstd_gen_rng r = { plain.size + (uint64_t)p->level };
	size_t done = 0;

	set(c, ZSTD_c_compressionLevel, p->level);
	set(c, ZSTD_c_checksumFlag, p->checksum);
	set(c, ZSTD_c_windowLog, p->window_log);
	set(c, ZSTD_c_nbWorkers, p->workers);
	set(c, ZSTD_c_enableLongDistanceMatching, p->long_distance ? ZSTD_ps_enable : ZSTD_ps_auto);
	set(c, ZSTD_c_targetCBlockSize, p->target_block);
	set(c, ZSTD_c_literalCompressionMode,
	    p->literals == 1   ? ZSTD_ps_enable
	    : p->literals == 2 ? ZSTD_ps_disable
			       : ZSTD_ps_auto);
	if (p->pledged)
		ZSTD_CCtx_setPledgedSrcSize(c, plain.size);
	for (;;) {
		size_t n = p->chunk ? MIN(p->chunk, plain.size - done) : plain.size - done;
		ZSTD_inBuffer in = { plain.p + done, n, 0 };
		ZSTD_EndDirective how = ZSTD_e_continue;
		size_t left;

		done += n;
		if (done == plain.size)
			how = ZSTD_e_end;
		else if (p->flush_one_in && zstd_gen_one_in(&r, p->flush_one_in))
			how = ZSTD_e_flush;
		do {
			size_t room = ZSTD_CStreamOutSize();
			ZSTD_outBuffer out = { buf_reserve(ret, room), room, 0 };

			left = ZSTD_compressStream2(c, &out, &in, how);
			if (ZSTD_isError(left)) {
				fprintf(stderr, "zstd_gen: %s\n", ZSTD_getErrorName(left));
				abort();
			}
			ret->size += out.pos;
		} while (how == ZSTD_e_continue ? in.pos < in.size : left != 0);
		if (how == ZSTD_e_end)
			break;
	}
	ZSTD_freeCCtx(c);
}

void zstd_gen_skippable(struct zstd_gen_rng *r, struct buf *ret)
{
	uint32_t n = zstd_gen_below(r, 300);

	buf_add_u32(ret, 0x184d2a50u + zstd_gen_below(r, 16));
	buf_add_u32(ret, n);
	for (uint32_t i = 0; i < n; i++)
		buf_add_char(ret, (char)zstd_gen_below(r, 256));
}
