/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders and buckets below the roots that could not be listed: docs/decisions/0081-places-that-cannot-be-listed.md.
 * While there is one, the scan is not settled, since any build ID may be in it, and grooming keeps the rows of the files
 * below it. Each has a time of its next try, at growing distances. The first failure and its end are logged.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "s3/s3.h"
#include "scan/internal.h"

/* With more, the root in which they are is walked again. */
#define PLACES_MAX 64u
/* Between two tries. A try of a bucket is one request. */
#define AGAIN_FIRST_MS       15000
#define AGAIN_LAST_MS        300000
#define AGAIN_LAST_BUCKET_MS 15000

enum place_kind {
	PLACE_UNLISTED,
	PLACE_AWAY,  /* a root that is not mounted: no walk ends that */
	PLACE_INDEX, /* the index, which lacks files: no walk of a part of the roots ends that */
};

struct unlisted_place {
	char *path, *why; /* heap */
	char *root;       /* heap: of PLACE_UNLISTED, the root from which it was found, the deepest one */
	enum place_kind kind;
	bool is_over; /* for too long: its files are forgotten, and it does not count any more */
	bool stale;   /* a walk of it has begun, and has not failed so far */
	unsigned tries;
	int64_t since_ms, next_ms;
};

struct unlisted {
	pthread_mutex_t lock;
	atomic_uint n_now; /* those that count, for readers without the lock */
	/* under the lock */
	struct unlisted_place *v;
	size_t n, room;
};

struct unlisted *unlisted_new(void)
{
	struct unlisted *u = NEW(struct unlisted);

	pthread_mutex_init(&u->lock, NULL);
	return u;
}

static void place_done(struct unlisted_place *p)
{
	free(p->path);
	free(p->why);
	free(p->root);
}

void unlisted_free(struct unlisted *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->n; i++)
		place_done(&u->v[i]);
	free(u->v);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

bool path_is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	if (strncmp(path, folder, n) != 0)
		return false;
	return !path[n] || path[n] == '/' || (n && folder[n - 1] == '/');
}

/* Under the lock. */
static struct unlisted_place *place_of(struct unlisted *u, const char *path, enum place_kind kind)
{
	for (size_t i = 0; i < u->n; i++)
		if (u->v[i].kind == kind && strcmp(u->v[i].path, path) == 0)
			return &u->v[i];
	return NULL;
}

/* Under the lock. */
static struct unlisted_place *place_add(struct unlisted *u, const char *path, enum place_kind kind)
{
	struct unlisted_place *p = &VEC_PUSH(u->v, u->n, u->room);

	*p = (struct unlisted_place){ .path = mem_strdup(path), .kind = kind, .since_ms = clock_mono_ms() };
	return p;
}

/* Under the lock. */
static void places_count(struct unlisted *u)
{
	unsigned n = 0;

	for (size_t i = 0; i < u->n; i++)
		n += !u->v[i].is_over;
	atomic_store(&u->n_now, n);
}

/* Can a walk of @path, or NULL, a judgement of all roots, end it? */
static bool place_is_of(const struct unlisted_place *p, const char *path)
{
	if (!path || p->kind == PLACE_AWAY)
		return !path && p->kind == PLACE_AWAY;
	if (p->kind == PLACE_INDEX)
		return strcmp(p->path, path) == 0;
	/* A walk may pass over a root below its own: that is a mount, is too deep, or looks closed on purpose. */
	return path_is_below(p->path, path) && (!*path || path_is_below(path, p->root));
}

void unlisted_begin(struct unlisted *u, const char *path)
{
	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < u->n; i++)
		u->v[i].stale |= place_is_of(&u->v[i], path);
	pthread_mutex_unlock(&u->lock);
}

/* Under the lock. The place to note for @path: itself, or @root if there are too many. */
static const char *path_to_note(struct unlisted *u, const char *path, const char *root)
{
	return u->n < PLACES_MAX || place_of(u, path, PLACE_UNLISTED) ? path : root;
}

/* Under the lock. */
static void place_set_root(struct unlisted_place *p, const char *root)
{
	if (p->root && strlen(p->root) >= strlen(root))
		return;
	free(p->root);
	p->root = mem_strdup(root);
}

static int64_t pause_ms(const char *path, unsigned tries)
{
	return clock_backoff(AGAIN_FIRST_MS, tries,
			     s3_is_url(str_of(path)) ? AGAIN_LAST_BUCKET_MS : AGAIN_LAST_MS);
}

bool unlisted_add(struct unlisted *u, const char *path, const char *root, const char *why)
{
	struct unlisted_place *p;
	bool is_new;

	pthread_mutex_lock(&u->lock);
	path = path_to_note(u, path, root);
	p = place_of(u, path, PLACE_UNLISTED);
	is_new = !p;
	if (is_new) {
		p = place_add(u, path, PLACE_UNLISTED);
		p->stale = true;
		places_count(u);
	}
	place_set_root(p, root);
	/* Once in a walk. */
	if (p->stale) {
		p->stale = false;
		p->next_ms = clock_mono_ms() + pause_ms(p->path, p->tries++);
	}
	free(p->why);
	p->why = mem_strdup(why);
	pthread_mutex_unlock(&u->lock);
	return is_new;
}

bool unlisted_add_index(struct unlisted *u, const char *path, const char *why)
{
	struct unlisted_place *p;
	bool is_new;

	pthread_mutex_lock(&u->lock);
	p = place_of(u, path, PLACE_INDEX);
	is_new = !p;
	if (is_new) {
		p = place_add(u, path, PLACE_INDEX);
		p->next_ms = INT64_MAX;
		places_count(u);
	}
	p->stale = false;
	free(p->why);
	p->why = mem_strdup(why);
	pthread_mutex_unlock(&u->lock);
	return is_new;
}

bool unlisted_has_index(struct unlisted *u, const char *path)
{
	bool has;

	pthread_mutex_lock(&u->lock);
	has = place_of(u, path, PLACE_INDEX) != NULL;
	pthread_mutex_unlock(&u->lock);
	return has;
}

size_t unlisted_end(struct unlisted *u, const char *path)
{
	static const char *const ends[] = {
		[PLACE_UNLISTED] = "it is listed again, or gone",
		[PLACE_AWAY] = "it is no root any more",
		[PLACE_INDEX] = "all files could be stored in it",
	};
	struct unlisted_place *gone = NULL;
	size_t n_gone = 0, room = 0, n = 0;

	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < u->n; i++) {
		struct unlisted_place *p = &u->v[i];

		if (p->stale && place_is_of(p, path)) {
			VEC_PUSH(gone, n_gone, room) = *p;
			continue;
		}
		/* From now on: the walk may have taken longer than the pause. */
		if (p->kind == PLACE_UNLISTED && place_is_of(p, path))
			p->next_ms = clock_mono_ms() + pause_ms(p->path, p->tries - 1);
		u->v[n++] = *p;
	}
	u->n = n;
	places_count(u);
	pthread_mutex_unlock(&u->lock);
	for (size_t i = 0; i < n_gone; i++) {
		log_info("scan", "%s: %s", gone[i].path, ends[gone[i].kind]);
		place_done(&gone[i]);
	}
	free(gone);
	return n_gone;
}

bool unlisted_is_away(struct unlisted *u, const char *path)
{
	bool is_away;

	pthread_mutex_lock(&u->lock);
	is_away = place_of(u, path, PLACE_AWAY) != NULL;
	pthread_mutex_unlock(&u->lock);
	return is_away;
}

/* Under the lock. Of a root whose @n_files files are not there. */
static enum away_change note_away(struct unlisted *u, const char *path, size_t n_files)
{
	struct unlisted_place *p = place_of(u, path, PLACE_AWAY);
	bool is_new = !p;

	if (is_new)
		p = place_add(u, path, PLACE_AWAY);
	p->stale = false;
	free(p->why);
	p->why = mem_printf("it is not mounted: none of its %zu files in the index is there", n_files);
	p->next_ms = clock_mono_ms() + pause_ms(path, p->tries++);
	if (is_new)
		return AWAY_NEW;
	if (p->is_over || clock_mono_ms() - p->since_ms < AWAY_DAYS * INT64_C(86400000))
		return AWAY_SAME;
	p->is_over = true;
	return AWAY_TOO_LONG;
}

/* Under the lock. Of a root that is there. */
static enum away_change note_there(struct unlisted *u, const char *path)
{
	struct unlisted_place *p = place_of(u, path, PLACE_AWAY);
	bool was_over;

	if (!p)
		return AWAY_SAME;
	was_over = p->is_over;
	place_done(p);
	*p = u->v[--u->n];
	return was_over ? AWAY_SAME : AWAY_OVER;
}

enum away_change unlisted_set_away(struct unlisted *u, const char *path, size_t n_files)
{
	enum away_change r;

	pthread_mutex_lock(&u->lock);
	r = n_files ? note_away(u, path, n_files) : note_there(u, path);
	places_count(u);
	pthread_mutex_unlock(&u->lock);
	return r;
}

void unlisted_keep_away(struct unlisted *u, const char *path)
{
	struct unlisted_place *p;

	pthread_mutex_lock(&u->lock);
	p = place_of(u, path, PLACE_AWAY);
	if (p)
		p->stale = false;
	pthread_mutex_unlock(&u->lock);
}

unsigned unlisted_count(const struct unlisted *u)
{
	return atomic_load(&u->n_now);
}

void unlisted_why(struct unlisted *u, char *ret, size_t size)
{
	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < u->n; i++) {
		if (u->v[i].is_over)
			continue;
		snprintf(ret, size, "%s: %s", u->v[i].path, u->v[i].why);
		break;
	}
	pthread_mutex_unlock(&u->lock);
}

bool unlisted_covers(struct unlisted *u, const char *path)
{
	bool covers = false;

	if (!unlisted_count(u))
		return false;
	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < u->n && !covers; i++)
		covers = !u->v[i].is_over && path_is_below(path, u->v[i].path);
	pthread_mutex_unlock(&u->lock);
	return covers;
}

int64_t unlisted_next_ms(struct unlisted *u)
{
	int64_t next_ms = INT64_MAX;

	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < u->n; i++)
		next_ms = MIN(next_ms, u->v[i].next_ms);
	pthread_mutex_unlock(&u->lock);
	return next_ms;
}

char *unlisted_take_due(struct unlisted *u, int64_t by_ms)
{
	char *path = NULL;

	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < u->n && !path; i++) {
		struct unlisted_place *p = &u->v[i];

		if (p->next_ms > by_ms)
			continue;
		/* Also if the walk of it ends early. */
		p->next_ms = clock_mono_ms() + AGAIN_LAST_MS;
		path = mem_strdup(p->path);
	}
	pthread_mutex_unlock(&u->lock);
	return path;
}

const char *unlisted_advice(int number)
{
	switch (number) {
	case EMFILE:
		return "raise the limit of open files (ulimit -n, LimitNOFILE=)";
	case ENFILE:
		return "raise fs.file-max";
	case ENOMEM:
		return "the machine or the service's cgroup is out of memory";
	case EACCES:
	case EPERM:
		return "let the service's user read it, or leave it out with --exclude";
	default:
		return "check the disk or the mount";
	}
}
