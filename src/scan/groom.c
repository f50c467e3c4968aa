/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grooming: what is in the index but no longer there goes. It reads the index a page at a time and hands
 * deletions to the writer like any other change, so that no request and no scan waits for it. Runs on the
 * walking thread.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "scan/internal.h"

#define PAGE 1000u

static bool is_gone(struct scan *s, const struct index_file *f, const char *path)
{
	struct stat st;

	if (!walk_admits(s, path, true))
		return true;
	if (stat(path, &st) == 0)
		return !S_ISREG(st.st_mode);
	/* A server that is away (ESTALE, EIO) or a folder that may not be read says nothing about the file.
	 */
	return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
}

static void drop(struct scan *s, const struct index_file *f)
{
	struct change *c = change_new(CHANGE_DEL);

	c->file = *f;
	c->file.path = arena_str(&c->arena, f->path);
	c->file.reason = (struct str){ 0 };
	writer_push(s->writer, c);
}

/* Resume points of packages that are no longer in the index: left by a crash between a file and its row. */
static void orphans(struct scan *s)
{
	DIR *dir;
	struct dirent *e;

	if (!s->opts.points_dir || !(dir = opendir(s->opts.points_dir)))
		return;
	while (!atomic_load(&s->stopping) && (e = readdir(dir)) != NULL) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file f;
		struct err err = { 0 };
		struct stat st;
		unsigned long long generation;
		long long id;

		if (sscanf(e->d_name, "%lld.%llx", &id, &generation) != 2)
			continue;
		arena_init(&a);
		int r = index_file_by_id(s->walk_index, id, &a, &f, &err);

		if (r < 0 || (r == 0 && f.generation == generation))
			continue;
		/* The writer makes the file first, then the row: leave it time. */
		if (fstatat(dirfd(dir), e->d_name, &st, 0) != 0 || clock_wall_s() - st.st_mtim.tv_sec < 600)
			continue;
		unlinkat(dirfd(dir), e->d_name, 0);
	}
	closedir(dir);
}

void groom_run(struct scan *s)
{
	int64_t after = 0;
	struct change *tidy;
	size_t n_gone = 0;

	pthread_mutex_lock(&s->lock);
	s->progress.grooming = true;
	pthread_mutex_unlock(&s->lock);
	while (!atomic_load(&s->stopping)) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file *files;
		struct err err = { 0 };
		size_t n;

		arena_init(&a);
		if (index_list(s->walk_index, 0, 0, after, PAGE, &a, &files, &n, &err) < 0) {
			log_error("groom", "%s", err.text);
			break;
		}
		if (!n)
			break;
		for (size_t i = 0; i < n && !atomic_load(&s->stopping); i++) {
			after = files[i].id;
			if (!is_gone(s, &files[i], arena_strdup(&a, files[i].path)))
				continue;
			drop(s, &files[i]);
			n_gone++;
		}
	}
	orphans(s);
	tidy = change_new(CHANGE_TIDY);
	tidy->all = s->opts.tidy_all;
	writer_push(s->writer, tidy);
	writer_fence(s->writer);
	if (n_gone)
		log_info("groom", "%zu files are gone", n_gone);
	pthread_mutex_lock(&s->lock);
	s->progress.grooming = false;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}
