/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_cache.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "base/age.h"

#define MAGIC        UINT64_C(0x31434345444f4c) /* "LODECC1" */
#define DIGEST_SEED  61u
#define PIECE_SIZE   MIB(1)
#define USED_EVERY_S 60
#define TEMP_PREFIX  "tmp-"

/* After the bytes of each file. */
struct trailer {
	uint64_t magic, digest, size, name;
};
static_assert(sizeof(struct trailer) == FILE_CACHE_TRAILER, "as the header says");

struct cached_file {
	char *name;
	struct file_cache_stamp stamp;
	int64_t used_s; /* as the file's time says */
	bool checked;
	struct age age;
};

struct file_cache {
	char *dir;
	DIR *lock_dir; /* its descriptor has the folder's lock */
	uint64_t budget;
	size_t max_files;
	unsigned part_max;
	struct room *room; /* borrowed */
	const char *log_name;
	pthread_mutex_t lock;
	/* under the lock */
	struct map files; /* name -> struct cached_file */
	struct age_list ages;
	uint64_t size;     /* of all files, with their trailers */
	uint64_t reserved; /* for files that are being written */
	uint64_t last_id, n_temps, n_evicted, n_damaged;
};

static char *file_path(const struct file_cache *c, const char *name)
{
	return mem_printf("%s/%s", c->dir, name);
}

static uint64_t name_sum(const char *name)
{
	return hash64(name, strlen(name), DIGEST_SEED);
}

void file_cache_names_done(struct file_cache_names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct file_cache_names){ 0 };
}

/* ---- the list; under the lock ---- */

static struct cached_file *file_find(struct file_cache *c, const char *name)
{
	return map_get(&c->files, bytes_of(name, strlen(name)));
}

static void file_drop(struct file_cache *c, struct cached_file *e)
{
	map_del(&c->files, bytes_of(e->name, strlen(e->name)));
	age_remove(&c->ages, &e->age);
	c->size -= e->stamp.size + FILE_CACHE_TRAILER;
	free(e->name);
	free(e);
}

static void file_remove(struct file_cache *c, struct cached_file *e)
{
	AUTO(mem_freep) char *path = file_path(c, e->name);

	(void)unlink(path);
	file_drop(c, e);
}

static void file_add(struct file_cache *c, const char *name, uint64_t size, int64_t used_s, bool checked)
{
	struct cached_file *e = file_find(c, name);

	/* Its file was replaced. */
	if (e)
		file_drop(c, e);
	e = NEW(struct cached_file);
	e->name = mem_strdup(name);
	e->stamp = (struct file_cache_stamp){ ++c->last_id, size, used_s };
	e->used_s = used_s;
	e->checked = checked;
	map_put(&c->files, bytes_of(e->name, strlen(e->name)), e);
	age_add(&c->ages, &e->age);
	c->size += size + FILE_CACHE_TRAILER;
}

/* Evict until there is room for @more bytes in @n_more files. false: there cannot be, and nothing is evicted. */
static bool files_evict(struct file_cache *c, uint64_t more, size_t n_more, struct file_cache_names *evicted)
{
	/* Files that are being written have all of it: an empty cache would not be enough. */
	if (c->reserved + more > c->budget)
		return false;
	while (c->ages.oldest && (c->size + c->reserved + more > c->budget ||
				  (c->max_files && c->files.n + n_more > c->max_files))) {
		struct cached_file *e = CONTAINER_OF(c->ages.oldest, struct cached_file, age);

		if (evicted)
			VEC_PUSH(evicted->v, evicted->n, evicted->room) = mem_strdup(e->name);
		file_remove(c, e);
		c->n_evicted++;
	}
	return true;
}

/* true: the time of the file is to be set, too. */
static bool file_used(struct file_cache *c, struct cached_file *e)
{
	int64_t now_s = clock_wall_s();
	bool touch = now_s - e->used_s >= USED_EVERY_S;

	e->used_s = touch ? now_s : e->used_s;
	age_remove(&c->ages, &e->age);
	age_add(&c->ages, &e->age);
	return touch;
}

/* ---- reading ---- */

void file_cache_list(struct file_cache *c, struct file_cache_names *ret)
{
	*ret = (struct file_cache_names){ 0 };
	pthread_mutex_lock(&c->lock);
	for (struct age *a = c->ages.oldest; a; a = a->younger)
		VEC_PUSH(ret->v, ret->n,
			 ret->room) = mem_strdup(CONTAINER_OF(a, struct cached_file, age)->name);
	pthread_mutex_unlock(&c->lock);
}

bool file_cache_has(struct file_cache *c, const char *name, struct file_cache_stamp *ret)
{
	struct cached_file *e;

	pthread_mutex_lock(&c->lock);
	e = file_find(c, name);
	if (e)
		*ret = e->stamp;
	pthread_mutex_unlock(&c->lock);
	return e != NULL;
}

/* The file is not there any more, or is damaged, unless it was replaced meanwhile. */
static void file_lost(struct file_cache *c, const char *name, uint64_t id, bool damaged)
{
	struct cached_file *e;

	pthread_mutex_lock(&c->lock);
	e = file_find(c, name);
	if (e && e->stamp.id == id) {
		c->n_damaged += damaged;
		file_remove(c, e);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Open a file that is on the list. FILE_CACHE_UNCHECKED if @checked_only; the file is then not used. */
static int file_open_listed(struct file_cache *c, const char *name, bool checked_only, int *ret_fd,
			    struct file_cache_stamp *ret)
{
	AUTO(mem_freep) char *path = file_path(c, name);
	struct cached_file *e;
	bool touch = false, unchecked = false;
	int fd;

	pthread_mutex_lock(&c->lock);
	e = file_find(c, name);
	if (e) {
		*ret = e->stamp;
		unchecked = checked_only && !e->checked;
		touch = !unchecked && file_used(c, e);
	}
	pthread_mutex_unlock(&c->lock);
	if (!e || unchecked)
		return e ? FILE_CACHE_UNCHECKED : FILE_CACHE_NONE;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		/* It was evicted just now, or removed by others. */
		if (errno == ENOENT)
			file_lost(c, name, ret->id, false);
		return FILE_CACHE_NONE;
	}
	if (touch)
		(void)futimens(fd, NULL);
	*ret_fd = fd;
	return 0;
}

int file_cache_open_file(struct file_cache *c, const char *name, int *ret_fd, uint64_t *ret_size)
{
	struct file_cache_stamp stamp;
	int r = file_open_listed(c, name, true, ret_fd, &stamp);

	if (r == 0)
		*ret_size = stamp.size;
	return r;
}

static bool trailer_read(int fd, const char *name, uint64_t size, struct trailer *ret)
{
	size_t got;

	return fd_pread(fd, ret, sizeof(*ret), size, &got, NULL) == 0 && got == sizeof(*ret) &&
	       ret->magic == MAGIC && ret->size == size && ret->name == name_sum(name);
}

static bool file_is_whole(const char *path, const char *name, uint64_t size)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(PIECE_SIZE);
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct hash64_state h;
	struct trailer t;
	size_t got;

	if (fd < 0 || !trailer_read(fd, name, size, &t))
		return false;
	hash64_init(&h, DIGEST_SEED);
	for (uint64_t off = 0; off < size; off += got) {
		size_t n = (size_t)MIN((uint64_t)PIECE_SIZE, size - off);

		if (fd_pread(fd, piece, n, off, &got, NULL) < 0 || got != n)
			return false;
		hash64_feed(&h, piece, n);
	}
	return hash64_end(&h) == t.digest;
}

static void file_damaged(struct file_cache *c, const char *name, uint64_t id)
{
	log_warn(c->log_name, "%s/%s: a damaged file of the cache; its content is fetched again", c->dir,
		 name);
	file_lost(c, name, id, true);
}

void file_cache_check(struct file_cache *c, const char *name)
{
	AUTO(mem_freep) char *path = file_path(c, name);
	struct file_cache_stamp stamp;
	struct cached_file *e;

	if (!file_cache_has(c, name, &stamp))
		return;
	if (!file_is_whole(path, name, stamp.size)) {
		file_damaged(c, name, stamp.id);
		return;
	}
	pthread_mutex_lock(&c->lock);
	e = file_find(c, name);
	if (e && e->stamp.id == stamp.id)
		e->checked = true;
	pthread_mutex_unlock(&c->lock);
}

bool file_cache_read(struct file_cache *c, const char *name, uint8_t *p, size_t size)
{
	AUTO(fd_close) int fd = -1;
	struct file_cache_stamp stamp;
	struct trailer t;
	size_t got;

	if (file_open_listed(c, name, false, &fd, &stamp) != 0)
		return false;
	if (stamp.size == size && trailer_read(fd, name, size, &t) &&
	    fd_pread(fd, p, size, 0, &got, NULL) == 0 && got == size &&
	    hash64(p, size, DIGEST_SEED) == t.digest)
		return true;
	file_damaged(c, name, stamp.id);
	return false;
}

void file_cache_forget(struct file_cache *c, const char *name)
{
	struct cached_file *e;

	pthread_mutex_lock(&c->lock);
	e = file_find(c, name);
	if (e)
		file_remove(c, e);
	pthread_mutex_unlock(&c->lock);
}

void file_cache_figures(struct file_cache *c, struct file_cache_figures *ret)
{
	pthread_mutex_lock(&c->lock);
	*ret = (struct file_cache_figures){ c->size, c->files.n, c->n_evicted, c->n_damaged };
	pthread_mutex_unlock(&c->lock);
}

/* ---- writing ---- */

bool file_cache_begin(struct file_cache *c, const char *name, uint64_t size, struct file_cache_new *ret,
		      struct file_cache_names *evicted)
{
	uint64_t id;
	bool fits;

	*ret = (struct file_cache_new){ .c = c, .name = name, .fd = -1, .size = size };
	hash64_init(&ret->hash, DIGEST_SEED);
	pthread_mutex_lock(&c->lock);
	fits = size <= c->budget / c->part_max && files_evict(c, size + FILE_CACHE_TRAILER, 1, evicted);
	if (fits)
		c->reserved += size + FILE_CACHE_TRAILER;
	id = c->n_temps++;
	pthread_mutex_unlock(&c->lock);
	if (!fits)
		return false;
	ret->path = mem_printf("%s/" TEMP_PREFIX "%llu", c->dir, (unsigned long long)id);
	ret->fd = open(ret->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return ret->fd >= 0 &&
	       room_claim(c->room, &ret->claim, ret->fd, size + FILE_CACHE_TRAILER, NULL) == 0;
}

bool file_cache_add(struct file_cache_new *n, struct bytes b)
{
	if (b.size > n->size - n->written || fd_pwrite(n->fd, b.p, b.size, n->written, NULL) < 0)
		return false;
	hash64_feed(&n->hash, b.p, b.size);
	n->written += b.size;
	return true;
}

bool file_cache_end(struct file_cache_new *n)
{
	struct file_cache *c = n->c;
	AUTO(mem_freep) char *path = file_path(c, n->name);
	struct trailer t = { MAGIC, hash64_end(&n->hash), n->size, name_sum(n->name) };
	bool done;

	if (n->written != n->size || fd_pwrite(n->fd, &t, sizeof(t), n->size, NULL) < 0)
		return false;
	/* Under the lock: an eviction of a former file would remove this one. */
	pthread_mutex_lock(&c->lock);
	done = rename(n->path, path) == 0;
	if (done)
		file_add(c, n->name, n->size, clock_wall_s(), true);
	pthread_mutex_unlock(&c->lock);
	if (done)
		mem_freep(&n->path);
	return done;
}

void file_cache_done(struct file_cache_new *n)
{
	bool reserved = n->path || n->fd >= 0;

	if (!reserved)
		return;
	if (n->path)
		(void)unlink(n->path);
	mem_freep(&n->path);
	fd_close(&n->fd);
	room_release(&n->claim);
	pthread_mutex_lock(&n->c->lock);
	n->c->reserved -= n->size + FILE_CACHE_TRAILER;
	pthread_mutex_unlock(&n->c->lock);
}

/* ---- beginning and end ---- */

struct found_file {
	char *name;
	uint64_t size;
	int64_t used_ns;
};

static int found_by_age(const void *a, const void *b)
{
	const struct found_file *x = a, *y = b;

	return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

static void files_load(struct file_cache *c, const struct file_cache_options *o, DIR *dir)
{
	struct found_file *v = NULL;
	size_t n = 0, room = 0;
	struct dirent *e;
	struct stat st;

	while ((e = readdir(dir))) {
		uint64_t size;

		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode))
			continue;
		size = (uint64_t)st.st_size - FILE_CACHE_TRAILER;
		if (!S_ISREG(st.st_mode) || st.st_size < (off_t)FILE_CACHE_TRAILER ||
		    !o->is_name(e->d_name, size)) {
			(void)unlinkat(dirfd(dir), e->d_name, 0);
			continue;
		}
		VEC_PUSH(v, n, room) = (struct found_file){ mem_strdup(e->d_name), size, file_mtime_ns(&st) };
	}
	if (n)
		qsort(v, n, sizeof(*v), found_by_age);
	for (size_t i = 0; i < n; i++) {
		file_add(c, v[i].name, v[i].size, v[i].used_ns / 1000000000, false);
		free(v[i].name);
	}
	free(v);
	(void)files_evict(c, 0, 0, NULL);
}

int file_cache_open(const struct file_cache_options *o, struct file_cache **ret, struct err *err)
{
	struct file_cache *c;
	DIR *dir;

	if (dir_make(o->dir, 0700, err) < 0)
		return -1;
	dir = opendir(o->dir);
	if (!dir)
		return err_os(err, errno, "%s: open", o->dir);
	if (flock(dirfd(dir), LOCK_EX | LOCK_NB) < 0) {
		int e = errno;

		closedir(dir);
		return e == EWOULDBLOCK
			       ? err_set(err, ERR_BUSY, "%s: another process uses this cache", o->dir)
			       : err_os(err, e, "%s: lock", o->dir);
	}
	c = NEW(struct file_cache);
	c->dir = mem_strdup(o->dir);
	c->budget = o->budget;
	c->max_files = o->max_files;
	c->part_max = o->part_max;
	c->room = o->room;
	c->log_name = o->log_name;
	pthread_mutex_init(&c->lock, NULL);
	files_load(c, o, dir);
	c->lock_dir = dir;
	*ret = c;
	return 0;
}

void file_cache_close(struct file_cache *c)
{
	if (!c)
		return;
	while (c->ages.oldest)
		file_drop(c, CONTAINER_OF(c->ages.oldest, struct cached_file, age));
	map_done(&c->files);
	pthread_mutex_destroy(&c->lock);
	closedir(c->lock_dir);
	free(c->dir);
	free(c);
}
