/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of Python's functions, read out of the memory of the process (process_memory.h), once for each code object. A
 * code object is known by its address and the hash that the sample has of it, so that another one that got the address
 * later, also between the sample and the reading, does not lend it its name.
 *
 * The memory is a stranger's: sizes are limited, and reading takes at most a share of the time.
 */
#pragma once

#include "agent/cost.h"
#include "agent/python_layout.h"
#include "agent/sampler.h"

#define PYTHON_MAX_NAME   512u /* characters */
#define PYTHON_MAX_FILE   1024u
#define PYTHON_MAX_TABLE  KIB(256) /* bytes of a line table; a function with a longer one has its first line */
#define PYTHON_MAX_CODES  16384u   /* of a process; then they are forgotten, and read again */
#define PYTHON_MAX_MEMORY MIB(8)   /* of a process, likewise */
#define PYTHON_ALL_MEMORY \
	MIB(32) /* of all processes; then those of the process that has most are forgotten */

/* Shared by all processes: what reading may take. Zeroed is new. */
struct python_reader {
	struct cost_share reading;
	size_t bytes;                 /* of all names */
	struct python_process *first; /* of all */
	uint64_t n_read, n_gone, n_late;
	/*
	 * Read @size bytes at @address; how many, or PROCESS_MEMORY_LATE: then the process is not read for a
	 * minute, the next time for longer (process_memory.h): a page that is swapped out may take as long as one that never
	 * comes. NULL: none can be read.
	 */
	size_t (*read)(void *arg, uint32_t pid, uint64_t address, void *to, size_t size);
	void *arg;
};

struct python_process;
struct python_process *python_process_new(struct python_reader *r, uint32_t pid,
					  const struct python_layout *layout);
void python_process_free(struct python_process *p); /* takes NULL */
const struct python_layout *python_process_layout(const struct python_process *p);

/* Views until the next call, for any process. */
struct python_function {
	struct str name, file;
	uint32_t line, first_line; /* line 0: there was no time to look it up */
};
enum {
	PYTHON_GONE = 1, /* the process or the code object is not there any more */
	PYTHON_LATE = 2, /* reading has used up its share, or just hung; try again with another sample */
};
int python_function_of(struct python_process *p, const struct sampler_python_frame *frame,
		       struct python_function *ret);
