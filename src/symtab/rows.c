/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a code range, read up to the one asked for. The reader keeps its position, so that rising
 * addresses continue from there.
 */
#include "symtab/rows.h"

/* Read the op of the next row, and the step to where it starts. */
static const uint8_t *step_read(const uint8_t *p, const uint8_t *end, uint8_t *ret_op, uint32_t *ret_step)
{
	uint8_t op = *p++;
	uint32_t far = 0;

	if (op >= ROW_FAR) {
		if (op == ROW_STEP)
			*ret_step = (uint32_t)leb_u(&p, end);
		else
			far = (op - ROW_FAR + 1u) * ROW_STEPS;
		*ret_op = p < end ? *p : 0;
		if (op != ROW_STEP)
			*ret_step = *ret_op % ROW_STEPS + 1 + far;
		return *ret_op < ROW_FAR ? p + 1 : end + 1;
	}
	*ret_op = op;
	*ret_step = op % ROW_STEPS + 1;
	return p;
}

/*
 * Read ops up to the row of @off, and the one after it, which says where that row ends. The last row extends
 * to the end of the code range.
 */
static int rows_run(struct row_reader *r, uint32_t off)
{
	const uint8_t *p = r->next_op, *end = r->end;
	bool columns = r->columns;
	struct read_entry *entries = r->entries;
	struct row_state st = r->st;

	r->fresh = false;
	while (off >= r->hi) {
		struct row_place to = st.at;
		unsigned k = ROW_PLACES;
		int64_t line_step = 0;
		uint32_t step;
		uint8_t op;

		r->lo = r->hi;
		r->at = st.at;
		if (p >= end) {
			r->hi = UINT32_MAX;
			break;
		}
		p = step_read(p, end, &op, &step);
		op /= ROW_STEPS;
		if (op == ROW_NEW) {
			while (st.n_new < r->n_entries && entries[st.n_new].head & ENTRY_PASSIVE)
				st.n_new++;
			to.entry = st.n_new++;
		} else if (op < ROW_NEAR) {
			k = op - ROW_BACK;
			to = st.back[k];
		} else {
			if (op == ROW_PARENT)
				to.entry = entries[entry_call(entries, st.at.entry)].parent;
			else if (op == ROW_BEFORE)
				to.entry = st.before;
			else if (op == ROW_ENTRY)
				to.entry = (uint32_t)leb_u(&p, end);
			line_step = op < ROW_LINE ? op - ROW_NEAR + ROW_NEAR_FIRST : unzigzag(leb_u(&p, end));
			if (columns)
				to.column = leb_u(&p, end);
		}
		if (p > end || to.entry >= r->n_entries || step > UINT32_MAX - 1 - st.addr)
			return -1;
		if (op == ROW_NEW) {
			to.line = entries[to.entry].line;
			to.column = entries[to.entry].column;
		} else if (op >= ROW_NEAR) {
			to.line = entries[to.entry].last + (uint32_t)line_step;
		}
		entries[to.entry].last = to.line;
		row_state_go(&st, to, k);
		st.addr += step;
		r->hi = st.addr;
	}
	r->st = st;
	r->next_op = p;
	return 0;
}

static void rows_start(struct row_reader *r)
{
	/* Reading rows changes the entries' last lines. */
	for (uint32_t i = 0; !r->fresh && i < r->n_entries; i++)
		r->entries[i].last = r->entries[i].line;
	/* The first row starts at 0, as if a row before it had ended there. */
	r->st = (struct row_state){ .n_new = 1,
				    .at = { .line = r->entries[0].line, .column = r->entries[0].column } };
	r->hi = 0;
	r->next_op = r->ops;
}

int rows_go(struct row_reader *r, uint32_t off)
{
	if (!r->next_op || off < r->lo)
		rows_start(r);
	if (rows_run(r, off) == 0)
		return ROWS_MOVED;
	r->next_op = NULL;
	return -1;
}
