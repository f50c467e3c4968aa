/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Series without profiles are removed, so that labels that are never seen again do not use up the number of series.
 *
 * A series is removed in a transaction of its own: no job that runs with it can find it. Queries may still see it;
 * its place is used again at once, its memory when they have ended.
 */
#include "profilestore/internal.h"

#include <stdlib.h>
#include "base/vec.h"

#define STEP_SERIES 512u    /* removed in one transaction */
#define STEP_SEEN   100000u /* looked at in one step */

struct removal {
	struct job job;
	struct series *v[STEP_SERIES];
	bool empty[STEP_SERIES];
	size_t n;
	const struct series *unsaved; /* the first that this transaction writes; NULL: none */
};

/* Whether it has neither profiles nor rollups. */
static int series_is_empty(struct db *db, uint32_t series, bool *ret, struct err *err)
{
	struct db_stmt *st;
	int64_t has = 1;

	if (db_prepare(
		    db,
		    "SELECT EXISTS (SELECT 1 FROM profile WHERE series = ?1) OR EXISTS (SELECT 1 FROM rollup "
		    "WHERE series = ?1)",
		    &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, series);
	if (db_step_i64(st, &has, err) < 0)
		return -1;
	*ret = !has;
	return 0;
}

static int removal_apply(struct profilestore *s, struct job *j, struct err *err)
{
	struct removal *m = CONTAINER_OF(j, struct removal, job);
	struct db_stmt *st;

	for (size_t i = 0; i < m->n; i++) {
		/* One that came with a refused profile is written with this transaction, and removed later. */
		if (!m->v[i]->saved) {
			m->unsaved = m->unsaved ? m->unsaved : m->v[i];
			continue;
		}
		if (series_is_empty(s->db, m->v[i]->id, &m->empty[i], err) < 0)
			return -1;
		if (!m->empty[i])
			continue;
		if (db_prepare(s->db, "DELETE FROM series WHERE id = ?", &st, err) < 0)
			return -1;
		db_bind_i64(st, 1, m->v[i]->id);
		if (db_step(st, err) < 0)
			return -1;
	}
	return 0;
}

static void release_series(void *x)
{
	series_free(x);
}

static void removal_done(struct profilestore *s, struct job *j, const struct err *err)
{
	struct removal *m = CONTAINER_OF(j, struct removal, job);

	for (size_t i = 0; !err && i < m->n; i++) {
		struct series *x = m->v[i];

		if (!m->empty[i])
			continue;
		__atomic_store_n((struct series **)column_at(&s->series, x->slot), NULL, __ATOMIC_RELEASE);
		map_del(&s->series_by_key, x->key);
		VEC_PUSH(s->free_series.v, s->free_series.n, s->free_series.room) = x->slot;
		atomic_fetch_sub(&s->n_series, 1);
		atomic_fetch_sub(&s->series_size, series_memory(x));
		if (x->sender) {
			x->sender->n_series--;
			x->sender->series_size -= series_memory(x);
		}
		epoch_retire(s, x, release_series);
	}
}

int series_sweep(struct profilestore *s, bool *ret_more, struct err *err)
{
	struct removal m = { .job = { .apply = removal_apply, .done = removal_done, .alone = true } };
	uint32_t n = column_n(&s->series);

	if (s->sweep_series >= n)
		s->sweep_series = 0;
	for (uint32_t seen = 0; s->sweep_series < n && seen < STEP_SEEN && m.n < STEP_SERIES; seen++) {
		struct series *x = series_at(&s->series, s->sweep_series++);

		if (x && atomic_load(&x->first_ms) > atomic_load(&x->last_ms))
			m.v[m.n++] = x;
	}
	*ret_more = m.n && s->sweep_series < n;
	if (m.n && profilestore_writer_run(s, &m.job, err) < 0)
		return -1;
	/* They are counted until they are removed, but no profile has to make room for them. */
	if (m.unsaved) {
		s->sweep_series = m.unsaved->slot;
		*ret_more = true;
	}
	return 0;
}
