/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of calls in Parca's messages. A node of a flame graph is a message in that of its caller, whose length comes
 * before it.
 */
#include "server/querier/parca.h"

#include <assert.h>
#include <stdlib.h>
#include "base/vec.h"
#include "server/rpc/rpc.h"
#include "wire/proto.h"

#define PARCA_MAX_DEPTH \
	200u /* callees below are part of their caller: clients read these messages by recursion */
/* The report and its graph are around the nodes, and in each are its names. */
static_assert(PARCA_MAX_DEPTH + 10 <= RPC_MAX_REPLY_DEPTH, "a reply in JSON has all levels");
#define PARCA_MAX_TOP 1000u

enum { GRAPH_ROOT = 1, GRAPH_TOTAL = 2, GRAPH_UNIT = 3, GRAPH_HEIGHT = 4, GRAPH_UNTRIMMED = 9 };
enum { ROOT_CUMULATIVE = 1, ROOT_DIFF = 2, ROOT_CHILDREN = 3 };
enum { NODE_META = 1, NODE_CUMULATIVE = 2, NODE_DIFF = 3, NODE_CHILDREN = 4 };
enum { TOP_META = 1, TOP_CUMULATIVE = 2, TOP_FLAT = 3, TOP_DIFF = 4 };
enum { META_LOCATION = 1, META_MAPPING = 2, META_FUNCTION = 3, META_LINE = 4 };

/* FlamegraphNodeMeta and TopNodeMeta have the same first fields. */
static void put_parca_meta(const struct profile_tree *t, uint32_t frame, uint32_t field, struct buf *out)
{
	AUTO(buf_done) struct buf meta = { 0 };
	AUTO(buf_done) struct buf m = { 0 };
	struct profile_frame f;

	profile_tree_frame(t, frame, &f);
	proto_put_number(&m, 2, f.address);
	proto_put_message(&meta, META_LOCATION, &m);
	proto_put_str(&m, 5, f.binary);
	proto_put_str(&m, 6, f.build_id);
	proto_put_message(&meta, META_MAPPING, &m);
	if (!f.is_address) {
		proto_put_number(&m, 2, (uint64_t)f.line);
		proto_put_str(&m, 3, f.name);
		proto_put_str(&m, 4, f.name);
		proto_put_str(&m, 5, f.file);
		proto_put_message(&meta, META_FUNCTION, &m);
	}
	proto_put_number(&m, 2, (uint64_t)f.line);
	proto_put_message(&meta, META_LINE, &m);
	proto_put_message(out, field, &meta);
}

/* ---- flame graph ---- */

/* A node's names, which are those of all nodes with the same frame. */
struct parca_meta {
	size_t at, size; /* in `metas`; size 0: not made yet */
};

struct parca_graph {
	const struct profile_tree *t;
	bool compares;
	unsigned height;
	struct buf metas;
	struct parca_meta *meta_of; /* by frame */
	uint64_t *sizes;            /* by node: bytes of its message */
	struct buf head;            /* of the last measured node */
	struct buf *out;
};

/* The fields of a node before its callees. */
static void put_node_head(struct parca_graph *g, uint32_t node, unsigned depth, struct buf *out)
{
	struct profile_node n;
	struct parca_meta *m;

	profile_tree_node(g->t, node, &n);
	if (depth) {
		m = &g->meta_of[n.frame];
		if (!m->size) {
			m->at = g->metas.size;
			put_parca_meta(g->t, n.frame, NODE_META, &g->metas);
			m->size = g->metas.size - m->at;
		}
		buf_add(out, g->metas.p + m->at, m->size);
	}
	proto_put_number(out, depth ? NODE_CUMULATIVE : ROOT_CUMULATIVE, (uint64_t)n.total[0]);
	if (g->compares)
		proto_put_number(out, depth ? NODE_DIFF : ROOT_DIFF,
				 (uint64_t)n.total[0] - (uint64_t)n.total[1]);
}

/* The key and the length of a message; fields below 16 have a key of one byte. */
static void put_node_key(uint32_t field, uint64_t size, struct buf *out)
{
	buf_add_uleb(out, field << 3 | PROTO_LEN);
	buf_add_uleb(out, size);
}

static uint64_t size_with_key(uint64_t size)
{
	uint64_t n = size + 2;

	for (; size > 0x7f; size >>= 7)
		n++;
	return n;
}

static int measure_enter(void *arg, uint32_t node, unsigned depth)
{
	struct parca_graph *g = arg;

	if (depth > PARCA_MAX_DEPTH)
		return 1;
	g->height = MAX(g->height, depth);
	return 0;
}

static void measure_leave(void *arg, uint32_t node, unsigned depth)
{
	struct parca_graph *g = arg;
	struct profile_node n;

	if (depth > PARCA_MAX_DEPTH)
		return;
	g->head.size = 0;
	put_node_head(g, node, depth, &g->head);
	g->sizes[node] += g->head.size;
	if (!depth)
		return;
	profile_tree_node(g->t, node, &n);
	g->sizes[n.parent] += size_with_key(g->sizes[node]);
}

static int write_enter(void *arg, uint32_t node, unsigned depth)
{
	struct parca_graph *g = arg;

	if (depth > PARCA_MAX_DEPTH || buf_is_over(g->out))
		return 1;
	put_node_key(depth == 0   ? GRAPH_ROOT
		     : depth == 1 ? ROOT_CHILDREN
				  : NODE_CHILDREN,
		     g->sizes[node], g->out);
	put_node_head(g, node, depth, g->out);
	return 0;
}

/* The nodes are measured first: their messages are in one another, and would be copied once for each level. */
static void put_nodes(struct parca_graph *g)
{
	g->meta_of = mem_zalloc(profile_tree_n_frames(g->t) * sizeof(*g->meta_of));
	g->sizes = mem_zalloc(profile_tree_n(g->t) * sizeof(*g->sizes));
	profile_tree_walk(g->t, &(struct profile_walk){ measure_enter, measure_leave, g });
	profile_tree_walk(g->t, &(struct profile_walk){ write_enter, NULL, g });
	free(g->meta_of);
	free(g->sizes);
	buf_done(&g->head);
	buf_done(&g->metas);
}

int parca_put_flamegraph(const struct profile_tree *t, struct budget_hold *hold, struct buf *out,
			 struct err *err)
{
	struct parca_graph g = {
		.t = t, .compares = profile_tree_compares(t), .metas = { .hold = hold }, .out = out
	};
	uint64_t size = profile_tree_n(t) * sizeof(*g.sizes) + profile_tree_n_frames(t) * sizeof(*g.meta_of);
	struct profile_node root;

	if (budget_hold_add(hold, size, err) < 0)
		return -1;
	put_nodes(&g);
	profile_tree_node(t, 0, &root);
	proto_put_number(out, GRAPH_TOTAL, (uint64_t)root.total[0]);
	proto_put_str(out, GRAPH_UNIT, profile_tree_unit(t));
	proto_put_number(out, GRAPH_HEIGHT, g.height);
	proto_put_number(out, GRAPH_UNTRIMMED, (uint64_t)root.total[0]);
	budget_hold_sub(hold, size);
	return 0;
}

/* ---- top ---- */

void parca_put_top(const struct profile_tree *t, struct buf *out)
{
	AUTO(buf_done) struct buf m = { 0 };
	bool compares = profile_tree_compares(t);
	uint32_t n, n_all;
	struct profile_top *top = profile_tree_top(t, false, &n_all);

	n = MIN(n_all, PARCA_MAX_TOP);
	for (uint32_t i = 0; i < n && !buf_is_over(out); i++) {
		put_parca_meta(t, top[i].frame, TOP_META, &m);
		proto_put_number(&m, TOP_CUMULATIVE, (uint64_t)top[i].cum[0]);
		proto_put_number(&m, TOP_FLAT, (uint64_t)top[i].flat[0]);
		if (compares)
			proto_put_number(&m, TOP_DIFF, (uint64_t)top[i].cum[0] - (uint64_t)top[i].cum[1]);
		proto_put_message(out, 1, &m);
	}
	proto_put_number(out, 2, n);
	proto_put_number(out, 3, n_all);
	proto_put_str(out, 4, profile_tree_unit(t));
	free(top);
}
