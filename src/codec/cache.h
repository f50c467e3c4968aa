/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache that sources of the same content share: decoded chunks, and decoders that stopped half-way.
 */
#pragma once

#include "codec/ahead.h"

/* The chunk of content @id at [off, off + size), referenced until codec_cache_drop(), or NULL. */
struct lru_ref *codec_cache_get(struct codec_cache *c, uint64_t id, uint64_t off, size_t size);
/* Takes @p. Returns a reference to the cached chunk at its place: @p, or an older one with the same bytes. */
struct lru_ref *codec_cache_put(struct codec_cache *c, uint64_t id, struct codec_chunk *p);
const struct codec_chunk *codec_cache_chunk(struct lru_ref *ref);
void codec_cache_drop(struct codec_cache *c, struct lru_ref *ref); /* takes NULL */

/* Takes r's decoder and clears it in *r. */
void codec_cache_park(struct codec_cache *c, uint64_t id, struct codec_run *r);
/*
 * Take the parked decoder of @span with the largest position that is at most @at and more than @beyond; false
 * if there is none. Its raw is invalid: the caller sets it.
 */
bool codec_cache_unpark(struct codec_cache *c, uint64_t id, const struct codec_span *span, uint64_t beyond,
			uint64_t at, struct codec_run *ret);
