/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "server/route.h"

static char room[ROUTE_URL_MAX + 1];
static struct route route;
static const char *why;

static int parse(const char *url)
{
	why = NULL;
	return route_parse(str_of(url), room, &route, &why);
}

static void paths_lead_to_routes(void **state)
{
	static const struct {
		const char *path;
		enum route_kind kind;
	} cases[] = {
		{ "/", ROUTE_PAGE },
		{ "/metadata", ROUTE_METADATA },
		{ "/metrics", ROUTE_METRICS },
		{ "/healthz", ROUTE_HEALTHZ },
		{ "/readyz", ROUTE_READYZ },
		{ "/api/status", ROUTE_STATUS },
		{ "/api/failures", ROUTE_FAILURES },
		{ "//metrics", ROUTE_METRICS },
		{ "/web/app.js", ROUTE_PAGE },
		{ "///", ROUTE_PAGE },
		{ "/%6detrics", ROUTE_METRICS },
		{ "http://example.com/metrics", ROUTE_METRICS },
		{ "HTTPS://[::1]:8002//metrics", ROUTE_METRICS },
		{ "http://example.com", ROUTE_PAGE },
		{ "http://", ROUTE_PAGE },
		{ "http:///", ROUTE_PAGE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (parse(cases[i].path) != 0 || route.kind != cases[i].kind)
			fail_msg("%s", cases[i].path);
	}
	assert_int_equal(parse("/web/app.js"), 0);
	assert_str(route.file, "app.js");
}

static void artifacts_are_named_by_build_id(void **state)
{
	static const struct {
		const char *path;
		enum resolve_kind kind;
		const char *arg;
	} cases[] = {
		{ "/buildid/0aff/debuginfo", RESOLVE_DEBUGINFO, "" },
		{ "/buildid/0aff/debuginfo/", RESOLVE_DEBUGINFO, "" },
		{ "/buildid/0aff/executable", RESOLVE_EXECUTABLE, "" },
		{ "//buildid//0aff//executable", RESOLVE_EXECUTABLE, "" },
		{ "/buildid/0aff%2Fdebuginfo", RESOLVE_DEBUGINFO, "" },
		{ "/buildid/0aff/source/usr/src/a.c", RESOLVE_SOURCE, "/usr/src/a.c" },
		{ "/buildid/0aff/source//usr/src/a.c", RESOLVE_SOURCE, "//usr/src/a.c" },
		{ "/buildid/0aff/source/./a%20b%2Bc.c", RESOLVE_SOURCE, "/./a b+c.c" },
		{ "/buildid/0aff/source%2Fusr%2fa.c", RESOLVE_SOURCE, "/usr/a.c" },
		{ "/buildid/0aff/source/%ff%c3", RESOLVE_SOURCE, "/\xff\xc3" },
		{ "/buildid/0aff/section/.debug_line", RESOLVE_SECTION, ".debug_line" },
		{ "/buildid/0aff/section/%2Etext", RESOLVE_SECTION, ".text" },
		{ "/buildid/0aff/section/a/b", RESOLVE_SECTION, "a/b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = parse(cases[i].path);

		if (r)
			fail_msg("%s: %d %s", cases[i].path, r, why);
		assert_int_equal(route.kind, ROUTE_ARTIFACT);
		assert_int_equal(route.resolve.kind, cases[i].kind);
		assert_int_equal(route.resolve.id.size, 2);
		assert_str(route.resolve.arg, cases[i].arg);
	}
}

static void what_is_wrong_is_refused_and_said(void **state)
{
	static const struct {
		const char *path;
		int status;
		const char *why;
	} cases[] = {
		{ "", 404, "no such path" },
		{ "nothing", 404, "no such path" },
		{ "/nothing", 404, "no such path" },
		{ "http:/metrics", 404, "no such path" },
		{ "ftp://example.com/metrics", 404, "no such path" },
		{ "http%3A//example.com/metrics", 404, "no such path" },
		{ "/buildid", 404, "no such path" },
		{ "/metrics/", 404, "no such path" },
		{ "/buildid/", 400, "bad build ID" },
		{ "/buildid/0AFF/debuginfo", 400, "bad build ID" },
		{ "/buildid/0af/debuginfo", 400, "bad build ID" },
		{ "/buildid/xyzw/debuginfo", 400, "bad build ID" },
		{ "/buildid/../etc/passwd", 400, "bad build ID" },
		{ "/buildid/0aff", 404, "after the build ID" },
		{ "/buildid/0aff/", 404, "after the build ID" },
		{ "/buildid/0aff/debug", 404, "after the build ID" },
		{ "/buildid/0aff/debuginfo/x", 404, "nothing may follow" },
		{ "/buildid/0aff/source", 400, "which source" },
		{ "/buildid/0aff/source/", 400, "which source" },
		{ "/buildid/0aff/section/", 400, "which section" },
		{ "/buildid/0aff/source/%", 400, "escape" },
		{ "/buildid/0aff/source/%4", 400, "escape" },
		{ "/buildid/0aff/source/%4g", 400, "escape" },
		{ "/buildid/0aff/source/a%00b", 400, "escape" },
		{ "/buildid/0aff/source/%-1", 400, "escape" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = parse(cases[i].path);

		if (r != cases[i].status || !strstr(why, cases[i].why) || why[strlen(why) - 1] != '\n')
			fail_msg("%s: %d %s", cases[i].path, r, why);
	}
}

static void lengths_have_limits(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_add_str(&b, STR("/buildid/"));
	for (int i = 0; i < BUILD_ID_MAX; i++)
		buf_add_str(&b, STR("0a"));
	buf_add_str(&b, STR("/debuginfo"));
	assert_int_equal(parse(buf_cstr(&b)), 0);
	b.size = 0;
	buf_add_str(&b, STR("/buildid/0a"));
	for (int i = 0; i < BUILD_ID_MAX; i++)
		buf_add_str(&b, STR("0a"));
	buf_add_str(&b, STR("/debuginfo"));
	assert_int_equal(parse(buf_cstr(&b)), 400);
	assert_non_null(strstr(why, "too long"));
	b.size = 0;
	buf_add_str(&b, STR("/buildid/0a/source/"));
	while (b.size < ROUTE_URL_MAX)
		buf_add_char(&b, 'x');
	assert_int_equal(parse(buf_cstr(&b)), 0);
	buf_add_char(&b, 'x');
	assert_int_equal(parse(buf_cstr(&b)), 414);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_lead_to_routes),
		cmocka_unit_test(artifacts_are_named_by_build_id),
		cmocka_unit_test(what_is_wrong_is_refused_and_said),
		cmocka_unit_test(lengths_have_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
