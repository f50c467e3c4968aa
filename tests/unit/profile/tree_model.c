/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of calls compared with a slow model that goes through all frames of each sample: views with labels, filters,
 * inverted, of two profiles, and without small nodes.
 */
#include "test.h"

#include <math.h>
#include "base/budget.h"
#include "base/pattern.h"

#include "profile/tree.h"
#include "profile_maker.h"

#define MODEL_NODES  200000u
#define MODEL_FRAMES 256u

struct model_node {
	uint32_t parent, number; /* number: after pruning; UINT32_MAX: left out */
	char *key;
	int64_t self[2], total[2];
	bool outlined;
};

struct model {
	const struct profile_view *view;
	struct pattern *focus, *ignore, *hide, *show;
	struct map by_key; /* "PARENT KEY" to number + 1 */
	struct model_node *nodes;
	uint32_t n, n_left_out;
};

/* A frame of a sample: its key is all that makes it different from others. */
struct model_frame {
	char key[512];
	char texts[3][128];
	bool inlined;
};

struct model_path {
	struct model_frame frames[MODEL_FRAMES];
	unsigned n;
};

static void frame_write(struct model_frame *f, struct str name, struct str file, struct str binary,
			int64_t line)
{
	snprintf(f->texts[0], sizeof(f->texts[0]), STR_FMT, STR_ARG(name));
	snprintf(f->texts[1], sizeof(f->texts[1]), STR_FMT, STR_ARG(file));
	snprintf(f->texts[2], sizeof(f->texts[2]), STR_FMT, STR_ARG(binary));
	snprintf(f->key, sizeof(f->key), STR_FMT "|" STR_FMT "|" STR_FMT "|%lld|", STR_ARG(name),
		 STR_ARG(file), STR_ARG(binary), (long long)line);
}

static struct str binary_name(const struct profile *p, const struct profile_location *l)
{
	return l->mapping == PROFILE_NONE ? STR("") : profile_str(p, p->mappings.p[l->mapping].file);
}

static void write_address(const struct profile *p, const struct profile_location *l, struct model_frame *f)
{
	const struct profile_mapping *m = l->mapping == PROFILE_NONE ? NULL : &p->mappings.p[l->mapping];
	uint64_t at = m ? l->addr - m->start + m->offset : l->addr;
	struct str id = m ? profile_str(p, m->build_id) : STR(""), binary = binary_name(p, l);
	struct str base = path_basename(binary);
	char text[128];

	snprintf(text, sizeof(text), STR_FMT "%s0x%llx", STR_ARG(base), m ? "+" : "", (unsigned long long)at);
	frame_write(f, str_of(text), id, binary, (int64_t)at);
	snprintf(f->key, sizeof(f->key), "%s||" STR_FMT "|0|" STR_FMT "|%llx", text, STR_ARG(binary),
		 STR_ARG(id), (unsigned long long)at);
}

/* Outermost first. */
static void add_location(const struct model *m, const struct profile *p, const struct profile_location *l,
			 struct model_path *path)
{
	if (m->view->by == PROFILE_BY_BINARY) {
		struct str name = binary_name(p, l);

		name = name.size ? name : STR("unknown binary");
		frame_write(&path->frames[path->n++], name, STR(""), name, 0);
		return;
	}
	if (!l->n_lines || m->view->by == PROFILE_BY_ADDRESS) {
		write_address(p, l, &path->frames[path->n++]);
		return;
	}
	for (uint32_t i = l->n_lines; i-- > 0;) {
		const struct profile_function *fn = &p->functions.p[p->lines.p[l->first_line + i].function];
		struct model_frame *f = &path->frames[path->n++];
		struct str file = profile_str(p, fn->file);

		f->inlined = i + 1 < l->n_lines;
		if (m->view->by == PROFILE_BY_FILE)
			frame_write(f, file, file, STR(""), 0);
		else
			frame_write(f, profile_str(p, fn->name), file, binary_name(p, l), fn->start_line);
		if (m->view->no_inlines)
			break;
	}
}

static void add_stack(const struct model *m, const struct profile *p, uint32_t stack, struct model_path *path)
{
	uint32_t chain[64], n = 0;

	for (uint32_t s = stack; s; s = p->stacks.p[s].parent)
		chain[n++] = s;
	while (n)
		add_location(m, p, &p->locations.p[p->stacks.p[chain[--n]].location], path);
	for (unsigned i = 0; m->view->invert && i < path->n / 2; i++) {
		struct model_frame swap = path->frames[i];

		path->frames[i] = path->frames[path->n - 1 - i];
		path->frames[path->n - 1 - i] = swap;
	}
}

static void label_value(const struct profile *p, uint32_t labels, const char *key, struct model_frame *f)
{
	const struct profile_label_set *set = &p->label_sets.p[labels];
	char text[128] = "(no label)";

	for (uint32_t i = set->n; i-- > 0;) {
		const struct profile_label *l = &p->labels.p[set->first + i];
		struct str unit = profile_str(p, l->unit);

		if (!str_eq(profile_str(p, l->key), str_of(key)))
			continue;
		if (l->str)
			snprintf(text, sizeof(text), STR_FMT, STR_ARG(profile_str(p, l->str)));
		else
			snprintf(text, sizeof(text), "%lld%s" STR_FMT, (long long)l->num,
				 unit.size ? " " : "", STR_ARG(unit));
	}
	frame_write(f, str_of(text), STR(""), STR(""), 0);
	f->inlined = false;
}

static bool frame_matches(struct pattern *p, const struct model_frame *f)
{
	for (unsigned i = 0; p && i < ARRAY_SIZE(f->texts); i++)
		if (f->texts[i][0] && pattern_matches(p, str_of(f->texts[i]), NULL))
			return true;
	return false;
}

static uint32_t model_child(struct model *m, uint32_t parent, const struct model_frame *f)
{
	char text[600];
	uint32_t i;

	snprintf(text, sizeof(text), "%u %s", parent, f->key);
	i = (uint32_t)(uintptr_t)map_get(&m->by_key, bytes_of(text, strlen(text)));
	if (!i) {
		assert_true(m->n < MODEL_NODES);
		i = ++m->n;
		m->nodes[i - 1] = (struct model_node){ .parent = parent, .key = strdup(f->key) };
		map_put(&m->by_key, bytes_of(text, strlen(text)), (void *)(uintptr_t)i);
	}
	m->nodes[i - 1].outlined |= !f->inlined;
	return i - 1;
}

static void model_sample(struct model *m, const struct model_path *path, unsigned column, int64_t value)
{
	bool focus = !m->focus, ignore = false, merges = false;
	uint32_t node = 0;

	for (unsigned i = 0; i < path->n; i++) {
		const struct model_frame *f = &path->frames[i];

		focus |= frame_matches(m->focus, f);
		ignore |= frame_matches(m->ignore, f);
		if (frame_matches(m->hide, f) || (m->show && !frame_matches(m->show, f)))
			continue;
		merges = m->view->by == PROFILE_BY_FILE || m->view->by == PROFILE_BY_BINARY;
		if (merges && node && strcmp(m->nodes[node].key, f->key) == 0)
			continue;
		node = model_child(m, node, f);
	}
	if (focus && !ignore)
		m->nodes[node].self[column] += value;
}

static void model_add(struct model *m, const struct profile *p, unsigned column, double scale)
{
	struct model_path *path = mem_alloc(sizeof(*path));

	/* Without a label, and not inverted, stacks without samples make nodes too. */
	for (uint32_t s = 0; s < p->stacks.n && !m->view->label && !m->view->invert; s++) {
		path->n = 0;
		memset(path, 0, sizeof(*path));
		add_stack(m, p, s, path);
		model_sample(m, path, column, 0);
	}
	for (uint32_t i = 0; i < p->n_samples; i++) {
		memset(path, 0, sizeof(*path));
		add_stack(m, p, p->sample_stack[i], path);
		if (m->view->label) {
			memmove(path->frames + 1, path->frames, path->n++ * sizeof(path->frames[0]));
			label_value(p, p->sample_labels[i], m->view->label, &path->frames[0]);
		}
		model_sample(m, path, column,
			     scale == 1 ? profile_value(p, i, 1)
					: (int64_t)round((double)profile_value(p, i, 1) * scale));
	}
	free(path);
}

static uint64_t model_size(const struct model_node *n)
{
	uint64_t a = (uint64_t)llabs(n->total[0]), b = (uint64_t)llabs(n->total[1]);

	return MAX(a, b);
}

/* The greatest number with the same first five bits that is not larger. */
static uint64_t five_bits(uint64_t size)
{
	unsigned shift = 0;

	while (size >> shift >= 32)
		shift++;
	return size >> shift << shift;
}

static bool fits(const struct model *m, uint64_t least)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n; i++)
		n += model_size(&m->nodes[i]) >= least;
	return n <= m->view->max_nodes;
}

static uint64_t model_least(const struct model *m)
{
	uint64_t share = (uint64_t)ceil(m->view->min_share * (double)model_size(&m->nodes[0])), least = 0;

	if (m->view->max_nodes && m->n > m->view->max_nodes) {
		least = UINT64_MAX;
		/* Sizes with the same first five bits stay or go together. */
		for (uint32_t i = 0; i < m->n; i++) {
			uint64_t slot = five_bits(model_size(&m->nodes[i]));

			if (slot < least && fits(m, slot))
				least = slot;
		}
	}
	return MAX(share, least);
}

static void model_end(struct model *m)
{
	uint32_t n = 1;
	uint64_t least;

	for (uint32_t i = 0; i < m->n; i++)
		memcpy(m->nodes[i].total, m->nodes[i].self, sizeof(m->nodes[i].self));
	for (uint32_t i = m->n; i-- > 1;)
		for (unsigned c = 0; c < 2; c++)
			m->nodes[m->nodes[i].parent].total[c] += m->nodes[i].total[c];
	least = model_least(m);
	for (uint32_t i = 1; i < m->n; i++) {
		struct model_node *node = &m->nodes[i];
		bool kept = m->nodes[node->parent].number != UINT32_MAX && model_size(node) >= least;

		node->number = kept ? n++ : UINT32_MAX;
	}
	m->n_left_out = m->n - n;
}

/* ---- compared ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A line for each node: the frames from the root, values, flags. */
static char *sorted_lines(char **lines, uint32_t n)
{
	struct buf b = { 0 };

	qsort(lines, n, sizeof(*lines), by_text);
	for (uint32_t i = 0; i < n; i++) {
		buf_printf(&b, "%s\n", lines[i]);
		free(lines[i]);
	}
	free(lines);
	return (char *)(uintptr_t)buf_cstr(&b);
}

static char *line_of(const char *path, const int64_t *self, const int64_t *total, bool inlined)
{
	return mem_printf("%s %lld %lld %lld %lld%s", path, (long long)self[0], (long long)total[0],
			  (long long)self[1], (long long)total[1], inlined ? " inlined" : "");
}

static char *text_of_model(const struct model *m)
{
	char **paths = mem_zalloc(m->n * sizeof(*paths)), **lines = mem_zalloc(m->n * sizeof(*lines)), *text;
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		const struct model_node *node = &m->nodes[i];

		if (node->number == UINT32_MAX)
			continue;
		paths[i] = i ? mem_printf("%s/%s", paths[node->parent], node->key) : mem_printf(".");
		lines[n++] = line_of(paths[i], node->self, node->total, i && !node->outlined);
	}
	text = sorted_lines(lines, n);
	for (uint32_t i = 0; i < m->n; i++)
		free(paths[i]);
	free(paths);
	return text;
}

static void check_order(const struct profile_tree *t, uint32_t node)
{
	struct profile_node at, a, b;
	struct profile_frame f, g;

	profile_tree_node(t, node, &at);
	for (uint32_t i = 1; i < at.n_children; i++) {
		profile_tree_node(t, at.children[i - 1], &a);
		profile_tree_node(t, at.children[i], &b);
		assert_true(a.parent == node && b.parent == node);
		assert_true(a.total[0] > b.total[0] ||
			    (a.total[0] == b.total[0] && a.total[1] >= b.total[1]));
		profile_tree_frame(t, a.frame, &f);
		profile_tree_frame(t, b.frame, &g);
		if (a.total[0] == b.total[0] && a.total[1] == b.total[1])
			assert_true(str_cmp(f.name, g.name) <= 0);
	}
}

static char *text_of_tree(const struct profile_tree *t)
{
	uint32_t n = profile_tree_n(t);
	char **paths = mem_zalloc(n * sizeof(*paths)), **lines = mem_zalloc(n * sizeof(*lines)), *text;

	for (uint32_t i = 0; i < n; i++) {
		struct profile_node node;
		struct profile_frame f;

		check_order(t, i);
		profile_tree_node(t, i, &node);
		profile_tree_frame(t, node.frame, &f);
		paths[i] = mem_printf(".");
		if (i) {
			free(paths[i]);
			paths[i] = mem_printf("%s/" STR_FMT "|" STR_FMT "|" STR_FMT "|%lld|",
					      paths[node.parent], STR_ARG(f.name), STR_ARG(f.file),
					      STR_ARG(f.binary), (long long)f.line);
			if (f.is_address) {
				char *with = mem_printf("%s" STR_FMT "|%llx", paths[i], STR_ARG(f.build_id),
							(unsigned long long)f.address);
				free(paths[i]);
				paths[i] = with;
			}
		}
		lines[i] = line_of(paths[i], node.self, node.total, node.inlined);
	}
	text = sorted_lines(lines, n);
	for (uint32_t i = 0; i < n; i++)
		free(paths[i]);
	free(paths);
	return text;
}

static struct pattern *pattern_of(const char *text)
{
	struct pattern *p = NULL;
	struct err err = { 0 };

	if (text)
		assert_done(pattern_new(str_of(text), false, &p, &err));
	return p;
}

static void model_init(struct model *m, const struct profile_view *view)
{
	*m = (struct model){ .view = view, .n = 1 };
	m->nodes = mem_zalloc(MODEL_NODES * sizeof(*m->nodes));
	m->focus = pattern_of(view->focus);
	m->ignore = pattern_of(view->ignore);
	m->hide = pattern_of(view->hide);
	m->show = pattern_of(view->show);
}

static void model_done(struct model *m)
{
	for (uint32_t i = 0; i < m->n; i++)
		free(m->nodes[i].key);
	free(m->nodes);
	map_done(&m->by_key);
	pattern_free(m->focus);
	pattern_free(m->ignore);
	pattern_free(m->hide);
	pattern_free(m->show);
}

static void compare(struct profile *const *list, unsigned n, const struct profile_view *view)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(mem_freep) char *got = NULL;
	AUTO(mem_freep) char *want = NULL;
	struct model m;
	struct err err = { 0 };

	model_init(&m, view);
	assert_done(profile_tree_new(view, NULL, &t, &err));
	for (unsigned i = 0; i < n; i++) {
		double scale = i == 1 ? 0.5 : 1;

		model_add(&m, list[i], i % 2, scale);
		assert_done(profile_tree_add(t, list[i], 1, i % 2, scale, &err));
	}
	model_end(&m);
	assert_done(profile_tree_end(t, &err));
	got = text_of_tree(t);
	want = text_of_model(&m);
	assert_int_equal(profile_tree_n_left_out(t), m.n_left_out);
	assert_string_equal(got, want);
	model_done(&m);
}

static void each_view(const struct profile_view *views, size_t n_views, unsigned n_locations)
{
	struct profile *list[3];

	for (uint64_t seed = 0; seed < 2; seed++) {
		for (unsigned i = 0; i < 3; i++)
			list[i] = profile_make(
				&(struct profile_maker){ seed * 3 + i, 1, 90, n_locations, 7, i == 2 });
		for (size_t i = 0; i < n_views; i++)
			for (unsigned n = 1; n <= 3; n++)
				compare(list, n, &views[i]);
		for (unsigned i = 0; i < 3; i++)
			profile_free(list[i]);
	}
}

static void views_are_those_of_the_model(void **state)
{
	static const struct profile_view views[] = {
		{ 0 },
		{ .invert = true },
		{ .by = PROFILE_BY_FILE },
		{ .by = PROFILE_BY_BINARY, .label = "key 0" },
		{ .by = PROFILE_BY_ADDRESS, .label = "key 0" },
		{ .by = PROFILE_BY_FILE, .label = "key 1", .invert = true },
		{ .label = "key 0" },
		{ .label = "key 0", .no_inlines = true },
		{ .label = "key 0", .invert = true },
		{ .label = "no such key" },
	};

	each_view(views, ARRAY_SIZE(views), 12);
	each_view(views, ARRAY_SIZE(views), 60);
}

static void filters_are_those_of_the_model(void **state)
{
	static const struct profile_view views[] = {
		{ .focus = "function 1" },
		{ .label = "key 0", .focus = "function [12]" },
		{ .label = "key 0", .focus = "value 1" },
		{ .label = "key 0", .ignore = "value 1|function 3" },
		{ .label = "key 0", .hide = "function [1-3]" },
		{ .label = "key 0", .hide = "^value [01]$" },
		{ .label = "key 0", .hide = "^value [01]$", .focus = "value 0" },
		{ .label = "key 0", .show = "function [1-3]|value 2" },
		{ .label = "key 0", .show = "function [1-3]", .invert = true },
		{ .label = "key 1", .hide = "unit", .ignore = "function 12", .invert = true },
	};

	each_view(views, ARRAY_SIZE(views), 25);
}

static void small_nodes_are_those_of_the_model(void **state)
{
	static const struct profile_view views[] = {
		{ .max_nodes = 100 },
		{ .max_nodes = 1 },
		{ .max_nodes = 1000000, .min_share = 0.01 },
		{ .max_nodes = 50, .invert = true },
		{ .label = "key 0", .max_nodes = 100 },
		{ .label = "key 0", .max_nodes = 3 },
		{ .label = "key 0", .max_nodes = 1 },
		{ .label = "key 0", .min_share = 0.004 },
		{ .label = "key 0", .min_share = 1 },
		{ .label = "key 0", .max_nodes = 60, .hide = "^value [01]$" },
		{ .label = "key 2",
		  .max_nodes = 200,
		  .min_share = 0.001,
		  .invert = true,
		  .focus = "function" },
	};

	each_view(views, ARRAY_SIZE(views), 25);
}

/* ---- memory ---- */

static int tree_within(const struct profile *p, const struct profile_view *view, struct budget_hold *h,
		       struct err *err)
{
	const struct profile_limits limits = { .memory = h };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;

	if (profile_tree_new(view, &limits, &t, err) < 0 || profile_tree_add(t, p, 1, 0, 1, err) < 0 ||
	    profile_tree_add(t, p, 1, 1, 0.5, err) < 0)
		return -1;
	return profile_tree_end(t, err);
}

/* A tree is refused at any size of the budget that is too small, and returns what it got. */
static void memory_of_a_tree_is_granted(void **state)
{
	static const struct profile_view views[] = { { 0 },
						     { .invert = true, .max_nodes = 100 },
						     { .label = "key 0", .focus = "function 1" },
						     { .label = "key 0", .max_nodes = 100 } };
	AUTO(profile_freep)
	struct profile *p = profile_make(&(struct profile_maker){ 1, 1, 700, 300, 12, false });

	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		bool done = false;
		unsigned n_refused = 0;

		for (uint64_t max = KIB(4); !done; max += KIB(16)) {
			struct budget_hold h;
			struct err err = { 0 };

			budget_hold_init(&h, NULL, BUDGET_QUERY);
			h.max = max;
			done = tree_within(p, &views[i], &h, &err) == 0;
			n_refused += !done;
			if (!done)
				assert_int_equal(err.kind, ERR_LIMIT);
			assert_int_equal(h.used, 0);
			budget_hold_done(&h);
		}
		assert_true(n_refused > 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(views_are_those_of_the_model),
		cmocka_unit_test(filters_are_those_of_the_model),
		cmocka_unit_test(small_nodes_are_those_of_the_model),
		cmocka_unit_test(memory_of_a_tree_is_granted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
