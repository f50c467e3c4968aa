/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry's profiles, over HTTP (OTLP/HTTP: a request of the collector's ProfilesService as the body) and over gRPC
 * (the service itself). Profiles that are damaged are reported as rejected in the reply, so that the sender sends the
 * others but once.
 */
#include "codec/codec.h"
#include "profile/otlp.h"
#include "profile/otlp_fields.h"
#include "server/intake/intake.h"
#include "server/intake/otlp_json.h"
#include "server/rpc/rpc.h"
#include "wire/proto.h"

static int otlp_take_one(void *arg, struct profile *p, const struct otlp_label *labels, size_t n,
			 struct err *err)
{
	struct api *a = arg;
	struct profilestore_label *copies = ARENA_NEW_N(a->arena, struct profilestore_label, n + 1);

	for (size_t i = 0; i < n; i++)
		copies[i] = (struct profilestore_label){ arena_str(a->arena, labels[i].name),
							 arena_str(a->arena, labels[i].value) };
	return take_foreign(a, p, copies, n, (struct take_how){ .pyroscope = true }, err);
}

static bool is_otlp_json(const struct api *a)
{
	return http_has_type(a->req->conn, "application/json");
}

/* The request in protobuf, in @room. */
static int otlp_of_json(struct api *a, struct buf *room, struct err *err)
{
	AUTO(buf_done) struct buf plain = { 0 };
	enum codec_kind kind = codec_detect_magic(a->body);
	struct bytes in = a->body;

	if (kind != CODEC_NONE) {
		if (codec_decode_held(kind, in, API_MAX_DECODED, &a->memory, &plain, err) < 0)
			return -1;
		in = buf_bytes(&plain);
	}
	return rpc_from_json(&otlp_json_request, in, &a->memory, room, err);
}

static int otlp_take_message(struct api *a, struct bytes in, struct err *err)
{
	struct profile_limits limits = take_limits(a);
	struct otlp_result *result = ARENA_NEW(a->arena, struct otlp_result);

	limits.deadline = &a->deadline;
	a->otlp = result;
	if (otlp_read(in, &limits, (struct otlp_sink){ otlp_take_one, a }, result, err) < 0)
		return err_in(err, "the request");
	if (!result->n_profiles && result->n_rejected) {
		*err = result->why;
		return err_in(err, "all %u profiles are refused; the first", result->n_rejected);
	}
	return 0;
}

static int otlp_take(struct api *a, struct err *err)
{
	AUTO(buf_done) struct buf room = { 0 };

	if (!is_otlp_json(a))
		return otlp_take_message(a, a->body, err);
	if (otlp_of_json(a, &room, err) < 0)
		return err_in(err, "the request");
	return otlp_take_message(a, buf_bytes(&room), err);
}

/* Empty if all were taken. */
static void otlp_reply(const struct otlp_result *result, struct buf *out)
{
	AUTO(buf_done) struct buf partial = { 0 };

	if (!result->n_rejected)
		return;
	proto_put_number(&partial, OTLP_REJECTED_PROFILES, result->n_rejected);
	proto_put_str(&partial, OTLP_ERROR_MESSAGE, str_of(result->why.text));
	proto_put_message(out, OTLP_PARTIAL_SUCCESS, &partial);
}

static void otlp_answer(struct api *a, const struct profilestore_receipt *r)
{
	AUTO(buf_done) struct buf reply = { 0 };
	bool json = is_otlp_json(a);

	otlp_reply(a->otlp, &reply);
	a->type = json ? "application/json" : "application/x-protobuf";
	/* Of a message that was just made it cannot fail. */
	if (json)
		(void)rpc_to_json(&otlp_json_reply, buf_bytes(&reply), &a->out, NULL);
	else
		buf_add_str(&a->out, buf_str(&reply));
}

int api_post_otlp(struct api *a, struct err *err)
{
	int r = otlp_take(a, err);

	return take_end(a, r, otlp_answer, err);
}

/* ---- the collector's ProfilesService ---- */

static void otlp_answer_call(struct api *a, const struct profilestore_receipt *r)
{
	otlp_reply(a->otlp, &a->out);
}

static int otlp_export_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	int r = otlp_take_message(a, request, err);

	return take_end(a, r, otlp_answer_call, err);
}

const struct rpc_method otlp_export = RPC_METHOD(otlp_export_run, otlp_json_request, otlp_json_reply);
