/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of pushes that are held, while another process puts and refuses them. */
#include "test.h"

#include <unistd.h>
#include "store/held.h"

#define URL "s3://bucket/store"

struct held_fixture {
	char dir[TEST_PATH_SIZE];
	char *local, *to_local; /* as in a data directory, and in its copy */
	char *from, *to;        /* the folders of the store in them */
};

static int set_up(void **state)
{
	struct held_fixture *f = NEW(struct held_fixture);
	struct err err = { 0 };

	test_dir_make(f->dir);
	f->local = mem_printf("%s/bucket", f->dir);
	f->to_local = mem_printf("%s/copy/bucket", f->dir);
	f->from = held_folder(f->local, URL);
	f->to = held_folder(f->to_local, URL);
	assert_done(dir_make(f->from, 0755, &err));
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct held_fixture *f = *state;

	test_dir_remove(f->dir);
	free(f->local);
	free(f->to_local);
	free(f->from);
	free(f->to);
	free(f);
	return 0;
}

static char *file_of(const char *folder, unsigned number, const char *ending)
{
	return mem_printf("%s/%016x.%s", folder, number, ending);
}

static void put_text(const struct held_fixture *f, unsigned number, const char *ending, const char *text)
{
	AUTO(mem_freep) char *path = file_of(f->from, number, ending);

	test_file_write(path, text, strlen(text));
}

static void assert_text(const struct held_fixture *f, unsigned number, const char *ending, const char *want)
{
	AUTO(mem_freep) char *path = file_of(f->to, number, ending);
	AUTO(buf_done) struct buf text = { 0 };
	struct err err = { 0 };
	int r = file_read(path, 100, &text, &err);

	assert_int_equal(r, want ? 0 : FILE_MISSING);
	if (want)
		assert_str(buf_str(&text), want);
}

static void all_that_were_acknowledged_are_copied(void **state)
{
	struct held_fixture *f = *state;
	struct err err = { 0 };
	uint64_t n;

	put_text(f, 1, "content", "one");
	put_text(f, 1, "owned", "record one");
	put_text(f, 2, "content", "two");
	put_text(f, 2, "better", "record two");
	put_text(f, 3, "content", "three");
	put_text(f, 3, "refused", "record three");
	/* Its file was damaged. */
	put_text(f, 4, "refused", "record four");
	/* It is being written. */
	put_text(f, 5, "content", "five");
	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	assert_int_equal(n, 2);
	assert_text(f, 1, "content", "one");
	assert_text(f, 1, "owned", "record one");
	assert_text(f, 2, "content", "two");
	assert_text(f, 2, "better", "record two");
	assert_text(f, 3, "content", "three");
	assert_text(f, 3, "refused", "record three");
	assert_text(f, 4, "refused", "record four");
	assert_text(f, 5, "content", NULL);
}

static void those_that_were_put_leave_the_next_copy(void **state)
{
	struct held_fixture *f = *state;
	AUTO(mem_freep) char *record = file_of(f->from, 1, "owned");
	struct err err = { 0 };
	uint64_t n;

	put_text(f, 1, "content", "one");
	put_text(f, 1, "owned", "record one");
	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	assert_int_equal(n, 1);
	unlink(record);
	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	assert_int_equal(n, 0);
	assert_int_not_equal(access(f->to, F_OK), 0);
}

/* A wrong --data, or one that is still to be restored from the copy. */
static void without_their_folder_the_former_copy_stays(void **state)
{
	struct held_fixture *f = *state;
	struct err err = { 0 };
	uint64_t n;

	put_text(f, 1, "content", "one");
	put_text(f, 1, "owned", "record one");
	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	test_dir_remove(f->local);
	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	assert_int_equal(n, 0);
	assert_text(f, 1, "content", "one");
	assert_text(f, 1, "owned", "record one");
}

static void open_folder(const char *folder)
{
	struct err err = { 0 };
	int fd;

	assert_done(dir_make(folder, 0755, &err));
	assert_done(held_folder_lock(folder, &fd, &err));
	close(fd);
}

/* The data directory was lost, and the service made it anew: the copy has the only ones that are left. */
static void pushes_of_a_folder_that_was_lost_stay(void **state)
{
	struct held_fixture *f = *state;
	struct err err = { 0 };
	uint64_t n;

	open_folder(f->from);
	put_text(f, 1, "content", "one");
	put_text(f, 1, "owned", "record one");
	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	test_dir_remove(f->local);
	open_folder(f->from);
	assert_fails(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err), ERR_INVALID,
		     "has pushes of another data directory");
	put_text(f, 1, "content", "another");
	put_text(f, 1, "owned", "another record");
	assert_fails(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err), ERR_INVALID,
		     "has pushes of another data directory");
	assert_text(f, 1, "content", "one");
	assert_text(f, 1, "owned", "record one");
}

static void a_restored_folder_is_the_one_that_was_copied(void **state)
{
	struct held_fixture *f = *state;
	AUTO(mem_freep) char *record = file_of(f->from, 1, "owned");
	struct err err = { 0 };
	uint64_t n;

	open_folder(f->from);
	put_text(f, 1, "content", "one");
	put_text(f, 1, "owned", "record one");
	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	test_dir_remove(f->from);
	assert_int_equal(rename(f->to, f->from), 0);
	open_folder(f->from);
	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	assert_int_equal(n, 1);
	assert_text(f, 1, "owned", "record one");
	unlink(record);
	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	assert_int_not_equal(access(f->to, F_OK), 0);
}

static void without_any_no_folder_is_made(void **state)
{
	struct held_fixture *f = *state;
	struct err err = { 0 };
	uint64_t n;

	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	assert_int_equal(n, 0);
	assert_int_not_equal(access(f->to_local, F_OK), 0);
}

/* Between the listing and the copy. */
static void one_that_is_put_or_refused_meanwhile(void **state)
{
	struct held_fixture *f = *state;
	const struct held_file one = { 1, HELD_OWNED }, two = { 2, HELD_BETTER_ONLY };
	struct err err = { 0 };
	bool refused = false;

	assert_done(dir_make(f->to, 0700, &err));
	put_text(f, 1, "content", "one");
	put_text(f, 1, "refused", "record one");
	assert_done(held_file_copy(f->from, &one, f->to, &refused, &err));
	assert_true(refused);
	assert_text(f, 1, "content", "one");
	assert_text(f, 1, "refused", "record one");
	/* The record goes first. */
	put_text(f, 2, "content", "two");
	assert_int_equal(held_file_copy(f->from, &two, f->to, &refused, &err), FILE_MISSING);
	assert_text(f, 2, "content", NULL);
}

static bool stop_now(void)
{
	return true;
}

static void a_copy_that_is_stopped_leaves_the_former_one(void **state)
{
	struct held_fixture *f = *state;
	AUTO(mem_freep) char *new = mem_printf("%s.lode-new", f->to);
	struct err err = { 0 };
	uint64_t n;

	put_text(f, 1, "content", "one");
	put_text(f, 1, "owned", "record one");
	assert_done(store_held_copy(f->local, URL, f->to_local, NULL, &n, &err));
	assert_fails(store_held_copy(f->local, URL, f->to_local, stop_now, &n, &err), ERR_CANCELLED,
		     "stopped");
	assert_text(f, 1, "owned", "record one");
	assert_int_not_equal(access(new, F_OK), 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(all_that_were_acknowledged_are_copied),
		T(those_that_were_put_leave_the_next_copy),
		T(without_their_folder_the_former_copy_stays),
		T(pushes_of_a_folder_that_was_lost_stay),
		T(a_restored_folder_is_the_one_that_was_copied),
		T(without_any_no_folder_is_made),
		T(one_that_is_put_or_refused_meanwhile),
		T(a_copy_that_is_stopped_leaves_the_former_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
