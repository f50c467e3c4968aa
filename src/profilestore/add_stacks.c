/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a profile that comes in, interned: mappings become binaries, addresses those of their files,
 * and each location, function and stack the one that is known already, or a new one.
 *
 * What a mapping tells is where the file lay in memory. From that the place in the file follows, which is the
 * same in every process; the address in the ELF file follows only by the program headers, which nobody needs
 * to have by now.
 */
#include <stdlib.h>
#include "profilestore/add.h"

#define UPPER_HALF ((uint64_t)1 << 63)
#define KERNEL     "[kernel.kallsyms]"

/* What becomes of the addresses of a mapping. */
struct place {
	bool known;
	uint32_t part, runtime_part; /* the second for those that are not in it */
	uint64_t start, limit, add;
};

struct interning {
	struct meta *meta;
	struct profilestore *s;
	const struct profile *p;
	uint32_t *strings, *functions, *locations, *stacks; /* number + 1 */
	struct place *places;                               /* of mappings; the last is for none */
	struct meta_line *lines;
	uint32_t room_lines;
	bool failed;
};

static uint32_t fail(struct interning *x)
{
	x->failed = true;
	return 0;
}

static uint32_t checked(struct interning *x, uint32_t i)
{
	return i == META_FAILED ? fail(x) : i;
}

static uint32_t string_of(struct interning *x, uint32_t i)
{
	if (!x->strings[i])
		x->strings[i] = checked(x, meta_string(x->meta, profile_str(x->p, i))) + 1;
	return x->strings[i] - 1;
}

/* ---- mappings ---- */

/* A vDSO is an image like others. What else is called so has no file. */
static bool is_no_file(struct str f)
{
	if (str_starts(f, STR("[vdso")) || str_starts(f, STR("linux-vdso")))
		return false;
	return !f.size || f.p[0] == '[' || str_starts(f, STR("//anon")) ||
	       str_starts(f, STR("anon_inode:")) || str_starts(f, STR("/memfd:")) ||
	       str_starts(f, STR("/SYSV")) || str_starts(f, STR("/dev/zero"));
}

static enum meta_kind kind_of(const struct profile_mapping *m, struct str file, struct str build_id)
{
	bool upper = m->start >= UPPER_HALF;

	if (str_starts(file, STR(KERNEL)) || str_starts(file, STR("[guest.kernel.kallsyms]")))
		return str_ends(file, STR("]_stext"))                              ? META_STEXT
		       : str_ends(file, STR("]_text")) || (upper && build_id.size) ? META_TEXT
										   : META_RUNTIME;
	/* A kernel's module is relocated as a whole; vmlinux begins with _text. */
	if (upper && file.size && file.p[0] == '[')
		return build_id.size ? META_SECTION : META_RUNTIME;
	if (upper)
		return str_ends(file, STR(".ko")) ? META_SECTION : build_id.size ? META_TEXT : META_RUNTIME;
	if (!build_id.size && is_no_file(file))
		return META_RUNTIME;
	/* Whoever has no mapping to tell of has moved them already. */
	if (!m->start && !m->offset)
		return META_VADDR;
	return META_OFFSET;
}

/* "[kernel.kallsyms]_text" tells where the mapping begins; the file is the same. */
static struct str file_of(struct str f)
{
	return str_starts(f, STR(KERNEL "_")) ? STR(KERNEL) : f;
}

static struct str lower_hex(struct str id, char *out, size_t room)
{
	if (id.size > room)
		return id;
	for (size_t i = 0; i < id.size; i++) {
		char c = id.p[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
			return id;
		out[i] = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
	}
	return (struct str){ out, id.size };
}

static const struct place *place_of(struct interning *x, uint32_t mapping)
{
	const struct profile *p = x->p;
	uint32_t i = mapping == PROFILE_NONE ? p->mappings.n : mapping;
	struct place *place = &x->places[i];
	const struct profile_mapping *m = &p->mappings.p[i];
	struct str file, id;
	struct meta_part part = { .kind = META_RUNTIME };
	char hex[2 * BUILD_ID_MAX];

	if (place->known)
		return place;
	place->known = true;
	if (mapping == PROFILE_NONE) {
		place->part = place->runtime_part = checked(x, meta_part(x->meta, &part));
		return place;
	}
	file = profile_str(p, m->file);
	id = lower_hex(profile_str(p, m->build_id), hex, sizeof(hex));
	part.binary = checked(x, meta_binary(x->meta, file_of(file), id));
	place->runtime_part = checked(x, meta_part(x->meta, &part));
	part.kind = kind_of(m, file, id);
	place->limit = m->limit > m->start ? m->limit : UINT64_MAX;
	switch ((enum meta_kind)part.kind) {
	case META_OFFSET:
		part.offset = m->offset;
		part.size = m->limit > m->start ? m->limit - m->start : 0;
		place->add = m->offset - m->start;
		place->start = m->start;
		break;
	case META_TEXT:
	case META_STEXT:
	case META_SECTION:
		place->add = -m->start;
		place->start = m->start;
		break;
	case META_VADDR:
		place->limit = UINT64_MAX;
		break;
	case META_RUNTIME:
	case META_N_KINDS:
		break;
	}
	place->part = checked(x, meta_part(x->meta, &part));
	return place;
}

/* ---- functions, locations ---- */

static int32_t fits(int64_t v)
{
	return v == (int32_t)v ? (int32_t)v : 0;
}

static uint32_t function_of(struct interning *x, uint32_t i)
{
	const struct profile_function *f = &x->p->functions.p[i];

	if (!x->functions[i]) {
		struct meta_function new = { string_of(x, f->name), string_of(x, f->system_name),
					     string_of(x, f->file), fits(f->start_line) };

		x->functions[i] = checked(x, meta_function(x->meta, &new)) + 1;
	}
	return x->functions[i] - 1;
}

/* The lines in x->lines; true: they are only names. */
static bool lines_of(struct interning *x, const struct profile_location *l, uint16_t n)
{
	bool bare = true;

	if (n > x->room_lines) {
		x->room_lines = MAX((uint32_t)n, 64u);
		x->lines = mem_realloc(x->lines, x->room_lines, sizeof(*x->lines));
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct profile_line *line = &x->p->lines.p[l->first_line + i];

		x->lines[i] = (struct meta_line){ function_of(x, line->function), fits(line->line),
						  fits(line->column) };
		bare &= !x->lines[i].line && !x->p->functions.p[line->function].file;
	}
	return bare;
}

static uint32_t location_of(struct interning *x, uint32_t i)
{
	const struct profile_location *l = &x->p->locations.p[i];
	struct meta_location new = { 0 };
	const struct place *place;
	uint32_t was, binary;
	bool bare, inside;

	if (x->locations[i])
		return x->locations[i] - 1;
	place = place_of(x, l->mapping);
	inside = l->addr >= place->start && l->addr < place->limit;
	new.n_lines = (uint16_t)MIN(l->n_lines, (uint32_t)UINT16_MAX);
	bare = lines_of(x, l, new.n_lines);
	if (x->failed)
		return 0;
	new.part = inside ? place->part : place->runtime_part;
	new.addr = inside ? l->addr + place->add : l->addr;
	binary = meta_part_at(x->meta, new.part)->binary;
	new.flags = (uint16_t)((l->folded ? LOCATION_FOLDED : 0) |
			       (bare && (binary || !new.n_lines) ? LOCATION_BARE : 0));
	was = column_n(&x->meta->locations);
	/* An empty list is one, too: NULL would be those that are in the table. */
	if (!x->lines)
		x->lines = NEW_N(struct meta_line, x->room_lines = 64);
	x->locations[i] = checked(x, meta_location(x->meta, &new, x->lines)) + 1;
	if (new.flags & LOCATION_BARE && !x->failed && x->locations[i] - 1 == was)
		names_added(x->s, binary);
	return x->locations[i] - 1;
}

/* ---- stacks ---- */

/* Callers come before callees: one pass down marks those that are wanted, and one up finds them. */
static void find_stacks(struct interning *x)
{
	const struct profile *p = x->p;

	for (uint32_t i = 0; i < p->n_samples; i++)
		for (uint32_t t = 0; t < p->types.n; t++)
			if (profile_value(p, i, t)) {
				x->stacks[p->sample_stack[i]] = 1;
				break;
			}
	for (uint32_t i = p->stacks.n; i-- > 1;)
		if (x->stacks[i])
			x->stacks[p->stacks.p[i].parent] = 1;
	x->stacks[0] = 0;
	for (uint32_t i = 1; i < p->stacks.n && !x->failed; i++)
		if (x->stacks[i]) {
			uint32_t parent = x->stacks[p->stacks.p[i].parent],
				 location = location_of(x, p->stacks.p[i].location);

			if (!x->failed)
				x->stacks[i] = checked(x, meta_stack(x->meta, parent, location));
		}
}

uint32_t *add_stacks(struct profilestore *s, const struct profile *p, struct err *err)
{
	struct interning x = {
		.meta = &s->meta,
		.s = s,
		.p = p,
		.strings = calloc((size_t)p->strings.n + 1, sizeof(uint32_t)),
		.functions = calloc((size_t)p->functions.n + 1, sizeof(uint32_t)),
		.locations = calloc((size_t)p->locations.n + 1, sizeof(uint32_t)),
		.stacks = calloc((size_t)p->stacks.n + 1, sizeof(uint32_t)),
		.places = calloc((size_t)p->mappings.n + 1, sizeof(struct place)),
	};
	bool memory = x.strings && x.functions && x.locations && x.stacks && x.places;

	if (!memory)
		(void)err_set(err, ERR_LIMIT, "no memory for %u stacks", p->stacks.n);
	else
		find_stacks(&x);
	if (x.failed)
		(void)meta_err_limit(&s->meta, err);
	free(x.strings);
	free(x.functions);
	free(x.locations);
	free(x.places);
	free(x.lines);
	if (memory && !x.failed)
		return x.stacks;
	free(x.stacks);
	return NULL;
}
