/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files to push: ELF files with a build ID, among the arguments and in folders, with their split files,
 * and with --sources their source files.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/push/push.h"
#include "pkg/pkg.h"
#include "s3/s3.h"

#define CHUNK     KIB(256)
#define MAX_DEPTH 256u

/* ---- hashing ---- */

static bool push_is_stopped(void *arg)
{
	return ((struct push *)arg)->stop;
}

static int hash_fd(struct push *p, int fd, uint64_t size, uint8_t sha256[STORE_SHA256_SIZE], struct err *err)
{
	return sha256_of_file(&(struct file_range){ fd, 0, size }, push_is_stopped, p, sha256, err);
}

/* ---- items ---- */

static bool queue_has_room(const struct push *p, bool tar)
{
	unsigned waiting = p->n_state[PUSH_FOUND] + p->n_state[PUSH_ASKED] + p->n_state[PUSH_WANTED];

	return waiting < (tar ? PUSH_MAX_TARS : PUSH_MAX_WAITING);
}

static void item_free(struct push_item *item)
{
	fd_close(&item->fd);
	free(item->path);
	free(item->name);
	free(item);
}

/* Takes @item. The same content under the same key is sent once. */
static void add_item(struct push *p, struct push_item *item)
{
	struct {
		uint8_t sha256[STORE_SHA256_SIZE];
		uint8_t kind;
		struct build_id id;
	} name = { .kind = (uint8_t)item->key.kind };

	memcpy(name.sha256, item->sha256, sizeof(name.sha256));
	name.id.size = item->key.id.size;
	memcpy(name.id.b, item->key.id.b, item->key.id.size);
	pthread_mutex_lock(&p->lock);
	while (!p->stop && !queue_has_room(p, item->fd >= 0))
		pthread_cond_wait(&p->changed, &p->lock);
	if (p->stop || map_get(&p->known, bytes_of(&name, sizeof(name)))) {
		item_free(item);
	} else {
		map_put(&p->known, bytes_of(&name, sizeof(name)), item);
		item->push = p;
		item->sending_fd = -1;
		*p->last = item;
		p->last = &item->next;
		p->n_items++;
		p->n_state[PUSH_FOUND]++;
		p->bytes_found += item->size;
	}
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void note_error(struct push *p, const struct err *err)
{
	if (p->stop)
		return;
	pthread_mutex_lock(&p->lock);
	p->n_errors++;
	pthread_mutex_unlock(&p->lock);
	if (isatty(STDERR_FILENO))
		progress_clear();
	tell_error("push", err);
}

/* ---- one file ---- */

/*
 * Add a tar of those @members that exist. On the server it replaces an older one; without --sources its
 * quality is lower, so that it does not replace one with sources.
 */
static int add_tar(struct push *p, struct push_members *members, const struct build_id *id, const char *path,
		   struct err *err)
{
	struct push_item *item;
	AUTO(fd_close) int fd = -1;
	uint8_t sha256[STORE_SHA256_SIZE];
	uint64_t size = 0;
	size_t n = 0;

	if (!members->n || push_tar(members, &fd, &size, &n, err) < 0)
		return members->n ? -1 : 0;
	if (!n)
		return 0;
	if (hash_fd(p, fd, size, sha256, err) < 0)
		return -1;
	item = NEW(struct push_item);
	item->key = (struct store_key){ *id, STORE_SOURCES, STR("") };
	item->quality = p->o.sources ? STORE_DWARF : STORE_SYMBOLS;
	item->path = p->o.sources ? mem_printf("%s (%zu sources)", path, n)
				  : mem_printf("%s (%zu split files)", path, n);
	item->fd = TAKE_FD(fd);
	item->size = size;
	memcpy(item->sha256, sha256, sizeof(sha256));
	add_item(p, item);
	return 0;
}

/* Add the split files, and with --sources the source files, of a file with DWARF. */
static int add_related_files(struct push *p, struct source *src, const struct build_id *id, const char *path,
			     const char *name, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct push_members members;
	int r = 0;

	if (elf_open(src, &img, err) != 0)
		return -1;
	push_members_init(&members);
	if (push_split(img, path, name, &members, err) < 0 ||
	    (p->o.sources && push_sources(img, &members, err) < 0) || add_tar(p, &members, id, path, err) < 0)
		r = -1;
	push_members_done(&members);
	return r;
}

/* The file is not pushed, for the reason in @err; it is a split file, which goes with its program. */
enum { FILE_SKIPPED = 1, FILE_IS_SPLIT };

struct pushed_file {
	const char *path, *name; /* for messages and on this machine; on the server */
	struct source *src;
	int fd; /* -1: the bytes are in no file, as those of an object in a bucket */
	uint64_t size;
	int64_t mtime;
	bool copied; /* a member of an archive, or an object: the path cannot be opened again */
};

static int identify_file(struct source *src, struct elf_facts *ret, struct err *err)
{
	struct elf_aliases aliases;
	enum build_id_kind kind;
	int r = elf_identify(src, ret, &kind, &aliases, err);

	if (r < 0)
		return -1;
	if (r) {
		(void)!elf_foreign_source_err(src, err);
		return FILE_SKIPPED;
	}
	if (elf_refuse_core(ret->type, err) < 0)
		return FILE_SKIPPED;
	if (!ret->build_id.size && push_is_split(src)) {
		(void)err_set(err, ERR_INVALID,
			      "a split file, which has no build ID; push its program, and it is sent, too");
		return FILE_IS_SPLIT;
	}
	if (!ret->build_id.size) {
		(void)err_set(err, ERR_INVALID, "no build ID; link its program with --build-id");
		return FILE_SKIPPED;
	}
	if (!(ret->flags & (ELF_IS_EXECUTABLE | ELF_IS_DEBUG))) {
		(void)err_set(err, ERR_INVALID, "neither a program, nor a library, nor a debug file");
		return FILE_SKIPPED;
	}
	return 0;
}

/* Copy bytes that are in no file into one without a name. They are read once: hashed, parsed and sent from there. */
static int copy_to_file(struct push *p, struct source *src, int *ret_fd, struct err *err)
{
	AUTO(mem_freep) char *chunk = mem_alloc(CHUNK);
	AUTO(fd_close) int fd = -1;
	size_t got;

	if (file_unnamed(file_temp_dir(), &fd, err) < 0)
		return -1;
	source_expect(src, range_of(0, src->size));
	for (uint64_t off = 0; off < src->size; off += got) {
		if (p->stop)
			return err_set(err, ERR_CANCELLED, "stopped");
		if (source_read(src, off, chunk, CHUNK, SOURCE_SEQUENTIAL, &got, err) < 0)
			return -1;
		if (!got)
			return err_set(err, ERR_CHANGED, "became shorter while it was read");
		if (fd_pwrite(fd, chunk, got, off, err) < 0)
			return err_in(err, "a copy in %s, which $TMPDIR names", file_temp_dir());
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int add_elf_file(struct push *p, const struct pushed_file *f, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(fd_close) int fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	struct elf_facts facts = { 0 };
	struct push_item *item;
	int r = identify_file(f->src, &facts, err);

	if (r)
		return r;
	if (f->fd < 0 && copy_to_file(p, f->src, &fd, err) < 0)
		return -1;
	src = source_of_fd(fcntl(fd, F_DUPFD_CLOEXEC, 0), f->size, f->mtime, f->path);
	item = NEW(struct push_item);
	item->fd = f->copied ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	item->key.id = facts.build_id;
	item->key.kind = facts.flags & ELF_IS_EXECUTABLE ? STORE_EXECUTABLE : STORE_DEBUGINFO;
	item->quality = store_quality_of(facts.flags);
	item->path = mem_strdup(f->path);
	item->name = mem_strdup(f->name);
	item->size = f->size;
	item->mtime = f->mtime;
	if (hash_fd(p, fd, item->size, item->sha256, err) < 0) {
		item_free(item);
		return -1;
	}
	add_item(p, item);
	return facts.flags & ELF_HAS_DWARF ? add_related_files(p, src, &facts.build_id, f->path, f->name, err)
					   : 0;
}

/* 0: it begins as an ELF file does; FILE_SKIPPED. */
static int check_elf_magic(int fd, struct err *err)
{
	char magic[4];
	size_t got = 0;

	if (fd_pread(fd, magic, sizeof(magic), 0, &got, err) < 0)
		return -1;
	return got == 4 && memcmp(magic, "\177ELF", 4) == 0 ? 0 : FILE_SKIPPED;
}

/* A file, or if the user gave it (@named) the member of an archive, or an object. f->src is the caller's. */
static int open_pushed(struct pushed_file *f, bool named, struct err *err)
{
	struct stat st;
	uint64_t off;
	int r = file_open(f->path, &f->fd, &st, err);

	if (r == 0) {
		f->size = (uint64_t)st.st_size;
		f->mtime = st.st_mtime;
		f->src = source_of_fd(f->fd, f->size, f->mtime, f->path);
		return 0;
	}
	if (r == FILE_MISSING && named)
		r = s3_open_path(f->path, &f->src, err);
	if (r == FILE_MISSING)
		return err_os(err, ENOENT, "%s", f->path);
	if (r < 0)
		return err_in(err, "%s", f->path);
	f->size = f->src->size;
	f->mtime = f->src->mtime;
	f->copied = true;
	if (!source_raw_fd(f->src, &f->fd, &off) || off)
		f->fd = -1;
	return 0;
}

/* The name of a file that the user gave; of a member, the last part of its own. */
static const char *pushed_name(const struct pushed_file *f)
{
	const char *name = path_basename(str_of(f->path)).p, *p;

	while (f->copied && (p = strpbrk(name, ":!")) && p[1])
		name = p + 1;
	return name;
}

/*
 * @root: the length of the path of the folder that the user gave; the rest of @path is the file's name on the
 * server. 0: the user gave the file itself, so that skipping it is an error.
 */
static void find_file(struct push *p, const char *path, size_t root)
{
	struct pushed_file f = { .path = path, .fd = -1 };
	AUTO(source_closep) struct source *src = NULL;
	struct err err = { 0 };
	bool named = root == 0;
	int r = open_pushed(&f, named, &err);

	if (r < 0) {
		/* Unless it was removed since it was listed. */
		if (named || err.os != ENOENT)
			note_error(p, &err);
		return;
	}
	src = f.src;
	f.name = root ? path + root : pushed_name(&f);
	if (!named) {
		r = check_elf_magic(f.fd, &err);
		if (r > 0)
			return;
	}
	if (r == 0)
		r = add_elf_file(p, &f, &err);
	if (r < 0 || (r && named)) {
		(void)err_in(&err, "%s", path);
		note_error(p, &err);
	} else if (r == FILE_SKIPPED) {
		pthread_mutex_lock(&p->lock);
		p->n_skipped++;
		pthread_mutex_unlock(&p->lock);
	}
}

/* ---- folders ---- */

struct push_folders {
	struct folder {
		char *path;
		unsigned depth;
	} * v;
	size_t n, room;
};

static void folder_push(struct push_folders *f, char *path, unsigned depth)
{
	VEC_PUSH(f->v, f->n, f->room) = (struct folder){ path, depth };
}

static void find_folder_entry(struct push *p, struct push_folders *todo, const struct folder *at,
			      const char *name, size_t root)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", at->path, name);
	struct err err = { 0 };
	struct stat st;

	/* A link is skipped: its target is in the folder, too, or outside of it. */
	if (lstat(path, &st) < 0) {
		if (errno != ENOENT) /* removed meanwhile */
			(void)err_os(&err, errno, "%s", path);
	} else if (S_ISDIR(st.st_mode) && at->depth == MAX_DEPTH) {
		(void)err_set(&err, ERR_LIMIT, "not searched: it is more than %u folders deep", MAX_DEPTH);
		(void)err_in(&err, "%s", path);
	} else if (S_ISDIR(st.st_mode)) {
		folder_push(todo, TAKE(path), at->depth + 1);
	} else if (S_ISREG(st.st_mode)) {
		find_file(p, path, root);
	}
	if (err.kind)
		note_error(p, &err);
}

/* NULL: the end, unless @err is set: then there are more, which would be missing on the server. */
static struct dirent *next_folder_entry(DIR *dir, const char *path, struct err *err)
{
	struct dirent *e;

	errno = 0;
	e = readdir(dir);
	if (!e && errno)
		(void)err_os(err, errno, "%s", path);
	return e;
}

static void find_in_entries(struct push *p, struct push_folders *todo, const struct folder *at, size_t root)
{
	DIR *dir = opendir(at->path);
	struct err err = { 0 };
	struct dirent *e;

	/* Removed since it was listed, as a build removes folders: that may be long ago, when the queue was full. */
	if (!dir && errno == ENOENT && at->depth)
		return;
	if (!dir) {
		(void)err_os(&err, errno, "%s", at->path);
		note_error(p, &err);
		return;
	}
	while (!p->stop && (e = next_folder_entry(dir, at->path, &err)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			find_folder_entry(p, todo, at, e->d_name, root);
	closedir(dir);
	if (err.kind)
		note_error(p, &err);
}

static void find_in_folder(struct push *p, const char *path)
{
	struct push_folders todo = { 0 };
	size_t root = strlen(path);
	struct err err = { 0 };

	if (str_ends(str_of(path), STR(".dSYM")) && elf_refuse_folder(path, &err) < 0) {
		(void)err_in(&err, "%s", path);
		note_error(p, &err);
		return;
	}
	/* "x/" is "x"; "/" stays. */
	while (root > 1 && path[root - 1] == '/')
		root--;
	folder_push(&todo, mem_strndup(path, root), 0);
	while (todo.n) {
		struct folder at = todo.v[--todo.n];

		if (!p->stop)
			find_in_entries(p, &todo, &at, root);
		free(at.path);
	}
	free(todo.v);
}

void *push_find(void *arg)
{
	struct push *p = arg;

	for (size_t i = 0; i < p->paths->n && !p->stop; i++) {
		const char *path = p->paths->items[i].p;
		struct stat st;

		if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
			find_in_folder(p, path);
		else
			find_file(p, path, 0);
	}
	pthread_mutex_lock(&p->lock);
	p->walked = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}
