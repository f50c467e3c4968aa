/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output with a row for each stack that is kept elsewhere, written as it comes: only the frames and their names take memory.
 */
#include "profile/stream.h"

#include <math.h>
#include <stdlib.h>
#include "base/vec.h"
#include "profile/trie.h"

#define STREAM_BLOCK  KIB(64)
#define STEPS_OF_NAME 4u

int stream_flush(struct profile_stream *s, struct err *err)
{
	struct bytes b = buf_bytes(&s->out);

	s->out.size = 0;
	return b.size ? s->o.to.write(s->o.to.arg, b, err) : 0;
}

int stream_pass_on(struct profile_stream *s, struct err *err)
{
	return s->out.size >= STREAM_BLOCK ? stream_flush(s, err) : 0;
}

/* ---- the frames of a stack ---- */

/* The frame @i of s->f comes after those from @first on. */
static uint8_t add_stream_frame(struct profile_stream *s, uint32_t i, size_t first)
{
	uint32_t frame = s->f.list.p[i] >> 1;
	uint8_t bits = tree_bits_at(&s->f, i);

	if (!tree_frame_is_shown(s->t, bits))
		return bits;
	if (!tree_collapses(s->t) || s->n_path == first || s->path[s->n_path - 1] != frame)
		VEC_PUSH(s->path, s->n_path, s->room_path) = frame;
	return bits;
}

static void reverse_path(struct profile_stream *s)
{
	for (size_t i = 0, k = s->n_path; i + 1 < k--; i++) {
		uint32_t frame = s->path[i];

		s->path[i] = s->path[k];
		s->path[k] = frame;
	}
}

static void add_group(struct profile_stream *s)
{
	if (s->grouped)
		VEC_PUSH(s->path, s->n_path, s->room_path) = s->group;
}

/* Fill s->path: the value of the label is the outermost frame, in an inverted view, too. Has the view this stack's values? */
static bool take_stream_path(struct profile_stream *s, const struct profile_trie *in, uint32_t stack,
			     uint32_t *ret_steps)
{
	bool invert = s->t->view.invert;
	uint8_t bits = s->group_bits;
	size_t first;

	s->n_path = 0;
	if (invert)
		add_group(s);
	first = s->n_path;
	while (stack) {
		struct profile_stack at = in->stack(in->arg, stack);
		uint32_t begin = s->f.first.p[at.location], i = s->f.first.p[at.location + 1];

		*ret_steps += STEPS_OF_NAME * (1 + i - begin);
		while (i-- > begin)
			bits |= add_stream_frame(s, i, first);
		stack = at.parent;
	}
	if (!invert) {
		add_group(s);
		reverse_path(s);
	}
	return profile_filters_select(&s->t->filters, bits >> MATCH_FOCUS & 1, bits >> MATCH_IGNORE & 1);
}

/* ---- rows ---- */

/* Rounded so that all values up to this one have their sum. */
static int64_t scaled_base(struct profile_stream *s, int64_t value, double scale)
{
	double exact = (double)value * scale + s->base_rest;
	int64_t v;

	if (scale == 1)
		return value;
	v = profile_scaled(1, exact);
	s->base_rest = exact - (double)v;
	return v;
}

static int put_stream_rows(struct profile_stream *s, const struct profile_trie *in, struct err *err)
{
	trie_each(in, i)
	{
		int64_t value = in->values[i], base = in->base ? in->base[i] : 0;
		uint32_t steps = 1;

		if ((value || base) && take_stream_path(s, in, (uint32_t)i, &steps))
			s->form->row(s, value, in->base ? scaled_base(s, base, in->scale) : 0);
		if (stream_pass_on(s, err) < 0 || (s->form->passed && s->form->passed(s, err) < 0) ||
		    deadline_check(s->t->deadline, steps, err) < 0)
			return -1;
	}
	return profile_build_end(s->t->p, err);
}

static int begin_stream_group(struct profile_stream *s, const struct profile *p, uint32_t labels,
			      struct err *err)
{
	if (!s->t->view.label)
		return 0;
	s->group = tree_label_frame(s->t, p, labels);
	if (profile_build_end(s->t->p, err) < 0)
		return -1;
	s->group_bits = tree_frame_bits(s->t, s->group);
	s->grouped = tree_frame_is_shown(s->t, s->group_bits);
	return 0;
}

/* ---- all of it ---- */

int profile_stream_new(const struct profile_stream_options *o, struct profile_stream **ret, struct err *err)
{
	static const struct stream_form *const forms[] = {
		[PROFILE_STREAM_FOLDED] = &stream_folded, [PROFILE_STREAM_SPEEDSCOPE] = &stream_speedscope
	};
	struct profile_stream *s = NEW(struct profile_stream);

	s->o = *o;
	s->form = forms[o->format];
	if (profile_tree_new(&o->view, &o->limits, &s->t, err) < 0) {
		free(s);
		return -1;
	}
	buf_meter(&s->names, o->limits.memory);
	*ret = s;
	return 0;
}

void profile_stream_free(struct profile_stream *s)
{
	if (!s)
		return;
	profile_table_free(s->t->p, &s->name_at);
	tree_frames_done(&s->f, s->t);
	profile_tree_free(s->t);
	buf_done(&s->names);
	buf_done(&s->out);
	buf_done(&s->weights);
	free(s->json);
	free(s->path);
	free(s);
}

int profile_stream_add(struct profile_stream *s, const struct profile *p, const struct profile_trie *in,
		       struct err *err)
{
	s->f.p = p;
	s->compares = in->base;
	if (tree_same_unit(s->t, p, 0, err) < 0 || tree_frames_more(&s->f, s->t, err) < 0 ||
	    begin_stream_group(s, p, in->labels, err) < 0)
		return -1;
	if (s->form->frames && s->form->frames(s, err) < 0)
		return -1;
	if (!s->begun && s->form->begin && s->form->begin(s, err) < 0)
		return -1;
	s->begun = true;
	return put_stream_rows(s, in, err);
}

int profile_stream_end(struct profile_stream *s, struct err *err)
{
	if ((s->form->end && s->form->end(s, err) < 0) || stream_flush(s, err) < 0)
		return -1;
	return deadline_check(s->t->deadline, 0, err);
}
