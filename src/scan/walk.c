/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: over the roots, physically (or through links, with -L), comparing each file with its row in the
 * index. New and changed files are handed to the probing threads. Runs on the walking thread only.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include "scan/internal.h"

static const struct stat no_stat; /* of folders in the list of ignored files */

static bool walk_is_package(const struct scan *s, struct str name)
{
	if (!s->opts.packages)
		return false;
	if (!s->opts.n_package_suffixes)
		return pkg_kind_by_name(name) != 0;
	for (size_t i = 0; i < s->opts.n_package_suffixes; i++)
		if (str_ends(name, s->opts.package_suffixes[i]))
			return true;
	return false;
}

bool scan_excludes(const struct scan *s, const char *path)
{
	return s->has_exclude && regexec(&s->exclude, path, 0, NULL, 0) == 0;
}

bool walk_admits(struct scan *s, const char *path, bool groom)
{
	if (groom && !s->opts.regex_groom)
		return true;
	return !scan_excludes(s, path) && (!s->has_include || regexec(&s->include, path, 0, NULL, 0) == 0);
}

/*
 * Names of files that dpkg and rpm (a semicolon and eight hexadecimal digits) are writing. The bytes of one are
 * not complete yet, and the same file comes again by its final name.
 */
static bool walk_is_unpacked_now(struct str name)
{
	size_t at = name.size - MIN(name.size, 9);

	if (str_ends(name, STR(".dpkg-new")) || str_ends(name, STR(".dpkg-tmp")))
		return true;
	if (!at || name.p[at] != ';')
		return false;
	while (++at < name.size)
		if (!isxdigit((unsigned char)name.p[at]))
			return false;
	return true;
}

static int64_t stat_mtime_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/*
 * An unchanged file whose file system has another number, as after a restart. Its row has the new one: that shows whether its root
 * is mounted, and the old number may be that of the file system below the mount now.
 */
static void walk_note_device(struct scan *s, const struct index_file *f, const struct stat *st)
{
	struct change *c;

	if (f->dev == (uint64_t)st->st_dev)
		return;
	c = change_new(CHANGE_TOUCH);
	change_set_file(c, f);
	c->file.dev = st->st_dev;
	writer_push(s->writer, c);
}

/* Does the index say all about this file, so that it need not be probed? */
static bool walk_is_known(struct scan *s, struct candidate *l)
{
	const struct stat *st = &l->st;
	const char *path = l->path;
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file f;
	struct err err = { 0 };
	int r;

	arena_init(&a);
	r = index_file_by_path(s->walk_index, str_of(path), &a, &f, &err);
	if (r < 0) {
		/* Unknown: the next walk, which comes soon, will try again. Any number of files may fail like this. */
		if (err.kind != ERR_DAMAGED) {
			if (unlisted_add_index(s->unlisted, s->opts.index_path, err.text))
				log_error("scan", "%s: %s", path, err.text);
			return true;
		}
		/* A row that no version of lode writes is replaced. */
		log_error("scan", "%s: %s", path, err.text);
		return false;
	}
	if (r == INDEX_MISSING)
		return ignored_has(s->ignored, path, st);
	l->old = f.id;
	l->old_generation = f.generation;
	l->old_points_size = f.points_size;
	if (f.size != (uint64_t)st->st_size || f.mtime_ns != stat_mtime_ns(st) || f.inode != st->st_ino)
		return false;
	walk_note_device(s, &f, st);
	if (f.state != INDEX_FAILED)
		return true;
	l->tries = f.tries;
	/* The deep jobs, if any, try a failed package again; another file is probed again. */
	return (l->by_name && !s->opts.header_only) || !index_is_retried(&f, clock_wall_s());
}

void walk_candidate(struct scan *s, const char *path, const struct stat *st)
{
	struct str name = path_basename(str_of(path));
	bool package = walk_is_package(s, name);
	struct candidate *l;

	if ((!package && !s->opts.files) || walk_is_unpacked_now(name))
		return;
	if (!walk_admits(s, path, false))
		return;
	pthread_mutex_lock(&s->lock);
	s->progress.n_seen++;
	pthread_mutex_unlock(&s->lock);
	l = NEW(struct candidate);
	l->path = mem_strdup(path);
	l->st = *st;
	l->by_name = package;
	if (walk_is_known(s, l))
		candidate_free(l);
	else
		scan_add_candidate(s, l);
}

/* ---- walking ---- */

/* The number of folders between @path and its root. */
static unsigned walk_depth(const struct scan *s, const char *path)
{
	unsigned ret = 0;

	for (size_t i = 0; i < s->opts.n_roots; i++) {
		char root[PATH_MAX];
		unsigned depth = 0;
		size_t n;

		if (!realpath(s->opts.roots[i].p, root))
			continue;
		n = strcmp(root, "/") == 0 ? 0 : strlen(root);
		if (strncmp(path, root, n) != 0 || path[n] != '/')
			continue;
		for (const char *p = path + n; *p; p++)
			depth += *p == '/';
		ret = ret ? MIN(ret, depth) : depth;
	}
	return ret;
}

/* The real path of the deepest root that this path is below, on the heap; NULL: none. */
static char *walk_root_of(const struct scan *s, const char *path)
{
	char *ret = NULL;

	for (size_t i = 0; i < s->opts.n_roots; i++) {
		char *real = realpath(s->opts.roots[i].p, NULL);

		if (real && path_is_below(path, real) && (!ret || strlen(real) > strlen(ret))) {
			free(ret);
			ret = TAKE(real);
		}
		free(real);
	}
	return ret;
}

/* A folder whose entries are being visited. */
struct walk_folder {
	struct arena a; /* of the names */
	char **names;   /* heap */
	size_t n, at;
	size_t path_size; /* of its own path, in the path of the walk */
	dev_t dev;
	ino_t inode;
	int failed; /* errno of the first entry that could not be inspected */
	const char *failed_name;
};

struct walk {
	struct scan *s;
	const char *top; /* the folder or file where it begins */
	bool is_root;    /* that is one of the roots */
	unsigned depth;  /* of @top below its root */
	struct buf path; /* of the current entry */
	struct walk_folder *stack;
	size_t n, room;
	uint64_t n_links; /* that have a package's name and are not followed */
};

static int has_row(void *arg, const struct index_file *f, struct err *err)
{
	return 1;
}

/* Is it unreadable on purpose, like lost+found? Then nothing at or below it is in the index. A root is never meant to be. */
static bool path_is_closed(struct walk *w, const char *path, int number)
{
	struct err err = { 0 };

	if (number != EACCES && number != EPERM && number != ENAMETOOLONG)
		return false;
	if (w->is_root && strcmp(path, w->top) == 0)
		return false;
	return index_each_below(w->s->walk_index, str_of(path), has_row, NULL, &err) == 0;
}

/* All files of this folder are left out. */
static bool folder_is_excluded(const struct scan *s, const char *folder)
{
	AUTO(mem_freep) char *inside = mem_printf("%s/", folder);

	return scan_excludes(s, inside);
}

/* Once for each folder, as all of its entries may fail. */
static void log_left_out(struct scan *s, const char *folder, const char *what, const char *why)
{
	if (ignored_has(s->ignored, folder, &no_stat))
		return;
	ignored_add(s->ignored, folder, &no_stat);
	log_warn("scan", "%s: %s: %s", folder, what, why);
}

/* @folder could not be listed to its end. @name: the entry of it that failed; NULL: the list itself. */
static void walk_failed(struct walk *w, const char *folder, const char *name, int number)
{
	AUTO(mem_freep) char *root = NULL;
	AUTO(mem_freep) char *why = NULL;

	if (folder_is_excluded(w->s, folder))
		return;
	why = mem_printf("%s%s%s", name ? name : "", name ? ": " : "", strerror(number));
	if (!name && path_is_closed(w, folder, number)) {
		log_left_out(w->s, folder, "it is left out, since it cannot be listed", why);
		return;
	}
	/* Each of many new folders is a walk of its own. */
	root = w->is_root ? NULL : walk_root_of(w->s, w->top);
	if (unlisted_add(w->s->unlisted, folder, root ? root : w->top, why))
		log_error("scan",
			  "%s: it could not be listed: %s; until it is, the index keeps its files, and no "
			  "build "
			  "ID is reported as missing; %s",
			  folder, why, unlisted_advice(number));
}

static bool is_mount_point(const char *path)
{
	char text[2 * PATH_MAX];
	struct mntent m;
	bool found = false;
	FILE *f = setmntent("/proc/self/mounts", "re");

	while (f && !found && getmntent_r(f, &m, text, sizeof(text)))
		found = strcmp(m.mnt_dir, path) == 0;
	if (f)
		endmntent(f);
	return found;
}

/* Would it not be entered if it could be inspected? lstat() of a file system that is dead fails, too. */
static bool is_left_out_mount(const struct walk *w, const char *path)
{
	return !w->s->opts.follow_links && is_mount_point(path);
}

/*
 * The current path, an entry @name of a folder, could not be inspected. It is judged by its own path: the folder may have files
 * in the index, and a link in it may lead into one that is closed.
 */
static void entry_failed(struct walk *w, const char *name, int number)
{
	struct walk_folder *above = &w->stack[w->n - 1];
	const char *path = buf_cstr(&w->path);

	if (above->failed || scan_excludes(w->s, path) || folder_is_excluded(w->s, path))
		return;
	if (path_is_closed(w, path, number) || is_left_out_mount(w, path)) {
		AUTO(mem_freep) char *folder = mem_strndup(path, above->path_size);
		AUTO(mem_freep) char *why = mem_printf("%s: %s", name, strerror(number));

		log_left_out(w->s, folder, "an entry is left out, since it cannot be inspected", why);
		return;
	}
	above->failed = number;
	above->failed_name = name;
}

/* The current path is a folder: visit its entries, unless it is on another file system, too deep, or above itself. */
static void walk_enter(struct walk *w, const struct stat *st)
{
	struct scan *s = w->s;
	const char *path = buf_cstr(&w->path);
	struct walk_folder f = { .path_size = w->path.size, .dev = st->st_dev, .inode = st->st_ino };
	int number;

	for (size_t i = 0; i < w->n; i++) {
		if (w->stack[i].dev != st->st_dev || w->stack[i].inode != st->st_ino)
			continue;
		log_debug("scan", "%s: a folder within itself", path);
		return;
	}
	/* Its entries are one level deeper. */
	if (s->opts.max_depth && w->depth + w->n >= s->opts.max_depth)
		return;
	if (s->watch)
		watch_dir(s->watch, path);
	if (!s->opts.follow_links && w->n && w->stack[0].dev != st->st_dev)
		return;
	arena_init(&f.a);
	number = folder_names(path, &f.a, &f.names, &f.n);
	/* It may have gone since. */
	if (number && number != ENOENT && number != ENOTDIR)
		walk_failed(w, path, NULL, number);
	VEC_PUSH(w->stack, w->n, w->room) = f;
}

static void walk_leave(struct walk *w)
{
	struct walk_folder *f = &w->stack[--w->n];

	w->path.size = f->path_size;
	if (f->failed)
		walk_failed(w, buf_cstr(&w->path), f->failed_name, f->failed);
	free(f->names);
	arena_done(&f->a);
}

/* The current path. @name: its last part, which lives as long as the folder; NULL: it is the top. */
static void walk_visit(struct walk *w, const char *name)
{
	struct scan *s = w->s;
	const char *path = buf_cstr(&w->path);
	struct stat st;

	if ((s->opts.follow_links ? stat(path, &st) : lstat(path, &st)) != 0) {
		/* It may have gone since, or is a link that leads nowhere. */
		if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
			return;
		if (w->n)
			entry_failed(w, name, errno);
		else if (!scan_excludes(s, path))
			walk_failed(w, path, NULL, errno);
		return;
	}
	if (S_ISDIR(st.st_mode))
		walk_enter(w, &st);
	else if (S_ISREG(st.st_mode))
		walk_candidate(s, path, &st);
	else if (S_ISLNK(st.st_mode))
		w->n_links += walk_is_package(s, path_basename(str_of(path)));
}

static void walk_next(struct walk *w)
{
	struct walk_folder *f = &w->stack[w->n - 1];
	const char *name;

	if (f->at == f->n) {
		walk_leave(w);
		return;
	}
	name = f->names[f->at++];
	w->path.size = f->path_size;
	if (w->path.p[w->path.size - 1] != '/')
		buf_add_char(&w->path, '/');
	buf_add_str(&w->path, str_of(name));
	walk_visit(w, name);
}

static void walk_below(struct walk *w)
{
	buf_add_str(&w->path, str_of(w->top));
	walk_visit(w, NULL);
	while (w->n && !atomic_load(&w->s->stopping))
		walk_next(w);
	while (w->n)
		walk_leave(w);
	buf_done(&w->path);
	free(w->stack);
	if (w->n_links)
		log_info("scan",
			 "%s: packages that are symbolic links are passed over: %llu; --follow-links (lode "
			 "debuginfod: -L) follows them",
			 w->top, (unsigned long long)w->n_links);
}

/* The walk of @path has ended. */
static void note_listed(struct scan *s, const char *path)
{
	if (!atomic_load(&s->stopping) && unlisted_end(s->unlisted, path))
		scan_listed(s);
}

/* Walk, and note which places at and below @top could not be listed. */
static void walk_and_note(struct walk *w)
{
	unlisted_begin(w->s->unlisted, w->top);
	walk_below(w);
	note_listed(w->s, w->top);
}

void walk_root(struct scan *s, const char *path)
{
	char real[PATH_MAX];
	struct walk w = { .s = s, .top = real, .is_root = true };

	unlisted_begin(s->unlisted, path);
	root_note_walk(s, path);
	/* It may be a link. Files below it have the real path, as the regexes expect. */
	if (realpath(path, real)) {
		walk_and_note(&w);
	} else if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) {
		int number = errno;
		struct root_place place;

		/* Of one that is not mounted, roots_judge() says so. */
		if (!root_place(path, &place) || !unlisted_covers(s->unlisted, place.path))
			log_warn("scan", "%s: %s", path, strerror(number));
	} else {
		w.top = path;
		walk_failed(&w, path, NULL, errno);
	}
	note_listed(s, path);
}

void walk_path(struct scan *s, const char *path)
{
	walk_and_note(
		&(struct walk){ .s = s, .top = path, .depth = s->opts.max_depth ? walk_depth(s, path) : 0 });
}

/* ---- changes ---- */

/* The file is gone, unless its folder cannot be seen now. */
static void walk_delete(struct scan *s, const char *path)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file f;
	struct err err = { 0 };
	struct change *c;

	arena_init(&a);
	if (index_file_by_path(s->walk_index, str_of(path), &a, &f, &err) != 0 ||
	    roots_keep(s, s->walk_index, path))
		return;
	c = change_new(CHANGE_DEL);
	c->file = f;
	c->file.path = arena_str(&c->arena, f.path);
	c->file.reason = (struct str){ 0 };
	writer_push(s->writer, c);
}

/* With -L. */
static void walk_changed_link(struct scan *s, const char *path)
{
	struct stat st;

	/* It may lead to something that cannot be inspected now. */
	if (stat(path, &st) != 0)
		walk_path(s, path);
	else if (S_ISREG(st.st_mode))
		walk_candidate(s, path, &st);
	else if (S_ISDIR(st.st_mode))
		scan_rescan(s); /* the walk finds its files by their paths below the root */
}

void walk_changed(struct scan *s, const char *path)
{
	struct stat st;

	if (lstat(path, &st) != 0) {
		/* An unreadable folder says nothing about the file. */
		if (errno != ENOENT && errno != ENOTDIR)
			walk_path(s, path);
		else
			walk_delete(s, path);
		return;
	}
	if (S_ISDIR(st.st_mode))
		walk_path(s, path);
	else if (S_ISREG(st.st_mode))
		walk_candidate(s, path, &st);
	else if (S_ISLNK(st.st_mode) && s->opts.follow_links)
		walk_changed_link(s, path);
}
