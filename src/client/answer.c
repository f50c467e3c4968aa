/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to uploads, and their signs.
 */
#include "client/answer.h"

#include <jansson.h>

#include "net/net.h"
#include "wire/proto.h"

static json_t *parse_json(struct bytes body)
{
	json_error_t ignored;

	return json_loadb(body.p ? (const char *)body.p : "", body.size, 0, &ignored);
}

static bool is_success(unsigned status)
{
	return status >= 200 && status <= 299;
}

static int not_lode(unsigned status, struct err *err)
{
	return err_set(err, ERR_UPSTREAM, "the server there is not a lode server (%u)", status);
}

/* ---- files ---- */

int client_answer_upload(unsigned status, struct str headers, uint64_t size, uint64_t *ret_off,
			 struct err *err)
{
	struct str result = net_header(headers, "X-LODE-RESULT");
	uint64_t off;
	bool has_offset = str_to_u64(net_header(headers, "X-LODE-OFFSET"), &off) && off < size;

	switch (status) {
	case 200:
		if (result.size)
			return str_eq(result, STR("kept")) ? CLIENT_UPLOAD_BETTER : CLIENT_UPLOAD_SAME;
		break;
	case 201:
		if (result.size)
			return CLIENT_UPLOAD_STORED;
		break;
	case 202:
		if (str_eq(result, STR("held")))
			return CLIENT_UPLOAD_HELD;
		if (!has_offset)
			break;
		*ret_off = off;
		return CLIENT_UPLOAD_PARTIAL;
	case 409:
		if (str_eq(result, STR("owned")))
			return CLIENT_UPLOAD_OWNED;
		if (str_eq(result, STR("busy")))
			return CLIENT_UPLOAD_BUSY;
		if (!has_offset)
			return CLIENT_UPLOAD_REFUSED;
		*ret_off = off;
		return CLIENT_UPLOAD_OFFSET;
	default:
		return CLIENT_UPLOAD_REFUSED;
	}
	/* The server has answered other requests as lode does: this answer is of a program in between. */
	return err_set(err, ERR_UPSTREAM, "an answer (%u) that is not of a lode server", status);
}

/* ---- /push/want ---- */

static enum client_want_kind want_kind(const json_t *one, const char *why)
{
	static const struct {
		const char *why;
		enum client_want_kind kind;
	} rows[] = {
		{ "same", CLIENT_WANT_SAME },           { "better", CLIENT_WANT_BETTER },
		{ "held", CLIENT_WANT_HELD },           { "owned", CLIENT_WANT_OWNED },
		{ "too large", CLIENT_WANT_TOO_LARGE },
	};

	if (json_is_true(json_object_get(one, "want")))
		return json_is_true(json_object_get(one, "busy")) ? CLIENT_WANT_BUSY : CLIENT_WANT_YES;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].why, why) == 0)
			return rows[i].kind;
	return CLIENT_WANT_NO;
}

static const char *text_or_unknown(const json_t *one, const char *name)
{
	const char *text = json_string_value(json_object_get(one, name));

	return text ? text : "?";
}

static void want_read(const json_t *one, struct client_want *ret)
{
	json_int_t off = json_integer_value(json_object_get(one, "offset"));

	*ret = (struct client_want){
		.off = off > 0 ? (uint64_t)off : 0,
		.is_signed = json_is_true(json_object_get(one, "signed")),
		.why = text_or_unknown(one, "why"),
		.owner = text_or_unknown(one, "owner"),
	};
	ret->kind = want_kind(one, ret->why);
}

static bool is_want_list(const json_t *list, size_t n)
{
	const json_t *one;
	size_t i;

	if (json_array_size(list) != n)
		return false;
	json_array_foreach(list, i, one) if (!json_is_boolean(json_object_get(one, "want"))) return false;
	return true;
}

int client_answer_want(unsigned status, struct bytes body, size_t n,
		       void (*each)(void *arg, size_t i, const struct client_want *w), void *arg,
		       struct err *err)
{
	json_t *all, *list;
	int r = 0;

	if (status != 200)
		return CLIENT_REFUSED;
	all = parse_json(body);
	list = json_object_get(all, "objects");
	if (!is_want_list(list, n))
		r = not_lode(status, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct client_want w;

		want_read(json_array_get(list, i), &w);
		each(arg, i, &w);
	}
	json_decref(all);
	return r;
}

/* ---- profiles ---- */

static void receipt_wanted(const json_t *list, void (*wanted)(void *arg, const struct build_id *id),
			   void *arg)
{
	for (size_t i = 0; i < json_array_size(list) && i < CLIENT_WANTED_MAX; i++) {
		const json_t *one = json_array_get(list, i);
		struct build_id id;

		if (json_is_string(one) &&
		    build_id_parse(&id, (struct str){ json_string_value(one), json_string_length(one) }))
			wanted(arg, &id);
	}
}

int client_answer_profiles(unsigned status, struct bytes body,
			   void (*wanted)(void *arg, const struct build_id *id), void *arg,
			   struct client_receipt *ret, struct err *err)
{
	json_t *all;
	int r = 0;

	if (!is_success(status))
		return CLIENT_REFUSED;
	all = parse_json(body);
	/* Gateways answer 200 with an object of their own. */
	if (!json_is_integer(json_object_get(all, "samples"))) {
		r = not_lode(status, err);
	} else {
		*ret = (struct client_receipt){
			.n_profiles = (uint64_t)json_integer_value(json_object_get(all, "profiles")),
			.n_samples = (uint64_t)json_integer_value(json_object_get(all, "samples")),
			.id = json_integer_value(json_object_get(all, "id")),
			.duplicate = json_is_true(json_object_get(all, "duplicate")),
		};
		if (wanted)
			receipt_wanted(json_object_get(all, "wanted"), wanted, arg);
	}
	json_decref(all);
	return r;
}

/* An ExportProfilesServiceResponse has few fields, and later versions may have more: any message will do. */
static bool is_protobuf(struct bytes body)
{
	struct cursor c = cursor_of(body);
	struct proto_field f;

	while (proto_next(&c, &f))
		;
	return cursor_ok(&c);
}

int client_answer_otlp(unsigned status, struct bytes body, struct err *err)
{
	if (!is_success(status))
		return CLIENT_REFUSED;
	if ((body.size && body.p[0] == '{') || is_protobuf(body))
		return 0;
	return err_set(err, ERR_UPSTREAM, "the server there is not a receiver of OTLP (%u)", status);
}
