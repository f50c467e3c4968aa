/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes of the nodes of a tree whose stacks are kept elsewhere: those of all nodes in a table, or, if they are too
 * many, those of the large ones, found by a sketch (tree_trie.c).
 */
#include "profile/tree_trie.h"

#include <math.h>

#define TABLE_LEAST 64u /* slots */
#define LOWER       4   /* the bound of the table is divided by this if it was too high */

static void add_to_bucket(uint64_t *bucket, uint64_t size)
{
	if (__builtin_add_overflow(*bucket, size, bucket))
		*bucket = UINT64_MAX;
}

void trie_sketch_total(struct trie_walk *w, uint64_t hash, uint32_t s)
{
	add_to_bucket(&w->buckets[hash % BUCKETS], tree_size_of(w->in->values[s]));
	/* Rounded up: no node is larger than its bucket. */
	if (w->in->base && w->in->base[s])
		add_to_bucket(&w->buckets[BUCKETS + hash % BUCKETS],
			      tree_size_of(profile_scaled(w->in->base[s], w->in->scale)) + 1);
	trie_mark_node(w, hash);
}

static void put_total(struct trie_walk *w, uint64_t hash, int64_t total, int64_t base)
{
	uint32_t mask = w->n_slots - 1, i = (uint32_t)hash & mask;

	while (w->table[i].hash && w->table[i].hash != hash)
		i = (i + 1) & mask;
	w->n_table += !w->table[i].hash;
	w->table[i].hash = hash;
	add_to_total(&w->table[i].total, total);
	if (base)
		add_to_total(&w->table[i].base, base);
}

/* The first half of this walk's hashes stay, in new slots. */
static bool halve_range(struct trie_walk *w)
{
	struct node_total *old = w->table;

	w->table = profile_alloc(w->t->p, w->n_slots, sizeof(*w->table));
	if (!w->table) {
		w->table = old;
		return false;
	}
	w->n_table = 0;
	w->to = w->from + (w->to - w->from) / 2;
	for (uint32_t i = 0; i < w->n_slots; i++)
		if (old[i].hash && old[i].hash <= w->to)
			put_total(w, old[i].hash, old[i].total, old[i].base);
	profile_release(w->t->p, old, w->n_slots, sizeof(*old));
	return true;
}

static bool grow_table(struct trie_walk *w)
{
	struct node_total *old = w->table;
	uint32_t n = w->n_slots;

	w->table = profile_alloc(w->t->p, 2 * (uint64_t)n, sizeof(*w->table));
	if (!w->table) {
		w->table = old;
		return false;
	}
	w->n_slots = 2 * n;
	w->n_table = 0;
	for (uint32_t i = 0; i < n; i++)
		if (old[i].hash)
			put_total(w, old[i].hash, old[i].total, old[i].base);
	profile_release(w->t->p, old, n, sizeof(*old));
	return true;
}

bool trie_count_total(struct trie_walk *w, uint64_t hash, uint32_t s)
{
	if (hash < w->from || hash > w->to)
		return true;
	put_total(w, hash, w->in->values[s], w->in->base ? w->in->base[s] : 0);
	if (w->n_table < w->n_slots / 4 * 3)
		return true;
	if (w->n_table < w->table_max)
		return grow_table(w);
	w->is_full = !w->buckets;
	return w->is_full || halve_range(w);
}

static uint64_t table_size(const struct trie_walk *w, uint32_t slot)
{
	return trie_size(w, w->table[slot].total, w->table[slot].base);
}

/* After a walk: its nodes have their totals. Those that are too small already are only counted. */
static bool take_sizes(struct trie_walk *w)
{
	struct profile *p = w->t->p;
	uint64_t least;

	for (uint32_t i = 0; i < w->n_slots; i++) {
		uint64_t size = table_size(w, i);

		if (w->table[i].hash && size >= w->least)
			tree_sizes_add(&w->sizes, size);
	}
	least = MAX(w->least, trie_least(w, &w->sizes));
	for (uint32_t i = 0; i < w->n_slots; i++) {
		uint64_t size = table_size(w, i);

		if (w->table[i].hash && size >= least &&
		    !profile_push(p, &w->large, ((struct node_size){ w->table[i].hash, size })))
			return false;
	}
	return true;
}

static void empty_table(struct trie_walk *w)
{
	w->n_table = 0;
	memset(w->table, 0, w->n_slots * sizeof(*w->table));
}

static bool small_table(struct trie_walk *w)
{
	profile_release(w->t->p, w->table, w->n_slots, sizeof(*w->table));
	w->n_slots = TABLE_LEAST;
	w->n_table = 0;
	w->table = profile_alloc(w->t->p, w->n_slots, sizeof(*w->table));
	return w->table;
}

/* Sizes of all nodes of at least w->least, by as many walks as it takes. Without a sketch by one, or w->is_full is set. */
static int count_large_nodes(struct trie_walk *w, struct err *err)
{
	uint64_t width = UINT64_MAX;

	w->sizes = (struct tree_sizes){ 0 };
	w->large.n = 0;
	tree_sizes_add(&w->sizes, trie_root_size(w));
	for (w->from = 1;; w->from = w->to + 1) {
		empty_table(w);
		w->to = UINT64_MAX - w->from < width ? UINT64_MAX : w->from + width;
		if (trie_walk_stacks(w, STEP_COUNT, err) < 0)
			return -1;
		if (w->is_full)
			return 0;
		if (!take_sizes(w))
			return profile_err_memory(w->t->p, err);
		if (w->to == UINT64_MAX)
			return 0;
		/* As many hashes as the table has room for, with some to spare: halving the range costs time. */
		if (__builtin_mul_overflow((w->to - w->from) / (w->n_table + 1),
					   w->table_max - w->table_max / 16, &width))
			width = UINT64_MAX;
	}
}

bool trie_marks_reserve(struct trie_walk *w, uint64_t n)
{
	w->n_marks = MARKS_LEAST;
	while (w->n_marks < MARKS && w->n_marks < n)
		w->n_marks *= 2;
	w->marks = profile_alloc(w->t->p, 2 * w->n_marks / 64, sizeof(*w->marks));
	return w->marks;
}

/* How many different hashes set the bits of one half of the marks. */
static double estimate_hashes(const uint64_t *marks, uint32_t n_marks, uint64_t *ret_unset)
{
	uint64_t n_unset = 0;

	for (uint32_t i = 0; i < n_marks / 64; i++)
		n_unset += 64 - (unsigned)__builtin_popcountll(marks[i]);
	*ret_unset = n_unset;
	return n_marks * log((double)n_marks / (double)MAX(n_unset, UINT64_C(1)));
}

uint64_t trie_estimate_nodes(const struct trie_walk *w)
{
	uint64_t n_unset;
	double n = estimate_hashes(w->marks, w->n_marks, &n_unset);

	if (n_unset < w->n_marks / 256)
		n = MARKS_PART * estimate_hashes(w->marks + w->n_marks / 64, w->n_marks, &n_unset);
	return (uint64_t)llround(n);
}

static int make_sketch(struct trie_walk *w, struct err *err)
{
	w->buckets = profile_alloc(w->t->p, trie_n_buckets(w), sizeof(*w->buckets));
	if (!w->buckets || !trie_marks_reserve(w, MARKS))
		return profile_err_memory(w->t->p, err);
	return trie_walk_stacks(w, STEP_SKETCH, err);
}

/*
 * With more nodes than the table holds: only those of at least a bound are counted one by one, as few as will do. The
 * first bound is a guess by the sizes of stacks, of which a node may have many.
 */
static int count_by_sketch(struct trie_walk *w, struct err *err)
{
	uint64_t n;

	w->is_full = false;
	if (!small_table(w))
		return profile_err_memory(w->t->p, err);
	if (make_sketch(w, err) < 0)
		return -1;
	n = trie_estimate_nodes(w);
	w->least = MAX(tree_least_size(w->t, &w->stack_sizes, trie_root_size(w)) / 2, w->bound);
	for (;; w->least /= LOWER) {
		if (count_large_nodes(w, err) < 0)
			return -1;
		/* The others are smaller than the bound, whatever their sizes. */
		if (w->least) {
			w->sizes.counts[0] += n - MIN(w->sizes.n, n);
			w->sizes.n = MAX(w->sizes.n, n);
		}
		if (trie_least(w, &w->sizes) >= w->least)
			return 0;
	}
}

int trie_count_nodes(struct trie_walk *w, struct err *err)
{
	if (!small_table(w))
		return profile_err_memory(w->t->p, err);
	if (count_large_nodes(w, err) < 0)
		return -1;
	return w->is_full ? count_by_sketch(w, err) : 0;
}
