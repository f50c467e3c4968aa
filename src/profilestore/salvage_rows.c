/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a damaged table, without those that cannot be read. SQLite gives up at the first damaged page, so
 * numbers after it are probed until one can be read again.
 */
#include "profilestore/salvage_internal.h"

/* 1: the first row with a number from @id on can be read, and has number *ret. 0: there is none. -1: damage. */
static int probe_row(struct db *db, const char *sql, int64_t id, int64_t *ret)
{
	struct db_stmt *st;

	if (db_prepare(db, sql, &st, NULL) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	return db_step_i64(st, ret, NULL);
}

/* The first number after @id from which on rows can be read again; 0: no more. */
static int64_t skip_damage(struct db *db, const char *sql, int64_t id)
{
	int64_t bad = id, step = 1, found = 0;
	int r;

	while ((r = probe_row(db, sql, bad + step, &found)) < 0) {
		bad += step;
		if (step > INT64_MAX / 4)
			return 0;
		step *= 2;
	}
	/* The readable rows may begin anywhere after the last number that failed. */
	for (int64_t good = bad + step; good - bad > 1;) {
		int64_t mid = bad + (good - bad) / 2;

		r = probe_row(db, sql, mid, &found);
		if (r < 0)
			bad = mid;
		else
			good = mid;
	}
	r = probe_row(db, sql, bad + 1, &found);
	return r == DB_ROW ? found : 0;
}

int salvage_each_row(struct salvage *x, const char *sql, salvage_row_fn row, struct err *err)
{
	int64_t id = 1;

	for (;;) {
		struct db_stmt *st;
		int r;

		if (db_prepare(x->from, sql, &st, NULL) < 0)
			return 0;
		db_bind_i64(st, 1, id);
		while ((r = db_step(st, NULL)) == DB_ROW) {
			/* A table that is damaged may lead in a circle. */
			if (db_i64(st, 0) < id) {
				r = -1;
				break;
			}
			id = db_i64(st, 0) + 1;
			if (row(x, st, err) < 0) {
				db_reset(st);
				return -1;
			}
		}
		db_reset(st);
		if (r == DB_DONE)
			return 0;
		id = skip_damage(x->from, sql, id);
		if (!id)
			return 0;
	}
}
