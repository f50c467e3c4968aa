/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents in a bucket: each put of a content is a generation of its own. All have the same bytes, by their name, unless one
 * was damaged: the latest one is read. A generation with a mark (bucket_collect.c) may be removed at any moment, and no new
 * record may rely on it.
 */
#include "store/bucket.h"

#include <stdio.h>
#include <stdlib.h>

#define OPEN_TRIES 3u

static void generation_of(const struct bucket_item *item, const char *id, struct generation *ret)
{
	*ret = (struct generation){ .size = item->size, .time_ns = item->time_ns };
	memcpy(ret->id, id, GENERATION_SIZE);
	snprintf(ret->etag, sizeof(ret->etag), "%s", item->etag);
}

/* ---- one content ---- */

struct generations {
	struct generation *v; /* the latest last */
	size_t n, room;
};

static void generations_done(struct generations *l)
{
	free(l->v);
}

static int generation_listed(void *arg, const struct bucket_item *item, struct err *err)
{
	char content[BLOB_CONTENT_NAME_SIZE], id[GENERATION_SIZE];
	struct generations *l = arg;

	if (!generation_name_read(item->name, content, id))
		return 0;
	if (l->n == BUCKET_VERSIONS_MAX)
		return bucket_too_many(err, item->name);
	generation_of(item, id, &VEC_PUSH(l->v, l->n, l->room));
	return 0;
}

static int generations_list(struct blob_bucket *s, const char *name, struct generations *ret, struct err *err)
{
	return bucket_look_list(s, name, generation_listed, ret, err);
}

/* BLOB_MISSING. */
static int generation_latest(struct blob_bucket *s, const char *name, struct generation *ret, struct err *err)
{
	AUTO(generations_done) struct generations l = { 0 };

	if (generations_list(s, name, &l, err) < 0)
		return -1;
	if (!l.n)
		return BLOB_MISSING;
	*ret = l.v[l.n - 1];
	return 0;
}

static struct blob_stamp content_stamp_of(struct blob_bucket *s, const char *name, const struct generation *g)
{
	return (struct blob_stamp){ hash64(g->id, sizeof(g->id), 0), g->size,
				    bucket_used_ns(s, name, g->time_ns) };
}

int bucket_content_stat(struct blob_bucket *s, const char *name, struct blob_stamp *ret, struct err *err)
{
	struct generation g;
	int r = generation_latest(s, name, &g, err);

	if (r == 0)
		*ret = content_stamp_of(s, name, &g);
	return r;
}

int bucket_content_open(struct blob_bucket *s, const char *name, struct source **ret, struct err *err)
{
	int r = BUCKET_MISSING;

	for (unsigned i = 0; i < OPEN_TRIES && r == BUCKET_MISSING; i++) {
		char object[BUCKET_NAME_SIZE];
		struct generation g;

		r = generation_latest(s, name, &g, err);
		if (r)
			return r;
		generation_name_write(name, g.id, object);
		r = s->bucket->ops->open(
			s->bucket, &(struct bucket_item){ object, g.size, g.time_ns, g.etag }, ret, err);
		if (r == BUCKET_MISSING)
			bucket_look_forget(s, name);
	}
	return r == BUCKET_MISSING ? BLOB_MISSING : r;
}

int bucket_content_there(struct blob_bucket *s, const char *name, const char *generation, struct err *err)
{
	char object[BUCKET_NAME_SIZE];
	uint64_t size;
	int r;

	generation_name_write(name, generation, object);
	r = s->bucket->ops->head(s->bucket, object, &size, err);
	return r == BUCKET_MISSING ? BLOB_MISSING : r;
}

/* ---- marks ---- */

struct marks {
	const struct generations *l;
	const char *name; /* of the content */
	bool *marked;
};

static int mark_listed(void *arg, const struct bucket_item *item, struct err *err)
{
	struct marks *m = arg;
	const char *id = strchr(item->name, '!');

	for (size_t i = 0; id && i < m->l->n; i++)
		m->marked[i] |= strncmp(id + 1, m->l->v[i].id, GENERATION_SIZE - 1) == 0;
	return 0;
}

/* Which of the generations are about to be removed? @marked: l->n values. */
static int marks_list(struct blob_bucket *s, const char *name, const struct generations *l, bool *marked,
		      struct err *err)
{
	struct marks m = { l, name, marked };
	char prefix[BUCKET_NAME_SIZE];

	snprintf(prefix, sizeof(prefix), "dying/%s!", name + 5);
	return s->bucket->ops->list(s->bucket, prefix, "", mark_listed, &m, err);
}

/* The latest without a mark. With the last generation of all, "" if there is none. BLOB_MISSING. */
static int generation_pick(struct blob_bucket *s, const char *name, struct generation *ret,
			   char ret_last[GENERATION_SIZE], struct err *err)
{
	AUTO(generations_done) struct generations l = { 0 };
	AUTO(mem_freep) bool *marked = NULL;

	ret_last[0] = 0;
	if (generations_list(s, name, &l, err) < 0)
		return -1;
	if (!l.n)
		return BLOB_MISSING;
	memcpy(ret_last, l.v[l.n - 1].id, GENERATION_SIZE);
	/* It was chosen before in this put: its marks are listed after the record is there. */
	if (bucket_look_is_own(s, name)) {
		*ret = l.v[0];
		return 0;
	}
	marked = mem_zalloc(l.n * sizeof(*marked));
	if (marks_list(s, name, &l, marked, err) < 0)
		return -1;
	for (size_t i = l.n; i-- > 0;)
		if (!marked[i]) {
			*ret = l.v[i];
			return 0;
		}
	return BLOB_MISSING;
}

int bucket_content_pick(struct blob_bucket *s, const char *name, struct generation *ret, struct err *err)
{
	char last[GENERATION_SIZE];

	return generation_pick(s, name, ret, last, err);
}

int bucket_content_next(struct blob_bucket *s, const char *name, struct generation *ret,
			char ret_next[GENERATION_SIZE], struct err *err)
{
	char last[GENERATION_SIZE];
	int r = generation_pick(s, name, ret, last, err);

	if (r == BLOB_MISSING)
		generation_make(last[0] ? last : NULL, ret_next);
	return r;
}

static int own_mark_listed(void *arg, const struct bucket_item *item, struct err *err)
{
	struct mark_search *m = arg;
	const char *id = strchr(item->name, '!');

	m->found |= id && strncmp(id + 1, m->generation, GENERATION_SIZE - 1) == 0;
	return 0;
}

void bucket_marks_listing(const char *name, struct mark_search *m, char prefix[BUCKET_NAME_SIZE],
			  struct bucket_listing *ret)
{
	snprintf(prefix, BUCKET_NAME_SIZE, "dying/%s!", name + 5);
	*ret = (struct bucket_listing){ .prefix = prefix, .fn = own_mark_listed, .arg = m };
}

/*
 * The record was there before the marks were listed. A collector that marks the generation after this listing lists the
 * records after it, and finds the record. A mark that is gone already was of one that may have removed the generation: so it
 * is looked for last.
 */
int bucket_content_stays(struct blob_bucket *s, const char *name, const struct mark_search *m,
			 struct err *err)
{
	int r;

	if (m->found)
		return BLOB_UNMET;
	r = bucket_content_there(s, name, m->generation, err);
	return r == BLOB_MISSING ? BLOB_UNMET : r;
}

/* ---- putting ---- */

/* As another generation after @last. */
static int content_put_parts(struct blob_bucket *s, const char *name, struct staging *staging,
			     const char *last, char ret_object[BUCKET_NAME_SIZE], struct err *err)
{
	int r = BLOB_CHANGED;

	if (staging->parts)
		r = bucket_parts_finish(staging->parts, name, last, staging->size, ret_object, err);
	if (r == BLOB_CHANGED) {
		char id[GENERATION_SIZE];

		generation_make(last[0] ? last : NULL, id);
		bucket_parts_drop(staging->parts, false);
		staging->parts = bucket_parts_new(s, staging, name, id, staging->size);
		r = bucket_parts_finish(staging->parts, name, "", staging->size, ret_object, err);
	}
	if (r == 0)
		bucket_parts_drop(TAKE(staging->parts), false);
	return r;
}

static int content_put_whole(struct blob_bucket *s, const char *name, struct staging *staging,
			     const char *last, char ret_object[BUCKET_NAME_SIZE], struct err *err)
{
	char id[GENERATION_SIZE];

	generation_make(last[0] ? last : NULL, id);
	generation_name_write(name, id, ret_object);
	return s->bucket->ops->put_file(s->bucket, ret_object, staging->fd, staging->size, err);
}

int bucket_content_put(struct blob_bucket *s, const char *name, struct staging *staging, bool keep,
		       struct err *err)
{
	char object[BUCKET_NAME_SIZE], last[GENERATION_SIZE];
	struct generation g;
	int r = generation_pick(s, name, &g, last, err);

	if (r < 0)
		return -1;
	if (r == 0 && keep && g.size == staging->size) {
		generation_name_write(name, g.id, object);
		bucket_look_put(s, name, object, g.size);
		bucket_note_used(s, name);
		return 0;
	}
	r = staging->size > BUCKET_PART_SIZE ? content_put_parts(s, name, staging, last, object, err)
					     : content_put_whole(s, name, staging, last, object, err);
	if (r == 0)
		bucket_look_put(s, name, object, staging->size);
	return r;
}

/* ---- listing ---- */

struct content_walk {
	struct blob_bucket *s;
	char name[BLOB_CONTENT_NAME_SIZE]; /* whose generations come; "": none */
	struct generation latest;
	blob_list_fn *fn;
	void *arg;
};

static int content_walk_report(struct content_walk *w, struct err *err)
{
	struct blob_stamp stamp;

	if (!w->name[0])
		return 0;
	stamp = content_stamp_of(w->s, w->name, &w->latest);
	return w->fn(w->arg, w->name, &stamp, err);
}

static int content_walk_item(void *arg, const struct bucket_item *item, struct err *err)
{
	char content[BLOB_CONTENT_NAME_SIZE], id[GENERATION_SIZE];
	struct content_walk *w = arg;

	if (!generation_name_read(item->name, content, id))
		return 0;
	if (strcmp(w->name, content) != 0) {
		int r = content_walk_report(w, err);

		if (r)
			return r;
		memcpy(w->name, content, sizeof(content));
	}
	generation_of(item, id, &w->latest);
	return 0;
}

int bucket_content_list(struct blob_bucket *s, const char *prefix, const char *after, blob_list_fn *fn,
			void *arg, struct err *err)
{
	struct content_walk w = { .s = s, .fn = fn, .arg = arg };
	int r = s->bucket->ops->list(s->bucket, prefix, after, content_walk_item, &w, err);

	return r ? r : content_walk_report(&w, err);
}
