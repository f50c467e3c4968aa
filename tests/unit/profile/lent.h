/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of a profile as struct profile_trie, and profiles that make it sense for. */
#pragma once

#include "profile/tree.h"
#include "profile_maker.h"

/* The stacks and values of a profile, as another module would keep them. */
struct lent {
	const struct profile *p;
	int64_t *values;
	uint64_t *seen, *words;
};

static inline struct profile_stack lent_stack(const void *arg, uint32_t stack)
{
	const struct lent *l = arg;

	return l->p->stacks.p[stack];
}

static inline struct profile_trie lend(struct lent *l, const struct profile *p)
{
	uint32_t n = p->stacks.n;

	l->p = p;
	l->values = mem_zalloc((n + 64) * sizeof(*l->values));
	l->seen = mem_zalloc((n / 64 + 2) * sizeof(*l->seen));
	l->words = mem_zalloc((n / 4096 + 2) * sizeof(*l->words));
	for (uint32_t i = 0; i < p->n_samples; i++) {
		l->values[p->sample_stack[i]] += profile_value(p, i, 0);
		for (uint32_t s = p->sample_stack[i];; s = p->stacks.p[s].parent) {
			l->seen[s / 64] |= UINT64_C(1) << s % 64;
			if (!s)
				break;
		}
	}
	return (struct profile_trie){
		.n = n, .seen = l->seen, .values = l->values, .stack = lent_stack, .arg = l
	};
}

static inline void lent_done(struct lent *l)
{
	free(l->values);
	free(l->seen);
	free(l->words);
}

/* Also lend the bits of words that are not 0. */
static inline void lend_words(struct lent *l, struct profile_trie *in)
{
	for (size_t w = 0; w <= in->n / 64; w++)
		l->words[w / 64] |= (uint64_t)(l->seen[w] != 0) << w % 64;
	in->words = l->words;
}

/* The same, and bits and values that are wrong in words that are not read. */
static inline void lend_few(struct lent *l, struct profile_trie *in)
{
	lend_words(l, in);
	for (size_t w = 0; w < in->n / 64; w++) {
		if (l->words[w / 64] >> w % 64 & 1)
			continue;
		l->seen[w] = ~UINT64_C(0);
		for (size_t i = 0; i < 64; i++)
			l->values[w * 64 + i] = 77;
	}
}

/* Values above 0: what a store lends has no others. */
static inline struct profile *counts_make(const struct profile_maker *m)
{
	struct profile *p = profile_make(m);

	for (uint32_t i = 0; i < p->n_samples * p->types.n; i++)
		p->values[i] = p->values[i] < 0 ? -p->values[i] : MAX(p->values[i], (int64_t)1);
	return p;
}
