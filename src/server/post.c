/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies that are taken whole.
 */
#include "server/post.h"

#define TOO_MANY "too many bodies are under way here: send it again"

static void refuse(struct request *req, unsigned status, const char *text)
{
	req->post->refused = status;
	if (!req->reply)
		req->post->kind->refuse(req, status, text);
}

void post_begin(struct request *req, const struct post_kind *kind, atomic_size_t *together)
{
	const char *length = http_header(req->conn, "Content-Length");
	struct post *p = ARENA_NEW(&req->arena, struct post);
	struct server *s = req->s;
	uint64_t size;

	p->kind = kind;
	p->together = together;
	req->post = p;
	if (s->limit && !limit_take(s->limit, http_peer(req->conn), clock_mono_ms())) {
		metrics_refused("rate");
		refuse(req, 429, "too many requests from your address");
	} else if (wait_count(&s->wait) >= s->opts.max_queued) {
		metrics_refused("queue");
		refuse(req, 503, "busy");
	} else if (length && str_to_u64(str_trim(str_of(length)), &size) && size > kind->max) {
		refuse(req, 413, kind->too_long);
	}
}

size_t post_body(struct request *req, struct bytes piece)
{
	struct post *p = req->post;

	if (req->reply || p->refused)
		return piece.size;
	if (piece.size > p->kind->max - p->body.size) {
		p->refused = 413;
	} else if (atomic_fetch_add(p->together, piece.size) + piece.size > p->kind->max_together) {
		atomic_fetch_sub(p->together, piece.size);
		p->refused = 503;
	} else {
		p->counted += piece.size;
		buf_add(&p->body, piece.p, piece.size);
		return piece.size;
	}
	post_drop_body(req);
	return piece.size;
}

enum http_result post_request(struct request *req)
{
	struct post *p = req->post;

	if (p->refused)
		refuse(req, p->refused, p->refused == 413 ? p->kind->too_long : TOO_MANY);
	if (!req->reply) {
		if (request_run(req, p->kind->job))
			return HTTP_SUSPENDED;
		refuse(req, 503, "the server stops: ask again");
	}
	return http_send(req->conn, req->status, req->reply);
}

void post_drop_body(struct request *req)
{
	struct post *p = req->post;

	buf_done(&p->body);
	p->body = (struct buf){ 0 };
	atomic_fetch_sub(p->together, p->counted);
	p->counted = 0;
}

void post_done(struct request *req)
{
	post_drop_body(req);
}
