/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a tree of calls by their values; callers and callees of one. */
#include "profile/tree_internal.h"

#include <assert.h>
#include <stdlib.h>

struct topping {
	const struct profile_tree *t;
	struct profile_top *top;
	uint32_t *on_path; /* of each frame: how often it is on the path */
	uint32_t frame;    /* its callers or callees are wanted */
	bool callers;
};

static void add_top_row(struct topping *x, uint32_t frame, uint32_t node, bool self)
{
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		struct profile_top *top = &x->top[frame];
		int64_t *to = self ? &top->flat[i] : &top->cum[i];

		*to = add_saturating(*to, self ? tree_self(x->t, i, node) : tree_total(x->t, i, node));
	}
}

static int top_enter(void *arg, uint32_t node, unsigned depth)
{
	struct topping *x = arg;
	uint32_t frame = x->t->p->stacks.p[node].location;

	if (!node)
		return 0;
	add_top_row(x, frame, node, true);
	if (!x->on_path[frame]++)
		add_top_row(x, frame, node, false);
	return 0;
}

static void top_leave(void *arg, uint32_t node, unsigned depth)
{
	struct topping *x = arg;

	if (node)
		x->on_path[x->t->p->stacks.p[node].location]--;
}

/* The other end of the call that leads to @node, if it is wanted; else PROFILE_NONE. */
static uint32_t other_end(const struct topping *x, uint32_t node)
{
	const struct profile_stack *s = x->t->p->stacks.p;
	uint32_t parent = s[node].parent, frame = s[node].location;

	if (!node || !parent)
		return PROFILE_NONE;
	if (x->callers)
		return frame == x->frame ? s[parent].location : PROFILE_NONE;
	return s[parent].location == x->frame ? frame : PROFILE_NONE;
}

/* A call that is on the path already counts its time. */
static int call_enter(void *arg, uint32_t node, unsigned depth)
{
	struct topping *x = arg;
	uint32_t other = other_end(x, node);

	if (other != PROFILE_NONE && !x->on_path[other]++)
		add_top_row(x, other, node, false);
	return 0;
}

static void call_leave(void *arg, uint32_t node, unsigned depth)
{
	struct topping *x = arg;
	uint32_t other = other_end(x, node);

	if (other != PROFILE_NONE)
		x->on_path[other]--;
}

struct order {
	const struct profile_tree *t;
	bool by_cum;
};

static int64_t node_weight(int64_t v)
{
	return v < 0 ? v == INT64_MIN ? INT64_MAX : -v : v;
}

static int by_top_value(const void *x, const void *y, void *arg)
{
	const struct profile_top *a = x, *b = y;
	const struct order *o = arg;
	int64_t first = node_weight(o->by_cum ? a->cum[0] : a->flat[0]),
		second = node_weight(o->by_cum ? b->cum[0] : b->flat[0]);

	if (first != second)
		return first > second ? -1 : 1;
	first = node_weight(o->by_cum ? a->flat[0] : a->cum[0]);
	second = node_weight(o->by_cum ? b->flat[0] : b->cum[0]);
	if (first != second)
		return first > second ? -1 : 1;
	return tree_name_order(o->t, o->t->p->functions.p[a->frame].name,
			       o->t->p->functions.p[b->frame].name);
}

static bool node_is_empty(const struct profile_top *top)
{
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++)
		if (top->flat[i] || top->cum[i])
			return false;
	return true;
}

/* @from: the row of each frame, NULL: made by a walk. */
static struct profile_top *top_rows(struct topping *x, const struct profile_walk *w,
				    const struct profile_top *from, bool by_cum, uint32_t *ret_n)
{
	struct order o = { x->t, by_cum };
	uint32_t n = x->t->p->functions.n, have = 0;

	x->top = NEW_N(struct profile_top, (size_t)n + 1);
	x->on_path = mem_zalloc(((size_t)n + 1) * sizeof(*x->on_path));
	for (uint32_t i = 0; i < n; i++)
		x->top[i] = from ? from[i] : (struct profile_top){ .frame = i };
	if (!from)
		profile_tree_walk(x->t, w);
	for (uint32_t i = 0; i < n; i++)
		if (!node_is_empty(&x->top[i]))
			x->top[have++] = x->top[i];
	qsort_r(x->top, have, sizeof(*x->top), by_top_value, &o);
	free(x->on_path);
	*ret_n = have;
	return x->top;
}

struct profile_top *profile_tree_top(const struct profile_tree *t, bool by_cum, uint32_t *ret_n)
{
	struct topping x = { .t = t };
	const struct profile_walk w = { top_enter, top_leave, &x };

	return top_rows(&x, &w, t->top, by_cum, ret_n);
}

const struct profile_top *profile_tree_find(const struct profile_tree *t, const struct profile_top *rows,
					    uint32_t n, struct str name, struct str binary, struct str file)
{
	const struct profile_top *best = NULL;
	struct order o = { t, true };

	for (uint32_t i = 0; i < n; i++) {
		const struct profile_function *f = &t->p->functions.p[rows[i].frame];

		if (!str_eq(profile_str(t->p, f->name), name) || node_is_empty(&rows[i]) ||
		    (binary.size && !str_eq(profile_str(t->p, f->system_name), binary)) ||
		    (file.size && !str_eq(profile_str(t->p, f->file), file)))
			continue;
		if (!best || by_top_value(&rows[i], best, &o) < 0)
			best = &rows[i];
	}
	return best;
}

static struct profile_top *calls_of(const struct profile_tree *t, uint32_t frame, bool callers,
				    uint32_t *ret_n)
{
	struct topping x = { .t = t, .frame = frame, .callers = callers };
	const struct profile_walk w = { call_enter, call_leave, &x };

	assert(!t->top || (t->calls[callers] && t->called == frame));
	return top_rows(&x, &w, t->calls[callers], true, ret_n);
}

struct profile_top *profile_tree_callers(const struct profile_tree *t, uint32_t frame, uint32_t *ret_n)
{
	return calls_of(t, frame, true, ret_n);
}

struct profile_top *profile_tree_callees(const struct profile_tree *t, uint32_t frame, uint32_t *ret_n)
{
	return calls_of(t, frame, false, ret_n);
}
