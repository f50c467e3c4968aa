/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: copying the WAL into the database file, so that the WAL can begin anew.
 *
 * SQLite copies by itself in the commit that makes the WAL longer than 1000 pages. But the WAL begins anew only
 * when no reader uses it, so under readers that overlap each other it grows without end.
 */
#include "db/internal.h"

#include <fcntl.h>
#include <unistd.h>
#include "base/file.h"

uint64_t db_wal_size(const struct db *db)
{
	struct db_mark m;

	if (!db_mark(db, &m))
		return 0;
	return m.w[DB_INDEX_LAST_FRAME] * ((uint64_t)db_index_page_size(m.w) + DB_FRAME_HEADER);
}

/* Copy as much as possible. true: all of it is copied, and readers may pass it over. */
static bool wal_is_copied(struct db *db)
{
	struct db_stmt *st;
	bool all = false;

	if (db_prepare(db, "PRAGMA wal_checkpoint(PASSIVE)", &st, NULL) < 0)
		return false;
	db_set_copying(db, true);
	if (db_step(st, NULL) == DB_ROW)
		all = !db_i64(st, 0) && db_i64(st, 1) == db_i64(st, 2);
	db_reset(st);
	db_set_copying(db, false);
	return all;
}

bool db_wal_has(struct db *db, uint64_t page)
{
	AUTO(mem_freep) char *path = mem_printf("%s-wal", db->path);
	/* SQLite has no locks on this file that closing it would release. */
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct db_mark m;
	struct db_pages x;
	size_t got;

	/* The header of the file may be the damage. */
	db_pages_known(db, &x);
	if (wal_is_copied(db) || fd < 0 || !db_mark(db, &m) || !x.size)
		return false;
	for (uint64_t i = 0; i < m.w[DB_INDEX_LAST_FRAME]; i++) {
		uint32_t number;

		if (fd_pread(fd, &number, sizeof(number), DB_WAL_HEADER + i * (x.size + DB_FRAME_HEADER),
			     &got, NULL) < 0 ||
		    got < sizeof(number))
			return false;
		if (be32toh(number) == page)
			return true;
	}
	return false;
}

static int run_checkpoint(struct db *db, const char *sql, struct err *err)
{
	struct db_stmt *st;
	int64_t busy = 0;
	int r;

	/* Preparing may read the schema into the cache, which must not take a damaged page. */
	if (db_prepare(db, sql, &st, err) < 0)
		return -1;
	db_set_copying(db, true);
	r = db_step_i64(st, &busy, err);
	db_set_copying(db, false);
	if (r < 0)
		return -1;
	return busy ? DB_BUSY : 0;
}

int db_checkpoint(struct db *db, struct err *err)
{
	return run_checkpoint(db, "PRAGMA wal_checkpoint(PASSIVE)", err);
}

int db_wal_truncate(struct db *db, int wait_ms, struct err *err)
{
	int r;

	sqlite3_busy_timeout(db->sq, wait_ms);
	r = run_checkpoint(db, "PRAGMA wal_checkpoint(TRUNCATE)", err);
	sqlite3_busy_timeout(db->sq, db->busy_timeout_ms);
	return r;
}
