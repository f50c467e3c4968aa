/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which redirects are followed, and which paths are requested.
 */
#include "test.h"

#include "net/internal.h"

static void addresses_are_private_or_public(void **state)
{
	static const char *const private[] = {
		"127.0.0.1",
		"127.9.9.9",
		"10.0.0.1",
		"172.16.0.1",
		"172.31.255.255",
		"192.168.1.1",
		"169.254.169.254",
		"0.0.0.0",
		"100.64.0.1",
		"224.0.0.1",
		"255.255.255.255",
		"::1",
		"::",
		"fe80::1",
		"fe80::1%eth0",
		"fd00::1",
		"fc00::1",
		"ff02::1",
		"::ffff:127.0.0.1",
		"::ffff:10.0.0.1",
		"::127.0.0.1",
		"64:ff9b::7f00:1",
		"2002:7f00:1::",
		"",
		"example.org",
		"198.18.0.1",
	};
	static const char *const public[] = { "1.1.1.1",        "8.8.8.8",     "172.15.0.1",   "172.32.0.1",
					      "100.128.0.1",    "192.169.0.1", "2001:db8::1",  "2a00:1450::1",
					      "::ffff:8.8.8.8", "128.0.0.1",   "9.255.255.255" };

	for (size_t i = 0; i < ARRAY_SIZE(private); i++)
		if (!address_is_private(private[i]))
			fail_msg("%s is private", private[i]);
	for (size_t i = 0; i < ARRAY_SIZE(public); i++)
		if (address_is_private(public[i]))
			fail_msg("%s is public", public[i]);
}

static void redirects_stay_with_the_host(void **state)
{
	const struct origin http = { "http", "a", 80 }, https = { "https", "a", 443 },
			    other = { "https", "b", 443 }, high = { "http", "a", 8002 },
			    high_tls = { "https", "a", 8443 }, upper = { "HTTP", "A", 80 },
			    file = { "file", "", 0 };

	assert_null(redirect_fault(NET_REDIRECT_SAME_HOST, &http, &http));
	assert_null(redirect_fault(NET_REDIRECT_SAME_HOST, &http, &upper));
	assert_null(redirect_fault(NET_REDIRECT_SAME_HOST, &http, &https));
	assert_null(redirect_fault(NET_REDIRECT_ANY_HOST, &http, &other));
	assert_null(redirect_fault(NET_REDIRECT_ANY_HOST, &http, &high));
	assert_non_null(strstr(redirect_fault(NET_REDIRECT_SAME_HOST, &https, &other), "another host"));
	assert_non_null(strstr(redirect_fault(NET_REDIRECT_SAME_HOST, &http, &high), "another port"));
	assert_non_null(strstr(redirect_fault(NET_REDIRECT_SAME_HOST, &http, &high_tls), "another port"));
	for (enum net_redirects r = NET_REDIRECT_SAME_HOST; r <= NET_REDIRECT_ANY_HOST; r++) {
		assert_non_null(strstr(redirect_fault(r, &https, &http), "from https to http"));
		assert_non_null(strstr(redirect_fault(r, &http, &file), "scheme"));
	}
}

static void paths_stay_inside(void **state)
{
	static const char *const inside[] = { "",          "buildid/ab/debuginfo",
					      "a/...",     "a/..b/b..",
					      "a/%2e%2ec", "./a",
					      "%",         "a%2",
					      "100%25",    "a/%zz/..c",
					      "a;b/c",     "%25252e" };
	static const char *const outside[] = { "..",           "a/..",       "a/../b",     "a/%2e%2e/b",
					       "a/.%2E/b",     "a%2f..%2fb", "a%2f%2e%2e", "a/%252e%252e/b",
					       "a/%25252e./b", "a\\..\\b",   "a%5c..%5cb", "a/..;x/b",
					       "a/..%3bx=1/b", "a/%00",      "a%2500",     "../a" };

	for (size_t i = 0; i < ARRAY_SIZE(inside); i++)
		if (!net_path_is_inside(str_of(inside[i])))
			fail_msg("%s is inside", inside[i]);
	for (size_t i = 0; i < ARRAY_SIZE(outside); i++)
		if (net_path_is_inside(str_of(outside[i])))
			fail_msg("%s is outside", outside[i]);
}

static void a_path_that_is_escaped_a_million_times_is_judged_at_once(void **state)
{
	AUTO(buf_done) struct buf path = { 0 };

	buf_add_char(&path, '%');
	for (size_t i = 0; i < 1000000; i++)
		buf_add_str(&path, STR("25"));
	assert_true(net_path_is_inside(buf_str(&path)));
	buf_add_str(&path, STR("2e%2E"));
	assert_false(net_path_is_inside(buf_str(&path)));
}

static void sources_are_requested_by_canonical_path(void **state)
{
	static const char *const pairs[][2] = {
		{ "/usr/src/a.c", "usr/src/a.c" },     { "//usr//src/./x/../a.c", "usr/src/a.c" },
		{ "/../../etc/shadow", "etc/shadow" }, { "../../etc/shadow", "etc/shadow" },
		{ "src/a b+c.c", "src/a%20b%2Bc.c" },  { "/a/100%.c", "a/100%25.c" },
		{ "/a/..b/...", "a/..b/..." },
	};
	static const char *const never[] = { "", "/", "/..", "/a/%2e%2e/b", "C:\\a\\..\\b.c", "/a/..;/b" };

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		AUTO(buf_done) struct buf out = { 0 };

		assert_true(net_escape_source(&out, str_of(pairs[i][0])));
		assert_str(buf_str(&out), pairs[i][1]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		AUTO(buf_done) struct buf out = { 0 };

		if (net_escape_source(&out, str_of(never[i])))
			fail_msg("%s is requested as %s", never[i], buf_cstr(&out));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_private_or_public),
		cmocka_unit_test(redirects_stay_with_the_host),
		cmocka_unit_test(paths_stay_inside),
		cmocka_unit_test(a_path_that_is_escaped_a_million_times_is_judged_at_once),
		cmocka_unit_test(sources_are_requested_by_canonical_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
