/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object as a source. Which range a read fetches:
 *
 *   the caller has said what it will read (source_expect())   that, up to WINDOW, and the next WINDOW ahead
 *   a run of reads in order                                     as much as it has read so far, up to WINDOW, and ahead
 *   a walk backwards                                            as much before it as it has walked so far, up to WINDOW
 *   else                                                        LEAST
 */
#include "s3/internal.h"

#include <stdlib.h>
#include "pkg/pkg.h"

#define LEAST      KIB(256)
#define WINDOW     MIB(8)
#define LONG_RUN   MIB(1) /* from here on, ranges are fetched ahead, and not kept */
#define N_RUNS     8u     /* threads that decode one package read at several places */
#define N_EXPECTED 8u

struct s3_source {
	struct source base;
	struct span_object *object;
	pthread_mutex_t lock;
	/* under the lock */
	struct source_run {
		uint64_t end, size;
	} runs[N_RUNS];
	struct byte_range expected[N_EXPECTED];
	unsigned next_run, next_expected;
	/* The last reads that went backwards by small steps: where they began, and the first byte of them. */
	uint64_t walk_from, walk_at;
	bool passing;
};

static struct s3_source *s3_source_of(struct source *s)
{
	return CONTAINER_OF(s, struct s3_source, base);
}

void s3_stat(const struct s3_info *info, struct stat *ret)
{
	*ret = (struct stat){ 0 };
	ret->st_mode = S_IFREG | 0444;
	ret->st_size = (off_t)info->size;
	ret->st_mtim.tv_sec = info->mtime;
	ret->st_dev = S3_DEV;
	ret->st_ino = span_inode(info);
}

/* Under the lock: the end of the expected range that contains @off; 0: none. */
static uint64_t expected_end(const struct s3_source *s, uint64_t off)
{
	uint64_t end = 0;

	for (unsigned i = 0; i < N_EXPECTED; i++) {
		const struct byte_range *e = &s->expected[i];

		if (off >= e->off && off - e->off < e->size)
			end = MAX(end, e->off + e->size);
	}
	return end;
}

/* Under the lock: the run that a read at @off continues, else a new one. */
static struct source_run *run_at(struct s3_source *s, uint64_t off)
{
	struct source_run *run;

	for (unsigned i = 0; i < N_RUNS; i++)
		if (s->runs[i].size && s->runs[i].end == off)
			return &s->runs[i];
	run = &s->runs[s->next_run++ % N_RUNS];
	*run = (struct source_run){ .end = off };
	return run;
}

/* Under the lock: how far the reads that end with the one at @off have gone backwards. Reads after the last step belong to it. */
static uint64_t walked_back(struct s3_source *s, uint64_t off)
{
	if (off < s->walk_at && s->walk_at - off <= LEAST)
		s->walk_at = off;
	else if (off - s->walk_at >= LEAST)
		s->walk_from = s->walk_at = off;
	return s->walk_from - MIN(off, s->walk_from);
}

/* Under the lock. */
static void plan_read(struct s3_source *s, struct span_read *r, enum source_hint hint,
		      const struct source_run *run)
{
	uint64_t end = expected_end(s, r->off), size, before = 0;
	uint64_t walked = walked_back(s, r->off);

	if (end) {
		size = MIN(end - r->off, (uint64_t)WINDOW);
		r->ahead_to = end;
		r->once = s->passing;
	} else {
		size = MAX(MAX(MIN(run->size, (uint64_t)WINDOW), (uint64_t)LEAST), (uint64_t)r->n);
		size = MIN(size, (uint64_t)WINDOW);
		if (run->size >= LONG_RUN) {
			/* As far ahead as was read so far: little is fetched in vain. */
			r->ahead_to = r->off + MIN(run->size, (uint64_t)2 * WINDOW);
			r->once = hint == SOURCE_SEQUENTIAL || run->size >= WINDOW;
		}
		/* Otherwise each step would be a request: the bytes after it are there. */
		if (!run->size)
			before = MIN(MIN(walked, r->off), WINDOW - size);
	}
	r->passing = s->passing;
	r->fetch = range_of(r->off - before, before + MIN(size, s->base.size - r->off));
}

static int s3_source_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
			  size_t *ret_got, struct err *err)
{
	struct s3_source *s = s3_source_of(base);
	struct span_read r = { .off = off, .buf = buf, .n = n };
	struct source_run *run;

	pthread_mutex_lock(&s->lock);
	run = run_at(s, off);
	plan_read(s, &r, hint, run);
	pthread_mutex_unlock(&s->lock);
	if (span_read(s->object, &r, ret_got, err) < 0)
		return -1;
	pthread_mutex_lock(&s->lock);
	run = run_at(s, off);
	run->end = off + *ret_got;
	run->size += *ret_got;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static void s3_source_expect(struct source *base, struct byte_range range)
{
	struct s3_source *s = s3_source_of(base);

	pthread_mutex_lock(&s->lock);
	s->expected[s->next_expected++ % N_EXPECTED] = range;
	pthread_mutex_unlock(&s->lock);
}

static void s3_source_distrust(struct source *base)
{
	span_object_distrust(s3_source_of(base)->object);
}

static void s3_source_mark_pass(struct source *base)
{
	struct s3_source *s = s3_source_of(base);

	pthread_mutex_lock(&s->lock);
	s->passing = true;
	pthread_mutex_unlock(&s->lock);
}

static void s3_source_close(struct source *base)
{
	struct s3_source *s = s3_source_of(base);

	span_object_put(s->object);
	pthread_mutex_destroy(&s->lock);
	source_fini(base);
	free(s);
}

static const struct source_ops s3_source_ops = {
	.read = s3_source_read,
	.close = s3_source_close,
	.expect = s3_source_expect,
	.distrust = s3_source_distrust,
	.pass = s3_source_mark_pass,
};

int s3_open(struct s3 *s, const char *url, const struct stat *known, struct source **ret, struct stat *ret_st,
	    struct err *err)
{
	struct s3_source *src;
	struct s3_name name;
	struct s3_info info;
	struct stat st;
	int r;

	if (s3_name_parse(str_of(url), &name, err) < 0)
		return err_in(err, "%s", url);
	if (!name.key.size)
		return err_set(err, ERR_INVALID, "%s: a bucket, not an object: add its key", url);
	if (known) {
		st = *known;
	} else {
		r = s3_head(s, name, &info, err);
		if (r)
			return r;
		s3_stat(&info, &st);
	}
	src = NEW(struct s3_source);
	source_init(&src->base, &s3_source_ops, (uint64_t)st.st_size, st.st_mtim.tv_sec, url);
	pthread_mutex_init(&src->lock, NULL);
	src->object = span_object_get(s->spans, url, &st);
	*ret = &src->base;
	if (ret_st)
		*ret_st = st;
	return 0;
}

/* "KEY!MEMBER": each mark of exclamation may be where the key ends. */
static int open_member_of(struct s3 *s, const char *path, struct source **ret, struct err *err)
{
	for (const char *p = path; (p = strchr(p, '!')); p++) {
		AUTO(mem_freep) char *url = mem_strndup(path, (size_t)(p - path));
		AUTO(source_closep) struct source *archive = NULL;
		int r;

		if (!p[1])
			continue;
		r = s3_open(s, url, NULL, &archive, NULL, err);
		if (r == S3_MISSING)
			continue;
		return r ? r : pkg_open_member(archive, str_of(p + 1), ret, err);
	}
	return FILE_MISSING;
}

int s3_open_path(const char *path, struct source **ret, struct err *err)
{
	struct s3 *s;
	int r;

	if (!s3_is_url(str_of(path)))
		return pkg_open_path(path, ret, err);
	if (s3_shared(&s, err) < 0)
		return -1;
	r = s3_open(s, path, NULL, ret, NULL, err);
	return r == S3_MISSING ? open_member_of(s, path, ret, err) : r;
}
