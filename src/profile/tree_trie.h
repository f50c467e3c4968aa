/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files that make a tree of calls from stacks that are kept elsewhere.
 *
 *   tree_trie.c           walks over all stacks; the nodes that stay
 *   tree_trie_sizes.c     the sizes of all nodes
 *   tree_trie_inverted.c  inverted trees
 *   tree_trie_top.c       frames by value
 *   tree_trie_groups.c    the values of a label as the outermost frames
 */
#pragma once

#include "profile/tree_internal.h"
#include "profile/trie.h"

#define NODE_NONE   UINT32_MAX /* not in the tree */
#define BUCKETS     (1u << 20)
#define MARKS       (1u << 24) /* bits, at most */
#define MARKS_LEAST (1u << 20)
#define MARKS_PART  64u /* of so many nodes one has a second mark */

/* How a stack continues its caller's. */
struct trie_state {
	uint32_t stack; /* 0: a free place */
	uint32_t frame; /* the innermost one that is shown, + 1; 0: none */
	uint32_t
		node; /* in the last walk, and NODE_NONE in others, too: neither it nor nodes below it are in the tree */
	bool focus, ignore;
	uint64_t hash; /* of the frames that are shown */
};

struct node_total {
	uint64_t hash; /* 0: a free slot */
	int64_t total, base;
};
struct node_size {
	uint64_t hash, size;
};

enum trie_step { STEP_FILTER, STEP_SKETCH, STEP_COUNT, STEP_MAKE };

struct trie_walk {
	struct profile_tree *t;
	struct profile_trie *in;
	const struct tree_frames *f;
	/* Above all stacks: the root, or the outermost node of a group. */
	struct trie_state start;
	uint64_t bound; /* smaller nodes are left out, whatever others there are */
	/* trie_filter() was called before: a bit for each stack that had a value then. NULL: it was not */
	const uint64_t *filtered;
	enum trie_step step;
	int64_t total, base; /* of all values */
	bool patterns, collapses;
	uint64_t seed;
	struct trie_state *states;
	uint32_t states_mask;
	struct {
		uint32_t *v;
		size_t n, room;
	} chain; /* from a stack up to its callers */

	/* In the last walk, and if there is a sketch: a bit for each stack whose callees may be in the tree. */
	uint64_t *alive;
	bool prunes;

	/* STEP_SKETCH; NULL: none */
	uint64_t *buckets;
	/* n_marks bits for all nodes, and n_marks for a part of them, if those become too few */
	uint64_t *marks;
	uint32_t n_marks;
	struct tree_sizes stack_sizes;
	/* STEP_COUNT: nodes of at least @least, with hashes from @from up to @to */
	uint64_t least, from, to;
	struct node_total *table;
	uint32_t n_table, n_slots, table_max;
	bool is_full; /* without a sketch: there are more nodes */
	struct tree_sizes sizes;
	PROFILE_TABLE(struct node_size) large; /* nodes that may stay */
	/* STEP_MAKE */
	uint64_t *kept; /* hashes; 0: a free slot */
	uint32_t kept_mask;
};

static inline void add_to_total(int64_t *to, int64_t value)
{
	*to = (int64_t)((uint64_t)*to + (uint64_t)value);
}

/* Of a node: that of the node above it, 0 for the root, and its frame. */
static inline uint64_t trie_hash_of_path(uint64_t above, uint32_t frame, uint64_t seed)
{
	uint64_t h = hash_mix(above + seed, frame + 1);

	return h ? h : 1;
}

/* Of a node: its value, or that of the base, whichever is larger. */
static inline uint64_t trie_size(const struct trie_walk *w, int64_t total, int64_t base)
{
	if (!w->in->base || w->t->view.first_side)
		return tree_size_of(total);
	return tree_size_of_both(w->t, total, profile_scaled(base, w->in->scale));
}
static inline uint64_t trie_stack_size(const struct trie_walk *w, uint32_t s)
{
	return trie_size(w, w->in->values[s], w->in->base ? w->in->base[s] : 0);
}

/* Those of the base are after the others. */
static inline uint32_t trie_n_buckets(const struct trie_walk *w)
{
	return w->in->base ? 2 * BUCKETS : BUCKETS;
}
static inline uint64_t trie_bucket(const struct trie_walk *w, uint64_t hash)
{
	uint64_t a = w->buckets[hash % BUCKETS];

	if (!w->in->base || w->t->view.first_side)
		return a;
	return MAX(a, w->buckets[BUCKETS + hash % BUCKETS]);
}

/* ---- tree_trie.c ---- */

/*
 * Make the nodes, or the sums, of t, in, f, start, bound, filtered and table_max; the rest of @w is zeroed. After it `total`
 * and `sizes` are valid. Besides 0: TREE_NEEDS_NODES.
 */
int trie_add(struct trie_walk *w, struct err *err);
/* Take the values away that the view's patterns leave out, of t, in, f and start. Nothing else can be done with @w. */
int trie_filter(struct trie_walk *w, struct err *err);
bool trie_values_fit(const struct profile_trie *in, const int64_t *values);
/* The outermost node's size. */
static inline uint64_t trie_root_size(const struct trie_walk *w)
{
	return trie_size(w, w->total, w->base);
}
/* The state after stack @s, whose value has counted or does not. false: there is no memory. */
bool trie_state_after(struct trie_walk *w, uint32_t s, struct trie_state *ret);
int trie_walk_stacks(struct trie_walk *w, enum trie_step step, struct err *err);
bool trie_make_root(struct trie_walk *w);  /* the outermost node's values */
void trie_scale_base(struct trie_walk *w); /* after the nodes of @w have been made; each by itself */
void trie_forget_value(struct profile_trie *in, uint32_t s);

/* ---- tree_trie_sizes.c ---- */

/* Nodes below this size are left out, if all have these sizes. */
static inline uint64_t trie_least(const struct trie_walk *w, const struct tree_sizes *s)
{
	uint64_t least = tree_least_size(w->t, s, trie_root_size(w));

	return MAX(least, w->bound);
}

/* Of STEP_COUNT and STEP_SKETCH: add the total of stack @s to the node with this hash. false: there is no memory. */
bool trie_count_total(struct trie_walk *w, uint64_t hash, uint32_t s);
void trie_sketch_total(struct trie_walk *w, uint64_t hash, uint32_t s);
/* The number of nodes, by the bits that marked ones leave unset. */
bool trie_marks_reserve(struct trie_walk *w, uint64_t n); /* that are expected */
static inline void trie_mark_node(struct trie_walk *w, uint64_t hash)
{
	uint32_t i = (uint32_t)(hash >> 40) & (w->n_marks - 1);

	w->marks[i / 64] |= UINT64_C(1) << i % 64;
	if (hash % MARKS_PART == 0)
		w->marks[(w->n_marks + i) / 64] |= UINT64_C(1) << i % 64;
}
uint64_t trie_estimate_nodes(const struct trie_walk *w);
/* Fill w->large and w->sizes. */
int trie_count_nodes(struct trie_walk *w, struct err *err);

/* ---- tree_trie_inverted.c ---- */

/*
 * Make all nodes, w->total and w->sizes. The trie's values, and the base's, are 0 after it. Besides 0: TREE_NEEDS_NODES, and
 * they are as they were.
 */
int trie_make_inverted(struct trie_walk *w, struct err *err);

/* ---- tree_trie_top.c ---- */

/* Sum up t->top, and make no node but the root. */
int trie_sum_frames(struct trie_walk *w, struct err *err);
