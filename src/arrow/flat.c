/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flatbuffers: tables with a table of offsets for their fields each, vectors and strings, all by offsets into one view.
 */
#include "arrow/internal.h"

#define FIELD_SLOT 4u /* the first field's place in a table of fields: after two sizes */

/* The bytes [pos, pos + size); NULL: they are not all there. */
static const uint8_t *flat_at(struct flat *f, uint64_t pos, uint64_t size)
{
	if (size > f->in.size || pos > f->in.size - size) {
		f->failed = true;
		return NULL;
	}
	return f->in.p + pos;
}

static uint64_t flat_load(struct flat *f, uint64_t pos, unsigned size)
{
	const uint8_t *p = flat_at(f, pos, size);

	return p ? load_uint(p, size) : 0;
}

/* The place that the offset at @pos leads to. */
static uint64_t flat_jump(struct flat *f, uint64_t pos)
{
	return pos + flat_load(f, pos, 4);
}

static struct flat_table flat_table_at(struct flat *f, uint64_t pos)
{
	const uint8_t *p = flat_at(f, pos, 4);
	struct flat_table t = { 0 };
	uint64_t size;
	int64_t vtable;

	if (!p)
		return t;
	vtable = (int64_t)pos - load_int(p, 4);
	if (vtable < 0 || pos > UINT32_MAX || vtable > UINT32_MAX) {
		f->failed = true;
		return t;
	}
	size = flat_load(f, (uint64_t)vtable, 2);
	if (size < FIELD_SLOT || !flat_at(f, (uint64_t)vtable, size)) {
		f->failed = true;
		return t;
	}
	return (struct flat_table){ .pos = (uint32_t)pos,
				    .vtable = (uint32_t)vtable,
				    .n_fields = (uint16_t)((size - FIELD_SLOT) / 2),
				    .there = true };
}

struct flat_table flat_root(struct flat *f)
{
	return flat_table_at(f, flat_jump(f, 0));
}

/* Where the field's value is; 0: it is missing. */
static uint64_t flat_slot(struct flat *f, const struct flat_table *t, unsigned field)
{
	uint64_t off;

	if (!t->there || field >= t->n_fields)
		return 0;
	off = flat_load(f, (uint64_t)t->vtable + FIELD_SLOT + 2 * field, 2);
	return off ? t->pos + off : 0;
}

uint64_t flat_number(struct flat *f, const struct flat_table *t, unsigned field, unsigned size)
{
	uint64_t pos = flat_slot(f, t, field);

	return pos ? flat_load(f, pos, size) : 0;
}

int64_t flat_signed(struct flat *f, const struct flat_table *t, unsigned field, unsigned size)
{
	uint64_t pos = flat_slot(f, t, field);
	const uint8_t *p = pos ? flat_at(f, pos, size) : NULL;

	return p ? load_int(p, size) : 0;
}

struct flat_table flat_child(struct flat *f, const struct flat_table *t, unsigned field)
{
	uint64_t pos = flat_slot(f, t, field);

	return pos ? flat_table_at(f, flat_jump(f, pos)) : (struct flat_table){ 0 };
}

struct bytes flat_vector(struct flat *f, const struct flat_table *t, unsigned field, size_t size)
{
	uint64_t pos = flat_slot(f, t, field), n;
	const uint8_t *p;

	if (!pos)
		return (struct bytes){ 0 };
	pos = flat_jump(f, pos);
	n = flat_load(f, pos, 4) * size;
	p = flat_at(f, pos + 4, n);
	return p ? bytes_of(p, n) : (struct bytes){ 0 };
}

struct str flat_text(struct flat *f, const struct flat_table *t, unsigned field)
{
	struct bytes b = flat_vector(f, t, field, 1);

	return (struct str){ b.p ? (const char *)b.p : "", b.size };
}

uint32_t flat_count(struct flat *f, const struct flat_table *t, unsigned field)
{
	return (uint32_t)(flat_vector(f, t, field, 4).size / 4);
}

struct flat_table flat_element(struct flat *f, const struct flat_table *t, unsigned field, uint32_t i)
{
	struct bytes v = flat_vector(f, t, field, 4);

	if (i >= v.size / 4) {
		f->failed = true;
		return (struct flat_table){ 0 };
	}
	return flat_table_at(f, flat_jump(f, (uint64_t)(v.p - f->in.p) + 4 * (uint64_t)i));
}
