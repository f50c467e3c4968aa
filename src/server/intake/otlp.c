/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry's profiles over HTTP (OTLP/HTTP: a request of the collector's ProfilesService as the body). What is
 * damaged of it is told as rejected in the reply, so that the sender sends the others but once.
 */
#include "profile/otlp.h"
#include "server/intake/intake.h"
#include "wire/proto.h"

/* ExportProfilesServiceResponse, ExportProfilesPartialSuccess */
enum { RESPONSE_PARTIAL_SUCCESS = 1, PARTIAL_REJECTED = 1, PARTIAL_MESSAGE = 2 };

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
	const char *type = http_header(a->req->conn, "Content-Type");

	return type && str_starts(str_of(type), STR("application/json"));
}

static int otlp_take(struct api *a, struct err *err)
{
	const struct profile_limits limits = take_limits(a);
	struct otlp_result *result = ARENA_NEW(a->arena, struct otlp_result);

	a->otlp = result;
	if (is_otlp_json(a))
		return err_set(err, ERR_INVALID, "OTLP is read in protobuf only: set the encoding to proto");
	if (otlp_read(a->body, &limits, (struct otlp_sink){ otlp_take_one, a }, result, err) < 0)
		return err_in(err, "the request");
	if (!result->n_profiles && result->n_rejected) {
		*err = result->why;
		return err_in(err, "all %u profiles are refused; the first", result->n_rejected);
	}
	return 0;
}

/* Empty if all were taken. */
static void otlp_answer(struct api *a, const struct profilestore_receipt *r)
{
	AUTO(buf_done) struct buf partial = { 0 };
	const struct otlp_result *result = a->otlp;

	a->type = "application/x-protobuf";
	if (!result->n_rejected)
		return;
	proto_put_number(&partial, PARTIAL_REJECTED, result->n_rejected);
	proto_put_str(&partial, PARTIAL_MESSAGE, str_of(result->why.text));
	proto_put_message(&a->out, RESPONSE_PARTIAL_SUCCESS, &partial);
}

int api_post_otlp(struct api *a, struct err *err)
{
	int r = otlp_take(a, err);

	return take_end(a, r, otlp_answer, err);
}
