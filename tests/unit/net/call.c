/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests with a body.
 */
#include "test.h"
#include "fault_http.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "net/net.h"

#define BODY_SIZE 300000u
#define WAIT_MS   30000

/* Accepts one request and answers with the body that it received. */
struct echo {
	pthread_t thread;
	int fd;
	char url[64];
	struct buf head;
};

/* Appends more bytes; false: the end. */
static bool read_more(int fd, struct buf *b)
{
	ssize_t n = read(fd, buf_reserve(b, KIB(64)), KIB(64));

	if (n <= 0)
		return false;
	b->size += (size_t)n;
	return true;
}

static void *echo_main(void *arg)
{
	static const char length[] = "Content-Length: ";
	struct echo *e = arg;
	int fd = accept(e->fd, NULL, NULL);
	struct buf out = { 0 };
	const char *end, *said;
	size_t size, at;

	assert_true(fd >= 0);
	while (!(end = strstr(buf_cstr(&e->head), "\r\n\r\n")))
		assert_true(read_more(fd, &e->head));
	at = (size_t)(end - (const char *)e->head.p) + 4;
	said = strstr((const char *)e->head.p, length);
	size = said ? strtoul(said + sizeof(length) - 1, NULL, 10) : 0;
	while (e->head.size - at < size)
		assert_true(read_more(fd, &e->head));
	buf_printf(&out, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", size);
	buf_add(&out, e->head.p + at, size);
	assert_int_equal(fd_write(fd, out.p, out.size, NULL), 0);
	close(fd);
	buf_done(&out);
	return NULL;
}

static void echo_start(struct echo *e)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);

	*e = (struct echo){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	assert_int_equal(bind(e->fd, (struct sockaddr *)&at, size), 0);
	assert_int_equal(listen(e->fd, 4), 0);
	assert_int_equal(getsockname(e->fd, (struct sockaddr *)&at, &size), 0);
	snprintf(e->url, sizeof(e->url), "http://127.0.0.1:%u/x", ntohs(at.sin_port));
	assert_int_equal(pthread_create(&e->thread, NULL, echo_main, e), 0);
}

static void echo_done(struct echo *e)
{
	pthread_join(e->thread, NULL);
	close(e->fd);
	buf_done(&e->head);
}

struct call {
	struct bytes body;
	size_t n_read;
	bool over;
	int outcome;
	unsigned status;
	struct buf answer;
};

static int read_body(void *arg, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct call *c = arg;

	/* Fewer than it has room for. */
	*ret_got = MIN(n, (size_t)1000);
	memcpy(buf, c->body.p + c->n_read, *ret_got);
	c->n_read += *ret_got;
	return 0;
}

static void done(void *arg, struct net_call *call, int outcome, const struct net_call_answer *a,
		 const struct err *err)
{
	struct call *c = arg;

	c->over = true;
	c->outcome = outcome;
	if (outcome < 0) {
		print_message("# %s\n", err->text);
		return;
	}
	c->status = a->status;
	buf_add(&c->answer, a->body.p, a->body.size);
}

static void ask(const struct net_call_request *like, struct call *c)
{
	struct net_call_request req = *like;
	int64_t until_ms = clock_mono_ms() + WAIT_MS;
	struct err err = { 0 };
	struct net *n;
	struct echo e;

	echo_start(&e);
	assert_int_equal(net_new(NULL, &n, &err), 0);
	req.method = "POST";
	req.url = e.url;
	req.arg = c;
	req.done = done;
	net_call_start(n, &req, NULL);
	while (!c->over && clock_mono_ms() < until_ms)
		net_run(n, 100);
	assert_true(c->over);
	assert_int_equal(c->outcome, 0);
	assert_int_equal(c->status, 200);
	net_free(n);
	echo_done(&e);
}

static uint8_t *make_body(void)
{
	uint8_t *body = mem_alloc(BODY_SIZE);

	for (size_t i = 0; i < BODY_SIZE; i++)
		body[i] = (uint8_t)(i * 7 ^ i >> 8);
	return body;
}

static void a_body_in_memory_is_sent(void **state)
{
	AUTO(mem_freep) uint8_t *body = make_body();
	const size_t sizes[] = { BODY_SIZE, 1, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct bytes in = bytes_of(body, sizes[i]);
		struct call c = { 0 };

		ask(&(struct net_call_request){ .body = &in }, &c);
		assert_true(bytes_eq(buf_bytes(&c.answer), in));
		buf_done(&c.answer);
	}
}

static void a_body_is_read_piece_by_piece(void **state)
{
	AUTO(mem_freep) uint8_t *body = make_body();
	struct call c = { .body = bytes_of(body, BODY_SIZE) };

	ask(&(struct net_call_request){ .read = read_body, .body_size = BODY_SIZE }, &c);
	assert_true(bytes_eq(buf_bytes(&c.answer), c.body));
	assert_int_equal(c.n_read, BODY_SIZE);
	buf_done(&c.answer);
}

static bool never_stopped(void *arg)
{
	return false;
}

static bool stopped_at_once(void *arg)
{
	return true;
}

static void an_answer_is_waited_for(void **state)
{
	struct bytes in = bytes_of("abc", 3);
	struct net_call_request req = { .method = "POST", .body = &in };
	struct err err = { 0 };
	struct net_answer a;
	struct str length;
	struct net *n;
	struct echo e;

	echo_start(&e);
	req.url = e.url;
	assert_int_equal(net_new(NULL, &n, &err), 0);
	assert_int_equal(net_call_wait(n, &req, never_stopped, NULL, &a, &err), 0);
	assert_int_equal(a.status, 200);
	assert_int_equal(a.retry_after_s, -1);
	assert_true(bytes_eq(buf_bytes(&a.body), in));
	length = net_header(buf_str(&a.headers), "content-LENGTH");
	assert_true(str_eq(length, STR("3")));
	assert_null(net_header(buf_str(&a.headers), "Content").p);
	net_answer_done(&a);
	net_free(n);
	echo_done(&e);
}

static void a_wait_that_is_stopped_has_no_answer(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	AUTO(fd_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct net_call_request req = { 0 };
	struct err err = { 0 };
	struct net_answer a;
	struct net *n;
	char url[64];

	/* A server that accepts and is silent. */
	assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/x", ntohs(at.sin_port));
	req.url = url;
	assert_int_equal(net_new(NULL, &n, &err), 0);
	assert_true(net_call_wait(n, &req, stopped_at_once, NULL, &a, &err) < 0);
	assert_int_equal(err.kind, ERR_CANCELLED);
	assert_int_equal(a.body.size, 0);
	net_answer_done(&a);
	net_free(n);
}

/* A proxy refuses to connect: that is no answer of the server, which has not got the body. */
static void a_refusal_of_the_proxy_is_no_answer(void **state)
{
	const struct fault_rule rule = { .status = 407, .body = bytes_of("who are you\n", 12) };
	struct fault_http *proxy = fault_http_new(&rule, 1);
	const struct net_options opts = { .proxy = fault_http_url(proxy) };
	const struct bytes body = bytes_of("hello", 5);
	int64_t until_ms = clock_mono_ms() + WAIT_MS;
	struct err err = { 0 };
	struct call c = { .outcome = 0 };
	struct net *n;

	assert_done(net_new(&opts, &n, &err));
	net_call_start(n,
		       &(struct net_call_request){ .method = "POST",
						   .url = "https://192.0.2.1/x",
						   .body = &body,
						   .arg = &c,
						   .done = done },
		       NULL);
	while (!c.over && clock_mono_ms() < until_ms)
		net_run(n, 100);
	assert_true(c.over);
	assert_true(c.outcome < 0);
	assert_true(str_starts(str_of(fault_http_head(proxy, 0)), STR("CONNECT 192.0.2.1:443 ")));
	net_free(n);
	fault_http_free(proxy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_body_in_memory_is_sent),
		cmocka_unit_test(a_body_is_read_piece_by_piece),
		cmocka_unit_test(a_refusal_of_the_proxy_is_no_answer),
		cmocka_unit_test(an_answer_is_waited_for),
		cmocka_unit_test(a_wait_that_is_stopped_has_no_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
