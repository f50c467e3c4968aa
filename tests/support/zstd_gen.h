/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generates zstd content and its decoded bytes.
 *
 * zstd_gen_text() and zstd_gen_encode() let libzstd encode, with parameters that its command does not offer.
 * zstd_gen_exotic() makes valid frames that no encoder makes: every kind of table next to every other one,
 * tables that are repeated much later, RLE tables that live on, literals without their tree, empty blocks.
 */
#pragma once

#include "base/base.h"

struct zstd_gen_rng {
	uint64_t state;
	struct bytes tape; /* consumed first: two bytes a number */
};
uint32_t zstd_gen_below(struct zstd_gen_rng *r, uint32_t n); /* 0 to n - 1; n > 0 */
bool zstd_gen_one_in(struct zstd_gen_rng *r, uint32_t n);

/* @n bytes with matches near and far, runs, and noise. */
void zstd_gen_text(struct zstd_gen_rng *r, size_t n, struct buf *ret);

struct zstd_gen_params {
	int level;
	int window_log;   /* 0: the level's */
	int target_block; /* 0: none */
	int literals;     /* 0: the library's choice, 1: always compressed, 2: never */
	int workers;
	bool checksum, pledged, long_distance;
	size_t chunk;          /* bytes per call; 0: all at once */
	unsigned flush_one_in; /* chunks; 0: never */
};
struct zstd_gen_params zstd_gen_params(struct zstd_gen_rng *r); /* any */
/* Append @plain as one frame. */
void zstd_gen_encode(const struct zstd_gen_params *p, struct bytes plain, struct buf *ret);
void zstd_gen_skippable(struct zstd_gen_rng *r, struct buf *ret);

/* Append one frame, and its decoded bytes. */
void zstd_gen_exotic(struct zstd_gen_rng *r, struct buf *ret, struct buf *ret_plain);
