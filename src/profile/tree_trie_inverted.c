/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An inverted tree (callees are roots) from stacks that are kept elsewhere.
 *
 * Nearly every frame of every stack is a node of it, mostly a small one, so nodes are made the largest first, and small
 * ones never. An *entry* is a stack with a value, and the place in its path that was reached. The entries of a node are
 * neighbours in one array: to expand it, each goes one frame further, and those with the same frame become neighbours,
 * which are the entries of a callee. A node is at most as large as the one above it. So nodes that are smaller than those
 * already known to be too small are not expanded, and no entry below them is looked at again.
 *
 * Memory: the nodes that stay, and 4 or 5 bytes for each entry of the outermost of them; the trie's values are moved in
 * place.
 */
#include "profile/tree_trie.h"

#include <stdlib.h>

#define KID_NONE       UINT32_MAX
#define HEAP_FILTER    4096u /* waiting nodes: fewer are not looked through for those that became too small */
#define FRAMES_MOST    UINT8_MAX
#define NODES_OF_STACK 64u /* so many are expected at most */
#define STEPS_OF_TRY   8u  /* the frame of an entry is a cache miss or two */

/* A node that is not made yet. */
struct waiting_node {
	int64_t total, base;
	uint64_t size; /* of the larger side */
	uint32_t parent, frame;
	uint32_t first, n; /* entries */
	bool outlined;
};

/* A callee of the node that is expanded. */
struct inverted_kid {
	int64_t total, base;
	uint32_t frame, n;
	uint32_t place, end; /* of its entries; `place` goes on to `end` as they are moved there */
	bool outlined, stays;
};

struct inverted {
	struct trie_walk *w;
	uint32_t n;      /* entries */
	uint32_t *at;    /* of each: the stack whose frame was reached; 0: the end of the path */
	uint8_t *used;   /* how many frames of its location were passed. NULL: no location has several */
	int64_t *values; /* those of the trie, in the order of the entries */
	int64_t *base;   /* likewise those of the base; NULL: there is none */
	uint64_t *own;   /* a bit for each stack that has a value */
	uint32_t n_own;
	PROFILE_TABLE(struct inverted_kid) kids;
	uint32_t *kid_of;                        /* of each frame: the index in `kids` + 1 */
	PROFILE_TABLE(struct waiting_node) heap; /* the largest first */
	uint32_t filter_at;                      /* the heap is looked through if it has so many nodes */
	struct tree_sizes sizes;                 /* of all nodes that were found */
	uint64_t bound;                          /* smaller nodes are left out */
	bool drops;                              /* there are nodes that were not found */
};

/* ---- entries ---- */

/* Frame << 1 that the entry has reached. Not at the end of its path. */
static uint32_t entry_frame(const struct inverted *x, uint32_t i)
{
	const struct tree_frames *f = x->w->f;
	uint32_t location = x->w->in->stack(x->w->in->arg, x->at[i]).location;

	return f->list.p[f->first.p[location + 1] - (x->used ? x->used[i] : 1)];
}

/* The next frame of stack *at that the view shows, callees first; 0 if there is none, else frame << 1, tagged, + 1. */
static uint64_t next_inverted_frame(const struct inverted *x, uint32_t *at, uint32_t *used, uint32_t above)
{
	const struct trie_walk *w = x->w;
	const struct tree_frames *f = w->f;

	while (*at) {
		struct profile_stack stack = w->in->stack(w->in->arg, *at);
		uint32_t first = f->first.p[stack.location], end = f->first.p[stack.location + 1];

		while (*used < end - first) {
			uint32_t i = end - ++*used, tagged = f->list.p[i], frame = tagged >> 1;

			if (w->patterns && !tree_frame_is_shown(w->t, tree_bits_at(f, i)))
				continue;
			if (!w->collapses || frame + 1 != above)
				return (uint64_t)tagged + 1;
		}
		/* The caller checks it again. */
		if (deadline_over(w->t->deadline, STEPS_OF_TRY))
			break;
		*at = stack.parent;
		*used = 0;
	}
	*at = 0;
	return 0;
}

static void swap_entries(struct inverted *x, uint32_t a, uint32_t b)
{
	uint32_t at = x->at[a];
	int64_t value = x->values[a];

	x->at[a] = x->at[b];
	x->at[b] = at;
	x->values[a] = x->values[b];
	x->values[b] = value;
	if (x->base) {
		value = x->base[a];
		x->base[a] = x->base[b];
		x->base[b] = value;
	}
	if (x->used) {
		uint8_t used = x->used[a];

		x->used[a] = x->used[b];
		x->used[b] = used;
	}
}

/* ---- nodes that wait ---- */

static void heap_down(struct inverted *x, uint32_t i)
{
	struct waiting_node *h = x->heap.p, v = h[i];

	for (uint32_t k; (k = 2 * i + 1) < x->heap.n; i = k) {
		if (k + 1 < x->heap.n && h[k + 1].size > h[k].size)
			k++;
		if (h[k].size <= v.size)
			break;
		h[i] = h[k];
	}
	h[i] = v;
}

static bool heap_push(struct inverted *x, const struct waiting_node *v)
{
	uint32_t i = x->heap.n;

	if (!profile_room(x->w->t->p, &x->heap, 1))
		return false;
	x->heap.n++;
	for (; i && x->heap.p[(i - 1) / 2].size < v->size; i = (i - 1) / 2)
		x->heap.p[i] = x->heap.p[(i - 1) / 2];
	x->heap.p[i] = *v;
	return true;
}

static struct waiting_node heap_pop(struct inverted *x)
{
	struct waiting_node v = x->heap.p[0];

	x->heap.p[0] = x->heap.p[--x->heap.n];
	if (x->heap.n)
		heap_down(x, 0);
	return v;
}

/* Without those that have become too small since they were found. */
static void heap_filter(struct inverted *x)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->heap.n; i++)
		if (x->heap.p[i].size >= x->bound)
			x->heap.p[n++] = x->heap.p[i];
	x->drops |= n < x->heap.n;
	x->heap.n = n;
	for (uint32_t i = n / 2; i-- > 0;)
		heap_down(x, i);
	x->filter_at = MAX(2 * n, HEAP_FILTER);
}

/* ---- expanding a node ---- */

static struct inverted_kid *kid_of_frame(struct inverted *x, uint32_t frame)
{
	if (!x->kid_of[frame]) {
		if (!profile_push(x->w->t->p, &x->kids, ((struct inverted_kid){ .frame = frame })))
			return NULL;
		x->kid_of[frame] = x->kids.n;
	}
	return &x->kids.p[x->kid_of[frame] - 1];
}

static uint64_t kid_size(const struct inverted *x, const struct inverted_kid *kid)
{
	return trie_size(x->w, kid->total, kid->base);
}

/* An entry of these values has reached @next, as of next_inverted_frame(). */
static bool add_to_kid(struct inverted *x, uint64_t next, int64_t value, int64_t base)
{
	struct inverted_kid *kid;

	if (!next)
		return true;
	kid = kid_of_frame(x, (uint32_t)((next - 1) >> 1));
	if (!kid)
		return false;
	kid->n++;
	kid->outlined |= !((next - 1) & 1);
	add_to_total(&kid->total, value);
	add_to_total(&kid->base, base);
	return true;
}

/* The values of callees are not the node's own. */
static void take_kids_from(struct inverted *x, uint32_t node)
{
	struct profile_column *columns = x->w->t->columns;

	for (uint32_t i = 0; i < x->kids.n; i++) {
		add_to_total(&columns[0].self.p[node], -x->kids.p[i].total);
		if (x->base)
			add_to_total(&columns[1].self.p[node], -x->kids.p[i].base);
	}
}

/* Each entry goes one frame further; the sums are those of the callees. */
static int step_entries(struct inverted *x, uint32_t node, const struct waiting_node *v, struct err *err)
{
	struct profile_tree *t = x->w->t;

	for (uint32_t i = v->first; i < v->first + v->n; i++) {
		uint32_t used = x->used ? x->used[i] : 1;
		uint64_t next = next_inverted_frame(x, &x->at[i], &used, v->frame + 1);

		if (deadline_check(t->deadline, STEPS_OF_TRY, err) < 0)
			return -1;
		if (x->used)
			x->used[i] = (uint8_t)used;
		if (!add_to_kid(x, next, x->values[i], x->base ? x->base[i] : 0))
			return profile_err_memory(t->p, err);
	}
	take_kids_from(x, node);
	return 0;
}

/*
 * The least size of nodes that may stay, by the nodes found so far; it only rises. Nodes that were not found do not
 * change the tree's least size, also where that is rounded to a slot of struct tree_sizes: they are in lower slots.
 */
static uint64_t inverted_bound(const struct inverted *x)
{
	uint64_t root = trie_root_size(x->w), share = tree_least_share(x->w->t, root),
		 bound = MAX(share - share / 16, tree_least_of_most(x->w->t, &x->sizes));

	return MAX(bound, x->w->bound);
}

/* Decide which callees stay. Returns the place after their entries, which begin at @place. */
static uint32_t choose_kids(struct inverted *x, uint32_t place)
{
	for (uint32_t i = 0; i < x->kids.n; i++)
		tree_sizes_add(&x->sizes, kid_size(x, &x->kids.p[i]));
	x->bound = inverted_bound(x);
	for (uint32_t i = 0; i < x->kids.n; i++) {
		struct inverted_kid *kid = &x->kids.p[i];

		kid->stays = kid_size(x, kid) >= x->bound;
		x->drops |= !kid->stays;
		kid->place = place;
		if (kid->stays)
			place += kid->n;
		kid->end = place;
	}
	return place;
}

static uint32_t kid_of_entry(const struct inverted *x, uint32_t i)
{
	uint32_t kid;

	if (!x->at[i])
		return KID_NONE;
	kid = x->kid_of[entry_frame(x, i) >> 1] - 1;
	return x->kids.p[kid].stays ? kid : KID_NONE;
}

/* Entries of each callee that stays become neighbours; all others are at @rest and after it. */
static int sort_entries(struct inverted *x, uint32_t rest, struct err *err)
{
	for (uint32_t i = 0; i < x->kids.n; i++) {
		struct inverted_kid *kid = &x->kids.p[i];

		while (kid->place < kid->end) {
			uint32_t to = kid_of_entry(x, kid->place);

			if (deadline_check(x->w->t->deadline, STEPS_OF_TRY, err) < 0)
				return -1;
			if (to == i)
				kid->place++;
			else
				swap_entries(x, kid->place, to == KID_NONE ? rest++ : x->kids.p[to].place++);
		}
	}
	return 0;
}

static bool push_kids(struct inverted *x, uint32_t node)
{
	for (uint32_t i = 0; i < x->kids.n; i++) {
		const struct inverted_kid *kid = &x->kids.p[i];
		const struct waiting_node v = {
			kid->total, kid->base,         kid_size(x, kid), node,
			kid->frame, kid->end - kid->n, kid->n,           kid->outlined
		};

		x->kid_of[kid->frame] = 0;
		if (kid->stays && !heap_push(x, &v))
			return false;
	}
	x->kids.n = 0;
	if (x->heap.n >= x->filter_at)
		heap_filter(x);
	return true;
}

static int expand_node(struct inverted *x, uint32_t node, const struct waiting_node *v, struct err *err)
{
	uint32_t rest;

	if (step_entries(x, node, v, err) < 0)
		return -1;
	rest = choose_kids(x, v->first);
	/* Many nodes have one callee, with all entries. */
	if (!(x->kids.n == 1 && x->kids.p[0].n == v->n) && sort_entries(x, rest, err) < 0)
		return -1;
	return push_kids(x, node) ? 0 : profile_err_memory(x->w->t->p, err);
}

/* ---- the root ---- */

/* A node of samples that are filtered is there, with the value 0. */
static int filter_inverted_stack(struct inverted *x, uint32_t s, struct err *err)
{
	const struct profile_tree *t = x->w->t;
	struct trie_state st;

	if (x->w->filtered || !profile_filters_are_set(&t->filters, MATCHES_OF_SAMPLES))
		return 0;
	if (!trie_state_after(x->w, s, &st))
		return profile_err_memory(t->p, err);
	if (!profile_filters_select(&t->filters, st.focus, st.ignore))
		trie_forget_value(x->w->in, s);
	return 0;
}

static bool has_own_value(const struct inverted *x, uint64_t s)
{
	if (x->w->filtered)
		return x->w->filtered[s / 64] >> s % 64 & 1;
	return x->values[s] || (x->base && x->base[s]);
}

/* The sums of the root's callees. */
static int sum_leaves(struct inverted *x, struct err *err)
{
	struct trie_walk *w = x->w;

	w->step = STEP_FILTER;
	trie_each(w->in, s)
	{
		uint32_t at = (uint32_t)s, used = 0;

		if (deadline_check(w->t->deadline, STEPS_OF_TRY, err) < 0)
			return -1;
		if (!has_own_value(x, s))
			continue;
		x->own[s / 64] |= UINT64_C(1) << s % 64;
		if (filter_inverted_stack(x, (uint32_t)s, err) < 0)
			return -1;
		x->n_own++;
		add_to_total(&w->total, x->values[s]);
		if (x->base)
			add_to_total(&w->base, x->base[s]);
		if (!add_to_kid(x, next_inverted_frame(x, &at, &used, 0), x->values[s],
				x->base ? x->base[s] : 0))
			return profile_err_memory(w->t->p, err);
	}
	return deadline_check(w->t->deadline, 0, err);
}

static bool entries_reserve(struct inverted *x, uint32_t n)
{
	struct profile *p = x->w->t->p;
	bool several = x->w->f->list.n > x->w->f->p->locations.n;

	x->n = n;
	x->at = profile_alloc(p, n, sizeof(*x->at));
	x->used = several ? profile_alloc(p, n, sizeof(*x->used)) : NULL;
	return x->at && (x->used || !several);
}

/*
 * Stacks of the callees that stay become entries. They come in order, so their values move to the front of the array,
 * where no other is left that is still needed.
 */
static int take_entries(struct inverted *x, struct err *err)
{
	struct trie_walk *w = x->w;
	uint32_t n = 0;

	trie_each_of(w->in, x->own, s)
	{
		uint32_t at = (uint32_t)s, used = 0;
		uint64_t next = next_inverted_frame(x, &at, &used, 0);
		int64_t value = x->values[s], base = x->base ? x->base[s] : 0;

		if (deadline_check(w->t->deadline, STEPS_OF_TRY, err) < 0)
			return -1;
		trie_forget_value(w->in, (uint32_t)s);
		if (!next || !x->kids.p[x->kid_of[(next - 1) >> 1] - 1].stays)
			continue;
		x->at[n] = at;
		if (x->used)
			x->used[n] = (uint8_t)used;
		if (x->base)
			x->base[n] = base;
		x->values[n++] = value;
	}
	return 0;
}

static int make_inverted_root(struct inverted *x, struct err *err)
{
	struct trie_walk *w = x->w;
	struct profile_tree *t = w->t;
	uint32_t n;

	if (sum_leaves(x, err) < 0)
		return -1;
	if (!trie_make_root(w))
		return profile_err_memory(t->p, err);
	take_kids_from(x, w->start.node);
	tree_sizes_add(&x->sizes, trie_root_size(w));
	n = choose_kids(x, 0);
	if (!entries_reserve(x, n))
		return profile_err_memory(t->p, err);
	if (take_entries(x, err) < 0 || sort_entries(x, n, err) < 0)
		return -1;
	return push_kids(x, w->start.node) ? 0 : profile_err_memory(t->p, err);
}

/* ---- nodes, the largest first ---- */

static bool make_inverted_value(struct profile_tree *t, unsigned column, uint32_t node, int64_t value)
{
	struct profile_column *c = &t->columns[column];

	if (!profile_extend(t->p, &c->self, (uint64_t)node + 1) ||
	    !profile_extend(t->p, &c->total, (uint64_t)node + 1))
		return false;
	c->self.p[node] = c->total.p[node] = value;
	return true;
}

static int make_inverted_node(struct inverted *x, const struct waiting_node *v, uint32_t *ret,
			      struct err *err)
{
	struct profile_tree *t = x->w->t;
	uint32_t node = profile_append_stack(t->p, v->parent, v->frame);

	if (profile_has_failed(t->p) || !profile_extend(t->p, &t->outlined, (uint64_t)node + 1) ||
	    !make_inverted_value(t, 0, node, v->total) ||
	    (x->base && !make_inverted_value(t, 1, node, v->base)))
		return profile_err_memory(t->p, err);
	t->outlined.p[node] = v->outlined;
	*ret = node;
	return 0;
}

static int make_inverted_nodes(struct inverted *x, struct err *err)
{
	struct waiting_node v;
	uint32_t node = 0;

	while (x->heap.n) {
		v = heap_pop(x);
		/* All others are smaller, too. */
		if (v.size < x->bound) {
			x->drops = true;
			break;
		}
		if (make_inverted_node(x, &v, &node, err) < 0 || expand_node(x, node, &v, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- the number of all nodes ---- */

/* Mark the nodes of one stack. */
static void mark_inverted_path(struct inverted *x, uint32_t s)
{
	uint32_t used = 0, above = 0;
	uint64_t hash = 0, next;

	while ((next = next_inverted_frame(x, &s, &used, above))) {
		above = (uint32_t)((next - 1) >> 1) + 1;
		hash = trie_hash_of_path(hash, above - 1, x->w->seed);
		trie_mark_node(x->w, hash);
	}
}

/* Nodes that were not found are estimated: they are smaller than the bound, whatever their sizes. */
static int count_inverted_nodes(struct inverted *x, struct err *err)
{
	struct trie_walk *w = x->w;
	uint64_t n;

	w->sizes = x->sizes;
	if (!x->drops)
		return 0;
	if (!trie_marks_reserve(w, NODES_OF_STACK * (uint64_t)x->n_own))
		return profile_err_memory(w->t->p, err);
	trie_each_of(w->in, x->own, s)
	{
		mark_inverted_path(x, (uint32_t)s);
		if (deadline_check(w->t->deadline, STEPS_OF_TRY, err) < 0)
			return -1;
	}
	n = MAX(w->sizes.n, trie_estimate_nodes(w));
	w->sizes.counts[0] += n - w->sizes.n;
	w->sizes.n = n;
	return 0;
}

/* ---- the tree ---- */

/*
 * Nodes are in the order of their sizes, so those that stay are the first ones. The nodes of a group stay until all groups are
 * there: to cut the tables each time takes longer.
 */
static void cut_inverted_nodes(struct inverted *x)
{
	struct profile_tree *t = x->w->t;
	uint64_t least = trie_least(x->w, &x->w->sizes);
	uint32_t n = t->p->stacks.n;

	if (x->w->start.node)
		return;
	while (n > 1 && tree_node_size(t, n - 1) < least)
		n--;
	tree_cut_nodes(t, n);
	t->n_left_out = x->w->sizes.n - n;
}

static int make_inverted_tree(struct inverted *x, struct err *err)
{
	struct trie_walk *w = x->w;

	x->own = profile_alloc(w->t->p, (uint64_t)w->in->n / 64 + 1, sizeof(*x->own));
	x->kid_of = profile_alloc(w->t->p, w->t->p->functions.n, sizeof(*x->kid_of));
	if (!x->own || !x->kid_of)
		return profile_err_memory(w->t->p, err);
	if (make_inverted_root(x, err) < 0 || make_inverted_nodes(x, err) < 0 ||
	    count_inverted_nodes(x, err) < 0)
		return -1;
	if (x->base)
		trie_scale_base(w);
	cut_inverted_nodes(x);
	return profile_build_end(w->t->p, err);
}

int trie_make_inverted(struct trie_walk *w, struct err *err)
{
	struct profile *p = w->t->p;
	struct inverted x = {
		.w = w, .values = w->in->values, .base = w->in->base, .filter_at = HEAP_FILTER
	};
	int r;

	if (w->f->most > FRAMES_MOST)
		return TREE_NEEDS_NODES;
	r = make_inverted_tree(&x, err);
	/* These may be where the trie has no stacks. */
	memset(x.values, 0, (size_t)x.n * sizeof(*x.values));
	if (x.base)
		memset(x.base, 0, (size_t)x.n * sizeof(*x.base));
	profile_release(p, x.at, x.n, sizeof(*x.at));
	profile_release(p, x.used, x.n, sizeof(*x.used));
	profile_release(p, x.own, (uint64_t)w->in->n / 64 + 1, sizeof(*x.own));
	profile_release(p, x.kid_of, p->functions.n, sizeof(*x.kid_of));
	profile_table_free(p, &x.kids);
	profile_table_free(p, &x.heap);
	return r;
}
