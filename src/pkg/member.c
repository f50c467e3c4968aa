/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of an archive or package as a file: "libx.a:member.o", "app.apk!lib/arm64-v8a/libx.so",
 * "x.deb!usr/lib/debug/.build-id/ab/cd.debug". It is copied to a file without a name.
 *
 * Archives may be hostile: the copy is limited by the archive's size, so that a small archive cannot fill the disk;
 * the bytes decoded before the member are limited, too, and so is the number of links and of archives in archives.
 */
#include "pkg/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include "pkg/map_format.h"

#define MAX_LINKS     8u  /* followed from one name */
#define MAX_DEPTH     3u  /* of archives in archives */
#define PASSED_FACTOR 256 /* the most of the archive's size that the members before the one may have, */
#define PASSED_MORE   (UINT64_C(4) << 30)
#define N_NEAR        3u  /* members that an error names */
#define NAME_SIZE     80u /* of a name in an error */

/* ---- names like the wanted one ---- */

struct near_names {
	struct str wanted;
	struct near_name {
		size_t score;
		char text[NAME_SIZE];
	} list[N_NEAR]; /* falling */
	unsigned n;     /* of all members */
};

/* How many bytes the names have in common at both ends. */
static size_t name_likeness(struct str a, struct str b)
{
	size_t n = MIN(a.size, b.size), head = 0, tail = 0;

	while (head < n && a.p[head] == b.p[head])
		head++;
	while (tail < n - head && a.p[a.size - 1 - tail] == b.p[b.size - 1 - tail])
		tail++;
	return head + tail + (a.size == b.size && head == n ? PKG_MAX_NAME : 0);
}

static void near_add(struct near_names *near, struct str path)
{
	size_t score = name_likeness(path_basename(path), path_basename(near->wanted)) + 1;
	size_t i = N_NEAR;

	near->n++;
	while (i && near->list[i - 1].score < score)
		i--;
	if (i == N_NEAR)
		return;
	memmove(&near->list[i + 1], &near->list[i], (N_NEAR - 1 - i) * sizeof(near->list[0]));
	near->list[i].score = score;
	snprintf(near->list[i].text, NAME_SIZE, STR_FMT, STR_ARG(path));
}

static int member_missing(const struct near_names *near, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };

	for (unsigned i = 0; i < MIN(near->n, N_NEAR); i++)
		buf_printf(&text, "%s%s", i ? ", " : "", near->list[i].text);
	if (!near->n)
		return err_set(err, ERR_INVALID, "no such member: the archive is empty");
	return err_set(err, ERR_INVALID, "no such member; the archive has " STR_FMT "%s",
		       STR_ARG(buf_str(&text)), near->n > N_NEAR ? ", and others" : "");
}

/* ---- one pass over the members ---- */

struct archive_walk {
	struct source *src;
	struct pkg_info info;
	struct arena arena; /* of info */
	struct stream *payload;
	struct pkg_reader *reader;
	uint64_t passed_max;
};

static void walk_done(struct archive_walk *w)
{
	pkg_reader_close(w->reader);
	stream_close(w->payload);
	arena_done(&w->arena);
}

static bool source_is_ar(struct source *src)
{
	uint8_t head[8];
	size_t got;

	return source_read(src, 0, head, sizeof(head), SOURCE_RANDOM, &got, NULL) == 0 &&
	       ar_detect(bytes_of(head, got));
}

static int archive_refused(struct source *src, struct err *err)
{
	const char *name, *help;
	uint8_t head[KIB(1)];
	size_t got;

	if (source_read(src, 0, head, sizeof(head), SOURCE_RANDOM, &got, err) < 0)
		return -1;
	elf_foreign_name(bytes_of(head, got), &name, &help);
	if (got >= 8 && memcmp(head, "!<thin>\n", 8) == 0)
		return err_set(err, ERR_INVALID, "it is %s: %s", name, help);
	return err_set(err, ERR_INVALID, "it is %s, which has no members", name);
}

static int walk_open(struct archive_walk *w, struct err *err)
{
	const struct pkg_payload *p = &w->info.payload;
	int r;

	arena_init(&w->arena);
	r = pkg_open(w->src, path_basename(str_of(w->src->name)), &w->arena, &w->info, err);
	if (r)
		return r < 0 ? -1 : archive_refused(w->src, err);
	if (p->format != PKG_FORMAT_OTHER &&
	    codec_stream_open(p->codec, stream_of_source(w->src, false, p->off, p->size), &w->payload, err) <
		    0)
		return -1;
	w->passed_max = w->src->size * PASSED_FACTOR + PASSED_MORE;
	if (pkg_reader_open(&w->info, w->payload, w->src, &w->reader, err) < 0)
		return -1;
	/* The sizes of members do not count everything that is decoded: extended headers, and content of other types. */
	if (w->reader->in.limit != UINT64_MAX)
		w->reader->in.limit = MIN(w->reader->in.limit, w->passed_max + elf_held_max(w->src->size));
	return 0;
}

/* Whether @name is a member of the archive that the member @m is. */
static bool is_inside_member(const struct pkg_member *m, struct str name)
{
	return m->type == PKG_FILE && m->path.size && name.size > m->path.size + 1 &&
	       str_starts(name, m->path) && (name.p[m->path.size] == ':' || name.p[m->path.size] == '!');
}

enum { MEMBER_MISSING = 2 }; /* err has the text */

/* "x.o[2]": the second member of the name x.o. */
static bool numbered_name(struct str name, struct str *ret_name, uint64_t *ret_nth)
{
	const char *open = name.size ? memrchr(name.p, '[', name.size) : NULL;
	size_t n = open ? (size_t)(open - name.p) : 0;

	if (!n || name.p[name.size - 1] != ']' ||
	    !str_to_u64((struct str){ open + 1, name.size - n - 2 }, ret_nth) || !*ret_nth)
		return false;
	*ret_name = (struct str){ name.p, n };
	return true;
}

/* Go to the @nth member @name, or to the archive among the members that has it. Outcome MEMBER_MISSING. */
static int walk_find(struct archive_walk *w, struct str name, uint64_t nth, struct pkg_member *ret,
		     struct err *err)
{
	struct near_names near = { .wanted = name };
	uint64_t passed = 0, n_same = 0;
	int r;

	for (unsigned n = 0; n < PKG_MAX_MEMBERS; n++) {
		r = pkg_reader_next(w->reader, ret, err);
		if (r < 0)
			return -1;
		if (r == PKG_END)
			break;
		if (!ret->unsafe && (str_eq(ret->path, name) ? ++n_same == nth : is_inside_member(ret, name)))
			return 0;
		passed += MIN(ret->size, w->passed_max);
		if (passed > w->passed_max)
			return err_set(err, ERR_LIMIT,
				       "the members before it have more than the %llu bytes allowed for an "
				       "archive of this size",
				       (unsigned long long)w->passed_max);
		if (!ret->unsafe && (ret->type == PKG_FILE || ret->type == PKG_HARDLINK))
			near_add(&near, ret->path);
	}
	(void)(n_same ? err_set(err, ERR_INVALID, "no such member: the archive has %llu of the name " STR_FMT,
				(unsigned long long)n_same, STR_ARG(name))
		      : member_missing(&near, err));
	return MEMBER_MISSING;
}

/*
 * An archive of object files may have many members of one name: report that, after the first one was read. Other archives
 * have such members rarely, and decoding the rest of them takes long.
 */
static void note_same_names(struct archive_walk *w, struct str name)
{
	struct pkg_member m;
	struct err ignored = { 0 };
	unsigned n = 1;

	if (w->info.kind != PKG_OTHER || !source_is_ar(w->src))
		return;
	for (unsigned i = 0; i < PKG_MAX_MEMBERS && pkg_reader_next(w->reader, &m, &ignored) == 0; i++)
		n += !m.unsafe && str_eq(m.path, name);
	if (n > 1)
		log_warn("archive",
			 "%s: %u members have the name " STR_FMT "; the first one is used; " STR_FMT
			 "[2] is the second",
			 w->src->name, n, STR_ARG(name), STR_ARG(name));
}

static int walk_copy(struct archive_walk *w, uint64_t max, int fd, uint64_t *ret_size, struct err *err)
{
	struct bytes chunk;

	for (*ret_size = 0;; *ret_size += chunk.size) {
		if (pkg_reader_data(w->reader, &chunk, err) < 0)
			return -1;
		if (!chunk.size)
			return 0;
		if (chunk.size > max - *ret_size)
			return err_set(err, ERR_LIMIT,
				       "more than the %llu bytes allowed for an archive of this size",
				       (unsigned long long)max);
		if (fd_pwrite(fd, chunk.p, chunk.size, *ret_size, err) < 0)
			return -1;
	}
}

/* ---- a member ---- */

enum { MEMBER_IS_LINK = 1 }; /* *link has the name to go on with */

static int member_copy(struct archive_walk *w, const struct pkg_member *m, const char *path,
		       struct source **ret, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	int64_t mtime = m->mtime;
	uint64_t size;

	if (file_unnamed(file_temp_dir(), &fd, err) < 0 ||
	    walk_copy(w, elf_held_max(w->src->size), fd, &size, err) < 0)
		return -1;
	*ret = source_of_fd(TAKE_FD(fd), size, mtime, path);
	return 0;
}

/* Copy the member @name of @src; *ret_inner is the rest of the name if that is in an archive among the members. */
static int member_take_nth(struct source *src, struct str name, uint64_t nth, struct buf *link,
			   struct str *ret_inner, struct source **ret, struct err *err)
{
	AUTO(walk_done) struct archive_walk w = { .src = src };
	AUTO(mem_freep) char *path = NULL;
	AUTO(buf_done) struct buf found = { 0 };
	struct pkg_member m;
	int r = walk_open(&w, err) < 0 ? -1 : walk_find(&w, name, nth, &m, err);

	if (r)
		return r;
	*ret_inner = (struct str){ name.p + m.path.size, name.size - m.path.size };
	link->size = 0;
	switch (m.type) {
	case PKG_FILE:
		buf_add_str(&found, m.path);
		path = nth > 1 ? mem_printf("%s!" STR_FMT "[%llu]", src->name, STR_ARG(m.path),
					    (unsigned long long)nth)
			       : mem_printf("%s!" STR_FMT, src->name, STR_ARG(m.path));
		r = member_copy(&w, &m, path, ret, err);
		if (r == 0 && nth == 1)
			note_same_names(&w, buf_str(&found));
		return r;
	case PKG_SYMLINK:
		map_resolve(m.path, m.link, link);
		return MEMBER_IS_LINK;
	case PKG_HARDLINK:
		buf_add_str(link, m.link);
		return MEMBER_IS_LINK;
	case PKG_DIR:
		return err_set(err, ERR_INVALID, "it is a folder: name a file in it");
	case PKG_SPECIAL:
		break;
	}
	return err_set(err, ERR_INVALID, "it is no file, or encrypted");
}

/* A number in brackets counts only where no member has the whole name. */
static int member_take(struct source *src, struct str name, struct buf *link, struct str *ret_inner,
		       struct source **ret, struct err *err)
{
	struct str base;
	uint64_t nth;
	int r = member_take_nth(src, name, 1, link, ret_inner, ret, err);

	if (r == MEMBER_MISSING && numbered_name(name, &base, &nth))
		r = member_take_nth(src, base, nth, link, ret_inner, ret, err);
	return r == MEMBER_MISSING ? -1 : r;
}

/* The member, after its links. */
static int member_follow(struct source *src, struct str name, struct str *ret_inner, struct source **ret,
			 struct err *err)
{
	AUTO(buf_done) struct buf at = { 0 }, link = { 0 };
	int r = member_take(src, name, &link, ret_inner, ret, err);

	for (unsigned n = 0; r == MEMBER_IS_LINK && n < MAX_LINKS; n++) {
		struct str ignored;

		at.size = 0;
		buf_add_str(&at, buf_str(&link));
		r = member_take(src, buf_str(&at), &link, &ignored, ret, err);
		if (r < 0)
			return err_in(err, "its link");
	}
	return r == MEMBER_IS_LINK ? err_set(err, ERR_LIMIT, "it is a link to links without an end") : r;
}

int pkg_open_member(struct source *archive, struct str name, struct source **ret, struct err *err)
{
	AUTO(source_closep) struct source *outer = NULL;
	AUTO(buf_done) struct buf wanted = { 0 };
	struct source *src = archive;
	bool unsafe;

	if (member_path(name, &wanted, &unsafe, err) < 0)
		return -1;
	name = buf_str(&wanted);
	for (unsigned depth = 0; depth < MAX_DEPTH; depth++) {
		struct source *inner;
		struct str rest;

		if (member_follow(src, name, &rest, &inner, err) < 0)
			return err_in(err, "member %.*s", (int)MIN(name.size, (size_t)NAME_SIZE), name.p);
		source_close(outer);
		outer = src = inner;
		if (!rest.size) {
			*ret = TAKE(outer);
			return 0;
		}
		name = (struct str){ rest.p + 1, rest.size - 1 };
	}
	return err_set(err, ERR_LIMIT, "more than %u archives in archives: extract the inner ones",
		       MAX_DEPTH);
}

int pkg_open_path(const char *path, struct source **ret, struct err *err)
{
	int r = source_open_file(path, ret, err);

	if (r < 0 && elf_refuse_folder(path, err) < 0)
		return -1;
	if (r != FILE_MISSING)
		return r;
	for (const char *p = path; (p = strpbrk(p, ":!")); p++) {
		AUTO(mem_freep) char *name = mem_strndup(path, (size_t)(p - path));
		AUTO(source_closep) struct source *archive = NULL;
		struct stat st;

		if (p == path || !p[1] || stat(name, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		r = source_open_file(name, &archive, err);
		return r ? r : pkg_open_member(archive, str_of(p + 1), ret, err);
	}
	return FILE_MISSING;
}
