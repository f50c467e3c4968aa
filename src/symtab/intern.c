/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings, files and functions, each kept once.
 *
 * Hashes have a random seed, which the author of a crafted input cannot know. Ids follow the order of first
 * use, so the output does not depend on the seed.
 *
 * These tables keep their keys or hashes in the slots, unlike base's `struct hash_index`, whose slots are
 * indices of elements in another array: a kernel needs millions of look-ups here, and a probe that touches
 * another cache line costs more than hashing. id_map is cleared for each unit by moving `before`, without
 * touching its slots.
 */
#include "symtab/intern.h"

#include <stdlib.h>
#include <sys/random.h>

/* Two of three slots: more free slots would be more pages to touch. */
static bool slots_full(size_t n, size_t n_slots)
{
	return n * 3 >= n_slots * 2;
}

/* The slot of @key, or a free one for it. */
static struct id_map_slot *id_map_slot(const struct id_map *m, uint32_t key)
{
	/* Which of two keys share a slot depends on the seed alone. */
	uint64_t h = key * m->seed;
	size_t at = (h ^ h >> 29) & (m->n_slots - 1);

	while (m->slots[at].value > m->before && m->slots[at].key != key)
		at = (at + 1) & (m->n_slots - 1);
	return &m->slots[at];
}

static void id_map_grow(struct id_map *m)
{
	struct id_map old = *m;

	m->n_slots = old.n_slots ? old.n_slots * 2 : 256;
	m->slots = mem_zalloc(m->n_slots * sizeof(*m->slots));
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.slots[i].value > m->before)
			*id_map_slot(m, old.slots[i].key) = old.slots[i];
	free(old.slots);
}

uint32_t id_map_at(struct id_map *m, uint32_t key)
{
	struct id_map_slot *s;

	if (slots_full(m->n, m->n_slots))
		id_map_grow(m);
	s = id_map_slot(m, key);
	if (s->value <= m->before)
		*s = (struct id_map_slot){ key, m->before + ++m->n };
	return s->value - m->before;
}

void id_map_clear(struct id_map *m)
{
	/* After a unit that made the table large, a small unit should have its keys in few cache lines. */
	if ((m->n_slots > 4096 && m->n < m->n_slots / 16) || m->before > UINT32_MAX / 2) {
		id_map_done(m);
		return;
	}
	m->before += m->n;
	m->n = 0;
}

void id_map_done(struct id_map *m)
{
	free(m->slots);
	*m = (struct id_map){ .seed = m->seed };
}

static size_t quad_slot(const struct quad_map *m, const struct quad *k)
{
	uint64_t h = ((uint64_t)k->v[0] << 32 | k->v[3]) ^ m->seed;

	h = (h ^ h >> 32) * 0x9e3779b97f4a7c15;
	h ^= (uint64_t)k->v[1] << 32 | k->v[2];
	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9;
	return (h ^ h >> 32) & (m->n_slots - 1);
}

static void quad_map_grow(struct quad_map *m)
{
	struct quad_map old = *m;

	m->n_slots = old.n_slots ? old.n_slots * 2 : 256;
	m->slots = mem_zalloc(m->n_slots * sizeof(*m->slots));
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.slots[i].value) {
			size_t at = quad_slot(m, &old.slots[i].key);

			while (m->slots[at].value)
				at = (at + 1) & (m->n_slots - 1);
			m->slots[at] = old.slots[i];
		}
	free(old.slots);
}

void quad_map_prefetch(const struct quad_map *m, const struct quad *key)
{
	if (m->n_slots)
		__builtin_prefetch(&m->slots[quad_slot(m, key)]);
}

void quad_map_room(struct quad_map *m, size_t n)
{
	while (slots_full(m->n + n, m->n_slots))
		quad_map_grow(m);
}

uint32_t *quad_map_at(struct quad_map *m, struct quad key)
{
	struct quad_slot *s;
	size_t at;

	if (slots_full(m->n, m->n_slots))
		quad_map_grow(m);
	for (at = quad_slot(m, &key);; at = (at + 1) & (m->n_slots - 1)) {
		s = &m->slots[at];
		if (!s->value)
			break;
		if (memcmp(&s->key, &key, sizeof(key)) == 0)
			return &s->value;
	}
	s->key = key;
	m->n++;
	return &s->value;
}

void quad_map_undo(struct quad_map *m, uint32_t *place)
{
	*place = 0;
	m->n--;
}

void quad_map_done(struct quad_map *m)
{
	free(m->slots);
	*m = (struct quad_map){ 0 };
}

void intern_init(struct intern *in)
{
	*in = (struct intern){ 0 };
	if (getrandom(&in->seed, sizeof(in->seed), 0) != (ssize_t)sizeof(in->seed))
		in->seed = (uint64_t)clock_mono_ns();
	in->by_files.seed = in->seed;
	/* Id 0 of each. */
	VEC_PUSH(in->strings, in->n_strings, in->room_strings) = STR("");
	VEC_PUSH(in->files, in->n_files, in->room_files) = (struct file_id){ 0 };
	VEC_PUSH(in->functions, in->n_functions, in->room_functions) = (struct function_id){ 0 };
}

void intern_done(struct intern *in)
{
	arena_done(&in->arena);
	free(in->strings);
	free(in->files);
	free(in->functions);
	free(in->string_slots.list);
	free(in->function_slots.list);
	quad_map_done(&in->by_files);
	*in = (struct intern){ 0 };
}

static void slots_grow(struct id_slots *s)
{
	struct id_slots old = *s;

	s->n_slots = old.n_slots ? old.n_slots * 2 : 1024;
	s->list = mem_zalloc(s->n_slots * sizeof(*s->list));
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.list[i].id) {
			size_t at = old.list[i].hash & (s->n_slots - 1);

			while (s->list[at].id)
				at = (at + 1) & (s->n_slots - 1);
			s->list[at] = old.list[i];
		}
	free(old.list);
}

/* The first slot of @hash, which may be a free one. */
static size_t slots_at(struct id_slots *s, size_t n, uint32_t hash)
{
	if (slots_full(n, s->n_slots))
		slots_grow(s);
	return hash & (s->n_slots - 1);
}

static void slot_prefetch(const struct id_slots *s, uint32_t hash)
{
	if (s->n_slots)
		__builtin_prefetch(&s->list[hash & (s->n_slots - 1)]);
}

static uint32_t string_hash(const struct intern *in, struct str s)
{
	return (uint32_t)hash64(s.p, s.size, in->seed);
}

uint32_t intern_str_prefetch(const struct intern *in, struct str s)
{
	uint32_t hash = s.size ? string_hash(in, s) : 0;

	slot_prefetch(&in->string_slots, hash);
	return hash;
}

uint32_t intern_str_hashed(struct intern *in, struct str s, uint32_t hash, bool stays)
{
	struct id_slots *slots = &in->string_slots;
	size_t at;

	if (!s.size)
		return 0;
	at = slots_at(slots, in->n_strings, hash);
	for (; slots->list[at].id; at = (at + 1) & (slots->n_slots - 1))
		if (slots->list[at].hash == hash && str_eq(in->strings[slots->list[at].id], s))
			return slots->list[at].id;
	VEC_GROW(in->strings, in->n_strings, in->room_strings);
	in->strings[in->n_strings] = stays ? s : arena_str(&in->arena, s);
	slots->list[at] = (struct id_slot){ hash, (uint32_t)in->n_strings };
	return (uint32_t)in->n_strings++;
}

uint32_t intern_str(struct intern *in, struct str s, bool stays)
{
	return s.size ? intern_str_hashed(in, s, string_hash(in, s), stays) : 0;
}

uint32_t intern_file(struct intern *in, uint32_t dir, uint32_t name)
{
	uint32_t *at = quad_map_at(&in->by_files, (struct quad){ { dir, name } });

	if (*at)
		return *at;
	VEC_GROW(in->files, in->n_files, in->room_files);
	in->files[in->n_files] = (struct file_id){ dir, name };
	*at = (uint32_t)in->n_files;
	return (uint32_t)in->n_files++;
}

static uint32_t function_hash(const struct intern *in, const struct function_id *f)
{
	return (uint32_t)hash64(f, sizeof(*f), in->seed);
}

uint32_t intern_function_prefetch(const struct intern *in, const struct function_id *f)
{
	uint32_t hash = function_hash(in, f);

	slot_prefetch(&in->function_slots, hash);
	return hash;
}

uint32_t intern_function_hashed(struct intern *in, const struct function_id *f, uint32_t hash)
{
	struct id_slots *slots = &in->function_slots;
	size_t at;

	if (!f->name && !f->linkage && !f->file && !f->line)
		return 0;
	at = slots_at(slots, in->n_functions, hash);
	for (; slots->list[at].id; at = (at + 1) & (slots->n_slots - 1))
		if (slots->list[at].hash == hash &&
		    memcmp(&in->functions[slots->list[at].id], f, sizeof(*f)) == 0)
			return slots->list[at].id;
	VEC_GROW(in->functions, in->n_functions, in->room_functions);
	in->functions[in->n_functions] = *f;
	slots->list[at] = (struct id_slot){ hash, (uint32_t)in->n_functions };
	return (uint32_t)in->n_functions++;
}

uint32_t intern_function(struct intern *in, const struct function_id *f)
{
	return intern_function_hashed(in, f, function_hash(in, f));
}
