/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in a bucket: each put of a name is a version of its own, an object that is never written again. The present one
 * is the one with the highest number, of two with the same number that with the higher id.
 *
 * A writer that replaces a version puts its own, and lists once more: if there is a version that was not there before, another
 * writer is at work, and it takes its own back. So of several writers that replace the same version at most one succeeds.
 * A writer that is killed may leave a version that it did not take back: a *rival* of the one that was acknowledged. Rivals
 * are not removed before the object is: they keep their contents.
 */
#include "store/bucket.h"

#include <stdio.h>
#include <stdlib.h>

#define READ_TRIES   4u
#define PAUSE_MAX_MS 2000
#define PAUSE_MIN_MS 400 /* less is no use at a distance */
/* A writer takes a version back within a moment. After this time it is taken for one that was killed. */
#define RIVAL_NS (INT64_C(10) * 1000000000)

struct version {
	char *name; /* of the object */
	struct version_name parts;
	uint64_t size;
	int64_t time_ns;
};

struct versions {
	struct version *v;
	size_t n, room;
};

static void versions_done(struct versions *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].name);
	free(l->v);
	*l = (struct versions){ 0 };
}

/* Other objects are left alone. */
static void version_add(struct versions *l, const struct bucket_item *item)
{
	struct version v = { .size = item->size, .time_ns = item->time_ns };
	size_t blob;

	if (!version_name_read(item->name, &v.parts, &blob))
		return;
	v.name = mem_strdup(item->name);
	VEC_PUSH(l->v, l->n, l->room) = v;
}

static int version_listed(void *arg, const struct bucket_item *item, struct err *err)
{
	version_add(arg, item);
	return 0;
}

static int versions_list(struct blob_bucket *s, const char *name, struct versions *ret, struct err *err)
{
	char prefix[BUCKET_NAME_SIZE];

	snprintf(prefix, sizeof(prefix), "%s!", name);
	return s->bucket->ops->list(s->bucket, prefix, "", version_listed, ret, err);
}

/* NULL: none. */
static const struct version *version_present(const struct versions *l)
{
	const struct version *best = NULL;

	for (size_t i = 0; i < l->n; i++) {
		const struct version_name *v = &l->v[i].parts;

		if (!best || v->seq > best->parts.seq ||
		    (v->seq == best->parts.seq && v->id > best->parts.id))
			best = &l->v[i];
	}
	return best;
}

static const struct version *version_of(const struct versions *l, uint64_t id)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].parts.id == id)
			return &l->v[i];
	return NULL;
}

static struct blob_stamp stamp_of(struct blob_bucket *s, const char *name, const struct version *v)
{
	return (struct blob_stamp){ v->parts.id, v->size, bucket_used_ns(s, name, v->time_ns) };
}

/* ---- putting ---- */

struct attempt {
	struct blob_bucket *s;
	const char *name;
	struct versions before;
	struct version_name own;
	char object[BUCKET_NAME_SIZE];
	int64_t from_ms;
};

static bool attempt_is_late(const struct attempt *a)
{
	return clock_mono_ms() - a->from_ms > BUCKET_RUN_MS;
}

/*
 * The version must not stay. After a long time it is left where it is: other writers may take it for one that stays by then.
 */
static int attempt_take_back(const struct attempt *a, struct err *err)
{
	struct bucket *b = a->s->bucket;

	if (attempt_is_late(a)) {
		(void)err_set(err, ERR_IO,
			      "%s: the bucket took too long: it is not known whether the object was put",
			      a->name);
		if (err)
			err->os = ENOTCONN;
		return -1;
	}
	return b->ops->remove(b, a->object, err);
}

/* Two writers that meet must not meet again and again. */
static void attempt_pause(const struct attempt *a)
{
	uint64_t took = (uint64_t)(clock_mono_ms() - a->from_ms);

	a->s->bucket->ops->pause(
		a->s->bucket,
		(unsigned)(random_id() % (MIN(2 * took + PAUSE_MIN_MS, (uint64_t)PAUSE_MAX_MS) + 1)));
}

/* BLOB_CHANGED: there is another version that was not there before. */
static int attempt_is_alone(const struct attempt *a, struct err *err)
{
	struct versions now = { 0 };
	int r = versions_list(a->s, a->name, &now, err);

	for (size_t i = 0; r == 0 && i < now.n; i++)
		if (now.v[i].parts.id != a->own.id && !version_of(&a->before, now.v[i].parts.id))
			r = BLOB_CHANGED;
	versions_done(&now);
	return r;
}

/*
 * Those that are replaced now, and those that they had replaced: but no rivals. What cannot be removed is removed with the
 * next version.
 */
static void attempt_remove_old(const struct attempt *a)
{
	struct bucket *b = a->s->bucket;
	uint64_t id = a->own.before;

	for (size_t i = 0; i < a->before.n && id; i++) {
		const struct version *v = version_of(&a->before, id);

		if (!v || b->ops->remove(b, v->name, NULL) < 0)
			return;
		id = v->parts.before;
	}
}

static int attempt_run(struct attempt *a, struct bytes content, struct err *err)
{
	struct bucket *b = a->s->bucket;
	int r;

	version_name_write(a->name, &a->own, a->object);
	r = b->ops->put(b, a->object, content, err);
	if (r < 0) {
		(void)b->ops->remove(b, a->object, NULL);
		return -1;
	}
	r = attempt_is_alone(a, err);
	if (r == 0 && a->own.content[0])
		r = bucket_content_holds(a->s, a->own.content, a->own.generation, err);
	if (r == 0 && attempt_is_late(a))
		return attempt_take_back(a, err);
	if (r < 0) {
		(void)attempt_take_back(a, NULL);
		return -1;
	}
	if (r)
		return attempt_take_back(a, err) < 0 ? -1 : r;
	attempt_remove_old(a);
	return 0;
}

/* Is there a version that the present one did not replace? Its writer may be about to take back the one or the other. */
static bool versions_are_contested(struct blob_bucket *s, const struct versions *l,
				   const struct version *present)
{
	int64_t from_ns = s->bucket->ops->now_ns(s->bucket) - RIVAL_NS;

	for (size_t i = 0; i < l->n; i++) {
		const struct version *v = present;

		for (size_t n = 0; v && v != &l->v[i] && n < l->n; n++)
			v = version_of(l, v->parts.before);
		if (v != &l->v[i] && (l->v[i].time_ns > from_ns || present->time_ns > from_ns))
			return true;
	}
	return false;
}

int bucket_record_put(struct blob_bucket *s, const char *name, struct bytes content, const char *needs,
		      const struct blob_stamp *expect, struct err *err)
{
	struct attempt a = { .s = s, .name = name, .from_ms = clock_mono_ms() };
	const struct version *present;
	struct generation g;
	int r = versions_list(s, name, &a.before, err);

	present = version_present(&a.before);
	if (r == 0 && expect->id != (present ? present->parts.id : 0))
		r = BLOB_CHANGED;
	if (r == 0 && versions_are_contested(s, &a.before, present)) {
		attempt_pause(&a);
		r = BLOB_CHANGED;
	}
	if (r == 0 && needs) {
		r = bucket_content_pick(s, needs, &g, err);
		r = r == BLOB_MISSING ? BLOB_UNMET : r;
	}
	if (r == 0) {
		a.own.id = random_id();
		a.own.seq = present ? present->parts.seq + 1 : 1;
		a.own.before = present ? present->parts.id : 0;
		if (needs) {
			snprintf(a.own.content, sizeof(a.own.content), "%s", needs);
			memcpy(a.own.generation, g.id, sizeof(g.id));
		}
		r = attempt_run(&a, content, err);
		if (r == BLOB_CHANGED)
			attempt_pause(&a);
	}
	versions_done(&a.before);
	return r;
}

/* ---- reading ---- */

/* The version that a listing reports now, for the function that it calls: that reads it next. */
static _Thread_local struct {
	const struct blob_bucket *s;
	const char *name;
	const struct version *v;
} reported;

static int version_get(struct blob_bucket *s, const char *name, const struct version *v, size_t max,
		       struct buf *ret, struct blob_stamp *ret_stamp, struct err *err)
{
	int r;

	ret->size = 0;
	r = s->bucket->ops->get(s->bucket, v->name, max, ret, err);
	if (r == 0) {
		*ret_stamp = stamp_of(s, name, v);
		ret_stamp->size = ret->size;
	}
	return r;
}

int bucket_record_get(struct blob_bucket *s, const char *name, size_t max, struct buf *ret,
		      struct blob_stamp *ret_stamp, struct err *err)
{
	if (reported.s == s && strcmp(reported.name, name) == 0) {
		int r = version_get(s, name, reported.v, max, ret, ret_stamp, err);

		if (r != BUCKET_MISSING)
			return r;
	}
	for (unsigned i = 0; i < READ_TRIES; i++) {
		struct versions l = { 0 };
		const struct version *v;
		int r = versions_list(s, name, &l, err);

		bool replaced = false;

		v = version_present(&l);
		if (r == 0 && !v)
			r = BLOB_MISSING;
		else if (r == 0) {
			r = version_get(s, name, v, max, ret, ret_stamp, err);
			replaced = r == BUCKET_MISSING;
		}
		versions_done(&l);
		if (!replaced)
			return r;
	}
	return err_set(err, ERR_BUSY, "%s: it is replaced again and again; try again", name);
}

int bucket_record_stat(struct blob_bucket *s, const char *name, struct blob_stamp *ret, struct err *err)
{
	struct versions l = { 0 };
	const struct version *v;
	int r = versions_list(s, name, &l, err);

	v = version_present(&l);
	if (r == 0 && v)
		*ret = stamp_of(s, name, v);
	r = r == 0 && !v ? BLOB_MISSING : r;
	versions_done(&l);
	return r;
}

/* ---- removing ---- */

/* The present one last, so that no earlier one becomes the present one. */
static int versions_remove(struct blob_bucket *s, const struct versions *l, const struct version *present,
			   struct err *err)
{
	struct bucket *b = s->bucket;

	for (size_t i = 0; i < l->n; i++)
		if (&l->v[i] != present && b->ops->remove(b, l->v[i].name, err) < 0)
			return -1;
	return b->ops->remove(b, present->name, err);
}

int bucket_record_remove(struct blob_bucket *s, const char *name, const struct blob_stamp *seen,
			 struct err *err)
{
	struct versions l = { 0 };
	const struct version *present;
	struct blob_stamp now;
	int r = versions_list(s, name, &l, err);

	present = version_present(&l);
	if (r == 0 && !present)
		r = BLOB_MISSING;
	if (r == 0) {
		now = stamp_of(s, name, present);
		if (seen && (now.id != seen->id || now.time_ns != seen->time_ns))
			r = BLOB_CHANGED;
		else
			r = versions_remove(s, &l, present, err);
	}
	versions_done(&l);
	return r;
}

/* ---- listing ---- */

struct record_walk {
	struct blob_bucket *s;
	char *name; /* of the blob whose versions come; NULL: none */
	struct versions versions;
	blob_list_fn *fn;
	void *arg;
};

/* All versions of a blob were listed. */
static int walk_report(struct record_walk *w, struct err *err)
{
	const struct version *v = version_present(&w->versions);
	struct blob_stamp stamp;
	int r = 0;

	if (v) {
		stamp = stamp_of(w->s, w->name, v);
		reported.s = w->s;
		reported.name = w->name;
		reported.v = v;
		r = w->fn(w->arg, w->name, &stamp, err);
		reported.s = NULL;
	}
	versions_done(&w->versions);
	mem_freep(&w->name);
	return r;
}

static int walk_item(void *arg, const struct bucket_item *item, struct err *err)
{
	struct record_walk *w = arg;
	const char *mark = strchr(item->name, '!');
	size_t n = mark ? (size_t)(mark - item->name) : 0;
	int r = 0;

	if (!mark)
		return 0;
	if (w->name && (strlen(w->name) != n || memcmp(w->name, item->name, n) != 0))
		r = walk_report(w, err);
	if (r)
		return r;
	if (!w->name)
		w->name = mem_strndup(item->name, n);
	version_add(&w->versions, item);
	return 0;
}

int bucket_record_list(struct blob_bucket *s, const char *prefix, const char *after, blob_list_fn *fn,
		       void *arg, struct err *err)
{
	struct record_walk w = { .s = s, .fn = fn, .arg = arg };
	int r = s->bucket->ops->list(s->bucket, prefix, after, walk_item, &w, err);

	if (r == 0 && w.name)
		r = walk_report(&w, err);
	versions_done(&w.versions);
	mem_freep(&w.name);
	return r;
}
