/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of querier.v1's requests, by tables of their fields. */
#include "server/querier/querier.h"

#include <stddef.h>
#include "wire/proto.h"

#define AT(member) offsetof(struct querier_request, member)

static const struct querier_field location_fields[] = { { 1, QUERIER_TEXTS, AT(call_site) }, { 0 } };
/* GoPGO (2) is ignored: whole stacks serve Go's compiler as well. */
static const struct querier_field stack_selector_fields[] = { { 1, QUERIER_SUB, 0, location_fields }, { 0 } };

const struct querier_field querier_types_fields[] = { { 1, QUERIER_NUMBER, AT(start_ms) },
						      { 2, QUERIER_NUMBER, AT(end_ms) },
						      { 0 } };
const struct querier_field querier_names_fields[] = { { 1, QUERIER_TEXTS, AT(matchers) },
						      { 2, QUERIER_NUMBER, AT(start_ms) },
						      { 3, QUERIER_NUMBER, AT(end_ms) },
						      { 0 } };
const struct querier_field querier_values_fields[] = { { 1, QUERIER_TEXT, AT(name) },
						       { 2, QUERIER_TEXTS, AT(matchers) },
						       { 3, QUERIER_NUMBER, AT(start_ms) },
						       { 4, QUERIER_NUMBER, AT(end_ms) },
						       { 0 } };
const struct querier_field querier_label_sets_fields[] = { { 1, QUERIER_TEXTS, AT(matchers) },
							   { 2, QUERIER_TEXTS, AT(names) },
							   { 3, QUERIER_NUMBER, AT(start_ms) },
							   { 4, QUERIER_NUMBER, AT(end_ms) },
							   { 0 } };
const struct querier_field querier_stacktraces_fields[] = { { 1, QUERIER_TEXT, AT(type_id) },
							    { 2, QUERIER_TEXTS, AT(matchers) },
							    { 3, QUERIER_NUMBER, AT(start_ms) },
							    { 4, QUERIER_NUMBER, AT(end_ms) },
							    { 5, QUERIER_NUMBER, AT(max_nodes) },
							    { 6, QUERIER_NUMBER, AT(format) },
							    { 7, QUERIER_SUB, 0, stack_selector_fields },
							    { 8, QUERIER_TEXTS, AT(profile_ids) },
							    { 10, QUERIER_TEXTS, AT(spans) },
							    { 11, QUERIER_TEXTS, AT(spans) },
							    { 0 } };
const struct querier_field querier_profile_fields[] = { { 1, QUERIER_TEXT, AT(type_id) },
							{ 2, QUERIER_TEXTS, AT(matchers) },
							{ 3, QUERIER_NUMBER, AT(start_ms) },
							{ 4, QUERIER_NUMBER, AT(end_ms) },
							{ 5, QUERIER_NUMBER, AT(max_nodes) },
							{ 6, QUERIER_SUB, 0, stack_selector_fields },
							{ 7, QUERIER_TEXTS, AT(profile_ids) },
							{ 8, QUERIER_TEXTS, AT(spans) },
							{ 0 } };
const struct querier_field querier_series_fields[] = {
	{ 1, QUERIER_TEXT, AT(type_id) },       { 2, QUERIER_TEXTS, AT(matchers) },
	{ 3, QUERIER_NUMBER, AT(start_ms) },    { 4, QUERIER_NUMBER, AT(end_ms) },
	{ 5, QUERIER_TEXTS, AT(names) },        { 6, QUERIER_DOUBLE, AT(step) },
	{ 7, QUERIER_NUMBER, AT(aggregation) }, { 8, QUERIER_SUB, 0, stack_selector_fields },
	{ 9, QUERIER_NUMBER, AT(limit) },       { 0 }
};
const struct querier_field querier_analyze_fields[] = { { 2, QUERIER_NUMBER, AT(start_ms) },
							{ 3, QUERIER_NUMBER, AT(end_ms) },
							{ 4, QUERIER_TEXT, AT(name) },
							{ 0 } };

static int querier_add_text(struct querier_texts *t, struct str s, struct err *err)
{
	if (t->n == QUERIER_MAX_TEXTS)
		return err_set(err, ERR_LIMIT, "a list of the request has more than %u elements",
			       QUERIER_MAX_TEXTS);
	t->v[t->n++] = s;
	return 0;
}

static const struct querier_field *querier_field_of(const struct querier_field *fields, uint32_t number)
{
	while (fields->number && fields->number != number)
		fields++;
	return fields->number ? fields : NULL;
}

static enum proto_wire querier_wire(const struct querier_field *f)
{
	return f->kind == QUERIER_NUMBER ? PROTO_VARINT : f->kind == QUERIER_DOUBLE ? PROTO_64 : PROTO_LEN;
}

/* @depth is that of the tables. */
int querier_read(struct bytes message, const struct querier_field *fields, struct querier_request *ret,
		 struct err *err)
{
	struct cursor c = cursor_of(message);
	struct proto_field f;

	while (proto_next(&c, &f)) {
		const struct querier_field *field = querier_field_of(fields, f.number);
		void *at;

		if (!field || querier_wire(field) != f.wire)
			continue;
		at = (char *)ret + field->at;
		switch (field->kind) {
		case QUERIER_TEXT:
			*(struct str *)at = proto_text(&f);
			break;
		case QUERIER_TEXTS:
			if (querier_add_text(at, proto_text(&f), err) < 0)
				return -1;
			break;
		case QUERIER_NUMBER:
			memcpy(at, &f.v, sizeof(f.v));
			break;
		case QUERIER_DOUBLE: {
			double d = proto_double(&f);

			memcpy(at, &d, sizeof(d));
			break;
		}
		case QUERIER_SUB:
			if (querier_read(f.b, field->sub, ret, err) < 0)
				return -1;
		}
	}
	return cursor_ok(&c) ? 0 : cursor_err(&c, "the message", err);
}
