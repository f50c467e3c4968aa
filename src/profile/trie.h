/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over stacks that another module keeps (struct profile_trie): only stacks that are seen, and without a look at words
 * of bits that are 0.
 *
 *	trie_each(in, s)
 *		... stack s, a uint64_t; callers first
 */
#pragma once

#include "base/sparse.h"
#include "profile/profile.h"

/* Let @w be the next word of stacks that are seen, from @w on, or the last one before it; false: there is none. */
static inline bool trie_next_word(const struct profile_trie *in, size_t *w)
{
	return in->words ? sparse_next(in->words, in->n / 64, w) : *w <= in->n / 64;
}
static inline bool trie_word_before(const struct profile_trie *in, size_t *w)
{
	return in->words ? sparse_before(in->words, w) : (*w)-- > 0;
}
#define trie_each_word(in, w) for (size_t w = 0; trie_next_word((in), &(w)); (w)++)
/* All stacks that are seen, callers first; or those of @bits, some of them, which has a bit for each. */
#define trie_each_of(in, bits, s)                                                                      \
	trie_each_word(in, w_) for (uint64_t bits_ = (bits)[w_], s = 0;                                \
				    bits_ && ((s) = w_ * 64 + (unsigned)__builtin_ctzll(bits_), true); \
				    bits_ &= bits_ - 1)
#define trie_each(in, s) trie_each_of(in, (in)->seen, s)
