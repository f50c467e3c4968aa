/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of calls of one profile, of many, or of two that are compared: the basis of flame graphs, tables
 * of functions, callers and callees.
 *
 * A frame is the unit that the view groups by: a function, a file, a binary, a line, an address. A node is a
 * frame below the node of its callers; node 0 is the root, and callers have smaller numbers. Profiles are
 * added to a tree one after the other, each to a column: 0, or 1 for the base of a comparison. Adding a
 * profile takes one step for each stack of its trie, not one for each frame of every sample.
 *
 * With limits->deadline, adding and ending fail with ERR_CANCELLED when it has passed. Functions that cannot fail
 * (walks, tops) end early: the caller checks the deadline after them.
 */
#pragma once

#include "profile/profile.h"

enum profile_group {
	PROFILE_BY_FUNCTION,
	PROFILE_BY_FILE,
	PROFILE_BY_BINARY,
	PROFILE_BY_LINE,    /* function, file and line */
	PROFILE_BY_ADDRESS, /* binary and address in its file */
};
/* "function", "file", "binary", "line", "address". */
bool profile_group_parse(struct str s, enum profile_group *ret);

/*
 * The content of the tree. Zeroed: everything, by function. Patterns are POSIX extended, and filter.h has the texts that they
 * match: `by` does not change the samples that `focus` and `ignore` select.
 */
struct profile_view {
	enum profile_group by;
	const char *label;  /* the values of this label are the outermost frames */
	const char *focus;  /* only samples with a frame that matches */
	const char *ignore; /* no samples with a frame that matches */
	const char *hide;   /* these frames are left out, their callees stay */
	const char *show;   /* all other frames are left out */
	bool invert;        /* callees are roots */
	bool no_inlines;    /* leave out inlined functions */
	/*
	 * At the end, nodes smaller than this share of the root are left out, and so many of the smallest that
	 * about max_nodes stay, or fewer; always with all nodes below them. 0: none.
	 */
	double min_share;
	uint32_t max_nodes;
	/* A node is as large as its value in column 0, and not as the larger one of both; nodes of 0 are small. */
	bool first_side;
};

enum { PROFILE_COLUMNS = 2 };

struct profile_tree;

int profile_tree_new(const struct profile_view *view, const struct profile_limits *limits,
		     struct profile_tree **ret, struct err *err); /* ERR_INVALID: a bad pattern */
void profile_tree_free(struct profile_tree *t);                   /* takes NULL */
void profile_tree_freep(struct profile_tree **t);

/*
 * Add the values of @type, times @scale, to @column. The tree has the type and unit of the first profile;
 * later ones must have the same unit.
 */
int profile_tree_add(struct profile_tree *t, const struct profile *p, uint32_t type, unsigned column,
		     double scale, struct err *err);
/*
 * Compute sums and children, and leave out small nodes; nothing can be added after this. If it fails, the tree can
 * only be freed.
 */
int profile_tree_end(struct profile_tree *t, struct err *err);

/* ---- without a node for each stack ---- */

/*
 * Can a tree of this view be made by profile_tree_of_trie(), or with a label by struct profile_trie_groups? With @top only if
 * the view has neither label, min_share nor max_nodes, else only if it has one of the last two.
 */
bool profile_tree_takes_trie(const struct profile_view *view, bool top);
/*
 * Use profile_tree_add(): a value is negative; or their sum is larger than 64 bits and depends on the order; or the tree
 * is inverted, and more than 255 functions are inlined at one place.
 */
#define TREE_NEEDS_NODES 1
/*
 * A finished tree of the stacks @in and the first sample type of @p, of which only the tables that locations refer to
 * are used. It equals the one of profile_tree_add() and profile_tree_end(), but only nodes that are not left out take
 * memory. The base of a comparison is scaled node by node, or row by row, not sample by sample. With more than some 400 000
 * nodes, or in an inverted tree, the number of those left out is an estimate (within 0.1 %). Besides 0: TREE_NEEDS_NODES.
 */
int profile_tree_of_trie(const struct profile_view *view, const struct profile_limits *limits,
			 const struct profile *p, struct profile_trie *in, struct profile_tree **ret,
			 struct err *err);

/*
 * The same for a view with a label: the stacks of one value after the other, each value once, first those without one. @in has
 * the value as `labels`, and all have the same scale. @p is the same each time; it may get more entries meanwhile. Results
 * are those of profile_tree_of_trie(); after another one than 0 @g can only be freed.
 */
struct profile_trie_groups;
int profile_trie_groups_new(const struct profile_view *view, const struct profile_limits *limits,
			    struct profile_trie_groups **ret, struct err *err);
void profile_trie_groups_free(struct profile_trie_groups *g); /* takes NULL */
int profile_trie_groups_add(struct profile_trie_groups *g, const struct profile *p, struct profile_trie *in,
			    struct err *err);
/* The finished tree, while the stacks of all values can still be read; then @g can only be freed. Results as above. */
int profile_trie_groups_end(struct profile_trie_groups *g, struct profile_tree **ret, struct err *err);

/* ---- looking at it; all of these after profile_tree_end() ---- */

struct profile_frame {
	struct str name;         /* the text to show */
	struct str file, binary; /* empty: not known, or several */
	int64_t line;            /* of the function, or in the file; 0: not known */
	/*
	 * The frame has only an address: no name is known, or the view is by address. Then it has neither
	 * file nor line.
	 */
	bool is_address;
	struct str build_id;
	uint64_t address; /* in the file */
	/*
	 * Equal texts have equal numbers, below profile_tree_n_strings(); 0 is the empty one. For output that
	 * writes each text once.
	 */
	uint32_t name_string, file_string, binary_string, build_id_string;
};
struct profile_node {
	uint32_t parent, frame;
	int64_t self[PROFILE_COLUMNS], total[PROFILE_COLUMNS]; /* total: with all nodes below it */
	const uint32_t *children;                              /* by size, then by name */
	uint32_t n_children;
	bool inlined; /* in all samples */
};
uint32_t profile_tree_n(const struct profile_tree *t);          /* nodes, the root too */
uint64_t profile_tree_n_left_out(const struct profile_tree *t); /* nodes that were too small */
void profile_tree_node(const struct profile_tree *t, uint32_t node, struct profile_node *ret);
uint32_t profile_tree_n_frames(const struct profile_tree *t);
void profile_tree_frame(const struct profile_tree *t, uint32_t frame, struct profile_frame *ret);
uint32_t profile_tree_n_strings(const struct profile_tree *t);
struct str profile_tree_type(const struct profile_tree *t);
struct str profile_tree_unit(const struct profile_tree *t);
bool profile_tree_compares(const struct profile_tree *t); /* something was added to column 1 */
/*
 * The sum of the totals of a node's callees in column 0, without those below @min. With negative values it may exceed its own.
 */
double profile_tree_callees_sum(const struct profile_tree *t, uint32_t node, double min);

/*
 * A walk over all nodes, callers first, children in their order: enter() on the way down, leave() (may be
 * NULL) on the way up. Non-zero from enter() skips the nodes below.
 */
struct profile_walk {
	int (*enter)(void *arg, uint32_t node, unsigned depth);
	void (*leave)(void *arg, uint32_t node, unsigned depth);
	void *arg;
};
void profile_tree_walk(const struct profile_tree *t, const struct profile_walk *w);

/*
 * The values of a frame by itself (flat) and with its callees (cum), each sample once however often the frame
 * is in it.
 */
struct profile_top {
	uint32_t frame;
	int64_t flat[PROFILE_COLUMNS], cum[PROFILE_COLUMNS];
};
/* All frames, by flat value (@by_cum: by cumulative value), the largest first. Heap. */
struct profile_top *profile_tree_top(const struct profile_tree *t, bool by_cum, uint32_t *ret_n);
/*
 * The largest of these rows, by cumulative value, with this name, and this binary and this file unless they are empty; NULL:
 * there is none.
 */
const struct profile_top *profile_tree_find(const struct profile_tree *t, const struct profile_top *rows,
					    uint32_t n, struct str name, struct str binary, struct str file);
/*
 * The callers or callees of @frame with the value of the calls (in cum), the largest first. Heap. A tree of a trie has those
 * of the trie's `function` only.
 */
struct profile_top *profile_tree_callers(const struct profile_tree *t, uint32_t frame, uint32_t *ret_n);
struct profile_top *profile_tree_callees(const struct profile_tree *t, uint32_t frame, uint32_t *ret_n);
