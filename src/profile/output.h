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

/* ---- without a tree ---- */

enum profile_stream_format { PROFILE_STREAM_FOLDED, PROFILE_STREAM_SPEEDSCOPE };
struct profile_stream_options {
	enum profile_stream_format format;
	struct profile_view view; /* without min_share and max_nodes */
	struct profile_limits limits;
	const char *title; /* of speedscope; NULL: the name of the type */
	struct profile_writer to;
	struct spool
		*aside; /* borrowed, empty: room for a part of speedscope's file, until its place has come */
};
/*
 * Folded stacks, or speedscope's file, of stacks that another module keeps, written in their order as they come. There is a row
 * for each stack, so rows repeat where stacks differ in addresses alone; their sums are the values of the tree. The base of a
 * comparison, which speedscope's file does not have, is scaled so that the sum of all rows is right.
 */
struct profile_stream;
int profile_stream_new(const struct profile_stream_options *o, struct profile_stream **ret, struct err *err);
void profile_stream_free(struct profile_stream *s); /* takes NULL */
/* Once, or with a label once for each value, which @in has as `labels`. @p is the same each time, and may have grown. */
int profile_stream_add(struct profile_stream *s, const struct profile *p, const struct profile_trie *in,
		       struct err *err);
int profile_stream_end(struct profile_stream *s, struct err *err);

/* A value of this unit for people: "1.25s", "3.4MB", "17". */
void profile_value_text(int64_t v, struct str unit, struct buf *out);
