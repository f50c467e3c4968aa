/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where files are mapped, by process. A list is searched from its newest entry on; most addresses are where
 * one was found recently.
 */
#include "profile/perf_maps.h"

#include <stdlib.h>
#include "base/vec.h"
#include "profile/internal.h"

#define MAX_MAPS  (1u << 20)
#define MAX_STEPS (UINT64_C(1) << 29)
#define PAGE_BITS 12

void perf_maps_done(struct perf_maps *m)
{
	profile_table_free(m->p, &m->list);
}

static void perf_map_add(struct perf_maps *m, uint32_t *head, struct perf_map map)
{
	map.older = *head;
	if (m->list.n < MAX_MAPS && profile_push(m->p, &m->list, map))
		*head = m->list.n;
}

static uint32_t *perf_maps_of_pid(struct perf_maps *m, uint32_t pid)
{
	return &m->processes[pid % PERF_MAPS_SLOTS];
}

void perf_maps_add(struct perf_maps *m, uint32_t pid, bool kernel, const struct profile_mapping *mapping)
{
	const struct perf_map map = { .start = mapping->start,
				      .end = mapping->limit,
				      .pid = pid,
				      .mapping = profile_add_mapping(m->p, mapping) };

	perf_map_add(m, kernel ? &m->kernel : perf_maps_of_pid(m, pid), map);
}

void perf_maps_fork(struct perf_maps *m, uint32_t child, uint32_t parent)
{
	uint32_t first = *perf_maps_of_pid(m, parent), last = m->list.n;
	uint32_t *order = NULL;
	size_t n = 0, room = 0;

	if (child == parent)
		return;
	for (uint32_t i = first; i; i = m->list.p[i - 1].older) {
		if (m->n_steps++ > MAX_STEPS)
			break;
		if (m->list.p[i - 1].pid != parent || last + n >= MAX_MAPS)
			continue;
		VEC_PUSH(order, n, room) = i - 1;
	}
	/* The oldest first, so that the newest is found first again. */
	while (n) {
		struct perf_map map = m->list.p[order[--n]];

		map.pid = child;
		perf_map_add(m, perf_maps_of_pid(m, child), map);
	}
	free(order);
}

/* ---- finding ---- */

static bool map_is_at(const struct perf_map *map, uint64_t addr)
{
	return addr >= map->start && addr < map->end;
}

static bool map_is_at_place(const struct perf_maps *m, const struct perf_map *map, uint32_t file,
			    uint64_t place)
{
	const struct profile_mapping *to = &m->p->mappings.p[map->mapping];

	return to->file == file && place >= to->offset && place - to->offset < map->end - map->start;
}

static bool map_is_found(const struct perf_maps *m, const struct perf_maps_found *f, uint32_t pid,
			 uint32_t file, uint64_t addr)
{
	const struct perf_map *map = f->map ? &m->list.p[f->map - 1] : NULL;

	return map && f->pid == pid && f->file == file && f->flat == m->flat && f->kernel == m->kernel &&
	       f->head == m->processes[pid % PERF_MAPS_SLOTS] &&
	       (f->by_place ? map_is_at_place(m, map, file, addr) : map_is_at(map, addr));
}

/*
 * The newest map of the file at the address, or with that offset; else the newest one of any file at the address. An
 * offset in a large library is often an address of a program that is not position-independent. Index + 1; 0: none.
 */
static uint32_t perf_maps_search(struct perf_maps *m, uint32_t pid, uint32_t file, uint64_t addr,
				 bool *ret_by_place)
{
	uint32_t by_place = 0, by_addr = 0, other = 0;
	bool all = true;

	for (uint32_t i = *perf_maps_of_pid(m, pid); i; i = m->list.p[i - 1].older) {
		const struct perf_map *map = &m->list.p[i - 1];

		m->n_steps++;
		if (map->pid != pid)
			continue;
		if (map_is_at(map, addr) && m->p->mappings.p[map->mapping].file != file)
			other = other ? other : i;
		else if (map_is_at(map, addr))
			by_addr = by_addr ? by_addr : i;
		if (!by_place && map_is_at_place(m, map, file, addr))
			by_place = i;
		if (by_addr && (by_place || m->flat || m->n_addresses > m->n_offsets)) {
			all = false;
			break;
		}
	}
	if (by_place && (!by_addr || (!m->flat && m->n_offsets >= m->n_addresses))) {
		m->n_offsets += !by_addr;
		*ret_by_place = true;
		return by_place;
	}
	if (by_addr) {
		m->n_addresses += all; /* else an older map may have that offset */
		return by_addr;
	}
	if (other)
		return other;
	for (uint32_t i = m->kernel; i; i = m->list.p[i - 1].older, m->n_steps++)
		if (map_is_at(&m->list.p[i - 1], addr))
			return i;
	return 0;
}

int perf_maps_find(struct perf_maps *m, uint32_t pid, uint32_t file, uint64_t *addr, uint32_t *ret,
		   struct err *err)
{
	uint64_t key = hash_mix((uint64_t)pid << 32 | file, *addr >> PAGE_BITS);
	struct perf_maps_found *f = &m->found[key % PERF_MAPS_SLOTS];
	const struct perf_map *map;

	*ret = PROFILE_NONE;
	if (!map_is_found(m, f, pid, file, *addr)) {
		*f = (struct perf_maps_found){ pid,   file,   *perf_maps_of_pid(m, pid), m->kernel, 0,
					       false, m->flat };
		f->map = perf_maps_search(m, pid, file, *addr, &f->by_place);
	}
	if (m->n_steps > MAX_STEPS)
		return err_set(err, ERR_LIMIT, "has too many maps to look up its addresses");
	if (!f->map)
		return 0;
	map = &m->list.p[f->map - 1];
	*ret = map->mapping;
	if (f->by_place)
		*addr = *addr - m->p->mappings.p[map->mapping].offset + map->start;
	return 0;
}
