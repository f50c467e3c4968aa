/* SPDX-License-Identifier: Apache-2.0 */
/* Folded stacks: of a tree of calls, and of stacks that are kept elsewhere. */
#include "profile/output.h"
#include "profile/stream.h"
#include "profile/text.h"

#include <stdlib.h>
#include "base/vec.h"

/* ---- of a tree ---- */

struct folding {
	const struct profile_tree *t;
	struct buf *out, path;
	uint32_t *sizes; /* of the path at each depth */
	unsigned room;
};

static int folded_enter(void *arg, uint32_t node, unsigned depth)
{
	struct folding *f = arg;
	struct profile_node n;
	struct profile_frame frame;

	VEC_RESERVE(f->sizes, depth, f->room, 1);
	f->sizes[depth] = (uint32_t)f->path.size;
	if (buf_is_over(f->out))
		return 1;
	profile_tree_node(f->t, node, &n);
	if (node) {
		profile_tree_frame(f->t, n.frame, &frame);
		if (f->path.size)
			buf_add_char(&f->path, ';');
		text_line(frame.name, ';', &f->path);
	}
	/* In a comparison the base's value comes first, as difffolded.pl expects. */
	if (n.self[0] || n.self[1]) {
		if (f->path.size)
			buf_add_str(f->out, buf_str(&f->path));
		else
			buf_add_str(f->out, STR("[no stack]"));
		if (profile_tree_compares(f->t))
			buf_printf(f->out, " %lld", (long long)n.self[1]);
		buf_printf(f->out, " %lld\n", (long long)n.self[0]);
	}
	return 0;
}

static void folded_leave(void *arg, uint32_t node, unsigned depth)
{
	struct folding *f = arg;

	f->path.size = f->sizes[depth];
}

void profile_write_folded(const struct profile_tree *t, const struct profile_output *o, struct buf *out)
{
	struct folding f = { .t = t, .out = out };
	const struct profile_walk w = { folded_enter, folded_leave, &f };

	profile_tree_walk(t, &w);
	buf_done(&f.path);
	free(f.sizes);
}

/* ---- of stacks, as they come ---- */

/* The names of new frames. */
static int escape_names(struct profile_stream *s, struct err *err)
{
	const struct profile *p = s->t->p;
	uint32_t n = p->functions.n, i = s->name_at.n ? s->name_at.n - 1 : 0;

	if (!profile_extend(s->t->p, &s->name_at, (uint64_t)n + 1))
		return profile_err_memory(p, err);
	for (; i < n && !buf_is_over(&s->names); i++) {
		text_line(profile_str(p, p->functions.p[i].name), ';', &s->names);
		s->name_at.p[i + 1] = s->names.size;
		if (deadline_check(s->t->deadline, TREE_STEPS_OF_FRAME, err) < 0)
			return -1;
	}
	return buf_check(&s->names, err);
}

static void put_folded_value(struct buf *out, int64_t value)
{
	buf_add_char(out, ' ');
	if (value < 0)
		buf_add_char(out, '-');
	buf_add_decimal(out, tree_size_of(value));
}

static void put_folded_line(struct profile_stream *s, int64_t value, int64_t base)
{
	if (!value && !base)
		return;
	for (size_t i = 0; i < s->n_path; i++) {
		uint64_t at = s->name_at.p[s->path[i]];

		if (i)
			buf_add_char(&s->out, ';');
		buf_add(&s->out, s->names.p + at, s->name_at.p[s->path[i] + 1] - at);
	}
	if (!s->n_path)
		buf_add_str(&s->out, STR("[no stack]"));
	if (s->compares)
		put_folded_value(&s->out, base);
	put_folded_value(&s->out, value);
	buf_add_char(&s->out, '\n');
}

const struct stream_form stream_folded = { .frames = escape_names, .row = put_folded_line };
