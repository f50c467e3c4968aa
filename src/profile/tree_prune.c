/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that are too small to be seen are left out at the end of a tree, before lists of children and output take
 * memory for them.
 */
#include "profile/tree_internal.h"

#include <math.h>

#define SLOTS 16u /* of a power of two */

/* ---- how many nodes have which size ---- */

static unsigned slot_of_size(uint64_t size)
{
	unsigned log = size ? 63 - (unsigned)__builtin_clzll(size) : 0,
		 rest = log >= 4 ? (unsigned)(size >> (log - 4)) & 15 : (unsigned)(size << (4 - log)) & 15;

	return log * SLOTS + rest;
}

void tree_sizes_add_many(struct tree_sizes *s, uint64_t size, uint64_t n)
{
	s->n += n;
	s->counts[slot_of_size(size)] += n;
}

void tree_sizes_add(struct tree_sizes *s, uint64_t size)
{
	tree_sizes_add_many(s, size, 1);
}

uint64_t tree_sizes_from(const struct tree_sizes *s, uint64_t size)
{
	uint64_t n = 0;

	for (unsigned i = slot_of_size(size); i < ARRAY_SIZE(s->counts); i++)
		n += s->counts[i];
	return n;
}

uint64_t tree_least_of_most(const struct profile_tree *t, const struct tree_sizes *s)
{
	uint64_t sum = 0, max = t->view.max_nodes;

	if (!max || s->n <= max)
		return 0;
	for (unsigned i = ARRAY_SIZE(s->counts); i-- > 0;) {
		unsigned log = i / SLOTS;

		sum += s->counts[i];
		/* All nodes of this slot are left out. */
		if (sum > max)
			return log >= 4 ? ((uint64_t)(SLOTS + i % SLOTS) + 1) << (log - 4)
					: ((SLOTS + i % SLOTS) >> (4 - log)) + 1;
	}
	return 0;
}

uint64_t tree_least_share(const struct profile_tree *t, uint64_t root)
{
	uint64_t least = (uint64_t)ceil(t->view.min_share * (double)root);

	return t->view.first_side ? MAX(least, UINT64_C(1)) : least;
}

uint64_t tree_least_size(const struct profile_tree *t, const struct tree_sizes *s, uint64_t root)
{
	return MAX(tree_least_share(t, root), tree_least_of_most(t, s));
}

/* ---- a tree with sums ---- */

static void move_node(struct profile_tree *t, uint32_t from, uint32_t to, uint32_t parent)
{
	t->p->stacks.p[to] = (struct profile_stack){ parent, t->p->stacks.p[from].location };
	if (from < t->outlined.n)
		t->outlined.p[to] = t->outlined.p[from];
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		struct profile_column *c = &t->columns[i];

		if (!c->total.p)
			continue;
		c->self.p[to] = c->self.p[from];
		c->total.p[to] = c->total.p[from];
	}
}

void tree_cut_nodes(struct profile_tree *t, uint32_t n)
{
	t->n_left_out += t->p->stacks.n - n;
	t->p->stacks.n = n;
	profile_trim(t->p, &t->p->stacks);
	t->outlined.n = MIN(t->outlined.n, n);
	profile_trim(t->p, &t->outlined);
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		struct profile_column *c = &t->columns[i];

		c->self.n = c->total.n = c->total.p ? n : 0;
		profile_trim(t->p, &c->self);
		profile_trim(t->p, &c->total);
	}
}

int tree_prune_below(struct profile_tree *t, uint64_t least, struct err *err)
{
	uint32_t n = t->p->stacks.n, kept = 1, *number;

	if (!least)
		return 0;
	/* Of each node: its new number; 0, but for the root: it is left out. */
	number = profile_alloc(t->p, n, sizeof(*number));
	if (!number)
		return profile_err_memory(t->p, err);
	for (uint32_t i = 1; i < n; i++) {
		uint32_t parent = t->p->stacks.p[i].parent;

		if (deadline_over(t->deadline, 1))
			break;
		if ((parent && !number[parent]) || tree_node_size(t, i) < least)
			continue;
		number[i] = kept;
		move_node(t, i, kept++, number[parent]);
	}
	profile_release(t->p, number, n, sizeof(*number));
	tree_cut_nodes(t, kept);
	return deadline_check(t->deadline, 0, err);
}

void tree_dissolve_node(struct profile_tree *t, uint32_t node)
{
	uint32_t n = t->p->stacks.n, caller = t->p->stacks.p[node].parent;

	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		struct profile_column *c = &t->columns[i];

		if (c->self.p)
			c->self.p[caller] = add_saturating(c->self.p[caller], c->self.p[node]);
	}
	for (uint32_t i = node + 1; i < n; i++) {
		uint32_t parent = t->p->stacks.p[i].parent;

		move_node(t, i, i - 1, parent == node ? caller : parent > node ? parent - 1 : parent);
	}
	tree_cut_nodes(t, n - 1);
}

int tree_prune(struct profile_tree *t, struct err *err)
{
	struct tree_sizes sizes = { 0 };

	for (uint32_t i = 0; i < t->p->stacks.n; i++)
		tree_sizes_add(&sizes, tree_node_size(t, i));
	return tree_prune_below(t, tree_least_size(t, &sizes, tree_node_size(t, 0)), err);
}
