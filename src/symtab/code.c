/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of a function: its own addresses, and those that only calls inlined into it have.
 *
 * A function's addresses should contain those of its calls. For a function in three parts, BOLT may write the first
 * part alone, and the calls of all of them (docs/decisions/0043).
 */
#include "symtab/batch.h"

#include <stdlib.h>
#include "base/sort.h"

struct function_calls function_calls(struct unit_work *w, const struct dwarf_function *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_spans; i++) {
		if (!f->spans[i].node)
			continue;
		VEC_PUSH(w->keys, n, w->room_keys) = (struct sort_key){ f->spans[i].lo, i };
	}
	sort_keys(w->keys, n);
	return (struct function_calls){ f->spans, w->keys, .n = n };
}

static int code_by_start(const void *a, const void *b)
{
	const struct function_code *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Whether the first of the function's own spans contains all others, as it nearly always does. */
static bool calls_are_within(const struct dwarf_function *f)
{
	const struct dwarf_span *own = &f->spans[0];

	for (size_t i = 0; i < f->n_spans; i++)
		if (f->spans[i].lo < own->lo || f->spans[i].hi > own->hi)
			return false;
	return !own->node;
}

/* Add the parts of [lo, hi) outside of the first @n_own ranges, of which those before @*own end before @lo. */
static void code_outside_add(struct unit_work *w, uint64_t lo, uint64_t hi, size_t n_own, size_t *own,
			     size_t *n)
{
	while (lo < hi) {
		uint64_t to = hi;

		while (*own < n_own && w->code[*own].hi <= lo)
			++*own;
		if (*own < n_own && w->code[*own].lo <= lo) {
			lo = w->code[*own].hi;
			continue;
		}
		if (*own < n_own)
			to = MIN(to, w->code[*own].lo);
		if (*n > n_own && w->code[*n - 1].hi == lo) {
			w->code[*n - 1].hi = to;
		} else {
			VEC_PUSH(w->code, *n, w->room_code) = (struct function_code){ lo, to, true };
		}
		lo = to;
	}
}

size_t function_code(struct unit_work *w, const struct dwarf_function *f, const struct function_calls *calls)
{
	size_t n = 0, n_own, own = 0;
	uint64_t done = 0;

	for (size_t i = 0; i < f->n_spans && !f->spans[i].node; i++) {
		VEC_PUSH(w->code, n, w->room_code) = (struct function_code){ f->spans[i].lo, f->spans[i].hi,
									     false };
	}
	SORT(w->code, n, code_by_start);
	if (calls_are_within(f))
		return n;
	n_own = n;
	for (size_t i = 0; i < calls->n; i++) {
		const struct dwarf_span *call = &calls->spans[calls->keys[i].at];

		code_outside_add(w, MAX(call->lo, done), call->hi, n_own, &own, &n);
		done = MAX(done, call->hi);
	}
	if (n > n_own)
		SORT(w->code, n, code_by_start);
	return n;
}
