/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roots that are not mounted: the index keeps their files, and nothing is scanned again when they are back. A row with the
 * number of another file system stands for a mounted one.
 */
#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

static atomic_uint n_stats;

static char mount_at[TEST_PATH_SIZE + 16];
static atomic_bool is_mounted; /* all below it is on another file system than it is */

static int inspect(const char *path, struct stat *st, int flags)
{
	int r = fstatat(AT_FDCWD, path, st, flags);

	if (r == 0 && atomic_load(&is_mounted) && path_is_below(path, mount_at))
		st->st_dev++;
	return r;
}

/* Also of the scan. */
int stat(const char *path, struct stat *st)
{
	atomic_fetch_add(&n_stats, 1);
	return inspect(path, st, 0);
}

int lstat(const char *path, struct stat *st)
{
	return inspect(path, st, AT_SYMLINK_NOFOLLOW);
}

static atomic_uint n_told, n_back, n_forgotten, n_missing;

static struct scan_fixture *_Atomic reads_again; /* a package of it is unread when its root is there again */

static atomic_bool was_final; /* its build IDs were final misses */

static void check_reading(struct scan_fixture *h)
{
	/* The last walk has woken the threads of the deep passes. */
	for (int i = 0; i < 20 && scan_unfinished(h->scan); i++)
		usleep(10000);
	if (!scan_unfinished(h->scan) && fixture_row_of(h, "p.deb").state != INDEX_SCANNED)
		atomic_store(&was_final, true);
}

static void count_line(void *arg, enum log_level level, const char *area, const char *text)
{
	n_told += level == LOG_ERROR && strstr(text, "mount it");
	if (strstr(text, "it is there again")) {
		n_back++;
		if (atomic_load(&reads_again))
			check_reading(atomic_load(&reads_again));
	}
	n_forgotten += strstr(text, "the index forgets") != NULL;
	n_missing += strstr(text, "No such file or directory") != NULL;
}

static int set_up(void **state)
{
	int r = fixture_set_up(state);

	atomic_store(&reads_again, NULL);
	atomic_store(&was_final, false);
	n_told = n_back = n_forgotten = n_missing = 0;
	log_set_sink(count_line, NULL);
	return r;
}

static int tear_down(void **state)
{
	int r = fixture_tear_down(state);

	log_set_sink(NULL, NULL);
	atomic_store(&is_mounted, false);
	clock_test_thaw();
	return r;
}

#define test_of_roots(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void assert_away(struct scan_fixture *h)
{
	struct scan_progress p = fixture_progress(h);

	assert_true(p.ready);
	assert_false(p.settled);
	assert_true(scan_unfinished(h->scan));
	assert_int_equal(p.n_unlisted, 1);
	assert_non_null(strstr(p.unlisted, "it is not mounted"));
	assert_int_equal(n_told, 1);
}

static void assert_settled(struct scan_fixture *h)
{
	assert_true(fixture_progress(h).settled);
	assert_false(scan_unfinished(h->scan));
	assert_int_equal(fixture_progress(h).n_unlisted, 0);
}

/* All files in the index were on another file system than this one. */
static void be_on_other_device(struct scan_fixture *h)
{
	struct index_options write = { 0 };
	struct index_file *files;
	struct err err = { 0 };
	struct index *ix;
	size_t n;

	assert_done(index_open(h->index, &write, &ix, &err));
	assert_done(index_list(ix, &(struct index_range){ .max = 1000 }, &h->a, &files, &n, &err));
	assert_true(n > 0);
	for (size_t i = 0; i < n; i++)
		assert_done(index_touch(ix, files[i].id, files[i].mtime_ns, files[i].inode, files[i].dev + 1,
					&err));
	index_close(ix);
}

static char *place(struct scan_fixture *h, const char *name)
{
	return arena_printf(&h->a, "%s/%s", h->dir, name);
}

/* While no scan runs. Until unmount_root(). */
static void be_mounted(struct scan_fixture *h)
{
	memcpy(mount_at, h->root, sizeof(mount_at));
	atomic_store(&is_mounted, true);
}

static void unmount_root(struct scan_fixture *h, bool leave_folder)
{
	atomic_store(&is_mounted, false);
	assert_int_equal(rename(h->root, place(h, "aside")), 0);
	if (leave_folder)
		assert_int_equal(mkdir(h->root, 0755), 0);
}

/* Of a scan that has ended: the root has file "a", and is an empty folder now. */
static void be_unmounted(struct scan_fixture *h)
{
	fixture_put_program(h, "a", PROGRAM_A);
	fixture_run(h);
	fixture_stop(h);
	be_on_other_device(h);
	unmount_root(h, true);
}

static void mount_root(struct scan_fixture *h)
{
	(void)rmdir(h->root);
	assert_int_equal(rename(place(h, "aside"), h->root), 0);
}

static void walk_and_groom(struct scan_fixture *h)
{
	scan_rescan(h->scan);
	fixture_settle(h);
	scan_groom(h->scan);
	fixture_settle(h);
}

static void root_that_is_away(struct scan_fixture *h, bool leave_folder)
{
	struct build_id id = sample_id(&h->s, 0);
	struct index_file f;

	fixture_put_program(h, "a", PROGRAM_A);
	fixture_put_package(h, "p.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	f = fixture_row_of(h, "p.deb");
	fixture_stop(h);
	be_on_other_device(h);
	unmount_root(h, leave_folder);
	fixture_run(h);
	assert_away(h);
	walk_and_groom(h);
	assert_away(h);
	/* In the first walk, which knows no better. */
	assert_int_equal(n_missing, !leave_folder);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(fixture_n_hits(h, &id), 2);
	/* It is back: nothing is scanned again. */
	mount_root(h);
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_settled(h);
	assert_int_equal(n_back, 1);
	assert_int_equal(fixture_progress(h).n_files_done, 0);
	assert_int_equal(fixture_progress(h).n_packages_deep, 0);
	assert_int_equal(fixture_row_of(h, "p.deb").generation, f.generation);
	assert_int_equal(fixture_row_of(h, "p.deb").state, INDEX_SCANNED);
}

static void an_empty_root_on_another_file_system_is_away(void **state)
{
	root_that_is_away(*state, true);
}

static void a_missing_root_above_which_is_another_file_system_is_away(void **state)
{
	root_that_is_away(*state, false);
}

static void a_root_may_be_a_link_to_a_place_that_is_away(void **state)
{
	struct scan_fixture *h = *state;

	assert_int_equal(symlink("root", place(h, "link")), 0);
	h->roots[0] = str_of(place(h, "link"));
	root_that_is_away(h, false);
}

static void a_root_that_was_emptied_in_its_place_is_not_away(void **state)
{
	struct scan_fixture *h = *state;

	fixture_put_program(h, "a", PROGRAM_A);
	fixture_run(h);
	unmount_root(h, true);
	walk_and_groom(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
	assert_int_equal(n_told, 0);
}

static void a_root_that_was_removed_is_not_away(void **state)
{
	struct scan_fixture *h = *state;

	fixture_put_program(h, "a", PROGRAM_A);
	fixture_run(h);
	unmount_root(h, false);
	walk_and_groom(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
}

/* The number of a file system may be another one after a restart of the machine. */
static void a_root_with_files_is_there_whatever_its_file_system(void **state)
{
	struct scan_fixture *h = *state;

	fixture_put_program(h, "a", PROGRAM_A);
	fixture_put_program(h, "b", PROGRAM_B);
	fixture_run(h);
	fixture_stop(h);
	be_on_other_device(h);
	assert_int_equal(unlink(fixture_path(h, "a")), 0);
	fixture_run(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
}

static void many_missing_files_cost_no_more_each(void **state)
{
	struct scan_fixture *h = *state;

	for (unsigned i = 0; i < 200; i++)
		fixture_put_program(h, arena_printf(&h->a, "a%u", i), PROGRAM_A);
	fixture_put_program(h, "b", PROGRAM_B);
	fixture_run(h);
	fixture_stop(h);
	be_on_other_device(h);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(unlink(fixture_path(h, arena_printf(&h->a, "a%u", i))), 0);
	n_stats = 0;
	fixture_run(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
	assert_in_range(n_stats, 201, 2000);
	/* What shows that the root is there may go, too. */
	fixture_stop(h);
	be_mounted(h);
	fixture_run(h);
	unmount_root(h, true);
	scan_groom(h->scan);
	fixture_settle(h);
	assert_away(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
}

static void a_root_with_other_files_is_there(void **state)
{
	struct scan_fixture *h = *state;

	be_unmounted(h);
	fixture_put_program(h, "b", PROGRAM_B);
	fixture_run(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
}

static void a_path_that_is_no_root_any_more_is_forgotten(void **state)
{
	struct scan_fixture *h = *state;

	be_unmounted(h);
	assert_int_equal(mkdir(place(h, "other"), 0755), 0);
	h->roots[0] = str_of(place(h, "other"));
	fixture_run(h);
	assert_settled(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
}

/* The root is a link that leads elsewhere now. */
static void a_place_that_no_root_leads_to_any_more_is_forgotten(void **state)
{
	struct scan_fixture *h = *state;
	const char *link = place(h, "link");

	assert_int_equal(symlink("root", link), 0);
	h->roots[0] = str_of(link);
	be_unmounted(h);
	fixture_run(h);
	walk_and_groom(h);
	assert_away(h);
	assert_int_equal(mkdir(place(h, "other"), 0755), 0);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(symlink("other", link), 0);
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_settled(h);
	/* Grooming has run once more. */
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
}

static void files_of_a_root_are_forgotten_after_days(void **state)
{
	struct scan_fixture *h = *state;

	be_unmounted(h);
	clock_test_freeze(1700000000);
	fixture_run(h);
	clock_test_advance((AWAY_DAYS * INT64_C(86400) - 60) * 1000);
	walk_and_groom(h);
	assert_away(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	clock_test_advance(61000);
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_int_equal(n_forgotten, 1);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
	assert_settled(h);
	walk_and_groom(h);
	assert_settled(h);
	assert_int_equal(n_forgotten, 1);
	assert_int_equal(n_told, 1);
}

static void a_root_that_is_away_for_too_long_counts_no_more(void **state)
{
	struct unlisted *u = unlisted_new();
	char why[64];

	clock_test_freeze(1700000000);
	assert_int_equal(unlisted_set_away(u, "/a", 5), AWAY_NEW);
	assert_true(unlisted_add(u, "/b", "/b", "broken"));
	assert_int_equal(unlisted_count(u), 2);
	clock_test_advance(AWAY_DAYS * INT64_C(86400000));
	assert_true(unlisted_covers(u, "/a/x"));
	assert_int_equal(unlisted_set_away(u, "/a", 5), AWAY_TOO_LONG);
	assert_int_equal(unlisted_set_away(u, "/a", 5), AWAY_SAME);
	assert_int_equal(unlisted_count(u), 1);
	assert_false(unlisted_covers(u, "/a/x"));
	assert_true(unlisted_covers(u, "/b/x"));
	unlisted_why(u, why, sizeof(why));
	assert_string_equal(why, "/b: broken");
	/* A walk that lists it is no proof; that its files are there is. */
	unlisted_begin(u, UNLISTED_ALL);
	assert_int_equal(unlisted_end(u, UNLISTED_ALL), 1);
	assert_true(unlisted_is_away(u, "/a"));
	assert_int_equal(unlisted_set_away(u, "/a", 0), AWAY_SAME);
	assert_false(unlisted_is_away(u, "/a"));
	unlisted_free(u);
}

/* Disks may change places with a restart: the number of the files is that of the folder below them now. */
static void a_file_system_with_the_former_number_of_another_is_not_taken_for_it(void **state)
{
	struct scan_fixture *h = *state;

	fixture_put_program(h, "a", PROGRAM_A);
	fixture_run(h);
	fixture_stop(h);
	be_mounted(h);
	fixture_run(h);
	assert_settled(h);
	assert_int_equal(fixture_progress(h).n_files_done, 0);
	unmount_root(h, true);
	walk_and_groom(h);
	assert_away(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
}

/* Without a walk in between. */
static void grooming_notices_that_a_root_is_away(void **state)
{
	struct scan_fixture *h = *state;

	fixture_put_program(h, "a", PROGRAM_A);
	be_mounted(h);
	fixture_run(h);
	assert_settled(h);
	unmount_root(h, true);
	scan_groom(h->scan);
	fixture_settle(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_away(h);
}

static void a_reported_change_notices_it(void **state)
{
	struct scan_fixture *h = *state;

	fixture_put_program(h, "a", PROGRAM_A);
	be_mounted(h);
	fixture_run(h);
	assert_settled(h);
	unmount_root(h, true);
	scan_path_changed(h->scan, fixture_path(h, "a"));
	fixture_settle(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_away(h);
}

/* As when another place was tried again just now. */
static void a_root_is_there_again_when_it_was_walked(void **state)
{
	struct scan_fixture *h = *state;

	be_unmounted(h);
	fixture_run(h);
	assert_away(h);
	mount_root(h);
	fixture_put_program(h, "b", PROGRAM_B);
	roots_judge(h->scan, h->ix);
	assert_away(h);
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_settled(h);
	assert_int_equal(n_back, 1);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
}

/* Of a package whose deep pass has failed meanwhile. */
static void begin_away_with_unread_package(struct scan_fixture *h)
{
	h->opts.header_only = true;
	fixture_put_package(h, "p.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	assert_int_equal(fixture_row_of(h, "p.deb").state, INDEX_HEADER);
	fixture_stop(h);
	be_on_other_device(h);
	unmount_root(h, true);
	h->opts.header_only = false;
	clock_test_freeze(clock_wall_s());
	fixture_run(h);
	assert_int_equal(fixture_row_of(h, "p.deb").state, INDEX_FAILED);
}

/* Their next try after "the file has vanished" would be up to a day later. */
static void packages_that_were_unread_are_read_when_it_is_back(void **state)
{
	struct scan_fixture *h = *state;

	begin_away_with_unread_package(h);
	mount_root(h);
	atomic_store(&reads_again, h);
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_settled(h);
	assert_int_equal(n_back, 1);
	assert_false(was_final);
	assert_int_equal(fixture_row_of(h, "p.deb").state, INDEX_SCANNED);
}

static void packages_that_were_unread_are_read_after_a_restart(void **state)
{
	struct scan_fixture *h = *state;

	begin_away_with_unread_package(h);
	fixture_stop(h);
	mount_root(h);
	fixture_run(h);
	assert_settled(h);
	assert_int_equal(fixture_row_of(h, "p.deb").state, INDEX_SCANNED);
}

static void assert_place(struct scan_fixture *h, const char *root, const char *want)
{
	struct root_place p;
	struct stat st;

	if (!want) {
		assert_false(root_place(root, &p));
		return;
	}
	assert_true(root_place(root, &p));
	assert_string_equal(p.path, want);
	assert_int_equal(stat(h->dir, &st), 0);
	assert_int_equal(p.dev, st.st_dev);
}

static void the_place_of_a_root_that_is_missing(void **state)
{
	struct scan_fixture *h = *state;
	char cwd[PATH_MAX];

	assert_place(h, h->root, h->root);
	assert_place(h, place(h, "a"), place(h, "a"));
	assert_place(h, place(h, "a//b/c/"), place(h, "a/b/c"));
	assert_int_equal(symlink(place(h, "there/not"), place(h, "absolute")), 0);
	assert_int_equal(symlink("there/not", place(h, "relative")), 0);
	assert_int_equal(symlink("absolute", place(h, "twice")), 0);
	assert_int_equal(symlink("round", place(h, "round")), 0);
	assert_place(h, place(h, "absolute"), place(h, "there/not"));
	assert_place(h, place(h, "relative/x"), place(h, "there/not/x"));
	assert_place(h, place(h, "twice/x/y"), place(h, "there/not/x/y"));
	assert_place(h, place(h, "round/x"), NULL);
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(chdir(h->dir), 0);
	assert_place(h, "none", place(h, "none"));
	assert_place(h, "relative/x", place(h, "there/not/x"));
	assert_place(h, "root", h->root);
	assert_int_equal(chdir(cwd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_of_roots(an_empty_root_on_another_file_system_is_away),
		test_of_roots(a_missing_root_above_which_is_another_file_system_is_away),
		test_of_roots(a_root_may_be_a_link_to_a_place_that_is_away),
		test_of_roots(a_root_that_was_emptied_in_its_place_is_not_away),
		test_of_roots(a_root_that_was_removed_is_not_away),
		test_of_roots(a_root_with_files_is_there_whatever_its_file_system),
		test_of_roots(many_missing_files_cost_no_more_each),
		test_of_roots(a_root_with_other_files_is_there),
		test_of_roots(a_path_that_is_no_root_any_more_is_forgotten),
		test_of_roots(a_place_that_no_root_leads_to_any_more_is_forgotten),
		test_of_roots(files_of_a_root_are_forgotten_after_days),
		test_of_roots(a_root_that_is_away_for_too_long_counts_no_more),
		test_of_roots(a_file_system_with_the_former_number_of_another_is_not_taken_for_it),
		test_of_roots(grooming_notices_that_a_root_is_away),
		test_of_roots(a_reported_change_notices_it),
		test_of_roots(a_root_is_there_again_when_it_was_walked),
		test_of_roots(packages_that_were_unread_are_read_when_it_is_back),
		test_of_roots(packages_that_were_unread_are_read_after_a_restart),
		test_of_roots(the_place_of_a_root_that_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
