/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reply of a stream of HTTP/2: its headers, the body as libnghttp2 asks for it, its trailers.
 */
#include "http/h2.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#define REPLY_HEADERS_MAX 48u

struct reply_fields {
	nghttp2_nv nv[REPLY_HEADERS_MAX];
	size_t n;
	struct arena arena;
};

static void put_nv(struct reply_fields *f, const char *name, const char *value)
{
	char *lower;

	if (f->n == REPLY_HEADERS_MAX)
		return;
	lower = arena_strdup(&f->arena, str_of(name));
	for (char *p = lower; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	f->nv[f->n++] = (nghttp2_nv){ (uint8_t *)lower, (uint8_t *)arena_strdup(&f->arena, str_of(value)),
				      strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE };
}

/* These are about the connection, and HTTP/2 has none of them (RFC 9113, section 8.2.2). */
static void put_reply_header(void *arg, const char *name, const char *value)
{
	static const char *const not_here[] = { "Connection", "Keep-Alive",     "Transfer-Encoding",
						"Upgrade",    "Content-Length", "Date" };

	for (size_t i = 0; i < ARRAY_SIZE(not_here); i++)
		if (strcasecmp(name, not_here[i]) == 0)
			return;
	put_nv(arg, name, value);
}

static const char *date_now(struct h2_thread *t)
{
	time_t now = (time_t)(clock_wall_ms() / 1000);
	struct tm tm;

	if (t->date_s != now && gmtime_r(&now, &tm))
		strftime(t->date, sizeof(t->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	t->date_s = now;
	return t->date;
}

static void send_trailers(nghttp2_session *session, struct h2_stream *s)
{
	const char *p = (const char *)s->reply->trailers.p, *end = p + s->reply->trailers.size;
	struct reply_fields f = { .n = 0 };

	arena_init(&f.arena);
	while (p < end) {
		const char *value = p + strlen(p) + 1;

		put_nv(&f, p, value);
		p = value + strlen(value) + 1;
	}
	nghttp2_submit_trailer(session, s->id, f.nv, f.n);
	arena_done(&f.arena);
}

/* Up to @max bytes of the body, or HTTP_STREAM_CUT; 0: it was suspended. */
static ssize_t read_reply(struct h2_stream *s, uint8_t *buf, size_t max)
{
	struct http_reply *r = s->reply;
	size_t n = (size_t)MIN((uint64_t)max, r->size - s->pos);
	ssize_t got;

	switch (r->kind) {
	case REPLY_MEM:
		if (n)
			memcpy(buf, r->p + s->pos, n);
		return (ssize_t)n;
	case REPLY_FD:
		do
			got = pread(r->fd, buf, n, (off_t)(r->off + s->pos));
		while (got < 0 && errno == EINTR);
		return got > 0 ? got : HTTP_STREAM_CUT;
	case REPLY_STREAM:
		break;
	}
	return r->read(r->arg, s->pos, (char *)buf, n);
}

static ssize_t h2_on_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t max, uint32_t *flags,
			  nghttp2_data_source *source, void *arg)
{
	struct h2_stream *s = source->ptr;
	ssize_t n = s->pos < s->reply->size ? read_reply(s, buf, max) : HTTP_STREAM_END;

	if (n == HTTP_STREAM_CUT)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (n == 0) {
		/* One that neither is suspended nor waits for its client would be asked for ever. */
		s->deferred = true;
		return s->suspended || (s->conn.both_ways && !s->body_ended)
			       ? NGHTTP2_ERR_DEFERRED
			       : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	if (n > 0) {
		s->pos += (uint64_t)n;
		h2_conn_earn(s->c, 1 + n / KIB(1));
	}
	if (n == HTTP_STREAM_END || s->pos == s->reply->size) {
		s->sent = true;
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (s->reply->trailers.size) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			send_trailers(session, s);
		}
	}
	return MAX(n, 0);
}

/* The time to spare is that of a reply now, whatever the body has left. Of a stream that goes both ways it is one for both. */
static void begin_reply_time(struct h2_stream *s)
{
	if (s->conn.both_ways)
		return;
	s->spare_ms = (int64_t)s->c->thread->h2->shared->opts.idle_timeout_s * 1000;
	s->seen_ms = clock_mono_ms();
	s->seen_bytes = 0;
}

enum http_result h2_reply_send(struct http_conn *conn, unsigned status, struct http_reply *reply)
{
	struct h2_stream *s = (struct h2_stream *)conn;
	bool bare = strcmp(s->req.method, "HEAD") == 0 || status == 204 || status == 304;
	bool has_body = !bare && (reply->size || reply->trailers.size);
	const nghttp2_data_provider body = { .source.ptr = s, .read_callback = h2_on_read };
	struct reply_fields f = { .n = 0 };
	char number[24];
	int r;

	if (s->reply || s->closed)
		return HTTP_CUT;
	s->reply = http_reply_ref(reply);
	s->status = status;
	s->sent = !has_body;
	begin_reply_time(s);
	arena_init(&f.arena);
	snprintf(number, sizeof(number), "%u", status);
	put_nv(&f, ":status", number);
	put_nv(&f, "date", date_now(s->c->thread));
	if (reply->size != HTTP_SIZE_UNKNOWN && !reply->trailers.size && status != 204 && status != 304) {
		snprintf(number, sizeof(number), "%llu", (unsigned long long)reply->size);
		put_nv(&f, "content-length", number);
	}
	http_reply_headers(reply, put_reply_header, &f);
	r = nghttp2_submit_response(s->c->session, s->id, f.nv, f.n, has_body ? &body : NULL);
	arena_done(&f.arena);
	h2_conn_earn(s->c, H2_CREDIT_ASK);
	return r == 0 ? HTTP_SENT : HTTP_CUT;
}
