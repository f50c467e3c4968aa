/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that lack their supplementary (dwz) file, by the build ID of that file, so that they are renewed when
 * it arrives. The list is of this process: a table in the store gets onto it with the first search for its file.
 *
 * All under the lock of struct tables.
 */
#include "base/vec.h"
#include "tables/internal.h"

#include <stdlib.h>

#define LACKING_MAX \
	65536u /* tables; above it, those of another file are forgotten: they wait for their next try */

struct lacking {
	struct build_id *list;
	size_t n, room;
};

static size_t lacking_find(const struct lacking *l, const struct build_id *id)
{
	size_t i = 0;

	while (i < l->n && !build_id_eq(&l->list[i], id))
		i++;
	return i;
}

static void lacking_free(struct lacking *l)
{
	free(l->list);
	free(l);
}

static void lacking_drop(struct tables *t, struct bytes alt)
{
	struct lacking *l = map_del(&t->lacking, alt);

	if (!l)
		return;
	t->n_lacking -= l->n;
	lacking_free(l);
}

static void lacking_make_room(struct tables *t)
{
	struct bytes alt;
	size_t it = 0;
	void *ignored;

	if (t->n_lacking < LACKING_MAX || !map_next(&t->lacking, &it, &alt, &ignored))
		return;
	lacking_drop(t, alt);
}

void lacking_note(struct tables *t, const struct build_id *alt, const struct build_id *id)
{
	struct lacking *l;

	lacking_make_room(t);
	l = map_get(&t->lacking, build_id_bytes(alt));
	if (!l) {
		l = NEW(struct lacking);
		map_put(&t->lacking, build_id_bytes(alt), l);
	}
	if (lacking_find(l, id) < l->n)
		return;
	VEC_PUSH(l->list, l->n, l->room) = *id;
	t->n_lacking++;
}

void lacking_forget(struct tables *t, const struct build_id *alt, const struct build_id *id)
{
	struct lacking *l = map_get(&t->lacking, build_id_bytes(alt));
	size_t i = l ? lacking_find(l, id) : 0;

	if (!l || i == l->n)
		return;
	l->list[i] = l->list[--l->n];
	t->n_lacking--;
	if (!l->n)
		lacking_drop(t, build_id_bytes(alt));
}

struct build_id *lacking_take(struct tables *t, const struct build_id *alt, size_t *ret_n)
{
	struct lacking *l = map_get(&t->lacking, build_id_bytes(alt));
	struct build_id *list;

	*ret_n = l ? l->n : 0;
	if (!l)
		return NULL;
	list = TAKE(l->list);
	lacking_drop(t, build_id_bytes(alt));
	return list;
}

void lacking_done(struct tables *t)
{
	struct bytes alt;
	void *l;

	map_each (&t->lacking, it, &alt, &l)
		lacking_free(l);
	map_done(&t->lacking);
}
