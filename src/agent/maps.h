/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/maps: the files that a process has mapped as code. The text is partly made by the process: it chooses the
 * names, the number of mappings, and when they change.
 */
#pragma once

#include "base/base.h"

#define MAPS_MAX_BYTES ((uint64_t)64 << 20) /* of one process; the rest is not read */
#define MAPS_MAX_CODE  131072u              /* mappings of code that are kept of one process */
#define MAPS_MAX_MADE  122880u              /* so many of them without a file */
#define MAPS_MAX_ALL   ((size_t)1 << 20)    /* of all processes, as many as the sampler takes */
#define MAPS_OWN       64u                  /* with a file: kept for each of 8192 processes */
#define MAPS_SHARED    (MAPS_MAX_ALL / 2)   /* once there are so many, only those that are a process's own */

/*
 * Whether a further mapping of code is kept, beside @n_kept of the process and @n_all of all processes. One without a file
 * has less room: its code has no rows, and libraries, which have the highest addresses, are worth more. The first MAPS_OWN
 * are the process's own: so processes with many mappings leave others theirs.
 */
bool maps_have_room(size_t n_kept, size_t n_all, bool has_file);

/* A line of the file. */
struct maps_line {
	uint64_t start, limit, offset, inode;
	uint32_t major, minor; /* of the device */
	bool exec, deleted;
	struct str
		path; /* in the line; as the kernel escapes it, without " (deleted)"; empty: anonymous memory */
};

/* false: not a line of /proc/PID/maps. */
bool maps_line_parse(struct str line, struct maps_line *ret);
/* Append the name of a file as it is on disk: the kernel writes a line feed as \012. */
void maps_path(struct str escaped, struct buf *out);

/*
 * Read @fd from its start, and call @fn for every mapping that may be executed, in rising order. A mapping that overlaps the
 * one before is left out: the process changed it between two reads. A return of @fn other than 0 ends the reading, and is
 * returned. ERR_LIMIT: more than MAPS_MAX_BYTES.
 */
int maps_read(int fd, int (*fn)(void *arg, const struct maps_line *line), void *arg, struct err *err);
/* The same over text in memory. *ret_used: the bytes of whole lines; @end: there is no more text. */
struct maps_reader {
	int (*fn)(void *arg, const struct maps_line *line);
	void *arg;
	uint64_t last; /* the end of the last mapping */
};
int maps_feed(struct maps_reader *r, struct str text, bool end, size_t *ret_used);
