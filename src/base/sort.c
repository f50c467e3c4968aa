/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Radix sort, the lowest digit first. Digits in which all keys agree are passed by: addresses of one program
 * differ in three or four bytes.
 */
#include "base/sort.h"

#include <stdlib.h>
#include "base/mem.h"

#define DIGIT_BITS 11u
#define DIGITS     (1u << DIGIT_BITS)
#define FEW        64u /* are sorted by insertion */

static void insertion(struct sort_key *list, size_t n)
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
static void pass(const struct sort_key *in, struct sort_key *out, size_t n, unsigned shift)
{
	size_t place[DIGITS] = { 0 }, sum = 0;

	for (size_t i = 0; i < n; i++)
		place[in[i].key >> shift & (DIGITS - 1)]++;
	for (unsigned d = 0; d < DIGITS; d++) {
		size_t count = place[d];

		place[d] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++)
		out[place[in[i].key >> shift & (DIGITS - 1)]++] = in[i];
}

void sort_keys(struct sort_key *list, size_t n)
{
	struct sort_key *room, *from = list, *to;
	uint64_t all_set = UINT64_MAX, any_set = 0;
	bool sorted = true;

	for (size_t i = 0; i < n; i++) {
		all_set &= list[i].key;
		any_set |= list[i].key;
		sorted &= !i || list[i - 1].key <= list[i].key;
	}
	if (sorted)
		return;
	if (n <= FEW) {
		insertion(list, n);
		return;
	}
	to = room = mem_realloc(NULL, n, sizeof(*room));
	for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
		struct sort_key *other = from;

		if (!((all_set ^ any_set) >> shift & (DIGITS - 1)))
			continue;
		pass(from, to, n, shift);
		from = to;
		to = other;
	}
	if (from != list)
		memcpy(list, from, n * sizeof(*list));
	free(room);
}
