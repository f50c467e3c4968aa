/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of trees whose outermost frames are the values of a label.
 *
 *   tree_groups.c        the groups; their sums; the nodes that stay
 *   tree_groups_base.c   the nodes that all groups share
 */
#pragma once

#include "profile/tree_internal.h"

/*
 * A node of the base. A node is before its callees, and its callees, with all below them, are the nodes after it: so the
 * samples of a node are neighbours when they are sorted. The callee with the most nodes follows at once.
 */
struct base_node {
	uint32_t frame;
	uint32_t head;  /* the first node of the chain of nodes that follow each other in this way */
	uint32_t above; /* the caller of `head` */
	uint32_t depth; /* of the root 0 */
};

struct group_base {
	uint32_t n, max_depth;
	struct base_node *nodes;
	uint64_t *outlined; /* a bit for each node: never inlined */
	/* Of each node that was made while profiles were added: its node of the base. */
	uint32_t n_added, *place;
	/*
	 * NULL: no function is both inlined and not at one place. Else the nodes that were added; `location` is the nearest
	 * one of it and its callers that is not inlined, where others that have become the same node are; 0: none.
	 */
	struct profile_stack *added;
};

/* The tree is left without nodes. */
int group_base_init(struct group_base *b, struct profile_tree *t, struct err *err);
void group_base_done(struct group_base *b, struct profile_tree *t); /* takes the half-built */

/* The innermost node with both below it, or the outer one of the two. Each step halves the nodes that are left, or better. */
static inline uint32_t group_base_meet(const struct group_base *b, uint32_t x, uint32_t y)
{
	while (b->nodes[x].head != b->nodes[y].head)
		if (b->nodes[x].head > b->nodes[y].head)
			x = b->nodes[x].above;
		else
			y = b->nodes[y].above;
	return MIN(x, y);
}

static inline uint32_t group_base_caller(const struct group_base *b, uint32_t node)
{
	return b->nodes[node].head == node ? b->nodes[node].above : node - 1;
}

static inline size_t bit_words(uint32_t n)
{
	return (size_t)n / 64 + 1;
}
static inline bool bit_at(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}
static inline void bit_set(uint64_t *bits, uint32_t i)
{
	bits[i / 64] |= (uint64_t)1 << i % 64;
}
static inline void bit_clear(uint64_t *bits, uint32_t i)
{
	bits[i / 64] &= ~((uint64_t)1 << i % 64);
}
