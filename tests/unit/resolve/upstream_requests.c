/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to other servers: which are sent, under which path, with which headers.
 */
#include "servers.h"

static void paths_are_escaped_on_the_way(void **state)
{
	struct resolve_request req = request_of(RESOLVE_SOURCE, ID, "/usr/src/a b/c+d.c");
	const struct fault_rule rule = { .path = "/buildid/" ID "/source/usr/src/a%20b/c%2Bd.c ",
					 .body = bytes_of("int x;", 6) };
	struct servers h = servers_of(rule, rule_none, NULL);

	servers_expect(&h, &req, bytes_of("int x;", 6), RESOLVE_UPSTREAM);
	servers_wait_stored(&h, 1);
	servers_expect(&h, &req, bytes_of("int x;", 6), RESOLVE_STORED);
	servers_done(&h);
}

static void sections_of_a_file_that_is_here_are_not_asked_for(void **state)
{
	struct resolve_request file = request_of(RESOLVE_DEBUGINFO, ID, ""),
			       section = request_of(RESOLVE_SECTION, ID, ".nope");
	struct servers h = servers_of(rule_of(&program), rule_none, NULL);
	struct got g;

	servers_expect(&h, &file, buf_bytes(&program), RESOLVE_UPSTREAM);
	servers_wait_stored(&h, 1);
	servers_ask(&h, &section, &g);
	assert_int_equal(g.r, RESOLVE_MISSING);
	got_done(&g);
	assert_int_equal(fault_http_requests(h.a, NULL), 1);
	servers_done(&h);
}

static void a_request_with_not_further_asks_no_server(void **state)
{
	struct resolve_request req = request_of(RESOLVE_DEBUGINFO, ID, "");
	struct servers h = servers_of(rule_of(&program), rule_none, NULL);
	struct got g;

	req.not_further = "it came from here";
	servers_ask(&h, &req, &g);
	assert_int_equal(g.r, RESOLVE_MISSING);
	assert_string_equal(got_why(&g, "other servers"), "it came from here");
	assert_int_equal(g.why.reason, RESOLVE_NOT_HERE);
	got_done(&g);
	assert_int_equal(fault_http_requests(h.a, NULL), 0);
	servers_done(&h);
}

static void headers_are_passed_on(void **state)
{
	struct resolve_request req = request_of(RESOLVE_DEBUGINFO, ID, "");
	struct servers h = servers_of(rule_of(&program), rule_none, NULL);

	req.forwarded_for = STR("10.1.1.1, 10.2.2.2");
	req.via = STR("1.1 lode-7");
	req.user_agent = STR("gdb/13");
	servers_expect(&h, &req, buf_bytes(&program), RESOLVE_UPSTREAM);
	assert_non_null(strstr(fault_http_head(h.a, 0), "X-Forwarded-For: 10.1.1.1, 10.2.2.2\r\n"));
	assert_non_null(strstr(fault_http_head(h.a, 0), "Via: 1.1 lode-7\r\n"));
	assert_non_null(strstr(fault_http_head(h.a, 0), "User-Agent: gdb/13\r\n"));
	servers_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_escaped_on_the_way),
		cmocka_unit_test(sections_of_a_file_that_is_here_are_not_asked_for),
		cmocka_unit_test(a_request_with_not_further_asks_no_server),
		cmocka_unit_test(headers_are_passed_on),
	};

	return cmocka_run_group_tests(tests, servers_make_files, servers_free_files);
}
