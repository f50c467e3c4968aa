/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Radix sort, the lowest digit first. Digits in which all keys agree are skipped: addresses of one program
 * differ in three or four bytes, those of one function in two. For short arrays digits are short, since each
 * digit costs as much as it has values.
 */
#include "base/sort.h"

#include <stdlib.h>
#include "base/mem.h"

#define DIGIT_BITS 11u
#define DIGITS     (1u << DIGIT_BITS)
#define SHORT_BITS 8u
#define SHORT_MAX  4096u /* longest array that is sorted by short digits */
#define FEW        32u   /* longest array that is sorted by insertion */
#define NEAR       256u  /* longest array that needs no heap */

static void sort_insertion(struct sort_key *list, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct sort_key one = list[i];
		size_t k = i;

		for (; k && list[k - 1].key > one.key; k--)
			list[k] = list[k - 1];
		list[k] = one;
	}
}

/* One digit, from @in to @out. */
static inline void radix_pass(const struct sort_key *in, struct sort_key *out, size_t n, unsigned shift,
			      unsigned bits)
{
	size_t place[DIGITS], sum = 0, mask = ((size_t)1 << bits) - 1;

	memset(place, 0, sizeof(*place) << bits);
	for (size_t i = 0; i < n; i++)
		place[in[i].key >> shift & mask]++;
	for (size_t d = 0; d <= mask; d++) {
		size_t count = place[d];

		place[d] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++)
		out[place[in[i].key >> shift & mask]++] = in[i];
}

/* @differs: the bits in which keys differ. */
static inline void radix_passes(struct sort_key *list, struct sort_key *room, size_t n, uint64_t differs,
				unsigned bits)
{
	struct sort_key *from = list, *to = room;

	for (unsigned shift = 0; shift < 64 && differs >> shift; shift += bits) {
		struct sort_key *other = from;

		if (!(differs >> shift & (((uint64_t)1 << bits) - 1)))
			continue;
		radix_pass(from, to, n, shift, bits);
		from = to;
		to = other;
	}
	if (from != list)
		memcpy(list, from, n * sizeof(*list));
}

/* Apart from sort_keys(), which is mostly called with few keys, and needs no such frame for them. */
static __attribute__((noinline)) void radix_sort(struct sort_key *list, size_t n, uint64_t differs)
{
	struct sort_key near[NEAR], *room = near;

	if (n > NEAR)
		room = mem_realloc(NULL, n, sizeof(*room));
	if (n <= SHORT_MAX)
		radix_passes(list, room, n, differs, SHORT_BITS);
	else
		radix_passes(list, room, n, differs, DIGIT_BITS);
	if (n > NEAR)
		free(room);
}

void sort_keys(struct sort_key *list, size_t n)
{
	uint64_t all_set = UINT64_MAX, any_set = 0;
	bool sorted = true;

	for (size_t i = 0; i < n; i++) {
		all_set &= list[i].key;
		any_set |= list[i].key;
		sorted &= !i || list[i - 1].key <= list[i].key;
	}
	if (sorted)
		return;
	if (n <= FEW)
		sort_insertion(list, n);
	else
		radix_sort(list, n, all_set ^ any_set);
}
