/* SPDX-License-Identifier: Apache-2.0 */
#include "maker.h"

#include <fnmatch.h>
#include "index/internal.h"

static bool match(const char *pattern, const char *s)
{
	return index_glob_match(str_of(pattern), str_of(s));
}

static void no_wildcard_stands_for_a_slash(void **state)
{
	assert_true(match("/usr/*/ls", "/usr/bin/ls"));
	assert_false(match("/usr/*", "/usr/bin/ls"));
	assert_false(match("*hello*", "/usr/bin/hello"));
	assert_false(match("/usr?bin", "/usr/bin"));
	assert_false(match("/usr[/]bin", "/usr/bin"));
	assert_false(match("/usr[!a]bin", "/usr/bin"));
	assert_true(match("/usr\\/bin", "/usr/bin"));
	assert_true(match("*", ""));
	assert_false(match("", "a"));
	assert_true(match("", ""));
}

static void brackets(void **state)
{
	assert_true(match("[abc]", "b"));
	assert_true(match("[!abc]", "d"));
	assert_true(match("[^abc]", "d"));
	assert_false(match("[!abc]", "a"));
	assert_true(match("[]a]", "]"));
	assert_true(match("[a-]", "-"));
	assert_true(match("lib[a-z]*.so.[0-9]", "libfoo.so.3"));
	assert_true(match("[[:digit:]x]", "7"));
	assert_false(match("[[:digit:]]", "x"));
	assert_true(match("[\\]]", "]"));
	assert_true(match("[[.a.]-c]", "b"));
	assert_false(match("[c-a]", "b"));
}

static void bytes_are_bytes(void **state)
{
	assert_true(match("\xff?", "\xff\xfe"));
	assert_true(match("[\x80-\xff]", "\xc3"));
	assert_true(index_glob_match((struct str){ "a\0*", 3 }, (struct str){ "a\0b", 3 }));
	assert_false(index_glob_match((struct str){ "a\0b", 3 }, (struct str){ "a", 1 }));
}

static void prefixes(void **state)
{
	assert_str(index_glob_prefix(STR("usr/lib*")), "usr/lib");
	assert_str(index_glob_prefix(STR("*")), "");
	assert_str(index_glob_prefix(STR("usr/[ab]")), "usr/");
	assert_str(index_glob_prefix(STR("a\\*")), "a");
	assert_str(index_glob_prefix(STR("plain")), "plain");
}

/* Patterns and strings of a few bytes, with those that mean something often. */
static void the_same_as_fnmatch(void **state)
{
	static const char alphabet[] = "ab/*?[]-!\\";
	unsigned n_true = 0;

	for (uint64_t i = 0; i < 300000; i++) {
		char pattern[9], s[7];
		uint8_t random[16];
		size_t n_pattern, n_s;
		bool open;

		test_fill(random, sizeof(random), i);
		n_pattern = random[0] % 9;
		n_s = random[1] % 7;
		for (size_t k = 0; k < n_pattern; k++)
			pattern[k] = alphabet[random[2 + k] % (sizeof(alphabet) - 1)];
		for (size_t k = 0; k < n_s; k++)
			s[k] = alphabet[(random[10 + k % 6] >> (k / 6)) % 4];
		pattern[n_pattern] = s[n_s] = '\0';
		/* The C library does not take an escaped slash behind a star for one. A "[" that is never
		 * closed, or not before a slash, is told differently by every library. */
		open = strchr(pattern, '[') != NULL &&
		       (strchr(strchr(pattern, '['), '/') || !strchr(strchr(pattern, '['), ']') ||
			strchr(strchr(pattern, '[') + 1, '[') || strchr(pattern, '\\'));
		if (open || strstr(pattern, "\\/"))
			continue;
		if (match(pattern, s) != (fnmatch(pattern, s, FNM_PATHNAME) == 0))
			fail_msg("\"%s\" and \"%s\": %d, fnmatch says otherwise", pattern, s,
				 match(pattern, s));
		n_true += match(pattern, s);
	}
	assert_true(n_true > 1000);
}

static void many_stars_take_no_more_time(void **state)
{
	char pattern[INDEX_GLOB_MAX], s[60000];

	for (size_t i = 0; i + 1 < sizeof(pattern); i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[sizeof(pattern) - 1] = 'b';
	memset(s, 'a', sizeof(s));
	assert_false(
		index_glob_match((struct str){ pattern, sizeof(pattern) }, (struct str){ s, sizeof(s) }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_wildcard_stands_for_a_slash),
		cmocka_unit_test(brackets),
		cmocka_unit_test(bytes_are_bytes),
		cmocka_unit_test(prefixes),
		cmocka_unit_test(the_same_as_fnmatch),
		cmocka_unit_test(many_stars_take_no_more_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
