/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes that the values of a label share: those that were made while profiles were added, in the order that lets groups
 * be summed by their samples alone (tree_groups.c).
 *
 * While profiles are added, a function and the same function inlined at the same place are two nodes, since of the two a
 * group may have one only. In the base they are one.
 */
#include "profile/tree_groups.h"

#include <stdlib.h>

/* The stacks of the tree so far become @ret, and the tree has none but the root. */
static bool take_stacks(struct profile_tree *t, struct profile_stack **ret, uint32_t *ret_n)
{
	struct profile *p = t->p;
	struct profile_stack *root = profile_alloc(p, 1, sizeof(*root));

	if (!root)
		return false;
	profile_trim(p, &p->stacks);
	*ret = p->stacks.p;
	*ret_n = p->stacks.n;
	p->stacks.p = root;
	p->stacks.n = p->stacks.room = 1;
	profile_index_drop(p);
	return true;
}

/* ---- functions that are both inlined and not ---- */

/* Is a function both inlined and not, at one place? While there is an index. */
static bool inlining_differs(struct profile_tree *t)
{
	const struct profile *p = t->p;

	for (uint32_t i = 1; i < p->stacks.n && !deadline_over(t->deadline, TREE_STEPS_OF_FRAME); i++)
		if (p->stacks.p[i].location & 1 &&
		    profile_has_stack(t->p, p->stacks.p[i].parent, p->stacks.p[i].location & ~1u))
			return true;
	return false;
}

/* Both forms of a function become one node, with the nodes below them. */
static int merge_added(struct group_base *b, struct profile_tree *t, struct profile_stack **ret,
		       struct err *err)
{
	struct profile *p = t->p;

	for (uint32_t i = 1; i < b->n_added; i++) {
		if (deadline_check(t->deadline, TREE_STEPS_OF_FRAME, err) < 0)
			return -1;
		b->place[i] = profile_add_stack(p, b->place[b->added[i].parent], b->added[i].location >> 1);
	}
	if (profile_build_end(p, err) < 0)
		return -1;
	return take_stacks(t, ret, &b->n) ? 0 : profile_err_memory(p, err);
}

/* After places are final: find the added nodes that decide whether a node of a group is inlined. */
static int mark_forms(struct group_base *b, struct profile_tree *t, struct err *err)
{
	uint64_t *inlined = profile_alloc(t->p, bit_words(b->n), sizeof(*inlined));

	if (!inlined)
		return profile_err_memory(t->p, err);
	for (uint32_t i = 1; i < b->n_added; i++)
		bit_set(b->added[i].location & 1 ? inlined : b->outlined, b->place[i]);
	for (uint32_t i = 1; i < b->n_added && !deadline_over(t->deadline, 2); i++) {
		bool decides = !(b->added[i].location & 1) && bit_at(inlined, b->place[i]);

		b->added[i].location = decides ? i : b->added[b->added[i].parent].location;
	}
	for (size_t w = 0; w < bit_words(b->n); w++)
		b->outlined[w] &= ~inlined[w];
	profile_release(t->p, inlined, bit_words(b->n), sizeof(*inlined));
	return deadline_check(t->deadline, 0, err);
}

/* ---- the order of nodes ---- */

/* Of nodes with their callers first. */
struct base_order {
	const struct profile_stack *from;
	uint32_t n;
	uint32_t *place; /* of each in the base */
	uint32_t *size;  /* with all nodes below it; once it has a place: that of its next callee */
	uint32_t *large; /* the callee with the most nodes; 0: none */
};

static void count_below(struct base_order *o)
{
	for (uint32_t i = 0; i < o->n; i++)
		o->size[i] = 1;
	for (uint32_t i = o->n; i-- > 1;) {
		uint32_t parent = o->from[i].parent;

		o->size[parent] += o->size[i];
	}
	for (uint32_t i = 1; i < o->n; i++) {
		uint32_t *large = &o->large[o->from[i].parent];

		if (!*large || o->size[i] > o->size[*large])
			*large = i;
	}
}

static uint32_t first_of_others(const struct base_order *o, uint32_t i)
{
	return o->place[i] + 1 + (o->large[i] ? o->size[o->large[i]] : 0);
}

static void give_place(struct base_order *o, uint32_t i)
{
	uint32_t parent = o->from[i].parent, size = o->size[i];

	if (o->large[parent] == i) {
		o->place[i] = o->place[parent] + 1;
	} else {
		o->place[i] = o->size[parent];
		o->size[parent] += size;
	}
	o->size[i] = first_of_others(o, i);
}

static void order_nodes(struct base_order *o, struct group_base *b, struct deadline *deadline)
{
	count_below(o);
	o->place[0] = 0;
	o->size[0] = first_of_others(o, 0);
	for (uint32_t i = 1; i < o->n && !deadline_over(deadline, 4); i++) {
		uint32_t caller = o->place[o->from[i].parent];
		const struct base_node *above = &b->nodes[caller];
		bool follows = o->large[o->from[i].parent] == i;
		struct base_node *new;

		give_place(o, i);
		new = &b->nodes[o->place[i]];
		*new = (struct base_node){ .frame = o->from[i].location,
					   .head = follows ? above->head : o->place[i],
					   .above = follows ? above->above : caller,
					   .depth = above->depth + 1 };
		b->max_depth = MAX(b->max_depth, new->depth);
	}
}

static int base_order(struct group_base *b, struct profile_tree *t, const struct profile_stack *from,
		      uint32_t *place, struct err *err)
{
	struct profile *p = t->p;
	struct base_order o = { .from = from,
				.n = b->n,
				.place = place,
				.size = profile_alloc(p, b->n, sizeof(*o.size)),
				.large = profile_alloc(p, b->n, sizeof(*o.large)) };
	int r = 0;

	if (o.size && o.large)
		order_nodes(&o, b, t->deadline);
	else
		r = profile_err_memory(p, err);
	profile_release(p, o.size, b->n, sizeof(*o.size));
	profile_release(p, o.large, b->n, sizeof(*o.large));
	return r < 0 ? r : deadline_check(t->deadline, 0, err);
}

/* ---- the base ---- */

static bool base_reserve(struct group_base *b, struct profile *p)
{
	b->nodes = profile_alloc(p, b->n, sizeof(*b->nodes));
	b->outlined = profile_alloc(p, bit_words(b->n), sizeof(*b->outlined));
	return b->nodes && b->outlined;
}

/* Each node that was added is one of the base. */
static int base_of_added(struct group_base *b, struct profile_tree *t, struct profile_stack *added,
			 struct err *err)
{
	b->n = b->n_added;
	if (!base_reserve(b, t->p))
		return profile_err_memory(t->p, err);
	if (base_order(b, t, added, b->place, err) < 0)
		return -1;
	for (uint32_t i = 1; i < b->n; i++) {
		struct base_node *node = &b->nodes[i];

		if (!(node->frame & 1))
			bit_set(b->outlined, i);
		node->frame >>= 1;
	}
	return 0;
}

static int place_merged(struct group_base *b, struct profile_tree *t, const struct profile_stack *merged,
			struct err *err)
{
	uint32_t *place = profile_alloc(t->p, b->n, sizeof(*place));
	int r = place && base_reserve(b, t->p) ? base_order(b, t, merged, place, err)
					       : profile_err_memory(t->p, err);

	for (uint32_t i = 1; r == 0 && i < b->n_added; i++)
		b->place[i] = place[b->place[i]];
	profile_release(t->p, place, b->n, sizeof(*place));
	return r < 0 ? r : mark_forms(b, t, err);
}

static int base_of_merged(struct group_base *b, struct profile_tree *t, struct err *err)
{
	struct profile_stack *merged = NULL;
	int r = merge_added(b, t, &merged, err);

	if (r == 0)
		r = place_merged(b, t, merged, err);
	profile_release(t->p, merged, b->n, sizeof(*merged));
	return r;
}

int group_base_init(struct group_base *b, struct profile_tree *t, struct err *err)
{
	bool differs = inlining_differs(t);
	struct profile_stack *added;
	int r;

	*b = (struct group_base){ 0 };
	if (!take_stacks(t, &added, &b->n_added))
		return profile_err_memory(t->p, err);
	if (differs)
		b->added = added;
	b->place = profile_alloc(t->p, b->n_added, sizeof(*b->place));
	if (!b->place)
		r = profile_err_memory(t->p, err);
	else
		r = differs ? base_of_merged(b, t, err) : base_of_added(b, t, added, err);
	if (!differs)
		profile_release(t->p, added, b->n_added, sizeof(*added));
	return r;
}

void group_base_done(struct group_base *b, struct profile_tree *t)
{
	profile_release(t->p, b->nodes, b->n, sizeof(*b->nodes));
	profile_release(t->p, b->outlined, bit_words(b->n), sizeof(*b->outlined));
	profile_release(t->p, b->place, b->n_added, sizeof(*b->place));
	profile_release(t->p, b->added, b->n_added, sizeof(*b->added));
}
