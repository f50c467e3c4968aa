/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan of a gzip file. zlib stops at each deflate block's end; if the last point is far enough away, the
 * position and the 32 KiB before it become the next one. Members' starts need no window.
 *
 * Bytes are decoded into a buffer that begins with the 32 KiB before them. Their sums and points are made
 * only when the reader requests the next chunk: until then it may report a landmark in the last one.
 *
 * Memory: the buffer, zlib, and the points made so far (some 12 KiB each).
 */
#include "base/vec.h"
#include "codec/gzip.h"

#include <stdlib.h>

#define CHUNK_SIZE CODEC_CHUNK
/* Boundaries closer together than this count as one. */
#define BOUNDARY_GAP KIB(4)
/* A landmark gets a point of its own when the last one is at least this part of the spacing away. */
#define LANDMARK_PART 4

/* Between two deflate blocks, or before a member's header. */
struct boundary {
	uint64_t in;   /* after the last byte of which all or some bits are before the boundary */
	unsigned bits; /* of that byte, after the boundary */
	bool member;
	uint64_t out;
	uint64_t member_out; /* where the member's content starts: matches refer to nothing before it */
};

struct gzip_point {
	uint64_t in, in_behind; /* of the span; the end of the one before */
	uint64_t out;
	size_t mark;
	struct buf payload;
};

struct gzip_scan {
	struct codec_scan base;
	uint64_t spacing, min_size;
	struct stream *raw; /* owned */
	struct bytes in;    /* lent by it */
	bool in_ended;
	z_stream z;
	bool between; /* two members */
	bool at_end;  /* no byte follows the chunk */
	uint64_t member_out;

	uint8_t buf[GZIP_WINDOW + CHUNK_SIZE]; /* decoded: the window, then the chunk */
	uint64_t chunk_out;                    /* of the chunk's first byte */
	size_t have, used;                     /* of the chunk: decoded, delivered */
	bool settled;                          /* its sums and points are made */
	struct boundary boundaries[CHUNK_SIZE / BOUNDARY_GAP + 2];
	size_t n_boundaries;
	uint64_t landmark;  /* the first one that is not passed; UINT64_MAX: none */
	struct err failure; /* reported after the bytes decoded before it */

	struct codec_sums sums;
	struct gzip_point *points;
	size_t n_points, room_points;
};

static struct gzip_scan *gzip_scan_of(struct stream *s)
{
	return CONTAINER_OF(s, struct gzip_scan, base.stream);
}

static uint64_t in_pos(const struct gzip_scan *g)
{
	return g->raw->off - g->in.size;
}

static uint64_t out_pos(const struct gzip_scan *g)
{
	return g->chunk_out + g->have;
}

/* ---- points ---- */

static void pack_window(const uint8_t *p, size_t size, struct buf *out)
{
	z_stream z = { 0 };
	uint8_t *to;

	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_RAW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		mem_none(1, size);
	to = buf_reserve(out, deflateBound(&z, size));
	z.next_in = p;
	z.avail_in = (uInt)size;
	z.next_out = to;
	z.avail_out = (uInt)deflateBound(&z, size);
	deflate(&z, Z_FINISH);
	out->size += z.total_out;
	deflateEnd(&z);
}

static void gzip_point_add(struct gzip_scan *g, const struct boundary *b)
{
	struct gzip_point *p;
	size_t window = (size_t)MIN(b->out - b->member_out, GZIP_WINDOW);

	p = &VEC_PUSH(g->points, g->n_points, g->room_points);
	*p = (struct gzip_point){ .in = b->in - (b->bits > 0), .in_behind = b->in, .out = b->out };
	p->mark = codec_sums_mark(&g->sums);
	if (b->member)
		return;
	buf_add_char(&p->payload, (char)b->bits);
	for (size_t v = window; v || p->payload.size == 1; v >>= 7)
		buf_add_char(&p->payload, (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0)));
	pack_window(g->buf + GZIP_WINDOW + (size_t)(b->out - g->chunk_out) - window, window, &p->payload);
}

/* The last boundary of the chunk from which a reader of the landmark would start. */
static const struct boundary *landmark_boundary(const struct gzip_scan *g)
{
	const struct boundary *best = NULL;

	/* A chunk that is nearer to the landmark will have a boundary. */
	if (g->landmark > out_pos(g) + CHUNK_SIZE)
		return NULL;
	for (size_t i = 0; i < g->n_boundaries && g->boundaries[i].out <= g->landmark; i++)
		best = &g->boundaries[i];
	return best;
}

/* The reader has consumed the chunk: make its sums and the points that are due in it. */
static void gzip_settle_chunk(struct gzip_scan *g)
{
	const struct boundary *marked = landmark_boundary(g);
	size_t fed = 0;

	if (g->settled)
		return;
	g->settled = true;
	for (size_t i = 0; i < g->n_boundaries; i++) {
		const struct boundary *b = &g->boundaries[i];
		uint64_t far = b->out - g->points[g->n_points - 1].out;
		size_t upto = (size_t)(b->out - g->chunk_out);

		if (b->out < g->min_size || far < (b == marked ? g->spacing / LANDMARK_PART : g->spacing) ||
		    !far)
			continue;
		codec_sums_feed(&g->sums, g->buf + GZIP_WINDOW + fed, upto - fed);
		codec_sums_cut(&g->sums);
		gzip_point_add(g, b);
		fed = upto;
	}
	codec_sums_feed(&g->sums, g->buf + GZIP_WINDOW + fed, g->have - fed);
	if (g->landmark < out_pos(g))
		g->landmark = UINT64_MAX;
}

static void boundary_add(struct gzip_scan *g, bool member)
{
	struct boundary *last = g->n_boundaries ? &g->boundaries[g->n_boundaries - 1] : NULL;
	struct boundary b = {
		.in = in_pos(g), .member = member, .out = out_pos(g), .member_out = g->member_out
	};

	if (!member)
		b.bits = (unsigned)g->z.data_type & 7;
	/* A member's start is preferred to a block's end nearby. */
	if (last && b.out - last->out < BOUNDARY_GAP) {
		if (!member || last->member)
			return;
		g->n_boundaries--;
	}
	if (g->n_boundaries < ARRAY_SIZE(g->boundaries))
		g->boundaries[g->n_boundaries++] = b;
}

/* ---- decoding ---- */

static int gzip_scan_member(struct gzip_scan *g, struct err *err)
{
	int r;

	while (g->in.size && !*g->in.p) {
		g->in.p++;
		g->in.size--;
	}
	if (!g->in.size) {
		g->at_end = g->in_ended;
		return 0;
	}
	r = inflateReset(&g->z);
	if (r != Z_OK)
		return gzip_error(&g->z, r, err);
	g->between = false;
	g->member_out = out_pos(g);
	if (g->member_out)
		boundary_add(g, true);
	return 0;
}

static int gzip_scan_inflate(struct gzip_scan *g, struct err *err)
{
	uInt n_in = (uInt)MIN(g->in.size, GZIP_STEP_MAX);
	uInt room = (uInt)(CHUNK_SIZE - g->have);
	int r;

	g->z.next_in = g->in.p;
	g->z.avail_in = n_in;
	g->z.next_out = g->buf + GZIP_WINDOW + g->have;
	g->z.avail_out = room;
	r = inflate(&g->z, Z_BLOCK);
	g->in = bytes_of(g->z.next_in, g->in.size - (n_in - g->z.avail_in));
	g->have += room - g->z.avail_out;
	if (r == Z_STREAM_END) {
		g->between = true;
		g->base.checked = out_pos(g);
		return 0;
	}
	if (r != Z_OK && r != Z_BUF_ERROR) {
		gzip_error(&g->z, r, err);
		return err_in(err, "near byte %llu", (unsigned long long)in_pos(g));
	}
	if (!n_in && room == g->z.avail_out)
		return err_set(err, ERR_INVALID, "ends early, after %llu bytes",
			       (unsigned long long)g->raw->off);
	/* 128: stopped after a block (or the header); 64: it was the member's last. */
	if ((g->z.data_type & 128) && !(g->z.data_type & 64) && out_pos(g) > g->member_out)
		boundary_add(g, false);
	return 0;
}

static int gzip_decode_chunk(struct gzip_scan *g, struct err *err)
{
	while (g->have < CHUNK_SIZE && !g->at_end) {
		if (!g->in.size && !g->in_ended) {
			if (stream_next(g->raw, SIZE_MAX, &g->in, err) < 0)
				return -1;
			g->in_ended = !g->in.size;
		}
		if (g->between ? gzip_scan_member(g, err) < 0 : gzip_scan_inflate(g, err) < 0)
			return -1;
	}
	return 0;
}

/* The next chunk; none at the end. */
static int gzip_fill_chunk(struct gzip_scan *g, struct err *err)
{
	gzip_settle_chunk(g);
	if (g->failure.kind) {
		if (err)
			*err = g->failure;
		return -1;
	}
	/* Keep the last 32 KiB of window and chunk together. */
	memmove(g->buf, g->buf + g->have, GZIP_WINDOW);
	g->chunk_out += g->have;
	g->have = g->used = g->n_boundaries = 0;
	g->settled = false;
	if (gzip_decode_chunk(g, &g->failure) < 0 && !g->have) {
		if (err)
			*err = g->failure;
		return -1;
	}
	return 0;
}

static int gzip_scan_next(struct stream *s, size_t max, struct bytes *ret, struct err *err)
{
	struct gzip_scan *g = gzip_scan_of(s);
	size_t n;

	if (g->used == g->have && !g->base.ended && gzip_fill_chunk(g, err) < 0)
		return -1;
	g->base.ended = !g->have;
	n = MIN(max, g->have - g->used);
	*ret = bytes_of(g->buf + GZIP_WINDOW + g->used, n);
	g->used += n;
	g->base.out += n;
	return 0;
}

static const struct stream_ops gzip_scan_stream_ops = {
	.read = codec_scan_read,
	.next = gzip_scan_next,
	.close = codec_scan_stays,
};

int gzip_scan_open(struct source *raw, struct byte_range range, const struct codec_scan_options *opts,
		   struct codec_scan **ret, struct err *err)
{
	static const struct boundary start = { .member = true };
	struct gzip_scan *g = NEW(struct gzip_scan);
	int r = inflateInit2(&g->z, GZIP_WITH_HEADER);

	if (r != Z_OK) {
		gzip_error(&g->z, r, err);
		free(g);
		return -1;
	}
	g->base.stream.ops = &gzip_scan_stream_ops;
	g->spacing = opts->spacing;
	g->min_size = opts->min_size;
	g->raw = stream_of_source(raw, false, range.off, range.size);
	g->settled = true;
	g->landmark = UINT64_MAX;
	gzip_point_add(g, &start);
	*ret = &g->base;
	return 0;
}

void gzip_scan_landmark(struct codec_scan *s, uint64_t off)
{
	struct gzip_scan *g = CONTAINER_OF(s, struct gzip_scan, base);

	if (off >= g->chunk_out && (g->landmark == UINT64_MAX || off < g->landmark))
		g->landmark = off;
}

int gzip_scan_spans(struct codec_scan *s, struct arena *a, struct codec_spans *ret, struct err *err)
{
	struct gzip_scan *g = CONTAINER_OF(s, struct gzip_scan, base);
	struct codec_span *v;
	size_t n;

	gzip_settle_chunk(g);
	n = g->n_points;
	/* A point at the very end has no span. */
	if (n > 1 && g->points[n - 1].out == out_pos(g))
		n--;
	v = ARENA_NEW_N(a, struct codec_span, n);
	for (size_t i = n; i-- > 0;) {
		const struct gzip_point *p = &g->points[i], *behind = i + 1 < g->n_points ? p + 1 : NULL;

		v[i] = (struct codec_span){
			.in = p->in,
			.in_end = behind      ? behind->in_behind
				  : g->at_end ? s->range.size
					      : in_pos(g),
			.out = p->out,
			.out_end = behind ? behind->out : out_pos(g),
			.payload = buf_bytes(&p->payload),
			.sums = behind ? codec_sums_between(&g->sums, p->mark, behind->mark)
				       : codec_sums_since(&g->sums, p->mark),
		};
	}
	*ret = (struct codec_spans){ .v = v, .n = n, .why = n == 1 ? "the content is small" : NULL };
	return 0;
}

void gzip_scan_close(struct codec_scan *s)
{
	struct gzip_scan *g = CONTAINER_OF(s, struct gzip_scan, base);

	for (size_t i = 0; i < g->n_points; i++)
		buf_done(&g->points[i].payload);
	free(g->points);
	codec_sums_done(&g->sums);
	inflateEnd(&g->z);
	stream_close(g->raw);
	free(g);
}
