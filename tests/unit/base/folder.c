/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that is replaced as a whole, and what a process that was killed has left of one. */
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/folder.h"

struct folder_fixture {
	char dir[TEST_PATH_SIZE], to[TEST_PATH_SIZE + 8], new[TEST_PATH_SIZE + 16], old[TEST_PATH_SIZE + 16];
};

static int set_up(void **state)
{
	struct folder_fixture *f = NEW(struct folder_fixture);

	test_dir_make(f->dir);
	snprintf(f->to, sizeof(f->to), "%s/to", f->dir);
	snprintf(f->new, sizeof(f->new), "%s/to.lode-new", f->dir);
	snprintf(f->old, sizeof(f->old), "%s/to.lode-old", f->dir);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct folder_fixture *f = *state;

	test_dir_remove(f->dir);
	free(f);
	return 0;
}

static void put_file(const char *folder, const char *name)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", folder, name);

	test_file_write(path, name, strlen(name));
}

static void make_folder(const char *path, const char *name)
{
	assert_int_equal(mkdir(path, 0700), 0);
	put_file(path, name);
}

static bool has(const char *folder, const char *name)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", folder, name);

	return access(path, F_OK) == 0;
}

static void a_new_folder_takes_the_place_of_the_former_one(void **state)
{
	struct folder_fixture *f = *state;
	struct err err = { 0 };
	struct stat st;

	for (int i = 0; i < 3; i++) {
		struct folder_temp t = { 0 };

		assert_done(folder_temp_make(f->to, 0750, &t, &err));
		put_file(t.path, i % 2 ? "odd" : "even");
		/* Until it is committed the former one is there. */
		assert_int_equal(has(f->to, i % 2 ? "even" : "odd"), i > 0);
		assert_done(folder_temp_commit(&t, &err));
		folder_temp_done(&t);
		assert_true(has(f->to, i % 2 ? "odd" : "even"));
		assert_false(has(f->to, i % 2 ? "even" : "odd"));
		assert_int_equal(stat(f->to, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0750);
		assert_int_not_equal(access(f->new, F_OK), 0);
		assert_int_not_equal(access(f->old, F_OK), 0);
	}
}

static void one_that_is_not_committed_goes(void **state)
{
	struct folder_fixture *f = *state;
	struct folder_temp t = { 0 };
	struct err err = { 0 };

	make_folder(f->to, "former");
	assert_done(folder_temp_make(f->to, 0700, &t, &err));
	put_file(t.path, "x");
	folder_temp_done(&t);
	assert_true(has(f->to, "former"));
	assert_int_not_equal(access(f->new, F_OK), 0);
}

/* Between two renames, before the names of the two folders were exchanged, or after. */
static void what_a_kill_has_left_is_put_right(void **state)
{
	struct folder_fixture *f = *state;
	struct folder_temp t = { 0 };
	struct err err = { 0 };

	make_folder(f->old, "former");
	make_folder(f->new, "half");
	assert_done(folder_temp_make(f->to, 0700, &t, &err));
	assert_true(has(f->to, "former"));
	assert_false(has(f->new, "half"));
	folder_temp_done(&t);

	make_folder(f->old, "older");
	make_folder(f->new, "half");
	assert_done(folder_temp_make(f->to, 0700, &t, &err));
	assert_true(has(f->to, "former"));
	assert_int_not_equal(access(f->old, F_OK), 0);
	folder_temp_done(&t);
}

static void removing_follows_no_links(void **state)
{
	struct folder_fixture *f = *state;
	AUTO(mem_freep) char *link = mem_printf("%s/link", f->to);
	struct err err = { 0 };

	make_folder(f->to, "x");
	make_folder(f->old, "precious");
	assert_int_equal(symlink(f->old, link), 0);
	assert_done(folder_remove(f->to, &err));
	assert_int_not_equal(access(f->to, F_OK), 0);
	assert_true(has(f->old, "precious"));
	assert_done(folder_remove(f->to, &err));
}

static void a_folder_that_cannot_be_made_is_an_error(void **state)
{
	struct folder_fixture *f = *state;
	AUTO(mem_freep) char *to = mem_printf("%s/none/to", f->dir);
	struct folder_temp t = { 0 };
	struct err err = { 0 };

	assert_fails(folder_temp_make(to, 0700, &t, &err), ERR_IO, "none/to.lode-new");
	assert_null(t.path);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(a_new_folder_takes_the_place_of_the_former_one),
		T(one_that_is_not_committed_goes),
		T(what_a_kill_has_left_is_put_right),
		T(removing_follows_no_links),
		T(a_folder_that_cannot_be_made_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
