/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a label as the outermost frames of a tree.
 *
 * The frames below a value are mostly the same for all values, so their nodes are made once, below the root, while
 * profiles are added: the *base* (tree_groups_base.c). A sample is kept as a value at a node of the base, with its group
 * (the value of the label).
 *
 * At the end the samples of each group are sorted in the order of the base. Nodes at which samples end, or between two of
 * which their callers part, have sums of their own: at most two for each sample. All nodes between two of these have the sum of
 * the inner one, so they are counted without being looked at, and made only if they stay. A first pass counts how many nodes
 * have which size, a second one copies those that are large enough into the finished tree.
 */
#include "profile/tree_groups.h"

/* ---- groups, while profiles are added ---- */

uint32_t tree_label_frame(struct profile_tree *t, const struct profile *p, uint32_t labels)
{
	char room[PROFILE_LABEL_TEXT];
	struct profile_function f = { 0 };

	f.name = profile_add_string(t->p, profile_label_text(p, labels, str_of(t->view.label), room));
	return profile_add_function(t->p, &f);
}

static uint64_t hash_of_group(const struct profile_tree *t, uint32_t frame)
{
	return hash_mix(frame, profile_index_of(t->p)->seed);
}

static bool groups_reserve(struct profile_tree *t)
{
	struct hash_index *x = &t->group_of_frame;
	uint64_t room = x->mask ? 2 * hash_index_room(x) : 64,
		 more = (room - hash_index_room(x)) * sizeof(*x->slots);

	if (!hash_index_is_full(x))
		return true;
	return profile_charge(t->p, more) &&
	       HASH_INDEX_GROW(x, room, i, hash_of_group(t, t->groups.p[i].frame));
}

/* Samples of hidden values are directly below the root, together. */
static uint32_t nodes_of_group(const struct profile_tree *t, uint32_t group, bool hidden)
{
	uint32_t i = 0;

	if (!hidden)
		return group;
	while (i < group && !t->groups.p[i].hidden)
		i++;
	return i;
}

uint32_t tree_group_of(struct profile_tree *t, const struct profile *p, uint32_t labels)
{
	uint32_t frame = tree_label_frame(t, p, labels), at, i;
	uint8_t bits = tree_frame_bits(t, frame);
	struct tree_group new = { .frame = frame,
				  .focus = bits >> MATCH_FOCUS & 1,
				  .ignore = bits >> MATCH_IGNORE & 1,
				  .hidden = !tree_frame_is_shown(t, bits) };

	if (!groups_reserve(t) || !profile_room(t->p, &t->groups, 1)) {
		profile_index_of(t->p)->failed = true;
		return 0;
	}
	if (HASH_INDEX_FIND(&t->group_of_frame, hash_of_group(t, frame), at, i,
			    t->groups.p[i].frame == frame))
		return i;
	new.nodes = nodes_of_group(t, t->groups.n, new.hidden);
	hash_index_put(&t->group_of_frame, at, t->groups.n);
	t->groups.p[t->groups.n] = new;
	return t->groups.n++;
}

/* ---- at the end: sums of one group at a time ---- */

struct group_sums {
	int64_t self[PROFILE_COLUMNS], total[PROFILE_COLUMNS];
};

/* A node with a sum of its own. */
struct group_fork {
	uint32_t node, above; /* of the base; `above`: the next one with a sum of its own */
	struct group_sums sums;
};

struct grouping {
	struct profile_tree *t;
	struct group_base base;
	bool used[PROFILE_COLUMNS];       /* has entries */
	uint32_t *first[PROFILE_COLUMNS]; /* entry of each group, and one after the last */

	/* of the current group */
	struct group_fork *path; /* that are not complete: each is below the one before it */
	uint32_t n_path;
	bool met; /* the second pass: entries know where their callers part from those of the ones before them */
	PROFILE_TABLE(struct group_fork) forks; /* complete: callees before callers */
	/* Bits of nodes of the base, and of those that were added; only if base.added. Zero between two groups. */
	uint64_t *outlined, *outlined_seen;

	uint64_t *sizes; /* of each group's outermost node */
	struct tree_sizes all;
	struct group_sums root;

	/* the finished tree */
	uint64_t least;
	uint32_t *
		number; /* of nodes of the base with sums of their own: the one in the finished tree; NODE_LEFT_OUT */
	PROFILE_TABLE(struct profile_stack) nodes;
	PROFILE_TABLE(uint8_t) flags; /* as profile_tree.outlined */
	PROFILE_TABLE(int64_t) node_self[PROFILE_COLUMNS], node_total[PROFILE_COLUMNS];
};

#define NODE_LEFT_OUT UINT32_MAX

static void grouping_done(struct grouping *g)
{
	struct profile *p = g->t->p;

	profile_release(p, g->path, (uint64_t)g->base.max_depth + 2, sizeof(*g->path));
	profile_release(p, g->outlined, bit_words(g->base.n), sizeof(*g->outlined));
	profile_release(p, g->outlined_seen, bit_words(g->base.n_added), sizeof(*g->outlined_seen));
	profile_release(p, g->number, g->base.n, sizeof(*g->number));
	profile_release(p, g->sizes, g->t->groups.n, sizeof(*g->sizes));
	profile_table_free(p, &g->forks);
	profile_table_free(p, &g->nodes);
	profile_table_free(p, &g->flags);
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++) {
		profile_release(p, g->first[c], (uint64_t)g->t->groups.n + 1, sizeof(*g->first[c]));
		profile_table_free(p, &g->node_self[c]);
		profile_table_free(p, &g->node_total[c]);
	}
	group_base_done(&g->base, g->t);
}

/* ---- entries in the order of groups, and of the base ---- */

/* Each count becomes the sum of those before it. */
static void first_of_counts(uint32_t *counts, uint32_t n)
{
	for (uint32_t i = 0, sum = 0; i <= n; i++) {
		uint32_t count = counts[i];

		counts[i] = sum;
		sum += count;
	}
}

static void sort_by_place(const struct grouping *g, const struct profile_column *c, uint32_t *first,
			  struct tree_entry *to)
{
	for (uint32_t i = 0; i < c->entries.n; i++)
		first[g->base.place[c->entries.p[i].node]]++;
	first_of_counts(first, g->base.n);
	for (uint32_t i = 0; i < c->entries.n; i++)
		to[first[g->base.place[c->entries.p[i].node]]++] = c->entries.p[i];
}

/* Entries with the same group stay in their order. */
static void sort_by_group(const struct tree_entry *from, uint32_t n, uint32_t *first, uint32_t n_groups,
			  struct tree_entry *to)
{
	for (uint32_t i = 0; i < n; i++)
		first[from[i].group]++;
	first_of_counts(first, n_groups);
	for (uint32_t i = 0; i < n; i++)
		to[first[from[i].group]++] = from[i];
	/* Each is now where the next one begins. */
	memmove(first + 1, first, (size_t)n_groups * sizeof(*first));
	first[0] = 0;
}

static int order_entries(struct grouping *g, unsigned column, struct err *err)
{
	struct profile *p = g->t->p;
	struct profile_column *c = &g->t->columns[column];
	uint32_t n = c->entries.n, *of_places = profile_alloc(p, (uint64_t)g->base.n + 1, sizeof(*of_places));
	struct tree_entry *list = profile_alloc(p, n, sizeof(*list));
	bool ok;

	g->first[column] = profile_alloc(p, (uint64_t)g->t->groups.n + 1, sizeof(*g->first[column]));
	ok = of_places && list && g->first[column];
	if (ok) {
		sort_by_place(g, c, of_places, list);
		sort_by_group(list, n, g->first[column], g->t->groups.n, c->entries.p);
	}
	profile_release(p, of_places, (uint64_t)g->base.n + 1, sizeof(*of_places));
	profile_release(p, list, n, sizeof(*list));
	return ok ? deadline_check(g->t->deadline, n, err) : profile_err_memory(p, err);
}

/* ---- sums of one group ---- */

/* The innermost node of the path is complete: it is a callee of @above. */
static void close_fork(struct grouping *g, struct group_fork *above)
{
	struct group_fork *fork = &g->forks.p[g->forks.n++];

	*fork = g->path[--g->n_path];
	fork->above = above->node;
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
		above->sums.total[c] = add_saturating(above->sums.total[c], fork->sums.total[c]);
}

/* Let the path end at the node of @e, which is not before those of earlier calls. */
static void open_fork(struct grouping *g, struct tree_entry *e)
{
	struct group_fork *path = g->path;
	uint32_t last = path[g->n_path - 1].node, node = g->base.place[e->node], meet;

	if (last == node)
		return;
	if (!g->met)
		e->meet = group_base_meet(&g->base, last, node);
	meet = e->meet;
	while (g->n_path > 1 && path[g->n_path - 2].node >= meet)
		close_fork(g, &path[g->n_path - 2]);
	if (path[g->n_path - 1].node > meet) {
		struct group_fork fork = { .node = meet };

		close_fork(g, &fork);
		path[g->n_path++] = fork;
	}
	if (node != meet)
		path[g->n_path++] = (struct group_fork){ .node = node };
}

static void add_entry(struct grouping *g, unsigned column, struct tree_entry *e)
{
	struct group_sums *sums;

	open_fork(g, e);
	sums = &g->path[g->n_path - 1].sums;
	sums->self[column] = add_saturating(sums->self[column], e->value);
	sums->total[column] = add_saturating(sums->total[column], e->value);
}

/* The entries of one group that are left, of each column. */
struct group_entries {
	struct tree_entry *next[PROFILE_COLUMNS], *end[PROFILE_COLUMNS];
};

static struct group_entries entries_of_group(const struct grouping *g, uint32_t group)
{
	struct group_entries e = { 0 };

	for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
		if (g->used[c]) {
			e.next[c] = g->t->columns[c].entries.p + g->first[c][group];
			e.end[c] = g->t->columns[c].entries.p + g->first[c][group + 1];
		}
	return e;
}

/* The next one in the order of the base; its column in *ret. NULL: there are no more. */
static struct tree_entry *next_entry(const struct grouping *g, struct group_entries *e, unsigned *ret)
{
	const uint32_t *place = g->base.place;
	unsigned c = e->next[0] == e->end[0] ||
		     (e->next[1] < e->end[1] && place[e->next[1]->node] < place[e->next[0]->node]);

	*ret = c;
	return e->next[c] < e->end[c] ? e->next[c]++ : NULL;
}

/* Fill g->forks; the last of them is the group's outermost node. */
static int sum_group(struct grouping *g, uint32_t group, struct err *err)
{
	struct group_entries e = entries_of_group(g, group);
	struct tree_entry *entry;
	unsigned column;

	g->forks.n = 0;
	g->path[0] = (struct group_fork){ 0 };
	g->n_path = 1;
	while ((entry = next_entry(g, &e, &column))) {
		/* An entry opens two nodes at most. */
		if (!profile_room(g->t->p, &g->forks, (uint64_t)g->n_path + 3))
			return profile_err_memory(g->t->p, err);
		if (deadline_check(g->t->deadline, TREE_STEPS_OF_FRAME, err) < 0)
			return -1;
		add_entry(g, column, entry);
	}
	if (!profile_room(g->t->p, &g->forks, g->n_path))
		return profile_err_memory(g->t->p, err);
	while (g->n_path > 1)
		close_fork(g, &g->path[g->n_path - 2]);
	g->forks.p[g->forks.n++] = g->path[0];
	return 0;
}

static uint64_t size_of_sums(const struct grouping *g, const struct group_sums *s)
{
	return tree_size_of_both(g->t, s->total[0], s->total[1]);
}

/* ---- the first pass ---- */

static void count_outermost(struct grouping *g, uint32_t group, const struct group_sums *sums)
{
	bool hidden = g->t->groups.p[group].hidden;

	g->sizes[group] = size_of_sums(g, sums);
	if (!hidden)
		tree_sizes_add(&g->all, g->sizes[group]);
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++) {
		g->root.total[c] = add_saturating(g->root.total[c], sums->total[c]);
		if (hidden)
			g->root.self[c] = add_saturating(g->root.self[c], sums->self[c]);
	}
}

static int count_group(struct grouping *g, uint32_t group, struct err *err)
{
	const struct base_node *nodes = g->base.nodes;
	const struct group_fork *forks;
	uint32_t n;

	if (sum_group(g, group, err) < 0)
		return -1;
	forks = g->forks.p;
	n = g->forks.n - 1;
	for (uint32_t i = 0; i < n; i++)
		tree_sizes_add_many(&g->all, size_of_sums(g, &forks[i].sums),
				    nodes[forks[i].node].depth - nodes[forks[i].above].depth);
	count_outermost(g, group, &forks[n].sums);
	return 0;
}

/* ---- the second pass ---- */

static bool reserve_nodes(struct grouping *g, uint64_t n)
{
	struct profile *p = g->t->p;

	for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
		if (g->used[c] &&
		    (!profile_room(p, &g->node_self[c], n) || !profile_room(p, &g->node_total[c], n)))
			return false;
	return profile_room(p, &g->nodes, n) && profile_room(p, &g->flags, n);
}

/* There is room for it. */
static void put_grouped_node(struct grouping *g, uint32_t at, struct profile_stack s, uint8_t outlined,
			     const struct group_sums *sums, bool own)
{
	g->nodes.p[at] = s;
	g->flags.p[at] = outlined;
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
		if (g->used[c]) {
			g->node_self[c].p[at] = own ? sums->self[c] : 0;
			g->node_total[c].p[at] = sums->total[c];
		}
}

/* The number of the first of @n new ones. */
static bool new_nodes(struct grouping *g, uint32_t n, uint32_t *ret)
{
	if (!reserve_nodes(g, n))
		return false;
	*ret = g->nodes.n;
	g->nodes.n += n;
	g->flags.n += n;
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
		if (g->used[c]) {
			g->node_self[c].n += n;
			g->node_total[c].n += n;
		}
	return true;
}

static bool make_outermost(struct grouping *g, uint32_t group, const struct group_fork *fork)
{
	const struct tree_group *of = &g->t->groups.p[group];

	g->number[0] = 0;
	if (of->hidden)
		return true;
	if (!new_nodes(g, 1, &g->number[0]))
		return false;
	put_grouped_node(g, g->number[0], (struct profile_stack){ 0, of->frame }, 1, &fork->sums, true);
	return true;
}

static bool node_is_outlined(const struct grouping *g, uint32_t node)
{
	return bit_at(g->base.outlined, node) || (g->outlined && bit_at(g->outlined, node));
}

/* A node with a sum of its own, and those between it and the next outer one. */
static bool make_chain(struct grouping *g, const struct group_fork *fork)
{
	const struct base_node *nodes = g->base.nodes;
	uint32_t n = nodes[fork->node].depth - nodes[fork->above].depth, above = g->number[fork->above],
		 first, node = fork->node;

	g->number[node] = NODE_LEFT_OUT;
	if (above == NODE_LEFT_OUT || size_of_sums(g, &fork->sums) < g->least)
		return true;
	if (!new_nodes(g, n, &first))
		return false;
	g->number[node] = first + n - 1;
	while (n-- > 0) {
		put_grouped_node(g, first + n,
				 (struct profile_stack){ n ? first + n - 1 : above, nodes[node].frame },
				 node_is_outlined(g, node), &fork->sums, node == fork->node);
		node = group_base_caller(&g->base, node);
	}
	return true;
}

/*
 * Of the nodes of a group: a function is not inlined if any of its samples is in one that is not. @set: else clear what the
 * same call has set.
 */
static void mark_outlined_of_group(struct grouping *g, uint32_t group, bool set)
{
	struct group_entries e = entries_of_group(g, group);
	const struct profile_stack *added = g->base.added;
	const struct tree_entry *entry;
	unsigned column;

	while ((entry = next_entry(g, &e, &column)))
		for (uint32_t i = added[entry->node].location; i && bit_at(g->outlined_seen, i) != set;
		     i = added[added[i].parent].location) {
			(set ? bit_set : bit_clear)(g->outlined_seen, i);
			(set ? bit_set : bit_clear)(g->outlined, g->base.place[i]);
		}
}

static int keep_group(struct grouping *g, uint32_t group, struct err *err)
{
	bool ok;

	if (sum_group(g, group, err) < 0)
		return -1;
	if (g->outlined)
		mark_outlined_of_group(g, group, true);
	ok = make_outermost(g, group, &g->forks.p[g->forks.n - 1]);
	for (uint32_t i = g->forks.n - 1; ok && i-- > 0;)
		ok = make_chain(g, &g->forks.p[i]);
	if (g->outlined)
		mark_outlined_of_group(g, group, false);
	return ok ? 0 : profile_err_memory(g->t->p, err);
}

/* ---- the finished tree ---- */

static int make_nodes(struct grouping *g, struct err *err)
{
	const struct tree_group *groups = g->t->groups.p;
	uint32_t n_groups = g->t->groups.n, root;

	for (uint32_t i = 0; i < n_groups; i++)
		if (groups[i].nodes == i && count_group(g, i, err) < 0)
			return -1;
	g->met = true;
	tree_sizes_add(&g->all, size_of_sums(g, &g->root));
	g->least = tree_least_size(g->t, &g->all, size_of_sums(g, &g->root));
	/* The root is a node without a group. */
	if (!reserve_nodes(g, tree_sizes_from(&g->all, g->least) + 1) || !new_nodes(g, 1, &root))
		return profile_err_memory(g->t->p, err);
	put_grouped_node(g, root, (struct profile_stack){ 0 }, 0, &g->root, true);
	for (uint32_t i = 0; i < n_groups; i++)
		if (groups[i].nodes == i && (groups[i].hidden || g->sizes[i] >= g->least) &&
		    keep_group(g, i, err) < 0)
			return -1;
	return 0;
}

#define swap_tables(a, b)                            \
	do {                                         \
		__typeof__((a)->p) swap_p_ = (a)->p; \
		uint32_t swap_room_ = (a)->room;     \
		(a)->p = (b)->p;                     \
		(a)->n = (b)->n;                     \
		(a)->room = (b)->room;               \
		(b)->p = swap_p_;                    \
		(b)->room = swap_room_;              \
	} while (0)

/* The nodes become those of the tree; the rest is freed. */
static void give_nodes(struct grouping *g)
{
	struct profile_tree *t = g->t;

	swap_tables(&t->p->stacks, &g->nodes);
	swap_tables(&t->outlined, &g->flags);
	t->n_left_out = g->all.n - t->p->stacks.n;
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		struct profile_column *c = &t->columns[i];

		swap_tables(&c->self, &g->node_self[i]);
		swap_tables(&c->total, &g->node_total[i]);
		profile_table_free(t->p, &c->entries);
		memset(&c->entries, 0, sizeof(c->entries));
	}
}

static bool grouping_reserve(struct grouping *g)
{
	struct profile *p = g->t->p;

	g->path = profile_alloc(p, (uint64_t)g->base.max_depth + 2, sizeof(*g->path));
	g->number = profile_alloc(p, g->base.n, sizeof(*g->number));
	g->sizes = profile_alloc(p, g->t->groups.n, sizeof(*g->sizes));
	if (!g->path || !g->number || !g->sizes)
		return false;
	if (!g->base.added)
		return true;
	g->outlined = profile_alloc(p, bit_words(g->base.n), sizeof(*g->outlined));
	g->outlined_seen = profile_alloc(p, bit_words(g->base.n_added), sizeof(*g->outlined_seen));
	return g->outlined && g->outlined_seen;
}

static int grouping_init(struct grouping *g, struct err *err)
{
	if (group_base_init(&g->base, g->t, err) < 0)
		return -1;
	if (!grouping_reserve(g))
		return profile_err_memory(g->t->p, err);
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++) {
		g->used[c] = g->t->columns[c].entries.n;
		if (g->used[c] && order_entries(g, c, err) < 0)
			return -1;
	}
	return 0;
}

int tree_groups_end(struct profile_tree *t, struct err *err)
{
	struct grouping g = { .t = t };
	int r = grouping_init(&g, err);

	if (r == 0)
		r = make_nodes(&g, err);
	if (r == 0)
		give_nodes(&g);
	grouping_done(&g);
	return r;
}
