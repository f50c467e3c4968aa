/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interfaces between the files of the bzip2 codec.
 */
#pragma once

#include "codec/internal.h"

#include <bzlib.h>

#define BZIP2_STEP_MAX MIB(512) /* libbz2 counts in unsigned int */

/* Sets the error of libbz2's return value @r. Returns -1. */
int bzip2_error(int r, struct err *err);
/* One call of the decoder: as coder_ops.step. */
int bzip2_step(bz_stream *bz, struct bytes *in, uint8_t *out, size_t room, size_t *ret_got, struct err *err);

#define BZIP2_HEADER_SIZE 4 /* of a stream: "BZh" and the level */
#define BZIP2_MAGIC_BITS  48
#define BZIP2_BLOCK_MAGIC UINT64_C(0x314159265359)
#define BZIP2_END_MAGIC   UINT64_C(0x177245385090) /* after the last block; a CRC of 32 bits follows */
#define BZIP2_END_BITS    (BZIP2_MAGIC_BITS + 32)
/* libbz2's allocation for blocks of 900 kB. */
#define BZIP2_WEIGHT MIB(4)

int bzip2_scan_open(struct source *raw, struct byte_range range, const struct codec_scan_options *opts,
		    struct codec_scan **ret, struct err *err);
int bzip2_scan_spans(struct codec_scan *s, struct arena *a, struct codec_spans *ret, struct err *err);
void bzip2_scan_close(struct codec_scan *s);

int bzip2_span_open(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
		    struct err *err);
int bzip2_span_read(struct span_decoder *base, void *buf, size_t n, size_t *ret_got, struct err *err);
void bzip2_span_close(struct span_decoder *base);
