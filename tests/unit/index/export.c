/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the index for other nodes.
 */
#include "fixture.h"

#include <fcntl.h>
#include <unistd.h>
#include "index/internal.h"

static bool keep_buckets(void *arg, const struct index_file *f)
{
	return str_starts(f->path, STR("s3://"));
}

static bool keep_one(void *arg, const struct index_file *f)
{
	return str_eq(f->path, str_of(arg));
}

struct copies {
	char copy[TEST_PATH_SIZE + 32], to[TEST_PATH_SIZE + 32];
};

static struct copies copies_of(const struct index_fixture *fix)
{
	struct copies c;

	snprintf(c.copy, sizeof(c.copy), "%s/copy", fix->dir);
	snprintf(c.to, sizeof(c.to), "%s/other.sqlite", fix->dir);
	return c;
}

static const struct fixture_entry entries[] = {
	{ "usr/lib/debug/a.debug", 11, ELF_IS_DEBUG },
	{ "usr/bin/a", 12, ELF_IS_EXECUTABLE },
};

static void fill(struct index_fixture *fix)
{
	fixture_add_plain(fix, "/usr/bin/here", 1, 1, ELF_IS_EXECUTABLE);
	fixture_add_package(fix, "s3://b/pool/a.deb", 2, entries, ARRAY_SIZE(entries));
	fixture_add_header(fix, "s3://b/pool/c.deb", 3, 20, 3);
	fixture_add_header(fix, "s3://b-other/d.deb", 4, 30, 2);
}

static size_t n_found(struct index *ix, struct arena *a, uint32_t id)
{
	struct build_id bid = fixture_id(id);
	struct index_hit *hits;
	struct err err = { 0 };
	size_t n = 0;
	int r = index_find(ix, &bid, a, &hits, &n, &err);

	assert_true(r >= 0);
	return r == INDEX_MISSING ? 0 : n;
}

static void a_copy_has_what_is_kept_and_nothing_else(void **state)
{
	struct index_fixture *fix = *state;
	struct copies c = copies_of(fix);
	struct index_file was, now;
	struct index_artifact *list;
	struct index *ix;
	struct pkg_map *map;
	struct err err = { 0 };
	size_t n;

	fill(fix);
	assert_done(index_export(fix->path, c.copy, &err));
	assert_done(index_import(c.copy, c.to, keep_buckets, NULL, &err));
	assert_int_not_equal(access(c.copy, F_OK), 0);
	assert_done(index_open(c.to, &(struct index_options){ 0 }, &ix, &err));
	assert_int_equal(n_found(ix, &fix->arena, 1), 0);
	assert_int_equal(n_found(ix, &fix->arena, 11), 1);
	assert_int_equal(n_found(ix, &fix->arena, 21), 1);
	assert_int_equal(n_found(ix, &fix->arena, 31), 1);
	assert_done(index_file_by_path(fix->ix, STR("s3://b/pool/a.deb"), &fix->arena, &was, &err));
	assert_done(index_file_by_path(ix, STR("s3://b/pool/a.deb"), &fix->arena, &now, &err));
	assert_int_equal(was.id, now.id);
	assert_int_equal(was.generation, now.generation);
	assert_int_equal(was.inode, now.inode);
	assert_done(index_artifacts_of(ix, now.id, &fix->arena, &list, &n, &err));
	assert_int_equal(n, ARRAY_SIZE(entries));
	assert_done(index_map(ix, now.id, &map, &err));
	pkg_map_free(map);
	assert_int_equal(index_file_by_path(ix, STR("/usr/bin/here"), &fix->arena, &now, &err),
			 INDEX_MISSING);
	index_close(ix);
	/* The index that was copied has lost nothing. */
	assert_int_equal(n_found(fix->ix, &fix->arena, 1), 1);
}

/* More than the memory of a connection holds: pages are written and read again while the copy is made. */
static void a_large_index_is_copied(void **state)
{
	struct index_fixture *fix = *state;
	struct copies c = copies_of(fix);
	struct index *ix;
	struct err err = { 0 };

	assert_done(index_begin(fix->ix, &err));
	for (uint32_t i = 0; i < 600; i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/pool/p%u.deb", i % 3 ? "s3://b" : "/srv", i);
		fixture_add_header(fix, path, i, 1000 + 100 * i, 100);
	}
	assert_done(index_commit(fix->ix, &err));
	assert_done(index_export(fix->path, c.copy, &err));
	assert_done(index_import(c.copy, c.to, keep_buckets, NULL, &err));
	assert_done(index_open(c.to, &(struct index_options){ 0 }, &ix, &err));
	for (uint32_t i = 0; i < 600; i += 13)
		assert_int_equal(n_found(ix, &fix->arena, 1000 + 100 * i + 7), i % 3 ? 1 : 0);
	index_close(ix);
}

static void the_taker_keeps_less(void **state)
{
	struct index_fixture *fix = *state;
	struct copies c = copies_of(fix);
	char one[] = "s3://b/pool/c.deb";
	struct index *ix;
	struct err err = { 0 };

	fill(fix);
	assert_done(index_export(fix->path, c.copy, &err));
	assert_done(index_import(c.copy, c.to, keep_one, one, &err));
	assert_done(index_open(c.to, &(struct index_options){ 0 }, &ix, &err));
	assert_int_equal(n_found(ix, &fix->arena, 11), 0);
	assert_int_equal(n_found(ix, &fix->arena, 20), 1);
	assert_int_equal(n_found(ix, &fix->arena, 31), 0);
	index_close(ix);
}

static void an_index_that_is_there_stays(void **state)
{
	struct index_fixture *fix = *state;
	struct copies c = copies_of(fix);
	struct err err = { 0 };

	fill(fix);
	assert_done(index_export(fix->path, c.copy, &err));
	assert_fails(index_import(c.copy, fix->path, keep_buckets, NULL, &err), ERR_INVALID,
		     "there is an index");
	assert_int_equal(n_found(fix->ix, &fix->arena, 1), 1);
}

/* Each page has a digest: whatever bytes are wrong, the copy is not taken, or has only what it had. */
static void a_damaged_copy_is_not_taken(void **state)
{
	struct index_fixture *fix = *state;
	struct copies c = copies_of(fix);
	AUTO(buf_done) struct buf whole = { 0 };
	struct err err = { 0 };

	fill(fix);
	assert_done(index_export(fix->path, c.copy, &err));
	assert_done(file_read(c.copy, MIB(64), &whole, &err));
	for (size_t at = 0; at < whole.size; at += 509) {
		for (size_t i = at; i < MIN(at + 16, whole.size); i++)
			whole.p[i] ^= 0x55;
		test_file_write(c.copy, whole.p, whole.size);
		if (index_import(c.copy, c.to, keep_buckets, NULL, &err) == 0) {
			struct index *ix;

			/* Bytes that no page has. */
			assert_done(index_open(c.to, &(struct index_options){ 0 }, &ix, &err));
			assert_int_equal(n_found(ix, &fix->arena, 11), 1);
			index_close(ix);
		}
		db_files_remove(c.to);
		db_files_remove(c.copy);
		for (size_t i = at; i < MIN(at + 16, whole.size); i++)
			whole.p[i] ^= 0x55;
	}
	test_file_write(c.copy, whole.p, whole.size / 2);
	assert_true(index_import(c.copy, c.to, keep_buckets, NULL, &err) < 0);
	test_file_write(c.copy, "no database at all", 18);
	assert_true(index_import(c.copy, c.to, keep_buckets, NULL, &err) < 0);
}

static void a_copy_with_a_trigger_is_not_taken(void **state)
{
	struct index_fixture *fix = *state;
	struct copies c = copies_of(fix);
	struct db *db;
	struct err err = { 0 };

	fill(fix);
	assert_done(index_export(fix->path, c.copy, &err));
	assert_done(db_open(c.copy, &(struct db_options){ 0 }, &db, &err));
	assert_done(
		db_exec(db, "CREATE TRIGGER t AFTER DELETE ON file BEGIN DELETE FROM artifact; END", &err));
	db_close(db);
	assert_fails(index_import(c.copy, c.to, keep_buckets, NULL, &err), ERR_INVALID, "triggers");
	assert_int_not_equal(access(c.to, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_copy_has_what_is_kept_and_nothing_else, fixture_set_up,
						fixture_tear_down),
		cmocka_unit_test_setup_teardown(a_large_index_is_copied, fixture_set_up, fixture_tear_down),
		cmocka_unit_test_setup_teardown(the_taker_keeps_less, fixture_set_up, fixture_tear_down),
		cmocka_unit_test_setup_teardown(an_index_that_is_there_stays, fixture_set_up,
						fixture_tear_down),
		cmocka_unit_test_setup_teardown(a_damaged_copy_is_not_taken, fixture_set_up,
						fixture_tear_down),
		cmocka_unit_test_setup_teardown(a_copy_with_a_trigger_is_not_taken, fixture_set_up,
						fixture_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
