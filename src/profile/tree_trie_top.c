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

int trie_sum_frames(struct trie_walk *w, struct err *err)
{
	struct profile_tree *t = w->t;
	struct trie_path x = { .w = w };
	int r;

	t->n_top = t->p->functions.n;
	t->top = profile_alloc(t->p, t->n_top, sizeof(*t->top));
	x.on_path = profile_alloc(t->p, t->n_top, sizeof(*x.on_path));
	if (!t->top || !x.on_path || !trie_make_root(t, w->in->values[0])) {
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
