/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans of bzip2. One starts at a stream's header, or at a block within a stream: at a bit. A block does not
 * depend on those before it, but libbz2 requires a stream; so it gets a synthesized header, and the bits from
 * the block on, shifted to whole bytes. libbz2 verifies each block's own CRC; the stream's, which combines
 * those of all blocks, would not match, so where the stream ends within the span libbz2 never sees its end:
 * the position is known from the scan.
 *
 * Payload: none at a header; else a byte with the bit at which the block starts in the first byte (0: the
 * highest one) times 16 plus the level, and as LEB128 the number of bits from there to the stream's end mark,
 * 0 when that is not in the span.
 */
#include "codec/bzip2.h"

#include <stdlib.h>

#define SKIP_SIZE KIB(32)

enum phase {
	PHASE_HEADER, /* of the synthesized stream */
	PHASE_BITS,   /* the blocks, shifted */
	PHASE_DRAIN,  /* all bits are fed, the remaining output is yet to be read */
	PHASE_BETWEEN,
	PHASE_STREAM, /* as stored in the file */
};

struct bzip2_span {
	struct span_decoder base;
	bz_stream bz;
	bool started; /* bz */
	enum phase phase;
	char level;
	unsigned shift;     /* PHASE_BITS: bits of each byte that belong to the one before */
	uint64_t bits_left; /* up to the stream's end mark; UINT64_MAX: it is not in the span */
	uint64_t end_pos;   /* the byte after that stream */
	uint64_t out, out_end;
	struct span_input in;
	struct bytes shifted; /* shifted input, not yet decoded */
	uint8_t shift_buf[KIB(8)];
	uint8_t thrown[SKIP_SIZE];
};

static int bzip2_span_start(struct bzip2_span *d, struct err *err)
{
	int r;

	if (d->started)
		BZ2_bzDecompressEnd(&d->bz);
	d->bz = (bz_stream){ 0 };
	r = BZ2_bzDecompressInit(&d->bz, 0, 0);
	d->started = r == BZ_OK;
	return r == BZ_OK ? 0 : bzip2_error(r, err);
}

/* Make the next shifted bytes; none after all bits up to the mark were made. */
static int shift_some(struct bzip2_span *d, struct err *err)
{
	size_t n = 0;

	while (n < sizeof(d->shift_buf) && d->bits_left) {
		uint8_t low = 0;

		/* A byte is made of two, but the span's last bits may end in the first of them. */
		if (d->in.b.size < 2 && d->in.at < d->in.end &&
		    span_input_fetch(&d->in, d->base.raw, 2, err) < 0)
			return -1;
		if (!d->in.b.size)
			break;
		if (d->in.b.size > 1)
			low = d->in.b.p[1];
		d->shift_buf[n] = (uint8_t)(d->in.b.p[0] << d->shift |
					    (d->shift ? low >> (8 - d->shift) : 0));
		if (d->bits_left < 8) {
			/* Not a whole byte: libbz2 asks for more before it reads past the last block. */
			d->shift_buf[n] &= (uint8_t)(0xff00 >> d->bits_left);
			d->bits_left = 0;
		} else if (d->bits_left != UINT64_MAX) {
			d->bits_left -= 8;
		}
		span_input_use(&d->in, 1);
		n++;
	}
	d->shifted = bytes_of(d->shift_buf, n);
	return 0;
}

/* Skip the rest of the stream that the span began in, which libbz2 does not get. */
static int leave_stream(struct bzip2_span *d, struct err *err)
{
	uint64_t left = d->end_pos - span_input_pos(&d->in);

	if (d->end_pos > d->in.end)
		return err_set(err, ERR_INVALID, "stream ends after the span");
	if (span_input_fetch(&d->in, d->base.raw, (size_t)left, err) < 0)
		return -1;
	span_input_use(&d->in, (size_t)left);
	d->phase = PHASE_BETWEEN;
	return 0;
}

static int bits_step(struct bzip2_span *d, uint8_t *out, size_t room, size_t *ret_got, struct err *err)
{
	int r;

	if (!d->shifted.size && shift_some(d, err) < 0)
		return -1;
	if (!d->shifted.size)
		d->phase = PHASE_DRAIN;
	r = bzip2_step(&d->bz, &d->shifted, out, room, ret_got, err);
	if (r == CODER_END)
		return err_set(err, ERR_INVALID, "stream ends where none should");
	if (r < 0 || *ret_got || d->phase != PHASE_DRAIN)
		return r;
	if (d->bits_left)
		return err_set(err, ERR_INVALID, "ends early, at %llu", (unsigned long long)d->in.end);
	return leave_stream(d, err);
}

static int between_step(struct bzip2_span *d, struct err *err)
{
	if (*d->in.b.p) {
		d->phase = PHASE_STREAM;
		return bzip2_span_start(d, err);
	}
	span_input_use(&d->in, 1);
	return 0;
}

static int header_step(struct bzip2_span *d, struct err *err)
{
	uint8_t header[BZIP2_HEADER_SIZE] = { 'B', 'Z', 'h', (uint8_t)d->level }, none;
	struct bytes in = bytes_of(header, sizeof(header));
	size_t got;

	d->phase = PHASE_BITS;
	if (bzip2_span_start(d, err) < 0)
		return -1;
	return bzip2_step(&d->bz, &in, &none, 1, &got, err);
}

static int stream_step(struct bzip2_span *d, uint8_t *out, size_t room, size_t *ret_got, struct err *err)
{
	int r = bzip2_step(&d->bz, &d->in.b, out, room, ret_got, err);

	if (r == CODER_END) {
		d->phase = PHASE_BETWEEN;
		r = 0;
	}
	return r;
}

int bzip2_span_read(struct span_decoder *base, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct bzip2_span *d = CONTAINER_OF(base, struct bzip2_span, base);
	uint8_t *out = buf ? buf : d->thrown;
	size_t got = 0;

	if (!buf)
		n = MIN(n, SKIP_SIZE);
	n = (size_t)MIN((uint64_t)n, d->out_end - d->out);
	while (!got) {
		bool dry;
		int r;

		if (d->phase == PHASE_HEADER || d->phase == PHASE_BITS || d->phase == PHASE_DRAIN) {
			r = d->phase == PHASE_HEADER ? header_step(d, err) : bits_step(d, out, n, &got, err);
			if (r < 0)
				return -1;
			continue;
		}
		if (!d->in.b.size && span_input_fetch(&d->in, d->base.raw, 0, err) < 0)
			return -1;
		dry = !d->in.b.size;
		if (d->phase == PHASE_STREAM)
			r = stream_step(d, out, n, &got, err);
		else
			r = dry ? 0 : between_step(d, err);
		if (r < 0)
			return -1;
		if (dry && !got)
			return err_set(err, ERR_INVALID, "ends early, at %llu",
				       (unsigned long long)d->in.end);
	}
	d->out += got;
	*ret_got = got;
	return 0;
}

void bzip2_span_close(struct span_decoder *base)
{
	struct bzip2_span *d = CONTAINER_OF(base, struct bzip2_span, base);

	if (d->started)
		BZ2_bzDecompressEnd(&d->bz);
	free(d);
}

static int read_payload(struct bzip2_span *d, struct bytes payload, struct err *err)
{
	struct cursor c = cursor_of(payload);
	uint8_t first = cursor_u8(&c);
	uint64_t bits = cursor_uleb(&c), end;

	d->shift = first >> 4;
	d->level = (char)('0' + (first & 15));
	if (!cursor_ok(&c) || cursor_left(&c) || d->shift > 7 || d->level < '1' || d->level > '9' ||
	    bits > UINT64_MAX / 2 ||
	    add_overflows(d->in.at, (d->shift + bits + BZIP2_END_BITS + 7) / 8, &end))
		return err_set(err, ERR_INVALID, "resume point with an invalid payload");
	d->bits_left = bits ? bits : UINT64_MAX;
	d->end_pos = end;
	return 0;
}

int bzip2_span_open(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
		    struct err *err)
{
	struct bzip2_span *d;

	/* Without sums the checks of the stream are needed to its end. */
	if (!span->payload.size && !span->sums.size)
		return codec_span_from_start(&codec_bzip2, raw, span, ret, err);
	d = NEW(struct bzip2_span);
	d->base = (struct span_decoder){ .ops = &codec_bzip2,
					 .raw = raw,
					 .weight = sizeof(*d) + BZIP2_WEIGHT };
	d->phase = PHASE_BETWEEN;
	d->in.at = span->in;
	d->in.end = span->in_end;
	d->out = span->out;
	d->out_end = span->out_end;
	if (span->payload.size) {
		d->phase = PHASE_HEADER;
		if (read_payload(d, span->payload, err) < 0) {
			bzip2_span_close(&d->base);
			return -1;
		}
	}
	*ret = &d->base;
	return 0;
}
