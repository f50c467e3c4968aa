/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver over the index: files on disk and members of packages. This file has the resolver's own state;
 * each request gets a connection and a struct work, and goes on in the file of its kind.
 */
#include "resolve/internal.h"

#include <stdlib.h>
#include "s3/s3.h"

#define MAP_CACHE      MIB(64)
#define SPAN_CACHE     MIB(256)
#define NAMES_CACHE    MIB(64)
#define CHECK_EVERY_MS 1000 /* between two checks for commits by other processes */

/* ---- ELF files ---- */

static int take_elf(void *arg, struct work *w, struct resolve_answer *ans, struct err *err)
{
	/*
	 * A file on disk was compared with its row of the index, which was made from the whole file. An object is compared
	 * by the first answer with its bytes.
	 */
	int r = ans->archive.size || s3_is_url(ans->file) ? candidate_check_head(w, &w->req->id, ans) : 0;

	if (r == 0)
		*(struct resolve_answer *)arg = *ans;
	return r;
}

static int debuginfo_find(struct work *w, struct resolve_answer *ret, struct err *err)
{
	return elf_find(w, &w->req->id, WHICH_DEBUG, (struct elf_visitor){ take_elf, ret }, err);
}

static int executable_find(struct work *w, struct resolve_answer *ret, struct err *err)
{
	return elf_find(w, &w->req->id, WHICH_EXECUTABLE, (struct elf_visitor){ take_elf, ret }, err);
}

static int (*const finders[RESOLVE_N_KINDS])(struct work *w, struct resolve_answer *ret, struct err *err) = {
	[RESOLVE_DEBUGINFO] = debuginfo_find,
	[RESOLVE_EXECUTABLE] = executable_find,
	[RESOLVE_SECTION] = section_find,
	[RESOLVE_SOURCE] = source_find,
};

/* ---- the seam ---- */

static struct resolver_index *resolver_index_of(struct resolver *r)
{
	return CONTAINER_OF(r, struct resolver_index, resolver);
}

/*
 * With the bytes of an object that are kept here; if they are damaged, or contradict the index, with those of the bucket, once.
 */
static int find_by_bytes(struct work *w, struct resolve_answer *ret, struct err *err)
{
	struct err why = { 0 };
	int res = finders[w->req->kind](w, ret, &why);
	bool damage = res < 0 && work_is_damage(&why);

	if (w->far && (damage || (res == RESOLVE_MISSING && w->doubt))) {
		w->again = true;
		w->doubt = false;
		w->failed = why = (struct err){ 0 };
		res = finders[w->req->kind](w, ret, &why);
	}
	if (res < 0 && err)
		*err = why;
	return res;
}

static int index_resolve(struct resolver *base, const struct resolve_request *req, struct resolve_wake wake,
			 struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	struct resolver_index *r = resolver_index_of(base);
	struct work w = { .r = r, .req = req, .wake = wake, .a = why->arena, .why = why };
	struct resolve_answer ans = { 0 };
	struct conn *conn;
	int res;

	if (req->dynsym)
		return RESOLVE_MISSING;
	if (conn_take(&r->conns, &conn, err) < 0)
		return -1;
	w.ix = conn->ix;
	res = find_by_bytes(&w, &ans, err);
	conn_give(&r->conns, conn);
	if (res == 0)
		*ret = ans;
	return res;
}

static bool index_unknown(struct resolver *base, const struct resolve_request *req)
{
	struct resolver_index *r = resolver_index_of(base);
	struct conn *conn;
	bool has;

	if (id_filter_lacks(r->ids, &req->id))
		return true;
	/* A reader of an in-memory database waits for its writer, which an HTTP thread must not do. */
	if (r->in_memory || conn_take(&r->conns, &conn, NULL) < 0)
		return false;
	has = index_has(conn->ix, &req->id);
	conn_give(&r->conns, conn);
	return !has;
}

static bool index_resolver_alias(struct resolver *base, const struct build_id *alias, struct build_id *ret)
{
	struct resolver_index *r = resolver_index_of(base);
	struct conn *conn;
	bool found;

	if (id_filter_lacks(r->ids, alias) || conn_take(&r->conns, &conn, NULL) < 0)
		return false;
	found = index_alias(conn->ix, alias, ret, NULL) == 0;
	conn_give(&r->conns, conn);
	return found;
}

static bool index_resolver_owns(struct resolver *base, const struct build_id *id)
{
	struct resolver_index *r = resolver_index_of(base);
	struct conn *conn;
	bool owns;

	if (id_filter_lacks(r->ids, id) || conn_take(&r->conns, &conn, NULL) < 0)
		return false;
	owns = index_owns(conn->ix, id);
	conn_give(&r->conns, conn);
	return owns;
}

static uint32_t index_resolver_flags(struct resolver *base, const struct build_id *id)
{
	struct resolver_index *r = resolver_index_of(base);
	AUTO(arena_done) struct arena a = { 0 };
	struct index_hit *hits = NULL;
	struct conn *conn;
	uint32_t flags = 0;
	size_t n = 0;

	if (id_filter_lacks(r->ids, id) || conn_take(&r->conns, &conn, NULL) < 0)
		return 0;
	arena_init(&a);
	if (index_find(conn->ix, id, &a, &hits, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++)
		flags |= hits[i].artifact.flags;
	conn_give(&r->conns, conn);
	return flags;
}

static int index_resolver_metadata(struct resolver *base, const struct index_metadata_query *q,
				   struct index_metadata_page *ret, struct err *err)
{
	struct resolver_index *r = resolver_index_of(base);
	struct conn *conn;
	int res;

	if (conn_take(&r->conns, &conn, err) < 0)
		return -1;
	res = index_metadata(conn->ix, q, ret, err);
	conn_give(&r->conns, conn);
	return res;
}

/*
 * Commits of this process count at once. Another process may write too (`lode scan` beside a passive server):
 * its commits are checked for every so often. Their effect is not known, so each of them invalidates all
 * cached answers.
 */
static void check_other_writers(struct resolver_index *r)
{
	int64_t now = clock_mono_ms(), next = atomic_load_explicit(&r->next_check_ms, memory_order_relaxed),
		version;

	if (r->in_memory || now < next ||
	    !atomic_compare_exchange_strong(&r->next_check_ms, &next, now + CHECK_EVERY_MS))
		return;
	pthread_mutex_lock(&r->watch_lock);
	if (index_version(r->watch, &version, NULL) == 0 && version != r->watch_version) {
		r->watch_version = version;
		atomic_fetch_add(&r->n_others, 1);
	}
	pthread_mutex_unlock(&r->watch_lock);
}

static uint64_t index_resolver_epoch(struct resolver *base)
{
	struct resolver_index *r = resolver_index_of(base);

	check_other_writers(r);
	return index_epoch() + atomic_load(&r->n_others);
}

static bool index_unfinished(struct resolver *base)
{
	struct resolver_index *r = resolver_index_of(base);

	return r->scan && r->unfinished(r->scan);
}

static int index_await(struct resolver *base, const struct resolve_request *req,
		       const struct resolve_patience *p, struct resolve_wake wake, struct err *err)
{
	struct resolver_index *r = resolver_index_of(base);
	AUTO(arena_done) struct arena a = { 0 };
	struct work w = { .r = r, .req = req, .wake = wake, .a = &a };
	struct conn *conn;
	int res;

	if (!r->scan || !r->unfinished(r->scan))
		return RESOLVE_MISSING;
	arena_init(&a);
	if (conn_take(&r->conns, &conn, err) < 0)
		return -1;
	w.ix = conn->ix;
	res = await_unread(&w, p, err);
	conn_give(&r->conns, conn);
	return res;
}

static struct str index_reading(struct resolver *base, const struct resolve_request *req, struct arena *a)
{
	struct resolver_index *r = resolver_index_of(base);
	struct scan_reading now;

	if (!r->scan || !r->unfinished(r->scan) || !r->reading(r->scan, &req->id, &now))
		return (struct str){ 0 };
	return str_of(arena_printf(a, "%s (%u %%)", now.name,
				   (unsigned)(100 * (double)now.done / (double)MAX(now.size, (uint64_t)1))));
}

static void index_resolver_close(struct resolver *base)
{
	struct resolver_index *r = resolver_index_of(base);

	id_filter_free(r->ids);
	index_close(r->watch);
	conns_done(&r->conns);
	lru_free(r->maps);
	map_done(&r->facts.whole);
	map_done(&r->facts.again);
	pthread_mutex_destroy(&r->facts.lock);
	lru_free(r->names);
	codec_cache_free(r->spans);
	pthread_mutex_destroy(&r->watch_lock);
	free(r->points_dir);
	for (size_t i = 0; i < r->n_source_roots; i++)
		free((void *)r->source_roots[i]);
	free(r->source_roots);
	free(r);
}

static const struct resolver_ops index_ops = {
	.resolve = index_resolve,
	.unknown = index_unknown,
	.alias = index_resolver_alias,
	.owns = index_resolver_owns,
	.flags = index_resolver_flags,
	.metadata = index_resolver_metadata,
	.epoch = index_resolver_epoch,
	.close = index_resolver_close,
	.unfinished = index_unfinished,
	.await = index_await,
	.reading = index_reading,
};

int resolve_index_open(const struct resolve_index_options *opts, struct resolver **ret, struct err *err)
{
	struct index_options read_only = { .read_only = true };
	struct resolver_index *r = NEW(struct resolver_index);

	if (index_open(opts->index_path, &read_only, &r->watch, err) < 0 ||
	    index_version(r->watch, &r->watch_version, err) < 0 ||
	    conns_init(&r->conns, opts->index_path, err) < 0) {
		index_close(r->watch);
		free(r->conns.path);
		free(r);
		return -1;
	}
	r->resolver.ops = &index_ops;
	r->points_dir = opts->points_dir ? mem_strdup(opts->points_dir) : NULL;
	r->fetch_points = opts->fetch_points;
	r->fetch_points_arg = opts->fetch_points_arg;
	r->scan = opts->scan;
	r->want = scan_want;
	r->partial = scan_partial;
	r->again = scan_again;
	r->seek = scan_seek;
	r->unfinished = scan_unfinished;
	r->progress = scan_progress;
	r->reading = scan_reading;
	pthread_mutex_init(&r->facts.lock, NULL);
	r->excludes = scan_excludes;
	r->helpers = opts->helpers;
	r->memory = opts->memory;
	r->source_any = opts->source_any;
	r->source_roots = NEW_N(const char *, opts->n_source_roots);
	r->n_source_roots = opts->n_source_roots;
	for (size_t i = 0; i < opts->n_source_roots; i++)
		r->source_roots[i] = mem_strdup(opts->source_roots[i]);
	r->in_memory = str_starts(str_of(opts->index_path), STR(":memory:"));
	pthread_mutex_init(&r->watch_lock, NULL);
	r->maps = mapped_lru(opts->map_cache_size ? opts->map_cache_size : MAP_CACHE);
	r->names = names_lru(opts->sources_cache_size ? opts->sources_cache_size : NAMES_CACHE);
	r->ids = id_filter_new(opts->index_path, r->watch);
	r->spans = codec_cache_new(opts->span_cache_size ? opts->span_cache_size : SPAN_CACHE);
	*ret = &r->resolver;
	return 0;
}
