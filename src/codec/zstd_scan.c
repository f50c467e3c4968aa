/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan: libzstd decodes frame by frame and block by block, so that the offset of every boundary is known
 * in the compressed and in the decoded bytes; each block then goes to the marker (zstd_mark.c).
 *
 * The decoded bytes are in a ring, for the marker and for the reader, which gets views of it. A block goes to
 * the marker only when the reader requests the bytes after it: until then the reader may report a landmark in
 * it.
 *
 * Memory: libzstd's own window, two more in the ring, up to RING_SLACK and the marker's bits, 1/8 of a
 * window; 4 MiB for the input. Where no points are possible (frames that are short or refused), the ring is
 * small.
 */
#include "codec/zstd.h"

#include <stdlib.h>
#include <zstd.h>

/* Frames with larger windows are decoded without points. */
#define MARK_MAX_WINDOW MIB(128)

/* The distance by which decoding may be ahead of marking, in addition to the marker's own needs. */
#define RING_SLACK_MIN MIB(1)
#define RING_SLACK_MAX MIB(8)

/* Limit of reported landmarks that are not reached yet. */
#define LANDMARKS_MAX 64

#define SKIPPABLE_HEADER 8
#define CHECKSUM_SIZE    4

enum state { AT_FRAME, IN_FRAME, IN_PLAIN, AT_END };

struct zstd_scan {
	struct codec_scan base;
	ZSTD_DCtx *zstd;
	struct zstd_input in;
	struct zstd_lane *lane;
	enum state state;
	bool any_frame;
	struct zstd_frame frame;

	/* Decoded bytes: offset o is at (o - ring_base) % ring_size. */
	uint8_t *ring; /* mapped */
	size_t ring_size;
	uint64_t ring_base;
	uint64_t out;  /* decoded so far */
	uint64_t lent; /* delivered so far */

	/* Items that the marker has not got yet, in this order. */
	bool has_frame, has_block, has_frame_end;
	struct zstd_item frame_item, block_item;

	uint64_t landmarks[LANDMARKS_MAX];
	size_t n_landmarks;
};

static uint64_t scan_at(const struct zstd_scan *s)
{
	return s->in.at;
}

static int early_end(const struct zstd_scan *s, const char *where, struct err *err)
{
	return err_set(err, ERR_INVALID, "zstd: ends early at compressed offset %llu, within %s",
		       (unsigned long long)s->in.size, where);
}

/* ---- to the marker ---- */

/* Whether a landmark is in [from, to). Landmarks before @to are removed. */
static bool take_landmarks(struct zstd_scan *s, uint64_t from, uint64_t to)
{
	bool any = false;
	size_t n = 0;

	for (size_t i = 0; i < s->n_landmarks; i++) {
		if (s->landmarks[i] >= to)
			s->landmarks[n++] = s->landmarks[i];
		else
			any |= s->landmarks[i] >= from;
	}
	s->n_landmarks = n;
	return any;
}

static void hand_over(struct zstd_scan *s)
{
	struct zstd_item *b = &s->block_item;

	if (s->has_block)
		b->landmark = take_landmarks(s, b->out, b->out + b->n_out);
	if (s->has_frame) {
		s->frame_item.landmark = s->has_block && b->landmark;
		zstd_lane_feed(s->lane, &s->frame_item);
	}
	if (s->has_block)
		zstd_lane_feed(s->lane, b);
	if (s->has_frame_end)
		zstd_lane_feed(s->lane, &(struct zstd_item){ .kind = ZSTD_ITEM_FRAME_END,
							     .in = scan_at(s),
							     .out = s->out,
							     .in_pos = s->in.pos });
	s->has_frame = s->has_block = s->has_frame_end = false;
}

/*
 * Bytes between frames have passed. The marker has no block for them, but has to know that the ring of compressed bytes has
 * moved on: otherwise it would seem to need bytes from before the gap. All items before it were handed over.
 */
static void gap_passed(struct zstd_scan *s)
{
	zstd_lane_feed(s->lane,
		       &(struct zstd_item){
			       .kind = ZSTD_ITEM_GAP, .in = scan_at(s), .out = s->out, .in_pos = s->in.pos });
}

/* ---- the ring ---- */

/* Only between frames: nothing of the old ring is needed after the marker has caught up. */
static int zstd_ring_make(struct zstd_scan *s, size_t size, struct err *err)
{
	struct zstd_marker *m;

	if (size <= s->ring_size)
		return 0;
	m = zstd_lane_settle(s->lane);
	zstd_unmap(s->ring, s->ring_size);
	s->ring_size = 0;
	s->ring = zstd_map(size);
	if (!s->ring)
		return err_set(err, ERR_LIMIT, "zstd: no memory for a window of %llu bytes",
			       (unsigned long long)s->frame.window);
	s->ring_size = size;
	s->ring_base = s->out;
	zstd_marker_set_ring(m, s->ring, size, s->ring_base);
	return 0;
}

/* Decode all of @in, which is at most one block; *ret_result is the last return value of libzstd. */
static int zstd_scan_decode(struct zstd_scan *s, struct bytes in, size_t *ret_result, struct err *err)
{
	ZSTD_inBuffer zin = { in.p, in.size, 0 };
	ZSTD_outBuffer zout;

	if (s->out + ZSTD_BLOCK_MAX > s->ring_base + s->ring_size)
		zstd_lane_wait_out(s->lane, s->out + ZSTD_BLOCK_MAX - s->ring_size);
	do {
		size_t at = (s->out - s->ring_base) % s->ring_size;

		/* One byte of room more than a block has: unused room then proves that the block is
		 * complete. */
		zout = (ZSTD_outBuffer){ s->ring + at, MIN(s->ring_size - at, ZSTD_BLOCK_MAX + 1), 0 };
		*ret_result = ZSTD_decompressStream(s->zstd, &zout, &zin);
		if (ZSTD_isError(*ret_result)) {
			zstd_err(err, *ret_result);
			return err_in(err, "at compressed offset %llu", (unsigned long long)scan_at(s));
		}
		s->out += zout.pos;
	} while (*ret_result && zout.pos == zout.size);
	if (zin.pos != zin.size)
		return err_set(err, ERR_INVALID, "zstd: a frame ends early, near compressed offset %llu",
			       (unsigned long long)scan_at(s));
	return 0;
}

/* ---- frames ---- */

static size_t slack_for(uint64_t window)
{
	return MAX(RING_SLACK_MIN, MIN(window, RING_SLACK_MAX));
}

/* The reason why there can be no points within this frame, or NULL. */
static const char *frame_refused(const struct zstd_scan *s, const struct zstd_frame *f)
{
	uint64_t spacing = s->base.opts.spacing ? s->base.opts.spacing : MIB(32);

	if (f->window > MARK_MAX_WINDOW)
		return "the window is too large for points";
	if (f->content_size != ZSTD_SIZE_UNKNOWN && f->content_size <= spacing)
		return "frames are shorter than the spacing of points";
	return NULL;
}

static int start_frame(struct zstd_scan *s, struct bytes head, struct err *err)
{
	struct zstd_frame f;
	size_t result;
	int r = zstd_frame_parse(head, scan_at(s), &f, err);

	if (r < 0)
		return -1;
	if (r == ZSTD_FRAME_SHORT)
		return early_end(s, "a frame header", err);
	if (f.dict_id)
		return err_set(err, ERR_INVALID,
			       "zstd: the frame at compressed offset %llu needs the dictionary %u",
			       (unsigned long long)scan_at(s), f.dict_id);
	s->frame = f;
	s->frame_item = (struct zstd_item){ .kind = ZSTD_ITEM_FRAME,
					    .in = scan_at(s),
					    .out = s->out,
					    .window = f.window,
					    .refused = frame_refused(s, &f),
					    .in_pos = s->in.pos };
	if (zstd_ring_make(s, (s->frame_item.refused ? 0 : 2 * f.window) + slack_for(f.window), err) < 0)
		return -1;
	s->has_frame = true;
	if (zstd_scan_decode(s, bytes_of(head.p, f.header_size), &result, err) < 0)
		return -1;
	zstd_input_take(&s->in, f.header_size);
	s->any_frame = true;
	s->state = IN_FRAME;
	return 0;
}

/* A frame that libzstd may decode but the marker cannot: no points, but a span may start here. */
static int start_plain(struct zstd_scan *s, struct err *err)
{
	s->frame_item = (struct zstd_item){ .kind = ZSTD_ITEM_FRAME,
					    .in = scan_at(s),
					    .out = s->out,
					    .refused = "a frame of an old format",
					    .in_pos = s->in.pos };
	if (zstd_ring_make(s, RING_SLACK_MIN, err) < 0)
		return -1;
	s->has_frame = true;
	s->any_frame = true;
	s->state = IN_PLAIN;
	return 0;
}

static int skip_zeros(struct zstd_scan *s, struct err *err)
{
	struct bytes b;

	while (zstd_input_peek(&s->in, 1, &b, err) == 0) {
		size_t n = 0;

		if (!b.size) {
			s->state = AT_END;
			return 0;
		}
		while (n < b.size && !b.p[n])
			n++;
		zstd_input_take(&s->in, n);
		gap_passed(s);
		if (n < b.size)
			return 0;
	}
	return -1;
}

static int at_frame(struct zstd_scan *s, struct err *err)
{
	struct bytes head;
	uint64_t size;

	if (zstd_input_peek(&s->in, ZSTD_FRAME_HEADER_MAX, &head, err) < 0)
		return -1;
	switch (zstd_what(head)) {
	case ZSTD_WHAT_FRAME:
		return start_frame(s, head, err);
	case ZSTD_WHAT_SKIPPABLE:
		if (head.size < SKIPPABLE_HEADER)
			return early_end(s, "a skippable frame", err);
		size = SKIPPABLE_HEADER +
		       (uint64_t)(head.p[4] | head.p[5] << 8 | head.p[6] << 16 | (uint32_t)head.p[7] << 24);
		if (size > s->in.size - s->in.at)
			return early_end(s, "a skippable frame", err);
		zstd_input_skip(&s->in, size);
		gap_passed(s);
		s->any_frame = true;
		return 0;
	case ZSTD_WHAT_LEGACY:
		return start_plain(s, err);
	case ZSTD_WHAT_END:
		if (s->any_frame) {
			s->state = AT_END;
			return 0;
		}
		break;
	case ZSTD_WHAT_ZEROS:
		if (s->any_frame)
			return skip_zeros(s, err);
		break;
	case ZSTD_WHAT_OTHER:
		break;
	}
	return err_set(err, ERR_INVALID, "zstd: no frame starts at compressed offset %llu",
		       (unsigned long long)scan_at(s));
}

static int end_frame(struct zstd_scan *s, size_t result, struct err *err)
{
	struct bytes b;

	if (s->frame.checksum) {
		if (zstd_input_peek(&s->in, CHECKSUM_SIZE, &b, err) < 0)
			return -1;
		if (b.size < CHECKSUM_SIZE)
			return early_end(s, "a checksum", err);
		if (zstd_scan_decode(s, bytes_of(b.p, CHECKSUM_SIZE), &result, err) < 0)
			return -1;
		zstd_input_take(&s->in, CHECKSUM_SIZE);
	}
	if (result)
		return err_set(err, ERR_INVALID,
			       "zstd: a frame does not end where it says, at compressed offset %llu",
			       (unsigned long long)scan_at(s));
	s->has_frame_end = true;
	s->state = AT_FRAME;
	return 0;
}

static int in_frame(struct zstd_scan *s, struct err *err)
{
	uint64_t out = s->out, in = scan_at(s);
	struct zstd_block_header h;
	struct bytes b;
	size_t result;

	if (zstd_input_peek(&s->in, ZSTD_BLOCK_HEADER, &b, err) < 0)
		return -1;
	if (b.size < ZSTD_BLOCK_HEADER)
		return early_end(s, "a block header", err);
	h = zstd_block_header(b.p);
	if (h.type == ZSTD_BLOCK_RESERVED || h.size > ZSTD_BLOCK_MAX)
		return err_set(err, ERR_INVALID, "zstd: no valid block header at compressed offset %llu",
			       (unsigned long long)in);
	if (zstd_input_peek(&s->in, ZSTD_BLOCK_HEADER + h.content, &b, err) < 0)
		return -1;
	if (b.size < ZSTD_BLOCK_HEADER + h.content)
		return early_end(s, "a block", err);
	if (zstd_scan_decode(s, bytes_of(b.p, ZSTD_BLOCK_HEADER + h.content), &result, err) < 0)
		return -1;
	s->block_item = (struct zstd_item){ .kind = ZSTD_ITEM_BLOCK,
					    .in = in,
					    .out = out,
					    .type = h.type,
					    .n_out = (uint32_t)(s->out - out),
					    .content = bytes_of(b.p + ZSTD_BLOCK_HEADER, h.content),
					    .in_pos = s->in.pos + ZSTD_BLOCK_HEADER };
	s->has_block = true;
	zstd_input_take(&s->in, ZSTD_BLOCK_HEADER + h.content);
	return h.last ? end_frame(s, result, err) : 0;
}

/* Decode a chunk of a frame whose structure only libzstd knows. */
static int in_plain(struct zstd_scan *s, struct err *err)
{
	ZSTD_inBuffer zin;
	ZSTD_outBuffer zout;
	uint64_t out = s->out, in = scan_at(s);
	size_t at, result;
	struct bytes b;

	if (zstd_input_peek(&s->in, 1, &b, err) < 0)
		return -1;
	if (s->out + ZSTD_BLOCK_MAX > s->ring_base + s->ring_size)
		zstd_lane_wait_out(s->lane, s->out + ZSTD_BLOCK_MAX - s->ring_size);
	at = (s->out - s->ring_base) % s->ring_size;
	zin = (ZSTD_inBuffer){ b.p, b.size, 0 };
	zout = (ZSTD_outBuffer){ s->ring + at, MIN(s->ring_size - at, ZSTD_BLOCK_MAX), 0 };
	result = ZSTD_decompressStream(s->zstd, &zout, &zin);
	if (ZSTD_isError(result)) {
		zstd_err(err, result);
		return err_in(err, "at compressed offset %llu", (unsigned long long)in);
	}
	zstd_input_take(&s->in, zin.pos);
	s->out += zout.pos;
	if (!result)
		s->state = AT_FRAME;
	else if (!b.size && !zout.pos)
		return early_end(s, "a frame", err);
	s->block_item = (struct zstd_item){ .kind = ZSTD_ITEM_PLAIN,
					    .in = in,
					    .out = out,
					    .n_out = (uint32_t)zout.pos,
					    .in_pos = s->in.pos };
	s->has_block = true;
	return 0;
}

/* ---- the stream ---- */

static int zstd_scan_next(struct stream *stream, size_t max, struct bytes *ret, struct err *err)
{
	struct zstd_scan *s = CONTAINER_OF(stream, struct zstd_scan, base.stream);
	size_t at, n;

	while (s->lent == s->out && s->state != AT_END) {
		int r = 0;

		hand_over(s);
		switch (s->state) {
		case AT_FRAME:
			r = at_frame(s, err);
			break;
		case IN_FRAME:
			r = in_frame(s, err);
			break;
		case IN_PLAIN:
			r = in_plain(s, err);
			break;
		case AT_END:
			break;
		}
		if (r < 0)
			return -1;
		if (s->state != IN_PLAIN && (s->state != IN_FRAME || !s->frame.checksum))
			s->base.checked = s->out;
	}
	if (s->lent == s->out) {
		s->base.ended = true;
		*ret = (struct bytes){ 0 };
		return 0;
	}
	at = (s->lent - s->ring_base) % s->ring_size;
	n = MIN(MIN(max, s->out - s->lent), s->ring_size - at);
	*ret = bytes_of(s->ring + at, n);
	s->lent += n;
	s->base.out = s->lent;
	return 0;
}

static const struct stream_ops zstd_scan_stream_ops = {
	.read = codec_scan_read,
	.next = zstd_scan_next,
	.close = codec_scan_stays,
};

void zstd_scan_landmark(struct codec_scan *base, uint64_t off)
{
	struct zstd_scan *s = CONTAINER_OF(base, struct zstd_scan, base);

	if (s->n_landmarks < LANDMARKS_MAX)
		s->landmarks[s->n_landmarks++] = off;
}

int zstd_scan_spans(struct codec_scan *base, struct arena *a, struct codec_spans *ret, struct err *err)
{
	struct zstd_scan *s = CONTAINER_OF(base, struct zstd_scan, base);

	/* The last decoded block is included, although a landmark may still be reported in it. */
	hand_over(s);
	if (base->ended) {
		/* Free the decoder's window first: the points may be many. */
		ZSTD_freeDCtx(s->zstd);
		s->zstd = NULL;
	}
	return zstd_marker_spans(zstd_lane_settle(s->lane), scan_at(s), s->out, a, ret, err);
}

int zstd_scan_open(struct source *raw, struct byte_range range, const struct codec_scan_options *opts,
		   struct codec_scan **ret, struct err *err)
{
	struct zstd_scan *s = NEW(struct zstd_scan);

	s->base.stream.ops = &zstd_scan_stream_ops;
	s->base.opts = *opts;
	s->lane = zstd_lane_new(opts, range.size);
	s->zstd = ZSTD_createDCtx();
	if (!s->zstd) {
		zstd_scan_close(&s->base);
		return err_set(err, ERR_LIMIT, "zstd: no memory for a decoder");
	}
	ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, ZSTD_MAX_WINDOW_LOG);
	if (zstd_input_init(&s->in, raw, range, s->lane, err) < 0) {
		zstd_scan_close(&s->base);
		return -1;
	}
	*ret = &s->base;
	return 0;
}

void zstd_scan_renice(struct codec_scan *base, int nice)
{
	zstd_lane_renice(CONTAINER_OF(base, struct zstd_scan, base)->lane, nice);
}

void zstd_scan_close(struct codec_scan *base)
{
	struct zstd_scan *s;

	if (!base)
		return;
	s = CONTAINER_OF(base, struct zstd_scan, base);
	zstd_lane_free(s->lane);
	zstd_input_done(&s->in);
	zstd_unmap(s->ring, s->ring_size);
	ZSTD_freeDCtx(s->zstd);
	free(s);
}
