/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roots that are not mounted: docs/decisions/0081-places-that-cannot-be-listed.md. Their rows are kept, as it takes hours to read
 * the packages of a distribution again. A root that was emptied looks alike, but is on the file system of its rows.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "s3/s3.h"
#include "scan/internal.h"

#define STEPS_MAX PATH_MAX /* links that are followed, and parts that are missing */

/* ---- where a root is ---- */

/* The target of this link, on the heap; NULL: it is none. */
static char *link_target(const char *path)
{
	struct str dir = path_dirname(str_of(path));
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	if (n <= 0)
		return NULL;
	target[n] = '\0';
	if (target[0] == '/' || !dir.size)
		return mem_strdup(target);
	return mem_printf(STR_FMT "/%s", STR_ARG(dir), target);
}

/* Nothing is at *@path: follow it if it is a link, else move its last part to the front of *@rest. */
static void place_step(char **path, char **rest)
{
	struct str dir = path_dirname(str_of(*path)), last = path_basename(str_of(*path));
	char *next = link_target(*path), *longer;

	if (!next) {
		next = dir.size ? mem_strndup(dir.p, dir.size) : mem_strdup(".");
		longer = last.size ? mem_printf("/" STR_FMT "%s", STR_ARG(last), *rest) : mem_strdup(*rest);
		free(*rest);
		*rest = longer;
	}
	free(*path);
	*path = next;
}

bool root_place(const char *root, struct root_place *ret)
{
	AUTO(mem_freep) char *path = mem_strdup(root);
	AUTO(mem_freep) char *rest = mem_strdup("");
	AUTO(mem_freep) char *real = NULL;
	unsigned n_steps = 0;
	struct stat st;
	int n;

	while (!(real = realpath(path, NULL))) {
		if ((errno != ENOENT && errno != ENOTDIR) || n_steps++ == STEPS_MAX)
			return false;
		place_step(&path, &rest);
	}
	if (stat(real, &st) != 0)
		return false;
	n = snprintf(ret->path, sizeof(ret->path), "%s%s", *rest && strcmp(real, "/") == 0 ? "" : real, rest);
	ret->dev = st.st_dev;
	return n > 0 && (size_t)n < sizeof(ret->path);
}

/* ---- its files ---- */

struct away_check {
	uint64_t dev; /* of the root */
	size_t n;
	struct root_witness found;
};

static bool shows_root(const char *path, uint64_t dev, uint64_t root_dev)
{
	struct stat st;

	return dev == root_dev || stat(path, &st) == 0;
}

/* 1: the file system of this file is there, or the file is. */
static int check_row(void *arg, const struct index_file *f, struct err *err)
{
	struct away_check *c = arg;

	if (shows_root(f->path.p, f->dev, c->dev)) {
		c->found = (struct root_witness){ mem_strdup(f->path.p), f->dev };
		return 1;
	}
	c->n++;
	return 0;
}

static bool witness_is_there(struct scan *s, size_t i, const struct root_place *place)
{
	AUTO(mem_freep) char *path = NULL;
	uint64_t dev;

	pthread_mutex_lock(&s->lock);
	if (s->witnesses[i].path)
		path = mem_strdup(s->witnesses[i].path);
	dev = s->witnesses[i].dev;
	pthread_mutex_unlock(&s->lock);
	/* The root may be a link, which leads elsewhere now. */
	return path && path_is_below(path, place->path) && shows_root(path, dev, place->dev);
}

static void witness_set(struct scan *s, size_t i, struct root_witness w)
{
	struct root_witness old;

	pthread_mutex_lock(&s->lock);
	old = s->witnesses[i];
	s->witnesses[i] = w;
	pthread_mutex_unlock(&s->lock);
	free(old.path);
}

/* How many files the index has below root @i that is not there. 0: it is there. */
static int count_away(struct scan *s, struct index *ix, size_t i, const struct root_place *place, size_t *ret)
{
	struct away_check c = { .dev = place->dev };
	struct err err = { 0 };
	int r;

	*ret = 0;
	if (strcmp(place->path, "/") == 0 || witness_is_there(s, i, place))
		return 0;
	r = index_each_below(ix, str_of(place->path), check_row, &c, &err);
	if (r < 0) {
		log_error("scan", "%s: %s", place->path, err.text);
		return -1;
	}
	if (r)
		witness_set(s, i, c.found);
	else
		*ret = c.n;
	return 0;
}

/* ---- its walk ---- */

static struct root_walked root_state(const char *root)
{
	struct stat st;

	return stat(root, &st) == 0 ? (struct root_walked){ st.st_dev, st.st_ino }
				    : (struct root_walked){ 0 };
}

void root_note_walk(struct scan *s, const char *root)
{
	struct root_walked now = root_state(root);

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->opts.n_roots; i++)
		if (strcmp(s->opts.roots[i].p, root) == 0)
			s->walked[i] = now;
	pthread_mutex_unlock(&s->lock);
}

/* Was root @i walked as it is now? Else it was mounted since. */
static bool root_was_walked(struct scan *s, size_t i)
{
	struct root_walked now = root_state(s->opts.roots[i].p), then;

	pthread_mutex_lock(&s->lock);
	then = s->walked[i];
	pthread_mutex_unlock(&s->lock);
	return now.dev == then.dev && now.inode == then.inode;
}

/* ---- judging ---- */

/* Packages whose deep pass found no file meanwhile: their next try may be a day away. */
static int read_again(void *arg, const struct index_file *f, struct err *err)
{
	struct scan *s = arg;
	struct change *c;

	if (f->kind != INDEX_PACKAGE || f->state != INDEX_FAILED || f->reason_kind != ERR_CHANGED)
		return 0;
	c = change_new(CHANGE_AGAIN);
	change_set_file(c, f);
	writer_push(s->writer, c);
	return 0;
}

static void root_read_again(struct scan *s, struct index *ix, const char *path)
{
	struct err err = { 0 };

	if (index_each_below(ix, str_of(path), read_again, s, &err) < 0)
		log_error("scan", "%s: %s", path, err.text);
	writer_fence(s->writer);
	jobs_kick(s->jobs);
}

/* Root @i is there, and was not mounted before. false: it stays away. */
static bool root_may_be_back(struct scan *s, struct index *ix, size_t i, const struct root_place *place)
{
	/* Its new files are not known: its next walk, which comes by itself, ends it. */
	if (!root_was_walked(s, i)) {
		unlisted_keep_away(s->unlisted, place->path);
		return false;
	}
	/* First: while it is away, no miss is final. */
	root_read_again(s, ix, place->path);
	return true;
}

/* Negative: the index cannot be read, so nothing is known of the root. */
static int judge_root(struct scan *s, struct index *ix, size_t i, const struct root_place *place)
{
	const char *root = s->opts.roots[i].p;
	size_t n;

	if (count_away(s, ix, i, place, &n) < 0)
		return -1;
	if (!n && unlisted_is_away(s->unlisted, place->path) && !root_may_be_back(s, ix, i, place))
		return 0;
	switch (unlisted_set_away(s->unlisted, place->path, n)) {
	case AWAY_NEW:
		log_error("scan",
			  "%s: it is missing or empty, and its %zu files in the index are of another file "
			  "system: mount it; the index keeps them for %u days, unless it is started without "
			  "this path",
			  root, n, AWAY_DAYS);
		break;
	case AWAY_TOO_LONG:
		log_warn("scan", "%s: it is still not there after %u days: the index forgets its %zu files",
			 root, AWAY_DAYS, n);
		scan_groom(s);
		break;
	case AWAY_OVER:
		log_info("scan", "%s: it is there again", root);
		scan_listed(s);
		break;
	case AWAY_SAME:
		break;
	}
	return 0;
}

void roots_judge(struct scan *s, struct index *ix)
{
	struct root_place place;
	bool all = true;

	unlisted_begin(s->unlisted, NULL);
	for (size_t i = 0; i < s->opts.n_roots && !atomic_load(&s->stopping); i++) {
		const struct str *root = &s->opts.roots[i];

		if (!s3_is_url(*root) && (!root_place(root->p, &place) || judge_root(s, ix, i, &place) < 0))
			all = false;
	}
	/* A root may be a link, which leads elsewhere now. */
	if (all && !atomic_load(&s->stopping) && unlisted_end(s->unlisted, NULL))
		scan_listed(s);
}

static bool row_is_kept(struct scan *s, struct index *ix, const char *path)
{
	struct root_place place;

	for (size_t i = 0; i < s->opts.n_roots && !unlisted_covers(s->unlisted, path); i++) {
		const struct str *root = &s->opts.roots[i];

		/* It may have been unmounted since the last walk, or at this moment. */
		if (!s3_is_url(*root) && root_place(root->p, &place) && path_is_below(path, place.path) &&
		    !unlisted_is_away(s->unlisted, place.path) && judge_root(s, ix, i, &place) < 0)
			return true;
	}
	return unlisted_covers(s->unlisted, path);
}

static int read_again_if_there(void *arg, const struct index_file *f, struct err *err)
{
	struct stat st;

	if (atomic_load(&((struct scan *)arg)->stopping))
		return 1;
	return s3_is_url(f->path) || stat(f->path.p, &st) != 0 ? 0 : read_again(arg, f, err);
}

void roots_read_again(struct scan *s, struct index *ix)
{
	struct err err = { 0 };

	if (index_each(ix, INDEX_PACKAGE, INDEX_FAILED, read_again_if_there, s, &err) < 0)
		log_error("scan", "%s", err.text);
	writer_fence(s->writer);
	jobs_kick(s->jobs);
}

bool roots_keep(struct scan *s, struct index *ix, const char *path)
{
	if (!row_is_kept(s, ix, path))
		return false;
	pthread_mutex_lock(&s->lock);
	s->groom_kept = true;
	pthread_mutex_unlock(&s->lock);
	return true;
}
