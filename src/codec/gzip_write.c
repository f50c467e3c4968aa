/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressing a buffer with gzip.
 */
#include "codec/internal.h"

#include <zlib.h>

#define CHUNK        MIB(1)
#define WINDOW_GZIP  (15 + 16) /* the largest window, gzip's header and checksum */
#define MEMORY_LEVEL 8

static int deflate_all(z_stream *z, struct bytes in, struct buf *out, struct err *err)
{
	int r = Z_OK;

	while (r != Z_STREAM_END) {
		uint8_t *to = buf_try_reserve(out, CHUNK);

		if (!to)
			return err_set(err, ERR_LIMIT, "no memory");
		if (!z->avail_in) {
			z->avail_in = (uInt)MIN(in.size, CHUNK);
			z->next_in = (Bytef *)in.p;
			in.p += z->avail_in;
			in.size -= z->avail_in;
		}
		z->next_out = to;
		z->avail_out = (uInt)CHUNK;
		r = deflate(z, in.size ? Z_NO_FLUSH : Z_FINISH);
		if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
			return err_set(err, ERR_INTERNAL, "zlib: %s", z->msg ? z->msg : "failed");
		out->size += CHUNK - z->avail_out;
	}
	return 0;
}

int codec_pack_gzip(struct bytes in, int level, struct buf *out, struct err *err)
{
	z_stream z = { 0 };
	int r;

	if (deflateInit2(&z, level, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
		return err_set(err, ERR_LIMIT, "no memory for zlib");
	r = deflate_all(&z, in, out, err);
	deflateEnd(&z);
	return r;
}
