/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that a process made while it ran, as it wrote them for perf: /tmp/perf-PID.map, with a line
 * "START SIZE NAME" for each function, both numbers in hexadecimal. A running process appends to it.
 */
#pragma once

#include "base/base.h"

#define PERF_MAP_MAX       MIB(64) /* bytes of a file */
#define PERF_MAP_ENTRIES   (2u << 20)
#define PERF_MAP_NAME_SIZE 4096u

struct perf_map_entry {
	uint64_t start, size;
	uint32_t name, name_size; /* in the map's names */
	uint32_t line;            /* of the file */
	/* The last one before it, in their order, that ends after its start: number + 1; 0: none. */
	uint32_t around;
};

/* Zeroed is empty. */
struct perf_map {
	struct perf_map_entry *list; /* sorted by start */
	size_t n, room;
	struct buf names;
	uint32_t n_lines;
	/* of perf_map_update() */
	uint64_t device, inode, off; /* the file, and how much of it was read */
	int64_t changed_ns;
	uint64_t head_mark, tail_mark; /* hashes of the first and of the last bytes that were read */
	bool cut;                      /* there was more than may be kept */
};

/*
 * Add the whole lines of @text; returns the bytes of them. @end: the last line may lack its end. Lines that are not of this
 * form are skipped; control characters of names become '?'. perf_map_sort() follows.
 */
size_t perf_map_feed(struct perf_map *m, struct str text, bool end);
void perf_map_sort(struct perf_map *m);
static inline struct str perf_map_name(const struct perf_map *m, const struct perf_map_entry *e)
{
	return (struct str){ (const char *)m->names.p + e->name, e->name_size };
}
/* The function at @addr; where a later line of the file has the same code, that of this line. NULL: none. */
const struct perf_map_entry *perf_map_at(const struct perf_map *m, uint64_t addr);
void perf_map_done(struct perf_map *m);

struct perf_map_limits {
	uint64_t max_file;  /* bytes of the file that are read */
	uint64_t max_names; /* bytes of names that are kept */
	size_t max_entries;
};
/*
 * Read the map of the process @pid: in its own file system, with its number there. Only a regular file
 * that belongs to the user of the process or to root is read. 1: there is none. A larger file than PERF_MAP_MAX is ERR_LIMIT.
 */
int perf_map_read(struct perf_map *m, const char *pid, struct err *err);
/*
 * Read the lines that the process has written since the last call, or all of them if it began another file, or wrote this one
 * again, as Java does. Entries over a limit are left out, and m->cut is set. 0: there are new entries; 1: nothing is new.
 */
int perf_map_update(struct perf_map *m, const char *pid, const struct perf_map_limits *limits,
		    struct err *err);
