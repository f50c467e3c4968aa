/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by names.c and the files beside it.
 */
#pragma once

#include <pthread.h>
#include "profilestore/internal.h"

#define NAMES_MAX_LINES 4096u /* of a location */
/* A look without its table brings the next try forward, but only once in this time: a try asks other servers. */
#define NAMES_FORCED_MS 10000

/*
 * Naming of one binary that has, or had, locations without names. Never freed while the store is open.
 */
struct named_binary {
	uint32_t binary;
	/* changed under the lock, read without it */
	_Atomic int state; /* enum naming_state */
	/*
	 * Of the table that the binary is named by: 1 to 255, then 1 again. A location whose last look-up has
	 * another generation (meta_names.generation) is wanted.
	 */
	_Atomic uint8_t generation;
	_Atomic int64_t next_try_ms;
	/*
	 * Commits that brought wanted locations, since the store was opened; and of them, those that a look or
	 * a try has seen. A look is due where the two differ.
	 */
	_Atomic uint64_t n_added, n_looked;
	/* changed under the lock, while no names are being written; NULL: empty */
	char *why, *origin, *named_by;
	/* under the lock */
	uint32_t reason, n_tries;
	int64_t last_try_ms;
	int64_t forced_ms;     /* the last try that a look has brought forward */
	bool unsaved;          /* named_by and generation are not on disk yet */
	uint32_t n_wakes;      /* since the store was opened */
	uint32_t n_bare_named; /* of its bare locations: those that have a name by now */
	uint64_t due_since;    /* of a look that is due: its place in the order of all looks */
	struct wanted_locations {
		uint32_t *list; /* some may have been looked up since; those before `first` were */
		size_t first, n, room;
		/* the location, + 1, up to which `list` was filled; changed under the lock, read without it */
		_Atomic uint32_t seen;
	} wanted;
};

struct names {
	struct column tracked; /* struct named_binary *; added to under the lock */
	pthread_mutex_t lock;
	/* under the lock */
	struct map by_key; /* build ID or file -> struct named_binary */
	uint64_t n_due;    /* looks that became due */
	void (*fn)(void *arg);
	void *arg;
	/* of the writer's thread */
	uint32_t *added; /* binaries with locations that are not in their lists yet */
	size_t n_added, added_room;
};

/* ---- names.c ---- */

/* NULL: it has no locations to be named. */
struct named_binary *names_binary(const struct profilestore *s, const struct meta *m, uint32_t binary);
bool look_is_due(const struct named_binary *t);
/* Note the outcome of a try, or of a look. Under the lock. */
void names_tried(struct names *n, struct named_binary *t, const struct profilestore_tried *tried,
		 int64_t now_ms);

/* ---- names_wanted.c: all but the first two under the lock ---- */

/* The names that a location got after it came in. */
struct meta_names location_names(const struct meta_location *l);
bool location_is_wanted(const struct meta *m, const struct named_binary *t, uint32_t location);
uint32_t wanted_count(const struct named_binary *t);
/* Add the locations that came in since the last call. */
void wanted_add_new(struct profilestore *s, struct named_binary *t);
/* The generation has changed: look at all locations again. */
void wanted_add_all(struct profilestore *s, struct named_binary *t);
/* Drop locations that were looked up from the beginning of the list: these are asked for first. */
void wanted_shorten(struct profilestore *s, struct named_binary *t);
