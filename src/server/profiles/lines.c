/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of a source file or of one function, with the samples of each. Of the view, focus and ignore
 * choose samples; its other settings do not change lines.
 */
#include "server/profiles/profiles.h"

#include <stdlib.h>
#include "base/vec.h"
#include "profile/trie.h"

struct line {
	int64_t line, flat, cum;
	uint32_t seen; /* the last stack that was counted + 1 */
};

enum { MATCHES_FOCUS = 1, MATCHES_IGNORE = 2 };

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
	uint32_t *of_lines; /* of each line of the profile: its number in the list + 1 */
	bool *of_mappings;  /* of each mapping: some of its lines are in the list */
	struct pattern *focus, *ignore;
	bool whole_focus, whole_ignore; /* matched with the whole text of lines and addresses, too */
	uint8_t *matches;    /* of each location, if there is a pattern: MATCHES_FOCUS, MATCHES_IGNORE */
	struct str one_file; /* if only the function was asked for: its file */
};

/* The result for a profile. */
static void lines_forget(struct api_lender *lender)
{
	struct lines *l = (struct lines *)lender;

	map_done(&l->by_number);
	free(TAKE(l->list.p));
	l->list.n = l->list.room = 0;
	free(TAKE(l->of_lines));
	free(TAKE(l->of_mappings));
	free(TAKE(l->matches));
	budget_hold_sub(l->memory, l->held);
	l->held = 0;
	l->one_file = (struct str){ 0 };
	l->total = 0;
}

static void lines_done(struct lines *l)
{
	lines_forget(&l->lender);
	pattern_free(l->focus);
	pattern_free(l->ignore);
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

static int lines_number(struct lines *l, struct err *err)
{
	const struct profile *p = l->p;

	for (uint32_t i = 0; i < p->locations.n; i++) {
		const struct profile_location *loc = &p->locations.p[i];

		if (deadline_check(l->deadline, 1 + loc->n_lines, err) < 0)
			return -1;
		for (uint32_t k = 0; k < loc->n_lines; k++) {
			const struct profile_line *line = &p->lines.p[loc->first_line + k];

			if (!line_is_selected(l, line))
				continue;
			if (line_number_of(l, line->line, &l->of_lines[loc->first_line + k], err) < 0)
				return -1;
			if (loc->mapping != PROFILE_NONE)
				l->of_mappings[loc->mapping] = true;
		}
	}
	return 0;
}

static bool is_line_found(const struct lines *l, struct pattern *p, const struct profile_line *line)
{
	AUTO(buf_done) struct buf text = { 0 };

	profile_line_text(l->p, line, &text);
	return pattern_matches(p, buf_str(&text), l->deadline);
}

static bool pattern_found(const struct lines *l, struct pattern *p, bool whole,
			  const struct profile_location *loc)
{
	char text[PROFILE_ADDRESS_TEXT];

	if (!p)
		return false;
	if (!loc->n_lines || whole) {
		profile_address_text(l->p, loc, text);
		if (pattern_matches(p, str_of(text), l->deadline))
			return true;
	}
	if (loc->mapping != PROFILE_NONE &&
	    pattern_matches(p, profile_str(l->p, l->p->mappings.p[loc->mapping].file), l->deadline))
		return true;
	for (uint32_t k = 0; k < loc->n_lines; k++) {
		const struct profile_function *f =
			&l->p->functions.p[l->p->lines.p[loc->first_line + k].function];

		if (pattern_matches(p, profile_str(l->p, f->name ? f->name : f->system_name), l->deadline) ||
		    pattern_matches(p, profile_str(l->p, f->file), l->deadline) ||
		    (whole && is_line_found(l, p, &l->p->lines.p[loc->first_line + k])))
			return true;
	}
	return false;
}

/* Regular expressions are matched with the names of a location: so much work at least. */
#define STEPS_OF_MATCH 64u

static int lines_patterns(struct api *a, struct lines *l, struct err *err)
{
	struct str focus = api_text(a, "focus"), ignore = api_text(a, "ignore");

	if (focus.size && pattern_new(focus, false, &l->focus, err) < 0)
		return err_in(err, "focus");
	if (ignore.size && pattern_new(ignore, false, &l->ignore, err) < 0)
		return err_in(err, "ignore");
	l->whole_focus = profile_pattern_is_whole(api_cstr(a, "focus"));
	l->whole_ignore = profile_pattern_is_whole(api_cstr(a, "ignore"));
	return 0;
}

static int lines_match(struct lines *l, struct err *err)
{
	if (!l->focus && !l->ignore)
		return 0;
	l->matches = calloc((size_t)l->p->locations.n + 1, 1);
	if (!l->matches)
		return err_set(err, ERR_LIMIT, "no memory for %u locations", l->p->locations.n);
	for (uint32_t i = 0; i < l->p->locations.n; i++) {
		const struct profile_location *loc = &l->p->locations.p[i];

		if (deadline_check(l->deadline, STEPS_OF_MATCH, err) < 0)
			return -1;
		l->matches[i] = (pattern_found(l, l->focus, l->whole_focus, loc) ? MATCHES_FOCUS : 0) |
				(pattern_found(l, l->ignore, l->whole_ignore, loc) ? MATCHES_IGNORE : 0);
	}
	return 0;
}

static bool stack_is_wanted(const struct lines *l, const struct profile_trie *in, uint32_t stack)
{
	uint8_t all = 0;

	if (!l->matches)
		return true;
	for (uint32_t s = stack; s && !deadline_over(l->deadline, 4);) {
		struct profile_stack at = in->stack(in->arg, s);

		all |= l->matches[at.location];
		s = at.parent;
	}
	return !(all & MATCHES_IGNORE) && (!l->focus || all & MATCHES_FOCUS);
}

/* Count each line once per stack, however often it is in it. */
static void lines_add_stack(struct lines *l, const struct profile_trie *in, uint32_t stack)
{
	const struct profile *p = l->p;
	int64_t v = in->values[stack];
	bool leaf = true;

	if (!v || !stack_is_wanted(l, in, stack))
		return;
	/* Of the samples that are selected, as in all other answers. */
	l->total = add_saturating(l->total, v);
	for (uint32_t s = stack; s && !deadline_over(l->deadline, 8);) {
		struct profile_stack at = in->stack(in->arg, s);
		const struct profile_location *loc = &p->locations.p[at.location];

		for (uint32_t k = 0; k < loc->n_lines; k++) {
			uint32_t number = l->of_lines[loc->first_line + k];
			struct line *line = number ? &l->list.p[number - 1] : NULL;

			if (line && leaf)
				line->flat = add_saturating(line->flat, v);
			if (line && line->seen != stack + 1) {
				line->cum = add_saturating(line->cum, v);
				line->seen = stack + 1;
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

		if (!l->of_mappings[i] || !id.size || map_get(&seen, bytes_of(id.p, id.size)))
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

	l->p = m->profile;
	if (lines_hold(l,
		       ((uint64_t)l->p->lines.n + 1) * sizeof(*l->of_lines) + l->p->mappings.n +
			       l->p->locations.n + 2,
		       err) < 0)
		return -1;
	l->of_lines = calloc((size_t)l->p->lines.n + 1, sizeof(*l->of_lines));
	l->of_mappings = calloc((size_t)l->p->mappings.n + 1, sizeof(*l->of_mappings));
	if (!l->of_lines || !l->of_mappings)
		return err_set(err, ERR_LIMIT, "no memory for %u lines", l->p->lines.n);
	if (lines_match(l, err) < 0 || lines_number(l, err) < 0)
		return -1;
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
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(lines_done)
	struct lines l = { .lender = { .stacks = lines_of_lent, .begin = lines_forget, .alone = true },
			   .deadline = &a->deadline,
			   .memory = &a->memory,
			   .file = api_text(a, "file"),
			   .function = api_text(a, "function") };
	bool of_place;
	int r;

	if (!l.file.size && !l.function.size)
		return err_set(err, ERR_INVALID, "a 'file' or a 'function' is needed");
	if (lines_patterns(a, &l, err) < 0)
		return -1;
	of_place = api_selects_places(api_cstr(a, "focus"), api_cstr(a, "ignore"));
	r = api_merge(a, of_place ? PROFILESTORE_ADDRESSES : PROFILESTORE_LINES, &l.lender, &m, err);
	if (r)
		return r;
	l.p = m.side[0].profile;
	write_lines(&a->json, &l, &m);
	buf_add_char(&a->out, '\n');
	return 0;
}
