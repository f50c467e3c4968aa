/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The LRU of entries, bounded by the bytes of tables that stay mapped.
 */
#include "tables/internal.h"

static void drop_entry(void *value)
{
	entry_unref(value);
}

struct lru *cache_new(size_t size)
{
	return lru_new(size, drop_entry);
}

static struct lru *cache_of(struct tables *t, const struct entry_key *key)
{
	return key->kind == ENTRY_LAYOUT ? t->layouts : t->entries;
}

struct tables_entry *cache_get(struct tables *t, const struct entry_key *key)
{
	struct lru *l = cache_of(t, key);
	struct lru_ref *held = lru_get(l, entry_key_bytes(key));
	struct tables_entry *e = held ? entry_ref(lru_value(held)) : NULL;

	lru_unref(l, held);
	return e;
}

struct tables_entry *cache_peek(struct tables *t, const struct entry_key *key, bool *ret_refresh)
{
	struct tables_entry *e = cache_get(t, key);
	bool expired = e && entry_is_expired(e);

	atomic_fetch_add(&t->n_wanted, 1);
	if (e && (atomic_load(&e->spoiled) || (expired && e->reason != FRAME_FOUND))) {
		entry_unref(e);
		return NULL;
	}
	atomic_fetch_add(&t->n_hits, e != NULL);
	*ret_refresh = expired;
	return e;
}

void cache_put(struct tables *t, struct tables_entry *e)
{
	struct lru *l = cache_of(t, &e->key);

	lru_del(l, entry_key_bytes(&e->key));
	lru_unref(l, lru_put(l, entry_key_bytes(&e->key), entry_ref(e), e->weight));
}

struct tables_entry *cache_put_absent(struct tables *t, struct tables_entry *e)
{
	struct lru *l = cache_of(t, &e->key);
	struct lru_ref *held = lru_put(l, entry_key_bytes(&e->key), e, e->weight);

	e = entry_ref(lru_value(held));
	lru_unref(l, held);
	return e;
}
