/* SPDX-License-Identifier: Apache-2.0 */
/* A profile's tables: created, grown within the limit of memory, freed; and their simple queries. */
#include "profile/internal.h"

#include "base/budget.h"

#include <stdlib.h>

struct profile *profile_new(const struct profile_limits *limits)
{
	struct profile *p = NEW(struct profile);

	arena_init(&p->arena);
	p->hold = limits ? limits->memory : NULL;
	p->max_memory = limits && limits->max_memory ? limits->max_memory : PROFILE_MAX_MEMORY;
	/* Entry 0 of each is the empty one. */
	p->strings.p = NEW_N(struct str, 1);
	p->strings.p[0] = STR("");
	p->stacks.p = NEW_N(struct profile_stack, 1);
	p->stacks.p[0] = (struct profile_stack){ 0 };
	p->label_sets.p = NEW_N(struct profile_label_set, 1);
	p->label_sets.p[0] = (struct profile_label_set){ 0 };
	p->strings.n = p->strings.room = p->stacks.n = p->stacks.room = p->label_sets.n = p->label_sets.room =
		1;
	return p;
}

void profile_free(struct profile *p)
{
	if (!p)
		return;
	budget_hold_sub(p->hold, p->held);
	free(p->strings.p);
	free(p->types.p);
	free(p->mappings.p);
	free(p->functions.p);
	free(p->lines.p);
	free(p->locations.p);
	free(p->stacks.p);
	free(p->labels.p);
	free(p->label_sets.p);
	free(p->sample_stack);
	free(p->sample_labels);
	free(p->values);
	free(p->comments.p);
	profile_index_free(p->index);
	arena_done(&p->arena);
	free(p);
}

void profile_freep(struct profile **p)
{
	profile_free(*p);
}

int profile_err_memory(const struct profile *p, struct err *err)
{
	if (p->refusal.kind) {
		if (err)
			*err = p->refusal;
		return -1;
	}
	return err_set(err, ERR_LIMIT, "needs more memory than the limit of %llu MiB, or than is available",
		       (unsigned long long)(p->max_memory >> 20));
}

bool profile_charge(struct profile *p, uint64_t more)
{
	uint64_t want = p->memory + more;

	if (want > p->max_memory)
		return false;
	/* In steps: strings come one by one. */
	if (p->hold && want > p->held) {
		p->refusal.kind = ERR_NONE;
		if (budget_hold_add(p->hold, want - p->held + KIB(64), &p->refusal) < 0)
			return false;
		p->held = want + KIB(64);
	}
	p->memory = want;
	return true;
}

void profile_uncharge(struct profile *p, uint64_t less)
{
	p->memory -= MIN(less, p->memory);
	if (p->hold && p->held > p->memory + 2 * BUDGET_STEP) {
		budget_hold_sub(p->hold, p->held - p->memory - BUDGET_STEP);
		p->held = p->memory + BUDGET_STEP;
	}
}

void *profile_alloc(struct profile *p, uint64_t n, size_t size)
{
	void *m;

	if (n > SIZE_MAX / size || !profile_charge(p, n * size))
		return NULL;
	m = calloc(n, size);
	if (!m)
		profile_uncharge(p, n * size);
	return m;
}

void profile_release(struct profile *p, void *m, uint64_t n, size_t size)
{
	if (m)
		profile_uncharge(p, n * size);
	free(m);
}

void profile_cut(struct profile *p, void **table, uint32_t *room, uint32_t n, size_t size)
{
	uint32_t keep = MAX(n, 1u);
	void *m = *room > keep ? realloc(*table, (size_t)keep * size) : NULL;

	if (!m)
		return;
	*table = m;
	profile_uncharge(p, (uint64_t)(*room - keep) * size);
	*room = keep;
}

#define GROW_LESS 64 /* after a refusal the extra room is this fraction */

/* The limit is checked before anything is allocated. */
static bool profile_take_memory(struct profile *p, void **table, uint64_t was, uint64_t will)
{
	void *q;

	if (!profile_charge(p, will - was))
		return false;
	q = realloc(*table, will);
	if (!q) {
		p->memory -= will - was;
		return false;
	}
	*table = q;
	return true;
}

bool profile_grow(struct profile *p, void **table, uint32_t *room, uint64_t want, size_t entry_size)
{
	uint64_t more = MAX(want, MIN((uint64_t)*room * 2, (uint64_t)PROFILE_MAX_ENTRIES));

	if (want > PROFILE_MAX_ENTRIES)
		return false;
	more = MAX(more, (uint64_t)16);
	/*
	 * Doubling is too much: perhaps less is not, in the end the exact size. By steps: with the exact size at once each of the
	 * last million entries would be a refusal, a wait for the budget and a reallocation.
	 */
	while (!profile_take_memory(p, table, (uint64_t)*room * entry_size, more * entry_size)) {
		if (more == want)
			return false;
		more = want + (more - want) / GROW_LESS;
	}
	*room = (uint32_t)more;
	return true;
}

bool profile_extend_to(struct profile *p, void **table, uint32_t *n, uint32_t *room, uint64_t want,
		       size_t entry_size)
{
	if (want <= *n)
		return true;
	if (want > *room && !profile_grow(p, table, room, want, entry_size))
		return false;
	memset((char *)*table + *n * entry_size, 0, (want - *n) * entry_size);
	*n = (uint32_t)want;
	return true;
}

bool profile_room_samples(struct profile *p, uint32_t more)
{
	uint64_t want = (uint64_t)p->n_samples + more;
	uint32_t stacks = p->room_samples, labels = p->room_samples, values = p->room_samples;

	if (want <= p->room_samples)
		return true;
	if (!profile_grow(p, (void **)&p->sample_stack, &stacks, want, sizeof(uint32_t)) ||
	    !profile_grow(p, (void **)&p->sample_labels, &labels, want, sizeof(uint32_t)) ||
	    !profile_grow(p, (void **)&p->values, &values, want, sizeof(int64_t) * MAX(p->types.n, 1u)))
		return false;
	p->room_samples = MIN(stacks, MIN(labels, values));
	return true;
}

static uint32_t type_of_name(const struct profile *p, struct str name)
{
	for (uint32_t i = 0; i < p->types.n; i++)
		if (str_eq(profile_str(p, p->types.p[i].type), name))
			return i;
	return PROFILE_NONE;
}

uint32_t profile_type_find(const struct profile *p, struct str name)
{
	uint32_t usual = p->default_type ? type_of_name(p, profile_str(p, p->default_type)) : PROFILE_NONE;

	if (name.size)
		return type_of_name(p, name);
	/* As in pprof's tool, a default that is no type counts as none. */
	return usual == PROFILE_NONE && p->types.n ? p->types.n - 1 : usual;
}

int64_t profile_total(const struct profile *p, uint32_t type)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < p->n_samples; i++)
		sum = add_saturating(sum, profile_value(p, i, type));
	return sum;
}
