/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to servers that behave: files in the cache and their names, batches, sections, metadata, the
 * environment.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>

static struct fault_rule rule(const char *path, struct bytes body)
{
	return (struct fault_rule){ .path = path, .body = body };
}

static void an_artifact_is_fetched_once_and_kept_as_others_keep_it(void **state)
{
	struct fixture h;
	struct fault_rule r = rule("/buildid/" ID_A "/debuginfo", (struct bytes){ 0 });
	struct fault_http *s;
	struct client_result got;
	struct stat st;

	fixture_open(&h);
	r.body = buf_bytes(&h.debug);
	r.headers = "X-DEBUGINFOD-FILE: a.debug\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
	s = fault_http_new(&r, 1);
	fixture_ask(&h, fault_http_url(s));
	got = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_false(got.cached);
	assert_non_null(strstr(got.url, "/buildid/" ID_A "/debuginfo"));
	assert_string_equal(got.headers, "X-DEBUGINFOD-FILE: a.debug\n");
	assert_found(&got, buf_bytes(&h.debug));
	{
		AUTO(mem_freep)
		char *path = fixture_path(&h, ID_A "/debuginfo"), *dir = fixture_path(&h, ID_A),
		     *hdr = fixture_path(&h, ID_A "/hdr-debuginfo");

		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0400);
		assert_int_equal(st.st_mtime, 784111777);
		assert_int_equal(stat(dir, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0700);
		assert_int_equal(stat(hdr, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
		assert_int_equal(st.st_size, strlen("X-DEBUGINFOD-FILE: a.debug\n") + 1);
	}
	got = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_true(got.cached);
	assert_string_equal(got.headers, "X-DEBUGINFOD-FILE: a.debug\n");
	assert_found(&got, buf_bytes(&h.debug));
	assert_int_equal(fault_http_requests(s, NULL), 1);
	assert_tidy(&h);
	fault_http_free(s);
	fixture_close(&h);
}

static void a_miss_of_all_servers_is_cached(void **state)
{
	struct fixture h;
	struct fault_http *s;
	struct client_result got;

	fixture_open(&h);
	s = fault_http_new(NULL, 0);
	fixture_ask(&h, fault_http_url(s));
	for (int i = 0; i < 2; i++) {
		got = fixture_find(&h, CLIENT_SOURCE, ID_A, "/a.c");
		assert_int_equal(got.outcome, CLIENT_ABSENT);
		assert_int_equal(got.os, ENOENT);
		client_result_done(&got);
	}
	assert_int_equal(fault_http_requests(s, NULL), 1);
	assert_int_equal(fixture_size(&h, ID_A "/source##a.c"), 0);
	assert_tidy(&h);
	fault_http_free(s);
	fixture_close(&h);
}

static void many_are_fetched_at_once_and_the_same_one_once(void **state)
{
	enum { N = 60 };
	struct fixture h;
	struct fault_http *s;
	struct fault_rule r = rule("/buildid/" ID_A "/source/", bytes_of("int x;\n", 7));
	struct client_request wants[N];
	struct client_result results[N];
	char names[N][16];

	fixture_open(&h);
	s = fault_http_new(&r, 1);
	fixture_ask(&h, fault_http_url(s));
	for (unsigned i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "/%u.c", i / 2);
		wants[i] = fixture_want(CLIENT_SOURCE, ID_A, names[i]);
	}
	assert_int_equal(client_find(h.client, wants, N, NULL, results), 0);
	for (unsigned i = 0; i < N; i++)
		assert_found(&results[i], bytes_of("int x;\n", 7));
	assert_int_equal(fault_http_requests(s, NULL), N / 2);
	assert_true(fault_http_connections(s) <= 16);
	assert_tidy(&h);
	fault_http_free(s);
	fixture_close(&h);
}

static void a_section_that_servers_do_not_cut_is_cut_here(void **state)
{
	static const unsigned statuses[] = { 503, 501 };
	struct fixture h;

	fixture_open(&h);
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		struct fault_rule rules[] = {
			{ .path = "/buildid/" ID_A "/section/", .status = statuses[i] },
			{ .path = "/buildid/" ID_A "/debuginfo", .body = buf_bytes(&h.debug) },
			{ .path = "/buildid/" ID_A "/executable", .body = buf_bytes(&h.program) },
		};
		struct fault_http *s = fault_http_new(rules, ARRAY_SIZE(rules));
		struct client_result got;

		snprintf(h.cache, sizeof(h.cache), "%s/cache%zu", h.top, i);
		setenv("DEBUGINFOD_RETRY_LIMIT", "0", 1);
		fixture_ask(&h, fault_http_url(s));
		got = fixture_find(&h, CLIENT_SECTION, ID_A, ".debug_info");
		assert_int_equal(got.outcome, CLIENT_FOUND);
		client_result_done(&got);
		assert_int_equal(fixture_size(&h, ID_A "/debuginfo"), h.debug.size);
		got = fixture_find(&h, CLIENT_SECTION, ID_A, ".text");
		assert_int_equal(got.outcome, CLIENT_FOUND);
		client_result_done(&got);
		assert_int_equal(fixture_size(&h, ID_A "/executable"), h.program.size);
		assert_tidy(&h);
		fault_http_free(s);
	}
	fixture_close(&h);
}

static void names_are_escaped_in_urls(void **state)
{
	struct fixture h;
	struct fault_http *s;
	struct fault_rule r = rule("/buildid/" ID_A "/source/p%2B%2Br%24%23/o%5E.c ", bytes_of("x", 1));
	struct client_result got;

	fixture_open(&h);
	s = fault_http_new(&r, 1);
	fixture_ask(&h, fault_http_url(s));
	got = fixture_find(&h, CLIENT_SOURCE, ID_A, "/p++r$#/o^.c");
	assert_found(&got, bytes_of("x", 1));
	fault_http_free(s);
	fixture_close(&h);
}

static void headers_of_file_and_caller_are_sent(void **state)
{
	struct fixture h;
	struct fault_http *s;
	struct client_result got;
	struct err err = { 0 };
	char path[TEST_PATH_SIZE + 32];
	static const char text[] = "X-From-File: 1\nno header\n\n  X-Trimmed: 2\r\n";

	fixture_open(&h);
	snprintf(path, sizeof(path), "%s/headers", h.top);
	test_file_write(path, text, sizeof(text) - 1);
	setenv("DEBUGINFOD_HEADERS_FILE", path, 1);
	s = fault_http_new(NULL, 0);
	fixture_ask(&h, fault_http_url(s));
	assert_done(client_add_header(h.client, "X-Once: 3", &err));
	assert_fails(client_add_header(h.client, "nonsense", &err), ERR_INVALID, "not a header");
	assert_fails(client_add_header(h.client, "A: b\r\nC: d", &err), ERR_INVALID, "not a header");
	got = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	client_result_done(&got);
	got = fixture_find(&h, CLIENT_DEBUGINFO, ID_B, NULL);
	client_result_done(&got);
	assert_non_null(strstr(fault_http_head(s, 0), "X-From-File: 1\r\n"));
	assert_non_null(strstr(fault_http_head(s, 0), "X-Trimmed: 2\r\n"));
	assert_non_null(strstr(fault_http_head(s, 0), "X-Once: 3\r\n"));
	assert_non_null(strstr(fault_http_head(s, 0), "User-Agent: lode/"));
	assert_null(strstr(fault_http_head(s, 1), "X-Once"));
	unsetenv("DEBUGINFOD_HEADERS_FILE");
	fault_http_free(s);
	fixture_close(&h);
}

static void the_environment_is_read_anew_by_each_call(void **state)
{
	struct fixture h;
	struct fault_http *s;
	struct fault_rule r = rule("/buildid/" ID_A "/source/a.c", bytes_of("x", 1));
	struct client_result got;

	fixture_open(&h);
	s = fault_http_new(&r, 1);
	setenv("DEBUGINFOD_CACHE_PATH", h.cache, 1);
	h.client = client_new(NULL);
	got = fixture_find(&h, CLIENT_SOURCE, ID_A, "/a.c");
	assert_int_equal(got.os, ENOSYS);
	client_result_done(&got);
	setenv("DEBUGINFOD_URLS", fault_http_url(s), 1);
	got = fixture_find(&h, CLIENT_SOURCE, ID_A, "/a.c");
	assert_found(&got, bytes_of("x", 1));
	unsetenv("DEBUGINFOD_URLS");
	unsetenv("DEBUGINFOD_CACHE_PATH");
	fault_http_free(s);
	fixture_close(&h);
}

static void metadata_of_all_servers_is_put_together(void **state)
{
	static const char one[] = "{\"results\":[{\"type\":\"debuginfo\",\"buildid\":\"aa\",\"file\":\"\\/"
				  "x\"}],\"complete\":true}";
	static const char two[] = "{\"results\":[{\"type\":\"executable\",\"buildid\":\"bb\",\"file\":\"/"
				  "y\"}],\"complete\":true}";
	struct fixture h;
	struct fault_rule r1 = rule("/metadata?key=glob&value=%2Fusr%2F%2A ", bytes_of(one, sizeof(one) - 1));
	struct fault_rule r2 = rule("/metadata", bytes_of(two, sizeof(two) - 1));
	struct fault_rule bad = rule("/metadata", bytes_of("<html>", 6));
	struct fault_http *s1, *s2;
	struct client_result got;
	AUTO(buf_done) struct buf text = { 0 };
	char urls[256];
	struct err err = { 0 };

	fixture_open(&h);
	s1 = fault_http_new(&r1, 1);
	s2 = fault_http_new(&r2, 1);
	snprintf(urls, sizeof(urls), "%s %s", fault_http_url(s1), fault_http_url(s2));
	fixture_ask(&h, urls);
	for (int i = 0; i < 2; i++) {
		client_metadata(h.client, "glob", "/usr/*", NULL, &got);
		assert_int_equal(got.outcome, CLIENT_FOUND);
		assert_int_equal(got.cached, i == 1);
		assert_done(file_read(got.path, MIB(1), &text, &err));
		assert_non_null(strstr(buf_cstr(&text), "\"aa\""));
		assert_non_null(strstr(buf_cstr(&text), "\"bb\""));
		assert_non_null(strstr(buf_cstr(&text), "\"complete\": true"));
		client_result_done(&got);
	}
	assert_int_equal(fault_http_requests(s1, NULL), 1);
	assert_true(fixture_size(&h, "metadata/glob_%2Fusr%2F%2A") > 0);
	/* An incomplete answer is marked as incomplete, and not cached. */
	fault_http_rules(s2, &bad, 1);
	for (unsigned i = 0; i < 2; i++) {
		client_metadata(h.client, "file", "/usr/x", NULL, &got);
		assert_int_equal(got.outcome, CLIENT_FOUND);
		assert_false(got.cached);
		assert_done(file_read(got.path, MIB(1), &text, &err));
		assert_non_null(strstr(buf_cstr(&text), "\"complete\": false"));
		client_result_done(&got);
	}
	assert_tidy(&h);
	fault_http_free(s1);
	fault_http_free(s2);
	fixture_close(&h);
}

static void said_line(void *arg, const char *line)
{
	buf_printf(arg, "%s\n", line);
}

static void each_url_is_asked_once(void **state)
{
	struct fixture h;
	struct fault_http *s;
	AUTO(buf_done) struct buf said = { 0 };
	struct client_watch watch = { .arg = &said, .say = said_line };
	struct client_request w = fixture_want(CLIENT_DEBUGINFO, ID_A, NULL);
	struct client_result got;
	char urls[256];

	fixture_open(&h);
	s = fault_http_new(NULL, 0);
	snprintf(urls, sizeof(urls), "%s %s/  %s", fault_http_url(s), fault_http_url(s),
		 fault_http_url(s) + 7);
	fixture_ask(&h, urls);
	client_find(h.client, &w, 1, &watch, &got);
	assert_int_equal(got.outcome, CLIENT_ABSENT);
	client_result_done(&got);
	assert_int_equal(fault_http_requests(s, NULL), 1);
	assert_non_null(strstr(buf_cstr(&said), "duplicate url: http"));
	fault_http_free(s);
	fixture_close(&h);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_artifact_is_fetched_once_and_kept_as_others_keep_it),
		cmocka_unit_test(a_miss_of_all_servers_is_cached),
		cmocka_unit_test(many_are_fetched_at_once_and_the_same_one_once),
		cmocka_unit_test(a_section_that_servers_do_not_cut_is_cut_here),
		cmocka_unit_test(names_are_escaped_in_urls),
		cmocka_unit_test(headers_of_file_and_caller_are_sent),
		cmocka_unit_test(the_environment_is_read_anew_by_each_call),
		cmocka_unit_test(metadata_of_all_servers_is_put_together),
		cmocka_unit_test(each_url_is_asked_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
