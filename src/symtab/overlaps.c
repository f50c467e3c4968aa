/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The visible parts of overlapping spans.
 */
#include "symtab/build.h"

#include <stdlib.h>
#include "base/sort.h"

static bool span_above(const struct span *a, const struct span *b)
{
	if (a->rank != b->rank)
		return a->rank < b->rank;
	if (a->start != b->start)
		return a->start > b->start;
	if (a->lacks != b->lacks)
		return a->lacks < b->lacks;
	return a->what < b->what;
}

static int span_by_height(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return span_above(x, y) ? -1 : span_above(y, x);
}

/* Sort by start; of equal starts the topmost span is the first. */
static void spans_sort(struct span *list, size_t n)
{
	AUTO(mem_freep) struct sort_key *keys = NEW_N(struct sort_key, n);

	for (size_t i = 0; i < n; i++)
		keys[i] = (struct sort_key){ list[i].start, i };
	sort_keys(keys, n);
	/* Move each to its place in place, along the cycles of the permutation. */
	for (size_t i = 0; i < n; i++) {
		struct span one = list[i];
		size_t to = i, from;

		for (; (from = keys[to].at) != i; to = from) {
			list[to] = list[from];
			keys[to].at = to;
		}
		list[to] = one;
		keys[to].at = to;
	}
	for (size_t i = 0, first = 0; i < n; i++) {
		if (i + 1 < n && list[i + 1].start == list[i].start)
			continue;
		if (i > first)
			SORT(list + first, i + 1 - first, span_by_height);
		first = i + 1;
	}
}

/* A heap of the spans that start at or before the address, the topmost first. A span that has ended is removed
 * when it becomes the topmost. */
struct span_heap {
	const struct span **list;
	size_t n, room;
};

static void span_heap_add(struct span_heap *h, const struct span *s)
{
	size_t at;

	VEC_GROW(h->list, h->n, h->room);
	for (at = h->n++; at && span_above(s, h->list[(at - 1) / 2]); at = (at - 1) / 2)
		h->list[at] = h->list[(at - 1) / 2];
	h->list[at] = s;
}

static void span_heap_pop(struct span_heap *h)
{
	const struct span *last = h->list[--h->n];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < h->n) {
		if (child + 1 < h->n && span_above(h->list[child + 1], h->list[child]))
			child++;
		if (!span_above(h->list[child], last))
			break;
		h->list[at] = h->list[child];
		at = child;
	}
	h->list[at] = last;
}

size_t overlaps_resolve(struct span *in, size_t n, struct span **ret)
{
	struct span_heap h = { 0 };
	struct span *out = NULL;
	size_t n_out = 0, room = 0, next = 0;
	uint64_t at = 0, to;

	if (n)
		spans_sort(in, n);
	while (next < n || h.n) {
		while (h.n && h.list[0]->end <= at)
			span_heap_pop(&h);
		if (!h.n) {
			if (next == n)
				break;
			at = in[next].start;
		}
		for (; next < n && in[next].start <= at; next++)
			if (in[next].end > at)
				span_heap_add(&h, &in[next]);
		if (!h.n)
			continue;
		to = h.list[0]->end;
		if (next < n)
			to = MIN(to, in[next].start);
		if (n_out && out[n_out - 1].what == h.list[0]->what && out[n_out - 1].end == at) {
			out[n_out - 1].end = to;
		} else {
			VEC_PUSH(out, n_out, room) = (struct span){
				.start = at, .end = to, .rank = h.list[0]->rank, .what = h.list[0]->what
			};
		}
		at = to;
	}
	free(h.list);
	*ret = out;
	return n_out;
}
