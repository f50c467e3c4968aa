/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing contents from a bucket.
 *
 * A collector puts its own mark on each generation, *then* lists all records, *then* removes the generations that none of them
 * needs, and then its marks. A writer puts its record, *then* lists the marks of its content, *then* looks whether the
 * generation is there. So either the collector's listing has the record, or the writer finds the mark, or finds that the
 * generation is gone, and puts the content again as another generation. A mark is removed by its maker alone, or when it is
 * so old that its maker has ended. After a removal that failed the mark stays until then: the server may carry it out later.
 */
#include "store/bucket.h"

#include <stdio.h>
#include <stdlib.h>

#define LIST_EACH 20u /* up to so many contents are listed one by one */
#define SWEEP_MAX 1000u

struct candidate {
	char content[BLOB_CONTENT_NAME_SIZE], id[GENERATION_SIZE];
	size_t of; /* index of the garbage; NO_GARBAGE */
	bool marked, needed;
	bool doubtful; /* its removal failed, and may be carried out later: the mark stays until it is old */
};
#define NO_GARBAGE SIZE_MAX

struct collection {
	struct blob_bucket *s;
	struct blob_garbage *garbage;
	struct map by_name; /* garbage: index + 1 */
	int64_t not_after_ns, from_ms;
	bool exact;  /* a record keeps the generation that it names; else all generations of its content */
	uint64_t id; /* of the marks */
	struct candidate *v;
	size_t n, room;
	struct map wanted;                 /* names -> index + 1 of the first candidate of that name */
	char last[BLOB_CONTENT_NAME_SIZE]; /* of a sweep: the content of the generation before */
	char last_id[GENERATION_SIZE];
	int64_t last_ns;
};

static void collection_done(struct collection *c)
{
	map_done(&c->by_name);
	map_done(&c->wanted);
	free(c->v);
}

static void candidate_add(struct collection *c, const char *content, const char *id, size_t of)
{
	struct candidate *v = &VEC_PUSH(c->v, c->n, c->room);

	*v = (struct candidate){ .of = of };
	snprintf(v->content, sizeof(v->content), "%s", content);
	memcpy(v->id, id, GENERATION_SIZE);
}

/* ---- which generations may go ---- */

static int generation_listed(void *arg, const struct bucket_item *item, struct err *err)
{
	char content[BLOB_CONTENT_NAME_SIZE], id[GENERATION_SIZE];
	struct collection *c = arg;
	struct blob_garbage *g;
	size_t at;

	if (!generation_name_read(item->name, content, id))
		return 0;
	at = (size_t)(uintptr_t)map_get(&c->by_name, bytes_of(content, strlen(content)));
	if (!at)
		return 0;
	g = &c->garbage[at - 1];
	if (bucket_used_ns(c->s, content, item->time_ns) > c->not_after_ns)
		g->outcome = BLOB_YOUNGER;
	else if (g->outcome == BLOB_MISSING)
		g->outcome = 0;
	candidate_add(c, content, id, at - 1);
	return 0;
}

static int garbage_list(struct collection *c, size_t n, struct err *err)
{
	struct bucket *b = c->s->bucket;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		c->garbage[i].outcome = BLOB_MISSING;
		map_put(&c->by_name, bytes_of(c->garbage[i].name, strlen(c->garbage[i].name)),
			(void *)(uintptr_t)(i + 1));
	}
	if (n > LIST_EACH)
		return b->ops->list(b, "data/", "", generation_listed, c, err);
	for (size_t i = 0; i < n && r == 0; i++) {
		char prefix[BUCKET_NAME_SIZE];

		snprintf(prefix, sizeof(prefix), "%s!", c->garbage[i].name);
		r = b->ops->list(b, prefix, "", generation_listed, c, err);
	}
	return r;
}

/* Those of contents that are young stay. */
static void candidates_drop_young(struct collection *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		if (c->garbage[c->v[i].of].outcome == 0)
			c->v[n++] = c->v[i];
	c->n = n;
}

/* ---- the protocol ---- */

static bool collection_is_late(const struct collection *c)
{
	return clock_mono_ms() - c->from_ms > BUCKET_RUN_MS;
}

static int marks_put(struct collection *c, struct err *err)
{
	struct bucket *b = c->s->bucket;

	for (size_t i = 0; i < c->n; i++) {
		char name[BUCKET_NAME_SIZE];

		if (collection_is_late(c)) {
			/* The rest with the next collection. */
			c->n = i;
			return 0;
		}
		mark_name_write(c->v[i].content, c->v[i].id, c->id, name);
		c->v[i].marked = true;
		if (b->ops->put(b, name, bytes_of("", 0), err) < 0)
			return -1;
	}
	return 0;
}

static void marks_remove(struct collection *c)
{
	struct bucket *b = c->s->bucket;

	for (size_t i = 0; i < c->n && c->v[i].marked; i++) {
		char name[BUCKET_NAME_SIZE];

		if (c->v[i].doubtful)
			continue;
		mark_name_write(c->v[i].content, c->v[i].id, c->id, name);
		if (b->ops->remove(b, name, NULL) < 0)
			return; /* what is left is swept when it is old */
	}
}

static void wanted_name(const struct collection *c, const char *content, const char *id,
			char out[BUCKET_NAME_SIZE])
{
	if (c->exact)
		generation_name_write(content, id, out);
	else
		snprintf(out, BUCKET_NAME_SIZE, "%s", content);
}

static int record_listed(void *arg, const struct bucket_item *item, struct err *err)
{
	struct collection *c = arg;
	char name[BUCKET_NAME_SIZE];
	struct version_name v;
	size_t blob, at;

	if (!version_name_read(item->name, &v, &blob) || !v.content[0])
		return 0;
	wanted_name(c, v.content, v.generation, name);
	at = (size_t)(uintptr_t)map_get(&c->wanted, bytes_of(name, strlen(name)));
	if (at)
		c->v[at - 1].needed = true;
	return 0;
}

static bool candidate_is_needed(const struct collection *c, const struct candidate *v)
{
	char name[BUCKET_NAME_SIZE];
	size_t at;

	wanted_name(c, v->content, v->id, name);
	at = (size_t)(uintptr_t)map_get(&c->wanted, bytes_of(name, strlen(name)));
	return !at || c->v[at - 1].needed;
}

/* The records first, then those of earlier versions: an object that is replaced meanwhile is found there. */
static int records_list(struct collection *c, struct err *err)
{
	struct bucket *b = c->s->bucket;
	char name[BUCKET_NAME_SIZE];
	int r;

	for (size_t i = 0; i < c->n; i++) {
		wanted_name(c, c->v[i].content, c->v[i].id, name);
		if (!map_get(&c->wanted, bytes_of(name, strlen(name))))
			map_put(&c->wanted, bytes_of(name, strlen(name)), (void *)(uintptr_t)(i + 1));
	}
	r = b->ops->list(b, "keys/", "", record_listed, c, err);
	return r ? r : b->ops->list(b, "past/", "", record_listed, c, err);
}

static int candidates_remove(struct collection *c, struct err *err)
{
	struct bucket *b = c->s->bucket;

	for (size_t i = 0; i < c->n; i++) {
		char name[BUCKET_NAME_SIZE];
		bool stays = candidate_is_needed(c, &c->v[i]) || collection_is_late(c);

		if (stays && c->v[i].of != NO_GARBAGE)
			c->garbage[c->v[i].of].outcome = BLOB_YOUNGER;
		if (stays)
			continue;
		generation_name_write(c->v[i].content, c->v[i].id, name);
		if (b->ops->remove(b, name, err) < 0) {
			c->v[i].doubtful = true;
			return -1;
		}
	}
	return 0;
}

static int collection_run(struct collection *c, struct err *err)
{
	int r = 0;

	if (!c->n)
		return 0;
	c->id = random_id();
	c->from_ms = clock_mono_ms();
	r = marks_put(c, err);
	if (r == 0)
		r = records_list(c, err);
	if (r == 0)
		r = candidates_remove(c, err);
	marks_remove(c);
	return r;
}

int bucket_collect(struct blob_bucket *s, struct blob_garbage *v, size_t n, int64_t not_after_ns,
		   struct err *err)
{
	AUTO(collection_done) struct collection c = { .s = s, .garbage = v, .not_after_ns = not_after_ns };
	size_t before;
	int r = garbage_list(&c, n, err);

	if (r == 0) {
		candidates_drop_young(&c);
		before = c.n;
		r = collection_run(&c, err);
		for (size_t i = c.n; i < before; i++)
			v[c.v[i].of].outcome = BLOB_YOUNGER;
	}
	/* Of what was not done, nothing is known. */
	for (size_t i = 0; r < 0 && i < n; i++)
		v[i].outcome = BLOB_YOUNGER;
	return r;
}

/* ---- what is left over ---- */

/* A generation with a later one after it, both old. */
static int left_generation(void *arg, const struct bucket_item *item, struct err *err)
{
	char content[BLOB_CONTENT_NAME_SIZE], id[GENERATION_SIZE];
	struct collection *c = arg;

	if (!generation_name_read(item->name, content, id))
		return 0;
	if (strcmp(content, c->last) == 0 && c->last_ns < c->not_after_ns &&
	    item->time_ns < c->not_after_ns && c->n < SWEEP_MAX)
		candidate_add(c, content, c->last_id, NO_GARBAGE);
	memcpy(c->last, content, sizeof(content));
	memcpy(c->last_id, id, sizeof(id));
	c->last_ns = item->time_ns;
	return 0;
}

static int left_mark(void *arg, const struct bucket_item *item, struct err *err)
{
	const struct collection *c = arg;
	struct bucket *b = c->s->bucket;

	return item->time_ns < c->not_after_ns ? b->ops->remove(b, item->name, err) : 0;
}

int bucket_sweep(struct blob_bucket *s, struct err *err)
{
	struct bucket *b = s->bucket;
	AUTO(collection_done)
	struct collection c = { .s = s, .exact = true, .not_after_ns = b->ops->now_ns(b) - BUCKET_OLD_NS };

	if (b->ops->list(b, "dying/", "", left_mark, &c, err) < 0 ||
	    b->ops->list(b, "data/", "", left_generation, &c, err) < 0)
		return -1;
	return collection_run(&c, err);
}
