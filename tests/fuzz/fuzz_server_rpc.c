/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of protobuf, from JSON if the input begins with a brace, else from the binary form. What was converted once
 * converts back and forth without a change.
 */
#include "fuzz.h"

#include "server/rpc/rpc.h"

static const struct rpc_enum_value colour_values[] = { { 1, "RED" }, { -2, "BLUE" }, { 0 } };
static const struct rpc_enum colours = { "test.Colour", colour_values };
static const struct rpc_message node;
static const struct rpc_field node_fields[] = {
	{ 1, "text_s", RPC_STRING },
	{ 2, "raw", RPC_BYTES },
	{ 3, "hex", RPC_HEX },
	{ 4, "flag", RPC_BOOL },
	{ 5, "colour", RPC_ENUM, 0, NULL, &colours },
	{ 6, "i32", RPC_INT32 },
	{ 7, "i64", RPC_INT64 },
	{ 8, "u32", RPC_UINT32 },
	{ 9, "u64", RPC_UINT64 },
	{ 10, "f64", RPC_FIXED64 },
	{ 11, "d", RPC_DOUBLE },
	{ 12, "child", RPC_MESSAGE, 0, &node },
	{ 13, "children", RPC_MESSAGE, RPC_REPEATED, &node },
	{ 14, "numbers", RPC_INT64, RPC_REPEATED },
	{ 15, "words", RPC_STRING, RPC_REPEATED },
	{ 17, "maybe", RPC_INT32, RPC_PRESENT },
	{ 18, "at", RPC_TIMESTAMP },
	{ 19, "doubles", RPC_DOUBLE, RPC_REPEATED },
	{ 20, "f32", RPC_FIXED32, RPC_REPEATED },
	{ 21, "&colours", RPC_ENUM, RPC_REPEATED, NULL, &colours },
};
static const struct rpc_message node = RPC_FIELDS("test.Node", node_fields);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf binary = { 0 }, json = { 0 }, again = { 0 }, json_again = { 0 };
	struct bytes in = bytes_of(data, size);
	struct err err = { 0 };

	if (size && data[0] == '{') {
		if (rpc_from_json(&node, in, NULL, &binary, &err) < 0) {
			FUZZ_CHECK(err.kind != ERR_NONE);
			return 0;
		}
		in = buf_bytes(&binary);
	}
	if (rpc_to_json(&node, in, &json, &err) < 0) {
		/* What came of JSON is a sound message. */
		FUZZ_CHECK(err.kind != ERR_NONE && in.p == data && !json.size);
		return 0;
	}
	/* Replies may be deeper than requests, and their texts may have zero bytes. */
	if (rpc_from_json(&node, buf_bytes(&json), NULL, &again, &err) < 0) {
		FUZZ_CHECK(err.kind != ERR_NONE && in.p == data);
		return 0;
	}
	FUZZ_CHECK(rpc_to_json(&node, buf_bytes(&again), &json_again, &err) == 0);
	/* Of times, JSON's milliseconds are read. */
	FUZZ_CHECK(memmem(json.p, json.size, "\"at\"", 4) || str_eq(buf_str(&json), buf_str(&json_again)));
	return 0;
}
