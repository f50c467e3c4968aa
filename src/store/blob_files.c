/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a cache of contents, in the order of their use.
 *
 * The time of a file is that of its last use, to within USED_EVERY_S, so that the order survives a restart.
 */
#include "store/blob_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>
#include "base/age.h"
#include "base/room.h"
#include "store/internal.h"

#define MAGIC        UINT64_C(0x31434345444f4c) /* "LODECC1" */
#define DIGEST_SEED  61u
#define FILES_USUAL  65536u
#define PART_MAX     4u /* of the budget, for one file */
#define FILES_PIECE  MIB(1)
#define USED_EVERY_S 60
#define TEMP_PREFIX  "tmp-"
#define LOCK_NAME    "lock"

/* After the bytes of each file. */
struct trailer {
	uint64_t magic, digest, size, name;
};

struct cached_file {
	char *name; /* of the file: that of the content without its folders */
	uint64_t size;
	struct blob_stamp stamp;
	int64_t used_s; /* as the file's time says */
	bool checked;
	struct age age;
};

struct blob_files {
	char *dir;
	int lock_fd;
	uint64_t budget;
	size_t max_files;
	struct room *room; /* borrowed */
	pthread_mutex_t lock;
	/* under the lock */
	struct map files; /* name -> struct cached_file */
	struct age_list ages;
	uint64_t size;     /* of all files, with their trailers */
	uint64_t reserved; /* for files that are being written */
	uint64_t last_id, n_temps, n_evicted, n_damaged;
};

static const char *file_name(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? slash + 1 : name;
}

static char *file_path(const struct blob_files *f, const char *file)
{
	return mem_printf("%s/%s", f->dir, file);
}

static uint64_t name_sum(const char *file)
{
	return hash64(file, strlen(file), DIGEST_SEED);
}

static bool name_is_raw(const char *file)
{
	return !str_ends(str_of(file), STR(".zst"));
}

/* ---- the list; under the lock ---- */

static struct cached_file *file_find(struct blob_files *f, const char *file)
{
	return map_get(&f->files, bytes_of(file, strlen(file)));
}

static void file_drop(struct blob_files *f, struct cached_file *e)
{
	map_del(&f->files, bytes_of(e->name, strlen(e->name)));
	age_remove(&f->ages, &e->age);
	f->size -= e->size + sizeof(struct trailer);
	free(e->name);
	free(e);
}

static void file_remove(struct blob_files *f, struct cached_file *e)
{
	AUTO(mem_freep) char *path = file_path(f, e->name);

	(void)unlink(path);
	file_drop(f, e);
}

static void file_add(struct blob_files *f, const char *file, uint64_t size, int64_t used_s, bool checked)
{
	struct cached_file *e = file_find(f, file);

	/* Its file was replaced. */
	if (e)
		file_drop(f, e);
	e = NEW(struct cached_file);
	e->name = mem_strdup(file);
	e->size = size;
	e->stamp = (struct blob_stamp){ ++f->last_id, size, used_s * 1000000000 };
	e->used_s = used_s;
	e->checked = checked;
	map_put(&f->files, bytes_of(e->name, strlen(e->name)), e);
	age_add(&f->ages, &e->age);
	f->size += size + sizeof(struct trailer);
}

/* Evict until there is room for @more bytes in one more file. false: there cannot be. */
static bool files_evict(struct blob_files *f, uint64_t more)
{
	while (f->ages.oldest && (f->size + f->reserved + more > f->budget || f->files.n >= f->max_files)) {
		file_remove(f, CONTAINER_OF(f->ages.oldest, struct cached_file, age));
		f->n_evicted++;
	}
	return f->size + f->reserved + more <= f->budget;
}

/* ---- reading ---- */

bool blob_files_has(struct blob_files *f, const char *name, struct blob_stamp *ret)
{
	struct cached_file *e;

	pthread_mutex_lock(&f->lock);
	e = file_find(f, file_name(name));
	if (e)
		*ret = e->stamp;
	pthread_mutex_unlock(&f->lock);
	return e != NULL;
}

/* The file is not there any more, or is damaged, unless it was replaced meanwhile. */
static void file_lost(struct blob_files *f, const char *file, uint64_t id, bool damaged)
{
	struct cached_file *e;

	pthread_mutex_lock(&f->lock);
	e = file_find(f, file);
	if (e && e->stamp.id == id) {
		f->n_damaged += damaged;
		file_remove(f, e);
	}
	pthread_mutex_unlock(&f->lock);
}

int blob_files_read(struct blob_files *f, const char *name, struct source **ret)
{
	const char *file = file_name(name);
	AUTO(mem_freep) char *path = file_path(f, file);
	int64_t now_s = clock_wall_s();
	struct cached_file *e;
	uint64_t size = 0, id = 0;
	bool checked = false, touch = false;
	int fd;

	pthread_mutex_lock(&f->lock);
	e = file_find(f, file);
	if (e) {
		size = e->size;
		id = e->stamp.id;
		checked = e->checked;
		touch = checked && now_s - e->used_s >= USED_EVERY_S;
		e->used_s = touch ? now_s : e->used_s;
		age_remove(&f->ages, &e->age);
		age_add(&f->ages, &e->age);
	}
	pthread_mutex_unlock(&f->lock);
	if (!e || !checked)
		return e ? FILES_UNCHECKED : FILES_NONE;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		/* It was evicted just now, or removed by others. */
		if (errno == ENOENT)
			file_lost(f, file, id, false);
		return FILES_NONE;
	}
	if (touch)
		(void)futimens(fd, NULL);
	*ret = source_of_fd(fd, size, 0, name);
	return 0;
}

static bool file_is_whole(const char *path, const char *file, uint64_t size)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(FILES_PIECE);
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct hash64_state h;
	struct trailer t;
	size_t got;

	if (fd < 0 || fd_pread(fd, &t, sizeof(t), size, &got, NULL) < 0 || got != sizeof(t) ||
	    t.magic != MAGIC || t.size != size || t.name != name_sum(file))
		return false;
	hash64_init(&h, DIGEST_SEED);
	for (uint64_t off = 0; off < size; off += got) {
		size_t n = (size_t)MIN((uint64_t)FILES_PIECE, size - off);

		if (fd_pread(fd, piece, n, off, &got, NULL) < 0 || got != n)
			return false;
		hash64_feed(&h, piece, n);
	}
	return hash64_end(&h) == t.digest;
}

void blob_files_check(struct blob_files *f, const char *name)
{
	const char *file = file_name(name);
	AUTO(mem_freep) char *path = file_path(f, file);
	struct blob_stamp stamp;
	struct cached_file *e;

	if (!blob_files_has(f, name, &stamp))
		return;
	if (!file_is_whole(path, file, stamp.size)) {
		log_warn("store", "%s: a damaged file of the cache; its content is fetched again", path);
		file_lost(f, file, stamp.id, true);
		return;
	}
	pthread_mutex_lock(&f->lock);
	e = file_find(f, file);
	if (e && e->stamp.id == stamp.id)
		e->checked = true;
	pthread_mutex_unlock(&f->lock);
}

/* ---- keeping ---- */

/* A file that is being written. */
struct new_file {
	int fd;
	char *path;
	uint64_t size;
	struct room_claim claim;
};

static void new_file_done(struct blob_files *f, struct new_file *n)
{
	if (n->path)
		(void)unlink(n->path);
	free(n->path);
	fd_close(&n->fd);
	room_release(&n->claim);
	pthread_mutex_lock(&f->lock);
	f->reserved -= n->size + sizeof(struct trailer);
	pthread_mutex_unlock(&f->lock);
}

/* Reserve room and create the file. FILES_NONE. */
static int new_file_begin(struct blob_files *f, uint64_t size, struct new_file *ret)
{
	uint64_t id;
	bool fits;

	*ret = (struct new_file){ .fd = -1, .size = size };
	pthread_mutex_lock(&f->lock);
	fits = size <= f->budget / PART_MAX && files_evict(f, size + sizeof(struct trailer));
	if (fits)
		f->reserved += size + sizeof(struct trailer);
	id = f->n_temps++;
	pthread_mutex_unlock(&f->lock);
	if (!fits)
		return FILES_NONE;
	ret->path = mem_printf("%s/" TEMP_PREFIX "%llu", f->dir, (unsigned long long)id);
	ret->fd = open(ret->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (ret->fd < 0 || room_claim(f->room, &ret->claim, ret->fd, size + sizeof(struct trailer), NULL) < 0)
		return FILES_NONE;
	return 0;
}

/* Copy the bytes and write the trailer. The SHA-256 of a raw content is computed on the way. FILES_NONE: a failure to write. */
static int new_file_fill(struct new_file *n, const char *file, struct source *src,
			 uint8_t ret[STORE_SHA256_SIZE], struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(FILES_PIECE);
	AUTO(sha256_freep) struct sha256 *sha = NULL;
	struct trailer t = { .magic = MAGIC, .size = n->size, .name = name_sum(file) };
	struct hash64_state h;
	size_t got;

	if (sha256_new(&sha, err) < 0)
		return -1;
	hash64_init(&h, DIGEST_SEED);
	source_expect(src, range_of(0, n->size));
	for (uint64_t off = 0; off < n->size; off += got) {
		if (source_read(src, off, piece, FILES_PIECE, SOURCE_SEQUENTIAL, &got, err) < 0)
			return -1;
		if (!got)
			return err_set(err, ERR_INVALID, "ends at byte %llu of %llu", (unsigned long long)off,
				       (unsigned long long)n->size);
		hash64_feed(&h, piece, got);
		sha256_add(sha, bytes_of(piece, got));
		if (fd_pwrite(n->fd, piece, got, off, NULL) < 0)
			return FILES_NONE;
	}
	t.digest = hash64_end(&h);
	sha256_end(sha, ret);
	return fd_pwrite(n->fd, &t, sizeof(t), n->size, NULL) < 0 ? FILES_NONE : 0;
}

/* Is it the content of its name? */
static int new_file_verify(struct new_file *n, const char *file, uint8_t sum[STORE_SHA256_SIZE],
			   struct err *err)
{
	AUTO(source_closep) struct source *frames = NULL;
	char hex[2 * STORE_SHA256_SIZE + 1];
	int fd;

	if (!name_is_raw(file)) {
		fd = fcntl(n->fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return err_os(err, errno, "%s: dup", n->path);
		if (content_frames(source_of_fd(fd, n->size, 0, file), &frames, err) < 0 ||
		    content_hash(frames, NULL, NULL, sum, err) < 0)
			return -1;
	}
	hex_encode(bytes_of(sum, STORE_SHA256_SIZE), hex);
	return strncmp(hex, file, sizeof(hex) - 1) == 0 ? 0
							: err_set(err, ERR_INVALID, "its SHA-256 differs");
}

/* FILES_NONE: a failure. */
static int new_file_publish(struct blob_files *f, struct new_file *n, const char *file)
{
	AUTO(mem_freep) char *path = file_path(f, file);
	bool done;

	/* Under the lock: an eviction of a former copy would remove this file. */
	pthread_mutex_lock(&f->lock);
	done = rename(n->path, path) == 0;
	if (done)
		file_add(f, file, n->size, clock_wall_s(), true);
	pthread_mutex_unlock(&f->lock);
	if (done)
		mem_freep(&n->path);
	return done ? 0 : FILES_NONE;
}

int blob_files_keep(struct blob_files *f, const char *name, struct source *src, struct err *err)
{
	const char *file = file_name(name);
	uint8_t sum[STORE_SHA256_SIZE];
	struct new_file n;
	int r = new_file_begin(f, src->size, &n);

	if (r == FILES_NONE && !n.path)
		return r;
	if (r == 0)
		r = new_file_fill(&n, file, src, sum, err);
	if (r == 0)
		r = new_file_verify(&n, file, sum, err);
	if (r == 0)
		r = new_file_publish(f, &n, file);
	new_file_done(f, &n);
	return r;
}

void blob_files_forget(struct blob_files *f, const char *name)
{
	struct cached_file *e;

	pthread_mutex_lock(&f->lock);
	e = file_find(f, file_name(name));
	if (e)
		file_remove(f, e);
	pthread_mutex_unlock(&f->lock);
}

void blob_files_figures(struct blob_files *f, struct blob_files_figures *ret)
{
	pthread_mutex_lock(&f->lock);
	*ret = (struct blob_files_figures){ f->size, f->files.n, f->n_evicted, f->n_damaged };
	pthread_mutex_unlock(&f->lock);
}

/* ---- beginning and end ---- */

struct found_copy {
	char *name;
	uint64_t size;
	int64_t used_s;
};

static int found_by_age(const void *a, const void *b)
{
	const struct found_copy *x = a, *y = b;

	return (x->used_s > y->used_s) - (x->used_s < y->used_s);
}

static bool is_file_name(const char *s)
{
	size_t n = strspn(s, "0123456789abcdef");

	return n == 2 * (size_t)STORE_SHA256_SIZE && (!s[n] || strcmp(s + n, ".zst") == 0);
}

static void files_load(struct blob_files *f, DIR *dir)
{
	struct found_copy *v = NULL;
	size_t n = 0, room = 0;
	struct dirent *e;
	struct stat st;

	while ((e = readdir(dir))) {
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
		    strcmp(e->d_name, LOCK_NAME) == 0)
			continue;
		if (!is_file_name(e->d_name) || (uint64_t)st.st_size < sizeof(struct trailer)) {
			(void)unlinkat(dirfd(dir), e->d_name, 0);
			continue;
		}
		VEC_PUSH(v, n, room) = (struct found_copy){ mem_strdup(e->d_name),
							    (uint64_t)st.st_size - sizeof(struct trailer),
							    st.st_mtim.tv_sec };
	}
	if (n)
		qsort(v, n, sizeof(*v), found_by_age);
	for (size_t i = 0; i < n; i++) {
		file_add(f, v[i].name, v[i].size, v[i].used_s, false);
		free(v[i].name);
	}
	free(v);
	(void)files_evict(f, 0);
}

static int files_lock(const char *dir, int *ret_fd, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" LOCK_NAME, dir);
	AUTO(fd_close) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_os(err, errno, "%s: open", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? err_set(err, ERR_BUSY, "%s: another process uses this cache", dir)
			       : err_os(err, errno, "%s: lock", path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int blob_files_open(const struct blob_cache_options *o, struct blob_files **ret, struct err *err)
{
	AUTO(fd_close) int lock_fd = -1;
	struct blob_files *f;
	DIR *dir;

	if (dir_make(o->dir, 0700, err) < 0 || files_lock(o->dir, &lock_fd, err) < 0)
		return -1;
	dir = opendir(o->dir);
	if (!dir)
		return err_os(err, errno, "%s: open", o->dir);
	f = NEW(struct blob_files);
	f->dir = mem_strdup(o->dir);
	f->lock_fd = TAKE_FD(lock_fd);
	f->budget = o->budget;
	f->max_files = o->max_files ? o->max_files : FILES_USUAL;
	f->room = o->room;
	pthread_mutex_init(&f->lock, NULL);
	files_load(f, dir);
	closedir(dir);
	*ret = f;
	return 0;
}

void blob_files_close(struct blob_files *f)
{
	if (!f)
		return;
	while (f->ages.oldest)
		file_drop(f, CONTAINER_OF(f->ages.oldest, struct cached_file, age));
	map_done(&f->files);
	pthread_mutex_destroy(&f->lock);
	fd_close(&f->lock_fd);
	free(f->dir);
	free(f);
}
