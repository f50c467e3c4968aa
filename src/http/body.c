/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies that are collected in memory, up to a limit for each and a limit for all of the same slot.
 *
 * A body that its headers announce as too long is refused before it is read. One that turns out to be too long
 * is dropped at once; the transport sees that the request is settled, and ignores the rest (struct http_drop).
 */
#include "http/request.h"

#include <strings.h>
#include "base/budget.h"

#define TOO_MANY "the server receives too many bodies at once; send it again later"

/* There may be a small body on each stream of HTTP/2, of a health check also without a token. */
#define GRANT_LEAST KIB(4)
#define GRANT_MOST  MIB(4)

bool http_has_type(struct http_conn *conn, const char *type)
{
	const char *header = http_header(conn, "Content-Type");
	struct str rest = str_of(header ? header : ""), name = str_trim(str_cut(&rest, ';'));

	return name.size == strlen(type) && strncasecmp(name.p, type, name.size) == 0;
}

/* The buffer doubles as it grows, and so does the grant, up to some size. */
static bool body_grant(struct request *req, size_t size)
{
	size_t all = GRANT_LEAST;

	if (size <= req->body_granted)
		return true;
	while (all < size)
		all += MIN(all, GRANT_MOST);
	if (!budget_try(req->service->opts.memory, BUDGET_BODY, all - req->body_granted))
		return false;
	req->body_granted = all;
	return true;
}

void body_begin(struct request *req)
{
	const char *length = http_header(req->conn, "Content-Length");
	const struct http_body *b = req->route->body;
	uint64_t size = 0;
	bool known = length && str_to_u64(str_trim(str_of(length)), &size);

	if (b->needs_length && !known)
		request_refuse(req, 411, "a Content-Length is needed");
	else if (known && size > b->max)
		request_refuse(req, 413, b->too_long);
}

size_t body_add(struct request *req, struct bytes chunk)
{
	const struct http_body *b = req->route->body;
	atomic_size_t *together = &req->service->body_bytes[b->slot];

	if (req->body_refused)
		return chunk.size;
	if (chunk.size > b->max - req->body.size) {
		req->body_refused = 413;
	} else if (!body_grant(req, req->body.size + chunk.size)) {
		req->body_refused = 503;
		req->body_no_memory = true;
	} else if (atomic_fetch_add(together, chunk.size) + chunk.size > b->max_together) {
		atomic_fetch_sub(together, chunk.size);
		req->body_refused = 503;
	} else {
		req->body_counted += chunk.size;
		buf_add(&req->body, chunk.p, chunk.size);
		return chunk.size;
	}
	body_drop(req);
	return chunk.size;
}

void body_end(struct request *req)
{
	struct err err = { 0 };

	if (req->body_no_memory)
		(void)budget_refusal(req->service->opts.memory, BUDGET_BODY, 0, &err);
	if (req->body_refused)
		request_refuse(req, req->body_refused,
			       req->body_refused == 413 ? req->route->body->too_long
			       : req->body_no_memory    ? err.text
							: TOO_MANY);
}

void body_drop(struct request *req)
{
	buf_done(&req->body);
	req->body = (struct buf){ 0 };
	if (req->body_counted)
		atomic_fetch_sub(&req->service->body_bytes[req->route->body->slot], req->body_counted);
	req->body_counted = 0;
	budget_return(req->service->opts.memory, BUDGET_BODY, req->body_granted);
	req->body_granted = 0;
}
