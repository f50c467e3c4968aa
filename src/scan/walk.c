/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: over the roots, physically (or through links, with -L), comparing each file with its row in the
 * index. New and changed files are handed to the probing threads. Runs on the walking thread only.
 */
#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include "scan/internal.h"

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
		log_error("scan", "%s: %s", path, err.text);
		return true; /* unknown: the next walk will try again */
	}
	if (r == INDEX_MISSING)
		return ignored_has(s->ignored, path, st);
	l->old = f.id;
	l->old_generation = f.generation;
	l->old_points_size = f.points_size;
	if (f.size != (uint64_t)st->st_size || f.mtime_ns != stat_mtime_ns(st) || f.inode != st->st_ino)
		return false;
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

static int fts_by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

void walk_path(struct scan *s, const char *path, unsigned depth)
{
	char real[PATH_MAX];
	char *roots[2] = { real, NULL };
	uint64_t n_links = 0; /* that have a package's name and are not followed */
	int flags = s->opts.follow_links ? FTS_LOGICAL : FTS_PHYSICAL | FTS_XDEV;
	FTSENT *e;
	FTS *fts;

	/* The roots themselves may be links. Files below them have the real path, as the regexes expect. */
	if (!realpath(path, real)) {
		log_warn("scan", "%s: %s", path, strerror(errno));
		return;
	}
	fts = fts_open(roots, flags | FTS_NOCHDIR, fts_by_name);
	if (!fts) {
		log_error("scan", "%s: %s", path, strerror(errno));
		return;
	}
	/* Also when it stops at once: glibc loses memory if nothing was read before the end. */
	while ((e = fts_read(fts)) != NULL && !atomic_load(&s->stopping)) {
		switch (e->fts_info) {
		case FTS_D:
			/* Entries of this folder are one level deeper. */
			if (s->opts.max_depth && depth + (unsigned)e->fts_level >= s->opts.max_depth) {
				fts_set(fts, e, FTS_SKIP);
				break;
			}
			if (s->watch)
				watch_dir(s->watch, e->fts_path);
			break;
		case FTS_F:
			walk_candidate(s, e->fts_path, e->fts_statp);
			break;
		case FTS_SL:
			n_links += walk_is_package(s, path_basename(str_of(e->fts_path)));
			break;
		case FTS_DNR:
		case FTS_ERR:
		case FTS_NS:
			log_warn("scan", "%s: %s", e->fts_path, strerror(e->fts_errno));
			break;
		case FTS_DC:
			log_debug("scan", "%s: a folder within itself", e->fts_path);
			break;
		default:
			break;
		}
	}
	fts_close(fts);
	if (n_links)
		log_info("scan",
			 "%s: packages that are symbolic links are passed over: %llu; --follow-links (lode "
			 "debuginfod: -L) follows them",
			 real, (unsigned long long)n_links);
}

static void walk_delete(struct scan *s, const char *path)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file f;
	struct err err = { 0 };
	struct change *c;

	arena_init(&a);
	if (index_file_by_path(s->walk_index, str_of(path), &a, &f, &err) != 0)
		return;
	c = change_new(CHANGE_DEL);
	c->file = f;
	c->file.path = arena_str(&c->arena, f.path);
	c->file.reason = (struct str){ 0 };
	writer_push(s->writer, c);
}

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

void walk_changed(struct scan *s, const char *path)
{
	struct stat st;

	if (lstat(path, &st) != 0) {
		/* An unreadable folder says nothing about the file. */
		if (errno == ENOENT || errno == ENOTDIR)
			walk_delete(s, path);
		return;
	}
	if (S_ISDIR(st.st_mode))
		walk_path(s, path, s->opts.max_depth ? walk_depth(s, path) : 0);
	else if (S_ISREG(st.st_mode))
		walk_candidate(s, path, &st);
	else if (S_ISLNK(st.st_mode) && s->opts.follow_links && stat(path, &st) == 0 && S_ISREG(st.st_mode))
		walk_candidate(s, path, &st);
	else if (s->opts.follow_links && S_ISDIR(st.st_mode))
		scan_rescan(s); /* the walk finds its files by their paths below the root */
}
