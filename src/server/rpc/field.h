/* SPDX-License-Identifier: Apache-2.0 */
/* A field of a message, as both directions between JSON and the binary form see it. */
#pragma once

#include "server/rpc/rpc.h"
#include "wire/proto.h"

/* "should_initiate_upload" to "shouldInitiateUpload", in @room. */
struct str rpc_json_name(const struct rpc_field *f, char room[RPC_MAX_NAME]);
/* How an element of this kind is written; a packed list is PROTO_LEN all the same. */
enum proto_wire rpc_wire_of(enum rpc_kind kind);
bool rpc_is_signed(enum rpc_kind kind);
/* A whole number of 32 bits. */
bool rpc_is_small(enum rpc_kind kind);
/* ERR_INVALID: the field must be @what. Returns -1. */
int rpc_wrong_value(const struct rpc_field *f, const char *what, struct err *err);
