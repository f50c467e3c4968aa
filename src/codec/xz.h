/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interfaces between the files of the xz and .lzma codecs.
 */
#pragma once

#include "codec/internal.h"

#include <lzma.h>

/* The memory limit of a decoder: the dictionary and liblzma's own needs. */
#define XZ_MEMLIMIT (CODEC_MAX_WINDOW + MIB(1))

/* Sets the error of liblzma's return value @r. Returns -1. */
int xz_error(lzma_ret r, struct err *err);
/* A coder whose members start with @init. */
struct stream *xz_filter(struct stream *raw, lzma_ret (*init)(lzma_stream *lz), bool one_member);

/*
 * The spans that a file's own block index defines: blocks, small ones joined to CODEC_XZ_SPAN_MIN. XZ_NO_INDEX: the
 * file has no usable index (cut, damaged, absurdly large), or no content. The caller frees ret->v.
 */
enum { XZ_NO_INDEX = 1 };
int xz_index_read(struct source *raw, struct byte_range range, struct codec_spans *ret, struct err *err);

/*
 * The payload of such a span is one byte: the kind of check after each of its blocks, and whether the span
 * ends within one (points made during the scan). A span without payload is the content from its start on.
 */
#define XZ_CHECK_MASK 0x0f
#define XZ_OPEN_END   0x80
struct bytes xz_payload(unsigned check, bool open_end); /* static */

int xz_span_open(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
		 struct err *err);
int xz_span_read(struct span_decoder *base, void *buf, size_t n, size_t *ret_got, struct err *err);
void xz_span_close(struct span_decoder *base);

int xz_scan_open(struct source *raw, struct byte_range range, const struct codec_scan_options *opts,
		 struct codec_scan **ret, struct err *err);
int xz_scan_spans(struct codec_scan *s, struct arena *a, struct codec_spans *ret, struct err *err);
void xz_scan_renice(struct codec_scan *s, int nice);
void xz_scan_close(struct codec_scan *s);
