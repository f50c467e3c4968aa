/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interning: each string, function, binary, location and stack is stored once, and found by one look-up in a
 * hash table. Hashes are seeded, so that no input can choose its collisions. All of this runs in the writer's
 * thread; readers see new entries at once.
 */
#include "profilestore/meta.h"

#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>
#include "base/vec.h"

#define SLOTS_MIN    256u
#define STRING_CHUNK KIB(64)

struct meta_string_chunk {
	struct meta_string_chunk *next;
	char text[];
};

static bool meta_take_memory(struct meta *m, uint64_t size)
{
	if (atomic_load_explicit(&m->memory, memory_order_relaxed) + size >
	    (m->ceiling ? m->ceiling : m->max_memory))
		return false;
	atomic_fetch_add_explicit(&m->memory, size, memory_order_relaxed);
	return true;
}

int meta_err_limit(const struct meta *m, struct err *err)
{
	return err_set(err, ERR_LIMIT, "the metadata store has reached its limit of %llu MiB of memory",
		       (unsigned long long)(m->max_memory >> 20));
}

/* ---- hash tables ---- */

static bool intern_reserve(struct meta *m, struct hash_index *h,
			   uint64_t (*hash_of)(const struct meta *m, uint32_t i))
{
	uint64_t was = hash_index_room(h), room = was ? was * 2 : SLOTS_MIN;

	if (!hash_index_is_full(h))
		return true;
	return room <= UINT32_MAX && meta_take_memory(m, (room - was) * sizeof(*h->slots)) &&
	       HASH_INDEX_GROW(h, room, i, hash_of(m, i));
}

/* Publish the new entry of @c to readers, and add it to the hash table. */
static uint32_t intern_put(struct hash_index *h, uint32_t at, struct column *c)
{
	uint32_t i = column_publish(c);

	hash_index_put(h, at, i);
	return i;
}

static void *column_push(struct meta *m, struct column *c)
{
	return meta_take_memory(m, c->entry_size) ? column_next(c) : NULL;
}

/* ---- strings ---- */

uint64_t meta_hash_string(const struct meta *m, struct str s)
{
	return hash64(s.p, s.size, m->seed);
}

static uint64_t hash_of_string_at(const struct meta *m, uint32_t i)
{
	return meta_hash_string(m, meta_str(m, i));
}

static const char *keep_text(struct meta *m, struct str s)
{
	char *p = m->text;

	if ((size_t)(m->text_end - m->text) < s.size) {
		size_t size = MAX(s.size, STRING_CHUNK);
		struct meta_string_chunk *c = malloc(sizeof(*c) + size);

		if (!c)
			return NULL;
		c->next = m->chunk;
		m->chunk = c;
		p = c->text;
		m->text_end = p + size;
	}
	memcpy(p, s.p, s.size);
	m->text = p + s.size;
	return p;
}

uint32_t meta_string(struct meta *m, struct str s)
{
	uint64_t hash = meta_hash_string(m, s);
	struct hash_index *h = &m->by_string;
	struct str *new;
	uint32_t at, i;

	if (!s.size)
		return 0;
	if (!intern_reserve(m, h, hash_of_string_at))
		return META_FAILED;
	if (HASH_INDEX_FIND(h, hash, at, i, str_eq(meta_str(m, i), s)))
		return i;
	new = meta_take_memory(m, s.size) ? column_push(m, &m->strings) : NULL;
	if (!new)
		return META_FAILED;
	new->p = keep_text(m, s);
	new->size = s.size;
	return new->p ? intern_put(h, at, &m->strings) : META_FAILED;
}

/* ---- functions, lines ---- */

uint64_t meta_hash_function(const struct meta *m, const struct meta_function *f)
{
	return hash_mix(hash_mix((uint64_t)f->name << 32 | f->system_name, m->seed) ^ f->file,
			(uint32_t)f->start_line);
}

static uint64_t hash_of_function_at(const struct meta *m, uint32_t i)
{
	return meta_hash_function(m, meta_function_at(m, i));
}

static bool meta_function_eq(const struct meta_function *a, const struct meta_function *b)
{
	return a->name == b->name && a->system_name == b->system_name && a->file == b->file &&
	       a->start_line == b->start_line;
}

uint32_t meta_function(struct meta *m, const struct meta_function *f)
{
	struct hash_index *h = &m->by_function;
	struct meta_function *new;
	uint32_t at, i;

	if (!intern_reserve(m, h, hash_of_function_at))
		return META_FAILED;
	if (HASH_INDEX_FIND(h, meta_hash_function(m, f), at, i, meta_function_eq(meta_function_at(m, i), f)))
		return i;
	new = column_push(m, &m->functions);
	if (!new)
		return META_FAILED;
	*new = *f;
	return intern_put(h, at, &m->functions);
}

uint32_t meta_lines(struct meta *m, const struct meta_line *lines, size_t n)
{
	uint32_t first = column_n(&m->lines);

	for (size_t i = 0; i < n; i++) {
		struct meta_line *new = column_push(m, &m->lines);

		if (!new)
			return META_FAILED;
		*new = lines[i];
		column_publish(&m->lines);
	}
	return first;
}

/* ---- binaries ---- */

static uint64_t hash_of_binary(const struct meta *m, struct str file, struct str build_id)
{
	return build_id.size ? hash64(build_id.p, build_id.size, m->seed)
			     : hash64(file.p, file.size, ~m->seed);
}

static uint64_t hash_binary(const struct meta *m, uint32_t i)
{
	const struct meta_binary *b = meta_binary_at(m, i);

	return hash_of_binary(m, meta_str(m, b->file), meta_str(m, b->build_id));
}

static bool binary_eq(const struct meta *m, uint32_t i, struct str file, struct str build_id)
{
	const struct meta_binary *b = meta_binary_at(m, i);

	return str_eq(meta_str(m, b->build_id), build_id) &&
	       (build_id.size || str_eq(meta_str(m, b->file), file));
}

uint32_t meta_binary(struct meta *m, struct str file, struct str build_id)
{
	struct hash_index *h = &m->by_binary;
	struct meta_binary *new;
	uint32_t at, i, f, id;

	if (!intern_reserve(m, h, hash_binary))
		return META_FAILED;
	if (HASH_INDEX_FIND(h, hash_of_binary(m, file, build_id), at, i, binary_eq(m, i, file, build_id)))
		return i;
	f = meta_string(m, file);
	id = meta_string(m, build_id);
	new = f == META_FAILED || id == META_FAILED ? NULL : column_push(m, &m->binaries);
	if (!new)
		return META_FAILED;
	new->file = f;
	new->build_id = id;
	return intern_put(h, at, &m->binaries);
}

static uint64_t hash_of_part(const struct meta *m, const struct meta_part *p)
{
	return hash_mix(hash_mix((uint64_t)p->binary << 8 | p->kind, m->seed), p->offset);
}

static uint64_t hash_part(const struct meta *m, uint32_t i)
{
	return hash_of_part(m, meta_part_at(m, i));
}

static bool part_eq(const struct meta_part *a, const struct meta_part *b)
{
	return a->binary == b->binary && a->kind == b->kind && a->offset == b->offset;
}

uint32_t meta_part(struct meta *m, const struct meta_part *p)
{
	struct hash_index *h = &m->by_part;
	struct meta_part *new;
	uint32_t at, i;

	if (!intern_reserve(m, h, hash_part))
		return META_FAILED;
	if (HASH_INDEX_FIND(h, hash_of_part(m, p), at, i, part_eq(meta_part_at(m, i), p)))
		return i;
	new = column_push(m, &m->parts);
	if (!new)
		return META_FAILED;
	*new = *p;
	return intern_put(h, at, &m->parts);
}

/* ---- locations ---- */

/*
 * A location is identified by its binary, its address and the lines that it came with; not by the part of the
 * binary, since two mappings of different sizes may hold the same code.
 */
static uint64_t hash_begin(const struct meta *m, const struct meta_location *l)
{
	const struct meta_part *p = meta_part_at(m, l->part);

	return hash_mix(hash_mix(l->addr, m->seed) ^ (uint64_t)p->binary << 8 ^ p->kind,
			(uint64_t)l->n_lines << 1 | (l->flags & LOCATION_FOLDED));
}

static uint64_t hash_line(uint64_t h, const struct meta_line *l)
{
	return hash_mix(h ^ l->function, (uint64_t)(uint32_t)l->line << 32 | (uint32_t)l->column);
}

/* The given lines; if none are given they are in the table already. */
static const struct meta_line *line_of(const struct meta *m, const struct meta_location *l,
				       const struct meta_line *lines, uint32_t k)
{
	return lines ? &lines[k] : meta_line_at(m, l->first_line + k);
}

uint64_t meta_hash_location(const struct meta *m, const struct meta_location *l,
			    const struct meta_line *lines)
{
	uint64_t h = hash_begin(m, l);

	for (uint32_t k = 0; k < l->n_lines; k++)
		h = hash_line(h, line_of(m, l, lines, k));
	return h;
}

static uint64_t hash_of_location_at(const struct meta *m, uint32_t i)
{
	return meta_hash_location(m, meta_location_at(m, i), NULL);
}

static bool meta_location_eq(const struct meta *m, uint32_t i, const struct meta_location *l,
			     const struct meta_line *lines)
{
	const struct meta_location *o = meta_location_at(m, i);
	const struct meta_part *a, *b;

	if (o->addr != l->addr || o->n_lines != l->n_lines || (o->flags ^ l->flags) & LOCATION_FOLDED)
		return false;
	a = meta_part_at(m, o->part);
	b = meta_part_at(m, l->part);
	if (a->binary != b->binary || a->kind != b->kind)
		return false;
	for (uint32_t k = 0; k < l->n_lines; k++) {
		const struct meta_line *x = meta_line_at(m, o->first_line + k), *y = line_of(m, l, lines, k);

		if (x->function != y->function || x->line != y->line || x->column != y->column)
			return false;
	}
	return true;
}

uint32_t meta_location(struct meta *m, const struct meta_location *l, const struct meta_line *lines)
{
	struct hash_index *h = &m->by_location;
	uint64_t hash = meta_hash_location(m, l, lines);
	struct meta_location *new;
	struct meta_binary *b;
	uint32_t at, i, first;

	if (!intern_reserve(m, h, hash_of_location_at))
		return META_FAILED;
	if (HASH_INDEX_FIND(h, hash, at, i, meta_location_eq(m, i, l, lines)))
		return i;
	first = lines ? meta_lines(m, lines, l->n_lines) : l->first_line;
	new = first == META_FAILED ? NULL : column_push(m, &m->locations);
	if (!new)
		return META_FAILED;
	b = meta_binary_at(m, meta_binary_of(m, l));
	*new = (struct meta_location){ .addr = l->addr,
				       .part = l->part,
				       .first_line = first,
				       .n_lines = l->n_lines,
				       .flags = l->flags,
				       .next = atomic_load_explicit(&b->last_location,
								    memory_order_relaxed) };
	i = intern_put(h, at, &m->locations);
	atomic_store_explicit(&b->last_location, i + 1, memory_order_release);
	atomic_fetch_add_explicit(&b->n_locations, 1, memory_order_relaxed);
	if (l->flags & LOCATION_BARE)
		atomic_fetch_add_explicit(&b->n_bare, 1, memory_order_relaxed);
	return i;
}

/* ---- stacks ---- */

uint64_t meta_hash_stack(const struct meta *m, uint32_t parent, uint32_t location)
{
	return hash_mix((uint64_t)parent << 32 | location, m->seed);
}

static uint64_t hash_of_stack_at(const struct meta *m, uint32_t i)
{
	const struct meta_stack *s = meta_stack_at(m, i);

	return meta_hash_stack(m, s->parent, s->location);
}

/*
 * No reader looks at the entry of a free number: no profile in its snapshot, and no stack, refers to it.
 */
static bool fill_hole(struct meta *m, uint32_t i, struct meta_stack stack, uint32_t at)
{
	if (!meta_take_memory(m, m->stacks.entry_size))
		return false;
	*(struct meta_stack *)column_at(&m->stacks, i) = stack;
	holes_del(&m->holes, i);
	VEC_PUSH(m->reused.v, m->reused.n, m->reused.room) = i;
	hash_index_put(&m->by_stack, at, i);
	return true;
}

uint32_t meta_stack(struct meta *m, uint32_t parent, uint32_t location)
{
	struct hash_index *h = &m->by_stack;
	struct meta_stack *new;
	uint32_t at, i;

	if (!intern_reserve(m, h, hash_of_stack_at))
		return META_FAILED;
	if (HASH_INDEX_FIND(h, meta_hash_stack(m, parent, location), at, i, ({
				    const struct meta_stack *s = meta_stack_at(m, i);

				    s->parent == parent && s->location == location;
			    })))
		return i;
	/* A caller has a smaller number than its callees. */
	i = holes_next(&m->holes, parent + 1);
	if (i != HOLES_NONE)
		return fill_hole(m, i, (struct meta_stack){ parent, location }, at) ? i : META_FAILED;
	new = column_push(m, &m->stacks);
	if (!new)
		return META_FAILED;
	*new = (struct meta_stack){ parent, location };
	return intern_put(h, at, &m->stacks);
}

bool meta_stacks_skip(struct meta *m, uint32_t n)
{
	uint32_t from = column_n(&m->stacks);

	if (n > COLUMN_MAX_ENTRIES - from || !column_skip(&m->stacks, from + n))
		return false;
	for (uint32_t i = from; i < from + n; i++)
		if (!holes_add(&m->holes, i))
			return false;
	return true;
}

bool meta_stack_put(struct meta *m, uint32_t i, uint32_t parent, uint32_t location)
{
	struct hash_index *h = &m->by_stack;
	struct meta_stack *new;
	uint32_t at, other, n = column_n(&m->stacks);

	if (parent >= i || !intern_reserve(m, h, hash_of_stack_at))
		return false;
	if (HASH_INDEX_FIND(h, meta_hash_stack(m, parent, location), at, other, ({
				    const struct meta_stack *s = meta_stack_at(m, other);

				    s->parent == parent && s->location == location;
			    })))
		return false;
	if (i < n)
		return holes_has(&m->holes, i) &&
		       fill_hole(m, i, (struct meta_stack){ parent, location }, at);
	if (!meta_stacks_skip(m, i - n))
		return false;
	new = column_push(m, &m->stacks);
	if (!new)
		return false;
	*new = (struct meta_stack){ parent, location };
	intern_put(h, at, &m->stacks);
	return true;
}

/* ---- asking for memory ---- */

/* The slot may belong to another entry: then the prefetch was of no use. */
#define FETCH(h, column, hashes, n)                                                          \
	({                                                                                   \
		for (size_t k_ = 0; (h)->mask && k_ < (n); k_++)                             \
			__builtin_prefetch(&(h)->slots[(uint32_t)(hashes)[k_] & (h)->mask]); \
		for (size_t k_ = 0; (h)->mask && k_ < (n); k_++) {                           \
			uint32_t i_ = (h)->slots[(uint32_t)(hashes)[k_] & (h)->mask];        \
			if (i_)                                                              \
				__builtin_prefetch(column_at((column), i_ - 1));             \
		}                                                                            \
	})

void meta_fetch_functions(const struct meta *m, const uint64_t *hashes, size_t n)
{
	FETCH(&m->by_function, &m->functions, hashes, n);
}

void meta_fetch_stacks(const struct meta *m, const uint64_t *hashes, size_t n)
{
	FETCH(&m->by_stack, &m->stacks, hashes, n);
}

void meta_fetch_strings(const struct meta *m, const uint64_t *hashes, size_t n)
{
	const struct hash_index *h = &m->by_string;

	FETCH(h, &m->strings, hashes, n);
	for (size_t k = 0; h->mask && k < n; k++) {
		uint32_t i = h->slots[(uint32_t)hashes[k] & h->mask];

		if (i)
			__builtin_prefetch(meta_str(m, i - 1).p);
	}
}

void meta_fetch_locations(const struct meta *m, const uint64_t *hashes, size_t n)
{
	const struct hash_index *h = &m->by_location;

	FETCH(h, &m->locations, hashes, n);
	for (size_t k = 0; h->mask && k < n; k++) {
		uint32_t i = h->slots[(uint32_t)hashes[k] & h->mask];
		const struct meta_location *l = i ? meta_location_at(m, i - 1) : NULL;

		if (l && l->n_lines)
			__builtin_prefetch(meta_line_at(m, l->first_line));
	}
}

/* ---- all of it ---- */

void meta_init(struct meta *m, uint64_t max_memory)
{
	memset(m, 0, sizeof(*m));
	m->max_memory = max_memory;
	if (getrandom(&m->seed, sizeof(m->seed), GRND_NONBLOCK) != sizeof(m->seed))
		m->seed = (uint64_t)clock_mono_ns() ^ (uint64_t)getpid() << 32;
	m->strings.entry_size = sizeof(struct str);
	m->functions.entry_size = sizeof(struct meta_function);
	m->lines.entry_size = sizeof(struct meta_line);
	m->binaries.entry_size = sizeof(struct meta_binary);
	m->parts.entry_size = sizeof(struct meta_part);
	m->locations.entry_size = sizeof(struct meta_location);
	m->stacks.entry_size = sizeof(struct meta_stack);
	/*
	 * The entries with number 0. Allocating the first chunks of the columns cannot fail, or nothing
	 * works.
	 */
	*(struct str *)column_next(&m->strings) = STR("");
	column_publish(&m->strings);
	column_next(&m->stacks);
	column_publish(&m->stacks);
	meta_function(m, &(struct meta_function){ 0 });
	meta_binary(m, STR(""), STR(""));
	meta_part(m, &(struct meta_part){ .kind = META_RUNTIME });
}

void meta_done(struct meta *m)
{
	struct column *columns[] = { &m->strings, &m->functions, &m->lines, &m->binaries,
				     &m->parts,   &m->locations, &m->stacks };
	struct hash_index *hashes[] = { &m->by_string, &m->by_function, &m->by_binary,
					&m->by_part,   &m->by_location, &m->by_stack };

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		column_done(columns[i]);
	for (size_t i = 0; i < ARRAY_SIZE(hashes); i++)
		free(hashes[i]->slots);
	holes_done(&m->holes);
	free(m->reused.v);
	while (m->chunk) {
		struct meta_string_chunk *c = m->chunk;

		m->chunk = c->next;
		free(c);
	}
}
