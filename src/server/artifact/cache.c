/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot artifacts on disk: a folder with one file for each, which has its bytes and nothing else. The name of
 * the file is the key (kind, build ID, hash of the argument, tag) and a digest of key and bytes, so the folder is
 * its own index, and an artifact that has changed has another name.
 *
 *   tmp-N               being written, or not synced yet; removed at the start
 *   KIND-ID-...-DIGEST  whole and durable
 *
 * A file of an earlier process is read and compared with its digest before it is first used, and in the background:
 * a disk that returns a wrong byte would otherwise be believed for ever. A damaged file is removed, and the artifact
 * decoded again. The digest is two hash64() of 64 bits: it guards against disks, not against those who may write to
 * the folder.
 *
 * Its size is reserved in the budget before the first byte is written. A file can be found as soon as it is
 * whole; a thread then syncs and renames it. The order of use survives a restart as the mtime of the files.
 */
#include "server/artifact/artifact.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include "base/vec.h"
#include "server/artifact/cache_name.h"

#define MAX_FILES   1000000u
#define DEFAULT_MAX ((uint64_t)10 << 30)
#define MAX_PART    2 /* one artifact may take up to 1/2 of the budget */
#define KEEP_QUEUE  4096u
#define LOCK_NAME   ".lock"
#define REST        3 /* the background check rests so many times as long as it reads */

struct cache_entry {
	char *name; /* the key */
	char *tmp;  /* its temporary name; NULL: it has its own */
	char digest[CACHE_DIGEST_SIZE];
	bool checked; /* its bytes were written, or compared with the digest, by this process */
	uint64_t size;
	int64_t used_ns;                   /* only while the folder is read */
	struct cache_entry *newer, *older; /* while it has its own name */
};

struct cache_file {
	int fd;
	uint64_t size;
	char tmp[32];
	struct cache_entry *entry; /* once kept */
};

struct cache {
	char *dir;
	int dir_fd, lock_fd;
	uint64_t max_bytes;
	struct room *room; /* borrowed; NULL: none */
	pthread_t thread;
	bool running;
	struct queue *keeps;
	atomic_bool stop;
	char **to_check; /* of the thread: keys of files of earlier processes */
	size_t n_to_check, room_to_check;
	pthread_mutex_t lock;
	/* under the lock */
	struct map map; /* name -> entry */
	struct cache_entry *newest, *oldest;
	uint64_t bytes; /* of all files, with those being written */
	uint64_t seq;
	uint64_t n_hits, n_misses, n_evicted;
};

static void cache_list_add(struct cache *c, struct cache_entry *e)
{
	e->newer = NULL;
	e->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = e;
	c->newest = e;
}

static void cache_list_del(struct cache *c, struct cache_entry *e)
{
	*(e->newer ? &e->newer->older : &c->newest) = e->older;
	*(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void cache_entry_free(struct cache_entry *e)
{
	free(e->name);
	free(e->tmp);
	free(e);
}

/* Under the lock, unless no other thread has @c. Remove an entry that the map no longer has, and its file. */
static void cache_remove(struct cache *c, struct cache_entry *e)
{
	AUTO(mem_freep) char *file = cache_name_join(e->name, e->digest);

	cache_list_del(c, e);
	c->bytes -= e->size;
	unlinkat(c->dir_fd, file, 0);
	cache_entry_free(e);
}

/*
 * Under the lock. Remove the least recently used, until @size more bytes fit. Returns them chained by
 * `older`, for cache_evict_files().
 */
static struct cache_entry *cache_evict(struct cache *c, uint64_t size)
{
	struct cache_entry *out = NULL;

	while (c->oldest && c->bytes + size > c->max_bytes) {
		struct cache_entry *e = c->oldest;

		cache_list_del(c, e);
		map_del(&c->map, bytes_of(e->name, strlen(e->name)));
		c->bytes -= e->size;
		c->n_evicted++;
		e->older = out;
		out = e;
	}
	return out;
}

/* Not under the lock, since freeing many blocks takes a while. Open descriptors stay valid. */
static void cache_evict_files(struct cache *c, struct cache_entry *out)
{
	while (out) {
		struct cache_entry *next = out->older;
		AUTO(mem_freep) char *file = cache_name_join(out->name, out->digest);

		unlinkat(c->dir_fd, file, 0);
		cache_entry_free(out);
		out = next;
	}
}

/* ---- into the cache ---- */

static void cache_unreserve(struct cache *c, uint64_t size)
{
	pthread_mutex_lock(&c->lock);
	c->bytes -= size;
	pthread_mutex_unlock(&c->lock);
}

/* The file's blocks are reserved at once, so that the claim need not last. */
static bool cache_has_disk(struct cache *c, uint64_t size)
{
	AUTO(room_release) struct room_claim claim = { 0 };

	return room_claim(c->room, &claim, c->dir_fd, size, NULL) == 0;
}

int cache_begin(struct cache *c, uint64_t size, struct cache_file **ret, int *ret_fd, struct err *err)
{
	struct cache_file *sp;
	struct cache_entry *out;
	bool fits;

	if (size > c->max_bytes / MAX_PART)
		return CACHE_NO_ROOM;
	sp = NEW(struct cache_file);
	sp->size = size;
	pthread_mutex_lock(&c->lock);
	out = cache_evict(c, size);
	fits = c->bytes + size <= c->max_bytes && c->map.n < MAX_FILES;
	if (fits)
		c->bytes += size;
	snprintf(sp->tmp, sizeof(sp->tmp), "tmp-%llu", (unsigned long long)c->seq++);
	pthread_mutex_unlock(&c->lock);
	cache_evict_files(c, out);
	if (!fits) {
		free(sp);
		return CACHE_NO_ROOM;
	}
	if (!cache_has_disk(c, size)) {
		cache_unreserve(c, size);
		free(sp);
		return CACHE_NO_ROOM;
	}
	sp->fd = openat(c->dir_fd, sp->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	/* Reserve the blocks now: in the middle of a reply it would be too late to find the disk full. */
	if (sp->fd < 0 ||
	    (size && fallocate(sp->fd, 0, 0, (off_t)size) < 0 && errno != EOPNOTSUPP && errno != ENOSYS)) {
		int e = errno;

		cache_drop(c, sp);
		if (e == ENOSPC || e == EDQUOT || e == EFBIG)
			return CACHE_NO_ROOM;
		return err_os(err, e, "cache %s", c->dir);
	}
	*ret = sp;
	*ret_fd = sp->fd;
	return 0;
}

void cache_drop(struct cache *c, struct cache_file *sp)
{
	if (!sp)
		return;
	if (sp->fd >= 0) {
		unlinkat(c->dir_fd, sp->tmp, 0);
		close(sp->fd);
	}
	cache_unreserve(c, sp->size);
	free(sp);
}

void cache_keep(struct cache *c, struct cache_file *sp, const struct resolve_request *what, uint64_t tag)
{
	char name[CACHE_NAME_SIZE];
	struct bytes key;
	bool is_new;

	cache_name_make(what, tag, name);
	key = bytes_of(name, strlen(name));
	pthread_mutex_lock(&c->lock);
	is_new = !map_get(&c->map, key);
	if (is_new) {
		sp->entry = NEW(struct cache_entry);
		sp->entry->name = mem_strdup(name);
		sp->entry->tmp = mem_strdup(sp->tmp);
		sp->entry->size = sp->size;
		sp->entry->checked = true;
		map_put(&c->map, key, sp->entry);
	}
	pthread_mutex_unlock(&c->lock);
	if (!is_new) {
		cache_drop(c, sp);
		return;
	}
	queue_push(c->keeps, sp);
}

/* With the precise clock: many files are used within one tick of the coarse clock of the kernel. */
static void file_mark_used(int fd)
{
	struct timespec now[2];

	clock_gettime(CLOCK_REALTIME, &now[0]);
	now[1] = now[0];
	futimens(fd, now);
}

/* It can be found already; make it durable. */
static void cache_make_durable(struct cache *c, struct cache_file *sp)
{
	struct cache_entry *e = sp->entry;
	AUTO(mem_freep) char *file = NULL;
	char digest[CACHE_DIGEST_SIZE] = "";
	bool ok;

	file_mark_used(sp->fd);
	ok = cache_name_digest(sp->fd, e->name, NULL, digest, NULL) == 0;
	file = cache_name_join(e->name, digest);
	ok = ok && fdatasync(sp->fd) == 0;
	/* Under the lock, so that a thread that does not find the temporary name finds the other one. */
	pthread_mutex_lock(&c->lock);
	ok = ok && renameat(c->dir_fd, sp->tmp, c->dir_fd, file) == 0;
	if (!ok) {
		log_warn("cache", "%s/%s: %s: the file is not cached", c->dir, e->name, strerror(errno));
		unlinkat(c->dir_fd, sp->tmp, 0);
	}
	free(e->tmp);
	e->tmp = NULL;
	memcpy(e->digest, digest, sizeof(digest));
	if (ok) {
		cache_list_add(c, e);
	} else {
		map_del(&c->map, bytes_of(e->name, strlen(e->name)));
		c->bytes -= e->size;
		cache_entry_free(e);
	}
	pthread_mutex_unlock(&c->lock);
	close(sp->fd);
	free(sp);
}

/* ---- out of it ---- */

/* The state of an entry at one moment. */
struct cache_found {
	char tmp[32];
	char digest[CACHE_DIGEST_SIZE]; /* empty: it has its temporary name */
	bool checked;
};

/* Under the lock. */
static void cache_describe(const struct cache_entry *e, struct cache_found *ret)
{
	snprintf(ret->tmp, sizeof(ret->tmp), "%s", e->tmp ? e->tmp : "");
	memcpy(ret->digest, e->digest, sizeof(ret->digest));
	ret->checked = e->checked;
}

static bool cache_look_up(struct cache *c, const char *name, struct cache_found *ret)
{
	struct cache_entry *e;

	pthread_mutex_lock(&c->lock);
	e = map_get(&c->map, bytes_of(name, strlen(name)));
	if (e)
		cache_describe(e, ret);
	pthread_mutex_unlock(&c->lock);
	return e != NULL;
}

static int cache_open_file(struct cache *c, const char *name, const struct cache_found *found)
{
	int fd = found->tmp[0] ? openat(c->dir_fd, found->tmp, O_RDONLY | O_CLOEXEC) : -1;
	struct cache_found now = *found;
	AUTO(mem_freep) char *file = NULL;

	/* It may have been renamed since. */
	if (fd >= 0 || (found->tmp[0] && !cache_look_up(c, name, &now)))
		return fd;
	file = cache_name_join(name, now.digest);
	return openat(c->dir_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

static void cache_forget(struct cache *c, const char *name)
{
	struct cache_entry *e;

	pthread_mutex_lock(&c->lock);
	e = map_get(&c->map, bytes_of(name, strlen(name)));
	if (e && !e->tmp) {
		map_del(&c->map, bytes_of(name, strlen(name)));
		cache_remove(c, e);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Compare the file with its digest, once in each process. false: it is damaged, and was forgotten. */
static bool cache_check(struct cache *c, const char *name, const struct cache_found *found, int fd,
			const atomic_bool *stop)
{
	struct cache_entry *e;
	struct err err = { 0 };

	if (found->checked)
		return true;
	if (cache_name_check(fd, name, found->digest, stop, &err) < 0) {
		if (err.kind == ERR_CANCELLED)
			return false;
		log_warn("cache", "%s/%s: %s: it is removed, and decoded again when it is asked for", c->dir,
			 name, err.text);
		cache_forget(c, name);
		return false;
	}
	pthread_mutex_lock(&c->lock);
	e = map_get(&c->map, bytes_of(name, strlen(name)));
	if (e && strcmp(e->digest, found->digest) == 0)
		e->checked = true;
	pthread_mutex_unlock(&c->lock);
	return true;
}

int cache_find(struct cache *c, const struct resolve_request *what, uint64_t tag, uint64_t size, int *ret_fd)
{
	struct cache_found found = { 0 };
	AUTO(fd_close) int fd = -1;
	struct cache_entry *e;
	char name[CACHE_NAME_SIZE];
	struct stat st;

	cache_name_make(what, tag, name);
	pthread_mutex_lock(&c->lock);
	e = map_get(&c->map, bytes_of(name, strlen(name)));
	if (e)
		cache_describe(e, &found);
	if (e && !e->tmp) {
		cache_list_del(c, e);
		cache_list_add(c, e);
	}
	*(e ? &c->n_hits : &c->n_misses) += 1;
	pthread_mutex_unlock(&c->lock);
	if (!e)
		return CACHE_MISSING;
	fd = cache_open_file(c, name, &found);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != size) {
		cache_forget(c, name);
		return CACHE_MISSING;
	}
	if (!cache_check(c, name, &found, fd, NULL))
		return CACHE_MISSING;
	file_mark_used(fd);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void cache_stats(struct cache *c, struct cache_stats *ret)
{
	pthread_mutex_lock(&c->lock);
	*ret = (struct cache_stats){ c->bytes, c->max_bytes, c->map.n, c->n_hits, c->n_misses, c->n_evicted };
	pthread_mutex_unlock(&c->lock);
}

/* ---- the thread: syncs, and checks in the background ---- */

/* Returns how long to rest after it. */
static int64_t cache_check_next(struct cache *c)
{
	AUTO(mem_freep) char *name = c->to_check[--c->n_to_check];
	int64_t from_ms = clock_mono_ms();
	AUTO(fd_close) int fd = -1;
	struct cache_found found;

	if (!cache_look_up(c, name, &found) || found.checked || found.tmp[0])
		return 0;
	fd = cache_open_file(c, name, &found);
	if (fd >= 0)
		(void)cache_check(c, name, &found, fd, &c->stop);
	return (clock_mono_ms() - from_ms) * REST;
}

static void *cache_run(void *arg)
{
	struct cache *c = arg;
	int64_t rest_ms = 0;
	void *sp;
	int r;

	pthread_setname_np(pthread_self(), "lode-cache");
	while ((r = queue_pop(c->keeps, c->n_to_check ? rest_ms : -1, &sp)) != QUEUE_CLOSED) {
		if (r == 0)
			cache_make_durable(c, sp);
		else
			rest_ms = cache_check_next(c);
	}
	return NULL;
}

/* ---- opening ---- */

static int entry_by_use(const void *a, const void *b)
{
	const struct cache_entry *x = *(struct cache_entry *const *)a, *y = *(struct cache_entry *const *)b;

	return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

static int cache_read_folder(struct cache *c, struct err *err)
{
	int fd = openat(c->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(mem_freep) struct cache_entry **list = NULL;
	size_t n = 0, room = 0;
	struct dirent *d;
	DIR *dir;

	if (fd < 0 || !(dir = fdopendir(fd))) {
		int e = errno;

		if (fd >= 0)
			close(fd);
		return err_os(err, e, "cache %s", c->dir);
	}
	while ((d = readdir(dir)) && n < MAX_FILES) {
		struct str key = { 0 }, digest = { 0 };
		enum cache_name_kind kind = cache_name_kind_of(str_of(d->d_name), &key, &digest);
		struct cache_entry *e;
		struct stat st;

		if (strncmp(d->d_name, "tmp-", 4) == 0 || kind == CACHE_NAME_OLD)
			unlinkat(c->dir_fd, d->d_name, 0);
		if (kind != CACHE_NAME_KEPT || fstatat(c->dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		e = NEW(struct cache_entry);
		e->name = mem_strndup(key.p, key.size);
		memcpy(e->digest, digest.p, digest.size);
		e->size = (uint64_t)st.st_size;
		e->used_ns = file_mtime_ns(&st);
		VEC_PUSH(list, n, room) = e;
	}
	closedir(dir);
	if (n)
		qsort(list, n, sizeof(*list), entry_by_use);
	for (size_t i = 0; i < n; i++) {
		struct cache_entry *twin = map_put(&c->map, bytes_of(list[i]->name, strlen(list[i]->name)),
						   list[i]);

		if (twin) /* of another digest: a crash came between two versions; the later one is used */
			cache_remove(c, twin);
		VEC_PUSH(c->to_check, c->n_to_check, c->room_to_check) = mem_strdup(list[i]->name);
		cache_list_add(c, list[i]);
		c->bytes += list[i]->size;
	}
	return 0;
}

static void cache_set_budget(struct cache *c, uint64_t max_bytes)
{
	struct statvfs vfs;

	c->max_bytes = max_bytes ? max_bytes : DEFAULT_MAX;
	if (!max_bytes && fstatvfs(c->dir_fd, &vfs) == 0)
		c->max_bytes = MIN((vfs.f_bavail * vfs.f_frsize + c->bytes) / 4, DEFAULT_MAX);
}

int cache_open(const char *dir, uint64_t max_bytes, struct room *room, struct cache **ret, struct err *err)
{
	struct cache *c = NEW(struct cache);
	int r;

	c->dir = mem_strdup(dir);
	c->room = room;
	c->dir_fd = c->lock_fd = -1;
	pthread_mutex_init(&c->lock, NULL);
	c->keeps = queue_new(KEEP_QUEUE);
	r = dir_make(dir, 0700, err);
	if (r == 0 && ((c->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
		       (c->lock_fd = openat(c->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0))
		r = err_os(err, errno, "cache %s", dir);
	if (r == 0 && flock(c->lock_fd, LOCK_EX | LOCK_NB) < 0)
		r = err_set(err, ERR_LIMIT, "cache %s: another process uses it", dir);
	if (r == 0)
		r = cache_read_folder(c, err);
	if (r == 0) {
		cache_set_budget(c, max_bytes);
		cache_evict_files(c, cache_evict(c, 0));
		r = pthread_create(&c->thread, NULL, cache_run, c);
		c->running = r == 0;
		if (r)
			r = err_os(err, r, "cache %s: no thread", dir);
	}
	if (r < 0) {
		cache_close(c);
		return -1;
	}
	*ret = c;
	return 0;
}

void cache_close(struct cache *c)
{
	struct cache_entry *e;

	if (!c)
		return;
	atomic_store(&c->stop, true);
	queue_close(c->keeps);
	if (c->running)
		pthread_join(c->thread, NULL);
	queue_free(c->keeps);
	while (c->n_to_check)
		free(c->to_check[--c->n_to_check]);
	free(c->to_check);
	while ((e = c->newest)) {
		cache_list_del(c, e);
		cache_entry_free(e);
	}
	map_done(&c->map);
	if (c->dir_fd >= 0)
		close(c->dir_fd);
	if (c->lock_fd >= 0)
		close(c->lock_fd);
	pthread_mutex_destroy(&c->lock);
	free(c->dir);
	free(c);
}
