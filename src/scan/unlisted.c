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

/* With more, the walk in which they are begins again at its beginning. */
#define PLACES_MAX 64u
/* Between two tries. A try of a bucket is one request. */
#define AGAIN_FIRST_MS       15000
#define AGAIN_LAST_MS        300000
#define AGAIN_LAST_BUCKET_MS 15000

struct unlisted_place {
	char *path, *why; /* heap */
	bool stale;       /* a walk of it has begun, and has not failed so far */
	unsigned tries;
	int64_t next_ms;
};

struct unlisted {
	pthread_mutex_t lock;
	atomic_uint n_now; /* `n`, for readers without the lock */
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
static struct unlisted_place *place_of(struct unlisted *u, const char *path)
{
	for (size_t i = 0; i < u->n; i++)
		if (strcmp(u->v[i].path, path) == 0)
			return &u->v[i];
	return NULL;
}

void unlisted_begin(struct unlisted *u, const char *path)
{
	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < u->n; i++)
		u->v[i].stale |= path_is_below(u->v[i].path, path);
	pthread_mutex_unlock(&u->lock);
}

/* Under the lock. The place to note for @path: itself, or @top if there are too many. */
static const char *path_to_note(struct unlisted *u, const char *path, const char *top)
{
	return u->n < PLACES_MAX || place_of(u, path) ? path : top;
}

static int64_t pause_ms(const char *path, unsigned tries)
{
	return clock_backoff(AGAIN_FIRST_MS, tries,
			     s3_is_url(str_of(path)) ? AGAIN_LAST_BUCKET_MS : AGAIN_LAST_MS);
}

bool unlisted_add(struct unlisted *u, const char *path, const char *top, const char *why)
{
	struct unlisted_place *p;
	bool is_new;

	pthread_mutex_lock(&u->lock);
	path = path_to_note(u, path, top);
	p = place_of(u, path);
	is_new = !p;
	if (is_new) {
		p = &VEC_PUSH(u->v, u->n, u->room);
		*p = (struct unlisted_place){ .path = mem_strdup(path), .stale = true };
		atomic_store(&u->n_now, (unsigned)u->n);
	}
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

size_t unlisted_end(struct unlisted *u, const char *path)
{
	struct unlisted_place *gone = NULL;
	size_t n_gone = 0, room = 0, n = 0;

	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < u->n; i++) {
		struct unlisted_place *p = &u->v[i];

		if (p->stale && path_is_below(p->path, path))
			VEC_PUSH(gone, n_gone, room) = *p;
		else
			u->v[n++] = *p;
	}
	u->n = n;
	atomic_store(&u->n_now, (unsigned)n);
	pthread_mutex_unlock(&u->lock);
	for (size_t i = 0; i < n_gone; i++) {
		log_info("scan", "%s: it is listed again, or gone", gone[i].path);
		place_done(&gone[i]);
	}
	free(gone);
	return n_gone;
}

unsigned unlisted_count(const struct unlisted *u)
{
	return atomic_load(&u->n_now);
}

void unlisted_why(struct unlisted *u, char *ret, size_t size)
{
	pthread_mutex_lock(&u->lock);
	if (u->n)
		snprintf(ret, size, "%s: %s", u->v[0].path, u->v[0].why);
	pthread_mutex_unlock(&u->lock);
}

bool unlisted_covers(struct unlisted *u, const char *path)
{
	bool covers = false;

	if (!unlisted_count(u))
		return false;
	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < u->n && !covers; i++)
		covers = path_is_below(path, u->v[i].path);
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

char *unlisted_take_due(struct unlisted *u)
{
	int64_t now_ms = clock_mono_ms();
	char *path = NULL;

	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < u->n && !path; i++) {
		struct unlisted_place *p = &u->v[i];

		if (p->next_ms > now_ms)
			continue;
		/* Also if the walk of it ends early. */
		p->next_ms = now_ms + AGAIN_LAST_MS;
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
