/* SPDX-License-Identifier: Apache-2.0 */
/* A schema: its fields in pre-order, so that a walk over them and their children is one loop. */
#include "arrow/internal.h"

#include <stdlib.h>
#include "base/vec.h"

/* Numbers of fields of the tables, and of the members of a union, as Schema.fbs has them. */
enum { SCHEMA_ENDIANNESS = 0, SCHEMA_FIELDS = 1, SCHEMA_METADATA = 2 };
enum { FIELD_NAME = 0, FIELD_TYPE_KIND = 2, FIELD_TYPE = 3, FIELD_DICTIONARY = 4, FIELD_CHILDREN = 5 };
enum { DICTIONARY_ID = 0, DICTIONARY_INDEX = 1 };
enum { INT_BITS = 0, INT_SIGNED = 1 };
enum {
	TYPE_NULL = 1,
	TYPE_INT,
	TYPE_FLOAT,
	TYPE_BINARY,
	TYPE_UTF8,
	TYPE_BOOL,
	TYPE_DECIMAL,
	TYPE_DATE,
	TYPE_TIME,
	TYPE_TIMESTAMP,
	TYPE_INTERVAL,
	TYPE_LIST,
	TYPE_STRUCT,
	TYPE_UNION,
	TYPE_FIXED_BINARY,
	TYPE_FIXED_LIST,
	TYPE_MAP,
	TYPE_DURATION,
	TYPE_LARGE_BINARY,
	TYPE_LARGE_UTF8,
	TYPE_LARGE_LIST,
	TYPE_RUNS,
	TYPE_BINARY_VIEW,
	TYPE_UTF8_VIEW,
	TYPE_LIST_VIEW,
	TYPE_LARGE_LIST_VIEW,
	N_TYPES
};

/* width 0: the type's table says it */
static const struct {
	enum arrow_kind kind;
	uint32_t width, n_children;
	bool is_signed, any_children, known;
} types[N_TYPES] = {
	[TYPE_NULL] = { ARROW_NULLS, 0, .known = true },
	[TYPE_INT] = { ARROW_INT, 0, .known = true },
	[TYPE_FLOAT] = { ARROW_OTHER, 0, .known = true },
	[TYPE_BINARY] = { ARROW_BYTES, 4, .known = true },
	[TYPE_UTF8] = { ARROW_BYTES, 4, .known = true },
	[TYPE_BOOL] = { ARROW_BOOL, 0, .known = true },
	[TYPE_TIMESTAMP] = { ARROW_INT, 8, .is_signed = true, .known = true },
	[TYPE_LIST] = { ARROW_LIST, 4, 1, .known = true },
	[TYPE_STRUCT] = { ARROW_STRUCT, 0, .any_children = true, .known = true },
	[TYPE_FIXED_BINARY] = { ARROW_FIXED, 0, .known = true },
	[TYPE_MAP] = { ARROW_LIST, 4, 1, .known = true },
	[TYPE_DURATION] = { ARROW_INT, 8, .is_signed = true, .known = true },
	[TYPE_LARGE_BINARY] = { ARROW_BYTES, 8, .known = true },
	[TYPE_LARGE_UTF8] = { ARROW_BYTES, 8, .known = true },
	[TYPE_LARGE_LIST] = { ARROW_LIST, 8, 1, .known = true },
	[TYPE_RUNS] = { ARROW_RUNS, 0, 2, .known = true },
	[TYPE_BINARY_VIEW] = { ARROW_VIEWS, 16, .known = true },
	[TYPE_UTF8_VIEW] = { ARROW_VIEWS, 16, .known = true },
	[TYPE_LIST_VIEW] = { ARROW_LIST_VIEW, 4, 1, .known = true },
	[TYPE_LARGE_LIST_VIEW] = { ARROW_LIST_VIEW, 8, 1, .known = true },
};

/* 8, 16, 32 or 64 bits, in bytes; 0: another number. */
static uint32_t int_width(struct flat *f, const struct flat_table *type)
{
	uint64_t bits = flat_number(f, type, INT_BITS, 4);

	return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? (uint32_t)bits / 8 : 0;
}

static uint32_t float_width(struct flat *f, const struct flat_table *type)
{
	uint64_t precision = flat_number(f, type, 0, 2);

	return precision <= 2 ? 2u << precision : 0;
}

#define MAX_WIDTH 4096u /* of a fixed binary */

static int field_type(struct flat *f, const struct flat_table *t, struct arrow_field *ret, struct err *err)
{
	uint64_t kind = flat_number(f, t, FIELD_TYPE_KIND, 1);
	struct flat_table type = flat_child(f, t, FIELD_TYPE);

	if (kind >= N_TYPES || !types[kind].known)
		return err_set(err, ERR_INVALID, "has the type %llu, which is not read",
			       (unsigned long long)kind);
	ret->kind = types[kind].kind;
	ret->width = types[kind].width;
	ret->is_signed = types[kind].is_signed;
	if (kind == TYPE_INT) {
		ret->width = int_width(f, &type);
		ret->is_signed = flat_number(f, &type, INT_SIGNED, 1) != 0;
	} else if (kind == TYPE_FLOAT) {
		ret->width = float_width(f, &type);
	} else if (kind == TYPE_FIXED_BINARY) {
		ret->width = (uint32_t)flat_number(f, &type, 0, 4);
	}
	if (ret->kind == ARROW_INT || ret->kind == ARROW_OTHER || ret->kind == ARROW_FIXED) {
		if (!ret->width || ret->width > MAX_WIDTH)
			return err_set(err, ERR_INVALID, "has values of a width that is not read");
	}
	if (!types[kind].any_children && ret->n_children != types[kind].n_children)
		return err_set(err, ERR_INVALID, "has %u children", ret->n_children);
	return 0;
}

static int field_dictionary(struct arrow_schema *s, const struct flat_table *t, struct arrow_field *ret,
			    struct err *err)
{
	struct flat_table d = flat_child(&s->flat, t, FIELD_DICTIONARY), index;
	int64_t id;

	if (!d.there)
		return 0;
	id = flat_signed(&s->flat, &d, DICTIONARY_ID, 8);
	index = flat_child(&s->flat, &d, DICTIONARY_INDEX);
	/* Without a type they are 32 bits wide. */
	ret->index_width = index.there ? int_width(&s->flat, &index) : 4;
	if (!ret->index_width)
		return err_set(err, ERR_INVALID, "has indices of a width that does not exist");
	for (uint32_t i = 0; i < s->n_dictionaries; i++)
		if (s->dictionaries[i].id == id)
			return err_set(err, ERR_INVALID, "shares its dictionary with another field");
	VEC_PUSH(s->dictionaries, s->n_dictionaries,
		 s->room_dictionaries) = (struct arrow_dictionary){ .id = id };
	ret->dictionary = s->n_dictionaries;
	return 0;
}

static int field_read(struct arrow_schema *s, const struct flat_table *t, uint32_t *ret, struct err *err)
{
	struct arrow_field field = { .name = flat_text(&s->flat, t, FIELD_NAME),
				     .n_children = flat_count(&s->flat, t, FIELD_CHILDREN) };

	if (s->n == ARROW_MAX_FIELDS)
		return err_set(err, ERR_LIMIT, "the schema has more than %u fields", ARROW_MAX_FIELDS);
	if (field_type(&s->flat, t, &field, err) < 0 || field_dictionary(s, t, &field, err) < 0)
		return err_in(err, "the field '" STR_FMT "'", (int)MIN(field.name.size, (size_t)64),
			      field.name.p);
	*ret = s->n;
	VEC_PUSH(s->fields, s->n, s->room) = field;
	return 0;
}

/* Run ends are signed numbers without nulls, so that a binary search finds a row. */
static int fields_check(const struct arrow_schema *s, struct err *err)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct arrow_field *f = &s->fields[i], *ends = f + 1;

		if (f->kind == ARROW_RUNS &&
		    (ends->kind != ARROW_INT || ends->width < 2 || ends->dictionary || f->dictionary))
			return err_set(err, ERR_INVALID,
				       "the field '" STR_FMT "' has run ends of a wrong type",
				       (int)MIN(f->name.size, (size_t)64), f->name.p);
	}
	return 0;
}

/* A table whose fields are being read: those of the schema, or the children of a field. */
struct schema_level {
	struct flat_table table;
	unsigned list;
	uint32_t i, n, field;
};

static int read_fields(struct arrow_schema *s, struct err *err)
{
	struct schema_level levels[ARROW_MAX_DEPTH];
	unsigned depth = 0;

	levels[0] = (struct schema_level){ .table = s->table,
					   .list = SCHEMA_FIELDS,
					   .n = flat_count(&s->flat, &s->table, SCHEMA_FIELDS) };
	for (;;) {
		struct schema_level *l = &levels[depth];
		struct flat_table t;
		uint32_t field;

		if (l->i == l->n) {
			if (!depth)
				return 0;
			s->fields[l->field].n_below = s->n - l->field - 1;
			depth--;
			continue;
		}
		t = flat_element(&s->flat, &l->table, l->list, l->i++);
		if (s->flat.failed)
			return err_set(err, ERR_INVALID, "the schema is damaged");
		if (field_read(s, &t, &field, err) < 0)
			return -1;
		if (!s->fields[field].n_children)
			continue;
		if (++depth == ARROW_MAX_DEPTH)
			return err_set(err, ERR_LIMIT, "the schema has fields more than %u deep",
				       ARROW_MAX_DEPTH);
		levels[depth] = (struct schema_level){
			.table = t, .list = FIELD_CHILDREN, .n = s->fields[field].n_children, .field = field
		};
	}
}

int arrow_schema_read(struct flat *f, const struct flat_table *header, struct arrow_schema *ret,
		      struct err *err)
{
	ret->flat = *f;
	ret->table = *header;
	if (flat_number(&ret->flat, header, SCHEMA_ENDIANNESS, 2))
		return err_set(err, ERR_INVALID, "its values are big endian, which is not read");
	if (read_fields(ret, err) < 0 || fields_check(ret, err) < 0)
		return -1;
	for (uint32_t i = 0; i < ret->n; i++)
		if (ret->fields[i].dictionary)
			ret->dictionaries[ret->fields[i].dictionary - 1].field = &ret->fields[i];
	return ret->flat.failed ? err_set(err, ERR_INVALID, "the schema is damaged") : 0;
}

void arrow_schema_done(struct arrow_schema *s)
{
	free(s->fields);
	free(s->dictionaries);
}
