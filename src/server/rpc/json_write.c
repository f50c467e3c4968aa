/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf messages from the binary form to JSON, by tables of their fields
 * (protobuf.dev/programming-guides/json). Safe on any bytes.
 *
 * The walk recurses by the tables: at most RPC_MAX_REPLY_DEPTH messages deep, since replies are made here; a level takes
 * less than 4 KiB of the stack.
 */
#include "server/rpc/field.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include "server/json.h"

static int message_to_json(struct json_writer *w, const struct rpc_message *m, struct bytes in,
			   unsigned depth, struct err *err);

static void double_to_json(struct json_writer *w, uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	if (isfinite(d))
		json_put_double(w, NULL, d);
	else
		json_put_text(w, NULL, isnan(d) ? "NaN" : d < 0 ? "-Infinity" : "Infinity");
}

static void enum_to_json(struct json_writer *w, const struct rpc_field *f, int32_t v)
{
	for (const struct rpc_enum_value *e = f->names->values; e->name; e++)
		if (e->value == v) {
			json_put_text(w, NULL, e->name);
			return;
		}
	json_put_int(w, NULL, v);
}

/* A number of 64 bits is text. Flame graphs have many. */
static void decimal_to_json(struct json_writer *w, bool negative, uint64_t v)
{
	char room[24];
	size_t at = sizeof(room);

	do {
		room[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	if (negative)
		room[--at] = '-';
	json_put_str(w, NULL, (struct str){ room + at, sizeof(room) - at });
}

static void number_to_json(struct json_writer *w, const struct rpc_field *f, uint64_t v)
{
	switch (f->kind) {
	case RPC_BOOL:
		json_put_bool(w, NULL, v);
		break;
	case RPC_ENUM:
		enum_to_json(w, f, (int32_t)v);
		break;
	case RPC_INT32:
		json_put_int(w, NULL, (int32_t)v);
		break;
	case RPC_UINT32:
	case RPC_FIXED32:
		json_put_uint(w, NULL, (uint32_t)v);
		break;
	case RPC_INT64:
	case RPC_SFIXED64:
		decimal_to_json(w, (int64_t)v < 0, (int64_t)v < 0 ? 0 - v : v);
		break;
	case RPC_DOUBLE:
		double_to_json(w, v);
		break;
	default:
		decimal_to_json(w, false, v);
	}
}

static int timestamp_to_json(struct json_writer *w, const struct rpc_field *f, struct bytes in,
			     struct err *err)
{
	struct cursor c = cursor_of(in);
	struct proto_field one;
	uint64_t seconds = 0, nanos = 0;
	char text[40];
	struct tm tm;
	time_t t;

	while (proto_next(&c, &one)) {
		if (one.wire == PROTO_VARINT && one.number == 1)
			seconds = one.v;
		if (one.wire == PROTO_VARINT && one.number == 2)
			nanos = one.v;
	}
	/* From 1970 to the end of 9999. */
	if (!cursor_ok(&c) || seconds > UINT64_C(253402300799) || nanos > 999999999)
		return rpc_wrong_value(f, "a time", err);
	t = (time_t)seconds;
	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	if (nanos)
		json_put_printf(w, NULL, "%s.%09uZ", text, (unsigned)nanos);
	else
		json_put_printf(w, NULL, "%sZ", text);
	return 0;
}

static int value_to_json(struct json_writer *w, const struct rpc_field *f, const struct proto_field *in,
			 unsigned depth, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };

	switch (f->kind) {
	case RPC_STRING:
		json_put_str(w, NULL, proto_text(in));
		return 0;
	case RPC_BYTES:
		base64_encode(in->b, &text);
		json_put_str(w, NULL, buf_str(&text));
		return 0;
	case RPC_HEX:
		hex_encode(in->b, (char *)buf_reserve(&text, 2 * in->b.size + 1));
		text.size = 2 * in->b.size;
		json_put_str(w, NULL, buf_str(&text));
		return 0;
	case RPC_MESSAGE:
		return message_to_json(w, f->message, in->b, depth + 1, err);
	case RPC_TIMESTAMP:
		return timestamp_to_json(w, f, in->b, err);
	default:
		number_to_json(w, f, in->v);
		return 0;
	}
}

static int packed_to_json(struct json_writer *w, const struct rpc_field *f, struct bytes in, struct err *err)
{
	struct cursor c = cursor_of(in);
	enum proto_wire wire = rpc_wire_of(f->kind);

	while (cursor_left(&c)) {
		uint64_t v = wire == PROTO_32   ? cursor_u32(&c)
			     : wire == PROTO_64 ? cursor_u64(&c)
						: proto_varint(&c);

		if (!cursor_ok(&c))
			return err_set(err, ERR_INVALID, "'%s' is cut off", f->name);
		number_to_json(w, f, v);
	}
	return 0;
}

/* All values of @f in @in: elements of the array that is open. */
static int elements_to_json(struct json_writer *w, const struct rpc_field *f, struct bytes in, unsigned depth,
			    struct err *err)
{
	enum proto_wire wire = rpc_wire_of(f->kind);
	struct cursor c = cursor_of(in);
	struct proto_field one;
	int done = 0;

	while (done == 0 && proto_next(&c, &one)) {
		if (one.number != f->number)
			continue;
		if (one.wire == wire)
			done = value_to_json(w, f, &one, depth, err);
		else if (one.wire == PROTO_LEN)
			done = packed_to_json(w, f, one.b, err);
	}
	return done;
}

static bool is_left_out(const struct rpc_field *f, const struct proto_field *in)
{
	if ((f->flags & RPC_PRESENT) || f->kind == RPC_MESSAGE || f->kind == RPC_TIMESTAMP)
		return false;
	if (in->wire == PROTO_LEN)
		return !in->b.size;
	return rpc_is_small(f->kind) ? !(uint32_t)in->v : !in->v; /* larger numbers are cut, as everywhere */
}

static int field_to_json(struct json_writer *w, const struct rpc_field *f, const struct proto_field *last,
			 struct bytes in, unsigned depth, struct err *err)
{
	char room[RPC_MAX_NAME];
	int done;

	if (!(f->flags & RPC_REPEATED)) {
		if (is_left_out(f, last))
			return 0;
		json_key(w, rpc_json_name(f, room));
		return value_to_json(w, f, last, depth, err);
	}
	json_key(w, rpc_json_name(f, room));
	json_open_array(w, NULL);
	done = elements_to_json(w, f, in, depth, err);
	if (done == 0)
		json_close(w);
	return done;
}

/* Does a field as it was sent belong to this row of the table? One of another wire type is unknown; no number is none. */
static bool is_of_field(const struct rpc_field *f, const struct proto_field *in)
{
	if (in->number != f->number)
		return false;
	return in->wire == rpc_wire_of(f->kind) ||
	       ((f->flags & RPC_REPEATED) && in->wire == PROTO_LEN && in->b.size);
}

static int message_to_json(struct json_writer *w, const struct rpc_message *m, struct bytes in,
			   unsigned depth, struct err *err)
{
	struct proto_field last[RPC_MAX_FIELDS] = { { 0 } }, one;
	struct cursor c = cursor_of(in);
	int done = 0;

	/* Each is an object, mostly in an array. */
	static_assert(2 * RPC_MAX_REPLY_DEPTH + 4 <= JSON_DEPTH_MAX, "the writer's levels");
	if (depth > RPC_MAX_REPLY_DEPTH)
		return err_set(err, ERR_LIMIT, "more than %u messages in one another", RPC_MAX_REPLY_DEPTH);
	while (proto_next(&c, &one))
		for (size_t i = 0; i < m->n; i++)
			if (is_of_field(&m->fields[i], &one))
				last[i] = one;
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID, "a message is cut off, or is none of protobuf");
	json_open_object(w, NULL);
	for (size_t i = 0; i < m->n && done == 0; i++)
		if (last[i].number)
			done = field_to_json(w, &m->fields[i], &last[i], in, depth, err);
	/* After a failure a key may be without its value, and the text is dropped. */
	if (done == 0)
		json_close(w);
	return done;
}

int rpc_to_json(const struct rpc_message *m, struct bytes binary, struct buf *out, struct err *err)
{
	struct json_writer w = { .out = out };
	size_t before = out->size;

	if (message_to_json(&w, m, binary, 1, err) == 0)
		return 0;
	out->size = before;
	return -1;
}
