/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures of the scan in the log.
 */
#include "test.h"

#include "scan/internal.h"

static unsigned n_lines;
static char last_line[256];

static void count_line(void *arg, enum log_level level, const char *area, const char *text)
{
	n_lines++;
	snprintf(last_line, sizeof(last_line), "%s", text);
}

static void fail_files(struct scan *s, unsigned n)
{
	struct err why = { 0 };

	(void)err_set(&why, ERR_INVALID, "is damaged");
	for (unsigned i = 0; i < n; i++)
		scan_failed(s, STR("/a.deb"), &why);
}

static void many_failures_do_not_fill_the_log(void **state)
{
	struct scan *s = NEW(struct scan);

	pthread_mutex_init(&s->lock, NULL);
	log_set_sink(count_line, NULL);
	clock_test_freeze(1000);
	fail_files(s, 3);
	assert_int_equal(n_lines, 3);
	assert_string_equal(last_line, "/a.deb: is damaged");
	fail_files(s, 100000);
	assert_int_equal(n_lines, 200);
	clock_test_advance(59999);
	fail_files(s, 1);
	assert_int_equal(n_lines, 200);
	/* Then others are told, and how many were not. */
	clock_test_advance(1);
	fail_files(s, 1);
	assert_int_equal(n_lines, 202);
	assert_string_equal(last_line, "/a.deb: is damaged");
	fail_files(s, 100000);
	assert_int_equal(n_lines, 401);
	clock_test_advance(60000);
	fail_files(s, 1);
	clock_test_advance(60000);
	fail_files(s, 1);
	assert_int_equal(n_lines, 404);
	assert_int_equal(s->progress.n_failed, 200007);
	clock_test_thaw();
	log_set_sink(NULL, NULL);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_failures_do_not_fill_the_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
