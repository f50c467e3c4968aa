/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging files in the folder tmp/ of a store. Each is locked (flock) by its writer; a file that is not
 * locked was left by a process that has ended, and is swept.
 *
 * A staging file with a name, part-HASH, and a note beside it, note-HASH, which says how much of it is valid,
 * stays until its upload ends or is forgotten. Only the holder of the file's lock writes the note, in place, by one
 * call, so that a process that is killed has written it or not. The note is not synced: after a crash of the machine it
 * may be torn, which its sum shows, or describe bytes that do not exist, so a reader checks these anyway.
 */
#include "store/blob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#define NAME_TRIES 8
#define NOTE_MAX   KIB(4)
#define FIRST_LINE "lode partial 1\n"
#define HASH_NAME  "hash: "
#define LAST_NAME  "sum: "
#define SUM_LINE   (sizeof(LAST_NAME) - 1 + 16 + 1)
#define PART       "part-"
#define NOTE       "note-"
#define UPLOAD     "parts-" /* files of bucket_parts.c, which removes them */

/* ---- notes ---- */

static void note_write(const struct staging_note *n, struct buf *ret)
{
	buf_printf(ret, FIRST_LINE "name: " STR_FMT "\n", STR_ARG(n->name));
	buf_printf(ret, "size: %llu\ncontent: %llu\nall: %llu\n", (unsigned long long)n->size,
		   (unsigned long long)n->content, (unsigned long long)n->all);
	if (n->has_hash)
		buf_printf(ret, HASH_NAME "%016llx\n", (unsigned long long)n->hash);
	buf_printf(ret, "time: %llu\n", (unsigned long long)n->time_s);
	buf_printf(ret, LAST_NAME "%016llx\n", (unsigned long long)hash64(ret->p, ret->size, 0));
}

static bool line_text(struct str *s, struct str name, struct str *ret)
{
	struct str line = str_cut(s, '\n');

	if (!str_starts(line, name))
		return false;
	*ret = (struct str){ line.p + name.size, line.size - name.size };
	return true;
}

static bool line_number(struct str *s, struct str name, uint64_t *ret)
{
	struct str v;

	return line_text(s, name, &v) && str_to_u64(v, ret) && *ret <= INT64_MAX;
}

static bool line_hash(struct str *s, struct str name, uint64_t *ret)
{
	uint8_t raw[8];
	struct str v;
	size_t got;

	if (!line_text(s, name, &v) || !hex_decode(v, false, raw, sizeof(raw), &got) || got != sizeof(raw))
		return false;
	*ret = 0;
	for (size_t i = 0; i < sizeof(raw); i++)
		*ret = *ret << 8 | raw[i];
	return true;
}

/* Views into @b. false: the note is damaged. */
static bool note_read(struct bytes b, struct staging_note *ret)
{
	struct str s = { (const char *)b.p, b.size }, first;
	struct staging_note n = { 0 };
	uint64_t time_s, sum;

	if (b.size < SUM_LINE)
		return false;
	first = str_cut(&s, '\n');
	if (!str_eq(first, STR("lode partial 1")) || !line_text(&s, STR("name: "), &n.name) ||
	    !line_number(&s, STR("size: "), &n.size) || !line_number(&s, STR("content: "), &n.content) ||
	    !line_number(&s, STR("all: "), &n.all))
		return false;
	n.has_hash = str_starts(s, STR(HASH_NAME));
	if ((n.has_hash && !line_hash(&s, STR(HASH_NAME), &n.hash)) ||
	    !line_number(&s, STR("time: "), &time_s) || !line_hash(&s, STR(LAST_NAME), &sum) || s.size ||
	    sum != hash64(b.p, b.size - SUM_LINE, 0))
		return false;
	n.time_s = (int64_t)time_s;
	*ret = n;
	return n.name.size <= STAGING_MAX_NAME && n.content <= n.all;
}

/* Read the note into @b. false: there is no valid one. */
static bool note_get(const char *path, struct buf *b, struct staging_note *ret)
{
	return file_read(path, NOTE_MAX, b, NULL) == 0 && note_read(buf_bytes(b), ret);
}

int staging_dir_note(struct staging *s, const struct staging_note *note, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	AUTO(fd_close) int fd = -1;

	if (!s->note_path)
		return 0;
	note_write(note, &text);
	fd = open(s->note_path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return err_os(err, errno, "%s: create", s->note_path);
	if (fd_pwrite(fd, text.p, text.size, 0, err) < 0)
		return err_in(err, "%s", s->note_path);
	return ftruncate(fd, (off_t)text.size) < 0 ? err_os(err, errno, "%s: truncate", s->note_path) : 0;
}

int staging_dir_notes(const char *dir, int (*fn)(void *arg, const struct staging_note *note), void *arg,
		      struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/tmp", dir);
	DIR *d = opendir(path);
	struct dirent *e;
	int r = 0;

	if (!d)
		return err_os(err, errno, "%s: open", path);
	while (r == 0 && (e = readdir(d))) {
		AUTO(mem_freep) char *note_path = mem_printf("%s/%s", path, e->d_name);
		AUTO(buf_done) struct buf b = { 0 };
		struct staging_note note;

		if (str_starts(str_of(e->d_name), STR(NOTE)) && note_get(note_path, &b, &note))
			r = fn(arg, &note);
	}
	closedir(d);
	return r;
}

/* ---- opening ---- */

/*
 * Is the locked file @fd still the one at @name? Between open() and flock() its writer may have made a blob of it, and removed
 * the name, and another writer may have a file of that name. Only the holder of the file's lock removes the name.
 */
static bool staging_has_name(int fd, int dir_fd, const char *name)
{
	struct stat st, there;

	return fstat(fd, &st) == 0 && fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == there.st_dev && st.st_ino == there.st_ino;
}

static int open_new(const char *dir, struct staging *ret, struct err *err)
{
	for (unsigned i = 0; i < NAME_TRIES; i++) {
		AUTO(mem_freep) char *path = NULL;
		AUTO(fd_close) int fd = -1;
		uint64_t id[2];

		if (getrandom(id, sizeof(id), 0) != sizeof(id))
			return err_os(err, errno, "getrandom");
		path = mem_printf("%s/tmp/%016llx%016llx", dir, (unsigned long long)id[0],
				  (unsigned long long)id[1]);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
		if (fd < 0)
			return err_os(err, errno, "%s: create", path);
		/* A sweep was faster. */
		if (flock(fd, LOCK_EX | LOCK_NB) < 0 || !staging_has_name(fd, AT_FDCWD, path))
			continue;
		*ret = (struct staging){ .fd = TAKE_FD(fd), .path = TAKE(path) };
		return 0;
	}
	return err_set(err, ERR_IO, "%s/tmp: new files are removed by another program", dir);
}

/* Truncate the file to the size in its note; without a note, to nothing. */
static int cut_to_note(struct staging *s, struct str name, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct staging_note note = { 0 };
	struct stat st;

	if (fstat(s->fd, &st) < 0)
		return err_os(err, errno, "%s: stat", s->path);
	if (note_get(s->note_path, &b, &note) && str_eq(note.name, name) &&
	    note.size <= (uint64_t)st.st_size) {
		s->size = note.size;
		s->has_hash = note.has_hash;
		s->hash = note.hash;
	}
	if (ftruncate(s->fd, (off_t)s->size) < 0)
		return err_os(err, errno, "%s: truncate", s->path);
	return 0;
}

/*
 * A file with a second link is a blob, or a push that is held: its writer was killed before it removed this name, or a power
 * cut has brought the name back. Its bytes are those of an object.
 */
static bool staging_has_links(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 || st.st_nlink > 1;
}

/* Open the file of @s under its lock. If another writer has it, or its name cannot be removed from a blob, s->fd stays -1. */
static int open_part(struct staging *s, struct err *err)
{
	for (unsigned i = 0; i < NAME_TRIES; i++) {
		AUTO(fd_close) int fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

		if (fd < 0)
			return err_os(err, errno, "%s: create", s->path);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0)
			return 0;
		if (!staging_has_name(fd, AT_FDCWD, s->path))
			continue;
		if (!staging_has_links(fd)) {
			s->fd = TAKE_FD(fd);
			return 0;
		}
		unlink(s->note_path);
		unlink(s->path);
	}
	return 0;
}

/* If another writer has it, *ret is not set. */
static int open_named(const char *dir, struct str name, struct staging *ret, struct err *err)
{
	struct staging s = { .fd = -1 };
	char hash[33];
	int r;

	snprintf(hash, sizeof(hash), "%016llx%016llx", (unsigned long long)hash64(name.p, name.size, 0),
		 (unsigned long long)hash64(name.p, name.size, 1));
	s.path = mem_printf("%s/tmp/" PART "%s", dir, hash);
	s.note_path = mem_printf("%s/tmp/" NOTE "%s", dir, hash);
	r = open_part(&s, err);
	if (r == 0 && s.fd >= 0)
		r = cut_to_note(&s, name, err);
	if (r == 0 && s.fd >= 0) {
		*ret = s;
		return 0;
	}
	fd_close(&s.fd);
	free(s.path);
	free(s.note_path);
	return r;
}

int staging_dir_open(const char *dir, struct str name, struct staging *ret, struct err *err)
{
	struct staging s = { .fd = -1 };

	if (name.size && name.size <= STAGING_MAX_NAME && open_named(dir, name, &s, err) < 0)
		return -1;
	if (s.fd < 0)
		return open_new(dir, ret, err);
	*ret = s;
	return 0;
}

void staging_dir_done(struct staging *s, bool keep)
{
	if (!keep || !s->note_path) {
		if (s->note_path)
			unlink(s->note_path);
		if (s->path)
			unlink(s->path);
	}
	mem_freep(&s->path);
	mem_freep(&s->note_path);
	fd_close(&s->fd);
}

/* ---- sizes ---- */

int staging_dir_staged(const char *dir, uint64_t *ret_bytes, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/tmp", dir);
	DIR *d = opendir(path);
	uint64_t bytes = 0;
	struct dirent *e;
	struct stat st;

	if (!d)
		return err_os(err, errno, "%s: open", path);
	/* A file with a second link has become a blob. */
	while ((e = readdir(d)))
		if (!str_starts(str_of(e->d_name), STR(NOTE)) &&
		    !str_starts(str_of(e->d_name), STR(UPLOAD)) &&
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		    st.st_nlink == 1)
			bytes += (uint64_t)st.st_size;
	closedir(d);
	*ret_bytes = bytes;
	return 0;
}

/* ---- left-over files ---- */

static bool may_stay(const char *dir, const char *name)
{
	AUTO(mem_freep) char *path = NULL;
	AUTO(buf_done) struct buf b = { 0 };
	struct staging_note note;

	if (!str_starts(str_of(name), STR(PART)))
		return false;
	path = mem_printf("%s/tmp/" NOTE "%s", dir, name + sizeof(PART) - 1);
	return note_get(path, &b, &note);
}

/* A note without its staging file is removed. */
static bool note_left_over(int dir_fd, const char *name)
{
	AUTO(mem_freep) char *part = mem_printf(PART "%s", name + sizeof(NOTE) - 1);
	struct stat st;

	return fstatat(dir_fd, part, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
	       unlinkat(dir_fd, name, 0) == 0;
}

static bool is_left_over(const char *dir, int dir_fd, const char *name)
{
	AUTO(fd_close) int fd = -1;

	if (str_starts(str_of(name), STR(NOTE)))
		return note_left_over(dir_fd, name);
	if (str_starts(str_of(name), STR(UPLOAD)) || may_stay(dir, name))
		return false;
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	/* Its writer may have ended since, and another one begun, or have left it with a note. */
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && staging_has_name(fd, dir_fd, name) &&
	       !may_stay(dir, name) && unlinkat(dir_fd, name, 0) == 0;
}

int staging_dir_sweep(const char *dir, uint64_t *ret_n, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/tmp", dir);
	DIR *d = opendir(path);
	uint64_t n = 0;
	struct dirent *e;

	if (!d)
		return err_os(err, errno, "%s: open", path);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && is_left_over(dir, dirfd(d), e->d_name))
			n++;
	closedir(d);
	*ret_n = n;
	return 0;
}
