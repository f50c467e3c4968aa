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

static int hash_fd(struct push *p, int fd, uint64_t size, uint8_t sha256[STORE_SHA256_SIZE], struct err *err)
{
	AUTO(mem_freep) char *chunk = mem_alloc(CHUNK);
	AUTO(sha256_freep) struct sha256 *sha = NULL;
	int r = sha256_new(&sha, err);

	for (uint64_t off = 0; r == 0 && off < size;) {
		size_t got = 0;

		r = fd_pread(fd, chunk, (size_t)MIN(CHUNK, size - off), off, &got, err);
		if (r == 0 && !got)
			r = err_set(err, ERR_CHANGED, "became shorter while it was read");
		sha256_add(sha, bytes_of(chunk, got));
		off += got;
		if (r == 0 && p->stop)
			r = err_set(err, ERR_CANCELLED, "stopped");
	}
	if (r == 0)
		sha256_end(sha, sha256);
	return r;
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
	int fd;
	uint64_t size;
	int64_t mtime;
	bool copied; /* a member of an archive: the path cannot be opened again */
};

static int add_elf_file(struct push *p, const struct pushed_file *f, struct err *err)
{
	AUTO(source_closep)
	struct source *src = source_of_fd(fcntl(f->fd, F_DUPFD_CLOEXEC, 0), f->size, f->mtime, f->path);
	struct elf_facts facts = { 0 };
	struct elf_aliases aliases;
	enum build_id_kind kind;
	struct push_item *item;
	int r = elf_identify(src, &facts, &kind, &aliases, err);

	if (r < 0)
		return -1;
	if (r) {
		(void)!elf_foreign_source_err(src, err);
		return FILE_SKIPPED;
	}
	if (elf_refuse_core(facts.type, err) < 0)
		return FILE_SKIPPED;
	if (!facts.build_id.size && push_is_split(src)) {
		(void)err_set(err, ERR_INVALID,
			      "a split file, which has no build ID; push its program, and it is sent, too");
		return FILE_IS_SPLIT;
	}
	if (!facts.build_id.size) {
		(void)err_set(err, ERR_INVALID, "no build ID; link its program with --build-id");
		return FILE_SKIPPED;
	}
	if (!(facts.flags & (ELF_IS_EXECUTABLE | ELF_IS_DEBUG))) {
		(void)err_set(err, ERR_INVALID, "neither a program, nor a library, nor a debug file");
		return FILE_SKIPPED;
	}
	item = NEW(struct push_item);
	item->fd = f->copied ? fcntl(f->fd, F_DUPFD_CLOEXEC, 0) : -1;
	item->key.id = facts.build_id;
	item->key.kind = facts.flags & ELF_IS_EXECUTABLE ? STORE_EXECUTABLE : STORE_DEBUGINFO;
	item->quality = store_quality_of(facts.flags);
	item->path = mem_strdup(f->path);
	item->name = mem_strdup(f->name);
	item->size = f->size;
	item->mtime = f->mtime;
	if (hash_fd(p, f->fd, item->size, item->sha256, err) < 0) {
		item_free(item);
		return -1;
	}
	add_item(p, item);
	return facts.flags & ELF_HAS_DWARF ? add_related_files(p, src, &facts.build_id, f->path, f->name, err)
					   : 0;
}

static bool has_elf_magic(int fd)
{
	char magic[4];
	size_t got = 0;

	return fd_pread(fd, magic, sizeof(magic), 0, &got, NULL) == 0 && got == 4 &&
	       memcmp(magic, "\177ELF", 4) == 0;
}

/* A file, or if the user gave it (@named) the member of an archive; *ret_src, if set, keeps the member's copy. */
static int open_pushed(struct pushed_file *f, bool named, struct source **ret_src, struct err *err)
{
	uint64_t off;
	struct stat st;
	int r = file_open(f->path, &f->fd, &st, err);

	if (r == 0) {
		f->size = (uint64_t)st.st_size;
		f->mtime = st.st_mtime;
		return 0;
	}
	if (r == FILE_MISSING && named)
		r = s3_open_path(f->path, ret_src, err);
	if (r == FILE_MISSING)
		return err_os(err, ENOENT, "%s", f->path);
	if (r < 0)
		return err_in(err, "%s", f->path);
	f->size = (*ret_src)->size;
	f->mtime = (*ret_src)->mtime;
	f->copied = source_raw_fd(*ret_src, &f->fd, &off);
	return f->copied ? 0 : err_set(err, ERR_INTERNAL, "%s: not in a file", f->path);
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
	AUTO(source_closep) struct source *member = NULL;
	struct pushed_file f = { .path = path, .fd = -1 };
	AUTO(fd_close) int fd = -1;
	struct err err = { 0 };
	bool named = root == 0;
	int r = open_pushed(&f, named, &member, &err);

	if (r < 0) {
		note_error(p, &err);
		return;
	}
	if (!f.copied)
		fd = f.fd;
	f.name = root ? path + root : pushed_name(&f);
	if (!named && !has_elf_magic(f.fd))
		return;
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

static void find_in_entries(struct push *p, struct push_folders *todo, const struct folder *at, size_t root)
{
	DIR *dir = opendir(at->path);
	struct err err = { 0 };
	struct dirent *e;

	if (!dir) {
		(void)err_os(&err, errno, "%s", at->path);
		note_error(p, &err);
		return;
	}
	while (!p->stop && (e = readdir(dir))) {
		AUTO(mem_freep) char *path = NULL;
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		path = mem_printf("%s/%s", at->path, e->d_name);
		/* A link is skipped: its target is in the folder, too, or outside of it. */
		if (lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && at->depth < MAX_DEPTH)
			folder_push(todo, TAKE(path), at->depth + 1);
		else if (S_ISREG(st.st_mode))
			find_file(p, path, root);
	}
	closedir(dir);
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
