/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of builds. A build begins when memory by the size of its files is free, or when no other is running;
 * then it is granted more as it grows, and may wait for others that end. One that is refused because all wait for
 * each other (ERR_BUSY) starts again after another has ended.
 */
#include <sys/statvfs.h>
#include "tables/internal.h"

/* A build needs a tenth of the size of an uncompressed file, and up to half of that of a compressed one. */
#define RESERVE_PART 8

#define GROW_WAIT_MS 30000

/* Of the free space where temporary copies are. */
#define DISK_PART  4
#define DISK_LEAST MIB(64)

struct budget *build_disk_new(const char *dir)
{
	struct statvfs vfs;
	uint64_t space = statvfs(dir, &vfs) == 0 ? (uint64_t)vfs.f_bavail * vfs.f_frsize : 0;

	return budget_new_undivided(MAX(space / DISK_PART, (uint64_t)DISK_LEAST));
}

bool build_memory_begin(struct build *b, uint64_t size)
{
	struct tables *t = b->tables;
	bool fits;

	budget_hold_init(&b->memory, t->opts.memory, BUDGET_TABLE);
	budget_hold_init(&b->disk, t->disk, BUDGET_TABLE);
	b->memory.wait_ms = GROW_WAIT_MS;
	b->memory.cancel = &t->cancel;
	pthread_mutex_lock(&t->lock);
	fits = budget_hold_reserve(&b->memory, size / RESERVE_PART) || !t->n_building;
	t->n_building += fits;
	b->parked = !fits;
	pthread_mutex_unlock(&t->lock);
	return fits;
}

bool build_memory_end(struct build *b, bool again)
{
	struct tables *t = b->tables;
	bool waits;

	budget_hold_done(&b->memory);
	budget_hold_done(&b->disk);
	pthread_mutex_lock(&t->lock);
	t->n_building--;
	for (struct build *o = t->first_build; o; o = o->next)
		if (o->parked) {
			o->parked = false;
			task_kick(&o->task);
		}
	waits = again && t->n_building;
	b->parked = waits;
	pthread_mutex_unlock(&t->lock);
	return waits;
}
