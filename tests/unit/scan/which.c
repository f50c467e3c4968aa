/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files a scan looks at: by regexes, by depth, through links, by suffix.
 */
#include "house.h"

static void regexes_say_which(void **state)
{
	struct house *h = *state;

	house_put_program(h, "yes-a", PROGRAM_A);
	house_put_program(h, "yes-but", PROGRAM_A);
	house_put_program(h, "no-a", PROGRAM_A);
	h->opts.include_regex = "/yes-[^/]*$";
	h->opts.exclude_regex = "but$";
	house_run(h);
	assert_true(house_has(h, "yes-a"));
	assert_false(house_has(h, "yes-but"));
	assert_false(house_has(h, "no-a"));
	/* While grooming they count only if asked. */
	house_stop(h);
	h->opts.include_regex = "nothing-at-all";
	house_run(h);
	assert_true(house_has(h, "yes-a"));
	house_stop(h);
	h->opts.regex_groom = true;
	house_run(h);
	assert_false(house_has(h, "yes-a"));
}

static void a_regex_that_is_none_is_an_error(void **state)
{
	struct house *h = *state;
	struct scan *s;
	struct err err = { 0 };

	h->opts.include_regex = "fine";
	h->opts.exclude_regex = "(";
	assert_fails(scan_new(&h->opts, &s, &err), ERR_INVALID, "exclude regex '('");
}

static void no_deeper_than_asked(void **state)
{
	struct house *h = *state;
	struct err err = { 0 };

	assert_done(dir_make(house_path(h, "1/2/3"), 0755, &err));
	house_put_program(h, "p", PROGRAM_A);
	house_put_program(h, "1/p", PROGRAM_A);
	house_put_program(h, "1/2/p", PROGRAM_A);
	house_put_program(h, "1/2/3/p", PROGRAM_A);
	h->opts.max_depth = 2;
	house_run(h);
	assert_true(house_has(h, "p"));
	assert_true(house_has(h, "1/p"));
	assert_false(house_has(h, "1/2/p"));
	assert_false(house_has(h, "1/2/3/p"));
	house_stop(h);
	h->opts.max_depth = 0;
	house_run(h);
	assert_true(house_has(h, "1/2/3/p"));
}

static void links_are_followed_only_if_asked(void **state)
{
	struct house *h = *state;
	char *aside = arena_printf(&h->a, "%s/aside", h->dir);
	struct err err = { 0 };

	assert_done(dir_make(aside, 0755, &err));
	house_put_program(h, "../aside/p", PROGRAM_A);
	assert_int_equal(symlink(aside, house_path(h, "link")), 0);
	assert_int_equal(symlink("../aside/p", house_path(h, "p")), 0);
	assert_int_equal(symlink("nowhere", house_path(h, "dangling")), 0);
	assert_int_equal(symlink("..", house_path(h, "loop")), 0);
	house_run(h);
	assert_int_equal(house_n_hits_of(h, PROGRAM_A), 0);
	house_stop(h);
	h->opts.follow_links = true;
	h->opts.max_depth = 6;
	house_run(h);
	assert_true(house_has(h, "p"));
	assert_true(house_has(h, "link/p"));
}

static void suffixes_say_what_is_a_package(void **state)
{
	struct house *h = *state;
	static const struct str suffixes[] = { STR(".pkg") };

	h->opts.package_suffixes = suffixes;
	h->opts.n_package_suffixes = 1;
	h->opts.files = false;
	house_put_package(h, "a.pkg", SAMPLE_DEB, CODEC_XZ);
	house_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	house_put_program(h, "p", PROGRAM_A);
	house_run(h);
	assert_int_equal(house_row_of(h, "a.pkg").state, INDEX_SCANNED);
	assert_false(house_has(h, "a.deb"));
	assert_false(house_has(h, "p"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_in_house(regexes_say_which),
		test_in_house(a_regex_that_is_none_is_an_error),
		test_in_house(no_deeper_than_asked),
		test_in_house(links_are_followed_only_if_asked),
		test_in_house(suffixes_say_what_is_a_package),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
