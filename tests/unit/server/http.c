/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said over HTTP: statuses, headers, methods, connections.
 */
#include "fixture.h"

#include <sys/socket.h>
#include "below.h"

#define ID    "0123456789abcdef"
#define PATH  "/buildid/" ID "/debuginfo"
#define SMALL 1000u
#define LARGE (MIB(1) + 123)

static struct fixture f;
static struct bytes small, large;

static int setup_with(void (*change)(struct server_options *o))
{
	struct build_id id = test_id("beef");
	struct err broken = { .kind = ERR_INVALID,
			      .text = "/srv/pool/secret/a.deb: member x: section table ends past the file" };

	fixture_init(&f);
	below_index = false;
	below_failed[0] = '\0';
	atomic_store(&below_is_up, true);
	small = fixture_put(&f, RESOLVE_DEBUGINFO, ID, "", SMALL, "/usr/lib/debug/x.debug",
			    "/srv/pool/x.deb");
	large = fixture_put(&f, RESOLVE_EXECUTABLE, ID, "", LARGE, "/usr/bin/x", "/srv/pool/x.deb");
	resolve_mem_fail(f.mem, RESOLVE_DEBUGINFO, &id, STR(""), &broken);
	if (change)
		change(&f.opts);
	fixture_start(&f);
	return 0;
}

static int setup(void **state)
{
	return setup_with(NULL);
}

static int teardown(void **state)
{
	fixture_done(&f);
	free((void *)small.p);
	free((void *)large.p);
	return 0;
}

static struct http_answer get(const char *path, const char *headers)
{
	return http_fetch(f.url, "GET", path, headers);
}

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

static void what_is_not_here_is_404_with_the_reason(void **state)
{
	assert_text(get("/buildid/ffff/debuginfo", NULL), 404, "no such build ID");
	assert_text(get("/buildid/" ID "/section/.text", NULL), 404,
		    "memory: has that build ID, but not this");
	assert_text(get("/nothing", NULL), 404, "no such path");
	assert_text(get("/buildid/" ID "/nothing", NULL), 404, "after the build ID");
}

static void what_is_malformed_is_400(void **state)
{
	assert_text(get("/buildid/ABCD/debuginfo", NULL), 400, "bad build ID");
	assert_text(get("/buildid/abc/debuginfo", NULL), 400, "bad build ID");
	assert_text(get("/buildid/" ID "/source/%00", NULL), 400, "escape");
	assert_text(get("/metadata", NULL), 400, "key must be");
	assert_text(get("/metadata?key=file", NULL), 400, "no value");
	assert_text(get("/metadata?key=file&value=%z", NULL), 400, "escape");
	assert_text(get("/metadata?key=file&value=x&limit=0", NULL), 400, "limit");
}

static void what_is_broken_is_500_with_the_reason(void **state)
{
	assert_text(get("/buildid/beef/debuginfo", NULL), 500,
		    "/srv/pool/secret/a.deb: member x: section table");
}

static void hide(struct server_options *o)
{
	o->hide_archive = true;
}

static int setup_hidden(void **state)
{
	return setup_with(hide);
}

static void nothing_tells_where_packages_lie(void **state)
{
	struct http_answer a = get("/buildid/beef/debuginfo", NULL);

	assert_int_equal(a.status, 500);
	assert_string_equal(
		buf_cstr(&a.body),
		"it is here, but cannot be read: a.deb: member x: section table ends past the file\n");
	http_answer_done(&a);
	a = get(PATH, NULL);
	assert_header(&a, "X-DEBUGINFOD-ARCHIVE", "x.deb");
	assert_header(&a, "X-DEBUGINFOD-FILE", "/usr/lib/debug/x.debug");
	http_answer_done(&a);
	a = get("/metadata?key=buildid&value=" ID, NULL);
	assert_non_null(strstr(buf_cstr(&a.body), "\"archive\":\"x.deb\""));
	http_answer_done(&a);
}

static void head_is_get_without_body(void **state)
{
	static const char *const paths[] = { PATH,
					     "/buildid/" ID "/executable",
					     "/buildid/ffff/debuginfo",
					     "/metrics",
					     "/healthz",
					     "/",
					     "/nothing",
					     "/metadata?key=file&value=x" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		/* Not known yet, then known. */
		for (int round = 0; round < 2; round++) {
			struct http_answer h = http_fetch(f.url, "HEAD", paths[i], NULL),
					   a = get(paths[i], NULL);

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

	http_client_open(&c, f.url);
	for (int i = 0; i < 4; i++) {
		http_client_ask(&c, "HEAD", i % 2 ? "/buildid/" ID "/executable" : "/healthz", NULL);
		a = http_client_answer(&c, true);
		assert_int_equal(a.status, 200);
		http_answer_done(&a);
	}
	http_client_ask(&c, "GET", "/buildid/" ID "/executable", NULL);
	a = http_client_answer(&c, false);
	assert_body(&a, large);
	http_answer_done(&a);
	http_client_close(&c);
}

static void other_methods_are_refused(void **state)
{
	static const char *const methods[] = { "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get" };

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		struct http_answer a = http_fetch(f.url, methods[i], PATH, "Content-Length: 0\r\n");

		assert_int_equal(a.status, 405);
		assert_header(&a, "Allow", "GET, HEAD");
		http_answer_done(&a);
	}
}

static void a_body_that_nobody_wants_is_refused(void **state)
{
	struct http_answer a;
	struct http_client c;

	http_client_open(&c, f.url);
	http_client_ask(&c, "POST", "/", "Content-Length: 1000000000\r\n");
	a = http_client_answer(&c, false);
	assert_int_equal(a.status, 405);
	http_answer_done(&a);
	http_client_close(&c);
	/* One of a GET means nothing, but is passed over. */
	http_client_open(&c, f.url);
	http_client_ask(&c, "GET", PATH, "Content-Length: 5\r\n");
	http_client_send(&c, "xxxxx");
	a = http_client_answer(&c, false);
	assert_body(&a, small);
	http_answer_done(&a);
	http_client_ask(&c, "GET", PATH, NULL);
	a = http_client_answer(&c, false);
	assert_body(&a, small);
	http_answer_done(&a);
	http_client_close(&c);
}

static void allow_cors(struct server_options *o)
{
	o->cors = true;
}

static int setup_cors(void **state)
{
	return setup_with(allow_cors);
}

static void pages_elsewhere_may_ask_with_cors(void **state)
{
	struct http_answer a = http_fetch(f.url, "OPTIONS", PATH, NULL);

	assert_int_equal(a.status, 204);
	assert_header(&a, "Access-Control-Allow-Origin", "*");
	assert_header(&a, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
	http_answer_done(&a);
	a = get(PATH, NULL);
	assert_header(&a, "Access-Control-Allow-Origin", "*");
	http_answer_done(&a);
	a = http_fetch(f.url, "POST", PATH, NULL);
	assert_header(&a, "Allow", "GET, HEAD, POST, OPTIONS");
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
		a = get(path, buf_cstr(&header));
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
	struct http_answer a = get(path, NULL);
	char etag[64];

	snprintf(etag, sizeof(etag), "%s", http_answer_header(&a, "ETag"));
	http_answer_done(&a);
	buf_printf(&header, "If-None-Match: %s\r\n", etag);
	a = get(path, buf_cstr(&header));
	assert_int_equal(a.status, 304);
	assert_int_equal(a.body.size, 0);
	assert_header(&a, "ETag", etag);
	assert_header(&a, "Cache-Control", "public, max-age=31536000, immutable");
	http_answer_done(&a);
	a = get(path, "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n");
	assert_int_equal(a.status, 304);
	http_answer_done(&a);
	a = get(path, "X-DEBUGINFOD-MAXSIZE: 999\r\n");
	assert_int_equal(a.status, 406);
	http_answer_done(&a);
	a = get(path, "Range: bytes=9999999-\r\n");
	assert_int_equal(a.status, 416);
	http_answer_done(&a);
	header.size = 0;
	buf_printf(&header, "Range: bytes=1-2\r\nIf-Range: %s\r\n", etag);
	a = get(path, buf_cstr(&header));
	assert_int_equal(a.status, 206);
	http_answer_done(&a);
	a = get(path, "Range: bytes=1-2\r\nIf-Range: \"other\"\r\n");
	assert_int_equal(a.status, 200);
	assert_body(&a, whole);
	http_answer_done(&a);
}

static void parts_and_conditions_before_it_is_hot_and_after(void **state)
{
	for (int round = 0; round < 2; round++) {
		check_parts("/buildid/" ID "/executable", large);
		check_conditions("/buildid/" ID "/executable", large);
		check_parts(PATH, small);
		check_conditions(PATH, small);
	}
}

static void one_connection_carries_many_requests(void **state)
{
	struct http_answer a;
	struct http_client c;

	http_client_open(&c, f.url);
	/* All at once, the answers in the same order. */
	for (int i = 0; i < 10; i++)
		http_client_send(&c, i % 3 == 0 ? "GET " PATH " HTTP/1.1\r\nHost: x\r\n\r\n"
				     : i % 3 == 1
					     ? "GET /buildid/" ID "/executable HTTP/1.1\r\nHost: x\r\n\r\n"
					     : "GET /buildid/eeee/debuginfo HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int i = 0; i < 10; i++) {
		a = http_client_answer(&c, false);
		assert_int_equal(a.status, i % 3 == 2 ? 404 : 200);
		if (i % 3 != 2)
			assert_body(&a, i % 3 ? large : small);
		http_answer_done(&a);
	}
	http_client_close(&c);
	http_client_open(&c, f.url);
	http_client_ask(&c, "GET", PATH, "Connection: close\r\n");
	a = http_client_answer(&c, false);
	assert_body(&a, small);
	assert_true(http_client_closed(&c));
	http_answer_done(&a);
	http_client_close(&c);
	http_client_open(&c, f.url);
	http_client_send(&c, "GET " PATH " HTTP/1.0\r\n\r\n");
	a = http_client_answer(&c, false);
	assert_body(&a, small);
	assert_true(http_client_closed(&c));
	http_answer_done(&a);
	http_client_close(&c);
}

static void impatient(struct server_options *o)
{
	o->idle_timeout_s = 1;
}

static int setup_impatient(void **state)
{
	return setup_with(impatient);
}

/* What is not whole when its client has said all may be waited for: MHD, reading by edges, can miss the end
 * of input that came together with the last bytes. */
static void nonsense_is_refused_and_does_no_harm(void **state)
{
	static const char *const nonsense[] = {
		"\r\n\r\n\r\n",
		"GET\r\n\r\n",
		"GET / HTTP/9.9\r\n\r\n",
		"GET " PATH " HTTP/1.1\r\n\r\n", /* no Host */
		"\x16\x03\x01\x02\x01",          /* a TLS client */
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
	};
	AUTO(buf_done) struct buf long_one = { 0 };
	struct http_answer a;
	struct http_client c;

	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		http_client_open(&c, f.url);
		http_client_send(&c, nonsense[i]);
		shutdown(c.fd, SHUT_WR);
		a = http_client_answer(&c, false);
		if (strstr(nonsense[i], "9.9") || strstr(nonsense[i], "-5"))
			assert_true(a.status >= 400 || a.status == 0);
		http_answer_done(&a);
		http_client_close(&c);
	}
	/* Headers without end. */
	buf_add_str(&long_one, STR("GET / HTTP/1.1\r\nHost: x\r\n"));
	for (int i = 0; i < 1000; i++)
		buf_printf(&long_one, "X-%d: %0100d\r\n", i, i);
	buf_add_str(&long_one, STR("\r\n"));
	http_client_open(&c, f.url);
	http_client_send(&c, buf_cstr(&long_one));
	a = http_client_answer(&c, false);
	assert_true(a.status == 431 || a.status == 413 || a.status == 0);
	http_answer_done(&a);
	http_client_close(&c);
	long_one.size = 0;
	buf_add_str(&long_one, STR("/buildid/" ID "/source/"));
	while (long_one.size < 100000)
		buf_add_char(&long_one, 'x');
	a = get(buf_cstr(&long_one), NULL);
	assert_true(a.status == 414 || a.status == 0);
	http_answer_done(&a);
	assert_status(&f, PATH, 200);
}

static void a_long_source_path_is_served(void **state)
{
	AUTO(buf_done) struct buf arg = { 0 }, path = { 0 };
	struct http_answer a;
	struct bytes want;

	while (arg.size < 4000)
		buf_add_str(&arg, STR("/directory"));
	buf_add_str(&path, STR("/buildid/" ID "/source"));
	buf_add_str(&path, buf_str(&arg));
	want = fixture_put(&f, RESOLVE_SOURCE, ID, buf_cstr(&arg), 100, buf_cstr(&arg), "/srv/pool/x.deb");
	for (int i = 0; i < 2; i++) {
		a = get(buf_cstr(&path), NULL);
		assert_int_equal(a.status, 200);
		assert_body(&a, want);
		http_answer_done(&a);
	}
	free((void *)want.p);
}

static void names_cannot_break_the_headers(void **state)
{
	struct bytes want = fixture_put(&f, RESOLVE_SECTION, ID, ".evil", 10, "/x\r\nSet-Cookie: a\tb",
					"/srv/\x01y\n.deb");
	struct http_answer a = get("/buildid/" ID "/section/.evil", NULL);

	assert_int_equal(a.status, 200);
	assert_header(&a, "Set-Cookie", NULL);
	assert_header(&a, "X-DEBUGINFOD-FILE", "/x??Set-Cookie: a?b");
	assert_header(&a, "X-DEBUGINFOD-ARCHIVE", "/srv/?y?.deb");
	assert_body(&a, want);
	http_answer_done(&a);
	free((void *)want.p);
}

static void health_and_readiness_are_told(void **state)
{
	struct http_answer a = get("/healthz", NULL);

	assert_int_equal(a.status, 200);
	assert_header(&a, "Cache-Control", "no-store");
	http_answer_done(&a);
	assert_status(&f, "/readyz", 200);
}

static void scanning(struct server_options *o)
{
	o->scan = BELOW_SCAN;
	atomic_store(&below_is_up, false);
}

static int setup_scanning(void **state)
{
	return setup_with(scanning);
}

static void it_is_ready_after_the_first_scan(void **state)
{
	struct http_answer a = get("/readyz", NULL);

	assert_int_equal(a.status, 503);
	assert_non_null(http_answer_header(&a, "Retry-After"));
	http_answer_done(&a);
	assert_status(&f, "/healthz", 200);
	atomic_store(&below_is_up, true);
	for (int i = 0; i < 200; i++) {
		a = get("/readyz", NULL);
		http_answer_done(&a);
		if (a.status == 200)
			return;
		usleep(20000);
	}
	fail();
}

static void metrics_speak_both_languages(void **state)
{
	unsigned n = 0;
	struct http_answer a;
	char *text, *line;

	assert_status(&f, PATH, 200);
	assert_status(&f, "/buildid/ffff/debuginfo", 404);
	a = get("/metrics", NULL);
	assert_header(&a, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
	assert_header(&a, "Cache-Control", "no-store");
	text = (char *)buf_cstr(&a.body);
	/* Scripts take the last word of every line that holds the name. */
	for (line = text; (line = strstr(line, "ready")); line++)
		n++;
	assert_int_equal(n, 1);
	assert_non_null(strstr(text, "\nready 1\n"));
	assert_non_null(
		strstr(text, "http_responses_transfer_bytes_count{code=\"200\",type=\"debuginfo\"} "));
	assert_non_null(
		strstr(text, "http_responses_duration_milliseconds_sum{code=\"404\",type=\"debuginfo\"} "));
	assert_non_null(strstr(text, "http_requests_total{type=\"debuginfo\"} "));
	assert_non_null(strstr(text, "http_responses_total{result=\"error\"} "));
	assert_non_null(strstr(text, "\nthread_busy{role=\"http-buildid\"} 0\n"));
	assert_non_null(strstr(text, "\nthread_busy{role=\"http-metrics\"} 1\n"));
	assert_non_null(strstr(text, "# TYPE lode_http_connections gauge\n"));
	http_answer_done(&a);
}

static void metadata_is_json(void **state)
{
	struct http_answer a = get("/metadata?key=file&value=/usr/bin/x", NULL);

	assert_int_equal(a.status, 200);
	assert_header(&a, "Content-Type", "application/json");
	assert_string_equal(buf_cstr(&a.body),
			    "{\"results\":[{\"type\":\"executable\",\"buildid\":\"" ID
			    "\",\"file\":\"\\/usr\\/bin\\/x\",\"archive\":\"\\/srv\\/pool\\/x.deb\"}],"
			    "\"complete\":true}");
	http_answer_done(&a);
	a = get("/metadata?key=glob&value=%2Fusr%2F*%2F*", NULL);
	assert_non_null(strstr(buf_cstr(&a.body), "\"results\":[{"));
	http_answer_done(&a);
	a = get("/metadata?key=buildid&value=" ID "&limit=1", NULL);
	assert_non_null(strstr(buf_cstr(&a.body), "\"complete\":false,\"next\":\"1\"}"));
	http_answer_done(&a);
	a = get("/metadata?key=buildid&value=" ID "&limit=1&cursor=1", NULL);
	assert_non_null(strstr(buf_cstr(&a.body), "\"complete\":true}"));
	assert_non_null(strstr(buf_cstr(&a.body), "\"type\":\"executable\""));
	http_answer_done(&a);
	a = get("/metadata?key=file&value=nothing", NULL);
	assert_string_equal(buf_cstr(&a.body), "{\"results\":[],\"complete\":true}");
	http_answer_done(&a);
}

static void names_that_are_not_text_become_text_in_json(void **state)
{
	struct bytes want = fixture_put(&f, RESOLVE_DEBUGINFO, "abab", "", 10, "/\xff\xc3\xa4\"<b>", "");
	struct http_answer a = get("/metadata?key=buildid&value=abab", NULL);

	assert_non_null(strstr(buf_cstr(&a.body), "\"file\":\"\\/\xef\xbf\xbd\xc3\xa4\\\"<b>\""));
	http_answer_done(&a);
	free((void *)want.p);
}

static void redirect(struct server_options *o)
{
	o->home_redirect = "https://example.org/";
}

static int setup_redirect(void **state)
{
	return setup_with(redirect);
}

static void the_home_page_may_be_elsewhere(void **state)
{
	struct http_answer a = get("/", NULL);

	assert_int_equal(a.status, 302);
	assert_header(&a, "Location", "https://example.org/");
	http_answer_done(&a);
}

static void own_home(struct server_options *o)
{
	static char path[TEST_PATH_SIZE + 10];

	snprintf(path, sizeof(path), "%s/home.html", f.dir);
	test_file_write(path, "<p>hello", 8);
	o->home_html = path;
}

static int setup_own_home(void **state)
{
	return setup_with(own_home);
}

static void the_home_page_may_be_a_file(void **state)
{
	struct http_answer a = get("/", NULL);

	assert_body(&a, bytes_of("<p>hello", 8));
	http_answer_done(&a);
}

static void missing_home(struct server_options *o)
{
	o->home_html = "/nowhere/home.html";
}

static int setup_missing_home(void **state)
{
	return setup_with(missing_home);
}

static void a_missing_home_page_is_no_reason_not_to_start(void **state)
{
	assert_status(&f, "/", 200);
}

static void slow_down(struct server_options *o)
{
	o->rate_per_ip = 1;
}

static int setup_rate(void **state)
{
	return setup_with(slow_down);
}

static void too_many_requests_of_one_address_are_429(void **state)
{
	int n_ok = 0, n_refused = 0;

	for (int i = 0; i < 20; i++) {
		struct http_answer a = get(PATH, NULL);

		if (a.status == 429)
			assert_header(&a, "Retry-After", "5");
		n_ok += a.status == 200;
		n_refused += a.status == 429;
		http_answer_done(&a);
	}
	assert_true(n_ok >= 10 && n_refused >= 5);
}

static void few_connections(struct server_options *o)
{
	o->max_connections = 4;
}

static int setup_few_connections(void **state)
{
	return setup_with(few_connections);
}

static void connections_have_a_limit(void **state)
{
	struct http_client c[12];
	struct http_answer a;
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_open(&c[i], f.url);
		http_client_ask(&c[i], "GET", "/healthz", NULL);
		a = http_client_answer(&c[i], false);
		n += a.status == 200;
		http_answer_done(&a);
	}
	assert_true(n >= 4 && n <= 6);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++)
		http_client_close(&c[i]);
	/* Those that went make room. */
	for (int i = 0; i < 100; i++) {
		a = get("/healthz", NULL);
		http_answer_done(&a);
		if (a.status == 200)
			return;
		usleep(20000);
	}
	fail();
}

static void idle_connections_are_closed(void **state)
{
	struct http_client c;

	http_client_open(&c, f.url);
	http_client_send(&c, "GET / HTTP/1.1\r\nHos");
	assert_true(http_client_closed(&c));
	http_client_close(&c);
}

/* A byte now and then is no silence, but no request either. */
static void a_request_that_never_ends_is_closed(void **state)
{
	struct http_client c;
	int64_t from_ms = clock_mono_ms();

	http_client_open(&c, f.url);
	http_client_send(&c, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ");
	while (clock_mono_ms() - from_ms < 20000 && send(c.fd, "x", 1, MSG_NOSIGNAL) == 1)
		usleep(100000);
	assert_true(clock_mono_ms() - from_ms < 10000);
	http_client_close(&c);
}

static void listening_is_told_by_url(void **state)
{
	static const struct str two[] = { STR("localhost:0"), STR("127.0.0.1:0") };
	static const struct str bad[] = { STR("127.0.0.1"), STR("127.0.0.1:99999"), STR("::1:80"),
					  STR("[::1:80") };
	struct server_options opts = { .resolver = f.mem, .listen = two, .n_listen = 2 };
	struct server *s;
	struct err err;
	unsigned n = 0;

	assert_done(server_start(&opts, &s, &err));
	for (const char *const *url = server_urls(s); *url; url++) {
		if (strstr(*url, "127.0.0.1")) {
			struct http_answer a = http_fetch(*url, "GET", "/healthz", NULL);

			assert_int_equal(a.status, 200);
			http_answer_done(&a);
		}
		n++;
	}
	assert_true(n == 2 || n == 3);
	server_stop(s, 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		opts.listen = &bad[i];
		opts.n_listen = 1;
		assert_true(server_start(&opts, &s, &err) < 0);
		assert_non_null(strstr(err.text, "listen on"));
	}
}

static void a_port_in_use_is_said(void **state)
{
	AUTO(buf_done) struct buf where = { 0 };
	struct server_options opts = { .resolver = f.mem, .n_listen = 1 };
	struct str addr;
	struct server *s;
	struct err err;

	buf_printf(&where, "%s", f.url + strlen("http://"));
	addr = buf_str(&where);
	opts.listen = &addr;
	assert_fails(server_start(&opts, &s, &err), ERR_IO, "Address already in use");
}

#define T(test, with) cmocka_unit_test_setup_teardown(test, with, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_is_not_here_is_404_with_the_reason, setup),
		T(what_is_malformed_is_400, setup),
		T(what_is_broken_is_500_with_the_reason, setup),
		T(nothing_tells_where_packages_lie, setup_hidden),
		T(head_is_get_without_body, setup),
		T(head_leaves_the_connection_in_step, setup),
		T(other_methods_are_refused, setup),
		T(a_body_that_nobody_wants_is_refused, setup),
		T(pages_elsewhere_may_ask_with_cors, setup_cors),
		T(parts_and_conditions_before_it_is_hot_and_after, setup),
		T(one_connection_carries_many_requests, setup),
		T(nonsense_is_refused_and_does_no_harm, setup_impatient),
		T(a_long_source_path_is_served, setup),
		T(names_cannot_break_the_headers, setup),
		T(health_and_readiness_are_told, setup),
		T(it_is_ready_after_the_first_scan, setup_scanning),
		T(metrics_speak_both_languages, setup),
		T(metadata_is_json, setup),
		T(names_that_are_not_text_become_text_in_json, setup),
		T(the_home_page_may_be_elsewhere, setup_redirect),
		T(the_home_page_may_be_a_file, setup_own_home),
		T(a_missing_home_page_is_no_reason_not_to_start, setup_missing_home),
		T(too_many_requests_of_one_address_are_429, setup_rate),
		T(connections_have_a_limit, setup_few_connections),
		T(idle_connections_are_closed, setup_impatient),
		T(a_request_that_never_ends_is_closed, setup_impatient),
		T(listening_is_told_by_url, setup),
		T(a_port_in_use_is_said, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
