/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names.c and names_write.c share.
 */
#pragma once

#include <pthread.h>
#include "profilestore/internal.h"

#define BINARIES_MS     30000 /* for adding up what was spent in each */
#define NAMES_MAX_LINES 4096u /* of a location */

/* What is known of naming a binary that has had locations to be named. Never freed while the store is open.
 */
struct tracked {
	uint32_t binary;
	/* changed under the lock, read without it */
	_Atomic int state; /* enum naming_state */
	/* number of the table that it is named by; a location with another one is wanted */
	_Atomic uint8_t table;
	_Atomic int64_t next_try_ms;
	/* changed under the lock, while nobody else names; NULL: empty */
	char *why, *origin, *named_by;
	/* under the lock */
	uint32_t reason, n_tries;
	int64_t last_try_ms;
	bool unsaved;          /* named_by and table are not on disk yet */
	uint32_t n_wakes;      /* since the store was opened */
	uint32_t n_bare_named; /* of its bare locations, have a name all the same */
	uint32_t seen;         /* the location, + 1, up to which `wanted` was filled */
	uint32_t *wanted;      /* locations; those before `first` were looked up */
	size_t first, n_wanted, room;
};

struct names {
	struct column tracked; /* struct tracked *; added to under the lock */
	pthread_mutex_t lock;
	/* under the lock */
	struct map by_key; /* build ID or file -> struct tracked */
	void (*fn)(void *arg);
	void *arg;
	/* the writer's */
	uint32_t *added; /* binaries with locations that are not in their lists yet */
	size_t n_added, added_room;
};

/* NULL: nothing is to be named in it. */
struct tracked *names_of(const struct profilestore *s, uint32_t binary);
/* Both under the lock. */
void names_tried(struct tracked *t, const struct profilestore_tried *tried, int64_t now_ms);
/* What was looked up is taken from the list's beginning: those are asked for first. */
void names_shorten(struct profilestore *s, struct tracked *t);
