/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot artifacts on disk: a folder with one file for each, which has its bytes and nothing else. The name of
 * the file is the key (kind, build ID, hash of the argument, tag), so the folder is its own index, and an
 * artifact that has changed has another name.
 *
 *   tmp-N        being written, or not synced yet; removed at the start
 *   KIND-ID-...  whole and durable
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

#define NAME_SIZE   256u
#define MAX_FILES   1000000u
#define DEFAULT_MAX ((uint64_t)10 << 30)
#define MAX_PART    2 /* one artifact may take up to 1/2 of the budget */
#define KEEP_QUEUE  4096u
#define LOCK_NAME   ".lock"

struct cache_entry {
	char *name;
	char *tmp; /* its temporary name; NULL: it has its own */
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
	pthread_t thread;
	bool running;
	struct queue *keeps;
	pthread_mutex_t lock;
	/* under the lock */
	struct map map; /* name -> entry */
	struct cache_entry *newest, *oldest;
	uint64_t bytes; /* of all files, with those being written */
	uint64_t seq;
	uint64_t n_hits, n_misses, n_evicted;
};

static void cache_name(const struct resolve_request *what, uint64_t tag, char out[NAME_SIZE])
{
	char hex[BUILD_ID_HEX_SIZE];

	snprintf(out, NAME_SIZE, "%s-%s-%016llx-%016llx", resolve_kind_name(what->kind),
		 build_id_hex(&what->id, hex), (unsigned long long)hash64(what->arg.p, what->arg.size, 0),
		 (unsigned long long)tag);
}

static bool is_hex(struct str s, size_t size)
{
	for (size_t i = 0; i < s.size; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return size ? s.size == size : s.size > 0;
}

/* Other files in the folder are not touched. */
static bool name_is_ours(struct str name)
{
	struct str kind = str_cut(&name, '-'), id = str_cut(&name, '-'), arg = str_cut(&name, '-');

	for (unsigned i = 0; i < RESOLVE_N_KINDS; i++)
		if (str_eq(kind, str_of(resolve_kind_name(i))))
			return is_hex(id, 0) && is_hex(arg, 16) && is_hex(name, 16);
	return false;
}

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

		unlinkat(c->dir_fd, out->name, 0);
		cache_entry_free(out);
		out = next;
	}
}

/* ---- into the cache ---- */

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

static void cache_unreserve(struct cache *c, uint64_t size)
{
	pthread_mutex_lock(&c->lock);
	c->bytes -= size;
	pthread_mutex_unlock(&c->lock);
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
	char name[NAME_SIZE];
	struct bytes key;
	bool is_new;

	cache_name(what, tag, name);
	key = bytes_of(name, strlen(name));
	pthread_mutex_lock(&c->lock);
	is_new = !map_get(&c->map, key);
	if (is_new) {
		sp->entry = NEW(struct cache_entry);
		sp->entry->name = mem_strdup(name);
		sp->entry->tmp = mem_strdup(sp->tmp);
		sp->entry->size = sp->size;
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
	bool ok;

	file_mark_used(sp->fd);
	ok = fdatasync(sp->fd) == 0 && renameat(c->dir_fd, sp->tmp, c->dir_fd, e->name) == 0;

	if (!ok) {
		log_warn("cache", "%s/%s: %s: the file is not cached", c->dir, e->name, strerror(errno));
		unlinkat(c->dir_fd, sp->tmp, 0);
	}
	pthread_mutex_lock(&c->lock);
	free(e->tmp);
	e->tmp = NULL;
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

static void *cache_run(void *arg)
{
	struct cache *c = arg;
	void *sp;

	pthread_setname_np(pthread_self(), "lode-cache");
	while (queue_pop(c->keeps, -1, &sp) == 0)
		cache_make_durable(c, sp);
	return NULL;
}

/* ---- out of it ---- */

static int cache_open_file(struct cache *c, const char *tmp, const char *name)
{
	int fd = tmp[0] ? openat(c->dir_fd, tmp, O_RDONLY | O_CLOEXEC) : -1;

	/* It may have been renamed since. */
	return fd >= 0 ? fd : openat(c->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

static void cache_forget(struct cache *c, const char *name)
{
	struct cache_entry *e;

	pthread_mutex_lock(&c->lock);
	e = map_get(&c->map, bytes_of(name, strlen(name)));
	if (e && !e->tmp) {
		cache_list_del(c, e);
		map_del(&c->map, bytes_of(name, strlen(name)));
		c->bytes -= e->size;
		cache_entry_free(e);
		unlinkat(c->dir_fd, name, 0);
	}
	pthread_mutex_unlock(&c->lock);
}

int cache_find(struct cache *c, const struct resolve_request *what, uint64_t tag, uint64_t size, int *ret_fd)
{
	char name[NAME_SIZE], tmp[32] = "";
	AUTO(fd_close) int fd = -1;
	struct cache_entry *e;
	struct stat st;

	cache_name(what, tag, name);
	pthread_mutex_lock(&c->lock);
	e = map_get(&c->map, bytes_of(name, strlen(name)));
	if (e && e->tmp) {
		snprintf(tmp, sizeof(tmp), "%s", e->tmp);
	} else if (e) {
		cache_list_del(c, e);
		cache_list_add(c, e);
	}
	*(e ? &c->n_hits : &c->n_misses) += 1;
	pthread_mutex_unlock(&c->lock);
	if (!e)
		return CACHE_MISSING;
	fd = cache_open_file(c, tmp, name);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != size) {
		cache_forget(c, name);
		return CACHE_MISSING;
	}
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
		struct cache_entry *e;
		struct stat st;

		if (strncmp(d->d_name, "tmp-", 4) == 0)
			unlinkat(c->dir_fd, d->d_name, 0);
		if (!name_is_ours(str_of(d->d_name)) ||
		    fstatat(c->dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		e = NEW(struct cache_entry);
		e->name = mem_strdup(d->d_name);
		e->size = (uint64_t)st.st_size;
		e->used_ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
		VEC_PUSH(list, n, room) = e;
	}
	closedir(dir);
	if (n)
		qsort(list, n, sizeof(*list), entry_by_use);
	for (size_t i = 0; i < n; i++) {
		map_put(&c->map, bytes_of(list[i]->name, strlen(list[i]->name)), list[i]);
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

int cache_open(const char *dir, uint64_t max_bytes, struct cache **ret, struct err *err)
{
	struct cache *c = NEW(struct cache);
	int r;

	c->dir = mem_strdup(dir);
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
	queue_close(c->keeps);
	if (c->running)
		pthread_join(c->thread, NULL);
	queue_free(c->keeps);
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
