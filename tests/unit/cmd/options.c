/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: the fields that options set, and the errors of wrong options.
 */
#include "test.h"
#include "cmd/service/service.h"

static struct settings s;
static struct service_settings *own;
static struct err err;

static int setup(void **state)
{
	/* A file of this machine must not take part. */
	setenv("LODE_CONFIG", "/dev/null", 1);
	/* Both commands have the same settings. */
	settings_init(&s, &command_serve, commands);
	own = s.own;
	return 0;
}

static int teardown(void **state)
{
	settings_done(&s);
	return 0;
}

/* Words in one string, separated by blanks. */
static int read_line(const struct command *cmd, const char *line)
{
	char *argv[64] = { (char *)"lode" }, *copy = mem_strdup(line), *save = NULL;
	int argc = 1, r;

	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	r = options_read(cmd, argc, argv, &s, &err);
	free(copy);
	return r;
}

static void every_kind_of_value_sets_its_field(void **state)
{
	command_serve.defaults(&s);
	assert_done(read_line(
		&command_serve,
		"--data /d --listen a:1 --max-depth 7 --cache-size 3G --rescan 11 --deadline 2 --cors "
		"--no-watch --archive-path hide /x /y"));
	assert_string_equal(s.data, "/d");
	assert_int_equal(own->listen.n, 1);
	assert_str(own->listen.items[0], "a:1");
	assert_int_equal(own->scan.max_depth, 7);
	assert_int_equal(own->server.cache_max_bytes, UINT64_C(3) << 30);
	assert_int_equal(own->scan.rescan_s, 11);
	assert_int_equal(own->server.request_deadline_ms, 2000);
	assert_true(own->server.cors);
	assert_false(own->scan.watch);
	assert_true(own->server.hide_archive);
	assert_int_equal(s.paths.n, 2);
	assert_str(s.paths.items[1], "/y");
}

static void zero_seconds_is_no_limit(void **state)
{
	assert_done(read_line(&command_serve, "--deadline 0"));
	assert_true(own->server.request_deadline_ms > INT64_C(365) * 86400 * 1000);
}

static void options_may_follow_arguments_and_end_at_two_dashes(void **state)
{
	assert_done(read_line(&command_serve, "/x --cors -- --cors"));
	assert_true(own->server.cors);
	assert_int_equal(s.paths.n, 2);
	assert_str(s.paths.items[1], "--cors");
}

static void short_options_are_bundled(void **state)
{
	command_debuginfod.defaults(&s);
	assert_done(read_line(&command_debuginfod, "-vvFRt0 -c3 -C8 -p 9000 -Z .tar.zst -Z.x=cat /p"));
	assert_true(s.verbose);
	assert_true(own->scan.files && own->scan.packages);
	assert_int_equal(own->scan.rescan_s, 0);
	assert_int_equal(own->scan.threads, 3);
	assert_int_equal(own->server.http_threads, 8);
	assert_int_equal(own->debuginfod.port, 9000);
	assert_int_equal(own->suffixes.n, 3);
	assert_str(own->suffixes.items[0], ".rpm");
	assert_str(own->suffixes.items[1], ".tar.zst");
	assert_str(own->suffixes.items[2], ".x");
	assert_int_equal(s.paths.n, 1);
}

static void an_optional_value_may_be_missing(void **state)
{
	assert_done(read_line(&command_debuginfod, "-C -C=5 --connection-pool"));
	assert_int_equal(own->server.http_threads, 5);
	assert_done(read_line(&command_debuginfod, "--connection-pool=1"));
	assert_int_equal(own->server.http_threads, 2);
	/* A word of its own is an argument. */
	assert_done(read_line(&command_debuginfod, "-C 7"));
	assert_int_equal(own->server.http_threads, 2);
	assert_str(s.paths.items[0], "7");
}

static void long_options_may_be_shortened(void **state)
{
	assert_done(read_line(&command_debuginfod, "--resc 5 --fdcache-mb=3"));
	assert_int_equal(own->scan.rescan_s, 5);
	assert_int_equal(own->server.cache_max_bytes, 3 << 20);
}

static void h_prints_help_unless_it_is_an_option(void **state)
{
	assert_int_equal(read_line(&command_serve, "-h"), OPTIONS_HELP);
	assert_int_equal(read_line(&command_serve, "--cors --help --no-such"), OPTIONS_HELP);
	assert_done(read_line(&command_debuginfod, "-h http://x"));
	assert_string_equal(own->server.home_redirect, "http://x");
}

static void mistakes_are_named(void **state)
{
	assert_fails(read_line(&command_serve, "--no-such"), ERR_INVALID, "there is no option --no-such");
	assert_fails(read_line(&command_serve, "--max"), ERR_INVALID, "there is no option --max");
	assert_fails(read_line(&command_serve, "-vq"), ERR_INVALID, "there is no option -q");
	assert_fails(read_line(&command_serve, "--listen"), ERR_INVALID, "--listen needs a value: ADDR:PORT");
	assert_fails(read_line(&command_debuginfod, "-t"), ERR_INVALID,
		     "--rescan-time needs a value: SECONDS");
	assert_fails(read_line(&command_serve, "--cors=yes"), ERR_INVALID, "--cors takes no value");
	assert_fails(read_line(&command_serve, "--rescan 5m"), ERR_INVALID, "--rescan: '5m' is not a number");
	assert_fails(read_line(&command_serve, "--rescan -1"), ERR_INVALID, "not a number");
	assert_fails(read_line(&command_serve, "--max-depth 4294967296"), ERR_INVALID,
		     "is more than 4294967295");
	assert_fails(read_line(&command_serve, "--cache-size 1X"), ERR_INVALID, "is not a size");
	assert_fails(read_line(&command_serve, "--cache-size 99999999999T"), ERR_INVALID, "is not a size");
	assert_fails(read_line(&command_serve, "--archive-path maybe"), ERR_INVALID,
		     "is neither full nor hide");
	assert_fails(read_line(&command_debuginfod, "-p 65536"), ERR_INVALID, "not a port");
	assert_fails(read_line(&command_debuginfod, "-Z =cat"), ERR_INVALID,
		     "needs the ending of a file name");
}

static void a_list_has_a_limit(void **state)
{
	for (unsigned i = 0; i < SETTING_LIST_MAX; i++)
		assert_done(setting_list_add(&s, &own->listen, STR("x"), RANK_FILE, &err));
	assert_fails(setting_list_add(&s, &own->listen, STR("x"), RANK_FILE, &err), ERR_LIMIT, "more than");
	assert_done(setting_list_add(&s, &own->listen, STR("y"), RANK_COMMAND_LINE, &err));
	assert_int_equal(own->listen.n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_kind_of_value_sets_its_field, setup, teardown),
		cmocka_unit_test_setup_teardown(zero_seconds_is_no_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(options_may_follow_arguments_and_end_at_two_dashes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(short_options_are_bundled, setup, teardown),
		cmocka_unit_test_setup_teardown(an_optional_value_may_be_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(long_options_may_be_shortened, setup, teardown),
		cmocka_unit_test_setup_teardown(h_prints_help_unless_it_is_an_option, setup, teardown),
		cmocka_unit_test_setup_teardown(mistakes_are_named, setup, teardown),
		cmocka_unit_test_setup_teardown(a_list_has_a_limit, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
