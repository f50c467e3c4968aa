/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a profile store, also of one that a service is using: see copy.c. */
#pragma once

#include <stdint.h>
#include "base/err.h"

struct profilestore_copy_options {
	const char *dir; /* of the store */
	/*
	 * The folder of the copy, which is replaced as a whole; its parent is there. ERR_INVALID: it has something else, or
	 * profiles that are later than all of the store.
	 */
	const char *to;
	/*
	 * How far the WAL of the store may grow meanwhile, in bytes; 0: half of the room that its disk has, after the copy if
	 * that is on it, too. More is ERR_LIMIT, as is a copy for which that disk has no room.
	 */
	uint64_t max_wal;
	/* Bytes of the database; not 0: the copy ends with ERR_CANCELLED. NULL: none */
	int (*progress)(void *arg, uint64_t n_done, uint64_t n_all);
	void *arg;
};
/*
 * Copy the database and the notes of its store. All profiles are in the copy that were acknowledged before the call, and it is
 * on disk at the end. If this fails, or the process is killed, the former folder @to stays as it was; a new call removes the
 * remains. One call at a time for a @to. The store must not be open in this process.
 *
 * PROFILESTORE_NONE: there is no store. ERR_DAMAGED: a page is damaged, or the WAL of a service that was killed: the next start
 * of the service repairs that.
 */
enum { PROFILESTORE_NONE = 1 };
int profilestore_copy(const struct profilestore_copy_options *o, uint64_t *ret_size, struct err *err);
