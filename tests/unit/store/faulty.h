/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs over other ones, that count, fail and damage: a disk that is full, a process that is killed, a bucket that is away.
 */
#pragma once

#include "test.h"

#include <stdatomic.h>
#include "store/blob.h"

struct faulty {
	struct blobs blobs;
	struct blobs *under;
	int os;           /* of the failures; ENOTCONN at first: they are away */
	atomic_bool away; /* every call fails, and so does each read */
	/* So many calls of those that change something succeed, then all calls fail; negative: no end. */
	_Atomic int left;
	atomic_int n_damaged; /* so many blobs that are opened next have a flipped byte */
	atomic_bool removed;  /* open() and stat() say that nothing is there */
	_Atomic uint64_t n_opens, n_gets, n_stats, n_bytes;
};

/* Takes @under. */
struct faulty *faulty_new(struct blobs *under);
