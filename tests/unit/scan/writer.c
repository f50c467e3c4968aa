/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer of the index: a result is for the content that it was made from, not for the path.
 */
#include "test.h"

#include "scan/internal.h"

#define PATH STR("/pool/a.deb")

static char dir[TEST_PATH_SIZE], index_path[TEST_PATH_SIZE + 16];

static int set_up_folder(void **state)
{
	test_dir_make(dir);
	snprintf(index_path, sizeof(index_path), "%s/index", dir);
	return 0;
}

static int remove_folder(void **state)
{
	test_dir_remove(dir);
	return 0;
}

/* The row of the file, with another connection. */
static int read_row(struct arena *a, struct index_file *ret, size_t *ret_n_artifacts)
{
	static const struct index_options opts = { .read_only = true };
	struct index_artifact *list;
	struct err err = { 0 };
	struct index *ix;
	int r;

	assert_done(index_open(index_path, &opts, &ix, &err));
	r = index_file_by_path(ix, PATH, a, ret, &err);
	if (r == 0)
		assert_done(index_artifacts_of(ix, ret->id, a, &list, ret_n_artifacts, &err));
	index_close(ix);
	return r;
}

static void push_file(struct scan_writer *w, enum change_kind kind, const struct index_file *f)
{
	struct change *c = change_new(kind);

	change_set_file(c, f);
	if (kind == CHANGE_FAIL)
		(void)err_set(&c->why, ERR_INVALID, "is damaged");
	if (kind == CHANGE_MAP) {
		c->deep = NEW(struct deep_result);
		arena_init(&c->deep->arena);
		buf_add(&c->deep->map, "map", 3);
		c->deep->artifacts = ARENA_NEW_N(&c->deep->arena, struct index_artifact, 1);
		c->deep->n_artifacts = 1;
		assert_true(build_id_parse(&c->deep->artifacts[0].build_id, STR("abcd")));
	}
	writer_push(w, c);
	writer_fence(w);
}

/* While a job, or a walk, was busy with the file, another one got its path. */
static void results_of_a_replaced_file_change_nothing(void **state)
{
	static const enum change_kind late[] = { CHANGE_DEL, CHANGE_FAIL, CHANGE_MAP, CHANGE_AGAIN };
	const struct scan_options o = { .index_path = index_path };
	const struct index_file file = {
		.path = PATH, .kind = INDEX_PACKAGE, .state = INDEX_HEADER, .size = 100, .mtime_ns = 1
	};
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file old, now, again;
	struct scan_writer *w;
	struct err err = { 0 };
	size_t n;

	assert_done(writer_start(&o, NULL, NULL, &w, &err));
	push_file(w, CHANGE_PUT, &file);
	assert_done(read_row(&a, &old, &n));
	push_file(w, CHANGE_PUT, &file);
	assert_done(read_row(&a, &now, &n));
	assert_int_equal(now.id, old.id);
	assert_true(now.generation != old.generation);
	for (size_t i = 0; i < ARRAY_SIZE(late); i++) {
		push_file(w, late[i], &old);
		if (read_row(&a, &again, &n) != 0)
			fail_msg("row %zu: the file is gone", i);
		assert_true(again.generation == now.generation);
		assert_int_equal(again.state, INDEX_HEADER);
		assert_int_equal(n, 0);
	}
	/* Those of the file that is there count. */
	push_file(w, CHANGE_MAP, &now);
	assert_done(read_row(&a, &again, &n));
	assert_int_equal(again.state, INDEX_SCANNED);
	assert_int_equal(n, 1);
	push_file(w, CHANGE_DEL, &again);
	assert_int_equal(read_row(&a, &again, &n), INDEX_MISSING);
	assert_int_equal(writer_lost(w), 0);
	writer_stop(w);
	writer_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(results_of_a_replaced_file_change_nothing, set_up_folder,
						remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
