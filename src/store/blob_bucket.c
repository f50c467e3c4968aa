/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs in a bucket. Contents are gathered in staging files on the local disk. What other processes know of the use of a
 * blob is not known here: a touch is a note in memory, since in a bucket it would be a put.
 */
#include "store/bucket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/condition.h"

#define MARKER_TRIES  3u
#define MARKER_MAX    KIB(4)
#define READY_WAIT_MS 3000
#define USED_MAX      200000u /* then the uses are forgotten */

static struct blob_bucket *bucket_of(struct blobs *b)
{
	return CONTAINER_OF(b, struct blob_bucket, blobs);
}

static bool is_content(const char *name)
{
	return strncmp(name, "data/", 5) == 0;
}

/* ---- uses ---- */

int64_t bucket_used_ns(struct blob_bucket *s, const char *name, int64_t put_ns)
{
	const int64_t *at;
	int64_t ret;

	pthread_mutex_lock(&s->lock);
	at = map_get(&s->used, bytes_of(name, strlen(name)));
	ret = at ? MAX(*at, put_ns) : put_ns;
	pthread_mutex_unlock(&s->lock);
	return ret;
}

static void uses_done(struct map *m)
{
	struct bytes key;
	void *at;

	map_each (m, it, &key, &at)
		free(at);
	map_done(m);
}

void bucket_note_used(struct blob_bucket *s, const char *name)
{
	int64_t *at = NEW(int64_t);

	*at = clock_wall_ms() * 1000000;
	pthread_mutex_lock(&s->lock);
	if (s->used.n >= USED_MAX)
		uses_done(&s->used);
	free(map_put(&s->used, bytes_of(name, strlen(name)), at));
	pthread_mutex_unlock(&s->lock);
}

/* ---- the marker ---- */

static int object_found(void *arg, const struct bucket_item *item, struct err *err)
{
	return 1;
}

/*
 * There is no marker. 1: but there are other objects. A process that makes the same store puts its marker before these: so it
 * is there by now, or there is none.
 */
static int marker_put(struct blob_bucket *s, struct err *err)
{
	struct bucket *b = s->bucket;
	int r;

	if (!s->create)
		return err_set(err, ERR_INVALID, "there is no store in the bucket under that prefix");
	r = b->ops->list(b, "", "", object_found, NULL, err);
	return r ? r
		 : b->ops->put(b, BLOB_MARKER, bytes_of(BLOB_MARKER_TEXT, sizeof(BLOB_MARKER_TEXT) - 1), err);
}

static int content_found(void *arg, const struct bucket_item *item, struct err *err)
{
	char content[BLOB_CONTENT_NAME_SIZE], id[GENERATION_SIZE];

	return generation_name_read(item->name, content, id) ? 1 : 0;
}

/* An object of that name has other bytes. If there are contents, it was the marker, and is put again. */
static int marker_mend(struct blob_bucket *s, struct err *err)
{
	struct bucket *b = s->bucket;
	struct err why = { 0 };
	int r = b->ops->list(b, "data/", "", content_found, NULL, err);

	if (r < 0)
		return -1;
	if (!r)
		return err_set(err, ERR_INVALID,
			       "not a store: its '" BLOB_MARKER "' is no marker, and it has no contents");
	log_warn("store",
		 "the marker '" BLOB_MARKER "' in the bucket is damaged, and is put again: the store has "
		 "contents of this version");
	if (s->create &&
	    b->ops->put(b, BLOB_MARKER, bytes_of(BLOB_MARKER_TEXT, sizeof(BLOB_MARKER_TEXT) - 1), &why) < 0)
		log_warn("store", "%s", why.text);
	return 0;
}

/* The marker, read again where it is none: bytes may be damaged on their way. */
static int marker_get(struct bucket *b, struct buf *text, struct err *err)
{
	for (unsigned i = 1;; i++) {
		struct err why = { 0 };
		uint64_t size;
		int r;

		text->size = 0;
		r = b->ops->get(b, BLOB_MARKER, MARKER_MAX, text, &why);
		/* Longer than any marker: @text is empty. Other limits may have been reached, as of memory. */
		if (r < 0 && why.kind == ERR_LIMIT && b->ops->head(b, BLOB_MARKER, &size, NULL) == 0 &&
		    size > MARKER_MAX)
			r = 0;
		else if (r < 0)
			*err = why;
		if (r || str_eq(buf_str(text), STR(BLOB_MARKER_TEXT)) || i == MARKER_TRIES)
			return r;
	}
}

static int marker_check(struct blob_bucket *s, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct err why = { 0 };
	int r = marker_get(s->bucket, &text, &why);

	if (r == BUCKET_MISSING) {
		r = marker_put(s, err);
		if (r <= 0)
			return r;
		r = marker_get(s->bucket, &text, &why);
	}
	if (r == BUCKET_MISSING)
		return err_set(err, ERR_INVALID,
			       "not a store, and not empty: name another prefix of the bucket");
	if (r < 0) {
		if (err)
			*err = why;
		return -1;
	}
	if (str_eq(buf_str(&text), STR(BLOB_MARKER_TEXT)))
		return 0;
	if (blob_marker_is_newer(buf_str(&text)))
		return err_set(err, ERR_INVALID, "the store was made by a newer lode: '" STR_FMT "'",
			       STR_ARG(str_trim(buf_str(&text))));
	return marker_mend(s, err);
}

int bucket_ready(struct blob_bucket *s, struct err *err)
{
	bool checked;

	pthread_mutex_lock(&s->lock);
	checked = s->checked;
	pthread_mutex_unlock(&s->lock);
	if (checked)
		return 0;
	if (marker_check(s, err) < 0)
		return -1;
	pthread_mutex_lock(&s->lock);
	s->checked = true;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

/* ---- stagings: staging_dir.c ---- */

static int bucket_staging(struct blobs *b, struct str name, struct staging *ret, struct err *err)
{
	return staging_dir_open(bucket_of(b)->dir, name, ret, err);
}

static void bucket_staging_done(struct blobs *b, struct staging *s, bool keep)
{
	/* A file without a note is removed in any case. */
	bucket_parts_drop(TAKE(s->parts), keep && s->note_path);
	staging_dir_done(s, keep);
}

static void bucket_staging_expect(struct blobs *b, struct staging *s, const char *name, uint64_t all)
{
	s->parts = bucket_parts_new(bucket_of(b), s, name, NULL, all);
	bucket_parts_grow(s->parts, s->size);
}

static int bucket_staging_note(struct blobs *b, struct staging *s, const struct staging_note *note,
			       struct err *err)
{
	int r = staging_dir_note(s, note, err);

	if (s->parts)
		bucket_parts_grow(s->parts, note->size);
	return r;
}

static int bucket_notes(struct blobs *b, int (*fn)(void *arg, const struct staging_note *note), void *arg,
			struct err *err)
{
	return staging_dir_notes(bucket_of(b)->dir, fn, arg, err);
}

static int bucket_staged(struct blobs *b, uint64_t *ret_bytes, struct err *err)
{
	return staging_dir_staged(bucket_of(b)->dir, ret_bytes, err);
}

static int bucket_sweep_all(struct blobs *b, uint64_t *ret_n, struct err *err)
{
	struct blob_bucket *s = bucket_of(b);
	uint64_t left;

	if (staging_dir_sweep(s->dir, ret_n, err) < 0 || bucket_ready(s, err) < 0)
		return -1;
	bucket_parts_sweep(s);
	return bucket_sweep(s, err) < 0 ? -1 : bucket_incoming_sweep(s->bucket, &left, err);
}

/* ---- records and contents ---- */

static int bucket_put_staged(struct blobs *b, const char *name, struct staging *staging, bool keep,
			     struct err *err)
{
	struct blob_bucket *s = bucket_of(b);

	return bucket_ready(s, err) < 0 ? -1 : bucket_content_put(s, name, staging, keep, err);
}

static int bucket_put(struct blobs *b, const char *name, struct bytes content, const char *needs,
		      const struct blob_stamp *expect, struct err *err)
{
	struct blob_bucket *s = bucket_of(b);

	return bucket_ready(s, err) < 0 ? -1 : bucket_record_put(s, name, content, needs, expect, err);
}

static int bucket_stat(struct blobs *b, const char *name, struct blob_stamp *ret, struct err *err)
{
	struct blob_bucket *s = bucket_of(b);

	if (bucket_ready(s, err) < 0)
		return -1;
	return is_content(name) ? bucket_content_stat(s, name, ret, err)
				: bucket_record_stat(s, name, ret, err);
}

/* What a bucket has taken is durable. Whether the writer of a version takes it back: record_settle(). */
static int bucket_settle(struct blobs *b, const char *name, struct err *err)
{
	struct blob_stamp there;

	return bucket_stat(b, name, &there, err);
}

static int bucket_settle_all(struct blobs *b, struct err *err)
{
	return 0;
}

static int bucket_get(struct blobs *b, const char *name, size_t max, struct buf *ret,
		      struct blob_stamp *ret_stamp, struct err *err)
{
	struct blob_bucket *s = bucket_of(b);

	return bucket_ready(s, err) < 0 ? -1 : bucket_record_get(s, name, max, ret, ret_stamp, err);
}

static int bucket_open(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	struct blob_bucket *s = bucket_of(b);
	struct buf content = { 0 };
	struct blob_stamp stamp;
	int r = bucket_ready(s, err);

	if (r < 0)
		return -1;
	if (is_content(name))
		return bucket_content_open(s, name, ret, err);
	r = bucket_record_get(s, name, MIB(1), &content, &stamp, err);
	if (r)
		buf_done(&content);
	else
		*ret = source_of_heap(content.p, content.size, name);
	return r;
}

static int bucket_touch(struct blobs *b, const char *name, struct err *err)
{
	struct blob_stamp there;
	int r = bucket_stat(b, name, &there, err);

	if (r == 0)
		bucket_note_used(bucket_of(b), name);
	return r;
}

static int bucket_remove(struct blobs *b, const char *name, const struct blob_stamp *seen, struct err *err)
{
	struct blob_bucket *s = bucket_of(b);

	return bucket_ready(s, err) < 0 ? -1 : bucket_record_remove(s, name, seen, err);
}

static int bucket_collect_all(struct blobs *b, struct blob_garbage *v, size_t n, int64_t not_after_ns,
			      struct err *err)
{
	struct blob_bucket *s = bucket_of(b);

	return bucket_ready(s, err) < 0 ? -1 : bucket_collect(s, v, n, not_after_ns, err);
}

/* After all versions of that name. "": from the beginning. */
static char *after_name(struct str after)
{
	return after.size ? mem_printf(STR_FMT "!~", STR_ARG(after)) : mem_strdup("");
}

static int bucket_list(struct blobs *b, struct str prefix, struct str after, blob_list_fn *fn, void *arg,
		       struct err *err)
{
	AUTO(mem_freep) char *from = mem_strndup(prefix.p, prefix.size);
	AUTO(mem_freep) char *past = after_name(after);
	struct blob_bucket *s = bucket_of(b);

	if (bucket_ready(s, err) < 0)
		return -1;
	return is_content(from) ? bucket_content_list(s, from, past, fn, arg, err)
				: bucket_record_list(s, from, past, fn, arg, err);
}

static void bucket_look(struct blobs *b, const char *const *names, size_t n)
{
	struct blob_bucket *s = bucket_of(b);

	/* If it is away, the calls that follow report it. */
	bucket_look_begin(s, names, bucket_ready(s, NULL) < 0 ? 0 : n);
}

static void bucket_look_over(struct blobs *b)
{
	bucket_look_end();
}

static int bucket_scan(struct blobs *b, struct str prefix, struct str after, size_t max, blob_scan_fn *fn,
		       void *arg, struct err *err)
{
	AUTO(mem_freep) char *from = mem_strndup(prefix.p, prefix.size);
	AUTO(mem_freep) char *past = after_name(after);
	struct blob_bucket *s = bucket_of(b);

	return bucket_ready(s, err) < 0 ? -1 : bucket_record_scan(s, from, past, max, fn, arg, err);
}

static int bucket_get_beside(struct blobs *b, const char *name, const struct blob_stamp *seen, size_t max,
			     struct buf *ret, struct err *err)
{
	struct blob_bucket *s = bucket_of(b);

	return bucket_ready(s, err) < 0 ? -1 : bucket_record_get_beside(s, name, seen, max, ret, err);
}

static int bucket_remove_beside(struct blobs *b, const char *name, const struct blob_stamp *seen,
				struct err *err)
{
	struct blob_bucket *s = bucket_of(b);

	return bucket_ready(s, err) < 0 ? -1 : bucket_record_remove_beside(s, name, seen, err);
}

/* ---- opening ---- */

static void bucket_close(struct blobs *b)
{
	struct blob_bucket *s = bucket_of(b);

	pthread_mutex_lock(&s->lock);
	while (s->n_threads)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	s->bucket->ops->close(s->bucket);
	uses_done(&s->used);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s->dir);
	free(s);
}

static const struct blobs_ops bucket_ops = {
	.staging = bucket_staging,
	.staging_done = bucket_staging_done,
	.staging_note = bucket_staging_note,
	.staging_expect = bucket_staging_expect,
	.notes = bucket_notes,
	.put_staged = bucket_put_staged,
	.put = bucket_put,
	.settle = bucket_settle,
	.settle_all = bucket_settle_all,
	.open = bucket_open,
	.get = bucket_get,
	.stat = bucket_stat,
	.touch = bucket_touch,
	.remove = bucket_remove,
	.collect = bucket_collect_all,
	.list = bucket_list,
	.look = bucket_look,
	.look_end = bucket_look_over,
	.scan = bucket_scan,
	.get_beside = bucket_get_beside,
	.remove_beside = bucket_remove_beside,
	.staged = bucket_staged,
	.sweep = bucket_sweep_all,
	.close = bucket_close,
};

/*
 * The first look at the marker. A mistake in the configuration is to be told at the start, but a bucket that hangs must not
 * delay that: so a thread looks, and the start waits for READY_WAIT_MS. Each operation looks again until one has succeeded.
 */
static void *first_look(void *arg)
{
	struct blob_bucket *s = arg;
	struct err why = { 0 };
	int r = bucket_ready(s, &why);
	bool late;

	pthread_mutex_lock(&s->lock);
	late = s->look_is_late;
	s->looked = true;
	s->look_err = why;
	pthread_mutex_unlock(&s->lock);
	if (late && r < 0 && !blob_is_away(&why))
		log_error("store", "no object can be read or put: %s", why.text);
	else if (late)
		log_info("store", "%s", r < 0 ? why.text : "the bucket answers");
	pthread_mutex_lock(&s->lock);
	s->n_threads--;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* As bucket_ready(), but in a bounded time. */
static int ready_soon(struct blob_bucket *s, struct err *err)
{
	int64_t until_ms = clock_mono_ms() + READY_WAIT_MS;
	pthread_t thread;
	int r = 0;

	s->n_threads = 1;
	if (pthread_create(&thread, NULL, first_look, s) != 0) {
		s->n_threads = 0;
		return bucket_ready(s, err);
	}
	pthread_detach(thread);
	pthread_mutex_lock(&s->lock);
	while (s->n_threads && clock_mono_ms() < until_ms)
		condition_wait(&s->changed, &s->lock, MAX(until_ms - clock_mono_ms(), INT64_C(1)));
	if (!s->looked) {
		s->look_is_late = true;
		r = bucket_failed(err, "no answer in %d s; the start goes on", READY_WAIT_MS / 1000);
	} else if (s->look_err.kind) {
		*err = s->look_err;
		r = -1;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

int blobs_open_bucket(struct bucket *bucket, const char *dir, bool create, struct blobs **ret,
		      struct err *err)
{
	AUTO(mem_freep) char *tmp = mem_printf("%s/tmp", dir);
	struct blob_bucket *s = NEW(struct blob_bucket);
	struct err why = { 0 };

	s->blobs = (struct blobs){ &bucket_ops, true };
	s->bucket = bucket;
	s->dir = mem_strdup(dir);
	s->create = create;
	pthread_mutex_init(&s->lock, NULL);
	condition_init(&s->changed);
	if (dir_make(dir, 0755, &why) < 0 || dir_make(tmp, 0755, &why) < 0 ||
	    (ready_soon(s, &why) < 0 && !blob_is_away(&why))) {
		bucket_close(&s->blobs);
		if (err)
			*err = why;
		return -1;
	}
	if (why.kind)
		log_warn("store", "the bucket is away: %s", why.text);
	*ret = &s->blobs;
	return 0;
}
