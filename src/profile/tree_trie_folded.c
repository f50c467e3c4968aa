/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks of stacks that are kept elsewhere: a line for each of them, written as it comes. Only the frames and
 * their names take memory.
 */
#include "profile/output.h"
#include "profile/text.h"
#include "profile/tree_internal.h"
#include "profile/trie.h"

#include <stdlib.h>
#include "base/vec.h"

#define FOLDED_BLOCK  KIB(64)
#define STEPS_OF_NAME 4u

struct folded_lines {
	struct profile_tree *t; /* its frames only */
	const struct profile_trie *in;
	const struct profile_writer *to;
	struct tree_frames f;
	bool patterns, collapses;
	struct buf names;  /* of all frames, as they are in a line */
	uint64_t *name_at; /* of each frame, and one after the last */
	uint32_t *path;    /* frames of one stack, callees first */
	size_t n_path, room_path;
	struct buf out;
};

static int escape_names(struct folded_lines *x, struct err *err)
{
	const struct profile *p = x->t->p;
	uint32_t n = p->functions.n;

	x->name_at = profile_alloc(x->t->p, (uint64_t)n + 1, sizeof(*x->name_at));
	if (!x->name_at)
		return profile_err_memory(p, err);
	for (uint32_t i = 0; i < n && !buf_is_over(&x->names); i++) {
		text_line(profile_str(p, p->functions.p[i].name), ';', &x->names);
		x->name_at[i + 1] = x->names.size;
		if (deadline_check(x->t->deadline, TREE_STEPS_OF_FRAME, err) < 0)
			return -1;
	}
	return buf_check(&x->names, err);
}

/* Matches of the frame, which is in the path if it is shown. */
static uint8_t add_folded_frame(struct folded_lines *x, uint32_t frame)
{
	uint8_t bits = x->patterns ? tree_frame_bits(x->t, frame) : 0;

	if (x->patterns && !tree_frame_is_shown(x->t, bits))
		return bits;
	if (!x->collapses || !x->n_path || x->path[x->n_path - 1] != frame)
		VEC_PUSH(x->path, x->n_path, x->room_path) = frame;
	return bits;
}

/* Fill x->path. Does the view have the values of this stack? */
static bool take_folded_path(struct folded_lines *x, uint32_t s, uint32_t *ret_steps)
{
	uint8_t bits = 0;

	x->n_path = 0;
	while (s) {
		struct profile_stack stack = x->in->stack(x->in->arg, s);
		uint32_t first = x->f.first.p[stack.location], i = x->f.first.p[stack.location + 1];

		*ret_steps += STEPS_OF_NAME * (1 + i - first);
		while (i-- > first)
			bits |= add_folded_frame(x, x->f.list.p[i] >> 1);
		s = stack.parent;
	}
	return !(bits >> MATCH_IGNORE & 1) && (!x->t->patterns[MATCH_FOCUS] || bits >> MATCH_FOCUS & 1);
}

static void put_folded_line(struct folded_lines *x, int64_t value)
{
	for (size_t i = 0; i < x->n_path; i++) {
		uint32_t frame = x->path[x->t->view.invert ? i : x->n_path - 1 - i];
		uint64_t at = x->name_at[frame];

		if (i)
			buf_add_char(&x->out, ';');
		buf_add(&x->out, x->names.p + at, x->name_at[frame + 1] - at);
	}
	if (!x->n_path)
		buf_add_str(&x->out, STR("[no stack]"));
	buf_add_char(&x->out, ' ');
	if (value < 0)
		buf_add_char(&x->out, '-');
	buf_add_decimal(&x->out, tree_size_of(value));
	buf_add_char(&x->out, '\n');
}

static int flush_folded(struct folded_lines *x, struct err *err)
{
	struct bytes b = buf_bytes(&x->out);

	x->out.size = 0;
	return b.size ? x->to->write(x->to->arg, b, err) : 0;
}

static int put_folded_lines(struct folded_lines *x, struct err *err)
{
	trie_each(x->in, s)
	{
		uint32_t steps = 1;

		if (x->in->values[s] && take_folded_path(x, (uint32_t)s, &steps))
			put_folded_line(x, x->in->values[s]);
		if (x->out.size >= FOLDED_BLOCK && flush_folded(x, err) < 0)
			return -1;
		if (deadline_check(x->t->deadline, steps, err) < 0)
			return -1;
	}
	if (profile_build_end(x->t->p, err) < 0 || flush_folded(x, err) < 0)
		return -1;
	return deadline_check(x->t->deadline, 0, err);
}

int profile_write_folded_trie(const struct profile_view *view, const struct profile_limits *limits,
			      const struct profile *p, const struct profile_trie *in,
			      const struct profile_writer *to, struct err *err)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct folded_lines x = { .in = in, .to = to };
	int r = profile_tree_new(view, limits, &t, err);

	if (r < 0)
		return -1;
	x.t = t;
	x.patterns = tree_has_patterns(t);
	x.collapses = tree_collapses(t);
	buf_meter(&x.names, limits ? limits->memory : NULL);
	r = tree_frames_init(&x.f, t, p, err);
	if (r == 0)
		r = escape_names(&x, err);
	if (r == 0)
		r = put_folded_lines(&x, err);
	profile_release(t->p, x.name_at, (uint64_t)t->p->functions.n + 1, sizeof(*x.name_at));
	tree_frames_done(&x.f, t);
	buf_done(&x.names);
	buf_done(&x.out);
	free(x.path);
	return r;
}
