/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of a tree of calls, for other programs and for people. Names are not trusted: each format escapes
 * them, and bytes that are not UTF-8 are replaced.
 */
#pragma once

#include "profile/tree.h"

struct profile_output {
	const char *title; /* NULL: the name of the type */
	unsigned rows;     /* of profile_write_top(); 0: all */
	bool by_cum;       /* its order */
	/* SVG and HTML: a node with less than this share of the total is left out; 0: PROFILE_OUTPUT_MIN_SHARE */
	double min_share;
};
#define PROFILE_OUTPUT_MIN_SHARE 1e-5

/* "main;f;g 12" a line, for flamegraph.pl and many others. ';' and line ends within names become ':' and
 * blanks. */
void profile_write_folded(const struct profile_tree *t, const struct profile_output *o, struct buf *out);
/*
 * The same of stacks that another module keeps, in their order, for a view without a label. There is a line for each
 * stack, so lines repeat where stacks differ in addresses alone; their sums are the values of the tree.
 */
int profile_write_folded_trie(const struct profile_view *view, const struct profile_limits *limits,
			      const struct profile *p, const struct profile_trie *in,
			      const struct profile_writer *to, struct err *err);
/* https://www.speedscope.app's file format. */
void profile_write_speedscope(const struct profile_tree *t, const struct profile_output *o, struct buf *out);
/* A table for people. */
void profile_write_top(const struct profile_tree *t, const struct profile_output *o, struct buf *out);
/*
 * A flame graph: an image that can be searched and zoomed in a browser, and a page that can do more. Both are
 * self-contained.
 */
void profile_write_svg(const struct profile_tree *t, const struct profile_output *o, struct buf *out);
void profile_write_html(const struct profile_tree *t, const struct profile_output *o, struct buf *out);

/* A value of this unit for people: "1.25s", "3.4MB", "17". */
void profile_value_text(int64_t v, struct str unit, struct buf *out);
