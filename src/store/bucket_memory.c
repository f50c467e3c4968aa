/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bucket in memory, for tests: it has what a bucket promises, and no more.
 */
#include "store/bucket.h"

#include <stdio.h>
#include <stdlib.h>

struct object {
	char *name;
	struct buf content;
	int64_t time_ns;
};

/* A put, or a removal, that failed for its caller. */
struct late {
	char *name;
	struct buf content;
	bool removal;
};

struct bucket_memory {
	pthread_mutex_t lock;
	/* under the lock */
	struct object *v; /* by name */
	size_t n, room;
	struct late *late;
	size_t n_late, room_late;
};

struct memory_bucket {
	struct bucket base;
	struct bucket_memory *m;
	bucket_before_fn *before;
	void *arg;
	char last[BUCKET_NAME_SIZE]; /* under the lock: that it put, or pretended to */
};

static struct memory_bucket *memory_of(struct bucket *b)
{
	return CONTAINER_OF(b, struct memory_bucket, base);
}

static size_t object_index(const struct bucket_memory *m, const char *name)
{
	return SEARCH(0, m->n, i, strcmp(m->v[i].name, name) < 0);
}

/* Under the lock. */
static struct object *object_find(struct bucket_memory *m, const char *name)
{
	size_t i = object_index(m, name);

	return i < m->n && strcmp(m->v[i].name, name) == 0 ? &m->v[i] : NULL;
}

static int memory_before(struct memory_bucket *b, const char *op, const char *name, struct err *err)
{
	if (strcmp(op, "put") == 0) {
		pthread_mutex_lock(&b->m->lock);
		snprintf(b->last, sizeof(b->last), "%s", name);
		pthread_mutex_unlock(&b->m->lock);
	}
	return b->before ? b->before(b->arg, op, name, err) : 0;
}

/* Takes the content. */
static void object_set(struct bucket_memory *m, const char *name, struct buf *content)
{
	struct object *o;

	pthread_mutex_lock(&m->lock);
	o = object_find(m, name);
	if (!o) {
		size_t i = object_index(m, name);

		VEC_GROW(m->v, m->n, m->room);
		memmove(m->v + i + 1, m->v + i, (m->n - i) * sizeof(*m->v));
		m->n++;
		o = &m->v[i];
		*o = (struct object){ .name = mem_strdup(name) };
	}
	buf_done(&o->content);
	o->content = *content;
	o->time_ns = clock_wall_ms() * 1000000;
	pthread_mutex_unlock(&m->lock);
	*content = (struct buf){ 0 };
}

static void object_del(struct bucket_memory *m, const char *name)
{
	struct object *o;

	pthread_mutex_lock(&m->lock);
	o = object_find(m, name);
	if (o) {
		free(o->name);
		buf_done(&o->content);
		m->n--;
		memmove(o, o + 1, (size_t)(m->v + m->n - o) * sizeof(*o));
	}
	pthread_mutex_unlock(&m->lock);
}

/* Takes the content. Returns the failure. */
static int late_add(struct bucket_memory *m, const char *name, struct buf *content, bool removal,
		    struct err *err)
{
	pthread_mutex_lock(&m->lock);
	VEC_PUSH(m->late, m->n_late, m->room_late) = (struct late){ mem_strdup(name), *content, removal };
	pthread_mutex_unlock(&m->lock);
	*content = (struct buf){ 0 };
	return bucket_failed(err, "no answer");
}

bool bucket_memory_land(struct bucket_memory *m, uint64_t random)
{
	struct late l = { 0 };

	pthread_mutex_lock(&m->lock);
	if (m->n_late) {
		size_t i = random % m->n_late;

		l = m->late[i];
		m->late[i] = m->late[--m->n_late];
	}
	pthread_mutex_unlock(&m->lock);
	if (!l.name)
		return false;
	if (l.removal)
		object_del(m, l.name);
	else
		object_set(m, l.name, &l.content);
	free(l.name);
	buf_done(&l.content);
	return true;
}

/* ---- operations ---- */

static int memory_put(struct bucket *base, const char *name, struct bytes content, struct err *err)
{
	struct memory_bucket *b = memory_of(base);
	struct buf copy = { 0 };
	int r = memory_before(b, "put", name, err);

	if (r && r != BUCKET_LATE)
		return MIN(r, 0);
	buf_add(&copy, content.p, content.size);
	if (r)
		return late_add(b->m, name, &copy, false, err);
	object_set(b->m, name, &copy);
	return 0;
}

static int memory_put_file(struct bucket *base, const char *name, int fd, uint64_t size, struct err *err)
{
	struct memory_bucket *b = memory_of(base);
	AUTO(buf_done) struct buf copy = { 0 };
	int r = memory_before(b, "put", name, err);

	if (r && r != BUCKET_LATE)
		return MIN(r, 0);
	buf_reserve(&copy, (size_t)size);
	if (fd_pread(fd, copy.p, (size_t)size, 0, &copy.size, err) < 0)
		return -1;
	if (r)
		return late_add(b->m, name, &copy, false, err);
	object_set(b->m, name, &copy);
	return 0;
}

static int memory_get(struct bucket *base, const char *name, size_t max, struct buf *ret, struct err *err)
{
	struct memory_bucket *b = memory_of(base);
	struct object *o;
	int r = 0;

	if (memory_before(b, "get", name, err) < 0)
		return -1;
	pthread_mutex_lock(&b->m->lock);
	o = object_find(b->m, name);
	if (!o)
		r = BUCKET_MISSING;
	else if (o->content.size > max)
		r = err_set(err, ERR_LIMIT, "%s: longer than %zu bytes", name, max);
	else
		buf_add(ret, o->content.p, o->content.size);
	pthread_mutex_unlock(&b->m->lock);
	return r;
}

static int memory_head(struct bucket *base, const char *name, uint64_t *ret_size, struct err *err)
{
	struct memory_bucket *b = memory_of(base);
	struct object *o;
	int r = memory_before(b, "head", name, err);

	if (r)
		return MIN(r, 0);
	pthread_mutex_lock(&b->m->lock);
	o = object_find(b->m, name);
	if (o)
		*ret_size = o->content.size;
	pthread_mutex_unlock(&b->m->lock);
	return o ? 0 : BUCKET_MISSING;
}

/* What a listing shows: that of its beginning, in an array of its own, since the callback may change the bucket. */
static struct bucket_item *items_copy(struct bucket_memory *m, const char *prefix, const char *after,
				      size_t *ret_n)
{
	struct bucket_item *v = NULL;
	size_t n = 0, room = 0;

	pthread_mutex_lock(&m->lock);
	for (size_t i = object_index(m, prefix); i < m->n; i++) {
		const struct object *o = &m->v[i];

		if (!str_starts(str_of(o->name), str_of(prefix)))
			break;
		if (strcmp(o->name, after) <= 0)
			continue;
		VEC_PUSH(v, n, room) = (struct bucket_item){ mem_strdup(o->name), o->content.size, o->time_ns,
							     "" };
	}
	pthread_mutex_unlock(&m->lock);
	*ret_n = n;
	return v;
}

/* The listing that is only pretended has what this one put last. */
static int pretend_list(struct memory_bucket *b, const char *prefix, bucket_list_fn *fn, void *arg,
			struct err *err)
{
	char last[BUCKET_NAME_SIZE];

	pthread_mutex_lock(&b->m->lock);
	memcpy(last, b->last, sizeof(last));
	pthread_mutex_unlock(&b->m->lock);
	if (!str_starts(str_of(last), str_of(prefix)))
		return 0;
	return fn(arg, &(struct bucket_item){ last, 0, clock_wall_ms() * 1000000, "" }, err);
}

static int memory_list(struct bucket *base, const char *prefix, const char *after, bucket_list_fn *fn,
		       void *arg, struct err *err)
{
	struct memory_bucket *b = memory_of(base);
	struct bucket_item *v;
	size_t n;
	int r = memory_before(b, "list", prefix, err);

	if (r < 0)
		return -1;
	if (r)
		return pretend_list(b, prefix, fn, arg, err);
	v = items_copy(b->m, prefix, after, &n);
	for (size_t i = 0; i < n; i++) {
		if (!r)
			r = fn(arg, &v[i], err);
		free((void *)v[i].name);
	}
	free(v);
	return r;
}

static int memory_remove(struct bucket *base, const char *name, struct err *err)
{
	struct memory_bucket *b = memory_of(base);
	struct buf none = { 0 };
	int r = memory_before(b, "delete", name, err);

	if (r == BUCKET_LATE)
		return late_add(b->m, name, &none, true, err);
	if (r)
		return MIN(r, 0);
	object_del(b->m, name);
	return 0;
}

static int memory_open(struct bucket *base, const struct bucket_item *item, struct source **ret,
		       struct err *err)
{
	AUTO(buf_done) struct buf content = { 0 };
	int r = memory_get(base, item->name, SIZE_MAX, &content, err);

	if (r)
		return r < 0 ? -1 : BUCKET_MISSING;
	*ret = source_of_heap(content.p, content.size, item->name);
	content = (struct buf){ 0 };
	return 0;
}

static int64_t memory_now_ns(struct bucket *b)
{
	return clock_wall_ms() * 1000000;
}

static void memory_pause(struct bucket *base, unsigned ms)
{
	(void)memory_before(memory_of(base), "pause", "", NULL);
}

static void memory_close(struct bucket *base)
{
	free(memory_of(base));
}

static const struct bucket_ops memory_ops = {
	.put = memory_put,
	.put_file = memory_put_file,
	.get = memory_get,
	.head = memory_head,
	.list = memory_list,
	.remove = memory_remove,
	.open = memory_open,
	.now_ns = memory_now_ns,
	.pause = memory_pause,
	.close = memory_close,
};

struct bucket_memory *bucket_memory_new(void)
{
	struct bucket_memory *m = NEW(struct bucket_memory);

	pthread_mutex_init(&m->lock, NULL);
	return m;
}

void bucket_memory_free(struct bucket_memory *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++) {
		free(m->v[i].name);
		buf_done(&m->v[i].content);
	}
	free(m->v);
	for (size_t i = 0; i < m->n_late; i++) {
		free(m->late[i].name);
		buf_done(&m->late[i].content);
	}
	free(m->late);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

struct bucket *bucket_open_memory(struct bucket_memory *m, bucket_before_fn *before, void *arg)
{
	struct memory_bucket *b = NEW(struct memory_bucket);

	b->base.ops = &memory_ops;
	b->m = m;
	b->before = before;
	b->arg = arg;
	return &b->base;
}
