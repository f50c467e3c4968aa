/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a damaged table, without those that cannot be read. SQLite gives up at the first damaged page, so
 * numbers after it are probed until one can be read again.
 *
 * An I/O error is not damage: it ends the repair, so that rows which could be read later are not given up.
 */
#include "profilestore/salvage_internal.h"

/*
 * 1: the first row with a number from @id on can be read, and has number *ret. 0: there is none. -1: damage. A damaged
 * page may lead to a row with a smaller number: that is damage, too, or the caller would return to where it was.
 */
static int probe_row(struct db *db, const char *sql, int64_t id, int64_t *ret, struct err *err)
{
	struct db_stmt *st;
	int r;

	if (db_prepare(db, sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	r = db_step_i64(st, ret, err);
	if (r == DB_ROW && *ret < id)
		return err_set(err, ERR_INVALID, "row %lld after row %lld", (long long)*ret, (long long)id);
	return r;
}

/* DB_ROW: the first number after @id from which on rows can be read again. DB_DONE: no more. -1: an I/O error. */
static int skip_damage(struct db *db, const char *sql, int64_t id, int64_t *ret, struct err *err)
{
	int64_t bad = id, step = 1, found = 0;
	int r;

	/* A damaged row may have any number, also the last one. */
	if (bad == INT64_MAX)
		return DB_DONE;
	while ((r = probe_row(db, sql, bad + step, &found, err)) < 0) {
		bad += step;
		if (err->kind == ERR_IO)
			return -1;
		if (step > INT64_MAX / 4 || bad > INT64_MAX - 2 * step)
			return DB_DONE;
		step *= 2;
	}
	/* The readable rows may begin anywhere after the last number that failed. */
	for (int64_t good = bad + step; good - bad > 1;) {
		int64_t mid = bad + (good - bad) / 2;

		r = probe_row(db, sql, mid, &found, err);
		if (r < 0 && err->kind == ERR_IO)
			return -1;
		if (r < 0)
			bad = mid;
		else
			good = mid;
	}
	r = probe_row(db, sql, bad + 1, ret, err);
	return r == DB_ROW || (r < 0 && err->kind == ERR_IO) ? r : DB_DONE;
}

int salvage_each_row(struct salvage *x, const char *sql, salvage_row_fn row, struct err *err)
{
	return salvage_rows_from(x, sql, 1, row, err);
}

int salvage_rows_from(struct salvage *x, const char *sql, int64_t id, salvage_row_fn row, struct err *err)
{
	struct err why = { 0 };

	for (;;) {
		struct db_stmt *st;
		int r;

		why.kind = ERR_NONE;
		if (db_prepare(x->from, sql, &st, &why) < 0) {
			x->damaged = true;
			if (why.kind != ERR_IO)
				return 0;
			*err = why;
			return -1;
		}
		db_bind_i64(st, 1, id);
		while ((r = db_step(st, &why)) == DB_ROW) {
			int64_t at = db_i64(st, 0);

			/* A table that is damaged may lead in a circle. */
			if (at < id) {
				r = -1;
				break;
			}
			if (row(x, st, err) < 0) {
				db_reset(st);
				return -1;
			}
			if (at == INT64_MAX) {
				r = DB_DONE;
				break;
			}
			id = at + 1;
		}
		db_reset(st);
		if (r == DB_DONE)
			return 0;
		x->damaged = true;
		if (why.kind != ERR_IO)
			r = skip_damage(x->from, sql, id, &id, &why);
		if (r == DB_DONE)
			return 0;
		if (why.kind == ERR_IO) {
			*err = why;
			return -1;
		}
	}
}
