/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a database that other processes may be writing: SQLite's online backup, from a connection for reading into a
 * file of our own.
 *
 * Both sides pass the layer of digests (sqlite_digest.c): a damaged page ends the copy, and each page of the copy gets the
 * digest of what it has, also if it came from the WAL.
 *
 * The source has one read transaction from the first page to the last. So the copy is of one moment, and commits of others do
 * not make it begin again, as they would between steps without one. Until its last page is copied the WAL of the source cannot
 * begin anew.
 */
#include "db/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/file.h"

#define STEP_PAGES  64
#define CHECK_PAGES 4096
#define OPEN_TRIES  5

struct db_copying {
	const char *from, *to;
	const struct db_copy_options *o;
	struct db *src, *dst;
	struct db_pages pages; /* of the source: size and digests */
	uint64_t wal_start;
	struct db_copy_state last; /* that was reported */
};

/* ---- the source ---- */

/* The file at the path is another one now, whose WAL this connection may have opened. */
static bool source_has_moved(struct db *db)
{
	int moved = 0;

	return sqlite3_file_control(db->sq, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

/*
 * What the connection has read from the first page; the WAL may have another one than the file. By the header of the file the
 * layer compares digests, so they must agree.
 */
static int source_pages(struct db_copying *c, struct err *err)
{
	struct db_pages file;
	int64_t size, n;
	int reserved = -1;

	if (db_get_i64(c->src, "PRAGMA page_size", &size, err) < 0 ||
	    db_get_i64(c->src, "PRAGMA page_count", &n, err) < 0 || db_pages(c->src, &file, err) < 0)
		return -1;
	if (!n)
		return err_set(err, ERR_DAMAGED, "%s is empty", c->from);
	(void)sqlite3_file_control(c->src->sq, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
	c->pages = (struct db_pages){ (uint32_t)size, (uint64_t)n, reserved == DIGEST_SIZE };
	return file.size == c->pages.size && file.has_digests == c->pages.has_digests
		       ? 0
		       : err_set(err, ERR_DAMAGED, "%s: page 1 is damaged", c->from);
}

/*
 * A reader makes the index if there is none, which it cannot on a file system for reading, or without the right to. SQLite's
 * message names neither the index nor the reason.
 */
static void explain_index(const char *path, struct err *err)
{
	AUTO(mem_freep) char *index = mem_printf("%s-shm", path);
	AUTO(mem_freep) char *folder = mem_printf("%.*s", STR_ARG(path_dirname(str_of(path))));
	int os;

	if (err->kind != ERR_IO || access(path, R_OK) < 0 || access(index, F_OK) == 0 ||
	    access(*folder ? folder : ".", W_OK) == 0)
		return;
	os = errno;
	(void)err_set(
		err, ERR_IO,
		"%s: to read it, the file %s must be made, which is not possible (%s): copy the database "
		"with its -wal, if there is one, into a folder that can be written, and use that",
		path, index, strerror(os));
}

/* Begin the read transaction. 1: the file was replaced meanwhile. */
static int source_open(struct db_copying *c, struct err *err)
{
	const struct db_options o = { .read_only = true };
	struct err why = { 0 };
	int64_t n_tables;
	int r = db_wal_check(c->from, &why);

	if (r == 0)
		r = db_open(c->from, &o, &c->src, &why);
	if (r == 0) {
		/* Closing it changes no file. */
		db_abandon(c->src);
		/* The snapshot begins with the first query. */
		if (db_exec(c->src, "BEGIN", &why) < 0 ||
		    db_get_i64(c->src, "SELECT count(*) FROM sqlite_schema", &n_tables, &why) < 0 ||
		    source_pages(c, &why) < 0)
			r = -1;
		if (source_has_moved(c->src)) {
			db_close(TAKE(c->src));
			return 1;
		}
	}
	if (r == 0)
		c->wal_start = db_wal_size(c->src);
	else
		explain_index(c->from, &why);
	if (r < 0 && err)
		*err = why;
	return r;
}

static int source_begin(struct db_copying *c, struct err *err)
{
	int r = 1;

	for (unsigned i = 0; i < OPEN_TRIES && r == 1; i++)
		r = source_open(c, err);
	return r == 1 ? err_set(err, ERR_IO, "%s: it is replaced again and again", c->from) : r;
}

/* ---- the copy ---- */

/* Empty, with exactly the rights of the source that the umask leaves. SQLite would create it for everyone to read. */
static int create_file(const struct db_copying *c, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	struct stat st;

	if (stat(c->from, &st) < 0)
		return err_os(err, errno, "%s", c->from);
	fd = open(c->to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0666);
	return fd < 0 ? err_os(err, errno, "%s", c->to) : 0;
}

/*
 * The first page is written now: the layer must know the size of pages, and whether they have digests, before SQLite writes
 * others, which it does as soon as its cache is full. The journal is in memory: a copy that is cut off is thrown away.
 */
static int copy_set_up(const struct db_copying *c, struct err *err)
{
	char set[128];
	struct db_pages x;

	snprintf(set, sizeof(set),
		 "PRAGMA page_size = %u; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = FULL;"
		 "PRAGMA mmap_size = 0",
		 c->pages.size);
	sqlite3_extended_result_codes(c->dst->sq, 1);
	if (db_exec(c->dst, set, err) < 0)
		return -1;
	if (c->pages.has_digests)
		db_reserve(c->dst, DIGEST_SIZE);
	if (db_exec(c->dst, "PRAGMA user_version = 1", err) < 0 || db_pages(c->dst, &x, err) < 0)
		return -1;
	return x.size == c->pages.size && x.has_digests == c->pages.has_digests
		       ? 0
		       : err_set(err, ERR_INTERNAL, "its pages would not be like those of %s", c->from);
}

/* Without the settings of other connections, which would make it a database with digests and a WAL. */
static int copy_open(struct db_copying *c, struct err *err)
{
	const struct db_options o = { .create = true, .pages_only = true };

	if (create_file(c, err) < 0 || db_open(c->to, &o, &c->dst, err) < 0)
		return -1;
	return copy_set_up(c, err) < 0 ? err_in(err, "%s", c->to) : 0;
}

static int report_step(struct db_copying *c, sqlite3_backup *b, struct err *err)
{
	uint64_t n = (uint64_t)sqlite3_backup_pagecount(b), left = (uint64_t)sqlite3_backup_remaining(b);
	uint64_t wal = db_wal_size(c->src);

	c->last = (struct db_copy_state){
		.n_done = n - left,
		.n_pages = n,
		.page_size = c->pages.size,
		.wal_growth = wal > c->wal_start ? wal - c->wal_start : 0,
	};

	return c->o->step ? c->o->step(c->o->arg, &c->last, err) : 0;
}

static bool is_of_copy(int code)
{
	switch (code) {
	case SQLITE_IOERR_WRITE:
	case SQLITE_IOERR_FSYNC:
	case SQLITE_IOERR_TRUNCATE:
		return true;
	default:
		return (code & 0xff) == SQLITE_FULL;
	}
}

static int copy_failed(const struct db_copying *c, int code, struct err *err)
{
	uint64_t page = db_take_bad_page(c->src);

	if (is_of_copy(code)) {
		(void)db_fail(c->dst, code, NULL, err);
		return err_in(err, "%s", c->to);
	}
	(void)db_fail(c->src, code, NULL, err);
	if (code == SQLITE_IOERR_DATA && page)
		(void)err_set(err, ERR_DAMAGED, "page %llu is damaged", (unsigned long long)page);
	else if (code == SQLITE_IOERR_DATA)
		(void)err_set(err, ERR_DAMAGED, "a page in its WAL is damaged");
	return err_in(err, "%s", c->from);
}

/* The last step writes and syncs the file. */
static int copy_pages(struct db_copying *c, struct err *err)
{
	sqlite3_backup *b = sqlite3_backup_init(c->dst->sq, "main", c->src->sq, "main");
	int code = SQLITE_OK, r = 0;

	if (!b)
		return db_fail(c->dst, sqlite3_extended_errcode(c->dst->sq), NULL, err);
	while (r == 0 && code == SQLITE_OK) {
		code = sqlite3_backup_step(b, STEP_PAGES);
		if (code == SQLITE_OK || code == SQLITE_DONE)
			r = report_step(c, b, err);
	}
	/* It also leaves the error with the connection of the copy. */
	sqlite3_backup_finish(b);
	if (r < 0)
		return -1;
	return code == SQLITE_DONE ? 0 : copy_failed(c, code, err);
}

/* SQLite does not look at the digests that the layer wrote. */
static int check_copied_pages(const struct db_copying *c, struct db_pages *ret, struct err *err)
{
	uint64_t bad = 0;

	if (db_pages(c->dst, ret, err) < 0)
		return err_in(err, "%s", c->to);
	for (uint64_t page = 1; page <= ret->n && !bad; page += CHECK_PAGES) {
		if (db_pages_check(c->dst, page, CHECK_PAGES, &bad, err) < 0)
			return err_in(err, "%s", c->to);
		if (c->o->step && c->o->step(c->o->arg, &c->last, err) < 0)
			return -1;
	}
	return bad ? err_set(err, ERR_IO,
			     "%s: page %llu of the copy is not as it was written; check that disk", c->to,
			     (unsigned long long)bad)
		   : 0;
}

int db_copy(const char *from, const char *to, const struct db_copy_options *o, struct db_pages *ret,
	    struct err *err)
{
	struct db_copying c = { .from = from, .to = to, .o = o };
	int r;

	if (access(to, F_OK) == 0)
		return err_set(err, ERR_INVALID, "%s is there already", to);
	r = source_begin(&c, err);
	if (r == 0) {
		r = copy_open(&c, err);
		if (r == 0)
			r = copy_pages(&c, err);
		/* Comparing takes as long again on a slow disk: the source may begin its WAL anew. */
		db_close(TAKE(c.src));
		if (r == 0)
			r = check_copied_pages(&c, ret, err);
		db_close(c.dst);
	}
	db_close(c.src);
	if (r == 0)
		r = dir_sync_of(to, err);
	if (r < 0)
		db_files_remove(to);
	return r;
}
