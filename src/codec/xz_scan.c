/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan of an xz file by its block index: the spans are known before the first byte is decoded, so helpers
 * can decode the following ones. The reader gets views of the chunks.
 *
 * Memory: HELD decoded bytes that wait, per helper; a dictionary and a chunk for each helper and the reader.
 */
#include "codec/ahead.h"
#include "codec/xz.h"

#include <stdlib.h>

/* More than a usual block. While the reader decodes one, a helper decodes the next; with a much smaller limit
 * they would wait for each other, and a much larger one is never reached. */
#define HELD        MIB(32)
#define MAX_HELPERS 4

struct xz_scan {
	struct codec_scan base;
	struct source *content; /* the part of raw */
	struct codec_spans spans;
	struct pool *pool; /* NULL: no helpers */
	struct ahead *ahead;
	struct codec_chunk *chunk; /* lent to the reader; NULL before the first and after the last */
	size_t used;               /* bytes of the chunk that were delivered */
	struct codec_sums sums;
	size_t *marks; /* of the spans that have begun: where their sums start */
	size_t n_begun;
	uint64_t summed; /* decoded bytes that are summed */
};

static struct xz_scan *xz_scan_of(struct stream *s)
{
	return CONTAINER_OF(s, struct xz_scan, base.stream);
}

/* On to the next chunk. */
static int xz_scan_fetch(struct xz_scan *x, struct err *err)
{
	const struct codec_span *span;

	ahead_recycle(x->ahead, x->chunk);
	x->chunk = NULL;
	x->used = 0;
	if (ahead_next(x->ahead, &x->chunk, err) < 0)
		return -1;
	if (!x->chunk) {
		x->base.ended = true;
		return 0;
	}
	if (x->n_begun < x->spans.n && x->chunk->off == x->spans.v[x->n_begun].out) {
		codec_sums_cut(&x->sums);
		x->marks[x->n_begun++] = codec_sums_mark(&x->sums);
	}
	codec_sums_feed(&x->sums, x->chunk->data, x->chunk->size);
	x->summed += x->chunk->size;
	/* A span's last bytes are delivered only after its check was verified. */
	span = &x->spans.v[x->n_begun - 1];
	x->base.checked = x->summed == span->out_end ? x->summed : span->out;
	return 0;
}

static int xz_scan_next(struct stream *s, size_t max, struct bytes *ret, struct err *err)
{
	struct xz_scan *x = xz_scan_of(s);
	size_t n;

	if ((!x->chunk || x->used == x->chunk->size) && !x->base.ended && xz_scan_fetch(x, err) < 0)
		return -1;
	if (!x->chunk) {
		*ret = (struct bytes){ 0 };
		return 0;
	}
	n = MIN(max, x->chunk->size - x->used);
	*ret = bytes_of(x->chunk->data + x->used, n);
	x->used += n;
	x->base.out += n;
	return 0;
}

static const struct stream_ops xz_scan_stream_ops = {
	.read = codec_scan_read,
	.next = xz_scan_next,
	.close = codec_scan_stays,
};

int xz_scan_open(struct source *raw, struct byte_range range, const struct codec_scan_options *opts,
		 struct codec_scan **ret, struct err *err)
{
	struct codec_spans spans;
	struct xz_scan *x;
	struct codec_run start = { 0 };
	struct ahead_options o = { 0 };
	/* The reader decodes too, and occupies a core. */
	unsigned helpers = MIN(opts->threads > 1 ? opts->threads - 1 : opts->threads, MAX_HELPERS);
	int r = xz_index_read(raw, range, &spans, err);

	if (r)
		return r == XZ_NO_INDEX ? CODEC_NO_POINTS : r;
	x = NEW(struct xz_scan);
	x->base.stream.ops = &xz_scan_stream_ops;
	x->spans = spans;
	x->marks = NEW_N(size_t, spans.n);
	if (source_open_part(raw, false, range, NULL, &x->content, err) < 0) {
		xz_scan_close(&x->base);
		return -1;
	}
	if (helpers && spans.n > 1)
		x->pool = pool_new_helpers("xz-scan", helpers, helpers + 1);
	start.span = spans.v;
	o = (struct ahead_options){
		.ops = &codec_xz,
		.raw = x->content,
		.spans = spans.v,
		.n_spans = spans.n,
		.pool = x->pool,
		.max_ahead = helpers + 1,
		.max_chunks = MAX(helpers, 1) * HELD / CODEC_CHUNK,
		.until = UINT64_MAX,
	};
	x->ahead = ahead_new(&o, &start);
	*ret = &x->base;
	return 0;
}

int xz_scan_spans(struct codec_scan *s, struct arena *a, struct codec_spans *ret, struct err *err)
{
	struct xz_scan *x = CONTAINER_OF(s, struct xz_scan, base);
	struct codec_span *v = ARENA_NEW_N(a, struct codec_span, x->n_begun), *last = &v[x->n_begun - 1];

	memcpy(v, x->spans.v, x->n_begun * sizeof(*v));
	/* The last one first: computing its sums may move the others. */
	last->sums = codec_sums_since(&x->sums, x->marks[x->n_begun - 1]);
	for (size_t i = 0; i < x->n_begun; i++)
		if (&v[i] != last)
			v[i].sums = codec_sums_between(&x->sums, x->marks[i], x->marks[i + 1]);
	if (x->summed < last->out_end) {
		last->out_end = x->summed;
		last->payload = xz_payload(last->payload.p[0], true);
	}
	*ret = (struct codec_spans){ .v = v,
				     .n = x->n_begun,
				     .why = x->spans.n == 1 ? "the file has a single block" : NULL };
	return 0;
}

void xz_scan_renice(struct codec_scan *s, int nice)
{
	struct xz_scan *x = CONTAINER_OF(s, struct xz_scan, base);

	if (x->pool)
		pool_renice(x->pool, nice);
}

void xz_scan_close(struct codec_scan *s)
{
	struct xz_scan *x = CONTAINER_OF(s, struct xz_scan, base);

	if (x->ahead) {
		ahead_recycle(x->ahead, x->chunk);
		ahead_close(x->ahead, NULL);
	}
	pool_free(x->pool);
	source_close(x->content);
	codec_sums_done(&x->sums);
	free(x->marks);
	free(x->spans.v);
	free(x);
}
