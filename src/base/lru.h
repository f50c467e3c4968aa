/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded map that forgets what was not used for longest. Keyed by bytes, weighed in bytes, safe for many
 * threads.
 *
 * Values are shared: lru_get() takes a hold that lru_drop() gives back; a value that is thrown out is freed
 * when its last hold is gone. The free callback runs outside of the lock.
 */
#pragma once

#include <stddef.h>
#include "base/view.h"

struct lru;
struct lru_hold; /* one value, held */

struct lru *lru_new(size_t max_weight, void (*free_value)(void *value));
void lru_free(struct lru *l); /* all holds must be back */

/* The value under @key, held, or NULL. */
struct lru_hold *lru_get(struct lru *l, struct bytes key);
/*
 * Put a value, which the cache takes, and hold it. If another came first under that key, @value is freed and
 * the other is held instead. A value heavier than the whole cache is held but not kept. Nothing but the
 * weight bounds the cache: count in what a value costs beside its bytes.
 */
struct lru_hold *lru_put(struct lru *l, struct bytes key, void *value, size_t weight);
void *lru_value(struct lru_hold *h);
void lru_drop(struct lru *l, struct lru_hold *h); /* takes NULL */
void lru_del(struct lru *l, struct bytes key);    /* forget it; holders keep it */
size_t lru_weight(struct lru *l);
