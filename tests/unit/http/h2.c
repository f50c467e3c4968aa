/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 with threads: many clients at once, requests that other threads resume, clients that hang up meanwhile, and an
 * end of the service in the midst of it. The frames are raw; replies are only followed to their ends.
 */
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "http/request.h"

#define PREFACE    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define CLIENTS    4
#define ROUNDS     10
#define AT_ONCE    5 /* streams */
#define REPLY_SIZE 40000u

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, GOAWAY = 7 };

/* ---- the service: a pool that resumes requests, and replies that are streamed ---- */

struct server {
	struct http *http;
	struct http_service *service;
	struct pool *workers;
};

static struct server server;
static struct budget *memory; /* of the next setup() */
static unsigned idle_s = 60;  /* likewise */

static ssize_t filler_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	memset(buf, 'x', max);
	return (ssize_t)max;
}

static enum http_next filler_run(struct request *req)
{
	usleep(200);
	req->reply = http_reply_stream(REPLY_SIZE + req->body.size, filler_read, NULL);
	req->status = 200;
	req->bytes = REPLY_SIZE;
	return HTTP_REPLY;
}

static const struct http_body filler_takes = { .max = 1000,
					       .max_together = MIB(1),
					       .too_long = "more than 1000" };
static const struct http_handler filler = { .run = filler_run };
static const struct http_route routes[] = {
	{ HTTP_POST, "/filler", TOKEN_READ, HTTP_ON_WORKER, 0, 0, &filler_takes, &filler },
	{ 0 },
};

static int setup(void **state)
{
	static const char *const types[] = { "things", "other", NULL }, *const results[] = { "made", "error",
											     NULL };
	static const struct str listen[] = { STR("127.0.0.1:0") };
	struct http_options http = { .listen = listen,
				     .n_listen = 1,
				     .listen_grpc = listen,
				     .n_listen_grpc = 1,
				     .memory = memory,
				     .threads = 2,
				     .max_connections = 64,
				     .idle_timeout_s = idle_s };
	struct http_service_options o = { .server = &server,
					  .routes = routes,
					  .types = types,
					  .other_type = 1,
					  .results = results,
					  .max_queued = 64,
					  .request_deadline_ms = 10000 };
	struct err err = { 0 };

	log_set_level(LOG_ERROR);
	assert_done(http_load(&err));
	o.workers = server.workers = pool_new_fair(&(struct pool_options){
		.name = "test", .n_threads = 2, .max_queued = 1, .n_classes = HTTP_WORKER_CLASSES });
	assert_done(http_service_new(&o, &server.service, &err));
	http.receiver = http_service_receiver(server.service);
	assert_done(http_start(&http, &server.http, &err));
	return 0;
}

static int teardown(void **state)
{
	http_quiesce(server.http);
	wait_stop(server.service);
	http_stop(server.http);
	assert_int_equal(atomic_load(&server.service->n_open), 0);
	assert_int_equal(atomic_load(&server.service->body_bytes[0]), 0);
	pool_free(server.workers);
	http_service_free(server.service);
	return 0;
}

/* ---- a client ---- */

/* @receive: the size of its socket's buffer; 0: the usual one. */
static int client_open(int receive)
{
	const char *url = http_grpc_urls(server.http)[0];
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_port = htons((uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
	if (receive)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof(receive));
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    send(fd, PREFACE, sizeof(PREFACE) - 1, MSG_NOSIGNAL) < 0)
		abort();
	return fd;
}

static void put_frame(struct buf *b, unsigned type, unsigned flags, unsigned stream, struct bytes payload)
{
	const uint8_t head[] = {
		0, (uint8_t)(payload.size >> 8), (uint8_t)payload.size, (uint8_t)type, (uint8_t)flags, 0,
		0, (uint8_t)(stream >> 8),       (uint8_t)stream
	};

	buf_add(b, head, sizeof(head));
	buf_add(b, payload.p, payload.size);
}

static void put_literal(struct buf *b, const char *name, const char *value)
{
	buf_add_char(b, '\0');
	buf_add_char(b, (char)strlen(name));
	buf_add_str(b, str_of(name));
	buf_add_char(b, (char)strlen(value));
	buf_add_str(b, str_of(value));
}

static void put_request(struct buf *b, unsigned stream)
{
	AUTO(buf_done) struct buf head = { 0 };

	put_literal(&head, ":method", "POST");
	put_literal(&head, ":scheme", "http");
	put_literal(&head, ":path", "/filler");
	put_literal(&head, ":authority", "localhost");
	put_frame(b, HEADERS, 4, stream, buf_bytes(&head));
	put_frame(b, DATA, 0, stream, bytes_of("hello", 5));
	put_frame(b, DATA, 1, stream, bytes_of("world", 5));
}

/* The next frame; its payload is skipped. false: the end. */
static bool next_frame(int fd, unsigned *type, unsigned *flags)
{
	uint8_t head[9], rest[4096];
	size_t size;

	if (recv(fd, head, sizeof(head), MSG_WAITALL) != sizeof(head))
		return false;
	*type = head[3];
	*flags = head[4];
	for (size = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]; size;) {
		ssize_t n = recv(fd, rest, MIN(size, sizeof(rest)), 0);

		if (n <= 0)
			return false;
		size -= (size_t)n;
	}
	return true;
}

/* Some streams at once. @hangs_up: before the replies are there. Returns how many have ended. */
static unsigned ask_some(bool hangs_up)
{
	/* A window that is large enough for all replies. */
	static const uint8_t settings[] = { 0, 4, 0, 0x10, 0, 0 }, window[] = { 0, 0x10, 0, 0 };
	AUTO(buf_done) struct buf out = { 0 };
	unsigned n = 0, type, flags;
	int fd = client_open(0);

	put_frame(&out, 4, 0, 0, bytes_of(settings, sizeof(settings)));
	put_frame(&out, 8, 0, 0, bytes_of(window, sizeof(window)));
	for (unsigned i = 0; i < AT_ONCE; i++)
		put_request(&out, 2 * i + 1);
	if (send(fd, out.p, out.size, MSG_NOSIGNAL) != (ssize_t)out.size)
		abort();
	while (!hangs_up && n < AT_ONCE && next_frame(fd, &type, &flags))
		n += (type == DATA || type == HEADERS) && flags & 1;
	close(fd);
	return n;
}

static void *client_run(void *arg)
{
	unsigned *n = arg;

	for (int i = 0; i < ROUNDS; i++)
		*n += ask_some(i % 3 == 2);
	return NULL;
}

static void clients_at_once_get_their_replies(void **state)
{
	pthread_t threads[CLIENTS];
	unsigned n[CLIENTS] = { 0 };

	for (int i = 0; i < CLIENTS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, client_run, &n[i]), 0);
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(n[i], (ROUNDS - ROUNDS / 3) * AT_ONCE);
	}
}

static atomic_uint n_asked; /* clients of client_until_the_end() whose requests are on their way */

static void *client_until_the_end(void *arg)
{
	AUTO(buf_done) struct buf out = { 0 };
	unsigned type, flags, *goaway = arg;
	int fd = client_open(0);

	for (unsigned i = 0; i < AT_ONCE; i++)
		put_request(&out, 2 * i + 1);
	if (send(fd, out.p, out.size, MSG_NOSIGNAL) != (ssize_t)out.size)
		abort();
	atomic_fetch_add(&n_asked, 1);
	/* No window is opened, so the replies stay. */
	while (next_frame(fd, &type, &flags))
		*goaway += type == GOAWAY;
	close(fd);
	return NULL;
}

static void the_service_ends_with_open_streams(void **state)
{
	pthread_t threads[CLIENTS];
	unsigned n[CLIENTS] = { 0 };

	for (int i = 0; i < CLIENTS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, client_until_the_end, &n[i]), 0);
	/*
	 * A connection is counted before its client has sent anything. The default window has room for one reply, so all other
	 * requests stay open.
	 */
	while (atomic_load(&n_asked) < CLIENTS ||
	       atomic_load(&server.service->n_open) < CLIENTS * (AT_ONCE - 1))
		usleep(1000);
	http_quiesce(server.http);
	usleep(20000);
	teardown(state);
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(n[i], 1);
	}
}

/* ---- a head without an end ---- */

static int setup_with_short_idle(void **state)
{
	int r;

	idle_s = 1;
	r = setup(state);
	idle_s = 60;
	return r;
}

/* Its first frame is in the same bytes as a whole request, so the connection is in use when it begins. */
static void a_head_without_an_end_ends_its_connection(void **state)
{
	AUTO(buf_done) struct buf out = { 0 }, head = { 0 };
	const struct timeval limit = { .tv_sec = 20 };
	unsigned type, flags, n_ended = 0, n_goaway = 0;
	int fd = client_open(0);

	put_literal(&head, ":method", "POST");
	put_request(&out, 1);
	put_frame(&out, HEADERS, 0, 3, buf_bytes(&head));
	if (send(fd, out.p, out.size, MSG_NOSIGNAL) != (ssize_t)out.size)
		abort();
	/* If the server does not end it, the test does not wait for ever. */
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	while (next_frame(fd, &type, &flags)) {
		n_ended += type == DATA && flags & 1;
		n_goaway += type == GOAWAY;
	}
	assert_int_equal(n_ended, 1);
	assert_int_equal(n_goaway, 1);
	for (int i = 0; i < 10000 && http_connections(server.http); i++)
		usleep(1000);
	assert_int_equal(http_connections(server.http), 0);
	close(fd);
}

/* ---- replies that wait for their client ---- */

static int setup_with_memory(void **state)
{
	memory = budget_new(BUDGET_TOTAL_LEAST);
	return setup(state);
}

static int teardown_with_memory(void **state)
{
	teardown(state);
	budget_free(TAKE(memory));
	return 0;
}

static struct budget_class_stats reply_stats(void)
{
	struct budget_stats stats;

	budget_stats(memory, &stats);
	return stats.classes[BUDGET_REPLY];
}

#define SILENT_ASKS \
	60u /* of 40 KB each: more than the sockets take, no more than the requests that may wait */

/* A client with a large window and a small socket, which asks for much and reads nothing. */
static int open_silent_client(void)
{
	static const uint8_t settings[] = { 0, 4, 0x7f, 0, 0, 0 }, window[] = { 0x70, 0, 0, 0 };
	AUTO(buf_done) struct buf out = { 0 };
	int fd = client_open(4096);

	put_frame(&out, 4, 0, 0, bytes_of(settings, sizeof(settings)));
	put_frame(&out, 8, 0, 0, bytes_of(window, sizeof(window)));
	for (unsigned i = 0; i < SILENT_ASKS; i++)
		put_request(&out, 2 * i + 1);
	if (send(fd, out.p, out.size, MSG_NOSIGNAL) != (ssize_t)out.size)
		abort();
	return fd;
}

static bool wait_until_granted(bool some)
{
	for (int i = 0; i < 10000 && (reply_stats().used > 0) != some; i++)
		usleep(1000);
	return (reply_stats().used > 0) == some;
}

static void replies_that_are_not_read_are_granted(void **state)
{
	int fd = open_silent_client();

	assert_true(wait_until_granted(true));
	assert_in_range(reply_stats().used, KIB(16), KIB(256));
	close(fd);
	assert_true(wait_until_granted(false));
}

static void without_memory_a_client_that_does_not_read_is_cut(void **state)
{
	uint64_t all = 0, n_refused;
	unsigned type, flags, n_ended = 0;
	int fd;

	while (budget_try(memory, BUDGET_REPLY, KIB(4)))
		all += KIB(4);
	n_refused = reply_stats().n_refused;
	fd = open_silent_client();
	for (int i = 0; i < 10000 && reply_stats().n_refused == n_refused; i++)
		usleep(1000);
	assert_true(reply_stats().n_refused > n_refused);
	for (int i = 0; i < 10000 && http_connections(server.http); i++)
		usleep(1000);
	assert_int_equal(http_connections(server.http), 0);
	/* Bytes that were on their way are there, and then the end. */
	while (next_frame(fd, &type, &flags))
		n_ended += type == DATA && flags & 1;
	assert_in_range(n_ended, 0, SILENT_ASKS - 1);
	close(fd);
	/* Clients that read get their replies all the same. */
	assert_int_equal(ask_some(false), AT_ONCE);
	budget_return(memory, BUDGET_REPLY, all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(clients_at_once_get_their_replies, setup, teardown),
		cmocka_unit_test_setup(the_service_ends_with_open_streams, setup),
		cmocka_unit_test_setup_teardown(a_head_without_an_end_ends_its_connection,
						setup_with_short_idle, teardown),
		cmocka_unit_test_setup_teardown(replies_that_are_not_read_are_granted, setup_with_memory,
						teardown_with_memory),
		cmocka_unit_test_setup_teardown(without_memory_a_client_that_does_not_read_is_cut,
						setup_with_memory, teardown_with_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
