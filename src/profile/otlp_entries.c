/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP's dictionary, and its entries in the profile that is being made. */
#include "profile/otlp_read.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const table_names[OTLP_N_TABLES] = {
	[OTLP_MAPPINGS] = "mapping", [OTLP_LOCATIONS] = "location", [OTLP_FUNCTIONS] = "function",
	[OTLP_LINKS] = "link",       [OTLP_STRINGS] = "string",     [OTLP_ATTRIBUTES] = "attribute",
	[OTLP_STACKS] = "stack",
};

void otlp_note(struct otlp_reader *r, enum err_kind kind, const char *fmt, ...)
{
	char text[160];
	va_list ap;

	if (r->why.kind)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(&r->why, kind, "%s", text);
}

void otlp_end(struct otlp_reader *r, const struct cursor *c, const char *what)
{
	if (!cursor_ok(c))
		otlp_note(r, ERR_INVALID, "a %s is no protobuf message", what);
}

void otlp_note_memory(struct otlp_reader *r)
{
	if (!r->why.kind)
		profile_err_memory(r->room, &r->why);
}

void otlp_add_numbers(struct otlp_reader *r, const struct proto_field *f, otlp_numbers *list)
{
	struct cursor c = cursor_of(f->b);
	bool fits = true;

	if (f->wire != PROTO_LEN)
		fits = profile_push(r->room, list, f->v);
	while (fits && cursor_left(&c))
		fits = profile_push(r->room, list, proto_varint(&c));
	if (!fits)
		otlp_note_memory(r);
	otlp_end(r, &c, "list");
}

/* ---- tables ---- */

static int dictionary_tables(struct otlp_reader *r, struct bytes in, struct err *err)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (f.number >= OTLP_N_TABLES)
			continue;
		if (f.wire != PROTO_LEN)
			return err_set(err, ERR_INVALID,
				       "its field %u is of wire type %u: another revision of OTLP?", f.number,
				       f.wire);
		if (!profile_push(r->room, &r->tables[f.number], f.b))
			return profile_err_memory(r->room, err);
	}
	return cursor_ok(&c) ? 0 : err_set(err, ERR_INVALID, "is no protobuf message");
}

int otlp_dictionary(struct otlp_reader *r, struct bytes in, struct err *err)
{
	if (dictionary_tables(r, in, err) < 0)
		return err_in(err, "the dictionary");
	for (int t = 1; t < OTLP_N_TABLES; t++)
		if (!profile_extend(r->room, &r->made[t], MAX(r->tables[t].n, 1u)))
			return profile_err_memory(r->room, err);
	return 0;
}

struct bytes otlp_bytes(struct otlp_reader *r, enum otlp_table t, uint64_t i)
{
	if (!i)
		return (struct bytes){ 0 };
	if (i < r->tables[t].n)
		return profile_is_late(r->limits.deadline, r->tables[t].p[i].size, &r->why)
			       ? (struct bytes){ 0 }
			       : r->tables[t].p[i];
	otlp_note(r, ERR_INVALID, "there is no %s %llu, the dictionary has %u", table_names[t],
		  (unsigned long long)i, r->tables[t].n);
	return (struct bytes){ 0 };
}

struct str otlp_text(struct otlp_reader *r, uint64_t i)
{
	struct bytes b = otlp_bytes(r, OTLP_STRINGS, i);

	return (struct str){ (const char *)b.p, b.size };
}

/* ---- entries ---- */

uint32_t otlp_string(struct otlp_reader *r, uint64_t i)
{
	uint32_t index;

	if (otlp_known(r, OTLP_STRINGS, i, &index))
		return index;
	return otlp_made(r, OTLP_STRINGS, i, profile_add_string(r->p, otlp_text(r, i)));
}

/* The file's identity of the best kind. */
static void mapping_identity(struct otlp_reader *r, struct profile_mapping *m)
{
	static const struct str kinds[] = { OTLP_BUILD_ID_GNU, OTLP_BUILD_ID_GO, OTLP_BUILD_ID_HASH };
	size_t best = ARRAY_SIZE(kinds);

	for (uint32_t i = 0; i < r->list.n && !r->why.kind; i++) {
		struct otlp_attribute a;
		size_t kind = 0;

		otlp_attribute(r, r->list.p[i], &a);
		while (kind < best && !str_eq(a.key, kinds[kind]))
			kind++;
		if (kind < best && a.value.text.size) {
			best = kind;
			m->build_id = profile_add_string(r->p, a.value.text);
		}
	}
}

static uint32_t otlp_mapping(struct otlp_reader *r, uint64_t i)
{
	struct profile_mapping m = { 0 };
	struct proto_field f;
	struct cursor c;
	uint32_t index;

	if (otlp_known(r, OTLP_MAPPINGS, i, &index))
		return index;
	c = cursor_of(otlp_bytes(r, OTLP_MAPPINGS, i));
	if (!i || i >= r->tables[OTLP_MAPPINGS].n)
		return PROFILE_NONE;
	r->list.n = 0;
	while (proto_next(&c, &f)) {
		switch (f.number) {
		case OTLP_MAPPING_START:
			m.start = f.v;
			break;
		case OTLP_MAPPING_LIMIT:
			m.limit = f.v;
			break;
		case OTLP_MAPPING_OFFSET:
			m.offset = f.v;
			break;
		case OTLP_MAPPING_FILE:
			m.file = otlp_string(r, f.v);
			break;
		case OTLP_MAPPING_ATTRIBUTES:
			otlp_add_numbers(r, &f, &r->list);
			break;
		}
	}
	otlp_end(r, &c, "mapping");
	mapping_identity(r, &m);
	return otlp_made(r, OTLP_MAPPINGS, i, profile_add_mapping(r->p, &m));
}

static uint32_t otlp_function(struct otlp_reader *r, uint64_t i)
{
	struct profile_function fn = { 0 };
	struct proto_field f;
	struct cursor c;
	uint32_t index;

	if (otlp_known(r, OTLP_FUNCTIONS, i, &index))
		return index;
	c = cursor_of(otlp_bytes(r, OTLP_FUNCTIONS, i));
	while (proto_next(&c, &f)) {
		if (f.number == OTLP_FUNCTION_NAME)
			fn.name = otlp_string(r, f.v);
		else if (f.number == OTLP_FUNCTION_SYSTEM_NAME)
			fn.system_name = otlp_string(r, f.v);
		else if (f.number == OTLP_FUNCTION_FILE)
			fn.file = otlp_string(r, f.v);
		else if (f.number == OTLP_FUNCTION_LINE)
			fn.start_line = (int64_t)f.v;
	}
	otlp_end(r, &c, "function");
	return otlp_made(r, OTLP_FUNCTIONS, i, profile_add_function(r->p, &fn));
}

static void add_line(struct otlp_reader *r, struct bytes in)
{
	struct cursor c = cursor_of(in);
	struct profile_line line = { 0 };
	uint64_t function = 0;
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (f.number == OTLP_LINE_FUNCTION)
			function = f.v;
		else if (f.number == OTLP_LINE_LINE)
			line.line = (int64_t)f.v;
		else if (f.number == OTLP_LINE_COLUMN)
			line.column = (int64_t)f.v;
	}
	otlp_end(r, &c, "line");
	line.function = otlp_function(r, function);
	if (!profile_push(r->room, &r->lines, line))
		otlp_note_memory(r);
}

static uint32_t otlp_location(struct otlp_reader *r, uint64_t i)
{
	struct profile_location l = { .mapping = PROFILE_NONE };
	struct proto_field f;
	struct cursor c;
	uint32_t index;

	if (otlp_known(r, OTLP_LOCATIONS, i, &index))
		return index;
	c = cursor_of(otlp_bytes(r, OTLP_LOCATIONS, i));
	r->lines.n = 0;
	while (proto_next(&c, &f)) {
		if (f.number == OTLP_LOCATION_MAPPING)
			l.mapping = otlp_mapping(r, f.v);
		else if (f.number == OTLP_LOCATION_ADDRESS)
			l.addr = f.v;
		else if (f.number == OTLP_LOCATION_LINES)
			add_line(r, f.b);
	}
	otlp_end(r, &c, "location");
	/* A dictionary has each once; one that has not costs but memory. */
	return otlp_made(r, OTLP_LOCATIONS, i, profile_append_location(r->p, &l, r->lines.p, r->lines.n));
}

static bool otlp_add_frame(struct otlp_reader *r, uint64_t location)
{
	if (r->locations.n == PROFILE_MAX_DEPTH || r->n_frames == OTLP_MAX_FRAMES) {
		otlp_note(r, ERR_LIMIT, "its stacks have more than %u locations, or %u in one",
			  (unsigned)OTLP_MAX_FRAMES, PROFILE_MAX_DEPTH);
		return false;
	}
	r->n_frames++;
	if (!profile_push(r->room, &r->locations, otlp_location(r, location)))
		otlp_note_memory(r);
	return !r->why.kind;
}

/* Locations of a stack, packed or not. */
static bool otlp_add_frames(struct otlp_reader *r, const struct proto_field *f)
{
	struct cursor c = cursor_of(f->b);
	bool fits = true;

	if (f->wire != PROTO_LEN)
		fits = otlp_add_frame(r, f->v);
	while (fits && cursor_left(&c))
		fits = otlp_add_frame(r, proto_varint(&c));
	otlp_end(r, &c, "list");
	return fits;
}

/* The leaf comes first. */
uint32_t otlp_stack(struct otlp_reader *r, uint64_t i)
{
	struct proto_field f;
	struct cursor c;
	uint32_t index;

	if (otlp_known(r, OTLP_STACKS, i, &index))
		return index;
	c = cursor_of(otlp_bytes(r, OTLP_STACKS, i));
	r->locations.n = 0;
	while (proto_next(&c, &f))
		if (f.number == OTLP_STACK_LOCATIONS)
			if (!otlp_add_frames(r, &f))
				return 0;
	otlp_end(r, &c, "stack");
	index = profile_add_stacks(r->p, 0, r->locations.p, r->locations.n);
	return otlp_made(r, OTLP_STACKS, i, index);
}
