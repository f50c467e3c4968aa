/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of a source file or of one function, with the samples of each. Of the view, focus and ignore
 * choose samples, by values of its label, too (profile/filter.h); its other settings do not change lines.
 */
#include "server/profiles/profiles.h"

#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "profile/trie.h"

struct line {
	int64_t line, flat, cum;
	uint64_t seen; /* the number of the last stack that was counted */
};

#define LINE_MEMORY 128u /* of a line in the list and in the map, about */

/* A map has the number of each line + 1; 0 is a line that was not asked for. */
struct lines {
	struct api_lender lender; /* first */
	struct deadline *deadline;
	struct budget_hold *memory;
	uint64_t held; /* of it, by all that follows */
	int64_t total;
	const struct profile *p;
	struct str file, function;
	struct map by_number;
	PROFILE_TABLE(struct line) list;
	struct profile_filters filters;
	struct str label;  /* stacks come by its values, which are matched; empty: they need not be */
	uint8_t of_label;  /* matches of the value */
	uint64_t n_stacks; /* that were counted */
	/* As far as the profile was looked at: it may get more entries with each value of the label. */
	uint32_t n_locations;
	PROFILE_TABLE(uint32_t) of_lines; /* of each line of the profile: its number in the list + 1 */
	PROFILE_TABLE(bool) of_mappings;  /* of each mapping: some of its lines are in the list */
	PROFILE_TABLE(uint8_t) known;     /* of each string, for profile_filtered */
	PROFILE_TABLE(uint8_t) matches;   /* of each location */
	struct str one_file;              /* if only the function was asked for: its file */
};

/* The result for a profile. */
static void lines_forget(struct api_lender *lender)
{
	struct lines *l = (struct lines *)lender;

	map_done(&l->by_number);
	free(TAKE(l->list.p));
	l->list.n = l->list.room = 0;
	free(TAKE(l->of_lines.p));
	free(TAKE(l->of_mappings.p));
	free(TAKE(l->known.p));
	free(TAKE(l->matches.p));
	l->of_lines.n = l->of_mappings.n = l->known.n = l->matches.n = 0;
	l->of_lines.room = l->of_mappings.room = l->known.room = l->matches.room = 0;
	budget_hold_sub(l->memory, l->held);
	l->held = 0;
	l->one_file = (struct str){ 0 };
	l->total = 0;
	l->n_locations = 0;
	l->n_stacks = 0;
}

static void lines_done(struct lines *l)
{
	lines_forget(&l->lender);
	profile_filters_done(&l->filters);
}

static bool line_is_selected(struct lines *l, const struct profile_line *line)
{
	const struct profile_function *f = &l->p->functions.p[line->function];
	struct str name = profile_str(l->p, f->name ? f->name : f->system_name),
		   file = profile_str(l->p, f->file);

	if (l->function.size && !str_eq(name, l->function))
		return false;
	if (l->file.size)
		return str_eq(file, l->file);
	/* A function of the same name in another file is another function. */
	if (!l->one_file.p)
		l->one_file = file;
	return str_eq(file, l->one_file);
}

static int lines_hold(struct lines *l, uint64_t size, struct err *err)
{
	if (budget_hold_add(l->memory, size, err) < 0)
		return -1;
	l->held += size;
	return 0;
}

static int line_number_of(struct lines *l, int64_t line, uint32_t *ret, struct err *err)
{
	struct bytes key = bytes_of(&line, sizeof(line));
	void *known = map_get(&l->by_number, key);

	*ret = (uint32_t)(uintptr_t)known;
	if (known)
		return 0;
	if (lines_hold(l, LINE_MEMORY, err) < 0)
		return -1;
	VEC_PUSH(l->list.p, l->list.n, l->list.room) = (struct line){ .line = line };
	map_put(&l->by_number, key, (void *)(uintptr_t)l->list.n);
	*ret = l->list.n;
	return 0;
}

static int number_lines_at(struct lines *l, const struct profile_location *loc, struct err *err)
{
	for (uint32_t k = 0; k < loc->n_lines; k++) {
		const struct profile_line *line = &l->p->lines.p[loc->first_line + k];

		if (!line_is_selected(l, line))
			continue;
		if (line_number_of(l, line->line, &l->of_lines.p[loc->first_line + k], err) < 0)
			return -1;
		if (loc->mapping != PROFILE_NONE)
			l->of_mappings.p[loc->mapping] = true;
	}
	return 0;
}

/* Let a table have @want entries; new ones are zero. */
static int lines_extend_to(struct lines *l, void **table, uint32_t *n, uint32_t *room, uint32_t want,
			   size_t size, struct err *err)
{
	if (want <= *n)
		return 0;
	if (want > *room) {
		uint32_t more = MAX(want, *room + *room / 4);
		void *p;

		if (lines_hold(l, (uint64_t)(more - *room) * size, err) < 0)
			return -1;
		p = realloc(*table, more * size);
		if (!p)
			return err_set(err, ERR_LIMIT, "no memory for a table of %u entries", more);
		*table = p;
		*room = more;
	}
	memset((char *)*table + *n * size, 0, (want - *n) * size);
	*n = want;
	return 0;
}
#define lines_extend(l, t, want, err) \
	lines_extend_to((l), (void **)&(t)->p, &(t)->n, &(t)->room, (want), sizeof(*(t)->p), (err))

/* A location is matched with patterns, too: so much work at least. */
#define STEPS_OF_MATCH 64u

/* Number the lines of locations that are new, and match these with the patterns. */
static int take_locations(struct lines *l, struct err *err)
{
	const struct profile *p = l->p;
	bool filters = profile_filters_are_set(&l->filters, MATCHES_OF_SAMPLES);
	struct profile_filtered in = { &l->filters, p };

	if (lines_extend(l, &l->of_lines, p->lines.n, err) < 0 ||
	    lines_extend(l, &l->of_mappings, p->mappings.n, err) < 0)
		return -1;
	if (filters && (lines_extend(l, &l->known, p->strings.n, err) < 0 ||
			lines_extend(l, &l->matches, p->locations.n, err) < 0))
		return -1;
	in.known = l->known.p;
	for (; l->n_locations < p->locations.n; l->n_locations++) {
		const struct profile_location *loc = &p->locations.p[l->n_locations];

		if (deadline_check(l->deadline, 1 + loc->n_lines + (filters ? STEPS_OF_MATCH : 0), err) < 0)
			return -1;
		if (filters)
			l->matches.p[l->n_locations] = profile_filters_location(&in, loc);
		if (number_lines_at(l, loc, err) < 0)
			return -1;
	}
	return 0;
}

static bool stack_is_wanted(const struct lines *l, const struct profile_trie *in, uint32_t stack)
{
	uint8_t all = l->of_label;

	if (!profile_filters_are_set(&l->filters, MATCHES_OF_SAMPLES))
		return true;
	for (uint32_t s = stack; s && !deadline_over(l->deadline, 4);) {
		struct profile_stack at = in->stack(in->arg, s);

		all |= l->matches.p[at.location];
		s = at.parent;
	}
	return profile_filters_select(&l->filters, all >> MATCH_FOCUS & 1, all >> MATCH_IGNORE & 1);
}

/* Count each line once per stack, however often it is in it. */
static void lines_add_stack(struct lines *l, const struct profile_trie *in, uint32_t stack)
{
	const struct profile *p = l->p;
	int64_t v = in->values[stack];
	bool leaf = true;

	if (!v || !stack_is_wanted(l, in, stack))
		return;
	l->n_stacks++;
	/* Of the samples that are selected, as in all other answers. */
	l->total = add_saturating(l->total, v);
	for (uint32_t s = stack; s && !deadline_over(l->deadline, 8);) {
		struct profile_stack at = in->stack(in->arg, s);
		const struct profile_location *loc = &p->locations.p[at.location];

		for (uint32_t k = 0; k < loc->n_lines; k++) {
			uint32_t number = l->of_lines.p[loc->first_line + k];
			struct line *line = number ? &l->list.p[number - 1] : NULL;

			if (line && leaf)
				line->flat = add_saturating(line->flat, v);
			if (line && line->seen != l->n_stacks) {
				line->cum = add_saturating(line->cum, v);
				line->seen = l->n_stacks;
			}
			leaf = false;
		}
		leaf = false;
		s = at.parent;
	}
}

static int line_by_number(const void *a, const void *b)
{
	int64_t x = ((const struct line *)a)->line, y = ((const struct line *)b)->line;

	return x < y ? -1 : x > y;
}

static void write_build_ids(struct json_writer *w, const struct lines *l)
{
	const struct profile *p = l->p;
	struct map seen = { 0 };

	json_open_array(w, "build_ids");
	for (uint32_t i = 0; i < p->mappings.n; i++) {
		struct str id = profile_str(p, p->mappings.p[i].build_id);

		if (i >= l->of_mappings.n || !l->of_mappings.p[i] || !id.size ||
		    map_get(&seen, bytes_of(id.p, id.size)))
			continue;
		map_put(&seen, bytes_of(id.p, id.size), w);
		json_put_str(w, NULL, id);
	}
	json_close(w);
	map_done(&seen);
}

static void write_lines(struct json_writer *w, struct lines *l, const struct api_merged *m)
{
	const struct profile *p = l->p;
	struct str type = p->types.n ? profile_str(p, p->types.p[0].type) : STR(""),
		   unit = p->types.n ? profile_str(p, p->types.p[0].unit) : STR("");

	if (l->list.n)
		qsort(l->list.p, l->list.n, sizeof(*l->list.p), line_by_number);
	json_open_object(w, NULL);
	json_put_str(w, "type", type);
	json_put_str(w, "unit", unit);
	json_put_int(w, "total", l->total);
	json_put_str(w, "file", l->file.size ? l->file : l->one_file);
	json_put_str(w, "function", l->function);
	write_build_ids(w, l);
	json_open_array(w, "lines");
	for (uint32_t i = 0; i < l->list.n && !buf_is_over(w->out); i++) {
		json_open_object(w, NULL);
		json_put_int(w, "line", l->list.p[i].line);
		json_put_int(w, "flat", l->list.p[i].flat);
		json_put_int(w, "cum", l->list.p[i].cum);
		json_close(w);
	}
	json_close(w);
	json_put_int(w, "pending", (int64_t)m->n_pending);
	json_close(w);
}

static int lines_of_lent(struct api_lender *lender, const struct profilestore_merged *m,
			 struct profile_trie *in, struct err *err)
{
	struct lines *l = (struct lines *)lender;
	char room[PROFILE_LABEL_TEXT];

	l->p = m->profile;
	if (take_locations(l, err) < 0)
		return -1;
	if (l->label.size)
		l->of_label = profile_filters_text(&l->filters,
						   profile_label_text(l->p, in->labels, l->label, room));
	trie_each(in, s)
	{
		if (deadline_check(l->deadline, 1, err) < 0)
			return -1;
		lines_add_stack(l, in, (uint32_t)s);
	}
	return 0;
}

int api_lines(struct api *a, struct err *err)
{
	const struct profile_view view = { .by = PROFILE_BY_LINE,
					   .focus = api_cstr(a, "focus"),
					   .ignore = api_cstr(a, "ignore") };
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(lines_done)
	struct lines l = { .lender = { .stacks = lines_of_lent, .begin = lines_forget, .alone = true },
			   .deadline = &a->deadline,
			   .memory = &a->memory,
			   .file = api_text(a, "file"),
			   .function = api_text(a, "function") };
	int r;

	if (!l.file.size && !l.function.size)
		return err_set(err, ERR_INVALID, "a 'file' or a 'function' is needed");
	if (profile_filters_init(&l.filters, &view, &a->deadline, err) < 0)
		return -1;
	if (profile_filters_are_set(&l.filters, MATCHES_OF_SAMPLES))
		l.label = api_text(a, "label");
	l.lender.values = l.label.size;
	r = api_merge(a, api_detail(&view), &l.lender, &m, err);
	if (r)
		return r;
	l.p = m.side[0].profile;
	write_lines(&a->json, &l, &m);
	buf_add_char(&a->out, '\n');
	return 0;
}
