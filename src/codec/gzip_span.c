/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans of gzip. One starts at a member's header, or between two deflate blocks within a member: at a bit,
 * with the 32 KiB before it that matches may refer to. From there on it continues like any gzip file: to the
 * member's end, over its trailer and to the next member.
 *
 * Payload: none at a header; else a byte with the number of bits that belong to the block out of the first
 * byte (0: it starts with a whole byte), the size of the window as a LEB128 number, and the window as raw
 * deflate data.
 */
#include "codec/gzip.h"

#include <stdlib.h>

#define TRAILER_SIZE 8
#define SKIP_SIZE    KIB(32)
/* zlib's allocation for inflating. */
#define ZLIB_SIZE KIB(48)

struct gzip_span {
	struct span_decoder base;
	z_stream z;
	bool within;      /* started within the current member: zlib does not see its header and trailer */
	bool between;     /* two members */
	unsigned trailer; /* bytes of it still to be skipped */
	uint64_t out, out_end;
	struct span_input in;
	uint8_t thrown[SKIP_SIZE];
};

/* Advance to the next member, as far as the buffered input goes. */
static int gzip_span_member(struct gzip_span *d, struct err *err)
{
	int r;

	if (d->trailer) {
		size_t n = MIN(d->trailer, d->in.b.size);

		span_input_use(&d->in, n);
		d->trailer -= (unsigned)n;
		return 0;
	}
	if (!*d->in.b.p) {
		span_input_use(&d->in, 1);
		return 0;
	}
	r = inflateReset2(&d->z, GZIP_WITH_HEADER);
	if (r != Z_OK)
		return gzip_error(&d->z, r, err);
	d->within = d->between = false;
	return 0;
}

static int gzip_span_inflate(struct gzip_span *d, uint8_t *out, size_t room, size_t *ret_got, struct err *err)
{
	uInt n_out = (uInt)MIN(room, GZIP_STEP_MAX);
	int r;

	d->z.next_in = d->in.b.p;
	d->z.avail_in = (uInt)d->in.b.size;
	d->z.next_out = out;
	d->z.avail_out = n_out;
	r = inflate(&d->z, Z_NO_FLUSH);
	d->in.b = bytes_of(d->z.next_in, d->z.avail_in);
	*ret_got = n_out - d->z.avail_out;
	if (r == Z_STREAM_END) {
		d->between = true;
		d->trailer = d->within ? TRAILER_SIZE : 0;
		return 0;
	}
	return r == Z_OK || r == Z_BUF_ERROR ? 0 : gzip_error(&d->z, r, err);
}

int gzip_span_read(struct span_decoder *base, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct gzip_span *d = CONTAINER_OF(base, struct gzip_span, base);
	size_t got = 0;

	if (!buf)
		n = MIN(n, SKIP_SIZE);
	n = (size_t)MIN((uint64_t)n, d->out_end - d->out);
	while (!got) {
		size_t before;

		if (!d->in.b.size && span_input_fetch(&d->in, d->base.raw, 0, err) < 0)
			return -1;
		before = d->in.b.size;
		if (d->between && before) {
			if (gzip_span_member(d, err) < 0)
				return -1;
			continue;
		}
		if (!d->between && gzip_span_inflate(d, buf ? buf : d->thrown, n, &got, err) < 0)
			return -1;
		if (!got && !before)
			return err_set(err, ERR_INVALID, "ends early, at %llu",
				       (unsigned long long)d->in.end);
	}
	d->out += got;
	*ret_got = got;
	return 0;
}

void gzip_span_close(struct span_decoder *base)
{
	struct gzip_span *d = CONTAINER_OF(base, struct gzip_span, base);

	inflateEnd(&d->z);
	free(d);
}

static int set_window(z_stream *z, struct bytes packed, size_t size, struct err *err)
{
	uint8_t window[GZIP_WINDOW];
	z_stream w = { 0 };
	int r = inflateInit2(&w, GZIP_RAW);

	if (r != Z_OK)
		return gzip_error(&w, r, err);
	w.next_in = packed.p;
	w.avail_in = (uInt)packed.size;
	w.next_out = window;
	w.avail_out = (uInt)size;
	r = inflate(&w, Z_FINISH);
	inflateEnd(&w);
	if (r != Z_STREAM_END || w.avail_out || w.avail_in)
		return err_set(err, ERR_INVALID, "resume point with a damaged window");
	r = inflateSetDictionary(z, window, (uInt)size);
	return r == Z_OK ? 0 : gzip_error(z, r, err);
}

/* Start after a block's end: zlib gets the window and the remaining bits of the first byte. */
static int start_within(struct gzip_span *d, struct bytes payload, struct err *err)
{
	struct cursor c = cursor_of(payload);
	unsigned bits = cursor_u8(&c);
	uint64_t size = cursor_uleb(&c);
	struct bytes window = cursor_bytes(&c, cursor_left(&c));
	int r;

	if (!cursor_ok(&c) || bits > 7 || size > GZIP_WINDOW || payload.size > GZIP_PAYLOAD_MAX)
		return err_set(err, ERR_INVALID, "resume point with an invalid payload");
	if (size && set_window(&d->z, window, (size_t)size, err) < 0)
		return -1;
	d->within = true;
	if (!bits)
		return 0;
	if (span_input_fetch(&d->in, d->base.raw, 1, err) < 0)
		return -1;
	r = inflatePrime(&d->z, (int)bits, *d->in.b.p >> (8 - bits));
	span_input_use(&d->in, 1);
	return r == Z_OK ? 0 : gzip_error(&d->z, r, err);
}

int gzip_span_open(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
		   struct err *err)
{
	struct gzip_span *d;
	int r;

	/* Without sums the only check is the trailer's, which the sequential stream makes. */
	if (!span->payload.size && !span->sums.size)
		return codec_span_from_start(&codec_gzip, raw, span, ret, err);
	d = NEW(struct gzip_span);
	d->base = (struct span_decoder){ .ops = &codec_gzip, .raw = raw, .weight = sizeof(*d) + ZLIB_SIZE };
	d->in.at = span->in;
	d->in.end = span->in_end;
	d->out = span->out;
	d->out_end = span->out_end;
	r = inflateInit2(&d->z, span->payload.size ? GZIP_RAW : GZIP_WITH_HEADER);
	if (r != Z_OK) {
		gzip_error(&d->z, r, err);
		free(d);
		return -1;
	}
	if (span->payload.size && start_within(d, span->payload, err) < 0) {
		gzip_span_close(&d->base);
		return -1;
	}
	*ret = &d->base;
	return 0;
}
