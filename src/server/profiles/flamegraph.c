/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph in columns: each frame and string is written once, and nodes too small to be seen are left
 * out.
 */
#include "server/profiles/profiles.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include "base/budget.h"

struct graph {
	const struct profile_tree *t;
	uint32_t *order, *place; /* nodes in the order of the answer; the place of each node in it */
	uint32_t n;
	uint32_t *frames, *strings; /* of each of the tree: its number in the answer + 1; 0: not in it */
	uint32_t *frame_order, *string_order;
	uint32_t n_frames, n_strings;
	struct budget_hold *hold; /* that has granted these arrays: `held` bytes */
	uint64_t held;
};

static void graph_done(struct graph *g)
{
	if (g->hold)
		budget_hold_sub(g->hold, g->held);
	free(g->order);
	free(g->place);
	free(g->frames);
	free(g->strings);
	free(g->frame_order);
	free(g->string_order);
}

/* ---- small nodes ---- */

static int view_of_graph(const struct api *a, struct profile_view *ret, struct err *err)
{
	const char *s = api_cstr(a, "min_share");
	double share;
	char *end;

	if (api_view(a, ret, err) < 0)
		return -1;
	ret->max_nodes = s ? API_MAX_NODES : API_USUAL_NODES;
	if (!s)
		return 0;
	errno = 0;
	share = strtod(s, &end);
	if (*end || errno || !isfinite(share) || share < 0 || share > 1)
		return err_set(err, ERR_INVALID, "'min_share' must be a number from 0 to 1");
	ret->min_share = share;
	return 0;
}

/* ---- numbering ---- */

static void graph_add_string(struct graph *g, uint32_t s)
{
	if (g->strings[s])
		return;
	g->string_order[g->n_strings++] = s;
	g->strings[s] = g->n_strings;
}

static void graph_add_frame(struct graph *g, uint32_t frame)
{
	struct profile_frame f;

	if (g->frames[frame])
		return;
	g->frame_order[g->n_frames++] = frame;
	g->frames[frame] = g->n_frames;
	profile_tree_frame(g->t, frame, &f);
	graph_add_string(g, f.name_string);
	graph_add_string(g, f.file_string);
	graph_add_string(g, f.binary_string);
	graph_add_string(g, f.build_id_string);
}

static int graph_enter(void *arg, uint32_t node, unsigned depth)
{
	struct graph *g = arg;
	struct profile_node n;

	profile_tree_node(g->t, node, &n);
	g->place[node] = g->n;
	g->order[g->n++] = node;
	if (node)
		graph_add_frame(g, n.frame);
	return 0;
}

static int graph_number(struct graph *g, struct err *err)
{
	const struct profile_walk walk = { graph_enter, NULL, g };
	size_t n = profile_tree_n(g->t), n_frames = profile_tree_n_frames(g->t),
	       n_strings = profile_tree_n_strings(g->t);

	uint64_t size = 2 * sizeof(uint32_t) * (n + n_frames + n_strings + 2);

	if (budget_hold_add(g->hold, size, err) < 0)
		return -1;
	g->held = size;
	g->order = calloc(n, sizeof(*g->order));
	g->place = calloc(n, sizeof(*g->place));
	g->frames = calloc(n_frames + 1, sizeof(*g->frames));
	g->frame_order = calloc(n_frames + 1, sizeof(*g->frame_order));
	g->strings = calloc(n_strings + 1, sizeof(*g->strings));
	g->string_order = calloc(n_strings + 1, sizeof(*g->string_order));
	if (!g->order || !g->place || !g->frames || !g->frame_order || !g->strings || !g->string_order)
		return err_set(err, ERR_LIMIT, "no memory for a graph of %zu nodes", n);
	graph_add_string(g, 0);
	profile_tree_walk(g->t, &walk);
	return 0;
}

/* ---- writing ---- */

static void write_strings(struct json_writer *w, const struct graph *g)
{
	/* The texts of strings are reached through frames. */
	AUTO(mem_freep) struct str *texts = calloc(g->n_strings + 1, sizeof(*texts));
	struct profile_frame f;

	if (!texts)
		mem_none(g->n_strings, sizeof(*texts));
	for (uint32_t i = 0; i < g->n_frames; i++) {
		profile_tree_frame(g->t, g->frame_order[i], &f);
		texts[g->strings[f.name_string] - 1] = f.name;
		texts[g->strings[f.file_string] - 1] = f.file;
		texts[g->strings[f.binary_string] - 1] = f.binary;
		texts[g->strings[f.build_id_string] - 1] = f.build_id;
	}
	json_open_array(w, "strings");
	for (uint32_t i = 0; i < g->n_strings && !buf_is_over(w->out); i++)
		json_put_str(w, NULL, texts[i]);
	json_close(w);
}

enum frame_column {
	FRAME_NAME,
	FRAME_FILE,
	FRAME_LINE,
	FRAME_BINARY,
	FRAME_BUILD_ID,
	FRAME_ADDRESS,
	N_FRAME_COLUMNS
};

static void write_frame_cell(struct json_writer *w, const struct graph *g, enum frame_column column,
			     const struct profile_frame *f)
{
	switch (column) {
	case FRAME_NAME:
		json_put_int(w, NULL, g->strings[f->name_string] - 1);
		break;
	case FRAME_FILE:
		json_put_int(w, NULL, g->strings[f->file_string] - 1);
		break;
	case FRAME_LINE:
		json_put_int(w, NULL, f->line);
		break;
	case FRAME_BINARY:
		json_put_int(w, NULL, g->strings[f->binary_string] - 1);
		break;
	case FRAME_BUILD_ID:
		json_put_int(w, NULL, g->strings[f->build_id_string] - 1);
		break;
	default:
		if (f->is_address)
			json_put_printf(w, NULL, "0x%llx", (unsigned long long)f->address);
		else
			json_put_text(w, NULL, "");
	}
}

static void write_frames(struct json_writer *w, const struct graph *g)
{
	static const char *const names[] = { "name", "file", "line", "binary", "build_id", "address" };
	struct profile_frame f;

	json_open_object(w, "frames");
	for (unsigned c = 0; c < N_FRAME_COLUMNS; c++) {
		json_open_array(w, names[c]);
		for (uint32_t i = 0; i < g->n_frames && !buf_is_over(w->out); i++) {
			profile_tree_frame(g->t, g->frame_order[i], &f);
			write_frame_cell(w, g, c, &f);
		}
		json_close(w);
	}
	json_close(w);
}

enum node_column {
	NODE_PARENT,
	NODE_FRAME,
	NODE_SELF,
	NODE_TOTAL,
	NODE_BASE_SELF,
	NODE_BASE_TOTAL,
	NODE_INLINED,
	N_NODE_COLUMNS
};

static int64_t node_cell(const struct graph *g, enum node_column column, uint32_t node)
{
	struct profile_node n;

	profile_tree_node(g->t, node, &n);
	switch (column) {
	case NODE_PARENT:
		return node ? (int64_t)g->place[n.parent] : -1;
	case NODE_FRAME:
		return node ? (int64_t)g->frames[n.frame] - 1 : -1;
	case NODE_SELF:
		return n.self[0];
	case NODE_TOTAL:
		return n.total[0];
	case NODE_BASE_SELF:
		return n.self[1];
	case NODE_BASE_TOTAL:
		return n.total[1];
	default:
		return n.inlined;
	}
}

static void write_nodes(struct json_writer *w, const struct graph *g, bool compares)
{
	static const char *const names[] = { "parent",    "frame",      "self",   "total",
					     "base_self", "base_total", "inlined" };

	json_open_object(w, "nodes");
	for (unsigned c = 0; c < N_NODE_COLUMNS; c++) {
		bool empty = !compares && (c == NODE_BASE_SELF || c == NODE_BASE_TOTAL);

		json_open_array(w, names[c]);
		for (uint32_t i = 0; !empty && i < g->n && !buf_is_over(w->out); i++)
			json_put_int(w, NULL, node_cell(g, c, g->order[i]));
		json_close(w);
	}
	json_close(w);
}

int api_flamegraph(struct api *a, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(graph_done) struct graph g = { 0 };
	struct json_writer *w = &a->json;
	struct api_tree tree = { 0 };
	int r;

	if (view_of_graph(a, &tree.view, err) < 0)
		return -1;
	r = api_merge_tree(a, &tree, &m, &t, err);
	if (r)
		return r;
	g.t = t;
	g.hold = &a->memory;
	if (graph_number(&g, err) < 0)
		return -1;
	json_open_object(w, NULL);
	api_put_head(a, &m, t);
	write_strings(w, &g);
	write_frames(w, &g);
	write_nodes(w, &g, m.compares);
	json_put_uint(w, "left_out", profile_tree_n_left_out(t));
	json_close(w);
	buf_add_char(&a->out, '\n');
	return 0;
}
