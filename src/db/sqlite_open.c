/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a connection, with the settings common to all.
 *
 * The file may have been written by anyone who can write our data folder, and may be damaged: SQLite is set
 * to trust nothing in it (no functions in the schema, cells checked, no mapping, which would turn an I/O
 * error into SIGBUS).
 */
#include "db/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BUSY_TIMEOUT_MS 10000
#define PROGRESS_STEPS  1000 /* virtual machine instructions between two checks of the clock: some 20 us */
#define WAL_RETRY_US    2000
#define JOURNAL_SIZE    "67108864"
#define MEMORY_PREFIX   ":memory:"

struct sqlite_functions sqlite_functions;

static int sqlite_load(struct err *err)
{
	static const char *const names[] = { SQLITE_FUNCTIONS(LAZY_NAME) };
	static struct lazy lib = LAZY_INIT;

	return lazy_load(&lib, "libsqlite3.so.0", "libsqlite3-0", names, &sqlite_functions, ARRAY_SIZE(names),
			 err);
}

/* In memory SQLite's "memdb" is used: the busy time-out does not wait for locks of the older shared cache. */
static char *memory_uri(const char *name)
{
	struct buf uri = { 0 };

	buf_add_str(&uri, STR("file:/lode-"));
	for (const char *p = name; *p; p++)
		buf_printf(&uri, "%%%02x", (unsigned char)*p);
	buf_add_str(&uri, STR("?vfs=memdb"));
	buf_add_char(&uri, '\0');
	return (char *)uri.p;
}

static int on_progress(void *arg)
{
	struct db *db = arg;

	return db->deadline_ms && clock_mono_ms() > db->deadline_ms;
}

static int read_schema_rows(struct db *db, struct db_schema *ret, struct err *err)
{
	if (db_get_i64(db, "PRAGMA application_id", &ret->application, err) < 0 ||
	    db_get_i64(db, "PRAGMA user_version", &ret->version, err) < 0)
		return -1;
	return db_get_i64(db, "SELECT count(*) FROM sqlite_schema", &ret->n_tables, err);
}

int db_read_schema(struct db *db, struct db_schema *ret, struct err *err)
{
	bool within = !sqlite3_get_autocommit(db->sq);
	int r;

	if (!within && db_exec(db, "BEGIN", err) < 0)
		return -1;
	r = read_schema_rows(db, ret, err);
	if (!within)
		db_rollback(db);
	return r;
}

int db_set_wal(struct db *db, struct err *err)
{
	static const char sql[] = "PRAGMA journal_mode = WAL";
	int64_t until_ms = clock_mono_ms() + db->busy_timeout_ms;

	/*
	 * SQLite changes the mode with a read lock that becomes a write lock. If two connections do so at
	 * the same time, one gets SQLITE_BUSY at once, without the busy time-out: waiting with the read lock
	 * would be a deadlock.
	 */
	for (;;) {
		int code = sqlite3_exec(db->sq, sql, NULL, NULL, NULL);

		if (code == SQLITE_OK)
			return 0;
		if ((code & 0xff) != SQLITE_BUSY || clock_mono_ms() >= until_ms)
			return db_fail(db, code, sql, err);
		usleep(WAL_RETRY_US);
	}
}

static int connection_set_up(struct db *db, const struct db_options *opts, bool memory, struct err *err)
{
	struct db_schema schema;

	sqlite3_extended_result_codes(db->sq, 1);
	db->busy_timeout_ms = opts->busy_timeout_ms > 0 ? opts->busy_timeout_ms : BUSY_TIMEOUT_MS;
	sqlite3_busy_timeout(db->sq, db->busy_timeout_ms);
	sqlite3_db_config(db->sq, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db->sq, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db->sq, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(db->sq, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	sqlite3_db_config(db->sq, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
	sqlite3_progress_handler(db->sq, PROGRESS_STEPS, on_progress, db);
	if (db_exec(db,
		    "PRAGMA cell_size_check = ON;"
		    "PRAGMA mmap_size = 0;"
		    "PRAGMA temp_store = MEMORY;"
		    "PRAGMA synchronous = NORMAL;"
		    "PRAGMA journal_size_limit = " JOURNAL_SIZE,
		    err) < 0)
		return -1;
	if (opts->sync && db_exec(db, "PRAGMA synchronous = FULL", err) < 0)
		return -1;
	if (opts->read_only)
		/* Nothing was read yet: this query reports a file that is not a database. */
		return db_exec(db, "PRAGMA user_version", err);
	/*
	 * Page size, auto_vacuum and journal mode are stored in the file, so setting them writes into it.
	 * This must not happen to a file of another program or of a newer version, which only the schema
	 * shows (migrate.c). The first two have to be set before the first table anyway.
	 */
	if (db_read_schema(db, &schema, err) < 0)
		return -1;
	if (schema.application || schema.version || schema.n_tables)
		return 0;
	if (opts->page_size) {
		char set[64];

		snprintf(set, sizeof(set), "PRAGMA page_size = %u", opts->page_size);
		if (db_exec(db, set, err) < 0)
			return -1;
	}
	if (!memory)
		db_reserve(db, DIGEST_SIZE);
	if (db_exec(db, "PRAGMA auto_vacuum = INCREMENTAL", err) < 0)
		return -1;
	return memory ? 0 : db_set_wal(db, err);
}

/*
 * With a full disk a database cannot be read, either, since readers need the file -shm, which is made anew after a
 * crash: the message has the remedy.
 */
static int open_failed(const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');

	if (!err || (err->os != ENOSPC && err->os != EDQUOT))
		return err_in(err, "database %s", path);
	(void)err_set(err, ERR_IO,
		      "database %s: no space left for it and its files -wal and -shm: free 1 MiB or more on "
		      "the disk of "
		      "%.*s, or give another folder, then start again",
		      path, slash ? MAX((int)(slash - path), 1) : 1, slash ? path : ".");
	err->os = ENOSPC;
	return -1;
}

int db_open(const char *path, const struct db_options *opts, struct db **ret, struct err *err)
{
	bool memory = str_starts(str_of(path), STR(MEMORY_PREFIX));
	AUTO(mem_freep) char *uri = memory ? memory_uri(path + strlen(MEMORY_PREFIX)) : NULL;
	int flags = SQLITE_OPEN_NOMUTEX, code;
	struct db *db;

	if (sqlite_load(err) < 0)
		return -1;
	db = NEW(struct db);

	/* Only this process has the memory database: the first connection creates it. */
	if (opts->read_only && !memory)
		flags |= SQLITE_OPEN_READONLY;
	else
		flags |= SQLITE_OPEN_READWRITE | (opts->create || memory ? SQLITE_OPEN_CREATE : 0);
	if (memory)
		flags |= SQLITE_OPEN_URI;
	db->path = mem_strdup(path);
	db->read_only = opts->read_only;
	db->damaged = opts->damaged;
	db->damaged_arg = opts->damaged_arg;
	db_register_digests();
	code = sqlite3_open_v2(uri ? uri : path, &db->sq, flags, memory ? NULL : DB_VFS);
	/* Until now its first 100 bytes were read, at most, which are no page. */
	if (code == SQLITE_OK && opts->unchecked)
		db_set_unchecked(db, true);
	if (code != SQLITE_OK)
		db_fail(db, code, NULL, err);
	else if (opts->pages_only || connection_set_up(db, opts, memory, err) == 0) {
		if (!opts->pages_only)
			db_find_wal_index(db);
		*ret = db;
		return 0;
	}
	db_close(db);
	return open_failed(path, err);
}

void db_abandon(struct db *db)
{
	sqlite3_db_config(db->sq, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

void db_set_number(struct db *db, uint32_t number)
{
	db->number = number;
}

uint32_t db_number(const struct db *db)
{
	return db->number;
}

void db_close(struct db *db)
{
	struct bytes key;
	void *s;

	if (!db)
		return;
	map_each (&db->statements, it, &key, &s) {
		/* This also ends a read that is under way. */
		db_stmt_free(s);
	}
	map_done(&db->statements);
	sqlite3_close(db->sq);
	free(db->path);
	free(db);
}
