/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd by libzstd, from the start to the end: frames one after the other.
 */
#include "codec/internal.h"

#include <stdlib.h>
#include <zstd.h>

#define WINDOW_LOG_MAX 29 /* CODEC_MAX_WINDOW */

struct zstd_coder {
	struct coder base;
	ZSTD_DCtx *ctx;
};

static int zstd_step(struct coder *c, struct bytes *in, uint8_t *out, size_t room, size_t *ret_got,
		     struct err *err)
{
	ZSTD_inBuffer src = { in->p, in->size, 0 };
	ZSTD_outBuffer dst = { out, room, 0 };
	size_t r = ZSTD_decompressStream(CONTAINER_OF(c, struct zstd_coder, base)->ctx, &dst, &src);

	if (ZSTD_isError(r))
		return err_set(err, ERR_INVALID, "%s", ZSTD_getErrorName(r));
	*in = bytes_of(in->p + src.pos, in->size - src.pos);
	*ret_got = dst.pos;
	return r == 0 ? CODER_END : 0;
}

static int zstd_restart(struct coder *c, struct err *err)
{
	return 0;
}

static void zstd_close(struct coder *c)
{
	struct zstd_coder *z = CONTAINER_OF(c, struct zstd_coder, base);

	ZSTD_freeDCtx(z->ctx);
	free(z);
}

static const struct coder_ops zstd_coder_ops = {
	.step = zstd_step,
	.restart = zstd_restart,
	.close = zstd_close,
};

static int zstd_stream_open(struct stream *raw, struct stream **ret, struct err *err)
{
	struct zstd_coder *z = NEW(struct zstd_coder);

	z->base.ops = &zstd_coder_ops;
	z->ctx = ZSTD_createDCtx();
	if (!z->ctx) {
		free(z);
		stream_close(raw);
		return err_set(err, ERR_LIMIT, "no memory to decode with");
	}
	ZSTD_DCtx_setParameter(z->ctx, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	*ret = filter_new(raw, &z->base);
	return 0;
}

static int zstd_span_open(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
			  struct err *err)
{
	return codec_span_from_start(&codec_zstd, raw, span, ret, err);
}

const struct codec_ops codec_zstd = {
	.kind = CODEC_ZSTD,
	.name = "zstd",
	.stream_open = zstd_stream_open,
	.span_open = zstd_span_open,
};
