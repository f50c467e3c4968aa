/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying a store into another one: each record that the other store lacks, after its content.
 *
 * Contents are copied as they are stored; their SHA-256 is computed from the copy before it gets its name. Records are copied
 * byte by byte, so that fields which this version does not know stay. The rules of a commit hold (put.c), also beside
 * writers and collectors of both stores: so a copy that is killed at any point leaves both whole, and the next one copies
 * the rest.
 *
 * Some threads copy one record each; the calling thread reports.
 */
#include "store/internal.h"

#include <errno.h>
#include <stdlib.h>
#include "base/condition.h"
#include "base/room.h"

#define PARALLEL_USUAL 8u
#define PARALLEL_MAX   64u
#define COPY_PIECE     MIB(1)
#define COPY_TRIES     16 /* others may replace the same record in either store */
#define NOWHERE_TRIES  3
#define UNMET_TRIES    8
#define REPORT_MS      100

struct copy_bad {
	char *name;
	struct err why;
};

struct copy {
	struct store *from, *to;
	const struct store_copy_options *opts;
	char **names; /* of all records */
	size_t n_names, room_names;
	atomic_bool stop; /* also after a failure */
	pthread_mutex_t lock;
	pthread_cond_t ended, unclaimed;
	/* under the lock */
	size_t next;        /* of the names */
	unsigned n_running; /* threads */
	struct store_copy_result result;
	struct copy_bad *bad; /* that are not reported yet */
	size_t n_bad, room_bad;
	struct map claims; /* names of the contents that a thread copies now */
	bool failed;
	struct err err; /* of the failure that ended it */
};

/* A thread's. */
struct copy_worker {
	struct copy *c;
	struct arena arena; /* of the current record */
	uint8_t *piece;
	bool to_failed; /* the failure is of the store that is copied to */
};

enum copy_outcome { COPY_DONE, COPY_THERE, COPY_KEPT, COPY_GONE };
/* A record was replaced meanwhile; the content of the record is in neither store. */
enum { COPY_AGAIN = 100, COPY_NOWHERE };

/*
 * Whether a failure is of one object, and the others can be copied. A bucket that cannot be reached, a lack of memory, and any
 * failure to write concern all.
 */
static bool copy_goes_on(const struct copy_worker *w, const struct err *why)
{
	if (w->to_failed)
		return false;
	return content_is_damaged(why) || why->kind == ERR_DAMAGED || (why->kind == ERR_IO && why->os == EIO);
}

static int to_failed(struct copy_worker *w, struct err *err)
{
	w->to_failed = true;
	return err_in(err, "the store that is copied to");
}

static int stop_check(void *arg, uint64_t n)
{
	struct copy *c = arg;

	return atomic_load(&c->stop);
}

/* ---- contents ---- */

/* Gather the stored bytes. The SHA-256 of raw bytes is computed on the way. */
static int content_gather(struct copy_worker *w, struct source *src, struct staging *s,
			  uint8_t ret[STORE_SHA256_SIZE], struct err *err)
{
	AUTO(sha256_freep) struct sha256 *sha = NULL;

	if (sha256_new(&sha, err) < 0)
		return -1;
	source_expect(src, range_of(0, src->size));
	while (s->size < src->size) {
		size_t got;

		if (atomic_load(&w->c->stop))
			return err_set(err, ERR_CANCELLED, "stopped");
		if (source_read(src, s->size, w->piece, COPY_PIECE, SOURCE_SEQUENTIAL, &got, err) < 0)
			return -1;
		if (!got)
			return err_set(err, ERR_INVALID, "ends at byte %llu of %llu",
				       (unsigned long long)s->size, (unsigned long long)src->size);
		sha256_add(sha, bytes_of(w->piece, got));
		if (staging_write(s, bytes_of(w->piece, got), err) < 0)
			return to_failed(w, err);
	}
	sha256_end(sha, ret);
	return 0;
}

/* The SHA-256 of the content in frames that was gathered. */
static int staged_hash(struct copy *c, const struct staging *s, uint64_t size, uint8_t ret[STORE_SHA256_SIZE],
		       struct err *err)
{
	AUTO(source_closep) struct source *frames = NULL;
	struct source *raw = NULL;

	if (staging_source(s, "copy", &raw, err) < 0 || content_frames(raw, &frames, err) < 0)
		return -1;
	if (frames->size != size)
		return err_set(err, ERR_INVALID, "has %llu bytes, the record says %llu",
			       (unsigned long long)frames->size, (unsigned long long)size);
	return content_hash(frames, stop_check, c, ret, err);
}

static int staging_fill(struct copy_worker *w, const struct store_meta *meta, struct source *src,
			struct staging *s, struct err *err)
{
	uint8_t sum[STORE_SHA256_SIZE];

	if (meta->raw && src->size != meta->stored_size)
		return err_set(err, ERR_INVALID, "has %llu stored bytes, the record says %llu",
			       (unsigned long long)src->size, (unsigned long long)meta->stored_size);
	if (content_gather(w, src, s, sum, err) < 0 ||
	    (!meta->raw && staged_hash(w->c, s, meta->size, sum, err) < 0))
		return -1;
	return memcmp(sum, meta->sha256, sizeof(sum)) == 0 ? 0
							   : err_set(err, ERR_INVALID, "its SHA-256 differs");
}

/* Gather the content, and put it. */
static int content_stage(struct copy_worker *w, const struct store_meta *meta, struct source *src,
			 const char *name, struct err *err)
{
	struct store *to = w->c->to;
	struct blobs *b = to->blobs;
	struct staging s = { .fd = -1 };
	struct room_claim claim = { 0 };
	int r;

	if (b->ops->staging(b, STR(""), &s, err) < 0)
		return to_failed(w, err);
	if (room_claim(to->opts.room, &claim, s.fd, meta->stored_size, err) < 0) {
		r = to_failed(w, err);
	} else {
		r = staging_fill(w, meta, src, &s, err);
		if (r < 0 && !w->to_failed && content_is_damaged(err))
			(void)err_in(err, "%s is damaged", name);
	}
	if (r == 0 && b->ops->put_staged(b, name, &s, true, err) < 0)
		r = to_failed(w, err);
	room_release(&claim);
	b->ops->staging_done(b, &s, false);
	return r;
}

/* BLOB_MISSING: it is not in the source any more. */
static int copy_content(struct copy_worker *w, const struct store_meta *meta, const char *name,
			struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	struct copy *c = w->c;
	struct blobs *b = c->from->blobs;
	int r = b->ops->open(b, name, &src, err);

	if (r)
		return r;
	r = store_make_room(c->to, meta->stored_size, err);
	if (r == STORE_FULL)
		r = err_set(err, ERR_LIMIT, "there is no room within its quota");
	if (r < 0)
		return to_failed(w, err);
	if (content_stage(w, meta, src, name, err) < 0)
		return -1;
	store_usage_add(c->to, (int64_t)meta->stored_size);
	pthread_mutex_lock(&c->lock);
	c->result.n_contents++;
	c->result.bytes += meta->stored_size;
	pthread_mutex_unlock(&c->lock);
	return 0;
}

/* One thread copies a content; the others that need it wait. */
static void content_claim(struct copy *c, struct bytes name)
{
	pthread_mutex_lock(&c->lock);
	while (map_get(&c->claims, name))
		pthread_cond_wait(&c->unclaimed, &c->lock);
	map_put(&c->claims, name, c);
	pthread_mutex_unlock(&c->lock);
}

static void content_unclaim(struct copy *c, struct bytes name)
{
	pthread_mutex_lock(&c->lock);
	map_del(&c->claims, name);
	pthread_cond_broadcast(&c->unclaimed);
	pthread_mutex_unlock(&c->lock);
}

/*
 * Make sure that the content is in the other store, where a collector leaves it alone until its record is written. @anew: put
 * it also if it is there, since it is about to be collected. BLOB_MISSING: it is in neither.
 */
static int content_provide(struct copy_worker *w, const struct store_meta *meta, bool anew, struct err *err)
{
	struct copy *c = w->c;
	struct blobs *b = c->to->blobs;
	char name[STORE_CONTENT_NAME_SIZE];
	struct bytes claim;
	bool there = false;
	int r;

	store_content_name(meta->sha256, meta->raw, name);
	claim = bytes_of(name, strlen(name));
	content_claim(c, claim);
	r = anew ? 0 : store_content_there(c->to, meta, &there, err);
	/* One that cannot be read is put again. */
	there &= r != CONTENT_UNREADABLE;
	if (r == 0 && there)
		r = b->ops->touch(b, name, err);
	if (r < 0)
		r = to_failed(w, err);
	else if (!there || r == BLOB_MISSING)
		r = copy_content(w, meta, name, err);
	content_unclaim(c, claim);
	return r;
}

/* ---- one record ---- */

struct copy_record {
	const char *name;
	bool past;
	struct store_record own, old;
	struct buf text, old_text;
	bool has_old;   /* a record that can be read; its content may be missing */
	bool old_there; /* with its content */
};

static bool record_is_same(const struct copy_record *r)
{
	return r->has_old && memcmp(r->own.meta.sha256, r->old.meta.sha256, STORE_SHA256_SIZE) == 0;
}

/*
 * What a push would do (put.c), but that of two objects of equal worth the one that was made later stays, since that order
 * says nothing here.
 */
static bool record_stays(const struct copy *c, const struct copy_record *r)
{
	const struct store_meta *old = &r->old.meta, *meta = &r->own.meta;

	if (record_is_same(r))
		return old->origin >= meta->origin;
	if (c->opts->backup && meta->origin == STORE_PUSHED)
		return false;
	if (old->quality != meta->quality)
		return old->quality > meta->quality;
	if ((old->origin == STORE_PUSHED) != (meta->origin == STORE_PUSHED))
		return old->origin == STORE_PUSHED;
	return old->created >= meta->created;
}

/* BLOB_MISSING: it was removed from the source. */
static int record_read_both(struct copy_worker *w, struct copy_record *r, struct err *err)
{
	struct copy *c = w->c;
	struct err why = { 0 };
	int n;

	arena_reset(&w->arena);
	r->has_old = r->old_there = false;
	r->old = (struct store_record){ 0 };
	n = store_record_text(c->from, r->name, &w->arena, &r->own, &r->text, err);
	if (n)
		return n;
	n = store_record_text(c->to, r->name, &w->arena, &r->old, &r->old_text, &why);
	/* A damaged record is replaced. */
	if (n < 0 && why.kind != ERR_INVALID) {
		if (err)
			*err = why;
		return to_failed(w, err);
	}
	r->has_old = n == 0;
	n = r->has_old ? store_content_there(c->to, &r->old.meta, &r->old_there, err) : 0;
	if (n < 0)
		return to_failed(w, err);
	/* The same content is put again if the one there cannot be read; another one has its owner still. */
	r->old_there &= n != CONTENT_UNREADABLE || !record_is_same(r);
	return 0;
}

/* The object that stays is also known by the hashes of the other one. */
static int record_add_hashes(struct copy_worker *w, const struct copy_record *r, struct err *err)
{
	const int outcome = record_is_same(r) ? COPY_THERE : COPY_KEPT;
	AUTO(buf_done) struct buf text = { 0 };
	struct store_meta meta = r->old.meta;
	bool added = false;
	int n;

	for (size_t i = 0; i < STORE_MAX_HASHES; i++)
		added |= store_meta_add_hash(&meta, &r->own.meta.hashes[i]);
	if (!added || r->past)
		return outcome;
	store_record_write(&r->old.key, &meta, &text);
	if (text.size > STORE_MAX_RECORD)
		return outcome;
	n = record_put(w->c->to, r->name, buf_bytes(&text), &meta, &r->old.stamp, store_now_ns(), err);
	if (n < 0)
		return to_failed(w, err);
	return n ? COPY_AGAIN : outcome;
}

/*
 * Provide the content, then put the record; again, if the content was collected in between. A content that cannot be had takes
 * the place of none: each copy would keep the object that stays as one more earlier version.
 */
static int record_replace(struct copy_worker *w, const struct copy_record *r, struct err *err)
{
	const struct store_meta *meta = &r->own.meta;
	bool keeps = r->old_there && !record_is_same(r);
	struct store *to = w->c->to;
	int n = BLOB_UNMET;

	for (unsigned i = 0; i < UNMET_TRIES && n == BLOB_UNMET; i++) {
		int64_t from_ns = store_now_ns();

		n = content_provide(w, meta, i > 0, err);
		if (n)
			return n < 0 ? -1 : COPY_NOWHERE;
		n = keeps ? past_add_copied(to, w->c->from, r->name, &r->old, err) : 0;
		if (n)
			return n < 0 ? to_failed(w, err) : COPY_AGAIN;
		keeps = false;
		n = record_put(to, r->name, buf_bytes(&r->text), meta, &r->old.stamp, from_ns, err);
		if (n < 0)
			return to_failed(w, err);
	}
	/* The record is there, and its content was collected before that. */
	if (n == BLOB_MISSING)
		n = content_provide(w, meta, true, err);
	return n < 0 ? -1 : n == BLOB_MISSING ? COPY_NOWHERE : n ? COPY_AGAIN : COPY_DONE;
}

/* An outcome, COPY_AGAIN, or COPY_NOWHERE. */
static int record_try(struct copy_worker *w, struct copy_record *r, struct err *err)
{
	int n = record_read_both(w, r, err);

	if (n)
		return n < 0 ? -1 : COPY_GONE;
	if (r->old_there && str_eq(buf_str(&r->text), buf_str(&r->old_text)))
		return COPY_THERE;
	if (r->old_there && (r->past || record_stays(w->c, r)))
		return record_add_hashes(w, r, err);
	return record_replace(w, r, err);
}

/* Of each object the latest versions stay. */
static int versions_trim(struct copy *c, const struct copy_record *r, struct err *err)
{
	AUTO(buf_done) struct buf key = { 0 };

	if (!r->past)
		return past_trim(c->to, r->name, false, err);
	return past_key_name(r->name, &key) ? past_trim(c->to, buf_cstr(&key), false, err) : 0;
}

static int record_copy(struct copy_worker *w, struct copy_record *r, struct err *err)
{
	unsigned n_nowhere = 0;
	int n = COPY_AGAIN;

	/* A content that was collected belongs to a record that was replaced. */
	for (unsigned i = 0; i < COPY_TRIES && n >= COPY_AGAIN && n_nowhere < NOWHERE_TRIES; i++) {
		n = record_try(w, r, err);
		n_nowhere += n == COPY_NOWHERE;
	}
	if (n == COPY_NOWHERE)
		return err_set(err, ERR_INVALID, "its content is missing");
	if (n == COPY_AGAIN)
		return err_set(err, ERR_INVALID, "it is replaced again and again");
	if (n == COPY_DONE && (r->past || r->old_there) && versions_trim(w->c, r, err) < 0)
		return to_failed(w, err);
	return n;
}

/* ---- the threads ---- */

static void copy_count(struct copy *c, const struct copy_record *r, int outcome)
{
	struct store_copy_result *all = &c->result;

	all->n_done++;
	all->n_copied += outcome == COPY_DONE;
	all->n_there += outcome == COPY_THERE;
	all->n_kept += outcome == COPY_KEPT;
	all->n_gone += outcome == COPY_GONE;
	all->n_past += outcome == COPY_DONE && r->past;
	if (outcome == COPY_THERE)
		all->bytes_there += r->own.meta.stored_size;
}

/* Under the lock. */
static void copy_note_failure(struct copy_worker *w, const char *name, const struct err *why)
{
	struct copy *c = w->c;

	if (why->kind == ERR_CANCELLED && atomic_load(&c->stop))
		return;
	if (copy_goes_on(w, why)) {
		VEC_PUSH(c->bad, c->n_bad, c->room_bad) = (struct copy_bad){ .name = mem_strdup(name),
									     .why = *why };
		c->result.n_bad++;
		c->result.n_done++;
		return;
	}
	if (!c->failed) {
		c->failed = true;
		c->err = *why;
		(void)err_in(&c->err, "%s", name);
	}
	atomic_store(&c->stop, true);
}

static void copy_one(struct copy_worker *w, const char *name)
{
	struct copy *c = w->c;
	struct copy_record r = { .name = name, .past = str_starts(str_of(name), STORE_PAST) };
	struct err why = { 0 };
	int outcome = record_copy(w, &r, &why);

	pthread_mutex_lock(&c->lock);
	if (outcome < 0)
		copy_note_failure(w, name, &why);
	else
		copy_count(c, &r, outcome);
	pthread_mutex_unlock(&c->lock);
	buf_done(&r.text);
	buf_done(&r.old_text);
}

static const char *copy_next(struct copy *c)
{
	const char *name = NULL;

	pthread_mutex_lock(&c->lock);
	if (c->next < c->n_names && !atomic_load(&c->stop))
		name = c->names[c->next++];
	pthread_mutex_unlock(&c->lock);
	return name;
}

static void *copy_main(void *arg)
{
	struct copy_worker w = { .c = arg, .piece = mem_alloc(COPY_PIECE) };
	const char *name;

	arena_init(&w.arena);
	while ((name = copy_next(w.c)))
		copy_one(&w, name);
	arena_done(&w.arena);
	free(w.piece);
	pthread_mutex_lock(&w.c->lock);
	w.c->n_running--;
	pthread_cond_signal(&w.c->ended);
	pthread_mutex_unlock(&w.c->lock);
	return NULL;
}

/* ---- the calling thread ---- */

static int copy_name_add(void *arg, const char *name, const struct blob_stamp *stamp, struct err *err)
{
	struct copy *c = arg;

	VEC_PUSH(c->names, c->n_names, c->room_names) = mem_strdup(name);
	c->result.n_all++;
	return c->opts->progress && c->n_names % 1024 == 0 && c->opts->progress(c->opts->arg, &c->result)
		       ? err_set(err, ERR_CANCELLED, "stopped")
		       : 0;
}

static int copy_list(struct copy *c, struct err *err)
{
	struct blobs *b = c->from->blobs;

	if (b->ops->list(b, STORE_KEYS, STR(""), copy_name_add, c, err) < 0 ||
	    b->ops->list(b, STORE_PAST, STR(""), copy_name_add, c, err) < 0)
		return -1;
	return 0;
}

/* Report what has happened since the last report. */
static void copy_report(struct copy *c)
{
	const struct store_copy_options *o = c->opts;
	struct store_copy_result now;
	struct copy_bad *bad;
	size_t n;

	pthread_mutex_lock(&c->lock);
	now = c->result;
	bad = TAKE(c->bad);
	n = c->n_bad;
	c->n_bad = c->room_bad = 0;
	pthread_mutex_unlock(&c->lock);
	for (size_t i = 0; i < n; i++) {
		if (o->bad)
			o->bad(o->arg_bad, str_of(bad[i].name), &bad[i].why);
		free(bad[i].name);
	}
	free(bad);
	if (o->progress && o->progress(o->arg, &now))
		atomic_store(&c->stop, true);
}

static bool copy_runs(struct copy *c)
{
	bool runs;

	pthread_mutex_lock(&c->lock);
	if (c->n_running)
		condition_wait(&c->ended, &c->lock, REPORT_MS);
	runs = c->n_running;
	pthread_mutex_unlock(&c->lock);
	return runs;
}

static int copy_run(struct copy *c, struct err *err)
{
	unsigned want = MIN(c->opts->parallel ? c->opts->parallel : PARALLEL_USUAL, PARALLEL_MAX), n = 0;
	pthread_t threads[PARALLEL_MAX];

	copy_report(c);
	pthread_mutex_lock(&c->lock);
	while (n < want && pthread_create(&threads[n], NULL, copy_main, c) == 0)
		n++;
	c->n_running = n;
	pthread_mutex_unlock(&c->lock);
	if (!n)
		return err_set(err, ERR_LIMIT, "cannot start a thread");
	while (copy_runs(c))
		copy_report(c);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	copy_report(c);
	if (c->failed) {
		*err = c->err;
		return -1;
	}
	if (c->result.n_done < c->result.n_all)
		return err_set(err, ERR_CANCELLED, "stopped");
	/* Objects that were there may not be on disk yet: their writer may have been killed. */
	return c->to->blobs->ops->settle_all(c->to->blobs, err);
}

static void copy_done(struct copy *c)
{
	for (size_t i = 0; i < c->n_names; i++)
		free(c->names[i]);
	free(c->names);
	map_done(&c->claims);
	pthread_cond_destroy(&c->unclaimed);
	pthread_cond_destroy(&c->ended);
	pthread_mutex_destroy(&c->lock);
}

int store_copy(struct store *from, struct store *to, const struct store_copy_options *opts,
	       struct store_copy_result *ret, struct err *err)
{
	struct copy c = { .from = from, .to = to, .opts = opts };
	int r;

	pthread_mutex_init(&c.lock, NULL);
	condition_init(&c.ended);
	condition_init(&c.unclaimed);
	r = copy_list(&c, err);
	if (r == 0)
		r = copy_run(&c, err);
	*ret = c.result;
	copy_done(&c);
	return r < 0 ? err_in(err, "copy") : 0;
}
