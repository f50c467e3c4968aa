/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statements and transactions over SQLite.
 *
 * A statement is prepared once per connection and found again by its text. A failed bind is reported by the
 * next step, so that callers need not check each value.
 */
#include "db/internal.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define TOLD_SQL_SIZE 48 /* of a statement's text, in a message */

struct db_stmt {
	struct db *db;
	sqlite3_stmt *st;
	const char *sql; /* SQLite's copy */
	int bind_code;   /* of the first bind that failed */
};

#undef db_fail

static enum err_kind sqlite_err_kind(int code)
{
	/* The digest of a page differs. */
	if (code == SQLITE_IOERR_DATA)
		return ERR_DAMAGED;
	switch (code & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_FORMAT:
	case SQLITE_SCHEMA:
	case SQLITE_ERROR: /* e.g. a missing table */
		return ERR_DAMAGED;
	case SQLITE_NOMEM:
	case SQLITE_TOOBIG:
		return ERR_LIMIT;
	case SQLITE_INTERRUPT:
		return ERR_CANCELLED;
	case SQLITE_IOERR:
	case SQLITE_FULL:
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_AUTH:
	case SQLITE_PROTOCOL:
		return ERR_IO;
	default:
		return ERR_INTERNAL;
	}
}

/* Of the bytes of the file; ERR_DAMAGED is also a table that is missing. */
static bool is_damage_code(int code)
{
	return code == SQLITE_IOERR_DATA || (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

/* The errno of the last failed call on a file; 0: none. */
static int last_file_errno(sqlite3_file *f)
{
	int os = 0;

	if (f && f->pMethods && f->pMethods->xFileControl(f, SQLITE_FCNTL_LAST_ERRNO, &os) != SQLITE_OK)
		os = 0;
	return os;
}

static int sqlite_errno(struct db *db, int code, enum err_kind kind)
{
	sqlite3_file *wal = NULL;
	int os;

	/* SQLite clears errno if the disk is full. */
	if ((code & 0xff) == SQLITE_FULL)
		return ENOSPC;
	if ((code & 0xff) == SQLITE_NOMEM)
		return ENOMEM;
	if (!db->sq || kind != ERR_IO)
		return 0;
	/* SQLite does not note the errno of a COMMIT; the WAL's file does. */
	os = sqlite3_system_errno(db->sq);
	if (!os && (code & 0xff) == SQLITE_IOERR &&
	    sqlite3_file_control(db->sq, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal) == SQLITE_OK)
		os = last_file_errno(wal);
	return os;
}

int db_fail(struct db *db, int code, const char *sql, struct err *err)
{
	enum err_kind kind = sqlite_err_kind(code);
	int os = sqlite_errno(db, code, kind);
	const char *said = db->sq && sqlite3_extended_errcode(db->sq) == code ? sqlite3_errmsg(db->sq)
									      : sqlite3_errstr(code);

	if (db->damaged && is_damage_code(code))
		db->damaged(db->damaged_arg);
	if (!err)
		return -1;
	if (kind == ERR_CANCELLED)
		said = "took too long and was cut off";
	if (code == SQLITE_IOERR_DATA)
		said = "a page of the database is damaged";
	if (os)
		(void)err_set(err, kind, "%s (%s)", said, strerror(os));
	else
		(void)err_set(err, kind, "%s", said);
	err->os = os;
	if (sql) {
		size_t n = strnlen(sql, TOLD_SQL_SIZE);

		(void)err_in(err, "%.*s%s", (int)n, sql, sql[n] ? "..." : "");
	}
	return -1;
}
#define db_fail(...)                        \
	({                                  \
		(void)db_fail(__VA_ARGS__); \
		-1;                         \
	})

int db_exec(struct db *db, const char *sql, struct err *err)
{
	int code = sqlite3_exec(db->sq, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : db_fail(db, code, sql, err);
}

int db_get_i64(struct db *db, const char *sql, int64_t *ret, struct err *err)
{
	struct db_stmt *s;

	*ret = 0;
	return db_prepare(db, sql, &s, err) < 0 || db_step_i64(s, ret, err) < 0 ? -1 : 0;
}

int db_exec_i64(struct db *db, const char *sql, int64_t v, struct err *err)
{
	struct db_stmt *s;

	if (db_prepare(db, sql, &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, v);
	return db_step(s, err) < 0 ? -1 : 0;
}

/* ---- statements ---- */

int db_prepare(struct db *db, const char *sql, struct db_stmt **ret, struct err *err)
{
	struct bytes key = bytes_of(sql, strlen(sql));
	struct db_stmt *s = map_get(&db->statements, key);

	if (!s) {
		sqlite3_stmt *st;
		int code = sqlite3_prepare_v3(db->sq, sql, (int)key.size, SQLITE_PREPARE_PERSISTENT, &st,
					      NULL);

		if (code != SQLITE_OK)
			return db_fail(db, code, sql, err);
		s = NEW(struct db_stmt);
		s->db = db;
		s->st = st;
		s->sql = sqlite3_sql(st);
		map_put(&db->statements, key, s);
	} else {
		db_reset(s);
	}
	*ret = s;
	return 0;
}

void db_stmt_free(struct db_stmt *s)
{
	sqlite3_finalize(s->st);
	free(s);
}

static void bind_note(struct db_stmt *s, int code)
{
	assert(code != SQLITE_RANGE && code != SQLITE_MISUSE);
	if (s->bind_code == SQLITE_OK)
		s->bind_code = code;
}

void db_bind_i64(struct db_stmt *s, int at, int64_t v)
{
	bind_note(s, sqlite3_bind_int64(s->st, at, v));
}

void db_bind_str(struct db_stmt *s, int at, struct str v)
{
	bind_note(s, sqlite3_bind_text64(s->st, at, v.p ? v.p : "", v.size, SQLITE_TRANSIENT, SQLITE_UTF8));
}

void db_bind_bytes(struct db_stmt *s, int at, struct bytes v)
{
	/* A NULL pointer would bind NULL, not the empty blob. */
	bind_note(s,
		  sqlite3_bind_blob64(s->st, at, v.p ? v.p : (const uint8_t *)"", v.size, SQLITE_TRANSIENT));
}

void db_bind_null(struct db_stmt *s, int at)
{
	bind_note(s, sqlite3_bind_null(s->st, at));
}

int db_step(struct db_stmt *s, struct err *err)
{
	int code = s->bind_code;

	if (code == SQLITE_OK)
		code = sqlite3_step(s->st);
	if (code == SQLITE_ROW)
		return DB_ROW;
	if (code == SQLITE_DONE) {
		/* Otherwise the read transaction would stay open until the next reset. */
		db_reset(s);
		return DB_DONE;
	}
	/* The message belongs to the connection: it must be taken before the reset. */
	(void)db_fail(s->db, code, s->sql, err);
	db_reset(s);
	return -1;
}

/* A statement is kept; its values, which may be of many megabytes, are not. */
void db_reset(struct db_stmt *s)
{
	sqlite3_reset(s->st);
	sqlite3_clear_bindings(s->st);
	s->bind_code = SQLITE_OK;
}

int db_step_i64(struct db_stmt *s, int64_t *ret, struct err *err)
{
	int r = db_step(s, err);

	if (r == DB_ROW)
		*ret = db_i64(s, 0);
	db_reset(s);
	return r;
}

int64_t db_i64(struct db_stmt *s, int col)
{
	return sqlite3_column_int64(s->st, col);
}

struct str db_str(struct db_stmt *s, int col)
{
	/* The size must be read after the text, which may convert. */
	const char *p = (const char *)sqlite3_column_text(s->st, col);

	return (struct str){ p, p ? (size_t)sqlite3_column_bytes(s->st, col) : 0 };
}

struct bytes db_bytes(struct db_stmt *s, int col)
{
	const uint8_t *p = sqlite3_column_blob(s->st, col);

	return (struct bytes){ p, p ? (size_t)sqlite3_column_bytes(s->st, col) : 0 };
}

bool db_is_null(struct db_stmt *s, int col)
{
	return sqlite3_column_type(s->st, col) == SQLITE_NULL;
}

int64_t db_last_id(struct db *db)
{
	return sqlite3_last_insert_rowid(db->sq);
}

int64_t db_changes(struct db *db)
{
	return sqlite3_changes64(db->sq);
}

/* ---- transactions ---- */

static int statement_run(struct db *db, const char *sql, struct err *err)
{
	struct db_stmt *s;

	if (db_prepare(db, sql, &s, err) < 0)
		return -1;
	return db_step(s, err);
}

int db_begin(struct db *db, struct err *err)
{
	/* Take the write lock now: a transaction that changes from reading to writing later cannot wait for
	 * it, only fail. */
	return statement_run(db, "BEGIN IMMEDIATE", err);
}

int db_commit(struct db *db, struct err *err)
{
	if (statement_run(db, "COMMIT", err) == 0)
		return 0;
	/* A full disk may have ended the transaction, a busy database leaves it open. In both cases it has
	 * failed. */
	db_rollback(db);
	return -1;
}

void db_rollback(struct db *db)
{
	if (!sqlite3_get_autocommit(db->sq))
		(void)statement_run(db, "ROLLBACK", NULL);
}

void db_set_deadline(struct db *db, int64_t mono_ms)
{
	db->deadline_ms = mono_ms;
}
