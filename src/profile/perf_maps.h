/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where files are mapped, process by process, as perf tells it while samples go by: the newest one counts.
 */
#pragma once

#include "profile/profile.h"

#define PERF_MAPS_SLOTS 4096u

struct perf_map {
	uint64_t start, end;
	uint32_t pid, mapping; /* of the profile */
	uint32_t older;        /* the next of the same list, number + 1; 0: none */
};

struct perf_maps {
	struct profile *p;
	PROFILE_TABLE(struct perf_map) list;
	/* Lists, the newest first: the kernel's, and of processes by their numbers' last bits. */
	uint32_t kernel, processes[PERF_MAPS_SLOTS];
	/* What was found lately, until something is added to that list. */
	struct perf_maps_found {
		uint32_t pid, file, head, kernel, map; /* number + 1; 0: empty */
		bool by_place;
	} found[PERF_MAPS_SLOTS];
	uint64_t n_steps;
};

void perf_maps_done(struct perf_maps *m); /* zeroed is empty, but p is to be set */
/* What the limits do not allow is left out. @kernel: it is in all processes. */
void perf_maps_add(struct perf_maps *m, uint32_t pid, bool kernel, const struct profile_mapping *mapping);
/* The new process has the maps of its parent. */
void perf_maps_fork(struct perf_maps *m, uint32_t child, uint32_t parent);
/*
 * The mapping of @p in which *addr is. With call chains perf prints places in files in place of addresses,
 * unless they are the kernel's; these become addresses again where it is known where @file (a string of @p)
 * was mapped. PROFILE_NONE: it is not known. -1: that took longer than anybody can want to wait, ERR_LIMIT.
 */
int perf_maps_find(struct perf_maps *m, uint32_t pid, uint32_t file, uint64_t *addr, uint32_t *ret,
		   struct err *err);
