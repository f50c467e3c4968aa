/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a request, with resources of the test's own: no server is linked. */
#include "test.h"

#include <sys/socket.h>
#include <unistd.h>
#include "http/request.h"
#include "http_client.h"

#define DROPS_MAX 100u

struct server {
	struct http *http;
	struct http_service *service;
	struct pool *workers;
	struct http_canned canned;
	atomic_uint n_run, n_done, n_ticks, end_of_toil;
	bool hot;
};

static struct server server;
static const char *url;

/* ---- resources ---- */

static enum http_next echo_run(struct request *req)
{
	struct buf b = { 0 };

	buf_printf(&b, STR_FMT " by %s: ", STR_ARG(req->parts[0]), req->token);
	buf_add(&b, req->body.p, req->body.size);
	request_reply_body(req, 200, &b, "text/plain", true);
	return HTTP_REPLY;
}

static enum http_next sleep_run(struct request *req)
{
	if (atomic_fetch_add(&req->s->n_run, 1) < 2) {
		req->sleep_ms = 1;
		return HTTP_SLEEPS;
	}
	request_reply_text(req, 200, "slept");
	return HTTP_REPLY;
}

/* Works until its deadline is over. */
static enum http_next toil_run(struct request *req)
{
	struct deadline d = request_deadline(req, "the work", NULL);

	atomic_fetch_add(&req->s->n_run, 1);
	while (!deadline_over(&d, DEADLINE_STEPS))
		usleep(1000);
	atomic_store(&req->s->end_of_toil, d.state);
	request_reply_text(req, 504, "too long");
	return HTTP_REPLY;
}

static enum http_next continued(struct request *req)
{
	request_reply_text(req, 201, "continued");
	return HTTP_REPLY;
}

static void *another_thread(void *arg)
{
	request_continue(arg, continued);
	return NULL;
}

static enum http_next continue_run(struct request *req)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, another_thread, req), 0);
	pthread_detach(thread);
	return HTTP_WAITS;
}

/* On the HTTP thread: waits for its deadline. */
static enum http_next wait_run(struct request *req)
{
	if (req->fate == FATE_NONE && wait_suspend(req))
		return HTTP_WAITS;
	request_refuse(req, 503, req->fate == FATE_EXPIRED ? "expired" : "stopped");
	return HTTP_REPLY;
}

/* Counts the bytes of the body as they come. */
static void drops_begin(struct request *req)
{
	req->own = ARENA_NEW(&req->arena, size_t);
	if (http_header(req->conn, "X-Refuse"))
		request_refuse(req, 422, "as you like");
}

static size_t drops_body(struct request *req, struct bytes chunk)
{
	*(size_t *)req->own += chunk.size;
	return chunk.size;
}

static enum http_next drops_run(struct request *req)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", *(size_t *)req->own);
	request_reply_text(req, 200, text);
	return HTTP_REPLY;
}

static void add_arg(void *arg, const char *name, const char *value)
{
	buf_printf(arg, "%s=%s;", name, value);
}

static enum http_next args_run(struct request *req)
{
	struct buf b = { 0 };

	buf_printf(&b, "%s|", http_arg(req->conn, "a") ? http_arg(req->conn, "a") : "none");
	http_all_args(req->conn, add_arg, &b);
	request_reply_body(req, 200, &b, "text/plain", true);
	return HTTP_REPLY;
}

static void count_done(struct request *req)
{
	atomic_fetch_add(&req->s->n_done, 1);
}

static const struct http_canned *canned(struct server *s, const struct http_match *m)
{
	return &s->canned;
}

static void other_begin(struct request *req)
{
	request_refuse(req, 404, "there is /api/echo");
}

static void call_begin(struct request *req)
{
	if (http_header(req->conn, "X-Refuse"))
		request_refuse_connect(req, 409, CONNECT_FAILED_PRECONDITION, "as \"you\" like");
}

static void other_call_begin(struct request *req)
{
	request_refuse_connect(req, 404, CONNECT_UNIMPLEMENTED, "no such call");
}

static const struct http_handler echo = { .run = echo_run, .done = count_done },
				 sleeps = { .run = sleep_run }, toils = { .run = toil_run },
				 continues = { .run = continue_run }, waits = { .run = wait_run },
				 fixed = { .canned = canned }, other = { .begin = other_begin },
				 args = { .run = args_run }, other_call = { .begin = other_call_begin },
				 call = { .begin = call_begin, .run = echo_run },
				 drops = { .begin = drops_begin,
					   .body = drops_body,
					   .run = drops_run,
					   .done = count_done };

static const struct http_body small = {
	.max = DROPS_MAX, .max_together = 2 * DROPS_MAX, .too_long = "more than 100", .needs_length = true
};

static const struct http_route routes[] = {
	{ HTTP_GET, "/fixed", 0, HTTP_ON_THREAD, 0, .handler = &fixed },
	{ HTTP_GET, "/echo/{name}", TOKEN_READ, HTTP_ON_WORKER, 0, .handler = &echo },
	{ HTTP_POST, "/echo/{name}", TOKEN_PUSH, HTTP_ON_WORKER, 0, 0, &small, &echo },
	{ HTTP_POST, "/api/echo/{name}", TOKEN_READ, HTTP_ON_WORKER, 0, HTTP_JSON, &small, &echo },
	{ HTTP_GET, "/toils", TOKEN_READ, HTTP_ON_WORKER, 0, .handler = &toils },
	{ HTTP_GET, "/sleeps", TOKEN_READ, HTTP_ON_WORKER, 0, .handler = &sleeps },
	{ HTTP_GET, "/continues", TOKEN_READ, HTTP_ON_WORKER, 0, .handler = &continues },
	{ HTTP_GET, "/waits", TOKEN_READ, HTTP_ON_THREAD, 0, .handler = &waits },
	{ HTTP_GET, "/args", TOKEN_READ, HTTP_ON_WORKER, 0, .handler = &args },
	{ HTTP_PUT, "/drops", TOKEN_READ, HTTP_ON_THREAD, 0, .handler = &drops },
	{ HTTP_POST, "/pkg.v1.Service/Call", TOKEN_PUSH, HTTP_ON_WORKER, 0, HTTP_CONNECT, &small, &call },
	{ 0, "/api/{rest...}", TOKEN_READ, HTTP_ON_THREAD, 1, HTTP_JSON, .handler = &other },
	{ 0, "/{service}/{call...}", TOKEN_READ, HTTP_ON_THREAD, 1, HTTP_CONNECT | HTTP_FIRST_IS_SERVICE,
	  .handler = &other_call },
	{ 0 },
};

static bool hot_reply(struct server *s, const struct http_request *hr, bool head, struct http_sent *ret)
{
	if (!s->hot || strcmp(hr->url, "/echo/hot") != 0)
		return false;
	*ret = (struct http_sent){ .status = 200,
				   .result = "made",
				   .outcome = http_send(hr->conn, 200, s->canned.reply) };
	return true;
}

static bool on_tick(struct server *s)
{
	return atomic_fetch_add(&s->n_ticks, 1) < 3;
}

/* ---- a server ---- */

static int setup_with(void (*change)(struct http_service_options *o))
{
	static const char *const types[] = { "things", "other", NULL }, *const results[] = { "made", "error",
											     NULL };
	static const struct str listen[] = { STR("127.0.0.1:0") }, given[] = { STR("http://given.example") };
	struct http_options http = {
		.listen = listen, .n_listen = 1, .threads = 1, .max_connections = 64, .idle_timeout_s = 60
	};
	struct http_service_options o = { .server = &server,
					  .routes = routes,
					  .types = types,
					  .other_type = 1,
					  .results = results,
					  .hot = hot_reply,
					  .tick = on_tick,
					  .max_queued = 8,
					  .public_urls = given,
					  .n_public_urls = 1,
					  .request_deadline_ms = 100 };
	struct err err = { 0 };

	memset(&server, 0, sizeof(server));
	log_set_level(LOG_ERROR);
	assert_done(http_load(&err));
	o.workers = server.workers = pool_new_fair(&(struct pool_options){
		.name = "test", .n_threads = 2, .max_queued = 1, .n_classes = HTTP_WORKER_CLASSES });
	if (change)
		change(&o);
	assert_done(http_service_new(&o, &server.service, &err));
	server.canned = reply_canned(server.service, 200, "canned\n");
	http.receiver = http_service_receiver(server.service);
	assert_done(http_start(&http, &server.http, &err));
	url = http_urls(server.http)[0];
	return 0;
}

static int setup(void **state)
{
	return setup_with(NULL);
}

static int teardown(void **state)
{
	wait_stop(server.service);
	http_stop(server.http);
	assert_int_equal(atomic_load(&server.service->n_open), 0);
	for (unsigned i = 0; i < HTTP_BODY_SLOTS; i++)
		assert_int_equal(atomic_load(&server.service->body_bytes[i]), 0);
	pool_free(server.workers);
	http_reply_unref(server.canned.reply);
	http_service_free(server.service);
	return 0;
}

static struct http_answer ask_with_body(const char *method, const char *path, const char *headers,
					const char *body)
{
	AUTO(mem_freep) char *all = mem_printf("%sContent-Length: %zu\r\n", headers, strlen(body));
	struct http_answer a;
	struct http_client c;

	http_client_open(&c, url);
	http_client_ask(&c, method, path, all);
	http_client_send(&c, body);
	a = http_client_answer(&c, false);
	http_client_close(&c);
	return a;
}

static struct http_answer ask_in_chunks(const char *path)
{
	struct http_answer a;
	struct http_client c;

	http_client_open(&c, url);
	http_client_ask(&c, "POST", path, "Transfer-Encoding: chunked\r\n");
	http_client_send(&c, "1\r\nx\r\n0\r\n\r\n");
	a = http_client_answer(&c, false);
	http_client_close(&c);
	return a;
}

/* The reply has this status and body. */
static void check(struct http_answer a, int status, const char *body)
{
	assert_int_equal(a.status, status);
	assert_string_equal(buf_cstr(&a.body), body);
	http_answer_done(&a);
}

/* ---- tests ---- */

static void a_request_goes_to_its_row(void **state)
{
	struct http_answer a;

	check(http_fetch(url, "GET", "/fixed", NULL), 200, "canned\n");
	check(http_fetch(url, "GET", "http://host/echo/x%2Dy", NULL), 200, "x-y by : ");
	check(ask_with_body("POST", "/echo/x", "", "hello"), 200, "x by loopback: hello");
	check(ask_with_body("POST", "http://host/echo/x", "", "hello"), 200, "x by loopback: hello");
	a = http_fetch(url, "GET", "/nothing", NULL);
	check(a, 404, "no such path\n");
	check(ask_with_body("POST", "/nothing", "", "x"), 404, "no such path\n");
	check(ask_with_body("PUT", "/api/nothing", "", "x"), 404, "{\"error\":\"there is /api/echo\"}\n");
}

static void another_method_is_405_with_those_of_the_path(void **state)
{
	struct http_answer a = http_fetch(url, "DELETE", "/echo/x", NULL);

	assert_string_equal(http_answer_header(&a, "Allow"), "GET, HEAD, POST");
	check(a, 405, "this path takes GET, HEAD, POST\n");
	a = http_fetch(url, "GET", "/api/echo/x", NULL);
	assert_string_equal(http_answer_header(&a, "Allow"), "POST");
	check(a, 405, "{\"error\":\"this path takes POST\"}\n");
}

#define CALL "/pkg.v1.Service/Call"

static void check_connect(struct http_answer a, int status, const char *body)
{
	/* A client takes no other type for an error. */
	assert_string_equal(http_answer_header(&a, "Content-Type"), "application/json");
	check(a, status, body);
}

static void calls_are_refused_in_the_form_of_connect(void **state)
{
	static const char *const grpc[] = { "application/grpc", "application/grpc",
					    "application/gRPC+proto" };
	char long_one[2 * DROPS_MAX];
	struct http_answer a = http_fetch(url, "GET", CALL, NULL);

	assert_string_equal(http_answer_header(&a, "Allow"), "POST");
	check_connect(a, 405, "{\"code\":\"unimplemented\",\"message\":\"this path takes POST\"}\n");
	check(ask_with_body("POST", CALL, "Content-Type: application/proto\r\n", "x"), 200,
	      " by loopback: x");
	check_connect(ask_with_body("POST", "/pkg.v1.Service/None", "", "x"), 404,
		      "{\"code\":\"unimplemented\",\"message\":\"no such call\"}\n");
	check_connect(ask_in_chunks("/other.v1.Service/Upload/0aff"), 404,
		      "{\"code\":\"unimplemented\",\"message\":\"no such call\"}\n");
	check_connect(ask_with_body("POST", CALL, "X-Refuse: 1\r\n", "x"), 409,
		      "{\"code\":\"failed_precondition\",\"message\":\"as \\\"you\\\" like\"}\n");
	memset(long_one, 'x', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	check_connect(ask_with_body("POST", CALL, "", long_one), 413,
		      "{\"code\":\"invalid_argument\",\"message\":\"more than 100\"}\n");
	check_connect(ask_in_chunks(CALL), 411,
		      "{\"code\":\"invalid_argument\",\"message\":\"a Content-Length is needed\"}\n");
	check_connect(ask_with_body("POST", CALL, "Origin: http://other.example\r\n", "x"), 403,
		      "{\"code\":\"permission_denied\",\"message\":\"pages of other sites may not do this "
		      "without a token\"}\n");
	for (size_t i = 0; i < ARRAY_SIZE(grpc); i++) {
		AUTO(mem_freep) char *type = mem_printf("Content-Type: %s\r\n", grpc[i]);

		a = ask_with_body("POST", i ? "/pkg.v1.Service/None" : CALL, type, "x");
		assert_string_equal(http_answer_header(&a, "Content-Type"), "text/plain; charset=utf-8");
		check(a, 404, CONNECT_NO_GRPC "\n");
	}
}

/* The last frame of a body of gRPC-Web. */
static void check_grpc_web(struct http_answer a, const char *trailers)
{
	size_t n = strlen(trailers);

	assert_int_equal(a.status, 200);
	assert_string_equal(http_answer_header(&a, "Content-Type"), "application/grpc-web+proto");
	assert_int_equal(a.body.size, 5 + n);
	assert_int_equal(a.body.p[0], 0x80);
	assert_int_equal(a.body.p[4], n);
	assert_memory_equal(a.body.p + 5, trailers, n);
	http_answer_done(&a);
}

static void a_request_of_grpc_web_is_refused_in_its_form(void **state)
{
#define WEB "Content-Type: application/grpc-web+proto\r\n"
	char long_one[2 * DROPS_MAX];

	memset(long_one, 'x', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	check_grpc_web(ask_with_body("POST", "/pkg.v1.Service/None", WEB, "x"),
		       "grpc-status:12\r\ngrpc-message:no such call\r\n");
	check_grpc_web(ask_with_body("POST", "/nothing", WEB, "x"),
		       "grpc-status:12\r\ngrpc-message:no such path\r\n");
	check_grpc_web(ask_with_body("POST", CALL, WEB "X-Refuse: 1\r\n", "x"),
		       "grpc-status:9\r\ngrpc-message:as \"you\" like\r\n");
	check_grpc_web(ask_with_body("POST", CALL, WEB, long_one),
		       "grpc-status:8\r\ngrpc-message:more than 100\r\n");
	check_grpc_web(
		ask_with_body("POST", CALL, WEB "Origin: http://other.example\r\n", "x"),
		"grpc-status:7\r\ngrpc-message:pages of other sites may not do this without a token\r\n");
#undef WEB
}

/* A client that sends before it reads sees the refusal, unless the body has no end. */
static void a_refused_body_is_read_so_that_the_reply_arrives(void **state)
{
	AUTO(mem_freep) char *large = mem_alloc(MIB(2));
	struct http_client c;
	struct http_answer a;
	size_t n = 0;

	memset(large, 'x', MIB(2) - 1);
	large[MIB(2) - 1] = '\0';
	for (int i = 0; i < 5; i++)
		check(ask_with_body("POST", "/nothing", "", large), 404, "no such path\n");
	http_client_open(&c, url);
	http_client_ask(&c, "POST", "/pkg.v1.Service/None", "Transfer-Encoding: chunked\r\n");
	for (int i = 0; i < 3; i++) {
		http_client_send(&c, "1fffff\r\n");
		http_client_send(&c, large);
		http_client_send(&c, "\r\n");
	}
	http_client_send(&c, "0\r\n\r\n");
	a = http_client_answer(&c, false);
	check_connect(a, 404, "{\"code\":\"unimplemented\",\"message\":\"no such call\"}\n");
	http_client_close(&c);
	http_client_open(&c, url);
	http_client_ask(&c, "POST", "/nothing", "Transfer-Encoding: chunked\r\n");
	while (n < 1000 && send(c.fd, "1fffff\r\n", 8, MSG_NOSIGNAL) == 8 &&
	       send(c.fd, large, MIB(2) - 1, MSG_NOSIGNAL) > 0 && send(c.fd, "\r\n", 2, MSG_NOSIGNAL) == 2)
		n++;
	assert_true(n < 1000);
	http_client_close(&c);
}

static void statuses_imply_codes_of_connect(void **state)
{
	static const struct {
		unsigned status;
		const char *code;
	} cases[] = {
		{ 400, "invalid_argument" },
		{ 401, "unauthenticated" },
		{ 403, "permission_denied" },
		{ 404, "not_found" },
		{ 405, "unimplemented" },
		{ 409, "already_exists" },
		{ 411, "invalid_argument" },
		{ 413, "invalid_argument" },
		{ 414, "invalid_argument" },
		{ 421, "permission_denied" },
		{ 422, "invalid_argument" },
		{ 429, "resource_exhausted" },
		{ 500, "internal" },
		{ 501, "unimplemented" },
		{ 502, "unavailable" },
		{ 503, "unavailable" },
		{ 504, "deadline_exceeded" },
		{ 507, "unavailable" },
		{ 412, "failed_precondition" },
		{ 499, "canceled" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(connect_code_name(connect_code_of(cases[i].status)), cases[i].code);
}

static void bodies_have_limits(void **state)
{
	char long_one[2 * DROPS_MAX];

	memset(long_one, 'x', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	check(ask_with_body("POST", "/echo/x", "", long_one), 413, "more than 100\n");
	check(ask_with_body("POST", "/api/echo/x", "", long_one), 413, "{\"error\":\"more than 100\"}\n");
	check(ask_in_chunks("/echo/x"), 411, "a Content-Length is needed\n");
	/* A handler that takes the body itself has no limit here. */
	check(ask_with_body("PUT", "/drops", "", long_one), 200, "199\n");
	check(ask_with_body("PUT", "/drops", "X-Refuse: 1\r\n", long_one), 422, "as you like\n");
}

static void runs_on_workers_sleep_and_go_on(void **state)
{
	check(http_fetch(url, "GET", "/sleeps", NULL), 200, "slept\n");
	assert_int_equal(atomic_load(&server.n_run), 3);
	check(http_fetch(url, "GET", "/continues", NULL), 201, "continued\n");
	check(http_fetch(url, "GET", "/waits", NULL), 503, "expired\n");
	assert_true(atomic_load(&server.n_ticks) > 0);
}

static void head_has_no_body(void **state)
{
	struct http_client c;
	struct http_answer a;

	http_client_open(&c, url);
	http_client_ask(&c, "HEAD", "/echo/x", NULL);
	a = http_client_answer(&c, true);
	assert_int_equal(a.status, 200);
	assert_int_equal(a.length, strlen("x by : "));
	http_answer_done(&a);
	http_client_close(&c);
}

static void other_sites_are_refused_without_a_token(void **state)
{
	struct http_answer a;

	check(ask_with_body("POST", "/api/echo/x", "Origin: http://b\r\n", ""), 403,
	      "{\"error\":\"pages of other sites may not do this without a token\"}\n");
	/* A request through a proxy on this machine is not from this machine. */
	a = ask_with_body("POST", "/echo/x", "X-Forwarded-For: 192.0.2.1\r\n", "x");
	assert_int_equal(a.status, 403);
	http_answer_done(&a);
}

/* The status of the reply to these bytes, and whether the connection was closed after it. */
static int raw_status(const char *bytes, bool *ret_closed)
{
	struct http_client c;
	struct http_answer a;
	int status;

	http_client_open(&c, url);
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
	http_client_open(&c, url);
	assert_int_equal(seteuid(0), 0);
	http_client_ask(&c, "GET", "/echo/x", NULL);
	a = http_client_answer(&c, false);
	check(a, 200, "x by : ");
	http_client_ask(&c, "POST", "/echo/x", "Content-Length: 1\r\n");
	http_client_send(&c, "x");
	a = http_client_answer(&c, false);
	assert_int_equal(a.status, 403);
	http_answer_done(&a);
	http_client_close(&c);
}

static void every_target_up_to_the_limit_is_answered(void **state)
{
	AUTO(buf_done) struct buf target = { 0 };
	struct http_answer a;

	check(http_fetch(url, "GET", "/args?a=1+2&b&c=%26&=x&a=3", NULL), 200, "1 2|a=1 2;b=;c=%26;=x;a=3;");
	check(http_fetch(url, "GET", "/args?", NULL), 200, "none|");
	check(http_fetch(url, "GET", "/args?a", NULL), 200, "|a=;");
	for (size_t size = 100; size <= HTTP_TARGET_MAX; size = size < 8000 ? size + 790 : size + 48) {
		target.size = 0;
		buf_add_str(&target, STR("/args?a=0"));
		while (target.size + 2 <= size)
			buf_add_str(&target, STR("&b"));
		a = http_fetch(url, "GET", buf_cstr(&target), "User-Agent: some/1.0\r\nAccept: */*\r\n");
		if (a.status != 200 || !a.whole)
			fail_msg("%zu bytes: %d", size, a.status);
		http_answer_done(&a);
		/* As a path. */
		target.size = 0;
		buf_add_str(&target, STR("/echo/"));
		while (target.size < size)
			buf_add_str(&target, STR("x"));
		a = http_fetch(url, "GET", buf_cstr(&target), NULL);
		if (a.status != 200)
			fail_msg("path of %zu bytes: %d", size, a.status);
		http_answer_done(&a);
	}
	for (size_t size = HTTP_TARGET_MAX + 1; size < 3 * HTTP_TARGET_MAX; size += 1500) {
		target.size = 0;
		buf_add_str(&target, STR("/echo/"));
		while (target.size < size)
			buf_add_str(&target, STR("x"));
		a = http_fetch(url, "GET", buf_cstr(&target), NULL);
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
		a = http_fetch(url, "GET", "/fixed", buf_cstr(&headers));
		if (a.status != 200 && a.status != 431)
			fail_msg("%d headers: %d", counts[i], a.status);
		http_answer_done(&a);
		headers.size = 0;
		buf_add_str(&headers, STR("Cookie: "));
		for (int k = 0; k < counts[i]; k++)
			buf_printf(&headers, "a%d=b;", k);
		buf_add_str(&headers, STR("\r\n"));
		a = http_fetch(url, "GET", "/fixed", buf_cstr(&headers));
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
	return setup_with(need_read_token);
}

static void without_a_token_all_paths_are_401(void **state)
{
	struct http_answer a;

	server.hot = true;
	check(http_fetch(url, "GET", "/fixed", NULL), 200, "canned\n");
	a = http_fetch(url, "GET", "/echo/hot", NULL);
	assert_int_equal(a.status, 401);
	assert_string_equal(http_answer_header(&a, "WWW-Authenticate"), "Bearer realm=\"lode\"");
	http_answer_done(&a);
	a = http_fetch(url, "GET", "/nothing", NULL);
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
	assert_int_equal(setup_with(use_tokens), 0);
	pair = mem_printf("anyone:%s", push);
	check_basic(pair, 200);
	free(pair);
	pair = mem_printf(":%s", push);
	check_basic(pair, 200);
	text = base64_of(pair);
	check(ask_as("POST", "/echo/x", "Basic", text, ""), 200, "x by ci: x");
	check(ask_as("POST", "/echo/x", "bAsIc ", text, ""), 200, "x by ci: x");
	check(ask_as("POST", "/echo/x", "Bearer", push, ""), 200, "x by ci: x");
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
	teardown(state);
	test_dir_remove(dir);
}

static void set_low_rate_limit(struct http_service_options *o)
{
	o->rate_per_ip = 1;
}

static int setup_limit(void **state)
{
	return setup_with(set_low_rate_limit);
}

static void the_rate_limit_is_before_all_else(void **state)
{
	struct http_answer a;

	server.hot = true;
	for (int i = 0; i < 10; i++)
		check(http_fetch(url, "GET", "/echo/hot", NULL), 200, "canned\n");
	a = http_fetch(url, "GET", "/echo/hot", NULL);
	assert_string_equal(http_answer_header(&a, "Retry-After"), "5");
	check(a, 429, "too many requests from your address\n");
	check(ask_with_body("POST", "/api/echo/x", "", "x"), 429,
	      "{\"error\":\"too many requests from your address\"}\n");
	check(http_fetch(url, "GET", "/nothing", NULL), 429, "too many requests from your address\n");
	check_connect(
		ask_with_body("POST", CALL, "", "x"), 429,
		"{\"code\":\"resource_exhausted\",\"message\":\"too many requests from your address\"}\n");
	check_connect(
		http_fetch(url, "GET", CALL, NULL), 429,
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
	return setup_with(allow_other_sites);
}

static void options_has_the_methods_of_the_path(void **state)
{
	struct http_answer a = http_fetch(url, "OPTIONS", "/drops", NULL);

	assert_string_equal(http_answer_header(&a, "Allow"), "PUT, OPTIONS");
	/* But a page of another site may not make a browser send one. */
	assert_string_equal(http_answer_header(&a, "Access-Control-Allow-Methods"),
			    "GET, HEAD, POST, OPTIONS");
	check(a, 204, "");
	check(http_fetch(url, "OPTIONS", "/nothing", NULL), 404, "no such path\n");
}

static void allow_other_sites_with_a_token(struct http_service_options *o)
{
	allow_other_sites(o);
	need_read_token(o);
}

static int setup_cors_tokens(void **state)
{
	return setup_with(allow_other_sites_with_a_token);
}

static void a_preflight_needs_no_token(void **state)
{
	struct http_answer a;

	check(http_fetch(url, "OPTIONS", "/echo/x", NULL), 204, "");
	a = http_fetch(url, "GET", "/echo/x", NULL);
	assert_int_equal(a.status, 401);
	http_answer_done(&a);
}

/* ---- deadlines of work ---- */

static void work_ends_at_its_deadline(void **state)
{
	struct http_answer a = http_fetch(url, "GET", "/toils", NULL);

	assert_int_equal(a.status, 504);
	assert_int_equal(server.end_of_toil, DEADLINE_PASSED);
	http_answer_done(&a);
}

static void no_deadline(struct http_service_options *o)
{
	o->request_deadline_ms = 3600000;
}

static int setup_without_deadline(void **state)
{
	return setup_with(no_deadline);
}

static void begin_toil(struct http_client *c)
{
	http_client_open(c, url);
	http_client_ask(c, "GET", "/toils", NULL);
	while (!atomic_load(&server.n_run))
		usleep(1000);
}

static void work_ends_when_the_client_hangs_up(void **state)
{
	struct http_client c;

	begin_toil(&c);
	http_client_close(&c);
	while (!atomic_load(&server.end_of_toil))
		usleep(1000);
	assert_int_equal(server.end_of_toil, DEADLINE_CANCELLED);
}

static void work_ends_when_the_server_stops(void **state)
{
	struct http_client c;

	begin_toil(&c);
	wait_stop(server.service);
	assert_int_equal(server.end_of_toil, DEADLINE_CANCELLED);
	http_client_close(&c);
}

/* ---- limits of waiting requests ---- */

static void waiting_is_limited_by_class_and_client(void **state)
{
	struct http_service sv = { .opts = { .max_queued = 8 } };
	struct wait_class *c = &sv.wait.classes[HTTP_CLASS_SYMBOLIZE];

	wait_init(&sv.wait);
	assert_false(wait_is_full(&sv, HTTP_CLASS_SYMBOLIZE, 1));
	/* Client 1 has all. */
	c->n = c->n_of[1] = 8;
	c->n_clients = 1;
	assert_true(wait_is_full(&sv, HTTP_CLASS_SYMBOLIZE, 1));
	assert_false(wait_is_full(&sv, HTTP_CLASS_SYMBOLIZE, 2));
	assert_false(wait_is_full(&sv, HTTP_CLASS_ARTIFACT, 1));
	/* Client 2 may have half. */
	c->n = 8 + 3;
	c->n_of[2] = 3;
	c->n_clients = 2;
	assert_false(wait_is_full(&sv, HTTP_CLASS_SYMBOLIZE, 2));
	c->n = 8 + 4;
	c->n_of[2] = 4;
	assert_true(wait_is_full(&sv, HTTP_CLASS_SYMBOLIZE, 2));
	assert_false(wait_is_full(&sv, HTTP_CLASS_SYMBOLIZE, 3));
	wait_done(&sv.wait);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_is_limited_by_class_and_client),
		cmocka_unit_test_setup_teardown(work_ends_at_its_deadline, setup, teardown),
		cmocka_unit_test_setup_teardown(work_ends_when_the_client_hangs_up, setup_without_deadline,
						teardown),
		cmocka_unit_test_setup_teardown(work_ends_when_the_server_stops, setup_without_deadline,
						teardown),
		cmocka_unit_test_setup_teardown(a_request_goes_to_its_row, setup, teardown),
		cmocka_unit_test(a_token_may_be_the_password_of_basic),
		cmocka_unit_test_setup_teardown(calls_are_refused_in_the_form_of_connect, setup, teardown),
		cmocka_unit_test_setup_teardown(a_request_of_grpc_web_is_refused_in_its_form, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_refused_body_is_read_so_that_the_reply_arrives, setup,
						teardown),
		cmocka_unit_test(statuses_imply_codes_of_connect),
		cmocka_unit_test_setup_teardown(another_method_is_405_with_those_of_the_path, setup,
						teardown),
		cmocka_unit_test_setup_teardown(bodies_have_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(runs_on_workers_sleep_and_go_on, setup, teardown),
		cmocka_unit_test_setup_teardown(head_has_no_body, setup, teardown),
		cmocka_unit_test_setup_teardown(other_sites_are_refused_without_a_token, setup, teardown),
		cmocka_unit_test_setup_teardown(ambiguous_heads_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(browsers_are_refused_under_foreign_names, setup, teardown),
		cmocka_unit_test_setup_teardown(proxies_have_no_rights, setup, teardown),
		cmocka_unit_test_setup_teardown(another_user_of_this_machine_may_only_read, setup, teardown),
		cmocka_unit_test_setup_teardown(every_target_up_to_the_limit_is_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_headers_are_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(without_a_token_all_paths_are_401, setup_tokens, teardown),
		cmocka_unit_test_setup_teardown(the_rate_limit_is_before_all_else, setup_limit, teardown),
		cmocka_unit_test_setup_teardown(options_has_the_methods_of_the_path, setup_cors, teardown),
		cmocka_unit_test_setup_teardown(a_preflight_needs_no_token, setup_cors_tokens, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
