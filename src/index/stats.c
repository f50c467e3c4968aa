/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts over the whole index. They need a walk over it, so they are kept until a process changes the index.
 */
#include "index/internal.h"

static int stats_first_row(struct index *ix, const char *sql, struct db_stmt **ret, struct err *err)
{
	int r;

	if (index_prepare(ix, sql, ret, err) < 0)
		return -1;
	r = db_step(*ret, err);
	if (r == DB_DONE)
		return err_set(err, ERR_INTERNAL, "index: no row from %s", sql);
	return r < 0 ? -1 : 0;
}

static int stats_number(struct index *ix, const char *sql, int64_t *ret, struct err *err)
{
	struct db_stmt *s;

	if (stats_first_row(ix, sql, &s, err) < 0)
		return -1;
	*ret = db_i64(s, 0);
	db_reset(s);
	return 0;
}

static int index_stats_count(struct index *ix, struct index_stats *st, struct err *err)
{
	int64_t n_pages, page_size;
	struct db_stmt *s;

	if (stats_first_row(
		    ix,
		    "SELECT count(*), sum(kind = 2), sum(kind = 2 AND state IN (1, 4)), sum(kind = 2 "
		    "AND state = 2),"
		    " sum(state = 3), sum(iif(kind = 2, size, 0)), sum(map_size), sum(points_size) FROM file",
		    &s, err) < 0)
		return -1;
	st->n_files = (uint64_t)db_i64(s, 0);
	st->n_packages = (uint64_t)db_i64(s, 1);
	st->n_header_only = (uint64_t)db_i64(s, 2);
	st->n_scanned = (uint64_t)db_i64(s, 3);
	st->n_failed = (uint64_t)db_i64(s, 4);
	st->package_bytes = (uint64_t)db_i64(s, 5);
	st->map_bytes = (uint64_t)db_i64(s, 6);
	st->points_bytes = (uint64_t)db_i64(s, 7);
	db_reset(s);
	if (stats_first_row(ix,
			    "SELECT count(*), sum(x), sum(d) FROM"
			    " (SELECT max(flags & 1) AS x, max((flags & 2) / 2) AS d FROM artifact GROUP BY "
			    "build_id)",
			    &s, err) < 0)
		return -1;
	st->n_build_ids = (uint64_t)db_i64(s, 0);
	st->n_executables = (uint64_t)db_i64(s, 1);
	st->n_debug = (uint64_t)db_i64(s, 2);
	db_reset(s);
	if (stats_number(ix, "PRAGMA page_count", &n_pages, err) < 0 ||
	    stats_number(ix, "PRAGMA page_size", &page_size, err) < 0)
		return -1;
	st->db_bytes = (uint64_t)n_pages * (uint64_t)page_size;
	return 0;
}

_Static_assert(ELF_IS_EXECUTABLE == 1 && ELF_IS_DEBUG == 2, "the statement above has them as numbers");
_Static_assert(INDEX_PLAIN == 1 && INDEX_PACKAGE == 2 && INDEX_HEADER == 1 && INDEX_SCANNED == 2 &&
		       INDEX_FAILED == 3 && INDEX_QUEUED == 4,
	       "the database and the statements have them as numbers");

int index_version(struct index *ix, int64_t *ret, struct err *err)
{
	return stats_number(ix, "PRAGMA data_version", ret, err);
}

int index_stats(struct index *ix, struct index_stats *ret, struct err *err)
{
	struct index_stats st = { 0 };
	int64_t version, changes;

	/* The first number changes with commits of others, the second with writes by this connection. */
	if (index_version(ix, &version, err) < 0 ||
	    stats_number(ix, "SELECT total_changes()", &changes, err) < 0)
		return err_in(err, "index");
	if (!ix->stats_known || version != ix->stats_version || changes != ix->stats_changes) {
		if (index_stats_count(ix, &st, err) < 0)
			return err_in(err, "index");
		ix->stats = st;
		ix->stats_version = version;
		ix->stats_changes = changes;
		/* Within a transaction that may be rolled back they must not be kept. */
		ix->stats_known = !ix->open;
	}
	*ret = ix->stats;
	return 0;
}
