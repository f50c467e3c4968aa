/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interning the stacks of a profile: mappings become binaries, addresses those of their files, and each
 * location, function and stack gets the number of an equal entry, or a new one.
 *
 * A mapping tells where the file was in memory. From that the place in the file follows, which is the same in
 * every process; the address in the ELF file follows only with the program headers, which may not be known
 * yet.
 */
#include <errno.h>
#include <stdlib.h>
#include "profile/name.h"
#include "profilestore/add.h"

#define UPPER_HALF ((uint64_t)1 << 63)
#define KERNEL     "[kernel.kallsyms]"

/* Where the addresses of a mapping belong. */
struct location_place {
	bool known;
	uint32_t part, runtime_part; /* the second is for addresses outside of the mapping */
	uint64_t start, limit, add;
};

struct interning {
	struct meta *meta;
	struct profilestore *s;
	const struct profile *p;
	uint32_t *strings, *functions, *locations, *stacks; /* numbers; only of entries in use */
	/* of mappings; the last is for locations without a mapping */
	struct location_place *places;
	struct meta_line *lines;
	size_t room_lines;
	bool failed;
};

static uint32_t stacks_fail(struct interning *x)
{
	x->failed = true;
	return 0;
}

static uint32_t check_numbers(struct interning *x, uint32_t i)
{
	return i == META_FAILED ? stacks_fail(x) : i;
}

/* ---- mappings ---- */

/* A vDSO is an image like others; other names in brackets are not files. */
static bool is_pseudo_file(struct str f)
{
	return !str_starts(f, STR("[vdso")) && !str_starts(f, STR("linux-vdso")) && profile_is_no_file(f);
}

static enum meta_kind mapping_kind(const struct profile_mapping *m, struct str file, struct str build_id)
{
	bool upper = m->start >= UPPER_HALF;

	if (str_starts(file, STR(KERNEL)) || str_starts(file, STR("[guest.kernel.kallsyms]")))
		return str_ends(file, STR("]_stext"))                              ? META_STEXT
		       : str_ends(file, STR("]_text")) || (upper && build_id.size) ? META_TEXT
										   : META_RUNTIME;
	/* A kernel module is relocated as a whole; vmlinux begins with _text. */
	if (upper && file.size && file.p[0] == '[')
		return build_id.size ? META_SECTION : META_RUNTIME;
	if (upper)
		return str_ends(file, STR(".ko")) ? META_SECTION : build_id.size ? META_TEXT : META_RUNTIME;
	if (!build_id.size && is_pseudo_file(file))
		return META_RUNTIME;
	/* A mapping of everything: the profiler has translated the addresses already. */
	if (!m->start && !m->offset)
		return META_VADDR;
	return META_OFFSET;
}

/* "[kernel.kallsyms]_text" tells where the mapping begins; the file is the same. */
static struct str stacks_file_of(struct str f)
{
	return str_starts(f, STR(KERNEL "_")) ? STR(KERNEL) : f;
}

static struct str lower_hex(struct str id, char *out, size_t room)
{
	struct build_id go;

	if (build_id_set_go(&go, id) && 2u * go.size < room)
		return str_of(build_id_hex(&go, out));
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

static const struct location_place *location_place(struct interning *x, uint32_t mapping)
{
	const struct profile *p = x->p;
	uint32_t i = mapping == PROFILE_NONE ? p->mappings.n : mapping;
	struct location_place *place = &x->places[i];
	const struct profile_mapping *m;
	struct str file, id;
	struct meta_part part = { .kind = META_RUNTIME };
	char hex[BUILD_ID_HEX_SIZE];

	if (place->known)
		return place;
	place->known = true;
	if (mapping == PROFILE_NONE) {
		place->part = place->runtime_part = check_numbers(x, meta_part(x->meta, &part));
		return place;
	}
	m = &p->mappings.p[i];
	file = profile_str(p, m->file);
	id = lower_hex(profile_str(p, m->build_id), hex, sizeof(hex));
	part.binary = check_numbers(x, meta_binary(x->meta, stacks_file_of(file), id));
	place->runtime_part = check_numbers(x, meta_part(x->meta, &part));
	part.kind = mapping_kind(m, file, id);
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
	place->part = check_numbers(x, meta_part(x->meta, &part));
	return place;
}

/*
 * ---- tables ----
 *
 * A look-up in a hash table waits for memory two or three times. So entries are looked up in blocks: all are
 * hashed and their memory is prefetched, and only then the first is looked up.
 */

#define BLOCK  32u
#define WANTED 1u /* marks an entry in use, in place of its number + 1 */

/* The next entries in use, from *at on; returns how many. */
static unsigned next_block(const uint32_t *wanted, uint32_t n, uint32_t *at, uint32_t ret[BLOCK])
{
	unsigned k = 0;

	for (; *at < n && k < BLOCK; (*at)++)
		if (wanted[*at])
			ret[k++] = *at;
	return k;
}

static void find_strings(struct interning *x)
{
	uint32_t block[BLOCK], at = 0;
	uint64_t hashes[BLOCK];

	for (unsigned n; !x->failed && (n = next_block(x->strings, x->p->strings.n, &at, block));) {
		for (unsigned i = 0; i < n; i++)
			hashes[i] = meta_hash_string(x->meta, profile_str(x->p, block[i]));
		meta_fetch_strings(x->meta, hashes, n);
		for (unsigned i = 0; i < n; i++)
			x->strings[block[i]] = check_numbers(
				x, meta_string(x->meta, profile_str(x->p, block[i])));
	}
}

static struct meta_function intern_function(const struct interning *x, uint32_t i)
{
	const struct profile_function *f = &x->p->functions.p[i];

	return (struct meta_function){ x->strings[f->name], x->strings[f->system_name], x->strings[f->file],
				       meta_line_number(f->start_line) };
}

static void find_functions(struct interning *x)
{
	uint32_t block[BLOCK], at = 0;
	struct meta_function v[BLOCK];
	uint64_t hashes[BLOCK];

	for (unsigned n; !x->failed && (n = next_block(x->functions, x->p->functions.n, &at, block));) {
		for (unsigned i = 0; i < n; i++) {
			v[i] = intern_function(x, block[i]);
			hashes[i] = meta_hash_function(x->meta, &v[i]);
		}
		meta_fetch_functions(x->meta, hashes, n);
		for (unsigned i = 0; i < n; i++)
			x->functions[block[i]] = check_numbers(x, meta_function(x->meta, &v[i]));
	}
}

/* The lines of a location, into @ret. true: they have function names only. */
static bool intern_lines(const struct interning *x, const struct profile_location *l, uint16_t n,
			 struct meta_line *ret)
{
	bool bare = true;

	for (uint32_t i = 0; i < n; i++) {
		const struct profile_line *line = &x->p->lines.p[l->first_line + i];

		ret[i] = (struct meta_line){ x->functions[line->function], meta_line_number(line->line),
					     meta_line_number(line->column) };
		bare &= !ret[i].line && !x->p->functions.p[line->function].file;
	}
	return bare;
}

static struct meta_location intern_location(struct interning *x, uint32_t i, struct meta_line *lines)
{
	const struct profile_location *l = &x->p->locations.p[i];
	const struct location_place *place = location_place(x, l->mapping);
	bool inside = l->addr >= place->start && l->addr < place->limit;
	struct meta_location new = { .addr = inside ? l->addr + place->add : l->addr,
				     .part = inside ? place->part : place->runtime_part,
				     .n_lines = (uint16_t)MIN(l->n_lines, (uint32_t)UINT16_MAX) };
	bool bare = intern_lines(x, l, new.n_lines, lines);

	if (l->folded)
		new.flags |= LOCATION_FOLDED;
	if (bare && (!new.n_lines || meta_part_at(x->meta, new.part)->binary))
		new.flags |= LOCATION_BARE;
	return new;
}

static void find_location(struct interning *x, uint32_t i, const struct meta_location *l,
			  const struct meta_line *lines)
{
	uint32_t was = column_n(&x->meta->locations);

	x->locations[i] = check_numbers(x, meta_location(x->meta, l, lines));
	if (l->flags & LOCATION_BARE && !x->failed && x->locations[i] == was)
		names_added(x->s, meta_part_at(x->meta, l->part)->binary);
}

/* Reserve room for the lines of a block, one after the other. */
static void room_for_lines(struct interning *x, const uint32_t *block, unsigned n)
{
	size_t want = 1;

	for (unsigned i = 0; i < n; i++)
		want += MIN(x->p->locations.p[block[i]].n_lines, (uint32_t)UINT16_MAX);
	if (want > x->room_lines) {
		x->room_lines = want * 2;
		x->lines = mem_realloc(x->lines, x->room_lines, sizeof(*x->lines));
	}
}

static void find_locations(struct interning *x)
{
	uint32_t block[BLOCK], at = 0;
	struct meta_location v[BLOCK];
	uint64_t hashes[BLOCK];

	for (unsigned n; !x->failed && (n = next_block(x->locations, x->p->locations.n, &at, block));) {
		struct meta_line *lines;

		room_for_lines(x, block, n);
		lines = x->lines;
		for (unsigned i = 0; i < n; i++) {
			v[i] = intern_location(x, block[i], lines);
			hashes[i] = meta_hash_location(x->meta, &v[i], lines);
			lines += v[i].n_lines;
		}
		if (x->failed)
			break;
		meta_fetch_locations(x->meta, hashes, n);
		lines = x->lines;
		for (unsigned i = 0; i < n; i++) {
			find_location(x, block[i], &v[i], lines);
			lines += v[i].n_lines;
		}
	}
}

/* ---- stacks ---- */

/* The stacks in use, by depth: those of one depth do not depend on each other. */
static uint32_t *by_depth(const struct interning *x, uint32_t *ret_n)
{
	const struct profile *p = x->p;
	uint32_t *depth = mem_try(2 * (size_t)p->stacks.n * sizeof(*depth)), *order;
	uint32_t *at, deepest = 0, n = 0;

	if (!depth)
		return NULL;
	order = depth + p->stacks.n;
	depth[0] = 0;
	for (uint32_t i = 1; i < p->stacks.n; i++) {
		depth[i] = depth[p->stacks.p[i].parent] + 1;
		deepest = MAX(deepest, depth[i]);
	}
	at = calloc((size_t)deepest + 2, sizeof(*at));
	if (!at) {
		free(depth);
		return NULL;
	}
	for (uint32_t i = 1; i < p->stacks.n; i++)
		at[depth[i] + 1] += x->stacks[i] != 0;
	for (uint32_t i = 1; i < deepest + 2; i++)
		at[i] += at[i - 1];
	for (uint32_t i = 1; i < p->stacks.n; i++)
		if (x->stacks[i])
			order[at[depth[i]]++] = i, n++;
	free(at);
	memmove(depth, order, n * sizeof(*order));
	*ret_n = n;
	return depth;
}

/* A depth may have fewer than a block. */
static bool find_stacks(struct interning *x)
{
	uint64_t hashes[BLOCK];
	uint32_t n_all;
	AUTO(mem_freep) uint32_t *order = by_depth(x, &n_all);

	if (!order)
		return false;
	for (uint32_t from = 0, n; !x->failed && from < n_all; from += n) {
		for (n = 0; n < BLOCK && from + n < n_all; n++) {
			const struct profile_stack *st = &x->p->stacks.p[order[from + n]];

			/* Its caller is in this block, and has no number yet. */
			if (st->parent && x->stacks[st->parent] == UINT32_MAX)
				break;
			hashes[n] = meta_hash_stack(x->meta, x->stacks[st->parent],
						    x->locations[st->location]);
			x->stacks[order[from + n]] = UINT32_MAX;
		}
		meta_fetch_stacks(x->meta, hashes, n);
		for (uint32_t i = 0; i < n && !x->failed; i++) {
			const struct profile_stack *st = &x->p->stacks.p[order[from + i]];

			x->stacks[order[from + i]] = check_numbers(
				x, meta_stack(x->meta, x->stacks[st->parent], x->locations[st->location]));
		}
	}
	return true;
}

/*
 * Mark everything that leads to a sample with a value. Callers come before callees: one pass down marks them
 * all.
 */
static void mark_in_use(struct interning *x)
{
	const struct profile *p = x->p;

	for (uint32_t i = 0; i < p->n_samples; i++)
		for (uint32_t t = 0; t < p->types.n; t++)
			if (profile_value(p, i, t)) {
				x->stacks[p->sample_stack[i]] = WANTED;
				break;
			}
	for (uint32_t i = p->stacks.n; i-- > 1;)
		if (x->stacks[i]) {
			x->stacks[p->stacks.p[i].parent] = WANTED;
			x->locations[p->stacks.p[i].location] = WANTED;
		}
	x->stacks[0] = 0;
	for (uint32_t i = 0; i < p->locations.n; i++)
		for (uint32_t k = 0; x->locations[i] && k < p->locations.p[i].n_lines; k++)
			x->functions[p->lines.p[p->locations.p[i].first_line + k].function] = WANTED;
	for (uint32_t i = 0; i < p->functions.n; i++)
		if (x->functions[i]) {
			x->strings[p->functions.p[i].name] = WANTED;
			x->strings[p->functions.p[i].system_name] = WANTED;
			x->strings[p->functions.p[i].file] = WANTED;
		}
	x->strings[0] = 0;
}

uint32_t *add_stacks(struct profilestore *s, const struct profile *p, struct err *err)
{
	struct interning x = {
		.meta = s->meta,
		.s = s,
		.p = p,
		.strings = calloc((size_t)p->strings.n + 1, sizeof(uint32_t)),
		.functions = calloc((size_t)p->functions.n + 1, sizeof(uint32_t)),
		.locations = calloc((size_t)p->locations.n + 1, sizeof(uint32_t)),
		.stacks = calloc((size_t)p->stacks.n + 1, sizeof(uint32_t)),
		.places = calloc((size_t)p->mappings.n + 1, sizeof(struct location_place)),
	};
	bool memory = x.strings && x.functions && x.locations && x.stacks && x.places;

	if (memory) {
		mark_in_use(&x);
		find_strings(&x);
		find_functions(&x);
		find_locations(&x);
		memory = x.failed || find_stacks(&x);
	}
	if (!memory)
		(void)err_os(err, ENOMEM, "%u stacks", p->stacks.n);
	else if (x.failed)
		(void)meta_err_limit(s->meta, err);
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
