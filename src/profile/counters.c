/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters that rise for as long as a process runs (alloc_space, contentions): their rise between two profiles.
 *
 * Of the earlier profile, only a hash of each stack with its labels and the values are kept: a fraction of the profile.
 * The hash is over names and addresses in the files, so it does not depend on the order of a profile's tables. It has a
 * secret seed.
 */
#include "profile/internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#define INUSE STR("inuse_")
/* A value that sinks by this part of it is rounded by the sender, not reset. */
#define SINK_PART 64

struct profile_counters {
	uint64_t types;               /* a hash of the sample types */
	uint32_t n_types, n, n_slots; /* n_slots: a power of two, more than n */
	uint64_t *keys;               /* 0: a free slot */
	int64_t *values;              /* n_types for each slot */
	struct budget_hold *memory;
	uint64_t held;
};

/* ---- hashes of stacks ---- */

struct stack_hashes {
	const struct profile *p;
	uint64_t *strings, *locations, *stacks, *label_sets;
};

static uint64_t hash_pair(uint64_t a, uint64_t b)
{
	const uint64_t v[2] = { a, b };

	return hash64(v, sizeof(v), 0);
}

static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static uint64_t counters_seed;

static void seed_init(void)
{
	if (getrandom(&counters_seed, sizeof(counters_seed), 0) != sizeof(counters_seed))
		counters_seed = (uint64_t)clock_mono_ns();
}

static uint64_t hash_location(const struct stack_hashes *h, const struct profile_location *l)
{
	const struct profile *p = h->p;
	uint64_t x = l->addr;

	if (l->mapping != PROFILE_NONE) {
		const struct profile_mapping *m = &p->mappings.p[l->mapping];

		/* As in profile_merge(): a build ID is one file, whatever its name is. */
		x = hash_pair(l->addr - m->start + m->offset,
			      h->strings[m->build_id ? m->build_id : m->file]);
	}
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct profile_line *line = &p->lines.p[l->first_line + i];
		const struct profile_function *f = &p->functions.p[line->function];

		x = hash_pair(x, hash_pair((uint64_t)line->line,
					   hash_pair(h->strings[f->name], h->strings[f->file])));
	}
	return x;
}

/* The order of labels does not matter. */
static uint64_t hash_label_set(const struct stack_hashes *h, const struct profile_label_set *set)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < set->n; i++) {
		const struct profile_label *l = &h->p->labels.p[set->first + i];

		sum += hash_pair(hash_pair(h->strings[l->key], h->strings[l->str]),
				 hash_pair(h->strings[l->unit], (uint64_t)l->num));
	}
	return sum;
}

static bool hashes_init(struct stack_hashes *h, struct profile *p)
{
	pthread_once(&seed_once, seed_init);
	*h = (struct stack_hashes){ .p = p };
	h->strings = profile_alloc(p, p->strings.n, 8);
	h->locations = profile_alloc(p, p->locations.n, 8);
	h->stacks = profile_alloc(p, p->stacks.n, 8);
	h->label_sets = profile_alloc(p, p->label_sets.n, 8);
	if (!h->strings || (!h->locations && p->locations.n) || !h->stacks || !h->label_sets)
		return false;
	for (uint32_t i = 0; i < p->strings.n; i++)
		h->strings[i] = hash64(p->strings.p[i].p ? p->strings.p[i].p : "", p->strings.p[i].size,
				       counters_seed);
	for (uint32_t i = 0; i < p->locations.n; i++)
		h->locations[i] = hash_location(h, &p->locations.p[i]);
	/* Callers come before callees. */
	for (uint32_t i = 1; i < p->stacks.n; i++)
		h->stacks[i] = hash_pair(h->stacks[p->stacks.p[i].parent],
					 h->locations[p->stacks.p[i].location]);
	for (uint32_t i = 1; i < p->label_sets.n; i++)
		h->label_sets[i] = hash_label_set(h, &p->label_sets.p[i]);
	return true;
}

static void hashes_done(struct stack_hashes *h, struct profile *p)
{
	profile_release(p, h->strings, p->strings.n, 8);
	profile_release(p, h->locations, p->locations.n, 8);
	profile_release(p, h->stacks, p->stacks.n, 8);
	profile_release(p, h->label_sets, p->label_sets.n, 8);
}

static uint64_t counters_key(const struct stack_hashes *h, uint32_t sample)
{
	uint64_t key = hash_pair(h->stacks[h->p->sample_stack[sample]],
				 h->label_sets[h->p->sample_labels[sample]]);

	return key ? key : 1;
}

static uint64_t hash_types(const struct profile *p)
{
	uint64_t x = 0;

	for (uint32_t i = 0; i < p->types.n; i++) {
		struct str type = profile_str(p, p->types.p[i].type),
			   unit = profile_str(p, p->types.p[i].unit);

		x = hash_pair(x, hash_pair(hash64(type.p, type.size, 1), hash64(unit.p, unit.size, 1)));
	}
	return x;
}

/* ---- the table ---- */

static bool counter_rises(const struct profile *p, uint32_t type)
{
	return !str_starts(profile_str(p, p->types.p[type].type), INUSE);
}

/* The values of @key; of a free slot, if there are none: *ret_slot is it. */
static int64_t *counters_at(const struct profile_counters *c, uint64_t key, uint32_t *ret_slot)
{
	uint32_t slot = (uint32_t)key & (c->n_slots - 1);

	while (c->keys[slot] && c->keys[slot] != key)
		slot = (slot + 1) & (c->n_slots - 1);
	*ret_slot = slot;
	return &c->values[(size_t)slot * c->n_types];
}

static void counters_add(struct profile_counters *c, uint64_t key, const struct profile *p, uint32_t sample)
{
	uint32_t slot;
	int64_t *values = counters_at(c, key, &slot);

	c->n += !c->keys[slot];
	c->keys[slot] = key;
	for (uint32_t t = 0; t < c->n_types; t++)
		values[t] = add_saturating(values[t], profile_value(p, sample, t));
}

void profile_counters_free(struct profile_counters *c)
{
	if (!c)
		return;
	budget_hold_sub(c->memory, c->held);
	free(c->keys);
	free(c->values);
	free(c);
}

static struct profile_counters *counters_alloc(const struct profile *p, struct budget_hold *memory,
					       struct err *err)
{
	uint32_t n_slots = 16;
	struct profile_counters *c;
	uint64_t size;

	while (n_slots < UINT32_MAX / 4 && n_slots < p->n_samples + p->n_samples / 2)
		n_slots *= 2;
	size = (uint64_t)n_slots * 8 * (1 + p->types.n);
	if (n_slots <= p->n_samples) {
		(void)err_set(err, ERR_LIMIT, "it has too many samples for counters: %u", p->n_samples);
		return NULL;
	}
	if (budget_hold_add(memory, size, err) < 0)
		return NULL;
	c = NEW(struct profile_counters);
	c->memory = memory;
	c->held = size;
	c->types = hash_types(p);
	c->n_types = p->types.n;
	c->n_slots = n_slots;
	c->keys = calloc(n_slots, 8);
	c->values = calloc((size_t)n_slots * MAX(p->types.n, 1u), 8);
	if (!c->keys || !c->values) {
		profile_counters_free(c);
		(void)profile_err_memory(p, err);
		return NULL;
	}
	return c;
}

/* ---- the difference ---- */

static bool has_sunk(int64_t before, int64_t now)
{
	return before > 0 && now < before - before / SINK_PART;
}

/* Has any counter of @before sunk? */
static bool counters_restarted(const struct profile_counters *before, const struct profile_counters *now,
			       const struct profile *p)
{
	if (before->types != now->types || before->n_types != now->n_types)
		return true;
	for (uint32_t i = 0; i < before->n_slots; i++) {
		const int64_t *was = &before->values[(size_t)i * before->n_types], *is;
		uint32_t slot;

		if (!before->keys[i])
			continue;
		is = counters_at(now, before->keys[i], &slot);
		for (uint32_t t = 0; t < now->n_types; t++)
			if (counter_rises(p, t) && has_sunk(was[t], is[t]))
				return true;
	}
	return false;
}

/* Several samples may have one stack: each takes its part of the earlier value, which is used up then. */
static void counters_subtract(struct profile_counters *before, const struct stack_hashes *h,
			      struct profile *p)
{
	for (uint32_t i = 0; i < p->n_samples; i++) {
		int64_t *row = &p->values[(size_t)i * p->types.n], *was;
		uint32_t slot;

		was = counters_at(before, counters_key(h, i), &slot);
		for (uint32_t t = 0; before->keys[slot] && t < p->types.n; t++) {
			int64_t part = counter_rises(p, t)
					       ? MIN(MAX(was[t], (int64_t)0), MAX(row[t], (int64_t)0))
					       : 0;

			row[t] -= part;
			was[t] -= part;
		}
	}
}

static void counters_clear(struct profile *p)
{
	for (uint32_t i = 0; i < p->n_samples; i++)
		for (uint32_t t = 0; t < p->types.n; t++)
			if (counter_rises(p, t))
				p->values[(size_t)i * p->types.n + t] = 0;
}

int profile_counters_rise(struct profile *p, struct profile_counters *before, struct budget_hold *memory,
			  struct profile_counters **ret, struct err *err)
{
	struct profile_counters *now = counters_alloc(p, memory, err);
	struct stack_hashes h = { 0 };
	bool has_base;

	if (!now)
		return -1;
	if (!hashes_init(&h, p)) {
		hashes_done(&h, p);
		profile_counters_free(now);
		return profile_err_memory(p, err);
	}
	for (uint32_t i = 0; i < p->n_samples; i++)
		counters_add(now, counters_key(&h, i), p, i);
	has_base = before && !counters_restarted(before, now, p);
	if (has_base)
		counters_subtract(before, &h, p);
	else
		counters_clear(p);
	hashes_done(&h, p);
	*ret = now;
	return has_base ? 0 : PROFILE_NO_BASE;
}
