/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bucket in memory, for tests: it has what a bucket promises, and no more.
 */
#include "store/bucket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct object {
	char *name;
	struct buf content;
	int64_t time_ns;
};

struct memory_upload {
	char *name; /* NULL: it has ended */
	struct buf *parts;
	size_t n, room;
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
	struct memory_upload *uploads;
	size_t n_uploads, room_uploads;
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
static struct object *memory_object_find(struct bucket_memory *m, const char *name)
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
	o = memory_object_find(m, name);
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
	o = memory_object_find(m, name);
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
	o = memory_object_find(b->m, name);
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
	o = memory_object_find(b->m, name);
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

static void memory_list_all(struct bucket *base, struct bucket_listing *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		v[i].r = memory_list(base, v[i].prefix, "", v[i].fn, v[i].arg, &v[i].err);
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

/* ---- uploads ---- */

/* Under the lock: its id is its index. NULL: there is none. */
static struct memory_upload *upload_find(struct bucket_memory *m, const char *name, const char *id)
{
	uint64_t i;

	if (!str_to_u64(str_of(id), &i) || i >= m->n_uploads || !m->uploads[i].name ||
	    strcmp(m->uploads[i].name, name) != 0)
		return NULL;
	return &m->uploads[i];
}

static void upload_drop(struct memory_upload *u)
{
	for (size_t i = 0; i < u->n; i++)
		buf_done(&u->parts[i]);
	free(u->parts);
	mem_freep(&u->name);
	*u = (struct memory_upload){ 0 };
}

static int memory_upload_begin(struct bucket *base, const char *name, char ret_id[BUCKET_UPLOAD_SIZE],
			       struct err *err)
{
	struct bucket_memory *m = memory_of(base)->m;

	if (memory_before(memory_of(base), "upload", name, err) < 0)
		return -1;
	pthread_mutex_lock(&m->lock);
	snprintf(ret_id, BUCKET_UPLOAD_SIZE, "%zu", m->n_uploads);
	VEC_PUSH(m->uploads, m->n_uploads,
		 m->room_uploads) = (struct memory_upload){ .name = mem_strdup(name) };
	pthread_mutex_unlock(&m->lock);
	return 0;
}

static int upload_is_missing(const char *name, struct err *err)
{
	(void)err_set(err, ERR_IO, "%s: no such upload", name);
	if (err)
		err->os = ENOTCONN;
	return -1;
}

static int memory_upload_part(struct bucket *base, const char *name, const char *id, unsigned number,
			      const struct file_range *content, struct bucket_part *ret, struct err *err)
{
	AUTO(mem_freep) uint8_t *bytes = mem_alloc((size_t)content->size + 1);
	struct bucket_memory *m = memory_of(base)->m;
	uint8_t sha256[SHA256_SIZE];
	struct memory_upload *u;
	size_t got = 0;

	if (memory_before(memory_of(base), "part", name, err) < 0 ||
	    fd_pread(content->fd, bytes, (size_t)content->size, content->off, &got, err) < 0 ||
	    sha256_of_file(content, NULL, NULL, sha256, err) < 0)
		return -1;
	pthread_mutex_lock(&m->lock);
	u = upload_find(m, name, id);
	while (u && u->n < number)
		VEC_PUSH(u->parts, u->n, u->room) = (struct buf){ 0 };
	if (u) {
		u->parts[number - 1].size = 0;
		buf_add(&u->parts[number - 1], bytes, got);
	}
	pthread_mutex_unlock(&m->lock);
	*ret = (struct bucket_part){
		.number = number, .size = content->size, .etag = "e", .hash = part_hash(sha256)
	};
	return u ? 0 : upload_is_missing(name, err);
}

static int memory_upload_parts(struct bucket *base, const char *name, const char *id,
			       struct bucket_part **ret, size_t *ret_n, struct err *err)
{
	struct bucket_memory *m = memory_of(base)->m;
	struct memory_upload *u;
	size_t n = 0, room = 0;

	if (memory_before(memory_of(base), "parts", name, err) < 0)
		return -1;
	*ret = NULL;
	pthread_mutex_lock(&m->lock);
	u = upload_find(m, name, id);
	for (size_t i = 0; u && i < u->n; i++)
		if (u->parts[i].size)
			VEC_PUSH(*ret, n, room) = (struct bucket_part){ .number = (unsigned)i + 1,
									.size = u->parts[i].size,
									.etag = "e" };
	pthread_mutex_unlock(&m->lock);
	*ret_n = n;
	return u ? 0 : BUCKET_MISSING;
}

static int memory_upload_end(struct bucket *base, const char *name, const char *id,
			     const struct bucket_part *parts, size_t n, struct err *err)
{
	struct bucket_memory *m = memory_of(base)->m;
	struct buf whole = { 0 };
	struct memory_upload *u;
	bool found;

	if (memory_before(memory_of(base), "complete", name, err) < 0)
		return -1;
	pthread_mutex_lock(&m->lock);
	u = upload_find(m, name, id);
	found = u && u->n >= n;
	for (size_t i = 0; found && i < n; i++)
		buf_add(&whole, u->parts[parts[i].number - 1].p, u->parts[parts[i].number - 1].size);
	if (found)
		upload_drop(u);
	pthread_mutex_unlock(&m->lock);
	if (!found)
		return upload_is_missing(name, err);
	object_set(m, name, &whole);
	return 0;
}

static int memory_upload_abort(struct bucket *base, const char *name, const char *id, struct err *err)
{
	struct bucket_memory *m = memory_of(base)->m;
	struct memory_upload *u;

	if (memory_before(memory_of(base), "abort", name, err) < 0)
		return -1;
	pthread_mutex_lock(&m->lock);
	u = upload_find(m, name, id);
	if (u)
		upload_drop(u);
	pthread_mutex_unlock(&m->lock);
	return 0;
}

size_t bucket_memory_uploads(struct bucket_memory *m)
{
	size_t n = 0;

	pthread_mutex_lock(&m->lock);
	for (size_t i = 0; i < m->n_uploads; i++)
		n += m->uploads[i].name != NULL;
	pthread_mutex_unlock(&m->lock);
	return n;
}

static int memory_presign(struct bucket *base, const struct bucket_presigned *p, struct buf *ret,
			  struct err *err)
{
	buf_printf(ret, "memory:%s?size=%llu&part=%u", p->name, (unsigned long long)p->size, p->part);
	return 0;
}

/* ---- the rest ---- */

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
	.list_all = memory_list_all,
	.remove = memory_remove,
	.open = memory_open,
	.upload_begin = memory_upload_begin,
	.upload_part = memory_upload_part,
	.upload_parts = memory_upload_parts,
	.upload_end = memory_upload_end,
	.upload_abort = memory_upload_abort,
	.presign = memory_presign,
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
	for (size_t i = 0; i < m->n_uploads; i++)
		upload_drop(&m->uploads[i]);
	free(m->uploads);
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
