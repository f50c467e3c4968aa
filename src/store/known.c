/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts that this process has made sure of, so that it does so once: which records are on disk together with
 * their contents, which contents are whole, and which are damaged.
 *
 * A fact is about one version: the bytes of a record and the file of its content, or the file of a content with its size
 * and time. Another version, also one that another process has put, is not known.
 */
#include "store/internal.h"

#define KNOWN_MAX 500000u /* facts of a kind, about 100 bytes each; then they are found out anew */

/* What identifies a fact. */
struct known_key {
	uint64_t name[2], a, b, c;
};

static struct known_key known_key_of(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
	size_t n = strlen(name);

	return (struct known_key){ { hash64(name, n, 0), hash64(name, n, 1) }, a, b, c };
}

static struct known_key record_fact(const char *name, const struct store_record *record, uint64_t content)
{
	return known_key_of(name, record->sum, record->stamp.id, content);
}

static struct known_key content_fact(const struct known *k, const char *name, const struct blob_stamp *stamp)
{
	return known_key_of(name, stamp->id, stamp->size, k->by_id ? 0 : (uint64_t)stamp->time_ns);
}

static void known_add(struct known *k, struct map *m, struct known_key key)
{
	pthread_mutex_lock(&k->lock);
	if (m->n >= KNOWN_MAX)
		map_done(m);
	map_put(m, bytes_of(&key, sizeof(key)), k);
	pthread_mutex_unlock(&k->lock);
}

static bool known_has(struct known *k, struct map *m, struct known_key key)
{
	bool there;

	pthread_mutex_lock(&k->lock);
	there = map_get(m, bytes_of(&key, sizeof(key))) != NULL;
	pthread_mutex_unlock(&k->lock);
	return there;
}

void known_init(struct known *k, bool by_id)
{
	k->by_id = by_id;
	pthread_mutex_init(&k->lock, NULL);
}

void known_done(struct known *k)
{
	map_done(&k->durable);
	map_done(&k->whole);
	map_done(&k->damaged);
	pthread_mutex_destroy(&k->lock);
}

void known_durable_add(struct known *k, const char *name, const struct store_record *record, uint64_t content)
{
	known_add(k, &k->durable, record_fact(name, record, content));
}

bool known_durable(struct known *k, const char *name, const struct store_record *record, uint64_t content)
{
	return content && known_has(k, &k->durable, record_fact(name, record, content));
}

void known_content_add(struct known *k, const char *name, const struct blob_stamp *stamp, bool whole)
{
	known_add(k, whole ? &k->whole : &k->damaged, content_fact(k, name, stamp));
}

void known_content_forget(struct known *k, const char *name, const struct blob_stamp *stamp)
{
	struct known_key key = content_fact(k, name, stamp);

	pthread_mutex_lock(&k->lock);
	map_del(&k->whole, bytes_of(&key, sizeof(key)));
	pthread_mutex_unlock(&k->lock);
}

enum known_state known_content(struct known *k, const char *name, const struct blob_stamp *stamp)
{
	struct known_key key = content_fact(k, name, stamp);

	if (known_has(k, &k->damaged, key))
		return KNOWN_DAMAGED;
	return known_has(k, &k->whole, key) ? KNOWN_WHOLE : KNOWN_NOTHING;
}
