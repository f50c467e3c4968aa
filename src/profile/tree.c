/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the tree of calls.
 *
 * A profile's stacks are a trie, so the tree node of each is found by one step from its caller's. Only where
 * that order does not help (inverted) each frame of each sample takes a step.
 */
#include "profile/tree_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NODE_NONE      UINT32_MAX /* its samples are left out */
#define STEPS_OF_FRAME 16u        /* finding a node takes a cache miss or several */

bool profile_group_parse(struct str s, enum profile_group *ret)
{
	static const char *const names[] = { "function", "file", "binary", "line", "address" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(s, str_of(names[i]))) {
			*ret = (enum profile_group)i;
			return true;
		}
	return false;
}

/* ---- patterns ---- */

static int compile_patterns(struct profile_tree *t, unsigned which, const char *what, const char *pattern,
			    struct err *err)
{
	if (pattern && pattern_new(str_of(pattern), false, &t->patterns[which], err) < 0)
		return err_in(err, "%s: '%s'", what, pattern);
	return 0;
}

static uint8_t classify_frame(const struct profile_tree *t, const struct profile_function *f)
{
	const uint32_t texts[] = { f->name, f->file, f->system_name };
	uint8_t bits = 0;

	for (unsigned i = 0; i < N_MATCHES; i++)
		for (size_t k = 0; t->patterns[i] && k < ARRAY_SIZE(texts); k++)
			if (texts[k] &&
			    pattern_matches(t->patterns[i], profile_str(t->p, texts[k]), t->deadline))
				bits |= (uint8_t)(1u << i);
	return bits;
}

static uint8_t frame_bits(struct profile_tree *t, uint32_t frame)
{
	/* The limit of memory was reached, which is reported at the end. */
	if (frame >= t->p->functions.n)
		return 0;
	while (t->frame_matches.n <= frame) {
		if (!profile_room(t->p, &t->frame_matches, 1)) {
			profile_index_of(t->p)->failed = true;
			return 0;
		}
		t->frame_matches.p[t->frame_matches.n] = classify_frame(
			t, &t->p->functions.p[t->frame_matches.n]);
		t->frame_matches.n++;
	}
	return t->frame_matches.p[frame];
}

/* ---- making one ---- */

int profile_tree_new(const struct profile_view *view, const struct profile_limits *limits,
		     struct profile_tree **ret, struct err *err)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NEW(struct profile_tree);

	t->view = *view;
	t->p = profile_new(limits);
	t->deadline = limits ? limits->deadline : NULL;
	if (compile_patterns(t, MATCH_FOCUS, "focus", view->focus, err) < 0 ||
	    compile_patterns(t, MATCH_IGNORE, "ignore", view->ignore, err) < 0 ||
	    compile_patterns(t, MATCH_HIDE, "hide", view->hide, err) < 0 ||
	    compile_patterns(t, MATCH_SHOW, "show", view->show, err) < 0)
		return -1;
	*ret = TAKE(t);
	return 0;
}

void profile_tree_free(struct profile_tree *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < N_MATCHES; i++)
		pattern_free(t->patterns[i]);
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		free(t->columns[i].self.p);
		free(t->columns[i].total.p);
	}
	free(t->frame_matches.p);
	free(t->addresses.p);
	free(t->outlined.p);
	free(t->first_child);
	free(t->children);
	profile_free(t->p);
	free(t);
}

void profile_tree_freep(struct profile_tree **t)
{
	profile_tree_free(*t);
}

/* ---- frames ---- */

/*
 * The frames of the locations of one profile, outermost first, while it is added. The results for its strings
 * and functions are kept: names are hashed once for a profile, not once for a location.
 */
struct frames {
	const struct profile *p;
	PROFILE_TABLE(uint32_t) list; /* frame << 1; the low bit: it is inlined */
	uint32_t *first;              /* of each location, and one after the last */
	uint32_t *strings;            /* of the tree + 1 */
	struct named_frame {
		uint32_t binary, frame; /* frame + 1 */
	} * functions;
};

static uint32_t tree_string_in(struct profile_tree *t, struct frames *f, uint32_t s)
{
	if (!f->strings[s])
		f->strings[s] = profile_add_string(t->p, profile_str(f->p, s)) + 1;
	return f->strings[s] - 1;
}

static uint32_t binary_in_tree(struct profile_tree *t, struct frames *f, const struct profile_location *l)
{
	return l->mapping == PROFILE_NONE ? 0 : tree_string_in(t, f, f->p->mappings.p[l->mapping].file);
}

static struct str tree_binary_of(const struct profile *p, const struct profile_location *l)
{
	return l->mapping == PROFILE_NONE ? STR("") : profile_str(p, p->mappings.p[l->mapping].file);
}

static uint64_t file_address(const struct profile *p, const struct profile_location *l)
{
	const struct profile_mapping *m = l->mapping == PROFILE_NONE ? NULL : &p->mappings.p[l->mapping];

	return m && l->addr >= m->start ? l->addr - m->start + m->offset : l->addr;
}

static uint32_t build_id_in(struct profile_tree *t, struct frames *f, const struct profile_location *l)
{
	return l->mapping == PROFILE_NONE ? 0 : tree_string_in(t, f, f->p->mappings.p[l->mapping].build_id);
}

static void mark_address(struct profile_tree *t, uint32_t frame)
{
	uint32_t was = t->addresses.n;

	if (frame >= was) {
		if (!profile_room(t->p, &t->addresses, frame + 1 - was))
			return; /* profile_build_end() reports it */
		memset(t->addresses.p + was, 0, frame + 1 - was);
		t->addresses.n = frame + 1;
	}
	t->addresses.p[frame] = 1;
}

/* Only its address is known: build ID and address take the places of file and line. */
static uint32_t address_frame(struct profile_tree *t, struct frames *frames, const struct profile_location *l)
{
	const struct profile *p = frames->p;
	struct str base = path_basename(tree_binary_of(p, l));
	struct profile_function f = { .system_name = binary_in_tree(t, frames, l),
				      .file = build_id_in(t, frames, l),
				      .start_line = (int64_t)file_address(p, l) };
	char text[288];
	uint32_t frame;

	if (!base.size)
		base = l->mapping == PROFILE_NONE ? STR("") : STR("unknown");
	if (l->addr || !base.size)
		snprintf(text, sizeof(text), "%.*s%s0x%llx", (int)MIN(base.size, (size_t)240), base.p,
			 base.size ? "+" : "", (unsigned long long)file_address(p, l));
	else
		snprintf(text, sizeof(text), "%.*s", (int)MIN(base.size, (size_t)240), base.p);
	f.name = profile_add_string(t->p, str_of(text));
	frame = profile_add_function(t->p, &f);
	mark_address(t, frame);
	return frame;
}

/* Most frames are of a function in a binary, and nothing more. */
static uint32_t function_frame(struct profile_tree *t, struct frames *frames,
			       const struct profile_location *l, uint32_t function)
{
	const struct profile_function *of = &frames->p->functions.p[function];
	struct named_frame *known = &frames->functions[function];
	uint32_t binary = binary_in_tree(t, frames, l);
	struct profile_function f = { .system_name = binary, .start_line = of->start_line };

	if (known->frame && known->binary == binary)
		return known->frame - 1;
	f.name = tree_string_in(t, frames, of->name ? of->name : of->system_name);
	if (!f.name)
		f.name = profile_add_string(t->p, STR("unknown"));
	f.file = tree_string_in(t, frames, of->file);
	*known = (struct named_frame){ binary, profile_add_function(t->p, &f) + 1 };
	return known->frame - 1;
}

static uint32_t line_frame(struct profile_tree *t, struct frames *frames, const struct profile_location *l,
			   const struct profile_line *line)
{
	const struct profile *p = frames->p;
	const struct profile_function *of = &p->functions.p[line->function];
	struct str name = profile_str(p, of->name ? of->name : of->system_name),
		   file = profile_str(p, of->file);
	struct profile_function f = { .file = tree_string_in(t, frames, of->file) };
	AUTO(buf_done) struct buf text = { 0 };

	switch (t->view.by) {
	case PROFILE_BY_FILE:
		if (!f.file)
			f.file = profile_add_string(t->p, STR("unknown file"));
		f.name = f.file;
		break;
	case PROFILE_BY_LINE:
		buf_printf(&text, STR_FMT " " STR_FMT ":%lld", STR_ARG(name), STR_ARG(file),
			   (long long)line->line);
		f.name = profile_add_string(t->p, buf_str(&text));
		f.system_name = binary_in_tree(t, frames, l);
		f.start_line = line->line;
		break;
	default:
		return function_frame(t, frames, l, line->function);
	}
	return profile_add_function(t->p, &f);
}

static uint32_t binary_frame(struct profile_tree *t, struct frames *frames, const struct profile_location *l)
{
	struct profile_function f = { .name = binary_in_tree(t, frames, l) };

	if (!f.name)
		f.name = profile_add_string(t->p, STR("unknown binary"));
	f.system_name = f.name;
	return profile_add_function(t->p, &f);
}

static bool push_frame(struct profile_tree *t, struct frames *f, uint32_t frame, bool inlined)
{
	if (!profile_room(t->p, &f->list, 1))
		return false;
	f->list.p[f->list.n++] = frame << 1 | inlined;
	return true;
}

static bool location_frames(struct profile_tree *t, struct frames *f, const struct profile_location *l)
{
	if (t->view.by == PROFILE_BY_BINARY)
		return push_frame(t, f, binary_frame(t, f, l), false);
	if (!l->n_lines || t->view.by == PROFILE_BY_ADDRESS)
		return push_frame(t, f, address_frame(t, f, l), false);
	for (uint32_t i = l->n_lines; i-- > 0;) {
		if (!push_frame(t, f, line_frame(t, f, l, &f->p->lines.p[l->first_line + i]),
				i + 1 < l->n_lines))
			return false;
		if (t->view.no_inlines)
			break;
	}
	return true;
}

static int make_frames(struct profile_tree *t, const struct profile *p, struct frames *f, struct err *err)
{
	f->p = p;
	f->first = calloc((size_t)p->locations.n + 1, sizeof(*f->first));
	f->strings = calloc((size_t)p->strings.n + 1, sizeof(*f->strings));
	f->functions = calloc((size_t)p->functions.n + 1, sizeof(*f->functions));
	if (!f->first || !f->strings || !f->functions)
		return profile_err_memory(t->p, err);
	for (uint32_t i = 0; i < p->locations.n; i++) {
		f->first[i] = f->list.n;
		if (deadline_check(t->deadline, STEPS_OF_FRAME * (1 + p->locations.p[i].n_lines), err) < 0)
			return -1;
		if (!location_frames(t, f, &p->locations.p[i]))
			return profile_err_memory(t->p, err);
	}
	f->first[p->locations.n] = f->list.n;
	return profile_build_end(t->p, err);
}

static void frame_table_done(struct profile_tree *t, struct frames *f)
{
	t->p->memory -= (uint64_t)f->list.room * sizeof(*f->list.p);
	free(f->list.p);
	free(f->first);
	free(f->strings);
	free(f->functions);
}

/* ---- nodes ---- */

/* The position of a sample while its frames are added: the node, and which patterns matched on the way. */
struct tree_place {
	uint32_t node;
	bool focus, ignore;
};

static void go_down(struct profile_tree *t, struct tree_place *at, uint32_t tagged)
{
	uint32_t frame = tagged >> 1;
	uint8_t bits = frame_bits(t, frame);

	at->focus |= bits >> MATCH_FOCUS & 1;
	at->ignore |= bits >> MATCH_IGNORE & 1;
	if (bits >> MATCH_HIDE & 1 || (t->patterns[MATCH_SHOW] && !(bits >> MATCH_SHOW & 1)))
		return;
	/* Nodes of files and binaries that call themselves are one. */
	if ((t->view.by == PROFILE_BY_FILE || t->view.by == PROFILE_BY_BINARY) && at->node &&
	    t->p->stacks.p[at->node].location == frame)
		return;
	at->node = profile_add_stack(t->p, at->node, frame);
	if (profile_room(t->p, &t->outlined, at->node + 1)) {
		while (t->outlined.n <= at->node)
			t->outlined.p[t->outlined.n++] = 0;
		t->outlined.p[at->node] |= !(tagged & 1);
	}
}

static uint32_t kept(const struct profile_tree *t, const struct tree_place *at)
{
	return (t->patterns[MATCH_FOCUS] && !at->focus) || at->ignore ? NODE_NONE : at->node;
}

/* One step for each stack of the trie. */
static int nodes_by_trie(struct profile_tree *t, const struct profile *p, const struct frames *f,
			 uint32_t *nodes, struct err *err)
{
	AUTO(mem_freep) struct tree_place *places = mem_try((size_t)p->stacks.n * sizeof(*places));

	if (!places)
		return profile_err_memory(t->p, err);
	places[0] = (struct tree_place){ 0 };
	nodes[0] = kept(t, &places[0]);
	for (uint32_t s = 1; s < p->stacks.n; s++) {
		uint32_t l = p->stacks.p[s].location;

		if (deadline_check(t->deadline, STEPS_OF_FRAME * (1 + f->first[l + 1] - f->first[l]), err) <
		    0)
			return -1;
		places[s] = places[p->stacks.p[s].parent];
		for (uint32_t i = f->first[l]; i < f->first[l + 1]; i++)
			go_down(t, &places[s], f->list.p[i]);
		nodes[s] = kept(t, &places[s]);
	}
	return profile_build_end(t->p, err);
}

static uint32_t label_frame(struct profile_tree *t, const struct profile *p, uint32_t labels, struct str key)
{
	const struct profile_label_set *set = &p->label_sets.p[labels];
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

/*
 * With the values of a label as roots: the samples of a value follow each other mostly, so the places of its
 * stacks are kept until the next value. One step for each stack of each value.
 */
struct label_places {
	struct tree_place *places; /* of stacks; valid if the turn is the current one */
	uint32_t *turns, turn;     /* 0: no value so far */
	uint32_t labels;           /* of the current turn */
	uint32_t *path;
};

static uint32_t node_below_label(struct profile_tree *t, const struct profile *p, const struct frames *f,
				 uint32_t sample, struct label_places *x)
{
	uint32_t labels = p->sample_labels[sample], n = 0, s;
	struct tree_place at;

	if (!x->turn || labels != x->labels) {
		x->turn++;
		x->labels = labels;
		x->turns[0] = x->turn;
		x->places[0] = (struct tree_place){ 0 };
		go_down(t, &x->places[0], label_frame(t, p, labels, str_of(t->view.label)) << 1);
	}
	for (s = p->sample_stack[sample]; x->turns[s] != x->turn && n < PROFILE_MAX_DEPTH;
	     s = p->stacks.p[s].parent)
		x->path[n++] = s;
	at = x->turns[s] == x->turn ? x->places[s] : x->places[0];
	while (n) {
		uint32_t l, first, end;

		s = x->path[--n];
		l = p->stacks.p[s].location;
		first = f->first[l];
		end = f->first[l + 1];
		/* The caller checks it again. */
		if (deadline_over(t->deadline, STEPS_OF_FRAME * (1 + end - first)))
			break;
		for (uint32_t i = first; i < end; i++)
			go_down(t, &at, f->list.p[i]);
		x->places[s] = at;
		x->turns[s] = x->turn;
	}
	return kept(t, &at);
}

/* Frame by frame. */
static uint32_t node_of_sample(struct profile_tree *t, const struct profile *p, const struct frames *f,
			       uint32_t stack, uint32_t labels, uint32_t *path)
{
	struct tree_place at = { 0 };
	uint32_t n = 0;

	if (t->view.label)
		go_down(t, &at, label_frame(t, p, labels, str_of(t->view.label)) << 1);
	for (uint32_t s = stack; s && n < PROFILE_MAX_DEPTH; s = p->stacks.p[s].parent)
		path[n++] = p->stacks.p[s].location;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t l = path[t->view.invert ? i : n - 1 - i], first = f->first[l], end = f->first[l + 1];

		/* The caller checks it again. */
		if (deadline_over(t->deadline, STEPS_OF_FRAME * (1 + end - first)))
			break;
		for (uint32_t k = first; k < end; k++)
			go_down(t, &at, f->list.p[t->view.invert ? end - 1 - (k - first) : k]);
	}
	return kept(t, &at);
}

static bool column_reserve(struct profile_tree *t, struct profile_column *c)
{
	uint32_t was = c->self.n;

	if (c->self.n >= t->p->stacks.n)
		return true;
	if (!profile_room(t->p, &c->self, t->p->stacks.n - was))
		return false;
	memset(c->self.p + was, 0, (size_t)(t->p->stacks.n - was) * sizeof(*c->self.p));
	c->self.n = t->p->stacks.n;
	return true;
}

static int64_t scale_value(int64_t v, double scale)
{
	double d;

	if (scale == 1)
		return v;
	d = round((double)v * scale);
	return d >= 0x1p63 ? INT64_MAX : d < -0x1p63 ? INT64_MIN : (int64_t)d;
}

static void add_to(struct profile_column *c, uint32_t node, int64_t v)
{
	c->self.p[node] = add_saturating(c->self.p[node], v);
}

/* The values of one sample type, times @scale, into a column. */
struct tree_values {
	const struct profile *p;
	uint32_t type;
	struct profile_column *to;
	double scale;
};

static void add_sample(const struct tree_values *v, uint32_t sample, uint32_t node)
{
	if (node != NODE_NONE)
		add_to(v->to, node, scale_value(profile_value(v->p, sample, v->type), v->scale));
}

static int add_by_trie(struct profile_tree *t, const struct tree_values *v, const struct frames *f,
		       struct err *err)
{
	const struct profile *p = v->p;
	AUTO(mem_freep) uint32_t *nodes = mem_try((size_t)p->stacks.n * sizeof(*nodes));

	if (!nodes)
		return profile_err_memory(t->p, err);
	if (nodes_by_trie(t, p, f, nodes, err) < 0)
		return -1;
	if (!column_reserve(t, v->to))
		return profile_err_memory(t->p, err);
	for (uint32_t i = 0; i < p->n_samples; i++)
		add_sample(v, i, nodes[p->sample_stack[i]]);
	return 0;
}

static int add_by_sample(struct profile_tree *t, const struct tree_values *v, const struct frames *f,
			 struct err *err)
{
	AUTO(mem_freep) uint32_t *path = mem_alloc(PROFILE_MAX_DEPTH * sizeof(*path));
	const struct profile *p = v->p;

	for (uint32_t i = 0; i < p->n_samples; i++) {
		uint32_t node = node_of_sample(t, p, f, p->sample_stack[i], p->sample_labels[i], path);

		if (deadline_check(t->deadline, STEPS_OF_FRAME, err) < 0)
			return -1;
		if (!column_reserve(t, v->to))
			return profile_err_memory(t->p, err);
		add_sample(v, i, node);
	}
	return profile_build_end(t->p, err);
}

static int add_by_label(struct profile_tree *t, const struct tree_values *v, const struct frames *f,
			struct err *err)
{
	const struct profile *p = v->p;
	AUTO(mem_freep) struct tree_place *places = mem_try((size_t)p->stacks.n * sizeof(*places));
	AUTO(mem_freep) uint32_t *turns = calloc(p->stacks.n, sizeof(*turns));
	AUTO(mem_freep) uint32_t *path = mem_alloc(PROFILE_MAX_DEPTH * sizeof(*path));
	struct label_places x = { .places = places, .turns = turns, .path = path };

	if (!places || !turns)
		return profile_err_memory(t->p, err);
	for (uint32_t i = 0; i < p->n_samples; i++) {
		uint32_t node = node_below_label(t, p, f, i, &x);

		if (deadline_check(t->deadline, STEPS_OF_FRAME, err) < 0)
			return -1;
		if (!column_reserve(t, v->to))
			return profile_err_memory(t->p, err);
		add_sample(v, i, node);
	}
	return profile_build_end(t->p, err);
}

/* The first profile determines the unit; minutes are not added to bytes. */
static int same_unit(struct profile_tree *t, const struct profile *p, uint32_t type, struct err *err)
{
	struct str unit = profile_str(p, p->types.p[type].unit), ours;

	if (!t->named) {
		t->type = profile_add_string(t->p, profile_str(p, p->types.p[type].type));
		t->unit = profile_add_string(t->p, unit);
		t->named = true;
		return 0;
	}
	ours = profile_tree_unit(t);
	if (!str_eq(unit, ours))
		return err_set(err, ERR_INVALID, "has the unit " STR_FMT ", other profiles " STR_FMT,
			       STR_ARG(unit), STR_ARG(ours));
	return 0;
}

int profile_tree_add(struct profile_tree *t, const struct profile *p, uint32_t type, unsigned column,
		     double scale, struct err *err)
{
	const struct tree_values v = { p, type, &t->columns[column], scale };
	struct frames f = { 0 };
	int r;

	t->used[column] = true;
	if (type >= p->types.n)
		return p->n_samples ? err_set(err, ERR_INVALID, "there is no such sample type") : 0;
	if (same_unit(t, p, type, err) < 0)
		return -1;
	r = make_frames(t, p, &f, err);
	if (r == 0)
		r = (t->view.invert  ? add_by_sample
		     : t->view.label ? add_by_label
				     : add_by_trie)(t, &v, &f, err);
	frame_table_done(t, &f);
	return r;
}
