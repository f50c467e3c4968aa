/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <sys/wait.h>
#include "db/db.h"

static const struct db_migration two[] = {
	{ "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7)" },
	{ "CREATE TABLE b (y INTEGER); INSERT INTO b SELECT x + 1 FROM a" },
};

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

static struct db *open_database(const struct db_fixture *f)
{
	struct err err = { 0 };
	struct db *db;

	assert_done(db_open(f->path, &(struct db_options){ .create = true }, &db, &err));
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

static void each_migration_is_done_once(void **state)
{
	struct err err = { 0 };
	struct db *db = open_database(*state);

	assert_done(db_migrate(db, two, 1, &err));
	assert_int_equal(query_i64(db, "SELECT x FROM a"), 7);
	db_close(db);
	/* A later version adds to the existing schema. */
	for (int i = 0; i < 2; i++) {
		db = open_database(*state);
		assert_done(db_migrate(db, two, 2, &err));
		assert_int_equal(query_i64(db, "SELECT count(*) FROM a"), 1);
		assert_int_equal(query_i64(db, "SELECT y FROM b"), 8);
		assert_int_equal(query_i64(db, "PRAGMA user_version"), 2);
		db_close(db);
	}
}

static void a_newer_schema_is_left_alone(void **state)
{
	struct db_fixture *f = *state;
	AUTO(buf_done) struct buf before = { 0 }, after = { 0 };
	struct err err = { 0 };
	struct db *db = open_database(f);

	assert_done(db_migrate(db, two, 2, &err));
	db_close(db);
	assert_done(file_read(f->path, MIB(1), &before, &err));
	db = open_database(f);
	assert_fails(db_migrate(db, two, 1, &err), ERR_INVALID,
		     "made by a newer lode (schema 2, this one knows 1)");
	assert_int_equal(query_i64(db, "SELECT y FROM b"), 8);
	db_close(db);
	/* The file is unchanged. */
	assert_done(file_read(f->path, MIB(1), &after, &err));
	assert_true(bytes_eq(buf_bytes(&before), buf_bytes(&after)));
}

static void an_older_schema_opened_for_reading_is_refused(void **state)
{
	struct db_fixture *f = *state;
	struct err err = { 0 };
	struct db *db = open_database(f);

	assert_done(db_migrate(db, two, 1, &err));
	db_close(db);
	assert_done(db_open(f->path, &(struct db_options){ .read_only = true }, &db, &err));
	assert_done(db_migrate(db, two, 1, &err));
	assert_fails(db_migrate(db, two, 2, &err), ERR_INVALID, "made by an older lode");
	db_close(db);
}

static void the_database_of_another_program_is_left_alone(void **state)
{
	struct err err = { 0 };
	struct db *db = open_database(*state);

	assert_done(db_exec(db, "CREATE TABLE buildids10_files (id INTEGER)", &err));
	assert_fails(db_migrate(db, two, 2, &err), ERR_INVALID, "belongs to another program");
	assert_int_equal(query_i64(db, "SELECT count(*) FROM sqlite_schema"), 1);
	db_close(db);
}

static void a_failed_migration_changes_nothing(void **state)
{
	static const struct db_migration bad[] = {
		{ "CREATE TABLE a (x INTEGER)" },
		{ "CREATE TABLE b (y INTEGER); INSERT INTO nowhere VALUES (1)" },
	};
	struct err err = { 0 };
	struct db *db = open_database(*state);

	assert_fails(db_migrate(db, bad, 2, &err), ERR_DAMAGED, "schema 2: CREATE TABLE b");
	assert_int_equal(query_i64(db, "PRAGMA user_version"), 1);
	assert_int_equal(query_i64(db, "SELECT count(*) FROM sqlite_schema"), 1);
	db_close(db);
}

static void processes_that_start_together_migrate_once(void **state)
{
	struct db_fixture *f = *state;
	struct db *db;
	pid_t child[6];
	int status[ARRAY_SIZE(child)];

	for (size_t i = 0; i < ARRAY_SIZE(child); i++) {
		child[i] = fork();
		assert_true(child[i] >= 0);
		if (child[i] == 0) {
			struct err err = { 0 };
			int r = db_open(f->path, &(struct db_options){ .create = true }, &db, &err);

			if (r == 0)
				r = db_migrate(db, two, 2, &err);
			if (r)
				fprintf(stderr, "# %s\n", err.text);
			_exit(r ? 1 : 0);
		}
	}
	/* All have ended before the first assertion: the folder is removed after it. */
	for (size_t i = 0; i < ARRAY_SIZE(child); i++)
		assert_int_equal(waitpid(child[i], &status[i], 0), child[i]);
	for (size_t i = 0; i < ARRAY_SIZE(child); i++)
		assert_int_equal(status[i], 0);
	db = open_database(f);
	assert_int_equal(query_i64(db, "SELECT count(*) FROM b"), 1);
	db_close(db);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(each_migration_is_done_once),
		T(a_newer_schema_is_left_alone),
		T(an_older_schema_opened_for_reading_is_refused),
		T(the_database_of_another_program_is_left_alone),
		T(a_failed_migration_changes_nothing),
		T(processes_that_start_together_migrate_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
