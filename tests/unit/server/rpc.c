/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of protobuf between JSON and the binary form.
 */
#include "test.h"

#include "server/rpc/rpc.h"
#include "wire/proto.h"

enum { RED = 1, BLUE = -2 };
static const struct rpc_enum_value colour_values[] = { { RED, "COLOUR_RED" },
						       { BLUE, "COLOUR_BLUE" },
						       { 0 } };
static const struct rpc_enum colours = { "test.Colour", colour_values };

static const struct rpc_message node;
static const struct rpc_field node_fields[] = {
	{ 1, "plain_text", RPC_STRING },
	{ 2, "raw", RPC_BYTES },
	{ 3, "hexID", RPC_HEX },
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
	{ 19, "maybe_text", RPC_STRING, RPC_PRESENT },
	{ 20, "f32", RPC_FIXED32 },
	{ 21, "sf64", RPC_SFIXED64 },
};
static const struct rpc_message node = RPC_FIELDS("test.Node", node_fields);

/* JSON to binary and back. */
static void check_json(const char *json, const char *want)
{
	AUTO(buf_done) struct buf binary = { 0 }, back = { 0 };
	struct err err = { 0 };

	if (rpc_from_json(&node, bytes_of(json, strlen(json)), NULL, &binary, &err) < 0)
		fail_msg("%s: %s", json, err.text);
	if (rpc_to_json(&node, buf_bytes(&binary), &back, &err) < 0)
		fail_msg("%s: %s", json, err.text);
	assert_string_equal(buf_cstr(&back), want);
}

static void refused_json(const char *json, const char *why)
{
	AUTO(buf_done) struct buf binary = { 0 };
	struct err err = { 0 };

	if (rpc_from_json(&node, bytes_of(json, strlen(json)), NULL, &binary, &err) == 0)
		fail_msg("%s is taken", json);
	if (!strstr(err.text, why))
		fail_msg("%s: %s", json, err.text);
}

static void every_kind_goes_both_ways(void **state)
{
	check_json("{}", "{}");
	check_json("{\"plainText\":\"a\xc3\xa9\\\"\"}", "{\"plainText\":\"a\xc3\xa9\\\"\"}");
	check_json("{\"raw\":\"-_8\",\"hexID\":\"0aFF\"}", "{\"raw\":\"+/8=\",\"hexID\":\"0aff\"}");
	check_json("{\"flag\":true,\"colour\":\"COLOUR_BLUE\"}",
		   "{\"flag\":true,\"colour\":\"COLOUR_BLUE\"}");
	check_json("{\"colour\":7}", "{\"colour\":7}");
	check_json("{\"i32\":-2147483648,\"i64\":\"-9223372036854775808\"}",
		   "{\"i32\":-2147483648,\"i64\":\"-9223372036854775808\"}");
	check_json("{\"u32\":4294967295,\"u64\":18446744073709551615,\"f64\":\"18446744073709551615\"}",
		   "{\"u32\":4294967295,\"u64\":\"18446744073709551615\",\"f64\":\"18446744073709551615\"}");
	check_json("{\"f32\":\"7\",\"sf64\":-1}", "{\"f32\":7,\"sf64\":\"-1\"}");
	check_json("{\"i64\":1e3,\"u64\":\"2.50e1\",\"i32\":7.0}",
		   "{\"i32\":7,\"i64\":\"1000\",\"u64\":\"25\"}");
	check_json("{\"d\":\"-Infinity\"}", "{\"d\":\"-Infinity\"}");
	check_json("{\"d\":\"NaN\"}", "{\"d\":\"NaN\"}");
	check_json("{\"d\":\"1.5\"}", "{\"d\":1.5}");
	check_json("{\"child\":{},\"children\":[{},{\"i32\":1}]}",
		   "{\"child\":{},\"children\":[{},{\"i32\":1}]}");
	check_json("{\"numbers\":[1,\"0\",-1],\"words\":[\"\",\"a\"]}",
		   "{\"numbers\":[\"1\",\"0\",\"-1\"],\"words\":[\"\",\"a\"]}");
	check_json("{\"at\":\"2026-11-21T07:29:00.5Z\"}", "{\"at\":\"2026-11-21T07:29:00.500000000Z\"}");
	check_json("{\"at\":\"1970-01-01T00:00:00Z\"}", "{\"at\":\"1970-01-01T00:00:00Z\"}");
}

static void names_are_taken_in_both_spellings_and_others_are_ignored(void **state)
{
	check_json("{\"plain_text\":\"a\"}", "{\"plainText\":\"a\"}");
	check_json("{\"nothing\":[{\"x\":[1]}],\"i32\":1}", "{\"i32\":1}");
	check_json("{\"i32\":null,\"words\":null,\"child\":null}", "{}");
}

static void zeros_are_left_out_unless_they_mean_something(void **state)
{
	check_json("{\"i32\":0,\"plainText\":\"\",\"flag\":false,\"words\":[],\"d\":0}", "{}");
	check_json("{\"maybe\":0,\"maybeText\":\"\"}", "{\"maybe\":0,\"maybeText\":\"\"}");
}

static void wrong_values_are_refused_by_name(void **state)
{
	refused_json("", "the body is empty");
	refused_json("[]", "a message must be an object");
	refused_json("{\"i32\":2147483648}", "'i32'");
	refused_json("{\"u32\":-1}", "'u32'");
	refused_json("{\"u64\":\"-1\"}", "'u64'");
	refused_json("{\"u64\":18446744073709551616}", "'u64'");
	refused_json("{\"i64\":\"9223372036854775808\"}", "'i64'");
	refused_json("{\"i64\":1.5}", "'i64'");
	refused_json("{\"i64\":\"0x10\"}", "'i64'");
	refused_json("{\"i64\":\"\"}", "'i64'");
	refused_json("{\"i64\":\"+2\"}", "'i64'");
	refused_json("{\"i64\":\"007\"}", "'i64'");
	refused_json("{\"i64\":\"7.\"}", "'i64'");
	refused_json("{\"i64\":\"-\"}", "'i64'");
	refused_json("{\"d\":\".5\"}", "'d'");
	refused_json("{\"d\":\"1e\"}", "'d'");
	refused_json("{\"d\":\" 1\"}", "'d'");
	refused_json("{\"d\":\"nan\"}", "'d'");
	refused_json("{\"d\":1e999}", "'d'");
	refused_json("{\"flag\":1}", "'flag'");
	refused_json("{\"colour\":\"GREEN\"}", "'colour'");
	refused_json("{\"raw\":\"a\"}", "'raw'");
	refused_json("{\"hexID\":\"abc\"}", "'hexID'");
	refused_json("{\"words\":\"a\"}", "'words' must be a list");
	refused_json("{\"words\":[null]}", "words 0: 'words' must be text");
	refused_json("{\"at\":\"now\"}", "'at'");
	refused_json("{\"child\":{\"children\":[{},{\"i32\":\"x\"}]}}", "child: children 1: 'i32'");
}

static void depth_is_limited(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };

	for (int i = 0; i < 30; i++)
		buf_add_str(&b, STR("{\"child\":"));
	buf_add_str(&b, STR("{}"));
	for (int i = 0; i < 30; i++)
		buf_add_char(&b, '}');
	refused_json(buf_cstr(&b), "more than 24 messages in one another");
	/* Binary, too, which is a reply: each is a child of the one before. */
	b.size = 0;
	for (unsigned i = 0; i < RPC_MAX_REPLY_DEPTH + 5; i++) {
		AUTO(buf_done) struct buf outer = { 0 }, out = { 0 };
		struct err err;

		proto_put_message(&outer, 12, &b);
		buf_add(&b, outer.p, outer.size);
		assert_int_equal(rpc_to_json(&node, buf_bytes(&b), &out, &err),
				 i < RPC_MAX_REPLY_DEPTH - 1 ? 0 : -1);
	}
}

/* A length of two bytes is made by moving what it counts. */
static void long_messages_have_long_lengths(void **state)
{
	AUTO(buf_done) struct buf json = { 0 }, binary = { 0 }, back = { 0 };
	struct err err = { 0 };

	buf_add_str(&json, STR("{\"children\":[{\"plainText\":\""));
	for (int i = 0; i < 20000; i++)
		buf_add_char(&json, (char)('a' + i % 26));
	buf_add_str(&json, STR("\"},{\"i32\":1}]}"));
	assert_int_equal(rpc_from_json(&node, buf_bytes(&json), NULL, &binary, &err), 0);
	assert_int_equal(rpc_to_json(&node, buf_bytes(&binary), &back, &err), 0);
	assert_int_equal(back.size, json.size);
	assert_memory_equal(back.p, json.p, json.size);
}

static void binary_is_read_whatever_its_order_and_packing(void **state)
{
	AUTO(buf_done) struct buf b = { 0 }, out = { 0 };
	struct err err = { 0 };

	proto_put_number(&b, 14, 1);
	proto_put_str(&b, 15, STR("x"));
	proto_put_bytes(&b, 14, "\2\3", 2);
	proto_put_number(&b, 6, 1);
	proto_put_number(&b, 6, 2);
	proto_put_number(&b, 99, 2);
	proto_put_str(&b, 6, STR("of another wire type"));
	assert_int_equal(rpc_to_json(&node, buf_bytes(&b), &out, &err), 0);
	assert_string_equal(buf_cstr(&out), "{\"i32\":2,\"numbers\":[\"1\",\"2\",\"3\"],\"words\":[\"x\"]}");
	buf_add_char(&b, 8);
	assert_int_equal(rpc_to_json(&node, buf_bytes(&b), &out, &err), -1);
	assert_string_equal(err.text, "a message is cut off, or is none of protobuf");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_goes_both_ways),
		cmocka_unit_test(names_are_taken_in_both_spellings_and_others_are_ignored),
		cmocka_unit_test(zeros_are_left_out_unless_they_mean_something),
		cmocka_unit_test(wrong_values_are_refused_by_name),
		cmocka_unit_test(depth_is_limited),
		cmocka_unit_test(long_messages_have_long_lengths),
		cmocka_unit_test(binary_is_read_whatever_its_order_and_packing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
