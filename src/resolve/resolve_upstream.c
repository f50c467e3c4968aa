/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver over other servers. remote.c handles a single artifact.
 */
#include "resolve/internal.h"

#include <assert.h>
#include <stdlib.h>

#define KEEPERS     1
#define KEEP_QUEUED 256

static struct resolver_upstream *upstream_of(struct resolver *r)
{
	return CONTAINER_OF(r, struct resolver_upstream, resolver);
}

static void ignore_wake(void *arg)
{
}

/* A debug file is here and lacks the section: then other files of this build ID lack it too. elfutils' server
 * decides the same way, and debuggers ask for sections that few files have. */
static bool is_here_without_section(struct resolver_upstream *u, const struct resolve_request *req,
				    struct arena *a)
{
	struct resolve_request file = { .kind = RESOLVE_DEBUGINFO, .id = req->id };
	struct resolve_answer ans = { 0 };
	struct resolve_why why;
	struct err err = { 0 };

	if (req->kind != RESOLVE_SECTION || !u->opts.before)
		return false;
	resolve_why_init(&why, a);
	if (resolve_unknown(u->opts.before, &file) ||
	    resolve(u->opts.before, &file, (struct resolve_wake){ ignore_wake, NULL }, &ans, &why, &err) != 0)
		return false;
	source_close(ans.source);
	return true;
}

static int upstream_resolve(struct resolver *base, const struct resolve_request *req,
			    struct resolve_wake wake, struct resolve_answer *ret, struct resolve_why *why,
			    struct err *err)
{
	struct resolver_upstream *u = upstream_of(base);

	if (req->not_further) {
		resolve_why_add(why, STR("other servers"), "%s", req->not_further);
		return RESOLVE_MISSING;
	}
	if (req->dynsym || is_here_without_section(u, req, why->arena))
		return RESOLVE_MISSING;
	return remote_find(u, req, wake, ret, why, err);
}

static void upstream_close(struct resolver *base)
{
	struct resolver_upstream *u = upstream_of(base);

	atomic_store(&u->closing, true);
	if (u->keepers)
		pool_free(u->keepers);
	/* Net is freed, and so are all fetches; sources that are still open remain. */
	pthread_mutex_lock(&u->lock);
	while (u->n_remotes)
		pthread_cond_wait(&u->gone, &u->lock);
	pthread_mutex_unlock(&u->lock);
	map_done(&u->remotes);
	lru_free(u->misses);
	questions_free(u->questions);
	name_hints_free(u->hints);
	pthread_mutex_destroy(&u->lock);
	pthread_cond_destroy(&u->gone);
	arena_done(&u->arena);
	free(u);
}

static struct str upstream_reading(struct resolver *base, const struct resolve_request *req, struct arena *a)
{
	return remote_reading(upstream_of(base), req, a);
}

static void upstream_name_hint(struct resolver *base, const struct build_id *id, struct str file,
			       enum resolve_hint by)
{
	struct resolver_upstream *u = upstream_of(base);

	if (u->hints)
		name_hints_put(u->hints, id, file, by);
}

static const struct resolver_ops ops = {
	.resolve = upstream_resolve,
	.close = upstream_close,
	.name_hint = upstream_name_hint,
	.reading = upstream_reading,
};

int resolve_upstream_open(const struct resolve_upstream_options *opts, struct resolver **ret, struct err *err)
{
	struct resolver_upstream *u;
	const char **urls, *plain;

	if (dir_make(opts->spool_dir, 0700, err) < 0)
		return -1;
	u = NEW(struct resolver_upstream);
	u->resolver.ops = &ops;
	u->opts = *opts;
	arena_init(&u->arena);
	urls = ARENA_NEW_N(&u->arena, const char *, opts->n_urls + 1);
	for (size_t i = 0; i < opts->n_urls; i++)
		urls[i] = arena_strdup(&u->arena, str_of(opts->urls[i]));
	u->opts.urls = urls;
	for (size_t i = 0; i < opts->n_urls; i++)
		u->by_name = u->by_name || net_url_layout(urls[i], &plain) == NET_SSQP;
	if (u->by_name)
		u->hints = name_hints_new();
	u->opts.spool_dir = arena_strdup(&u->arena, str_of(opts->spool_dir));
	u->misses = miss_cache_new();
	u->questions = questions_new(opts->max_misses);
	pthread_mutex_init(&u->lock, NULL);
	pthread_cond_init(&u->gone, NULL);
	if (opts->store)
		u->keepers = pool_new("lode-keep", KEEPERS, KEEP_QUEUED);
	*ret = &u->resolver;
	return 0;
}

void resolve_upstream_stats(struct resolver *r, struct resolve_upstream_stats *ret)
{
	struct resolver_upstream *u = upstream_of(r);

	assert(r->ops == &ops);
	*ret = (struct resolve_upstream_stats){
		.n_asked = atomic_load(&u->n_asked),
		.n_found = atomic_load(&u->n_found),
		.n_missing = atomic_load(&u->n_missing),
		.n_failed = atomic_load(&u->n_failed),
		.n_remembered = atomic_load(&u->n_remembered),
		.n_over = atomic_load(&u->n_over),
		.n_stored = atomic_load(&u->n_stored),
		.n_not_stored = atomic_load(&u->n_not_stored),
		.bytes = atomic_load(&u->bytes),
	};
}

bool resolve_upstream_question(struct resolver *r, uint32_t client)
{
	assert(r->ops == &ops);
	return remote_question(upstream_of(r), client);
}

void resolve_upstream_forget(struct resolver *r, const struct build_id *id)
{
	assert(r->ops == &ops);
	remote_forget(upstream_of(r), id);
}
