/* SPDX-License-Identifier: Apache-2.0 */
#include "base/room.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include "base/mem.h"

#define USUAL_PART 20
#define USUAL_MAX  ((uint64_t)1 << 30)

struct room {
	uint64_t min_free;
	_Atomic uint64_t pending; /* claimed and not written, of all claims */
};

struct room *room_new(uint64_t min_free)
{
	struct room *r = NEW(struct room);

	r->min_free = min_free;
	atomic_init(&r->pending, 0);
	return r;
}

void room_free(struct room *r)
{
	free(r);
}

static uint64_t room_reserve(const struct room *r, const struct statvfs *fs)
{
	uint64_t usual = (uint64_t)fs->f_blocks * fs->f_frsize / USUAL_PART;

	if (r->min_free)
		return r->min_free;
	return usual < USUAL_MAX ? usual : USUAL_MAX;
}

int room_claim(struct room *r, struct room_claim *c, int fd, uint64_t size, struct err *err)
{
	uint64_t more = size > c->claimed ? size - c->claimed : 0, pending, reserve, there;
	struct statvfs fs;

	/* A file system that does not say has to be believed. */
	if (!r || !more || fstatvfs(fd, &fs) < 0)
		return 0;
	there = (uint64_t)fs.f_bavail * fs.f_frsize;
	reserve = room_reserve(r, &fs);
	pending = atomic_fetch_add(&r->pending, more);
	if (there < reserve || there - reserve < pending || there - reserve - pending < more) {
		atomic_fetch_sub(&r->pending, more);
		(void)err_set(
			err, ERR_LIMIT,
			"the disk is nearly full: less than --min-free would be left; try again when there "
			"is room");
		if (err)
			err->os = ENOSPC;
		return -1;
	}
	c->room = r;
	c->claimed += more;
	return 0;
}

void room_written(struct room_claim *c, uint64_t size)
{
	if (!c->room || size <= c->written)
		return;
	if (size > c->claimed)
		size = c->claimed;
	atomic_fetch_sub(&c->room->pending, size - c->written);
	c->written = size;
}

void room_release(struct room_claim *c)
{
	room_written(c, c->claimed);
	*c = (struct room_claim){ 0 };
}
