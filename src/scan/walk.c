/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: over the roots, physically (or through links, with -L), comparing each file with what the index
 * knows of it. What is new or changed is handed to the looking threads. Runs on the walking thread only.
 */
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include "scan/internal.h"

static bool has_suffix(const struct scan *s, struct str name)
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

bool walk_admits(struct scan *s, const char *path, bool groom)
{
	if (groom && !s->opts.regex_groom)
		return true;
	if (s->has_exclude && regexec(&s->exclude, path, 0, NULL, 0) == 0)
		return false;
	return !s->has_include || regexec(&s->include, path, 0, NULL, 0) == 0;
}

static int64_t mtime_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* Is there anything to do about this file? */
static bool is_known(struct scan *s, const char *path, const struct stat *st, bool by_name,
		     uint32_t *ret_tries)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file f;
	struct err err = { 0 };
	int r;

	*ret_tries = 0;
	arena_init(&a);
	r = index_file_by_path(s->walk_index, str_of(path), &a, &f, &err);
	if (r < 0) {
		log_error("scan", "%s: %s", path, err.text);
		return true; /* we cannot tell: the next walk will */
	}
	if (r == INDEX_MISSING)
		return nothing_has(s->nothing, path, st);
	if (f.size != (uint64_t)st->st_size || f.mtime_ns != mtime_ns(st) || f.inode != st->st_ino)
		return false;
	if (f.state != INDEX_FAILED)
		return true;
	*ret_tries = f.tries;
	/* A failed package whose header was read is tried again by the jobs; anything else by a new look. */
	return by_name || f.next_try_s == 0 || f.next_try_s > clock_wall_s();
}

static void candidate(struct scan *s, const char *path, const struct stat *st)
{
	bool by_name = has_suffix(s, path_basename(str_of(path)));
	struct look *l;
	uint32_t tries;

	if (!by_name && !s->opts.files)
		return;
	if (!walk_admits(s, path, false))
		return;
	pthread_mutex_lock(&s->lock);
	s->progress.n_seen++;
	pthread_mutex_unlock(&s->lock);
	if (is_known(s, path, st, by_name, &tries))
		return;
	l = NEW(struct look);
	l->path = mem_strdup(path);
	l->st = *st;
	l->by_name = by_name;
	l->tries = tries;
	scan_look(s, l);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

void walk_path(struct scan *s, const char *path)
{
	char real[PATH_MAX];
	char *roots[2] = { real, NULL };
	int flags = s->opts.follow_links ? FTS_LOGICAL : FTS_PHYSICAL | FTS_XDEV;
	FTSENT *e;
	FTS *fts;

	/* The roots themselves may be links; what is below them is named by the real path, as the regexes
	 * expect. */
	if (!realpath(path, real)) {
		log_warn("scan", "%s: %s", path, strerror(errno));
		return;
	}
	fts = fts_open(roots, flags | FTS_NOCHDIR, by_name);
	if (!fts) {
		log_error("scan", "%s: %s", path, strerror(errno));
		return;
	}
	while (!atomic_load(&s->stopping) && (e = fts_read(fts)) != NULL) {
		switch (e->fts_info) {
		case FTS_D:
			if (s->opts.max_depth && e->fts_level > (int)s->opts.max_depth) {
				fts_set(fts, e, FTS_SKIP);
				break;
			}
			if (s->watch)
				watch_dir(s->watch, e->fts_path);
			break;
		case FTS_F:
			candidate(s, e->fts_path, e->fts_statp);
			break;
		case FTS_DNR:
		case FTS_ERR:
		case FTS_NS:
			log_warn("scan", "%s: %s", e->fts_path, strerror(e->fts_errno));
			break;
		case FTS_DC:
			log_debug("scan", "%s: a folder that holds itself", e->fts_path);
			break;
		default:
			break;
		}
	}
	fts_close(fts);
}

static void drop(struct scan *s, const char *path)
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

void walk_changed(struct scan *s, const char *path)
{
	struct stat st;

	if (lstat(path, &st) != 0) {
		drop(s, path);
		return;
	}
	if (S_ISDIR(st.st_mode))
		walk_path(s, path);
	else if (S_ISREG(st.st_mode))
		candidate(s, path, &st);
	else if (S_ISLNK(st.st_mode) && s->opts.follow_links && stat(path, &st) == 0 && S_ISREG(st.st_mode))
		candidate(s, path, &st);
}
