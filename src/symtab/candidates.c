/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List the code ranges and symbols of a file by rank: DWARF's functions, then Go's, calls outside of their functions,
 * lines of no function, symbols, padding.
 */
#include "symtab/build.h"

#include <stdlib.h>

#define ACCOUNT_CANDIDATES 4096u /* the memory of so many may go uncounted */

/* Every unit's lines may be cut at every symbol, so the candidates are no fixed multiple of what was read. */
static int candidates_check(struct build *b, struct err *err)
{
	if (b->n_candidates - b->n_checked < ACCOUNT_CANDIDATES)
		return 0;
	b->n_checked = b->n_candidates;
	return err_if_cancelled(b->o->cancel, err) < 0 ? -1 : build_account(b, err);
}

/* The span that was added; NULL: it is empty. */
static struct span *candidate_add(struct build *b, uint64_t start, uint64_t end, uint16_t rank,
				  struct candidate what)
{
	if (end <= start)
		return NULL;
	VEC_GROW(b->candidates, b->n_candidates, b->room_candidates);
	b->candidates[b->n_candidates] = what;
	VEC_PUSH(b->spans, b->n_spans, b->room_spans) = (struct span){
		.start = start, .end = end, .rank = rank, .what = (uint32_t)b->n_candidates++
	};
	return &b->spans[b->n_spans - 1];
}

enum { LACKS_NOTHING, LACKS_CALLS, LACKS_LINES };

/*
 * What the description of a function lacks. After BOLT has folded identical functions, each has the code, but only the
 * one that was kept has live calls, and lines in its unit.
 */
static uint16_t function_lacks(const struct build *b, size_t range, uint32_t n_parts)
{
	bool lines = false;

	for (size_t i = range; i < range + n_parts; i++) {
		if (b->ranges[i]->has_calls)
			return LACKS_NOTHING;
		lines |= b->ranges[i]->has_lines;
	}
	return lines ? LACKS_CALLS : LACKS_LINES;
}

void symbols_resolve(struct build *b)
{
	struct span *spans = NEW_N(struct span, b->symbols.n + 1);
	const struct symbol *list = b->symbols.list;
	uint64_t section_end = 0, label = 0;
	bool have_label = false;
	size_t n = 0;

	for (size_t i = 0, next; i < b->symbols.n; i++) {
		uint64_t end = list[i].end;

		if (end == list[i].start && list[i].origin == SYMTAB_DYNAMIC)
			end = list[i].start + 1;
		if (end == list[i].start) {
			/* The first of several at one address is the best; the others add nothing. */
			if (have_label && label == list[i].start)
				continue;
			have_label = true;
			label = list[i].start;
			if (list[i].start >= section_end) {
				const struct dwarf_section_place *place = dwarf_place_at(b->code, b->n_code,
											 list[i].start);

				section_end = place ? place->base + place->size : list[i].start;
				if (place && place->size == DWARF_CODE_ANYWHERE)
					section_end = list[i].start + 1;
			}
			for (next = i + 1; next < b->symbols.n && list[next].start == list[i].start; next++)
				;
			end = next < b->symbols.n ? MIN(list[next].start, section_end) : section_end;
			spans[n++] = (struct span){
				.start = list[i].start, .end = end, .rank = 1, .what = (uint32_t)i
			};
			continue;
		}
		spans[n++] = (struct span){ .start = list[i].start, .end = end, .what = (uint32_t)i };
	}
	b->n_symbol_spans = overlaps_resolve(spans, n, &b->symbol_spans);
	free(spans);
}

/* Lines of no function are cut where the symbol changes. Those after a function are its padding up to the
 * first symbol. */
static int lines_add(struct build *b, uint32_t range, const struct code_range *p, struct err *err)
{
	uint64_t at = p->start, end = p->start + p->size;
	bool named = false;
	size_t lo = SEARCH(0, b->n_symbol_spans, i, b->symbol_spans[i].end <= at);

	for (; at < end; lo++) {
		const struct span *s = lo < b->n_symbol_spans && b->symbol_spans[lo].start < end
					       ? &b->symbol_spans[lo]
					       : NULL;

		if (!p->from_symbol || named)
			candidate_add(b, at, s ? s->start : end, RANK_LINES,
				      (struct candidate){ .range = range + 1, .n_parts = 1 });
		if (!s)
			break;
		if (candidates_check(b, err) < 0)
			return -1;
		at = MAX(at, s->start);
		named |= s->start >= p->start;
		if (!p->from_symbol || named)
			candidate_add(b, at, MIN(end, s->end), RANK_LINES,
				      (struct candidate){
					      .range = range + 1, .n_parts = 1, .symbol = s->what + 1 });
		at = s->end;
	}
	return 0;
}

int build_candidates(struct build *b, struct err *err)
{
	size_t first = 0; /* of the parts of a function */

	if (!b->some && !b->symbol_spans)
		symbols_resolve(b);
	for (size_t i = 0; i < b->n_ranges; i++) {
		const struct code_range *p = b->ranges[i], *last;
		uint32_t n_parts = 1;
		struct span *span;

		if ((p->origin != SYMTAB_DWARF && p->origin != SYMTAB_GO) || p->part)
			continue;
		while (i + n_parts < b->n_ranges && b->ranges[i + n_parts]->part)
			n_parts++;
		last = b->ranges[i + n_parts - 1];
		span = candidate_add(b, p->start, last->start + last->size,
				     p->of_calls                 ? RANK_CALLS
				     : p->origin == SYMTAB_DWARF ? RANK_DWARF
								 : RANK_GO,
				     (struct candidate){ .range = (uint32_t)i + 1, .n_parts = n_parts });
		if (span)
			span->lacks = function_lacks(b, i, n_parts);
	}
	for (size_t i = 0; i < b->n_ranges; i++) {
		const struct code_range *p = b->ranges[i];

		if (!p->part)
			first = i;
		if (candidates_check(b, err) < 0 ||
		    (p->origin == SYMTAB_LINES && lines_add(b, (uint32_t)i, p, err) < 0))
			return -1;
		candidate_add(b, p->start + p->size, p->start + p->size + p->tail, RANK_TAIL,
			      (struct candidate){ .range = (uint32_t)first + 1, .tail = true });
	}
	for (size_t i = 0; i < b->n_symbol_spans; i++)
		candidate_add(b, b->symbol_spans[i].start, b->symbol_spans[i].end, RANK_SYMBOL,
			      (struct candidate){ .symbol = b->symbol_spans[i].what + 1 });
	return build_account(b, err);
}
