/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large sets of bits that are mostly 0: a bit for each of their words says that the word is not 0, so that a walk passes
 * over 4096 bits at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Let @w be the next word that is not 0, from @w on; false: there is none. @words has bits up to @last. */
static inline bool sparse_next(const uint64_t *words, size_t last, size_t *w)
{
	size_t i = *w / 64, end = last / 64;
	uint64_t bits = i <= end ? words[i] & ~UINT64_C(0) << *w % 64 : 0;

	while (!bits && i < end)
		bits = words[++i];
	*w = i * 64 + (bits ? (size_t)__builtin_ctzll(bits) : 0);
	return bits;
}

/* Likewise the last one before @w. */
static inline bool sparse_before(const uint64_t *words, size_t *w)
{
	size_t i = *w / 64;
	uint64_t bits = *w % 64 ? words[i] & ~(~UINT64_C(0) << *w % 64) : 0;

	while (!bits && i > 0)
		bits = words[--i];
	*w = i * 64 + (bits ? 63 - (size_t)__builtin_clzll(bits) : 0);
	return bits;
}
