/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of calls from stacks that are kept elsewhere, without a node for each of them.
 *
 * A stack's value becomes the total of it and its callees, in place. The path of frames to a node has a hash, made of its
 * caller's and its frame, so the size of a node is the sum over the stacks with that hash. A walk over all stacks adds
 * these up in a table. The least size of nodes that stay follows, and a last walk makes those nodes.
 *
 * If there are more nodes than the table has room for, a first walk makes a *sketch*: buckets of the sizes of all nodes
 * with some bits of the hash in common, so that a node is at most as large as its bucket. The table then takes only
 * nodes whose buckets are large enough, and their callers; stacks below others are passed over. The number of all
 * nodes is estimated then, by the bits that their hashes leave unset.
 *
 * A stack follows its caller, but other stacks may be between the two. Results of the last stacks are kept, so
 * few are computed again.
 *
 * Sums of differences are exact only if no sum is cut off at 64 bits: see trie_values_fit().
 */
#include "profile/tree_trie.h"

#include <stdlib.h>
#include "base/vec.h"

#define STATES_MAX  65536u
#define TABLE_NODES (3u << 17) /* in a table of 8 MiB */

/* ---- states ---- */

static bool hash_is_kept(const struct trie_walk *w, uint64_t hash)
{
	for (uint32_t i = (uint32_t)hash & w->kept_mask;; i = (i + 1) & w->kept_mask)
		if (w->kept[i] == hash || !w->kept[i])
			return w->kept[i];
}

static bool add_node_value(struct profile_tree *t, unsigned column, uint32_t node, int64_t value)
{
	struct profile_column *c = &t->columns[column];

	if (!profile_extend(t->p, &c->self, (uint64_t)node + 1) ||
	    !profile_extend(t->p, &c->total, (uint64_t)node + 1))
		return false;
	add_to_total(&c->total.p[node], value);
	return true;
}

/* The node of a frame below that of @st. @visited: the stack that has this frame; 0: its value was added before. */
static bool make_node(struct trie_walk *w, struct trie_state *st, uint32_t tagged, uint32_t visited)
{
	struct profile_tree *t = w->t;

	if (st->node == NODE_NONE || !hash_is_kept(w, st->hash)) {
		st->node = NODE_NONE;
		return true;
	}
	st->node = profile_add_stack(t->p, st->node, tagged >> 1);
	if (!profile_extend(t->p, &t->outlined, (uint64_t)st->node + 1) ||
	    !add_node_value(t, 0, st->node, visited ? w->in->values[visited] : 0) ||
	    (w->in->base && !add_node_value(t, 1, st->node, visited ? w->in->base[visited] : 0)))
		return false;
	t->outlined.p[st->node] |= !(tagged & 1);
	return true;
}

/* One frame further: the frame @i of w->f. false: there is no memory. */
static bool step_frame(struct trie_walk *w, struct trie_state *st, uint32_t i, uint32_t visited)
{
	uint32_t tagged = w->f->list.p[i], frame = tagged >> 1;

	if (w->patterns) {
		uint8_t bits = tree_bits_at(w->f, i);

		st->focus |= bits >> MATCH_FOCUS & 1;
		st->ignore |= bits >> MATCH_IGNORE & 1;
		if (!tree_frame_is_shown(w->t, bits))
			return true;
	}
	if (w->collapses && st->frame == frame + 1)
		return true;
	st->frame = frame + 1;
	st->hash = trie_hash_of_path(st->hash, frame, w->seed);
	if (w->step == STEP_SKETCH && visited)
		trie_sketch_total(w, st->hash, visited);
	if (w->step == STEP_COUNT && w->buckets && trie_bucket(w, st->hash) < w->least)
		st->node = NODE_NONE;
	if (w->step == STEP_COUNT && st->node != NODE_NONE && visited &&
	    !trie_count_total(w, st->hash, visited))
		return false;
	return w->step != STEP_MAKE || make_node(w, st, tagged, visited);
}

/* The state after the frames of stack @s. @visit: its turn has come, so its value counts. */
static bool step_down(struct trie_walk *w, struct trie_state *st, uint32_t s, uint32_t location, bool visit)
{
	for (uint32_t i = w->f->first.p[location]; i < w->f->first.p[location + 1]; i++) {
		if (!step_frame(w, st, i, visit ? s : 0))
			return false;
		if (st->node == NODE_NONE)
			break;
	}
	st->stack = s;
	return true;
}

bool trie_state_after(struct trie_walk *w, uint32_t s, struct trie_state *ret)
{
	*ret = w->start;
	w->chain.n = 0;
	for (; s; s = w->in->stack(w->in->arg, s).parent) {
		const struct trie_state *known = &w->states[s & w->states_mask];

		if (known->stack == s) {
			*ret = *known;
			break;
		}
		/* The caller checks it again. */
		if (deadline_over(w->t->deadline, TREE_STEPS_OF_FRAME))
			return true;
		VEC_PUSH(w->chain.v, w->chain.n, w->chain.room) = s;
	}
	while (w->chain.n) {
		uint32_t next = w->chain.v[--w->chain.n];

		if (!step_down(w, ret, next, w->in->stack(w->in->arg, next).location, false))
			return false;
		w->states[next & w->states_mask] = *ret;
	}
	return true;
}

/* Its value counts as its own, and not as that of the callees. */
static void add_to_self(struct trie_walk *w, unsigned column, uint32_t caller, uint32_t node, int64_t value)
{
	int64_t *self = w->t->columns[column].self.p;

	if (caller != NODE_NONE)
		add_to_total(&self[caller], -value);
	if (node != NODE_NONE)
		add_to_total(&self[node], value);
}

void trie_forget_value(struct profile_trie *in, uint32_t s)
{
	in->values[s] = 0;
	if (in->base)
		in->base[s] = 0;
}

static bool is_alive(const struct trie_walk *w, uint32_t s)
{
	return w->alive[s / 64] >> s % 64 & 1;
}

/* The turn of stack @s. */
static int visit_stack(struct trie_walk *w, uint32_t s, struct profile_stack stack, struct err *err)
{
	const struct profile_tree *t = w->t;
	enum trie_step step = w->step;
	struct trie_state st;
	uint32_t caller;

	if (!trie_state_after(w, stack.parent, &st))
		return profile_err_memory(t->p, err);
	caller = st.node;
	if (!step_down(w, &st, s, stack.location, true) || (step == STEP_MAKE && profile_has_failed(t->p)))
		return profile_err_memory(t->p, err);
	w->states[s & w->states_mask] = st;
	if (w->prunes && st.node != NODE_NONE)
		w->alive[s / 64] |= UINT64_C(1) << s % 64;
	if (step == STEP_FILTER && !profile_filters_select(&t->filters, st.focus, st.ignore))
		trie_forget_value(w->in, s);
	if (step == STEP_SKETCH)
		tree_sizes_add(&w->stack_sizes, trie_stack_size(w, s));
	if (step == STEP_MAKE) {
		add_to_self(w, 0, caller, st.node, w->in->values[s]);
		if (w->in->base)
			add_to_self(w, 1, caller, st.node, w->in->base[s]);
	}
	return 0;
}

int trie_walk_stacks(struct trie_walk *w, enum trie_step step, struct err *err)
{
	const struct profile_trie *in = w->in;

	w->step = step;
	w->prunes = step == STEP_MAKE || (step == STEP_COUNT && w->buckets);
	memset(w->states, 0, ((size_t)w->states_mask + 1) * sizeof(*w->states));
	trie_each_word(in, i) w->alive[i] = 0;
	w->alive[0] = 1;
	trie_each(in, s)
	{
		struct profile_stack stack;

		if (!s)
			continue;
		stack = in->stack(in->arg, (uint32_t)s);
		if (deadline_check(w->t->deadline, 4, err) < 0)
			return -1;
		if (w->prunes && !is_alive(w, stack.parent))
			continue;
		if (visit_stack(w, (uint32_t)s, stack, err) < 0)
			return -1;
		if (w->is_full)
			return 0;
	}
	return deadline_check(w->t->deadline, 0, err);
}

/* ---- the nodes that stay ---- */

static bool keep_large(struct trie_walk *w)
{
	uint64_t least = trie_least(w, &w->sizes);
	uint32_t n = 16;

	while (n < 2 * w->large.n)
		n *= 2;
	w->kept = profile_alloc(w->t->p, n, sizeof(*w->kept));
	if (!w->kept)
		return false;
	w->kept_mask = n - 1;
	for (uint32_t i = 0; i < w->large.n; i++) {
		uint32_t at = (uint32_t)w->large.p[i].hash & w->kept_mask;

		if (w->large.p[i].size < least)
			continue;
		while (w->kept[at])
			at = (at + 1) & w->kept_mask;
		w->kept[at] = w->large.p[i].hash;
	}
	return true;
}

static bool make_root_column(struct trie_walk *w, unsigned column, int64_t total)
{
	if (!add_node_value(w->t, column, w->start.node, total))
		return false;
	w->t->columns[column].self.p[w->start.node] = total;
	return true;
}

bool trie_make_root(struct trie_walk *w)
{
	return make_root_column(w, 0, w->total) && (!w->in->base || make_root_column(w, 1, w->base));
}

void trie_scale_base(struct trie_walk *w)
{
	struct profile_column *c = &w->t->columns[1];
	double scale = w->in->scale;

	for (uint32_t i = w->start.node; i < c->total.n; i++) {
		c->self.p[i] = profile_scaled(c->self.p[i], scale);
		c->total.p[i] = profile_scaled(c->total.p[i], scale);
	}
}

static int make_nodes_of_trie(struct trie_walk *w, struct err *err)
{
	struct profile_tree *t = w->t;

	if (trie_count_nodes(w, err) < 0)
		return -1;
	profile_release(t->p, TAKE(w->table), w->n_slots, sizeof(*w->table));
	if (!keep_large(w) || !trie_make_root(w))
		return profile_err_memory(t->p, err);
	if (trie_walk_stacks(w, STEP_MAKE, err) < 0)
		return -1;
	if (w->in->base)
		trie_scale_base(w);
	t->n_left_out = w->sizes.n - t->p->stacks.n;
	return profile_build_end(t->p, err);
}

/* ---- values ---- */

/*
 * Does every sum of some of them fit in 64 bits? And no callee is larger than its caller, as sketches need: none is
 * negative.
 */
bool trie_values_fit(const struct profile_trie *in, const int64_t *values)
{
	int64_t sum = 0;

	trie_each(in, s)
	{
		if (values[s] < 0 || __builtin_add_overflow(sum, values[s], &sum))
			return false;
	}
	return true;
}

/* Callees have larger numbers, so going down each is complete before it is added to its caller. */
static int sum_trie(struct trie_walk *w, struct err *err)
{
	struct profile_trie *in = w->in;

	for (size_t i = in->n / 64 + 1; trie_word_before(in, &i);)
		for (uint64_t bits = in->seen[i]; bits;) {
			unsigned bit = 63 - (unsigned)__builtin_clzll(bits);
			uint32_t s = (uint32_t)(i * 64 + bit), parent;

			bits &= ~((uint64_t)1 << bit);
			if (!s)
				break;
			if (deadline_check(w->t->deadline, 1, err) < 0)
				return -1;
			parent = in->stack(in->arg, s).parent;
			add_to_total(&in->values[parent], in->values[s]);
			if (in->base)
				add_to_total(&in->base[parent], in->base[s]);
		}
	w->total = in->values[0];
	w->base = in->base ? in->base[0] : 0;
	return 0;
}

static uint32_t trie_n_seen(const struct profile_trie *in)
{
	uint32_t n = 0;

	trie_each_word(in, i) n += (uint32_t)__builtin_popcountll(in->seen[i]);
	return n;
}

static int walk_init(struct trie_walk *w, struct err *err)
{
	struct profile_tree *t = w->t;
	uint32_t n = 1024, n_seen = trie_n_seen(w->in);

	while (n < n_seen && n < STATES_MAX)
		n *= 2;
	w->states_mask = n - 1;
	w->states = profile_alloc(t->p, n, sizeof(*w->states));
	w->alive = profile_alloc(t->p, (uint64_t)w->in->n / 64 + 1, sizeof(*w->alive));
	w->seed = profile_index_of(t->p)->seed;
	w->collapses = tree_collapses(t);
	w->patterns = tree_has_patterns(t);
	return w->states && w->alive ? 0 : profile_err_memory(t->p, err);
}

static void trie_walk_done(struct trie_walk *w)
{
	struct profile *p = w->t->p;

	profile_release(p, w->states, (uint64_t)w->states_mask + 1, sizeof(*w->states));
	profile_release(p, w->alive, (uint64_t)w->in->n / 64 + 1, sizeof(*w->alive));
	profile_release(p, w->buckets, trie_n_buckets(w), sizeof(*w->buckets));
	profile_release(p, w->marks, 2 * w->n_marks / 64, sizeof(*w->marks));
	profile_release(p, w->table, w->n_slots, sizeof(*w->table));
	profile_release(p, w->kept, (uint64_t)w->kept_mask + 1, sizeof(*w->kept));
	profile_table_free(p, &w->large);
	free(w->chain.v);
}

static int filter_values(struct trie_walk *w, struct err *err)
{
	const struct profile_tree *t = w->t;

	if (profile_filters_are_set(&t->filters, MATCHES_OF_SAMPLES) &&
	    trie_walk_stacks(w, STEP_FILTER, err) < 0)
		return -1;
	/* The root has no frame that matches, but a group may. */
	if (!profile_filters_select(&t->filters, w->start.focus, w->start.ignore))
		trie_forget_value(w->in, 0);
	return 0;
}

int trie_filter(struct trie_walk *w, struct err *err)
{
	int r = walk_init(w, err);

	if (r == 0)
		r = filter_values(w, err);
	trie_walk_done(w);
	return r;
}

int trie_add(struct trie_walk *w, struct err *err)
{
	const struct profile_tree *t = w->t;
	struct profile_trie *in = w->in;
	int r = walk_init(w, err);

	w->table_max = in->table_max ? in->table_max : TABLE_NODES;
	if (r == 0 && t->view.invert && !in->top) {
		r = trie_make_inverted(w, err);
		trie_walk_done(w);
		return r;
	}
	if (r == 0 && !w->filtered)
		r = filter_values(w, err);
	if (r == 0)
		r = sum_trie(w, err);
	if (r == 0)
		r = (in->top ? trie_sum_frames : make_nodes_of_trie)(w, err);
	trie_walk_done(w);
	return r;
}

/* ---- the tree ---- */

bool profile_tree_takes_trie(const struct profile_view *view, bool top)
{
	bool prunes = view->max_nodes || view->min_share > 0;

	return prunes != top && !(view->label && top);
}

int profile_tree_of_trie(const struct profile_view *view, const struct profile_limits *limits,
			 const struct profile *p, struct profile_trie *in, struct profile_tree **ret,
			 struct err *err)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct tree_frames f = { 0 };
	int r;

	if (!trie_values_fit(in, in->values) || (in->base && !trie_values_fit(in, in->base)))
		return TREE_NEEDS_NODES;
	if (profile_tree_new(view, limits, &t, err) < 0)
		return -1;
	t->used[0] = true;
	t->used[1] = in->base;
	r = tree_same_unit(t, p, 0, err);
	if (r == 0)
		r = tree_frames_init(&f, t, p, err);
	if (r == 0)
		r = trie_add(&(struct trie_walk){ .t = t, .in = in, .f = &f }, err);
	tree_frames_done(&f, t);
	if (r)
		return r;
	profile_index_drop(t->p);
	if (tree_list_children(t, err) < 0)
		return -1;
	*ret = TAKE(t);
	return 0;
}
