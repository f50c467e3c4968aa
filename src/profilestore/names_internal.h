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
 * Naming of one binary that has, or had, locations without names. Freed when a sweep finds no location of it, and
 * no reader sees it.
 */
struct named_binary {
	uint32_t slot;   /* its place in `tracked` */
	uint32_t binary; /* changed by a sweep, under the lock */
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
	atomic_uint_fast64_t n_namings; /* profilestore_n_namings() */
	struct column tracked;          /* struct named_binary *, or NULL; changed under the lock */
	pthread_mutex_t lock;
	/* under the lock */
	struct map by_key; /* build ID or file -> struct named_binary */
	uint64_t n_due;    /* looks that became due */
	void (*fn)(void *arg);
	void *arg;
	/* during a sweep: the locations that got other names */
	struct {
		bool on;
		uint32_t *v;
		size_t n, room;
	} renamed;
	/* of the writer's thread */
	uint32_t *added; /* binaries with locations that are not in their lists yet */
	size_t n_added, added_room;
};

/* ---- names.c ---- */

/* NULL: it has no locations to be named. */
struct named_binary *names_binary(const struct profilestore *s, const struct meta *m, uint32_t binary);
bool look_is_due(const struct named_binary *t);
void names_due_look(struct names *n, struct named_binary *t); /* under the lock */
/* Note the outcome of a try, or of a look. Under the lock. */
void names_tried(struct names *n, struct named_binary *t, const struct profilestore_tried *tried);
/*
 * Binaries are known to others by an id that no sweep changes: the place in `tracked`, + 1, or 0 for locations
 * without a mapping. NULL: it is gone.
 */
struct named_binary *names_of_id(const struct profilestore *s, uint32_t id);
static inline uint32_t names_id(const struct named_binary *t)
{
	return t->binary ? t->slot + 1 : 0;
}
static inline struct named_binary *names_at(const struct names *n, uint32_t slot)
{
	return __atomic_load_n((struct named_binary **)column_at(&n->tracked, slot), __ATOMIC_ACQUIRE);
}
/* The state of naming the binary, a new one if need be. Under the lock. NULL: no memory. */
struct named_binary *names_track(struct profilestore *s, uint32_t binary);
void named_binary_free(void *t); /* takes NULL */
/* The key of `by_key`: a binary with a build ID is known by it, others by their file. */
void names_key(struct str file, struct str build_id, struct buf *out);
/* names_write.c: in the writer's thread: write the row of @t, with the outcome of a try, or NULL, as it is now. */
int names_write_binary(struct profilestore *s, const struct named_binary *t, int64_t key,
		       const struct profilestore_tried *tried, struct err *err);

/* ---- names_wanted.c: all but the first two under the lock ---- */

/* The names that a location got after it came in. */
struct meta_names location_names(const struct meta *m, uint32_t location);
bool location_is_wanted(const struct meta *m, const struct named_binary *t, uint32_t location);
uint32_t wanted_count(const struct named_binary *t);
/* Add the locations that came in since the last call. */
void wanted_add_new(struct profilestore *s, struct named_binary *t);
/* The generation has changed: look at all locations again. */
void wanted_add_all(struct profilestore *s, struct named_binary *t);
/* Drop locations that were looked up from the beginning of the list: these are asked for first. */
void wanted_shorten(struct profilestore *s, struct named_binary *t);
