/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a request of HTTP/2. The receiver takes it as it comes, or later: bytes that it does not take are held, and
 * open no window. One that is refused is read and ignored.
 */
#include "http/h2.h"

#include <strings.h>
#include "http/request.h"

/* Give the receiver the held bytes of the body. false: it has not taken all, and is suspended. */
bool h2_body_feed(struct h2_stream *s)
{
	const struct http_receiver *to = h2_receiver(s);
	size_t n = s->held.size - s->held_at, taken;

	if (!n)
		return true;
	taken = to->body(to->arg, &s->req, s->ctx, bytes_of(s->held.p + s->held_at, n));
	s->held_at += taken;
	if (taken && !s->closed)
		nghttp2_session_consume(s->c->session, s->id, taken);
	if (taken < n)
		return false;
	s->held.size = s->held_at = 0;
	return true;
}

/* A client of gRPC itself, which takes trailers: not curl with such a type. */
static bool has_grpc_client(struct h2_stream *s)
{
	const char *te = http_header(&s->conn, "te");

	return grpc_form_of(&s->conn) == GRPC_PLAIN && te && strcasecmp(te, "trailers") == 0;
}

/*
 * The reply waits for the rest of the body, if that is short, as with HTTP/1.1: some clients take a reply before the end
 * of their request for a failure (curl 7.88). It does not wait for a client that waits for 100 Continue or has much to
 * send, nor for one of gRPC, which may have nothing to send before it sees the reply.
 */
void h2_body_drop(struct h2_stream *s, uint64_t size)
{
	bool waits = size <= H2_DROPPED && !http_header(&s->conn, "expect") && !has_grpc_client(s);

	http_drop_begin(&s->conn.drop, H2_DROPPED);
	s->spare_ms = waits ? SLOW_DROP_MS : -1;
	s->seen_ms = clock_mono_ms();
}

bool h2_body_may_end(struct h2_stream *s)
{
	const struct http_receiver *to = h2_receiver(s);
	struct http_drop *drop = &s->conn.drop;

	if (!drop->on && !to->settled(to->arg, s->ctx))
		return false;
	/* Of a body that was begun, the part that is missing is not known to be short or long. */
	if (!drop->on)
		h2_body_drop(s, 0);
	return drop->n > drop->max || s->spare_ms < 0;
}

/* Keep bytes that the receiver does not take yet: a window of them at most, since no more of it is opened. */
static bool hold_chunk(struct h2_stream *s, struct bytes chunk)
{
	struct budget *memory = s->c->thread->h2->shared->opts.memory;
	size_t more = MAX(s->held_granted, (size_t)KIB(64));

	if (s->held_at) {
		memmove(s->held.p, s->held.p + s->held_at, s->held.size - s->held_at);
		s->held.size -= s->held_at;
		s->held_at = 0;
	}
	if (s->held.size + chunk.size > s->held_granted) {
		more = MAX(more, s->held.size + chunk.size - s->held_granted);
		if (!budget_try(memory, BUDGET_BODY, more))
			return false;
		s->held_granted += more;
	}
	buf_add(&s->held, chunk.p, chunk.size);
	return true;
}

void h2_stream_body(struct h2_stream *s, struct bytes chunk)
{
	const struct http_receiver *to = h2_receiver(s);
	size_t taken = 0;

	s->n_body += chunk.size;
	if (h2_goes_both_ways(s)) {
		nghttp2_session_consume(s->c->session, s->id, chunk.size);
		h2_conn_earn(s->c, (int64_t)(chunk.size / KIB(1)));
		(void)to->body(to->arg, &s->req, s->ctx, chunk);
		h2_stream_drive(s);
		return;
	}
	if (s->conn.drop.on || s->asked) {
		/* The head of a GET need not end its stream: an empty frame or trailers may. */
		if (s->conn.head.get && !s->asked && !s->conn.head.wrong)
			s->conn.head.wrong = H2_WRONG_BODY;
		nghttp2_session_consume(s->c->session, s->id, chunk.size);
		(void)http_drop_add(&s->conn.drop, chunk.size);
		if (!s->asked)
			h2_stream_drive(s);
		return;
	}
	h2_conn_earn(s->c, (int64_t)(chunk.size / KIB(1)));
	if (!s->suspended && s->held.size == s->held_at) {
		taken = to->body(to->arg, &s->req, s->ctx, chunk);
		if (taken)
			nghttp2_session_consume(s->c->session, s->id, taken);
	}
	if (taken < chunk.size && !hold_chunk(s, (struct bytes){ chunk.p + taken, chunk.size - taken })) {
		counters_refused("memory");
		nghttp2_session_consume_connection(s->c->session, chunk.size - taken);
		h2_stream_reset(s, NGHTTP2_ENHANCE_YOUR_CALM);
		return;
	}
	/* Refused by the bytes so far: the reply need not wait for the rest. */
	if (!s->suspended && to->settled(to->arg, s->ctx))
		h2_stream_drive(s);
}

void h2_stream_leave(struct h2_stream *s)
{
	const struct http_receiver *to = h2_receiver(s);

	if (!h2_goes_both_ways(s) || s->closed || s->body_ended)
		return;
	(void)to->body(to->arg, &s->req, s->ctx, (struct bytes){ 0 });
	h2_stream_drive(s);
}

void h2_stream_body_end(struct h2_stream *s)
{
	const struct http_receiver *to = h2_receiver(s);

	s->body_ended = true;
	if (h2_goes_both_ways(s)) {
		(void)to->body(to->arg, &s->req, s->ctx, (struct bytes){ 0 });
		h2_stream_drive(s);
		return;
	}
	/* Its reply may not have waited for it. */
	if (!s->asked)
		h2_stream_drive(s);
}
