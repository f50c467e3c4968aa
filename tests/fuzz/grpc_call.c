/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_call.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <strings.h>
#include "base/sha256.h"
#include "fuzz.h"
#include "resolve/resolve.h"
#include "store/store.h"

#define READ_SIZE 3000u

/* ---- the server ---- */

static struct {
	struct store *store;
	struct resolver *resolver;
	struct budget *memory;
	struct server *server;
} up;

static void stop_server(void)
{
	server_stop(up.server, 0);
	resolve_close(up.resolver);
	store_close(up.store);
	budget_free(up.memory);
}

struct server *grpc_call_server(void)
{
	static const struct str listen[] = { STR("127.0.0.1:0") };
	struct server_options o = { .listen = listen, .n_listen = 1, .http_threads = 1, .workers = 2 };
	const struct store_options with = { .object_list = true };
	uint8_t sum[32] = { 0 };
	struct err err = { 0 };

	if (up.server)
		return up.server;
	log_set_level(LOG_ERROR);
	o.store = up.store = store_open_memory(&with);
	o.resolver = up.resolver = resolve_store_new(up.store);
	o.memory = up.memory = budget_new(BUDGET_TOTAL_LEAST);
	FUZZ_CHECK(server_start(&o, &up.server, &err) == 0);
	/* libcrypto registers its own end with its first use: that must come after the end of our threads. */
	FUZZ_CHECK(sha256_load(&err) == 0);
	sha256_of(bytes_of(sum, sizeof(sum)), sum);
	atexit(stop_server);
	return up.server;
}

struct budget *grpc_call_budget(void)
{
	return up.memory;
}

/* ---- the transport ---- */

static struct grpc_call *call_of(struct http_conn *conn)
{
	return (struct grpc_call *)conn;
}

static const char *call_header(struct http_conn *conn, const char *name)
{
	return strcasecmp(name, "Content-Type") == 0 ? call_of(conn)->type : NULL;
}

static const struct sockaddr *call_peer(struct http_conn *conn)
{
	static struct sockaddr_in addr = { .sin_family = AF_INET };

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

	return (const struct sockaddr *)&addr;
}

static int call_socket(struct http_conn *conn)
{
	return -1;
}

static void call_suspend(struct http_conn *conn)
{
}

static void call_resume(struct http_conn *conn)
{
	struct grpc_call *c = call_of(conn);

	pthread_mutex_lock(&c->lock);
	FUZZ_CHECK(!c->resumed);
	c->resumed = true;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void call_shut(struct http_conn *conn)
{
}

static bool call_gone(struct http_conn *conn)
{
	return false;
}

static enum http_result call_send(struct http_conn *conn, unsigned status, struct http_reply *reply)
{
	struct grpc_call *c = call_of(conn);

	FUZZ_CHECK(!c->has_reply && status >= 200 && reply);
	c->has_reply = true;
	c->reply = http_reply_ref(reply);
	return HTTP_SENT;
}

static const struct http_transport transport = { call_header, call_peer, call_socket, call_suspend,
						 call_resume, call_shut, call_gone,   call_send };

static void await_resume(struct grpc_call *c)
{
	pthread_mutex_lock(&c->lock);
	while (!c->resumed)
		pthread_cond_wait(&c->changed, &c->lock);
	c->resumed = false;
	pthread_mutex_unlock(&c->lock);
}

/* ---- the call ---- */

static struct http_receiver receiver_of_call(void)
{
	return http_service_receiver(grpc_call_server()->http_service);
}

/* Bytes of the reply that are there now. */
static void read_reply(struct grpc_call *c)
{
	char bytes[READ_SIZE];
	ssize_t n;

	if (!c->reply || c->out_ended)
		return;
	if (!c->reply->read) {
		buf_add(&c->out, c->reply->p, c->reply->size);
		c->out_ended = true;
		return;
	}
	while ((n = c->reply->read(c->reply->arg, c->out.size, bytes, sizeof(bytes))) > 0)
		buf_add(&c->out, bytes, (size_t)n);
	c->out_ended = n < 0;
}

static void ask_reply(struct grpc_call *c)
{
	const struct http_receiver to = receiver_of_call();
	enum http_result r;

	while ((r = to.request(to.arg, &c->hr, &c->ctx)) == HTTP_SUSPENDED)
		await_resume(c);
	FUZZ_CHECK(r == HTTP_SENT && c->has_reply);
}

void grpc_call_begin(struct grpc_call *c, const char *path, bool web, bool reads)
{
	const struct http_receiver to = receiver_of_call();

	*c = (struct grpc_call){
		.conn = { .transport = &transport,
			  .head = { .host = "localhost", .two = !web },
			  .trust_known = true,
			  .trusted = true },
		.type = web ? "application/grpc-web+proto" : "application/grpc",
		.reads = reads,
	};
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	c->hr = (struct http_request){ &c->conn, "POST", path };
	c->wants = to.begin(to.arg, &c->hr, &c->ctx);
	if (c->conn.both_ways && c->wants)
		ask_reply(c);
}

static void feed_both_ways(struct grpc_call *c, struct bytes b)
{
	const struct http_receiver to = receiver_of_call();

	FUZZ_CHECK(to.body(to.arg, &c->hr, c->ctx, b) == b.size);
	if (c->reads || !b.size)
		read_reply(c);
	c->wants = !c->out_ended;
}

void grpc_call_feed(struct grpc_call *c, struct bytes b)
{
	const struct http_receiver to = receiver_of_call();

	if (c->wants && c->conn.both_ways && b.size) {
		feed_both_ways(c, b);
		return;
	}
	while (c->wants && b.size) {
		size_t n = to.body(to.arg, &c->hr, c->ctx, b);

		FUZZ_CHECK(n <= b.size);
		if (n < b.size)
			await_resume(c);
		b = (struct bytes){ b.p + n, b.size - n };
		c->wants = !to.settled(to.arg, c->ctx);
	}
}

void grpc_call_end(struct grpc_call *c, bool whole)
{
	const struct http_receiver to = receiver_of_call();
	const struct request *req = c->ctx;

	if (whole && c->conn.both_ways && c->has_reply)
		feed_both_ways(c, (struct bytes){ 0 });
	else if (whole && !c->has_reply)
		ask_reply(c);
	if (whole) {
		read_reply(c);
		FUZZ_CHECK(c->out_ended && req->status);
	}
	c->status = req->status;
	to.done(to.arg, &c->conn, c->ctx, whole);
}

void grpc_call_done(struct grpc_call *c)
{
	http_reply_unref(c->reply);
	buf_done(&c->out);
	http_query_done(&c->conn.query);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->changed);
}
