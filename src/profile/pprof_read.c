/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto, read.
 *
 * The message is gone over three times: tables that refer to nothing (mappings, functions, strings), then
 * locations, then samples, since a file may have them in any order and mostly has the samples first. The
 * later two passes only cover the part of the message where these were seen.
 */
#include "profile/internal.h"

#include <stdlib.h>
#include "codec/codec.h"

#define SEEN_SLOTS (1u << 14) /* stacks that were read lately */

/* A field: the bytes of a WIRE_LEN one, the number of the others. */
struct field {
	uint32_t number, wire;
	uint64_t v;
	struct bytes b;
};

/* Numbers that entries were given by the file. Mostly they are 1, 2, 3; else they are hashed. */
struct ids {
	const char *what;
	PROFILE_TABLE(uint64_t) list;
	uint32_t *slots, mask;
};

struct part {
	size_t first, end; /* offsets in the message */
};

struct reader {
	struct profile *p;
	struct bytes in;
	struct ids mappings, functions, locations;
	struct part locations_part, samples_part;
	/* What one sample is collected in. */
	PROFILE_TABLE(uint32_t) stack;
	PROFILE_TABLE(struct profile_label) labels;
	/* Location lists that were read before, as they are in the file, and what stack they are. */
	struct seen {
		uint32_t off, size, stack;
	} * seen;
	uint32_t string_max; /* the largest number of a string that was referred to */
	uint32_t n_types;
};

/* ---- the wire ---- */

static bool field_next(struct cursor *c, struct field *f)
{
	uint64_t key;

	if (!cursor_left(c) || !cursor_ok(c))
		return false;
	key = cursor_uleb(c);
	f->number = (uint32_t)MIN(key >> 3, (uint64_t)UINT32_MAX);
	f->wire = key & 7;
	f->b = (struct bytes){ 0 };
	f->v = 0;
	switch (f->wire) {
	case WIRE_VARINT:
		f->v = cursor_uleb(c);
		break;
	case WIRE_LEN:
		f->b = cursor_bytes(c, cursor_uleb(c));
		break;
	case WIRE_64:
		cursor_skip(c, 8);
		break;
	case WIRE_32:
		cursor_skip(c, 4);
		break;
	default:
		c->failed = true;
	}
	if (!f->number)
		c->failed = true;
	return cursor_ok(c);
}

static struct cursor part_cursor(const struct reader *r, struct bytes b)
{
	return cursor_at(b, false, (uint64_t)(b.p ? b.p - r->in.p : 0));
}

static int wire_err(const struct cursor *c, struct err *err)
{
	return err_set(err, ERR_INVALID, "is not a message of profile.proto at offset %llu",
		       (unsigned long long)cursor_off(c));
}

static int kind_err(const struct field *f, struct err *err)
{
	return err_set(err, ERR_INVALID, "field %u is of wire type %u", f->number, f->wire);
}

/* What is kept of a reference to a string; whether it is there is seen when all strings were read. */
static uint32_t string_ref(struct reader *r, uint64_t v)
{
	uint32_t s = (uint32_t)MIN(v, (uint64_t)UINT32_MAX);

	r->string_max = MAX(r->string_max, s);
	return s;
}

/* ---- numbers of entries ---- */

static int id_add(struct reader *r, struct ids *ids, uint64_t id, struct err *err)
{
	if (!id)
		return err_set(err, ERR_INVALID, "has the number 0");
	if (!profile_room(r->p, &ids->list, 1))
		return profile_err_memory(r->p, err);
	ids->list.p[ids->list.n++] = id;
	return 0;
}

static uint64_t id_hash(uint64_t id)
{
	return profile_mix(id, 0x2545f4914f6cdd1d);
}

/* PROFILE_NONE: there is none. */
static inline uint32_t id_find(const struct ids *ids, uint64_t id)
{
	if (!ids->slots)
		return id - 1 < ids->list.n ? (uint32_t)(id - 1) : PROFILE_NONE;
	for (uint64_t at = id_hash(id) & ids->mask; ids->slots[at]; at = (at + 1) & ids->mask)
		if (ids->list.p[ids->slots[at] - 1] == id)
			return ids->slots[at] - 1;
	return PROFILE_NONE;
}

static int ids_end(struct reader *r, struct ids *ids, struct err *err)
{
	uint64_t room = 64;
	uint32_t i = 0;

	while (i < ids->list.n && ids->list.p[i] == (uint64_t)i + 1)
		i++;
	if (i == ids->list.n)
		return 0;
	while (room < (uint64_t)ids->list.n * 2)
		room *= 2;
	if (room > UINT32_MAX || r->p->memory + room * 4 > r->p->max_memory)
		return profile_err_memory(r->p, err);
	ids->slots = calloc(room, sizeof(*ids->slots));
	if (!ids->slots)
		return profile_err_memory(r->p, err);
	r->p->memory += room * 4;
	ids->mask = (uint32_t)(room - 1);
	for (i = 0; i < ids->list.n; i++) {
		uint64_t at = id_hash(ids->list.p[i]) & ids->mask;

		for (; ids->slots[at]; at = (at + 1) & ids->mask)
			if (ids->list.p[ids->slots[at] - 1] == ids->list.p[i])
				return err_set(err, ERR_INVALID, "two %ss have the number %llu", ids->what,
					       (unsigned long long)ids->list.p[i]);
		ids->slots[at] = i + 1;
	}
	return 0;
}

static void ids_done(struct reader *r, struct ids *ids)
{
	r->p->memory -= (uint64_t)ids->list.room * sizeof(*ids->list.p) +
			(ids->slots ? (uint64_t)ids->mask * 4 + 4 : 0);
	free(ids->list.p);
	free(ids->slots);
}

/* ---- the first pass ---- */

static int read_type(struct reader *r, struct bytes b, struct profile_type *ret, struct err *err)
{
	struct cursor c = part_cursor(r, b);
	struct field f;

	*ret = (struct profile_type){ 0 };
	while (field_next(&c, &f)) {
		if (f.number <= 2 && f.wire != WIRE_VARINT)
			return kind_err(&f, err);
		if (f.number == 1)
			ret->type = string_ref(r, f.v);
		else if (f.number == 2)
			ret->unit = string_ref(r, f.v);
	}
	return cursor_ok(&c) ? 0 : wire_err(&c, err);
}

static int read_sample_type(struct reader *r, struct bytes b, struct err *err)
{
	struct profile *p = r->p;
	struct profile_type t;

	if (p->types.n == PROFILE_MAX_TYPES)
		return err_set(err, ERR_LIMIT, "has more than %u sample types", PROFILE_MAX_TYPES);
	if (read_type(r, b, &t, err) < 0)
		return err_in(err, "sample type %u", p->types.n);
	if (!profile_room(p, &p->types, 1))
		return profile_err_memory(p, err);
	p->types.p[p->types.n++] = t;
	return 0;
}

static int read_mapping(struct reader *r, struct bytes b, struct err *err)
{
	struct cursor c = part_cursor(r, b);
	struct profile_mapping m = { 0 };
	uint64_t id = 0;
	struct field f;

	while (field_next(&c, &f)) {
		if (f.number <= 10 && f.wire != WIRE_VARINT)
			return kind_err(&f, err);
		switch (f.number) {
		case 1:
			id = f.v;
			break;
		case 2:
			m.start = f.v;
			break;
		case 3:
			m.limit = f.v;
			break;
		case 4:
			m.offset = f.v;
			break;
		case 5:
			m.file = string_ref(r, f.v);
			break;
		case 6:
			m.build_id = string_ref(r, f.v);
			break;
		case 7 ... 10: {
			uint32_t flag = 1u << (f.number - 7);

			m.flags = f.v ? m.flags | flag : m.flags & ~flag;
			break;
		}
		}
	}
	if (!cursor_ok(&c))
		return wire_err(&c, err);
	if (id_add(r, &r->mappings, id, err) < 0)
		return -1;
	if (!profile_room(r->p, &r->p->mappings, 1))
		return profile_err_memory(r->p, err);
	r->p->mappings.p[r->p->mappings.n++] = m;
	return 0;
}

static int read_function(struct reader *r, struct bytes b, struct err *err)
{
	struct cursor c = part_cursor(r, b);
	struct profile_function fn = { 0 };
	uint64_t id = 0;
	struct field f;

	while (field_next(&c, &f)) {
		if (f.number <= 5 && f.wire != WIRE_VARINT)
			return kind_err(&f, err);
		switch (f.number) {
		case 1:
			id = f.v;
			break;
		case 2:
			fn.name = string_ref(r, f.v);
			break;
		case 3:
			fn.system_name = string_ref(r, f.v);
			break;
		case 4:
			fn.file = string_ref(r, f.v);
			break;
		case 5:
			fn.start_line = (int64_t)f.v;
			break;
		}
	}
	if (!cursor_ok(&c))
		return wire_err(&c, err);
	if (id_add(r, &r->functions, id, err) < 0)
		return -1;
	if (!profile_room(r->p, &r->p->functions, 1))
		return profile_err_memory(r->p, err);
	r->p->functions.p[r->p->functions.n++] = fn;
	return 0;
}

static int add_comment(struct reader *r, uint64_t v, struct err *err)
{
	if (!profile_room(r->p, &r->p->comments, 1))
		return profile_err_memory(r->p, err);
	r->p->comments.p[r->p->comments.n++] = string_ref(r, v);
	return 0;
}

/* Packed or one by one, as all repeated numbers. */
static int read_comments(struct reader *r, const struct field *f, struct err *err)
{
	struct cursor c = part_cursor(r, f->b);

	if (f->wire == WIRE_VARINT)
		return add_comment(r, f->v, err);
	if (f->wire != WIRE_LEN)
		return kind_err(f, err);
	while (cursor_left(&c)) {
		uint64_t v = cursor_uleb(&c);

		if (!cursor_ok(&c))
			return wire_err(&c, err);
		if (add_comment(r, v, err) < 0)
			return -1;
	}
	return 0;
}

/* The first string of the file is the empty one, which is there already. */
static int read_string(struct reader *r, struct bytes b, bool *seen_first, struct err *err)
{
	struct profile *p = r->p;

	if (!*seen_first) {
		*seen_first = true;
		return b.size ? err_set(err, ERR_INVALID, "string 0 is not the empty one") : 0;
	}
	if (!profile_room(p, &p->strings, 1) || p->memory + b.size > p->max_memory)
		return profile_err_memory(p, err);
	p->memory += b.size;
	p->strings.p[p->strings.n++] = arena_str(&p->arena, (struct str){ (const char *)b.p, b.size });
	return 0;
}

static void part_add(struct reader *r, struct part *part, size_t from, const struct cursor *c)
{
	if (!part->end)
		part->first = from;
	part->end = (size_t)(c->p - r->in.p);
}

static int read_number(struct reader *r, const struct field *f, struct err *err)
{
	struct profile *p = r->p;

	if (f->wire != WIRE_VARINT)
		return kind_err(f, err);
	switch (f->number) {
	case PPROF_DROP_FRAMES:
		p->drop_frames = string_ref(r, f->v);
		break;
	case PPROF_KEEP_FRAMES:
		p->keep_frames = string_ref(r, f->v);
		break;
	case PPROF_TIME:
		p->time_ns = (int64_t)f->v;
		break;
	case PPROF_DURATION:
		p->duration_ns = (int64_t)f->v;
		break;
	case PPROF_PERIOD:
		p->period = (int64_t)f->v;
		break;
	case PPROF_DEFAULT_TYPE:
		p->default_type = string_ref(r, f->v);
		break;
	case PPROF_DOC_URL:
		p->doc_url = string_ref(r, f->v);
		break;
	}
	return 0;
}

static int read_field(struct reader *r, const struct field *f, size_t from, const struct cursor *c,
		      bool *seen_string, struct err *err)
{
	switch (f->number) {
	case PPROF_SAMPLE_TYPE:
	case PPROF_SAMPLE:
	case PPROF_MAPPING:
	case PPROF_LOCATION:
	case PPROF_FUNCTION:
	case PPROF_STRING:
	case PPROF_PERIOD_TYPE:
		if (f->wire != WIRE_LEN)
			return kind_err(f, err);
	}
	switch (f->number) {
	case PPROF_SAMPLE_TYPE:
		return read_sample_type(r, f->b, err);
	case PPROF_SAMPLE:
		part_add(r, &r->samples_part, from, c);
		return 0;
	case PPROF_MAPPING:
		return read_mapping(r, f->b, err) < 0 ? err_in(err, "mapping %u", r->mappings.list.n) : 0;
	case PPROF_LOCATION:
		part_add(r, &r->locations_part, from, c);
		return 0;
	case PPROF_FUNCTION:
		return read_function(r, f->b, err) < 0 ? err_in(err, "function %u", r->functions.list.n) : 0;
	case PPROF_STRING:
		return read_string(r, f->b, seen_string, err);
	case PPROF_PERIOD_TYPE:
		return read_type(r, f->b, &r->p->period_type, err) < 0 ? err_in(err, "period type") : 0;
	case PPROF_COMMENT:
		return read_comments(r, f, err);
	default:
		return f->number <= PPROF_DOC_URL ? read_number(r, f, err) : 0;
	}
}

static int read_tables(struct reader *r, struct err *err)
{
	struct cursor c = cursor_of(r->in);
	bool seen_string = false;
	size_t from = 0;
	struct field f;

	while (field_next(&c, &f)) {
		if (read_field(r, &f, from, &c, &seen_string, err) < 0)
			return -1;
		from = (size_t)(c.p - r->in.p);
	}
	if (!cursor_ok(&c))
		return wire_err(&c, err);
	if (r->samples_part.end && !r->p->types.n)
		return err_set(err, ERR_INVALID, "has samples, but no sample types");
	return 0;
}

/* ---- locations ---- */

static int read_line(struct reader *r, struct bytes b, struct err *err)
{
	struct cursor c = part_cursor(r, b);
	struct profile_line line = { 0 };
	uint64_t function = 0;
	struct field f;

	while (field_next(&c, &f)) {
		if (f.number <= 3 && f.wire != WIRE_VARINT)
			return kind_err(&f, err);
		switch (f.number) {
		case 1:
			function = f.v;
			break;
		case 2:
			line.line = (int64_t)f.v;
			break;
		case 3:
			line.column = (int64_t)f.v;
			break;
		}
	}
	if (!cursor_ok(&c))
		return wire_err(&c, err);
	line.function = id_find(&r->functions, function);
	if (line.function == PROFILE_NONE)
		return err_set(err, ERR_INVALID, "function %llu is not in the table",
			       (unsigned long long)function);
	if (!profile_room(r->p, &r->p->lines, 1))
		return profile_err_memory(r->p, err);
	r->p->lines.p[r->p->lines.n++] = line;
	return 0;
}

static int read_location(struct reader *r, struct bytes b, struct err *err)
{
	struct profile_location l = { .mapping = PROFILE_NONE, .first_line = r->p->lines.n };
	struct cursor c = part_cursor(r, b);
	uint64_t id = 0, mapping = 0;
	struct field f;

	while (field_next(&c, &f)) {
		if (f.number <= 5 && f.wire != (f.number == 4 ? WIRE_LEN : WIRE_VARINT))
			return kind_err(&f, err);
		switch (f.number) {
		case 1:
			id = f.v;
			break;
		case 2:
			mapping = f.v;
			break;
		case 3:
			l.addr = f.v;
			break;
		case 4:
			if (read_line(r, f.b, err) < 0)
				return err_in(err, "line %u", r->p->lines.n - l.first_line);
			break;
		case 5:
			l.folded = f.v;
			break;
		}
	}
	if (!cursor_ok(&c))
		return wire_err(&c, err);
	if (mapping) {
		l.mapping = id_find(&r->mappings, mapping);
		if (l.mapping == PROFILE_NONE)
			return err_set(err, ERR_INVALID, "mapping %llu is not in the table",
				       (unsigned long long)mapping);
	}
	l.n_lines = r->p->lines.n - l.first_line;
	if (id_add(r, &r->locations, id, err) < 0)
		return -1;
	if (!profile_room(r->p, &r->p->locations, 1))
		return profile_err_memory(r->p, err);
	r->p->locations.p[r->p->locations.n++] = l;
	return 0;
}

/* Each message of field @number in a part that was seen before. */
static int each_in(struct reader *r, struct part part, uint32_t number, const char *what,
		   int (*fn)(struct reader *r, struct bytes b, struct err *err), struct err *err)
{
	struct cursor c = part_cursor(r, bytes_of(r->in.p + part.first, part.end - part.first));
	struct field f;
	uint32_t n = 0;

	for (; field_next(&c, &f); n += f.number == number)
		if (f.number == number && fn(r, f.b, err) < 0)
			return err_in(err, "%s %u", what, n);
	return 0;
}

/* ---- samples ---- */

static int push_location(struct reader *r, uint64_t id, struct err *err)
{
	uint32_t l = id_find(&r->locations, id);

	if (l == PROFILE_NONE)
		return err_set(err, ERR_INVALID, "location %llu is not in the table", (unsigned long long)id);
	if (r->stack.n == PROFILE_MAX_DEPTH)
		return err_set(err, ERR_LIMIT, "its stack is deeper than %u", PROFILE_MAX_DEPTH);
	if (!profile_room(r->p, &r->stack, 1))
		return profile_err_memory(r->p, err);
	r->stack.p[r->stack.n++] = l;
	return 0;
}

static int push_locations(struct reader *r, struct bytes b, struct err *err)
{
	struct cursor c = part_cursor(r, b);

	while (cursor_left(&c)) {
		uint64_t id = cursor_uleb(&c);

		if (!cursor_ok(&c))
			return wire_err(&c, err);
		if (push_location(r, id, err) < 0)
			return -1;
	}
	return 0;
}

/* The file has the leaf first. */
static uint32_t stack_of(struct reader *r)
{
	uint32_t stack = 0;

	for (uint32_t i = r->stack.n; i-- > 0;)
		stack = profile_add_stack(r->p, stack, r->stack.p[i]);
	return stack;
}

/* Most stacks come again and again, so what was read lately is compared as bytes. */
static int packed_stack(struct reader *r, struct bytes b, uint32_t *ret, struct err *err)
{
	struct seen *s = &r->seen[hash64(b.p, b.size, 0) & (SEEN_SLOTS - 1)];

	if (s->size == b.size && s->stack && memcmp(r->in.p + s->off, b.p, b.size) == 0) {
		*ret = s->stack;
		return 0;
	}
	r->stack.n = 0;
	if (push_locations(r, b, err) < 0)
		return -1;
	*ret = stack_of(r);
	if (r->in.size <= UINT32_MAX)
		*s = (struct seen){ (uint32_t)(b.p - r->in.p), (uint32_t)b.size, *ret };
	return 0;
}

static int read_label(struct reader *r, struct bytes b, struct err *err)
{
	struct cursor c = part_cursor(r, b);
	struct profile_label l = { 0 };
	struct field f;

	while (field_next(&c, &f)) {
		if (f.number <= 4 && f.wire != WIRE_VARINT)
			return kind_err(&f, err);
		switch (f.number) {
		case 1:
			l.key = string_ref(r, f.v);
			break;
		case 2:
			l.str = string_ref(r, f.v);
			break;
		case 3:
			l.num = (int64_t)f.v;
			break;
		case 4:
			l.unit = string_ref(r, f.v);
			break;
		}
	}
	if (!cursor_ok(&c))
		return wire_err(&c, err);
	if (r->string_max >= r->p->strings.n)
		return err_set(err, ERR_INVALID, "string %u is not in the table of %u", r->string_max,
			       r->p->strings.n);
	if (r->labels.n == PROFILE_MAX_LABELS)
		return err_set(err, ERR_LIMIT, "has more than %u labels", PROFILE_MAX_LABELS);
	if (!profile_room(r->p, &r->labels, 1))
		return profile_err_memory(r->p, err);
	r->labels.p[r->labels.n++] = l;
	return 0;
}

/* Into the row of the sample that comes next; @n counts on. */
static int read_values(struct reader *r, const struct field *f, uint32_t *n, struct err *err)
{
	int64_t *row = r->p->values + (size_t)r->p->n_samples * r->p->types.n;
	struct cursor c = part_cursor(r, f->b);

	if (f->wire == WIRE_VARINT) {
		if (*n < r->p->types.n)
			row[*n] = (int64_t)f->v;
		++*n;
		return 0;
	}
	while (cursor_left(&c)) {
		uint64_t v = cursor_uleb(&c);

		if (*n < r->p->types.n)
			row[*n] = (int64_t)v;
		++*n;
	}
	return cursor_ok(&c) ? 0 : wire_err(&c, err);
}

static int read_sample(struct reader *r, struct bytes b, struct err *err)
{
	struct cursor c = part_cursor(r, b);
	struct profile *p = r->p;
	struct bytes packed = { 0 };
	uint32_t n_values = 0, stack = 0;
	struct field f;

	r->stack.n = r->labels.n = 0;
	if (!profile_room_samples(p, 1))
		return profile_err_memory(p, err);
	while (field_next(&c, &f)) {
		int done = 0;

		if (f.number == 1 && f.wire == WIRE_LEN && !packed.p && !r->stack.n) {
			packed = f.b; /* the usual case: all of them at once */
		} else if (f.number == 1 && (f.wire == WIRE_LEN || f.wire == WIRE_VARINT)) {
			if (packed.p && push_locations(r, packed, err) < 0)
				return -1;
			packed = (struct bytes){ 0 };
			done = f.wire == WIRE_LEN ? push_locations(r, f.b, err) : push_location(r, f.v, err);
		} else if (f.number == 2 && (f.wire == WIRE_LEN || f.wire == WIRE_VARINT)) {
			done = read_values(r, &f, &n_values, err);
		} else if (f.number == 3 && f.wire == WIRE_LEN) {
			done = read_label(r, f.b, err) < 0 ? err_in(err, "label %u", r->labels.n) : 0;
		} else if (f.number <= 3) {
			done = kind_err(&f, err);
		}
		if (done < 0)
			return -1;
	}
	if (!cursor_ok(&c))
		return wire_err(&c, err);
	if (n_values != p->types.n)
		return err_set(err, ERR_INVALID, "has %u values; there are %u sample types", n_values,
			       p->types.n);
	if (!packed.size)
		stack = stack_of(r);
	else if (packed_stack(r, packed, &stack, err) < 0)
		return -1;
	p->sample_stack[p->n_samples] = stack;
	p->sample_labels[p->n_samples] = profile_add_labels(p, r->labels.p, r->labels.n);
	p->n_samples++;
	return profile_build_end(p, err);
}

/* ---- all ---- */

static int read_message(struct reader *r, struct err *err)
{
	if (read_tables(r, err) < 0 || ids_end(r, &r->mappings, err) < 0 ||
	    ids_end(r, &r->functions, err) < 0)
		return -1;
	if (r->string_max >= r->p->strings.n)
		return err_set(err, ERR_INVALID, "string %u is referred to and not in the table of %u",
			       r->string_max, r->p->strings.n);
	if (each_in(r, r->locations_part, PPROF_LOCATION, "location", read_location, err) < 0 ||
	    ids_end(r, &r->locations, err) < 0)
		return -1;
	return each_in(r, r->samples_part, PPROF_SAMPLE, "sample", read_sample, err);
}

static int read_plain(struct bytes in, const struct profile_limits *limits, struct profile **ret,
		      struct err *err)
{
	struct reader r = { .p = profile_new(limits), .in = in };
	int done;

	r.mappings.what = "mapping";
	r.functions.what = "function";
	r.locations.what = "location";
	r.seen = mem_zalloc(SEEN_SLOTS * sizeof(*r.seen));
	done = read_message(&r, err);
	ids_done(&r, &r.mappings);
	ids_done(&r, &r.functions);
	ids_done(&r, &r.locations);
	r.p->memory -= (uint64_t)r.stack.room * sizeof(*r.stack.p) +
		       (uint64_t)r.labels.room * sizeof(*r.labels.p);
	free(r.stack.p);
	free(r.labels.p);
	free(r.seen);
	/* It was made of some of the tables only. */
	profile_index_drop(r.p);
	if (done < 0)
		profile_free(r.p);
	else
		*ret = r.p;
	return done;
}

bool profile_is_pprof(struct bytes head)
{
	struct cursor c = cursor_of(head);
	struct field f;

	if (codec_detect(head) == CODEC_GZIP)
		return true;
	/* A message of ours begins with a sample type, or with another table. No text does: their keys are
	 * line feeds and controls, and lengths would have to fit. */
	if (!head.size || (head.p[0] & 7) != WIRE_LEN || head.p[0] >> 3 > PPROF_STRING || !(head.p[0] >> 3))
		return false;
	cursor_uleb(&c);
	if (!cursor_ok(&c))
		return false;
	c = cursor_of(head);
	for (unsigned i = 0; i < 2 && field_next(&c, &f); i++)
		if (f.number > PPROF_DOC_URL)
			return false;
	/* The first bytes may end within a field, but then it is one that has a part of its length here. */
	return head.p[0] != '\n' || (head.size > 1 && head.p[1] < 32 && (head.size < 3 || head.p[2] < 32));
}

int profile_read_pprof(struct bytes in, const struct profile_limits *limits, struct profile **ret,
		       struct err *err)
{
	uint64_t max = limits && limits->max_size ? limits->max_size : PROFILE_MAX_SIZE;
	enum codec_kind kind = codec_detect(in);
	AUTO(buf_done) struct buf plain = { 0 };

	if (!in.size)
		return err_set(err, ERR_INVALID, "is empty");
	/* .lzma has no magic: a message of ours may look like it. */
	if (kind != CODEC_NONE && kind != CODEC_LZMA) {
		if (codec_decode_all(kind, in, max, &plain, err) < 0)
			return -1;
		in = buf_bytes(&plain);
	}
	if (in.size > max)
		return err_set(err, ERR_LIMIT, "is larger than the limit of %llu MiB",
			       (unsigned long long)(max >> 20));
	return read_plain(in, limits, ret, err);
}
