/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed content for tests, made with the libraries themselves. Each call appends: two calls make two
 * members or streams.
 */
#pragma once

#include "base/base.h"

enum content {
	CONTENT_TEXT,   /* words: compresses well, many matches */
	CONTENT_RANDOM, /* does not compress */
	CONTENT_MIXED,  /* both alternately, with runs of zeros and copies from far back */
	CONTENT_ZEROS,
	CONTENT_N
};
void content_add(struct buf *b, enum content kind, size_t n, uint64_t seed);
/* The bytes of @b from @at on; also of a buffer without bytes, which has no memory. */
static inline struct bytes bytes_from(const struct buf *b, size_t at)
{
	return bytes_of(at ? b->p + at : b->p, b->size - at);
}

/* level 0 to 9; flush_every > 0 ends a deflate block that often */
void packed_gzip(struct buf *out, struct bytes in, int level, size_t flush_every);
/* preset 0 to 9; block_size 0: one block; check: liblzma's number */
void packed_xz(struct buf *out, struct bytes in, unsigned preset, uint64_t block_size, int check);
void packed_lzma(struct buf *out, struct bytes in, unsigned preset);
void packed_bzip2(struct buf *out, struct bytes in, int level); /* 1 to 9 */
/*
 * A stream of @n_blocks whose blocks contain the magic numbers of blocks and of stream ends among their data,
 * at all bits. Appends the decoded bytes to @plain.
 */
void packed_bzip2_magics(struct buf *out, struct buf *plain, unsigned n_blocks, uint64_t seed);
