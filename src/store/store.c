/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a store, finding objects, reading them.
 *
 * An object is two blobs: its record, by its key, and its content, by the SHA-256. Whoever has read the one
 * may find that the other was removed meanwhile: then there may be a new record already, which is read once
 * more.
 */
#include "store/internal.h"

#include <stdlib.h>

#define READ_TRIES 3

static struct store *store_new(struct blobs *blobs, const struct store_options *opts)
{
	struct store *st = NEW(struct store);

	st->blobs = blobs;
	st->opts = *opts;
	st->settle_ns = STORE_SETTLE_NS;
	if (!st->opts.level)
		st->opts.level = STORE_LEVEL;
	atomic_init(&st->usage, -1);
	pthread_mutex_init(&st->room, NULL);
	if (opts->catalogue)
		st->catalogue = catalogue_new();
	if (opts->maintain) {
		st->pack = pack_new(st);
		st->maintain = maintain_start(st);
		pack_start(st->pack);
	}
	return st;
}

int store_open(const char *dir, const struct store_options *opts, struct store **ret, struct err *err)
{
	struct blobs *blobs = NULL;

	if (sha256_load(err) < 0 || blobs_open_dir(dir, opts->create, &blobs, err) < 0)
		return err_in(err, "store");
	*ret = store_new(blobs, opts);
	return 0;
}

struct store *store_open_memory(const struct store_options *opts)
{
	return store_new(blobs_open_memory(), opts);
}

void store_close(struct store *st)
{
	if (!st)
		return;
	pack_stop(st->pack);
	maintain_stop(st->maintain);
	pack_free(st->pack);
	catalogue_free(st->catalogue);
	pthread_mutex_destroy(&st->room);
	st->blobs->ops->close(st->blobs);
	free(st);
}

/* ---- what is shared ---- */

void store_usage_add(struct store *st, int64_t n)
{
	int64_t was = atomic_load(&st->usage);

	/* Before the first count there is nothing to add to: the count sees it. */
	while (was >= 0 && !atomic_compare_exchange_weak(&st->usage, &was, MAX(was + n, (int64_t)0)))
		;
}

bool store_usage(struct store *st, uint64_t *ret_bytes)
{
	int64_t n = atomic_load(&st->usage);

	if (n < 0)
		return false;
	*ret_bytes = (uint64_t)n;
	return true;
}

uint64_t store_generation(struct store *st)
{
	return atomic_load(&st->generation);
}

int store_record_get(struct store *st, const char *name, struct arena *a, struct store_key *ret_key,
		     struct store_meta *ret, struct blob_stamp *ret_stamp, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(buf_done) struct buf own = { 0 };
	int r = st->blobs->ops->get(st->blobs, name, STORE_MAX_RECORD, &b, ret_stamp, err);

	if (r)
		return r;
	if (store_record_read(buf_bytes(&b), a, ret_key, ret, err) < 0)
		return err_in(err, "%s", name);
	store_record_name(ret_key, &own);
	if (!str_eq(buf_str(&own), str_of(name)))
		return err_set(err, ERR_INVALID, "%s: the record of something else: " STR_FMT, name,
			       STR_ARG(buf_str(&own)));
	ret->last_used = ret_stamp->time_ns / 1000000000;
	return 0;
}

int store_content_there(struct store *st, const struct store_meta *meta, bool *ret, struct err *err)
{
	char name[STORE_CONTENT_NAME_SIZE];
	struct blob_stamp stamp = { 0 };
	int r = st->blobs->ops->stat(st->blobs, store_content_name(meta->sha256, meta->raw, name), &stamp,
				     err);

	if (r < 0)
		return -1;
	*ret = r == 0 && stamp.size == meta->stored_size;
	return 0;
}

/* ---- finding ---- */

int store_find(struct store *st, const struct store_key *key, struct arena *a, struct store_meta *ret,
	       struct err *err)
{
	AUTO(buf_done) struct buf name = { 0 };
	struct blob_stamp stamp;
	struct store_meta meta;
	struct store_key own;
	bool there = false;
	int r;

	store_record_name(key, &name);
	r = store_record_get(st, buf_cstr(&name), a, &own, &meta, &stamp, err);
	if (r)
		return r < 0 ? err_in(err, "store") : STORE_MISSING;
	if (store_content_there(st, &meta, &there, err) < 0)
		return err_in(err, "store");
	if (!there)
		return STORE_MISSING;
	*ret = meta;
	return 0;
}

static int open_content(struct store *st, const struct store_meta *meta, struct source **ret, struct err *err)
{
	char name[STORE_CONTENT_NAME_SIZE];
	struct source *s = NULL;
	int r = st->blobs->ops->open(st->blobs, store_content_name(meta->sha256, meta->raw, name), &s, err);

	if (r)
		return r;
	if (!meta->raw && codec_frames_open(s, &s, err) < 0)
		return err_in(err, "%s", name);
	if (s->size != meta->size) {
		(void)err_set(err, ERR_INVALID, "%s: has %llu bytes, the record says %llu", name,
			      (unsigned long long)s->size, (unsigned long long)meta->size);
		source_close(s);
		return -1;
	}
	s->mtime = meta->mtime;
	*ret = s;
	return 0;
}

/* For eviction. That it cannot be noted (a store that may only be read) is no reason not to give it out. */
static void note_use(struct store *st, const char *name, const struct blob_stamp *stamp)
{
	if (store_now_ns() - stamp->time_ns >= STORE_USED_EVERY_S * INT64_C(1000000000))
		st->blobs->ops->touch(st->blobs, name, NULL);
}

int store_open_object(struct store *st, const struct store_key *key, struct arena *a,
		      struct store_meta *ret_meta, struct source **ret, struct err *err)
{
	AUTO(buf_done) struct buf name = { 0 };

	store_record_name(key, &name);
	for (unsigned i = 0; i < READ_TRIES; i++) {
		struct blob_stamp stamp;
		struct store_meta meta;
		struct store_key own;
		int r = store_record_get(st, buf_cstr(&name), a, &own, &meta, &stamp, err);

		if (r)
			return r < 0 ? err_in(err, "store") : STORE_MISSING;
		r = open_content(st, &meta, ret, err);
		if (r < 0)
			return err_in(err, "store");
		if (r == BLOB_MISSING)
			continue;
		note_use(st, buf_cstr(&name), &stamp);
		if (ret_meta)
			*ret_meta = meta;
		return 0;
	}
	return STORE_MISSING;
}
