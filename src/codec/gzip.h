/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the gzip codec share.
 */
#pragma once

#include "codec/internal.h"

#define ZLIB_CONST
#include <zlib.h>

#define GZIP_WITH_HEADER (15 + 16) /* zlib's windowBits: 32 KiB, header and trailer of gzip */
#define GZIP_RAW         (-15)     /* neither */
#define GZIP_WINDOW      KIB(32)
#define GZIP_STEP_MAX    MIB(512) /* zlib counts in unsigned int */

/* Says what zlib's @r means. Returns -1. */
int gzip_error(const z_stream *z, int r, struct err *err);
