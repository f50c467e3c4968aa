/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines: their form, what is escaped in them, the journal, threads. They are read back from a pipe.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

static int pipe_fds[2];

static int setup(void **state)
{
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
	fcntl(pipe_fds[1], F_SETPIPE_SZ, 1 << 20);
	log_set_fd(pipe_fds[1]);
	log_set_level(LOG_INFO);
	clock_test_freeze(1795246140);
	return 0;
}

static int teardown(void **state)
{
	clock_test_thaw();
	unsetenv("JOURNAL_STREAM");
	log_set_fd(2);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return 0;
}

/* Everything logged so far. */
static const char *logged(void)
{
	static char text[1 << 20];
	ssize_t n = read(pipe_fds[0], text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void a_line_has_time_level_area_and_text(void **state)
{
	clock_test_advance(7);
	log_info("scan", "%d packages", 3);
	assert_string_equal(logged(), "2026-11-21T07:29:00.007Z info  scan: 3 packages\n");
	log_error("http", "x");
	assert_string_equal(logged(), "2026-11-21T07:29:00.007Z error http: x\n");
}

static void lines_below_the_level_are_dropped(void **state)
{
	log_debug("x", "no");
	assert_string_equal(logged(), "");
	log_set_level(LOG_DEBUG);
	assert_int_equal(log_level(), LOG_DEBUG);
	log_debug("x", "yes");
	assert_non_null(strstr(logged(), "debug x: yes\n"));
	log_set_level(LOG_ERROR);
	log_warn("x", "no");
	assert_string_equal(logged(), "");
}

static void control_characters_are_escaped(void **state)
{
	log_info("a\nb", "%s", "x\n2026 error fake\x1b[2J\x7f\t\\\r");
	assert_string_equal(logged(), "2026-11-21T07:29:00.000Z info  a\\nb: x\\n2026 error "
				      "fake\\x1b[2J\\x7f\\t\\\\\\r\n");
	log_info("u", "%s", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80");
	assert_non_null(strstr(logged(), "u: \xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\n"));
	/* First bytes that only look like UTF-8: overlong, surrogate, cut, too large. Then valid but harmful
	 * characters: C1, directions, lines. */
	log_info("u", "%s", "\xc0\xaf|\xed\xa0\x80|\xe2\x82|\xf4\x90\x80\x80|\xff");
	assert_non_null(
		strstr(logged(), "u: \\xc0\\xaf|\\xed\\xa0\\x80|\\xe2\\x82|\\xf4\\x90\\x80\\x80|\\xff\n"));
	log_info("u", "%s", "\xc2\x9b|\xe2\x80\xae|\xe2\x80\xa8|\xe2");
	assert_non_null(strstr(logged(), "u: \\xc2\\x9b|\\xe2\\x80\\xae|\\xe2\\x80\\xa8|\\xe2\n"));
}

static void a_long_text_is_cut_and_marked(void **state)
{
	char text[10000];
	const char *line;

	memset(text, '\n', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	for (size_t skip = 0; skip < 8; skip++) {
		log_info("x", "%.*s%s", (int)skip, "12345678", text);
		line = logged();
		assert_true(strlen(line) <= 4096);
		assert_true(str_ends(str_of(line), STR("\\n...\n")));
	}
}

static void the_journal_gets_its_priorities(void **state)
{
	char env[64];
	struct stat st;

	fstat(pipe_fds[1], &st);
	snprintf(env, sizeof(env), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", env, 1);
	log_set_fd(pipe_fds[1]);
	log_error("a", "x");
	log_warn("a", "x");
	log_info("a", "x");
	assert_string_equal(logged(), "<3>a: x\n<4>a: x\n<6>a: x\n");

	/* The journal of another descriptor. */
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_set_fd(pipe_fds[1]);
	log_info("a", "x");
	assert_int_equal(logged()[0], '2');
	setenv("JOURNAL_STREAM", "nonsense", 1);
	log_set_fd(pipe_fds[1]);
	log_info("a", "x");
	assert_int_equal(logged()[0], '2');
}

static void errno_is_kept(void **state)
{
	log_set_fd(-1); /* the write fails */
	errno = ENOENT;
	log_info("a", "x");
	assert_int_equal(errno, ENOENT);
}

static void *log_some(void *arg)
{
	for (int i = 0; i < 200; i++)
		log_info("t", "%s", (const char *)arg);
	return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
	static char texts[4][25] = { "aaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbb",
				     "cccccccccccccccccccccccc", "dddddddddddddddddddddddd" };
	unsigned seen[4] = { 0 };
	pthread_t t[4];
	struct str all;

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, log_some, texts[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	all = str_of(logged());
	while (all.size) {
		struct str line = str_cut(&all, '\n');

		for (int i = 0; i < 4; i++)
			if (str_ends(line, str_of(texts[i])) && line.size == 34 + strlen(texts[i]))
				seen[i]++;
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(seen[i], 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_line_has_time_level_area_and_text, setup, teardown),
		cmocka_unit_test_setup_teardown(lines_below_the_level_are_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(control_characters_are_escaped, setup, teardown),
		cmocka_unit_test_setup_teardown(a_long_text_is_cut_and_marked, setup, teardown),
		cmocka_unit_test_setup_teardown(the_journal_gets_its_priorities, setup, teardown),
		cmocka_unit_test_setup_teardown(errno_is_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(lines_of_threads_do_not_mix, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
