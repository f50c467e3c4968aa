/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of Arrow: every value of a stream that is read can be read, within bounds and with its memory returned. */
#include "fuzz.h"

#include "arrow/arrow.h"

#define MAX_VALUES 200000u

struct walk {
	uint64_t sum;
	unsigned n_left;
};

/* As deep as the schema, which is bounded. */
static void walk_row(struct walk *w, struct arrow_array *a, uint64_t i)
{
	struct arrow_array *child;
	uint64_t first, n;
	struct bytes b;

	if (!w->n_left || !arrow_follow(&a, &i))
		return;
	w->n_left--;
	w->sum += arrow_number(a, i);
	b = arrow_bytes(a, i);
	for (size_t k = 0; k < b.size; k++)
		w->sum += b.p[k];
	child = arrow_list(a, i, &first, &n);
	for (uint64_t k = 0; k < n && w->n_left; k++)
		walk_row(w, child, first + k);
	if (a->field->kind != ARROW_STRUCT || a->dictionary)
		return;
	child = a + 1;
	for (uint32_t k = 0; k < a->field->n_children; k++) {
		FUZZ_CHECK(arrow_child(a, child->field->name));
		walk_row(w, child, i);
		child += 1 + child->field->n_below;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct budget_hold hold;
	struct arrow_limits limits = { .hold = &hold, .max_size = 1 << 22 };
	struct walk w = { .n_left = MAX_VALUES };
	struct arrow_stream *s = NULL;
	struct err err = { 0 };

	budget_hold_init(&hold, NULL, BUDGET_PROFILE);
	hold.max = 32 << 20;
	if (arrow_open(bytes_of(data, size), &limits, &s, &err) == 0) {
		(void)arrow_metadata(s, STR("key"));
		while (arrow_next(s, &err) == 0) {
			struct arrow_array *a = NULL;

			while ((a = arrow_column_after(s, a)))
				for (uint64_t i = 0; i < arrow_rows(s) && w.n_left; i++)
					walk_row(&w, a, i % 2 ? i : arrow_rows(s) - 1 - i);
		}
	}
	FUZZ_CHECK(!err.kind || err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	arrow_close(s);
	FUZZ_CHECK(hold.used == 0);
	budget_hold_done(&hold);
	return 0;
}
