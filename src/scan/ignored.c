/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files without anything to index: most of a tree. They have no row in the index; a 64-bit fingerprint of
 * each is kept in memory, so that the next walk does not open them again. The next process opens them once.
 */
#include <stdlib.h>
#include "base/hash_index.h"
#include "scan/internal.h"

#define SLOTS_MIN 1024u

struct ignored_files {
	pthread_mutex_t lock;
	/* under the lock */
	uint64_t *hashes;
	uint32_t n, room;
	struct hash_index by_hash;
};

struct ignored_files *ignored_new(void)
{
	struct ignored_files *g = NEW(struct ignored_files);

	pthread_mutex_init(&g->lock, NULL);
	return g;
}

void ignored_free(struct ignored_files *g)
{
	if (!g)
		return;
	pthread_mutex_destroy(&g->lock);
	free(g->by_hash.slots);
	free(g->hashes);
	free(g);
}

static uint64_t file_fingerprint(const char *path, const struct stat *st)
{
	uint64_t facts[4] = {
		(uint64_t)st->st_size,
		(uint64_t)file_mtime_ns(st),
		st->st_ino,
		st->st_dev,
	};

	return hash64(path, strlen(path), hash64(facts, sizeof(facts), 0));
}

bool ignored_has(struct ignored_files *g, const char *path, const struct stat *st)
{
	uint64_t h = file_fingerprint(path, st);
	uint32_t at, i;
	bool has;

	pthread_mutex_lock(&g->lock);
	has = g->n && HASH_INDEX_FIND(&g->by_hash, h, at, i, g->hashes[i] == h);
	pthread_mutex_unlock(&g->lock);
	return has;
}

/* Under the lock. false: no memory, so the file is not remembered. */
static bool ignored_reserve(struct ignored_files *g)
{
	uint64_t room = hash_index_room(&g->by_hash);

	if (g->n == SCAN_MAX_IGNORED) {
		/* Start anew: many fingerprints are of files that have changed since. */
		memset(g->by_hash.slots, 0, room * sizeof(*g->by_hash.slots));
		g->by_hash.n = g->n = 0;
	}
	return !hash_index_is_full(&g->by_hash) ||
	       HASH_INDEX_GROW(&g->by_hash, room ? 2 * room : SLOTS_MIN, i, g->hashes[i]);
}

void ignored_add(struct ignored_files *g, const char *path, const struct stat *st)
{
	uint64_t h = file_fingerprint(path, st);
	uint32_t at, i;

	pthread_mutex_lock(&g->lock);
	if (ignored_reserve(g) && !HASH_INDEX_FIND(&g->by_hash, h, at, i, g->hashes[i] == h)) {
		hash_index_put(&g->by_hash, at, g->n);
		VEC_PUSH(g->hashes, g->n, g->room) = h;
	}
	pthread_mutex_unlock(&g->lock);
}
