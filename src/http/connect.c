/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connect's codes, and the statuses that imply them.
 */
#include "http/connect.h"

#include <strings.h>

#define GRPC_TYPE "application/grpc"

static const char *const code_names[CONNECT_N_CODES] = {
	[CONNECT_CANCELED] = "canceled",
	[CONNECT_INVALID_ARGUMENT] = "invalid_argument",
	[CONNECT_DEADLINE_EXCEEDED] = "deadline_exceeded",
	[CONNECT_NOT_FOUND] = "not_found",
	[CONNECT_ALREADY_EXISTS] = "already_exists",
	[CONNECT_PERMISSION_DENIED] = "permission_denied",
	[CONNECT_RESOURCE_EXHAUSTED] = "resource_exhausted",
	[CONNECT_FAILED_PRECONDITION] = "failed_precondition",
	[CONNECT_UNIMPLEMENTED] = "unimplemented",
	[CONNECT_INTERNAL] = "internal",
	[CONNECT_UNAVAILABLE] = "unavailable",
	[CONNECT_UNAUTHENTICATED] = "unauthenticated",
};

static const unsigned char code_numbers[CONNECT_N_CODES] = {
	[CONNECT_CANCELED] = 1,           [CONNECT_INVALID_ARGUMENT] = 3,    [CONNECT_DEADLINE_EXCEEDED] = 4,
	[CONNECT_NOT_FOUND] = 5,          [CONNECT_ALREADY_EXISTS] = 6,      [CONNECT_PERMISSION_DENIED] = 7,
	[CONNECT_RESOURCE_EXHAUSTED] = 8, [CONNECT_FAILED_PRECONDITION] = 9, [CONNECT_UNIMPLEMENTED] = 12,
	[CONNECT_INTERNAL] = 13,          [CONNECT_UNAVAILABLE] = 14,        [CONNECT_UNAUTHENTICATED] = 16,
};

unsigned connect_code_number(enum connect_code code)
{
	return code_numbers[code];
}

const char *connect_code_name(enum connect_code code)
{
	return code_names[code];
}

enum connect_code connect_code_of(unsigned status)
{
	switch (status) {
	case 401:
		return CONNECT_UNAUTHENTICATED;
	case 403:
	case 421:
		return CONNECT_PERMISSION_DENIED;
	case 404:
		return CONNECT_NOT_FOUND;
	case 405:
	case 501:
		return CONNECT_UNIMPLEMENTED;
	case 409:
		return CONNECT_ALREADY_EXISTS;
	case 412:
		return CONNECT_FAILED_PRECONDITION;
	case 429:
		return CONNECT_RESOURCE_EXHAUSTED;
	case 499:
		return CONNECT_CANCELED;
	case 500:
		return CONNECT_INTERNAL;
	case 504:
		return CONNECT_DEADLINE_EXCEEDED;
	default:
		return status < 500 ? CONNECT_INVALID_ARGUMENT : CONNECT_UNAVAILABLE;
	}
}

bool connect_is_grpc(const char *content_type)
{
	return content_type && strncasecmp(content_type, GRPC_TYPE, sizeof(GRPC_TYPE) - 1) == 0;
}
