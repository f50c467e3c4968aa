/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC as a form of requests and replies (grpc.io, "gRPC over HTTP2"; "gRPC Web"). A body is frames: a flag, four bytes
 * of length, a message. The result is no HTTP status, which is always 200, but grpc-status: in a trailer, or, in
 * gRPC-Web, in a last frame of the body. So gRPC-Web needs no HTTP/2, and gRPC does.
 *
 * Every refusal of this module, and request_refuse() of a handler, has this form if the request's Content-Type is of
 * gRPC, whatever its path. In log and metrics they keep the status that was refused with. server/rpc/ reads and writes
 * the messages.
 */
#pragma once

#include "base/buf.h"
#include "http/connect.h"
#include "http/http.h"

enum grpc_form {
	GRPC_NONE,
	GRPC_PLAIN, /* over HTTP/2 */
	GRPC_WEB,
	GRPC_WEB_TEXT, /* in base64 */
};

#define GRPC_PREFIX_SIZE 5u
#define GRPC_COMPRESSED  0x01u /* flags of a frame */
#define GRPC_TRAILERS    0x80u
#define GRPC_CODINGS     "identity,gzip,zstd" /* of grpc-accept-encoding */

/* By its Content-Type. gRPC over HTTP/1.1 is GRPC_NONE: it cannot be answered. So is a GET: all calls are POST. */
enum grpc_form grpc_form_of(struct http_conn *c);
/* The number that stands for a status from 400 on: Connect's, but a message that is too large (413) is RESOURCE_EXHAUSTED. */
unsigned grpc_code_of(unsigned status);
/* "5S", "100m": at most eight digits, and one of HMSmun. Rounded up to milliseconds. false: malformed. */
bool grpc_timeout_parse(struct str s, int64_t *ret_ms);

/* The prefix of a message of @size bytes. */
void grpc_put_prefix(unsigned flags, size_t size, struct buf *out);
/* GRPC_WEB: the last frame of a body that ends well. */
void grpc_put_end(struct buf *out);

/*
 * A reply without a message. @status is that of the refusal, for clients that may ask again. *ret_size: of the body.
 */
struct grpc_refusal {
	enum grpc_form form; /* not GRPC_NONE */
	const char *type;    /* the request's Content-Type */
	unsigned status, code;
	struct str text;
};
struct http_reply *grpc_refuse(const struct grpc_refusal *refusal, size_t *ret_size);
