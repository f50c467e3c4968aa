/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs as files of a folder.
 *
 * Contents are gathered in tmp/ (staging_dir.c). A staging file becomes a blob by a link or a rename after it
 * is synced; then the folder is synced. Names change under a lock of the whole folder, held for one or two
 * system calls, so that a condition and the change that depends on it are atomic.
 *
 * A blob can be seen before it is durable: between its rename and the sync of its folder, and after that sync
 * has failed. Names whose sync failed are *doubtful* until they are put again.
 */
#include "store/blob_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

struct blob_folder {
	struct blobs blobs;
	char *path;
	int lock_fd;
	pthread_mutex_t lock; /* flock() does not keep threads apart */
	pthread_mutex_t sync_lock;
	/* under sync_lock */
	struct map folders;  /* names ("keys/ab") of the folders that are durable themselves */
	struct map doubtful; /* names of blobs whose last sync failed */
};

static struct blob_folder *store_dir(struct blobs *b)
{
	return CONTAINER_OF(b, struct blob_folder, blobs);
}

static char *blob_path(const struct blob_folder *d, const char *name)
{
	return mem_printf("%s/%s", d->path, name);
}

static void dir_lock(struct blob_folder *d)
{
	pthread_mutex_lock(&d->lock);
	while (flock(d->lock_fd, LOCK_EX) < 0 && errno == EINTR)
		;
}

static void dir_unlock(struct blob_folder *d)
{
	flock(d->lock_fd, LOCK_UN);
	pthread_mutex_unlock(&d->lock);
}

/* Our clock, not the file system's, since times are compared with it. */
static struct timespec time_now(void)
{
	int64_t ms = clock_wall_ms();

	return (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
}

static int file_set_time(int fd, const char *path, struct err *err)
{
	struct timespec t[2] = { time_now(), time_now() };

	if ((fd >= 0 ? futimens(fd, t) : utimensat(AT_FDCWD, path, t, 0)) < 0)
		return errno == ENOENT ? BLOB_MISSING : err_os(err, errno, "%s: set time", path);
	return 0;
}

/* ---- stagings: staging_dir.c ---- */

static int dir_staging(struct blobs *b, struct str name, struct staging *ret, struct err *err)
{
	return staging_dir_open(store_dir(b)->path, name, ret, err);
}

static void dir_staging_done(struct blobs *b, struct staging *s, bool keep)
{
	staging_dir_done(s, keep);
}

static int dir_staging_note(struct blobs *b, struct staging *s, const struct staging_note *note,
			    struct err *err)
{
	return staging_dir_note(s, note, err);
}

static int dir_notes(struct blobs *b, int (*fn)(void *arg, const struct staging_note *note), void *arg,
		     struct err *err)
{
	return staging_dir_notes(store_dir(b)->path, fn, arg, err);
}

static int dir_staged(struct blobs *b, uint64_t *ret_bytes, struct err *err)
{
	return staging_dir_staged(store_dir(b)->path, ret_bytes, err);
}

static int dir_sweep(struct blobs *b, uint64_t *ret_n, struct err *err)
{
	return staging_dir_sweep(store_dir(b)->path, ret_n, err);
}

/* ---- putting ---- */

static bool dir_has_noted(struct blob_folder *d, const struct map *m, struct str name)
{
	bool there;

	pthread_mutex_lock(&d->sync_lock);
	there = map_get(m, bytes_of(name.p, name.size)) != NULL;
	pthread_mutex_unlock(&d->sync_lock);
	return there;
}

static void dir_note(struct blob_folder *d, struct map *m, struct str name, bool add)
{
	pthread_mutex_lock(&d->sync_lock);
	if (add)
		map_put(m, bytes_of(name.p, name.size), m);
	else if (m->n)
		map_del(m, bytes_of(name.p, name.size));
	pthread_mutex_unlock(&d->sync_lock);
}

/*
 * Create the folder of the blob, if it is missing. An existing one may have been created a moment ago by
 * another thread or process that has not synced it yet: so it is synced once in each process.
 */
static int parent_create(struct blob_folder *d, const char *name, struct err *err)
{
	struct str folder = path_dirname(str_of(name)), above = path_dirname(folder);
	AUTO(mem_freep) char *p = mem_printf("%s/" STR_FMT, d->path, STR_ARG(folder));
	AUTO(mem_freep) char *a = mem_printf("%s/" STR_FMT, d->path, STR_ARG(above));
	bool made = mkdir(p, 0755) == 0;

	if (!made && errno == ENOENT) { /* the folder above is of a later version than the store */
		if (dir_make(a, 0755, err) < 0 || dir_sync(d->path, err) < 0)
			return -1;
		made = mkdir(p, 0755) == 0;
	}
	if (!made && errno != EEXIST)
		return err_os(err, errno, "%s: mkdir", p);
	if (!made && dir_has_noted(d, &d->folders, folder))
		return 0;
	if (dir_sync(a, err) < 0)
		return -1;
	dir_note(d, &d->folders, folder, true);
	return 0;
}

/* The blob was put, or removed: make that durable. */
static int sync_parent(struct blob_folder *d, const char *name, struct err *err)
{
	struct str folder = path_dirname(str_of(name));
	AUTO(mem_freep) char *p = mem_printf("%s/" STR_FMT, d->path, STR_ARG(folder));
	int r = dir_sync(p, err);

	dir_note(d, &d->doubtful, str_of(name), r < 0);
	return r;
}

/*
 * Replace the blob at @path by a link to the staging file, which keeps its name. The blob is there at any moment:
 * an acknowledged object may need it, and this process may be killed.
 */
static bool staging_replace(const struct staging *s, const char *path)
{
	AUTO(mem_freep) char *temp = mem_printf("%s.new", s->path);
	int os = 0;

	if (link(s->path, temp) < 0)
		return false;
	if (rename(temp, path) < 0)
		os = errno;
	/* After a rename it is gone, unless both names were links to the same file. */
	(void)unlink(temp);
	errno = os;
	return !os;
}

/* Under the lock. */
static int staging_place(struct staging *s, const char *path, bool keep, struct err *err)
{
	struct blob_stamp there;
	int r = blob_file_stat(path, &there, err);

	if (r < 0)
		return -1;
	if (r == 0 && there.size == s->size && (keep || !s->path))
		return file_set_time(-1, path, err);
	if (!s->path) /* a file system without links, and the file was put before */
		return err_set(err, ERR_IO, "%s: removed while it was written", path);
	if (r == 0 ? staging_replace(s, path) : link(s->path, path) == 0)
		return 0;
	if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK)
		return err_os(err, errno, "%s: link", path);
	if (rename(s->path, path) < 0)
		return err_os(err, errno, "%s: rename", path);
	mem_freep(&s->path);
	return 0;
}

static int dir_put_staged(struct blobs *b, const char *name, struct staging *s, bool keep, struct err *err)
{
	struct blob_folder *d = store_dir(b);
	AUTO(mem_freep) char *path = blob_path(d, name);
	int r;

	keep = keep && !dir_has_noted(d, &d->doubtful, str_of(name));
	if (file_set_time(s->fd, name, err) != 0)
		return -1;
	if (fsync(s->fd) < 0)
		return err_os(err, errno, "%s: sync", name);
	if (parent_create(d, name, err) < 0)
		return -1;
	dir_lock(d);
	r = staging_place(s, path, keep, err);
	dir_unlock(d);
	return r == 0 ? sync_parent(d, name, err) : -1;
}

static bool is_version(const struct blob_stamp *there, const struct blob_stamp *expect)
{
	return there->id == expect->id && there->size == expect->size && there->time_ns == expect->time_ns;
}

/* Under the lock. */
static int blob_replace(const char *temp, const char *path, const struct blob_stamp *expect, struct err *err)
{
	struct blob_stamp there = { 0 };

	if (blob_file_stat(path, &there, err) < 0)
		return -1;
	if (!is_version(&there, expect))
		return BLOB_CHANGED;
	if (rename(temp, path) < 0)
		return err_os(err, errno, "%s: rename", path);
	return 0;
}

static int put_temp(struct blob_folder *d, struct staging *s, const char *name, struct bytes content,
		    const struct blob_stamp *expect, struct err *err)
{
	AUTO(mem_freep) char *path = blob_path(d, name);
	int r;

	if (staging_write(s, content, err) < 0 || file_set_time(s->fd, path, err) != 0)
		return -1;
	if (fsync(s->fd) < 0)
		return err_os(err, errno, "sync");
	if (parent_create(d, name, err) < 0)
		return -1;
	dir_lock(d);
	r = blob_replace(s->path, path, expect, err);
	dir_unlock(d);
	if (r)
		return r;
	mem_freep(&s->path);
	return sync_parent(d, name, err);
}

static int dir_put(struct blobs *b, const char *name, struct bytes content, const char *needs,
		   const struct blob_stamp *expect, struct err *err)
{
	struct blob_folder *d = store_dir(b);
	struct staging s = { .fd = -1 };
	int r;

	if (dir_staging(b, STR(""), &s, err) < 0)
		return -1;
	r = put_temp(d, &s, name, content, expect, err);
	dir_staging_done(b, &s, false);
	return r < 0 ? err_in(err, "%s", name) : r;
}

static bool folder_exists(const struct blob_folder *d, const char *name)
{
	struct str folder = path_dirname(str_of(name));
	AUTO(mem_freep) char *path = mem_printf("%s/" STR_FMT, d->path, STR_ARG(folder));

	return access(path, F_OK) == 0;
}

static int dir_settle(struct blobs *b, const char *name, struct err *err)
{
	struct blob_folder *d = store_dir(b);
	AUTO(mem_freep) char *path = blob_path(d, name);
	AUTO(fd_close) int fd = -1;
	struct stat st;
	int r;

	if (dir_has_noted(d, &d->doubtful, str_of(name)))
		return err_set(err, ERR_IO, "%s: its last sync has failed: it may not be on disk", name);
	r = file_open(path, &fd, &st, err);
	if (r < 0)
		return -1;
	if (fd >= 0 && fsync(fd) < 0) {
		dir_note(d, &d->doubtful, str_of(name), true);
		return err_os(err, errno, "%s: sync", path);
	}
	if (r && !folder_exists(d, name))
		return BLOB_MISSING;
	if (parent_create(d, name, err) < 0 || sync_parent(d, name, err) < 0)
		return -1;
	return r ? BLOB_MISSING : 0;
}

/* On the heap. */
static char **doubtful_names(struct blob_folder *d, size_t *ret_n)
{
	char **names = NULL;
	size_t n = 0, room = 0;
	struct bytes name;
	void *value;

	pthread_mutex_lock(&d->sync_lock);
	map_each (&d->doubtful, it, &name, &value)
		VEC_PUSH(names, n, room) = mem_strndup((const char *)name.p, name.size);
	pthread_mutex_unlock(&d->sync_lock);
	*ret_n = n;
	return names;
}

/* Write a doubtful record once more. BLOB_UNSURE: it is a content. */
static int blob_put_again(struct blobs *b, const char *name, struct err *err)
{
	bool is_content = str_starts(str_of(name), STR("data/"));
	AUTO(buf_done) struct buf text = { 0 };
	struct blob_stamp stamp;
	int r = is_content ? b->ops->stat(b, name, &stamp, err)
			   : b->ops->get(b, name, MIB(1), &text, &stamp, err);

	if (r == BLOB_MISSING)
		return sync_parent(store_dir(b), name, err);
	if (r == 0 && is_content)
		return BLOB_UNSURE;
	/* BLOB_CHANGED: another thread has put it again. */
	return r < 0 || b->ops->put(b, name, buf_bytes(&text), NULL, &stamp, err) < 0 ? -1 : 0;
}

static int dir_settle_all(struct blobs *b, struct err *err)
{
	struct blob_folder *d = store_dir(b);
	size_t n;
	char **names = doubtful_names(d, &n);
	bool unsure = false;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		if (r >= 0)
			r = blob_put_again(b, names[i], err);
		unsure |= r == BLOB_UNSURE;
		free(names[i]);
	}
	free(names);
	if (r >= 0 && syncfs(d->lock_fd) < 0)
		r = err_os(err, errno, "%s: sync", d->path);
	return r < 0 ? -1 : unsure ? BLOB_UNSURE : 0;
}

/* ---- reading ---- */

static int dir_open(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	AUTO(mem_freep) char *path = blob_path(store_dir(b), name);
	int r = source_open_file(path, ret, err);

	return r > 0 ? BLOB_MISSING : r;
}

static int dir_get(struct blobs *b, const char *name, size_t max, struct buf *ret,
		   struct blob_stamp *ret_stamp, struct err *err)
{
	AUTO(mem_freep) char *path = blob_path(store_dir(b), name);
	AUTO(fd_close) int fd = -1;
	struct stat st;
	size_t got;
	int r = file_open(path, &fd, &st, err);

	if (r)
		return r < 0 ? -1 : BLOB_MISSING;
	if ((uint64_t)st.st_size > max)
		return err_set(err, ERR_LIMIT, "%s: longer than %zu bytes", path, max);
	ret->size = 0;
	if (fd_pread(fd, buf_reserve(ret, (size_t)st.st_size + 1), (size_t)st.st_size, 0, &got, err) < 0)
		return err_in(err, "%s", path);
	ret->size = got;
	*ret_stamp = blob_file_stamp(&st);
	return 0;
}

static int dir_stat(struct blobs *b, const char *name, struct blob_stamp *ret, struct err *err)
{
	AUTO(mem_freep) char *path = blob_path(store_dir(b), name);

	return blob_file_stat(path, ret, err);
}

static int dir_touch(struct blobs *b, const char *name, struct err *err)
{
	struct blob_folder *d = store_dir(b);
	AUTO(mem_freep) char *path = blob_path(d, name);
	int r;

	dir_lock(d);
	r = file_set_time(-1, path, err);
	dir_unlock(d);
	return r;
}

/* Under the lock. */
static int blob_unlink(const char *path, struct err *err)
{
	if (unlink(path) < 0)
		return errno == ENOENT || errno == ENOTDIR ? BLOB_MISSING
							   : err_os(err, errno, "%s: unlink", path);
	return 0;
}

/* Under the lock. */
static int blob_remove_older(const char *path, int64_t not_after_ns, struct err *err)
{
	struct blob_stamp there;
	int r = blob_file_stat(path, &there, err);

	if (r)
		return r;
	return there.time_ns > not_after_ns ? BLOB_YOUNGER : blob_unlink(path, err);
}

/* Under the lock. */
static int blob_remove_seen(const char *path, const struct blob_stamp *seen, struct err *err)
{
	struct blob_stamp there;
	int r = seen ? blob_file_stat(path, &there, err) : 0;

	if (r)
		return r;
	return seen && !is_version(&there, seen) ? BLOB_CHANGED : blob_unlink(path, err);
}

static int dir_remove(struct blobs *b, const char *name, const struct blob_stamp *seen, struct err *err)
{
	struct blob_folder *d = store_dir(b);
	AUTO(mem_freep) char *path = blob_path(d, name);
	int r;

	dir_lock(d);
	r = blob_remove_seen(path, seen, err);
	dir_unlock(d);
	return r;
}

/* Of a record that is being written, the content was put or touched a moment ago. */
static int dir_collect(struct blobs *b, struct blob_garbage *v, size_t n, int64_t not_after_ns,
		       struct err *err)
{
	struct blob_folder *d = store_dir(b);

	for (size_t i = 0; i < n; i++) {
		AUTO(mem_freep) char *path = blob_path(d, v[i].name);

		dir_lock(d);
		v[i].outcome = blob_remove_older(path, not_after_ns, err);
		dir_unlock(d);
		if (v[i].outcome < 0)
			return -1;
	}
	return 0;
}

static int dir_list(struct blobs *b, struct str prefix, struct str after, blob_list_fn *fn, void *arg,
		    struct err *err)
{
	return blob_folder_list(store_dir(b)->path, prefix, after, fn, arg, err);
}

/* ---- opening ---- */

static void dir_close(struct blobs *b)
{
	struct blob_folder *d = store_dir(b);

	fd_close(&d->lock_fd);
	map_done(&d->folders);
	map_done(&d->doubtful);
	pthread_mutex_destroy(&d->sync_lock);
	pthread_mutex_destroy(&d->lock);
	free(d->path);
	free(d);
}

static const struct blobs_ops dir_ops = {
	.staging = dir_staging,
	.staging_done = dir_staging_done,
	.staging_note = dir_staging_note,
	.notes = dir_notes,
	.put_staged = dir_put_staged,
	.put = dir_put,
	.settle = dir_settle,
	.settle_all = dir_settle_all,
	.open = dir_open,
	.get = dir_get,
	.stat = dir_stat,
	.touch = dir_touch,
	.remove = dir_remove,
	.collect = dir_collect,
	.list = dir_list,
	.staged = dir_staged,
	.sweep = dir_sweep,
	.close = dir_close,
};

int blobs_open_dir(const char *path, bool create, struct blobs **ret, struct err *err)
{
	AUTO(mem_freep) char *lock_path = mem_printf("%s/lock", path);
	struct blob_folder *d;
	int fd;

	if (blob_folder_open(path, create, err) < 0)
		return -1;
	fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 && (errno == EACCES || errno == EROFS)) /* opened to read only */
		fd = open(lock_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_os(err, errno, "%s: open", lock_path);
	d = NEW(struct blob_folder);
	d->blobs.ops = &dir_ops;
	d->path = mem_strdup(path);
	d->lock_fd = fd;
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->sync_lock, NULL);
	*ret = &d->blobs;
	return 0;
}
