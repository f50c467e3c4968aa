/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of calls as querier.v1 has it: levels of bars, the root's first. A bar is four numbers: its distance from the
 * end of the bar before it, its total, its own value, the index of its name; in a comparison the first three of each
 * side. Values of nodes that the tree has left out become a bar "other" after their siblings'.
 *
 * A bar is never wider than the rest of its caller's, and has at least the width 0, whatever the values are: clients find
 * a bar's caller by the place.
 */
#include "server/querier/querier.h"

#include <stdlib.h>
#include "base/vec.h"
#include "wire/proto.h"

#define ROOT           STR("total")
#define OTHER          STR("other")
#define FLAME_BAR_SIZE 16u /* bytes of a usual bar, of one side */

/* FlameGraph, and FlameGraphDiff. */
enum { GRAPH_NAMES = 1, GRAPH_LEVELS, GRAPH_TOTAL, GRAPH_MAX_SELF, GRAPH_LEFT, GRAPH_RIGHT };

/* Places in one column of the node that was entered last in a level. */
struct bar_place {
	int64_t start, end; /* of the bar */
	int64_t next;       /* where its next callee starts */
	int64_t written;    /* the end of the last bar of this level */
};

struct flame_level {
	struct buf values;
	struct bar_place at[PROFILE_COLUMNS];
};

struct flame {
	const struct profile_tree *t;
	unsigned n_columns;
	struct flame_level *levels;
	size_t n_levels, room;
	uint32_t *names; /* of each of the tree's strings: its index in the message + 1; 0: not in it */
	uint32_t n_names, other;
	int64_t max_self;
	struct buf *out;
};

static void flame_done(struct flame *f)
{
	for (size_t i = 0; i < f->n_levels; i++)
		buf_done(&f->levels[i].values);
	free(f->levels);
	free(f->names);
}

static uint32_t flame_add_name(struct flame *f, struct str name)
{
	proto_put_bytes(f->out, GRAPH_NAMES, name.p, name.size);
	return f->n_names++;
}

static uint32_t flame_name(struct flame *f, uint32_t frame)
{
	struct profile_frame x;

	profile_tree_frame(f->t, frame, &x);
	if (!f->names[x.name_string])
		f->names[x.name_string] = flame_add_name(f, x.name) + 1;
	return f->names[x.name_string] - 1;
}

static struct flame_level *flame_level(struct flame *f, unsigned depth)
{
	while (f->n_levels <= depth)
		VEC_PUSH(f->levels, f->n_levels, f->room) = (struct flame_level){ 0 };
	return &f->levels[depth];
}

/* Begin a bar below that of the level before, and write it. */
static void flame_put_bar(struct flame *f, unsigned depth, const int64_t *self, const int64_t *total,
			  uint32_t name)
{
	struct flame_level *level = flame_level(f, depth), *above = depth ? level - 1 : NULL;

	for (unsigned c = 0; c < f->n_columns; c++) {
		struct bar_place *at = &level->at[c];
		int64_t size = MAX(total[c], INT64_C(0));

		at->start = above ? above->at[c].next : 0;
		if (above)
			size = MIN(size, above->at[c].end - at->start);
		at->end = at->start + size;
		at->next = at->start + MIN(MAX(self[c], INT64_C(0)), size);
		f->max_self = MAX(f->max_self, at->next - at->start);
		if (above)
			above->at[c].next = at->end;
		buf_add_uleb(&level->values, (uint64_t)(at->start - at->written));
		buf_add_uleb(&level->values, (uint64_t)size);
		buf_add_uleb(&level->values, (uint64_t)(at->next - at->start));
		at->written = at->end;
	}
	buf_add_uleb(&level->values, name);
}

static bool flame_has_value(const struct flame *f, const int64_t *total)
{
	return total[0] > 0 || (f->n_columns > 1 && total[1] > 0);
}

static int flame_enter(void *arg, uint32_t node, unsigned depth)
{
	struct flame *f = arg;
	struct profile_node n;

	profile_tree_node(f->t, node, &n);
	if (depth >= QUERIER_MAX_LEVELS || (node && !flame_has_value(f, n.total)))
		return 1;
	flame_put_bar(f, depth, n.self, n.total, node ? flame_name(f, n.frame) : flame_add_name(f, ROOT));
	return 0;
}

/* The rest of the bar: nodes that the tree, or this graph, has left out. */
static void flame_leave(void *arg, uint32_t node, unsigned depth)
{
	int64_t rest[PROFILE_COLUMNS] = { 0 };
	struct flame *f = arg;
	struct profile_node n;

	profile_tree_node(f->t, node, &n);
	/* It has no bar. */
	if (depth >= QUERIER_MAX_LEVELS || (node && !flame_has_value(f, n.total)))
		return;
	for (unsigned c = 0; c < f->n_columns; c++)
		rest[c] = f->levels[depth].at[c].end - f->levels[depth].at[c].next;
	if (!flame_has_value(f, rest))
		return;
	if (!f->other)
		f->other = flame_add_name(f, OTHER);
	flame_put_bar(f, depth + 1, rest, rest, f->other);
}

static void flame_put_sums(const struct flame *f)
{
	const struct bar_place *root = f->levels[0].at;
	int64_t left = root[0].end, right = root[1].end;

	proto_put_number(f->out, GRAPH_TOTAL,
			 (uint64_t)(f->n_columns > 1 && left <= INT64_MAX - right ? left + right : left));
	proto_put_number(f->out, GRAPH_MAX_SELF, (uint64_t)f->max_self);
	if (f->n_columns == 1)
		return;
	proto_put_number(f->out, GRAPH_LEFT, (uint64_t)left);
	proto_put_number(f->out, GRAPH_RIGHT, (uint64_t)right);
}

int querier_put_levels(const struct profile_tree *t, struct budget_hold *hold, struct buf *out,
		       struct err *err)
{
	AUTO(flame_done)
	struct flame f = { .t = t, .n_columns = profile_tree_compares(t) ? 2 : 1, .out = out };
	const struct profile_walk walk = { flame_enter, flame_leave, &f };
	AUTO(buf_done) struct buf m = { 0 };
	uint64_t size = (uint64_t)profile_tree_n_strings(t) * sizeof(*f.names) +
			(uint64_t)profile_tree_n(t) * FLAME_BAR_SIZE * f.n_columns;

	if (budget_hold_add(hold, size, err) < 0)
		return -1;
	f.names = calloc((size_t)profile_tree_n_strings(t) + 1, sizeof(*f.names));
	if (f.names)
		profile_tree_walk(t, &walk);
	for (size_t i = 0; i < f.n_levels; i++) {
		proto_put_bytes(&m, 1, f.levels[i].values.p, f.levels[i].values.size);
		proto_put_message(out, GRAPH_LEVELS, &m);
	}
	if (f.n_levels)
		flame_put_sums(&f);
	budget_hold_sub(hold, size);
	return f.names ? 0 : err_set(err, ERR_LIMIT, "no memory for a graph of %u nodes", profile_tree_n(t));
}

/* ---- Pyroscope's tree: name, own value and number of callees of each node, callers first ---- */

struct tree_writer {
	const struct profile_tree *t;
	struct buf *out;
};

/* The value of the nodes that were left out below @n. *ret_n: how many are left. */
static int64_t tree_rest(const struct profile_tree *t, const struct profile_node *n, uint32_t *ret_n)
{
	int64_t rest = add_saturating(n->total[0], -MAX(n->self[0], INT64_C(0)));
	struct profile_node callee;

	*ret_n = 0;
	for (uint32_t i = 0; i < n->n_children; i++) {
		profile_tree_node(t, n->children[i], &callee);
		*ret_n += callee.total[0] > 0;
		/* Sums that were cut off at 64 bits may have more in their callees. */
		rest = add_saturating(rest, -MAX(callee.total[0], INT64_C(0)));
	}
	return rest;
}

static void put_tree_node(struct buf *out, struct str name, int64_t self, uint32_t n_callees)
{
	buf_add_uleb(out, name.size);
	buf_add_str(out, name);
	buf_add_uleb(out, (uint64_t)MAX(self, INT64_C(0)));
	buf_add_uleb(out, n_callees);
}

static int tree_enter(void *arg, uint32_t node, unsigned depth)
{
	struct tree_writer *w = arg;
	struct profile_frame f = { 0 };
	struct profile_node n;
	uint32_t n_callees;
	int64_t rest;

	(void)depth;
	profile_tree_node(w->t, node, &n);
	if ((node && n.total[0] <= 0) || buf_is_over(w->out))
		return 1;
	if (node)
		profile_tree_frame(w->t, n.frame, &f);
	rest = tree_rest(w->t, &n, &n_callees);
	put_tree_node(w->out, f.name, n.self[0], n_callees + (rest > 0));
	return 0;
}

static void tree_leave(void *arg, uint32_t node, unsigned depth)
{
	struct tree_writer *w = arg;
	struct profile_node n;
	uint32_t n_callees;
	int64_t rest;

	(void)depth;
	profile_tree_node(w->t, node, &n);
	rest = tree_rest(w->t, &n, &n_callees);
	if ((!node || n.total[0] > 0) && rest > 0)
		put_tree_node(w->out, OTHER, rest, 0);
}

void querier_put_tree(const struct profile_tree *t, struct buf *out)
{
	struct tree_writer w = { t, out };

	profile_tree_walk(t, &(struct profile_walk){ tree_enter, tree_leave, &w });
}
