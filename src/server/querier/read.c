/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of querier.v1's requests, by the tables that their JSON is read by (tables.c): these have a field's number and
 * kind, and the table here has the place of its value, which is the same in all requests.
 */
#include "server/querier/querier.h"

#include <stddef.h>
#include "wire/proto.h"

#define AT(member) offsetof(struct querier_request, member)

struct querier_place {
	const char *name; /* of the field, or of the message around it */
	enum { PLACE_TEXT, PLACE_TEXTS, PLACE_NUMBER, PLACE_DOUBLE } kind;
	size_t at; /* in struct querier_request */
};

static const struct querier_place places[] = {
	{ "profile_typeID", PLACE_TEXT, AT(type_id) },
	{ "name", PLACE_TEXT, AT(name) },
	{ "query", PLACE_TEXT, AT(name) },
	{ "matchers", PLACE_TEXTS, AT(matchers) },
	{ "label_selector", PLACE_TEXTS, AT(matchers) },
	{ "label_names", PLACE_TEXTS, AT(names) },
	{ "group_by", PLACE_TEXTS, AT(names) },
	{ "call_site", PLACE_TEXTS, AT(call_site) },
	{ "profile_id_selector", PLACE_TEXTS, AT(profile_ids) },
	{ "trace_id_selector", PLACE_TEXTS, AT(spans) },
	{ "span_selector", PLACE_TEXTS, AT(spans) },
	{ "start", PLACE_NUMBER, AT(start_ms) },
	{ "end", PLACE_NUMBER, AT(end_ms) },
	{ "max_nodes", PLACE_NUMBER, AT(max_nodes) },
	{ "limit", PLACE_NUMBER, AT(limit) },
	{ "format", PLACE_NUMBER, AT(format) },
	{ "aggregation", PLACE_NUMBER, AT(aggregation) },
	{ "step", PLACE_DOUBLE, AT(step) },
};

static const struct querier_place *place_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (strcmp(places[i].name, name) == 0)
			return &places[i];
	return NULL;
}

static const struct rpc_field *field_of_number(const struct rpc_message *m, uint32_t number)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->fields[i].number == number)
			return &m->fields[i];
	return NULL;
}

static enum proto_wire wire_of_place(const struct querier_place *p)
{
	return p->kind == PLACE_NUMBER ? PROTO_VARINT : p->kind == PLACE_DOUBLE ? PROTO_64 : PROTO_LEN;
}

/* A value of another wire type is ignored. */
static int put_value(const struct querier_place *p, const struct proto_field *f, struct querier_request *ret,
		     struct err *err)
{
	void *at = (char *)ret + p->at;
	double d;

	if (wire_of_place(p) != f->wire)
		return 0;
	switch (p->kind) {
	case PLACE_TEXT:
		*(struct str *)at = proto_text(f);
		break;
	case PLACE_TEXTS:
		return querier_add_text(at, proto_text(f), err);
	case PLACE_NUMBER:
		memcpy(at, &f->v, sizeof(f->v));
		break;
	case PLACE_DOUBLE:
		d = proto_double(f);
		memcpy(at, &d, sizeof(d));
	}
	return 0;
}

/* @outer: the place of the message itself, which its fields have then; NULL: none. The depth is that of the tables. */
static int read_querier_message(struct bytes message, const struct rpc_message *m,
				const struct querier_place *outer, struct querier_request *ret,
				struct err *err)
{
	struct cursor c = cursor_of(message);
	struct proto_field f;

	while (proto_next(&c, &f)) {
		const struct rpc_field *field = field_of_number(m, f.number);
		const struct querier_place *p = field && !outer ? place_of(field->name) : outer;
		int r = 0;

		if (!field)
			continue;
		if (field->kind != RPC_MESSAGE)
			r = p ? put_value(p, &f, ret, err) : 0;
		else if (f.wire == PROTO_LEN)
			r = read_querier_message(f.b, field->message, p, ret, err);
		if (r < 0)
			return r;
	}
	return cursor_ok(&c) ? 0 : cursor_err(&c, "the message", err);
}

int querier_add_text(struct querier_texts *t, struct str s, struct err *err)
{
	if (t->n == QUERIER_MAX_TEXTS)
		return err_set(err, ERR_LIMIT, "a list of the request has more than %u elements",
			       QUERIER_MAX_TEXTS);
	t->v[t->n++] = s;
	return 0;
}

int querier_read(struct bytes request, const struct rpc_method *of, struct querier_request *ret,
		 struct err *err)
{
	return read_querier_message(request, of->request, NULL, ret, err);
}
