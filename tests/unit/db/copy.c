/* SPDX-License-Identifier: Apache-2.0 */
/* db_copy(): a copy of a database that another process is writing, or has left, is of one moment, and has right digests. */
#include "test.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "db/internal.h"

#define PAGE  4096
#define FRAME (PAGE + 24)
#define ROWS  3000 /* with their blobs some 4 MB, twice the cache of a connection */
#define BLOB  1200

struct copy_fixture {
	char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE + 16], wal[TEST_PATH_SIZE + 24],
		shm[TEST_PATH_SIZE + 24], to[TEST_PATH_SIZE + 16];
	int committed; /* the writer sends the number of rows after each commit */
	pid_t writer;
	int64_t n_rows;
};

static const struct db_options writing = { .create = true, .page_size = PAGE };

static int set_up(void **state)
{
	struct copy_fixture *f = NEW(struct copy_fixture);

	test_dir_make(f->dir);
	snprintf(f->path, sizeof(f->path), "%s/x.db", f->dir);
	snprintf(f->wal, sizeof(f->wal), "%s/x.db-wal", f->dir);
	snprintf(f->shm, sizeof(f->shm), "%s/x.db-shm", f->dir);
	snprintf(f->to, sizeof(f->to), "%s/copy.db", f->dir);
	f->committed = -1;
	*state = f;
	return 0;
}

static void kill_writer(struct copy_fixture *f)
{
	int status;

	if (!f->writer)
		return;
	kill(f->writer, SIGKILL);
	waitpid(f->writer, &status, 0);
	f->writer = 0;
	fd_close(&f->committed);
}

static int tear_down(void **state)
{
	struct copy_fixture *f = *state;

	kill_writer(f);
	test_dir_remove(f->dir);
	free(f);
	return 0;
}

/* ---- the writer: another process, since a copy is not made of a database of this one ---- */

static int insert_row(struct db *db, int64_t i, struct err *err)
{
	uint8_t blob[BLOB];
	struct db_stmt *s;

	test_fill(blob, sizeof(blob), (uint32_t)i);
	if (db_prepare(db, "INSERT INTO a VALUES (?, ?, ?)", &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, i);
	db_bind_i64(s, 2, -i);
	db_bind_bytes(s, 3, bytes_of(blob, sizeof(blob)));
	return db_step(s, err) < 0 ? -1 : 0;
}

/* @n rows in the file, @more in the WAL, one commit each; then more for ever if @goes_on. */
static _Noreturn void write_rows(const struct copy_fixture *f, int out, int64_t n, int64_t more, bool goes_on)
{
	static const struct db_migration one = { "CREATE TABLE a (x INTEGER PRIMARY KEY, y INTEGER, z BLOB);"
						 "CREATE INDEX b ON a (y)" };
	struct err err = { 0 };
	int64_t i = 0;
	struct db *db;

	if (db_open(f->path, &writing, &db, &err) < 0 || db_migrate(db, &one, 1, &err) < 0 ||
	    db_begin(db, &err) < 0)
		_exit(1);
	while (i < n)
		if (insert_row(db, ++i, &err) < 0)
			_exit(2);
	if (db_commit(db, &err) < 0 || db_wal_truncate(db, 0, &err) != 0)
		_exit(3);
	for (;;) {
		if (i >= n + more && write(out, &i, sizeof(i)) != sizeof(i))
			_exit(4);
		if (i >= n + more && !goes_on)
			break;
		if (insert_row(db, ++i, &err) < 0 ||
		    (i % 7 == 0 && db_exec(db, "UPDATE a SET y = y - 1 WHERE x % 50 = 0", &err) < 0))
			_exit(5);
	}
	for (;;)
		pause();
}

static int64_t read_committed(struct copy_fixture *f)
{
	assert_int_equal(read(f->committed, &f->n_rows, sizeof(f->n_rows)), sizeof(f->n_rows));
	return f->n_rows;
}

static void start_writer(struct copy_fixture *f, int64_t n, int64_t more, bool goes_on)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	f->writer = fork();
	if (!f->writer) {
		close(ends[0]);
		write_rows(f, ends[1], n, more, goes_on);
	}
	close(ends[1]);
	f->committed = ends[0];
	assert_true(read_committed(f) >= n + more);
}

/* ---- the copy ---- */

static int copy(const struct copy_fixture *f, struct err *err)
{
	struct db_pages x;

	return db_copy(f->path, f->to, &(struct db_copy_options){ 0 }, &x, err);
}

static int64_t number(struct db *db, const char *sql)
{
	struct err err = { 0 };
	int64_t n;

	assert_done(db_get_i64(db, sql, &n, &err));
	return n;
}

/* Returns the number of rows, all of which are right, as is each page of the one file. */
static int64_t check_copy(const struct copy_fixture *f, bool has_digests)
{
	AUTO(mem_freep) char *wal = mem_printf("%s-wal", f->to);
	struct err err = { 0 };
	struct db_pages x;
	struct db_stmt *s;
	struct stat st;
	uint64_t bad;
	struct db *db;
	int64_t n = 0;

	assert_int_not_equal(access(wal, F_OK), 0);
	assert_int_equal(stat(f->to, &st), 0);
	assert_done(db_open(f->to, &(struct db_options){ .read_only = true }, &db, &err));
	assert_done(db_pages(db, &x, &err));
	assert_int_equal(x.has_digests, has_digests);
	assert_int_equal(x.size * x.n, st.st_size);
	assert_done(db_pages_check(db, 1, x.n, &bad, &err));
	assert_int_equal(bad, 0);
	assert_done(db_prepare(db, "PRAGMA integrity_check", &s, &err));
	assert_int_equal(db_step(s, &err), DB_ROW);
	assert_str(db_str(s, 0), "ok");
	db_reset(s);
	assert_done(db_prepare(db, "SELECT x, z FROM a ORDER BY x", &s, &err));
	while (db_step(s, &err) == DB_ROW) {
		uint8_t want[BLOB];

		assert_int_equal(db_i64(s, 0), ++n);
		test_fill(want, sizeof(want), (uint32_t)n);
		assert_int_equal(db_bytes(s, 1).size, sizeof(want));
		assert_memory_equal(db_bytes(s, 1).p, want, sizeof(want));
	}
	assert_int_equal(number(db, "SELECT count(*) FROM a INDEXED BY b WHERE y < 0"), n);
	db_close(db);
	return n;
}

static void assert_no_copy(const struct copy_fixture *f)
{
	AUTO(mem_freep) char *wal = mem_printf("%s-wal", f->to);

	assert_int_not_equal(access(f->to, F_OK), 0);
	assert_int_not_equal(access(wal, F_OK), 0);
}

static void flip_byte(const char *path, uint64_t at)
{
	AUTO(fd_close) int fd = open(path, O_RDWR | O_CLOEXEC);
	struct err err = { 0 };
	uint8_t byte[2];
	size_t got;

	assert_done(fd_pread(fd, byte, 2, at, &got, &err));
	/* Two that are far apart in value: one wrong byte alone could be corrected by others. */
	byte[0] ^= 0x55;
	byte[1] ^= 0xaa;
	assert_done(fd_pwrite(fd, byte, 2, at, &err));
}

/* ---- tests ---- */

/* Pages in the file, pages in the WAL, more than the cache of both, and commits meanwhile. */
static void a_copy_beside_a_writer_is_of_one_moment(void **state)
{
	struct copy_fixture *f = *state;
	struct err err = { 0 };
	int64_t before;

	start_writer(f, ROWS, 400, true);
	for (int i = 0; i < 3; i++) {
		while (read_committed(f) < ROWS + 400 + 100 * i)
			;
		before = f->n_rows;
		db_files_remove(f->to);
		assert_done(copy(f, &err));
		assert_true(check_copy(f, true) >= before);
	}
	/* The writer goes on. */
	before = f->n_rows;
	while (read_committed(f) < before + 100)
		;
}

static void a_wal_that_a_kill_has_left_is_in_the_copy(void **state)
{
	struct copy_fixture *f = *state;
	AUTO(buf_done) struct buf was = { 0 }, is = { 0 };
	struct err err = { 0 };

	start_writer(f, 100, 30, false);
	kill_writer(f);
	assert_done(file_read(f->wal, MIB(8), &was, &err));
	assert_true(was.size > (size_t)30 * FRAME);
	assert_done(copy(f, &err));
	assert_int_equal(check_copy(f, true), 130);
	assert_done(file_read(f->wal, MIB(8), &is, &err));
	assert_int_equal(is.size, was.size);
	assert_memory_equal(is.p, was.p, was.size);
}

/* SQLite's recovery would end at the damaged frame, and the index would no longer tell how many there were. */
static void a_damaged_wal_that_a_kill_has_left_is_not_touched(void **state)
{
	struct copy_fixture *f = *state;
	struct err err = { 0 };

	start_writer(f, 100, 30, false);
	kill_writer(f);
	flip_byte(f->wal, 32 + (uint64_t)10 * FRAME + 1000);
	for (int with_index = 1; with_index >= 0; with_index--) {
		AUTO(buf_done) struct buf was = { 0 }, is = { 0 };

		if (!with_index)
			unlink(f->shm);
		else
			assert_done(file_read(f->shm, MIB(8), &was, &err));
		assert_fails(copy(f, &err), ERR_DAMAGED, "frame 11 of");
		assert_no_copy(f);
		if (with_index)
			assert_done(file_read(f->shm, MIB(8), &is, &err));
		else
			assert_int_not_equal(access(f->shm, F_OK), 0);
		assert_int_equal(is.size, was.size);
		assert_true(!is.size || memcmp(is.p, was.p, is.size) == 0);
	}
}

static void a_wal_that_is_missing_is_damage(void **state)
{
	struct copy_fixture *f = *state;
	struct err err = { 0 };

	start_writer(f, 100, 30, false);
	kill_writer(f);
	unlink(f->wal);
	assert_fails(copy(f, &err), ERR_DAMAGED, "frame 1 of");
	assert_int_not_equal(access(f->wal, F_OK), 0);
}

static void a_damaged_page_is_named_and_not_copied(void **state)
{
	struct copy_fixture *f = *state;
	struct err err = { 0 };

	start_writer(f, 300, 0, false);
	flip_byte(f->path, 40 * PAGE + 77);
	assert_fails(copy(f, &err), ERR_DAMAGED, "x.db: page 41 is damaged");
	assert_no_copy(f);
	flip_byte(f->path, 40 * PAGE + 77);
	assert_done(copy(f, &err));
	assert_int_equal(check_copy(f, true), 300);
	/* The bytes that tell the size of pages, and that these have digests. */
	for (unsigned at = 16; at <= 20; at += 4) {
		db_files_remove(f->to);
		flip_byte(f->path, at);
		assert_fails(copy(f, &err), ERR_DAMAGED, "");
		assert_no_copy(f);
		flip_byte(f->path, at);
	}
}

static void a_damaged_frame_of_a_writer_is_not_copied(void **state)
{
	struct copy_fixture *f = *state;
	struct err err = { 0 };

	start_writer(f, 300, 30, false);
	/* The first frame has a page that no later one has again, or the copy does not need it. */
	for (uint64_t i = 0; i < 30; i++)
		flip_byte(f->wal, 32 + i * FRAME + 24 + 3000);
	assert_fails(copy(f, &err), ERR_DAMAGED, "its WAL is damaged");
	assert_no_copy(f);
}

static void a_full_disk_leaves_no_copy(void **state)
{
	struct copy_fixture *f = *state;
	int status;
	pid_t child;

	start_writer(f, ROWS, 10, false);
	child = fork();
	if (!child) {
		const struct rlimit most = { MIB(2), MIB(2) };
		struct err err = { 0 };

		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &most);
		_exit(copy(f, &err) < 0 && err.kind == ERR_IO && strstr(err.text, "copy.db: ") ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_no_copy(f);
}

static void a_file_that_is_there_is_not_replaced(void **state)
{
	struct copy_fixture *f = *state;
	AUTO(buf_done) struct buf text = { 0 };
	struct err err = { 0 };

	start_writer(f, 10, 0, false);
	test_file_write(f->to, "mine", 4);
	assert_fails(copy(f, &err), ERR_INVALID, "is there already");
	assert_done(file_read(f->to, 10, &text, &err));
	assert_str(buf_str(&text), "mine");
}

static void a_database_that_is_missing_or_empty_is_reported(void **state)
{
	struct copy_fixture *f = *state;
	struct err err = { 0 };

	assert_fails(copy(f, &err), ERR_IO, "x.db");
	test_file_write(f->path, "", 0);
	assert_fails(copy(f, &err), ERR_DAMAGED, "is empty");
	assert_no_copy(f);
}

/* As an older version made it. */
static void a_database_without_digests_stays_without(void **state)
{
	struct copy_fixture *f = *state;
	struct err err = { 0 };
	int status;
	pid_t child = fork();

	if (!child) {
		sqlite3 *sq = NULL;
		struct db *db;

		/* It loads SQLite. */
		if (db_open(":memory:x", &writing, &db, &err) < 0 ||
		    sqlite3_open_v2(f->path, &sq, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
			    SQLITE_OK ||
		    sqlite3_exec(sq,
				 "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL;"
				 "CREATE TABLE a (x INTEGER PRIMARY KEY, y INTEGER, z BLOB); CREATE INDEX b "
				 "ON a (y)",
				 NULL, NULL, NULL) != SQLITE_OK)
			_exit(1);
		sqlite3_close(sq);
		db_close(db);
		if (db_open(f->path, &writing, &db, &err) < 0 || db_begin(db, &err) < 0)
			_exit(2);
		for (int64_t i = 1; i <= ROWS; i++)
			if (insert_row(db, i, &err) < 0)
				_exit(3);
		/* Half of it is in the WAL. */
		if (db_commit(db, &err) < 0 || db_wal_truncate(db, 0, &err) != 0 ||
		    db_exec(db, "UPDATE a SET y = y - 1 WHERE x % 2 = 0", &err) < 0)
			_exit(4);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_done(copy(f, &err));
	assert_int_equal(check_copy(f, false), ROWS);
}

static void the_rights_are_not_wider_than_those_of_the_source(void **state)
{
	struct copy_fixture *f = *state;
	struct err err = { 0 };
	struct stat st;

	start_writer(f, 10, 0, false);
	assert_int_equal(chmod(f->path, 0600), 0);
	assert_done(copy(f, &err));
	assert_int_equal(stat(f->to, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

struct step_seen {
	struct copy_fixture *f;
	struct db_copy_state last;
	unsigned n;
	bool waits; /* for commits of the writer */
	uint64_t stop_after;
};

static int see_step(void *arg, const struct db_copy_state *s, struct err *err)
{
	struct step_seen *x = arg;

	assert_true(s->n_done >= x->last.n_done && s->n_done <= s->n_pages);
	x->last = *s;
	x->n++;
	if (x->waits && x->n == 2) {
		int64_t before = x->f->n_rows;

		while (read_committed(x->f) < before + 300)
			;
	}
	return x->stop_after && x->n >= x->stop_after ? err_set(err, ERR_CANCELLED, "enough") : 0;
}

static void a_step_sees_the_wal_grow_and_can_end_the_copy(void **state)
{
	struct copy_fixture *f = *state;
	struct step_seen x = { .f = f, .waits = true };
	struct err err = { 0 };
	struct db_pages pages;
	int64_t before;

	start_writer(f, ROWS, 10, true);
	assert_done(db_copy(f->path, f->to, &(struct db_copy_options){ see_step, &x }, &pages, &err));
	before = f->n_rows;
	assert_true(x.n > 10);
	assert_int_equal(x.last.n_done, x.last.n_pages);
	assert_int_equal(x.last.n_pages, pages.n);
	assert_true(x.last.wal_growth > (uint64_t)300 * FRAME);
	/* What was committed during the copy is not in it. */
	assert_true(check_copy(f, true) <= before - 200);
	db_files_remove(f->to);
	x = (struct step_seen){ .f = f, .stop_after = 3 };
	assert_fails(db_copy(f->path, f->to, &(struct db_copy_options){ see_step, &x }, &pages, &err),
		     ERR_CANCELLED, "enough");
	assert_int_equal(x.n, 3);
	assert_no_copy(f);
}

struct check_seen {
	struct copy_fixture *f;
	int truncated; /* steps at whose time the WAL could begin anew */
	bool stop;
};

static int see_check(void *arg, const struct db_copy_state *s, struct err *err)
{
	struct check_seen *x = arg;
	struct err why = { 0 };
	struct db *db;

	if (s->n_done < s->n_pages)
		return 0;
	assert_int_equal(db_open(x->f->path, &(struct db_options){ 0 }, &db, &why), 0);
	x->truncated += db_wal_truncate(db, 0, &why) == 0;
	db_abandon(db);
	db_close(db);
	return x->stop && x->truncated ? err_set(err, ERR_CANCELLED, "enough") : 0;
}

/* To compare the copy with its digests may take as long as to write it. */
static void while_the_copy_is_compared_the_wal_can_begin_anew(void **state)
{
	struct copy_fixture *f = *state;
	struct check_seen x = { .f = f };
	struct err err = { 0 };
	struct db_pages pages;

	start_writer(f, ROWS, 200, false);
	assert_done(db_copy(f->path, f->to, &(struct db_copy_options){ see_check, &x }, &pages, &err));
	assert_true(x.truncated > 0);
	assert_int_equal(check_copy(f, true), ROWS + 200);
	db_files_remove(f->to);
	x = (struct check_seen){ .f = f, .stop = true };
	assert_fails(db_copy(f->path, f->to, &(struct db_copy_options){ see_check, &x }, &pages, &err),
		     ERR_CANCELLED, "enough");
	assert_no_copy(f);
}

/* Without the right of root to write everywhere. Another user may not even enter "/", as in some containers. */
static bool is_refused_with_the_reason(const struct copy_fixture *f, const char *to)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	static const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
	struct err err = { 0 };
	struct db_pages x;

	return syscall(SYS_capset, &head, none) == 0 &&
	       db_copy(f->path, to, &(struct db_copy_options){ 0 }, &x, &err) < 0 && err.kind == ERR_IO &&
	       strstr(err.text, "x.db-shm must be made") && strstr(err.text, "ermission denied");
}

static void without_an_index_that_cannot_be_made_the_message_says_so(void **state)
{
	struct copy_fixture *f = *state;
	AUTO(mem_freep) char *out = mem_printf("%s/out", f->dir);
	AUTO(mem_freep) char *to = mem_printf("%s/copy.db", out);
	int status;
	pid_t child;

	start_writer(f, 50, 10, false);
	kill_writer(f);
	assert_int_equal(unlink(f->shm), 0);
	assert_int_equal(mkdir(out, 0777), 0);
	assert_int_equal(chmod(out, 0777), 0);
	assert_int_equal(chmod(f->dir, 0555), 0);
	child = fork();
	if (!child)
		_exit(!is_refused_with_the_reason(f, to));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(chmod(f->dir, 0755), 0);
	assert_int_equal(status, 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(a_copy_beside_a_writer_is_of_one_moment),
		T(a_wal_that_a_kill_has_left_is_in_the_copy),
		T(a_damaged_wal_that_a_kill_has_left_is_not_touched),
		T(a_wal_that_is_missing_is_damage),
		T(a_damaged_page_is_named_and_not_copied),
		T(a_damaged_frame_of_a_writer_is_not_copied),
		T(a_full_disk_leaves_no_copy),
		T(a_file_that_is_there_is_not_replaced),
		T(a_database_that_is_missing_or_empty_is_reported),
		T(a_database_without_digests_stays_without),
		T(the_rights_are_not_wider_than_those_of_the_source),
		T(a_step_sees_the_wal_grow_and_can_end_the_copy),
		T(while_the_copy_is_compared_the_wal_can_begin_anew),
		T(without_an_index_that_cannot_be_made_the_message_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
