/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing an object: its bytes are hashed, compressed and gathered in a staging file as they arrive. The
 * commit names the content by its hash, and then writes the record. So a record never names a missing
 * content, and a content without a record is garbage.
 *
 * Concurrent garbage collection: it leaves contents alone that were put or touched less than settle_ns before
 * it began. So the record has that long to become visible. If it took longer, the content is touched again
 * after the record was written, and put again if it is gone.
 */
#include "store/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Other threads may write the same record at the same time, again and again. Each of them makes progress, so
 * this ends. */
#define COMMIT_TRIES 64
#define RESUME_PIECE KIB(256)
#define MAX_LATER    (UINT64_C(1) << 50)

struct store_put {
	struct store *st;
	struct store_put_options opts;
	struct staging staging;
	struct codec_frames *frames; /* NULL: raw */
	struct sha256 *sha;
	bool later;                 /* raw for now */
	struct hash64_state hashed; /* of a raw content with a name */
	uint64_t size;
	uint64_t saved;
	uint64_t counted;        /* bytes of the staging file that are included in the store's usage */
	uint64_t looked;         /* size at the last check for room */
	struct room_claim claim; /* of the staging file */
	uint8_t sha256[STORE_SHA256_SIZE];
	bool ended;
	bool held, held_raw; /* it is put now; its form */
};

static_assert(STORE_MAX_PARTIAL == STAGING_MAX_NAME, "the seam's own");

static void put_count(struct store_put *p, uint64_t size)
{
	store_usage_add(p->st, (int64_t)size - (int64_t)p->counted);
	p->counted = size;
}

static int put_to_staging(void *arg, struct bytes b, struct err *err)
{
	struct store_put *p = arg;

	return staging_write(&p->staging, b, err);
}

/* ---- what outlives the process ---- */

static int put_hash(void *arg, struct bytes b, struct err *err)
{
	struct store_put *p = arg;

	sha256_add(p->sha, b);
	p->size += b.size;
	return 0;
}

static int put_resume_frames(struct store_put *p, uint64_t *ret_good, struct err *err)
{
	AUTO(source_closep) struct source *raw = NULL;

	if (staging_source(&p->staging, "upload", &raw, err) < 0)
		return -1;
	return codec_frames_resume(p->frames, raw, put_hash, p, ret_good, err);
}

/* Raw bytes are checked by one hash: all are valid, or none. */
static int put_resume_raw(struct store_put *p, uint64_t *ret_good, struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(RESUME_PIECE);

	while (p->size < p->staging.size) {
		size_t got, n = (size_t)MIN((uint64_t)RESUME_PIECE, p->staging.size - p->size);

		if (fd_pread(p->staging.fd, piece, n, p->size, &got, err) < 0)
			return -1;
		if (!got)
			break;
		hash64_feed(&p->hashed, piece, got);
		put_hash(p, bytes_of(piece, got), NULL);
	}
	*ret_good = p->size;
	if (p->size == p->staging.size && hash64_end(&p->hashed) == p->staging.hash)
		return 0;
	sha256_free(TAKE(p->sha));
	hash64_init(&p->hashed, 0);
	*ret_good = p->size = 0;
	return sha256_new(&p->sha, err);
}

/* Continue with the valid part of what another process left. */
static int put_resume(struct store_put *p, struct err *err)
{
	uint64_t good = 0;

	if (!p->staging.size)
		return 0;
	p->counted = p->staging.size;
	if ((p->frames ? put_resume_frames(p, &good, err) : put_resume_raw(p, &good, err)) < 0)
		return -1;
	if (p->size > p->opts.size)
		return err_set(err, ERR_INVALID, "the part that was left is longer than the whole");
	if (ftruncate(p->staging.fd, (off_t)good) < 0)
		return err_os(err, errno, "truncate");
	p->staging.size = good;
	p->saved = p->size;
	put_count(p, good);
	return 0;
}

/* A failure to write the note does not end the upload. */
static void put_save(struct store_put *p)
{
	const struct staging_note note = {
		.name = p->opts.name,
		.size = p->staging.size,
		.content = p->frames ? p->size - p->size % CODEC_FRAME_SIZE : p->size,
		.all = p->opts.size,
		.has_hash = !p->frames,
		.hash = p->frames ? 0 : hash64_end(&p->hashed),
		.time_s = clock_wall_s(),
	};

	/* A client goes on at a byte of the content: so a whole one is not noted. */
	if (note.content == note.all)
		return;
	p->saved = p->size;
	p->st->blobs->ops->staging_note(p->st->blobs, &p->staging, &note, NULL);
}

/* ---- writing ---- */

/* Is there room for the raw content and, for a while, the compressed one beside it? */
static bool put_may_wait(struct store_put *p)
{
	uint64_t size = p->opts.size;
	struct statvfs fs;

	/* An upload that another process left goes on in its form. */
	if (p->staging.size)
		return p->staging.has_hash;
	if (!p->opts.later || p->st->blobs->remote || size > MAX_LATER)
		return false;
	return store_has_room(p->st, size + size / 2) && fstatvfs(p->staging.fd, &fs) == 0 &&
	       (uint64_t)fs.f_bavail * fs.f_frsize / 4 > size;
}

/* Claim disk space for what will be written before the next call. */
static int put_claim(struct store_put *p, struct err *err)
{
	uint64_t size = p->staging.size, left = p->opts.size - MIN(p->size, p->opts.size);

	room_written(&p->claim, size);
	if (room_claim(p->st->opts.room, &p->claim, p->staging.fd, size + MIN(left, STORE_SAVE_EVERY), err) <
	    0)
		return err_in(err, "store");
	return 0;
}

/* The content may be carried over to where it will be. */
static void put_expect(struct store_put *p)
{
	struct blobs *b = p->st->blobs;
	char name[STORE_CONTENT_NAME_SIZE];

	if (b->ops->staging_expect && p->opts.sha256 && p->opts.name.size)
		b->ops->staging_expect(b, &p->staging, store_content_name(p->opts.sha256, !p->frames, name),
				       p->opts.size);
	p->opts.sha256 = NULL;
}

int store_put_begin(struct store *st, const struct store_put_options *opts, struct store_put **ret,
		    struct err *err)
{
	struct store_put *p;

	if (opts->raw && opts->size != STORE_SIZE_UNKNOWN) {
		int r = store_make_room(st, opts->size, err);

		if (r)
			return r;
	}
	p = NEW(struct store_put);
	p->st = st;
	p->opts = *opts;
	p->opts.name = (struct str){ mem_strndup(opts->name.p ? opts->name.p : "", opts->name.size),
				     opts->name.size };
	p->staging.fd = -1;
	if (sha256_new(&p->sha, err) < 0 ||
	    st->blobs->ops->staging(st->blobs, opts->name, &p->staging, err) < 0) {
		store_put_abort(p);
		return err_in(err, "store");
	}
	p->later = put_may_wait(p);
	if (!opts->raw && !p->later)
		p->frames = codec_frames_new(st->opts.level, put_to_staging, p);
	hash64_init(&p->hashed, 0);
	if (put_resume(p, err) < 0 || put_claim(p, err) < 0) {
		store_put_abort(p);
		return err_in(err, "store");
	}
	put_expect(p);
	*ret = p;
	return 0;
}

int store_put_write(struct store_put *p, struct bytes b, struct err *err)
{
	if (b.size > p->opts.size - p->size)
		return err_set(err, ERR_INVALID, "store: more than the %llu bytes that were announced",
			       (unsigned long long)p->opts.size);
	sha256_add(p->sha, b);
	p->size += b.size;
	if (p->later && p->opts.name.size)
		hash64_feed(&p->hashed, b.p, b.size);
	if ((p->frames ? codec_frames_write(p->frames, b, err) : staging_write(&p->staging, b, err)) < 0)
		return err_in(err, "store");
	put_count(p, p->staging.size);
	if (p->opts.name.size && p->size - p->saved >= STORE_SAVE_EVERY)
		put_save(p);
	if (p->size - p->looked < STORE_SAVE_EVERY)
		return 0;
	p->looked = p->size;
	if (put_claim(p, err) < 0)
		return -1;
	return store_make_room(p->st, 0, err);
}

uint64_t store_put_size(const struct store_put *p)
{
	return p->size;
}

static int put_end(struct store_put *p, struct err *err)
{
	if (p->ended)
		return 0;
	if (p->opts.size != STORE_SIZE_UNKNOWN && p->size != p->opts.size)
		return err_set(err, ERR_INVALID, "store: ends at %llu of %llu bytes",
			       (unsigned long long)p->size, (unsigned long long)p->opts.size);
	if (p->frames && codec_frames_end(p->frames, err) < 0)
		return err_in(err, "store");
	sha256_end(p->sha, p->sha256);
	p->ended = true;
	return 0;
}

int store_put_end(struct store_put *p, struct source **ret, uint8_t ret_sha256[STORE_SHA256_SIZE],
		  struct err *err)
{
	struct source *s = NULL;

	if (put_end(p, err) < 0)
		return -1;
	if (ret) {
		if (staging_source(&p->staging, "upload", &s, err) < 0)
			return -1;
		if (p->frames && codec_frames_open(s, &s, err) < 0)
			return err_in(err, "store");
		*ret = s;
	}
	if (ret_sha256)
		memcpy(ret_sha256, p->sha256, STORE_SHA256_SIZE);
	return 0;
}

static bool put_is_raw(const struct store_put *p)
{
	return p->held ? p->held_raw : !p->frames;
}

char *put_content_name(const struct store_put *p, char out[STORE_CONTENT_NAME_SIZE])
{
	return store_content_name(p->sha256, put_is_raw(p), out);
}

static void put_free(struct store_put *p, bool keep)
{
	if (!keep)
		put_count(p, 0);
	room_release(&p->claim);
	codec_frames_free(p->frames);
	sha256_free(p->sha);
	p->st->blobs->ops->staging_done(p->st->blobs, &p->staging, keep);
	free((void *)p->opts.name.p);
	free(p);
}

void store_put_abort(struct store_put *p)
{
	if (p)
		put_free(p, false);
}

void store_put_leave(struct store_put *p)
{
	bool keep = p && p->opts.name.size && p->size >= CODEC_FRAME_SIZE && (!p->ended || p->saved);

	/* After a failure the bytes may be in memory alone, and no later sync would say so. */
	if (keep && !p->ended)
		keep = fdatasync(p->staging.fd) == 0;
	if (keep && !p->ended)
		put_save(p);
	if (p)
		put_free(p, keep);
}

/* ---- the commit ---- */

struct commit {
	struct store *st;
	struct store_put *put;
	const struct store_key *key;
	const struct store_meta *meta; /* as it will be written */
	enum store_policy policy;
	struct buf name, record;
	struct store_meta own;               /* c->meta with the owner of the existing object */
	const struct store_record *replaces; /* of other bytes; NULL: none */
	bool named;                          /* the existing object has got an alias */
	bool mended;                         /* its content was damaged, and is put again */
	bool has_kept;                       /* a try before has kept an earlier version, of this content: */
	uint8_t kept[STORE_SHA256_SIZE];
	struct arena arena; /* of the existing record */
};

static void commit_done(struct commit *c)
{
	buf_done(&c->name);
	buf_done(&c->record);
	arena_done(&c->arena);
}

/* 0: write the new record. STORE_KEPT, STORE_SAME, STORE_OWNED. */
static int commit_judge(const struct commit *c, const struct store_meta *old)
{
	int r = object_judge(old, c->meta, c->policy);

	/* Of two pushes of equal worth the later one stays, wherever that came. */
	if (r == 0 && c->put->held && old->origin == STORE_PUSHED && old->quality == c->meta->quality &&
	    old->created > c->meta->created)
		return STORE_KEPT;
	return r;
}

/* A content that exists is read before it stays: if it is damaged, these bytes, which are not, replace it. */
static int commit_put_content(const struct commit *c, struct err *err)
{
	struct blobs *b = c->st->blobs;
	char name[STORE_CONTENT_NAME_SIZE];
	bool whole;

	if (content_is_whole(c->st, c->meta, &whole, err) < 0 ||
	    b->ops->put_staged(b, store_content_name(c->meta->sha256, c->meta->raw, name), &c->put->staging,
			       whole, err) < 0)
		return -1;
	content_note_whole(c->st, c->meta);
	return 0;
}

/*
 * The existing object is the outcome: make it durable, since its writer may not have done so yet.
 * BLOB_MISSING: its record or content is gone, or these bytes have to be written in its place.
 */
static int commit_settle(const struct commit *c, const struct store_record *old, int outcome, struct err *err)
{
	struct err why = { 0 };
	bool whole = true;
	int r = outcome == STORE_SAME ? content_is_whole(c->st, &old->meta, &whole, err) : 0;

	if (r < 0 || !whole)
		return r < 0 ? -1 : BLOB_MISSING;
	r = record_settle(c->st, (const char *)c->name.p, old, &why);
	if (r < 0 && outcome == STORE_SAME)
		return BLOB_MISSING;
	if (r < 0)
		*err = why;
	return r;
}

/*
 * The object that is replaced becomes an earlier version. A try is in vain if the record was touched by a reader, or
 * replaced by the thread that compresses: the next one must not keep the same version again, in the place of others.
 */
static int commit_keep_replaced(struct commit *c, struct err *err)
{
	const uint8_t *sha256 = c->replaces->meta.sha256;
	int r;

	if (c->has_kept && memcmp(c->kept, sha256, sizeof(c->kept)) == 0)
		return 0;
	r = past_add(c->st, (const char *)c->name.p, c->replaces, c->meta->from, err);
	if (r == 0) {
		c->has_kept = true;
		memcpy(c->kept, sha256, sizeof(c->kept));
	}
	return r;
}

/* Write the content, then the record in the place of @expect. BLOB_CHANGED. */
static int commit_put_both(struct commit *c, const struct blob_stamp *expect, bool *counted, struct err *err)
{
	int64_t from_ns = store_now_ns();
	bool there = false;
	int r;

	if (store_content_there(c->st, c->meta, &there, err) < 0 || commit_put_content(c, err) < 0)
		return -1;
	if (!there && !*counted) {
		store_usage_add(c->st, (int64_t)c->meta->stored_size);
		*counted = true;
	}
	r = c->replaces ? commit_keep_replaced(c, err) : 0;
	if (r == 0)
		r = record_put(c->st, (const char *)c->name.p, buf_bytes(&c->record), c->meta, expect,
			       from_ns, err);
	if (r == BLOB_MISSING)
		return commit_put_content(c, err);
	return r == BLOB_UNMET ? BLOB_CHANGED : r;
}

/* Was any of them new? */
static bool add_hashes(struct store_meta *to, const struct store_meta *from)
{
	bool added = false;

	for (size_t i = 0; i < STORE_MAX_HASHES; i++)
		added |= store_meta_add_hash(to, &from->hashes[i]);
	return added;
}

/* The object keeps its owner, and the hashes by which its program is known; other bytes become an earlier version. */
static void commit_take_over(struct commit *c, const struct store_record *old, bool replaces)
{
	struct str owner = store_owner(&old->meta);
	struct store_meta meta = *c->meta;
	bool owned = owner.size && !str_eq(owner, meta.owner) && meta.origin == STORE_PUSHED;

	c->replaces = replaces ? old : NULL;
	if (!add_hashes(&meta, &old->meta) && !owned)
		return;
	if (owned)
		meta.owner = owner;
	c->own = meta;
	c->meta = &c->own;
	c->record.size = 0;
	store_record_write(c->key, c->meta, &c->record);
}

/*
 * The existing object stays, and gets the hash that its program is also known by: profiles of a program that was stripped in
 * another way have that one. BLOB_CHANGED: another writer was faster.
 */
static int commit_add_hash(struct commit *c, const struct store_record *old, struct err *err)
{
	struct blobs *b = c->st->blobs;
	AUTO(buf_done) struct buf record = { 0 };
	struct store_meta meta = old->meta;
	char content[STORE_CONTENT_NAME_SIZE];
	int r;

	if (!add_hashes(&meta, c->meta))
		return 0;
	store_record_write(c->key, &meta, &record);
	if (record.size > STORE_MAX_RECORD)
		return 0;
	r = b->ops->put(b, (const char *)c->name.p, buf_bytes(&record),
			store_content_name(meta.sha256, meta.raw, content), &old->stamp, err);
	if (r)
		return r == BLOB_UNMET ? BLOB_CHANGED : r;
	record_note_durable(c->st, (const char *)c->name.p, buf_bytes(&record), &meta);
	object_list_put(c->st->objects, (const char *)c->name.p, c->key, &meta);
	atomic_fetch_add(&c->st->generation, 1);
	c->named = true;
	return 0;
}

/* Another file may have been found by its build ID, as an alias of that file. */
static bool is_named_anew(const struct store_key *key)
{
	return (key->kind == STORE_EXECUTABLE || key->kind == STORE_DEBUGINFO) &&
	       build_id_may_be_alias(&key->id);
}

static int commit_run(struct commit *c, bool *ret_replaced, struct err *err)
{
	bool counted = false;

	for (unsigned i = 0; i < COMMIT_TRIES; i++) {
		struct store_record old = { 0 };
		struct err why = { 0 };
		bool there = false, same = false;
		int r, outcome;

		c->replaces = NULL;
		r = store_record_get(c->st, (const char *)c->name.p, &c->arena, &old, &why);
		if (r < 0 && why.kind != ERR_INVALID) {
			*err = why;
			return -1;
		}
		/* A damaged record is treated as missing: the new one takes its place. */
		if (r == 0) {
			if (store_content_there(c->st, &old.meta, &there, err) < 0)
				return -1;
			outcome = there ? commit_judge(c, &old.meta) : 0;
			if (outcome == STORE_OWNED)
				return outcome;
			r = outcome ? commit_settle(c, &old, outcome, err) : BLOB_MISSING;
			c->mended |= outcome == STORE_SAME && r == BLOB_MISSING;
			if (r == 0)
				r = commit_add_hash(c, &old, err);
			if (r == BLOB_CHANGED)
				continue;
			if (r <= 0)
				return r < 0 ? -1 : outcome;
			same = there && memcmp(old.meta.sha256, c->meta->sha256, STORE_SHA256_SIZE) == 0;
			commit_take_over(c, &old, there && !same);
		}
		r = commit_put_both(c, &old.stamp, &counted, err);
		if (r == 0 && c->replaces)
			(void)past_trim(c->st, (const char *)c->name.p, false, NULL);
		if (r == 0)
			object_list_put(c->st->objects, (const char *)c->name.p, c->key, c->meta);
		if (r == 0 && c->meta->later)
			pack_add(c->st->pack, (const char *)c->name.p, c->meta->stored_size);
		if (r == 0 && !same && (there || is_named_anew(c->key)))
			atomic_fetch_add(&c->st->generation, 1);
		if (r == 0 && there && !same)
			store_wake(c->st, true);
		*ret_replaced = there;
		if (r != BLOB_CHANGED)
			return r ? r : same ? STORE_SAME : 0;
	}
	return err_set(err, ERR_IO, "too many writers of one object at once; try again");
}

/* The object's fields are complete. */
static int put_commit(struct store_put *p, const struct store_key *key, const struct store_meta *full,
		      enum store_policy policy, struct err *err)
{
	AUTO(commit_done) struct commit c = { .st = p->st, .put = p, .key = key, .policy = policy };
	const struct store_options *o = &p->st->opts;
	bool replaced = false;
	int r = 0;

	c.meta = full;
	store_record_name(key, &c.name);
	buf_cstr(&c.name);
	store_record_write(key, full, &c.record);
	if (c.record.size > STORE_MAX_RECORD)
		r = err_set(err, ERR_LIMIT, "its record is longer than %zu bytes", STORE_MAX_RECORD);
	/* Its bytes are counted as staged: to ask for as much again would remove twice as much. */
	if (r == 0)
		r = o->quota && full->stored_size > o->quota ? STORE_FULL : store_make_room(p->st, 0, err);
	/* From now on the bytes count as a content. */
	put_count(p, 0);
	if (r == 0) {
		store_look(p->st, key, 1, p);
		r = commit_run(&c, &replaced, err);
		store_look_end(p->st);
	}
	/* Readers of a damaged content have failed, and try again now. */
	if ((r == 0 || c.named || (r == STORE_SAME && c.mended)) && o->committed && !p->held)
		o->committed(o->committed_arg, key, full, r == 0 && replaced);
	return r;
}

int store_put_commit(struct store_put *p, const struct store_key *key, const struct store_meta *meta,
		     enum store_policy policy, struct err *err)
{
	struct store *st = p->st;
	struct store_meta full = *meta;
	bool may_hold = meta->origin == STORE_PUSHED && hold_takes(st->hold), away;
	int r;

	if (put_end(p, err) < 0) {
		store_put_abort(p);
		return -1;
	}
	memcpy(full.sha256, p->sha256, STORE_SHA256_SIZE);
	full.size = p->size;
	full.stored_size = p->staging.size;
	full.raw = put_is_raw(p);
	full.later = p->later;
	full.created = clock_wall_s();
	/* A push must not overtake those of its build ID that wait. */
	if (may_hold && (hold_is_away(st->hold) || hold_waits(st->hold, &key->id))) {
		r = hold_push(st, key, &full, policy, &p->staging, err);
	} else {
		r = put_commit(p, key, &full, policy, err);
		if (r < 0 && blob_is_away(err) && may_hold && store_may_hold(st, true))
			r = hold_push(st, key, &full, policy, &p->staging, err);
	}
	put_count(p, 0);
	away = r < 0 && blob_is_away(err) && p->saved;
	if (away)
		put_count(p, p->staging.size);
	put_free(p, away);
	return r < 0 ? err_in(err, "store") : r;
}

int put_commit_held(struct store *st, int fd, const struct store_key *key, const struct store_meta *meta,
		    enum store_policy policy, struct err *err)
{
	struct store_put *p = NEW(struct store_put);
	int r;

	p->st = st;
	p->staging = (struct staging){ .fd = fd, .size = meta->stored_size };
	p->size = meta->size;
	p->ended = p->held = true;
	p->held_raw = meta->raw;
	memcpy(p->sha256, meta->sha256, sizeof(p->sha256));
	r = put_commit(p, key, meta, policy, err);
	put_free(p, false);
	return r;
}

int store_put_bytes(struct store *st, const struct store_key *key, const struct store_meta *meta, bool raw,
		    struct bytes b, enum store_policy policy, struct err *err)
{
	const struct store_put_options opts = { .raw = raw, .size = b.size };
	struct store_put *p;
	int r = store_put_begin(st, &opts, &p, err);

	if (r)
		return r;
	r = store_put_write(p, b, err);
	if (r) {
		store_put_abort(p);
		return r;
	}
	return store_put_commit(p, key, meta, policy, err);
}
