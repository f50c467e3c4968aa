/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a label as the outermost frames of a tree, from stacks that are kept elsewhere: one value after the other.
 *
 * The nodes of a value are made as those of a whole tree are (tree_trie.c), below its own node. How many nodes have which
 * size is added up over all values so far, and gives a bound that only rises: smaller nodes will be left out at the end in
 * any case. So a value makes only nodes above that bound, and those that fall below it later are removed now and then.
 *
 * Values that the view hides share their nodes, directly below the root. Their stacks are added up, and their nodes are made
 * after those of all other values, as if they were one value, whose own node is then dissolved.
 */
#include "profile/tree_trie.h"

#include <stdlib.h>

#define PRUNE_FROM (1u << 16) /* nodes; they are pruned whenever they have doubled */

/* The sums of all hidden values. */
struct hidden_values {
	struct profile_trie in; /* its arrays are this struct's own; `values` is NULL: there are none */
	uint64_t *seen, *words, *own;
	uint32_t room; /* stacks */
};

struct profile_trie_groups {
	struct profile_tree *t;
	struct tree_frames f;
	struct tree_sizes sizes; /* of all nodes but the root */
	int64_t total, base;
	double scale; /* of the base */
	uint64_t bound;
	uint32_t n_groups, first_frame, n_pruned;
	struct hidden_values hidden;
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

/* ---- hidden values ---- */

static void hidden_done(struct hidden_values *h, struct profile *p)
{
	uint64_t n = h->room;

	profile_release(p, h->in.values, n, sizeof(*h->in.values));
	profile_release(p, h->in.base, n, sizeof(*h->in.base));
	profile_release(p, h->seen, n / 64, sizeof(*h->seen));
	profile_release(p, h->own, n / 64, sizeof(*h->own));
	profile_release(p, h->words, n / 4096, sizeof(*h->words));
	*h = (struct hidden_values){ 0 };
}

static void copy_hidden(struct hidden_values *to, const struct hidden_values *from)
{
	size_t n = from->room;

	if (!n)
		return;
	memcpy(to->in.values, from->in.values, n * sizeof(*to->in.values));
	if (to->in.base)
		memcpy(to->in.base, from->in.base, n * sizeof(*to->in.base));
	memcpy(to->seen, from->seen, n / 64 * sizeof(*to->seen));
	memcpy(to->own, from->own, n / 64 * sizeof(*to->own));
	memcpy(to->words, from->words, n / 4096 * sizeof(*to->words));
}

/* Room for the stacks of @in, of which there may be more than before. */
static bool hidden_reserve(struct hidden_values *h, struct profile *p, const struct profile_trie *in)
{
	struct hidden_values new = { .in = *in, .room = (in->n / 4096 + 1) * 4096 };
	uint64_t n = new.room;

	if (n <= h->room)
		return true;
	new.in.values = profile_alloc(p, n, sizeof(*new.in.values));
	new.in.base = in->base ? profile_alloc(p, n, sizeof(*new.in.base)) : NULL;
	new.in.seen = new.seen = profile_alloc(p, n / 64, sizeof(*new.seen));
	new.in.words = new.words = profile_alloc(p, n / 4096, sizeof(*new.words));
	new.own = profile_alloc(p, n / 64, sizeof(*new.own));
	if (!new.in.values || (in->base && !new.in.base) || !new.seen || !new.words || !new.own) {
		hidden_done(&new, p);
		return false;
	}
	copy_hidden(&new, h);
	hidden_done(h, p);
	*h = new;
	return true;
}

static int note_own_values(struct hidden_values *h, const struct profile_trie *in, struct deadline *deadline,
			   struct err *err)
{
	trie_each(in, s)
	{
		uint64_t bit = UINT64_C(1) << s % 64;

		h->seen[s / 64] |= bit;
		h->words[s / 4096] |= UINT64_C(1) << s / 64 % 64;
		if (in->values[s] || (in->base && in->base[s]))
			h->own[s / 64] |= bit;
		if (deadline_check(deadline, 1, err) < 0)
			return -1;
	}
	return 0;
}

/* The samples of a hidden value: those that the view's patterns leave out count as 0. */
static int add_hidden(struct profile_trie_groups *g, struct trie_walk *w, struct err *err)
{
	struct hidden_values *h = &g->hidden;
	const struct profile_trie *in = w->in;

	if (!hidden_reserve(h, g->t->p, in))
		return profile_err_memory(g->t->p, err);
	h->in.n = MAX(h->in.n, in->n);
	h->in.table_max = in->table_max;
	if (note_own_values(h, in, g->t->deadline, err) < 0 || trie_filter(w, err) < 0)
		return -1;
	trie_each(in, s)
	{
		if (__builtin_add_overflow(h->in.values[s], in->values[s], &h->in.values[s]) ||
		    (in->base && __builtin_add_overflow(h->in.base[s], in->base[s], &h->in.base[s])))
			return TREE_NEEDS_NODES;
		if (deadline_check(g->t->deadline, 1, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- groups ---- */

void profile_trie_groups_free(struct profile_trie_groups *g)
{
	if (!g)
		return;
	if (g->t) {
		hidden_done(&g->hidden, g->t->p);
		tree_frames_done(&g->f, g->t);
	}
	profile_tree_free(g->t);
	free(g);
}

/* The outermost node of the stacks @in; none if the value is hidden. */
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
	*ret = (struct trie_state){ .focus = bits >> MATCH_FOCUS & 1, .ignore = bits >> MATCH_IGNORE & 1 };
	if (!tree_frame_is_shown(t, bits))
		return 0;
	/* A value that reads like no value, which comes first, shares its nodes. */
	if (g->n_groups && frame == g->first_frame)
		return TREE_NEEDS_NODES;
	if (!g->n_groups++)
		g->first_frame = frame;
	ret->node = profile_add_stack(t->p, 0, frame);
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

	if (r)
		return r;
	if (!w.start.node)
		return add_hidden(g, &w, err);
	r = trie_add(&w, err);
	return r ? r : end_group(g, &w, err);
}

/* Their nodes are below one of their own until all are there, since a function may have the name of a value. */
static int make_hidden(struct profile_trie_groups *g, struct err *err)
{
	struct profile_tree *t = g->t;
	struct profile_trie *in = &g->hidden.in;
	struct trie_walk w = { .t = t, .in = in, .f = &g->f, .bound = g->bound, .filtered = g->hidden.own };
	int r;

	if (!in->values)
		return 0;
	if (!trie_values_fit(in, in->values) || (in->base && !trie_values_fit(in, in->base)))
		return TREE_NEEDS_NODES;
	w.start.node = profile_append_stack(t->p, 0, 0);
	if (profile_has_failed(t->p) || !profile_extend(t->p, &t->outlined, (uint64_t)w.start.node + 1))
		return profile_err_memory(t->p, err);
	r = trie_add(&w, err);
	if (r == 0) {
		/* It is a node of the tree no longer. */
		tree_sizes_add_many(&w.sizes, trie_root_size(&w), UINT64_MAX);
		tree_dissolve_node(t, w.start.node);
		r = end_group(g, &w, err);
	}
	return r;
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
	int r = make_hidden(g, err);

	if (r)
		return r;
	if (!put_root_total(t, 0, g->total) ||
	    (t->used[1] && !put_root_total(t, 1, profile_scaled(g->base, g->scale))))
		return profile_err_memory(t->p, err);
	tree_sizes_add(&g->sizes, size_of_all(g));
	hidden_done(&g->hidden, t->p);
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
