/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of code with several descriptions: no function, call or line is hidden by another one silently.
 *
 * Compilers describe two names of one function twice, and linkers fold identical functions into one. A table has one
 * description for each address (overlaps.c), so the others are counted.
 */
#include "symtab/build.h"

#include <stdlib.h>

static bool is_function(const struct span *s)
{
	return s->rank <= RANK_CALLS;
}

static void sizes_add(const struct span *list, size_t n, uint64_t *ret_functions, uint64_t *ret_lines)
{
	*ret_functions = *ret_lines = 0;
	for (size_t i = 0; i < n; i++) {
		*ret_functions += is_function(&list[i]) ? list[i].end - list[i].start : 0;
		*ret_lines += list[i].rank == RANK_LINES ? list[i].end - list[i].start : 0;
	}
}

/* How many functions' ranges have less visible code than code. */
static uint64_t ranges_hidden(const struct build *b, const struct span *visible, size_t n)
{
	AUTO(mem_freep) uint64_t *sizes = mem_zalloc((b->n_candidates + 1) * sizeof(*sizes));
	uint64_t n_hidden = 0;

	for (size_t i = 0; i < n; i++)
		sizes[visible[i].what] += visible[i].end - visible[i].start;
	for (size_t i = 0; i < b->n_spans; i++) {
		const struct span *s = &b->spans[i];

		n_hidden += is_function(s) && sizes[s->what] < s->end - s->start;
	}
	return n_hidden;
}

void hidden_count(struct build *b, const struct span *visible, size_t n)
{
	uint64_t functions, lines, seen_functions, seen_lines;

	sizes_add(b->spans, b->n_spans, &functions, &lines);
	sizes_add(visible, n, &seen_functions, &seen_lines);
	b->hidden.size = functions - seen_functions;
	b->hidden.lines_size = lines - seen_lines;
	/* Few files have any. */
	if (b->hidden.size)
		b->hidden.n_ranges = ranges_hidden(b, visible, n);
}
