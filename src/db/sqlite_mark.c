/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mark of the last commit: the header of the WAL index, shared memory of all processes that have the
 * database open. Every commit changes it before it returns (https://sqlite.org/walformat.html, section 2.1).
 *
 * It is reached through SQLite's own file object. Opening the -shm file directly would be a mistake: closing
 * it would release the locks that this process' connections have on it.
 */
#include "db/internal.h"

#define WAL_INDEX_REGION 32768 /* the unit in which SQLite maps it */
#define IS_INIT          3     /* word 3: byte 0 is isInit in memory */

/*
 * The first query reads the database, which makes SQLite open its WAL. It does not if the database is empty,
 * although journal_mode is "wal" already.
 */
static bool has_wal_open(struct db *db)
{
	sqlite3_stmt *s = NULL;
	int64_t n_pages;
	const char *mode;
	bool is_wal = false;

	if (db_get_i64(db, "PRAGMA page_count", &n_pages, NULL) < 0 || !n_pages)
		return false;
	if (sqlite3_prepare_v2(db->sq, "PRAGMA journal_mode", -1, &s, NULL) == SQLITE_OK &&
	    sqlite3_step(s) == SQLITE_ROW) {
		mode = (const char *)sqlite3_column_text(s, 0);
		is_wal = mode && strcmp(mode, "wal") == 0;
	}
	sqlite3_finalize(s);
	return is_wal;
}

void db_find_wal_index(struct db *db)
{
	void volatile *region = NULL;
	sqlite3_file *file = NULL;

	/* Without an open WAL the connection would never unmap this mapping. */
	if (db->wal_index || !has_wal_open(db))
		return;
	if (sqlite3_file_control(db->sq, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK || !file ||
	    !file->pMethods || file->pMethods->iVersion < 2 || !file->pMethods->xShmMap)
		return;
	/* The file is not extended: the WAL index exists, or this is not a WAL database. */
	if (file->pMethods->xShmMap(file, 0, WAL_INDEX_REGION, 0, &region) == SQLITE_OK)
		db->wal_index = (const uint32_t *)(uintptr_t)region;
}

bool db_mark(const struct db *db, struct db_mark *ret)
{
	const uint8_t *is_init;

	if (!db->wal_index)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(ret->w); i++)
		ret->w[i] = __atomic_load_n(&db->wal_index[i], __ATOMIC_ACQUIRE);
	/* 0 while a process recovers the WAL. */
	is_init = (const uint8_t *)&ret->w[IS_INIT];
	return is_init[0] != 0;
}
