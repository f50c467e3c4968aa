/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decode one span: an unmodified libzstd, a synthesized frame header, the dictionary of the point, and the
 * original bytes from its boundary on.
 *
 * The synthesized header has neither content size nor checksum, since only a part of the frame is decoded,
 * and the smallest sufficient window: a dictionary stays within reach until a window's worth of bytes was
 * decoded, so a span shorter than the original window needs no window larger than itself. Input ends where
 * the span does: the bytes after it would refer to history that only the next point has.
 */
#include "codec/zstd.h"

#include <stdlib.h>
/* To load a dictionary without copying it. All versions of the library export this function, although the
 * header calls it static-only. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#define IN_SIZE      KIB(64)
#define DISCARD_SIZE KIB(64)

/* In addition to window, block and dictionary: libzstd's context, and our buffers. */
#define OWN_WEIGHT KIB(512)

struct zstd_span {
	struct span_decoder base;
	ZSTD_DCtx *zstd;
	struct zstd_payload payload; /* zeroed: the span starts with a frame */
	uint64_t in, in_end;         /* compressed bytes not read yet */
	uint64_t left;               /* decoded bytes to come */
	bool between;                /* a frame has ended and no other has started */
	bool checks_end;             /* no sums verify the bytes: the checksum after the last one has to */
	ZSTD_inBuffer input;
	uint8_t header[6];
	uint8_t *buf;     /* IN_SIZE */
	uint8_t *discard; /* DISCARD_SIZE, NULL until needed */
};

static int span_load_dict(struct zstd_span *s, const struct codec_span *span,
			  const struct zstd_span_options *opts, struct err *err)
{
	static const uint8_t magic[4] = { 0x28, 0xb5, 0x2f, 0xfd };
	uint64_t need = MAX(span->out_end - span->out, ZSTD_BLOCK_MAX);
	size_t head, r;

	if (zstd_payload_open(span->payload, opts->fill, &s->payload, err) < 0)
		return -1;
	head = s->payload.dict_size - s->payload.history;
	if (opts->only_history)
		r = ZSTD_DCtx_loadDictionary_advanced(s->zstd, s->payload.dict + head, s->payload.history,
						      ZSTD_dlm_byRef, ZSTD_dct_rawContent);
	else
		r = ZSTD_DCtx_loadDictionary_byReference(s->zstd, s->payload.dict, s->payload.dict_size);
	if (ZSTD_isError(r)) {
		zstd_err(err, r);
		return err_in(err, "resume point");
	}
	memcpy(s->header, magic, 4);
	s->header[4] = 0;
	s->header[5] = zstd_window_byte(MIN(s->payload.window, need));
	s->input = (ZSTD_inBuffer){ s->header, sizeof(s->header), 0 };
	s->base.weight += s->payload.touched + MIN(s->payload.window, need);
	return 0;
}

static const struct codec_ops zstd_span_ops = {
	.span_read = zstd_span_read,
	.span_close = zstd_span_close,
};

int zstd_span_open_with(struct source *raw, const struct codec_span *span,
			const struct zstd_span_options *opts, struct span_decoder **ret, struct err *err)
{
	struct zstd_span *s = NEW(struct zstd_span);

	s->base.ops = &zstd_span_ops;
	s->base.raw = raw;
	s->base.weight = OWN_WEIGHT;
	s->in = span->in;
	s->in_end = span->in_end;
	s->left = span->out_end - span->out;
	s->checks_end = !span->payload.size && !span->sums.size;
	s->buf = mem_alloc(IN_SIZE);
	s->zstd = ZSTD_createDCtx();
	if (!s->zstd) {
		zstd_span_close(&s->base);
		return err_set(err, ERR_LIMIT, "zstd: no memory for a decoder");
	}
	ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, ZSTD_MAX_WINDOW_LOG);
	if (span->payload.size && span_load_dict(s, span, opts, err) < 0) {
		zstd_span_close(&s->base);
		return -1;
	}
	*ret = &s->base;
	return 0;
}

int zstd_span_open(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
		   struct err *err)
{
	return zstd_span_open_with(raw, span, &(struct zstd_span_options){ 0 }, ret, err);
}

static int span_refill(struct zstd_span *s, struct err *err)
{
	size_t got;

	if (s->input.pos < s->input.size)
		return 0;
	/* At the end of the input libzstd may still have bytes to deliver. */
	s->input = (ZSTD_inBuffer){ s->buf, 0, 0 };
	if (s->in >= s->in_end)
		return 0;
	if (source_read(s->base.raw, s->in, s->buf, MIN(IN_SIZE, s->in_end - s->in), SOURCE_SEQUENTIAL, &got,
			err) < 0)
		return -1;
	if (!got)
		return err_set(err, ERR_INVALID, "zstd: a span ends early at compressed offset %llu",
			       (unsigned long long)s->in);
	s->in += got;
	s->input.size = got;
	return 0;
}

static uint64_t span_at(const struct zstd_span *s)
{
	return s->in - (s->input.size - s->input.pos);
}

/* Between frames, skip zeros: libzstd does not know them. */
static void span_skip_zeros(struct zstd_span *s)
{
	const uint8_t *p = s->input.src;

	while (s->between && s->input.pos < s->input.size && !p[s->input.pos])
		s->input.pos++;
	s->between = s->between && s->input.pos == s->input.size;
}

/* One call of libzstd, into @out, or zeros skipped. */
static int span_step(struct zstd_span *s, ZSTD_outBuffer *out, struct err *err)
{
	size_t before = out->pos, r;

	if (span_refill(s, err) < 0)
		return -1;
	span_skip_zeros(s);
	if (s->between && s->in < s->in_end)
		return 0;
	r = ZSTD_decompressStream(s->zstd, out, &s->input);
	if (ZSTD_isError(r)) {
		zstd_err(err, r);
		return err_in(err, "near compressed offset %llu", (unsigned long long)span_at(s));
	}
	s->between = r == 0;
	if (!s->between && out->pos == before && s->input.pos == s->input.size && s->in >= s->in_end)
		return err_set(err, ERR_INVALID, "zstd: a span ends early at compressed offset %llu",
			       (unsigned long long)span_at(s));
	return 0;
}

/*
 * The checksum of the last frame may not be read yet: verify it before the last bytes are delivered. More bytes may come: a map
 * that was made during the scan has the size so far.
 */
static int span_check_end(struct zstd_span *s, struct err *err)
{
	uint8_t more;
	ZSTD_outBuffer out = { &more, 1, 0 };

	while (!s->between && !out.pos)
		if (span_step(s, &out, err) < 0)
			return -1;
	return 0;
}

int zstd_span_read(struct span_decoder *d, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct zstd_span *s = CONTAINER_OF(d, struct zstd_span, base);
	ZSTD_outBuffer out;

	if (!buf) {
		if (!s->discard)
			s->discard = mem_alloc(DISCARD_SIZE);
		buf = s->discard;
		n = MIN(n, DISCARD_SIZE);
	}
	out = (ZSTD_outBuffer){ buf, MIN(n, s->left), 0 };
	while (out.pos < out.size) {
		if (span_step(s, &out, err) < 0)
			return -1;
		/* Only a span without a dictionary may continue with the next frame. */
		if (s->between && s->payload.dict && out.pos < out.size)
			return err_set(err, ERR_INVALID,
				       "zstd: the frame of a span ends early at compressed offset %llu",
				       (unsigned long long)span_at(s));
	}
	s->left -= out.pos;
	if (!s->left && s->checks_end && span_check_end(s, err) < 0)
		return -1;
	*ret_got = out.pos;
	return 0;
}

void zstd_span_close(struct span_decoder *d)
{
	struct zstd_span *s;

	if (!d)
		return;
	s = CONTAINER_OF(d, struct zstd_span, base);
	ZSTD_freeDCtx(s->zstd);
	zstd_payload_done(&s->payload);
	free(s->buf);
	free(s->discard);
	free(s);
}
