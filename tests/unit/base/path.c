/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path text: dot segments, names and folders.
 */
#include "test.h"

static void canonical(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "", "" },
		{ "/", "/" },
		{ "//", "/" },
		{ "/a/b", "/a/b" },
		{ "/a/b/", "/a/b/" },
		{ "//a///b//", "/a/b/" },
		{ "/a/./b/../c", "/a/c" },
		{ "/a/b/c/./../../g", "/a/g" }, /* RFC 3986, 5.2.4 */
		{ "mid/content=5/../6", "mid/6" },
		{ "/a/b/..", "/a/" },
		{ "/a/b/.", "/a/b/" },
		{ "/..", "/" },
		{ "/../../x", "/x" },
		{ "/a/../../../x", "/x" },
		{ ".", "" },
		{ "./x.c", "x.c" },
		{ "a/..", "" },
		{ "a/../..", "" },
		{ "../x", "x" },
		{ "a/../../b", "b" },
		{ "a//../b", "b" },
		{ "/...", "/..." },
		{ "/a/..b/.c/d..", "/a/..b/.c/d.." },
		{ "/a/.../b", "/a/.../b" },
		{ "/usr/src/x/../include/./y.h", "/usr/src/include/y.h" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str in = str_of(cases[i].in);
		char *out = malloc(in.size + 2); /* on the heap, so that the sanitizer sees where it ends */
		size_t n = path_canonical(in, out), again;

		assert_string_equal(out, cases[i].out);
		assert_int_equal(n, strlen(out));
		/* A canonical path stays as it is. */
		again = path_canonical((struct str){ out, n }, out);
		assert_int_equal(again, n);
		assert_string_equal(out, cases[i].out);
		free(out);
	}
}

static void rooted(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "", "/" },
		{ "/", "/" },
		{ "//", "/" },
		{ ".", "/" },
		{ "..", "/" },
		{ "a/..", "/" },
		{ "a/..//b", "/b" },
		{ "x.c", "/x.c" },
		{ "./x.c", "/x.c" },
		{ "../../x.c", "/x.c" },
		{ "/x.c", "/x.c" },
		{ "//x.c", "/x.c" },
		{ "/../x/./y/", "/x/y/" },
		{ "a//b/", "/a/b/" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str in = str_of(cases[i].in);
		char *out = malloc(in.size + 2); /* on the heap, so that the sanitizer sees where it ends */
		size_t n = path_rooted(in, out);

		assert_string_equal(out, cases[i].out);
		assert_int_equal(n, strlen(out));
		free(out);
	}
}

static void basename_and_dirname(void **state)
{
	assert_str(path_basename(STR("/a/b.c")), "b.c");
	assert_str(path_basename(STR("b.c")), "b.c");
	assert_str(path_basename(STR("/a/")), "");
	assert_str(path_basename(STR("")), "");
	assert_str(path_dirname(STR("/a/b.c")), "/a");
	assert_str(path_dirname(STR("/x")), "/");
	assert_str(path_dirname(STR("//x")), "/");
	assert_str(path_dirname(STR("x")), "");
	assert_str(path_dirname(STR("a//b")), "a");
	assert_str(path_dirname(STR("/a/")), "/a");
	assert_str(path_dirname((struct str){ 0 }), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(canonical),
		cmocka_unit_test(rooted),
		cmocka_unit_test(basename_and_dirname),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
