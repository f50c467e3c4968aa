/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of calls in Parca's messages. A node of a flame graph is a message in that of its caller, so the bytes of a level
 * are collected until the caller's last callee is known.
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
#define PARCA_NODE_SIZE 200u /* bytes of a usual node */
#define PARCA_MAX_TOP   1000u

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

struct parca_graph {
	const struct profile_tree *t;
	struct buf children[PARCA_MAX_DEPTH + 2]; /* of the node of each depth */
	unsigned height;
	bool compares;
};

static uint64_t parca_diff(const struct parca_graph *g, const struct profile_node *n)
{
	return g->compares ? (uint64_t)n->total[0] - (uint64_t)n->total[1] : 0;
}

static int report_enter(void *arg, uint32_t node, unsigned depth)
{
	struct parca_graph *g = arg;

	if (depth > PARCA_MAX_DEPTH)
		return 1;
	g->height = MAX(g->height, depth);
	return 0;
}

static void report_leave(void *arg, uint32_t node, unsigned depth)
{
	AUTO(buf_done) struct buf m = { 0 };
	struct parca_graph *g = arg;
	struct profile_node n;

	if (!depth || depth > PARCA_MAX_DEPTH)
		return;
	profile_tree_node(g->t, node, &n);
	put_parca_meta(g->t, n.frame, NODE_META, &m);
	proto_put_number(&m, NODE_CUMULATIVE, (uint64_t)n.total[0]);
	proto_put_number(&m, NODE_DIFF, parca_diff(g, &n));
	buf_add_str(&m, buf_str(&g->children[depth]));
	g->children[depth].size = 0;
	/* The root's children have another number. */
	proto_put_message(&g->children[depth - 1], depth == 1 ? ROOT_CHILDREN : NODE_CHILDREN, &m);
}

int parca_put_flamegraph(const struct profile_tree *t, struct budget_hold *hold, struct buf *out,
			 struct err *err)
{
	struct parca_graph *g;
	AUTO(buf_done) struct buf root = { 0 };
	uint64_t size = (uint64_t)profile_tree_n(t) * PARCA_NODE_SIZE;
	struct profile_node n;

	if (budget_hold_add(hold, size, err) < 0)
		return -1;
	g = NEW(struct parca_graph);
	*g = (struct parca_graph){ .t = t, .compares = profile_tree_compares(t) };
	profile_tree_walk(t, &(struct profile_walk){ report_enter, report_leave, g });
	profile_tree_node(t, 0, &n);
	proto_put_number(&root, ROOT_CUMULATIVE, (uint64_t)n.total[0]);
	proto_put_number(&root, ROOT_DIFF, parca_diff(g, &n));
	buf_add_str(&root, buf_str(&g->children[0]));
	proto_put_message(out, GRAPH_ROOT, &root);
	proto_put_number(out, GRAPH_TOTAL, (uint64_t)n.total[0]);
	proto_put_str(out, GRAPH_UNIT, profile_tree_unit(t));
	proto_put_number(out, GRAPH_HEIGHT, g->height);
	proto_put_number(out, GRAPH_UNTRIMMED, (uint64_t)n.total[0]);
	for (size_t i = 0; i < ARRAY_SIZE(g->children); i++)
		buf_done(&g->children[i]);
	mem_freep(&g);
	budget_hold_sub(hold, size);
	return 0;
}

/* ---- top ---- */

void parca_put_top(const struct profile_tree *t, struct buf *out)
{
	AUTO(buf_done) struct buf m = { 0 };
	bool compares = profile_tree_compares(t);
	uint32_t n;
	struct profile_top *top = profile_tree_top(t, false, &n);

	n = MIN(n, PARCA_MAX_TOP);
	for (uint32_t i = 0; i < n; i++) {
		put_parca_meta(t, top[i].frame, TOP_META, &m);
		proto_put_number(&m, TOP_CUMULATIVE, (uint64_t)top[i].cum[0]);
		proto_put_number(&m, TOP_FLAT, (uint64_t)top[i].flat[0]);
		if (compares)
			proto_put_number(&m, TOP_DIFF, (uint64_t)top[i].cum[0] - (uint64_t)top[i].cum[1]);
		proto_put_message(out, 1, &m);
	}
	proto_put_number(out, 2, n);
	proto_put_number(out, 3, n);
	proto_put_str(out, 4, profile_tree_unit(t));
	free(top);
}
