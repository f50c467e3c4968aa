/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interning: each string, function, binary, location and stack is stored once, and found by one look-up in a
 * hash table. Hashes are seeded, so that no input can choose its collisions. All of this runs in the writer's
 * thread; readers see new entries at once.
 */
#include "profilestore/meta_internal.h"

#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>
#include "base/vec.h"

#define STRING_CHUNK KIB(64)

struct meta_string_chunk {
	struct meta_string_chunk *next;
	char text[];
};

int meta_err_limit(const struct meta *m, struct err *err)
{
	return err_set(err, ERR_LIMIT, "the metadata store has reached its limit of %llu MiB of memory",
		       (unsigned long long)(m->max_memory >> 20));
}

/* ---- hash tables ---- */

#define SLOTS_MIN  256u
#define GROW_BLOCK 32u

/* The entries are anywhere in memory, and so are their new slots: each is a cache miss, so many are made at once. */
static void slots_move(const struct meta *m, const struct slots *from, struct slots *to, struct interned x)
{
	uint64_t room = slots_room(from), hashes[GROW_BLOCK];
	uint32_t block[GROW_BLOCK];

	for (uint64_t k = 0; k < room;) {
		unsigned n = 0;

		for (; k < room && n < GROW_BLOCK; k++) {
			uint32_t i = slots_at(from, (uint32_t)k);

			if (!i)
				continue;
			block[n++] = i - 1;
			__builtin_prefetch(column_at(x.c, i - 1));
		}
		for (unsigned j = 0; j < n; j++) {
			hashes[j] = x.hash_of(m, block[j]);
			__builtin_prefetch(slots_place(to, (uint32_t)hashes[j] & to->mask), 1);
		}
		for (unsigned j = 0; j < n; j++)
			slots_add(to, hashes[j], block[j]);
	}
}

bool intern_grow(struct meta *m, struct slots *h, uint32_t i, struct interned x)
{
	uint64_t was = slots_room(h), room = MAX(was, SLOTS_MIN), size;
	bool wide = h->size == SLOTS_WIDE || i >= SLOTS_NARROW_END;
	struct slots new;

	/* A table whose slots become wide only has as many as before. */
	if (was && slots_is_crowded(h))
		room = was * 2;
	size = room * (wide ? SLOTS_WIDE : SLOTS_NARROW) - was * h->size;
	if (room > UINT32_MAX)
		return false;
	if (!meta_take_memory(m, size)) {
		atomic_store(&m->lacked, size + (m->ceiling ? m->max_memory - m->ceiling : 0));
		return false;
	}
	if (!slots_start(&new, room, wide))
		return false;
	slots_move(m, h, &new, x);
	free(h->v);
	*h = new;
	return true;
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
	struct slots *h = &m->by_string;
	struct str *new;
	uint32_t at, i;

	if (!s.size)
		return 0;
	if (!intern_reserve(m, h, &m->strings, hash_of_string_at))
		return META_FAILED;
	if (SLOTS_FIND(h, hash, at, i, str_eq(meta_str(m, i), s)))
		return i;
	new = meta_take_memory(m, s.size) ? column_push(m, &m->strings) : NULL;
	if (!new)
		return META_FAILED;
	new->p = keep_text(m, s);
	new->size = s.size;
	return new->p ? intern_put(h, at, &m->strings) : META_FAILED;
}

/* ---- functions ---- */

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
	struct slots *h = &m->by_function;
	struct meta_function *new;
	uint32_t at, i;

	if (!intern_reserve(m, h, &m->functions, hash_of_function_at))
		return META_FAILED;
	if (SLOTS_FIND(h, meta_hash_function(m, f), at, i, meta_function_eq(meta_function_at(m, i), f)))
		return i;
	new = column_push(m, &m->functions);
	if (!new)
		return META_FAILED;
	*new = *f;
	return intern_put(h, at, &m->functions);
}

/* ---- binaries ---- */

/*
 * The state of naming of a binary (names_internal.h), about: a struct named_binary, its list of wanted locations, and its
 * place in the map with its key. It is more than all else that a binary of one location has.
 */
#define NAMING_MEMORY 544u

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
	struct slots *h = &m->by_binary;
	struct meta_binary *new;
	uint32_t at, i, f, id;

	if (!intern_reserve(m, h, &m->binaries, hash_binary))
		return META_FAILED;
	if (SLOTS_FIND(h, hash_of_binary(m, file, build_id), at, i, binary_eq(m, i, file, build_id)))
		return i;
	f = meta_string(m, file);
	id = meta_string(m, build_id);
	new = f == META_FAILED || id == META_FAILED || !meta_take_memory(m, NAMING_MEMORY)
		      ? NULL
		      : column_push(m, &m->binaries);
	if (!new)
		return META_FAILED;
	new->file = f;
	new->build_id = id;
	return intern_put(h, at, &m->binaries);
}

uint32_t meta_binary_again(struct meta *m, uint32_t i)
{
	const struct meta_binary *b = meta_binary_at(m, i);
	struct meta_binary *new = meta_take_memory(m, NAMING_MEMORY) ? column_push(m, &m->binaries) : NULL;

	if (!new)
		return META_FAILED;
	new->file = b->file;
	new->build_id = b->build_id;
	return column_publish(&m->binaries);
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
	struct slots *h = &m->by_part;
	struct meta_part *new;
	uint32_t at, i;

	if (!intern_reserve(m, h, &m->parts, hash_part))
		return META_FAILED;
	if (SLOTS_FIND(h, hash_of_part(m, p), at, i, part_eq(meta_part_at(m, i), p)))
		return i;
	new = column_push(m, &m->parts);
	if (!new)
		return META_FAILED;
	*new = *p;
	return intern_put(h, at, &m->parts);
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
	slots_put(&m->by_stack, at, i);
	return true;
}

uint32_t meta_stack(struct meta *m, uint32_t parent, uint32_t location)
{
	struct slots *h = &m->by_stack;
	struct meta_stack *new;
	uint32_t at, i;

	if (!intern_reserve(m, h, &m->stacks, hash_of_stack_at))
		return META_FAILED;
	if (SLOTS_FIND(h, meta_hash_stack(m, parent, location), at, i, ({
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
	struct slots *h = &m->by_stack;
	struct meta_stack *new;
	uint32_t at, other, n = column_n(&m->stacks);

	if (parent >= i || !intern_room(m, h, MAX(i, n), (struct interned){ &m->stacks, hash_of_stack_at }))
		return false;
	if (SLOTS_FIND(h, meta_hash_stack(m, parent, location), at, other, ({
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
	const struct slots *h = &m->by_string;

	FETCH(h, &m->strings, hashes, n);
	for (size_t k = 0; h->mask && k < n; k++) {
		uint32_t i = slots_at(h, (uint32_t)hashes[k] & h->mask);

		if (i)
			__builtin_prefetch(meta_str(m, i - 1).p);
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
	m->lines.entry_size = sizeof(struct packed_line);
	m->long_lines.entry_size = sizeof(struct long_line);
	m->binaries.entry_size = sizeof(struct meta_binary);
	m->parts.entry_size = sizeof(struct meta_part);
	m->locations.entry_size = sizeof(struct packed_location);
	m->words.entry_size = sizeof(uint64_t);
	m->shifts.entry_size = sizeof(uint64_t);
	m->stacks.entry_size = sizeof(struct meta_stack);
	/*
	 * The entries with number 0. Allocating the first chunks of the columns cannot fail, or nothing
	 * works.
	 */
	*(struct str *)column_next(&m->strings) = STR("");
	column_publish(&m->strings);
	column_next(&m->stacks);
	column_publish(&m->stacks);
	column_next(&m->shifts);
	column_publish(&m->shifts);
	meta_function(m, &(struct meta_function){ 0 });
	meta_binary(m, STR(""), STR(""));
	meta_part(m, &(struct meta_part){ .kind = META_RUNTIME });
}

void meta_done(struct meta *m)
{
	struct column *columns[] = { &m->strings,   &m->functions, &m->lines,      &m->binaries, &m->parts,
				     &m->locations, &m->stacks,    &m->long_lines, &m->words,    &m->shifts };
	struct slots *hashes[] = { &m->by_string,   &m->by_function, &m->by_binary, &m->by_part,
				   &m->by_location, &m->by_stack,    &m->by_shift };

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		column_done(columns[i]);
	for (size_t i = 0; i < ARRAY_SIZE(hashes); i++)
		free(hashes[i]->v);
	holes_done(&m->holes);
	free(m->reused.v);
	while (m->chunk) {
		struct meta_string_chunk *c = m->chunk;

		m->chunk = c->next;
		free(c);
	}
}
