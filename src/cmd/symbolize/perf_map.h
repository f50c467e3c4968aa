/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that a process made while it ran, as it wrote them for perf: /tmp/perf-PID.map, with a line
 * "START SIZE NAME" for each function, both numbers in hexadecimal.
 */
#pragma once

#include "base/base.h"

#define PERF_MAP_MAX       MIB(64)
#define PERF_MAP_ENTRIES   (2u << 20)
#define PERF_MAP_NAME_SIZE 4096u

struct perf_map_entry {
	uint64_t start, size;
	struct str name; /* in the map's text */
	uint32_t line;
};

struct perf_map {
	struct buf text;
	struct perf_map_entry *list; /* sorted by start */
	size_t n, room;
};

/* Parse the text of @m. Lines that are not of this form are skipped; control characters of names become '?'. */
void perf_map_parse(struct perf_map *m);
/* The function at @addr; where a later line of the file has the same code, that of this line. NULL: none. */
const struct perf_map_entry *perf_map_at(const struct perf_map *m, uint64_t addr);
void perf_map_done(struct perf_map *m);

/*
 * Read and parse the map of the process @pid: in its own file system, with its number there. Only a regular file
 * of at most PERF_MAP_MAX bytes that belongs to the user of the process or to root is read. 1: there is none.
 */
int perf_map_read(struct perf_map *m, const char *pid, struct err *err);
