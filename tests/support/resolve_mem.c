/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents are kept until resolve_close(), even when replaced, so that a source may outlive a second put.
 */
#include "resolve_mem.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdlib.h>

#define KEY_MAX_ARG 8192u

struct mem_waiter {
	struct resolve_wake wake;
	struct mem_waiter *next;
};

struct mem_entry {
	enum resolve_kind kind;
	struct build_id id;
	char *arg;
	enum { ENTRY_WAITING, ENTRY_HERE, ENTRY_FAILS } state;
	struct bytes content; /* owned by the resolver's list of contents */
	char *file, *archive;
	int64_t mtime;
	struct err why;
	struct mem_waiter *waiters;
	struct mem_entry *next; /* in the order of the first put */
};

struct mem_content {
	void *p;
	struct mem_content *next;
};

struct resolver_mem {
	struct resolver resolver;
	pthread_mutex_t lock;
	/* under the lock */
	struct map map, ids; /* whole key -> entry; build ID -> any entry */
	struct mem_entry *entries, **last;
	struct mem_content *contents;
	uint64_t epoch;
	bool unfinished;
};

static void mem_key(enum resolve_kind kind, const struct build_id *id, struct str arg, struct buf *ret)
{
	buf_add_char(ret, (char)kind);
	buf_add_char(ret, (char)id->size);
	buf_add(ret, id->b, id->size);
	buf_add_str(ret, arg);
}

/* Under the lock. */
static struct mem_entry *mem_entry_find(struct resolver_mem *m, enum resolve_kind kind,
					const struct build_id *id, struct str arg)
{
	AUTO(buf_done) struct buf key = { 0 };

	mem_key(kind, id, arg, &key);
	return map_get(&m->map, buf_bytes(&key));
}

/* Under the lock. */
static struct mem_entry *mem_entry_make(struct resolver_mem *m, enum resolve_kind kind,
					const struct build_id *id, struct str arg)
{
	AUTO(buf_done) struct buf key = { 0 };
	struct mem_entry *e = mem_entry_find(m, kind, id, arg);

	if (e) {
		m->epoch++;
		return e;
	}
	e = NEW(struct mem_entry);
	e->kind = kind;
	e->id = *id;
	e->arg = mem_strndup(arg.p, arg.size);
	mem_key(kind, id, arg, &key);
	map_put(&m->map, buf_bytes(&key), e);
	map_put(&m->ids, build_id_bytes(id), e);
	*m->last = e;
	m->last = &e->next;
	return e;
}

static struct mem_waiter *mem_waiters_take(struct mem_entry *e)
{
	return TAKE(e->waiters);
}

/* Without the lock: a wake may call resolve() at once. */
static void mem_waiters_wake(struct mem_waiter *w)
{
	while (w) {
		struct mem_waiter *next = w->next;

		w->wake.fn(w->wake.arg);
		free(w);
		w = next;
	}
}

static int mem_resolve(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
		       struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	struct resolver_mem *m = CONTAINER_OF(r, struct resolver_mem, resolver);
	struct mem_waiter *w;
	struct mem_entry *e;
	int result = 0;

	pthread_mutex_lock(&m->lock);
	e = req->arg.size <= KEY_MAX_ARG ? mem_entry_find(m, req->kind, &req->id, req->arg) : NULL;
	if (!e) {
		bool known = map_get(&m->ids, build_id_bytes(&req->id)) != NULL;

		resolve_why_add(why, STR("memory"),
				known ? "has that build ID, but not this" : "no such build ID");
		result = RESOLVE_MISSING;
	} else if (e->state == ENTRY_WAITING && req->not_further) {
		resolve_why_add(why, STR("memory"), "%s", req->not_further);
		result = RESOLVE_MISSING;
	} else if (e->state == ENTRY_WAITING) {
		w = NEW(struct mem_waiter);
		*w = (struct mem_waiter){ wake, e->waiters };
		e->waiters = w;
		result = RESOLVE_WAIT;
	} else if (e->state == ENTRY_FAILS) {
		if (err)
			*err = e->why;
		result = -1;
	} else {
		*ret = (struct resolve_answer){
			.source = source_of_mem(e->content, e->file),
			.file = arena_str(why->arena, str_of(e->file)),
			.archive = arena_str(why->arena, str_of(e->archive)),
			.mtime = e->mtime,
			.tag = hash64(e->content.p, e->content.size, 0),
		};
		ret->source->mtime = e->mtime;
	}
	pthread_mutex_unlock(&m->lock);
	return result;
}

static bool mem_unknown(struct resolver *r, const struct resolve_request *req)
{
	struct resolver_mem *m = CONTAINER_OF(r, struct resolver_mem, resolver);
	bool unknown;

	pthread_mutex_lock(&m->lock);
	unknown = !map_get(&m->ids, build_id_bytes(&req->id));
	pthread_mutex_unlock(&m->lock);
	return unknown;
}

static bool metadata_matches(const struct mem_entry *e, struct str key, const char *value)
{
	char hex[BUILD_ID_HEX_SIZE];

	if (e->state != ENTRY_HERE || (e->kind != RESOLVE_DEBUGINFO && e->kind != RESOLVE_EXECUTABLE))
		return false;
	if (str_eq(key, STR("file")))
		return strcmp(e->file, value) == 0;
	if (str_eq(key, STR("glob")))
		return fnmatch(value, e->file, FNM_PATHNAME) == 0;
	return strcmp(build_id_hex(&e->id, hex), value) == 0;
}

static int mem_metadata(struct resolver *r, const struct index_metadata_query *q,
			struct index_metadata_page *ret, struct err *err)
{
	struct resolver_mem *m = CONTAINER_OF(r, struct resolver_mem, resolver);
	AUTO(mem_freep) char *z = mem_strndup(q->value.p, q->value.size);
	uint64_t skip = 0, n = 0;
	int result = 0;

	ret->complete = true;
	ret->next.size = 0;
	if (!str_eq(q->key, STR("file")) && !str_eq(q->key, STR("glob")) && !str_eq(q->key, STR("buildid")))
		return err_set(err, ERR_INVALID, "unknown key \"" STR_FMT "\"", STR_ARG(q->key));
	if (q->cursor.size && !str_to_u64(q->cursor, &skip))
		return err_set(err, ERR_INVALID, "bad cursor");
	pthread_mutex_lock(&m->lock);
	ret->complete = !m->unfinished;
	for (struct mem_entry *e = m->entries; e && !result; e = e->next) {
		struct index_metadata found;

		if (!metadata_matches(e, q->key, z) || n++ < skip)
			continue;
		if (n > skip + q->max) {
			buf_printf(&ret->next, "%llu", (unsigned long long)(skip + q->max));
			break;
		}
		if (q->deadline_mono_ms && clock_mono_ms() >= q->deadline_mono_ms) {
			ret->complete = false;
			break;
		}
		found = (struct index_metadata){
			.debuginfo = e->kind == RESOLVE_DEBUGINFO,
			.build_id = e->id,
			.file = str_of(e->file),
			.archive = str_of(e->archive),
		};
		result = q->fn(q->arg, &found);
	}
	pthread_mutex_unlock(&m->lock);
	return result;
}

static uint64_t mem_epoch(struct resolver *r)
{
	struct resolver_mem *m = CONTAINER_OF(r, struct resolver_mem, resolver);
	uint64_t epoch;

	pthread_mutex_lock(&m->lock);
	epoch = m->epoch;
	pthread_mutex_unlock(&m->lock);
	return epoch;
}

static bool mem_unfinished(struct resolver *r)
{
	struct resolver_mem *m = CONTAINER_OF(r, struct resolver_mem, resolver);
	bool unfinished;

	pthread_mutex_lock(&m->lock);
	unfinished = m->unfinished;
	pthread_mutex_unlock(&m->lock);
	return unfinished;
}

static void mem_close(struct resolver *r)
{
	struct resolver_mem *m = CONTAINER_OF(r, struct resolver_mem, resolver);

	for (struct mem_entry *e = m->entries, *next; e; e = next) {
		next = e->next;
		mem_waiters_wake(mem_waiters_take(e));
		free(e->arg);
		free(e->file);
		free(e->archive);
		free(e);
	}
	for (struct mem_content *c = m->contents, *next; c; c = next) {
		next = c->next;
		free(c->p);
		free(c);
	}
	map_done(&m->map);
	map_done(&m->ids);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

struct resolver *resolve_mem_new(void)
{
	static const struct resolver_ops ops = { mem_resolve, mem_unknown, mem_metadata,
						 mem_epoch,   mem_close,   mem_unfinished };
	struct resolver_mem *m = NEW(struct resolver_mem);

	m->resolver.ops = &ops;
	m->last = &m->entries;
	pthread_mutex_init(&m->lock, NULL);
	return &m->resolver;
}

void resolve_mem_put(struct resolver *r, enum resolve_kind kind, const struct build_id *id, struct str arg,
		     struct bytes content, struct str file, struct str archive, int64_t mtime)
{
	struct resolver_mem *m = CONTAINER_OF(r, struct resolver_mem, resolver);
	struct mem_content *c = NEW(struct mem_content);
	struct mem_waiter *w;
	struct mem_entry *e;

	c->p = mem_alloc(content.size ? content.size : 1);
	if (content.size)
		memcpy(c->p, content.p, content.size);
	pthread_mutex_lock(&m->lock);
	c->next = m->contents;
	m->contents = c;
	e = mem_entry_make(m, kind, id, arg);
	e->state = ENTRY_HERE;
	e->content = bytes_of(c->p, content.size);
	free(e->file);
	free(e->archive);
	e->file = mem_strndup(file.p, file.size);
	e->archive = mem_strndup(archive.p, archive.size);
	e->mtime = mtime;
	w = mem_waiters_take(e);
	pthread_mutex_unlock(&m->lock);
	mem_waiters_wake(w);
}

void resolve_mem_put_waiting(struct resolver *r, enum resolve_kind kind, const struct build_id *id,
			     struct str arg)
{
	struct resolver_mem *m = CONTAINER_OF(r, struct resolver_mem, resolver);

	pthread_mutex_lock(&m->lock);
	mem_entry_make(m, kind, id, arg)->state = ENTRY_WAITING;
	pthread_mutex_unlock(&m->lock);
}

void resolve_mem_set_unfinished(struct resolver *r, bool unfinished)
{
	struct resolver_mem *m = CONTAINER_OF(r, struct resolver_mem, resolver);

	pthread_mutex_lock(&m->lock);
	m->unfinished = unfinished;
	pthread_mutex_unlock(&m->lock);
}

void resolve_mem_fail(struct resolver *r, enum resolve_kind kind, const struct build_id *id, struct str arg,
		      const struct err *why)
{
	struct resolver_mem *m = CONTAINER_OF(r, struct resolver_mem, resolver);
	struct mem_waiter *w;
	struct mem_entry *e;

	pthread_mutex_lock(&m->lock);
	e = mem_entry_make(m, kind, id, arg);
	e->state = ENTRY_FAILS;
	e->why = *why;
	w = mem_waiters_take(e);
	pthread_mutex_unlock(&m->lock);
	mem_waiters_wake(w);
}
