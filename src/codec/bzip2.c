/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bzip2 by libbz2: streams one after the other. Spans and the scan are in bzip2_span.c and bzip2_scan.c.
 */
#include "codec/bzip2.h"

#include <stdlib.h>

struct bzip2_coder {
	struct coder base;
	bz_stream bz;
	bool started;
};

int bzip2_error(int r, struct err *err)
{
	switch (r) {
	case BZ_MEM_ERROR:
		return err_set(err, ERR_LIMIT, "no memory to decode with");
	case BZ_DATA_ERROR:
		return err_set(err, ERR_INVALID, "damaged");
	case BZ_DATA_ERROR_MAGIC:
		return err_set(err, ERR_INVALID, "no header where one should be");
	default:
		return err_set(err, ERR_INTERNAL, "libbz2: error %d", r);
	}
}

int bzip2_step(bz_stream *bz, struct bytes *in, uint8_t *out, size_t room, size_t *ret_got, struct err *err)
{
	unsigned n_in = (unsigned)MIN(in->size, BZIP2_STEP_MAX);
	unsigned n_out = (unsigned)MIN(room, BZIP2_STEP_MAX);
	int r;

	bz->next_in = (char *)in->p;
	bz->avail_in = n_in;
	bz->next_out = (char *)out;
	bz->avail_out = n_out;
	r = BZ2_bzDecompress(bz);
	*in = bytes_of(bz->next_in, in->size - (n_in - bz->avail_in));
	*ret_got = n_out - bz->avail_out;
	if (r == BZ_STREAM_END)
		return CODER_END;
	return r == BZ_OK ? 0 : bzip2_error(r, err);
}

static int bzip2_coder_step(struct coder *c, struct bytes *in, uint8_t *out, size_t room, size_t *ret_got,
			    struct err *err)
{
	return bzip2_step(&CONTAINER_OF(c, struct bzip2_coder, base)->bz, in, out, room, ret_got, err);
}

/* libbz2 cannot reset a decoder: each stream gets a new one. */
static int bzip2_restart(struct coder *c, struct err *err)
{
	struct bzip2_coder *b = CONTAINER_OF(c, struct bzip2_coder, base);
	int r;

	if (b->started)
		BZ2_bzDecompressEnd(&b->bz);
	b->bz = (bz_stream){ 0 };
	r = BZ2_bzDecompressInit(&b->bz, 0, 0);
	b->started = r == BZ_OK;
	return r == BZ_OK ? 0 : bzip2_error(r, err);
}

static void bzip2_close(struct coder *c)
{
	struct bzip2_coder *b = CONTAINER_OF(c, struct bzip2_coder, base);

	if (b->started)
		BZ2_bzDecompressEnd(&b->bz);
	free(b);
}

static const struct coder_ops bzip2_coder_ops = {
	.step = bzip2_coder_step,
	.restart = bzip2_restart,
	.close = bzip2_close,
};

static int bzip2_stream_open(struct stream *raw, struct stream **ret, struct err *err)
{
	struct bzip2_coder *b = NEW(struct bzip2_coder);

	b->base.ops = &bzip2_coder_ops;
	if (bzip2_restart(&b->base, err) < 0) {
		free(b);
		stream_close(raw);
		return -1;
	}
	*ret = filter_new(raw, &b->base);
	return 0;
}

const struct codec_ops codec_bzip2 = {
	.kind = CODEC_BZIP2,
	.name = "bzip2",
	.default_spacing = MIB(1),
	.default_min_size = MIB(1),
	.slow = true,
	.stream_open = bzip2_stream_open,
	.scan_open = bzip2_scan_open,
	.scan_spans = bzip2_scan_spans,
	.scan_close = bzip2_scan_close,
	.span_open = bzip2_span_open,
	.span_read = bzip2_span_read,
	.span_close = bzip2_span_close,
};
