/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are refused by their head: other sites, foreign names, tokens, rates. */
#include "http_fixture.h"

#include <sys/socket.h>
#include <unistd.h>
#include "http/h2.h"

static void other_sites_are_refused_without_a_token(void **state)
{
	struct http_answer a;

	check_answer(ask_with_body("POST", "/api/echo/x", "Origin: http://b\r\n", ""), 403,
		     "{\"error\":\"pages of other sites may not do this without a token\"}\n");
	/* A request through a proxy on this machine is not from this machine. */
	a = ask_with_body("POST", "/echo/x", "X-Forwarded-For: 192.0.2.1\r\n", "x");
	assert_int_equal(a.status, 403);
	http_answer_done(&a);
}

/* The status of the reply to these bytes, and whether the connection was closed after it. */
#define SECOND_REQUEST "GET /fixed HTTP/1.1\r\nHost: x\r\n\r\n"

static int raw_status(const char *bytes, bool *ret_closed)
{
	struct http_client c;
	struct http_answer a;
	int status;

	http_client_open(&c, http_fixture_url);
	http_client_send(&c, bytes);
	a = http_client_answer(&c, false);
	status = a.status;
	/* libmicrohttpd (0.9.75) sends the head of some refusals of its own twice. */
	while (ret_closed && status >= 400 && !http_client_closed(&c))
		c.in.size = 0;
	if (ret_closed)
		*ret_closed = status >= 400;
	http_answer_done(&a);
	http_client_close(&c);
	return status;
}

/* Forms that another program may read as another request, or as two. */
static void ambiguous_heads_are_refused(void **state)
{
	static const char *const good[] = {
		"GET /fixed HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"\r\nGET /fixed HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost:localhost\r\nX:\r\nY: a\tb \r\n\r\n",
		"GET /fixed HTTP/1.0\r\n\r\n",
		"GET /fixed?a=1&b HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
	};
	static const char *const bad[] = {
		"GET /fixed HTTP/1.1\nHost: localhost\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: localhost\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: localhost\r\n\n",
		"GET /fixed HTTP/1.1\nHost: localhost\n\n",
		"GET /fixed HTTP/1.1\r\nHost: localhost\r\nX: a\nY: b\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: localhost\r\nX: a\rY: b\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: localhost\rX: a\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: localhost\r\nX: a\r\n\tContent-Length: 5\r\n\r\n",
		"GET /fixed HTTP/1.1\r\n X: a\r\nHost: localhost\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost : localhost\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
		"GET /fixed HTTP/1.1\r\n\r\n",
		"GET  /fixed HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /fixed x HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /fixed?x y HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /fixed HTTP/1.1 \r\nHost: localhost\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET /fixed HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\nhello",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nhello",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
		"chunked\r\n\r\n0\r\n\r\n",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
		"chunked\r\n\r\n0\r\n\r\n",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"PUT /drops HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\x0b"
		"chunked\r\n\r\n0\r\n\r\n",
		"PUT /drops HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	};
	bool closed;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (raw_status(good[i], &closed) != 200)
			fail_msg("not 200: %s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int status = raw_status(bad[i], &closed);

		if (status != 400)
			fail_msg("%d: %s", status, bad[i]);
		if (!closed)
			fail_msg("not closed: %s", bad[i]);
	}
}

/* A proxy may take all of these bytes for one body: they are never two requests. */
static void a_connection_ends_with_a_body_in_chunks(void **state)
{
	static const char *const bodies[] = {
		"1\r\na\r\n0\r\n\r\n" SECOND_REQUEST,
		"1\na\n0\n\n" SECOND_REQUEST,
		/* Chunks of 16 and 36 bytes, if a line ends in CR LF and nothing else does. */
		"10;\n0\r\naaaaaaaaaaaaa\r\n0\r\n24;a:b\r\n\r\n" SECOND_REQUEST "\r\n0\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		struct http_client c;
		struct http_answer a;

		http_client_open(&c, http_fixture_url);
		http_client_ask(&c, "PUT", "/drops", "Transfer-Encoding: chunked\r\n");
		http_client_send(&c, bodies[i]);
		a = http_client_answer(&c, false);
		assert_int_equal(a.status, 200);
		assert_string_equal(http_answer_header(&a, "Connection"), "close");
		assert_true(http_client_closed(&c));
		http_answer_done(&a);
		http_client_close(&c);
	}
}

static void browsers_are_refused_under_foreign_names(void **state)
{
	static const struct {
		const char *request;
		int status;
	} rows[] = {
		/* Other programs may read under any name. */
		{ "GET /fixed HTTP/1.1\r\nHost: evil.example\r\n\r\n", 200 },
		{ "GET /echo/x HTTP/1.1\r\nHost: evil.example\r\nUser-Agent: elfutils/0.188\r\n\r\n", 200 },
		{ "GET /fixed HTTP/1.1\r\nHost: evil.example\r\nAccept-Language: de\r\n\r\n", 421 },
		{ "GET /fixed HTTP/1.1\r\nHost: evil.example\r\nUser-Agent: Mozilla/5.0\r\n\r\n", 421 },
		{ "GET /fixed HTTP/1.1\r\nHost: evil.example\r\nSec-Fetch-Site: same-origin\r\n\r\n", 421 },
		{ "GET /fixed HTTP/1.1\r\nHost: evil.example\r\nReferer: http://evil.example/\r\n\r\n", 421 },
		{ "GET /fixed HTTP/1.1\r\nHost: evil.example\r\nAccept-Language: de\r\n"
		  "Authorization: Bearer made-up\r\n\r\n",
		  421 },
		{ "GET /nothing HTTP/1.1\r\nHost: evil.example\r\nAccept-Language: de\r\n\r\n", 421 },
		{ "GET /fixed HTTP/1.1\r\nHost: 192.0.2.1:80\r\nAccept-Language: de\r\n\r\n", 200 },
		{ "GET /fixed HTTP/1.1\r\nHost: localhost:1\r\nAccept-Language: de\r\n\r\n", 200 },
		{ "GET /fixed HTTP/1.1\r\nHost: given.example\r\nAccept-Language: de\r\n\r\n", 200 },
		{ "PUT /drops HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n"
		  "Content-Length: 1\r\n\r\nx",
		  421 },
		{ "POST /echo/x HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n"
		  "Content-Length: 1\r\n\r\nx",
		  421 },
		/* Nothing but reading, under any name but localhost. */
		{ "POST /echo/x HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1\r\n\r\nx", 403 },
		{ "POST /echo/x HTTP/1.1\r\nHost: given.example\r\nContent-Length: 1\r\n\r\nx", 403 },
		{ "POST /echo/x HTTP/1.1\r\nHost: 192.0.2.1\r\nContent-Length: 1\r\n\r\nx", 403 },
		{ "POST /echo/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n\r\nx", 200 },
		{ "POST /echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx", 200 },
		/* The page of the server itself, and those of others. */
		{ "POST /echo/x HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:1\r\n"
		  "Sec-Fetch-Site: same-origin\r\nContent-Length: 1\r\n\r\nx",
		  200 },
		{ "POST /echo/x HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:2\r\n"
		  "Content-Length: 1\r\n\r\nx",
		  403 },
		{ "POST /echo/x HTTP/1.1\r\nHost: localhost:1\r\nOrigin: null\r\nContent-Length: 1\r\n\r\nx",
		  403 },
		{ "POST /echo/x HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n"
		  "Content-Length: 1\r\n\r\nx",
		  403 },
		{ "POST /echo/x HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n"
		  "Authorization: Bearer made-up\r\nContent-Length: 1\r\n\r\nx",
		  403 },
		/* For links and pictures, GET is not judged. */
		{ "GET /fixed HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n", 200 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int status = raw_status(rows[i].request, NULL);

		if (status != rows[i].status)
			fail_msg("%d instead of %d: %s", status, rows[i].status, rows[i].request);
	}
}

static void proxies_have_no_rights(void **state)
{
	static const char *const headers[] = { "X-Forwarded-For: 192.0.2.1",  "x-forwarded-proto: https",
					       "Forwarded: for=192.0.2.1",    "Via: 1.1 x",
					       "X-Real-IP: 192.0.2.1",        "X-Client-IP: 192.0.2.1",
					       "CF-Connecting-IP: 192.0.2.1", "True-Client-IP: 192.0.2.1" };
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		AUTO(mem_freep)
		char *request = mem_printf("POST /echo/x HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
					   "Content-Length: 1\r\n\r\nx",
					   headers[i]);

		if (raw_status(request, NULL) != 403)
			fail_msg("not 403: %s", headers[i]);
	}
	assert_int_equal(
		raw_status("POST /echo/x HTTP/1.0\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx", NULL),
		403);
}

/* Pushes need root or our own user: seteuid() makes the socket another user's. */
static void another_user_of_this_machine_may_only_read(void **state)
{
	struct http_client c;
	struct http_answer a;

	if (geteuid() != 0)
		skip();
	assert_int_equal(seteuid(12345), 0);
	http_client_open(&c, http_fixture_url);
	assert_int_equal(seteuid(0), 0);
	http_client_ask(&c, "GET", "/echo/x", NULL);
	a = http_client_answer(&c, false);
	check_answer(a, 200, "x by : ");
	http_client_ask(&c, "POST", "/echo/x", "Content-Length: 1\r\n");
	http_client_send(&c, "x");
	a = http_client_answer(&c, false);
	assert_int_equal(a.status, 403);
	http_answer_done(&a);
	http_client_close(&c);
}

static void count_arg(void *arg, const char *name, const char *value)
{
	++*(size_t *)arg;
}

/* A client of HTTP/2 can have a hundred such requests on one connection. */
static void a_query_takes_little_more_memory_than_its_text(void **state)
{
	static const struct str repeated[] = { STR("&"), STR("a&"), STR("a=b&") };

	for (size_t i = 0; i < ARRAY_SIZE(repeated); i++) {
		struct http_conn conn = { .crowded = false };
		size_t n = 0;

		while (conn.query.text.size + repeated[i].size <= H2_HEADERS)
			buf_add_str(&conn.query.text, repeated[i]);
		http_all_args(&conn, count_arg, &n);
		assert_int_equal(n, H2_HEADERS / repeated[i].size);
		/* All that it has; mallinfo2() knows nothing of a sanitizer's heap. */
		assert_in_range(conn.query.text.room + conn.query.pairs.room, H2_HEADERS, 4 * H2_HEADERS);
		http_query_done(&conn.query);
	}
}

static void every_target_up_to_the_limit_is_answered(void **state)
{
	AUTO(buf_done) struct buf target = { 0 };
	struct http_answer a;

	check_answer(http_fetch(http_fixture_url, "GET", "/args?a=1+2&b&c=%26&=x&a=3", NULL), 200,
		     "1 2|a=1 2;b=;c=%26;=x;a=3;");
	check_answer(http_fetch(http_fixture_url, "GET", "/args?", NULL), 200, "none|");
	check_answer(http_fetch(http_fixture_url, "GET", "/args?a", NULL), 200, "|a=;");
	for (size_t size = 100; size <= HTTP_TARGET_MAX; size = size < 8000 ? size + 790 : size + 48) {
		target.size = 0;
		buf_add_str(&target, STR("/args?a=0"));
		while (target.size + 2 <= size)
			buf_add_str(&target, STR("&b"));
		a = http_fetch(http_fixture_url, "GET", buf_cstr(&target),
			       "User-Agent: some/1.0\r\nAccept: */*\r\n");
		if (a.status != 200 || !a.whole)
			fail_msg("%zu bytes: %d", size, a.status);
		http_answer_done(&a);
		/* As a path. */
		target.size = 0;
		buf_add_str(&target, STR("/echo/"));
		while (target.size < size)
			buf_add_str(&target, STR("x"));
		a = http_fetch(http_fixture_url, "GET", buf_cstr(&target), NULL);
		if (a.status != 200)
			fail_msg("path of %zu bytes: %d", size, a.status);
		http_answer_done(&a);
	}
	for (size_t size = HTTP_TARGET_MAX + 1; size < 3 * HTTP_TARGET_MAX; size += 1500) {
		target.size = 0;
		buf_add_str(&target, STR("/echo/"));
		while (target.size < size)
			buf_add_str(&target, STR("x"));
		a = http_fetch(http_fixture_url, "GET", buf_cstr(&target), NULL);
		if (a.status != 414)
			fail_msg("path of %zu bytes: %d", size, a.status);
		http_answer_done(&a);
	}
}

static void too_many_headers_are_answered(void **state)
{
	static const int counts[] = { 10, 50, 90, 100, 120, 150, 200, 400, 1000 };

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		AUTO(buf_done) struct buf headers = { 0 };
		struct http_answer a;

		for (int k = 0; k < counts[i]; k++)
			buf_printf(&headers, "X%d: y\r\n", k);
		a = http_fetch(http_fixture_url, "GET", "/fixed", buf_cstr(&headers));
		if (a.status != 200 && a.status != 431)
			fail_msg("%d headers: %d", counts[i], a.status);
		http_answer_done(&a);
		headers.size = 0;
		buf_add_str(&headers, STR("Cookie: "));
		for (int k = 0; k < counts[i]; k++)
			buf_printf(&headers, "a%d=b;", k);
		buf_add_str(&headers, STR("\r\n"));
		a = http_fetch(http_fixture_url, "GET", "/fixed", buf_cstr(&headers));
		if (a.status != 200 && a.status != 431)
			fail_msg("%d cookies: %d", counts[i], a.status);
		http_answer_done(&a);
	}
}

static void need_read_token(struct http_service_options *o)
{
	o->require_read_token = true;
}

static int setup_tokens(void **state)
{
	return http_fixture_setup_with(need_read_token);
}

static void without_a_token_all_paths_are_401(void **state)
{
	struct http_answer a;

	http_fixture.hot = true;
	check_answer(http_fetch(http_fixture_url, "GET", "/fixed", NULL), 200, "canned\n");
	a = http_fetch(http_fixture_url, "GET", "/echo/hot", NULL);
	assert_int_equal(a.status, 401);
	assert_string_equal(http_answer_header(&a, "WWW-Authenticate"), "Bearer realm=\"lode\"");
	http_answer_done(&a);
	a = http_fetch(http_fixture_url, "GET", "/nothing", NULL);
	assert_int_equal(a.status, 401);
	http_answer_done(&a);
	a = ask_with_body("POST", "/nothing", "", "x");
	assert_int_equal(a.status, 401);
	http_answer_done(&a);
	a = ask_with_body("POST", "/pkg.v1.Service/None", "", "x");
	assert_true(a.status == 401 && strstr(buf_cstr(&a.body), "{\"code\":\"unauthenticated\""));
	http_answer_done(&a);
}

static char tokens_path[TEST_PATH_SIZE + 8];

static void use_tokens(struct http_service_options *o)
{
	o->tokens_path = tokens_path;
	o->require_read_token = true;
}

static struct http_answer ask_as(const char *method, const char *path, const char *scheme, const char *text,
				 const char *more)
{
	AUTO(mem_freep)
	char *headers = mem_printf("Authorization: %s %s\r\nX-Scope-OrgID: 1\r\n%s", scheme, text, more);

	return ask_with_body(method, path, headers, "x");
}

static char *base64_of(const char *text)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	struct buf b = { 0 };
	uint32_t bits = 0;
	unsigned n = 0;

	for (const char *p = text; *p; p++) {
		bits = bits << 8 | (uint8_t)*p;
		for (n += 8; n >= 6;)
			buf_add_char(&b, digits[bits >> (n -= 6) & 63]);
	}
	if (n)
		buf_add_char(&b, digits[bits << (6 - n) & 63]);
	while (b.size % 4)
		buf_add_char(&b, '=');
	return (char *)buf_cstr(&b);
}

static void check_basic(const char *pair, int status)
{
	AUTO(mem_freep) char *text = base64_of(pair);
	struct http_answer a = ask_as("POST", "/echo/x", "Basic", text, "");

	if (a.status != status)
		fail_msg("%s: %d", pair, a.status);
	http_answer_done(&a);
}

static void a_token_may_be_the_password_of_basic(void **state)
{
	char dir[TEST_PATH_SIZE], push[TOKEN_SECRET_SIZE], read[TOKEN_SECRET_SIZE];
	AUTO(mem_freep) char *pair = NULL, *text = NULL, *upper = NULL;
	struct token list[2];
	struct err err = { 0 };
	struct http_answer a;

	test_dir_make(dir);
	snprintf(tokens_path, sizeof(tokens_path), "%s/tokens", dir);
	assert_done(token_make(STR("ci"), TOKEN_PUSH, &list[0], push, &err));
	assert_done(token_make(STR("reader"), TOKEN_READ, &list[1], read, &err));
	assert_done(tokens_write(tokens_path, list, 2, &err));
	assert_int_equal(http_fixture_setup_with(use_tokens), 0);
	pair = mem_printf("anyone:%s", push);
	check_basic(pair, 200);
	free(pair);
	pair = mem_printf(":%s", push);
	check_basic(pair, 200);
	text = base64_of(pair);
	check_answer(ask_as("POST", "/echo/x", "Basic", text, ""), 200, "x by ci: x");
	check_answer(ask_as("POST", "/echo/x", "bAsIc ", text, ""), 200, "x by ci: x");
	check_answer(ask_as("POST", "/echo/x", "Bearer", push, ""), 200, "x by ci: x");
	/* A browser adds what it knows to the requests of any page. */
	a = ask_as("POST", "/echo/x", "Basic", text, "Origin: http://other.example\r\n");
	assert_int_equal(a.status, 403);
	http_answer_done(&a);
	a = ask_as("POST", "/echo/x", "Bearer", push, "Origin: http://other.example\r\n");
	assert_int_equal(a.status, 200);
	http_answer_done(&a);
	free(pair);
	pair = mem_printf("anyone:%s", read);
	check_basic(pair, 403);
	free(pair);
	pair = mem_printf("%s:", push);
	check_basic(pair, 401);
	check_basic(push, 401);
	check_basic("", 401);
	check_basic(":", 401);
	a = ask_as("POST", "/echo/x", "Basic", "%%%", "");
	assert_int_equal(a.status, 401);
	assert_non_null(strstr(buf_cstr(&a.head), "WWW-Authenticate: Bearer realm=\"lode\"\r\n"));
	assert_non_null(
		strstr(buf_cstr(&a.head), "WWW-Authenticate: Basic realm=\"lode\", charset=\"UTF-8\"\r\n"));
	http_answer_done(&a);
	a = ask_as("POST", "/echo/x", "Basicx", text, "");
	assert_int_equal(a.status, 401);
	http_answer_done(&a);
	upper = mem_alloc(2001);
	memset(upper, 'A', 2000);
	upper[2000] = '\0';
	a = ask_as("POST", "/echo/x", "Basic", upper, "");
	assert_int_equal(a.status, 401);
	http_answer_done(&a);
	http_fixture_teardown(state);
	test_dir_remove(dir);
}

static void set_low_rate_limit(struct http_service_options *o)
{
	o->rate_per_ip = 1;
}

static int setup_limit(void **state)
{
	return http_fixture_setup_with(set_low_rate_limit);
}

static void the_rate_limit_is_before_all_else(void **state)
{
	struct http_answer a;

	http_fixture.hot = true;
	for (int i = 0; i < 10; i++)
		check_answer(http_fetch(http_fixture_url, "GET", "/echo/hot", NULL), 200, "canned\n");
	a = http_fetch(http_fixture_url, "GET", "/echo/hot", NULL);
	assert_string_equal(http_answer_header(&a, "Retry-After"), "5");
	check_answer(a, 429, "too many requests from your address\n");
	check_answer(ask_with_body("POST", "/api/echo/x", "", "x"), 429,
		     "{\"error\":\"too many requests from your address\"}\n");
	check_answer(http_fetch(http_fixture_url, "GET", "/nothing", NULL), 429,
		     "too many requests from your address\n");
	check_connect(
		ask_with_body("POST", CALL, "", "x"), 429,
		"{\"code\":\"resource_exhausted\",\"message\":\"too many requests from your address\"}\n");
	check_connect(
		http_fetch(http_fixture_url, "GET", CALL, NULL), 429,
		"{\"code\":\"resource_exhausted\",\"message\":\"too many requests from your address\"}\n");
}

static void allow_other_sites(struct http_service_options *o)
{
	o->cors = true;
	o->cors_headers = "range";
	o->cors_expose = "ETag";
}

static int setup_cors(void **state)
{
	return http_fixture_setup_with(allow_other_sites);
}

static void options_has_the_methods_of_the_path(void **state)
{
	struct http_answer a = http_fetch(http_fixture_url, "OPTIONS", "/drops", NULL);

	assert_string_equal(http_answer_header(&a, "Allow"), "PUT, OPTIONS");
	/* But a page of another site may not make a browser send one. */
	assert_string_equal(http_answer_header(&a, "Access-Control-Allow-Methods"),
			    "GET, HEAD, POST, OPTIONS");
	check_answer(a, 204, "");
	check_answer(http_fetch(http_fixture_url, "OPTIONS", "/nothing", NULL), 404, "no such path\n");
}

static void allow_other_sites_with_a_token(struct http_service_options *o)
{
	allow_other_sites(o);
	need_read_token(o);
}

static int setup_cors_tokens(void **state)
{
	return http_fixture_setup_with(allow_other_sites_with_a_token);
}

static void a_preflight_needs_no_token(void **state)
{
	struct http_answer a;

	check_answer(http_fetch(http_fixture_url, "OPTIONS", "/echo/x", NULL), 204, "");
	a = http_fetch(http_fixture_url, "GET", "/echo/x", NULL);
	assert_int_equal(a.status, 401);
	http_answer_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_may_be_the_password_of_basic),
		cmocka_unit_test_setup_teardown(other_sites_are_refused_without_a_token, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(ambiguous_heads_are_refused, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(a_connection_ends_with_a_body_in_chunks, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(browsers_are_refused_under_foreign_names, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(proxies_have_no_rights, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(another_user_of_this_machine_may_only_read,
						http_fixture_setup, http_fixture_teardown),
		cmocka_unit_test(a_query_takes_little_more_memory_than_its_text),
		cmocka_unit_test_setup_teardown(every_target_up_to_the_limit_is_answered, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(too_many_headers_are_answered, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(without_a_token_all_paths_are_401, setup_tokens,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(the_rate_limit_is_before_all_else, setup_limit,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(options_has_the_methods_of_the_path, setup_cors,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(a_preflight_needs_no_token, setup_cors_tokens,
						http_fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
