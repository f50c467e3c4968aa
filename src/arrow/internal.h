/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of arrow. */
#pragma once

#include <endian.h>
#include "arrow/arrow.h"
#include "base/mem.h"

/* ---- flat.c ---- */

/*
 * A table of a flatbuffer (flatbuffers.dev/internals). Offsets lead forward only, but for that to the table of fields;
 * several may lead to one place, so a walk over tables counts them. A field that is missing has its default, one that is
 * damaged fails the whole: `failed` is set once and for good, as in a cursor.
 */
struct flat {
	struct bytes in;
	bool failed;
};
struct flat_table {
	uint32_t pos, vtable;
	uint16_t n_fields;
	bool there;
};
struct flat_table flat_root(struct flat *f);
uint64_t flat_number(struct flat *f, const struct flat_table *t, unsigned field, unsigned size);
int64_t flat_signed(struct flat *f, const struct flat_table *t, unsigned field, unsigned size);
struct flat_table flat_child(struct flat *f, const struct flat_table *t, unsigned field);
struct str flat_text(struct flat *f, const struct flat_table *t, unsigned field);
/* A vector of numbers or structs of @size bytes. */
struct bytes flat_vector(struct flat *f, const struct flat_table *t, unsigned field, size_t size);
/* A vector of tables: its length, and element @i. */
uint32_t flat_count(struct flat *f, const struct flat_table *t, unsigned field);
struct flat_table flat_element(struct flat *f, const struct flat_table *t, unsigned field, uint32_t i);

/* @size: 1, 2, 4 or 8. A copy of a fixed size is one instruction. */
static inline uint64_t load_uint(const uint8_t *p, unsigned size)
{
	uint16_t v2;
	uint32_t v4;
	uint64_t v8;

	switch (size) {
	case 1:
		return *p;
	case 2:
		memcpy(&v2, p, 2);
		return le16toh(v2);
	case 4:
		memcpy(&v4, p, 4);
		return le32toh(v4);
	default:
		memcpy(&v8, p, 8);
		return le64toh(v8);
	}
}
static inline int64_t load_int(const uint8_t *p, unsigned size)
{
	unsigned shift = 64 - 8 * size;

	return (int64_t)(load_uint(p, size) << shift) >> shift;
}

/* ---- schema.c ---- */

struct arrow_schema {
	struct arrow_field *fields; /* all, in pre-order */
	uint32_t n, room;
	struct arrow_dictionary *dictionaries;
	uint32_t n_dictionaries, room_dictionaries;
	struct flat flat; /* of its metadata */
	struct flat_table table;
};
/* The message's header. Views into it stay. */
int arrow_schema_read(struct flat *f, const struct flat_table *header, struct arrow_schema *ret,
		      struct err *err);
void arrow_schema_done(struct arrow_schema *s);

/* ---- unpack.c ---- */

enum arrow_packing { ARROW_PLAIN, ARROW_LZ4, ARROW_ZSTD };
struct arrow_unpacker;
void arrow_unpacker_free(struct arrow_unpacker *u, const struct arrow_limits *limits); /* takes NULL */

/* The body of a message. `memory` is that of the unpacked buffers. */
struct arrow_body {
	struct bytes *buffers;
	uint64_t n;
	uint8_t *memory;
	uint64_t size, held;
};
/*
 * @places: offsets and lengths in @body, 16 bytes each. Unpacked bytes are subtracted from limits->max_size. A failure
 * leaves a body for arrow_body_done(), too.
 */
int arrow_unpack(struct arrow_unpacker **u, enum arrow_packing packing, struct bytes places,
		 struct bytes body, struct arrow_limits *limits, struct arrow_body *ret, struct err *err);
void arrow_body_done(struct arrow_body *b, const struct arrow_limits *limits);

/* ---- column.c ---- */

/* A message's nodes and buffers, as they are taken field by field. */
struct arrow_batch {
	const struct arrow_schema *schema;
	uint64_t n_rows;
	struct bytes nodes;    /* 16 bytes each: rows, nulls */
	struct bytes variadic; /* 8 bytes each: how many buffers a field of views has */
	const struct arrow_body *body;
	uint64_t at_node, at_buffer, at_variadic;
	uint64_t n_checks; /* in and out: of ARROW_MAX_CHECKS */
};
/*
 * Make the arrays of fields [first, end). @values: field @first is that of a dictionary, of which these are the values.
 * Everything is checked but indices of dictionaries.
 */
int arrow_arrays_make(struct arrow_batch *b, uint32_t first, uint32_t end, bool values,
		      struct arrow_array *arrays, struct err *err);
/* All indices of @a are below the size of its dictionary. */
int arrow_indices_check(const struct arrow_array *a, uint64_t *n_checks, struct err *err);
