/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the tree of calls.
 *
 * A profile's stacks are a trie, so the tree node of each is found by one step from its caller's. Only where
 * that order does not help (inverted) each frame of each stack takes a step. Either is done once for a stack,
 * however many samples have it: with a label too, whose values become the outermost frames at the end.
 */
#include "profile/tree_internal.h"

#include <stdlib.h>
#include <string.h>

#define NODE_NONE UINT32_MAX /* not known yet */

bool profile_group_parse(struct str s, enum profile_group *ret)
{
	static const char *const names[] = { "function", "file", "binary", "line", "address" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(s, str_of(names[i]))) {
			*ret = (enum profile_group)i;
			return true;
		}
	return false;
}

/* ---- making one ---- */

#define FRAME_KNOWN 0x80u /* in frame_matches: it was looked at */

uint8_t tree_frame_bits(struct profile_tree *t, uint32_t frame)
{
	uint8_t *known;

	/* The limit of memory was reached, which is reported at the end. */
	if (frame >= t->p->functions.n)
		return 0;
	if (!profile_extend(t->p, &t->frame_matches, (uint64_t)frame + 1)) {
		profile_index_of(t->p)->failed = true;
		return 0;
	}
	known = &t->frame_matches.p[frame];
	if (!*known)
		*known = (uint8_t)(FRAME_KNOWN |
				   profile_filters_text(&t->filters,
							profile_str(t->p, t->p->functions.p[frame].name)));
	return (uint8_t)(*known & ~FRAME_KNOWN);
}

int profile_tree_new(const struct profile_view *view, const struct profile_limits *limits,
		     struct profile_tree **ret, struct err *err)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NEW(struct profile_tree);

	t->view = *view;
	t->p = profile_new(limits);
	t->deadline = limits ? limits->deadline : NULL;
	if (profile_filters_init(&t->filters, view, t->deadline, err) < 0)
		return -1;
	*ret = TAKE(t);
	return 0;
}

void profile_tree_free(struct profile_tree *t)
{
	if (!t)
		return;
	profile_filters_done(&t->filters);
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		free(t->columns[i].self.p);
		free(t->columns[i].total.p);
		free(t->columns[i].entries.p);
	}
	free(t->groups.p);
	free(t->group_of_frame.slots);
	free(t->frame_matches.p);
	free(t->addresses.p);
	free(t->outlined.p);
	free(t->top);
	free(t->calls[0]);
	free(t->calls[1]);
	free(t->first_child);
	free(t->children);
	profile_free(t->p);
	free(t);
}

void profile_tree_freep(struct profile_tree **t)
{
	profile_tree_free(*t);
}

/* ---- nodes ---- */

/* The node of a stack, and which patterns matched on the way to it. */
struct tree_place {
	uint32_t node; /* NODE_NONE: not known yet */
	bool focus, ignore;
};

static uint32_t frame_at_node(const struct profile_tree *t, uint32_t node)
{
	uint32_t location = t->p->stacks.p[node].location;

	return t->view.label ? location >> 1 : location;
}

static void mark_outlined(struct profile_tree *t, uint32_t node, bool outlined)
{
	if (profile_extend(t->p, &t->outlined, (uint64_t)node + 1))
		t->outlined.p[node] |= outlined;
	else
		profile_index_of(t->p)->failed = true; /* profile_build_end() reports it */
}

/* The frame @i of @f. */
static void go_down(struct profile_tree *t, const struct tree_frames *f, struct tree_place *at, uint32_t i)
{
	uint32_t tagged = f->list.p[i], frame = tagged >> 1;
	uint8_t bits = tree_bits_at(f, i);

	at->focus |= bits >> MATCH_FOCUS & 1;
	at->ignore |= bits >> MATCH_IGNORE & 1;
	if (!tree_frame_is_shown(t, bits))
		return;
	if (tree_collapses(t) && at->node && frame_at_node(t, at->node) == frame)
		return;
	at->node = profile_add_stack(t->p, at->node, t->view.label ? tagged : frame);
	if (!t->view.label)
		mark_outlined(t, at->node, !(tagged & 1));
}

/* One step for each stack of the trie. */
static int places_by_trie(struct profile_tree *t, const struct tree_frames *f, struct tree_place *places,
			  struct err *err)
{
	const struct profile *p = f->p;

	places[0] = (struct tree_place){ 0 };
	for (uint32_t s = 1; s < p->stacks.n; s++) {
		uint32_t l = p->stacks.p[s].location;

		if (deadline_check(t->deadline, TREE_STEPS_OF_FRAME * (1 + f->first.p[l + 1] - f->first.p[l]),
				   err) < 0)
			return -1;
		places[s] = places[p->stacks.p[s].parent];
		for (uint32_t i = f->first.p[l]; i < f->first.p[l + 1]; i++)
			go_down(t, f, &places[s], i);
	}
	return profile_build_end(t->p, err);
}

/* The innermost frame is the outermost node: one step for each frame of the stack. */
static struct tree_place inverted_place(struct profile_tree *t, const struct tree_frames *f, uint32_t stack)
{
	const struct profile *p = f->p;
	struct tree_place at = { 0 };
	uint32_t n = 0;

	for (uint32_t s = stack; s && n < PROFILE_MAX_DEPTH; s = p->stacks.p[s].parent, n++) {
		uint32_t l = p->stacks.p[s].location, first = f->first.p[l], end = f->first.p[l + 1];

		/* The caller checks it again. */
		if (deadline_over(t->deadline, TREE_STEPS_OF_FRAME * (1 + end - first)))
			break;
		while (end-- > first)
			go_down(t, f, &at, end);
	}
	return at;
}

/* Of the stacks that have samples. */
static int places_inverted(struct profile_tree *t, const struct tree_frames *f, struct tree_place *places,
			   struct err *err)
{
	const struct profile *p = f->p;

	for (uint32_t s = 0; s < p->stacks.n; s++)
		places[s].node = NODE_NONE;
	for (uint32_t i = 0; i < p->n_samples; i++) {
		uint32_t s = p->sample_stack[i];

		if (deadline_check(t->deadline, TREE_STEPS_OF_FRAME, err) < 0)
			return -1;
		if (places[s].node == NODE_NONE)
			places[s] = inverted_place(t, f, s);
	}
	return profile_build_end(t->p, err);
}

/* ---- samples ---- */

/* The values of one sample type, times @scale, into a column. */
struct tree_values {
	const struct profile *p;
	uint32_t type;
	struct profile_column *to;
	double scale;
};

static int64_t tree_value(const struct tree_values *v, uint32_t sample)
{
	return profile_scaled(profile_value(v->p, sample, v->type), v->scale);
}

static int add_to_nodes(struct profile_tree *t, const struct tree_values *v, const struct tree_place *places,
			struct err *err)
{
	if (!profile_extend(t->p, &v->to->self, t->p->stacks.n))
		return profile_err_memory(t->p, err);
	for (uint32_t i = 0; i < v->p->n_samples; i++) {
		const struct tree_place *at = &places[v->p->sample_stack[i]];
		int64_t *self = &v->to->self.p[at->node];

		if (deadline_check(t->deadline, 1, err) < 0)
			return -1;
		if (profile_filters_select(&t->filters, at->focus, at->ignore))
			*self = add_saturating(*self, tree_value(v, i));
	}
	return 0;
}

/* Samples that are left out get the value 0: the nodes on their way are there, as they are without a label. */
static int add_to_groups(struct profile_tree *t, const struct tree_values *v, const struct tree_place *places,
			 struct err *err)
{
	const struct profile *p = v->p;
	uint32_t *groups = profile_alloc(t->p, p->label_sets.n, sizeof(*groups)); /* + 1 */
	int r = 0;

	if (!groups || !profile_room(t->p, &v->to->entries, p->n_samples))
		r = profile_err_memory(t->p, err);
	for (uint32_t i = 0; r == 0 && i < p->n_samples; i++) {
		const struct tree_place *at = &places[p->sample_stack[i]];
		uint32_t *group = &groups[p->sample_labels[i]];
		const struct tree_group *g;

		if (!*group)
			*group = tree_group_of(t, p, p->sample_labels[i]) + 1;
		r = profile_build_end(t->p, err) < 0 ? -1 : deadline_check(t->deadline, 2, err);
		if (r < 0)
			break;
		g = &t->groups.p[*group - 1];
		v->to->entries.p[v->to->entries.n++] = (struct tree_entry){
			.group = g->nodes,
			.node = at->node,
			.value = profile_filters_select(&t->filters, at->focus || g->focus,
							at->ignore || g->ignore)
					 ? tree_value(v, i)
					 : 0
		};
	}
	profile_release(t->p, groups, p->label_sets.n, sizeof(*groups));
	return r;
}

static int add_samples(struct profile_tree *t, const struct tree_values *v, const struct tree_frames *f,
		       struct err *err)
{
	uint32_t n = v->p->stacks.n;
	struct tree_place *places = profile_alloc(t->p, n, sizeof(*places));
	int r;

	if (!places)
		return profile_err_memory(t->p, err);
	r = (t->view.invert ? places_inverted : places_by_trie)(t, f, places, err);
	if (r == 0)
		r = (t->view.label ? add_to_groups : add_to_nodes)(t, v, places, err);
	profile_release(t->p, places, n, sizeof(*places));
	return r;
}

int tree_same_unit(struct profile_tree *t, const struct profile *p, uint32_t type, struct err *err)
{
	struct str unit = profile_str(p, p->types.p[type].unit), ours;

	if (!t->named) {
		t->type = profile_add_string(t->p, profile_str(p, p->types.p[type].type));
		t->unit = profile_add_string(t->p, unit);
		t->named = true;
		return 0;
	}
	ours = profile_tree_unit(t);
	if (!str_eq(unit, ours))
		return err_set(err, ERR_INVALID, "has the unit " STR_FMT ", other profiles " STR_FMT,
			       STR_ARG(unit), STR_ARG(ours));
	return 0;
}

int profile_tree_add(struct profile_tree *t, const struct profile *p, uint32_t type, unsigned column,
		     double scale, struct err *err)
{
	const struct tree_values v = { p, type, &t->columns[column], scale };
	struct tree_frames f = { 0 };
	int r;

	t->used[column] = true;
	if (type >= p->types.n)
		return p->n_samples ? err_set(err, ERR_INVALID, "there is no such sample type") : 0;
	if (tree_same_unit(t, p, type, err) < 0)
		return -1;
	r = tree_frames_init(&f, t, p, err);
	if (r == 0)
		r = add_samples(t, &v, &f, err);
	tree_frames_done(&f, t);
	return r;
}
