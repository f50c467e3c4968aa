/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db: a seam over an SQL database, today SQLite.
 *
 * A connection belongs to one thread. Statements are prepared once per connection and kept. Values go in and
 * out by binding, never by pasting. Errors name the statement's first words and SQLite's message. A locked
 * database is waited for (busy time-out), then the error is ERR_IO. A full disk is ERR_IO with ENOSPC, and a
 * damaged database ERR_DAMAGED.
 */
#pragma once

#include "base/base.h"

struct db;
struct db_stmt;

enum { DB_ROW = 1, DB_DONE = 0 };

struct db_migration {
	const char *sql; /* several statements; run in one transaction, in order */
};

struct db_options {
	bool read_only;
	bool create;
	int busy_timeout_ms; /* 0: 10 000 */
	/* A commit is on disk when it returns. Otherwise it may be lost with the power, but the file is never
	 * damaged. */
	bool sync;
	/* Do not compare the digests of pages: to save the rest of a damaged database. */
	bool unchecked;
	/* The file need not be a database: only its pages are read, with db_pages_guess() and db_raw_rows(). */
	bool pages_only;
	unsigned page_size; /* of a file that is created; 0: SQLite's default */
	/* Called when a page was found to be damaged, by the call that fails for it. NULL: none. */
	void (*damaged)(void *arg);
	void *damaged_arg;
};

/*
 * A database that is made here has a digest in each page, which is compared when the page is read: damage of the
 * file is ERR_DAMAGED, never a wrong answer (docs/decisions/0020-page-digests.md). Another program that writes into
 * the file makes the digests wrong.
 */
struct db_pages {
	uint32_t size;    /* of a page; 0: the file is empty, or not a database */
	uint64_t n;       /* pages that the file should have */
	bool has_digests; /* else no page can be checked */
};
int db_pages(struct db *db, struct db_pages *ret, struct err *err); /* of the file, without its WAL */
/* The same, if the first page is damaged: as it was when this connection read or wrote it last. */
void db_pages_known(struct db *db, struct db_pages *ret);
/* The same, if nobody has read the first page before: the size by which most of the first pages fit their digests. */
void db_pages_guess(struct db *db, struct db_pages *ret);
/*
 * The first of the pages [from, from + n) of the file whose digest differs, or that is missing; 0: none. A page that
 * the WAL replaces counts, too; one that a checkpoint is writing may differ for a moment.
 */
int db_pages_check(struct db *db, uint64_t from, uint64_t n, uint64_t *ret_page, struct err *err);
/*
 * When a database is opened: its WAL is copied into the file, and all pages are compared with their digests.
 * A page with one wrong byte is corrected (*ret_n_corrected, which may be NULL). ERR_DAMAGED names another one. A file of
 * more than @max_size bytes is not checked: that would take too long. A full disk or an I/O error is no failure: pages are
 * compared when they are read, too.
 */
int db_check(struct db *db, uint64_t max_size, unsigned *ret_n_corrected, struct err *err);

/*
 * Repair the WAL of a database after a crash; if a process has the database open, nothing is done. SQLite ends its
 * recovery at the first damaged frame, and transactions after it would be gone without a word.
 *
 * DB_WAL_DAMAGED: committed frames are damaged, or missing. The WAL as it was is copied to @aside (unless there is
 * none), and the frames that are there can be read; but pages in the damaged ones are wrong, so only rows with digests
 * of their own can be believed. DB_WAL_UNSURE: the last commit is damaged, or was cut off before it was synced; the WAL
 * is copied to @aside, and nothing else is changed. DB_WAL_COPIED: frames are damaged or missing, but the database has the
 * pages of all of them; the WAL is copied to @aside and cut off, and nothing is lost.
 */
enum { DB_WAL_SOUND, DB_WAL_DAMAGED, DB_WAL_UNSURE, DB_WAL_COPIED };
struct db_wal_damage {
	uint64_t frame;                /* the first damaged one, from 1 */
	uint64_t n_committed, n_there; /* the last frame that was committed; the last one that can be read */
};
int db_wal_mend(const char *path, const char *aside, struct db_wal_damage *ret, struct err *err);
/*
 * Copy the committed frames of the WAL into the file, which SQLite cannot do if the first page is damaged. Nobody has the
 * database open, and db_wal_mend() has seen the WAL. @pages: of the file. A file that has more pages than the last commit is
 * cut, as by a checkpoint, unless that commit is damaged.
 */
int db_wal_write_back(const char *path, const struct db_pages *pages, struct err *err);

/*
 * ---- repair of a database that is in use ----
 *
 * The page whose digest differed in the last read of this connection that failed, which is forgotten; 0: none.
 */
uint64_t db_take_bad_page(struct db *db);
/* From now on pages whose digest differs are read all the same, until this is turned off: to save their rows. */
void db_set_unchecked(struct db *db, bool on);
/*
 * The page differs from its digest in the file, and the WAL has no newer one. Of the one thread that writes, between
 * transactions.
 */
bool db_page_is_damaged(struct db *db, uint64_t page);
/*
 * Put a page of the file right of which one or two adjacent bytes are wrong: only one such page has its digest. 1: the page in
 * the file is right now, and synced; 0: more of it is wrong. Of the one thread that writes, between transactions, if
 * db_page_is_damaged().
 */
int db_page_correct(struct db *db, uint64_t page, struct err *err);
/* A page of the file, as it is; nothing if it is larger than @room. */
void db_page_copy(struct db *db, uint64_t page, uint8_t *ret, size_t room, size_t *ret_size);
/*
 * Call @fn for each row of a page of the file that looks like a leaf of a table, whatever table it is of, and whether or
 * not the page is in use. Rows may be deleted ones, older than the WAL, or made up by damage: the caller checks them. The
 * values are valid during the call. A page that is no leaf has no rows; @fn's error ends it.
 */
enum db_raw_kind { DB_RAW_OTHER, DB_RAW_INTEGER, DB_RAW_BYTES };
struct db_raw_value {
	enum db_raw_kind kind;
	int64_t i;
	struct bytes b;
};
#define DB_RAW_COLUMNS 16
struct db_raw_row {
	int64_t id;
	bool is_sound; /* its pages fit their digests, or have none */
	bool is_free;  /* its page is not in use; false: also if that is not known */
	size_t n;
	struct db_raw_value v[DB_RAW_COLUMNS];
};
int db_raw_rows(struct db *db, const struct db_pages *pages, uint64_t page,
		int (*fn)(void *arg, const struct db_raw_row *row, struct err *err), void *arg,
		struct err *err);

/*
 * Copy the database at @from, which other processes may be writing, but which this one does not have open, into the new file
 * @to, as it is at one moment: each commit that ended before the call is in it. The copy has all pages in one file, with right
 * digests if those of @from have digests, and is on disk at the end. Of the folder of @from only the index of the WAL is
 * written, as by every reader; if no other process has the database open, an empty WAL may be made.
 *
 * ERR_DAMAGED names the first page that is damaged; ERR_INVALID: @to is there. A failure leaves no file @to. Until all
 * pages are copied the WAL of @from grows with each commit: step() decides how far.
 */
struct db_copy_state {
	uint64_t n_done, n_pages; /* n_pages: of the database */
	uint32_t page_size;
	uint64_t wal_growth; /* bytes since the begin of the copy */
};
struct db_copy_options {
	/* At intervals, also while the pages of the copy are compared; negative: the copy fails with this error. NULL: none */
	int (*step)(void *arg, const struct db_copy_state *s, struct err *err);
	void *arg;
};
int db_copy(const char *from, const char *to, const struct db_copy_options *o, struct db_pages *ret,
	    struct err *err);
/*
 * ERR_DAMAGED: no process has the database open, and frames of its WAL are damaged or missing that were committed, so that a
 * connection would leave out transactions without a word; db_wal_mend() repairs that. Nothing is changed. Not for a database
 * that this process has open.
 */
int db_wal_check(const char *path, struct err *err);

/* The file of a database and its companions (WAL, -shm), which nobody has open. Missing ones are passed over. */
void db_files_remove(const char *path);
/*
 * Rename them, the companions first: a new database at @path must not get the WAL of this one. @keep: the file
 * itself gets a second name only.
 */
int db_files_move(const char *path, const char *to, bool keep, struct err *err);
uint64_t db_files_size(const char *path); /* on disk; the database may be open */

/*
 * @path: a file, or ":memory:NAME" for a database shared by all connections of this process with that NAME
 * while one is open. WAL, synchronous=NORMAL (FULL with `sync`), foreign keys on. A file that is not a
 * database, or is damaged, is ERR_DAMAGED.
 */
int db_open(const char *path, const struct db_options *opts, struct db **ret, struct err *err);
void db_close(struct db *db); /* takes NULL */
/*
 * The files of this database were renamed, or will be: db_close() changes no file then, and the WAL stays. Otherwise it
 * would remove the WAL of the database that is at that path by then.
 */
void db_abandon(struct db *db);
/* A number of the caller's, 0 at first: which of the files that were at this path it has. */
void db_set_number(struct db *db, uint32_t number);
uint32_t db_number(const struct db *db);

/*
 * Apply missing migrations: PRAGMA user_version counts those applied. A database of a version newer than @n
 * is ERR_INVALID "made by a newer lode (schema N, this one knows M)" and is not touched.
 */
int db_migrate(struct db *db, const struct db_migration *migrations, unsigned n, struct err *err);

int db_exec(struct db *db, const char *sql, struct err *err); /* without results */

/* The statement of this text, reset and ready to bind; belongs to the connection. The same text gives the
 * same statement. */
int db_prepare(struct db *db, const char *sql, struct db_stmt **ret, struct err *err);
void db_bind_i64(struct db_stmt *s, int at, int64_t v);        /* at: from 1 */
void db_bind_str(struct db_stmt *s, int at, struct str v);     /* copied */
void db_bind_bytes(struct db_stmt *s, int at, struct bytes v); /* copied */
void db_bind_null(struct db_stmt *s, int at);
/* The end of a statement (DB_DONE, an error, db_reset()) frees its values: all are NULL then. */
int db_step(struct db_stmt *s, struct err *err); /* DB_ROW, DB_DONE or an error; also reports a failed bind */
void db_reset(struct db_stmt *s);                /* end the read early: an open row keeps a snapshot alive */
/* Step, store the first column of the first row, and reset. DB_ROW; DB_DONE: there is no row, *ret is unchanged. */
int db_step_i64(struct db_stmt *s, int64_t *ret, struct err *err);
/* The same for a statement without parameters. 0, also if there is no row: *ret is 0 then. */
int db_get_i64(struct db *db, const char *sql, int64_t *ret, struct err *err);
/* Run a statement without results whose one parameter is @v. */
int db_exec_i64(struct db *db, const char *sql, int64_t v, struct err *err);
int64_t db_i64(struct db_stmt *s, int col);    /* col: from 0 */
struct str db_str(struct db_stmt *s, int col); /* valid until the next step or reset */
struct bytes db_bytes(struct db_stmt *s, int col);
bool db_is_null(struct db_stmt *s, int col);
int64_t db_last_id(struct db *db);
int64_t db_changes(struct db *db);

int db_begin(struct db *db, struct err *err); /* IMMEDIATE */
int db_commit(struct db *db, struct err *err);
void db_rollback(struct db *db);
/* Cut off queries that run past this time with ERR_CANCELLED; 0: no limit. Until changed. */
void db_set_deadline(struct db *db, int64_t mono_ms);

/*
 * The WAL: commits append to it, and a checkpoint copies it into the database file. It begins anew when all of
 * it is copied and no reader uses it.
 */
enum { DB_BUSY = 1 };
uint64_t db_wal_size(const struct db *db); /* bytes in use; 0: not available. Any thread, no system call */
/* Copy as much as readers allow, without waiting for anybody. DB_BUSY: another connection is copying. */
int db_checkpoint(struct db *db, struct err *err);
/*
 * Copy all of it and cut it off. Waits at most @wait_ms for readers, while nothing else can be written. DB_BUSY:
 * they have not ended; as much as possible was copied.
 */
int db_wal_truncate(struct db *db, int wait_ms, struct err *err);

/*
 * A mark of the database's last commit: two equal marks were taken with no commit between them, by any
 * process. Taking one costs no system call, and any thread may do it while the connection is open. false: not
 * available (in memory, not WAL).
 */
struct db_mark {
	uint32_t w[12];
};
bool db_mark(const struct db *db, struct db_mark *ret);
