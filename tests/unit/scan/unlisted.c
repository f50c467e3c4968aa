/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that cannot be listed: what is below them is not missing, the index keeps its files, and they are listed again.
 */
#include "fixture.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* ---- a broken disk ---- */

/* Folders whose names begin with "broken" fail. */
static atomic_int opens_with; /* errno, 0: they can be opened */
static atomic_int reads_with; /* errno, after the first entry; 0: they can be read */
static atomic_int stats_with; /* errno, of the entries */
static atomic_int n_opened;
static atomic_int opens_take_ms; /* of the frozen clock */

/* One path whose inspection fails. */
static struct bad_path {
	char path[PATH_MAX];
	atomic_int number;
} bad_paths[2], bad_target;          /* the last one: what a link leads to */
static struct scan *_Atomic is_busy; /* such a path has changed again whenever it is inspected */

static bool path_is_broken(const char *path)
{
	const char *at = strstr(path, "/broken");

	return at && !strchr(at + 1, '/');
}

static bool fd_is_broken(int fd)
{
	char path[PATH_MAX];

	return fd_path(fd, path) && path_is_broken(path);
}

/* The test's own functions are those that the scan calls, too. */
DIR *opendir(const char *path)
{
	static DIR *(*real)(const char *path);

	if (!real)
		real = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
	if (path_is_broken(path)) {
		atomic_fetch_add(&n_opened, 1);
		if (atomic_load(&opens_take_ms))
			clock_test_advance(atomic_load(&opens_take_ms));
		if (atomic_load(&opens_with)) {
			errno = atomic_load(&opens_with);
			return NULL;
		}
	}
	return real(path);
}

struct dirent *readdir(DIR *d)
{
	static struct dirent *(*real)(DIR * d);

	if (!real)
		real = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir64");
	if (atomic_load(&reads_with) && telldir(d) && fd_is_broken(dirfd(d))) {
		errno = atomic_load(&reads_with);
		return NULL;
	}
	return real(d);
}

int lstat(const char *path, struct stat *st)
{
	const char *at = strstr(path, "/broken");

	for (size_t i = 0; i < ARRAY_SIZE(bad_paths); i++)
		if (atomic_load(&bad_paths[i].number) && strcmp(path, bad_paths[i].path) == 0) {
			if (atomic_load(&is_busy))
				scan_path_changed(atomic_load(&is_busy), path);
			errno = atomic_load(&bad_paths[i].number);
			return -1;
		}
	if (atomic_load(&stats_with) && at && strchr(at + 1, '/')) {
		errno = atomic_load(&stats_with);
		return -1;
	}
	return fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int stat(const char *path, struct stat *st)
{
	if (atomic_load(&bad_target.number) && strcmp(path, bad_target.path) == 0) {
		errno = atomic_load(&bad_target.number);
		return -1;
	}
	return fstatat(AT_FDCWD, path, st, 0);
}

static atomic_bool index_fails; /* no bytes of it can be read by the thread that walks */

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	static ssize_t (*real)(int fd, void *buf, size_t n, off_t off);
	char thread[16], path[PATH_MAX];

	if (!real)
		real = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
	if (atomic_load(&index_fails) && pthread_getname_np(pthread_self(), thread, sizeof(thread)) == 0 &&
	    strcmp(thread, "traverse") == 0 && fd_path(fd, path) && strstr(path, "/index.db")) {
		errno = EIO;
		return -1;
	}
	return real(fd, buf, n, off);
}

static void heal(void)
{
	atomic_store(&index_fails, false);
	atomic_store(&bad_target.number, 0);
	atomic_store(&opens_with, 0);
	atomic_store(&opens_take_ms, 0);
	atomic_store(&is_busy, NULL);
	atomic_store(&reads_with, 0);
	atomic_store(&stats_with, 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad_paths); i++)
		atomic_store(&bad_paths[i].number, 0);
}

/* While no walk runs. */
static void set_bad_path(size_t i, const char *path, int number)
{
	snprintf(bad_paths[i].path, sizeof(bad_paths[i].path), "%s", path);
	atomic_store(&bad_paths[i].number, number);
}

/* ---- the log ---- */

static atomic_uint n_told, n_left_out, n_again, n_stored, n_not_looked_up;

static void count_line(void *arg, enum log_level level, const char *area, const char *text)
{
	n_told += level == LOG_ERROR && strstr(text, "could not be listed");
	n_left_out += level == LOG_WARN && strstr(text, "is left out, since");
	n_again += strstr(text, "is listed again") != NULL;
	n_not_looked_up += level == LOG_ERROR && strstr(text, "/root/") && strstr(text, "disk I/O error");
	n_stored += strstr(text, "all files could be stored") != NULL;
}

static int set_up(void **state)
{
	int r = fixture_set_up(state);

	n_told = n_left_out = n_again = n_stored = n_not_looked_up = 0;
	log_set_sink(count_line, NULL);
	return r;
}

static int tear_down(void **state)
{
	int r;

	heal();
	r = fixture_tear_down(state);
	log_set_sink(NULL, NULL);
	clock_test_thaw();
	return r;
}

#define test_with_faults(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- tests ---- */

static void assert_settled(struct scan_fixture *h)
{
	struct scan_progress p = fixture_progress(h);

	if (!p.settled)
		fail_msg("not settled: %u: %s", p.n_unlisted, p.unlisted);
	assert_false(scan_unfinished(h->scan));
	assert_int_equal(p.n_unlisted, 0);
}

static void assert_unlisted(struct scan_fixture *h, unsigned n, const char *what)
{
	struct scan_progress p = fixture_progress(h);

	assert_true(p.ready);
	assert_false(p.settled);
	assert_true(scan_unfinished(h->scan));
	assert_int_equal(p.n_unlisted, n);
	if (!strstr(p.unlisted, what))
		fail_msg("\"%s\" is not in \"%s\"", what, p.unlisted);
}

static void make_folder(struct scan_fixture *h, const char *name)
{
	struct err err = { 0 };

	assert_done(dir_make(fixture_path(h, name), 0755, &err));
}

static void walk_again(struct scan_fixture *h)
{
	scan_rescan(h->scan);
	fixture_settle(h);
}

/* The frozen clock passes the time of the next try. In steps: the walking thread may set that time after it has become idle. */
static void next_try(struct scan_fixture *h)
{
	for (int i = 0; i < 100 && (!i || fixture_progress(h).n_unlisted); i++) {
		clock_test_advance(300000);
		/* Wakes the thread that walks. */
		scan_groom(h->scan);
		usleep(20000);
	}
	fixture_settle(h);
}

static void a_folder_that_cannot_be_opened_is_not_settled(void **state)
{
	static const int numbers[] = { EIO, EMFILE, ENFILE, ENOMEM, ESTALE };
	struct scan_fixture *h = *state;

	make_folder(h, "broken");
	fixture_put_program(h, "broken/a", PROGRAM_A);
	fixture_put_program(h, "z", PROGRAM_B);
	atomic_store(&opens_with, EIO);
	fixture_run(h);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		atomic_store(&opens_with, numbers[i]);
		walk_again(h);
		assert_unlisted(h, 1, arena_printf(&h->a, "%s/broken: %s", h->root, strerror(numbers[i])));
	}
	/* The others are found, and it is logged once. */
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
	assert_int_equal(n_told, 1);
	heal();
	walk_again(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(n_again, 1);
}

static void a_list_that_breaks_off_is_not_settled(void **state)
{
	struct scan_fixture *h = *state;

	make_folder(h, "broken");
	for (unsigned i = 0; i < 5; i++)
		fixture_put_program(h, arena_printf(&h->a, "broken/%u", i), PROGRAM_A);
	atomic_store(&reads_with, EIO);
	fixture_run(h);
	assert_unlisted(h, 1, "broken: Input/output error");
	assert_true(fixture_n_hits_of(h, PROGRAM_A) < 5);
	heal();
	walk_again(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 5);
}

static void an_entry_that_cannot_be_inspected_is_not_settled(void **state)
{
	struct scan_fixture *h = *state;

	make_folder(h, "broken/below");
	fixture_put_program(h, "broken/a", PROGRAM_A);
	atomic_store(&stats_with, EIO);
	fixture_run(h);
	assert_unlisted(h, 1, "broken: a: Input/output error");
	/* It has gone: nothing is wrong. */
	atomic_store(&stats_with, ENOENT);
	walk_again(h);
	assert_settled(h);
}

/* As a link into a folder of somebody else, with -L, or a path that is too long. The files beside it are in the index. */
static void an_entry_that_nobody_may_see_does_not_count(void **state)
{
	struct scan_fixture *h = *state;

	fixture_put_program(h, "a", PROGRAM_A);
	fixture_put_program(h, "link", PROGRAM_B);
	set_bad_path(0, fixture_path(h, "link"), EACCES);
	fixture_run(h);
	walk_again(h);
	assert_settled(h);
	assert_int_equal(n_left_out, 1);
	set_bad_path(0, fixture_path(h, "link"), ENAMETOOLONG);
	walk_again(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 0);
	assert_int_equal(n_told, 0);
	/* But one that could be seen before does, and so does a broken disk. */
	set_bad_path(1, fixture_path(h, "a"), EACCES);
	walk_again(h);
	assert_unlisted(h, 1, "root: a: Permission denied");
	heal();
	walk_again(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
	set_bad_path(0, fixture_path(h, "link"), EIO);
	walk_again(h);
	assert_unlisted(h, 1, "root: link: Input/output error");
}

static void an_entry_that_nobody_may_see_hides_no_other_failure(void **state)
{
	struct scan_fixture *h = *state;

	fixture_put_program(h, "a", PROGRAM_A);
	fixture_put_program(h, "b", PROGRAM_B);
	set_bad_path(0, fixture_path(h, "a"), EACCES);
	set_bad_path(1, fixture_path(h, "b"), EIO);
	fixture_run(h);
	assert_unlisted(h, 1, "root: b: Input/output error");
	fixture_stop(h);
	/* It can be left out alone. */
	h->opts.exclude_regex = "/b$";
	fixture_run(h);
	assert_settled(h);
}

/* A walk does not enter it, so it need not be alive. */
static void a_mount_that_is_dead_does_not_count(void **state)
{
	struct scan_fixture *h = *state;

	h->roots[0] = STR("/");
	h->opts.max_depth = 1;
	h->opts.files = false;
	set_bad_path(0, "/proc", ENOTCONN);
	fixture_run(h);
	assert_settled(h);
	assert_int_equal(n_left_out, 1);
}

/* Reported by inotify. */
static void a_changed_file_that_cannot_be_inspected_is_not_settled(void **state)
{
	struct scan_fixture *h = *state;

	fixture_run(h);
	fixture_put_program(h, "a", PROGRAM_A);
	set_bad_path(0, fixture_path(h, "a"), EIO);
	clock_test_freeze(1700000000);
	scan_path_changed(h->scan, fixture_path(h, "a"));
	fixture_settle(h);
	assert_unlisted(h, 1, "root/a: Input/output error");
	heal();
	next_try(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
}

static void a_changed_link_to_a_file_that_cannot_be_inspected_is_not_settled(void **state)
{
	struct scan_fixture *h = *state;
	const char *file = arena_printf(&h->a, "%s/file", h->dir);

	h->opts.follow_links = true;
	fixture_put_program(h, "../file", PROGRAM_A);
	fixture_run(h);
	assert_int_equal(symlink(file, fixture_path(h, "link")), 0);
	snprintf(bad_target.path, sizeof(bad_target.path), "%s", fixture_path(h, "link"));
	atomic_store(&bad_target.number, EIO);
	clock_test_freeze(1700000000);
	scan_path_changed(h->scan, bad_target.path);
	fixture_settle(h);
	assert_unlisted(h, 1, "root/link: Input/output error");
	/* It leads nowhere: nothing is wrong. */
	atomic_store(&bad_target.number, ENOENT);
	next_try(h);
	assert_settled(h);
	heal();
	scan_path_changed(h->scan, bad_target.path);
	fixture_settle(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
}

static void it_is_tried_again_at_growing_distances(void **state)
{
	struct scan_fixture *h = *state;

	make_folder(h, "broken");
	fixture_put_program(h, "broken/a", PROGRAM_A);
	atomic_store(&opens_with, EIO);
	clock_test_freeze(1700000000);
	fixture_run(h);
	assert_unlisted(h, 1, "broken");
	assert_int_equal(unlisted_next_ms(h->scan->unlisted) - clock_mono_ms(), 15000);
	/* No request makes it sooner. */
	assert_null(unlisted_take_due(h->scan->unlisted, clock_mono_ms()));
	for (int64_t ms = 15000; ms <= 300000; ms = ms < 240000 ? 2 * ms : ms + 60000) {
		int n = n_opened;

		clock_test_advance(ms);
		scan_groom(h->scan);
		for (int i = 0; i < 100 && n_opened == n; i++)
			usleep(20000);
		fixture_settle(h);
		assert_int_equal(n_opened, n + 1);
		assert_int_equal(unlisted_next_ms(h->scan->unlisted) - clock_mono_ms(),
				 MIN(2 * ms, INT64_C(300000)));
	}
	assert_int_equal(n_told, 1);
	heal();
	next_try(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
}

static void rows_below_it_are_kept_until_it_is_listed(void **state)
{
	struct scan_fixture *h = *state;

	make_folder(h, "broken");
	fixture_put_program(h, "broken/a", PROGRAM_A);
	fixture_put_program(h, "b", PROGRAM_B);
	fixture_run(h);
	assert_settled(h);
	/* Its names are not found, as with some damage of a folder. */
	assert_int_equal(unlink(fixture_path(h, "broken/a")), 0);
	assert_int_equal(unlink(fixture_path(h, "b")), 0);
	atomic_store(&opens_with, EIO);
	clock_test_freeze(1700000000);
	walk_again(h);
	scan_groom(h->scan);
	fixture_settle(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 0);
	/* Then the rows go without a wait for the next grooming. */
	heal();
	next_try(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
}

/* Reported by inotify, which watches the folder. */
static void the_row_of_a_removed_file_goes_when_its_folder_is_listed(void **state)
{
	struct scan_fixture *h = *state;

	make_folder(h, "broken");
	fixture_put_program(h, "broken/a", PROGRAM_A);
	fixture_run(h);
	atomic_store(&opens_with, EIO);
	walk_again(h);
	assert_int_equal(unlink(fixture_path(h, "broken/a")), 0);
	scan_path_changed(h->scan, fixture_path(h, "broken/a"));
	fixture_settle(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	heal();
	walk_again(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
}

static void a_folder_that_is_closed_on_purpose_does_not_count(void **state)
{
	struct scan_fixture *h = *state;

	make_folder(h, "broken-like-lost+found");
	fixture_put_program(h, "b", PROGRAM_B);
	atomic_store(&opens_with, EACCES);
	fixture_run(h);
	assert_settled(h);
	walk_again(h);
	assert_settled(h);
	assert_int_equal(n_left_out, 1);
	assert_int_equal(n_told, 0);
}

static void a_closed_folder_with_files_in_the_index_counts(void **state)
{
	struct scan_fixture *h = *state;

	make_folder(h, "broken");
	fixture_put_program(h, "broken/a", PROGRAM_A);
	fixture_run(h);
	atomic_store(&opens_with, EACCES);
	walk_again(h);
	assert_unlisted(h, 1, "broken: Permission denied");
	assert_int_equal(n_told, 1);
	assert_int_equal(n_left_out, 0);
	fixture_stop(h);
	/* Unless it is left out. */
	h->opts.exclude_regex = "/broken/";
	fixture_run(h);
	assert_settled(h);
}

static void a_root_always_counts(void **state)
{
	struct scan_fixture *h = *state;

	make_folder(h, "broken");
	h->roots[0] = str_of(fixture_path(h, "broken"));
	atomic_store(&opens_with, EACCES);
	fixture_run(h);
	assert_unlisted(h, 1, "broken: Permission denied");
	heal();
	walk_again(h);
	assert_settled(h);
}

/* It looks like lost+found to the walk of the root above it. */
static void a_root_below_another_one_counts_in_any_order(void **state)
{
	struct scan_fixture *h = *state;
	const struct str above = str_of(h->root), below = str_of(fixture_path(h, "broken"));
	struct str roots[2];

	make_folder(h, "broken");
	h->opts.roots = roots;
	h->opts.n_roots = ARRAY_SIZE(roots);
	atomic_store(&opens_with, EACCES);
	for (unsigned i = 0; i < 2; i++) {
		roots[i] = above;
		roots[!i] = below;
		n_told = 0;
		fixture_run(h);
		assert_unlisted(h, 1, "broken: Permission denied");
		walk_again(h);
		assert_unlisted(h, 1, "broken: Permission denied");
		assert_int_equal(n_told, 1);
		assert_int_equal(n_again, 0);
		fixture_stop(h);
	}
	fixture_run(h);
	heal();
	walk_again(h);
	assert_settled(h);
}

/* A mount is a root of its own, as the walk of the root above it does not enter it. */
static void the_walk_of_a_root_ends_no_place_of_a_root_below_it(void **state)
{
	struct unlisted *u = unlisted_new();

	assert_true(unlisted_add(u, "/a/mount/x", "/a/mount", "broken"));
	assert_true(unlisted_add(u, "/a/y", "/a", "broken"));
	unlisted_begin(u, "/a");
	assert_int_equal(unlisted_end(u, "/a"), 1);
	assert_true(unlisted_covers(u, "/a/mount/x/file"));
	/* That of all roots, too, in which it is found again. */
	unlisted_begin(u, UNLISTED_ALL);
	assert_int_equal(unlisted_end(u, "/a"), 0);
	assert_false(unlisted_add(u, "/a/mount/x", "/a/mount", "broken"));
	assert_int_equal(unlisted_end(u, "/a/mount"), 0);
	assert_int_equal(unlisted_end(u, UNLISTED_ALL), 0);
	unlisted_begin(u, "/a/mount/x");
	assert_int_equal(unlisted_end(u, "/a/mount/x"), 1);
	unlisted_free(u);
}

static void many_folders_are_one_place(void **state)
{
	struct scan_fixture *h = *state;

	for (unsigned i = 0; i < 100; i++)
		make_folder(h, arena_printf(&h->a, "broken%u", i));
	fixture_put_program(h, "broken99/a", PROGRAM_A);
	atomic_store(&opens_with, EMFILE);
	clock_test_freeze(1700000000);
	fixture_run(h);
	assert_unlisted(h, 65, "Too many open files");
	assert_int_equal(n_told, 65);
	assert_true(unlisted_covers(h->scan->unlisted, fixture_path(h, "any")));
	heal();
	next_try(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
}

static void many_new_folders_are_one_place(void **state)
{
	struct scan_fixture *h = *state;

	fixture_run(h);
	clock_test_freeze(1700000000);
	atomic_store(&opens_with, EMFILE);
	for (unsigned i = 0; i < 100; i++) {
		const char *name = arena_printf(&h->a, "broken%u", i);

		make_folder(h, name);
		scan_path_changed(h->scan, fixture_path(h, name));
	}
	fixture_put_program(h, "broken99/a", PROGRAM_A);
	fixture_settle(h);
	assert_unlisted(h, 65, "Too many open files");
	assert_int_equal(n_told, 65);
	heal();
	next_try(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
}

/* On a slow disk, the next try of the first of them comes before the last one is tried. */
static void tries_that_take_long_do_not_keep_other_work_waiting(void **state)
{
	struct scan_fixture *h = *state;

	for (unsigned i = 0; i < 100; i++)
		make_folder(h, arena_printf(&h->a, "broken%u", i));
	atomic_store(&opens_with, EIO);
	clock_test_freeze(1700000000);
	fixture_run(h);
	atomic_store(&opens_take_ms, 20000);
	clock_test_advance(15000);
	scan_groom(h->scan);
	for (int i = 0; i < 500 && n_opened < 2000; i++)
		usleep(10000);
	fixture_put_program(h, "a", PROGRAM_A);
	scan_path_changed(h->scan, fixture_path(h, "a"));
	for (int i = 0; i < 500 && !fixture_n_hits_of(h, PROGRAM_A); i++)
		usleep(10000);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
}

static void the_next_try_counts_from_the_end_of_the_walk(void **state)
{
	struct unlisted *u = unlisted_new();

	clock_test_freeze(1700000000);
	unlisted_begin(u, "/");
	assert_true(unlisted_add(u, "/a", "/", "broken"));
	clock_test_advance(3600000);
	assert_int_equal(unlisted_end(u, "/"), 0);
	assert_int_equal(unlisted_next_ms(u) - clock_mono_ms(), 15000);
	unlisted_free(u);
}

static void it_is_tried_again_while_files_change_all_the_time(void **state)
{
	struct scan_fixture *h = *state;

	make_folder(h, "broken");
	atomic_store(&opens_with, EIO);
	clock_test_freeze(1700000000);
	fixture_run(h);
	assert_unlisted(h, 1, "broken");
	set_bad_path(0, fixture_path(h, "busy"), ENOENT);
	atomic_store(&is_busy, h->scan);
	scan_path_changed(h->scan, fixture_path(h, "busy"));
	atomic_store(&opens_with, 0);
	clock_test_advance(15000);
	for (int i = 0; i < 100 && fixture_progress(h).n_unlisted; i++)
		usleep(20000);
	assert_int_equal(fixture_progress(h).n_unlisted, 0);
	atomic_store(&is_busy, NULL);
	fixture_settle(h);
	assert_settled(h);
}

static void a_folder_that_is_gone_does_not_count_any_more(void **state)
{
	struct scan_fixture *h = *state;

	make_folder(h, "broken");
	atomic_store(&opens_with, EIO);
	clock_test_freeze(1700000000);
	fixture_run(h);
	assert_unlisted(h, 1, "broken");
	assert_int_equal(rmdir(fixture_path(h, "broken")), 0);
	next_try(h);
	assert_settled(h);
}

static void a_place_that_no_root_leads_to_any_more_does_not_count(void **state)
{
	struct scan_fixture *h = *state;
	const char *link = arena_printf(&h->a, "%s/link", h->dir);

	make_folder(h, "one/broken");
	make_folder(h, "two");
	fixture_put_program(h, "one/a", PROGRAM_A);
	fixture_put_program(h, "two/b", PROGRAM_B);
	assert_int_equal(symlink("root/one", link), 0);
	h->roots[0] = str_of(link);
	atomic_store(&opens_with, EIO);
	fixture_run(h);
	assert_unlisted(h, 1, "one/broken: Input/output error");
	assert_int_equal(unlink(link), 0);
	assert_int_equal(symlink("root/two", link), 0);
	walk_again(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
}

/* No second file can be stored in the index. */
static struct db *break_index(struct scan_fixture *h)
{
	struct err err = { 0 };
	struct db *db;

	assert_done(db_open(h->index, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, "CREATE UNIQUE INDEX x ON file (size > 0)", &err));
	return db;
}

static void mend_index(struct db *db)
{
	struct err err = { 0 };

	assert_done(db_exec(db, "DROP INDEX x", &err));
	db_close(db);
}

/* As with a full disk. Its build ID is here, but no row says so. */
static void a_file_that_could_not_be_stored_is_not_settled(void **state)
{
	struct scan_fixture *h = *state;
	struct db *db;

	fixture_put_program(h, "a", PROGRAM_A);
	fixture_run(h);
	assert_settled(h);
	db = break_index(h);
	fixture_put_program(h, "b", PROGRAM_B);
	for (unsigned i = 0; i < 2; i++) {
		walk_again(h);
		assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 0);
		assert_unlisted(h, 1, "index.db: files could not be stored in it");
	}
	/* A part of the roots that is walked has none of the others. */
	scan_path_changed(h->scan, fixture_path(h, "a"));
	fixture_settle(h);
	assert_unlisted(h, 1, "index.db");
	mend_index(db);
	walk_again(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
	assert_settled(h);
}

static void an_index_below_a_root_is_not_complete_before_the_files_are_stored(void **state)
{
	struct scan_fixture *h = *state;
	struct db *db;

	memcpy(h->index, h->root, sizeof(h->index));
	assert_true(strlen(h->index) + 3 < sizeof(h->index));
	strcat(h->index, "/i");
	fixture_put_program(h, "a", PROGRAM_A);
	fixture_run(h);
	db = break_index(h);
	fixture_put_program(h, "b", PROGRAM_B);
	for (unsigned i = 0; i < 3; i++) {
		walk_again(h);
		assert_unlisted(h, 1, "/i: files could not be stored in it");
		assert_int_equal(n_stored, 0);
	}
	mend_index(db);
	walk_again(h);
	assert_settled(h);
	assert_int_equal(n_stored, 1);
}

static void it_is_stored_by_a_walk_before_its_time(void **state)
{
	struct scan_fixture *h = *state;
	struct db *db;

	h->opts.rescan_s = 86400;
	fixture_put_program(h, "a", PROGRAM_A);
	clock_test_freeze(1700000000);
	fixture_run(h);
	db = break_index(h);
	fixture_put_program(h, "b", PROGRAM_B);
	scan_path_changed(h->scan, fixture_path(h, "b"));
	fixture_settle(h);
	assert_unlisted(h, 1, "index.db: files could not be stored in it");
	mend_index(db);
	next_try(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
	assert_settled(h);
}

static void a_file_that_could_not_be_looked_up_is_not_settled(void **state)
{
	struct scan_fixture *h = *state;
	struct err err = { 0 };
	struct db *db;

	h->opts.rescan_s = 86400;
	fixture_put_program(h, "a", PROGRAM_A);
	clock_test_freeze(1700000000);
	fixture_run(h);
	/* What the thread has read of it is not valid any more. */
	assert_done(db_open(h->index, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, "UPDATE file SET scanned = 1", &err));
	atomic_store(&index_fails, true);
	fixture_put_program(h, "b", PROGRAM_B);
	walk_again(h);
	walk_again(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 0);
	assert_unlisted(h, 1, "index.db: ");
	/* That of the first file. */
	assert_int_equal(n_not_looked_up, 1);
	heal();
	db_close(db);
	next_try(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
	assert_settled(h);
}

/* As one of a later version. */
static void a_row_that_cannot_be_read_is_replaced(void **state)
{
	struct scan_fixture *h = *state;
	struct err err = { 0 };
	struct db *db;

	fixture_put_program(h, "a", PROGRAM_A);
	fixture_put_program(h, "b", PROGRAM_B);
	fixture_run(h);
	assert_done(db_open(h->index, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, "UPDATE file SET state = 99 WHERE name = CAST('a' AS BLOB)", &err));
	db_close(db);
	walk_again(h);
	assert_settled(h);
	assert_int_equal(fixture_row_of(h, "a").state, INDEX_SCANNED);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
}

/* Grooming ended at such a row, and no package was read while it was in the list of those that are due. */
static void a_row_that_cannot_be_read_and_has_no_file_is_removed(void **state)
{
	struct scan_fixture *h = *state;
	struct build_id id = sample_id(&h->s, 0);
	struct err err = { 0 };
	struct db *db;

	fixture_put_package(h, "p.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_put_package(h, "q.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	fixture_put_program(h, "a", PROGRAM_A);
	walk_again(h);
	fixture_stop(h);
	assert_done(db_open(h->index, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, "UPDATE file SET state = 99 WHERE kind = 2", &err));
	db_close(db);
	assert_int_equal(unlink(fixture_path(h, "p.deb")), 0);
	assert_int_equal(unlink(fixture_path(h, "q.deb")), 0);
	assert_int_equal(unlink(fixture_path(h, "a")), 0);
	fixture_put_package(h, "new.deb", SAMPLE_DEB, CODEC_XZ);
	clock_test_freeze(1700000000);
	fixture_run(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
	for (int i = 0; i < 100 && fixture_row_of(h, "new.deb").state != INDEX_SCANNED; i++) {
		clock_test_advance(1000);
		scan_groom(h->scan);
		usleep(20000);
	}
	fixture_settle(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits(h, &id), 2);
}

/* No row is lost by that. */
static void a_deletion_that_could_not_be_stored_does_not_count(void **state)
{
	struct scan_fixture *h = *state;
	struct err err = { 0 };
	struct db *db;

	fixture_put_program(h, "a", PROGRAM_A);
	fixture_run(h);
	assert_done(db_open(h->index, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, "ALTER TABLE package_dir RENAME TO away", &err));
	assert_int_equal(unlink(fixture_path(h, "a")), 0);
	scan_groom(h->scan);
	fixture_settle(h);
	scan_path_changed(h->scan, fixture_path(h, "a"));
	fixture_settle(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_settled(h);
	db_close(db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_faults(a_folder_that_cannot_be_opened_is_not_settled),
		test_with_faults(a_list_that_breaks_off_is_not_settled),
		test_with_faults(an_entry_that_cannot_be_inspected_is_not_settled),
		test_with_faults(an_entry_that_nobody_may_see_does_not_count),
		test_with_faults(an_entry_that_nobody_may_see_hides_no_other_failure),
		test_with_faults(a_mount_that_is_dead_does_not_count),
		test_with_faults(a_changed_file_that_cannot_be_inspected_is_not_settled),
		test_with_faults(a_changed_link_to_a_file_that_cannot_be_inspected_is_not_settled),
		test_with_faults(it_is_tried_again_at_growing_distances),
		test_with_faults(rows_below_it_are_kept_until_it_is_listed),
		test_with_faults(the_row_of_a_removed_file_goes_when_its_folder_is_listed),
		test_with_faults(a_folder_that_is_closed_on_purpose_does_not_count),
		test_with_faults(a_closed_folder_with_files_in_the_index_counts),
		test_with_faults(a_root_always_counts),
		test_with_faults(a_root_below_another_one_counts_in_any_order),
		test_with_faults(the_walk_of_a_root_ends_no_place_of_a_root_below_it),
		test_with_faults(many_folders_are_one_place),
		test_with_faults(many_new_folders_are_one_place),
		test_with_faults(tries_that_take_long_do_not_keep_other_work_waiting),
		test_with_faults(the_next_try_counts_from_the_end_of_the_walk),
		test_with_faults(it_is_tried_again_while_files_change_all_the_time),
		test_with_faults(a_folder_that_is_gone_does_not_count_any_more),
		test_with_faults(a_place_that_no_root_leads_to_any_more_does_not_count),
		test_with_faults(an_index_below_a_root_is_not_complete_before_the_files_are_stored),
		test_with_faults(a_file_that_could_not_be_stored_is_not_settled),
		test_with_faults(it_is_stored_by_a_walk_before_its_time),
		test_with_faults(a_file_that_could_not_be_looked_up_is_not_settled),
		test_with_faults(a_row_that_cannot_be_read_is_replaced),
		test_with_faults(a_row_that_cannot_be_read_and_has_no_file_is_removed),
		test_with_faults(a_deletion_that_could_not_be_stored_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
