/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request, from its headers to its reply.
 *
 * Hot replies, canned replies and refusals of a GET are sent at once on the HTTP thread, without a struct
 * request. Every other request gets one, and is suspended while workers have it.
 */
#include "http/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "http/access.h"
#include "http/host.h"
#include "http/limit.h"

#define TOO_MANY       "too many requests from your address"
#define HOST_TEXT_SIZE 400u

/* A request before it has anything of its own. */
struct opening {
	struct http_service *sv;
	const struct http_request *hr;
	bool head, limited;
	int64_t started_ns;
	char token[TOKEN_MAX_NAME];
	struct http_match m;
	char room[HTTP_TARGET_MAX + 1]; /* of its views */
	char text[HOST_TEXT_SIZE];      /* of a 421 */
};

static void opening_init(struct opening *o, struct http_service *sv, const struct http_request *hr)
{
	o->sv = sv;
	o->hr = hr;
	o->head = strcmp(hr->method, "HEAD") == 0;
	o->started_ns = clock_mono_ns();
	o->limited = sv->limit && !limit_take(sv->limit, http_peer(hr->conn), clock_mono_ms());
	o->token[0] = '\0';
}

/* By the token that was checked, else by the address. */
static uint32_t opening_client(const struct opening *o)
{
	struct str token = str_of(o->token);
	uint64_t seed = o->sv->seed;

	if (token.size && !str_eq(token, STR("loopback")))
		return (uint32_t)hash64(token.p, token.size, seed);
	return (uint32_t)limit_address_key(http_peer(o->hr->conn), seed);
}

static unsigned opening_type(const struct opening *o)
{
	return o->m.route ? o->m.route->type : o->sv->opts.other_type;
}

/* A page of another site cannot have a token of this server. */
static bool has_token(struct opening *o)
{
	char name[TOKEN_MAX_NAME];
	const char *text;

	return http_head(o->hr->conn)->authorization && !http_is_basic(o->hr->conn) &&
	       tokens_any(o->sv->tokens) && !http_authorize(o->sv, o->hr->conn, TOKEN_READ, name, &text);
}

/*
 * 0, or the status and text of a refusal that no path and no token changes. Under a foreign name browsers may do
 * nothing. Other programs may read: they ask for a server that its users named.
 */
static unsigned head_judge(struct opening *o, const char **ret_text)
{
	const struct http_head *head = http_head(o->hr->conn);

	if (head->wrong) {
		counters_refused("malformed");
		*ret_text = head->wrong;
		return 400;
	}
	if (!head->browser || hosts_judge(o->sv->hosts, head->host) != HOST_FOREIGN || has_token(o))
		return 0;
	counters_refused("host");
	hosts_refuse(o->sv->hosts, head->host, o->text, sizeof(o->text));
	*ret_text = o->text;
	return 421;
}

static bool is_open_to_readers(struct opening *o)
{
	const char *text;

	return !o->sv->opts.require_read_token ||
	       !http_authorize(o->sv, o->hr->conn, TOKEN_READ, o->token, &text);
}

/* Is it allowed? 0, or the status and text of the refusal. */
static unsigned opening_judge(struct opening *o, const char **ret_text)
{
	const struct http_route *r = o->m.route;
	/* Without a token a client cannot find out which paths there are. */
	enum token_scope scope = r && !o->m.status ? r->scope : TOKEN_READ;
	unsigned status = 0;

	if (o->limited) {
		counters_refused("rate");
		*ret_text = TOO_MANY;
		return 429;
	}
	if (scope && (scope != TOKEN_READ || o->sv->opts.require_read_token))
		status = http_authorize(o->sv, o->hr->conn, scope, o->token, ret_text);
	if (status)
		return status;
	switch (o->m.status) {
	case 0:
		break;
	case 400:
		*ret_text = "the path has a broken %-escape";
		return 400;
	case 414:
		*ret_text = "the path is too long";
		return 414;
	default:
		*ret_text = "no such path"; /* that of a 405 is reply_refusal()'s */
		return o->m.status;
	}
	return 0;
}

/*
 * May the page from which a browser sends this change anything? Other sites' pages need a token; with @cors they may
 * also send requests that only read. For links and pictures of other sites, GET is not judged.
 */
static unsigned page_judge(struct opening *o, const char **ret_text)
{
	bool by_token = o->token[0] && strcmp(o->token, HTTP_LOCAL_NAME) != 0 && !http_is_basic(o->hr->conn);

	if (by_token || (o->sv->opts.cors && o->m.route->scope == TOKEN_READ) ||
	    !http_is_other_site(o->hr->conn))
		return 0;
	*ret_text = "pages of other sites may not do this without a token";
	return 403;
}

static bool queue_is_full(struct http_service *sv, enum http_class cls, uint32_t client)
{
	if (!wait_is_full(sv, cls, client))
		return false;
	counters_refused("queue");
	return true;
}

/* ---- answered at once ---- */

static enum http_result request_account(const struct opening *o, const struct http_sent *sent)
{
	int64_t ns = clock_mono_ns() - o->started_ns;

	counters_end(o->sv->counters, sent, ns);
	if (o->sv->access)
		access_line(o->sv->access, &(struct access_entry){ o->hr->conn, o->hr->method, o->hr->url,
								   sent->status, sent->bytes, ns, true });
	return sent->outcome;
}

static enum http_result send_canned(const struct opening *o, const struct http_canned *c)
{
	const struct http_sent sent = {
		.type = opening_type(o),
		.status = c->status,
		.bytes = o->head ? 0 : c->size,
		.result = c->status < 400 ? "made" : "error",
		.outcome = http_send(o->hr->conn, c->status, c->reply),
	};

	return request_account(o, &sent);
}

static enum http_result send_refusal(const struct opening *o, unsigned status, const char *text)
{
	bool is_text = (!o->m.route || !(o->m.route->flags & (HTTP_JSON | HTTP_CONNECT | HTTP_RPC_STATUS))) &&
		       !grpc_form_of(o->hr->conn);
	const struct refusal refusal = { o->hr->conn, o->m.route, status, o->m.allow, text };
	struct http_canned c = { .status = status };
	enum http_result sent;

	/* A server that is busy refuses fast. */
	if (is_text && (status == 429 || status == 503))
		return send_canned(o, status == 429 ? &o->sv->too_many : &o->sv->busy);
	c.reply = reply_refusal(o->sv, &refusal, &c.size);
	sent = send_canned(o, &c);
	http_reply_unref(c.reply);
	return sent;
}

/* ---- a request of its own ---- */

static struct request *request_new(const struct opening *o)
{
	struct request *req = NEW(struct request);

	atomic_fetch_add(&o->sv->n_open, 1);
	req->service = o->sv;
	req->s = o->sv->opts.server;
	req->conn = o->hr->conn;
	req->type = opening_type(o);
	req->cls = o->m.route ? o->m.route->cls : HTTP_CLASS_STATUS;
	req->client = req->slot.client = opening_client(o);
	req->method = o->hr->method;
	req->url = o->hr->url;
	req->head = o->head;
	req->started_ns = o->started_ns;
	req->deadline_ms = clock_mono_ms() + o->sv->opts.request_deadline_ms;
	arena_init(&req->arena);
	memcpy(req->token, o->token, sizeof(req->token));
	if (o->m.status)
		return req;
	req->route = o->m.route;
	req->path = arena_str(&req->arena, o->m.path);
	for (size_t i = 0; i < HTTP_PARTS_MAX; i++)
		req->parts[i] = arena_str(&req->arena, o->m.parts[i]);
	req->step = req->route->handler->run;
	return req;
}

/* Its reply was sent already: the request is only logged at its end. */
static struct request *request_of_sent(struct opening *o, const struct http_sent *sent)
{
	struct request *req;

	o->m = (struct http_match){ .status = sent->status };
	req = request_new(o);
	req->type = sent->type;
	req->status = sent->status;
	req->bytes = sent->bytes;
	req->result = sent->result;
	req->lent = sent->lent;
	return req;
}

enum http_next request_send(struct request *req, unsigned status, struct http_reply *reply, uint64_t bytes,
			    const char *result)
{
	req->status = status;
	req->bytes = bytes;
	req->result = result;
	return http_send(req->conn, status, reply) == HTTP_SENT ? HTTP_ENDED : HTTP_CLOSES;
}

static enum http_result send_reply(struct request *req)
{
	if (req->head)
		req->bytes = 0;
	return http_send(req->conn, req->status, req->reply);
}

static enum http_result send_stopped(struct request *req)
{
	request_refuse(req, 503, "the server stops; ask again");
	return send_reply(req);
}

static void request_step(void *arg)
{
	struct request *req = arg;
	enum http_next next = req->step(req);

	/* The request may be gone. */
	if (next == HTTP_WAITS)
		return;
	req->next = next;
	wait_end_work(req);
}

void request_continue(struct request *req, enum http_next (*step)(struct request *req))
{
	const struct http_service_options *o = &req->service->opts;

	req->step = step;
	if (req->route->pool == HTTP_ON_WRITER)
		pool_queue(o->writers, POOL_NORMAL, &req->slot, request_step, req);
	else if (req->cls == HTTP_CLASS_LONG_QUERY)
		pool_queue(o->queries, 0, &req->slot, request_step, req);
	else
		pool_queue(o->workers, req->cls, &req->slot, request_step, req);
}

/* Its handler has run on this HTTP thread. */
static enum http_result after_run(struct request *req, enum http_next next)
{
	switch (next) {
	case HTTP_REPLY:
		return send_reply(req);
	case HTTP_WAITS:
	case HTTP_SLEEPS:
		return HTTP_SUSPENDED;
	case HTTP_ENDED:
		return HTTP_SENT;
	case HTTP_CLOSES:
		break;
	}
	return HTTP_CUT;
}

static enum http_result request_run(struct request *req)
{
	if (req->route->pool == HTTP_ON_THREAD)
		return after_run(req, req->route->handler->run(req));
	if (!wait_begin_work(req))
		return send_stopped(req);
	request_continue(req, req->route->handler->run);
	return HTTP_SUSPENDED;
}

/* It was resumed. */
static enum http_result request_resumed(struct request *req)
{
	if (req->reply)
		return send_reply(req);
	if (req->route->pool == HTTP_ON_THREAD)
		return request_run(req);
	switch (req->fate) {
	case FATE_NONE:
		assert(req->next == HTTP_SLEEPS);
		req->deadline_ms = clock_mono_ms() + req->sleep_ms;
		return wait_suspend(req) ? HTTP_SUSPENDED : send_stopped(req);
	case FATE_EXPIRED: /* it has slept */
		req->fate = FATE_NONE;
		return request_run(req);
	case FATE_GONE:
		req->status = 499;
		return HTTP_CUT;
	case FATE_STOPPED:
		break;
	}
	return send_stopped(req);
}

static void request_begin(struct request *req)
{
	const struct http_handler *h = req->route->handler;

	if ((req->route->flags & HTTP_CONNECT) && connect_is_grpc(http_header(req->conn, "Content-Type")) &&
	    !grpc_form_of(req->conn)) {
		/* A client of gRPC reads the status, and takes 404 for UNIMPLEMENTED: it does not ask again. */
		request_reply_text(req, 404, CONNECT_NO_GRPC);
		return;
	}
	/* A handler that takes the body itself, and does not collect it, has a limit of its own. */
	if ((!h->body || req->route->body) && queue_is_full(req->service, req->cls, req->client))
		request_refuse(req, 503, "busy");
	if (!req->reply && req->route->body)
		body_begin(req);
	if (!req->reply && h->begin)
		h->begin(req);
}

/* ---- the transport's calls ---- */

static enum http_result open_get(struct http_service *sv, const struct http_request *hr, void **ctx)
{
	struct opening o;
	const struct http_canned *canned;
	const char *text = "";
	struct http_sent hot = { 0 };
	struct request *req;
	unsigned status;

	opening_init(&o, sv, hr);
	status = head_judge(&o, &text);
	if (status) {
		http_match(&sv->routes, sv->opts.server, hr->method, str_of(hr->url), o.room, &o.m);
		counters_begin(sv->counters, opening_type(&o));
		return send_refusal(&o, status, text);
	}
	if (sv->opts.hot && !o.limited && is_open_to_readers(&o) &&
	    sv->opts.hot(sv->opts.server, hr, o.head, &hot)) {
		counters_begin(sv->counters, hot.type);
		if (!hot.streams)
			return request_account(&o, &hot);
		*ctx = request_of_sent(&o, &hot);
		return hot.outcome;
	}
	http_match(&sv->routes, sv->opts.server, hr->method, str_of(hr->url), o.room, &o.m);
	counters_begin(sv->counters, opening_type(&o));
	status = opening_judge(&o, &text);
	if (status)
		return send_refusal(&o, status, text);
	canned = o.m.route->handler->canned ? o.m.route->handler->canned(sv->opts.server, &o.m) : NULL;
	if (canned)
		return send_canned(&o, canned);
	if (queue_is_full(sv, o.m.route->cls, opening_client(&o)))
		return send_refusal(&o, 503, "busy");
	*ctx = req = request_new(&o);
	if (o.m.route->handler->begin)
		o.m.route->handler->begin(req);
	if (req->reply)
		return send_reply(req);
	req->started = true;
	return request_run(req);
}

/* Of another method: as soon as its headers are in. true: its body is wanted. */
static bool receive_begin(void *arg, const struct http_request *hr, void **ctx)
{
	struct http_service *sv = arg;
	struct opening o;
	struct request *req;
	const char *text = "";
	unsigned status;
	bool preflight;

	opening_init(&o, sv, hr);
	http_match(&sv->routes, sv->opts.server, hr->method, str_of(hr->url), o.room, &o.m);
	counters_begin(sv->counters, opening_type(&o));
	/* A browser sends it without the token of the request that will follow. */
	preflight = sv->opts.cors && !o.limited && o.m.allow && strcmp(hr->method, "OPTIONS") == 0;
	status = head_judge(&o, &text);
	if (!status && !preflight)
		status = opening_judge(&o, &text);
	if (!status && !preflight)
		status = page_judge(&o, &text);
	*ctx = req = request_new(&o);
	if (preflight && !status) {
		req->reply = reply_options(sv, o.m.allow);
		req->status = 204;
		req->result = "made";
	} else if (status) {
		const struct refusal refusal = { hr->conn, o.m.route, status, o.m.allow, text };

		req->refusal = arena_strdup(&req->arena, str_of(text));
		req->reply = reply_refusal(sv, &refusal, &req->bytes);
		req->status = status;
	} else {
		request_begin(req);
	}
	return !req->reply;
}

static size_t receive_body(void *arg, const struct http_request *hr, void *ctx, struct bytes chunk)
{
	struct request *req = ctx;

	if (req->reply)
		return chunk.size;
	if (req->route->handler->body)
		return req->route->handler->body(req, chunk);
	return req->route->body ? body_add(req, chunk) : chunk.size;
}

static bool receive_settled(void *arg, void *ctx)
{
	struct request *req = ctx;

	return req->reply || req->body_refused;
}

static enum http_result receive_request(void *arg, const struct http_request *hr, void **ctx)
{
	struct request *req = *ctx;

	if (!req)
		return open_get(arg, hr, ctx);
	if (req->started)
		return request_resumed(req);
	req->started = true;
	if (!req->reply && req->route->body)
		body_end(req);
	return req->reply ? send_reply(req) : request_run(req);
}

static void receive_done(void *arg, struct http_conn *c, void *ctx, bool complete)
{
	struct request *req = ctx;
	struct http_service *sv = req->service;
	int64_t ns = clock_mono_ns() - req->started_ns;
	struct http_sent sent;

	if (req->route && req->route->handler->done)
		req->route->handler->done(req);
	body_drop(req);
	/* 499: it was broken off before there was a reply. */
	sent = (struct http_sent){ .type = req->type,
				   .status = req->status ? req->status : 499,
				   .bytes = req->bytes,
				   .result = req->result ? req->result : "error" };
	counters_end(sv->counters, &sent, ns);
	if (sv->access)
		access_line(sv->access, &(struct access_entry){ c, req->method, req->url, sent.status,
								sent.bytes, ns, complete });
	if (sv->opts.ended)
		sv->opts.ended(sv->opts.server, req, sent.status);
	if (req->lent.end)
		req->lent.end(req->lent.arg, req->lent.reply, complete);
	http_reply_unref(req->reply);
	budget_return(sv->opts.memory, BUDGET_REPLY, req->reply_granted);
	arena_done(&req->arena);
	free(req);
	atomic_fetch_sub(&sv->n_open, 1);
}

struct http_receiver http_service_receiver(struct http_service *sv)
{
	return (struct http_receiver){ sv,           receive_request, receive_begin,
				       receive_body, receive_settled, receive_done };
}
