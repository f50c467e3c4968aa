/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How errors read when they reach the edge, and which part is cut when a text is too long.
 */
#include "test.h"

#include <errno.h>

static void text_reads_from_the_outside_in(void **state)
{
	struct err err = { 0 };

	assert_int_equal(err_set(&err, ERR_INVALID, "table of %d ends past the file", 7), -1);
	assert_int_equal(err_in(&err, "section %s", ".symtab"), -1);
	err_in(&err, "a.rpm");
	assert_string_equal(err.text, "a.rpm: section .symtab: table of 7 ends past the file");
	assert_int_equal(err.kind, ERR_INVALID);
	assert_int_equal(err.os, 0);
}

static void a_missing_err_is_fine(void **state)
{
	assert_int_equal(err_set(NULL, ERR_IO, "x"), -1);
	assert_int_equal(err_os(NULL, EIO, "x"), -1);
	assert_int_equal(err_in(NULL, "x"), -1);
}

static void os_errors_say_the_reason_and_their_kind(void **state)
{
	struct err err = { 0 };

	err_os(&err, EACCES, "%s: open", "/x");
	assert_string_equal(err.text, "/x: open: Permission denied");
	assert_int_equal(err.kind, ERR_IO);
	assert_int_equal(err.os, EACCES);
	err_os(&err, EMFILE, "open");
	assert_int_equal(err.kind, ERR_LIMIT);
	err_os(&err, ENFILE, "open");
	assert_int_equal(err.kind, ERR_LIMIT);
	err_os(&err, ENOMEM, "map");
	assert_int_equal(err.kind, ERR_LIMIT);
}

static void an_err_may_be_set_from_its_own_text(void **state)
{
	struct err err = { 0 };

	err_set(&err, ERR_IO, "disk on fire");
	err_set(&err, ERR_UPSTREAM, "server said \"%s\"", err.text);
	assert_string_equal(err.text, "server said \"disk on fire\"");
	err_in(&err, "%.6s", err.text);
	assert_string_equal(err.text, "server: server said \"disk on fire\"");
}

static void a_place_is_named_once(void **state)
{
	struct err err = { 0 };

	err_set(&err, ERR_INVALID, "/dev/null: not a regular file");
	assert_int_equal(err_in(&err, "/dev/null"), -1);
	assert_string_equal(err.text, "/dev/null: not a regular file");
	err_in(&err, "/dev");
	assert_string_equal(err.text, "/dev: /dev/null: not a regular file");
	err_set(&err, ERR_IO, "localhost:6060: connection refused");
	err_in(&err, "localhost");
	assert_string_equal(err.text, "localhost: localhost:6060: connection refused");
	err_set(&err, ERR_INVALID, "/dev: /dev/null: not a regular file");
	err_in(&err, "%s", "");
	assert_string_equal(err.text, ": /dev: /dev/null: not a regular file");
}

static void long_texts_are_cut_but_keep_place_and_reason(void **state)
{
	char longish[2000];
	struct err err = { 0 };

	memset(longish, 'x', sizeof(longish));
	longish[sizeof(longish) - 1] = '\0';

	err_set(&err, ERR_IO, "%s", longish);
	assert_int_equal(strlen(err.text), ERR_TEXT_SIZE - 1);
	err_in(&err, "place");
	assert_int_equal(strlen(err.text), ERR_TEXT_SIZE - 1);
	assert_memory_equal(err.text, "place: xxx", 10);

	err_set(&err, ERR_INVALID, "the reason");
	err_in(&err, "%s", longish);
	assert_int_equal(strlen(err.text), ERR_TEXT_SIZE - 1);
	assert_non_null(strstr(err.text, "xxx...: the reason"));

	err_os(&err, ENOSPC, "%s", longish);
	assert_non_null(strstr(err.text, "xxx: No space left on device"));

	for (int i = 0; i < 1000; i++)
		err_in(&err, "level %d", i);
	assert_memory_equal(err.text, "level 999: level 998: ", 22);
	assert_true(strlen(err.text) < ERR_TEXT_SIZE);
}

static void kinds_have_names(void **state)
{
	assert_string_equal(err_kind_name(ERR_NONE), "none");
	assert_string_equal(err_kind_name(ERR_INVALID), "invalid");
	assert_string_equal(err_kind_name(ERR_LIMIT), "limit");
	assert_string_equal(err_kind_name(ERR_IO), "io");
	assert_string_equal(err_kind_name(ERR_CHANGED), "changed");
	assert_string_equal(err_kind_name(ERR_UPSTREAM), "upstream");
	assert_string_equal(err_kind_name(ERR_CANCELLED), "cancelled");
	assert_string_equal(err_kind_name(ERR_INTERNAL), "internal");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_reads_from_the_outside_in),
		cmocka_unit_test(a_missing_err_is_fine),
		cmocka_unit_test(os_errors_say_the_reason_and_their_kind),
		cmocka_unit_test(an_err_may_be_set_from_its_own_text),
		cmocka_unit_test(a_place_is_named_once),
		cmocka_unit_test(long_texts_are_cut_but_keep_place_and_reason),
		cmocka_unit_test(kinds_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
