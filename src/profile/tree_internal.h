/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the tree of calls. Strings, frames and nodes of the tree are entries of a profile that
 * is being built: frames are its functions (the system name is the binary), nodes its stacks.
 *
 *   tree.c         samples added to nodes
 *   tree_frames.c  the frames of locations
 *   tree_groups*.c the values of a label as the outermost frames
 *   tree_prune.c   nodes too small to be seen
 *   tree_end.c     sums, children in order, the walk
 *   tree_top.c     frames by value, callers and callees
 *   tree_trie*.c   all of this from stacks that are kept elsewhere (tree_trie.h)
 */
#pragma once

#include "profile/filter.h"
#include "profile/internal.h"

#define TREE_STEPS_OF_FRAME 16u /* finding a node takes a cache miss or several */

/* A value of the view's label: nodes below it are not made before the end (tree_groups.c). */
struct tree_group {
	uint32_t frame;
	uint32_t
		nodes; /* the group that its samples are added to: itself, or for hidden ones the first of them */
	bool focus, ignore, hidden;
};
/* A sample of a group, until the end. It makes nodes even if its value is 0. */
struct tree_entry {
	union {
		uint32_t group;
		uint32_t meet; /* once it is among the entries of its group: tree_groups.c's */
	};
	uint32_t node;
	int64_t value;
};

struct profile_tree {
	/* With a label, until the end: `location` of a stack is a frame << 1, the low bit set if it is inlined. */
	struct profile *p;
	struct profile_view view;
	struct deadline *deadline; /* NULL: none */
	struct profile_filters filters;
	PROFILE_TABLE(uint8_t)
	frame_matches; /* of each frame: matches of its name, or 0 if it was not looked at */
	PROFILE_TABLE(uint8_t) addresses; /* of frames: they have only a binary and an address */
	PROFILE_TABLE(uint8_t) outlined;  /* of nodes: also seen as a function that is not inlined */
	struct profile_column {
		PROFILE_TABLE(int64_t) self, total; /* of nodes; NULL: all are 0 */
		PROFILE_TABLE(struct tree_entry) entries;
	} columns[PROFILE_COLUMNS];
	PROFILE_TABLE(struct tree_group) groups;
	struct hash_index group_of_frame;
	bool used[PROFILE_COLUMNS];
	bool named; /* type and unit are known */
	uint32_t type, unit;
	uint64_t n_left_out;
	struct profile_top *top; /* of each frame, if there are no nodes for it (tree_trie.c); else NULL */
	uint32_t n_top;
	struct profile_top
		*calls[2]; /* likewise: callees and callers of frame `called`; NULL: not asked for */
	uint32_t called;
	uint32_t *first_child,
		*children; /* children of n: children[first_child[n]] to before [first_child[n + 1]] */
};

/* ---- tree.c ---- */

/* The frame is an address in a binary: its file is the build ID. */
static inline bool tree_frame_is_address(const struct profile_tree *t, uint32_t frame)
{
	return frame < t->addresses.n && t->addresses.p[frame];
}
/* Matches of the text that is shown for a frame. Those of a location's frame, with its texts, are tree_bits_at(). */
uint8_t tree_frame_bits(struct profile_tree *t, uint32_t frame);
/* Samples of a frame with these bits keep it as a node. */
static inline bool tree_frame_is_shown(const struct profile_tree *t, uint8_t bits)
{
	return !(bits >> MATCH_HIDE & 1) && (!t->filters.patterns[MATCH_SHOW] || bits >> MATCH_SHOW & 1);
}

/* Nodes of files and binaries that call themselves are one. */
static inline bool tree_collapses(const struct profile_tree *t)
{
	return t->view.by == PROFILE_BY_FILE || t->view.by == PROFILE_BY_BINARY;
}
static inline bool tree_has_patterns(const struct profile_tree *t)
{
	return profile_filters_are_set(&t->filters, MATCHES_OF_SAMPLES | MATCHES_OF_FRAMES);
}

/* The first profile determines the type and the unit; minutes are not added to bytes. */
int tree_same_unit(struct profile_tree *t, const struct profile *p, uint32_t type, struct err *err);

/* ---- tree_frames.c ---- */

struct named_frame {
	uint32_t binary, frame; /* frame + 1 */
};
struct tree_frames {
	const struct profile *p;
	PROFILE_TABLE(uint32_t) list; /* frame << 1; the low bit: it is inlined */
	PROFILE_TABLE(uint8_t) bits;  /* of each of these: matches with the patterns; empty: there are none */
	PROFILE_TABLE(uint32_t) first;      /* of each location, and one after the last */
	PROFILE_TABLE(uint32_t) strings;    /* of the tree + 1 */
	PROFILE_TABLE(uint8_t) string_bits; /* of each string of @p: matches, or 0 if it was not looked at */
	PROFILE_TABLE(struct named_frame) functions;
	uint32_t most; /* that one location has */
};
/* Matches of the frame at list.p[@i]: a bit for each pattern. */
static inline uint8_t tree_bits_at(const struct tree_frames *f, uint32_t i)
{
	return i < f->bits.n ? f->bits.p[i] : 0;
}
int tree_frames_init(struct tree_frames *f, struct profile_tree *t, const struct profile *p, struct err *err);
/* Add the frames of locations that were added to f->p since. */
int tree_frames_more(struct tree_frames *f, struct profile_tree *t, struct err *err);
void tree_frames_done(struct tree_frames *f, struct profile_tree *t); /* takes the half-built */

/* ---- tree_groups.c ---- */

/* The frame of a set of labels. */
uint32_t tree_label_frame(struct profile_tree *t, const struct profile *p, uint32_t labels);
/* The group of a set of labels. After the limit of memory was reached it is 0, as indices of a profile are. */
uint32_t tree_group_of(struct profile_tree *t, const struct profile *p, uint32_t labels);
/* Make nodes, sums and flags of all groups, without small nodes. Nodes, until then, are those below any group. */
int tree_groups_end(struct profile_tree *t, struct err *err);

/* ---- tree_prune.c ---- */

/* How many nodes have which size: a slot is the 16th part of a power of two. */
struct tree_sizes {
	uint64_t n, counts[64 * 16];
};
void tree_sizes_add(struct tree_sizes *s, uint64_t size);
void tree_sizes_add_many(struct tree_sizes *s, uint64_t size, uint64_t n); /* @n nodes */
static inline uint64_t tree_size_of(int64_t v)
{
	return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}
/* How many have at least this size: an upper bound. */
uint64_t tree_sizes_from(const struct tree_sizes *s, uint64_t size);
/* Nodes below this size are left out: by the view's least share of @root, the root's size; by its number of nodes; by both. */
uint64_t tree_least_share(const struct profile_tree *t, uint64_t root);
uint64_t tree_least_of_most(const struct profile_tree *t, const struct tree_sizes *s);
uint64_t tree_least_size(const struct profile_tree *t, const struct tree_sizes *s, uint64_t root);
/* Remove small nodes of a tree with sums, and all nodes below them. */
int tree_prune(struct profile_tree *t, struct err *err);
/* Remove those that are smaller than @least. */
int tree_prune_below(struct profile_tree *t, uint64_t least, struct err *err);
/* Its callees become those of its caller, and so does its own value. */
void tree_dissolve_node(struct profile_tree *t, uint32_t node);
/* Keep the first @n nodes of a tree with sums. */
void tree_cut_nodes(struct profile_tree *t, uint32_t n);

/* ---- tree_end.c ---- */

static inline int64_t tree_self(const struct profile_tree *t, unsigned column, uint32_t node)
{
	return t->columns[column].self.p ? t->columns[column].self.p[node] : 0;
}
static inline int64_t tree_total(const struct profile_tree *t, unsigned column, uint32_t node)
{
	return t->columns[column].total.p ? t->columns[column].total.p[node] : 0;
}
/* Of a node with these values. */
static inline uint64_t tree_size_of_both(const struct profile_tree *t, int64_t total, int64_t base)
{
	uint64_t a = tree_size_of(total), b = t->view.first_side ? 0 : tree_size_of(base);

	return MAX(a, b);
}
static inline uint64_t tree_node_size(const struct profile_tree *t, uint32_t node)
{
	return tree_size_of_both(t, tree_total(t, 0, node), tree_total(t, 1, node));
}
int tree_list_children(struct profile_tree *t, struct err *err);
/* The order of two strings of the tree. */
int tree_name_order(const struct profile_tree *t, uint32_t a, uint32_t b);
