/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xz by liblzma, from the start to the end: streams one after the other. The block index, spans and the scan
 * are in xz_index.c, xz_span.c and xz_scan.c.
 */
#include "codec/xz.h"

#include <stdlib.h>

struct xz_coder {
	struct coder base;
	lzma_stream lz;
	lzma_ret (*init)(lzma_stream *lz);
	bool started;
};

int xz_error(lzma_ret r, struct err *err)
{
	switch (r) {
	case LZMA_MEM_ERROR:
		return err_set(err, ERR_LIMIT, "no memory to decode with");
	case LZMA_MEMLIMIT_ERROR:
		return err_set(err, ERR_LIMIT, "the dictionary is larger than the %zu MiB allowed",
			       CODEC_MAX_WINDOW >> 20);
	case LZMA_FORMAT_ERROR:
		return err_set(err, ERR_INVALID, "no header where one should be");
	case LZMA_OPTIONS_ERROR:
		return err_set(err, ERR_INVALID, "unsupported filter or option");
	case LZMA_DATA_ERROR:
		return err_set(err, ERR_INVALID, "damaged");
	default:
		return err_set(err, ERR_INTERNAL, "liblzma: error %d", (int)r);
	}
}

static int xz_step(struct coder *c, struct bytes *in, uint8_t *out, size_t room, size_t *ret_got,
		   struct err *err)
{
	struct xz_coder *x = CONTAINER_OF(c, struct xz_coder, base);
	lzma_ret r;

	if (!x->started) {
		r = x->init(&x->lz);
		if (r != LZMA_OK)
			return xz_error(r, err);
		x->started = true;
	}
	x->lz.next_in = in->p;
	x->lz.avail_in = in->size;
	x->lz.next_out = out;
	x->lz.avail_out = room;
	r = lzma_code(&x->lz, LZMA_RUN);
	*in = bytes_of(x->lz.next_in, x->lz.avail_in);
	*ret_got = room - x->lz.avail_out;
	if (r == LZMA_STREAM_END) {
		x->started = false;
		return CODER_END;
	}
	return r == LZMA_OK || r == LZMA_BUF_ERROR ? 0 : xz_error(r, err);
}

static int xz_restart(struct coder *c, struct err *err)
{
	return 0;
}

static void xz_close(struct coder *c)
{
	struct xz_coder *x = CONTAINER_OF(c, struct xz_coder, base);

	lzma_end(&x->lz);
	free(x);
}

static const struct coder_ops many_ops = {
	.step = xz_step,
	.restart = xz_restart,
	.close = xz_close,
};

static const struct coder_ops one_ops = {
	.step = xz_step,
	.close = xz_close,
};

struct stream *xz_filter(struct stream *raw, lzma_ret (*init)(lzma_stream *lz), bool one_member)
{
	struct xz_coder *x = NEW(struct xz_coder);

	x->base.ops = one_member ? &one_ops : &many_ops;
	x->lz = (lzma_stream)LZMA_STREAM_INIT;
	x->init = init;
	return filter_new(raw, &x->base);
}

static lzma_ret xz_init(lzma_stream *lz)
{
	return lzma_stream_decoder(lz, XZ_MEMLIMIT, 0);
}

static int xz_stream_open(struct stream *raw, struct stream **ret, struct err *err)
{
	*ret = xz_filter(raw, xz_init, false);
	return 0;
}

const struct codec_ops codec_xz = {
	.kind = CODEC_XZ,
	.name = "xz",
	.slow = true,
	.stream_open = xz_stream_open,
	.scan_open = xz_scan_open,
	.scan_spans = xz_scan_spans,
	.scan_renice = xz_scan_renice,
	.scan_close = xz_scan_close,
	.span_open = xz_span_open,
	.span_read = xz_span_read,
	.span_close = xz_span_close,
};
