/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sources of the same content leave for each other: decoded chunks, and decoders that stopped half-way.
 */
#pragma once

#include "codec/ahead.h"

/* The chunk of content @id at [off, off + size), held until codec_cache_drop(), or NULL. */
struct lru_ref *codec_cache_get(struct codec_cache *c, uint64_t id, uint64_t off, size_t size);
/* Takes @p and holds what is now in its place, which has the same bytes. */
struct lru_ref *codec_cache_put(struct codec_cache *c, uint64_t id, struct codec_chunk *p);
const struct codec_chunk *codec_cache_chunk(struct lru_ref *h);
void codec_cache_drop(struct codec_cache *c, struct lru_ref *h); /* takes NULL */

/* Takes r's decoder, and leaves *r without. */
void codec_cache_park(struct codec_cache *c, uint64_t id, struct codec_run *r);
/*
 * The decoder parked in @span that is furthest, but not behind @at, and further than @beyond: false when
 * there is none. Its raw is still that of the one who parked it.
 */
bool codec_cache_unpark(struct codec_cache *c, uint64_t id, const struct codec_span *span, uint64_t beyond,
			uint64_t at, struct codec_run *ret);
