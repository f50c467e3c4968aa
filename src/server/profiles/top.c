/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables: frames by their own samples, or with those of their callees; callers and callees of one frame.
 */
#include "server/profiles/profiles.h"

#include <stdlib.h>
#include "base/budget.h"

#define USUAL_ROWS 1000
#define MAX_ROWS   1000000

static void write_row(struct json_writer *w, const char *key, const struct profile_tree *t,
		      const struct profile_top *top)
{
	struct profile_frame f;

	profile_tree_frame(t, top->frame, &f);
	json_open_object(w, key);
	json_put_str(w, "name", f.name);
	json_put_str(w, "file", f.file);
	json_put_int(w, "line", f.line);
	json_put_str(w, "binary", f.binary);
	json_put_str(w, "build_id", f.build_id);
	if (f.is_address)
		json_put_printf(w, "address", "0x%llx", (unsigned long long)f.address);
	else
		json_put_text(w, "address", "");
	json_put_int(w, "flat", top->flat[0]);
	json_put_int(w, "cum", top->cum[0]);
	json_put_int(w, "base_flat", top->flat[1]);
	json_put_int(w, "base_cum", top->cum[1]);
	json_close(w);
}

static void write_rows(struct json_writer *w, const struct profile_tree *t, const char *name,
		       const struct profile_top *rows, size_t n)
{
	json_open_array(w, name);
	for (size_t i = 0; i < n && !buf_is_over(w->out); i++)
		write_row(w, NULL, t, &rows[i]);
	json_close(w);
}

/* The memory of lists of frames, granted before they are made. */
struct rows_memory {
	struct budget_hold *hold;
	uint64_t size;
};

static void rows_memory_done(struct rows_memory *m)
{
	if (m->hold)
		budget_hold_sub(m->hold, m->size);
}

/* Of @n_lists: each has a row and a counter for every frame while it is made. */
static int rows_reserve(struct api *a, const struct profile_tree *t, unsigned n_lists, struct rows_memory *m,
			struct err *err)
{
	uint64_t row = sizeof(struct profile_top) + sizeof(uint32_t),
		 size = ((uint64_t)profile_tree_n_frames(t) + 1) * row * n_lists;

	if (budget_hold_add(&a->memory, size, err) < 0)
		return -1;
	*m = (struct rows_memory){ &a->memory, size };
	return 0;
}

int api_top(struct api *a, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(mem_freep) struct profile_top *rows = NULL;
	AUTO(rows_memory_done) struct rows_memory memory = { 0 };
	struct str sort = api_text(a, "sort");
	bool by_cum = str_eq(sort, STR("cum"));
	struct json_writer *w = &a->json;
	struct api_tree tree = { .top = true };
	uint64_t limit;
	uint32_t n;
	int r;

	if (sort.size && !by_cum && !str_eq(sort, STR("flat")))
		return err_set(err, ERR_INVALID, "'sort' must be flat or cum");
	if (api_number(a, "limit", USUAL_ROWS, MAX_ROWS, &limit, err) < 0)
		return -1;
	if (api_view(a, &tree.view, err) < 0)
		return -1;
	r = api_merge_tree(a, &tree, &m, &t, err);
	if (r)
		return r;
	if (rows_reserve(a, t, 1, &memory, err) < 0)
		return -1;
	rows = profile_tree_top(t, by_cum, &n);
	limit = MIN(limit, (uint64_t)n);
	json_open_object(w, NULL);
	api_put_head(a, &m, t);
	write_rows(w, t, "rows", rows, limit);
	json_put_int(w, "left_out", (int64_t)(n - limit));
	json_close(w);
	buf_add_char(&a->out, '\n');
	return 0;
}

static void write_around(struct api *a, const struct profile_tree *t, const struct profile_top *at,
			 uint64_t limit)
{
	AUTO(mem_freep) struct profile_top *callers = NULL;
	AUTO(mem_freep) struct profile_top *callees = NULL;
	uint32_t n_callers, n_callees;
	struct json_writer *w = &a->json;

	callers = profile_tree_callers(t, at->frame, &n_callers);
	callees = profile_tree_callees(t, at->frame, &n_callees);
	write_row(w, "function", t, at);
	write_rows(w, t, "callers", callers, MIN(limit, (uint64_t)n_callers));
	write_rows(w, t, "callees", callees, MIN(limit, (uint64_t)n_callees));
}

int api_callers(struct api *a, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(mem_freep) struct profile_top *rows = NULL;
	AUTO(rows_memory_done) struct rows_memory memory = { 0 };
	struct str name = api_text(a, "function");
	const struct profile_top *at;
	struct api_tree tree = {
		.top = true, .function = name, .binary = api_text(a, "binary"), .file = api_text(a, "file")
	};
	uint64_t limit;
	uint32_t n;
	int r;

	if (!name.size)
		return err_set(err, ERR_INVALID, "a 'function' is needed");
	if (api_number(a, "limit", USUAL_ROWS, MAX_ROWS, &limit, err) < 0)
		return -1;
	if (api_view(a, &tree.view, err) < 0)
		return -1;
	r = api_merge_tree(a, &tree, &m, &t, err);
	if (r)
		return r;
	if (rows_reserve(a, t, 3, &memory, err) < 0)
		return -1;
	rows = profile_tree_top(t, true, &n);
	/* The rows are not complete then, and may lack the function. */
	if (deadline_check(&a->deadline, 0, err) < 0)
		return -1;
	at = profile_tree_find(t, rows, n, name, tree.binary, tree.file);
	if (!at) {
		a->status = 404;
		return err_set(err, ERR_INVALID, "there is no function '" STR_FMT "' in these profiles",
			       (int)MIN(name.size, (size_t)200), name.p);
	}
	json_open_object(&a->json, NULL);
	api_put_head(a, &m, t);
	write_around(a, t, at, limit);
	json_close(&a->json);
	buf_add_char(&a->out, '\n');
	return 0;
}
