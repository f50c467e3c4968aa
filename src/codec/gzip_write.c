/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressing with gzip: a buffer, or bytes as they come.
 */
#include "codec/internal.h"

#include <stdlib.h>
#include <zlib.h>

#define CHUNK        MIB(1)
#define SMALL_CHUNK  KIB(64)   /* of a stream */
#define WINDOW_GZIP  (15 + 16) /* the largest window, gzip's header and checksum */
#define MEMORY_LEVEL 8

static int gzip_init(z_stream *z, int level, struct err *err)
{
	if (deflateInit2(z, level, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
		return err_set(err, ERR_LIMIT, "no memory for zlib");
	return 0;
}

static int gzip_failed(const z_stream *z, struct err *err)
{
	return err_set(err, ERR_INTERNAL, "zlib: %s", z->msg ? z->msg : "failed");
}

/* ---- a buffer ---- */

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
			return gzip_failed(z, err);
		out->size += CHUNK - z->avail_out;
	}
	return 0;
}

int codec_pack_gzip(struct bytes in, int level, struct buf *out, struct err *err)
{
	z_stream z = { 0 };
	int r;

	if (gzip_init(&z, level, err) < 0)
		return -1;
	r = deflate_all(&z, in, out, err);
	deflateEnd(&z);
	return r;
}

/* ---- as bytes come ---- */

struct codec_gzip {
	z_stream z;
	int (*out)(void *arg, struct bytes b, struct err *err);
	void *arg;
	uint8_t chunk[SMALL_CHUNK];
};

struct codec_gzip *codec_gzip_new(int level, int (*out)(void *arg, struct bytes b, struct err *err),
				  void *arg, struct err *err)
{
	struct codec_gzip *g = NEW(struct codec_gzip);

	g->out = out;
	g->arg = arg;
	if (gzip_init(&g->z, level, err) < 0) {
		free(g);
		return NULL;
	}
	g->z.next_out = g->chunk;
	g->z.avail_out = sizeof(g->chunk);
	return g;
}

static int gzip_pass_on(struct codec_gzip *g, struct err *err)
{
	size_t size = sizeof(g->chunk) - g->z.avail_out;

	g->z.next_out = g->chunk;
	g->z.avail_out = sizeof(g->chunk);
	return size ? g->out(g->arg, bytes_of(g->chunk, size), err) : 0;
}

int codec_gzip_write(struct codec_gzip *g, struct bytes b, struct err *err)
{
	while (b.size) {
		size_t n = MIN(b.size, CHUNK);

		g->z.next_in = (Bytef *)b.p;
		g->z.avail_in = (uInt)n;
		while (g->z.avail_in) {
			int r = deflate(&g->z, Z_NO_FLUSH);

			if (r != Z_OK && r != Z_BUF_ERROR)
				return gzip_failed(&g->z, err);
			if (!g->z.avail_out && gzip_pass_on(g, err) < 0)
				return -1;
		}
		b = bytes_of(b.p + n, b.size - n);
	}
	return 0;
}

int codec_gzip_end(struct codec_gzip *g, struct err *err)
{
	int r;

	g->z.avail_in = 0;
	do {
		r = deflate(&g->z, Z_FINISH);
		if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
			return gzip_failed(&g->z, err);
		if (gzip_pass_on(g, err) < 0)
			return -1;
	} while (r != Z_STREAM_END);
	return 0;
}

void codec_gzip_free(struct codec_gzip *g)
{
	if (!g)
		return;
	deflateEnd(&g->z);
	free(g);
}
