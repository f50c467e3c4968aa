/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a profile: its stacks, each stored once.
 *
 * Most stacks have one callee or a few, which are a list: to follow it is faster than to compute a hash, and a stack
 * without callees needs no search at all. The callees of a stack with more than MAX_LISTED are in the hash table instead,
 * so that a search is short whatever the profile is.
 */
#include "profile/internal.h"

#define MAX_LISTED 8u
#define IN_TABLE   UINT32_MAX /* as the first callee: they are in the hash table */

static uint64_t hash_of_stack(const struct profile *p, uint32_t parent, uint32_t location)
{
	return hash_mix((uint64_t)parent << 32 | location, p->index->seed);
}

static uint64_t hash_stack_key(const struct profile *p, uint32_t i)
{
	return hash_of_stack(p, p->stacks.p[i].parent, p->stacks.p[i].location);
}

/* 0: there is none. */
static inline uint32_t stack_find(const struct profile *p, uint32_t callers, uint32_t location)
{
	const struct profile_index *x = p->index;
	uint32_t i = x->links.p[callers].child, at;

	if (i != IN_TABLE) {
		while (i && p->stacks.p[i].location != location)
			i = x->links.p[i].next;
		return i;
	}
	return HASH_INDEX_FIND(&x->stacks, hash_of_stack(p, callers, location), at, i,
			       p->stacks.p[i].parent == callers && p->stacks.p[i].location == location)
		       ? i
		       : 0;
}

static bool stack_put(struct profile *p, uint32_t i)
{
	struct hash_index *h = &p->index->stacks;

	if (!profile_index_reserve(p, h, hash_stack_key))
		return false;
	hash_index_add(h, hash_stack_key(p, i), i);
	return true;
}

/* Add stack @i to its callers' list, or to the table. */
static bool stack_link(struct profile *p, uint32_t i)
{
	struct stack_link *links = p->index->links.p, *callers = &links[p->stacks.p[i].parent];
	uint32_t n = 0;

	if (callers->child == IN_TABLE)
		return stack_put(p, i);
	for (uint32_t k = callers->child; k; k = links[k].next)
		n++;
	links[i] = (struct stack_link){ .next = callers->child };
	callers->child = i;
	if (n < MAX_LISTED)
		return true;
	for (uint32_t k = i; k; k = links[k].next)
		if (!stack_put(p, k))
			return false;
	callers->child = IN_TABLE;
	return true;
}

/* Stacks may have been appended without links. After the limit was reached nothing is added or looked up any more. */
static bool stacks_are_linked(struct profile *p, struct profile_index *x)
{
	uint32_t n = x->links.n;

	if (x->failed)
		return false;
	if (n == p->stacks.n)
		return true;
	if (n > p->stacks.n) { /* they were cut */
		x->links.n = n = 0;
		profile_index_restart(p, &x->stacks);
	}
	if (!profile_extend(p, &x->links, p->stacks.n))
		return false;
	for (uint32_t i = MAX(n, 1u); i < p->stacks.n; i++)
		if (!stack_link(p, i))
			return false;
	return true;
}

static inline uint32_t stack_add(struct profile *p, struct profile_index *x, uint32_t callers,
				 uint32_t location)
{
	uint32_t i = stack_find(p, callers, location);

	if (i)
		return i;
	if (!profile_room(p, &p->stacks, 1) || !profile_push(p, &x->links, (struct stack_link){ 0 }))
		return profile_build_fail(x);
	p->stacks.p[p->stacks.n++] = (struct profile_stack){ callers, location };
	return stack_link(p, p->stacks.n - 1) ? p->stacks.n - 1 : profile_build_fail(x);
}

uint32_t profile_add_stack(struct profile *p, uint32_t callers, uint32_t location)
{
	struct profile_index *x = profile_index_of(p);

	return stacks_are_linked(p, x) ? stack_add(p, x, callers, location) : profile_build_fail(x);
}

uint32_t profile_add_stacks(struct profile *p, uint32_t callers, const uint32_t *locations, uint32_t n)
{
	struct profile_index *x = profile_index_of(p);
	uint32_t stack = callers;

	if (!stacks_are_linked(p, x))
		return profile_build_fail(x);
	while (n && !x->failed)
		stack = stack_add(p, x, stack, locations[--n]);
	return stack;
}

uint32_t profile_append_stack(struct profile *p, uint32_t callers, uint32_t location)
{
	struct profile_index *x = profile_index_of(p);

	if (x->failed || !profile_push(p, &p->stacks, ((struct profile_stack){ callers, location })))
		return profile_build_fail(x);
	/* The next one that is searched for links all of them. */
	x->links.n = 0;
	if (x->stacks.n)
		profile_index_restart(p, &x->stacks);
	return p->stacks.n - 1;
}

bool profile_has_stack(struct profile *p, uint32_t callers, uint32_t location)
{
	const struct profile_index *x = profile_index_of(p);

	return callers < x->links.n && stack_find(p, callers, location) != 0;
}
