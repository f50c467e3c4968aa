/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What files of profiles are packed in: gzip, written, since pprof's are; any of codec's, read.
 */
#include "profile/internal.h"

#include <zlib.h>
#include "codec/codec.h"

#define PIECE        MIB(1)
#define LEVEL        6
#define WINDOW_GZIP  (15 + 16) /* the largest window, gzip's header and check sum */
#define MEMORY_LEVEL 8

static int deflate_all(z_stream *z, struct bytes in, struct buf *out, struct err *err)
{
	int r = Z_OK;

	while (r != Z_STREAM_END) {
		uint8_t *to = buf_try_reserve(out, PIECE);

		if (!to)
			return err_set(err, ERR_LIMIT, "no memory");
		if (!z->avail_in) {
			z->avail_in = (uInt)MIN(in.size, PIECE);
			z->next_in = (Bytef *)in.p;
			in.p += z->avail_in;
			in.size -= z->avail_in;
		}
		z->next_out = to;
		z->avail_out = (uInt)PIECE;
		r = deflate(z, in.size ? Z_NO_FLUSH : Z_FINISH);
		if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
			return err_set(err, ERR_INTERNAL, "zlib: %s", z->msg ? z->msg : "failed");
		out->size += PIECE - z->avail_out;
	}
	return 0;
}

int profile_gzip(struct bytes in, struct buf *out, struct err *err)
{
	z_stream z = { 0 };
	int r;

	if (deflateInit2(&z, LEVEL, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
		return err_set(err, ERR_LIMIT, "no memory for zlib");
	r = deflate_all(&z, in, out, err);
	deflateEnd(&z);
	return r;
}

int profile_unpack(struct bytes *in, const struct profile_limits *limits, struct buf *room, struct err *err)
{
	uint64_t max = limits && limits->max_size ? limits->max_size : PROFILE_MAX_SIZE;
	enum codec_kind kind = codec_detect(*in);

	/* .lzma has no magic: a message of profile.proto may look like it. */
	if (kind != CODEC_NONE && kind != CODEC_LZMA) {
		if (codec_decode_all(kind, *in, max, room, err) < 0)
			return -1;
		*in = buf_bytes(room);
	}
	if (in->size > max)
		return err_set(err, ERR_LIMIT, "is larger than the limit of %llu MiB",
			       (unsigned long long)(max >> 20));
	return in->size ? 0 : err_set(err, ERR_INVALID, "is empty");
}
