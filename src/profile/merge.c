/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging profiles, and the difference of two.
 *
 * Each table of the added profile is read once, and only entries that its samples refer to: a string, a
 * location, a stack is looked up in the other profile one time, however many samples have it.
 */
#include "profile/internal.h"

#include <math.h>
#include <stdlib.h>
#include "base/vec.h"

#define PAGE 4096u

/* The entries of `from` in `to`: index + 1, or 0: not looked up yet. */
struct profile_merge {
	struct profile *to;
	const struct profile *from;
	uint32_t *strings, *mappings, *functions, *locations, *stacks, *label_sets;
	uint64_t *moved; /* of a mapping: added to its addresses */
	PROFILE_TABLE(struct profile_line) lines;
	PROFILE_TABLE(struct profile_label) labels;
	int64_t *row;
};

static uint32_t merge_string_in(struct profile_merge *m, uint32_t s)
{
	if (!m->strings[s])
		m->strings[s] = profile_add_string(m->to, profile_str(m->from, s)) + 1;
	return m->strings[s] - 1;
}

/* ---- what profiles say of themselves ---- */

static bool same_sample_type(struct profile_merge *m, struct profile_type a, struct profile_type b)
{
	return merge_string_in(m, b.type) == a.type && merge_string_in(m, b.unit) == a.unit;
}

static int err_types(struct profile_merge *m, const char *what, struct profile_type a, struct profile_type b,
		     struct err *err)
{
	struct str t = profile_str(m->to, a.type), u = profile_str(m->to, a.unit),
		   v = profile_str(m->from, b.type), w = profile_str(m->from, b.unit);

	return err_set(err, ERR_INVALID, "%s are different: " STR_FMT "/" STR_FMT " and " STR_FMT "/" STR_FMT,
		       what, STR_ARG(t), STR_ARG(u), STR_ARG(v), STR_ARG(w));
}

static int merge_types(struct profile_merge *m, struct err *err)
{
	struct profile *to = m->to;
	const struct profile *from = m->from;

	if (!to->types.n) {
		for (uint32_t i = 0; i < from->types.n; i++)
			profile_add_type(to, profile_str(from, from->types.p[i].type),
					 profile_str(from, from->types.p[i].unit));
		to->period_type = (struct profile_type){ merge_string_in(m, from->period_type.type),
							 merge_string_in(m, from->period_type.unit) };
		return profile_build_end(to, err);
	}
	if (to->types.n != from->types.n)
		return err_set(err, ERR_INVALID, "one has %u sample types, the other %u", to->types.n,
			       from->types.n);
	for (uint32_t i = 0; i < to->types.n; i++)
		if (!same_sample_type(m, to->types.p[i], from->types.p[i]))
			return err_types(m, "sample types", to->types.p[i], from->types.p[i], err);
	if (!same_sample_type(m, to->period_type, from->period_type))
		return err_types(m, "the periods' types", to->period_type, from->period_type, err);
	return 0;
}

static void merge_comments(struct profile_merge *m)
{
	for (uint32_t i = 0; i < m->from->comments.n; i++) {
		uint32_t s = merge_string_in(m, m->from->comments.p[i]), k = 0;

		while (k < m->to->comments.n && m->to->comments.p[k] != s)
			k++;
		if (k == m->to->comments.n && profile_room(m->to, &m->to->comments, 1))
			m->to->comments.p[m->to->comments.n++] = s;
	}
}

static uint32_t first_text(struct profile_merge *m, uint32_t to, uint32_t from)
{
	return to ? to : merge_string_in(m, from);
}

static void merge_head(struct profile_merge *m)
{
	struct profile *to = m->to;
	const struct profile *from = m->from;

	if (from->time_ns && (!to->time_ns || from->time_ns < to->time_ns))
		to->time_ns = from->time_ns;
	to->duration_ns = add_saturating(to->duration_ns, from->duration_ns);
	to->period = MAX(to->period, from->period);
	to->drop_frames = first_text(m, to->drop_frames, from->drop_frames);
	to->keep_frames = first_text(m, to->keep_frames, from->keep_frames);
	to->default_type = first_text(m, to->default_type, from->default_type);
	to->doc_url = first_text(m, to->doc_url, from->doc_url);
	merge_comments(m);
}

/* ---- tables ---- */

static uint64_t mapping_pages(const struct profile_mapping *m)
{
	uint64_t size = m->limit > m->start ? m->limit - m->start : 0;

	return size / PAGE + (size % PAGE != 0);
}

/* The same part of the same file, wherever it was mapped. Mappings are few: a linear search. */
static bool same_part(struct profile_merge *m, const struct profile_mapping *a,
		      const struct profile_mapping *b)
{
	if (mapping_pages(a) != mapping_pages(b) || a->offset != b->offset ||
	    a->build_id != merge_string_in(m, b->build_id))
		return false;
	return b->build_id || a->file == merge_string_in(m, b->file);
}

static uint32_t mapping_in(struct profile_merge *m, uint32_t i)
{
	const struct profile_mapping *from;
	struct profile_mapping new;
	uint32_t k = 0;

	if (i == PROFILE_NONE)
		return PROFILE_NONE;
	if (m->mappings[i])
		return m->mappings[i] - 1;
	from = &m->from->mappings.p[i];
	while (k < m->to->mappings.n && !same_part(m, &m->to->mappings.p[k], from))
		k++;
	if (k < m->to->mappings.n) {
		m->to->mappings.p[k].flags &= from->flags;
		m->moved[i] = m->to->mappings.p[k].start - from->start;
	} else {
		new = *from;
		new.file = merge_string_in(m, from->file);
		new.build_id = merge_string_in(m, from->build_id);
		k = profile_add_mapping(m->to, &new);
	}
	m->mappings[i] = k + 1;
	return k;
}

static uint32_t function_in(struct profile_merge *m, uint32_t i)
{
	const struct profile_function *f = &m->from->functions.p[i];

	if (!m->functions[i]) {
		struct profile_function new = { merge_string_in(m, f->name),
						merge_string_in(m, f->system_name),
						merge_string_in(m, f->file), f->start_line };

		m->functions[i] = profile_add_function(m->to, &new) + 1;
	}
	return m->functions[i] - 1;
}

static uint32_t location_in(struct profile_merge *m, uint32_t i)
{
	const struct profile_location *from = &m->from->locations.p[i];
	struct profile_location new = *from;

	if (m->locations[i])
		return m->locations[i] - 1;
	new.mapping = mapping_in(m, from->mapping);
	if (from->mapping != PROFILE_NONE)
		new.addr += m->moved[from->mapping];
	m->lines.n = 0;
	for (uint32_t k = 0; k < from->n_lines; k++) {
		struct profile_line line = m->from->lines.p[from->first_line + k];

		line.function = function_in(m, line.function);
		VEC_PUSH(m->lines.p, m->lines.n, m->lines.room) = line;
	}
	m->locations[i] = profile_add_location(m->to, &new, m->lines.p, m->lines.n) + 1;
	return m->locations[i] - 1;
}

static int by_key(const void *x, const void *y, void *arg)
{
	const struct profile_label *a = x, *b = y;
	const struct profile *p = arg;
	int r = a->key == b->key ? 0 : str_cmp(profile_str(p, a->key), profile_str(p, b->key));

	if (!r && a->str != b->str)
		r = str_cmp(profile_str(p, a->str), profile_str(p, b->str));
	if (!r)
		r = a->num < b->num ? -1 : a->num > b->num;
	return !r && a->unit != b->unit ? str_cmp(profile_str(p, a->unit), profile_str(p, b->unit)) : r;
}

static uint32_t labels_in(struct profile_merge *m, uint32_t i)
{
	const struct profile_label_set *set = &m->from->label_sets.p[i];

	if (!i || m->label_sets[i])
		return i ? m->label_sets[i] - 1 : 0;
	m->labels.n = 0;
	for (uint32_t k = 0; k < set->n; k++) {
		const struct profile_label *l = &m->from->labels.p[set->first + k];

		VEC_PUSH(m->labels.p, m->labels.n,
			 m->labels.room) = (struct profile_label){ merge_string_in(m, l->key),
								   merge_string_in(m, l->str),
								   merge_string_in(m, l->unit), l->num };
	}
	qsort_r(m->labels.p, m->labels.n, sizeof(*m->labels.p), by_key, m->to);
	m->label_sets[i] = profile_add_labels(m->to, m->labels.p, m->labels.n) + 1;
	return m->label_sets[i] - 1;
}

/* ---- samples ---- */

int64_t profile_scaled(int64_t v, double scale)
{
	double d;

	if (scale == 1)
		return v;
	if (scale == -1)
		return v == INT64_MIN ? INT64_MAX : -v;
	d = round((double)v * scale);
	return d >= 0x1p63 ? INT64_MAX : d < -0x1p63 ? INT64_MIN : (int64_t)d;
}

static bool merge_row_of(struct profile_merge *m, uint32_t sample, const double *scales)
{
	bool any = false;

	for (uint32_t t = 0; t < m->to->types.n; t++) {
		m->row[t] = profile_scaled(profile_value(m->from, sample, t), scales[t]);
		any |= m->row[t] != 0;
	}
	return any;
}

/* Callers come before callees, so one pass down marks and one up adds. */
static void merge_stacks(struct profile_merge *m, const double *scales)
{
	const struct profile *from = m->from;

	for (uint32_t i = 0; i < from->n_samples; i++)
		if (merge_row_of(m, i, scales))
			m->stacks[from->sample_stack[i]] = 1;
	for (uint32_t i = from->stacks.n; i-- > 1;)
		if (m->stacks[i])
			m->stacks[from->stacks.p[i].parent] = 1;
	m->stacks[0] = 0;
	for (uint32_t i = 1; i < from->stacks.n; i++)
		if (m->stacks[i])
			m->stacks[i] = profile_add_stack(m->to, m->stacks[from->stacks.p[i].parent],
							 location_in(m, from->stacks.p[i].location));
}

static void merge_samples(struct profile_merge *m, const double *scales)
{
	const struct profile *from = m->from;

	for (uint32_t i = 0; i < from->n_samples; i++)
		if (merge_row_of(m, i, scales))
			profile_add_sample(m->to, m->stacks[from->sample_stack[i]],
					   labels_in(m, from->sample_labels[i]), m->row);
}

static bool merge_init(struct profile_merge *m)
{
	const struct profile *f = m->from;

	m->strings = calloc((size_t)f->strings.n + 1, 4);
	m->mappings = calloc((size_t)f->mappings.n + 1, 4);
	m->moved = calloc((size_t)f->mappings.n + 1, 8);
	m->functions = calloc((size_t)f->functions.n + 1, 4);
	m->locations = calloc((size_t)f->locations.n + 1, 4);
	m->stacks = calloc((size_t)f->stacks.n + 1, 4);
	m->label_sets = calloc((size_t)f->label_sets.n + 1, 4);
	m->row = calloc(PROFILE_MAX_TYPES, sizeof(*m->row));
	return m->strings && m->mappings && m->moved && m->functions && m->locations && m->stacks &&
	       m->label_sets && m->row;
}

static void merge_done(struct profile_merge *m)
{
	free(m->strings);
	free(m->mappings);
	free(m->moved);
	free(m->functions);
	free(m->locations);
	free(m->stacks);
	free(m->label_sets);
	free(m->lines.p);
	free(m->labels.p);
	free(m->row);
}

static int merge_scaled(struct profile *to, const struct profile *from, const double *scales, struct err *err)
{
	struct profile_merge m = { .to = to, .from = from };
	int r;

	if (!merge_init(&m)) {
		merge_done(&m);
		return profile_err_memory(to, err);
	}
	r = merge_types(&m, err);
	if (r == 0) {
		merge_head(&m);
		merge_stacks(&m, scales);
		merge_samples(&m, scales);
		r = profile_build_end(to, err);
	}
	merge_done(&m);
	return r;
}

int profile_merge(struct profile *to, const struct profile *from, double scale, struct err *err)
{
	double scales[PROFILE_MAX_TYPES];

	for (uint32_t i = 0; i < PROFILE_MAX_TYPES; i++)
		scales[i] = scale;
	return merge_scaled(to, from, scales, err);
}

static bool has_zeros(const struct profile *p)
{
	for (uint32_t i = 0; i < p->n_samples; i++) {
		uint32_t t = 0;

		while (t < p->types.n && !profile_value(p, i, t))
			t++;
		if (t == p->types.n)
			return true;
	}
	return false;
}

/* Entries that only samples without a value refer to go with them. */
int profile_merge_end(struct profile *to, struct err *err)
{
	const struct profile_limits limits = { .max_memory = to->max_memory };
	struct profile *clean, swap;

	if (profile_build_end(to, err) < 0)
		return -1;
	if (!has_zeros(to))
		return 0;
	clean = profile_new(&limits);
	if (profile_merge(clean, to, 1, err) < 0) {
		profile_free(clean);
		return -1;
	}
	swap = *to;
	*to = *clean;
	*clean = swap;
	profile_free(clean);
	return 0;
}

int profile_diff(const struct profile *profile, const struct profile *base, bool normalise,
		 struct profile **ret, struct err *err)
{
	const struct profile_limits limits = { .max_memory = MAX(profile->max_memory, base->max_memory) };
	AUTO(profile_freep) struct profile *p = profile_new(&limits);
	double scales[PROFILE_MAX_TYPES];

	for (uint32_t i = 0; i < PROFILE_MAX_TYPES; i++) {
		bool both = normalise && i < profile->types.n && i < base->types.n;
		double of = both ? (double)profile_total(base, i) : 0;

		scales[i] = !both ? -1 : of != 0 ? -(double)profile_total(profile, i) / of : 0;
	}
	if (profile_merge(p, profile, 1, err) < 0 || merge_scaled(p, base, scales, err) < 0)
		return err_in(err, "the base");
	if (profile_merge_end(p, err) < 0)
		return -1;
	p->duration_ns = profile->duration_ns;
	p->time_ns = profile->time_ns;
	*ret = TAKE(p);
	return 0;
}
