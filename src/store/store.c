/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a store; its list of objects, and its figures.
 */
#include "base/background.h"
#include "store/internal.h"

#include <stdlib.h>
#include "base/condition.h"
#include "s3/s3.h"
#include "store/bucket.h"

struct store *store_open_blobs(struct blobs *blobs, const struct store_options *opts)
{
	struct store *st = NEW(struct store);

	st->blobs = blobs;
	known_init(&st->known, blobs->remote);
	st->opts = *opts;
	st->settle_ns = STORE_SETTLE_NS;
	st->opened_s = clock_wall_s();
	if (!st->opts.level)
		st->opts.level = STORE_LEVEL;
	atomic_init(&st->usage, -1);
	pthread_mutex_init(&st->room, NULL);
	pthread_mutex_init(&st->work_lock, NULL);
	condition_init(&st->work_changed);
	if (opts->object_list)
		st->objects = object_list_new();
	if (opts->maintain) {
		if (!blobs->remote)
			st->pack = pack_new(st);
		st->maintain = maintain_start(st);
		if (!blobs->remote) {
			pack_start(st->pack);
			st->scrub = scrub_start(st);
		}
	}
	return st;
}

/* Put a cache in front of *ret. */
static int open_cache_of(const struct store_options *opts, struct blobs **ret, struct err *err)
{
	AUTO(mem_freep) char *dir = mem_printf("%s/cache", opts->local_dir);
	const struct blob_cache_options o = { .dir = dir, .budget = opts->cache_size, .room = opts->room };

	return blobs_open_cache(*ret, &o, ret, err);
}

/* A bucket, with its staging files in a folder of this machine. */
static int open_in_bucket(const char *url, const struct store_options *opts, struct blobs **ret,
			  struct err *err)
{
	struct bucket *bucket;

	if (!opts->local_dir)
		return err_set(err, ERR_INVALID, "%s: no local folder for its staging files", url);
	if (bucket_open_s3(url, &bucket, err) < 0)
		return -1;
	if (blobs_open_bucket(bucket, opts->local_dir, opts->create, ret, err) < 0)
		return err_in(err, "%s", url);
	return opts->cache_size ? open_cache_of(opts, ret, err) : 0;
}

static int hold_listed(void *arg, const struct store_held *h)
{
	AUTO(buf_done) struct buf name = { 0 };
	struct store *st = arg;

	store_record_name(&h->object.key, &name);
	if (!h->refused)
		object_list_put(st->objects, buf_cstr(&name), &h->object.key, &h->object.meta);
	return 0;
}

/* Pushes that are held, and the thread that puts them. */
static int open_hold(struct store *st, const char *url, struct err *err)
{
	if (hold_open(st->opts.local_dir, url, st->opts.hold_size, hold_listed, st, &st->hold, err) < 0)
		return -1;
	if (st->hold)
		st->putter = hold_putter_start(st);
	return 0;
}

int store_open(const char *dir, const struct store_options *opts, struct store **ret, struct err *err)
{
	struct blobs *blobs = NULL;

	if (sha256_load(err) < 0 ||
	    (s3_is_url(str_of(dir)) ? open_in_bucket(dir, opts, &blobs, err)
				    : blobs_open_dir(dir, opts->create, &blobs, err)) < 0)
		return err_in(err, "store");
	*ret = store_open_blobs(blobs, opts);
	if (blobs->remote && opts->maintain && open_hold(*ret, dir, err) < 0) {
		store_close(TAKE(*ret));
		return err_in(err, "store");
	}
	return 0;
}

struct store *store_open_memory(const struct store_options *opts)
{
	return store_open_blobs(blobs_open_memory(), opts);
}

void store_close(struct store *st)
{
	if (!st)
		return;
	hold_putter_stop(st->putter);
	background_stop(st->scrub);
	pack_stop(st->pack);
	maintain_stop(st->maintain);
	pack_free(st->pack);
	object_list_free(st->objects);
	pthread_cond_destroy(&st->work_changed);
	pthread_mutex_destroy(&st->work_lock);
	pthread_mutex_destroy(&st->room);
	hold_close(st->hold);
	st->blobs->ops->close(st->blobs);
	known_done(&st->known);
	if (st->has_clock)
		age_clock_close(&st->clock);
	free(st);
}

/* ---- the object list ---- */

/* Without a maintenance thread the first query walks. */
static int object_list_fill(struct store *st, struct err *err)
{
	struct refs refs;

	if (st->maintain || object_list_is_complete(st->objects))
		return 0;
	if (refs_count(st, &refs, NULL, NULL, err) < 0)
		return -1;
	refs_done(&refs);
	return 0;
}

int store_names(struct store *st, const struct store_names_query *q, struct arena *a, struct store_names *ret,
		struct err *err)
{
	*ret = (struct store_names){ 0 };
	if (!st->objects)
		return 0;
	if (object_list_fill(st, err) < 0)
		return -1;
	object_list_names(st->objects, q, a, ret);
	return 0;
}

void store_latest(struct store *st, enum store_origin origin, size_t max, struct arena *a,
		  struct store_known **ret, size_t *ret_n)
{
	*ret_n = 0;
	if (st->objects)
		object_list_latest(st->objects, origin, max, a, ret, ret_n);
}

bool store_owns(struct store *st, const struct build_id *id)
{
	static const enum store_kind kinds[] = { STORE_EXECUTABLE, STORE_DEBUGINFO };
	AUTO(arena_done) struct arena a = { 0 };
	struct store_meta ignored;

	arena_init(&a);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (store_find(st, &(struct store_key){ *id, kinds[i], { 0 } }, &a, &ignored, NULL) == 0)
			return true;
	return false;
}

bool store_alias(struct store *st, const struct build_id *alias, struct build_id *ret)
{
	struct build_id key;

	if (!st->objects || !object_list_alias(st->objects, alias, &key) || store_owns(st, alias))
		return false;
	*ret = key;
	return true;
}

bool store_complete(struct store *st, struct bytes start, struct build_id *ret)
{
	return st->objects && object_list_complete(st->objects, start, ret);
}

size_t store_refused(struct store *st, struct arena *a, struct store_object *ret, size_t max)
{
	return hold_refused(st->hold, a, ret, max);
}

void store_figures(struct store *st, struct store_figures *ret)
{
	struct blob_cache_figures cache = { 0 };

	*ret = (struct store_figures){ .all = false };
	if (st->objects)
		object_list_figures(st->objects, ret);
	pack_figures(st->pack, &ret->n_waiting, &ret->waiting);
	ret->used_known = store_usage(st, &ret->used);
	ret->quota = st->opts.quota;
	ret->remote = st->blobs->remote;
	hold_figures(st->hold, ret);
	(void)blobs_cache_figures(st->blobs, &cache);
	ret->cache_size = cache.size;
	ret->cache_max = cache.budget;
	ret->n_cached = cache.n_kept;
	ret->n_opened = cache.n_kept + cache.n_fetched + cache.n_passed;
}
