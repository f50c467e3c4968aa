/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of a profile that is being added. Those that it was sent with are checked, or made to fit if
 * their sender asks for that; those of its samples come from a program that does not know our rules, and are made to fit.
 */
#include <stdlib.h>
#include "profilestore/add.h"
#include "profilestore/type.h"

#define EXPORTED "exported_"

static int by_label_name(const void *a, const void *b)
{
	return str_cmp(((const struct profilestore_label *)a)->name,
		       ((const struct profilestore_label *)b)->name);
}

static bool has_label(const struct add_group *g, struct str name)
{
	for (size_t i = 0; i < g->n_labels; i++)
		if (str_eq(g->labels[i].name, name))
			return true;
	return false;
}

static void keep_label(struct add *a, struct add_group *g, struct str name, struct str value)
{
	/* It becomes a part of the type. */
	if (str_eq(name, STR("__name__"))) {
		a->name = arena_str(&a->arena, value);
		a->is_named = true;
		return;
	}
	g->labels[g->n_labels++] = (struct profilestore_label){ arena_str(&a->arena, name),
								arena_str(&a->arena, value) };
}

/* ---- given, and right ---- */

/* A label without a value is dropped. */
static int take_strictly(struct add *a, const struct profilestore_label *labels, size_t n,
			 struct add_group *ret, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (label_check(labels[i], err) < 0)
			return -1;
		if (!labels[i].value.size)
			continue;
		if (has_label(ret, labels[i].name) ||
		    (a->is_named && str_eq(labels[i].name, STR("__name__"))))
			return err_set(err, ERR_INVALID, "the label " STR_FMT " occurs twice",
				       STR_ARG(labels[i].name));
		keep_label(a, ret, labels[i].name, labels[i].value);
	}
	return 0;
}

/* ---- given, and mended ---- */

/* Its name is right. Of several labels with one name the first stays. */
static void take_named(struct add *a, struct profilestore_label l, struct add_group *ret)
{
	struct str value = label_fit_value(&a->arena, l.value);
	bool is_name = str_eq(l.name, STR("__name__"));

	if (!value.size)
		return;
	if (is_name ? a->is_named : has_label(ret, l.name)) {
		a->n_dropped++;
		return;
	}
	a->n_mended += !str_eq(value, l.value);
	keep_label(a, ret, l.name, value);
}

/* Under the name that it can have, and that no other label of the profile has: no value is lost. */
static void take_renamed(struct add *a, struct profilestore_label l, struct add_group *ret)
{
	struct str value = label_fit_value(&a->arena, l.value), name;
	AUTO(buf_done) struct buf b = { 0 };

	if (!value.size)
		return;
	if (!l.name.size) {
		a->n_dropped++;
		return;
	}
	buf_add_str(&b, label_fit_name(&a->arena, l.name, STR("")));
	while ((name = buf_str(&b), has_label(ret, name) || str_eq(name, STR("__name__"))) &&
	       b.size < PROFILESTORE_MAX_LABEL_NAME)
		buf_add_char(&b, '_');
	if (has_label(ret, name)) {
		a->n_dropped++;
		return;
	}
	a->n_mended++;
	keep_label(a, ret, name, value);
}

/*
 * Labels of programs that do not know our rules. Those with right names keep them, the others follow in order of their
 * names, so that the result does not depend on the order in which labels are sent.
 */
static void take_mended(struct add *a, const struct profilestore_label *labels, size_t n,
			struct add_group *ret)
{
	struct profilestore_label *wrong = ARENA_NEW_N(&a->arena, struct profilestore_label, n + 1);
	size_t n_wrong = 0;

	for (size_t i = 0; i < n; i++) {
		if (label_name_check(labels[i].name, NULL) < 0)
			wrong[n_wrong++] = labels[i];
		else
			take_named(a, labels[i], ret);
	}
	qsort(wrong, n_wrong, sizeof(*wrong), by_label_name);
	for (size_t i = 0; i < n_wrong; i++)
		take_renamed(a, wrong[i], ret);
}

static int take_given(struct add *a, const struct profilestore_upload *u, struct add_group *ret,
		      struct err *err)
{
	if (u->n_labels > PROFILESTORE_MAX_LABELS)
		return err_set(err, ERR_LIMIT, "has %zu labels, the limit is %u", u->n_labels,
			       PROFILESTORE_MAX_LABELS);
	ret->labels = ARENA_NEW_N(&a->arena, struct profilestore_label, u->n_labels + 1);
	if (u->mends_labels)
		take_mended(a, u->labels, u->n_labels, ret);
	else if (take_strictly(a, u->labels, u->n_labels, ret, err) < 0)
		return -1;
	qsort(ret->labels, ret->n_labels, sizeof(*ret->labels), by_label_name);
	return 0;
}

/* ---- those of samples ---- */

/*
 * Names and values that were made to fit, by number of the string. Few strings may be labels of many samples, so each is copied
 * once, and texts that are equal have one address: a set is known by the addresses of its texts.
 */
struct fitted_texts {
	struct add *a;
	const struct add_group *given;
	struct map names, values, texts;
};

static void fitted_texts_done(struct fitted_texts *f)
{
	map_done(&f->names);
	map_done(&f->values);
	map_done(&f->texts);
}

static struct str *fitted_once(struct fitted_texts *f, struct str text)
{
	struct str *known = map_get(&f->texts, bytes_of(text.p, text.size));

	if (!known) {
		known = ARENA_NEW(&f->a->arena, struct str);
		*known = text;
		map_put(&f->texts, bytes_of(text.p, text.size), known);
	}
	return known;
}

static struct str fitting_name(struct fitted_texts *f, struct str s)
{
	struct str name = label_fit_name(&f->a->arena, s, STR(EXPORTED));

	return has_label(f->given, name)
		       ? (struct str){ name.p - (sizeof(EXPORTED) - 1), name.size + sizeof(EXPORTED) - 1 }
		       : name;
}

static struct str fitting_value(struct fitted_texts *f, struct str s)
{
	return label_fit_value(&f->a->arena, s);
}

static struct str fitted_text(struct fitted_texts *f, struct map *known, uint32_t string,
			      struct str (*fit)(struct fitted_texts *f, struct str s))
{
	struct str *text = map_get(known, bytes_of(&string, sizeof(string)));

	if (!text) {
		text = fitted_once(f, fit(f, profile_str(f->a->p, string)));
		map_put(known, bytes_of(&string, sizeof(string)), text);
	}
	return *text;
}

/* @ret has room for one label more than there may be. */
static int take_set(struct fitted_texts *f, uint32_t set, struct add_group *ret, struct err *err)
{
	const struct profile *p = f->a->p;
	const struct profile_label_set *l = &p->label_sets.p[set];

	ret->n_labels = f->given->n_labels;
	if (ret->n_labels)
		memcpy(ret->labels, f->given->labels, ret->n_labels * sizeof(*ret->labels));
	for (uint32_t i = 0; i < l->n; i++) {
		const struct profile_label *x = &p->labels.p[l->first + i];
		struct str name;

		if (!x->str)
			continue;
		name = fitted_text(f, &f->names, x->key, fitting_name);
		if (!has_label(ret, name))
			ret->labels[ret->n_labels++] = (struct profilestore_label){
				name, fitted_text(f, &f->values, x->str, fitting_value)
			};
		if (ret->n_labels > PROFILESTORE_MAX_LABELS)
			return err_set(err, ERR_LIMIT,
				       "a sample has more than %u labels, with those of the profile",
				       PROFILESTORE_MAX_LABELS);
	}
	qsort(ret->labels, ret->n_labels, sizeof(*ret->labels), by_label_name);
	return 0;
}

static bool has_text(const struct profile *p, uint32_t set)
{
	const struct profile_label_set *l = &p->label_sets.p[set];

	for (uint32_t i = 0; i < l->n; i++)
		if (p->labels.p[l->first + i].str)
			return true;
	return false;
}

static void keep_group(struct add *a, const struct add_group *g, size_t *room)
{
	struct add_group *to;

	if (a->n_groups == *room) {
		struct add_group *more = ARENA_NEW_N(&a->arena, struct add_group, *room * 2);

		memcpy(more, a->groups, *room * sizeof(*more));
		a->groups = more;
		*room *= 2;
	}
	to = &a->groups[a->n_groups++];
	to->labels = ARENA_NEW_N(&a->arena, struct profilestore_label, g->n_labels);
	memcpy(to->labels, g->labels, g->n_labels * sizeof(*g->labels));
	to->n_labels = g->n_labels;
}

/* Sets that differ only in numeric labels are one group. Group 0 is that of samples without labels. */
static int find_groups(struct add *a, struct fitted_texts *f, struct map *known, struct err *err)
{
	const struct profile *p = a->p;
	struct profilestore_label labels[PROFILESTORE_MAX_LABELS + 1];
	struct add_group g = { .labels = labels };
	size_t room = 1;

	a->group_of = ARENA_NEW_N(&a->arena, uint32_t, p->label_sets.n);
	for (uint32_t i = 0; i < p->n_samples; i++) {
		uint32_t set = p->sample_labels[i];
		struct bytes key;
		void *at;

		if (a->group_of[set] || !set || !has_text(p, set))
			continue;
		if (take_set(f, set, &g, err) < 0)
			return -1;
		key = bytes_of(g.labels, g.n_labels * sizeof(*g.labels));
		at = map_get(known, key);
		if (!at) {
			if (a->n_groups > PROFILESTORE_MAX_LABEL_SETS)
				return err_set(err, ERR_LIMIT,
					       "its samples have more than %u different sets of labels: each "
					       "would become a "
					       "series of its own",
					       PROFILESTORE_MAX_LABEL_SETS);
			at = (void *)(uintptr_t)a->n_groups;
			map_put(known, key, at);
			keep_group(a, &g, &room);
		}
		a->group_of[set] = (uint32_t)(uintptr_t)at;
	}
	return 0;
}

/* They are in memory with each series. */
static int check_type_texts(const struct add *a, struct err *err)
{
	const struct profile *p = a->p;
	uint32_t longest = p->period_type.type;

	if (profile_str(p, p->period_type.unit).size > profile_str(p, longest).size)
		longest = p->period_type.unit;
	for (uint32_t i = 0; i < p->types.n; i++) {
		if (profile_str(p, p->types.p[i].type).size > profile_str(p, longest).size)
			longest = p->types.p[i].type;
		if (profile_str(p, p->types.p[i].unit).size > profile_str(p, longest).size)
			longest = p->types.p[i].unit;
	}
	if (MAX(profile_str(p, longest).size, a->name.size) <= PROFILESTORE_MAX_TYPE_TEXT)
		return 0;
	return err_set(err, ERR_LIMIT,
		       "the name of a sample type, a unit or __name__ has %zu bytes, the limit is %u",
		       MAX(profile_str(p, longest).size, a->name.size), PROFILESTORE_MAX_TYPE_TEXT);
}

int add_labels(struct add *a, const struct profilestore_upload *u, struct err *err)
{
	AUTO(fitted_texts_done) struct fitted_texts f = { .a = a };
	struct add_group given = { 0 };
	struct map known = { 0 };
	int r;

	if (!a->name.size)
		a->name = TYPE_NAME_UNKNOWN;
	if (take_given(a, u, &given, err) < 0 || check_type_texts(a, err) < 0)
		return -1;
	a->groups = ARENA_NEW(&a->arena, struct add_group);
	a->groups[0] = given;
	a->n_groups = 1;
	f.given = &given;
	r = find_groups(a, &f, &known, err);
	map_done(&known);
	return r;
}
