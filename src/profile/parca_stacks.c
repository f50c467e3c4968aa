/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of Parca's samples: lists of locations. The agent has each location once in a dictionary, and each stack once
 * among the lists' elements; so both are made once for each profile.
 */
#include "profile/parca_read.h"

#define MAX_LINES 1024u /* of one location */

static void parca_note_memory(struct parca_reader *r)
{
	if (!r->why.kind)
		profile_err_memory(r->room, &r->why);
}

static bool is_too_much(struct parca_reader *r, uint64_t more)
{
	r->n_frames += more;
	if (r->n_frames <= PARCA_MAX_FRAMES)
		return false;
	if (!r->why.kind)
		err_set(&r->why, ERR_LIMIT, "the stacks of the request have more than %u locations",
			(unsigned)PARCA_MAX_FRAMES);
	return true;
}

/* ---- lines ---- */

static uint32_t text_of(struct parca_reader *r, struct arrow_array *a, uint64_t i)
{
	struct str s = arrow_text(a, i);

	return profile_is_late(r->limits.deadline, s.size, &r->why) ? 0 : profile_add_string(r->p, s);
}

/* The agent has names of kernels and interpreters in system_name. */
static uint32_t parca_function(struct parca_reader *r, struct arrow_array *a, uint64_t i)
{
	struct profile_function fn = { 0 };

	if (a && arrow_follow(&a, &i)) {
		fn.system_name = text_of(r, arrow_child(a, STR("system_name")), i);
		fn.name = text_of(r, arrow_child(a, STR("name")), i);
		fn.file = text_of(r, arrow_child(a, STR("filename")), i);
		fn.start_line = (int64_t)arrow_value(arrow_child(a, STR("start_line")), i);
	}
	if (!fn.name)
		fn.name = fn.system_name;
	return profile_add_function(r->p, &fn);
}

static void parca_line(struct parca_reader *r, struct arrow_array *a, uint64_t i)
{
	struct profile_line line = { 0 };

	if (!arrow_follow(&a, &i))
		return;
	line.line = (int64_t)arrow_value(arrow_child(a, STR("line")), i);
	line.column = (int64_t)arrow_value(arrow_child(a, STR("column")), i);
	line.function = parca_function(r, arrow_child(a, STR("function")), i);
	if (!profile_push(r->room, &r->lines, line))
		parca_note_memory(r);
}

/* Null lines: the location is to be named here. */
static void parca_lines(struct parca_reader *r, struct arrow_array *a, uint64_t i)
{
	uint64_t first, n;

	r->lines.n = 0;
	if (!a || !arrow_follow(&a, &i))
		return;
	a = arrow_list(a, i, &first, &n);
	if (n > MAX_LINES) {
		if (!r->why.kind)
			err_set(&r->why, ERR_LIMIT, "a location has more than %u lines", MAX_LINES);
		return;
	}
	if (!n || is_too_much(r, n))
		return;
	for (uint64_t k = 0; k < n && !r->why.kind; k++)
		parca_line(r, a, first + k);
}

/* ---- locations ---- */

static void location_fields(struct parca_reader *r, struct arrow_array *a)
{
	if (a == r->location_array)
		return;
	r->location_array = a;
	r->address = arrow_child(a, STR("address"));
	r->file = arrow_child(a, STR("mapping_file"));
	r->build_id = arrow_child(a, STR("mapping_build_id"));
	r->line_list = arrow_child(a, STR("lines"));
}

/* ARROW_NO_INDEX: null, or no dictionary: then nothing is known of it. */
static uint64_t index_of(const struct arrow_array *a, uint64_t i)
{
	uint64_t index;

	return a && arrow_index(a, i, &index) ? index : ARROW_NO_INDEX;
}

/* Addresses are those of the ELF file: so the mapping has no range. Locations side by side are mostly of one mapping. */
static uint32_t parca_mapping(struct parca_reader *r, uint64_t i)
{
	uint64_t file = index_of(r->file, i), id = index_of(r->build_id, i);
	struct profile_mapping m = { 0 };

	if (file != ARROW_NO_INDEX && id != ARROW_NO_INDEX && r->mapping_profile == r->number &&
	    r->mapping_file == file && r->mapping_id == id)
		return r->mapping;
	m.file = text_of(r, r->file, i);
	m.build_id = text_of(r, r->build_id, i);
	if (!m.file && !m.build_id)
		return PROFILE_NONE;
	r->mapping_profile = r->number;
	r->mapping_file = file;
	r->mapping_id = id;
	return r->mapping = profile_add_mapping(r->p, &m);
}

/* @once: no other location is equal. Without it, or of a null, equal ones are one. */
static uint32_t make_location(struct parca_reader *r, struct arrow_array *a, uint64_t i, bool once)
{
	struct profile_location l = { .mapping = PROFILE_NONE };

	r->lines.n = 0;
	if (arrow_follow(&a, &i)) {
		location_fields(r, a);
		l.mapping = parca_mapping(r, i);
		parca_lines(r, r->line_list, i);
		/* Of a frame of an interpreter the address is a line's number. */
		if (l.mapping != PROFILE_NONE || !r->lines.n)
			l.addr = arrow_value(r->address, i);
	}
	return (once ? profile_append_location : profile_add_location)(r->p, &l, r->lines.p, r->lines.n);
}

/* The location of a null has no entry in the dictionary. */
static uint32_t location_of_null(struct parca_reader *r, struct arrow_array *a, uint64_t i)
{
	if (r->nothing_profile != r->number) {
		r->nothing_profile = r->number;
		r->nothing = make_location(r, a, i, true);
	}
	return r->nothing;
}

/* ---- stacks ---- */

/* Locations of a dictionary: each is made once for the profile. */
static void locations_by_entry(struct parca_reader *r, struct arrow_array *a, uint64_t first, uint32_t n)
{
	uint64_t *entries = r->entries.p;

	arrow_indices(a, first, n, entries);
	for (uint32_t k = 0; k < n; k++) {
		struct parca_made *made;

		if (entries[k] == ARROW_NO_INDEX) {
			r->locations.p[k] = location_of_null(r, a, first + k);
			continue;
		}
		made = &r->made_locations.p[entries[k]];
		if (made->profile != r->number)
			*made = (struct parca_made){ r->number, make_location(r, a, first + k, true), 0 };
		r->locations.p[k] = made->index;
	}
}

/* Locations of their own: of each row once, equal ones are one. */
static void locations_by_row(struct parca_reader *r, struct arrow_array *a, uint64_t first, uint32_t n)
{
	for (uint32_t k = 0; k < n; k++) {
		struct parca_made *made = &r->made_locations.p[first + k];

		if (made->profile != r->number)
			*made = (struct parca_made){ r->number, make_location(r, a, first + k, false), 0 };
		r->locations.p[k] = made->index;
	}
}

/* The leaf comes first. */
static uint32_t make_parca_stack(struct parca_reader *r, struct arrow_array *a, uint64_t first, uint64_t n)
{
	if (n > PROFILE_MAX_DEPTH) {
		if (!r->why.kind)
			err_set(&r->why, ERR_LIMIT, "a stack has more than %u locations", PROFILE_MAX_DEPTH);
		return 0;
	}
	if (is_too_much(r, n))
		return 0;
	if (!profile_extend(r->room, &r->entries, n) || !profile_extend(r->room, &r->locations, n)) {
		parca_note_memory(r);
		return 0;
	}
	(a->dictionary ? locations_by_entry : locations_by_row)(r, a, first, (uint32_t)n);
	return profile_add_stacks(r->p, 0, r->locations.p, (uint32_t)n);
}

uint32_t parca_stack(struct parca_reader *r, uint64_t row)
{
	struct arrow_array *a = r->stacks;
	struct parca_made *made;
	uint64_t first, n;

	if (!arrow_follow(&a, &row))
		return 0;
	a = arrow_list(a, row, &first, &n);
	if (!n)
		return 0;
	if (!profile_extend(r->room, &r->made_stacks, a->n) ||
	    !profile_extend(r->room, &r->made_locations, a->dictionary ? a->dictionary->n : a->n)) {
		parca_note_memory(r);
		return 0;
	}
	made = &r->made_stacks.p[first];
	if (made->profile != r->number || made->n != n)
		*made = (struct parca_made){ r->number, make_parca_stack(r, a, first, n), n };
	return made->index;
}
