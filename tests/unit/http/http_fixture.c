/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

struct server http_fixture;
const char *http_fixture_url;

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

/* Keeps the HTTP thread until the test lets it go. */
static enum http_next hold_run(struct request *req)
{
	atomic_fetch_add(&req->s->n_run, 1);
	while (!atomic_load(&req->s->let_go))
		usleep(1000);
	request_reply_text(req, 200, "held");
	return HTTP_REPLY;
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
				 continues = { .run = continue_run }, holds = { .run = hold_run },
				 waits = { .run = wait_run }, fixed = { .canned = canned },
				 other = { .begin = other_begin }, args = { .run = args_run },
				 other_call = { .begin = other_call_begin },
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
	{ HTTP_GET, "/holds", TOKEN_READ, HTTP_ON_THREAD, 0, .handler = &holds },
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

int http_fixture_setup_with(void (*change)(struct http_service_options *o))
{
	static const char *const types[] = { "things", "other", NULL }, *const results[] = { "made", "error",
											     NULL };
	static const struct str listen[] = { STR("127.0.0.1:0") }, given[] = { STR("http://given.example") };
	struct http_options http = {
		.listen = listen, .n_listen = 1, .threads = 1, .max_connections = 256, .idle_timeout_s = 60
	};
	struct http_service_options o = { .server = &http_fixture,
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

	memset(&http_fixture, 0, sizeof(http_fixture));
	log_set_level(LOG_ERROR);
	assert_done(http_load(&err));
	o.workers = http_fixture.workers = pool_new_fair(&(struct pool_options){
		.name = "test", .n_threads = 2, .max_queued = 1, .n_classes = HTTP_WORKER_CLASSES });
	if (change)
		change(&o);
	assert_done(http_service_new(&o, &http_fixture.service, &err));
	http_fixture.canned = reply_canned(http_fixture.service, 200, "canned\n");
	http.receiver = http_service_receiver(http_fixture.service);
	assert_done(http_start(&http, &http_fixture.http, &err));
	http_fixture_url = http_urls(http_fixture.http)[0];
	return 0;
}

int http_fixture_setup(void **state)
{
	return http_fixture_setup_with(NULL);
}

int http_fixture_teardown(void **state)
{
	wait_stop(http_fixture.service);
	http_stop(http_fixture.http);
	assert_int_equal(atomic_load(&http_fixture.service->n_open), 0);
	for (unsigned i = 0; i < HTTP_BODY_SLOTS; i++)
		assert_int_equal(atomic_load(&http_fixture.service->body_bytes[i]), 0);
	pool_free(http_fixture.workers);
	http_reply_unref(http_fixture.canned.reply);
	http_service_free(http_fixture.service);
	return 0;
}

struct http_answer ask_with_body(const char *method, const char *path, const char *headers, const char *body)
{
	AUTO(mem_freep) char *all = mem_printf("%sContent-Length: %zu\r\n", headers, strlen(body));
	struct http_answer a;
	struct http_client c;

	http_client_open(&c, http_fixture_url);
	http_client_ask(&c, method, path, all);
	http_client_send(&c, body);
	a = http_client_answer(&c, false);
	http_client_close(&c);
	return a;
}

struct http_answer ask_in_chunks(const char *path)
{
	struct http_answer a;
	struct http_client c;

	http_client_open(&c, http_fixture_url);
	http_client_ask(&c, "POST", path, "Transfer-Encoding: chunked\r\n");
	http_client_send(&c, "1\r\nx\r\n0\r\n\r\n");
	a = http_client_answer(&c, false);
	http_client_close(&c);
	return a;
}

/* The reply has this status and body. */
void check_answer(struct http_answer a, int status, const char *body)
{
	assert_int_equal(a.status, status);
	assert_string_equal(buf_cstr(&a.body), body);
	http_answer_done(&a);
}

void check_connect(struct http_answer a, int status, const char *body)
{
	/* A client takes no other type for an error. */
	assert_string_equal(http_answer_header(&a, "Content-Type"), "application/json");
	check_answer(a, status, body);
}
