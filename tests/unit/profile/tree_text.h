/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of calls as text, to be compared; and trees with a node for each stack, as others should be. */
#pragma once

#include <stdlib.h>
#include "test.h"

#include "lent.h"

struct dump {
	const struct profile_tree *t;
	bool sorted;
	struct buf text;
};

static inline int by_line(const void *a, const void *b)
{
	return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static inline void sort_lines(struct buf *text)
{
	struct str rest = buf_str(text), *lines = calloc(text->size + 1, sizeof(*lines));
	struct buf out = { 0 };
	size_t n = 0;

	while (rest.size)
		lines[n++] = str_cut(&rest, '\n');
	qsort(lines, n, sizeof(*lines), by_line);
	for (size_t i = 0; i < n; i++)
		buf_printf(&out, STR_FMT "\n", STR_ARG(lines[i]));
	free(lines);
	buf_done(text);
	*text = out;
}

static inline void dump_frame(struct dump *d, uint32_t frame)
{
	struct profile_frame f;

	profile_tree_frame(d->t, frame, &f);
	buf_printf(&d->text, STR_FMT "|" STR_FMT "|" STR_FMT "|" STR_FMT "|%lld|%llx", STR_ARG(f.name),
		   STR_ARG(f.file), STR_ARG(f.binary), STR_ARG(f.build_id), (long long)f.line,
		   (unsigned long long)f.address);
}

static inline int dump_node(void *arg, uint32_t node, unsigned depth)
{
	struct dump *d = arg;
	struct profile_node n;

	profile_tree_node(d->t, node, &n);
	buf_printf(&d->text, "%u %lld %lld %lld %lld %d ", depth, (long long)n.self[0], (long long)n.total[0],
		   (long long)n.self[1], (long long)n.total[1], n.inlined);
	if (node)
		dump_frame(d, n.frame);
	/* Of nodes that look the same, it depends on their order which comes first: then the lines are sorted. */
	for (uint32_t up = n.parent; d->sorted && node && up; up = n.parent) {
		profile_tree_node(d->t, up, &n);
		buf_add_str(&d->text, STR(" < "));
		dump_frame(d, n.frame);
	}
	buf_add_char(&d->text, '\n');
	return 0;
}

static inline void dump_tree(const struct profile_tree *t, bool sorted, struct buf *out)
{
	struct dump d = { .t = t, .sorted = sorted };
	const struct profile_walk w = { dump_node, NULL, &d };

	buf_printf(&d.text, STR_FMT " " STR_FMT " %u frames\n", STR_ARG(profile_tree_type(t)),
		   STR_ARG(profile_tree_unit(t)), profile_tree_n_frames(t));
	profile_tree_walk(t, &w);
	if (sorted)
		sort_lines(&d.text);
	*out = d.text;
}

static inline void dump_top(const struct profile_tree *t, struct buf *out)
{
	struct dump d = { .t = t };

	for (int by_cum = 0; by_cum < 2; by_cum++) {
		uint32_t n;
		struct profile_top *rows = profile_tree_top(t, by_cum, &n);

		for (uint32_t i = 0; i < n; i++) {
			for (unsigned c = 0; c < PROFILE_COLUMNS; c++)
				buf_printf(&d.text, "%lld %lld ", (long long)rows[i].flat[c],
					   (long long)rows[i].cum[c]);
			dump_frame(&d, rows[i].frame);
			buf_add_char(&d.text, '\n');
		}
		free(rows);
	}
	*out = d.text;
}

static inline struct profile_tree *whole_tree(const struct profile *p, const struct profile_view *view)
{
	struct profile_tree *t = NULL;
	struct err err = { 0 };

	assert_done(profile_tree_new(view, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_done(profile_tree_end(t, &err));
	return t;
}

static inline struct profile_tree *whole_tree_of_sides(const struct sides *x, const struct profile_view *view)
{
	struct profile_tree *t = NULL;
	struct err err = { 0 };

	assert_done(profile_tree_new(view, NULL, &t, &err));
	assert_done(profile_tree_add(t, x->p, 0, 0, 1, &err));
	assert_done(profile_tree_add(t, x->base, 0, 1, x->scale, &err));
	assert_done(profile_tree_end(t, &err));
	return t;
}

static inline uint32_t named_location(struct profile *p, uint64_t number)
{
	struct profile_function f = { 0 };
	struct profile_line line = { 0 };
	char name[32];

	snprintf(name, sizeof(name), "f%llu", (unsigned long long)number);
	f.name = profile_add_string(p, str_of(name));
	line.function = profile_add_function(p, &f);
	return profile_add_location(
		p, &(struct profile_location){ .mapping = PROFILE_NONE, .addr = number + 1 }, &line, 1);
}
