/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connect's unary calls, over the handlers of profiles: what they add is the type and coding of the body, and a timeout
 * that the client sets.
 */
#include "server/rpc/rpc.h"

#include "codec/codec.h"

#define TYPE_BINARY "application/proto"
#define TYPE_JSON   "application/json"

struct rpc_call {
	const struct rpc_method *method;
	bool json;
	int64_t timeout_ms; /* 0: the client set none */
	bool decoded;
	struct bytes request; /* in `binary`, or the body as it was sent */
	struct buf plain, binary;
	uint64_t plain_held, binary_held; /* of a->memory */
};

const struct rpc_message rpc_empty;

/* ---- headers ---- */

static int rpc_timeout(struct request *req, int64_t *ret)
{
	const char *header = http_header(req->conn, "Connect-Timeout-Ms");
	uint64_t ms;

	if (!header)
		return 0;
	/* Ten digits at most, as the protocol has it. */
	if (!str_to_u64(str_of(header), &ms) || ms > UINT64_C(9999999999))
		return -1;
	*ret = MAX((int64_t)ms, 1);
	return 0;
}

static void rpc_begin(struct request *req)
{
	const struct rpc_method *m = req->route->arg;
	const char *version = http_header(req->conn, "Connect-Protocol-Version");
	struct rpc_call *call;
	struct api *a;

	profiles_post.begin(req);
	if (req->reply)
		return;
	a = req->own;
	a->call = call = ARENA_NEW(a->arena, struct rpc_call);
	call->method = m;
	call->json = http_has_type(req->conn, TYPE_JSON);
	a->type = call->json ? TYPE_JSON : TYPE_BINARY;
	if (!call->json && !http_has_type(req->conn, TYPE_BINARY))
		request_refuse(req, 415, "the Content-Type must be " TYPE_BINARY " or " TYPE_JSON);
	else if (version && strcmp(version, "1") != 0)
		request_refuse(req, 400, "the Connect-Protocol-Version must be 1");
	else if (rpc_timeout(req, &call->timeout_ms) < 0)
		request_refuse(req, 400, "Connect-Timeout-Ms must be a number of at most ten digits");
}

/* ---- the request's message ---- */

/* A failure of the coding is reported by @err; an unknown coding by the status of "unimplemented" as well. */
static int rpc_decode(struct api *a, struct rpc_call *call, struct bytes *ret, struct err *err)
{
	const char *header = http_header(a->req->conn, "Content-Encoding");
	struct str name = str_trim(str_of(header ? header : ""));
	enum codec_kind kind = str_eq(name, STR("gzip"))   ? CODEC_GZIP
			       : str_eq(name, STR("zstd")) ? CODEC_ZSTD
							   : CODEC_NONE;

	*ret = a->body;
	if (!name.size || str_eq(name, STR("identity")))
		return 0;
	if (kind == CODEC_NONE) {
		a->status = 501;
		return err_set(err, ERR_INVALID, "the Content-Encoding must be gzip, zstd or identity");
	}
	if (codec_decode_held(kind, a->body, API_MAX_DECODED, &a->memory, &call->plain, err) < 0)
		return err_in(err, "the body as %s", codec_name(kind));
	call->plain_held = call->plain.room;
	*ret = buf_bytes(&call->plain);
	body_drop(a->req);
	return 0;
}

static int rpc_read(struct api *a, struct rpc_call *call, struct err *err)
{
	struct bytes in;

	if (rpc_decode(a, call, &in, err) < 0)
		return -1;
	call->request = in;
	if (call->json) {
		/* Connect's clients send "{}" for an empty message; nothing at all is as clear. */
		if (in.size && rpc_from_json(call->method->request, in, &a->memory, &call->binary, err) < 0)
			return -1;
		call->binary_held = call->binary.room;
		call->request = buf_bytes(&call->binary);
		buf_done(&call->plain);
		budget_hold_track(&a->memory, &call->plain_held, 0);
	}
	call->decoded = true;
	return 0;
}

int rpc_run(struct api *a, struct err *err)
{
	struct rpc_call *call = a->call;
	struct deadline *d = &a->deadline;

	if (call->timeout_ms)
		d->end_mono_ms = d->end_mono_ms ? MIN(d->end_mono_ms, d->start_mono_ms + call->timeout_ms)
						: d->start_mono_ms + call->timeout_ms;
	if (!call->decoded && rpc_read(a, call, err) < 0)
		return -1;
	return call->method->run(a, call->request, &a->out, err);
}

void rpc_drop(struct api *a)
{
	struct rpc_call *call = a->call;

	if (!call)
		return;
	buf_done(&call->plain);
	buf_done(&call->binary);
	call->request = (struct bytes){ 0 };
	budget_hold_track(&a->memory, &call->plain_held, 0);
	budget_hold_track(&a->memory, &call->binary_held, 0);
}

/* ---- the reply ---- */

int rpc_reply(struct api *a, struct err *err)
{
	AUTO(buf_done) struct buf json = { .hold = &a->memory };

	if (!a->call || !a->call->json)
		return 0;
	if (buf_check(&a->out, err) < 0)
		return -1;
	if (rpc_to_json(a->call->method->reply, buf_bytes(&a->out), &json, err) < 0)
		return err_in(err, "the reply");
	buf_done(&a->out);
	a->out = json;
	json = (struct buf){ 0 };
	return 0;
}

static enum http_next rpc_work(struct request *req)
{
	return profiles_post.run(req);
}

static void rpc_end(struct request *req)
{
	if (req->own)
		rpc_drop(req->own);
	profiles_post.done(req);
}

const struct http_handler rpc_post = { .begin = rpc_begin, .run = rpc_work, .done = rpc_end };
