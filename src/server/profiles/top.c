/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables: frames by what they take themselves, or with what they call; who calls one of them, and whom it
 * calls.
 */
#include "server/json.h"
#include "server/profiles/profiles.h"

#include <stdlib.h>

#define USUAL_ROWS 1000
#define MAX_ROWS   1000000

static void write_row(struct buf *b, const struct profile_tree *t, const struct profile_top *top)
{
	struct profile_frame f;

	profile_tree_frame(t, top->frame, &f);
	buf_add_char(b, '{');
	api_add_str_of(b, "name", f.name);
	api_add_str_of(b, "file", f.file);
	api_add_int_of(b, "line", f.line);
	api_add_str_of(b, "binary", f.binary);
	api_add_str_of(b, "build_id", f.build_id);
	api_add_key(b, "address");
	if (f.is_address)
		buf_printf(b, "\"0x%llx\"", (unsigned long long)f.address);
	else
		buf_add_str(b, STR("\"\""));
	api_add_int_of(b, "flat", top->flat[0]);
	api_add_int_of(b, "cum", top->cum[0]);
	api_add_int_of(b, "base_flat", top->flat[1]);
	api_add_int_of(b, "base_cum", top->cum[1]);
	buf_add_char(b, '}');
}

static void write_rows(struct buf *b, const struct profile_tree *t, const char *name,
		       const struct profile_top *rows, size_t n)
{
	api_add_key(b, name);
	buf_add_char(b, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_add_char(b, ',');
		write_row(b, t, &rows[i]);
	}
	buf_add_char(b, ']');
}

int api_top(struct api *a, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(mem_freep) struct profile_top *rows = NULL;
	struct str sort = api_text(a, "sort");
	bool by_cum = str_eq(sort, STR("cum"));
	struct buf *b = &a->out;
	uint64_t limit;
	uint32_t n;
	int r;

	if (sort.size && !by_cum && !str_eq(sort, STR("flat")))
		return err_set(err, ERR_INVALID, "'sort' is neither flat nor cum");
	if (api_number(a, "limit", USUAL_ROWS, MAX_ROWS, &limit, err) < 0)
		return -1;
	r = api_merge_tree(a, &m, &t, err);
	if (r)
		return r;
	rows = profile_tree_top(t, by_cum, &n);
	limit = MIN(limit, (uint64_t)n);
	buf_add_char(b, '{');
	api_add_head(b, &m, t);
	write_rows(b, t, "rows", rows, limit);
	api_add_int_of(b, "left_out", (int64_t)(n - limit));
	buf_add_str(b, STR("}\n"));
	return 0;
}

/* The one of this name that takes most; NULL: there is none. */
static const struct profile_top *find(const struct profile_tree *t, const struct profile_top *rows,
				      uint32_t n, struct str name, struct str binary)
{
	struct profile_frame f;

	for (uint32_t i = 0; i < n; i++) {
		profile_tree_frame(t, rows[i].frame, &f);
		if (str_eq(f.name, name) && (!binary.size || str_eq(f.binary, binary)))
			return &rows[i];
	}
	return NULL;
}

static void write_around(struct api *a, const struct profile_tree *t, const struct profile_top *at,
			 uint64_t limit)
{
	AUTO(mem_freep) struct profile_top *callers = NULL;
	AUTO(mem_freep) struct profile_top *callees = NULL;
	uint32_t n_callers, n_callees;
	struct buf *b = &a->out;

	callers = profile_tree_callers(t, at->frame, &n_callers);
	callees = profile_tree_callees(t, at->frame, &n_callees);
	api_add_key(b, "function");
	write_row(b, t, at);
	write_rows(b, t, "callers", callers, MIN(limit, (uint64_t)n_callers));
	write_rows(b, t, "callees", callees, MIN(limit, (uint64_t)n_callees));
}

int api_callers(struct api *a, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(mem_freep) struct profile_top *rows = NULL;
	struct str name = api_text(a, "function");
	const struct profile_top *at;
	uint64_t limit;
	uint32_t n;
	int r;

	if (!name.size)
		return err_set(err, ERR_INVALID, "of which 'function'?");
	if (api_number(a, "limit", USUAL_ROWS, MAX_ROWS, &limit, err) < 0)
		return -1;
	r = api_merge_tree(a, &m, &t, err);
	if (r)
		return r;
	rows = profile_tree_top(t, true, &n);
	at = find(t, rows, n, name, api_text(a, "binary"));
	if (!at) {
		a->status = 404;
		return err_set(err, ERR_INVALID, "there is no function '" STR_FMT "' in that",
			       (int)MIN(name.size, (size_t)200), name.p);
	}
	buf_add_char(&a->out, '{');
	api_add_head(&a->out, &m, t);
	write_around(a, t, at, limit);
	buf_add_str(&a->out, STR("}\n"));
	return 0;
}
