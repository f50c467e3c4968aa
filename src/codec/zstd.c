/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd's row in the table of codecs, and helpers of its files.
 */
#include "codec/zstd.h"

#include <sys/mman.h>
#include <zstd.h>
#include <zstd_errors.h>

int zstd_err(struct err *err, size_t code)
{
	ZSTD_ErrorCode c = ZSTD_getErrorCode(code);
	enum err_kind kind = ERR_INVALID;

	if (c == ZSTD_error_memory_allocation || c == ZSTD_error_frameParameter_windowTooLarge)
		kind = ERR_LIMIT;
	return err_set(err, kind, "zstd: %s", ZSTD_getErrorName(code));
}

void *zstd_map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		       0);

	return p == MAP_FAILED ? NULL : p;
}

void zstd_unmap(void *p, size_t size)
{
	if (p)
		munmap(p, size);
}

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
	.scan_close = zstd_scan_close,
	.span_open = zstd_span_open,
	.span_read = zstd_span_read,
	.span_close = zstd_span_close,
};
