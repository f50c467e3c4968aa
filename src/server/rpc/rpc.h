/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of protobuf services: POST /package.Service/Call, with one message each way. A client speaks Connect's unary
 * protocol (connectrpc.com/docs/protocol), where the body is the message; or gRPC or gRPC-Web, where it is a frame
 * (http/grpc.h). A function reads and writes protobuf's binary form alone (wire/proto.h). A client may as well send
 * JSON, and gets JSON then: tables of fields describe the messages, and both forms are converted by them.
 *
 *   rpc.c     a call from its headers to its reply: form, coding, timeout
 *   frames.c  gRPC's frames as they come (frames.h), for calls with more than one message
 *   json_read.c, json_write.c   messages from JSON to binary, and back
 *   describe.c, reflection.c    what services there are, for clients that know none: grpcurl
 *
 * A new call is a table of fields for each of its two messages, a function and a row of the table of routes:
 *
 *	static int push_run(struct api *a, struct bytes request, struct buf *reply, struct err *err) ...
 *	const struct rpc_method push_v1_push = RPC_METHOD(push_run, push_request, push_response);
 *	RPC("/push.v1.PusherService/Push", push_v1_push, ...)
 *
 * It runs like any function of an api_route: a->deadline ends it, a->memory grants its memory, the error's kind makes
 * the status and Connect's code (http/connect.h). The body is decoded already.
 */
#pragma once

#include "server/profiles/profiles.h"

/* ---- json_read.c, json_write.c ---- */

enum rpc_kind {
	RPC_STRING,
	RPC_BYTES, /* base64 in JSON */
	RPC_HEX,   /* bytes; hexadecimal in JSON, as OpenTelemetry's IDs are */
	RPC_BOOL,
	RPC_ENUM, /* JSON has the name, or the number of one without a name */
	RPC_INT32,
	RPC_INT64,
	RPC_UINT32,
	RPC_UINT64,
	RPC_FIXED32,
	RPC_FIXED64,
	RPC_SFIXED64,
	RPC_DOUBLE,
	RPC_MESSAGE,
	RPC_TIMESTAMP, /* google.protobuf.Timestamp: RFC 3339 in JSON, of which milliseconds are read */
};

enum {
	RPC_REPEATED = 1 << 0, /* numbers are packed; both forms are read */
	RPC_PRESENT = 1 << 1,  /* `optional`, or of a oneof: zero is not the same as absent */
};

struct rpc_enum_value {
	int32_t value;
	const char *name;
};

struct rpc_enum {
	const char *name;                    /* "querier.v1.ProfileFormat"; the first value is 0 */
	const struct rpc_enum_value *values; /* ends with a name of NULL */
};

struct rpc_field {
	uint32_t number;
	const char *name; /* as the .proto file has it; JSON's lowerCamelCase is made of it */
	enum rpc_kind kind;
	unsigned flags;
	const struct rpc_message *message; /* of RPC_MESSAGE */
	const struct rpc_enum *names;      /* of RPC_ENUM */
};

#define RPC_MAX_FIELDS 48u /* of a message */
#define RPC_MAX_NAME   64u
#define RPC_MAX_DEPTH  24u /* messages in one another, of a request */
/* Of a reply: Parca's tree of calls has a message in that of its caller for each of its 200 levels. */
#define RPC_MAX_REPLY_DEPTH 220u
#define RPC_MAX_LISTS       400000u
#define RPC_MAX_VALUES      4000000u

struct rpc_message {
	const char *name; /* "push.v1.PushRequest": package, types around it, its own */
	const struct rpc_field *fields;
	size_t n;
};
#define RPC_FIELDS(name, table) ((struct rpc_message){ name, table, ARRAY_SIZE(table) })
#define RPC_EMPTY(name)         ((const struct rpc_message){ name, NULL, 0 })

/*
 * JSON to binary, by protobuf's JSON mapping; appends. Names of fields in both spellings, 64-bit numbers as text or
 * number, null as absent; unknown names are ignored. @hold grants the memory; NULL: no limit.
 */
int rpc_from_json(const struct rpc_message *m, struct bytes json, struct budget_hold *hold, struct buf *out,
		  struct err *err);
/* Binary to JSON; appends. Unknown fields are left out, and so are zeros but of RPC_PRESENT. */
int rpc_to_json(const struct rpc_message *m, struct bytes binary, struct buf *out, struct err *err);

/* ---- rpc.c ---- */

struct rpc_method {
	struct api_route route; /* `arg` of the row */
	const struct rpc_message *request, *reply;
	/*
	 * As api_route.run(). @request lasts until take_end(), or until the request ends. @reply is a->out, which a
	 * function that returns API_GOES_ON may fill later.
	 */
	int (*run)(struct api *a, struct bytes request, struct buf *reply, struct err *err);
	/* Of a call with a handler of its own, and no run(): one side, or both, sends more than one message. */
	bool client_streams, server_streams;
};
#define RPC_METHOD(fn, in, out)                                           \
	{                                                                 \
		{ .args = "*", .run = rpc_run }, &(in), &(out), .run = fn \
	}
/* The same for calls that need no profile store. */
#define RPC_STORELESS(fn, in, out)                                                           \
	{                                                                                    \
		{ .args = "*", .run = rpc_run, .storeless = true }, &(in), &(out), .run = fn \
	}
int rpc_run(struct api *a, struct err *err); /* of all api_routes of calls */

extern const struct http_handler rpc_post;

/* ---- reflection.c ---- */

extern const struct http_handler reflection_post;
extern const struct rpc_method reflection_v1, reflection_v1alpha; /* of the rows, for their descriptions */

bool rpc_is_framed(const struct api *a); /* its reply is in frames of gRPC */
/*
 * For handlers of their own that are called by gRPC or gRPC-Web: make the reply of one message in binary. Refusals are
 * made by request_refuse().
 */
void rpc_reply_message(struct request *req, struct bytes message);
