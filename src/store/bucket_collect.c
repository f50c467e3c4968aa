/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing contents from a bucket.
 *
 * A collector puts its own mark on each generation, *then* lists all records, *then* removes the generations that none of them
 * needs, and then its marks. A writer puts its record, *then* lists the marks of its content, *then* looks whether the
 * generation is there. So either the collector's listing has the record, or the writer finds the mark, or finds that the
 * generation is gone, and puts the content again as another generation. A mark is removed by its maker alone, or when it is
 * so old that its maker has ended. After a removal that failed the mark stays until then: the server may carry it out later.
 *
 * The requests of a step are made side by side; a step begins when all those of the one before have ended.
 */
#include "store/bucket.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define LIST_EACH 20u /* up to so many contents are listed one by one */
#define SWEEP_MAX 1000u

struct candidate {
	char content[BLOB_CONTENT_NAME_SIZE], id[GENERATION_SIZE];
	size_t of; /* index of the garbage; NO_GARBAGE */
	bool marked, needed, stays;
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

static void collected_candidate_add(struct collection *c, const char *content, const char *id, size_t of)
{
	struct candidate *v = &VEC_PUSH(c->v, c->n, c->room);

	*v = (struct candidate){ .of = of };
	snprintf(v->content, sizeof(v->content), "%s", content);
	memcpy(v->id, id, GENERATION_SIZE);
}

/* ---- which generations may go ---- */

static int collected_generation_listed(void *arg, const struct bucket_item *item, struct err *err)
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
	collected_candidate_add(c, content, id, at - 1);
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
		return b->ops->list(b, "data/", "", collected_generation_listed, c, err);
	for (size_t i = 0; i < n && r == 0; i++) {
		char prefix[BUCKET_NAME_SIZE];

		snprintf(prefix, sizeof(prefix), "%s!", c->garbage[i].name);
		r = b->ops->list(b, prefix, "", collected_generation_listed, c, err);
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

/* ---- many requests at once ---- */

#define REQUESTS_MAX 64u

typedef int candidate_fn(struct collection *c, struct candidate *v, struct err *err);
struct each_candidate {
	struct collection *c;
	candidate_fn *fn;
	atomic_size_t next;
	atomic_bool failed;
	pthread_mutex_t lock;
	struct err why; /* under the lock: of the first failure */
};

static void *run_candidates(void *arg)
{
	struct each_candidate *e = arg;
	size_t i;

	while (!atomic_load(&e->failed) && (i = atomic_fetch_add(&e->next, 1)) < e->c->n) {
		struct err err = { 0 };

		if (e->fn(e->c, &e->c->v[i], &err) >= 0)
			continue;
		pthread_mutex_lock(&e->lock);
		if (!atomic_exchange(&e->failed, true))
			e->why = err;
		pthread_mutex_unlock(&e->lock);
	}
	return NULL;
}

/*
 * Each candidate by one request, as many at once as the bucket takes. When this returns, all of them have ended. After a
 * failure no more are begun.
 */
static int candidates_each(struct collection *c, candidate_fn *fn, struct err *err)
{
	struct each_candidate e = { .c = c, .fn = fn };
	pthread_t threads[REQUESTS_MAX];
	size_t n = 0;

	pthread_mutex_init(&e.lock, NULL);
	while (n + 1 < MIN(c->n, (size_t)MIN(c->s->bucket->n_reads, REQUESTS_MAX)) &&
	       pthread_create(&threads[n], NULL, run_candidates, &e) == 0)
		n++;
	run_candidates(&e);
	while (n)
		pthread_join(threads[--n], NULL);
	pthread_mutex_destroy(&e.lock);
	if (!atomic_load(&e.failed))
		return 0;
	if (err)
		*err = e.why;
	return -1;
}

/* ---- marks ---- */

static int mark_put(struct collection *c, struct candidate *v, struct err *err)
{
	struct bucket *b = c->s->bucket;
	char name[BUCKET_NAME_SIZE];

	if (collection_is_late(c))
		return 0;
	mark_name_write(v->content, v->id, c->id, name);
	v->marked = true;
	return b->ops->put(b, name, bytes_of("", 0), err);
}

static int marks_put(struct collection *c, struct err *err)
{
	size_t n = 0;

	if (candidates_each(c, mark_put, err) < 0)
		return -1;
	/* The rest with the next collection: those without a mark come last. */
	for (size_t i = 0; i < c->n; i++) {
		struct candidate v = c->v[i];

		if (!v.marked)
			continue;
		c->v[i] = c->v[n];
		c->v[n++] = v;
	}
	c->n = n;
	return 0;
}

static int mark_remove(struct collection *c, struct candidate *v, struct err *err)
{
	struct bucket *b = c->s->bucket;
	char name[BUCKET_NAME_SIZE];

	if (!v->marked || v->doubtful)
		return 0;
	mark_name_write(v->content, v->id, c->id, name);
	return b->ops->remove(b, name, err);
}

static void marks_remove(struct collection *c)
{
	/* After a failure: what is left is swept when it is old. */
	(void)candidates_each(c, mark_remove, NULL);
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

static int candidate_remove(struct collection *c, struct candidate *v, struct err *err)
{
	struct bucket *b = c->s->bucket;
	char name[BUCKET_NAME_SIZE];

	v->stays |= collection_is_late(c);
	if (v->stays)
		return 0;
	generation_name_write(v->content, v->id, name);
	if (b->ops->remove(b, name, err) >= 0)
		return 0;
	v->doubtful = true;
	return -1;
}

static int candidates_remove(struct collection *c, struct err *err)
{
	int r;

	for (size_t i = 0; i < c->n; i++)
		c->v[i].stays = candidate_is_needed(c, &c->v[i]);
	r = candidates_each(c, candidate_remove, err);
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].stays && c->v[i].of != NO_GARBAGE)
			c->garbage[c->v[i].of].outcome = BLOB_YOUNGER;
	return r;
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
		collected_candidate_add(c, content, c->last_id, NO_GARBAGE);
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
