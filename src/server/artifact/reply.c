/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of replies with a content, and the status for an error.
 */
#include "server/artifact/artifact.h"

#include <errno.h>
#include <stdio.h>

/*
 * Headers of request and reply share the small memory of a connection, which is closed if they do not fit.
 * A longer name is left out.
 */
#define MAX_HEADER_VALUE 1600u

/*
 * The bytes of a build ID never change, so a client never has to ask again. If reading needs a token, a cache that
 * is shared by clients must not keep them: it would serve them to clients without one.
 */
#define CACHE_FOREVER "max-age=31536000, immutable"

static void validator_headers(const struct server *s, struct http_reply *r, const struct content *c)
{
	http_reply_header(r, "Cache-Control",
			  s->opts.require_read_token ? "private, " CACHE_FOREVER : "public, " CACHE_FOREVER);
	http_reply_header(r, "ETag", c->etag);
	http_reply_header(r, "Last-Modified", c->modified);
	reply_common_headers(s->http_service, r);
}

void reply_content_headers(const struct server *s, struct http_reply *r, const struct content *c)
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

struct http_reply *reply_of_verdict(const struct server *s, const struct verdict *v, const struct content *c)
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
			 "too large: the file has %llu bytes, more than X-DEBUGINFOD-MAXSIZE allows\n",
			 (unsigned long long)c->size);
		r = reply_text(s->http_service, 406, str_of(text));
		snprintf(text, sizeof(text), "%llu", (unsigned long long)c->size);
		http_reply_header(r, "X-DEBUGINFOD-SIZE", text);
		return r;
	case 416:
		snprintf(text, sizeof(text), "the range is outside: the file has %llu bytes\n",
			 (unsigned long long)c->size);
		r = reply_text(s->http_service, 416, str_of(text));
		snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)c->size);
		http_reply_header(r, "Content-Range", text);
		return r;
	default:
		return NULL;
	}
}

struct conditions reply_conditions(struct http_conn *conn, bool head)
{
	/* Most requests have none, and each lookup compares all headers. */
	if (!http_head(conn)->conditional)
		return (struct conditions){ .head = head };
	return (struct conditions){
		.range = http_header(conn, "Range"),
		.if_range = http_header(conn, "If-Range"),
		.if_none_match = http_header(conn, "If-None-Match"),
		.if_modified_since = http_header(conn, "If-Modified-Since"),
		.max_size = http_header(conn, "X-DEBUGINFOD-MAXSIZE"),
		.head = head,
	};
}

/* A file is sent by a reply that is lent, since no two requests may send it at once. */
static bool send_lent(struct server *s, struct http_conn *conn, struct ready *r, struct http_sent *sent)
{
	struct http_reply *reply = ready_lend(s, r);

	if (!reply)
		return false;
	sent->outcome = http_send(conn, 200, reply);
	sent->lent = (struct http_lent){ reply, ready_give_back, ready_ref(r) };
	return true;
}

static bool send_own(struct server *s, struct http_conn *conn, struct ready *r, const struct verdict *v,
		     struct http_sent *sent)
{
	struct http_reply *own = v->status < 300 ? ready_part(s, r, v->off, v->size)
						 : reply_of_verdict(s, v, &r->content);

	if (!own)
		return false;
	reply_range_headers(own, v, &r->content);
	sent->outcome = http_send(conn, v->status, own);
	http_reply_unref(own);
	return true;
}

void reply_ready(struct server *s, struct http_conn *conn, bool head, struct ready *r, struct http_sent *sent)
{
	struct conditions c = reply_conditions(conn, head);
	struct verdict v = cond_judge(&c, &r->content);
	struct http_reply *shared = v.status == 200   ? (head && r->bare ? r->bare : r->whole)
				    : v.status == 304 ? r->unmodified
						      : NULL;

	sent->bytes = head ? 0 : v.size;
	sent->status = v.status;
	if (shared) {
		sent->outcome = http_send(conn, v.status, shared);
		return;
	}
	if (v.status == 200 ? send_lent(s, conn, r, sent) : send_own(s, conn, r, &v, sent))
		return;
	sent->status = 503;
	sent->bytes = 0;
	sent->outcome = http_send(conn, 503, s->http_service->busy.reply);
}

unsigned reply_status_of(const struct err *err)
{
	switch (err->kind) {
	case ERR_IO:
		/* Only a person can change permissions. */
		return err->os == EACCES || err->os == EPERM ? 500 : 503;
	case ERR_BUSY:
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
