/* SPDX-License-Identifier: Apache-2.0 */
/* From a method and a target to a row, over a table of the test's own. */
#include "test.h"

#include "http/route.h"

static bool hidden;

static bool is_there(const struct server *s)
{
	return !hidden;
}

static const struct http_handler any = { 0 }, optional = { .exists = is_there };

enum {
	LIST,
	ONE,
	PUT_ONE,
	TREE,
	LOOSE,
	LOOSE_TREE,
	OPTIONAL,
	PARTIAL,
	SHORT,
	OTHERS,
	CALL,
	CALLS,
	PREFIXED,
	BY_ID,
	BY_ID_TREE
};

#define GO_TEXT     "aTgZ-hE7CkRJl7jJ_WmP/eKx0cVYhN1yq3dUwB5sT/Qz8mPfLr2oHn6iXvGtKc/Yb4uDj9wSe7aZk1xRfNq"
#define BY_BUILD_ID (HTTP_LOOSE_SLASHES | HTTP_FIRST_IS_BUILD_ID)

static const struct http_route table[] = {
	{ HTTP_GET, "/list", .handler = &any, .kind = LIST },
	{ HTTP_GET, "/list/{name}/end", .handler = &any, .kind = ONE },
	{ HTTP_PUT, "/list/{name}/end", .handler = &any, .kind = PUT_ONE },
	{ HTTP_GET, "/tree/{path...}", .handler = &any, .kind = TREE },
	{ HTTP_GET, "/loose/{id}/end", .flags = HTTP_LOOSE_SLASHES, .handler = &any, .kind = LOOSE },
	{ HTTP_GET, "/loose/{id}/tree/{path...}", .flags = HTTP_LOOSE_SLASHES, .handler = &any,
	  .kind = LOOSE_TREE },
	{ HTTP_POST, "/list", .handler = &optional, .kind = OPTIONAL },
	{ HTTP_GET, "/{name}/key-{id}/{name}.x", .handler = &any, .kind = PARTIAL },
	{ HTTP_GET, "/{xx}/{rest}/end", .flags = HTTP_FIRST_IS_TWO, .handler = &any, .kind = SHORT },
	{ HTTP_POST, "/pkg.v1.Service/Call", .handler = &any, .kind = CALL },
	{ HTTP_GET, "/prefixed", .flags = HTTP_PREFIXED, .handler = &any, .kind = PREFIXED },
	{ HTTP_GET, "/ids/{id}/end", .flags = BY_BUILD_ID, .handler = &any, .kind = BY_ID },
	{ HTTP_GET, "/ids/{id}/tree/{path...}", .flags = BY_BUILD_ID, .handler = &any, .kind = BY_ID_TREE },
	{ 0, "/loose/{rest...}", .handler = &any, .kind = OTHERS },
	{ 0, "/{service}/{call...}", .flags = HTTP_CONNECT | HTTP_FIRST_IS_SERVICE, .handler = &any,
	  .kind = CALLS },
	{ 0 },
};

static char path_space[HTTP_TARGET_MAX + 1];

static struct http_match match(const char *method, const char *target)
{
	static struct http_routes routes;
	struct http_match m;

	if (!routes.rows)
		http_routes_init(&routes, table, "/before");
	http_match(&routes, (const struct server *)&hidden, method, str_of(target), path_space, &m);
	return m;
}

static void a_target_leads_to_its_row(void **state)
{
	static const struct {
		const char *target;
		unsigned kind;
		const char *parts[2];
	} cases[] = {
		{ "/list", LIST, { "", "" } },
		{ "//list", LIST, { "", "" } },
		{ "/%6cist", LIST, { "", "" } },
		{ "http://host/list", LIST, { "", "" } },
		{ "HTTPS://[::1]:8002//list", LIST, { "", "" } },
		{ "/list/a/end", ONE, { "a", "" } },
		{ "/list%2fa%2fend", ONE, { "a", "" } },
		{ "/tree/", TREE, { "/", "" } },
		{ "/tree//x", TREE, { "//x", "" } },
		{ "/loose/7/end", LOOSE, { "7", "" } },
		{ "/loose//7///end//", LOOSE, { "7", "" } },
		{ "/loose/7/tree", LOOSE_TREE, { "7", "" } },
		{ "/loose/7/tree//a/b", LOOSE_TREE, { "7", "//a/b" } },
		{ "/a/key-7/b.x", PARTIAL, { "a", "7" } },
		{ "/ab/c/end", SHORT, { "ab", "c" } },
		{ "/loose/7/ending", OTHERS, { "/7/ending", "" } },
		{ "/loose/", OTHERS, { "/", "" } },
		{ "/pkg.v1.Service/Other", CALLS, { "pkg.v1.Service", "/Other" } },
		{ "/pkg.v1.Service/Upload/0aff", CALLS, { "pkg.v1.Service", "/Upload/0aff" } },
		{ "/p.S/", CALLS, { "p.S", "/" } },
		{ "/ids/00ff/end", BY_ID, { "00ff", "" } },
		{ "/ids/x/end", BY_ID, { "x", "" } },
		{ "/ids/" GO_TEXT "/end", BY_ID, { GO_TEXT, "" } },
		{ "/ids//" GO_TEXT "/end/", BY_ID, { GO_TEXT, "" } },
		{ "/ids/zaaaaaaaaaaaaaaaaaaa%2fbbbbbbbbbbbbbbbb/end",
		  BY_ID,
		  { "zaaaaaaaaaaaaaaaaaaa/bbbbbbbbbbbbbbbb", "" } },
		{ "/ids/" GO_TEXT "/tree/end", BY_ID_TREE, { GO_TEXT, "/end" } },
		{ "/ids/" GO_TEXT "/tree/x/tree/y", BY_ID_TREE, { GO_TEXT, "/x/tree/y" } },
		{ "/ids/zaaaaaaaaaaaaaaaaaaa/bbbbbbbbbbbbbbbb/tree/end",
		  BY_ID_TREE,
		  { "zaaaaaaaaaaaaaaaaaaa/bbbbbbbbbbbbbbbb", "/end" } },
		{ "/ids/00ff/tree/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/tree/x",
		  BY_ID_TREE,
		  { "00ff", "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/tree/x" } },
		{ "/before/prefixed", PREFIXED, { "", "" } },
		{ "/prefixed", PREFIXED, { "", "" } },
		{ "/before/p.S/x", CALLS, { "p.S", "/x" } },
		{ "/before/key-7/b.x", PARTIAL, { "before", "7" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_match m = match("GET", cases[i].target);

		if (m.status || m.route->kind != cases[i].kind)
			fail_msg("%s: %u", cases[i].target, m.status);
		assert_str(m.parts[0], cases[i].parts[0]);
		assert_str(m.parts[1], cases[i].parts[1]);
	}
}

static void paths_without_a_row_are_not_found(void **state)
{
	static const char *const targets[] = { "",
					       "x",
					       "/",
					       "/list/",
					       "/list//end",
					       "/list/a/b/end",
					       "/tree",
					       "/loose",
					       "/a/b/end",
					       "/abc/d/end",
					       "/a/key-/b.x",
					       "/a/key-7/.x",
					       "/a/ke/b.x",
					       "/a/key-7/x",
					       "/ids/a/b/end",
					       "/ids/" GO_TEXT,
					       "/ids/" GO_TEXT "/other",
					       "/ids/" GO_TEXT "xyz/end",
					       "ftp://host/list",
					       "/pkg.v1.Service",
					       "/Service/Call",
					       "/before/list",
					       "/before/before/prefixed",
					       "/beforeprefixed",
					       "/before",
					       "/.Service/Call",
					       "/pkg./Call",
					       "/libc.so/Call",
					       "/a-b.Service/Call",
					       "/.build-id/ab",
					       "http%3A//host/list" };

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		assert_int_equal(match("GET", targets[i]).status, 404);
		assert_int_equal(match("BREW", targets[i]).status, 404);
	}
}

static void another_method_is_refused_with_those_of_the_path(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct http_match m = match("DELETE", "/list/a/end");

	assert_int_equal(m.status, 405);
	assert_int_equal(m.allow, HTTP_GET | HTTP_PUT);
	http_methods_print(m.allow, true, &b);
	assert_string_equal(buf_cstr(&b), "GET, HEAD, PUT, OPTIONS");
	assert_int_equal(match("get", "/list").status, 405);
	assert_int_equal(match("HEAD", "/list").route->kind, LIST);
	assert_int_equal(match("PUT", "/list/a/end").route->kind, PUT_ONE);
	assert_int_equal(match("GET", "/pkg.v1.Service/Call").status, 405);
	assert_int_equal(match("POST", "/before/prefixed").allow, HTTP_GET);
	/* The row for other paths takes no part in that. */
	assert_int_equal(match("PUT", "/loose/7/end").status, 405);
	assert_int_equal(match("PUT", "/loose/7/x").route->kind, OTHERS);
}

static void a_row_that_does_not_exist_is_skipped(void **state)
{
	assert_int_equal(match("POST", "/list").route->kind, OPTIONAL);
	hidden = true;
	assert_int_equal(match("POST", "/list").status, 405);
	assert_int_equal(match("POST", "/list").allow, HTTP_GET);
	hidden = false;
}

static void broken_escapes_and_long_targets_are_refused(void **state)
{
	static char longest[HTTP_TARGET_MAX + 2];

	assert_int_equal(match("GET", "/list%").status, 400);
	assert_int_equal(match("GET", "/list%4").status, 400);
	assert_int_equal(match("GET", "/list%4g").status, 400);
	assert_int_equal(match("GET", "/list%-1").status, 400);
	assert_int_equal(match("PUT", "/a%00b").status, 400);
	memset(longest, 'x', HTTP_TARGET_MAX);
	memcpy(longest, "/tree/", 6);
	assert_int_equal(match("GET", longest).status, 0);
	longest[HTTP_TARGET_MAX] = 'x';
	assert_int_equal(match("GET", longest).status, 414);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_target_leads_to_its_row),
		cmocka_unit_test(paths_without_a_row_are_not_found),
		cmocka_unit_test(another_method_is_refused_with_those_of_the_path),
		cmocka_unit_test(a_row_that_does_not_exist_is_skipped),
		cmocka_unit_test(broken_escapes_and_long_targets_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
