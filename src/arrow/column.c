/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arrays of a batch: buffers given to fields, in pre-order as the format flattens them, and every offset in them
 * checked, so that reading values needs no check.
 */
#include "arrow/internal.h"

#include "base/search.h"

#define MAX_LENGTH  (UINT64_C(1) << 40) /* of an array: so that sizes do not overflow */
#define INLINE_VIEW 12u                 /* bytes of a view that are in the view itself */

static int array_err(const struct arrow_array *a, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "the field '" STR_FMT "' %s",
		       (int)MIN(a->field->name.size, (size_t)64), a->field->name.p, what);
}

static bool bit_is_set(const uint8_t *bits, uint64_t i)
{
	return bits[i / 8] >> (i % 8) & 1;
}

/* ---- taking nodes and buffers ---- */

static int take_node(struct arrow_batch *b, struct arrow_array *a, bool *ret_nulls, struct err *err)
{
	const uint8_t *p;

	if (b->at_node == b->nodes.size / 16)
		return array_err(a, "has no node", err);
	p = b->nodes.p + 16 * b->at_node++;
	a->n = load_uint(p, 8);
	*ret_nulls = load_uint(p + 8, 8) != 0;
	return a->n > MAX_LENGTH ? array_err(a, "has too many rows", err) : 0;
}

/* A buffer of at least @size bytes. */
static int take_buffer(struct arrow_batch *b, const struct arrow_array *a, uint64_t size, struct bytes *ret,
		       struct err *err)
{
	if (b->at_buffer == b->body->n)
		return array_err(a, "has too few buffers", err);
	*ret = b->body->buffers[b->at_buffer++];
	return ret->size < size ? array_err(a, "has a buffer that is too short for its rows", err) : 0;
}

static int take_fixed(struct arrow_batch *b, struct arrow_array *a, uint64_t width, const uint8_t **ret,
		      struct err *err)
{
	struct bytes values;

	if (take_buffer(b, a, a->n * width, &values, err) < 0)
		return -1;
	*ret = values.p;
	return 0;
}

static int take_validity(struct arrow_batch *b, struct arrow_array *a, bool nulls, struct err *err)
{
	struct bytes bits;

	if (take_buffer(b, a, 0, &bits, err) < 0)
		return -1;
	if (!nulls || !a->n)
		return 0;
	if (bits.size < (a->n + 7) / 8)
		return array_err(a, "has nulls, and no bits that say which", err);
	a->valid = bits.p;
	return 0;
}

static int take_offsets(struct arrow_batch *b, struct arrow_array *a, struct err *err)
{
	uint64_t width = a->field->width;
	struct bytes offsets;

	/* Without rows there may be no offset at all. */
	if (take_buffer(b, a, a->n ? (a->n + 1) * width : 0, &offsets, err) < 0)
		return -1;
	a->values = offsets.p;
	return 0;
}

static int take_views(struct arrow_batch *b, struct arrow_array *a, struct err *err)
{
	if (take_fixed(b, a, 16, &a->values, err) < 0)
		return -1;
	if (b->at_variadic == b->variadic.size / 8)
		return array_err(a, "does not say how many buffers it has", err);
	a->n_buffers = load_uint(b->variadic.p + 8 * b->at_variadic++, 8);
	if (a->n_buffers > b->body->n - b->at_buffer)
		return array_err(a, "has too few buffers", err);
	a->buffers = b->body->buffers + b->at_buffer;
	b->at_buffer += a->n_buffers;
	return 0;
}

static int take_buffers(struct arrow_batch *b, struct arrow_array *a, struct err *err)
{
	const struct arrow_field *f = a->field;
	struct bytes bits;

	switch (f->kind) {
	case ARROW_BOOL:
		if (take_buffer(b, a, (a->n + 7) / 8, &bits, err) < 0)
			return -1;
		a->values = bits.p;
		return 0;
	case ARROW_INT:
	case ARROW_OTHER:
	case ARROW_FIXED:
		return take_fixed(b, a, f->width, &a->values, err);
	case ARROW_BYTES:
		return take_offsets(b, a, err) < 0 ? -1 : take_buffer(b, a, 0, &a->data, err);
	case ARROW_VIEWS:
		return take_views(b, a, err);
	case ARROW_LIST:
		return take_offsets(b, a, err);
	case ARROW_LIST_VIEW:
		return take_fixed(b, a, f->width, &a->values, err) < 0
			       ? -1
			       : take_fixed(b, a, f->width, &a->sizes, err);
	case ARROW_NULLS:
	case ARROW_STRUCT:
	case ARROW_RUNS:
		break;
	}
	return 0;
}

static int array_take(struct arrow_batch *b, struct arrow_array *a, struct err *err)
{
	enum arrow_kind kind = a->field->kind;
	bool nulls;

	if (take_node(b, a, &nulls, err) < 0)
		return -1;
	if (a->dictionary)
		return take_validity(b, a, nulls, err) < 0
			       ? -1
			       : take_fixed(b, a, a->field->index_width, &a->values, err);
	if (kind != ARROW_NULLS && kind != ARROW_RUNS && take_validity(b, a, nulls, err) < 0)
		return -1;
	return take_buffers(b, a, err);
}

/* ---- checking ---- */

static int count_checks(uint64_t *n_checks, uint64_t more, struct err *err)
{
	*n_checks += more;
	return *n_checks > ARROW_MAX_CHECKS ? err_set(err, ERR_LIMIT, "it has more than %llu values",
						      (unsigned long long)ARROW_MAX_CHECKS)
					    : 0;
}

/* Offsets rise, and end within @size. */
static int offsets_check(const struct arrow_array *a, uint64_t size, struct err *err)
{
	unsigned width = a->field->width;
	uint64_t before = 0;

	for (uint64_t i = 0; a->n && i <= a->n; i++) {
		uint64_t off = load_uint(a->values + i * width, width);

		if (off < before || off > size)
			return array_err(a, "has offsets that do not rise, or end outside", err);
		before = off;
	}
	return 0;
}

static int views_check(const struct arrow_array *a, struct err *err)
{
	for (uint64_t i = 0; i < a->n; i++) {
		const uint8_t *v = a->values + 16 * i;
		uint64_t size = load_uint(v, 4), buffer = load_uint(v + 8, 4), off = load_uint(v + 12, 4);

		if (size <= INLINE_VIEW || (a->valid && !bit_is_set(a->valid, i)))
			continue;
		if (buffer >= a->n_buffers || size > a->buffers[buffer].size ||
		    off > a->buffers[buffer].size - size)
			return array_err(a, "has a view of bytes outside", err);
	}
	return 0;
}

static int list_views_check(const struct arrow_array *a, uint64_t n_child, struct err *err)
{
	unsigned width = a->field->width;

	for (uint64_t i = 0; i < a->n; i++) {
		uint64_t off = load_uint(a->values + i * width, width),
			 size = load_uint(a->sizes + i * width, width);

		if (a->valid && !bit_is_set(a->valid, i))
			continue;
		if (size > n_child || off > n_child - size)
			return array_err(a, "has a list of rows outside", err);
	}
	return 0;
}

/* Run ends rise from above 0, and reach the end. */
static int runs_check(const struct arrow_array *a, struct err *err)
{
	const struct arrow_array *ends = a + 1, *values = a + 2;
	unsigned width = ends->field->width;
	int64_t before = 0;

	for (uint64_t i = 0; i < ends->n; i++) {
		int64_t end = load_int(ends->values + i * width, width);

		if (end <= before)
			return array_err(a, "has run ends that do not rise", err);
		before = end;
	}
	if (ends->valid || (uint64_t)before < a->n || values->n < ends->n)
		return array_err(a, "has runs that do not cover its rows", err);
	return 0;
}

static int children_check(const struct arrow_array *a, struct err *err)
{
	const struct arrow_array *child = a + 1;

	for (uint32_t i = 0; i < a->field->n_children; i++) {
		if (child->n < a->n)
			return array_err(child, "has fewer rows than the field that it is part of", err);
		child += 1 + child->field->n_below;
	}
	return 0;
}

static int array_check(const struct arrow_array *a, uint64_t *n_checks, struct err *err)
{
	switch (a->field->kind) {
	case ARROW_BYTES:
		return count_checks(n_checks, a->n, err) < 0 ? -1 : offsets_check(a, a->data.size, err);
	case ARROW_VIEWS:
		return count_checks(n_checks, a->n, err) < 0 ? -1 : views_check(a, err);
	case ARROW_LIST:
		return count_checks(n_checks, a->n, err) < 0 ? -1 : offsets_check(a, a[1].n, err);
	case ARROW_LIST_VIEW:
		return count_checks(n_checks, a->n, err) < 0 ? -1 : list_views_check(a, a[1].n, err);
	case ARROW_RUNS:
		return count_checks(n_checks, a[1].n, err) < 0 ? -1 : runs_check(a, err);
	case ARROW_STRUCT:
		return children_check(a, err);
	default:
		return 0;
	}
}

static uint32_t indices_max(const uint8_t *values, uint64_t n)
{
	uint32_t max = 0;

	for (uint64_t i = 0; i < n; i++)
		max = MAX(max, (uint32_t)load_uint(values + 4 * i, 4));
	return max;
}

int arrow_indices_check(const struct arrow_array *a, uint64_t *n_checks, struct err *err)
{
	unsigned width = a->field->index_width;
	uint64_t size = a->dictionary->n;

	if (count_checks(n_checks, a->n, err) < 0)
		return -1;
	/* A negative one is a large one. The usual width at once: */
	if (width == 4 && indices_max(a->values, a->n) < size)
		return 0;
	for (uint64_t i = 0; i < a->n; i++)
		if (load_uint(a->values + i * width, width) >= size &&
		    !(a->valid && !bit_is_set(a->valid, i)))
			return array_err(a, "has an index outside of its dictionary", err);
	return 0;
}

int arrow_arrays_make(struct arrow_batch *b, uint32_t first, uint32_t end, bool values,
		      struct arrow_array *arrays, struct err *err)
{
	const struct arrow_schema *s = b->schema;

	for (uint32_t i = first; i < end; i++) {
		struct arrow_array *a = &arrays[i - first];
		const struct arrow_field *f = &s->fields[i];

		*a = (struct arrow_array){ .field = f };
		if (f->dictionary && !(values && i == first))
			a->dictionary = &s->dictionaries[f->dictionary - 1];
		if (array_take(b, a, err) < 0)
			return -1;
		/* The children belong to the values, which are in the dictionary. */
		for (uint32_t k = 0; a->dictionary && k < f->n_below; k++) {
			i++;
			arrays[i - first] = (struct arrow_array){ .field = &s->fields[i] };
		}
	}
	for (uint32_t i = first; i < end; i++) {
		const struct arrow_array *a = &arrays[i - first];

		if (a->dictionary)
			i += a->field->n_below;
		else if (array_check(a, &b->n_checks, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- values ---- */

static inline bool row_is_null(const struct arrow_array *a, uint64_t i)
{
	return i >= a->n || (a->valid && !bit_is_set(a->valid, i)) ||
	       (a->field->kind == ARROW_NULLS && !a->dictionary);
}

bool arrow_is_null(const struct arrow_array *a, uint64_t i)
{
	return row_is_null(a, i);
}

bool arrow_index(const struct arrow_array *a, uint64_t i, uint64_t *ret)
{
	if (!a->dictionary || row_is_null(a, i))
		return false;
	*ret = load_uint(a->values + i * a->field->index_width, a->field->index_width);
	return true;
}

void arrow_indices(const struct arrow_array *a, uint64_t first, uint64_t n, uint64_t *ret)
{
	unsigned width = a->field->index_width;

	if (a->dictionary && !a->valid && width == 4 && first + n <= a->n) {
		for (uint64_t i = 0; i < n; i++)
			ret[i] = load_uint(a->values + (first + i) * 4, 4);
		return;
	}
	for (uint64_t i = 0; i < n; i++)
		if (!arrow_index(a, first + i, &ret[i]))
			ret[i] = ARROW_NO_INDEX;
}

static uint64_t run_end(const struct arrow_array *ends, uint64_t run)
{
	return load_uint(ends->values + run * ends->field->width, ends->field->width);
}

/* The run of row @i: mostly that of the row before, or the next. */
static uint64_t run_of_row(struct arrow_array *a, uint64_t i)
{
	const struct arrow_array *ends = a + 1;
	uint64_t low = 0, high = ends->n - 1, at = a->run;

	if (at <= high && (!at || run_end(ends, at - 1) <= i)) {
		low = at;
		if (i < run_end(ends, at))
			high = at;
		else if (at < high && i < run_end(ends, at + 1))
			low = high = at + 1;
	}
	return a->run = SEARCH(low, high, k, run_end(ends, k) <= i);
}

uint64_t arrow_same_until(const struct arrow_array *a, uint64_t i)
{
	bool runs = a->field->kind == ARROW_RUNS && !a->dictionary && i < a->n;

	return runs ? MAX(run_end(a + 1, a->run), i + 1) : i + 1;
}

static bool follow_index(struct arrow_array **a, uint64_t *i)
{
	const struct arrow_dictionary *d = (*a)->dictionary;
	const struct arrow_values *part;
	uint64_t index;

	if (!arrow_index(*a, *i, &index) || index >= d->n)
		return false;
	/* The last part that begins at the index or before; the first one begins at 0. */
	part = &d->parts[SEARCH(1, d->n_parts, k, d->parts[k].first <= index) - 1];
	*a = part->arrays;
	*i = index - part->first;
	return true;
}

static bool follow_far(struct arrow_array **a, uint64_t *i)
{
	/* Runs of runs, and dictionaries of dictionaries, are as deep as the schema. */
	for (;;) {
		if (row_is_null(*a, *i))
			return false;
		if ((*a)->dictionary) {
			if (!follow_index(a, i))
				return false;
		} else if ((*a)->field->kind == ARROW_RUNS) {
			*i = run_of_row(*a, *i);
			*a += 2;
		} else {
			return true;
		}
	}
}

/* Mostly the values are in place, and there are no nulls. */
bool arrow_follow(struct arrow_array **a, uint64_t *i)
{
	const struct arrow_array *b = *a;
	enum arrow_kind kind = b->field->kind;

	if (!b->dictionary && !b->valid && *i < b->n && kind != ARROW_RUNS && kind != ARROW_NULLS)
		return true;
	return follow_far(a, i);
}

uint64_t arrow_number(const struct arrow_array *a, uint64_t i)
{
	const struct arrow_field *f = a->field;

	if (i >= a->n || a->dictionary)
		return 0;
	if (f->kind == ARROW_BOOL)
		return bit_is_set(a->values, i);
	if (f->kind != ARROW_INT)
		return 0;
	return f->is_signed ? (uint64_t)load_int(a->values + i * f->width, f->width)
			    : load_uint(a->values + i * f->width, f->width);
}

static struct bytes view_bytes(const struct arrow_array *a, uint64_t i)
{
	const uint8_t *v = a->values + 16 * i;
	uint64_t size = load_uint(v, 4);

	if (a->valid && !bit_is_set(a->valid, i))
		return (struct bytes){ 0 };
	return size <= INLINE_VIEW ? bytes_of(v + 4, size)
				   : bytes_of(a->buffers[load_uint(v + 8, 4)].p + load_uint(v + 12, 4), size);
}

struct bytes arrow_bytes(const struct arrow_array *a, uint64_t i)
{
	const struct arrow_field *f = a->field;
	uint64_t first, size;

	if (i >= a->n || a->dictionary)
		return (struct bytes){ 0 };
	if (f->kind == ARROW_FIXED)
		return bytes_of(a->values + i * f->width, f->width);
	if (f->kind == ARROW_VIEWS)
		return view_bytes(a, i);
	if (f->kind != ARROW_BYTES)
		return (struct bytes){ 0 };
	first = load_uint(a->values + i * f->width, f->width);
	size = load_uint(a->values + (i + 1) * f->width, f->width) - first;
	return size ? bytes_of(a->data.p + first, size) : (struct bytes){ 0 };
}

struct arrow_array *arrow_list(struct arrow_array *a, uint64_t i, uint64_t *ret_first, uint64_t *ret_n)
{
	unsigned width = a->field->width;

	*ret_first = *ret_n = 0;
	if (a->dictionary || (a->field->kind != ARROW_LIST && a->field->kind != ARROW_LIST_VIEW))
		return NULL;
	if (!row_is_null(a, i)) {
		*ret_first = load_uint(a->values + i * width, width);
		*ret_n = a->field->kind == ARROW_LIST_VIEW
				 ? load_uint(a->sizes + i * width, width)
				 : load_uint(a->values + (i + 1) * width, width) - *ret_first;
	}
	return a + 1;
}

struct arrow_array *arrow_child(struct arrow_array *a, struct str name)
{
	struct arrow_array *child = a + 1;

	if (a->dictionary || a->field->kind != ARROW_STRUCT)
		return NULL;
	for (uint32_t i = 0; i < a->field->n_children; i++) {
		if (str_eq(child->field->name, name))
			return child;
		child += 1 + child->field->n_below;
	}
	return NULL;
}

struct str arrow_text(struct arrow_array *a, uint64_t i)
{
	struct bytes b;

	if (!a || !arrow_follow(&a, &i))
		return STR("");
	b = arrow_bytes(a, i);
	return (struct str){ b.p ? (const char *)b.p : "", b.size };
}

uint64_t arrow_value(struct arrow_array *a, uint64_t i)
{
	return a && arrow_follow(&a, &i) ? arrow_number(a, i) : 0;
}
