/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies and refusals that any resource may make.
 */
#include <stdlib.h>
#include "base/json.h"
#include "http/request.h"
#include "wire/proto.h"

#define REPLY_SMALL  KIB(64) /* needs no grant */
#define ARG_MAX_SIZE 4096u   /* bytes of a parameter, decoded */
#define CORS_METHODS "GET, HEAD, POST, OPTIONS"

void reply_common_headers(const struct http_service *sv, struct http_reply *r)
{
	http_reply_header(r, "X-Content-Type-Options", "nosniff");
	if (sv->opts.require_read_token)
		http_reply_header(r, "Vary", "Authorization");
	if (sv->opts.cors) {
		http_reply_header(r, "Access-Control-Allow-Origin", "*");
		http_reply_header(r, "Access-Control-Expose-Headers", sv->opts.cors_expose);
	}
}

static void allow_header(const struct http_service *sv, struct http_reply *r, unsigned allow)
{
	AUTO(buf_done) struct buf methods = { 0 };

	http_methods_print(allow, sv->opts.cors, &methods);
	http_reply_header(r, "Allow", buf_cstr(&methods));
}

static void refusal_headers(struct http_reply *r, unsigned status)
{
	if (status == 503 || status == 429)
		http_reply_header(r, "Retry-After", HTTP_RETRY_AFTER_S);
	if (status == 401) {
		http_reply_header(r, "WWW-Authenticate", "Bearer realm=\"lode\"");
		http_reply_header(r, "WWW-Authenticate", "Basic realm=\"lode\", charset=\"UTF-8\"");
	}
}

struct http_reply *reply_text(const struct http_service *sv, unsigned status, struct str text)
{
	struct http_reply *r = http_reply_copy(text.p, text.size);

	http_reply_header(r, "Content-Type", "text/plain; charset=utf-8");
	http_reply_header(r, "Cache-Control", "no-store");
	refusal_headers(r, status);
	reply_common_headers(sv, r);
	return r;
}

struct http_canned reply_canned(const struct http_service *sv, unsigned status, const char *text)
{
	return (struct http_canned){ status, strlen(text), reply_text(sv, status, str_of(text)) };
}

struct http_reply *reply_body(const struct http_service *sv, struct buf *body, const char *type,
			      bool no_store)
{
	/* The reply frees it; an empty buffer has nothing to free. */
	struct http_reply *r = body->p ? http_reply_mem(body->p, body->size, free, body->p)
				       : http_reply_copy("", 0);

	*body = (struct buf){ 0 };
	http_reply_header(r, "Content-Type", type);
	if (no_store)
		http_reply_header(r, "Cache-Control", "no-store");
	reply_common_headers(sv, r);
	return r;
}

static struct http_reply *refusal_json(const struct http_service *sv, unsigned status, const char *code,
				       const char *text, size_t *ret_size)
{
	struct buf b = { 0 };
	struct json_writer w = { .out = &b };
	struct http_reply *r;

	json_open_object(&w, NULL);
	if (code)
		json_put_text(&w, "code", code);
	json_put_text(&w, code ? "message" : "error", text);
	json_close(&w);
	buf_add_char(&b, '\n');
	*ret_size = b.size;
	r = reply_body(sv, &b, "application/json", true);
	refusal_headers(r, status);
	return r;
}

/* google.rpc.Status: code, message. */
static struct http_reply *refusal_status(const struct http_service *sv, struct http_conn *conn,
					 unsigned status, struct str text, size_t *ret_size)
{
	unsigned code = connect_code_number(connect_code_of(status));
	bool json = http_has_type(conn, "application/json");
	struct buf b = { 0 };
	struct json_writer w = { .out = &b };
	struct http_reply *r;

	if (json) {
		json_open_object(&w, NULL);
		json_put_uint(&w, "code", code);
		json_put_str(&w, "message", text);
		json_close(&w);
	} else {
		proto_put_number(&b, 1, code);
		proto_put_str(&b, 2, text);
	}
	*ret_size = b.size;
	r = reply_body(sv, &b, json ? "application/json" : "application/x-protobuf", true);
	refusal_headers(r, status);
	return r;
}

/* A path that is no row is no call either. */
static unsigned code_for_grpc(const struct refusal *refusal)
{
	return refusal->status == 404 && !refusal->route ? connect_code_number(CONNECT_UNIMPLEMENTED)
							 : grpc_code_of(refusal->status);
}

struct http_reply *reply_refusal(const struct http_service *sv, const struct refusal *refusal,
				 size_t *ret_size)
{
	const struct http_route *route = refusal->route;
	enum grpc_form form = grpc_form_of(refusal->conn);
	unsigned status = refusal->status;
	AUTO(buf_done) struct buf line = { 0 };
	struct http_reply *r;

	if (status == 405) {
		buf_add_str(&line, STR("this path takes "));
		http_methods_print(refusal->allow, false, &line);
	} else {
		buf_add_str(&line, str_of(refusal->text));
	}
	if (form) {
		const struct grpc_refusal grpc = { form, http_header(refusal->conn, "Content-Type"), status,
						   code_for_grpc(refusal), buf_str(&line) };

		r = grpc_refuse(&grpc, ret_size);
		reply_common_headers(sv, r);
	} else if (route && (route->flags & HTTP_RPC_STATUS)) {
		r = refusal_status(sv, refusal->conn, status, buf_str(&line), ret_size);
	} else if (route && (route->flags & (HTTP_JSON | HTTP_CONNECT))) {
		bool connect = route->flags & HTTP_CONNECT;

		r = refusal_json(sv, status, connect ? connect_code_name(connect_code_of(status)) : NULL,
				 buf_cstr(&line), ret_size);
	} else {
		buf_add_char(&line, '\n');
		*ret_size = line.size;
		r = reply_text(sv, status, buf_str(&line));
	}
	if (status == 405)
		allow_header(sv, r, refusal->allow);
	return r;
}

/* Other sites' pages may use @CORS_METHODS only, so that none can make a browser change anything by PUT. */
struct http_reply *reply_options(const struct http_service *sv, unsigned allow)
{
	struct http_reply *r = http_reply_copy("", 0);

	allow_header(sv, r, allow);
	http_reply_header(r, "Access-Control-Allow-Origin", "*");
	http_reply_header(r, "Access-Control-Allow-Methods", CORS_METHODS);
	http_reply_header(r, "Access-Control-Allow-Headers", sv->opts.cors_headers);
	http_reply_header(r, "Access-Control-Max-Age", "86400");
	return r;
}

/* ---- of a request ---- */

void request_refuse(struct request *req, unsigned status, const char *text)
{
	const struct refusal refusal = { req->conn, req->route, status, 0, text };
	size_t size;

	http_reply_unref(req->reply);
	req->refusal = arena_strdup(&req->arena, str_of(text));
	req->reply = reply_refusal(req->service, &refusal, &size);
	req->status = status;
	req->bytes = size;
	req->result = "error";
}

void request_refuse_connect(struct request *req, unsigned status, enum connect_code code, const char *text)
{
	enum grpc_form form = grpc_form_of(req->conn);
	size_t size;

	http_reply_unref(req->reply);
	req->refusal = arena_strdup(&req->arena, str_of(text));
	if (form) {
		req->reply = grpc_refuse(&(struct grpc_refusal){ form, http_header(req->conn, "Content-Type"),
								 status, connect_code_number(code),
								 str_of(text) },
					 &size);
		reply_common_headers(req->service, req->reply);
	} else {
		req->reply = refusal_json(req->service, status, connect_code_name(code), text, &size);
	}
	req->status = status;
	req->bytes = size;
	req->result = "error";
}

void request_reply_text(struct request *req, unsigned status, const char *text)
{
	AUTO(mem_freep) char *line = mem_printf("%s\n", text);

	http_reply_unref(req->reply);
	req->reply = reply_text(req->service, status, str_of(line));
	req->status = status;
	req->bytes = strlen(line);
	req->result = status < 400 ? "made" : "error";
}

/*
 * A reply may wait long for its client. A small one goes into the socket's buffer, and status and metrics are needed
 * most when memory is used up. Many streams of one connection share a socket.
 */
static bool reply_grant(struct request *req, const struct buf *body)
{
	struct budget *memory = req->service->opts.memory;
	struct err err = { 0 };

	budget_return(memory, BUDGET_REPLY, req->reply_granted);
	req->reply_granted = 0;
	if (body->room <= REPLY_SMALL && !http_is_crowded(req->conn))
		return true;
	if (!budget_try(memory, BUDGET_REPLY, body->room)) {
		(void)budget_refusal(memory, BUDGET_REPLY, body->room, &err);
		request_refuse(req, 503, err.text);
		return false;
	}
	req->reply_granted = body->room;
	return true;
}

bool request_reply_body(struct request *req, unsigned status, struct buf *body, const char *type,
			bool no_store)
{
	if (!reply_grant(req, body)) {
		buf_done(body);
		return false;
	}
	http_reply_unref(req->reply);
	req->bytes = body->size;
	req->reply = reply_body(req->service, body, type, no_store);
	req->status = status;
	req->result = "made";
	return true;
}

void request_reply_fd(struct request *req, unsigned status, int fd, uint64_t off, uint64_t size,
		      const char *type)
{
	budget_return(req->service->opts.memory, BUDGET_REPLY, req->reply_granted);
	req->reply_granted = 0;
	http_reply_unref(req->reply);
	req->reply = http_reply_fd(fd, off, size);
	http_reply_header(req->reply, "Content-Type", type);
	http_reply_header(req->reply, "Cache-Control", "no-store");
	reply_common_headers(req->service, req->reply);
	req->bytes = size;
	req->status = status;
	req->result = "made";
}

int request_arg(struct request *req, const char *name, struct str *ret)
{
	const char *raw = http_arg(req->conn, name);
	char *room;

	*ret = (struct str){ "", 0 };
	if (!raw)
		return 0;
	room = arena_alloc(&req->arena, strlen(raw) + 1);
	ret->p = room;
	if (strlen(raw) <= ARG_MAX_SIZE * 3 && http_unescape(str_of(raw), room, &ret->size) &&
	    ret->size <= ARG_MAX_SIZE)
		return 0;
	request_refuse(req, 400, "a parameter has a broken %-escape, or is too long");
	return -1;
}
