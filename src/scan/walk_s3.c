/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over a bucket: a listing. ETag and size, which s3_stat() makes an inode of, show which objects have changed. A
 * complete listing also shows which are gone: grooming asks nothing of a bucket. Runs on the walking thread only.
 */
#include <stdlib.h>
#include "s3/s3.h"
#include "scan/internal.h"

struct bucket_walk {
	struct scan *s;
	struct s3_name root;
	struct buf url;   /* of the current object */
	uint64_t *hashes; /* of the URLs of all listed objects */
	size_t n, room;
	size_t n_gone; /* rows of objects that are not listed */
};

static uint64_t url_hash(struct str url)
{
	return hash64(url.p, url.size, 0);
}

static void object_url(struct bucket_walk *w, struct str key)
{
	w->url.size = 0;
	buf_printf(&w->url, "s3://" STR_FMT "/", STR_ARG(w->root.bucket));
	buf_add_str(&w->url, key);
}

/* A root ends where a folder does: s3://b/debs has b/debs/a.deb and b/debs itself, not b/debs-old/a.deb. */
static bool key_is_below(struct str key, struct str root)
{
	if (!root.size || root.p[root.size - 1] == '/' || key.size == root.size)
		return true;
	return key.p[root.size] == '/';
}

/* The number of folders between the root and the key. */
static unsigned key_depth(struct str key, struct str root)
{
	unsigned n = 0;

	for (size_t i = root.size; i < key.size; i++)
		n += key.p[i] == '/' && i > root.size;
	return n;
}

static bool walk_is_stopped(void *arg)
{
	return atomic_load(&((struct bucket_walk *)arg)->s->stopping);
}

static int walk_object(void *arg, const struct s3_listed *o, struct err *err)
{
	struct bucket_walk *w = arg;
	struct stat st;

	if (walk_is_stopped(w))
		return err_set(err, ERR_CANCELLED, "stopped");
	/* "Folders" that some tools make are empty objects. */
	if (!key_is_below(o->key, w->root.key) || o->key.p[o->key.size - 1] == '/')
		return 0;
	if (w->s->opts.max_depth && key_depth(o->key, w->root.key) >= w->s->opts.max_depth)
		return 0;
	object_url(w, o->key);
	if (w->s->opts.store && str_starts(buf_str(&w->url), str_of(w->s->opts.store)))
		return 0;
	VEC_PUSH(w->hashes, w->n, w->room) = url_hash(buf_str(&w->url));
	s3_stat(&o->info, &st);
	walk_candidate(w->s, buf_cstr(&w->url), &st);
	return 0;
}

/* ---- objects that are gone ---- */

static int hash_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool row_is_gone(const struct bucket_walk *w, const struct index_file *f)
{
	struct s3_name name;
	uint64_t hash;

	if (!s3_is_url(f->path) || s3_name_parse(f->path, &name, NULL) < 0 ||
	    !str_eq(name.bucket, w->root.bucket) || !str_starts(name.key, w->root.key) ||
	    !key_is_below(name.key, w->root.key))
		return false;
	hash = url_hash(f->path);
	return !w->n || !bsearch(&hash, w->hashes, w->n, sizeof(hash), hash_compare);
}

static void delete_row(struct scan *s, const struct index_file *f)
{
	struct change *c = change_new(CHANGE_DEL);

	change_set_file(c, f);
	writer_push(s->writer, c);
}

static int delete_if_gone(void *arg, const struct index_file *f, struct err *err)
{
	struct bucket_walk *w = arg;

	if (row_is_gone(w, f)) {
		delete_row(w->s, f);
		w->n_gone++;
	}
	return atomic_load(&w->s->stopping);
}

static void delete_gone(struct bucket_walk *w)
{
	struct err err = { 0 };

	if (w->n)
		qsort(w->hashes, w->n, sizeof(*w->hashes), hash_compare);
	if (index_each(w->s->walk_index, 0, 0, delete_if_gone, w, &err) < 0)
		log_error("scan", "%s", err.text);
	else if (w->n_gone)
		log_info("scan", "%zu objects are gone from the bucket", w->n_gone);
}

/* ---- the walk ---- */

int walk_bucket(struct scan *s, const char *url, struct err *err)
{
	struct bucket_walk w = { .s = s };
	struct s3 *s3;
	int r = -1;

	if (s3_name_parse(str_of(url), &w.root, err) == 0 && s3_shared(&s3, err) == 0)
		r = s3_list(s3,
			    &(struct s3_listing){ .bucket = w.root.bucket,
						  .prefix = w.root.key,
						  .fn = walk_object,
						  .stopped = walk_is_stopped,
						  .arg = &w },
			    err);
	if (r == 0)
		delete_gone(&w);
	buf_done(&w.url);
	free(w.hashes);
	return r;
}
