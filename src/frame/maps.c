/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many mappings, prepared so that the one at an address is found by binary search: the address space is cut at the
 * starts and limits of all mappings, and each part has its mapping.
 */
#include <stdlib.h>
#include "frame/internal.h"

static int by_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool is_closed(const struct frame_mapping *m)
{
	return m->limit > m->start;
}

/* The index of the last bound at or before @addr; SIZE_MAX: all are after it. */
static size_t bound_at(const struct frame_maps *m, uint64_t addr)
{
	return SEARCH(0, m->n_bounds, i, m->bounds[i] <= addr) - 1;
}

static void bounds_collect(struct frame_maps *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++)
		if (is_closed(&m->v[i])) {
			m->bounds[n++] = m->v[i].start;
			m->bounds[n++] = m->v[i].limit;
		}
	if (n)
		qsort(m->bounds, n, sizeof(*m->bounds), by_u64);
	for (size_t i = 0; i < n; i++)
		if (!i || m->bounds[i] != m->bounds[m->n_bounds - 1])
			m->bounds[m->n_bounds++] = m->bounds[i];
}

/* The first part from @i on that has no mapping yet; the way there is shortened. */
static uint32_t free_part(uint32_t *next, uint32_t i)
{
	while (next[i] != i) {
		next[i] = next[next[i]];
		i = next[i];
	}
	return i;
}

/* Of mappings that overlap, the first in the list has the common part. */
static void bounds_assign(struct frame_maps *m)
{
	AUTO(mem_freep) uint32_t *next = NEW_N(uint32_t, m->n_bounds + 1);

	for (size_t i = 0; i <= m->n_bounds; i++)
		next[i] = (uint32_t)i;
	for (size_t i = 0; i < m->n_bounds; i++)
		m->owners[i] = FRAME_NO_OWNER;
	for (size_t i = 0; i < m->n; i++) {
		uint32_t k;

		if (!is_closed(&m->v[i]))
			continue;
		k = free_part(next, (uint32_t)bound_at(m, m->v[i].start));
		for (; m->bounds[k] < m->v[i].limit; k = free_part(next, k)) {
			m->owners[k] = (uint32_t)i;
			next[k] = k + 1;
		}
	}
}

static int by_open_start(const void *a, const void *b, void *arg)
{
	const struct frame_mapping *v = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;

	if (v[i].start != v[k].start)
		return v[i].start < v[k].start ? -1 : 1;
	/* Of equal ones the first in the list is found. */
	return i > k ? -1 : 1;
}

static void opens_collect(struct frame_maps *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (!m->v[i].limit)
			m->opens[m->n_opens++] = (uint32_t)i;
	if (m->n_opens)
		qsort_r(m->opens, m->n_opens, sizeof(*m->opens), by_open_start, (void *)m->v);
}

static void lowest_find(struct frame_maps *m)
{
	m->lowest = m->second = NULL;
	for (size_t i = 0; i < m->n; i++) {
		const struct frame_mapping *at = &m->v[i];

		if (!m->lowest || at->start < m->lowest->start) {
			m->second = m->lowest;
			m->lowest = at;
		} else if (!m->second || at->start < m->second->start) {
			m->second = at;
		}
	}
}

struct frame_maps *frame_maps_new(struct arena *a, const struct frame_mapping *v, size_t n)
{
	struct frame_maps *m = ARENA_NEW(a, struct frame_maps);

	m->v = v;
	m->n = n;
	m->bounds = ARENA_NEW_N(a, uint64_t, 2 * n + 1);
	m->owners = ARENA_NEW_N(a, uint32_t, 2 * n + 1);
	m->opens = ARENA_NEW_N(a, uint32_t, n + 1);
	bounds_collect(m);
	bounds_assign(m);
	opens_collect(m);
	lowest_find(m);
	m->prepared = true;
	return m;
}

size_t frame_maps_closed_at(const struct frame_maps *m, uint64_t addr)
{
	size_t i = bound_at(m, addr);

	return i == SIZE_MAX || m->owners[i] == FRAME_NO_OWNER ? SIZE_MAX : m->owners[i];
}

const struct frame_mapping *frame_maps_at(const struct frame_maps *m, uint64_t addr)
{
	size_t i = frame_maps_closed_at(m, addr);

	if (i != SIZE_MAX)
		return &m->v[i];
	i = SEARCH(0, m->n_opens, k, m->v[m->opens[k]].start <= addr);
	return i ? &m->v[m->opens[i - 1]] : NULL;
}
