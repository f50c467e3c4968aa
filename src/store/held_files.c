/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of pushes that are held: held.h. Nothing here knows which of them are in use.
 */
#include "store/held.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>
#include "store/bucket.h"

#define NUMBER_SIZE    16
#define IDENTITY_SIZE  17 /* 16 hexadecimal digits, and a newline */
#define COPY_PIECE     KIB(256)
#define CONTENT_ENDING "content"
#define FOLDER_NAME    "held-%016llx"
#define LOCK_NAME      "lock"

static const char *const endings[HELD_N_STATES] = { "owned", "better", "refused" };

static char *held_path(const char *dir, uint64_t number, const char *ending)
{
	return mem_printf("%s/%016llx.%s", dir, (unsigned long long)number, ending);
}

static bool held_name_read(const char *file, uint64_t *ret_number, const char **ret_ending)
{
	uint8_t raw[8];
	size_t got;

	if (strlen(file) <= NUMBER_SIZE + 1 || file[NUMBER_SIZE] != '.' ||
	    !hex_decode((struct str){ file, NUMBER_SIZE }, false, raw, sizeof(raw), &got) ||
	    got != sizeof(raw))
		return false;
	*ret_number = 0;
	for (size_t i = 0; i < sizeof(raw); i++)
		*ret_number = *ret_number << 8 | raw[i];
	*ret_ending = file + NUMBER_SIZE + 1;
	return *ret_number > 0;
}

char *held_folder(const char *local, const char *url)
{
	struct str u = str_of(url);

	while (u.size && u.p[u.size - 1] == '/')
		u.size--;
	return mem_printf("%s/" FOLDER_NAME, local, (unsigned long long)hash64(u.p, u.size, 0));
}

bool held_folder_identity(const char *dir, struct buf *ret)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" LOCK_NAME, dir);

	return file_read(path, IDENTITY_SIZE, ret, NULL) == 0 && ret->size == IDENTITY_SIZE;
}

/* If it fails, on a full disk, the next start tries again: the pushes in the folder must be served and put. */
static void identity_make(int fd)
{
	AUTO(buf_done) struct buf line = { 0 };
	struct stat st;

	buf_printf(&line, "%016llx\n", (unsigned long long)random_id());
	if (fstat(fd, &st) == 0 && st.st_size < IDENTITY_SIZE &&
	    fd_pwrite(fd, line.p, line.size, 0, NULL) == 0)
		(void)fsync(fd);
}

int held_folder_lock(const char *dir, int *ret_fd, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" LOCK_NAME, dir);
	AUTO(fd_close) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		return err_os(err, errno, "%s: open", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? err_set(err, ERR_BUSY, "%s: another process holds pushes there", dir)
			       : err_os(err, errno, "%s: lock", path);
	identity_make(fd);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ---- all ---- */

static int file_order(const void *a, const void *b)
{
	const struct held_file *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	/* Of one that was refused just before a kill the first record may be left. */
	return (x->state == HELD_WAS_REFUSED) - (y->state == HELD_WAS_REFUSED);
}

int held_files_list(const char *dir, struct held_file **ret, size_t *ret_n, struct err *err)
{
	DIR *d = opendir(dir);
	size_t room = 0;
	struct dirent *e;
	int os;

	*ret = NULL;
	*ret_n = 0;
	if (!d)
		return errno == ENOENT ? 0 : err_os(err, errno, "%s: open", dir);
	/* A failure is no end: held_files_sweep() removes the contents of those that are not listed. */
	while ((errno = 0, e = readdir(d))) {
		const char *ending;
		uint64_t number;

		if (!held_name_read(e->d_name, &number, &ending))
			continue;
		for (unsigned i = 0; i < HELD_N_STATES; i++)
			if (strcmp(ending, endings[i]) == 0)
				VEC_PUSH(*ret, *ret_n, room) = (struct held_file){ number,
										   (enum held_state)i };
	}
	os = errno;
	closedir(d);
	if (os) {
		mem_freep(ret);
		*ret_n = 0;
		return err_os(err, os, "%s: read", dir);
	}
	if (*ret_n)
		qsort(*ret, *ret_n, sizeof(**ret), file_order);
	return 0;
}

static int number_order(const void *a, const void *b)
{
	const struct held_file *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

void held_files_sweep(const char *dir, const struct held_file *files, size_t n)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct held_file of = { 0 };
		const char *ending;

		if (str_starts(str_of(e->d_name), STR(FILE_TEMP_PREFIX)))
			(void)unlinkat(dirfd(d), e->d_name, 0);
		if (held_name_read(e->d_name, &of.number, &ending) && strcmp(ending, CONTENT_ENDING) == 0 &&
		    !(n && bsearch(&of, files, n, sizeof(of), number_order)))
			(void)unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
}

int store_held_list(const char *local, const char *url, store_held_fn *fn, void *arg, struct err *err)
{
	AUTO(mem_freep) char *dir = held_folder(local, url);
	AUTO(mem_freep) struct held_file *files = NULL;
	struct arena a;
	size_t n;
	int r = held_files_list(dir, &files, &n, err);

	arena_init(&a);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct store_held h = { .refused = files[i].state == HELD_WAS_REFUSED };

		arena_reset(&a);
		/* It was put meanwhile, or cannot be read, which the service logs at its start. */
		if ((i + 1 < n && files[i + 1].number == files[i].number) ||
		    held_record_load(dir, files[i].number, files[i].state, &a, &h.object, NULL) != 0)
			continue;
		r = fn(arg, &h);
	}
	arena_done(&a);
	return r;
}

/* ---- one ---- */

int held_record_load(const char *dir, uint64_t number, enum held_state state, struct arena *a,
		     struct store_object *ret, struct err *err)
{
	AUTO(mem_freep) char *path = held_path(dir, number, endings[state]);
	AUTO(buf_done) struct buf text = { 0 };
	int r = file_read(path, STORE_MAX_RECORD, &text, err);

	if (r)
		return r;
	*ret = (struct store_object){ 0 };
	return store_record_read(buf_bytes(&text), a, &ret->key, &ret->meta, err) < 0
		       ? err_in(err, "%s", path)
		       : 0;
}

int held_file_write(const char *dir, const struct held_file *f, const struct store_key *key,
		    const struct store_meta *meta, struct staging *s, struct err *err)
{
	AUTO(mem_freep) char *content = held_path(dir, f->number, CONTENT_ENDING);
	AUTO(mem_freep) char *record = held_path(dir, f->number, endings[f->state]);
	AUTO(buf_done) struct buf text = { 0 };

	if (ftruncate(s->fd, (off_t)s->size) < 0 || fsync(s->fd) < 0)
		return err_os(err, errno, "%s: sync", s->path);
	if (link(s->path, content) < 0)
		return err_os(err, errno, "%s: link", content);
	store_record_write(key, meta, &text);
	/* It syncs the folder, in which both names are by then. */
	if (file_write_durable(record, text.p, text.size, 0644, err) < 0) {
		(void)unlink(record);
		(void)unlink(content);
		return -1;
	}
	return 0;
}

void held_file_refuse(const char *dir, const struct held_file *f, const struct store_key *key,
		      const struct store_meta *meta, struct str owner)
{
	AUTO(mem_freep) char *path = held_path(dir, f->number, endings[HELD_WAS_REFUSED]);
	AUTO(mem_freep) char *before = held_path(dir, f->number, endings[f->state]);
	AUTO(buf_done) struct buf text = { 0 };
	struct store_meta as = *meta;
	struct err err = { 0 };

	as.replaced = clock_wall_s();
	as.replaced_by = owner;
	store_record_write(key, &as, &text);
	if (file_write_durable(path, text.p, text.size, 0644, &err) < 0)
		log_warn("store", "%s", err.text);
	else
		(void)unlink(before);
}

void held_file_remove(const char *dir, const struct held_file *f)
{
	AUTO(mem_freep) char *content = held_path(dir, f->number, CONTENT_ENDING);
	AUTO(mem_freep) char *record = held_path(dir, f->number, endings[f->state]);

	if (unlink(record) < 0 && errno != ENOENT)
		log_warn("store", "%s: remove: %s", record, strerror(errno));
	else
		(void)unlink(content);
}

/* 0 also if there is none: of a refused push it may be gone. */
static int content_copy(const char *dir, uint64_t number, const char *to_dir, struct err *err)
{
	AUTO(mem_freep) char *to = held_path(to_dir, number, CONTENT_ENDING);
	AUTO(fd_close) int in = held_content_open(dir, number);
	AUTO(fd_close) int out = -1;
	AUTO(mem_freep) uint8_t *p = mem_alloc(COPY_PIECE);
	size_t got = COPY_PIECE;

	if (in < 0)
		return errno == ENOENT
			       ? 0
			       : err_os(err, errno, "%s: content %016llx", dir, (unsigned long long)number);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return err_os(err, errno, "%s", to);
	for (uint64_t off = 0; got == COPY_PIECE; off += got)
		if (fd_pread(in, p, COPY_PIECE, off, &got, err) < 0 || fd_write(out, p, got, err) < 0)
			return err_in(err, "%s", to);
	return fsync(out) < 0 ? err_os(err, errno, "%s: sync", to) : 0;
}

int held_folder_identity_copy(const struct buf *identity, const char *to_dir, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" LOCK_NAME, to_dir);

	return file_write_durable(path, identity->p, identity->size, 0600, err);
}

int held_file_copy(const char *dir, const struct held_file *f, const char *to_dir, bool *ret_refused,
		   struct err *err)
{
	/* Its record is under the name by which it was listed, or has been renamed since. */
	const enum held_state states[] = { f->state, HELD_WAS_REFUSED };
	AUTO(buf_done) struct buf text = { 0 };
	int r = FILE_MISSING;

	if (content_copy(dir, f->number, to_dir, err) < 0)
		return -1;
	for (size_t i = 0; r == FILE_MISSING && i < ARRAY_SIZE(states); i++) {
		AUTO(mem_freep) char *from = held_path(dir, f->number, endings[states[i]]);
		AUTO(mem_freep) char *to = held_path(to_dir, f->number, endings[states[i]]);

		r = file_read(from, STORE_MAX_RECORD, &text, err);
		if (r == 0)
			r = file_write_durable(to, text.p, text.size, 0600, err);
		*ret_refused = states[i] == HELD_WAS_REFUSED;
	}
	if (r == FILE_MISSING) {
		AUTO(mem_freep) char *content = held_path(to_dir, f->number, CONTENT_ENDING);

		(void)unlink(content);
	}
	return r;
}

int held_content_open(const char *dir, uint64_t number)
{
	AUTO(mem_freep) char *path = held_path(dir, number, CONTENT_ENDING);

	return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

bool held_content_is_there(const char *dir, uint64_t number, uint64_t size)
{
	AUTO(mem_freep) char *path = held_path(dir, number, CONTENT_ENDING);
	struct stat st;

	return stat(path, &st) == 0 && (uint64_t)st.st_size == size;
}
