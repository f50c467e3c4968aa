/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf messages from JSON to the binary form, by tables of their fields
 * (protobuf.dev/programming-guides/json). Safe on any bytes.
 *
 * The walk recurses by the tables: at most RPC_MAX_DEPTH messages deep, since anybody sends requests; a level takes
 * less than 4 KiB of the stack.
 */
#include "server/rpc/field.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include "server/json.h"

#define MAX_NUMBER 64u /* characters of a number as text */

struct rpc_reader {
	struct budget_hold *hold;
	uint64_t held; /* of it, by `out` */
	struct buf *out;
};

/* A whole number of a double, in the range of 64 bits. */
static bool whole_of_double(double d, bool is_signed, uint64_t *ret)
{
	if (d != floor(d) || d >= 18446744073709551616.0 || d < (is_signed ? -9223372036854775808.0 : 0.0) ||
	    (is_signed && d >= 9223372036854775808.0))
		return false;
	*ret = d < 0 ? (uint64_t)(int64_t)d : (uint64_t)d;
	return true;
}

/* The end of the digits of @s at @at. */
static size_t digits_end(struct str s, size_t at)
{
	while (at < s.size && s.p[at] >= '0' && s.p[at] <= '9')
		at++;
	return at;
}

/* RFC 8259, section 6. strtod() and str_to_u64() take other texts, too: "+1", "7.", ".5", "007". */
static bool is_number_of_json(struct str s)
{
	size_t at = str_starts(s, STR("-")), end = digits_end(s, at);

	if (end == at || (s.p[at] == '0' && end > at + 1))
		return false;
	if (end < s.size && s.p[end] == '.') {
		at = end + 1;
		end = digits_end(s, at);
		if (end == at)
			return false;
	}
	if (end < s.size && (s.p[end] == 'e' || s.p[end] == 'E')) {
		at = end + 1;
		if (at < s.size && (s.p[at] == '+' || s.p[at] == '-'))
			at++;
		end = digits_end(s, at);
		if (end == at)
			return false;
	}
	return end == s.size;
}

static bool double_of_text(struct str s, double *ret)
{
	char room[MAX_NUMBER];

	if (s.size >= sizeof(room) || !is_number_of_json(s))
		return false;
	memcpy(room, s.p, s.size);
	room[s.size] = '\0';
	*ret = strtod(room, NULL);
	return isfinite(*ret);
}

static bool whole_of_text(struct str s, bool is_signed, uint64_t *ret)
{
	bool minus = str_starts(s, STR("-"));
	uint64_t v;
	double d;

	if (!is_number_of_json(s))
		return false;
	if (!str_to_u64(minus ? (struct str){ s.p + 1, s.size - 1 } : s, &v))
		return double_of_text(s, &d) && whole_of_double(d, is_signed, ret);
	if (is_signed ? v > (uint64_t)INT64_MAX + minus : minus && v)
		return false;
	*ret = minus ? -v : v;
	return true;
}

static struct str json_text_of(const json_t *j)
{
	return (struct str){ json_string_value(j), json_string_length(j) };
}

static int whole_of_json(const struct rpc_field *f, const json_t *j, uint64_t *ret, struct err *err)
{
	bool is_signed = rpc_is_signed(f->kind), ok = false;

	if (json_is_integer(j)) {
		*ret = (uint64_t)json_integer_value(j);
		ok = is_signed || json_integer_value(j) >= 0;
	} else if (json_is_real(j)) {
		ok = whole_of_double(json_real_value(j), is_signed, ret);
	} else if (json_is_string(j)) {
		ok = whole_of_text(json_text_of(j), is_signed, ret);
	}
	if (ok && rpc_is_small(f->kind))
		ok = is_signed ? (int64_t)*ret >= INT32_MIN && (int64_t)*ret <= INT32_MAX
			       : *ret <= UINT32_MAX;
	return ok ? 0 : rpc_wrong_value(f, "a whole number in the range of its type", err);
}

static int enum_of_json(const struct rpc_field *f, const json_t *j, uint64_t *ret, struct err *err)
{
	for (const struct rpc_enum_value *e = f->names->values; json_is_string(j) && e->name; e++)
		if (str_eq(json_text_of(j), str_of(e->name))) {
			*ret = (uint64_t)(int64_t)e->value;
			return 0;
		}
	if (json_is_string(j))
		return rpc_wrong_value(f, "one of the names of its type, or a number", err);
	return whole_of_json(f, j, ret, err);
}

static int double_of_json(const struct rpc_field *f, const json_t *j, uint64_t *ret, struct err *err)
{
	double d = 0;

	if (json_is_number(j))
		d = json_number_value(j);
	else if (json_is_string(j) && str_eq(json_text_of(j), STR("NaN")))
		d = NAN;
	else if (json_is_string(j) && str_eq(json_text_of(j), STR("Infinity")))
		d = INFINITY;
	else if (json_is_string(j) && str_eq(json_text_of(j), STR("-Infinity")))
		d = -INFINITY;
	else if (!json_is_string(j) || !double_of_text(json_text_of(j), &d))
		return rpc_wrong_value(f, "a number", err);
	memcpy(ret, &d, sizeof(d));
	return 0;
}

static int number_of_json(const struct rpc_field *f, const json_t *j, uint64_t *ret, struct err *err)
{
	switch (f->kind) {
	case RPC_BOOL:
		*ret = json_is_true(j);
		return json_is_boolean(j) ? 0 : rpc_wrong_value(f, "true or false", err);
	case RPC_ENUM:
		return enum_of_json(f, j, ret, err);
	case RPC_DOUBLE:
		return double_of_json(f, j, ret, err);
	default:
		return whole_of_json(f, j, ret, err);
	}
}

static void put_bare_number(struct buf *out, enum rpc_kind kind, uint64_t v)
{
	switch (rpc_wire_of(kind)) {
	case PROTO_32:
		buf_add_u32(out, (uint32_t)v);
		break;
	case PROTO_64:
		buf_add_u64(out, v);
		break;
	default:
		buf_add_uleb(out, v);
	}
}

static void put_field_key(struct buf *out, uint32_t number, enum proto_wire wire)
{
	buf_add_uleb(out, (uint64_t)number << 3 | wire);
}

/* ---- from JSON: messages ---- */

/*
 * A field of a length that is known when it ends: its bytes are written in place, and moved if the length needs more
 * than one byte.
 */
static size_t length_begin(struct buf *out, uint32_t number)
{
	put_field_key(out, number, PROTO_LEN);
	buf_add_char(out, 0);
	return out->size;
}

static void length_end(struct buf *out, size_t start)
{
	uint64_t size = out->size - start, rest = size;
	size_t n = 1;
	uint8_t *at;

	while (rest >= 0x80) {
		rest >>= 7;
		n++;
	}
	if (n > 1) {
		buf_reserve(out, n - 1);
		memmove(out->p + start + n - 1, out->p + start, size);
		out->size += n - 1;
	}
	at = out->p + start - 1;
	for (; size >= 0x80; size >>= 7)
		*at++ = (uint8_t)(size | 0x80);
	*at = (uint8_t)size;
}

static int message_of_json(struct rpc_reader *r, const struct rpc_message *m, const json_t *j, unsigned depth,
			   struct err *err);

static int bytes_of_json(struct rpc_reader *r, const struct rpc_field *f, const json_t *j, struct err *err)
{
	struct str s = json_is_string(j) ? json_text_of(j) : STR("");
	size_t size;

	if (!json_is_string(j))
		return rpc_wrong_value(f, "text", err);
	if (f->kind == RPC_STRING)
		buf_add_str(r->out, s);
	else if (f->kind == RPC_BYTES && !base64_decode(s, r->out))
		return rpc_wrong_value(f, "base64", err);
	if (f->kind != RPC_HEX)
		return 0;
	if (!hex_decode(s, true, buf_reserve(r->out, s.size / 2 + 1), s.size / 2, &size))
		return rpc_wrong_value(f, "an even number of hexadecimal digits", err);
	r->out->size += size;
	return 0;
}

static int timestamp_of_json(struct rpc_reader *r, const struct rpc_field *f, const json_t *j,
			     struct err *err)
{
	struct str s = json_is_string(j) ? json_text_of(j) : STR("");
	int64_t ms;

	/* Times without a date are those of api_time_parse() alone. */
	if (!memchr(s.p, ':', s.size) || !api_time_parse(s, 0, &ms))
		return rpc_wrong_value(f, "a time as 2026-11-21T07:29:00Z", err);
	proto_put_number(r->out, 1, (uint64_t)ms / 1000);
	proto_put_number(r->out, 2, (uint64_t)ms % 1000 * 1000000);
	return 0;
}

/* google.protobuf.Duration, which is text in JSON: "1.5s". */
static int duration_of_json(struct rpc_reader *r, struct str s, struct err *err)
{
	struct str whole = str_cut(&s, '.'), part = s;
	struct str *last = part.p ? &part : &whole;
	uint64_t seconds, nanos = 0;
	size_t digits;

	if (!last->size || last->p[last->size - 1] != 's')
		return err_set(err, ERR_INVALID, "must be a time as 1.5s");
	last->size--;
	digits = part.p ? part.size : 0;
	if (!str_to_u64(whole, &seconds) || seconds > UINT64_C(315576000000) || digits > 9 ||
	    (part.p && !str_to_u64(part, &nanos)))
		return err_set(err, ERR_INVALID, "must be a time as 1.5s");
	for (; digits < 9; digits++)
		nanos *= 10;
	proto_put_number(r->out, 1, seconds);
	proto_put_number(r->out, 2, nanos);
	return 0;
}

/* A field of PROTO_LEN. An empty one is left out where that means the same. */
static int put_long(struct rpc_reader *r, const struct rpc_field *f, const json_t *j, unsigned depth,
		    struct err *err)
{
	size_t before = r->out->size, start = length_begin(r->out, f->number);
	int done = f->kind == RPC_MESSAGE     ? message_of_json(r, f->message, j, depth + 1, err)
		   : f->kind == RPC_TIMESTAMP ? timestamp_of_json(r, f, j, err)
					      : bytes_of_json(r, f, j, err);

	if (done < 0)
		return -1;
	if (r->out->size == start && !f->flags && f->kind != RPC_MESSAGE && f->kind != RPC_TIMESTAMP)
		r->out->size = before;
	else
		length_end(r->out, start);
	return 0;
}

static int put_single(struct rpc_reader *r, const struct rpc_field *f, const json_t *j, unsigned depth,
		      struct err *err)
{
	uint64_t v;

	if (rpc_wire_of(f->kind) == PROTO_LEN)
		return put_long(r, f, j, depth, err);
	if (number_of_json(f, j, &v, err) < 0)
		return -1;
	if (!v && !(f->flags & RPC_PRESENT))
		return 0;
	put_field_key(r->out, f->number, rpc_wire_of(f->kind));
	put_bare_number(r->out, f->kind, v);
	return 0;
}

static int put_repeated(struct rpc_reader *r, const struct rpc_field *f, const json_t *list, unsigned depth,
			struct err *err)
{
	bool packed = rpc_wire_of(f->kind) != PROTO_LEN;
	size_t start, i;
	json_t *one;
	uint64_t v;

	if (!json_is_array(list))
		return rpc_wrong_value(f, "a list", err);
	if (!json_array_size(list))
		return 0;
	start = packed ? length_begin(r->out, f->number) : 0;
	json_array_foreach(list, i, one)
	{
		if (packed ? number_of_json(f, one, &v, err) < 0 : put_long(r, f, one, depth, err) < 0)
			return err_in(err, "%s %zu", f->name, i);
		if (packed)
			put_bare_number(r->out, f->kind, v);
	}
	if (packed)
		length_end(r->out, start);
	return 0;
}

static int put_field(struct rpc_reader *r, const struct rpc_field *f, const json_t *j, unsigned depth,
		     struct err *err)
{
	if (f->flags & RPC_REPEATED)
		return put_repeated(r, f, j, depth, err);
	return put_single(r, f, j, depth, err);
}

static int message_of_json(struct rpc_reader *r, const struct rpc_message *m, const json_t *j, unsigned depth,
			   struct err *err)
{
	char room[RPC_MAX_NAME];

	if (json_is_string(j) && str_eq(str_of(m->name), STR("google.protobuf.Duration")))
		return duration_of_json(r, json_text_of(j), err);
	if (!json_is_object(j))
		return err_set(err, ERR_INVALID, "a message must be an object");
	if (depth > RPC_MAX_DEPTH)
		return err_set(err, ERR_LIMIT, "more than %u messages in one another", RPC_MAX_DEPTH);
	for (size_t i = 0; i < m->n; i++) {
		const struct rpc_field *f = &m->fields[i];
		const json_t *value = json_object_get(j, rpc_json_name(f, room).p);

		if (!value)
			value = json_object_get(j, f->name);
		if (!value || json_is_null(value))
			continue;
		if (put_field(r, f, value, depth, err) < 0)
			return f->kind == RPC_MESSAGE && !f->flags ? err_in(err, "%s", f->name) : -1;
	}
	budget_hold_track(r->hold, &r->held, r->out->room);
	return budget_hold_check(r->hold, err);
}

int rpc_from_json(const struct rpc_message *m, struct bytes json, struct budget_hold *hold, struct buf *out,
		  struct err *err)
{
	struct rpc_reader r = { .hold = hold, .out = out };
	uint64_t tree = json_tree_size(json);
	json_t *all;
	int done;

	if (budget_hold_add(hold, tree, err) < 0)
		return -1;
	all = json_load_bytes(json, RPC_MAX_LISTS, RPC_MAX_VALUES, err);
	done = all ? message_of_json(&r, m, all, 1, err) : -1;
	json_decref(all);
	budget_hold_sub(hold, tree);
	/* The memory of the output is the caller's. */
	budget_hold_track(hold, &r.held, done < 0 ? 0 : out->room);
	return done;
}
