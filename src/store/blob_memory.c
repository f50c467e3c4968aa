/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs in memory, for tests: a sorted array.
 */
#include "store/blob.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct blob {
	char *name;
	struct buf content;
	struct blob_stamp stamp;
};

struct memory {
	struct blobs blobs;
	pthread_mutex_t lock;
	/* under the lock */
	struct blob *v;
	size_t n, room;
	uint64_t last_id;
};

static struct memory *blobs_memory_of(struct blobs *b)
{
	return CONTAINER_OF(b, struct memory, blobs);
}

/* The index of the blob, or where to insert it. */
static size_t blob_index(const struct memory *m, const char *name)
{
	return SEARCH(0, m->n, i, strcmp(m->v[i].name, name) < 0);
}

static struct blob *blob_find(struct memory *m, const char *name)
{
	size_t i = blob_index(m, name);

	return i < m->n && strcmp(m->v[i].name, name) == 0 ? &m->v[i] : NULL;
}

static void stamp_now(struct memory *m, struct blob *b)
{
	b->stamp = (struct blob_stamp){ ++m->last_id, b->content.size, clock_wall_ms() * 1000000 };
}

/* Takes the buffer's content. */
static void blob_set(struct memory *m, const char *name, struct buf *content)
{
	struct blob *b = blob_find(m, name);

	if (!b) {
		size_t i = blob_index(m, name);

		VEC_GROW(m->v, m->n, m->room);
		memmove(m->v + i + 1, m->v + i, (m->n - i) * sizeof(*m->v));
		m->n++;
		b = &m->v[i];
		*b = (struct blob){ .name = mem_strdup(name) };
	}
	buf_done(&b->content);
	b->content = *content;
	*content = (struct buf){ 0 };
	stamp_now(m, b);
}

static int memory_staging(struct blobs *b, struct str name, struct staging *ret, struct err *err)
{
	int fd = memfd_create("staging", MFD_CLOEXEC);

	if (fd < 0)
		return err_os(err, errno, "memfd");
	*ret = (struct staging){ .fd = fd };
	return 0;
}

static void memory_staging_done(struct blobs *b, struct staging *s, bool keep)
{
	fd_close(&s->fd);
}

/* Memory does not outlive the process. */
static int memory_staging_note(struct blobs *b, struct staging *s, const struct staging_note *note,
			       struct err *err)
{
	return 0;
}

static int memory_notes(struct blobs *b, int (*fn)(void *arg, const struct staging_note *note), void *arg,
			struct err *err)
{
	return 0;
}

static int memory_put_staged(struct blobs *base, const char *name, struct staging *s, bool keep,
			     struct err *err)
{
	struct memory *m = blobs_memory_of(base);
	AUTO(buf_done) struct buf content = { 0 };
	struct blob *b;

	buf_reserve(&content, (size_t)s->size);
	if (fd_pread(s->fd, content.p, (size_t)s->size, 0, &content.size, err) < 0)
		return -1;
	pthread_mutex_lock(&m->lock);
	b = blob_find(m, name);
	if (keep && b && b->stamp.size == content.size)
		stamp_now(m, b);
	else
		blob_set(m, name, &content);
	pthread_mutex_unlock(&m->lock);
	return 0;
}

static bool is_expected(const struct blob *b, const struct blob_stamp *expect)
{
	return b ? expect->id == b->stamp.id : !expect->id;
}

static int blobs_memory_put(struct blobs *base, const char *name, struct bytes content, const char *needs,
			    const struct blob_stamp *expect, struct err *err)
{
	struct memory *m = blobs_memory_of(base);
	AUTO(buf_done) struct buf copy = { 0 };
	int r = BLOB_CHANGED;

	buf_add(&copy, content.p, content.size);
	pthread_mutex_lock(&m->lock);
	if (is_expected(blob_find(m, name), expect)) {
		blob_set(m, name, &copy);
		r = 0;
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

static int blobs_memory_get(struct blobs *base, const char *name, size_t max, struct buf *ret,
			    struct blob_stamp *ret_stamp, struct err *err)
{
	struct memory *m = blobs_memory_of(base);
	struct blob *b;
	int r = 0;

	pthread_mutex_lock(&m->lock);
	b = blob_find(m, name);
	if (!b) {
		r = BLOB_MISSING;
	} else if (b->content.size > max) {
		r = err_set(err, ERR_LIMIT, "%s: longer than %zu bytes", name, max);
	} else {
		ret->size = 0;
		buf_add(ret, b->content.p, b->content.size);
		*ret_stamp = b->stamp;
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

static int blobs_memory_open(struct blobs *base, const char *name, struct source **ret, struct err *err)
{
	struct buf b = { 0 };
	struct blob_stamp stamp;
	int r = blobs_memory_get(base, name, SIZE_MAX, &b, &stamp, err);

	if (r)
		return r;
	*ret = source_of_heap(b.p, b.size, name);
	return 0;
}

static int memory_stat(struct blobs *base, const char *name, struct blob_stamp *ret, struct err *err)
{
	struct memory *m = blobs_memory_of(base);
	struct blob *b;

	pthread_mutex_lock(&m->lock);
	b = blob_find(m, name);
	if (b)
		*ret = b->stamp;
	pthread_mutex_unlock(&m->lock);
	return b ? 0 : BLOB_MISSING;
}

static int memory_settle(struct blobs *base, const char *name, struct err *err)
{
	struct blob_stamp stamp;

	return memory_stat(base, name, &stamp, err);
}

static int memory_settle_all(struct blobs *b, struct err *err)
{
	return 0;
}

static int memory_touch(struct blobs *base, const char *name, struct err *err)
{
	struct memory *m = blobs_memory_of(base);
	struct blob *b;

	pthread_mutex_lock(&m->lock);
	b = blob_find(m, name);
	if (b)
		stamp_now(m, b);
	pthread_mutex_unlock(&m->lock);
	return b ? 0 : BLOB_MISSING;
}

static void blob_done(struct blob *b)
{
	free(b->name);
	buf_done(&b->content);
}

/* Under the lock. */
static void blob_drop(struct memory *m, struct blob *b)
{
	blob_done(b);
	m->n--;
	memmove(b, b + 1, (size_t)(m->v + m->n - b) * sizeof(*b));
}

static int blobs_memory_remove(struct blobs *base, const char *name, const struct blob_stamp *seen,
			       struct err *err)
{
	struct memory *m = blobs_memory_of(base);
	struct blob *b;
	int r = 0;

	pthread_mutex_lock(&m->lock);
	b = blob_find(m, name);
	if (!b)
		r = BLOB_MISSING;
	else if (seen && seen->id != b->stamp.id)
		r = BLOB_CHANGED;
	else
		blob_drop(m, b);
	pthread_mutex_unlock(&m->lock);
	return r;
}

static int memory_collect(struct blobs *base, struct blob_garbage *v, size_t n, int64_t not_after_ns,
			  struct err *err)
{
	struct memory *m = blobs_memory_of(base);

	pthread_mutex_lock(&m->lock);
	for (size_t i = 0; i < n; i++) {
		struct blob *b = blob_find(m, v[i].name);

		v[i].outcome = !b ? BLOB_MISSING : b->stamp.time_ns > not_after_ns ? BLOB_YOUNGER : 0;
		if (!v[i].outcome)
			blob_drop(m, b);
	}
	pthread_mutex_unlock(&m->lock);
	return 0;
}

static int blobs_memory_list(struct blobs *base, struct str prefix, struct str after, blob_list_fn *fn,
			     void *arg, struct err *err)
{
	struct memory *m = blobs_memory_of(base);
	AUTO(mem_freep) char *last = mem_strndup(after.size ? after.p : "", after.size);
	int r = 0;

	/* One at a time: the callback may call us. */
	while (!r) {
		AUTO(mem_freep) char *name = NULL;
		struct blob_stamp stamp;
		size_t i;

		pthread_mutex_lock(&m->lock);
		i = blob_index(m, last);
		while (i < m->n &&
		       (strcmp(m->v[i].name, last) == 0 || !str_starts(str_of(m->v[i].name), prefix)))
			i++;
		if (i < m->n) {
			name = mem_strdup(m->v[i].name);
			stamp = m->v[i].stamp;
		}
		pthread_mutex_unlock(&m->lock);
		if (!name)
			break;
		r = fn(arg, name, &stamp, err);
		mem_freep(&last);
		last = TAKE(name);
	}
	return r;
}

static int memory_staged(struct blobs *b, uint64_t *ret_bytes, struct err *err)
{
	*ret_bytes = 0;
	return 0;
}

static int memory_sweep(struct blobs *b, uint64_t *ret_n, struct err *err)
{
	*ret_n = 0;
	return 0;
}

static void blobs_memory_close(struct blobs *base)
{
	struct memory *m = blobs_memory_of(base);

	for (size_t i = 0; i < m->n; i++)
		blob_done(&m->v[i]);
	free(m->v);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static const struct blobs_ops memory_ops = {
	.staging = memory_staging,
	.staging_done = memory_staging_done,
	.staging_note = memory_staging_note,
	.notes = memory_notes,
	.put_staged = memory_put_staged,
	.put = blobs_memory_put,
	.settle = memory_settle,
	.settle_all = memory_settle_all,
	.open = blobs_memory_open,
	.get = blobs_memory_get,
	.stat = memory_stat,
	.touch = memory_touch,
	.remove = blobs_memory_remove,
	.collect = memory_collect,
	.list = blobs_memory_list,
	.staged = memory_staged,
	.sweep = memory_sweep,
	.close = blobs_memory_close,
};

struct blobs *blobs_open_memory(void)
{
	struct memory *m = NEW(struct memory);

	m->blobs.ops = &memory_ops;
	pthread_mutex_init(&m->lock, NULL);
	return &m->blobs;
}
