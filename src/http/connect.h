/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors as clients of Connect read them (connectrpc.com, protocol, "unary"): a status, exactly the type
 * application/json, and {"code": ..., "message": ...}. A client acts by the code, not by the status: it drops the
 * request, or sends it again. Without such a body it takes most statuses for "unknown", which it sends again up to ten
 * times.
 *
 * A row with HTTP_CONNECT (route.h) has all its refusals in this form: those of this module, and
 * request_refuse(req, status, err.text) of its handler, with the code that the status implies. Where two codes have one
 * status, request_refuse_connect() names the code. Success is a reply like any other: 200, with the type of the
 * request's body.
 */
#pragma once

#include <stdbool.h>

enum connect_code {
	CONNECT_CANCELED,
	CONNECT_INVALID_ARGUMENT,
	CONNECT_DEADLINE_EXCEEDED,
	CONNECT_NOT_FOUND,
	CONNECT_ALREADY_EXISTS,
	CONNECT_PERMISSION_DENIED,
	CONNECT_RESOURCE_EXHAUSTED,
	CONNECT_FAILED_PRECONDITION,
	CONNECT_UNIMPLEMENTED,
	CONNECT_INTERNAL,
	CONNECT_UNAVAILABLE,
	CONNECT_UNAUTHENTICATED,
	CONNECT_N_CODES
};

#define CONNECT_NO_GRPC                                                                                   \
	"gRPC needs HTTP/2, and this is HTTP/1.1: use the address of --listen-grpc, or gRPC-Web, or the " \
	"Connect protocol with application/proto or application/json"

/* "invalid_argument" */
const char *connect_code_name(enum connect_code code);
/*
 * The code for a status from 400 on. The request is wrong, too large (413) or misses something: INVALID_ARGUMENT, so
 * that the client does not send it again; RESOURCE_EXHAUSTED would be sent again by some. Too busy, or a full disk:
 * UNAVAILABLE.
 */
enum connect_code connect_code_of(unsigned status);
/* Its number in google.rpc.Code, which is gRPC's, too. */
unsigned connect_code_number(enum connect_code code);
/* "application/grpc", "application/grpc-web+proto", ...; NULL is none. */
bool connect_is_grpc(const char *content_type);
