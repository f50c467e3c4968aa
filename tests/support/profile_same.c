/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_same.h"

#include <stdio.h>

struct pair {
	const struct profile *a, *b;
	char *what;
};

static bool differ(const struct pair *x, const char *what, uint32_t i)
{
	snprintf(x->what, PROFILE_WHAT_SIZE, "%s %u", what, i);
	return false;
}

static bool strings_same(const struct pair *x, uint32_t s, uint32_t t)
{
	return str_eq(profile_str(x->a, s), profile_str(x->b, t));
}

static bool types_same(const struct pair *x, struct profile_type s, struct profile_type t)
{
	return strings_same(x, s.type, t.type) && strings_same(x, s.unit, t.unit);
}

static bool heads_same(const struct pair *x)
{
	const struct profile *a = x->a, *b = x->b;

	if (a->types.n != b->types.n)
		return differ(x, "sample types", a->types.n);
	for (uint32_t i = 0; i < a->types.n; i++)
		if (!types_same(x, a->types.p[i], b->types.p[i]))
			return differ(x, "sample type", i);
	if (a->comments.n != b->comments.n)
		return differ(x, "comments", a->comments.n);
	for (uint32_t i = 0; i < a->comments.n; i++)
		if (!strings_same(x, a->comments.p[i], b->comments.p[i]))
			return differ(x, "comment", i);
	if (!types_same(x, a->period_type, b->period_type) || a->period != b->period)
		return differ(x, "period", 0);
	if (a->time_ns != b->time_ns || a->duration_ns != b->duration_ns)
		return differ(x, "time", 0);
	if (!strings_same(x, a->drop_frames, b->drop_frames) ||
	    !strings_same(x, a->keep_frames, b->keep_frames))
		return differ(x, "drop or keep frames", 0);
	if (!strings_same(x, a->default_type, b->default_type) || !strings_same(x, a->doc_url, b->doc_url))
		return differ(x, "default type or address of documents", 0);
	return true;
}

static bool mappings_same(const struct pair *x)
{
	if (x->a->mappings.n != x->b->mappings.n)
		return differ(x, "mappings", x->a->mappings.n);
	for (uint32_t i = 0; i < x->a->mappings.n; i++) {
		const struct profile_mapping *m = &x->a->mappings.p[i], *o = &x->b->mappings.p[i];

		if (m->start != o->start || m->limit != o->limit || m->offset != o->offset ||
		    m->flags != o->flags || !strings_same(x, m->file, o->file) ||
		    !strings_same(x, m->build_id, o->build_id))
			return differ(x, "mapping", i);
	}
	return true;
}

static bool functions_same(const struct pair *x)
{
	if (x->a->functions.n != x->b->functions.n)
		return differ(x, "functions", x->a->functions.n);
	for (uint32_t i = 0; i < x->a->functions.n; i++) {
		const struct profile_function *f = &x->a->functions.p[i], *o = &x->b->functions.p[i];

		if (!strings_same(x, f->name, o->name) || !strings_same(x, f->system_name, o->system_name) ||
		    !strings_same(x, f->file, o->file) || f->start_line != o->start_line)
			return differ(x, "function", i);
	}
	return true;
}

static bool location_same(const struct pair *x, const struct profile_location *l,
			  const struct profile_location *o)
{
	if (l->addr != o->addr || l->mapping != o->mapping || l->folded != o->folded ||
	    l->n_lines != o->n_lines)
		return false;
	for (uint32_t k = 0; k < l->n_lines; k++) {
		const struct profile_line *s = &x->a->lines.p[l->first_line + k],
					  *t = &x->b->lines.p[o->first_line + k];

		if (s->function != t->function || s->line != t->line || s->column != t->column)
			return false;
	}
	return true;
}

static bool locations_same(const struct pair *x)
{
	if (x->a->locations.n != x->b->locations.n)
		return differ(x, "locations", x->a->locations.n);
	for (uint32_t i = 0; i < x->a->locations.n; i++)
		if (!location_same(x, &x->a->locations.p[i], &x->b->locations.p[i]))
			return differ(x, "location", i);
	return true;
}

static bool stacks_same(const struct pair *x, uint32_t s, uint32_t t)
{
	while (s && t) {
		if (x->a->stacks.p[s].location != x->b->stacks.p[t].location)
			return false;
		s = x->a->stacks.p[s].parent;
		t = x->b->stacks.p[t].parent;
	}
	return !s && !t;
}

static bool labels_same(const struct pair *x, uint32_t s, uint32_t t)
{
	const struct profile_label_set *p = &x->a->label_sets.p[s], *q = &x->b->label_sets.p[t];

	if (p->n != q->n)
		return false;
	for (uint32_t i = 0; i < p->n; i++) {
		const struct profile_label *l = &x->a->labels.p[p->first + i],
					   *o = &x->b->labels.p[q->first + i];

		if (l->num != o->num || !strings_same(x, l->key, o->key) ||
		    !strings_same(x, l->str, o->str) || !strings_same(x, l->unit, o->unit))
			return false;
	}
	return true;
}

static bool samples_same(const struct pair *x)
{
	if (x->a->n_samples != x->b->n_samples)
		return differ(x, "samples", x->a->n_samples);
	for (uint32_t i = 0; i < x->a->n_samples; i++) {
		if (!stacks_same(x, x->a->sample_stack[i], x->b->sample_stack[i]))
			return differ(x, "stack of sample", i);
		if (!labels_same(x, x->a->sample_labels[i], x->b->sample_labels[i]))
			return differ(x, "labels of sample", i);
		for (uint32_t t = 0; t < x->a->types.n; t++)
			if (profile_value(x->a, i, t) != profile_value(x->b, i, t))
				return differ(x, "value of sample", i);
	}
	return true;
}

bool profile_same(const struct profile *a, const struct profile *b, char what[PROFILE_WHAT_SIZE])
{
	const struct pair x = { a, b, what };

	return heads_same(&x) && mappings_same(&x) && functions_same(&x) && locations_same(&x) &&
	       samples_same(&x);
}
