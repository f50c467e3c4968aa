/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other processes, read in a thread of its own. Reading a page that a file system of the process's user backs (FUSE)
 * lasts until that user's program answers, and no signal but SIGKILL ends it. Such a thread is left alone, and another one
 * takes its place.
 */
#pragma once

#include "base/base.h"

#define PROCESS_MEMORY_WAIT_MS   200
#define PROCESS_MEMORY_MAX_STUCK 8u       /* threads that do not come back; then no memory is read */
#define PROCESS_MEMORY_LATE      SIZE_MAX /* the bytes did not come in time */

struct process_memory;
struct process_memory *process_memory_new(void);
void process_memory_free(struct process_memory *m); /* does not wait for a thread that is stuck. Takes NULL */
/* The bytes read, 0 on failure, or PROCESS_MEMORY_LATE. Belongs to one thread. @arg: struct process_memory */
size_t process_memory_read(void *arg, uint32_t pid, uint64_t address, void *to, size_t size);
