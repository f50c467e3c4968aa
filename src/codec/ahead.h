/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding span after span, in order, by the reading thread and by helpers from a pool.
 *
 * The reader decodes its current span chunk by chunk and gets each chunk at once. Later spans are offered to
 * the pool; an idle helper claims one and decodes it into chunks that wait for the reader. The reader never
 * waits for work that has not started: it decodes an unclaimed span itself, and while a helper is busy with
 * the span that it needs, it decodes a part of a later one.
 */
#pragma once

#include "codec/internal.h"

/* One chunk of a span's decoded bytes. */
struct codec_chunk {
	struct codec_chunk *next;
	uint64_t off;
	size_t size;
	uint8_t data[CODEC_CHUNK];
};

/* A decoder at a position within a span. */
struct codec_run {
	struct span_decoder *d; /* owned; NULL: not started, or done */
	const struct codec_span *span;
	uint64_t at; /* the next decoded offset */
};
void codec_run_end(struct codec_run *r);
/* Opens the decoder if it is not open. The bytes match the sums, else it is ERR_INVALID. */
int codec_run_chunk(struct codec_run *r, const struct codec_ops *ops, struct source *raw,
		    struct codec_chunk *p, struct err *err);

struct ahead;

struct ahead_options {
	const struct codec_ops *ops;
	struct source *raw; /* borrowed until the end, as the spans and all that they point to */
	const struct codec_span *spans;
	size_t n_spans;
	struct pool *pool;  /* NULL: no helpers */
	unsigned max_ahead; /* spans after the reader's that may be in work or wait decoded */
	size_t max_chunks;  /* decoded chunks that may wait */
	uint64_t until;     /* bytes from this decoded offset on are not decoded ahead */
};

/* Continue from the position of @start, whose decoder it takes. */
struct ahead *ahead_new(const struct ahead_options *opts, struct codec_run *start);
uint64_t ahead_at(const struct ahead *a); /* the decoded offset of the next chunk */
void ahead_until(struct ahead *a, uint64_t until);
/* The next chunk; the caller gives it back by ahead_recycle(). NULL at the end. */
int ahead_next(struct ahead *a, struct codec_chunk **ret, struct err *err);
void ahead_recycle(struct ahead *a, struct codec_chunk *p); /* takes NULL */
/*
 * Waits until the helpers have finished their current chunks. *ret_run, when not NULL, gets the decoder of
 * the reader's span, whose position may be after ahead_at().
 */
void ahead_close(struct ahead *a, struct codec_run *ret_run);
