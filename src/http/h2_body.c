/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a request of HTTP/2. The receiver takes it as it comes, or later: bytes that it does not take are held, and
 * open no window. One that is refused is read and ignored.
 */
#include "http/h2.h"

#include "http/request.h"

/* Give the receiver what is held of the body. false: it has not taken all, and is suspended. */
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

/* From now on its body is dropped. */
void h2_body_drop(struct h2_stream *s)
{
	s->drops = true;
	s->spare_ms = SLOW_DROP_MS;
	s->seen_ms = clock_mono_ms();
}

/*
 * A reply that does not depend on the rest of the body waits for it all the same, if that is short, as with HTTP/1.1:
 * some clients take a reply before the end of their request for a failure (curl 7.88).
 */
bool h2_body_may_end(struct h2_stream *s)
{
	const struct http_receiver *to = h2_receiver(s);

	if (!s->drops && !to->settled(to->arg, s->ctx))
		return false;
	if (!s->drops)
		h2_body_drop(s);
	return s->n_dropped > H2_DROPPED || s->spare_ms < 0;
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
	/* It is dropped. */
	if (s->drops || s->asked) {
		nghttp2_session_consume(s->c->session, s->id, chunk.size);
		s->n_dropped += chunk.size;
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
	/* Refused by what has come: the reply need not wait for the rest. */
	if (!s->suspended && to->settled(to->arg, s->ctx))
		h2_stream_drive(s);
}

void h2_stream_body_end(struct h2_stream *s)
{
	s->body_ended = true;
	/* Its reply may not have waited for it. */
	if (!s->asked)
		h2_stream_drive(s);
}
