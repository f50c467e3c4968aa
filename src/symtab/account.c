/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of the memory of a table being built, besides that of its batches.
 */
#include "symtab/build.h"

#include "base/sort.h"

int build_account(struct build *b, struct err *err)
{
	uint64_t n = b->n_ranges * sizeof(*b->ranges) + b->room_candidates * sizeof(*b->candidates) +
		     b->room_spans * sizeof(*b->spans) + b->n_symbol_spans * sizeof(*b->symbol_spans) +
		     b->room_chunks * sizeof(*b->chunks) + b->block_bytes.room;

	if (b->blocks)
		n += block_writer_room(b->blocks);
	budget_hold_track(&b->memory, &b->held, n);
	return budget_hold_check(&b->memory, err);
}

int build_account_overlaps(struct build *b, uint64_t n, struct err *err)
{
	n *= sizeof(struct sort_key) + sizeof(struct span *) + 2 * sizeof(struct span);
	if (budget_hold_add(&b->memory, n, err) < 0)
		return -1;
	budget_hold_sub(&b->memory, n);
	return 0;
}
