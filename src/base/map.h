/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash map from byte keys to pointers. Keys are copied; values are the caller's. Belongs to one thread, or
 * is locked by its owner. Seeded per process, so that no input can choose its collisions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/view.h"

struct map_slot;

struct map {
	struct map_slot *slots;
	size_t n, n_slots, n_used;
};

void map_done(struct map *m); /* frees the keys; the values are the caller's. Zeroed is empty. */
void *map_get(const struct map *m, struct bytes key); /* NULL: none */
/* Returns the value that was there, else NULL. @value must not be NULL. */
void *map_put(struct map *m, struct bytes key, void *value);
void *map_del(struct map *m, struct bytes key); /* returns the removed value, else NULL */
/* *it starts at 0; no put or del during the iteration. */
bool map_next(const struct map *m, size_t *it, struct bytes *ret_key, void **ret_value);

#define map_each(m, it, key, value) for (size_t it = 0; map_next((m), &it, (key), (value));)
