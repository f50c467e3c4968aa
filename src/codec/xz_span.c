/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans of xz: whole blocks, one or a few, decoded by liblzma's block decoder. It verifies the check after
 * each block before the last byte is delivered, unless the span has sums: these are compared before any byte
 * is delivered, and verifying the check also over discarded bytes would cost a tenth of the decoding.
 */
#include "codec/xz.h"

#include <stdlib.h>

#define SKIP_SIZE KIB(64)

struct xz_span {
	struct span_decoder base;
	lzma_stream lz;
	lzma_block block; /* the current block: liblzma keeps a pointer to it */
	lzma_filter filters[LZMA_FILTERS_MAX + 1];
	bool in_block;
	bool open_end;
	bool ignore_check; /* of the block: its header's decoder clears it */
	uint64_t in_end, out, out_end;
	struct span_input in;
};

struct bytes xz_payload(unsigned check, bool open_end)
{
	static const uint8_t closed[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	static const uint8_t open[] = { 128, 129, 130, 131, 132, 133, 134, 135,
					136, 137, 138, 139, 140, 141, 142, 143 };

	return bytes_of((open_end ? open : closed) + (check & XZ_CHECK_MASK), 1);
}

static void free_filters(lzma_filter *filters)
{
	for (size_t i = 0; i < LZMA_FILTERS_MAX && filters[i].id != LZMA_VLI_UNKNOWN; i++)
		free(filters[i].options);
}

static int start_decoder(struct xz_span *d, struct err *err)
{
	uint64_t memory;
	lzma_ret r = lzma_block_header_decode(&d->block, NULL, d->in.b.p);

	if (r != LZMA_OK)
		return xz_error(r, err);
	d->block.ignore_check = d->ignore_check;
	memory = lzma_raw_decoder_memusage(d->filters);
	/* liblzma returns UINT64_MAX for unsupported filters. */
	if (memory > XZ_MEMLIMIT && memory != UINT64_MAX)
		r = LZMA_MEMLIMIT_ERROR;
	else
		r = lzma_block_decoder(&d->lz, &d->block);
	free_filters(d->filters);
	if (r != LZMA_OK)
		return xz_error(r, err);
	d->base.weight = sizeof(*d) + (size_t)memory;
	return 0;
}

static int start_block(struct xz_span *d, struct err *err)
{
	if (span_input_fetch(&d->in, d->base.raw, 1, err) < 0)
		return -1;
	if (!*d->in.b.p)
		return err_set(err, ERR_INVALID, "no block where one should be");
	d->block.header_size = lzma_block_header_size_decode(*d->in.b.p);
	d->block.filters = d->filters;
	if (span_input_fetch(&d->in, d->base.raw, d->block.header_size, err) < 0 || start_decoder(d, err) < 0)
		return -1;
	d->block.filters = NULL;
	span_input_use(&d->in, d->block.header_size);
	d->in_block = true;
	return 0;
}

/* Decode some bytes, or find the end of the block: then its check has been verified. @room may be 0 for only
 * that. */
static int block_step(struct xz_span *d, uint8_t *out, size_t room, size_t *ret_got, struct err *err)
{
	lzma_ret r;

	if (!d->in.b.size && span_input_fetch(&d->in, d->base.raw, 0, err) < 0)
		return -1;
	d->lz.next_in = d->in.b.p;
	d->lz.avail_in = d->in.b.size;
	d->lz.next_out = out;
	d->lz.avail_out = room;
	r = lzma_code(&d->lz, LZMA_RUN);
	d->in.b = bytes_of(d->lz.next_in, d->lz.avail_in);
	*ret_got = room - d->lz.avail_out;
	if (r == LZMA_STREAM_END)
		d->in_block = false;
	else if (r == LZMA_BUF_ERROR)
		return err_set(err, ERR_INVALID, "block does not end where the index says");
	else if (r != LZMA_OK)
		return xz_error(r, err);
	return 0;
}

/* After the span's last byte: its block must end here. */
static int xz_span_finish(struct xz_span *d, struct err *err)
{
	uint8_t none;
	size_t got;

	while (d->in_block)
		if (block_step(d, &none, 0, &got, err) < 0)
			return -1;
	if (span_input_pos(&d->in) != d->in_end)
		return err_set(err, ERR_INVALID, "block ends before the index says");
	return 0;
}

int xz_span_read(struct span_decoder *base, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct xz_span *d;
	uint8_t thrown[SKIP_SIZE];
	size_t got = 0;

	d = CONTAINER_OF(base, struct xz_span, base);
	if (!buf)
		n = MIN(n, sizeof(thrown));
	n = (size_t)MIN((uint64_t)n, d->out_end - d->out);
	while (!got) {
		if (!d->in_block && start_block(d, err) < 0)
			return -1;
		if (block_step(d, buf ? buf : thrown, n, &got, err) < 0)
			return -1;
	}
	d->out += got;
	if (d->out == d->out_end && !d->open_end && xz_span_finish(d, err) < 0)
		return -1;
	*ret_got = got;
	return 0;
}

void xz_span_close(struct span_decoder *base)
{
	struct xz_span *d = CONTAINER_OF(base, struct xz_span, base);

	lzma_end(&d->lz);
	free(d);
}

int xz_span_open(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
		 struct err *err)
{
	struct xz_span *d;

	if (!span->payload.size)
		return codec_span_from_start(&codec_xz, raw, span, ret, err);
	if (span->payload.size != 1 || span->payload.p[0] & ~(XZ_CHECK_MASK | XZ_OPEN_END))
		return err_set(err, ERR_INVALID, "resume point with an invalid payload");
	d = NEW(struct xz_span);
	d->base = (struct span_decoder){ .ops = &codec_xz, .raw = raw, .weight = sizeof(*d) };
	d->lz = (lzma_stream)LZMA_STREAM_INIT;
	d->block.version = 1; /* has ignore_check */
	d->block.check = span->payload.p[0] & XZ_CHECK_MASK;
	d->ignore_check = span->sums.size > 0;
	d->open_end = span->payload.p[0] & XZ_OPEN_END;
	d->in.at = span->in;
	d->in.end = d->in_end = span->in_end;
	d->out = span->out;
	d->out_end = span->out_end;
	*ret = &d->base;
	return 0;
}
