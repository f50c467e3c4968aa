/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding span after span, in order, by the thread that reads and by helpers from a pool.
 *
 * The reader decodes the span that it is in, chunk by chunk, and gets each chunk at once. Spans behind it are
 * offered to the pool; a helper that finds time claims one and decodes it into chunks that wait for the
 * reader. The reader never waits for work that has not started: a span that nobody has claimed when it gets
 * there it decodes itself, and where a helper is still at it, the reader meanwhile does some of a later span.
 */
#pragma once

#include "codec/internal.h"

/* Decoded bytes, one chunk of a span. */
struct codec_chunk {
	struct codec_chunk *next;
	uint64_t off;
	size_t size;
	uint8_t data[CODEC_CHUNK];
};

/* A decoder on its way through a span. */
struct codec_run {
	struct span_decoder *d; /* owned; NULL: not started, or done */
	const struct codec_span *span;
	uint64_t at; /* decoded offset that comes next */
};
void codec_run_end(struct codec_run *r);
/* Opens the decoder when it is not there yet. The bytes are those that the sums want, or it is ERR_INVALID.
 */
int codec_run_chunk(struct codec_run *r, const struct codec_ops *ops, struct source *raw,
		    struct codec_chunk *p, struct err *err);

struct ahead;

struct ahead_options {
	const struct codec_ops *ops;
	struct source *raw; /* borrowed till the end, as the spans and all that they point to */
	const struct codec_span *spans;
	size_t n_spans;
	struct pool *pool;  /* NULL: no helpers */
	unsigned max_ahead; /* spans behind the reader's that may be in work or wait decoded */
	size_t max_chunks;  /* chunks of them that may wait */
	uint64_t until;     /* what lies here or behind is not decoded ahead */
};

/* From where @start stands, whose decoder it takes. */
struct ahead *ahead_new(const struct ahead_options *opts, struct codec_run *start);
uint64_t ahead_at(const struct ahead *a); /* the decoded offset of the next chunk */
void ahead_until(struct ahead *a, uint64_t until);
/* The next chunk, the caller's until ahead_recycle(); NULL at the end. */
int ahead_next(struct ahead *a, struct codec_chunk **ret, struct err *err);
void ahead_recycle(struct ahead *a, struct codec_chunk *p); /* takes NULL */
/*
 * Waits for helpers to finish the chunk that they are at. *ret_run, when not NULL, gets the decoder of the
 * reader's span, which may stand further than ahead_at().
 */
void ahead_close(struct ahead *a, struct codec_run *ret_run);
