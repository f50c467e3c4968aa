/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that waits in the spool may have been packed by a run with other options, so its encoding is read from its first
 * bytes.
 */
#include "agent/sender_otlp.h"

#include <jansson.h>
#include <sys/random.h>

#include "client/answer.h"
#include "profile/otlp_fields.h"
#include "wire/proto.h"

#define MESSAGE_SIZE  400u
#define ID_PARTS      2u
#define STATUS_TEXT   2u /* of google.rpc.Status, in the body of a refusal */
#define ID_OF_DOCKER  12u
#define POD_UID_SMALL 32u

static bool is_hex_or(struct str s, const char *others)
{
	for (size_t i = 0; i < s.size; i++)
		if (hex_digit(s.p[i], false) < 0 && !strchr(others, s.p[i]))
			return false;
	return true;
}

struct str sender_otlp_key(struct str label, struct str value)
{
	static const struct {
		struct str label, key;
	} keys[] = {
		{ STR("service"), STR("service.name") }, { STR("comm"), STR("process.executable.name") },
		{ STR("node"), STR("host.name") },       { STR("namespace"), STR("k8s.namespace.name") },
		{ STR("pid"), STR("process.pid") },
	};

	/* The agent has IDs where names are not known (labels.c). */
	if (str_eq(label, STR("container")))
		return value.size == ID_OF_DOCKER && is_hex_or(value, "") ? STR("container.id")
									  : STR("container.name");
	if (str_eq(label, STR("pod")))
		return value.size >= POD_UID_SMALL && is_hex_or(value, "-_") ? STR("k8s.pod.uid")
									     : STR("k8s.pod.name");
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (str_eq(keys[i].label, label))
			return keys[i].key;
	return label;
}

static struct str key_of_label(void *arg, struct str label, struct str value)
{
	return sender_otlp_key(label, value);
}

int sender_otlp_encode(const struct profile *p, const struct otlp_label *resource, size_t n_resource,
		       enum otlp_packing packing, struct buf *out, struct err *err)
{
	uint64_t id[ID_PARTS];
	struct otlp_write_options o = {
		.resource = resource, .n_resource = n_resource, .key = key_of_label, .packing = packing
	};

	/* Receivers tell a request that is sent twice by the IDs. */
	if (getrandom(id, sizeof(id), GRND_NONBLOCK) == sizeof(id))
		o.id = (const uint8_t *)id;
	return otlp_write(p, &o, out, err);
}

size_t sender_otlp_headers(struct bytes body, const char *out[2])
{
	out[0] = "Content-Type: application/x-protobuf";
	if (body.size >= 2 && body.p[0] == 0x1f && body.p[1] == 0x8b)
		out[1] = "Content-Encoding: gzip";
	else if (body.size >= 4 && memcmp(body.p, "\x28\xb5\x2f\xfd", 4) == 0)
		out[1] = "Content-Encoding: zstd";
	else
		return 1;
	return 2;
}

static char *text_for_people(struct str s)
{
	char *out = mem_strndup(s.p ? s.p : "", MIN(s.size, (size_t)MESSAGE_SIZE));

	for (char *c = out; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
	return out;
}

/* Some receivers answer in JSON whatever the request has. */
static bool is_json(struct bytes answer)
{
	return answer.size && answer.p[0] == '{';
}

/* The mapping of protobuf to JSON writes 64 bits as text. */
static uint64_t rejected_in_json(struct bytes answer, char **ret_why)
{
	json_error_t ignored;
	json_t *all = json_loadb((const char *)answer.p, answer.size, 0, &ignored);
	const json_t *part = json_object_get(all, "partialSuccess"),
		     *n = json_object_get(part, "rejectedProfiles"),
		     *why = json_object_get(part, "errorMessage");
	uint64_t rejected = 0;

	if (json_is_string(n))
		(void)str_to_u64((struct str){ json_string_value(n), json_string_length(n) }, &rejected);
	else if (json_integer_value(n) > 0)
		rejected = (uint64_t)json_integer_value(n);
	if (json_string_length(why))
		*ret_why = text_for_people((struct str){ json_string_value(why), json_string_length(why) });
	json_decref(all);
	return rejected;
}

uint64_t sender_otlp_rejected(struct bytes answer, char **ret_why)
{
	struct cursor c = cursor_of(answer);
	struct proto_field f, part;
	uint64_t rejected = 0;

	*ret_why = NULL;
	if (is_json(answer))
		return rejected_in_json(answer, ret_why);
	while (proto_next(&c, &f)) {
		struct cursor in = cursor_of(f.b);

		if (f.number != OTLP_PARTIAL_SUCCESS || f.wire != PROTO_LEN)
			continue;
		while (proto_next(&in, &part)) {
			if (part.number == OTLP_REJECTED_PROFILES && part.wire == PROTO_VARINT)
				rejected = part.v;
			else if (part.number == OTLP_ERROR_MESSAGE && part.wire == PROTO_LEN && part.b.size &&
				 !*ret_why)
				*ret_why = text_for_people(proto_text(&part));
		}
	}
	return rejected;
}

char *sender_otlp_message(struct bytes answer)
{
	struct cursor c = cursor_of(answer);
	struct str text = { 0 };
	struct proto_field f;

	while (proto_next(&c, &f))
		if (f.number == STATUS_TEXT && f.wire == PROTO_LEN)
			text = proto_text(&f);
	/* Proxies in between answer with text. */
	return cursor_ok(&c) && text.size ? text_for_people(text) : client_message(answer);
}
