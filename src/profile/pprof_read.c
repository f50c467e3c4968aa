/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading pprof's profile.proto.
 *
 * The message is read in three passes: tables that refer to nothing (mappings, functions, strings), then
 * locations, then samples, since a file may have them in any order and mostly has the samples first. The
 * later passes cover only the part of the message where these were seen.
 */
#include "profile/pprof_read.h"

#include <stdlib.h>

/* Recent stacks: as many slots as the message can have samples, within these limits. */
#define SEEN_MIN    (1u << 6)
#define SEEN_MAX    (1u << 14)
#define SAMPLE_SIZE 32u /* bytes of a usual sample */

/* Call fn() for each message of a field in a part. */
static int each_field(struct pprof_reader *r, struct part part, uint32_t number, const char *what,
		      int (*fn)(struct pprof_reader *r, struct bytes b, struct err *err), struct err *err)
{
	struct cursor c = pprof_cursor(r, bytes_of(r->in.p + part.first, part.end - part.first));
	struct proto_field f;
	uint32_t n = 0;

	for (; proto_next(&c, &f); n += f.number == number)
		if (f.number == number && fn(r, f.b, err) < 0)
			return err_in(err, "%s %u", what, n);
	return 0;
}

/* ---- samples ---- */

static int pprof_push_location(struct pprof_reader *r, uint64_t id, struct err *err)
{
	uint32_t l = pprof_id_find(&r->locations, id);

	if (l == PROFILE_NONE)
		return err_set(err, ERR_INVALID, "location %llu is not in the table", (unsigned long long)id);
	if (r->stack.n == PROFILE_MAX_DEPTH)
		return err_set(err, ERR_LIMIT, "its stack is deeper than %u", PROFILE_MAX_DEPTH);
	return profile_push(r->p, &r->stack, l) ? 0 : profile_err_memory(r->p, err);
}

static int push_locations(struct pprof_reader *r, struct bytes b, struct err *err)
{
	struct cursor c = pprof_cursor(r, b);

	/* Each takes a byte or more: so there is room for the usual ones. */
	if (!profile_room(r->p, &r->stack, MIN(b.size, (size_t)PROFILE_MAX_DEPTH)))
		return profile_err_memory(r->p, err);
	while (cursor_left(&c)) {
		uint64_t id = proto_varint(&c);
		uint32_t l = pprof_id_find(&r->locations, id);

		if (!cursor_ok(&c))
			return pprof_err_wire(&c, err);
		if (l != PROFILE_NONE && r->stack.n < MIN(r->stack.room, PROFILE_MAX_DEPTH))
			r->stack.p[r->stack.n++] = l;
		else if (pprof_push_location(r, id, err) < 0)
			return -1;
	}
	return 0;
}

/* Most stacks repeat, so recent ones are compared as bytes. */
static int packed_stack(struct pprof_reader *r, struct bytes b, uint32_t *ret, struct err *err)
{
	struct seen *s = &r->seen[hash64(b.p, b.size, 0) & r->seen_mask];

	if (s->size == b.size && s->stack && memcmp(r->in.p + s->off, b.p, b.size) == 0) {
		*ret = s->stack;
		return 0;
	}
	r->stack.n = 0;
	if (push_locations(r, b, err) < 0)
		return -1;
	*ret = profile_add_stacks(r->p, 0, r->stack.p, r->stack.n);
	if (r->in.size <= UINT32_MAX)
		*s = (struct seen){ (uint32_t)(b.p - r->in.p), (uint32_t)b.size, *ret };
	return 0;
}

static int read_label(struct pprof_reader *r, struct bytes b, struct err *err)
{
	struct profile_label l;
	uint64_t v[5];

	if (pprof_numbers(r, b, 4, 1 << 1 | 1 << 2 | 1 << 4, v, err) < 0)
		return -1;
	if (r->string_max >= r->p->strings.n)
		return err_set(err, ERR_INVALID, "string %u is not in the table of %u", r->string_max,
			       r->p->strings.n);
	if (r->labels.n == PROFILE_MAX_LABELS)
		return err_set(err, ERR_LIMIT, "has more than %u labels", PROFILE_MAX_LABELS);
	l = (struct profile_label){
		.key = (uint32_t)v[1], .str = (uint32_t)v[2], .unit = (uint32_t)v[4], .num = (int64_t)v[3]
	};
	return profile_push(r->p, &r->labels, l) ? 0 : profile_err_memory(r->p, err);
}

/* Into the row of the next sample; @n advances. */
static int read_values(struct pprof_reader *r, const struct proto_field *f, uint32_t *n, struct err *err)
{
	int64_t *row = r->p->values + (size_t)r->p->n_samples * r->p->types.n;
	struct cursor c = pprof_cursor(r, f->b);

	if (f->wire == PROTO_VARINT) {
		if (*n < r->p->types.n)
			row[*n] = (int64_t)f->v;
		++*n;
		return 0;
	}
	while (cursor_left(&c)) {
		uint64_t v = proto_varint(&c);

		if (*n < r->p->types.n)
			row[*n] = (int64_t)v;
		++*n;
	}
	return cursor_ok(&c) ? 0 : pprof_err_wire(&c, err);
}

static int read_sample(struct pprof_reader *r, struct bytes b, struct err *err)
{
	struct cursor c = pprof_cursor(r, b);
	struct profile *p = r->p;
	struct bytes packed = { 0 };
	uint32_t n_values = 0, stack = 0;
	struct proto_field f;

	r->stack.n = r->labels.n = 0;
	if (!profile_room_samples(p, 1))
		return profile_err_memory(p, err);
	while (proto_next(&c, &f)) {
		int done = 0;

		if (f.number == 1 && f.wire == PROTO_LEN && !packed.p && !r->stack.n) {
			packed = f.b; /* the usual case: all of them at once */
		} else if (f.number == 1 && (f.wire == PROTO_LEN || f.wire == PROTO_VARINT)) {
			if (packed.p && push_locations(r, packed, err) < 0)
				return -1;
			packed = (struct bytes){ 0 };
			done = f.wire == PROTO_LEN ? push_locations(r, f.b, err)
						   : pprof_push_location(r, f.v, err);
		} else if (f.number == 2 && (f.wire == PROTO_LEN || f.wire == PROTO_VARINT)) {
			done = read_values(r, &f, &n_values, err);
		} else if (f.number == 3 && f.wire == PROTO_LEN) {
			done = read_label(r, f.b, err) < 0 ? err_in(err, "label %u", r->labels.n) : 0;
		} else if (f.number <= 3) {
			done = pprof_err_kind(f.number, f.wire, err);
		}
		if (done < 0)
			return -1;
	}
	if (!cursor_ok(&c))
		return pprof_err_wire(&c, err);
	if (n_values != p->types.n)
		return err_set(err, ERR_INVALID, "has %u values; there are %u sample types", n_values,
			       p->types.n);
	if (!packed.size)
		stack = profile_add_stacks(r->p, 0, r->stack.p, r->stack.n);
	else if (packed_stack(r, packed, &stack, err) < 0)
		return -1;
	p->sample_stack[p->n_samples] = stack;
	p->sample_labels[p->n_samples] = profile_add_labels(p, r->labels.p, r->labels.n);
	p->n_samples++;
	return profile_build_end(p, err);
}

/* ---- all ---- */

/* For all locations and samples at once. A sample has a byte or more of each type. */
static bool pprof_make_room(struct pprof_reader *r)
{
	struct part s = r->samples_part;

	return profile_room(r->p, &r->p->locations, r->locations_part.n) &&
	       profile_room(r->p, &r->locations.list, r->locations_part.n) &&
	       profile_room_samples(r->p,
				    (uint32_t)MIN((uint64_t)s.n, (s.end - s.first) / MAX(r->p->types.n, 1u)));
}

static int read_message(struct pprof_reader *r, struct err *err)
{
	if (pprof_read_tables(r, err) < 0 || pprof_ids_end(r, &r->mappings, err) < 0 ||
	    pprof_ids_end(r, &r->functions, err) < 0)
		return -1;
	if (r->string_max >= r->p->strings.n)
		return err_set(err, ERR_INVALID, "string %u is not in the table of %u", r->string_max,
			       r->p->strings.n);
	if (!pprof_make_room(r))
		return profile_err_memory(r->p, err);
	if (each_field(r, r->locations_part, PPROF_LOCATION, "location", pprof_read_location, err) < 0 ||
	    pprof_ids_end(r, &r->locations, err) < 0)
		return -1;
	return each_field(r, r->samples_part, PPROF_SAMPLE, "sample", read_sample, err);
}

static int read_plain(struct bytes in, const struct profile_limits *limits, struct profile **ret,
		      struct err *err)
{
	struct pprof_reader r = { .p = profile_new(limits), .in = in };
	uint32_t n_seen = SEEN_MIN;
	int done;

	r.mappings.what = "mapping";
	r.functions.what = "function";
	r.locations.what = "location";
	while (n_seen < SEEN_MAX && n_seen < in.size / SAMPLE_SIZE)
		n_seen *= 2;
	r.seen = mem_zalloc(n_seen * sizeof(*r.seen));
	r.seen_mask = n_seen - 1;
	done = read_message(&r, err);
	pprof_ids_done(&r, &r.mappings);
	pprof_ids_done(&r, &r.functions);
	pprof_ids_done(&r, &r.locations);
	profile_table_free(r.p, &r.stack);
	profile_table_free(r.p, &r.labels);
	free(r.seen);
	/* The index has only some of the tables. */
	profile_index_drop(r.p);
	if (done < 0)
		profile_free(r.p);
	else
		*ret = r.p;
	return done;
}

int profile_read_pprof(struct bytes in, const struct profile_limits *limits, struct profile **ret,
		       struct err *err)
{
	struct buf plain = { 0 };
	int r = profile_unpack(&in, limits, &plain, err);

	if (r == 0)
		r = read_plain(in, limits, ret, err);
	profile_unpack_done(limits, &plain);
	return r;
}
