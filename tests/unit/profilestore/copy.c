/* SPDX-License-Identifier: Apache-2.0 */
/* profilestore_copy(): a copy of a store that another process writes, and the limit of that store's WAL. */
#include "profilestore/copy.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include "base/file.h"
#include "db/db.h"
#include "stored.h"

#define BEFORE 200 /* profiles that are there before a copy */

struct copied_store {
	struct stored t;
	char to[TEST_PATH_SIZE];
	pid_t writer;
	int added; /* the writer sends the number of profiles */
	int64_t n_added;
};

static _Noreturn void add_for_ever(struct copied_store *x, int out)
{
	const struct profilestore_label l = { STR("service"), STR("web") };
	struct profilestore_receipt r;
	struct err err = { 0 };

	x->t.s = NULL;
	if (profilestore_open(&x->t.o, &x->t.s, &err) < 0)
		_exit(1);
	for (int64_t i = 1;; i++) {
		/* Their stacks are new, so that the database grows. */
		AUTO(profile_freep)
		struct profile *p = stored_profile((uint64_t)i * 3 + 1, NOW_MS - i * 1000);

		if (profilestore_add_wait(x->t.s, p, &l, 1, &r, &err) < 0 ||
		    write(out, &i, sizeof(i)) != sizeof(i))
			_exit(2);
	}
}

static void wait_for_more(struct copied_store *x, int64_t n)
{
	int64_t until = x->n_added + n;

	while (x->n_added < until)
		assert_int_equal(read(x->added, &x->n_added, sizeof(x->n_added)), sizeof(x->n_added));
}

static int set_up(void **state)
{
	struct copied_store *x = NEW(struct copied_store);
	int ends[2];

	/* Only its folder and options are of use here: a store that is open in this process is not copied. */
	stored_open(&x->t);
	profilestore_close(TAKE(x->t.s));
	snprintf(x->to, sizeof(x->to), "%.400s-copy", x->t.dir);
	assert_int_equal(pipe(ends), 0);
	x->writer = fork();
	if (!x->writer) {
		close(ends[0]);
		add_for_ever(x, ends[1]);
	}
	close(ends[1]);
	x->added = ends[0];
	wait_for_more(x, BEFORE);
	*state = x;
	return 0;
}

static int tear_down(void **state)
{
	struct copied_store *x = *state;
	int status;

	kill(x->writer, SIGKILL);
	waitpid(x->writer, &status, 0);
	close(x->added);
	test_dir_remove(x->to);
	test_dir_remove(x->t.dir);
	free(x);
	return 0;
}

static void note(void *arg, enum log_level level, const char *text)
{
	if (level >= LOG_WARN)
		fail_msg("%s", text);
}

static uint64_t count_in_copy(const struct copied_store *x)
{
	struct stored c = { .o = x->t.o };
	struct profilestore_merged m;

	c.o.dir = x->to;
	c.o.notice = note;
	snprintf(c.dir, sizeof(c.dir), "%s", x->to);
	stored_open_there(&c);
	m = stored_merge(&c, CPU, 0, NOW_MS + 1);
	profile_free(m.profile);
	profilestore_close(c.s);
	return m.n_profiles;
}

static void a_copy_has_what_was_acknowledged_before(void **state)
{
	struct copied_store *x = *state;
	const struct profilestore_copy_options o = { .dir = x->t.dir, .to = x->to };
	uint64_t per_profile = 0;
	struct err err = { 0 };

	for (int i = 0; i < 3; i++) {
		int64_t before = x->n_added;
		uint64_t size, n;

		assert_done(profilestore_copy(&o, &size, &err));
		assert_true(size > 0);
		n = count_in_copy(x);
		/* A profile is stored as one for each set of labels of its samples. */
		per_profile = per_profile ? per_profile : n / (uint64_t)before;
		assert_true(per_profile && n >= per_profile * (uint64_t)before);
		wait_for_more(x, 30);
	}
}

static int wait_in_copy(void *arg, uint64_t n_done, uint64_t n_all)
{
	struct copied_store *x = arg;

	/* Its transactions take some pages each. */
	wait_for_more(x, 30);
	return 0;
}

static void a_copy_ends_before_the_wal_is_too_long(void **state)
{
	struct copied_store *x = *state;
	struct profilestore_copy_options o = {
		.dir = x->t.dir, .to = x->to, .max_wal = KIB(64), .progress = wait_in_copy, .arg = x
	};
	AUTO(mem_freep) char *half = mem_printf("%s.lode-new", x->to);
	uint64_t size;
	struct err err = { 0 };

	assert_fails(profilestore_copy(&o, &size, &err), ERR_LIMIT, "profiles.db-wal has grown by");
	assert_int_not_equal(access(x->to, F_OK), 0);
	assert_int_not_equal(access(half, F_OK), 0);
	o.max_wal = 0;
	assert_done(profilestore_copy(&o, &size, &err));
	assert_true(count_in_copy(x) > 0);
}

static void a_folder_with_something_else_is_not_replaced(void **state)
{
	struct copied_store *x = *state;
	const struct profilestore_copy_options o = { .dir = x->t.dir, .to = x->to };
	AUTO(mem_freep) char *precious = mem_printf("%s/precious", x->to);
	AUTO(mem_freep) char *other = mem_printf("%s.new", x->to);
	struct err err = { 0 };
	uint64_t size;

	assert_int_equal(mkdir(x->to, 0700), 0);
	test_file_write(precious, "x", 1);
	assert_fails(profilestore_copy(&o, &size, &err), ERR_INVALID,
		     "is not a folder with a copy of profiles");
	assert_int_equal(access(precious, F_OK), 0);
	/* One that is empty is. A copy that was made by hand beside it stays. */
	assert_int_equal(unlink(precious), 0);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_done(profilestore_copy(&o, &size, &err));
	assert_done(profilestore_copy(&o, &size, &err));
	assert_true(count_in_copy(x) > 0);
	assert_int_equal(rmdir(other), 0);
	/* A link would be replaced by a folder on this disk. */
	assert_int_equal(rename(x->to, other), 0);
	assert_int_equal(symlink(other, x->to), 0);
	assert_fails(profilestore_copy(&o, &size, &err), ERR_INVALID,
		     "is not a folder with a copy of profiles");
	test_dir_remove(other);
}

/* Somebody has removed it, and the service has begun anew: the copy is the only one that has the profiles. */
static void the_copy_of_a_database_that_was_lost_stays(void **state)
{
	struct copied_store *x = *state;
	const struct profilestore_copy_options o = { .dir = x->t.dir, .to = x->to };
	AUTO(mem_freep) char *db = mem_printf("%s/profiles.db", x->t.dir);
	AUTO(mem_freep) char *copy = mem_printf("%s/profiles.db", x->to);
	AUTO(mem_freep) char *wal = mem_printf("%s-wal", copy);
	AUTO(buf_done) struct buf before = { 0 }, after = { 0 };
	struct profile *p = stored_profile(1, NOW_MS);
	struct err err = { 0 };
	uint64_t size;
	int status;

	assert_done(profilestore_copy(&o, &size, &err));
	assert_done(file_read(copy, MIB(64), &before, &err));
	kill(x->writer, SIGKILL);
	assert_int_equal(waitpid(x->writer, &status, 0), x->writer);
	db_files_remove(db);
	stored_open_there(&x->t);
	stored_add(&x->t, p, "web");
	profile_free(p);
	profilestore_close(TAKE(x->t.s));
	assert_fails(profilestore_copy(&o, &size, &err), ERR_INVALID, "the service's database ends at");
	assert_done(file_read(copy, MIB(64), &after, &err));
	assert_true(str_eq(buf_str(&before), buf_str(&after)));
	assert_int_not_equal(access(wal, F_OK), 0);
	assert_true(count_in_copy(x) > 1);
	test_dir_remove(x->to);
	assert_done(profilestore_copy(&o, &size, &err));
	x->writer = fork();
	if (!x->writer)
		_exit(0);
}

/* The service would be without room while the copy fills the rest of its disk. */
static void without_room_on_the_disk_of_the_store_nothing_is_copied(void **state)
{
	struct copied_store *x = *state;
	const struct profilestore_copy_options o = { .dir = x->t.dir, .to = x->to };
	AUTO(mem_freep) char *db = mem_printf("%s/profiles.db", x->t.dir);
	struct err err = { 0 };
	struct statvfs fs;
	uint64_t size;
	int status;

	kill(x->writer, SIGKILL);
	assert_int_equal(waitpid(x->writer, &status, 0), x->writer);
	assert_int_equal(statvfs(x->t.dir, &fs), 0);
	/* A hole: SQLite knows how many pages it has. */
	assert_int_equal(truncate(db, (off_t)(fs.f_bavail * fs.f_frsize + MIB(1024))), 0);
	assert_fails(profilestore_copy(&o, &size, &err), ERR_LIMIT, "the copy needs");
	assert_int_not_equal(access(x->to, F_OK), 0);
	x->writer = fork();
	if (!x->writer)
		_exit(0);
}

static void without_a_store_there_is_nothing_to_copy(void **state)
{
	struct copied_store *x = *state;
	AUTO(mem_freep) char *none = mem_printf("%s/none", x->t.dir);
	const struct profilestore_copy_options o = { .dir = none, .to = x->to };
	struct err err = { 0 };
	uint64_t size;

	assert_int_equal(profilestore_copy(&o, &size, &err), PROFILESTORE_NONE);
	assert_int_not_equal(access(x->to, F_OK), 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(a_copy_has_what_was_acknowledged_before),
		T(a_copy_ends_before_the_wal_is_too_long),
		T(a_folder_with_something_else_is_not_replaced),
		T(the_copy_of_a_database_that_was_lost_stays),
		T(without_room_on_the_disk_of_the_store_nothing_is_copied),
		T(without_a_store_there_is_nothing_to_copy),
	};

	test_dirs_in_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
