/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free disk space that a service leaves alone. Files whose size depends on others (fetched files, temporary copies,
 * pushes, the cache) claim their space before they are written; a claim that would leave less free space than the
 * reserve is refused, so that the disk is never filled to its last byte and other work goes on.
 *
 * Space that was claimed and is not written yet counts as used: ten fetches do not each see the same free space.
 *
 * A room of NULL has no reserve.
 */
#pragma once

#include <stdint.h>
#include "base/err.h"

struct room;

/* @min_free: in bytes; 0: a twentieth of the file system, at most 1 GiB. */
struct room *room_new(uint64_t min_free);
void room_free(struct room *r); /* takes NULL. All claims were released */

/* Space for one file. Zeroed: none. It belongs to one thread at a time. */
struct room_claim {
	struct room *room;
	uint64_t claimed, written;
};
/*
 * Claim @size bytes in all for the file of @fd (or the folder of @fd). ERR_LIMIT with ENOSPC: that would leave too
 * little; earlier claims stay.
 */
int room_claim(struct room *r, struct room_claim *c, int fd, uint64_t size, struct err *err);
void room_written(struct room_claim *c, uint64_t size); /* so many bytes of it are on the file system now */
void room_release(struct room_claim *c);                /* the file is whole, or gone */
