/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public side of the scanning pass; and the scan of content that gives no points (.lzma, an xz file
 * without a usable block index, uncompressed bytes): its codec's stream, whose bytes only get their sums.
 */
#include "codec/internal.h"

#include <stdlib.h>

#define DEFAULT_BUDGET_PERCENT 8

struct plain_scan {
	struct codec_scan base;
	struct stream *decoded; /* owned */
	struct codec_sums sums;
};

static struct plain_scan *plain_of(struct codec_scan *s)
{
	return CONTAINER_OF(s, struct plain_scan, base);
}

static void plain_passed(struct plain_scan *p, const void *buf, size_t n)
{
	if (p->base.kind != CODEC_NONE)
		codec_sums_feed(&p->sums, buf, n);
	p->base.out += n;
	p->base.ended = !n;
	/* .lzma and uncompressed content have no checksums at all. */
	if (p->base.kind != CODEC_XZ || p->base.ended)
		p->base.checked = p->base.out;
}

static int plain_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct plain_scan *p = CONTAINER_OF(s, struct plain_scan, base.stream);

	if (stream_read(p->decoded, buf, n, ret_got, err) < 0)
		return -1;
	plain_passed(p, buf, *ret_got);
	return 0;
}

static int plain_next(struct stream *s, size_t max, struct bytes *ret, struct err *err)
{
	struct plain_scan *p = CONTAINER_OF(s, struct plain_scan, base.stream);

	if (stream_next(p->decoded, max, ret, err) < 0)
		return -1;
	plain_passed(p, ret->p, ret->size);
	return 0;
}

static const struct stream_ops plain_stream_ops = {
	.read = plain_read,
	.next = plain_next,
	.close = codec_scan_stays,
};

static int plain_spans(struct codec_scan *s, struct arena *a, struct codec_spans *ret, struct err *err)
{
	struct plain_scan *p = plain_of(s);

	ret->why = s->kind == CODEC_NONE ? "not compressed" : "decoding cannot resume within it";
	if (s->kind == CODEC_NONE)
		return CODEC_NO_POINTS;
	ret->v = ARENA_NEW(a, struct codec_span);
	ret->v->in_end = s->range.size;
	ret->v->out_end = s->out;
	ret->v->sums = codec_sums_since(&p->sums, 0);
	ret->n = 1;
	return 0;
}

static void plain_close(struct codec_scan *s)
{
	struct plain_scan *p = plain_of(s);

	stream_close(p->decoded);
	codec_sums_done(&p->sums);
	free(p);
}

static const struct codec_ops plain_ops = {
	.scan_spans = plain_spans,
	.scan_close = plain_close,
};

static int plain_open(enum codec_kind kind, struct source *raw, struct byte_range range,
		      struct codec_scan **ret, struct err *err)
{
	struct plain_scan *p = NEW(struct plain_scan);

	if (codec_stream_open(kind, stream_of_source(raw, false, range.off, range.size), &p->decoded, err) <
	    0) {
		free(p);
		return -1;
	}
	p->base.stream.ops = &plain_stream_ops;
	p->base.ops = &plain_ops;
	*ret = &p->base;
	return 0;
}

static struct codec_scan_options with_defaults(const struct codec_ops *ops,
					       const struct codec_scan_options *opts)
{
	struct codec_scan_options o = opts ? *opts : (struct codec_scan_options){ 0 };

	if (!o.spacing)
		o.spacing = ops->default_spacing;
	if (!o.min_size)
		o.min_size = ops->default_min_size;
	if (!o.budget_percent)
		o.budget_percent = DEFAULT_BUDGET_PERCENT;
	return o;
}

int codec_scan_open(enum codec_kind kind, struct source *raw, struct byte_range range,
		    const struct codec_scan_options *opts, struct codec_scan **ret, struct err *err)
{
	const struct codec_ops *ops = codec_ops_of(kind);
	struct codec_scan_options o = { 0 };
	struct codec_scan *s = NULL;
	int r = CODEC_NO_POINTS;

	if (range.off > raw->size || range.size > raw->size - range.off)
		return err_set(err, ERR_INVALID, "ends at %llu, wanted %llu bytes at %llu",
			       (unsigned long long)raw->size, (unsigned long long)range.size,
			       (unsigned long long)range.off);
	if (ops)
		o = with_defaults(ops, opts);
	if (ops && ops->scan_open) {
		r = ops->scan_open(raw, range, &o, &s, err);
		if (r == 0)
			s->ops = ops;
	}
	if (r == CODEC_NO_POINTS)
		r = plain_open(kind, raw, range, &s, err);
	if (r < 0)
		return r;
	s->kind = kind;
	s->opts = o;
	s->raw = raw;
	s->range = range;
	*ret = s;
	return 0;
}

struct stream *codec_scan_stream(struct codec_scan *s)
{
	return &s->stream;
}

void codec_scan_landmark(struct codec_scan *s, uint64_t off)
{
	if (s->ops->scan_landmark)
		s->ops->scan_landmark(s, off);
}

int codec_scan_points(struct codec_scan *s, struct buf *ret, bool *ret_complete, const char **ret_why,
		      struct err *err)
{
	AUTO(arena_done) struct arena a;
	struct codec_points p = { .kind = s->kind, .complete = s->ended };
	struct codec_spans spans = { 0 };
	int r = CODEC_NO_POINTS;

	arena_init(&a);
	if (s->out)
		r = s->ops->scan_spans(s, &a, &spans, err);
	else
		spans.why = "the content is empty";
	if (r < 0)
		return r;
	*ret_why = spans.why;
	*ret_complete = s->ended;
	if (r)
		return CODEC_NO_POINTS;
	p.spans = spans.v;
	p.n_spans = spans.n;
	p.decoded_size = p.spans[p.n_spans - 1].out_end;
	codec_points_write(&p, ret);
	return 0;
}

uint64_t codec_scan_checked(const struct codec_scan *s)
{
	return s->checked;
}

void codec_scan_renice(struct codec_scan *s, int nice)
{
	if (s->ops->scan_renice)
		s->ops->scan_renice(s, nice);
}

void codec_scan_close(struct codec_scan *s)
{
	if (!s)
		return;
	s->ops->scan_close(s);
}
