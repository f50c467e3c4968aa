/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a profile: equal entries are found by hash and stored once.
 *
 * Each table has an open hash table of indices beside it; entries are compared in place. Hashes are seeded,
 * so that no input can choose its collisions.
 */
#include "profile/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define SLOTS_MIN 64u

struct profile_index *profile_index_of(struct profile *p)
{
	if (!p->index) {
		p->index = NEW(struct profile_index);
		if (getrandom(&p->index->seed, sizeof(p->index->seed), GRND_NONBLOCK) !=
		    sizeof(p->index->seed))
			p->index->seed = (uint64_t)clock_mono_ns() ^ (uint64_t)getpid() << 32;
	}
	return p->index;
}

void profile_index_free(struct profile_index *x)
{
	if (!x)
		return;
	free(x->strings.slots);
	free(x->functions.slots);
	free(x->mappings.slots);
	free(x->locations.slots);
	free(x->stacks.slots);
	free(x->links.p);
	free(x->label_sets.slots);
	free(x->samples.slots);
	free(x);
}

static uint64_t slots_size(const struct hash_index *h)
{
	return hash_index_room(h) * sizeof(*h->slots);
}

void profile_index_drop(struct profile *p)
{
	const struct profile_index *x = p->index;

	if (!x)
		return;
	profile_uncharge(p, slots_size(&x->strings) + slots_size(&x->functions) + slots_size(&x->mappings) +
				    slots_size(&x->locations) + slots_size(&x->stacks) +
				    slots_size(&x->label_sets) + slots_size(&x->samples));
	profile_uncharge(p, x->links.room * sizeof(*x->links.p));
	profile_index_free(p->index);
	p->index = NULL;
}

bool profile_index_reserve(struct profile *p, struct hash_index *h,
			   uint64_t (*hash_of)(const struct profile *p, uint32_t i))
{
	uint64_t was = hash_index_room(h), room = was ? was * 2 : SLOTS_MIN,
		 more = (room - was) * sizeof(*h->slots);

	if (!hash_index_is_full(h))
		return true;
	if (room > UINT32_MAX || !profile_charge(p, more))
		return false;
	if (HASH_INDEX_GROW(h, room, i, hash_of(p, i)))
		return true;
	p->memory -= more;
	return false;
}

/*
 * Make room for one more. Entries [first, n), which a reader has appended to the table directly, are added to
 * the hash table too. After the limit was reached nothing is added or looked up any more.
 */
static bool build_is_ready(struct profile *p, struct hash_index *h, uint32_t first, uint32_t n,
			   uint64_t (*hash_of)(const struct profile *p, uint32_t i))
{
	if (p->index->failed)
		return false;
	for (uint32_t i = h->n ? n : first; i < n; i++) {
		if (!profile_index_reserve(p, h, hash_of))
			return false;
		hash_index_add(h, hash_of(p, i), i);
	}
	return profile_index_reserve(p, h, hash_of);
}

void profile_index_restart(struct profile *p, struct hash_index *h)
{
	profile_uncharge(p, slots_size(h));
	free(h->slots);
	*h = (struct hash_index){ 0 };
}

uint32_t profile_build_fail(struct profile_index *x)
{
	x->failed = true;
	return 0;
}

/* ---- strings ---- */

static uint64_t hash_string_key(const struct profile *p, uint32_t i)
{
	return hash64(p->strings.p[i].p, p->strings.p[i].size, p->index->seed);
}

uint32_t profile_add_string(struct profile *p, struct str s)
{
	struct profile_index *x = profile_index_of(p);
	uint32_t at, i;
	uint64_t hash;

	if (!s.size)
		return 0;
	if (!build_is_ready(p, &x->strings, 1, p->strings.n, hash_string_key))
		return profile_build_fail(x);
	hash = hash64(s.p, s.size, x->seed);
	if (HASH_INDEX_FIND(&x->strings, hash, at, i, str_eq(p->strings.p[i], s)))
		return i;
	if (!profile_room(p, &p->strings, 1) || !profile_charge(p, PROFILE_STRING_SIZE(s.size)))
		return profile_build_fail(x);
	p->strings.p[p->strings.n] = arena_str(&p->arena, s);
	hash_index_put(&x->strings, at, p->strings.n);
	return p->strings.n++;
}

/* ---- functions, mappings ---- */

static uint64_t hash_of_function(const struct profile *p, const struct profile_function *f)
{
	uint64_t h = hash_mix((uint64_t)f->name << 32 | f->system_name, p->index->seed);

	return hash_mix(h ^ f->file, (uint64_t)f->start_line);
}

static uint64_t hash_function_key(const struct profile *p, uint32_t i)
{
	return hash_of_function(p, &p->functions.p[i]);
}

static bool slot_function_eq(const struct profile_function *a, const struct profile_function *b)
{
	return a->name == b->name && a->system_name == b->system_name && a->file == b->file &&
	       a->start_line == b->start_line;
}

uint32_t profile_add_function(struct profile *p, const struct profile_function *f)
{
	struct profile_index *x = profile_index_of(p);
	uint32_t at, i;

	if (!build_is_ready(p, &x->functions, 0, p->functions.n, hash_function_key))
		return profile_build_fail(x);
	if (HASH_INDEX_FIND(&x->functions, hash_of_function(p, f), at, i,
			    slot_function_eq(&p->functions.p[i], f)))
		return i;
	if (!profile_room(p, &p->functions, 1))
		return profile_build_fail(x);
	p->functions.p[p->functions.n] = *f;
	hash_index_put(&x->functions, at, p->functions.n);
	return p->functions.n++;
}

static uint64_t hash_of_mapping(const struct profile *p, const struct profile_mapping *m)
{
	uint64_t h = hash_mix(m->start, p->index->seed);

	h = hash_mix(h ^ m->limit, m->offset);
	return hash_mix(h, (uint64_t)m->file << 32 | m->build_id);
}

static uint64_t hash_mapping(const struct profile *p, uint32_t i)
{
	return hash_of_mapping(p, &p->mappings.p[i]);
}

static bool mapping_eq(const struct profile_mapping *a, const struct profile_mapping *b)
{
	return a->start == b->start && a->limit == b->limit && a->offset == b->offset && a->file == b->file &&
	       a->build_id == b->build_id;
}

uint32_t profile_add_mapping(struct profile *p, const struct profile_mapping *m)
{
	struct profile_index *x = profile_index_of(p);
	uint32_t at, i;

	if (!build_is_ready(p, &x->mappings, 0, p->mappings.n, hash_mapping))
		return profile_build_fail(x);
	if (HASH_INDEX_FIND(&x->mappings, hash_of_mapping(p, m), at, i, mapping_eq(&p->mappings.p[i], m))) {
		p->mappings.p[i].flags &= m->flags;
		return i;
	}
	if (!profile_room(p, &p->mappings, 1))
		return profile_build_fail(x);
	p->mappings.p[p->mappings.n] = *m;
	hash_index_put(&x->mappings, at, p->mappings.n);
	return p->mappings.n++;
}

/* ---- locations ---- */

static uint64_t hash_of_location(const struct profile *p, const struct profile_location *l,
				 const struct profile_line *lines, uint32_t n)
{
	uint64_t h = hash_mix(l->addr, p->index->seed);

	h = hash_mix(h ^ l->mapping, (uint64_t)n << 1 | l->folded);
	for (uint32_t i = 0; i < n; i++)
		h = hash_mix(h ^ lines[i].function,
			     (uint64_t)lines[i].line ^ (uint64_t)lines[i].column << 40);
	return h;
}

/* Without any lines there is no table of them either. */
static const struct profile_line *build_lines_of(const struct profile *p, const struct profile_location *l)
{
	return l->n_lines ? &p->lines.p[l->first_line] : NULL;
}

static uint64_t hash_location_key(const struct profile *p, uint32_t i)
{
	const struct profile_location *l = &p->locations.p[i];

	return hash_of_location(p, l, build_lines_of(p, l), l->n_lines);
}

static bool lines_eq(const struct profile_line *a, const struct profile_line *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (a[i].function != b[i].function || a[i].line != b[i].line || a[i].column != b[i].column)
			return false;
	return true;
}

static bool slot_location_eq(const struct profile *p, uint32_t i, const struct profile_location *l,
			     const struct profile_line *lines, uint32_t n)
{
	const struct profile_location *o = &p->locations.p[i];

	return o->addr == l->addr && o->mapping == l->mapping && o->folded == l->folded &&
	       o->addr_dropped == l->addr_dropped && o->n_lines == n &&
	       lines_eq(build_lines_of(p, o), lines, n);
}

static bool location_push(struct profile *p, const struct profile_location *l,
			  const struct profile_line *lines, uint32_t n)
{
	struct profile_location *new;

	if (!profile_room(p, &p->locations, 1) || !profile_room(p, &p->lines, n))
		return false;
	new = &p->locations.p[p->locations.n++];
	*new = *l;
	new->first_line = p->lines.n;
	new->n_lines = n;
	if (n)
		memcpy(p->lines.p + p->lines.n, lines, n * sizeof(*lines));
	p->lines.n += n;
	return true;
}

uint32_t profile_add_location(struct profile *p, const struct profile_location *l,
			      const struct profile_line *lines, uint32_t n)
{
	struct profile_index *x = profile_index_of(p);
	uint32_t at, i;

	if (!build_is_ready(p, &x->locations, 0, p->locations.n, hash_location_key))
		return profile_build_fail(x);
	if (HASH_INDEX_FIND(&x->locations, hash_of_location(p, l, lines, n), at, i,
			    slot_location_eq(p, i, l, lines, n)))
		return i;
	if (!location_push(p, l, lines, n))
		return profile_build_fail(x);
	hash_index_put(&x->locations, at, p->locations.n - 1);
	return p->locations.n - 1;
}

uint32_t profile_append_location(struct profile *p, const struct profile_location *l,
				 const struct profile_line *lines, uint32_t n)
{
	struct profile_index *x = profile_index_of(p);

	if (x->failed || !location_push(p, l, lines, n))
		return profile_build_fail(x);
	if (x->locations.n)
		profile_index_restart(p, &x->locations);
	return p->locations.n - 1;
}

/* ---- labels ---- */

static uint64_t hash_of_labels(const struct profile *p, const struct profile_label *l, uint32_t n)
{
	uint64_t h = hash_mix(n, p->index->seed);

	for (uint32_t i = 0; i < n; i++) {
		h = hash_mix(h ^ ((uint64_t)l[i].key << 32 | l[i].str), (uint64_t)l[i].num);
		h ^= l[i].unit;
	}
	return hash_mix(h, n);
}

static uint64_t hash_labels(const struct profile *p, uint32_t i)
{
	return hash_of_labels(p, p->labels.p + p->label_sets.p[i].first, p->label_sets.p[i].n);
}

static bool labels_eq(const struct profile_label *a, const struct profile_label *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (a[i].key != b[i].key || a[i].str != b[i].str || a[i].unit != b[i].unit ||
		    a[i].num != b[i].num)
			return false;
	return true;
}

uint32_t profile_add_labels(struct profile *p, const struct profile_label *labels, uint32_t n)
{
	struct profile_index *x = profile_index_of(p);
	uint32_t at, i;

	if (!n)
		return 0;
	if (!build_is_ready(p, &x->label_sets, 1, p->label_sets.n, hash_labels))
		return profile_build_fail(x);
	if (HASH_INDEX_FIND(&x->label_sets, hash_of_labels(p, labels, n), at, i,
			    p->label_sets.p[i].n == n &&
				    labels_eq(p->labels.p + p->label_sets.p[i].first, labels, n)))
		return i;
	if (!profile_room(p, &p->label_sets, 1) || !profile_room(p, &p->labels, n))
		return profile_build_fail(x);
	p->label_sets.p[p->label_sets.n] = (struct profile_label_set){ p->labels.n, n };
	memcpy(p->labels.p + p->labels.n, labels, n * sizeof(*labels));
	p->labels.n += n;
	hash_index_put(&x->label_sets, at, p->label_sets.n);
	return p->label_sets.n++;
}

/* ---- samples ---- */

static uint64_t hash_of_sample(const struct profile *p, uint32_t stack, uint32_t labels)
{
	return hash_mix((uint64_t)labels << 32 | stack, p->index->seed);
}

static uint64_t hash_sample(const struct profile *p, uint32_t i)
{
	return hash_of_sample(p, p->sample_stack[i], p->sample_labels[i]);
}

void profile_add_sample(struct profile *p, uint32_t stack, uint32_t labels, const int64_t *values)
{
	struct profile_index *x = profile_index_of(p);
	int64_t *row;
	uint32_t at, i;

	if (!build_is_ready(p, &x->samples, 0, p->n_samples, hash_sample)) {
		profile_build_fail(x);
		return;
	}
	if (HASH_INDEX_FIND(&x->samples, hash_of_sample(p, stack, labels), at, i,
			    p->sample_stack[i] == stack && p->sample_labels[i] == labels)) {
		row = p->values + (size_t)i * p->types.n;
		for (uint32_t t = 0; t < p->types.n; t++)
			row[t] = add_saturating(row[t], values[t]);
		return;
	}
	if (!profile_room_samples(p, 1)) {
		profile_build_fail(x);
		return;
	}
	p->sample_stack[p->n_samples] = stack;
	p->sample_labels[p->n_samples] = labels;
	row = p->values + (size_t)p->n_samples * p->types.n;
	for (uint32_t t = 0; t < p->types.n; t++)
		row[t] = values[t];
	hash_index_put(&x->samples, at, p->n_samples);
	p->n_samples++;
}

void profile_append_sample(struct profile *p, uint32_t stack, uint32_t labels, const int64_t *values)
{
	struct profile_index *x = profile_index_of(p);

	if (x->failed || !profile_room_samples(p, 1)) {
		profile_build_fail(x);
		return;
	}
	if (x->samples.n)
		profile_index_restart(p, &x->samples);
	p->sample_stack[p->n_samples] = stack;
	p->sample_labels[p->n_samples] = labels;
	memcpy(p->values + (size_t)p->n_samples * p->types.n, values, p->types.n * sizeof(*values));
	p->n_samples++;
}

void profile_add_type(struct profile *p, struct str type, struct str unit)
{
	assert(!p->n_samples && p->types.n < PROFILE_MAX_TYPES);
	struct profile_type t = { profile_add_string(p, type), profile_add_string(p, unit) };

	if (!profile_room(p, &p->types, 1)) {
		profile_build_fail(profile_index_of(p));
		return;
	}
	p->types.p[p->types.n++] = t;
}

bool profile_has_failed(const struct profile *p)
{
	return p->index && p->index->failed;
}

int profile_build_end(struct profile *p, struct err *err)
{
	if (profile_has_failed(p))
		return profile_err_memory(p, err);
	return 0;
}

static void samples_trim(struct profile *p)
{
	uint32_t stacks = p->room_samples, labels = p->room_samples, values = p->room_samples;

	profile_cut(p, (void **)&p->sample_stack, &stacks, p->n_samples, sizeof(uint32_t));
	profile_cut(p, (void **)&p->sample_labels, &labels, p->n_samples, sizeof(uint32_t));
	profile_cut(p, (void **)&p->values, &values, p->n_samples, sizeof(int64_t) * MAX(p->types.n, 1u));
	p->room_samples = MIN(stacks, MIN(labels, values));
}

void profile_pack(struct profile *p)
{
	if (profile_has_failed(p))
		return;
	profile_index_drop(p);
	profile_trim(p, &p->strings);
	profile_trim(p, &p->functions);
	profile_trim(p, &p->lines);
	profile_trim(p, &p->locations);
	profile_trim(p, &p->stacks);
	samples_trim(p);
}
