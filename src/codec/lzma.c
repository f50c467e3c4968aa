/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .lzma ("LZMA alone") by liblzma. It has one stream, no blocks and no check; nothing in it can be resumed.
 */
#include "codec/xz.h"

static lzma_ret lzma_init(lzma_stream *lz)
{
	return lzma_alone_decoder(lz, XZ_MEMLIMIT);
}

static int lzma_stream_open(struct stream *raw, struct stream **ret, struct err *err)
{
	*ret = xz_filter(raw, lzma_init, true);
	return 0;
}

static int lzma_span_open(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
			  struct err *err)
{
	return codec_span_from_start(&codec_lzma, raw, span, ret, err);
}

const struct codec_ops codec_lzma = {
	.kind = CODEC_LZMA,
	.name = "lzma",
	.slow = true,
	.stream_open = lzma_stream_open,
	.span_open = lzma_span_open,
};
