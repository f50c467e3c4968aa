/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression for packages made in memory.
 */
#include "pkg_writer.h"

#include <assert.h>
#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

static void gzip(struct buf *out, int level, struct bytes in)
{
	z_stream z = { .next_in = (uint8_t *)in.p, .avail_in = (uInt)in.size };
	int r;

	r = deflateInit2(&z, level ? level : 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
	assert(r == Z_OK);
	z.avail_out = (uInt)deflateBound(&z, in.size);
	z.next_out = buf_reserve(out, z.avail_out);
	r = deflate(&z, Z_FINISH);
	assert(r == Z_STREAM_END);
	out->size += z.total_out;
	deflateEnd(&z);
}

static void xz(struct buf *out, int level, struct bytes in)
{
	size_t room = lzma_stream_buffer_bound(in.size), pos = 0;
	uint8_t *p = buf_reserve(out, room);
	lzma_ret r = lzma_easy_buffer_encode(level ? (uint32_t)level : 6, LZMA_CHECK_CRC64, NULL, in.p,
					     in.size, p, &pos, room);

	assert(r == LZMA_OK);
	out->size += pos;
}

static void lzma(struct buf *out, int level, struct bytes in)
{
	size_t room = in.size + in.size / 8 + KIB(64);
	lzma_stream s = LZMA_STREAM_INIT;
	lzma_options_lzma options;
	lzma_ret r;

	lzma_lzma_preset(&options, level ? (uint32_t)level : 6);
	r = lzma_alone_encoder(&s, &options);
	assert(r == LZMA_OK);
	s.next_in = in.p;
	s.avail_in = in.size;
	s.next_out = buf_reserve(out, room);
	s.avail_out = room;
	r = lzma_code(&s, LZMA_FINISH);
	assert(r == LZMA_STREAM_END);
	out->size += s.total_out;
	lzma_end(&s);
}

static void zstd(struct buf *out, int level, struct bytes in)
{
	size_t room = ZSTD_compressBound(in.size);
	size_t n = ZSTD_compress(buf_reserve(out, room), room, in.p, in.size, level ? level : 3);

	assert(!ZSTD_isError(n));
	out->size += n;
}

static void bzip2(struct buf *out, int level, struct bytes in)
{
	unsigned n = (unsigned)(in.size + in.size / 100 + 1024);
	int r = BZ2_bzBuffToBuffCompress((char *)buf_reserve(out, n), &n, (char *)in.p, (unsigned)in.size,
					 level ? level : 9, 0, 0);

	assert(r == BZ_OK);
	out->size += n;
}

void pw_compress(struct buf *out, enum codec_kind kind, int level, struct bytes in)
{
	switch (kind) {
	case CODEC_GZIP:
		gzip(out, level, in);
		break;
	case CODEC_XZ:
		xz(out, level, in);
		break;
	case CODEC_LZMA:
		lzma(out, level, in);
		break;
	case CODEC_ZSTD:
		zstd(out, level, in);
		break;
	case CODEC_BZIP2:
		bzip2(out, level, in);
		break;
	case CODEC_NONE:
	case CODEC_N_KINDS:
		buf_add(out, in.p, in.size);
		break;
	}
}
