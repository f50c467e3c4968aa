/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding objects and reading them.
 *
 * An object is two blobs: its record, by its key, and its content, by the SHA-256. A reader of the one may
 * find that the other was removed meanwhile: then there may be a new record already, which is read once more.
 */
#include "store/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define READ_TRIES 3

/* ---- state and records, for the other files ---- */

void store_usage_add(struct store *st, int64_t n)
{
	int64_t was = atomic_load(&st->usage);

	/* Before the first count there is nothing to add to: the count will include it. */
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

void store_wake(struct store *st, bool garbage)
{
	pthread_mutex_lock(&st->work_lock);
	st->garbage |= garbage;
	st->crowded |= !garbage;
	pthread_cond_signal(&st->work_changed);
	pthread_mutex_unlock(&st->work_lock);
}

int store_record_of(const char *name, struct bytes text, const struct blob_stamp *stamp, struct arena *a,
		    struct store_record *ret, struct err *err)
{
	AUTO(buf_done) struct buf own = { 0 };
	AUTO(buf_done) struct buf past = { 0 };

	ret->stamp = *stamp;
	ret->sum = hash64(text.p, text.size, 0);
	if (store_record_read(text, a, &ret->key, &ret->meta, err) < 0)
		return err_in(err, "%s", name);
	if (str_starts(str_of(name), STORE_PAST) && !past_key_name(name, &past))
		return err_set(err, ERR_INVALID, "%s: is not the name of an earlier version", name);
	store_record_name(&ret->key, &own);
	if (!past.size && !str_eq(buf_str(&own), str_of(name)))
		return err_set(err, ERR_INVALID, "%s: holds the record of " STR_FMT, name,
			       STR_ARG(buf_str(&own)));
	if (past.size && !str_eq(buf_str(&own), buf_str(&past)))
		return err_set(err, ERR_INVALID, "%s: is an earlier version of " STR_FMT, name,
			       STR_ARG(buf_str(&own)));
	ret->meta.last_used = ret->stamp.time_ns / 1000000000;
	return 0;
}

/*
 * No record is as long: this one is damaged, and a push replaces it. By its size, since other limits may have been reached: of
 * memory, of descriptors, of the headers of a bucket's answer.
 */
static bool record_is_too_long(const struct err *why, const struct blob_stamp *there)
{
	return why->kind == ERR_LIMIT && there->size > STORE_MAX_RECORD;
}

/* It was not read because of @why. BLOB_MISSING: it is gone meanwhile. */
static int record_over_limit(struct store *st, const char *name, struct store_record *ret, struct err *why)
{
	int r = st->blobs->ops->stat(st->blobs, name, &ret->stamp, NULL);

	if (r > 0)
		return r;
	if (r == 0 && record_is_too_long(why, &ret->stamp))
		return err_set(why, ERR_INVALID, "%s: longer than %zu bytes", name, STORE_MAX_RECORD);
	return -1;
}

int store_record_text(struct store *st, const char *name, struct arena *a, struct store_record *ret,
		      struct buf *ret_text, struct err *err)
{
	/* Bytes that were damaged on their way are read again. */
	unsigned n_tries = st->blobs->remote ? READ_TRIES : 1;

	for (unsigned i = 1;; i++) {
		struct blob_stamp stamp;
		struct err why = { 0 };
		int r;

		ret_text->size = 0;
		r = st->blobs->ops->get(st->blobs, name, STORE_MAX_RECORD, ret_text, &stamp, &why);
		if (r == 0)
			r = store_record_of(name, buf_bytes(ret_text), &stamp, a, ret, &why);
		else if (r < 0 && why.kind == ERR_LIMIT)
			r = record_over_limit(st, name, ret, &why);
		if (r < 0 && why.kind == ERR_INVALID && i < n_tries)
			continue;
		if (r < 0 && err)
			*err = why;
		return r;
	}
}

/* One beside the present one, whose bytes may have been damaged on their way. */
static int record_get_beside(struct store *st, const struct blob_scanned *s, struct arena *a,
			     struct store_record *ret, struct err *err)
{
	for (unsigned i = 1;; i++) {
		AUTO(buf_done) struct buf text = { 0 };
		struct err why = { 0 };
		int r = st->blobs->ops->get_beside(st->blobs, s->name, &s->stamp, STORE_MAX_RECORD, &text,
						   &why);

		if (r == 0)
			r = store_record_of(s->name, buf_bytes(&text), &s->stamp, a, ret, &why);
		else if (r < 0 && record_is_too_long(&why, &s->stamp))
			why.kind = ERR_INVALID;
		if (r < 0 && why.kind == ERR_INVALID && i < READ_TRIES)
			continue;
		if (r < 0 && err)
			*err = why;
		return r;
	}
}

int store_record_scanned(struct store *st, const struct blob_scanned *s, struct arena *a,
			 struct store_record *ret, struct err *err)
{
	struct err why = s->outcome < 0 ? *s->why : (struct err){ 0 };
	int r = s->outcome ? s->outcome : store_record_of(s->name, s->content, &s->stamp, a, ret, &why);

	if (r < 0 && record_is_too_long(&why, &s->stamp))
		why.kind = ERR_INVALID;
	if (r < 0 && why.kind == ERR_INVALID && st->blobs->remote)
		return s->place == BLOB_PRESENT ? store_record_get(st, s->name, a, ret, err)
						: record_get_beside(st, s, a, ret, err);
	if (r < 0 && err)
		*err = why;
	return r;
}

int store_record_get(struct store *st, const char *name, struct arena *a, struct store_record *ret,
		     struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };

	return store_record_text(st, name, a, ret, &text, err);
}

/* Nothing is read, so a content of another size than its record's counts, unless it is known to be damaged. */
static int content_is_seen(struct store *st, const struct store_meta *meta, struct blob_stamp *ret_stamp,
			   bool *ret, struct err *err)
{
	char name[STORE_CONTENT_NAME_SIZE];
	int r = st->blobs->ops->stat(st->blobs, store_content_name(meta->sha256, meta->raw, name), ret_stamp,
				     err);

	if (r < 0)
		return -1;
	*ret = r == 0 && (ret_stamp->size == meta->stored_size ||
			  (content_has_other_size(meta, ret_stamp) &&
			   known_content(&st->known, name, ret_stamp) != KNOWN_DAMAGED));
	return 0;
}

int store_content_there(struct store *st, const struct store_meta *meta, bool *ret, struct err *err)
{
	struct blob_stamp stamp = { 0 };
	char name[STORE_CONTENT_NAME_SIZE];
	struct err why = { 0 };
	int r;

	if (content_is_seen(st, meta, &stamp, ret, err) < 0)
		return -1;
	store_content_name(meta->sha256, meta->raw, name);
	if (!*ret || !content_has_other_size(meta, &stamp) ||
	    known_content(&st->known, name, &stamp) == KNOWN_WHOLE)
		return 0;
	r = content_check(st, meta->sha256, meta->raw, NULL, NULL, &why);
	/* What cannot be read now is no damage: the object has its owner still. */
	if (r < 0 && why.kind == ERR_IO && why.os && !blob_is_away(&why))
		return CONTENT_UNREADABLE;
	*ret = r == 0;
	if (r >= 0 || content_is_damaged(&why))
		return 0;
	if (err)
		*err = why;
	return -1;
}

/* ---- finding ---- */

int object_find(struct store *st, const struct store_key *key, struct arena *a, struct store_meta *ret,
		struct err *err)
{
	AUTO(buf_done) struct buf name = { 0 };

	store_record_name(key, &name);
	for (unsigned i = 0; i < READ_TRIES; i++) {
		struct blob_stamp stamp = { 0 };
		struct store_record record;
		bool there = false;
		int r = store_record_get(st, buf_cstr(&name), a, &record, err);

		if (r)
			return r < 0 ? err_in(err, "store") : STORE_MISSING;
		if (content_is_seen(st, &record.meta, &stamp, &there, err) < 0)
			return err_in(err, "store");
		if (!there)
			continue;
		*ret = record.meta;
		return 0;
	}
	return STORE_MISSING;
}

/* Does a held push answer for @key? The object in the store does if it is the one that will stay. */
static bool held_find(struct store *st, const struct store_key *key, struct arena *a, struct store_meta *ret)
{
	struct store_meta there;

	return hold_find(st->hold, key, a, ret) &&
	       (hold_is_away(st->hold) || object_find(st, key, a, &there, NULL) != 0 ||
		object_judge(&there, ret, STORE_IF_OWNED) == 0);
}

int store_find(struct store *st, const struct store_key *key, struct arena *a, struct store_meta *ret,
	       struct err *err)
{
	return held_find(st, key, a, ret) ? 0 : object_find(st, key, a, ret, err);
}

/*
 * In a bucket the writer of a version may take it back for a while. So it is put once more, as our own, if it is still the one
 * that was read. BLOB_CHANGED. BLOB_MISSING: its content has to be put again.
 */
static int record_adopt(struct store *st, const char *name, const struct store_record *record,
			struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	int r;

	store_record_write(&record->key, &record->meta, &text);
	r = record_put(st, name, buf_bytes(&text), &record->meta, &record->stamp, store_now_ns(), err);
	/* A cache may have the content still. */
	return r == BLOB_UNMET ? BLOB_MISSING : r;
}

/*
 * The file of the content, with which a record is known to be on disk. Another one of that name, of a push that mends a damaged
 * content, may not be on disk yet, or its sync has failed. 0: it is missing. In a bucket all that can be seen is durable.
 */
static uint64_t content_id(struct store *st, const struct store_meta *meta)
{
	char name[STORE_CONTENT_NAME_SIZE];
	struct blob_stamp stamp = { 0 };

	if (st->blobs->remote)
		return 1;
	store_content_name(meta->sha256, meta->raw, name);
	return st->blobs->ops->stat(st->blobs, name, &stamp, NULL) == 0 ? stamp.id : 0;
}

int record_settle(struct store *st, const char *name, const struct store_record *record, struct err *err)
{
	const struct store_meta *meta = &record->meta;
	char content[STORE_CONTENT_NAME_SIZE];
	struct blobs *b = st->blobs;
	uint64_t id = content_id(st, meta);
	int r;

	if (known_durable(&st->known, name, record, id))
		return 0;
	if (b->remote)
		return record_adopt(st, name, record, err);
	r = b->ops->settle(b, store_content_name(meta->sha256, meta->raw, content), err);
	if (r == 0)
		r = b->ops->settle(b, name, err);
	if (r == 0)
		known_durable_add(&st->known, name, record, id);
	return r;
}

void record_note_durable(struct store *st, const char *name, struct bytes text, const struct store_meta *meta)
{
	struct store_record own = { .sum = hash64(text.p, text.size, 0) };

	if (st->blobs->ops->stat(st->blobs, name, &own.stamp, NULL) == 0)
		known_durable_add(&st->known, name, &own, content_id(st, meta));
}

int record_put(struct store *st, const char *name, struct bytes text, const struct store_meta *meta,
	       const struct blob_stamp *expect, int64_t from_ns, struct err *err)
{
	char content[STORE_CONTENT_NAME_SIZE];
	struct blobs *b = st->blobs;
	int r;

	store_content_name(meta->sha256, meta->raw, content);
	r = b->ops->put(b, name, text, content, expect, err);
	if (r)
		return r;
	record_note_durable(st, name, text, meta);
	return b->remote || store_now_ns() - from_ns < st->settle_ns / 2 ? 0 : b->ops->touch(b, content, err);
}

static enum known_state content_state(struct store *st, const struct store_meta *meta, bool *ret_other_size)
{
	char name[STORE_CONTENT_NAME_SIZE];
	struct blob_stamp stamp;

	if (st->blobs->ops->stat(st->blobs, store_content_name(meta->sha256, meta->raw, name), &stamp,
				 NULL) != 0)
		return KNOWN_DAMAGED;
	*ret_other_size = content_has_other_size(meta, &stamp);
	if (stamp.size != meta->stored_size && !*ret_other_size)
		return KNOWN_DAMAGED;
	return known_content(&st->known, name, &stamp);
}

int store_find_sure(struct store *st, const struct store_key *key, enum store_sureness how, struct arena *a,
		    struct store_meta *ret, struct err *err)
{
	AUTO(buf_done) struct buf name = { 0 };
	struct store_record record;
	enum known_state state;
	bool whole, other_size = false;
	int r;

	if (hold_find(st->hold, key, a, ret))
		return STORE_HELD;
	store_record_name(key, &name);
	r = store_record_get(st, buf_cstr(&name), a, &record, err);
	if (r)
		return r < 0 ? err_in(err, "store") : STORE_MISSING;
	*ret = record.meta;
	state = content_state(st, &record.meta, &other_size);
	if (state == KNOWN_DAMAGED)
		return STORE_UNSURE;
	if (how == STORE_AS_KNOWN)
		return state == KNOWN_WHOLE && known_durable(&st->known, (const char *)name.p, &record,
							     content_id(st, &record.meta))
			       ? 0
			       : STORE_UNSURE;
	/* A failure: the object is to be put again. */
	if (record_settle(st, (const char *)name.p, &record, err) != 0)
		return STORE_UNSURE;
	if (how == STORE_ON_DISK && !other_size)
		return 0;
	if (content_is_whole(st, &record.meta, &whole, err) < 0)
		return err_in(err, "store");
	return whole ? 0 : STORE_UNSURE;
}

bool store_is_remote(const struct store *st)
{
	return st->blobs->remote;
}

void store_look(struct store *st, const struct store_key *keys, size_t n, const struct store_put *put)
{
	char content[STORE_CONTENT_NAME_SIZE], *names[STORE_LOOK_MAX + 1] = { NULL };
	size_t n_names = 0;

	if (!st->blobs->ops->look)
		return;
	for (size_t i = 0; i < MIN(n, (size_t)STORE_LOOK_MAX); i++) {
		struct buf name = { 0 };

		store_record_name(&keys[i], &name);
		names[n_names++] = (char *)buf_cstr(&name);
	}
	if (put)
		names[n_names++] = put_content_name(put, content);
	st->blobs->ops->look(st->blobs, (const char *const *)names, n_names);
	for (size_t i = 0; i < n_names - !!put; i++)
		free(names[i]);
}

void store_look_end(struct store *st)
{
	if (st->blobs->ops->look_end)
		st->blobs->ops->look_end(st->blobs);
}

/* With more objects than this one sync of the file system takes less time than one for each. */
#define SYNC_EACH 16u

int store_settle(struct store *st, const struct store_key *keys, size_t n, struct err *err)
{
	AUTO(mem_freep) struct store_record *records = NEW_N(struct store_record, n + 1);
	AUTO(mem_freep) uint64_t *contents = NEW_N(uint64_t, n + 1);
	AUTO(buf_done) struct buf name = { 0 };
	struct arena arena;
	size_t n_unsure = 0;
	int r = 0;

	/* Each is made sure of by itself. */
	if (st->blobs->remote)
		return 0;
	arena_init(&arena);
	for (size_t i = 0; i < n; i++) {
		name.size = 0;
		store_record_name(&keys[i], &name);
		if (store_record_get(st, buf_cstr(&name), &arena, &records[i], NULL) != 0) {
			records[i].key.id.size = 0;
			continue;
		}
		contents[i] = content_id(st, &records[i].meta);
		n_unsure += !known_durable(&st->known, (const char *)name.p, &records[i], contents[i]);
	}
	if (n_unsure > SYNC_EACH) {
		r = st->blobs->ops->settle_all(st->blobs, err);
		for (size_t i = 0; r == 0 && i < n; i++) {
			if (!records[i].key.id.size)
				continue;
			name.size = 0;
			store_record_name(&keys[i], &name);
			known_durable_add(&st->known, buf_cstr(&name), &records[i], contents[i]);
		}
	}
	arena_done(&arena);
	return r < 0 ? err_in(err, "store") : 0;
}

/* ---- contents ---- */

/* A content in frames: a read that finds damage notes it. */
struct noted_source {
	struct source source;
	struct source *frames;
	struct store *st;
	char content[STORE_CONTENT_NAME_SIZE];
	struct blob_stamp stamp;
};

static int noted_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
		      size_t *ret_got, struct err *err)
{
	struct noted_source *s = CONTAINER_OF(base, struct noted_source, source);
	struct err why = { 0 };

	for (unsigned i = 1;; i++) {
		if (source_read(s->frames, off, buf, n, hint, ret_got, &why) == 0)
			return 0;
		if (!content_is_damaged(&why) || i >= content_tries(s->st))
			break;
		source_distrust(s->frames);
	}
	if (err)
		*err = why;
	if (!content_is_damaged(&why))
		return -1;
	content_note_damage(s->st, s->content, &s->stamp);
	return err_in(err, "%s is damaged", s->content);
}

static void noted_close(struct source *base)
{
	struct noted_source *s = CONTAINER_OF(base, struct noted_source, source);

	source_close(s->frames);
	source_fini(base);
	free(s);
}

/* Takes @frames. */
static struct source *noted_source_new(struct store *st, const char *content, const struct blob_stamp *stamp,
				       struct source *frames)
{
	static const struct source_ops ops = { .read = noted_read, .close = noted_close };
	struct noted_source *s = NEW(struct noted_source);

	source_init(&s->source, &ops, frames->size, frames->mtime, frames->name);
	s->frames = frames;
	s->st = st;
	s->stamp = *stamp;
	snprintf(s->content, sizeof(s->content), "%s", content);
	return &s->source;
}

static int content_check_size(struct source *s, const struct store_meta *meta, struct err *err)
{
	return s->size == meta->size ? 0
				     : err_set(err, ERR_INVALID, "has %llu bytes, the record says %llu",
					       (unsigned long long)s->size, (unsigned long long)meta->size);
}

/* Open frames. Their table may be damaged, also in the sizes of which the codec knows only the sum. */
static int frames_open(struct store *st, const struct store_meta *meta, const char *content,
		       const struct blob_stamp *stamp, struct source **ret, struct err *err)
{
	struct source *s = TAKE(*ret), *frames = NULL;
	struct err why = { 0 };

	if (content_frames(s, &frames, &why) < 0 || content_check_size(frames, meta, &why) < 0) {
		source_close(frames);
		if (content_is_damaged(&why))
			content_note_damage(st, content, stamp);
		if (err)
			*err = why;
		return err_in(err, "%s", content);
	}
	*ret = noted_source_new(st, content, stamp, frames);
	return 0;
}

/* BLOB_MISSING. */
static int content_source(struct store *st, const struct store_meta *meta, const char *name,
			  const struct blob_stamp *stamp, struct source **ret, struct err *err)
{
	for (unsigned i = 1;; i++) {
		struct err why = { 0 };
		int r = st->blobs->ops->open(st->blobs, name, ret, &why);

		if (r == 0 && i > 1)
			source_distrust(*ret);
		if (r == 0 && !meta->raw)
			r = frames_open(st, meta, name, stamp, ret, &why);
		if (r < 0 && content_is_damaged(&why) && i < content_tries(st))
			continue;
		if (r < 0 && err)
			*err = why;
		return r;
	}
}

/*
 * BLOB_MISSING. Damaged: ERR_INVALID, and it is known then. Frames have check sums; raw bytes, which are sent and
 * mapped as they are, are read whole when they are first opened in this process.
 */
static int content_open(struct store *st, const struct store_meta *meta, struct source **ret, struct err *err)
{
	char name[STORE_CONTENT_NAME_SIZE];
	AUTO(source_closep) struct source *s = NULL;
	struct blob_stamp stamp;
	enum known_state state;
	int r = st->blobs->ops->stat(st->blobs, store_content_name(meta->sha256, meta->raw, name), &stamp,
				     err);

	if (r)
		return r;
	state = known_content(&st->known, name, &stamp);
	if (state == KNOWN_DAMAGED)
		return err_set(err, ERR_INVALID, "%s is damaged", name);
	if (meta->raw && state == KNOWN_NOTHING) {
		r = content_check(st, meta->sha256, true, NULL, NULL, err);
		if (r)
			return r;
	}
	r = content_source(st, meta, name, &stamp, &s, err);
	if (r)
		return r;
	if (meta->raw && content_check_size(s, meta, err) < 0)
		return err_in(err, "%s", name);
	s->mtime = meta->mtime;
	*ret = TAKE(s);
	return 0;
}

bool object_condemn(struct store *st, const char *name, const struct err *why)
{
	struct store_record record;
	struct arena arena;
	bool removed = false;

	arena_init(&arena);
	if (store_record_get(st, name, &arena, &record, NULL) == 0) {
		bool pushed = record.meta.origin == STORE_PUSHED;

		removed = !pushed && st->blobs->ops->remove(st->blobs, name, &record.stamp, NULL) == 0;
		if (removed) {
			object_list_del(st->objects, name);
			atomic_fetch_add(&st->generation, 1);
			store_wake(st, true);
		}
		log_warn("store", "%s: %s%s", name, why->text,
			 pushed ? "; push the same file again to mend it"
			 : removed && record.meta.origin == STORE_FETCHED
				 ? "; the object is removed, and fetched again when it is asked for"
			 : removed ? "; the object is removed, and made again when it is asked for"
				   : "");
	}
	arena_done(&arena);
	return removed;
}

/* For eviction. A failure (a store that may only be read) does not keep the object from being read. */
static void record_note_use(struct store *st, const char *name, const struct blob_stamp *stamp)
{
	if (store_now_ns() - stamp->time_ns >= STORE_USED_EVERY_S * INT64_C(1000000000))
		st->blobs->ops->touch(st->blobs, name, NULL);
}

static int content_lost(const struct store_meta *meta, struct err *err)
{
	char name[STORE_CONTENT_NAME_SIZE];

	return err_set(err, ERR_INVALID, "%s is missing; push the same file again to mend it",
		       store_content_name(meta->sha256, meta->raw, name));
}

static int object_open(struct store *st, const struct store_key *key, struct arena *a,
		       struct store_meta *ret_meta, struct source **ret, struct err *err)
{
	AUTO(buf_done) struct buf name = { 0 };

	store_record_name(key, &name);
	for (unsigned i = 0; i < READ_TRIES; i++) {
		struct store_record record;
		struct err why = { 0 };
		int r = store_record_get(st, buf_cstr(&name), a, &record, err);

		if (r)
			return r < 0 ? err_in(err, "store") : STORE_MISSING;
		r = content_open(st, &record.meta, ret, &why);
		/* A record is removed before its content, so the next try has no record or another one, unless the
		 * content was lost. One that was fetched or made is fetched or made again. */
		if (r == BLOB_MISSING && i + 1 == READ_TRIES && record.meta.origin == STORE_PUSHED)
			r = content_lost(&record.meta, &why);
		if (r < 0 && (record.meta.origin == STORE_PUSHED || why.kind != ERR_INVALID ||
			      !object_condemn(st, (const char *)name.p, &why))) {
			if (err)
				*err = why;
			return err_in(err, "store");
		}
		if (r)
			continue;
		record_note_use(st, buf_cstr(&name), &record.stamp);
		if (ret_meta)
			*ret_meta = record.meta;
		return 0;
	}
	return STORE_MISSING;
}

int store_open_object(struct store *st, const struct store_key *key, struct arena *a,
		      struct store_meta *ret_meta, struct source **ret, struct err *err)
{
	struct store_meta held;

	if (held_find(st, key, a, &held) && hold_open_content(st->hold, key, &held, ret, NULL) == 0) {
		if (ret_meta)
			*ret_meta = held;
		return 0;
	}
	return object_open(st, key, a, ret_meta, ret, err);
}
