/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a label as the outermost frames of a tree, from stacks that are kept elsewhere: one value after the other.
 *
 * The nodes of a value are made as those of a whole tree are (tree_trie.c), below its own node. How many nodes have which size is
 * added up over all values so far, and gives a bound that only rises: smaller nodes will be left out at the end in any
 * case. So a value makes only nodes above that bound, and those that fall below it later are removed now and then.
 */
#include "profile/tree_trie.h"

#include <stdlib.h>

#define PRUNE_FROM (1u << 16) /* nodes; they are pruned whenever they have doubled */

struct profile_trie_groups {
	struct profile_tree *t;
	struct tree_frames f;
	struct tree_sizes sizes; /* of all nodes but the root */
	int64_t total, base;
	double scale; /* of the base */
	uint64_t bound;
	uint32_t n_groups, first_frame, n_pruned;
};

int profile_trie_groups_new(const struct profile_view *view, const struct profile_limits *limits,
			    struct profile_trie_groups **ret, struct err *err)
{
	struct profile_tree *t;
	struct profile_trie_groups *g;

	if (profile_tree_new(view, limits, &t, err) < 0)
		return -1;
	t->used[0] = true;
	g = NEW(struct profile_trie_groups);
	g->t = t;
	*ret = g;
	return 0;
}

void profile_trie_groups_free(struct profile_trie_groups *g)
{
	if (!g)
		return;
	if (g->t)
		tree_frames_done(&g->f, g->t);
	profile_tree_free(g->t);
	free(g);
}

/* The outermost node of the stacks @in. */
static int begin_group(struct profile_trie_groups *g, const struct profile *p, const struct profile_trie *in,
		       struct trie_state *ret, struct err *err)
{
	struct profile_tree *t = g->t;
	uint32_t frame;
	uint8_t bits;

	g->f.p = p;
	g->scale = in->scale;
	t->used[1] = in->base;
	if (tree_same_unit(t, p, 0, err) < 0 || tree_frames_more(&g->f, t, err) < 0)
		return -1;
	frame = tree_label_frame(t, p, in->labels);
	bits = tree_frame_bits(t, frame);
	/* Hidden values share their nodes, and so does a value that reads like no value, which comes first. */
	if (!tree_frame_is_shown(t, bits) || (g->n_groups && frame == g->first_frame))
		return TREE_NEEDS_NODES;
	if (!g->n_groups++)
		g->first_frame = frame;
	*ret = (struct trie_state){ .node = profile_add_stack(t->p, 0, frame),
				    .focus = bits >> MATCH_FOCUS & 1,
				    .ignore = bits >> MATCH_IGNORE & 1 };
	if (profile_has_failed(t->p) || !profile_extend(t->p, &t->outlined, (uint64_t)ret->node + 1))
		return profile_err_memory(t->p, err);
	t->outlined.p[ret->node] = 1;
	return 0;
}

static void add_sizes(struct tree_sizes *to, const struct tree_sizes *s)
{
	to->n += s->n;
	for (size_t i = 0; i < ARRAY_SIZE(s->counts); i++)
		to->counts[i] += s->counts[i];
}

static uint64_t size_of_all(const struct profile_trie_groups *g)
{
	return tree_size_of_both(g->t, g->total, profile_scaled(g->base, g->scale));
}

static int end_group(struct profile_trie_groups *g, const struct trie_walk *w, struct err *err)
{
	struct profile_tree *t = g->t;

	add_sizes(&g->sizes, &w->sizes);
	if (__builtin_add_overflow(g->total, w->total, &g->total) ||
	    __builtin_add_overflow(g->base, w->base, &g->base))
		return TREE_NEEDS_NODES;
	g->bound = tree_least_size(t, &g->sizes, size_of_all(g));
	if (t->p->stacks.n / 2 < MAX(g->n_pruned, PRUNE_FROM))
		return 0;
	if (tree_prune_below(t, g->bound, err) < 0)
		return -1;
	g->n_pruned = t->p->stacks.n;
	return 0;
}

int profile_trie_groups_add(struct profile_trie_groups *g, const struct profile *p, struct profile_trie *in,
			    struct err *err)
{
	struct trie_walk w = { .t = g->t, .in = in, .f = &g->f, .bound = g->bound };
	bool fit = trie_values_fit(in, in->values) && (!in->base || trie_values_fit(in, in->base));
	int r = fit ? begin_group(g, p, in, &w.start, err) : TREE_NEEDS_NODES;

	if (r == 0)
		r = trie_add(&w, err);
	return r ? r : end_group(g, &w, err);
}

static bool put_root_total(struct profile_tree *t, unsigned column, int64_t total)
{
	struct profile_column *c = &t->columns[column];

	if (!profile_extend(t->p, &c->self, 1) || !profile_extend(t->p, &c->total, 1))
		return false;
	c->total.p[0] = total;
	return true;
}

int profile_trie_groups_end(struct profile_trie_groups *g, struct profile_tree **ret, struct err *err)
{
	struct profile_tree *t = g->t;

	if (!put_root_total(t, 0, g->total) ||
	    (t->used[1] && !put_root_total(t, 1, profile_scaled(g->base, g->scale))))
		return profile_err_memory(t->p, err);
	tree_sizes_add(&g->sizes, size_of_all(g));
	tree_frames_done(&g->f, t);
	profile_index_drop(t->p);
	if (tree_prune_below(t, tree_least_size(t, &g->sizes, size_of_all(g)), err) < 0)
		return -1;
	t->n_left_out = g->sizes.n - t->p->stacks.n;
	if (tree_list_children(t, err) < 0)
		return -1;
	*ret = TAKE(g->t);
	return 0;
}
