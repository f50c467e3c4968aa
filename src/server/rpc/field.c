/* SPDX-License-Identifier: Apache-2.0 */
#include "server/rpc/field.h"

struct str rpc_json_name(const struct rpc_field *f, char room[RPC_MAX_NAME])
{
	bool upper = false;
	size_t n = 0;

	for (const char *at = f->name; *at && n + 1 < RPC_MAX_NAME; at++) {
		if (*at == '_') {
			upper = true;
			continue;
		}
		room[n++] = upper && *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;
		upper = false;
	}
	room[n] = '\0';
	return (struct str){ room, n };
}

enum proto_wire rpc_wire_of(enum rpc_kind kind)
{
	switch (kind) {
	case RPC_STRING:
	case RPC_BYTES:
	case RPC_HEX:
	case RPC_MESSAGE:
	case RPC_TIMESTAMP:
		return PROTO_LEN;
	case RPC_FIXED32:
		return PROTO_32;
	case RPC_FIXED64:
	case RPC_SFIXED64:
	case RPC_DOUBLE:
		return PROTO_64;
	default:
		return PROTO_VARINT;
	}
}

bool rpc_is_signed(enum rpc_kind kind)
{
	return kind == RPC_INT32 || kind == RPC_INT64 || kind == RPC_SFIXED64 || kind == RPC_ENUM;
}

bool rpc_is_small(enum rpc_kind kind)
{
	return kind == RPC_INT32 || kind == RPC_UINT32 || kind == RPC_FIXED32 || kind == RPC_ENUM;
}

int rpc_wrong_value(const struct rpc_field *f, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "'%s' must be %s", f->name, what);
}
