/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of objects on disk, so that what was fetched once is there after it left the memory, after a restart, and while the
 * bucket is away. A file has one range, and its digest: a file that is cut or damaged is removed when it is read. The name
 * of a file says which object, version and bytes it has. At the limit, the least recently used files are removed.
 *
 * It is a cache: a failure to write costs no more than the next request; nothing is synced.
 */
#include "s3/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/room.h"
#include "base/vec.h"
#include "base/age.h"

#define MAGIC      UINT64_C(0x3149334c45444f4c) /* "LODEL3I1" */
#define HEAD_SIZE  24u                          /* the magic, the digest of the bytes, their number */
#define SIZE_MIN   KIB(4)
#define PART_MAX   8u /* of the limit: a larger range is not kept */
#define DIGEST_KEY 58u
#define MAX_BACK   16u

struct disk_entry {
	struct disk_object *o;
	struct byte_range range;
	struct age age;
};

struct disk_object {
	uint64_t key;
	struct disk_entry **entries; /* in rising order; they may overlap */
	size_t n, room;
};

struct disk_cache {
	char *dir;
	uint64_t max;
	struct room *room;
	pthread_mutex_t lock;
	/* under the lock */
	struct map objects;   /* key -> struct disk_object */
	struct age_list ages; /* of entries */
	uint64_t weight;
};

uint64_t disk_cache_key(const char *url, uint64_t inode)
{
	return hash64(url, strlen(url), inode);
}

static void entry_path(const struct disk_cache *d, uint64_t key, struct byte_range r, struct buf *ret)
{
	buf_printf(ret, "%s/%016" PRIx64 "-%" PRIx64 "-%" PRIx64, d->dir, key, r.off, r.size);
}

static bool entry_name_read(const char *name, uint64_t *ret_key, struct byte_range *ret)
{
	struct byte_range r;
	int end = -1;

	if (sscanf(name, "%16" SCNx64 "-%16" SCNx64 "-%8" SCNx64 "%n", ret_key, &r.off, &r.size, &end) != 3 ||
	    end < 0 || name[end] || !r.size || r.off > INT64_MAX)
		return false;
	*ret = r;
	return true;
}

/* ---- the list; under the lock ---- */

static size_t entry_position(const struct disk_object *o, uint64_t off)
{
	size_t from = 0, to = o->n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (o->entries[mid]->range.off <= off)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

static void entry_insert(struct disk_cache *d, uint64_t key, struct byte_range range)
{
	struct disk_object *o = map_get(&d->objects, bytes_of(&key, sizeof(key)));
	struct disk_entry *e = NEW(struct disk_entry);
	size_t at;

	if (!o) {
		o = NEW(struct disk_object);
		o->key = key;
		map_put(&d->objects, bytes_of(&key, sizeof(key)), o);
	}
	e->o = o;
	e->range = range;
	at = entry_position(o, range.off);
	VEC_GROW(o->entries, o->n, o->room);
	memmove(o->entries + at + 1, o->entries + at, (o->n - at) * sizeof(*o->entries));
	o->entries[at] = e;
	o->n++;
	age_add(&d->ages, &e->age);
	d->weight += range.size;
}

/* The file is removed, too. */
static void entry_remove(struct disk_cache *d, struct disk_entry *e)
{
	AUTO(buf_done) struct buf path = { 0 };
	struct disk_object *o = e->o;
	size_t i = 0;

	entry_path(d, o->key, e->range, &path);
	(void)unlink(buf_cstr(&path));
	while (o->entries[i] != e)
		i++;
	memmove(o->entries + i, o->entries + i + 1, (o->n - i - 1) * sizeof(*o->entries));
	o->n--;
	age_remove(&d->ages, &e->age);
	d->weight -= e->range.size;
	free(e);
	if (o->n)
		return;
	map_del(&d->objects, bytes_of(&o->key, sizeof(o->key)));
	free(o->entries);
	free(o);
}

static void entries_evict(struct disk_cache *d)
{
	while (d->weight > d->max && d->ages.oldest)
		entry_remove(d, CONTAINER_OF(d->ages.oldest, struct disk_entry, age));
}

/* The entry with the most bytes from @off on; NULL: none. Of those that begin before it, the last MAX_BACK are looked at. */
static struct disk_entry *entry_best(const struct disk_object *o, uint64_t off)
{
	struct disk_entry *best = NULL;
	size_t at = entry_position(o, off);

	for (size_t i = 0; i < MAX_BACK && at > i; i++) {
		struct disk_entry *e = o->entries[at - 1 - i];

		if (off - e->range.off < e->range.size &&
		    (!best || e->range.off + e->range.size > best->range.off + best->range.size))
			best = e;
	}
	return best;
}

/* ---- reading and writing ---- */

bool disk_cache_find(struct disk_cache *d, uint64_t key, uint64_t off, struct byte_range *ret)
{
	struct disk_object *o;
	struct disk_entry *e = NULL;

	if (!d)
		return false;
	pthread_mutex_lock(&d->lock);
	o = map_get(&d->objects, bytes_of(&key, sizeof(key)));
	if (o)
		e = entry_best(o, off);
	if (e) {
		age_remove(&d->ages, &e->age);
		age_add(&d->ages, &e->age);
		*ret = e->range;
	}
	pthread_mutex_unlock(&d->lock);
	return e != NULL;
}

void disk_cache_forget(struct disk_cache *d, uint64_t key, struct byte_range range)
{
	struct disk_object *o;

	pthread_mutex_lock(&d->lock);
	o = map_get(&d->objects, bytes_of(&key, sizeof(key)));
	for (size_t i = 0; o && i < o->n; i++)
		if (o->entries[i]->range.off == range.off && o->entries[i]->range.size == range.size) {
			entry_remove(d, o->entries[i]);
			break;
		}
	pthread_mutex_unlock(&d->lock);
}

void disk_cache_forget_all(struct disk_cache *d, uint64_t key)
{
	struct disk_object *o;

	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	while ((o = map_get(&d->objects, bytes_of(&key, sizeof(key)))))
		entry_remove(d, o->entries[0]);
	pthread_mutex_unlock(&d->lock);
}

static bool range_file_read(int fd, struct byte_range range, uint8_t *p)
{
	uint64_t head[3];
	size_t got;

	return fd_pread(fd, head, sizeof(head), 0, &got, NULL) == 0 && got == sizeof(head) &&
	       head[0] == MAGIC && head[2] == range.size &&
	       fd_pread(fd, p, (size_t)range.size, HEAD_SIZE, &got, NULL) == 0 && got == range.size &&
	       hash64(p, got, DIGEST_KEY) == head[1];
}

bool disk_cache_read(struct disk_cache *d, uint64_t key, struct byte_range range, uint8_t *p)
{
	AUTO(buf_done) struct buf path = { 0 };
	AUTO(fd_close) int fd = -1;

	entry_path(d, key, range, &path);
	fd = open(buf_cstr(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && range_file_read(fd, range, p)) {
		/* The order of use, for the next start. */
		(void)futimens(fd, NULL);
		return true;
	}
	disk_cache_forget(d, key, range);
	return false;
}

static bool range_file_write(struct room *room, const char *path, const uint8_t *p, size_t n)
{
	const uint64_t head[3] = { MAGIC, hash64(p, n, DIGEST_KEY), n };
	AUTO(mem_freep) char *temp = mem_printf("%s.%lx", path, (unsigned long)pthread_self());
	AUTO(fd_close) int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct room_claim claim = { 0 };
	bool written;

	if (fd < 0)
		return false;
	written = room_claim(room, &claim, fd, n + HEAD_SIZE, NULL) == 0 &&
		  fd_pwrite(fd, head, sizeof(head), 0, NULL) == 0 &&
		  fd_pwrite(fd, p, n, HEAD_SIZE, NULL) == 0 && rename(temp, path) == 0;
	room_release(&claim);
	if (!written)
		(void)unlink(temp);
	return written;
}

void disk_cache_put(struct disk_cache *d, uint64_t key, struct byte_range range, const uint8_t *p)
{
	AUTO(buf_done) struct buf path = { 0 };
	struct byte_range have;

	if (!d || range.size < SIZE_MIN || range.size > d->max / PART_MAX || range.size > UINT32_MAX)
		return;
	if (disk_cache_find(d, key, range.off, &have) && have.off + have.size >= range.off + range.size)
		return;
	entry_path(d, key, range, &path);
	if (!range_file_write(d->room, buf_cstr(&path), p, (size_t)range.size))
		return;
	pthread_mutex_lock(&d->lock);
	entry_insert(d, key, range);
	entries_evict(d);
	pthread_mutex_unlock(&d->lock);
}

uint64_t disk_cache_size(struct disk_cache *d)
{
	uint64_t size = 0;

	if (!d)
		return 0;
	pthread_mutex_lock(&d->lock);
	size = d->weight;
	pthread_mutex_unlock(&d->lock);
	return size;
}

/* ---- beginning and end ---- */

struct found_file {
	uint64_t key;
	struct byte_range range;
	int64_t used_ns;
};

static int cmp_found(const void *a, const void *b)
{
	const struct found_file *x = a, *y = b;

	return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

/* Other files of the folder, such as those of a process that was killed while it wrote, are removed. */
static void disk_load(struct disk_cache *d, DIR *dir)
{
	struct found_file *list = NULL;
	size_t n = 0, room = 0;
	struct dirent *de;

	while ((de = readdir(dir))) {
		struct found_file f = { 0 };
		struct stat st;

		if (de->d_name[0] == '.' || fstatat(dirfd(dir), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (!S_ISREG(st.st_mode))
			continue;
		if (!entry_name_read(de->d_name, &f.key, &f.range) ||
		    (uint64_t)st.st_size != f.range.size + HEAD_SIZE) {
			(void)unlinkat(dirfd(dir), de->d_name, 0);
			continue;
		}
		f.used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
		VEC_PUSH(list, n, room) = f;
	}
	if (n)
		qsort(list, n, sizeof(*list), cmp_found);
	for (size_t i = 0; i < n; i++)
		entry_insert(d, list[i].key, list[i].range);
	free(list);
	entries_evict(d);
}

struct disk_cache *disk_cache_open(const char *path, uint64_t max, uint64_t min_free)
{
	struct disk_cache *d;
	struct err err = { 0 };
	DIR *dir;

	if (!path || !max)
		return NULL;
	if (dir_make(path, 0700, &err) < 0 || !(dir = opendir(path))) {
		log_warn("s3", "%s: no cache of objects on disk: %s", path,
			 err.kind ? err.text : strerror(errno));
		return NULL;
	}
	d = NEW(struct disk_cache);
	d->dir = mem_strdup(path);
	d->max = max;
	d->room = room_new(min_free);
	pthread_mutex_init(&d->lock, NULL);
	disk_load(d, dir);
	closedir(dir);
	return d;
}

void disk_cache_close(struct disk_cache *d)
{
	struct bytes key;
	void *p;

	if (!d)
		return;
	map_each (&d->objects, it, &key, &p) {
		struct disk_object *o = p;

		for (size_t i = 0; i < o->n; i++)
			free(o->entries[i]);
		free(o->entries);
		free(o);
	}
	map_done(&d->objects);
	pthread_mutex_destroy(&d->lock);
	room_free(d->room);
	free(d->dir);
	free(d);
}
