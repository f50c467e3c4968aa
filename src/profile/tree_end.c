/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The finished tree of calls: sums, children in order, the walk, frames by their values, callers and callees.
 */
#include "profile/tree_internal.h"

#include <stdlib.h>

#define NAME_ORDER 4096u /* bytes of a name that count for the order of rows with equal values */

/* ---- sums and children ---- */

/* Callees have larger numbers, so going down the array each is complete before it is added to its caller. */
static int sum_up(struct profile_tree *t, struct profile_column *c, struct err *err)
{
	uint32_t n = t->p->stacks.n;

	/* Nothing was added: zeros that are only read take no memory. */
	if (!c->self.n) {
		c->self.p = calloc(n, sizeof(*c->self.p));
		c->total.p = calloc(n, sizeof(*c->total.p));
		if (!c->self.p || !c->total.p)
			return profile_err_memory(t->p, err);
		c->self.n = c->self.room = c->total.n = c->total.room = n;
		return 0;
	}
	if (!profile_room(t->p, &c->self, n - c->self.n) || !profile_room(t->p, &c->total, n))
		return profile_err_memory(t->p, err);
	memset(c->self.p + c->self.n, 0, (size_t)(n - c->self.n) * sizeof(*c->self.p));
	c->self.n = c->total.n = n;
	memcpy(c->total.p, c->self.p, (size_t)n * sizeof(*c->self.p));
	for (uint32_t i = n; i-- > 1;) {
		uint32_t parent = t->p->stacks.p[i].parent;

		if (deadline_check(t->deadline, 1, err) < 0)
			return -1;

		c->total.p[parent] = add_saturating(c->total.p[parent], c->total.p[i]);
	}
	return 0;
}

/*
 * The order of two strings of the tree. Only the first NAME_ORDER bytes are compared: names may have megabytes in
 * common, and a sort compares many pairs.
 */
static int name_order(const struct profile_tree *t, uint32_t a, uint32_t b)
{
	struct str x = profile_str(t->p, a), y = profile_str(t->p, b);
	int r;

	if (a == b)
		return 0;
	x.size = MIN(x.size, (size_t)NAME_ORDER);
	y.size = MIN(y.size, (size_t)NAME_ORDER);
	r = str_cmp(x, y);
	return r ? r : a < b ? -1 : 1;
}

static int by_child_size(const void *x, const void *y, void *arg)
{
	const struct profile_tree *t = arg;
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
	const struct profile_function *f = t->p->functions.p;

	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		int64_t v = t->columns[i].total.p[a], w = t->columns[i].total.p[b];

		if (v != w)
			return v > w ? -1 : 1;
	}
	return name_order(t, f[t->p->stacks.p[a].location].name, f[t->p->stacks.p[b].location].name);
}

static int list_children(struct profile_tree *t, struct err *err)
{
	const struct profile *p = t->p;
	uint32_t n = p->stacks.n, *first = calloc((size_t)n + 2, sizeof(*first)),
		 *list = calloc(n, sizeof(*list));

	t->first_child = first;
	t->children = list;
	if (!first || !list)
		return profile_err_memory(p, err);
	for (uint32_t i = 1; i < n; i++)
		first[p->stacks.p[i].parent + 2]++;
	for (uint32_t i = 2; i <= n; i++)
		first[i] += first[i - 1];
	for (uint32_t i = 1; i < n; i++)
		list[first[p->stacks.p[i].parent + 1]++] = i;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t n_below = first[i + 1] - first[i];

		/* Sorting n children takes n log n comparisons. */
		if (deadline_check(t->deadline, 1 + MIN(n_below, DEADLINE_STEPS), err) < 0)
			return -1;
		if (n_below > 1)
			qsort_r(list + first[i], n_below, sizeof(*list), by_child_size, t);
	}
	return 0;
}

int profile_tree_end(struct profile_tree *t, struct err *err)
{
	if (profile_build_end(t->p, err) < 0)
		return -1;
	/* Nothing is looked up any more, and the tables that follow are as large. */
	profile_index_drop(t->p);
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++)
		if (sum_up(t, &t->columns[i], err) < 0)
			return -1;
	return list_children(t, err);
}

/* ---- looking ---- */

uint32_t profile_tree_n(const struct profile_tree *t)
{
	return t->p->stacks.n;
}

void profile_tree_node(const struct profile_tree *t, uint32_t node, struct profile_node *ret)
{
	*ret = (struct profile_node){
		.parent = t->p->stacks.p[node].parent,
		.frame = t->p->stacks.p[node].location,
		.children = t->children + t->first_child[node],
		.n_children = t->first_child[node + 1] - t->first_child[node],
		.inlined = node < t->outlined.n && !t->outlined.p[node] && node,
	};
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		ret->self[i] = t->columns[i].self.p[node];
		ret->total[i] = t->columns[i].total.p[node];
	}
}

uint32_t profile_tree_n_frames(const struct profile_tree *t)
{
	return t->p->functions.n;
}

void profile_tree_frame(const struct profile_tree *t, uint32_t frame, struct profile_frame *ret)
{
	const struct profile_function *f = &t->p->functions.p[frame];
	bool address = frame < t->addresses.n && t->addresses.p[frame];

	*ret = (struct profile_frame){
		.name_string = f->name,
		.file_string = address ? 0 : f->file,
		.binary_string = f->system_name,
		.build_id_string = address ? f->file : 0,
		.line = address ? 0 : f->start_line,
		.address = address ? (uint64_t)f->start_line : 0,
		.is_address = address,
	};
	ret->name = profile_str(t->p, ret->name_string);
	ret->file = profile_str(t->p, ret->file_string);
	ret->binary = profile_str(t->p, ret->binary_string);
	ret->build_id = profile_str(t->p, ret->build_id_string);
}

uint32_t profile_tree_n_strings(const struct profile_tree *t)
{
	return t->p->strings.n;
}

struct str profile_tree_type(const struct profile_tree *t)
{
	return profile_str(t->p, t->type);
}

struct str profile_tree_unit(const struct profile_tree *t)
{
	return profile_str(t->p, t->unit);
}

bool profile_tree_compares(const struct profile_tree *t)
{
	return t->used[1];
}

void profile_tree_walk(const struct profile_tree *t, const struct profile_walk *w)
{
	/* Of the nodes that were entered and not left: their numbers, and the index of the next child. */
	AUTO(buf_done) struct buf path = { 0 };
	AUTO(buf_done) struct buf at = { 0 };
	uint32_t node = 0, next = 0;
	unsigned depth = 0;

	if (w->enter(w->arg, 0, 0))
		next = UINT32_MAX;
	while (!deadline_over(t->deadline, 1)) {
		uint32_t n = t->first_child[node + 1] - t->first_child[node];

		if (next < n) {
			uint32_t child = t->children[t->first_child[node] + next];

			if (w->enter(w->arg, child, depth + 1)) {
				if (w->leave)
					w->leave(w->arg, child, depth + 1);
				next++;
				continue;
			}
			buf_add_u32(&path, node);
			buf_add_u32(&at, next + 1);
			node = child;
			next = 0;
			depth++;
			continue;
		}
		if (w->leave)
			w->leave(w->arg, node, depth);
		if (!depth)
			return;
		depth--;
		path.size -= 4;
		at.size -= 4;
		memcpy(&node, path.p + path.size, 4);
		memcpy(&next, at.p + at.size, 4);
	}
}

/* ---- frames by value ---- */

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

		*to = add_saturating(*to, (self ? x->t->columns[i].self : x->t->columns[i].total).p[node]);
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
	return name_order(o->t, o->t->p->functions.p[a->frame].name, o->t->p->functions.p[b->frame].name);
}

static bool node_is_empty(const struct profile_top *top)
{
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++)
		if (top->flat[i] || top->cum[i])
			return false;
	return true;
}

static struct profile_top *top_rows(struct topping *x, const struct profile_walk *w, bool by_cum,
				    uint32_t *ret_n)
{
	struct order o = { x->t, by_cum };
	uint32_t n = x->t->p->functions.n, have = 0;

	x->top = NEW_N(struct profile_top, (size_t)n + 1);
	x->on_path = mem_zalloc(((size_t)n + 1) * sizeof(*x->on_path));
	for (uint32_t i = 0; i < n; i++)
		x->top[i] = (struct profile_top){ .frame = i };
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

	return top_rows(&x, &w, by_cum, ret_n);
}

struct profile_top *profile_tree_callers(const struct profile_tree *t, uint32_t frame, uint32_t *ret_n)
{
	struct topping x = { .t = t, .frame = frame, .callers = true };
	const struct profile_walk w = { call_enter, call_leave, &x };

	return top_rows(&x, &w, true, ret_n);
}

struct profile_top *profile_tree_callees(const struct profile_tree *t, uint32_t frame, uint32_t *ret_n)
{
	struct topping x = { .t = t, .frame = frame };
	const struct profile_walk w = { call_enter, call_leave, &x };

	return top_rows(&x, &w, true, ret_n);
}
