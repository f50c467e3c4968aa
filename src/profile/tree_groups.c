/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a label as the outermost frames of a tree.
 *
 * The frames below a value are mostly the same for all values, so their nodes are made once, below the root, while
 * profiles are added: the *base*. A sample is kept as a value at a node of the base, with its group (the value of
 * the label). At the end each group by itself is summed over the base, in arrays that all groups use one after the
 * other: once to count how many nodes have which size, and once to copy the nodes that are large enough into the
 * finished tree. So small nodes never take memory, and a node costs an addition, not a search.
 *
 * In the base a function and the same function inlined at the same place are two nodes, since of the two a group
 * may have one only. In the finished tree they are one.
 */
#include "profile/tree_internal.h"

#include <stdio.h>

/* ---- groups, while profiles are added ---- */

static uint32_t label_frame(struct profile_tree *t, const struct profile *p, uint32_t labels)
{
	const struct profile_label_set *set = &p->label_sets.p[labels];
	struct str key = str_of(t->view.label);
	struct profile_function f = { 0 };
	char text[64] = "";

	for (uint32_t i = 0; i < set->n && !f.name; i++) {
		const struct profile_label *l = &p->labels.p[set->first + i];
		struct str value = profile_str(p, l->str);

		if (!str_eq(profile_str(p, l->key), key))
			continue;
		if (!l->str) {
			struct str unit = profile_str(p, l->unit);

			snprintf(text, sizeof(text), "%lld%s%.*s", (long long)l->num, unit.size ? " " : "",
				 (int)MIN(unit.size, (size_t)32), unit.p);
			value = str_of(text);
		}
		f.name = profile_add_string(t->p, value);
	}
	if (!f.name)
		f.name = profile_add_string(t->p, STR("(no label)"));
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
	uint32_t frame = label_frame(t, p, labels), at, i;
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

/* ---- at the end: the base ---- */

/* Of one node. */
struct group_sums {
	int64_t self[PROFILE_COLUMNS], total[PROFILE_COLUMNS];
};

/* Sums of one group at a time, over the base. */
struct grouping {
	struct profile_tree *t;
	uint32_t n;                 /* nodes of the base */
	struct profile_stack *base; /* callers first; `location` is the frame */
	uint64_t *outlined;         /* bits, of nodes of the base: not inlined */
	/*
	 * Only if a function is both inlined and not at one place: the base with both, its bits, and the node of
	 * `base` for each. NULL: `base` is it.
	 */
	struct profile_stack *tagged;
	uint32_t n_tagged, *merged;
	uint64_t *tagged_outlined, *tagged_seen;

	/* of the current group; zero between two groups */
	uint64_t *seen, *group_outlined; /* bits; group_outlined if there is `tagged` */
	int64_t *self[PROFILE_COLUMNS], *total[PROFILE_COLUMNS]; /* NULL: no entries */
	size_t n_words;                                          /* of `seen` in use */

	uint32_t *first[PROFILE_COLUMNS]; /* entry of each group, and one after the last */
	uint64_t *sizes;                  /* of each group's outermost node */
	struct tree_sizes all;
	struct group_sums root;

	/* the finished tree */
	uint64_t least;
	uint32_t *number; /* of nodes of the base: the one in the finished tree; NODE_LEFT_OUT */
	PROFILE_TABLE(struct profile_stack) nodes;
	PROFILE_TABLE(uint8_t) flags; /* as profile_tree.outlined */
	PROFILE_TABLE(int64_t) node_self[PROFILE_COLUMNS], node_total[PROFILE_COLUMNS];
};

#define NODE_LEFT_OUT UINT32_MAX

static size_t bit_words(uint32_t n)
{
	return (size_t)n / 64 + 1;
}

static bool bit_at(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static void bit_set(uint64_t *bits, uint32_t i)
{
	bits[i / 64] |= (uint64_t)1 << i % 64;
}

static void grouping_done(struct grouping *g)
{
	struct profile *p = g->t->p;
	size_t words = bit_words(g->n);

	profile_release(p, g->base, g->n, sizeof(*g->base));
	profile_release(p, g->outlined, words, sizeof(uint64_t));
	profile_release(p, g->tagged, g->n_tagged, sizeof(*g->tagged));
	profile_release(p, g->merged, g->n_tagged, sizeof(*g->merged));
	profile_release(p, g->tagged_outlined, bit_words(g->n_tagged), sizeof(uint64_t));
	profile_release(p, g->tagged_seen, bit_words(g->n_tagged), sizeof(uint64_t));
	profile_release(p, g->seen, words, sizeof(uint64_t));
	profile_release(p, g->group_outlined, words, sizeof(uint64_t));
	profile_release(p, g->number, g->n, sizeof(*g->number));
	profile_release(p, g->sizes, g->t->groups.n, sizeof(*g->sizes));
	profile_table_free(p, &g->nodes);
	profile_table_free(p, &g->flags);
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++) {
		profile_release(p, g->self[c], g->n, sizeof(int64_t));
		profile_release(p, g->total[c], g->n, sizeof(int64_t));
		profile_release(p, g->first[c], (uint64_t)g->t->groups.n + 1, sizeof(*g->first[c]));
		profile_table_free(p, &g->node_self[c]);
		profile_table_free(p, &g->node_total[c]);
	}
}

/* The stacks of the tree so far become @ret, and the tree has none but the root. */
static bool take_stacks(struct profile_tree *t, struct profile_stack **ret, uint32_t *ret_n)
{
	struct profile *p = t->p;
	struct profile_stack *root = profile_alloc(p, 1, sizeof(*root));

	if (!root)
		return false;
	profile_trim(p, &p->stacks);
	*ret = p->stacks.p;
	*ret_n = p->stacks.n;
	p->stacks.p = root;
	p->stacks.n = p->stacks.room = 1;
	profile_index_drop(p);
	return true;
}

/* Is a function both inlined and not, at one place? While there is an index. */
static bool inlining_differs(struct profile_tree *t)
{
	const struct profile *p = t->p;

	for (uint32_t i = 1; i < p->stacks.n && !deadline_over(t->deadline, TREE_STEPS_OF_FRAME); i++)
		if (p->stacks.p[i].location & 1 &&
		    profile_has_stack(t->p, p->stacks.p[i].parent, p->stacks.p[i].location & ~1u))
			return true;
	return false;
}

static void untag_base(struct profile_stack *base, uint32_t n, uint64_t *outlined)
{
	for (uint32_t i = 1; i < n; i++) {
		if (!(base[i].location & 1))
			bit_set(outlined, i);
		base[i].location >>= 1;
	}
}

/* Both forms of a function become one node, with the nodes below them. */
static int merge_base(struct grouping *g, struct err *err)
{
	struct profile_tree *t = g->t;
	struct profile *p = t->p;

	if (!take_stacks(t, &g->tagged, &g->n_tagged))
		return profile_err_memory(p, err);
	g->merged = profile_alloc(p, g->n_tagged, sizeof(*g->merged));
	g->tagged_outlined = profile_alloc(p, bit_words(g->n_tagged), sizeof(uint64_t));
	g->tagged_seen = profile_alloc(p, bit_words(g->n_tagged), sizeof(uint64_t));
	if (!g->merged || !g->tagged_outlined || !g->tagged_seen)
		return profile_err_memory(p, err);
	untag_base(g->tagged, g->n_tagged, g->tagged_outlined);
	for (uint32_t i = 1; i < g->n_tagged; i++) {
		if (deadline_check(t->deadline, TREE_STEPS_OF_FRAME, err) < 0)
			return -1;
		g->merged[i] = profile_add_stack(p, g->merged[g->tagged[i].parent], g->tagged[i].location);
	}
	if (profile_build_end(p, err) < 0)
		return -1;
	return take_stacks(t, &g->base, &g->n) ? 0 : profile_err_memory(p, err);
}

static int base_init(struct grouping *g, struct err *err)
{
	struct profile *p = g->t->p;

	if (inlining_differs(g->t)) {
		if (merge_base(g, err) < 0)
			return -1;
		g->group_outlined = profile_alloc(p, bit_words(g->n), sizeof(uint64_t));
		return g->group_outlined ? 0 : profile_err_memory(p, err);
	}
	if (!take_stacks(g->t, &g->base, &g->n))
		return profile_err_memory(p, err);
	g->outlined = profile_alloc(p, bit_words(g->n), sizeof(uint64_t));
	if (!g->outlined)
		return profile_err_memory(p, err);
	untag_base(g->base, g->n, g->outlined);
	return 0;
}

/* ---- entries in the order of groups ---- */

static bool entries_are_ordered(const struct profile_column *c)
{
	for (uint32_t i = 1; i < c->entries.n; i++)
		if (c->entries.p[i].group < c->entries.p[i - 1].group)
			return false;
	return true;
}

/* The entries of a group stay in their order. */
static int order_entries(struct grouping *g, unsigned column, struct err *err)
{
	struct profile *p = g->t->p;
	struct profile_column *c = &g->t->columns[column];
	uint32_t n_groups = g->t->groups.n, *first = profile_alloc(p, (uint64_t)n_groups + 1, sizeof(*first));
	struct tree_entry *list;

	g->first[column] = first;
	if (!first)
		return profile_err_memory(p, err);
	for (uint32_t i = 0; i < c->entries.n; i++)
		first[c->entries.p[i].group + 1]++;
	for (uint32_t i = 0; i < n_groups; i++)
		first[i + 1] += first[i];
	if (entries_are_ordered(c))
		return 0;
	list = profile_alloc(p, c->entries.room, sizeof(*list));
	if (!list)
		return profile_err_memory(p, err);
	for (uint32_t i = 0; i < c->entries.n; i++)
		list[first[c->entries.p[i].group]++] = c->entries.p[i];
	profile_table_free(p, &c->entries);
	c->entries.p = list;
	/* Each is now where the next one begins. */
	memmove(first + 1, first, (size_t)n_groups * sizeof(*first));
	first[0] = 0;
	return 0;
}

/* ---- sums of one group ---- */

static void take_entries(struct grouping *g, uint32_t group)
{
	uint64_t *seen = g->tagged ? g->tagged_seen : g->seen;

	for (unsigned c = 0; c < PROFILE_COLUMNS; c++) {
		const struct tree_entry *e = g->t->columns[c].entries.p;

		for (uint32_t i = g->first[c] ? g->first[c][group] : 0,
			      end = g->first[c] ? g->first[c][group + 1] : 0;
		     i < end; i++) {
			uint32_t node = g->merged ? g->merged[e[i].node] : e[i].node;

			bit_set(seen, e[i].node);
			g->self[c][node] = add_saturating(g->self[c][node], e[i].value);
			g->n_words = MAX(g->n_words, (size_t)e[i].node / 64 + 1);
		}
	}
}

/* From the tagged base to the base, which has at most as many nodes. */
static void merge_seen(struct grouping *g)
{
	for (size_t w = g->n_words; w-- > 0 && !deadline_over(g->t->deadline, 64);) {
		for (uint64_t below = ~UINT64_C(0); g->tagged_seen[w] & below;) {
			unsigned bit = 63 - (unsigned)__builtin_clzll(g->tagged_seen[w] & below);
			uint32_t i = (uint32_t)(w * 64 + bit), node = g->merged[i];

			bit_set(g->tagged_seen, g->tagged[i].parent);
			bit_set(g->seen, node);
			if (bit_at(g->tagged_outlined, i))
				bit_set(g->group_outlined, node);
			below = ((uint64_t)1 << bit) - 1;
		}
		g->tagged_seen[w] = 0;
	}
	g->n_words = MIN(g->n_words, bit_words(g->n));
}

/* Callers have smaller numbers: going down, each node is complete before it is added to its caller. */
static void sum_group(struct grouping *g, uint32_t group)
{
	take_entries(g, group);
	bit_set(g->tagged ? g->tagged_seen : g->seen, 0);
	if (g->tagged)
		merge_seen(g);
	for (size_t w = g->n_words; w-- > 0 && !deadline_over(g->t->deadline, 16);)
		/* A caller may be in the same word, so it is read again each time. */
		for (uint64_t below = ~UINT64_C(0); g->seen[w] & below;) {
			unsigned bit = 63 - (unsigned)__builtin_clzll(g->seen[w] & below);
			uint32_t node = (uint32_t)(w * 64 + bit), parent = g->base[node].parent;

			bit_set(g->seen, parent);
			below = ((uint64_t)1 << bit) - 1;
			for (unsigned c = 0; c < PROFILE_COLUMNS; c++) {
				if (!g->self[c])
					continue;
				g->total[c][node] = add_saturating(g->total[c][node], g->self[c][node]);
				if (node)
					g->total[c][parent] = add_saturating(g->total[c][parent],
									     g->total[c][node]);
			}
		}
}

static uint64_t base_node_size(const struct grouping *g, uint32_t node)
{
	uint64_t most = 0;

	for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
		if (g->total[c])
			most = MAX(most, tree_size_of(g->total[c][node]));
	return most;
}

static void clear_node(struct grouping *g, uint32_t node)
{
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
		if (g->self[c])
			g->self[c][node] = g->total[c][node] = 0;
}

/* Call @visit for the nodes of a group, callers first, and forget them. */
static int each_of_group(struct grouping *g, uint32_t group,
			 int (*visit)(struct grouping *g, uint32_t group, uint32_t node), struct err *err)
{
	int r = 0;

	sum_group(g, group);
	for (size_t w = 0; w < g->n_words; w++) {
		for (uint64_t bits = g->seen[w]; bits; bits &= bits - 1) {
			uint32_t node = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);

			if (r == 0)
				r = visit(g, group, node);
			clear_node(g, node);
		}
		g->seen[w] = 0;
		if (g->group_outlined)
			g->group_outlined[w] = 0;
		if (deadline_over(g->t->deadline, 32))
			break;
	}
	g->n_words = 0;
	if (r < 0)
		return profile_err_memory(g->t->p, err);
	return deadline_check(g->t->deadline, 16, err);
}

/* ---- the two passes ---- */

static int count_node(struct grouping *g, uint32_t group, uint32_t node)
{
	uint64_t size = base_node_size(g, node);

	if (node) {
		tree_sizes_add(&g->all, size);
		return 0;
	}
	g->sizes[group] = size;
	if (!g->t->groups.p[group].hidden)
		tree_sizes_add(&g->all, size);
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++) {
		if (!g->self[c])
			continue;
		g->root.total[c] = add_saturating(g->root.total[c], g->total[c][0]);
		if (g->t->groups.p[group].hidden)
			g->root.self[c] = add_saturating(g->root.self[c], g->self[c][0]);
	}
	return 0;
}

static bool reserve_nodes(struct grouping *g, uint64_t n)
{
	struct profile *p = g->t->p;

	for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
		if (g->self[c] &&
		    (!profile_room(p, &g->node_self[c], n) || !profile_room(p, &g->node_total[c], n)))
			return false;
	return profile_room(p, &g->nodes, n) && profile_room(p, &g->flags, n);
}

static bool add_grouped_node(struct grouping *g, struct profile_stack s, uint8_t outlined,
			     const struct group_sums *sums)
{
	if (!reserve_nodes(g, 1))
		return false;
	g->nodes.p[g->nodes.n++] = s;
	g->flags.p[g->flags.n++] = outlined;
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
		if (g->self[c]) {
			g->node_self[c].p[g->node_self[c].n++] = sums->self[c];
			g->node_total[c].p[g->node_total[c].n++] = sums->total[c];
		}
	return true;
}

static bool copy_node(struct grouping *g, uint32_t node, struct profile_stack s, uint8_t outlined)
{
	struct group_sums sums = { 0 };

	for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
		if (g->self[c]) {
			sums.self[c] = g->self[c][node];
			sums.total[c] = g->total[c][node];
		}
	g->number[node] = g->nodes.n;
	return add_grouped_node(g, s, outlined, &sums);
}

static int keep_node(struct grouping *g, uint32_t group, uint32_t node)
{
	const struct profile_stack *s = &g->base[node];
	const struct tree_group *of = &g->t->groups.p[group];

	if (!node && of->hidden) {
		g->number[0] = 0;
		return 0;
	}
	if (!node)
		return copy_node(g, 0, (struct profile_stack){ 0, of->frame }, 1) ? 0 : -1;
	g->number[node] = NODE_LEFT_OUT;
	if (g->number[s->parent] == NODE_LEFT_OUT || base_node_size(g, node) < g->least)
		return 0;
	return copy_node(g, node, (struct profile_stack){ g->number[s->parent], s->location },
			 bit_at(g->group_outlined ? g->group_outlined : g->outlined, node))
		       ? 0
		       : -1;
}

static uint64_t root_size(const struct grouping *g)
{
	uint64_t a = tree_size_of(g->root.total[0]), b = tree_size_of(g->root.total[1]);

	return MAX(a, b);
}

static int make_nodes(struct grouping *g, struct err *err)
{
	const struct tree_group *groups = g->t->groups.p;
	uint32_t n_groups = g->t->groups.n;

	for (uint32_t i = 0; i < n_groups; i++)
		if (groups[i].nodes == i && each_of_group(g, i, count_node, err) < 0)
			return -1;
	tree_sizes_add(&g->all, root_size(g));
	g->least = tree_least_size(g->t, &g->all, root_size(g));
	/* The root is a node without a group. */
	if (!reserve_nodes(g, tree_sizes_from(&g->all, g->least) + 1) ||
	    !add_grouped_node(g, (struct profile_stack){ 0 }, 0, &g->root))
		return profile_err_memory(g->t->p, err);
	for (uint32_t i = 0; i < n_groups; i++)
		if (groups[i].nodes == i && (groups[i].hidden || g->sizes[i] >= g->least) &&
		    each_of_group(g, i, keep_node, err) < 0)
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

static int grouping_init(struct grouping *g, struct err *err)
{
	struct profile *p = g->t->p;

	if (base_init(g, err) < 0)
		return -1;
	g->seen = profile_alloc(p, bit_words(g->n), sizeof(uint64_t));
	g->number = profile_alloc(p, g->n, sizeof(*g->number));
	g->sizes = profile_alloc(p, g->t->groups.n, sizeof(*g->sizes));
	if (!g->seen || !g->number || !g->sizes)
		return profile_err_memory(p, err);
	for (unsigned c = 0; c < PROFILE_COLUMNS; c++) {
		if (!g->t->columns[c].entries.n)
			continue;
		g->self[c] = profile_alloc(p, g->n, sizeof(int64_t));
		g->total[c] = profile_alloc(p, g->n, sizeof(int64_t));
		if (!g->self[c] || !g->total[c])
			return profile_err_memory(p, err);
		if (order_entries(g, c, err) < 0)
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
