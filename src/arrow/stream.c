/* SPDX-License-Identifier: Apache-2.0 */
/* A stream: its messages one after another, and the dictionaries that its batches refer to. */
#include "arrow/internal.h"

#include <stdlib.h>
#include "base/cursor.h"
#include "base/vec.h"

#define CONTINUES 0xffffffffu

/* Numbers of fields, as Message.fbs has them. */
enum { MESSAGE_VERSION = 0, MESSAGE_KIND = 1, MESSAGE_HEADER = 2, MESSAGE_BODY = 3 };
enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY = 2, HEADER_BATCH = 3 };
enum { BATCH_ROWS = 0, BATCH_NODES = 1, BATCH_BUFFERS = 2, BATCH_PACKING = 3, BATCH_VARIADIC = 4 };
enum { DICTIONARY_ID = 0, DICTIONARY_DATA = 1, DICTIONARY_DELTA = 2 };
enum { PACKING_CODEC = 0, PACKING_METHOD = 1 };
enum { SCHEMA_METADATA = 2 };
enum { VERSION_4 = 3, VERSION_5 = 4 };

struct arrow_message {
	struct flat flat;
	uint64_t kind;
	struct flat_table header;
	struct bytes body;
};

/* A part of a dictionary, with the memory of its arrays and buffers. */
struct arrow_part {
	struct arrow_body body;
	struct arrow_array *arrays;
	uint64_t held;
	uint32_t dictionary;
};

struct arrow_stream {
	struct cursor in;
	struct arrow_limits limits; /* max_size: the bytes that are left */
	struct arrow_schema schema;
	struct arrow_unpacker *unpacker;
	struct arrow_part *parts; /* of all dictionaries */
	uint32_t n_parts, room_parts;
	struct arrow_part batch;
	uint64_t n_rows, n_messages, n_checks;
	/* It grows when a dictionary is replaced: then indices of others in it are checked again. */
	uint64_t generation;
};

/* ---- messages ---- */

static int message_parse(struct arrow_stream *s, struct bytes metadata, struct arrow_message *ret,
			 struct err *err)
{
	struct flat *f = &ret->flat;
	struct flat_table t;
	uint64_t version, size;

	*f = (struct flat){ .in = metadata };
	t = flat_root(f);
	version = flat_number(f, &t, MESSAGE_VERSION, 2);
	ret->kind = flat_number(f, &t, MESSAGE_KIND, 1);
	ret->header = flat_child(f, &t, MESSAGE_HEADER);
	size = flat_number(f, &t, MESSAGE_BODY, 8);
	if (f->failed || !ret->header.there)
		return err_set(err, ERR_INVALID, "it is damaged");
	if (version != VERSION_4 && version != VERSION_5)
		return err_set(err, ERR_INVALID, "it has the format's version %llu, which is not read",
			       (unsigned long long)version + 1);
	ret->body = cursor_bytes(&s->in, size);
	return cursor_ok(&s->in) ? 0 : err_set(err, ERR_INVALID, "its body is cut off");
}

/* ARROW_END */
static int message_next(struct arrow_stream *s, struct arrow_message *ret, struct err *err)
{
	uint32_t size;

	if (!cursor_left(&s->in))
		return ARROW_END;
	if (++s->n_messages > ARROW_MAX_MESSAGES)
		return err_set(err, ERR_LIMIT, "there are more than %u messages", ARROW_MAX_MESSAGES);
	if (cursor_u32(&s->in) != CONTINUES)
		return err_set(err, ERR_INVALID, "it does not begin as a message of Arrow");
	size = cursor_u32(&s->in);
	if (cursor_ok(&s->in) && !size)
		return ARROW_END;
	ret->body = cursor_bytes(&s->in, size);
	if (!cursor_ok(&s->in))
		return err_set(err, ERR_INVALID, "it is cut off");
	return message_parse(s, ret->body, ret, err);
}

static int batch_packing(struct flat *f, const struct flat_table *header, enum arrow_packing *ret,
			 struct err *err)
{
	struct flat_table t = flat_child(f, header, BATCH_PACKING);
	uint64_t codec = flat_number(f, &t, PACKING_CODEC, 1);

	*ret = !t.there ? ARROW_PLAIN : codec ? ARROW_ZSTD : ARROW_LZ4;
	if (codec > 1 || flat_number(f, &t, PACKING_METHOD, 1))
		return err_set(err, ERR_INVALID, "it is packed in an unknown way");
	return 0;
}

/* ---- batches ---- */

static void part_done(struct arrow_stream *s, struct arrow_part *p)
{
	arrow_body_done(&p->body, &s->limits);
	budget_hold_sub(s->limits.hold, p->held);
	free(p->arrays);
	*p = (struct arrow_part){ 0 };
}

/* The arrays of fields [first, end) from a message with one batch; *ret is for part_done() in any case. */
static int read_part_of(struct arrow_stream *s, struct arrow_message *m, const struct flat_table *header,
			uint32_t dictionary, struct arrow_part *ret, struct err *err)
{
	const struct arrow_field *root = dictionary ? s->schema.dictionaries[dictionary - 1].field : NULL;
	uint32_t first = root ? (uint32_t)(root - s->schema.fields) : 0,
		 n = root ? 1 + root->n_below : s->schema.n;
	struct arrow_batch b = { .schema = &s->schema,
				 .n_rows = flat_number(&m->flat, header, BATCH_ROWS, 8),
				 .nodes = flat_vector(&m->flat, header, BATCH_NODES, 16),
				 .variadic = flat_vector(&m->flat, header, BATCH_VARIADIC, 8),
				 .body = &ret->body,
				 .n_checks = s->n_checks };
	struct bytes places = flat_vector(&m->flat, header, BATCH_BUFFERS, 16);
	enum arrow_packing packing;
	uint64_t size = ((uint64_t)n + 1) * sizeof(*ret->arrays);
	int r;

	*ret = (struct arrow_part){ .dictionary = dictionary };
	if (batch_packing(&m->flat, header, &packing, err) < 0)
		return -1;
	if (m->flat.failed)
		return err_set(err, ERR_INVALID, "it is damaged");
	if (b.n_rows > ARROW_MAX_ROWS)
		return err_set(err, ERR_LIMIT, "it has more than %llu rows",
			       (unsigned long long)ARROW_MAX_ROWS);
	if (arrow_unpack(&s->unpacker, packing, places, m->body, &s->limits, &ret->body, err) < 0 ||
	    budget_hold_add(s->limits.hold, size, err) < 0)
		return -1;
	ret->held = size;
	ret->arrays = mem_alloc(size);
	r = arrow_arrays_make(&b, first, first + n, dictionary, ret->arrays, err);
	s->n_checks = b.n_checks;
	s->n_rows = b.n_rows;
	return r;
}

/* ---- dictionaries ---- */

static uint32_t dictionary_find(const struct arrow_schema *s, int64_t id)
{
	for (uint32_t i = 0; i < s->n_dictionaries; i++)
		if (s->dictionaries[i].id == id)
			return i + 1;
	return 0;
}

static void dictionary_clear(struct arrow_stream *s, uint32_t dictionary)
{
	struct arrow_dictionary *d = &s->schema.dictionaries[dictionary - 1];
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_parts; i++) {
		if (s->parts[i].dictionary == dictionary)
			part_done(s, &s->parts[i]);
		else
			s->parts[n++] = s->parts[i];
	}
	s->n_parts = n;
	d->n_parts = 0;
	d->n = 0;
	s->generation++;
}

static int dictionary_read(struct arrow_stream *s, struct arrow_message *m, struct err *err)
{
	uint32_t dictionary = dictionary_find(&s->schema,
					      flat_signed(&m->flat, &m->header, DICTIONARY_ID, 8));
	bool delta = flat_number(&m->flat, &m->header, DICTIONARY_DELTA, 1) != 0;
	struct flat_table data = flat_child(&m->flat, &m->header, DICTIONARY_DATA);
	struct arrow_dictionary *d;
	struct arrow_part part;

	if (!dictionary || !data.there)
		return err_set(err, ERR_INVALID, "no field has this dictionary");
	d = &s->schema.dictionaries[dictionary - 1];
	if (!delta && d->n_parts)
		dictionary_clear(s, dictionary);
	if (read_part_of(s, m, &data, dictionary, &part, err) < 0) {
		part_done(s, &part);
		return -1;
	}
	d->checked = 0;
	VEC_PUSH(d->parts, d->n_parts, d->room_parts) = (struct arrow_values){ .first = d->n,
									       .arrays = part.arrays };
	d->n += part.arrays[0].n;
	VEC_PUSH(s->parts, s->n_parts, s->room_parts) = part;
	return 0;
}

/* Check the indices in an array's fields [0, n). */
static int fields_indices_check(struct arrow_stream *s, const struct arrow_array *arrays, uint32_t n,
				struct err *err)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!arrays[i].dictionary)
			continue;
		if (arrow_indices_check(&arrays[i], &s->n_checks, err) < 0)
			return -1;
		i += arrays[i].field->n_below;
	}
	return 0;
}

/* Dictionaries may have indices of others, which come before or after them. */
static int dictionaries_check(struct arrow_stream *s, struct err *err)
{
	for (uint32_t i = 0; i < s->schema.n_dictionaries; i++) {
		struct arrow_dictionary *d = &s->schema.dictionaries[i];

		if (d->checked == s->generation)
			continue;
		for (uint32_t k = 0; k < d->n_parts; k++)
			if (fields_indices_check(s, d->parts[k].arrays, 1 + d->field->n_below, err) < 0)
				return err_in(err, "a dictionary");
		d->checked = s->generation;
	}
	return 0;
}

/* ---- a stream ---- */

static int columns_check(struct arrow_stream *s, struct err *err)
{
	for (uint32_t i = 0; i < s->schema.n; i += 1 + s->schema.fields[i].n_below)
		if (s->batch.arrays[i].n < s->n_rows)
			return err_set(err, ERR_INVALID, "a column has fewer rows than the batch");
	return 0;
}

static int batch_read(struct arrow_stream *s, struct arrow_message *m, struct err *err)
{
	part_done(s, &s->batch);
	if (read_part_of(s, m, &m->header, 0, &s->batch, err) < 0 || columns_check(s, err) < 0 ||
	    dictionaries_check(s, err) < 0)
		return -1;
	return fields_indices_check(s, s->batch.arrays, s->schema.n, err);
}

int arrow_next(struct arrow_stream *s, struct err *err)
{
	struct arrow_message m;
	int r;

	while ((r = message_next(s, &m, err)) == 0) {
		if (m.kind == HEADER_BATCH) {
			r = batch_read(s, &m, err);
			if (r == 0)
				return 0;
		} else if (m.kind == HEADER_DICTIONARY) {
			r = dictionary_read(s, &m, err);
		} else {
			r = err_set(err, ERR_INVALID, "it is neither a batch nor a dictionary");
		}
		if (r < 0)
			break;
	}
	s->n_rows = r ? 0 : s->n_rows;
	return r < 0 ? err_in(err, "message %llu", (unsigned long long)s->n_messages) : r;
}

static int schema_read(struct arrow_stream *s, struct err *err)
{
	struct arrow_message m;
	int r = message_next(s, &m, err);

	if (r < 0)
		return err_in(err, "message 1");
	if (r || m.kind != HEADER_SCHEMA)
		return err_set(err, ERR_INVALID, "is no stream of Arrow: it does not begin with a schema");
	return arrow_schema_read(&m.flat, &m.header, &s->schema, err);
}

int arrow_open(struct bytes in, const struct arrow_limits *limits, struct arrow_stream **ret, struct err *err)
{
	struct arrow_stream *s = NEW(struct arrow_stream);

	s->in = cursor_of(in);
	s->limits = *limits;
	s->generation = 1;
	if (schema_read(s, err) < 0) {
		arrow_close(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void arrow_close(struct arrow_stream *s)
{
	if (!s)
		return;
	part_done(s, &s->batch);
	for (uint32_t i = 0; i < s->n_parts; i++)
		part_done(s, &s->parts[i]);
	for (uint32_t i = 0; i < s->schema.n_dictionaries; i++)
		free(s->schema.dictionaries[i].parts);
	arrow_unpacker_free(s->unpacker, &s->limits);
	arrow_schema_done(&s->schema);
	free(s->parts);
	free(s);
}

struct str arrow_metadata(const struct arrow_stream *s, struct str key)
{
	struct flat f = s->schema.flat;
	uint32_t n = flat_count(&f, &s->schema.table, SCHEMA_METADATA);

	for (uint32_t i = 0; i < n && !f.failed; i++) {
		struct flat_table pair = flat_element(&f, &s->schema.table, SCHEMA_METADATA, i);

		if (str_eq(flat_text(&f, &pair, 0), key))
			return flat_text(&f, &pair, 1);
	}
	return STR("");
}

uint64_t arrow_rows(const struct arrow_stream *s)
{
	return s->n_rows;
}

struct arrow_array *arrow_column_after(struct arrow_stream *s, struct arrow_array *a)
{
	a = a ? a + 1 + a->field->n_below : s->batch.arrays;
	return a && a < s->batch.arrays + s->schema.n ? a : NULL;
}

struct arrow_array *arrow_column(struct arrow_stream *s, struct str name)
{
	struct arrow_array *a = NULL;

	while ((a = arrow_column_after(s, a)) && !str_eq(a->field->name, name))
		;
	return a;
}
