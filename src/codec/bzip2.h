/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the bzip2 codec share.
 */
#pragma once

#include "codec/internal.h"

#include <bzlib.h>

#define BZIP2_STEP_MAX MIB(512) /* libbz2 counts in unsigned int */

/* Says what libbz2's @r means. Returns -1. */
int bzip2_error(int r, struct err *err);
/* One call of the decoder: as coder_ops.step. */
int bzip2_step(bz_stream *bz, struct bytes *in, uint8_t *out, size_t room, size_t *ret_got, struct err *err);
