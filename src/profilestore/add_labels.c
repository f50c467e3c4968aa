/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of a profile that is being added. Those that it was sent with are checked; those of its samples come
 * from a program that does not know our rules, and are made to fit.
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

/* A label without a value is dropped. __name__ is not stored as a label. */
static int take_given(struct add *a, const struct profilestore_label *labels, size_t n, struct add_group *ret,
		      struct err *err)
{
	size_t n_kept = 0;

	if (n > PROFILESTORE_MAX_LABELS)
		return err_set(err, ERR_LIMIT, "has %zu labels, the limit is %u", n, PROFILESTORE_MAX_LABELS);
	ret->labels = ARENA_NEW_N(&a->arena, struct profilestore_label, n + 1);
	for (size_t i = 0; i < n; i++) {
		if (label_check(labels[i], err) < 0)
			return -1;
		if (!labels[i].value.size)
			continue;
		if (str_eq(labels[i].name, STR("__name__"))) {
			a->name = arena_str(&a->arena, labels[i].value);
			continue;
		}
		ret->labels[n_kept++] = (struct profilestore_label){ arena_str(&a->arena, labels[i].name),
								     arena_str(&a->arena, labels[i].value) };
	}
	qsort(ret->labels, n_kept, sizeof(*ret->labels), by_label_name);
	for (size_t i = 1; i < n_kept; i++)
		if (str_eq(ret->labels[i - 1].name, ret->labels[i].name))
			return err_set(err, ERR_INVALID, "the label " STR_FMT " occurs twice",
				       STR_ARG(ret->labels[i].name));
	ret->n_labels = n_kept;
	return 0;
}

/* ---- those of samples ---- */

static bool has_label(const struct add_group *g, struct str name)
{
	for (size_t i = 0; i < g->n_labels; i++)
		if (str_eq(g->labels[i].name, name))
			return true;
	return false;
}

static struct str fitting_name(struct add *a, const struct add_group *given, struct str s)
{
	size_t size = MIN(s.size, (size_t)PROFILESTORE_MAX_LABEL_NAME - (sizeof(EXPORTED) - 1) - 1);
	char *t = arena_alloc(&a->arena, size + sizeof(EXPORTED) + 1), *name = t + sizeof(EXPORTED) - 1;
	struct str ret = { name, 0 };

	memcpy(t, EXPORTED, sizeof(EXPORTED) - 1);
	if (!size || (s.p[0] >= '0' && s.p[0] <= '9'))
		name[ret.size++] = '_';
	for (size_t i = 0; i < size; i++)
		name[ret.size++] = label_name_char(s.p[i]) ? s.p[i] : '_';
	return has_label(given, ret) ? (struct str){ t, ret.size + sizeof(EXPORTED) - 1 } : ret;
}

/* Cut between characters; bytes that are not UTF-8 become question marks. */
static struct str fitting_value(struct add *a, struct str s)
{
	size_t size = MIN(s.size, (size_t)PROFILESTORE_MAX_LABEL_VALUE);
	char *t = arena_alloc(&a->arena, size + 1);
	struct str ret = { t, 0 };

	for (size_t i = 0, n; i < size; i += n) {
		n = label_char_size((struct str){ s.p + i, s.size - i });
		if (i + n > size)
			break;
		if (n)
			memcpy(t + ret.size, s.p + i, n);
		else
			t[ret.size] = '?';
		n = MAX(n, (size_t)1);
		ret.size += n;
	}
	return ret;
}

static int take_set(struct add *a, const struct add_group *given, uint32_t set, struct add_group *ret,
		    struct err *err)
{
	const struct profile *p = a->p;
	const struct profile_label_set *l = &p->label_sets.p[set];

	ret->labels = ARENA_NEW_N(&a->arena, struct profilestore_label, given->n_labels + l->n + 1);
	ret->n_labels = given->n_labels;
	if (given->n_labels)
		memcpy(ret->labels, given->labels, given->n_labels * sizeof(*given->labels));
	for (uint32_t i = 0; i < l->n; i++) {
		const struct profile_label *x = &p->labels.p[l->first + i];
		struct str name;

		if (!x->str)
			continue;
		name = fitting_name(a, given, profile_str(p, x->key));
		if (!has_label(ret, name))
			ret->labels[ret->n_labels++] = (struct profilestore_label){
				name, fitting_value(a, profile_str(p, x->str))
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

/* Sets that differ only in numeric labels are one group. Group 0 is that of samples without labels. */
static int find_groups(struct add *a, struct map *known, struct err *err)
{
	const struct profile *p = a->p;
	AUTO(buf_done) struct buf key = { 0 };
	static const struct str no_texts[SERIES_N_TEXTS];
	size_t room = 1;

	a->group_of = ARENA_NEW_N(&a->arena, uint32_t, p->label_sets.n);
	for (uint32_t i = 0; i < p->n_samples; i++) {
		uint32_t set = p->sample_labels[i];
		struct add_group g;
		void *at;

		if (a->group_of[set] || !set || !has_text(p, set))
			continue;
		if (take_set(a, &a->groups[0], set, &g, err) < 0)
			return -1;
		series_key(&key, no_texts, false, g.labels, g.n_labels);
		at = map_get(known, bytes_of(key.p, key.size));
		if (!at) {
			if (a->n_groups > PROFILESTORE_MAX_LABEL_SETS)
				return err_set(err, ERR_LIMIT,
					       "its samples have more than %u different sets of labels: each "
					       "would become a "
					       "series of its own",
					       PROFILESTORE_MAX_LABEL_SETS);
			if (a->n_groups == room) {
				struct add_group *more = ARENA_NEW_N(&a->arena, struct add_group, room * 2);

				memcpy(more, a->groups, room * sizeof(*more));
				a->groups = more;
				room *= 2;
			}
			a->groups[a->n_groups] = g;
			at = (void *)(uintptr_t)a->n_groups++;
			map_put(known, bytes_of(key.p, key.size), at);
		}
		a->group_of[set] = (uint32_t)(uintptr_t)at;
	}
	return 0;
}

int add_labels(struct add *a, const struct profilestore_label *labels, size_t n, struct err *err)
{
	struct map known = { 0 };
	int r;

	a->groups = ARENA_NEW(&a->arena, struct add_group);
	a->n_groups = 1;
	if (!a->name.size)
		a->name = TYPE_NAME_UNKNOWN;
	if (take_given(a, labels, n, &a->groups[0], err) < 0)
		return -1;
	r = find_groups(a, &known, err);
	map_done(&known);
	return r;
}
