/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of HTTP/2, from the first header of its request to its end; the head of its request; its time.
 */
#include "http/h2.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include "http/request.h"

#define BODY_SPARE_MS  10000   /* as slow.c's: time to spare of a body at its start */
#define UNKNOWN_BODY   MIB(64) /* the size of a body of unknown size, for its limit */
#define TOO_LARGE_HEAD "the headers of a request have 16 KiB at most"

static struct h2_stream *stream_of_conn(struct http_conn *conn)
{
	return (struct h2_stream *)conn;
}

/* ---- a connection's functions ---- */

static const char *text_header(const struct h2_stream *s, const char *name)
{
	const char *p = (const char *)s->text.p, *end = p + s->text.size;

	if (!s->text.size)
		return NULL;
	while (p < end) {
		const char *value = p + strlen(p) + 1;

		if (strcasecmp(p, name) == 0)
			return value;
		p = value + strlen(value) + 1;
	}
	return NULL;
}

static const char *h2_header(struct http_conn *conn, const char *name)
{
	return text_header(stream_of_conn(conn), name);
}

static const struct sockaddr *h2_peer(struct http_conn *conn)
{
	return (const struct sockaddr *)&stream_of_conn(conn)->c->addr;
}

static int h2_socket(struct http_conn *conn)
{
	return stream_of_conn(conn)->c->fd;
}

static void h2_suspend(struct http_conn *conn)
{
	stream_of_conn(conn)->suspended = true;
}

static void h2_resume(struct http_conn *conn)
{
	struct h2_stream *s = stream_of_conn(conn);
	struct h2_thread *t = s->c->thread;
	bool first;

	pthread_mutex_lock(&t->lock);
	first = !t->resumed;
	s->next_resumed = t->resumed;
	t->resumed = s;
	/* Under the lock: the stream, and with it the thread, may be gone afterwards. */
	if (first)
		h2_wake(t);
	pthread_mutex_unlock(&t->lock);
}

/* The stream alone; other requests of the connection go on. From any thread, so its own one does it. */
static void h2_shut(struct http_conn *conn)
{
	struct h2_stream *s = stream_of_conn(conn);

	atomic_store(&s->shut, true);
	atomic_store(&s->c->thread->shuts, true);
	h2_wake(s->c->thread);
}

static bool h2_gone(struct http_conn *conn)
{
	return atomic_load_explicit(&stream_of_conn(conn)->gone, memory_order_relaxed);
}

static const struct http_transport h2_transport = {
	.header = h2_header,
	.peer = h2_peer,
	.socket = h2_socket,
	.suspend = h2_suspend,
	.resume = h2_resume,
	.shut = h2_shut,
	.gone = h2_gone,
	.send = h2_reply_send,
};

/* ---- from its first header to its end ---- */

/* Of its whole cost. false: there is no memory for it. */
static bool grant_stream(struct h2_stream *s, size_t cost)
{
	size_t more = cost > s->granted ? cost - s->granted : 0;

	if (!s->conn.crowded || !more)
		return true;
	if (!budget_try(s->c->thread->h2->shared->opts.memory, BUDGET_REPLY, more)) {
		counters_refused("memory");
		return false;
	}
	s->granted += more;
	return true;
}

/* Of the query as its arguments, each of which has a NUL after its name, and another one. */
static size_t query_cost(const struct h2_stream *s)
{
	const char *path = text_header(s, ":path"), *query = path ? strchr(path, '?') : NULL;

	return query ? 2 * strlen(query) : 0;
}

struct h2_stream *h2_stream_new(struct h2_conn *c, int32_t id, uint32_t *ret_code)
{
	struct h2 *h2 = c->thread->h2;
	unsigned all = atomic_load_explicit(&h2->n_streams, memory_order_relaxed);
	unsigned max = h2->shared->opts.max_connections;
	struct h2_stream *s;

	/* As many requests at once as there may be connections of HTTP/1.1; few of one connection when they are scarce. */
	if (c->n_streams >= H2_STREAMS || all >= max || (all >= max / 2 && c->n_streams >= H2_FEW_STREAMS)) {
		counters_refused("http2 streams");
		/* The client may send it again, at once. */
		*ret_code = NGHTTP2_REFUSED_STREAM;
		return NULL;
	}
	s = NEW(struct h2_stream);
	s->conn.transport = &h2_transport;
	/* The first one of a connection is as a connection of HTTP/1.1. */
	s->conn.crowded = all >= H2_FREE_STREAMS && c->n_streams;
	s->c = c;
	if (s->conn.crowded)
		atomic_store_explicit(&h2->crowded, true, memory_order_relaxed);
	if (!grant_stream(s, H2_STREAM_COST)) {
		*ret_code = NGHTTP2_ENHANCE_YOUR_CALM;
		free(s);
		return NULL;
	}
	s->id = id;
	s->seen_ms = clock_mono_ms();
	s->next = c->first;
	if (c->first)
		c->first->prev = s;
	c->first = s;
	c->n_streams++;
	atomic_fetch_add_explicit(&h2->n_streams, 1, memory_order_relaxed);
	return s;
}

static void stream_free(struct h2_stream *s)
{
	struct h2_conn *c = s->c;

	*(s->prev ? &s->prev->next : &c->first) = s->next;
	if (s->next)
		s->next->prev = s->prev;
	c->n_streams--;
	if (!c->n_streams) {
		c->idle_ms = clock_mono_ms();
		c->trimmed = false;
		slow_answered(&c->slow);
	}
	atomic_fetch_sub_explicit(&c->thread->h2->n_streams, 1, memory_order_relaxed);
	budget_return(c->thread->h2->shared->opts.memory, BUDGET_BODY, s->held_granted);
	budget_return(c->thread->h2->shared->opts.memory, BUDGET_REPLY, s->granted);
	http_reply_unref(s->reply);
	buf_done(&s->held);
	buf_done(&s->text);
	http_query_done(&s->conn.query);
	free(s->path);
	free(s);
}

/* The request has ended for the receiver. */
static void stream_done(struct h2_stream *s, bool complete)
{
	const struct http_receiver *to = h2_receiver(s);

	if (s->ctx)
		to->done(to->arg, &s->conn, s->ctx, complete);
	stream_free(s);
}

void h2_stream_reset(struct h2_stream *s, uint32_t code)
{
	if (!s->closed)
		nghttp2_submit_rst_stream(s->c->session, NGHTTP2_FLAG_NONE, s->id, code);
}

void h2_stream_closed(struct h2_stream *s, bool complete)
{
	s->closed = true;
	atomic_store_explicit(&s->gone, true, memory_order_relaxed);
	if (s->held.size > s->held_at && !s->c->dead)
		nghttp2_session_consume_connection(s->c->session, s->held.size - s->held_at);
	if (!s->suspended)
		stream_done(s, complete && s->sent);
}

/* ---- the head ---- */

int h2_stream_header(struct h2_stream *s, struct str name, struct str value)
{
	s->headers_size += name.size + value.size + 32;
	if (s->headers_size > H2_HEADERS_CUT) {
		counters_refused("http2 headers");
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (s->headers_size > H2_HEADERS || s->headed)
		return 0;
	/* nghttp2 checks that there is no NUL in them. */
	buf_add(&s->text, name.p, name.size);
	buf_add_char(&s->text, '\0');
	buf_add(&s->text, value.p, value.size);
	buf_add_char(&s->text, '\0');
	return 0;
}

static void head_read(struct h2_stream *s, bool ended)
{
	struct http_head *head = &s->conn.head;
	const char *p = (const char *)s->text.p, *end = p + s->text.size, *host;
	const char *path = text_header(s, ":path"), *query = path ? strchr(path, '?') : NULL;
	const char *length = text_header(s, "content-length");

	if (query)
		buf_add_str(&s->conn.query.text, str_of(query + 1));
	/* A copy: the list of headers stays whole. */
	s->path = mem_strndup(path ? path : "/", query ? (size_t)(query - path) : strlen(path ? path : "/"));
	s->req = (struct http_request){ &s->conn, text_header(s, ":method"), s->path };
	if (!s->req.method)
		s->req.method = "GET";
	*head = (struct http_head){
		.two = true, .get = strcmp(s->req.method, "GET") == 0 || strcmp(s->req.method, "HEAD") == 0
	};
	while (p < end) {
		const char *value = p + strlen(p) + 1;

		if (*p != ':' && *p)
			http_head_add(head, str_of(p), value);
		p = value + strlen(value) + 1;
	}
	head->host = text_header(s, ":authority");
	host = text_header(s, "host");
	if (head->host && host && strcasecmp(head->host, host) != 0)
		head->wrong = "the request has two names of its host";
	if (!head->host)
		head->host = host;
	head->has_length = length;
	if (s->headers_size > H2_HEADERS)
		head->wrong = TOO_LARGE_HEAD;
	else if (head->get && !ended && length && strcmp(length, "0") != 0)
		head->wrong = H2_WRONG_BODY;
}

/* ---- its course ---- */

/* Ask the receiver for the reply. */
static void stream_ask(struct h2_stream *s)
{
	const struct http_receiver *to = h2_receiver(s);

	s->asked = true;
	switch (to->request(to->arg, &s->req, &s->ctx)) {
	case HTTP_SENT:
	case HTTP_SUSPENDED:
		break;
	case HTTP_CUT:
		h2_stream_reset(s, NGHTTP2_INTERNAL_ERROR);
		break;
	}
}

/* As far as it goes without more from the client. */
void h2_stream_drive(struct h2_stream *s)
{
	if (s->suspended || s->closed)
		return;
	if (s->reply) {
		if (s->deferred) {
			s->deferred = false;
			nghttp2_session_resume_data(s->c->session, s->id);
		}
		return;
	}
	if (!s->asked && !h2_body_feed(s))
		return;
	if (!s->asked && !s->body_ended && !h2_body_may_end(s))
		return;
	if (!s->suspended)
		stream_ask(s);
}

void h2_stream_begin(struct h2_stream *s, bool ended)
{
	const struct http_receiver *to = h2_receiver(s);
	uint64_t size = UNKNOWN_BODY;
	const char *length;
	bool wants = false;

	if (!grant_stream(s, H2_STREAM_COST + s->text.room + query_cost(s))) {
		/* No receiver has seen it, and none will. */
		s->headed = s->asked = true;
		http_drop_begin(&s->conn.drop, H2_DROPPED);
		h2_stream_reset(s, NGHTTP2_ENHANCE_YOUR_CALM);
		return;
	}
	head_read(s, ended);
	s->headed = true;
	s->body_ended = ended;
	slow_asked(&s->c->slow);
	s->seen_ms = clock_mono_ms();
	s->spare_ms = MIN(BODY_SPARE_MS, (int64_t)s->c->thread->h2->shared->opts.idle_timeout_s * 1000);
	if (!s->conn.head.get && !s->conn.head.wrong) {
		length = text_header(s, "content-length");
		if (length && !str_to_u64(str_of(length), &size))
			size = UNKNOWN_BODY;
		s->body_ms = (int64_t)(MIN(size, UINT64_C(1) << 50) * 1000 / SLOW_BODY_RATE);
		wants = to->begin(to->arg, &s->req, &s->ctx);
		if (s->conn.both_ways && wants) {
			s->spare_ms = (int64_t)s->c->thread->h2->shared->opts.idle_timeout_s * 1000;
			stream_ask(s);
			if (ended)
				h2_stream_body_end(s);
			return;
		}
	}
	if (!wants)
		h2_body_drop(s, s->conn.head.has_length ? size : 0);
	h2_stream_drive(s);
}

void h2_stream_resumed(struct h2_stream *s)
{
	s->suspended = false;
	h2_conn_touch(s->c);
	if (s->closed)
		stream_done(s, false);
	else
		h2_stream_drive(s);
}

/* ---- time ---- */

/* It takes longer than the client may. @n: bytes that have moved. */
static bool spend_stream_time(struct h2_stream *s, int64_t now_ms, uint64_t n)
{
	const struct http_options *o = &s->c->thread->h2->shared->opts;
	int64_t idle_ms = (int64_t)o->idle_timeout_s * 1000;
	uint64_t gained = o->min_rate ? MIN(n - s->seen_bytes, UINT32_MAX) * 1000 / o->min_rate : 0;

	s->spare_ms = MIN(s->spare_ms + (int64_t)gained - (now_ms - s->seen_ms), idle_ms);
	s->seen_bytes = n;
	s->seen_ms = now_ms;
	return o->min_rate && s->spare_ms < 0;
}

void h2_stream_sweep(struct h2_stream *s, int64_t now_ms)
{
	const struct http_options *o = &s->c->thread->h2->shared->opts;
	bool receives = !s->conn.drop.on && !s->body_ended && !s->asked && !s->suspended && s->headed;
	bool replies = s->reply && !s->sent && !s->suspended;

	/* slow.c limits a head by the connection's start or last reply; with other streams that time stands still. */
	if (!s->headed) {
		if (now_ms - s->seen_ms >= (int64_t)o->idle_timeout_s * 1000 * SLOW_FACTOR)
			h2_conn_fail(s->c, NGHTTP2_ENHANCE_YOUR_CALM);
		return;
	}
	if (s->conn.drop.on && !s->asked && !s->closed) {
		s->spare_ms -= now_ms - s->seen_ms;
		h2_stream_drive(s);
	}
	if (s->closed || (!receives && !replies)) {
		s->seen_ms = now_ms;
		return;
	}
	if (receives) {
		if (o->body_deadline_ms)
			s->body_ms -= now_ms - s->seen_ms;
		if (spend_stream_time(s, now_ms, s->n_body) || s->body_ms + o->body_deadline_ms < 0) {
			counters_refused("slow body");
			h2_stream_reset(s, NGHTTP2_CANCEL);
		}
		return;
	}
	/* Either side's bytes count; the other one may have nothing to say. */
	if (s->conn.both_ways) {
		if (spend_stream_time(s, now_ms, s->n_body + s->pos)) {
			counters_refused(s->deferred ? "slow body" : "slow reader");
			h2_stream_reset(s, NGHTTP2_CANCEL);
		}
		return;
	}
	if (spend_stream_time(s, now_ms, s->pos)) {
		counters_refused("slow reader");
		h2_stream_reset(s, NGHTTP2_CANCEL);
	}
}

static void reset_shut_streams(struct h2_thread *t)
{
	for (struct h2_conn *c = t->first; c; c = c->next)
		for (struct h2_stream *s = c->first; s; s = s->next)
			if (atomic_exchange(&s->shut, false)) {
				h2_stream_reset(s, NGHTTP2_ENHANCE_YOUR_CALM);
				h2_conn_touch(c);
			}
}

void h2_thread_resume(struct h2_thread *t)
{
	struct h2_stream *s, *next, *in_order = NULL;

	if (atomic_exchange(&t->shuts, false))
		reset_shut_streams(t);

	pthread_mutex_lock(&t->lock);
	s = TAKE(t->resumed);
	pthread_mutex_unlock(&t->lock);
	for (; s; s = next) {
		next = s->next_resumed;
		s->next_resumed = in_order;
		in_order = s;
	}
	for (s = in_order; s; s = next) {
		next = s->next_resumed;
		h2_stream_resumed(s);
	}
}
