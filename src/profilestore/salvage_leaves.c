/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database whose first page is lost: with it the schema is lost, and the way to all tables. The rows of all leaves of the
 * file are put into a database of their own, from which they are copied as from any damaged one.
 *
 * Columns and digests tell of which table a row is. A row without a digest of its own is taken from a sound page only.
 * Rows that retention has deleted may be among them, where their pages were free and not given back; retention deletes
 * them again.
 */
#include "profilestore/salvage_internal.h"

#include <stdlib.h>

struct leaves {
	struct db *file, *to;
	struct db_pages pages;
	int64_t next_profile; /* of the latest row of counter; 0: none was seen */
};

static bool are_integers(const struct db_raw_row *row, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (row->v[i].kind != DB_RAW_INTEGER)
			return false;
	return true;
}

/* The first column is the number of the row, which is not in its record. */
static int insert_row(struct leaves *l, const char *sql, const struct db_raw_row *row, struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(l->to, sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, row->id);
	for (size_t i = 1; i < row->n; i++)
		if (row->v[i].kind == DB_RAW_INTEGER)
			db_bind_i64(st, (int)i + 1, row->v[i].i);
		else
			db_bind_bytes(st, (int)i + 1, row->v[i].b);
	return db_step(st, err);
}

/* Rows of versions without a sender have a column less, as have those of counter without a generation. */
enum { SERIES_KEY = 1, SERIES_SENDER, SERIES_COLUMNS };
enum { SEGMENT_DIGEST = 2, SEGMENT_DATA, SEGMENT_COLUMNS };
enum { COUNTER_NEXT = 1, COUNTER_N_PROFILES, COUNTER_GENERATION = 4, COUNTER_COLUMNS };

bool salvage_is_series(const struct db_raw_row *row)
{
	struct series *s;

	if (!row->is_sound || row->is_free || (row->n != SERIES_COLUMNS && row->n != SERIES_SENDER) ||
	    row->v[SERIES_KEY].kind != DB_RAW_BYTES || row->id <= 0 || row->id >= UINT32_MAX)
		return false;
	s = series_of_key(row->v[SERIES_KEY].b, (uint32_t)row->id, NULL);
	series_free(s);
	return s != NULL;
}

static bool is_segment(const struct db_raw_row *row)
{
	int64_t kind = segment_kind_of(row->id);

	return row->n == SEGMENT_COLUMNS && are_integers(row, 1, SEGMENT_DATA) &&
	       row->v[SEGMENT_DATA].kind == DB_RAW_BYTES && kind >= SEGMENT_STRINGS &&
	       kind < SEGMENT_N_KINDS &&
	       (uint64_t)row->v[SEGMENT_DIGEST].i ==
		       segment_digest((enum segment_kind)kind, row->v[SEGMENT_DATA].b);
}

static bool is_counter(const struct leaves *l, const struct db_raw_row *row)
{
	return row->is_sound && row->id == 1 && (row->n == COUNTER_COLUMNS || row->n == COUNTER_GENERATION) &&
	       are_integers(row, 1, row->n) && row->v[COUNTER_NEXT].i > l->next_profile;
}

static int keep_counter(struct leaves *l, const struct db_raw_row *row, struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(l->to, "UPDATE counter SET next_profile = ?, n_profiles = ?, generation = ?", &st,
		       err) < 0)
		return -1;
	l->next_profile = row->v[COUNTER_NEXT].i;
	db_bind_i64(st, 1, l->next_profile);
	db_bind_i64(st, 2, row->v[COUNTER_N_PROFILES].i);
	db_bind_i64(st, 3, row->n == COUNTER_COLUMNS ? row->v[COUNTER_GENERATION].i : 0);
	return db_step(st, err);
}

static int take_leaf_row(void *arg, const struct db_raw_row *row, struct err *err)
{
	struct leaves *l = arg;

	if (salvage_is_profile(row))
		return insert_row(l, "INSERT OR IGNORE INTO profile VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row,
				  err);
	if (is_segment(row))
		return insert_row(l, "INSERT OR IGNORE INTO segment VALUES (?, ?, ?, ?)", row, err);
	if (is_counter(l, row))
		return keep_counter(l, row, err);
	if (salvage_is_series(row))
		return insert_row(l,
				  row->n == SERIES_COLUMNS
					  ? "INSERT OR IGNORE INTO series (id, key, sender) VALUES (?, ?, ?)"
					  : "INSERT OR IGNORE INTO series (id, key) VALUES (?, ?)",
				  row, err);
	return 0;
}

static int read_leaves(struct leaves *l, struct err *err)
{
	if (db_begin(l->to, err) < 0)
		return -1;
	for (uint64_t page = 2; page <= l->pages.n; page++)
		if (db_raw_rows(l->file, &l->pages, page, take_leaf_row, l, err) < 0)
			return -1;
	/* Not known, rather than none. */
	if (!l->next_profile && db_exec(l->to, "UPDATE counter SET n_profiles = -1", err) < 0)
		return -1;
	return db_commit(l->to, err);
}

/* The pages of the file, after its WAL was copied into it: the latest rows may be there alone. */
static int open_file(struct leaves *l, const char *path, struct err *err)
{
	const struct db_options pages_only = { .read_only = true, .pages_only = true };

	if (db_open(path, &pages_only, &l->file, err) < 0)
		return -1;
	db_pages_guess(l->file, &l->pages);
	if (db_wal_write_back(path, &l->pages, err) < 0)
		return -1;
	db_pages_guess(l->file, &l->pages);
	return 0;
}

int salvage_leaves(const char *path, const char *new_path, struct db **ret, struct err *err)
{
	struct leaves l = { 0 };
	int r;

	db_files_remove(new_path);
	r = open_file(&l, path, err);
	if (r == 0)
		r = db_open(new_path, &store_db_options, &l.to, err);
	if (r == 0)
		r = db_migrate(l.to, profilestore_migrations, profilestore_n_migrations, err);
	if (r == 0)
		r = read_leaves(&l, err);
	db_close(l.file);
	if (r == 0)
		*ret = l.to;
	else
		db_close(l.to);
	return r;
}
