/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged and foreign databases, and writers that fail or are killed.
 */
#include "fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include "index/internal.h"

#define EXE ELF_IS_EXECUTABLE

static void exec_sql(struct index_fixture *fix, const char *text)
{
	struct db *db;
	struct err err = { 0 };

	assert_done(db_open(fix->path, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, text, &err));
	db_close(db);
}

static void an_index_of_a_newer_lode_is_left_alone(void **state)
{
	struct index_fixture *fix = *state;
	struct index *ix;
	struct err err = { 0 };

	fixture_add_plain(fix, "/a", 1, 1, EXE);
	exec_sql(fix, "PRAGMA user_version = 1000");
	for (int read_only = 0; read_only < 2; read_only++)
		assert_fails(
			index_open(fix->path, &(struct index_options){ .read_only = read_only }, &ix, &err),
			ERR_INVALID, "made by a newer lode (schema 1000");
	assert_non_null(strstr(err.text, "move it aside"));
	assert_non_null(strstr(err.text, fix->path));
	exec_sql(fix, "PRAGMA user_version = 3");
	assert_done(index_open(fix->path, &(struct index_options){ 0 }, &ix, &err));
	index_close(ix);
}

/* A program that an older lode took for a debug file: the package is read again, and no other one. */
static void packages_with_members_of_wrong_kind_are_due_after_the_migration(void **state)
{
	static const struct fixture_entry wrong[] = { { "usr/bin/rust", 1,
							ELF_IS_EXECUTABLE | ELF_IS_DEBUG } };
	static const struct fixture_entry right[] = {
		{ "usr/bin/c", 2, ELF_IS_EXECUTABLE },
		{ "usr/bin/whole", 3, ELF_IS_EXECUTABLE | ELF_IS_DEBUG | ELF_HAS_DWARF },
	};
	struct index_fixture *fix = *state;
	int64_t again = fixture_add_package(fix, "/a.deb", 1, wrong, ARRAY_SIZE(wrong));
	struct index_file *due;
	struct index *ix;
	struct err err = { 0 };
	size_t n;

	fixture_add_package(fix, "/b.deb", 1, right, ARRAY_SIZE(right));
	exec_sql(fix, "PRAGMA user_version = 4");
	assert_done(index_open(fix->path, &(struct index_options){ 0 }, &ix, &err));
	assert_done(index_due(ix, 1000, 10, &fix->arena, &due, &n, &err));
	assert_int_equal(n, 1);
	assert_int_equal(due[0].id, again);
	index_close(ix);
}

static void the_error_for_a_file_that_is_no_index_names_the_remedy(void **state)
{
	struct index_fixture *fix = *state;
	char path[TEST_PATH_SIZE + 16];
	uint8_t junk[20000];
	struct index *ix;
	struct err err = { 0 };

	snprintf(path, sizeof(path), "%s/junk", fix->dir);
	test_fill(junk, sizeof(junk), 1);
	test_file_write(path, junk, sizeof(junk));
	assert_fails(index_open(path, &(struct index_options){ 0 }, &ix, &err), ERR_DAMAGED, "move it aside");
}

/* Rows that lode never writes are errors, not wrong values. */
static void impossible_values_are_reported_as_damage(void **state)
{
	struct index_fixture *fix = *state;
	static const char *const changes[] = {
		"UPDATE file SET kind = 9",  "UPDATE file SET state = 0",  "UPDATE file SET reason_kind = -1",
		"UPDATE file SET inner = 6", "UPDATE file SET tries = -1",
	};
	struct build_id id = fixture_id(1);
	struct index_artifact *list;
	struct index_hit *hits;
	struct index_file f;
	struct err err = { 0 };
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		int64_t file = fixture_add_plain(fix, "/a", 1, 1, EXE);

		exec_sql(fix, changes[i]);
		assert_fails(index_file_by_id(fix->ix, file, &fix->arena, &f, &err), ERR_DAMAGED, "damaged");
		assert_fails(index_find(fix->ix, &id, &fix->arena, &hits, &n, &err), ERR_DAMAGED, "damaged");
	}
	fixture_add_plain(fix, "/a", 1, 1, EXE);
	exec_sql(fix, "UPDATE artifact SET member = 4294967296");
	assert_fails(index_find(fix->ix, &id, &fix->arena, &hits, &n, &err), ERR_DAMAGED, "damaged");
	exec_sql(fix, "UPDATE artifact SET build_id = zeroblob(85), member = -1");
	assert_fails(index_artifacts_of(fix->ix, 1, &fix->arena, &list, &n, &err), ERR_DAMAGED, "damaged");
	exec_sql(fix, "UPDATE artifact SET build_id = x''");
	assert_fails(index_artifacts_of(fix->ix, 1, &fix->arena, &list, &n, &err), ERR_DAMAGED, "damaged");
}

static void the_error_for_a_damaged_map_names_the_package(void **state)
{
	struct index_fixture *fix = *state;
	static const struct fixture_entry entries[] = { { "usr/bin/x", 1, EXE } };
	int64_t id = fixture_add_package(fix, "/p", 1, entries, 1);
	struct pkg_map *map;
	struct err err = { 0 };

	exec_sql(fix, "UPDATE map SET blob = randomblob(200)");
	assert_fails(index_map(fix->ix, id, &map, &err), ERR_INVALID, "package map of file 1");
	exec_sql(fix, "UPDATE map SET blob = x''");
	assert_fails(index_map(fix->ix, id, &map, &err), ERR_INVALID, "package map of file 1");
}

/* No memory error either: this test is run with the address sanitizer, too. */
static void an_overwritten_database_gives_answers_or_errors(void **state)
{
	struct index_fixture *fix = *state;
	AUTO(buf_done) struct buf whole = { 0 };
	struct err err = { 0 };
	unsigned n_failed = 0;

	assert_done(index_begin(fix->ix, &err));
	for (uint32_t i = 0; i < 300; i++) {
		struct fixture_entry e = { "usr/bin/x", i + 1, EXE };
		char path[64];

		snprintf(path, sizeof(path), "/pool/%u.deb", i);
		fixture_add_package(fix, path, 1, &e, 1);
	}
	assert_done(index_commit(fix->ix, &err));
	index_close(fix->ix);
	assert_done(file_read(fix->path, MIB(64), &whole, &err));
	for (uint32_t round = 0; round < 60; round++) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index *ix;
		int fd = open(fix->path, O_WRONLY | O_CLOEXEC);

		arena_init(&a);
		assert_done(fd_pwrite(fd, whole.p, whole.size, 0, &err));
		for (uint32_t k = 0; k < 40; k++) {
			uint64_t random[2];

			test_fill(random, sizeof(random), round * 100 + k);
			assert_done(fd_pwrite(fd, &random[1], 1 + random[1] % 8, random[0] % (whole.size - 8),
					      &err));
		}
		close(fd);
		if (index_open(fix->path, &(struct index_options){ 0 }, &ix, &err) < 0) {
			n_failed++;
			continue;
		}
		for (uint32_t i = 0; i < 300; i += 7) {
			struct build_id id = fixture_id(i + 1);
			struct index_hit *hits;
			struct pkg_map *map;
			size_t n;
			int r = index_find(ix, &id, &a, &hits, &n, &err);

			n_failed += r != 0;
			if (r == 0 && index_map(ix, hits[0].file.id, &map, &err) == 0)
				pkg_map_free(map);
		}
		index_close(ix);
		unlink(strcat(strcpy((char[TEST_PATH_SIZE + 32]){ 0 }, fix->path), "-wal"));
		unlink(strcat(strcpy((char[TEST_PATH_SIZE + 32]){ 0 }, fix->path), "-shm"));
	}
	assert_true(n_failed > 0);
	unlink(fix->path);
	assert_done(index_open(fix->path, &(struct index_options){ 0 }, &fix->ix, &err));
}

static void a_damaged_index_is_set_aside_and_a_sound_one_stays(void **state)
{
	struct index_fixture *fix = *state;
	AUTO(buf_done) struct buf whole = { 0 };
	AUTO(mem_freep) char *aside = NULL;
	struct err err = { 0 };

	fixture_add_plain(fix, "/a", 1, 1, EXE);
	index_close(fix->ix);
	assert_done(index_mend(fix->path, &aside, &err));
	assert_null(aside);
	assert_done(file_read(fix->path, MIB(64), &whole, &err));
	/* One wrong bit would be corrected. */
	whole.p[whole.size - 100] ^= 4;
	whole.p[whole.size - 200] ^= 4;
	test_file_write(fix->path, whole.p, whole.size);
	assert_done(index_mend(fix->path, &aside, &err));
	assert_non_null(aside);
	assert_non_null(strstr(err.text, "is damaged"));
	assert_int_equal(access(aside, F_OK), 0);
	assert_int_not_equal(access(fix->path, F_OK), 0);
	assert_done(index_open(fix->path, &(struct index_options){ 0 }, &fix->ix, &err));
}

static void a_failed_change_fails_its_transaction(void **state)
{
	struct index_fixture *fix = *state;
	static const struct fixture_entry entries[] = { { "usr/bin/x", 2, EXE } };
	AUTO(buf_done) struct buf blob = { 0 };
	struct err err = { 0 };
	struct index_file f;
	int64_t id = fixture_add_header(fix, "/p", 1, 1, 1);

	fixture_encode_map(entries, 1, &blob);
	/* Without its table the map cannot be deleted. */
	exec_sql(fix, "ALTER TABLE map RENAME TO elsewhere");
	assert_done(index_begin(fix->ix, &err));
	fixture_add_plain(fix, "/a", 1, 9, EXE);
	assert_fails(index_set_map(fix->ix, id,
				   &(struct index_content){ buf_bytes(&blob), 0, NULL, 0, NULL, 0 }, &err),
		     ERR_DAMAGED, "map");
	assert_fails(index_commit(fix->ix, &err), ERR_INTERNAL, "nothing of it is kept");
	assert_int_equal(index_file_by_path(fix->ix, STR("/a"), &fix->arena, &f, &err), INDEX_MISSING);
	exec_sql(fix, "ALTER TABLE elsewhere RENAME TO map");
	assert_done(index_set_map(fix->ix, id,
				  &(struct index_content){ buf_bytes(&blob), 0, NULL, 0, NULL, 0 }, &err));
}

static void a_killed_writer_leaves_whole_packages(void **state)
{
	struct index_fixture *fix = *state;

	index_close(fix->ix);
	fix->ix = NULL;
	for (int round = 0; round < 5; round++) {
		struct index_file *list;
		struct err err = { 0 };
		int pipes[2], status;
		size_t n, n_reported = 0;
		struct db_stmt *s;
		char c;
		pid_t child;

		assert_int_equal(pipe(pipes), 0);
		child = fork();
		if (child == 0) {
			assert_done(index_open(fix->path, &(struct index_options){ 0 }, &fix->ix, &err));
			for (uint32_t i = 0;; i++) {
				struct fixture_entry e[] = { { "a/x", 2 * i + 1, EXE },
							     { "b/y", 2 * i + 2, EXE } };
				char path[64];

				snprintf(path, sizeof(path), "/p%d/%u", round, i);
				index_begin(fix->ix, &err);
				fixture_add_package(fix, path, 1, e, 2);
				if (index_commit(fix->ix, &err) < 0 || write(pipes[1], "x", 1) != 1)
					_exit(1);
			}
		}
		close(pipes[1]);
		for (int k = 0; k < 5 + 4 * round; k++)
			assert_int_equal(read(pipes[0], &c, 1), 1);
		n_reported = (size_t)(5 + 4 * round);
		kill(child, SIGKILL);
		while (read(pipes[0], &c, 1) == 1)
			n_reported++;
		close(pipes[0]);
		waitpid(child, &status, 0);
		assert_true(WIFSIGNALED(status));

		assert_done(index_open(fix->path, &(struct index_options){ 0 }, &fix->ix, &err));
		assert_done(db_prepare(fix->ix->db, "PRAGMA integrity_check", &s, &err));
		assert_int_equal(db_step(s, &err), DB_ROW);
		assert_str(db_str(s, 0), "ok");
		db_reset(s);
		assert_done(index_list(fix->ix, &(struct index_range){ INDEX_PACKAGE, 0, 0, 100000 },
				       &fix->arena, &list, &n, &err));
		assert_true(n >= n_reported);
		for (size_t i = 0; i < n; i++) {
			struct index_artifact *arts;
			struct pkg_map *map;
			size_t n_arts;

			assert_int_equal(list[i].state, INDEX_SCANNED);
			assert_done(
				index_artifacts_of(fix->ix, list[i].id, &fix->arena, &arts, &n_arts, &err));
			assert_int_equal(n_arts, 2);
			assert_done(index_map(fix->ix, list[i].id, &map, &err));
			pkg_map_free(map);
		}
		index_close(fix->ix);
		fix->ix = NULL;
	}
}

static void count_note(void *arg)
{
	++*(int *)arg;
}

/* Readers go on with the new one; that was set aside is not touched by closing its connections. */
static void an_index_that_is_damaged_in_use_is_made_anew(void **state)
{
	struct index_fixture *fix = *state;
	struct build_id id = fixture_id(1), later = fixture_id(2);
	AUTO(mem_freep) char *aside = NULL;
	struct index *reader, *watch;
	struct index_hit *hits;
	struct db_mark mark;
	struct err err = { 0 };
	uint8_t junk[4096 * 3];
	int n_notes = 0;
	size_t n;

	fixture_add_plain(fix, "/a", 1, 1, EXE);
	assert_done(index_tidy(fix->ix, false, &err));
	assert_done(index_open(fix->path, &(struct index_options){ .read_only = true }, &reader, &err));
	assert_done(index_open(fix->path, &(struct index_options){ .read_only = true }, &watch, &err));
	assert_true(index_mark(watch, &mark));
	index_on_damage(fix->ix, count_note, &n_notes);
	{
		AUTO(fd_close) int fd = open(fix->path, O_RDWR | O_CLOEXEC);

		memset(junk, 0x5a, sizeof(junk));
		for (uint64_t off = 4096 * 2; off < 4096 * 14; off += sizeof(junk))
			assert_done(fd_pwrite(fd, junk, sizeof(junk), off, &err));
	}
	assert_fails(index_find(reader, &id, &fix->arena, &hits, &n, &err), ERR_DAMAGED, "damaged");
	assert_fails(index_find(reader, &id, &fix->arena, &hits, &n, &err), ERR_DAMAGED, "damaged");
	assert_true(index_is_damaged(fix->ix));
	assert_int_equal(n_notes, 1);
	assert_done(index_remake(fix->ix, &aside, &err));
	assert_false(index_is_damaged(fix->ix));
	assert_int_equal(access(aside, F_OK), 0);
	assert_int_equal(index_find(reader, &id, &fix->arena, &hits, &n, &err), INDEX_MISSING);
	assert_false(index_mark(watch, &mark));
	fixture_add_plain(fix, "/b", 1, 2, EXE);
	assert_done(index_find(reader, &later, &fix->arena, &hits, &n, &err));
	index_close(reader);
	index_close(watch);
	fixture_add_plain(fix, "/c", 1, 1, EXE);
	assert_done(index_find(fix->ix, &id, &fix->arena, &hits, &n, &err));
	index_close(fix->ix);
	fix->ix = NULL;
	assert_done(index_open(fix->path, &(struct index_options){ 0 }, &fix->ix, &err));
	assert_done(index_find(fix->ix, &id, &fix->arena, &hits, &n, &err));
	assert_done(index_find(fix->ix, &later, &fix->arena, &hits, &n, &err));
	index_on_damage(fix->ix, NULL, NULL);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		T(an_index_of_a_newer_lode_is_left_alone),
		T(packages_with_members_of_wrong_kind_are_due_after_the_migration),
		T(the_error_for_a_file_that_is_no_index_names_the_remedy),
		T(impossible_values_are_reported_as_damage),
		T(the_error_for_a_damaged_map_names_the_package),
		T(an_overwritten_database_gives_answers_or_errors),
		T(an_index_that_is_damaged_in_use_is_made_anew),
		T(a_damaged_index_is_set_aside_and_a_sound_one_stays),
		T(a_failed_change_fails_its_transaction),
		T(a_killed_writer_leaves_whole_packages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
