/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan of a bzip2 file. Blocks start at any bit, with a magic number of 48 bits, which may also occur
 * within a block by chance or by malice. So the scan searches the bits for it a little ahead of the decoder,
 * and at each match it feeds the decoder up to the byte before: a block ends there if, and only if, that byte
 * makes the decoder output the block. libbz2 does so as soon as it has the block's last bit, and before it
 * reads the next bytes.
 *
 * Memory: libbz2 (4 MB), two small buffers, and some 20 bytes a point.
 */
#include "base/leb.h"
#include "base/vec.h"
#include "codec/bzip2.h"

#include <stdlib.h>

#define IN_SIZE    KIB(64)
#define CHUNK_SIZE CODEC_CHUNK
/* Fed bytes that are kept: the magic of a stream's end is searched in them. */
#define IN_HISTORY 16
/* A magic is recognised when its last bit is read, which is this many bytes after the last byte of the block
 * before. */
#define LOOK_AHEAD 7

enum { NO_BIT = 0 }; /* no block starts at bit 0 */

struct bzip2_point {
	uint64_t in;        /* the byte in which it starts */
	uint64_t in_behind; /* where the span before it ends */
	uint64_t out;
	size_t mark;
	uint8_t payload[12];
	size_t n_payload;
};

struct bzip2_scan {
	struct codec_scan base;
	uint64_t spacing, min_size;
	struct source *raw;      /* borrowed */
	struct byte_range range; /* the content in it */

	uint8_t in[IN_HISTORY + IN_SIZE];
	uint64_t in_base;           /* offset in the content of in[0] */
	size_t fed, searched, have; /* in `in` */
	uint64_t bits;              /* the last 64 bits searched */
	uint64_t found;             /* bit position of a magic that the decoder has not reached, or NO_BIT */
	uint64_t boundary;          /* the same, confirmed; its block's output is not complete yet */

	bz_stream bz;
	bool started;
	bool between; /* two streams */
	bool at_end;
	uint64_t level_pos; /* offset of the level in this stream's header */
	uint8_t level;
	uint64_t open_bit; /* bit position of the last point in the stream that it began in; NO_BIT: at its
			      header, or the stream has ended */

	uint8_t chunk[CHUNK_SIZE];
	size_t out_have, used;
	uint64_t out; /* decoded */
	struct err failure;

	struct codec_sums sums;
	struct bzip2_point *points;
	size_t n_points, room_points;
};

static struct bzip2_scan *bzip2_scan_of(struct stream *s)
{
	return CONTAINER_OF(s, struct bzip2_scan, base.stream);
}

static uint64_t fed_pos(const struct bzip2_scan *z)
{
	return z->in_base + z->fed;
}

static bool in_ended(const struct bzip2_scan *z)
{
	return z->in_base + z->have == z->range.size;
}

/* ---- points ---- */

/* Add a point at the end of the decoded bytes: at a block that starts at @bit, or at a stream's header
 * (NO_BIT). */
static void bzip2_point_add(struct bzip2_scan *z, uint64_t bit)
{
	struct bzip2_point *p;

	if (z->n_points &&
	    (z->out < z->min_size || z->out - z->points[z->n_points - 1].out < MAX(z->spacing, 1)))
		return;
	codec_sums_cut(&z->sums);
	p = &VEC_PUSH(z->points, z->n_points, z->room_points);
	*p = (struct bzip2_point){ .out = z->out, .mark = codec_sums_mark(&z->sums) };
	p->in = p->in_behind = fed_pos(z);
	z->open_bit = bit;
	if (bit == NO_BIT)
		return;
	p->in = bit / 8;
	/* libbz2 reads the next block's magic as soon as it has output a block: the span must include it. */
	p->in_behind = (bit + BZIP2_MAGIC_BITS + 7) / 8;
	p->payload[0] = (uint8_t)(bit % 8 << 4 | z->level);
	p->payload[1] = 0;
	p->n_payload = 2;
}

/* The stream ended at fed_pos(): record the position of its end mark in the last point, if that is in it. */
static void stream_ended(struct bzip2_scan *z)
{
	struct bzip2_point *p = &z->points[z->n_points - 1];

	if (z->open_bit == NO_BIT)
		return;
	for (unsigned pad = 0; pad < 8; pad++) {
		uint64_t v = 0, bit = fed_pos(z) * 8 - pad - BZIP2_END_BITS;
		size_t at = (size_t)(bit / 8 - z->in_base);

		/* 48 bits from any bit position are within seven bytes. */
		for (size_t i = 0; i < 7; i++)
			v = v << 8 | z->in[at + i];
		if ((v >> (8 - bit % 8) & ((UINT64_C(1) << BZIP2_MAGIC_BITS) - 1)) != BZIP2_END_MAGIC)
			continue;
		p->n_payload = (size_t)(leb_put(p->payload + 1, bit - z->open_bit) - p->payload);
		break;
	}
	z->open_bit = NO_BIT;
}

/* ---- input ---- */

static int bzip2_scan_fetch(struct bzip2_scan *z, struct err *err)
{
	size_t keep = MIN(z->fed, IN_HISTORY), drop = z->fed - keep, n;

	memmove(z->in, z->in + drop, z->have - drop);
	z->in_base += drop;
	z->fed -= drop;
	z->searched -= drop;
	z->have -= drop;
	n = (size_t)MIN(z->range.size - z->in_base - z->have, sizeof(z->in) - z->have);
	if (source_read_full(z->raw, z->range.off + z->in_base + z->have, z->in + z->have, n,
			     SOURCE_SEQUENTIAL, err) < 0)
		return -1;
	z->have += n;
	return 0;
}

/* Search on, up to the next magic. */
static void magic_search(struct bzip2_scan *z)
{
	const uint64_t mask = (UINT64_C(1) << BZIP2_MAGIC_BITS) - 1;

	while (z->searched < z->have && z->found == NO_BIT) {
		z->bits = z->bits << 8 | z->in[z->searched++];
		for (unsigned shift = 0; shift < 8; shift++) {
			if ((z->bits >> shift & mask) != BZIP2_BLOCK_MAGIC)
				continue;
			z->found = (z->in_base + z->searched) * 8 - shift - BZIP2_MAGIC_BITS;
		}
		/* A match that starts before the end of the last stream is no block of the next one. */
		if (z->found != NO_BIT && (z->found - 1) / 8 < fed_pos(z))
			z->found = NO_BIT;
	}
}

/* How far the decoder may be fed without passing a block's end that is not known yet. */
static size_t feed_limit(const struct bzip2_scan *z)
{
	size_t limit = in_ended(z) && z->searched == z->have ? z->have
		       : z->searched > LOOK_AHEAD            ? z->searched - LOOK_AHEAD
							     : 0;

	if (z->found != NO_BIT)
		limit = MIN(limit, (size_t)((z->found - 1) / 8 - z->in_base));
	return MAX(limit, z->fed);
}

/* ---- decoding ---- */

static int bzip2_scan_start(struct bzip2_scan *z, struct err *err)
{
	int r;

	if (z->started)
		BZ2_bzDecompressEnd(&z->bz);
	z->bz = (bz_stream){ 0 };
	r = BZ2_bzDecompressInit(&z->bz, 0, 0);
	z->started = r == BZ_OK;
	z->between = false;
	z->level_pos = fed_pos(z) + BZIP2_HEADER_SIZE - 1;
	return r == BZ_OK ? 0 : bzip2_error(r, err);
}

/* Feed up to in[@limit]; the output is appended to the chunk. */
static int decode_some(struct bzip2_scan *z, size_t limit, size_t *ret_got, struct err *err)
{
	struct bytes in = bytes_of(z->in + z->fed, limit - z->fed);
	int r = bzip2_step(&z->bz, &in, z->chunk + z->out_have, CHUNK_SIZE - z->out_have, ret_got, err);

	if (r < 0)
		return err_in(err, "near byte %llu", (unsigned long long)fed_pos(z));
	if (z->level_pos >= fed_pos(z) && z->level_pos < z->in_base + limit - in.size)
		z->level = z->in[z->level_pos - z->in_base] & 15;
	z->fed = limit - in.size;
	codec_sums_feed(&z->sums, z->chunk + z->out_have, *ret_got);
	z->out_have += *ret_got;
	z->out += *ret_got;
	if (r == CODER_END) {
		stream_ended(z);
		z->between = true;
		z->base.checked = z->out;
		z->found = z->boundary = NO_BIT;
	}
	return 0;
}

/* All bytes before the match are fed. Feed one more: if the block ends in it, the boundary is confirmed. */
static int try_boundary(struct bzip2_scan *z, struct err *err)
{
	uint64_t bit = z->found;
	size_t got;

	z->found = NO_BIT;
	if (decode_some(z, z->fed + 1, &got, err) < 0)
		return -1;
	if (got)
		z->boundary = bit;
	return 0;
}

static int next_stream(struct bzip2_scan *z, struct err *err)
{
	if (z->fed == z->have && !in_ended(z) && bzip2_scan_fetch(z, err) < 0)
		return -1;
	while (z->fed < z->have && !z->in[z->fed])
		z->fed++;
	z->searched = MAX(z->searched, z->fed);
	if (z->fed == z->have) {
		z->at_end = in_ended(z);
		return 0;
	}
	bzip2_point_add(z, NO_BIT);
	return bzip2_scan_start(z, err);
}

/* One step: output, feed, confirm a boundary, or fetch. */
static int bzip2_scan_step(struct bzip2_scan *z, struct err *err)
{
	size_t got = 0;

	if (z->between)
		return next_stream(z, err);
	magic_search(z);
	/* Pending output comes first, and with a confirmed boundary nothing is fed meanwhile: otherwise the
	 * last block, which no other magic follows, would be output together with the one before. */
	if (decode_some(z, z->boundary == NO_BIT ? feed_limit(z) : z->fed, &got, err) < 0)
		return -1;
	if (got || z->between)
		return 0;
	if (z->boundary != NO_BIT) {
		/* The decoder has output all of the block, and has verified its CRC in the same call. */
		z->base.checked = z->out;
		bzip2_point_add(z, z->boundary);
		z->boundary = NO_BIT;
		return 0;
	}
	if (z->found != NO_BIT)
		return try_boundary(z, err);
	if (!in_ended(z))
		return bzip2_scan_fetch(z, err);
	return err_set(err, ERR_INVALID, "ends early, after %llu bytes", (unsigned long long)z->range.size);
}

/* The next chunk; none at the end. */
static int bzip2_fill_chunk(struct bzip2_scan *z, struct err *err)
{
	int r = 0;

	z->used = z->out_have = 0;
	while (r == 0 && !z->failure.kind && z->out_have < CHUNK_SIZE && !z->at_end)
		r = bzip2_scan_step(z, &z->failure);
	if (!z->failure.kind || z->out_have)
		return 0;
	if (err)
		*err = z->failure;
	return -1;
}

static int bzip2_scan_next(struct stream *s, size_t max, struct bytes *ret, struct err *err)
{
	struct bzip2_scan *z = bzip2_scan_of(s);
	size_t n;

	if (z->used == z->out_have && !z->base.ended && bzip2_fill_chunk(z, err) < 0)
		return -1;
	z->base.ended = !z->out_have;
	n = MIN(max, z->out_have - z->used);
	*ret = bytes_of(z->chunk + z->used, n);
	z->used += n;
	z->base.out += n;
	return 0;
}

static const struct stream_ops bzip2_scan_stream_ops = {
	.read = codec_scan_read,
	.next = bzip2_scan_next,
	.close = codec_scan_stays,
};

int bzip2_scan_open(struct source *raw, struct byte_range range, const struct codec_scan_options *opts,
		    struct codec_scan **ret, struct err *err)
{
	struct bzip2_scan *z = NEW(struct bzip2_scan);

	z->base.stream.ops = &bzip2_scan_stream_ops;
	z->spacing = opts->spacing;
	z->min_size = opts->min_size;
	z->raw = raw;
	z->range = range;
	bzip2_point_add(z, NO_BIT);
	if (bzip2_scan_start(z, err) < 0) {
		bzip2_scan_close(&z->base);
		return -1;
	}
	*ret = &z->base;
	return 0;
}

int bzip2_scan_spans(struct codec_scan *s, struct arena *a, struct codec_spans *ret, struct err *err)
{
	struct bzip2_scan *z = CONTAINER_OF(s, struct bzip2_scan, base);
	struct codec_span *v;
	size_t n = z->n_points;

	/* A point at the very end has no span. */
	if (n > 1 && z->points[n - 1].out == z->out)
		n--;
	v = ARENA_NEW_N(a, struct codec_span, n);
	for (size_t i = n; i-- > 0;) {
		const struct bzip2_point *p = &z->points[i], *behind = i + 1 < z->n_points ? p + 1 : NULL;

		v[i] = (struct codec_span){
			.in = p->in,
			.in_end = behind      ? behind->in_behind
				  : z->at_end ? s->range.size
					      : fed_pos(z),
			.out = p->out,
			.out_end = behind ? behind->out : z->out,
			.payload = bytes_of(p->payload, p->n_payload),
			.sums = behind ? codec_sums_between(&z->sums, p->mark, behind->mark)
				       : codec_sums_since(&z->sums, p->mark),
		};
	}
	*ret = (struct codec_spans){ .v = v, .n = n, .why = n == 1 ? "the content is small" : NULL };
	return 0;
}

void bzip2_scan_close(struct codec_scan *s)
{
	struct bzip2_scan *z = CONTAINER_OF(s, struct bzip2_scan, base);

	if (z->started)
		BZ2_bzDecompressEnd(&z->bz);
	codec_sums_done(&z->sums);
	free(z->points);
	free(z);
}
