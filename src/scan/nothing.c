/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that hold nothing for us: most of a tree. They have no row in the index; here is a 64-bit fingerprint
 * of each, so that the next walk does not open them again. Lost at exit, which costs one walk that opens
 * them.
 */
#include <stdlib.h>
#include "scan/internal.h"

struct nothing {
	pthread_mutex_t lock;
	uint64_t *slots; /* open addressing; 0: empty. All under lock */
	size_t n, n_slots;
};

struct nothing *nothing_new(void)
{
	struct nothing *n = NEW(struct nothing);

	pthread_mutex_init(&n->lock, NULL);
	n->n_slots = 1024;
	n->slots = mem_zalloc(n->n_slots * sizeof(*n->slots));
	return n;
}

void nothing_free(struct nothing *n)
{
	if (!n)
		return;
	pthread_mutex_destroy(&n->lock);
	free(n->slots);
	free(n);
}

static uint64_t fingerprint(const char *path, const struct stat *st)
{
	uint64_t facts[4] = {
		(uint64_t)st->st_size,
		(uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec,
		st->st_ino,
		st->st_dev,
	};
	uint64_t h = hash64(path, strlen(path), hash64(facts, sizeof(facts), 0));

	return h ? h : 1;
}

static uint64_t *slot(uint64_t *slots, size_t n_slots, uint64_t h)
{
	size_t i = h & (n_slots - 1);

	while (slots[i] && slots[i] != h)
		i = (i + 1) & (n_slots - 1);
	return &slots[i];
}

bool nothing_has(struct nothing *n, const char *path, const struct stat *st)
{
	uint64_t h = fingerprint(path, st);
	bool has;

	pthread_mutex_lock(&n->lock);
	has = *slot(n->slots, n->n_slots, h) == h;
	pthread_mutex_unlock(&n->lock);
	return has;
}

static void grow(struct nothing *n)
{
	size_t n_slots = 2 * n->n_slots;
	uint64_t *slots;

	if (n->n_slots >= 2 * (size_t)SCAN_MAX_NOTHING) {
		/* Full: start anew. Changed files have left their old fingerprints behind. */
		memset(n->slots, 0, n->n_slots * sizeof(*n->slots));
		n->n = 0;
		return;
	}
	slots = mem_zalloc(n_slots * sizeof(*slots));
	for (size_t i = 0; i < n->n_slots; i++)
		if (n->slots[i])
			*slot(slots, n_slots, n->slots[i]) = n->slots[i];
	free(n->slots);
	n->slots = slots;
	n->n_slots = n_slots;
}

void nothing_add(struct nothing *n, const char *path, const struct stat *st)
{
	uint64_t h = fingerprint(path, st), *at;

	pthread_mutex_lock(&n->lock);
	if (2 * n->n >= n->n_slots)
		grow(n);
	at = slot(n->slots, n->n_slots, h);
	if (!*at) {
		*at = h;
		n->n++;
	}
	pthread_mutex_unlock(&n->lock);
}
