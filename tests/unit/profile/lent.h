/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of a profile as struct profile_trie, and profiles that make it sense for. */
#pragma once

#include <stdio.h>
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

/* ---- comparisons ---- */

/*
 * A comparison with other values of the same stacks, of which each side lacks some. @scale of the base: sums of scaled
 * samples are the same only if it is a whole number.
 */
struct sides {
	struct profile *p, *base;
	double scale;
};

static inline struct sides sides_make(const struct profile_maker *m, double scale)
{
	struct sides x = { counts_make(m), counts_make(m), scale };

	for (uint32_t i = 0; i < x.p->n_samples * x.p->types.n; i++) {
		x.base->values[i] = i % 3 ? x.base->values[i] * 7 % 101 : 0;
		/* A stack has a value on one side at least. */
		x.p->values[i] = i % 4 || !x.base->values[i] ? x.p->values[i] : 0;
	}
	return x;
}

static inline void sides_done(struct sides *x)
{
	profile_free(x->p);
	profile_free(x->base);
}

/* ---- the values of a label ---- */

#define GROUPS_MOST 64u

static inline void value_text(const struct profile *p, const struct profile_label_set *set, char ret[64])
{
	ret[0] = '\0';
	for (uint32_t k = set->n; k-- > 0;) {
		const struct profile_label *l = &p->labels.p[set->first + k];

		if (!str_eq(profile_str(p, l->key), STR("key 0")))
			continue;
		if (l->str)
			snprintf(ret, 64, STR_FMT, STR_ARG(profile_str(p, l->str)));
		else
			snprintf(ret, 64, "%lld " STR_FMT, (long long)l->num,
				 STR_ARG(profile_str(p, l->unit)));
	}
}

/* Of each set of labels the number of its value of "key 0"; the first one is that of sets without it. */
static inline uint32_t number_values(const struct profile *p, uint32_t *ret_groups)
{
	char values[GROUPS_MOST][64] = { "" };
	uint32_t n = 1;

	for (uint32_t set = 0; set < p->label_sets.n; set++) {
		uint32_t i = 0;

		assert_true(n < GROUPS_MOST);
		value_text(p, &p->label_sets.p[set], values[n]);
		while (strcmp(values[i], values[n]) != 0)
			i++;
		n += i == n;
		ret_groups[set] = i;
	}
	return n;
}

/* The samples of one value; true: there are some. */
static inline bool lend_value(struct lent *l, const struct profile *p, const uint32_t *groups, uint32_t group,
			      struct profile_trie *ret)
{
	bool any = false;

	*ret = lend(l, p);
	memset(l->values, 0, p->stacks.n * sizeof(*l->values));
	memset(l->seen, 0, (p->stacks.n / 64 + 2) * sizeof(*l->seen));
	for (uint32_t i = 0; i < p->n_samples; i++) {
		if (groups[p->sample_labels[i]] != group)
			continue;
		any = true;
		ret->labels = p->sample_labels[i];
		l->values[p->sample_stack[i]] += profile_value(p, i, 0);
		for (uint32_t s = p->sample_stack[i];; s = p->stacks.p[s].parent) {
			l->seen[s / 64] |= UINT64_C(1) << s % 64;
			if (!s)
				break;
		}
	}
	lend_words(l, ret);
	return any;
}

/* The same of both sides, which have the same stacks, samples and labels. */
static inline bool lend_value_of_sides(struct lent l[2], const struct sides *x, const uint32_t *groups,
				       uint32_t group, struct profile_trie *ret)
{
	struct profile_trie base;

	lend_value(&l[1], x->base, groups, group, &base);
	if (!lend_value(&l[0], x->p, groups, group, ret))
		return false;
	ret->base = base.values;
	ret->scale = x->scale;
	return true;
}
