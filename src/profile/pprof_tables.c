/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of profile.proto: sample types, mappings, functions, strings, locations with their lines; and
 * the numbers that occur once in a profile.
 */
#include "profile/pprof_read.h"

#define BIT(n) (1u << (n))

static int pprof_read_type(struct pprof_reader *r, struct bytes b, struct profile_type *ret, struct err *err)
{
	uint64_t v[3];

	if (pprof_numbers(r, b, 2, BIT(1) | BIT(2), v, err) < 0)
		return -1;
	*ret = (struct profile_type){ (uint32_t)v[1], (uint32_t)v[2] };
	return 0;
}

static int read_sample_type(struct pprof_reader *r, struct bytes b, struct err *err)
{
	struct profile *p = r->p;
	struct profile_type t;

	if (p->types.n == PROFILE_MAX_TYPES)
		return err_set(err, ERR_LIMIT, "has more than %u sample types", PROFILE_MAX_TYPES);
	if (pprof_read_type(r, b, &t, err) < 0)
		return err_in(err, "sample type %u", p->types.n);
	return profile_push(p, &p->types, t) ? 0 : profile_err_memory(p, err);
}

static int pprof_read_mapping(struct pprof_reader *r, struct bytes b, struct err *err)
{
	struct profile_mapping m;
	uint64_t v[11];

	if (pprof_numbers(r, b, 10, BIT(5) | BIT(6), v, err) < 0 ||
	    pprof_id_add(r, &r->mappings, v[1], err) < 0)
		return -1;
	m = (struct profile_mapping){ .start = v[2],
				      .limit = v[3],
				      .offset = v[4],
				      .file = (uint32_t)v[5],
				      .build_id = (uint32_t)v[6] };
	for (unsigned i = 7; i <= 10; i++)
		if (v[i])
			m.flags |= BIT(i - 7);
	return profile_push(r->p, &r->p->mappings, m) ? 0 : profile_err_memory(r->p, err);
}

static int pprof_read_function(struct pprof_reader *r, struct bytes b, struct err *err)
{
	struct profile_function fn;
	uint64_t v[6];

	if (pprof_numbers(r, b, 5, BIT(2) | BIT(3) | BIT(4), v, err) < 0 ||
	    pprof_id_add(r, &r->functions, v[1], err) < 0)
		return -1;
	fn = (struct profile_function){ (uint32_t)v[2], (uint32_t)v[3], (uint32_t)v[4], (int64_t)v[5] };
	return profile_push(r->p, &r->p->functions, fn) ? 0 : profile_err_memory(r->p, err);
}

static int add_comment(struct pprof_reader *r, uint64_t v, struct err *err)
{
	return profile_push(r->p, &r->p->comments, pprof_string(r, v)) ? 0 : profile_err_memory(r->p, err);
}

/* Packed or one by one, as all repeated numbers. */
static int read_comments(struct pprof_reader *r, const struct proto_field *f, struct err *err)
{
	struct cursor c = pprof_cursor(r, f->b);

	if (f->wire == PROTO_VARINT)
		return add_comment(r, f->v, err);
	if (f->wire != PROTO_LEN)
		return pprof_err_kind(f->number, f->wire, err);
	while (cursor_left(&c)) {
		uint64_t v = cursor_uleb(&c);

		if (!cursor_ok(&c))
			return pprof_err_wire(&c, err);
		if (add_comment(r, v, err) < 0)
			return -1;
	}
	return 0;
}

/* The first string of the file is the empty one, which the table has already. */
static int pprof_read_string(struct pprof_reader *r, struct bytes b, bool *seen_first, struct err *err)
{
	struct profile *p = r->p;

	if (!*seen_first) {
		*seen_first = true;
		return b.size ? err_set(err, ERR_INVALID, "string 0 is not the empty one") : 0;
	}
	if (!profile_room(p, &p->strings, 1) || !profile_charge(p, PROFILE_STRING_SIZE(b.size)))
		return profile_err_memory(p, err);
	p->strings.p[p->strings.n++] = arena_str(&p->arena, (struct str){ (const char *)b.p, b.size });
	return 0;
}

static void part_include(struct pprof_reader *r, struct part *part, size_t from, const struct cursor *c)
{
	if (!part->end)
		part->first = from;
	part->n++;
	part->end = (size_t)(c->p - r->in.p);
}

static int pprof_read_number(struct pprof_reader *r, const struct proto_field *f, struct err *err)
{
	struct profile *p = r->p;

	if (f->wire != PROTO_VARINT)
		return pprof_err_kind(f->number, f->wire, err);
	switch (f->number) {
	case PPROF_DROP_FRAMES:
		p->drop_frames = pprof_string(r, f->v);
		break;
	case PPROF_KEEP_FRAMES:
		p->keep_frames = pprof_string(r, f->v);
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
		p->default_type = pprof_string(r, f->v);
		break;
	case PPROF_DOC_URL:
		p->doc_url = pprof_string(r, f->v);
		break;
	}
	return 0;
}

static int pprof_read_field(struct pprof_reader *r, const struct proto_field *f, size_t from,
			    const struct cursor *c, bool *seen_string, struct err *err)
{
	switch (f->number) {
	case PPROF_SAMPLE_TYPE:
	case PPROF_SAMPLE:
	case PPROF_MAPPING:
	case PPROF_LOCATION:
	case PPROF_FUNCTION:
	case PPROF_STRING:
	case PPROF_PERIOD_TYPE:
		if (f->wire != PROTO_LEN)
			return pprof_err_kind(f->number, f->wire, err);
	}
	switch (f->number) {
	case PPROF_SAMPLE_TYPE:
		return read_sample_type(r, f->b, err);
	case PPROF_SAMPLE:
		part_include(r, &r->samples_part, from, c);
		return 0;
	case PPROF_MAPPING:
		return pprof_read_mapping(r, f->b, err) < 0 ? err_in(err, "mapping %u", r->mappings.list.n)
							    : 0;
	case PPROF_LOCATION:
		part_include(r, &r->locations_part, from, c);
		return 0;
	case PPROF_FUNCTION:
		return pprof_read_function(r, f->b, err) < 0 ? err_in(err, "function %u", r->functions.list.n)
							     : 0;
	case PPROF_STRING:
		return pprof_read_string(r, f->b, seen_string, err);
	case PPROF_PERIOD_TYPE:
		return pprof_read_type(r, f->b, &r->p->period_type, err) < 0 ? err_in(err, "period type") : 0;
	case PPROF_COMMENT:
		return read_comments(r, f, err);
	default:
		return f->number <= PPROF_DOC_URL ? pprof_read_number(r, f, err) : 0;
	}
}

int pprof_read_tables(struct pprof_reader *r, struct err *err)
{
	struct cursor c = cursor_of(r->in);
	bool seen_string = false;
	size_t from = 0;
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (pprof_read_field(r, &f, from, &c, &seen_string, err) < 0)
			return -1;
		from = (size_t)(c.p - r->in.p);
	}
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID,
			       "is a pprof profile that is damaged or cut short: no whole field at offset "
			       "%zu of %zu",
			       from, r->in.size);
	if (r->samples_part.end && !r->p->types.n)
		return err_set(err, ERR_INVALID, "has samples, but no sample types");
	if (!seen_string)
		return err_set(err, ERR_INVALID,
			       "is a pprof profile that is damaged or cut short: it has no strings");
	return 0;
}

/* ---- locations ---- */

static int pprof_read_line(struct pprof_reader *r, struct bytes b, struct err *err)
{
	struct profile_line line;
	uint64_t v[4];

	if (pprof_numbers(r, b, 3, 0, v, err) < 0)
		return -1;
	line = (struct profile_line){ pprof_id_find(&r->functions, v[1]), (int64_t)v[2], (int64_t)v[3] };
	if (line.function == PROFILE_NONE)
		return err_set(err, ERR_INVALID, "function %llu is not in the table",
			       (unsigned long long)v[1]);
	return profile_push(r->p, &r->p->lines, line) ? 0 : profile_err_memory(r->p, err);
}

int pprof_read_location(struct pprof_reader *r, struct bytes b, struct err *err)
{
	struct profile_location l = { .mapping = PROFILE_NONE, .first_line = r->p->lines.n };
	struct cursor c = pprof_cursor(r, b);
	uint64_t v[6] = { 0 };
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (f.number > 5)
			continue;
		if (f.wire != (f.number == 4 ? PROTO_LEN : PROTO_VARINT))
			return pprof_err_kind(f.number, f.wire, err);
		v[f.number] = f.v;
		if (f.number == 4 && pprof_read_line(r, f.b, err) < 0)
			return err_in(err, "line %u", r->p->lines.n - l.first_line);
	}
	if (!cursor_ok(&c))
		return pprof_err_wire(&c, err);
	if (v[2]) {
		l.mapping = pprof_id_find(&r->mappings, v[2]);
		if (l.mapping == PROFILE_NONE)
			return err_set(err, ERR_INVALID, "mapping %llu is not in the table",
				       (unsigned long long)v[2]);
	}
	l.addr = v[3];
	l.folded = v[5];
	l.n_lines = r->p->lines.n - l.first_line;
	if (pprof_id_add(r, &r->locations, v[1], err) < 0)
		return -1;
	return profile_push(r->p, &r->p->locations, l) ? 0 : profile_err_memory(r->p, err);
}
