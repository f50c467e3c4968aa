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
 * A stack follows its caller, but other stacks may be between the two. What is known of the last stacks is kept, so
 * few are computed again.
 *
 * Sums of differences are exact only if no sum is cut off at 64 bits: see trie_values_fit().
 */
#include "profile/tree_internal.h"

#include <math.h>
#include <stdlib.h>
#include "base/vec.h"

#define STATES_MAX  65536u
#define TABLE_LEAST 64u        /* slots */
#define TABLE_NODES (3u << 17) /* in a table of 8 MiB */
#define NODE_NONE   UINT32_MAX /* not in the tree */
#define BUCKETS     (1u << 20)
#define MARKS       (1u << 24) /* bits */
#define LOWER       4          /* the bound of the table is divided by this if it was too high */

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
	int64_t total;
};
struct node_size {
	uint64_t hash, size;
};

enum trie_step { STEP_FILTER, STEP_SKETCH, STEP_COUNT, STEP_MAKE };

struct trie_walk {
	struct profile_tree *t;
	struct profile_trie *in;
	const struct tree_frames *f;
	enum trie_step step;
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
	uint64_t *buckets, *marks;
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

/* All stacks that are seen, callers first. */
#define trie_each(in, s)                                     \
	for (size_t w_ = 0; w_ <= (in)->n / 64; w_++)        \
		for (uint64_t bits_ = (in)->seen[w_], s = 0; \
		     bits_ && ((s) = w_ * 64 + (unsigned)__builtin_ctzll(bits_), true); bits_ &= bits_ - 1)

/* ---- states ---- */

static uint64_t hash_of_path(uint64_t callers, uint32_t frame, uint64_t seed)
{
	uint64_t h = hash_mix(callers + seed, frame + 1);

	return h ? h : 1;
}

static bool hash_is_kept(const struct trie_walk *w, uint64_t hash)
{
	for (uint32_t i = (uint32_t)hash & w->kept_mask;; i = (i + 1) & w->kept_mask)
		if (w->kept[i] == hash || !w->kept[i])
			return w->kept[i];
}

static void add_to_total(int64_t *to, int64_t value)
{
	*to = (int64_t)((uint64_t)*to + (uint64_t)value);
}

static bool count_total(struct trie_walk *w, uint64_t hash, int64_t total);

static void sketch_total(struct trie_walk *w, uint64_t hash, int64_t total)
{
	uint64_t *bucket = &w->buckets[hash % BUCKETS];

	if (__builtin_add_overflow(*bucket, tree_size_of(total), bucket))
		*bucket = UINT64_MAX;
	w->marks[(hash >> 40) / 64] |= UINT64_C(1) << (hash >> 40) % 64;
}

/* The node of a frame below that of @st. @value: of the stack that has this frame; NULL: it was added before. */
static bool make_node(struct trie_walk *w, struct trie_state *st, uint32_t tagged, const int64_t *value)
{
	struct profile_tree *t = w->t;
	struct profile_column *c = &t->columns[0];

	if (st->node == NODE_NONE || !hash_is_kept(w, st->hash)) {
		st->node = NODE_NONE;
		return true;
	}
	st->node = profile_add_stack(t->p, st->node, tagged >> 1);
	if (!profile_extend(t->p, &t->outlined, (uint64_t)st->node + 1) ||
	    !profile_extend(t->p, &c->self, (uint64_t)st->node + 1) ||
	    !profile_extend(t->p, &c->total, (uint64_t)st->node + 1))
		return false;
	t->outlined.p[st->node] |= !(tagged & 1);
	if (value)
		add_to_total(&c->total.p[st->node], *value);
	return true;
}

/* The state after the frames of stack @s. @visit: its turn has come, so its value counts. */
static bool step_down(struct trie_walk *w, struct trie_state *st, uint32_t s, uint32_t location, bool visit)
{
	const int64_t *value = visit ? &w->in->values[s] : NULL;

	for (uint32_t i = w->f->first[location]; i < w->f->first[location + 1]; i++) {
		uint32_t tagged = w->f->list.p[i], frame = tagged >> 1;

		if (w->patterns) {
			uint8_t bits = tree_frame_bits(w->t, frame);

			st->focus |= bits >> MATCH_FOCUS & 1;
			st->ignore |= bits >> MATCH_IGNORE & 1;
			if (!tree_frame_is_shown(w->t, bits))
				continue;
		}
		if (w->collapses && st->frame == frame + 1)
			continue;
		st->frame = frame + 1;
		st->hash = hash_of_path(st->hash, frame, w->seed);
		if (w->step == STEP_SKETCH && value)
			sketch_total(w, st->hash, *value);
		if (w->step == STEP_COUNT && w->buckets && w->buckets[st->hash % BUCKETS] < w->least)
			st->node = NODE_NONE;
		if (w->step == STEP_COUNT && st->node != NODE_NONE && value &&
		    !count_total(w, st->hash, *value))
			return false;
		if (w->step == STEP_MAKE && !make_node(w, st, tagged, value))
			return false;
		if (st->node == NODE_NONE)
			break;
	}
	st->stack = s;
	return true;
}

/* The state after stack @s, which had its turn before. */
static bool trie_state_after(struct trie_walk *w, uint32_t s, struct trie_state *ret)
{
	*ret = (struct trie_state){ 0 };
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
static void add_to_self(struct trie_walk *w, uint32_t caller, uint32_t node, int64_t value)
{
	int64_t *self = w->t->columns[0].self.p;

	if (caller != NODE_NONE)
		add_to_total(&self[caller], -value);
	if (node != NODE_NONE)
		add_to_total(&self[node], value);
}

static bool is_alive(const struct trie_walk *w, uint32_t s)
{
	return w->alive[s / 64] >> s % 64 & 1;
}

/* The turn of stack @s. */
static int visit_stack(struct trie_walk *w, uint32_t s, struct profile_stack stack, struct err *err)
{
	const struct profile_tree *t = w->t;
	struct trie_state st;
	uint32_t caller;

	if (!trie_state_after(w, stack.parent, &st))
		return profile_err_memory(t->p, err);
	caller = st.node;
	if (!step_down(w, &st, s, stack.location, true) || profile_has_failed(t->p))
		return profile_err_memory(t->p, err);
	w->states[s & w->states_mask] = st;
	if (w->prunes && st.node != NODE_NONE)
		w->alive[s / 64] |= UINT64_C(1) << s % 64;
	if (w->step == STEP_FILTER && (st.ignore || (t->patterns[MATCH_FOCUS] && !st.focus)))
		w->in->values[s] = 0;
	if (w->step == STEP_SKETCH)
		tree_sizes_add(&w->stack_sizes, tree_size_of(w->in->values[s]));
	if (w->step == STEP_MAKE)
		add_to_self(w, caller, st.node, w->in->values[s]);
	return 0;
}

static int walk_trie(struct trie_walk *w, enum trie_step step, struct err *err)
{
	const struct profile_trie *in = w->in;

	w->step = step;
	w->prunes = step == STEP_MAKE || (step == STEP_COUNT && w->buckets);
	memset(w->states, 0, ((size_t)w->states_mask + 1) * sizeof(*w->states));
	memset(w->alive, 0, ((size_t)in->n / 64 + 1) * sizeof(*w->alive));
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

/* ---- the sizes of all nodes ---- */

static void put_total(struct trie_walk *w, uint64_t hash, int64_t total)
{
	uint32_t mask = w->n_slots - 1, i = (uint32_t)hash & mask;

	while (w->table[i].hash && w->table[i].hash != hash)
		i = (i + 1) & mask;
	w->n_table += !w->table[i].hash;
	w->table[i].hash = hash;
	add_to_total(&w->table[i].total, total);
}

/* The first half of this walk's hashes stay, in new slots. */
static bool halve_range(struct trie_walk *w)
{
	struct node_total *old = w->table;

	w->table = profile_alloc(w->t->p, w->n_slots, sizeof(*w->table));
	if (!w->table) {
		w->table = old;
		return false;
	}
	w->n_table = 0;
	w->to = w->from + (w->to - w->from) / 2;
	for (uint32_t i = 0; i < w->n_slots; i++)
		if (old[i].hash && old[i].hash <= w->to)
			put_total(w, old[i].hash, old[i].total);
	profile_release(w->t->p, old, w->n_slots, sizeof(*old));
	return true;
}

static bool grow_table(struct trie_walk *w)
{
	struct node_total *old = w->table;
	uint32_t n = w->n_slots;

	w->table = profile_alloc(w->t->p, 2 * (uint64_t)n, sizeof(*w->table));
	if (!w->table) {
		w->table = old;
		return false;
	}
	w->n_slots = 2 * n;
	w->n_table = 0;
	for (uint32_t i = 0; i < n; i++)
		if (old[i].hash)
			put_total(w, old[i].hash, old[i].total);
	profile_release(w->t->p, old, n, sizeof(*old));
	return true;
}

static bool count_total(struct trie_walk *w, uint64_t hash, int64_t total)
{
	if (hash < w->from || hash > w->to)
		return true;
	put_total(w, hash, total);
	if (w->n_table < w->n_slots / 4 * 3)
		return true;
	if (w->n_table < w->table_max)
		return grow_table(w);
	w->is_full = !w->buckets;
	return w->is_full || halve_range(w);
}

static uint64_t trie_root_size(const struct trie_walk *w)
{
	return tree_size_of(w->in->values[0]);
}

/* After a walk: its nodes have their totals. Those that are too small already are only counted. */
static bool take_sizes(struct trie_walk *w)
{
	struct profile *p = w->t->p;
	uint64_t least;

	for (uint32_t i = 0; i < w->n_slots; i++)
		if (w->table[i].hash && tree_size_of(w->table[i].total) >= w->least)
			tree_sizes_add(&w->sizes, tree_size_of(w->table[i].total));
	least = MAX(w->least, tree_least_size(w->t, &w->sizes, trie_root_size(w)));
	for (uint32_t i = 0; i < w->n_slots; i++) {
		const struct node_total *x = &w->table[i];

		if (x->hash && tree_size_of(x->total) >= least &&
		    !profile_push(p, &w->large, ((struct node_size){ x->hash, tree_size_of(x->total) })))
			return false;
	}
	return true;
}

static void empty_table(struct trie_walk *w)
{
	w->n_table = 0;
	memset(w->table, 0, w->n_slots * sizeof(*w->table));
}

static bool small_table(struct trie_walk *w)
{
	profile_release(w->t->p, w->table, w->n_slots, sizeof(*w->table));
	w->n_slots = TABLE_LEAST;
	w->n_table = 0;
	w->table = profile_alloc(w->t->p, w->n_slots, sizeof(*w->table));
	return w->table;
}

/* Sizes of all nodes of at least w->least, by as many walks as it takes. Without a sketch by one, or w->is_full is set. */
static int count_large_nodes(struct trie_walk *w, struct err *err)
{
	uint64_t width = UINT64_MAX;

	w->sizes = (struct tree_sizes){ 0 };
	w->large.n = 0;
	tree_sizes_add(&w->sizes, trie_root_size(w));
	for (w->from = 1;; w->from = w->to + 1) {
		empty_table(w);
		w->to = UINT64_MAX - w->from < width ? UINT64_MAX : w->from + width;
		if (walk_trie(w, STEP_COUNT, err) < 0)
			return -1;
		if (w->is_full)
			return 0;
		if (!take_sizes(w))
			return profile_err_memory(w->t->p, err);
		if (w->to == UINT64_MAX)
			return 0;
		/* As many hashes as the table has room for, with some to spare: halving the range costs time. */
		if (__builtin_mul_overflow((w->to - w->from) / (w->n_table + 1),
					   w->table_max - w->table_max / 16, &width))
			width = UINT64_MAX;
	}
}

/* How many nodes there are, by the bits that are not set. */
static uint64_t estimate_nodes(const struct trie_walk *w)
{
	uint64_t n_unset = 0;

	for (uint32_t i = 0; i < MARKS / 64; i++)
		n_unset += 64 - (unsigned)__builtin_popcountll(w->marks[i]);
	return (uint64_t)llround(MARKS * log((double)MARKS / (double)MAX(n_unset, UINT64_C(1))));
}

static int make_sketch(struct trie_walk *w, struct err *err)
{
	w->buckets = profile_alloc(w->t->p, BUCKETS, sizeof(*w->buckets));
	w->marks = profile_alloc(w->t->p, MARKS / 64, sizeof(*w->marks));
	if (!w->buckets || !w->marks)
		return profile_err_memory(w->t->p, err);
	return walk_trie(w, STEP_SKETCH, err);
}

/*
 * With more nodes than the table holds: only those of at least a bound are counted one by one, as few as will do. The
 * first bound is a guess by the sizes of stacks, of which a node may have many.
 */
static int count_by_sketch(struct trie_walk *w, struct err *err)
{
	uint64_t n;

	w->is_full = false;
	if (!small_table(w))
		return profile_err_memory(w->t->p, err);
	if (make_sketch(w, err) < 0)
		return -1;
	n = estimate_nodes(w);
	w->least = tree_least_size(w->t, &w->stack_sizes, trie_root_size(w)) / 2;
	for (;; w->least /= LOWER) {
		if (count_large_nodes(w, err) < 0)
			return -1;
		/* The others are smaller than the bound, whatever their sizes. */
		if (w->least) {
			w->sizes.counts[0] += n - MIN(w->sizes.n, n);
			w->sizes.n = MAX(w->sizes.n, n);
		}
		if (tree_least_size(w->t, &w->sizes, trie_root_size(w)) >= w->least)
			return 0;
	}
}

static int count_nodes(struct trie_walk *w, struct err *err)
{
	if (!small_table(w))
		return profile_err_memory(w->t->p, err);
	if (count_large_nodes(w, err) < 0)
		return -1;
	return w->is_full ? count_by_sketch(w, err) : 0;
}

/* ---- the nodes that stay ---- */

static bool keep_large(struct trie_walk *w)
{
	uint64_t least = tree_least_size(w->t, &w->sizes, trie_root_size(w));
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

static bool make_root(struct profile_tree *t, int64_t total)
{
	struct profile_column *c = &t->columns[0];

	if (!profile_extend(t->p, &c->self, 1) || !profile_extend(t->p, &c->total, 1))
		return false;
	c->self.p[0] = c->total.p[0] = total;
	return true;
}

static int make_nodes_of_trie(struct trie_walk *w, struct err *err)
{
	struct profile_tree *t = w->t;

	if (count_nodes(w, err) < 0)
		return -1;
	profile_release(t->p, TAKE(w->table), w->n_slots, sizeof(*w->table));
	if (!keep_large(w) || !make_root(t, w->in->values[0]))
		return profile_err_memory(t->p, err);
	if (walk_trie(w, STEP_MAKE, err) < 0)
		return -1;
	t->n_left_out = w->sizes.n - t->p->stacks.n;
	return profile_build_end(t->p, err);
}

/* ---- frames by value ---- */

/* The frames of one stack and its callers. */
struct trie_path {
	struct trie_walk *w;
	struct path_stack {
		uint32_t stack, n_frames; /* with its callers' */
	} * stacks;
	size_t n_stacks, room_stacks;
	uint32_t *frames;
	size_t n_frames, room_frames;
	uint32_t *on_path; /* of each frame: how often it is on the path */
};

static void path_pop(struct trie_path *x)
{
	uint32_t n = x->n_stacks > 1 ? x->stacks[x->n_stacks - 2].n_frames : 0;

	while (x->n_frames > n)
		x->on_path[x->frames[--x->n_frames]]--;
	x->n_stacks--;
}

/* @total: of the stack whose turn has come; NULL: it was added before. */
static void path_push(struct trie_path *x, uint32_t s, const int64_t *total)
{
	const struct trie_walk *w = x->w;
	uint32_t location = s ? w->in->stack(w->in->arg, s).location : 0;
	struct profile_top *rows = w->t->top;

	for (uint32_t i = s ? w->f->first[location] : 0; s && i < w->f->first[location + 1]; i++) {
		uint32_t frame = w->f->list.p[i] >> 1;

		if (w->patterns && !tree_frame_is_shown(w->t, tree_frame_bits(w->t, frame)))
			continue;
		if (w->collapses && x->n_frames && x->frames[x->n_frames - 1] == frame)
			continue;
		VEC_PUSH(x->frames, x->n_frames, x->room_frames) = frame;
		if (!x->on_path[frame]++ && total)
			add_to_total(&rows[frame].cum[0], *total);
	}
	VEC_PUSH(x->stacks, x->n_stacks, x->room_stacks) = (struct path_stack){ s, (uint32_t)x->n_frames };
}

/* The path becomes that of @s. */
static bool path_goto(struct trie_path *x, uint32_t s)
{
	const struct profile_trie *in = x->w->in;

	x->w->chain.n = 0;
	for (;; s = in->stack(in->arg, s).parent) {
		while (x->stacks[x->n_stacks - 1].stack > s)
			path_pop(x);
		if (x->stacks[x->n_stacks - 1].stack == s)
			break;
		if (deadline_over(x->w->t->deadline, TREE_STEPS_OF_FRAME))
			return false;
		VEC_PUSH(x->w->chain.v, x->w->chain.n, x->w->chain.room) = s;
	}
	while (x->w->chain.n)
		path_push(x, x->w->chain.v[--x->w->chain.n], NULL);
	return true;
}

static void add_flat(struct trie_path *x, int64_t value)
{
	if (x->n_frames)
		add_to_total(&x->w->t->top[x->frames[x->n_frames - 1]].flat[0], value);
}

static int walk_paths(struct trie_path *x, struct err *err)
{
	struct profile_trie *in = x->w->in;

	path_push(x, 0, NULL);
	trie_each(in, s)
	{
		if (!s)
			continue;
		if (!path_goto(x, in->stack(in->arg, (uint32_t)s).parent))
			return deadline_check(x->w->t->deadline, 0, err);
		/* The caller's total has this one's, which is not its own. */
		add_flat(x, -in->values[s]);
		path_push(x, (uint32_t)s, &in->values[s]);
		add_flat(x, in->values[s]);
		if (deadline_check(x->w->t->deadline, 4, err) < 0)
			return -1;
	}
	return 0;
}

static int sum_frames(struct trie_walk *w, struct err *err)
{
	struct profile_tree *t = w->t;
	struct trie_path x = { .w = w };
	int r;

	t->n_top = t->p->functions.n;
	t->top = profile_alloc(t->p, t->n_top, sizeof(*t->top));
	x.on_path = profile_alloc(t->p, t->n_top, sizeof(*x.on_path));
	if (!t->top || !x.on_path || !make_root(t, w->in->values[0])) {
		r = profile_err_memory(t->p, err);
	} else {
		for (uint32_t i = 0; i < t->n_top; i++)
			t->top[i].frame = i;
		r = walk_paths(&x, err);
	}
	profile_release(t->p, x.on_path, t->n_top, sizeof(*x.on_path));
	free(x.frames);
	free(x.stacks);
	return r;
}

/* ---- values ---- */

/*
 * Does every sum of some of them fit in 64 bits? And no callee is larger than its caller, as sketches need: none is
 * negative.
 */
static bool trie_values_fit(const struct profile_trie *in)
{
	int64_t sum = 0;

	trie_each(in, s)
	{
		if (in->values[s] < 0 || __builtin_add_overflow(sum, in->values[s], &sum))
			return false;
	}
	return true;
}

/* Callees have larger numbers, so going down each is complete before it is added to its caller. */
static int sum_trie(struct trie_walk *w, struct err *err)
{
	struct profile_trie *in = w->in;

	for (size_t i = in->n / 64 + 1; i-- > 0;)
		for (uint64_t bits = in->seen[i]; bits;) {
			unsigned bit = 63 - (unsigned)__builtin_clzll(bits);
			uint32_t s = (uint32_t)(i * 64 + bit);

			bits &= ~((uint64_t)1 << bit);
			if (!s)
				break;
			if (deadline_check(w->t->deadline, 1, err) < 0)
				return -1;
			add_to_total(&in->values[in->stack(in->arg, s).parent], in->values[s]);
		}
	return 0;
}

static uint32_t trie_n_seen(const struct profile_trie *in)
{
	uint32_t n = 0;

	for (size_t i = 0; i <= in->n / 64; i++)
		n += (uint32_t)__builtin_popcountll(in->seen[i]);
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
	w->collapses = t->view.by == PROFILE_BY_FILE || t->view.by == PROFILE_BY_BINARY;
	for (unsigned i = 0; i < N_MATCHES; i++)
		w->patterns |= t->patterns[i] != NULL;
	return w->states && w->alive ? 0 : profile_err_memory(t->p, err);
}

static void trie_walk_done(struct trie_walk *w)
{
	struct profile *p = w->t->p;

	profile_release(p, w->states, (uint64_t)w->states_mask + 1, sizeof(*w->states));
	profile_release(p, w->alive, (uint64_t)w->in->n / 64 + 1, sizeof(*w->alive));
	profile_release(p, w->buckets, BUCKETS, sizeof(*w->buckets));
	profile_release(p, w->marks, MARKS / 64, sizeof(*w->marks));
	profile_release(p, w->table, w->n_slots, sizeof(*w->table));
	profile_release(p, w->kept, (uint64_t)w->kept_mask + 1, sizeof(*w->kept));
	profile_table_free(p, &w->large);
	free(w->chain.v);
}

static int add_trie(struct profile_tree *t, const struct tree_frames *f, struct profile_trie *in,
		    struct err *err)
{
	struct trie_walk w = {
		.t = t, .in = in, .f = f, .table_max = in->table_max ? in->table_max : TABLE_NODES
	};
	int r = walk_init(&w, err);

	if (r == 0 && (t->patterns[MATCH_FOCUS] || t->patterns[MATCH_IGNORE]))
		r = walk_trie(&w, STEP_FILTER, err);
	/* The root has no frame that matches. */
	if (t->patterns[MATCH_FOCUS])
		in->values[0] = 0;
	if (r == 0)
		r = sum_trie(&w, err);
	if (r == 0)
		r = (in->top ? sum_frames : make_nodes_of_trie)(&w, err);
	trie_walk_done(&w);
	return r;
}

/* ---- the tree ---- */

bool profile_tree_takes_trie(const struct profile_view *view, bool top)
{
	bool prunes = view->max_nodes || view->min_share > 0;

	return !view->invert && !view->label && top != prunes;
}

int profile_tree_of_trie(const struct profile_view *view, const struct profile_limits *limits,
			 const struct profile *p, struct profile_trie *in, struct profile_tree **ret,
			 struct err *err)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct tree_frames f = { 0 };
	int r;

	if (!trie_values_fit(in))
		return TREE_NEEDS_NODES;
	if (profile_tree_new(view, limits, &t, err) < 0)
		return -1;
	t->used[0] = true;
	r = tree_same_unit(t, p, 0, err);
	if (r == 0)
		r = tree_frames_init(&f, t, p, err);
	if (r == 0)
		r = add_trie(t, &f, in, err);
	tree_frames_done(&f, t);
	if (r < 0)
		return -1;
	profile_index_drop(t->p);
	if (tree_list_children(t, err) < 0)
		return -1;
	*ret = TAKE(t);
	return 0;
}
