/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs that are far away, with a cache of whole contents on this machine. Contents never change, and a record that is there
 * has its content: so a content that is cached is opened without a question to the other side, also while that cannot be
 * reached, and a raw one can be mapped. All else passes through.
 *
 * Records are asked for each time, since others write them. Only while the other side cannot be reached, a record that was
 * there at most BLOB_CACHE_RECORD_S ago is answered from memory. That one is missing is never answered so.
 */
#include "store/blob.h"

#include <stdlib.h>
#include <string.h>
#include "base/condition.h"
#include "base/flight.h"
#include "base/lru.h"
#include "base/metrics.h"
#include "base/pool.h"
#include "store/blob_files.h"
#include "store/internal.h"

#define FRAMED_MAX   MIB(64) /* larger contents in frames are read by ranges */
#define RECORDS_SIZE MIB(16)
#define FETCH_TRIES  2 /* bytes that were damaged on their way */
#define OPEN_TRIES   4 /* a file may be evicted before it is opened */
#define N_EPOCHS     256u

static const struct metric_family reads_family = {
	.name = "lode_store_cache_reads_total",
	.help = "Contents of a store in a bucket that were opened, by where: on disk (kept), fetched and "
		"kept "
		"(fetched), in the bucket by ranges (passed).",
	.type = METRIC_COUNTER,
	.labels = "where",
};
static const struct metric_family stale_family = {
	.name = "lode_store_cache_stale_records_total",
	.help = "Records of a store in a bucket that were answered from memory, as the bucket could not be "
		"reached.",
	.type = METRIC_COUNTER,
	.labels = "",
};
static const struct metric_family size_family = {
	.name = "lode_store_cache_bytes",
	.help = "Bytes of contents that are kept from a store in a bucket.",
	.type = METRIC_GAUGE,
	.labels = "",
};

struct blob_cache {
	struct blobs blobs;
	struct blobs *under;
	struct file_cache *files;
	uint64_t budget;
	struct flight_table *fetches;
	struct lru *records;
	_Atomic uint64_t n_kept, n_fetched, n_passed, n_stale;
	/* Of names: it changes with each change of a record by this process, so that an answer from before is not kept. */
	atomic_uint epochs[N_EPOCHS];
};

static struct blob_cache *blob_cache_of(struct blobs *b)
{
	return CONTAINER_OF(b, struct blob_cache, blobs);
}

static bool is_blob_content(const char *name)
{
	return str_starts(str_of(name), STORE_DATA);
}

static struct bytes name_bytes(const char *name)
{
	return bytes_of(name, strlen(name));
}

/* ---- fetching: one thread does, the others wait ---- */

/* FETCH_THERE: a file was there, and is whole. */
enum fetch_outcome { FETCH_RUNS, FETCH_THERE, FETCH_KEPT, FETCH_PASS, FETCH_MISSING, FETCH_FAILED };

struct fetch {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	unsigned refs;
	enum fetch_outcome outcome;
	struct err err; /* of FETCH_FAILED */
};

static void *fetch_new(void *arg)
{
	struct fetch *f = NEW(struct fetch);

	pthread_mutex_init(&f->lock, NULL);
	condition_init(&f->changed);
	f->refs = 1;
	return f;
}

static void blob_fetch_take(void *p)
{
	struct fetch *f = p;

	pthread_mutex_lock(&f->lock);
	f->refs++;
	pthread_mutex_unlock(&f->lock);
}

static void fetch_put(struct fetch *f)
{
	unsigned left;

	pthread_mutex_lock(&f->lock);
	left = --f->refs;
	pthread_mutex_unlock(&f->lock);
	if (left)
		return;
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* Fetch and keep the content. @ret is set with FETCH_PASS. */
static enum fetch_outcome content_fetch(struct blob_cache *c, const char *name, struct source **ret,
					struct err *err)
{
	bool raw = !str_ends(str_of(name), STR(".zst"));
	int r = -1;

	for (unsigned i = 0; i < FETCH_TRIES; i++) {
		AUTO(source_closep) struct source *src = NULL;

		r = c->under->ops->open(c->under, name, &src, err);
		if (r > 0)
			return FETCH_MISSING;
		if (r == 0)
			r = raw || src->size <= FRAMED_MAX ? blob_files_keep(c->files, name, src, err)
							   : FILE_CACHE_NONE;
		if (r == FILE_CACHE_NONE) {
			*ret = TAKE(src);
			return FETCH_PASS;
		}
		if (r == 0)
			return FETCH_KEPT;
		if (!content_is_damaged(err))
			break;
	}
	(void)err_in(err, "%s", name);
	return FETCH_FAILED;
}

static enum fetch_outcome fetch_lead(struct blob_cache *c, const char *name, struct source **ret,
				     struct err *err)
{
	struct blob_stamp stamp;

	blob_files_check(c->files, name);
	/* It was checked, or kept by a leader before this one. */
	if (blob_files_has(c->files, name, &stamp))
		return FETCH_THERE;
	return content_fetch(c, name, ret, err);
}

/* The outcome, of this thread's work or another's. @ret may be set with FETCH_PASS. */
static enum fetch_outcome fetch_share(struct blob_cache *c, const char *name, struct source **ret,
				      struct err *err)
{
	enum fetch_outcome outcome;
	struct err why = { 0 };
	struct fetch *f;
	bool leads;

	f = flight_join(c->fetches, name_bytes(name), fetch_new, NULL, blob_fetch_take, &leads);
	if (leads) {
		outcome = fetch_lead(c, name, ret, &why);
		flight_land(c->fetches, name_bytes(name));
		pthread_mutex_lock(&f->lock);
		f->outcome = outcome;
		f->err = why;
		pthread_cond_broadcast(&f->changed);
	} else {
		pthread_mutex_lock(&f->lock);
		while (f->outcome == FETCH_RUNS)
			pool_condition_wait(&f->changed, &f->lock);
		outcome = f->outcome;
		why = f->err;
	}
	pthread_mutex_unlock(&f->lock);
	fetch_put(f);
	if (outcome == FETCH_FAILED && err)
		*err = why;
	return outcome;
}

static int cache_open(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	struct blob_cache *c = blob_cache_of(b);
	struct source *src = NULL;
	bool fetched = false;

	if (!is_blob_content(name))
		return c->under->ops->open(c->under, name, ret, err);
	for (unsigned i = 0; i < OPEN_TRIES; i++) {
		enum fetch_outcome outcome;
		int r = blob_files_read(c->files, name, ret);

		if (r == 0) {
			metric_count(&reads_family, fetched ? "fetched" : "kept");
			atomic_fetch_add(fetched ? &c->n_fetched : &c->n_kept, 1);
			return 0;
		}
		outcome = fetch_share(c, name, &src, err);
		fetched |= outcome == FETCH_KEPT;
		if (outcome == FETCH_MISSING)
			return BLOB_MISSING;
		if (outcome == FETCH_FAILED)
			return -1;
		if (outcome == FETCH_PASS)
			break;
	}
	/* Or the files are evicted faster than they can be opened. */
	metric_count(&reads_family, "passed");
	atomic_fetch_add(&c->n_passed, 1);
	if (!src)
		return c->under->ops->open(c->under, name, ret, err);
	*ret = src;
	return 0;
}

static int cache_stat(struct blobs *b, const char *name, struct blob_stamp *ret, struct err *err)
{
	struct blob_cache *c = blob_cache_of(b);

	if (is_blob_content(name) && blob_files_has(c->files, name, ret))
		return 0;
	return c->under->ops->stat(c->under, name, ret, err);
}

/* ---- records ---- */

struct kept_record {
	struct buf text;
	struct blob_stamp stamp;
	int64_t at_ms;
};

static void kept_record_free(void *p)
{
	struct kept_record *k = p;

	buf_done(&k->text);
	free(k);
}

static atomic_uint *epoch_of(struct blob_cache *c, const char *name)
{
	return &c->epochs[hash64(name, strlen(name), 0) % N_EPOCHS];
}

/* This process changes it. Before and after: an answer that is under way may be of either version. */
static void record_forget(struct blob_cache *c, const char *name)
{
	atomic_fetch_add(epoch_of(c, name), 1);
	lru_del(c->records, name_bytes(name));
}

static void record_keep(struct blob_cache *c, const char *name, struct bytes text,
			const struct blob_stamp *stamp, unsigned epoch)
{
	struct kept_record *k = NEW(struct kept_record);

	buf_add(&k->text, text.p, text.size);
	k->stamp = *stamp;
	k->at_ms = clock_mono_ms();
	lru_del(c->records, name_bytes(name));
	lru_unref(c->records, lru_put(c->records, name_bytes(name), k, text.size + strlen(name) + 200));
	if (atomic_load(epoch_of(c, name)) != epoch)
		lru_del(c->records, name_bytes(name));
}

/* The record as it was, if that is not long ago. */
static bool record_recall(struct blob_cache *c, const char *name, size_t max, struct buf *ret,
			  struct blob_stamp *ret_stamp)
{
	struct lru_ref *ref = lru_get(c->records, name_bytes(name));
	const struct kept_record *k = ref ? lru_value(ref) : NULL;
	bool fresh = k && clock_mono_ms() - k->at_ms <= BLOB_CACHE_RECORD_S * INT64_C(1000) &&
		     k->text.size <= max;

	if (fresh) {
		ret->size = 0;
		buf_add(ret, k->text.p, k->text.size);
		*ret_stamp = k->stamp;
		atomic_fetch_add(&c->n_stale, 1);
		metric_count(&stale_family);
	}
	lru_unref(c->records, ref);
	return fresh;
}

/*
 * Looks of this thread, of which a put makes one: what it is about to say, that these bytes are there, is true of the
 * bucket as it is now, or not known. Another node may have removed the record that is remembered.
 */
static _Thread_local unsigned looks;

static int cache_get(struct blobs *b, const char *name, size_t max, struct buf *ret,
		     struct blob_stamp *ret_stamp, struct err *err)
{
	struct blob_cache *c = blob_cache_of(b);
	unsigned epoch = atomic_load(epoch_of(c, name));
	struct err why = { 0 };
	int r = c->under->ops->get(c->under, name, max, ret, ret_stamp, &why);

	if (r == 0 && !is_blob_content(name))
		record_keep(c, name, buf_bytes(ret), ret_stamp, epoch);
	else if (r > 0)
		lru_del(c->records, name_bytes(name));
	if (r >= 0 || (!looks && blob_is_away(&why) && record_recall(c, name, max, ret, ret_stamp)))
		return MAX(r, 0);
	if (err)
		*err = why;
	return -1;
}

static int cache_put(struct blobs *b, const char *name, struct bytes content, const char *needs,
		     const struct blob_stamp *expect, struct err *err)
{
	struct blob_cache *c = blob_cache_of(b);
	int r;

	record_forget(c, name);
	r = c->under->ops->put(c->under, name, content, needs, expect, err);
	record_forget(c, name);
	return r;
}

static int cached_blob_remove(struct blobs *b, const char *name, const struct blob_stamp *seen,
			      struct err *err)
{
	struct blob_cache *c = blob_cache_of(b);
	int r;

	record_forget(c, name);
	r = c->under->ops->remove(c->under, name, seen, err);
	record_forget(c, name);
	if (is_blob_content(name) && (r == 0 || r == BLOB_MISSING))
		blob_files_forget(c->files, name);
	return r;
}

/* ---- contents that change ---- */

/* A raw content is mapped soon, by the process that made it. A failure costs a fetch. */
static void staged_keep(struct blob_cache *c, const char *name, const struct staging *s)
{
	AUTO(source_closep) struct source *src = NULL;
	struct blob_stamp stamp;

	if (str_ends(str_of(name), STR(".zst")) || blob_files_has(c->files, name, &stamp) ||
	    staging_source(s, name, &src, NULL) < 0)
		return;
	(void)blob_files_keep(c->files, name, src, NULL);
}

static int cache_put_staged(struct blobs *b, const char *name, struct staging *s, bool keep, struct err *err)
{
	struct blob_cache *c = blob_cache_of(b);
	int r = c->under->ops->put_staged(c->under, name, s, keep, err);

	if (r || !is_blob_content(name))
		return r;
	/* Without @keep the caller knows the present bytes to be damaged. */
	if (!keep)
		blob_files_forget(c->files, name);
	staged_keep(c, name, s);
	return 0;
}

static int cache_collect(struct blobs *b, struct blob_garbage *v, size_t n, int64_t not_after_ns,
			 struct err *err)
{
	struct blob_cache *c = blob_cache_of(b);
	int r = c->under->ops->collect(c->under, v, n, not_after_ns, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (v[i].outcome != BLOB_YOUNGER)
			blob_files_forget(c->files, v[i].name);
	return r;
}

/* ---- what passes through ---- */

static int cache_staging(struct blobs *b, struct str name, struct staging *ret, struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->staging(u, name, ret, err);
}

static void cache_staging_done(struct blobs *b, struct staging *s, bool keep)
{
	struct blobs *u = blob_cache_of(b)->under;

	u->ops->staging_done(u, s, keep);
}

static int cache_staging_note(struct blobs *b, struct staging *s, const struct staging_note *note,
			      struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->staging_note(u, s, note, err);
}

static void cache_staging_expect(struct blobs *b, struct staging *s, const char *name, uint64_t all)
{
	struct blobs *u = blob_cache_of(b)->under;

	if (u->ops->staging_expect)
		u->ops->staging_expect(u, s, name, all);
}

static int cache_notes(struct blobs *b, int (*fn)(void *arg, const struct staging_note *note), void *arg,
		       struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->notes(u, fn, arg, err);
}

static int cache_settle(struct blobs *b, const char *name, struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->settle(u, name, err);
}

static int cache_settle_all(struct blobs *b, struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->settle_all(u, err);
}

static int cache_touch(struct blobs *b, const char *name, struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->touch(u, name, err);
}

static int cache_list(struct blobs *b, struct str prefix, struct str after, blob_list_fn *fn, void *arg,
		      struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->list(u, prefix, after, fn, arg, err);
}

static void cache_look(struct blobs *b, const char *const *names, size_t n)
{
	struct blobs *u = blob_cache_of(b)->under;

	looks++;
	if (u->ops->look)
		u->ops->look(u, names, n);
}

static void cache_look_end(struct blobs *b)
{
	struct blobs *u = blob_cache_of(b)->under;

	looks--;
	if (u->ops->look_end)
		u->ops->look_end(u);
}

static int cache_scan(struct blobs *b, struct str prefix, struct str after, size_t max, blob_scan_fn *fn,
		      void *arg, struct err *err)
{
	return blobs_scan(blob_cache_of(b)->under, prefix, after, max, fn, arg, err);
}

static int cache_get_beside(struct blobs *b, const char *name, const struct blob_stamp *seen, size_t max,
			    struct buf *ret, struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->get_beside ? u->ops->get_beside(u, name, seen, max, ret, err) : BLOB_MISSING;
}

/* The present version stays. */
static int cache_remove_beside(struct blobs *b, const char *name, const struct blob_stamp *seen,
			       struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->remove_beside ? u->ops->remove_beside(u, name, seen, err) : BLOB_MISSING;
}

static int cache_staged(struct blobs *b, uint64_t *ret_bytes, struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->staged(u, ret_bytes, err);
}

static int cache_sweep(struct blobs *b, uint64_t *ret_n, struct err *err)
{
	struct blobs *u = blob_cache_of(b)->under;

	return u->ops->sweep(u, ret_n, err);
}

/* ---- beginning and end ---- */

static void cache_collect_metrics(void *arg)
{
	struct blob_cache *c = arg;
	struct file_cache_figures f;

	file_cache_figures(c->files, &f);
	metric_set(metric_get(&size_family), (int64_t)f.size);
}

static void cache_close(struct blobs *b)
{
	struct blob_cache *c = blob_cache_of(b);

	if (c->files)
		metrics_off_collect(cache_collect_metrics, c);
	c->under->ops->close(c->under);
	file_cache_close(c->files);
	flight_free(c->fetches);
	lru_free(c->records);
	free(c);
}

static const struct blobs_ops cache_ops = {
	.staging = cache_staging,
	.staging_done = cache_staging_done,
	.staging_note = cache_staging_note,
	.staging_expect = cache_staging_expect,
	.notes = cache_notes,
	.put_staged = cache_put_staged,
	.put = cache_put,
	.settle = cache_settle,
	.settle_all = cache_settle_all,
	.open = cache_open,
	.get = cache_get,
	.stat = cache_stat,
	.touch = cache_touch,
	.remove = cached_blob_remove,
	.collect = cache_collect,
	.list = cache_list,
	.look = cache_look,
	.look_end = cache_look_end,
	.scan = cache_scan,
	.get_beside = cache_get_beside,
	.remove_beside = cache_remove_beside,
	.staged = cache_staged,
	.sweep = cache_sweep,
	.close = cache_close,
};

int blobs_open_cache(struct blobs *under, const struct blob_cache_options *o, struct blobs **ret,
		     struct err *err)
{
	struct blob_cache *c = NEW(struct blob_cache);

	c->blobs.ops = &cache_ops;
	c->blobs.remote = under->remote;
	c->under = under;
	c->fetches = flight_new();
	c->records = lru_new(RECORDS_SIZE, kept_record_free);
	if (blob_files_open(o, &c->files, err) < 0) {
		cache_close(&c->blobs);
		return -1;
	}
	c->budget = o->budget;
	metrics_on_collect(cache_collect_metrics, c);
	*ret = &c->blobs;
	return 0;
}

bool blobs_recall(struct blobs *b, const char *name, size_t max, struct buf *ret,
		  struct blob_stamp *ret_stamp)
{
	return b->ops == &cache_ops && record_recall(blob_cache_of(b), name, max, ret, ret_stamp);
}

bool blobs_cache_figures(struct blobs *b, struct blob_cache_figures *ret)
{
	struct file_cache_figures f;
	struct blob_cache *c;

	if (b->ops != &cache_ops)
		return false;
	c = blob_cache_of(b);
	file_cache_figures(c->files, &f);
	*ret = (struct blob_cache_figures){
		.size = f.size,
		.n_files = f.n_files,
		.budget = c->budget,
		.n_kept = atomic_load(&c->n_kept),
		.n_fetched = atomic_load(&c->n_fetched),
		.n_passed = atomic_load(&c->n_passed),
		.n_stale = atomic_load(&c->n_stale),
		.n_evicted = f.n_evicted,
		.n_damaged = f.n_damaged,
	};
	return true;
}
