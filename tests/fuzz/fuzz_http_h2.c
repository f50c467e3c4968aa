/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of HTTP/2, without a socket. The first byte chooses what the receiver does; then the preface and an empty
 * SETTINGS are sent, and the rest of the input after them, in pieces. The receiver replies with what it got, suspends now
 * and then, and checks the order of its calls.
 */
#include "fuzz.h"

#include <netinet/in.h>
#include <stdlib.h>
#include "base/budget.h"
#include "http/h2.h"

#define PREFACE  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define PIECE    700u
#define OUT_MAX  MIB(4) /* bytes for one piece: replies of all streams and frames about them */
#define BODY_MAX 3000u

static uint8_t mode;
static unsigned n_open;

struct fuzz_request {
	size_t size;
	size_t to_echo; /* of a request that goes both ways */
	bool slept, has_sent, takes, both_ways, ended;
	struct http_conn *asleep;
};

static struct fuzz_request *asleep[H2_STREAMS];
static size_t n_asleep;

static void go_to_sleep(struct fuzz_request *r, struct http_conn *c)
{
	FUZZ_CHECK(!r->asleep && n_asleep < H2_STREAMS);
	r->asleep = c;
	asleep[n_asleep++] = r;
	http_suspend(c);
}

static struct fuzz_request *request_of(void **ctx)
{
	if (!*ctx) {
		*ctx = NEW(struct fuzz_request);
		n_open++;
	}
	return *ctx;
}

static ssize_t fuzz_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	memset(buf, 'x', max);
	return pos > 50000 ? HTTP_STREAM_END : (ssize_t)MIN(max, (size_t)9000);
}

/* As many bytes as have come; nothing until more do. */
static ssize_t echo_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct fuzz_request *r = arg;
	size_t n = MIN(max, r->to_echo);

	if (!n && r->ended)
		return HTTP_STREAM_END;
	memset(buf, 'e', n);
	r->to_echo -= n;
	return (ssize_t)n;
}

static enum http_result fuzz_request(void *arg, const struct http_request *req, void **ctx)
{
	struct fuzz_request *r = request_of(ctx);
	struct http_reply *reply;
	enum http_result result;

	FUZZ_CHECK(!r->has_sent && !r->asleep);
	FUZZ_CHECK(req->method && req->url && http_head(req->conn));
	(void)http_header(req->conn, "content-type");
	(void)http_arg(req->conn, "a");
	if (mode & 1 && !r->slept && !r->both_ways) {
		r->slept = true;
		go_to_sleep(r, req->conn);
		return HTTP_SUSPENDED;
	}
	if (mode & 2 && r->size % 3 == 1)
		return HTTP_CUT;
	reply = r->both_ways ? http_reply_stream(HTTP_SIZE_UNKNOWN, echo_read, r)
		: mode & 4   ? http_reply_stream(HTTP_SIZE_UNKNOWN, fuzz_read, NULL)
			     : http_reply_copy("hello", mode & 8 ? 5 : 0);
	http_reply_header(reply, "Content-Type", "text/plain");
	if (mode & 16)
		http_reply_trailer(reply, "grpc-status", "0");
	r->has_sent = true;
	result = http_send(req->conn, 200, reply);
	http_reply_unref(reply);
	return result;
}

static bool fuzz_begin(void *arg, const struct http_request *req, void **ctx)
{
	struct fuzz_request *r = request_of(ctx);

	r->takes = !(mode & 32);
	if (mode & 128 && r->takes)
		r->both_ways = http_both_ways(req->conn);
	return r->takes;
}

static size_t fuzz_body(void *arg, const struct http_request *req, void *ctx, struct bytes chunk)
{
	struct fuzz_request *r = ctx;

	if (r->both_ways) {
		FUZZ_CHECK(r->takes && r->has_sent);
		r->to_echo += chunk.size;
		r->ended |= !chunk.size || r->to_echo > MIB(1);
		return chunk.size;
	}
	FUZZ_CHECK(r->takes && !r->has_sent && !r->asleep && chunk.size);
	if (mode & 64 && chunk.size > 10) {
		r->size += 10;
		go_to_sleep(r, req->conn);
		return 10;
	}
	r->size += chunk.size;
	return chunk.size;
}

static bool fuzz_settled(void *arg, void *ctx)
{
	return ((struct fuzz_request *)ctx)->size > BODY_MAX;
}

static void fuzz_done(void *arg, struct http_conn *c, void *ctx, bool complete)
{
	struct fuzz_request *r = ctx;

	FUZZ_CHECK(!r->asleep && n_open);
	n_open--;
	free(r);
}

static void wake_all(struct h2_thread *t)
{
	while (n_asleep) {
		struct fuzz_request *r = asleep[--n_asleep];

		http_resume(TAKE(r->asleep));
	}
	h2_thread_resume(t);
}

/* All that is to be sent. */
static void drain_out(struct h2_conn *c)
{
	size_t before, n = 0;

	do {
		before = c->out.size;
		h2_conn_make(c, H2_OUT);
		n += c->out.size - before;
		FUZZ_CHECK(n <= OUT_MAX);
	} while (c->out.size != before);
	c->out.size = 0;
}

static void feed_all(struct h2_thread *t, struct h2_conn *c, const uint8_t *data, size_t size)
{
	bool ok = h2_conn_feed(c, bytes_of(PREFACE, sizeof(PREFACE) - 1));

	FUZZ_CHECK(ok);
	for (size_t n; ok && size && !h2_conn_is_over(c); data += n, size -= n) {
		n = MIN(size, (size_t)PIECE);
		ok = h2_conn_feed(c, bytes_of(data, n));
		drain_out(c);
		FUZZ_CHECK(c->n_streams <= H2_STREAMS && n_open <= H2_STREAMS);
		if (mode & 128)
			wake_all(t);
	}
	h2_conn_sweep(c, clock_mono_ms());
	drain_out(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_shared shared = {
		.opts = { .max_connections = 200,
			  .idle_timeout_s = 60,
			  .min_rate = 100,
			  .receiver = { NULL, fuzz_request, fuzz_begin, fuzz_body, fuzz_settled,
					fuzz_done } },
	};
	static struct h2 h2 = { .shared = &shared };
	static struct h2_thread t = {
		.h2 = &h2, .epoll = -1, .event = -1, .lock = PTHREAD_MUTEX_INITIALIZER
	};
	const struct sockaddr_in addr = { .sin_family = AF_INET };
	struct h2_conn *c;
	struct err err = { 0 };

	FUZZ_CHECK(http_load(&err) == 0 && h2_load(&err) == 0);
	if (!size)
		return 0;
	mode = data[0];
	c = h2_conn_new(&t, -1, (const struct sockaddr *)&addr);
	feed_all(&t, c, data + 1, size - 1);
	/* Half of them end asleep, when the client is gone. */
	if (mode & 1)
		h2_conn_kill(c);
	wake_all(&t);
	if (!c->dead)
		drain_out(c);
	h2_conn_kill(c);
	wake_all(&t);
	FUZZ_CHECK(!c->first && !n_open && !n_asleep);
	t.touched = NULL;
	h2_conn_free(c);
	FUZZ_CHECK(!t.first && !atomic_load(&h2.n_streams));
	return 0;
}
