/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed content as a source: reads at any offset, by the spans that resume points name.
 *
 * All work is done in chunks. A read needs the chunk that holds its offset: from the cache, from this
 * source's own decoder if it is at that position, or from a decoder that is moved there: the nearest one in
 * the same span, be it this source's own, a parked one, or a new one at the span's start. When a run of
 * sequential reads lasts, ahead.c takes over, and helpers decode the spans that follow.
 */
#include "codec/ahead.h"
#include "codec/cache.h"

#include <assert.h>
#include <stdlib.h>
#include "base/search.h"

/* A run of sequential reads is expected to continue for this many times its length so far; that much is
 * decoded ahead. So the bytes decoded in vain stay in proportion to the bytes read. */
#define RUN_TRUST 4
/* On the way to a chunk at most this far ahead, the chunks in between are cached too, so that a caller that
 * seeks back and forth hits the cache. */
#define NEAR MIB(8)
/* A decoder that has decoded less than this is not worth parking. */
#define PARK_MIN CODEC_CHUNK
/*
 * Decoded chunks that wait for one reader, at most: the spans of usual packages have 32 MiB and less, but those of a file that
 * is made to hurt may have gigabytes, from some 100 KiB.
 */
#define AHEAD_MAX_CHUNKS (MIB(256) / CODEC_CHUNK)
/* Beside the estimate: the compressed bytes of the next chunk. */
#define EXPECT_MORE CODEC_CHUNK

static const struct metric_family decoded_bytes = {
	.name = "lode_codec_decoded_bytes_total",
	.help = "Bytes decoded for reads, including discarded bytes.",
	.type = METRIC_COUNTER,
	.labels = "codec",
};
static const struct metric_family starts = {
	.name = "lode_codec_starts_total",
	.help = "Starts of reads: at a cached chunk (cached), with a parked decoder (parked), at a resume "
		"point (point), at the start of the content (start).",
	.type = METRIC_COUNTER,
	.labels = "codec,how",
};
static const struct metric_family check_failures = {
	.name = "lode_codec_check_failures_total",
	.help = "Reads that failed because the decoded bytes differ from those of the scan.",
	.type = METRIC_COUNTER,
	.labels = "codec",
};

struct codec_source {
	struct source base;
	const struct codec_ops *ops;
	struct source *raw; /* owned */
	struct codec_source_options opts;
	struct codec_points points; /* if there are none: one span over everything, `whole` */
	struct codec_span whole;
	const struct codec_span *spans;
	size_t n_spans;
	size_t span; /* index of the last used span */

	const struct codec_chunk *chunk; /* the current chunk, or NULL */
	struct lru_ref *ref;             /* reference to the chunk, if it is the cache's */
	struct codec_chunk *own;         /* buffer for chunks that are not; NULL until needed */
	struct codec_chunk *lent;        /* the chunk, if it is ahead's */

	struct codec_run run; /* this source's decoder */
	struct ahead *ahead;  /* NULL: this thread decodes alone */

	uint64_t run_from, run_to; /* the current run of sequential reads */
	struct metric *decoded;
};

static struct codec_source *source_of(struct source *s)
{
	return CONTAINER_OF(s, struct codec_source, base);
}

/* ---- chunks ---- */

static void chunk_drop(struct codec_source *s)
{
	if (s->lent)
		ahead_recycle(s->ahead, s->lent);
	if (s->ref)
		codec_cache_drop(s->opts.cache, s->ref);
	s->chunk = NULL;
	s->lent = NULL;
	s->ref = NULL;
}

/* Decode the next chunk and make it the current one; cache it if @keep. */
static int chunk_decode(struct codec_source *s, bool keep, struct err *err)
{
	struct codec_chunk *p;

	chunk_drop(s);
	p = s->own ? s->own : mem_alloc(sizeof(*p));
	s->own = NULL;
	if (codec_run_chunk(&s->run, s->ops, s->raw, p, err) < 0) {
		s->own = p;
		return -1;
	}
	metric_add(s->decoded, (int64_t)p->size);
	if (s->run.at == s->run.span->out_end)
		codec_run_end(&s->run);
	if (keep) {
		s->ref = codec_cache_put(s->opts.cache, s->opts.cache_id, p);
		s->chunk = codec_cache_chunk(s->ref);
	} else {
		s->own = p;
		s->chunk = p;
	}
	return 0;
}

static bool chunk_from_cache(struct codec_source *s, uint64_t off, size_t size)
{
	if (!s->opts.cache)
		return false;
	chunk_drop(s);
	s->ref = codec_cache_get(s->opts.cache, s->opts.cache_id, off, size);
	if (!s->ref)
		return false;
	s->chunk = codec_cache_chunk(s->ref);
	metric_count(&starts, s->ops->name, "cached");
	return true;
}

/* ---- where to decode ---- */

/* Park the decoder for other sources, or close it. */
static void run_leave(struct codec_source *s)
{
	if (!s->run.d)
		return;
	if (s->opts.cache && s->run.at - s->run.span->out >= PARK_MIN)
		codec_cache_park(s->opts.cache, s->opts.cache_id, &s->run);
	else
		codec_run_end(&s->run);
}

/*
 * Tell @raw which compressed bytes the reads up to read_end take of @span: a part in proportion to the decoded bytes, and a
 * quarter more, since not all bytes are compressed equally well.
 */
static void expect_input(struct codec_source *s, const struct codec_span *span)
{
	uint64_t out = span->out_end - span->out, in = span->in_end - span->in, part = out;

	if (s->opts.read_end > span->out && s->opts.read_end < span->out_end)
		part = s->opts.read_end - span->out;
	if (part < out)
		in = MIN(in, (uint64_t)((double)in * ((double)part / (double)out) * 1.25) + EXPECT_MORE);
	source_expect(s->raw, range_of(span->in, in));
}

/* Have a decoder in @span at @at or before it, as near as possible. */
static int run_choose(struct codec_source *s, const struct codec_span *span, uint64_t at, struct err *err)
{
	bool ours = s->run.d && s->run.span == span && s->run.at <= at;
	struct codec_run parked;

	if (s->opts.cache && codec_cache_unpark(s->opts.cache, s->opts.cache_id, span,
						ours ? s->run.at : span->out, at, &parked)) {
		run_leave(s);
		s->run = parked;
		s->run.d->raw = s->raw;
		metric_count(&starts, s->ops->name, "parked");
		return 0;
	}
	if (ours)
		return 0;
	run_leave(s);
	s->run = (struct codec_run){ .span = span, .at = span->out };
	expect_input(s, span);
	if (codec_span_start(s->ops, s->raw, span, &s->run.d, err) < 0)
		return -1;
	metric_count(&starts, s->ops->name, span->out ? "point" : "start");
	return 0;
}

/* Move a decoder to @at, the start of a chunk in @span. */
static int run_to(struct codec_source *s, const struct codec_span *span, uint64_t at, struct err *err)
{
	bool near = s->run.d && s->run.span == span && s->run.at <= at && at - s->run.at <= NEAR;
	bool keep = s->opts.cache && (near || s->ops->slow);

	if (run_choose(s, span, at, err) < 0)
		return -1;
	while (s->run.at < at) {
		size_t got = 0;

		if (keep) {
			if (chunk_decode(s, true, err) < 0)
				return -1;
			continue;
		}
		if (s->run.d->ops->span_read(s->run.d, NULL, (size_t)MIN(at - s->run.at, SIZE_MAX), &got,
					     err) < 0)
			return -1;
		assert(got > 0 && got <= at - s->run.at);
		metric_add(s->decoded, (int64_t)got);
		s->run.at += got;
	}
	return 0;
}

static const struct codec_span *find_span(struct codec_source *s, uint64_t off)
{
	const struct codec_span *v = s->spans;
	if (off >= v[s->span].out && off < v[s->span].out_end)
		return &v[s->span];
	/* The last one that begins at the offset or before; the first one begins at 0. */
	s->span = SEARCH(1, s->n_spans, i, v[i].out <= off) - 1;
	return &v[s->span];
}

/* ---- ahead ---- */

/* The offset up to which the run is expected to continue. */
static uint64_t run_until(const struct codec_source *s)
{
	uint64_t run = s->run_to - s->run_from, until;

	if (mul_overflows(run, RUN_TRUST, &until) || add_overflows(until, s->run_to, &until))
		until = UINT64_MAX;
	return s->opts.read_end ? MIN(until, s->opts.read_end) : until;
}

static void ahead_leave(struct codec_source *s)
{
	if (!s->ahead)
		return;
	chunk_drop(s);
	ahead_close(s->ahead, &s->run);
	s->ahead = NULL;
}

/* The decoder is where the reads continue: let helpers decode ahead, if that is of use. */
static void ahead_join(struct codec_source *s)
{
	struct ahead_options o = {
		.ops = s->ops,
		.raw = s->raw,
		.spans = s->spans,
		.n_spans = s->n_spans,
		.pool = s->opts.helpers,
		.max_ahead = s->opts.max_ahead,
		.until = run_until(s),
	};
	uint64_t most = 0;

	if (!o.pool || !o.max_ahead || s->run.span->out_end >= o.until ||
	    s->run.span->out_end >= s->base.size)
		return;
	for (size_t i = 0; i < s->n_spans; i++)
		most = MAX(most, s->spans[i].out_end - s->spans[i].out);
	most = (most - 1) / CODEC_CHUNK + 1;
	o.max_chunks = mul_overflows(most, o.max_ahead, &most)
			       ? AHEAD_MAX_CHUNKS
			       : (size_t)MIN(most, (uint64_t)AHEAD_MAX_CHUNKS);
	s->ahead = ahead_new(&o, &s->run);
}

static int chunk_from_ahead(struct codec_source *s, struct err *err)
{
	chunk_drop(s);
	ahead_until(s->ahead, run_until(s));
	if (ahead_next(s->ahead, &s->lent, err) < 0)
		return -1;
	assert(s->lent);
	s->chunk = s->lent;
	metric_add(s->decoded, (int64_t)s->lent->size);
	return 0;
}

/* ---- reading ---- */

/* Make the chunk that holds @off the current one. */
static int chunk_load(struct codec_source *s, uint64_t off, bool sequential, struct err *err)
{
	const struct codec_span *span = find_span(s, off);
	uint64_t at = off - (off - span->out) % CODEC_CHUNK;
	size_t size = (size_t)MIN(CODEC_CHUNK, span->out_end - at);

	if (s->ahead && (!sequential || ahead_at(s->ahead) != at))
		ahead_leave(s);
	if (!s->ahead) {
		if (chunk_from_cache(s, at, size))
			return 0;
		if (!(s->run.d && s->run.span == span && s->run.at == at) && run_to(s, span, at, err) < 0)
			return -1;
		if (sequential)
			ahead_join(s);
	}
	return s->ahead ? chunk_from_ahead(s, err) : chunk_decode(s, s->opts.cache && !sequential, err);
}

/* After a failure no half-decoded state is used again. */
static int read_failed(struct codec_source *s, struct err *err)
{
	ahead_leave(s);
	codec_run_end(&s->run);
	chunk_drop(s);
	if (!s->points.n_spans || err->kind != ERR_INVALID)
		return -1;
	metric_count(&check_failures, s->ops->name);
	err->kind = ERR_CHANGED;
	return -1;
}

static int codec_source_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
			     size_t *ret_got, struct err *err)
{
	struct codec_source *s = source_of(base);
	struct err own = { 0 };
	size_t skip;

	if (off != s->run_to)
		s->run_from = off;
	s->run_to = off;
	if (!s->chunk || off < s->chunk->off || off - s->chunk->off >= s->chunk->size) {
		if (chunk_load(s, off, hint == SOURCE_SEQUENTIAL, &own) < 0) {
			read_failed(s, &own);
			if (err)
				*err = own;
			return -1;
		}
	}
	skip = (size_t)(off - s->chunk->off);
	n = MIN(n, s->chunk->size - skip);
	memcpy(buf, s->chunk->data + skip, n);
	s->run_to += n;
	*ret_got = n;
	return 0;
}

static void codec_source_close(struct source *base)
{
	struct codec_source *s = source_of(base);

	ahead_leave(s);
	chunk_drop(s);
	run_leave(s);
	free(s->own);
	codec_points_done(&s->points);
	source_close(s->raw);
	source_fini(base);
	free(s);
}

static const struct source_ops codec_source_ops = {
	.read = codec_source_read,
	.close = codec_source_close,
};

/* ---- opening ---- */

static int use_points(struct codec_source *s, enum codec_kind kind, struct err *err)
{
	const struct codec_span *last;

	if (codec_points_read(s->opts.points, &s->points, err) < 0)
		return -1;
	if (s->points.kind != kind)
		return err_set(err, ERR_INVALID, "resume points: for %s, not %s", codec_name(s->points.kind),
			       s->ops->name);
	if (s->opts.size > s->points.decoded_size)
		return err_set(err, ERR_INVALID, "resume points: end at %llu of %llu decoded bytes",
			       (unsigned long long)s->points.decoded_size, (unsigned long long)s->opts.size);
	s->spans = s->points.spans;
	s->n_spans = s->points.n_spans;
	last = &s->spans[s->n_spans - 1];
	if (last->in_end > s->raw->size)
		return err_set(err, ERR_CHANGED, "ends at %llu, but resume points extend to %llu",
			       (unsigned long long)s->raw->size, (unsigned long long)last->in_end);
	return 0;
}

static void use_whole(struct codec_source *s)
{
	s->whole = (struct codec_span){ .in_end = s->raw->size, .out_end = s->opts.size };
	s->spans = &s->whole;
	s->n_spans = 1;
}

int codec_source_open(enum codec_kind kind, struct source *raw, const struct codec_source_options *opts,
		      struct source **ret, struct err *err)
{
	const struct codec_ops *ops = codec_ops_of(kind);
	struct codec_source *s;

	if (!ops)
		return source_open_part(raw, true, range_of(0, opts->size), NULL, ret, err);
	s = NEW(struct codec_source);
	source_init(&s->base, &codec_source_ops, opts->size, raw->mtime, raw->name);
	s->ops = ops;
	s->raw = raw;
	s->opts = *opts;
	s->decoded = metric_get(&decoded_bytes, ops->name);
	if (!opts->points.size)
		use_whole(s);
	else if (use_points(s, kind, err) < 0) {
		codec_source_close(&s->base);
		return -1;
	}
	*ret = &s->base;
	return 0;
}
