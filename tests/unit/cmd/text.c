/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts from outside, printed for people; JSON output.
 */
#include "test.h"
#include "cmd/internal.h"

static void check_printed(struct str in, const char *want)
{
	char *out = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&out, &size);

	print_text(f, in);
	fclose(f);
	assert_string_equal(out, want);
	free(out);
}

static void control_characters_are_escaped(void **state)
{
	check_printed(STR("usr/bin/x"), "usr/bin/x");
	check_printed(STR("\033[2Jx\r\n\t\177"), "\\x1b[2Jx\\x0d\\x0a\\x09\\x7f");
	check_printed(STR("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
	/* U+009B is a control character of xterm in UTF-8, too; U+202E turns the rest of the line around. */
	check_printed(STR("\xc2\x9b"
			  "31m"),
		      "\\xc2\\x9b31m");
	check_printed(STR("\xe2\x80\xae"
			  "exe"),
		      "\\xe2\\x80\\xaeexe");
	check_printed(STR("\x9b\xff"), "\\x9b\xff");
	check_printed((struct str){ 0 }, "");
}

/* Bytes of a file name that are not UTF-8 become U+FFFD, as in all JSON of lode. */
static void json_takes_any_bytes(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_open_array(&j, NULL);
	json_put_str(&j, NULL, STR("gr\xc3\xbc\xc3\x9f"));
	json_put_str(&j, NULL, STR("a\xffz"));
	json_put_str(&j, NULL, (struct str){ 0 });
	json_close(&j);
	assert_string_equal(buf_cstr(&text),
			    "[\n  \"gr\xc3\xbc\xc3\x9f\",\n  \"a\xef\xbf\xbdz\",\n  \"\"\n]");
}

static void sizes_are_short(void **state)
{
	char b[32];

	assert_string_equal(size_text(0, b), "0 B");
	assert_string_equal(size_text(999, b), "999 B");
	assert_string_equal(size_text(1000, b), "1.0 kB");
	assert_string_equal(size_text(99949, b), "99.9 kB");
	assert_string_equal(size_text(99950, b), "100 kB");
	assert_string_equal(size_text(858200000, b), "858 MB");
	assert_string_equal(size_text(999600, b), "1.0 MB");
	assert_string_equal(size_text(UINT64_MAX, b), "18.4 EB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control_characters_are_escaped),
		cmocka_unit_test(json_takes_any_bytes),
		cmocka_unit_test(sizes_are_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
