/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grooming: deletes the rows of files that are gone. It reads the index page by page and hands deletions to
 * the writer like any other change, so that no request and no scan waits for it. Runs on a thread of its own.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/condition.h"
#include "s3/s3.h"
#include "scan/internal.h"

#define PAGE         1000u
#define ORPHAN_AGE_S 600

static bool file_is_gone(const char *path)
{
	struct stat st;

	/* A listing tells (walk_s3.c). */
	if (s3_is_url(str_of(path)))
		return false;
	if (stat(path, &st) == 0)
		return !S_ISREG(st.st_mode);
	/* An unreachable server (ESTALE, EIO) or an unreadable folder says nothing about the file. */
	return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
}

static void groom_delete(struct scan *s, const struct index_file *f)
{
	struct change *c = change_new(CHANGE_DEL);

	c->file = *f;
	c->file.path = arena_str(&c->arena, f->path);
	c->file.reason = (struct str){ 0 };
	writer_push(s->writer, c);
}

/*
 * Is the file missing that the row names for its resume points (removed by hand, or only the index was
 * restored)? The package is still found, but each read decodes it from the start. So it gets a new deep pass,
 * and is found meanwhile.
 */
static bool points_are_lost(struct scan *s, const struct index_file *f)
{
	AUTO(buf_done) struct buf path = { 0 };
	struct stat st;

	if (!s->opts.points_dir || s->opts.header_only || f->state != INDEX_SCANNED || !f->points_size)
		return false;
	/* A request fetches them, and has the package scanned again without them. */
	if (s->opts.store && s3_is_url(f->path))
		return false;
	scan_points_path(s->opts.points_dir, f, &path);
	if (stat(buf_cstr(&path), &st) == 0)
		return (uint64_t)st.st_size != f->points_size;
	return errno == ENOENT;
}

static void groom_map_again(struct scan *s, struct index *ix, const struct index_file *f)
{
	struct change *c = change_new(CHANGE_PUT);
	struct err err = { 0 };

	c->only_if_same = true;
	c->file = *f;
	c->file.path = arena_str(&c->arena, f->path);
	c->file.reason = (struct str){ 0 };
	c->file.state = INDEX_HEADER;
	c->file.points_size = 0;
	if (index_artifacts_of(ix, f->id, &c->arena, &c->artifacts, &c->n_artifacts, &err) != 0) {
		change_free(c);
		return;
	}
	for (size_t i = 0; i < c->n_artifacts; i++) {
		c->artifacts[i].flags = 0;
		c->artifacts[i].member = INDEX_NO_MEMBER;
	}
	log_warn("groom", STR_FMT ": its resume points are missing: scanning it again", STR_ARG(f->path));
	writer_push(s->writer, c);
}

/* Is this file in the folder of the resume points unused? */
static bool points_are_orphaned(struct index *ix, const char *name)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file f;
	struct err err = { 0 };
	unsigned long long generation;
	long long id;
	int r;

	/* Left by a write that a crash ended. */
	if (strncmp(name, FILE_TEMP_PREFIX, strlen(FILE_TEMP_PREFIX)) == 0)
		return true;
	if (sscanf(name, "%lld.%llx", &id, &generation) != 2)
		return false;
	arena_init(&a);
	r = index_file_by_id(ix, id, &a, &f, &err);
	if (r < 0)
		return false;
	return r == INDEX_MISSING || f.generation != generation || !f.points_size;
}

/* Remove files that a crash left in the folder of the resume points, between a file and its row or before its
 * rename. */
static void groom_orphans(struct scan *s, struct index *ix)
{
	DIR *dir;
	struct dirent *e;

	if (!s->opts.points_dir || !(dir = opendir(s->opts.points_dir)))
		return;
	while (!atomic_load(&s->stopping) && (e = readdir(dir)) != NULL) {
		struct stat st;

		if (!points_are_orphaned(ix, e->d_name))
			continue;
		/* The writer creates the file first, then the row: it may still be doing so. */
		if (fstatat(dirfd(dir), e->d_name, &st, 0) != 0 ||
		    clock_wall_s() - st.st_mtim.tv_sec < ORPHAN_AGE_S)
			continue;
		unlinkat(dirfd(dir), e->d_name, 0);
	}
	closedir(dir);
}

/* Is the row of this file to be deleted? Not if it only seems to be missing: its folder could not be listed, or is not mounted. */
static bool row_is_stale(struct scan *s, struct index *ix, const char *path)
{
	if (!walk_admits(s, path, true))
		return true;
	return file_is_gone(path) && !roots_keep(s, ix, path);
}

/*
 * A row after @after cannot be read, such as one of a later version of lode. A walk replaces it if its file is there; else each list
 * ends at it, this one and that of packages that are due. true: it is deleted. *last is the row that was deleted before.
 */
static bool groom_damaged(struct scan *s, struct index *ix, int64_t after, int64_t *last)
{
	struct err err = { 0 };
	struct change *c;
	int64_t id;

	if (index_first_damaged(ix, after, &id, &err) != 0 || id == *last)
		return false;
	log_warn("groom", "the row of file %lld cannot be read: it is deleted", (long long)id);
	*last = id;
	c = change_new(CHANGE_DEL_DAMAGED);
	c->file.id = id;
	writer_push(s->writer, c);
	writer_fence(s->writer);
	return true;
}

static void groom_run(struct scan *s, struct index *ix)
{
	int64_t after = 0, damaged = 0;
	struct change *tidy;
	size_t n_gone = 0;

	while (!atomic_load(&s->stopping)) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file *files;
		struct err err = { 0 };
		size_t n;

		arena_init(&a);
		if (index_list(ix, &(struct index_range){ 0, 0, after, PAGE }, &a, &files, &n, &err) < 0) {
			if (err.kind == ERR_DAMAGED && groom_damaged(s, ix, after, &damaged))
				continue;
			log_error("groom", "%s", err.text);
			break;
		}
		if (!n)
			break;
		for (size_t i = 0; i < n && !atomic_load(&s->stopping); i++) {
			after = files[i].id;
			bool gone = row_is_stale(s, ix, arena_strdup(&a, files[i].path));

			stats_groomed(gone);
			if (!gone) {
				if (points_are_lost(s, &files[i]))
					groom_map_again(s, ix, &files[i]);
				continue;
			}
			groom_delete(s, &files[i]);
			n_gone++;
		}
	}
	groom_orphans(s, ix);
	tidy = change_new(CHANGE_TIDY);
	tidy->all = s->opts.tidy_all;
	writer_push(s->writer, tidy);
	writer_fence(s->writer);
	jobs_kick(s->jobs);
	if (n_gone)
		log_info("groom", "%zu files are gone", n_gone);
}

void *groom_main(void *arg)
{
	struct scan *s = arg;
	int64_t next_ms = s->opts.groom_s ? clock_mono_ms() + s->opts.groom_s * 1000 : INT64_MAX;

	pthread_setname_np(pthread_self(), "groom");
	pthread_mutex_lock(&s->lock);
	while (!atomic_load(&s->stopping)) {
		if (!s->want_groom && clock_mono_ms() < next_ms) {
			condition_wait(&s->changed, &s->lock, MIN(next_ms - clock_mono_ms(), INT64_C(60000)));
			continue;
		}
		s->want_groom = false;
		s->progress.grooming = true;
		pthread_mutex_unlock(&s->lock);
		stats_busy(SCAN_ROLE_GROOM, true);
		groom_run(s, s->groom_index);
		stats_busy(SCAN_ROLE_GROOM, false);
		pthread_mutex_lock(&s->lock);
		s->progress.grooming = false;
		pthread_cond_broadcast(&s->changed);
		next_ms = s->opts.groom_s ? clock_mono_ms() + s->opts.groom_s * 1000 : INT64_MAX;
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}
