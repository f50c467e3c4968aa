/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc.health.v1.Health: what probes of gRPC ask. Check alone; Watch is UNIMPLEMENTED, which clients take for "healthy",
 * as the protocol says.
 */
#include "server/rpc/rpc.h"
#include "server/status/status.h"
#include "wire/proto.h"

enum { HEALTH_SERVING = 1, HEALTH_NOT_SERVING = 2 };

static const struct rpc_enum_value health_states_values[] = {
	{ 0, "UNKNOWN" },
	{ HEALTH_SERVING, "SERVING" },
	{ HEALTH_NOT_SERVING, "NOT_SERVING" },
	{ 3, "SERVICE_UNKNOWN" },
	{ 0 },
};
static const struct rpc_enum health_states = { "grpc.health.v1.HealthCheckResponse.ServingStatus",
					       health_states_values };
static const struct rpc_field request_fields[] = { { 1, "service", RPC_STRING } };
static const struct rpc_field reply_fields[] = { { 1, "status", RPC_ENUM, 0, NULL, &health_states } };
static const struct rpc_message health_request = RPC_FIELDS("grpc.health.v1.HealthCheckRequest",
							    request_fields);
static const struct rpc_message health_reply = RPC_FIELDS("grpc.health.v1.HealthCheckResponse", reply_fields);

/* A row has the path "/SERVICE/...". */
static bool has_service(struct str service)
{
	for (const struct http_route *r = server_routes; r->pattern; r++) {
		struct str path = str_of(r->pattern + 1);

		if ((r->flags & HTTP_CONNECT) && r->method && str_eq(str_cut(&path, '/'), service))
			return true;
	}
	return false;
}

static int health_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct cursor c = cursor_of(request);
	struct str service = STR("");
	struct proto_field f;

	while (proto_next(&c, &f))
		if (f.number == 1 && f.wire == PROTO_LEN)
			service = proto_text(&f);
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID, "the message is cut off, or is none of protobuf");
	if (service.size && !has_service(service)) {
		a->status = 404;
		return err_set(err, ERR_INVALID, "this server has no service " STR_FMT, STR_ARG(service));
	}
	/* As /readyz; a service of its own takes calls from the start. */
	proto_put_number(reply, 1,
			 service.size || atomic_load(&a->req->s->is_ready) ? HEALTH_SERVING
									   : HEALTH_NOT_SERVING);
	return 0;
}

const struct rpc_method grpc_health_check = RPC_STORELESS(health_run, health_request, health_reply);

/* Of bodies that need no token: they must not take the room of those that need one. */
const struct http_body grpc_health_body = {
	.slot = BODY_QUERY,
	.max = KIB(4), /* with the prefix: the name of a service */
	.max_together = API_MAX_QUERIES,
	.too_long = "the message of a health check has 4 KiB at most",
};
