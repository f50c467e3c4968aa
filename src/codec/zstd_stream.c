/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sequential stream: libzstd's streaming decoder under filter.c, frame by frame.
 */
#include "codec/zstd.h"

#include <stdlib.h>
#include <zstd.h>

struct zstd_coder {
	struct coder base;
	ZSTD_DCtx *zstd;
};

static int zstd_coder_step(struct coder *base, struct bytes *in, uint8_t *out, size_t room, size_t *ret_got,
			   struct err *err)
{
	struct zstd_coder *c = CONTAINER_OF(base, struct zstd_coder, base);
	ZSTD_inBuffer zin = { in->p, in->size, 0 };
	ZSTD_outBuffer zout = { out, room, 0 };
	size_t r = ZSTD_decompressStream(c->zstd, &zout, &zin);

	if (ZSTD_isError(r))
		return zstd_err(err, r);
	in->p += zin.pos;
	in->size -= zin.pos;
	*ret_got = zout.pos;
	return r == 0 ? CODER_END : 0;
}

/* libzstd continues with the next frame by itself. */
static int zstd_coder_restart(struct coder *base, struct err *err)
{
	return 0;
}

static void zstd_coder_close(struct coder *base)
{
	struct zstd_coder *c = CONTAINER_OF(base, struct zstd_coder, base);

	ZSTD_freeDCtx(c->zstd);
	free(c);
}

static const struct coder_ops coder_ops = {
	.step = zstd_coder_step,
	.restart = zstd_coder_restart,
	.close = zstd_coder_close,
};

int zstd_stream_open(struct stream *raw, struct stream **ret, struct err *err)
{
	struct zstd_coder *c = NEW(struct zstd_coder);

	c->base.ops = &coder_ops;
	c->zstd = ZSTD_createDCtx();
	if (!c->zstd) {
		free(c);
		stream_close(raw);
		return err_set(err, ERR_LIMIT, "zstd: no memory for a decoder");
	}
	ZSTD_DCtx_setParameter(c->zstd, ZSTD_d_windowLogMax, ZSTD_MAX_WINDOW_LOG);
	*ret = filter_new(raw, &c->base);
	return 0;
}
