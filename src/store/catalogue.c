/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all records say, in memory: so that a path is looked for without reading every record, and so that a
 * page may show figures as often as it likes.
 *
 * A walk puts what it meets; who writes or removes a record puts or removes it here. So an object that
 * another process wrote or removed is not known, or known in vain, until the next walk.
 */
#include "store/internal.h"

#include <assert.h>
#include <stdlib.h>

static_assert(offsetof(struct build_id, b) == 1, "a build ID is its size and so many bytes");

struct entry {
	uint64_t met; /* the walk that was the last one when it was put */
	uint64_t stored_size, size;
	int64_t created;
	const char *id; /* behind the texts: its size, its bytes; NULL: neither a debug file nor a program */
	uint8_t kind, origin, quality;
	uint16_t n_file, n_archive, n_from;
	char text[]; /* file, archive, from */
};

struct catalogue {
	pthread_mutex_t lock;
	/* under the lock */
	struct map by_name; /* of entries */
	uint64_t walks;
	struct store_figures figures;
};

struct catalogue *catalogue_new(void)
{
	struct catalogue *c = NEW(struct catalogue);

	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void catalogue_free(struct catalogue *c)
{
	struct bytes key;
	void *e;

	if (!c)
		return;
	map_each (&c->by_name, it, &key, &e)
		free(e);
	map_done(&c->by_name);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static uint16_t short_size(struct str s)
{
	return (uint16_t)MIN(s.size, (size_t)UINT16_MAX);
}

static char *add_text(char *at, struct str s, uint16_t n)
{
	if (n)
		memcpy(at, s.p, n);
	return at + n;
}

static struct entry *entry_new(const struct store_key *key, const struct store_meta *meta)
{
	/* Sources and sections are counted, not looked for. */
	bool named = key->kind == STORE_DEBUGINFO || key->kind == STORE_EXECUTABLE;
	uint16_t file = named ? short_size(meta->file) : 0, archive = named ? short_size(meta->archive) : 0;
	uint16_t from = named ? short_size(meta->from) : 0;
	size_t id = named ? 1u + key->id.size : 0;
	struct entry *e = mem_alloc(sizeof(*e) + file + archive + from + id);
	char *at = e->text;

	*e = (struct entry){
		.stored_size = meta->stored_size,
		.size = meta->size,
		.created = meta->created,
		.kind = (uint8_t)key->kind,
		.origin = (uint8_t)meta->origin,
		.quality = (uint8_t)meta->quality,
		.n_file = file,
		.n_archive = archive,
		.n_from = from,
	};
	at = add_text(at, meta->file, file);
	at = add_text(at, meta->archive, archive);
	at = add_text(at, meta->from, from);
	if (id) {
		memcpy(at, &key->id, id);
		e->id = at;
	}
	return e;
}

/* Under the lock. */
static void count(struct catalogue *c, const struct entry *e, int sign)
{
	c->figures.n[e->origin] += (uint64_t)(int64_t)sign;
	c->figures.bytes[e->origin] += sign < 0 ? -e->stored_size : e->stored_size;
}

/* Under the lock. Takes @e, which may be NULL. */
static void drop(struct catalogue *c, struct entry *e)
{
	if (e)
		count(c, e, -1);
	free(e);
}

void catalogue_put(struct catalogue *c, const char *name, const struct store_key *key,
		   const struct store_meta *meta)
{
	struct entry *e;

	if (!c)
		return;
	e = entry_new(key, meta);
	pthread_mutex_lock(&c->lock);
	e->met = c->walks;
	drop(c, map_put(&c->by_name, bytes_of(name, strlen(name)), e));
	count(c, e, 1);
	pthread_mutex_unlock(&c->lock);
}

void catalogue_del(struct catalogue *c, const char *name)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	drop(c, map_del(&c->by_name, bytes_of(name, strlen(name))));
	pthread_mutex_unlock(&c->lock);
}

/* ---- walks ---- */

uint64_t catalogue_walk(struct catalogue *c)
{
	uint64_t walk;

	if (!c)
		return 0;
	pthread_mutex_lock(&c->lock);
	walk = ++c->walks;
	pthread_mutex_unlock(&c->lock);
	return walk;
}

static char **names_before(struct catalogue *c, uint64_t walk, size_t *ret_n)
{
	char **names = NEW_N(char *, c->by_name.n + 1);
	struct bytes key;
	size_t n = 0;
	void *e;

	map_each (&c->by_name, it, &key, &e)
		if (((struct entry *)e)->met < walk)
			names[n++] = mem_strndup((const char *)key.p, key.size);
	*ret_n = n;
	return names;
}

void catalogue_walked(struct catalogue *c, uint64_t walk)
{
	char **names;
	size_t n;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	names = names_before(c, walk, &n);
	for (size_t i = 0; i < n; i++) {
		drop(c, map_del(&c->by_name, bytes_of(names[i], strlen(names[i]))));
		free(names[i]);
	}
	c->figures.all = true;
	pthread_mutex_unlock(&c->lock);
	free(names);
}

/* ---- looking ---- */

struct found {
	struct str name; /* the map's key */
	const struct entry *e;
};

static int by_name(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return str_cmp(x->name, y->name);
}

static int by_age(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->e->created != y->e->created)
		return x->e->created > y->e->created ? -1 : 1;
	return str_cmp(x->name, y->name);
}

/* Under the lock: copies of the first @max of them. */
static void copy_out(const struct found *list, size_t n, size_t max, struct arena *a,
		     struct store_known **ret, size_t *ret_n)
{
	n = MIN(n, max);
	*ret = ARENA_NEW_N(a, struct store_known, n + 1);
	for (size_t i = 0; i < n; i++) {
		const struct entry *e = list[i].e;
		const char *file = e->text, *archive = file + e->n_file, *from = archive + e->n_archive;
		struct store_known *k = &(*ret)[i];

		*k = (struct store_known){
			.name = arena_str(a, list[i].name),
			.key.kind = (enum store_kind)e->kind,
			.origin = (enum store_origin)e->origin,
			.quality = (enum store_quality)e->quality,
			.created = e->created,
			.size = e->size,
			.file = arena_str(a, (struct str){ file, e->n_file }),
			.archive = arena_str(a, (struct str){ archive, e->n_archive }),
			.from = arena_str(a, (struct str){ from, e->n_from }),
		};
		memcpy(&k->key.id, e->id, 1u + (uint8_t)e->id[0]);
	}
	*ret_n = n;
}

/* A store without a thread of its own has nobody who walks. */
static int know(struct store *st, struct err *err)
{
	struct census census;
	bool all;

	pthread_mutex_lock(&st->catalogue->lock);
	all = st->catalogue->figures.all;
	pthread_mutex_unlock(&st->catalogue->lock);
	if (all || st->maintain)
		return 0;
	if (census_take(st, &census, NULL, NULL, err) < 0)
		return -1;
	census_done(&census);
	return 0;
}

int store_names(struct store *st, bool (*match)(void *arg, struct str file), void *arg, struct str after,
		size_t max, struct arena *a, struct store_known **ret, size_t *ret_n, bool *ret_all,
		struct err *err)
{
	struct catalogue *c = st->catalogue;
	struct found *list = NULL;
	size_t n = 0, room = 0;
	struct bytes key;
	void *value;

	*ret_n = 0;
	*ret_all = false;
	if (!c)
		return 0;
	if (know(st, err) < 0)
		return -1;
	pthread_mutex_lock(&c->lock);
	map_each (&c->by_name, it, &key, &value) {
		const struct entry *e = value;
		struct str name = { (const char *)key.p, key.size };

		if (!e->id || str_cmp(name, after) <= 0 || !match(arg, (struct str){ e->text, e->n_file }))
			continue;
		if (n == room) {
			room = MAX(2 * room, (size_t)64);
			list = mem_realloc(list, room, sizeof(*list));
		}
		list[n++] = (struct found){ name, e };
	}
	if (n)
		qsort(list, n, sizeof(*list), by_name);
	copy_out(list, n, max, a, ret, ret_n);
	*ret_all = c->figures.all;
	pthread_mutex_unlock(&c->lock);
	free(list);
	return 0;
}

void store_latest(struct store *st, enum store_origin origin, size_t max, struct arena *a,
		  struct store_known **ret, size_t *ret_n)
{
	struct catalogue *c = st->catalogue;
	struct found *list;
	struct bytes key;
	size_t n = 0;
	void *value;

	*ret_n = 0;
	if (!c)
		return;
	list = NEW_N(struct found, max + 1);
	pthread_mutex_lock(&c->lock);
	map_each (&c->by_name, it, &key, &value) {
		struct found f = { { (const char *)key.p, key.size }, value };
		size_t at = n;

		if (!f.e->id || f.e->origin != origin)
			continue;
		/* Kept in order: who is behind the last one is not wanted. */
		while (at > 0 && by_age(&f, &list[at - 1]) < 0)
			at--;
		if (at == max)
			continue;
		memmove(list + at + 1, list + at, (MIN(n, max - 1) - at) * sizeof(*list));
		list[at] = f;
		n = MIN(n + 1, max);
	}
	copy_out(list, n, max, a, ret, ret_n);
	pthread_mutex_unlock(&c->lock);
	free(list);
}

void store_figures(struct store *st, struct store_figures *ret)
{
	struct catalogue *c = st->catalogue;

	*ret = (struct store_figures){ .all = false };
	if (c) {
		pthread_mutex_lock(&c->lock);
		*ret = c->figures;
		pthread_mutex_unlock(&c->lock);
	}
	pack_figures(st->pack, &ret->n_waiting, &ret->waiting);
	ret->used_known = store_usage(st, &ret->used);
	ret->quota = st->opts.quota;
}
