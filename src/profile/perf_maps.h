/* SPDX-License-Identifier: Apache-2.0 */
/* Where files are mapped, by process, from perf's events as samples go by: the newest event counts. */
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
	/* Lists, the newest first: of the kernel, and of processes, by the last bits of their numbers. */
	uint32_t kernel, processes[PERF_MAPS_SLOTS];
	/* A recent result, until something is added to that list. */
	struct perf_maps_found {
		uint32_t pid, file, head, kernel, map; /* number + 1; 0: empty */
		bool by_place, flat;
	} found[PERF_MAPS_SLOTS];
	uint64_t n_steps;
	bool flat; /* set by the caller: the frame is the one of a sample without a call chain, which has its address */
	uint64_t n_offsets, n_addresses; /* look-ups that only a file offset, only an address could be */
};

void perf_maps_done(struct perf_maps *m); /* zeroed is empty, but p must be set */
/* Maps beyond the limits are left out. @kernel: it is in all processes. */
void perf_maps_add(struct perf_maps *m, uint32_t pid, bool kernel, const struct profile_mapping *mapping);
/* The new process has the maps of its parent. */
void perf_maps_fork(struct perf_maps *m, uint32_t child, uint32_t parent);
/*
 * The mapping of @p that contains *addr. With call chains perf prints file offsets in place of addresses,
 * except for the kernel's; they are converted back if it is known where @file (a string of @p) was mapped. A number
 * that may be both is taken for the kind that the other look-ups had.
 * PROFILE_NONE: not known. -1: the look-ups have taken too long, ERR_LIMIT.
 */
int perf_maps_find(struct perf_maps *m, uint32_t pid, uint32_t file, uint64_t *addr, uint32_t *ret,
		   struct err *err);
