/* SPDX-License-Identifier: Apache-2.0 */
/* The finished tree of calls: sums, children in order, the walk. */
#include "profile/tree_internal.h"

#include <stdlib.h>

#define NAME_ORDER 4096u /* bytes of a name that count for the order of rows with equal values */

/* ---- sums and children ---- */

/* Callees have larger numbers, so going down the array each is complete before it is added to its caller. */
static int sum_up(struct profile_tree *t, struct profile_column *c, struct err *err)
{
	uint32_t n = t->p->stacks.n;

	if (!c->self.n)
		return 0;
	if (!profile_extend(t->p, &c->self, n) || !profile_room(t->p, &c->total, n))
		return profile_err_memory(t->p, err);
	c->total.n = n;
	memcpy(c->total.p, c->self.p, (size_t)n * sizeof(*c->self.p));
	for (uint32_t i = n; i-- > 1;) {
		uint32_t parent = t->p->stacks.p[i].parent;

		if (deadline_check(t->deadline, 1, err) < 0)
			return -1;
		c->total.p[parent] = add_saturating(c->total.p[parent], c->total.p[i]);
	}
	return 0;
}

/* Only the first NAME_ORDER bytes are compared: names may have megabytes in common, and a sort compares many pairs. */
int tree_name_order(const struct profile_tree *t, uint32_t a, uint32_t b)
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
		int64_t v = tree_total(t, i, a), w = tree_total(t, i, b);

		if (v != w)
			return v > w ? -1 : 1;
	}
	return tree_name_order(t, f[t->p->stacks.p[a].location].name, f[t->p->stacks.p[b].location].name);
}

int tree_list_children(struct profile_tree *t, struct err *err)
{
	const struct profile *p = t->p;
	uint32_t n = p->stacks.n, *first = profile_alloc(t->p, (uint64_t)n + 2, sizeof(*first)),
		 *list = profile_alloc(t->p, n, sizeof(*list));

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

static int sum_nodes(struct profile_tree *t, struct err *err)
{
	/* Nothing is looked up any more, and the tables that follow are as large. */
	profile_index_drop(t->p);
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++)
		if (sum_up(t, &t->columns[i], err) < 0)
			return -1;
	return tree_prune(t, err);
}

int profile_tree_end(struct profile_tree *t, struct err *err)
{
	if (profile_build_end(t->p, err) < 0 || (t->view.label ? tree_groups_end : sum_nodes)(t, err) < 0)
		return -1;
	profile_index_drop(t->p);
	return tree_list_children(t, err);
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
		ret->self[i] = tree_self(t, i, node);
		ret->total[i] = tree_total(t, i, node);
	}
}

double profile_tree_callees_sum(const struct profile_tree *t, uint32_t node, double min)
{
	double sum = 0;

	for (uint32_t i = t->first_child[node]; i < t->first_child[node + 1]; i++) {
		double total = (double)tree_total(t, 0, t->children[i]);

		sum += total >= min ? total : 0;
	}
	return sum;
}

uint64_t profile_tree_n_left_out(const struct profile_tree *t)
{
	return t->n_left_out;
}

uint32_t profile_tree_n_frames(const struct profile_tree *t)
{
	return t->p->functions.n;
}

void profile_tree_frame(const struct profile_tree *t, uint32_t frame, struct profile_frame *ret)
{
	const struct profile_function *f = &t->p->functions.p[frame];
	bool address = tree_frame_is_address(t, frame);

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
