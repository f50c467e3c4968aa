/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip (RFC 1952) by zlib: members one after the other. Spans and the scan are in gzip_span.c and
 * gzip_scan.c.
 */
#include "codec/gzip.h"

#include <stdlib.h>

struct gzip_coder {
	struct coder base;
	z_stream z;
};

int gzip_error(const z_stream *z, int r, struct err *err)
{
	if (r == Z_MEM_ERROR)
		return err_set(err, ERR_LIMIT, "no memory to decode with");
	if (r == Z_DATA_ERROR || r == Z_NEED_DICT)
		return err_set(err, ERR_INVALID, "%s", z->msg ? z->msg : "damaged");
	return err_set(err, ERR_INTERNAL, "zlib: error %d", r);
}

static int gzip_step(struct coder *c, struct bytes *in, uint8_t *out, size_t room, size_t *ret_got,
		     struct err *err)
{
	z_stream *z = &CONTAINER_OF(c, struct gzip_coder, base)->z;
	uInt n_in = (uInt)MIN(in->size, GZIP_STEP_MAX), n_out = (uInt)MIN(room, GZIP_STEP_MAX);
	int r;

	z->next_in = (Bytef *)in->p;
	z->avail_in = n_in;
	z->next_out = out;
	z->avail_out = n_out;
	r = inflate(z, Z_NO_FLUSH);
	*in = bytes_of(z->next_in, in->size - (n_in - z->avail_in));
	*ret_got = n_out - z->avail_out;
	if (r == Z_STREAM_END)
		return CODER_END;
	return r == Z_OK || r == Z_BUF_ERROR ? 0 : gzip_error(z, r, err);
}

static int gzip_restart(struct coder *c, struct err *err)
{
	z_stream *z = &CONTAINER_OF(c, struct gzip_coder, base)->z;
	int r = inflateReset(z);

	return r == Z_OK ? 0 : gzip_error(z, r, err);
}

static void gzip_close(struct coder *c)
{
	struct gzip_coder *g = CONTAINER_OF(c, struct gzip_coder, base);

	inflateEnd(&g->z);
	free(g);
}

static const struct coder_ops gzip_coder_ops = {
	.step = gzip_step,
	.restart = gzip_restart,
	.close = gzip_close,
};

static int gzip_stream_open(struct stream *raw, struct stream **ret, struct err *err)
{
	struct gzip_coder *g = NEW(struct gzip_coder);
	int r = inflateInit2(&g->z, GZIP_WITH_HEADER);

	g->base.ops = &gzip_coder_ops;
	if (r != Z_OK) {
		gzip_error(&g->z, r, err);
		free(g);
		stream_close(raw);
		return -1;
	}
	*ret = filter_new(raw, &g->base);
	return 0;
}

const struct codec_ops codec_gzip = {
	.kind = CODEC_GZIP,
	.name = "gzip",
	.default_spacing = MIB(16),
	.default_min_size = MIB(16),
	.stream_open = gzip_stream_open,
	.scan_open = gzip_scan_open,
	.scan_landmark = gzip_scan_landmark,
	.scan_spans = gzip_scan_spans,
	.scan_close = gzip_scan_close,
	.span_open = gzip_span_open,
	.span_read = gzip_span_read,
	.span_close = gzip_span_close,
};
