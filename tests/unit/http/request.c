/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a request. */
#include "http_fixture.h"

#include <sys/socket.h>
#include <unistd.h>
#include "http/conn.h"

static void a_request_goes_to_its_row(void **state)
{
	struct http_answer a;

	check_answer(http_fetch(http_fixture_url, "GET", "/fixed", NULL), 200, "canned\n");
	check_answer(http_fetch(http_fixture_url, "GET", "http://host/echo/x%2Dy", NULL), 200, "x-y by : ");
	check_answer(ask_with_body("POST", "/echo/x", "", "hello"), 200, "x by loopback: hello");
	check_answer(ask_with_body("POST", "http://host/echo/x", "", "hello"), 200, "x by loopback: hello");
	a = http_fetch(http_fixture_url, "GET", "/nothing", NULL);
	check_answer(a, 404, "no such path\n");
	check_answer(ask_with_body("POST", "/nothing", "", "x"), 404, "no such path\n");
	check_answer(ask_with_body("PUT", "/api/nothing", "", "x"), 404,
		     "{\"error\":\"there is /api/echo\"}\n");
}

static void another_method_is_405_with_those_of_the_path(void **state)
{
	struct http_answer a = http_fetch(http_fixture_url, "DELETE", "/echo/x", NULL);

	assert_string_equal(http_answer_header(&a, "Allow"), "GET, HEAD, POST");
	check_answer(a, 405, "this path takes GET, HEAD, POST\n");
	a = http_fetch(http_fixture_url, "GET", "/api/echo/x", NULL);
	assert_string_equal(http_answer_header(&a, "Allow"), "POST");
	check_answer(a, 405, "{\"error\":\"this path takes POST\"}\n");
}

static void calls_are_refused_in_the_form_of_connect(void **state)
{
	static const char *const grpc[] = { "application/grpc", "application/grpc",
					    "application/gRPC+proto" };
	char long_one[2 * DROPS_MAX];
	struct http_answer a = http_fetch(http_fixture_url, "GET", CALL, NULL);

	assert_string_equal(http_answer_header(&a, "Allow"), "POST");
	check_connect(a, 405, "{\"code\":\"unimplemented\",\"message\":\"this path takes POST\"}\n");
	check_answer(ask_with_body("POST", CALL, "Content-Type: application/proto\r\n", "x"), 200,
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
		check_answer(a, 404, CONNECT_NO_GRPC "\n");
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
		check_answer(ask_with_body("POST", "/nothing", "", large), 404, "no such path\n");
	http_client_open(&c, http_fixture_url);
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
	http_client_open(&c, http_fixture_url);
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
	check_answer(ask_with_body("POST", "/echo/x", "", long_one), 413, "more than 100\n");
	check_answer(ask_with_body("POST", "/api/echo/x", "", long_one), 413,
		     "{\"error\":\"more than 100\"}\n");
	check_answer(ask_in_chunks("/echo/x"), 411, "a Content-Length is needed\n");
	/* A handler that takes the body itself has no limit here. */
	check_answer(ask_with_body("PUT", "/drops", "", long_one), 200, "199\n");
	check_answer(ask_with_body("PUT", "/drops", "X-Refuse: 1\r\n", long_one), 422, "as you like\n");
}

static void runs_on_workers_sleep_and_go_on(void **state)
{
	check_answer(http_fetch(http_fixture_url, "GET", "/sleeps", NULL), 200, "slept\n");
	assert_int_equal(atomic_load(&http_fixture.n_run), 3);
	check_answer(http_fetch(http_fixture_url, "GET", "/continues", NULL), 201, "continued\n");
	check_answer(http_fetch(http_fixture_url, "GET", "/waits", NULL), 503, "expired\n");
	assert_true(atomic_load(&http_fixture.n_ticks) > 0);
}

static void head_has_no_body(void **state)
{
	struct http_client c;
	struct http_answer a;

	http_client_open(&c, http_fixture_url);
	http_client_ask(&c, "HEAD", "/echo/x", NULL);
	a = http_client_answer(&c, true);
	assert_int_equal(a.status, 200);
	assert_int_equal(a.length, strlen("x by : "));
	http_answer_done(&a);
	http_client_close(&c);
}

/* ---- deadlines of work ---- */

static void work_ends_at_its_deadline(void **state)
{
	struct http_answer a = http_fetch(http_fixture_url, "GET", "/toils", NULL);

	assert_int_equal(a.status, 504);
	assert_int_equal(http_fixture.end_of_toil, DEADLINE_PASSED);
	http_answer_done(&a);
}

static void no_deadline(struct http_service_options *o)
{
	o->request_deadline_ms = 3600000;
}

static int setup_without_deadline(void **state)
{
	return http_fixture_setup_with(no_deadline);
}

static void begin_toil(struct http_client *c)
{
	http_client_open(c, http_fixture_url);
	http_client_ask(c, "GET", "/toils", NULL);
	while (!atomic_load(&http_fixture.n_run))
		usleep(1000);
}

static void work_ends_when_the_client_hangs_up(void **state)
{
	struct http_client c;

	begin_toil(&c);
	http_client_close(&c);
	while (!atomic_load(&http_fixture.end_of_toil))
		usleep(1000);
	assert_int_equal(http_fixture.end_of_toil, DEADLINE_CANCELLED);
}

static void work_ends_when_the_server_stops(void **state)
{
	struct http_client c;

	begin_toil(&c);
	wait_stop(http_fixture.service);
	assert_int_equal(http_fixture.end_of_toil, DEADLINE_CANCELLED);
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

/* ---- the end of the service, while a thread resumes a request ---- */

static struct {
	atomic_bool begun, resumed, stopped;
} resuming;

static void ignore_suspend(struct http_conn *c)
{
}

/* Gives wait_stop(), which must not return before this does, much time for doing so. */
static void resume_slowly(struct http_conn *c)
{
	atomic_store(&resuming.begun, true);
	for (int i = 0; i < 200 && !atomic_load(&resuming.stopped); i++)
		usleep(1000);
	atomic_store(&resuming.resumed, true);
}

static bool is_not_gone(struct http_conn *c)
{
	return false;
}

static void *wake_one(void *arg)
{
	wait_wake(arg);
	return NULL;
}

static void the_service_stops_when_no_request_is_suspended(void **state)
{
	static const struct http_transport slow_one = { .suspend = ignore_suspend,
							.resume = resume_slowly,
							.gone = is_not_gone };
	struct http_conn conn = { .transport = &slow_one };
	struct http_service sv = { 0 };
	struct request req = { .service = &sv, .conn = &conn, .deadline_ms = INT64_MAX };
	struct err err = { 0 };
	pthread_t thread;

	wait_init(&sv.wait);
	assert_done(wait_start(&sv, &err));
	assert_true(wait_suspend(&req));
	assert_int_equal(pthread_create(&thread, NULL, wake_one, &req), 0);
	while (!atomic_load(&resuming.begun))
		usleep(1000);
	wait_stop(&sv);
	assert_true(atomic_load(&resuming.resumed));
	atomic_store(&resuming.stopped, true);
	pthread_join(thread, NULL);
	wait_done(&sv.wait);
}

/* ---- events ---- */

/* So many events libmicrohttpd takes at once. */
#define EVENTS 128

static void as_many_requests_as_a_thread_takes_at_once_are_served(void **state)
{
	static struct http_client clients[EVENTS];
	struct http_client holder;

	http_client_open(&holder, http_fixture_url);
	for (size_t i = 0; i < EVENTS; i++) {
		http_client_open(&clients[i], http_fixture_url);
		http_client_ask(&clients[i], "GET", "/fixed", "");
		check_answer(http_client_answer(&clients[i], false), 200, "canned\n");
	}
	http_client_ask(&holder, "GET", "/holds", "");
	while (!atomic_load(&http_fixture.n_run))
		usleep(1000);
	for (size_t i = 0; i < EVENTS; i++)
		http_client_ask(&clients[i], "GET", "/fixed", "");
	atomic_store(&http_fixture.let_go, true);
	/* In no more than the client's patience, which is less than the idle time-out. */
	for (size_t i = 0; i < EVENTS; i++) {
		check_answer(http_client_answer(&clients[i], false), 200, "canned\n");
		http_client_close(&clients[i]);
	}
	http_client_close(&holder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(as_many_requests_as_a_thread_takes_at_once_are_served,
						http_fixture_setup, http_fixture_teardown),
		cmocka_unit_test(waiting_is_limited_by_class_and_client),
		cmocka_unit_test(the_service_stops_when_no_request_is_suspended),
		cmocka_unit_test_setup_teardown(work_ends_at_its_deadline, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(work_ends_when_the_client_hangs_up, setup_without_deadline,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(work_ends_when_the_server_stops, setup_without_deadline,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(a_request_goes_to_its_row, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(calls_are_refused_in_the_form_of_connect, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(a_request_of_grpc_web_is_refused_in_its_form,
						http_fixture_setup, http_fixture_teardown),
		cmocka_unit_test_setup_teardown(a_refused_body_is_read_so_that_the_reply_arrives,
						http_fixture_setup, http_fixture_teardown),
		cmocka_unit_test(statuses_imply_codes_of_connect),
		cmocka_unit_test_setup_teardown(another_method_is_405_with_those_of_the_path,
						http_fixture_setup, http_fixture_teardown),
		cmocka_unit_test_setup_teardown(bodies_have_limits, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(runs_on_workers_sleep_and_go_on, http_fixture_setup,
						http_fixture_teardown),
		cmocka_unit_test_setup_teardown(head_has_no_body, http_fixture_setup, http_fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
