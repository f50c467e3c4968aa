/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selection of files: by regexes, by depth, through links, by suffix.
 */
#include "fixture.h"

static void regexes_select_files(void **state)
{
	struct scan_fixture *h = *state;

	fixture_put_program(h, "yes-a", PROGRAM_A);
	fixture_put_program(h, "yes-but", PROGRAM_A);
	fixture_put_program(h, "no-a", PROGRAM_A);
	h->opts.include_regex = "/yes-[^/]*$";
	h->opts.exclude_regex = "but$";
	fixture_run(h);
	assert_true(fixture_has(h, "yes-a"));
	assert_false(fixture_has(h, "yes-but"));
	assert_false(fixture_has(h, "no-a"));
	/* While grooming the regexes apply only on request. */
	fixture_stop(h);
	h->opts.include_regex = "nothing-at-all";
	fixture_run(h);
	assert_true(fixture_has(h, "yes-a"));
	fixture_stop(h);
	h->opts.regex_groom = true;
	fixture_run(h);
	assert_false(fixture_has(h, "yes-a"));
}

static void an_invalid_regex_is_an_error(void **state)
{
	struct scan_fixture *h = *state;
	struct scan *s;
	struct err err = { 0 };

	h->opts.include_regex = "fine";
	h->opts.exclude_regex = "(";
	assert_fails(scan_new(&h->opts, &s, &err), ERR_INVALID, "exclude regex '('");
}

static void max_depth_limits_the_walk(void **state)
{
	struct scan_fixture *h = *state;
	struct err err = { 0 };

	assert_done(dir_make(fixture_path(h, "1/2/3"), 0755, &err));
	fixture_put_program(h, "p", PROGRAM_A);
	fixture_put_program(h, "1/p", PROGRAM_A);
	fixture_put_program(h, "1/2/p", PROGRAM_A);
	fixture_put_program(h, "1/2/3/p", PROGRAM_A);
	h->opts.max_depth = 2;
	fixture_run(h);
	assert_true(fixture_has(h, "p"));
	assert_true(fixture_has(h, "1/p"));
	assert_false(fixture_has(h, "1/2/p"));
	assert_false(fixture_has(h, "1/2/3/p"));
	fixture_stop(h);
	h->opts.max_depth = 0;
	fixture_run(h);
	assert_true(fixture_has(h, "1/2/3/p"));
}

static void links_are_followed_only_on_request(void **state)
{
	struct scan_fixture *h = *state;
	char *aside = arena_printf(&h->a, "%s/aside", h->dir);
	struct err err = { 0 };

	assert_done(dir_make(aside, 0755, &err));
	fixture_put_program(h, "../aside/p", PROGRAM_A);
	assert_int_equal(symlink(aside, fixture_path(h, "link")), 0);
	assert_int_equal(symlink("../aside/p", fixture_path(h, "p")), 0);
	assert_int_equal(symlink("nowhere", fixture_path(h, "dangling")), 0);
	assert_int_equal(symlink("..", fixture_path(h, "loop")), 0);
	fixture_run(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
	fixture_stop(h);
	h->opts.follow_links = true;
	h->opts.max_depth = 6;
	fixture_run(h);
	assert_true(fixture_has(h, "p"));
	assert_true(fixture_has(h, "link/p"));
}

static void suffixes_select_packages(void **state)
{
	struct scan_fixture *h = *state;
	static const struct str suffixes[] = { STR(".pkg") };

	h->opts.package_suffixes = suffixes;
	h->opts.n_package_suffixes = 1;
	h->opts.files = false;
	fixture_put_package(h, "a.pkg", SAMPLE_DEB, CODEC_XZ);
	fixture_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_put_program(h, "p", PROGRAM_A);
	fixture_run(h);
	assert_int_equal(fixture_row_of(h, "a.pkg").state, INDEX_SCANNED);
	assert_false(fixture_has(h, "a.deb"));
	assert_false(fixture_has(h, "p"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_in_fixture(regexes_select_files),
		test_in_fixture(an_invalid_regex_is_an_error),
		test_in_fixture(max_depth_limits_the_walk),
		test_in_fixture(links_are_followed_only_on_request),
		test_in_fixture(suffixes_select_packages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
