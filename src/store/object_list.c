/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All records, in memory: so that a search for a path need not read every record, and the page may ask for
 * figures as often as it likes.
 *
 * A walk puts all records that it finds; a thread that writes or removes a record puts or deletes it here. So
 * an object that another process wrote or removed is missing, or listed in vain, until the next walk.
 */
#include "store/internal.h"

#include <assert.h>
#include <stdlib.h>

#define ALIKE_MAX 64u /* entries that are looked at for another object of a build ID */

static_assert(offsetof(struct build_id, b) == 1, "a build ID is its size and so many bytes");

struct list_entry {
	uint64_t met; /* number of the last walk when it was put */
	uint64_t stored_size, size;
	int64_t created;
	struct list_alias *aliases; /* owned; NULL: none */
	/* Of those whose build IDs begin with the same bytes. */
	struct list_entry *start_prev, *start_next;
	const char *id; /* after the texts: size and bytes of the build ID; NULL: neither a debug file nor a
			   program */
	uint8_t kind, origin, quality;
	uint16_t n_file, n_archive, n_from;
	char text[]; /* file, archive, from */
};

/* Other identities of an object: few have any, so they are apart. */
struct list_alias {
	struct build_id alias[1 + STORE_MAX_HASHES], id;
	int64_t created;
};

struct object_list {
	pthread_mutex_t lock;
	/* under the lock */
	struct map by_name;  /* of entries */
	struct map by_alias; /* -> struct list_alias of the oldest entry: no later push takes an alias over */
	struct map by_start; /* the first STORE_START_SIZE bytes of a build ID -> the first of its entries */
	uint64_t walks;
	struct store_figures figures;
};

struct object_list *object_list_new(void)
{
	struct object_list *c = NEW(struct object_list);

	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void object_list_free(struct object_list *c)
{
	struct bytes key;
	void *e;

	if (!c)
		return;
	map_each (&c->by_name, it, &key, &e) {
		free(((struct list_entry *)e)->aliases);
		free(e);
	}
	map_done(&c->by_name);
	map_done(&c->by_alias);
	map_done(&c->by_start);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static uint16_t entry_text_size(struct str s)
{
	return (uint16_t)MIN(s.size, (size_t)UINT16_MAX);
}

static char *entry_add_text(char *at, struct str s, uint16_t n)
{
	if (n)
		memcpy(at, s.p, n);
	return at + n;
}

static struct list_entry *list_entry_new(const struct store_key *key, const struct store_meta *meta)
{
	/* Sources and sections are only counted. */
	bool named = key->kind == STORE_DEBUGINFO || key->kind == STORE_EXECUTABLE;
	uint16_t file = named ? entry_text_size(meta->file) : 0,
		 archive = named ? entry_text_size(meta->archive) : 0;
	uint16_t from = named ? entry_text_size(meta->from) : 0;
	size_t id = named ? 1u + key->id.size : 0;
	struct list_entry *e = mem_alloc(sizeof(*e) + file + archive + from + id);
	char *at = e->text;

	*e = (struct list_entry){
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
	at = entry_add_text(at, meta->file, file);
	at = entry_add_text(at, meta->archive, archive);
	at = entry_add_text(at, meta->from, from);
	if (id) {
		memcpy(at, &key->id, id);
		e->id = at;
	}
	return e;
}

/* Under the lock. */
static void list_count(struct object_list *c, const struct list_entry *e, int sign)
{
	c->figures.n[e->origin] += (uint64_t)(int64_t)sign;
	c->figures.bytes[e->origin] += sign < 0 ? -e->stored_size : e->stored_size;
}

/* Under the lock. */
static void list_map_aliases(struct object_list *c, struct list_alias *a)
{
	for (size_t i = 0; i < ARRAY_SIZE(a->alias); i++) {
		const struct list_alias *has = map_get(&c->by_alias, build_id_bytes(&a->alias[i]));

		/* Of two objects of one build ID the older one counts, too: by the younger one's age another
		 * build ID could be first. */
		if (a->alias[i].size && (!has || a->created < has->created))
			map_put(&c->by_alias, build_id_bytes(&a->alias[i]), a);
	}
}

/* Under the lock. */
static void list_add_aliases(struct object_list *c, struct list_entry *e, const struct build_id *id,
			     const struct store_meta *meta)
{
	struct list_alias *a;

	if (!e->id || (!meta->go.size && !meta->hashes[0].size))
		return;
	a = e->aliases = NEW(struct list_alias);
	*a = (struct list_alias){ { meta->go }, *id, meta->created };
	memcpy(a->alias + 1, meta->hashes, sizeof(meta->hashes));
	list_map_aliases(c, a);
}

/* Empty: its build ID is shorter, or it is not listed by that. */
static struct bytes entry_start(const struct list_entry *e)
{
	return e->id && (uint8_t)e->id[0] >= STORE_START_SIZE ? bytes_of(e->id + 1, STORE_START_SIZE)
							      : (struct bytes){ 0 };
}

/*
 * Under the lock. The other object of the build ID takes over: a program keeps its alias when its debug file, the older one,
 * is removed. Of very many build IDs that begin alike, the next walk finds it.
 */
static void list_drop_aliases(struct object_list *c, struct list_entry *e)
{
	struct list_alias *a = TAKE(e->aliases);
	struct bytes start = entry_start(e);
	struct list_entry *other;
	bool any = false;

	for (size_t i = 0; a && i < ARRAY_SIZE(a->alias); i++) {
		if (!a->alias[i].size || map_get(&c->by_alias, build_id_bytes(&a->alias[i])) != a)
			continue;
		map_del(&c->by_alias, build_id_bytes(&a->alias[i]));
		any = true;
	}
	other = any && start.size ? map_get(&c->by_start, start) : NULL;
	for (unsigned n = 0; other && n < ALIKE_MAX; other = other->start_next, n++)
		if (other->aliases && build_id_eq(&other->aliases->id, &a->id))
			list_map_aliases(c, other->aliases);
	free(a);
}

/* Under the lock. */
static void list_add_start(struct object_list *c, struct list_entry *e)
{
	struct bytes start = entry_start(e);

	if (!start.size)
		return;
	e->start_next = map_put(&c->by_start, start, e);
	if (e->start_next)
		e->start_next->start_prev = e;
}

/* Under the lock. */
static void list_drop_start(struct object_list *c, const struct list_entry *e)
{
	struct bytes start = entry_start(e);

	if (!start.size)
		return;
	if (e->start_next)
		e->start_next->start_prev = e->start_prev;
	if (e->start_prev)
		e->start_prev->start_next = e->start_next;
	else if (e->start_next)
		map_put(&c->by_start, start, e->start_next);
	else
		map_del(&c->by_start, start);
}

/* Under the lock. Takes @e, which may be NULL. */
static void list_drop(struct object_list *c, struct list_entry *e)
{
	if (e) {
		list_count(c, e, -1);
		list_drop_aliases(c, e);
		list_drop_start(c, e);
	}
	free(e);
}

void object_list_put(struct object_list *c, const char *name, const struct store_key *key,
		     const struct store_meta *meta)
{
	struct list_entry *e;

	if (!c)
		return;
	e = list_entry_new(key, meta);
	pthread_mutex_lock(&c->lock);
	e->met = c->walks;
	list_drop(c, map_put(&c->by_name, bytes_of(name, strlen(name)), e));
	list_add_aliases(c, e, &key->id, meta);
	list_add_start(c, e);
	list_count(c, e, 1);
	pthread_mutex_unlock(&c->lock);
}

void object_list_del(struct object_list *c, const char *name)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	list_drop(c, map_del(&c->by_name, bytes_of(name, strlen(name))));
	pthread_mutex_unlock(&c->lock);
}

/* ---- walks ---- */

uint64_t object_list_walk(struct object_list *c)
{
	uint64_t walk;

	if (!c)
		return 0;
	pthread_mutex_lock(&c->lock);
	walk = ++c->walks;
	pthread_mutex_unlock(&c->lock);
	return walk;
}

static char **list_names_before(struct object_list *c, uint64_t walk, size_t *ret_n)
{
	char **names = NEW_N(char *, c->by_name.n + 1);
	struct bytes key;
	size_t n = 0;
	void *e;

	map_each (&c->by_name, it, &key, &e)
		if (((struct list_entry *)e)->met < walk)
			names[n++] = mem_strndup((const char *)key.p, key.size);
	*ret_n = n;
	return names;
}

void object_list_walked(struct object_list *c, uint64_t walk)
{
	char **names;
	size_t n;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	names = list_names_before(c, walk, &n);
	for (size_t i = 0; i < n; i++) {
		list_drop(c, map_del(&c->by_name, bytes_of(names[i], strlen(names[i]))));
		free(names[i]);
	}
	c->figures.all = true;
	pthread_mutex_unlock(&c->lock);
	free(names);
}

/* ---- looking ---- */

struct list_match {
	struct str name; /* the map's key */
	const struct list_entry *e;
};

static int match_by_name(const void *a, const void *b)
{
	const struct list_match *x = a, *y = b;

	return str_cmp(x->name, y->name);
}

static int match_by_age(const void *a, const void *b)
{
	const struct list_match *x = a, *y = b;

	if (x->e->created != y->e->created)
		return x->e->created > y->e->created ? -1 : 1;
	return str_cmp(x->name, y->name);
}

/* Under the lock: copy @n entries. */
static void match_copy(const struct list_match *list, size_t n, struct arena *a, struct store_known **ret,
		       size_t *ret_n)
{
	*ret = ARENA_NEW_N(a, struct store_known, n + 1);
	for (size_t i = 0; i < n; i++) {
		const struct list_entry *e = list[i].e;
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

bool object_list_is_complete(struct object_list *c)
{
	bool all;

	pthread_mutex_lock(&c->lock);
	all = c->figures.all;
	pthread_mutex_unlock(&c->lock);
	return all;
}

void object_list_names(struct object_list *c, const struct store_names_query *q, struct arena *a,
		       struct store_names *ret)
{
	struct list_match *list = NULL;
	size_t n = 0, room = 0;
	struct str last = { 0 }; /* no later name is on the page; NULL: not known yet */
	struct bytes key;
	void *value;

	pthread_mutex_lock(&c->lock);
	map_each (&c->by_name, it, &key, &value) {
		const struct list_entry *e = value;
		struct str name = { (const char *)key.p, key.size };

		if (!e->id || str_cmp(name, q->after) <= 0 || (last.p && str_cmp(name, last) > 0) ||
		    !q->match(q->arg, (struct str){ e->text, e->n_file }))
			continue;
		VEC_PUSH(list, n, room) = (struct list_match){ name, e };
		/* Sorting all matches for each page would hold up everybody for longer than the walk. */
		if (q->max && n >= 2 * q->max) {
			qsort(list, n, sizeof(*list), match_by_name);
			n = q->max;
			last = list[n - 1].name;
		}
	}
	if (n)
		qsort(list, n, sizeof(*list), match_by_name);
	match_copy(list, MIN(n, q->max), a, &ret->list, &ret->n);
	ret->all = c->figures.all;
	pthread_mutex_unlock(&c->lock);
	free(list);
}

void object_list_latest(struct object_list *c, enum store_origin origin, size_t max, struct arena *a,
			struct store_known **ret, size_t *ret_n)
{
	struct list_match *list;
	struct bytes key;
	size_t n = 0;
	void *value;

	list = NEW_N(struct list_match, max + 1);
	pthread_mutex_lock(&c->lock);
	map_each (&c->by_name, it, &key, &value) {
		struct list_match f = { { (const char *)key.p, key.size }, value };
		size_t at = n;

		if (!f.e->id || f.e->origin != origin)
			continue;
		/* The list is kept sorted; entries after the last one are dropped. */
		while (at > 0 && match_by_age(&f, &list[at - 1]) < 0)
			at--;
		if (at == max)
			continue;
		memmove(list + at + 1, list + at, (MIN(n, max - 1) - at) * sizeof(*list));
		list[at] = f;
		n = MIN(n + 1, max);
	}
	match_copy(list, MIN(n, max), a, ret, ret_n);
	pthread_mutex_unlock(&c->lock);
	free(list);
}

bool object_list_alias(struct object_list *c, const struct build_id *alias, struct build_id *ret)
{
	const struct list_alias *a;

	pthread_mutex_lock(&c->lock);
	a = map_get(&c->by_alias, build_id_bytes(alias));
	if (a)
		*ret = a->id;
	pthread_mutex_unlock(&c->lock);
	return a != NULL;
}

bool object_list_complete(struct object_list *c, struct bytes start, struct build_id *ret)
{
	const struct list_entry *first, *e;

	pthread_mutex_lock(&c->lock);
	first = e = start.size == STORE_START_SIZE ? map_get(&c->by_start, start) : NULL;
	while (e && e->id[0] == first->id[0] && memcmp(e->id, first->id, 1u + (uint8_t)e->id[0]) == 0)
		e = e->start_next;
	if (first && !e)
		memcpy(ret, first->id, 1u + (uint8_t)first->id[0]);
	pthread_mutex_unlock(&c->lock);
	return first && !e;
}

void object_list_figures(struct object_list *c, struct store_figures *ret)
{
	pthread_mutex_lock(&c->lock);
	*ret = c->figures;
	pthread_mutex_unlock(&c->lock);
}
