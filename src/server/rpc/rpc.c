/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unary calls over Connect, gRPC and gRPC-Web, over the handlers of profiles: they add the type and coding of the
 * body, and a timeout that the client sets.
 */
#include "server/rpc/rpc.h"

#include <ctype.h>
#include "codec/codec.h"
#include "server/rpc/frames.h"

#define TYPE_BINARY     "application/proto"
#define TYPE_JSON       "application/json"
#define RPC_MAX_MESSAGE INT32_MAX /* as clients of protobuf have it */
#define PACK_FROM       KIB(4)    /* a smaller message is not compressed */
#define PACK_GZIP       1
#define PACK_ZSTD       1
/* A compressed profile in a compressed message: two layers must not do more than one of gzip can. */
#define GZIP_MOST   UINT64_C(1032)
#define INNER_LEAST MIB(16)

struct rpc_call {
	const struct rpc_method *method;
	enum grpc_form form; /* GRPC_NONE: Connect */
	bool json;
	bool sized;         /* the prefix of its message was judged */
	int64_t timeout_ms; /* 0: the client set none */
	bool decoded;
	uint64_t packed_size; /* of its message, if that was compressed */
	const char *coding;   /* of the reply's message; NULL: identity */
	struct bytes request; /* in `binary`, or the body as it was sent */
	struct buf plain, binary;
	uint64_t plain_held, binary_held; /* of a->memory */
};

/* ---- headers ---- */

static int connect_timeout(struct request *req, int64_t *ret)
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

static void connect_begin(struct request *req, struct api *a, struct rpc_call *call)
{
	const char *version = http_header(req->conn, "Connect-Protocol-Version");

	call->json = http_has_type(req->conn, TYPE_JSON);
	a->type = call->json ? TYPE_JSON : TYPE_BINARY;
	if (!call->json && !http_has_type(req->conn, TYPE_BINARY))
		request_refuse(req, 415, "the Content-Type must be " TYPE_BINARY " or " TYPE_JSON);
	else if (version && strcmp(version, "1") != 0)
		request_refuse(req, 400, "the Connect-Protocol-Version must be 1");
	else if (connect_timeout(req, &call->timeout_ms) < 0)
		request_refuse(req, 400, "Connect-Timeout-Ms must be a number of at most ten digits");
}

/* The reply has the type of the request, without parameters. */
static void grpc_begin(struct request *req, struct api *a, struct rpc_call *call)
{
	const char *timeout = http_header(req->conn, "grpc-timeout");
	struct str rest = str_of(http_header(req->conn, "Content-Type")),
		   type = str_trim(str_cut(&rest, ';'));
	char *lower = arena_strdup(a->arena, type);
	const char *plus;

	for (char *p = lower; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	a->type = lower;
	plus = strchr(lower, '+');
	call->json = plus && strcmp(plus, "+json") == 0;
	if (plus && !call->json && strcmp(plus, "+proto") != 0)
		request_refuse(req, 415, "messages must be protobuf (+proto) or JSON (+json)");
	else if (timeout && !grpc_timeout_parse(str_of(timeout), &call->timeout_ms))
		request_refuse(req, 400,
			       "grpc-timeout must be at most eight digits and a unit: H, M, S, m, u, n");
	else if (timeout)
		call->timeout_ms = MAX(call->timeout_ms, 1);
}

/* ---- the request's message ---- */

/* A message that is too large is refused by the length before it, and none of it is collected. */
static size_t rpc_body(struct request *req, struct bytes chunk)
{
	struct api *a = req->own;
	struct rpc_call *call = a->call;
	size_t known = req->body.size + chunk.size;
	uint64_t size = 0;

	if (call->form && call->form != GRPC_WEB_TEXT && !call->sized && known >= GRPC_PREFIX_SIZE) {
		for (size_t i = 1; i < GRPC_PREFIX_SIZE; i++)
			size = size << 8 |
			       (i < req->body.size ? req->body.p[i] : chunk.p[i - req->body.size]);
		call->sized = true;
		if (size > req->route->body->max - GRPC_PREFIX_SIZE) {
			body_drop(req);
			req->body_refused = 413;
		}
	}
	return body_add(req, chunk);
}

/* An unknown coding is reported by @err, and by the status of "unimplemented" as well. */
static int rpc_coding(struct api *a, const char *header, enum codec_kind *ret, struct err *err)
{
	const char *value = http_header(a->req->conn, header);
	struct str name = str_trim(str_of(value ? value : ""));

	*ret = CODEC_NONE;
	if (!name.size || str_eq(name, STR("identity")))
		return 0;
	if (str_eq(name, STR("gzip")))
		*ret = CODEC_GZIP;
	else if (str_eq(name, STR("zstd")))
		*ret = CODEC_ZSTD;
	else {
		a->status = 501;
		return err_set(err, ERR_INVALID, "the %s must be gzip, zstd or identity", header);
	}
	return 0;
}

static uint64_t rpc_max_decoded(const struct api *a)
{
	return a->req->route->body == &profiles_body ? API_MAX_DECODED : API_MAX_QUERY;
}

static uint64_t rpc_max_profile(const struct api *a)
{
	uint64_t packed = a->call->packed_size;

	return packed ? MIN(MAX(INNER_LEAST, packed * GZIP_MOST), API_MAX_DECODED) : API_MAX_DECODED;
}

/* @in is a view into the body, or into call->plain, which it then replaces. */
static int rpc_unpack(struct api *a, struct rpc_call *call, enum codec_kind kind, struct bytes *in,
		      struct err *err)
{
	AUTO(buf_done) struct buf out = { 0 };

	if (codec_decode_held(kind, *in, rpc_max_decoded(a), &a->memory, &out, err) < 0)
		return err_in(err, "the body as %s", codec_name(kind));
	/* Readers of profiles would undo a second layer, so that 1 KiB becomes the limit of decoded bytes. */
	if (codec_detect_magic(buf_bytes(&out)) != CODEC_NONE)
		return err_set(err, ERR_INVALID, "the body is compressed twice: compress it once");
	call->packed_size = in->size;
	buf_done(&call->plain);
	call->plain = out;
	out = (struct buf){ 0 };
	budget_hold_track(&a->memory, &call->plain_held, 0);
	call->plain_held = call->plain.room;
	*in = buf_bytes(&call->plain);
	body_drop(a->req);
	return 0;
}

/* gRPC-Web's text: base64 of the frames, which may be in parts that are padded each. */
static int rpc_untext(struct api *a, struct rpc_call *call, struct bytes *in, struct err *err)
{
	struct str rest = { (const char *)in->p, in->size };

	call->plain = (struct buf){ .hold = &a->memory };
	while (rest.size) {
		const char *pad = memchr(rest.p, '=', rest.size);
		size_t n = pad ? (size_t)(pad - rest.p) : rest.size;

		while (n < rest.size && rest.p[n] == '=')
			n++;
		if (!base64_decode((struct str){ rest.p, n }, &call->plain))
			return err_set(err, ERR_INVALID, "the body is no base64");
		rest = (struct str){ rest.p + n, rest.size - n };
	}
	*in = buf_bytes(&call->plain);
	return buf_check(&call->plain, err);
}

/* The one message of a unary call. */
static int rpc_unframe(struct api *a, struct rpc_call *call, struct bytes *in, struct err *err)
{
	struct rpc_frames f = { .max = a->req->route->body->max };
	struct rpc_piece piece;
	enum codec_kind kind;
	int r = rpc_frames_next(&f, in, &piece, err);

	if (r < 0)
		return -1;
	if (r == 0 || !piece.last)
		return err_set(err, ERR_INVALID, "the body must be one message, and ends within it");
	if (in->size)
		return err_set(err, ERR_INVALID, "the body must be one message, and has bytes after it");
	*in = piece.b;
	if (!piece.compressed)
		return 0;
	if (rpc_coding(a, "grpc-encoding", &kind, err) < 0)
		return -1;
	if (kind == CODEC_NONE)
		return err_set(err, ERR_INVALID, "a message is compressed, but there is no grpc-encoding");
	return rpc_unpack(a, call, kind, in, err);
}

static int rpc_decode(struct api *a, struct rpc_call *call, struct bytes *ret, struct err *err)
{
	enum codec_kind kind;

	*ret = a->body;
	if (call->form == GRPC_WEB_TEXT && rpc_untext(a, call, ret, err) < 0)
		return -1;
	if (call->form)
		return rpc_unframe(a, call, ret, err);
	if (rpc_coding(a, "Content-Encoding", &kind, err) < 0)
		return -1;
	return kind ? rpc_unpack(a, call, kind, ret, err) : 0;
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

/* The client counts its timeout from the start of the request. */
int rpc_run(struct api *a, struct err *err)
{
	struct rpc_call *call = a->call;
	struct deadline *d = &a->deadline;
	int64_t end_ms = a->req->started_ns / 1000000 + call->timeout_ms;

	if (call->timeout_ms)
		d->end_mono_ms = d->end_mono_ms ? MIN(d->end_mono_ms, end_ms) : end_ms;
	/* It may have waited for its body, or for a worker, until the client gave up. */
	if (deadline_check(d, DEADLINE_STEPS, err) < 0 || (!call->decoded && rpc_read(a, call, err) < 0))
		return -1;
	return call->method->run(a, call->request, &a->out, err);
}

static void rpc_drop(struct api *a)
{
	struct rpc_call *call = a->call;

	buf_done(&call->plain);
	buf_done(&call->binary);
	call->request = (struct bytes){ 0 };
	budget_hold_track(&a->memory, &call->plain_held, 0);
	budget_hold_track(&a->memory, &call->binary_held, 0);
}

/* ---- the reply ---- */

static int reply_to_json(struct api *a, struct err *err)
{
	AUTO(buf_done) struct buf json = { .hold = &a->memory };

	if (rpc_to_json(a->call->method->reply, buf_bytes(&a->out), &json, err) < 0)
		return err_in(err, "the reply");
	buf_done(&a->out);
	a->out = json;
	json = (struct buf){ 0 };
	return 0;
}

/* "gzip, identity" */
static bool is_in_list(const char *list, struct str name)
{
	struct str rest = str_of(list ? list : "");

	while (rest.size)
		if (str_eq(str_trim(str_cut(&rest, ',')), name))
			return true;
	return false;
}

/* The coding of the message, if it is compressed into @out. Over the loopback that takes longer than sending. */
static const char *pack_message(struct api *a, struct buf *out)
{
	struct http_conn *conn = a->req->conn;
	const char *accepted = http_header(conn, "grpc-accept-encoding");

	if (a->out.size < PACK_FROM || !accepted || http_is_loopback(conn))
		return NULL;
	if (is_in_list(accepted, STR("zstd")))
		return codec_pack_zstd(buf_bytes(&a->out), PACK_ZSTD, out, NULL) == 0 ? "zstd" : NULL;
	if (is_in_list(accepted, STR("gzip")))
		return codec_pack_gzip(buf_bytes(&a->out), PACK_GZIP, out, NULL) == 0 ? "gzip" : NULL;
	return NULL;
}

/* One message, and in gRPC-Web the trailers. */
static void frame_reply(enum grpc_form form, bool compressed, struct bytes message, struct buf *out)
{
	grpc_put_prefix(compressed ? GRPC_COMPRESSED : 0, message.size, out);
	buf_add(out, message.p, message.size);
	if (form != GRPC_PLAIN)
		grpc_put_end(out);
}

static int reply_to_frame(struct api *a, struct err *err)
{
	struct rpc_call *call = a->call;
	AUTO(buf_done) struct buf packed = { .hold = &a->memory };
	AUTO(buf_done) struct buf framed = { .hold = &a->memory };
	AUTO(buf_done) struct buf text = { .hold = &a->memory };
	bool is_text = call->form == GRPC_WEB_TEXT;

	call->coding = pack_message(a, &packed);
	frame_reply(call->form, call->coding, buf_bytes(call->coding ? &packed : &a->out), &framed);
	if (is_text)
		base64_encode(buf_bytes(&framed), &text);
	if (buf_check(is_text ? &text : &framed, err) < 0)
		return -1;
	buf_done(&a->out);
	a->out = is_text ? text : framed;
	*(is_text ? &text : &framed) = (struct buf){ 0 };
	return 0;
}

/* A message in a file: JSON and base64 are made of it in memory, frames around it. */
static int reply_of_spool(struct api *a, struct err *err)
{
	struct rpc_call *call = a->call;
	uint64_t size = a->out.size + spool_size(&a->spool);
	AUTO(buf_done) struct buf head = { 0 };
	AUTO(buf_done) struct buf end = { 0 };

	if (size > RPC_MAX_MESSAGE)
		return err_set(err, ERR_LIMIT,
			       "the reply has %llu bytes, which is more than a message may have: ask for a "
			       "shorter range of time",
			       (unsigned long long)size);
	if (call->json || call->form == GRPC_WEB_TEXT) {
		if (spool_read(&a->spool, &a->out, err) < 0)
			return -1;
		spool_done(&a->spool);
		return 0;
	}
	if (!call->form)
		return 0;
	grpc_put_prefix(0, size, &head);
	buf_add(&head, a->out.p, a->out.size);
	a->out.size = 0;
	buf_add(&a->out, head.p, head.size);
	if (call->form != GRPC_PLAIN)
		grpc_put_end(&end);
	return spool_add(&a->spool, buf_bytes(&end), err);
}

static int rpc_reply(struct api *a, struct err *err)
{
	if (a->spool.filed && reply_of_spool(a, err) < 0)
		return -1;
	if (a->spool.filed || (!a->call->json && !a->call->form))
		return 0;
	if (buf_check(&a->out, err) < 0 || (a->call->json && reply_to_json(a, err) < 0))
		return -1;
	return a->call->form ? reply_to_frame(a, err) : 0;
}

static void grpc_headers(enum grpc_form form, struct http_reply *r)
{
	http_reply_header(r, "grpc-accept-encoding", GRPC_CODINGS);
	if (form == GRPC_PLAIN)
		http_reply_trailer(r, "grpc-status", "0");
}

static void rpc_reply_headers(struct api *a)
{
	struct rpc_call *call = a->call;

	if (!call->form)
		return;
	grpc_headers(call->form, a->req->reply);
	if (call->coding)
		http_reply_header(a->req->reply, "grpc-encoding", call->coding);
}

bool rpc_is_framed(const struct api *a)
{
	return a->call->form;
}

void rpc_reply_message(struct request *req, struct bytes message)
{
	enum grpc_form form = grpc_form_of(req->conn);
	struct buf out = { 0 }, text = { 0 };
	const char *type = http_header(req->conn, "Content-Type");

	if (form)
		frame_reply(form, false, message, &out);
	else
		buf_add(&out, message.p, message.size);
	if (form == GRPC_WEB_TEXT) {
		base64_encode(buf_bytes(&out), &text);
		buf_done(&out);
		out = text;
	}
	if (request_reply_body(req, 200, &out, type ? type : TYPE_BINARY, true) && form)
		grpc_headers(form, req->reply);
}

/* ---- handler ---- */

static const struct api_form call_form = { .reply = rpc_reply,
					   .reply_headers = rpc_reply_headers,
					   .is_packed = rpc_is_framed,
					   .max_profile = rpc_max_profile,
					   .drop = rpc_drop };

static void rpc_begin(struct request *req)
{
	struct rpc_call *call;
	struct api *a;

	profiles_post.begin(req);
	if (req->reply)
		return;
	a = req->own;
	a->call = call = ARENA_NEW(a->arena, struct rpc_call);
	a->form = &call_form;
	call->method = req->route->arg;
	call->form = grpc_form_of(req->conn);
	if (call->form)
		grpc_begin(req, a, call);
	else
		connect_begin(req, a, call);
}

static enum http_next rpc_work(struct request *req)
{
	return profiles_post.run(req);
}

static void rpc_end(struct request *req)
{
	struct api *a = req->own;

	if (a && a->call)
		rpc_drop(a);
	profiles_post.done(req);
}

const struct http_handler rpc_post = {
	.begin = rpc_begin, .body = rpc_body, .run = rpc_work, .done = rpc_end
};
