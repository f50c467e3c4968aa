/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP: statuses, headers, methods, ranges.
 */
#include "sample.h"

#include <sys/socket.h>

static void assert_text(struct http_answer a, int status, const char *part)
{
	const char *type = http_answer_header(&a, "Content-Type");

	if (a.status != status || !a.whole || !strstr(buf_cstr(&a.body), part))
		fail_msg("%d %s, not %d %s", a.status, buf_cstr(&a.body), status, part);
	assert_non_null(type);
	assert_non_null(strstr(type, "text/plain"));
	assert_int_equal(a.body.p[a.body.size - 1], '\n');
	assert_null(memchr(a.body.p, '\n', a.body.size - 1));
	http_answer_done(&a);
}

static void a_missing_artifact_is_404_with_the_reason(void **state)
{
	assert_text(sample_get("/buildid/ffff/debuginfo", NULL), 404, "no such build ID");
	assert_text(sample_get("/buildid/" SAMPLE_ID "/section/.text", NULL), 404,
		    "memory: has that build ID, but not this");
	assert_text(sample_get("/nothing", NULL), 404, "no such path");
	assert_text(sample_get("/buildid/" SAMPLE_ID "/nothing", NULL), 404, "after the build ID");
}

static void malformed_requests_are_400(void **state)
{
	assert_text(sample_get("/buildid/ABCD/debuginfo", NULL), 400, "bad build ID");
	assert_text(sample_get("/buildid/abc/debuginfo", NULL), 400, "bad build ID");
	assert_text(sample_get("/buildid/" SAMPLE_ID "/source/%00", NULL), 400, "escape");
	assert_text(sample_get("/metadata", NULL), 400, "key must be");
	assert_text(sample_get("/metadata?key=file", NULL), 400, "no value");
	assert_text(sample_get("/metadata?key=file&value=%z", NULL), 400, "escape");
	assert_text(sample_get("/metadata?key=file&value=x&limit=0", NULL), 400, "limit");
}

static void a_broken_artifact_is_500_with_the_reason(void **state)
{
	assert_text(sample_get("/buildid/beef/debuginfo", NULL), 500,
		    "/srv/pool/secret/a.deb: member x: section table");
}

static void a_failed_disk_is_503_for_that_artifact(void **state)
{
	struct http_answer a = sample_get("/buildid/dead/debuginfo", NULL);

	assert_int_equal(a.status, 503);
	assert_header(&a, "Retry-After", "5");
	assert_header(&a, "X-LODE-UNREADABLE", "1");
	assert_non_null(strstr(buf_cstr(&a.body), "cannot be read now: x.deb: Input/output error"));
	http_answer_done(&a);
	assert_text(sample_get("/buildid/fade/debuginfo", NULL), 500, "Permission denied");
}

static void hide(struct server_options *o)
{
	o->hide_archive = true;
}

static int setup_hidden(void **state)
{
	return sample_setup_with(hide);
}

static void hidden_archives_show_no_folder(void **state)
{
	struct http_answer a = sample_get("/buildid/beef/debuginfo", NULL);

	assert_int_equal(a.status, 500);
	assert_string_equal(
		buf_cstr(&a.body),
		"it is here, but cannot be read: a.deb: member x: section table ends past the file\n");
	http_answer_done(&a);
	a = sample_get(SAMPLE_PATH, NULL);
	assert_header(&a, "X-DEBUGINFOD-ARCHIVE", "x.deb");
	assert_header(&a, "X-DEBUGINFOD-FILE", "/usr/lib/debug/x.debug");
	http_answer_done(&a);
	a = sample_get("/metadata?key=buildid&value=" SAMPLE_ID, NULL);
	assert_non_null(strstr(buf_cstr(&a.body), "\"archive\":\"x.deb\""));
	http_answer_done(&a);
}

static void head_is_get_without_body(void **state)
{
	static const char *const paths[] = { SAMPLE_PATH,
					     "/buildid/" SAMPLE_ID "/executable",
					     "/buildid/ffff/debuginfo",
					     "/metrics",
					     "/healthz",
					     "/",
					     "/nothing",
					     "/metadata?key=file&value=x" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		/* Not known yet, then known. */
		for (int round = 0; round < 2; round++) {
			struct http_answer h = http_fetch(sample.url, "HEAD", paths[i], NULL),
					   a = sample_get(paths[i], NULL);

			assert_int_equal(h.status, a.status);
			assert_true(h.length > 0);
			if (strcmp(paths[i], "/metrics") != 0)
				assert_int_equal(h.length, a.length);
			assert_int_equal(h.body.size, 0);
			http_answer_done(&h);
			http_answer_done(&a);
		}
	}
}

static void head_leaves_the_connection_in_step(void **state)
{
	struct http_answer a;
	struct http_client c;

	http_client_open(&c, sample.url);
	for (int i = 0; i < 4; i++) {
		http_client_ask(&c, "HEAD", i % 2 ? "/buildid/" SAMPLE_ID "/executable" : "/healthz", NULL);
		a = http_client_answer(&c, true);
		assert_int_equal(a.status, 200);
		http_answer_done(&a);
	}
	http_client_ask(&c, "GET", "/buildid/" SAMPLE_ID "/executable", NULL);
	a = http_client_answer(&c, false);
	assert_body(&a, sample_large);
	http_answer_done(&a);
	http_client_close(&c);
}

static void other_methods_are_refused(void **state)
{
	static const char *const methods[] = { "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get" };

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		struct http_answer a = http_fetch(sample.url, methods[i], SAMPLE_PATH,
						  "Content-Length: 0\r\n");

		assert_int_equal(a.status, 405);
		assert_header(&a, "Allow", "GET, HEAD");
		http_answer_done(&a);
	}
}

static void an_unwanted_body_is_refused(void **state)
{
	struct http_answer a;
	struct http_client c;

	http_client_open(&c, sample.url);
	http_client_ask(&c, "POST", "/", "Content-Length: 1000000000\r\n");
	a = http_client_answer(&c, false);
	assert_int_equal(a.status, 405);
	http_answer_done(&a);
	http_client_close(&c);
	/* The body of a GET is ignored, and not waited for: the connection cannot be used again. */
	http_client_open(&c, sample.url);
	http_client_ask(&c, "GET", SAMPLE_PATH, "Content-Length: 5\r\n");
	http_client_send(&c, "xxxxx");
	a = http_client_answer(&c, false);
	assert_body(&a, sample_small);
	assert_header(&a, "Connection", "close");
	http_answer_done(&a);
	http_client_close(&c);
}

static void allow_cors(struct server_options *o)
{
	o->cors = true;
}

static int setup_cors(void **state)
{
	return sample_setup_with(allow_cors);
}

static void pages_of_other_sites_may_send_requests_with_cors(void **state)
{
	struct http_answer a = http_fetch(sample.url, "OPTIONS", SAMPLE_PATH, NULL);

	assert_int_equal(a.status, 204);
	assert_header(&a, "Access-Control-Allow-Origin", "*");
	assert_header(&a, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
	http_answer_done(&a);
	a = sample_get(SAMPLE_PATH, NULL);
	assert_header(&a, "Access-Control-Allow-Origin", "*");
	http_answer_done(&a);
	a = http_fetch(sample.url, "POST", SAMPLE_PATH, NULL);
	assert_header(&a, "Allow", "GET, HEAD, OPTIONS");
	http_answer_done(&a);
}

static void check_parts(const char *path, struct bytes whole)
{
	static const struct {
		const char *range;
		int64_t off, end; /* negative: from the end */
	} parts[] = {
		{ "bytes=0-0", 0, 1 },         { "bytes=5-99", 5, 100 },      { "bytes=500-", 500, 0 },
		{ "bytes=-10", -10, 0 },       { "bytes=-1", -1, 0 },         { "bytes=999-", 999, 0 },
		{ "bytes=0-100000000", 0, 0 }, { "bytes=700-800", 700, 801 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		AUTO(buf_done) struct buf header = { 0 };
		uint64_t off = parts[i].off < 0 ? whole.size + (uint64_t)parts[i].off
						: (uint64_t)parts[i].off;
		uint64_t end = parts[i].end <= 0 ? whole.size : (uint64_t)parts[i].end;
		char range[100];
		struct http_answer a;

		buf_printf(&header, "Range: %s\r\n", parts[i].range);
		a = sample_get(path, buf_cstr(&header));
		assert_int_equal(a.status, 206);
		snprintf(range, sizeof(range), "bytes %llu-%llu/%zu", (unsigned long long)off,
			 (unsigned long long)end - 1, whole.size);
		assert_header(&a, "Content-Range", range);
		assert_body(&a, bytes_of(whole.p + off, (size_t)(end - off)));
		http_answer_done(&a);
	}
}

static void check_conditions(const char *path, struct bytes whole)
{
	AUTO(buf_done) struct buf header = { 0 };
	struct http_answer a = sample_get(path, NULL);
	char etag[64];

	snprintf(etag, sizeof(etag), "%s", http_answer_header(&a, "ETag"));
	http_answer_done(&a);
	buf_printf(&header, "If-None-Match: %s\r\n", etag);
	a = sample_get(path, buf_cstr(&header));
	assert_int_equal(a.status, 304);
	assert_int_equal(a.body.size, 0);
	assert_header(&a, "ETag", etag);
	assert_header(&a, "Cache-Control", "public, max-age=31536000, immutable");
	http_answer_done(&a);
	a = sample_get(path, "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n");
	assert_int_equal(a.status, 304);
	http_answer_done(&a);
	a = sample_get(path, "X-DEBUGINFOD-MAXSIZE: 999\r\n");
	assert_int_equal(a.status, 406);
	http_answer_done(&a);
	a = sample_get(path, "Range: bytes=9999999-\r\n");
	assert_int_equal(a.status, 416);
	http_answer_done(&a);
	header.size = 0;
	buf_printf(&header, "Range: bytes=1-2\r\nIf-Range: %s\r\n", etag);
	a = sample_get(path, buf_cstr(&header));
	assert_int_equal(a.status, 206);
	http_answer_done(&a);
	a = sample_get(path, "Range: bytes=1-2\r\nIf-Range: \"other\"\r\n");
	assert_int_equal(a.status, 200);
	assert_body(&a, whole);
	http_answer_done(&a);
}

static void ranges_and_conditions_are_the_same_for_a_hot_reply(void **state)
{
	for (int round = 0; round < 2; round++) {
		check_parts("/buildid/" SAMPLE_ID "/executable", sample_large);
		check_conditions("/buildid/" SAMPLE_ID "/executable", sample_large);
		check_parts(SAMPLE_PATH, sample_small);
		check_conditions(SAMPLE_PATH, sample_small);
	}
}

static void one_connection_carries_many_requests(void **state)
{
	struct http_answer a;
	struct http_client c;

	http_client_open(&c, sample.url);
	/* All requests are sent at once; the answers come in the same order. */
	for (int i = 0; i < 10; i++)
		http_client_send(
			&c, i % 3 == 0   ? "GET " SAMPLE_PATH " HTTP/1.1\r\nHost: x\r\n\r\n"
			    : i % 3 == 1 ? "GET /buildid/" SAMPLE_ID "/executable HTTP/1.1\r\nHost: x\r\n\r\n"
					 : "GET /buildid/eeee/debuginfo HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int i = 0; i < 10; i++) {
		a = http_client_answer(&c, false);
		assert_int_equal(a.status, i % 3 == 2 ? 404 : 200);
		if (i % 3 != 2)
			assert_body(&a, i % 3 ? sample_large : sample_small);
		http_answer_done(&a);
	}
	http_client_close(&c);
	http_client_open(&c, sample.url);
	http_client_ask(&c, "GET", SAMPLE_PATH, "Connection: close\r\n");
	a = http_client_answer(&c, false);
	assert_body(&a, sample_small);
	assert_true(http_client_closed(&c));
	http_answer_done(&a);
	http_client_close(&c);
	http_client_open(&c, sample.url);
	http_client_send(&c, "GET " SAMPLE_PATH " HTTP/1.0\r\n\r\n");
	a = http_client_answer(&c, false);
	assert_body(&a, sample_small);
	assert_true(http_client_closed(&c));
	http_answer_done(&a);
	http_client_close(&c);
}

/*
 * An incomplete request at the end of the input may be waited for: libmicrohttpd, with edge-triggered
 * epoll, can miss the end of input that came together with the last bytes.
 */
static void malformed_input_is_refused_and_the_server_goes_on(void **state)
{
	static const char *const nonsense[] = {
		"\r\n\r\n\r\n",
		"GET\r\n\r\n",
		"GET / HTTP/9.9\r\n\r\n",
		"GET " SAMPLE_PATH " HTTP/1.1\r\n\r\n", /* no Host */
		"\x16\x03\x01\x02\x01",                 /* a TLS client */
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
	};
	AUTO(buf_done) struct buf long_one = { 0 };
	struct http_answer a;
	struct http_client c;

	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		http_client_open(&c, sample.url);
		http_client_send(&c, nonsense[i]);
		shutdown(c.fd, SHUT_WR);
		a = http_client_answer(&c, false);
		assert_true(a.status >= 400 || a.status == 0);
		http_answer_done(&a);
		http_client_close(&c);
	}
	/* Headers without end. */
	buf_add_str(&long_one, STR("GET / HTTP/1.1\r\nHost: x\r\n"));
	for (int i = 0; i < 1000; i++)
		buf_printf(&long_one, "X-%d: %0100d\r\n", i, i);
	buf_add_str(&long_one, STR("\r\n"));
	http_client_open(&c, sample.url);
	http_client_send(&c, buf_cstr(&long_one));
	a = http_client_answer(&c, false);
	assert_true(a.status == 431 || a.status == 413 || a.status == 0);
	http_answer_done(&a);
	http_client_close(&c);
	long_one.size = 0;
	buf_add_str(&long_one, STR("/buildid/" SAMPLE_ID "/source/"));
	while (long_one.size < 100000)
		buf_add_char(&long_one, 'x');
	a = sample_get(buf_cstr(&long_one), NULL);
	assert_true(a.status == 414 || a.status == 0);
	http_answer_done(&a);
	assert_status(&sample, SAMPLE_PATH, 200);
}

static void a_long_source_path_is_served(void **state)
{
	AUTO(buf_done) struct buf arg = { 0 }, path = { 0 };
	struct http_answer a;
	struct bytes want;

	while (arg.size < 4000)
		buf_add_str(&arg, STR("/directory"));
	buf_add_str(&path, STR("/buildid/" SAMPLE_ID "/source"));
	buf_add_str(&path, buf_str(&arg));
	want = fixture_put(&sample, RESOLVE_SOURCE, SAMPLE_ID, buf_cstr(&arg), 100, buf_cstr(&arg),
			   "/srv/pool/x.deb");
	for (int i = 0; i < 2; i++) {
		a = sample_get(buf_cstr(&path), NULL);
		assert_int_equal(a.status, 200);
		assert_body(&a, want);
		http_answer_done(&a);
	}
	free((void *)want.p);
}

static void names_cannot_break_the_headers(void **state)
{
	struct bytes want = fixture_put(&sample, RESOLVE_SECTION, SAMPLE_ID, ".evil", 10,
					"/x\r\nSet-Cookie: a\tb", "/srv/\x01y\n.deb");
	struct http_answer a = sample_get("/buildid/" SAMPLE_ID "/section/.evil", NULL);

	assert_int_equal(a.status, 200);
	assert_header(&a, "Set-Cookie", NULL);
	assert_header(&a, "X-DEBUGINFOD-FILE", "/x??Set-Cookie: a?b");
	assert_header(&a, "X-DEBUGINFOD-ARCHIVE", "/srv/?y?.deb");
	assert_body(&a, want);
	http_answer_done(&a);
	free((void *)want.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		sample_test(a_missing_artifact_is_404_with_the_reason, sample_setup),
		sample_test(malformed_requests_are_400, sample_setup),
		sample_test(a_broken_artifact_is_500_with_the_reason, sample_setup),
		sample_test(a_failed_disk_is_503_for_that_artifact, sample_setup),
		sample_test(hidden_archives_show_no_folder, setup_hidden),
		sample_test(head_is_get_without_body, sample_setup),
		sample_test(head_leaves_the_connection_in_step, sample_setup),
		sample_test(other_methods_are_refused, sample_setup),
		sample_test(an_unwanted_body_is_refused, sample_setup),
		sample_test(pages_of_other_sites_may_send_requests_with_cors, setup_cors),
		sample_test(ranges_and_conditions_are_the_same_for_a_hot_reply, sample_setup),
		sample_test(one_connection_carries_many_requests, sample_setup),
		sample_test(malformed_input_is_refused_and_the_server_goes_on, sample_setup_impatient),
		sample_test(a_long_source_path_is_served, sample_setup),
		sample_test(names_cannot_break_the_headers, sample_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
