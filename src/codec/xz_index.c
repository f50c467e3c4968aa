/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block index of an xz file. Each stream ends with one; liblzma reads them from the back of the file to
 * the front, through padding, and checks each against its footer and CRC. Whether the index is right about a
 * block shows only when the block is decoded.
 */
#include "base/vec.h"
#include "codec/xz.h"

#include <stdlib.h>

/*
 * 16 bytes a block: 258 000 of them; 313 bytes a stream of one block: 13 000 of them. liblzma joins the indexes of streams
 * in time that grows with the square of their number: 80 000 streams, of 2.5 MB, would take half a minute.
 */
#define INDEX_MEMLIMIT MIB(4)
/* Each stream takes two or three; a file of more streams is read from the start. */
#define SEEKS_MAX 200000
#define IN_SIZE   KIB(8)

static void index_end(lzma_index **i)
{
	lzma_index_end(*i, NULL);
}

/* 0, XZ_NO_INDEX, or a failed read. */
static int index_decode(lzma_stream *lz, struct source *raw, struct byte_range range, struct err *err)
{
	uint8_t buf[IN_SIZE];
	uint64_t at = 0;
	unsigned n_seeks = 0;

	for (;;) {
		lzma_ret r;

		if (!lz->avail_in && at < range.size) {
			size_t n = (size_t)MIN(range.size - at, sizeof(buf));

			if (source_read_full(raw, range.off + at, buf, n, SOURCE_RANDOM, err) < 0)
				return -1;
			lz->next_in = buf;
			lz->avail_in = n;
			at += n;
		}
		r = lzma_code(lz, at == range.size ? LZMA_FINISH : LZMA_RUN);
		if (r == LZMA_STREAM_END)
			return 0;
		if (r == LZMA_SEEK_NEEDED && n_seeks++ < SEEKS_MAX) {
			at = lz->seek_pos;
			lz->avail_in = 0;
		} else if (r != LZMA_OK) {
			return XZ_NO_INDEX;
		}
	}
}

static bool may_join(const struct codec_span *s, const lzma_index_iter *it)
{
	return s->out_end - s->out < CODEC_XZ_SPAN_MIN && s->in_end == it->block.compressed_file_offset &&
	       s->payload.p[0] == it->stream.flags->check;
}

static int index_spans(const lzma_index *index, struct codec_spans *ret)
{
	struct codec_spans spans = { 0 };
	size_t room = 0;
	lzma_index_iter it;

	lzma_index_iter_init(&it, index);
	while (!lzma_index_iter_next(&it, LZMA_INDEX_ITER_NONEMPTY_BLOCK)) {
		uint64_t in = it.block.compressed_file_offset, out = it.block.uncompressed_file_offset;
		struct codec_span *last = spans.n ? &spans.v[spans.n - 1] : NULL;

		if (last && may_join(last, &it)) {
			last->in_end = in + it.block.total_size;
			last->out_end = out + it.block.uncompressed_size;
			continue;
		}
		if (spans.n >= codec_xz_spans_max(lzma_index_uncompressed_size(index))) {
			free(spans.v);
			return XZ_NO_INDEX;
		}
		VEC_PUSH(spans.v, spans.n, room) = (struct codec_span){
			.in = in,
			.in_end = in + it.block.total_size,
			.out = out,
			.out_end = out + it.block.uncompressed_size,
			.payload = xz_payload(it.stream.flags->check, false),
		};
	}
	if (!spans.n)
		return XZ_NO_INDEX;
	*ret = spans;
	return 0;
}

int xz_index_read(struct source *raw, struct byte_range range, struct codec_spans *ret, struct err *err)
{
	AUTO(index_end) lzma_index *index = NULL;
	lzma_stream lz = LZMA_STREAM_INIT;
	int r = XZ_NO_INDEX;

	if (lzma_file_info_decoder(&lz, &index, INDEX_MEMLIMIT, range.size) == LZMA_OK)
		r = index_decode(&lz, raw, range, err);
	lzma_end(&lz);
	if (r)
		return r;
	return index_spans(index, ret);
}
