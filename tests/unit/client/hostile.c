/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that fail and lie. In every case wrong files are not kept, good ones are found, and only 404 and
 * 410 mean absent.
 */
#include "fixture.h"

#include <errno.h>
#include <sys/statvfs.h>

#define PATH_A "/buildid/" ID_A "/debuginfo"

static char html[] =
	"<!DOCTYPE html>\n<html><head><title>Sign in to the network</title></head><body>...</body></html>";

/* The disk of these tests: 1 GiB of it is free. */
int statvfs(const char *path, struct statvfs *ret)
{
	*ret = (struct statvfs){ .f_frsize = MIB(1), .f_bavail = 1024 };
	return 0;
}

/* One misbehaving server; nothing may be found, and nothing cached. */
static struct client_result ask_bad(struct fixture *h, struct fault_rule r, enum client_kind kind,
				    const char *name)
{
	struct fault_http *s = fault_http_new(&r, 1);
	struct client_result got;

	fixture_ask(h, fault_http_url(s));
	got = fixture_find(h, kind, ID_A, name);
	fault_http_free(s);
	assert_int_equal(got.outcome, CLIENT_FAILED);
	assert_true(got.os != 0 && got.os != ENOENT);
	assert_true(got.err.text[0] != '\0');
	assert_null(got.path);
	assert_int_equal(fixture_size(h, ID_A), -1); /* no folder: no file, no negative entry */
	assert_tidy(h);
	return got;
}

static void a_wrong_file_is_neither_kept_nor_counted_as_absent(void **state)
{
	struct fixture h;
	AUTO(buf_done) struct buf cut = { 0 }, page = { 0 };

	fixture_open(&h);
	buf_add(&cut, h.debug.p, h.debug.size / 2);
	buf_add(&page, html, sizeof(html) - 1);
	{
		const struct {
			struct fault_rule rule;
			const char *why;
		} rows[] = {
			{ { .status = 503 }, "503" },
			{ { .status = 500 }, "500" },
			{ { .status = 429 }, "429" },
			{ { .status = 403 }, "403" },
			{ { .body = buf_bytes(&page) }, "HTML" },
			{ { .body = bytes_of("hello", 5) }, "not an ELF file" },
			{ { .body = bytes_of("", 0) }, "empty" },
			{ { .body = buf_bytes(&h.other) }, "another build ID" },
			{ { .body = buf_bytes(&cut) }, "cut short" },
			{ { .body = buf_bytes(&h.debug), .fault = FAULT_CUT, .at = 1000 }, NULL },
			{ { .body = buf_bytes(&h.debug), .fault = FAULT_CUT, .at = 1000, .chunked = true },
			  NULL },
			{ { .body = buf_bytes(&h.debug), .fault = FAULT_RESET, .at = 5000 }, NULL },
			{ { .body = buf_bytes(&h.debug), .length = 1000000 }, NULL },
			{ { .fault = FAULT_HANG_UP }, NULL },
			{ { .fault = FAULT_NOT_HTTP }, NULL },
			{ { .fault = FAULT_LONG_HEAD }, NULL },
			{ { .status = 302, .headers = "Location: " PATH_A "\r\n" }, "redirect" },
		};

		setenv("DEBUGINFOD_RETRY_LIMIT", "0", 1);
		setenv("DEBUGINFOD_TIMEOUT", "1", 1);
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			struct client_result got = ask_bad(&h, rows[i].rule, CLIENT_DEBUGINFO, NULL);

			if (rows[i].why && !strcasestr(buf_cstr(&got.why), rows[i].why) &&
			    !strcasestr(got.err.text, rows[i].why))
				fail_msg("row %zu: %s\n%s", i, got.err.text, buf_cstr(&got.why));
			client_result_done(&got);
		}
		unsetenv("DEBUGINFOD_RETRY_LIMIT");
		unsetenv("DEBUGINFOD_TIMEOUT");
	}
	fixture_close(&h);
}

static void a_page_is_no_source_and_no_section(void **state)
{
	struct fixture h;
	struct fault_rule r = { .body = bytes_of(html, sizeof(html) - 1) };
	struct client_result got;
	struct fault_http *s;

	fixture_open(&h);
	setenv("DEBUGINFOD_RETRY_LIMIT", "0", 1);
	got = ask_bad(&h, r, CLIENT_SOURCE, "/a.c");
	client_result_done(&got);
	got = ask_bad(&h, r, CLIENT_SECTION, ".debug_info");
	client_result_done(&got);
	/* ... unless it is one. */
	s = fault_http_new(&r, 1);
	fixture_ask(&h, fault_http_url(s));
	got = fixture_find(&h, CLIENT_SOURCE, ID_A, "/a.html");
	assert_found(&got, bytes_of(html, sizeof(html) - 1));
	fault_http_free(s);
	unsetenv("DEBUGINFOD_RETRY_LIMIT");
	fixture_close(&h);
}

static void a_section_of_another_size_than_the_debug_file_says_is_not_believed(void **state)
{
	struct fixture h;
	struct fault_rule r = { .path = "/buildid/" ID_A "/section/", .body = bytes_of("short", 5) };
	struct fault_http *s;
	struct client_result got;

	fixture_open(&h);
	setenv("DEBUGINFOD_RETRY_LIMIT", "0", 1);
	fixture_put(&h, ID_A "/debuginfo", buf_bytes(&h.debug));
	s = fault_http_new(&r, 1);
	fixture_ask(&h, fault_http_url(s));
	got = fixture_find(&h, CLIENT_SECTION, ID_A, ".text");
	assert_int_equal(got.outcome, CLIENT_FAILED);
	assert_non_null(strstr(buf_cstr(&got.why), "by the debug file it must have"));
	client_result_done(&got);
	unsetenv("DEBUGINFOD_RETRY_LIMIT");
	fault_http_free(s);
	fixture_close(&h);
}

static void the_next_server_has_it(void **state)
{
	struct fixture h;
	AUTO(buf_done) struct buf page = { 0 };

	fixture_open(&h);
	buf_add(&page, html, sizeof(html) - 1);
	{
		const struct fault_rule rows[] = {
			{ .status = 503 },
			{ .body = buf_bytes(&page) },
			{ .body = buf_bytes(&h.other) },
			{ .body = bytes_of("", 0) },
			{ .body = buf_bytes(&h.debug), .fault = FAULT_CUT, .at = 1000 },
			{ .body = buf_bytes(&h.debug), .fault = FAULT_STALL, .at = 1024 },
			{ .body = buf_bytes(&h.debug), .fault = FAULT_STALL, .at = 100000 },
			{ .fault = FAULT_SILENT },
			{ .fault = FAULT_HANG_UP },
			{ .fault = FAULT_DRIP_HEAD },
			{ .status = 404 },
			/* More than the disk has room for. */
			{ .body = buf_bytes(&h.debug), .length = UINT64_C(8) << 30 },
		};

		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			struct fault_rule good = { .path = PATH_A, .body = buf_bytes(&h.debug) };
			struct fault_http *bad_server = fault_http_new(&rows[i], 1),
					  *good_server = fault_http_new(&good, 1);
			struct client_result got;
			char urls[256];

			snprintf(h.cache, sizeof(h.cache), "%s/cache%zu", h.top, i);
			snprintf(urls, sizeof(urls), "%s %s", fault_http_url(bad_server),
				 fault_http_url(good_server));
			fixture_ask(&h, urls);
			got = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
			assert_found(&got, buf_bytes(&h.debug));
			assert_tidy(&h);
			fault_http_free(bad_server);
			fault_http_free(good_server);
		}
	}
	fixture_close(&h);
}

/* The cache folder cannot be written to, and the spare one has no room for the size that the first server claims. */
static void a_claimed_size_does_not_end_the_search_with_a_spare_folder(void **state)
{
	struct fixture h;
	struct fault_rule claims, good;
	struct fault_http *bad_server, *good_server;
	struct client_result got;
	char urls[256];

	fixture_open(&h);
	test_file_write(h.cache, "a file", 6);
	claims = (struct fault_rule){ .body = buf_bytes(&h.debug), .length = UINT64_C(8) << 30 };
	good = (struct fault_rule){ .path = PATH_A, .body = buf_bytes(&h.debug) };
	bad_server = fault_http_new(&claims, 1);
	good_server = fault_http_new(&good, 1);
	snprintf(urls, sizeof(urls), "%s %s", fault_http_url(bad_server), fault_http_url(good_server));
	fixture_ask(&h, urls);
	got = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_found(&got, buf_bytes(&h.debug));
	fault_http_free(good_server);
	fault_http_free(bad_server);
	fixture_close(&h);
}

static void one_that_is_busy_and_then_good_is_asked_again(void **state)
{
	struct fixture h;
	struct fault_rule rules[] = { { .times = 1, .status = 503 },
				      { .times = 1, .status = 429, .headers = "Retry-After: 1\r\n" },
				      { 0 } };
	struct fault_http *s;
	struct client_result got;

	fixture_open(&h);
	rules[2].body = buf_bytes(&h.debug);
	s = fault_http_new(rules, ARRAY_SIZE(rules));
	fixture_ask(&h, fault_http_url(s));
	got = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_found(&got, buf_bytes(&h.debug));
	fault_http_free(s);
	fixture_close(&h);
}

static void absent_is_what_every_server_says(void **state)
{
	struct fixture h;
	struct fault_rule busy = { .status = 503 }, gone = { .status = 410 };
	struct fault_http *a, *b;
	struct client_result got;
	char urls[256];

	fixture_open(&h);
	setenv("DEBUGINFOD_RETRY_LIMIT", "0", 1);
	a = fault_http_new(&gone, 1);
	b = fault_http_new(&busy, 1);
	snprintf(urls, sizeof(urls), "%s %s", fault_http_url(a), fault_http_url(b));
	fixture_ask(&h, urls);
	got = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_int_equal(got.outcome, CLIENT_FAILED);
	client_result_done(&got);
	assert_int_equal(fixture_size(&h, ID_A "/debuginfo"), -1);
	snprintf(h.cache, sizeof(h.cache), "%s/another", h.top);
	fixture_ask(&h, fault_http_url(a));
	got = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_int_equal(got.outcome, CLIENT_ABSENT);
	client_result_done(&got);
	assert_int_equal(fixture_size(&h, ID_A "/debuginfo"), 0);
	unsetenv("DEBUGINFOD_RETRY_LIMIT");
	fault_http_free(a);
	fault_http_free(b);
	fixture_close(&h);
}

static void dead_servers_cost_little_and_are_remembered(void **state)
{
	struct fixture h;
	struct fault_dead drops, refuses;
	struct fault_rule good = { .path = "/buildid/" ID_A "/source/", .body = bytes_of("x", 1) };
	struct fault_http *s = fault_http_new(&good, 1);
	struct client_request wants[30];
	struct client_result results[30];
	char dead[64], none[64], urls[256], names[30][16];

	fixture_open(&h);
	fault_dead_drops(&drops, dead);
	fault_dead_refuses(&refuses, none);
	snprintf(urls, sizeof(urls), "%s %s %s", dead, none, fault_http_url(s));
	fixture_ask(&h, urls);
	for (unsigned i = 0; i < 30; i++) {
		snprintf(names[i], sizeof(names[i]), "/%u.c", i);
		wants[i] = fixture_want(CLIENT_SOURCE, ID_A, names[i]);
	}
	assert_int_equal(client_find(h.client, wants, 30, NULL, results), 0);
	for (unsigned i = 0; i < 30; i++)
		assert_found(&results[i], bytes_of("x", 1));
	/* The next process knows that the server refused connections. */
	assert_true(fixture_size(&h, "lode_servers") > 0);
	fault_dead_done(&drops);
	fault_dead_done(&refuses);
	fault_http_free(s);
	fixture_close(&h);
}

static void too_large_is_not_fetched(void **state)
{
	struct fixture h;
	struct fault_rule rows[] = { { .status = 406 }, { 0 }, { .fault = FAULT_ENDLESS } };

	fixture_open(&h);
	rows[1].body = rows[2].body = buf_bytes(&h.debug);
	setenv("DEBUGINFOD_MAXSIZE", "100000", 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct client_result got = ask_bad(&h, rows[i], CLIENT_DEBUGINFO, NULL);

		/* An endless body is cut off, and is a failure of the server. */
		assert_true(got.os == EFBIG || (i == 2 && strstr(got.err.text, "more than 100000 bytes")));
		client_result_done(&got);
	}
	unsetenv("DEBUGINFOD_MAXSIZE");
	fixture_close(&h);
}

static void the_deadline_is_for_the_whole(void **state)
{
	struct fixture h;
	struct fault_rule r = { .fault = FAULT_SILENT };
	struct client_result got;

	fixture_open(&h);
	setenv("DEBUGINFOD_MAXTIME", "1", 1);
	got = ask_bad(&h, r, CLIENT_DEBUGINFO, NULL);
	assert_int_equal(got.os, ETIME);
	client_result_done(&got);
	unsetenv("DEBUGINFOD_MAXTIME");
	fixture_close(&h);
}

struct counting {
	unsigned n, stop_at;
};

static int count_down(void *arg, const struct client_progress *p)
{
	struct counting *c = arg;

	return ++c->n >= c->stop_at;
}

static void cancelling_ends_it_and_leaves_nothing(void **state)
{
	struct fixture h;
	const struct fault_rule rows[] = { { .fault = FAULT_SILENT }, { .fault = FAULT_STALL, .at = 1000 } };

	fixture_open(&h);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fault_rule r = rows[i];
		struct fault_http *s;
		struct counting c = { .stop_at = 3 };
		struct client_watch watch = { .arg = &c, .progress = count_down };
		struct client_request w[2] = { fixture_want(CLIENT_SOURCE, ID_A, "/a.c"),
					       fixture_want(CLIENT_SOURCE, ID_B, "/a.c") };
		struct client_result got[2];

		r.body = buf_bytes(&h.debug);
		s = fault_http_new(&r, 1);
		fixture_ask(&h, fault_http_url(s));
		assert_int_equal(client_find(h.client, w, 2, &watch, got), CLIENT_STOPPED);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(got[k].outcome, CLIENT_CANCELLED);
			client_result_done(&got[k]);
		}
		assert_int_equal(c.n, 3);
		assert_int_equal(fixture_size(&h, ID_A), -1);
		assert_tidy(&h);
		fault_http_free(s);
	}
	fixture_close(&h);
}

static void nonsense_in_urls_is_passed_over(void **state)
{
	struct fixture h;
	struct fault_rule good = { .path = PATH_A };
	struct fault_http *s;
	struct client_result got;
	char urls[512];

	fixture_open(&h);
	good.body = buf_bytes(&h.debug);
	s = fault_http_new(&good, 1);
	snprintf(urls, sizeof(urls), " ima:permissive ftp://x/ http:// :::: \x01 http://\xff/ %s ",
		 fault_http_url(s));
	fixture_ask(&h, urls);
	got = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_found(&got, buf_bytes(&h.debug));
	/* A URL that was left out is among the steps. */
	snprintf(urls, sizeof(urls), "ima:enforcing http://signed.example ima:ignore %s", fault_http_url(s));
	fixture_ask(&h, urls);
	got = fixture_find(&h, CLIENT_DEBUGINFO, "cccc22", NULL);
	assert_int_equal(got.outcome, CLIENT_ABSENT);
	assert_non_null(strstr(buf_cstr(&got.why), "http://signed.example: not asked: signatures"));
	client_result_done(&got);
	fixture_ask(&h, "ftp://x/ ::::");
	got = fixture_find(&h, CLIENT_DEBUGINFO, ID_B, NULL);
	assert_int_equal(got.outcome, CLIENT_FAILED);
	assert_int_equal(got.os, EINVAL);
	assert_non_null(strstr(got.err.text, "ftp://x/"));
	client_result_done(&got);
	fault_http_free(s);
	fixture_close(&h);
}

static void invalid_requests_are_refused(void **state)
{
	struct fixture h;
	struct client_request w = fixture_want(CLIENT_SOURCE, ID_A, "");
	struct client_result got;
	AUTO(mem_freep) char *name = mem_alloc(5001);

	fixture_open(&h);
	fixture_ask(&h, "http://127.0.0.1:1");
	for (int i = 0; i < 3; i++) {
		if (i == 1)
			w.name = memset(name, 'x', 5000), name[5000] = '\0';
		if (i == 2)
			w.id.size = 0;
		client_find(h.client, &w, 1, NULL, &got);
		assert_int_equal(got.outcome, CLIENT_FAILED);
		assert_int_equal(got.os, EINVAL);
		client_result_done(&got);
	}
	fixture_close(&h);
}

static void a_source_path_does_not_climb_out_of_the_folder(void **state)
{
	struct fixture h;
	struct fault_rule r = { .body = bytes_of("x", 1) };
	struct fault_http *s = fault_http_new(&r, 1);
	struct client_result got;

	fixture_open(&h);
	fixture_ask(&h, fault_http_url(s));
	got = fixture_find(&h, CLIENT_SOURCE, ID_A, "/../../../../etc/passwd");
	assert_int_equal(got.outcome, CLIENT_FOUND);
	assert_null(strstr(got.path + strlen(h.cache), "/.."));
	assert_non_null(strstr(got.path, ID_A "/source-"));
	client_result_done(&got);
	fault_http_free(s);
	fixture_close(&h);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_file_is_neither_kept_nor_counted_as_absent),
		cmocka_unit_test(a_page_is_no_source_and_no_section),
		cmocka_unit_test(a_section_of_another_size_than_the_debug_file_says_is_not_believed),
		cmocka_unit_test(the_next_server_has_it),
		cmocka_unit_test(a_claimed_size_does_not_end_the_search_with_a_spare_folder),
		cmocka_unit_test(one_that_is_busy_and_then_good_is_asked_again),
		cmocka_unit_test(absent_is_what_every_server_says),
		cmocka_unit_test(dead_servers_cost_little_and_are_remembered),
		cmocka_unit_test(too_large_is_not_fetched),
		cmocka_unit_test(the_deadline_is_for_the_whole),
		cmocka_unit_test(cancelling_ends_it_and_leaves_nothing),
		cmocka_unit_test(nonsense_in_urls_is_passed_over),
		cmocka_unit_test(invalid_requests_are_refused),
		cmocka_unit_test(a_source_path_does_not_climb_out_of_the_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
