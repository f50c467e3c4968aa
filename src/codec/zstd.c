/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd's row in the table of codecs.
 */
#include "codec/zstd.h"

/* The spacing depends on the window, which is known only from the frame: zstd_mark.c. */
const struct codec_ops codec_zstd = {
	.kind = CODEC_ZSTD,
	.name = "zstd",
	.default_spacing = 0,
	.default_min_size = MIB(64),
	.stream_open = zstd_stream_open,
	.scan_open = zstd_scan_open,
	.scan_landmark = zstd_scan_landmark,
	.scan_spans = zstd_scan_spans,
	.scan_renice = zstd_scan_renice,
	.scan_close = zstd_scan_close,
	.span_open = zstd_span_open,
	.span_read = zstd_span_read,
	.span_close = zstd_span_close,
};
