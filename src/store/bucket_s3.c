/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects in a bucket with S3's API.
 *
 * Whatever fails here says nothing of what is in the bucket: it is blob_is_away(), except an object that is longer than asked
 * for, and one whose bytes are others than they were (ERR_CHANGED: names are written once, so somebody else has written it).
 */
#include "store/bucket.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "base/pool.h"
#include "s3/s3.h"

/* By a walk over all records. The client sends 64 at once: the rest is for requests that somebody waits for. */
#define READS_AT_ONCE 48u

struct s3_bucket {
	struct bucket base;
	struct s3 *s3; /* s3_shared() */
	char *url;     /* "s3://BUCKET/PREFIX/" */
	char *bucket;
	char *prefix; /* "PREFIX/"; may be empty */
};

static struct s3_bucket *s3_of(struct bucket *b)
{
	return CONTAINER_OF(b, struct s3_bucket, base);
}

/* @key is freed by the caller. */
static struct s3_name s3_name_of(const struct s3_bucket *b, const char *name, char **key)
{
	*key = mem_printf("%s%s", b->prefix, name);
	return (struct s3_name){ str_of(b->bucket), str_of(*key) };
}

/* The outcome of a call. */
static int away_or(int r, struct err *why, struct err *err)
{
	if (r >= 0)
		return r;
	if (why->kind != ERR_LIMIT && why->kind != ERR_CHANGED) {
		why->kind = ERR_IO;
		why->os = ENOTCONN;
	}
	if (err)
		*err = *why;
	return -1;
}

/* ---- objects ---- */

static int s3_bucket_put(struct bucket *base, const char *name, struct bytes content, struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	struct err why = { 0 };
	struct s3_info info;

	return away_or(s3_put(b->s3, s3_name_of(b, name, &key), content, &info, &why), &why, err);
}

static int s3_part_read(int fd, uint64_t off, void *p, size_t n, struct err *err)
{
	size_t got = 0;

	if (fd_pread(fd, p, n, off, &got, err) < 0)
		return -1;
	return got == n ? 0 : err_set(err, ERR_IO, "the staging file ends too early");
}

static int file_put_whole(struct s3 *s, struct s3_name name, int fd, uint64_t size, struct err *err)
{
	AUTO(mem_freep) uint8_t *p = mem_alloc((size_t)size + 1);
	struct s3_info info;

	return s3_part_read(fd, 0, p, (size_t)size, err) < 0
		       ? -1
		       : s3_put(s, name, bytes_of(p, (size_t)size), &info, err);
}

static int s3_bucket_put_file(struct bucket *base, const char *name, int fd, uint64_t size, struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	struct s3_name n = s3_name_of(b, name, &key);
	struct err why = { 0 };

	return away_or(file_put_whole(b->s3, n, fd, size, &why), &why, err);
}

/* ---- uploads in parts ---- */

/* @key is freed by the caller. */
static struct s3_upload upload_of(const struct s3_bucket *b, const char *name, const char *id, char **key)
{
	struct s3_upload u = { .name = s3_name_of(b, name, key) };

	snprintf(u.id, sizeof(u.id), "%s", id);
	return u;
}

static int s3_bucket_upload_begin(struct bucket *base, const char *name, char ret_id[BUCKET_UPLOAD_SIZE],
				  struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	struct err why = { 0 };
	struct s3_upload u;
	int r = s3_upload_begin(b->s3, s3_name_of(b, name, &key), &u, &why);

	if (r == 0)
		snprintf(ret_id, BUCKET_UPLOAD_SIZE, "%s", u.id);
	return away_or(r, &why, err);
}

static struct bucket_part part_of(const struct s3_part *p)
{
	struct bucket_part ret = { .number = p->number, .size = p->size };

	snprintf(ret.etag, sizeof(ret.etag), "%s", p->etag);
	return ret;
}

static int s3_bucket_upload_part(struct bucket *base, const char *name, const char *id, unsigned number,
				 const struct file_range *content, struct bucket_part *ret, struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	struct s3_upload u = upload_of(b, name, id, &key);
	struct err why = { 0 };
	struct s3_part part;
	int r = s3_upload_part(b->s3, &u, number, content, &part, &why);

	if (r == 0) {
		*ret = part_of(&part);
		ret->hash = part_hash(part.sha256);
	}
	return away_or(r, &why, err);
}

static int s3_bucket_upload_parts(struct bucket *base, const char *name, const char *id,
				  struct bucket_part **ret, size_t *ret_n, struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	AUTO(mem_freep) struct s3_part *parts = NULL;
	struct s3_upload u = upload_of(b, name, id, &key);
	struct err why = { 0 };
	size_t n = 0;
	int r = s3_upload_parts(b->s3, &u, &parts, &n, &why);

	if (r)
		return r == S3_MISSING ? BUCKET_MISSING : away_or(r, &why, err);
	*ret = NEW_N(struct bucket_part, n + 1);
	for (size_t i = 0; i < n; i++)
		(*ret)[i] = part_of(&parts[i]);
	*ret_n = n;
	return 0;
}

static int s3_bucket_upload_end(struct bucket *base, const char *name, const char *id,
				const struct bucket_part *parts, size_t n, struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	AUTO(mem_freep) struct s3_part *v = NEW_N(struct s3_part, n + 1);
	struct s3_upload u = upload_of(b, name, id, &key);
	struct err why = { 0 };

	for (size_t i = 0; i < n; i++) {
		v[i] = (struct s3_part){ .number = parts[i].number, .size = parts[i].size };
		snprintf(v[i].etag, sizeof(v[i].etag), "%s", parts[i].etag);
	}
	return away_or(s3_upload_complete(b->s3, &u, v, n, NULL, &why), &why, err);
}

static int s3_bucket_upload_abort(struct bucket *base, const char *name, const char *id, struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	struct s3_upload u = upload_of(b, name, id, &key);
	struct err why = { 0 };

	return away_or(s3_upload_abort(b->s3, &u, &why), &why, err);
}

static int s3_bucket_presign(struct bucket *base, const struct bucket_presigned *p, struct buf *ret,
			     struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	struct s3_upload u = upload_of(b, p->name, p->upload ? p->upload : "", &key);
	const struct s3_presigned signs = { .method = "PUT",
					    .name = u.name,
					    .expires_s = p->expires_s,
					    .endpoint = p->endpoint,
					    .size = p->size,
					    .upload = p->upload ? &u : NULL,
					    .part = p->part };
	struct err why = { 0 };

	return away_or(s3_presign(b->s3, &signs, ret, &why), &why, err);
}

/* ---- objects ---- */

static int s3_bucket_get(struct bucket *base, const char *name, size_t max, struct buf *ret, struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	struct err why = { 0 };
	int r = s3_get(b->s3, s3_name_of(b, name, &key), max, ret, NULL, &why);

	return r == S3_MISSING ? BUCKET_MISSING : away_or(r, &why, err);
}

static int s3_bucket_head(struct bucket *base, const char *name, uint64_t *ret_size, struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	struct s3_info info = { 0 };
	struct err why = { 0 };
	int r = s3_head(b->s3, s3_name_of(b, name, &key), &info, &why);

	*ret_size = info.size;
	return r == S3_MISSING ? BUCKET_MISSING : away_or(r, &why, err);
}

static int s3_bucket_remove(struct bucket *base, const char *name, struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	AUTO(mem_freep) char *key = NULL;
	struct err why = { 0 };

	return away_or(s3_delete(b->s3, s3_name_of(b, name, &key), &why), &why, err);
}

/* ---- listing ---- */

struct s3_walk {
	const struct s3_bucket *b;
	bucket_list_fn *fn;
	void *arg;
	int r; /* of the function */
	struct err err;
};

static int s3_walk_item(void *arg, const struct s3_listed *o, struct err *err)
{
	struct s3_walk *w = arg;
	size_t skip = strlen(w->b->prefix);
	AUTO(mem_freep) char *name = NULL;

	if (o->key.size <= skip || memcmp(o->key.p, w->b->prefix, skip) != 0)
		return 0; /* a server that lists others */
	name = mem_strndup(o->key.p + skip, o->key.size - skip);
	w->r = w->fn(w->arg,
		     &(struct bucket_item){ name, o->info.size, o->info.mtime * 1000000000, o->info.etag },
		     &w->err);
	return w->r ? 1 : 0;
}

static int s3_bucket_list(struct bucket *base, const char *prefix, const char *after, bucket_list_fn *fn,
			  void *arg, struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	struct s3_walk w = { .b = b, .fn = fn, .arg = arg };
	AUTO(mem_freep) char *from = mem_printf("%s%s", b->prefix, prefix);
	AUTO(mem_freep) char *past = mem_printf("%s%s", after[0] ? b->prefix : "", after);
	const struct s3_listing l = { .bucket = str_of(b->bucket),
				      .prefix = str_of(from),
				      .after = str_of(past),
				      .fn = s3_walk_item,
				      .arg = &w };
	struct err why = { 0 };
	int r = s3_list(b->s3, &l, &why);

	if (w.r) {
		if (w.r < 0 && err)
			*err = w.err;
		return w.r;
	}
	return away_or(r, &why, err);
}

#define LISTINGS_AT_ONCE 16u

struct s3_listings {
	struct bucket *b;
	struct bucket_listing *v;
	size_t n;
	atomic_size_t next;
};

static void *listings_run(void *arg)
{
	struct s3_listings *all = arg;
	size_t i;

	while ((i = atomic_fetch_add(&all->next, 1)) < all->n) {
		struct bucket_listing *l = &all->v[i];

		l->r = s3_bucket_list(all->b, l->prefix, "", l->fn, l->arg, &l->err);
	}
	return NULL;
}

/* A thread takes a thousandth of the time of a request. */
static void s3_bucket_list_all(struct bucket *base, struct bucket_listing *v, size_t n)
{
	struct s3_listings all = { .b = base, .v = v, .n = n };
	pthread_t threads[LISTINGS_AT_ONCE];
	size_t n_threads = 0;

	pool_wait_begin();
	while (n_threads + 1 < MIN(n, (size_t)LISTINGS_AT_ONCE) &&
	       pthread_create(&threads[n_threads], NULL, listings_run, &all) == 0)
		n_threads++;
	listings_run(&all);
	while (n_threads)
		pthread_join(threads[--n_threads], NULL);
	pool_wait_end();
}

/* ---- reading at random ---- */

struct s3_content {
	struct source source;
	struct source *object;
};

static int s3_content_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
			   size_t *ret_got, struct err *err)
{
	struct source *object = CONTAINER_OF(base, struct s3_content, source)->object;
	struct err why = { 0 };
	int r = source_read(object, off, buf, n, hint, ret_got, &why);

	/* Collected meanwhile: the caller opens it again. */
	if (r < 0 && why.kind == ERR_CHANGED && why.os == ENOENT)
		why.kind = ERR_IO;
	return away_or(r, &why, err);
}

static void content_expect(struct source *base, struct byte_range range)
{
	source_expect(CONTAINER_OF(base, struct s3_content, source)->object, range);
}

static void content_distrust(struct source *base)
{
	source_distrust(CONTAINER_OF(base, struct s3_content, source)->object);
}

static void content_pass(struct source *base)
{
	source_pass(CONTAINER_OF(base, struct s3_content, source)->object);
}

static void content_close(struct source *base)
{
	source_close(CONTAINER_OF(base, struct s3_content, source)->object);
	source_fini(base);
	free(CONTAINER_OF(base, struct s3_content, source));
}

static const struct source_ops content_ops = {
	.read = s3_content_read,
	.close = content_close,
	.expect = content_expect,
	.distrust = content_distrust,
	.pass = content_pass,
};

static int s3_bucket_open(struct bucket *base, const struct bucket_item *item, struct source **ret,
			  struct err *err)
{
	struct s3_bucket *b = s3_of(base);
	struct s3_info info = { .size = item->size, .mtime = item->time_ns / 1000000000 };
	AUTO(mem_freep) char *url = mem_printf("%s%s", b->url, item->name);
	struct source *object = NULL;
	struct s3_content *c;
	struct err why = { 0 };
	struct stat known;
	int r;

	snprintf(info.etag, sizeof(info.etag), "%s", item->etag);
	s3_stat(&info, &known);
	r = s3_open(b->s3, url, &known, &object, NULL, &why);
	if (r)
		return r == S3_MISSING ? BUCKET_MISSING : away_or(r, &why, err);
	c = NEW(struct s3_content);
	source_init(&c->source, &content_ops, object->size, object->mtime, url);
	c->object = object;
	*ret = &c->source;
	return 0;
}

/* ---- the rest ---- */

static int64_t s3_bucket_now_ns(struct bucket *b)
{
	return s3_time_s(s3_of(b)->s3) * 1000000000;
}

static void s3_bucket_pause(struct bucket *b, unsigned ms)
{
	const struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&ts, NULL);
}

static void s3_bucket_close(struct bucket *base)
{
	struct s3_bucket *b = s3_of(base);

	free(b->url);
	free(b->bucket);
	free(b->prefix);
	free(b);
}

static const struct bucket_ops s3_bucket_ops = {
	.put = s3_bucket_put,
	.put_file = s3_bucket_put_file,
	.get = s3_bucket_get,
	.head = s3_bucket_head,
	.list = s3_bucket_list,
	.list_all = s3_bucket_list_all,
	.remove = s3_bucket_remove,
	.open = s3_bucket_open,
	.upload_begin = s3_bucket_upload_begin,
	.upload_part = s3_bucket_upload_part,
	.upload_parts = s3_bucket_upload_parts,
	.upload_end = s3_bucket_upload_end,
	.upload_abort = s3_bucket_upload_abort,
	.presign = s3_bucket_presign,
	.now_ns = s3_bucket_now_ns,
	.pause = s3_bucket_pause,
	.close = s3_bucket_close,
};

/* Amazon's buckets have their names for themselves, whatever the region in the settings is. */
static void s3_bucket_name_place(struct s3_bucket *b)
{
	struct s3_status st = { 0 };
	struct str server;

	(void)s3_shared_status(&st);
	server = str_of(st.endpoint);
	if (str_ends(server, STR(".amazonaws.com")) || str_ends(server, STR(".amazonaws.com.cn")))
		server = STR("amazon");
	snprintf(b->base.where, sizeof(b->base.where), STR_FMT " %s", STR_ARG(server), b->url);
	/* It is one line of a note. */
	for (const char *p = b->base.where; *p; p++)
		if ((unsigned char)*p < ' ') {
			b->base.where[0] = 0;
			return;
		}
}

/* Versions and marks come after it. */
#define PREFIX_MAX 256u

int bucket_open_s3(const char *url, struct bucket **ret, struct err *err)
{
	struct s3_bucket *b;
	struct s3_name name;
	struct s3 *s3;

	if (s3_name_parse(str_of(url), &name, err) < 0)
		return err_in(err, "%s", url);
	while (name.key.size && name.key.p[name.key.size - 1] == '/')
		name.key.size--;
	if (name.key.size > PREFIX_MAX)
		return err_set(err, ERR_INVALID, "%s: the prefix has more than %u bytes", url, PREFIX_MAX);
	if (s3_shared(&s3, err) < 0)
		return -1;
	b = NEW(struct s3_bucket);
	b->base.ops = &s3_bucket_ops;
	b->base.n_reads = READS_AT_ONCE;
	b->s3 = s3;
	b->bucket = mem_strndup(name.bucket.p, name.bucket.size);
	b->prefix = name.key.size ? mem_printf(STR_FMT "/", STR_ARG(name.key)) : mem_strdup("");
	b->url = mem_printf("s3://%s/%s", b->bucket, b->prefix);
	s3_bucket_name_place(b);
	*ret = &b->base;
	return 0;
}
