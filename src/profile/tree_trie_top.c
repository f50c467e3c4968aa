/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames by value, from stacks that are kept elsewhere: a walk over all stacks with the path of frames at hand adds the
 * total of a stack to each frame that is on the path for the first time.
 */
#include "profile/tree_trie.h"

#include <stdlib.h>
#include "base/vec.h"

/* The frames of one stack and its callers. */
struct trie_path {
	struct trie_walk *w;
	struct profile_top *rows; /* of each frame */
	struct path_stack {
		uint32_t stack, n_frames; /* with its callers' */
	} * stacks;
	size_t n_stacks, room_stacks;
	uint32_t *frames;
	size_t n_frames, room_frames;
	uint32_t *on_path; /* of each frame: how often it is on the path */
	/* Of calls of frame t->called, and calls in it, in a second walk: how often they are on the path */
	uint32_t *calls[2];
};

/* The totals of stack @s, of both sides. */
static void add_totals(const struct trie_path *x, int64_t *to, uint32_t s)
{
	const struct profile_trie *in = x->w->in;

	add_to_total(&to[0], in->values[s]);
	if (in->base)
		add_to_total(&to[1], in->base[s]);
}

/* The frame at the end of the path was pushed, or, with @by -1, will be popped. @visited as in path_push(). */
static void note_call(struct trie_path *x, uint32_t by, uint32_t visited)
{
	const struct profile_tree *t = x->w->t;
	const uint32_t *end = x->frames + x->n_frames;

	if (x->n_frames < 2)
		return;
	for (unsigned callers = 0; callers < 2; callers++) {
		uint32_t other = end[callers ? -2 : -1];
		/* An inverted tree has them the other way round. */
		unsigned to = callers ^ t->view.invert;

		if (end[callers ? -1 : -2] != t->called)
			continue;
		/* A call that is on the path already counts its time. */
		if (!x->calls[to][other] && visited)
			add_totals(x, t->calls[to][other].cum, visited);
		x->calls[to][other] += by;
	}
}

/* Which of the two walks it is, is known when these are compiled: each is done for every frame of every stack. */
#define OF_A_WALK static inline __attribute__((always_inline))

OF_A_WALK void path_pop(struct trie_path *x, bool calls)
{
	uint32_t n = x->n_stacks > 1 ? x->stacks[x->n_stacks - 2].n_frames : 0;

	while (x->n_frames > n) {
		if (calls)
			note_call(x, UINT32_MAX, 0);
		else
			x->on_path[x->frames[x->n_frames - 1]]--;
		x->n_frames--;
	}
	x->n_stacks--;
}

/* @visited: the stack, if its turn has come; 0: its total was added before. */
OF_A_WALK void path_push(struct trie_path *x, uint32_t s, uint32_t location, uint32_t visited, bool calls)
{
	const struct trie_walk *w = x->w;

	for (uint32_t i = s ? w->f->first.p[location] : 0; s && i < w->f->first.p[location + 1]; i++) {
		uint32_t frame = w->f->list.p[i] >> 1;

		if (w->patterns && !tree_frame_is_shown(w->t, tree_bits_at(w->f, i)))
			continue;
		if (w->collapses && x->n_frames && x->frames[x->n_frames - 1] == frame)
			continue;
		VEC_PUSH(x->frames, x->n_frames, x->room_frames) = frame;
		if (calls)
			note_call(x, 1, visited);
		else if (!x->on_path[frame]++ && visited)
			add_totals(x, x->rows[frame].cum, visited);
	}
	VEC_PUSH(x->stacks, x->n_stacks, x->room_stacks) = (struct path_stack){ s, (uint32_t)x->n_frames };
}

/* The path becomes that of @s. */
OF_A_WALK bool path_goto(struct trie_path *x, uint32_t s, bool calls)
{
	const struct profile_trie *in = x->w->in;

	x->w->chain.n = 0;
	for (;; s = in->stack(in->arg, s).parent) {
		while (x->stacks[x->n_stacks - 1].stack > s)
			path_pop(x, calls);
		if (x->stacks[x->n_stacks - 1].stack == s)
			break;
		if (deadline_over(x->w->t->deadline, TREE_STEPS_OF_FRAME))
			return false;
		VEC_PUSH(x->w->chain.v, x->w->chain.n, x->w->chain.room) = s;
	}
	while (x->w->chain.n) {
		s = x->w->chain.v[--x->w->chain.n];
		path_push(x, s, in->stack(in->arg, s).location, 0, calls);
	}
	return true;
}

/* Flat values after a stack's turn, whose callers have @n_above frames. */
OF_A_WALK void add_flat_value(struct trie_path *x, unsigned column, size_t n_above, int64_t value)
{
	/* Of an inverted view it is the value of the outermost frame. */
	if (x->w->t->view.invert) {
		if (!n_above && x->n_frames)
			add_to_total(&x->rows[x->frames[0]].flat[column], value);
		return;
	}
	/* The caller's total has this one's, which is not its own. */
	if (n_above)
		add_to_total(&x->rows[x->frames[n_above - 1]].flat[column], -value);
	if (x->n_frames)
		add_to_total(&x->rows[x->frames[x->n_frames - 1]].flat[column], value);
}

OF_A_WALK void add_flat(struct trie_path *x, size_t n_above, uint32_t s)
{
	const struct profile_trie *in = x->w->in;

	add_flat_value(x, 0, n_above, in->values[s]);
	if (in->base)
		add_flat_value(x, 1, n_above, in->base[s]);
}

OF_A_WALK int walk_paths(struct trie_path *x, bool calls, struct err *err)
{
	struct profile_trie *in = x->w->in;

	x->n_frames = x->n_stacks = 0;
	path_push(x, 0, 0, 0, calls);
	trie_each(in, s)
	{
		struct profile_stack stack;
		size_t n_above;

		if (!s)
			continue;
		stack = in->stack(in->arg, (uint32_t)s);
		if (!path_goto(x, stack.parent, calls))
			return deadline_check(x->w->t->deadline, 0, err);
		n_above = x->n_frames;
		path_push(x, (uint32_t)s, stack.location, (uint32_t)s, calls);
		if (!calls)
			add_flat(x, n_above, (uint32_t)s);
		if (deadline_check(x->w->t->deadline, 4, err) < 0)
			return -1;
	}
	return 0;
}

static int walk_frames(struct trie_path *x, struct err *err)
{
	return walk_paths(x, false, err);
}

static int walk_calls(struct trie_path *x, struct err *err)
{
	return walk_paths(x, true, err);
}

static bool calls_init(struct trie_path *x)
{
	struct profile_tree *t = x->w->t;

	for (unsigned i = 0; i < 2; i++) {
		t->calls[i] = profile_alloc(t->p, t->n_top, sizeof(*t->calls[i]));
		x->calls[i] = profile_alloc(t->p, t->n_top, sizeof(*x->calls[i]));
		for (uint32_t k = 0; t->calls[i] && k < t->n_top; k++)
			t->calls[i][k].frame = k;
	}
	return t->calls[0] && t->calls[1] && x->calls[0] && x->calls[1];
}

/* After the sums of all frames: a second walk for callers and callees of one. */
static int sum_calls(struct trie_path *x, struct err *err)
{
	struct profile_tree *t = x->w->t;
	const struct profile_top *row;

	if (!calls_init(x))
		return profile_err_memory(t->p, err);
	row = profile_tree_find(t, t->top, t->n_top, x->w->in->function, x->w->in->binary, x->w->in->file);
	if (!row)
		return 0;
	t->called = row->frame;
	return walk_calls(x, err);
}

static int path_init(struct trie_path *x, struct err *err)
{
	struct profile_tree *t = x->w->t;

	t->n_top = t->p->functions.n;
	x->rows = t->top = profile_alloc(t->p, t->n_top, sizeof(*t->top));
	x->on_path = profile_alloc(t->p, t->n_top, sizeof(*x->on_path));
	if (!t->top || !x->on_path || !trie_make_root(x->w))
		return profile_err_memory(t->p, err);
	for (uint32_t i = 0; i < t->n_top; i++)
		t->top[i].frame = i;
	return 0;
}

static void scale_rows(struct profile_top *rows, uint32_t n, double scale)
{
	for (uint32_t i = 0; rows && i < n; i++) {
		rows[i].flat[1] = profile_scaled(rows[i].flat[1], scale);
		rows[i].cum[1] = profile_scaled(rows[i].cum[1], scale);
	}
}

/* After all sums. */
static void scale_base_rows(struct trie_walk *w)
{
	struct profile_tree *t = w->t;

	trie_scale_base(w);
	scale_rows(t->top, t->n_top, w->in->scale);
	for (unsigned i = 0; i < 2; i++)
		scale_rows(t->calls[i], t->n_top, w->in->scale);
}

int trie_sum_frames(struct trie_walk *w, struct err *err)
{
	struct profile_tree *t = w->t;
	struct trie_path x = { .w = w };
	int r = path_init(&x, err);

	if (r == 0)
		r = walk_frames(&x, err);
	if (r == 0 && w->in->function.size)
		r = sum_calls(&x, err);
	if (r == 0 && w->in->base)
		scale_base_rows(w);
	profile_release(t->p, x.on_path, t->n_top, sizeof(*x.on_path));
	for (unsigned i = 0; i < 2; i++)
		profile_release(t->p, x.calls[i], t->n_top, sizeof(*x.calls[i]));
	free(x.frames);
	free(x.stacks);
	return r;
}
