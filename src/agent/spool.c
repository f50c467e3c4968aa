/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "1763851200000-0000000a.pb.gz": the time in milliseconds, and a number that makes names different. Both have a fixed width,
 * so names sort by time. The list of files is kept in memory: with a window of ten seconds it has some thousands.
 */
#include "agent/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/age_clock.h"
#include "base/vec.h"

#define SUFFIX    ".pb.gz"
#define NAME_SIZE 48
#define MAX_FILES 100000u
/* The pause between rounds of those that were put off, twice as long each time. */
#define AGAIN_MS      10000
#define AGAIN_LAST_MS 300000

struct spool_file {
	int64_t time_ms;
	uint32_t number;
	bool is_put_off; /* until all are */
	uint64_t size;
};

struct spool {
	char *dir;
	uint64_t max_bytes, bytes, n_dropped;
	int64_t max_ms;
	uint32_t next;
	struct spool_file *list; /* rising */
	size_t n, room;
	struct age_clock clock;
	unsigned n_again;
	int64_t again_ms; /* monotonic: those that were put off are not tried before */
};

static void spool_name(const struct spool_file *f, char out[NAME_SIZE])
{
	snprintf(out, NAME_SIZE, "%013lld-%08x" SUFFIX, (long long)(f->time_ms % INT64_C(10000000000000)),
		 f->number);
}

static char *spool_path(const struct spool *s, const char *name)
{
	return mem_printf("%s/%s", s->dir, name);
}

static bool spool_parse(const char *name, struct spool_file *ret)
{
	char same[NAME_SIZE];
	long long ms;
	unsigned number;

	if (sscanf(name, "%13lld-%8x", &ms, &number) != 2 || ms < 0)
		return false;
	*ret = (struct spool_file){ .time_ms = ms, .number = number };
	spool_name(ret, same);
	return strcmp(name, same) == 0;
}

static int spool_file_cmp(const void *a, const void *b)
{
	const struct spool_file *x = a, *y = b;

	if (x->time_ms != y->time_ms)
		return x->time_ms < y->time_ms ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static int read_spool_dir(struct spool *s, struct err *err)
{
	DIR *d = opendir(s->dir);
	struct dirent *e;

	if (!d)
		return err_os(err, errno, "%s", s->dir);
	while ((e = readdir(d)) && s->n < MAX_FILES) {
		AUTO(mem_freep) char *path = spool_path(s, e->d_name);
		struct spool_file f;
		struct stat st;

		/* Left by a process that was killed while it wrote. */
		if (strncmp(e->d_name, FILE_TEMP_PREFIX, strlen(FILE_TEMP_PREFIX)) == 0)
			unlink(path);
		if (!spool_parse(e->d_name, &f) || lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		f.size = (uint64_t)st.st_size;
		s->bytes += f.size;
		s->next = MAX(s->next, f.number + 1);
		VEC_PUSH(s->list, s->n, s->room) = f;
	}
	closedir(d);
	if (s->n)
		qsort(s->list, s->n, sizeof(*s->list), spool_file_cmp);
	return 0;
}

static void remove_at(struct spool *s, size_t i)
{
	AUTO(mem_freep) char *path = NULL;
	char name[NAME_SIZE];

	spool_name(&s->list[i], name);
	path = spool_path(s, name);
	unlink(path);
	s->bytes -= s->list[i].size;
	memmove(&s->list[i], &s->list[i + 1], (s->n - i - 1) * sizeof(*s->list));
	s->n--;
}

/* Make room for @more bytes. A wall clock that is ahead for a moment, or at the start, makes nothing too old. */
static void trim_spool(struct spool *s, uint64_t more)
{
	int64_t now_ms = age_clock_read(&s->clock, clock_wall_ms(), clock_mono_ms()).least_ms;

	while (s->n && (s->bytes + more > s->max_bytes || s->n >= MAX_FILES ||
			now_ms - s->list[0].time_ms > s->max_ms)) {
		remove_at(s, 0);
		s->n_dropped++;
	}
}

int spool_open(const char *dir, uint64_t max_bytes, int64_t max_s, struct spool **ret, struct err *err)
{
	struct spool *s = NEW(struct spool);
	int r;

	s->dir = mem_strdup(dir);
	s->max_bytes = max_bytes ? max_bytes : SPOOL_USUAL_BYTES;
	s->max_ms = (max_s ? max_s : SPOOL_USUAL_S) * 1000;
	r = dir_make(dir, 0700, err) < 0 ? -1 : read_spool_dir(s, err);
	/* The time of the oldest was reached. Later ones may be from a clock that was ahead, as it may be again. */
	age_clock_open(&s->clock, clock_wall_ms(), clock_mono_ms(), s->n ? s->list[0].time_ms : INT64_MIN, 0);
	if (r < 0) {
		spool_close(s);
		return -1;
	}
	trim_spool(s, 0);
	*ret = s;
	return 0;
}

void spool_close(struct spool *s)
{
	if (!s)
		return;
	age_clock_close(&s->clock);
	free(s->list);
	free(s->dir);
	free(s);
}

int spool_put(struct spool *s, int64_t time_ms, struct bytes body, struct err *err)
{
	struct spool_file f = { .time_ms = MAX(time_ms, (int64_t)0), .number = s->next++, .size = body.size };
	AUTO(mem_freep) char *path = NULL;
	char name[NAME_SIZE];

	if (body.size > s->max_bytes || body.size > SPOOL_MAX_FILE)
		return err_set(err, ERR_LIMIT, "a profile of %zu bytes is larger than the spool", body.size);
	trim_spool(s, body.size);
	spool_name(&f, name);
	path = spool_path(s, name);
	if (file_write_durable(path, body.p, body.size, 0600, err) < 0)
		return -1;
	s->bytes += f.size;
	VEC_PUSH(s->list, s->n, s->room) = f;
	/* Mostly it is the newest already. */
	if (s->n > 1 && spool_file_cmp(&s->list[s->n - 2], &s->list[s->n - 1]) > 0)
		qsort(s->list, s->n, sizeof(*s->list), spool_file_cmp);
	return 0;
}

/* Of those that are not put off. */
static int read_newest(struct spool *s, struct buf *ret, char **ret_name, bool *ret_unreadable,
		       struct err *err)
{
	for (size_t i = s->n; i-- > 0;) {
		AUTO(mem_freep) char *path = NULL;
		char name[NAME_SIZE];
		int r;

		if (s->list[i].is_put_off)
			continue;
		spool_name(&s->list[i], name);
		path = spool_path(s, name);
		ret->size = 0;
		r = file_read(path, SPOOL_MAX_FILE, ret, err);
		if (r == 0 && ret->size) {
			*ret_name = mem_strdup(name);
			return 0;
		}
		/* Without a descriptor or memory the older ones cannot be read either. */
		if (r < 0 && err_is_scarce(err->os))
			return -1;
		/* A file of another user, or on a damaged block, must not keep the older ones from being sent. */
		if (r < 0 && err->os && err->os != EIO) {
			*ret_unreadable = true;
			continue;
		}
		remove_at(s, i);
		s->n_dropped++;
	}
	return SPOOL_EMPTY;
}

/* Those that were put off have their turn. false: there are none, or it is too early. */
static bool begin_again(struct spool *s)
{
	int64_t now_ms = clock_mono_ms();
	bool any = false;

	if (now_ms < s->again_ms)
		return false;
	for (size_t i = 0; i < s->n; i++) {
		any |= s->list[i].is_put_off;
		s->list[i].is_put_off = false;
	}
	if (!any)
		return false;
	s->again_ms = now_ms + clock_backoff(AGAIN_MS, s->n_again++, AGAIN_LAST_MS);
	return true;
}

int spool_next(struct spool *s, struct buf *ret, char **ret_name, struct err *err)
{
	bool is_unreadable = false;
	int r;

	trim_spool(s, 0);
	if (!s->n)
		s->n_again = 0;
	r = read_newest(s, ret, ret_name, &is_unreadable, err);
	if (r == SPOOL_EMPTY && begin_again(s))
		r = read_newest(s, ret, ret_name, &is_unreadable, err);
	return r == SPOOL_EMPTY && is_unreadable ? -1 : r;
}

/* NULL: it is not there. */
static struct spool_file *file_named(const struct spool *s, const char *name)
{
	struct spool_file f;

	if (!spool_parse(name, &f))
		return NULL;
	for (size_t i = s->n; i-- > 0;)
		if (spool_file_cmp(&s->list[i], &f) == 0)
			return &s->list[i];
	return NULL;
}

void spool_remove(struct spool *s, const char *name)
{
	const struct spool_file *f = file_named(s, name);

	if (f)
		remove_at(s, (size_t)(f - s->list));
}

void spool_put_off(struct spool *s, const char *name)
{
	struct spool_file *f = file_named(s, name);

	if (f)
		f->is_put_off = true;
}

void spool_stats(const struct spool *s, struct spool_stats *ret)
{
	*ret = (struct spool_stats){ .n = s->n,
				     .bytes = s->bytes,
				     .n_dropped = s->n_dropped,
				     .oldest_ms = s->n ? s->list[0].time_ms : 0 };
}
