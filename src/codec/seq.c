/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A span decoder over a codec's stream, for a span that starts where the content does: used for content
 * without points, or with none but the start.
 */
#include "codec/internal.h"

#include <stdlib.h>

/* Bytes read at once; discarded bytes are decoded into lent chunks. */
#define IN_SIZE KIB(64)
/* Assumed for a stream whose window is unknown: large enough that a cache does not hold hundreds. */
#define WEIGHT MIB(8)

struct seq_decoder {
	struct span_decoder base;
	struct stream *decoded; /* owned; reads through in_stream */
	uint64_t at, out_end;
	bool checks_end; /* the content ends with the span, and no sums verify its bytes */
};

/* The compressed bytes, read through the decoder's `raw`, which changes when the decoder is parked. */
struct in_stream {
	struct stream base;
	struct seq_decoder *d;
	uint64_t at, end;
	uint8_t data[IN_SIZE];
};

static int in_read(struct stream *base, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct in_stream *in = CONTAINER_OF(base, struct in_stream, base);

	n = (size_t)MIN((uint64_t)n, in->end - in->at);
	if (source_read_full(in->d->base.raw, in->at, buf, n, SOURCE_RANDOM, err) < 0)
		return -1;
	in->at += n;
	*ret_got = n;
	return 0;
}

static int in_next(struct stream *base, size_t max, struct bytes *ret, struct err *err)
{
	struct in_stream *in = CONTAINER_OF(base, struct in_stream, base);

	ret->p = in->data;
	return in_read(base, in->data, MIN(max, IN_SIZE), &ret->size, err);
}

static void in_close(struct stream *base)
{
	free(CONTAINER_OF(base, struct in_stream, base));
}

static const struct stream_ops in_ops = {
	.read = in_read,
	.next = in_next,
	.close = in_close,
};

/*
 * The format's checksum is stored after the last byte: verify it before that byte is delivered. Damaged content may decode to
 * more bytes than before; then its checksum is not reached here.
 */
static int check_end(struct seq_decoder *d, struct err *err)
{
	uint8_t more;
	size_t got;

	if (stream_read(d->decoded, &more, 1, &got, err) < 0)
		return -1;
	return got ? err_set(err, ERR_INVALID, "decodes to more than %llu bytes",
			     (unsigned long long)d->out_end)
		   : 0;
}

static int seq_read(struct span_decoder *base, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct seq_decoder *d = CONTAINER_OF(base, struct seq_decoder, base);
	size_t want = (size_t)MIN((uint64_t)n, d->out_end - d->at), got = 0;

	if (buf) {
		if (stream_read(d->decoded, buf, want, &got, err) < 0)
			return -1;
	} else {
		struct bytes chunk;

		if (stream_next(d->decoded, want, &chunk, err) < 0)
			return -1;
		got = chunk.size;
	}
	if (!got)
		return err_set(err, ERR_INVALID, "ends at %llu, wanted %llu bytes", (unsigned long long)d->at,
			       (unsigned long long)d->out_end);
	d->at += got;
	if (d->at == d->out_end && d->checks_end && check_end(d, err) < 0)
		return -1;
	*ret_got = got;
	return 0;
}

static void seq_close(struct span_decoder *base)
{
	struct seq_decoder *d = CONTAINER_OF(base, struct seq_decoder, base);

	stream_close(d->decoded);
	free(d);
}

static const struct codec_ops seq_ops = {
	.span_read = seq_read,
	.span_close = seq_close,
};

int codec_span_from_start(const struct codec_ops *ops, struct source *raw, const struct codec_span *span,
			  struct span_decoder **ret, struct err *err)
{
	struct seq_decoder *d = NEW(struct seq_decoder);
	struct in_stream *in = NEW(struct in_stream);

	in->base.ops = &in_ops;
	in->d = d;
	in->at = span->in;
	in->end = MIN(span->in_end, raw->size);
	d->base = (struct span_decoder){ .ops = &seq_ops, .raw = raw, .weight = WEIGHT };
	d->at = span->out;
	d->out_end = span->out_end;
	d->checks_end = !span->sums.size;
	if (ops->stream_open(&in->base, &d->decoded, err) < 0) {
		free(d);
		return -1;
	}
	*ret = &d->base;
	return 0;
}
