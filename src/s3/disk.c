/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of objects on disk, so that a range that was fetched once is there after it left the memory, after a restart, and
 * while the bucket is away. A file of the cache (base/file_cache.h) has one range; its name says which object, version and
 * bytes. Here is the list of the ranges of each object, in the order of their offsets; it has exactly the files of the
 * cache, but for those that were found to be lost and are dropped by the next thread that reads them.
 */
#include "s3/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/file_cache.h"
#include "base/room.h"
#include "base/vec.h"

#define SIZE_MIN      KIB(4)
#define PART_MAX      8u /* of the limit: a larger range is not kept */
#define MAX_BACK      16u
#define NAME_MAX_SIZE 64u

struct disk_object {
	uint64_t key;
	struct byte_range *ranges; /* by rising offset; they may overlap */
	size_t n, room;
};

struct disk_cache {
	struct file_cache *files;
	uint64_t max;
	struct room *room;
	/* Taken before that of the files: both lists change together. */
	pthread_mutex_t lock;
	struct map objects; /* under the lock: key -> struct disk_object */
};

uint64_t disk_cache_key(const char *url, uint64_t inode)
{
	return hash64(url, strlen(url), inode);
}

static void range_name(uint64_t key, struct byte_range r, char ret[NAME_MAX_SIZE])
{
	snprintf(ret, NAME_MAX_SIZE, "%016" PRIx64 "-%" PRIx64 "-%" PRIx64, key, r.off, r.size);
}

/* Only a name that range_name() writes: it is the one by which the file is removed. */
static bool range_name_read(const char *name, uint64_t *ret_key, struct byte_range *ret)
{
	char again[NAME_MAX_SIZE];
	struct byte_range r;
	uint64_t key;

	if (sscanf(name, "%16" SCNx64 "-%16" SCNx64 "-%8" SCNx64, &key, &r.off, &r.size) != 3 || !r.size ||
	    r.off > INT64_MAX)
		return false;
	range_name(key, r, again);
	if (strcmp(again, name) != 0)
		return false;
	*ret_key = key;
	*ret = r;
	return true;
}

static bool is_range_file(const char *name, uint64_t size)
{
	struct byte_range r;
	uint64_t key;

	return range_name_read(name, &key, &r) && r.size == size;
}

/* ---- the list; under the lock ---- */

static struct disk_object *object_find(struct disk_cache *d, uint64_t key)
{
	return map_get(&d->objects, bytes_of(&key, sizeof(key)));
}

/* The first range that begins after @off. */
static size_t range_position(const struct disk_object *o, uint64_t off)
{
	size_t from = 0, to = o->n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (o->ranges[mid].off <= off)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* The position of exactly that range; o->n: it is not listed. */
static size_t range_index(const struct disk_object *o, struct byte_range r)
{
	size_t i = range_position(o, r.off);

	while (i > 0 && o->ranges[i - 1].off == r.off)
		if (o->ranges[--i].size == r.size)
			return i;
	return o->n;
}

static void range_list(struct disk_cache *d, uint64_t key, struct byte_range r)
{
	struct disk_object *o = object_find(d, key);
	size_t at;

	if (!o) {
		o = NEW(struct disk_object);
		o->key = key;
		map_put(&d->objects, bytes_of(&o->key, sizeof(o->key)), o);
	}
	/* Its file was replaced. */
	if (range_index(o, r) < o->n)
		return;
	at = range_position(o, r.off);
	VEC_GROW(o->ranges, o->n, o->room);
	memmove(o->ranges + at + 1, o->ranges + at, (o->n - at) * sizeof(*o->ranges));
	o->ranges[at] = r;
	o->n++;
}

static void object_free(struct disk_object *o)
{
	free(o->ranges);
	free(o);
}

static void range_unlist(struct disk_cache *d, uint64_t key, struct byte_range r)
{
	struct disk_object *o = object_find(d, key);
	size_t i = o ? range_index(o, r) : 0;

	if (!o || i == o->n)
		return;
	memmove(o->ranges + i, o->ranges + i + 1, (o->n - i - 1) * sizeof(*o->ranges));
	if (--o->n)
		return;
	map_del(&d->objects, bytes_of(&key, sizeof(key)));
	object_free(o);
}

/* The range with the most bytes from @off on. Of those that begin before it, the last MAX_BACK are looked at. */
static bool range_best(const struct disk_object *o, uint64_t off, struct byte_range *ret)
{
	struct byte_range best = { 0 };
	size_t at = range_position(o, off);

	for (size_t i = 0; i < MAX_BACK && at > i; i++) {
		struct byte_range r = o->ranges[at - 1 - i];

		if (off - r.off < r.size && r.off + r.size > best.off + best.size)
			best = r;
	}
	*ret = best;
	return best.size > 0;
}

/* ---- reading and writing ---- */

bool disk_cache_find(struct disk_cache *d, uint64_t key, uint64_t off, struct byte_range *ret)
{
	struct disk_object *o;
	bool found;

	if (!d)
		return false;
	pthread_mutex_lock(&d->lock);
	o = object_find(d, key);
	found = o && range_best(o, off, ret);
	pthread_mutex_unlock(&d->lock);
	return found;
}

void disk_cache_forget_all(struct disk_cache *d, uint64_t key)
{
	struct disk_object *o;

	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	while ((o = object_find(d, key))) {
		struct byte_range r = o->ranges[o->n - 1];
		char name[NAME_MAX_SIZE];

		range_name(key, r, name);
		range_unlist(d, key, r);
		file_cache_forget(d->files, name);
	}
	pthread_mutex_unlock(&d->lock);
}

bool disk_cache_read(struct disk_cache *d, uint64_t key, struct byte_range range, uint8_t *p)
{
	struct file_cache_stamp stamp;
	char name[NAME_MAX_SIZE];

	range_name(key, range, name);
	if (file_cache_read(d->files, name, p, (size_t)range.size))
		return true;
	pthread_mutex_lock(&d->lock);
	/* Unless it was put again meanwhile. */
	if (!file_cache_has(d->files, name, &stamp))
		range_unlist(d, key, range);
	pthread_mutex_unlock(&d->lock);
	return false;
}

/* Make room for a range, and begin its file. */
static bool put_begin(struct disk_cache *d, const char *name, uint64_t size, struct file_cache_new *ret)
{
	struct file_cache_names evicted = { 0 };
	bool begun;

	pthread_mutex_lock(&d->lock);
	begun = file_cache_begin(d->files, name, size, ret, &evicted);
	for (size_t i = 0; i < evicted.n; i++) {
		struct byte_range r;
		uint64_t key;

		if (range_name_read(evicted.v[i], &key, &r))
			range_unlist(d, key, r);
	}
	pthread_mutex_unlock(&d->lock);
	file_cache_names_done(&evicted);
	return begun;
}

void disk_cache_put(struct disk_cache *d, uint64_t key, struct byte_range range, const uint8_t *p)
{
	char name[NAME_MAX_SIZE];
	struct file_cache_new n;
	struct byte_range have;

	if (!d || range.size < SIZE_MIN || range.size > UINT32_MAX)
		return;
	if (disk_cache_find(d, key, range.off, &have) && have.off + have.size >= range.off + range.size)
		return;
	range_name(key, range, name);
	if (put_begin(d, name, range.size, &n) && file_cache_add(&n, bytes_of(p, (size_t)range.size))) {
		pthread_mutex_lock(&d->lock);
		if (file_cache_end(&n))
			range_list(d, key, range);
		pthread_mutex_unlock(&d->lock);
	}
	file_cache_done(&n);
}

uint64_t disk_cache_size(struct disk_cache *d)
{
	struct file_cache_figures f = { 0 };

	if (d)
		file_cache_figures(d->files, &f);
	return f.size;
}

/* ---- beginning and end ---- */

struct disk_cache *disk_cache_open(const char *path, uint64_t max, uint64_t min_free)
{
	struct file_cache_options o = {
		.dir = path,
		.budget = max,
		.part_max = PART_MAX,
		.log_name = "s3",
		.is_name = is_range_file,
	};
	struct file_cache_names names;
	struct disk_cache *d;
	struct err err = { 0 };

	if (!path || !max)
		return NULL;
	d = NEW(struct disk_cache);
	d->room = o.room = room_new(min_free);
	if (file_cache_open(&o, &d->files, &err) < 0) {
		log_warn("s3", "%s: no cache of objects on disk: %s", path, err.text);
		room_free(d->room);
		free(d);
		return NULL;
	}
	pthread_mutex_init(&d->lock, NULL);
	file_cache_list(d->files, &names);
	for (size_t i = 0; i < names.n; i++) {
		struct byte_range r;
		uint64_t key;

		if (range_name_read(names.v[i], &key, &r))
			range_list(d, key, r);
	}
	file_cache_names_done(&names);
	return d;
}

void disk_cache_close(struct disk_cache *d)
{
	struct bytes key;
	void *p;

	if (!d)
		return;
	map_each (&d->objects, it, &key, &p)
		object_free(p);
	map_done(&d->objects);
	file_cache_close(d->files);
	pthread_mutex_destroy(&d->lock);
	room_free(d->room);
	free(d);
}
