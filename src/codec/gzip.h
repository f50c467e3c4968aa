/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interfaces between the files of the gzip codec.
 */
#pragma once

#include "codec/internal.h"

#define ZLIB_CONST
#include <zlib.h>

#define GZIP_WITH_HEADER (15 + 16) /* zlib's windowBits: 32 KiB, header and trailer of gzip */
#define GZIP_RAW         (-15)     /* neither */
#define GZIP_WINDOW      KIB(32)
#define GZIP_STEP_MAX    MIB(512) /* zlib counts in unsigned int */

/* Sets the error of zlib's return value @r. Returns -1. */
int gzip_error(const z_stream *z, int r, struct err *err);

/* A payload: a byte, the window's size, the window as deflate data that did not compress. */
#define GZIP_PAYLOAD_MAX (GZIP_WINDOW + KIB(1))

int gzip_scan_open(struct source *raw, struct byte_range range, const struct codec_scan_options *opts,
		   struct codec_scan **ret, struct err *err);
void gzip_scan_landmark(struct codec_scan *s, uint64_t off);
int gzip_scan_spans(struct codec_scan *s, struct arena *a, struct codec_spans *ret, struct err *err);
void gzip_scan_close(struct codec_scan *s);

int gzip_span_open(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
		   struct err *err);
int gzip_span_read(struct span_decoder *base, void *buf, size_t n, size_t *ret_got, struct err *err);
void gzip_span_close(struct span_decoder *base);
