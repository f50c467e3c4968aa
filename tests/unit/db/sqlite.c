/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include "db/db.h"

struct db_fixture {
	char dir[TEST_PATH_SIZE];
	char path[TEST_PATH_SIZE + 16];
};

static int set_up(void **state)
{
	struct db_fixture *f = NEW(struct db_fixture);

	test_dir_make(f->dir);
	snprintf(f->path, sizeof(f->path), "%s/x.db", f->dir);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct db_fixture *f = *state;

	test_dir_remove(f->dir);
	free(f);
	return 0;
}

static struct db *open_at(const char *path)
{
	struct err err = { 0 };
	struct db *db;

	assert_done(
		db_open(path, &(struct db_options){ .create = true, .busy_timeout_ms = 2000 }, &db, &err));
	return db;
}

static int64_t query_i64(struct db *db, const char *sql)
{
	struct err err = { 0 };
	struct db_stmt *s;
	int64_t v;

	assert_done(db_prepare(db, sql, &s, &err));
	assert_int_equal(db_step(s, &err), DB_ROW);
	v = db_i64(s, 0);
	db_reset(s);
	return v;
}

static void exec_sql(struct db *db, const char *sql)
{
	struct err err = { 0 };

	assert_done(db_exec(db, sql, &err));
}

static void every_value_is_read_as_it_was_written(void **state)
{
	struct db_fixture *f = *state;
	static const char odd[] = "'); DROP TABLE t; --\xff\xfe\0 more";
	struct err err = { 0 };
	struct db *db = open_at(f->path);
	struct db_stmt *s, *again;

	exec_sql(db, "CREATE TABLE t (i, s, b, n, e, eb)");
	assert_done(db_prepare(db, "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", &s, &err));
	db_bind_i64(s, 1, INT64_MIN);
	db_bind_str(s, 2, (struct str){ odd, sizeof(odd) });
	db_bind_bytes(s, 3, bytes_of(odd, sizeof(odd)));
	db_bind_null(s, 4);
	db_bind_str(s, 5, (struct str){ 0 });
	db_bind_bytes(s, 6, (struct bytes){ 0 });
	assert_int_equal(db_step(s, &err), DB_DONE);
	assert_int_equal(db_changes(db), 1);
	assert_int_equal(db_last_id(db), 1);
	assert_done(db_prepare(db, "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", &again, &err));
	assert_ptr_equal(s, again);

	assert_done(db_prepare(db, "SELECT * FROM t", &s, &err));
	assert_int_equal(db_step(s, &err), DB_ROW);
	assert_true(db_i64(s, 0) == INT64_MIN);
	assert_true(str_eq(db_str(s, 1), (struct str){ odd, sizeof(odd) }));
	assert_true(bytes_eq(db_bytes(s, 2), bytes_of(odd, sizeof(odd))));
	assert_true(db_is_null(s, 3));
	assert_false(db_is_null(s, 4));
	assert_int_equal(db_str(s, 4).size, 0);
	assert_false(db_is_null(s, 5));
	assert_int_equal(db_bytes(s, 5).size, 0);
	assert_int_equal(db_step(s, &err), DB_DONE);
	db_close(db);
}

static void the_error_of_a_statement_has_its_text_and_reason(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *db = open_at(f->path);
	struct db_stmt *s;

	assert_fails(db_exec(db, "SELECT * FROM nowhere", &err), ERR_DAMAGED,
		     "SELECT * FROM nowhere: no such table: nowhere");
	exec_sql(db, "CREATE TABLE t (x UNIQUE); INSERT INTO t VALUES (1)");
	assert_done(db_prepare(db, "INSERT INTO t VALUES (?)", &s, &err));
	db_bind_i64(s, 1, 1);
	assert_fails(db_step(s, &err), ERR_INTERNAL, "UNIQUE");
	/* The statement can be used again. */
	db_bind_i64(s, 1, 2);
	assert_int_equal(db_step(s, &err), DB_DONE);
	db_close(db);
}

static void a_transaction_is_seen_whole_or_not_at_all(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *w = open_at(f->path), *r;

	exec_sql(w, "CREATE TABLE t (x)");
	r = open_at(f->path);
	assert_done(db_begin(w, &err));
	exec_sql(w, "INSERT INTO t VALUES (1)");
	assert_int_equal(query_i64(r, "SELECT count(*) FROM t"), 0);
	exec_sql(w, "INSERT INTO t VALUES (2)");
	assert_done(db_commit(w, &err));
	assert_int_equal(query_i64(r, "SELECT count(*) FROM t"), 2);
	assert_done(db_begin(w, &err));
	exec_sql(w, "DELETE FROM t");
	db_rollback(w);
	db_rollback(w);
	assert_int_equal(query_i64(w, "SELECT count(*) FROM t"), 2);
	db_close(w);
	db_close(r);
}

static void a_second_writer_waits_then_fails(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *w = open_at(f->path), *other;

	exec_sql(w, "CREATE TABLE t (x)");
	assert_done(db_open(f->path, &(struct db_options){ .busy_timeout_ms = 20 }, &other, &err));
	assert_done(db_begin(w, &err));
	assert_fails(db_begin(other, &err), ERR_IO, "BEGIN IMMEDIATE: database is locked");
	assert_done(db_commit(w, &err));
	assert_done(db_begin(other, &err));
	db_rollback(other);
	db_close(w);
	db_close(other);
}

static void cutting_the_wal_off_keeps_the_busy_timeout(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *w = open_at(f->path), *other;
	int64_t from_ms;

	exec_sql(w, "CREATE TABLE t (x)");
	assert_done(db_open(f->path, &(struct db_options){ .busy_timeout_ms = 20 }, &other, &err));
	assert_done(db_wal_truncate(other, 0, &err));
	assert_done(db_begin(w, &err));
	from_ms = clock_mono_ms();
	assert_fails(db_begin(other, &err), ERR_IO, "BEGIN IMMEDIATE: database is locked");
	assert_true(clock_mono_ms() - from_ms < 5000); /* the default is 10 000 ms */
	db_rollback(w);
	db_close(w);
	db_close(other);
}

#define CHECKPOINT_LOCK 121 /* its byte in the file -shm */

/* Another process is in a checkpoint of the database at @path until the pipe *ret_end is closed. */
static pid_t checkpoint_elsewhere(const char *path, int *ret_end)
{
	AUTO(mem_freep) char *shm = mem_printf("%s-shm", path);
	int begun[2], end[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(begun), 0);
	assert_int_equal(pipe(end), 0);
	pid = fork();
	if (pid == 0) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = CHECKPOINT_LOCK, .l_len = 1
		};
		int fd = open(shm, O_RDWR | O_CLOEXEC);

		close(end[1]);
		if (fcntl(fd, F_SETLK, &lock) == 0 && write(begun[1], "", 1) == 1)
			(void)!read(end[0], &c, 1);
		_exit(0);
	}
	close(begun[1]);
	close(end[0]);
	assert_int_equal(read(begun[0], &c, 1), 1);
	close(begun[0]);
	*ret_end = end[1];
	return pid;
}

static void the_wal_does_not_begin_anew_beside_a_checkpoint(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *w = open_at(f->path);
	uint64_t size;
	pid_t pid;
	int end;

	exec_sql(w, "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
	assert_done(db_checkpoint(w, &err));
	size = db_wal_size(w);
	pid = checkpoint_elsewhere(f->path, &end);
	exec_sql(w, "INSERT INTO t VALUES (2)");
	assert_true(db_wal_size(w) > size);
	close(end);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* As soon as there is none, it does. */
	assert_done(db_checkpoint(w, &err));
	exec_sql(w, "INSERT INTO t VALUES (3)");
	assert_true(db_wal_size(w) < size);
	/* The lock was given back. */
	assert_done(db_checkpoint(w, &err));
	assert_int_equal(query_i64(w, "SELECT sum(x) FROM t"), 6);
	db_close(w);
}

static void a_connection_for_reading_cannot_write(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *w = open_at(f->path), *r;

	exec_sql(w, "CREATE TABLE t (x)");
	assert_done(db_open(f->path, &(struct db_options){ .read_only = true }, &r, &err));
	assert_int_equal(query_i64(r, "SELECT count(*) FROM t"), 0);
	assert_fails(db_exec(r, "INSERT INTO t VALUES (1)", &err), ERR_IO, "readonly");
	db_close(w);
	db_close(r);
}

static void a_missing_database_is_created_only_on_request(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *db;

	assert_fails(db_open(f->path, &(struct db_options){ 0 }, &db, &err), ERR_IO, "unable to open");
	assert_fails(db_open(f->path, &(struct db_options){ .read_only = true }, &db, &err), ERR_IO, f->path);
	assert_int_equal(access(f->path, F_OK), -1);
}

static void a_file_that_is_no_database_is_reported(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	uint8_t junk[8192];
	struct db *db;

	test_fill(junk, sizeof(junk), 1);
	test_file_write(f->path, junk, sizeof(junk));
	assert_fails(db_open(f->path, &(struct db_options){ .create = true }, &db, &err), ERR_DAMAGED,
		     "not a database");
	assert_fails(db_open(f->path, &(struct db_options){ .read_only = true }, &db, &err), ERR_DAMAGED,
		     "not a database");
}

static void one_number_is_read_with_its_statement_reset(void **state)
{
	struct db_fixture *f = *state;
	struct db *db = open_at(f->path);
	struct err err = { 0 };
	struct db_stmt *s;
	int64_t n = 7;

	exec_sql(db, "CREATE TABLE t (x); INSERT INTO t VALUES (5), (6)");
	assert_done(db_prepare(db, "SELECT x FROM t WHERE x > ? ORDER BY x", &s, &err));
	db_bind_i64(s, 1, 5);
	assert_int_equal(db_step_i64(s, &n, &err), DB_ROW);
	assert_int_equal(n, 6);
	db_bind_i64(s, 1, 6);
	assert_int_equal(db_step_i64(s, &n, &err), DB_DONE);
	assert_int_equal(n, 6);
	assert_done(db_get_i64(db, "SELECT max(x) FROM t", &n, &err));
	assert_int_equal(n, 6);
	assert_done(db_get_i64(db, "SELECT x FROM t WHERE x = 9", &n, &err));
	assert_int_equal(n, 0);
	/* No statement reads any more, so the table can be dropped. */
	exec_sql(db, "DROP TABLE t");
	db_close(db);
}

static void damaged_pages_are_an_error_not_an_answer(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *db = open_at(f->path);
	struct db_stmt *s;
	uint8_t junk[4096];
	int fd, r;

	exec_sql(db,
		 "CREATE TABLE t (x); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
		 "LIMIT 20000) INSERT INTO t SELECT randomblob(40) FROM n; PRAGMA wal_checkpoint(TRUNCATE)");
	db_close(db);
	fd = open(f->path, O_WRONLY | O_CLOEXEC);
	test_fill(junk, sizeof(junk), 2);
	for (int page = 3; page < 100; page++)
		assert_int_equal(pwrite(fd, junk, sizeof(junk), page * 4096), sizeof(junk));
	close(fd);
	db = open_at(f->path);
	assert_done(db_prepare(db, "SELECT sum(length(x)) FROM t", &s, &err));
	r = db_step(s, &err);
	assert_true(r < 0);
	assert_int_equal(err.kind, ERR_DAMAGED);
	assert_non_null(strstr(err.text, "a page of the database is damaged"));
	db_close(db);
}

static void a_query_past_its_deadline_is_cut_off(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *db = open_at(f->path);
	struct db_stmt *s;
	static const char forever[] =
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

	assert_done(db_prepare(db, forever, &s, &err));
	db_set_deadline(db, clock_mono_ms() + 20);
	assert_fails(db_step(s, &err), ERR_CANCELLED, "cut off");
	db_set_deadline(db, 0);
	assert_int_equal(query_i64(db, "SELECT 1"), 1);
	db_close(db);
}

static void a_database_in_memory_is_shared_by_name_until_the_last_close(void **state)
{
	struct err err = { 0 };
	struct db *a = open_at(":memory:o'ne?&x=%41"), *b = open_at(":memory:o'ne?&x=%41"),
		  *c = open_at(":memory:two");

	exec_sql(a, "CREATE TABLE t (x); INSERT INTO t VALUES (5)");
	assert_int_equal(query_i64(b, "SELECT x FROM t"), 5);
	assert_fails(db_exec(c, "SELECT x FROM t", &err), ERR_DAMAGED, "no such table");
	db_close(a);
	assert_int_equal(query_i64(b, "SELECT x FROM t"), 5);
	db_close(b);
	a = open_at(":memory:o'ne?&x=%41");
	assert_int_equal(query_i64(a, "SELECT count(*) FROM sqlite_schema"), 0);
	db_close(a);
	db_close(c);
}

struct reader_group {
	const char *path;
	_Atomic int n_failed;
	_Atomic bool over;
};

static void *read_in_thread(void *arg)
{
	struct reader_group *c = arg;
	struct err err = { 0 };
	struct db_stmt *s;
	struct db *db;

	if (db_open(c->path, &(struct db_options){ .read_only = true }, &db, &err) < 0) {
		c->n_failed++;
		return NULL;
	}
	while (!c->over) {
		/* A transaction adds two rows: an odd count would be half of one. */
		if (db_prepare(db, "SELECT count(*) FROM t", &s, &err) < 0 || db_step(s, &err) != DB_ROW ||
		    db_i64(s, 0) % 2 != 0) {
			fprintf(stderr, "# %s\n", err.text);
			c->n_failed++;
			break;
		}
		db_reset(s);
		usleep(100);
	}
	db_close(db);
	return NULL;
}

static void readers_continue_during_writes(void **state)
{
	struct db_fixture *f = *state;
	const char *paths[] = { f->path, ":memory:crowd" };

	for (size_t p = 0; p < ARRAY_SIZE(paths); p++) {
		struct reader_group c = { .path = paths[p] };
		struct db *w = open_at(c.path);
		struct err err = { 0 };
		pthread_t t[4];

		exec_sql(w, "CREATE TABLE t (x)");
		for (size_t i = 0; i < ARRAY_SIZE(t); i++)
			assert_int_equal(pthread_create(&t[i], NULL, read_in_thread, &c), 0);
		for (int i = 0; i < 200; i++) {
			assert_done(db_begin(w, &err));
			exec_sql(w, "INSERT INTO t VALUES (1)");
			exec_sql(w, "INSERT INTO t VALUES (2)");
			assert_done(db_commit(w, &err));
		}
		c.over = true;
		for (size_t i = 0; i < ARRAY_SIZE(t); i++)
			pthread_join(t[i], NULL);
		assert_int_equal(c.n_failed, 0);
		assert_int_equal(query_i64(w, "SELECT count(*) FROM t"), 400);
		db_close(w);
	}
}

static void a_killed_writer_leaves_whole_transactions(void **state)
{
	struct db_fixture *f = *state;
	struct db *db = open_at(f->path);
	struct db_stmt *s;
	struct err err = { 0 };

	exec_sql(db, "CREATE TABLE t (x)");
	db_close(db);
	for (int i = 0; i < 5; i++) {
		int64_t before, n_reported = 0, after;
		int pipes[2], status;
		uint8_t one;
		pid_t child;

		db = open_at(f->path);
		before = query_i64(db, "SELECT count(*) FROM t");
		db_close(db);
		assert_int_equal(pipe(pipes), 0);
		child = fork();
		if (child == 0) {
			struct db *w;

			if (db_open(f->path, &(struct db_options){ 0 }, &w, &err) < 0)
				_exit(1);
			for (;;) {
				db_begin(w, &err);
				for (int k = 0; k < 3; k++)
					db_exec(w, "INSERT INTO t VALUES (randomblob(3000))", &err);
				if (db_commit(w, &err) < 0 || write(pipes[1], "x", 1) != 1)
					_exit(1);
			}
		}
		close(pipes[1]);
		/* The process is killed during one of the next transactions. */
		for (int k = 0; k < 10 + 3 * i; k++) {
			assert_int_equal(read(pipes[0], &one, 1), 1);
			n_reported++;
		}
		kill(child, SIGKILL);
		while (read(pipes[0], &one, 1) == 1)
			n_reported++;
		close(pipes[0]);
		waitpid(child, &status, 0);
		assert_true(WIFSIGNALED(status));

		db = open_at(f->path);
		after = query_i64(db, "SELECT count(*) FROM t");
		assert_int_equal((after - before) % 3, 0);
		assert_true(after - before >= 3 * n_reported);
		assert_done(db_prepare(db, "PRAGMA integrity_check", &s, &err));
		assert_int_equal(db_step(s, &err), DB_ROW);
		assert_str(db_str(s, 0), "ok");
		db_close(db);
	}
}

static void the_mark_changes_with_every_commit(void **state)
{
	struct db_fixture *f = *state;
	struct db *w = open_at(f->path), *r, *memory = open_at(":memory:mark");
	struct db_mark before, after;
	struct err err = { 0 };
	int status;
	pid_t child;

	exec_sql(w, "CREATE TABLE t (x)");
	assert_done(db_open(f->path, &(struct db_options){ .read_only = true }, &r, &err));
	assert_true(db_mark(r, &before));
	assert_int_equal(query_i64(r, "SELECT count(*) FROM t"), 0);
	assert_true(db_mark(r, &after));
	assert_memory_equal(&before, &after, sizeof(before));
	assert_done(db_begin(w, &err));
	exec_sql(w, "INSERT INTO t VALUES (1)");
	assert_true(db_mark(r, &after));
	assert_memory_equal(&before, &after, sizeof(before));
	assert_done(db_commit(w, &err));
	assert_true(db_mark(r, &after));
	assert_memory_not_equal(&before, &after, sizeof(before));
	/* The same if another process commits. */
	child = fork();
	if (child == 0) {
		struct db *other;

		if (db_open(f->path, &(struct db_options){ 0 }, &other, &err) < 0 ||
		    db_exec(other, "INSERT INTO t VALUES (2)", &err) < 0)
			_exit(1);
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_true(db_mark(r, &before));
	assert_memory_not_equal(&before, &after, sizeof(before));
	assert_false(db_mark(memory, &before));
	db_close(w);
	db_close(r);
	db_close(memory);
}

static void a_statement_that_has_ended_keeps_no_values(void **state)
{
	const struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *db = open_at(f->path);
	struct db_stmt *s;
	int64_t n;

	assert_done(db_exec(db, "CREATE TABLE t (x)", &err));
	assert_done(db_prepare(db, "INSERT INTO t VALUES (?)", &s, &err));
	db_bind_str(s, 1, STR("a"));
	assert_int_equal(db_step(s, &err), DB_DONE);
	assert_int_equal(db_step(s, &err), DB_DONE);
	assert_done(db_get_i64(db, "SELECT count(*) FROM t WHERE x IS NULL", &n, &err));
	assert_int_equal(n, 1);
	assert_done(db_prepare(db, "SELECT ?", &s, &err));
	db_bind_i64(s, 1, 7);
	assert_int_equal(db_step(s, &err), DB_ROW);
	assert_int_equal(db_i64(s, 0), 7);
	db_reset(s);
	assert_int_equal(db_step(s, &err), DB_ROW);
	assert_true(db_is_null(s, 0));
	db_close(db);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(every_value_is_read_as_it_was_written),
		T(the_error_of_a_statement_has_its_text_and_reason),
		T(a_transaction_is_seen_whole_or_not_at_all),
		T(a_second_writer_waits_then_fails),
		T(cutting_the_wal_off_keeps_the_busy_timeout),
		T(the_wal_does_not_begin_anew_beside_a_checkpoint),
		T(a_connection_for_reading_cannot_write),
		T(a_missing_database_is_created_only_on_request),
		T(a_file_that_is_no_database_is_reported),
		T(a_statement_that_has_ended_keeps_no_values),
		T(one_number_is_read_with_its_statement_reset),
		T(damaged_pages_are_an_error_not_an_answer),
		T(a_query_past_its_deadline_is_cut_off),
		T(a_database_in_memory_is_shared_by_name_until_the_last_close),
		T(readers_continue_during_writes),
		T(the_mark_changes_with_every_commit),
		T(a_killed_writer_leaves_whole_transactions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
