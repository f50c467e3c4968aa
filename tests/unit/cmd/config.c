/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file, the environment, and their priorities.
 */
#include "test.h"
#include "cmd/service/service.h"

static struct settings s;
static struct service_settings *own;
static struct err err;
static char dir[TEST_PATH_SIZE], file[TEST_PATH_SIZE + 16];

static int setup(void **state)
{
	test_dir_make(dir);
	snprintf(file, sizeof(file), "%s/conf", dir);
	setenv("LODE_CONFIG", file, 1);
	settings_init(&s, &command_serve, commands);
	own = s.own;
	command_serve.defaults(&s);
	return 0;
}

static int teardown(void **state)
{
	static const char *const used[] = { "LODE_CONFIG", "LODE_RESCAN",   "LODE_LISTEN",
					    "LODE_CORS",   "LODE_NO_WATCH", "LODE_NO_UPSTREAM" };

	for (size_t i = 0; i < ARRAY_SIZE(used); i++)
		unsetenv(used[i]);
	settings_done(&s);
	test_dir_remove(dir);
	return 0;
}

static void put(const char *text)
{
	test_file_write(file, text, strlen(text));
}

static int read_with(const char *option, const char *value)
{
	char *argv[] = { (char *)"serve", (char *)option, (char *)value, NULL };

	return options_read(&command_serve, option ? value ? 3 : 2 : 1, argv, &s, &err);
}

static void a_file_sets_options_by_their_long_names(void **state)
{
	put("# a comment\n\n  rescan = 7 \nlisten = a:1\nlisten=b:2\r\ncors = yes\nno-watch=no\npath = /with "
	    "blanks/x\n"
	    "exclude = a=b");
	assert_done(read_with(NULL, NULL));
	assert_int_equal(own->scan.rescan_s, 7);
	assert_int_equal(own->listen.n, 2);
	assert_str(own->listen.items[1], "b:2");
	assert_true(own->server.cors);
	assert_true(own->scan.watch);
	assert_str(s.paths.items[0], "/with blanks/x");
	assert_string_equal(own->scan.exclude_regex, "a=b");
}

static void the_command_line_wins_over_environment_and_file(void **state)
{
	put("rescan = 1\nlisten = a:1\nlisten = b:2\ncors = yes\nno-watch = yes\n");
	setenv("LODE_RESCAN", "2", 1);
	setenv("LODE_LISTEN", "c:3  d:4", 1);
	setenv("LODE_CORS", "no", 1);
	setenv("LODE_NO_WATCH", "off", 1);
	assert_done(read_with("--rescan", "3"));
	assert_int_equal(own->scan.rescan_s, 3);
	assert_int_equal(own->listen.n, 2);
	assert_str(own->listen.items[0], "c:3");
	assert_str(own->listen.items[1], "d:4");
	assert_false(own->server.cors);
	assert_true(own->scan.watch);
}

static void the_environment_turns_other_servers_on_again(void **state)
{
	put("no-upstream = yes\n");
	setenv("LODE_NO_UPSTREAM", "no", 1);
	assert_done(read_with(NULL, NULL));
	assert_false(own->upstream.off);
	assert_done(read_with("--no-upstream", NULL));
	assert_true(own->upstream.off);
}

static void a_list_of_the_command_line_replaces_the_others(void **state)
{
	put("listen = a:1\n");
	setenv("LODE_LISTEN", "b:2", 1);
	assert_done(read_with("--listen", "c:3"));
	assert_int_equal(own->listen.n, 1);
	assert_str(own->listen.items[0], "c:3");
}

static void the_file_of_the_command_line_is_read_instead(void **state)
{
	char other[TEST_PATH_SIZE + 16];

	put("rescan = 1\n");
	snprintf(other, sizeof(other), "%s/other", dir);
	test_file_write(other, "rescan = 9", 10);
	assert_done(read_with("--config", other));
	assert_int_equal(own->scan.rescan_s, 9);
}

static void a_file_that_was_named_must_be_there(void **state)
{
	assert_fails(read_with(NULL, NULL), ERR_IO, "there is no such file");
	assert_fails(read_with("--config", "/nonexistent/conf"), ERR_IO,
		     "/nonexistent/conf: there is no such file");
}

static void mistakes_are_reported_with_their_line(void **state)
{
	put("rescan = 1\nno-such = 1\n");
	assert_fails(read_with(NULL, NULL), ERR_INVALID, "conf:2: there is no option 'no-such'");
	put("rescan 1\n");
	assert_fails(read_with(NULL, NULL), ERR_INVALID, "conf:1: not of the form");
	put("\n\nrescan = soon\n");
	assert_fails(read_with(NULL, NULL), ERR_INVALID, "conf:3: rescan: 'soon' is not a number");
	put("cors = perhaps\n");
	assert_fails(read_with(NULL, NULL), ERR_INVALID, "conf:1: cors: 'perhaps' is neither yes nor no");
	put("");
	setenv("LODE_RESCAN", "soon", 1);
	assert_fails(read_with(NULL, NULL), ERR_INVALID, "$LODE_RESCAN: 'soon' is not a number");
}

static void an_option_of_another_command_is_ignored(void **state)
{
	char *argv[] = { (char *)"stat", NULL };

	put("rescan = 1\ndata = /d\n");
	assert_done(options_read(&command_stat, 1, argv, &s, &err));
	assert_string_equal(s.data, "/d");
}

static void the_drop_in_reads_neither(void **state)
{
	char *argv[] = { (char *)"debuginfod", NULL };

	put("nonsense");
	setenv("LODE_CORS", "nonsense", 1);
	assert_done(options_read(&command_debuginfod, 1, argv, &s, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_sets_options_by_their_long_names, setup, teardown),
		cmocka_unit_test_setup_teardown(the_environment_turns_other_servers_on_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_command_line_wins_over_environment_and_file, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_list_of_the_command_line_replaces_the_others, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_file_of_the_command_line_is_read_instead, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_file_that_was_named_must_be_there, setup, teardown),
		cmocka_unit_test_setup_teardown(mistakes_are_reported_with_their_line, setup, teardown),
		cmocka_unit_test_setup_teardown(an_option_of_another_command_is_ignored, setup, teardown),
		cmocka_unit_test_setup_teardown(the_drop_in_reads_neither, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
