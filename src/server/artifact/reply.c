/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies: their headers, and which status an error becomes.
 */
#include "server/internal.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * A reply's headers share a connection's little memory with the request's, and a reply whose headers do not
 * fit is a closed connection. A name longer than this is not told.
 */
#define MAX_HEADER_VALUE 1600u

/* The bytes of a build ID never change: who has them need never ask again. */
#define CACHE_FOREVER "public, max-age=31536000, immutable"

static void common_headers(struct server *s, struct http_reply *r)
{
	http_reply_header(r, "X-Content-Type-Options", "nosniff");
	if (s->opts.cors) {
		http_reply_header(r, "Access-Control-Allow-Origin", "*");
		http_reply_header(
			r, "Access-Control-Expose-Headers",
			"X-DEBUGINFOD-SIZE, X-DEBUGINFOD-FILE, X-DEBUGINFOD-ARCHIVE, Content-Range, ETag");
	}
}

static void validator_headers(struct server *s, struct http_reply *r, const struct content *c)
{
	http_reply_header(r, "Cache-Control", CACHE_FOREVER);
	http_reply_header(r, "ETag", c->etag);
	http_reply_header(r, "Last-Modified", c->modified);
	common_headers(s, r);
}

void reply_content_headers(struct server *s, struct http_reply *r, const struct content *c)
{
	char size[24];

	snprintf(size, sizeof(size), "%llu", (unsigned long long)c->size);
	http_reply_header(r, "Content-Type", "application/octet-stream");
	http_reply_header(r, "X-DEBUGINFOD-SIZE", size);
	if (c->file && strlen(c->file) <= MAX_HEADER_VALUE)
		http_reply_header(r, "X-DEBUGINFOD-FILE", c->file);
	if (c->archive && strlen(c->archive) <= MAX_HEADER_VALUE)
		http_reply_header(r, "X-DEBUGINFOD-ARCHIVE", c->archive);
	http_reply_header(r, "Accept-Ranges", "bytes");
	validator_headers(s, r, c);
}

void reply_range_headers(struct http_reply *r, const struct verdict *v, const struct content *c)
{
	char range[80];

	if (v->status != 206)
		return;
	snprintf(range, sizeof(range), "bytes %llu-%llu/%llu", (unsigned long long)v->off,
		 (unsigned long long)(v->off + v->size - 1), (unsigned long long)c->size);
	http_reply_header(r, "Content-Range", range);
}

struct http_reply *reply_text(struct server *s, unsigned status, struct str text)
{
	struct http_reply *r = http_reply_copy(text.p, text.size);

	http_reply_header(r, "Content-Type", "text/plain; charset=utf-8");
	http_reply_header(r, "Cache-Control", "no-store");
	if (status == 503 || status == 429)
		http_reply_header(r, "Retry-After", SERVER_RETRY_S);
	if (status == 405)
		http_reply_header(r, "Allow", s->opts.cors ? "GET, HEAD, POST, OPTIONS" : "GET, HEAD");
	common_headers(s, r);
	return r;
}

struct http_reply *reply_body(struct server *s, struct buf *body, const char *type, bool no_store)
{
	/* The reply frees it; an empty buffer has nothing to free. */
	struct http_reply *r = body->p ? http_reply_mem(body->p, body->size, free, body->p)
				       : http_reply_copy("", 0);

	*body = (struct buf){ 0 };
	http_reply_header(r, "Content-Type", type);
	if (no_store)
		http_reply_header(r, "Cache-Control", "no-store");
	common_headers(s, r);
	return r;
}

struct http_reply *reply_of_verdict(struct server *s, const struct verdict *v, const struct content *c)
{
	struct http_reply *r;
	char text[120];

	switch (v->status) {
	case 304:
		r = http_reply_copy("", 0);
		validator_headers(s, r, c);
		return r;
	case 406:
		log_debug("http", "File too large: %llu bytes", (unsigned long long)c->size);
		snprintf(text, sizeof(text),
			 "too large: it has %llu bytes, more than X-DEBUGINFOD-MAXSIZE allows\n",
			 (unsigned long long)c->size);
		r = reply_text(s, 406, str_of(text));
		snprintf(text, sizeof(text), "%llu", (unsigned long long)c->size);
		http_reply_header(r, "X-DEBUGINFOD-SIZE", text);
		return r;
	case 416:
		snprintf(text, sizeof(text), "the range lies outside: it has %llu bytes\n",
			 (unsigned long long)c->size);
		r = reply_text(s, 416, str_of(text));
		snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)c->size);
		http_reply_header(r, "Content-Range", text);
		return r;
	default:
		return NULL;
	}
}

struct conditions reply_conditions(struct http_conn *conn, bool head)
{
	return (struct conditions){
		.range = http_header(conn, "Range"),
		.if_range = http_header(conn, "If-Range"),
		.if_none_match = http_header(conn, "If-None-Match"),
		.if_modified_since = http_header(conn, "If-Modified-Since"),
		.max_size = http_header(conn, "X-DEBUGINFOD-MAXSIZE"),
		.head = head,
	};
}

static struct http_reply *part_of(struct server *s, struct ready *r, const struct verdict *v)
{
	struct http_reply *part;

	if (r->mem) {
		part = http_reply_copy(r->mem + v->off, (size_t)v->size);
	} else {
		int fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 0);

		if (fd < 0)
			return NULL;
		part = http_reply_fd(fd, r->fd_off + v->off, v->size);
	}
	reply_content_headers(s, part, &r->content);
	reply_range_headers(part, v, &r->content);
	return part;
}

enum http_result reply_ready(struct server *s, struct http_conn *conn, bool head, struct ready *r,
			     unsigned *ret_status, uint64_t *ret_bytes)
{
	struct conditions c = reply_conditions(conn, head);
	struct verdict v = cond_judge(&c, &r->content);
	struct http_reply *own = NULL;
	enum http_result result;

	*ret_bytes = head ? 0 : v.size;
	*ret_status = v.status;
	if (v.status == 200) {
		result = http_send(conn, 200, r->whole);
	} else if (v.status == 304) {
		result = http_send(conn, 304, r->unmodified);
	} else {
		own = v.status == 206 ? part_of(s, r, &v) : reply_of_verdict(s, &v, &r->content);
		if (!own) {
			*ret_status = 503;
			*ret_bytes = 0;
			return http_send(conn, 503, s->made.busy.reply);
		}
		result = http_send(conn, v.status, own);
		http_reply_unref(own);
	}
	return result;
}

unsigned reply_status_of(const struct err *err)
{
	switch (err->kind) {
	case ERR_CHANGED:
	case ERR_LIMIT:
	case ERR_CANCELLED:
		return 503;
	case ERR_UPSTREAM:
		return 502;
	default:
		return 500;
	}
}

struct str reply_hide_paths(struct arena *a, struct str text)
{
	char *out = arena_alloc(a, text.size + 1);
	size_t n = 0, word = 0; /* where the word in the output begins */
	bool absolute = false;

	for (size_t i = 0; i < text.size; i++) {
		char c = text.p[i];
		bool begins = n == word;

		if (c == '/' && begins)
			absolute = true;
		if (c == '/' && absolute) {
			n = word;
			continue;
		}
		out[n++] = c;
		if (isspace((unsigned char)c) || strchr(":,;()\"'", c)) {
			word = n;
			absolute = false;
		}
	}
	return (struct str){ out, n };
}
