/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded cache that evicts the least recently used entry. Keys are bytes, weights are bytes. Safe for many
 * threads.
 *
 * Values are shared: lru_get() returns a reference, which lru_unref() gives back; an evicted value is freed
 * with its last reference. The free callback runs outside of the lock.
 */
#pragma once

#include <stddef.h>
#include "base/view.h"

struct lru;
struct lru_ref; /* a reference to one value */

struct lru *lru_new(size_t max_weight, void (*free_value)(void *value));
void lru_free(struct lru *l); /* all references must be back */

/* A reference to the value under @key, or NULL. */
struct lru_ref *lru_get(struct lru *l, struct bytes key);
/*
 * Add a value, which the cache takes, and return a reference. If another thread added one under @key first,
 * @value is freed and the reference is to that one. A value heavier than the whole cache is not kept after
 * its last reference. Only the weight bounds the cache: include the cost of an entry besides its bytes.
 */
struct lru_ref *lru_put(struct lru *l, struct bytes key, void *value, size_t weight);
void *lru_value(struct lru_ref *h);
void lru_unref(struct lru *l, struct lru_ref *h); /* takes NULL */
void lru_del(struct lru *l, struct bytes key);    /* existing references stay valid */
/* Delete the entries whose value @drop wants to go. Called under a lock: it must be quick, and call nothing here. */
void lru_sweep(struct lru *l, bool (*drop)(void *arg, void *value), void *arg);
size_t lru_weight(struct lru *l);
size_t lru_max_weight(const struct lru *l);
