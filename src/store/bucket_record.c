/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in a bucket: each put of a name is a version of its own, an object that is never written again. The present one
 * is the one with the highest number, of two with the same number that with the higher id, *of those whose content is there*.
 *
 * A writer that replaces a version puts its own, and lists once more: if there is a version that was not there before, another
 * writer is at work, and it takes its own back. So of several writers that replace the same version at most one succeeds.
 * A writer that is killed, or that gives up waiting for the answer to its put, which is carried out later, may leave a
 * version that it did not take back: a *rival* of the one that was acknowledged. Rivals keep their contents; those that are
 * old are removed by the collector (gc.c), which keeps their records as earlier versions.
 *
 * The content of a version that was carried out late may have been collected before: no listing of records had the
 * version. It was never acknowledged, since its writer would have looked for the content. So it is passed over.
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
static int version_add(struct versions *l, const struct bucket_item *item, struct err *err)
{
	struct version v = { .size = item->size, .time_ns = item->time_ns };
	size_t blob;

	if (!version_name_read(item->name, &v.parts, &blob))
		return 0;
	if (l->n == BUCKET_VERSIONS_MAX)
		return bucket_too_many(err, item->name);
	v.name = mem_strdup(item->name);
	VEC_PUSH(l->v, l->n, l->room) = v;
	return 0;
}

static int version_listed(void *arg, const struct bucket_item *item, struct err *err)
{
	return version_add(arg, item, err);
}

static int versions_list(struct blob_bucket *s, const char *name, struct versions *ret, struct err *err)
{
	return bucket_look_list(s, name, version_listed, ret, err);
}

static int version_cmp(const void *a, const void *b)
{
	const struct version_name *x = &((const struct version *)a)->parts,
				  *y = &((const struct version *)b)->parts;

	if (x->seq != y->seq)
		return x->seq > y->seq ? -1 : 1;
	return x->id == y->id ? 0 : x->id > y->id ? -1 : 1;
}

/*
 * The present version, NULL if there is none. The versions are sorted, the highest first. Of a single one nothing is asked:
 * there is no other to be taken in its place.
 */
static int versions_choose(struct blob_bucket *s, struct versions *l, const struct version **ret,
			   struct err *err)
{
	*ret = l->n ? l->v : NULL;
	if (l->n < 2)
		return 0;
	qsort(l->v, l->n, sizeof(*l->v), version_cmp);
	for (size_t i = 0; i < l->n; i++) {
		const struct version_name *v = &l->v[i].parts;
		int r = v->content[0] ? bucket_content_there(s, v->content, v->generation, err) : 0;

		if (r < 0)
			return -1;
		if (r == 0) {
			*ret = &l->v[i];
			return 0;
		}
	}
	return 0;
}

/* All versions of a name, and the present one. */
static int versions_of(struct blob_bucket *s, const char *name, struct versions *ret,
		       const struct version **ret_present, struct err *err)
{
	*ret_present = NULL;
	return versions_list(s, name, ret, err) < 0 ? -1 : versions_choose(s, ret, ret_present, err);
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
		return bucket_failed(
			err, "%s: the bucket took too long: it is not known whether the object was put",
			a->name);
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

/*
 * The version was put. BLOB_CHANGED: there is another one that was not there before. BLOB_UNMET: the content may not stay.
 * The own one has to be listed: a server may have said that it has taken it, with an error in the body of its answer. The
 * marks may be listed at the same time as the versions: both only have to begin after the put.
 */
static int record_attempt_check(const struct attempt *a, struct err *err)
{
	struct mark_search marks = { .generation = a->own.generation };
	char versions_prefix[BUCKET_NAME_SIZE], marks_prefix[BUCKET_NAME_SIZE];
	bool has_content = a->own.content[0];
	struct bucket *b = a->s->bucket;
	struct versions now = { 0 };
	struct bucket_listing v[2] = { { .prefix = versions_prefix, .fn = version_listed, .arg = &now } };
	int r = 0;

	snprintf(versions_prefix, sizeof(versions_prefix), "%s!", a->name);
	if (has_content)
		bucket_marks_listing(a->own.content, &marks, marks_prefix, &v[1]);
	b->ops->list_all(b, v, has_content ? 2 : 1);
	for (size_t i = 0; i < 2 && r == 0; i++)
		if (v[i].r < 0) {
			r = -1;
			if (err)
				*err = v[i].err;
		}
	for (size_t i = 0; r == 0 && i < now.n; i++)
		if (now.v[i].parts.id != a->own.id && !version_of(&a->before, now.v[i].parts.id))
			r = BLOB_CHANGED;
	if (r == 0 && !version_of(&now, a->own.id))
		r = bucket_failed(err, "%s: the bucket has taken it, but does not list it", a->object);
	if (r == 0 && has_content)
		r = bucket_content_stays(a->s, a->own.content, &marks, err);
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
	r = record_attempt_check(a, err);
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

/* Is @v the present version, or one that it replaced? */
static bool version_is_in_chain(const struct versions *l, const struct version *present,
				const struct version *v)
{
	for (size_t n = 0; present && present != v && n < l->n; n++)
		present = version_of(l, present->parts.before);
	return present == v;
}

/* Is there a version that the present one did not replace? Its writer may be about to take back the one or the other. */
static bool versions_are_contested(struct blob_bucket *s, const struct versions *l,
				   const struct version *present, int64_t age_ns)
{
	/* Of the time when they were listed: since then the one or the other may have been taken back. */
	int64_t from_ns = s->bucket->ops->now_ns(s->bucket) - age_ns - RIVAL_NS;

	for (size_t i = 0; i < l->n; i++)
		if (!version_is_in_chain(l, present, &l->v[i]) &&
		    (l->v[i].time_ns > from_ns || present->time_ns > from_ns))
			return true;
	return false;
}

int bucket_record_put(struct blob_bucket *s, const char *name, struct bytes content, const char *needs,
		      const struct blob_stamp *expect, struct err *err)
{
	struct attempt a = { .s = s, .name = name, .from_ms = clock_mono_ms() };
	const struct version *present;
	struct generation g;
	int64_t age_ns = bucket_look_age_ns(s, name);
	int r = versions_of(s, name, &a.before, &present, err);

	if (r == 0 && expect->id != (present ? present->parts.id : 0))
		r = BLOB_CHANGED;
	if (r == 0 && versions_are_contested(s, &a.before, present, age_ns)) {
		attempt_pause(&a);
		r = BLOB_CHANGED;
	}
	if (r == 0 && needs) {
		r = bucket_content_pick(s, needs, &g, err);
		r = r == BLOB_MISSING ? BLOB_UNMET : r;
	}
	if (r == 0) {
		a.own.id = random_id();
		/* Higher than those that were passed over, too: their contents may be put again. */
		a.own.seq = a.before.n ? a.before.v[0].parts.seq + 1 : 1;
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
	if (r == 0)
		bucket_look_put(s, name, a.object, content.size);
	else
		bucket_look_forget(s, name);
	if (r && needs)
		bucket_look_forget(s, needs);
	return r;
}

/* ---- reading ---- */

static int version_get(struct blob_bucket *s, const char *name, const struct version *v, size_t max,
		       struct buf *ret, struct blob_stamp *ret_stamp, struct err *err)
{
	int r;

	ret->size = 0;
	r = s->bucket->ops->get(s->bucket, v->name, max, ret, err);
	if (r)
		return r;
	if (ret->size != v->size)
		return bucket_lies(err, v->name, ret->size, v->size);
	*ret_stamp = stamp_of(s, name, v);
	return 0;
}

int bucket_record_get(struct blob_bucket *s, const char *name, size_t max, struct buf *ret,
		      struct blob_stamp *ret_stamp, struct err *err)
{
	for (unsigned i = 0; i < READ_TRIES; i++) {
		struct versions l = { 0 };
		const struct version *v;
		int r = versions_of(s, name, &l, &v, err);
		bool replaced = false;

		if (r == 0 && !v)
			r = BLOB_MISSING;
		else if (r == 0) {
			r = version_get(s, name, v, max, ret, ret_stamp, err);
			replaced = r == BUCKET_MISSING;
		}
		versions_done(&l);
		if (!replaced)
			return r;
		bucket_look_forget(s, name);
	}
	return err_set(err, ERR_BUSY, "%s: it is replaced again and again; try again", name);
}

int bucket_record_stat(struct blob_bucket *s, const char *name, struct blob_stamp *ret, struct err *err)
{
	struct versions l = { 0 };
	const struct version *v;
	int r = versions_of(s, name, &l, &v, err);

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
	int r;

	bucket_look_forget(s, name);
	r = versions_of(s, name, &l, &present, err);
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

int bucket_record_get_beside(struct blob_bucket *s, const char *name, const struct blob_stamp *seen,
			     size_t max, struct buf *ret, struct err *err)
{
	struct versions l = { 0 };
	const struct version *v;
	struct blob_stamp stamp;
	int r = versions_list(s, name, &l, err);

	v = version_of(&l, seen->id);
	if (r == 0)
		r = v ? version_get(s, name, v, max, ret, &stamp, err) : BLOB_MISSING;
	versions_done(&l);
	return r == BUCKET_MISSING ? BLOB_MISSING : r;
}

int bucket_record_remove_beside(struct blob_bucket *s, const char *name, const struct blob_stamp *seen,
				struct err *err)
{
	struct versions l = { 0 };
	const struct version *present, *v;
	int r = versions_of(s, name, &l, &present, err);

	v = version_of(&l, seen->id);
	if (r == 0 && !v)
		r = BLOB_MISSING;
	else if (r == 0 && v == present)
		r = BLOB_CHANGED;
	else if (r == 0)
		r = s->bucket->ops->remove(s->bucket, v->name, err);
	versions_done(&l);
	return r;
}

/* ---- listing ---- */

struct version_walk {
	struct blob_bucket *s;
	char *name; /* of the blob whose versions come; NULL: none */
	struct versions versions;
	bucket_version_fn *fn;
	void *arg;
};

/* Is its writer gone for sure, and that of the present one? */
static bool version_is_old(struct blob_bucket *s, const struct version *present, const struct version *v)
{
	int64_t before_ns = s->bucket->ops->now_ns(s->bucket) - BUCKET_OLD_NS;

	return present->time_ns < before_ns && v->time_ns < before_ns;
}

static enum blob_place version_place(struct blob_bucket *s, const struct versions *l,
				     const struct version *present, const struct version *v)
{
	if (v == present)
		return BLOB_PRESENT;
	if (!version_is_old(s, present, v))
		return BLOB_BESIDE;
	return version_is_in_chain(l, present, v) ? BLOB_REPLACED : BLOB_RIVAL;
}

/* All versions of a blob were listed: report the present one, then the others. */
static int walk_report(struct version_walk *w, struct err *err)
{
	struct versions *l = &w->versions;
	const struct version *present;
	int r = versions_choose(w->s, l, &present, err);

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		const struct version *v = i ? &l->v[i] : present;

		if (i && v == present)
			v = l->v; /* their places are exchanged */
		r = w->fn(w->arg,
			  &(struct bucket_version){ w->name, v->name, stamp_of(w->s, w->name, v),
						    version_place(w->s, l, present, v) },
			  err);
	}
	versions_done(l);
	mem_freep(&w->name);
	return r;
}

static int walk_item(void *arg, const struct bucket_item *item, struct err *err)
{
	struct version_walk *w = arg;
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
	return version_add(&w->versions, item, err);
}

int bucket_version_list(struct blob_bucket *s, const char *prefix, const char *after, bucket_version_fn *fn,
			void *arg, struct err *err)
{
	struct version_walk w = { .s = s, .fn = fn, .arg = arg };
	int r = s->bucket->ops->list(s->bucket, prefix, after, walk_item, &w, err);

	if (r == 0 && w.name)
		r = walk_report(&w, err);
	versions_done(&w.versions);
	mem_freep(&w.name);
	return r;
}

struct record_list {
	blob_list_fn *fn;
	void *arg;
};

static int present_listed(void *arg, const struct bucket_version *v, struct err *err)
{
	struct record_list *l = arg;

	return v->place == BLOB_PRESENT ? l->fn(l->arg, v->name, &v->stamp, err) : 0;
}

int bucket_record_list(struct blob_bucket *s, const char *prefix, const char *after, blob_list_fn *fn,
		       void *arg, struct err *err)
{
	struct record_list l = { fn, arg };

	return bucket_version_list(s, prefix, after, present_listed, &l, err);
}
