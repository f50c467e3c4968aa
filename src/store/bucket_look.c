/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings that a thread makes ahead, all at once, for the put that follows.
 *
 * A put asks several times for the versions of a record and for the generations of a content, and each question is a round
 * trip. So a thread that is about to put an object *looks* at both names: until the look ends, its questions are answered
 * from these listings and from what it has put since. No other thread sees them.
 *
 * A look is never what a put relies on: another process may write at any time, also before the first listing of a put
 * without a look. The listings after a version was put, and all of a reader's, are real ones.
 */
#include "store/bucket.h"

#include <stdio.h>
#include <stdlib.h>

#define LOOK_MAX    64u
#define LOOK_OLD_MS 5000 /* then another listing is likely to save a try */

struct look_item {
	char *name, *etag;
	uint64_t size;
	int64_t time_ns;
};

struct look_name {
	char *prefix; /* "keys/ab/abcdef.debuginfo!" */
	struct look_item *v;
	size_t n, room;
	bool known;
	bool own; /* one object, of this thread's choice */
};

struct look {
	const struct blob_bucket *s;
	unsigned depth; /* 0: there is none */
	int64_t at_ms;
	struct look_name v[LOOK_MAX];
	size_t n;
};
static _Thread_local struct look *own;

static void items_drop(struct look_name *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].name);
		free(l->v[i].etag);
	}
	free(l->v);
	l->v = NULL;
	l->n = l->room = 0;
}

static void item_add(struct look_name *l, const struct bucket_item *item)
{
	VEC_PUSH(l->v, l->n, l->room) = (struct look_item){ mem_strdup(item->name), mem_strdup(item->etag),
							    item->size, item->time_ns };
}

static int item_listed(void *arg, const struct bucket_item *item, struct err *err)
{
	struct look_name *l = arg;

	if (l->n == BUCKET_VERSIONS_MAX)
		return bucket_too_many(err, item->name);
	item_add(l, item);
	return 0;
}

/* NULL: it was not looked at. */
static struct look_name *look_find(const struct blob_bucket *s, const char *name)
{
	size_t n = strlen(name);

	if (!own || own->s != s)
		return NULL;
	for (size_t i = 0; i < own->n; i++) {
		const char *prefix = own->v[i].prefix;

		if (strncmp(prefix, name, n) == 0 && strcmp(prefix + n, "!") == 0)
			return &own->v[i];
	}
	return NULL;
}

void bucket_look_begin(struct blob_bucket *s, const char *const *names, size_t n)
{
	struct bucket_listing listings[LOOK_MAX];
	struct look_name *looked[LOOK_MAX];
	size_t n_new = 0;

	if (!own)
		own = NEW(struct look);
	if (!own->depth++) {
		own->s = s;
		own->at_ms = clock_mono_ms();
	}
	for (size_t i = 0; i < n && own->s == s && own->n < LOOK_MAX; i++) {
		struct look_name *l;

		if (look_find(s, names[i]))
			continue;
		l = &own->v[own->n++];
		*l = (struct look_name){ .prefix = mem_printf("%s!", names[i]) };
		looked[n_new] = l;
		listings[n_new++] = (struct bucket_listing){ .prefix = l->prefix,
							     .fn = item_listed,
							     .arg = l };
	}
	if (n_new)
		s->bucket->ops->list_all(s->bucket, listings, n_new);
	/* What could not be listed is listed again by the one that asks, who reports the failure. */
	for (size_t i = 0; i < n_new; i++)
		looked[i]->known = listings[i].r == 0;
}

void bucket_look_end(void)
{
	if (!own || --own->depth)
		return;
	for (size_t i = 0; i < own->n; i++) {
		items_drop(&own->v[i]);
		free(own->v[i].prefix);
	}
	free(own);
	own = NULL;
}

int bucket_look_list(struct blob_bucket *s, const char *name, bucket_list_fn *fn, void *arg, struct err *err)
{
	struct look_name *l = look_find(s, name);
	char prefix[BUCKET_NAME_SIZE];

	if (!l || !l->known || (!l->own && clock_mono_ms() - own->at_ms > LOOK_OLD_MS)) {
		snprintf(prefix, sizeof(prefix), "%s!", name);
		return s->bucket->ops->list(s->bucket, prefix, "", fn, arg, err);
	}
	for (size_t i = 0; i < l->n; i++) {
		const struct look_item *o = &l->v[i];
		int r = fn(arg, &(struct bucket_item){ o->name, o->size, o->time_ns, o->etag }, err);

		if (r)
			return r;
	}
	return 0;
}

int64_t bucket_look_age_ns(const struct blob_bucket *s, const char *name)
{
	const struct look_name *l = look_find(s, name);

	return l && l->known ? (clock_mono_ms() - own->at_ms) * 1000000 : 0;
}

void bucket_look_put(struct blob_bucket *s, const char *name, const char *object, uint64_t size)
{
	struct look_name *l = look_find(s, name);

	if (!l)
		return;
	items_drop(l);
	item_add(l, &(struct bucket_item){ object, size, s->bucket->ops->now_ns(s->bucket), "" });
	l->known = l->own = true;
}

bool bucket_look_is_own(const struct blob_bucket *s, const char *name)
{
	const struct look_name *l = look_find(s, name);

	return l && l->own;
}

void bucket_look_forget(struct blob_bucket *s, const char *name)
{
	struct look_name *l = look_find(s, name);

	if (!l)
		return;
	items_drop(l);
	l->known = l->own = false;
}
